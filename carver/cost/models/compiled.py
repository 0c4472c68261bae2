"""Price kernels from their compiled code: from `Facts` of candidates to their `Work`.

There is no declaration. Instructions by pipe, the time of a lone warp, bytes and trip counts are read from the machine
code and the program (`carver.compiled`). Constants give only latencies under load, launch, and how demands overlap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...arch.descriptor import TMEM_COLUMNS, Arch
from ...base.types import FloatArray
from ...compiled.atomics import WORD_BYTES
from ...compiled.facts import AccessFacts, Facts
from ...compiled.isa.rates import Matrix, rate
from ...compiled.machine import LATENCIES_CLK, Span, added, between, matrix_rates
from ..estimate import READS, Estimate, Work, estimate, loaded_latency, side_by_side
from ..model import CONSTANTS
from ..tile import FETCH_CLK, ISSUED, KEPT_INSTRUCTIONS
from ..traffic import again_beyond, beyond, different, lost_share, reused_share, sector_waste
from .l1 import LINE_BYTES, SECTOR_BYTES, again_from_l2, asleep, hits, l1_bytes, not_in_l1, passes
from .slices import HANDED_CLK, LOOKUP_CLK, TURN_CLK, atomic_bytes, atomic_sectors, cross_partition, slice_clk

PRIORS: Mapping[str, float] = {name: constant.prior for name, constant in CONSTANTS.items()} | {
    "dram_efficiency": 0.95,
    "l2_efficiency": 0.95,
    "smem_efficiency": 1.0,
    "dram_run_bytes": 23.2,
    "dram_latency_load": 1.5,
    "dram_overlap": 4.5,
    "l2_latency_load": 1.6,
    "block_start_clk": 0.0,
    "block_dispatch_clk": 156.0,
    "warp_start_clk": 5.5,
    "tail": 1.07,
    "launch_s": 4.2e-6,
    "pipeline_overlap": 2.5,
    "block_overlap": 8.0,
    "step_sync_clk": 0.0,
}
"""Constants of this model. Their sources:

- Launch, dispatch and DRAM: `carver calibrate` on an H200 (`tests/data/h200`).
- Other constants of the device: fitted for Triton's matmul (`templates/matmul/triton.toml`).
- Barriers, waits and instructions of a step are read from the code, so the constants that estimate them for
  declarations are 0 here; passes of the port of shared memory and L1 too, conflicts of banks among them, so that all of
  its rate is reachable.
- Latencies are lower than those of declarations, since the time of a step's own bytes is added to them. They and the
  exponents of overlap were chosen for the kernels of `benchmarks/zoo.py` that are not marked `unseen`.
- A block's start and end count in its time alone, and other blocks of the SM hide them as they hide its waits. So
  `block_start_clk` is 0 and `block_overlap` is high.
