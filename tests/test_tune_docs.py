"""The reference page names every capability once, and only tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
REFERENCE = "".join((DOCS / page).read_text(encoding="utf-8") for page in ("reference/tuner.md", "howto/caches.md"))
CAPABILITIES = (HERE / "capabilities.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in CAPABILITIES.splitlines()
    if re.match(r"\| \d+ \|", line)
]


def test_every_capability_is_listed_once() -> None:
    assert [int(row[0]) for row in ROWS] == [*range(1, 40), *range(50, 172)]
    assert all(len(row) == 4 and all(row) for row in ROWS)


def test_what_is_left_out_has_a_reason_and_the_rest_a_test() -> None:
    for number, _, where, test in ROWS:
        assert not where.startswith("left out") or len(where) > len("left out: "), number
        assert (test == "-") == (where.startswith("left out") or where.startswith("guide: ")), number


def test_the_tests_exist() -> None:
    for _, _, _, test in ROWS:
        if test == "-":
            continue
        file, _, name = test.strip("`").partition("::")
        text = (HERE / f"{file}.py").read_text(encoding="utf-8")
        assert not name or f"def {name}(" in text, test


def test_the_tests_of_other_tuners_that_it_names_exist() -> None:
    named = re.findall(r"`(test_tune\w*)::(\w+)`", CAPABILITIES)
    assert len(named) > 40
    for file, name in named:
        assert f"def {name}(" in (HERE / f"{file}.py").read_text(encoding="utf-8"), f"{file}::{name}"
    others = CAPABILITIES.partition("| Triton's | here |")[2].partition("| TileLang's")[0]
    assert len(re.findall(r"^\| `test_\w+` \|", others, re.M)) == 18


def test_environment_variables_are_those_that_doctor_prints() -> None:
    from carver.tune.doctor import SETTINGS

    named = set(re.findall(r"`(CARVER_[A-Z_]+)", REFERENCE))
    assert named <= set(SETTINGS)
    assert {name for name in SETTINGS if name.startswith("CARVER_")} <= named | {"CARVER_NVCC"}


def test_nothing_is_to_be_installed_under_a_name_that_no_index_has() -> None:
    """carver is on no index yet, so its extras cannot be had by its name."""
    sources = (DOCS.parent / "carver").rglob("*.py")
    assert [path.name for path in sources if "gpu-carver[" in path.read_text(encoding="utf-8")] == []
