"""Columns of lanes: what a register holds in each thread, as far as it is known.

Registers are unsigned 32-bit numbers in int64 arrays, predicates are bool arrays. An array of one entry is the same in
all lanes. A column that is not there at all (None) is unknown in every lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Array = Any
"""A NumPy array of int64 or bool."""

WORD = 0xFFFFFFFF
SIGN = 0x80000000


def wide(bits: Array, count: int) -> Array:
    """One entry for each of so many lanes."""
    return bits if len(bits) == count else np.repeat(bits, count)


def begins(bits: Array) -> Array:
    """The first places of runs of equal numbers."""
    first = np.ones(len(bits), bool)
    np.not_equal(bits[1:], bits[:-1], out=first[1:])
    return np.flatnonzero(first)


def distinct(bits: Array) -> Array:
    """As np.unique gives, which hashes: that takes several times as long."""
    ordered = np.sort(bits, axis=None)
    return ordered[begins(ordered)]


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
    return (bits ^ SIGN) - SIGN


def unsigned(bits: Array) -> Array:
    return bits


def pair(low: Array, high: Array) -> Array:
    """Two words as one signed number of 64 bits."""
    return low | signed(high) << 32


def told(value: Value) -> bool:
    """Whether anything is known of a value."""
    return value is not None and (value.known is None or bool(value.known.any()))


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
    outs = found if isinstance(found, tuple) else (found,)
    return tuple(Column(each if each.ndim else np.atleast_1d(each), known) for each in outs)


def settled(function: Callable[..., Any], values: Sequence[Value]) -> tuple[Value, ...]:
    """The same of predicates: known also where every way to fill in what is unknown gives the same."""
    count = max((len(value.bits) for value in values if value is not None), default=1)
    full = [Column(np.zeros(1, bool), np.zeros(1, bool)) if value is None else value for value in values]
    doubt = [column for column in full if column.known is not None]
    if not doubt:
        return applied(function, values)
    outs = []
    for guess in range(1 << len(doubt)):
        filled, place = [], 0
        for column in full:
            if column.known is None:
                filled.append(column.bits)
                continue
            fill = bool(guess >> place & 1)
            filled.append(np.where(column.known, column.bits, fill))
            place += 1
        out = function(*filled)
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
    mine = (new or Column(np.zeros(1, np.int64), np.zeros(1, bool))).spread(count)
    was = (old or Column(np.zeros(1, mine.bits.dtype), np.zeros(1, bool))).spread(count)
    bits = np.where(guard.bits, mine.bits, was.bits)
    masks = [np.ones(count, bool) if each.known is None else each.known for each in (mine, was)]
    known = np.where(guard.bits, *masks)
    if guard.known is not None:
        known = known & (guard.known | (masks[0] & masks[1] & (mine.bits == was.bits)))
    return Column(bits, None if known.all() else known)


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
    full = [part or Column(np.zeros(1, np.int64), np.zeros(1, bool)) for part in parts]
    first = full[0]
    if all(len(each.bits) == 1 and each.known is None and each.bits[0] == first.bits[0] for each in full):
        return first
    kinds = {part.bits.dtype for part in parts if part is not None}
    if len(kinds) > 1:  # a mask of lanes, and a number that stands for all of them or none
        full = [_as_mask(each) for each in full]
    kind = np.dtype(bool) if len(kinds) > 1 else next(iter(kinds))
    bits = np.concatenate([np.broadcast_to(each.bits.astype(kind), n) for each, n in zip(full, counts, strict=True)])
    known = None
    if any(each.known is not None for each in full):
        known = np.concatenate(
            [
                np.broadcast_to(True if each.known is None else each.known, n)
                for each, n in zip(full, counts, strict=True)
            ]
        )[order]
    return Column(bits[order], known)
