"""Programs that wait for one another: at a lock, for their turn at a word, or each for the one before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .ttir import Op
from .values import Column

READS = ("tt.load", "tt.atomic_rmw", "tt.atomic_cas")


@dataclass
class Turn:
    """Programs that wait, or that store, at a word each of a tensor."""

    source: str | None
    programs: Column
    words: Column
    kind: str
    """"store"; "wait", until another program stores; "turn": those that wait at a word go on one after another."""


def waits_of(frame: Any, ops: Sequence[Op]) -> Iterator[Turn]:
    """Where the programs of a frame of `program.Program` wait, in a loop that only reads: to swap what is at a word for
    something else, or until it is each program's own number, so that they go on one after another there; or until it
    is what another program stores."""
    for op in ops:
        if op.name not in READS or (word := frame.get(op.operands[0])).base is None or word.coef:
            continue
        tests = [each.operands for each in ops if each.name == "arith.cmpi" and {*op.results} & {*each.operands}]
        awaited = [frame.get(name).base for names in tests for name in names if name not in op.results]
        own = any(each is not None and len(np.unique(each)) > 1 for each in awaited)
        takes = op.name == "tt.atomic_cas" and op.operands[1] != op.operands[2]
        kind = "turn" if takes or (op.name == "tt.atomic_rmw" and own) else "wait"
        yield Turn(word.source, frame.program, np.broadcast_to(word.base, frame.lanes), kind)


ENDLESS = 0.9
"""A way that has so much of the neighbours that were evaluated goes on in all of the grid."""


def in_turn(
    steps: Sequence[Turn], slots: int, ranges: Sequence[tuple[int, int]], scale: float
) -> tuple[float, float]:
    """`in_turn` and `handed_on` of `Facts`: programs that go on one after another, where `slots` run at a time. At one
    word all that wait there do, in the mean over words. Where each stores what another waits for, those along the
    longest way, as often as other ways do not go on beside it: of those that run half have gone their way in the mean,
    so that twice as many ways as would fit go on together. Source: an H200 (`chains.jsonl` in tests/data/h200).

    `steps`: in the order in which a program takes them; `ranges` of programs that are neighbours, one where all of the
    grid were evaluated; each stands for `scale`."""
    locked = handed_on = 0.0
    for place, wait in enumerate(steps):
        order, waits = np.argsort(wait.programs, kind="stable"), len(wait.words) * scale
        order = order[: int(np.sum(wait.programs < ranges[0][1]))]
        if wait.kind == "turn" and len(first := order[:slots]):
            locked = max(locked, waits / len(np.unique(wait.words[first])))
        elif wait.kind == "wait" and (longest := _longest(wait.words[order], _handed_on(steps, place)[order])):
            longest = waits if len(ranges) > 1 and longest > ENDLESS * len(order) else longest
            beside = min(waits / longest, max(2.0 * slots / longest, 1.0))
            handed_on = max(handed_on, waits / beside)
    return locked, handed_on


def _handed_on(steps: Sequence[Turn], place: int) -> Column:
    """The first word of the same tensor to which each of the programs that wait stores behind its wait, but not before
    it too, as one that tells others sooner what it has; NaN of none."""
    wait, most = steps[place], max(int(step.programs.max()) for step in steps)
    given, sooner = np.full(len(wait.programs), np.nan), []
    for at, step in enumerate(steps):
        if step.kind == "store" and step.source == wait.source:
            stored = np.full(most + 1, np.nan)
            stored[step.programs] = step.words
            stored = stored[wait.programs]
            if at < place:
                sooner.append(stored)
            else:
                told = np.any([stored == each for each in sooner], axis=0)
                given = np.where(np.isnan(given) & ~told, stored, given)
    return given


def _longest(words: Column, given: Column) -> float:
    """Of programs that each wait at a word and store to another, how many in a row wait for the one before; 0 where
    none does."""
    if not len(words):
        return 0.0
    at = np.argsort(given)
    found = at[np.minimum(np.searchsorted(given[at], words), len(at) - 1)]
    before, depth = np.where((given[found] == words) & (words != given), found, -1), np.ones(len(words))
    for _ in range(len(words).bit_length()):  # those before each, and before these: twice as many in each pass
        [follow] = np.nonzero(before >= 0)
        depth[follow] += depth[before[follow]]
        before[follow] = before[before[follow]]
    return float(depth.max()) if depth.max() > 1 else 0.0
