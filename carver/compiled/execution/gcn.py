"""What AMD's integer, mask and control instructions do, on columns of lanes: GCN, CDNA and RDNA.

`decode` asks one function after the other whether an instruction is of its kind, and makes an `Op` of it. A branch is
taken by a whole wave. Lanes take part as a mask says, which is the guard of all vector instructions. What is not in the
tables makes what it writes unknown, and is counted by name if its operands were known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..isa.amd import rare
from ..isa.code import Code, Instruction
from .arithmetic import truth_function
from .gcn_arithmetic import (
    ACCUMULATES,
    CARRIES,
    KEEPS_SCC,
    TWO,
    UPWARDS,
    computed,
    function,
    parsed,
    poison,
    size,
)  # fmt: skip
from .gcn_operands import CASTS, EXEC, WHOLE, Operands, any_of, made, memory, put, put_mask, registers, rejoined
from .lanes import TRUE, WORD, Array, Column, Op, Thread, Value, applied, known_in, merged, number, settled, taken_from
from .operands import Getter, given

COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lg": lambda a, b: (a < b) | (a > b), "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "neq": np.not_equal, "nlg": lambda a, b: ~((a < b) | (a > b)),
    "nlt": lambda a, b: ~(a < b), "nle": lambda a, b: ~(a <= b), "ngt": lambda a, b: ~(a > b),
    "nge": lambda a, b: ~(a >= b), "class": lambda x, kinds: kinds >> float_class(x) & 1 > 0,
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)), "u": lambda a, b: np.isnan(a) | np.isnan(b),
}  # fmt: skip
"""Of NaN all fail but those that begin with n, which are the others' opposites, and u."""
NOTED = {"eq": "EQ", "ne": "NE", "lg": "NE", "neq": "NE", "nlg": "EQ", "lt": "LT", "le": "LE", "gt": "GT", "ge": "GE",
         "nlt": "GE", "nle": "GT", "ngt": "LE", "nge": "LT", "class": "", "o": "", "u": ""}  # fmt: skip
BOOLS: dict[str, Callable[..., Array]] = {
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "andn2": lambda a, b: a & ~b,
    "and_not1": lambda a, b: a & ~b, "orn2": lambda a, b: a | ~b, "or_not1": lambda a, b: a | ~b,
    "nand": lambda a, b: ~(a & b), "nor": lambda a, b: ~(a | b), "xnor": lambda a, b: ~(a ^ b), "not": lambda a: ~a,
    "mov": lambda a: a, "andn1": lambda a, b: ~a & b, "and_not0": lambda a, b: ~a & b, "orn1": lambda a, b: ~a | b,
    "or_not0": lambda a, b: ~a | b,
}  # fmt: skip
NOTHING = re.compile(
    r"s_(wait|nop|barrier|delay_alu|sleep|setprio|sendmsg|inst_prefetch|set_inst_prefetch|clause|icache|dcache|setreg|"
    r"set_gpr_idx|sethalt|ttrace|code_end|round_mode|denorm_mode|prefetch|setkill|version|incperflevel|decperflevel)|"
    r"buffer_(wbl2|inv|wbinvl1|gl[01]_inv)|global_(wb|inv|wbinv)|v_nop|exp$|ds_nop|v_pipeflush"
)
"""Instructions that concern neither addresses nor control."""
ODD = ("clamp", "mul:", "div:", "op_sel", "row_", "quad_perm", "wave_", "dpp8", "dst_sel:B", "dst_sel:W", "neg_")
"""Modifiers of vector instructions that are not followed."""
LANE = re.compile(r"v_(readlane|writelane)_b32")


def decoded(code: Code) -> list[Op]:
    """What the instructions of a kernel do."""
    opcodes = [each.opcode for each in code.instructions]
    spilling = {registers(each.operands.split(",")[0].strip())[0] for each in code.instructions
                if each.opcode == "v_writelane_b32"}  # fmt: skip
    ops = [decode(each, code.warp_size, spilling) for each in placed(rejoined(code.instructions))]
    for i, op in enumerate(ops):
        end = op.target or 0
        if op.kind == "branch" and end > i and op.conditions and rare(opcodes[i + 1 : end]):
            ops[i] = replace(op, rare=True)
    return ops


