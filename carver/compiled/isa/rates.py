"""Costs of instructions on the units of an SM (NVIDIA) or CU (AMD), from tables in `arch/isa/*.toml`, one per family,
and the demand of a span of machine code: clocks by pipe, bytes by memory, matrix FLOPs.

A table lists groups of opcodes. `lanes` are the results per clock and SM that each pipe gives for a group, as vendors
state throughputs: a warp of 32 occupies a pipe of 16 lanes for 2 clocks. If a group moves memory, `bytes_per_clk` is
the number of bytes that the pipe moves, and the longer of the two times counts. `latency` names the operation whose
completion time the code does not state; `[latency_clk]` has the clocks.

All figures are for one warp (NVIDIA) or wave (AMD) that runs each instruction of the span once, with all of its lanes.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from ...base.errors import ArchError, nearest
from ...base.folders import folder
from ...base.types import Record
from . import sass
from .code import Code

ROLES = {
    "", "matrix", "warpgroup matrix", "block matrix", "matrix wait", "matrix commit", "barrier", "commit", "group wait",
    "memory wait", "bulk", "wait", "branch",
}  # fmt: skip
"""Role of an instruction in the schedule of a warp. "matrix": runs in order like arithmetic; "warpgroup matrix" and
"block matrix": run asynchronously until a "matrix wait" or a "memory wait"; "commit": closes a group of asynchronous
copies, for which a "group wait" waits; "bulk": a copy that an engine makes for a whole block."""


@dataclass(frozen=True, slots=True)
class Group:
    """Opcodes that cost the same.

    `access`: kind of memory access and memory, as ("load", "global"); None if they access no memory. `counter`: the AMD
    counter that they increment. `issue_clk`: clocks until the same warp may issue again, if the code does not state it.
    `dtype`: the type whose rate a device states, which then takes the place of `lanes`: float64 differs among devices
    of one instruction set. An empty `source` marks the group of opcodes that no table lists.
    """

    opcodes: tuple[str, ...] = ()
    lanes: Mapping[str, float] = field(default_factory=dict)
    bytes_per_clk: Mapping[str, float] = field(default_factory=dict)
    latency: str | None = None
    access: tuple[str, str] | None = None
    counter: str | None = None
    dtype: str | None = None
    role: str = ""
    issue_clk: float = 1.0
    source: str = ""

    @property
    def port(self) -> tuple[str, ...]:
        """Where accesses of its memory wait for each other."""
        return PORTS.get(self.access[1] if self.access else "", ("lsu", "vmem"))


UNKNOWN = Group()


Busy = tuple[tuple[str, float], ...]
"""Pipes, with the clocks that an instruction occupies each."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rates of a family of instruction sets.

    `schedulers`: parts of an SM that warps are distributed over; together they issue `issue_per_clk` instructions per
    clock. Each has an equal share of a pipe's lanes, except for the pipes in `shared`: one unit that serves them all.
    `matrix_pipe`: the pipe that matrix instructions occupy; on RDNA it is the vector unit.
    `latency_clk`: clocks until an operation is complete, by the name that groups give as their latency.
    """

    family: str
    covers: tuple[str, ...]
    schedulers: int
    issue_per_clk: float
    shared: frozenset[str]
    matrix_pipe: str
    latency_clk: Mapping[str, float]
    groups: tuple[Group, ...]
    sources: Mapping[str, str]
    patterns: tuple[tuple[str, re.Pattern[str], Group], ...] = field(repr=False)
    found: dict[str, Group] = field(default_factory=dict, repr=False, compare=False)
    busy: dict[tuple[str, int], Busy] = field(default_factory=dict, repr=False, compare=False)

    def group(self, opcode: str) -> Group:
        """The group with the longest matching pattern; `UNKNOWN` if none matches.

        A pattern matches the first dot-separated parts of an opcode; `*` stands for anything within a part.
        """
        group = self.found.get(opcode)
        if group is None:
            matches = [(len(text), group) for text, pattern, group in self.patterns if pattern.match(opcode)]
            group = self.found[opcode] = max(matches, key=lambda match: match[0])[1] if matches else UNKNOWN
        return group

    def alone(self, opcode: str, warp_size: int) -> Busy:
        """Clocks that a single warp occupies each pipe. It has its scheduler's share of a pipe's lanes, but the whole
        of its bandwidth."""
        found = self.busy.get((opcode, warp_size))
        if found is None:
            group = self.group(opcode)
            lanes = {
                pipe: warp_size * self.schedulers / n for pipe, n in group.lanes.items() if pipe not in self.shared
            }
            clocks = pipe_clk(group, opcode, warp_size)
            found = tuple((pipe, max(clk, lanes.get(pipe, 0.0))) for pipe, clk in clocks)
            self.busy[opcode, warp_size] = found
        return found


def families() -> list[str]:
    return sorted(path.stem for path in folder("arch").joinpath("isa").glob("*.toml"))


def table(isa: str, lanes: Mapping[str, float] = MappingProxyType({})) -> Table:
    """Rates of an instruction set, named as in device descriptors: "sm_90", "gfx942". `lanes`: those of a device's
    vector units, by type. Raises ArchError if unknown."""
    paths = [folder("arch") / "isa" / f"{name}.toml" for name in families()]
    for path in paths:
        if isa in load(path).covers:
            return load(path, tuple(lanes.items()))
    known = [each for path in paths for each in load(path).covers]
    if old := re.fullmatch(r"sm_(\d+)(\d)", isa):
        least = min(int(each[3:]) for each in known if each.startswith("sm_"))
        if int(isa[3:]) < least:
            raise ArchError(
                f"machine code is read from compute capability {least // 10}.{least % 10} on, and this device has "
                f"{old[1]}.{old[2]} ({isa}); declared operators are ranked for it: carver recommend, carver rank"
            )
    raise ArchError(f"no rates of instructions for {isa!r}; {nearest(isa, known)}")


@cache
def load(path: Path, lanes: tuple[tuple[str, float], ...] = ()) -> Table:
    """Read a table with the groups of the files in common/ that it extends, but for opcodes that it lists itself.
    `lanes`: as of `table`.

    Raises ArchError for an unknown key, latency, role or file.
    """
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    latency, entries = dict(data["latency_clk"]), [*data.get("group", ())]
    known = {file.stem: file for file in path.parent.joinpath("common").glob("*.toml")}
    own = {opcode for entry in entries for opcode in entry.get("opcodes", ())}
    for name in data.get("extends", ()):
        if name not in known:
            raise ArchError(f"{path.name} extends {name!r}, which is not in common/; {nearest(name, known)}")
        for entry in tomllib.loads(known[name].read_text(encoding="utf-8"))["group"]:
            if others := [opcode for opcode in entry["opcodes"] if opcode not in own]:
                entries.append({**entry, "opcodes": others})
    groups = tuple(_group(path, entry, latency, dict(lanes), data.get("address_lanes", 0)) for entry in entries)
    compiled = tuple(
        (text, re.compile(re.escape(text).replace(r"\*", r"[^.]*") + r"(?:\.|$)"), group)
        for group in groups
        for text in group.opcodes
    )
    return Table(
        path.stem,
        tuple(data["covers"]),
        data["schedulers"],
        data.get("issue_per_clk", data["schedulers"]),
        frozenset(data.get("shared", ())),
        data.get("matrix_pipe", "tensor"),
        latency,
        groups,
        dict(data["source"]),
        compiled,
    )


def _group(
    path: Path, entry: Mapping[str, Any], latency: Mapping[str, float], device: Mapping[str, float], addresses: float
) -> Group:  # fmt: skip
    """`addresses`: lanes whose addresses an SM's load/store units take each clock, 0 where nothing waits for them."""
    unknown = set(entry) - set(Group.__slots__)
    if unknown or "source" not in entry or not entry.get("opcodes"):
        raise ArchError(f"{path.name}: a group has {sorted(entry)}; it needs opcodes and source, and may have "
                        f"{sorted(Group.__slots__)}")  # fmt: skip
    if entry.get("role", "") not in ROLES:
        raise ArchError(f"{path.name}: role {entry['role']!r}; {nearest(entry['role'], ROLES)}")
    if (name := entry.get("latency")) is not None and name not in latency:
        raise ArchError(f"{path.name}: latency {name!r} has no clocks; {nearest(name, latency)}")
    access = tuple(entry["access"].split(maxsplit=1)) if "access" in entry else None
    lanes = {pipe: device.get(entry.get("dtype", ""), n) for pipe, n in entry.get("lanes", {}).items()}
    if addresses and access and "lsu" in lanes and access[1] != "constant":
        lanes["agu"] = addresses
    return Group(**{**entry, "opcodes": tuple(entry["opcodes"]), "access": access, "lanes": lanes})


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


