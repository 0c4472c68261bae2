"""The columns of a contraction, the rates of the instructions that multiply its tiles, and thread tiles on the vector
units: how the operands of each thread reach its registers.

A thread holds `thread_m` x `thread_n` sums. For each k it reads its rows of one operand and its columns of the other,
and multiplies all pairs. It reads from shared memory if the block has staged the operand there, else through L1."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property, lru_cache

import numpy as np

from ..arch.descriptor import Arch, Matrix
from ..base.types import FloatArray, Record
from ..kernels.expr import VECTOR, matrix_unit, vector_dtype, warp_matrix_unit
from ..problem.problem import Problem
from .model import column, given, table


@table
class Operands:
    """Columns that all terms read."""

    arch: Arch
    problem: Problem
    a_bytes: FloatArray = given("bytes", "size of an element of the first operand")
    b_bytes: FloatArray = given("bytes", "size of an element of the second operand")
    tile_m: FloatArray = column("elements", "rows of the output that a block owns")
    tile_n: FloatArray = column("elements", "columns of the output that a block owns")
    tile_k: FloatArray = column("elements", "depth of one step along the reduction")


@table
class Block(Operands):
    """Columns of how a block is built, for the terms of one step of one block. None depends on the problem's sizes."""

    a_converts: FloatArray = given("flag", "the first operand is converted before it is multiplied")
    b_converts: FloatArray = given("flag", "the second operand is converted before it is multiplied")
    matrix_widens: FloatArray = given("flag", "the fastest matrix instruction needs the operands in a wider type")
    widen_instr: FloatArray = given("instructions", "to convert an element to the type of AMD's matrix instruction")
    mma_widens: FloatArray = given("flag", "the warp-level matrix instruction needs the operands in a wider type")
    mma_m: FloatArray = given("elements", "rows of the warp-level matrix instruction")
    mma_n: FloatArray = given("elements", "columns of the warp-level matrix instruction")
    warps: FloatArray = column("warps", "warps of a block that multiply")
    warps_m: FloatArray = column("warps", "warps along the rows of the tile")
    warps_n: FloatArray = column("warps", "warps along the columns of the tile")
    instruction: FloatArray = column("", "0 vector units, 1 mma or mfma, 2 wgmma, 3 tcgen05")
    smem_bytes: FloatArray = column("bytes", "shared memory of a block")
    registers: FloatArray = column("registers", "registers that a thread needs; those beyond the limit spill")
    ahead: FloatArray = column("steps", "prefetch distance: steps between the issue of a load and its use")
    product_copies: FloatArray = column("warps", "warps that repeat the same products, where a tile is too small", 1)
    threads: FloatArray | None = column("threads", "threads per block; by default those of all warps", None)
    copy_a_bytes: FloatArray = column("bytes", "width of one copy of the first operand", 16)
    copy_b_bytes: FloatArray = column("bytes", "width of one copy of the second operand", 16)
    resident_most: FloatArray | None = column("blocks", "for a persistent grid: largest number of blocks per SM", None)
    copy_warps: FloatArray = column("warps", "additional warps that only copy", 0)
    next_tile: FloatArray = column("flag", "persistent grid: loads of the next tile start before this one ends", 0)
    other_stores: FloatArray = column("flag", "for a persistent grid: some warps store while others multiply", 0)
    single_copy_instr: FloatArray | None = column("instructions", "of a copy that cannot be asynchronous", None)
    exposed_loads: FloatArray = column("loads", "loads of a step whose latency is not hidden at all", 0)
    products_apart: FloatArray = column("flag", "the loads of a step do not overlap with its products", 0)
    synchronous_copies: FloatArray = column("flag", "a step loads, waits, stores and multiplies, in turn", 0)
    scattered_a: FloatArray = column("flag", "the lanes of a load go to different rows of the first operand", 0)
    scattered_b: FloatArray = column("flag", "the lanes of a load go to different rows of the second operand", 0)
    singles_a: FloatArray = column("", "number of times that each element of the first operand is copied one by one", 0)
    singles_b: FloatArray = column("", "number of times that each element of the second is copied one by one", 0)
    single_conflicts_a: FloatArray = column("", "passes of the port to copy such elements of a warp, first operand", 1)
    single_conflicts_b: FloatArray = column("", "passes of the port to copy such elements of a warp, second operand", 1)
    converted_b: FloatArray = column("flag", "the second operand is converted into a separate buffer", 0)
    unpack_instr: FloatArray | None = column("instructions", "to unpack an element of B; else `convert_instr`", None)
    fragment_conflicts: FloatArray | None = column("", "passes of operand reads that alternate with products", None)
    lane_reads_a: FloatArray = column("reads", "on vector units: reads of the first operand per lane and step", 0)
    lane_reads_b: FloatArray = column("reads", "on vector units: reads of the second operand per lane and step", 0)
    lane_read_a_bytes: FloatArray = column("bytes", "on vector units: size of a lane's read of the first operand", 16)
    lane_read_b_bytes: FloatArray = column("bytes", "on vector units: size of a lane's read of the second operand", 16)
    lane_passes_a: FloatArray = column("", "passes of such a read of a warp, if lanes want one bank; first operand", 1)
    lane_passes_b: FloatArray = column("", "passes of such a read of a warp, if lanes want one bank; second one", 1)
    tmem_columns: FloatArray = column("columns", "columns of tensor memory for a block's sums", 0)
    warp_instr: FloatArray = column("instructions", "per warp and step besides products; 0: by the constants", 0)
    serialized: FloatArray = column("flag", "each wgmma waits for the previous one", 0)
    after_instr: FloatArray = column("instructions", "per thread on the sums of a step, after its products", 0)
    after_converts: FloatArray = column("sums", "per thread that are converted from integer to float before that", 0)
    start_loads: FloatArray = column("loads", "dependent loads before the first copy of a block", 0)
    row_scalars: FloatArray = column("elements", "further elements that a step loads, each from a different row", 0)
    store_run_bytes: FloatArray | None = column("bytes", "contiguous bytes of a store; by default a sector", None)

    @cached_property
    def lanes(self) -> FloatArray:
        return self.warps * self.arch.warp_size


