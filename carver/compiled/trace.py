"""What a kernel does over the programs of its grid: loops, accesses and products, as `program.evaluate` finds them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..base.types import FloatArray
from .sectors import Sectors
from .values import NOWHERE, Floor, Piece


@dataclass
class LoopTrace:
    """One loop of the program, over all lanes."""

    name: str
    parent: int
    """Of the loops; -1 for the kernel's body."""
    trips: FloatArray
    """Times that the body runs in each program."""
    entries: FloatArray
    """Times that the loop is entered in each program."""
    exponentials: float = 0.0
    """Elements of tensors whose exponential the body itself takes, in all programs."""
    float_flops: float = 0.0
    """Elements of tensors of float32 that the body itself adds or multiplies, in all programs."""
    where: str = ""
    """Its line of the source; empty where that is not known."""


@dataclass
class Access:
    """A load or store, as walks: `count` tiles from `start` on, `stride` apart, of one program. Units: elements."""

    kind: str
    """load, store, atomic."""
    path: str
    """pointer, descriptor."""
    argument: str | None
    loop: int
    shape: tuple[int, ...]
    item_bytes: float
    coef: tuple[float, ...]
    """Step in memory along each dimension, in elements, in the mean; NaN where it is not affine."""
    pieces: tuple[Piece | None, ...]
    """Of dimensions that a division or a remainder cuts."""
    start: FloatArray
    """NaN where not known."""
    stride: FloatArray
    count: FloatArray
    kept: FloatArray
    """Share of the tile that its mask lets through."""
    program: FloatArray
    round: FloatArray
    """Iteration of the outermost loop, where it is in an inner one."""
    times: FloatArray
    """How often the walk happens."""
    settled: bool = field(default=True, kw_only=True)
    """It is known what its mask lets through; else that is so much at most."""
    counted: bool = field(default=False, kw_only=True)
    """It is known how many elements a tile has, and not how they lie."""
    floors: tuple[Floor, ...] = field(default=(), kw_only=True)
    """Of places that were rounded."""
    loads: frozenset[str] = field(default=NOWHERE, kw_only=True)
    """Tensors from which its places were loaded, where they are not known."""
    beside: FloatArray = field(default_factory=lambda: np.empty(0), kw_only=True)
    """Of a start that is not known: those parts of the sum that are; NaN where none is, empty where nothing is said."""
    root: Hashable = field(default=None, kw_only=True)
    """Of places that are not affine, which they are (`values.Value`)."""
    covered: tuple[float, ...] = field(default=(), kw_only=True)
    """Share of each dimension that masks let through at most; empty where nothing is said."""
    placed: Sectors = field(default=Sectors(), kw_only=True)
    """Of a load that is not affine, all of whose places are known."""
    drawn: FloatArray = field(default_factory=lambda: np.empty(0), kw_only=True)
    """Of a load or atomic that is not affine: places of some tiles, element by element; empty where they are not known.
    Of a load NaN where its mask holds it back."""

    @property
    def turned(self) -> bool:
        """Whether its rows and columns are no rows and columns of memory: sums of both were rounded, or one was twice,
        as for an image that is turned."""
        slopes = np.array([f.slopes for f in self.floors]) != 0
        mixed = slopes.any() and (slopes.sum(0).max() > 1 or slopes.sum(1).max() > 1)
        return bool(mixed) and bool(np.isfinite(self.coef).all())


@dataclass
class Dot:
    """A product of matrices (`tl.dot`)."""

    loop: int
    shape: tuple[int, int, int]
    """m, n, k."""
    types: tuple[str, str, str]
    times: FloatArray
    """In each program."""

    @property
    def flops(self) -> float:
        """Of the mean program, all times together."""
        return 2.0 * math.prod(self.shape) * float(self.times.mean())


@dataclass
class Trace:
    """What a kernel does, over the programs that were evaluated."""

    grid: tuple[int, int, int]
    programs: int
    """Evaluated; each stands for prod(grid) / programs."""
    ranges: tuple[tuple[int, int], ...]
    """Consecutive programs: half-open ranges."""
    loops: list[LoopTrace] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    assumed: bool = False
    """A branch on what the kernel computes was taken in all programs."""

    @property
    def working(self) -> FloatArray:
        """1 of programs that write, 0 of those that return before they do; 1 of all where none writes."""
        out = np.zeros(self.programs)
        for access in self.accesses:
            if access.kind != "load":
                out[access.program.astype(np.int64)] = 1.0
        return out if out.any() else np.ones(self.programs)


COLUMNS = ("start", "stride", "count", "kept", "program", "round", "times")


def joined(parts: Sequence[Access]) -> Access:
    """One record of an access that was met several times; iterations that step evenly become walks, those that stay in
    place one."""
    first = parts[0]
    if len(parts) == 1:
        return first
    alike = all(
        len(p.start) == len(first.start) and (p.program == first.program).all() and (p.round == first.round).all()
        for p in parts
    )
    if alike and all((p.count == 1).all() and (p.times == first.times).all() for p in parts):
        starts, kept, beside = (np.array([getattr(p, name) for p in parts]) for name in ("start", "kept", "beside"))
        steps = np.diff(starts, axis=0)
        if (steps == steps[0]).all():
            count = np.full(len(first.start), float(len(parts)))
            return replace(first, stride=steps[0], count=count, kept=kept.mean(axis=0))
        moved = np.vstack([np.ones(len(first.start), bool), steps != 0]).T.ravel()
        begins = np.flatnonzero(moved)
        lane, times = begins // len(parts), np.diff(begins, append=len(moved)).astype(float)
        return replace(
            first, start=starts.T.ravel()[begins], stride=np.zeros(len(lane)), count=times,
            kept=np.add.reduceat(kept.T.ravel(), begins) / times, program=first.program[lane],
            round=first.round[lane], times=first.times[lane], beside=beside.T.ravel()[begins],
        )  # fmt: skip
    columns: Any = {name: np.concatenate([getattr(p, name) for p in parts]) for name in (*COLUMNS, "beside")}
    return replace(first, **columns)
