"""What AMD's integer, logical and floating-point instructions compute: functions by the stem of the opcode.

Operands come as the last type of an opcode says (v_mad_i32_i24: signed, of 24 bits), results are kept as the first
says. Source: the instruction set manuals of CDNA 2 to 4 and RDNA 3 to 4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..isa.code import Instruction
from .arithmetic import bytes_of, ones, picked, turned
from .gcn_operands import Operands, made, put, put_mask, registers
from .lanes import WORD, Array, Column, Op, Thread, Value, known_in, number
from .operands import poisoning, words_of

TYPES = re.compile(r"^(?:s|v)_(.+?)((?:_(?:(?:b?f|[uib])(?:8|16|24|32|64)))+)$")


def parsed(opcode: str) -> tuple[str, list[str]]:
    """The stem of an opcode and its types: v_mad_u64_u32 is "mad" of u64 and u32."""
    if opcode.startswith("v_cvt_f32_ubyte"):
        return opcode[2:], ["f32", "b32"]
    if found := re.match(r"s_(pack_\w\w)_b32_b16$|v_(cvt_pk_[ui]16)_([ui]32)$", opcode):  # halves of whole words
        return found[1] or found[2], ["b32", found[3] or "b32"]
    found = TYPES.match(opcode.replace("v_s_", "v_"))
    return (re.sub("_(co|num)$", "", found[1]), found[2][1:].split("_")) if found else (opcode[2:], [])


def size(kind: str) -> int:
    return int(kind.lstrip("buif") or 32)


def _shifts(kind: str) -> tuple[int, Callable[[Array, Array], Array]]:
    """How many bits of a count are taken, and a shift to the right without the sign."""
    bits = size(kind)
    if bits < 64:
        return bits - 1, lambda x, by: (x & (1 << bits) - 1) >> by
    return 63, lambda x, by: (x.astype(np.uint64) >> by.astype(np.uint64)).astype(np.int64)


def _place(x: Array) -> Array:
    """The place of the highest bit of a number that is not 0."""
    high = x >> 32 & WORD
    top = np.where(high != 0, high, x & WORD).astype(np.float64)
    return np.frexp(top)[1].astype(np.int64) - 1 + np.where(high != 0, 32, 0)


def _first(x: Array) -> Array:
    """The place of the lowest bit; -1 where there is none."""
    return np.where(x == 0, -1, _place(x & -x))


def _leading(kind: str) -> Callable[[Array], Array]:
    bits = size(kind)

    def found(x: Array) -> Array:
        if kind[0] == "i":
            x = np.where(x < 0, ~x, x)
        return np.where(x == 0, -1, bits - 1 - _place(x))

    return found


def _permuted(a: Array, b: Array, selector: Array) -> Array:
    """Bytes of two words, the second of which holds bytes 0 to 3; then their signs, 0 and all ones."""
    signs = [(word >> at & 1) * 0xFF for word, at in ((b, 15), (b, 31), (a, 15), (a, 31))]
    return picked([*bytes_of(b, a), *signs, np.zeros_like(a), np.full_like(a, 0xFF)], selector, 8)


def _quads(x: Array) -> Array:
    """The lowest bit of each four, if any of them is set."""
    return (x | x >> 1 | x >> 2 | x >> 3) & 0x1111_1111_1111_1111


def _quadmask(x: Array) -> Array:
    out: Array = sum((_quads(x) >> 4 * place & 1) << place for place in range(16))
    return out


def _packed(a: Array, b: Array, low: int, high: int, bits: int) -> Array:
    """Two numbers side by side, each held within the range of its part."""
    part = (1 << bits) - 1
    return np.clip(a, low, high) & part | (np.clip(b, low, high) & part) << bits


def _median(a: Array, b: Array, c: Array) -> Array:
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


def _signed_field(x: Array, bits: Array) -> Array:
    top = np.left_shift(1, np.maximum(bits - 1, 0))
    return np.where(bits > 0, ((x & np.left_shift(1, bits) - 1) ^ top) - top, 0)


def _field(is_scalar: bool, kind: str) -> Callable[..., Array]:
    """A field of bits; scalar instructions have its place and size in one operand."""
    most, right = _shifts(kind)

    def taken(x: Array, at: Array, bits: Array | None = None) -> Array:
        if is_scalar:
            at, bits = at & most, at >> 16 & 0x7F
        else:
            assert bits is not None
            at, bits = at & 31, bits & 31
        if kind[0] == "i":
            return _signed_field(x >> at, np.minimum(bits, 62))
        return right(x, at) & np.left_shift(1, np.minimum(bits, 62)) - 1

    return taken


def function(opcode: str, stem: str, types: list[str]) -> Callable[..., Any] | None:
    """What an instruction computes of its operands; None where it is not known."""
    kind = types[-1] if types else "b32"
    if stem in FLOAT and kind in ("f32", "f64", "f16"):
        return FLOAT[stem]
    if stem in SIMPLE and kind[0] in "uib" and kind[:2] != "bf":
        return SIMPLE[stem]
    most, right = _shifts(kind)
    scalar = opcode.startswith("s_")
    match stem:
        case "lshl":
            return lambda x, by: x << (by & most)
        case "lshlrev":
            return lambda by, x: x << (by & most)
        case "lshr":
            return lambda x, by: right(x, by & most)
        case "lshrrev":
            return lambda by, x: right(x, by & most)
        case "ashr":
            return lambda x, by: x >> (by & most)
        case "ashrrev":
            return lambda by, x: x >> (by & most)
        case "bfe":
            return _field(scalar, kind)
        case "bfm":
            return lambda bits, at: np.left_shift(1, bits & most) - 1 << (at & most)
        case "flbit" | "ffbh" | "clz" | "cls" | "flbit_i32" | "clz_i32":
            return _leading(kind)
        case "cvt" | "cvt_flr" | "cvt_floor" | "cvt_rpi" | "cvt_nearest":
            return _converted(types, ROUNDS.get(stem, np.trunc))
        case "sad" if kind == "u32":
            return lambda a, b, c: np.abs(a - b) + c
        case "ashr_pk":
            low, high = (-128, 127) if types[0] == "i8" else (0, 255)
            return lambda a, b, by: _packed(a >> (by & 31), b >> (by & 31), low, high, 8)
        case "bitset0" | "bitset1":
            bit = int(stem[-1])
            return lambda at, x: x & ~np.left_shift(1, at & most) | np.left_shift(bit, at & most)
        case "bcnt0":
            return lambda x: size(kind) - ones(x & WORD if size(kind) == 32 else x)
    if found := re.fullmatch(r"lshl(\d)_add", stem):
        by = int(found[1])
        return lambda a, b: (a << by) + b
    if found := re.fullmatch(r"cvt_f32_ubyte(\d)", stem):
        at = 8 * int(found[1])
        return lambda x: (x >> at & 0xFF).astype(np.float64)
    return None


ROUNDS: dict[str, Callable[[Array], Array]] = {
    "cvt_flr": np.floor, "cvt_floor": np.floor, "cvt_rpi": lambda x: np.floor(x + 0.5),
    "cvt_nearest": lambda x: np.floor(x + 0.5),
}  # fmt: skip


def _converted(types: list[str], rounded: Callable[[Array], Array]) -> Callable[..., Any] | None:
    to, of = types[0], types[-1]
    if to[0] == "f" and of[0] in "uif":
        return lambda x: x.astype(np.float64)
    if to in ("u32", "i32") and of[0] == "f":
        low, high = (0.0, 2.0**32 - 1) if to[0] == "u" else (-(2.0**31), 2.0**31 - 1)
        return lambda x: np.clip(np.nan_to_num(rounded(x)), low, high).astype(np.int64)
    return None


def _divided(x: Array) -> Array:
    return np.divide(1.0, x, where=x != 0, out=np.full(np.shape(x), np.inf))


SIMPLE: dict[str, Callable[..., Array]] = {
    "mov": lambda a: a, "movk": lambda a: a, "accvgpr_read": lambda a: a, "accvgpr_write": lambda a: a,
    "accvgpr_mov": lambda a: a, "not": lambda a: ~a, "sext": lambda a: a,
    "add": lambda a, b: a + b, "add_nc": lambda a, b: a + b, "sub": lambda a, b: a - b, "sub_nc": lambda a, b: a - b,
    "subrev": lambda a, b: b - a, "subrev_nc": lambda a, b: b - a, "addk": lambda a, b: a + b,
    "mul": lambda a, b: a * b, "mul_lo": lambda a, b: a * b, "mulk": lambda a, b: a * b,
    "mul_hi": lambda a, b: a * b >> 32,
    "mad": lambda a, b, c: a * b + c, "mad_legacy": lambda a, b, c: a * b + c, "add3": lambda a, b, c: a + b + c,
    "lshl_add": lambda a, b, c: (a << (b & 31)) + c, "add_lshl": lambda a, b, c: a + b << (c & 31),
    "lshl_or": lambda a, b, c: a << (b & 31) | c, "and_or": lambda a, b, c: a & b | c, "or3": lambda a, b, c: a | b | c,
    "xad": lambda a, b, c: (a ^ b) + c, "xor3": lambda a, b, c: a ^ b ^ c,
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "xnor": lambda a, b: ~(a ^ b),
    "nand": lambda a, b: ~(a & b), "nor": lambda a, b: ~(a | b), "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b, "and_not1": lambda a, b: a & ~b, "or_not1": lambda a, b: a | ~b,
    "bfi": lambda a, b, c: a & b | ~a & c, "min": np.minimum, "max": np.maximum, "med3": _median,
    "min3": lambda a, b, c: np.minimum(np.minimum(a, b), c), "max3": lambda a, b, c: np.maximum(np.maximum(a, b), c),
    "maxmin": lambda a, b, c: np.minimum(np.maximum(a, b), c),
    "minmax": lambda a, b, c: np.maximum(np.minimum(a, b), c),
    "bcnt1": ones, "bcnt": lambda a, b: ones(a) + b, "ff1": _first, "ffbl": _first, "ctz": _first,
    "ff1_i32": _first, "ctz_i32": _first, "brev": turned, "bfrev": turned, "abs": np.abs,
    "absdiff": lambda a, b: np.abs(a - b), "perm": _permuted,
    "alignbit": lambda a, b, by: (a << 32 | b & WORD) >> (by & 31),
    "alignbyte": lambda a, b, by: (a << 32 | b & WORD) >> 8 * (by & 3),
    "pack_ll": lambda a, b: a & 0xFFFF | (b & 0xFFFF) << 16, "pack_lh": lambda a, b: a & 0xFFFF | b >> 16 << 16,
    "pack_hh": lambda a, b: a >> 16 | b >> 16 << 16, "pack_hl": lambda a, b: a >> 16 | (b & 0xFFFF) << 16,
    "cvt_pk_u16": lambda a, b: _packed(a, b, 0, 0xFFFF, 16),
    "cvt_pk_i16": lambda a, b: _packed(a, b, -0x8000, 0x7FFF, 16),
    "quadmask": _quadmask, "wqm": lambda x: _quads(x) * 15,
}  # fmt: skip
"""Of integers."""
FLOAT: dict[str, Callable[..., Array]] = {
    "mov": lambda a: a, "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "subrev": lambda a, b: b - a,
    "mul": lambda a, b: a * b, "fma": lambda a, b, c: a * b + c, "mad": lambda a, b, c: a * b + c,
    "fmac": lambda a, b, c: a * b + c, "mac": lambda a, b, c: a * b + c, "fmaak": lambda a, b, c: a * b + c,
    "fmamk": lambda a, b, c: a * b + c, "madak": lambda a, b, c: a * b + c, "madmk": lambda a, b, c: a * b + c,
    "min": np.fmin, "max": np.fmax, "trunc": np.trunc, "floor": np.floor, "ceil": np.ceil, "rndne": np.rint,
    "fract": lambda a: a - np.floor(a), "rcp": _divided, "rcp_iflag": _divided, "ldexp": lambda x, by: x * 2.0**by,
    "max3": lambda a, b, c: np.fmax(np.fmax(a, b), c), "min3": lambda a, b, c: np.fmin(np.fmin(a, b), c),
    "exp": np.exp2, "log": np.log2,
    "sqrt": lambda a: np.sqrt(np.maximum(a, 0.0)), "rsq": lambda a: _divided(np.sqrt(np.maximum(a, 0.0))),
    "med3": _median, "maximum": np.maximum, "minimum": np.minimum, "sin": lambda a: np.sin(2 * np.pi * a),
    "cos": lambda a: np.cos(2 * np.pi * a), "frexp_mant": lambda a: np.frexp(a)[0],
    # a quotient in steps, of which the first and second scale what is near the ends of the range
    "div_scale": lambda a, b, c: a, "div_fmas": lambda a, b, c: a * b + c, "div_fixup": lambda q, b, a: a / b,
}  # fmt: skip
"""Of floating-point numbers, in float64."""
ACCUMULATES = ("fmac", "mac", "bitset0", "bitset1")
"""What these write is their last operand too."""
KEEPS_SCC = ("mov", "movk", "mul", "mul_lo", "mul_hi", "brev", "ff1", "ff1_i32", "ctz", "ctz_i32", "flbit", "flbit_i32",
             "clz", "clz_i32", "cls", "sext", "bfm", "pack_ll", "pack_lh", "pack_hh", "pack_hl", "cvt", "mulk",
             "add_nc", "sub_nc", "bitset0", "bitset1")  # fmt: skip
"""Scalar instructions that leave the condition as it is."""
UPWARDS = ("mov", "add", "add_nc", "sub", "sub_nc", "mul", "mad", "lshl", "lshlrev", "lshl_add", "not")
"""The low word of their results depends on low words alone."""
MASKED = ("and", "or", "xor", "xnor", "nand", "nor", "andn2", "orn2", "and_not1", "or_not1", "bfi", "and_or", "or3",
          "lshl_or", "xad", "xor3", "bfe", "perm", "alignbit", "alignbyte", "abs", "sext", "pack_ll", "pack_lh",
          "pack_hh", "pack_hl", "bfm", "absdiff", "bitop3", "bitset0", "bitset1", "quadmask", "wqm")  # fmt: skip
"""Bits of any place of their operands may be lost."""
STILL = ("bcnt0", "bcnt1", "bcnt", "ff1", "ffbl", "ctz", "ff1_i32", "ctz_i32", "flbit", "ffbh", "clz", "cls",
         "flbit_i32", "clz_i32", "brev", "bfrev", "med3", "min3", "max3", "maxmin", "minmax", "cvt", "sad",
         "ashr_pk")  # fmt: skip
"""Their results do not move evenly when their operands do."""


def kept(value: Array, kind: str) -> Array:
    """The bits of a result of a type."""
    if kind == "f64":
        return np.asarray(value, np.float64).view(np.int64)
    if kind == "f16":
        with np.errstate(over="ignore"):
            return np.asarray(value, np.float16).view(np.uint16).astype(np.int64)
    if kind == "f32":
        return words_of(value)
    return value & 0xFFFF if size(kind) == 16 else value


def doubts(stem: str, kind: str, values: list[Array], out: Array, wide: bool) -> list[tuple[Any, ...]]:
    """What a result depends on beside its operands' even moves, as `Thread.note` takes it."""
    if kind[0] == "f" or stem in STILL or stem.startswith("cvt"):
        return [("still", *(words_of(each) if each.dtype == np.float64 else each for each in values))]
    if stem in MASKED:
        return [("masked", *values)]
    if stem in ("min", "max"):
        return [("LT", *values)]
    if stem == "mul_hi":
        return [("cut", values[0] * values[1], np.int64(32))]
    if stem in ("lshr", "ashr"):
        return [("cut", values[0], values[1] & 63)]
    if stem in ("lshrrev", "ashrrev"):
        return [("cut", values[1], values[0] & 63)]
    return [("cut", out, np.int64(32))] if wide and stem != "mov" else []


