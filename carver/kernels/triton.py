"""What Triton's compiler decides for a kernel: instruction, layout, copies, pipeline, shared memory, registers.

A declaration with `compiler = "triton"` takes its columns from here, except those that its own [schedule] gives. Each
function computes the column of its name, for all candidates at once. Its parameters are named after the columns,
tunables and scalars that it reads; a parameter with a default is for declarations that say more about their kernel.
`num_warps` and `num_stages` are Triton's own options. Source: IR, PTX and SASS of Triton 3.6 for compute capability 7.5
to 10.0.
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
"""cp.async takes 4, 8 or 16 bytes. On AMD the compiler prefetches nothing narrower on CDNA before CDNA 4."""
DIRECT_TO_LDS = ("gfx950",)
"""CDNA's instruction sets whose loads may go to LDS directly: CDNA 4."""
SCALE_BYTES = 4
BARRIER_BYTES = 8
"""In shared memory, of which tcgen05 has one or two that say when it has read its operands."""


# every kernel


def warps(num_warps: Values) -> Values:
    return num_warps


def threads(num_warps: Values, arch: Arch) -> Values:
    return num_warps * arch.warp_size


def instruction_of(
    arch: Arch, units: Mapping[str, int], rows: Values, num_warps: Values, wide: Values, element_bytes: Values
) -> Values:  # fmt: skip
    """What tl.dot becomes, of a tile of so many rows; `wide`: whether operands and types are tcgen05's.

    tcgen05 takes floats, and its sums are read back by four or eight warps; all else is mma.sync. Before compute
    capability 8.0, and float64 from 10.0 on, the compiler multiplies on the vector units, tensor cores or not.
    """
    whole_block = (units["tcgen05"] > 0) & (rows >= 64) & ((num_warps == 4) | (num_warps == 8)) & wide
    whole_group = (units["wgmma"] > 0) & (rows >= 64) & (num_warps % 4 == 0)
    compiled = (np.asarray(element_bytes) < 8) | (arch.cc_major < 10)
    by_warps = (units["matrix"] > 0) & (arch.async_copy | (units["mma"] == 0)) & compiled
    return np.select([whole_block, whole_group, by_warps], [TCGEN05, WGMMA, MMA], VECTOR)


def pipelines(arch: Arch) -> bool:
    """Whether the compiler prefetches a loop's loads: by asynchronous copies, on AMD through registers."""
    return bool(arch.async_copy) or arch.vendor == "amd"


def ahead(arch: Arch, num_stages: Values, async_a: Values, async_b: Values) -> Values:
    """Only what the pipeline copies is ahead; the other operand is loaded, waited for and used within the step.

    On AMD a step loads for a later one into registers and stores those to LDS before it ends: however many buffers
    there are, a load has one step's time. Source: Triton 3.6's IR for gfx90a to gfx1200.
    """
    steps = 1 if arch.vendor == "amd" else np.maximum(num_stages - 1, 1)
    return np.where((async_a > 0) | (async_b > 0), steps, 1)


def buffers(num_stages: Values, instruction: Values) -> Values:
    """Copies of a tile in shared memory.

    wgmma and tcgen05 read it while the copies of the last stage land; mma.sync, mfma and wmma have loaded their
    fragments by then. One stage is no pipeline, and one copy.
    """
    return np.where((instruction >= WGMMA) & (num_stages > 1), num_stages, np.maximum(num_stages - 1, 1))


