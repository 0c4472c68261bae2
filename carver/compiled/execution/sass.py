"""What NVIDIA's integer, predicate and control instructions do, on columns of lanes.

`decode` makes an `Op` of an instruction. A table from mnemonics to functions says what each does; instructions of the
uniform datapath (UIADD3) do the same as those of lanes (IADD3). What is not in the table makes what it writes unknown,
and is counted by name if it writes what a branch or an address depends on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..isa import sass
from ..isa.code import Code, Instruction
from ..isa.rates import width_bytes
from .arithmetic import ARITHMETIC, doubts, truth_function
from .lanes import (
    FALSE,
    HERE,
    NOTHING_DONE,
    TRUE,
    WORD,
    ZERO,
    Array,
    Column,
    Op,
    Thread,
    Value,
    applied,
    known_in,
    pair,
    settled,
    signed,
    taken_from,
    unsigned,
)  # fmt: skip
from .operands import (
    CONSTANT,
    ENGINE,
    GLOBAL,
    IS_PREDICATE,
    LOCAL,
    SHARED,
    Getter,
    Operands,
    after,
    engine,
    given,
    mapped,
    memory,
    operand,
    poisoned,
    poisoning,
    real,
    results,
    row,
    slots,
)

COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip
INDIRECT = ("BRX", "BRXU", "JMX")
CODE_BYTES = 16
"""Of an instruction."""
PROLOGUE = 2
"""Writes of the stack pointer where functions are not called: it is loaded, and room is taken."""
CHECK = 4
"""Instructions of a check's failure before the one that stops the kernel, or calls what does, at most."""
EXPONENTIAL, LIMIT = 64, "4.1917929649353027344"
"""Instructions of the exponential of a double between the test whether it is scaled once and the branch on that; and
what the upper word of its argument is compared with there, as a float."""
SCRATCH = (*(f"R{n}" for n in range(16) if n not in (1, 2)), *(f"P{n}" for n in range(7)))
"""What a function may write that is called by the rules for all compilers."""


def decoded(code: Code) -> list[Op]:
    """What the instructions of a kernel do."""
    ops = [decode(each) for each in code.instructions]
    stack = [i for i, each in enumerate(code.instructions) if each.mnemonic in LOCAL]
    fixed = all(sass.STACK_SLOT.search(code.instructions[i].operands) for i in stack)
    if stack and not (fixed and sum("R1" in op.writes for op in ops) <= PROLOGUE):  # arrays, or frames of calls
        for i in stack:
            ops[i] = _decoded(code.instructions[i], addressed=True)
    opcodes = [each.opcode for each in code.instructions]
    index = {op.address: i for i, op in enumerate(ops)}
    ends = {i: index.get(op.target, 0) for i, op in enumerate(ops) if op.kind == "branch" and op.target is not None}
    back = [i for i, end in ends.items() if end <= i]
    for i, each in enumerate(code.instructions):
        start = index.get(each.target, i) if each.opcode.startswith("BRA.U.ANY") and each.target is not None else i
        elected = [n for n in range(start, i) if code.instructions[n].mnemonic == "ELECT"]
        if elected:  # of the lanes of a warp one after the other is elected
            ops[i] = Op(each.address, "turns", target=each.target)
        for n in elected:
            ops[n] = replace(ops[n], run=partial(_all_elected, ops[n].writes))
    rare = dict[int, int]()
    for i, end in sorted(ends.items(), reverse=True):  # those that are in what others pass by come first
        within = any(i < j < end for j in back) or any(each <= end for each in rare.values())
        some = end > i and (ops[i].guard or ops[i].conditions)
        if some and (sass.rare(opcodes[i + 1 : end], within) or _limited(code.instructions, i)):
            rare[i] = end
            ops[i] = replace(ops[i], rare=True)
        if ops[i].guard or ops[i].conditions:  # checks hold
            if _traps(code.instructions, end, index):
                ops[i] = Op(ops[i].address, "none")
            elif _traps(code.instructions, i + 1, index):
                ops[i] = Op(ops[i].address, "branch", target=ops[i].target)
    return ops


