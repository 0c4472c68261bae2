"""The names that code written for TileLang's Carver imports from its `roller`; the objects are carver's own."""

from ..ranking.hint import Hint as Hint
from .rasterization import NoRasterization as NoRasterization
from .rasterization import Rasterization2DColumn as Rasterization2DColumn
