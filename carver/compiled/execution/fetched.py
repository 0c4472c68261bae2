"""What L1 asks L2 for: sectors that loads want and that it does not hold."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..isa.banks import LINE_BYTES
from ..isa.code import Code
from .lanes import Array, between, distinct, last_use
from .launch import SPACE
from .run import Run
from .tiles import SECTOR_BYTES, spread

PAST_L1 = ("BYPASS", "STRONG", "CONSTANT_SYS")
"""Parts of opcodes that go by L1."""


class Look(NamedTuple):
    """One execution of a load by the block that is looked at."""

    load: int
    place: tuple[int, int]
    """The loop that it is in, -1 outside of loops, and the tensor."""
    entered: int
    """The first of all looks in that loop; 0 outside of loops."""
    leads: bool
    """It is the first of its load, or the first behind a leap: the pass before it is not known."""
    sectors: Array


def fetched_shares(
    run: Run, code: Code, room_bytes: float, executions: Mapping[int, float]
) -> tuple[dict[int, float], dict[int, float]]:
    """Share of the sectors of a load that L1 asks L2 for, by instruction, in all its `executions` by a block, of which
    those after the first go on evenly; and by loop the share of its passes in which any load asks. `room_bytes`: of L1,
    for one block.

    Only loads whose addresses are known are counted, but for looks that lead; of a load that goes on by part of a
    sector, passes that go through whole ones.
    """
    looks, moves = _looks(run, code)
    of: defaultdict[int, list[int]] = defaultdict(list)
    for n, look in enumerate(looks):
        of[look.load].append(n)
    over = {n for index, each in of.items() for n in _over([looks[n] for n in each], each, moves.get(index, 0))}
    fresh, none = _fresh(looks, room_bytes), np.zeros(0, bool)
    leading = {index: np.concatenate([fresh[n] for n in each if looks[n].leads]) for index, each in of.items()}
    later = {index: np.concatenate([none, *(fresh[n] for n in each if not looks[n].leads and n not in over)])
             for index, each in of.items()}  # fmt: skip
    asking = {looks[each[-1]].place for index, each in of.items() if later[index].any()}
    out, passing = dict[int, float](), defaultdict[int, defaultdict[int, list[bool]]](lambda: defaultdict(list))
    for index, each in of.items():
        first, others, passes = leading[index], later[index], executions.get(index, 1.0)
        for nth, n in enumerate(each):
            if looks[n].place[0] >= 0 and n not in over and (nth or passes <= 1.0):
                passing[looks[n].place[0]][nth].append(bool(fresh[n].any()))
        # where those after the first are of few lanes, all count
        out[index] = float((others if len(others) >= len(first) else np.concatenate([others, first])).mean())
        if passes > 1.0:
            came, step = float(first.mean()), moves.get(index, 0)
            gone = step * sum(not looks[n].leads for n in each)
            if 0 < gone < SECTOR_BYTES and looks[each[-1]].place not in asking:
                out[index] = came * max(step / SECTOR_BYTES, 1.0 / passes)  # no pass that was run came to the next
            else:
                out[index] += (came - out[index]) / passes
    return out, {loop: float(np.mean([any(each) for each in of.values()])) for loop, of in passing.items()}


def _looks(run: Run, code: Code) -> tuple[list[Look], dict[int, int]]:
    """Those of the block in the middle, in their order; and bytes by which loads go on in each pass of a leap."""
    loop_of = {i: n for n, loop in enumerate(code.all_loops()) for i in loop.own}
    looks, entered, moves, met = list[Look](), dict[int, int](), dict[int, int](), set[int]()
    block = len(run.block_ids) // 2
    for event in run.log:
        index = run.program.index[event.where] if event.kind == "global" else -1
        if index < 0 or run.program.ops[index].access not in ("load", "copy"):
            continue
        if event.walks:
            met.discard(index)
            moves[index] = int(np.abs(event.walks[0].steps[0]).max())
            continue
        lanes, address = spread(event)
        mine = address[run.slot[lanes] == block]
        if len(mine) and set(code.instructions[index].opcode.split(".")).isdisjoint(PAST_L1):
            loop = loop_of.get(index, -1)
            since, place = entered.setdefault(loop, len(looks) if loop >= 0 else 0), (loop, int(mine[0]) // SPACE)
            looks.append(Look(index, place, since, index not in met, distinct(mine // SECTOR_BYTES)))
            met.add(index)
    return looks, moves


def _over(looks: Sequence[Look], places: Sequence[int], step: int) -> list[int]:
    """Of the looks of one load, which lie at these places among all, those before whole sectors are gone through: in a
    row of which none leads, passes until it begins at a sector again, or a multiple of so many, are left."""
    rows: list[list[int]] = []
    for look, place in zip(looks, places, strict=True):
        rows += [[]] if look.leads else []
        rows[-1] += [] if look.leads else [place]
    whole = SECTOR_BYTES // math.gcd(step, SECTOR_BYTES)
    return [n for row in rows for n in row[: len(row) % whole]] if any(len(row) >= whole for row in rows) else []


def _fresh(looks: Sequence[Look], room_bytes: float) -> list[Array]:
    """Which sectors of each look L1 asks for: they are gone where so many other lines were used since, and in a loop
    those from before it. Source: rows of 44 KB that four blocks of an SM go over twice, on an H200 with L1 for all: 5 %
    of the second pass hits it (`cuda_quantised` in `tests/data/h200/languages_third.jsonl.gz`)."""
    if not looks:
        return []
    count = [len(look.sectors) for look in looks]
    key, time = np.concatenate([look.sectors for look in looks]), np.repeat(np.arange(len(looks)), count)
    before = last_use(key, time)
    others = between(key // (LINE_BYTES // SECTOR_BYTES), time, before) * LINE_BYTES
    fresh = (before < np.repeat([look.entered for look in looks], count)) | (others > room_bytes)
    return np.split(fresh, np.cumsum(count)[:-1])
