"""`from carver.roller.rasterization import NoRasterization`: one object here, a class there; `is not` works for both."""

from ..hint import NoRasterization as NoRasterization
from ..hint import Rasterization2DColumn as Rasterization2DColumn
