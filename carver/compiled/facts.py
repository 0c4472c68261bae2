"""Everything that is known of a compiled kernel on one device: its machine code, matched with what its programs do; and
how a report says it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heapreplace
from types import MappingProxyType
from typing import Any

import numpy as np

from ..arch.descriptor import Arch, blocks_that_fit, l1_room_bytes
from ..base.table import several
from ..base.types import FloatArray, Record
from .atomics import WORD_BYTES, met, tries
from .dealt import dealt_to, goes_on, idle_elements, lines, passed_on
from .footprint import Footprint, Touched
from .machine import LATENCIES_CLK, USUAL_LATENCY, Machine, Span
from .match import matched, shallow, unfused
from .stretches import (
    Stretch,
    align_bytes,
    anywhere,
    density,
    fetched,
    filled,
    filled_in_part,
    fresh,
    held_bytes,
    merged,
    neighbours,
    reached,
    tile_elements,
)
from .trace import Access, LoopTrace, Trace
from .turns import in_turn

ATOMIC = "atomic global "
LEAST_TOGETHER = 16
"""Programs that are not told apart by when they begin."""
MOST_BYTES = 2.0**39
"""More than any tensor has. Of an instruction that goes through several tensors, as where two change places after each
pass, what lies farther away is another one."""
TAKEN = "assumed: undecided branches go one way, such loops run once, tickets in order"


class LoopFacts(Record):
    """One loop of the machine code."""

    name: str
    """The counter of the program's loop that it stands for; empty where it stands for none."""
    parent: int
    trips: float
    """Passes of its code in the mean program, and in `most_trips` in the program that has most."""
    most_trips: float
    span: Span
    where: str = ""
    """Its line of the source, as "kernels.py:12"; empty where that is not known."""


class AccessFacts(Record):
    """What one load or store of the program moves."""

    kind: str
    path: str
    argument: str
    loop: int
    """Of the program's loops; -1 outside of all."""
    program_bytes: float
    """Asked for by the mean program: distinct elements of each tile that its mask lets through; of an atomic all, since
    each is work of its own."""
    stride_bytes: float | None
    """From one pass of its loop's code to the next, in the mean; None where that is not known."""
    run_bytes: float
    """Contiguous in a tile."""
    span_bytes: float
    """Of a stretch of the tile whose elements are less than a sector apart; the run, where there are no gaps."""
    density: float
    """Share of a stretch that is used, by this access or by others of its loop that read what it leaves out."""
    filled: float
    """The same by all iterations of a program; of stretches within a sector each, how many times what is asked for is
    read of it. Of a store, how many of its loop write to the same sectors."""
    align_bytes: float
    """Of the starts of stretches."""
    anywhere: bool = False
    """Its tiles, or runs of them, may lie anywhere: their places are loaded, or not affine."""
    touched: float = 1.0
    """Bytes of the sectors that it is in over bytes asked for: whole sectors of runs that lie anywhere, gaps of
    stretches."""
    fetched: float = 1.0
    """The same of sectors that neither an earlier pass of its loop nor an access before it has fetched."""
    placed: bool = False
    """All elements of its tiles are known, though not affine: `fetched` says what these fetch together."""
    fresh: float = 1.0
    """Share of its sectors that no load before it, at a known distance, has fetched and L1 still has."""
    merged: float = 1.0
    """Share of its sectors that no earlier iteration in the same pass of the code has asked for; of a store, that none
    right before it wrote."""
    size_bytes: float = 0.0
    """Of its tensor; 0 where that is not known."""
    lines: float = 0.0
    """Of L1 that the lanes of a warp want at a time, for as many bytes as a line has that they ask for; 0 where it is
    not known which elements they have."""
    line_bytes: float = 0.0
    """Of the sectors that they want of each."""
    banks: float = 0.0
    """Passes over L1's banks, for as many bytes; 0 where that is not known."""
    together_bytes: float = 0.0
    """Of the stretch that it makes with others of its kind that go on beside it in the same pass; 0 where instructions
    were not looked at."""
    idle_bytes: float = 0.0
    """Of its tiles in the mean program, in instructions of which masks let no lane through."""
    goes_on: bool = False
    """The next program's tile begins where rows of this one's end, or rows follow one another."""


