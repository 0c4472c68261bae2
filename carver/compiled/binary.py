"""A kernel as machine code with its launch: what every language comes to, and the door for tools that carver does not
know."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import ConfigError
from ..base.given import MOST_BYTES, content, shown, whole
from ..base.types import FrozenDict
from .arguments import Tensor, extents, given

_SWIZZLES = 3
"""Codes of a tensor map's swizzle: none, 32, 64 and 128 bytes."""


@dataclass(frozen=True)
class TensorMap:
    """A tensor map that a kernel takes by value, with the numbers of `cuTensorMapEncodeTiled`.

    All sequences begin with the axis that lies contiguous in memory. `strides_bytes` has one number less than `dims`:
    that axis needs none. `box` and `element_strides` (1 by default) are in elements. `swizzle` is the code of the
    driver, 3 for 128 bytes.

    With `lower` and `upper`, the corners of the box of pixels, it has the numbers of `cuTensorMapEncodeIm2col`. `box`
    is then the channels of a pixel and the pixels of a column.
    """

    tensor: Tensor
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] = ()
    swizzle: int = 0
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensor", _tensor("a tensor map", self.tensor))
        for name in ("dims", "strides_bytes", "box", "element_strides", "lower", "upper"):
            object.__setattr__(self, name, tuple(extents(name, getattr(self, name))))
        rank = len(self.dims)
        object.__setattr__(self, "element_strides", self.element_strides or (1,) * rank)
        corners = max(rank - 2, 0) if self.lower or self.upper else 0
        for name, count in (
            ("strides_bytes", rank - 1), ("box", 2 if corners else rank), ("element_strides", rank),
            ("lower", corners), ("upper", corners),
        ):  # fmt: skip
            if len(numbers := getattr(self, name)) != count or not 1 <= rank <= 5:
                raise ConfigError(f"a tensor map of {rank} dims (1 to 5) has {count} {name}, got {shown(numbers)}")
        if min(self.dims + self.strides_bytes + self.box + self.element_strides) < 1:
            raise ConfigError(f"sizes, strides and box of a tensor map are at least 1, got {shown(self)}")
        whole("swizzle", self.swizzle, ConfigError, 0, _SWIZZLES)


@dataclass(frozen=True)
class Struct:
    """A struct that a kernel takes by value: its bytes, and the tensors whose addresses stand in it, by offset."""

    data: bytes
    tensors: Mapping[int, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.data, bytes):
            raise ConfigError(f"a struct is given by its bytes, got {shown(self.data)}")
        found = {
            whole("the offset of an address", at, ConfigError, 0, len(self.data) - 8): _tensor("a struct", tensor)
            for at, tensor in dict(self.tensors).items()
        }
        object.__setattr__(self, "tensors", found)


@dataclass(frozen=True)
class Binary:
    """Machine code, and how one of its kernels is launched.

    - `code`: a cubin, or for AMD a code object, clang's bundle of several or assembly, as bytes or the path of a file.
      `entry`: the kernel's symbol.
    - `args`: in the order of the kernel's parameters. A tensor is passed by its address, a NumPy scalar by value with
      its own width, a `TensorMap` and a `Struct` by value, None as a null pointer.
    - `grid` in blocks, `block` in threads; `shared_bytes`: what the launch adds to the kernel's own shared memory.
    - `constants`: contents of symbols in constant memory, as NumPy arrays.
    - `names` of the arguments, for reports and `values=`; "" for one that has none.
    """

    code: bytes
    entry: str
    args: tuple[Any, ...] = ()
    grid: tuple[int, ...] = (1, 1, 1)
    block: tuple[int, ...] = (1, 1, 1)
    shared_bytes: int = 0
    constants: Mapping[str, Any] = field(default_factory=FrozenDict)
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.code, str | os.PathLike):
            object.__setattr__(self, "code", content(Path(self.code), ConfigError, MOST_BYTES))
        if not isinstance(self.code, bytes) or not self.code:
            raise ConfigError(f"code is the bytes of a cubin or code object, or a path, got {shown(self.code)}")
        if not isinstance(self.entry, str) or not self.entry:
            raise ConfigError(f"entry is the symbol of a kernel, got {shown(self.entry)}")
        if isinstance(self.args, str | bytes | Mapping) or not isinstance(self.args, Sequence):
            raise ConfigError(f"args are a sequence in the order of the kernel's parameters, got {shown(self.args)}")
        object.__setattr__(self, "args", tuple(_argument(i, value) for i, value in enumerate(self.args)))
        object.__setattr__(self, "names", tuple(self.names) or tuple(f"arg{i}" for i in range(len(self.args))))
        if len(self.names) != len(self.args):
            raise ConfigError(f"{len(self.args)} arguments have as many names, got {shown(self.names)}")
        for name in ("grid", "block"):
            object.__setattr__(self, name, _three(name, getattr(self, name)))
        whole("shared_bytes", self.shared_bytes, ConfigError)
        object.__setattr__(self, "constants", FrozenDict({k: np.asarray(v) for k, v in dict(self.constants).items()}))


def _tensor(what: str, value: Any) -> Tensor:
    if not isinstance(tensor := given(value), Tensor):
        raise ConfigError(f"{what} is of a carver.Tensor, got {shown(value)}")
    return tensor


def _argument(place: int, value: Any) -> Any:
    if value is None or isinstance(value, TensorMap | Struct | np.generic | Tensor):
        return value
    if isinstance(tensor := given(value), Tensor):
        return tensor
    raise ConfigError(
        f"argument {place} is {shown(value)}: a tensor is given as carver.Tensor(dtype, shape), a number as a NumPy "
        "scalar of the parameter's width, a struct as carver.Struct, a tensor map as carver.TensorMap, a null pointer "
        "as None"
    )


def _three(name: str, sizes: Any) -> tuple[int, ...]:
    """One to three sizes as three."""
    found = tuple(extents(name, sizes)) if isinstance(sizes, tuple | list) else (whole(name, sizes, ConfigError, 1),)
    if not 1 <= len(found) <= 3 or min(found) < 1:
        raise ConfigError(f"{name} is one to three numbers of at least 1, got {shown(sizes)}")
    return (*found, 1, 1)[:3]
