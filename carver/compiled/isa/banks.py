"""Passes over the banks of shared memory and L1, and sectors and lines of memory, by the addresses of lanes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from .code import Instruction
from .rates import width_bytes

LANES, BANKS, WORD_BYTES, SECTOR_BYTES, LINE_BYTES = 32, 32, 4, 32, 128
SECTOR_WORDS, AT_ONCE = SECTOR_BYTES // WORD_BYTES, 4  # words of a sector, and what L1 looks up in a clock
STORES = frozenset({"STG", "ST"})
"""To global memory."""
BEHIND, FEW_LINES, FURTHER = 2, 8, 0.39
"""A store that comes so many instructions behind another one, and the lines of a warp, so that L1 passes on as one what
both write to a sector; and of the time in which L2 takes a store to a part of a sector, what each further one of its
line adds. Sources: sectors that L2 was written by counters of 40 launches with stores that fill sectors in turn
(`tests/data/h100/languages*.jsonl.gz`), and with other stores between none is merged; 128 MiB by words, four, two and
one sectors of a line at once, 26, 44 and 58 billion lines a second on an H200 (`words_in_a_row.jsonl`), while threads
of kernels with 6 or 8 words in a row take the time of whole sectors (`languages_twelfth.jsonl.gz`)."""
EACH_BYTES = 1 << 40
"""Of the addresses of a warp, to tell those of several apart."""
THROUGH_L1 = frozenset({"LDG", "LD"}) | STORES
Lanes: TypeAlias = Any
"""One integer per lane, as a NumPy array."""
OFFSET = re.compile(r"\+(-?0x[0-9a-f]+)$")
BASE = re.compile(r"\[([^\]]*)\]")
PAIR = re.compile(r"(ds_(?:read|write|load|store))(?:2|2st64|_2addr|_2addr_stride64)(_b\d+)$")
ALONE = np.zeros(1, np.int64)


def in_part(address: Lanes, width: int, warp: Lanes = ALONE, joined: int = FEW_LINES) -> float:
    """Lines with sectors that lanes of a warp fill in part, if more than are `joined`, and FURTHER ones if any are."""
    words = np.unique(warp * EACH_BYTES + address % EACH_BYTES)
    sectors, times = np.unique(words // SECTOR_BYTES, return_counts=True)
    lines, warp_lines = sectors * SECTOR_BYTES // LINE_BYTES, EACH_BYTES // LINE_BYTES
    found, many = np.unique(lines[times * width < SECTOR_BYTES], return_counts=True)
    apart = np.bincount(np.unique(lines) // warp_lines) > joined
    return float((1.0 + (FURTHER if joined else 0.0) * (many - 1.0))[apart[found // warp_lines]].sum())


def behind(instructions: Sequence[Instruction], indices: Sequence[int]) -> int:
    """How many of the stores to global memory at some indices come right behind another one to the same sectors, as far
    as their addresses say: by the same registers, and apart by less than a sector."""
    stores = [(i, global_place(instructions[i])) for i in indices if instructions[i].mnemonic in STORES]
    found = [(i, OFFSET.sub("", place), OFFSET.search(place)) for i, place in stores]
    each = [(i, base, int(offset[1], 16) if offset else 0) for i, base, offset in found]
    return sum(
        j - i <= BEHIND and base == last and abs(at - before) < SECTOR_BYTES
        for (i, last, before), (j, base, at) in pairwise(each)
    )


def sectors_of(each: Instruction, address: Lanes) -> int:
    """Sectors that an atomic touches at the addresses of a warp's lanes; one counts as often as lanes meet on a word of
    it."""
    words = address[:, None] // WORD_BYTES + np.arange(max(width_bytes(each.opcode) // WORD_BYTES, 1))
    places, lanes = np.unique(words, return_counts=True)
    first = np.unique(places * WORD_BYTES // SECTOR_BYTES, return_index=True)[1]
    return int(np.maximum.reduceat(lanes, first).sum())


def _place(each: Instruction, which: int) -> str:
    """The sum that is an access's address: in shared memory the first, in global memory behind a descriptor."""
    return str((BASE.findall(each.operands) or [""])[which])


shared_place, global_place = partial(_place, which=0), partial(_place, which=-1)