@table
class Extent(Operands):
    """The sizes of a contraction, and the numbers of tiles, parts and steps that follow from them.

    A convolution's axes are multiplied together to `m n k b` as `expr.roles` says.
    """

    m: FloatArray = given("elements", "extent of the axes that are in the output and the first operand only")
    n: FloatArray = given("elements", "extent of the axes that are in the output and the second operand only")
    k: FloatArray = given("elements", "extent of the axes that are summed over")
    b: FloatArray = given("elements", "extent of the axes that are in the output and both operands")
    out_bytes: FloatArray = given("bytes", "size of an element of the output")
    acc_bytes: FloatArray = given("bytes", "size of an accumulator")
    a_reuse: FloatArray = given("", "distinct elements of the first operand over rows x depth; below 1 for windows")
    b_reuse: FloatArray = given("", "distinct elements of the second operand over columns x depth")
    split: FloatArray = column("", "parts of the reduction", 1)
    cluster: FloatArray = column("blocks", "blocks of a cluster, one below the other, which read B once", 1)
    row_tiles: FloatArray | None = column("tiles", "rows of tiles of the batch, if its matrices differ", None)

    @cached_property
    def grid_m(self) -> FloatArray:
        """Tiles along m, rounded up to whole clusters."""
        whole = np.ceil(self.m / (self.tile_m * self.cluster)) * self.cluster
        return whole if self.row_tiles is None else self.row_tiles / self.b

    @cached_property
    def grid_n(self) -> FloatArray:
        return np.ceil(self.n / self.tile_n)

    @cached_property
    def grid(self) -> FloatArray:
        return self.b * self.grid_m * self.grid_n * self.split

    @cached_property
    def steps(self) -> FloatArray:
        return np.ceil(np.ceil(self.k / self.tile_k) / self.split)

    @cached_property
    def rows(self) -> FloatArray:
        """Rows of a tile inside the problem; the mean if the matrices of a batch have different numbers of rows."""
        return np.minimum(self.tile_m, self.m if self.row_tiles is None else self.m / self.grid_m)

    @cached_property
    def cols(self) -> FloatArray:
        return np.minimum(self.tile_n, self.n)


