"""The identity of a tuned result: the function with all that it reads, the call, settings, device, versions."""

from __future__ import annotations

import ast
import dis
import hashlib
import inspect
import json
import logging
import os
import platform
import re
import sys
import textwrap
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from difflib import unified_diff
from enum import Enum
from functools import cached_property, lru_cache, partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import ConfigError, Foreign, nearest
from ..base.folders import cores_available
from ..base.given import asked
from ..base.modules import files
from ..ops.operator import Template
from ..ranking.hint import Hint
from ..ranking.search import SearchSpace
from ..run.bench import versions
from ..run.session import compiler_of
from ..run.spec import param_of
from . import cache

Bucket = Callable[[int], Any]


class Unstable(ConfigError):
    """A value that has no identity beyond this process."""


def plain(value: Any) -> Any:
    """A value as JSON that is equal in every process if the value is. Raises Unstable where there is no such thing."""
    return _Walk().plain(value)


class _Walk:
    """One value and all that it refers to; code that is met again is named by when it was met first."""

    def __init__(self) -> None:
        self._above: list[int] = []
        self._met: dict[int, int] = {}

    def _apart(self) -> _Walk:
        other = _Walk()
        other._above, other._met = [*self._above], {**self._met}
        return other

    def plain(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if id(value) in self._above:
            return "recursive"
        self._above.append(id(value))
        try:
            return self._container(value)
        finally:
            self._above.pop()

    def _container(self, value: Any) -> Any:
        plain = self.plain
        if isinstance(value, Mapping):
            return {str(k): plain(v) for k, v in value.items()}
        if isinstance(value, list | tuple | range):
            return [plain(v) for v in value]
        if isinstance(value, Set):  # in an order that depends on no hash, since what comes first is written out
            return [plain(v) for v in sorted(value, key=lambda v: repr(self._apart().plain(v)))]
        if isinstance(value, Path):
            return ["file", _file(value) if value.is_file() else str(value)]
        if isinstance(value, np.generic):
            return [type(value).__name__, plain(value.item())]
        if isinstance(value, Enum):
            return [plain(type(value)), plain(value.value)]
        if isinstance(value, np.ndarray):
            return ["array", str(value.dtype), list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
        if isinstance(value, Hint):
            return ["hint", value.backend, value.kernel, plain(value.arch), value.problem.to_dict(), dict(value.config)]
        if isinstance(value, Template):
            return ["template", type(value).__name__, plain(value.problem.to_dict()), plain(value.arch)]
        if isinstance(value, np.dtype | logging.Logger) or type(value).__name__ == "dtype":
            return ["says", repr(value)]  # a dtype of torch or Triton too
        if isinstance(value, SearchSpace):
            return ["space", plain(value.values), [plain(rule) for rule in value.rules]]
        return self._code(value)

    def _code(self, value: Any) -> Any:
        """Functions, classes and what wraps them by source and all that they read; what is installed by its name."""
        plain = self.plain
        if isinstance(value, partial):
            return ["partial", plain(value.func), plain(value.args), plain(value.keywords)]
        if isinstance(value, types.MethodType):
            return ["method", plain(value.__func__), plain(value.__self__)]
        module = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None) or ""
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
        if isinstance(value, types.ModuleType):
            return ["name", module, plain(_modules([module]))]
        if isinstance(value, types.FunctionType | type):
            if _is_installed(module) and "<" not in str(name):
                return ["name", module, name]
            if id(value) in self._met:
                return ["again", self._met[id(value)]]
            self._met[id(value)] = len(self._met)
            return self._class(value) if isinstance(value, type) else self._function(value)
        if isinstance(value, property | cached_property):
            parts = [value.func] if isinstance(value, cached_property) else [value.fget, value.fset, value.fdel]
            return ["property", *map(plain, parts)]
        if is_dataclass(value):
            return [plain(type(value)), {f.name: plain(getattr(value, f.name)) for f in fields(value)}]
        if type(value).__name__ == "constexpr":  # of Triton
            return ["constexpr", plain(value.value)]
        inner = getattr(value, "fn", None) or getattr(value, "__wrapped__", None)  # of Triton, carver.jit, functools
        if callable(inner):
            return ["wrapped", plain(type(value)), plain(inner)]
        if isinstance(value, types.BuiltinFunctionType) or (callable(value) and name and _is_installed(module)):
            return ["name", module, name]
        raise Unstable(f"a {type(value).__name__} has no identity that outlives this process")

    def _class(self, cls: type) -> Any:
        """Source, base classes, and attributes, which inherit and compute what the source only names."""
        text, held = _source(cls), {}
        for name, value in sorted(vars(cls).items()):
            code = getattr(value, "__code__", None)
            if (name.startswith("__") and code is None) or (text and code and code.co_filename.startswith("<")):
                continue  # Python's own notes, and methods that a decorator generates from the text
            try:
                held[name] = self._part(f"{cls.__name__} has {name!r}", value)
            except Unstable:
                if code is not None or isinstance(value, property | cached_property | classmethod | staticmethod):
                    raise
                held[name] = type(value).__name__
        return ["class", cls.__qualname__, text, [self.plain(base) for base in cls.__bases__], held]

    def _function(self, fn: types.FunctionType) -> Any:
        """Source (bytecode where there is none), defaults, closure values, and the globals that it reads."""
        text = None if fn.__name__ == "<lambda>" else _source(fn)  # a line may hold several of them
        closure = {}
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            try:
                closure[name] = self._part(f"{fn.__name__} closes over {name!r}", cell.cell_contents)
            except ValueError:
                closure[name] = "empty"
        found = _globals(fn)
        read = {name: self._part(f"{fn.__name__} reads {name!r}", found[name]) for name in sorted(found)}
        defaults = [self.plain(fn.__defaults__), self.plain(fn.__kwdefaults__)]
        return [fn.__qualname__, text or self.plain(_bytecode(fn.__code__)), defaults, closure, read]

    def _part(self, what: str, value: Any) -> Any:
        try:
            return self.plain(value)
        except Unstable as e:
            raise Unstable(f"{what}: {e}") from None


def _globals(fn: types.FunctionType) -> dict[str, Any]:
    """What a function and those inside it read of its module: by name, and of modules by what is taken from them."""
    found: dict[str, Any] = {}
    for code in _codes(fn.__code__):
        instructions = [one for one in dis.get_instructions(code) if one.opname != "EXTENDED_ARG"]
        for place, one in enumerate(instructions):
            if one.opname == "IMPORT_NAME":
                level, names = (before.argval for before in instructions[place - 2 : place])
                package = fn.__globals__.get("__package__") or ""
                found[f"import {one.argval}"] = _modules(_absolute(one.argval, level, names or (), package))
            if one.opname not in ("LOAD_GLOBAL", "LOAD_NAME") or one.argval not in fn.__globals__:
                continue
            name, value = str(one.argval), fn.__globals__[one.argval]
            for after in instructions[place + 1 :]:
                module = isinstance(value, types.ModuleType) and after.opname in ("LOAD_ATTR", "LOAD_METHOD")
                if not module or _is_installed(value.__name__) or not hasattr(value, after.argval):
                    break
                name, value = f"{name}.{after.argval}", getattr(value, after.argval)
            found[name] = value
    return found


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for each in code.co_consts:
        yield from _codes(each) if isinstance(each, types.CodeType) else ()


def _bytecode(code: types.CodeType) -> list[Any]:
    consts = [_bytecode(c) if isinstance(c, types.CodeType) else c for c in code.co_consts]
    return [code.co_code.hex(), code.co_names, code.co_varnames, consts]


def _absolute(name: str, level: int, names: Iterable[str], package: str) -> list[str]:
    """What an import may load: a module, and each name that is taken from it, which may be one too."""
    above = package.rsplit(".", level - 1)[0] if level else ""
    module = ".".join(filter(None, (above, name)))
    return [module, *(f"{module}.{each}" for each in names)]


def _modules(names: Iterable[str]) -> dict[str, Path]:
    """The files of the user's modules among these and of all that those import, by name. None is loaded for that."""
    found: dict[str, Path] = {}
    todo = [*names]
    while todo:
        for name, path in _files(todo.pop()):
            if name not in found:
                found[name] = path
                package = name if path.stem == "__init__" else name.rpartition(".")[0]
                for module, level, taken in _imports(path.read_bytes()) if path.suffix == ".py" else ():
                    todo += _absolute(module, level, taken, package)
    return found


def _files(name: str) -> Iterator[tuple[str, Path]]:
    """A module of the user's and the packages that it lies in."""
    return takewhile(lambda one: not _is_installed(one[0], str(one[1])), files(name))


@lru_cache(maxsize=1024)
def _imports(source: bytes) -> tuple[tuple[str, int, tuple[str, ...]], ...]:
    """Of each import in a source: module, number of leading dots, names that are taken from it."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()
    found: list[tuple[str, int, tuple[str, ...]]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, 0, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.module or "", node.level, tuple(alias.name for alias in node.names)))
    return tuple(found)


def _is_installed(module: str, file: str | None = None) -> bool:
    """Whether a module is Python's own, carver's or of an installed package: known by its version, not its source."""
    root = module.partition(".")[0]
    if root == "carver" or root in sys.stdlib_module_names or root in sys.builtin_module_names:
        return True
    path = file or getattr(sys.modules.get(module), "__file__", None)
    return path is not None and not {"site-packages", "dist-packages"}.isdisjoint(Path(path).parts)


def _source(value: Any) -> str | None:
    try:
        return normal(inspect.getsource(value))
    except (OSError, TypeError):
        return None


@lru_cache(maxsize=1024)
def normal(source: str) -> str:
    """Python source as its syntax tree says it: without comments, documentation strings and choices of layout."""
    try:
        tree = ast.parse(textwrap.dedent(source))
    except SyntaxError:
        return source
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            ast.get_docstring(node, clean=False) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _file(path: Path) -> str:
    content = path.read_bytes()
    if path.suffix == ".py":
        content = normal(content.decode(errors="replace")).encode()
    return hashlib.sha256(content).hexdigest()


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
    bound: Mapping[str, Any], key: Sequence[str] | Callable[..., Hashable] | None, bucket: str | Bucket | None,
    do_not_specialize: Sequence[str], what: str,
) -> Any:  # fmt: skip
    """The part of the key that a call's arguments give: by default all of them, whole numbers by their bucket.

    Of arrays it is the element type and the shape; pointers, strides and contents are no part of it. With `key` the
    element types of arrays that it does not name stay: another type is another kernel.
    """
    types = [[name, p.dtype] for name, v in bound.items() if (p := param_of("", v)) is not None
             and name not in do_not_specialize]  # fmt: skip
    if callable(key):
        found = plain(key(**asked(key, bound)[0]))
        return [found, types] if types else found
    for group in (key or (), do_not_specialize):
        if unknown := [name for name in group if name not in bound]:
            raise ConfigError(f"{what} has no argument {unknown[0]!r} to key on; {nearest(unknown[0], bound)}")
    names = [name for name in (key or bound) if name not in do_not_specialize]
    rounded = bucket_of(bucket)
    return [[name, _part(bound[name], rounded)] for name in names] + [t for t in types if t[0] not in names]


def _part(value: Any, rounded: Bucket) -> Any:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return plain(rounded(int(value)))
    if (param := param_of("", value)) is not None:
        return [param.dtype, [plain(rounded(int(n))) for n in param.extents]]
    return plain(value)


def strict() -> bool:
    """CARVER_KEY: "loose", the default, knows driver, compiler and packages by minor versions, "strict" in full."""
    level = os.environ.get("CARVER_KEY") or "loose"
    if level not in ("strict", "loose"):
        raise ConfigError(f"CARVER_KEY must be 'strict' or 'loose', got {level!r}")
    return level == "strict"


def minor(version: str) -> str:
    """A program's version as far as its minor version, without remarks in parentheses; all of it where it has none."""
    found = re.match(r"^.*?\d+\.\d+", re.sub(r"\(.*?\)", "", version))
    return " ".join(found[0].split()) if found else version


def compiler_key(kind: str) -> str:
    """The compiler of a kind of device, as keys know it; empty where nothing of ours is compiled for it."""
    if kind not in ("cpu", "cuda"):
        return ""
    compiler = compiler_of(kind)
    if strict():
        return compiler.identity
    said, native, rest = compiler.version.partition(" isa ")
    return " ".join((compiler.kind, f"{minor(said)}{native}{rest}", *compiler.flags))


def device_key(kind: str, arch: Arch) -> dict[str, Any]:
    """The device, as far as times depend on it."""
    return {
        "title": arch.title, "isa": arch.isa, "machine": platform.machine(),
        "cores": cores_available() if kind == "cpu" else None,
    }  # fmt: skip


def software_key(kind: str) -> dict[str, str]:
    """Driver, compiler and packages by their versions, in full where `strict`."""
    driver = Path("/proc/driver/nvidia/version")
    said = driver.read_text(encoding="utf-8").splitlines()[0] if kind == "cuda" and driver.is_file() else ""
    shown = str if strict() else minor
    known = {"driver": said, **versions("triton")}
    return {name: shown(v) for name, v in known.items()} | {"compiler": compiler_key(kind)}


LONGEST = 400
"""Characters of a value that are shown."""
_MOST_LINES = 8


def parts_of(key: str) -> tuple[str, dict[str, Any]]:
    """The whole key of the entry that begins with `key`, and what entered it. Raises ConfigError."""
    if len(every := cache.chosen([key])) != 1:
        raise ConfigError(f"{len(every)} entries begin with {key!r}; 'carver cache list' lists them")
    if (entry := every[0]).problem:
        raise ConfigError(entry.problem)
    if not isinstance(parts := entry.found.get("parts"), Mapping):
        raise Foreign(f"the entry {entry.key[:12]} does not say what entered its key")
    return entry.key, dict(parts)


def rows(parts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """One line a part: its name, and its value, which a long one is cut to."""
    return [(name, _short(value)) for name, value in parts.items()]


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Where two keys differ, by the path to each value: that, and the value of each. Of text only the lines."""
    found = []
    for path, one, other in _leaves("", a, b):
        if isinstance(one, str) and isinstance(other, str) and "\n" in one + other:
            lines = [line for line in unified_diff(one.splitlines(), other.splitlines(), n=0, lineterm="")
                     if line[:1] in "+-" and line[:3] not in ("+++", "---")]  # fmt: skip
            was, now = ("\n".join(islice((x[1:] for x in lines if x[0] == sign), _MOST_LINES)) for sign in "-+")
            found.append((path, _short(was), _short(now)))
        else:
            found.append((path, _short(one), _short(other)))
    return found


_ABSENT = object()


def _leaves(path: str, a: Any, b: Any) -> Iterator[tuple[str, Any, Any]]:
    """The innermost values that differ."""
    if a == b and type(a) is type(b):
        return
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for name in dict.fromkeys((*a, *b)):
            yield from _leaves(f"{path}.{name}".lstrip("."), a.get(name, _ABSENT), b.get(name, _ABSENT))
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from _leaves(f"{path}[{i}]", x, y)
    else:
        yield path, a, b


def _short(value: Any) -> str:
    if value is _ABSENT:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters)"
