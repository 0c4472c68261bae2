"""Code, registers, stack and shared memory of the kernels in a cubin, which is an ELF file."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...base.errors import CompileError

MACHINE_CUDA = 190
REGISTERS, STACK = 0x2F, 0x12
"""Attributes of `.nv.info`: registers per thread, least size of the stack. Each has a symbol's index and a number."""
PARAMETER, PARAMETER_AGAIN, PARAMETER_BANK, PARAMETERS_BYTES = 0x17, 0x45, 0x0A, 0x19
"""Attributes of `.nv.info.KERNEL`: one parameter (its number, offset and size), in either of two forms; where
parameters start in bank 0; how many bytes they have."""
THREADS, CLUSTER = 0x10, 0x3D
"""Attributes of `.nv.info.KERNEL`: the block that a launch must have, the blocks of a cluster. Three numbers each."""
RESERVED_BYTES = 1024
"""Reserved for the system at the start of shared memory since compute capability 9.0; device descriptors count these
bytes separately."""
CONSTANT = ".nv.constant"
"""How sections of constant memory are named, before the number of the bank."""
SIZED = 4
"""Format code of an attribute that states its length; attributes of other formats hold two bytes."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel in a cubin. `sm`: compute capability, as 90. `shared_bytes` is static; a launch may add more."""

    name: str
    sm: int
    code: bytes
    registers: int
    stack_bytes: int
    shared_bytes: int
    threads: tuple[int, int, int] = (0, 0, 0)
    """Of the block that a launch must have; zeros where any will do."""
    cluster: tuple[int, int, int] = (1, 1, 1)
    """Blocks of a cluster along each axis, where the code says it."""
    parameters_at: int = 0
    """Where its parameters start in constant bank 0."""
    parameters: tuple[tuple[int, int], ...] = ()
    """Offset and size of each, in bytes."""
    parameters_bytes: int = 0
    """Of all of them, with those that the driver adds."""
    banks: Mapping[int, bytes] = field(default_factory=dict)
    """Constant memory, by bank, without the launch's own."""
    constants: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Bank and offset of each symbol in constant memory."""


def kernels(cubin: bytes) -> dict[str, Kernel]:
    """Kernels of a cubin by name, in file order. Raises CompileError if `cubin` is not a cubin."""
    if cubin[:5] != b"\x7fELF\x02" or struct.unpack_from("<H", cubin, 18)[0] != MACHINE_CUDA:
        raise CompileError(f"{len(cubin)} bytes that begin with {cubin[:8]!r} are no cubin")
    try:
        return _kernels(cubin)
    except (struct.error, IndexError, ValueError, KeyError) as error:
        raise CompileError(f"a cubin of {len(cubin)} bytes is cut off or not as expected: {error!r}") from error


def _kernels(cubin: bytes) -> dict[str, Kernel]:
    (table, flags) = struct.unpack_from("<QI", cubin, 40)
    count, names_at = struct.unpack_from("<HH", cubin, 60)
    headers = [struct.unpack_from("<IIQQQQII", cubin, table + 64 * i) for i in range(count)]
    names = headers[names_at][4]
    sections = {_text(cubin, names + h[0]): (h[4], h[5], h[6]) for h in headers}  # offset, size, link
    symbols, _, link = sections[".symtab"]
    strings = headers[link][4]

    def symbol(index: int) -> str:
        return _text(cubin, strings + struct.unpack_from("<I", cubin, symbols + 24 * index)[0])

    facts: dict[tuple[int, str], int] = {}
    start, size, _ = sections[".nv.info"]
    for attribute, value in _attributes(cubin[start : start + size]):
        if len(value) == 8 and attribute in (REGISTERS, STACK):
            index, number = struct.unpack("<II", value)
            facts[attribute, symbol(index)] = number
    order = [_text(cubin, names + h[0]) for h in headers]
    constants = {}
    for at in range(symbols, symbols + sections[".symtab"][1], 24):
        held = struct.unpack_from("<H", cubin, at + 6)[0]
        if held < count and order[held].startswith(CONSTANT) and order[held].removeprefix(CONSTANT).isdigit():
            value = struct.unpack_from("<Q", cubin, at + 8)[0]
            constants[_text(cubin, strings + struct.unpack_from("<I", cubin, at)[0])] = (
                int(order[held].removeprefix(CONSTANT)), value,
            )  # fmt: skip
    constants.pop("", None)
    found = {}
    for section, (start, size, _) in sections.items():
        if section.startswith(".text.") and size:
            name = section.removeprefix(".text.")
            sm = _sm(flags)
            shared = sections.get(f".nv.shared.{name}", (0, 0, 0))[1]
            at, length, _ = sections.get(f".nv.info.{name}", (0, 0, 0))
            threes = ((k, v) for k, v in _attributes(cubin[at : at + length]) if len(v) == 12)
            own: dict[int, tuple[int, int, int]] = {k: struct.unpack("<3I", v) for k, v in threes}
            mine = {number: (offset, packed >> 18 if k == PARAMETER else packed & 0xFFFF)
                    for k, v in _attributes(cubin[at : at + length]) if k in (PARAMETER, PARAMETER_AGAIN)
                    for _, number, offset, packed in [struct.unpack("<IHHI", v)]}  # fmt: skip
            base = [struct.unpack("<IHH", v)[1] for k, v in _attributes(cubin[at : at + length]) if k == PARAMETER_BANK]
            all_bytes = [struct.unpack("<H", v)[0] for k, v in _attributes(cubin[at : at + length])
                         if k == PARAMETERS_BYTES]  # fmt: skip
            found[name] = Kernel(
                name, sm, cubin[start : start + size], facts.get((REGISTERS, name), 0), facts.get((STACK, name), 0),
                max(0, shared - (RESERVED_BYTES if sm >= 90 else 0)), own.get(THREADS, (0, 0, 0)),
                own.get(CLUSTER, (1, 1, 1)), base[0] if base else 0, tuple(mine[i] for i in sorted(mine)),
                all_bytes[0] if all_bytes else 0, _banks(cubin, sections, name), constants,
            )  # fmt: skip
    return found


def _banks(cubin: bytes, sections: Mapping[str, tuple[int, int, int]], kernel: str) -> dict[int, bytes]:
    """Constant memory that a kernel sees besides bank 0: its own, and that of the whole module."""
    out = {}
    for section, (start, size, _) in sections.items():
        bank, _, owner = section.removeprefix(CONSTANT).partition(".")
        if section.startswith(CONSTANT) and bank.isdigit() and int(bank) and owner in ("", kernel):
            out[int(bank)] = cubin[start : start + size]
    return out


def _sm(flags: int) -> int:
    """Compute capability from the header's flags: the lowest byte; since CUDA 13 the second lowest."""
    low, second = flags & 0xFF, flags >> 8 & 0xFF
    return low if low >= 50 else second


def _attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == SIZED:
            yield attribute, info[at : at + size]
            at += size
        else:
            yield attribute, info[at - 2 : at]


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()
