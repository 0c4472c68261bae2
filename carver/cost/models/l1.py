"""L1 of kernels that are priced from their code: which loads find in it what they want, and the passes that they take.
"""

from __future__ import annotations

import math

import numpy as np

from ...arch.descriptor import Arch
from ...compiled.atomics import WORD_BYTES
from ...compiled.facts import AccessFacts, Facts
from ...compiled.machine import Span
from ..traffic import beyond, different

LOOKED_UP, HIT = 0.5, 0.3
"""Clocks in which L1 looks up a line that it lacks, or has, for lanes whose places are not affine. Sources: eight loads
of neighbouring words of random sectors on an H100 (`words.jsonl` in tests/data/h100), 2.0 lanes a clock of each SM; on
an H200 counters of passes beyond the tags over lines, 0.5 of gathers that miss, 0.27 to 0.35 of those of which 4 in 5
hit, and 0.28 clocks for lanes 33 words apart."""
CARVED_BYTES = 32 * 1024
"""Step in which shared memory is carved out of L1. Source: the sizes of shared memory that the CUDA C++ Programming
Guide lists for compute capability 8.0 and 9.0."""
LINE_BYTES, SECTOR_BYTES = 128, 32  # in which what programs touch is counted
"""Line of L1, and what of it is fetched. A pass of the load/store port moves bytes of one line, so rows of 64 bytes
take twice as many passes as rows of 128 bytes; the code says it of addresses that are known there. Source: lists timed
by Inductor and the zoo's matmuls on an H200 (`inductor_blocks.jsonl`, `zoo.jsonl.gz` in `tests/data/h200`): tiles with
such rows take 7 to 30 % longer than the other terms explain. Nothing is fitted."""
WARP_LANES, ENOUGH = 32, 40


def passes(f: Facts, total: Span, arch: Arch, missed: float) -> float:
    """Passes of L1 that loads of a block take beyond those for their bytes, where the code does not tell their places:
    for the lines of a warp's lanes, of which `missed` are not in L1, or for their banks. Loads that may lie anywhere
    are such as the code cannot tell; others of rows shorter than a line, as far as it has more of them."""
    loads = [a for a in f.accesses if (a.kind, a.path) == ("load", "pointer")]
    read = sum(total.bytes.get(f"{kind} global", 0.0) for kind in ("load", "copy"))
    asked = sum(a.program_bytes for a in loads)
    if arch.vendor != "nvidia" or not asked or not read:
        return 0.0
    once = min(read * f.warps / asked, 1.0)  # the compiler loads once what a loop asks for in several passes
    lost = sum(a.program_bytes for a in loads if a.anywhere or a.lines) / asked
    unplaced, found = total.unplaced_bytes / read, 0.0
    for a in loads:
        row = max(a.span_bytes, arch.sector_bytes)
        rows, share = LINE_BYTES / min(row, LINE_BYTES), max(unplaced - lost, 0.0) / max(1.0 - lost, 1e-9)
        if a.anywhere or a.lines:
            looked_up = HIT + (LOOKED_UP - HIT) * missed
            rows = max(rows if not a.lines else 1.0, looked_up * (a.lines or lines_at_once(a, arch)), a.banks)
            share = unplaced / lost
        found += max(rows - 1.0, 0.0) * a.program_bytes / LINE_BYTES * min(share, 1.0) * once
    return found


def asleep(f: Facts, total: Span, vendor: str) -> float:
    """Passes that the code has and a block does not make, since masks hold back whole warps: their instructions are
    issued, and none reaches the port. Those of which one lane is let through take a pass as others do. Source: loads of
    an H200 whose masks leave out every other program, warp, half warp or lane (`masks.jsonl` in tests/data/h200)."""
    made = {name: n * max(int(name.split()[-1]) * WARP_LANES / LINE_BYTES, 1.0)
            for name, n in total.accesses.items() if "constant" not in name}  # fmt: skip
    spared = 0.0
    for kind in ("load", "store") if vendor == "nvidia" else ():
        every = [a for a in f.accesses if (a.kind, a.path) == (kind, "pointer")]
        idle, asked = sum(a.idle_bytes for a in every), sum(a.program_bytes for a in every)
        coded = max(idle + asked, total.bytes.get(f"{kind} global", 0.0) * f.warps)
        own = sum(n for name, n in made.items() if name.startswith(f"{kind} global "))
        spared += own * idle / coded if coded else 0.0
    return total.pipe_clk.get("lsu", 0.0) * f.warps * spared / sum(made.values()) if spared else 0.0