class Facts(Record):
    """Everything that is known of one configuration of a kernel on one device, without running it."""

    grid: tuple[int, int, int]
    warps: int
    ctas: int
    shared_bytes: int
    registers: int
    spill_bytes: int
    loops: tuple[LoopFacts, ...]
    asides: tuple[tuple[float, Span], ...]
    """Code that a branch may pass by, with its passes in the mean program: what is left of unrolled loops, say."""
    straight: Span
    working: float
    """Share of the programs that run that, and do not return before."""
    accesses: tuple[AccessFacts, ...]
    unevenness: float
    """Time of the grid's programs, which begin in order as blocks end, over that of as many that do the mean work."""
    dot_flops: float
    """Of the mean program."""
    read_bytes: float
    """Distinct bytes that the grid's loads and atomics fetch."""
    written_bytes: float
    code: str
    """`Machine.digest`."""
    resident: float
    """Blocks that an SM holds, halves where a pair shares blocks; 0 where a block does not fit."""
    live_bytes: float
    """Distinct bytes that one wave reads or writes."""
    reuse: tuple[tuple[float, float], ...]
    """Bytes that later waves read again, each with the bytes that are touched meanwhile."""
    sm_reuse: tuple[tuple[float, float], ...]
    """Of one program and of ever more that an SM runs: bytes of the lines of L1 that they touch, and what all programs
    of the grid read where L1 keeps these."""
    sm_live_bytes: float
    """Distinct bytes that the programs on one SM read at a time."""
    again_bytes: float
    """Bytes that a program reads by one access after another one of its own, summed over the whole grid."""
    near_bytes: float
    """Distinct bytes that the programs of neighbouring SMs read, summed over all neighbourhoods of the grid."""
    in_step_bytes: float = 0.0
    """Bytes that all programs of the grid read, where those that an SM has at a time share what they read in the same
    pass of a loop that was followed pass by pass; 0 where that is not known."""
    step_bytes: float = 0.0
    """Of the lines of L1 in which the tiles are that one iteration of a loop loads; of the loop that has most."""
    crowding: float = 1.0
    """Work of the programs on the SM that has most of it, over that of the mean SM."""
    warp_size: int = 32
    tensor_columns: int = 0
    """Columns of tensor memory that a block allocates."""
    atomic_bytes: float = 0.0
    """Distinct bytes on which atomics of programs that run together work."""
    atomic_turns: float = 1.0
    """At L2, of four bytes of an atomic that lies anywhere: lanes of a warp that meet on a sector take as many as its
    busiest word has, whether of 32 or 64 bits."""
    atomic_crowd: float = 0.0
    """Of these turns, the share that one sector has; 0 where no sector has more than others."""
    atomic_swaps: bool = False
    """Atomics of less than a word, each a loop that compares and swaps the word until no other lane came between."""
    in_turn: float = 0.0
    """Programs that go on one after another, as they take a lock or their turns at a word: all, over the words at which
    those that run together wait."""
    handed_on: float = 0.0
    """Programs that go on one after another, as each waits for what another one stores."""
    rewritten: tuple[tuple[float, float], ...] = ()
    """The part of `reuse` that atomics read again; where it is gone from L2 it was written back, and is so again."""
    anywhere: tuple[tuple[float, float, float], ...] = ()
    """Of each tensor of which loads and atomics lie anywhere: bytes that the grid fetches, each time it asks, bytes of
    the tensor, and those of them among which programs that run together choose."""
    changed_anywhere: tuple[tuple[float, float, float], ...] = ()
    """The same for atomics, and for sectors of stores that are `filled_in_part`, which are read to be written."""
    assumed: bool = False
    """All programs take one way at a branch on what is not known, or draw from a counter in their order."""
    idle: tuple[str, ...] = ()
    """Loops that no program enters."""
    alike: tuple[str, ...] = ()
    """Tensors for all of which one number stands, from which addresses are computed: indices, tables of pages."""
    untold: tuple[str, ...] = ()
    """Tensors that choose places and of which nothing says what they hold: it counts as drawn at random."""
    beyond: tuple[tuple[str, float, float], ...] = ()
    """Arguments of which more is touched than they have: the name, the last byte that the first elements of tiles are
    known to touch, or the first where it lies before the tensor, and the bytes of the tensor."""
    inputs: tuple[tuple[str, float], ...] = ()
    """Distinct bytes that the grid loads of each tensor that it does not change, at places that are known; if it has no
    such tensor, that it stores of each."""
    stored: tuple[tuple[str, float], ...] = ()
    """Share of each tensor that the grid stores, at places that are known."""
    writing: float = 1.0
    """Share of the programs that store or add anything."""
    notes: tuple[str, ...] = ()
    """What else was found, for reports: roles of warps, conflicts of banks, what is not known."""

    @property
    def identity(self) -> tuple[Any, ...]:
        """Equal for configurations that do the same, as many at a time."""
        return self.code, self.grid, self.warps, self.accesses, self.resident

    @property
    def threads(self) -> int:
        return self.warps * self.warp_size

    @property
    def programs(self) -> int:
        return math.prod(self.grid)

    def present(self, arch: Arch) -> float:
        """Blocks that an SM has at a time: no more than the grid has for each."""
        return min(self.resident, max(math.ceil(self.programs / arch.sm_count), 1.0))

    @property
    def steps(self) -> float:
        """Passes of innermost loops in the mean program."""
        parents = {loop.parent for loop in self.loops}
        return sum(loop.trips for i, loop in enumerate(self.loops) if i not in parents)

    @property
    def spans(self) -> tuple[Span, ...]:
        return self.straight, *(loop.span for loop in self.loops), *(span for _, span in self.asides)

    def bytes_of(self, *kinds: str) -> float:
        """Bytes that the mean program asks for by accesses of these kinds: "load", "store", "atomic"."""
        return sum(a.program_bytes for a in self.accesses if a.kind in kinds)

    def fetched_bytes(self, *kinds: str) -> float:
        """Bytes that are fetched for these, each access for itself."""
        return sum(a.program_bytes * a.fetched for a in self.accesses if a.kind in kinds)

    def __str__(self) -> str:
        return "\n".join(lines_of(self))


