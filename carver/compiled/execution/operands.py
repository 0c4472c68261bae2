"""Operands of NVIDIA's instructions, as getters of columns of lanes, and what lanes or an engine move of memory; what
those on floats and doubles compute, where branches or addresses depend on them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..isa import sass
from ..isa.code import Instruction
from ..isa.rates import width_bytes
from .lanes import (
    FALSE,
    HERE,
    TRUE,
    WORD,
    ZERO,
    Array,
    Column,
    Op,
    Thread,
    Value,
    applied,
    number,
    pair,
    signed,
    told,
    unsigned,
)

Getter = Callable[[Thread], Value]
Known = tuple[list[str], list[Getter], Callable[..., Any]]
"""What an instruction writes, the getters of what it reads, and the function between them."""
SPLIT = re.compile(r",(?![^\[{]*[\]}])")
NAMED = re.compile(r"^([-~!|]*)(U?R\d+|U?RZ|U?P\d|U?PT|SRZ)\|?((?:\.\w+)*)$")
NUMBER = re.compile(r"^(-?)(0x[0-9a-f]+|\d+)$")
CONSTANT = re.compile(r"^([-~|]*)c\[(0x[0-9a-f]+)\]\[(?:(U?R\w+)(?:\.\w+)?)?\+?(-?0x[0-9a-f]+)?\]\|?((?:\.\w+)*)$")
IS_PREDICATE = re.compile(r"^!?U?P(\d|T)$")


def after(name: str, count: int = 1) -> str:
    """The register so many places behind one."""
    file, at = re.match(r"(U?R)(\d+|Z)", name).groups()  # type: ignore[union-attr]
    return name if at == "Z" else f"{file}{int(at) + count}"


def row(name: str, count: int) -> list[str]:
    """So many registers from one on."""
    return [name, *(after(name, place) for place in range(1, count))]


def real(name: str) -> bool:
    """Whether a name is that of a register, and not of the one that is always 0 or true."""
    return name[-1] not in "ZT"


class Operands:
    """Getters of an instruction's operands, which note what they read."""

    def __init__(self, each: Instruction) -> None:
        text = each.operands.replace(".reuse", "")
        split = SPLIT.split(text) if "[" in text or "{" in text else text.split(",")
        self.parts = [part.strip() for part in split] if text else []
        self.reads: set[str] = set()
        self.opcode = each.opcode

    def get(self, token: str) -> Getter:
        getter, name = _getter(token)
        if name:
            self.reads.add(name)
        return getter

    def pair(self, token: str) -> tuple[Getter, Getter]:
        """Low and high word of an operand of 64 bits."""
        token = token.replace(".64", "")
        if NUMBER.match(token):
            high = number(int(token, 0) >> 32)
            return self.get(token), lambda _: high
        if found := CONSTANT.match(token):
            base = f"{found[3]}+" if found[3] else ""
            return self.get(token), self.get(f"c[{found[2]}][{base}{int(found[4] or '0', 16) + 4:#x}]")
        name = token.lstrip("-~|").split(".")[0].rstrip("|")
        return self.get(name), self.get(after(name))


@lru_cache(maxsize=1 << 14)
def _getter(token: str) -> tuple[Getter, str]:
    """Of an operand, and the register that it reads."""
    if found := NUMBER.match(token):
        value = number(int(found[2], 0) * (-1 if found[1] else 1))
        return lambda _: value, ""
    if found := CONSTANT.match(token):
        sign, name = found[1], found[3] if found[3] and real(found[3]) else ""
        fetch = _constant(int(found[2], 16), name, int(found[4] or "0", 16))
    elif found := NAMED.match(token):
        sign, name, rest = found[1], found[2], found[3]
        if name in ("PT", "UPT"):
            return lambda _: FALSE if "!" in sign else TRUE, ""
        if not real(name):
            return lambda _: number(WORD) if "~" in sign else ZERO, ""
        fetch = lambda thread: thread.get(name)  # noqa: E731
        if "P" in name:
            return mapped(fetch, lambda x: ~x) if "!" in sign else fetch, name
        if part := re.search(r"\.([BH])(\d)", rest):
            width = 8 if part[1] == "B" else 16
            shift, mask = int(part[2]) * width, (1 << width) - 1
            return mapped(fetch, lambda x: x >> shift & mask), name
    else:
        return lambda _: None, ""
    if "~" in sign:
        return mapped(fetch, lambda x: x ^ WORD), name
    if "|" in sign:
        return mapped(fetch, lambda x: (-np.abs(signed(x)) if "-" in sign else np.abs(signed(x))) & WORD), name
    return mapped(fetch, lambda x: -x & WORD) if "-" in sign else fetch, name


