"""A matmul whose rows are normalised before they are stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base import dtypes
from ..problem.problem import Problem
from . import arrays
from .operator import BATCH, DTYPE, OUT_DTYPE, Argument, Operator
from .template import Template, accumulator, output_type


class MatmulSoftmaxTemplate(Template):
    """P = softmax(A B) along the rows: A is M x K, B is K x N (N x K with `trans_B`), batched."""

    def __init__(
        self,
        M: int,
        N: int,
        K: int,
        batch: int = 1,
        trans_B: bool = False,
        in_dtype: str = "float16",
        out_dtype: str | None = None,
    ) -> None:
        kind = dtypes.canonical(in_dtype)
        types = {"A": kind, "B": kind, "P": output_type(kind, out_dtype)}
        computes = f"P[b,m,n] += A[b,m,k] * B[b,{'n,k' if trans_B else 'k,n'}]"
        sizes = {"b": batch, "m": M, "n": N, "k": K}
        super().__init__(Problem("matmul_softmax", computes, sizes, types, accumulator(kind), {"trans_b": trans_B}))


def reference(problem: Problem, inputs: Mapping[str, Any], xp: Any) -> tuple[Any, Any]:
    """softmax of the notation's sum along its last axis. An error of a sum scales its weight by e^error."""
    total, magnitude = arrays.value(problem, inputs, xp)
    value = arrays.softmax(total, xp)
    return value, value * (1 + xp.amax(magnitude, -1)[..., None])


def library(problem: Problem, operands: Sequence[Any], out: Any, xp: Any) -> Callable[[], object] | None:
    """torch in two calls, the second in place."""
    call = arrays.product_call(problem, operands, out, xp)
    if xp is np or call is None:
        return None

    def both() -> None:
        call()
        xp.softmax(out, -1, out=out)

    return both


OPERATOR = Operator(
    "matmul_softmax",
    MatmulSoftmaxTemplate,
    "P = softmax(A B), row by row: M x K times K x N.",
    (
        Argument("M"), Argument("N"), Argument("K"), BATCH, Argument("trans_B", "B is stored N x K", "--trans-b"),
        DTYPE, OUT_DTYPE,
    ),
    reference=reference,
    library=library,
    approximates=lambda _: True,
)  # fmt: skip
