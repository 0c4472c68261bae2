"""A kernel priced by what its compiler made of it: facts of candidates to columns of work.

Nothing is declared: instructions by pipe, what a lone warp takes, bytes and trips are read off the code and the program
(`carver.compiled`). What is left to constants are latencies under load, launch, and how demands overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...arch.descriptor import Arch
from ...arch.occupancy import TMEM_COLUMNS
from ...base.types import FloatArray
from ...compiled.facts import Facts, Total, added
from ...compiled.machine import LATENCIES_CLK, matrix_rates
from ..constants import CONSTANTS
from ..estimate import READS, Estimate, estimate, loaded_latency
from ..traffic import reused_share, sector_waste
from ..work import Work

PRIORS: Mapping[str, float] = {name: constant.prior for name, constant in CONSTANTS.items()} | {
    "dram_efficiency": 0.95,
    "l2_efficiency": 0.66,
    "smem_efficiency": 0.95,
    "dram_run_bytes": 23.2,
    "dram_latency_load": 1.5,
    "dram_overlap": 6.0,
    "l2_latency_load": 2.0,
    "block_start_clk": 0.0,
    "block_dispatch_clk": 156.0,
    "warp_start_clk": 5.5,
    "tail": 1.07,
    "launch_s": 4.2e-6,
    "pipeline_overlap": 2.5,
    "block_overlap": 8.0,
    "step_sync_clk": 0.0,
}
"""Of the device: launch, dispatch and DRAM as `carver calibrate` measured them on an H200 (`tests/data/h200`); for the
rest what was fitted for the matmul that Triton's declaration describes (`templates/matmul/triton.toml`). Of the code:
barriers, waits and instructions of a step are read; what stands for them elsewhere is nought here. Latencies are less
than a declaration's, since a step's own bytes are counted beside them; they and the exponents of overlap suit the
kernels of `benchmarks/zoo.py` that are not marked `unseen`. Where a block starts and ends is part of what it takes
alone: other blocks of the SM cover that as they cover its waits, so `block_start_clk` is 0 and `block_overlap` high."""

_READ = READS | {"dram_run_bytes", "l2_merge", "l2_usable", "math_efficiency", "smem_efficiency"}
MOVABLE = tuple(name for name in CONSTANTS if name in _READ and PRIORS[name] and not name.startswith("chain_"))
"""Constants that predicted times depend on, which measurements may move."""

ARITHMETIC = ("fma", "fma_heavy", "alu", "xu", "fp64", "valu", "salu", "trans", "uniform", "tma", "branch", "vmem")
"""Pipes beside the tensor cores; `issue` and the port of shared memory have terms of their own."""
PORT = ("lsu", "lds")
BLOCK_START_CLK = 300.0
"""From where an SM takes a block to its first instruction, and from its last to where its place is free: blocks that
do nothing else hold a place so long. Source: 45 million additions of float16 on an H200, 256 a block of 16 warps: four
such blocks on an SM take 1480 clocks, of which DRAM's latency and their instructions are 1180."""
TURNED = 0.145
"""What DRAM could have moved while its bus turns from reads to writes and back, over what it moves, where it copies.
Source: 4.58 TB/s of an H200 reading, 3.99 copying (`carver calibrate`)."""
LINE_BYTES = 128
"""Of L1. A pass of the load/store port moves bytes of one line: rows of 64 bytes take twice the passes of rows of 128.
Source: lists that Inductor timed and the zoo's matmuls on an H200 (`inductor_blocks.jsonl`, `zoo.jsonl.gz` in
`tests/data/h200`), where tiles of such rows take 7 to 30 % longer beside what else is priced. Nothing is fitted."""
CARVED_BYTES = 32 * 1024
"""Source: the sizes of shared memory that the CUDA C++ Programming Guide lists for compute capability 8.0 and 9.0."""


@dataclass(frozen=True)
class Shape:
    """What a candidate's blocks do in all; a step is a pass of an innermost loop. Clocks and bytes are of a block."""

    steps: float
    tensor_clk: float
    pipes_clk: float
    port_clk: float
    issue_clk: float
    total: Total
    between_clk: float
    """Issue slots of what warps do while they wait to start a product or for one to end, see `_between`."""
    serial_clk: float
    """What warps of one scheduler take one after another on the tensor cores, and their factors on the port of shared
    memory, beyond what a lone warp does."""
    load_bytes: float
    local_bytes: float
    """Of spilled registers, stored and loaded: they pass L1 by. Source: times of the zoo's kernels that spill."""
    store_bytes: float


