"""The descriptor of a device: a frozen, hashable `Arch` whose fields are checked. `carver.arch.devices` reads it."""

from __future__ import annotations

import dataclasses
import math
import operator
import re
from collections.abc import Iterable
from dataclasses import field
from functools import partial, reduce
from typing import Any, TypeAlias

import numpy as np

from ..base.dtypes import BYTES, PACKED_BYTES
from ..base.errors import ArchError, nearest
from ..base.given import fits, in_words, shown, takes
from ..base.types import FloatArray, Record

Pairs: TypeAlias = tuple[tuple[str, Any], ...]
"""A mapping that can be hashed: (key, value) in file order; a sub-table is Pairs again."""

VENDORS = {"nvidia": "CUDA", "amd": "HIP", "apple": "Apple", "x86": "CPU", "arm": "CPU"}
"""Vendor -> the constructor that takes its devices."""
ISAS = {"nvidia": (r"sm_\d{2,3}", "sm_89"), "amd": (r"gfx[0-9a-f]{3,4}", "gfx942"), "apple": (r"apple\d+", "apple8")}
"""How GPU vendors write an ISA, and an example."""
TRITON_LEAST_CC = 7, 0
"""Oldest compute capability that Triton compiles for. Source: Triton 3.6 makes SASS of sm_70 and sm_75."""
TRITON_LACKS = "gfx803", "gfx900", "gfx906"
"""AMD's ISAs that Triton 3.6 calls unsupported."""
WARPS = (1, 16, 32, 64)
INSTRUCTIONS = ("mma", "wgmma", "tcgen05", "mfma", "wmma")
ACCUMULATES_IN = {"float64": "float64", "int8": "int32", "int32": "int32"}
"""Usual accumulator by input dtype; every other dtype accumulates in float32."""
CONVERTS_TO = {"tf32": "float32", "bfloat16": "float32", "float8_e4m3": "float32", "float8_e5m2": "float32",
               "float8_e4m3fnuz": "float32", "float8_e5m2fnuz": "float32", "float4_e2m1": "float32",
               "float16": "float32", "int8": "int32", "int32": "float32"}  # fmt: skip
"""Where the vector units compute a dtype for which the descriptor lists no rate of its own."""


class Matrix(Record):
    """One matrix instruction of a device: its shape and the dense rate of an SM that issues nothing else."""

    dtype: str
    accumulate: str
    instruction: str
    shape: tuple[int, int, int]
    flops_per_clk_per_sm: float


def _known(section: str, *bounds: float, default: Any = None) -> dict[str, Any]:
    """Of a field: its section in a file; the least and most that a device of the last fifteen years has, since a value
    outside is a unit slip (MHz, GB, ns); what a file that leaves it out means, or the field of which it is the same."""
    return {"section": section, "range": bounds or None, "default": default}


SECTION_NAMES = "sm", "block", "memory", "cpu"
_SM, _BLOCK, _MEMORY, _CPU = (partial(_known, section) for section in SECTION_NAMES)