def sass_matrix(opcode: str) -> tuple[Matrix, float] | None:
    """Kind of a matrix instruction of a warp or warp group, and its FLOPs per warp; None for other opcodes.

    Of a sparse one (`SP`) those that are done, as on AMD: PTX's k counts one zero in two, at twice the dense rate.
    """
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
    return Matrix(name, dtype, accumulate), (1.0 if "SP" in parts else 2.0) * m * n * k / share


BITS = {"H": 16, "I": 8, "Q": 8, "B": 1}


def sass_shared_bytes(opcode: str, operands: str) -> float:
    """Bytes of shared memory per warp that a warp group's matrix instruction reads; 0 for other opcodes.

    Both factors are in shared memory, unless a register comes before the descriptor: then the first is in registers.
    """
    found = GROUP.match(opcode)
    if not found:
        return 0.0
    m, n, k = map(int, found.groups()[1:])
    rows = n if re.match(r"R\w+, R\d+", operands) else n + (m / 2 if ".SP." in opcode else m)
    return rows * k * (32 if ".TF32" in opcode else BITS[found[1]]) / 8 / 4


SUMS = {0: "float16", 1: "float32", 2: "int32"}
FACTORS = {"H": {0: "float16", 1: "bfloat16", 2: "tf32"}, "I": {0: "int8", 1: "int8"}, "O": {1: "float4_e2m1"},
           "Q": {0: "float8_e4m3", 1: "float8_e5m2", 3: "float8_e4m3", 4: "float8_e4m3", 5: "float8_e4m3"}}  # fmt: skip
