"""`from carver.roller.hint import Hint`."""

from ..hint import Hint as Hint