def beyond(trace: Trace, extents: Mapping[str, tuple[float, float]]) -> tuple[tuple[str, float, float], ...]:
    """The field of `Facts`, of tensors by name, with the byte that each begins at and the bytes that it has: from first
    elements of tiles that are known to be touched, since a remainder may turn back others. Nothing is said where the
    way of a branch, which may be a bound, is assumed."""
    reached: dict[str, tuple[float, float]] = {}
    for access in () if trace.assumed else trace.accesses:
        sure = access.path == "pointer" and access.settled and not access.floors
        if sure and (name := access.argument or "") in extents:
            whole_way = access.stride * np.maximum(access.count - 1, 0.0)
            ends = np.stack([access.start, access.start + whole_way])
            touched = (access.kept >= 1.0) | (access.leads & (access.kept > 0.0) & (access.count == 1))
            ends = ends[:, touched & (access.count > 0) & (access.times > 0)]
            ends = ends[np.isfinite(ends)] * access.item_bytes - extents[name][0]
            ends = ends[np.abs(ends) <= MOST_BYTES]
            first, last = reached.get(name, (0.0, 0.0))
            reached[name] = min(first, ends.min(initial=0.0)), max(last, ends.max(initial=0.0) + access.item_bytes)
    sizes = {name: extents[name][1] for name in reached}
    return tuple((name, float(first if first < 0.0 else last), sizes[name]) for name, (first, last) in reached.items()
                 if first < 0.0 or last > sizes[name])  # fmt: skip


