"""Operands of NVIDIA's instructions, as getters of columns of lanes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..isa.code import Instruction
from .lanes import FALSE, TRUE, WORD, ZERO, Array, Column, Value, number, signed
from .ops import Thread

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


def real(name: str) -> bool:
    """Whether a name is that of a register, and not of the one that is always 0 or true."""
    return name[-1] not in "ZT"


class Operands:
    """Getters of an instruction's operands, which note what they read."""

    def __init__(self, each: Instruction) -> None:
        self.parts = (
            [part.strip().replace(".reuse", "") for part in SPLIT.split(each.operands)] if each.operands else []
        )
        self.reads: set[str] = set()
        self.opcode = each.opcode

    def get(self, token: str) -> Getter:
        if found := NUMBER.match(token):
            value = number(int(found[2], 0) * (-1 if found[1] else 1))
            return lambda _: value
        if found := CONSTANT.match(token):
            sign, fetch = found[1], self._constant(int(found[2], 16), found[3], int(found[4] or "0", 16))
        elif found := NAMED.match(token):
            sign, name, rest = found[1], found[2], found[3]
            if name in ("PT", "UPT"):
                return lambda _: FALSE if "!" in sign else TRUE
            if not real(name):
                return lambda _: number(WORD) if "~" in sign else ZERO
            self.reads.add(name)
            if "P" in name:
                return self._not(name) if "!" in sign else lambda thread: thread.get(name)
            fetch = lambda thread: thread.get(name)  # noqa: E731
            if part := re.search(r"\.([BH])(\d)", rest):
                width = 8 if part[1] == "B" else 16
                shift, mask = int(part[2]) * width, (1 << width) - 1
                return mapped(fetch, lambda x: x >> shift & mask)
        else:
            return lambda _: None
        if "~" in sign:
            return mapped(fetch, lambda x: x ^ WORD)
        if "|" in sign:
            return mapped(fetch, lambda x: (-np.abs(signed(x)) if "-" in sign else np.abs(signed(x))) & WORD)
        return mapped(fetch, lambda x: -x & WORD) if "-" in sign else fetch

    def _not(self, name: str) -> Getter:
        return mapped(lambda thread: thread.get(name), lambda x: ~x)

    def _constant(self, bank: int, register: str | None, offset: int) -> Getter:
        if register and real(register):
            self.reads.add(register)

            def indexed(thread: Thread) -> Value:
                at = thread.get(register)
                return None if at is None else thread.constant(bank, Column(at.bits + offset, at.known))

            return indexed
        where = Column(np.array([offset], np.int64))
        return lambda thread: thread.constant(bank, where)

    def pair(self, token: str) -> tuple[Getter, Getter]:
        """Low and high word of an operand of 64 bits."""
        token = token.replace(".64", "")
        if NUMBER.match(token):
            high = number(-1) if token.startswith("-") else ZERO
            return self.get(token), lambda _: high
        if found := CONSTANT.match(token):
            base = f"{found[3]}+" if found[3] else ""
            return self.get(token), self.get(f"c[{found[2]}][{base}{int(found[4] or '0', 16) + 4:#x}]")
        name = token.lstrip("-~|").split(".")[0].rstrip("|")
        return self.get(name), self.get(after(name))


def mapped(fetch: Getter, function: Callable[[Array], Array]) -> Getter:
    def got(thread: Thread) -> Value:
        value = fetch(thread)
        return None if value is None else Column(function(value.bits), value.known)

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