"""

_READ = READS | {"dram_run_bytes", "l2_merge", "l2_usable", "math_efficiency", "smem_efficiency"}
MOVABLE = tuple(name for name in CONSTANTS if name in _READ and PRIORS[name] and not name.startswith("chain_"))
"""Constants that a fit to measurements may change: those that predicted times depend on."""

ARITHMETIC: tuple[str, ...] = (
    "valu", "fma", "fma_heavy", "half", "alu", "xu", "fp64", "salu", "trans", "uniform", "constants", "adu", "tma",
    "branch",
)
"""Arithmetic and other pipes besides the tensor cores; `issue`, the port of shared memory with the addresses of loads,
and that of AMD's L1 have their own terms."""
PORT = ("lsu", "lds")
DISPATCH_CLK = 115.0
"""`block_dispatch_clk` of NVIDIA's GPUs that have no clusters. Source: additions and GELUs of 6.3 million bfloat16, one
a thread, by blocks of one warp and of two: 81 ns for each further block of an SM of an A100 (karpathy/llm.c 299, 301),
and by blocks of one warp at most 64 ns on an RTX 3070 (284)."""
SLOT_CLK = 100.0
"""Time that a block occupies its slot on an SM besides running, for each doubling of its warps, and once more: from its
launch to its first instruction, and from the last one of its slowest warp until the slot is free. Source: copies of
2^26 floats, one a thread, by blocks of 8, 16 and 32 warps on an H200, of which 2,048 threads fill an SM: 0.204, 0.221
and 0.244 ms; with turns through shared memory 0.212, 0.231 and 0.259 (`blocks.jsonl` in tests/data/h200)."""
TURNED = 0.145
"""Share of bandwidth lost in a copy, when the DRAM bus turns around between reads and writes, over the bytes moved.
Source: an H200 reads at 4.58 TB/s and copies at 3.99 TB/s (`carver calibrate`). What LPDDR reaches has it already: a
Radeon 8060S copies at 210 GB/s and reads at 202 (AMD-AGI/TraceLens 943)."""
REWRITTEN = 3.6
"""Times that the part of its sectors which a store leaves out is moved to and from DRAM besides: the sector is read to
fill it, at random as `_pages` says, and written again by whoever stores the rest. Source:
transposes on an H100 that nothing else bounds: 3.6 to 9 where rows of 64 to 512 bytes begin anywhere (`forms.jsonl.gz`
in tests/data/h100). Where the next program fills the sectors, their stores bound the time (`zoo_more.jsonl.gz`)."""
DIRTY = 0.3
"""Of L2, how much it keeps of what was stored and writes when it needs room: the kernel before leaves that much.
Source: stored bytes that an H200 had not written at the end of 70 launches, 19 MB in the middle."""
PARTIAL_CLK = 1.63
"""Clocks in which a slice of L2 takes what a store writes to a line of which it fills sectors in part. Source: stores
of one word at random places of 4 to 16 MB, 59 to 63 billion a second on an H100 (`words.jsonl`) and 60 to 71 on an H200
(`words_blocks.jsonl` in tests/data/h200), in either of the halves that work on it. Stores to every fourth word of a
line take no more than one (stencils in `edges.jsonl.gz`, 145 billion sectors a second)."""
SLICE_BYTES_PER_CLK = 58.5
"""What a slice of L2 moves, by which the rate of L2 says how many slices work side by side. Source: 94 slices of an
H200, whose L2 moves 5,500 bytes a clock."""
DRAM_BYTES, PAGE_S, LEAST_PAGE_BYTES = 64, 13.3e-12, 45
"""Least that DRAM reads or writes at a time, the time in which it opens a page, and what else it could move meanwhile
at least, where nothing is measured. Sources: sectors that are read at random on an H100, of 3.35 TB/s, take 3.4 times
as long as their bytes in a row, whether a table has 64, 134 or 268 MB, and atomics on them twice that (`edges.jsonl.gz`
in `tests/data/h100`); 2 million of 256 MB on an H200, of 4.8 TB/s, 4.0 times (`first_touches.jsonl`)."""
LOOPLESS_OVERLAP = 4.5
"""Exponent that joins the times of pipes of code without loops, whose warps load, compute and store in turn: what
several of these take adds up more than where loads run ahead. Source: stencils and gathers on an H100
(`edges.jsonl.gz`, tests/data/h100), 4 to 5 alike."""
PASS_OVERLAP = 2 / 3
"""Factor on `dram_overlap` for code with loops or products: each pass waits for loads of its own, the longer the more
of DRAM's rate all take, so that waits and transfers hide less of each other than in blocks that load once. A loop of
one pass, which no compiler leaves a loop, waits for its tiles as those of two passes beside it in a list do. Sources: a
copy that walks the grid in one wave on an H200, 0.88 of its time with 1 and 0.93 with 2/3 (`blocks.jsonl`); 697
problems of the zoos: of 1, 5/6, 2/3 and 5/9 the best for first picks and for errors together. Products of one pass on
an H200: 0.86 to 0.91 of their time with 1, and 1.01 to 1.06 (`comba`, `rwkv6`, `dplr` in `lists.jsonl.gz`)."""
MOST_HELD = 0.98
"""Of a lone block's step at most, the share of products that hold their warps. They are in its time as well as in that
of its SM's tensor cores, so that the two do not add up as what waits and what works do: their exponent of overlap grows
as the rest of the step shrinks. Source: 235 times of Inductor's matmuls on an A100 (PyTorch's AutoHeuristic tables). A
block that had an SM to itself took 0.82 of the predicted time where K is above 2,000, and now 0.99."""
TOGETHER = 0.6
"""Factor on `l2_merge`, the share of what neighbouring SMs have in common that is merged on its way to L2, where these
are `lockstep`; elsewhere nothing is. Source: by an H200's counters of 289 launches L2 is asked for 0.95 to 1.00 of what
SMs get in stencils and gathers, and 0.5 to 0.9 in products (`languages*.jsonl.gz` in tests/data)."""
MOST_ALONG = 65_535
"""Programs of a grid along its second and third axis. Source: CUDA C++ Programming Guide, technical specifications."""


@dataclass(frozen=True)
class Shape:
    """Total clocks and bytes of one block of a candidate. A step is one iteration of an innermost loop."""

    steps: float
    tensor_clk: float
    held_clk: float
    """Those of products that hold their warp until the tensor cores take them: all but wgmma and tcgen05."""
    limited_clk: float
    """The same where the power limit holds all of them back."""
    pipes_clk: float
    port_clk: float
    issue_clk: float
    total: Span
    loops: tuple[tuple[float, Span], ...]
    """Their code, and how often it runs; in `outside` that outside of them."""
    outside: tuple[tuple[float, Span], ...]
    between_clk: float
    """Issue slots of instructions that run between products and leave the tensor cores idle, see `_between`."""
    serial_clk: float
    """Extra time because the warps of a scheduler take turns on the tensor cores, and where reading their operands from
    shared memory takes longer than the products."""
    load_bytes: float
    """Sectors of each access for itself."""
    cached_load_bytes: float
    """Sectors where those that several iterations read in part are fetched once."""
    local_bytes: float
    """Bytes of spilled registers, stored and loaded. They are counted as missing L1. Source: times of the zoo's kernels
    that spill."""
    store_bytes: float
    partial_lines: float
    """Lines of which stores fill sectors in part, those of each warp instruction for themselves."""
    atomic_sectors: float
    """Sectors of which L2 works off atomics, those of each warp instruction for themselves."""
    returned_bytes: float
    """Of those that it gives back as they were."""
    fetch_clk: float
    """Time to fetch code that is too long to be kept."""

    @property
    def once(self) -> float:
        """Share of loaded bytes that no earlier iteration of the program loaded."""
        return self.cached_load_bytes / self.load_bytes if self.load_bytes else 1.0