def shape_of(facts: Facts, arch: Arch) -> Shape:
    total = added([*((loop.trips, loop.span) for loop in facts.loops), *facts.asides, (facts.working, facts.straight)])
    warps = facts.warps

    def pipes(names: Sequence[str]) -> list[float]:
        return [total.pipe_clk.get(name, 0.0) * warps for name in names]

    tensor = tensor_clk(total, arch, warps)
    factors = (total.factor_bytes * warps + total.block_factor_bytes) / arch.smem_bytes_per_clk
    turns = max(warps / arch.schedulers_per_sm, 1.0) - 1.0
    moved, passes = {"load": 0.0, "store": 0.0, "atomic": 0.0}, 0.0
    for access in facts.accesses:
        waste = sector_waste(np.array(access.run_bytes), np.array(access.align_bytes), arch.sector_bytes)
        moved[access.kind] += access.program_bytes * float(waste)
        if arch.vendor == "nvidia" and (access.kind, access.path) == ("load", "pointer"):
            rows = LINE_BYTES / min(max(access.run_bytes, arch.sector_bytes), LINE_BYTES)
            passes += (rows - 1.0) * access.program_bytes / LINE_BYTES
    issue = pipes(("issue",))[0]
    return Shape(
        max(facts.steps, 1.0), tensor, float(np.linalg.norm(pipes(ARITHMETIC), 8)), sum(pipes(PORT)) + factors + passes,
        issue, total, _between(total, tensor, issue, turns + 1.0),
        turns * total.tensor_clk + max(factors - tensor, 0.0), moved["load"],
        sum(n for kind, n in total.bytes.items() if kind.endswith(" local")) * warps, moved["store"] + moved["atomic"],
    )  # fmt: skip


def _between(total: Total, tensor_clk: float, issue_clk: float, turns: float) -> float:
    """Of a block's issue slots, those that stand between its products: not more than a lone warp leaves the tensor
    cores idle for.

    A softmax waits for one product, and the next waits for it. Barriers and the copies that they guard keep the warps
    of an SM in step: all compute, then all multiply, so that the two add up. Kernels that overlap them have to order
    their warps to do so. Source: FlashAttention-3, arXiv 2407.08608, section 3.1. Where a loop multiplies and copies
    alone, products run on while the next ones are prepared, and nothing of it is between them.
    """
    idle_clk = max(total.alone(0.0) - tensor_clk / turns, 0.0)
    return min(issue_clk, idle_clk * turns) if tensor_clk else 0.0


def tensor_clk(total: Total, arch: Arch, warps: int) -> float:
    """Of a block on the tensor cores of an SM. Kinds that the device does not list take the rate of the slowest."""
    rates: dict[str, float] = {" ".join(kind): rate for *kind, rate in matrix_rates(arch)}
    slowest = min(rates.values(), default=1.0)
    warp = sum(flops / rates.get(kind, slowest) for kind, flops in total.matrix.items())
    block = sum(flops / rates.get(kind, slowest) for kind, flops in total.block_matrix.items())
    return warp * warps + block


def fits(facts: Facts, arch: Arch) -> str:
    """Why no SM can hold a block of the kernel; empty where one can."""
    if facts.shared_bytes > arch.smem_per_block_bytes:
        return f"it needs {facts.shared_bytes:,} bytes of shared memory, a block may have {arch.smem_per_block_bytes:,}"
    if facts.warps * arch.warp_size > arch.max_threads_per_block:
        return f"it has {facts.warps * arch.warp_size} threads, a block may have {arch.max_threads_per_block}"
    if facts.tensor_columns > TMEM_COLUMNS:
        return f"it needs {facts.tensor_columns} columns of tensor memory, an SM has {TMEM_COLUMNS}"
    if facts.resident < 1:
        return f"{facts.warps} warps of {facts.registers} registers per thread do not fit an SM"
    return ""


