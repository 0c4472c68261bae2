"""The tables in the repository: what the first picks cost must not grow, nor predictions drift from what was measured.

The bounds are the figures of the README with a little room; they are lowered when the model gets better.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks.adapters import read
from carver.calibrate.summary import geometric_mean, score
from carver.calibrate.tables import Case

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize(
    ("table", "first", "ten"),
    [
        ("h200/gemm.json.gz", 1.02, 1.003),
        ("h200/more.json.gz", 1.05, 1.01),
        ("h200/tma.json.gz", 1.045, 1.005),
        ("h200/types.json.gz", 1.03, 1.003),
        ("h200/fp64.json.gz", 1.04, 1.02),
        ("h200/memory.json.gz", 1.03, 1.01),
        ("h200/memory_copy.json.gz", 1.025, 1.001),
        ("h200/memory_more.json.gz", 1.06, 1.01),
        ("h200/statements.json.gz", 1.025, 1.01),
        ("h200/streams.json.gz", 1.04, 1.006),
        ("h200/streams_again.json.gz", 1.035, 1.006),
        ("h200/attention.csv", 1.055, 1.01),
        ("h200/triton_matmul.csv", 1.06, 1.008),
        ("h200/triton_more.csv", 1.05, 1.005),
        ("h200/triton_stream.csv", 1.055, 1.002),
        ("h200/block_fp8.csv", 1.04, 1.005),
        ("h200/triton_raster.csv", 1.07, 1.015),
        ("h200/feed_triton.csv", 1.03, 1.002),
        ("h200/feed_portfolio.csv", 1.02, 1.002),
        ("h200/xgemm.csv", 1.01, 1.001),
        ("h200/conv.csv", 1.02, 1.001),
        ("h100/gemm.json.gz", 1.02, 1.001),
        ("h100/tma.json.gz", 1.04, 1.003),
        ("h100/types.json.gz", 1.04, 1.004),
        ("h100/memory.json.gz", 1.015, 1.005),
        ("h100/memory_copy.json.gz", 1.035, 1.002),
        ("h100/normalise.json.gz", 1.07, 1.003),
        ("h100/memory_turns.json.gz", 1.02, 1.004),
        ("h100/rows.json.gz", 1.02, 1.005),
        ("h100/rows_more.json.gz", 1.03, 1.004),
        ("h100/rows_tiny.json.gz", 1.03, 1.018),
        ("h100/attention.csv", 1.04, 1.006),
        ("h100/triton_matmul.csv", 1.06, 1.012),
        ("h100/triton_more.csv", 1.055, 1.01),
    ],
)
def test_first_picks(table: str, first: float, ten: float) -> None:
    cases = [c for c in read(DATA / table, lambda remark: None) if isinstance(c, Case)]
    scores = [score(c, (1, 10)) for c in cases]
    assert geometric_mean([s.slowdown[1] for s in scores]) <= first
    assert geometric_mean([s.slowdown[10] for s in scores]) <= ten
    off = {
        str(c.problem): s.log_error
        for c, s in zip(cases, scores, strict=True)
        if s.log_error > math.log(2)
    }
    assert not off, "median |log(predicted / measured)| near the best"
