"""The values that a loop's body carries from one iteration to the next, if addresses, masks or bounds depend on them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from ..base.errors import ProblemError
from . import ttir
from .trace import Frame
from .ttir import Block, Op
from .values import Value

BENT = frozenset({
    "divsi", "divui", "remsi", "remui", "shrsi", "shrui", "select", "minsi", "maxsi", "minui", "maxui", "floordivsi",
})  # fmt: skip
"""Operations that are not affine in their operands."""


def matters(op: Op) -> bool:
    """Whether an operation is one that a trace records, or that may hold such."""
    name = op.name.partition(".")[2].removeprefix("experimental_")
    return name in ("for", "while", "dot", "load", "store", "call") or name.startswith(("atomic", "descriptor", "dot_"))


def waits(op: Op) -> bool:
    """Whether a while loop only reads the same words again, until another program stores what it waits for."""
    inside = [each for region in op.regions for each in ttir.walk(region)]
    reads = [each for each in inside if each.name in READS or "pure = false" in each.text]
    if len(op.regions) != 2 or not reads or any(matters(each) for each in inside if each not in reads):
        return False
    before, after = (region[0] for region in op.regions)
    last, again = before.ops[-1], after.ops[-1]
    feeds = {result: set(each.operands) for each in inside for result in each.results}
    moving = {*op.operands[0::2], *after.args}

    def behind(names: Iterable[str], around: bool) -> set[str]:
        """What these depend on, in earlier iterations too if `around`."""
        carried = [*zip(after.args, last.operands[1:], strict=False)]
        carried += zip(op.operands[0::2], again.operands, strict=False) if again.name == "scf.yield" else []
        links = {**feeds, **({name: {given} for name, given in carried} if around else {})}
        found, left = set[str](), set(names)
        while left:
            found |= left
            left = {source for name in left for source in links.get(name, ())} - found
        return found

    addressed = behind((name for each in reads for name in each.operands), False)
    tested = behind(last.operands[:1], True)
    return not moving & addressed and any(tested & set(each.results) for each in reads)


READS = ("tt.load", "tt.atomic_rmw", "tt.atomic_cas")
STAYING = frozenset({
    "constant", "addi", "subi", "muli", "shli", "extsi", "extui", "trunci", "index_cast", "splat", "broadcast",
    "expand_dims", "divsi", "remsi", "minsi", "maxsi", "select", "cmpi",
})  # fmt: skip
"""Operations whose result stays while their operands do."""


def staying(body: Block, names: list[str], iv: str) -> list[Op]:
    """Operations of a loop's body that give the same in every iteration, in order."""
    moving, found = {iv, *names}, []
    for op in body.ops:
        name = op.name.partition(".")[2]
        if name in STAYING and not op.regions and not moving.intersection(op.operands):
            found.append(op)
        else:
            moving.update(op.results)
    return found


def steps(body: Block, names: list[str], iv: str, wanted: Collection[str] = ()) -> list[tuple[str, str]]:
    """How each carried value changes from one iteration to the next, and by which name. "same", "linear" by something
    that stays, "lost" for what no address or bound needs, "odd" otherwise; "later" for numbers that are among the
    `wanted` of the function, but only behind the loop."""
    made = {op.results[i]: op for op in body.ops for i in range(len(op.results))}
    inside = set(made) - {r for op in staying(body, names, iv) for r in op.results}
    last = body.ops[-1] if body.ops and body.ops[-1].name == "scf.yield" else None
    needed = wanted_by(body.ops)
    types = last.text.rpartition(" : ")[2].split(", ") if last else []
    found = []
    for n, name in enumerate(names):
        given = last.operands[n] if last else name
        op = made.get(given)
        kind = op.name.partition(".")[2] if op else ""
        if given == name:
            found.append(("same", ""))
        elif op and kind in ("addi", "addptr") and name in op.operands:
            other = op.operands[1] if op.operands[0] == name else op.operands[0]
            stays = other not in inside and other not in names and other != iv
            found.append(("linear", other) if stays else ("odd" if name in needed else "lost", ""))
        else:
            whole = len(types) == len(names) and re.fullmatch(r"i\d+|index", types[n])
            found.append(("odd" if name in needed else "later" if whole and name in wanted else "lost", ""))
    return found


