"""Which programs of a grid are evaluated and which iterations of a loop, and lanes that run a stretch of a kernel's
code: programs, or iterations of a loop of programs, as NumPy columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.types import FloatArray
from .values import Column, Described, Value, merged, unknown

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


@dataclass
class Frame:
    """Lanes that run a stretch of code, and what names mean there."""

    program: Any
    weight: FloatArray
    """Times that each lane stands for, within its program."""
    round: FloatArray
    loop: int = -1
    parent: Frame | None = None
    index: Any = None
    """Lane of the parent, of each lane."""
    ends: tuple[Any, Any, Any, Any] | None = None
    """Of the body of a loop without loops: lanes of the first and the last iteration, trips, iteration of each lane."""
    env: dict[str, Any] = field(default_factory=dict)

    @property
    def lanes(self) -> int:
        return len(self.program)

    def get(self, name: str) -> Any:
        """What a name means here: a `Value` or `Described`, unknown where nothing defined it."""
        if name not in self.env:
            if self.parent is None:
                return unknown()
            self.env[name] = self.parent.get(name).take(self.index)
        return self.env[name]

    def child(self, index: Any, **changed: Any) -> Frame:
        """A frame within this one: its lanes are those of `index`, each as often as it stands there."""
        values = {"weight": self.weight[index], "round": self.round[index], "loop": self.loop} | changed
        return Frame(self.program[index], parent=self, index=index, **values)


def within(frame: Frame, ancestor: Frame) -> Any:
    """Lanes of `ancestor` that a frame below it runs."""
    index = np.arange(frame.lanes)
    while frame is not ancestor and frame.parent is not None:
        index, frame = frame.index[index], frame.parent
    return index


def spread(column: Column, index: Any) -> Column:
    """The lanes of `index`; a column that is the same for all stays as it is."""
    return column[index] if len(column) > 1 else column


def iterated(lanes: int, which: Any, before: list[Any], after: list[Any]) -> list[Any]:
    """Carried values once some lanes have made an iteration."""
    if len(which) == lanes:
        return after
    rest = np.setdiff1d(np.arange(lanes), which, assume_unique=True)
    return [
        old if isinstance(old, Described) else merged(lanes, [(rest, old.take(rest)), (which, new)])
        for old, new in zip(before, after, strict=True)
    ]


def changed(before: Sequence[Any], after: Sequence[Any], lanes: int) -> Any:
    """In which lanes a pass of a loop changed any number that it carries."""
    out = np.zeros(lanes, bool)
    for old, new in zip(before, after, strict=True):
        if isinstance(old, Value) and isinstance(new, Value) and (old.base is None) == (new.base is None):
            if old.base is not None:
                out |= old.base != new.base
            for a, b in zip(old.coef, new.coef, strict=True):
                out |= ~np.isclose(a, b, rtol=0.0, atol=0.0, equal_nan=True)
        else:
            out[:] = True
    return out
