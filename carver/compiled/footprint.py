"""Distinct bytes that programs access together, computed from their access patterns."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..base.types import FloatArray
from .trace import Access, Trace

WALK = ("start", "stride", "count", "program", "round")
ALIGN_LIMIT = 128
"""Alignment beyond a line is no better."""


def tile_elements(access: Access) -> float:
    """Distinct elements of one tile."""
    return float(
        math.prod(
            -(-n // r) if np.isnan(c) or c != 0 else 1
            for n, c, r in zip(access.shape, access.coef, access.repeat, strict=True)
        )
    )


@dataclass(frozen=True)
class Stretch:
    """Elements of a tile that lie one after another, or apart by less than a sector."""

    run_bytes: float
    """Contiguous."""
    span_bytes: float
    """From its first element to the end of its last gap."""
    asked_bytes: float
    pitch: float
    """Distance of the runs within it. [elements]"""

    @classmethod
    def of(cls, access: Access, sector_bytes: float) -> Stretch:
        """That of an access: dimensions join from the smallest step on, one of them with gaps of less than a sector."""
        run = span = asked = pitch = 1.0
        dimensions = zip(access.shape, access.coef, access.repeat, strict=True)
        for step, n in sorted((abs(c) * r, -(-n // r)) for n, c, r in dimensions if c and not math.isnan(c)):
            if step != span and (pitch > 1 or not span < step < sector_bytes / access.item_bytes):
                break
            if step != span:
                run, pitch = span, step
            span, asked = step * n, asked * n
        run = run if pitch > 1 else span
        size = access.item_bytes
        return cls(run * size, span * size, asked * size, pitch)


def density(access: Access, stretch: Stretch, others: Sequence[Access]) -> float:
    """Share of a stretch's bytes that are used. Of a load, those count that `others` of the loop read in its gaps, as
    where one reads the even elements and another the odd ones: L1 has them by then."""
    one = stretch.asked_bytes / stretch.span_bytes
    if one == 1 or access.kind != "load":
        return one
    first = access.start // stretch.pitch
    beside = {
        other.start.tobytes()
        for other in others
        if (other.kind, other.argument, other.loop, other.shape, other.coef, other.item_bytes)
        == (access.kind, access.argument, access.loop, access.shape, access.coef, access.item_bytes)
        and np.array_equal(other.program, access.program)
        and np.array_equal(other.start // stretch.pitch, first)
    }
    return min(1.0, one * max(len(beside), 1))


def align_bytes(access: Access, pitch: float = 1.0) -> float:
    """What the starts of all stretches are multiples of, up to a line; `pitch` apart, in elements, if with gaps."""
    known = access.start[np.isfinite(access.start)] // pitch * pitch
    columns = [known, access.stride[np.isfinite(access.stride)]]
    columns += [np.array([c]) for c, n in zip(access.coef, access.shape, strict=True) if abs(c) > pitch and n > 1]
    whole = (abs(np.rint(column * access.item_bytes)).astype(np.int64) for column in columns if len(column))
    return float(np.gcd.reduce([ALIGN_LIMIT, *(int(np.gcd.reduce(column)) for column in whole)]))


@dataclass(frozen=True)
class _Walks:
    """Walks over tiles of one geometry of one argument."""

    tile_bytes: float
    start: FloatArray
    stride: FloatArray
    count: FloatArray
    program: FloatArray
    round: FloatArray
    access: Any
    """Which of the program's loads or stores of this geometry it is."""


