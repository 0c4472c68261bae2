"""Predicted rates of first picks against those that libraries were seen to reach, by others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs_site import published, rates, ratio

HERE = Path(__file__).parent
ROWS = published()
LOW, HIGH = 0.7, 1.15


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['device']}-{row['dtype']}-{row['N']}")
def test_a_first_pick_is_predicted_near_what_libraries_reach(row: dict[str, str]) -> None:
    near = LOW <= ratio(row) <= HIGH
    assert near != bool(row["exception"]), f"{ratio(row):.2f}: {row['exception'] or 'without a reason'}"


@pytest.mark.slow
def test_the_page_names_every_source_and_the_site_has_every_row() -> None:
    page = (HERE.parent / "docs" / "evidence" / "published_rates.md").read_text(encoding="utf-8")
    sources = dict(re.findall(r"^\* `([\w-]+)`: (.+)$", page, re.M))
    assert {row["source"] for row in ROWS} == sources.keys()
    table = re.findall(r"^\| (\w+) \| (\w+) \| ([\d x]+) \| ([\d.]+) \|", rates(), re.M)
    size = "{M} x {N} x {K}"
    assert {(r["device"], r["dtype"], size.format(**r), r["tflops"]) for r in ROWS} == set(table)
