"""What a launch puts into memory and registers before a kernel starts, on NVIDIA's and AMD's GPUs, and where its
tensors lie: addresses tell which argument they belong to."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
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
from .lanes import UNKNOWN, Array, Column, Value, distinct, number
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


class Segment:
    """A piece of memory in words of 32 bits, each known if any byte of it was put. `lost`: what a read gives where no
    lane reads a word that is known; where others do, a lane that does not reads 0."""

    def __init__(self, raw: bytes = b"", lost: Value = None) -> None:
        self.bits, self.known, self.lost = np.zeros(0, "<u4"), np.zeros(0, bool), lost
        self.put(0, raw)

    def put(self, at_bytes: int, raw: bytes) -> None:
        end = -(-(at_bytes + len(raw)) // 4)
        if (more := end - len(self.bits)) > 0:
            self.bits = np.concatenate([self.bits, np.zeros(more, "<u4")])
            self.known = np.concatenate([self.known, np.zeros(more, bool)])
        self.bits.view(np.uint8)[at_bytes : at_bytes + len(raw)] = np.frombuffer(raw, np.uint8)
        self.known[at_bytes // 4 : end] = True

    def read(self, at_bytes: Column, width_bytes: int = 4) -> list[Value]:
        """The words there, or a part of one."""
        out: list[Value] = []
        for place in (at_bytes.bits // 4 + i for i in range(max(width_bytes // 4, 1))):
            known = (place >= 0) & (place < len(self.bits))
            inside = place[known]
            bits = np.zeros(len(place), np.int64)
            bits[known], known[known] = self.bits[inside], self.known[inside]
            if at_bytes.known is not None:
                known = known & at_bytes.known
            if width_bytes < 4:
                bits = bits >> 8 * (at_bytes.bits % 4) & (1 << 8 * width_bytes) - 1
            out.append(Column(bits, None if known.all() else known) if known.any() else self.lost)
        return out


class Launch:
    """Constant memory of a launch, its tensors, and what they hold as far as it was told.

    `values`: contents of integer tensors by name. Raises CompileError where the kernel has other parameters.
    """

    def __init__(self, binary: Binary, kernel: sass.Kernel, values: Mapping[str, Any]) -> None:
        self.grid: Sizes = (binary.grid[0], binary.grid[1], binary.grid[2])
        self.block, self.sm, self.cluster = binary.block, kernel.sm, kernel.cluster
        self.places: dict[int, Place] = {}
        self._maps: dict[int, int] = {}
        self.spaces: dict[int, Segment] = {}
        """What memory holds, by the number of the space; with 0 for what is not known, an address that a word of a
        tensor is part of still tells its tensor."""
        self.banks = {bank: Segment(raw, UNKNOWN) for bank, raw in kernel.banks.items() if len(raw) >= 4}
        self.banks[0] = Segment()
        self._read: dict[tuple[int, int], Value] = {}
        """Words of constant memory that all lanes read, by bank and place."""
        parameters = kernel.parameters
        if len(binary.args) != len(parameters):
            raise CompileError(
                f"{kernel.name} has {len(parameters)} parameters, of {[size for _, size in parameters]} bytes; "
                f"{len(binary.args)} arguments were given, where a struct counts as one"
            )
        self._tables = sorted(kernel.constants.values())
        if self.sm:
            self._fill(kernel, binary.constants)
        for place, ((offset, size), value) in enumerate(zip(parameters, binary.args, strict=True)):
            name = binary.names[place] or f"arg{place}"
            self._put(kernel.parameters_at + offset, size, value, name, offset, values)
        end = max((offset + size for offset, size in parameters), default=0)
        beyond = (kernel.parameters_bytes - end) // MAP_BYTES if parameters else 0
        self.maps_at = [kernel.parameters_bytes - MAP_BYTES * (beyond - i) for i in range(beyond)]
        """Of tensor maps that the driver adds behind the parameters."""
        self.unsized: set[int] = set()
        """Addresses of those whose boxes are not known yet."""

    def _fill(self, kernel: sass.Kernel, constants: Mapping[str, Any]) -> None:
        """What NVIDIA's driver puts beside the parameters, and constants by symbol."""
        new, own = self.sm >= BLACKWELL, self.banks[0]
        at = SIZES_AT if new else 0
        sizes_at, inverse_at, count_at = CLUSTER_AT[new]
        own.put(at, struct.pack("<3I", *self.block))
        own.put(at + (16 if new else 12), struct.pack("<3I", *self.grid))
        own.put(sizes_at, struct.pack("<3I", *self.cluster))
        own.put(inverse_at, struct.pack("<3f", *(1.0 / n for n in self.cluster)))
        own.put(count_at, struct.pack("<I", prod(self.cluster)))
        own.put(STACK_AT[new], struct.pack("<I", STACK_TOP))
        for where in PARAMETERS_AT[new]:
            if where < kernel.parameters_at:
                own.put(where, struct.pack("<Q", PARAMETERS))
        for symbol, held in constants.items():
            if symbol not in kernel.constants:
                raise ConfigError(
                    f"the code has no constant {symbol!r}; it has {', '.join(kernel.constants) or 'none'}"
                )
            bank, start = kernel.constants[symbol]
            self.banks.setdefault(bank, Segment(lost=UNKNOWN)).put(start, np.ascontiguousarray(held).tobytes())

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
        self.banks[0].put(at, raw[:size].ljust(-(-size // 4) * 4, b"\xff" if negative else b"\0"))

    def _placed(self, place: Place, values: Mapping[str, Any]) -> int:
        address = (len(self.places) + 1) * SPACE
        self.places[address // SPACE] = place
        if place.name in values:
            held = np.asarray(values[place.name])
            if place.tensor.dtype in KNOWN:
                kind = np.dtype(place.tensor.dtype)
                full = np.broadcast_to(held, place.tensor.shape) if held.ndim == 0 else held
                self.spaces[address // SPACE] = Segment(np.ascontiguousarray(full, kind).tobytes(), UNKNOWN)
        return address

    @property
    def told(self) -> set[str]:
        """Tensors of which the contents are known."""
        return {self.places[n].name for n in self.spaces if n in self.places}

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
        whole = 4 * len(self.banks[bank].bits) if bank in self.banks else 0
        return min((start for start in ends if start > offset), default=whole) - first

    def constant(self, bank: int, offsets: Column) -> Value:
        """Words of constant memory at offsets in bytes."""
        if bank not in self.banks:
            return None
        if len(offsets.bits) > 1:
            return self.banks[bank].read(offsets)[0]
        key = bank, int(offsets.bits[0]) // 4
        if key not in self._read:
            [self._read[key]] = self.banks[bank].read(Column(offsets.bits))
        found = self._read[key]
        return found if found is None or offsets.known is None else Column(found.bits, offsets.known)

    def loaded(self, address: Column, width_bytes: int) -> list[Value]:
        """Words that a load of global memory gives, or part of one, known where what it reads is."""
        found = []
        for n in distinct(address.bits // SPACE).tolist():
            if n in self.spaces and (self.sm or width_bytes >= 4 or n not in self.places):
                found.append(self.spaces[n].read(Column(address.bits - n * SPACE, address.known), width_bytes))
        return [reduce(_either, each) for each in zip(*found, strict=True)] or [UNKNOWN] * max(width_bytes // 4, 1)


def _either(one: Value, other: Value) -> Value:
    """What lanes read of two tensors, each of which is 0 and not known to those that read the other."""
    if one is None or other is None or one.known is None or other.known is None:
        return None
    known = one.known | other.known
    return Column(one.bits | other.bits, None if known.all() else known)


ARGUMENTS, PACKET, SYMBOLS = 0x7E, 0x7D, 0x7C
"""Spaces of the kernel's arguments, of the packet that launches it, and of its constants, each of which has one below
the last."""
SYMBOL = re.compile(r"([\w.$]+)@(?:rel32|abs32|gotpcrel32)@lo")


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
        packet = self.spaces[PACKET] = Segment()
        self.spaces[ARGUMENTS] = self.banks[0]
        for each in header.arguments:
            if (n := self._hidden(each.kind.removeprefix("hidden_"), binary)) is not None:
                self.banks[0].put(each.offset, n.to_bytes(each.size, "little"))
        packet.put(4, struct.pack("<3H", *self.block))
        packet.put(12, struct.pack("<3I", *(g * b for g, b in zip(self.grid, self.block, strict=True))))
        packet.put(28, struct.pack("<I", header.shared_bytes + binary.shared_bytes))
        packet.put(40, struct.pack("<Q", ARGUMENTS * SPACE))
        if unknown := binary.constants.keys() - symbols:
            raise ConfigError(f"the code names no {min(unknown)!r}; it names {', '.join(sorted(symbols)) or 'none'}")
        self._symbols = {name: SYMBOLS - i for i, name in enumerate(sorted(symbols))}
        for name, held in binary.constants.items():
            self.spaces[self._symbols[name]] = Segment(np.ascontiguousarray(held).tobytes(), UNKNOWN)

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
            if (space := pointers.get(name)) is not None:
                words |= {f"s{at}": 0, f"s{at + 1}": space * SPACE >> 32}
        for symbol, space in self._symbols.items():
            words |= {f"@{symbol}": 0, f"@{symbol}.high": space * SPACE >> 32}
        out = {name: number(word) for name, word in words.items()}
        first, offset, count = start.preloaded
        out |= {f"s{first + i}": word for i in range(count) if (word := self.constant(0, number(4 * (offset + i))))}
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
