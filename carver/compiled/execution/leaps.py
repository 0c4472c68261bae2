"""Go through loops in leaps: passes that are sure to be like the last ones are not run one by one.

At the head of a loop, what its registers hold must have moved by equal steps in three periods of passes, or two turns
of a ring of buffers, and what was recorded in them must agree, step by step. Each comparison, and each result that
loses bits of its operands, then says for how many passes its outcome goes on in the same way. The least of these is the
leap. Where that never comes, as with addresses from a table, only what branches depend on must: a rough leap, by a part
of the passes. Loops inside others leap there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise, product
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...base.errors import CompileError
from .lanes import MASK, WORD, Array, Column, Value, signed, some
from .program import KEPT, MOVES, Block, Program

PERIODS = (1, 2, 3, 4, 5, 6, 7, 8)
"""Passes after which a loop may repeat: stages of a ring of buffers, say."""
RING = 4
"""Buffers of a ring, or more, that agree for sure when two turns of it do: these are eight passes."""
RING_PASSES = 9
"""Passes of a loop that waits for barriers in memory which are run, so that its whole ring of buffers is seen."""
PATIENCE, PIECES = 12, 6
"""Passes after which a loop is leapt over although some of its addresses do not move evenly, as those that it computes
from a table: it is then run in so many pieces, and in between addresses move as they did last."""
RARELY = 16
"""After so many comparisons of passes in vain, one pass more goes by until the next."""
STORING_PASSES = 256
"""Passes that are run of a loop that stores known numbers, which later loads may need."""
STACK = "R1"
"""The stack pointer of NVIDIA's code."""
FOREVER = 1 << 50
ENDLESS = 1 << 31


class Walk(NamedTuple):
    steps: tuple[Array, ...]
    """One for each value of the event."""
    times: int
    head: int
    """The block that its loop begins with."""


class Event(NamedTuple):
    """What a fiber did.

    kind: "block", "turns", "note", "wait", "global", "shared", "local", "box", "bulk"
    where: the basic block, or the address of the instruction
    values: what it depended on: addresses, coordinates, sides of a comparison
    detail: warps of a block, and with turns how many more each takes; how the outcome of a note depends on its values;
        active lanes of an access
    places: in shared memory; they may go round
    walks: of an event that stands for later passes of its loop, not for itself: by how much its values move in each
        pass, and how many there are; a loop around that one adds another walk
    """

    kind: str
    where: int
    lanes: Array
    values: tuple[Value, ...]
    detail: Any = None
    places: tuple[Value, ...] = ()
    walks: tuple[Walk, ...] = ()


class Lanes(Protocol):
    """Lanes at one place of the code, and what their registers hold."""

    lanes: Array
    block: int
    values: dict[str, Column]


class Execution(Protocol):
    """What is executed: the code, what happened until now, and how to count passes that are leapt over."""

    program: Program
    blocks: list[Block]
    log: list[Event]
    assumed: set[int]
    leaves: set[int]
    kept_at: int
    slot: Array

    def forget(self) -> None: ...
    def ran(self, block: int, warps: Array, times: int | Array = 1) -> None: ...


class Mark(NamedTuple):
    """The state at the head of a loop."""

    at: int
    """Length of the log."""
    lanes: Array
    values: Sequence[Value]
    rewritten: Mapping[str, Value]
    """Of registers that the lanes which take part write before they read."""


