"""`from carver.template import MatmulTemplate`, as code written for TileLang's Carver imports it."""

from .ops.templates import ElementwiseTemplate, GEMVTemplate, GeneralReductionTemplate, MatmulTemplate

__all__ = ["ElementwiseTemplate", "GEMVTemplate", "GeneralReductionTemplate", "MatmulTemplate"]
