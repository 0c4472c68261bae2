"""Dedispersion: sums over channels, each of which is read at its own delay.

A thread computes its outputs one after the other. For each channel it loads the channel's delay, scales and rounds it,
loads the sample at that place and adds it. The statement is O[d,t] += I[h,t+d] * S[h]; the option `max_delay` is the
longest delay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...arch.descriptor import resident_blocks
from ...base.types import FloatArray
from ...kernels.columns import column, given, read_columns
from ...kernels.space import Space
from ..model import Model, Part
from ..tile import issue_per_clk
from ..traffic import reused_share, sector_waste
from ..work import Work

RESULT_BYTES = 4
"""Size of a sum: one register per lane."""
SCALE_BYTES = 4
"""Size of what a channel's delay is computed from."""
MEAN_DELAY = 0.5
"""Mean delay over the channels, as a share of the longest."""

READS = frozenset({
    "channel_instr", "channel_unroll", "dependent_issue_clk", "l2_usable", "line_lookup_clk", "narrow_load",
    "warp_spread",
})  # fmt: skip
"""Constants that this module's terms read."""


@dataclass(frozen=True)
class DelayedSum:
    """The columns of `delayed_sum`."""

    d: FloatArray = given("elements", "trials")
    t: FloatArray = given("elements", "samples")
    h: FloatArray = given("elements", "channels")
    i_bytes: FloatArray = given("bytes", "size of a sample")
    tile_m: FloatArray = column("elements", "trials per block")
    tile_n: FloatArray = column("elements", "samples per block")
    thread_m: FloatArray = column("elements", "trials per thread")
    thread_n: FloatArray = column("elements", "samples per thread")
    lanes_x: FloatArray = column("threads", "threads of a block side by side along time")
    apart_m: FloatArray = column("elements", "trials between neighbouring threads")
    apart_n: FloatArray = column("elements", "samples between neighbouring threads")
    warps: FloatArray = column("warps", "warps per block")
    conversions: FloatArray = column("", "conversions between integer and floating point per addition")
    uniform_loads: FloatArray = column(
        "loads", "loads of the delay by a vector instruction, over all outputs of a thread"
    )
    registers: FloatArray = column("registers", "registers per thread")
    smem_bytes: FloatArray = column("bytes", "shared memory of a block")


def delayed_sum(space: Space, k: Mapping[str, float]) -> Work:
    """Demands of each candidate. One step is one channel of one output of each thread."""
    arch, n, c = space.arch, len(space), read_columns(DelayedSum, space, whole=True)
    trials, samples, channels, width = c.d, c.t, c.h, c.i_bytes
    tm, tn, warps, lanes_x = c.tile_m, c.tile_n, c.warps, c.lanes_x
    one = np.ones(n)
    outputs = c.thread_m * c.thread_n
    grid = np.ceil(trials / tm) * np.ceil(samples / tn)
    resident = resident_blocks(arch, warps, c.smem_bytes, c.registers)

    # bytes over which the lanes of one load spread: along time, and by the different delays of their trials
    wide = np.minimum(lanes_x, arch.warp_size)
    delay = space.problem.options["max_delay"] * MEAN_DELAY / trials
    deep = np.minimum(arch.warp_size / wide, tm / c.thread_m)
    span = ((wide - 1) * c.apart_n + (deep - 1) * c.apart_m * delay + 1) * width
    lines = 1 + (span - width) / arch.line_bytes
    # a scheduler passes as many lanes per clock to the load/store units as it has arithmetic units
    handed = min(arch.lsu_per_clk, arch.lanes_per_sm / arch.schedulers_per_sm)
    request_clk = np.maximum(arch.warp_size / handed, lines * k["line_lookup_clk"])

    # one step: one channel of one output
    steps = channels * outputs
    load_clk = warps * (1 + c.uniform_loads / outputs) * request_clk * k["narrow_load"]
    convert_clk = warps * c.conversions * arch.warp_size / arch.sfu_per_clk
    instructions = k["channel_instr"] + c.uniform_loads / outputs
    block_span = ((lanes_x - 1) * c.apart_n + (tm / c.thread_m - 1) * c.apart_m * delay + 1) * width
    sectors = (1 + block_span / arch.sector_bytes) * arch.sector_bytes
    # each channel is read once from its first sample to the last one of its longest delay
    once = channels * ((samples + space.problem.options["max_delay"] * MEAN_DELAY) * width + SCALE_BYTES)
    # share of the input that is still in L2 from the row of blocks before
    kept = np.clip(reused_share(arch, k) * max(arch.l2_bytes, arch.l3_bytes) / once, 0.0, 1.0)
    read = once * np.maximum(1.0, trials / tm * (1 - kept))
    stored = trials * samples * RESULT_BYTES
    return Work(
        grid=grid,
        resident=resident,
        warps=warps,
        steps=steps,
        ahead=one * k["channel_unroll"],
        math_clk=convert_clk,
        chain_clk=instructions * k["dependent_issue_clk"],
        smem_clk=load_clk,
        issue_clk=warps * instructions / issue_per_clk(arch),
        fill_bytes=sectors,
        l2_bytes=sectors,
        l2_read_bytes=sectors,
        dram_bytes=read / (grid * steps),
        l3_bytes=read / (grid * steps),
        store_bytes=tm * tn * RESULT_BYTES * sector_waste(tn * RESULT_BYTES, one * RESULT_BYTES, arch.sector_bytes),
        slowdown=1.0 + k["warp_spread"] * np.sqrt(2 * np.log(warps)),  # expected maximum of `warps` normal deviations
        facts={
            "dram_bytes": read + stored,
            "compulsory_bytes": once + stored,
            "l2_hit_rate": kept,
            "padding": grid * tm * tn / (trials * samples),
        },
    )


DELAYED_SUM = Model(delayed_sum, (Part(DelayedSum, READS),))
