"""The constants of the cost model: what each means, its prior and its physical bounds.

Priors hold for a kernel nobody measured. A kernel's declaration overrides them under `[constants]` with
values fitted on measurements (its `[fitted]` table says which, when and how); a device's descriptor
overrides both with what was measured on that very device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ..arch.descriptor import Arch
from ..base.errors import KernelError, nearest
from ..base.types import FrozenDict
from ..kernels.declaration import Kernel


@dataclass(frozen=True, slots=True)
class Constant:
    prior: float
    low: float
    high: float
    meaning: str


CONSTANTS = {
    # efficiencies: reachable share of a datasheet rate
    "math_efficiency": Constant(0.99, 0.70, 1.0, "share of the peak arithmetic rate that a full pipe sustains"),
    "dram_efficiency": Constant(0.88, 0.70, 0.97, "share of the DRAM pin bandwidth that streaming reaches"),
    "dram_run_bytes": Constant(16.0, 0.5, 128.0, "bytes that DRAM could have moved while it opens a page for a run"),
    "dram_burst": Constant(0.0, 0.0, 0.2, "DRAM's idle time over its own, for a KiB that each warp asks for at once"),
    "l2_efficiency": Constant(1.0, 0.4, 1.5, "share of the descriptor's L2 bandwidth, which is a prior itself"),
    "l2_merge": Constant(0.8, 0.0, 1.0, "share of what neighbouring SMs read in common that L2 serves once for all"),
    "smem_efficiency": Constant(0.95, 0.7, 1.0, "share of the shared-memory port"),
    "l2_usable": Constant(0.6, 0.3, 1.0, "share of L2 that holds what a wave reuses, where halves keep a line twice"),
    # latencies under load, in multiples of the unloaded ones of the descriptor
    "dram_latency_load": Constant(3.6, 1.5, 6.0, "DRAM latency seen in a busy pipeline over the unloaded one"),
    "l2_latency_load": Constant(2.8, 1.0, 5.0, "L2 latency seen in a busy pipeline over the unloaded one"),
    "pipeline_overlap": Constant(3.8, 1.2, 8.0, "exponent that joins throughput and uncovered latency of a step"),
    "dram_overlap": Constant(4.0, 1.2, 16.0, "exponent that joins what the SMs take and what DRAM takes"),
    "chain_overlap": Constant(8.0, 1.0, 16.0, "exponent that joins a block's own chain and the shared math pipe"),
    "chain_latency": Constant(0.55, 0.1, 1.5, "share of a step's chain that adds to the latency to be covered"),
    # clocks
    "block_start_clk": Constant(500.0, 100.0, 2000.0, "from the launch of a block to its first load"),
    "block_dispatch_clk": Constant(155.0, 20.0, 400.0, "between two blocks that one SM is handed"),
    "warp_start_clk": Constant(24.0, 1.0, 100.0, "between two warps that one SM starts"),
    "step_sync_clk": Constant(85.0, 1.0, 400.0, "barrier of a step that nothing overlaps"),
    "step_chain_clk": Constant(33.0, 10.0, 400.0, "fixed part of a block's serial chain in a step: ldmatrix, about"),
    "group_chain_clk": Constant(150.0, 10.0, 600.0, "the same where a group of warps issues and awaits wgmma"),
    "serial_clk": Constant(170.0, 10.0, 600.0, "of a step whose wgmmas wait for each other, over one whose do not"),
    "row_scalar_clk": Constant(1.0, 0.1, 8.0, "a scalar that a step loads from a row of its own, of the load port"),
    # instructions, a warp
    "step_instr": Constant(65.0, 2.0, 200.0, "bookkeeping of a warp in a step"),
    "copy_instr": Constant(20.0, 1.0, 80.0, "per global-to-shared copy of a thread, address and predicate included"),
    "copy_b_weight": Constant(1.0, 0.5, 2.0, "what a copy of the second operand costs over one of the first"),
    "fragment_instr": Constant(1.05, 0.3, 10.0, "per 512 bytes that a warp reads from shared memory"),
    "convert_instr": Constant(6.0, 0.1, 20.0, "per element that is converted before it is multiplied"),
    "access_instr": Constant(4.0, 1.0, 40.0, "per load or store of a thread outside a copy pipeline, address included"),
    "element_instr": Constant(
        1.0, 0.1, 8.0, "per element of a streaming kernel on top of its arithmetic: conversion, predicate"
    ),
    "dependent_issue_clk": Constant(3.0, 1.0, 8.0, "between instructions of one warp that has a scheduler to itself"),
    "store_instr": Constant(13.0, 0.5, 40.0, "per accumulator that a thread writes"),
    "store_chain": Constant(0.5, 0.01, 8.0, "part of the epilogue's instructions that runs at a single warp's rate"),
    "block_overlap": Constant(
        0.5, 0.0, 1.5, "after the first wave, start and epilogue show as resident blocks to minus this"
    ),
    "tail": Constant(0.98, 0.8, 1.2, "weight of the last, partly filled wave"),
    "spill_penalty": Constant(0.02, 0.0, 0.2, "slow-down of a CPU's loop per vector that does not fit its registers"),
    "spill_rounds": Constant(2.0, 0.5, 8.0, "times in a step that a register which does not fit is stored and loaded"),
    # threads that read their operands one by one
    "vector_efficiency": Constant(1.0, 0.7, 1.0, "the share of the peak rate for a loop of products on vector units"),
    "unroll_instr": Constant(4.0, 0.5, 40.0, "loop and addresses between two unrolled runs of products"),
    "read_merge": Constant(1.7, 1.0, 2.0, "reads of one address by neighbouring lanes that one pass serves"),
    "read_latency_clk": Constant(20.0, 2.0, 60.0, "shared memory's latency that a warp sees in each product"),
    # windows: bodies unrolled over a filter
    "port_overlap": Constant(2.0, 1.0, 8.0, "exponent that joins arithmetic and the loads that feed it in one body"),
    "line_lookup_clk": Constant(1.0, 0.5, 4.0, "L1 lookup of one line of a load"),
    "address_weight": Constant(1.0, 0.0, 4.0, "weight of the address instructions that a declaration counts"),
    "guard_instr": Constant(2.0, 0.0, 12.0, "test of a load against the border"),
    "guarded_copy": Constant(1.3, 1.0, 6.0, "copy into shared memory that tests the border, over one that does not"),
    "copy_waits": Constant(
        0.3, 0.0, 1.5, "latencies that show of the load rounds of a copy into shared memory, over their number"
    ),
    "unaliased_copy": Constant(
        0.9, 0.1, 1.0, "share of those that is left where loads may pass the stores before them"
    ),
    "load_waits": Constant(1.0, 0.0, 20.0, "load latencies that show in a body, or a product, that reads through L1"),
    "spill_traffic": Constant(1.0, 0.1, 4.0, "share of spilled values' bytes that leaves L1"),
    # delayed sums: one channel of one output a step
    "narrow_load": Constant(1.5, 1.0, 4.0, "L1 time of a load of less than a register, over that of a register"),
    "channel_instr": Constant(9.0, 4.0, 30.0, "instructions of a warp for one channel"),
    "warp_spread": Constant(0.01, 0.0, 0.05, "standard deviation of the run times of a block's warps, over their mean"),
    "channel_unroll": Constant(4.0, 1.0, 16.0, "channels whose loads are in flight together"),
    # seconds
    "launch_s": Constant(4.0e-6, 1e-6, 8e-6, "an empty kernel between two events"),
    "split_s": Constant(3.8e-6, 5e-7, 8e-6, "second kernel that adds split partial results"),
    "split_each_s": Constant(1.2e-7, 1e-8, 6e-7, "the same, per partial result added"),
    "atomic_share": Constant(0.02, 0.004, 0.5, "rate of compare-and-swap additions over the bytes that L2 moves"),
    "hot_steps": Constant(24.0, 2.0, 200.0, "steps over which blocks that share one operand row are spread"),
}


@lru_cache(maxsize=256)
def resolve(kernel: Kernel, arch: Arch) -> Mapping[str, float]:
    """The constants in force: priors, then the kernel's, then what was measured on the device, for all kernels
    (`[fitted.constants]` of its descriptor) and for this one (`[fitted."operator/kernel"]`).

    A kernel's `l2_efficiency` is the share of a rate of the design; a descriptor's that kernels reach is taken whole.
    """
    out = {name: c.prior for name, c in CONSTANTS.items()}
    own = f"{kernel.operator}/{kernel.name}"
    for source, given in (
        (str(kernel.path), kernel.constants),
        (arch.name, arch.fitted_constants("constants")),
        (arch.name, arch.fitted_constants(own)),
    ):
        for name in given:
            if name not in CONSTANTS:
                raise KernelError(f"{source}: unknown constant {name!r}; {nearest(name, CONSTANTS)}")
        out.update(given)
        if given is kernel.constants and arch.l2_achieved:
            out["l2_efficiency"] = 1.0
    return FrozenDict(out)
