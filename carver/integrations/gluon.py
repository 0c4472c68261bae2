"""Triton and Gluon: a function and its arguments as machine code with its launch. Tried with Triton 3.6."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import ConfigError
from ..compiled.binary import TRITON_TYPE, Binary, Descriptor, TensorMap, handed, leaves
from ..compiled.triton import (
    Target,
    autotuned,
    built_by_triton,
    function_of,
    grid_of,
    hooked,
    plain_config,
    specialise,
)

configs = autotuned

_NUMBERS = {
    "i1": np.int8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u1": np.uint8, "u8": np.uint8,
    "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "fp16": np.float16, "fp32": np.float32, "fp64": np.float64,
}  # fmt: skip
"""Types of a signature, and the NumPy scalars that have their width."""


def binary(kernel: Any, config: Any, *, args: Mapping[str, Any], grid: Any, block: Any, arch: Arch) -> Binary:
    """Compile one configuration for a device. `grid` is Triton's; a block has as many threads as its warps.

    A descriptor without a layout gets `NVMMASharedLayout.get_default_for` of its block. Raises CompileError.
    """
    if block is not None:
        raise ConfigError("the block of a Gluon kernel follows from num_warps; give no block")
    target, args, plain = Target.of(arch), hooked(config, args), plain_config(config)
    taken = {name: handed(name, value) for name, value in args.items()}
    bound = specialise(kernel, taken, {}, plain, target, args)
    function = function_of(kernel)
    if getattr(function, "is_gluon", bool)():
        laid_out = {name: _laid_out(value) for name, value in taken.items() if isinstance(value, Descriptor)}
        bound = replace(bound, signature={**bound.signature, **laid_out})
    if "num_warps" in bound.constants:  # a constant of the kernel, and an option of its compiler
        bound = replace(bound, options={**bound.options, "num_warps": bound.constants["num_warps"]})
    built = built_by_triton(kernel, bound, target)
    known = dict(leaf for name, value in (taken | plain).items() for leaf in leaves(name, value))
    names, parameters = zip(*_parameters(bound.kinds(), known, list(built.metadata.tensordesc_meta or ())), strict=True)
    return Binary(
        built.asm["cubin"] if target.backend == "cuda" else built.asm["amdgcn"].encode(),
        built.metadata.name,
        args=parameters,
        grid=grid_of(grid, {**args, **plain, **bound.constants}),
        block=(built.metadata.num_warps * target.warp_size, 1, 1),
        shared_bytes=built.metadata.shared,
        names=names,
    )


def _laid_out(value: Descriptor) -> str:
    """The type of a descriptor in a signature of Gluon."""
    from triton.experimental.gluon import language as gl

    block = list(value.block_shape)
    dtype = value.tensor.dtype
    element = getattr(gl, {"float8_e4m3": "float8e4nv", "float8_e5m2": "float8e5"}.get(dtype, dtype))
    layout = value.layout or gl.NVMMASharedLayout.get_default_for(block, element)
    return f"tensordesc<{TRITON_TYPE[value.tensor.dtype]}[{','.join(map(str, block))}],{layout!r}>"


def _parameters(signature: Mapping[str, str], known: Mapping[str, Any], maps: list[Any]) -> Iterator[tuple[str, Any]]:
    """Parameters of the machine code, with their names.

    A descriptor is a tensor map, where the device has them, else an address with shape, strides and a flag; then its
    shape and its strides follow. Two addresses of scratch memory end the list.
    """
    for name, kind in signature.items():
        if kind == "constexpr":
            continue
        value = known[name]
        if not isinstance(value, Descriptor):
            yield name, _NUMBERS[kind](value) if kind in _NUMBERS else value
            continue
        tensor = value.tensor
        shape, strides = tensor.shape, tensor.strides
        if maps:
            yield name, _tensor_map(value, maps.pop(0))
        else:
            yield name, tensor
            yield from (("", np.int64(n)) for n in (*shape, *strides))
            yield "", np.int8(0)
        yield from (("", np.int32(n)) for n in shape)
        yield from (("", np.int64(n)) for n in strides)
    yield from (("", None), ("", None))


def _tensor_map(value: Descriptor, meta: Mapping[str, Any]) -> TensorMap:
    tensor = value.tensor
    strides_bytes = [stride * tensor.item_bytes for stride in tensor.strides[:-1]]
    box = tuple(meta["block_size"])[::-1]
    return TensorMap(
        tensor, dims=tensor.shape[::-1], strides_bytes=tuple(strides_bytes[::-1]), box=box,
        element_strides=(1,) * len(box), swizzle=meta["swizzle"],
    )  # fmt: skip