def shape_of(facts: Facts, arch: Arch) -> Shape:
    """The demands of one block, its code taken as often as it runs in the mean program."""
    outside = (*facts.asides, (facts.working, facts.straight))
    loops = tuple((loop.trips, loop.span) for loop in facts.loops)
    total = added((*loops, *outside))
    warps = facts.warps

    def pipes(names: Sequence[str]) -> list[float]:
        return [total.pipe_clk.get(name, 0.0) * warps for name in names]

    tensor, limited = (tensor_clk(total, matrix_rates(arch, held), warps) for held in (False, True))
    factors = (total.factor_bytes * warps + total.block_factor_bytes) / arch.smem_bytes_per_clk
    turns = max(warps / (arch.schedulers_per_sm * arch.sms_per_block), 1.0) - 1.0
    moved, cached = dict.fromkeys(("load", "store", "atomic"), 0.0), 0.0
    for access in facts.accesses:
        once, ever = access.touched * access.fresh, access.fetched
        if not access.placed:
            waste = float(sector_waste(np.array(access.span_bytes), np.array(access.align_bytes), arch.sector_bytes))
            once, ever = waste * access.fresh / access.density, waste * access.fetched / access.touched / access.filled
        once = max(once * access.merged, min(once, ever))
        moved[access.kind] += access.program_bytes * once
        cached += access.program_bytes * ever if access.kind == "load" else 0.0
    sectors = atomic_sectors(facts, total, moved, arch)
    returned = total.atomic_returned * WORD_BYTES / max(total.bytes.get("atomic global", 0.0), WORD_BYTES)
    issue, addresses, valu, lds, vmem = pipes(("issue", "agu", "valu", "lds", "vmem"))
    lost = sum(n * code.instructions for n, code in (*loops, *outside) if code.instructions > KEPT_INSTRUCTIONS)
    looked_up = sum(a.program_bytes * a.lines for a in facts.accesses) / LINE_BYTES if arch.vendor == "amd" else 0.0
    port = sum(pipes(PORT)) - asleep(facts, total, arch.vendor) + factors
    between, units = _between(total, tensor, issue, turns + 1.0), ARITHMETIC
    if arch.matrix_on_vector:
        between = _on_vector_units(total, tensor, valu, lds, warps / arch.schedulers_per_sm)
        units, port = ARITHMETIC[1:], max(port - max(between - valu, 0.0), 0.0)
    return Shape(
        steps=max(facts.steps, 1.0), total=total, loops=loops, outside=outside, tensor_clk=tensor, limited_clk=limited,
        held_clk=0.0 if total.block_matrix or any(kind.startswith("wgmma") for kind in total.matrix) else tensor,
        issue_clk=issue, pipes_clk=float(np.linalg.norm([*pipes(units), max(vmem, looked_up)], 8)),
        port_clk=max(port, addresses), between_clk=between,
        serial_clk=turns * total.tensor_clk + max(factors - tensor, 0.0),
        load_bytes=moved["load"], cached_load_bytes=cached, store_bytes=moved["store"],
        atomic_sectors=sectors, partial_lines=_partial_lines(facts, total, arch),
        returned_bytes=sectors * arch.sector_bytes * returned, fetch_clk=FETCH_CLK * lost * (arch.vendor == "nvidia"),
        local_bytes=sum(n for kind, n in total.bytes.items() if kind.endswith(" local")) * warps,
    )  # fmt: skip


def _partial_lines(f: Facts, total: Span, arch: Arch) -> float:
    """Those that are known of each store. Else of the lines whose sectors the code fills in part, the share that masks
    let through; of stores to places that the code does not tell, one for each run that is shorter."""
    coded = total.bytes.get("store global", 0.0) * f.warps
    stores = [a for a in f.accesses if a.kind == "store"]
    if any(a.lines for a in stores):
        return sum(a.program_bytes * a.lines / LINE_BYTES for a in stores
                   if arch.vendor == "nvidia" or a.lines * a.line_bytes > LINE_BYTES)  # fmt: skip
    asked = sum(a.program_bytes for a in stores)
    runs = sum(a.program_bytes / a.run_bytes for a in stores if a.run_bytes < arch.sector_bytes)
    if not coded or not asked:
        return 0.0
    passed = sum(a.program_bytes * a.merged for a in stores) / asked
    return (total.partial_lines * f.warps * min(asked, coded) * passed + total.unplaced_stores * f.warps * runs) / coded


