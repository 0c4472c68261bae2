"""Conflicts of banks, sectors of atomics and lines of stores in NVIDIA's machine code, from the addresses of lanes.

The instructions that addresses depend on are executed twice, in the order of the code, for the 32 lanes of a kernel's
first warp. Both sides of a branch start from the same state. Whole numbers among the arguments of a launch are known
where they are given. Another value that is the same in all lanes is taken to be 0, since it moves all addresses alike;
of global memory, where a stride may be unknown, to be `STRIDE`. Accesses whose addresses depend on loaded data are
assumed to be free of conflicts, and of atomics whose addresses do nothing is said."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ..isa.banks import (
    LANES,
    LINE_BYTES,
    STORES,
    global_place,
    in_part,
    mean_passes,
    sectors_of,
    shared_place,
    turns_of,
)
from ..isa.code import Instruction
from ..isa.rates import width_bytes
from ..isa.sass import registers
from .lanes import FALSE, WORD, ZERO, Array, Column, Op, Value, alike, number, signed
from .operands import FLOATING, GLOBAL, LOCAL, SHARED, Operands, address, poisoned
from .sass import decode

COPIES = frozenset({"LDGSTS"})
"""From global to shared memory."""
BANKED = frozenset({*COPIES, *SHARED})
ATOMIC = frozenset(kind for kind, what in GLOBAL.items() if what == "atomic")
THROUGH_L1 = frozenset(GLOBAL) - ATOMIC
"""L1 is the same banks as shared memory."""
BRANCHES = frozenset({"BRA", "EXIT", "JMP"})
BOUNDS = frozenset({"IMNMX", "VIMNMX", "VIADDMNMX"})
EXCHANGES = frozenset({"SHFL", "VOTE", "VOTEU", "MATCH", "ELECT"})
"""Between lanes: nothing is said of what they give."""
FLOATS = FLOATING.keys() - {"I2F", "F2I", "MUFU", "HFMA2"} | {"FSETP", "DSETP", "FCHK"}
"""Nor of these, other than of steps by which compilers divide integers, and write them."""
UNTOLD = EXCHANGES | FLOATS
PLACES = frozenset({"SR_TID.X", "SR_LANEID"})
STRIDE = number(513 * LINE_BYTES)
"""One that keeps rows apart."""
REGISTERS = re.compile(r"\bU?R\d+\b")
TOKENS = Operands(Instruction(0, "", "", ""))
"""Getters of operands by their text."""
Given = Mapping[int, int]
"""What constant memory holds of a launch's arguments, by their offsets."""
NONE: Given = MappingProxyType({})


def arguments(offsets: Sequence[int], numbers: Sequence[int | None]) -> Given:
    """Those at these offsets that are whole numbers."""
    return {at: number for at, number in zip(offsets, numbers, strict=False) if number is not None}


class Layout(NamedTuple):
    """What the addresses of a warp's lanes say of accesses, by the index of the instruction.

    passes: over the banks of shared memory and L1, which are the same, over those that its bytes need: above 1 where
        lanes meet in a bank, or copy the same word of global memory, and 0.5 where pairs of lanes read the same
        address; only where it is not 1
    unplaced: loads, stores and copies of global memory of whose addresses nothing is known
    sectors: of atomics, those of global memory that lanes touch, one as often as lanes meet on a word of it; of stores
        what `in_part` says. Not where lanes differ in an unknown way, or seem not to: a single thread's atomic looks
        like that, and so do indices under a mask that is an argument
    """

    passes: dict[int, float]
    unplaced: frozenset[int]
    sectors: dict[int, float]


