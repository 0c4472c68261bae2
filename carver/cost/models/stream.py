"""Kernels that read each element a few times and keep nothing: element-wise operators and reductions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...arch.descriptor import resident_blocks
from ...base.types import FloatArray
from ...kernels.columns import column, given, read_columns, table
from ...kernels.enumeration import Tables
from ...kernels.space import Space
from ..estimate import Work
from ..model import Model, Part
from ..tile import SPILL_READS, issue_per_clk, spill_slowdown
from ..traffic import reused_share, sector_waste

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

READS = frozenset({
    "access_instr", "cluster_s", "dependent_issue_clk", "dram_run_bytes", "element_instr", "l2_usable", "split_each_s",
    "split_s", "step_chain_clk", "step_instr",
})  # fmt: skip
"""Constants that this module's terms read."""


@table
class Stream:
    """The columns of `stream`."""

    elements: FloatArray = given("elements", "elements of the whole statement: the product of all extents")
    read_bytes: FloatArray = given("bytes", "size of all inputs")
    write_bytes: FloatArray = given("bytes", "size of the output")
    compulsory_bytes: FloatArray = given("bytes", "what must move: each input once and the output once")
    in_bytes: FloatArray = given("bytes", "size of an element of the first input")
    inputs: FloatArray = given("", "tensors that are read")
    flops_per_element: FloatArray = given("", "arithmetic operations per element")
    c: FloatArray = given("elements", "columns of the input as stored, where nothing is contracted", np.inf)
    scattered: FloatArray = given("", "number of inputs that are read across their rows", 0)
    scattered_elements: FloatArray = given("elements", "elements of the tensors that are read across their rows", 0)
    repeated_bytes: FloatArray = given("bytes", "size of the inputs that lack the outer axis, times its extent", 0)
    blocks: FloatArray = column("blocks", "number of blocks")
    steps: FloatArray = column("steps", "iterations of a block's loop")
    warps: FloatArray = column("warps", "warps per block")
    tile_elements: FloatArray = column("elements", "elements of a block's tile")
    run_elements: FloatArray = column("elements", "contiguous elements in one row of the tile")
    walked_elements: FloatArray | None = column(
        "elements",
        "elements of a row along which a block walks, with sectors in L1 between steps; by default one step's run",
        None,
    )
    access_elements: FloatArray = column("elements", "elements that one load or store of a thread moves")
    row_align: FloatArray = column("bytes", "alignment of each row of the input", 128)
    stored_run_elements: FloatArray | None = column(
        "elements", "contiguous elements in one row of the stored tile", None
    )
    stored_align: FloatArray = column("bytes", "alignment of each row of the output", 128)
    stored_apart: FloatArray = column(
        "", "sector writes that stores request from L2, over the sectors that they fill", 1
    )
    passes: FloatArray = column("", "passes over the input", 1)
    fetched_elements: FloatArray | None = column(
        "elements",
        "elements of a tile that all passes load from L2, if L1 serves the rest; by default each pass loads all",
        None,
    )
    ahead: FloatArray = column("steps", "prefetch distance: steps between the issue of a load and its use", 1)
    outputs_per_element: FloatArray = column("", "elements stored per element read", 0)
    split: FloatArray = column("", "blocks that share one result", 1)
    cluster: FloatArray = column("blocks", "blocks of a cluster, which start together and exchange their results", 1)
    step_exchanges: FloatArray = column("", "rounds through shared memory in every step", 0)
    exchanges: FloatArray = column("", "rounds through shared memory at the end of a block", 0)
    tree_levels: FloatArray = column("", "dependent shuffles that combine the results of a warp", 0)
    tree_shuffles: FloatArray = column("", "shuffles of a warp at the end of a block, for all its results", 0)
    tree_instr: FloatArray = column(
        "instructions", "instructions of a thread that combine its results and its warp's", 0
    )
    smem_bytes: FloatArray = column("bytes", "shared memory of a block", 0)
    registers: FloatArray = column("registers", "registers that a thread needs; those beyond the limit spill", 32)


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
    fresh = read_bytes * waste
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
    dram = (fresh * page * (1 + (fetches - 1) * (1 - kept)) + write_bytes * stored * stored_page) / trips
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
    instructions = warps * warp_instr
    chain = k["step_chain_clk"] + warp_instr * k["dependent_issue_clk"] + EXCHANGE_CLK * c.step_exchanges
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
        math_clk=tile * c.flops_per_element * passes / (arch.vector_flops_per_clk(computed) / 2),
        chain_clk=chain,
        smem_clk=warps * c.tree_shuffles * arch.warp_size / SHUFFLE_LANES / steps,
        issue_clk=instructions / issue_per_clk(arch),
        fill_bytes=fill,
        l2_bytes=fill,
        l2_read_bytes=np.maximum(fresh * fetches / trips, 1.0),
        dram_bytes=dram,
        l3_bytes=dram,
        store_clk=warps * c.tree_instr / issue_per_clk(arch),
        store_chain_clk=tree_clk,
        launch_s=np.where(clustered, k["cluster_s"], 0.0),
        reduction_s=np.where(split > 1, join_s, 0.0),
        slowdown=spill_slowdown(arch, warps, registers, instructions / issue_per_clk(arch), k),
        facts={
            "dram_bytes": dram * trips,
            "compulsory_bytes": c.compulsory_bytes,
            "l2_hit_rate": kept * (1 - 1 / np.maximum(fetches, 1.0)),
            "padding": np.maximum(tile * trips / elements, 1.0),  # tiles may leave out the ends of rows
        },
    )


STREAM = Model(stream, (Part(Stream, READS | SPILL_READS),), variant=lambda kernel, _: kernel)
