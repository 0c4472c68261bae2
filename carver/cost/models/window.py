"""Direct convolution: each thread applies the whole filter to its own few outputs.

A block may first copy the input of its outputs, with the halo, into shared memory; otherwise the loads of the loop body
go through L1. The statement is O[y,x] += I[y+r,x+s] * F[r,s].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

import numpy as np

from ...arch.descriptor import Arch, resident_blocks
from ...base.types import FloatArray, IntArray
from ...kernels.columns import column, given, read_columns
from ...kernels.scope import multiply_dtype
from ...kernels.space import Space
from ..model import Model, Part
from ..threads import BANKS, WORD_BYTES, lanes_clk, unified
from ..tile import compiled_peak, issue_per_clk
from ..traffic import reused_share, sector_waste
from ..work import Work

COPY_UNROLL = 4
"""Factor by which compilers unroll a loop of unknown trip count."""
LINES_AT_ONCE = 4
"""Lines that L1 looks up per clock, 4 sectors of each, where it is one array with shared memory. Source: NVIDIA's
answer on its developer forum for Volta and later, forums.developer.nvidia.com/t/273699."""

READS = frozenset({
    "address_weight", "copy_instr", "copy_waits", "dependent_issue_clk", "guard_instr", "guarded_copy", "l2_usable",
    "line_lookup_clk", "load_waits", "math_efficiency", "port_overlap", "smem_efficiency", "spill_traffic",
    "step_instr", "store_instr", "unaliased_copy",
})  # fmt: skip
"""Constants that this module's terms read."""


@dataclass(frozen=True)
class Window:
    """The columns of `window`."""

    y: FloatArray = given("elements", "rows of the output")
    x: FloatArray = given("elements", "columns of the output")
    s: FloatArray = given("elements", "columns of the filter")
    i_bytes: FloatArray = given("bytes", "size of an element of the input")
    tile_m: FloatArray = column("elements", "rows of the output that a block owns")
    tile_n: FloatArray = column("elements", "columns of the output that a block owns")
    thread_m: FloatArray = column("elements", "rows of a thread's tile")
    thread_n: FloatArray = column("elements", "columns of a thread's tile")
    lanes_x: FloatArray = column("threads", "threads of a block side by side in a row")
    warps: FloatArray = column("warps", "warps per block")
    staged: FloatArray = column("flag", "the input of a tile is staged in shared memory")
    halo_rows: FloatArray = column("elements", "rows of a tile's input, halo included")
    halo_cols: FloatArray = column("elements", "columns of a tile's input, halo included")
    pitch: FloatArray = column("elements", "distance between rows of the staged tile")
    products: FloatArray = column("", "multiply-adds per thread")
    loads: FloatArray = column("loads", "loads per thread")
    live: FloatArray = column("registers", "registers that a thread could use")
    register_budget: FloatArray = column("registers", "registers that the compiler may allocate to a thread")
    smem_bytes: FloatArray = column("bytes", "shared memory of a block")
    registers: FloatArray = column("registers", "registers per thread that count for occupancy")
    guarded: FloatArray = column("flag", "every access is tested against the border", 0)
    unaliased: FloatArray = column("flag", "the compiler knows that the input is never written", 0)
    address_instr: FloatArray = column("instructions", "instructions for the address of a load", 0)
    waiting: FloatArray = column("registers", "the part of `live` that holds inputs for a later output", 0)


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
    few, many = np.floor(halo_cols / threads_x), np.ceil(halo_cols / threads_x)
    return np.maximum(_rounds(few), _rounds(many))


def _rounds(trips: FloatArray) -> FloatArray:
    return trips // COPY_UNROLL + trips % COPY_UNROLL


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


WINDOW = Model(window, (Part(Window, READS),))
