"""`Work`, the demands of candidates on the device, and the seconds that they take: launch, waves of blocks with
prologue, pipelined main loop and epilogue, and the last wave.

A step of the main loop takes the p-norm of its times on each resource. The norm is close to the roofline's maximum,
but smooth: two resources that are nearly as busy cost more than one. Sources: Williams et al., Roofline, 2009; waves
as in NVIDIA's matrix multiplication guide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, fields, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.types import FloatArray, IntArray, Record

INDEPENDENT_OVERLAP = 1.2
"""Exponent that joins the times of products and of the arithmetic between them, for blocks that drift apart.

With 1 the two times add up; with large exponents they overlap fully. Source: softmax in
`tests/data/h200/attention.csv`. With 1 to 1.5 the other constants explain the times within 7 to 8 %; with more, the
fitted rate of products runs into its bound.
"""


class Work(Record, eq=False):
    """Demands of each candidate: arrays of shape (n,), or one number for all. Clocks are those of an SM at
    `arch.clock_hz`.

    A kernel launches `grid` blocks, of which an SM holds `resident` at a time. A block starts, runs `steps` steps of
    its main loop with loads issued `ahead` steps before their use, and stores its result. Unless a field says
    otherwise, it is of one step of one block.
    """

    grid: FloatArray
    resident: FloatArray
    warps: FloatArray
    """Warps of one block."""
    steps: FloatArray
    ahead: FloatArray
    math_clk: FloatArray
    """Time on all of the SM's arithmetic pipes."""
    chain_clk: FloatArray
    """Time of a block that has the SM to itself: what its own warps cannot overlap."""
    fill_bytes: FloatArray
    """Bytes moved from L2 into the SM."""
    l2_bytes: FloatArray
    """Bytes as L2 serves them; more where many SMs want the same line at once."""
    l2_read_bytes: FloatArray
    """Distinct bytes read."""
    dram_bytes: FloatArray
    """This step's share of the bytes that the device reads from DRAM."""
    l3_bytes: FloatArray
    """This step's share of the bytes that miss L2, which an L3 serves if there is one."""
    missed: FloatArray | None = None
    """Share of the loads that wait for DRAM; None: `dram_bytes` over `l2_read_bytes`."""
    sm_share: FloatArray | float = 1.0
    """Share of the device's SMs that can hold blocks of the grid."""
    products_apart: FloatArray | float = 0.0
    """1 where loads do not overlap with the products of the step in which they are waited for, so that a lone block
    takes the time of both; elsewhere the share `chain_latency` of the products counts."""
    exposed: FloatArray | float = 0.0
    """Number of load latencies that no pipelining hides."""
    smem_clk: FloatArray | float = 0.0
    """Time on the shared-memory port."""
    issue_clk: FloatArray | float = 0.0
    """Instructions over the SM's issue slots per clock."""
    apart_clk: FloatArray | float = 0.0
    """Part of the step that follows its loads rather than overlapping with them."""
    wait_clk: FloatArray | float = 0.0
    """Waits between the products. They lengthen the block's own chain, but other blocks fill them."""
    power_clk: FloatArray | None = None
    """Time on the SM's arithmetic pipes where all SMs run them and the power limit slows the products of matrix
    units; 0 without such, None where no limit is known."""
    alternates: bool = False
    """Whether in each step the products wait for arithmetic on the sums of the step before."""
    chain_overlap: FloatArray | None = None
    """Exponent that joins a block's own chain and the shared math pipe; None: the constant of this name."""
    body_overlap: float | None = None
    """Exponent that joins arithmetic and the shared-memory loads that feed it; None: that of any two resources."""
    slowdown: FloatArray | float = 1.0
    """Factor on the main loop, for register spills."""
    store_bytes: FloatArray | float = 0.0
    """Bytes that one block writes, in whole sectors."""
    barrier_wait_clk: FloatArray | float = 0.0
    """Of compiled kernels, the part of `apart_clk` for which all warps of a block wait, kept in step by barriers."""
    alone_overlap: FloatArray | float | None = None
    """Of compiled kernels, whose `apart_clk` is a lone block's whole step: exponent that joins throughput and latency
    of a block that has the SM to itself. None: that of several blocks."""
    once_overlap: FloatArray | None = None
    """Exponent that joins the times of pipes of candidates whose blocks load, compute and store once; 0 for others.
    None: for none."""
    dram_overlap: FloatArray | float = 1.0
    """Factor on the constant of this name, the exponent that joins all else with DRAM's time."""
    fill_clk: float | None = None
    """Time from a block's start to its first product; None: that of its first loads."""
    start_loads: FloatArray | float = 0.0
    """Number of dependent loads before a block's first copy."""
    scattered: FloatArray | float = 0.0
    """Bytes of sectors that stores touch again, over the bytes of `store_bytes`."""
    store_clk: FloatArray | float = 0.0
    """Instructions of a block's epilogue over the SM's issue slots per clock."""
    store_chain_clk: FloatArray | float = 0.0
    """Part of a block's epilogue that runs at the rate of a single warp."""
    next_tile: FloatArray | float = 0.0
    """1 for a persistent kernel whose loads run on into the next tile: only an SM's first tile has a prologue."""
    other_stores: FloatArray | float = 0.0
    """1 where separate warps store a tile while others multiply the next one."""
    in_turn_s: FloatArray | float = 0.0
    """Time of what programs do one after another, as under a lock."""
    handed_on_s: FloatArray | float = 0.0
    """Time of all that programs wait for, each for another one."""
    launch_s: FloatArray | float = 0.0
    """Time of the launch beyond that of others: of clusters. [s]"""
    reduction_s: FloatArray | float = 0.0
    """Time of a second kernel that reduces partial results. [s]"""
    facts: dict[str, FloatArray | float] = field(default_factory=dict)
    """Figures to show, which no time depends on: traffic, hit rate, padding."""

    def __len__(self) -> int:
        return len(self.grid)

    @property
    def compiled(self) -> bool:
        """Whether these are demands of machine code, which alone say how pipes overlap outside of loops."""
        return self.once_overlap is not None


