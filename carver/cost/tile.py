"""The columns of a contraction, and the rates of the instructions that multiply its tiles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ..arch.descriptor import Arch
from ..base.types import FloatArray
from ..kernels.columns import column, given
from ..kernels.space import matrix_unit, vector_dtype, warp_matrix_unit
from ..problem.problem import Problem

VECTOR, MMA, WGMMA, TCGEN05 = range(4)
"""What the column `instruction` holds."""


@dataclass(frozen=True)
class Operands:
    """What all terms read."""

    arch: Arch
    problem: Problem
    a_bytes: FloatArray = given("bytes", "an element of the first operand")
    b_bytes: FloatArray = given("bytes", "an element of the second operand")
    tile_m: FloatArray = column("elements", "rows of the output that a block owns")
    tile_n: FloatArray = column("elements", "columns of the output that a block owns")
    tile_k: FloatArray = column("elements", "of the reduction in one step")


@dataclass(frozen=True)
class Block(Operands):
    """What the terms of one step of one block read: how the block is built. Sizes have no part in it."""

    a_converts: FloatArray = given("flag", "the first operand is converted before it is multiplied")
    b_converts: FloatArray = given("flag", "the second operand is converted before it is multiplied")
    matrix_widens: FloatArray = given("flag", "the fastest matrix instruction takes the operands widened")
    mma_widens: FloatArray = given("flag", "the matrix instruction of a warp takes the operands widened")
    mma_m: FloatArray = given("elements", "rows of the matrix instruction of a warp")
    mma_n: FloatArray = given("elements", "columns of the matrix instruction of a warp")
    warps: FloatArray = column("warps", "of a block that multiply")
    warps_m: FloatArray = column("warps", "along the rows of the tile")
    warps_n: FloatArray = column("warps", "along the columns of the tile")
    instruction: FloatArray = column("", "0 vector units, 1 mma or mfma, 2 wgmma, 3 tcgen05")
    smem_bytes: FloatArray = column("bytes", "shared memory of a block")
    registers: FloatArray = column("registers", "that a thread needs; more than it may have spill")
    ahead: FloatArray = column("steps", "that loads are issued before their use")
    product_copies: FloatArray = column("warps", "that multiply the same, of more than the tile has work for", 1)
    threads: FloatArray | None = column("threads", "of a block; whole warps where it is not said", None)
    copy_a_bytes: FloatArray = column("bytes", "width of one copy of the first operand", 16)
    copy_b_bytes: FloatArray = column("bytes", "width of one copy of the second operand", 16)
    resident_most: FloatArray | None = column("blocks", "that an SM holds at most, of a persistent grid", None)
    copy_warps: FloatArray = column("warps", "that only copy, beside those that multiply", 0)
    next_tile: FloatArray = column("flag", "of a persistent grid: loads go on into the next tile", 0)
    other_stores: FloatArray = column("flag", "of a persistent grid: warps store while others multiply on", 0)
    single_copy_instr: FloatArray | None = column(
        "instructions", "of a copy too narrow to be asynchronous; as of any copy where it is not said", None
    )
    exposed_loads: FloatArray = column("loads", "of a step whose whole latency shows", 0)
    synchronous_copies: FloatArray = column("flag", "a step loads, waits, stores, multiplies, one after the other", 0)
    scattered_a: FloatArray = column("flag", "the lanes of a load go to different rows of the first operand", 0)
    scattered_b: FloatArray = column("flag", "the lanes of a load go to different rows of the second operand", 0)
    singles_a: FloatArray = column("", "times that each element of the first operand is moved alone", 0)
    singles_b: FloatArray = column("", "times that each element of the second operand is moved alone", 0)
    single_conflicts_a: FloatArray = column("", "passes of the shared-memory port for a warp's worth of them", 1)
    single_conflicts_b: FloatArray = column("", "passes of the shared-memory port for a warp's worth of them", 1)
    converted_b: FloatArray = column("flag", "the second operand is converted into a buffer of its own", 0)
    fragment_conflicts: FloatArray | None = column(
        "", "passes that reads of matrix operands take, where they alternate with the products", None
    )
    lane_reads_a: FloatArray = column("reads", "of the first operand by a lane in a step, on vector units", 0)
    lane_reads_b: FloatArray = column("reads", "of the second operand by a lane in a step, on vector units", 0)
    lane_read_a_bytes: FloatArray = column("bytes", "of one such read of the first operand", 16)
    lane_read_b_bytes: FloatArray = column("bytes", "of one such read of the second operand", 16)
    lane_passes_a: FloatArray = column("", "passes of one such read of a warp, whose lanes want the same banks", 1)
    lane_passes_b: FloatArray = column("", "passes of one such read of a warp, whose lanes want the same banks", 1)
    tmem_columns: FloatArray = column("columns", "of tensor memory that hold a block's sums", 0)
    warp_instr: FloatArray = column(
        "instructions", "of a warp in a step beside products, as a compiler's output has them; 0: as the constants", 0
    )
    serialized: FloatArray = column("flag", "each wgmma waits for the one before", 0)
    after_instr: FloatArray = column("instructions", "of a thread once the products of a step are there", 0)
    after_converts: FloatArray = column("sums", "of a thread that are made floats of integers before that", 0)
    start_loads: FloatArray = column("loads", "one after the other that a block's first copy waits for", 0)
    row_scalars: FloatArray = column("elements", "that a step loads besides, each from a row of its own", 0)
    store_run_bytes: FloatArray | None = column("bytes", "side by side in a store; a sector where it is not said", None)

    @cached_property
    def lanes(self) -> FloatArray:
        return self.warps * self.arch.warp_size


@dataclass(frozen=True)
class Extent(Operands):
    """The sizes of a contraction and how many tiles, parts and steps they make.

    A convolution's axes are multiplied up to `m n k b` as `space.roles` says.
    """

    m: FloatArray = given("elements", "extent of the axes that the output shares with the first operand")
    n: FloatArray = given("elements", "extent of the axes that the output shares with the second operand")
    k: FloatArray = given("elements", "extent of the axes that are summed over")
    b: FloatArray = given("elements", "extent of the axes that the output and both operands share")
    out_bytes: FloatArray = given("bytes", "an element of the output")
    acc_bytes: FloatArray = given("bytes", "a sum")
    a_reuse: FloatArray = given("", "distinct elements of the first operand over rows x depth; below 1 in windows")
    b_reuse: FloatArray = given("", "distinct elements of the second operand over columns x depth")
    split: FloatArray = column("", "parts of the reduction", 1)
    cluster: FloatArray = column(
        "blocks", "one below the other that run together, for all of which L2 reads the second operand once", 1
    )
    row_tiles: FloatArray | None = column(
        "tiles", "along the rows, of all matrices of a batch together, where their rows are not equally many", None
    )

    @cached_property
    def grid_m(self) -> FloatArray:
        """Those of a cluster that lie beyond the last row included."""
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
        """Of the tile inside the problem; the mean where matrices have different numbers of them."""
        return np.minimum(self.tile_m, self.m if self.row_tiles is None else self.m / self.grid_m)

    @cached_property
    def cols(self) -> FloatArray:
        return np.minimum(self.tile_n, self.n)


@dataclass(frozen=True)
class Tile(Extent):
    """What the terms of a contraction read that depend on sizes: those, and what lies side by side."""

    row_align_a: FloatArray = given("bytes", "what each row of the first operand starts on a multiple of")
    row_align_b: FloatArray = given("bytes", "what each row of the second operand starts on a multiple of")
    row_align_out: FloatArray = given("bytes", "what each row of the output starts on a multiple of")
    a_k_contiguous: FloatArray = given("flag", "the innermost axis of the first operand is summed over")
    b_k_contiguous: FloatArray = given("flag", "the innermost axis of the second operand is summed over")
    a_run: FloatArray = given("elements", "of the first operand that axes of that kind walk side by side")
    b_run: FloatArray = given("elements", "of the second operand that axes of that kind walk side by side")
    group: FloatArray = column("", "rows of tiles that are walked together", 1)
    copy_a_bytes: FloatArray = column("bytes", "width of one copy of the first operand", 16)
    copy_b_bytes: FloatArray = column("bytes", "width of one copy of the second operand", 16)
    async_copies: FloatArray = column("flag", "copies into shared memory pass no registers", 0)
    padded_loads: FloatArray = column("flag", "rows past the edge are fetched again rather than skipped", 0)
    atomic: FloatArray = column("flag", "partial results are added by compare-and-swap", 0)
    copied_bytes: FloatArray = column("bytes", "of operands that a kernel before copies into another layout", 0)


PAIRED = 0.5
"""Share of float32 multiply-adds that compilers issue two at a time, where lanes can. On RDNA3 rocBLAS reaches 0.5 of
that peak, a kernel scheduled by hand 0.8 (Optimizing Matrix Multiplication on RDNA3, seb-v.github.io, 2025)."""


def compiled_peak(arch: Arch, dtype: str) -> float:
    """Peak of the vector units of one SM, of float32 what compilers make of it, who find its pairs. [FLOP/clk]"""
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
    return unit.flops_per_clk_per_sm * arch.sustained_of(unit) / arch.clock_hz


def peaks(problem: Problem, arch: Arch, kind: FloatArray) -> FloatArray:
    """`peak` of each candidate's instruction kind."""
    out: FloatArray = np.choose(np.asarray(kind, np.int64), _peaks(problem.sizeless, arch))
    return out


