"""Which loop of the machine code stands for which loop of the program, and how often each runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..base.types import FloatArray
from .machine import Machine, Span
from .run import Run

LANES = 32
"""Of the narrowest warps: a tile of fewer elements than threads is loaded by several of them."""
ALIKE = 0.25
"""By which what two copies of one iteration move may differ, over what they move: masks and addresses that one of them
does not need."""


@dataclass(frozen=True)
class Passes:
    """How often the machine's code runs in each program that was evaluated."""

    whose: list[int]
    """The program's loop that each loop stands for; -1 where there is none."""
    loops: list[FloatArray]
    asides: list[FloatArray]


def matched(machine: Machine, run: Run, warps: int) -> Passes:
    """Innermost loops that multiply are matched in order with those of the program that do, others with others.

    Iterations that the compiler peeled off are taken off: products add up to the program's. Where it does several
    iterations in one pass, what is left over is done by the stretches behind the loop that a branch may pass by.
    """
    flops = dot_flops(run)
    inner = [i for i, loop in enumerate(run.loops) if _is_leaf(run, i) and loop.trips.sum() > 0]
    none = np.zeros(run.programs)
    whose, passes = [-1] * len(machine.loops), [none] * len(machine.loops)
    left_over: dict[int, FloatArray] = {}
    multiplying = any(_flops(m.span, warps) for m in machine.loops)
    for kind in (True, False):
        ours = [i for i in inner if (flops[i] > 0 and multiplying) == kind]
        theirs = [j for j, m in enumerate(machine.loops) if m.leaf and (_flops(m.span, warps) > 0) == kind]
        for i, group in _aligned(ours, theirs, machine, run):
            main = max(group, key=lambda j: _flops(machine.loops[j].span, warps) or machine.loops[j].span.instructions)
            for j in group:
                whose[j] = i
            if kind:
                passes[main] = run.loops[i].trips * _share_left(machine, run, main, i, warps)
            else:
                found, aside = _unrolled(machine, run, group, main, i, warps)
                left_over |= aside
                for j, n in found.items():
                    passes[j] = n
    for j in reversed(range(len(machine.loops))):
        below = [c for c, m in enumerate(machine.loops) if m.parent == j and whose[c] >= 0]
        if below and not machine.loops[j].leaf:
            whose[j] = run.loops[whose[below[0]]].parent
            passes[j] = run.loops[whose[j]].trips if whose[j] >= 0 else none
    once = np.ones(run.programs)
    return Passes(
        whose,
        passes,
        [left_over.get(n, passes[a.parent] if a.parent >= 0 else once) for n, a in enumerate(machine.asides)],
    )


def _aligned(
    ours: Sequence[int], theirs: Sequence[int], machine: Machine, run: Run
) -> list[tuple[int, list[int]]]:
    """Loops of the program with the machine's that stand for them, in order.

    Of more loops of the program the shortest were unrolled away. Of more loops of the machine neighbours that move the
    same kinds of bytes go together.
    """
    if not ours or not theirs:
        return []
    longest = sorted(sorted(ours, key=lambda i: -float(run.loops[i].trips.mean()))[: len(theirs)])
    differ = [_difference(machine.loops[a].span, machine.loops[b].span) for a, b in pairwise(theirs)]
    cuts = sorted(sorted(range(len(differ)), key=lambda n: (-differ[n], n))[: len(longest) - 1])
    bounds = [0, *(n + 1 for n in cuts), len(theirs)]
    return [(i, list(theirs[a:b])) for i, (a, b) in zip(longest, pairwise(bounds), strict=True)]


def _difference(a: Span, b: Span) -> float:
    """Of the kinds of bytes that two loops move beyond the SM, their amounts aside: 0 for the same, 1 for others."""
    x, y = ({kind: n for kind, n in span.bytes.items() if kind.endswith(" global")} for span in (a, b))
    total_x, total_y = sum(x.values()), sum(y.values())
    if not total_x or not total_y:
        return float(bool(total_x) != bool(total_y))
    return sum(abs(x.get(kind, 0.0) / total_x - y.get(kind, 0.0) / total_y) for kind in {*x, *y}) / 2.0


