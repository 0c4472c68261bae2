"""Python code that goes between processes as the name to import it by, and the values of its arguments."""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import ConfigError
from ..base.given import as_json, typed
from ..ranking.hint import Hint
from .spec import Param


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
        return {"param": as_json(value)}
    if isinstance(value, list | tuple):
        return [sent(v) for v in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    raise ConfigError(f"a config's value must be a number, text or a tuple of them, got {value!r}")


def arrived(value: Any) -> Any:
    if isinstance(value, Mapping):
        return typed(Param, value["param"]) if "param" in value else Hint.from_dict(value["hint"])
    return tuple(arrived(v) for v in value) if isinstance(value, list) else value


def call_by_name(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Callable[[], Any]:
    """The call with each argument at its place, wherever among the others the arrays stand."""
    parameters = inspect.signature(function).parameters.values()
    ordered = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY]
    named = {name: value for name, value in arguments.items() if name not in ordered}
    return lambda: function(*(arguments[name] for name in ordered), **named)
