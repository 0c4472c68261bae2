"""Columns of lanes, which say what a register holds in each thread as far as it is known, and what the executor needs
to know of an instruction, whatever the vendor.

Registers are unsigned 32-bit numbers in int64 arrays, predicates are bool arrays. An array of one entry is the same in
all lanes. A column that is not there at all (None) is unknown in every lane."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple, Protocol

import numpy as np

Array = Any
"""A NumPy array of int64 or bool."""

MANY, ROOM = 1024, 32
"""Numbers of which marks tell the different ones, if the first and the last have at most so many places for each."""
WORD = 0xFFFFFFFF
MASK = np.array(WORD)
"""The same as an array without dimensions, which NumPy takes in half the time."""
SIGN = 0x80000000
SIGN_BIT = np.array(SIGN)


@contextmanager
def uncollected() -> Iterator[None]:
    """No search for cycles of references. An execution makes none, but so many tuples of columns that searches take a
    tenth of its time. A thread that comes in second leaves the collector to the first."""
    searches = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searches:
            gc.enable()


def wide(bits: Array, count: int) -> Array:
    """One entry for each of so many lanes."""
    return bits if len(bits) == count else np.repeat(bits, count)


def begins(bits: Array) -> Array:
    """The first places of runs of equal numbers."""
    return _fresh(bits).nonzero()[0]


def _fresh(bits: Array) -> Array:
    """Whether each differs from the one before."""
    first = np.empty(len(bits), bool)
    first[:1] = True
    np.not_equal(bits[1:], bits[:-1], out=first[1:])
    return first


MOMENTS = 512
"""As near as `between` tells times apart."""


def last_use(key: Array, time: Array) -> Array:
    """When the key of each use was used last before, or -1."""
    order = np.lexsort((time, key))
    before = np.full(len(key), -1)
    before[order[1:]] = np.where(key[order[1:]] == key[order[:-1]], time[order[:-1]], -1)
    return before


def between(key: Array, time: Array, before: Array) -> Array:
    """Different keys that were used after each `before` and before its `time` (distances in a stack of the latest): of
    each the first use then, whose last one was not later than `before`."""
    step = 1 + int(time.max()) // MOMENTS
    time, before = time // step, before // step
    count = int(time.max()) + 1
    each = distinct(key * count + time)
    used, last = each % count, last_use(each // count, each % count)
    uses = np.bincount((used + 1) * (count + 1) + last + 1, minlength=(count + 1) ** 2)
    uses = uses.reshape(count + 1, count + 1).cumsum(0).cumsum(1)  # before each time, with the last one before another
    return uses[time, before + 1] - uses[before + 1, before + 1]


def every(mask: Array) -> bool:
    """As `mask.all()`, which takes several times as long for a few thousand lanes."""
    return bool(np.count_nonzero(mask) == mask.size)


def some(mask: Array) -> bool:
    """As `mask.any()`."""
    return bool(np.count_nonzero(mask))


def lengths(first: Array, count: int) -> Array:
    """Of runs that begin at these of so many places."""
    out = np.empty(len(first), np.int64)
    np.subtract(first[1:], first[:-1], out=out[:-1])
    out[-1:] = count - first[-1:]
    return out


def distinct(bits: Array) -> Array:
    """As np.unique gives, which hashes: that takes several times as long. Marks take less than a sort, where many lie
    close."""
    if bits.size >= MANY:
        low = bits.min()
        if (room := int(bits.max()) - int(low) + 1) <= ROOM * bits.size:
            marks = np.zeros(room, bool)
            marks[bits - low] = True
            return np.flatnonzero(marks).astype(bits.dtype) + low
    ordered = bits.flatten()
    ordered.sort()
    return ordered[_fresh(ordered)]


class Column(NamedTuple):
    bits: Array
    known: Array | None = None
    """Where the bits mean something; None: everywhere."""

    def spread(self, count: int) -> Column:
        """One entry for each of so many lanes."""
        return Column(wide(self.bits, count), None if self.known is None else wide(self.known, count))

    def taken(self, which: Array) -> Column:
        """Of some lanes."""
        bits = self.bits if len(self.bits) == 1 else self.bits[which]
        return Column(bits, self.known if self.known is None or len(self.known) == 1 else self.known[which])

    @property
    def sure(self) -> Array:
        """Lanes in which a predicate is known to hold."""
        return self.bits if self.known is None else self.bits & self.known

    @property
    def possible(self) -> Array:
        """Lanes in which a predicate is not known to fail."""
        return self.bits if self.known is None else self.bits | ~self.known


Value = Column | None


def number(value: int) -> Column:
    return Column(np.array([value & WORD], np.int64))


ZERO = number(0)
UNKNOWN = Column(np.zeros(1, np.int64), np.zeros(1, bool))
TRUE, FALSE = Column(np.ones(1, bool)), Column(np.zeros(1, bool))


def signed(bits: Array) -> Array:
    return (bits ^ SIGN_BIT) - SIGN_BIT


def unsigned(bits: Array) -> Array:
    return bits


def pair(low: Array, high: Array) -> Array:
    """Two words as one signed number of 64 bits."""
    return low | signed(high) << 32


def alike(value: Value) -> bool:
    """Whether a value is the same in all lanes."""
    return value is not None and bool((value.bits == value.bits[0]).all())


def told(value: Value) -> bool:
    """Whether anything is known of a value."""
    return value is not None and (value.known is None or some(value.known))


def known_in(columns: Sequence[Column]) -> Array | None:
    """Lanes in which all are known."""
    out = None
    for column in columns:
        if column.known is not None:
            out = column.known if out is None else out & column.known
    return out


def applied(function: Callable[..., Any], values: Sequence[Value]) -> tuple[Value, ...]:
    """The results of a function of bits, known where all arguments are. A tuple even of one result."""
    bits, known = [], None
    for value in values:
        if value is None:
            return ()
        bits.append(value.bits)
        if value.known is not None:
            known = value.known if known is None else known & value.known
    found = function(*bits)
    if not isinstance(found, tuple):  # most: a generator would take as long as the sum
        return (Column(found if found.ndim else np.atleast_1d(found), known),)
    return tuple(Column(each if each.ndim else np.atleast_1d(each), known) for each in found)


def settled(function: Callable[..., Any], values: Sequence[Value]) -> tuple[Value, ...]:
    """The same of predicates: known also where every way to fill in what is unknown gives the same."""
    count = max((len(value.bits) for value in values if value is not None), default=1)
    full = [Column(np.zeros(1, bool), np.zeros(1, bool)) if value is None else value for value in values]
    doubt = [column for column in full if column.known is not None]
    if not doubt:
        return applied(function, values)
    outs = []
    for guesses in product((False, True), repeat=len(doubt)):
        guess = iter(guesses)
        out = function(*(c.bits if c.known is None else np.where(c.known, c.bits, next(guess)) for c in full))
        outs.append(out if isinstance(out, tuple) else (out,))
    results = []
    for each in zip(*outs, strict=True):
        first = np.broadcast_to(each[0], np.broadcast_shapes(*(np.shape(bits) for bits in each), (count,)))
        same = np.logical_and.reduce([np.broadcast_to(bits, first.shape) == first for bits in each])
        results.append(Column(first, None if same.all() else same))
    return tuple(results)


def merged(where: Column, new: Value, old: Value, count: int) -> Value:
    """What a register holds after a write under a guard."""
    if new is None and old is None:
        return None
    guard = where.spread(count)
    mine = (new or UNKNOWN).spread(count)
    was = (old or Column(np.zeros(1, mine.bits.dtype), np.zeros(1, bool))).spread(count)
    bits = np.where(guard.bits, mine.bits, was.bits)
    masks = [np.ones(count, bool) if each.known is None else each.known for each in (mine, was)]
    known = np.where(guard.bits, *masks)
    if guard.known is not None:
        known = known & (guard.known | (masks[0] & masks[1] & (mine.bits == was.bits)))
    return Column(bits, None if every(known) else known)


def _as_mask(column: Column) -> Column:
    if column.bits.dtype == bool:
        return column
    whole = (column.bits == 0) | (column.bits == WORD)
    known = whole if column.known is None else whole & column.known
    return Column(column.bits != 0, None if known.all() else known)


def gathered(parts: Sequence[Value], counts: Sequence[int], order: Array) -> Value:
    """One column of several, whose lanes follow each other, put in order."""
    if all(part is None for part in parts):
        return None
    full = [part or UNKNOWN for part in parts]
    first = full[0]
    if all(len(each.bits) == 1 and each.known is None and each.bits[0] == first.bits[0] for each in full):
        return first
    kinds = {part.bits.dtype for part in parts if part is not None}
    if len(kinds) > 1:  # a mask of lanes, and a number that stands for all of them or none
        full = [_as_mask(each) for each in full]
    kind = np.dtype(bool) if len(kinds) > 1 else next(iter(kinds))
    unsure = any(each.known is not None for each in full)
    bits, known = np.empty(len(order), kind), np.empty(len(order), bool) if unsure else None
    end = 0
    for each, n in zip(full, counts, strict=True):
        here = slice(end, end := end + n)
        bits[here] = each.bits
        if known is not None:
            known[here] = True if each.known is None else each.known
    return Column(bits[order], known if known is None else known[order])


HERE = -1
"""The address of the instruction that is run, for what does not know it."""


class Thread(Protocol):
    """Lanes at one place of the code, as instructions see them.

    notes: whether what outcomes depend on is of use, as in loops
    under: by guards that are not sure, what registers hold in lanes that took part
    """

    notes: bool
    under: dict[str, dict[str, Value]]

    def get(self, name: str) -> Value: ...
    def set(self, name: str, value: Value) -> None: ...
    def constant(self, bank: int, offsets: Column) -> Value:
        """Words of constant memory."""

    def special(self, name: str) -> Value:
        """A special register: places of the thread and its block."""

    def note(self, address: int, how: str, *values: Column) -> None:
        """What an outcome depends on: `how` is a comparison of two values (EQ, NE, LT, LE, GT, GE), "cut" where the low
        bits of the first are dropped, the second says how many, "low" where all above so many may be, "masked" where
        bits of any place may be, "still" where nothing is known of the result once a value changes."""

    def lost(self, opcode: str, names: Sequence[str]) -> None:
        """That an instruction is not known: what it writes is unknown, and it is counted."""

    def takes_columns(self, runs: Value) -> None:
        """Of tensor memory, in runs of 32."""

    def ballot(self, holds: Array) -> Array: ...
    def matched(self, values: Array) -> Array: ...
    def leader(self) -> Array: ...
    def leads(self) -> Array: ...
    def shuffled(self, values: Array, lanes: Array) -> Array: ...


def taken_from(thread: Thread, held: Value, lane: Value) -> Value:
    """What another lane of the warp holds, by its number; None where that is not known, or differs and is not known in
    all lanes."""
    if held is None or lane is None or (held.known is not None and len(held.bits) > 1):
        return None
    return held if len(held.bits) == 1 else Column(thread.shuffled(held.bits, lane.bits), lane.known)


@dataclass(frozen=True)
class Op:
    """One instruction.

    `kind`: "alu", "global", "shared" and "local" for accesses of lanes, "box" and "bulk" for copies that one thread
    issues, "barrier" for a wait on a barrier in memory, "branch", "exit", "call", "return", "indirect", "turns" at the
    end of code that lanes of a warp go through one by one, or "none" for what concerns neither addresses nor control.
    """

    address: int
    kind: str
    run: Callable[[Any], Any] | None = None
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    guard: str = ""
    """A predicate, with "!" before it where it must fail."""
    asks: frozenset[str] = frozenset()
    """Predicates, the guard among them, that say which lanes take part."""
    only: str = ""
    """A predicate without which what else the instruction reads does not matter."""
    target: int | None = None
    conditions: Sequence[Callable[[Any], Value]] = ()
    """Predicates that must hold as well."""
    back: Callable[[Any], Value] | None = None
    """Where a return goes to."""
    at: Any = None
    width_bytes: int = 4
    """Of one lane."""
    mask: Sequence[Callable[[Any], Value]] = ()
    inner: Callable[[Any], Value] | None = None
    """The place in shared memory of a copy."""
    access: str = ""
    """load, store, copy, atomic."""
    loads: Sequence[str] = ()
    """Registers that get words of global memory."""
    signed_bits: int = 0
    """Of a number with a sign that is shorter than the register which it goes to."""
    stored: Sequence[Callable[[Any], Value]] = ()
    """Words that go to shared memory, and in `stored_names` their registers."""
    stored_names: frozenset[str] = frozenset()
    deals: Callable[[Any], Value] | None = None
    """What an atomic adds to a number of which it loads what was there before."""
    strong: bool = False
    """Whether it accesses what other blocks write meanwhile."""
    map: tuple[Callable[[Any], Value], Callable[[Any], Value]] | None = None
    coordinates: Sequence[Callable[[Any], Value]] = ()
    barrier: Callable[[Any], Value] | None = None
    size: Any = None
    """Of a copy of a run of bytes, in units of 16."""
    terms: Sequence[Callable[[Any], Value]] = field(default_factory=list)
    """Of the address of a barrier, with `offset`."""
    offset: int = 0
    rare: bool = False
    """Of a branch: what it passes by is for arguments that are rare, so that it is taken where it is not known."""
    waits: bool = False
    """For all warps of its block."""
    named: str = ""
    """The opcode of an instruction that is not known."""
    within: str = ""
    """A mask of the lanes whose results it writes, where it is no guard: other lanes get something as well."""

    def placed(self, address: int) -> Op:
        """The same at an address."""
        return self.with_(address=address)

    def with_(self, **fields: Any) -> Op:
        """The same with other fields; `replace` takes ten times as long."""
        new = object.__new__(Op)
        new.__dict__.update(self.__dict__, **fields)
        return new


NOTHING_DONE = Op(HERE, "none")
"""What others are made from by `Op.with_`."""
