"""The tables in the repository: what the first picks cost must not grow, nor predictions drift from what was measured.

The bounds are the figures of the README with a little room; they are lowered when the model gets better.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from carver.evaluate.cases import Case
from carver.evaluate.score import geometric_mean, score
from carver.evaluate.tables import read

H200 = Path(__file__).parent / "data" / "h200"


@pytest.mark.parametrize(
    ("table", "first", "ten"),
    [
        ("gemm.json.gz", 1.02, 1.003),
        ("more.json.gz", 1.05, 1.01),
        ("types.json.gz", 1.03, 1.002),
        ("fp64.json.gz", 1.04, 1.02),
        ("memory.json.gz", 1.03, 1.01),
        ("attention.csv", 1.055, 1.01),
        ("triton_matmul.csv", 1.06, 1.008),
        ("triton_more.csv", 1.06, 1.005),
        ("triton_raster.csv", 1.07, 1.015),
        ("feed_triton.csv", 1.03, 1.002),
        ("feed_portfolio.csv", 1.02, 1.002),
        ("xgemm.csv", 1.01, 1.001),
        ("conv.csv", 1.02, 1.001),
    ],
)
def test_first_picks_on_an_h200(table: str, first: float, ten: float) -> None:
    cases = [c for c in read(H200 / table, lambda remark: None) if isinstance(c, Case)]
    scores = [score(c, (1, 10)) for c in cases]
    assert geometric_mean([s.slowdown[1] for s in scores]) <= first
    assert geometric_mean([s.slowdown[10] for s in scores]) <= ten
    off = {
        str(c.problem): s.log_error
        for c, s in zip(cases, scores, strict=True)
        if s.log_error > math.log(2)
    }
    assert not off, "median |log(predicted / measured)| near the best"
