"""Bytes that a step moves into an SM, that it requests from L2, and that come from DRAM."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.types import FloatArray, Record
from .tile import Tile

SLICE_WIDTH_BYTES = 64.0
"""Width of a slice of L2. A line lives in one slice, so a single hot line cannot be read faster. Only its product with
`hot_steps`, which was fitted beside it, counts; what a slice achieves is another number (`models.compiled`)."""

ALONE = 2.5
"""Extra cost of an asynchronous copy of 16 bytes that is not merged with its neighbours, over its cost when merged."""

KEEN = 8.0
"""How sharply bytes are lost to L2 as what is read meanwhile nears the part of it that is usable. Source: bytes that 28
launches read from DRAM by an H100's counters (`benchmarks/machine.py`, problems of even place). Less than 1 % of what
comes back is lost after 0.6 of the usable bytes, 8 to 25 % after 0.8, 60 to 75 % after 1.05."""

PASSING = 0.5
"""Of the time for which L2 keeps what is seen again, how long it keeps what passes through once. Source: kernels that
read or add at random places of 41 to 120 MB, an H100's and H200's (`take_along_rows`, `bloom`, `count_points`,
`deposit` in tests/data): predicted at 1.03 to 1.11 of their times; with all of it at 1.15 to 1.29, with none at 0.63 to
0.96."""


class Traffic(Record, eq=False):
    """Bytes of one step of one block; `read_bytes` and `compulsory_bytes` are those of the whole problem."""

    fill_bytes: FloatArray
    """Bytes moved from L2 into the SM."""
    l2_bytes: FloatArray
    """Bytes as L2 serves them: fewer where it merges requests of neighbouring SMs for one line, more where a line that
    all SMs want at once is bound by the rate of its slice."""
    distinct_bytes: FloatArray
    missed: FloatArray
    """Share of a step's loads that wait for DRAM."""
    dram_bytes: FloatArray
    l3_bytes: FloatArray
    read_bytes: FloatArray
    compulsory_bytes: FloatArray
    """Both operands, each element read once."""
    hit_rate: FloatArray
    merged_share: FloatArray
    """Share of the requests to L2 that it serves together with a neighbour's."""