def instruction_rows(kind: FloatArray, mma_m: FloatArray | float) -> FloatArray:
    """Rows of the tile that one matrix instruction multiplies at full rate, 1 without one.

    tcgen05 takes 64 rows too, on half of its lanes. Source: PTX ISA, tcgen05 data path layouts.
    """
    out: FloatArray = np.choose(np.asarray(kind, np.int64), [1, mma_m, 64, 128]).astype(np.float64)
    return out


def converts_per_clk(arch: Arch) -> float:
    """Integers of 32 bits that an SM makes floats of in a clock.

    Up to compute capability 8.0 by I2F, on the special-function units; later by I2FP, at half the rate of additions
    (SASS of Triton 3.6; `arch/isa/*.toml`). AMD's vector units convert as fast as they add.
    """
    if arch.cc is None:
        return float(arch.lanes_per_sm)
    return arch.sfu_per_clk if arch.cc <= (8, 0) else arch.lanes_per_sm / 2


def issue_per_clk(arch: Arch) -> float:
    """Instructions that the schedulers of an SM issue in a clock.

    GCN and CDNA issue to a SIMD of 16 lanes, which an instruction of 64 lanes keeps for 4 clocks.
    """
    lanes = arch.lanes_per_sm / arch.schedulers_per_sm
    return arch.schedulers_per_sm * (min(1.0, lanes / arch.warp_size) if arch.vendor == "amd" else 1.0)
