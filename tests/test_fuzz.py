"""Random input to every public entry: a result or an error of carver's own. benchmarks/fuzz.py draws many more."""

from __future__ import annotations

import warnings
from pathlib import Path

import fuzz
import hypothesis
import pytest
from hypothesis import HealthCheck, Phase

CASES = 12
"""Of an entry."""


@pytest.mark.slow
@pytest.mark.parametrize("name", fuzz.ENTRIES)
@pytest.mark.filterwarnings("ignore")
def test_a_result_or_an_error_of_ours(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in ("rank_kernel", "kept facts"):
        pytest.importorskip("triton")
    for folder in ("CACHE", "CONFIG"):
        monkeypatch.setenv(f"CARVER_{folder}_DIR", str(tmp_path / folder))
    entry = fuzz.ENTRIES[name]
    entry.ready()

    @hypothesis.settings(max_examples=CASES, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
                         suppress_health_check=list(HealthCheck))  # fmt: skip
    @hypothesis.given(entry.given)
    def ends(case: object) -> None:
        fuzz.run(entry, case)

    ends()


def test_there_are_results_among_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry whose every case is refused would test nothing behind its first check."""
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    answered = []

    @hypothesis.settings(max_examples=200, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
                         suppress_health_check=list(HealthCheck))  # fmt: skip
    @hypothesis.given(fuzz.ENTRIES["templates"].given)
    def count(case: object) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answered.append(fuzz.run(fuzz.ENTRIES["templates"], case))

    count()
    assert 0.05 < sum(answered) / len(answered) < 0.9
