"""What a launch puts into memory and registers before a kernel starts, on NVIDIA's and AMD's GPUs, and where its
tensors lie: addresses tell which argument they belong to."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from ...base.errors import CompileError, ConfigError
from ...base.types import Record
from ..binary import Binary, Struct, Tensor, TensorMap
from ..isa import amd, sass
from ..isa.amd import Header, assembly, header
from ..isa.code import Code
from ..isa.sass import Kernel
from .gcn import decoded
from .gcn_operands import EXEC
from .lanes import UNKNOWN, WORD, Array, Column, number
from .program import Program

KNOWN = ("int8", "uint8", "int16", "uint16", "int32", "int64", "uint32", "uint64", "float32", "float64")
"""Types of tensors whose contents are followed."""
SPACE = 1 << 40
"""Tensors are so many bytes apart: no address of one is taken for another's."""
PARAMETERS = 0x7E * SPACE
"""Where code finds the parameters that it addresses in memory, such as tensor maps."""
STACK_TOP = 0xFFFDC0
MAP_BYTES, MOST_BOX = 128, 256
"""Of a tensor map; the longest side of its box in elements."""
SIZES_AT = 0x360
"""Of the block and the grid in constant bank 0 since compute capability 10.0; at its start before."""
BLACKWELL = 100
CLUSTER_AT = {False: (0x144, 0x150, 0x188), True: (0x2A0, 0x2B0, 0x2CC)}
"""By whether it is Blackwell: sizes of a cluster, one over each, and the number of its blocks."""
STACK_AT, PARAMETERS_AT = {False: 0x28, True: 0x37C}, {False: (0x198, 0x118), True: (0x348, 0x358)}
"""By whether it is Blackwell: the stack pointer, and pointers to the parameters."""


Sizes = tuple[int, int, int]


class Place(Record):
    """One tensor of a launch."""

    name: str
    tensor: Tensor
    map: TensorMap | None = None
    """The tensor map that it is reached through."""


