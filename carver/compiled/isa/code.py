"""Machine code of one kernel as records: instructions, what it holds, its basic blocks and the tree of its loops.

The readers (`sass`, `amd`) make these of a compiler's output. Indices count instructions from 0 in the order of the
code.

A loop is a strongly connected component of the graph. Removing its first block leaves the components that are its inner
loops. This finds the natural loops of reducible code, and also loops with two entries, which dominators would miss."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, NamedTuple

Waits = tuple[tuple[frozenset[str], int], ...]
"""What an AMD wait instruction waits for: sets of counters, each set with the number of its operations that may stay
outstanding."""


class Control(NamedTuple):
    """Scheduling fields that the compiler encodes with each instruction of an NVIDIA GPU (since Volta).

    `stall_clk`: clocks before the next instruction of this warp; `yields`: the scheduler then prefers another warp;
    `write_barrier`, `read_barrier`: the scoreboard (0 to 5) that is released when results are written and when operands
    are read, None if there is none; `wait_mask`: bit i is set if the instruction waits for scoreboard i.
    """

    stall_clk: int
    yields: bool
    write_barrier: int | None
    read_barrier: int | None
    wait_mask: int


class Instruction(NamedTuple):
    """`opcode` with its modifiers ("HMMA.16816.F32"), `target` the address that a branch names.

    `control` is None on AMD. `waits` is None unless this is an AMD wait instruction. `descriptor` is the constant that
    describes a matrix instruction of the fifth generation of tensor cores; None for others, or if it is not known.
    """

    address: int
    predicate: str
    opcode: str
    operands: str
    control: Control | None = None
    target: int | None = None
    waits: Waits | None = None
    descriptor: int | None = None

    @property
    def mnemonic(self) -> str:
        return self.opcode.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Resources:
    """Registers of one thread, and shared memory of one block.

    On AMD `registers` are the VGPRs of a lane, with the AGPRs if both share one file (CDNA 2 and later).
    `shared_bytes` is what the code object states, without memory that a launch adds. `spill_bytes` counts the distinct
    stack slots that registers are spilled to, in bytes per thread. `stack_bytes` includes them and local arrays.
    """

    registers: int
    shared_bytes: int = 0
    stack_bytes: int = 0
    spill_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop that does work, as opposed to one that only waits.

    `body` holds all its instructions, `own` those outside of its inner loops (`loops`). Instructions that only spin on
    a barrier in memory are in `body` but not in `own`. `entry` is the index at which the code around the loop starts:
    0, or the target of the indirect branch that starts another partition of warps.
    """

    header: int
    body: tuple[int, ...]
    own: tuple[int, ...]
    entry: int = 0
    loops: tuple[Loop, ...] = ()

    def walk(self) -> Iterable[Loop]:
        yield self
        for inner in self.loops:
            yield from inner.walk()


@dataclass(frozen=True, slots=True)
class Code:
    """The machine code of one kernel. `isa` as device descriptors write it ("sm_90", "gfx942").

    straight: indices outside of loops
    optional: stretches that a forward branch may skip
    conflicts: index of an access of shared or global memory -> passes over the banks, relative to those it needs
        without conflicts; only where it is known not to be 1
    unplaced: indices of accesses of global memory whose addresses are not known
    awake: index of an access of shared memory -> share of the warps that execute it of which masks let lanes through
    parameters: where each starts in constant bank 0
    sectors: index of an atomic on global memory -> sectors that a warp touches, only where they are known; and of a
        store to an array on the stack, where they are more than of one word of each lane
    """

    isa: str
    kernel: str
    warp_size: int
    instructions: tuple[Instruction, ...]
    resources: Resources
    loops: tuple[Loop, ...]
    straight: tuple[int, ...]
    optional: tuple[tuple[int, ...], ...] = ()
    conflicts: Mapping[int, float] = field(default_factory=dict)
    sectors: Mapping[int, float] = field(default_factory=dict)
    unplaced: frozenset[int] = frozenset()
    awake: Mapping[int, float] = field(default_factory=dict)
    parameters: tuple[int, ...] = ()

    @property
    def digest(self) -> str:
        """A hash of the instructions and of what they hold, without where and when their source was written: files of
        the compiler name it for debuggers."""
        lines = [(each.predicate, each.opcode, each.operands, each.control) for each in self.instructions]
        return sha256(repr((self.resources, lines)).encode()).hexdigest()

    def all_loops(self) -> list[Loop]:
        """All loops in the order of the code, outer loops before their inner loops."""
        return [loop for outer in self.loops for loop in outer.walk()]


_ADDS = {"IADD3": 1, "VIADD": 1, "UIADD3": 1, "s_add_i32": 1, "s_add_u32": 1, "s_sub_i32": -1, "s_sub_u32": -1}
_MOVES = ("MOV", "UMOV", "IMAD.MOV.U32", "s_mov_b32")