def _between(total: Span, tensor_clk: float, issue_clk: float, turns: float) -> float:
    """Issue slots of a block's instructions that run between products, so that their time adds to that of the products.
    At most the time for which a lone warp leaves the tensor cores idle. In attention, the softmax waits for one
    product, and the next product waits for the softmax. Barriers, and the copies that they guard, keep the warps of an
    SM in step: all of them compute, then all multiply. Only kernels that order their warps explicitly overlap the two
    (FlashAttention-3, arXiv 2407.08608, section 3.1). Where a loop only copies and multiplies, products run on while
    the next ones are prepared, and the result is near 0."""
    idle_clk = max(total.alone(0.0) - tensor_clk / turns, 0.0)
    return min(issue_clk, idle_clk * turns) if tensor_clk else 0.0


def _on_vector_units(total: Span, tensor_clk: float, valu_clk: float, lds_clk: float, turns: float) -> float:
    """The same on RDNA, whose products are the vector units' own: vector instructions, and reads of shared memory that
    a lone warp waits for. Source of these: attention takes 1.3 times as long where values are read against the order
    of rows (carlushuang/gcnasm 24), float32 products as long as both together (`published_times.csv`)."""
    idle_clk = max(total.alone(0.0) * turns - tensor_clk, 0.0)
    return max(valu_clk, min(valu_clk + lds_clk, idle_clk))


def tensor_clk(total: Span, listed: Sequence[Sequence[Any]], warps: int) -> float:
    """Clocks of a block on an SM's tensor cores, of these rates (`matrix_rates`)."""
    rates = {Matrix(*kind): flops for *kind, flops in listed}
    warp, block = (
        sum(flops / rate(Matrix(*kind.split()), rates) for kind, flops in found.items())
        for found in (total.matrix, total.block_matrix)
    )
    return warp * warps + block


def fits(facts: Facts, arch: Arch) -> str:
    """Why no SM can hold a block of the kernel; empty if one can."""
    if facts.shared_bytes > arch.smem_per_block_bytes:
        return f"it needs {facts.shared_bytes:,} bytes of shared memory, a block may have {arch.smem_per_block_bytes:,}"
    if facts.threads > arch.max_threads_per_block:
        return f"it has {facts.threads} threads, a block may have {arch.max_threads_per_block}"
    for axis, programs in zip("yz", facts.grid[1:], strict=True):
        if arch.vendor == "nvidia" and programs > MOST_ALONG:
            return f"its grid has {programs:,} programs along {axis}, where a launch may have {MOST_ALONG:,}"
    if facts.tensor_columns > TMEM_COLUMNS:
        return f"it needs {facts.tensor_columns} columns of tensor memory, an SM has {TMEM_COLUMNS}"
    if not facts.resident:
        return f"{facts.warps} warps of {facts.registers} registers per thread do not fit an SM"
    return ""


