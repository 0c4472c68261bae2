"""Bytes: what a step moves into an SM, what L2 sees of it, and what is left for DRAM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..arch.descriptor import Arch
from ..base.types import FloatArray
from .tile import Tile

SLICE_BYTES_PER_CLK = 64.0
"""What one slice of L2 serves: a line lives in one slice, so a single hot line cannot be read faster."""

ALONE = 2.5
"""What an asynchronous copy of 16 bytes takes more than its share of a sector where it goes alone, over that share."""

READS = frozenset({
    "dram_run_bytes", "hot_steps", "l2_efficiency", "l2_merge", "l2_usable",
})  # fmt: skip
"""Constants that this module's terms read."""


@dataclass(frozen=True)
class Traffic:
    """Of one step of one block, except `read_bytes`, of the whole problem."""

    fill_bytes: FloatArray
    """Into the SM."""
    l2_bytes: FloatArray
    """The same as L2 sees it: less where neighbours ask for a line together, more where all SMs want one at once."""
    distinct_bytes: FloatArray
    missed: FloatArray
    """Share of a step's loads that wait for DRAM."""
    dram_bytes: FloatArray
    l3_bytes: FloatArray
    read_bytes: FloatArray
    compulsory_bytes: FloatArray
    """Each element of both operands once."""
    hit_rate: FloatArray
    merged_share: FloatArray
    """Of what SMs ask of L2, what it serves together with a neighbour's request."""


def traffic(
    t: Tile, k: Mapping[str, float], resident: FloatArray, fill_m: FloatArray, fill_n: FloatArray
) -> Traffic:
    """What the operands of a tile cost to bring in. `fill_m`, `fill_n` are bytes moved over bytes of the tile.

        fill     = rows * depth * width * waste   of each operand; rows past the edge count where they are loaded again
        hot rate = slice rate * hot_steps * distinct lines of a step, where that is less than L2's

        missed   = first + (1 - first) * DRAM / distinct,   first = min(1, SMs * resident / grid)

    Tiles are handed out down a group's rows, so neighbours share columns; those a group apart share rows. Blocks of the
    first wave find nothing in L2: those that want a line at once wait for DRAM together, though it is read once.
    """
    arch = t.arch
    depth = np.minimum(t.tile_k, t.k)
    run_a = run_elements(depth, t.rows, t.k, t.m, t.a_k_contiguous, t.a_run) * t.a_bytes
    run_b = run_elements(depth, t.cols, t.k, t.n, t.b_k_contiguous, t.b_run) * t.b_bytes
    waste_a = sector_waste(run_a, t.row_align_a, arch.sector_bytes)
    waste_b = sector_waste(run_b, t.row_align_b, arch.sector_bytes)
    page_a, page_b = 1 + k["dram_run_bytes"] / run_a, 1 + k["dram_run_bytes"] / run_b
    padded = t.padded_loads > 0
    fetched = np.minimum(t.tile_k, t.k / (t.steps * t.split))  # the last step of a ragged K fetches what is left
    moved_a = np.where(padded, t.tile_m, t.rows) * fetched * t.a_bytes * fill_m
    moved_b = np.where(padded, t.tile_n, t.cols) * fetched * t.b_bytes * fill_n
    split_a = split_waste(t, run_a, t.row_align_a, t.copy_a_bytes)
    split_b = split_waste(t, run_b, t.row_align_b, t.copy_b_bytes)
    l2_per_clk = arch.l2_bytes_per_s * k["l2_efficiency"] / arch.clock_hz
    spread = SLICE_BYTES_PER_CLK * k["hot_steps"] / l2_per_clk
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
    return Traffic(
        fill_bytes=moved_a * np.maximum(waste_a, split_a) + moved_b * np.maximum(waste_b, split_b),
        l2_bytes=asked_a * served_a / hot_a + asked_b * served_b / hot_b / t.cluster,
        distinct_bytes=distinct,
        missed=first + (1.0 - first) * np.clip(read * per_step / np.maximum(distinct, 1.0), 0.0, 1.0),
        dram_bytes=read * per_step,
        l3_bytes=l3 * per_step,
        read_bytes=read * t.b,
        compulsory_bytes=(t.m * t.a_bytes * t.a_reuse + t.n * t.b_bytes * t.b_reuse) * t.k * t.b,
        hit_rate=hit,
        merged_share=1.0 - (asked_a * served_a + asked_b * served_b) / (asked_a + asked_b),
    )