@dataclass(frozen=True)
class Footprint:
    """Loads, or stores, of all programs that were evaluated."""

    trace: Trace
    kinds: tuple[str, ...]
    sizes: Mapping[str, float]
    """Bytes of each tensor."""
    _waves: dict[int, tuple[float, float]] = field(default_factory=dict)

    @cached_property
    def walks(self) -> dict[str, list[_Walks]]:
        """By argument: the walks of its accesses, those of one geometry together."""
        groups: defaultdict[tuple[str, tuple[Any, ...]], list[Access]] = defaultdict(list)
        for access in self.trace.accesses:
            if access.kind in self.kinds and access.argument is not None:
                geometry = sorted(zip(map(str, access.coef), access.shape, strict=True))
                groups[access.argument, (*geometry, access.item_bytes)].append(access)
        out: defaultdict[str, list[_Walks]] = defaultdict(list)
        for (argument, _), accesses in groups.items():
            joined = (np.concatenate([getattr(a, name) for a in accesses]) for name in WALK)
            kept = np.concatenate([a.kept for a in accesses])
            here = kept > 0
            start, stride, count, program, round_ = (column[here] for column in joined)
            which = np.repeat(np.arange(len(accesses)), [len(a.kept) for a in accesses])[here]
            size = tile_elements(accesses[0]) * accesses[0].item_bytes
            mean = float(kept[here].mean()) if here.any() else 0.0
            out[argument].append(_Walks(size * mean, start, stride, count, program, round_, which))
        return dict(out)

    @property
    def scale(self) -> float:
        """Programs of the grid over those evaluated."""
        return float(np.prod(self.trace.grid)) / self.trace.programs

    def distinct(self) -> dict[str, float]:
        """Bytes of each argument that the whole grid touches."""
        out = {}
        for argument, groups in self.walks.items():
            total = sum(g.tile_bytes * _distinct(g) for g in groups)
            out[argument] = min(total * self.scale, self.sizes.get(argument, math.inf))
        return out

    def again(self) -> float:
        """Bytes that programs touch by one access after another touched them, as in a second pass over a row."""
        total = 0.0
        for g in (g for groups in self.walks.values() for g in groups):
            program, accesses = g.program.astype(np.int64), int(g.access.max(initial=0)) + 1
            if accesses > 1:
                each = _distinct_by(g, program * accesses + g.access).sum()
                total += g.tile_bytes * float(each - _distinct_by(g, program).sum())
        return total * self.scale

    def waves(self, at_once: int) -> tuple[float, float]:
        """Bytes that waves of so many consecutive programs touch, each counted once a wave: of all waves, and of one.

        In a loop around loops, as persistent programs have them, each of its iterations is a wave of its own.
        """
        if at_once not in self._waves:
            self._waves[at_once] = self._by_wave(at_once)
        return self._waves[at_once]

    def _by_wave(self, at_once: int) -> tuple[float, float]:
        window = np.zeros(self.trace.programs, np.int64)
        windows = 0
        for begin, end in self.trace.ranges:
            window[begin:end] = windows + np.arange(end - begin) // at_once
            windows += -(-(end - begin) // at_once)
        total, rounds = 0.0, 1
        for argument, groups in self.walks.items():
            size = self.sizes.get(argument, math.inf)
            for g in groups:
                around = int(g.round.max(initial=0)) + 1
                which = window[g.program.astype(np.int64)] * around + g.round.astype(np.int64)
                total += float(np.minimum(g.tile_bytes * _distinct_by(g, which), size).sum())
                rounds = max(rounds, around)
        return total * self.scale, total / max(windows * rounds, 1)


@dataclass(frozen=True)
class Touched:
    """What the programs of a trace read and write."""

    reads: Footprint
    writes: Footprint
    all: Footprint
    atomics: Footprint

    @classmethod
    def of(cls, trace: Trace, sizes: Mapping[str, float]) -> Touched:
        loads, stores, atomics = ("load",), ("store", "atomic"), ("atomic",)
        return cls(*(Footprint(trace, kinds, sizes) for kinds in (loads, stores, loads + stores, atomics)))


def _distinct(walks: _Walks) -> float:
    return float(_distinct_by(walks, np.zeros(len(walks.start), np.int64)).sum())


def _distinct_by(walks: _Walks, group: Any) -> FloatArray:
    """Distinct tiles of each group of walks; groups are whole numbers from 0 on.

    Walks of one stride whose starts differ by a multiple of it lie on one line, where they are intervals: their union.
    """
    count = int(group.max(initial=0)) + 1
    lost = ~np.isfinite(walks.start) | ~np.isfinite(walks.stride)
    moving = (walks.count > 1) & (walks.stride != 0) & ~lost
    # of what is not known each is its own
    tiles: FloatArray = np.bincount(group[lost], walks.count[lost], count).astype(float)
    if len(still := np.flatnonzero(~moving & ~lost)):
        place = walks.start[still].astype(np.int64)
        place -= place.min()
        span = int(place.max()) + 1
        places = np.sort(group[still] * span + place)
        fresh = np.flatnonzero(np.diff(places, prepend=-1))
        tiles += np.bincount(places[fresh] // span, minlength=count)
    if not moving.any():
        return tiles
    start, stride, n, g = (column[moving] for column in (walks.start, walks.stride, walks.count, group))
    start, stride = np.where(stride < 0, start + stride * (n - 1), start), np.abs(stride)
    f = np.mod(start, stride)
    p = (start - f) / stride
    order = np.lexsort((p, f, stride, g))
    g, s, f, p, n = (column[order] for column in (g, stride, f, p, n))
    begins = np.ones(len(g), bool)
    begins[1:] = (g[1:] != g[:-1]) | (s[1:] != s[:-1]) | (f[1:] != f[:-1])
    line = np.cumsum(begins) - 1
    reach = float((p + n).max() - p.min()) + 1.0
    low, high = p - p.min() + line * reach, p - p.min() + n + line * reach
    reached = np.maximum.accumulate(high)
    before = np.concatenate([[-np.inf], reached[:-1]])
    tiles += np.bincount(g, np.maximum(high - np.maximum(low, before), 0.0), minlength=count)
    return tiles


def sizes_of(args: Sequence[tuple[str, Any]]) -> dict[str, float]:
    """Bytes of the tensors among named arguments."""
    tensors = ((name, getattr(value, "tensor", value)) for name, value in args)
    return {name: float(value.nbytes) for name, value in tensors if hasattr(value, "nbytes")}