def _limited(code: Sequence[Instruction], branch: int) -> bool:
    """Whether a branch asks if the exponential of a double is so near the ends of its range that it is scaled twice."""
    guard = code[branch].predicate.lstrip("!")
    for each in reversed(code[max(branch - EXPONENTIAL, 0) : branch]):
        if each.mnemonic in ("FSETP", "DSETP", "ISETP") and each.operands.startswith(f"{guard},"):
            return LIMIT in each.operands
    return False


def _all_elected(names: Collection[str], thread: Thread) -> None:
    for name in names:
        thread.set(name, TRUE if "P" in name else None)


def _traps(code: Sequence[Instruction], start: int, index: Mapping[int, int]) -> bool:
    """Whether code stops the kernel at once, itself or by a function that does."""
    for each in code[start : start + CHECK]:
        if each.mnemonic == "BPT":
            return True
        if each.target is not None:
            return each.mnemonic == "CALL" and code[index.get(each.target, start)].mnemonic == "BPT"
    return False


def decode(each: Instruction) -> Op:
    """What an instruction does."""
    if each.target is not None or each.mnemonic in INDIRECT:
        return _decoded(each)
    return _alike(each.predicate, each.opcode, each.operands).placed(each.address)


@lru_cache(maxsize=1 << 15)
def _alike(predicate: str, opcode: str, operands: str) -> Op:
    """What an instruction does wherever it is: kernels of a list have most of theirs in common."""
    return _decoded(Instruction(HERE, predicate, opcode, operands))


def _decoded(each: Instruction, addressed: bool = False) -> Op:
    """By the table `FORMS`, else as arithmetic. `addressed`: local memory has arrays, which addresses tell apart."""
    mods, kind, o = set(each.opcode.split(".")[1:]), each.mnemonic, Operands(each)
    guard = "" if each.predicate in ("", "PT", "UPT") else each.predicate
    if guard in ("!PT", "!UPT"):
        return Op(each.address, "none")

    def op(what: str, run: Any = None, writes: Sequence[str] = (), **more: Any) -> Op:
        reads = frozenset((*o.reads, guard.lstrip("!")) if guard else o.reads)
        asks = frozenset([name for name in reads if "P" in name])
        return NOTHING_DONE.with_(address=each.address, kind=what, run=run, reads=reads, guard=guard, asks=asks,
                                  writes=frozenset(filter(real, writes)), **more)  # fmt: skip

    if kind in LOCAL and not addressed:
        return slots(each, kind, o, op)
    form = FORMS.get(kind, arithmetic)
    return form(each, mods, o, op) or arithmetic(each, mods, o, op)


Made = Callable[..., Op]
"""Of a kind of `Op`, what it does and what it writes, with what the operands that were asked for read."""


def leave(each: Instruction, mods: set[str], o: Operands, op: Made) -> Op:
    return op("exit", conditions=[o.get(part) for part in o.parts if IS_PREDICATE.match(part)])


def branch(each: Instruction, mods: set[str], o: Operands, op: Made) -> Op:
    if mods & {"DIV", "CONV", "ANY"}:  # taken to let a warp that has parted meet again
        return Op(each.address, "none")
    return op("branch", target=each.target, conditions=[o.get(part) for part in o.parts if IS_PREDICATE.match(part)])


def call(each: Instruction, mods: set[str], o: Operands, op: Made) -> Op:
    if not each.target:  # of code elsewhere, which is linked when the binary is loaded
        return op("alu", lambda thread: thread.lost(each.opcode, SCRATCH), SCRATCH, named=each.opcode)
    return op("call", target=each.target)


def come_back(each: Instruction, mods: set[str], o: Operands, op: Made) -> Op:
    register = re.match(r"U?R\d+", o.parts[0]) if o.parts else None
    return op("return", back=o.get(register[0]) if register else None)


