"""The columns of a contraction, and the rates of the instructions that multiply its tiles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property, lru_cache

import numpy as np

from ..arch.descriptor import Arch
from ..base.types import FloatArray
from ..kernels.columns import column, given, table
from ..kernels.scope import MMA, VECTOR, matrix_unit, vector_dtype, warp_matrix_unit
from ..problem.problem import Problem


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
    product_copies: FloatArray = column(
        "warps", "number of warps that repeat the same products, where the tile is too small for all warps", 1
    )
    threads: FloatArray | None = column("threads", "threads per block; by default those of all warps", None)
    copy_a_bytes: FloatArray = column("bytes", "width of one copy of the first operand", 16)
    copy_b_bytes: FloatArray = column("bytes", "width of one copy of the second operand", 16)
    resident_most: FloatArray | None = column("blocks", "for a persistent grid: largest number of blocks per SM", None)
    copy_warps: FloatArray = column("warps", "additional warps that only copy", 0)
    next_tile: FloatArray = column(
        "flag", "for a persistent grid: loads of the next tile start before the current one ends", 0
    )
    other_stores: FloatArray = column("flag", "for a persistent grid: some warps store while others multiply", 0)
    single_copy_instr: FloatArray | None = column(
        "instructions", "instructions of a copy that is too narrow to be asynchronous; by default as for any copy", None
    )
    exposed_loads: FloatArray = column("loads", "loads of a step whose latency is not hidden at all", 0)
    products_apart: FloatArray = column(
        "flag", "the loads of a step do not overlap with its products", 0
    )
    synchronous_copies: FloatArray = column(
        "flag", "a step loads, waits, stores and multiplies, one after the other", 0
    )
    scattered_a: FloatArray = column("flag", "the lanes of a load go to different rows of the first operand", 0)
    scattered_b: FloatArray = column("flag", "the lanes of a load go to different rows of the second operand", 0)
    singles_a: FloatArray = column("", "number of times that each element of the first operand is copied one by one", 0)
    singles_b: FloatArray = column(
        "", "number of times that each element of the second operand is copied one by one", 0
    )
    single_conflicts_a: FloatArray = column(
        "", "passes of the shared-memory port when a warp copies such elements of the first operand", 1
    )
    single_conflicts_b: FloatArray = column(
        "", "passes of the shared-memory port when a warp copies such elements of the second operand", 1
    )
    converted_b: FloatArray = column("flag", "the second operand is converted into a separate buffer", 0)
    unpack_instr: FloatArray | None = column(
        "instructions",
        "instructions to unpack an element of the second operand, with its loads if it is not copied; by default "
        "`convert_instr`",
        None,
    )
    fragment_conflicts: FloatArray | None = column(
        "", "passes of the port for reads of matrix operands, where they alternate with the products", None
    )
    lane_reads_a: FloatArray = column("reads", "on vector units: reads of the first operand per lane and step", 0)
    lane_reads_b: FloatArray = column("reads", "on vector units: reads of the second operand per lane and step", 0)
    lane_read_a_bytes: FloatArray = column("bytes", "on vector units: size of a lane's read of the first operand", 16)
    lane_read_b_bytes: FloatArray = column("bytes", "on vector units: size of a lane's read of the second operand", 16)
    lane_passes_a: FloatArray = column(
        "", "passes of the port for such a read of a warp, where lanes want the same banks; first operand", 1
    )
    lane_passes_b: FloatArray = column(
        "", "passes of the port for such a read of a warp, where lanes want the same banks; second operand", 1
    )
    tmem_columns: FloatArray = column("columns", "columns of tensor memory for a block's sums", 0)
    warp_instr: FloatArray = column(
        "instructions",
        "instructions per warp and step besides products, counted in a compiler's output; 0: by the constants",
        0,
    )
    serialized: FloatArray = column("flag", "each wgmma waits for the previous one", 0)
    after_instr: FloatArray = column(
        "instructions", "instructions per thread on the sums of a step, after its products", 0
    )
    after_converts: FloatArray = column(
        "sums", "sums per thread that are converted from integer to float before that", 0
    )
    start_loads: FloatArray = column("loads", "dependent loads before the first copy of a block", 0)
    row_scalars: FloatArray = column("elements", "further elements that a step loads, each from a different row", 0)
    store_run_bytes: FloatArray | None = column("bytes", "contiguous bytes of a store; by default a sector", None)

    @cached_property
    def lanes(self) -> FloatArray:
        return self.warps * self.arch.warp_size


@table
class Extent(Operands):
    """The sizes of a contraction, and the numbers of tiles, parts and steps that follow from them.

    A convolution's axes are multiplied together to `m n k b` as `scope.roles` says.
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
    cluster: FloatArray = column(
        "blocks", "blocks of a cluster, one below the other; they read the second operand from L2 once", 1
    )
    row_tiles: FloatArray | None = column(
        "tiles",
        "number of tiles along the rows, over the whole batch, if its matrices have different numbers of rows",
        None,
    )

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


@lru_cache(maxsize=256)
def _peaks(problem: Problem, arch: Arch) -> tuple[float, ...]:
    return tuple(_peak(problem, arch, kind) for kind in range(4))


def _peak(problem: Problem, arch: Arch, kind: int) -> float:
    unit = None
    if kind != VECTOR:
        unit = warp_matrix_unit(problem, arch) if kind == MMA else matrix_unit(problem, arch)
    if unit is None:
        return compiled_peak(arch, vector_dtype(problem, arch)) * arch.sustained_clock_hz / arch.clock_hz
    return unit.flops_per_clk_per_sm * arch.highest_of(unit) / arch.clock_hz


def peaks(problem: Problem, arch: Arch, kind: FloatArray) -> FloatArray:
    """`peak` for the instruction kind of each candidate."""
    return np.choose(np.asarray(kind, np.int64), _peaks(problem.sizeless, arch))


def held_back(problem: Problem, arch: Arch, kind: FloatArray) -> FloatArray:
    """By which factor the power limit slows the products of each candidate's instruction while all units run it."""
    return np.choose(np.asarray(kind, np.int64), _held_back(problem.sizeless, arch))


@lru_cache(maxsize=256)
def _held_back(problem: Problem, arch: Arch) -> tuple[float, ...]:
    units = [warp_matrix_unit(problem, arch), *[matrix_unit(problem, arch)] * 2]
    return (1.0, *(arch.highest_of(unit) / arch.sustained_of(unit) if unit else 1.0 for unit in units))


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


WORD_BYTES = 4

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
