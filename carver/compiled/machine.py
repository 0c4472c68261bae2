"""Numbers of a kernel's machine code: the work of one warp in each loop and outside, and the time of a single warp."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.types import Record
from .execution.warp import arguments, read_layout
from .execution.wave import lds_passes
from .isa import amd, chain, rates, sass
from .isa.banks import STORES, behind
from .isa.code import Code, Loop, advance
from .isa.rates import Demand, Matrix, width_bytes
from .isa.rates import rate as rate_of

LATENCIES_CLK = (0.0, 500.0, 1000.0, 2000.0)
"""Latencies of memory beyond the SM for which the clocks of a lone warp are kept. Between them one interpolates."""
USUAL_LATENCY = 2
"""Index into LATENCIES_CLK of the one at which the work of programs and of roles is compared."""

NO_WAITS = chain.Chain(0.0, ())
"""For code outside of loops, whose waits are all for the same pass."""

MULTIPLIES = ("matrix", "warpgroup matrix", "block matrix")
SPARE = 8
"""Least number of instructions of a stretch that is read apart from its loop."""

Rates = Mapping[Matrix, float]


class Span(Demand):
    """One pass of one warp through some code: what it asks for, and how long it takes."""

    alone_clk: tuple[float, ...] = field(kw_only=True)
    """What it takes alone on an SM, for each of LATENCIES_CLK."""
    cached_clk: tuple[float, ...] = field(kw_only=True)
    """The same where plain loads are found in L1; copies are not looked for there."""
    tensor_clk: float = field(kw_only=True)
    """The part of that in which tensor cores are busy, the warp alone on its scheduler."""
    prefetched: int | None = None
    """Passes of a loop that loads from beyond the SM run ahead of their use; None without such and outside of loops."""
    exposed_loads: int = 0
    """Waits for loads to registers, and in `exposed_products` for matrix instructions, that the same pass issued."""
    exposed_products: int = 0
    partial_lines: float = 0.0
    """Lines of which stores to known places fill sectors in part, each instruction for itself."""
    unplaced_stores: float = 0.0
    """Bytes that others store."""
    stores_behind: int = 0
    """Stores to global memory that come right behind another one to the same sectors."""
    spilled_clk: tuple[float, ...] = (0.0,) * len(LATENCIES_CLK)
    """What it takes longer alone where registers that it spilled come from beyond L1 as well."""

    def alone(self, latency_clk: float) -> float:
        """Clocks of a lone warp where memory beyond the SM answers after `latency_clk`."""
        return between(self.alone_clk, latency_clk)


def added(spans: Iterable[tuple[float, Span]]) -> Span:
    """The sum of spans, each taken so many times."""
    return reduce(add, (span * times for times, span in spans))


def between(column: Sequence[float], latency_clk: float) -> float:
    """Clocks at a latency, from those at LATENCIES_CLK."""
    rising = (column[-1] - column[-2]) / (LATENCIES_CLK[-1] - LATENCIES_CLK[-2])
    return float(np.interp(latency_clk, LATENCIES_CLK, column)) + max(latency_clk - LATENCIES_CLK[-1], 0.0) * rising


class MachineLoop(Record):
    """One loop of the machine code."""

    parent: int
    """Of the loops; -1 outside of all."""
    leaf: bool
    span: Span
    always: Span | None = None
    """Of an innermost loop: its span without the code of `sometimes`; None where there is no such code."""
    sometimes: tuple[Span, ...] = ()
    """Code of an innermost loop that a branch may pass by, and that neither multiplies nor loads for other code."""
    advance: int = 0
    """What a pass adds to the counter that ends an innermost loop; 0 where that is not told."""


class Aside(Record):
    """Code that a branch may pass by: what is left of a loop that was unrolled, say. In innermost loops only what
    `match.unfused` takes out of them."""

    parent: int
    """The loop that it is in; -1 outside of all."""
    after: int
    """The last of the loops in the same one before it; -1 where there is none."""
    span: Span


class Machine(Record):
    """The code of one kernel. `loops`: outer ones before those inside them, in the order of the code."""

    registers: int
    spill_bytes: int
    straight: Span
    loops: tuple[MachineLoop, ...] = field(default=())
    asides: tuple[Aside, ...] = field(default=())
    """In the order of the code; `straight` and the spans of loops are without them."""
    digest: str = ""
    """`Code.digest`."""


def matrix_rates(arch: Arch, limited: bool = False) -> list[list[Any]]:
    """FLOPs a clock and SM of each matrix instruction: at the highest clock, or where all units run it and the power
    limit holds it back (`limited`)."""
    clock_of = arch.sustained_of if limited else arch.highest_of
    return [
        [m.instruction, m.dtype, m.accumulate, m.flops_per_clk_per_sm * clock_of(m) / arch.clock_of(m)]
        for m in arch.matrix
    ]


def unit_rates(arch: Arch) -> list[list[Any]]:
    """What `read_machines` takes: `matrix_rates`, and of the vector units what differs among devices of an instruction
    set, where the device states it."""
    return [*matrix_rates(arch), *(["vector", each, each, flops] for each, flops in arch.vector if each == "float64")]


def read_machines(
    codes: Sequence[bytes | str], isa: str, units: Sequence[Sequence[Any]], kernel: str | None = None,
    numbers: Sequence[Sequence[int | None]] = (),
) -> list[Machine]:  # fmt: skip
    """Read cubins, or AMD's assembly, in one go: a disassembler takes longer to start than to read. `units`:
    `unit_rates`; `kernel`: which of several in a code; `numbers`: of each code, its arguments as far as they are whole
    numbers, which say how far apart the lanes of a warp read."""
    cubins = [code for code in codes if isinstance(code, bytes)]
    read = [amd.read(code, kernel) for code in codes if isinstance(code, str)]
    read = [replace(each, conflicts=lds_passes(each)) for each in read]
    if cubins:
        listed = sass.read_many(cubins, kernel)
        read = [_laid_out(each, own) for each, own in zip(listed, numbers or [()] * len(listed), strict=True)]
    return [_machine(each, isa, units) for each in read]


def _laid_out(read: Code, numbers: Sequence[int | None] = ()) -> Code:
    """With what the addresses of a warp's lanes say."""
    found = read_layout(read.instructions, arguments(read.parameters, numbers))
    return replace(read, conflicts=found.passes, unplaced=found.unplaced, sectors=found.sectors)


