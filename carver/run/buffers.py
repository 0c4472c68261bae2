"""Memory that kernels read and write: element types as stored bits, and arrays of other packages by their pointer."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from ..base import dtypes
from ..base.errors import RunError
from ..base.types import Record
from .render import Program, TensorSpec

Array: TypeAlias = npt.NDArray[Any]

C_TYPES: dict[str, Any] = {
    "i": ctypes.c_int32, "I": ctypes.c_uint32, "q": ctypes.c_int64, "Q": ctypes.c_uint64, "b": ctypes.c_int8,
    "B": ctypes.c_uint8, "h": ctypes.c_int16, "H": ctypes.c_uint16, "f": ctypes.c_float, "d": ctypes.c_double,
    "P": ctypes.c_void_p,
}  # fmt: skip
"""By the letters of Python's `struct`."""


class OutOfMemory(RunError):
    """The device has no room for a buffer."""


class Buffer(Record):
    """Dense device memory. `owner` keeps it allocated."""

    pointer: int
    shape: tuple[int, ...]
    dtype: str
    owner: Any

    @property
    def size_bytes(self) -> int:
        return dtypes.size_bytes(self.shape, self.dtype)


class Resources(Record):
    """What the driver says that one entry uses. [registers per thread], [bytes]"""

    registers: int
    static_smem_bytes: int
    spill_bytes: int


class Loaded(Record):
    """A program on a device. `resources` is by entry, as the driver reports it; empty on the CPU."""

    program: Program
    resources: Mapping[str, Resources]
    go: Callable[[Sequence[Any]], None]
    """Takes what is given to the program by name (`Program.given`), in that order."""

    def launch(self, pointers: Mapping[str, Any]) -> None:
        """Launch every call in order, without waiting. `pointers` has tensors, numbers and "workspace" by name."""
        self.go([pointers[name] for name in self.program.given])


_BITS = {"tf32": "float32", "bfloat16": "uint16", "float8_e4m3": "uint8", "float8_e5m2": "uint8",
         "float8_e4m3fnuz": "uint8", "float8_e5m2fnuz": "uint8"}  # fmt: skip
STORAGE: dict[str, type[np.generic]] = {name: np.dtype(_BITS.get(name, name)).type for name in dtypes.ARRAY_BYTES}
"""What NumPy stores an element in; the bits where it knows no such type."""
_NARROW: dict[str, Any] = {name: getattr(ml_dtypes, {"float8_e4m3": "float8_e4m3fn"}.get(name, name))
                           for name in dtypes.BYTES if name == "bfloat16" or name.startswith("float8")}  # fmt: skip
"""Types that NumPy does not know."""
_finfo: Any = ml_dtypes.finfo
TORCH_NAMES = {"tf32": "float32", "float8_e4m3": "float8_e4m3fn"}
"""Where torch calls an element type otherwise."""


def encode(values: npt.ArrayLike, dtype: str) -> Array:
    """Values rounded to a dtype (nearest, ties to even; 8-bit floats and integers saturate), as stored bits. An array
    that has the type of the bits already, uint16 for bfloat16 or uint8 for an 8-bit float, is left alone."""
    array: Array = np.asarray(values)
    storage = np.dtype(STORAGE[dtype])
    if array.dtype == storage:
        return array
    if "int" in dtype:
        info = np.iinfo(storage)
        return np.asarray(np.clip(np.rint(array), info.min, info.max).astype(storage))
    if dtype not in _NARROW:
        with np.errstate(over="ignore"):  # beyond float16 is infinity, as in the kernels
            return array.astype(storage)
    if dtype != "bfloat16":
        array = np.clip(array, *limits(dtype))
    return array.astype(_NARROW[dtype]).view(storage)


def limits(dtype: str) -> tuple[float, float]:
    """Where values of a type saturate, or beyond which they are infinite."""
    kind = _NARROW.get(dtype, STORAGE[dtype])
    info = np.iinfo(kind) if "int" in dtype else _finfo(kind)
    return float(info.min), float(info.max)


def precision(dtype: str) -> tuple[float, float]:
    """Unit roundoff, the largest relative error of rounding to nearest, and the smallest subnormal, below which that
    error is absolute; both 0 of integers. tf32 is stored and accumulated as float32."""
    if "int" in dtype:
        return 0.0, 0.0
    info = _finfo(_NARROW.get(dtype, STORAGE[dtype]))
    return float(info.eps) / 2, float(info.smallest_subnormal)