def _constant(bank: int, register: str, offset: int) -> Getter:
    if not register:
        where = Column(np.array([offset], np.int64))
        return lambda thread: thread.constant(bank, where)

    def indexed(thread: Thread) -> Value:
        at = thread.get(register)
        if at is None:
            return None
        thread.note(HERE, "still", at)
        return thread.constant(bank, Column(at.bits + offset, at.known))

    return indexed


def given(thread: Thread, getters: Iterable[Getter]) -> list[Column] | None:
    """What getters give, where all of them give something."""
    values = [get(thread) for get in getters]
    columns = [value for value in values if value is not None]
    return columns if len(columns) == len(values) else None


def mapped(fetch: Getter, function: Callable[[Array], Array]) -> Getter:
    def got(thread: Thread) -> Value:
        value = fetch(thread)
        return None if value is None else Column(function(value.bits), value.known)

    return got


def combined(function: Callable[..., Array], getters: Sequence[Getter]) -> Getter:
    """What a function makes of the bits that getters give, where all of them give something."""

    def got(thread: Thread) -> Value:
        found = applied(function, [get(thread) for get in getters])
        return found[0] if found else None

    return got


def results(parts: Sequence[str]) -> int:
    """How many of the first operands are results: a register, up to two predicates behind it, or these alone."""
    count = 1 if parts and re.match(r"^U?R(\d+|Z)$", parts[0]) else 0
    while count < min(len(parts), 3 if count or parts[0].startswith(("R", "UR")) else 2) and IS_PREDICATE.match(
        parts[count]
    ):
        if parts[count].startswith("!"):
            break
        count += 1
    return count


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
    return dict.fromkeys((*written, *row(written[0], count)))  # type: ignore[return-value]


def poisoning(opcode: str, writes: Sequence[str], reads: Sequence[str], data: bool = False) -> Callable[[Thread], None]:
    """What an instruction does for which there is no rule: what it writes is not known, and that counts where all that
    it reads is known, but for what is `data` alone, as products of matrices."""

    def run(thread: Thread) -> None:
        if not data and all(told(thread.get(name)) for name in reads):
            thread.lost(opcode, writes)
        for name in writes:
            thread.set(name, None)

    return run


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

    start: Array = np.array([offset], np.int64) if offset or not terms else None

    def got(thread: Thread) -> Value:
        total, known = start, None
        for first, second, scale in terms:
            low = first(thread)
            high = second(thread) if second else ZERO
            if low is None or high is None:
                return None
            term = pair(low.bits, high.bits) if second else low.bits
            term = term if scale == 1 else term * scale
            total = term if total is None else total + term
            for column in (low, high):
                if column.known is not None:
                    known = column.known if known is None else known & column.known
        return Column(total if long else total & WORD, known)

    return got


