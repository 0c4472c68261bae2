"""Contractions of two operands: matmul, and anything that maps onto it. A block computes a tile of the output.

Its demands are computed from the columns of `Block`, and of `ThreadTile` for kernels whose threads read their own
operands. The model reads the columns of `Tile` and those of a block's step (`one_step`)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...arch.descriptor import resident_blocks
from ...base.types import FloatArray
from ...kernels.declaration import Kernel
from ...kernels.enumeration import Tables
from ...kernels.expr import MMA, VECTOR, WGMMA, warp_matrix_unit
from ...kernels.space import Space
from .. import tile
from ..estimate import INDEPENDENT_OVERLAP, Work, joined, norm, on_pipe
from ..model import Model, apart, read_columns
from ..tile import Block, Extent, ThreadTile, Tile
from ..traffic import gap, sector_waste, traffic

ASYNC_BYTES = 4
"""Least width of an asynchronous copy; narrower copies pass through registers."""
LINES_PER_CLK = 4.0
"""Lines that L1 looks up per clock for a load. Source: times of Triton's kernels on an H100 and H200 for N that is no
multiple of 16."""
PAIR_INSTR = 1.0
"""Issue slots to widen an 8-bit float to the half that mma needs. On a device with matrix units for 8-bit floats, one
instruction widens two, at half the rate of others. Source: one F2FP per pair in SASS for compute capability 9.0;
NVIDIA, rates of conversions."""
SINGLE_INSTR = 1.75
"""Issue slots to copy a single element, with its share of packing four into a register."""
MMA_LATENCY_CLK = 33.0
"""Latency from an mma.sync of 16 x 8 x 16 to one that accumulates on its result. Source: Sun et al., Dissecting Tensor
Cores, 2022."""
DOT_LATENCY_CLK = 5.0
"""Latency of a vector instruction of RDNA. Source: `valu` in arch/isa/rdna.toml."""


def gives(kernel: Kernel, column: str) -> bool:
    """Whether a declaration gives a column, as a tunable or computed from others."""
    return column in kernel.tunables or column in kernel.derived


def by_thread(kernel: Kernel) -> bool:
    """Whether each thread reads its own operands, rather than matrix instructions those of a warp."""
    return gives(kernel, "lanes_m")


def alternates(kernel: Kernel) -> bool:
    """Whether the products of a step wait until the sums of the step before are scaled."""
    return gives(kernel, "after_instr")


def body_overlap(kernel: Kernel, k: Mapping[str, float]) -> float | None:
    """Exponent that joins arithmetic and reads of shared memory in kernels where they alternate; None elsewhere."""
    return k["port_overlap"] if by_thread(kernel) or gives(kernel, "fragment_conflicts") else None


def one_step(space: Space | Tables, k: Mapping[str, float]) -> SimpleNamespace:
    """The demands of one step on each resource of the SM, its waits, and the epilogue: fields of `Work` and `Delivery`.

    Nothing here depends on the problem's sizes.
    """
    n, arch = len(space), space.arch
    t = read_columns(Block, space, arch=arch, problem=space.problem)
    own = read_columns(ThreadTile, space, whole=True) if by_thread(space.kernel) else None
    resident = resident_blocks(arch, t.warps + t.copy_warps, t.smem_bytes, t.registers, t.tmem_columns)
    if t.resident_most is not None:
        resident = np.minimum(resident, t.resident_most)
    slots = tile.issue_per_clk(arch)
    flops = tile_flops(t)
    products_clk = math_clk = arithmetic(t, k, flops)
    lane_reads, lane_clk = read_by_lanes(t, k)
    fragments = np.where(lane_reads > 0, 0.0, fragment_bytes(t))
    smem_clk = shared_memory(t, k, fragments) + lane_clk / k["smem_efficiency"]
    packed = tile.products_an_instruction(space.problem, arch)
    fma = np.where(t.instruction == VECTOR, flops / 2 / arch.warp_size / packed, 0.0)
    instr = instructions(t, k, fragments) + lane_reads + fma
    if arch.matrix_on_vector and own is None:  # as `models.compiled._on_vector_units`
        math_clk = math_clk + np.where(t.instruction == MMA, instr / slots, 0.0) + smem_clk
        lane_clk = smem_clk = np.zeros(n)
    chain_clk = chain(t, k, math_clk, lane_clk)
    apart = wait_clk = spill_bytes = np.zeros(n)
    waits = fill_m = fill_n = np.ones(n)
    if own is not None:
        delivered = tile.delivery(t, own, k, resident)
        # idle lanes take as long as the others
        filled = own.product_instr * t.lanes / np.maximum(t.lanes if t.threads is None else t.threads, 1.0)
        smem_clk, spill_bytes = delivered.port_clk, delivered.spill_bytes
        instr = delivered.instructions + fma * filled
        math_clk = np.maximum(math_clk * filled * k["math_efficiency"], instr / slots) / k["vector_efficiency"]
        wait_clk = delivered.exposed * arch.l2_latency_s * arch.clock_hz
        waits, fill_m, fill_n = delivered.waits, delivered.fill_m, delivered.fill_n
        # other warps of the block's schedulers hide the latency of a warp
        busy = joined(math_clk / sms_filled(t), smem_clk / arch.sms_per_block, k["port_overlap"])
        beside = np.maximum(t.warps / (arch.schedulers_per_sm * arch.sms_per_block), 1.0)
        alone = np.maximum(busy, busy / beside + delivered.latency_clk)
        prefetched = own.prefetched > 0
        chain_clk = np.where(prefetched, alone, 0.0)
        apart = np.where(prefetched, 0.0, alone + 2 * k["step_sync_clk"] * waits)
    else:
        apart = t.synchronous_copies * np.maximum(instr / slots, smem_clk)
    run_bytes = arch.sector_bytes if t.store_run_bytes is None else t.store_run_bytes
    plain = own is None and t.fragment_conflicts is None
    busy_clk = np.maximum(np.maximum(math_clk, smem_clk), instr / slots)
    slowdown = tile.spill_slowdown(arch, t.warps, t.registers, busy_clk, k) if plain else np.ones(n)
    if plain and arch.matrix_on_vector:  # few matrix products near the limit spill
        late = (t.instruction == VECTOR) | (t.registers > tile.most_registers(arch, t.warps))
        chain_clk = chain_clk + np.where(late, tile.RELOAD_CLK * tile.spilled(arch, t.warps, t.registers), 0.0)
        slowdown = np.where(late, 1.0, slowdown)
    stores = t.tile_m * t.tile_n / t.lanes * k["store_instr"]
    return SimpleNamespace(
        resident=resident * np.ones(n),
        warps=t.warps,
        ahead=np.where(waits > 0, t.ahead, np.inf),
        exposed=t.exposed_loads,
        products_apart=t.products_apart,
        math_clk=math_clk,
        power_clk=(math_clk + products_clk * (tile.held_back(space.problem, arch, t.instruction) - 1.0))
        * (t.instruction > VECTOR),
        chain_clk=chain_clk,
        chain_overlap=chain_overlap(t, k),
        smem_clk=smem_clk,
        issue_clk=np.maximum(instr / slots, after_clk(t)),
        apart_clk=apart,
        wait_clk=wait_clk,
        start_loads=t.start_loads,
        spill_bytes=spill_bytes,
        fill_m=fill_m,
        fill_n=fill_n,
        slowdown=slowdown,
        scattered=np.maximum(arch.sector_bytes / run_bytes, 1.0) - 1.0,
        store_clk=stores * t.warps / slots,
        store_chain_clk=stores * k["store_chain"] * 2 / arch.schedulers_per_sm,
        next_tile=t.next_tile,
        other_stores=t.other_stores,
    )


def tile_flops(t: Block) -> FloatArray:
    """Arithmetic of one step of one block: the tile is padded to whole instructions, and products that several warps
    repeat count each time. [FLOP]"""
    inst_m = tile.instruction_rows(t.instruction, t.mma_m)
    inst_n = np.where(t.instruction > VECTOR, t.mma_n, 1)
    padded = np.ceil(t.tile_m / inst_m) * inst_m * np.ceil(t.tile_n / inst_n) * inst_n
    return 2 * padded * t.tile_k * t.product_copies


def arithmetic(t: Block, k: Mapping[str, float], flops: FloatArray) -> FloatArray:
    """Time of one step's products on all arithmetic pipes of an SM. [clk]

        clk = flops / (peak of the instruction * math_efficiency)
    """
    return flops / (tile.peaks(t.problem, t.arch, t.instruction) * k["math_efficiency"])


def chain(t: Block, k: Mapping[str, float], math_clk: FloatArray, lane_clk: FloatArray) -> FloatArray:
    """One step of a block that has the SM to itself: few warps keep few pipes busy, and dependences are exposed. [clk]

    - On vector units, a warp reads its operands and then multiplies. Only other warps of its scheduler fill the pipe
      that it leaves idle.
    - Each mma waits for the one before it in K, so they start at least `MMA_LATENCY_CLK` apart, however small the tile.
    - An operand that is converted into a separate buffer is written between two barriers before it is multiplied. Such
      conversions, and copies of single elements, run at the latency of dependent instructions.
    - Dot products of RDNA that go along K each wait for the one before as well.
    - Products that are scaled before they are added to the sums leave the matrix unit idle, unless another block
      uses it.
    """
    per_scheduler = t.warps / t.arch.schedulers_per_sm
    alone = np.maximum(math_clk / sms_filled(t), (math_clk + lane_clk) / per_scheduler)
    unit = warp_matrix_unit(t.problem, t.arch)
    if unit is not None and unit.instruction == "mma":
        in_row = np.ceil(t.tile_k / unit.shape[2]) * MMA_LATENCY_CLK
        alone = np.where(t.instruction == MMA, np.maximum(alone, in_row), alone)
    packed = tile.products_an_instruction(t.problem, t.arch)
    if t.arch.matrix_on_vector and packed >= 2.0:
        dots = tile_flops(t) / 2 / t.arch.warp_size / packed / t.warps
        alone = np.where(t.instruction == VECTOR, np.maximum(alone, dots * DOT_LATENCY_CLK), alone)
    fixed = np.where(t.instruction >= WGMMA, k["group_chain_clk"], k["step_chain_clk"])
    buffered = t.converted_b
    moved_a, moved_b = singles(t)
    converted_b = t.b_converts * np.where(buffered > 0, t.tile_n * t.tile_k / t.arch.warp_size, moved_b)
    waiting = SINGLE_INSTR * (moved_a + moved_b)
    waiting += k["convert_instr"] * t.a_converts * moved_a + unpacking(t, k) * converted_b
    widening = k["dependent_issue_clk"] * waiting / t.warps + 2 * k["step_sync_clk"] * buffered
    after = after_clk(t) / sms_filled(t) + k["row_scalar_clk"] * t.row_scalars
    return alone + fixed + k["serial_clk"] * t.serialized + widening + after


def sms_filled(t: Block) -> FloatArray:
    """SMs whose pipes a lone block fills; a fraction where it has fewer warps than an SM has schedulers."""
    return np.minimum(t.arch.sms_per_block, t.warps / t.arch.schedulers_per_sm)


def chain_overlap(t: Block, k: Mapping[str, float]) -> FloatArray:
    """Exponent that joins a block's own chain and the shared math pipe.

    Where warps scale their sums between products that they issue themselves, both take turns at the same schedulers.
    wgmma and tcgen05 run on their own, while other warps scale.
    """
    return np.where((after_clk(t) > 0) & (t.instruction < WGMMA), INDEPENDENT_OVERLAP, k["chain_overlap"])


def after_clk(t: Block) -> FloatArray:
    """Time of a step's arithmetic on its sums, on the vector units or the converting units, whichever is longer."""
    lanes = t.arch.lanes_per_sm
    return t.lanes * np.maximum(t.after_instr / lanes, t.after_converts / tile.converts_per_clk(t.arch))


