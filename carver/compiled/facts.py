"""What a compiler made of a kernel for one device, and what its programs do with it: loops matched, work added up."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..arch.occupancy import occupancy_limits
from .footprint import Footprint, align_bytes, run_bytes, tile_elements
from .machine import LATENCIES_CLK, Machine, Span
from .run import Access, Run

USUAL_LATENCY = 2
"""Of LATENCIES_CLK, at which programs are compared."""


@dataclass(frozen=True)
class Total:
    """What the code of one program asks for, all passes together. FLOPs, bytes and clocks of pipes are of one warp."""

    passes: float
    pipe_clk: Mapping[str, float]
    matrix: Mapping[str, float]
    block_matrix: Mapping[str, float]
    factor_bytes: float
    block_factor_bytes: float
    bytes: Mapping[str, float]
    instructions: float
    barriers: float
    alone_clk: tuple[float, ...]
    cached_clk: tuple[float, ...]
    tensor_clk: float

    def alone(self, latency_clk: float, cached: float = 0.0) -> float:
        """Clocks of a lone warp where memory beyond the SM answers after `latency_clk`; `cached`: share of the plain
        loads of loops that L1 answers."""
        plain, found = (_between(column, latency_clk) for column in (self.alone_clk, self.cached_clk))
        return plain + cached * (found - plain)


def _between(column: Sequence[float], latency_clk: float) -> float:
    """Clocks at a latency, from those at LATENCIES_CLK."""
    rising = (column[-1] - column[-2]) / (LATENCIES_CLK[-1] - LATENCIES_CLK[-2])
    return float(np.interp(latency_clk, LATENCIES_CLK, column)) + max(latency_clk - LATENCIES_CLK[-1], 0.0) * rising


def added(parts: Sequence[tuple[float, Span]]) -> Total:
    """Spans, each so many times."""

    def over(name: str) -> dict[str, float]:
        out: dict[str, float] = {}
        for times, span in parts:
            for key, n in getattr(span, name).items():
                out[key] = out.get(key, 0.0) + times * n
        return out

    def of(name: str) -> float:
        return float(sum(times * getattr(span, name) for times, span in parts))

    alone, cached = (
        tuple(sum(times * getattr(span, name)[i] for times, span in parts) for i in range(len(LATENCIES_CLK)))
        for name in ("alone_clk", "cached_clk")
    )
    return Total(
        sum(times for times, _ in parts), over("pipe_clk"), over("matrix"), over("block_matrix"),
        of("factor_bytes"), of("block_factor_bytes"), over("bytes"),
        of("instructions"), of("barriers"), alone, cached, of("tensor_clk"),
    )  # fmt: skip


@dataclass(frozen=True)
class LoopFacts:
    """One loop of the machine code."""

    name: str
    """The counter of the program's loop that it stands for; empty where it stands for none."""
    parent: int
    trips: float
    """Passes of it in a program, in the mean."""
    most_trips: float
    span: Span


@dataclass(frozen=True)
class AccessFacts:
    """What one load or store of the program moves."""

    kind: str
    path: str
    argument: str
    loop: int
    """Of the program's loops; -1 outside of all."""
    program_bytes: float
    """That the mean program asks for: distinct elements of each tile, those that its mask lets through."""
    stride_bytes: float
    """From one iteration of its loop to the next, in the mean; NaN where that is not known."""
    run_bytes: float
    """Contiguous in a tile."""
    align_bytes: float


