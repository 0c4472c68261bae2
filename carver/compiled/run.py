"""What a kernel does over the programs of its grid: loops, accesses and products, as `program.evaluate` finds them."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..base.types import FloatArray


@dataclass
class LoopRun:
    """One loop of the program, over all lanes."""

    name: str
    parent: int
    """Of the loops; -1 for the kernel's body."""
    trips: FloatArray
    """Times that the body runs in each program."""
    entries: FloatArray
    """Times that the loop is entered in each program."""


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
    repeat: tuple[int, ...]
    """Neighbours along each dimension that are the same element."""
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


@dataclass
class Dot:
    loop: int
    shape: tuple[int, int, int]
    """m, n, k."""
    types: tuple[str, str, str]
    times: FloatArray
    """In each program."""


@dataclass
class Run:
    """What a kernel does, over the programs that were evaluated."""

    grid: tuple[int, int, int]
    programs: int
    """Evaluated; each stands for prod(grid) / programs."""
    runs: tuple[tuple[int, int], ...]
    """Consecutive programs: half-open ranges."""
    loops: list[LoopRun] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    float_ops: dict[int, FloatArray] = field(default_factory=dict)
    """Elements that floating-point operations touch, by loop, in each program."""
