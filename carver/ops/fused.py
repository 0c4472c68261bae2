"""Fused matmuls: two of one operand, joined element by element, and one with a softmax of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base import dtypes
from ..problem.problem import Problem
from . import arrays
from .operator import ACCUM_DTYPE, BATCH, DTYPE, OUT_DTYPE, Argument, Operator
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


def softmax_reference(problem: Problem, inputs: Mapping[str, Any], xp: Any) -> tuple[Any, Any]:
    """softmax of the notation's sum along its last axis. An error of a sum scales its weight by e^error."""
    total, magnitude = arrays.value(problem, inputs, xp)
    value = arrays.softmax(total, xp)
    return value, value * (1 + xp.amax(magnitude, -1)[..., None])


def softmax_library(problem: Problem, operands: Sequence[Any], out: Any, xp: Any) -> Callable[[], object] | None:
    """torch in two calls, the second in place."""
    call = arrays.product_call(problem, operands, out, xp)
    if xp is np or call is None:
        return None

    def both() -> None:
        call()
        xp.softmax(out, -1, out=out)

    return both


MATMUL_SOFTMAX = Operator(
    "matmul_softmax",
    MatmulSoftmaxTemplate,
    "P = softmax(A B), row by row: M x K times K x N.",
    (
        Argument("M"), Argument("N"), Argument("K"), BATCH, Argument("trans_B", "B is stored N x K", "--trans-b"),
        DTYPE, OUT_DTYPE,
    ),
    reference=softmax_reference,
    library=softmax_library,
    approximates=lambda _: True,
)  # fmt: skip
