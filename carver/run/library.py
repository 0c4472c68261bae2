"""What other libraries do on the same buffers: the namespace that computes references, and the call to beat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import DeviceError
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
    return ("numpy" if xp is np else "torch"), _call(problem, arrays, out, xp)


def _call(problem: Problem, arrays: Mapping[str, Any], out: Any, xp: Any) -> Callable[[], object]:
    s = problem.statement
    none = DeviceError(f"the library has no fast call for {problem}")
    if problem.options.get("bias") or problem.options.get("activation"):
        raise none
    if any(len(dim) > 1 for t in s.inputs for dim in t.index):
        raise none
    axes = [tuple(dim[0][0] for dim in t.index) for t in s.inputs]
    operands = [arrays[t.name] for t in s.inputs]
    if problem.operator == "elementwise":
        views = (_arrange(x, have, s.spatial, xp) for x, have in zip(operands, axes, strict=True))
        summands = [[next(views) for _ in product] for product in s.summands]
        return lambda: _combined(summands, out, xp)
    if len(operands) == 2 and s.combine == "+=":
        return _product(operands, axes, s.spatial, out, xp)
    if len(operands) > 1 or not s.reduced:
        raise none
    over = tuple(i for i, axis in enumerate(axes[0]) if axis in s.reduced)
    if call := _reduction(problem, operands[0], over, out, xp):
        return call
    raise none


def _combined(summands: Sequence[Sequence[Any]], out: Any, xp: Any) -> None:
    """The sum of products, one call an operation: neither library fuses them."""
    one = len(summands) == 1
    join = xp.multiply if one else xp.add
    first, *others = summands[0] if one else [reduce(xp.multiply, product) for product in summands]
    if not others:
        out[...] = first
    for i, x in enumerate(others):
        join(out if i else first, x, out=out)


def _reduction(problem: Problem, x: Any, over: tuple[int, ...], out: Any, xp: Any) -> Callable[[], object] | None:
    kind = problem.reduction
    if xp is np:
        plain: dict[str, Callable[..., object]] = {"sum": np.sum, "max": np.amax, "mean": np.mean}
        return partial(plain[kind], x, over, out=out) if kind in plain else None
    nn = xp.nn.functional
    last = over == (x.ndim - 1,)
    calls: dict[str, Callable[[], object]] = {
        "sum": lambda: xp.sum(x, over, dtype=out.dtype),
        "max": lambda: xp.amax(x, over),
        "mean": lambda: xp.mean(x, over, dtype=out.dtype),
        "softmax": lambda: nn.softmax(x, over[0]),
    }
    if last and kind in ("layer_norm", "rms_norm"):
        return lambda: getattr(nn, kind)(x, x.shape[-1:])
    return calls.get(kind)


def _product(
    operands: list[Any], axes: list[tuple[str, ...]], spatial: tuple[str, ...], out: Any, xp: Any
) -> Callable[[], object]:
    """matmul on views [batch, m, k], [batch, k, n], [batch, m, n]; transposed operands are views too."""
    (x, y), (in_x, in_y) = operands, axes
    batch = [a for a in spatial if a in in_x and a in in_y]
    groups = [
        batch,
        [a for a in spatial if a in in_x and a not in batch],
        [a for a in spatial if a in in_y and a not in batch],
        [a for a in in_x if a in in_y and a not in batch],
    ]
    if any(len(group) > 1 for group in groups) or not groups[3]:
        raise DeviceError("the library has no fast call for a product over several axes")
    b, m, n, k = (group[0] if group else "" for group in groups)
    left, right = _arrange(x, in_x, (b, m, k), xp), _arrange(y, in_y, (b, k, n), xp)
    target = _arrange(out, spatial, (b, m, n), xp)
    if xp is np or (left.dtype == target.dtype and b):
        return lambda: xp.matmul(left, right, out=target)
    if left.dtype == target.dtype:
        return lambda: xp.mm(left[0], right[0], out=target[0])
    return lambda: xp.matmul(left, right)


def _arrange(x: Any, axes: tuple[str, ...], wanted: tuple[str, ...], xp: Any) -> Any:
    """A view of x with the wanted axes in order; a missing one has extent 1."""
    letter = {axis: chr(ord("a") + i) for i, axis in enumerate(axes)}
    view = xp.einsum(f"{''.join(letter.values())}->{''.join(letter[a] for a in wanted if a in letter)}", x)
    for i, axis in enumerate(wanted):
        if axis not in letter:
            view = view[(slice(None),) * i + (None,)]
    return view