@table
class Tile(Extent):
    """Columns of a contraction's layout in memory, for the terms that depend on sizes."""

    row_align_a: FloatArray = given("bytes", "alignment of each row of the first operand")
    row_align_b: FloatArray = given("bytes", "alignment of each row of the second operand")
    row_align_out: FloatArray = given("bytes", "alignment of each row of the output")
    a_k_contiguous: FloatArray = given("flag", "the innermost axis of the first operand is summed over")
    b_k_contiguous: FloatArray = given("flag", "the innermost axis of the second operand is summed over")
    a_run: FloatArray = given("elements", "contiguous elements of the first operand along axes of that kind")
    b_run: FloatArray = given("elements", "contiguous elements of the second operand along axes of that kind")
    group: FloatArray = column("", "rows of tiles that are walked together", 1)
    copy_a_bytes: FloatArray = column("bytes", "width of one copy of the first operand", 16)
    copy_b_bytes: FloatArray = column("bytes", "width of one copy of the second operand", 16)
    async_copies: FloatArray = column("flag", "copies into shared memory bypass the registers", 0)
    padded_loads: FloatArray = column("flag", "rows past the edge are fetched again rather than skipped", 0)
    atomic: FloatArray = column("flag", "partial results are added by compare-and-swap", 0)
    copied_bytes: FloatArray = column("bytes", "size of operands that a preceding kernel copies into another layout", 0)


PAIRED = 0.5
"""Share of float32 multiply-adds that compilers issue in pairs, on units with dual issue. On RDNA3 rocBLAS reaches 0.5
of the paired peak, a hand-scheduled kernel 0.8 (Optimizing Matrix Multiplication on RDNA3, seb-v.github.io, 2025)."""


def compiled_peak(arch: Arch, dtype: str) -> float:
    """Peak of one SM's vector units. With dual issue, float32 counts as far as compilers find pairs. [FLOP/clk]"""
    rate = arch.vector_flops_per_clk(dtype)
    return rate / (2 - PAIRED) if dtype == "float32" and rate > 2 * arch.lanes_per_sm else rate


def peak(problem: Problem, arch: Arch, kind: int) -> float:
    """Peak of the device for an instruction kind. [FLOP / SM clock]"""
    return _peaks(problem.sizeless, arch)[kind]


def _units(problem: Problem, arch: Arch) -> list[Matrix | None]:
    """The matrix instruction of each kind; None for vector units, which multiply where there is none."""
    return [None, warp_matrix_unit(problem, arch), *[matrix_unit(problem, arch)] * 2]


@lru_cache(maxsize=256)
def _peaks(problem: Problem, arch: Arch) -> tuple[float, ...]:
    vector = compiled_peak(arch, vector_dtype(problem, arch)) * arch.sustained_clock_hz / arch.clock_hz
    return tuple(
        unit.flops_per_clk_per_sm * arch.highest_of(unit) / arch.clock_hz if unit else vector
        for unit in _units(problem, arch)
    )


def products_an_instruction(problem: Problem, arch: Arch) -> float:
    """Products of a lane that one instruction of the vector units makes: two on packed halves, or of a dot product."""
    return max(1.0, peak(problem, arch, VECTOR) / (2 * arch.lanes_per_sm))


def peaks(problem: Problem, arch: Arch, kind: FloatArray) -> FloatArray:
    """`peak` for the instruction kind of each candidate."""
    return np.choose(np.asarray(kind, np.int64), _peaks(problem.sizeless, arch))


