"""Kernels on the vector units that keep no tile of products.

Element-wise operators and reductions read each element a few times. `window` is direct convolution: each thread applies
the whole filter to its own few outputs; a block may first copy the input of its outputs, with the halo, into shared
memory; otherwise the loads of the loop body go through L1. The statement is O[y,x] += I[y+r,x+s] * F[r,s].

`delayed_sum` is dedispersion: each channel is read at its own delay. A thread computes its outputs one after the other.
For each channel it loads the channel's delay, scales and rounds it, loads the sample at that place and adds it. The
statement is O[d,t] += I[h,t+d] * S[h]; the option `max_delay` is the longest delay."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import gcd

import numpy as np

from ...arch.descriptor import Arch, resident_blocks
from ...base.types import FloatArray, IntArray
from ...kernels.enumeration import Tables
from ...kernels.expr import multiply_dtype
from ...kernels.space import Space
from ..estimate import Work
from ..model import Columns, Model, read_columns
from ..tile import (
    BANKS,
    FETCH_CLK,
    ISSUED,
    KEPT_INSTRUCTIONS,
    WORD_BYTES,
    compiled_peak,
    issue_per_clk,
    lanes_clk,
    spill_slowdown,
    unified,
)
from ..traffic import between_bytes, reused_share, sector_waste

EXCHANGE_CLK = 60.0
"""Time to exchange values through shared memory: store, barrier, load, at about 30 clocks for each access
(shared-memory latency, arXiv 2402.13499)."""
SHUFFLE_CLK = 27.0
"""Latency of a shuffle and an addition: 23 and 4 clocks (arXiv 1804.06826, table of latencies; similar since)."""

CLUSTER_BLOCKS = 8.0
"""Blocks of clusters that an SM holds at once. Source: `tests/data/h200/streams.json.gz`, where blocks of one or two
warps take as long in clusters as if there were at most eight of them, against the same blocks without clusters."""
CLUSTER_SMS = 10.0 / 11.0
"""Share of the SMs that clusters of more than two blocks can use: 120 of an H100's 132. The others are left over in
parts of the chip that no cluster leaves (github.com/NVIDIA/cutlass/issues/1921). In the same table, 128 blocks of
clusters for 132 SMs take two waves."""

SHUFFLE_LANES = 32.0
"""Lanes that an SM shuffles per clock. Source: CUDA C++ Programming Guide, throughput of native instructions; the same
since compute capability 7.0."""


class Stream(Columns, table="stream.stream"):
    """The columns of `stream`."""


def stream(space: Space | Tables, k: Mapping[str, float]) -> Work:
    """Demands of each candidate. One step is one tile of a block, with all passes over it."""
    arch, n, problem, c = space.arch, len(space), space.problem, read_columns(Stream, space)
    warps, blocks, steps, tile = c.warps, c.blocks, c.steps, c.tile_elements
    split, registers, smem_bytes = c.split, c.registers, c.smem_bytes
    access, passes = c.access_elements, c.passes
    elements = c.elements
    read_bytes, write_bytes = c.read_bytes, c.write_bytes
    trips = blocks * steps

    # bytes of one step of one block, in whole sectors; a tile that covers whole rows is one contiguous run
    width = c.in_bytes
    run = c.run_elements
    run_bytes = np.minimum(np.where(run >= c.c, tile, run), elements) * width
    fetches = passes if c.fetched_elements is None else c.fetched_elements / tile
    walked_bytes = run_bytes if c.walked_elements is None else np.maximum(run_bytes, c.walked_elements * width)
    waste = sector_waste(walked_bytes, c.row_align, arch.sector_bytes)
    page = 1 + k["dram_run_bytes"] / run_bytes
    fresh = read_bytes * waste + between_bytes(c.strided_elements, c.strided_reach, width, arch)
    # a tile that stores only parts of rows: partly written sectors count whole, and pages are opened again
    stored: FloatArray | float = 1.0
    stored_page: FloatArray | float = 1.0
    if c.stored_run_elements is not None:
        stored_bytes = c.stored_run_elements * width
        stored = sector_waste(stored_bytes, c.stored_align, arch.sector_bytes)
        stored_page = 1 + k["dram_run_bytes"] / stored_bytes
    # an operand that is read across its rows: each element takes a whole sector from L2, but DRAM reads sectors once
    alone_bytes = c.scattered_elements * (arch.sector_bytes - width)
    clustered = c.cluster > 1
    resident = resident_blocks(arch, warps, smem_bytes, registers)
    resident = np.where(clustered, np.minimum(resident, CLUSTER_BLOCKS), resident)
    live = fresh / blocks * np.minimum(blocks, arch.sm_count * resident)  # bytes in use by all resident blocks
    kept = np.clip(reused_share(arch, k) * arch.l2_bytes / np.maximum(live, 1.0), 0.0, 1.0)
    held = np.maximum(kept, np.clip(reused_share(arch, k) * arch.l3_bytes / np.maximum(live, 1.0), 0.0, 1.0))
    dram, beyond = (
        (fresh * page * (1 + (fetches - 1) * (1 - share)) + write_bytes * stored * stored_page) / trips
        for share in (held, kept)
    )
    # an operand that lacks the outer axis: every block reads it from L2, and its later rows hit L1
    again = c.repeated_bytes * np.minimum(1.0, c.c / tile)
    fill = (fresh * fetches + write_bytes * stored * c.stored_apart + alone_bytes + again) / trips

    # arithmetic and instructions of one step; types narrower than float32 are computed in float32
    computed = "float64" if problem.itemsize(problem.statement.inputs[0].name) == 8 else "float32"
    lanes = warps * arch.warp_size
    inputs, outputs = c.inputs, c.outputs_per_element
    alone = c.scattered
    accesses = (np.ceil(tile / lanes / access) * (inputs + outputs - alone) + np.ceil(tile / lanes) * alone) * passes
    arithmetic = np.ceil(tile / lanes) * (c.flops_per_element + k["element_instr"]) * passes
    warp_instr = k["step_instr"] + k["access_instr"] * accesses + arithmetic
    slots, fetch_clk = issue_per_clk(arch), warp_instr * 0.0
    if c.body_instr is not None:
        warp_instr = c.body_instr
        if arch.vendor == "nvidia":
            slots, fetch_clk = slots * ISSUED, FETCH_CLK * warp_instr * (warp_instr > KEPT_INSTRUCTIONS)
    instructions = warps * warp_instr
    # loads that L1 serves itself: passes over its banks, or over its lines where it is no array with shared memory
    row_bytes = arch.smem_bytes_per_clk if unified(arch) else arch.line_bytes
    passes_clk = np.maximum(lanes_clk(arch), arch.warp_size * c.lane_bytes / row_bytes)
    port_clk = c.lane_loads * passes_clk + c.common_loads * lanes_clk(arch)
    chain = k["step_chain_clk"] + np.maximum(warp_instr * k["dependent_issue_clk"], fetch_clk)
    chain = chain + EXCHANGE_CLK * c.step_exchanges
    tree_clk = c.tree_levels * SHUFFLE_CLK + c.exchanges * EXCHANGE_CLK
    partial_bytes = np.where(split > 1, split * write_bytes, 0.0)
    join_s = k["split_s"] + k["split_each_s"] * split + 2 * partial_bytes / arch.dram_bytes_per_s
    return Work(
        grid=blocks * np.ones(n),
        resident=resident * np.ones(n),
        sm_share=np.where(c.cluster > 2, CLUSTER_SMS, 1.0),
        warps=warps,
        steps=steps,
        ahead=c.ahead,
        exposed=c.waits - 1.0,
        math_clk=tile * c.flops_per_element * passes / (arch.vector_flops_per_clk(computed) / 2),
        chain_clk=chain,
        smem_clk=warps * (c.tree_shuffles * arch.warp_size / SHUFFLE_LANES / steps + port_clk),
        issue_clk=instructions / slots,
        fill_bytes=fill,
        l2_bytes=fill,
        l2_read_bytes=np.maximum(fresh * fetches / trips, 1.0),
        dram_bytes=dram,
        l3_bytes=beyond,
        store_clk=warps * c.tree_instr / issue_per_clk(arch),
        store_chain_clk=tree_clk,
        launch_s=np.where(clustered, k["cluster_s"], 0.0),
        reduction_s=np.where(split > 1, join_s, 0.0),
        slowdown=spill_slowdown(arch, warps, registers, instructions / slots, k),
        facts={
            "dram_bytes": dram * trips,
            "compulsory_bytes": c.compulsory_bytes,
            "l2_hit_rate": kept * (1 - 1 / np.maximum(fetches, 1.0)),
            "padding": np.maximum(tile * trips / elements, 1.0),  # tiles may leave out the ends of rows
        },
    )


STREAM = Model(stream, (Stream,), variant=lambda kernel, _: kernel)


COPY_UNROLL = 4
"""Factor by which compilers unroll a loop of unknown trip count."""
LINES_AT_ONCE = 4
"""Lines that L1 looks up per clock, 4 sectors of each, where it is one array with shared memory. Source: NVIDIA's
answer on its developer forum for Volta and later, forums.developer.nvidia.com/t/273699."""


class Window(Columns, table="stream.window"):
    """The columns of `window`."""


def window(space: Space, k: Mapping[str, float]) -> Work:
    """Demands of each candidate. A block takes one step: it stages its input, or not, and applies the whole filter."""
    arch, n, c = space.arch, len(space), read_columns(Window, space, whole=True)
    y, x, width = c.y, c.x, c.i_bytes
    tm, tn, warps = c.tile_m, c.tile_n, c.warps
    threads_y, threads_x = tm / c.thread_m, c.lanes_x
    staged, guarded = c.staged > 0, c.guarded > 0
    halo_rows, halo_cols = c.halo_rows, c.halo_cols
    products, loads = c.products, c.loads
    registers = c.registers
    grid = np.ceil(y / tm) * np.ceil(x / tn)
    resident = resident_blocks(arch, warps, c.smem_bytes, registers)

    # arithmetic, and the load/store port that supplies it
    flops_per_clk = compiled_peak(arch, multiply_dtype(space.problem)) * k["math_efficiency"]
    math_clk = warps * products * 2 * arch.warp_size / flops_per_clk
    shared_clk = shared_request_clk(arch, threads_x, c.pitch, width)
    cached_clk = cached_request_clk(arch, threads_x, x + c.s - 1, width, k["line_lookup_clk"])
    # a warp skips a copy for which none of its lanes is in the row
    wide = np.minimum(threads_x, arch.warp_size)
    copies = np.where(staged, halo_rows * np.ceil(halo_cols / wide) * wide / arch.warp_size, 0.0)
    lsu_clk = warps * loads * np.where(staged, shared_clk, cached_clk) + copies * (cached_clk + shared_clk)
    lsu_clk = lsu_clk / k["smem_efficiency"]

    # instructions
    spilled = spilled_values(c.live, c.waiting, c.register_budget, loads)
    tests = np.where(guarded & ~staged, k["guard_instr"], 0.0)
    warp_instr = (
        k["step_instr"]
        + products
        + loads * (1 + c.address_instr * k["address_weight"] + tests)
        + copies / warps * k["copy_instr"] * np.where(guarded, k["guarded_copy"], 1.0)
        + c.thread_m * c.thread_n * k["store_instr"]
        + spilled * 2
    )
    # where an arithmetic instruction occupies a SIMD for several clocks, loads of other warps are issued meanwhile
    beside = loads + 2 * copies / warps if issue_per_clk(arch) < arch.schedulers_per_sm else 0.0
    issue_clk = warps * (warp_instr - beside) / issue_per_clk(arch)
    chain_clk = warp_instr * k["dependent_issue_clk"]

    # bytes
    row_bytes = halo_cols * width
    waste = sector_waste(row_bytes, np.full(n, WORD_BYTES), arch.sector_bytes)
    spill_bytes = spilled * 2 * WORD_BYTES * warps * arch.warp_size * k["spill_traffic"]
    footprint = spilled / np.maximum(loads, 1) * c.live * WORD_BYTES * warps * arch.warp_size * resident
    missed = 1 - np.clip(reused_share(arch, k) * arch.l2_bytes / np.maximum(footprint * arch.sm_count, 1), 0, 1)
    fill = halo_rows * row_bytes * waste + spill_bytes
    image = np.minimum(tm, y) * np.minimum(tn, x) * width
    whole = sum(space.problem.elements[t.name] for t in space.problem.statement.inputs) * width
    dram = np.maximum(image, whole / grid) + spill_bytes * missed
    rounds = np.ceil(halo_rows / threads_y) * copy_rounds(halo_cols, threads_x)
    rounds = rounds * np.where(c.unaliased > 0, k["unaliased_copy"], 1.0)
    waits = np.where(staged, rounds * k["copy_waits"], k["load_waits"])
    one = np.ones(n)
    return Work(
        grid=grid,
        resident=resident,
        warps=warps,
        steps=one,
        ahead=one,
        exposed=waits,
        math_clk=math_clk,
        chain_clk=chain_clk,
        smem_clk=lsu_clk,
        issue_clk=issue_clk,
        fill_bytes=fill,
        l2_bytes=fill,
        l2_read_bytes=halo_rows * row_bytes,
        dram_bytes=dram,
        l3_bytes=dram,
        store_bytes=image * sector_waste(np.minimum(threads_x, x) * width, np.full(n, 4.0), arch.sector_bytes),
        body_overlap=k["port_overlap"],
        facts={
            "dram_bytes": dram * grid + y * x * width,
            "compulsory_bytes": float(space.problem.compulsory_bytes),
            "l2_hit_rate": 1 - np.minimum(1, image / (halo_rows * row_bytes)),
            "padding": grid * tm * tn / (y * x),
        },
    )


def shared_request_clk(arch: Arch, threads_x: FloatArray, pitch: FloatArray, width: FloatArray) -> FloatArray:
    """Clocks of shared memory for one load of a warp, in which each lane reads one element. [clk]

    The load is limited by the load/store units, or by the banks, where different words of one bank conflict. A warp
    with more lanes than there are banks is served in groups.
    """
    together = min(BANKS, arch.warp_size)
    key = np.stack([threads_x, pitch, width]).astype(np.int64)
    kinds, which = np.unique(key, axis=1, return_inverse=True)
    turns = np.array([_turns(int(t), int(p), int(w), together) for t, p, w in kinds.T], np.float64)
    bank_clk = turns[which.reshape(-1)] * arch.warp_size * WORD_BYTES / arch.smem_bytes_per_clk
    return np.maximum(lanes_clk(arch), bank_clk)


@lru_cache(maxsize=4096)
def _turns(threads_x: int, pitch: int, width: int, together: int) -> float:
    """Bank conflicts: the largest number of distinct words in one bank, averaged over groups of `together` lanes."""
    groups = threads_x // gcd(threads_x, together)
    lane: IntArray = np.arange(groups * together).reshape(groups, together)
    words = (lane // threads_x * pitch + lane % threads_x) * width // WORD_BYTES
    return float(np.mean([np.bincount(np.unique(row) % BANKS).max() for row in words]))


def copy_rounds(halo_cols: FloatArray, threads_x: FloatArray) -> FloatArray:
    """Number of load latencies that add up while a warp copies one row of the halo.

    The loop over a row is unrolled by COPY_UNROLL, and the loads of an unrolled iteration overlap; those of the
    remaining iterations do not. The block waits for its slowest warp, whichever of two trip counts that has.
    """
    few, many = (np.divmod(trips(halo_cols / threads_x), COPY_UNROLL) for trips in (np.floor, np.ceil))
    return np.maximum(sum(few), sum(many))


def cached_request_clk(
    arch: Arch, threads_x: FloatArray, pitch: FloatArray, width: FloatArray, lookup_clk: float
) -> FloatArray:
    """Clocks of L1 for one load of a warp, in which each lane reads one element; rows are `pitch` elements apart. [clk]

    The load is limited by the port's lanes per clock, or by the tag lookup of its lines: a row of lanes that starts
    anywhere touches 1 + (bytes - width) / line lines on average. An L1 that is one array with shared memory looks up
    LINES_AT_ONCE lines per clock, and has the same bank conflicts.
    """
    lanes = np.minimum(threads_x, arch.warp_size)
    rows = np.ceil(arch.warp_size / lanes)
    lines = rows * (1 + (lanes - 1) * width / arch.line_bytes)
    if unified(arch):
        return np.maximum(shared_request_clk(arch, threads_x, pitch, width), lines / LINES_AT_ONCE)
    return np.maximum(lanes_clk(arch), lines * lookup_clk)


def spilled_values(live: FloatArray, waiting: FloatArray, budget: FloatArray, loads: FloatArray) -> FloatArray:
    """Number of a thread's loaded values that are spilled.

    All values are assumed equally likely to be spilled: the share of loads is that of the `waiting` registers that do
    not fit the budget.
    """
    share = np.clip((live - budget) / np.maximum(waiting, 1.0), 0.0, 1.0)
    return loads * share


WINDOW = Model(window, (Window,))


RESULT_BYTES = 4
"""Size of a sum: one register per lane."""
SCALE_BYTES = 4
"""Size of what a channel's delay is computed from."""
MEAN_DELAY = 0.5
"""Mean delay over the channels, as a share of the longest."""


class DelayedSum(Columns, table="stream.delayed_sum"):
    """The columns of `delayed_sum`."""


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


DELAYED_SUM = Model(delayed_sum, (DelayedSum,))
