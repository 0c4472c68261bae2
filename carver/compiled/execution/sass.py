"""What NVIDIA's integer, predicate and control instructions do, on columns of lanes.

`decode` makes an `Op` of an instruction. A table from mnemonics to functions says what each does; instructions of the
uniform datapath (UIADD3) do the same as those of lanes (IADD3). What is not in the table makes what it writes unknown,
and is counted by name if it writes what a branch or an address depends on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..isa import sass
from ..isa.code import Code, Instruction
from ..isa.summary import width_bytes
from .arithmetic import ARITHMETIC, doubts, looked_up
from .lanes import (
    FALSE,
    TRUE,
    WORD,
    ZERO,
    Array,
    Column,
    Value,
    applied,
    known_in,
    pair,
    settled,
    signed,
    unsigned,
)  # fmt: skip
from .operands import CONSTANT, IS_PREDICATE, NUMBER, Getter, Operands, after, mapped, real, results
from .ops import HERE, Op, Thread

ADDRESS = re.compile(r"(?:desc\[(UR\d+)\](?:\.64)?)?\[([^\]]*)\]")
COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip
GLOBAL = {"LDG": "load", "LD": "load", "STG": "store", "ST": "store", "LDGSTS": "copy", "RED": "atomic",
          "REDG": "atomic", "ATOMG": "atomic", "ATOM": "atomic"}  # fmt: skip
SHARED = {"LDS": "load", "STS": "store", "LDSM": "load", "STSM": "store", "ATOMS": "atomic"}
ENGINE = {"UTMALDG": "load", "UTMASTG": "store", "UTMAREDG": "atomic"}
"""Copies of boxes by the tensor memory accelerator, of which one thread issues each."""
INDIRECT = ("BRX", "BRXU", "JMX")
CODE_BYTES = 16
"""Of an instruction."""
LOADS = ("LDG", "LD", "LDS")
NO_REGISTER = ("STG", "STS", "ST", "RED", "REDG", "LDGSTS", "STSM")


def decoded(code: Code) -> list[Op]:
    """What the instructions of a kernel do."""
    ops = [decode(each) for each in code.instructions]
    opcodes = [each.opcode for each in code.instructions]
    index = {op.address: i for i, op in enumerate(ops)}
    for i, op in enumerate(ops):
        end = index.get(op.target, 0) if op.kind == "branch" and op.target is not None else 0
        if end > i and (op.guard or op.conditions) and sass.rare(opcodes[i + 1 : end]):
            ops[i] = replace(op, rare=True)
    return ops


def decode(each: Instruction) -> Op:
    """What an instruction does."""
    if each.target is not None or each.mnemonic in INDIRECT:
        return _decoded(each)
    return replace(_alike(each.predicate, each.opcode, each.operands), address=each.address)


@lru_cache(maxsize=1 << 15)
def _alike(predicate: str, opcode: str, operands: str) -> Op:
    """What an instruction does wherever it is: kernels of a list have most of theirs in common."""
    return _decoded(Instruction(HERE, predicate, opcode, operands))


def _decoded(each: Instruction) -> Op:
    mods, kind = set(each.opcode.split(".")[1:]), each.mnemonic
    o = Operands(each)
    parts = o.parts
    guard = "" if each.predicate in ("", "PT", "UPT") else each.predicate
    if guard in ("!PT", "!UPT"):
        return Op(each.address, "none")

    def op(what: str, run: Any = None, writes: Sequence[str] = (), **more: Any) -> Op:
        reads = frozenset(o.reads | ({guard.lstrip("!")} if guard else set()))
        asks = frozenset(name for name in reads if IS_PREDICATE.match(name))
        return Op(each.address, what, run, reads, frozenset(filter(real, writes)), guard, asks, **more)

    if kind in ("EXIT", "KILL"):
        return op("exit", conditions=[o.get(part) for part in parts if IS_PREDICATE.match(part)])
    if kind in ("BRA", "JMP"):
        if mods & {"DIV", "CONV", "ANY"}:  # taken to let a warp that has parted meet again
            return Op(each.address, "none")
        return op("branch", target=each.target, conditions=[o.get(part) for part in parts if IS_PREDICATE.match(part)])
    if kind == "CALL":
        return op("call", target=each.target)
    if kind == "RET":
        register = re.match(r"U?R\d+", parts[0]) if parts else None
        return op("return", back=o.get(register[0]) if register else None)
    if kind in INDIRECT:
        return op("indirect", back=beyond(each, o))
    if kind in GLOBAL or kind in SHARED or kind in ("LDL", "STL"):
        return memory(each, kind, mods, o, op)
    if kind in ENGINE or kind == "UBLKCP":
        return engine(kind, each, o, op)
    if kind == "SYNCS":
        place = re.search(r"\[(U?R\d+|U?RZ)?(?:\+?(U?R\d+|U?RZ))?(?:\+?(-?0x[0-9a-f]+))?\]", each.operands)
        terms = [o.get(name) for name in (place[1], place[2]) if name] if place else []
        offset = int((place and place[3]) or "0", 16)
        targets = [part for part in parts[:1] if re.match(r"^U?P\d$", part)]

        def passed(thread: Thread) -> None:
            for name in targets:
                thread.set(name, TRUE)

        waits = "PHASECHK" in mods
        return op("barrier" if waits else "alu", passed, targets, terms=terms, offset=offset) if waits else op("none")
    if kind == "USETMAXREG" and parts and parts[0].startswith("UP"):
        return op("alu", lambda thread: thread.set(parts[0], TRUE), parts[:1])
    if kind == "FCHK":  # whether a division needs its slow path, as it does for few arguments
        return op("alu", lambda thread: thread.set(parts[0], FALSE), parts[:1])
    if kind == "ELECT":
        names = [part for part in parts if re.match(r"^(UR|U?P)\d+$", part)]

        def elected(thread: Thread) -> None:
            for name in names:
                thread.set(name, Column(thread.leader()) if name.startswith("UR") else Column(thread.leads()))

        return op("alu", elected, names)
    if kind in ("S2R", "S2UR", "CS2R"):
        wide = kind == "CS2R" and "32" not in mods
        names = [parts[0], after(parts[0])] if wide else parts[:1]

        def special(thread: Thread) -> None:
            thread.set(names[0], ZERO if parts[1] == "SRZ" else thread.special(parts[1]))
            for name in names[1:]:
                thread.set(name, ZERO if parts[1] == "SRZ" else None)

        return op("alu", special, names)
    if kind in ("LDC", "ULDC", "LDCU"):
        return constant_load(each, mods, o, op)
    if kind in ("VOTE", "VOTEU"):
        return vote(mods, o, op)
    if kind == "SHFL":
        return shuffle(mods, o, op)
    if kind in ("ISETP", "UISETP"):
        return compare(each, mods, o, op)
    plain = kind[1:] if kind.startswith("U") and kind[1:] in (*ARITHMETIC, "PLOP3") else kind
    if plain == "PLOP3":
        return predicate_logic(o, op)
    if plain in ("IMNMX", "VIMNMX", "UIMNMX", "UVIMNMX", "VIADDMNMX"):
        return extremum(each, mods, o, op)
    count = results(parts) if parts else 0
    found = ARITHMETIC[plain](mods, parts[:count], parts[count:], o) if plain in ARITHMETIC and parts else None
    if found is not None and not set(filter(real, parts[:count])) <= set(found[0]):  # a form with one result more
        found = None
    if found is None:
        written, read = poisoned(each), sass.registers(each.opcode, each.operands)[0]
        o.reads = set(read)

        def poison(thread: Thread) -> None:
            # products of matrices are data, and so is what comes of data
            if not kind.endswith("MMA") and all(thread.get(name) is not None for name in read):
                thread.lost(each.opcode, written)
            for name in written:
                thread.set(name, None)

        return op("alu", poison, written, named=each.opcode)
    targets, sources, function = found
    doubtful, tested = doubts(plain, mods, targets, parts[count:]), plain == "LOP3" and len(targets) > 1

    def run(thread: Thread) -> None:
        values = [get(thread) for get in sources]
        out = applied(function, values)
        if out and doubtful:
            columns = [value for value in values if value is not None]
            known = known_in(columns)
            for how, *bits in doubtful(*(column.bits for column in columns)):
                thread.note(each.address, how, *(Column(np.atleast_1d(x), known) for x in bits))
        if tested and out and out[0] is not None:
            thread.note(each.address, "NE", out[0], ZERO)
        for place, name in enumerate(targets):
            thread.set(name, out[place] if out else None)

    return op("alu", run, targets)


def beyond(each: Instruction, o: Operands) -> Getter | None:
    """Where a branch through a table goes to: the entry is counted from behind the branch, with what stands there."""
    found = re.match(r"(U?R\d+)\s*(-?0x[0-9a-f]+)?", each.operands.rpartition(", ")[2])
    if found is None:
        return None
    get = o.get(found[1])
    base = int(found[2] or "0", 16) + (each.address + CODE_BYTES if each.mnemonic != "JMX" else 0)
    return mapped(get, lambda entry: entry + base & WORD)


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


def predicate_logic(o: Operands, op: Callable[..., Op]) -> Op:
    targets = [part for part in o.parts[:2] if IS_PREDICATE.match(part)]
    rest = o.parts[len(targets) :]
    first, second = int(rest[3], 16), int(rest[4], 16)
    sources = [o.get(token) for token in rest[:3]]

    def run(thread: Thread) -> None:
        out = settled(
            lambda a, b, c: (looked_up(first, a, b, c), looked_up(second, a, b, c)), [get(thread) for get in sources]
        )
        for place, name in enumerate(targets):
            thread.set(name, out[place] if out else None)

    return op("alu", run, targets)


def compare(each: Instruction, mods: set[str], o: Operands, op: Callable[..., Op]) -> Op:
    how = next((m for m in each.opcode.split(".")[1:] if m in COMPARISONS), "")
    join = next((m for m in ("AND", "OR", "XOR") if m in mods), "AND")
    parts, targets, long = o.parts, o.parts[:2], bool(mods & {"U64", "S64", "64"})
    cast = unsigned if "U32" in mods else signed
    sources = [*o.pair(parts[2]), *o.pair(parts[3])] if long else [o.get(parts[2]), o.get(parts[3])]
    other = o.get(parts[4]) if len(parts) > 4 else o.get("PT")
    low = o.get(parts[5]) if "EX" in mods and len(parts) > 5 else None

    def outcome(thread: Thread) -> Value:
        values = [get(thread) for get in sources]
        if not how or any(value is None for value in values):
            return None
        columns = [value for value in values if value is not None]
        bits = [column.bits for column in columns]
        x, y = (pair(*bits[:2]), pair(*bits[2:])) if long else (cast(bits[0]), cast(bits[1]))
        known = known_in(columns)
        thread.note(each.address, how, Column(x, known), Column(y, known))
        [out] = applied(lambda *_: COMPARISONS[how](x, y), columns)
        if low is None or out is None:
            return out
        strict = {"GE": "GT", "LE": "LT"}.get(how, how)
        below = COMPARISONS[strict](x, y) if how not in ("EQ", "NE") else None
        equal = Column(x == y, out.known)
        if how in ("EQ", "NE"):
            join_low = np.logical_and if how == "EQ" else np.logical_or
            found = settled(join_low, [out, low(thread)])
        else:
            found = settled(lambda a, e, b: a | e & b, [Column(below, out.known), equal, low(thread)])
        return found[0] if found else None

    joined: Callable[[Array, Array], Array] = {
        "AND": np.logical_and, "OR": np.logical_or, "XOR": np.logical_xor,
    }[join]  # fmt: skip

    def run(thread: Thread) -> None:
        found, third = outcome(thread), other(thread)
        for place, name in enumerate(targets):
            if real(name):
                mine = found if not place or found is None else Column(~found.bits, found.known)
                out = settled(joined, [mine, third])
                thread.set(name, out[0] if out else None)

    return op("alu", run, targets)


def extreme(x: Array, y: Array, least: Array) -> Array:
    chosen: Array = np.where(least, np.minimum(x, y), np.maximum(x, y))
    return chosen & WORD


def extremum(each: Instruction, mods: set[str], o: Operands, op: Callable[..., Op]) -> Op:
    parts = o.parts
    cast = unsigned if "U32" in mods else signed
    adds = each.mnemonic == "VIADDMNMX"
    target, a, b, least = parts[0], o.get(parts[-4 if adds else -3]), o.get(parts[-2]), o.get(parts[-1])
    added = o.get(parts[-3]) if adds else None
    tests = [part for part in parts[1 : -4 if adds else -3] if real(part)]  # since compute capability 10.0

    def run(thread: Thread) -> None:
        x, y, p = a(thread), b(thread), least(thread)
        for name in tests:
            thread.set(name, None)
        if added is not None:
            x = next(iter(applied(lambda first, second: first + second & WORD, [x, added(thread)])), None)
        if x is None or y is None or p is None:
            return thread.set(target, None)
        left, right = Column(cast(x.bits), x.known), Column(cast(y.bits), y.known)
        thread.note(each.address, "LT", *(Column(side.bits, known_in([x, y])) for side in (left, right)))
        [out] = applied(extreme, [left, right, p])
        return thread.set(target, out)

    return op("alu", run, [target, *tests])


def constant_load(each: Instruction, mods: set[str], o: Operands, op: Callable[..., Op]) -> Op:
    words = max(1, sass.width_bytes(each.opcode) // 4)
    names = [o.parts[0], *(after(o.parts[0], place) for place in range(1, words))]
    found = CONSTANT.match(o.parts[1])
    if found is None:
        return op("alu", lambda thread: thread.lost(each.opcode, names), names, named=each.opcode)
    base = f"{found[3]}+" if found[3] else ""
    small = next((m for m in mods if m in ("U8", "S8", "U16", "S16")), "")
    offset = int(found[4] or "0", 16)
    getters = [o.get(f"c[{found[2]}][{base}{offset - offset % 4 + 4 * place:#x}]") for place in range(words)]

    def run(thread: Thread) -> None:
        for name, get in zip(names, getters, strict=True):
            value = get(thread)
            if small and value is not None:
                if found[3]:  # the place within a word is not followed
                    value = None
                else:
                    width = int(small[1:])
                    bits = value.bits >> 8 * (offset % 4) & (1 << width) - 1
                    value = Column(
                        bits - ((bits >> width - 1) << width) & WORD if small[0] == "S" else bits, value.known
                    )
            thread.set(name, value)

    return op("alu", run, names)


def vote(mods: set[str], o: Operands, op: Callable[..., Op]) -> Op:
    targets = o.parts[: 2 if len(o.parts) > 2 else 1]
    condition = o.get(o.parts[-1])

    def run(thread: Thread) -> None:
        value = condition(thread)
        for name in filter(real, targets):
            if value is None or value.known is not None:
                thread.set(name, None)
            elif "R" in name:
                thread.set(name, Column(thread.ballot(value.bits)))
            else:
                mask = thread.ballot(value.bits)
                thread.set(name, Column(mask > 0 if "ANY" in mods else mask == thread.ballot(np.ones(1, bool))))

    return op("alu", run, targets)


def shuffle(mods: set[str], o: Operands, op: Callable[..., Op]) -> Op:
    predicate, target = (o.parts[0], o.parts[1]) if IS_PREDICATE.match(o.parts[0]) else ("PT", o.parts[0])
    value, lane = o.get(o.parts[-4] if len(o.parts) > 4 else o.parts[1]), o.get(o.parts[-2])
    targets = [predicate, target]
    if len(o.parts) == 5:
        value, lane = o.get(o.parts[2]), o.get(o.parts[3])

    def run(thread: Thread) -> None:
        held, at = value(thread), lane(thread)
        thread.set(predicate, None)
        if held is None or at is None or (len(held.bits) > 1 and ("IDX" not in mods or held.known is not None)):
            thread.set(target, None)
        else:
            thread.set(target, held if len(held.bits) == 1 else Column(thread.shuffled(held.bits, at.bits), at.known))

    return op("alu", run, targets)


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


def memory(each: Instruction, kind: str, mods: set[str], o: Operands, op: Callable[..., Op]) -> Op:
    width = sass.width_bytes(each.opcode)
    if found := re.search(r"\.F(16|32)x(2|4|8)\b", each.opcode):
        width = int(found[1]) // 8 * int(found[2])
    words = max(1, width // 4)
    if kind in ("LDL", "STL"):
        slot = sass.STACK_SLOT.search(each.operands)
        names = [] if kind == "STL" else [o.parts[0], *(after(o.parts[0], place) for place in range(1, words))]
        if slot is None:
            return op("alu", lambda thread: thread.lost(each.opcode, names), names) if names else op("none")
        slots = [f"S{int(slot[1] or '0', 16) + 4 * place}" for place in range(words)]
        if kind == "LDL":
            o.reads.update(slots)
            pairs = list(zip(names, slots, strict=True))
            return op("alu", lambda thread: [thread.set(name, thread.get(held)) for name, held in pairs], names)
        data = o.parts[1].split(".")[0]
        getters = [o.get(data if not place else after(data, place)) for place in range(words)]
        filled = list(zip(slots, getters, strict=True))
        return op("alu", lambda thread: [thread.set(name, get(thread)) for name, get in filled], slots)
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
    if kind == "STS" and width % 4 == 0:
        data = o.parts[-1].split(".")[0]
        stored = [held.get(data if not n or data == "RZ" else after(data, n)) for n in range(words)]
    matrices = int(each.opcode.split(".")[-1]) if each.opcode[-1] in "24" and kind in ("LDSM", "STSM") else 1
    return op(
        "global" if outside else "shared", None, written, at=address(place, outside, o), width_bytes=width,
        mask=mask, inner=address(brackets[0], False, o) if kind == "LDGSTS" else None,
        access=(GLOBAL if outside else SHARED)[kind], loads=registers_, stored=stored,
        stored_names=frozenset(held.reads),
        matrices=matrices if kind in ("LDSM", "STSM") else 0,
    )  # fmt: skip


def engine(kind: str, each: Instruction, o: Operands, op: Callable[..., Op]) -> Op:
    """A copy that one thread issues: of a box of a tensor map, or of a run of bytes."""
    inside = re.findall(r"\[(U?R\d+)(?:\.64)?\]", each.operands)
    if kind == "UBLKCP" or len(inside) < 2:
        return op("bulk")
    target, source = inside[0], inside[1]
    dims = int(found[1]) if (found := re.search(r"\.(\d)D", each.opcode)) else 1
    first = 2 if kind == "UTMALDG" else 1  # a load's operand names a barrier between the place and the coordinates
    coordinates = [o.get(after(target, first + place)) for place in range(dims)]
    barrier = o.get(after(target)) if kind == "UTMALDG" else None
    return op(
        "box", None, (), map=o.pair(source), coordinates=coordinates, inner=o.get(target), barrier=barrier,
        access=ENGINE[kind],
    )  # fmt: skip