def advance(code: Code, loop: Loop) -> int:
    """What a pass of a loop adds to the counter that ends it, or takes from it; 0 where that is not told. A register is
    told as one that the pass began with, and a constant more."""
    known: dict[str, tuple[str, int] | None] = {}
    counters: list[tuple[str, int] | None] = []

    def told(word: str) -> tuple[str, int] | None:
        return known.get(word, (word, 0))

    for i in loop.body:
        each = code.instructions[i]
        words = [word.strip().removesuffix(".reuse") for word in each.operands.split(",")]
        numbers = [int(word, 0) for word in words if re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", word)]
        numbers = [(n + (1 << 31)) % (1 << 32) - (1 << 31) for n in numbers]  # 0xffffffdb is -37
        registers = [word for word in words[1:] if re.fullmatch(r"U?R\d+|s\d+", word)]
        if each.mnemonic in ("ISETP", "UISETP") or each.opcode.startswith("s_cmp"):
            counters = [told(word) for word in words if re.fullmatch(r"U?R\d+|s\d+", word)]
        elif each.predicate:
            known[words[0]] = None
        elif each.opcode == "s_addk_i32":
            of = told(words[0])
            known[words[0]] = of and (of[0], of[1] + numbers[0])
        elif (sign := _ADDS.get(each.mnemonic)) and len(registers) == len(numbers) == 1:
            of = told(registers[0])
            known[words[0]] = of and (of[0], of[1] + sign * numbers[0])
        elif each.opcode in _MOVES and len(registers) == 1:
            known[words[0]] = told(registers[0])
        else:
            known[words[0]] = None
    ends = [known.get(of[0]) for of in counters if of]
    steps = {abs(end[1]) for of, end in zip(filter(None, counters), ends, strict=True) if end and end[0] == of[0]} - {0}
    return steps.pop() if len(steps) == 1 else 0


@dataclass(frozen=True, slots=True)
class Step:
    """Where control goes after an instruction: to the next one (`falls`), to the indices `targets`, or out (neither).

    `indirect`: further targets are in a table in memory.
    """

    falls: bool = True
    targets: tuple[int, ...] = ()
    indirect: bool = False


@dataclass(frozen=True, slots=True)
class Graph:
    """Basic blocks as ranges of indices, the successors of each, and the blocks where execution may start."""

    blocks: tuple[range, ...]
    after: tuple[tuple[int, ...], ...]
    entries: tuple[int, ...]


def graph(length: int, steps: dict[int, Step]) -> Graph:
    """Control-flow graph of `length` instructions; `steps` has those that do not merely fall through.

    If a branch is indirect, blocks that nothing else reaches count as its targets, so as entries: compilers lay the
    targets of a table out in order. Otherwise unreached blocks, such as padding after the end, are left unconnected.
    """
    if not length:
        return Graph((), (), ())
    starts = {0} | {i + 1 for i in steps} | {t for step in steps.values() for t in step.targets}
    bounds = sorted(s for s in starts if s < length)
    place = {s: n for n, s in enumerate(bounds)}
    blocks = tuple(range(s, e) for s, e in zip(bounds, [*bounds[1:], length], strict=True))
    after: list[tuple[int, ...]] = []
    for n, block in enumerate(blocks):
        step = steps.get(block[-1], Step())
        falls = (n + 1,) if step.falls and n + 1 < len(blocks) else ()
        after.append(tuple(dict.fromkeys((*falls, *(place[t] for t in step.targets if t in place)))))
    entries = [0]
    reached = reachable(after, entries)
    if any(step.indirect for step in steps.values()):
        for n in range(len(blocks)):
            if n not in reached:
                entries.append(n)
                reached |= reachable(after, [n])
    return Graph(blocks, tuple(x if n in reached else () for n, x in enumerate(after)), tuple(entries))


def usual(
    steps: Mapping[int, Step], opcodes: Sequence[str], is_rare: Callable[[Sequence[str]], bool]
) -> dict[int, Step]:
    """The steps, with branches taken that pass by code for arguments that are rare, as `is_rare` says of opcodes."""
    ahead = {i: max(step.targets, default=0) for i, step in steps.items() if step.falls and not step.indirect}
    rare = {i for i, end in ahead.items() if is_rare(opcodes[i + 1 : end])}
    return {i: replace(step, falls=False) if i in rare else step for i, step in steps.items()}


def reachable(
    after: Sequence[Iterable[Any]] | Mapping[Any, Iterable[Any]], starts: Iterable[Any], among: Set[Any] | None = None
) -> set[Any]:
    """From some nodes, these among them; without going through those that are not `among` so many."""
    seen: set[Any] = set()
    stack = list(starts)
    while stack:
        n = stack.pop()
        if n not in seen and (among is None or n in among):
            seen.add(n)
            stack.extend(after[n])
    return seen


def components(nodes: Collection[int], after: Sequence[Iterable[int]] | Mapping[int, Iterable[int]]) -> list[set[int]]:
    """Strongly connected components with a cycle, in the subgraph of `nodes`, by Kosaraju's algorithm. networkx has
    one, but takes 0.7 s to load in each process that reads code."""
    before: dict[int, list[int]] = {n: [] for n in nodes}
    for n in nodes:
        for m in after[n]:
            if m in before:
                before[m].append(n)
    left: list[int] = []
    """In the order in which a search in depth is through with them."""
    seen: set[int] = set()
    for root in nodes:
        path = [] if root in seen else [(root, iter(after[root]))]
        seen.add(root)
        while path:
            further = next((m for m in path[-1][1] if m in before and m not in seen), None)
            if further is None:
                left.append(path.pop()[0])
            else:
                seen.add(further)
                path.append((further, iter(after[further])))
    found: list[set[int]] = []
    while left:
        root = left.pop()
        if root in seen:
            part = reachable(before, [root], seen)
            seen -= part
            if len(part) > 1 or root in after[root]:
                found.append(part)
    return found


MEMORY = re.compile(r"LD|ST|ATOM|RED|BAR|UTMA|UBLK|(global|buffer|flat)_(load|store|atomic)|ds_|s_barrier")
SWAP = re.compile(r"\.CAS|cmpswap")


def passes_once(opcodes: Sequence[str]) -> bool:
    """Whether a loop is of the compiler's own and runs once, as a rule.

    Such a loop repeats a compare-and-swap until it succeeds, for an atomic that the device emulates; or it takes a
    register to the uniform ones, and again for lanes that hold another number there, of which there are none.
    """
    touching = [op for op in opcodes if MEMORY.match(op)]
    retries = len(touching) == 1 and bool(SWAP.search(touching[0]))
    return retries or (opcodes[-1].startswith("BRA.U.ANY") and any(op.startswith("R2UR") for op in opcodes))


def loops(
    flow: Graph, opcodes: Sequence[str], is_wait: Callable[[Sequence[str]], bool]
) -> tuple[tuple[Loop, ...], tuple[int, ...]]:
    """The tree of loops that do work, and the reachable indices outside of all loops.

    `is_wait` decides from the opcodes of an innermost loop whether it only waits; such a loop is left out. A loop
    that `passes_once` counts as the code around it.
    """
    section: dict[int, int] = {}
    for entry in flow.entries:
        for n in reachable(flow.after, [entry]):
            section.setdefault(n, flow.blocks[entry][0])
    spinning: set[int] = set()

    def indices(blocks: Iterable[int]) -> list[int]:
        return [i for n in sorted(blocks) for i in flow.blocks[n]]

    def tree(nodes: Collection[int]) -> list[Loop]:
        found = []
        for part in components(sorted(nodes), flow.after):
            header = next((n for n in sorted(part) if entered(n, part)), min(part))
            inner = tree(part - {header})
            body = indices(part)
            if not inner and is_wait([opcodes[i] for i in body]):
                spinning.update(part)
                continue
            if passes_once([opcodes[i] for i in body]):
                continue
            nested = {i for loop in inner for i in loop.body} | set(indices(spinning & part))
            own = tuple(i for i in body if i not in nested)
            found.append(Loop(flow.blocks[header][0], tuple(body), own, section[header], tuple(inner)))
        return sorted(found, key=lambda loop: loop.header)

    before: list[list[int]] = [[] for _ in flow.blocks]
    for n, nexts in enumerate(flow.after):
        for m in nexts:
            before[m].append(n)

    def entered(n: int, part: set[int]) -> bool:
        return n in flow.entries or any(m not in part for m in before[n])

    roots = tree(sorted(section))
    inside = {i for loop in roots for i in loop.body} | set(indices(spinning))
    return tuple(roots), tuple(i for i in indices(section) if i not in inside)


def optional(steps: Mapping[int, Step], roots: Sequence[Loop], straight: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The outermost stretches of code that a forward branch or an early exit may skip.

    Stretches that contain a loop are left out. `steps` has the conditional branches and exits.
    """
    owner = dict.fromkeys(straight, -1)
    for loop in (each for root in roots for each in root.walk()):
        owner.update(dict.fromkeys(loop.own, loop.header))
    end = max(straight, default=-1) + 1
    found: list[tuple[int, ...]] = []
    for i in sorted(i for i, step in steps.items() if i in owner and step.falls and not step.indirect):
        passed = range(i + 1, max(steps[i].targets, default=end))
        if passed and all(owner.get(n) == owner[i] for n in passed) and (not found or i > found[-1][-1]):
            found.append(tuple(passed))
    return tuple(found)
