"""Matmuls of operands with scales: 8-bit types, or weights of few bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base import dtypes
from ..base.errors import ProblemError
from ..problem.problem import Problem
from .matmul import SCALE_BLOCK, MatmulTemplate
from .operator import OUT_DTYPE, Argument, Operator


class ScaledMatmulTemplate(MatmulTemplate):
    """C = A B^T: A is M x K with a scale a row and `scale_block[1]` of K, B is N x K with a scale a block.

    The same as `MatmulTemplate(..., trans_B=True, scale_block=...)`, which says what else `scale_block` may be. Weights
    narrower than A are stored K x N unless `trans_B` says otherwise.
    """

    def __init__(
        self,
        M: int,
        N: int,
        K: int,
        scale_block: Sequence[int] | str = "128x128",
        in_dtype: str = "float8_e4m3",
        out_dtype: str | None = None,
        b_dtype: str | None = None,
        trans_B: bool | None = None,
    ) -> None:
        alike = dtypes.element_bytes(dtypes.canonical(in_dtype, packed=True)) <= 1
        super().__init__(
            M, N, K, trans_B=alike if trans_B is None else trans_B, in_dtype=in_dtype, b_dtype=b_dtype,
            out_dtype=out_dtype or ("bfloat16" if alike else None), scale_block=scale_block,
        )  # fmt: skip


def reference(problem: Problem, inputs: Mapping[str, Any], xp: Any) -> tuple[Any, Any]:
    raise ProblemError(f"{problem} has no reference: its scales are no tensors of its notation")


OPERATOR = Operator(
    "scaled_matmul",
    ScaledMatmulTemplate,
    "C = A B of operands with scales: M x K times K x N; of 8 bits B is stored N x K.",
    (
        Argument("M"), Argument("N"), Argument("K"),
        Argument("in_dtype", "type of the operands", "--dtype", metavar="TYPE"),
        Argument("b_dtype", "type of B, if it differs from A's, such as int4", "--b-dtype", metavar="TYPE"), OUT_DTYPE,
        SCALE_BLOCK,
    ),
    reference=reference,
)  # fmt: skip
