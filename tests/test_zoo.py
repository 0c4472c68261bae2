"""benchmarks/zoo.py: its lists are those that were measured."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")
ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = ROOT / "benchmarks"


LISTS = """
import json, zoo
from zoos import more
listed = [json.dumps([s.name, i, c], sort_keys=True) for s, i, c in zoo.cases("triton_zoo", zoo.CONFIGS)]
print(json.dumps([listed, [s.unseen for s in more.SUBJECTS]]))
"""


@pytest.fixture(scope="module")
def lists() -> list[list[Any]]:
    """The candidates of the first zoo and the kernels of the second; from another process, as here `kernels` is another
    module."""
    done = subprocess.run([sys.executable, "-c", LISTS], cwd=BENCHMARKS, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.slow
def test_the_recorded_table_has_the_lists_of_today(lists: list[list[Any]]) -> None:
    table = gzip.decompress((ROOT / "tests" / "data" / "h200" / "zoo.jsonl.gz").read_bytes())
    rows = [json.loads(line) for line in table.splitlines()]
    measured = {json.dumps([r["kernel"], r["problem"], r["config"]], sort_keys=True) for r in rows}
    assert measured <= set(lists[0])


def test_halves_of_the_second_zoo_alternate(lists: list[list[Any]]) -> None:
    assert lists[1] == [False, True] * 13


def test_an_unknown_kernel_is_named(tmp_path: Path) -> None:
    only = ["--only", "causal_atention,layer_norm", "--out", str(tmp_path / "out.jsonl")]
    command = [sys.executable, str(BENCHMARKS / "zoo.py"), "predict", *only]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no kernel is called 'causal_atention'" in done.stderr