def traffic(t: Tile, k: Mapping[str, float], resident: FloatArray, fill_m: FloatArray, fill_n: FloatArray) -> Traffic:
    """Bytes to load the operands of each candidate's tile. `fill_m`, `fill_n` are bytes moved over bytes of the tile.

        fill     = rows * depth * width * waste   of each operand; rows past the edge count if they are loaded too
        hot rate = slice rate * hot_steps * distinct lines of a step, where that is less than L2's

        missed   = first + (1 - first) * DRAM / distinct,   first = min(1, SMs * resident / grid)

    Blocks walk the tiles of a group down its rows: neighbours share columns of B, blocks a group apart share rows of A.
    The first wave finds nothing in L2: its blocks wait for DRAM together, though each line is read only once.
    """
    arch = t.arch
    depth = np.minimum(t.tile_k, t.k)
    gap_a, gap_b = gap(t.a_gap, t.a_bytes, arch), gap(t.b_gap, t.b_bytes, arch)
    run_a = run_elements(depth, t.rows, t.k, t.m, t.a_k_contiguous, t.a_run) * t.a_bytes * gap_a
    run_b = run_elements(depth, t.cols, t.k, t.n, t.b_k_contiguous, t.b_run) * t.b_bytes * gap_b
    waste_a = sector_waste(run_a, t.row_align_a, arch.sector_bytes) * gap_a + t.a_scale_bytes / t.a_bytes
    waste_b = sector_waste(run_b, t.row_align_b, arch.sector_bytes) * gap_b + t.b_scale_bytes / t.b_bytes
    page_a, page_b = 1 + k["dram_run_bytes"] / run_a, 1 + k["dram_run_bytes"] / run_b
    padded = t.padded_loads > 0
    fetched = np.minimum(t.tile_k, t.k / (t.steps * t.split))  # mean over steps: the last one of a ragged K is shorter
    moved_a = np.where(padded, t.tile_m, t.rows) * fetched * t.a_bytes * fill_m
    moved_b = np.where(padded, t.tile_n, t.cols) * fetched * t.b_bytes * fill_n
    split_a = split_waste(t, run_a, t.row_align_a, t.copy_a_bytes)
    split_b = split_waste(t, run_b, t.row_align_b, t.copy_b_bytes)
    l2_per_clk = arch.l2_bytes_per_s * k["l2_efficiency"] / arch.clock_hz
    spread = SLICE_WIDTH_BYTES * k["hot_steps"] / l2_per_clk
    hot_a = np.minimum(1.0, spread * np.maximum(t.m * depth * t.a_bytes / arch.line_bytes, 1.0))
    hot_b = np.minimum(1.0, spread * np.maximum(t.n * depth * t.b_bytes / arch.line_bytes, 1.0))
    together = np.minimum(arch.l2_merge_sms, t.grid_m * t.grid_n)
    rows = np.minimum(np.minimum(t.group, t.grid_m), together)
    columns = np.minimum(np.ceil(together / rows), t.grid_n)
    served_a, served_b = merged(k, np.minimum(columns, together / rows)), merged(k, together / columns)
    width_a, width_b = t.a_bytes * waste_a * t.a_reuse * page_a, t.b_bytes * waste_b * t.b_reuse * page_b
    read, l3, hit = dram_reads(t, k, width_a, width_b, resident)
    per_step = t.b / (t.grid * t.steps)
    asked_a = moved_a * waste_a * asked_once(t, t.m, t.tile_m)
    asked_b = moved_b * waste_b * asked_once(t, t.n, t.tile_n)
    distinct = t.rows * fetched * t.a_bytes * waste_a + t.cols * fetched * t.b_bytes * waste_b
    first = np.minimum(1.0, arch.sm_count * resident / t.grid)
    each_a, each_b = t.a_bytes + t.a_scale_bytes, t.b_bytes + t.b_scale_bytes
    return Traffic(
        fill_bytes=moved_a * np.maximum(waste_a, split_a) + moved_b * np.maximum(waste_b, split_b),
        l2_bytes=asked_a * served_a / hot_a + asked_b * served_b / hot_b / t.cluster,
        distinct_bytes=distinct,
        missed=first + (1.0 - first) * np.clip(read * per_step / np.maximum(distinct, 1.0), 0.0, 1.0),
        dram_bytes=read * per_step,
        l3_bytes=l3 * per_step,
        read_bytes=read * t.b,
        compulsory_bytes=(t.m * each_a * t.a_reuse + t.n * each_b * t.b_reuse) * t.k * t.b,
        hit_rate=hit,
        merged_share=1.0 - (asked_a * served_a + asked_b * served_b) / (asked_a + asked_b),
    )


def gap(elements: FloatArray, width_bytes: FloatArray, arch: Arch) -> FloatArray:
    """Bytes moved over bytes wanted of elements so far apart: a sector each, or where several share one, what lies
    between them."""
    return np.minimum(elements, np.maximum(arch.sector_bytes / width_bytes, 1.0))


def between_bytes(elements: FloatArray, reach: FloatArray, width_bytes: FloatArray, arch: Arch) -> FloatArray:
    """Bytes moved besides those of `elements` that span so many along their rows."""
    apart = np.maximum(reach / np.maximum(elements, 1.0), 1.0)
    out: FloatArray = elements * width_bytes * (gap(apart, width_bytes, arch) - 1.0)
    return out


def asked_once(t: Tile, extent: FloatArray, tile: FloatArray) -> FloatArray:
    """Share of a tile's rows that are requested from L2, where rows past the edge wrap around to the first ones.

    Loads through L1 find the repeated rows there; NVIDIA's asynchronous copies of 16 bytes bypass L1.
    """
    again = (t.padded_loads > 0) & ((t.async_copies == 0) | (t.arch.vendor == "amd"))
    return np.where(again, np.minimum(extent / tile, 1.0), 1.0)


def merged(k: Mapping[str, float], sharers: FloatArray) -> FloatArray:
    """Requests that L2 serves over requests made, where `sharers` neighbours read the same lines at about one time.

    Source, on an H200, in bytes per clock and SM: 58 to 63, the limit of an SM's port, for neighbours that read the
    same stream; 52, 38 and 35 for pairs of blocks 4, 8 and 16 apart; 35 for blocks that read different streams
    (`tests/data/h200/sharing.json`).
    """
    return 1.0 - k["l2_merge"] * (1.0 - 1.0 / sharers)


