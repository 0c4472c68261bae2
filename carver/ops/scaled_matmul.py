"""Matmuls of 8-bit operands that are scaled block by block, within the sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.errors import ProblemError
from ..problem.problem import Problem
from .matmul import SCALE_BLOCK, MatmulTemplate
from .operator import OUT_DTYPE, Argument, Operator


class ScaledMatmulTemplate(MatmulTemplate):
    """C = A B^T: A is M x K with a scale a row and `scale_block[1]` of K, B is N x K with a scale a block.

    The same as `MatmulTemplate(..., trans_B=True, scale_block=...)`.
    """

    def __init__(
        self,
        M: int,
        N: int,
        K: int,
        scale_block: Sequence[int] | str = "128x128",
        in_dtype: str = "float8_e4m3",
        out_dtype: str = "bfloat16",
    ) -> None:
        super().__init__(M, N, K, trans_B=True, in_dtype=in_dtype, out_dtype=out_dtype, scale_block=scale_block)


def reference(problem: Problem, inputs: Mapping[str, Any], xp: Any) -> tuple[Any, Any]:
    raise ProblemError(f"{problem} has no reference: its scales are no tensors of its notation")


OPERATOR = Operator(
    "scaled_matmul",
    ScaledMatmulTemplate,
    "C = A B^T of 8-bit operands with a scale a block: M x K times N x K.",
    (
        Argument("M"), Argument("N"), Argument("K"),
        Argument("in_dtype", "operands", "--dtype", metavar="TYPE"), OUT_DTYPE, SCALE_BLOCK,
    ),
    reference=reference,
)  # fmt: skip
