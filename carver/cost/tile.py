"""The tile of a contraction as the terms of its model see it: columns and scalars of a space, as floats."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ..arch.descriptor import Arch
from ..base.types import FloatArray
from ..kernels.space import Space, matrix_unit, vector_dtype, warp_matrix_unit
from ..problem.problem import Problem

VECTOR, MMA, WGMMA, TCGEN05 = range(4)
"""What the column `instruction` holds."""


@dataclass(frozen=True)
class Tile:
    """Sizes `m n k b`, the block tile `tm tn tk`, widths in bytes, how a block is built. Arrays of shape (n,) or ()."""

    space: Space

    def column(self, name: str, default: float | None = None) -> FloatArray:
        return self.space.column(name, default)

    def __getattr__(self, name: str) -> FloatArray:
        value = self.__dict__[name] = self.column(_SHORT.get(name, name))
        return value

    @property
    def arch(self) -> Arch:
        return self.space.arch

    @cached_property
    def split(self) -> FloatArray:
        return self.column("split", 1)

    @cached_property
    def lanes(self) -> FloatArray:
        return self.warps * self.arch.warp_size

    @cached_property
    def grid_m(self) -> FloatArray:
        return np.ceil(self.m / self.tm)

    @cached_property
    def grid_n(self) -> FloatArray:
        return np.ceil(self.n / self.tn)

    @cached_property
    def grid(self) -> FloatArray:
        return self.b * self.grid_m * self.grid_n * self.split

    @cached_property
    def steps(self) -> FloatArray:
        return np.ceil(np.ceil(self.k / self.tk) / self.split)

    @cached_property
    def rows(self) -> FloatArray:
        """Of the tile inside the problem."""
        return np.minimum(self.tm, self.m)

    @cached_property
    def cols(self) -> FloatArray:
        return np.minimum(self.tn, self.n)


_SHORT = {
    "tm": "tile_m", "tn": "tile_n", "tk": "tile_k", "ea": "a_bytes", "eb": "b_bytes", "eo": "out_bytes",
    "kind": "instruction",
}  # fmt: skip


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
        return compiled_peak(arch, vector_dtype(problem, arch))
    return unit.flops_per_clk_per_sm * arch.clock_of(unit) / arch.clock_hz


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


def issue_per_clk(arch: Arch) -> float:
    """Instructions that the schedulers of an SM issue in a clock.

    GCN and CDNA issue to a SIMD of 16 lanes, which an instruction of 64 lanes keeps for 4 clocks.
    """
    lanes = arch.lanes_per_sm / arch.schedulers_per_sm
    return arch.schedulers_per_sm * (min(1.0, lanes / arch.warp_size) if arch.vendor == "amd" else 1.0)
