"""`from carver.roller.rasterization import NoRasterization`: an object here, a class there; `is not` works for both."""

from ..ranking.hint import NoRasterization, Rasterization2DColumn

__all__ = ["NoRasterization", "Rasterization2DColumn"]