SCALED = re.compile(r"idesc\[UR\d+\], tmem")
"""Operands of an instruction that multiplies blocks by scales: these are in tensor memory."""
DEPTH_BYTES = 32
"""Extent of K in one instruction of the fifth generation of tensor cores, in bytes: 16 halves, or 32 bytes."""


def block_of(opcode: str, descriptor: int | None, operands: str = "") -> tuple[Matrix, float] | None:
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
    r"^v_(mfma|smfmac|wmma|swmmac)(?:_scale)?_(?P<sums>\w+?)_(\d+)x(\d+)x(\d+)_?(?:(?P<blocks>\d+)b_)?(?P<type>[a-z]+\d+(?:f6f4)?(?:_1k)?)"
)
BLOCKS = {"32x32x4f16": 2, "32x32x4bf16_1k": 2, "32x32x2bf16": 2, "32x32x1f32": 2, "32x32x4i8": 2, "16x16x4f16": 4,
          "16x16x4bf16_1k": 4, "16x16x2bf16": 4, "16x16x1f32": 4, "16x16x4i8": 4, "4x4x4f64": 4}  # fmt: skip
"""Independent matrix products per instruction, which gfx90a's spelling does not state; other 4x4 ones make 16. Those
of bfloat16 that are twice as deep, as its others are, end in `_1k` (CDNA 2 ISA, MFMA)."""
NARROW = re.compile(r"cbsz:[234].*blgp:[234]")
"""Both factors of 6 or 4 bits, which are multiplied at one rate: in half the passes of 8 bits (CDNA 4 ISA, MFMA)."""


def amd_matrix(opcode: str, operands: str = "") -> tuple[Matrix, float] | None:
    """Kind of an AMD matrix instruction, and its FLOPs per wave; None for other opcodes.

    Of a sparse one those that are done: its k counts the zeros of the first factor, one in two, which take no pass
    (LLVM, SISchedule: V_SMFMAC of 32x32x16 has the eight passes of V_MFMA of 32x32x8).
    """
    found = GCN.match(opcode)
    if not found:
        return None
    m, n, k = int(found[3]), int(found[4]), int(found[5])
    blocks = int(found["blocks"] or BLOCKS.get(f"{m}x{n}x{k}{found['type']}", 16 if m == 4 else 1))
    kind = found["type"].removesuffix("_1k")
    dtype = GCN_TYPES.get(kind, kind)
    if found["type"] == "f8f6f4":
        dtype = "float4_e2m1" if NARROW.search(operands) else "float8_e5m2" if "cbsz:1" in operands else dtype
    name = "wmma" if "wmma" in found[1] else "mfma"
    done = (1.0 if found[1] in ("smfmac", "swmmac") else 2.0) * m * n * k * blocks
    return Matrix(name, dtype, GCN_TYPES.get(found["sums"], found["sums"])), done


