"""What a tuned result is known by: the function with all that it closes over, the call, settings, device, versions."""

from __future__ import annotations

import dis
import hashlib
import inspect
import platform
import sys
import types
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..bench import versions
from ..descriptor import Arch
from ..device import Source, c_compiler, cuda_compiler
from ..errors import ConfigError, nearest
from ..hint import Hint
from ..templates import Template
from .configs import SearchSpace
from .spec import param_of

Bucket = Callable[[int], Any]


class Unstable(ConfigError):
    """A value that has no identity beyond this process."""


def plain(value: Any, seen: tuple[int, ...] = ()) -> Any:
    """A value as JSON that is equal in every process if the value is. Raises Unstable where there is no such thing."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if id(value) in seen:
        return "recursive"
    seen = (*seen, id(value))
    if isinstance(value, Mapping):
        return {str(k): plain(v, seen) for k, v in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(v, seen) for v in value]
    if isinstance(value, Set):
        return sorted((plain(v, seen) for v in value), key=repr)
    if isinstance(value, Path):
        return ["file", hashlib.sha256(value.read_bytes()).hexdigest() if value.is_file() else str(value)]
    if isinstance(value, np.generic | Enum):
        return [type(value).__name__, plain(value.item() if isinstance(value, np.generic) else value.value, seen)]
    if isinstance(value, np.ndarray):
        return ["array", str(value.dtype), list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
    if isinstance(value, Hint):
        return ["hint", value.backend, value.kernel, value.arch, value.problem.to_dict(), dict(value.config)]
    if isinstance(value, Template | Arch):
        return ["carver", repr(value)]
    if isinstance(value, SearchSpace):
        return ["space", plain(value.values, seen), [plain(rule, seen) for rule in value.rules]]
    return _code(value, seen)


def _code(value: Any, seen: tuple[int, ...]) -> Any:
    """Functions, by their source and all that it refers to; types and modules by name; dataclasses by field."""
    if isinstance(value, partial):
        return ["partial", plain(value.func, seen), plain(value.args, seen), plain(value.keywords, seen)]
    if isinstance(value, types.ModuleType | type | types.BuiltinFunctionType):
        return ["name", getattr(value, "__module__", ""), getattr(value, "__qualname__", value.__name__)]
    if isinstance(value, types.MethodType):
        return ["method", plain(value.__func__, seen), plain(value.__self__, seen)]
    if isinstance(value, types.FunctionType):
        return function_identity(value, seen)
    inner = getattr(value, "fn", None)  # a Triton function, or what carver.jit made
    if isinstance(inner, types.FunctionType):
        return ["wrapped", type(value).__name__, function_identity(inner, seen)]
    if is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, {f.name: plain(getattr(value, f.name), seen) for f in fields(value)}]
    raise Unstable(f"a {type(value).__name__} has no identity that outlives this process")


def function_identity(fn: types.FunctionType, seen: tuple[int, ...] = ()) -> Any:
    """Source (bytecode where there is none), defaults, closure values, and the plain globals that it reads."""
    compiled = [fn.__code__.co_code.hex(), plain([c for c in fn.__code__.co_consts if not _is_code(c)], seen)]
    try:
        text: Any = compiled if fn.__name__ == "<lambda>" else inspect.getsource(fn)  # a line may hold several of them
    except (OSError, TypeError):
        text = compiled
    closure = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            closure[name] = plain(cell.cell_contents, seen)
        except ValueError:
            closure[name] = "empty"
        except Unstable as e:
            raise Unstable(f"{fn.__name__} closes over {name!r}: {e}") from None
    names = {i.argval for i in dis.get_instructions(fn) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    read = {name: fn.__globals__[name] for name in sorted(names) if name in fn.__globals__}
    local = {
        name: plain(value, seen)
        for name, value in read.items()
        if isinstance(value, bool | int | float | str | tuple | Path)
        or (isinstance(value, types.FunctionType) and value.__module__ == fn.__module__)
    }
    return [fn.__qualname__, text, plain(fn.__defaults__, seen), plain(fn.__kwdefaults__, seen), closure, local]


def _is_code(value: Any) -> bool:
    return isinstance(value, types.CodeType)


def pow2(n: int) -> int:
    """The next power of two, at least n."""
    return 1 << max(0, n - 1).bit_length()


def bucket_of(bucket: str | Bucket | None) -> Bucket:
    if bucket is None:
        return lambda n: n
    if bucket == "pow2":
        return pow2
    if callable(bucket):
        return bucket
    raise ConfigError(f"bucket must be 'pow2' or a function of an int, got {bucket!r}")


def call_key(
    bound: Mapping[str, Any],
    key: Sequence[str] | Callable[..., Hashable] | None,
    bucket: str | Bucket | None,
    do_not_specialize: Sequence[str],
    what: str,
) -> Any:
    """The part of the key that a call's arguments give: by default all of them, whole numbers by their bucket.

    Of arrays it is the element type and the shape; pointers, strides and contents are no part of it.
    """
    if callable(key):
        return plain(key(**bound))
    for group in (key or (), do_not_specialize):
        if unknown := [name for name in group if name not in bound]:
            raise ConfigError(f"{what} has no argument {unknown[0]!r} to key on; {nearest(unknown[0], bound)}")
    names = [name for name in (key or bound) if name not in do_not_specialize]
    rounded = bucket_of(bucket)
    return [[name, _part(bound[name], rounded)] for name in names]


def _part(value: Any, rounded: Bucket) -> Any:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return plain(rounded(int(value)))
    if (param := param_of("", value)) is not None:
        return [param.dtype, [plain(rounded(int(n))) for n in param.extents]]
    return plain(value)


def device_key(kind: str, arch: Arch) -> list[Any]:
    """Device, driver, compiler and versions."""
    driver = Path("/proc/driver/nvidia/version")
    compiler = c_compiler() if kind == "cpu" else cuda_compiler() if kind == "cuda" else None
    return [
        arch.title, arch.isa, driver.read_text().splitlines()[0] if kind == "cuda" and driver.is_file() else "",
        compiler.identity if compiler else "", versions(), platform.machine(), list(sys.version_info[:3]),
    ]  # fmt: skip


def source_key(source: Source, kind: str) -> str:
    return source.key((c_compiler() if kind == "cpu" else cuda_compiler()).identity)