def gathered(
    machine: Machine, trace: Trace, touched: Touched, arch: Arch, *, warps: int, ctas: int,
    shared_bytes: int, tensor_columns: int, dealt: Mapping[str, Sequence[Sequence[int]]],
) -> Facts:  # fmt: skip
    """Put together what the machine code and the evaluated program say; `dealt`: as `triton.Compiled` has them."""
    machine = unfused(shallow(machine, trace), trace, warps)
    passes = matched(machine, trace, warps)
    spans = [loop.span for loop in machine.loops] + [aside.span for aside in machine.asides]
    work = passes.straight * machine.straight.alone_clk[USUAL_LATENCY]
    for times, span in zip((*passes.loops, *passes.asides), spans, strict=True):
        work = work + times * span.alone_clk[USUAL_LATENCY]
    loops = tuple(
        LoopFacts(name, m.parent, float(n.mean()), float(n.max()), m.span, where)
        for m, i, n in zip(machine.loops, passes.whose, passes.loops, strict=True)
        for name, where in [(trace.loops[i].name, trace.loops[i].where) if i >= 0 else ("", "")]
    )
    at_once: dict[int, float] = {}
    for i, loop in enumerate(trace.loops):
        if done := sum(float(n.sum()) for n, j in zip(passes.loops, passes.whose, strict=True) if j == i):
            at_once[i] = float(loop.trips.sum()) / done
    asides = tuple((float(n.mean()), aside.span) for n, aside in zip(passes.asides, machine.asides, strict=True))
    parts = (machine.straight, *spans)
    stores = sum(n for span in parts for kind, n in span.accesses.items() if kind.startswith("store global "))
    behind = sum(span.stores_behind for span in parts) / max(stores, 1)
    steps = dict.fromkeys((a.loop for a in trace.accesses), 0.0)
    for a in trace.accesses:
        if a.kind == "load" and a.path == "pointer" and len(a.kept):
            held = held_bytes(a, trace.accesses) * float(a.kept.mean())
            if a.loop >= 0:
                steps[a.loop] += held
            elif not trace.loops and len(neighbours(a, trace.accesses)) > 1:  # fields: nothing waits between
                steps[-1] = max(steps[-1], held)
    dots = sum(dot.flops for dot in trace.dots)
    registers = max(machine.registers, 1)
    resident = blocks_that_fit(arch, warps, shared_bytes, registers, tensor_columns) / arch.sms_per_block
    slots, room = max(int(arch.sm_count * resident), 1), l1_room_bytes(arch, resident, shared_bytes)
    locked, handed_on = in_turn(trace.turns, slots, trace.ranges, math.prod(trace.grid) / trace.programs)
    uneven, crowded = unevenness(work, slots * trace.programs / math.prod(trace.grid), resident)
    found = Facts(
        grid=trace.grid, warps=warps, warp_size=arch.warp_size, ctas=ctas, shared_bytes=shared_bytes,
        tensor_columns=tensor_columns, registers=machine.registers, spill_bytes=machine.spill_bytes,
        code=machine.digest, resident=resident, loops=loops, asides=asides, straight=machine.straight,
        working=float(passes.straight.mean()),
        accesses=tuple(_access(a, trace, at_once.get(a.loop), arch, room, touched.loads.sizes, dealt, behind)
                       for a in trace.accesses),
        unevenness=uneven, crowding=crowded, dot_flops=dots,
        assumed=trace.assumed, idle=idle_loops(trace.loops), alike=tuple(sorted(trace.alike)),
        untold=tuple(sorted(trace.untold)),
        step_bytes=max(steps.values(), default=0.0),
        in_turn=locked, handed_on=handed_on,
        **footprints(touched, arch, resident, parts, dealt),
        **on_sm(touched.loads, arch, resident),
    )  # fmt: skip
    return retried(found, trace, passes.whose, slots)


def retried(f: Facts, trace: Trace, whose: Sequence[int], slots: int) -> Facts:
    """With loops that compare and swap until each lane is in run as often as others come before; `whose`: as `Passes`
    has it."""
    for i, loop in enumerate(trace.loops):
        lanes = max((math.prod(a.shape) for a in trace.accesses if a.kind == "atomic" and a.loop == i), default=0)
        if loop.swaps and lanes:
            n = tries(lanes, min(slots, f.programs) * lanes / max(f.atomic_bytes / WORD_BYTES, 1.0))
            loops = tuple(replace(each, trips=each.trips * n, most_trips=each.most_trips * n) if j == i else each
                          for each, j in zip(f.loops, whose, strict=True))  # fmt: skip
            accesses = tuple(replace(a, program_bytes=a.program_bytes * n) if a.loop == i else a for a in f.accesses)
            f = replace(f, loops=loops, accesses=accesses)
    return f


