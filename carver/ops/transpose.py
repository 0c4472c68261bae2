"""The transpose of a matrix, batched."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..base import dtypes
from ..problem.problem import Problem
from . import elementwise
from .operator import Operator, Template, wide


class TransposeTemplate(Template):
    """Y[b,j,i] = X[b,i,j]: `batch` matrices of `rows` x `cols`."""

    def __init__(self, rows: int, cols: int, batch: int = 1, dtype: str = "float16") -> None:
        kind = dtypes.canonical(dtype)
        sizes = {"b": batch, "i": rows, "j": cols}
        options = {"flops_per_element": 0}
        super().__init__(
            Problem("transpose", "Y[b,j,i] = X[b,i,j]", sizes, {"Y": kind, "X": kind}, wide(kind), options)
        )


def recognise(problem: Problem) -> Problem | None:
    """One operand, and a result whose axes are those of a transposed matrix: leading ones kept, the rest rotated."""
    s = problem.statement
    given = s.inputs[0]
    if s.reduced or len(s.inputs) > 1 or len(set(problem.dtypes.values())) > 1 or not given.is_plain:
        return None
    have, want = given.axes, s.output.axes
    kept = next((i for i, (a, b) in enumerate(zip(have, want, strict=True)) if a != b), len(have))
    turned, found = have[kept:], want[kept:]
    for cut in range(1, len(turned)):
        if found == (*turned[cut:], *turned[:cut]):
            batch, rows, cols = (
                prod(problem.sizes[a] for a in axes) for axes in (have[:kept], turned[:cut], turned[cut:])
            )
            form = TransposeTemplate(rows, cols, batch, problem.dtypes[given.name]).problem
            return replace(form, written=problem.computes)
    return None


OPERATOR = Operator(
    "transpose",
    TransposeTemplate,
    "Y = X transposed: ROWS x COLS.",
    reference=elementwise.reference,
    library=elementwise.library,
    recognise=recognise,
)
