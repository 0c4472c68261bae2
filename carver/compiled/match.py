"""Match the loops of the machine code with the loops of the program, and find how often each runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np

from ..base.types import FloatArray, Record
from .machine import Aside, Machine, MachineLoop, Span
from .stretches import covers
from .trace import Access, LoopTrace, Trace

LANES = 32
"""Of the narrowest warps: a tile of fewer elements than threads is loaded by several of them."""
ALIKE = 0.25
"""By which what two copies of one iteration move may differ, over what they move: masks and addresses that one of them
does not need."""
MOST_CHOICES, SELDOM = 100, 0.5
"""Choices among the program's loops that are compared; share of programs, of which fewer do not tell the usual way."""
MOVES = {"load": ("load global", "copy global"), "store": ("store global",), "atomic": ("atomic global",)}
"""What the machine has for the program's accesses through pointers."""


class Passes(Record):
    """How often the machine's code runs in each program that was evaluated."""

    whose: list[int]
    """The program's loop that each loop stands for; -1 where there is none."""
    loops: list[FloatArray]
    asides: list[FloatArray]
    straight: FloatArray
    """0 in programs that return before they do anything."""


def shallow(machine: Machine, trace: Trace) -> Machine:
    """The machine's code without loops that nest deeper than the program's. They are of mathematical functions, for
    arguments that are rare: sines of large numbers, remainders of far larger dividends; or wait for other programs, or
    never run for these arguments."""
    running = [i for i, loop in enumerate(trace.loops) if loop.trips.sum() > 0]
    deepest = max((len(_ancestors(trace.loops, i)) for i in running), default=-1)
    places = [j for j in range(len(machine.loops)) if len(_ancestors(machine.loops, j)) <= deepest]
    if len(places) == len(machine.loops):
        return machine
    place = {-1: -1} | {j: n for n, j in enumerate(places)}
    around = {machine.loops[j].parent for j in places}
    loops = tuple(
        replace(machine.loops[j], parent=place[machine.loops[j].parent], leaf=j not in around) for j in places
    )
    asides = tuple(
        replace(aside, parent=place[aside.parent], after=place.get(aside.after, -1))
        for aside in machine.asides
        if aside.parent in place
    )
    return replace(machine, loops=loops, asides=asides)


def unfused(machine: Machine, trace: Trace, warps: int) -> Machine:
    """The machine's code, in which what a loop does once for each iteration of the loop around it is apart from it.
    Triton makes one loop of a program's two where it flattens them, and puts what the outer one does beside the inner
    one behind branches. The machine's loop then multiplies with fewer loops around it than any of the program's, and
    does less in a pass than a whole run of the inner loop."""
    flops = dot_flops(trace)
    entered = [i for i, loop in enumerate(trace.loops) if _is_leaf(trace, i) and loop.entries.sum() > 0]
    ours = [i for i in entered if flops[i] > 0]
    depth = min((len(_ancestors(trace.loops, i)) for i in ours), default=0)
    whole = min((flops[i] / float(trace.loops[i].entries.mean()) for i in ours), default=0.0)
    loops, asides = list(machine.loops), list(machine.asides)
    for j, loop in enumerate(machine.loops):
        once = _flops(loop.span, warps)
        if loop.always and len(_ancestors(machine.loops, j)) < depth and 0 < once < (1.0 - ALIKE) * whole:
            loops[j] = replace(loop, span=loop.always, always=None, sometimes=())
            asides += [Aside(j, -1, each) for each in loop.sometimes]
    return replace(machine, loops=tuple(loops), asides=tuple(asides))


