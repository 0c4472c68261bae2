"""`from carver.template import MatmulTemplate`, as code written for TileLang's Carver imports it."""

from .ops.elementwise import ElementwiseTemplate
from .ops.matmul import GEMVTemplate, MatmulTemplate
from .ops.reduction import GeneralReductionTemplate

__all__ = ["ElementwiseTemplate", "GEMVTemplate", "GeneralReductionTemplate", "MatmulTemplate"]