def compiled(candidates: Sequence[Facts], arch: Arch, k: Mapping[str, float]) -> Work:
    """Work of candidates that fit, from their facts.

    All that a block does, in loops and outside of them, is spread over its steps: other blocks of the SM fill what it
    leaves idle, and a block that is alone waits for all of it.
    """
    shapes = [shape_of(f, arch) for f in candidates]

    def fact(name: str) -> FloatArray:
        return np.array([float(getattr(f, name)) for f in candidates])

    grid, held = fact("programs"), np.maximum(fact("resident"), 1.0)
    waves = grid / (arch.sm_count * held)
    uneven = 1.0 + (fact("imbalance") - 1.0) / np.maximum(waves, 1.0)
    steps = np.array([s.steps for s in shapes]) * uneven

    def each(name: str) -> FloatArray:
        column: FloatArray = np.array([getattr(s, name) for s in shapes]) / steps * uneven
        return column

    spilled, loads, stores = each("local_bytes"), each("load_bytes"), each("store_bytes")
    read = _dram_reads(candidates, arch, k)
    written = fact("written_bytes")
    moved = (read + written) * (1.0 + TURNED * 2.0 * np.minimum(read, written) / np.maximum(read + written, 1.0))
    asked = np.array([f.bytes_of("load") for f in candidates]) * grid
    near = np.minimum(fact("near_bytes") / np.maximum(asked, 1.0), 1.0)
    loads = loads * (1.0 - np.array([_found_in_l1(f, s, arch) for f, s in zip(candidates, shapes, strict=True)]))
    products = each("tensor_clk") / k["math_efficiency"] + each("between_clk")
    math = np.linalg.norm([products, each("pipes_clk")], 8, axis=0)
    work = Work(
        grid=grid,
        resident=held,
        warps=fact("warps"),
        steps=steps,
        ahead=np.full(len(shapes), np.inf),
        math_clk=np.maximum(math, 1.0),
        chain_clk=np.ones(len(shapes)),
        smem_clk=each("port_clk") / k["smem_efficiency"],
        issue_clk=each("issue_clk"),
        fill_bytes=loads + spilled,
        l2_bytes=loads * (1.0 - k["l2_merge"] * (1.0 - near)) + spilled + stores,
        l2_read_bytes=np.maximum(loads + spilled, 1.0) * moved / np.maximum(read, 1.0),
        dram_bytes=moved / (grid * steps),
        l3_bytes=read / (grid * steps),
        alone_overlap=k["pipeline_overlap"],
        fill_clk=0.0,
        facts={"dram_bytes": moved, "compulsory_bytes": fact("read_bytes") + fact("written_bytes")},
    )
    latency, transfer = loaded_latency(work, arch, k), _transfer_clk(work, arch, k)
    near_l1 = [_cached(f, arch) for f in candidates]
    lone = [_alone(*each) for each in zip(shapes, latency, transfer, near_l1, strict=True)]
    return replace(work, apart_clk=(np.array(lone) * uneven + BLOCK_START_CLK) / steps)


def _alone(shape: Shape, latency_clk: float, transfer_clk: float, cached: float) -> float:
    """Clocks of a block that has an SM to itself. `transfer_clk`: of the bytes of a step.

    The products of other warps cover what a warp waits for, if its loads were issued steps before; a wait that grows
    with latency from the first clock on is for loads of the same step, and adds to them.
    """
    total = shape.total
    now = total.alone(0.0, cached)
    waits = (total.alone(latency_clk, cached) - now) / latency_clk
    waited = total.alone(latency_clk + transfer_clk * shape.steps / max(waits, shape.steps), cached)
    short = LATENCIES_CLK[1]
    exposed = min(max((total.alone(short, cached) - now) / short / shape.steps, 0.0), 1.0)
    return exposed * (waited + shape.serial_clk) + (1.0 - exposed) * max(now + shape.serial_clk, waited)


def _transfer_clk(work: Work, arch: Arch, k: Mapping[str, float]) -> FloatArray:
    """What the bytes of one step of one block take on their way, all SMs asking at once."""
    everywhere = work.l2_bytes * arch.sm_count * arch.clock_hz / (arch.l2_bytes_per_s * k["l2_efficiency"])
    out: FloatArray = np.maximum(work.fill_bytes / arch.l2_bytes_per_clk_per_sm, everywhere)
    return out