def compiled(candidates: Sequence[Facts], arch: Arch, k: Mapping[str, float]) -> Work:
    """Work of candidates that fit, from their facts. All instructions of a block, inside and outside of loops, are
    spread evenly over its steps. Other blocks of the SM fill the time that a block leaves idle; a lone block is exposed
    to all its waits."""
    shapes = [shape_of(f, arch) for f in candidates]

    def fact(name: str) -> FloatArray:
        return np.array([float(getattr(f, name)) for f in candidates])

    grid, held = fact("programs"), np.maximum(fact("resident"), 1.0 / arch.sms_per_block)
    # a program that goes on when others of its SM have ended has the SM's units for itself
    uneven, beside = fact("unevenness"), np.maximum(np.minimum(held, grid / arch.sm_count), 1.0)
    loaded = np.minimum(uneven, np.maximum(fact("crowding"), uneven / beside))
    steps = np.array([s.steps for s in shapes]) * uneven

    def each(name: str) -> FloatArray:
        column: FloatArray = np.array([getattr(s, name) for s in shapes]) / steps * loaded
        return column

    spilled, loads, stores, returned = map(each, ("local_bytes", "load_bytes", "store_bytes", "returned_bytes"))
    missed_l1 = np.array([not_in_l1(f, s.total, arch, s.once) for f, s in zip(candidates, shapes, strict=True)])
    looked_up = np.array([passes(f, s.total, arch, missed)
                          for f, s, missed in zip(candidates, shapes, missed_l1, strict=True)]) / steps * loaded
    again = np.maximum(missed_l1 * each("load_bytes") - each("cached_load_bytes"), 0.0) * steps * grid
    second = [again_from_l2(f, s.total, arch) for f, s in zip(candidates, shapes, strict=True)]
    beyond_l2 = _missed_bytes(candidates, arch, k, arch.l2_bytes, again, second)
    read = np.minimum(beyond_l2, _missed_bytes(candidates, arch, k, max(arch.l2_bytes, arch.l3_bytes), again, second))
    written = np.array([_written(f, arch, k) for f in candidates])
    turned = TURNED if arch.dram_reach == 1.0 else 0.0
    moved = (read + written) * (1.0 + turned * 2.0 * np.minimum(read, written) / np.maximum(read + written, 1.0))
    dram_bytes = _missed_bytes(candidates, arch, k, max(arch.l2_bytes, arch.l3_bytes), again, second, 0.0)
    dram_bytes += [_written(f, arch, k, 0.0) for f in candidates]  # as they are, however long they take
    kept = float(reused_share(arch, k))
    out_of_l2, out_of_l3 = (
        np.array([_beyond_frames(f, f.present(arch) * arch.sm_count, kept * size) for f in candidates])
        * spilled * steps * grid
        for size in (arch.l2_bytes, max(arch.l2_bytes, arch.l3_bytes))
    )
    dram_bytes += out_of_l3
    # a register of a warp at a time, as often written as read
    out_of_l3 = out_of_l3 * (1.0 + turned) * (1.0 + k["dram_run_bytes"] / (arch.warp_size * WORD_BYTES))
    asked = np.array([f.fetched_bytes("load") for f in candidates]) * grid
    near = np.minimum(fact("near_bytes") / np.maximum(asked, 1.0), 1.0)
    loads *= missed_l1
    together = k["l2_merge"] * TOGETHER * (1.0 - near)
    asked_l2 = loads * [_requests(f, arch, k, alike if lockstep(f, s) else 0.0)
                        for f, s, alike in zip(candidates, shapes, together, strict=True)]
    passed, missed = cross_partition(arch), np.minimum(beyond_l2 / (grid * steps), loads)
    crossed = missed * (1.0 - 0.5 ** (loads / np.maximum(missed, 1.0))) if passed > 1.0 else 0.0
    products = each("tensor_clk") / k["math_efficiency"] + each("between_clk")
    math = np.linalg.norm([products, each("pipes_clk")], 8, axis=0)
    work = Work(
        grid=grid,
        resident=held,
        warps=fact("warps"),
        steps=steps,
        ahead=np.full(len(shapes), np.inf),
        math_clk=np.maximum(math, 1.0),
        power_clk=(each("limited_clk") / k["math_efficiency"] + each("between_clk")) if arch.power_limited else None,
        chain_clk=np.ones(len(shapes)),
        smem_clk=(each("port_clk") + looked_up) / k["smem_efficiency"],
        issue_clk=each("issue_clk") / (ISSUED if arch.vendor == "nvidia" else 1.0),
        fill_bytes=loads + spilled + returned,
        l2_bytes=asked_l2 + crossed + spilled + passed * stores,
        l2_read_bytes=np.maximum(loads + spilled, 1.0) * moved / np.maximum(read, 1.0),
        dram_bytes=(moved + out_of_l3) / (grid * steps),
        l3_bytes=(beyond_l2 + out_of_l2) / (grid * steps),
        fill_clk=0.0,
        facts={"dram_bytes": dram_bytes, "compulsory_bytes": fact("read_bytes") + fact("written_bytes")},
    )
    latency, transfer = loaded_latency(work, arch, k), _transfer_clk(work, arch, k)
    found = [hits(f, arch, missed) for f, missed in zip(candidates, missed_l1, strict=True)]
    away = np.array([_beyond_frames(f, f.present(arch), l1_bytes(f, arch)) for f in candidates])
    l2_clk = np.full(len(shapes), arch.clock_hz * arch.l2_latency_s * k["l2_latency_load"])
    columns = zip(shapes, latency, transfer, found, away, l2_clk, strict=True)
    lone = [_alone(*column) for column in columns]
    rate = arch.l2_bytes_per_s * k["l2_efficiency"] / arch.clock_hz
    slices = max(rate / (each_slice := _slice_bytes_per_clk(arch, k)), 1.0)
    atomics = each("atomic_sectors") * np.array([atomic_bytes(f, arch, rate, slices) for f in candidates])
    filling = passed * (each("partial_lines") * PARTIAL_CLK * slice_clk(arch) * each_slice - each("store_bytes"))
    late = atomics * [_late(s) for s in shapes] * (grid <= held * arch.sm_count)  # all blocks of one wave end together
    last = late * grid * arch.clock_hz / (arch.l2_bytes_per_s * k["l2_efficiency"])
    alone, waits = np.array(lone).T * uneven / steps
    waits *= [not s.held_clk and any(span.barriers for _, span in s.loops) for s in shapes]
    apart = alone + SLOT_CLK * (1.0 + np.log2(np.maximum(work.warps, 1.0))) / steps + last
    beside = 1.0 - np.minimum(each("held_clk") / apart, MOST_HELD)
    return replace(
        work, apart_clk=apart, barrier_wait_clk=waits, alone_overlap=k["pipeline_overlap"] / beside,
        l2_bytes=work.l2_bytes + atomics - late + returned + np.maximum(filling, 0.0),
        once_overlap=np.array([0.0 if f.loops else LOOPLESS_OVERLAP for f in candidates]),
        dram_overlap=np.array([PASS_OVERLAP if f.loops or f.dot_flops else 1.0 for f in candidates]),
        in_turn_s=fact("in_turn") * TURN_CLK / arch.clock_hz,
        handed_on_s=fact("handed_on") * HANDED_CLK / arch.clock_hz,
    )  # fmt: skip


def _late(s: Shape) -> float:
    """Share of the atomics that are outside of loops, where there are loops, as after sums of many rows."""
    within, last = (
        sum(times * (span.atomic_sectors + span.atomic_words) for times, span in each) for each in (s.loops, s.outside)
    )
    return last / (within + last) if s.loops and last else 0.0


