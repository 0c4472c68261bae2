"""What Triton's compiler makes of a kernel: instruction, layout, copies, pipeline, shared memory, registers.

A declaration with `compiler = "triton"` takes its columns from here, but for those that its own [schedule] gives. Each
function computes the column of its name, for all candidates at once, from the columns, tunables and scalars that its
parameters are named after; a parameter with a default is for declarations that say more about their kernel. `num_warps`
and `num_stages` are Triton's own options. Source: IR, PTX and SASS of Triton 3.6 for compute capability 7.5 to 10.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from ..arch.descriptor import Arch
from .expr import pow2

VECTOR, MMA, WGMMA, TCGEN05 = range(4)
"""What the column `instruction` holds."""
Values: TypeAlias = Any
"""An integer array over candidates, of 0 and 1 for what is true or not, or an integer that is the same for all."""
WIDEST_COPY_BYTES = 16
BANKS_BYTES = 128
"""One word of each bank of shared memory."""
LEAST_ASYNC_BYTES = 4
"""cp.async takes 4, 8 or 16 bytes."""


# every kernel


def warps(num_warps: Values) -> Values:
    return num_warps


def threads(num_warps: Values, arch: Arch) -> Values:
    return num_warps * arch.warp_size


def _instruction(arch: Arch, units: Mapping[str, int], rows: Values, num_warps: Values, wide: Values) -> Values:
    """What tl.dot becomes, of a tile of so many rows; `wide`: whether operands and types are tcgen05's.

    tcgen05 takes floats, and its sums are read back by four or eight warps; all else is mma.sync. Before compute
    capability 8.0 the compiler multiplies on the vector units, tensor cores or not.
    """
    whole_block = (units["tcgen05"] > 0) & (rows >= 64) & ((num_warps == 4) | (num_warps == 8)) & wide
    whole_group = (units["wgmma"] > 0) & (rows >= 64) & (num_warps % 4 == 0)
    by_warps = (units["matrix"] > 0) & (arch.async_copy | (units["mma"] == 0))
    return np.select([whole_block, whole_group, by_warps], [TCGEN05, WGMMA, MMA], VECTOR)


def _pipelines(arch: Arch) -> bool:
    """Whether the compiler prefetches a loop's loads: by asynchronous copies, on AMD through registers."""
    return bool(arch.async_copy) or arch.vendor == "amd"


def ahead(num_stages: Values, async_a: Values, async_b: Values) -> Values:
    """Only what the pipeline copies is ahead; the other operand is loaded, waited for and used within the step."""
    return np.where((async_a > 0) | (async_b > 0), np.maximum(num_stages - 1, 1), 1)


def buffers(num_stages: Values, instruction: Values) -> Values:
    """Copies of a tile in shared memory.

    wgmma and tcgen05 read it while the copies of the last stage land; mma.sync, mfma and wmma have loaded their
    fragments by then. One stage is no pipeline, and one copy.
    """
    return np.where((instruction >= WGMMA) & (num_stages > 1), num_stages, np.maximum(num_stages - 1, 1))


