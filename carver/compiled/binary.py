"""What a kernel is launched with, as its compiler sees it: tensors by type, shape and strides, numbers by value; and a
kernel as machine code with its launch: what every language comes to, and the door for tools that carver does not
know."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..base.dtypes import ARRAY_BYTES, of_array
from ..base.errors import ConfigError, ProblemError, nearest
from ..base.given import MOST_BYTES, content, fits, in_words, index, shown, takes, whole
from ..base.types import FrozenDict, Record

TRITON_TYPE = {
    "float64": "fp64", "float32": "fp32", "tf32": "fp32", "float16": "fp16", "bfloat16": "bf16",
    "float8_e4m3": "fp8e4nv", "float8_e5m2": "fp8e5", "float8_e4m3fnuz": "fp8e4b8", "float8_e5m2fnuz": "fp8e5b16",
    "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "bool": "i1",
    "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8",
}  # fmt: skip
"""carver's element types as Triton writes them in a signature."""

_SPELT = {triton: name for name, triton in TRITON_TYPE.items() if name != "tf32"}


def extents(name: str, given: Any) -> Iterator[int]:
    """Whole numbers, in a sequence of any library. Raises ConfigError for anything else."""
    numbers: tuple[Any, ...] | None = None
    if not isinstance(given, str) and isinstance(given, Iterable) and getattr(given, "ndim", 1) == 1:
        numbers = tuple(given)
    if numbers is None or any(index(n) is None for n in numbers):
        raise ConfigError(f"{name} is a sequence of whole numbers, got {shown(given)}")
    return (whole(f"each number of {name}", n, ConfigError, -(2**62), 2**62) for n in numbers)


class Tensor(Record):
    """A tensor argument of a kernel: element type, shape, and strides in elements (row-major by default).

    The type is a name, Triton's ("fp16") or PyTorch's ("float16"), or a dtype of a library.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] = ()

    @takes(ConfigError, besides=".")
    def __init__(self, dtype: Any, shape: Any, strides: Any = ()) -> None:
        super().__init__(dtype, shape, strides)

    def __post_init__(self) -> None:
        dtype = _dtype(self.dtype)
        shape = tuple(extents("shape", self.shape))
        if min(shape, default=0) < 0:
            raise ConfigError(f"each number of a shape is at least 0, got {shape}")
        strides = tuple(extents("strides", self.strides)) or tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        if len(strides) != len(shape):
            raise ConfigError(f"a tensor of shape {shape} has {len(shape)} strides, got {strides}")
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "strides", strides)

    def numel(self) -> int:
        """Number of elements. This and the methods below are PyTorch's, for grids and heuristics that call them."""
        return math.prod(self.shape)

    def dim(self) -> int:
        return len(self.shape)

    def size(self, axis: int | None = None) -> Any:
        return self.shape if axis is None else self.shape[axis]

    def stride(self, axis: int | None = None) -> Any:
        return self.strides if axis is None else self.strides[axis]

    def element_size(self) -> int:
        return self.item_bytes

    @property
    def item_bytes(self) -> int:
        return ARRAY_BYTES[self.dtype.removesuffix("fnuz")]

    @property
    def nbytes(self) -> int:
        """Distinct bytes that the tensor's elements take."""
        used = (n for n, stride in zip(self.shape, self.strides, strict=True) if stride)
        return math.prod(used) * self.item_bytes

    @property
    def extent_bytes(self) -> int:
        """From its first element to the last in memory."""
        steps = sum((n - 1) * max(stride, 0) for n, stride in zip(self.shape, self.strides, strict=True))
        return (steps + 1) * self.item_bytes if self.numel() else 0


class Descriptor(Record):
    """A tensor descriptor made on the host: a tensor, and the block that one access moves. `layout`: Gluon's, of the
    block in shared memory."""

    tensor: Tensor
    block_shape: tuple[int, ...]
    layout: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.tensor, Tensor):
            raise ConfigError(f"a descriptor is of a carver.Tensor, got {shown(self.tensor)}")
        object.__setattr__(self, "block_shape", tuple(extents("block_shape", self.block_shape)))
        if len(self.block_shape) != len(self.tensor.shape):
            raise ConfigError(f"a descriptor's block {self.block_shape} has another rank than {self.tensor.shape}")
        if min(self.block_shape, default=1) < 1:
            raise ConfigError(f"each number of a block_shape is at least 1, got {self.block_shape}")