def held_back(problem: Problem, arch: Arch, kind: FloatArray) -> FloatArray:
    """By which factor the power limit slows the products of each candidate's instruction while all units run it."""
    return np.choose(np.asarray(kind, np.int64), _held_back(problem.sizeless, arch))


@lru_cache(maxsize=256)
def _held_back(problem: Problem, arch: Arch) -> tuple[float, ...]:
    return tuple(arch.highest_of(unit) / arch.sustained_of(unit) if unit else 1.0 for unit in _units(problem, arch))


def instruction_rows(kind: FloatArray, mma_m: FloatArray | float) -> FloatArray:
    """Rows of the tile that one matrix instruction multiplies at its full rate; 1 for vector units.

    tcgen05 also takes 64 rows, but uses half of its lanes. Source: PTX ISA, tcgen05 data path layouts.
    """
    return np.choose(np.asarray(kind, np.int64), [1, mma_m, 64, 128]).astype(np.float64)


def converts_per_clk(arch: Arch) -> float:
    """32-bit integers that an SM converts to float in a clock.

    NVIDIA uses I2F on the special-function units up to compute capability 8.0, later I2FP at half the rate of additions
    (SASS of Triton 3.6; `arch/isa/*.toml`). AMD's vector units convert as fast as they add.
    """
    if arch.cc is None:
        return float(arch.lanes_per_sm)
    return arch.sfu_per_clk if arch.cc <= (8, 0) else arch.lanes_per_sm / 2


def issue_per_clk(arch: Arch) -> float:
    """Instructions that the warp schedulers of an SM issue in a clock.

    On GCN and CDNA a SIMD has 16 lanes, so an instruction of 64 lanes occupies it for 4 clocks.
    """
    lanes = arch.lanes_per_sm / arch.schedulers_per_sm
    return arch.schedulers_per_sm * (min(1.0, lanes / arch.warp_size) if arch.vendor == "amd" else 1.0)


SPILL_READS = frozenset({"spill_rounds"})
"""Constants that this module's terms read."""
SCATTER = 16.0
"""Standard deviation of the registers that LLVM allocates around what a declaration says of its kernel. Source: 267
attentions for gfx1100 and gfx1201 that do not spill (tests/data/agreement)."""


def spill_slowdown(
    arch: Arch, warps: FloatArray, registers: FloatArray, busy_clk: FloatArray, k: Mapping[str, float]
) -> FloatArray:
    """Factor on the main loop of a kernel whose threads need more registers than they may have.

        1 + spill_rounds * 2 * spilled registers * warps * clocks of L1's port for a word of each lane / busy_clk

    On AMD these are the registers to be expected beyond the limit, since what is needed scatters (a logistic
    distribution): a kernel just below it may spill too. `busy_clk` is the time of the busiest resource of an SM for one
    step of one block. Source of the form: spills of Triton's kernels on an H200 and H100 (note.spills in tests/data),
    which slow long steps a little, short ones a lot.
    """
    most = np.minimum(arch.max_regs_per_thread, arch.regs_per_block / (warps * arch.warp_size))
    over, scale = registers - most, SCATTER * math.sqrt(3.0) / math.pi
    spilled = scale * np.logaddexp(0.0, over / scale) if arch.vendor == "amd" else np.maximum(over, 0.0)
    moved_clk = 2 * spilled * warps * WORD_BYTES * arch.warp_size / arch.smem_bytes_per_clk
    return 1.0 + k["spill_rounds"] * moved_clk / np.maximum(busy_clk, 1.0)


WORD_BYTES = 4
VECTOR_BYTES = 16
"""Widest load of a lane."""
BANKS = 32
SPILL_BYTES = 2 * WORD_BYTES
"""A spilled sum is read and written once per product."""

THREAD_READS = frozenset({
    "access_instr", "copy_instr", "load_waits", "port_overlap", "read_latency_clk", "read_merge", "smem_efficiency",
    "spill_traffic", "step_instr", "unroll_instr", "vector_efficiency",
})  # fmt: skip
"""Constants that this module's terms read."""


