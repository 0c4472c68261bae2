"""What NVIDIA's integer and logical instructions compute: a table from mnemonics to functions on columns of lanes; and
functions of words that AMD's table names too."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from .lanes import MASK, WORD, Array, signed, unsigned
from .operands import FLOATING, IS_PREDICATE, NUMBER, Known, Operands, after, real

ZEROS = ("RZ", "URZ")
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
            alone = len(src) < 3 or src[2] in ZEROS

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
    rest = [o.get(token) for token in src[2 : 4 if "X" in mods else 3] if token not in ZEROS]
    if src[1] == "0x1" or (src[0] in ZEROS and src[1] in ZEROS):  # a move, or a sum
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
    terms = [token for token in terms if token not in ZEROS] or ["RZ"]
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
        third, alone = o.get(rest[2]) if len(rest) > 2 else o.get("RZ"), len(rest) < 3 or rest[2] in ZEROS

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


def truth_function(table: int) -> Logic:
    """The logical function of three words with this truth table: bit 4a + 2b + c is its value."""
    found: Logic | int = _function([table >> place & 1 for place in range(8)])
    if isinstance(found, int):
        return (lambda a, b, c: a | ~a) if found else (lambda a, b, c: a & ~a)
    return found


def _function(bits: list[int]) -> Any:
    """The function of three words of which `bits` are the values, by those last of these that so many bits tell apart
    (Shannon's expansion); a number, 0 or 1, where it is constant."""
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
    sources, function = [o.get(token) for token in src[:3]], truth_function(table)
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
        if (function := _shifted(mods, n, src[0] in ZEROS, src[2] in ZEROS, extended)) is not None:
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
    """A funnel shift by a number of bits that the code has; None for the one that has no shorter form."""
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
            if src[2 * word] in ZEROS:
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
        return picked([*(each := bytes_of(a, c)), *((byte >> 7) * 0xFF for byte in each)], selector, 4)

    return dst[:1], [o.get(token) for token in src[:3]], permuted


def bytes_of(*words: Array) -> list[Array]:
    return [word >> 8 * place & 0xFF for word in words for place in range(4)]


def picked(choices: Sequence[Array], selector: Array, bits: int) -> Array:
    """Words of four bytes, each of them one of the choices, of which a field of so many bits says which; beyond the
    last, the last."""
    *full, selector = np.broadcast_arrays(*choices, selector)
    fields = (np.minimum(selector >> bits * place & (1 << bits) - 1, len(full) - 1) for place in range(4))
    chosen = (np.take_along_axis(np.stack(full), field[None], 0)[0] for field in fields)
    return reduce(np.bitwise_or, (byte << 8 * place for place, byte in enumerate(chosen)))


def turned(x: Array) -> Array:
    """A word from its last bit to its first."""
    return sum((x >> place & 1) << 31 - place for place in range(32))


def ones(x: Array) -> Array:
    """Bits that are set."""
    return np.bitwise_count(x.astype(np.uint64)).astype(np.int64)


def select(mods: set[str], dst: list[str], src: list[str], o: Operands) -> Known | None:
    if "64" in mods:
        words = [*o.pair(src[0]), *o.pair(src[1]), o.get(src[2])]
        return [dst[0], after(dst[0])], words, lambda a, b, c, d, p: (np.where(p, a, c), np.where(p, b, d))
    return dst[:1], [o.get(token) for token in src[:3]], lambda a, b, p: np.where(p, a, b)


def plain(count: int, function: Callable[..., Any]) -> Callable[..., Known | None]:
    """Of an instruction with one result, that of so many words; what modifiers say is the function's first argument."""
    return lambda mods, dst, src, o: (dst[:1], [o.get(token) for token in src[:count]], partial(function, mods))


def extended(mods: set[str], x: Array, bits: Array) -> Array:
    bits = np.minimum(bits & 31 if "W" in mods else bits, 32)
    low = x & (np.left_shift(1, bits) - 1)
    sign = low >> np.maximum(bits - 1, 0) & 1
    return low if "U32" in mods else low - (sign << bits) & WORD


def difference(mods: set[str], x: Array, y: Array, more: Array) -> Array:
    return np.abs(x - y if "U32" in mods else signed(x) - signed(y)) + more & WORD


def leading(mods: set[str], x: Array) -> Array:
    """The place of the highest bit, or of the highest that differs from the sign; all ones where there is none."""
    x = x if "U32" in mods else np.where(signed(x) < 0, x ^ WORD, x)
    place = np.frexp(x.astype(np.float64))[1].astype(np.int64) - 1
    return np.where(x == 0, WORD, 31 - place if "SH" in mods else place)


def mask_of(_: set[str], at: Array, count: Array) -> Array:
    """A run of ones from one place on."""
    return (np.left_shift(1, np.minimum(count, 32)) - 1) << np.minimum(at, 32) & WORD


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
    "SGXT": plain(2, extended), "IABS": plain(1, lambda _, x: np.abs(signed(x)) & WORD), "FLO": plain(1, leading),
    "POPC": plain(1, lambda _, x: ones(x)), "BMSK": plain(2, mask_of),
    "BREV": plain(1, lambda _, x: turned(x)),
    "R2P": to_predicates, "R2UP": to_predicates, "P2R": from_predicates, "P2UR": from_predicates, "IDP": dot,
    "VABSDIFF": plain(3, difference), **FLOATING,
}  # fmt: skip
STILL = ("IDP", "POPC", "FLO", "BREV", *FLOATING.keys() - {"HFMA2"})
"""Their results do not move evenly when their operands do."""
MASKED = ("LOP3", "IABS", "VABSDIFF", "P2R", "P2UR", "R2P", "R2UP", "SGXT", "PRMT", "BMSK")
DOUBTFUL = (*MASKED, "IMAD", "LEA", "IADD3", "IADD", "SHF")
"""Nor do these in some cases; results of others always do."""
CARRY = 1 << 32


def doubts(kind: str, mods: set[str], dst: Sequence[str], src: Sequence[str]) -> Callable[..., Sequence[Doubt]] | None:
    """Of an instruction whose results may not move evenly when its operands do: a function of the operands to what that
    depends on."""
    if kind in STILL:
        return lambda *values: [("still", *values)]
    if kind not in DOUBTFUL:
        return None
    carries = len(dst) > 1
    by = next((int(token, 16) for token in reversed(src) if NUMBER.match(token) and token[0] != "-"), 0)
    if kind == "LOP3":
        table = max(place for place, token in enumerate(src) if NUMBER.match(token))
        sides = [int(token, 16) if NUMBER.match(token) else None if real(token) else 0 for token in src[:table][-3:]]
        if sides.count(None) == 1:  # of one register the lowest bits
            place = sides.index(None)
            ends = (truth_function(by)(*(end if side is None else side for side in sides)) for end in (0, WORD))
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
