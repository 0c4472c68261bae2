"""Contractions of two operands: matmul, and anything that maps onto it. A block computes a tile of the output.

The model reads the columns of `Tile` and those of a block's step (`block.one_step`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.types import FloatArray
from ...kernels.columns import read_columns
from ...kernels.declaration import Kernel
from ...kernels.enumeration import Tables
from ...kernels.space import Space
from .. import threads
from .. import traffic as traffic_terms
from ..estimate import Work, joined, norm, on_pipe
from ..model import Model, Part, apart
from ..threads import ThreadTile
from ..tile import SPILL_READS, Block, Extent, Tile
from ..traffic import sector_waste, traffic
from . import block
from .block import Step, alternates, body_overlap, gives, one_step

SLACK = 1.0 - 1e-9
"""Margin for rounding: the same sums in another order may come out slightly larger."""


@dataclass(frozen=True, eq=False, repr=False)
class Least:
    """Lower bounds of the clocks of a candidate's phases, of shape (n,)."""

    resident: FloatArray
    full: FloatArray
    """One step of all resident blocks together."""
    alone: FloatArray
    """One step of a block that has the SM to itself."""
    each: FloatArray
    """Least time that the busiest resource spends on each resident block in one step."""
    start: FloatArray
    start_each: FloatArray
    store: FloatArray
    store_each: FloatArray
    hidden: FloatArray
    again_start: FloatArray
    again_store: FloatArray
    """Shares of prologue and epilogue that are exposed for an SM's later blocks."""


def least_step(space: Space | Tables, k: Mapping[str, float]) -> Least:
    """Bounds that do not depend on sizes: the terms of `estimate` without traffic."""
    arch, n = space.arch, len(space)
    s: Step = apart(one_step, space, k)
    body = body_overlap(space.kernel, k)
    latency_s = min(arch.l2_latency_s * k["l2_latency_load"], arch.dram_latency_s * k["dram_latency_load"])
    latency = arch.clock_hz * latency_s
    before = s.chain_clk * np.maximum(k["chain_latency"], s.products_apart)
    uncovered = (latency + before) / s.ahead + latency * s.exposed + s.apart_clk

    def step(resident: FloatArray) -> FloatArray:
        warps = resident * s.warps / arch.schedulers_per_sm
        pipes = warps / np.ceil(warps)
        shared = on_pipe(s.math_clk / pipes, s.chain_clk, resident, s.chain_overlap, alternates(space.kernel))
        fed, issue = resident * s.smem_clk, resident * s.issue_clk / pipes
        core = norm((joined(shared, fed, body), issue) if body else (shared, fed, issue)) + k["step_sync_clk"]
        clk = np.maximum(joined(core, uncovered, k["pipeline_overlap"]), uncovered + s.wait_clk)
        return clk * s.slowdown

    dispatch = np.maximum(k["block_dispatch_clk"], k["warp_start_clk"] * s.warps)
    one = np.ones(n)
    return Least(
        resident=s.resident,
        full=step(s.resident),
        alone=step(one / arch.sms_per_block),
        each=np.maximum(np.maximum(s.math_clk, s.smem_clk), s.issue_clk) * s.slowdown * one,
        start=k["block_start_clk"] + latency * (1.0 - 1.0 / s.ahead) * one,
        start_each=dispatch * one,
        store=s.store_chain_clk * one,
        store_each=s.store_clk * one,
        hidden=np.maximum(s.resident, 1.0) ** -k["block_overlap"],
        again_start=(1.0 - s.next_tile) * one,
        again_store=np.where(s.other_stores > 0, 0.0, one),
    )


def least_seconds(space: Space | Tables, k: Mapping[str, float]) -> FloatArray:
    """A lower bound of the seconds that `price` returns for each candidate."""
    arch, t = space.arch, read_columns(Extent, space, arch=space.arch, problem=space.problem)
    w: Least = apart(least_step, space, k)
    sms, clk = float(arch.sm_count), arch.clock_hz
    grid, steps = t.grid, t.steps
    waves = np.floor(grid / (sms * w.resident))
    left = grid - waves * sms * w.resident
    last = np.maximum(1.0, np.ceil(arch.sms_per_block * left / sms)) / arch.sms_per_block
    inside = t.m / t.grid_m * t.n / t.grid_n * np.where(t.split > 1, t.acc_bytes, t.out_bytes)
    each = w.store_each + inside / arch.l2_bytes_per_clk_per_sm
    fetched = t.k / t.split * (t.rows * t.a_bytes + t.cols * t.b_bytes) / arch.l2_bytes_per_clk_per_sm
    in_waves = waves > 0
    whole = np.maximum(steps * w.full, w.resident * fetched)
    ragged = np.maximum(steps * np.maximum(w.alone, last * w.each), last * fetched)
    start, store = w.start + w.resident * w.start_each, w.store + w.resident * each
    last_start, last_store = w.start + last * w.start_each, w.store + last * each
    weight = np.where(in_waves, (left > 0) * k["tail"], 1.0)
    again = (waves - 1.0) * w.hidden
    tail = weight * (w.hidden * (last_start * w.again_start + last_store * w.again_store) + ragged)
    full = start * again * w.again_start + waves * whole + store * (1.0 + again * w.again_store) + tail
    own = np.where(in_waves, full, ragged + last_store) / clk
    first = np.where(in_waves, start, last_start) / clk
    once = (t.m * t.a_bytes * t.a_reuse + t.n * t.b_bytes * t.b_reuse) * t.k * t.b + inside * grid
    dram = once / (arch.dram_bytes_per_s * k["dram_efficiency"])
    parted = np.where(t.split > 1, np.minimum(k["split_s"] + k["split_each_s"] * t.split, k["launch_s"]), 0.0)
    launch = k["launch_s"] + k["cluster_s"] * (t.cluster > 1)
    return (launch + first + np.maximum(own, dram) + parted) * SLACK