def barrier(each: Instruction, mods: set[str], o: Operands, op: Made) -> Op:
    """Of those in memory; a wait for one succeeds."""
    if "PHASECHK" not in mods:
        return op("none")
    place = re.search(r"\[(U?R\d+|U?RZ)?(?:\+?(U?R\d+|U?RZ))?(?:\+?(-?0x[0-9a-f]+))?\]", each.operands)
    terms = [o.get(name) for name in (place[1], place[2]) if name] if place else []
    targets = [part for part in o.parts[:1] if re.match(r"^U?P\d$", part)]

    def passed(thread: Thread) -> None:
        for name in targets:
            thread.set(name, TRUE)

    return op("barrier", passed, targets, terms=terms, offset=int((place and place[3]) or "0", 16))


def division_check(each: Instruction, mods: set[str], o: Operands, op: Made) -> Op:
    """Whether a division needs its slow path, as it does for few arguments."""
    sides = [operand(part, o, False) for part in o.parts[1:3]]

    def checked(thread: Thread) -> None:
        columns = given(thread, [side[0][0] for side in sides if side]) if all(sides) else None
        slow = division_is_slow(*(column.bits for column in columns)) if columns else FALSE.bits
        known = known_in(columns or [])
        thread.set(o.parts[0], Column(slow if known is None else slow & known))

    return op("alu", checked, o.parts[:1])


def columns_taken(each: Instruction, mods: set[str], o: Operands, op: Made) -> Op | None:
    """Columns of tensor memory, of which there are enough."""
    if "FIND_AND_SET" not in mods:
        return None
    targets, runs = [part for part in o.parts[:2] if real(part)], o.get(o.parts[2])

    def taken(thread: Thread) -> None:
        thread.takes_columns(runs(thread))
        for name in targets:
            thread.set(name, TRUE if "P" in name else ZERO)

    return op("alu", taken, targets)


def elect(each: Instruction, mods: set[str], o: Operands, op: Made) -> Op:
    names = [part for part in o.parts if re.match(r"^(UR|U?P)\d+$", part)]

    def elected(thread: Thread) -> None:
        for name in names:
            thread.set(name, Column(thread.leader()) if name.startswith("UR") else Column(thread.leads()))

    return op("alu", elected, names)


def to_uniform(each: Instruction, mods: set[str], o: Operands, op: Made) -> Op | None:
    """Lanes that hold different numbers take turns."""
    if not IS_PREDICATE.match(o.parts[0]):
        return None
    own = o.get(o.parts[2])

    def in_turns(thread: Thread) -> None:
        thread.set(o.parts[0], FALSE)
        thread.set(o.parts[1], own(thread))

    return op("alu", in_turns, o.parts[:2])


def special(each: Instruction, mods: set[str], o: Operands, op: Made) -> Op:
    wide, source = each.mnemonic == "CS2R" and "32" not in mods, o.parts[1]
    names = [o.parts[0], after(o.parts[0])] if wide else o.parts[:1]

    def read(thread: Thread) -> None:
        thread.set(names[0], ZERO if source == "SRZ" else thread.special(source))
        for name in names[1:]:
            thread.set(name, ZERO if source == "SRZ" else None)

    return op("alu", read, names)


def match(each: Instruction, mods: set[str], o: Operands, op: Made) -> Op | None:
    if "ANY" not in mods:
        return None
    value = o.get(o.parts[1])

    def matched(thread: Thread) -> None:
        held = value(thread)
        known = held is not None and held.known is None
        thread.set(o.parts[0], Column(thread.matched(held.bits)) if held is not None and known else None)

    return op("alu", matched, o.parts[:1])


