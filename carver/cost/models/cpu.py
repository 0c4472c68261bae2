"""Kernels on CPU cores: a task takes the place of a block, and a core that of an SM that holds one block at a time.

Hardware prefetchers keep up with streams. They hide latency except at the start of a run, so bandwidth is the limit.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...arch.descriptor import Arch
from ...base.dtypes import BYTES
from ...base.types import FloatArray
from ...kernels.enumeration import Tables
from ...kernels.space import Space
from .. import tile
from ..estimate import Work
from ..model import Columns, Model, read_columns
from ..traffic import between_bytes

FMA_LATENCY_CLK = 4.0
"""Latency of a vector FMA on Skylake to Zen 5 (Agner Fog, instruction tables)."""
PREFETCHED = 64.0
"""Steps that loads run ahead: enough that no latency is exposed, since the hardware prefetches these streams."""
STEPS = 16.0
"""Steps of a task. The reads of a step overlap with the arithmetic of the step before."""
PAGE_BYTES = 4096
"""Prefetchers stop at the end of a page and start anew after a jump."""
WINDOW_INSTR = 112.0
"""Instructions between the oldest load for which a core waits and the newest one that it has issued. Source: Zen 4,
tests/data/cpu."""


def loads_per_clk(arch: Arch) -> float:
    """Vector loads that a core issues in a clock."""
    return arch.smem_bytes_per_clk / arch.simd_bytes


class CpuContraction(Columns, table="cpu.contraction"):
    """The columns of `cpu_contraction`."""


def cpu_contraction(space: Space | Tables, k: Mapping[str, float]) -> Work:
    """A packed, register-tiled matmul as in BLIS (Van Zee and van de Geijn, 2015).

        clocks of the micro-kernel per k = max(mr * vectors / fma_per_clk, (mr + vectors) / loads_per_clk, fma_latency)
    """
    arch, n, c = space.arch, len(space), read_columns(CpuContraction, space)
    summed = "float32" if space.problem.accumulate == "float16" else space.problem.accumulate  # the kernel's own type
    fma_per_clk = arch.vector_flops_per_clk(summed) / 2 / (arch.simd_bytes / BYTES[summed])
    m, nn, kk, batch = c.m, c.n, c.k, c.b
    mc, kc, nc, mr, nr = c.mc, c.kc, c.nc, c.mr, c.nr
    ea, eb, eo, vectors, tasks = c.a_bytes, c.b_bytes, c.out_bytes, c.vectors, c.tasks
    word = np.maximum(c.acc_bytes, 4)
    rounds = np.maximum(tasks / arch.sm_count, 1.0)
    rows, cols = _longest(m, mc, rounds), _longest(nn, nc, rounds)
    steps = np.ceil(kk / kc)
    depth = kk / steps
    tiles = np.ceil(rows / mr) * np.ceil(cols / nr)
    fma = mr * vectors
    finishing, _ = tile.finishing(space.problem, arch)
    per_k = np.maximum(np.maximum(fma / fma_per_clk, (mr + vectors) / loads_per_clk(arch)), FMA_LATENCY_CLK)
    spill = np.where(c.registers > arch.vector_registers, 1 + k["spill_penalty"] * fma, 1.0)
    compute = tiles * (depth * per_k * spill / k["math_efficiency"] + k["step_instr"])
    pack = (rows * depth + cols * depth) * k["convert_instr"]
    sums = np.where(steps > 1, 2 * rows * cols * word, 0.0)  # sums of earlier steps, read and written
    from_l2 = tiles * depth * mr * word + np.ceil(cols / nr) * nr * depth * word + sums
    own_l2 = arch.l2_bytes / arch.l2_partitions
    spilled = np.clip(c.l2_bytes / (k["l2_usable"] * own_l2) - 1, 0, 1)  # share of a packed block that misses L2
    read = rows * depth * ea + cols * depth * eb
    trips = tasks * steps
    compulsory = batch * (m * kk * ea + nn * kk * eb)
    again = np.where(compulsory < k["l2_usable"] * max(arch.l3_bytes, arch.l2_bytes), compulsory, read * trips)
    return Work(
        grid=tasks * np.ones(n),
        resident=np.ones(n),
        warps=np.ones(n),
        steps=steps,
        ahead=np.full(n, PREFETCHED),
        math_clk=compute + pack,
        chain_clk=np.full(n, k["step_chain_clk"]),
        fill_bytes=from_l2,
        l2_bytes=from_l2,
        l2_read_bytes=read,
        dram_bytes=again / trips,
        l3_bytes=read + spilled * from_l2,
        store_bytes=rows * cols * eo,
        store_clk=rows * cols * (k["store_instr"] + finishing / arch.fma_per_clk) / (arch.simd_bytes / word),
        facts={
            "dram_bytes": again + batch * m * nn * eo,
            "compulsory_bytes": compulsory + batch * m * nn * eo,
            "l2_hit_rate": 1 - spilled,
            "padding": tiles * mr * nr * depth * steps * tasks / (batch * m * nn * kk),
        },
    )


def _longest(extent: FloatArray, tile: FloatArray, rounds: FloatArray) -> FloatArray:
    """Extent of a task's tile that counts for a core: the mean, plus the excess of a full tile over the mean, which is
    exposed only once in a core's `rounds` of tasks."""
    mean = extent / np.ceil(extent / tile)
    return mean + (np.minimum(tile, extent) - mean) / rounds