class Demand(Record):
    """What a span of code asks of an SM and of memory, counted for one warp all lanes of which run it once.

    Keys of `matrix` and `block_matrix`: instruction, element type and type of the sums. Keys of `bytes`: kind and
    memory ("load global", "store shared", "copy global" from there to shared memory); keys of `accesses`: those and the
    bytes of a lane ("load global 16").
    """

    instructions: int
    """Issued, those included whose predicate is false."""
    pipe_clk: Mapping[str, float]
    """Clocks that it holds each pipe of an SM, warps being spread evenly over its schedulers: `issue`, and the pipes of
    the table. Of `n` warps, `n` times the largest is a lower bound."""
    matrix: Mapping[str, float]
    """FLOPs of a warp, which has a quarter of those of a warp group's instruction."""
    block_matrix: Mapping[str, float]
    """FLOPs of a block, of instructions that one thread issues for it."""
    factor_bytes: float
    """That its matrix instructions read from shared memory; of a block in `block_factor_bytes`."""
    block_factor_bytes: float
    bytes: Mapping[str, float]
    """A load that all lanes share counts once."""
    accesses: Mapping[str, int]
    """Instructions; stores to arrays on the stack count as often as their sectors say."""
    bulk: int
    """Copies that one thread issues for its block and an engine makes; their bytes are not in the code."""
    barriers: int
    """Of the whole block."""
    unknown: Mapping[str, int]
    """Opcodes that no table lists; each is priced as one issue."""
    exponentials: int = 0
    """Numbers to whose power 2 is raised, by all lanes."""
    float_flops: int = 0
    """Additions and multiplications of float32, of all lanes; at most."""
    atomic_sectors: float = 0.0
    """Sectors that its atomics on global memory touch, each instruction for itself, where addresses are known."""
    atomic_words: float = 0.0
    """Words that lanes of the others work on."""
    atomic_floats: float = 0.0
    """Words to which atomics add floating-point numbers."""
    atomic_returned: float = 0.0
    """Words whose earlier values atomics give back."""
    elections: int = 0
    """Times that it counts lanes of a mask, as AMD's compilers do to have one of a wave's lanes work for all."""
    unplaced_bytes: float = 0.0
    """That loads read from places that are not known."""
    invalidations: int = 0
    """Instructions that empty L1, as one does behind an atomic that acquires what others released."""

    def __add__(self, other: Self) -> Self:
        return type(self)(**{name: _sum(own, getattr(other, name)) for name, own in vars(self).items()})

    def __mul__(self, times: float) -> Self:
        return type(self)(**{name: _product(own, times) for name, own in vars(self).items()})


def _sum(a: Any, b: Any) -> Any:
    """Of numbers, or of those in mappings by key and in columns; None where one is no amount."""
    if isinstance(a, Mapping):
        return {key: a.get(key, 0) + b.get(key, 0) for key in {**a, **b}}
    if isinstance(a, tuple):
        return tuple(map(_sum, a, b))
    return None if a is None or b is None else a + b


def _product(a: Any, times: float) -> Any:
    if isinstance(a, Mapping):
        return {key: n * times for key, n in a.items()}
    if isinstance(a, tuple):
        return tuple(n * times for n in a)
    return None if a is None else a * times