def read_layout(instructions: Sequence[Instruction], given: Given = NONE) -> Layout:
    """Of a kernel's code. L1: on an H100, loads of 4 bytes take 1, 2 and 4 clocks of an SM where neighbouring lanes lie
    4, 8 and 16 bytes apart, and 8 where eight rows of 64 bytes begin at the same bank (`taps` and `stencil_box` in
    `edges.jsonl.gz`, tests/data/h100). A copy's lanes meet in L1's banks and in shared memory's at once: 4-bit weights
    on an H200, with 32 passes of either (`int4_zeros_split` in `library.jsonl.gz`)."""
    passes, unplaced, sectors = dict[int, float](), set[int](), dict[int, float]()
    for i, warp in _reached(instructions, BANKED | ATOMIC, given, ZERO):
        each = instructions[i]
        if each.mnemonic in BANKED:
            passes[i] = _passes(each, warp.address(shared_place(each))) or 1.0
        elif _differ(at := warp.address(global_place(each))):
            sectors[i] = sectors_of(each, at)
    through = any(each.mnemonic in COPIES and "BYPASS" not in each.opcode for each in instructions)
    for i, warp in _reached(instructions, THROUGH_L1, given, STRIDE):
        each = instructions[i]
        at = warp.address(global_place(each))
        if each.mnemonic in COPIES and through:
            place = warp.address(shared_place(each))
            passes[i] = max(passes[i], 1.0 if at is None or place is None else turns_of(each, at, place))
        if (n := _passes(each, at)) is None:
            unplaced.add(i)
        elif n > 1.0:
            passes[i] = max(passes.get(i, 1.0), n)
        # none of a store are joined, as halves of pairs are not (`turn_pairs` in `zoo_23rd`)
        if each.mnemonic in STORES and _differ(at) and (n := in_part(at, width_bytes(each.opcode), joined=0)):
            sectors[i] = n
    return Layout({i: n for i, n in passes.items() if n != 1.0}, frozenset(unplaced), sectors)


class Warp:
    """Lanes of the first warp, as `lanes.Thread` has them: their registers, and `same` for what all of them have alike
    and nobody knows. Predicates guard only where that is no 0."""

    notes = False

    def __init__(self, given: Given = NONE, same: Column = ZERO) -> None:
        self.given, self.same = given, same
        self.held, self._written = dict[str, Value](), dict[str, Value]()
        self._guessed = False

    def get(self, name: str) -> Value:
        if name in self.held or not name.startswith("U"):
            return self.held.get(name, FALSE if "P" in name else ZERO)
        self._guessed = True
        return self.same if "P" not in name else FALSE if self.same is ZERO else None

    def set(self, name: str, value: Value) -> None:
        self._written[name] = value if value is not None and value.known is None else None

    def constant(self, bank: int, offsets: Column) -> Value:
        at = int(offsets.bits[0]) if len(offsets.bits) == 1 and not bank else -1
        self._guessed |= at not in self.given
        return number(self.given[at]) if at in self.given else self.same

    def special(self, name: str) -> Value:
        return Column(np.arange(LANES)) if name in PLACES else ZERO

    def note(self, *_: object) -> None:
        """Outcomes are of no use."""

    lost = takes_columns = note

    def address(self, place: str) -> Array:
        """That of each lane, as far as lanes differ; None where they do in an unknown way."""
        found = address(place, False, TOKENS)(self) if place else None  # type: ignore[arg-type]
        return None if found is None else np.broadcast_to(signed(found.bits), LANES)

    def run(self, each: Instruction) -> None:
        """Execute one instruction: update what the registers that it writes hold."""
        op = _done(each)
        self._guessed, self._written = False, {}
        if each.mnemonic in BOUNDS:
            self._bound(each)
        elif op.kind == "alu" and op.run and each.mnemonic not in UNTOLD:
            op.run(self)
        else:
            self._written = dict.fromkeys(op.writes)
        same = op.kind == "alu" and each.mnemonic not in EXCHANGES and None in self._written.values()
        same = same and all(alike(self.get(name)) for name in op.reads)
        for name, found in self._written.items():
            value = self.same if found is None and same and "P" not in name else found
            if name.startswith("U"):  # of what is computed from known numbers alone
                if op.guard or self._guessed or not alike(value):
                    self.held.pop(name, None)
                    continue
            elif op.guard and self.same is not ZERO:
                value = _guarded(TOKENS.get(op.guard)(self), value, self.get(name))  # type: ignore[arg-type]
            self.held[name] = value

    def _bound(self, each: Instruction) -> None:
        """What lanes differ in, of which a bound changes little, as an image's edge, away from which all of them are;
        of atomics, and of shared memory, nothing."""
        target, *sources = [part for part in Operands(each).parts if not part.lstrip("!").startswith(("P", "UP"))]
        values = [TOKENS.get(token)(self) for token in sources]  # type: ignore[arg-type]
        if "ADD" in each.mnemonic and values[0] is not None and values[1] is not None:
            values = [Column(values[0].bits + values[1].bits & WORD), values[2]]
        rest = [value for value in values if not alike(value)] or values[-1:]
        self.set(target, rest[0] if len(rest) == 1 and len(values) == 2 and self.same is not ZERO else None)


