"""Basic blocks of a kernel, and what of each block branches and addresses depend on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from heapq import heappop, heappush
from itertools import pairwise
from operator import or_
from typing import Any

from ..isa.code import components, reachable
from .lanes import Op

ENDS = ("branch", "exit", "call", "return", "indirect", "turns")
"""Kinds of instructions that end a basic block."""
MOVES = ("global", "box", "bulk")
"""Kinds of instructions that move global memory."""
ACCESSES = (*MOVES, "barrier")
KEPT = ("shared", "local")


@dataclass(frozen=True, slots=True)
class Block:
    """A basic block.

    places: the indices of its instructions
    ops: those that are run, without the last one if it ends the block
    last: the one that ends it; None where the next block follows without one
    live: registers that are read behind its start, before they are written
    steers: those of them on which branches and guards depend
    rewritten: those of them that lanes which take part write before they read
    """

    places: range
    ops: tuple[Op, ...]
    last: Op | None
    live: frozenset[str]
    steers: frozenset[str]
    rewritten: frozenset[str] = frozenset()


class Program:
    """The control flow of a kernel's instructions, which are in the order of their addresses.

    `mask`: the predicate that guards all instructions of lanes, where branches are of whole waves.
    """

    def __init__(self, ops: Sequence[Op], mask: str = "") -> None:
        self.ops, self.mask = ops, mask
        self._found: dict[Any, tuple[list[list[int]], list[int]]] = {}
        self._slices: dict[frozenset[str], list[Block]] = {}
        self._sets: dict[int, frozenset[str]] = {}
        self.index = {op.address: i for i, op in enumerate(ops)}
        starts = {0} | {self.index[op.target] for op in ops if op.target in self.index}
        starts |= {i + 1 for i, op in enumerate(ops) if op.kind in ENDS and i + 1 < len(ops)}
        behind = {i + 1 for i, op in enumerate(ops) if op.waits and i + 1 < len(ops)}
        bounds = [*sorted(starts | behind), len(ops)]
        self.ranges = [range(a, b) for a, b in pairwise(bounds)]
        self.block_at = {ops[each[0]].address: n for n, each in enumerate(self.ranges)}
        """Address -> the block that begins there."""
        self.behind = {self.block_at[ops[i].address] for i in behind}
        """Blocks that begin behind a wait of all warps: one gets there when none of its block is elsewhere."""
        self.block_of = [n for n, each in enumerate(self.ranges) for _ in each]
        """Index of an instruction -> its block."""
        self.after = [self._after(n) for n in range(len(self.ranges))]
        self.rank = ranked(self._within)
        """Place of each block in the order in which they are run."""
        self.heads = {m for n, out in enumerate(self.after) for m in out if self.rank[m] <= self.rank[n]}
        """Blocks that a loop may begin with: control comes to them from behind."""

    def _after(self, n: int) -> tuple[int, ...]:
        last = self.ops[self.ranges[n][-1]]
        falls = [n + 1] if n + 1 < len(self.ranges) else []
        if last.kind not in ENDS or last.kind == "turns":
            return tuple(falls)
        always = not last.guard and not last.conditions
        there = [self.block_at[self.ops[self.index[last.target]].address]] if last.target in self.index else []
        match last.kind:
            case "branch":
                return (*([] if always else falls), *there)
            case "exit":
                return tuple([] if always else falls)
            case "call":
                return (*there, *falls)
        return tuple(range(len(self.ranges))) if last.kind == "indirect" else self._returns

    @property
    def _within(self) -> list[tuple[int, ...]]:
        """Blocks behind each, without the ways back from functions."""
        kinds = [self.ops[each[-1]].kind for each in self.ranges]
        return [() if kind in ("return", "indirect") else out for kind, out in zip(kinds, self.after, strict=True)]

    def span(self, head: int) -> list[int]:
        """The blocks from the head of a loop to the last from which control comes back to it."""
        end = max(self.rank[n] for n, out in enumerate(self.after) if head in out)
        return [n for n, at in enumerate(self.rank) if self.rank[head] <= at <= end]

    def loop_ops(self, head: int) -> list[Op]:
        """The instructions of these blocks."""
        return [self.ops[i] for n in self.span(head) for i in self.ranges[n]]

    @cached_property
    def waiting(self) -> set[int]:
        """Blocks that wait for a barrier in memory."""
        return {self.block_of[i] for i, op in enumerate(self.ops) if op.kind == "barrier"}

    @cached_property
    def awaited(self) -> dict[int, set[int]]:
        """Addresses of branches out of a loop, or back in it, that depend on what other blocks write, which have; and
        those of the loads that tell."""
        strong = {i for i, op in enumerate(self.ops) if op.strong and op.access == "load"}
        spans = [self.span(head) for head in self.heads] if strong else []
        found: dict[int, set[int]] = {}
        for n, places in enumerate(self.ranges if strong else ()):
            last, around = self.ops[places[-1]], [span for span in spans if n in span]
            if last.kind == "branch" and last.target in self.index and around:
                needed = self._needed({places[-1]: last.reads})[0]
                if loads := strong.intersection(set().union(*needed)):
                    found[last.address] = {self.ops[i].address for i in loads}
        return found

    @cached_property
    def leaves(self) -> set[int]:
        """Those of the branches of `awaited` that leave their loop."""
        spans, found = [self.span(head) for head in self.heads], set()
        for i in (self.index[address] for address in self.awaited):
            inner = min((span for span in spans if self.block_of[i] in span), key=len)
            if self.block_at.get(self.ops[i].target or 0) not in inner:
                found.add(self.ops[i].address)
        return found

    def origin(self, i: int) -> Hashable:
        """What tells where the registers that an instruction reads come from: which of its basic block wrote each last.
        Addresses of one origin differ by numbers that are known."""
        block = self.block_of[i]
        last = {name: j for j in range(self.ranges[block].start, i) for name in self.ops[j].writes}
        return block, frozenset((name, last.get(name)) for name in self.ops[i].reads)

    @property
    def _returns(self) -> tuple[int, ...]:
        """Blocks behind calls."""
        return tuple(n + 1 for n, each in enumerate(self.ranges) if self.ops[each[-1]].kind == "call")

    @cached_property
    def looping(self) -> set[int]:
        """Blocks that control may come back to."""
        return {n for part in components(range(len(self.ranges)), self.after) for n in part}

    @cached_property
    def keeps(self) -> frozenset[str]:
        """Memory that is kept as it is run, "shared" and "local": what was stored there is loaded by instructions that
        branches or addresses of global memory depend on."""
        kept = frozenset[str]()
        while True:
            roots = {i: op.reads for i, op in enumerate(self.ops) if op.kind in (*ENDS, *ACCESSES)}
            needed = self._needed(roots | self._stores(kept))[0]
            ops = (self.ops[i] for each in needed for i in each)
            found = {op.kind for op in ops if op.kind in KEPT and op.access == "load"}
            if found <= kept:
                return kept
            kept |= found

    def _stores(self, kept: frozenset[str]) -> dict[int, frozenset[str]]:
        return {i: op.reads | op.stored_names for i, op in enumerate(self.ops) if op.kind in kept}

    def sliced(self, kinds: Collection[str]) -> list[Block]:
        """The blocks with the instructions that branches, and accesses of some kinds, depend on."""
        kinds = frozenset((*ENDS, *kinds))
        if kinds in self._slices:
            return self._slices[kinds]
        roots = {i: op.reads for i, op in enumerate(self.ops) if op.kind in kinds}
        roots |= self._stores(self.keeps)
        needed, live = self._needed(roots)
        read = self._needed(roots, self.mask)[1] if self.mask else live
        steers = self._steering[1]
        blocks = []
        for n, places in enumerate(self.ranges):
            last = self.ops[places[-1]]
            ends = last.kind in ENDS
            ops = tuple(self.ops[i] for i in needed[n] if not ends or i != places[-1])
            asked = (self._named(some) for some in (live[n], steers[n], live[n] & ~read[n]))
            blocks.append(Block(places, ops, last if ends else None, *asked))
        return self._slices.setdefault(kinds, blocks)

    @cached_property
    def steering(self) -> frozenset[int]:
        """Addresses of the instructions on which branches and guards depend."""
        return frozenset(self.ops[i].address for each in self._steering[0] for i in each)

    @cached_property
    def _steering(self) -> tuple[list[list[int]], list[int]]:
        return self._needed({i: op.reads if op.kind in ENDS else op.asks for i, op in enumerate(self.ops)
                             if op.kind in ENDS or op.kind in (*ACCESSES, "shared")})  # fmt: skip

    def _needed(self, roots: Mapping[int, frozenset[str]], whole: str = "") -> tuple[list[list[int]], list[int]]:
        """By basic block: the instructions that some need, and these; bits of what is read behind the block's start.
        `roots`: the registers that each of those asks for. A write under the guard `whole` counts as one of all lanes.

        Sets of registers are bits of a number. Backwards through a block, `wanted` are those that are read further on
        before they are written, and `under` has, by guard, those that are read only where this holds: writes under the
        same guard give these. Blocks are gone through again until what they want at their starts stays."""
        key = whole, tuple(roots.items())
        if key in self._found:
            return self._found[key]
        count = len(self.ranges)
        _, bits, reads_of, writes_of = self._masks
        guards = ["" if op.guard == whole else op.guard for op in self.ops]
        only = [guard or op.only for guard, op in zip(guards, self.ops, strict=True)]
        bit_of = {guard: 1 << bits[guard.lstrip("!")] for guard in set(only) if guard}
        asked_of = [-1] * len(self.ops)
        for i, some in roots.items():
            asked_of[i] = sum(1 << bits[name] for name in some)

        def through(places: range, wanted: int) -> tuple[list[int], int]:
            """Of a block, the instructions that what is wanted behind it needs, and what is wanted at its start."""
            under: dict[str, int] = {}  # wanted only where a predicate holds, which writes under it give
            union = 0  # of these, and some that are not wanted any more
            kept = []
            for i in reversed(places):
                written, asked, guard = writes_of[i], asked_of[i], guards[i]
                hit = wanted & written
                if union & written and not hit:
                    against = guard.removeprefix("!") if guard.startswith("!") else f"!{guard}"  # holds where it fails
                    hit = any(mask & written and name != against for name, mask in under.items())
                if asked < 0 and not hit:
                    continue
                kept.append(i)
                if not guard:
                    wanted &= ~written
                for name in list(under):
                    if guard in ("", name):
                        under[name] &= ~written
                    if bit_of[name] & written:
                        wanted |= under.pop(name)
                reads = reads_of[i] if asked < 0 or hit else asked
                if where := only[i]:
                    wanted |= bit_of[where]
                    under[where] = under.get(where, 0) | reads & ~bit_of[where]
                    union |= reads
                else:
                    wanted |= reads
            return kept[::-1], reduce(or_, under.values(), wanted)

        live = [0] * count
        needed: list[list[int]] = [[] for _ in range(count)]
        before: list[list[int]] = [[] for _ in range(count)]
        after = self._passed_on
        for n, out in enumerate(after):
            for m, _ in out:
                before[m].append(n)
        work = sorted({-self.block_of[i] for i in roots})  # a heap: those behind first, which others wait for
        queued = [False] * count
        for n in work:
            queued[-n] = True
        while work:
            n = -heappop(work)
            queued[n] = False
            wanted = 0
            for m, mask in after[n]:
                wanted |= live[m] & mask
            needed[n], wanted = through(self.ranges[n], wanted)
            if wanted != live[n]:
                live[n] = wanted
                for m in before[n]:
                    if not queued[m]:
                        heappush(work, -m)
                        queued[m] = True
        return self._found.setdefault(key, (needed, live))

    def feeding(self, i: int) -> set[int]:
        """The instructions that the address of an access depends on."""
        return {j for each in self._needed({i: self.ops[i].reads})[0] for j in each}

    def loaded(self, asked: Sequence[int]) -> set[int]:
        """Those of some instructions that read what depends on loads."""
        _, bits, reads_of, writes_of = self._masks
        loads = [op.access in ("load", "copy") for op in self.ops]
        guard_of = [1 << bits[op.guard.lstrip("!")] if op.guard else 0 for op in self.ops]
        come, found, marked = [0] * len(self.ranges), set[int](), set(asked)
        work = list(range(len(self.ranges)))  # a heap
        while work:
            n = heappop(work)
            held = come[n]
            for i in self.ranges[n]:
                of_loads = held & (reads_of[i] | guard_of[i])
                if of_loads and i in marked:
                    found.add(i)
                if of_loads or loads[i]:
                    held |= writes_of[i]
                elif not guard_of[i]:
                    held &= ~writes_of[i]
            for m, mask in self._passed_on[n]:
                if held & mask & ~come[m]:
                    come[m] |= held & mask
                    if m not in work:
                        heappush(work, m)
        return found

    def _named(self, held: int) -> frozenset[str]:
        """Registers by their bits."""
        if held not in self._sets:
            places = enumerate(reversed(bin(held)[2:]))
            self._sets[held] = frozenset(self._masks[0][place] for place, bit in places if bit == "1")
        return self._sets[held]

    @cached_property
    def _passed_on(self) -> list[list[tuple[int, int]]]:
        """By basic block: those behind it, and which registers pass on to each. What a function may write comes out of
        it, the rest passes by."""
        last = [self.ops[each[-1]] for each in self.ranges]
        entry = {n: self.after[n][0] for n, op in enumerate(last) if op.kind == "call" and self.after[n]}
        out = [[(m, -1) for m in each] for each in self.after]
        for n, op in enumerate(last):
            if op.kind == "return":
                out[n] = []
        within = [() if op.kind == "return" else to for op, to in zip(last, self.after, strict=True)]
        for first in set(entry.values()):
            body = reachable(within, [first])
            written = 0
            for i in (i for n in body for i in self.ranges[n]):
                written |= self._masks[3][i]
            callers = [n for n, to in entry.items() if to == first]
            for n in callers:  # where it is called always, the block behind the call is reached through it alone
                out[n] = [(first, -1), *((m, -1 if last[n].guard else ~written) for m in self.after[n][1:])]
            for n in body:
                if last[n].kind == "return":
                    out[n] += [(m + 1, written) for m in callers if m + 1 < len(out)]
        return out

    @cached_property
    def _masks(self) -> tuple[list[str], dict[str, int], list[int], list[int]]:
        """Names of registers, a bit for each, and of each instruction those that it reads and writes."""
        names = sorted({name for op in self.ops for name in (*op.reads, *op.writes, *op.asks, *op.stored_names)})
        bits = {name: at for at, name in enumerate(names)}
        reads_of, writes_of = (
            [sum(1 << bits[name] for name in some) for some in column]
            for column in ([op.reads for op in self.ops], [op.writes for op in self.ops])
        )
        return names, bits, reads_of, writes_of


def ranked(after: Sequence[Sequence[int]]) -> list[int]:
    """Of each block its place in an order in which all of a loop comes behind its head and before what follows, and
    blocks have the order of their addresses otherwise. Compilers put parts of loops behind them that are run less."""
    order: list[int] = []

    def lay(nodes: Collection[int], head: int) -> None:
        """Those of a loop, or of all code, which control enters at the head."""
        inside = {n: [m for m in after[n] if m != head and m in nodes] for n in nodes}
        first = {n: n for n in nodes}
        parts = {min(part): part for part in components(sorted(nodes), inside)}
        for least, part in parts.items():
            first |= dict.fromkeys(part, least)
        ways = [(n, m) for n, out in inside.items() for m in out if first[n] != first[m]]
        missing = Counter(first[m] for _, m in ways)
        entry = {first[m]: m for _, m in sorted(ways, key=lambda way: -way[1])}
        further = defaultdict(list)
        for n, m in ways:
            further[first[n]].append(first[m])
        ready = sorted({n for n in first.values() if not missing[n]})
        while ready:
            n = heappop(ready)
            if n in parts:
                lay(parts[n], entry.get(n, n))
            else:
                order.append(n)
            for m in further[n]:
                missing[m] -= 1
                if not missing[m]:
                    heappush(ready, m)

    lay(range(len(after)), -1)
    rank = [0] * len(order)
    for place, n in enumerate(order):
        rank[n] = place
    return rank


def passing_by(ops: Sequence[Op]) -> Program:
    """Of instructions, of which branches that may pass by rare code do so always, if they depend on what is loaded:
    then their outcome is not known, and nothing that it depends on is of use."""
    program = Program(ops)
    rare = [i for i, op in enumerate(ops) if op.rare]
    found = program.loaded(rare) if rare else set()
    free: dict[str, Any] = {"guard": "", "conditions": (), "reads": frozenset(), "asks": frozenset(), "rare": False}
    return Program([replace(op, **free) if i in found else op for i, op in enumerate(ops)]) if found else program
