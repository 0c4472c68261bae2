"""Kernels that read each element a few times and keep nothing: element-wise operators and reductions.

Reads these columns of a declaration's schedule: `blocks` launched · `steps` trips of a block's loop · `tile_elements`
held at once · `run_elements` contiguous elements of one row of the tile · `warps` · `access_elements` that one
instruction moves for a thread · `passes` [1] over the input · `ahead` [1] trips that loads run ahead ·
`exchanges` [0] rounds through shared memory at the end of a block · `step_exchanges` [0] the same in every step ·
`tree_levels tree_instr` [0] shuffles one after the other, and instructions of a thread, that add a warp's results ·
`split` [1] blocks that share one result · `outputs_per_element` [0] · `smem_bytes` [0] · `registers` [32].
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...kernels.space import Space
from ..occupancy import resident_blocks, spill_slowdown
from ..tile import issue_per_clk
from ..traffic import sector_waste
from ..work import Work

EXCHANGE_CLK = 60.0
"""Store to shared memory, barrier, load: two trips at about 30 clocks (shared-memory latency, arXiv 2402.13499)."""
SHUFFLE_CLK = 27.0
"""A shuffle and the addition behind it: 23 and 4 clocks (arXiv 1804.06826, table of latencies; alike since)."""


def stream(space: Space, k: Mapping[str, float]) -> Work:
    arch, n, problem, col = space.arch, len(space), space.problem, space.column
    warps, blocks, steps, tile = col("warps"), col("blocks"), col("steps"), col("tile_elements")
    split, registers, smem_bytes = col("split", 1), col("registers", 32), col("smem_bytes", 0)
    access, passes = col("access_elements"), col("passes", 1)
    elements = col("elements")
    read_bytes, write_bytes = col("read_bytes"), col("write_bytes")
    trips = blocks * steps

    # bytes of one step of one block, in whole sectors; a tile as wide as a row goes on in the next one
    width = col("in_bytes")
    run = col("run_elements")
    run_bytes = np.minimum(np.where(run >= col("c", np.inf), tile, run), elements) * width
    waste = sector_waste(run_bytes, col("row_align", 128), arch.sector_bytes)
    page = 1 + k["dram_run_bytes"] / run_bytes
    fresh = read_bytes * waste
    # an operand that is not walked along its rows: each element is a sector of its own to L2, which joins them
    alone_bytes = col("scattered_elements", 0) * (arch.sector_bytes - width)
    resident = resident_blocks(arch, warps, smem_bytes, registers)
    live = fresh / blocks * np.minimum(blocks, arch.sm_count * resident)  # what blocks at work read a second time
    kept = np.clip(k["l2_usable"] * arch.l2_bytes / np.maximum(live, 1.0), 0.0, 1.0)
    dram = (fresh * page * (1 + (passes - 1) * (1 - kept)) + write_bytes) / trips
    # an operand that lacks the outer axis: L2 gives it to every block anew, a block's other rows find it in L1
    again = col("repeated_bytes", 0) * np.minimum(1.0, col("c", np.inf) / tile)
    fill = (fresh * passes + write_bytes + alone_bytes + again) / trips

    # arithmetic and instructions of one step; what is narrower than float32 is computed in float32
    computed = "float64" if problem.itemsize(problem.statement.inputs[0].name) == 8 else "float32"
    lanes = warps * arch.warp_size
    inputs, outputs = col("inputs"), col("outputs_per_element", 0)
    alone = col("scattered", 0)
    accesses = (np.ceil(tile / lanes / access) * (inputs + outputs - alone) + np.ceil(tile / lanes) * alone) * passes
    arithmetic = np.ceil(tile / lanes) * (col("flops_per_element") + k["element_instr"]) * passes
    warp_instr = k["step_instr"] + k["access_instr"] * accesses + arithmetic
    instructions = warps * warp_instr
    chain = k["step_chain_clk"] + warp_instr * k["dependent_issue_clk"] + EXCHANGE_CLK * col("step_exchanges", 0)
    tree_clk = col("tree_levels", 0) * SHUFFLE_CLK + col("exchanges", 0) * EXCHANGE_CLK
    partial_bytes = np.where(split > 1, split * write_bytes, 0.0)
    join_s = k["split_s"] + k["split_each_s"] * split + 2 * partial_bytes / arch.dram_bytes_per_s
    return Work(
        grid=blocks * np.ones(n),
        resident=resident * np.ones(n),
        warps=warps,
        steps=steps,
        ahead=col("ahead", 1),
        math_clk=tile * col("flops_per_element") * passes / (arch.vector_flops_per_clk(computed) / 2),
        chain_clk=chain,
        issue_clk=instructions / issue_per_clk(arch),
        fill_bytes=fill,
        l2_bytes=fill,
        l2_read_bytes=np.maximum(fresh * passes / trips, 1.0),
        dram_bytes=dram,
        l3_bytes=dram,
        store_clk=warps * col("tree_instr", 0) / issue_per_clk(arch),
        store_chain_clk=tree_clk,
        reduction_s=np.where(split > 1, join_s, 0.0),
        slowdown=spill_slowdown(registers, arch, k),
        facts={
            "dram_bytes": dram * trips,
            "compulsory_bytes": float(problem.compulsory_bytes),
            "l2_hit_rate": kept * (1 - 1 / passes),
            "padding": tile * trips / elements,
        },
    )
