"""`from carver.template import MatmulTemplate`, as code written for TileLang's Carver imports it."""

from .ops.attention import FlashAttentionTemplate
from .ops.conv import ConvTemplate
from .ops.elementwise import ElementwiseTemplate
from .ops.matmul import GEMVTemplate, MatmulTemplate
from .ops.operator import Template as BaseTemplate
from .ops.reduction import GeneralReductionTemplate

__all__ = [
    "BaseTemplate", "ConvTemplate", "ElementwiseTemplate", "FlashAttentionTemplate", "GEMVTemplate",
    "GeneralReductionTemplate", "MatmulTemplate",
]  # fmt: skip