def _done(each: Instruction) -> Op:
    """What an instruction does; what one loads from an array of local memory is not known."""
    op = decode(each)
    return op.with_(writes=frozenset(poisoned(each))) if op.kind == "none" and each.mnemonic == "LDL" else op


def _guarded(guard: Value, value: Value, before: Value) -> Value:
    """What a register holds after an instruction that only some lanes execute; None if it is not known which."""
    if guard is None:
        return None
    if value is None or before is None:
        return value if guard.bits.all() else None if guard.bits.any() else before
    return Column(np.where(guard.bits, value.bits, before.bits))


def _differ(at: Array) -> bool:
    return at is not None and bool((at != at[0]).any())


def _passes(each: Instruction, at: Array) -> float | None:
    """`mean_passes` of all lanes; None if the sum of registers that it is at is not known."""
    return None if at is None else mean_passes(each, np.zeros(LANES, np.int64), np.arange(LANES), at)


def _reached(
    instructions: Sequence[Instruction], kinds: frozenset[str], given: Given, same: Column
) -> Iterator[tuple[int, Warp]]:
    """Indices of the accesses of these kinds, and the warp as it is there."""
    warp = Warp(given, same)
    elsewhere: dict[int, dict[str, Value]] = {}
    """Register contents at the targets of forward branches, by address."""
    for i in _addressing(instructions, kinds):
        each = instructions[i]
        if each.mnemonic in BRANCHES:
            if each.target is not None and each.target > each.address:
                elsewhere.setdefault(each.target, dict(warp.held))
            if not _conditional(each) and i + 1 < len(instructions):  # another branch reaches the next instruction
                warp.held = dict(elsewhere.get(instructions[i + 1].address, warp.held))
            continue
        if each.mnemonic in kinds:
            yield i, warp
        warp.run(each)


def _addressing(instructions: Sequence[Instruction], kinds: frozenset[str]) -> list[int]:
    """Indices of the accesses of these kinds, of the instructions that compute their addresses, and of the branches."""
    needed: set[str] = set()
    """Registers that the code after the current instruction reads."""
    there: dict[int, set[str]] = {}
    """The same at each branch target, by address."""
    found = []
    kind_of = [each.mnemonic for each in instructions]
    targets = {each.target for each, kind in zip(instructions, kind_of, strict=True) if kind in BRANCHES}
    for i in reversed(range(len(instructions))):
        each, kind = instructions[i], kind_of[i]
        if i + 1 < len(instructions) and (after := instructions[i + 1].address) in targets:
            there[after] = set(needed)
        if kind in BRANCHES:
            found.append(i)
            ends = not _conditional(each) and (each.target is None or each.target > each.address)
            needed = (set() if ends else needed) | there.get(each.target or 0, set())
            continue
        if kind in kinds:
            found.append(i)
            places = [where(each) for where, some in ((shared_place, BANKED), (global_place, GLOBAL)) if kind in some]
            needed.update(name for place in places for name in REGISTERS.findall(place))
        if kind not in (*LOCAL, "R2P") and needed.isdisjoint(registers(each.opcode, each.operands)[1]):
            continue  # most do not take part, of which no more need be known
        op = _done(each)
        if needed.isdisjoint(op.writes):
            continue
        if not op.guard:
            needed -= op.writes
        if kind not in kinds:
            found.append(i)
            needed |= op.reads
    return found[::-1]


def _conditional(branch: Instruction) -> bool:
    """Whether it may fall through. A predicate of the whole warp is an operand, before the target."""
    return bool(branch.predicate) or "," in branch.operands