def joined(a: FloatArray, b: FloatArray, p: FloatArray | float) -> FloatArray:
    """(a^p + b^p)^(1/p), between the larger of two demands and their sum. Scaled so that nothing overflows."""
    top, low = np.maximum(a, b), np.minimum(a, b)
    return top * (1.0 + (low / top) ** p) ** (1.0 / p)


def on_pipe(
    math_clk: FloatArray, chain_clk: FloatArray, blocks: FloatArray, p: FloatArray | float, alternates: bool
) -> FloatArray:
    """Time of a step of `blocks` blocks on an SM. Alone, each takes `chain_clk`, `math_clk` of it on the shared pipe.

        ((math * blocks)^p + chain^p)^(1/p)
        math + ((math * (blocks - 1))^p + (chain - math)^p)^(1/p)      where `alternates`

    In the second case a block leaves the pipe idle between its products, and other blocks fill that time: a lone block
    takes its chain, and among many the pipe is the bound.
    """
    if not alternates:
        return joined(math_clk * blocks, chain_clk, p)
    own = math_clk * np.minimum(blocks, 1.0)
    return own + joined(math_clk * np.maximum(blocks - 1.0, 0.0), np.maximum(chain_clk - own, 1e-9), p)


KIB = 1024.0
FEW_BLOCKS = 4.0
"""With more resident blocks than this, mostly some block works while others wait. The exponent that joins throughput
and latency then grows with the number of blocks, as in a queue with that many customers. A block of fewer warps than
an SM has schedulers is a customer of so many of them."""