def placed(instructions: Sequence[Instruction]) -> Iterator[Instruction]:
    """The instructions, where those of the stack have a constant for the scalar that was just set to one."""
    targets = {each.target for each in instructions}
    held: dict[str, int] = {}
    for each in instructions:
        if each.address in targets:
            held.clear()
        first, *rest = (part.strip() for part in each.operands.split(","))
        if each.opcode in ("s_mov_b32", "s_movk_i32") and WHOLE.match(rest[0]):
            held[first] = int(rest[0], 0)
        else:
            for name in (*registers(first), *(registers(rest[0]) if TWO.match(each.opcode) else ())):
                held.pop(name, None)
        if each.opcode.endswith(".spill") and (found := re.search(r", (s\d+)(?= |$)", each.operands)):
            if found[1] in held:
                offset = int(x[1]) if (x := re.search(r"offset:(\d+)", each.operands)) else 0
                operands = re.sub(r" offset:\d+", "", each.operands).replace(found[0], ", off")
                yield each._replace(operands=f"{operands} offset:{offset + held[found[1]]}")
            else:
                yield each._replace(opcode=each.opcode.removesuffix(".spill"))
            continue
        yield each


def decode(each: Instruction, wave: int, spilling: set[str]) -> Op:
    """What an instruction does. `spilling`: vector registers whose lanes keep scalars."""
    if NOTHING.match(each.opcode):
        return Op(each.address, "none", waits=each.opcode in ("s_barrier", "s_barrier_wait"))
    if each.opcode.startswith("s_endpgm"):
        return Op(each.address, "exit")
    if each.opcode.startswith("v_dual_"):
        return dual(each, wave, spilling)
    o = Operands.of(each, wave)
    for kind in (branch, memory, mask_write, lane_access, comparison, carried, chosen, scalar, counted, packed, rows):
        if (op := kind(each, o, spilling)) is not None:
            return op
    return arithmetic(each, o)


def dual(each: Instruction, wave: int, spilling: set[str]) -> Op:
    """Two instructions that read before either writes."""
    texts = f"{each.opcode} {each.operands}".split(" :: ")
    halves = []
    for text in texts:
        opcode, _, operands = text.strip().partition(" ")
        plain = each._replace(opcode=opcode.replace("v_dual_", "v_"), operands=operands)
        halves.append(decode(plain, wave, spilling))
    first, second = halves[0], halves[-1]

    def run(thread: Thread) -> None:
        before = {name: thread.get(name) for name in second.reads & first.writes}
        first.run(thread)  # type: ignore[misc]
        after = {name: thread.get(name) for name in first.writes}
        for name, held in before.items():
            thread.set(name, held)
        second.run(thread)  # type: ignore[misc]
        for name, held in after.items():
            thread.set(name, held)

    return replace(first, run=run, reads=first.reads | second.reads, writes=first.writes | second.writes)


def branch(each: Instruction, o: Operands, _: set[str]) -> Op | None:
    op = each.opcode
    if op == "s_branch":
        return Op(each.address, "branch", target=each.target)
    if found := re.match(r"s_cbranch_(scc|vcc|exec)(0|1|n?z)$", op):
        which, how = found[1], found[2]
        if which == "scc":
            condition = o.scalar("scc", how == "1")
        else:
            condition = o.any_lane(which if o.wave == 64 else f"{which}_lo", how == "nz")
        reads = frozenset(o.reads)
        return Op(each.address, "branch", None, reads, target=each.target, conditions=[condition])
    if op.startswith("s_cbranch"):
        return Op(each.address, "branch", target=each.target, conditions=[lambda _: None])
    if op in ("s_setpc_b64", "s_swappc_b64", "s_call_b64"):
        return Op(each.address, "indirect")
    return None


