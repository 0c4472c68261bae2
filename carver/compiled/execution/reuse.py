"""Which sectors a load has to fetch, because L1 does not hold them: no load of this pass or the one before it did."""

from __future__ import annotations

import numpy as np

from ..isa.code import Code
from .run import Run
from .tiles import SECTOR_BYTES, spread

PAST_L1 = ("BYPASS", "STRONG", "CONSTANT_SYS")
"""Parts of opcodes that go by L1."""


def fetched_shares(run: Run, code: Code, room_bytes: float) -> dict[int, float]:
    """Share of the sectors of a load that L1 asks L2 for, by instruction, in a block that goes on evenly. `room_bytes`:
    of L1, for one block. Sectors are gone that so many others were fetched after.

    Only loads whose addresses are known are counted, but for their first execution and those behind a leap, as the pass
    before these is not known.
    """
    since: dict[int, int] = {}
    leapt = set[int]()
    keys, times, starts, owners = [], [], [], []
    block = len(run.block_ids) // 2
    for now, event in enumerate(run.log):
        index = run.program.index[event.where] if event.kind == "global" else -1
        if index < 0 or run.program.ops[index].access not in ("load", "copy"):
            continue
        if event.walks:
            leapt.add(index)
            continue
        lanes, address = spread(event)
        mine = address[run.slot[lanes] == block]
        if not len(mine) or not set(code.instructions[index].opcode.split(".")).isdisjoint(PAST_L1):
            continue
        sectors = np.unique(mine // SECTOR_BYTES)
        keys.append(sectors)
        times.append(np.full(len(sectors), now))
        starts.append(np.full(len(sectors), since.get(index, -1)))
        owners.append(np.full(len(sectors), index if index in since and index not in leapt else -1 - index))
        since[index] = now
        leapt.discard(index)
    if not keys:
        return {}
    key, time, start, owner = (np.concatenate(each) for each in (keys, times, starts, owners))
    order = np.lexsort((time, key))
    again = np.zeros(len(key), bool)
    before = np.full(len(key), -1)
    again[order[1:]] = key[order[1:]] == key[order[:-1]]
    before[order[1:]] = np.where(again[order[1:]], time[order[:-1]], -1)
    fresh = ~again | (before < start)
    # what was fetched until each event, in bytes: how much came between two uses
    until = np.cumsum(np.bincount(time, fresh * float(SECTOR_BYTES), minlength=int(time.max()) + 1))
    fresh |= until[time] - until[np.maximum(before, 0)] > room_bytes
    out = {}
    for index in since:
        mine, first = owner == index, owner == -1 - index
        if mine.sum() < first.sum():  # those after the first are of few lanes
            mine |= first
        out[index] = float(fresh[mine].mean())
    return out
