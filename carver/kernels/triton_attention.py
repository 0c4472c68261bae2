"""What Triton's compiler decides for attention: two products with a softmax between them, in one loop over the keys.

The functions follow the rules of `triton.py`, for the cost model `attention`. Source: IR, PTX, SASS and AMD's assembly
of Triton 3.6 for compute capability 8.0 to 12.0, gfx90a, gfx942, gfx950, gfx1100 and gfx1201.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from . import triton_lanes
from .scope import MMA, TCGEN05, VECTOR, WGMMA
from .triton import (
    BARRIER_BYTES,
    allocated_columns,
    amd_instruction_rows,
    instruction_of,
    named,
    no_overlap,
    pipelines,
    rounded,
    threads,
    waits_at_barriers,
    warps,
)
from .triton_lanes import Values

CHAINED_STAGES = 4
"""Number of stages at which AMD's compiler uses a special schedule for two dependent products."""
AMD_REGISTERS = {
    "cdna": (
        (40, 1.7, 1.7, 0, 0, 0, 0.8), (30, 1.3, 1.55, 1.5, 0, 0, 1.6), (30, 1.3, 1.55, 1.5, 0, 0, 1.6),
        (28, 2.8, 2.65, 0, 0.6, 0, 2.25),
    ),
    "transposing": (
        (40, 1.7, 1.7, 0, 0, 0, 0.8), (40, 2.0, 2.1, 0, 0, 0, 1.6), (40, 2.0, 2.1, 0, 0, 0, 1.6),
        (30, 2.1, 2.1, 0, 0.95, 1.7, 2.1),
    ),
    "twice": (
        (48, 1.5, 0.83, 2.5, 0, 0.52, 0.3), (48, 1.5, 0.83, 2.5, 0, 0.52, 0.3), (48, 1.5, 0.83, 2.5, 0.56, 0.84, 0.3),
        (57, 3.28, 0.83, 2.5, 0.56, 0.84, 0.3),
    ),
    "rdna": (
        (30, 1.56, 0.96, 1.25, 0, 0.22, 0.59), (30, 1.56, 0.96, 1.25, 0, 0.22, 0.59),
        (30, 1.56, 0.96, 1.25, 0.4, 0, 0.59), (68, 2.2, 0.96, 1.25, 0.4, 0, 0.59),
    ),
}  # fmt: skip
"""Registers per thread for 1, 2, 3 and 4 stages: a base, then factors on the registers of scores, sums, queries, a
step's keys, its values, and its copies. Fitted to Triton 3.6's compiled attention (`benchmarks/agreement.py`). Around
those of RDNA LLVM's scatter by 16, with 8 warps as with others."""
AMD_BACKWARD_REGISTERS = {
    "cdna": ((58, 3.2, 1.64, 0, 0, 3.3), (77, 9, 1.4, 0.15, 0, 0)),
    "transposing": ((58, 3.2, 1.64, 0, 0, 3.3), (41, 9.3, 2.5, 0, 0, 2.1)),
    "twice": ((114, 0.4, 1.9, 0, 1.9, 0), (0, 5.3, 2.2, 3, 1.2, 0)),
    "rdna": ((0, 1.45, 1.1, 0.74, 0.71, 1.5), (46, 6, 1.4, 0, 0.95, 0)),
}
"""The same of a backward pass, for one stage and for more: a base, then factors on the registers of scores, sums, what
is kept, what a step reads, and its copies. From 120 compiled passes of `benchmarks/second_price.py price`."""
QUERIES_PASS = 0.7
"""Scores that are held at a time where a pass has gradients of queries alone, over those of the other. From 36 compiled
passes, whose registers were else up to 1.4 times too high on CDNA."""


def instruction(
    arch: Arch, tcgen05: Values, wgmma: Values, mma: Values, matrix: Values, a_float8: Values, q_bytes: Values,
    tile_m: Values, head: Values, num_warps: Values,
) -> Values:  # fmt: skip
    units = {"tcgen05": tcgen05, "wgmma": wgmma, "mma": mma, "matrix": matrix}
    wide = (head * q_bytes >= 32) & ((q_bytes > 1) | (a_float8 > 0))
    return instruction_of(arch, units, tile_m, num_warps, wide, q_bytes)


