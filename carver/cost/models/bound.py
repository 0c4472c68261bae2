"""A lower bound of the time of each candidate of a contraction, from cached values and a few operations per shape.

A search for the fastest candidates prices only those whose bound is below the best time found, and finds the same ones
as pricing all would. For this, each term of `estimate` is either bounded from below or left out. The norm of a step's
resources lacks copies into the SM and the time of L2; L2 always hits, and DRAM moves each operand once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...base.types import FloatArray
from ...kernels.columns import read_columns
from ...kernels.enumeration import Tables
from ...kernels.space import Space
from ..estimate import norm
from ..model import apart
from ..tile import Extent
from ..work import joined, on_pipe
from .block import Step, alternates, body_overlap, one_step

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