def lanes_of(o: Operands, token: str) -> list[str]:
    """The registers of a mask."""
    return registers(token)[: o.wave // 32]


def mask_write(each: Instruction, o: Operands, _: set[str]) -> Op | None:
    """s_and_saveexec_b64 and its like: the mask of lanes is kept, and becomes what an operation makes of it."""
    found = re.match(r"s_(\w+?)_(saveexec|wrexec)_b(32|64)$", each.opcode)
    if not found:
        return None
    function_, source, held = BOOLS[found[1]], o.mask(o.parts[1]), o.mask("exec" if o.wave == 64 else EXEC)
    names = lanes_of(o, o.parts[0])
    execs = [EXEC, "exec_hi"][: o.wave // 32]

    def run(thread: Thread) -> None:
        before = held(thread)
        out = settled(function_, [source(thread), before])
        after = out[0] if out else None
        put_mask(thread, names, before if found[2] == "saveexec" else after)
        put_mask(thread, execs, after)
        thread.set("scc", any_of(thread, after))

    return made(each, o, run, [*names, *execs, "scc"], masked=False)


def lane_access(each: Instruction, o: Operands, spilling: set[str]) -> Op | None:
    """Scalars that are read from a lane, or kept in one."""
    op = each.opcode
    if op == "v_readfirstlane_b32":
        source = o.get(o.parts[1])
        o.reads.add(EXEC)

        def first(thread: Thread) -> None:
            thread.set(o.parts[0], of_first(thread, source(thread)))

        return made(each, o, first, o.parts[:1], masked=False)
    if not LANE.match(op):
        return None
    constant = o.parts[2].isdigit()
    if op == "v_writelane_b32":
        if not constant:
            return poison(each, o, False)
        kept_at, name = f"{o.parts[0]}@{o.parts[2]}", o.parts[1]
        names = registers(name)
        o.reads.update(names)
        get = (lambda thread: thread.get(names[0])) if names else o.get(name)
        return made(each, o, lambda thread: thread.set(kept_at, get(thread)), [kept_at], masked=False)
    if constant and o.parts[1] in spilling:
        kept_at = f"{o.parts[1]}@{o.parts[2]}"
        o.reads.add(kept_at)
        return made(each, o, lambda thread: thread.set(o.parts[0], thread.get(kept_at)), o.parts[:1], masked=False)
    source, lane = o.get(o.parts[1]), o.get(o.parts[2])

    def run(thread: Thread) -> None:
        thread.set(o.parts[0], taken_from(thread, source(thread), lane(thread)))

    return made(each, o, run, o.parts[:1], masked=False)


def of_first(thread: Thread, held: Value) -> Value:
    """What the first lane that takes part holds, of each lane's wave."""
    if held is None or (len(held.bits) == 1 and held.known is None):
        return held
    leads = thread.leads()
    starts, group = np.flatnonzero(leads), np.cumsum(leads) - 1
    count = len(leads)
    exec_ = thread.get(EXEC)
    if exec_ is None:
        return None
    active = np.broadcast_to(exec_.possible, count)
    found = np.minimum.reduceat(np.where(active, np.arange(count), count), starts)
    found = np.where(found < count, found, starts)[group]
    full = held.spread(count)
    known = None if full.known is None else full.known[found]
    return Column(full.bits[found], None if known is None or known.all() else known)


def comparison(each: Instruction, o: Operands, _: set[str]) -> Op | None:
    found = re.match(r"(s|v)_(cmpx|cmpk|cmp|bitcmp)_?(\w+?)_(u|i|b|f)(16|32|64)$", each.opcode) or re.match(
        r"(s)_(bitcmp)([01])_(b)(32|64)$", each.opcode
    )
    if not found:
        return None
    scalar_, what, how, kind = found[1] == "s", found[2], found[3], f"{found[4]}{found[5]}"
    if how not in NOTED and what != "bitcmp":
        return poison(each, o, False)
    first = 0 if scalar_ or (what == "cmpx" and len(o.parts) == 2) else 1
    other = str(_short(o.parts[1])) if what == "cmpk" and kind[0] == "i" else o.parts[first + 1]
    a, b = o.get(o.parts[first], kind, 0), o.get(other, "u32" if how == "class" else kind, 1)
    if what == "bitcmp":

        def tested(thread: Thread) -> None:
            values = [a(thread), b(thread)]
            note(thread, each, "masked", values[:1])
            out = applied(lambda x, at: (x >> (at & 63) & 1) == int(how), values)
            thread.set("scc", out[0] if out else None)

        return made(each, o, tested, ["scc"], masked=False)
    compare = COMPARISONS[how]
    unsigned = kind == "u64"

    def outcome(thread: Thread) -> Value:
        values = [a(thread), b(thread)]
        if kind[0] != "f":
            note(thread, each, NOTED[how], values)
        sides = (lambda x, y: compare(x.view(np.uint64), y.view(np.uint64))) if unsigned else compare
        out = applied(sides, values)
        return out[0] if out else None

    if scalar_:
        return made(each, o, lambda thread: thread.set("scc", outcome(thread)), ["scc"], masked=False)
    names = lanes_of(o, o.parts[0]) if first else []
    execs = [EXEC, "exec_hi"][: o.wave // 32] if what == "cmpx" else []
    o.reads.add(EXEC)

    def run(thread: Thread) -> None:
        out = settled(np.logical_and, [outcome(thread), thread.get(EXEC)])
        put_mask(thread, [*names, *execs], out[0] if out else None)

    return made(each, o, run, [*names, *execs], masked=False)


def float_class(x: Array) -> Array:
    """The bit by which v_cmp_class names what a number is; of denormal ones that of normal ones."""
    minus, plus = (
        np.where(np.isinf(x), inf, np.where(x == 0, zero, normal)) for inf, zero, normal in ((2, 5, 3), (9, 6, 8))
    )
    return np.where(np.isnan(x), 1, np.where(np.signbit(x), minus, plus))


def note(thread: Thread, each: Instruction, how: str, values: Sequence[Value]) -> None:
    """Note what an outcome depends on, where all of it is known."""
    columns = [value for value in values if value is not None]
    if len(columns) == len(values):
        known = known_in(columns)
        thread.note(each.address, how, *(Column(column.bits, known) for column in columns))


def carried(each: Instruction, o: Operands, _: set[str]) -> Op | None:
    """Sums whose carry is a mask of lanes, or the condition of the wave."""
    found = CARRIES.fullmatch(each.opcode)
    if not found:
        return None
    is_scalar, minus, reverse = each.opcode[0] == "s", found[1] == "sub", bool(found[3])
    takes = bool(found[2] or found[4])
    first = 1 if is_scalar or len(o.parts) < 4 else 2
    if len(o.parts) < first + 2:
        return poison(each, o, not is_scalar)
    terms = [o.get(o.parts[first], "u32", 0), o.get(o.parts[first + 1], "u32", 1)]
    if takes:
        terms.append(o.scalar("scc", True) if is_scalar else o.mask(o.parts[first + 2]))
    target = registers(o.parts[0])
    out_names = ["scc"] if is_scalar else lanes_of(o, o.parts[1]) if first == 2 else []
    o.reads.add(EXEC)

    def run(thread: Thread) -> None:
        if (columns := given(thread, terms)) is None:
            put_mask(thread, [*target, *out_names], None)
            return
        known = known_in(columns)
        x, y, *more = (column.bits for column in columns)
        x, y = (y, x) if reverse else (x, y)
        extra = more[0].astype(np.int64) if more else 0
        total = x - y - extra if minus else x + y + extra
        thread.note(each.address, "LT" if minus else "GE", Column(np.atleast_1d(total), known),
                    number(0) if minus else Column(np.array([WORD + 1])))  # fmt: skip
        over = Column(np.atleast_1d(total < 0 if minus else total > WORD), known)
        new = Column(np.atleast_1d(total & WORD), known)
        if not is_scalar:
            active = thread.get(EXEC) or Column(TRUE.bits, ~TRUE.bits)
            new_ = merged(active, new, thread.get(target[0]), len(thread.leads())) if not active.sure.all() else new
            thread.set(target[0], new_)
            if active.known is not None:
                thread.under[EXEC][target[0]] = new
            masked = settled(np.logical_and, [over, active])
            put_mask(thread, out_names, masked[0] if masked else None)
        else:
            thread.set(target[0], new)
            thread.set("scc", over)

    # lanes that take no part keep their sum, but their carry becomes 0
    if not is_scalar:
        o.reads.update(target)
    return made(each, o, run, [*target, *out_names], masked=False, within="" if is_scalar else EXEC)


def chosen(each: Instruction, o: Operands, _: set[str]) -> Op | None:
    """Selections by a mask of lanes or by the condition of the wave."""
    if each.opcode in ("v_cndmask_b32", "v_cndmask_b16"):
        vcc = "vcc" if o.wave == 64 else "vcc_lo"
        which = o.mask(o.parts[3] if len(o.parts) > 3 else vcc)
        if any("|" in part or (part.startswith("-") and registers(part[1:])) for part in o.parts[1:3]):
            return poison(each, o, True)
        a, b, names = o.get(o.parts[1], "u32", 0), o.get(o.parts[2], "u32", 1), registers(o.parts[0])

        def run(thread: Thread) -> None:
            thread.set(names[0], picked(thread, which(thread), b(thread), a(thread)))

        return made(each, o, run, names)
    found = re.match(r"s_(cselect|cmov|cmovk)_[bi](32|64)$", each.opcode)
    if not found:
        return None
    names, wide = registers(o.parts[0]), found[2] == "64"
    kind = "b64" if wide else "b32"
    which = o.scalar("scc", True)
    sources = [*o.parts[1:3], *([o.parts[0]] if found[1] != "cselect" else [])]
    as_mask = [o.mask(token) for token in sources]
    if found[1] == "cmovk":
        sources = [str(_short(sources[0])), *sources[1:]]
    first, second = (o.get(token, kind) for token in sources[:2])
    of_masks = wide == (o.wave == 64)
    tokens = [name for token in sources for name in registers(token)]

    def select(thread: Thread) -> None:
        scc = which(thread)
        if of_masks and (names[0] == EXEC or any(is_mask(thread, name) for name in tokens)):
            a, b = (get(thread) for get in as_mask[:2])
            put_mask(thread, names, picked(thread, scc, a, b))
            return
        out = picked(thread, scc, first(thread), second(thread))
        if out is None:
            put_mask(thread, names, None)
        else:
            put(thread, names, out.bits, out.known)

    return made(each, o, select, names, masked=False)


def is_mask(thread: Thread, name: str) -> bool:
    held = thread.get(name)
    return held is not None and held.bits.dtype == bool and name != "scc"


def picked(thread: Thread, which: Value, yes: Value, no: Value) -> Value:
    if which is None:
        which = Column(~TRUE.bits, ~TRUE.bits)
    if which.known is None and len(which.bits) == 1:
        return yes if which.bits[0] else no
    return merged(which, yes, no, len(thread.leads()))


def scalar(each: Instruction, o: Operands, _: set[str]) -> Op | None:
    """Scalar instructions on words, pairs or masks of lanes."""
    op = each.opcode
    if not op.startswith("s_"):
        return None
    if op == "s_getpc_b64":  # addresses of symbols are absolute here
        names = registers(o.parts[0])
        return made(each, o, lambda thread: put(thread, names, np.zeros(1, np.int64), None), names, masked=False)
    stem, types = parsed(op)
    stem = stem.removesuffix("k") if stem in ("movk", "addk", "mulk") else stem
    names = registers(o.parts[0]) if o.parts else []
    sources = o.parts[1:]
    if op in ("s_addk_i32", "s_addk_co_i32", "s_mulk_i32"):
        sources = [o.parts[0], *sources]
    if stem in ACCUMULATES:
        sources = [*sources, o.parts[0]]
    kind = types[-1] if types else "b32"
    compute = function(op, stem, types)
    if (compute is None and stem not in BOOLS) or not names:
        return poison(each, o, False)
    getters = [o.get(token, kind) for token in sources]
    if op.endswith(("k_i32", "k_co_i32")):
        getters[-1] = o.get(str(_short(sources[-1])), kind)
    maskable = stem in BOOLS and size(kind) == o.wave
    as_masks = [o.mask(token) for token in sources] if maskable else []
    tokens = [name for token in sources for name in registers(token)]
    low = low_words(o, stem, sources, getters, names)
    sets = stem not in KEEPS_SCC and kind[0] != "f"
    writes = [*names, *(["scc"] if sets else [])]

    def run(thread: Thread) -> None:
        if maskable and (names[0] == EXEC or any(is_mask(thread, name) for name in tokens)):
            found = settled(BOOLS[stem], [get(thread) for get in as_masks])
            out = found[0] if found else None
            put_mask(thread, names, out)
            if sets:
                thread.set("scc", any_of(thread, out))
            return
        values = [get(thread) for get in getters]
        word = low_word(thread, compute, low, values)
        computed(thread, each, stem, types, compute, values, names, sets)
        if word:
            thread.set(names[0], word[0])

    return made(each, o, run, writes, masked=False)


def low_words(
    o: Operands, stem: str, sources: Sequence[str], getters: Sequence[Getter], names: Sequence[str]
) -> list[Getter]:
    """Getters of the low words of pairs, where the low word of a result depends on these alone."""
    if len(names) != 2 or stem not in UPWARDS:
        return []
    several = [registers(token) for token in sources]
    return [o.word(pair[0]) if len(pair) == 2 else get for pair, get in zip(several, getters, strict=True)]


def low_word(thread: Thread, compute: Any, low: Sequence[Getter], values: Sequence[Value]) -> tuple[Value, ...]:
    """The low word of a result, where it is known in more lanes than the high one."""
    if not low or all(value is not None and value.known is None for value in values):
        return ()
    return applied(lambda *bits: compute(*bits) & WORD, [get(thread) for get in low])


def _short(token: str) -> int:
    """A constant of 16 bits with its sign."""
    return int(CASTS["i16"](int(token, 0)))


def counted(each: Instruction, o: Operands, _: set[str]) -> Op | None:
    """v_mbcnt: how many bits of a mask lie below the lane, in one half of it."""
    found = re.match(r"v_mbcnt_(lo|hi)_u32_b32$", each.opcode)
    if not found:
        return None
    mask, base, names, low = o.get(o.parts[1]), o.get(o.parts[2]), registers(o.parts[0]), found[1] == "lo"

    def run(thread: Thread) -> None:
        lane = thread.special("SR_LANEID")
        assert lane is not None
        below = np.minimum(lane.bits, 32) if low else np.maximum(lane.bits - 32, 0)
        out = applied(
            lambda x, y: np.bitwise_count(x & np.left_shift(1, below) - 1).astype(np.int64) + y,
            [mask(thread), base(thread)],
        )
        thread.set(names[0], out[0] if out else None)

    return made(each, o, run, names)


def packed(each: Instruction, o: Operands, _: set[str]) -> Op | None:
    """Instructions on pairs of words: v_pk_mov_b32 takes one of each of two pairs, as op_sel chooses; of the others
    op_sel chooses the operands of the low result, op_sel_hi those of the high one."""
    if found := re.match(r"v_pk_(add|mul|fma)_f32$", each.opcode):
        return packed_floats(each, o, found[1])
    if each.opcode != "v_pk_mov_b32":
        return None
    names, which = registers(o.parts[0]), (o.modifier("op_sel") or "[0,0]").strip("[]").split(",")
    words = [registers(part) for part in o.parts[1:3]]
    getters = [o.word(pair[int(at)]) if pair else o.get(part)
               for part, pair, at in zip(o.parts[1:3], words, which, strict=True)]  # fmt: skip

    def run(thread: Thread) -> None:
        values = [get(thread) for get in getters]
        for name, value in zip(names, values, strict=True):
            thread.set(name, value)

    return made(each, o, run, names)


def rows(each: Instruction, o: Operands, _: set[str]) -> Op | None:
    """v_permlane16 and v_permlanex16: a lane takes what one of its row of 16 holds, or one of the other row."""
    found = re.match(r"v_permlane(x?)16_b32$", each.opcode)
    if not found or o.wave != 32:
        return None
    names, source, low, high = registers(o.parts[0]), *(o.get(part) for part in o.parts[1:4])
    o.reads.update(names)

    def run(thread: Thread) -> None:
        held, first, second, lane = source(thread), low(thread), high(thread), thread.special("SR_LANEID")
        if held is None or first is None or second is None or lane is None:
            return thread.set(names[0], None)
        if known_in([held, first, second]) is not None:
            return thread.set(names[0], None)
        at = lane.bits % 16
        chosen = np.where(at < 8, first.bits, second.bits) >> 4 * (at % 8) & 15
        row = lane.bits // 16 ^ (1 if found[1] else 0)
        bits = thread.shuffled(held.bits, row * 16 + chosen) if len(held.bits) > 1 else held.bits
        return thread.set(names[0], Column(bits))

    return made(each, o, run, names)


def packed_floats(each: Instruction, o: Operands, stem: str) -> Op:
    names, sources = registers(o.parts[0]), o.parts[1:]
    if any(mod.startswith(("neg_", "clamp")) for mod in o.mods):
        return poison(each, o, True)
    halves = []
    for name, usual in (("op_sel", 0), ("op_sel_hi", 1)):
        said = (o.modifier(name) or "").strip("[]").split(",")
        which = [int(at) if at else usual for at in (*said, *[""] * len(sources))]
        words = [registers(token) for token in sources]
        tokens = [pair[at] if len(pair) == 2 else token
                  for token, pair, at in zip(sources, words, which, strict=False)]  # fmt: skip
        halves.append([o.get(token, "f32") for token in tokens])
    compute = function(each.opcode, stem, ["f32"])

    def run(thread: Thread) -> None:
        found = [[get(thread) for get in getters] for getters in halves]
        for name, values in zip(names, found, strict=True):
            computed(thread, each, stem, ["f32"], compute, values, [name], False)

    return made(each, o, run, names)


def arithmetic(each: Instruction, o: Operands) -> Op:
    """Vector instructions of one result."""
    stem, types = parsed(each.opcode)
    compute = function(each.opcode, stem, types)
    if stem == "bitop3":
        compute = truth_function(int(o.modifier("bitop3") or "0", 0))
    names = registers(o.parts[0]) if o.parts else []
    odd = any(mod.startswith(ODD) for mod in o.mods) or any("(" in part for part in o.parts)
    if compute is None or not names or odd:
        return poison(each, o, True)
    sources, kind = o.parts[1:], types[-1] if types else "b32"
    more: list[str] = []
    if stem == "div_scale" or (stem == "mad" and types[0].endswith("64")):  # a mask says which it scales, or its carry
        more, sources = lanes_of(o, o.parts[1]), o.parts[2:]
    if stem in ACCUMULATES:
        sources = [*sources, o.parts[0]]
    getters: list[Getter] = []
    for place, token in enumerate(sources):
        of = kind
        if stem == "mad" and place == 2 and len(types) > 1:
            of = types[0]
        if stem == "ldexp" and place == 1:
            of = "i32"
        getters.append(o.get(token, of, place))

    low = low_words(o, stem, sources, getters, names)

    def run(thread: Thread) -> None:
        values = [get(thread) for get in getters]
        word = low_word(thread, compute, low, values)
        computed(thread, each, stem, types, compute, values, names, False)
        if word:
            thread.set(names[0], word[0])
        put_mask(thread, more, None)

    return made(each, o, run, [*names, *more], masked=not each.opcode.startswith("v_s_"))
