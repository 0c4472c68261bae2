"""Which programs of a grid are evaluated, and which iterations of a loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.types import FloatArray

MOST_PROGRAMS, RUN_OF_PROGRAMS = 4224, 1056
"""Grids up to the first are evaluated whole, of others as many runs of consecutive programs as come to it."""
MOST_LANES = 30_000


def sampled(count: int) -> tuple[Any, tuple[tuple[int, int], ...]]:
    """The programs of a grid of `count` that are evaluated, and the half-open ranges of their places that hold
    consecutive ones."""
    if count <= MOST_PROGRAMS:
        return np.arange(count), ((0, count),)
    parts = MOST_PROGRAMS // RUN_OF_PROGRAMS
    starts = np.linspace(0, count - RUN_OF_PROGRAMS, parts).astype(np.int64)
    ranges = tuple((i * RUN_OF_PROGRAMS, (i + 1) * RUN_OF_PROGRAMS) for i in range(parts))
    return np.concatenate([np.arange(s, s + RUN_OF_PROGRAMS) for s in starts]), ranges


def iterations(trips: Any, entered: Any, straight: bool) -> tuple[Any, Any, FloatArray, tuple[Any, Any, Any]]:
    """Lanes of a loop's body: their lane outside, their iteration, how many iterations each stands for; and for each
    lane outside its first and last lane and its trips."""
    t = trips[entered]
    n = np.minimum(t, 3 if straight else max(3, MOST_LANES // len(entered)))
    index = np.repeat(entered, n)
    first = np.cumsum(n) - n
    place = np.arange(len(index)) - np.repeat(first, n)
    count, total = np.repeat(n, n), np.repeat(t, n)
    at = np.where(count > 1, place * (total - 1) // np.maximum(count - 1, 1), 0)
    ends = first, first + n - 1, t
    if straight:
        return index, at, np.where((place == 1) & (count == 3), total - 2, 1).astype(float), ends
    return index, at, total / count, ends