def arithmetic(each: Instruction, mods: set[str], o: Operands, op: Made) -> Op:
    """What the table of arithmetic has; what else is written is not known."""
    kind, parts, count = each.mnemonic, o.parts, results(o.parts) if o.parts else 0
    plain = kind[1:] if kind.startswith("U") and kind[1:] in ARITHMETIC else kind
    found = ARITHMETIC[plain](mods, parts[:count], parts[count:], o) if plain in ARITHMETIC and parts else None
    if found is not None and not set(filter(real, parts[:count])) <= set(found[0]):  # a form with one result more
        found = None
    if found is None:
        written, read = poisoned(each), sass.registers(each.opcode, each.operands)[0]
        o.reads = set(read)
        data = kind.endswith(("MMA", "LDTM"))  # tensor memory is data too
        return op("alu", poisoning(each.opcode, written, read, data), written, named=each.opcode)
    targets, sources, function = found
    lost = (None,) * len(targets)
    doubtful, tested = doubts(plain, mods, targets, parts[count:]), plain == "LOP3" and len(targets) > 1

    def run(thread: Thread) -> None:
        values = [get(thread) for get in sources]
        out = applied(function, values)
        if thread.notes and doubtful and out:
            columns = [value for value in values if value is not None]
            known = known_in(columns)
            for how, *bits in doubtful(*(column.bits for column in columns)):
                thread.note(each.address, how, *(Column(np.atleast_1d(x), known) for x in bits))
        if tested and out and out[0] is not None:
            thread.note(each.address, "NE", out[0], ZERO)
        for name, value in zip(targets, out or lost, strict=False):
            thread.set(name, value)

    return op("alu", run, targets)


def division_is_slow(x: Array, y: Array) -> Array:
    """Whether a quotient of float32 is taken with care: an argument is 0, denormal, infinite or no number, or the
    exponents, or their difference, are near the ends of their range. Source: counters of a transform on an H100, whose
    quotients of 0 take the path (`tests/data/h100/languages_more.jsonl.gz`)."""
    first, second = (bits >> 23 & 0xFF for bits in (x, y))
    apart = first - second
    return (first == 0) | (first == 0xFF) | (second < 2) | (second > 252) | (apart > 125) | (apart < -125)


def beyond(each: Instruction, o: Operands) -> Getter | None:
    """Where a branch through a table goes to: the entry is counted from behind the branch, with what stands there."""
    found = re.match(r"(U?R\d+)\s*(-?0x[0-9a-f]+)?", each.operands.rpartition(", ")[2])
    if found is None:
        return None
    get = o.get(found[1])
    base = int(found[2] or "0", 16) + (each.address + CODE_BYTES if each.mnemonic != "JMX" else 0)
    return mapped(get, lambda entry: entry + base & WORD)


def predicate_logic(each: Instruction, mods: set[str], o: Operands, op: Made) -> Op:
    targets = [part for part in o.parts[:2] if IS_PREDICATE.match(part)]
    rest = o.parts[len(targets) :]
    first, second = truth_function(int(rest[3], 16)), truth_function(int(rest[4], 16))
    sources = [o.get(token) for token in rest[:3]]

    def run(thread: Thread) -> None:
        out = settled(lambda *words: (first(*words), second(*words)), [get(thread) for get in sources])
        for name, value in zip(targets, out or (None, None), strict=False):
            thread.set(name, value)

    return op("alu", run, targets)


def compare(each: Instruction, mods: set[str], o: Operands, op: Made) -> Op:
    how = next((m for m in each.opcode.split(".")[1:] if m in COMPARISONS), "")
    parts, long = o.parts, bool(mods & {"U64", "S64", "64"})
    cast = unsigned if mods & {"U32", "U64"} else signed
    sources = [*o.pair(parts[2]), *o.pair(parts[3])] if long else [o.get(parts[2]), o.get(parts[3])]
    low = o.get(parts[5]) if "EX" in mods and len(parts) > 5 else None

    def outcome(thread: Thread) -> Value:
        columns = given(thread, sources)
        if not how or columns is None:
            return None
        bits = [column.bits for column in columns]
        known = known_in(columns)
        if long:
            x, y = pair(*bits[:2]), pair(*bits[2:])
        elif thread.notes or how not in ("EQ", "NE"):
            x, y = cast(bits[0]), cast(bits[1])
        else:
            x, y = bits
        thread.note(each.address, how, Column(x, known), Column(y, known))
        if long and cast is unsigned:  # by the order of unsigned numbers
            x, y = (each.view(np.uint64) for each in (x, y))
        out = Column(COMPARISONS[how](x, y), known)
        if low is None:
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

    return joined(mods, o, op, outcome)