def as_tf32(values: Array) -> Array:
    """float32 with 10 bits of mantissa, as the matrix unit reads it: a check sees the kernel's own rounding only."""
    return (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def decode(stored: Array, dtype: str) -> Array:
    """The values of stored bits, in the narrowest NumPy type that holds them."""
    return stored.view(_NARROW[dtype]).astype(np.float32) if dtype in _NARROW else stored


def address(array: object, spec: TensorSpec, kind: str, *, writes: bool = False) -> int:
    """Where a user's array starts, which the kernel `writes` to or only reads.

    Takes carver buffers, torch tensors, PyCUDA arrays, NumPy arrays and raw pointers.

    `kind` is the device's, "cuda" or "cpu". First axes of extent 1 may be missing.
    Raises RunError where shape, dtype, layout or place do not fit.
    """
    if isinstance(array, int):
        return array
    if isinstance(array, Buffer):
        found, shape, pointer, dense = array.dtype, array.shape, array.pointer, True
    elif is_torch(array):
        t: Any = array
        if t.device.type != kind:
            raise RunError(f"{spec.name} is on {t.device}, the kernel runs on {kind}; move it with .to({kind!r})")
        found, shape, pointer, dense = dtypes.of_array(t.dtype), tuple(t.shape), t.data_ptr(), t.is_contiguous()
    elif isinstance(array, np.ndarray) and kind == "cpu":
        found, shape, pointer, dense = str(array.dtype), array.shape, array.ctypes.data, array.flags.c_contiguous
        if writes and not array.flags.writeable:
            raise RunError(f"{spec.name} is an output, and this array may not be written to; give a copy")
    elif is_gpuarray(array) and kind == "cuda":
        g: Any = array
        found, shape, pointer, dense = str(g.dtype), g.shape, int(g.ptr), g.flags.c_contiguous
    else:
        wanted = "torch tensors or NumPy arrays" if kind == "cpu" else "torch tensors, PyCUDA arrays or pointers"
        raise RunError(f"{spec.name} is a {type(array).__name__}; a kernel on {kind} takes {wanted}")
    accepted = {spec.dtype, "float32" if spec.dtype == "tf32" else spec.dtype, np.dtype(STORAGE[spec.dtype]).name}
    whole = (1,) * (len(spec.shape) - len(shape)) + tuple(shape)
    if found not in accepted or whole != spec.shape or not dense:
        layout = "" if dense else ", not contiguous"
        raise RunError(
            f"{spec.name} must be a contiguous {spec.dtype} array of shape {spec.shape}, "
            f"got {found} {tuple(shape)}{layout}"
        )
    if kind == "cuda" and pointer % spec.align_bytes:
        raise RunError(
            f"{spec.name} starts at {pointer:#x}; the kernel was built for rows on multiples of {spec.align_bytes} "
            f"bytes; copy it, or build the problem with align_bytes={{{spec.name!r}: ...}}"
        )
    return pointer


POISON = {name: 0x7F for name in dtypes.ARRAY_BYTES if "int" in name or name == "bool"}
"""The byte that fills an output before each check, 0xFF (NaN) for every float type."""


def fill(array: Any) -> None:
    """Every byte of an output that is an array: NaN in all float types, far from anything in the others."""
    if is_torch(array):
        import torch

        array.reshape(-1).view(torch.uint8).fill_(0xFF if array.is_floating_point() else 0x7F)
    elif isinstance(array, np.ndarray):
        byte = b"\xff" if array.dtype.kind in "fc" else b"\x7f"
        stored = array.view(np.uint8) if array.dtype == np.bool_ else array  # in which True is 1, whatever is assigned
        stored[...] = np.frombuffer(byte * array.dtype.itemsize, stored.dtype)[0]


def put(tensors: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Values into tensors that differ from them: who only reads may be given one that cannot be written to, such as a
    view of one element as many."""
    for name, tensor in tensors.items():
        if not same_bits(tensor, values[name]):
            tensor.copy_(values[name])


def same_bits(a: Any, b: Any) -> bool:
    torch = sys.modules["torch"]
    return bool(torch.equal(*(x.contiguous().reshape(-1).view(torch.uint8) for x in (a, b))))


def is_torch(array: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def is_gpuarray(array: object) -> bool:
    gpuarray = sys.modules.get("pycuda.gpuarray")
    return gpuarray is not None and isinstance(array, gpuarray.GPUArray)


def empty_like(inputs: Sequence[object], spec: TensorSpec) -> Any | None:
    """An output in the package that the inputs are of; None where that is carver's own buffers or bare pointers."""
    first = next((a for a in inputs if not isinstance(a, int)), None)
    if is_torch(first):
        torch: Any = sys.modules["torch"]
        like: Any = first
        name = TORCH_NAMES.get(spec.dtype, spec.dtype)
        return torch.empty(spec.shape, dtype=getattr(torch, name), device=like.device)
    if is_gpuarray(first):
        gpuarray: Any = sys.modules["pycuda.gpuarray"]
        return gpuarray.empty(spec.shape, STORAGE[spec.dtype])
    return np.empty(spec.shape, STORAGE[spec.dtype]) if isinstance(first, np.ndarray) else None