def slots(each: Instruction, kind: str, o: Operands, op: Callable[..., Op]) -> Op:
    """Words of the stack at fixed places: registers as others."""
    words = max(1, width_bytes(each.opcode) // 4)
    found = sass.STACK_SLOT.search(each.operands)
    if found is None:
        return op("none")
    held = [f"S{int(found[1] or '0', 16) + 4 * place}" for place in range(words)]
    if kind == "LDL":
        names = row(o.parts[0], words)
        o.reads.update(held)
        pairs = list(zip(names, held, strict=True))
        return op("alu", lambda thread: [thread.set(name, thread.get(slot)) for name, slot in pairs], names)
    filled = list(zip(held, map(o.get, row(o.parts[1].split(".")[0], words)), strict=True))
    return op("alu", lambda thread: [thread.set(slot, get(thread)) for slot, get in filled], held)


def memory(each: Instruction, kind: str, o: Operands, op: Callable[..., Op]) -> Op:
    width = width_bytes(each.opcode)
    words = max(1, width // 4)
    brackets = [found[2] for found in ADDRESS.finditer(each.operands)]
    written = () if kind in NO_REGISTER else poisoned(each)
    if not brackets:
        return op("alu", lambda thread: thread.lost(each.opcode, written), written, named=each.opcode)
    outside = kind in GLOBAL
    place = brackets[0] if kind in ("ATOMG", "ATOM") else brackets[-1]
    mask = [o.get(part) for part in o.parts[-1:] if re.match(r"^!?P\d$", part)] if kind in ("LDGSTS", "LDG") else []
    loaded = row(o.parts[0], words) if kind in LOADS and not IS_PREDICATE.match(o.parts[0]) else []
    held = Operands(each)
    deals = kind in ("ATOMG", "ATOM") and ".ADD" in each.opcode and words == 1 and len(o.parts) > 3 and real(o.parts[1])
    stored = [held.get(name) for name in row(o.parts[-1].split(".")[0], words)] if kind in STORES else []
    where = "global" if outside else "local" if kind in LOCAL else "shared"
    return op(
        where, None, written, at=address(place, outside, o), width_bytes=width, mask=mask,
        inner=address(brackets[0], False, o) if kind == "LDGSTS" else None,
        access=(GLOBAL | SHARED | LOCAL)[kind], loads=o.parts[1:2] if deals else loaded, stored=stored,
        deals=o.get(o.parts[-1]) if deals else None, strong=outside and ".STRONG" in each.opcode,
        stored_names=frozenset(held.reads),
        signed_bits=next((bits for bits in (8, 16) if f".S{bits}" in each.opcode), 0),
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
            "bulk", None, (), at=combined(pair, o.pair(there)), size=o.get(o.parts[2]), inner=o.get(here),
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


REAL = re.compile(r"^-?(?:\d*\.?\d+(?:e[-+]?\d+)?|\+?INF|\+?QNAN)$", re.IGNORECASE)
ROUNDINGS = {"FLOOR": np.floor, "CEIL": np.ceil, "TRUNC": np.trunc}
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "RCP": lambda x: 1 / x, "RSQ": lambda x: 1 / np.sqrt(x), "SQRT": np.sqrt, "EX2": np.exp2, "LG2": np.log2,
    "SIN": lambda x: np.sin(2 * np.pi * x), "COS": lambda x: np.cos(2 * np.pi * x), "TANH": np.tanh,
    "RCP64H": lambda x: 1 / x, "RSQ64H": lambda x: 1 / np.sqrt(x),
}  # fmt: skip


def floats(bits: Array) -> Array:
    return bits.astype(np.uint32).view(np.float32).astype(np.float64)


def words_of(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float32).view(np.uint32).astype(np.int64)


def doubles(low: Array, high: Array) -> Array:
    return pair(low, high).view(np.float64)


def halves_of(values: Array) -> tuple[Array, Array]:
    """The two words of doubles."""
    bits = np.ascontiguousarray(values, np.float64).view(np.int64)
    return bits & WORD, bits >> 32 & WORD


def _rounding(mods: set[str]) -> Callable[[Array], Array]:
    return next((function for name, function in ROUNDINGS.items() if name in mods), np.rint)


def to_float(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    if "F16" in mods:
        return None
    long = mods & {"S64", "U64"}
    small = next((int(kind[1:]) for kind in ("S8", "U8", "S16", "U16") if kind in mods), 0)

    def word(x: Array) -> Array:
        if small:
            x, top = x & (1 << small) - 1, 1 << small - 1
            return (x ^ top) - top if mods & {"S8", "S16"} else x
        return unsigned(x) if mods & {"U32", "U64"} else signed(x)

    def near(exact: Array) -> Any:
        if "F64" in mods:
            return halves_of(exact)
        out = exact.astype(np.float32)
        if "RP" in mods:
            out = np.where(out < exact, np.nextafter(out, np.float32(np.inf)), out)
        return words_of(out)

    targets = [dst[0], after(dst[0])] if "F64" in mods else dst[:1]
    if long:
        return targets, [*o.pair(src[0])], lambda low, up: near(low + word(up) * 2.0**32)
    return targets, [o.get(src[0])], lambda x: near(word(x).astype(np.float64))


def to_integer(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    found = operand(src[0], o, "F64" in mods)
    if "F16" in mods or found is None:
        return None
    sources, value = found
    rounded = _rounding(mods)
    if mods & {"S64", "U64"}:
        kind = np.uint64 if "U64" in mods else np.int64
        least, most = (0.0, 2.0**64 - 2048) if kind is np.uint64 else (-(2.0**63), 2.0**63 - 1024)

        def long(*words: Array) -> Any:
            out = np.clip(np.nan_to_num(rounded(value(*words))), least, most).astype(kind).view(np.int64)
            return out & WORD, out >> 32 & WORD

        return [dst[0], after(dst[0])], sources, long
    low, high = (0.0, 2.0**32 - 1) if "U32" in mods else (-(2.0**31), 2.0**31 - 1)
    return dst[:1], sources, lambda *words: (
        np.clip(np.nan_to_num(rounded(value(*words))), low, high).astype(np.int64) & WORD
    )  # fmt: skip


def converted(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    """A float of one width from one of another; FRND rounds one to a whole number."""
    kinds = [part for part in o.opcode.split(".") if part in ("F16", "F32", "F64")]
    to, of = (kinds[0], kinds[-1]) if kinds else ("F32", "F32")
    found = operand(src[0], o, of == "F64")
    if "F16" in kinds or found is None:
        return None
    sources, value = found
    whole = _rounding(mods) if o.opcode.startswith("FRND") else lambda x: x
    if to == "F64":
        return [dst[0], after(dst[0])], sources, lambda *words: halves_of(whole(value(*words)))
    return dst[:1], sources, lambda *words: words_of(whole(value(*words)))


def special_function(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    function = next((FUNCTIONS[name] for name in o.opcode.split(".")[1:] if name in FUNCTIONS), None)
    get = realoperand(src[0], o)
    if function is None or get is None or "F16" in mods:
        return None

    def single(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return words_of(function(floats(x)))

    def upper(high: Array) -> Array:  # the upper word of a double, from that of the argument
        with np.errstate(all="ignore"):
            return halves_of(function(doubles(np.zeros_like(high), high)))[1]

    return dst[:1], [get], upper if "64H" in o.opcode else single


def realoperand(token: str, o: Operands) -> Getter | None:
    """A 32-bit float; None for one that cannot be read."""
    if token.lstrip("-|")[:1] not in ("R", "U") and REAL.match(token):
        value = Column(words_of(np.array([float(token.replace("QNAN", "nan"))])))
        return lambda _: value
    return _signed(token, o.get(token.strip("-|")))


def _signed(token: str, get: Getter) -> Getter:
    """A float, or the upper word of one, with the sign of its operand."""
    if "|" in token:
        get = mapped(get, lambda x: x & 0x7FFFFFFF)
    return mapped(get, lambda x: x ^ 0x80000000) if token.startswith("-") else get


def operand(token: str, o: Operands, wide: bool) -> tuple[list[Getter], Callable[..., Array]] | None:
    """Getters of the words of a float, and the function to its value."""
    if not wide:
        get = realoperand(token, o)
        return None if get is None else ([get], floats)
    if REAL.match(token):
        low, high = (Column(word) for word in halves_of(np.array([float(token.replace("QNAN", "nan"))])))
        return [lambda _: low, lambda _: high], doubles
    first, second = o.pair(token.strip("-|"))
    return [first, _signed(token, second)], doubles


def float_of(count: int, function: Callable[..., Array], wide: bool = False) -> Callable[..., Known | None]:
    """`function`: of doubles, or of numbers that hold the product of two exactly enough."""

    def made(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
        found = [operand(token, o, wide) for token in src[:count]]
        if any(each is None for each in found):
            return None
        getters = [get for each in found if each for get in each[0]]
        if not wide:

            def single(*words: Array) -> Array:
                with np.errstate(all="ignore"):
                    return words_of(function(*map(floats, words)))

            return dst[:1], getters, single

        def long(*words: Array) -> Any:
            values = [doubles(*words[i : i + 2]).astype(np.longdouble) for i in range(0, 2 * count, 2)]
            with np.errstate(all="ignore"):
                return halves_of(np.asarray(function(*values)).astype(np.float64))

        return [dst[0], after(dst[0])], getters, long

    return made


def chosen(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    """FSEL takes the first where a predicate holds; FMNMX then the smaller one, else the larger one."""
    first, second = realoperand(src[0], o), realoperand(src[1], o)
    if first is None or second is None or len(src) != 3:
        return None
    if o.opcode.startswith("FSEL"):
        return dst[:1], [first, second, o.get(src[2])], lambda a, b, p: np.where(p, a, b)

    def extreme(a: Array, b: Array, least: Array) -> Array:
        x, y = floats(a), floats(b)
        return words_of(np.where(least, np.fmin(x, y), np.fmax(x, y)))

    return dst[:1], [first, second, o.get(src[2])], extreme


def half_constant(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    """-RZ, RZ and two halves: how compilers write a constant of 32 bits; other products of halves are not followed."""
    if len(src) != 4 or src[0].lstrip("-") != "RZ" or src[1] != "RZ" or not all(map(REAL.match, src[2:])):
        return None
    high, low = (int(np.float16(float(token)).view(np.uint16)) for token in src[2:])
    value = np.array([high << 16 | low], np.int64)
    return dst[:1], [], lambda: value


FLOATING: dict[str, Callable[[set[str], list[str], list[str], Operands], Known | None]] = {
    "I2F": to_float, "I2FP": to_float, "F2I": to_integer, "F2F": converted, "FRND": converted,
    "MUFU": special_function, "HFMA2": half_constant, "FSEL": chosen, "FMNMX": chosen,
    "FADD": float_of(2, lambda a, b: a + b), "FMUL": float_of(2, lambda a, b: a * b),
    "FFMA": float_of(3, lambda a, b, c: a * b + c),
    "DADD": float_of(2, lambda a, b: a + b, wide=True), "DMUL": float_of(2, lambda a, b: a * b, wide=True),
    "DFMA": float_of(3, lambda a, b, c: a * b + c, wide=True),
}  # fmt: skip