@table
class ThreadTile:
    """Further columns, beside `Block`, of a kernel in which each thread reads its own operands. Lanes and threads are
    numbered along n first."""

    thread_m: FloatArray = column("elements", "rows of a thread's tile")
    thread_n: FloatArray = column("elements", "columns of a thread's tile")
    lanes_m: FloatArray = column("threads", "lanes of a warp along m")
    lanes_n: FloatArray = column("threads", "lanes of a warp along n")
    vector_m: FloatArray = column("elements", "elements per read of the first operand")
    vector_n: FloatArray = column("elements", "elements per read of the second operand")
    fetch_m: FloatArray = column("threads", "threads that fetch one row of the first operand, if it is staged")
    fetch_n: FloatArray = column("threads", "threads that fetch one row of the second operand, if it is staged")
    interleaved_m: FloatArray = column("flag", "along m, a thread's vectors alternate with those of other threads", 0)
    interleaved_n: FloatArray = column("flag", "along n, a thread's vectors alternate with those of other threads", 0)
    staged_m: FloatArray = column("flag", "the first operand is staged in shared memory", 1)
    staged_n: FloatArray = column("flag", "the second operand is staged in shared memory", 1)
    pad_m: FloatArray = column("bytes", "padding of rows in shared memory, if written transposed, first operand", 0)
    pad_n: FloatArray = column("bytes", "padding of rows in shared memory, if written transposed, second operand", 0)
    staged_bytes: FloatArray | None = column("bytes", "an element in shared memory; by default as in the operand", None)
    unroll: FloatArray = column("", "unroll factor: products between two tests of the inner loop", 1)
    prefetched: FloatArray = column("flag", "loads of the next step are issued before the products of this one", 1)
    shared_k: FloatArray = column("threads", "threads that hold the same sums and divide the products of a step", 1)
    product_instr: FloatArray = column("instructions", "instructions per product", 1)


class Delivery(Record):
    """Costs of one step of one block: clocks of the load/store port, instructions of all warps, and latencies."""

    port_clk: FloatArray
    instructions: FloatArray
    latency_clk: FloatArray
    """Sum of the latencies that a warp waits for between its products."""
    fill_m: FloatArray
    fill_n: FloatArray
    """Bytes moved into the SM over bytes of the tile."""
    spill_bytes: FloatArray
    """Bytes of spilled sums that do not stay in L1."""
    waits: FloatArray
    """1 where a step begins with a load from global memory and a barrier, else 0."""
    exposed: FloatArray
    """Number of L2 latencies that a warp waits for between its products: each row of an operand that is not staged
    misses L1."""