def dram_reads(
    t: Tile, k: Mapping[str, float], width_a: FloatArray, width_b: FloatArray, resident: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Bytes of one batch element read from DRAM, bytes that miss L2 (served by an L3, if any), and the L2 hit rate.

    The tiles of one wave form a rectangle of R x C tiles of the output. Their operands are read once per wave if they
    stay in L2 long enough, and at least once in all. Blocks go round robin to the P partitions of L2 (XCDs): each
    sees every P-th tile and caches for itself.

        wave = (min(R*tile_m, M) * width_a + min(C*tile_n, N) * width_b) * K
        hit  = the larger of clip(share * l2 / (wave / split), 0, 1) and clip(share * l2 / compulsory, 0, 1)
        DRAM = compulsory + (1 - hit) * (waves * wave - compulsory)

    Source of the wave's footprint: Origami's unique against requested tiles (arXiv 2512.04226).
    """
    arch = t.arch
    tiles = t.grid_m * t.grid_n
    at_once = np.clip(arch.sm_count * resident / t.split, 1.0, tiles)
    r = np.minimum(np.minimum(t.group, t.grid_m), at_once)
    c = np.minimum(np.ceil(at_once / r), t.grid_n)
    r = np.minimum(np.maximum(r, np.ceil(at_once / c)), t.grid_m)
    compulsory = (t.m * width_a + t.n * width_b) * t.k
    waves = tiles / at_once

    def misses(parts: float, cache_bytes: float) -> tuple[FloatArray, FloatArray]:
        shared = np.gcd(r.astype(np.int64), int(parts)) if parts > 1 else 1.0
        rows, cols = r / shared, np.maximum(1.0, np.ceil(c * shared / parts))
        wave = parts * (np.minimum(rows * t.tile_m, t.m) * width_a + np.minimum(cols * t.tile_n, t.n) * width_b) * t.k
        everything = np.maximum(waves * wave, compulsory)
        live = (rows * t.tile_m * width_a + cols * t.tile_n * width_b) * t.k / t.split
        usable = reused_share(arch, k) * cache_bytes / parts
        hit = np.maximum(np.clip(usable / live, 0, 1), np.clip(usable / compulsory, 0, 1))
        return compulsory + (1 - hit) * (everything - compulsory), hit

    return past_caches(arch, float(arch.l2_partitions), misses)


def past_caches(
    arch: Arch, parts: Any, misses: Callable[[Any, float], tuple[FloatArray, FloatArray]]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Bytes from DRAM, those that miss L2 (served by an L3, if any), and the hit rate of L2. `misses` gives bytes and
    hit rate of a cache of so many bytes in so many `parts`, each of which caches for itself; an L3 is one."""
    beyond_l2, hit = misses(parts, float(arch.l2_bytes))
    last = np.minimum(beyond_l2, misses(1.0, float(arch.l3_bytes))[0]) if arch.l3_bytes else beyond_l2
    return last, beyond_l2, hit


def reused_share(arch: Arch, k: Mapping[str, float]) -> FloatArray:
    """Share of a cache that is available for reused data: `l2_usable` where L2 keeps two copies of a line, twice as
    much where it keeps one."""
    out: FloatArray = np.minimum(1.0, k["l2_usable"] * 2 / arch.l2_copies)
    return out


def sector_waste(run_bytes: FloatArray, align_bytes: FloatArray, sector_bytes: int) -> FloatArray:
    """Bytes moved over bytes wanted, for contiguous runs that are fetched in whole sectors.

    A run that starts at a random multiple of `align_bytes` touches (run + sector - align) / sector sectors on average.
    """
    slack = np.maximum(sector_bytes - np.minimum(align_bytes, run_bytes), 0)
    sectors = np.maximum((run_bytes + slack) / sector_bytes, np.ceil(run_bytes / sector_bytes))
    out: FloatArray = sectors * sector_bytes / run_bytes
    return out


def split_waste(t: Tile, run_bytes: FloatArray, align_bytes: FloatArray, copy_bytes: FloatArray) -> FloatArray:
    """Bytes that the path into an SM moves over bytes wanted, for runs fetched by asynchronous copies of 16 bytes.

    Neighbouring copies are merged if the first of them starts at a sector; in rows that start inside a sector, each
    copy goes alone. A run that crosses into another line takes one more sector. Source: 14 tiles on an H200,
    3000 x 3000 with rows of 6000 to 6144 bytes (`tests/data/h200/rows.json`). Rows aligned to 16 bytes take 1.1 to 1.5
    times as long, rows aligned to 32 up to 1.13 times, rows aligned to 64 up to 1.10.
    """
    arch = t.arch
    sectors = np.maximum(run_bytes / arch.sector_bytes, 1.0)
    within = np.maximum(1.0 - align_bytes / arch.sector_bytes, 0.0)
    crossed = np.maximum(np.minimum(run_bytes, arch.line_bytes) - align_bytes, 0.0) / arch.line_bytes
    split = 1.0 + ALONE * within + crossed / sectors
    return np.where((copy_bytes == 16) & (t.async_copies > 0), split, 1.0)


def run_elements(
    depth: FloatArray, rows: FloatArray, k: FloatArray, m: FloatArray, k_contiguous: FloatArray, walked: FloatArray
) -> FloatArray:
    """Contiguous elements of a tile of `rows` x `depth` in an operand of m x k.

    A tile that covers the whole contiguous axis continues in the next row. `walked` limits the run where the axis of a
    convolution consists of several axes, and jumps in memory.
    """
    along_k = k_contiguous > 0
    run = np.minimum(np.where(along_k, depth, rows), walked)
    whole = run >= np.where(along_k, k, m)
    return np.where(whole, run * np.where(along_k, rows, depth), run)


def different(asked_bytes: float, size_bytes: float) -> float:
    """Of bytes at random places of a tensor."""
    return -size_bytes * math.expm1(-asked_bytes / size_bytes) if math.isfinite(size_bytes) else asked_bytes


def beyond(
    anywhere: Sequence[tuple[float, float, float]], copies: Sequence[float], passing_bytes: float, usable_bytes: float,
    room_for: float = 1.0,
) -> list[float]:
    """Of bytes at random places of each tensor, those that are not in a cache. Of each: bytes that are asked for, bytes
    of the tensor, and those among which programs look meanwhile; and how much room each byte takes. `passing_bytes` go
    through the cache once. Each byte that is fetched takes the room of `room_for`, as a sector that of its line. The
    cache gives up what was used longest ago, so that it holds what a part T of the run touches: a look finds what was
    seen less than T ago. Source: Che, Tung and Wang, Hierarchical web caching systems, 2002. Reads
    of 41 MB at random beside 61 MB that pass take an H100 1.4 times as long as if each were fetched once
    (`take_along_rows` in `places.jsonl.gz`, tests/data/h100), those of two tables of 17 and 67 MB 1.6 times
    (`two_levels` in `forms.jsonl.gz`)."""

    def room(part: float) -> float:
        fetched = room_for * part
        each = (n * different(fetched * asked, live) for n, (asked, _, live) in zip(copies, anywhere, strict=True))
        return PASSING * part * passing_bytes + sum(each)

    low, high = 0.0, 1.0
    while room(1.0) > usable_bytes and high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if room(middle) < usable_bytes else (low, middle)
    again = ((1.0 - high) * asked * math.exp(-high * asked / live) for asked, _, live in anywhere)
    return [max(different(asked, size), different(high * asked, live) + lost)
            for lost, (asked, size, live) in zip(again, anywhere, strict=True)]  # fmt: skip


def again_beyond(reuse: Sequence[tuple[float, float]], usable_bytes: float) -> float:
    return sum(n * lost_share(meanwhile, usable_bytes) for n, meanwhile in reuse)


def lost_share(meanwhile_bytes: float, usable_bytes: float) -> float:
    """Share of bytes that are gone when they are read again after so many others."""
    return 1.0 / (1.0 + math.pow(max(meanwhile_bytes, 1.0) / max(usable_bytes, 1.0), -KEEN))