def compare_floats(each: Instruction, mods: set[str], o: Operands, op: Made) -> Op:
    wide = each.mnemonic == "DSETP"
    how = next((m for m in each.opcode.split(".")[1:] if m.removesuffix("U") in COMPARISONS), "")
    first, second = (operand(part, o, wide) for part in o.parts[2:4])

    def outcome(thread: Thread) -> Value:
        if not how or first is None or second is None:
            return None
        if (columns := given(thread, (*first[0], *second[0]))) is None:
            return None
        thread.note(each.address, "still", *columns)
        bits, at = [column.bits for column in columns], len(first[0])
        x, y = first[1](*bits[:at]), second[1](*bits[at:])
        apart = np.isnan(x) | np.isnan(y)
        holds = COMPARISONS[how.removesuffix("U")](x, y)
        return Column(holds | apart if how.endswith("U") else holds & ~apart, known_in(columns))

    return joined(mods, o, op, outcome)


def joined(mods: set[str], o: Operands, op: Made, outcome: Getter) -> Op:
    """A comparison, and its opposite, each joined with a predicate."""
    targets, alone = o.parts[:2], len(o.parts) < 5 or o.parts[4] in ("PT", "UPT")
    other = o.get("PT" if alone else o.parts[4])
    join = np.logical_or if "OR" in mods else np.logical_xor if "XOR" in mods else np.logical_and

    def run(thread: Thread) -> None:
        found, third = outcome(thread), other(thread)
        if alone and join is np.logical_and and found is not None and found.known is None:
            for name, bits in zip(targets, (found.bits, None), strict=True):
                if real(name):
                    thread.set(name, Column(~found.bits if bits is None else bits))
            return
        for place, name in enumerate(targets):
            if real(name):
                mine = found if not place or found is None else Column(~found.bits, found.known)
                out = settled(join, [mine, third])
                thread.set(name, out[0] if out else None)

    only = o.parts[4] if len(o.parts) > 4 and "XOR" not in mods and real(o.parts[4]) else ""
    if only and "OR" in mods:  # where it holds, the comparison does not matter
        only = only[1:] if only[0] == "!" else f"!{only}"
    return op("alu", run, targets, only=only)


def extremum(each: Instruction, mods: set[str], o: Operands, op: Made) -> Op:
    adds, long = each.mnemonic == "VIADDMNMX", bool(mods & {"S64", "U64"})
    place = next(i for i, part in enumerate(o.parts) if not IS_PREDICATE.match(part))
    inputs = [i for i in range(place + 1, len(o.parts)) if not IS_PREDICATE.match(o.parts[i])]
    if len(inputs) != 2 + adds or len(o.parts) <= inputs[-1] + 1:
        return op("alu", lambda thread: thread.lost(each.opcode, written), written := poisoned(each), named=each.opcode)
    target, sources = o.parts[place], [o.parts[i] for i in inputs]
    targets = [target, after(target)] if long else [target]
    tests = [part for part in o.parts[: inputs[0]] if IS_PREDICATE.match(part) and real(part)]
    words = [get for token in sources for get in (o.pair(token) if long else [o.get(token)])]
    least, cast = o.get(o.parts[inputs[-1] + 1]), unsigned if mods & {"U32", "U64"} else signed

    def run(thread: Thread) -> None:
        p, columns = least(thread), given(thread, words)
        for name in tests:
            thread.set(name, None)
        if p is None or columns is None:
            for name in targets:
                thread.set(name, None)
            return
        bits = [column.bits for column in columns]
        if adds:
            bits = [bits[0] + bits[1] & WORD, bits[2]]
        x, y = (pair(*bits[:2]), pair(*bits[2:])) if long else map(cast, bits)
        thread.note(each.address, "LT", *(Column(side, known_in(columns)) for side in (x, y)))
        smaller = x.view(np.uint64) < y.view(np.uint64) if long and cast is unsigned else x < y
        out: Array = np.where(smaller == p.bits, x, y)
        for name, word in zip(targets, (out & WORD, out >> 32 & WORD), strict=False):
            thread.set(name, Column(word, known_in([*columns, p])))

    return op("alu", run, [*targets, *tests])