def lines_at_once(access: AccessFacts, arch: Arch) -> float:
    """Of a load that lies anywhere, lines that L1 looks up for LINE_BYTES of it. Lanes of a warp meet in those of a
    small table."""
    sectors, lines = access.touched * LINE_BYTES / arch.sector_bytes, max(access.size_bytes / LINE_BYTES, 1.0)
    lanes = min(sectors, WARP_LANES)
    return sectors * lines * (1.0 - (1.0 - 1.0 / lines) ** lanes) / lanes if access.size_bytes else sectors


def not_in_l1(f: Facts, total: Span, arch: Arch, once: float) -> float:
    """Share of loaded bytes that do not hit L1, where another load of the SM's blocks fetched their sectors. `once`: of
    bytes that a program loads, the share that none of its earlier iterations did.

    Programs that go through a loop side by side share what they read in the same pass, where L1 has room for that: a
    splined layer on an H200, 1.72 times its best by the first pick without that, 1.23 with it (`zoo_26th.jsonl.gz`).
    Asynchronous copies bypass L1, and what acquires for all of the device empties it."""
    size, plain = l1_bytes(f, arch), through_l1(f, total)
    if not plain:
        return 1.0
    held, asked = min(1.0, size / max(f.sm_live_bytes, 1.0)), max(f.fetched_bytes("load") * f.programs, 1.0)
    step = min(f.present(arch) * f.step_bytes, f.sm_live_bytes) if f.step_bytes else f.sm_live_bytes
    stays = swept(step, size, once * arch.sector_bytes / LINE_BYTES)
    (live, own), *_ = f.sm_reuse
    common = max(own - float(np.interp(size, *np.transpose(f.sm_reuse))), 0.0) / max(own, asked)
    again = held * max(1.0 - own / asked, 0.0) + min(1.0, size / max(live, 1.0)) * common
    found = stays * (1.0 - once) + once * again
    if f.step_bytes and f.in_step_bytes:  # whoever comes later to a pass hits, until it has caught up
        new = min(f.in_step_bytes / asked, 1.0)
        found = max(found, min(1.0, size / (f.present(arch) * f.step_bytes * new)) * (1.0 - new))
    loose, seen = tables(f, arch, size)
    return 1.0 - plain * (found + loose * max(seen - found, 0.0))


def through_l1(f: Facts, total: Span) -> float:
    """Share of loaded bytes that may stay in L1: not of asynchronous copies, nor where the code empties it."""
    moved = {kind: total.bytes.get(f"{kind} global", 0.0) for kind in ("load", "copy")}
    others = any(a.path != "pointer" for a in f.accesses if a.kind == "load")
    if not moved["load"] or others or any(span.invalidations for span in f.spans):
        return 0.0
    return moved["load"] / (moved["load"] + moved["copy"])


EVENLY_FILLED = 0.8
"""Share of L1 that rows of several programs fill before some of its sets have lost lines. Source: 165 times of three
kernels of two and three passes on an H200 (`passes.jsonl`): with 1.0 first picks lose 4.7 %, with 0.8 2.5."""


def again_from_l2(f: Facts, total: Span, arch: Arch) -> float:
    """Of what programs read once more, as in a second pass over a row, the share that L1 has lost. Source: norms of an
    H200 that read rows of 2 to 128 KiB twice (`read_again.jsonl` in tests/data/h200), mean error 0.093 as if L1 lost
    all, 0.068 so. What is stored takes no room: with room for that, 0.083."""
    return 1.0 - through_l1(f, total) * swept(f.sm_live_bytes, EVENLY_FILLED * l1_bytes(f, arch), 0.0)


def tables(f: Facts, arch: Arch, size_bytes: float) -> tuple[float, float]:
    """Share of loaded bytes that lie anywhere in tensors, or where known numbers say, and of these the share that L1
    has: small tensors are looked at again long before what passes has taken their room, as where programs go on for
    long. A table of 1 KiB beside 480 KiB that an SM's blocks stream answers nearly all (`cuda_tables` in
    `languages_eighth.jsonl.gz`, tests/data/h200); tables of 4 to 208 KiB that four programs look up 124 times each take
    0.55 to 0.7 clocks a lane, one of 1 MiB 1.6 (`lookups.jsonl` there)."""
    wanted: dict[str, float] = {}
    for a in f.accesses:
        if (a.kind, a.path) == ("load", "pointer") and (a.anywhere or a.placed) and a.size_bytes:
            wanted[a.argument] = wanted.get(a.argument, 0.0) + a.program_bytes * a.fetched
    sizes = {a.argument: a.size_bytes for a in f.accesses}
    each = [(f.present(arch) * asked, sizes[name], sizes[name]) for name, asked in wanted.items() if asked]
    total = sum(asked for asked, *_ in each)
    if not total:
        return 0.0, 0.0
    passing = max(f.sm_live_bytes - sum(different(asked, held) for asked, held, _ in each), 0.0)
    missed = sum(beyond(each, [1.0] * len(each), passing, size_bytes, LINE_BYTES / SECTOR_BYTES))
    return min(sum(wanted.values()) / max(f.fetched_bytes("load"), 1.0), 1.0), 1.0 - min(missed / total, 1.0)