def _alone(
    shape: Shape, latency_clk: float, transfer_clk: float, hits: Sequence[tuple[float, float]], away: float,
    near_clk: float,
) -> tuple[float, float]:  # fmt: skip
    """Clocks of a block that has an SM to itself, and for how many of them it waits and does nothing else: for tiles of
    wgmma those that pass registers, for copies use the port of shared memory meanwhile. `transfer_clk`: transfer time
    of a step's bytes. `hits`: of `l1.hits`; of spilled registers, `away`: the share that L1 does not keep, which L2
    answers after `near_clk`. Loads that were issued in earlier steps arrive while other warps multiply. Waits that grow
    with latency from the first clock on are for loads of the same step, and add to the products.

    Source of the registers: A^T B on an H200, in the median 0.85 of its time without them and 1.00 with them, and 0.91
    and 0.96 of small matrices (`staying_batches` in `zoo_27th.jsonl.gz`)."""

    def alone(clk: float) -> float:
        """But for what an earlier iteration fetched, a pass waits for what is beyond L1 once at least. With no latency
        at all L1 is the slower, since a hit still takes the time of one: a gain below 0."""
        spared = 0.0
        for (own, any_load), spans in zip(hits, (shape.outside, shape.loops), strict=True):
            for times, span in spans:
                gain = between(span.alone_clk, clk) - between(span.cached_clk, clk)
                spared += times * max(min(any_load * gain, max(gain - clk, 0.0)), own * gain)
        took = shape.total.alone(clk) - spared + away * between(shape.total.spilled_clk, min(clk, near_clk))
        return max(took, shape.fetch_clk)

    now, waited, moved = alone(0.0), alone(latency_clk), max(transfer_clk * shape.steps, 1.0)
    waits = max((waited - now) / latency_clk, shape.steps)
    more = (alone(latency_clk + moved / waits) - waited) / (moved / waits)  # those of what runs ahead show late
    waited = alone(latency_clk + moved / max(waits, more))
    short = LATENCIES_CLK[1]
    exposed = min(max((alone(short) - now) / short / shape.steps, 0.0), 1.0)
    now += shape.serial_clk
    took = exposed * (waited + shape.serial_clk) + (1.0 - exposed) * max(now, waited)
    idle = max(took - now, 0.0)
    if shape.tensor_clk:
        plain, copied = (sum(times * span.bytes.get(f"{kind} global", 0.0) for times, span in shape.loops)
                         for kind in ("load", "copy"))  # fmt: skip
        idle *= exposed * plain / max(plain + copied, 1.0)
    return took, idle


def _transfer_clk(work: Work, arch: Arch, k: Mapping[str, float]) -> FloatArray:
    """Transfer time of the bytes of one step of one block, when all SMs that have one load at once. [clk]"""
    loading = np.minimum(work.grid, arch.sm_count)
    everywhere = work.l2_bytes * loading * arch.clock_hz / (arch.l2_bytes_per_s * k["l2_efficiency"])
    return np.maximum(work.fill_bytes / arch.l2_bytes_per_clk_per_sm, everywhere)


def _missed_bytes(
    candidates: Sequence[Facts], arch: Arch, k: Mapping[str, float], cache_bytes: float, again: FloatArray,
    second: Sequence[float], pages: float = 1.0,
) -> FloatArray:  # fmt: skip
    """Bytes read from beyond a cache that all programs share: L2, or the one behind it. Bytes that later waves or the
    same program read again hit it, as far as what is touched meanwhile fits it. `again`: what each reads again of its
    own since L1 has lost it; `second`: of second passes, the share that L1 has lost; `pages`: 0 for bytes alone."""
    usable, each = float(reused_share(arch, k)) * cache_bytes, zip(candidates, again, second, strict=True)
    return np.array([_missed(f, arch, k, usable, own, lost, pages) for f, own, lost in each])


def _missed(
    f: Facts, arch: Arch, k: Mapping[str, float], usable_bytes: float, own_bytes: float, second: float, pages: float
) -> float:
    """Of one candidate. Each byte as long as it takes: short stretches open pages more often. A tensor that fits is
    read once: from pages that stay open where programs that run together look at a part of it, else from one for each
    64 bytes (`first_touches.jsonl` in tests/data/h200: half a million words of 16 MB, anywhere 12.4 microseconds, in
    order 9.8). Nobody waits for atomics, so that DRAM takes those of a page together."""
    once = sum(different(*each) for *each, _ in f.anywhere)
    again = second * f.again_bytes * lost_share(f.live_bytes, usable_bytes) + again_beyond(f.reuse, usable_bytes)
    step = min(f.step_bytes * f.present(arch) * arch.sm_count, f.live_bytes) if f.step_bytes else f.live_bytes
    own = own_bytes * lost_share(step, usable_bytes)
    placed = [a for a in f.accesses if a.kind != "store" and not a.anywhere]
    loose, lost = _pages([a for a in f.accesses if a.anywhere], arch, k, 0.0, pages), 0.0
    even = max(f.read_bytes - once + again, 0.0)
    for each, read in zip(f.anywhere, read_anywhere(f, arch, k, usable_bytes), strict=True):
        (asked, size, live), apart = each, 0.0
        first = different(asked, size)
        if each not in f.changed_anywhere:
            apart = pages * min(live / max(size, 1.0), 1.0) * _page_bytes(arch) / DRAM_BYTES
        opened = first * loose
        lost += (min(opened, size * (1.0 + apart)) if live <= usable_bytes else opened) + (read - first) * loose
    return even * _pages(placed, arch, k, 0.0, pages) + own * _pages(placed, arch, k, DRAM_BYTES, pages) + lost