def matched(machine: Machine, trace: Trace, warps: int, rolled: Sequence[int] = ()) -> Passes:
    """Innermost loops that multiply are matched in order with those of the program that do, others with others.
    Iterations that the compiler peeled off are taken off: products add up to the program's. Where it does several
    iterations in one pass, what is left over is done by the stretches behind the loop that a branch may pass by. Where
    it unrolled a whole inner loop, the loop around that is the innermost one. A loop inside one that it unrolled stands
    in the machine's code several times. The machine's loops nest no deeper than the program's: `shallow` takes care of
    that. `rolled`: loops of the program that are known to be in the machine's code."""
    flops = dot_flops(trace)
    inner = [i for i, loop in enumerate(trace.loops) if _is_leaf(trace, i) and loop.trips.sum() > 0]
    none = np.zeros(trace.programs)
    whose, passes = [-1] * len(machine.loops), [none] * len(machine.loops)
    asides: dict[int, FloatArray] = {}
    multiplying = any(_flops(m.span, warps) for m in machine.loops)
    products: list[tuple[int, int, int]] = []
    for kind in (True, False):
        ours = [i for i in inner if (flops[i] > 0 and multiplying) == kind]
        theirs = [j for j, m in enumerate(machine.loops) if m.leaf and (_flops(m.span, warps) > 0) == kind]
        for i, group in _aligned(ours, theirs, machine, trace, rolled, warps):
            main = max(group, key=lambda j: _flops(machine.loops[j].span, warps) or machine.loops[j].span.instructions)
            if (whole := _rolled(machine, trace, main, i, warps)) is not None:
                return matched(machine, whole, warps, (*rolled, trace.loops[i].parent))
            for j in group:
                whose[j] = i
            if kind:
                products.append((i, main, sum(_alike(machine, main, j, warps) for j in group)))
            else:
                found, left_over = _unrolled(machine, trace, group, main, i, warps)
                asides |= left_over
                for j, n in found.items():
                    passes[j] = n
    if products:
        multiplied, share = _multiplied(machine, trace, products, warps)
        for j, n in multiplied.items():
            passes[j] = n
        behind = [n for n, a in enumerate(machine.asides) if a.parent < 0 and _flops(a.span, warps)]
        asides |= dict.fromkeys(behind, share * trace.working)
    for j in reversed(range(len(machine.loops))):
        below = [c for c, m in enumerate(machine.loops) if m.parent == j and whose[c] >= 0]
        if below and not machine.loops[j].leaf:
            whose[j] = _around(machine, trace, below, whose[below[0]])
            passes[j] = trace.loops[whose[j]].trips if whose[j] >= 0 else none

    def usual(parent: int) -> FloatArray:
        if parent < 0:
            return trace.working
        if machine.loops[parent].leaf:  # what `unfused` took out of it
            return trace.loops[whose[parent]].entries if whose[parent] >= 0 else none
        return passes[parent]

    behind_branches = {n: share * trace.working for n, aside in enumerate(machine.asides)
                       if aside.parent < 0 and (share := _seldom(aside.span, trace, warps)) < 1.0}  # fmt: skip
    asides = behind_branches | asides
    beside = [asides.get(n, usual(aside.parent)) for n, aside in enumerate(machine.asides)]
    return Passes(whose, passes, beside, trace.working)


def _seldom(aside: Span, trace: Trace, warps: int) -> float:
    """Share of the programs in which code behind a branch runs: that of those which load as much there, outside of
    loops, if most do not; 1 where none of the program's branches is like it. Source: a norm for which the last of
    16,384 programs adds up what all left (`sum_by_last` in `fifteenth.jsonl.gz`); if all did, it would take twice as
    long."""
    moved, by_share = warps * sum(aside.bytes.get(kind, 0.0) for kind in MOVES["load"]), dict[float, float]()
    for a in trace.accesses:
        if a.kind == "load" and a.loop < 0:
            share = float(a.tiles.sum()) / max(float(trace.working.sum()), 1.0)
            by_share[share] = by_share.get(share, 0.0) + math.prod(a.shape) * a.item_bytes
    alike = [share for share, bytes_ in by_share.items() if share < SELDOM and moved / 2 <= bytes_ <= 2 * moved]
    return min(alike, default=1.0) if moved else 1.0


def _aligned(
    ours: Sequence[int], theirs: Sequence[int], machine: Machine, trace: Trace, rolled: Sequence[int], warps: int
) -> list[tuple[int, list[int]]]:
    """Loops of the program with the machine's that stand for them, in order. Of more loops of the program the shortest
    were unrolled away, none of `rolled`, unless what the machine's do tells other ones. Of more loops of the machine
    neighbours that move the same kinds of bytes go together. A compiler may lay branches in another order: what loops
    load and store tells them. So it does for those of a branch that no program takes, which stand for none."""
    if not ours or not theirs:
        return []
    longest = sorted(sorted(ours, key=lambda i: (i not in rolled, -float(trace.loops[i].trips.mean())))[: len(theirs)])
    differ = [_difference(machine.loops[a].span, machine.loops[b].span) for a, b in pairwise(theirs)]
    cuts = sorted(sorted(range(len(differ)), key=lambda n: (-differ[n], n))[: len(longest) - 1])
    bounds = [0, *(n + 1 for n in cuts), len(theirs)]
    groups = [list(theirs[a:b]) for a, b in pairwise(bounds)]
    longest = _doing(ours, longest, [machine.loops[group[0]].span for group in groups], trace, rolled, warps)
    asked = [sorted({a.kind for a in trace.accesses if a.loop == i and a.path == "pointer"}) for i in longest]
    moves = [_kinds(machine.loops[group[0]].span) for group in groups]
    if asked != moves and sorted(asked) == sorted(moves):
        places = [[n for n, kinds in enumerate(moves) if kinds == wanted] for wanted in asked]
        groups = [groups[places[n][asked[:n].count(wanted)]] for n, wanted in enumerate(asked)]
    found = []
    for i, group, kinds in zip(longest, groups, asked, strict=True):
        found.append((i, [j for j in group if _kinds(machine.loops[j].span) == kinds] or group))
    return found