def swept(live_bytes: float, size_bytes: float, new: float) -> float:
    """Share of lines that a cache still has when a sweep over so many comes back to them: all where it has room for
    them, else as if what it gives up were drawn at random, for those that it lacks and for the share of them that is
    new in each sweep. Source: walks of 2,048 rows of an SM and of more on an H100
    (`frames_energy` in `blind.jsonl.gz`, tests/data/h100), and of up to as many as fit on an H200."""
    found, times = 0.0, live_bytes / max(size_bytes, 1.0)
    if times <= 1.0:
        return 1.0
    for _ in range(ENOUGH):
        found = math.exp(times * (found - 1.0 - new))
    return found


def l1_bytes(f: Facts, arch: Arch) -> float:
    """Size of L1 besides shared memory, which NVIDIA carves out of it in steps of CARVED_BYTES. That of AMD is an array
    of its own."""
    if arch.vendor != "nvidia":
        return float(arch.l1_bytes)
    taken = f.resident * (f.shared_bytes + arch.smem_reserved_bytes)
    return float(max(arch.l1_bytes - -(-taken // CARVED_BYTES) * CARVED_BYTES, 0.0))


def cached_share(f: Facts, arch: Arch, in_loops: bool) -> float:
    """Share of the plain loads in loops, or outside of them, that hit L1 because an earlier iteration, or load, of the
    program fetched their sector. L1 fetches sectors, not whole lines. Where loops also copy asynchronously, the loads
    of fewest bytes are taken as the plain ones."""
    loads = [a for a in f.accesses if a.kind == "load" and (a.loop >= 0) == in_loops]
    loads.sort(key=lambda a: a.program_bytes)
    spans = [(loop.trips, loop.span) for loop in f.loops] if in_loops else [*f.asides, (f.working, f.straight)]
    copied = sum(times * span.bytes.get("copy global", 0.0) for times, span in spans) * f.warps
    plain = sum(a.program_bytes for a in loads if a.path == "pointer") - copied
    taken, found = 0.0, []
    for access in loads:
        if access.path != "pointer" or taken >= 0.9 * plain:
            break
        taken += access.program_bytes
        reach = max(access.span_bytes, arch.sector_bytes)
        found.append(0.0 if access.stride_bytes is None else max(0.0, 1.0 - access.stride_bytes / reach))
    return float(np.mean(found)) if found else 0.0


def hits(f: Facts, arch: Arch, missed: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Outside of loops and in them: of the waits for plain loads, the share that L1 answers because an earlier load of
    the program had it fetch the sector, and because any load did. `missed`: `not_in_l1`, a share of what loads fetch:
    taps of a window that are loaded one after the other fetch less than they want. A stencil of 25 taps over rows of
    500 numbers in blocks of 1,024 to 4,096 took a half to a fourth of its price without that (`notation.jsonl.gz` in
    tests/data/h200), 0.9 to 1.2 of it so."""
    loads = [a for a in f.accesses if (a.kind, a.path) == ("load", "pointer") and a.loop < 0]
    wanted = sum(a.program_bytes for a in loads)
    new = sum(a.program_bytes * min(a.fetched, 1.0) for a in loads) / wanted if wanted else 1.0
    return (cached_share(f, arch, False), 1.0 - missed * new), (cached_share(f, arch, True), answered(f, arch, missed))


def answered(f: Facts, arch: Arch, missed: float) -> float:
    """Share of the waits in loops that L1 answers. A warp waits for the last of the stretches that its lanes want at a
    time, each of which L1 lacks with the probability `missed`. It also waits for what no program has read before, as
    the sizes of tensors tell; the loop that has most of that counts."""
    left = {a.argument: a.size_bytes or math.inf for a in f.accesses}
    asked, first, wanted = dict[int, float](), dict[int, float](), 0.0
    for a in f.accesses:
        if a.kind == "load" and a.loop >= 0 and a.program_bytes:
            each = a.program_bytes * f.programs
            new = min(each, left[a.argument])
            left[a.argument] -= new
            asked[a.loop] = asked.get(a.loop, 0.0) + each
            first[a.loop] = first.get(a.loop, 0.0) + new
            wanted += each * LINE_BYTES / min(max(a.span_bytes, WORD_BYTES), LINE_BYTES)
    if not asked:
        return 0.0
    at_once = wanted / sum(asked.values())
    return float(min((1.0 - missed) ** at_once, *(1.0 - first[loop] / each for loop, each in asked.items())))