class Arch(Record):
    """One device, as the cost model sees it. Units are SI. FLOP count an FMA as 2, and rates are dense."""

    name: str
    title: str
    vendor: str
    kind: str
    isa: str
    aliases: tuple[str, ...]
    device_names: tuple[str, ...]  # as the driver prints them

    sm_count: int = field(metadata=_SM(1, 1e6))  # SMs; compute units on AMD; cores of a CPU
    clock_hz: float = field(metadata=_SM(1e8, 1e10))  # the datasheet's boost clock; the highest that the driver reports
    # clock behind the datasheet's matrix rates: below clock_hz on H100, H200, B200
    matrix_clock_hz: float = field(metadata=_SM(1e8, 1e10, default="clock_hz"))
    sustained_clock_hz: float = field(metadata=_SM(1e8, 1e10, default="clock_hz"))  # of vector units under load
    sustained_matrix_clock_hz: float = field(metadata=_SM(1e8, 1e10, default="matrix_clock_hz"))  # of matrix units
    warp_size: int = field(metadata=_SM())
    schedulers_per_sm: int = field(metadata=_SM(1, 16))
    # of 32 bits; a lane that issues two FMA at once (packed, dual issue) has them in its rate
    lanes_per_sm: int = field(metadata=_SM(1, 1024))
    max_threads_per_sm: int = field(metadata=_SM(1, 1e4))
    max_blocks_per_sm: int = field(metadata=_SM(1, 256))
    regs_per_sm: int = field(metadata=_SM(16, 1e6))  # of 32 bits
    reg_granule: int = field(metadata=_SM(1, 1e4))  # registers are allocated to a warp in multiples of this
    smem_per_sm_bytes: int = field(metadata=_SM(1e4, 1e7))
    smem_bytes_per_clk: float = field(metadata=_SM(1, 1e5))  # one SM; of a CPU, what a core loads from L1
    l1_bytes: int = field(metadata=_SM(1000, 1e7))  # one SM; on most GPUs the array that shared memory is cut from
    async_copy: bool = field(metadata=_SM())  # global to shared memory without passing registers
    tma: bool = field(metadata=_SM())
    sfu_per_clk: float = field(metadata=_SM(0.1, 1e5))  # exp, log, rsqrt ... of one SM
    lsu_per_clk: float = field(metadata=_SM(0.1, 1e5, default=32.0))  # lanes whose addresses are taken by one SM

    max_threads_per_block: int = field(metadata=_BLOCK(1, 1e4))
    max_regs_per_thread: int = field(metadata=_BLOCK(8, 1024))
    smem_per_block_bytes: int = field(metadata=_BLOCK(1e4, 1e7))  # opt-in
    smem_reserved_bytes: int = field(metadata=_BLOCK(0, 1e5))  # taken by the driver from every block
    smem_granule_bytes: int = field(metadata=_BLOCK(1, 1e5))

    l2_bytes: int = field(metadata=_MEMORY(1e5, 1e10))  # whole device
    # block i runs on partition i mod l2_partitions, and only that part of L2 is near it
    l2_partitions: int = field(metadata=_MEMORY(1, 256))
    l2_copies: int = field(metadata=_MEMORY(1, 8, default=1))  # of a line that all SMs read: one in each half of L2
    l2_bytes_per_s: float = field(metadata=_MEMORY(1e10, 1e15))  # whole device
    # what kernels reach, seen or estimated; else of the design, or what kernels were fitted against
    l2_achieved: bool = field(metadata=_MEMORY(default=False))
    l2_bytes_per_clk_per_sm: float = field(metadata=_MEMORY(1, 1e5))  # fill port of one SM
    # SMs, in the order that blocks are handed out, whose requests for a line L2 may serve as one
    l2_merge_sms: int = field(metadata=_MEMORY(1, 64, default=1))
    l3_bytes: int = field(metadata=_MEMORY(0, 1e10, default=0))  # Infinity Cache, or the last level of a CPU; 0: none
    l3_bytes_per_s: float = field(metadata=_MEMORY(0, 1e15, default=0.0))
    dram_bytes: int = field(metadata=_MEMORY(1e8, 1e13))  # the datasheet's GB as GiB; a driver shows up to 1 % less
    dram_bytes_per_s: float = field(metadata=_MEMORY(1e9, 1e14))
    # share of it that no kernel exceeds: below 1 for LPDDR, whose refresh and turns take more
    dram_reach: float = field(metadata=_MEMORY(0.1, 1, default=1.0))
    bus_bits: int = field(metadata=_MEMORY(8, 1e5))
    pin_bits_per_s: float = field(metadata=_MEMORY(1e8, 1e11))
    sector_bytes: int = field(metadata=_MEMORY(8, 1024))  # smallest transfer
    line_bytes: int = field(metadata=_MEMORY(8, 1024))
    l2_latency_s: float = field(metadata=_MEMORY(1e-9, 1e-5))
    dram_latency_s: float = field(metadata=_MEMORY(1e-8, 1e-5))

    simd_bytes: int = field(metadata=_CPU(0, 1024))  # the rest: CPU only, 0 on a GPU
    fma_per_clk: int = field(metadata=_CPU(0, 64))  # vector FMAs that a core issues per clock
    vector_registers: int = field(metadata=_CPU(0, 1024))

    vector: tuple[tuple[str, float], ...]  # FLOP per clock and SM of the vector units, by dtype
    matrix: tuple[Matrix, ...]
    fitted: Pairs = ()  # constants measured on this device, with date, device and command
    datasheet: Pairs = field(default=(), compare=False)  # what the vendor prints, to check the rest by
    source: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    stands_for: str = field(default="", compare=False)  # the bare ISA that was asked for, if one was

    def __post_init__(self) -> None:
        for name, kind in SCALARS.items():
            label = f"[{section_of[name]}] {name}" if name in section_of else name
            object.__setattr__(self, name, scalar(label, kind, getattr(self, name), name))
        for name, kind in _LISTS.items():
            given = getattr(self, name)
            several = isinstance(given, Iterable) and not isinstance(given, str) and getattr(given, "ndim", 1) != 0
            rows = tuple(given) if several else given
            if not fits(rows, kind, globals()):
                raise ArchError(f"{name} must be {in_words(kind)}, got {shown(given)}")
            object.__setattr__(self, name, rows)
        object.__setattr__(self, "vector", _rates(self.vector))
        one_of("vendor", self.vendor, VENDORS)
        one_of("kind", self.kind, ("gpu", "cpu"))
        form, example = ISAS.get(self.vendor, (".+", ""))
        if not re.fullmatch(form, self.isa):
            raise ArchError(f"{self.name}: isa {self.isa!r} is none of {self.vendor}'s; write it as {example!r}")
        smem, float32 = self.smem_per_block_bytes + self.smem_reserved_bytes, dict(self.vector)["float32"]
        wrong = {
            f"warp_size {self.warp_size} is none of {', '.join(map(str, WARPS))}": self.warp_size not in WARPS,
            f"[vector] float32 {float32:g} must be 2 FLOP a clock for each of lanes_per_sm {self.lanes_per_sm}, or 4 "
            "where a lane issues two FMA at once": float32 not in (2 * self.lanes_per_sm, 4 * self.lanes_per_sm),
            f"smem_per_block_bytes {self.smem_per_block_bytes} + smem_reserved_bytes {self.smem_reserved_bytes} is "
            f"more than smem_per_sm_bytes {self.smem_per_sm_bytes}": smem > self.smem_per_sm_bytes,
            f"max_threads_per_block {self.max_threads_per_block} is more than max_threads_per_sm "
            f"{self.max_threads_per_sm}": self.max_threads_per_block > self.max_threads_per_sm,
            f"l3_bytes {self.l3_bytes} and l3_bytes_per_s {self.l3_bytes_per_s:g} must be both 0 (no such cache) or "
            "both above 0": (self.l3_bytes > 0) != (self.l3_bytes_per_s > 0),
        }
        if why := next((why for why, is_so in wrong.items() if is_so), ""):
            raise ArchError(f"{self.name}: {why}")

    def __hash__(self) -> int:  # of what tells devices apart: a hash of all fields takes longer than most look-ups
        return hash((self.name, self.sm_count, self.clock_hz, self.l2_bytes, self.dram_bytes_per_s))

    def __repr__(self) -> str:
        rate = self.flops_per_s("float16") / 1e12
        return (
            f"Arch({self.name}: {self.title}, {self.isa}, {self.sm_count} {self.sm_name}s, {rate:.4g} TFLOP/s float16, "
            f"{self.dram_bytes_per_s / 1e9:.4g} GB/s, L2 {self.l2_bytes / 1e6:.4g} MB)"
        )

    def replace(self, **fields: object) -> Arch:
        """The same device with some fields changed, for what-if questions: `arch.replace(l2_bytes=100 << 20)`.

        A clock that equals the one it is derived from changes with it: matrix and sustained clocks follow the boost
        clock.
        """
        for name in fields:
            if name not in _FIELDS:
                raise ArchError(f"{self.name} has no field {name!r}; {_meant(name)}")
        values: dict[str, Any] = dict(fields)
        for name, followed in _FOLLOWS.items():
            if followed in values and name not in values and getattr(self, name) == getattr(self, followed):
                values[name] = values[followed]
        if "source" not in values:
            notes = dict(self.source)
            notes |= {
                f"{section_of[name]}.{name}": f"replaced by the caller; was {getattr(self, name)!r}"
                for name in fields
                if name in section_of
            }
            values["source"] = tuple(notes.items())
        return dataclasses.replace(self, **values)

    @property
    def cc(self) -> tuple[int, int] | None:
        """CUDA compute capability as numbers, (9, 0); None for other vendors."""
        digits = self.isa.removeprefix("sm_")
        return (int(digits[:-1]), int(digits[-1])) if self.isa.startswith("sm_") else None

    @property
    def cc_major(self) -> int:
        """The first number of the compute capability, which declarations can compare; 0 for other vendors."""
        return self.cc[0] if self.cc else 0

    @property
    def cc_minor(self) -> int:
        """The second one."""
        return self.cc[1] if self.cc else 0

    @property
    def gfx(self) -> int:
        """The number of an instruction set of AMD's, such as 0x90a of gfx90a; 0 for other vendors."""
        return int(self.isa.removeprefix("gfx"), 16) if self.vendor == "amd" else 0

    @property
    def sms_per_block(self) -> int:
        """SMs over which a block spreads its warps: the two compute units of a pair on RDNA, else one.

        LLVM compiles for such pairs unless it is told not to (`.amdhsa_workgroup_processor_mode 1` in assembly of
        Triton 3.6 for gfx1030 to gfx1201). So do rocBLAS's kernels: 102 blocks that each fill a compute unit take 1.57
        times as long as 80 on an RX 6900 XT with 80 of them, since a pair's last block has both.
        """
        return 2 if self.vendor == "amd" and self.warp_size == 32 else 1

    @property
    def sm_name(self) -> str:
        """What the vendor calls an SM."""
        return "core" if self.kind == "cpu" or self.vendor == "apple" else "CU" if self.vendor == "amd" else "SM"

    @property
    def matrix_on_vector(self) -> bool:
        """Whether matrix instructions occupy the vector units, so that the time of both adds up.

        WMMA of RDNA does: LLVM schedules it on the vector ALU (SISchedule.td, gfx11 and gfx12), and libraries reach
        0.75 of the peak of RDNA 3 and 0.62 of RDNA 4, whose products take half the time beside the same other work
        (published_rates.csv). MFMA of CDNA and tensor cores are units of their own.
        """
        return self.vendor == "amd" and self.warp_size == 32

    @property
    def power_limited(self) -> bool:
        """Whether products of all units draw more power than the device may, so that its clock falls."""
        return self.sustained_matrix_clock_hz < self.matrix_clock_hz

    @property
    def max_warps_per_sm(self) -> int:
        return self.max_threads_per_sm // self.warp_size

    @property
    def regs_per_block(self) -> int:
        """32-bit registers that a block may use: 64 K on NVIDIA (an SM may have 128 K), elsewhere all of an SM.

        Compute capability 3.7 has the 128 K. Source: CUDA C++ Programming Guide, technical specifications per compute
        capability.
        """
        return min(self.regs_per_sm, 65536) if self.vendor == "nvidia" else self.regs_per_sm

    @property
    def provenance(self) -> str:
        """How the constants are known, in words."""
        fitted = dict(self.fitted)
        words = f"calibrated on {fitted['device']}, {fitted['date']}" if fitted else "datasheet"
        if not fitted and (held := self.sustained_matrix_clock_hz) != self.matrix_clock_hz:
            words += f", but for a clock of {held / 1e9:.4g} GHz that its matrix units hold"
            words += ", at which its roof is" if held > self.matrix_clock_hz else ""
        scaled = re.match(r"scaled from (\w+)", dict(self.source).get("memory.l2_bytes_per_s", ""))
        words = f"estimated from {scaled[1]}" if scaled and not fitted else words
        words = f"{self.stands_for} names no device: {self.title} stands for it; {words}" if self.stands_for else words
        return f"{words}; {', '.join(self.replaced)} replaced" if self.replaced else words

    @property
    def replaced(self) -> tuple[str, ...]:
        """Fields that the caller changed with `replace`."""
        return tuple(key.partition(".")[2] for key, text in self.source if text.startswith("replaced by the caller"))

    def vector_flops_per_clk(self, dtype: str) -> float:
        """Rate of the vector units of one SM. [FLOP/clk]

        A dtype without a rate of its own is converted first and runs at the rate of `CONVERTS_TO`.
        """
        rates = dict(self.vector)
        _check_dtype(dtype)
        while dtype not in rates:
            if dtype not in CONVERTS_TO:
                said = f"its vector units compute {', '.join(rates)}; take another dtype or another device"
                raise ArchError(f"{self.name} has no {dtype} arithmetic: {said}")
            dtype = CONVERTS_TO[dtype]
        return rates[dtype]

    def matrix_unit(self, dtype: str, accumulate: str | None = None, instruction: str | None = None) -> Matrix | None:
        """The fastest matrix instruction for inputs of `dtype`, or None where the device has none.

        `accumulate` is the usual wide type unless given: GeForce cards run float16 twice as fast when it
        accumulates in float16, which nobody means by a float16 matmul.
        """
        _check_dtype(dtype)
        wanted = accumulate or ACCUMULATES_IN.get(dtype, "float32")
        rows = (
            row
            for row in self.matrix
            if row.dtype == dtype and row.accumulate == wanted and instruction in (None, row.instruction)
        )
        return max(rows, key=lambda row: row.flops_per_clk_per_sm, default=None)

    @takes(ArchError)
    def own_float8(self, dtype: str) -> str:
        """The type of 8-bit floats that the device multiplies, for one of the Open Compute Project's where it has only
        AMD's, as CDNA 3 has; else the type itself. Serving software stores weights in it."""
        own = f"{dtype}fnuz"
        has = {row.dtype for row in self.matrix}
        return own if dtype.startswith("float8") and not self.matrix_unit(dtype) and own in has else dtype

    def vector_flops_per_s(self, dtype: str) -> float:
        """Peak of all vector units at the boost clock. [FLOP/s]"""
        return self.vector_flops_per_clk(dtype) * self.sm_count * self.clock_hz

    def matrix_flops_per_s(self, dtype: str, accumulate: str | None = None) -> float:
        """Dense peak of all matrix units, 0 where there are none. [FLOP/s]

        At the matrix clock; float64, which draws less power, at the boost clock, as datasheets state it.
        """
        row = self.matrix_unit(dtype, accumulate)
        return row.flops_per_clk_per_sm * self.sm_count * self.clock_of(row) if row else 0.0

    def clock_of(self, row: Matrix) -> float:
        """The clock at which the rate of a matrix instruction is stated. [Hz]"""
        return self.clock_hz if row.dtype == "float64" else self.matrix_clock_hz

    def sustained_of(self, row: Matrix) -> float:
        """The clock that the device holds while all its units run a matrix instruction. [Hz]"""
        return self.sustained_clock_hz if row.dtype == "float64" else self.sustained_matrix_clock_hz

    def highest_of(self, row: Matrix) -> float:
        """The clock of a matrix instruction while the power limit does not hold it back. [Hz]"""
        return max(self.sustained_of(row), self.clock_of(row))

    def flops_per_s(self, dtype: str) -> float:
        """Peak of the faster of matrix and vector units: the roof of a roofline. [FLOP/s]"""
        return max(self.vector_flops_per_s(dtype), self.matrix_flops_per_s(dtype))

    def fitted_constants(self, table: str) -> dict[str, float]:
        """Measured constants of one sub-table of [fitted], for example "triton"; empty where nobody measured."""
        rows = dict(self.fitted).get(table, ())
        return dict(rows) if isinstance(rows, tuple) else {}