def _doing(
    ours: Sequence[int], longest: list[int], spans: Sequence[Span], trace: Trace, rolled: Sequence[int], warps: int
) -> list[int]:
    """Of the program's loops those that move and multiply in the ratio in which these spans do, where the longest
    differ from it by twice as much or more; else the longest."""

    def unlike(chosen: Sequence[int]) -> float:
        every = [_ratios(span, trace, i, warps, False) or [1.0] for i, span in zip(chosen, spans, strict=True)]
        return sum(math.log(max(each) / max(min(each), 1e-9)) for each in every)

    if len(ours) == len(longest) or math.comb(len(ours), len(longest)) > MOST_CHOICES:
        return longest
    kept = {*rolled} & {*ours}
    best = min((each for each in combinations(ours, len(longest)) if kept <= {*each}), key=unlike, default=longest)
    return list(best) if unlike(longest) - unlike(best) > math.log(2.0) else longest


def _rolled(machine: Machine, trace: Trace, j: int, i: int, warps: int) -> Trace | None:
    """The program with all that is inside the loop around its loop i as part of that loop, if the machine's loop j does
    all that in one pass; None if it does not."""
    outer, around = trace.loops[i].parent, _ancestors(trace.loops, i)
    if len(_ancestors(machine.loops, j)) >= len(around) or (trace.loops[i].trips <= trace.loops[i].entries).all():
        return None
    inside = {n for n in range(len(trace.loops)) if outer in _ancestors(trace.loops, n)}
    taken, flops = (sum(getattr(trace.loops[n], name) for n in inside) for name in ("exponentials", "float_flops"))
    loops = [
        replace(loop, parent=-1, trips=0.0 * loop.trips, exponentials=0.0, float_flops=0.0) if n in inside else loop
        for n, loop in enumerate(trace.loops)
    ]
    loops[outer] = replace(
        loops[outer], exponentials=loops[outer].exponentials + taken, float_flops=loops[outer].float_flops + flops
    )
    accesses = [replace(each, loop=outer) if each.loop in inside else each for each in trace.accesses]
    dots = [replace(each, loop=outer) if each.loop in inside else each for each in trace.dots]
    rolled = replace(trace, loops=loops, accesses=accesses, dots=dots)
    ratios = _ratios(machine.loops[j].span, rolled, outer, warps)
    return rolled if ratios and min(ratios) > 1.0 - ALIKE else None


def _kinds(span: Span) -> list[str]:
    return sorted(kind for kind, names in MOVES.items() if any(span.bytes.get(name) for name in names))


def _difference(a: Span, b: Span) -> float:
    """Of the kinds of bytes that two loops move beyond the SM, their amounts aside: 0 for the same, 1 for others."""
    x, y = ({kind: n for kind, n in span.bytes.items() if kind.endswith(" global")} for span in (a, b))
    total_x, total_y = sum(x.values()), sum(y.values())
    if not total_x or not total_y:
        return float(bool(total_x) != bool(total_y))
    return sum(abs(x.get(kind, 0.0) / total_x - y.get(kind, 0.0) / total_y) for kind in {*x, *y}) / 2.0


