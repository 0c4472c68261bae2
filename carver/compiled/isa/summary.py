"""The demand of a span of machine code on an SM: clocks by pipe, bytes by memory, matrix FLOPs. Pure functions.

All figures are for one warp (NVIDIA) or wave (AMD) that runs each instruction of the span once, with all of its lanes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from . import matrix as mma
from . import sass
from .code import Code
from .matrix import Matrix
from .rates import Group, Table


class Access(NamedTuple):
    """`kind`: "load", "store", "atomic", or "copy" (from global to shared memory); `width_bytes`: bytes per lane."""

    kind: str
    space: str
    width_bytes: int


@dataclass(frozen=True, slots=True)
class Demand:
    """Demand of one warp. All counts are of warp instructions.

    instructions: issued instructions, including those whose predicate is false
    pipe_clk: clocks that each pipe of an SM is busy if warps are spread evenly over its schedulers; the keys are
        `issue` and the pipes of the rates table. A lower bound for `n` warps is `n` times the largest.
    matrix: FLOPs by kind; a quarter of the FLOPs of a warp group's instruction. Rates are in device descriptors.
    block_matrix: FLOPs of a whole block by kind, from instructions that one of its threads issues
    accesses: instructions by kind, memory and width; stores to arrays on the stack as often as their sectors say
    factor_bytes: bytes that a warp group's matrix instructions read from shared memory, per warp
    block_factor_bytes: bytes that a block's matrix instructions read from shared memory, per block
    bulk: copies that one thread issues for its block and an engine makes, by opcode; their bytes are not in the code
    barriers: block-wide barriers
    exponentials: powers of two that are taken, of all lanes
    float_flops: additions and multiplications of float32, of all lanes; at most
    atomic_sectors: sectors of global memory that atomics touch, where addresses are known
    atomic_words: words that lanes of atomics work on whose addresses are not known
    atomic_floats: words to which atomics add floating-point numbers
    atomic_returned: words whose earlier values atomics give back
    unplaced_bytes: bytes that loads read from places that are not known
    invalidations: instructions that empty L1, as an atomic has behind it that acquires what others released
    unknown: opcodes that no table lists; each is priced as one issue
    """

    instructions: int
    warp_size: int
    pipe_clk: dict[str, float]
    matrix: dict[Matrix, float]
    block_matrix: dict[Matrix, float]
    factor_bytes: float
    block_factor_bytes: float
    accesses: dict[Access, int]
    bulk: dict[str, int]
    barriers: int
    exponentials: int
    float_flops: int
    atomic_sectors: float
    atomic_words: float
    atomic_floats: float
    atomic_returned: float
    unplaced_bytes: float
    invalidations: int
    unknown: dict[str, int]

    @property
    def bytes(self) -> dict[str, float]:
        """Bytes that a warp accesses, by kind of access and memory: "load global". A scalar load counts once."""
        out = defaultdict[str, float](float)
        for access, n in self.accesses.items():
            lanes = 1 if access.space == "constant" else self.warp_size
            out[f"{access.kind} {access.space}"] += n * access.width_bytes * lanes
        return dict(out)


NEVER = ("!PT", "!UPT")
SECTOR_BYTES = 32
FLOAT = re.compile(r"\.B?F(16|32|64)|_f(16|32|64)|_bf16")
"""In opcodes of atomics on floating-point numbers."""
EXPONENTIAL = ("MUFU.EX2", "v_exp_")
"""How opcodes that raise two to a power begin."""
ARITHMETIC = re.compile(r"^(F(ADD|MUL|FMA)2?\b|v_(pk_|dual_)?(add|sub|mul|fma|fmac)\w*_f32)")
"""Opcodes that add and multiply float32: one, or two of them in a lane."""


def demand(code: Code, indices: Iterable[int], table: Table) -> Demand:
    """Demand of the instructions at `indices`, each executed once."""
    indices = list(indices)
    instructions = [code.instructions[i] for i in indices]
    counted = Counter(each.opcode for each in instructions if each.predicate not in NEVER)
    pipes = defaultdict[str, float](float, issue=len(instructions) / table.issue_per_clk)
    factors = defaultdict[Matrix, float](float)
    accesses: Counter[Access] = Counter()
    bulk: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    barriers = 0
    shared_bytes = block_bytes = 0.0
    for opcode, n in counted.items():
        group = table.group(opcode)
        if not group.source:
            unknown[opcode] += n
        for pipe, clk in pipe_clk(group, opcode, code.warp_size):
            pipes[pipe] += n * clk
        if group.role == "barrier":
            barriers += n
        elif group.role == "bulk":
            bulk[opcode] += n
        elif group.access:
            accesses[Access(*group.access, width_bytes(opcode))] += n
        elif group.role in ("matrix", "warpgroup matrix") and (found := mma.sass(opcode)):
            factors[found[0]] += n * found[1]
    if code.isa.startswith("gfx"):
        for each in instructions:
            if each.opcode.startswith("v_") and (found := mma.gcn(each.opcode, each.operands)):
                factors[found[0]] += found[1]
    for i in indices:
        if (passes := code.conflicts.get(i, 1.0)) != 1.0:
            opcode = code.instructions[i].opcode
            group = table.group(opcode)
            port = ("lsu", "lds") if group.access and group.access[1] == "shared" else ("lsu", "vmem")
            for pipe, clk in pipe_clk(group, opcode, code.warp_size):
                pipes[pipe] += (passes - 1.0) * clk if pipe in port else 0.0
    sectors = words = floats = returned = unplaced = 0.0
    for i in indices:
        opcode, never = code.instructions[i].opcode, code.instructions[i].predicate in NEVER
        access = table.group(opcode).access
        if access == ("atomic", "global") and not never:
            sectors += code.sectors.get(i, 0.0)
            every = code.warp_size * max(width_bytes(opcode) // 4, 1)
            words += every if i not in code.sectors else 0
            floats += every if FLOAT.search(opcode) else 0
            returned += every if opcode.startswith("ATOM") else 0
        elif i in code.unplaced and access in (("load", "global"), ("copy", "global")) and not never:
            unplaced += width_bytes(opcode) * code.warp_size
        elif access == ("store", "local") and i in code.sectors and not never:
            width = width_bytes(opcode)
            accesses[Access(*access, width)] += round(code.sectors[i] * SECTOR_BYTES / (width * code.warp_size)) - 1
    block = defaultdict[Matrix, float](float)
    for each in instructions:
        role = table.group(each.opcode).role
        if role == "warpgroup matrix":
            shared_bytes += mma.sass_shared_bytes(each.opcode, each.operands)
        elif role == "block matrix":
            if each.descriptor is not None and (found := mma.block(each.opcode, each.descriptor, each.operands)):
                block[found[0]] += found[1]
                block_bytes += mma.block_shared_bytes(each.operands, each.descriptor)
            else:
                unknown[f"{each.opcode} of an unknown shape"] += 1
    exponentials = sum(n for opcode, n in counted.items() if opcode.startswith(EXPONENTIAL))
    flops = sum(n * _flops(opcode) for opcode, n in counted.items())
    return Demand(
        instructions=len(instructions), warp_size=code.warp_size, pipe_clk=dict(pipes), matrix=dict(factors),
        block_matrix=dict(block), factor_bytes=shared_bytes, block_factor_bytes=block_bytes, accesses=dict(accesses),
        bulk=dict(bulk), barriers=barriers, exponentials=code.warp_size * exponentials,
        float_flops=code.warp_size * flops, atomic_sectors=sectors, atomic_words=words, atomic_floats=floats,
        atomic_returned=returned, unplaced_bytes=unplaced, unknown=dict(unknown),
        invalidations=sum(n for opcode, n in counted.items() if opcode.startswith("CCTL.IVALL")),
    )  # fmt: skip


def _flops(opcode: str) -> int:
    """Of a lane, of float32; of two instructions in one, of which one is named, as many as both may do."""
    if not ARITHMETIC.match(opcode):
        return 0
    fused = "FMA" in opcode or "fma" in opcode or "dual" in opcode
    return (1 + fused) * (1 + bool(re.match(r"F\w+2\b|v_(pk|dual)_", opcode)))


@lru_cache(maxsize=4096)
def width_bytes(opcode: str) -> int:
    """Bytes per lane of a memory access."""
    if opcode[0].islower():  # AMD
        return _gcn_width(opcode)
    if opcode.startswith(("LDSM", "STSM")):  # a matrix has 8 rows of 16 bytes, spread over 32 lanes
        parts = opcode.split(".")
        return 4 * int(parts[-1]) if parts[-1] in "24" else 4
    if found := re.search(r"^(?:LDTM|STTM).*\.x(\d+)$", opcode):
        return 4 * int(found[1])
    return sass.width_bytes(opcode)


NARROW = re.compile(r"_([su]byte|[su]?short|[uibf]8|[uibf]16|d16)")


def _gcn_width(opcode: str) -> int:
    """Understands the spellings of GCN and of RDNA 3 and later. An instruction with two accesses counts both."""
    name = opcode.partition(".")[0]
    pair = 2 if re.match(r"ds_(read2|write2|(load|store)_2addr|bvh)", name) else 1
    if found := re.search(r"dword(?:x(\d+))?", name):
        return 4 * int(found[1] or 1)
    wide = re.search(r"_[bui](32|64|96|128|256|512)(?=_|$)|_f(32|64)(?=_|$)", name)
    if wide:
        return int(wide[1] or wide[2]) // 8 * pair
    narrow = NARROW.search(name)
    return 1 if narrow and ("byte" in narrow[1] or narrow[1].endswith("8")) else 2 if narrow else 4


def pipe_clk(group: Group, opcode: str, warp_size: int) -> list[tuple[str, float]]:
    """Clocks that one warp instruction occupies each pipe of an SM."""
    clocks = {pipe: warp_size / lanes for pipe, lanes in group.lanes.items()}
    if group.bytes_per_clk:
        size = width_bytes(opcode) * warp_size
        for pipe, rate in group.bytes_per_clk.items():
            clocks[pipe] = max(clocks.get(pipe, 0.0), size / rate)
    return list(clocks.items())
