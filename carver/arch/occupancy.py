"""How many blocks an SM holds, and what limits it."""

from __future__ import annotations

from functools import reduce

import numpy as np

from ..base.types import FloatArray
from .descriptor import Arch

TMEM_COLUMNS = 512
"""Of an SM's tensor memory. Source: PTX ISA, tcgen05.alloc."""
LIMITS = ("shared memory", "registers", "threads", "blocks")


def occupancy_limits(
    arch: Arch, warps: FloatArray, smem_bytes: FloatArray, registers: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Blocks that an SM, or a pair that shares blocks, could hold by each of LIMITS alone.

    Registers are allocated to whole warps in units of `reg_granule`, each scheduler's from its own share of the file;
    shared memory in units of `smem_granule_bytes` with `smem_reserved_bytes` on top. Source: cuda_occupancy.h.
    """
    smem = np.ceil((smem_bytes + arch.smem_reserved_bytes) / arch.smem_granule_bytes) * arch.smem_granule_bytes
    kept = np.minimum(registers, arch.max_regs_per_thread)
    per_warp = np.ceil(kept * arch.warp_size / arch.reg_granule) * arch.reg_granule
    warps_fit = np.floor(arch.regs_per_sm / arch.schedulers_per_sm / np.maximum(per_warp, 1.0)) * arch.schedulers_per_sm
    sms = arch.sms_per_block
    return (
        np.floor(sms * arch.smem_per_sm_bytes / np.maximum(smem, 1.0)),
        np.floor(sms * warps_fit / warps),
        np.floor(sms * arch.max_threads_per_sm / (warps * arch.warp_size)),
        np.full(np.shape(warps), float(sms * arch.max_blocks_per_sm)),
    )


def blocks_by_limit(arch: Arch, warps: float, smem_bytes: float, registers: float) -> dict[str, int]:
    """Blocks of one kernel that an SM, or a pair that shares blocks, could hold by each limit alone; 0 if a block does
    not fit."""
    columns = [np.array([float(n)]) for n in (warps, smem_bytes, registers)]
    return {name: int(n[0]) for name, n in zip(LIMITS, occupancy_limits(arch, *columns), strict=True)}


def blocks_that_fit(arch: Arch, warps: float, smem_bytes: float, registers: float) -> int:
    """Blocks of one kernel, of which all is known, that `arch.sms_per_block` SMs hold at once; 0 where none fits."""
    return min(blocks_by_limit(arch, warps, smem_bytes, registers).values())


def resident_blocks(
    arch: Arch, warps: FloatArray, smem_bytes: FloatArray, registers: FloatArray, tmem_columns: FloatArray | float = 0.0
) -> FloatArray:
    """Blocks that an SM holds at once: halves where a pair shares blocks. A kernel whose estimate says that none fits
    spills and runs. [blocks/SM]"""
    fit: FloatArray = reduce(np.minimum, occupancy_limits(arch, warps, smem_bytes, registers))
    fit = np.minimum(fit, TMEM_COLUMNS // np.maximum(tmem_columns, 1.0))
    return np.maximum(fit, 1.0) / arch.sms_per_block
