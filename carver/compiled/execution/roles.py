"""Which warps of a block do the same, how long each kind takes, and what all of them ask of the SM."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...arch.descriptor import Arch
from ...base.errors import CompileError
from ...base.types import Record
from ..isa import rates
from ..isa.code import Code, Loop
from ..machine import LATENCIES_CLK, MULTIPLIES, USUAL_LATENCY, Span, priced_by, read_span, unit_rates
from .lanes import Array
from .leaps import Event
from .operands import CONSTANT
from .run import IN_BLOCK, Run
from .tiles import spread

OFTEN = 0.5
"""Code of a loop that runs in fewer of its passes adds to what is asked of pipes, not to the time of a lone warp."""

TABLE_BYTES, TABLE_LINE_BYTES, TABLE_CLK = 2040, 64, 25.0
"""Of a table in constant memory that warps walk through by uniform registers, more than the cache of an SM holds beside
the launch's arguments, its line, and clocks of the SM that each then takes. Source: 2 KiB, 64 bytes (arXiv 1804.06826);
sums of delays on an H100, points in polygons and potentials of atoms (`languages_sixth.jsonl.gz` and `_eighth` in
tests/data/h200) take 20 to 39 clocks for each read of a table of 2,048 bytes and more, 7.4 for all else at 384."""
GIVEN_BACK = "SYNCS.ARRIVE"
"""Says that a warp is through with a buffer, to whom fills it."""
HOPPER, DRIVERS_BYTES = 90, 1024
"""Of shared memory before a block's own, from which on addresses count since compute capability 9.0, as those in cubins
of nvcc 13 for sm_90 and sm_100 do; for sm_80 and AMD they begin at 0."""
IN_STEP = 4.0
"""Blocks of an SM whose warps, in step as they began, find part of what others just read of such a table: of all reads,
two blocks miss two fifths, four two thirds, eight seven in eight. Source: the same."""


class Role(Record):
    """Warps that run the same code.

    loops: by the number of the loop: passes of a warp, and one pass of a lone one
    products: passes through code that multiplies matrices, of all its warps
    """

    warps: tuple[int, ...]
    loops: Mapping[int, tuple[float, Span]]
    straight: Span
    products: float

    @property
    def clk(self) -> float:
        """Of a lone warp."""
        spans = [*self.loops.values(), (1.0, self.straight)]
        return sum(times * span.alone_clk[USUAL_LATENCY] for times, span in spans)


class Reader:
    """The code of a block, with the passes of each basic block by warp in the mean block of the grid.

    passes: (basic blocks, warps)
    present: blocks that an SM has
    """

    def __init__(self, code: Code, run: Run, passes: Array, arch: Arch, present: float) -> None:
        self.code, self.run, self.passes = code, run, passes
        self.table, self.rate = priced_by(code.isa, unit_rates(arch))
        self.block_of = np.array(run.program.block_of)
        self.loops = code.all_loops()
        self.warps = passes.shape[1]
        mean = passes.mean(axis=1)
        self.ran = mean[self.block_of] > 0
        inside = {i for loop in self.loops for i in loop.body}
        self.owned = [[i for i in loop.own if self.ran[i]] for loop in self.loops]
        self.straight = [i for i in range(len(code.instructions)) if i not in inside and self.ran[i]]
        self._mean = mean
        self._spans: dict[tuple[int, ...], Span] = {}
        groups = [self.table.group(each.opcode).role for each in code.instructions]
        multiplying = sorted({int(self.block_of[i]) for i, role in enumerate(groups) if role in MULTIPLIES})
        self.products = passes[multiplying].sum(axis=0)
        """Passes of each warp through code that multiplies matrices."""
        self.barriers = {i for i, role in enumerate(groups) if role == "barrier"}
        self.turns = max(float((self.products > 0).sum()) / self.table.schedulers - 1.0, 0.0)
        self._filled = _filled(run)
        self._turns = {n for n, each in enumerate(run.blocks) if each.last is not None and each.last.kind == "turns"}
        """Blocks that lanes of a warp go through one by one."""
        self._waits = [event for event in run.log if event.kind == "wait"]
        self._tables, self._table_clk = set(_walked(code, run)), TABLE_CLK * -math.expm1(-present / IN_STEP)

    def roles(self) -> list[Role]:
        pattern = (self.passes > 0).T
        groups: defaultdict[bytes, list[int]] = defaultdict(list)
        for warp, row in enumerate(pattern):
            groups[row.tobytes()].append(warp)
        return [self._role(tuple(warps)) for warps in groups.values()]

    def _role(self, warps: tuple[int, ...]) -> Role:
        mine = self.passes[:, list(warps)].mean(axis=1)[self.block_of]
        loops = {}
        for n, (loop, own) in enumerate(zip(self.loops, self.owned, strict=True)):
            here = [i for i in own if mine[i] > 0]
            if here:
                trips = float(max([mine[i] for i in here if self.block_of[i] not in self._turns] or mine[here]))
                often = tuple(i for i in here if mine[i] >= OFTEN * trips)
                span = self._turned(self.span(often, replace(loop, own=often)), often, mine / trips)
                loops[n] = trips, self._fed(span, often, warps)
        rest = tuple(i for i in self.straight if mine[i] > 0)
        straight = self._fed(self._turned(self.span(rest, rest), rest, mine), rest, warps)
        return Role(warps, loops, straight, float(self.products[list(warps)].sum()))

    def span(self, indices: tuple[int, ...], where: Loop | Sequence[int]) -> Span:
        if indices not in self._spans:
            self._spans[indices] = read_span(self.code, indices, where, self.table, self.rate)
        return self._spans[indices]

    def _turned(self, span: Span, indices: Sequence[int], times: Array) -> Span:
        """With the clocks of all turns of code that lanes go through one by one; `times`: by instruction."""
        for n in self._turns:
            part = tuple(i for i in indices if self.block_of[i] == n)
            if part and (more := float(times[part[0]]) - 1.0) > 0.0:
                one = self.span(part, part)
                span = replace(
                    span, alone_clk=tuple(a + more * b for a, b in zip(span.alone_clk, one.alone_clk, strict=True)),
                    cached_clk=tuple(a + more * b for a, b in zip(span.cached_clk, one.cached_clk, strict=True)),
                )  # fmt: skip
        return span

    def _fed(self, span: Span, indices: Sequence[int], warps: Sequence[int]) -> Span:
        """The clocks of code whose buffers another role fills: a buffer comes back after the latency of its copy and
        the time for which it is used, from the first wait to where the last is given back, and there are as many as the
        role waits for barriers. Source: sums of exponentials by TileLang, which are taken from registers, on an H200
        (`languages_fourteenth.jsonl.gz` in tests/data/h200): with one buffer as fast as with three."""
        ops = self.run.program.ops
        if any(ops[i].kind in ("box", "bulk") and ops[i].access == "load" for i in indices):
            return span
        here, mine = set(indices), set(warps)
        waits = [event for event in self._waits if self._of(event, mine) and self._filled & _places(event)]
        per_pass = len({event.where for event in waits if self.run.program.index[event.where] in here})
        if not per_pass:
            return span
        slots = len({place for event in waits for place in _places(event)})
        first = min(here.intersection(self.run.program.index[event.where] for event in waits))
        last = max((i for i in here if self.code.instructions[i].opcode.startswith(GIVEN_BACK)), default=-1)
        used = tuple(i for i in indices if first <= i <= last)
        used_clk = min(self.span(used, used).alone_clk[0] if used else math.inf, span.alone_clk[0])
        # groups of warps take turns on the tensor cores, and a buffer is free when all of them are done with it
        others = self.turns * span.tensor_clk
        synchronised = not self.barriers.isdisjoint(indices)

        def fed(clk: Sequence[float]) -> tuple[float, ...]:
            # with one buffer the model adds what the others take, with several what is said here is the whole time
            whole = [0.0 if slots > 1 and latency else others for latency in LATENCIES_CLK]
            ring = [
                (per_pass * latency + used_clk + others) / slots - w
                for latency, w in zip(LATENCIES_CLK, whole, strict=True)
            ]
            own = (c if synchronised else c - others for c in clk)
            return tuple(max(c, span.tensor_clk, r) for c, r in zip(own, ring, strict=True))

        return replace(span, alone_clk=fed(span.alone_clk), cached_clk=fed(span.cached_clk))

    def _of(self, event: Event, warps: set[int]) -> bool:
        return not warps.isdisjoint((self.run.warp[event.lanes] % self.warps).tolist())

    def demand(self, indices: Sequence[int], trips: float, critical: int) -> dict[str, Any]:
        """What all warps of a block ask of the SM in code that runs `trips` times, spread over so many critical warps:
        fields of a `Span` for one pass."""
        groups: defaultdict[float, list[int]] = defaultdict(list)
        for i in indices:
            groups[float(self._mean[self.block_of[i]])].append(i)
        total = rates.demand(self.code, (), self.table)
        for mean, members in groups.items():
            times = mean * self.warps / trips
            asked = rates.demand(self.code, members, self.table)
            of_warp, of_block = asked * (times / critical), vars(asked * times)
            if looked_up := len(self._tables.intersection(members)):
                clk = times / critical * looked_up * self._table_clk
                of_warp = replace(of_warp, pipe_clk={"constants": clk, **of_warp.pipe_clk})
            total += replace(of_warp, **{name: of_block[name] for name in OF_BLOCK})
        found = {name: amount for name, amount in vars(total).items() if name not in OF_LEAD}
        return {**found, **{name: round(found[name]) for name in WHOLE}}


OF_BLOCK = ("block_matrix", "block_factor_bytes", "bulk")
"""Numbers of a block, which are not spread over its warps."""
OF_LEAD = ("accesses", "elections", "float_flops", "invalidations", "unknown")
"""What is said of the code of the critical warps alone."""
WHOLE = ("instructions", "exponentials", "barriers", "bulk")


def waited(loops: Sequence[tuple[float, float, Sequence[float], float]]) -> float:
    """Share of the waits in loops that are for what L1 does not hold. `loops`: passes, waits of a pass, the share that
    each load has to fetch, and that of the passes in which any does. Loads that are issued together with one that
    fetches wait for that as well, so that each pass which fetches has a wait."""
    all_waits = exposed = 0.0
    for passes, waits, shares, asking in loops:
        if shares:
            all_waits += passes * waits
            exposed += passes * max(waits * float(np.mean(shares)), min(waits, sum(shares), asking))
    return exposed / all_waits if all_waits else 1.0


def waits_met(waits: float, shares: Sequence[float]) -> float:
    """Of the waits of code outside of loops, how many are for loads that fetch, by the share that each has to, in the
    order of the code: each is for as many of them. Source: triangles of 32 rows, whose words are loaded one by one
    (`cuda_solved` in `languages_tenth.jsonl.gz`, tests/data/h200): each row waits, though seven words in eight hit L1.
    """
    first = np.unique(np.arange(max(round(waits), 1)) * len(shares) // max(round(waits), 1))
    return float(np.maximum.reduceat(shares, first).sum()) if len(shares) else 0.0


def _walked(code: Code, run: Run) -> Iterator[int]:
    """Instructions that read a large table in constant memory at a uniform register, the first of each line in straight
    code: the others find it. Source: 27 to 216 taps of a filter that a pass reads side by side take 22 to 33 clocks a
    line on an H200, not each (`cuda_volumes` in `languages_eleventh.jsonl.gz`, tests/data/h200)."""
    seen = set()
    for i, each in enumerate(code.instructions):
        found = CONSTANT.match(each.operands.split(", ")[-1]) if each.mnemonic in ("ULDC", "LDCU") else None
        if found and found[3] and run.launch.table_bytes(int(found[2], 16), int(found[4] or "0", 16)) > TABLE_BYTES:
            line = run.program.block_of[i], found[3], int(found[4] or "0", 16) // TABLE_LINE_BYTES
            if line not in seen:
                yield i
            seen.add(line)


def check_shared(run: Run, held_bytes: int) -> None:
    """Raises CompileError where a thread is known to reach beyond the shared memory of its block: before passes of a
    loop are left out, after which places in a ring of buffers lie as if it did not go round."""
    last, first = 0, DRIVERS_BYTES if run.launch.sm >= HOPPER else 0
    for event in itertools.takewhile(lambda each: not each.walks, run.log) if not run.assumed else ():
        if event.kind == "shared" and len(address := spread(event)[1]):
            width = run.program.ops[run.program.index[event.where]].width_bytes
            last = max(last, int((address & IN_BLOCK).max()) + width - first)
    if last > held_bytes:
        raise CompileError(f"it reaches byte {last:,} of shared memory, of which a block has {held_bytes:,}: say by "
                           "shared_bytes= what its launch adds")  # fmt: skip


def _places(event: Event) -> set[int]:
    return set() if event.values[0] is None else set(np.unique(event.values[0].bits & IN_BLOCK).tolist())


def _filled(run: Run) -> set[int]:
    """Barriers that copies into shared memory by an engine arrive at."""
    ends = [event.places[1] for event in run.log if event.kind in ("box", "bulk") and len(event.places) > 1]
    return {int(place) for column in ends if column is not None for place in np.unique(column.bits & IN_BLOCK)}
