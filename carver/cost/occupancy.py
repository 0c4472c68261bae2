"""What registers that a thread may not have cost."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..arch.descriptor import Arch
from ..base.types import FloatArray

WORD_BYTES = 4

READS = frozenset({
    "spill_rounds",
})  # fmt: skip
"""Constants that this module's terms read."""


def spill_slowdown(
    arch: Arch, warps: FloatArray, registers: FloatArray, busy_clk: FloatArray, k: Mapping[str, float]
) -> FloatArray:
    """Factor on the main loop of a kernel that needs more registers than a thread may have.

        1 + spill_rounds * 2 * registers too many * warps * clocks of L1's port for a word of each lane / busy_clk

    `busy_clk` is what the busiest resource of an SM takes for a step of one block. Source of the form: spills of
    Triton's kernels on an H200 and H100 (note.spills in tests/data), which cost long steps little and short ones much.
    """
    most = np.minimum(arch.max_regs_per_thread, arch.regs_per_block / (warps * arch.warp_size))
    moved_clk = 2 * np.maximum(registers - most, 0.0) * warps * WORD_BYTES * arch.warp_size / arch.smem_bytes_per_clk
    out: FloatArray = 1.0 + k["spill_rounds"] * moved_clk / np.maximum(busy_clk, 1.0)
    return out