def _unrolled(
    machine: Machine, trace: Trace, group: Sequence[int], main: int, i: int, warps: int
) -> tuple[dict[int, FloatArray], dict[int, FloatArray]]:
    """Passes of the loops and of the asides that stand for the program's loop i, those that do most iterations at once
    first, each while there are so many left."""
    loop, span = trace.loops[i], machine.loops[main].span
    at_once, shares = _at_once(span, trace, i, warps), [_share(machine.loops[j].span, span) for j in group]
    counted = machine.loops[main].advance
    if loop.step and counted % loop.step == 0 and not _ratios(span, trace, i, warps):  # nothing else tells it
        at_once, shares = max(1, counted // loop.step), [machine.loops[j].advance / max(counted, 1) for j in group]
    parts = [(max(1, round(at_once * share)), True, j) for share, j in zip(shares, group, strict=True)]
    for n, aside in enumerate(machine.asides):
        if aside.after in group and (copies := _copies(aside.span, span, at_once)):
            parts.append((copies, False, n))
    entries = np.maximum(loop.entries, 1e-9)
    left = loop.trips / entries
    if len(parts) == 1:
        return {main: loop.trips / at_once}, {}
    found: tuple[dict[int, FloatArray], dict[int, FloatArray]] = {}, {}
    for copies, repeats, n in sorted(parts, key=lambda part: (-part[0], not part[1], part[2] != main)):
        times = np.floor(left / copies + 1e-6)
        times = times if repeats else np.minimum(times, 1.0)
        left = left - times * copies
        found[0 if repeats else 1][n] = times * entries
    return found


def _copies(aside: Span, loop: Span, at_once: int) -> int:
    """Iterations that code beside a loop does, of which the loop does `at_once` in a pass; 0 for other code."""
    copies = round(at_once * _share(aside, loop))
    if not 0 < copies <= at_once or _flops(aside, 1) or _difference(aside, loop) > ALIKE:
        return 0
    return copies


def _alike(machine: Machine, a: int, b: int, warps: int) -> bool:
    """Whether two of the machine's loops multiply as much in the same loop: copies of one, in a loop unrolled."""
    x, y = machine.loops[a], machine.loops[b]
    return x.parent == y.parent and _flops(x.span, warps) == _flops(y.span, warps)


def _around(machine: Machine, trace: Trace, copies: Sequence[int], i: int) -> int:
    """The program's loop that the machine has around those that stand for the program's loop i and others. Not the next
    one, if the machine has fewer loops around them, and as many copies of them as that has iterations."""
    outer, depth = trace.loops[i].parent, len(_ancestors(machine.loops, copies[0]))
    if outer >= 0 and len(_ancestors(trace.loops, i)) > depth and len(copies) > 1:
        loop = trace.loops[outer]
        if np.allclose(loop.trips, len(copies) * loop.entries):
            return loop.parent
    return outer


def _multiplied(
    machine: Machine, trace: Trace, products: Sequence[tuple[int, int, int]], warps: int
) -> tuple[dict[int, FloatArray], float]:
    """Passes of the machine's loops that multiply, and of what else multiplies behind a branch. `products`: the
    program's loop, the machine's, and how many copies it has of that. What the code around them multiplies beyond the
    program's products there are iterations that were peeled off, as many of each loop; a branch passes by what is more
    than all of them."""
    flops, total = dot_flops(trace), sum(dot.flops for dot in trace.dots)
    own = {j: _flops(machine.loops[j].span, warps) for _, j, _ in products}
    every = {j: own[j] * copies for _, j, copies in products}
    at_once = {j: _at_once(machine.loops[j].span, trace, i, warps) for i, j, _ in products}
    plain = sum(flops[i] / float(trace.loops[i].trips.mean()) * at_once[j] for i, j, _ in products)
    padded, working = sum(own.values()) / plain, float(trace.working.mean())
    elsewhere = padded * (total - sum(flops[i] for i, _, _ in products))
    behind = _behind(machine, -1, warps)
    once = _flops(machine.straight, warps) + behind
    found: dict[int, FloatArray] = {}
    for i, j, copies in products:
        loop, parent = trace.loops[i], machine.loops[j].parent
        outer, above = _ancestors(machine.loops, j), _ancestors(trace.loops, i)
        entries = loop.entries
        if len(outer) < len(above):  # a loop between was unrolled, or made one with it
            entries = copies * (trace.loops[above[-len(outer)]].trips if outer else trace.working)
        around = once + sum(_flops(machine.loops[p].span, warps) + _behind(machine, p, warps) for p in outer)
        around -= elsewhere / max(working, float(loop.entries.mean()))
        peeled = max(around, 0.0) / sum(every[k] for k in every if machine.loops[k].parent == parent)
        found[j] = np.maximum(loop.trips / at_once[j] - peeled * entries, 0.0)
    more = sum(float(n.mean()) * own[j] for j, n in found.items()) + once * working - padded * total
    return found, 1.0 - min(max(more / working / behind, 0.0), 1.0) if behind else 1.0


def _behind(machine: Machine, parent: int, warps: int) -> float:
    """FLOPs of a block in what branches of a loop may pass by."""
    return sum(_flops(aside.span, warps) for aside in machine.asides if aside.parent == parent)


def _at_once(span: Span, trace: Trace, i: int, warps: int) -> int:
    """Iterations of the program's loop i that one pass of the machine's does: as many times as it does what one does,
    if that divides the numbers of its accesses of each width and of its barriers. Threads that hold an element several
    times look the same otherwise."""
    told = [kind for kind in span.accesses if " global " in kind and not (_kept(trace, i) and kind.startswith("load"))]
    counts = math.gcd(*(span.accesses[kind] for kind in told))
    if not _flops(span, warps):  # a pipeline of copies meets at other places than each of its products
        counts = math.gcd(counts, span.barriers)
    most = max(1, int(min(_ratios(span, trace, i, warps), default=1.0) + ALIKE))
    return next(n for n in range(most, 0, -1) if counts % n == 0)


def _kept(trace: Trace, i: int) -> list[Access]:
    """Loads of what an earlier iteration of the loop stored: where a pass does several, it is in registers still."""
    own = [a for a in trace.accesses if a.loop == i]
    return [a for n, a in enumerate(own) if a.kind == "load" and any(covers(b, a) for b in own[:n])]


def _ratios(span: Span, trace: Trace, i: int, warps: int, singly: bool = True) -> list[float]:
    """What one pass of the machine's loop moves and multiplies, and takes exponentials of and adds `singly`, each over
    what one iteration of the program's loop i does."""
    every = float(trace.loops[i].trips.sum())
    ratios, kept = [], _kept(trace, i)
    for kind, names in MOVES.items():
        asked = sum(
            float(a.tiles.sum()) * max(math.prod(a.shape), warps * LANES if a.shape else 1) * a.item_bytes
            for a in trace.accesses
            if a.loop == i and a.path == "pointer" and a.kind == kind and not any(a is each for each in kept)
        )
        if asked and (moved := sum(span.bytes.get(name, 0.0) for name in names)):
            ratios.append(moved * warps * every / asked)
    if multiplied := _flops(span, warps):
        ratios.append(multiplied * float(trace.loops[i].trips.mean()) / dot_flops(trace)[i])
    if not singly or (trace.loops[i].joins and not ratios):
        return ratios
    # those of short rows are taken by many threads, of which one that moves its elements is one alone
    widest = max((math.prod(a.shape) for a in trace.accesses), default=1)
    copies = 1.0 if ratios else max(warps * LANES / widest, 1.0)
    for did, asked in (
        (span.exponentials, trace.loops[i].exponentials), (span.float_flops, trace.loops[i].float_flops),
    ):  # fmt: skip
        if did and asked:
            ratios.append(did * warps * every / asked / copies)
    return ratios


def _ancestors(loops: Sequence[MachineLoop] | Sequence[LoopTrace], j: int) -> list[int]:
    found = []
    while (j := loops[j].parent) >= 0:
        found.append(j)
    return found


def _is_leaf(trace: Trace, i: int) -> bool:
    """Whether no loop runs inside this one."""
    return all(loop.parent != i or not loop.trips.any() for loop in trace.loops)


def dot_flops(trace: Trace) -> list[float]:
    """Of each loop itself, in the mean program."""
    out = [0.0] * len(trace.loops)
    for dot in trace.dots:
        if dot.loop >= 0:
            out[dot.loop] += dot.flops
    return out


def _flops(span: Span, warps: int) -> float:
    """Of a block in one pass."""
    return sum(span.matrix.values()) * warps + sum(span.block_matrix.values())


def _share(part: Span, whole: Span) -> float:
    """What a part does in one pass, over what the whole does: bytes through pointers, else arithmetic."""
    for did in (_moved, lambda span: span.exponentials, lambda span: span.float_flops):
        if by := did(whole):
            return did(part) / by
    return 0.0


def _moved(span: Span) -> float:
    """Bytes of a warp in one pass, through pointers."""
    return sum(n for kind, n in span.bytes.items() if kind.endswith(" global"))
