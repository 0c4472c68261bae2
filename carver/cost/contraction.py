"""Two operands contracted into a tile of the output: matmul, and anything that maps onto one.

Reads these columns of a declaration's schedule, with the defaults in brackets:
`tile_m tile_n tile_k warps` · `ahead` steps in flight · `split` [1] parts of the reduction · `group` [1] rows of
tiles walked together · `instruction` 0 vector, 1 mma or mfma, 2 wgmma, 3 tcgen05 · `warps_m warps_n` the grid of
warps over the tile · `copy_warps` [0] warps beside those · `copy_a_bytes copy_b_bytes` [16] width of one copy ·
`smem_bytes registers` · `exposed_loads` [0] loads a step whose whole latency shows, because they pass registers ·
`padded_loads` [0] rows past the edge are fetched again rather than skipped · `fragment_turns` turns that reads of
matrix operands take on shared memory's banks, where they alternate with the products · `store_run_bytes` [a sector]
contiguous bytes of a store · `atomic` [0] partial results are added to the output by compare-and-swap.
A kernel whose threads read their operands one by one declares the columns of `threads` too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..descriptor import Arch
from ..space import Space, multiply_dtype
from ..types import FloatArray
from .occupancy import resident_blocks, spill_slowdown
from .threads import delivery
from .work import Work, joined

SLICE_BYTES_PER_CLK = 64.0
"""What one slice of L2 serves: a line lives in one slice, so a single hot line cannot be read faster."""


def contraction(space: Space, k: Mapping[str, float]) -> Work:
    arch, n = space.arch, len(space)

    def col(name: str, default: float | None = None) -> FloatArray:
        value = space[name] if default is None else space.get(name, default)
        return np.asarray(value, np.float64)

    m, nn, kk, batch = col("m"), col("n"), col("k"), col("b")
    tm, tn, tk = col("tile_m"), col("tile_n"), col("tile_k")
    ea, eb, eo, acc_bytes = col("a_bytes"), col("b_bytes"), col("out_bytes"), col("acc_bytes")
    warps, split, group = col("warps"), col("split", 1), col("group", 1)
    kind, wm, wn = col("instruction"), col("warps_m"), col("warps_n")
    registers, smem_bytes = col("registers"), col("smem_bytes")

    grid_m, grid_n = np.ceil(m / tm), np.ceil(nn / tn)
    grid = batch * grid_m * grid_n * split
    steps = np.ceil(np.ceil(kk / tk) / split)
    resident = resident_blocks(arch, warps + col("copy_warps", 0), smem_bytes, registers)

    # arithmetic of the padded tile
    rate = np.select([kind == i for i in range(4)], [_rate(space, i) for i in range(4)])
    inst_m, inst_n = np.where(kind >= 2, 64, np.where(kind == 1, col("mma_m", 1), 1)), np.where(kind > 0, 8, 1)
    tile_flops = 2 * np.ceil(tm / inst_m) * inst_m * np.ceil(tn / inst_n) * inst_n * tk
    groups = np.maximum(warps // 4, 1)
    groups_m = np.minimum(groups, np.maximum(tm // 64, 1))
    # a group with one accumulator tile issues each wgmma behind the one that it depends on
    own_tiles = tm / 64 / groups_m * np.ceil(tn / (groups / groups_m) / 256)
    lone = np.where((kind >= 2) & (own_tiles < 2), k["lone_tile"], 1.0)
    math_clk = tile_flops / (rate * k["math_efficiency"] * lone)
    chain_clk = math_clk / np.minimum(1.0, warps / arch.schedulers_per_sm)
    chain_clk = chain_clk + np.where(kind >= 2, k["group_chain_clk"], k["step_chain_clk"])

    # shared-memory port: the copies in, and what the instructions read back
    tile_a, tile_b = tm * tk * ea, tn * tk * eb
    reads_a = np.where(kind >= 2, np.maximum(groups // groups_m, np.ceil(tn / 256)), wn)
    reads_b = np.where(kind >= 2, np.maximum(tm / 64, 1), wm)
    fragments = (tile_a * reads_a + tile_b * reads_b) * col("fragment_turns", 1)
    smem_clk = (fragments + tile_a + k["copy_b_weight"] * tile_b) / (arch.smem_bytes_per_clk * k["smem_efficiency"])

    # instruction issue
    slots = issue_per_clk(arch)
    lanes = warps * arch.warp_size
    copies = (tile_a / col("copy_a_bytes", 16) + k["copy_b_weight"] * tile_b / col("copy_b_bytes", 16)) / lanes
    fma = np.where(kind == 0, tile_flops / 2 / arch.warp_size, 0.0)
    converted = np.where(ea != eb, tn * tk * wm, 0.0) / arch.warp_size
    instructions = (
        warps * (k["step_instr"] + k["copy_instr"] * copies)
        + np.where(kind >= 2, 0.0, k["fragment_instr"] * fragments / 512)
        + k["convert_instr"] * converted
        + fma
    )

    # operands that each thread reads for itself
    body = k["port_overlap"] if "fragment_turns" in space.columns else None
    apart, spill_bytes = np.zeros(n), np.zeros(n)
    waits = fill_m = fill_n = np.ones(n)
    if "lanes_m" in space.columns:
        own = delivery(space, k, resident)
        # idle lanes cost what the others do; an instruction on packed halves makes two products
        filled = lanes / np.maximum(col("threads"), 1.0)
        math_clk = math_clk * k["math_efficiency"] / k["vector_efficiency"] * col("passes", 1) * filled
        packed = _rate(space, 0) / arch.vector_flops_per_clk("float32")
        fma = fma * col("passes", 1) * filled / max(1.0, packed)
        smem_clk, instructions, spill_bytes = own.port_clk, own.instructions + fma, own.spill_bytes
        math_clk = np.maximum(math_clk, instructions / slots / k["vector_efficiency"])
        body, waits, fill_m, fill_n = k["port_overlap"], own.waits, own.fill_m, own.fill_n
        alone = joined(math_clk / np.minimum(1.0, warps / arch.schedulers_per_sm), smem_clk, body) + own.latency_clk
        prefetched = col("prefetched", 1) > 0
        chain_clk = np.where(prefetched, alone, 0.0)
        apart = np.where(prefetched, 0.0, alone + 2 * k["step_sync_clk"] * waits)

    # what L2 and DRAM deliver
    rows, cols, depth = np.minimum(tm, m), np.minimum(tn, nn), np.minimum(tk, kk)
    run_a = np.where(col("a_k_contiguous") > 0, depth, rows) * ea
    run_b = np.where(col("b_k_contiguous") > 0, depth, cols) * eb
    waste_a = sector_waste(run_a, col("row_align_a", 16), arch.sector_bytes)
    waste_b = sector_waste(run_b, col("row_align_b", 16), arch.sector_bytes)
    # a row that one step reads to its end continues in the next row
    page_a = 1 + k["dram_run_bytes"] / np.where((col("a_k_contiguous") > 0) & (tk >= kk), run_a * rows, run_a)
    page_b = 1 + k["dram_run_bytes"] / np.where((col("b_k_contiguous") > 0) & (tk >= kk), run_b * cols, run_b)
    padded = col("padded_loads", 0) > 0
    fetched = np.minimum(tk, kk / (steps * split))  # the last step of a ragged K fetches what is left
    fill_a = np.where(padded, tm, rows) * fetched * ea * waste_a * fill_m
    fill_b = np.where(padded, tn, cols) * fetched * eb * waste_b * fill_n
    distinct = rows * fetched * ea * waste_a + cols * fetched * eb * waste_b
    l2_per_clk = arch.l2_bytes_per_s * k["l2_efficiency"] / arch.clock_hz
    spread = SLICE_BYTES_PER_CLK * k["hot_steps"] / l2_per_clk
    hot_a = np.minimum(1.0, spread * np.maximum(m * depth * ea / arch.line_bytes, 1.0))
    hot_b = np.minimum(1.0, spread * np.maximum(nn * depth * eb / arch.line_bytes, 1.0))
    reuse_a, reuse_b = _operand_reuse(space)
    widths = (ea * waste_a * reuse_a * page_a, eb * waste_b * reuse_b * page_b)
    dram, l3, hit = dram_traffic(arch, k, (m, nn, kk), (tm, tn), widths, (grid_m, grid_n, split), group, resident)
    per_step = batch / (grid * steps)

    # epilogue
    partial = split > 1
    width = np.where(partial, acc_bytes, eo)
    waste_o = sector_waste(cols * width, np.where(partial, 16, col("row_align_out", 16)), arch.sector_bytes)
    accumulators = tm * tn / lanes
    store_instr = accumulators * k["store_instr"]
    partial_bytes = split * batch * m * nn * acc_bytes
    back = np.where(partial_bytes < arch.l2_bytes * 0.5, l2_per_clk * arch.clock_hz, arch.dram_bytes_per_s)
    added = k["split_s"] + k["split_each_s"] * split + (partial_bytes + 0.5 * partial_bytes / split) / back
    zeroed = k["launch_s"] + partial_bytes / split / arch.dram_bytes_per_s
    swapped = zeroed + partial_bytes / (arch.l2_bytes_per_s * k["atomic_share"])
    reduction_s = np.where(partial, np.where(col("atomic", 0) > 0, swapped, added), 0.0)
    return Work(
        grid=grid * np.ones(n),
        resident=resident * np.ones(n),
        warps=warps,
        steps=steps,
        ahead=np.where(waits > 0, col("ahead"), np.inf),
        exposed=col("exposed_loads", 0),
        math_clk=math_clk,
        chain_clk=chain_clk,
        smem_clk=smem_clk,
        issue_clk=instructions / slots,
        fill_bytes=fill_a + fill_b + spill_bytes,
        l2_bytes=fill_a / hot_a + fill_b / hot_b + spill_bytes,
        l2_read_bytes=distinct,
        dram_bytes=dram * per_step,
        l3_bytes=l3 * per_step,
        store_bytes=rows * cols * width * waste_o,
        store_clk=store_instr * warps / slots,
        store_chain_clk=store_instr * k["store_chain"] * 2 / arch.schedulers_per_sm,
        reduction_s=reduction_s,
        slowdown=spill_slowdown(registers, arch, k) if body is None else np.ones(n),
        scattered=np.maximum(arch.sector_bytes / col("store_run_bytes", arch.sector_bytes), 1.0) - 1.0,
        body_overlap=body,
        apart_clk=apart,
        facts={
            "dram_bytes": dram * batch + batch * m * nn * eo,
            "compulsory_bytes": (m * kk * ea * reuse_a + nn * kk * eb * reuse_b + m * nn * eo) * batch,
            "l2_hit_rate": hit,
            "padding": grid_m * tm * grid_n * tn * steps * split * tk / (m * nn * kk),
        },
    )


def dram_traffic(
    arch: Any,
    k: Mapping[str, float],
    sizes: tuple[FloatArray, FloatArray, FloatArray],
    tile: tuple[FloatArray, FloatArray],
    widths: tuple[FloatArray, FloatArray],
    grid: tuple[FloatArray, FloatArray, FloatArray],
    group: FloatArray,
    resident: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Bytes read from DRAM and from the last cache before it, and the L2 hit rate.

    The tiles of one wave form a block of R x C tiles of the output. Their operands are read once a wave if
    they stay in L2 long enough, and each operand at least once. Blocks are dealt round robin to the
    partitions of L2 (XCDs), each of which sees every P-th tile and caches for itself.

        wave = (min(R*tile_m, M) * width_a + min(C*tile_n, N) * width_b) * K
        hit  = clip(usable * l2 / (wave / split), 0, 1)
        DRAM = compulsory + (1 - hit) * (waves * wave - compulsory)
    """
    (m, n, kk), (tm, tn), (wa, wb), (gm, gn, split) = sizes, tile, widths, grid
    tiles = gm * gn
    at_once = np.clip(arch.sm_count * resident / split, 1.0, tiles)
    r = np.minimum(np.minimum(group, gm), at_once)
    c = np.minimum(np.ceil(at_once / r), gn)
    r = np.minimum(np.maximum(r, np.ceil(at_once / c)), gm)
    compulsory = (m * wa + n * wb) * kk
    waves = tiles / at_once

    def misses(parts: float, cache_bytes: float) -> tuple[FloatArray, FloatArray]:
        shared = np.gcd(r.astype(np.int64), int(parts)) if parts > 1 else 1.0
        rows, cols = r / shared, np.maximum(1.0, np.ceil(c * shared / parts))
        wave = parts * (np.minimum(rows * tm, m) * wa + np.minimum(cols * tn, n) * wb) * kk
        everything = np.maximum(waves * wave, compulsory)
        live = (rows * tm * wa + cols * tn * wb) * kk / split
        hit = np.maximum(np.clip(k["l2_usable"] * cache_bytes / parts / live, 0, 1),
                         np.clip(k["l2_usable"] * cache_bytes / parts / compulsory, 0, 1))  # fmt: skip
        return compulsory + (1 - hit) * (everything - compulsory), hit

    beyond_l2, hit = misses(float(arch.l2_partitions), float(arch.l2_bytes))
    if arch.l3_bytes:
        dram = np.minimum(beyond_l2, misses(1.0, float(arch.l3_bytes))[0])
        return dram, beyond_l2, hit
    return beyond_l2, beyond_l2, hit