def rounded(need: Values) -> Values:
    """Registers are allocated by eights."""
    return -(-need // 8) * 8


def amd_instruction_rows(arch: Arch, rows: Values, columns: Values, element_bytes: Values = 2) -> Values:
    """Rows, and columns, of the matrix instruction that a tile is multiplied with: CDNA's has a sibling of 32 x 32, but
    for float64."""
    wide = (arch.warp_size == 64) & (np.minimum(rows, columns) >= 32) & (np.asarray(element_bytes) < 8)
    return np.where(wide, 32, 16)


# one tl.dot, or several that share their first operand, in a loop over K


def instruction(
    arch: Arch, tcgen05: Values, wgmma: Values, mma: Values, matrix: Values, a_float8: Values, a_bytes: Values,
    tile_m: Values, tile_k: Values, num_warps: Values,
) -> Values:  # fmt: skip
    units = {"tcgen05": tcgen05, "wgmma": wgmma, "mma": mma, "matrix": matrix}
    wide = (tile_k * a_bytes >= 32) & ((a_bytes > 1) | (a_float8 > 0))
    return instruction_of(arch, units, tile_m, num_warps, wide, a_bytes)


def warps_n(
    arch: Arch, instruction: Values, tile_m: Values, tile_n: Values, num_warps: Values, a_bytes: Values,
    b_tiles: Values = 1,
) -> Values:  # fmt: skip
    """The grid of warps over the tile follows its aspect ratio; of a step with two products, on NVIDIA, all warps stand
    along the longer side."""
    if arch.vendor == "amd":
        return np.where(instruction == MMA, _amd_warps_n(arch, tile_m, tile_n, num_warps, a_bytes), 1)
    across = pow2(np.maximum(1, tile_n * num_warps // tile_m) ** 0.5 * 0.7072)
    of_one = np.minimum(np.minimum(num_warps, across), np.maximum(1, tile_n // 8))
    return np.where((instruction == MMA) & (b_tiles > 1), np.where(tile_m >= tile_n, 1, num_warps), of_one)


def _amd_warps_n(arch: Arch, tile_m: Values, tile_n: Values, num_warps: Values, element_bytes: Values) -> Values:
    """Warps are dealt out one doubling at a time, to the rows while a warp has twice as many of them as of columns."""
    size = amd_instruction_rows(arch, tile_m, tile_n, element_bytes)
    down = across = np.ones_like(tile_m * tile_n * num_warps)
    for _ in range(int(np.max(num_warps)).bit_length() - 1):
        tall = (tile_m // (2 * size) // down >= tile_n // size // across) & (down < tile_m // size)
        left = down * across < num_warps
        down, across = np.where(left & tall, 2 * down, down), np.where(left & ~tall, 2 * across, across)
    return np.where(across * size > tile_n, down, across)


def warps_m(num_warps: Values, warps_n: Values) -> Values:
    return num_warps // warps_n


def product_copies(
    arch: Arch, instruction: Values, tile_m: Values, tile_n: Values, warps_m: Values, warps_n: Values
) -> Values:
    """Warps are laid beyond a tile that has fewer instructions along a side, and multiply what others do.

    On AMD it is no term: its tuned files have eight warps on tiles of 16 rows, and would rank far lower with it.
    """
    copies = np.maximum(warps_m * 16 // tile_m, 1) * np.maximum(warps_n * 8 // tile_n, 1)
    return np.where((instruction == MMA) & (arch.vendor != "amd"), copies, 1)


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


def turned_a(turns: Values, narrow_b: Values, bytewise: Values, a_k_last: Values, instruction: Values) -> Values:
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


def _copy_bytes(
    known: Values, thread_bytes: Values, turned: Values, turns: Values, a_bytes: Values, instruction: Values
) -> Values:  # fmt: skip
    """`thread_bytes`: a thread's share of the tile, which it copies in one piece at most."""
    by_type = np.where(instruction >= WGMMA, np.where(a_bytes == 4, 4, 16), np.where(a_bytes == 4, 16, 8))
    return np.minimum(np.minimum(known, thread_bytes), np.where(turns & turned, by_type, WIDEST_COPY_BYTES))


def _thread_bytes(rows: Values, tile_k: Values, element: Values, threads: Values) -> Values:
    return np.maximum(rows * tile_k // threads, 1) * element


def _known(align: Values, by_16: Values, element: Values, static_shapes: Values) -> Values:
    """Bytes that a row starts on a multiple of, as far as the compiler knows: of a stride that is an argument it
    learns only whether 16 divides it."""
    return np.where((static_shapes > 0) | (by_16 > 0), align, element)


def copy_a_bytes(
    align_a: Values, by_16_a: Values, a_bytes: Values, static_shapes: Values, turned_a: Values, turns: Values,
    instruction: Values, tile_m: Values, tile_k: Values, threads: Values,
) -> Values:  # fmt: skip
    known, own = _known(align_a, by_16_a, a_bytes, static_shapes), _thread_bytes(tile_m, tile_k, a_bytes, threads)
    return _copy_bytes(known, own, turned_a, turns, a_bytes, instruction)


def copy_b_bytes(
    align_b: Values, by_16_b: Values, b_bytes: Values, static_shapes: Values, turned_b: Values, turns: Values,
    a_bytes: Values, instruction: Values, tile_n: Values, tile_k: Values, threads: Values,
) -> Values:  # fmt: skip
    known, own = _known(align_b, by_16_b, b_bytes, static_shapes), _thread_bytes(tile_n, tile_k, b_bytes, threads)
    return _copy_bytes(known, own, turned_b, turns, a_bytes, instruction)


def _asynchronous(arch: Arch, copy: Values, turned: Values, bytewise: Values, instruction: Values) -> Values:
    through_registers = turned & bytewise & (instruction == WGMMA)
    any_width = arch.vendor == "amd" and (arch.warp_size == 32 or arch.isa in DIRECT_TO_LDS)
    wide = (copy >= LEAST_ASYNC_BYTES) | any_width
    return np.asarray(pipelines(arch)) & wide & np.logical_not(through_registers)


def async_a(arch: Arch, copy_a_bytes: Values, turned_a: Values, bytewise: Values, instruction: Values) -> Values:
    return _asynchronous(arch, copy_a_bytes, turned_a, bytewise, instruction)


def async_b(arch: Arch, copy_b_bytes: Values, turned_b: Values, bytewise: Values, instruction: Values) -> Values:
    return _asynchronous(arch, copy_b_bytes, turned_b, bytewise, instruction)


def async_copies(async_a: Values, async_b: Values) -> Values:
    return (async_a > 0) & (async_b > 0)


def exposed_loads(async_a: Values, async_b: Values) -> Values:
    return async_a != async_b


def synchronous_copies(arch: Arch, async_a: Values, async_b: Values, num_stages: Values) -> Values:
    """Without asynchronous copies, or with one stage, nothing is pipelined."""
    return np.asarray(pipelines(arch)) & (((async_a == 0) & (async_b == 0)) | (num_stages == 1))


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
    """wgmma and tcgen05 read a second operand that is converted on the way from a buffer of its own."""
    return (instruction >= WGMMA) & (b_converts > 0)


def _unprefetched(instruction: Values, num_stages: Values) -> Values:
    """Buffers of an operand that is no pipeline's: tcgen05 reads one while the next is stored."""
    return np.where((instruction == TCGEN05) & (num_stages > 1), 2, 1)


def buffers_a(buffers: Values, async_a: Values, instruction: Values, num_stages: Values) -> Values:
    return np.where(async_a > 0, buffers, _unprefetched(instruction, num_stages))


def buffers_b(
    buffers: Values, async_b: Values, instruction: Values, num_stages: Values, converted_b: Values
) -> Values:  # fmt: skip
    prefetched = np.where(converted_b > 0, num_stages - 1, buffers)
    return np.where(async_b > 0, prefetched, _unprefetched(instruction, num_stages))


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
    arch: Arch, tile_m: Values, tile_n: Values, threads: Values, num_warps: Values, warps_m: Values, out_bytes: Values,
    by_16_out: Values, static_shapes: Values, instruction: Values,
) -> Values:  # fmt: skip
    """Shared memory that sums pass on their way out, from the layout of the products to one of whole rows.

    What both layouts have in registers of one thread, rows mostly, passes piece by piece, but for what makes up one
    access of 16 bytes. Of halves stmatrix (from compute capability 9.0), which writes pairs, leaves more pieces, and
    so does ldmatrix where registers of a product hold what neighbouring lanes store: pairs in a row where all of its
    columns are one warp's, single ones, transposed, where a warp stores 256 columns; so does stmatrix, transposed,
    where all rows of a column are one lane's. AMD's products are stored as they are.
    """
    widest = np.where((static_shapes > 0) | (by_16_out > 0), WIDEST_COPY_BYTES // out_bytes, 1)
    wide = np.minimum(widest, np.maximum(tile_m * tile_n // threads, 1))
    lanes_n = np.minimum(arch.warp_size, np.maximum(tile_n // wide, 1))
    across = np.maximum(tile_n // (wide * lanes_n), 1)
    stored = arch.warp_size // lanes_n * (num_warps // np.minimum(num_warps, across))
    multiplied = np.where(instruction == MMA, 16 * warps_m, np.minimum(tile_m, 16 * num_warps))
    rows = np.maximum(tile_m // np.maximum(stored, multiplied), 1)
    pairs = np.where(instruction == TCGEN05, wide, np.minimum(wide, 2) * np.where(stored <= 8, 2, 1))
    warps_n = num_warps // warps_m
    halves = (out_bytes == 2) & (wide == 8) & (instruction == MMA)
    paired = np.where(arch.cc_major >= 9, (out_bytes == 2) & (wide > 1), halves & (lanes_n >= 4) & (warps_n == 1))
    single = halves & (arch.cc_major < 9) & (lanes_n == 32) & (warps_n <= 4)
    single |= (arch.cc_major >= 9) & (out_bytes == 2) & (wide == 1) & (stored == 1)
    access = np.select([single, paired], [1, 2], WIDEST_COPY_BYTES // out_bytes)
    pieces = np.maximum(rows * pairs * np.maximum(across // num_warps, 1) // access, 1)
    return np.where((instruction >= MMA) & (arch.vendor != "amd"), tile_m * tile_n * out_bytes // pieces, 0)


def smem_bytes(
    arch: Arch, tile_m: Values, tile_n: Values, tile_k: Values, a_bytes: Values, b_bytes: Values, buffers_a: Values,
    buffers_b: Values, converted_b: Values, leaving_bytes: Values, synchronous_copies: Values, instruction: Values,
    num_stages: Values, threads: Values, async_b: Values, b_converts: Values, b_tiles: Values = 1,
    kept_sums: Values = 0, staged_bytes: Values = 0,
) -> Values:  # fmt: skip
    """`b_tiles`: tiles of the second operand in a step, each with its own product; without a pipeline they pass
    through one buffer. Where products are scaled before
    they are added (`kept_sums`), scales that are loaded once for the block pass shared memory. `staged_bytes`: what
    else the pipeline copies for a step.

    On AMD the operands of a loop without a pipeline pass through one buffer, one after the other; beside a pipeline
    the second one is converted before it.
    """
    apart = (async_b == 0) & (synchronous_copies == 0) & (tile_n * tile_k >= threads)
    element = np.where((arch.vendor == "amd") & (b_converts > 0) & apart, a_bytes, b_bytes)
    of_a, of_b = buffers_a * tile_m * a_bytes, tile_n * (buffers_b * element + converted_b * a_bytes)
    one_buffer = (arch.vendor == "amd") & (synchronous_copies > 0) & (instruction == MMA)
    barriers = np.where(instruction == TCGEN05, b_tiles * np.where(num_stages > 1, 2, 1) * BARRIER_BYTES, 0)
    # the lanes of tensor memory are rows: scales of rows are where they are needed
    of_columns = np.where((tile_n >= threads) | (instruction == TCGEN05), tile_n, 0)
    of_rows = np.where((tile_m >= threads) & (instruction != TCGEN05), tile_m, 0)
    scales = np.where(np.asarray(kept_sums) > 0, SCALE_BYTES * np.maximum(of_rows, of_columns), 0)
    held = np.where((async_b > 0) | (instruction == TCGEN05), b_tiles, 1)
    loaded = np.where(one_buffer, np.maximum(of_a, of_b), of_a + held * of_b)
    staged = np.maximum(num_stages - 1, 1) * staged_bytes
    return np.maximum(tile_k * loaded + barriers + scales + staged, leaving_bytes)


def serialized(
    instruction: Values, num_warps: Values, tile_n: Values, out_bytes: Values, a_k_last: Values, b_k_last: Values,
    a_integer: Values, static_shapes: Values,
) -> Values:  # fmt: skip
    """Triton 3.6 copies sums within such a loop: ptxas says C7515 and lets each wgmma wait for the one before (3.9
    does not, nor does 3.6 where sizes are constants)."""
    layout = (a_k_last > 0) & (b_k_last > 0) & (a_integer == 0) & (static_shapes == 0)
    return (instruction == WGMMA) & (num_warps >= 8) & (tile_n * out_bytes == 512) & layout


def accumulators(tile_m: Values, tile_n: Values, threads: Values, acc_bytes: Values, b_tiles: Values = 1) -> Values:
    """Registers of a thread's sums."""
    return b_tiles * tile_m * tile_n // threads * np.maximum(1, acc_bytes // 4)


def tmem_columns(instruction: Values, tile_m: Values, tile_n: Values, b_tiles: Values = 1) -> Values:
    """Columns of tensor memory, 128 lanes high, that hold the sums of tcgen05; at least 32 are allocated."""
    columns = b_tiles * np.maximum(32, tile_n) * -(-tile_m // 128)
    return np.where(instruction == TCGEN05, allocated_columns(columns), 0)


def allocated_columns(columns: Values) -> Values:
    """Tensor memory is allocated by powers of two, 32 columns at least."""
    return np.maximum(32, pow2(columns))


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
    instruction: Values, num_stages: Values, b_tiles: Values = 1, kept_sums: Values = 0,
) -> Values:  # fmt: skip
    """`kept_sums`: registers of sums that a step adds its own to, where tl.dot does not."""
    copied = tile_m * a_bytes // copy_a_bytes + b_tiles * tile_n * b_bytes // copy_b_bytes
    copies = tile_k * copied // threads
    if arch.vendor == "amd":
        # a step's fragments are loaded before the first product, and the copies of the next wait in registers
        lane_bytes = (tile_m // warps_m * a_bytes + b_tiles * tile_n // warps_n * b_bytes) * tile_k // arch.warp_size
        fragments = lane_bytes // 4
        waiting = tile_m * np.maximum(a_bytes, 4 * a_bytes // copy_a_bytes)
        waiting = waiting + b_tiles * tile_n * np.maximum(b_bytes, 4 * b_bytes // copy_b_bytes)
        loads = copies + 2 * (tile_k * waiting // (4 * threads)) // 5
        by_warps = _amd_registers(arch, threads, num_stages, tile_k, accumulators, fragments, copies, loads)
        by_warps = by_warps + np.where(np.asarray(kept_sums) > 0, 48 + kept_sums // 2, 0)
    else:
        fragments = (tile_m // (4 * warps_m) + tile_n // (4 * warps_n)) * np.where(a_bytes == 8, 4, 1)
        copies_a = tile_k * tile_m * a_bytes // copy_a_bytes // threads
        by_warps = 32 + accumulators + accumulators // 8 + fragments + 3 * copies_a + 7 * (copies - copies_a) // 4
    by_groups = accumulators + accumulators // 6 + 5 * copies // 2 + 21
    by_threads = 37 + accumulators + 6 * (accumulators // b_tiles) // 5 + 8 * copies // 5
    # sums come out of tensor memory when the loop is over, many of them in parts
    by_block = 20 + np.minimum(accumulators, 128) + 5 * np.maximum(accumulators - 128, 0) // 8 + copies // 3
    by_block = by_block + 8 * -(-tile_m // threads)  # rows of each thread
    kinds = [instruction == TCGEN05, instruction == WGMMA, instruction == MMA]
    need = kept_sums + np.select(kinds, [by_block, by_groups, by_warps], by_threads)
    # of a step of two instructions ptxas can take one part of the tile after another: a part's own sums live shortly
    most = arch.max_regs_per_thread
    shallow = (instruction == MMA) & (np.asarray(kept_sums) > 0) & (tile_k * a_bytes <= 64) & (arch.vendor != "amd")
    return rounded(np.where(shallow & (need > most), np.maximum(need - accumulators, most), need))


def _amd_registers(
    arch: Arch, threads: Values, num_stages: Values, tile_k: Values, accumulators: Values, fragments: Values,
    copies: Values, loads: Values,
) -> Values:  # fmt: skip
    """Of matrix instructions. Where a thread may have all that the instruction set names, LLVM keeps sums twice; RDNA 3
    keeps operands twice, in both halves of a wave."""
    if arch.warp_size == 64:
        few = 24 + 2 * accumulators + 3 * fragments // 5 + loads
        many = 26 + 3 * accumulators // 4 + 2 * fragments // 3 + 3 * copies // 2
        return np.where(arch.regs_per_sm // threads >= arch.max_regs_per_thread, few, many)
    if arch.isa.startswith("gfx11"):
        return 40 + 3 * accumulators // 4 + 11 * fragments // 10 + 2 * copies
    deep = np.where(num_stages > 2, 4, 2) * accumulators * (tile_k // 256)
    return 24 + 9 * accumulators // 8 + fragments // 2 + 2 * copies + deep


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


# element by element


def access_elements(
    tile_elements: Values, threads: Values, in_bytes: Values, tile_c: Values = 2**31, by_16: Values = 1
) -> Values:
    """A thread's elements side by side, at most 16 bytes of them and a row of the tile; one where the size that masks
    the loads is an argument that 16 does not divide, of which the compiler knows nothing."""
    widest = np.minimum(WIDEST_COPY_BYTES // in_bytes, tile_c)
    return np.where(by_16, np.maximum(1, np.minimum(widest, tile_elements // threads)), 1)


def named(*functions: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    return {function.__name__: function for function in functions}


_DOT = named(
    warps, threads, instruction, warps_n, warps_m, product_copies, bytewise, narrow_b, turns, turned_a, turned_b,
    singles_a, singles_b, single_conflicts_a, single_conflicts_b, copy_a_bytes, copy_b_bytes, async_a, async_b,
    async_copies, ahead, exposed_loads, synchronous_copies, single_copy_instr, scattered_a, scattered_b, padded_loads,
    converted_b, buffers, buffers_a, buffers_b, lanes_across, lane_read_a_bytes, lane_read_b_bytes, lane_reads_a,
    lane_reads_b, lane_passes_a, lane_passes_b, leaving_bytes, smem_bytes, tmem_columns, warp_instr, serialized,
    accumulators, registers, scale_columns,
)  # fmt: skip
COLUMNS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "contraction": _DOT,
    "gated": _DOT,
    "matmul_softmax": _DOT,
    "stream": named(warps, threads, access_elements),
}  # fmt: skip
"""The functions that fill the columns of a cost model, by its name."""