class Launch:
    """Constant memory of a launch, its tensors, and what they hold as far as it was told.

    `values`: contents of integer tensors by name. Raises CompileError where the kernel has other parameters.
    """

    def __init__(self, binary: Binary, kernel: sass.Kernel, values: Mapping[str, Any]) -> None:
        self.grid: Sizes = (binary.grid[0], binary.grid[1], binary.grid[2])
        self.block, self.sm, self.cluster = binary.block, kernel.sm, kernel.cluster
        self.places: dict[int, Place] = {}
        self._maps: dict[int, int] = {}
        self._contents: dict[int, Array] = {}
        self._read: dict[tuple[int, int], Column | None] = {}
        """Words of constant memory that all lanes read, by bank and place."""
        self.words: dict[int, int] = {}
        parameters = kernel.parameters
        if len(binary.args) != len(parameters):
            raise CompileError(
                f"{kernel.name} has {len(parameters)} parameters, of {[size for _, size in parameters]} bytes; "
                f"{len(binary.args)} arguments were given, where a struct counts as one"
            )
        for place, ((offset, size), value) in enumerate(zip(parameters, binary.args, strict=True)):
            name = binary.names[place] or f"arg{place}"
            self._put(kernel.parameters_at + offset, size, value, name, offset, values)
        end = max((offset + size for offset, size in parameters), default=0)
        beyond = (kernel.parameters_bytes - end) // MAP_BYTES if parameters else 0
        self.maps_at = [kernel.parameters_bytes - MAP_BYTES * (beyond - i) for i in range(beyond)]
        """Of tensor maps that the driver adds behind the parameters."""
        self.unsized: set[int] = set()
        """Addresses of those whose boxes are not known yet."""
        self.banks = dict(kernel.banks)
        self._tables = sorted(kernel.constants.values())
        if self.sm:
            self._fill(kernel, binary.constants)

    def _fill(self, kernel: sass.Kernel, constants: Mapping[str, Any]) -> None:
        """What NVIDIA's driver puts beside the parameters, and constants by symbol."""
        new = self.sm >= BLACKWELL
        at = SIZES_AT if new else 0
        for i, n in enumerate((*self.block, *self.grid)):
            self.words.setdefault((at + 4 * i + (4 if new and i >= 3 else 0)) // 4, n)
        sizes_at, inverse_at, count_at = CLUSTER_AT[new]
        for i, n in enumerate(self.cluster):
            self.words.setdefault(sizes_at // 4 + i, n)
            self.words.setdefault(inverse_at // 4 + i, int.from_bytes(struct.pack("<f", 1.0 / n), "little"))
        self.words.setdefault(count_at // 4, prod(self.cluster))
        self.words.setdefault(STACK_AT[new] // 4, STACK_TOP)
        for where in PARAMETERS_AT[new]:
            if where < kernel.parameters_at:
                self.words.setdefault(where // 4, PARAMETERS & WORD)
                self.words.setdefault(where // 4 + 1, PARAMETERS >> 32)
        for symbol, held in constants.items():
            if symbol not in kernel.constants:
                raise ConfigError(
                    f"the code has no constant {symbol!r}; it has {', '.join(kernel.constants) or 'none'}"
                )
            bank, start = kernel.constants[symbol]
            data = bytearray(self.banks.get(bank, b""))
            raw = np.ascontiguousarray(held).tobytes()
            data[start : start + len(raw)] = raw
            self.banks[bank] = bytes(data)

    def registers(self, places: Mapping[str, Array]) -> dict[str, Column]:
        """What registers hold at the start; `places`: of each lane's block and thread."""
        return {}

    def _put(self, at: int, size: int, value: Any, name: str, offset: int, values: Mapping[str, Any]) -> None:
        if isinstance(value, Tensor):
            raw = struct.pack("<Q", self._placed(Place(name, value), values))
        elif isinstance(value, TensorMap):
            self._maps[PARAMETERS + offset] = self._placed(Place(name, value.tensor, value), values)
            return
        elif isinstance(value, Struct):
            whole = bytearray(value.data)
            for where, tensor in value.tensors.items():
                named = f"{name}.{where}" if len(value.tensors) > 1 else name
                whole[where : where + 8] = struct.pack("<Q", self._placed(Place(named, tensor), values))
            raw = bytes(whole)
        else:
            raw = b"\0" * 8 if value is None else np.asarray(value).tobytes()
        if len(raw) > size and any(raw[size:]):
            raise ConfigError(
                f"{name} has {len(raw)} bytes, the parameter in its place {size}: the arguments of a binary or a "
                "source are given in the order of its parameters"
            )
        negative = isinstance(value, np.signedinteger) and value < 0
        raw = raw[:size].ljust(-(-size // 4) * 4, b"\xff" if negative else b"\0")
        for i in range(0, len(raw), 4):
            self.words[(at + i) // 4] = int.from_bytes(raw[i : i + 4], "little")

    def _placed(self, place: Place, values: Mapping[str, Any]) -> int:
        address = (len(self.places) + 1) * SPACE
        self.places[address // SPACE] = place
        if place.name in values:
            held = np.asarray(values[place.name])
            if place.tensor.dtype in KNOWN:
                kind = np.dtype(place.tensor.dtype)
                full = np.broadcast_to(held, place.tensor.shape) if held.ndim == 0 else held
                raw = np.ascontiguousarray(full, kind).tobytes()
                self._contents[address // SPACE] = np.frombuffer(raw.ljust(-(-len(raw) // 4) * 4, b"\0"), "<u4")
        return address

    @property
    def told(self) -> set[str]:
        """Tensors of which the contents are known."""
        return {self.places[n].name for n in self._contents}

    def map(self, at: int, address: int) -> None:
        """Take the map at an address for one of the tensor at another."""
        place = self.places[address // SPACE]
        dims, pitches = place.tensor.shape[::-1], place.tensor.strides[-2::-1]
        pitches_bytes = tuple(n * place.tensor.item_bytes for n in pitches)
        made = TensorMap(place.tensor, dims, pitches_bytes, tuple(min(n, MOST_BOX) for n in dims))
        self.places[address // SPACE] = replace(place, map=made)
        self._maps[at] = address
        self.unsized.add(at)

    def size(self, at: int, apart: Sequence[int]) -> None:
        """Set the box of such a map: the lengths along its axes, 0 where one is not known."""
        place = self.places[self._maps[at] // SPACE]
        assert place.map is not None
        box = tuple(n or most for n, most in zip(apart, place.map.box, strict=True))
        self.places[self._maps[at] // SPACE] = replace(place, map=replace(place.map, box=box))
        self.unsized.discard(at)

    def place_of(self, address: int) -> Place | None:
        """The tensor that an address, or that of a tensor map, belongs to."""
        return self.places.get(self._maps.get(address, address) // SPACE)

    def table_bytes(self, bank: int, offset: int) -> int:
        """Of the symbol in constant memory to which a place belongs; of bank 0, the launch's own, none."""
        ends = [start for held, start in self._tables if held == bank]
        first = max((start for start in ends if start <= offset), default=0)
        return min((start for start in ends if start > offset), default=len(self.banks.get(bank, b""))) - first

    def constant(self, bank: int, offsets: Column) -> Column | None:
        """Words of constant memory at offsets in bytes."""
        at = offsets.bits // 4
        if len(at) == 1 and offsets.known is None:
            key = bank, int(at[0])
            if key not in self._read:
                self._read[key] = self._constant(bank, at, None)
            return self._read[key]
        return self._constant(bank, at, offsets.known)

    def _constant(self, bank: int, at: Array, sure: Array | None) -> Column | None:
        """Words of it, known where `sure`."""
        if bank:
            data = self.banks.get(bank, b"")
            return _among(np.frombuffer(data[: len(data) // 4 * 4], "<u4"), at, sure) if len(data) >= 4 else None
        if len(at) > 1:
            return _looked_up(self.words, Column(4 * at, sure))
        word = self.words.get(int(at[0]))
        return None if word is None else Column(np.array([word], np.int64), sure)

    def loaded(self, address: Column, width_bytes: int) -> list[Column | None]:
        """Words that a load of global memory gives, or part of one, known where the contents of its tensor are. What is
        not known counts as 0, so that an address that it is part of still tells its tensor."""
        words, lost = max(width_bytes // 4, 1), UNKNOWN
        if not self._contents or (width_bytes < 4 and not self.sm):
            return [lost] * words
        out: list[Column | None] = []
        space = address.bits // SPACE
        for i in range(words):
            bits, known = np.zeros(len(space), np.int64), np.zeros(len(space), bool)
            for place, held in self._contents.items():
                at = (address.bits - place * SPACE) // 4 + i
                here = (space == place) & (at >= 0) & (at < len(held))
                bits[here], known[here] = held[at[here]], True
            if address.known is not None:
                known &= address.known
            if width_bytes < 4:
                bits = bits >> 8 * (address.bits % 4) & (1 << 8 * width_bytes) - 1
            out.append(Column(bits, None if known.all() else known) if known.any() else lost)
        return out


ARGUMENTS, PACKET, SYMBOLS = 0x7E * SPACE, 0x7D * SPACE, 0x7C * SPACE
"""Where the kernel's arguments, the packet that launches it, and its constants lie."""
SYMBOL_BYTES = 1 << 24
"""Symbols are so many bytes apart."""
SYMBOL = re.compile(r"([\w.$]+)@(?:rel32|abs32|gotpcrel32)@lo")
Words = dict[int, int]


def dispatched(binary: Binary, isa: str, values: Mapping[str, Any]) -> tuple[Code, Program, Dispatch]:
    """The code of a kernel, its control flow, and its launch. Raises CompileError, ConfigError."""
    text = assembly(binary.code, binary.entry, isa)
    code = amd.read(text, binary.entry)
    if not isa.startswith(code.isa):  # a generic target is named by what its members have in common
        raise CompileError(f"the code is for {code.isa}, and the device is a {isa}")
    code = replace(code, isa=isa)
    symbols = frozenset(name for each in code.instructions for name in SYMBOL.findall(each.operands))
    launch = Dispatch(binary, header(text, isa, binary.entry), symbols, values)
    return code, Program(decoded(code), EXEC), launch


class Dispatch(Launch):
    """A launch as AMD's runtime makes it. `symbols`: names in the code that stand for addresses.

    Raises CompileError where the kernel has other parameters, ConfigError for a constant that the code does not name.
    """

    def __init__(self, binary: Binary, header: Header, symbols: frozenset[str], values: Mapping[str, Any]) -> None:
        own = tuple((each.offset, each.size) for each in header.arguments
                    if not each.kind.startswith("hidden_"))  # fmt: skip
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
        return [_among(held, (address.bits - base) // 4 + i, address.known) for i in range(words)]


def _put(words: Words, offset: int, value: int, size: int) -> None:
    """A number of so many bytes at an offset."""
    for at in range(offset, offset + size):
        shift = 8 * (at % 4)
        byte = value >> 8 * (at - offset) & 0xFF
        words[at // 4] = words.get(at // 4, 0) & ~(0xFF << shift) | byte << shift


def _among(words: Array, at: Array, sure: Array | None) -> Column:
    """Those at these places, known where there are such and `sure`."""
    known = (at >= 0) & (at < len(words))
    known = known if sure is None else known & sure
    bits = words[np.clip(at, 0, len(words) - 1)].astype(np.int64)
    return Column(bits, None if known.all() else known)


def _looked_up(words: Words, offsets: Column) -> Column | None:
    """Words at offsets in bytes; None where none is known."""
    places, back = np.unique(offsets.bits // 4, return_inverse=True)
    held = [words.get(int(place)) for place in places]
    known = np.array([word is not None for word in held])[back]
    if offsets.known is not None:
        known = known & offsets.known
    if not known.any():
        return None
    return Column(np.array([word or 0 for word in held], np.int64)[back], None if known.all() else known)
