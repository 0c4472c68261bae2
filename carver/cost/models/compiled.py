"""A kernel priced by what its compiler made of it: facts of candidates to columns of work.

Nothing is declared: instructions by pipe, what a lone warp takes, bytes and trips are read off the code and the program
(`carver.compiled`). What is left to constants are latencies under load, launch, and how demands overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...arch.descriptor import Arch
from ...base.types import FloatArray
from ...compiled.facts import Facts, Total, added
from ..constants import CONSTANTS
from ..estimate import Estimate, estimate, loaded_latency
from ..occupancy import occupancy_limits
from ..traffic import sector_waste
from ..work import Work

PRIORS: Mapping[str, float] = {name: constant.prior for name, constant in CONSTANTS.items()} | {
    "dram_efficiency": 0.83,
    "l2_efficiency": 0.66,
    "smem_efficiency": 0.89,
    "dram_latency_load": 3.57,
    "l2_latency_load": 3.16,
    "block_start_clk": 600.0,
    "block_dispatch_clk": 159.0,
    "warp_start_clk": 24.6,
    "tail": 1.07,
    "launch_s": 4.2e-6,
    "pipeline_overlap": 2.5,
    "step_sync_clk": 0.0,
}
"""Of the device: what was fitted for the matmul that Triton's declaration describes, `templates/matmul/triton.toml`.
Of the code: barriers, waits and instructions of a step are read; what stands for them elsewhere is nought here.
`pipeline_overlap` joins what pipes take with what a lone warp takes; 2.5, where declarations have 3.5, suits the
kernels of `benchmarks/zoo.py` that are not marked `unseen`."""

ARITHMETIC = ("fma", "fma_heavy", "alu", "xu", "fp64", "valu", "salu", "trans", "uniform", "tma", "branch", "vmem")
"""Pipes beside the tensor cores; `issue` and the port of shared memory have terms of their own."""
PORT = ("lsu", "lds")


@dataclass(frozen=True)
class Shape:
    """What a candidate's blocks do; a step is the mean pass of an innermost loop. Clocks and bytes are of a block."""

    steps: float
    tensor_clk: float
    pipes_clk: float
    port_clk: float
    issue_clk: float
    loops: Total
    once: Total | None
    serial_clk: float
    """That warps of one scheduler take on the tensor cores one after another, beyond what a lone warp does."""
    fill_bytes: float
    store_bytes: float


def tensor_clk(total: Total, arch: Arch, warps: int) -> float:
    """Of a block on the tensor cores of an SM. Kinds that the device does not list take the rate of the slowest."""
    rates = {f"{m.instruction} {m.dtype} {m.accumulate}": m.flops_per_clk_per_sm for m in arch.matrix}
    slowest = min(rates.values(), default=1.0)
    warp = sum(flops / rates.get(kind, slowest) for kind, flops in total.matrix.items())
    block = sum(flops / rates.get(kind, slowest) for kind, flops in total.block_matrix.items())
    return warp * warps + block


def shape_of(facts: Facts, arch: Arch) -> Shape:
    looped, straight = facts.looped, added([(1.0, facts.straight)])
    whole = facts.steps < 0.5
    loops, once, steps = (straight, None, 1.0) if whole else (looped, straight, facts.steps)
    warps = facts.warps

    def pipes(total: Total, names: Sequence[str]) -> list[float]:
        return [total.pipe_clk.get(name, 0.0) * warps for name in names]

    loads = [a for a in facts.accesses if a.kind == "load"]
    stores = [a for a in facts.accesses if a.kind != "load"]
    waste = {a: _waste(a.run_bytes, a.align_bytes, arch) for a in facts.accesses}
    turns = max(warps / arch.schedulers_per_sm, 1.0) - 1.0
    return Shape(
        steps, tensor_clk(loops, arch, warps), float(np.linalg.norm(pipes(loops, ARITHMETIC), 8)),
        sum(pipes(loops, PORT)), pipes(loops, ("issue",))[0], loops, once, turns * loops.tensor_clk,
        sum(a.program_bytes * waste[a] for a in loads), sum(a.program_bytes * waste[a] for a in stores),
    )  # fmt: skip


def _waste(run_bytes: float, align_bytes: float, arch: Arch) -> float:
    return float(sector_waste(np.array(run_bytes), np.array(align_bytes), arch.sector_bytes))


def resident(facts: Facts, arch: Arch) -> float:
    """Blocks that an SM holds; 0 for a kernel that does not fit."""
    column = [np.array([float(n)]) for n in (facts.warps, facts.shared_bytes, max(facts.registers, 1))]
    return float(min(limit[0] for limit in occupancy_limits(arch, *column)))