def fragment_bytes(t: Block) -> FloatArray:
    """Bytes that one step reads back from shared memory as operands. [bytes]

    With mma and on vector units, each row of warps reads the second operand once, each column of warps the first.
    wgmma reads the first operand once for each warp group along the columns and at least once for each 256 columns,
    the second once for each 64 rows. tcgen05, which one thread issues for the block, reads the first once for each
    256 columns, the second once for each 128 rows.
    """
    groups = np.maximum(t.warps // 4, 1)  # of four warps, as wgmma takes them; of these so many divide the rows:
    groups_m = np.minimum(groups, np.maximum(t.tile_m // 64, 1))
    beside = np.where(t.instruction == WGMMA, groups // groups_m, 1)
    reads_a = np.where(t.instruction >= WGMMA, np.maximum(beside, np.ceil(t.tile_n / 256)), t.warps_n)
    once_b = np.maximum(t.tile_m / tile.instruction_rows(t.instruction, 1), 1)
    reads_b = np.where(t.instruction >= WGMMA, once_b, t.warps_m)
    wide_b = np.where(t.converted_b > 0, t.a_bytes, t.b_bytes)
    turns = 1.0 if t.fragment_conflicts is None else t.fragment_conflicts
    reads_a, reads_b = reads_a * t.fragment_passes_a, reads_b * t.fragment_passes_b
    return (t.tile_m * t.tile_k * t.a_bytes * reads_a + t.tile_n * t.tile_k * wide_b * reads_b) * turns


def shared_memory(t: Block, k: Mapping[str, float], fragments: FloatArray) -> FloatArray:
    """Time of one step on the port of shared memory and L1, for copies in and operands read back. [clk]

    A load whose lanes go to different rows takes one pass for every `LINES_PER_CLK` of them.
    """
    copied = t.tile_m * t.tile_k * t.a_bytes + k["copy_b_weight"] * t.tile_n * t.tile_k * t.b_bytes
    copied = copied + t.converted_b * t.tile_n * t.tile_k * (t.b_bytes + t.a_bytes)
    alone_a, alone_b = singles(t)
    turned = alone_a * t.single_conflicts_a + alone_b * t.single_conflicts_b
    scattered = t.tile_m * t.scattered_a + t.tile_n * t.scattered_b
    lanes = t.arch.warp_size
    turned = turned + scattered * t.tile_k / lanes * np.minimum(t.tile_k, lanes) / LINES_PER_CLK
    turned = turned + k["row_scalar_clk"] * t.row_scalars
    return ((fragments + copied) / t.arch.smem_bytes_per_clk + turned) / k["smem_efficiency"]


def read_by_lanes(t: Block, k: Mapping[str, float]) -> tuple[FloatArray, FloatArray]:
    """Reads of shared memory that feed the vector units, by all warps in one step, and their time on its port.
    [reads], [clk]

        clk = reads * max(passes, warp_size * bytes / (port's bytes a clock * read_merge))

    Lanes with the same rows of A read the same address. It is read from the banks once, but returned to each lane.
    """
    arch = t.arch
    sides = (
        (t.lane_reads_a, t.lane_read_a_bytes, t.lane_passes_a), (t.lane_reads_b, t.lane_read_b_bytes, t.lane_passes_b)
    )  # fmt: skip
    reads = clk = np.zeros(())
    for each, width, passes in sides:
        own = np.where(t.instruction == VECTOR, t.warps * each, 0.0)
        returned = arch.warp_size * width / (arch.smem_bytes_per_clk * tile.merged_reads(arch, k))
        reads, clk = reads + own, clk + own * np.maximum(passes, returned)
    return reads, clk


def singles(t: Block) -> tuple[FloatArray, FloatArray]:
    """Warp-wide copies of single elements in one step, for both operands."""
    often_a, often_b = t.singles_a, t.singles_b
    return often_a * t.tile_m * t.tile_k / t.arch.warp_size, often_b * t.tile_n * t.tile_k / t.arch.warp_size


def unpacking(t: Block, k: Mapping[str, float]) -> FloatArray:
    """Instructions to convert an element of the second operand."""
    if t.unpack_instr is not None:
        return t.unpack_instr
    return np.where(t.convert_b_instr > 0, t.convert_b_instr, k["convert_instr"])


def instructions(t: Block, k: Mapping[str, float], fragments: FloatArray) -> FloatArray:
    """Instructions of all warps of a block in one step, without the products on vector units.

        warps * (bookkeeping + per copy * copies of a thread) + per 512 bytes read back
        + per element converted + per element copied alone + per sum that is scaled
    """
    wide_a, wide_b = t.copy_a_bytes, t.copy_b_bytes
    single = k["copy_instr"] if t.single_copy_instr is None else t.single_copy_instr
    copying_a = t.tile_m * t.tile_k * t.a_bytes / wide_a * np.where(wide_a < ASYNC_BYTES, single, k["copy_instr"])
    copying_b = t.tile_n * t.tile_k * t.b_bytes / wide_b * np.where(wide_b < ASYNC_BYTES, single, k["copy_instr"])
    if t.unpack_instr is not None:
        copying_b = copying_b * (wide_b >= ASYNC_BYTES)
    copying = (copying_a + k["copy_b_weight"] * copying_b) / t.lanes
    each = np.where(t.matrix_widens > 0, k["convert_instr"], PAIR_INSTR)
    each = np.where(t.widen_instr > 0, t.widen_instr, each)
    widen = (t.instruction == MMA) * t.mma_widens * each
    per_a = k["convert_instr"] * t.a_converts + widen
    per_b = unpacking(t, k) * t.b_converts + widen
    often_b = np.where(t.converted_b > 0, 1.0, t.warps_m)
    converting: FloatArray = t.tile_k * (per_a * t.tile_m * t.warps_n + per_b * t.tile_n * often_b) / t.arch.warp_size
    converting *= t.fragment_copies
    counted: FloatArray = np.where(t.warp_instr > 0, t.warp_instr, k["step_instr"] + copying)
    return (
        t.warps * counted
        + np.where((t.instruction >= WGMMA) | (t.warp_instr > 0), 0.0, k["fragment_instr"] * fragments / 512)
        + converting
        + SINGLE_INSTR * sum(singles(t))
        + (t.after_instr + t.after_converts) * t.warps
    )


SLACK = 1.0 - 1e-9
"""Margin for rounding: the same sums in another order may come out slightly larger."""


def least_step(space: Space | Tables, k: Mapping[str, float]) -> SimpleNamespace:
    """Lower bounds of the clocks of a candidate's phases that do not depend on sizes: the terms of `estimate` without
    traffic."""
    arch, n = space.arch, len(space)
    s = apart(one_step, space, k)
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
        out: FloatArray = clk * s.slowdown
        return out

    dispatch = np.maximum(k["block_dispatch_clk"], k["warp_start_clk"] * s.warps)
    one = np.ones(n)
    return SimpleNamespace(
        resident=s.resident,
        full=step(s.resident),  # one step of all resident blocks together
        alone=step(one / arch.sms_per_block),  # one step of a block that has the SM to itself
        # what the busiest resource spends on each resident block in one step, at least
        each=np.maximum(np.maximum(s.math_clk, s.smem_clk), s.issue_clk) * s.slowdown * one,
        uncovered=uncovered * s.slowdown * one,  # latency that its pipeline does not cover, but of what it fetches
        exposed=(1.0 / s.ahead + s.exposed) * s.slowdown * one,
        ahead=s.ahead * one,
        start=k["block_start_clk"] + latency * (1.0 - 1.0 / s.ahead) * one,
        start_each=dispatch * one,
        store=s.store_chain_clk * one,
        store_each=s.store_clk * one,
        # shares of prologue and epilogue that are exposed for an SM's later blocks
        hidden=np.maximum(s.resident, 1.0) ** -k["block_overlap"],
        again_start=(1.0 - s.next_tile) * one,
        again_store=np.where(s.other_stores > 0, 0.0, one),
    )


def least_joined(a: FloatArray, b: FloatArray, p: FloatArray | float) -> FloatArray:
    """A lower bound of `joined`, without its powers: (1 + x)^(1/p) is above its chord, and x^p above x^q for q >= p."""
    top = np.maximum(a, b)
    ratio = np.minimum(a, b) / top
    power, q = ratio, 1.0
    while q < np.max(p):
        power, q = power * ratio, q + 1.0
    return top * (1.0 + power * (2.0 ** (1.0 / p) - 1.0))


def least_seconds(space: Space | Tables, k: Mapping[str, float]) -> FloatArray:
    """A lower bound of the seconds that `price` returns for each candidate."""
    arch, t = space.arch, read_columns(Extent, space, arch=space.arch, problem=space.problem)
    w = apart(least_step, space, k)
    sms, clk = float(arch.sm_count), arch.clock_hz
    grid, steps = t.grid, t.steps
    waves = np.floor(grid / (sms * w.resident))
    left = grid - waves * sms * w.resident
    last = np.maximum(1.0, np.ceil(arch.sms_per_block * left / sms)) / arch.sms_per_block
    inside = t.m / t.grid_m * t.n / t.grid_n * np.where(t.split > 1, t.acc_bytes, t.out_bytes)
    each = w.store_each + inside / arch.l2_bytes_per_clk_per_sm
    fetched = t.k / t.split * (t.rows * t.a_bytes + t.cols * t.b_bytes) / arch.l2_bytes_per_clk_per_sm
    in_waves = waves > 0
    # the first wave waits for DRAM
    beyond = arch.dram_latency_s * k["dram_latency_load"] - arch.l2_latency_s * k["l2_latency_load"]
    late = np.maximum(beyond, 0.0) * clk * np.minimum(1.0, sms * w.resident / grid)
    waiting = steps * (w.uncovered + late * w.exposed) + fetched / w.ahead
    whole = np.maximum(np.maximum(steps * w.full, waiting), w.resident * fetched)
    ragged = np.maximum(np.maximum(steps * np.maximum(w.alone, last * w.each), waiting), last * fetched)
    begin = w.start + late * (1.0 - 1.0 / w.ahead)
    start, store = begin + w.resident * w.start_each, w.store + w.resident * each
    last_start, last_store = begin + last * w.start_each, w.store + last * each
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
    out: FloatArray = (launch + first + least_joined(own, dram, k["dram_overlap"]) + parted) * SLACK
    return out


def contraction(space: Space | Tables, k: Mapping[str, Any]) -> Work:
    """Demands of each candidate."""
    one = np.ones(len(space))
    t = read_columns(Tile, space, arch=space.arch, problem=space.problem)
    step = apart(one_step, space, k)
    moved = traffic(t, k, step.resident, step.fill_m, step.fill_n)
    of_step = {name: value for name, value in vars(step).items() if name in Work._fields}
    of_step |= {"resident": step.resident * one, "warps": step.warps * one}
    of_step |= {} if space.arch.power_limited else {"power_clk": None}
    if any(tile.finishing(space.problem, space.arch)):
        of_step |= finished(t, k, step)
    return Work(
        **of_step,
        grid=t.grid * one,
        steps=t.steps,
        fill_bytes=moved.fill_bytes + step.spill_bytes,
        l2_bytes=moved.l2_bytes + step.spill_bytes,
        l2_read_bytes=moved.distinct_bytes,
        missed=moved.missed,
        dram_bytes=moved.dram_bytes,
        l3_bytes=moved.l3_bytes,
        store_bytes=stored_bytes(t),
        launch_s=k["cluster_s"] * (t.cluster > 1),
        reduction_s=reduction(t, k) + copying(t, k),
        alternates=alternates(space.kernel),
        body_overlap=body_overlap(space.kernel, k),
        facts={
            "dram_bytes": moved.read_bytes + t.b * t.m * t.n * t.out_bytes,
            "compulsory_bytes": moved.compulsory_bytes + t.b * t.m * t.n * t.out_bytes,
            "l2_hit_rate": moved.hit_rate,
            "l2_merged_share": moved.merged_share,
            "padding": t.grid_m * t.tile_m * t.grid_n * t.tile_n * t.steps * t.split * t.tile_k / (t.m * t.n * t.k),
        },
    )


def finished(t: Tile, k: Mapping[str, float], step: SimpleNamespace) -> Mapping[str, FloatArray]:
    """The epilogue of a block that also adds a bias and applies an activation. Each thread waits once for what it loads
    of a bias. Where split-K has a second kernel, that does both (`reduction`)."""
    arch, alone = t.arch, t.split == 1
    waited = t.problem.options.get("bias", 0) * arch.l2_latency_s * k["l2_latency_load"] * arch.clock_hz
    return {
        "store_clk": step.store_clk + alone * tile.finishing_clk(t.problem, arch, t.tile_m * t.tile_n),
        "store_chain_clk": step.store_chain_clk + alone * waited,
    }


def stored_bytes(t: Tile) -> FloatArray:
    """Bytes that a block stores, in whole sectors."""
    arch, partial = t.arch, t.split > 1
    width = np.where(partial, t.acc_bytes, t.out_bytes)
    align = np.where(partial, 16, t.row_align_out)
    inside = t.m / t.grid_m * t.n / t.grid_n  # mean over the tiles: those at the edge write less
    run = np.where(t.tile_n >= t.n, inside, t.cols)  # whole rows lie one after the other
    apart = gap(np.where(partial, 1.0, t.out_gap), width, arch)
    return inside * width * apart * sector_waste(run * width * apart, align, arch.sector_bytes)


def reduction(t: Tile, k: Mapping[str, float]) -> FloatArray:
    """Time to add up the partial results of split-K: by a second kernel, or by compare-and-swap into a zeroed output.
    [s]"""
    arch = t.arch
    partial_bytes = t.split * t.b * t.m * t.n * t.acc_bytes
    in_l2 = partial_bytes < arch.l2_bytes * 0.5
    rate = np.where(in_l2, arch.l2_bytes_per_s * k["l2_efficiency"], arch.dram_bytes_per_s)
    finished_s = tile.finishing_clk(t.problem, arch, t.b * t.m * t.n) / (arch.sm_count * arch.clock_hz)
    moved_s = np.maximum((partial_bytes + 0.5 * partial_bytes / t.split) / rate, finished_s)
    added = k["split_s"] + k["split_each_s"] * t.split + moved_s
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


CONTRACTED = (Block, Tile)
CONTRACTION = Model(
    contraction, CONTRACTED, ThreadTile, bound=least_seconds, variant=variant,
    apart=(Block, ThreadTile),
)
