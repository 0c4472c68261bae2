"""`Work`, the demands of candidates on the device: the interface between a cost model and the time model."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..base.types import FloatArray

INDEPENDENT_OVERLAP = 1.2
"""Exponent that joins the times of products and of the arithmetic between them, for blocks that drift apart.

With 1 the two times add up; with large exponents they overlap fully. Source: softmax in
`tests/data/h200/attention.csv`. With 1 to 1.5 the other constants explain the times within 7 to 8 %; with more, the
fitted rate of products runs into its bound.
"""


@dataclass(frozen=True, eq=False, repr=False)
class Work:
    """Demands of each candidate: arrays of shape (n,), or one number for all. Clocks are those of an SM at
    `arch.clock_hz`.

    A kernel launches `grid` blocks, of which an SM holds `resident` at a time. A block starts, runs `steps` steps of
    its main loop with loads issued `ahead` steps before their use, and stores its result. Unless a field says
    otherwise, it is of one step of one block.
    """

    grid: FloatArray
    resident: FloatArray
    warps: FloatArray
    """Warps of one block."""
    steps: FloatArray
    ahead: FloatArray
    math_clk: FloatArray
    """Time on all of the SM's arithmetic pipes."""
    chain_clk: FloatArray
    """Time of a block that has the SM to itself: what its own warps cannot overlap."""
    fill_bytes: FloatArray
    """Bytes moved from L2 into the SM."""
    l2_bytes: FloatArray
    """Bytes as L2 serves them; more where many SMs want the same line at once."""
    l2_read_bytes: FloatArray
    """Distinct bytes read."""
    dram_bytes: FloatArray
    """This step's share of the bytes that the device reads from DRAM."""
    l3_bytes: FloatArray
    """This step's share of the bytes that miss L2, which an L3 serves if there is one."""
    missed: FloatArray | None = None
    """Share of the loads that wait for DRAM; None: `dram_bytes` over `l2_read_bytes`."""
    sm_share: FloatArray | float = 1.0
    """Share of the device's SMs that can hold blocks of the grid."""
    products_apart: FloatArray | float = 0.0
    """1 where loads do not overlap with the products of the step in which they are waited for, so that a lone block
    takes the time of both; elsewhere the share `chain_latency` of the products counts."""
    exposed: FloatArray | float = 0.0
    """Number of load latencies that no pipelining hides."""
    smem_clk: FloatArray | float = 0.0
    """Time on the shared-memory port."""
    issue_clk: FloatArray | float = 0.0
    """Instructions over the SM's issue slots per clock."""
    apart_clk: FloatArray | float = 0.0
    """Part of the step that follows its loads rather than overlapping with them."""
    wait_clk: FloatArray | float = 0.0
    """Waits between the products. They lengthen the block's own chain, but other blocks fill them."""
    power_clk: FloatArray | None = None
    """Time on the SM's arithmetic pipes where all SMs run them and the power limit slows the products of matrix
    units; 0 without such, None where no limit is known."""
    alternates: bool = False
    """Whether in each step the products wait for arithmetic on the sums of the step before."""
    chain_overlap: FloatArray | None = None
    """Exponent that joins a block's own chain and the shared math pipe; None: the constant of this name."""
    body_overlap: float | None = None
    """Exponent that joins arithmetic and the shared-memory loads that feed it; None: that of any two resources."""
    slowdown: FloatArray | float = 1.0
    """Factor on the main loop, for register spills."""
    store_bytes: FloatArray | float = 0.0
    """Bytes that one block writes, in whole sectors."""
    alone_overlap: FloatArray | float | None = None
    """For models whose `apart_clk` is a lone block's whole step: exponent that joins throughput and latency of a block
    that has the SM to itself. None: that of several blocks."""
    once_overlap: FloatArray | None = None
    """Exponent that joins the times of pipes, and those of the SMs and DRAM, of candidates whose blocks load, compute
    and store once; 0 for others. None: for none."""
    fill_clk: float | None = None
    """Time from a block's start to its first product; None: that of its first loads."""
    start_loads: FloatArray | float = 0.0
    """Number of dependent loads before a block's first copy."""
    scattered: FloatArray | float = 0.0
    """Bytes of sectors that stores touch again, over the bytes of `store_bytes`."""
    store_clk: FloatArray | float = 0.0
    """Instructions of a block's epilogue over the SM's issue slots per clock."""
    store_chain_clk: FloatArray | float = 0.0
    """Part of a block's epilogue that runs at the rate of a single warp."""
    next_tile: FloatArray | float = 0.0
    """1 for a persistent kernel whose loads run on into the next tile: only an SM's first tile has a prologue."""
    other_stores: FloatArray | float = 0.0
    """1 where separate warps store a tile while others multiply the next one."""
    launch_s: FloatArray | float = 0.0
    """Time of the launch beyond that of others: of clusters. [s]"""
    reduction_s: FloatArray | float = 0.0
    """Time of a second kernel that reduces partial results. [s]"""
    facts: dict[str, FloatArray | float] = field(default_factory=dict)
    """Figures to show, which no time depends on: traffic, hit rate, padding."""

    def __len__(self) -> int:
        return len(self.grid)


def joined(a: FloatArray, b: FloatArray, p: FloatArray | float) -> FloatArray:
    """(a^p + b^p)^(1/p), between the larger of two demands and their sum. Scaled so that nothing overflows."""
    top, low = np.maximum(a, b), np.minimum(a, b)
    return top * (1.0 + (low / top) ** p) ** (1.0 / p)


def on_pipe(
    math_clk: FloatArray, chain_clk: FloatArray, blocks: FloatArray, p: FloatArray | float, alternates: bool
) -> FloatArray:
    """Time of a step of `blocks` blocks on an SM. Alone, each takes `chain_clk`, `math_clk` of it on the shared pipe.

        ((math * blocks)^p + chain^p)^(1/p)
        math + ((math * (blocks - 1))^p + (chain - math)^p)^(1/p)      where `alternates`

    In the second case a block leaves the pipe idle between its products, and other blocks fill that time: a lone block
    takes its chain, and among many the pipe is the bound.
    """
    if not alternates:
        return joined(math_clk * blocks, chain_clk, p)
    own = math_clk * np.minimum(blocks, 1.0)
    return own + joined(math_clk * np.maximum(blocks - 1.0, 0.0), np.maximum(chain_clk - own, 1e-9), p)