def fits(facts: Facts, arch: Arch) -> str:
    """Why no SM can hold a block of the kernel; empty where one can."""
    if facts.shared_bytes > arch.smem_per_block_bytes:
        return f"it needs {facts.shared_bytes:,} bytes of shared memory, a block may have {arch.smem_per_block_bytes:,}"
    if facts.warps * arch.warp_size > arch.max_threads_per_block:
        return f"it has {facts.warps * arch.warp_size} threads, a block may have {arch.max_threads_per_block}"
    if resident(facts, arch) < 1:
        return f"{facts.warps} warps of {facts.registers} registers a thread do not fit an SM"
    return ""


def compiled(candidates: Sequence[Facts], arch: Arch, k: Mapping[str, float] = PRIORS) -> Work:
    """Work of candidates that fit, from their facts."""
    shapes = [shape_of(f, arch) for f in candidates]
    held = np.array([max(resident(f, arch), 1.0) for f in candidates])
    grid = np.array([float(f.programs) for f in candidates])
    waves = grid / (arch.sm_count * held)
    uneven = 1.0 + (np.array([f.imbalance for f in candidates]) - 1.0) / np.maximum(waves, 1.0)
    steps = np.array([s.steps for s in shapes]) * uneven

    def each(name: str) -> FloatArray:
        column: FloatArray = np.array([getattr(s, name) for s in shapes]) / steps * uneven
        return column

    read, served = (
        np.array(column)
        for column in zip(*(_reads(f, h, arch, k) for f, h in zip(candidates, held, strict=True)), strict=True)
    )
    spilled = (
        np.array([_spilled(f, s, h, arch) for f, s, h in zip(candidates, shapes, held, strict=True)]) / steps * uneven
    )
    fill = each("fill_bytes") + spilled
    dram = read / (grid * steps)
    once = [s.once for s in shapes]
    warps = np.array([float(f.warps) for f in candidates])
    store_clk = [
        float(np.linalg.norm([t.pipe_clk.get(p, 0.0) for p in ("issue", *ARITHMETIC, *PORT)], 8)) if t else 0.0
        for t in once
    ]
    work = Work(
        grid=grid,
        resident=held,
        warps=warps,
        steps=steps,
        ahead=np.full(len(shapes), np.inf),
        math_clk=np.maximum(
            np.linalg.norm([each("tensor_clk") / k["math_efficiency"], each("pipes_clk")], 8, axis=0), 1.0
        ),
        chain_clk=np.ones(len(shapes)),
        smem_clk=each("port_clk") / k["smem_efficiency"],
        issue_clk=each("issue_clk"),
        fill_bytes=fill,
        l2_bytes=each("fill_bytes") * served + spilled,
        l2_read_bytes=fill,
        dram_bytes=dram,
        l3_bytes=dram,
        store_bytes=np.array([s.store_bytes for s in shapes]),
        store_clk=np.array(store_clk) * warps,
        facts={
            "dram_bytes": read + np.array([f.written_bytes for f in candidates]),
            "compulsory_bytes": np.array([f.read_bytes + f.written_bytes for f in candidates]),
        },
    )
    latency = loaded_latency(work, arch, k)
    alone = np.array([s.loops.alone(at) + s.serial_clk for s, at in zip(shapes, latency, strict=True)]) / steps * uneven
    tail = np.array([t.alone(at) if t else 0.0 for t, at in zip(once, latency, strict=True)])
    return replace(work, apart_clk=alone, store_chain_clk=tail)


def _reads(f: Facts, held: float, arch: Arch, k: Mapping[str, float]) -> tuple[float, float]:
    """Bytes read from DRAM, and requests that L2 serves over those made.

    What a wave reads is read once if L2 keeps it; what waves read again comes from L2 as far as a wave's bytes fit it.
    Neighbours on as many SMs as share a port ask for the same lines together (see `traffic.merged`).
    """
    everything, live = f.reads.waves(max(int(arch.sm_count * held), 1))
    hit = min(1.0, k["l2_usable"] * arch.l2_bytes / max(live, 1.0))
    together, _ = f.reads.waves(max(arch.l2_merge_sms, 1))
    asked = f.bytes_of("load") * f.programs
    distinct = min(together / asked, 1.0) if asked else 1.0
    return f.read_bytes + (1.0 - hit) * max(everything - f.read_bytes, 0.0), 1.0 - k["l2_merge"] * (1.0 - distinct)


def _spilled(f: Facts, shape: Shape, held: float, arch: Arch) -> float:
    """Bytes of spilled registers that a block moves beyond L1: those of all threads may not fit what L1 has left."""
    lanes = f.warps * arch.warp_size
    kept = max(arch.l1_bytes - held * f.shared_bytes, 0.0)
    missed = 1.0 - min(1.0, kept / max(held * lanes * f.spill_bytes, 1.0))
    moved = sum(n for kind, n in shape.loops.bytes.items() if kind.endswith(" local"))
    return moved * f.warps * missed


def price_compiled(candidates: Sequence[Facts], arch: Arch, k: Mapping[str, float] = PRIORS) -> tuple[Work, Estimate]:
    """Work and time of candidates."""
    work = compiled(candidates, arch, k)
    return work, estimate(work, arch, k)
