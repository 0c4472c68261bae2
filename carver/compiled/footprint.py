"""Distinct bytes: what programs touch together, from the walks of their accesses."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..base.types import FloatArray
from .run import Access, Run

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


def run_bytes(access: Access) -> float:
    """Contiguous bytes of a tile."""
    run = 1.0
    dimensions = zip(access.shape, access.coef, access.repeat, strict=True)
    steps = sorted((abs(c) * r, -(-n // r)) for n, c, r in dimensions if c and not math.isnan(c))
    for step, n in steps:
        if step != run:
            break
        run *= n
    return run * access.item_bytes


def align_bytes(access: Access) -> float:
    """What the starts of all runs are multiples of, up to a line."""
    known = access.start[np.isfinite(access.start)]
    columns = [known, access.stride[np.isfinite(access.stride)]]
    columns += [np.array([c]) for c, n in zip(access.coef, access.shape, strict=True) if abs(c) > 1 and n > 1]
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


@dataclass(frozen=True)
class Footprint:
    """Loads, or stores, of all programs that were evaluated."""

    run: Run
    kinds: tuple[str, ...]
    sizes: Mapping[str, float]
    """Bytes of each tensor."""

    @cached_property
    def walks(self) -> dict[str, list[_Walks]]:
        groups: defaultdict[tuple[str, tuple[Any, ...]], list[Access]] = defaultdict(list)
        for access in self.run.accesses:
            if access.kind in self.kinds and access.argument is not None:
                geometry = sorted(zip(map(str, access.coef), access.shape, strict=True))
                groups[access.argument, (*geometry, access.item_bytes)].append(access)
        out: defaultdict[str, list[_Walks]] = defaultdict(list)
        for (argument, _), accesses in groups.items():
            joined = (np.concatenate([getattr(a, name) for a in accesses]) for name in WALK)
            kept = np.concatenate([a.kept for a in accesses])
            here = kept > 0
            start, stride, count, program, round_ = (column[here] for column in joined)
            size = tile_elements(accesses[0]) * accesses[0].item_bytes
            mean = float(kept[here].mean()) if here.any() else 0.0
            out[argument].append(_Walks(size * mean, start, stride, count, program, round_))
        return dict(out)

    @property
    def scale(self) -> float:
        """Programs of the grid over those evaluated."""
        return float(np.prod(self.run.grid)) / self.run.programs

    def distinct(self) -> dict[str, float]:
        """Bytes of each argument that the whole grid touches."""
        out = {}
        for argument, groups in self.walks.items():
            total = sum(g.tile_bytes * _distinct(g, np.zeros(len(g.start))) for g in groups)
            out[argument] = min(total * self.scale, self.sizes.get(argument, math.inf))
        return out

    def waves(self, at_once: int) -> tuple[float, float]:
        """Bytes that waves of so many consecutive programs touch, each counted once a wave: of all waves, and of one.

        In a loop around loops, as persistent programs have them, each of its iterations is a wave of its own.
        """
        total = 0.0
        windows = 0
        for begin, end in self.run.runs:
            windows += -(-(end - begin) // at_once)
        rounds = 1.0
        for argument, groups in self.walks.items():
            size = self.sizes.get(argument, math.inf)
            for g in groups:
                which = self._window(g.program, at_once) * 1_000_000 + g.round
                by_wave = g.tile_bytes * _distinct_by(g, which)
                total += float(np.minimum(by_wave, size).sum())
                rounds = max(rounds, float(g.round.max(initial=0)) + 1)
        return total * self.scale, total / max(windows * rounds, 1)

    def _window(self, program: FloatArray, at_once: int) -> FloatArray:
        window = np.zeros(len(program))
        before = 0
        for begin, end in self.run.runs:
            inside = (program >= begin) & (program < end)
            window[inside] = before + (program[inside] - begin) // at_once
            before += -(-(end - begin) // at_once)
        return window


def _distinct(walks: _Walks, group: FloatArray) -> float:
    return float(_distinct_by(walks, group).sum())


def _distinct_by(walks: _Walks, group: FloatArray) -> FloatArray:
    """Distinct tiles of each group of walks.

    Walks of one stride whose starts differ by a multiple of it lie on one line, where they are intervals: their union.
    """
    if not len(walks.start):
        return np.zeros(0)
    lost = ~np.isfinite(walks.start) | ~np.isfinite(walks.stride)
    stride = np.where(walks.count > 1, np.abs(walks.stride), 0.0)
    start = np.where(walks.stride < 0, walks.start + walks.stride * (walks.count - 1), walks.start)
    moving = stride > 0
    safe = np.where(moving, stride, 1.0)
    phase = np.where(moving, np.mod(start, safe), start)
    place = np.where(moving, (start - phase) / safe, 0.0)
    length = np.where(moving, walks.count, 1.0)
    phase = np.where(lost, np.arange(len(phase)), phase)  # of what is not known each is its own
    order = np.lexsort((place, phase, stride, lost, group))
    g, s, f, p, n = (column[order] for column in (group, stride, phase, place, length))
    begins = np.ones(len(g), bool)
    begins[1:] = (g[1:] != g[:-1]) | (s[1:] != s[:-1]) | (f[1:] != f[:-1]) | (lost[order][1:] != lost[order][:-1])
    line = np.cumsum(begins) - 1
    span = float((p + n).max() - p.min()) + 1.0
    low, high = p - p.min() + line * span, p - p.min() + n + line * span
    reached = np.maximum.accumulate(high)
    before = np.concatenate([[-np.inf], reached[:-1]])
    fresh = np.maximum(high - np.maximum(low, before), 0.0)
    first = np.ones(len(g), bool)
    first[1:] = g[1:] != g[:-1]
    tiles: FloatArray = np.bincount(np.cumsum(first) - 1, fresh).astype(float)
    return tiles


def sizes_of(args: Sequence[tuple[str, Any]]) -> dict[str, float]:
    """Bytes of the tensors among named arguments."""
    tensors = ((name, getattr(value, "tensor", value)) for name, value in args)
    return {name: float(value.nbytes) for name, value in tensors if hasattr(value, "nbytes")}
