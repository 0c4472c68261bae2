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
from .model import Columns


class Operands(Columns, table="contraction.operands"):
    """Columns that all terms read."""

    arch: Arch
    problem: Problem


class Block(Operands, table="contraction.block"):
    """Columns of how a block is built, for the terms of one step of one block. None depends on the problem's sizes."""

    @cached_property
    def lanes(self) -> FloatArray:
        return self.warps * self.arch.warp_size


class Extent(Operands, table="contraction.extent"):
    """The sizes of a contraction, and the numbers of tiles, parts and steps that follow from them.

    A convolution's axes are multiplied together to `m n k b` as `expr.roles` says.
    """

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
        row = self.k if self.k_row is None else self.k_row
        return np.ceil(self.k / row * np.ceil(row / self.tile_k) / self.split)

    @cached_property
    def rows(self) -> FloatArray:
        """Rows of a tile inside the problem; the mean if the matrices of a batch have different numbers of rows."""
        return np.minimum(self.tile_m, self.m if self.row_tiles is None else self.m / self.grid_m)

    @cached_property
    def cols(self) -> FloatArray:
        return np.minimum(self.tile_n, self.n)


class Tile(Extent, table="contraction.tile"):
    """Columns of a contraction's layout in memory, for the terms that depend on sizes."""


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


ISSUED = 0.9
"""Share of a scheduler's issue slots that code fills which they bound: now and then none of its warps is ready. Source:
217 times of 46 kernels of the zoos on an H100 and H200; with all slots they were predicted at 0.91 in the mean, and
at 0.89 where the slots were 0.9 of the predicted time. Nothing is measured on AMD."""
KEPT_INSTRUCTIONS, FETCH_CLK = 9000, 5.8
"""What an SM of NVIDIA's keeps of a kernel's code, 128 KiB, and how long each instruction takes a block where a loop or
stretch is longer, since it comes from L2. Source: loops of products on an H200, by 1 to 16 warps in step alike
(`code.jsonl` in tests/data/h200); 8,700 in a row take no longer (`likeness` in `eleventh.jsonl.gz`)."""


ACTIVATIONS = {
    "nvidia": {1: (1, 0), 2: (33, 1), 3: (13, 2)},
    "amd": {1: (1, 0), 2: (33, 1), 3: (19, 2)},
    "cpu": {1: (2, 0), 2: (62, 0), 3: (46, 0)},
}
"""Instructions of an element, of a vector on CPUs, for relu, gelu and silu, and how many of them special-function units
execute. Source: Triton 3.6 for compute capability 8.0 and 9.0, and for gfx942 and gfx1100, where the lanes of a wave
take both ways of erf; gcc for AVX2 and AVX-512. On an H200 a bias of 8192 x 8192 halves adds
0.8, a silu 1.0 and a gelu 1.6 of what that says, in the median of 8: long chains wait."""


def finishing(problem: Problem, arch: Arch) -> tuple[int, int]:
    """Instructions for what is done to a sum before it is stored, as `ACTIVATIONS` has them, and one to add a bias."""
    kinds = ACTIVATIONS.get("cpu" if arch.kind == "cpu" else arch.vendor, ACTIVATIONS["nvidia"])
    every, special = kinds.get(problem.options.get("activation", 0), (0, 0))
    return every + problem.options.get("bias", 0), special


def finishing_clk(problem: Problem, arch: Arch, elements: FloatArray) -> FloatArray:
    """Time of an SM to finish so many sums, by its issue slots or special-function units. [clk]"""
    every, special = finishing(problem, arch)
    return elements * max(every / (issue_per_clk(arch) * arch.warp_size), special / arch.sfu_per_clk)


SCATTER = 16.0
"""Standard deviation of the registers that LLVM allocates around what a declaration says of its kernel. Source: 267
attentions for gfx1100 and gfx1201 that do not spill (tests/data/agreement)."""
RELOAD_CLK = 160.0
"""Clocks for which a step on RDNA waits for each register that it spilled: LLVM loads it right before its use, up to
four at a time, from L2, since frames of all warps do not fit L1. Source: machine code of 20 float32 matmuls for gfx1100
that spill, priced with 0.69 to 1.40 of its times; of 38 others, for gfx1030, gfx1201 and rows of B, 0.70 to 1.34, where
0.20 to 0.85 was said. Matrix products wait more seldom, for L2 and DRAM too: of 58, 0.49 to 2.63, where 0.21 to 1.13
was."""


def most_registers(arch: Arch, warps: FloatArray) -> FloatArray:
    """That a thread may have."""
    return np.minimum(arch.max_regs_per_thread, arch.regs_per_block / (warps * arch.warp_size))


def spilled(arch: Arch, warps: FloatArray, registers: FloatArray) -> FloatArray:
    """Registers of a thread beyond those that it may have. On AMD these are to be expected, since what is needed
    scatters (a logistic distribution): a kernel just below the limit may spill too."""
    over, scale = registers - most_registers(arch, warps), SCATTER * math.sqrt(3.0) / math.pi
    found: FloatArray = scale * np.logaddexp(0.0, over / scale) if arch.vendor == "amd" else np.maximum(over, 0.0)
    return found


def spill_slowdown(
    arch: Arch, warps: FloatArray, registers: FloatArray, busy_clk: FloatArray, k: Mapping[str, float]
) -> FloatArray:
    """Factor on the main loop of a kernel whose threads need more registers than they may have.

        1 + spill_rounds * 2 * spilled registers * warps * clocks of L1's port for a word of each lane / busy_clk

    `busy_clk` is the time of the busiest resource of an SM for one step of one block. Source of the form: spills of
    Triton's kernels on an H200 and H100 (note.spills in tests/data), which slow long steps a little, short ones a lot.
    """
    excess = spilled(arch, warps, registers)
    moved_clk = 2 * excess * warps * WORD_BYTES * arch.warp_size / arch.smem_bytes_per_clk
    return 1.0 + k["spill_rounds"] * moved_clk / np.maximum(busy_clk, 1.0)


WORD_BYTES = 4
VECTOR_BYTES = 16
"""Widest load of a lane."""
BANKS = 32
SPILL_BYTES = 2 * WORD_BYTES
"""A spilled sum is read and written once per product."""


class ThreadTile(Columns, table="contraction.thread_tile"):
    """Further columns, beside `Block`, of a kernel in which each thread reads its own operands. Lanes and threads are
    numbered along n first."""


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
