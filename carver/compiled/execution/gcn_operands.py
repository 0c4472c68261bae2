"""Operands of AMD's instructions, as getters of columns of lanes.

A mask of lanes is a column of bools under the names of the scalar registers that hold it. Read as a number it is what
its lanes hold together; a number that is read as a mask gives each lane its bit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..isa.code import Instruction
from .arithmetic import floats
from .lanes import FALSE, SIGN, TRUE, WORD, Array, Column, Value, applied, known_in, number, pair
from .ops import Thread

Getter = Callable[[Thread], Value]
SPLIT = re.compile(r",(?![^\[{]*[\]}])")
ONE = re.compile(r"^(v|s|a|ttmp)(\d+)$")
SEVERAL = re.compile(r"^(v|s|a|ttmp)\[(\d+):(\d+)\]$")
WHOLE = re.compile(r"^-?(0x[0-9a-f]+|\d+)$")
REAL = re.compile(r"^-?\d+\.\d+(e[-+]?\d+)?$")
SYMBOL = re.compile(r"^([\w.$]+)@(?:rel32|abs32|gotpcrel32)@(lo|hi)(?:\+\d+)?$")
PAIRS = {"vcc": ("vcc_lo", "vcc_hi"), "exec": ("exec_lo", "exec_hi"), "flat_scratch": ("flat_lo", "flat_hi"),
         "xnack_mask": ("xnack_lo", "xnack_hi")}  # fmt: skip
NAMES = ("vcc_lo", "vcc_hi", "exec_lo", "exec_hi", "m0", "scc")
HIGH = re.compile(r"^(?:s\d*[13579]|vcc_hi|exec_hi)$")
"""Registers that hold the upper half of a mask of 64 lanes."""
EXEC = "exec_lo"
SDWA = {"BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8), "WORD_0": (0, 16),
        "WORD_1": (16, 16)}  # fmt: skip
"""Where a part of a register begins, and its bits."""


def registers(token: str) -> list[str]:
    """The words that an operand names; none of a constant."""
    if found := ONE.match(token):
        return [token]
    if found := SEVERAL.match(token):
        return [f"{found[1]}{n}" for n in range(int(found[2]), int(found[3]) + 1)]
    if token in PAIRS:
        return list(PAIRS[token])
    return [token] if token in NAMES else []


@dataclass
class Operands:
    """An instruction's operands, its modifiers, and what the getters made of them read."""

    parts: list[str]
    mods: list[str]
    wave: int
    reads: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, each: Instruction, wave: int, text: str | None = None) -> Operands:
        heads, mods = list[str](), list[str]()
        for part in SPLIT.split(each.operands if text is None else text):
            words = part.split()
            heads += words[:1]
            mods += words[1:]
        return cls(heads, mods, wave)

    def modifier(self, name: str) -> str | None:
        """What stands behind `name:`."""
        return next((mod.partition(":")[2] for mod in self.mods if mod.startswith(f"{name}:")), None)

    def offset(self, name: str = "offset") -> int:
        found = self.modifier(name)
        return int(found, 0) if found and WHOLE.match(found) else 0

    def word(self, name: str) -> Getter:
        """A register as a number."""
        self.reads.add(name)
        half = 32 if self.wave == 64 and HIGH.match(name) else 0

        def got(thread: Thread) -> Value:
            held = thread.get(name)
            if held is None or held.bits.dtype != bool:
                return held
            if name == "scc":
                return Column(held.bits.astype(np.int64), held.known)
            if held.known is not None:
                return None
            return Column(thread.ballot(held.bits) >> half & WORD)

        return got

    def get(self, token: str, kind: str = "u32", place: int | None = None) -> Getter:
        """An operand as its type says: a word, or two as one signed number of 64 bits; floats in float64.

        `place`: among the sources, for which modifiers may choose a part.
        """
        sign, absolute = token.startswith("-") and not WHOLE.match(token) and not REAL.match(token), "|" in token
        token = token.lstrip("-").strip("|") if sign or absolute else token
        wide = kind.endswith("64")
        fetch = self._raw(token, wide, kind)
        part = self.modifier(f"src{place}_sel") if place is not None else None
        if part in SDWA:
            start, bits = SDWA[part]
            fetch = mapped(fetch, lambda x: x >> start & (1 << bits) - 1)
        cast = CASTS.get(kind)
        if cast is not None:
            fetch = mapped(fetch, cast)
        if absolute:
            fetch = mapped(fetch, np.abs)
        return mapped(fetch, np.negative) if sign else fetch

    def _raw(self, token: str, wide: bool, kind: str) -> Getter:
        if WHOLE.match(token):
            value = int(token, 0)
            held = Column(np.array([value if wide and kind != "f64" else value & WORD], np.int64))
            if kind == "f64":  # an integer constant is the low word; a literal the high one
                held = Column(np.array([value if -16 <= value <= 64 else value << 32], np.int64))
            return lambda _: held
        if REAL.match(token):
            held = Column(np.array([_bits(float(token), kind)], np.int64))
            return lambda _: held
        if found := SYMBOL.match(token):
            name = f"@{found[1]}" + (".high" if found[2] == "hi" else "")
            self.reads.add(name)
            return lambda thread: thread.get(name)
        if token in ("null", "off"):
            return lambda _: number(0)
        names = registers(token)
        if len(names) == 1:
            return self.word(names[0])
        if len(names) == 2:
            low, high = self.word(names[0]), self.word(names[1])
            return lambda thread: next(iter(applied(pair, [low(thread), high(thread)])), None)
        if token in ("vccz", "execz", "vccnz", "execnz"):
            return self.any_lane(token[:-1] if token[-2] != "n" else token[:-2], token[-2] == "n")
        return lambda _: None

    def mask(self, token: str) -> Getter:
        """An operand as a mask of lanes."""
        token = token.replace("|", "")
        if WHOLE.match(token):
            bits = int(token, 0)
            if bits in (0, -1):
                held = TRUE if bits else FALSE
                return lambda _: held
            return lambda thread: _by_lane(thread, number(bits), number(bits >> 32))
        names = registers(token)[: self.wave // 32]
        self.reads.update(names)
        if not names:
            return lambda _: None

        def got(thread: Thread) -> Value:
            words = [thread.get(name) for name in names]
            first = words[0]
            if first is None or first.bits.dtype == bool:
                return first
            high = words[-1]
            return None if high is None or high.bits.dtype == bool else _by_lane(thread, first, high)

        return got

    def any_lane(self, token: str, holds: bool) -> Getter:
        """Whether a mask holds in any lane of the wave, or in none."""
        get = self.mask(token)
        return lambda thread: _negated(any_of(thread, get(thread)), not holds)

    def scalar(self, name: str, holds: bool) -> Getter:
        """A predicate of the wave, or its opposite."""
        self.reads.add(name)
        return lambda thread: _negated(thread.get(name), not holds)


def _negated(held: Value, turned: bool) -> Value:
    return held if held is None or not turned else Column(~held.bits.astype(bool), held.known)


def any_of(thread: Thread, mask: Value) -> Value:
    """Whether a mask holds in any lane, of each lane's wave; known where a lane surely holds it, or no lane may."""
    if mask is None:
        return None
    if len(mask.bits) == 1 and mask.known is None:
        return mask
    sure = thread.ballot(mask.sure) != 0
    if mask.known is None:
        return Column(sure)
    known = sure | (thread.ballot(mask.possible) == 0)
    return Column(sure, None if known.all() else known)


def _by_lane(thread: Thread, low: Column, high: Column) -> Value:
    """Of each lane its bit of a number."""
    lane = thread.special("SR_LANEID")
    if lane is None:
        return None
    bits = np.where(lane.bits < 32, low.bits >> lane.bits % 32, high.bits >> lane.bits % 32) & 1 > 0
    return Column(bits, known_in([low, high]))


def mapped(fetch: Getter, function: Callable[[Array], Array]) -> Getter:
    def got(thread: Thread) -> Value:
        value = fetch(thread)
        return None if value is None else Column(function(value.bits), value.known)

    return got


def _bits(value: float, kind: str) -> int:
    if kind.endswith("64"):
        return int(np.float64(value).view(np.int64))
    if kind in ("f16", "bf16"):
        return int(np.float16(value).view(np.uint16))
    return int(np.float32(value).view(np.uint32))


def _narrow(bits: int, is_signed: bool) -> Callable[[Array], Array]:
    sign = 1 << bits - 1
    mask = (1 << bits) - 1
    return (lambda x: ((x & mask) ^ sign) - sign) if is_signed else (lambda x: x & mask)


CASTS: dict[str, Callable[[Array], Array]] = {
    "i32": lambda x: (x ^ SIGN) - SIGN, "f32": floats,
    "f64": lambda x: np.ascontiguousarray(x, np.int64).view(np.float64),
    "f16": lambda x: np.ascontiguousarray(x & 0xFFFF, np.uint16).view(np.float16).astype(np.float64),
    **{f"{sign}{bits}": _narrow(bits, sign == "i") for sign in "uib" for bits in (8, 16, 24)},
}  # fmt: skip
"""From the bits of an operand to what a type makes of them."""


def put(thread: Thread, names: Sequence[str], value: Any, known: Array | None) -> None:
    """Write a number into one or two registers."""
    bits = np.atleast_1d(value)
    thread.set(names[0], Column(bits & WORD, known))
    if len(names) > 1:
        thread.set(names[1], Column(bits >> 32 & WORD, known))
    for name in names[2:]:
        thread.set(name, None)


def put_mask(thread: Thread, names: Sequence[str], mask: Value) -> None:
    for name in names:
        thread.set(name, mask)