def priced_by(isa: str, units: Sequence[Sequence[Any]]) -> tuple[rates.Table, Rates]:
    """The table of an instruction set with a device's own rates, and FLOPs a clock of its matrix instructions."""
    lanes = {dtype: flops / 2 for kind, dtype, _, flops in units if kind == "vector"}
    matrix = {Matrix(*entry): float(flops) for *entry, flops in units if entry[0] != "vector"}
    return rates.table(isa, lanes), matrix


def _machine(read: Code, isa: str, units: Sequence[Sequence[Any]]) -> Machine:
    table, rate = priced_by(isa, units)
    held = read.resources
    leaves = {i for loop in read.all_loops() if not loop.loops for i in loop.own}
    passed = {i for stretch in read.optional for i in stretch} - leaves
    loops: list[MachineLoop] = []
    asides: list[tuple[int, Aside]] = []

    def add_asides(inside: Sequence[int], siblings: Sequence[tuple[int, Loop]], parent: int) -> None:
        for stretch in read.optional:
            if stretch[0] in inside:
                after = [n for n, loop in siblings if loop.body[-1] < stretch[0]]
                before = [] if parent >= 0 else [i for i in rest if i < stretch[0]]
                span = read_span(read, stretch, stretch, table, rate, before)
                asides.append((stretch[0], Aside(parent, after[-1] if after else -1, span)))

    def without(loop: Loop, stretches: Iterable[int]) -> Span:
        own = replace(loop, own=tuple(i for i in loop.own if i not in stretches))
        return read_span(read, own.own, own, table, rate)

    def add_loop(loop: Loop, parent: int) -> int:
        place = len(loops)
        if loop.loops:
            loops.append(MachineLoop(parent, False, without(loop, passed)))
            add_asides(loop.own, [(add_loop(inner, place), inner) for inner in loop.loops], place)
            return place
        spare = [s for s in read.optional if s[0] in loop.own and len(s) >= SPARE and not _feeds(read, s, table)]
        rest = without(loop, {i for stretch in spare for i in stretch}) if spare else None
        apart = tuple(read_span(read, stretch, stretch, table, rate) for stretch in spare)
        loops.append(MachineLoop(parent, True, without(loop, ()), rest, apart, advance(read, loop)))
        return place

    rest = tuple(i for i in read.straight if i not in passed)
    add_asides(read.straight, [(add_loop(loop, -1), loop) for loop in read.loops], -1)
    straight = read_span(read, rest, rest, table, rate)
    ordered = tuple(aside for _, aside in sorted(asides, key=lambda each: each[0]))
    return Machine(held.registers, held.spill_bytes, straight, tuple(loops), ordered, read.digest)