def constant_load(each: Instruction, mods: set[str], o: Operands, op: Made) -> Op:
    words = max(1, width_bytes(each.opcode) // 4)
    names = row(o.parts[0], words)
    found = CONSTANT.match(o.parts[1])
    if found is None:
        return op("alu", lambda thread: thread.lost(each.opcode, names), names, named=each.opcode)
    base = f"{found[3]}+" if found[3] else ""
    small = next((m for m in mods if m in ("U8", "S8", "U16", "S16")), "")
    offset = int(found[4] or "0", 16)
    getters = [o.get(f"c[{found[2]}][{base}{offset - offset % 4 + 4 * place:#x}]") for place in range(words)]

    def part(word: Array) -> Array:
        width = int(small[1:])
        bits = word >> 8 * (offset % 4) & (1 << width) - 1
        return bits - ((bits >> width - 1) << width) & WORD if small[0] == "S" else bits

    if small:  # where a register is added, the place within a word is not followed
        getters = [(lambda _: None) if found[3] else mapped(get, part) for get in getters]

    def run(thread: Thread) -> None:
        for name, get in zip(names, getters, strict=True):
            thread.set(name, get(thread))

    if found[3] and real(found[3]) and each.mnemonic == "LDC":  # lanes may read other words each
        return op("constant", run, names, at=o.get(found[3]), access="load")
    return op("alu", run, names)


def vote(each: Instruction, mods: set[str], o: Operands, op: Made) -> Op:
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


def shuffle(each: Instruction, mods: set[str], o: Operands, op: Made) -> Op:
    predicate, target = (o.parts[0], o.parts[1]) if IS_PREDICATE.match(o.parts[0]) else ("PT", o.parts[0])
    value, lane = o.get(o.parts[-4] if len(o.parts) > 4 else o.parts[1]), o.get(o.parts[-2])
    targets = [predicate, target]
    if len(o.parts) == 5:
        value, lane = o.get(o.parts[2]), o.get(o.parts[3])

    def run(thread: Thread) -> None:
        held, at = value(thread), lane(thread)
        followed = held is None or len(held.bits) == 1 or "IDX" in mods
        thread.set(predicate, None)
        thread.set(target, taken_from(thread, held, at) if followed else None)

    return op("alu", run, targets)


FORMS: dict[str, Callable[[Instruction, set[str], Operands, Made], Op | None]] = {
    **dict.fromkeys(("BSSY", "BSYNC", "BREAK", "ARRIVES"), lambda each, *_: Op(each.address, "none")),
    **dict.fromkeys((*GLOBAL, *SHARED, *LOCAL), lambda each, mods, o, op: memory(each, each.mnemonic, o, op)),
    **dict.fromkeys(ENGINE, lambda each, mods, o, op: engine(each.mnemonic, each, o, op)),
    **dict.fromkeys(INDIRECT, lambda each, mods, o, op: op("indirect", back=beyond(each, o))),
    "EXIT": leave, "KILL": leave, "BRA": branch, "JMP": branch, "CALL": call, "RET": come_back, "SYNCS": barrier,
    "USETMAXREG": lambda each, mods, o, op: op("alu", lambda thread: thread.set(o.parts[0], TRUE), o.parts[:1])
                  if each.operands.startswith("UP") else None,
    "FCHK": division_check, "UTCATOMSWS": columns_taken, "ELECT": elect,
    "R2UR": to_uniform, "S2R": special, "S2UR": special, "CS2R": special, "MATCH": match, "SHFL": shuffle,
    **dict.fromkeys(("LDC", "ULDC", "LDCU"), constant_load), **dict.fromkeys(("VOTE", "VOTEU"), vote),
    **dict.fromkeys(("ISETP", "UISETP"), compare), **dict.fromkeys(("FSETP", "DSETP"), compare_floats),
    **dict.fromkeys(("PLOP3", "UPLOP3"), predicate_logic),
    **dict.fromkeys(("IMNMX", "VIMNMX", "UIMNMX", "UVIMNMX", "VIADDMNMX"), extremum),
}  # fmt: skip
"""What makes an `Op` of an instruction, by its mnemonic; None for a form of it that is arithmetic."""
