"""Matmuls with more than an element-wise epilogue: a gated MLP's first half, a softmax over the rows."""

from __future__ import annotations

from ..base import dtypes
from ..problem.problem import Problem
from .templates import Template, accumulator, output_type


class GatedMLPTemplate(Template):
    """C = silu(A W0) * (A W1): A is M x K, both weights K x N (`trans_B`: N x K), one behind the other in memory."""

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
        super().__init__(Problem("gated_mlp", computes, sizes, types, accumulate))


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
        super().__init__(Problem("matmul_softmax", computes, sizes, types, accumulator(kind)))
