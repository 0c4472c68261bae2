"""What a launch puts into constant memory, and where its tensors lie: addresses tell which argument they belong to."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ...base.errors import CompileError, ConfigError
from ..arguments import Tensor
from ..binary import Binary, Struct, TensorMap
from ..isa import elf
from .lanes import UNKNOWN, WORD, Array, Column

KNOWN = ("int32", "int64", "uint32", "uint64", "float32", "float64")
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


@dataclass(frozen=True)
class Place:
    """One tensor of a launch."""

    name: str
    tensor: Tensor
    map: TensorMap | None = None
    """The tensor map that it is reached through."""


class Launch:
    """Constant memory of a launch, its tensors, and what they hold as far as it was told.

    `values`: contents of integer tensors by name. Raises CompileError where the kernel has other parameters.
    """

    def __init__(self, binary: Binary, kernel: elf.Kernel, values: Mapping[str, Any]) -> None:
        self.grid: Sizes = (binary.grid[0], binary.grid[1], binary.grid[2])
        self.block, self.sm, self.cluster = binary.block, kernel.sm, kernel.cluster
        self.lost = UNKNOWN if self.sm else None
        """What a load gives of which nothing is known."""
        self.places: dict[int, Place] = {}
        self._maps: dict[int, int] = {}
        self._contents: dict[int, Array] = {}
        self.words: dict[int, int] = {}
        parameters = kernel.parameters
        if len(binary.args) < len(parameters):
            raise CompileError(
                f"{kernel.name} has {len(parameters)} parameters, of {[size for _, size in parameters]} bytes; "
                f"{len(binary.args)} arguments were given"
            )
        for place, ((offset, size), value) in enumerate(zip(parameters, binary.args, strict=False)):
            name = binary.names[place] or f"arg{place}"
            self._put(kernel.parameters_at + offset, size, value, name, offset, values)
        end = max((offset + size for offset, size in parameters), default=0)
        beyond = (kernel.parameters_bytes - end) // MAP_BYTES if parameters else 0
        self.maps_at = [kernel.parameters_bytes - MAP_BYTES * (beyond - i) for i in range(beyond)]
        """Of tensor maps that the driver adds behind the parameters."""
        self.unsized: set[int] = set()
        """Addresses of those whose boxes are not known yet."""
        self.banks = dict(kernel.banks)
        if self.sm:
            self._fill(kernel, binary.constants)

    def _fill(self, kernel: elf.Kernel, constants: Mapping[str, Any]) -> None:
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
            raise ConfigError(f"{name} has {len(raw)} bytes, the kernel's parameter {size}")
        raw = raw[:size].ljust(-(-size // 4) * 4, b"\0")
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
                self._contents[address // SPACE] = np.ascontiguousarray(full, kind).reshape(-1).view(np.uint32)
        return address

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

    def constant(self, bank: int, offsets: Column) -> Column | None:
        """Words of constant memory at offsets in bytes."""
        at = offsets.bits // 4
        if bank == 0:
            if len(at) == 1:
                word = self.words.get(int(at[0]))
                return None if word is None else Column(np.array([word], np.int64), offsets.known)
            places, back = np.unique(at, return_inverse=True)
            held = [self.words.get(int(place)) for place in places]
            known = np.array([word is not None for word in held])[back]
            bits = np.array([word or 0 for word in held], np.int64)[back]
        else:
            data = self.banks.get(bank)
            if data is None:
                return None
            words = np.frombuffer(data[: len(data) // 4 * 4], "<u4").astype(np.int64)
            known = (at >= 0) & (at < len(words))
            if not len(words):
                return None
            bits = words[np.clip(at, 0, len(words) - 1)]
        if offsets.known is not None:
            known = known & offsets.known
        return Column(bits, None if known.all() else known)

    def loaded(self, address: Column, width_bytes: int) -> list[Column | None]:
        """Words that a load of global memory gives, known where the contents of its tensor are. What is not known
        counts as 0, so that an address that it is part of still tells its tensor."""
        words, lost = max(width_bytes // 4, 1), self.lost
        if width_bytes < 4 or not self._contents:
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
            out.append(Column(bits, None if known.all() else known) if known.any() else lost)
        return out