@dataclass(frozen=True)
class Facts:
    """All that is known of one configuration of a kernel on one device without a run of it."""

    grid: tuple[int, int, int]
    warps: int
    ctas: int
    shared_bytes: int
    registers: int
    spill_bytes: int
    loops: tuple[LoopFacts, ...]
    straight: Span
    accesses: tuple[AccessFacts, ...]
    imbalance: float
    """Work of the busiest program over the mean."""
    dot_flops: float
    """Of the mean program."""
    read_bytes: float
    """Distinct bytes that the grid reads."""
    written_bytes: float
    code: str
    """Hash of the machine code."""
    resident: int
    """Blocks that an SM holds; 0 where a block does not fit."""
    wave_bytes: float
    """Distinct bytes that waves of resident blocks read, each wave by itself: of all waves."""
    live_bytes: float
    """The same of one wave."""
    sm_bytes: float
    """The same of as many programs as an SM holds, for all."""
    sm_live_bytes: float
    near_bytes: float
    """Distinct bytes that programs of neighbouring SMs read, each neighbourhood by itself: of the whole grid."""

    @property
    def same(self) -> tuple[Any, ...]:
        """Equal for configurations that do the same."""
        return self.code, self.grid, self.warps, self.accesses

    @property
    def programs(self) -> int:
        return math.prod(self.grid)

    @property
    def steps(self) -> float:
        """Passes of innermost loops in the mean program."""
        parents = {loop.parent for loop in self.loops}
        return sum(loop.trips for i, loop in enumerate(self.loops) if i not in parents)

    def bytes_of(self, *kinds: str) -> float:
        """Bytes that the mean program asks for."""
        return sum(a.program_bytes for a in self.accesses if a.kind in kinds)

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def gathered(
    machine: Machine, run: Run, sizes: Mapping[str, float], arch: Arch, *, warps: int, ctas: int, shared_bytes: int,
    code: str = "",
) -> Facts:  # fmt: skip
    """Put together what the machine code and the evaluated program say."""
    reads, writes = Footprint(run, ("load",), sizes), Footprint(run, ("store", "atomic"), sizes)
    loops, whose, factors = _matched(machine, run, warps)
    work = np.full(run.programs, machine.straight.alone_clk[USUAL_LATENCY])
    for i, factor, loop in zip(whose, factors, machine.loops, strict=True):
        if i >= 0:
            work = work + run.loops[i].trips * factor * loop.span.alone_clk[USUAL_LATENCY]
    dots = sum(2.0 * math.prod(dot.shape) * float(dot.times.mean()) for dot in run.dots)
    registers = machine.registers + machine.accumulators
    columns = [np.array([float(n)]) for n in (warps, shared_bytes, max(registers, 1))]
    resident = int(min(limit[0] for limit in occupancy_limits(arch, *columns)))
    wave, live = reads.waves(max(arch.sm_count * resident, 1))
    return Facts(
        run.grid, warps, ctas, shared_bytes, registers, machine.spill_bytes, loops,
        machine.straight, tuple(_access(a, run.programs) for a in run.accesses), float(work.max() / work.mean()), dots,
        sum(reads.distinct().values()), sum(writes.distinct().values()), code, resident, wave, live,
        *reads.waves(max(resident, 1)),
        reads.waves(max(arch.l2_merge_sms, 1))[0],
    )  # fmt: skip


def _access(access: Access, programs: int) -> AccessFacts:
    tiles = float((access.count * access.times * access.kept).sum()) / programs
    return AccessFacts(
        access.kind, access.path, access.argument or "", access.loop, tiles * tile_elements(access) * access.item_bytes,
        _stride_bytes(access),
        run_bytes(access), align_bytes(access),
    )  # fmt: skip


def _stride_bytes(access: Access) -> float:
    walks = access.stride[access.count > 1]
    return float(np.abs(walks).mean()) * access.item_bytes if len(walks) else math.nan


def _matched(machine: Machine, run: Run, warps: int) -> tuple[tuple[LoopFacts, ...], list[int], list[float]]:
    """Machine loops with their trips, which loop of the program each stands for, and passes over its trips.

    Innermost loops that multiply are matched in order with those of the program that do, others with others.
    Iterations that the compiler peeled off, or does several of in one pass, are taken off: products and bytes add up to
    the program's.
    """
    flops = _dot_flops(run)
    inner = [i for i, loop in enumerate(run.loops) if _is_leaf(run, i) and loop.trips.sum() > 0]
    whose, factors = [-1] * len(machine.loops), [0.0] * len(machine.loops)
    multiplying = any(_flops(m.span, warps) for m in machine.loops)
    for kind in (True, False):
        ours = [i for i in inner if (flops[i] > 0 and multiplying) == kind]
        theirs = [j for j, m in enumerate(machine.loops) if m.leaf and (_flops(m.span, warps) > 0) == kind]
        for i, group in _aligned(ours, theirs, run):
            main = max(group, key=lambda j: _flops(machine.loops[j].span, warps) or machine.loops[j].span.instructions)
            for j in group:
                whose[j] = i
            factors[main] = _share(machine, run, main, i, warps)
    for j in reversed(range(len(machine.loops))):
        below = [c for c, m in enumerate(machine.loops) if m.parent == j and whose[c] >= 0]
        if below and not machine.loops[j].leaf:
            whose[j] = run.loops[whose[below[0]]].parent
            factors[j] = 1.0 if whose[j] >= 0 else 0.0
    loops = []
    for m, i, factor in zip(machine.loops, whose, factors, strict=True):
        trips = run.loops[i].trips * factor if i >= 0 else np.zeros(1)
        name = run.loops[i].name if i >= 0 else ""
        loops.append(LoopFacts(name, m.parent, float(trips.mean()), float(trips.max()), m.span))
    return tuple(loops), whose, factors


def _aligned(ours: Sequence[int], theirs: Sequence[int], run: Run) -> list[tuple[int, list[int]]]:
    """Loops of the program with the machine's that stand for them, in order: of more loops of the program the shortest
    were unrolled away, of more loops of the machine the last ones go together."""
    if not ours or not theirs:
        return []
    longest = sorted(ours, key=lambda i: -float(run.loops[i].trips.mean()))[: len(theirs)]
    groups = [(i, [j]) for i, j in zip(sorted(longest), theirs, strict=False)]
    groups[-1][1].extend(theirs[len(groups) :])
    return groups


