"""What a launch on AMD's GPUs puts into memory and registers before a kernel starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...base.errors import CompileError, ConfigError
from ..binary import Binary
from ..isa import gcn
from ..isa.amdhsa import Header, header
from ..isa.code import Code
from ..isa.elf import Kernel
from ..isa.hsaco import assembly
from .gcn import decoded
from .gcn_operands import EXEC
from .lanes import WORD, Array, Column, number
from .launch import SPACE, Launch
from .program import Program

ARGUMENTS, PACKET, SYMBOLS = 0x7E * SPACE, 0x7D * SPACE, 0x7C * SPACE
"""Where the kernel's arguments, the packet that launches it, and its constants lie."""
SYMBOL_BYTES = 1 << 24
"""Symbols are so many bytes apart."""
SYMBOL = re.compile(r"([\w.$]+)@(?:rel32|abs32|gotpcrel32)@lo")
Words = dict[int, int]


def read(binary: Binary, isa: str, values: Mapping[str, Any]) -> tuple[Code, Program, Dispatch]:
    """The code of a kernel, its control flow, and its launch. Raises CompileError, ConfigError."""
    text = assembly(binary.code, binary.entry, isa)
    code = gcn.read(text, binary.entry)
    if not isa.startswith(code.isa):  # a generic target is named by what its members have in common
        raise CompileError(f"the code is for {code.isa}, and the device is a {isa}")
    symbols = frozenset(name for each in code.instructions for name in SYMBOL.findall(each.operands))
    launch = Dispatch(binary, header(text, code.isa, binary.entry), symbols, values)
    return code, Program(decoded(code), EXEC), launch