IDENTITY = ("name", "title", "vendor", "kind", "isa", "aliases", "device_names")
_FIELDS = tuple(field.name for field in dataclasses.fields(Arch))


def _each(about: str) -> dict[str, Any]:
    """What the fields of `Arch` that have it say of themselves, by name."""
    return {its.name: its.metadata[about] for its in dataclasses.fields(Arch) if its.metadata.get(about) is not None}


section_of: dict[str, str] = _each("section")
SECTIONS = {section: tuple(name for name, its in section_of.items() if its == section) for section in SECTION_NAMES}
"""TOML section -> the fields of `Arch` in it, as written in a file."""
section_of |= {"vector": "vector", "matrix": "matrix"}
OPTIONAL, PLAUSIBLE = _each("default"), _each("range")
_FOLLOWS = {name: default for name, default in OPTIONAL.items() if isinstance(default, str)}
SCALARS: dict[str, str] = {
    field.name: str(field.type)
    for field in dataclasses.fields(Arch)
    if field.type in ("str", "int", "float", "bool") and field.name != "stands_for"
}
_LISTS = {
    "aliases": "Sequence[str]", "device_names": "Sequence[str]", "vector": "Sequence[tuple[str, Any]]",
    "matrix": "Sequence[Matrix]", "fitted": "Sequence[tuple[str, Any]]", "datasheet": "Sequence[tuple[str, Any]]",
    "source": "Sequence[tuple[str, str]]",
}  # fmt: skip
_MAY_BE_ZERO = {name for name, (low, _) in PLAUSIBLE.items() if low == 0}
PINS_SLACK = 0.05
"""Datasheets round what the pins of the memory of a GPU move, by 0.5 % at most in the descriptors here."""
RATE = (1e-3, 1e7)
"""The same for a rate of [vector] or matrix. [FLOP/clk/SM]"""
LEAST, MOST, MOST_COUNTED = 1e-18, 1e24, 10**15
"""What any number of a device may be, and any whole number, also one that a caller replaced: predictions stay numbers.
"""


