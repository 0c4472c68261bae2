"""Element types: their names, widths and macro codes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import prod

from .errors import ProblemError, nearest

BYTES = {
    "float64": 8, "float32": 4, "tf32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3": 1, "float8_e5m2": 1, "int8": 1,
    "int32": 4, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
}  # fmt: skip
"""Storage of one element. [bytes] tf32 is stored as float32 and multiplied by the matrix unit. The 8-bit floats of the
Open Compute Project, and AMD's (fnuz), which have other biases and no infinities: no device multiplies both."""

PACKED_BYTES = {"int4": 0.5, "uint4": 0.5, "float4_e2m1": 0.5}
"""Of those that lie two to a byte: operands of kernels that unpack them or multiply them so, never arrays. [bytes]"""

ARRAY_BYTES = BYTES | {
    "bool": 1, "int16": 2, "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "complex64": 8,
    "complex128": 16,
}  # fmt: skip
"""The same for the arrays of users' own kernels, which may be of types that no problem of carver's has."""

CODES = {name: code for code, name in enumerate(BYTES)}
"""What kernels see as -DA_DTYPE=...; templates/common/carver.cuh names the same codes."""

_SPELT = {
    "float64": "f64 fp64 double", "float32": "f32 fp32 float", "float16": "f16 fp16 half", "bfloat16": "bf16",
    "tf32": "tfloat32", "float8_e4m3": "fp8 e4m3 e4m3_float8 fp8e4 float8e4 f8e4m3 fp8_e4m3",
    "float8_e5m2": "e5m2 e5m2_float8 fp8e5 float8e5 f8e5m2 fp8_e5m2",
    "float8_e4m3fnuz": "e4m3fnuz e4m3fnuz_float8 fp8e4b8 float8e4b8 fp8_e4m3fnuz f8e4m3fnuz",
    "float8_e5m2fnuz": "e5m2fnuz e5m2fnuz_float8 fp8e5b16 float8e5b16 fp8_e5m2fnuz f8e5m2fnuz",
    "int8": "i8", "int32": "i32", "int4": "i4", "uint4": "u4", "float4_e2m1": "fp4 e2m1",
}  # fmt: skip
_ALIASES = {alias: name for name, spellings in _SPELT.items() for alias in spellings.split()}


def size_bytes(shape: Iterable[int], dtype: str) -> int:
    return prod(shape) * ARRAY_BYTES[dtype]


def canonical(dtype: object, packed: bool = False) -> str:
    """The one name of an element type such as "fp16", "torch.float16" or NumPy's. `packed`: also of two to a byte."""
    return _known(dtype, BYTES | PACKED_BYTES if packed else BYTES)


def element_bytes(dtype: str) -> float:
    return BYTES[dtype] if dtype in BYTES else PACKED_BYTES[dtype]


def of_array(dtype: object) -> str:
    """The one name of the element type of an array of a user's own kernel; `canonical` knows those of problems."""
    return _known(dtype, ARRAY_BYTES)


def _known(dtype: object, known: Mapping[str, float]) -> str:
    if isinstance(dtype, str) and dtype in known:
        return dtype
    name = getattr(dtype, "__name__", None) or str(dtype)
    name = re.sub(r"^(torch|tl|np|numpy|jnp|ml_dtypes)\.", "", name)
    name = name.removesuffix("_").lower()  # numpy.bool_ was called so before NumPy 2
    name = _ALIASES.get(name, name)
    if "e4" in name or "e5" in name:
        name = re.sub(r"(fn|nv|b15)$", "", name)  # of the 8-bit floats that have no infinities
        name = _ALIASES.get(name, name)
    if name not in known:
        raise ProblemError(f"unknown dtype {dtype!r}; {nearest(name, known, 2)}")
    return name
