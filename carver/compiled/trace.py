"""What a kernel does over the programs of its grid: loops, accesses and products, as `program.evaluate` finds them;
which programs and iterations are evaluated, and the lanes that run a stretch of a kernel's code, as NumPy columns."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..base.errors import ProblemError
from ..base.types import FloatArray
from .sectors import Sectors
from .values import NOWHERE, PRODUCTS, Column, Described, Floor, Piece, Value, merged, unknown

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

    def number(self, name: str) -> Value | None:
        """The same of what is known in each lane; None of anything else."""
        value = self.get(name)
        return value if isinstance(value, Value) and value.base is not None else None

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
    """In which lanes a pass of a loop may have changed any number that it carries; what is not known may have."""
    out = np.zeros(lanes, bool)
    for old, new in zip(before, after, strict=True):
        if isinstance(old, Value) and isinstance(new, Value) and (old.base is None) == (new.base is None):
            out |= True if old.base is None else old.base != new.base
            for a, b in zip(old.coef, new.coef, strict=True):
                out |= ~np.isclose(a, b, rtol=0.0, atol=0.0, equal_nan=True)
        else:
            out[:] = True
    return out


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
    """A branch on what is not known went where more is done, in all programs, or they drew from a counter in turn."""
    alike: set[str] = field(default_factory=set)
    """Tensors for all of which one number stands, from which addresses are computed."""

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


def covered(mask: Value | None, extents: Sequence[int]) -> tuple[float, ...]:
    """Share of a mask's elements along each dimension that are true at most: below 1 where a tile is wider than what
    there is for it in all programs."""
    if mask is None or mask.box is None:
        return (1.0,) * len(extents)
    return tuple(
        1.0 if ranged is None else float(np.max(np.clip(ranged[1] - ranged[0], 0, n) / n, initial=0.0))
        for ranged, n in zip(mask.box, extents, strict=True)
    )


def sayable(value: Value) -> bool:
    """Whether what is not known of a value follows from what tensors hold at the launch, which a caller can say."""
    return bool(value.loads) and not value.loads & PRODUCTS


def undecided(what: str, value: Value, said: Mapping[str, Any]) -> ProblemError:
    """Why `what` cannot be followed, and what the caller can say of it who said what tensors hold."""
    if not sayable(value):
        whose = "multiplies" if value.loads else "computes from its tensors"
        return ProblemError(f"{what} depends on numbers that the kernel {whose}: it cannot be followed")
    names = ", ".join(repr(n) for n in sorted(value.loads))
    missing = sorted(name for name in value.loads if name not in said)
    if not missing:
        return ProblemError(f"{what} depends on what the kernel computes from {names}: it cannot be followed")
    first = missing[0]
    hint = f"values={{{first!r}: 2048}} where one number stands for all, else an array of them (in a file: [values])"
    return ProblemError(f"{what} depends on what the kernel loads from {names}; say what it holds: {hint}")
