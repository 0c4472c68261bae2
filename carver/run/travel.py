"""Data that goes between processes: programs and descriptors as JSON, Python code as the name to import it by."""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ..arch.descriptor import Arch, Matrix
from ..base.errors import ConfigError
from ..ranking.hint import Hint
from .render import Call, Program, Scalar, Source, TensorMap, TensorSpec
from .spec import Param


def program_to_dict(program: Program) -> dict[str, Any]:
    """Plain JSON types; `program_from_dict` gives back an equal program."""
    s = program.source
    calls = []
    for call in program.calls:
        block = call.block if isinstance(call.block, int) else list(call.block)
        args = [[a.kind, a.value] if isinstance(a, Scalar) else a for a in call.args]
        maps = [[list(astuple(each)) for each in call.maps]] if call.maps else []
        calls.append([call.entry, list(call.grid), block, call.dynamic_smem_bytes, args, *maps])
    return {
        "source": [str(s.path), dict(s.defines), list(s.flags), list(s.entries), s.isa], "calls": calls,
        "workspace_bytes": program.workspace_bytes,
        "tensors": [[t.name, list(t.shape), t.dtype, t.align_bytes] for t in program.tensors],
    }  # fmt: skip


def program_from_dict(d: Mapping[str, Any]) -> Program:
    path, defines, flags, entries, isa = d["source"]
    *inputs, output = (TensorSpec(name, tuple(shape), dtype, align) for name, shape, dtype, align in d["tensors"])
    calls = []
    for entry, (x, y, z), block, smem_bytes, args, *maps in d["calls"]:
        scalars = tuple(Scalar(*a) if isinstance(a, list) else a for a in args)
        threads = tuple(block) if isinstance(block, list) else block
        read = tuple(TensorMap(*_frozen(each)) for each in (maps[0] if maps else ()))
        calls.append(Call(entry, (x, y, z), threads, smem_bytes, scalars, read))
    source = Source(Path(path), MappingProxyType(defines), tuple(flags), tuple(entries), isa)
    return Program(source, tuple(calls), d["workspace_bytes"], tuple(inputs), output)


def arch_from_dict(d: Mapping[str, Any]) -> Arch:
    """The descriptor whose fields came through JSON."""
    rows = [Matrix(**{**row, "shape": tuple(row["shape"])}) for row in d["matrix"]]
    return Arch(**{**{name: _frozen(value) for name, value in d.items()}, "matrix": tuple(rows)})


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class PythonCode:
    """Python that runs in the worker process: the tuned function, and what the user hooks in."""

    function: Callable[..., Any] | None = None
    pre_hook: Callable[..., Any] | None = None
    bench: Callable[..., Any] | None = None
    post_hook: Callable[..., Any] | None = None
    hooks: tuple[Callable[..., Any], ...] = ()
    """Those of single candidates, which name them by their places here."""
    direct: bool = False
    """The function does the work itself on the arrays; else it returns a callable that does."""
    whole: bool = False
    """It takes the config as one argument, `config`."""

    @property
    def needed(self) -> bool:
        return any((self.function, self.pre_hook, self.bench, self.post_hook, self.hooks))

    def references(self) -> dict[str, Any] | None:
        """The functions by module and name; None where one of them cannot be imported elsewhere."""
        out: dict[str, Any] = {"direct": self.direct, "whole": self.whole}
        for name in ("function", "pre_hook", "bench", "post_hook"):
            if (fn := getattr(self, name)) is not None:
                if (where := import_path(fn)) is None:
                    return None
                out[name] = where
        found = [import_path(hook) for hook in self.hooks]
        return None if None in found else out | {"hooks": found}

    @classmethod
    def resolve(cls, references: Mapping[str, Any]) -> PythonCode:
        functions = {k: _resolve(v) for k, v in references.items() if isinstance(v, str)}
        hooks = tuple(_resolve(where) for where in references.get("hooks", ()))
        return cls(
            direct=references.get("direct", False), whole=references.get("whole", False), hooks=hooks, **functions
        )  # fmt: skip


def import_path(fn: Callable[..., Any]) -> str | None:
    """"module:name" if importing that gives the function, decorated or not."""
    module, name = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    if not module or module == "__main__" or not name or "<" in name:
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is not None and _undecorated(found) is fn else None


def _undecorated(found: Any) -> Any:
    """The user's function within what `jit` and `autotune` made of it."""
    while not callable(getattr(found, "__code__", None)) and hasattr(found, "fn"):
        found = found.fn
    return found


def _resolve(where: str) -> Callable[..., Any]:
    fn: Callable[..., Any] = _undecorated(pkgutil.resolve_name(where))
    return fn


def sent(value: Any) -> Any:
    """A value of a config as JSON that `arrived` gives back. Raises ConfigError for what cannot travel."""
    if isinstance(value, Hint):
        return {"hint": value.to_dict()}
    if isinstance(value, Param):
        return {"param": value.to_list()}
    if isinstance(value, list | tuple):
        return [sent(v) for v in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    raise ConfigError(f"a config's value must be a number, text or a tuple of them, got {value!r}")


def arrived(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Param(*value["param"]) if "param" in value else Hint.from_dict(value["hint"])
    return tuple(arrived(v) for v in value) if isinstance(value, list) else value


def call_by_name(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Callable[[], Any]:
    """The call with each argument at its place, wherever among the others the arrays stand."""
    parameters = inspect.signature(function).parameters.values()
    ordered = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY]
    named = {name: value for name, value in arguments.items() if name not in ordered}
    return lambda: function(*(arguments[name] for name in ordered), **named)
