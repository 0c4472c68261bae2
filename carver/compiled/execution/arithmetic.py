"""What NVIDIA's integer and logical instructions compute: a table from mnemonics to functions on columns of lanes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from .lanes import MASK, WORD, Array, Column, pair, signed, unsigned
from .operands import IS_PREDICATE, NUMBER, Getter, Known, Operands, after, mapped, real

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
        least = 0.0 if "U64" in mods else -(2.0**63)

        def long(*words: Array) -> Any:
            out = np.clip(np.nan_to_num(rounded(value(*words))), least, 2.0**63 - 1024).astype(np.int64)
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
    if REAL.match(token):
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


NOTHING = ("RZ", "URZ")
"""Registers that are 0."""
Doubt = tuple[Any, ...]
"""What an outcome depends on, as `Thread.note` takes it."""


def move(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    if "64" in mods:
        return [dst[0], after(dst[0])], [*o.pair(src[0])], lambda low, high: (low, high)
    return dst[:1], [o.get(src[-1] if len(src) > 1 and IS_PREDICATE.match(src[0]) else src[0])], lambda x: x


def multiply_add(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    extended = unsigned if "U32" in mods else signed
    a, b = o.get(src[0]), o.get(src[1])
    if "WIDE" in mods:
        low, high = o.pair(src[2]) if len(src) > 2 else (o.get("RZ"), o.get("RZ"))
        if len(dst) == 1 and "X" not in mods:
            alone = len(src) < 3 or src[2] in NOTHING

            def long(a: Array, b: Array, *words: Array) -> Any:
                total = extended(a) * extended(b)
                if words:
                    total = total + (words[0] | words[1] << 32)
                return total & MASK, total >> 32 & MASK

            return [dst[0], after(dst[0])], [a, b, *(() if alone else (low, high))], long
        carry = [o.get(src[3])] if "X" in mods else []

        def wide(a: Array, b: Array, low: Array, high: Array, *carried: Array) -> Any:
            product = extended(a) * extended(b)
            first = (product & WORD) + low + sum(carried)
            second = (product >> 32 & WORD) + high + (first >> 32)
            return (first & WORD, second & WORD, *([second >> 32 > 0] if len(dst) > 1 else []))

        return [dst[0], after(dst[0]), *dst[1:2]], [a, b, low, high, *carry], wide
    if "HI" in mods:
        low, high = o.pair(src[2])

        def upper(a: Array, b: Array, low: Array, high: Array) -> Any:
            product = extended(a) * extended(b)
            out = (product >> 32 & WORD) + high + ((product & WORD) + low >> 32)
            return (out & WORD, out >> 32 > 0) if len(dst) > 1 else out & WORD

        return dst[:2], [a, b, low, high], upper
    rest = [o.get(token) for token in src[2 : 4 if "X" in mods else 3] if token not in NOTHING]
    if src[1] == "0x1" or (src[0] in NOTHING and src[1] in NOTHING):  # a move, or a sum
        terms = [*([a] if src[1] == "0x1" else []), *rest]
        return dst[:1], terms or [a], summed
    return dst[:1], [a, b, *rest], lambda a, b, *rest: totalled(a * b, *rest) & MASK


def totalled(first: Array, *rest: Array) -> Array:
    """A sum of words, and carries behind them."""
    for each in rest:
        first = first + (each.astype(np.int64) if each.dtype == bool else each)
    return first


def summed(first: Array, *rest: Array) -> Array:
    """The lowest word of that."""
    if first.dtype == bool:
        first = first.astype(np.int64)
    return totalled(first, *rest) & MASK if rest else first


def add(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    terms = [token for token in src if not IS_PREDICATE.match(token)]
    if "64" in mods:
        words = [get for token in terms for get in o.pair(token)]
        signs = [-1 if token.startswith("-") and not NUMBER.match(token) else 1 for token in terms]

        def long(*words: Array) -> Any:
            halves = zip(words[::2], words[1::2], signs, strict=True)
            total = sum(sign * (low | high << 32) for low, high, sign in halves)
            return total & WORD, total >> 32 & WORD

        return [dst[0], after(dst[0])], words, long
    carries = [o.get(token) for token in src if IS_PREDICATE.match(token)] if "X" in mods else []
    terms = [token for token in terms if token not in NOTHING] or ["RZ"]
    words = [*(o.get(token) for token in terms), *carries]
    if len(dst) == 1:
        return dst, words, summed
    minus = [place for place, token in enumerate(terms) if token.startswith("-")]

    def total(*words: Array) -> Any:
        out = totalled(*words)
        if not minus:
            return (out & MASK, *([out > WORD, out > WORD + CARRY][: len(dst) - 1]))
        # a negated term is its complement plus one, which carries where the term is 0
        carried = (out >> 32) + sum((words[place] == 0).astype(np.int64) for place in minus)
        return (out & WORD, *([carried > 0, carried > 1][: len(dst) - 1]))

    return dst, words, total


def shift_add(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    carry = [o.get(src[-1])] if "X" in mods else []
    rest = src[:-1] if "X" in mods else src
    if "HI" in mods:
        by = int(rest[-1], 16) if NUMBER.match(rest[-1]) and len(rest) > 2 else 0
        rest = rest[:-1] if NUMBER.match(rest[-1]) and len(rest) > 2 else rest
        a, b = o.get(rest[0]), o.get(rest[1])
        third, alone = o.get(rest[2]) if len(rest) > 2 else o.get("RZ"), len(rest) < 3 or rest[2] in NOTHING

        def high(a: Array, b: Array, c: Array, *carried: Array) -> Any:
            shifted = (signed(a) if "SX32" in mods else a) >> 32 - by
            if "SX32" in mods or not alone:
                shifted = (shifted if "SX32" in mods else shifted | c << by) & MASK
            out = totalled(shifted + b, *carried)
            return (out & WORD, out > WORD) if len(dst) > 1 else out & WORD

        return dst[:2], [a, b, third, *carry], high
    by = int(rest[2], 16) if len(rest) > 2 and NUMBER.match(rest[2]) else 0

    def low(a: Array, b: Array, *carried: Array) -> Any:
        if len(dst) == 1:
            return totalled((a << by) + b, *carried) & MASK
        out = totalled((a << by & WORD) + b, *carried)
        return out & WORD, out > WORD

    return dst[:2], [o.get(rest[0]), o.get(rest[1]), *carry], low


Logic = Callable[[Array, Array, Array], Array]


@lru_cache(maxsize=1 << 8)
def looked_up(table: int) -> Logic:
    """The logical function of three with this truth table: bit 4a + 2b + c is its value."""
    found: Logic | int = _function([table >> place & 1 for place in range(8)])
    if isinstance(found, int):
        return (lambda a, b, c: a | ~a) if found else (lambda a, b, c: a & ~a)
    return found


def _function(bits: list[int]) -> Any:
    """That of the last of three words, two or one, or of all; 0 or 1 where it is constant."""
    half = len(bits) // 2
    if len(set(bits)) == 1:
        return bits[0]
    off, on, place = _function(bits[:half]), _function(bits[half:]), 3 - half.bit_length()
    if bits[:half] == bits[half:]:
        return on
    if isinstance(off, int) and isinstance(on, int):
        return (lambda *w: w[place]) if on else (lambda *w: ~w[place])
    if isinstance(off, int):
        return (lambda *w: ~w[place] | on(*w)) if off else (lambda *w: w[place] & on(*w))
    if isinstance(on, int):
        return (lambda *w: w[place] | off(*w)) if on else (lambda *w: ~w[place] & off(*w))
    if [1 - bit for bit in bits[:half]] == bits[half:]:
        return lambda *w: w[place] ^ off(*w)
    return lambda *w: w[place] & on(*w) | ~w[place] & off(*w)


def logic(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    test = next((name for name in dst if "P" in name), None)
    register = next((name for name in dst if "R" in name), None)
    if register is None:  # behind the predicate
        register, src = src[0], src[1:]
    if not NUMBER.match(src[3]):
        return None
    table = int(src[3], 16)
    sources, function = [o.get(token) for token in src[:3]], looked_up(table)
    if test is None:
        return [register], sources, (lambda a, b, c: function(a, b, c) & MASK) if table & 1 else function
    sources.append(o.get(src[4]) if len(src) > 4 else o.get("!PT"))
    joined = np.logical_and if "PAND" in mods else np.logical_or

    def tested(a: Array, b: Array, c: Array, p: Array) -> Any:
        out = function(a, b, c) & MASK
        return out, joined(out != 0, p)

    return [register, test], sources, tested


def shift(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    """A funnel shift of the pair of the third operand (high) and the first (low)."""
    long, extended = bool(mods & {"U64", "S64"}), bool(mods & {"S32", "S64"})
    most = 63 if long else 32
    if NUMBER.match(src[1]) and not long:
        n = int(src[1], 0)
        n = n & 31 if "W" in mods else min(n, 32)
        if (function := _shifted(mods, n, src[0] in NOTHING, src[2] in NOTHING, extended)) is not None:
            return dst[:1], [o.get(token) for token in src[:3]], function

    def shifted(low: Array, by: Array, high: Array) -> Array:
        by = by & (most if long else 31) if "W" in mods else np.minimum(by, most)
        if "L" in mods:
            value = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
            out = value << np.minimum(by, 63).astype(np.uint64)
            return (out >> np.uint64(32) if "HI" in mods else out & np.uint64(WORD)).astype(np.int64)
        if "HI" in mods and not long:
            return (signed(high) if extended else high) >> np.minimum(by, 31 if extended else 32) & WORD
        value = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
        out = value.astype(np.int64) >> by if extended else (value >> by.astype(np.uint64)).astype(np.int64)
        return (out >> 32 if "HI" in mods else out) & WORD

    return dst[:1], [o.get(token) for token in src[:3]], shifted


def _shifted(mods: set[str], n: int, no_low: bool, no_high: bool, extended: bool) -> Logic | None:
    """The same by a number of bits that is known."""
    by, rest = np.array(n), np.array(32 - n)
    if "L" in mods and "HI" not in mods:
        return lambda low, _, high: low << by & MASK
    if "L" in mods:
        if n == 32:
            return None
        return (lambda low, _, high: high << by & MASK) if no_low else (
            lambda low, _, high: (low >> rest | high << by) & MASK)  # fmt: skip
    if "HI" in mods:
        most = np.array(min(n, 31))
        return (lambda low, _, high: signed(high) >> most & MASK) if extended else (lambda low, _, high: high >> by)
    if no_high:
        return lambda low, _, high: low >> by
    return lambda low, _, high: (low >> by | high << rest) & MASK


def permute(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    if mods & {"F4E", "B4E", "RC8", "ECL", "ECR", "RC16"}:
        return None

    chosen = int(src[1], 0) if NUMBER.match(src[1]) and src[1][0] != "-" else None
    if chosen is not None:
        parts: dict[tuple[int, int], int] = {}  # by which word, and by how many bits they move, the bytes that it gives
        signs = []
        for place in range(4):
            word, at = divmod(chosen >> 4 * place & 7, 4)
            if src[2 * word] in NOTHING:
                continue
            if chosen >> 4 * place & 8:
                signs.append((2 * word, np.array(8 * at + 7), np.array(0xFF << 8 * place)))
            else:
                parts[word, 8 * (place - at)] = parts.get((word, 8 * (place - at)), 0) | 0xFF << 8 * at
        pieces = [(2 * word, np.array(mask), np.array(abs(by)), by > 0) for (word, by), mask in parts.items()]

        def moved(*words: Array) -> Array:
            out = [(words[word] & mask) << by if up else (words[word] & mask) >> by for word, mask, by, up in pieces]
            out += [(words[word] >> by & 1) * ones for word, by, ones in signs]
            return reduce(np.bitwise_or, out) if out else np.zeros(1, np.int64)

        return dst[:1], [o.get(token) for token in src[:3]], moved

    def permuted(a: Array, selector: Array, c: Array) -> Array:
        a, selector, c = np.broadcast_arrays(a, selector, c)
        choices = np.stack([word >> 8 * place & 0xFF for word in (a, c) for place in range(4)])
        out = np.zeros_like(a)
        for place in range(4):
            nibble = selector >> 4 * place & 15
            byte = np.take_along_axis(choices, (nibble & 7)[None], 0)[0]
            out = out | np.where(nibble & 8, (byte >> 7) * 0xFF, byte) << 8 * place
        return out

    return dst[:1], [o.get(token) for token in src[:3]], permuted


def select(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    if "64" in mods:
        words = [*o.pair(src[0]), *o.pair(src[1]), o.get(src[2])]
        return [dst[0], after(dst[0])], words, lambda a, b, c, d, p: (np.where(p, a, c), np.where(p, b, d))
    return dst[:1], [o.get(token) for token in src[:3]], lambda a, b, p: np.where(p, a, b)


def extend(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    def extended(x: Array, bits: Array) -> Array:
        bits = np.minimum(bits & 31 if "W" in mods else bits, 32)
        low = x & (np.left_shift(1, bits) - 1)
        sign = low >> np.maximum(bits - 1, 0) & 1
        return low if "U32" in mods else low - (sign << bits) & WORD

    return dst[:1], [o.get(token) for token in src[:2]], extended


def absolute(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    return dst[:1], [o.get(src[0])], lambda x: np.abs(signed(x)) & WORD


def ones(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    return dst[:1], [o.get(src[0])], lambda x: np.bitwise_count(x).astype(np.int64)


def leading(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    """The place of the highest bit, or of the highest that differs from the sign; all ones where there is none."""

    def found(x: Array) -> Array:
        x = x if "U32" in mods else np.where(signed(x) < 0, x ^ WORD, x)
        place = np.frexp(x.astype(np.float64))[1].astype(np.int64) - 1
        return np.where(x == 0, WORD, 31 - place if "SH" in mods else place)

    return dst[:1], [o.get(src[0])], found


def reversed_bits(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    return dst[:1], [o.get(src[0])], lambda x: sum((x >> place & 1) << 31 - place for place in range(32))


def mask_of(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    """A run of ones from one place on."""
    return dst[:1], [o.get(src[0]), o.get(src[1])], lambda at, count: (
        (np.left_shift(1, np.minimum(count, 32)) - 1) << np.minimum(at, 32) & WORD
    )  # fmt: skip


def dot(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    """A sum of products of bytes, or of two halves of a word with two of its bytes."""
    kinds = re.findall(r"\b([US])(8|16)\b", o.opcode)
    if len(kinds) != 2 or len(src) < 3 or not mods & {"2A", "4A"}:
        return None
    first = 2 if "HI" in mods else 0

    def part(word: Array, kind: tuple[str, str], place: int) -> Array:
        bits = int(kind[1])
        value = word >> bits * place & (1 << bits) - 1
        return value - ((value >> bits - 1) << bits) if kind[0] == "S" else value

    def summed(a: Array, b: Array, c: Array) -> Array:
        count = 2 if "2A" in mods else 4
        total = signed(c)
        for place in range(count):
            total = total + part(a, kinds[0], place) * part(b, kinds[1], place + (first if count == 2 else 0))
        return total & WORD

    return dst[:1], [o.get(token) for token in src[:3]], summed


def to_predicates(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    if len(o.parts) < 3 or not NUMBER.match(o.parts[-1]):
        return None
    mask, file = int(o.parts[-1], 16), "UP" if o.parts[0].startswith("U") else "P"
    places = [place for place in range(7) if mask >> place & 1]
    return [f"{file}{place}" for place in places], [o.get(o.parts[1])], lambda x: (
        tuple(x >> place & 1 > 0 for place in places)
    )  # fmt: skip


def from_predicates(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    mask = int(o.parts[-1], 16) if NUMBER.match(o.parts[-1]) else -1
    if mask < 0:
        return None
    target = o.parts[0].split(".")[0]
    file = "UP" if target.startswith("U") else "P"
    shift_by = 8 * int(found[1]) if (found := re.search(r"\.B(\d)", o.parts[0])) else 0
    places = [place for place in range(7) if mask >> place & 1]

    def packed(x: Array, *held: Array) -> Array:
        bits = sum(each.astype(np.int64) << place + shift_by for each, place in zip(held, places, strict=True))
        return (x & ~(mask << shift_by) | bits) & WORD

    return [target], [o.get(o.parts[2]), *(o.get(f"{file}{place}") for place in places)], packed


ARITHMETIC: dict[str, Callable[[set[str], list[str], list[str], Operands], Known | None]] = {
    "MOV": move, "R2UR": move, "MOV32I": move, "IMAD": multiply_add, "IMUL": multiply_add, "IADD3": add, "IADD": add,
    "VIADD": add, "IADD2": add, "LEA": shift_add, "LOP3": logic, "SHF": shift, "PRMT": permute, "SEL": select,
    "SGXT": extend, "IABS": absolute, "POPC": ones, "FLO": leading, "BREV": reversed_bits, "BMSK": mask_of,
    "R2P": to_predicates, "R2UP": to_predicates, "P2R": from_predicates, "P2UR": from_predicates, "IDP": dot,
    **FLOATING,
}  # fmt: skip
STILL = ("IDP", "POPC", "FLO", "BREV", *FLOATING.keys() - {"HFMA2"})
"""Their results do not move evenly when their operands do."""
MASKED = ("LOP3", "IABS", "P2R", "P2UR", "R2P", "R2UP", "SGXT", "PRMT", "BMSK")
CARRY = 1 << 32


def doubts(kind: str, mods: set[str], dst: Sequence[str], src: Sequence[str]) -> Callable[..., Sequence[Doubt]] | None:
    """Of an instruction whose results may not move evenly when its operands do: a function of the operands to what that
    depends on."""
    carries = len(dst) > 1
    by = next((int(token, 16) for token in reversed(src) if NUMBER.match(token) and token[0] != "-"), 0)
    if kind in STILL:
        return lambda *values: [("still", *values)]
    if kind == "LOP3":
        table = max(place for place, token in enumerate(src) if NUMBER.match(token))
        sides = [int(token, 16) if NUMBER.match(token) else None if real(token) else 0 for token in src[:table][-3:]]
        if sides.count(None) == 1:  # of one register the lowest bits
            place = sides.index(None)
            ends = (looked_up(by)(*(end if side is None else side for side in sides)) for end in (0, WORD))
            top = ((next(ends) ^ next(ends)) & WORD).bit_length()
            return lambda *values: [("low", values[place], top)]
    if kind in MASKED:
        return lambda *values: [("masked", *(value for value in values if value.dtype != bool))]
    if kind == "IMAD" and "HI" in mods:
        extended = unsigned if "U32" in mods else signed

        def upper(a: Array, b: Array, low: Array, high: Array) -> Sequence[Doubt]:
            product = extended(a) * extended(b)
            out = (product >> 32 & WORD) + high
            return [("cut", product + low, 32), ("GE", out, CARRY)] if carries else [("cut", product + low, 32)]

        return upper
    if kind == "IMAD" and "WIDE" in mods:
        return lambda a, b, *words: [("GE", (a * b & WORD) + words[0] if words else a * b & WORD, CARRY)]
    if kind == "LEA":
        if "HI" in mods:

            def high(a: Array, b: Array, c: Array, *_: Array) -> Sequence[Doubt]:
                shifted = signed(a) >> 32 - by if "SX32" in mods else a >> 32 - by | c << by
                cut = ("cut", signed(a) if "SX32" in mods else a, 32 - by)
                return [cut, ("GE", (shifted & WORD) + b, CARRY)] if carries else [cut]

            return high
        return (lambda a, b, *_: [("GE", (a << by & WORD) + b, CARRY)]) if carries else None
    if kind in ("IADD3", "IADD") and carries:

        def crossed(*terms: Array) -> Sequence[Doubt]:
            total = totalled(*terms)
            return [("GE", total, CARRY * n) for n in range(1, len(dst))]

        return crossed
    if kind == "SHF" and "L" in mods and "HI" in mods:
        return lambda low, by, high: [("cut", low, 32 - np.minimum(by, 32))]
    if kind == "SHF" and "R" in mods:
        if "HI" in mods and not mods & {"U64", "S64"}:
            return lambda low, by, high: [("cut", signed(high) if "S32" in mods else high, np.minimum(by, 32))]
        return lambda low, by, high: [("cut", low | high << 32, np.minimum(by, 63) + (32 if "HI" in mods else 0))]
    return None