FLOP_PJ, SMEM_PJ, L2_PJ = 1.0, 2.5, 12.5
"""Energy of an operation of a product of halves with a float32 sum, and of a byte from 32 KB and from 1 MB of SRAM.
Only their ratios count. Source: Horowitz, Computing's Energy Problem, ISSCC 2014: 1.1 pJ a product of halves, 0.9 a sum
of float32, 20 and 100 pJ for 8 bytes, at 45 nm. Wires shrink less than logic, so bytes cost no less on newer nodes.
AMD says as much of its library: tiles of up to 256 x 256 and less movement through shared memory take less power, so
that the clock rises (ROCm blog, Measuring Max-Achievable FLOPs, part 2)."""

LIMITERS = ("math", "shared memory", "L2", "DRAM", "issue", "latency")

READS = frozenset({
    "block_dispatch_clk", "block_overlap", "block_start_clk", "chain_latency", "chain_overlap", "dram_burst",
    "dram_efficiency", "dram_latency_load", "dram_overlap", "l2_efficiency", "l2_latency_load", "launch_s",
    "pipeline_overlap", "step_sync_clk", "tail", "warp_start_clk",
})  # fmt: skip
"""Constants that this module's terms read."""


class Phase(Record, eq=False):
    """Clocks of prologue, main loop and epilogue of one SM's blocks, of shape (2, n): in a full wave, in the last."""

    start: FloatArray
    loop: FloatArray
    store: FloatArray
    rows: tuple[FloatArray, ...]
    latency: FloatArray
    """Latency of a step that its pipeline does not cover, of shape (n,). [clk]"""
    clock_hz: float


class Estimate(Record, eq=False):
    """Predicted time of each candidate. The terms are computed on request: people ask for those of few candidates."""

    seconds: FloatArray
    waves: FloatArray
    _phase: Phase
    _spent: Mapping[str, FloatArray]
    """The terms, with the whole last wave under "tail wave". [s]"""
    _left: FloatArray
    """Blocks of the last wave over those of a full one."""
    _start: FloatArray
    _store: FloatArray
    """Prologue and epilogue of a full wave after the first, as far as nothing hides them. [clk]"""
    _steps: FloatArray
    _dram_s: FloatArray

    @cached_property
    def terms(self) -> Mapping[str, FloatArray]:
        """Seconds by cause; they add up to `seconds`.

        The last wave counts as prologue, main loop and epilogue for the share of a full wave that its blocks are.
        "tail wave" is the rest: the time that idle SMs waste.
        """
        terms = dict(self._spent)
        start, loop, store = self._start, self._phase.loop[0], self._store
        last, full = terms["tail wave"], start + store + loop
        wasted = np.maximum(last - self._left * full / self._phase.clock_hz, 0.0)
        filled = (last - wasted) / full
        terms["prologue"] = terms["prologue"] + filled * start
        terms["main loop"] = terms["main loop"] + filled * loop
        terms["epilogue"] = terms["epilogue"] + filled * store
        terms["tail wave"] = wasted
        return terms

    @cached_property
    def alone_s(self) -> Mapping[str, FloatArray]:
        """Seconds of the main loop if it waited for this resource alone. The largest is what bounds it. Those of DRAM
        last from the first load to the last store."""
        rows = [np.where(self.waves >= 1.0, full, last) for full, last in self._phase.rows]
        passes_s = self._steps * np.maximum(self.waves, 1.0) / self._phase.clock_hz
        each = dict(zip(LIMITERS, [clk * passes_s for clk in (*rows, self._phase.latency)], strict=True))
        return each | {"DRAM": self._dram_s * np.ones(len(self.waves))}


