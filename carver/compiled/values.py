"""Integers of a kernel over many programs at once: affine in the places of a tensor's elements.

A tensor whose element (i, j) is `base + ci * i + cj * j` is held as `base` and coefficients, each an array over lanes.
A lane is one program, or one iteration of a loop of one program. NaN as a coefficient says that elements vary along
that dimension in a way that is not affine; `base` None, that the value is not known; `loads` then names what the kernel
would have loaded it from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from ..base.kept import Recent
from .ttir import Type

Column: TypeAlias = Any
"""A NumPy array over lanes, of length 1 where all lanes have the same."""
Box: TypeAlias = tuple[tuple[Column, Column] | None, ...]
"""Where a mask is true: a half-open range along each dimension, None for all of it."""

SECTOR_BYTES = 32
"""What caches fetch at least."""
MOST_RECENT = 1 << 23
"""Elements of tensors that are held to be used again: 64 MB."""
NOWHERE: frozenset[str] = frozenset()
PRODUCTS, DRAWN = frozenset(["products of matrices"]), frozenset(["drawn numbers"])
"""In place of tensors that a value was loaded from: none would tell it. Beside them: it is drawn, decides nothing."""


class Piece(NamedTuple):
    """Neighbours along a dimension, so many at a time, that lie a step apart: 0 where a division made them the same,
    another where a remainder starts again after them. A fraction of 1 is a mean, of which some are the same."""

    length: int
    step: float


class Floor(NamedTuple):
    """What rounding takes off a sum of places along the dimensions, times a factor: of a turned image, say."""

    factor: float
    slopes: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A number or a tensor of them, in all lanes."""

    base: Column | None
    coef: tuple[Column, ...] = ()
    source: str | None = None
    """Of a pointer: the argument; `base` is then in elements from its start."""
    box: Box | None = None
    """Of a mask that is known."""
    bound: bool = False
    """Of a mask: its box is what it lets through at most."""
    loads: frozenset[str] = NOWHERE
    pieces: tuple[Piece | None, ...] = ()
    """Of each dimension that a division, a remainder or a rounding cuts; () for none."""
    floors: tuple[Floor, ...] = ()
    """Of places that were rounded; what `coef` says is in the mean."""
    beside: Column | None = None
    """Of a sum of which parts were loaded: the other parts."""
    exact: Callable[[int], Any] | None = None
    """Every element in a lane, where they follow from what a tensor is known to hold."""
    root: Hashable = None
    """Which places that are not affine these are: sums of the same and of known numbers have the same."""

    def take(self, index: Any) -> Value:
        """The same for some of the lanes."""
        fixed = self.base is not None and len(self.base) == 1 and all(np.ndim(c) == 0 for c in self.coef)
        if fixed and not self.box and not self.exact:
            return self
        box = self.box and tuple(r and (_taken(r[0], index), _taken(r[1], index)) for r in self.box)
        base, beside = (None if c is None else _taken(c, index) for c in (self.base, self.beside))
        coef = tuple(_taken(c, index) for c in self.coef)
        exact = self.exact and Exact(None, (self,), (), lanes=index)
        return replace(self, base=base, coef=coef, box=box, beside=beside, exact=exact)

    @property
    def uniform(self) -> bool:
        """The same for all elements."""
        return all(np.ndim(c) == 0 and c == 0 for c in self.coef)


@dataclass(frozen=True, slots=True)
class Described:
    """A tensor descriptor: base pointer, extents and strides."""

    pointer: Value
    shape: tuple[Value, ...]
    strides: tuple[Value, ...]

    def take(self, index: Any) -> Described:
        """The same for some of the lanes."""
        shape, strides = (tuple(v.take(index) for v in group) for group in (self.shape, self.strides))
        return Described(self.pointer.take(index), shape, strides)


def _taken(column: Column, index: Any) -> Column:
    return column[index] if np.ndim(column) and len(column) > 1 else column


def known(number: float, rank: int = 0) -> Value:
    """One number in all lanes and elements."""
    return Value(np.array([number]), (0.0,) * rank)


def unknown(rank: int = 0, loads: frozenset[str] = NOWHERE) -> Value:
    """A value that depends on what the kernel loads from these tensors, if any is known."""
    return Value(None, (np.nan,) * rank, loads=loads, root=object())


