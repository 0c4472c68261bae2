"""Warp: a `wp.kernel` as machine code with its launch, by the NVRTC that Warp brings. Tried with Warp 1.19."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..arch.descriptor import Arch
from ..base.errors import ConfigError
from ..compiled.binary import Binary, Struct, Tensor
from . import capability, compiling, in_order

THREADS = 256
"""Of a block of `wp.launch`, unless it says otherwise."""


def binary(kernel: Any, config: Mapping[str, Any], *, args: Any, grid: Any, block: Any, arch: Arch) -> Binary:
    """Compile a kernel's module for a device. `grid` is the `dim` of `wp.launch`, `block` its `block_dim`.

    `wp.launch_tiled` adds the block to its `dim`: so does `grid` of a kernel of tiles. A kernel in a module of its own,
    `wp.kernel(module="unique")`, is compiled alone. `args`: arrays, tensors and numbers by name, or in order. Raises
    CompileError.
    """
    import warp
    from warp._src import context

    if grid is None:
        raise ConfigError("a Warp kernel is launched over a dim; give it as grid")
    major, minor = capability(arch, "Warp's kernels")
    if kernel.is_generic:
        raise ConfigError(f"{kernel.key} has arguments of any type; give one of its overloads, which wp.overload makes")
    values = in_order(kernel.func, args)
    dims = tuple(grid) if isinstance(grid, tuple | list) else (grid,)
    threads, module = int(block or THREADS), kernel.module
    before = module.options.get("block_dim")
    with TemporaryDirectory() as folder:
        try:
            module.options["block_dim"] = threads
            with compiling():
                [made] = warp.compile_aot_module(
                    module, arch=major * 10 + minor, module_dir=folder, use_ptx=False, strip_hash=None
                )
            code = Path(made).read_bytes()
        finally:
            module.options["block_dim"] = before
        [meta] = (json.loads(path.read_text()) for path in Path(folder).glob("*.meta"))
    symbol = f"{kernel.get_mangled_name()}_cuda_kernel_forward"
    bounds = context._build_launch_bounds_from_tuple(dims, kernel.adj.kernel_dim)
    kinds = [argument.type for argument in kernel.adj.args]
    parameters = [_parameter(value, kind) for value, kind in zip(values, kinds, strict=True)]
    return Binary(
        code, symbol, (Struct(bytes(bounds), {}), *parameters), grid=(-(-prod(dims) // threads), 1, 1),
        block=(threads, 1, 1), shared_bytes=meta[f"{symbol}_smem_bytes"],
        names=("", *(argument.label for argument in kernel.adj.args)),
    )  # fmt: skip


def _parameter(value: Any, kind: Any) -> Any:
    """An array is a struct with its address, shape and strides in bytes; a number has the width of its type."""
    from warp._src.types import array_t, warp_type_to_np_dtype

    if isinstance(value, Tensor):
        strides = [stride * value.item_bytes for stride in value.strides]
        return Struct(bytes(array_t(0, 0, value.dim(), value.shape, strides)), {array_t.data.offset: value})
    if (number := warp_type_to_np_dtype.get(kind)) is not None:
        return number(value)
    return Struct(bytes(value if isinstance(value, kind) else kind(*value)), {})  # a vector, matrix or quaternion
