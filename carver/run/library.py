"""What other libraries do on the same buffers: the namespace that computes references, and the call to beat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import DeviceError
from ..ops.operator import named as operator
from ..problem.problem import Problem
from .buffers import TORCH_NAMES, Buffer

if TYPE_CHECKING:
    from .device import Device

_TORCH_BITS = {
    "float64": "<f8", "float32": "<f4", "tf32": "<f4", "float16": "<f2", "bfloat16": "<i2", "float8_e4m3": "|u1",
    "float8_e5m2": "|u1", "int8": "|i1", "int32": "<i4",
}  # fmt: skip


def namespace(kind: str) -> Any:
    """torch for a GPU if it is here and sees one, else NumPy."""
    if kind == "cuda":
        try:
            import torch
        except ImportError:
            return np
        if torch.cuda.is_available():
            return torch
    return np


def float64(device: Device, buffer: Buffer, xp: Any) -> Any:
    """The values of a buffer as a float64 array of `xp`, on the GPU for torch."""
    return device.download(buffer).astype(np.float64) if xp is np else as_torch(buffer, xp).to(xp.float64)


class _Interface:
    """A buffer as CUDA's array interface, version 3, which torch reads."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.__cuda_array_interface__ = {
            "shape": buffer.shape, "typestr": _TORCH_BITS[buffer.dtype], "data": (buffer.pointer, False), "version": 3,
        }  # fmt: skip


def as_torch(buffer: Buffer, torch: Any) -> Any:
    """A tensor on the same memory."""
    stored = torch.as_tensor(_Interface(buffer), device="cuda")
    return stored.view(getattr(torch, TORCH_NAMES.get(buffer.dtype, buffer.dtype)))


def library_call(
    problem: Problem, kind: str, inputs: Mapping[str, Buffer], output: Buffer
) -> tuple[str, Callable[[], object]]:
    """The library's name and a call that computes the problem from the same buffers.

    torch on a GPU, which takes cuBLAS for products; NumPy on the CPU. Raises DeviceError where it has no fast way.
    """
    xp = namespace(kind)
    if xp is np and kind == "cuda":
        raise DeviceError("no library to compare with on the GPU: install torch")
    narrow = {t: d for t, d in problem.dtypes.items() if d not in ("float32", "float64")}
    if xp is np and narrow:
        raise DeviceError(f"NumPy has no fast operations on {', '.join(sorted(set(narrow.values())))}")
    if xp is not np and (odd := {d for d in problem.dtypes.values() if d.startswith("float8") or d.startswith("int")}):
        raise DeviceError(f"torch has no plain operations on {', '.join(sorted(odd))}")
    arrays = {name: b.owner if xp is np else as_torch(b, xp) for name, b in inputs.items()}
    out = output.owner if xp is np else as_torch(output, xp)
    if xp is not np:
        xp.backends.cuda.matmul.allow_tf32 = "tf32" in problem.dtypes.values()
    call = operator(problem.operator).library(problem, [arrays[t.name] for t in problem.statement.inputs], out, xp)
    if call is None:
        raise DeviceError(f"the library has no fast call for {problem}")
    return ("numpy" if xp is np else "torch"), call
