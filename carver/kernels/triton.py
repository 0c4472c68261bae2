"""What Triton's compiler decides for a kernel: instruction, layout, copies, pipeline, shared memory, registers.

A declaration with `compiler = "triton"` takes its columns from here, except those that its own [schedule] gives. Each
function computes the column of its name, for all candidates at once. Its parameters are named after the columns,
tunables and scalars that it reads; a parameter with a default is for declarations that say more about their kernel.
`num_warps` and `num_stages` are Triton's own options. Source: IR, PTX and SASS of Triton 3.6 for compute capability 7.5
to 10.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from .expr import pow2
from .scope import MMA, TCGEN05, VECTOR, WGMMA
from .triton_lanes import (
    WIDEST_COPY_BYTES,
    Values,
    lane_extent,
    lane_passes_a,
    lane_passes_b,
    lane_read_a_bytes,
    lane_read_b_bytes,
    lane_reads_a,
    lane_reads_b,
    lane_rows,
    lanes_across,
    staged_bytes_of,
    staged_wide,
)

LEAST_ASYNC_BYTES = 4
"""Least width of an asynchronous copy: cp.async takes 4, 8 or 16 bytes. On CDNA before CDNA 4 the compiler prefetches
nothing narrower either."""
DIRECT_TO_LDS = ("gfx950",)
"""Instruction sets of CDNA with loads directly to LDS: CDNA 4."""
SCALE_BYTES = 4
BARRIER_BYTES = 8
"""Size of a barrier in shared memory. tcgen05 uses one or two to signal that it has read its operands."""


# for every kernel


def warps(num_warps: Values) -> Values:
    return num_warps


def threads(num_warps: Values, arch: Arch) -> Values:
    return num_warps * arch.warp_size


def instruction_of(
    arch: Arch, units: Mapping[str, int], rows: Values, num_warps: Values, wide: Values, element_bytes: Values
) -> Values:  # fmt: skip
    """The instruction that tl.dot becomes, for a tile of `rows` rows; `wide` says whether tcgen05 takes the operands.

    tcgen05 takes floats, and needs four or eight warps to read back its sums; otherwise wgmma or mma.sync is used.
    Before compute capability 8.0, and for float64 from 10.0 on, the compiler uses the vector units even if there are
    tensor cores.
    """
    whole_block = (units["tcgen05"] > 0) & (rows >= 64) & ((num_warps == 4) | (num_warps == 8)) & wide
    whole_group = (units["wgmma"] > 0) & (rows >= 64) & (num_warps % 4 == 0)
    compiled = (np.asarray(element_bytes) < 8) | (arch.cc_major < 10)
    by_warps = (units["matrix"] > 0) & (arch.async_copy | (units["mma"] == 0)) & compiled
    return np.select([whole_block, whole_group, by_warps], [TCGEN05, WGMMA, MMA], VECTOR)


def pipelines(arch: Arch) -> bool:
    """Whether the compiler prefetches the loads of a loop: by asynchronous copies, or through registers on AMD."""
    return bool(arch.async_copy) or arch.vendor == "amd"


def ahead(arch: Arch, num_stages: Values, async_a: Values, async_b: Values, singly: Values = 0) -> Values:
    """Steps by which the pipelined loads run ahead. An operand outside the pipeline is loaded and used in one step; a
    step that loads it element by element (`singly`) waits for nothing else.

    On AMD a step loads data of a later step into registers, and stores them to LDS before it ends. So a load has the
    time of one step, however many buffers there are. Source: Triton 3.6's IR for gfx90a to gfx1200.
    """
    steps = 1 if arch.vendor == "amd" else np.maximum(num_stages - 1, 1)
    return np.where(((async_a > 0) | (async_b > 0)) & (np.asarray(singly) == 0), steps, 1)


def buffers(num_stages: Values, instruction: Values) -> Values:
    """Number of buffers of a tile in shared memory.

    wgmma and tcgen05 still read one buffer when the copies of the last stage arrive, so they need one per stage.
    mma.sync, mfma and wmma have loaded their fragments by then, and need one less. One stage means no pipeline.
    """
    return np.where((instruction >= WGMMA) & (num_stages > 1), num_stages, np.maximum(num_stages - 1, 1))


def waits_at_barriers(arch: Arch) -> bool:
    """Whether a barrier waits for all loads that are under way. LLVM puts such a wait before each barrier on RDNA, but
    not on CDNA from CDNA 2 on (assembly of Triton 3.6 for gfx90a to gfx1201)."""
    return arch.vendor == "amd" and arch.warp_size == 32


def no_overlap(arch: Arch, instruction: Values, num_stages: Values, copied: Values) -> Values:
    """Whether the products of a step overlap with none of its loads; `copied` says that some are prefetched.

    With mma.sync and vector units, copies have one buffer less than stages, so a copy begins when the products of a
    step have read its buffer. On RDNA, the first operand's load is waited for before the products, and the second's
    begins among the last of them. Source: Triton 3.6's SASS for compute capability 8.0 to 9.0, and assembly for gfx1100
    and gfx1201."""
    apart = np.asarray((arch.vendor == "nvidia") | waits_at_barriers(arch))
    return (instruction < WGMMA) & (num_stages > 1) & copied & apart


def rounded(need: Values) -> Values:
    """Registers rounded up to 8, the unit of allocation."""
    return -(-need // 8) * 8


def amd_instruction_rows(
    arch: Arch, rows: Values, columns: Values, element_bytes: Values = 2, asked: Values = 0
) -> Values:
    """Rows (and columns) of the matrix instruction for a tile: 16, or 32 on CDNA if the tile has as many, except for
    float64. `asked` is the option `matrix_instr_nonkdim`, 0 if the compiler chooses."""
    if arch.warp_size != 64:
        return np.asarray(16)
    wide = (np.minimum(rows, columns) >= 32) & (np.asarray(element_bytes) < 8)
    return np.where(np.asarray(asked) > 0, asked, np.where(wide, 32, 16))


# for kernels with one tl.dot, or several with a common first operand, in a loop over K


def instruction(
    arch: Arch, tcgen05: Values, wgmma: Values, mma: Values, matrix: Values, a_float8: Values, a_bytes: Values,
    tile_m: Values, tile_k: Values, num_warps: Values,
) -> Values:  # fmt: skip
    units = {"tcgen05": tcgen05, "wgmma": wgmma, "mma": mma, "matrix": matrix}
    wide = (tile_k * a_bytes >= 32) & ((a_bytes > 1) | (a_float8 > 0))
    return instruction_of(arch, units, tile_m, num_warps, wide, a_bytes)


def warps_n(
    arch: Arch, instruction: Values, tile_m: Values, tile_n: Values, num_warps: Values, a_bytes: Values,
    b_tiles: Values = 1, matrix_instr_nonkdim: Values = 0,
) -> Values:  # fmt: skip
    """Warps along the columns. The grid of warps follows the tile's aspect ratio. If a step has several products, on
    NVIDIA all warps are placed along the longer side."""
    if arch.vendor == "amd":
        rows = amd_instruction_rows(arch, tile_m, tile_n, a_bytes, matrix_instr_nonkdim)
        return np.where(instruction == MMA, _amd_warps_n(rows, tile_m, tile_n, num_warps), 1)
    across = pow2(np.maximum(1, tile_n * num_warps // tile_m) ** 0.5 * 0.7072)
    of_one = np.minimum(np.minimum(num_warps, across), np.maximum(1, tile_n // 8))
    return np.where((instruction == MMA) & (b_tiles > 1), np.where(tile_m >= tile_n, 1, num_warps), of_one)


def _amd_warps_n(size: Values, tile_m: Values, tile_n: Values, num_warps: Values) -> Values:
    """Warps along the columns on AMD. The compiler doubles the grid of warps step by step: along the rows while a warp
    has at least twice as many instructions there as along the columns, else along the columns."""
    down = across = np.ones_like(tile_m * tile_n * num_warps)
    for _ in range(int(np.max(num_warps, initial=1)).bit_length() - 1):
        tall = (tile_m // (2 * size) // down >= tile_n // size // across) & (down < tile_m // size)
        left = down * across < num_warps
        down, across = np.where(left & tall, 2 * down, down), np.where(left & ~tall, 2 * across, across)
    return np.where(across * size > tile_n, down, across)


def warps_m(num_warps: Values, warps_n: Values) -> Values:
    return num_warps // warps_n


def product_copies(
    arch: Arch, instruction: Values, tile_m: Values, tile_n: Values, warps_m: Values, warps_n: Values,
    a_bytes: Values, matrix_instr_nonkdim: Values = 0,
) -> Values:  # fmt: skip
    """Number of warps that compute the same products. If a side of the tile has fewer instructions than warps, the
    surplus warps repeat those of others."""
    rows, columns = np.asarray(16), np.asarray(8)
    if arch.vendor == "amd":
        rows = columns = amd_instruction_rows(arch, tile_m, tile_n, a_bytes, matrix_instr_nonkdim)
    copies = np.maximum(warps_m * rows // tile_m, 1) * np.maximum(warps_n * columns // tile_n, 1)
    return np.where(instruction == MMA, copies, 1)


def bytewise(one_type: Values, a_bytes: Values) -> Values:
    """Whether both operands have elements of one byte."""
    return (one_type > 0) & (a_bytes == 1)


def narrow_b(b_bytes: Values, b_converts: Values) -> Values:
    """Whether the second operand has elements of one byte and is converted to the type of the first."""
    return (b_bytes == 1) & (b_converts > 0)


def turns(
    bytewise: Values, narrow_b: Values, a_bytes: Values, mma: Values, wgmma: Values, tcgen05: Values,
    a_k_last: Values, b_k_last: Values,
) -> Values:  # fmt: skip
    """Whether an operand must be transposed because K is not contiguous in memory.

    NVIDIA's instructions take elements of 8 and 32 bits only with K contiguous. An operand stored otherwise is moved
    element by element: during the copy into shared memory if wgmma or tcgen05 reads it, else when each warp reads its
    share.
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
    """Passes of the shared-memory port when a warp copies single elements. Copies of 4 bytes go to a different line for
    each lane: at most 32 passes, 24 to 28 measured on an H200. Of bytes, those of one vector along m or n fall into one
    bank."""
    return np.where(instruction < WGMMA, 1, np.where(a_bytes == 4, 24, np.maximum(1, extent // 16)))


def single_conflicts_a(instruction: Values, a_bytes: Values, tile_m: Values) -> Values:
    return _single_conflicts(instruction, a_bytes, tile_m)


def single_conflicts_b(instruction: Values, a_bytes: Values, tile_n: Values) -> Values:
    return _single_conflicts(instruction, a_bytes, tile_n)


def _copy_bytes(
    known: Values, thread_bytes: Values, turned: Values, turns: Values, a_bytes: Values, instruction: Values
) -> Values:  # fmt: skip
    """Width of a copy: at most the known alignment, a thread's share of the tile (`thread_bytes`), and the widest copy
    for its layout."""
    by_type = np.where(instruction >= WGMMA, np.where(a_bytes == 4, 4, 16), np.where(a_bytes == 4, 16, 8))
    return np.minimum(np.minimum(known, thread_bytes), np.where(turns & turned, by_type, WIDEST_COPY_BYTES))


def _thread_bytes(rows: Values, tile_k: Values, element: Values, threads: Values) -> Values:
    return np.maximum(rows * tile_k // threads, 1) * element


def _known(align: Values, by_16: Values, element: Values, static_shapes: Values) -> Values:
    """Alignment of rows as far as the compiler knows it. [bytes] If a stride is an argument, the compiler only knows
    whether 16 divides it."""
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


def any_width(arch: Arch) -> bool:
    """Whether the compiler prefetches copies narrower than `LEAST_ASYNC_BYTES` too: on RDNA and CDNA 4."""
    return arch.vendor == "amd" and (arch.warp_size == 32 or arch.isa in DIRECT_TO_LDS)


def _asynchronous(arch: Arch, copy: Values, turned: Values, bytewise: Values, instruction: Values) -> Values:
    through_registers = turned & bytewise & (instruction == WGMMA)
    wide = (copy >= LEAST_ASYNC_BYTES) | any_width(arch)
    return np.asarray(pipelines(arch)) & wide & np.logical_not(through_registers)


def async_a(arch: Arch, copy_a_bytes: Values, turned_a: Values, bytewise: Values, instruction: Values) -> Values:
    return _asynchronous(arch, copy_a_bytes, turned_a, bytewise, instruction)


def async_b(arch: Arch, copy_b_bytes: Values, turned_b: Values, bytewise: Values, instruction: Values) -> Values:
    return _asynchronous(arch, copy_b_bytes, turned_b, bytewise, instruction)


def async_copies(async_a: Values, async_b: Values) -> Values:
    return (async_a > 0) & (async_b > 0)


def products_apart(
    arch: Arch, instruction: Values, num_stages: Values, async_a: Values, async_b: Values
) -> Values:  # fmt: skip
    return no_overlap(arch, instruction, num_stages, (np.asarray(async_a) > 0) | (np.asarray(async_b) > 0))


def exposed_loads(arch: Arch, async_a: Values, async_b: Values, num_stages: Values) -> Values:
    """Loads of a step that nothing hides: of one operand, if only the other is prefetched. On RDNA, the step's first
    barrier waits for the load of the first operand, which has just begun."""
    waited = np.asarray(waits_at_barriers(arch)) & (num_stages > 1) & (async_a > 0) & (async_b > 0)
    return (async_a != async_b) | waited


def synchronous_copies(arch: Arch, async_a: Values, async_b: Values, num_stages: Values) -> Values:
    """Whether nothing is pipelined: without asynchronous copies, or with one stage."""
    return np.asarray(pipelines(arch)) & (((async_a == 0) & (async_b == 0)) | (num_stages == 1))


def single_copy_instr() -> Values:
    """Instructions to copy one element: pointer, load, packing, store. The SASS has 7 to 9."""
    return 8


def scattered_a(a_k_last: Values, static_shapes: Values, by_16_a: Values) -> Values:
    """Whether the lanes of a load go to different rows. The compiler does not know that indices m % M are contiguous
    unless 16 divides M, and then places the lanes along K."""
    return (a_k_last == 0) & (static_shapes == 0) & (by_16_a == 0)


def scattered_b(b_k_last: Values, static_shapes: Values, by_16_b: Values) -> Values:
    return (b_k_last == 0) & (static_shapes == 0) & (by_16_b == 0)


def padded_loads() -> Values:
    """Always: rows past the edge wrap around to the first ones (m % M), and are loaded."""
    return 1


def converted_b(instruction: Values, b_converts: Values) -> Values:
    """Whether the second operand is converted into a separate buffer, from which wgmma and tcgen05 read it."""
    return (instruction >= WGMMA) & (b_converts > 0)


def _unprefetched(instruction: Values, num_stages: Values) -> Values:
    """Buffers of an operand outside the pipeline: two for tcgen05, which reads one while the other is written."""
    return np.where((instruction == TCGEN05) & (num_stages > 1), 2, 1)


def buffers_a(buffers: Values, async_a: Values, instruction: Values, num_stages: Values) -> Values:
    return np.where(async_a > 0, buffers, _unprefetched(instruction, num_stages))


def buffers_b(
    buffers: Values, async_b: Values, instruction: Values, num_stages: Values, converted_b: Values
) -> Values:  # fmt: skip
    prefetched = np.where(converted_b > 0, num_stages - 1, buffers)
    return np.where(async_b > 0, prefetched, _unprefetched(instruction, num_stages))


def leaving_bytes(
    arch: Arch, tile_m: Values, tile_n: Values, threads: Values, num_warps: Values, warps_m: Values, out_bytes: Values,
    by_16_out: Values, static_shapes: Values, instruction: Values,
) -> Values:  # fmt: skip
    """Shared memory in which sums are rearranged from the layout of the products to one that stores whole rows.

    The tile passes in pieces that reuse one buffer. It is divided along what each thread holds in several registers in
    both layouts, mostly rows, but the elements of one 16-byte access stay together. Halves are accessed in smaller
    units, which allows more pieces and a smaller buffer:

    - by stmatrix, from compute capability 9.0, in pairs; transposed, where one lane has all rows of a column, singly;
    - by ldmatrix, before, in pairs if one warp has all columns of the tile; transposed, if a warp stores 256 columns,
      singly.

    AMD's products are stored from their own layout.
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
    num_stages: Values, threads: Values, async_b: Values, b_converts: Values, staged_wide: Values, b_tiles: Values = 1,
    kept_sums: Values = 0, staged_bytes: Values = 0,
) -> Values:  # fmt: skip
    """Shared memory of a block.

    `b_tiles` is the number of products in a step, each with its own tile of the second operand; without a pipeline
    these tiles share a buffer. With `kept_sums`, products are scaled before they are added; scales that are loaded once
    per block then pass through shared memory. `staged_bytes` is what else the pipeline copies in a step.

    On AMD, the operands of a loop without a pipeline share one buffer. A second operand outside of the pipeline is
    converted before it is written.
    """
    apart = (async_b == 0) & (synchronous_copies == 0) & (tile_n * tile_k >= threads)
    element = np.where((arch.vendor == "amd") & (b_converts > 0) & apart, a_bytes, b_bytes)
    of_a = buffers_a * tile_m * staged_bytes_of(staged_wide, a_bytes)
    of_b = tile_n * (buffers_b * staged_bytes_of(staged_wide, element) + converted_b * a_bytes)
    one_buffer = (arch.vendor == "amd") & (synchronous_copies > 0) & (instruction == MMA) | (staged_wide > 0)
    barriers = np.where(instruction == TCGEN05, b_tiles * np.where(num_stages > 1, 2, 1) * BARRIER_BYTES, 0)
    # each lane of tensor memory holds one row, so scales of rows need no exchange
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
    """Whether each wgmma waits for the one before. Triton 3.6 copies the sums within such loops, and ptxas then
    serialises (warning C7515). Triton 3.9 does not, nor does 3.6 if sizes are constants."""
    layout = (a_k_last > 0) & (b_k_last > 0) & (a_integer == 0) & (static_shapes == 0)
    return (instruction == WGMMA) & (num_warps >= 8) & (tile_n * out_bytes == 512) & layout


def accumulators(tile_m: Values, tile_n: Values, threads: Values, acc_bytes: Values, b_tiles: Values = 1) -> Values:
    """Registers that hold a thread's sums."""
    return b_tiles * tile_m * tile_n // threads * np.maximum(1, acc_bytes // 4)


def tmem_columns(instruction: Values, tile_m: Values, tile_n: Values, b_tiles: Values = 1) -> Values:
    """Columns of tensor memory, of 128 lanes each, that hold the sums of tcgen05."""
    columns = b_tiles * np.maximum(32, tile_n) * -(-tile_m // 128)
    return np.where(instruction == TCGEN05, allocated_columns(columns), 0)


def allocated_columns(columns: Values) -> Values:
    """Columns rounded up to an allocation of tensor memory: a power of two, at least 32."""
    return np.maximum(32, pow2(columns))


def warp_instr(
    arch: Arch, tile_m: Values, tile_n: Values, tile_k: Values, threads: Values, a_bytes: Values, b_bytes: Values,
    copy_a_bytes: Values, copy_b_bytes: Values, b_tiles: Values = 1,
) -> Values:  # fmt: skip
    """Vector instructions of a warp and step besides its products, on AMD; 0 elsewhere.

    There are 5 per copy on CDNA 3, 7 on CDNA 2, 3 to 4 on RDNA 3, and few others. Loads, LDS and scalar instructions
    have their own issue slots."""
    if arch.vendor != "amd":
        return 0
    copied = tile_m * a_bytes // copy_a_bytes + b_tiles * tile_n * b_bytes // copy_b_bytes
    return 8 + 6 * tile_k * copied // threads


def registers(
    arch: Arch, tile_m: Values, tile_n: Values, tile_k: Values, threads: Values, warps_m: Values, warps_n: Values,
    a_bytes: Values, b_bytes: Values, copy_a_bytes: Values, copy_b_bytes: Values, accumulators: Values,
    instruction: Values, num_stages: Values, staged_wide: Values, b_tiles: Values = 1, kept_sums: Values = 0,
) -> Values:  # fmt: skip
    """Registers per thread. `kept_sums` are registers of sums that tl.dot does not accumulate itself."""
    copied = tile_m * a_bytes // copy_a_bytes + b_tiles * tile_n * b_bytes // copy_b_bytes
    copies = tile_k * copied // threads
    if arch.vendor == "amd":
        # all fragments of a step are loaded before its first product, and the next step's copies wait in registers
        lane_bytes = (tile_m // warps_m * a_bytes + b_tiles * tile_n // warps_n * b_bytes) * tile_k // arch.warp_size
        fragments = lane_bytes // 4
        waiting = tile_m * np.maximum(a_bytes, 4 * a_bytes // copy_a_bytes)
        waiting = waiting + b_tiles * tile_n * np.maximum(b_bytes, 4 * b_bytes // copy_b_bytes)
        loads = copies + 2 * (tile_k * waiting // (4 * threads)) // 5
        by_warps = _amd_registers(arch, threads, num_stages, tile_k, a_bytes, accumulators, fragments, copies, loads)
        by_warps = by_warps + np.where(np.asarray(kept_sums) > 0, 48 + kept_sums // 2, 0)
    else:
        fragments = (tile_m // (4 * warps_m) + tile_n // (4 * warps_n)) * np.where(a_bytes == 8, 4, 1)
        copies_a = tile_k * tile_m * a_bytes // copy_a_bytes // threads
        by_warps = 32 + accumulators + accumulators // 8 + fragments + 3 * copies_a + 7 * (copies - copies_a) // 4
    by_groups = accumulators + accumulators // 6 + 5 * copies // 2 + 21
    rows, columns = lane_rows(tile_m, tile_n, threads), lane_extent(tile_m, tile_n, threads)
    by_threads = 37 + accumulators + 6 * (accumulators // b_tiles) // 5 + 8 * copies // 5
    by_threads = by_threads + np.where(staged_wide > 0, rows * tile_k, 0)
    if arch.vendor == "amd":  # LLVM reads most operands of a step before it multiplies them
        by_threads = 16 + accumulators + 7 * tile_k * (rows + b_tiles * columns) // 10 + 3 * copies
    # sums are read from tensor memory after the loop, large numbers of them in parts
    by_block = 20 + np.minimum(accumulators, 128) + 5 * np.maximum(accumulators - 128, 0) // 8 + copies // 3
    by_block = by_block + 8 * -(-tile_m // threads)  # rows of each thread
    # elements that are copied one by one pass through registers, with a pointer each, while no sums are there
    narrow = np.minimum(copy_a_bytes, copy_b_bytes) < LEAST_ASYNC_BYTES
    by_block = np.maximum(by_block, np.where(narrow, 25 + 3 * copies, 0))
    kinds = [instruction == TCGEN05, instruction == WGMMA, instruction == MMA]
    need = kept_sums + np.select(kinds, [by_block, by_groups, by_warps], by_threads)
    # if a step has at most two instructions along K, ptxas can multiply the tile part by part: its own sums are then
    # live for one part at a time
    most = arch.max_regs_per_thread
    shallow = (instruction == MMA) & (np.asarray(kept_sums) > 0) & (tile_k * a_bytes <= 64) & (arch.vendor != "amd")
    return rounded(np.where(shallow & (need > most), np.maximum(need - accumulators, most), need))


def _amd_registers(
    arch: Arch, threads: Values, num_stages: Values, tile_k: Values, a_bytes: Values, accumulators: Values,
    fragments: Values, copies: Values, loads: Values,
) -> Values:  # fmt: skip
    """`registers` for AMD's matrix instructions. On CDNA, LLVM keeps sums twice if threads may have all registers of
    the instruction set. On RDNA 3, both halves of a wave hold the operands. On RDNA 4, LLVM reads fragments of 8 bits
    as it multiplies them, while each copy of the next step waits in four registers, beside its pointer of two."""
    if arch.warp_size == 64:
        few = 24 + 2 * accumulators + 3 * fragments // 5 + loads
        many = 26 + 3 * accumulators // 4 + 2 * fragments // 3 + 3 * copies // 2
        return np.where(arch.regs_per_sm // threads >= arch.max_regs_per_thread, few, many)
    if arch.isa.startswith("gfx11"):
        return 40 + 3 * accumulators // 4 + 11 * fragments // 10 + 2 * copies
    deep = np.where(num_stages > 2, 4, 2) * accumulators * (tile_k // 256)
    of_bytes = 24 + accumulators + fragments // 8 + 6 * copies
    return np.where(a_bytes == 1, of_bytes, 24 + 9 * accumulators // 8 + fragments // 2 + 2 * copies) + deep


def scale_columns(
    tile_m: Values, tile_n: Values, threads: Values, warps: Values, instruction: Values, warps_n: Values
) -> Values:
    """Columns whose scales each thread loads in every step, for kernels that scale products before they add them.

    If the tile has fewer columns than the block has threads, Triton gives the load the layout of the sums: each thread
    loads the scales of all its columns, through a pointer of two registers each. Otherwise each scale is loaded once
    and read back from shared memory, and the result is 0. Warp groups are placed along the rows first.
    """
    groups = np.maximum(warps // 4, 1)
    across = np.where(instruction >= WGMMA, groups // np.minimum(groups, np.maximum(tile_m // 64, 1)), warps_n)
    return np.where(tile_n < threads, np.maximum(tile_n // (4 * across), 1), 0)


# for element-wise kernels


def access_elements(
    tile_elements: Values, threads: Values, in_bytes: Values, tile_c: Values = 2**31, by_16: Values = 1
) -> Values:
    """Elements that one access of a thread moves: at most 16 bytes, a row of the tile, or its share of the tile. Only
    one if loads are masked by a size that 16 does not divide, since the compiler then knows nothing of the mask."""
    widest = np.minimum(WIDEST_COPY_BYTES // in_bytes, tile_c)
    return np.where(by_16, np.maximum(1, np.minimum(widest, tile_elements // threads)), 1)


def named(*functions: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    return {function.__name__: function for function in functions}


_DOT = named(
    warps, threads, instruction, warps_n, warps_m, product_copies, bytewise, narrow_b, turns, turned_a, turned_b,
    singles_a, singles_b, single_conflicts_a, single_conflicts_b, copy_a_bytes, copy_b_bytes, any_width, async_a,
    async_b, async_copies, ahead, exposed_loads, synchronous_copies, single_copy_instr, scattered_a, scattered_b,
    padded_loads, converted_b, products_apart, buffers, buffers_a, buffers_b, staged_wide, lanes_across,
    lane_read_a_bytes, lane_read_b_bytes, lane_reads_a, lane_reads_b, lane_passes_a, lane_passes_b, leaving_bytes,
    smem_bytes, tmem_columns, warp_instr, serialized, accumulators, registers, scale_columns,
)  # fmt: skip
COLUMNS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "contraction": _DOT,
    "gated": _DOT,
    "matmul_softmax": _DOT,
    "stream": named(warps, threads, access_elements),
}  # fmt: skip
"""The functions that compute columns, by cost model."""