def _share(machine: Machine, run: Run, j: int, i: int, warps: int) -> float:
    """Passes of machine loop j for one iteration of the program's loop i."""
    span, loop = machine.loops[j].span, run.loops[i]
    trips = float(loop.trips.mean())
    asked, moved = _asked(run, i), sum(n for k, n in span.bytes.items() if k.endswith(" global"))
    multiplies, unrolled, peeled = bool(_flops(span, warps)), 1.0, 0.0
    if asked and not multiplies and not span.barriers:  # what warps do together is not unrolled with a remainder
        unrolled = max(1.0, float(round(moved * warps / asked)))
    if own := _flops(span, warps):
        around = [machine.loops[p].span for p in _ancestors(machine, j)] + [machine.straight]
        peeled = sum(_flops(s, warps) for s in around) / own * float(loop.entries.mean())
    return max(trips / unrolled - peeled, 0.0) / trips


def _ancestors(machine: Machine, j: int) -> list[int]:
    found = []
    while (j := machine.loops[j].parent) >= 0:
        found.append(j)
    return found


def _is_leaf(run: Run, i: int) -> bool:
    return all(loop.parent != i for loop in run.loops)


def _dot_flops(run: Run) -> list[float]:
    """Of each loop itself, in the mean program."""
    out = [0.0] * len(run.loops)
    for dot in run.dots:
        if dot.loop >= 0:
            out[dot.loop] += 2.0 * math.prod(dot.shape) * float(dot.times.mean())
    return out


def _flops(span: Span, warps: int) -> float:
    """Of a block in one pass."""
    return sum(span.matrix.values()) * warps + sum(span.block_matrix.values())


def _asked(run: Run, i: int) -> float:
    """Bytes that one iteration of a loop moves in a program, through pointers."""
    every = float(run.loops[i].trips.sum())
    total = sum(
        float((a.count * a.times).sum()) * math.prod(a.shape) * a.item_bytes
        for a in run.accesses
        if a.loop == i and a.path == "pointer"
    )
    return total / every if every else 0.0


def _lines(facts: Facts) -> Iterator[str]:
    spills = f", {facts.spill_bytes} bytes a thread spilled" if facts.spill_bytes else ""
    yield (
        f"{facts.shared_bytes:,} bytes of shared memory, {facts.registers} registers a thread{spills}, "
        f"{facts.warps} warps, grid {' x '.join(map(str, facts.grid))}"
    )
    for i, loop in enumerate(facts.loops):
        depth = len(list(_above(facts.loops, i)))
        name = f"loop over {loop.name}" if loop.name else "loop that is none of the program's"
        most = f" (at most {loop.most_trips:.4g})" if loop.most_trips > 1.001 * loop.trips else ""
        yield f"{'  ' * depth}{name}: {loop.trips:.4g} passes in a program{most}"
        yield from (f"{'  ' * depth}  {line}" for line in _span_lines(loop.span))
    yield "outside of loops"
    yield from (f"  {line}" for line in _span_lines(facts.straight))
    for access in facts.accesses:
        where = f"by {access.path}" if access.path != "pointer" else "by pointers"
        yield (
            f"{access.kind} {access.argument or '?'} {where}: {access.program_bytes:,.0f} bytes in a program, "
            f"{access.run_bytes:,.0f} of them contiguous"
        )


def _above(loops: Sequence[LoopFacts], i: int) -> Iterator[int]:
    while (i := loops[i].parent) >= 0:
        yield i


def _span_lines(span: Span) -> Iterator[str]:
    pipes = sorted(span.pipe_clk.items(), key=lambda item: -item[1])
    busy = ", ".join(f"{pipe} {clk:.0f}" for pipe, clk in pipes if clk >= 1)
    yield f"{span.instructions} instructions of a warp; clocks of the pipes: {busy or 'none'}"
    for kind, flops in (*span.matrix.items(), *span.block_matrix.items()):
        yield f"{kind}: {flops:,.0f} FLOP of a {'warp' if kind in span.matrix else 'block'}"
    moved = ", ".join(f"{kind} {n:,.0f}" for kind, n in span.bytes.items() if not kind.endswith("constant"))
    if moved or span.bulk:
        yield f"bytes of a warp: {moved or 'none'}" + (f"; {span.bulk} copies by an engine" if span.bulk else "")
    at = ", ".join(f"{clk:.0f} at {latency:.0f}" for latency, clk in zip(LATENCIES_CLK, span.alone_clk, strict=True))
    yield f"a lone warp takes {at} clocks of memory latency; {span.barriers} barriers"
    if span.unknown:
        yield "opcodes without a rate: " + ", ".join(f"{n} x {opcode}" for opcode, n in span.unknown.items())