def mean_passes(
    each: Instruction, warp: Lanes, lane: Lanes, address: Lanes, warps: int = 1, size: int = LANES
) -> float:  # fmt: skip
    """Passes of an access over the banks of shared memory and L1, over those that its bytes need without conflicts, in
    the mean of so many warps, of which only some lanes may take part. `warp`, `lane`, `address`: of each lane that
    does, in the order of warps. A warp of which none does takes one pass; one of 64 lanes (`size`) passes in halves.

    A row of 128 bytes that begins inside a sector has five of them, and L1 gives four a clock: on an H100 filters of
    7 x 7 (`live_tuners.json`) and of 27 taps (`edges.jsonl.gz` in tests/data/h100) take 1.2 to 1.3 clocks for such
    loads. Those of a line go together: words 12 bytes apart, of vectors of three (`warp_blurred` in
    `languages_ninth.jsonl.gz`, tests/data/h200), take 1.4. Lanes that meet in banks cover that, but not the look-up of
    lines, as many a clock: on an H200 every 32nd word takes 32 clocks, every 33rd and every 36th, of which four meet in
    a bank, 8.
    """
    if size > LANES:
        warp, lane, warps = warp * 2 + lane // LANES, lane % LANES, warps * 2
    if found := PAIR.match(each.opcode):  # of two accesses the first stands for both
        each = each._replace(opcode=f"{found[1]}{found[2]}")
    width = width_bytes(each.opcode)
    if each.mnemonic in ("LDSM", "STSM"):  # each lane gives the address of one 16-byte row of an 8x8 matrix
        rows = lane < 8 * max(width // 4, 1)
        warp, lane, address, width = warp[rows], lane[rows], address[rows], 16
        least = max(int(lane.max(initial=0)) // 8 + 1, 1)
    else:
        least = LANES // min(LANES, LINE_BYTES // max(width, WORD_BYTES))
    if each.opcode == "ds_read_b128":  # 0 to 3 with 20 to 23 and so on: AMD's pages of CK Tile, LDS conflicts
        lane = np.where(lane < LANES // 2, lane // 4 * 8, (lane // 4 ^ 5) * 8 + 4) + lane % 4
    if not len(lane):
        return 1.0 / least
    together = np.full(len(lane), min(LANES, LINE_BYTES // max(width, WORD_BYTES)))
    if each.mnemonic == "LDS" and width > WORD_BYTES and len(lane) == LANES * warps:
        together *= np.repeat(1 + _paired(address.reshape(-1, LANES)), LANES)
    words, many = address // WORD_BYTES, max(width // WORD_BYTES, 1)
    low = int(words.min()) // BANKS * BANKS  # whole rows of banks, also where places are told from a negative one on
    reach = -(-(int(words.max()) + many - low) // BANKS) * BANKS
    group = warp * LANES + lane // together
    distinct = np.unique((group * reach + words - low)[:, None] + np.arange(many))
    met, count = np.unique(distinct // reach * BANKS + distinct % BANKS, return_counts=True)
    first = np.flatnonzero(np.diff(met // BANKS, prepend=-1))
    passes = np.maximum.reduceat(count, first).astype(float)
    if each.mnemonic in THROUGH_L1:
        sectors, lines = (np.unique(np.unique(distinct // n) // (reach // n), return_counts=True)[1] / AT_ONCE
                          for n in (SECTOR_WORDS, BANKS))  # fmt: skip
        looked_up = np.where(passes > 1.0, lines, np.minimum(sectors, 1.0 + lines - 1.0 / AT_ONCE))
        passes = np.maximum(passes, looked_up)
    return float(passes.sum() + warps - len(np.unique(warp))) / (least * warps)


def turns_of(each: Instruction, source: Lanes, place: Lanes) -> float:
    """Of a copy through L1 from some addresses of lanes to others, passes over those without lanes that want the same
    word for different places: they take turns, in each line for itself. Of 8 bytes half a warp goes together. Source:
    `tests/data/h100/copies.txt`."""
    if "BYPASS" in each.opcode:
        return 1.0
    width = width_bytes(each.opcode)
    together = min(LANES, LINE_BYTES // max(width, WORD_BYTES))
    turns = 0
    for lanes in np.stack([source // width, place], axis=1).reshape(-1, together, 2):
        words, wanted = np.unique(np.unique(lanes, axis=0)[:, 0], return_counts=True)
        first = np.unique(words * width // LINE_BYTES, return_index=True)[1]
        turns += int((np.maximum.reduceat(wanted, first) - 1).sum())
    return 1.0 + turns * together / LANES


def _paired(address: Lanes) -> Lanes:
    """By row: whether lanes i and i^1 all read the same address, or lanes i and i^2. A wide load then returns the data
    of twice as many lanes in a pass. Source: NVIDIA's answer on its developer forum for compute capability 7
    (forums.developer.nvidia.com/t/77228); float32 products on an H200 (`tests/data/h200/triton_matmul.csv`) agree."""
    lanes = np.arange(LANES)
    return np.logical_or.reduce([(address == address[:, lanes ^ apart]).all(axis=1) for apart in (1, 2)])
