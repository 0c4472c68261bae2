"""Matrix instructions: FLOPs and element types, from the opcode or, if it names none, from the descriptor."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple


class Matrix(NamedTuple):
    """A kind of matrix instruction, named as in the `matrix` rows of device descriptors."""

    instruction: str
    dtype: str
    accumulate: str


def rate(kind: Matrix, rates: Mapping[Matrix, float]) -> float:
    """FLOPs a clock of a kind.

    Of one that is not listed: of the same instruction for the narrowest type that is no narrower, the slowest of them;
    else the slowest of all.
    """
    if kind in rates:
        return rates[kind]
    same = [(_bits(each.dtype), flops) for each, flops in rates.items() if each.instruction == kind.instruction]
    wider = [each for each in same if each[0] >= _bits(kind.dtype)]
    return min(wider)[1] if wider else min(rates.values(), default=1.0)


def _bits(dtype: str) -> int:
    found = re.search(r"\d+", dtype)
    return int(found[0]) if found else 64


SASS_TYPES = {
    "BF16": "bfloat16", "TF32": "tf32", "E4M3": "float8_e4m3", "E5M2": "float8_e5m2", "S8": "int8", "U8": "int8",
    "S4": "int4", "U4": "int4",
}  # fmt: skip
PLAIN = {"H": ("float16", "float32"), "I": ("int8", "int32"), "D": ("float64", "float64"), "B": ("int1", "int32"),
         "Q": ("float8_e4m3", "float32"), "O": ("float4_e2m1", "float32")}  # fmt: skip
"""First letter of an opcode -> default element types of the factors and of the accumulator.