NEVER = ("!PT", "!UPT")
PORTS = {"shared": ("lsu", "lds"), "constant": ("adu",)}
SECTOR_BYTES = 32
FLOAT = re.compile(r"\.B?F(16|32|64)|_f(16|32|64)|_bf16")
"""In opcodes of atomics on floating-point numbers."""
EVERY_LANE = ", -1, "
"""Mask of v_mbcnt_lo where it says which lane of its wave a thread is."""
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
    factors, block = defaultdict[str, float](float), defaultdict[str, float](float)
    accesses: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    barriers = bulk = 0
    for opcode, n in counted.items():
        group = table.group(opcode)
        if not group.source:
            unknown[opcode] += n
        for pipe, clk in pipe_clk(group, opcode, code.warp_size):
            pipes[pipe] += n * clk
        if group.role == "barrier":
            barriers += n
        elif group.role == "bulk":
            bulk += n
        elif group.access:
            accesses[f"{' '.join(group.access)} {width_bytes(opcode)}"] += n
        elif group.role in ("matrix", "warpgroup matrix") and (found := sass_matrix(opcode)):
            factors[" ".join(found[0])] += n * found[1]
    if code.isa.startswith("gfx"):
        for each in instructions:
            if each.opcode.startswith("v_") and (found := amd_matrix(each.opcode, each.operands)):
                factors[" ".join(found[0])] += found[1]
    shared_bytes = block_bytes = sectors = words = floats = returned = unplaced = 0.0
    for i, each in zip(indices, instructions, strict=True):
        group = table.group(each.opcode)
        width = width_bytes(each.opcode) if group.access else 0
        passes, awake = code.conflicts.get(i, 1.0), code.awake.get(i, 1.0)
        if passes != 1.0 or awake != 1.0:
            for pipe, clk in pipe_clk(group, each.opcode, code.warp_size):
                pipes[pipe] += (passes - 1.0) * clk if pipe in group.port else (awake - 1.0) * clk * (pipe == "agu")
        if group.role == "warpgroup matrix":
            shared_bytes += sass_shared_bytes(each.opcode, each.operands)
        elif group.role == "block matrix":
            if each.descriptor is not None and (found := block_of(each.opcode, each.descriptor, each.operands)):
                block[" ".join(found[0])] += found[1]
                block_bytes += block_shared_bytes(each.operands, each.descriptor)
            else:
                unknown[f"{each.opcode} of an unknown shape"] += 1
        if each.predicate in NEVER:
            continue
        if group.access == ("atomic", "global"):
            sectors += code.sectors.get(i, 0.0)
            every = code.warp_size * max(width // 4, 1)
            words += every if i not in code.sectors else 0
            floats += every if FLOAT.search(each.opcode) else 0
            returned += every if each.opcode.startswith("ATOM") else 0
        elif i in code.unplaced and group.access in (("load", "global"), ("copy", "global")):
            unplaced += width * code.warp_size
        elif group.access == ("store", "local") and i in code.sectors:
            more = round(code.sectors[i] * SECTOR_BYTES / (width * code.warp_size)) - 1
            accesses[f"store local {width}"] += more
    moved = defaultdict[str, float](float)
    for access, n in accesses.items():
        kind, _, size = access.rpartition(" ")
        moved[kind] += n * int(size) * (1 if kind.endswith("constant") else code.warp_size)
    return Demand(
        instructions=len(instructions), pipe_clk=dict(pipes), matrix=dict(factors), block_matrix=dict(block),
        factor_bytes=shared_bytes, block_factor_bytes=block_bytes, bytes=dict(moved), accesses=dict(accesses),
        bulk=bulk, barriers=barriers, unknown=dict(unknown), atomic_sectors=sectors, atomic_words=words,
        atomic_floats=floats, atomic_returned=returned, unplaced_bytes=unplaced,
        exponentials=code.warp_size * sum(n for opcode, n in counted.items() if opcode.startswith(EXPONENTIAL)),
        float_flops=code.warp_size * sum(n * _flops(opcode) for opcode, n in counted.items()),
        elections=sum(e.opcode.startswith("v_mbcnt_lo") and EVERY_LANE not in e.operands for e in instructions),
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


NARROW_ACCESS = re.compile(r"_([su]?byte|[uibf]8|[su]?short|[uibf]16|d16)(?!.*_[uib]8)")


def _gcn_width(opcode: str) -> int:
    """Understands the spellings of GCN and of RDNA 3 and later. An instruction with two accesses counts both."""
    name = opcode.partition(".")[0]
    pair = 2 if re.match(r"ds_(read2|write2|(load|store)_2addr|bvh)", name) else 1
    if found := re.search(r"_atomic\w*?(_pk_|_x2$)", name):
        return 8 if found[1] == "_x2" else 4
    if found := re.search(r"dword(?:x(\d+))?", name):
        return 4 * int(found[1] or 1)
    wide = re.search(r"_[bui](32|64|96|128|256|512)(?=_|$)|_f(32|64)(?=_|$)", name)
    if wide:
        return int(wide[1] or wide[2]) // 8 * pair
    narrow = NARROW_ACCESS.search(name)
    return 1 if narrow and ("byte" in narrow[1] or narrow[1].endswith("8")) else 2 if narrow else 4


def pipe_clk(group: Group, opcode: str, warp_size: int) -> list[tuple[str, float]]:
    """Clocks that one warp instruction occupies each pipe of an SM."""
    clocks = {pipe: warp_size / lanes for pipe, lanes in group.lanes.items()}
    if group.bytes_per_clk:
        size = width_bytes(opcode) * warp_size
        for pipe, rate in group.bytes_per_clk.items():
            clocks[pipe] = max(clocks.get(pipe, 0.0), size / rate)
    return list(clocks.items())
