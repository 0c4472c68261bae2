"""What a candidate asks of the device: the interface between an operator's model and the time model."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..base.types import FloatArray


@dataclass(frozen=True)
class Work:
    """Demands of each candidate, arrays of shape (n,), or a number that is the same for all. Clocks are the SM's at
    `arch.clock_hz`.

    A kernel launches `grid` blocks; an SM holds `resident` of them. A block starts, runs `steps` trips of
    its main loop with loads issued `ahead` trips before their use, and stores its result.
    """

    grid: FloatArray
    resident: FloatArray
    warps: FloatArray
    """Warps of one block."""
    steps: FloatArray
    ahead: FloatArray
    math_clk: FloatArray
    """One step of one block on all of the SM's arithmetic pipes."""
    chain_clk: FloatArray
    """One step of a block that has the SM to itself: what its own warps cannot overlap."""
    fill_bytes: FloatArray
    """Moved from L2 into the SM in one step."""
    l2_bytes: FloatArray
    """The same as L2 sees it: more where many SMs want the same line at once."""
    l2_read_bytes: FloatArray
    """Distinct bytes that one step of one block reads."""
    dram_bytes: FloatArray
    """Share of the device's DRAM reads in one step of one block."""
    l3_bytes: FloatArray
    """Share of the reads that miss L2, where a further cache stands before DRAM."""
    missed: FloatArray | None = None
    """Share of a step's loads that wait for DRAM; None: as many as of its distinct bytes come from there."""
    exposed: FloatArray | float = 0.0
    """Load latencies of one step that no pipelining hides."""
    smem_clk: FloatArray | float = 0.0
    """One step on the shared-memory port."""
    issue_clk: FloatArray | float = 0.0
    """Instructions of one step over the issue slots of an SM."""
    apart_clk: FloatArray | float = 0.0
    """Part of a step that follows its loads rather than overlapping with them."""
    wait_clk: FloatArray | float = 0.0
    """Waits of one step among its products. They lengthen a block's own chain; other blocks fill them."""
    alternates: bool = False
    """A block's products wait for arithmetic on their sums, step by step."""
    body_overlap: float | None = None
    """Exponent that joins arithmetic and the loads from shared memory that feed it; None: as any two resources."""
    slowdown: FloatArray | float = 1.0
    """Factor on the main loop: spilled registers."""
    store_bytes: FloatArray | float = 0.0
    """Written by one block, in whole sectors."""
    alone_overlap: float | None = None
    """Exponent that joins throughput and latency of a block that has the SM to itself, if `apart_clk` holds all that it
    does; None: as of several blocks."""
    fill_clk: float | None = None
    """From a block's start to its first product; None: as long as its loads take."""
    start_loads: FloatArray | float = 0.0
    """Loads one after the other that a block's first copy waits for."""
    scattered: FloatArray | float = 0.0
    """Bytes of sectors that stores touch more than once, over those that they fill."""
    store_clk: FloatArray | float = 0.0
    """Epilogue instructions of one block over the issue slots."""
    store_chain_clk: FloatArray | float = 0.0
    """Part of the epilogue that runs at one warp's rate."""
    next_tile: FloatArray | float = 0.0
    """1 where an SM's later blocks are tiles of the same one, whose loads go on: they have no start."""
    other_stores: FloatArray | float = 0.0
    """1 where a tile is stored by warps of its own while others multiply the next."""
    reduction_s: FloatArray | float = 0.0
    """A second pass over partial results. [s]"""
    facts: dict[str, FloatArray | float] = field(default_factory=dict)
    """Numbers for people: traffic, hit rate, padding."""

    def __len__(self) -> int:
        return len(self.grid)


def joined(a: FloatArray, b: FloatArray, p: FloatArray | float) -> FloatArray:
    """(a^p + b^p)^(1/p): more than the larger of two demands, less than their sum. Scaled so that nothing overflows."""
    top, low = np.maximum(a, b), np.minimum(a, b)
    out: FloatArray = top * (1.0 + (low / top) ** p) ** (1.0 / p)
    return out


def on_pipe(
    math_clk: FloatArray, chain_clk: FloatArray, blocks: FloatArray, p: float, alternates: bool
) -> FloatArray:
    """One step of `blocks` blocks on an SM, each of which takes `chain_clk` alone, `math_clk` of it on the shared pipe.

        (math * blocks)^p + chain^p, to the power of 1/p
        math + ((math * (blocks - 1))^p + (chain - math)^p)^(1/p)      where a block leaves the pipe idle on purpose

    There others fill what it leaves: alone a block takes its chain, among many the pipe decides.
    """
    if not alternates:
        return joined(math_clk * blocks, chain_clk, p)
    return math_clk + joined(math_clk * (blocks - 1.0), np.maximum(chain_clk - math_clk, 1e-9), p)