def idle_loops(loops: Sequence[LoopTrace]) -> tuple[str, ...]:
    """Those that no program enters, with their places in the source; not those within them, which are never met."""
    idle = [("while loop" if loop.name == "while" else f"loop over {loop.name}", loop.where) for loop in loops
            if not loop.trips.any()]  # fmt: skip
    return tuple(f"{name} ({where})" if where else name for name, where in idle)


def footprints(
    touched: Touched, arch: Arch, resident: float, code: Sequence[Span], dealt: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """The fields of `Facts` that say which bytes programs touch together; `code`: all of it; `dealt`: as
    `triton.Compiled` has them. Code that waits for what atomics give back has none under way behind its end."""
    widths = [int(kind.split()[-1]) for span in code for kind in span.accesses if kind.startswith(ATOMIC)]
    widest, adds = max(widths, default=WORD_BYTES), any(span.atomic_floats for span in code)
    waited = arch.vendor != "nvidia" or any(span.atomic_returned for span in code)
    loads, reads, atomics = touched.loads, touched.reads, touched.atomics
    slots, changed = max(int(arch.sm_count * resident), 1), sum(atomics.distinct.values())
    back = touched.returned_bytes
    narrow = any(a.kind == "atomic" and a.item_bytes < WORD_BYTES for a in atomics.trace.accesses)
    swaps = narrow and not adds and arch.vendor == "nvidia"
    kept = [a for a in loads.trace.accesses if a.kind != "store" or filled_in_part(a, loads.trace.accesses)]
    in_part = Footprint(replace(loads.trace, accesses=kept), ("store",), loads.sizes)
    filled = in_part.anywhere(slots)
    elected = arch.warp_size if any(span.elections for span in code) else 0
    atomic_bytes, turns, crowd = met(atomics, arch, slots, dealt, widest, adds, swaps, waited, elected)
    writes = touched.writes
    changes = writes.distinct.keys() | atomics.distinct.keys()
    inputs = {name: n for name, n in reads.distinct.items() if name not in changes and reads.settled(name)}
    return {
        "read_bytes": sum(reads.distinct.values()) + sum(in_part.distinct.values()) - back,
        "written_bytes": sum(writes.distinct.values()) + changed,
        "live_bytes": touched.all.waves(slots).live_bytes, "reuse": touched.reuse(_in_turn(touched.all, slots, arch)),
        "again_bytes": reads.again() + back, "near_bytes": loads.waves(max(arch.l2_merge_sms, 1)).total_bytes,
        "atomic_bytes": atomic_bytes, "atomic_turns": turns, "atomic_crowd": crowd,
        "atomic_swaps": swaps,
        "rewritten": touched.reuse(slots, atomics), "anywhere": reads.anywhere(slots) + filled,
        "changed_anywhere": atomics.anywhere(slots) + filled,
        "inputs": tuple((inputs or writes.distinct).items()),
        "stored": tuple((name, n / writes.sizes[name]) for name, n in writes.distinct.items()
                        if name not in atomics.distinct and writes.sizes.get(name) and writes.settled(name)),
        "writing": touched.all.trace.writing,
    }  # fmt: skip


def _in_turn(touched: Footprint, slots: int, arch: Arch) -> int:
    """So many of the programs that run together as touch half of what L2 holds. Those without loops access memory as
    they begin, one after the other."""
    if any((access.count > 1).any() for access in touched.trace.accesses) or touched.rounds > 1:
        return slots
    while slots > LEAST_TOGETHER and touched.waves(slots).live_bytes > arch.l2_bytes / 2:
        slots //= 2
    return slots


def on_sm(loads: Footprint, arch: Arch, resident: float) -> dict[str, Any]:
    """The fields that say which bytes programs of an SM share."""
    reuse, live, in_step = loads.on_sm(max(int(resident), 1), max(int(arch.sm_count * resident), 1))
    return {"sm_live_bytes": live, "sm_reuse": reuse, "in_step_bytes": in_step}


def unevenness(work: FloatArray, slots: float, blocks: float = 1.0) -> tuple[float, float]:
    """Of programs in the order of the grid, of which `slots` run at a time, `blocks` of them on an SM, all equally
    fast: a new one begins as one ends. Their time (below 1 where short ones fill what the last wave of equal ones
    would leave idle), and the work of the SM that has most over that of the mean SM."""
    mean, count = float(work.mean()), max(round(slots), 1)
    if work.max() == work.min():
        return 1.0, 1.0
    ends = [(float(first), slot) for slot, first in enumerate(work[:count])]
    heapify(ends)
    done = np.zeros(max(round(count / max(blocks, 1.0)), 1))
    np.add.at(done, np.arange(len(work[:count])) % len(done), work[:count])
    for own in work[count:].tolist():
        end, slot = ends[0]
        heapreplace(ends, (end + own, slot))
        done[slot % len(done)] += own
    return max(ends)[0] / (mean * -(-len(work) // count)), float(done.max() / done.mean())


def _access(
    access: Access, trace: Trace, at_once: float | None, arch: Arch, room_bytes: float,
    sizes: Mapping[str, float], dealt: Mapping[str, Sequence[Sequence[int]]], behind: float,
) -> AccessFacts:  # fmt: skip
    """`at_once`: iterations of its loop that the code does in one pass; None where the code has no such loop, which
    does all of them. `room_bytes`: of L1 for a program; `behind`: share of the code's stores that come right behind
    another one."""
    most = float(access.count.mean()) if access.loop >= 0 and len(access.count) else 1.0
    unrolled, at_once = most if at_once is None else at_once, at_once or 1.0
    tiles = access.asked / trace.programs
    stretch = Stretch.of(access, arch.sector_bytes)
    once = density(access, stretch, trace.accesses)
    elements = math.prod(access.shape) if access.kind == "atomic" else tile_elements(access)
    own = dealt_to(access, dealt)
    once_asked = merged(access, unrolled) * passed_on(access, trace.accesses, own, behind)
    return AccessFacts(
        kind=access.kind, path=access.path, argument=access.argument or "", loop=access.loop,
        program_bytes=tiles * elements * access.item_bytes,
        stride_bytes=access.pace and access.pace * access.item_bytes * at_once,
        run_bytes=stretch.run_bytes, span_bytes=max(stretch.span_bytes, access.placed.stretch_bytes),
        density=once, filled=filled(access, stretch, trace.accesses, once),
        align_bytes=align_bytes(access, stretch.pitch),
        anywhere=filled_in_part(access, trace.accesses) if access.kind == "store" else anywhere(access),
        touched=reached(access, trace.accesses), fetched=fetched(access, trace.accesses),
        placed=access.placed.sector_bytes > 0, fresh=fresh(access, trace.accesses, room_bytes), merged=once_asked,
        size_bytes=sizes.get(access.argument or "", 0.0), goes_on=goes_on(access),
        idle_bytes=idle_elements(access) * access.item_bytes / trace.programs,
        **lines(access, own, arch.vendor == "amd")._asdict(),
    )  # fmt: skip


def drawn(untold: Sequence[str]) -> Iterator[str]:
    """What is assumed of tensors that choose places."""
    if untold:
        yield (
            f"values of {' and '.join(untold)} are not given: places that they choose count as drawn at random; "
            f"values={{{untold[0]!r}: array}} gives them"
        )


def lines_of(facts: Facts, core: str = "SM") -> Iterator[str]:
    """A report of it; `core`: what the device's vendor calls a multiprocessor."""
    spills = f", {facts.spill_bytes} bytes per thread spilled" if facts.spill_bytes else ""
    tensor = f", {facts.tensor_columns} columns of tensor memory" if facts.tensor_columns else ""
    yield f"{facts.shared_bytes:,} bytes of shared memory{tensor}, {facts.registers} registers per thread{spills}"
    grid = " x ".join(map(str, facts.grid))
    yield f"{several(facts.warps, 'warp')} per block, {several(facts.resident, 'block')} per {core}, grid {grid}"
    loops = []
    for loop in facts.loops:
        name = f"loop over {loop.name}" if loop.name else "loop without a counterpart in the program"
        name = f"loop at {loop.name}" if loop.name.startswith("0x") else name
        name = "while loop" if loop.name == "while" else name
        name += f" ({loop.where})" if loop.where else ""
        most = f" (at most {loop.most_trips:.4g})" if loop.most_trips > 1.001 * loop.trips else ""
        loops.append((loop.parent, f"{name}: {several(loop.trips, 'pass', 'passes')} per program{most}", loop.span))
    asides = [(f"behind a branch, {several(times, 'time')} per program", span) for times, span in facts.asides]
    share = f", in {facts.working:.0%} of the programs" if facts.working < 1 else ""
    yield from code_lines(loops, [*asides, (f"outside of loops{share}", facts.straight)])
    if facts.in_turn:
        yield f"{facts.in_turn:,.0f} programs go on one after another, at a lock or as a word gives them turns"
    if facts.handed_on:
        yield f"{facts.handed_on:,.0f} programs go on one after another, as each waits for what another one stores"
    if facts.assumed:
        yield TAKEN
    yield from drawn(facts.untold)
    yield from (f"the {name} never runs" for name in facts.idle)
    yield from facts.notes
    alike: dict[tuple[str, str, str, float], list[float]] = {}
    for access in facts.accesses:
        where = f"by {access.path}" if access.path != "pointer" else "by pointers"
        key = access.kind, access.argument or "?", where, access.run_bytes
        alike.setdefault(key, []).append(access.program_bytes)
    for (kind, argument, where, run_bytes), each in alike.items():
        many = f" in {len(each)} places of the code" if len(each) > 1 else ""
        yield (
            f"{kind} {argument} {where}{many}: {math.fsum(each):,.0f} bytes per program, "
            f"{run_bytes:,.0f} of them contiguous"
        )


def code_lines(loops: Sequence[tuple[int, str, Span]], rest: Sequence[tuple[str, Span]]) -> Iterator[str]:
    """`loops`: of each the one that it is in (-1: none), its title and its span; `rest`: of code outside of loops, of
    which what is alike is said once."""
    depths: list[str] = []
    for parent, title, span in loops:
        depths.append(f"{depths[parent]}  " if parent >= 0 else "")
        yield f"{depths[-1]}{title}"
        yield from (f"{depths[-1]}  {line}" for line in _span_lines(span))
    for (title, *rows), places in Counter((title, *_span_lines(span)) for title, span in rest).items():
        yield f"{title}, in {places} places each" if places > 1 else title
        yield from (f"  {line}" for line in rows)


def _span_lines(span: Span) -> Iterator[str]:
    pipes = sorted(span.pipe_clk.items(), key=lambda item: -item[1])
    busy = ", ".join(f"{pipe} {clk:.0f}" for pipe, clk in pipes if clk >= 1)
    yield f"{span.instructions} instructions of a warp; clocks of the pipes: {busy or 'none'}"
    for kind, flops in (*span.matrix.items(), *span.block_matrix.items()):
        yield f"{kind}: {flops:,.0f} FLOP of a {'warp' if kind in span.matrix else 'block'}"
    moved = ", ".join(f"{kind} {n:,.0f}" for kind, n in span.bytes.items() if not kind.endswith("constant"))
    if moved or span.bulk:
        yield f"bytes of a warp: {moved or 'none'}" + (f"; {span.bulk} copies by an engine" if span.bulk else "")
    taken, at = (", ".join(f"{clk:.0f}" for clk in each) for each in (span.alone_clk, LATENCIES_CLK))
    yield f"a lone warp takes {taken} clocks where memory takes {at}; {several(span.barriers, 'barrier')}"
    exposed = ((span.exposed_loads, "loads"), (span.exposed_products, "products"))
    if waits := ", ".join(f"{n} for {what}" for n, what in exposed if n):
        yield f"waits for what the same pass issued: {waits}"
    if span.prefetched is not None:
        passes = "1 pass" if span.prefetched == 1 else f"{span.prefetched} passes"
        yield f"loads from beyond the SM run {passes} ahead of their use"
    if span.unknown:
        yield "opcodes without a rate: " + ", ".join(f"{n} x {opcode}" for opcode, n in span.unknown.items())