def _page_bytes(arch: Arch) -> float:
    """What else DRAM could move while it opens a page."""
    return max(PAGE_S * arch.dram_bytes_per_s, LEAST_PAGE_BYTES)


def read_anywhere(f: Facts, arch: Arch, k: Mapping[str, float], usable_bytes: float) -> list[float]:
    """Bytes from beyond a cache, of each of `Facts.anywhere`. Where L2 is two halves, both keep what is read, and one
    what is stored or added to: that takes less of the room for what is read."""
    once = float(reused_share(arch, k) / reused_share(arch.replace(l2_copies=1), k))
    copies = [once if each in f.changed_anywhere else 1.0 for each in f.anywhere]
    passing = max(f.read_bytes - sum(different(*each) for *each, _ in f.anywhere), 0.0)
    return beyond(f.anywhere, copies, passing + once * f.written_bytes, usable_bytes)


def _written(f: Facts, arch: Arch, k: Mapping[str, float], pages: float = 1.0) -> float:
    """Bytes written to DRAM, each as long as it takes. What atomics changed is written when L2 gives it up, and again
    when others changed it since. Of what a kernel stores, L2 keeps as much in the end as it had of the kernel before,
    which it writes where it needs the room for what is read."""
    usable = float(reused_share(arch, k)) * arch.l2_bytes
    changed = [a for a in f.accesses if a.anywhere and a.kind != "load"]
    once = sum(different(*each) for *each, _ in f.changed_anywhere)
    read = dict(zip(f.anywhere, read_anywhere(f, arch, k, usable), strict=True))
    lost = sum(read.get(each, 0.0) for each in f.changed_anywhere)
    even = max(f.written_bytes - once, 0.0) * _rewritten(f, arch, usable) + again_beyond(f.rewritten, usable)
    own = even + lost * _pages(changed, arch, k, 0.0, pages)
    return max(own, min(max(f.read_bytes + f.written_bytes - usable, 0.0), DIRTY * arch.l2_bytes))


def _pages(
    loads: Sequence[AccessFacts], arch: Arch, k: Mapping[str, float], least_bytes: float = 0.0, pages: float = 1.0
) -> float:
    """Factor on the time of DRAM, since short stretches open pages more often. A run that lies anywhere moves at least
    DRAM_BYTES, and opens a page for itself; one that goes on where it ended, in the next pass of its loop, has asked
    for what was moved beside it (an H200's `walks.jsonl`: 0.93 to 1.05 of the times so, 1.3 to 1.9 alone).
    `least_bytes`: moved for each of the others, as for sectors that L2 lost: 977 MB for 549 MB of them by an H200's
    counters, a voxel grid with rows of 64 bytes (`voxels` in tests/data)."""
    asked, read = sum(a.program_bytes * a.fetched for a in loads), 0.0
    for a in loads:
        span = max(a.span_bytes, a.together_bytes, SECTOR_BYTES)  # in which bytes are counted; AMD moves twice as much
        span = max(span, DRAM_BYTES) if a.anywhere and 0.0 < (a.stride_bytes or 0.0) <= span else span
        least, page = (DRAM_BYTES, _page_bytes(arch)) if a.anywhere else (least_bytes, k["dram_run_bytes"])
        read += a.program_bytes * a.fetched * (max(span, least, arch.sector_bytes) + pages * page) / span
    return read / asked if asked else 1.0


def _beyond_frames(f: Facts, blocks: float, usable_bytes: float) -> float:
    """Share of spilled registers that a cache which so many blocks share does not keep, since the frames of their
    threads are larger: they go beyond it and back. Of L1: walks of local memory on an H200 (`spills.jsonl.gz`)."""
    frames = f.spill_bytes * f.threads * blocks
    return max(1.0 - usable_bytes / frames, 0.0) if frames else 0.0


