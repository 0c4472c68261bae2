"""`from carver.roller.hint import Hint`."""

from ..ranking.hint import Hint

__all__ = ["Hint"]