def _rounded(need: Values) -> Values:
    """Registers are allocated by eights."""
    return -(-need // 8) * 8


# one tl.dot, or several that share their first operand, in a loop over K


def instruction(
    arch: Arch, tcgen05: Values, wgmma: Values, mma: Values, matrix: Values, a_float8: Values, a_bytes: Values,
    tile_m: Values, tile_k: Values, num_warps: Values,
) -> Values:  # fmt: skip
    units = {"tcgen05": tcgen05, "wgmma": wgmma, "mma": mma, "matrix": matrix}
    wide = (tile_k * a_bytes >= 32) & ((a_bytes > 1) | (a_float8 > 0))
    return _instruction(arch, units, tile_m, num_warps, wide)


def warps_n(tile_m: Values, tile_n: Values, num_warps: Values) -> Values:
    """The grid of warps over the tile follows its aspect ratio."""
    across = pow2(np.maximum(1, tile_n * num_warps // tile_m) ** 0.5 * 0.7072)
    return np.minimum(np.minimum(num_warps, across), np.maximum(1, tile_n // 8))


def warps_m(num_warps: Values, warps_n: Values) -> Values:
    return num_warps // warps_n


def bytewise(one_type: Values, a_bytes: Values) -> Values:
    """Whether both operands have elements of a byte."""
    return (one_type > 0) & (a_bytes == 1)


def narrow_b(b_bytes: Values, b_converts: Values) -> Values:
    """Whether the second operand has elements of a byte and is converted to the type of the first."""
    return (b_bytes == 1) & (b_converts > 0)


def turns(
    bytewise: Values, narrow_b: Values, a_bytes: Values, mma: Values, wgmma: Values, tcgen05: Values,
    a_k_last: Values, b_k_last: Values,
) -> Values:  # fmt: skip
    """Whether an operand lies the other way round than the instruction takes it.

    NVIDIA's instructions take elements of 8 and 32 bits only with K contiguous. Where memory holds an operand the
    other way round its elements are moved one at a time: as the tile is copied, if wgmma or tcgen05 reads it, else as
    each warp reads its share.
    """
    nvidia = (mma > 0) | (wgmma > 0) | (tcgen05 > 0)
    return (bytewise | narrow_b | (a_bytes == 4)) & nvidia & ((a_k_last == 0) | (b_k_last == 0))


def turned_a(
    turns: Values, narrow_b: Values, bytewise: Values, a_k_last: Values, instruction: Values
) -> Values:
    read_as_it_is = bytewise & (instruction == TCGEN05)
    return turns & np.logical_not(narrow_b) & (a_k_last == 0) & (instruction >= MMA) & np.logical_not(read_as_it_is)


def turned_b(turns: Values, bytewise: Values, a_bytes: Values, b_k_last: Values, instruction: Values) -> Values:
    by_type = np.where(bytewise, instruction < TCGEN05, instruction == MMA)
    return turns & (b_k_last == 0) & (instruction >= MMA) & ((a_bytes == 4) | by_type)


def singles_a(turned_a: Values, instruction: Values, warps_n: Values) -> Values:
    return turned_a * np.where(instruction >= WGMMA, 1, warps_n)


def singles_b(turned_b: Values, instruction: Values, warps_m: Values) -> Values:
    return turned_b * np.where(instruction >= WGMMA, 1, warps_m)


def _single_conflicts(instruction: Values, a_bytes: Values, extent: Values) -> Values:
    """Copies of 4 bytes a lane go to a line each: 32 passes at most, 24 to 28 measured on an H200; the bytes of a
    vector along m or n go to one bank."""
    return np.where(instruction < WGMMA, 1, np.where(a_bytes == 4, 24, np.maximum(1, extent // 16)))


def single_conflicts_a(instruction: Values, a_bytes: Values, tile_m: Values) -> Values:
    return _single_conflicts(instruction, a_bytes, tile_m)


def single_conflicts_b(instruction: Values, a_bytes: Values, tile_n: Values) -> Values:
    return _single_conflicts(instruction, a_bytes, tile_n)


def _copy_bytes(known: Values, turned: Values, turns: Values, a_bytes: Values, instruction: Values) -> Values:
    by_type = np.where(instruction >= WGMMA, np.where(a_bytes == 4, 4, 16), np.where(a_bytes == 4, 16, 8))
    return np.minimum(known, np.where(turns & turned, by_type, WIDEST_COPY_BYTES))


def _known(align: Values, by_16: Values, element: Values, static_shapes: Values) -> Values:
    """Bytes that a row starts on a multiple of, as far as the compiler knows: of a stride that is an argument it
    learns only whether 16 divides it."""
    return np.where((static_shapes > 0) | (by_16 > 0), align, element)


def copy_a_bytes(
    align_a: Values, by_16_a: Values, a_bytes: Values, static_shapes: Values, turned_a: Values, turns: Values,
    instruction: Values,
) -> Values:  # fmt: skip
    return _copy_bytes(_known(align_a, by_16_a, a_bytes, static_shapes), turned_a, turns, a_bytes, instruction)


def copy_b_bytes(
    align_b: Values, by_16_b: Values, b_bytes: Values, static_shapes: Values, turned_b: Values, turns: Values,
    a_bytes: Values, instruction: Values,
) -> Values:  # fmt: skip
    return _copy_bytes(_known(align_b, by_16_b, b_bytes, static_shapes), turned_b, turns, a_bytes, instruction)


def _asynchronous(arch: Arch, copy: Values, turned: Values, bytewise: Values, instruction: Values) -> Values:
    through_registers = turned & bytewise & (instruction == WGMMA)
    return np.asarray(_pipelines(arch)) & (copy >= LEAST_ASYNC_BYTES) & np.logical_not(through_registers)


def async_a(
    arch: Arch, copy_a_bytes: Values, turned_a: Values, bytewise: Values, instruction: Values
) -> Values:
    return _asynchronous(arch, copy_a_bytes, turned_a, bytewise, instruction)


def async_b(
    arch: Arch, copy_b_bytes: Values, turned_b: Values, bytewise: Values, instruction: Values
) -> Values:
    return _asynchronous(arch, copy_b_bytes, turned_b, bytewise, instruction)


def async_copies(async_a: Values, async_b: Values) -> Values:
    return (async_a > 0) & (async_b > 0)


def exposed_loads(async_a: Values, async_b: Values) -> Values:
    return async_a != async_b


def synchronous_copies(arch: Arch, async_a: Values, async_b: Values, num_stages: Values) -> Values:
    """Without asynchronous copies, or with one stage, nothing is pipelined."""
    return np.asarray(_pipelines(arch)) & (((async_a == 0) & (async_b == 0)) | (num_stages == 1))


def single_copy_instr() -> Values:
    """Of one element: pointer, load, packing, store; 7 to 9 in the SASS."""
    return 8


def scattered_a(a_k_last: Values, static_shapes: Values, by_16_a: Values) -> Values:
    """Of an index m % M the compiler knows no neighbours unless 16 divides M: then lanes go along K, which is another
    row for each."""
    return (a_k_last == 0) & (static_shapes == 0) & (by_16_a == 0)


def scattered_b(b_k_last: Values, static_shapes: Values, by_16_b: Values) -> Values:
    return (b_k_last == 0) & (static_shapes == 0) & (by_16_b == 0)


def padded_loads() -> Values:
    """Rows past the edge are those at the start again: m % M."""
    return 1


def converted_b(instruction: Values, b_converts: Values) -> Values:
    """wgmma reads a second operand that is converted on the way from a buffer of its own."""
    return (instruction == WGMMA) & (b_converts > 0)


def buffers_a(buffers: Values, async_a: Values) -> Values:
    return np.where(async_a > 0, buffers, 1)


def buffers_b(buffers: Values, async_b: Values, num_stages: Values, converted_b: Values) -> Values:
    return np.where(async_b > 0, np.where(converted_b > 0, num_stages - 1, buffers), 1)


def _lane_extent(tile_m: Values, tile_n: Values, threads: Values) -> Values:
    """Rows and columns that a lane holds side by side, on vector units: [4, 4], or less of a small tile."""
    share = tile_m * tile_n // threads
    return np.select([share >= 16, share >= 4], [4, 2], 1)


def lanes_across(arch: Arch, tile_m: Values, tile_n: Values, threads: Values) -> Values:
    """Lanes of a warp along the columns, on vector units: they go along a row first."""
    return np.minimum(arch.warp_size, np.maximum(1, tile_n // _lane_extent(tile_m, tile_n, threads)))


def _lane_width(k_contiguous: Values, element: Values, extent: Values) -> Values:
    """Bytes of one read: along K where that is contiguous, else across the lane's rows or columns."""
    return np.where(k_contiguous > 0, WIDEST_COPY_BYTES, np.minimum(extent * element, WIDEST_COPY_BYTES))


def lane_read_a_bytes(a_k_last: Values, a_bytes: Values, tile_m: Values, tile_n: Values, threads: Values) -> Values:
    return _lane_width(a_k_last, a_bytes, _lane_extent(tile_m, tile_n, threads))


def lane_read_b_bytes(b_k_last: Values, b_bytes: Values, tile_m: Values, tile_n: Values, threads: Values) -> Values:
    return _lane_width(b_k_last, b_bytes, _lane_extent(tile_m, tile_n, threads))


def lane_reads_a(
    tile_m: Values, tile_n: Values, tile_k: Values, threads: Values, a_bytes: Values, lane_read_a_bytes: Values
) -> Values:  # fmt: skip
    """A lane reads its rows of each step once: those above each other that its columns' width leaves it."""
    rows = np.maximum(1, tile_m * tile_n // threads // _lane_extent(tile_m, tile_n, threads))
    return -(-rows * tile_k * a_bytes // lane_read_a_bytes)


def lane_reads_b(
    tile_m: Values, tile_n: Values, tile_k: Values, threads: Values, b_bytes: Values, lane_read_b_bytes: Values
) -> Values:  # fmt: skip
    return -(-_lane_extent(tile_m, tile_n, threads) * tile_k * b_bytes // lane_read_b_bytes)


def _passes(k_contiguous: Values, lanes: Values, width: Values) -> Values:
    """Shared memory is not swizzled for vector units: rows of K lie a multiple of its banks apart, so that lanes on
    different rows take turns. Lanes across them read side by side."""
    return np.where(k_contiguous > 0, lanes, -(-lanes * width // BANKS_BYTES))


def lane_passes_a(arch: Arch, a_k_last: Values, lanes_across: Values, lane_read_a_bytes: Values) -> Values:
    return _passes(a_k_last, arch.warp_size // lanes_across, lane_read_a_bytes)


def lane_passes_b(b_k_last: Values, lanes_across: Values, lane_read_b_bytes: Values) -> Values:
    return _passes(b_k_last, lanes_across, lane_read_b_bytes)


def leaving_bytes(
    tile_m: Values, tile_n: Values, num_warps: Values, out_bytes: Values, instruction: Values
) -> Values:
    """Sums of 32 bits leave wgmma through shared memory, the rows that all warps multiply at once at a time."""
    rows = np.minimum(tile_m, 16 * num_warps)
    return np.where((instruction == WGMMA) & (out_bytes >= 4), rows * tile_n * out_bytes, 0)


def smem_bytes(
    arch: Arch, tile_m: Values, tile_n: Values, tile_k: Values, a_bytes: Values, b_bytes: Values, buffers_a: Values,
    buffers_b: Values, converted_b: Values, leaving_bytes: Values, num_stages: Values, b_tiles: Values = 1,
) -> Values:  # fmt: skip
    """`b_tiles`: tiles of the second operand in a step, each with its own product.

    On AMD the operands of a loop without a pipeline pass through one buffer, one after the other.
    """
    of_a, of_b = buffers_a * tile_m * a_bytes, tile_n * (buffers_b * b_bytes + converted_b * a_bytes)
    one_buffer = (arch.vendor == "amd") & (num_stages == 1)
    loaded = np.where(one_buffer, np.maximum(of_a, of_b), of_a + b_tiles * of_b)
    return np.maximum(tile_k * loaded, leaving_bytes)


def serialized(
    instruction: Values, num_warps: Values, tile_n: Values, out_bytes: Values, a_k_last: Values, b_k_last: Values,
    a_integer: Values,
) -> Values:  # fmt: skip
    """Triton 3.6 copies sums within such a loop: ptxas says C7515 and lets each wgmma wait for the one before (3.9
    does not)."""
    layout = (a_k_last > 0) & (b_k_last > 0) & (a_integer == 0)
    return (instruction == WGMMA) & (num_warps >= 8) & (tile_n * out_bytes == 512) & layout


def accumulators(
    tile_m: Values, tile_n: Values, threads: Values, acc_bytes: Values, b_tiles: Values = 1
) -> Values:
    """Registers of a thread's sums."""
    return b_tiles * tile_m * tile_n // threads * np.maximum(1, acc_bytes // 4)


def tmem_columns(instruction: Values, tile_m: Values, tile_n: Values, b_tiles: Values = 1) -> Values:
    """Columns of tensor memory, 128 lanes high, that hold the sums of tcgen05; at least 32 are allocated."""
    columns = np.maximum(32, pow2(np.maximum(1, tile_n))) * -(-tile_m // 128)
    return np.where(instruction == TCGEN05, b_tiles * columns, 0)


def warp_instr(
    arch: Arch, tile_m: Values, tile_n: Values, tile_k: Values, threads: Values, a_bytes: Values, b_bytes: Values,
    copy_a_bytes: Values, copy_b_bytes: Values, b_tiles: Values = 1,
) -> Values:  # fmt: skip
    """Arithmetic instructions of a warp in a step, beside its products, on AMD: 5 a copy on CDNA 3, 7 on CDNA 2, 3 to 4
    on RDNA 3, hardly any else. Loads, LDS and scalar instructions are issued beside them."""
    if arch.vendor != "amd":
        return 0
    copied = tile_m * a_bytes // copy_a_bytes + b_tiles * tile_n * b_bytes // copy_b_bytes
    return 8 + 6 * tile_k * copied // threads


def registers(
    arch: Arch, tile_m: Values, tile_n: Values, tile_k: Values, threads: Values, warps_m: Values, warps_n: Values,
    a_bytes: Values, b_bytes: Values, copy_a_bytes: Values, copy_b_bytes: Values, accumulators: Values,
    instruction: Values, b_tiles: Values = 1, kept_sums: Values = 0,
) -> Values:  # fmt: skip
    """`kept_sums`: registers of sums that a step adds its own to, where tl.dot does not."""
    copied = tile_m * a_bytes // copy_a_bytes + b_tiles * tile_n * b_bytes // copy_b_bytes
    copies = tile_k * copied // threads
    fragments = (tile_m // (4 * warps_m) + tile_n // (4 * warps_n)) * np.where(a_bytes == 8, 4, 1)
    by_groups = accumulators + accumulators // 6 + 5 * copies // 2 + 21
    by_warps = 40 + accumulators + fragments + 2 * copies
    by_threads = 37 + accumulators + 6 * (accumulators // b_tiles) // 5 + 8 * copies // 5
    # sums come out of tensor memory when the loop is over, many of them in parts
    leaving = np.minimum(accumulators, 128) + np.maximum(accumulators - 128, 0) // 3
    by_block = 24 + np.maximum(leaving, 5 * copies // 2)
    if arch.vendor == "amd":
        # a step's fragments are loaded before the first product, on RDNA few of them; the next step's copies wait
        loaded = (tile_m // warps_m * a_bytes + tile_n // warps_n * b_bytes) * tile_k // (4 * arch.warp_size)
        wide = arch.warp_size == 64
        by_warps = (30 if wide else 44) + accumulators + loaded // (2 if wide else 8) + 8 * copies
        by_warps = by_warps + np.where(np.asarray(kept_sums) > 0, 48 + kept_sums // 2, 0)
    kinds = [instruction == TCGEN05, instruction == WGMMA, instruction == MMA]
    need = np.select(kinds, [by_block, by_groups, by_warps], by_threads)
    return _rounded(kept_sums + need)


def scale_columns(
    tile_m: Values, tile_n: Values, threads: Values, warps: Values, instruction: Values, warps_n: Values
) -> Values:
    """Columns whose scales each thread loads for itself in every step, where products are scaled before they are added.

    Triton takes a load of fewer elements than the block has threads to be cheap, and gives it the layout of the sums:
    each thread loads the scales of all of its columns, through a pointer of two registers each. Of as many elements as
    threads or more each is loaded once and read back from shared memory: 0 here. Groups of four warps share out the
    rows first.
    """
    groups = np.maximum(warps // 4, 1)
    across = np.where(instruction >= WGMMA, groups // np.minimum(groups, np.maximum(tile_m // 64, 1)), warps_n)
    return np.where(tile_n < threads, np.maximum(tile_n // (4 * across), 1), 0)


# two products with a softmax between them


def attention_instruction(
    arch: Arch, tcgen05: Values, wgmma: Values, mma: Values, matrix: Values, a_float8: Values, q_bytes: Values,
    tile_m: Values, head: Values, num_warps: Values,
) -> Values:  # fmt: skip
    units = {"tcgen05": tcgen05, "wgmma": wgmma, "mma": mma, "matrix": matrix}
    wide = (head * q_bytes >= 32) & ((q_bytes > 1) | (a_float8 > 0))
    return _instruction(arch, units, tile_m, num_warps, wide)


def attention_warps_m(instruction: Values, num_warps: Values, tile_m: Values, value: Values) -> Values:
    """The second product is laid out first: warps stand along the queries where its tile is not wider than tall."""
    return np.where((instruction >= WGMMA) | (tile_m >= value), num_warps, 1)


def attention_warps_n(num_warps: Values, warps_m: Values) -> Values:
    return num_warps // warps_m


def attention_p_bytes(q_bytes: Values, warps_n: Values, tile_m: Values, tile_k: Values) -> Values:
    """Probabilities of 16 bits pass from product to product in registers if each warp owns whole rows."""
    return np.where((q_bytes <= 2) & (warps_n == 1), 0, tile_m * tile_k * q_bytes)


def attention_async_copies(arch: Arch) -> Values:
    return arch.async_copy


def attention_ahead(arch: Arch, num_stages: Values) -> Values:
    return np.where(_pipelines(arch), np.maximum(num_stages - 1, 1), 1)


def attention_smem_bytes(
    arch: Arch, num_warps: Values, instruction: Values, num_stages: Values, ahead: Values, tile_m: Values,
    tile_k: Values, head: Values, value: Values, q_bytes: Values, k_bytes: Values, v_bytes: Values, p_bytes: Values,
) -> Values:  # fmt: skip
    """On AMD queries pass shared memory once, before the loop, and stay in registers; probabilities pass it where a
    warp has fewer rows than the instruction that the compiler takes, 32 on CDNA and 16 on RDNA."""
    of_keys, of_values = tile_k * head * k_bytes, tile_k * value * v_bytes
    if arch.vendor == "amd":
        rows = (32 if arch.warp_size == 64 else 16) * num_warps
        exchanged = np.where(tile_m < rows, tile_m * tile_k * q_bytes, 0)
        one = np.maximum(np.maximum(of_keys, of_values), exchanged)
        loop = np.where(num_stages == 1, one, ahead * (of_keys + of_values) + exchanged)
        return np.maximum(tile_m * head * q_bytes, loop)
    kept = np.where((instruction >= WGMMA) & (num_stages > 1), num_stages, ahead)
    return tile_m * head * q_bytes + kept * (of_keys + of_values) + p_bytes


def attention_registers(
    arch: Arch, instruction: Values, threads: Values, num_warps: Values, tile_m: Values, tile_k: Values, head: Values,
    value: Values, q_bytes: Values,
) -> Values:  # fmt: skip
    """The scores turn into probabilities of half their width while the next product starts.

    On AMD the queries stay in registers, and so do, until they are multiplied, a step's keys and values; RDNA's
    compiler spreads those loads.
    """
    sums, scores = tile_m * value // threads, tile_m * tile_k // threads
    if arch.vendor == "amd":
        lane_bytes = 4 * arch.warp_size
        queries = -(-tile_m // num_warps) * head * q_bytes // lane_bytes
        pairs = tile_k * (head + value) * q_bytes
        loaded = pairs // lane_bytes // (1 if arch.warp_size == 64 else 4)
        return _rounded(40 + sums + scores + queries + loaded + pairs // (4 * threads))
    return _rounded(np.where(instruction >= WGMMA, 28, 40) + sums + scores + scores * np.minimum(q_bytes, 4) // 8)


# element by element


def access_elements(
    tile_elements: Values, threads: Values, in_bytes: Values, tile_c: Values = 2**31
) -> Values:
    """A thread's elements side by side, at most 16 bytes of them and a row of the tile."""
    widest = np.minimum(WIDEST_COPY_BYTES // in_bytes, tile_c)
    return np.maximum(1, np.minimum(widest, tile_elements // threads))


def _named(*functions: Callable[..., Any], prefix: str = "") -> dict[str, Callable[..., Any]]:
    return {function.__name__.removeprefix(prefix): function for function in functions}


_DOT = _named(
    warps, threads, instruction, warps_n, warps_m, bytewise, narrow_b, turns, turned_a, turned_b, singles_a,
    singles_b, single_conflicts_a, single_conflicts_b, copy_a_bytes, copy_b_bytes, async_a, async_b, async_copies,
    ahead, exposed_loads, synchronous_copies, single_copy_instr, scattered_a, scattered_b, padded_loads, converted_b,
    buffers, buffers_a, buffers_b, lanes_across, lane_read_a_bytes, lane_read_b_bytes, lane_reads_a, lane_reads_b,
    lane_passes_a, lane_passes_b, leaving_bytes, smem_bytes, tmem_columns, warp_instr, serialized, accumulators,
    registers, scale_columns,
)  # fmt: skip
COLUMNS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "contraction": _DOT,
    "gated": _DOT,
    "matmul_softmax": _DOT,
    "attention": _named(
        warps, threads, attention_instruction, attention_warps_m, attention_warps_n, attention_p_bytes,
        attention_async_copies, attention_ahead, attention_smem_bytes, attention_registers, prefix="attention_",
    ),
    "stream": _named(warps, threads, access_elements),
}  # fmt: skip
"""The functions that fill the columns of a cost model, by its name."""