def warps_m(arch: Arch, instruction: Values, num_warps: Values, tile_m: Values, value: Values) -> Values:
    """Warps along the queries in the second product. On NVIDIA all of them, but only one with mma.sync and a tile wider
    than it is tall; on AMD as many as the queries fill matrix instructions."""
    if arch.vendor == "amd":
        rows = amd_instruction_rows(arch, tile_m, value)
        return np.where(instruction == MMA, np.minimum(num_warps, -(-tile_m // rows)), num_warps)
    return np.where((instruction >= WGMMA) | (tile_m >= value), num_warps, 1)


def warps_n(num_warps: Values, warps_m: Values) -> Values:
    return num_warps // warps_m


def score_copies(arch: Arch, warps_n: Values) -> Values:
    """Number of warps that compute the same scores. On AMD, all warps are placed along the queries in the first
    product, and warps without rows repeat those of others."""
    return warps_n if arch.vendor == "amd" else 1


def p_bytes(
    arch: Arch, q_bytes: Values, warps_m: Values, warps_n: Values, tile_m: Values, tile_k: Values, value: Values
) -> Values:  # fmt: skip
    """Shared memory for the probabilities; 0 if they stay in registers between the products.

    They do on NVIDIA if they have 16 bits and each warp owns whole rows. On AMD they do if each warp of the second
    product computed the rows that it needs: it has all rows, or the same rows in both products.
    """
    exchanged = tile_m * tile_k * q_bytes
    if arch.vendor == "amd":
        first, second = amd_instruction_rows(arch, tile_m, tile_k), amd_instruction_rows(arch, tile_m, value)
        moves = np.where(first == second, (warps_m > 1) & (warps_n > 1), (warps_m * warps_n > 1) & (tile_m > first))
        return np.where(moves, exchanged, 0)
    return np.where((q_bytes <= 2) & (warps_n == 1), 0, exchanged)


def async_copies(arch: Arch) -> Values:
    return arch.async_copy


def ahead(arch: Arch, num_stages: Values) -> Values:
    """Steps by which loads run ahead. AMD's schedule for two dependent products loads two steps ahead, and keeps the
    operands in registers; its other schedules load one step ahead, as in a matmul."""
    if arch.vendor == "amd":
        return np.where(num_stages == CHAINED_STAGES, 2, 1)
    return np.where(pipelines(arch), np.maximum(num_stages - 1, 1), 1)


def pipeline_stages(num_stages: Values) -> Values:
    """Stages of the keys and values; fewer where an index is loaded before them."""
    return num_stages


def exposed_loads(arch: Arch) -> Values:
    """Loads of a step whose latency nothing hides: of the keys on RDNA, where a barrier waits for them, and for those
    of the values later."""
    return int(waits_at_barriers(arch))


def products_apart(arch: Arch, instruction: Values, num_stages: Values) -> Values:
    alone = (instruction < WGMMA) & (num_stages == 1)  # each load stands before its product, and a barrier between them
    return no_overlap(arch, instruction, num_stages, pipelines(arch)) | alone


def smem_bytes(
    arch: Arch, instruction: Values, num_warps: Values, pipeline_stages: Values, ahead: Values, tile_m: Values,
    tile_k: Values, head: Values, value: Values, q_bytes: Values, k_bytes: Values, v_bytes: Values, p_bytes: Values,
) -> Values:  # fmt: skip
    """Shared memory of a block. On AMD, the queries pass through it once, before the loop, and then stay in registers;
    CDNA 4 instead swaps registers if one warp has all queries and few lanes exchange places. Without a pipeline, keys
    and values pass through one buffer, one after the other."""
    of_keys, of_values = tile_k * head * k_bytes, tile_k * value * v_bytes
    queries = tile_m * head * q_bytes
    if arch.vendor == "amd":
        buffers = np.where(pipeline_stages == CHAINED_STAGES, 1, np.maximum(pipeline_stages - 1, 1))
        one = np.maximum(np.maximum(of_keys, of_values), p_bytes)
        loaded, multiplied = head * q_bytes // 16, arch.warp_size // amd_instruction_rows(arch, tile_m, tile_k)
        swapped = (num_warps == 1) & (loaded <= 2 * multiplied) & (arch.isa == "gfx950")
        queries = np.where(swapped, 0, queries)
        return np.maximum(queries, np.where(pipeline_stages == 1, one, buffers * (of_keys + of_values) + p_bytes))
    # warp groups that share rows exchange a number for each lane of tensor memory
    shared_rows = np.where(num_warps > 4 * -(-tile_m // 128), 4 * np.maximum(tile_m, 128), 0)
    beside = np.where(instruction == TCGEN05, np.where(pipeline_stages > 1, 4, 1) * BARRIER_BYTES + shared_rows, 0)
    kept = np.where((instruction >= WGMMA) & (pipeline_stages > 1), pipeline_stages, ahead)
    one = np.maximum(of_keys, of_values + p_bytes)
    loop = np.where(pipelines(arch) & (pipeline_stages == 1), one, kept * (of_keys + of_values) + p_bytes)
    return queries + loop + beside


def operand_passes(
    arch: Arch, instruction: Values, tile_m: Values, tile_k: Values, head: Values, value: Values, threads: Values,
    q_bytes: Values, k_bytes: Values, v_bytes: Values,
) -> Values:  # fmt: skip
    """Passes of the port of shared memory in which a warp reads the operands of a step, on vector units. Queries, keys
    and probabilities are read along the axis that is summed over, values across it."""
    wide = triton_lanes.staged_wide(arch, instruction, q_bytes)
    passes = np.zeros(())
    for columns, depth, b_bytes, along in ((tile_k, head, k_bytes, 1), (value, tile_k, v_bytes, 0)):
        across = triton_lanes.lanes_across(arch, tile_m, columns, threads)
        of_a = triton_lanes.lane_read_a_bytes(1, q_bytes, wide, tile_m, columns, threads)
        of_b = triton_lanes.lane_read_b_bytes(along, b_bytes, wide, tile_m, columns, threads)
        reads_a = triton_lanes.lane_reads_a(tile_m, columns, depth, threads, q_bytes, wide, of_a)
        reads_b = triton_lanes.lane_reads_b(tile_m, columns, depth, threads, b_bytes, wide, of_b)
        passes = passes + reads_a * triton_lanes.lane_passes_a(arch, 1, across, of_a)
        passes = passes + reads_b * triton_lanes.lane_passes_b(arch, along, across, of_b)
    return np.where(instruction == VECTOR, passes, 0)


def tmem_columns(instruction: Values, tile_m: Values, tile_k: Values, value: Values, q_bytes: Values) -> Values:
    """Columns of tensor memory for scores, sums and probabilities; 64 rows take half of the lanes."""
    columns = (tile_k + value + tile_k * q_bytes // 4) * tile_m // 128
    return np.where(instruction == TCGEN05, allocated_columns(columns), 0)


def _amd_family(arch: Arch) -> str:
    """Key of AMD_REGISTERS. RDNA 3 holds operands twice, in both halves of a wave. Only on gfx942 does the compiler
    transpose data within threads before it stores them to LDS."""
    if arch.warp_size == 64:
        return "transposing" if arch.isa == "gfx942" else "cdna"
    return "twice" if arch.isa.startswith("gfx11") else "rdna"


def registers(
    arch: Arch, instruction: Values, threads: Values, num_warps: Values, pipeline_stages: Values, warps_m: Values,
    warps_n: Values, tile_m: Values, tile_k: Values, head: Values, value: Values, q_bytes: Values, p_bytes: Values,
) -> Values:  # fmt: skip
    """Registers per thread. Scores become probabilities of half their width while the second product starts.

    On AMD a warp has at least the rows of one matrix instruction, and keeps the queries and the next step's keys and
    values in registers. LLVM takes more registers if threads may have all of the instruction set.
    """
    if arch.vendor == "amd":
        first = np.maximum(tile_m // num_warps, amd_instruction_rows(arch, tile_m, tile_k))
        second = np.maximum(tile_m // warps_m, amd_instruction_rows(arch, tile_m, value))
        lanes, words = arch.warp_size, q_bytes / 4
        parts: tuple[Values, ...] = (
            1, first * tile_k / lanes, second * value / warps_n / lanes, first * head * words / lanes,
            tile_k * head * words / lanes, tile_k * value / warps_n * words / lanes,
            tile_k * (head + value) * words / threads,
        )  # fmt: skip
        weights = np.array(AMD_REGISTERS[_amd_family(arch)])[np.clip(pipeline_stages, 1, CHAINED_STAGES) - 1]
        need = sum(weights[..., i] * part for i, part in enumerate(parts)) + np.where(np.asarray(p_bytes) > 0, 12, 0)
        roomy = (pipeline_stages > 1) & (pipeline_stages < CHAINED_STAGES) & (arch.warp_size == 64)
        roomy = roomy & (arch.regs_per_sm // threads >= arch.max_regs_per_thread)
        return rounded(np.ceil(need + np.where(roomy, parts[1], 0)).astype(np.int64))
    rows = np.maximum(tile_m // warps_m, 16)
    scores, sums = rows * tile_k // (32 * warps_n), rows * value // (32 * warps_n)
    queries = rows * head * q_bytes // (4 * 32)
    base = 8 if arch.cc == (8, 0) else 22  # ptxas takes a few more for compute capabilities after 8.0
    by_warps = base + 9 * scores // 5 + 6 * sums // 5 + np.minimum(sums, 16) + 3 * queries // 4
    by_warps = by_warps + (tile_k + value) // (16 * warps_n)
    by_block = 9 + 19 * scores // 10 + 13 * sums // 12
    # wgmma leaves scores in registers: of many, the first are already probabilities when the last are exponentiated
    by_groups = by_block - 6 * np.maximum(scores - 64, 0) // 5
    by_threads = 40 + sums + scores + scores * np.minimum(q_bytes, 4) // 8
    # a thread holds its share of the probabilities while the values take their place in shared memory
    held = triton_lanes.lane_rows(tile_m, value, threads) * tile_k
    by_threads = by_threads + np.where(triton_lanes.staged_wide(arch, instruction, q_bytes), held, 0)
    kinds = [instruction == TCGEN05, instruction == WGMMA, instruction == MMA]
    return rounded(np.select(kinds, [by_block, by_groups, by_warps], by_threads))


def amd_backward_registers(
    arch: Arch, threads: Values, num_warps: Values, num_stages: Values, warps_m: Values, warps_n: Values,
    tile_m: Values, tile_k: Values, head: Values, value: Values, q_bytes: Values, backward: Values,
) -> Values:  # fmt: skip
    """Registers per thread of a backward pass on AMD, 0 on others. Five products need their operands in two orders; a
    pipeline has the next step's under way beside the scores and their gradients."""
    if arch.vendor != "amd":
        return np.zeros((), np.int64)
    lanes, words, width = arch.warp_size, q_bytes / 4, head + value
    first = np.maximum(tile_m // num_warps, amd_instruction_rows(arch, tile_m, tile_k))
    second = np.maximum(tile_m // warps_m, amd_instruction_rows(arch, tile_m, value))
    both = np.asarray(backward) == 1  # with gradients of queries only, one product reads scores and one adds up
    sums, scores = np.where(both, width, head), np.where(both, 1.0, QUERIES_PASS) * first * tile_k / lanes
    parts = (
        1, scores, second * sums / warps_n / lanes, first * width * words / lanes,
        tile_k * width * words / lanes, tile_k * width * words / threads,
    )  # fmt: skip
    weights = np.array(AMD_BACKWARD_REGISTERS[_amd_family(arch)])[np.where(np.asarray(num_stages) > 1, 1, 0)]
    return rounded(np.ceil(sum(weights[..., i] * part for i, part in enumerate(parts))).astype(np.int64))


COLUMNS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "attention": named(
        warps, threads, instruction, warps_m, warps_n, score_copies, p_bytes, async_copies, ahead, exposed_loads,
        products_apart, pipeline_stages, operand_passes, smem_bytes, tmem_columns, registers, amd_backward_registers,
    ),
}  # fmt: skip
"""The functions that compute columns, by cost model."""
