"""What NVIDIA's instructions on floats and doubles compute, where branches or addresses depend on them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from .lanes import WORD, Array, Column, pair, signed, unsigned
from .operands import Getter, Known, Operands, after, mapped

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