def _rewritten(f: Facts, arch: Arch, usable_bytes: float) -> float:
    """Factor on the bytes that are written to DRAM, since stores cover some sectors only in part, as far as L2, which
    keeps `usable_bytes` of them, gives these up before others store the rest; those beside it in a pass do that at
    once, one that goes on in the next where they ended, and soon enough the next program. Sources: fields whose rows
    begin anywhere, of which an H200 wrote what was stored (`windows_counters.jsonl.gz`); 8 bytes of each sector at a
    time, of which it wrote 14 and 110 MB for 268 and 537 stored (`hash_grid` in tests/data/h100); words 8 to 96 bytes
    apart (`apart*.jsonl`); rows of 50,257 floats, 4.93 GB for 4.94 wanted, on an RTX 4060 (karpathy/llm.c 841)."""
    stores = [a for a in f.accesses if a.kind == "store" and not a.anywhere]
    asked = sum(a.program_bytes for a in stores)
    apart = [a for a in stores if not a.goes_on
             and (a.loop < 0 or not 0 < (a.stride_bytes or 0) <= max(a.span_bytes, a.together_bytes))]  # fmt: skip
    spans = np.array([max(a.span_bytes * max(a.filled, 1.0), a.together_bytes) for a in apart])
    waste = sector_waste(spans, np.array([a.align_bytes for a in apart]), arch.sector_bytes) - 1.0
    left_out = float(sum(a.program_bytes * w for a, w in zip(apart, waste, strict=True)))
    whole = sum(a.program_bytes / min(a.density * a.filled, 1.0) for a in stores)
    sizes = {a.argument: a.size_bytes or math.inf for a in stores}
    lost = lost_share(min(f.written_bytes * (whole + left_out) / max(asked, 1.0), sum(sizes.values())), usable_bytes)
    loaded = {a.argument for a in f.accesses if a.kind != "store"}  # what is changed in place was read
    gaps = ((a.program_bytes, 1.0 / min(a.density * a.filled, 1.0)) for a in apart if a.argument not in loaded)
    read = sum(own * min(times, (times - 1.0) * SECTOR_BYTES / WORD_BYTES) for own, times in gaps)
    return (whole + (read + REWRITTEN * left_out) * lost) / asked if asked else 1.0


def _requests(f: Facts, arch: Arch, k: Mapping[str, float], merged: float) -> float:
    """Factor on the bytes that L2 moves: a slice looks up one request at a time, however few bytes it is for. A request
    is what a warp's lanes want of a line. `merged`: share of requests that do not reach L2, since a neighbouring SM has
    the same at that time; those for words that lie anywhere rarely do, though SMs have many in common.
    Source: sectors read at random from a table of 4 MB on an H100, 119 billion a second (`take` in `edges.jsonl.gz`,
    tests/data/h100)."""
    loads = [a for a in f.accesses if a.kind == "load"]
    asked, moved = sum(a.program_bytes * a.fetched for a in loads), 0.0
    for a in loads:
        run = a.line_bytes or max(a.run_bytes * a.fetched, 0.0 if a.anywhere else a.span_bytes, arch.sector_bytes)
        alike = 0.0 if a.anywhere and a.run_bytes < arch.sector_bytes else merged
        looked_up = max(LOOKUP_CLK * _slice_bytes_per_clk(arch, k) / run, 1.0)
        moved += a.program_bytes * a.fetched * looked_up * (1.0 - alike)
    return moved / asked if asked else 1.0


def lockstep(f: Facts, shape: Shape) -> bool:
    """Whether SMs come to the same loads at one time: since these run ahead of their use, or are TMA's, or since
    barriers in a loop keep programs in step."""
    ahead = shape.total.bytes.get("copy global", 0.0) or any(loop.span.prefetched for loop in f.loops)
    boxes = any(access.path != "pointer" for access in f.accesses if access.kind == "load")
    return bool(ahead) or boxes or any(loop.span.barriers for loop in f.loops)


def _slice_bytes_per_clk(arch: Arch, k: Mapping[str, float]) -> float:
    """What a slice of L2 achieves. A descriptor whose rate of L2 is an achieved one has the slices for it, which are no
    faster than others."""
    return SLICE_BYTES_PER_CLK * (PRIORS if arch.l2_achieved else k)["l2_efficiency"]


def priors(arch: Arch) -> Mapping[str, float]:
    """PRIORS for a device. A measured L2 rate is used without a factor, as in `cost.model.resolve`."""
    own = {"l2_efficiency": 1.0} if arch.l2_achieved else {}
    return {**PRIORS, **own, **({"block_dispatch_clk": DISPATCH_CLK} if 0 < arch.cc_major < 9 else {})}


def price_compiled(
    candidates: Sequence[Facts], arch: Arch, k: Mapping[str, float] | None = None
) -> tuple[Work, Estimate]:
    """Work and time of candidates. Those that use matrix units are priced at the clock that the device sustains under
    matrix load. `k` are constants to use instead of `priors`."""
    k = priors(arch) if k is None else k
    slow = arch.replace(clock_hz=arch.matrix_clock_hz) if arch.matrix_clock_hz < arch.clock_hz else arch
    by_clock: dict[bool, list[int]] = {}
    for row, facts in enumerate(candidates):
        by_clock.setdefault(facts.dot_flops > 0, []).append(row)
    priced = []
    for multiplies, rows in by_clock.items():
        clocked = slow if multiplies else arch
        work = compiled([candidates[row] for row in rows], clocked, k)
        priced.append((work, estimate(work, clocked, k)))
    if len(priced) == 1:
        return priced[0]
    groups = list(by_clock.values())
    back = np.argsort(np.concatenate(groups))
    works, estimates = zip(*priced, strict=True)
    counts = [len(rows) for rows in groups]
    return side_by_side(works, counts, back), side_by_side(estimates, counts, back)