def wanted_by(ops: Iterable[Op]) -> set[str]:
    """Names that addresses, masks, bounds and conditions of a body depend on."""
    wanted: set[str] = set()
    feeds: dict[str, set[str]] = {}
    stack = list(ops)
    while stack:
        op = stack.pop()
        name = op.name.partition(".")[2].removeprefix("experimental_")
        for region in op.regions:
            for block in region:
                stack.extend(block.ops)
                last = block.ops[-1] if block.ops else None
                if last is not None and last.name in ("scf.yield", "scf.condition"):
                    passed = last.operands[1:] if last.name == "scf.condition" else last.operands
                    for n, result in enumerate(op.results):
                        feeds.setdefault(result, set()).update(passed[n : n + 1])
                    for arg, value in zip(_carried_names(op), passed, strict=False):
                        feeds.setdefault(arg, set()).add(value)
        match name:
            case "for":
                wanted.update(op.operands[1:4])
                for arg, init in zip(op.operands[4::2], op.operands[5::2], strict=True):
                    feeds.setdefault(arg, set()).add(init)
            case "while":
                for arg, init in zip(op.operands[0::2], op.operands[1::2], strict=True):
                    feeds.setdefault(arg, set()).add(init)
                for arg, init in zip(op.regions[1][0].args, op.operands[1::2], strict=False):
                    feeds.setdefault(arg, set()).add(init)
            case "if" | "condition":
                wanted.update(op.operands[:1])
            case "br" | "cond_br" | "return":
                wanted.update(op.operands)
            case "load":
                wanted.update(op.operands[:2])
            case "store" | "atomic_rmw" | "atomic_cas":
                wanted.update((op.operands[0], *op.operands[2:]))
            case _ if name.startswith("descriptor"):
                wanted.update(op.operands)
            case "dot" | "dot_scaled" | "reduce" | "scan":
                continue
            case _:
                for result in op.results:
                    feeds.setdefault(result, set()).update(op.operands)
    todo = list(wanted)
    while todo:
        for name in feeds.get(todo.pop(), ()):
            if name not in wanted:
                wanted.add(name)
                todo.append(name)
    return wanted


def _carried_names(op: Op) -> Sequence[str]:
    if op.name == "scf.for":
        return op.operands[4::2]
    return op.operands[0::2] if op.name == "scf.while" else ()


def straight(body: Block, names: list[str], wanted: Collection[str]) -> bool:
    """Whether everything in a body is affine in its counter: then three iterations say all. Floats are not, where they
    become whole numbers that are `wanted`."""
    depends, floats = set(names), set[str]()
    for op in body.ops:
        if op.regions and op.name.startswith("scf."):
            return False
        name, types = op.name.partition(".")[2], ttir.types_of(op.types)
        if floats.intersection(op.operands):
            if name in ("fptosi", "fptoui") and op.results[0] in wanted:
                return False
            floats.update(op.results)
        if not depends.intersection(op.operands):
            continue
        if name in BENT and types and types[-1].integer:
            return False
        (depends if not types or types[-1].integer else floats).update(op.results)
        if name == "load" and types and _holds_ints(types[0]):
            depends.update(op.results)
    return True


def _holds_ints(pointers: ttir.Type) -> bool:
    return pointers.element.removeprefix("ptr<")[:1] == "i"


class Counters:
    """What programs draw from words that all of them add the same number above 0 to. It is assumed that they come in
    their order, and that a word begins with what `values` says, else with 0."""

    def __init__(self, programs: Any, count: int) -> None:
        self.programs, self.count = programs, count
        self.before: dict[tuple[str, int], Any] = {}
        """How often each program has drawn so far, by tensor and place."""

    def draw(self, frame: Frame, op: Op, given: Sequence[Any], start: Value) -> Value | None:
        """None of other atomics, and of lanes that are several iterations of a program."""
        pointer, bases = given[0], [each.base for each in given]
        if re.match(r"\s*add\b", op.text) is None or len(set(frame.program.tolist())) < frame.lanes:
            return None
        if not pointer.source or any(base is None or (base != base[0]).any() for base in bases):
            return None
        place, step, *kept = (base[0] for base in bases)
        if step <= 0 or not all(kept):
            return None
        before = self.before.setdefault((pointer.source, int(place)), np.zeros(len(self.programs), np.int64))
        drawn = (self.programs + before * self.count)[frame.program] * step
        before[frame.program] += 1
        return Value(drawn + (0 if start.base is None else start.base))


def waiting(test: Frame, inner: Frame, before: Block, after: Block) -> ProblemError:
    """Why a loop is left that goes on for ever as long as its tensors hold what `values` says."""
    if not (names := read((test, before), (inner, after))):
        return ProblemError("a while loop never ends: no pass of it changes what it tests")
    return ProblemError(
        f"a while loop waits until another program changes what {', '.join(map(repr, names))} holds; say what it holds "
        f"at the end of the wait: values={{{names[0]!r}: 1}}"
    )


def read(*stretches: tuple[Frame, Block]) -> list[str]:
    """The tensors that these stretches of a loop load from."""
    pointers = [frame.get(op.operands[0]) for frame, block in stretches for op in block.ops if op.name in READS]
    return sorted({p.source for p in pointers if isinstance(p, Value) and p.source})