READS = frozenset({
    "atomic_share", "cluster_s", "dram_efficiency", "l2_efficiency", "launch_s", "port_overlap", "split_each_s",
    "split_s",
})  # fmt: skip
"""Constants that this module's terms read."""


def contraction(space: Space | Tables, k: Mapping[str, Any]) -> Work:
    """Demands of each candidate."""
    one = np.ones(len(space))
    t = read_columns(Tile, space, arch=space.arch, problem=space.problem)
    step: Step = apart(one_step, space, k)
    moved = traffic(t, k, step.resident, step.fill_m, step.fill_n)
    return Work(
        grid=t.grid * one,
        resident=step.resident * one,
        warps=step.warps * one,
        steps=t.steps,
        ahead=step.ahead,
        exposed=step.exposed,
        products_apart=step.products_apart,
        math_clk=step.math_clk,
        power_clk=step.power_clk if space.arch.power_limited else None,
        chain_clk=step.chain_clk,
        chain_overlap=step.chain_overlap,
        smem_clk=step.smem_clk,
        issue_clk=step.issue_clk,
        fill_bytes=moved.fill_bytes + step.spill_bytes,
        l2_bytes=moved.l2_bytes + step.spill_bytes,
        l2_read_bytes=moved.distinct_bytes,
        missed=moved.missed,
        dram_bytes=moved.dram_bytes,
        l3_bytes=moved.l3_bytes,
        store_bytes=stored_bytes(t),
        store_clk=step.store_clk,
        store_chain_clk=step.store_chain_clk,
        next_tile=step.next_tile,
        other_stores=step.other_stores,
        launch_s=k["cluster_s"] * (t.cluster > 1),
        reduction_s=reduction(t, k) + copying(t, k),
        slowdown=step.slowdown,
        scattered=step.scattered,
        alternates=alternates(space.kernel),
        body_overlap=body_overlap(space.kernel, k),
        apart_clk=step.apart_clk,
        wait_clk=step.wait_clk,
        start_loads=step.start_loads,
        facts={
            "dram_bytes": moved.read_bytes + t.b * t.m * t.n * t.out_bytes,
            "compulsory_bytes": moved.compulsory_bytes + t.b * t.m * t.n * t.out_bytes,
            "l2_hit_rate": moved.hit_rate,
            "l2_merged_share": moved.merged_share,
            "padding": t.grid_m * t.tile_m * t.grid_n * t.tile_n * t.steps * t.split * t.tile_k / (t.m * t.n * t.k),
        },
    )


def stored_bytes(t: Tile) -> FloatArray:
    """Bytes that a block stores, in whole sectors."""
    arch, partial = t.arch, t.split > 1
    width = np.where(partial, t.acc_bytes, t.out_bytes)
    align = np.where(partial, 16, t.row_align_out)
    inside = t.m / t.grid_m * t.n / t.grid_n  # mean over the tiles: those at the edge write less
    run = np.where(t.tile_n >= t.n, inside, t.cols)  # whole rows lie one after the other
    return inside * width * sector_waste(run * width, align, arch.sector_bytes)


def reduction(t: Tile, k: Mapping[str, float]) -> FloatArray:
    """Time to add up the partial results of split-K: by a second kernel, or by compare-and-swap into a zeroed output.
    [s]"""
    arch = t.arch
    partial_bytes = t.split * t.b * t.m * t.n * t.acc_bytes
    in_l2 = partial_bytes < arch.l2_bytes * 0.5
    rate = np.where(in_l2, arch.l2_bytes_per_s * k["l2_efficiency"], arch.dram_bytes_per_s)
    added = k["split_s"] + k["split_each_s"] * t.split + (partial_bytes + 0.5 * partial_bytes / t.split) / rate
    zeroed = k["launch_s"] + partial_bytes / t.split / arch.dram_bytes_per_s
    swapped = zeroed + partial_bytes / (arch.l2_bytes_per_s * k["atomic_share"])
    return np.where(t.split > 1, np.where(t.atomic > 0, swapped, added), 0.0)


def copying(t: Tile, k: Mapping[str, float]) -> FloatArray:
    """Time of a preceding kernel that reads operands and writes them in another layout. [s]"""
    rate = t.arch.dram_bytes_per_s * k["dram_efficiency"]
    return np.where(t.copied_bytes > 0, k["split_s"] + 2 * t.copied_bytes / rate, 0.0)


def variant(kernel: Kernel, k: Mapping[str, float]) -> Hashable:
    """What the terms ask of a kernel as a whole."""
    return alternates(kernel), body_overlap(kernel, k), gives(kernel, "row_tiles")


CONTRACTED = (Part(Block, block.READS | SPILL_READS), Part(Tile, READS | traffic_terms.READS))
CONTRACTION = Model(
    contraction, CONTRACTED, Part(ThreadTile, threads.READS), bound=least_seconds, variant=variant,
    apart=(Block, ThreadTile),
)