def delivery(t: Block, own: ThreadTile, k: Mapping[str, float], resident: FloatArray) -> Delivery:
    """Costs of moving each candidate's operands to its threads; columns of `own` have shape (n,)."""
    arch, n = t.arch, len(own.thread_m)
    warps, tk, shared = t.warps, t.tile_k, own.shared_k
    threads = warps * arch.warp_size
    port = np.zeros(n)
    instructions = warps * (k["step_instr"] + tk / np.maximum(own.unroll, 1.0) * k["unroll_instr"])
    direct, copies, fills = np.zeros(n, bool), np.zeros(n), []
    for axis, operand in (("m", "a"), ("n", "b")):
        size, tile, thread = getattr(t, f"{operand}_bytes"), getattr(t, f"tile_{axis}"), getattr(own, f"thread_{axis}")
        lanes, staged = getattr(own, f"lanes_{axis}"), getattr(own, f"staged_{axis}") > 0
        kept = np.where(staged, size if own.staged_bytes is None else own.staged_bytes, size)
        vector = np.minimum(getattr(own, f"vector_{axis}"), VECTOR_BYTES / kept)
        interleaved = getattr(own, f"interleaved_{axis}") > 0
        words, stride = vector * kept / WORD_BYTES, np.where(interleaved, vector, thread) * kept / WORD_BYTES
        loads = warps * tk / shared * thread / vector
        from_shared = read_clk(arch, lanes, words, stride, axis == "n", merged_reads(arch, k)) / k["smem_efficiency"]
        from_l1, read_bytes = cached_clk(arch, lanes, words, stride, axis == "n")
        port = port + loads * np.where(staged, from_shared, from_l1)
        instructions = instructions + loads * np.where(staged, 1.0, k["access_instr"])

        copied, side = getattr(t, f"copy_{operand}_bytes"), getattr(own, f"fetch_{axis}")
        pad = getattr(own, f"pad_{axis}")
        trips = np.where(staged, tile * tk * size / (threads * copied), 0.0)
        words, fetchers = copied / WORD_BYTES, np.minimum(side, arch.warp_size)
        apart = np.where(interleaved, words, tile / side * size / WORD_BYTES)
        into_l1, copy_bytes = cached_clk(arch, fetchers, words, apart, True, arch.warp_size / fetchers)
        # A transposed tile is written down the rows of shared memory, which start `pad` bytes apart modulo the banks.
        # One element of each vector is written at a time, to as many rows at once as fill the banks.
        folded = np.minimum(fetchers, np.maximum(1.0, tk * pad / (BANKS * WORD_BYTES)))
        writes = np.where(pad > 0, copied / size, 1.0)
        write_clk = np.where(
            pad > 0,
            taken_clk(arch, kept / WORD_BYTES, folded),
            taken_clk(arch, words, turns(arch, fetchers, words, apart)),
        )
        port = port + warps * trips * (into_l1 + writes * write_clk)
        instructions = instructions + warps * trips * (k["copy_instr"] + writes - 1.0)
        moved = np.where(staged, warps * trips * copy_bytes, loads * read_bytes) / (tile * tk * size)
        fills.append(np.ones(n) if caches_global(arch) else np.maximum(moved, 1.0))
        direct, copies = direct | ~staged, copies + trips
    spilled = np.maximum(t.registers - arch.max_regs_per_thread, 0.0)
    kept = np.clip(0.5 * arch.l1_bytes / np.maximum(resident * spilled * threads * WORD_BYTES, 1.0), 0.0, 1.0)
    spill_bytes = spilled * threads * SPILL_BYTES * tk * k["spill_traffic"]
    latency = tk / shared * k["read_latency_clk"] + copies * k["copy_instr"]
    return Delivery(
        port + spill_bytes * kept / l1_bytes_per_clk(arch), instructions, latency, fills[0], fills[1],
        spill_bytes * (1.0 - kept), (copies > 0).astype(np.float64), k["load_waits"] * tk / shared * direct,
    )  # fmt: skip


def caches_global(arch: Arch) -> bool:
    """Whether L1 caches loads from global memory. NVIDIA's does not before compute capability 5.0."""
    return arch.cc is None or arch.cc >= (5, 0)


def l1_bytes_per_clk(arch: Arch) -> float:
    """Rate of an L1 that is separate from shared memory: 64 bytes a clock for Kepler to Pascal, GCN and CDNA, and twice
    that for RDNA, whose lines have 128 bytes. Source: AMD RDNA whitepaper, 2019."""
    return 128.0 if arch.vendor == "amd" and arch.warp_size == 32 else 64.0


def merged_reads(arch: Arch, k: Mapping[str, float]) -> float:
    """Reads of one address by neighbouring lanes that one pass serves; on AMD, the LDS serves each lane by itself."""
    return 1.0 if arch.vendor == "amd" else k["read_merge"]


def unified(arch: Arch) -> bool:
    """Whether L1 and shared memory are one array with one port, as on NVIDIA from compute capability 7.0."""
    return arch.cc is not None and arch.cc >= (7, 0)


def pass_clk(arch: Arch) -> float:
    """Clocks that shared memory takes to return one word of each bank."""
    return max(1.0, BANKS * WORD_BYTES / arch.smem_bytes_per_clk)


def lanes_clk(arch: Arch) -> float:
    """Clocks that the load/store units take for the addresses of a warp, whatever the width of its loads."""
    return arch.warp_size / arch.lsu_per_clk


