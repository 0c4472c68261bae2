"""What threads stored where other code loads it: words of shared memory by block, and of the stack by thread."""

from __future__ import annotations

import numpy as np

from .lanes import Array

MOST_WORDS = 1 << 23
"""That are kept at a time."""
IN_BLOCK = (1 << 24) - 1
"""Bits of a place in shared memory; those above name the block of a cluster."""
GUESSED, KNOWN = 1, 2
"""How a word was stored. One that is not known has 0 for what is not known of it, which tells tensors."""


class Memory:
    """Words by owner and address in bytes."""

    def __init__(self, owners: int) -> None:
        self._low, self._bits = 0, np.zeros((owners, 0), np.int64)
        self._how = np.zeros((owners, 0), np.uint8)
        self.empty = True

    def forget(self) -> None:
        """What was known may have changed."""
        self._how[self._how == KNOWN] = 0

    def store(self, owner: Array, address: Array, bits: Array, known: Array) -> None:
        word = (address & IN_BLOCK) >> 2
        if not len(word) or not self._grown(int(word.min()), int(word.max()) + 1):
            self.forget()
            return
        self._bits[owner, word - self._low] = bits
        self._how[owner, word - self._low] = np.where(known, KNOWN, GUESSED)
        self.empty = False

    def loaded(self, owner: Array, address: Array) -> tuple[Array, Array]:
        """Words, and how each was stored, 0 where it was not."""
        word = ((address & IN_BLOCK) >> 2) - self._low
        inside = (word >= 0) & (word < self._bits.shape[1])
        at = owner, np.where(inside, word, 0)
        return self._bits[at], np.where(inside, self._how[at], 0)

    def _grown(self, begin: int, end: int) -> bool:
        """Whether words from `begin` to `end` have their place now."""
        owners, count = self._bits.shape
        if not count:
            self._low = begin
        low, high = min(begin, self._low), max(end, self._low + count)
        if (high - low) * owners > MOST_WORDS:
            return False
        if high - low > count:
            room = (0, 0), (self._low - low, high - self._low - count)
            self._bits, self._how = np.pad(self._bits, room), np.pad(self._how, room)
            self._low = low
        return True
