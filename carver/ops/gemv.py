"""Products of a matrix and a vector, batched."""

from __future__ import annotations

from functools import cache

from ..base import dtypes
from ..problem.problem import Problem
from . import matmul
from .operator import ACCUM_DTYPE, BATCH, BIAS, DTYPE, OUT_DTYPE, Argument, Operator, respelt
from .template import Template, accumulator, output_type


class GEMVTemplate(Template):
    """y = A x, batched: A is N x K, or K x N with `trans_A`."""

    def __init__(
        self,
        N: int,
        K: int,
        batch: int = 1,
        trans_A: bool = False,
        in_dtype: str = "float16",
        out_dtype: str | None = None,
        accum_dtype: str | None = None,
        with_bias: bool = False,
    ) -> None:
        a = dtypes.canonical(in_dtype)
        types = {"Y": output_type(a, out_dtype), "X": a, "A": a}
        matrix = "A[b,k,n]" if trans_A else "A[b,n,k]"
        sizes = {"b": batch, "n": N, "k": K}
        accumulate, options = accumulator(a, accum_dtype), {"trans_a": trans_A, "bias": with_bias}
        super().__init__(Problem("gemv", f"Y[b,n] += X[b,k] * {matrix}", sizes, types, accumulate, options))


@cache
def _forms() -> tuple[Problem, ...]:
    return tuple(GEMVTemplate(1, 1, trans_A=a).problem for a in (False, True))


OPERATOR = Operator(
    "gemv",
    GEMVTemplate,
    "y = A x: N x K times K.",
    (
        Argument("N"), Argument("K"), BATCH, DTYPE, OUT_DTYPE, ACCUM_DTYPE,
        Argument("trans_A", "A is stored K x N", "--trans-a"), BIAS,
    ),
    reference=matmul.reference,
    library=matmul.library,
    macros=matmul.macros,
    recognise=lambda problem: respelt(problem, _forms()),
)  # fmt: skip