class Leaper:
    def __init__(self, run: Execution) -> None:
        self.run = run
        self._marks: dict[int, list[Mark]] = {}
        self._names = {n: sorted(run.blocks[n].live - run.blocks[n].rewritten) for n in run.program.heads}
        self._rough: dict[int, int] = {}
        """Heads of loops that were leapt over although some addresses do not move evenly, and passes of a piece."""
        self._failed, self._rests = Counter[int](), Counter[int]()
        """By head: how often passes were compared in vain, and how many pass until they are again."""
        self._storing = Counter[int]()
        """Passes of loops that stored what is known, where loads may find it."""
        waiting = run.program.waiting
        self._least = {n: RING_PASSES for n in run.program.heads if not waiting.isdisjoint(run.program.span(n))}

    def leap(self, fiber: Lanes) -> None:
        """At the head of a loop, go on by as many passes as are sure to be alike, by the shortest period that repeats;
        after some PATIENCE by as many as are alike but for addresses that do not move evenly (`rough`)."""
        head, names, marks = fiber.block, self._names[fiber.block], self._marked(fiber)
        if self._too_soon(head, marks):
            return
        steers, ring = self.run.blocks[head].steers, head in self._least
        for rough, period in product((False, True), PERIODS):
            if rough and len(marks) <= PATIENCE and head not in self._rough:
                return
            turns = 2 if ring and period >= RING else 3
            if len(marks) <= turns * period:
                continue
            last = marks[-1 : -turns * period - 2 : -period]
            steps = moved([mark.values for mark in last], [rough and name not in steers for name in names])
            if steps is None:
                continue
            if STACK in names and steps[names.index(STACK)] is not None:  # calls of itself, which come back
                return
            if (spans := self._spans(fiber, last)) is None:
                return
            times, walked = repeats(spans, self.run.program.steering if rough else None)
            if times <= 2:  # the last pass is run
                continue
            if ring and times * period < PERIODS[-1] and len(marks) <= 2 * PERIODS[-1] + 1:
                continue  # as far as it goes until the ring is through once: a turn is the longer way
            if rough and times <= ENDLESS:
                self._rough[head] = self._rough.get(head) or max(times // PIECES, 3)
                times = min(times, self._rough[head])
            if times > ENDLESS:
                self._leave(head)
            else:
                self._go(fiber, names, steps, spans[0], walked, times - 1)
                self._lose(fiber, last[0].rewritten, last[1].rewritten)
            self._begin_anew(head)
            return

    def _marked(self, fiber: Lanes) -> list[Mark]:
        """States at a head, with that of now; those of other lanes than now are forgotten."""
        head, marks = fiber.block, self._marks.setdefault(fiber.block, [])
        if marks and not np.array_equal(marks[-1].lanes, fiber.lanes):
            self._begin_anew(head)
            if head in self._rough:
                self._rough[head] = 0
        rewritten = {name: fiber.values.get(name) for name in self.run.blocks[head].rewritten}
        held = [fiber.values.get(name) for name in self._names[head]]
        marks.append(Mark(len(self.run.log), fiber.lanes, held, rewritten))
        del marks[: -4 * PERIODS[-1]]
        return marks

    def _begin_anew(self, head: int) -> None:
        self._marks[head].clear()
        self._failed[head] = self._rests[head] = 0

    def _too_soon(self, head: int, marks: Sequence[Mark]) -> bool:
        """Whether passes are not compared yet: of a ring of buffers, of stores that later loads may need, or after
        comparisons in vain."""
        if len(marks) <= self._least.get(head, 0):
            return True
        if len(marks) > 1 and self.run.kept_at > marks[-2].at and self._storing[head] < STORING_PASSES:
            self._storing[head] += 1
            return True
        if self._rests[head] > 0:
            self._rests[head] -= 1
            return True
        self._failed[head] += 1
        self._rests[head] = self._failed[head] // RARELY
        return False

    def _spans(self, fiber: Lanes, last: Sequence[Mark]) -> list[list[Event]] | None:
        """What was recorded between marks, the newest first, without what other lanes did meanwhile; None where these
        lanes are apart from others with which they go through a loop around this one."""
        spans = [self.run.log[begin:end] for end, begin in pairwise([mark.at for mark in last])]
        if len(fiber.lanes) == len(self.run.slot):
            return spans
        mine = np.zeros(len(self.run.slot), bool)
        mine[fiber.lanes] = True
        spans = [[event for event in span if mine[event.lanes[0]]] for span in spans]
        return None if max([len(event.lanes) for event in spans[0]], default=0) > len(fiber.lanes) else spans

    def _lose(self, fiber: Lanes, now: Mapping[str, Value], before: Mapping[str, Value]) -> None:
        """What the next pass writes before it reads is not known until then, in lanes where it changes."""
        for name, held in now.items():
            was = before[name]
            if held is None or was is None or held.bits.dtype != was.bits.dtype:
                fiber.values.pop(name, None)
                continue
            same = np.broadcast_to(held.bits == was.bits, len(fiber.lanes))
            if not same.all():
                known = same if held.known is None else same & held.known
                fiber.values[name] = Column(held.bits, known)

    def _leave(self, head: int) -> None:
        """Have a loop end that waits for what another block writes: a branch on what is not known is taken there."""
        program, run = self.run.program, self.run
        ends = {op.address for op in program.loop_ops(head) if op.kind in ("branch", "exit")}
        found = ends & run.assumed - run.leaves
        if not found:
            at = program.ops[program.ranges[head][0]].address
            why = "does not end: nothing that its branches depend on changes"
            if any(op.strong and op.access == "load" for op in program.loop_ops(head)):
                why = "waits for other blocks, as grid.sync() of cooperative groups does, and is not followed"
            raise CompileError(f"the loop at {at:#x} {why}")
        run.leaves |= found

    def _go(
        self, fiber: Lanes, names: Sequence[str], steps: Sequence[Array | None], span: Sequence[Event],
        walked: Sequence[tuple[Array, ...]], times: int,
    ) -> None:  # fmt: skip
        program = self.run.program
        if any(e.kind in KEPT and program.ops[program.index[e.where]].access != "load" for e in span):
            self.run.forget()  # what later passes store is not known
        for event, each in zip(span, walked, strict=True):
            passes = times * prod(walk.times for walk in event.walks)
            if event.kind == "block":
                self.run.ran(event.where, event.detail, passes)
            elif event.kind == "turns":
                warps, more = event.detail
                self.run.ran(event.where, warps, more * passes)
            if event.kind != "note":
                self.run.log.append(event._replace(walks=(*event.walks, Walk(each, times, fiber.block))))
        for name, step in zip(names, steps, strict=True):
            held = fiber.values.get(name)
            if held is not None and step is not None:
                fiber.values[name] = Column(held.bits + step * times & WORD, held.known)


def moved(states: Sequence[Sequence[Value]], rough: Sequence[bool]) -> list[Array | None] | None:
    """By how much each of several values moves from one state to the one before it in the list, the same between all;
    None for a value that stays or is not known. None altogether where one does not move evenly. One for which `rough`
    holds need not: what is known of all goes on as it did last."""
    if not _even_at_first(states, rough):
        return None
    out: list[Array | None] = []
    for columns, uneven in zip(zip(*states, strict=True), rough, strict=True):
        first = columns[0]
        if not uneven and first is columns[1] and all(column is first for column in columns):
            out.append(None)
            continue
        if uneven:
            before = columns[1]
            if first is None or before is None or first.bits.dtype == bool:
                out.append(None)
            else:
                out.append(signed(first.bits - before.bits & MASK))
            continue
        if first is None:
            if any(column is not None for column in columns):
                return None
            out.append(None)
            continue
        if any(column is None or not _alike(column.known, first.known) for column in columns):
            return None
        bits = [column.bits for column in columns if column is not None]
        if any(each.dtype != bits[0].dtype for each in bits):
            return None
        if bits[0].dtype == bool:
            if not all(_same(bits[0], each, first.known) for each in bits[1:]):
                return None
            out.append(None)
            continue
        steps = [later - earlier & MASK for later, earlier in pairwise(bits)]
        if not all(_same(steps[0], each, first.known) for each in steps[1:]):
            return None
        out.append(signed(steps[0]) if some(steps[0]) else None)
    return out


def _even_at_first(states: Sequence[Sequence[Value]], rough: Sequence[bool]) -> bool:
    """Whether values may move evenly, by a quick look at the last three states of the first lane."""
    for newest, before, oldest, uneven in zip(*states[:3], rough, strict=True):
        if uneven or newest is before is oldest:
            continue
        if newest is not None and before is not None and oldest is not None and newest.known is None:
            last, mid, first = (int(each.bits[0]) for each in (newest, before, oldest))
            if newest.bits.dtype != bool and (last - 2 * mid + first) & WORD:
                return False
    return True


def _alike(known: Array | None, other: Array | None) -> bool:
    return known is other or (known is not None and other is not None and np.array_equal(known, other))


def _same(bits: Array, other: Array, known: Array | None) -> bool:
    apart = bits != other
    return not some(apart if known is None else apart & known)


def repeats(spans: Sequence[Sequence[Event]], steering: Set[int] | None = None) -> tuple[int, list[tuple[Array, ...]]]:
    """For how many passes what was recorded goes on as it did in the last ones, newest first, and by how much the
    values of each event move. 0 where they do not agree. With `steering`, only the outcomes at these addresses need go
    on: other values move as they did last."""
    if len({len(span) for span in spans}) > 1:
        return 0, []
    most, walked = FOREVER, list[tuple[Array, ...]]()
    for events in zip(*spans, strict=True):
        first = events[0]
        kind, where, count = first.kind, first.where, len(first.lanes)
        for each in events[1:]:
            if each.kind != kind or each.where != where or len(each.lanes) != count:
                return 0, []
            if (each.walks or first.walks) and not _walk_alike(each.walks, first.walks):
                return 0, []
        if not first.values and kind != "note":
            walked.append(())
            continue
        steps = []
        for columns in zip(*(each.values for each in events), strict=True):
            step = _walk(columns)
            if step is None and steering is not None and (first.kind != "note" or first.where not in steering):
                step = columns[0].bits - columns[1].bits if columns[0] and columns[1] else None
            elif step is None and first.kind in ("note", *MOVES):
                return 0, []
            steps.append(np.zeros(1, np.int64) if step is None else step)
        if first.kind == "note" and (steering is None or first.where in steering):
            most = min(most, _holds(events, steps))
        if most < 3:
            return 0, []
        walked.append(tuple(steps))
    return most, walked


def _walk_alike(walks: Sequence[Walk], others: Sequence[Walk]) -> bool:
    return len(walks) == len(others) and all(
        mine.times == other.times and all(map(np.array_equal, mine.steps, other.steps))
        for mine, other in zip(walks, others, strict=True)
    )


def _walk(columns: Sequence[Value]) -> Array | None:
    """The step between the values of one kind; zero where none is known, None where it changes."""
    first = columns[0]
    if first is None:
        return np.zeros(1, np.int64) if all(column is None for column in columns) else None
    bits = [column.bits for column in columns if column is not None and _alike(column.known, first.known)]
    if len(bits) < len(columns):
        return None
    if bits[0].dtype == bool:  # a predicate has no step
        return np.zeros(1, np.int64) if all(map(np.array_equal, bits[1:], bits)) else None
    if first.known is None and max(map(len, bits)) == 1:
        numbers = [int(each[0]) for each in bits]
        alone = {later - earlier for later, earlier in pairwise(numbers)}
        return np.array([*alone], np.int64) if len(alone) == 1 else None
    steps = [later - earlier for later, earlier in pairwise(bits)]
    return steps[0] if all(_same(steps[0], each, first.known) for each in steps[1:]) else None


def _holds(events: Sequence[Event], steps: Sequence[Array]) -> int:
    """For how many passes the outcome of a note goes on as in the last ones."""
    columns = [[value for value in event.values if value is not None] for event in events]
    known = columns[0][0].known
    moves = [_where(step, known) for step in steps]
    how = events[0].detail
    if not any(map(some, moves)):
        return FOREVER
    bits = [[_where(value.bits, known) for value in each] for each in columns]
    if how == "still":
        return 0
    if how == "low" and not (moves[0] & (1 << int(bits[0][1].max())) - 1).any():
        return FOREVER  # of what moves no bit is among those
    if how == "low":
        return _masked([each[0] for each in bits], moves[0])
    if how == "masked":
        kept = [place for place, step in enumerate(moves) if step.any()]
        return min(_masked([each[place] for each in bits], moves[place]) for place in kept)
    if how == "cut":
        return 0 if moves[1].any() else _carry([each[0] for each in bits], moves[0], bits[0][1])
    return horizon(bits[0][0] - bits[0][1], moves[0] - moves[1], how)


def _where(bits: Array, known: Array | None) -> Array:
    return bits if known is None or len(bits) == 1 else bits[np.broadcast_to(known, len(bits))]


def horizon(difference: Array, step: Array, how: str) -> int:
    """For how many passes a comparison of a number with 0 keeps its outcome, where the number moves by `step`."""
    d, s = np.broadcast_arrays(difference, step)
    moving = s != 0
    if not moving.any():
        return FOREVER
    d, s = d[moving], s[moving]
    if how in ("LE", "GT"):
        d = d - 1
    if how in ("EQ", "NE"):
        towards = (d != 0) & ((d < 0) != (s < 0)) & (-d % s == 0)
        n = np.where(d == 0, 0, np.where(towards, -d // s - 1, FOREVER))
    else:
        rising, falling = (d < 0) & (s > 0), (d >= 0) & (s < 0)
        n = np.where(rising, (-d - 1) // np.maximum(s, 1), np.where(falling, d // np.maximum(-s, 1), FOREVER))
    return int(n.min())


def _carry(bits: Sequence[Array], step: Array, shift: Array) -> int:
    """For how many passes a number, newest first, goes on evenly without its lowest `shift` bits: until what they gain
    carries into the others."""
    value, shift, rest = np.broadcast_arrays(bits[0], shift, step)
    rest = rest - ((bits[0] >> shift) - (bits[1] >> shift) << shift)
    return _until_carry(value, rest, shift)


def _masked(bits: Sequence[Array], step: Array) -> int:
    """The same of a number of which bits of any place are dropped: until one changes that has not changed yet."""
    value, step = np.broadcast_arrays(bits[0], step)
    changed = np.zeros_like(value)
    for earlier in bits[1:]:
        changed = changed | (value ^ earlier)
    top = np.frexp((changed & (1 << 52) - 1).astype(np.float64))[1].astype(np.int64)  # one above the highest
    return _until_carry(value, step, top)


def _until_carry(value: Array, step: Array, shift: Array) -> int:
    """How often a number can be added before the lowest `shift` bits carry into the others, either way."""
    low = value & np.left_shift(1, shift) - 1
    room = np.where(step > 0, np.left_shift(1, shift) - 1 - low, low)
    return int(np.where(step == 0, FOREVER, room // np.maximum(np.abs(step), 1)).min())