def _unrolled(
    machine: Machine, run: Run, group: Sequence[int], main: int, i: int, warps: int
) -> tuple[dict[int, FloatArray], dict[int, FloatArray]]:
    """Passes of the loops and of the asides that stand for the program's loop i, those that do most iterations at once
    first, each while there are so many left."""
    loop, span = run.loops[i], machine.loops[main].span
    moved, asked = _moved(span), _asked(run, i, warps)
    at_once = max(1, round(moved * warps / asked)) if asked and moved else 1
    parts = [(max(1, round(at_once * _moved(machine.loops[j].span) / moved)) if moved else 1, True, j) for j in group]
    for n, aside in enumerate(machine.asides):
        if aside.after in group and (copies := _copies(aside.span, span, at_once)):
            parts.append((copies, False, n))
    entries = np.maximum(loop.entries, 1e-9)
    left = loop.trips / entries
    if len(parts) == 1:
        return {main: loop.trips / at_once}, {}
    found: tuple[dict[int, FloatArray], dict[int, FloatArray]] = {}, {}
    for copies, repeats, n in sorted(parts, key=lambda part: (-part[0], not part[1])):
        times = np.floor(left / copies + 1e-6)
        times = times if repeats else np.minimum(times, 1.0)
        left = left - times * copies
        found[0 if repeats else 1][n] = times * entries
    return found


def _copies(aside: Span, loop: Span, at_once: int) -> int:
    """Iterations that code beside a loop does, of which the loop does `at_once` in a pass; 0 for other code."""
    moved = _moved(aside)
    copies = round(at_once * moved / _moved(loop)) if moved else 0
    if not 0 < copies <= at_once or _flops(aside, 1) or _difference(aside, loop) > ALIKE:
        return 0
    return copies


def _share_left(machine: Machine, run: Run, j: int, i: int, warps: int) -> float:
    """Passes of machine loop j, which multiplies, for one iteration of the program's loop i."""
    loop, own = run.loops[i], _flops(machine.loops[j].span, warps)
    trips = float(loop.trips.mean())
    around = [machine.loops[p].span for p in _ancestors(machine, j)] + [machine.straight]
    around += [aside.span for aside in machine.asides]
    peeled = sum(_flops(s, warps) for s in around) / own * float(loop.entries.mean())
    return max(trips - peeled, 0.0) / trips


def _ancestors(machine: Machine, j: int) -> list[int]:
    found = []
    while (j := machine.loops[j].parent) >= 0:
        found.append(j)
    return found


def _is_leaf(run: Run, i: int) -> bool:
    return all(loop.parent != i for loop in run.loops)


def dot_flops(run: Run) -> list[float]:
    """Of each loop itself, in the mean program."""
    out = [0.0] * len(run.loops)
    for dot in run.dots:
        if dot.loop >= 0:
            out[dot.loop] += 2.0 * math.prod(dot.shape) * float(dot.times.mean())
    return out


def _flops(span: Span, warps: int) -> float:
    """Of a block in one pass."""
    return sum(span.matrix.values()) * warps + sum(span.block_matrix.values())


def _moved(span: Span) -> float:
    """Bytes of a warp in one pass, through pointers."""
    return sum(n for kind, n in span.bytes.items() if kind.endswith(" global"))


def _asked(run: Run, i: int, warps: int) -> float:
    """Bytes that one iteration of a loop moves in a program through pointers, each thread an element at least."""
    every = float(run.loops[i].trips.sum())
    total = sum(
        float((a.count * a.times).sum()) * max(math.prod(a.shape), warps * LANES if a.shape else 1) * a.item_bytes
        for a in run.accesses
        if a.loop == i and a.path == "pointer"
    )
    return total / every if every else 0.0