def estimate(work: Work, arch: Arch, k: Mapping[str, float]) -> Estimate:
    """Seconds of every candidate.

        own = (full waves * block(resident, all SMs) + block(blocks left per SM, SMs busy)) / clock
        T   = launch + first start + norm(own - first start, DRAM bytes / DRAM rate) + reduction

    DRAM serves the whole device. While one SM starts or drains its blocks, others use its share of the bandwidth. So
    DRAM bounds the sum of all work rather than each step. Too few bytes in flight show as latency. The first start of
    compiled code is that of one block, and lasts until what it loads is there: those dealt out after it, to the same SM
    too, count in the loop. The last wave ends with its slowest SM, of compiled code also where it is the only one.

    The last wave runs at its own occupancy: fewer blocks share an SM, each is faster, and fewer bytes are in flight.
    Without this, a grid just above a full wave would be off by up to a whole wave. Blocks of an SM that wait rather
    than compete, as compiled code tells, end together, and SMs that are through first take as many of the last as they
    hold. Source: what an H100's busiest SM executed in 32 launches of two to seven waves (Nsight Compute): of a product
    that waits for its tiles 8 blocks where 6 would be even; of those that fill issue slots or the port the even part.
    """
    sms = np.maximum(np.floor(arch.sm_count * work.sm_share), 1.0)
    slots = sms * work.resident
    waves = np.floor(work.grid / slots)
    left = work.grid - waves * slots
    each = arch.sms_per_block
    resident = np.stack([work.resident, np.maximum(1.0, np.ceil(each * left / sms)) / each])
    busy = np.stack([np.minimum(sms, each * work.grid), np.clip(each * left, each, sms)])
    phase = _phase(work, arch, k, resident, busy)
    (head_start, tail_start), (head_loop, tail_loop), (head_store, tail_store) = phase.start, phase.loop, phase.store
    in_waves = waves > 0
    some = np.where(in_waves | work.compiled, (left > 0) * k["tail"], 1.0)
    clk = arch.clock_hz
    hidden = np.maximum(work.resident, 1.0) ** -k["block_overlap"]
    # Blocks after the first of an SM: the prologue vanishes where a persistent kernel's loads run on into the next
    # tile. Where separate warps store while others multiply, only half of what the store takes beyond the main loop
    # is visible.
    again_start, last_start = head_start * (1.0 - work.next_tile), tail_start * (1.0 - work.next_tile)
    aside = work.other_stores > 0
    again_store = np.where(aside, np.maximum(head_store - head_loop, 0.0) / 2, head_store)
    last_store = np.where(aside, np.maximum(tail_store - tail_loop, 0.0) / 2, tail_store)
    terms = {
        "launch": k["launch_s"] + work.launch_s * np.ones(len(work)),
        "prologue": np.where(in_waves, head_start + again_start * (waves - 1.0) * hidden, some * tail_start) / clk,
        "main loop": np.where(in_waves, waves * head_loop, some * tail_loop) / clk,
        "epilogue": np.where(in_waves, head_store + again_store * (waves - 1.0) * hidden, some * tail_store) / clk,
        "tail wave": np.where(in_waves, some * (hidden * (last_start + last_store) + tail_loop), 0.0) / clk,
        "reduction": np.broadcast_to(work.reduction_s, len(work)),
    }
    first = np.where(in_waves, head_start, tail_start) / clk
    cold = work.start_loads * max(arch.dram_latency_s - arch.l2_latency_s, 0.0)  # only the first blocks miss L2 there
    own = terms["prologue"] + terms["main loop"] + terms["epilogue"] + terms["tail wave"] - first
    least = work.grid * work.steps * work.math_clk / (sms * clk)  # all pipes busy, in the last wave too
    terms["tail wave"] = terms["tail wave"] + np.maximum(least - own, 0.0)
    own = np.maximum(own, least)
    if work.power_clk is not None:
        powered = work.power_clk + np.where(work.power_clk > 0, moving_clk(work, arch), 0.0)
        powered = work.grid * work.steps * powered / (arch.sm_count * clk)
        terms["main loop"] = terms["main loop"] + np.maximum(powered - own, 0.0)
        own = np.maximum(own, powered)
    queued = joined(own, work.in_turn_s * np.ones(len(work)), k["dram_overlap"]) + work.handed_on_s
    terms["main loop"] = terms["main loop"] + (queued - own)
    own = queued
    beside = np.maximum(own - work.compiled * k["dram_latency_load"] * arch.dram_latency_s, least)
    overlap = k["dram_overlap"] * work.dram_overlap
    dram_s = dram_seconds(work, arch, k)
    terms["main loop"] = terms["main loop"] + joined(beside, dram_s, overlap) - beside
    terms["prologue"] = terms["prologue"] + cold
    seconds: FloatArray = reduce(np.add, terms.values())
    start, store = hidden * again_start, hidden * again_store
    return Estimate(seconds, work.grid / slots, phase, terms, left / slots, start, store, work.steps, dram_s)


