"""Work to seconds: waves of blocks, a pipelined main loop, launch, epilogue and tail.

The main loop's step is a p-norm of what it asks of each resource: smooth, so that two half-full resources
cost more than one, and close to the roofline's maximum. Source of the structure: Williams et al., Roofline, 2009, with
the waves of NVIDIA's matrix multiplication guide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..arch.descriptor import Arch
from ..base.types import FloatArray
from .work import Work, joined, on_pipe

KIB = 1024.0
FEW_BLOCKS = 4.0
"""Of more blocks on an SM than these one mostly works while others wait: throughput and latency hide each other
better, as in a queue with as many customers."""

LIMITERS = ("math", "shared memory", "L2", "DRAM", "issue", "latency")

READS = frozenset({
    "block_dispatch_clk", "block_overlap", "block_start_clk", "chain_latency", "chain_overlap", "dram_burst",
    "dram_efficiency", "dram_latency_load", "dram_overlap", "l2_efficiency", "l2_latency_load", "launch_s",
    "pipeline_overlap", "step_sync_clk", "tail", "warp_start_clk",
})  # fmt: skip
"""Constants that this module's terms read."""


@dataclass(frozen=True)
class _Phase:
    """Blocks on one SM, clocks of start, main loop and epilogue: of a full wave and of the last, of shape (2, n)."""

    start: FloatArray
    loop: FloatArray
    store: FloatArray
    rows: tuple[FloatArray, ...]
    latency: FloatArray
    """Of shape (n,)."""
    clock_hz: float


@dataclass(frozen=True)
class Estimate:
    """Predicted time of each candidate. What it is made of is worked out when it is asked for, of few candidates."""

    seconds: FloatArray
    waves: FloatArray
    _phase: _Phase
    _spent: Mapping[str, FloatArray]
    """The terms, all of the last wave as one. [s]"""
    _left: FloatArray
    """Share of a wave that the blocks of the last one are."""
    _start: FloatArray
    _store: FloatArray
    """What a later full wave shows of its start and epilogue. [clk]"""

    @cached_property
    def terms(self) -> Mapping[str, FloatArray]:
        """What adds up to `seconds`. The last wave's blocks count as a share of a full one, what is beyond as waste."""
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
    def rows(self) -> Mapping[str, FloatArray]:
        """Clocks of one step on each resource, all resident blocks together; of the last wave where it is the only."""
        rows = [np.where(self.waves >= 1.0, full, last) for full, last in self._phase.rows]
        return dict(zip(LIMITERS, (*rows, self._phase.latency), strict=True))

    @cached_property
    def limiter(self) -> FloatArray:
        """Index into LIMITERS of what bounds the main loop."""
        out: FloatArray = np.argmax(np.stack(list(self.rows.values())), axis=0)
        return out


def estimate(work: Work, arch: Arch, k: Mapping[str, float]) -> Estimate:
    """Seconds of every candidate.

        own = (full waves * block(resident, all SMs) + block(blocks left per SM, SMs busy)) / clock
        T   = launch + first start + norm(own - first start, DRAM bytes / DRAM rate) + reduction

    DRAM serves the whole device: while one SM starts or drains its blocks the others use its share, so it bounds
    the sum of all work and not a step of it. What a lone block cannot keep in flight shows as latency. The last
    wave runs at its own occupancy: fewer blocks share an SM, so each is faster, and fewer bytes are in flight.
    Without this the tail of a grid just above a full wave is misjudged by up to a whole wave. Of that wave's time the
    term "tail wave" is what idle SMs waste: what it takes beyond the share of a full wave that its blocks are.
    """
    sms = float(arch.sm_count)
    slots = sms * work.resident
    waves = np.floor(work.grid / slots)
    left = work.grid - waves * slots
    resident = np.stack([work.resident, np.maximum(1.0, np.ceil(left / sms))])
    phase = _phase(work, arch, k, resident, np.stack([np.minimum(sms, work.grid), np.clip(left, 1.0, sms)]))
    (head_start, tail_start), (head_loop, tail_loop), (head_store, tail_store) = phase.start, phase.loop, phase.store
    in_waves = waves > 0
    some = np.where(in_waves, (left > 0) * k["tail"], 1.0)
    clk = arch.clock_hz
    hidden = work.resident ** -k["block_overlap"]
    # later tiles: their loads may be on the way before; warps that store while others multiply, and are waited for
    # where that takes longer, show half of what it does
    again_start, last_start = head_start * (1.0 - work.next_tile), tail_start * (1.0 - work.next_tile)
    aside = work.other_stores > 0
    again_store = np.where(aside, np.maximum(head_store - head_loop, 0.0) / 2, head_store)
    last_store = np.where(aside, np.maximum(tail_store - tail_loop, 0.0) / 2, tail_store)
    terms = {
        "launch": np.full(len(work), k["launch_s"]),
        "prologue": np.where(in_waves, head_start + again_start * (waves - 1.0) * hidden, some * tail_start) / clk,
        "main loop": np.where(in_waves, waves * head_loop, some * tail_loop) / clk,
        "epilogue": np.where(in_waves, head_store + again_store * (waves - 1.0) * hidden, some * tail_store) / clk,
        "tail wave": np.where(in_waves, some * (hidden * (last_start + last_store) + tail_loop), 0.0) / clk,
        "reduction": np.broadcast_to(work.reduction_s, len(work)),
    }
    first = np.where(in_waves, head_start, tail_start) / clk
    cold = work.start_loads * max(arch.dram_latency_s - arch.l2_latency_s, 0.0)  # what the first of all blocks look up
    own = terms["prologue"] + terms["main loop"] + terms["epilogue"] + terms["tail wave"] - first
    terms["main loop"] = terms["main loop"] + joined(own, dram_seconds(work, arch, k), k["dram_overlap"]) - own
    terms["prologue"] = terms["prologue"] + cold
    seconds: FloatArray = np.add.reduce(list(terms.values()))
    return Estimate(seconds, work.grid / slots, phase, terms, left / slots, hidden * again_start, hidden * again_store)