def _dram_reads(candidates: Sequence[Facts], arch: Arch, k: Mapping[str, float]) -> FloatArray:
    """Bytes read from DRAM.

    What waves read again, and what programs read a second time, comes from L2 as far as a wave's bytes fit it.
    """
    once, waves, live, again = (
        np.array([getattr(f, name) for f in candidates])
        for name in ("read_bytes", "wave_bytes", "live_bytes", "again_bytes")
    )
    hit = np.minimum(1.0, reused_share(arch, k) * arch.l2_bytes / np.maximum(live, 1.0))
    pages = np.array([_pages(f, arch, k) for f in candidates])
    out: FloatArray = (once + (1.0 - hit) * (np.maximum(waves - once, 0.0) + again)) * pages
    return out


def _pages(f: Facts, arch: Arch, k: Mapping[str, float]) -> float:
    """Bytes that DRAM could have moved over those that are asked for: short runs open pages more often."""
    loads = [(a.program_bytes, max(a.run_bytes, arch.sector_bytes)) for a in f.accesses if a.kind == "load"]
    asked = sum(n for n, _ in loads)
    return sum(n * (1.0 + k["dram_run_bytes"] / run) for n, run in loads) / asked if asked else 1.0


def _found_in_l1(f: Facts, shape: Shape, arch: Arch) -> float:
    """Share of loaded bytes that L1 has from another load of the SM's blocks. Asynchronous copies pass it by."""
    moved = {kind: shape.total.bytes.get(f"{kind} global", 0.0) for kind in ("load", "copy")}
    if not moved["load"] or any(a.path == "descriptor" for a in f.accesses if a.kind == "load"):
        return 0.0
    plain = moved["load"] / (moved["load"] + moved["copy"])
    held = min(1.0, _l1_bytes(f, arch) / max(f.sm_live_bytes, 1.0))
    asked = f.bytes_of("load") * f.programs
    return plain * held * max(0.0, 1.0 - f.sm_bytes / asked) if asked else 0.0


def _l1_bytes(f: Facts, arch: Arch) -> float:
    """What shared memory leaves of L1, which is cut in steps of CARVED_BYTES."""
    taken = f.resident * (f.shared_bytes + arch.smem_reserved_bytes)
    return float(max(arch.l1_bytes - -(-taken // CARVED_BYTES) * CARVED_BYTES, 0.0))


def _cached(f: Facts, arch: Arch) -> float:
    """Share of the plain loads of loops that L1 answers, since a pass before asked for the same sector: L1 fetches the
    sectors asked for, not their lines.

    Where loops copy asynchronously, plain loads are those of fewest bytes.
    """
    loads = sorted((a for a in f.accesses if a.kind == "load" and a.loop >= 0), key=lambda a: a.program_bytes)
    copied = sum(loop.trips * loop.span.bytes.get("copy global", 0.0) for loop in f.loops) * f.warps
    plain = sum(a.program_bytes for a in loads if a.path == "pointer") - copied
    taken, found = 0.0, []
    for access in loads:
        if access.path == "descriptor" or taken >= 0.9 * plain:
            break
        taken += access.program_bytes
        known = not np.isnan(access.stride_bytes)
        found.append(max(0.0, 1.0 - access.stride_bytes / arch.sector_bytes) if known else 0.0)
    return float(np.mean(found)) if found else 0.0


def priors(arch: Arch) -> Mapping[str, float]:
    """PRIORS on a device: an L2 rate that kernels reach is taken whole, as `constants.resolve` does."""
    return {**PRIORS, "l2_efficiency": 1.0} if arch.l2_achieved else PRIORS


def price_compiled(
    candidates: Sequence[Facts], arch: Arch, k: Mapping[str, float] | None = None
) -> tuple[Work, Estimate]:  # fmt: skip
    """Work and time of candidates, at the clock that the device keeps while its matrix units work, if they do. `k`:
    constants in place of `priors`."""
    k = priors(arch) if k is None else k
    if any(f.dot_flops for f in candidates) and arch.matrix_clock_hz < arch.clock_hz:
        arch = arch.replace(clock_hz=arch.matrix_clock_hz)
    work = compiled(candidates, arch, k)
    return work, estimate(work, arch, k)
