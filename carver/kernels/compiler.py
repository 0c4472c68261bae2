"""Columns that a compiler decides: functions instead of expressions, selected by a declaration's key `compiler`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

from .expr import Expression, evaluated
from .trace import Symbol

COMPILERS = {"triton": ("triton", "triton_attention")}
"""For each compiler the modules here that know it, imported when a declaration asks for it."""


@cache
def decided(compiler: str) -> Mapping[str, Mapping[str, Callable[..., Any]]]:
    """For each cost model, the function that computes each column."""
    modules = (import_module(f".{name}", __package__) for name in COMPILERS[compiler])
    return {model: columns for module in modules for model, columns in module.COLUMNS.items()}


@dataclass(frozen=True, slots=True)
class Derivation:
    """A column that a function computes. Its parameters are names of columns, tunables and scalars."""

    text: str
    """The name of the function."""
    names: frozenset[str]
    function: Callable[..., Any]

    def __call__(self, scope: Mapping[str, Any]) -> Any:
        return evaluated(self.text, scope, self.names, self._computed)

    def _computed(self, values: Mapping[str, Any]) -> Any:
        traced = next((value.trace for value in values.values() if isinstance(value, Symbol)), None)
        return self.function(**values) if traced is None else traced.called(self.function, values)


Formula: TypeAlias = Expression | Derivation


def filled(compiler: str, model: str, declared: Collection[str]) -> dict[str, Derivation]:
    """The columns of a model that a compiler decides, without those that the declaration gives itself. A parameter with
    a default is only filled if the declaration has that name."""
    return {
        name: Derivation(f"{compiler}.{f.__name__}", frozenset(
            p.name for p in inspect.signature(f).parameters.values() if p.default is p.empty or p.name in declared
        ), f)
        for name, f in decided(compiler).get(model, {}).items() if name not in declared
    }  # fmt: skip