def _phase(work: Work, arch: Arch, k: Mapping[str, float], resident: FloatArray, busy: FloatArray) -> _Phase:
    """Clocks that `resident` blocks on each of `busy` SMs take side by side."""
    clk = arch.clock_hz
    l2 = arch.l2_bytes_per_s * k["l2_efficiency"] / clk
    dram = arch.dram_bytes_per_s * k["dram_efficiency"] / clk
    warps = resident * work.warps / arch.schedulers_per_sm
    pipes = warps / np.ceil(warps)  # a warp stays with its scheduler: the one that has most of them is the last to end
    everywhere = resident * busy
    shared = on_pipe(work.math_clk / pipes, work.chain_clk, resident, k["chain_overlap"], work.alternates)
    port = resident * np.maximum(work.fill_bytes / arch.l2_bytes_per_clk_per_sm, work.l2_bytes * busy / l2)
    reads = everywhere * work.dram_bytes / dram
    dispatch = np.maximum(k["block_dispatch_clk"], k["warp_start_clk"] * work.warps)
    issue = resident * np.maximum(work.issue_clk / pipes, dispatch / work.steps)
    fed = resident * work.smem_clk
    rows = (shared, fed, port, reads, issue)
    body = (shared, fed) if work.body_overlap is None else (joined(shared, fed, work.body_overlap),)
    core = norm((*body, port, issue)) + k["step_sync_clk"]
    latency = loaded_latency(work, arch, k)
    covered = latency + work.chain_clk * k["chain_latency"] + work.fill_bytes / arch.l2_bytes_per_clk_per_sm
    uncovered = covered / work.ahead + latency * work.exposed + work.apart_clk
    alone = uncovered + work.wait_clk
    several: FloatArray | float = k["pipeline_overlap"]
    if work.alone_overlap is not None:
        several = np.where(resident > 1, several * np.sqrt(np.maximum(resident / FEW_BLOCKS, 1.0)), work.alone_overlap)
    step = np.maximum(joined(core, uncovered, several), alone) * work.slowdown
    memory, compute = np.maximum(rows[2], rows[3]), np.maximum(np.maximum(rows[0], rows[1]), rows[4])
    fill: FloatArray | float = latency * (1.0 - 1.0 / work.ahead) + np.minimum(memory, compute)
    if work.fill_clk is not None:
        fill = work.fill_clk
    looked_up = work.start_loads * arch.l2_latency_s * k["l2_latency_load"] * clk
    start = k["block_start_clk"] + looked_up + resident * dispatch + fill
    again = work.store_bytes * work.scattered * np.maximum(1.0 / arch.l2_bytes_per_clk_per_sm, busy / l2)
    written = work.store_bytes / arch.l2_bytes_per_clk_per_sm + again
    store = resident * (written + work.store_clk) + work.store_chain_clk
    return _Phase(start, work.steps * step, store, rows, alone, clk)


def dram_seconds(work: Work, arch: Arch, k: Mapping[str, float]) -> FloatArray:
    """All that is read and written, at the rate of DRAM; of a cache before it where that is the slower. [s]

        DRAM = bytes / rate * (1 + dram_burst * KiB of a step that a warp asks for / sqrt(steps))

    What warps ask for at once comes in bursts, between which DRAM idles; over many steps blocks drift apart and fill
    each other's gaps. Seen on an H200 in mixtures of experts whose weights are read once (`grouped_matmul.csv`).
    """
    steps = work.grid * work.steps
    dram = (work.dram_bytes * steps + work.store_bytes * work.grid) / (arch.dram_bytes_per_s * k["dram_efficiency"])
    dram = dram * (1.0 + k["dram_burst"] * work.fill_bytes / work.warps / KIB / np.sqrt(work.steps))
    out: FloatArray = np.maximum(dram, work.l3_bytes * steps / arch.l3_bytes_per_s) if arch.l3_bytes else dram
    return out


def loaded_latency(work: Work, arch: Arch, k: Mapping[str, float]) -> FloatArray:
    """Latency of a step's loads in a busy pipeline: L2's, and DRAM's for the share that misses. [clk]"""
    l2 = arch.l2_latency_s * k["l2_latency_load"]
    missed = work.missed
    if missed is None:
        missed = np.clip(work.dram_bytes / np.maximum(work.l2_read_bytes, 1.0), 0.0, 1.0)
    out: FloatArray = arch.clock_hz * (l2 + (arch.dram_latency_s * k["dram_latency_load"] - l2) * missed)
    return out


def norm(rows: tuple[FloatArray, ...]) -> FloatArray:
    """p-norm with p = 8, by squaring: the fitted exponents lie between 6 and 9, and pow costs ten times more."""
    top = np.maximum.reduce(rows)
    total = np.zeros_like(top)
    for row in rows:
        x = row / top
        x *= x
        x *= x
        x *= x
        total += x
    out: FloatArray = top * np.sqrt(np.sqrt(np.sqrt(total)))
    return out