def changeable(value: Any) -> Any:
    """A copy of a tensor descriptor that a hook may change. It has Triton's class, by which hooks recognise it."""
    if not isinstance(value, Descriptor):
        return copy(value)
    try:
        from triton.tools.tensor_descriptor import TensorDescriptor as kind
    except ImportError:  # an older Triton
        kind = SimpleNamespace
    made = kind.__new__(kind)  # whose __init__ asks for an address
    tensor = value.tensor
    vars(made).update(
        base=tensor, shape=list(tensor.shape), strides=list(tensor.strides), block_shape=list(value.block_shape)
    )
    return made


def _strides(value: Any) -> tuple[int, ...]:
    """Of an array of PyTorch in elements, of NumPy and what follows it in bytes; none where elements lie in a row."""
    if callable(getattr(value, "stride", None)):
        return tuple(value.stride())
    steps, each = getattr(value, "strides", None), getattr(value, "itemsize", 0)
    if not isinstance(steps, tuple) or not each:
        return ()
    if any(step % each for step in steps):
        raise ConfigError(f"its elements have {each} bytes, and are {steps} bytes apart: take a whole number of them")
    return tuple(step // each for step in steps)


def given(value: Any) -> Any:
    """An argument as a user has it: a tensor of any library, a tensor descriptor, or what already is one of ours."""
    if hasattr(value, "block_shape") and hasattr(value, "base"):  # Triton's host descriptor
        tensor = Tensor(value.base.dtype, tuple(value.shape), tuple(value.strides))
        return Descriptor(tensor, tuple(value.block_shape), getattr(value, "layout", None))
    points = hasattr(value, "data_ptr") or len(getattr(value, "shape", ()))  # NumPy's scalars have a shape as well
    if hasattr(value, "dtype") and hasattr(value, "shape") and not isinstance(value, Tensor) and points:
        return Tensor(value.dtype, tuple(value.shape), _strides(value))
    if hasattr(value, "dtype") and hasattr(value, "item") and not isinstance(value, Tensor):
        return value.item()
    return value


def handed(name: str, value: Any) -> Any:
    """The argument `name` as `given` has it, in a tuple each of its parts. Its errors name it."""
    if isinstance(value, tuple):
        return by_part(handed, name, value)
    try:
        return given(value)
    except ConfigError as error:
        raise ConfigError(f"argument {name!r}: {error}") from None


def by_part(function: Callable[[str, Any], Any], name: str, value: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the function gives of each part, by its name `sizes.0`, `sizes.1`, as a tuple of the same kind."""
    parts = [function(f"{name}.{i}", part) for i, part in enumerate(value)]
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)


def leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """An argument under its name; the parts of a tuple one by one, under theirs."""
    if not isinstance(value, tuple):
        yield name, value
        return
    for i, part in enumerate(value):
        yield from leaves(f"{name}.{i}", part)


def _dtype(given: Any) -> str:
    name = getattr(given, "__name__", None) or str(given).rpartition(".")[2]
    if name not in TRITON_TYPE:
        with suppress(ProblemError):
            name = _SPELT.get(name) or of_array(name)
    if name not in TRITON_TYPE:
        raise ConfigError(f"unknown element type {shown(given)}; known: {', '.join(TRITON_TYPE)}")
    return name


def check_values(values: Mapping[str, Any], args: Mapping[str, Any]) -> None:
    """What tensors are said to hold is of tensors among the arguments, of whole numbers for those of integers, and no
    array of another number of elements."""
    plain = dict(leaf for name, value in args.items() for leaf in leaves(name, handed(name, value)))
    found = {name: getattr(value, "tensor", value) for name, value in plain.items()}
    tensors = {name: value for name, value in found.items() if isinstance(value, Tensor)}
    for name, value in values.items():
        if name not in tensors:
            raise ConfigError(f"values are of tensors among the arguments, got {name!r}: {nearest(name, tensors)}")
        try:
            held = np.asarray(value)
        except ValueError:  # rows of several lengths, which whoever reads them refuses
            continue
        if held.ndim and held.size and held.size != tensors[name].numel():
            raise ConfigError(f"values[{name!r}] has {held.size:,} numbers, the tensor {tensors[name].numel():,}")
        if "int" in (dtype := tensors[name].dtype) and held.dtype.kind in "iuf":
            least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
            if np.any(odd := ~((least <= held) & (held <= most) & (held == np.floor(held)))):
                allowed = f"{dtype} has whole numbers from {least:,} to {most:,}"
                raise ConfigError(f"values[{name!r}] has {held[odd].flat[0]}, the tensor of {allowed}")


_SWIZZLES = 3
"""Codes of a tensor map's swizzle: none, 32, 64 and 128 bytes."""


class TensorMap(Record):
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


class Struct(Record):
    """A struct that a kernel takes by value: its bytes, and the tensors whose addresses stand in it, by offset."""

    data: bytes
    tensors: Mapping[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.data, bytes):
            raise ConfigError(f"a struct is given by its bytes, got {shown(self.data)}")
        check_kind("tensors", self.tensors, "Mapping[int, Any]")
        found = {
            whole("the offset of an address", at, ConfigError, 0, len(self.data) - 8): _tensor("a struct", tensor)
            for at, tensor in dict(self.tensors).items()
        }
        object.__setattr__(self, "tensors", found)

    @classmethod
    def of(cls, *fields: Any) -> Struct:
        """A struct of these fields as C lays them out, each at a multiple of its size, or of its largest member's.

        A field is a tensor, by its address; a number, as `passed` has it; None as a null pointer; or a tuple, as a
        struct in it or as an array. A Python int that fits 32 bits is an `int`: a `long long` is np.int64.
        """
        data, tensors, _ = _laid_out(fields)
        return cls(data, tensors)


def _laid_out(fields: Sequence[Any]) -> tuple[bytes, dict[int, Tensor], int]:
    """Bytes of a struct, its tensors by offset, and its alignment."""
    data, tensors, widest = b"", dict[int, Tensor](), 1
    for each in fields:
        body, inside, align = _laid_out(each) if isinstance(each, tuple | list) else _field(passed(each))
        data += bytes(-len(data) % align)
        tensors |= {len(data) + at: tensor for at, tensor in inside.items()}
        data, widest = data + body, max(widest, align)
    return data + bytes(-len(data) % widest), tensors, widest


def _field(value: Any) -> tuple[bytes, dict[int, Tensor], int]:
    if isinstance(value, np.generic):
        return value.tobytes(), {}, value.itemsize
    return bytes(8), {} if value is None else {0: _tensor("a pointer in a struct", value)}, 8


def passed(value: Any) -> Any:
    """A Python number as C passes it: a `bool`, a `float`, or a whole number of 32 bits if it fits them, else of 64; a
    tuple as a struct. Anything else as it is."""
    if isinstance(value, tuple | list):
        return Struct.of(*value)
    if isinstance(value, bool | np.generic) or not isinstance(value, int | float):
        return np.int8(value) if isinstance(value, bool) else value
    if isinstance(value, float):
        return np.float32(value)
    for kind in (np.int32, np.int64, np.uint64):
        if np.iinfo(kind).min <= value <= np.iinfo(kind).max:
            return kind(value)
    raise ConfigError(f"a number that is passed has at most 64 bits, got {shown(value)}")


class Binary(Record):
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
        check_kind("names", self.names, "tuple[str, ...]")
        check_kind("constants", self.constants, "Mapping[str, Any]")
        object.__setattr__(self, "args", tuple(_argument(i, value) for i, value in enumerate(self.args)))
        object.__setattr__(self, "names", tuple(self.names) or tuple(f"arg{i}" for i in range(len(self.args))))
        if len(self.names) != len(self.args):
            raise ConfigError(f"{len(self.args)} arguments have as many names, got {shown(self.names)}")
        for name in ("grid", "block"):
            object.__setattr__(self, name, _three(name, getattr(self, name)))
        whole("shared_bytes", self.shared_bytes, ConfigError)
        object.__setattr__(self, "constants", FrozenDict({k: np.asarray(v) for k, v in dict(self.constants).items()}))


def check_kind(name: str, value: Any, kind: str) -> None:
    if not fits(value, kind, {}):
        raise ConfigError(f"{name} must be {in_words(kind)}, got {shown(value)}")


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
