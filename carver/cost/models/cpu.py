"""Kernels on CPU cores: a task is a block, a core is an SM that holds one block at a time.

`cpu_contraction` reads `mc kc nc mr nr vectors registers tasks` of a declaration, `cpu_stream` reads `tasks l2_bytes
unroll lanes` and, where a kernel has them, `passes` over its input, `vector_instr` of a vector in all of them without
its loads [flops_per_element], `sums` that are kept apart where each waits for the one before it, `shared` rows that use
a loaded vector, `run_elements` side by side in the input, `runs` of them that a task folds into one result each, and
`partial_bytes` of results that are added up at the end. A core's prefetchers keep up with streams, so latency is hidden
and bandwidth decides, but for the start of a run.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...arch.descriptor import Arch
from ...base.dtypes import BYTES
from ...base.types import FloatArray
from ...kernels.space import Space
from ..work import Work

FMA_LATENCY_CLK = 4.0
"""Dependent vector FMA, Skylake to Zen 5 (Agner Fog, instruction tables)."""
PREFETCHED = 64.0
"""Steps ahead: the hardware prefetcher hides latency for the streams that these kernels read."""
STEPS = 16.0
"""Parts of a task: what one computes and what the next one reads go on at once."""
PAGE_BYTES = 4096
"""Prefetchers stop at its end, and start anew behind a jump."""
WINDOW_INSTR = 112.0
"""Instructions between the oldest load that a core waits for and the newest it has issued: Zen 4, tests/data/cpu."""


def loads_per_clk(arch: Arch) -> float:
    """Vector loads that a core issues in a clock."""
    return arch.smem_bytes_per_clk / arch.simd_bytes


def cpu_contraction(space: Space, k: Mapping[str, float]) -> Work:
    """A packed, register-tiled matmul in the manner of BLIS (Van Zee and van de Geijn, 2015).

    micro-kernel, a step of k:  max(mr * vectors / fma_per_clk, (mr + vectors) / loads_per_clk, fma_latency)
    """
    arch, n, col = space.arch, len(space), space.column
    summed = "float32" if space.problem.accumulate == "float16" else space.problem.accumulate  # as the kernel does
    fma_per_clk = arch.vector_flops_per_clk(summed) / 2 / (arch.simd_bytes / BYTES[summed])
    m, nn, kk, batch = col("m"), col("n"), col("k"), col("b")
    mc, kc, nc, mr, nr = col("mc"), col("kc"), col("nc"), col("mr"), col("nr")
    ea, eb, eo, vectors, tasks = col("a_bytes"), col("b_bytes"), col("out_bytes"), col("vectors"), col("tasks")
    word = np.maximum(col("acc_bytes"), 4)
    rounds = np.maximum(tasks / arch.sm_count, 1.0)
    rows, cols = _longest(m, mc, rounds), _longest(nn, nc, rounds)
    steps = np.ceil(kk / kc)
    depth = kk / steps
    tiles = np.ceil(rows / mr) * np.ceil(cols / nr)
    fma = mr * vectors
    per_k = np.maximum(np.maximum(fma / fma_per_clk, (mr + vectors) / loads_per_clk(arch)), FMA_LATENCY_CLK)
    spill = np.where(col("registers") > arch.vector_registers, 1 + k["spill_penalty"] * fma, 1.0)
    compute = tiles * (depth * per_k * spill / k["math_efficiency"] + k["step_instr"])
    pack = (rows * depth + cols * depth) * k["convert_instr"]
    sums = np.where(steps > 1, 2 * rows * cols * word, 0.0)  # of the steps before, read and written
    from_l2 = tiles * depth * mr * word + np.ceil(cols / nr) * nr * depth * word + sums
    own_l2 = arch.l2_bytes / arch.l2_partitions
    packed = col("l2_bytes")
    spilled = np.clip(packed / (k["l2_usable"] * own_l2) - 1, 0, 1)  # the share of a packed block that L2 cannot hold
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
        store_clk=rows * cols * k["store_instr"] / (arch.simd_bytes / word),
        facts={
            "dram_bytes": again + batch * m * nn * eo,
            "compulsory_bytes": compulsory + batch * m * nn * eo,
            "l2_hit_rate": 1 - spilled,
            "padding": tiles * mr * nr * depth * steps * tasks / (batch * m * nn * kk),
        },
    )


def _longest(extent: FloatArray, tile: FloatArray, rounds: FloatArray) -> FloatArray:
    """Extent of a task's tile: the mean, and what a whole one has beyond it once over the rounds of tasks of a core."""
    mean = extent / np.ceil(extent / tile)
    return mean + (np.minimum(tile, extent) - mean) / rounds


def cpu_stream(space: Space, k: Mapping[str, float]) -> Work:
    """A pass over memory, shared out to cores in tasks: bandwidth, issue, and the cost of handing out a task."""
    arch, n, col = space.arch, len(space), space.column
    tasks, lanes, unroll = col("tasks"), col("lanes"), col("unroll", 1)
    elements, reads, writes = col("elements"), col("read_bytes"), col("write_bytes")
    passes = col("passes", 1)
    moved = (reads + writes) / tasks
    own_l2 = arch.l2_bytes / arch.l2_partitions
    kept = col("l2_bytes") < k["l2_usable"] * own_l2  # further passes find the task's data in the core's own cache
    run = np.maximum(col("run_elements", np.inf), 1.0)
    broken, run_bytes = run < col("c", 0), run * col("in_bytes")
    apart = np.where(broken, k["dram_run_bytes"] / run_bytes, 0.0)
    walked = reads * np.where(kept, 1.0, passes)
    beyond = (walked * (1 + apart) + writes) / tasks
    vectors = elements / tasks / np.maximum(lanes, 1)
    loads = k["access_instr"] * (1 + 1 / col("shared", np.inf)) / loads_per_clk(arch)
    instr = col("vector_instr", col("flops_per_element", 1))
    chain = passes * FMA_LATENCY_CLK / col("sums", np.inf)
    each = np.maximum(passes * loads + instr / arch.fma_per_clk, chain) + passes / unroll * k["step_instr"]
    compute = vectors * each * np.maximum(col("largest", 0) * tasks / elements, 1.0)
    # the end of each run that is folded into one result: vectors that fill no trip, elements that fill no vector, then
    # partial results that meet by halves
    folded = np.where(col("runs", 0) > 0, run, 0.0)
    left = folded // lanes % unroll + folded % lanes + unroll + np.log2(np.maximum(lanes, 1))
    # the first page of a run that lies apart from the one before it: as many lines at once as the core looks ahead
    lines = np.minimum(run_bytes, PAGE_BYTES) / arch.line_bytes * broken
    ahead = WINDOW_INSTR / (1 + 2 * k["step_instr"] / unroll)
    started = lines * arch.dram_latency_s * arch.clock_hz / ahead
    compute += col("runs", 0) * (passes * left * FMA_LATENCY_CLK + started)
    partial = col("partial_bytes", 0)
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
