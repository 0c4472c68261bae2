"""`from carver.template import MatmulTemplate`, as code written for TileLang's Carver imports it."""

from .templates import ElementwiseTemplate as ElementwiseTemplate
from .templates import GEMVTemplate as GEMVTemplate
from .templates import GeneralReductionTemplate as GeneralReductionTemplate
from .templates import MatmulTemplate as MatmulTemplate