def truncated(a: Column, b: Column) -> Column:
    """Integer division towards zero, as C has it; 0 where b is 0, which no program that runs divides by."""
    safe = np.where(b == 0, 1, b)
    quotient = np.abs(a) // np.abs(safe) * np.sign(a) * np.sign(safe)
    return np.where(b == 0, 0, quotient)


_EXACT: Mapping[str, Callable[[Column, Column], Column]] = {
    "addi": np.add, "subi": np.subtract, "muli": np.multiply,
    "addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": lambda a, b: a / np.where(b == 0, np.nan, b),
    "divsi": truncated, "divui": truncated, "floordivsi": lambda a, b: a // np.where(b == 0, 1, b),
    "ceildivsi": lambda a, b: -(-a // np.where(b == 0, 1, b)),
    "ceildivui": lambda a, b: -(-a // np.where(b == 0, 1, b)),
    "remsi": lambda a, b: a - truncated(a, b) * b, "remui": lambda a, b: a - truncated(a, b) * b,
    "minsi": np.minimum, "maxsi": np.maximum, "minui": np.minimum, "maxui": np.maximum,
    "andi": np.bitwise_and, "ori": np.bitwise_or, "xori": np.bitwise_xor,
    "shli": lambda a, b: a << np.clip(b, 0, 62), "shrsi": lambda a, b: a >> np.clip(b, 0, 62),
    "shrui": lambda a, b: a >> np.clip(b, 0, 62),
    "minnumf": np.minimum, "maxnumf": np.maximum,
}  # fmt: skip
BINARY = frozenset(_EXACT)
DIVISIONS = frozenset(["divsi", "divui", "shrsi", "shrui"])
REMAINDERS = frozenset(["remsi", "remui"])
BITS = frozenset(["andi", "ori", "xori"])
BOUNDS = frozenset(["minsi", "maxsi", "minui", "maxui", "minnumf", "maxnumf"])


def binary(op: str, a: Value, b: Value, extents: Sequence[int], short: bool = False) -> Value:
    """An arithmetic operation on two values of one shape; `short`: on 32 bits."""
    loads = a.loads | b.loads
    source = a.source or b.source
    base = None
    if a.base is not None and b.base is not None:
        with np.errstate(all="ignore"):
            base = (whole_numbers(op, short) if short or op in BITS or op[:2] == "sh" else _EXACT[op])(a.base, b.base)
    like, one, by = _remainder(op, a, b) if op in BITS else (op, a, b)
    coef = _coefficients(like, one, by, extents)
    beside = _beside(op, a, b) if base is None or a.beside is not None or b.beside is not None else None
    pieces, floors = _pieces(like, one, by, coef, extents), _floors(op, a, b)
    cut = (op in DIVISIONS | REMAINDERS and not all(map(zero, coef))) or (op in BITS and like != op)
    varies = base is not None  # as in a square, the least, or bits that are interleaved
    cut = cut or (varies and any(np.isnan(c).any() for c in coef))
    exact = Exact(whole_numbers(op, short), (a, b), extents) if a.exact or b.exact or cut else None
    loads = loads if base is None else loads & DRAWN
    root = _root(op, a, b)
    return Value(base, coef, source, loads=loads, pieces=pieces, floors=floors, beside=beside, exact=exact, root=root)


def _remainder(op: str, a: Value, b: Value) -> tuple[str, Value, Value]:
    """The operation whose steps one on bits has. Neighbours of which some bits are set or turned alike step as in a
    remainder by the lowest of these; of which low bits are kept, as in that by what their mask is one less than. Steps
    that do not divide it are those of hashes, which start again anywhere."""
    one, other = (a, b) if b.uniform else (b, a)
    if not other.uniform or other.base is None or len(other.base) != 1 or (number := int(other.base[0])) <= 0:
        return op, a, b
    by = number + 1 if op == "andi" else number & -number
    regular = not by & (by - 1) and all(np.ndim(c) == 0 and (c == 0 or by % c == 0) for c in one.coef)
    return ("remui", one, known(by, len(other.coef))) if regular else (op, a, b)


def elements(v: Value, lane: int, extents: Sequence[int]) -> Any:
    """All elements in one lane, dimensions along which they are the same left at 1; None if they are not known."""
    if v.exact:
        return v.exact(lane)
    if v.box is not None and v.base is None and not v.bound and len(extents) == len(v.box):  # of a mask
        every = np.zeros(extents, bool)
        inside(v, lane, every)[0][:] = True
        return every
    if v.base is None or any(np.isnan(c).any() for c in v.coef):
        return None
    out: Any = np.reshape(_in_lane(v.base, lane), [1] * len(v.coef))
    if v.uniform:
        return out
    if len(extents) != len(v.coef):  # of a counter that a loop carries, which are not asked for
        return None
    for d, (c, n) in enumerate(zip(v.coef, extents, strict=True)):
        if not zero(c):
            out = out + _in_lane(c, lane) * np.arange(n).reshape([n if i == d else 1 for i in range(len(extents))])
    return out


def _in_lane(column: Column, lane: int) -> Any:
    return np.ravel(column)[lane if np.size(column) > 1 else 0]


def whole_numbers(op: str, short: bool = False) -> Callable[..., Any]:
    """An operation, which computes integers in 64 bits; in 32 where they are `short`, as products of hashes wrap."""
    by, mask = _EXACT[op], 0xFFFFFFFF if short and op.endswith("ui") else -1

    def computed(a: Any, b: Any) -> Any:
        found = by(np.asarray(a, np.int64) & mask, np.asarray(b, np.int64) & mask)
        return found.astype(np.int32).astype(np.int64) if short else found

    return by if op.endswith("f") else computed


@dataclass(frozen=True, eq=False)
class Exact:
    """Every element in a lane of what an operation makes of values; None if not all of theirs, or of the first
    `needed` ones, are known. Without `by` they are those of one value, in each lane of the `chosen` one. `lanes`: of
    the values, if they have others."""

    by: Callable[..., Any] | None
    values: Sequence[Value]
    extents: Sequence[int]
    lanes: Any = None
    chosen: Any = None
    needed: int | None = None
    recent: ClassVar = Recent(MOST_RECENT)
    """A step of a loop finds here what the last one left."""

    def __call__(self, lane: int) -> Any:
        asked_of, recent = (self, int(lane)), self.recent.held
        if asked_of in recent:
            return recent[asked_of]
        found: dict[tuple[Exact, int], Any] = {}
        todo = [asked_of]
        while todo:  # without recursion: each step of a loop may depend on the one before it
            own = node, at = todo[-1]
            inner = at if node.lanes is None else int(node.lanes[at])
            values = node.values if node.chosen is None else (node.values[node.chosen[at]],)
            asked = [(v.exact, inner) for v in values if isinstance(v.exact, Exact)]
            found.update((key, recent[key]) for key in asked if key in recent)
            if missing := [key for key in asked if key not in found]:
                todo += missing
                continue
            todo.pop()
            if own in found:
                continue
            keys = [(v, (v.exact, inner)) for v in values]
            given = [found[key] if key in found else elements(v, inner, node.extents) for v, key in keys]
            found[own] = None if any(each is None for each in given[: node.needed]) else given[0]
            if node.by and found[own] is not None:
                with np.errstate(all="ignore"):
                    found[own] = node.by(*given)
            if node.by:
                self.recent.hold(own, found[own])
        return found[asked_of]


def _moved(v: Value, move: Callable[[Any], Any]) -> Exact | None:
    """The same elements in other places."""
    return Exact(move, (v,), ()) if v.exact else None


def looked_up(held: Any, places: Value, extents: Sequence[int]) -> Value:
    """What a tensor holds at places of which the first, or every one, is known in each lane."""
    first: Any = None
    if places.base is not None:
        first = held[np.clip(np.asarray(places.base), 0, len(held) - 1).astype(np.int64)]
        first = first.astype(np.int64 if first.dtype.kind in "iub" else np.float64)
    coef = tuple(0.0 if zero(c) else np.nan for c in places.coef)
    if places.uniform:
        return Value(first, coef, beside=np.zeros(1))

    def at(index: Any) -> Any:
        return held[np.clip(index, 0, len(held) - 1).astype(np.int64)]

    exact = Exact(at, (places,), extents)
    loads = frozenset([places.source or ""])
    return Value(first, coef, loads=loads, beside=np.zeros(1), exact=exact, root=object())


def _root(op: str, a: Value, b: Value) -> Hashable:
    """That of a result. A sum with what differs along those dimensions is of other places; what bounds them is taken to
    bound few."""
    if a.root is None and b.root is None:
        return None
    one, other = (a, b) if b.root is None else (b, a)
    if op in ("addi", "subi", "addf", "subf") or (op in BOUNDS and other.root is None and other.uniform):
        if other.root is not None:
            return ("sum" if op.startswith("add") else "gap"), a.root, b.root
        apart = tuple(first_of(x) for x, y in zip(other.coef, one.coef, strict=False) if np.isnan(y).any())
        moved = any(apart) or (one is b and op.startswith("sub"))
        return ("moved", op, apart, one.root) if moved else one.root
    factor = _factor(op, a, b)
    return object() if factor is None else ("times", factor, one.root)


def _beside(op: str, a: Value, b: Value) -> Column | None:
    """What of a result was not loaded."""
    one, other = (v.base if v.beside is None else v.beside for v in (a, b))
    if op in ("addi", "subi"):
        other = -other if other is not None and op == "subi" else other
        return other if one is None else one if other is None else one + other
    if op in BOUNDS and (a.uniform or b.uniform):
        return a.beside if b.uniform else b.beside
    factor, part = _factor(op, a, b), b.beside if a.beside is None else a.beside
    return None if factor is None or part is None else part * factor


def _floors(op: str, a: Value, b: Value) -> tuple[Floor, ...]:
    if not a.floors and not b.floors:
        return ()
    if op in ("addi", "addf", "subi", "subf"):
        sign = 1.0 if op.startswith("add") else -1.0
        return a.floors + tuple(Floor(f.factor * sign, f.slopes) for f in b.floors)
    if (factor := _factor(op, a, b)) is not None:
        return tuple(Floor(f.factor * factor, f.slopes) for f in a.floors or b.floors)
    return a.floors or b.floors if op in BOUNDS and (a.uniform or b.uniform) else ()


def _pieces(
    op: str, a: Value, b: Value, coef: tuple[Column, ...], extents: Sequence[int]
) -> tuple[Piece | None, ...]:
    """Of the result, whose coefficients are given. A divisor cuts pieces of as many neighbours as it has steps."""
    none = (None,) * len(coef)
    if op in DIVISIONS | REMAINDERS and b.uniform and b.base is not None and len(b.base) == 1:
        by = float(1 << int(np.clip(b.base[0], 0, 62)) if op.startswith("shr") else b.base[0])
        if by == 0:  # no program that runs divides by it
            return ()
        each = zip(a.coef, a.pieces or none, strict=True)
        if op in DIVISIONS:
            return tuple(_divided(x, own, by) for x, own in each)
        first = 0.0 if a.base is None else np.mod(a.base, by)
        return tuple(_remaining(x, own, first, n, by) for (x, own), n in zip(each, extents, strict=True))
    if not a.pieces and not b.pieces:
        return ()
    if (factor := _factor(op, a, b)) is not None:
        return tuple(p and Piece(p.length, p.step * factor) for p in a.pieces or b.pieces)
    return tuple(_joined(op, *each) for each in zip(a.coef, a.pieces or none, b.coef, b.pieces or none, strict=True))


def _divided(x: Column, own: Piece | None, by: float) -> Piece | None:
    if own and own.step:
        return Piece(own.length, own.step / by)
    same = _shared(float(x) / by if np.ndim(x) == 0 else np.nan)
    return Piece(same, 0.0) if same > 1 else None


def _remaining(x: Column, own: Piece | None, first: Column, n: int, by: float) -> Piece | None:
    """Where the remainder, of which the first elements are given, starts again within a tensor of n elements."""
    if own or np.ndim(x) or not np.any(first + abs(x) * (n - 1) >= by):
        return own
    length = _shared(float(x) / by)
    return Piece(length, float(x)) if length > 1 else None


def _shared(step: float) -> int:
    """Neighbours that a whole number is shared by, which steps by so much from one to the next; 1 if no whole number of
    them is."""
    length = 1.0 / step if 0.0 < step < 1.0 else 1.0
    return round(length) if math.isclose(length, round(length), rel_tol=1e-6) else 1


def _factor(op: str, a: Value, b: Value) -> float | None:
    """By which a product multiplies the steps of the other operand; None if it does not multiply by one number."""
    one = b if b.uniform else a if op in ("muli", "mulf") and a.uniform else None
    if op not in ("muli", "mulf", "shli", "divf") or one is None or one.base is None or len(one.base) != 1:
        return None
    number = float(one.base[0])
    return 2.0**number if op == "shli" else number if op != "divf" else 1.0 / number if number else None


def _joined(op: str, x: Column, p: Piece | None, y: Column, q: Piece | None) -> Piece | None:
    """Along one dimension, of two operands with these coefficients and pieces."""
    if p is None and q is None:
        return None
    length = min(piece.length for piece in (p, q) if piece)
    one, two = (piece.step if piece else float(c) if np.ndim(c) == 0 else np.nan for piece, c in ((p, x), (q, y)))
    if op in ("addi", "subi", "addf", "subf"):
        step = one + two if op.startswith("add") else one - two
        return None if np.isnan(step) else Piece(length, step)
    if op in BOUNDS and 0 in (one, two):
        return Piece(length, one or two)
    return Piece(length, 0.0) if one == two == 0 else None


def _coefficients(op: str, a: Value, b: Value, extents: Sequence[int]) -> tuple[Column, ...]:
    if a.uniform and b.uniform:
        return a.coef or b.coef
    with np.errstate(all="ignore"):
        match op:
            case "addi" | "addf":
                return tuple(x + y for x, y in zip(a.coef, b.coef, strict=True))
            case "subi" | "subf":
                return tuple(x - y for x, y in zip(a.coef, b.coef, strict=True))
            case "muli" | "shli" | "mulf" if b.uniform and b.base is not None:
                factor = scalar(1 << np.clip(b.base, 0, 62) if op == "shli" else b.base)
                by_n = zip((x * factor for x in a.coef), extents, strict=True)  # a product wraps around, as of a hash
                return tuple(np.nan if np.any(np.abs(x) * n >= 2.0**53) else x for x, n in by_n)
            case "muli" | "mulf" if a.uniform and a.base is not None:
                return _coefficients(op, b, a, extents)
            case "divsi" | "divui" | "shrsi" | "shrui" | "divf" if b.uniform and b.base is not None:
                by = scalar(b.base if op.startswith("div") else 1 << np.clip(b.base, 0, 62))
                once = [op != "divf" and np.all(np.abs(x) * n <= by) for x, n in zip(a.coef, extents, strict=True)]
                return tuple(
                    0.0 if flat else x / np.where(by == 0, 1, by) for x, flat in zip(a.coef, once, strict=True)
                )  # where the tensor meets one step at most, neighbours are the same
            case "remsi" | "remui" if b.uniform and b.base is not None:  # affine unless it wraps within the tensor
                ends = (np.abs(x) * n > np.min(b.base) for x, n in zip(a.coef, extents, strict=True))
                return tuple(np.nan if np.any(wraps) else x for x, wraps in zip(a.coef, ends, strict=True))
            case _ if op in BOUNDS and (a.uniform or b.uniform):
                return a.coef if b.uniform else b.coef
    return tuple(x if zero(x) and zero(y) else np.nan for x, y in zip(a.coef, b.coef, strict=True))


def rounded(v: Value, by: Callable[[Any], Any]) -> Value:
    """A number that is rounded, as an address is computed from a scaled place: neighbours share it as far as
    they are less than 1 apart."""
    steps = [abs(float(c)) if np.ndim(c) == 0 else np.nan for c in v.coef]
    own = v.pieces or (None,) * len(steps)
    same = (Piece(int(1.0 / c + 1e-6), 0.0) if 0.0 < c <= 0.5 else None for c in steps)
    cut = tuple(q or p for p, q in zip(own, same, strict=True))
    scaled = np.isfinite(steps).all() and any(c % 1 for c in steps)
    here = (Floor(1.0, tuple(map(float, v.coef))),) if scaled else ()
    root, cut = v.root and ("rounded", v.root), cut if any(cut) else ()
    return replace(v, base=by(v.base), pieces=cut, floors=v.floors + here, exact=_moved(v, by), root=root)


def scalar(column: Column) -> Column:
    return float(column[0]) if len(column) == 1 else column


def first_of(column: Column) -> float:
    """Of the first lane; 0 where there is none."""
    flat = np.ravel(column)
    return float(flat[0]) if len(flat) else 0.0


def zero(column: Column) -> bool:
    return np.ndim(column) == 0 and column == 0


def scaled(v: Value, by: Column) -> Value:
    """`by` times the value, lane by lane."""
    coef = tuple(0.0 if zero(c) else c * by for c in v.coef)
    return replace(v, base=None if v.base is None else v.base * by, coef=coef, beside=None, exact=None, root=None)


_HOLDS: Mapping[str, Callable[..., Any]] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip


def compared(predicate: str, a: Value, b: Value, extents: Sequence[int]) -> Value:
    """A comparison, as a number where all elements agree, else as the range of elements for which it holds."""
    rank, told = len(extents), a.exact or b.exact or (a.base is not None and b.base is not None)
    exact = Exact(_HOLDS[predicate[-2:]], (a, b), extents) if told else None
    lost = replace(unknown(rank, a.loads | b.loads), exact=exact)
    if a.base is None or b.base is None:
        return lost
    gap = b.base - a.base
    slopes = _coefficients("subi", b, a, extents) if rank else ()
    moving = [d for d, c in enumerate(slopes) if not zero(c)]
    kind = predicate.replace("u", "s") if predicate[0] == "u" and predicate != "une" else predicate
    if kind in ("sgt", "sge"):  # a > b is b < a
        gap, slopes, kind = -gap, tuple(-c for c in slopes), "slt" if kind == "sgt" else "sle"
    test = {"slt": gap > 0, "sle": gap >= 0, "eq": gap == 0, "ne": gap != 0}[kind].astype(np.int64)
    if not moving:
        box: Box = ((np.where(test > 0, 0, 0), np.where(test > 0, extents[0], 0)), *[None] * (rank - 1)) if rank else ()
        return Value(test, (0.0,) * rank, box=box if rank else None)
    if len(moving) > 1 or np.isnan(slopes[moving[0]]).any():
        return lost
    d, slope, n = moving[0], np.atleast_1d(slopes[moving[0]]), extents[moving[0]]
    if any(p and p.step for v in (a, b) for p in v.pieces[d : d + 1]):  # a remainder that starts again: no range
        return Value(None, (np.nan,) * rank, box=(None,) * rank, bound=True, loads=lost.loads, exact=exact)
    with np.errstate(all="ignore"):
        root = -gap / slope
    match kind:
        case "slt" | "sle":  # gap + slope * i > 0, or >= 0
            strict = kind == "slt"
            first = np.floor(root) + 1 if strict else np.ceil(root)
            last = np.ceil(root) if strict else np.floor(root) + 1
            low, high = np.where(slope > 0, first, 0), np.where(slope > 0, n, last)
        case "eq":
            low, high = root, root + 1
        case _:
            return Value(None, (np.nan,) * rank, box=(None,) * rank)
    ranges: list[tuple[Column, Column] | None] = [None] * rank
    low, high = np.where(slope == 0, 0, low), np.where(slope == 0, n * test, high)  # lanes whose elements all agree
    ranges[d] = np.clip(low, 0, n), np.clip(high, 0, n)
    return Value(None, (np.nan,) * rank, box=tuple(ranges))


def both(a: Value, b: Value, extents: Sequence[int]) -> Value:
    """The conjunction of two masks."""
    exact = Exact(np.logical_and, (a, b), extents) if a.exact or b.exact else None
    loads = a.loads | b.loads
    if a.box is None or b.box is None:
        mask, coef = (a, b.coef) if b.box is None else (b, a.coef)
        return replace(mask, base=None, coef=coef, bound=True, loads=loads, exact=exact)
    ranges = tuple(
        x if y is None else y if x is None else (np.maximum(x[0], y[0]), np.minimum(x[1], y[1]))
        for x, y in zip(a.box, b.box, strict=True)
    )
    return Value(None, (np.nan,) * len(ranges), box=ranges, bound=a.bound or b.bound, loads=loads, exact=exact)


def share(mask: Value | None, extents: Sequence[int]) -> Column:
    """Share of a mask's elements that are true; 1 where that is not known."""
    out: Column = np.ones(1)
    if mask is None:
        return out
    if mask.box is None:
        return np.clip(mask.base, 0, 1).astype(float) if mask.base is not None and mask.uniform else out
    for ranged, n in zip(mask.box, extents, strict=True):
        if ranged is not None:
            out = out * np.clip(ranged[1] - ranged[0], 0, n) / n
    return out


def inside(mask: Value | None, lane: int, tile: Any) -> tuple[Any, float]:
    """What a mask lets through of a tile in one lane, as far as it is a box; and the share of its elements. Dimensions
    along which the tile is the same may be left at 1."""
    kept = 1.0
    for d, ranged in enumerate(mask.box if mask and mask.box is not None and tile.ndim == len(mask.box) else ()):
        if ranged is not None and tile.shape[d] > 1:
            low, high = (int(min(max(_in_lane(end, lane), 0), tile.shape[d])) for end in ranged)
            kept *= max(high - low, 0) / tile.shape[d]
            tile = tile[(slice(None),) * d + (slice(low, max(low, high)),)]
    return tile, kept


def ranked(value: Value, like: Value) -> Value:
    """A scalar, or a tensor of the same rank, as something to be added to `like`."""
    if len(value.coef) == len(like.coef):
        return value
    return Value(value.base, (0.0,) * len(like.coef), loads=value.loads, beside=value.beside, root=value.root)


def constant(text: str, rank: int) -> Value:
    """The number that a constant of the IR states: "5 : i32", "dense<true> : tensor<...>"."""
    word = text.partition("<")[2].partition(">")[0] if text.startswith("dense") else text.split(" ", maxsplit=1)[0]
    if word in ("true", "false"):
        word = "1" if word == "true" else "0"
    try:
        number = int(word) if word.lstrip("-").isdigit() else float(word)
    except ValueError:
        return unknown(rank)
    return known(number, rank)


def uniform_box(v: Value, out: Type) -> Any:
    """Where a mask is true that has one value in all elements; None for what is no mask, or not known."""
    if out.element != "i1" or v.base is None:
        return None
    return ((np.zeros(1), np.where(v.base != 0, out.shape[0], 0)), *[None] * (len(out.shape) - 1))


def broadcast(v: Value, before: tuple[int, ...], after: tuple[int, ...]) -> Value:
    """The value with dimensions of one element stretched to the extents `after`."""
    if v.box is None:
        return v
    every = zip(v.box, before, after, strict=True)  # along a dimension of one element, all or nothing
    ranges = tuple(r if r is None or b == a else (np.zeros(1), (r[1] > r[0]) * a) for r, b, a in every)
    return Value(v.base, v.coef, box=ranges, bound=v.bound)


def expanded(v: Value, axis: int) -> Value:
    """The value with another dimension, of one element, before `axis`."""
    coef = (*v.coef[:axis], 0.0, *v.coef[axis:])
    box = None if v.box is None else (*v.box[:axis], None, *v.box[axis:])
    pieces = (*v.pieces[:axis], None, *v.pieces[axis:]) if v.pieces else ()
    floors = tuple(Floor(f.factor, (*f.slopes[:axis], 0.0, *f.slopes[axis:])) for f in v.floors)
    exact = _moved(v, lambda every: np.expand_dims(every, axis))
    return replace(v, coef=coef, box=box, pieces=pieces, floors=floors, exact=exact)


def transposed(v: Value, text: str) -> Value:
    """The value with its dimensions in the order that the text of `tt.trans` states."""
    order = [int(n) for n in text.partition("order = array<i32: ")[2].partition(">")[0].split(",") if n.strip()]
    if sorted(order) != list(range(len(v.coef))):
        return unknown(len(v.coef), v.loads)
    box = None if v.box is None else tuple(v.box[i] for i in order)
    pieces = tuple(v.pieces[i] for i in order) if v.pieces else ()
    floors = tuple(Floor(f.factor, tuple(f.slopes[i] for i in order)) for f in v.floors)
    exact = _moved(v, lambda every: np.transpose(every, order))
    return replace(v, coef=tuple(v.coef[i] for i in order), box=box, pieces=pieces, floors=floors, exact=exact)
