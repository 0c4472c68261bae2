"""Operands and accesses of memory of AMD's instructions, as getters of columns of lanes; registers on the stack.

A mask of lanes is a column of bools under the names of the scalar registers that hold it. Read as a number it is what
its lanes hold together; a number that is read as a mask gives each lane its bit."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..isa.code import Instruction
from ..isa.rates import width_bytes
from .lanes import FALSE, SIGN, TRUE, WORD, Array, Column, Op, Thread, Value, known_in, number, pair, taken_from
from .operands import SPLIT, Getter, combined, floats, given, mapped, poisoning

ONE = re.compile(r"^(v|s|a|ttmp)(\d+)$")
SEVERAL = re.compile(r"^(v|s|a|ttmp)\[(\d+):(\d+)\]$")
WHOLE = re.compile(r"^-?(0x[0-9a-f]+|\d+)$")
REAL = re.compile(r"^-?\d+\.\d+(e[-+]?\d+)?$")
SYMBOL = re.compile(r"^([\w.$]+)@(?:rel32|abs32|gotpcrel32)@(lo|hi)(?:\+\d+)?$")
PAIRS = {"vcc": ("vcc_lo", "vcc_hi"), "exec": ("exec_lo", "exec_hi"), "flat_scratch": ("flat_lo", "flat_hi"),
         "xnack_mask": ("xnack_lo", "xnack_hi")}  # fmt: skip
NAMES = ("vcc_lo", "vcc_hi", "exec_lo", "exec_hi", "m0", "scc")
HIGH = re.compile(r"^(?:s\d*[13579]|vcc_hi|exec_hi)$")
"""Registers that hold the upper half of a mask of 64 lanes."""
EXEC = "exec_lo"
FREE = 1000
"""From here on, scalar registers that no code has."""
SDWA = {"BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8), "WORD_0": (0, 16),
        "WORD_1": (16, 16)}  # fmt: skip
"""Where a part of a register begins, and its bits."""


def registers(token: str) -> list[str]:
    """The words that an operand names; none of a constant."""
    if found := ONE.match(token):
        return [token]
    if found := SEVERAL.match(token):
        return [f"{found[1]}{n}" for n in range(int(found[2]), int(found[3]) + 1)]
    if token in PAIRS:
        return list(PAIRS[token])
    return [token] if token in NAMES else []


def rejoined(instructions: Sequence[Instruction]) -> list[Instruction]:
    """The instructions, where a loop's lanes come back behind it from the mask before the last of them left: the
    compiler takes those that leave out of it, and puts in again what it took out, which need not be known for that."""
    out, targets = list(instructions), {each.target for each in instructions}
    left, taken, free = -1, "", FREE
    for i, each in enumerate(instructions):
        first, *rest = (part.strip() for part in each.operands.split(","))
        if each.address in targets:
            left = -1
        if rest and first == rest[0] in ("exec", EXEC) and each.opcode[:-4] in ("s_andn2", "s_and_not1"):
            left, taken = i, rest[-1]
        elif left >= 0 and rest == [first, taken] and first in ("exec", EXEC) and each.opcode[:-4] == "s_or":
            kept = f"s{free}" if first == EXEC else f"s[{free}:{free + 1}]"
            out[left] = out[left]._replace(opcode=f"s_andn1_saveexec{each.opcode[-4:]}", operands=f"{kept}, {taken}")
            out[i] = each._replace(operands=f"{first}, {kept}, {taken}")
            left, free = -1, free + 2
        elif each.opcode != "s_cbranch_execnz" and (
            each.target is not None or "exec" in each.opcode + each.operands or "cmpx" in each.opcode
            or {*registers(taken)}.intersection(registers(first))
        ):  # fmt: skip
            left = -1
    return out


@dataclass
class Operands:
    """An instruction's operands, its modifiers, and what the getters made of them read."""

    parts: list[str]
    mods: list[str]
    wave: int
    reads: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, each: Instruction, wave: int, text: str | None = None) -> Operands:
        heads, mods = list[str](), list[str]()
        for part in SPLIT.split(each.operands if text is None else text):
            words = part.split()
            heads += words[:1]
            mods += words[1:]
        return cls(heads, mods, wave)

    def modifier(self, name: str) -> str | None:
        """What stands behind `name:`."""
        return next((mod.partition(":")[2] for mod in self.mods if mod.startswith(f"{name}:")), None)

    def offset(self, name: str = "offset") -> int:
        found = self.modifier(name)
        return int(found, 0) if found and WHOLE.match(found) else 0

    def word(self, name: str) -> Getter:
        """A register as a number."""
        self.reads.add(name)
        half = 32 if self.wave == 64 and HIGH.match(name) else 0

        def got(thread: Thread) -> Value:
            held = thread.get(name)
            if held is None or held.bits.dtype != bool:
                return held
            if name == "scc":
                return Column(held.bits.astype(np.int64), held.known)
            if held.known is not None:
                return None
            return Column(thread.ballot(held.bits) >> half & WORD)

        return got

    def get(self, token: str, kind: str = "u32", place: int | None = None) -> Getter:
        """An operand as its type says: a word, or two as one signed number of 64 bits; floats in float64.

        `place`: among the sources, for which modifiers may choose a part.
        """
        sign, absolute = token.startswith("-") and not WHOLE.match(token) and not REAL.match(token), "|" in token
        token = token.lstrip("-").strip("|") if sign or absolute else token
        wide = kind.endswith("64")
        fetch = self._raw(token, wide, kind)
        part = self.modifier(f"src{place}_sel") if place is not None else None
        if part in SDWA:
            start, bits = SDWA[part]
            fetch = mapped(fetch, lambda x: x >> start & (1 << bits) - 1)
        cast = CASTS.get(kind)
        if cast is not None:
            fetch = mapped(fetch, cast)
        if absolute:
            fetch = mapped(fetch, np.abs)
        return mapped(fetch, np.negative) if sign else fetch

    def _raw(self, token: str, wide: bool, kind: str) -> Getter:
        if WHOLE.match(token):
            value = int(token, 0)
            held = Column(np.array([value if wide and kind != "f64" else value & WORD], np.int64))
            if kind == "f64":  # an integer constant is the low word; a literal the high one
                held = Column(np.array([value if -16 <= value <= 64 else value << 32], np.int64))
            return lambda _: held
        if REAL.match(token):
            held = Column(np.array([_bits(float(token), kind)], np.int64))
            return lambda _: held
        if found := SYMBOL.match(token):
            name = f"@{found[1]}" + (".high" if found[2] == "hi" else "")
            self.reads.add(name)
            return lambda thread: thread.get(name)
        if token in ("null", "off"):
            return lambda _: number(0)
        names = registers(token)
        if len(names) == 1:
            return self.word(names[0])
        if len(names) == 2:
            return combined(pair, [self.word(name) for name in names])
        if token in ("vccz", "execz", "vccnz", "execnz"):
            return self.any_lane(token[:-1] if token[-2] != "n" else token[:-2], token[-2] == "n")
        return lambda _: None

    def mask(self, token: str) -> Getter:
        """An operand as a mask of lanes."""
        token = token.replace("|", "")
        if WHOLE.match(token):
            bits = int(token, 0)
            if bits in (0, -1):
                held = TRUE if bits else FALSE
                return lambda _: held
            return lambda thread: _by_lane(thread, number(bits), number(bits >> 32))
        names = registers(token)[: self.wave // 32]
        self.reads.update(names)
        if not names:
            return lambda _: None

        def got(thread: Thread) -> Value:
            words = [thread.get(name) for name in names]
            first = words[0]
            if first is None or first.bits.dtype == bool:
                return first
            high = words[-1]
            return None if high is None or high.bits.dtype == bool else _by_lane(thread, first, high)

        return got

    def any_lane(self, token: str, holds: bool) -> Getter:
        """Whether a mask holds in any lane of the wave, or in none."""
        get = self.mask(token)
        return lambda thread: _negated(any_of(thread, get(thread)), not holds)

    def scalar(self, name: str, holds: bool) -> Getter:
        """A predicate of the wave, or its opposite."""
        self.reads.add(name)
        return lambda thread: _negated(thread.get(name), not holds)


def _negated(held: Value, turned: bool) -> Value:
    return held if held is None or not turned else Column(~held.bits.astype(bool), held.known)


def any_of(thread: Thread, mask: Value) -> Value:
    """Whether a mask holds in any lane, of each lane's wave; known where a lane surely holds it, or no lane may."""
    if mask is None:
        return None
    if len(mask.bits) == 1 and mask.known is None:
        return mask
    sure = thread.ballot(mask.sure) != 0
    if mask.known is None:
        return Column(sure)
    known = sure | (thread.ballot(mask.possible) == 0)
    return Column(sure, None if known.all() else known)


def _by_lane(thread: Thread, low: Column, high: Column) -> Value:
    """Of each lane its bit of a number."""
    lane = thread.special("SR_LANEID")
    if lane is None:
        return None
    bits = np.where(lane.bits < 32, low.bits >> lane.bits % 32, high.bits >> lane.bits % 32) & 1 > 0
    return Column(bits, known_in([low, high]))


def _bits(value: float, kind: str) -> int:
    if kind.endswith("64"):
        return int(np.float64(value).view(np.int64))
    if kind in ("f16", "bf16"):
        return int(np.float16(value).view(np.uint16))
    return int(np.float32(value).view(np.uint32))


def _narrow(bits: int, is_signed: bool) -> Callable[[Array], Array]:
    sign = 1 << bits - 1
    mask = (1 << bits) - 1
    return (lambda x: ((x & mask) ^ sign) - sign) if is_signed else (lambda x: x & mask)


CASTS: dict[str, Callable[[Array], Array]] = {
    "i32": lambda x: (x ^ SIGN) - SIGN, "f32": floats,
    "f64": lambda x: np.ascontiguousarray(x, np.int64).view(np.float64),
    "f16": lambda x: np.ascontiguousarray(x & 0xFFFF, np.uint16).view(np.float16).astype(np.float64),
    **{f"{sign}{bits}": _narrow(bits, sign == "i") for sign in "uib" for bits in (8, 16, 24)},
}  # fmt: skip
"""From the bits of an operand to what a type makes of them."""


def put(thread: Thread, names: Sequence[str], value: Any, known: Array | None) -> None:
    """Write a number into one or two registers."""
    bits = np.atleast_1d(value)
    thread.set(names[0], Column(bits & WORD, known))
    if len(names) > 1:
        thread.set(names[1], Column(bits >> 32 & WORD, known))
    for name in names[2:]:
        thread.set(name, None)


def put_mask(thread: Thread, names: Sequence[str], mask: Value) -> None:
    for name in names:
        thread.set(name, mask)


def made(
    each: Instruction, o: Operands, run: Any, writes: Sequence[str], *, kind: str = "alu", masked: bool = True,
    **more: Any,
) -> Op:  # fmt: skip
    """What an instruction does; `masked`: of the lanes that take part only."""
    guard = EXEC if masked else ""
    reads = frozenset(o.reads | ({EXEC} if masked else set()))
    return Op(each.address, kind, run, reads, frozenset(writes), guard, frozenset({guard} - {""}), **more)


ADDRESS_BITS = (1 << 48) - 1
"""Of a buffer's descriptor, above which it has a stride and flags."""
MEMORY = re.compile(r"^(global|flat|buffer|scratch|tbuffer|ds|s)_(\w+)")
RETURNS = ("sc0", "glc", "th:TH_ATOMIC_RETURN")
"""Modifiers of an atomic that gives back what was there."""
STRONG = ("sc0", "sc1", "glc", "scope:SCOPE_DEV", "scope:SCOPE_SYS")
"""Modifiers of loads that see what other blocks store meanwhile."""
PERMUTES = ("ds_bpermute_b32", "ds_permute_b32", "ds_swizzle_b32", "ds_bpermute_fi_b32")
LANE_BYTES = 4


def memory(each: Instruction, o: Operands, _: set[str]) -> Op | None:
    """An access of memory; None for what is none."""
    found = MEMORY.match(each.opcode)
    if not found:
        return None
    space, what = found[1], found[2]
    if space == "s":
        return scalar_load(each, o) if re.match(r"(buffer_)?load_", what) else None
    if each.opcode in PERMUTES:
        return permuted(each, o)
    if space == "ds":
        return local(each, o, what)
    if space == "scratch" or ".spill" in each.opcode:
        return stack(each, o, what)
    access = next((name for name in ("load", "store", "atomic") if name in what.split("_")), "")
    if not access:
        return Op(each.address, "none")
    copies = each.opcode.endswith(".lds") or "_lds_" in what
    returns = any(mod in RETURNS for mod in o.mods)
    gives = (access == "load" and not copies) or (access == "atomic" and returns)
    if space in ("buffer", "tbuffer"):
        at, inside = buffer(each, o, 0 if copies else 1)
    else:
        at, inside = pointed(o, 1 if gives else 0), []
    written = registers(o.parts[0]) if gives else []
    inner = into_lds(o, width_bytes(each.opcode)) if copies else None
    counts = gives and re.fullmatch(r"(global|flat)_atomic_add(_u32)?", each.opcode)
    deals = o.get(o.parts[2]) if counts else None
    return made(
        each, o, None, written, kind="global", at=at, width_bytes=width_bytes(each.opcode), mask=inside, inner=inner,
        access="copy" if copies else access, loads=written if access == "load" or deals else [], deals=deals,
        strong=any(mod in STRONG for mod in o.mods),
    )  # fmt: skip


def summed(terms: Sequence[Getter], constant: int, mask: int | None = None) -> Getter:
    """The sum of some operands; None where one is not known."""

    start = np.array([constant], np.int64)
    return combined(lambda *bits: sum(bits, start) & (-1 if mask is None else mask), terms)


def pointed(o: Operands, first: int) -> Getter:
    """The address of a global access: a pair, or a scalar pair and a vector register beside it."""
    vector = o.parts[first]
    base = o.parts[-1]
    if registers(base)[:1] and base.startswith(("s[", "vcc", "ttmp[")) and len(registers(base)) == 2:
        terms = [o.get(base, "u64")]
        if vector != "off":
            terms.append(o.get(vector, "u64" if len(registers(vector)) == 2 else "u32"))
        return summed(terms, o.offset())
    return summed([o.get(vector, "u64")], o.offset())


def buffer(each: Instruction, o: Operands, first: int) -> tuple[Getter, list[Getter]]:
    """The address of an access through a buffer's descriptor, and whether it is inside the buffer."""
    vector, descriptor, scalar = o.parts[first : first + 3]
    words = registers(descriptor)
    base, size = start_of(o, words), o.word(words[2])
    names = registers(vector)
    index = [o.get(names[-1], "u32")] if names and "offen" in o.mods else []
    within = summed(index, o.offset())
    terms = [base, within, *([o.get(scalar, "u32")] if scalar not in ("0", "off", "null") else [])]

    def inside(thread: Thread) -> Value:
        if (columns := given(thread, [within, size])) is None:
            return None
        (at, most), known = columns, known_in(columns)
        thread.note(each.address, "LT", Column(at.bits, known), Column(most.bits, known))
        return Column(np.atleast_1d(at.bits < most.bits), known)

    return summed(terms, 0), [inside]


def start_of(o: Operands, words: Sequence[str]) -> Getter:
    """The address in the first two words of a descriptor, or in a pair."""
    return combined(lambda low, high: pair(low, high) & ADDRESS_BITS, [o.word(word) for word in words[:2]])


def into_lds(o: Operands, width: int) -> Getter:
    """Where a copy puts a lane's bytes: behind what m0 says, in the order of lanes."""
    m0, offset = o.get("m0"), o.offset()

    def got(thread: Thread) -> Value:
        start, lane = m0(thread), thread.special("SR_LANEID")
        if start is None or lane is None:
            return None
        return Column((start.bits & 0xFFFF) + offset + lane.bits * max(width, LANE_BYTES), start.known)

    return got


def scalar_load(each: Instruction, o: Operands) -> Op:
    """A load of a whole wave, of its arguments as a rule."""
    names = registers(o.parts[0])
    terms: list[Getter] = [start_of(o, registers(o.parts[1]))]
    constant = o.offset()
    for token in o.parts[2:]:
        if WHOLE.match(token):
            constant += int(token, 0)
        elif registers(token):
            terms.append(o.get(token, "u32"))
    width = width_bytes(each.opcode)
    return Op(
        each.address, "global", None, frozenset(o.reads), frozenset(names), at=summed(terms, constant),
        width_bytes=width, access="load", loads=names[: max(width // 4, 1)],
    )  # fmt: skip


def local(each: Instruction, o: Operands, what: str) -> Op:
    """An access of LDS. Of one with two addresses the first stands for both."""
    loads = what.startswith(("read", "load"))
    if not loads and not what.startswith(("write", "store")) and "_rtn" not in what and not what.startswith(
        ("add", "sub", "min", "max", "and", "or", "xor", "inc", "dec", "cmpst", "pk_add", "condxchg")
    ):  # fmt: skip
        written = [name for part in o.parts[:1] for name in registers(part)]
        return made(each, o, None, written, named=each.opcode)
    gives = loads or "_rtn" in what
    written = registers(o.parts[0]) if gives else []
    place = o.parts[1 if gives else 0]
    step = width_bytes(each.opcode) // (2 if _is_pair(what) else 1)
    offset = o.offset("offset0") * step * (64 if "st64" in what else 1) if _is_pair(what) else o.offset()
    access = "load" if loads else "store" if what.startswith(("write", "store")) else "atomic"
    held = Operands(o.parts, o.mods, o.wave)
    data = registers(o.parts[1]) if access == "store" and not _is_pair(what) and "d16_hi" not in what else []
    return made(
        each, o, None, written, kind="shared", at=summed([o.get(place)], offset, WORD),
        width_bytes=width_bytes(each.opcode), access=access, loads=[] if _is_pair(what) or "d16" in what else written,
        stored=[held.word(name) for name in data], stored_names=frozenset(held.reads),
    )  # fmt: skip


def _is_pair(what: str) -> bool:
    return what.startswith(("read2", "write2", "load_2addr", "store_2addr", "wrxchg2"))


def permuted(each: Instruction, o: Operands) -> Op:
    """What other lanes hold, by way of the LDS crossbar."""
    names = registers(o.parts[0])
    if each.opcode != "ds_bpermute_b32":
        o.reads.update(name for part in o.parts[1:] for name in registers(part))
        return made(each, o, poisoning(each.opcode, names, sorted(o.reads)), names)
    lane, source = summed([o.get(o.parts[1])], o.offset()), o.get(o.parts[2])
    lane = mapped(lane, lambda at: at >> 2)
    return made(each, o, lambda thread: thread.set(names[0], taken_from(thread, source(thread), lane(thread))), names)


def stack(each: Instruction, o: Operands, what: str) -> Op:
    """Registers that are kept on the stack at constant places; what other loads from it give is not known."""
    is_load = "load" in what
    width = max(width_bytes(each.opcode) // 4, 1)
    data = o.parts[0] if is_load or each.opcode.startswith("buffer") else o.parts[1]
    names = registers(data)[:width]
    if ".spill" not in each.opcode:
        written = names if is_load else []
        lost = poisoning(each.opcode, written, sorted(name for part in o.parts[1:] for name in registers(part)))
        return made(each, o, lost, written) if written else Op(each.address, "none")
    slots = [f"stack {o.offset() + 4 * place}" for place in range(width)]
    source, target = (slots, names) if is_load else (names, slots)
    o.reads.update(source)
    pairs = list(zip(target, source, strict=True))

    def moved(thread: Thread) -> None:
        for to, of in pairs:
            thread.set(to, thread.get(of))

    return made(each, o, moved, target)