def issue_per_clk(arch: Arch) -> float:
    """Instructions that the schedulers of an SM issue in a clock.

    GCN and CDNA issue to a SIMD of 16 lanes, which an instruction of 64 lanes keeps for 4 clocks.
    """
    lanes = arch.vector_flops_per_clk("float32") / 2 / arch.schedulers_per_sm
    return arch.schedulers_per_sm * (min(1.0, lanes / arch.warp_size) if arch.vendor == "amd" else 1.0)


def sector_waste(run_bytes: FloatArray, align_bytes: FloatArray, sector_bytes: int) -> FloatArray:
    """Bytes moved over bytes wanted, for runs of contiguous bytes fetched in whole sectors.

    A run that starts at a random multiple of `align_bytes` touches (run + sector - align) / sector sectors
    in the mean.
    """
    slack = np.maximum(sector_bytes - np.minimum(align_bytes, run_bytes), 0)
    sectors = np.maximum((run_bytes + slack) / sector_bytes, np.ceil(run_bytes / sector_bytes))
    out: FloatArray = sectors * sector_bytes / run_bytes
    return out


def _rate(space: Space, kind: int) -> float:
    """Peak of the device for an instruction kind. [FLOP / SM clock]"""
    arch, dtype = space.arch, multiply_dtype(space.problem)
    if kind == 0:
        return arch.vector_flops_per_clk(dtype)
    half = space.problem.accumulate if space.problem.accumulate == "float16" else None
    unit = arch.matrix_unit(dtype, half)
    if kind == 1 and unit is not None and unit.instruction in ("wgmma", "tcgen05"):
        unit = arch.matrix_unit(dtype, half, "mma") or unit
    return (
        unit.flops_per_clk_per_sm * arch.matrix_clock_hz / arch.clock_hz if unit else arch.vector_flops_per_clk(dtype)
    )


def _operand_reuse(space: Space) -> tuple[float, float]:
    """Distinct elements of each operand over rows x depth: below 1 where windows overlap."""
    p, s = space.problem, space.scope
    if "m" in space.columns or len(p.statement.inputs) < 2:
        return 1.0, 1.0
    first, second = (t.name for t in p.statement.inputs[:2])
    batch, depth = s["b"], s["k"]
    return (
        min(1.0, p.elements[first] / (batch * s["m"] * depth)),
        min(1.0, p.elements[second] / (batch * s["n"] * depth)),
    )