class CpuStream(Columns, table="cpu.stream"):
    """The columns of `cpu_stream`."""


def cpu_stream(space: Space | Tables, k: Mapping[str, float]) -> Work:
    """Passes over memory, divided into tasks for the cores: bandwidth, instruction issue, and the cost of a task."""
    arch, n, c = space.arch, len(space), read_columns(CpuStream, space)
    tasks, lanes, unroll = c.tasks, c.lanes, c.unroll
    reads = c.read_bytes + between_bytes(c.strided_elements, c.strided_reach, c.in_bytes, arch)
    elements, writes, passes = c.elements, c.write_bytes, c.passes
    moved = (reads + writes) / tasks
    own_l2 = arch.l2_bytes / arch.l2_partitions
    kept = c.l2_bytes < k["l2_usable"] * own_l2  # later passes find the task's data in the core's own cache
    run = np.maximum(c.run_elements, 1.0)
    broken, run_bytes = run < c.c, run * c.in_bytes
    apart = np.where(broken, k["dram_run_bytes"] / run_bytes, 0.0)
    walked = reads * np.where(kept, 1.0, passes)
    beyond = (walked * (1 + apart) + writes) / tasks
    vectors = elements / tasks / np.maximum(lanes, 1)
    loads = k["access_instr"] * (1 + 1 / c.shared) / loads_per_clk(arch)
    instr = c.flops_per_element if c.vector_instr is None else c.vector_instr
    chain = passes * FMA_LATENCY_CLK / c.sums
    each = np.maximum(passes * loads + instr / arch.fma_per_clk, chain) + passes / unroll * k["step_instr"]
    compute = vectors * each * np.maximum(c.largest * tasks / elements, 1.0)
    # the end of each run that is reduced to one result: vectors beyond the unrolled iterations, elements beyond whole
    # vectors, and the tree over the partial results
    folded = np.where(c.runs > 0, run, 0.0)
    left = folded // lanes % unroll + folded % lanes + unroll + np.log2(np.maximum(lanes, 1))
    # the first page of a run that does not continue the one before is not prefetched: the core loads as many lines at
    # once as its instruction window holds
    lines = np.minimum(run_bytes, PAGE_BYTES) / arch.line_bytes * broken
    ahead = WINDOW_INSTR / (1 + 2 * k["step_instr"] / unroll)
    started = lines * arch.dram_latency_s * arch.clock_hz / ahead
    compute += c.runs * (passes * left * FMA_LATENCY_CLK + started)
    partial = c.partial_bytes
    near = partial < k["l2_usable"] * arch.l3_bytes
    rate = np.where(near, max(arch.l3_bytes_per_s, 1.0), arch.dram_bytes_per_s * k["dram_efficiency"])
    return Work(
        grid=tasks * np.ones(n),
        resident=np.ones(n),
        warps=np.ones(n),
        steps=np.full(n, STEPS),
        ahead=np.full(n, PREFETCHED),
        math_clk=compute / STEPS,
        chain_clk=np.full(n, k["step_chain_clk"]),
        fill_bytes=moved * passes / STEPS,
        l2_bytes=moved * passes / STEPS,
        l2_read_bytes=np.maximum(reads / tasks, 1.0) / STEPS,
        dram_bytes=beyond / STEPS,
        l3_bytes=beyond / STEPS,
        reduction_s=np.where(partial > 0, k["launch_s"] + 2 * partial / rate, 0.0),
        facts={
            "dram_bytes": walked + writes,
            "compulsory_bytes": reads + writes,
            "l2_hit_rate": np.where(kept & (passes > 1), 1 - 1 / passes, 0.0),
            "padding": 1.0,
        },
    )


CPU_CONTRACTION = Model(cpu_contraction, (CpuContraction,), variant=lambda kernel, _: kernel)
CPU_STREAM = Model(cpu_stream, (CpuStream,), variant=lambda kernel, _: kernel)
