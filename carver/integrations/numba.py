"""Numba: a `numba.cuda.jit` kernel as machine code with its launch. Tried with numba-cuda 0.30.

Compiled and linked as at a launch, by the packages nvidia-cuda-nvrtc, nvidia-nvvm and nvidia-nvjitlink: no driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import signature
from math import prod
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import ConfigError
from ..compiled.binary import Binary, Tensor
from ..run.spec import dim3
from . import capability, compiling, in_order

_OPTIONS = ("debug", "lineinfo", "fastmath", "opt", "launch_bounds")
"""Options of a kernel's decorator that decide what code is made of it."""


def binary(kernel: Any, config: Mapping[str, Any], *, args: Any, grid: Any, block: Any, arch: Arch) -> Binary:
    """Compile a kernel for the types of its arguments. `grid` and `block` are those of `kernel[grid, block]`.

    `args`: arrays, tensors and numbers by the names of the parameters, or in their order. Raises CompileError.
    """
    from numba.cuda import dispatcher
    from numba.cuda.compiler import _compile_pyfunc_with_fixup

    if grid is None or block is None:
        raise ConfigError("a Numba kernel is launched with a grid and a block; give both")
    cc = capability(arch, "Numba's CUDA kernels")
    values = in_order(kernel.py_func, args)
    of = signature(kernel.py_func).parameters
    options = {name: value for name in _OPTIONS if (value := kernel.targetoptions.get(name)) is not None}
    device = SimpleNamespace(compute_capability=cc)  # functions that the kernel calls are compiled for the current one
    with compiling(), patch.object(dispatcher, "get_current_device", lambda: device):
        library, _ = _compile_pyfunc_with_fixup(
            kernel.py_func, tuple(map(_type, values)), cc=cc, device=False, abi="numba", **options
        )
        code = bytes(library.get_cubin(cc=cc).code)
    every = [each for name, value in zip(of, values, strict=True) for each in _parameters(name, value)]
    names, parameters = zip(*every, strict=True) if every else ((), ())
    return Binary(code, library._entry_name, parameters, dim3("grid", grid), dim3("block", block), names=names)


def _type(value: Any) -> Any:
    from numba import from_dtype, typeof, types

    if not isinstance(value, Tensor):
        return typeof(value)
    rows = tuple(prod(value.shape[i + 1 :]) for i in range(value.dim()))
    columns = tuple(prod(value.shape[:i]) for i in range(value.dim()))
    order = "C" if value.strides == rows else "F" if value.strides == columns else "A"  # rows, columns, or any
    return types.Array(from_dtype(np.dtype(value.dtype)), value.dim(), order)


def _parameters(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """An array is two null pointers, its elements, bytes of one, its address, its shape and its strides in bytes."""
    if not isinstance(value, Tensor):
        wide = np.int64 if isinstance(value, int) else np.float64 if isinstance(value, float) else lambda n: n
        yield name, wide(value)
        return
    strides = (stride * value.item_bytes for stride in value.strides)
    yield from (("", None), ("", None), ("", np.int64(prod(value.shape))), ("", np.int64(value.item_bytes)))
    yield name, value
    yield from (("", np.int64(n)) for n in (*value.shape, *strides))