def _phase(work: Work, arch: Arch, k: Mapping[str, float], resident: FloatArray, busy: FloatArray) -> Phase:
    """Clocks of `resident` blocks that run side by side on each of `busy` SMs."""
    clk = arch.clock_hz
    l2 = arch.l2_bytes_per_s * k["l2_efficiency"] / clk
    dram = arch.dram_bytes_per_s * np.minimum(k["dram_efficiency"], arch.dram_reach) / clk
    warps = resident * work.warps / arch.schedulers_per_sm
    pipes = warps / np.ceil(warps)  # a warp stays with its scheduler: the scheduler with most warps ends last
    everywhere = resident * busy
    overlap = k["chain_overlap"] if work.chain_overlap is None else work.chain_overlap
    shared = on_pipe(work.math_clk / pipes, work.chain_clk, resident, overlap, work.alternates)
    port = resident * np.maximum(work.fill_bytes / arch.l2_bytes_per_clk_per_sm, work.l2_bytes * busy / l2)
    reads = everywhere * work.dram_bytes / dram
    dispatch = np.maximum(k["block_dispatch_clk"], k["warp_start_clk"] * work.warps)
    code, blocks = resident * work.issue_clk / pipes, resident * dispatch / work.steps
    issue = np.maximum(code, blocks)
    fed = resident * work.smem_clk
    rows = (shared, fed, port, reads, issue)
    body = (shared, fed) if work.body_overlap is None else (joined(shared, fed, work.body_overlap),)
    core = norm((*body, port, issue))
    if work.once_overlap is not None:  # blocks are dealt out while warps of others work
        core = np.where(work.once_overlap > 0, norm((norm((*body, port, code), work.once_overlap), blocks)), core)
    core = core + k["step_sync_clk"]
    latency = loaded_latency(work, arch, k)
    before = work.chain_clk * np.maximum(k["chain_latency"], work.products_apart)
    covered = latency + before + work.fill_bytes / arch.l2_bytes_per_clk_per_sm
    uncovered = covered / work.ahead + latency * work.exposed + work.apart_clk
    alone = uncovered + work.wait_clk
    if work.alone_overlap is None:
        step = joined(core, uncovered, k["pipeline_overlap"])
    else:
        served = resident * np.minimum(work.warps / arch.schedulers_per_sm, 1.0)  # blocks on a scheduler
        several = k["pipeline_overlap"] * np.sqrt(np.maximum(served / FEW_BLOCKS, 1.0))
        several = np.where(resident > 1, several, work.alone_overlap)
        wait = np.where(resident > 1, 0.0, work.barrier_wait_clk)  # no other block works meanwhile
        step = joined(core, uncovered - wait, several) + wait
        together = (work.grid >= everywhere[0]) / (1.0 + (core / uncovered)[0] ** several[0])  # by the same norm
        step[1] += together * np.maximum(step[0] - step[1], 0.0)
    step = np.maximum(step, alone) * work.slowdown
    memory, compute = np.maximum(rows[2], rows[3]), np.maximum(np.maximum(rows[0], rows[1]), rows[4])
    fill: FloatArray | float = latency * (1.0 - 1.0 / work.ahead) + np.minimum(memory, compute)
    if work.fill_clk is not None:
        fill = work.fill_clk
    looked_up = work.start_loads * arch.l2_latency_s * k["l2_latency_load"] * clk
    first = np.minimum(resident, 1.0) if work.compiled else resident
    start = k["block_start_clk"] + looked_up + first * dispatch + fill
    again = work.store_bytes * work.scattered * np.maximum(1.0 / arch.l2_bytes_per_clk_per_sm, busy / l2)
    written = work.store_bytes / arch.l2_bytes_per_clk_per_sm + again
    store = resident * (written + work.store_clk) + work.store_chain_clk
    return Phase(start, work.steps * step, store, rows, alone, clk)