def _feeds(code: Code, stretch: Sequence[int], table: rates.Table) -> bool:
    """Whether a stretch multiplies, or loads from beyond the SM what other code uses. What loads and stores there, as
    what scales a tile's sums does, keeps what it loads."""
    groups = [table.group(code.instructions[i].opcode) for i in stretch]
    moves = {group.access for group in groups if group.access}
    loads = moves & {("load", "global"), ("copy", "global"), ("bulk", "load")}
    stores = moves & {("store", "global"), ("bulk", "store")}
    return any(group.role in MULTIPLIES for group in groups) or (bool(loads) and not stores)


def read_span(
    code: Code, indices: Sequence[int], where: Loop | Sequence[int], table: rates.Table, rate: Rates,
    before: Sequence[int] = (),
) -> Span:  # fmt: skip
    """One pass of a warp through the instructions at some indices; `where`: the loop that they are, or they again.
    `before`: of straight code, what ran just before, for whose results it may wait."""
    demand = rates.demand(code, indices, table)
    rate = {kind: rate_of(kind, rate) for kind in map(_kind, (*demand.matrix, *demand.block_matrix))} if rate else {}
    ops, repeats = chain.ops(code, where, table, rate), isinstance(where, Loop)
    sooner = chain.ops(code, before, table, rate)

    def lone(latency: Mapping[str, float], memory: Sequence[str] = chain.MEMORY) -> list[chain.Chain]:
        found = chain.chains(ops, repeats, latency, LATENCIES_CLK, memory)
        if not before:
            return found
        led = chain.chains([*sooner, *ops], False, latency, LATENCIES_CLK, memory)
        least = chain.chains(sooner, False, latency, LATENCIES_CLK, memory)
        return [replace(own, clk=max(a.clk - b.clk, own.clk)) for own, a, b in zip(found, led, least, strict=True)]

    cached = alone = lone(table.latency_clk)
    if "load global" in demand.bytes:
        beyond = tuple(name for name in chain.MEMORY if name != "global")
        nearer = {**table.latency_clk, "global": table.latency_clk["local"]}
        cached = lone(nearer, beyond)
    spilled = Span.spilled_clk
    if "load local" in demand.bytes:
        slower = lone(table.latency_clk, (*chain.MEMORY, "local"))
        spilled = tuple(max(a.clk - b.clk, 0.0) for a, b in zip(slower, alone, strict=True))
    stores = [i for i in indices if code.instructions[i].mnemonic in STORES]
    waits = alone[-1] if repeats else NO_WAITS
    return Span(
        **vars(demand), partial_lines=sum(code.sectors.get(i, 0) for i in stores),
        tensor_clk=sum(flops * table.schedulers / rate[_kind(kind)] for kind, flops in demand.matrix.items() if rate),
        unplaced_stores=code.warp_size * sum(width_bytes(code.instructions[i].opcode) for i in stores
                                             if i in code.unplaced),
        stores_behind=behind(code.instructions, stores), spilled_clk=spilled,
        alone_clk=tuple(each.clk for each in alone), cached_clk=tuple(each.clk for each in cached),
        prefetched=waits.prefetch_distance, exposed_loads=waits.exposed_loads,
        exposed_products=waits.serial_matrix_waits,
    )  # fmt: skip


def _kind(text: str) -> Matrix:
    return Matrix(*text.split())
