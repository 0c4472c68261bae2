"""What register spills cost."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ..arch.descriptor import Arch
from ..base.types import FloatArray

WORD_BYTES = 4

READS = frozenset({"spill_rounds"})
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
