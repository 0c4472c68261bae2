"""Which programs of a grid are evaluated, and which iterations of a loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.types import FloatArray

MOST_PROGRAMS, RUNS = 4224, 4
"""Grids of so many programs are evaluated whole, of larger ones RUNS runs of consecutive programs that come to it."""
MORE = 8
"""So many times as many, where the programs have no loops and cost little each."""
MOST_LANES = 30_000


def sampled(
    count: int, loops: bool = True, least: int = 0, inside: bool = False
) -> tuple[Any, tuple[tuple[int, int], ...]]:
    """The programs of a grid of `count` that are evaluated, and the half-open ranges of their places that hold
    consecutive ones. `loops`: whether programs have any. `least`: so many are enough. `inside`: the runs lie in the
    middle of equal parts of the grid, where the edges of what it covers have no more than their share."""
    most = MOST_PROGRAMS if loops else MOST_PROGRAMS * MORE
    most = min(most, least) if least else most
    if count <= most:
        return np.arange(count), ((0, count),)
    run = most // RUNS
    starts = np.linspace(0, count - run, RUNS).astype(np.int64)
    if inside:
        starts = (2 * np.arange(RUNS) + 1) * count // (2 * RUNS) - run // 2
    ranges = tuple((i * run, (i + 1) * run) for i in range(RUNS))
    return np.concatenate([np.arange(s, s + run) for s in starts]), ranges


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
