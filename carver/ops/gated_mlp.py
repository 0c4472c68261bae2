"""The first half of a gated MLP: two matmuls of one operand, joined element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base import dtypes
from ..problem.problem import Problem
from . import arrays
from .operator import ACCUM_DTYPE, DTYPE, OUT_DTYPE, Argument, Operator
from .template import Template, accumulator, output_type


class GatedMLPTemplate(Template):
    """C = silu(A W0) * (A W1): A is M x K, both weights K x N (`trans_B`: N x K), adjacent in memory."""

    def __init__(
        self,
        M: int,
        N: int,
        K: int,
        trans_B: bool = False,
        in_dtype: str = "float16",
        out_dtype: str | None = None,
        accum_dtype: str | None = None,
    ) -> None:
        kind = dtypes.canonical(in_dtype)
        types = {"A": kind, "W": kind, "C": output_type(kind, out_dtype)}
        sizes, accumulate = {"m": M, "n": N, "k": K, "u": 2}, accumulator(kind, accum_dtype)
        computes = f"C[m,n] += A[m,k] * W[u,{'n,k' if trans_B else 'k,n'}]"
        super().__init__(Problem("gated_mlp", computes, sizes, types, accumulate, {"trans_b": trans_B}))


def _transposed(problem: Problem) -> bool:
    """Whether the weights are stored N x K."""
    return problem.statement.inputs[1].axes[-1] == "k"


def reference(problem: Problem, inputs: Mapping[str, Any], xp: Any) -> tuple[Any, Any]:
    """silu(g) u; |d silu / d g| is at most 1.1."""
    a, w, product = inputs["A"], inputs["W"], f"mk,{'unk' if _transposed(problem) else 'ukn'}->umn"
    gate, up = xp.einsum(product, a, w)
    gate_size, up_size = xp.einsum(product, abs(a), abs(w))
    value = arrays.silu(gate, xp)
    return value * up, abs(value) * up_size + 1.1 * gate_size * abs(up)


def library(problem: Problem, operands: Sequence[Any], out: Any, xp: Any) -> Callable[[], object] | None:
    """torch in four calls: it fuses none of them."""
    if xp is np:
        return None
    a, w = operands
    gate, up = w.transpose(1, 2) if _transposed(problem) else w
    return lambda: xp.mul(xp.nn.functional.silu(a @ gate), a @ up, out=out)


OPERATOR = Operator(
    "gated_mlp",
    GatedMLPTemplate,
    "C = silu(A G) * (A U): M x K times two matrices of K x N.",
    (
        Argument("M"), Argument("N"), Argument("K"), Argument("trans_B", "both matrices are stored N x K", "--trans-b"),
        DTYPE, OUT_DTYPE, ACCUM_DTYPE,
    ),
    reference=reference,
    library=library,
    approximates=lambda _: True,
)  # fmt: skip