def scalar(label: str, kind: str, value: Any, name: str = "") -> Any:
    """`value` as a plain Python bool, int, float or str (NumPy's scalars too), or an ArchError that names `label`."""
    said = f"{label} must be {in_words(kind)}, got {shown(value)}"
    if kind in ("str", "bool"):
        if type(value).__name__.removesuffix("_") != kind or value == "":
            raise ArchError(said)
        return value if kind == "str" else bool(value)
    if isinstance(value, (bool, str)):
        raise ArchError(said)
    try:
        number = operator.index(value) if kind == "int" else float(value)
    except (TypeError, ValueError, OverflowError):
        raise ArchError(said) from None
    if not (number > 0 or (number == 0 and (name or label) in _MAY_BE_ZERO)) or math.isinf(number):
        raise ArchError(f"{label} must be above 0 and finite, got {shown(value)}")
    most = MOST_COUNTED if kind == "int" else MOST
    if number and not LEAST <= number <= most:
        raise ArchError(f"{label} must lie between {LEAST:g} and {most:g}, got {shown(value)}")
    return number


def plausible(label: str, value: float, low: float, high: float) -> None:
    """Raises ArchError for a number outside of a range that only a slipped unit can lead out of."""
    if not low <= value <= high:
        raise ArchError(
            f"{label} = {value!r} is outside {low:g} to {high:g}; "
            "its unit is in its name: bytes, Hz, seconds, no multiples of them"
        )


