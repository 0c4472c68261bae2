"""Predicted rates of first picks against those that libraries were seen to reach, by others."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

import carver

HERE = Path(__file__).parent
ROWS = list(csv.DictReader(line for line in (HERE / "data" / "published_rates.csv").open() if line[0] != "#"))
LOW, HIGH = 0.7, 1.15


def ratio(row: dict[str, str]) -> float:
    """Predicted rate of the first pick over the published one."""
    op = carver.MatmulTemplate(int(row["M"]), int(row["N"]), int(row["K"]), in_dtype=row["dtype"], trans_B=True)
    (hint,) = op.with_arch(row["device"]).recommend_hints(1)
    return float(hint.details["tflops"]) / float(row["tflops"])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['device']}-{row['dtype']}-{row['N']}")
def test_a_first_pick_is_predicted_near_what_libraries_reach(row: dict[str, str]) -> None:
    near = LOW <= ratio(row) <= HIGH
    assert near != bool(row["exception"]), f"{ratio(row):.2f}: {row['exception'] or 'without a reason'}"


def test_the_page_has_every_row_and_source() -> None:
    page = (HERE.parent / "docs" / "evidence" / "published_rates.md").read_text(encoding="utf-8")
    sources = dict(re.findall(r"^\* `([\w-]+)`: (.+)$", page, re.M))
    assert {row["source"] for row in ROWS} == sources.keys()
    table = re.findall(r"^\| (\w+) \| (\w+) \| ([\d x]+) \| ([\d.]+) \|", page, re.M)
    size = "{M} x {N} x {K}"
    assert {(r["device"], r["dtype"], size.format(**r), r["tflops"]) for r in ROWS} == set(table)