def lanes_at_once(arch: Arch, words: FloatArray) -> FloatArray:
    """Lanes that shared memory serves in one pass. All 32 if a lane reads no more than the width of a bank; of wider
    vectors, as many as fill 32 banks.

    A bank is 8 bytes wide where shared memory moves 256 bytes a clock (Kepler), else 4.
    """
    wide = words <= arch.smem_bytes_per_clk / (BANKS * WORD_BYTES)
    return np.where(wide, BANKS, np.maximum(BANKS / np.maximum(words, 1.0), 1.0))


def turns(arch: Arch, lanes: FloatArray, words: FloatArray, stride: FloatArray) -> FloatArray:
    """Bank conflicts: the factor on the number of passes when lanes read vectors that lie `stride` words apart."""
    together = np.minimum(lanes, lanes_at_once(arch, words))
    row = max(BANKS * WORD_BYTES, arch.smem_bytes_per_clk) / WORD_BYTES
    return np.maximum(1.0, together * np.maximum(stride, words) / row)


def taken_clk(arch: Arch, words: FloatArray, taken: FloatArray) -> FloatArray:
    """Clocks of the shared-memory port for one vector of each lane, if bank conflicts repeat a pass `taken` times."""
    return np.maximum(arch.warp_size / lanes_at_once(arch, words) * taken * pass_clk(arch), lanes_clk(arch))


def read_clk(
    arch: Arch, lanes: FloatArray, words: FloatArray, stride: FloatArray, fastest: bool, merge: float
) -> FloatArray:
    """Clocks of the shared-memory port for one read of a warp. [clk]

    `fastest` says whether lanes are numbered along this axis first. Along the other axis neighbouring lanes read the
    same address: `merge` of these reads are served at once, and only distinct addresses conflict.
    """
    returned = np.maximum(words, 1.0) * arch.warp_size / BANKS / merge
    if fastest:
        return np.maximum(taken_clk(arch, words, turns(arch, lanes, words, stride)), returned * pass_clk(arch))
    row = max(BANKS * WORD_BYTES, arch.smem_bytes_per_clk) / WORD_BYTES
    conflict = np.maximum(1.0, lanes * np.maximum(stride, words) / row)
    return np.maximum(np.maximum(arch.warp_size / BANKS, returned) * conflict * pass_clk(arch), lanes_clk(arch))


def cached_clk(
    arch: Arch, lanes: FloatArray, words: FloatArray, stride: FloatArray, fastest: bool, rows: FloatArray | float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Clocks of L1 for one load of a warp, and the bytes of the sectors that it touches. [clk], [bytes]

    The warp reads `rows` rows of `lanes` vectors, which lie `stride` words apart within a row. In a clock L1 returns
    its width and looks up one line; if it is one array with shared memory, it has the same bank conflicts. Where L1
    does not cache global memory, the sectors come from L2.
    """
    step, span = stride * WORD_BYTES, lanes * np.maximum(stride, words) * WORD_BYTES
    whole = lanes * np.maximum(words * WORD_BYTES / arch.sector_bytes, 1.0)
    sectors = rows * np.where(step >= arch.sector_bytes, whole, np.maximum(1.0, span / arch.sector_bytes))
    moved = sectors * arch.sector_bytes
    returned = np.maximum(words, 1.0) * arch.warp_size * WORD_BYTES
    if unified(arch):
        conflict = turns(arch, lanes, words, stride) if fastest and np.ndim(rows) == 0 else 1.0
        clk = np.maximum(returned / (BANKS * WORD_BYTES) * pass_clk(arch) * conflict, lanes_clk(arch))
    else:
        clk = returned / l1_bytes_per_clk(arch)
    if caches_global(arch):
        return np.maximum(clk, rows * np.clip(span / arch.line_bytes, 1.0, lanes)), moved
    return np.maximum(clk, moved / arch.l2_bytes_per_clk_per_sm), moved
