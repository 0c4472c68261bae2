"""Accesses of memory in AMD's machine code: where each lane reads or writes, and registers on the stack."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..isa.code import Instruction
from ..isa.summary import width_bytes
from .gcn_operands import EXEC, Getter, Operands, registers
from .lanes import WORD, Column, Value, known_in, pair
from .ops import Op, Thread

ADDRESS_BITS = (1 << 48) - 1
"""Of a buffer's descriptor, above which it has a stride and flags."""
VALUE = re.compile(r"^-?(0x[0-9a-f]+|\d+)$")
MEMORY = re.compile(r"^(global|flat|buffer|scratch|tbuffer|ds|s)_(\w+)")
RETURNS = ("sc0", "glc", "th:TH_ATOMIC_RETURN")
"""Modifiers of an atomic that gives back what was there."""
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
    return access_of(
        each, o, "global", written, at=at, width_bytes=width_bytes(each.opcode), mask=inside, inner=inner,
        access="copy" if copies else access, loads=written if access == "load" else [],
    )  # fmt: skip


def access_of(each: Instruction, o: Operands, kind: str, written: Sequence[str], **more: Any) -> Op:
    return Op(
        each.address, kind, None, frozenset(o.reads | {EXEC}), frozenset(written), EXEC, frozenset({EXEC}), **more
    )


def summed(terms: Sequence[Getter], constant: int, mask: int | None = None) -> Getter:
    """The sum of some operands; None where one is not known."""

    def got(thread: Thread) -> Value:
        values = [get(thread) for get in terms]
        columns = [value for value in values if value is not None]
        if len(columns) < len(values):
            return None
        total = sum((column.bits for column in columns), np.array([constant], np.int64))
        return Column(total if mask is None else total & mask, known_in(columns))

    return got


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
    low, high, size = (o.word(name) for name in words[:3])

    def base(thread: Thread) -> Value:
        a, b = low(thread), high(thread)
        if a is None or b is None:
            return None
        return Column(pair(a.bits, b.bits) & ADDRESS_BITS, known_in([a, b]))

    names = registers(vector)
    index = [o.get(names[-1], "u32")] if names and "offen" in o.mods else []
    within = summed(index, o.offset())
    terms = [base, within, *([o.get(scalar, "u32")] if scalar not in ("0", "off", "null") else [])]

    def inside(thread: Thread) -> Value:
        at, most = within(thread), size(thread)
        if at is None or most is None:
            return None
        known = known_in([at, most])
        thread.note(each.address, "LT", Column(at.bits, known), Column(most.bits, known))
        return Column(np.atleast_1d(at.bits < most.bits), known)

    return summed(terms, 0), [inside]


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
    names, base = registers(o.parts[0]), registers(o.parts[1])
    low, high = o.word(base[0]), o.word(base[1])

    def start(thread: Thread) -> Value:
        a, b = low(thread), high(thread)
        if a is None or b is None:
            return None
        return Column(pair(a.bits, b.bits) & ADDRESS_BITS, known_in([a, b]))

    terms: list[Getter] = [start]
    constant = o.offset()
    for token in o.parts[2:]:
        if VALUE.match(token):
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
        return access_of(each, o, "alu", written, named=each.opcode)
    gives = loads or "_rtn" in what
    written = registers(o.parts[0]) if gives else []
    place = o.parts[1 if gives else 0]
    step = width_bytes(each.opcode) // (2 if _is_pair(what) else 1)
    offset = o.offset("offset0") * step * (64 if "st64" in what else 1) if _is_pair(what) else o.offset()
    access = "load" if loads else "store" if what.startswith(("write", "store")) else "atomic"
    return access_of(
        each, o, "shared", written, at=summed([o.get(place)], offset, WORD), width_bytes=width_bytes(each.opcode),
        access=access,
    )  # fmt: skip


def _is_pair(what: str) -> bool:
    return what.startswith(("read2", "write2", "load_2addr", "store_2addr", "wrxchg2"))


def permuted(each: Instruction, o: Operands) -> Op:
    """What other lanes hold, by way of the LDS crossbar."""
    names = registers(o.parts[0])
    if each.opcode != "ds_bpermute_b32":
        o.reads.update(name for part in o.parts[1:] for name in registers(part))
        reads = sorted(o.reads)

        def lost(thread: Thread) -> None:
            if all(thread.get(name) is not None for name in reads):
                thread.lost(each.opcode, names)
            thread.set(names[0], None)

        return _register(each, o, lost, names)
    at, source = o.get(o.parts[1]), o.get(o.parts[2])

    def run(thread: Thread) -> None:
        place, held = at(thread), source(thread)
        if held is None or place is None or (held.known is not None and len(held.bits) > 1):
            return thread.set(names[0], None)
        if len(held.bits) > 1:
            held = Column(thread.shuffled(held.bits, place.bits + o.offset() >> 2), place.known)
        return thread.set(names[0], held)

    return _register(each, o, run, names)


def _register(each: Instruction, o: Operands, run: Callable[[Thread], Any], names: Sequence[str]) -> Op:
    reads = frozenset(o.reads | {EXEC})
    return Op(each.address, "alu", run, reads, frozenset(names), EXEC, frozenset({EXEC}))


def stack(each: Instruction, o: Operands, what: str) -> Op:
    """Registers that are kept on the stack at constant places; what other loads from it give is not known."""
    is_load = "load" in what
    width = max(width_bytes(each.opcode) // 4, 1)
    data = o.parts[0] if is_load or each.opcode.startswith("buffer") else o.parts[1]
    names = registers(data)[:width]
    if ".spill" not in each.opcode:
        written = names if is_load else []
        reads = sorted(name for part in o.parts[1:] for name in registers(part))

        def lost(thread: Thread) -> None:
            if all(thread.get(name) is not None for name in reads):
                thread.lost(each.opcode, written)
            for name in written:
                thread.set(name, None)

        return _register(each, o, lost, written) if written else Op(each.address, "none")
    slots = [f"stack {o.offset() + 4 * place}" for place in range(width)]
    source, target = (slots, names) if is_load else (names, slots)
    o.reads.update(source)
    pairs = list(zip(target, source, strict=True))

    def moved(thread: Thread) -> None:
        for to, of in pairs:
            thread.set(to, thread.get(of))

    return _register(each, o, moved, target)
