"""Accesses of memory by NVIDIA's instructions: addresses, and what lanes or an engine move."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from ..isa import sass
from ..isa.code import Instruction
from ..isa.summary import width_bytes
from .lanes import WORD, ZERO, Column, Value, known_in, pair
from .operands import IS_PREDICATE, NUMBER, Getter, Operands, after, real
from .ops import Op, Thread

ADDRESS = re.compile(r"(?:desc\[(UR\d+)\](?:\.64)?)?\[([^\]]*)\]")
GLOBAL = {"LDG": "load", "LD": "load", "STG": "store", "ST": "store", "LDGSTS": "copy", "RED": "atomic",
          "REDG": "atomic", "ATOMG": "atomic", "ATOM": "atomic"}  # fmt: skip
SHARED = {"LDS": "load", "STS": "store", "LDSM": "load", "STSM": "store", "ATOMS": "atomic"}
LOCAL = {"LDL": "load", "STL": "store"}
ENGINE = {"UTMALDG": "load", "UTMASTG": "store", "UTMAREDG": "atomic", "UBLKCP": "load", "UBLKRED": "atomic"}
"""Copies of boxes, and of runs of bytes, by the tensor memory accelerator, of which one thread issues each."""
LOADS, STORES = ("LDG", "LD", "LDS", "LDL"), ("STS", "STL")
NO_REGISTER = ("STG", "STS", "STL", "ST", "RED", "REDG", "LDGSTS", "STSM")


def poisoned(each: Instruction) -> Sequence[str]:
    """All registers that an instruction of which only the form is known may write."""
    written = sass.registers(each.opcode, each.operands)[1]
    if not written or not real(written[0]) or "P" in written[0]:
        return written
    count = max(1, width_bytes(each.opcode) // 4)
    if each.mnemonic.endswith("MMA"):
        tile = re.search(r"\.64x(\d+)x", each.opcode)
        count = int(tile[1]) // 2 if tile else 4
    return dict.fromkeys((*written, *(after(written[0], place) for place in range(1, count))))  # type: ignore[return-value]


def address(text: str, long: bool, o: Operands) -> Getter:
    """The address in brackets: registers, one of them uniform, and a constant."""
    terms: list[tuple[Getter, Getter | None, int]] = []
    offset = 0
    for raw in text.split("+"):
        term = raw.strip()
        if not term:
            continue
        if NUMBER.match(term):
            offset += int(term, 16)
            continue
        found = re.match(r"(U?R(?:\d+|Z))((?:\.\w+)*)$", term)
        if not found:
            return lambda _: None
        name, rest = found[1], found[2]
        if not real(name):
            continue
        scale = int(x[1]) if (x := re.search(r"\.X(4|8|16)", rest)) else 1
        if long and ".U32" not in rest and (".64" in rest or name.startswith("UR") or ".64" not in text):
            terms.append((*o.pair(name), scale))
        else:
            terms.append((o.get(name), None, scale))

    def got(thread: Thread) -> Value:
        total, known = np.array([offset], np.int64), None
        for first, second, scale in terms:
            low = first(thread)
            high = second(thread) if second else ZERO
            if low is None or high is None:
                return None
            total = total + (pair(low.bits, high.bits) if second else low.bits) * scale
            for column in (low, high):
                if column.known is not None:
                    known = column.known if known is None else known & column.known
        return Column(total if long else total & WORD, known)

    return got


def added(low: Getter, high: Getter) -> Getter:
    """A number of 64 bits."""

    def got(thread: Thread) -> Value:
        values = [low(thread), high(thread)]
        columns = [value for value in values if value is not None]
        if len(columns) < len(values):
            return None
        return Column(pair(*(column.bits for column in columns)), known_in(columns))

    return got


def slots(each: Instruction, kind: str, o: Operands, op: Callable[..., Op]) -> Op:
    """Words of the stack at fixed places: registers as others."""
    words = max(1, width_bytes(each.opcode) // 4)
    found = sass.STACK_SLOT.search(each.operands)
    if found is None:
        return op("none")
    held = [f"S{int(found[1] or '0', 16) + 4 * place}" for place in range(words)]
    if kind == "LDL":
        names = [o.parts[0], *(after(o.parts[0], place) for place in range(1, words))]
        o.reads.update(held)
        pairs = list(zip(names, held, strict=True))
        return op("alu", lambda thread: [thread.set(name, thread.get(slot)) for name, slot in pairs], names)
    data = o.parts[1].split(".")[0]
    getters = [o.get(data if not place else after(data, place)) for place in range(words)]
    filled = list(zip(held, getters, strict=True))
    return op("alu", lambda thread: [thread.set(slot, get(thread)) for slot, get in filled], held)


def memory(each: Instruction, kind: str, o: Operands, op: Callable[..., Op]) -> Op:
    width = width_bytes(each.opcode)
    if found := re.search(r"\.F(16|32)x(2|4|8)\b", each.opcode):
        width = int(found[1]) // 8 * int(found[2])
    words = max(1, width // 4)
    brackets = [found[2] for found in ADDRESS.finditer(each.operands)]
    written = () if kind in NO_REGISTER else poisoned(each)
    if not brackets:
        return op("alu", lambda thread: thread.lost(each.opcode, written), written, named=each.opcode)
    outside = kind in GLOBAL
    place = brackets[0] if kind in ("ATOMG", "ATOM") else brackets[-1]
    mask = [o.get(part) for part in o.parts[-1:] if re.match(r"^!?P\d$", part)] if kind in ("LDGSTS", "LDG") else []
    registers_ = [o.parts[0], *(after(o.parts[0], n) for n in range(1, words))] if kind in LOADS else []
    if registers_ and IS_PREDICATE.match(o.parts[0]):
        registers_ = []
    held, stored = Operands(each), []
    deals = kind in ("ATOMG", "ATOM") and ".ADD" in each.opcode and words == 1 and len(o.parts) > 3 and real(o.parts[1])
    if kind in STORES:
        data = o.parts[-1].split(".")[0]
        stored = [held.get(data if not n or data == "RZ" else after(data, n)) for n in range(words)]
    matrices = int(each.opcode.split(".")[-1]) if each.opcode[-1] in "24" and kind in ("LDSM", "STSM") else 1
    where = "global" if outside else "local" if kind in LOCAL else "shared"
    return op(
        where, None, written, at=address(place, outside, o), width_bytes=width, mask=mask,
        inner=address(brackets[0], False, o) if kind == "LDGSTS" else None,
        access=(GLOBAL | SHARED | LOCAL)[kind], loads=o.parts[1:2] if deals else registers_, stored=stored,
        deals=o.get(o.parts[-1]) if deals else None, strong=outside and ".STRONG" in each.opcode,
        stored_names=frozenset(held.reads),
        matrices=matrices if kind in ("LDSM", "STSM") else 0,
    )  # fmt: skip


def engine(kind: str, each: Instruction, o: Operands, op: Callable[..., Op]) -> Op:
    """A copy that one thread issues: of a box of a tensor map, or of a run of bytes."""
    inside = re.findall(r"\[(U?R\d+)(?:\.64)?\]", each.operands)
    if len(inside) < 2:
        return op("alu", lambda thread: thread.lost(each.opcode, ()), named=each.opcode)
    target, source = inside[0], inside[1]
    if kind.startswith("UBLK"):
        reads = each.opcode.split(".")[1:3] == ["S", "G"]
        here, there = (target, source) if reads else (source, target)
        return op(
            "bulk", None, (), at=added(*o.pair(there)), size=o.get(o.parts[2]), inner=o.get(here),
            barrier=o.get(after(here)) if reads else None,
            access=ENGINE[kind] if reads or kind != "UBLKCP" else "store",
        )  # fmt: skip
    dims = int(found[1]) if (found := re.search(r"\.(\d)D", each.opcode)) else 1
    first = 2 if kind == "UTMALDG" else 1  # a load's operand names a barrier between the place and the coordinates
    coordinates = [o.get(after(target, first + place)) for place in range(dims)]
    barrier = o.get(after(target)) if kind == "UTMALDG" else None
    return op(
        "box", None, (), map=o.pair(source), coordinates=coordinates, inner=o.get(target), barrier=barrier,
        access=ENGINE[kind],
    )  # fmt: skip