class Dispatch(Launch):
    """A launch as AMD's runtime makes it. `symbols`: names in the code that stand for addresses.

    Raises CompileError where the kernel has other parameters, ConfigError for a constant that the code does not name.
    """

    def __init__(self, binary: Binary, header: Header, symbols: frozenset[str], values: Mapping[str, Any]) -> None:
        own = tuple((each.offset, each.size) for each in header.arguments if not each.is_hidden)
        super().__init__(binary, Kernel(header.name, 0, b"", 0, 0, header.shared_bytes, parameters=own), values)
        self.header = header
        self._memory: dict[int, Words] = {ARGUMENTS: self.words, PACKET: {}}
        for each in header.arguments:
            if (n := self._hidden(each.kind.removeprefix("hidden_"), binary)) is not None:
                _put(self.words, each.offset, n, each.size)
        sizes = [g * b for g, b in zip(self.grid, self.block, strict=True)]
        for offset, n, size in (*((4 + 2 * i, n, 2) for i, n in enumerate(self.block)),
                                *((12 + 4 * i, n, 4) for i, n in enumerate(sizes)),
                                (28, header.shared_bytes + binary.shared_bytes, 4), (40, ARGUMENTS, 8)):  # fmt: skip
            _put(self._memory[PACKET], offset, n, size)
        if unknown := binary.constants.keys() - symbols:
            raise ConfigError(f"the code names no {min(unknown)!r}; it names {', '.join(sorted(symbols)) or 'none'}")
        self._symbols = {name: SYMBOLS + i * SYMBOL_BYTES for i, name in enumerate(sorted(symbols))}
        self._held: dict[int, Array] = {}
        for name, held in binary.constants.items():
            raw = np.ascontiguousarray(held).tobytes()
            self._held[self._symbols[name]] = np.frombuffer(raw.ljust(-(-len(raw) // 4) * 4, b"\0"), "<u4")

    def _hidden(self, kind: str, binary: Binary) -> int | None:
        """The number of a hidden argument; None for addresses of what belongs to the runtime."""
        axis = "xyz".find(kind[-1])
        match kind[:-2]:
            case "block_count":
                return self.grid[axis]
            case "group_size":
                return self.block[axis]
            case "remainder" | "global_offset":
                return 0
        return {"grid_dims": 3, "dynamic_lds_size": binary.shared_bytes}.get(kind)

    def registers(self, places: Mapping[str, Array]) -> dict[str, Column]:
        """What registers hold at the start; `places`: of each lane's block and thread."""
        start = self.header
        pointers = {"dispatch_ptr": PACKET, "kernarg_segment_ptr": ARGUMENTS}
        words: dict[str, int] = {}
        for name, at in start.user.items():
            if (address := pointers.get(name)) is not None:
                words |= {f"s{at}": address & WORD, f"s{at + 1}": address >> 32}
        first, offset, count = start.preloaded
        words |= {f"s{first + i}": self.words[offset + i] for i in range(count) if offset + i in self.words}
        for symbol, address in self._symbols.items():
            words |= {f"@{symbol}": address & WORD, f"@{symbol}.high": address >> 32}
        out = {name: number(word) for name, word in words.items()}
        blocks = [Column(places[f"SR_CTAID.{axis}"]) for axis in "XYZ"]
        if start.isa.startswith("gfx12"):
            out["ttmp9"] = blocks[0]
            out["ttmp7"] = Column(blocks[1].bits | blocks[2].bits << 16)
        else:
            at = start.system
            for asked, place in zip(start.ids, blocks, strict=True):
                if asked:
                    out[f"s{at}"] = place
                    at += 1
        threads = [places[f"SR_TID.{axis}"] for axis in "XYZ"][: start.dims]
        if start.packed:
            out["v0"] = Column(sum(each << 10 * i for i, each in enumerate(threads)))
        else:
            out |= {f"v{i}": Column(each) for i, each in enumerate(threads)}
        return {**out, "exec_lo": Column(np.ones(1, bool)), "exec_hi": Column(np.ones(1, bool))}

    def loaded(self, address: Column, width_bytes: int) -> list[Column | None]:
        """Words that a load gives, known where the contents of what it reads are."""
        place = int(address.bits[0]) if len(address.bits) else 0
        words = max(width_bytes // 4, 1)
        space = place // SPACE * SPACE
        if space == SYMBOLS:
            return self._symbol(address, words)
        memory = self._memory.get(space)
        if memory is None:
            return super().loaded(address, width_bytes)
        if width_bytes < 4:
            return [self._narrow(address, memory, space, width_bytes)]
        return [_looked_up(memory, Column(address.bits - space + 4 * i, address.known)) for i in range(words)]

    def _narrow(self, address: Column, memory: Words, space: int, width_bytes: int) -> Column | None:
        word = _looked_up(memory, Column(address.bits - space, address.known))
        if word is None:
            return None
        return Column(word.bits >> 8 * (address.bits % 4) & (1 << 8 * width_bytes) - 1, word.known)

    def _symbol(self, address: Column, words: int) -> list[Column | None]:
        base = int(address.bits[0]) // SYMBOL_BYTES * SYMBOL_BYTES
        held = self._held.get(base)
        if held is None:
            return [None] * words
        out: list[Column | None] = []
        for i in range(words):
            at = (address.bits - base) // 4 + i
            known = (at >= 0) & (at < len(held))
            bits = held[np.clip(at, 0, len(held) - 1)].astype(np.int64)
            known = known if address.known is None else known & address.known
            out.append(Column(bits, None if known.all() else known))
        return out


def _put(words: Words, offset: int, value: int, size: int) -> None:
    """A number of so many bytes at an offset."""
    for at in range(offset, offset + size):
        shift = 8 * (at % 4)
        byte = value >> 8 * (at - offset) & 0xFF
        words[at // 4] = words.get(at // 4, 0) & ~(0xFF << shift) | byte << shift


def _looked_up(words: Words, offsets: Column) -> Column | None:
    places, back = np.unique(offsets.bits // 4, return_inverse=True)
    held = [words.get(int(place)) for place in places]
    known = np.array([word is not None for word in held])[back]
    if offsets.known is not None:
        known = known & offsets.known
    if not known.any():
        return None
    return Column(np.array([word or 0 for word in held], np.int64)[back], None if known.all() else known)