def _rates(vector: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    rates = dict(vector)
    for dtype, rate in rates.items():
        one_of("[vector] dtype", dtype, BYTES)
        rates[dtype] = scalar(f"[vector] {dtype}", "float", rate)
        plausible(f"[vector] {dtype}", rates[dtype], *RATE)
    if "float32" not in rates:
        raise ArchError("[vector] lacks float32, the rate that other dtypes fall to")
    return tuple(rates.items())


_TERMS = {
    "size": "bytes", "capacity": "bytes", "bandwidth": "bytes_per_s", "memory": "dram", "mem": "dram", "vram": "dram",
    "hbm": "dram", "shared": "smem_per_block", "smem": "smem_per_block", "lds": "smem_per_block", "sms": "sm_count",
    "cus": "sm_count", "cores": "sm_count", "frequency": "clock", "mhz": "hz", "ghz": "hz", "registers": "regs",
    "latency": "latency_s",
}  # fmt: skip
"""Words of others, and what fields call them."""


def _meant(name: str) -> str:
    """The fields that have most words of a name that is none, as the tail of an error message."""
    said = name.lower().replace("shared_memory", "smem").split("_")
    asked = set("_".join(_TERMS.get(word, word) for word in said).split("_"))
    stores = asked & {"dram", "smem", "l1", "l2", "l3"}
    if stores and "latency" not in asked:
        asked.add("bytes")
    elif asked == {"bytes", "per", "s"}:
        asked.add("dram")

    def fit(field: str) -> tuple[bool, int, int]:
        own = field.split("_")
        return own[0] in asked, len(asked.intersection(own)), -len(own)

    best = max(section_of, key=fit)
    return f"did you mean {best!r}?" if asked.intersection(best.split("_")) else nearest(name, _FIELDS, 1)


def one_of(label: str, value: object, allowed: Iterable[str]) -> None:
    """Raises ArchError unless the value is one of the allowed words."""
    if value not in tuple(allowed):
        raise ArchError(f"{label} {value!r} is unknown; {nearest(str(value), allowed, 1)}")


def _check_dtype(dtype: str) -> None:
    if not isinstance(dtype, str) or (dtype not in BYTES and dtype not in PACKED_BYTES):
        raise ArchError(f"unknown dtype {shown(dtype)}; {nearest(str(dtype), BYTES | PACKED_BYTES, 1)}")


TMEM_COLUMNS = 512
"""Of an SM's tensor memory. Source: PTX ISA, tcgen05.alloc."""
LIMITS = ("shared memory", "registers", "threads", "blocks")


def occupancy_limits(
    arch: Arch, warps: FloatArray, smem_bytes: FloatArray, registers: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Blocks that an SM, or a pair that shares blocks, could hold by each of LIMITS alone.

    Registers are allocated to whole warps in units of `reg_granule`, each scheduler's from its own share of the file;
    shared memory in units of `smem_granule_bytes` with `smem_reserved_bytes` on top. Source: cuda_occupancy.h. AMD's
    limit of blocks is of barriers, which a block of one wave has none of: LLVM, AMDGPUBaseInfo, getMaxWorkGroupsPerCU.
    """
    smem = np.ceil((smem_bytes + arch.smem_reserved_bytes) / arch.smem_granule_bytes) * arch.smem_granule_bytes
    kept = np.minimum(registers, arch.max_regs_per_thread)
    per_warp = np.ceil(kept * arch.warp_size / arch.reg_granule) * arch.reg_granule
    warps_fit = np.floor(arch.regs_per_sm / arch.schedulers_per_sm / np.maximum(per_warp, 1.0)) * arch.schedulers_per_sm
    sms = arch.sms_per_block
    by_threads = np.floor(sms * arch.max_threads_per_sm / (warps * arch.warp_size))
    unlimited = (np.asarray(warps) <= 1.0) & (arch.vendor == "amd")
    return (
        np.floor(sms * arch.smem_per_sm_bytes / np.maximum(smem, 1.0)),
        np.floor(sms * warps_fit / warps),
        by_threads,
        np.where(unlimited, by_threads, float(sms * arch.max_blocks_per_sm)),
    )


def blocks_by_limit(arch: Arch, warps: float, smem_bytes: float, registers: float) -> dict[str, int]:
    """Blocks of one kernel that an SM, or a pair that shares blocks, could hold by each limit alone; 0 if a block does
    not fit."""
    columns = [np.array([float(n)]) for n in (warps, smem_bytes, registers)]
    return {name: int(n[0]) for name, n in zip(LIMITS, occupancy_limits(arch, *columns), strict=True)}


def blocks_that_fit(arch: Arch, warps: float, smem_bytes: float, registers: float, tmem_columns: int = 0) -> int:
    """Blocks of one kernel, of which all is known, that `arch.sms_per_block` SMs hold at once; 0 where none fits."""
    fit = min(blocks_by_limit(arch, warps, smem_bytes, registers).values())
    return min(fit, TMEM_COLUMNS // tmem_columns) if tmem_columns else fit


def l1_room_bytes(arch: Arch, resident: float, shared_bytes: float) -> float:
    """L1 that each of the blocks of an SM has: on NVIDIA what shared memory leaves of one array, on AMD of an array of
    its own."""
    beside = shared_bytes if arch.vendor == "nvidia" else 0.0
    return max(arch.l1_bytes / max(resident, 1.0) - beside, 0.0)


def resident_blocks(
    arch: Arch, warps: FloatArray, smem_bytes: FloatArray, registers: FloatArray, tmem_columns: FloatArray | float = 0.0
) -> FloatArray:
    """Blocks that an SM holds at once: halves where a pair shares blocks. A kernel whose estimate says that none fits
    spills and runs. [blocks/SM]"""
    fit: FloatArray = reduce(np.minimum, occupancy_limits(arch, warps, smem_bytes, registers))
    fit = np.minimum(fit, TMEM_COLUMNS // np.maximum(tmem_columns, 1.0))
    return np.maximum(fit, 1.0) / arch.sms_per_block