Q multiplies factors of 8, 6 and 4 bits, all of them at the rate of 8, and is counted as that of 8.
"""

SYNC = re.compile(r"^([HIDBQO])MMA\b.*?\.(16|8)(8)(\d+)(?=\.|$)|^DMMA\.(\d+)x(\d+)x(\d+)")
GROUP = re.compile(r"^([HIQB])GMMA\b.*?\.(\d+)x(\d+)x(\d+)(?=\.|$)")
BLOCK = re.compile(r"^UTC([HIQO])MMA\b")


@lru_cache(maxsize=1024)
def sass(opcode: str) -> tuple[Matrix, float] | None:
    """Kind of a matrix instruction of a warp or warp group, and its FLOPs per warp; None for other opcodes."""
    if found := GROUP.match(opcode):
        kind, share, name = found[1], 4, "wgmma"  # four warps share one
        m, n, k = map(int, found.groups()[1:])
    elif found := SYNC.match(opcode):
        kind, share, name = found[1] or "D", 1, "mma"
        m, n, k = (int(size) for size in found.groups()[1:] if size)
    else:
        return None
    dtype, accumulate = PLAIN[kind]
    parts = opcode.split(".")
    dtype = next((SASS_TYPES[part] for part in parts if part in SASS_TYPES), dtype)
    if ("F16" in parts and kind in "HQ") or (kind == "Q" and "SF" in parts):
        accumulate = "float16"  # with scales GeForce has the rate that it has without them for such sums only
    return Matrix(name, dtype, accumulate), 2.0 * m * n * k / share


BITS = {"H": 16, "I": 8, "Q": 8, "B": 1}


def sass_shared_bytes(opcode: str, operands: str) -> float:
    """Bytes of shared memory per warp that a warp group's matrix instruction reads; 0 for other opcodes.

    Both factors are in shared memory, unless a register comes before the descriptor: then the first is in registers.
    """
    found = GROUP.match(opcode)
    if not found:
        return 0.0
    m, n, k = map(int, found.groups()[1:])
    rows = n if re.match(r"R\w+, R\d+", operands) else m + n
    return rows * k * (32 if ".TF32" in opcode else BITS[found[1]]) / 8 / 4


SUMS = {0: "float16", 1: "float32", 2: "int32"}
FACTORS = {"H": {0: "float16", 1: "bfloat16", 2: "tf32"}, "I": {0: "int8", 1: "int8"}, "O": {1: "float4_e2m1"},
           "Q": {0: "float8_e4m3", 1: "float8_e5m2", 3: "float8_e4m3", 4: "float8_e4m3", 5: "float8_e4m3"}}  # fmt: skip
SCALED = re.compile(r"idesc\[UR\d+\], tmem")
"""Operands of an instruction that multiplies blocks by scales: these are in tensor memory."""
DEPTH_BYTES = 32
"""Extent of K in one instruction of the fifth generation of tensor cores, in bytes: 16 halves, or 32 bytes."""


def block(opcode: str, descriptor: int | None, operands: str = "") -> tuple[Matrix, float] | None:
    """Kind and FLOPs per block of a matrix instruction that one thread issues for its block (tcgen05).

    `descriptor`: its 32-bit instruction descriptor. Bits 4 and 5 give the type of the accumulator, bits 7 to 9 that of
    the first factor, bits 17 to 22 N / 8 and bits 24 to 28 M / 16 (PTX ISA, "Instruction descriptor" of tcgen05.mma).
    With scales, bits 4 and 5 say which of them to use instead, and the accumulator is of 32 bits.
    None for other opcodes, or if the descriptor is not known.
    """
    found = BLOCK.match(opcode)
    if not found or descriptor is None:
        return None
    m, n = (descriptor >> 24 & 31) * 16, (descriptor >> 17 & 63) * 8
    dtype = FACTORS[found[1]].get(descriptor >> 7 & 7, "unknown")
    depth = DEPTH_BYTES // {"H": 4 if dtype == "tf32" else 2, "O": 0.5}.get(found[1], 1)
    sums = "float32" if SCALED.search(operands) else SUMS.get(descriptor >> 4 & 3, "unknown")
    return Matrix("tcgen05", dtype, sums), 2.0 * m * n * depth


def block_shared_bytes(operands: str, descriptor: int) -> float:
    """Bytes of shared memory that such an instruction reads; its first factor may be in tensor memory instead."""
    m, n = (descriptor >> 24 & 31) * 16, (descriptor >> 17 & 63) * 8
    return float((n if operands.startswith("tmem") else m + n) * DEPTH_BYTES)


GCN_TYPES = {
    "f16": "float16", "bf16": "bfloat16", "xf32": "tf32", "f32": "float32", "f64": "float64", "i8": "int8",
    "iu8": "int8", "iu4": "int4", "fp8": "float8_e4m3", "bf8": "float8_e5m2", "f8f6f4": "float8_e4m3", "i32": "int32",
}  # fmt: skip
GCN = re.compile(
    r"^v_(mfma|smfmac|wmma|swmmac)(?:_scale)?_(?P<sums>\w+?)_(\d+)x(\d+)x(\d+)_?(?:(?P<blocks>\d+)b_)?(?P<type>[a-z]+\d+(?:f6f4)?)"
)
BLOCKS = {"32x32x4f16": 2, "32x32x4bf16": 2, "32x32x2bf16": 2, "32x32x1f32": 2, "32x32x4i8": 2, "16x16x4f16": 4,
          "16x16x4bf16": 4, "16x16x2bf16": 4, "16x16x1f32": 4, "16x16x4i8": 4}  # fmt: skip
"""Independent matrix products per instruction, which gfx90a's spelling does not state; 4x4 instructions make 16."""
NARROW = re.compile(r"cbsz:[234].*blgp:[234]")
"""Both factors of 6 or 4 bits, which are multiplied at one rate: in half the passes of 8 bits (CDNA 4 ISA, MFMA)."""


@lru_cache(maxsize=1024)
def gcn(opcode: str, operands: str = "") -> tuple[Matrix, float] | None:
    """Kind of an AMD matrix instruction, and its FLOPs per wave; None for other opcodes."""
    found = GCN.match(opcode)
    if not found:
        return None
    m, n, k = int(found[3]), int(found[4]), int(found[5])
    blocks = int(found["blocks"] or BLOCKS.get(f"{m}x{n}x{k}{found['type']}", 16 if m == 4 else 1))
    dtype = GCN_TYPES.get(found["type"], found["type"])
    if found["type"] == "f8f6f4":
        dtype = "float4_e2m1" if NARROW.search(operands) else "float8_e5m2" if "cbsz:1" in operands else dtype
    name = "wmma" if "wmma" in found[1] else "mfma"
    return Matrix(name, dtype, GCN_TYPES.get(found["sums"], found["sums"])), 2.0 * m * n * k * blocks
