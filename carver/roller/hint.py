"""`from carver.roller.hint import Hint`."""

from ..hint import Hint

__all__ = ["Hint"]