def dram_seconds(work: Work, arch: Arch, k: Mapping[str, float]) -> FloatArray:
    """Time of all reads and writes at the rate of DRAM, or of an L3 before it where that is slower. [s]

        DRAM = bytes / rate * (1 + dram_burst * KiB that a warp requests in a step / sqrt(steps))

    Loads that warps issue together reach DRAM in bursts, and it idles between them. Over many steps blocks drift apart
    and fill each other's gaps. Source: mixtures of experts on an H200, whose weights are read once
    (`grouped_matmul.csv`).
    """
    steps = work.grid * work.steps
    rate = arch.dram_bytes_per_s * np.minimum(k["dram_efficiency"], arch.dram_reach)
    dram: FloatArray = (work.dram_bytes * steps + work.store_bytes * work.grid) / rate
    dram = dram * (1.0 + k["dram_burst"] * work.fill_bytes / work.warps / KIB / np.sqrt(work.steps))
    return np.maximum(dram, work.l3_bytes * steps / arch.l3_bytes_per_s) if arch.l3_bytes else dram


def moving_clk(work: Work, arch: Arch) -> FloatArray:
    """Time of products that take as much energy as a step's bytes on their way from L2 and through shared memory, where
    the power limit slows the products. [clk]"""
    unit = arch.matrix_unit("float16")
    assert unit is not None
    energy_pj = L2_PJ * work.fill_bytes + SMEM_PJ * work.smem_clk * arch.smem_bytes_per_clk
    return energy_pj / (FLOP_PJ * unit.flops_per_clk_per_sm) * arch.matrix_clock_hz / arch.sustained_matrix_clock_hz


def loaded_latency(work: Work, arch: Arch, k: Mapping[str, float]) -> FloatArray:
    """Mean latency of a step's loads under load: that of DRAM for the share that misses L2, else that of L2. [clk]"""
    l2 = arch.l2_latency_s * k["l2_latency_load"]
    missed = work.missed
    if missed is None:
        missed = np.clip(work.dram_bytes / np.maximum(work.l2_read_bytes, 1.0), 0.0, 1.0)
    return arch.clock_hz * (l2 + (arch.dram_latency_s * k["dram_latency_load"] - l2) * missed)


def norm(rows: tuple[FloatArray, ...], once: FloatArray | None = None) -> FloatArray:
    """p-norm with p = 8. Fitted exponents lay between 6 and 9; 8 is computed by squaring, ten times faster than pow.
    `once`: another exponent where it is not 0."""
    top = reduce(np.maximum, rows)
    total = np.zeros_like(top)
    for row in rows:
        x = row / top
        x *= x
        x *= x
        x *= x
        total += x
    out: FloatArray = top * np.sqrt(np.sqrt(np.sqrt(total)))
    if once is not None:
        p = np.where(once > 0, once, 8.0)
        out = np.where(once > 0, top * reduce(np.add, ((row / top) ** p for row in rows)) ** (1.0 / p), out)
    return out


def side_by_side(records: Sequence[Any], counts: Sequence[int], order: IntArray) -> Any:
    """Records of some candidates each as one of all, in that order. What is one number in each is a column then."""
    first: Any = records[0]
    if isinstance(first, Work | Estimate | Phase):
        parts = {f.name: [getattr(record, f.name) for record in records] for f in fields(first)}
        return replace(first, **{name: side_by_side(each, counts, order) for name, each in parts.items()})
    if isinstance(first, Mapping):
        return {name: side_by_side([record[name] for record in records], counts, order) for name in first}
    if isinstance(first, tuple):
        return tuple(side_by_side(each, counts, order) for each in zip(*records, strict=True))
    if all(record is None for record in records):
        return None
    columns = [np.broadcast_to(record, (*np.shape(record)[:-1], n)) for record, n in zip(records, counts, strict=True)]
    return np.concatenate(columns, axis=-1)[..., order]