def asked_once(t: Tile, extent: FloatArray, tile: FloatArray) -> FloatArray:
    """Share of a tile's rows that L2 is asked for, where those past the edge are those at the start again.

    Loads that pass L1 find there what another has fetched; NVIDIA's asynchronous copies of 16 bytes do not.
    """
    again = (t.padded_loads > 0) & ((t.async_copies == 0) | (t.arch.vendor == "amd"))
    out: FloatArray = np.where(again, np.minimum(extent / tile, 1.0), 1.0)
    return out


def merged(k: Mapping[str, float], sharers: FloatArray) -> FloatArray:
    """Requests that L2 serves over those made, where that many neighbours read the same lines at about the same time.

    Source: on an H200 neighbours that read one stream get 58 to 63 bytes a clock and SM, which is the port of an SM,
    pairs of blocks 4, 8 and 16 apart 52, 38 and 35, blocks that read different ones 35 (`benchmarks/sharing.py`).
    """
    return 1.0 - k["l2_merge"] * (1.0 - 1.0 / sharers)


def dram_reads(
    t: Tile, k: Mapping[str, float], width_a: FloatArray, width_b: FloatArray, resident: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Bytes of one batch element read from DRAM and from the last cache before it, and the hit rate of L2.

    The tiles of one wave form a block of R x C tiles of the output. Their operands are read once a wave if
    they stay in L2 long enough, and each operand at least once. Blocks are dealt round robin to the
    partitions of L2 (XCDs), each of which sees every P-th tile and caches for itself.

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

    beyond_l2, hit = misses(float(arch.l2_partitions), float(arch.l2_bytes))
    if arch.l3_bytes:
        return np.minimum(beyond_l2, misses(1.0, float(arch.l3_bytes))[0]), beyond_l2, hit
    return beyond_l2, beyond_l2, hit


def reused_share(arch: Arch, k: Mapping[str, float]) -> float:
    """Share of a cache that holds what is read again: l2_usable, twice that where no line is kept twice."""
    return min(1.0, k["l2_usable"] * 2 / arch.l2_copies)


def sector_waste(run_bytes: FloatArray, align_bytes: FloatArray, sector_bytes: int) -> FloatArray:
    """Bytes moved over bytes wanted, for runs of contiguous bytes fetched in whole sectors.

    A run that starts at a random multiple of `align_bytes` touches (run + sector - align) / sector sectors
    in the mean.
    """
    slack = np.maximum(sector_bytes - np.minimum(align_bytes, run_bytes), 0)
    sectors = np.maximum((run_bytes + slack) / sector_bytes, np.ceil(run_bytes / sector_bytes))
    out: FloatArray = sectors * sector_bytes / run_bytes
    return out


def split_waste(t: Tile, run_bytes: FloatArray, align_bytes: FloatArray, copy_bytes: FloatArray) -> FloatArray:
    """Bytes that the path into an SM moves over bytes wanted, for runs fetched by asynchronous copies of 16 bytes.

    Neighbouring copies go together where the first of them starts a sector; in rows that start within one each goes
    alone. A run that crosses into another line takes a sector more. Source: 14 tiles on an H200, 3000 x 3000 with rows
    of 6000 to 6144 bytes (`benchmarks/rows.py`): 1.1 to 1.5 times as long on multiples of 16 bytes, up to 1.13 on those
    of 32, 1.10 of 64.
    """
    arch = t.arch
    sectors = np.maximum(run_bytes / arch.sector_bytes, 1.0)
    within = np.maximum(1.0 - align_bytes / arch.sector_bytes, 0.0)
    crossed = np.maximum(np.minimum(run_bytes, arch.line_bytes) - align_bytes, 0.0) / arch.line_bytes
    split = 1.0 + ALONE * within + crossed / sectors
    out: FloatArray = np.where((copy_bytes == 16) & (t.async_copies > 0), split, 1.0)
    return out


def run_elements(
    depth: FloatArray, rows: FloatArray, k: FloatArray, m: FloatArray, k_contiguous: FloatArray, walked: FloatArray
) -> FloatArray:
    """Elements of a tile of `rows` x `depth` that lie side by side in an operand of m x k.

    A tile that covers the contiguous axis goes on in the next row. `walked` is as far as that axis goes in memory
    before it jumps, where a convolution makes it of several.
    """
    along_k = k_contiguous > 0
    run = np.minimum(np.where(along_k, depth, rows), walked)
    whole = run >= np.where(along_k, k, m)
    return np.where(whole, run * np.where(along_k, rows, depth), run)