MATRIX = re.compile(r"v_(mfma|smfmac|wmma|swmmac|dot\d)")
CARRIES = re.compile(r"(?:s|v(?=\w*_co_))_(add|sub)(c|b)?(rev)?(?:_co)?(_ci)?_u32")
TWO = re.compile(rf"v_(div_scale|mad_(co_)?[ui]64)_|(?=v){CARRIES.pattern}")
"""Vector instructions whose second operand is written too: a mask."""


def poison(each: Instruction, o: Operands, masked: bool) -> Op:
    """Of an instruction for which there is no rule."""
    count = 2 if len(o.parts) > 1 and CARRIES.match(each.opcode) else 1
    writes = [name for part in o.parts[:count] for name in registers(part)]
    read = [name for part in o.parts[count:] for name in registers(part.strip("-|"))]
    o.reads.update(read)
    if each.opcode.startswith("s_"):
        writes.append("scc")
    run = poisoning(each.opcode, writes, read, bool(MATRIX.match(each.opcode)))
    return made(each, o, run, writes, masked=masked, named=each.opcode)


def computed(
    thread: Thread, each: Instruction, stem: str, types: Sequence[str], compute: Any, values: Sequence[Value],
    names: Sequence[str], sets: bool,
) -> None:  # fmt: skip
    """Write what an instruction computes, and note what it depends on."""
    columns = [value for value in values if value is not None]
    if len(columns) < len(values) or compute is None:
        put_mask(thread, [*names, *(["scc"] if sets else [])], None)
        return
    bits, known = [column.bits for column in columns], known_in(columns)
    with np.errstate(all="ignore"):
        value = np.atleast_1d(compute(*bits))
        kind = types[-1] if types else "b32"
        for how, *what in doubts(stem, kind, bits, value, len(names) == 2):
            thread.note(each.address, how, *(Column(np.atleast_1d(x), known) for x in what))
        out = kept(value, types[0] if types else "b32")
    put(thread, names, out, known)
    if sets:
        if stem in ("min", "max"):  # whether the first is chosen, which of two equal ones "max" does
            first = value == bits[0] if stem == "max" else bits[0] < bits[1]
            thread.set("scc", Column(np.atleast_1d(first), known))
        elif stem.startswith("lshl") and stem.endswith("_add"):
            thread.note(each.address, "GE", Column(value, known), Column(np.array([WORD + 1])))
            thread.set("scc", Column(value > WORD, known))
        elif types and types[-1] == "i32" and stem in ("add", "sub", "addk"):
            thread.set("scc", Column(np.atleast_1d(value != (value & WORD ^ 1 << 31) - (1 << 31)), known))
        else:
            word = out if len(names) == 2 else out & WORD
            thread.note(each.address, "NE", Column(word, known), number(0))
            thread.set("scc", Column(np.atleast_1d(word != 0), known))
