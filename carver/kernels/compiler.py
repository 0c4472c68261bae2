"""Columns that a compiler decides: functions instead of expressions, selected by a declaration's key `compiler`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from . import triton, triton_attention
from .expr import Expression, evaluated
from .trace import Symbol

COMPILERS: Mapping[str, Mapping[str, Mapping[str, Callable[..., Any]]]] = {
    "triton": {**triton.COLUMNS, **triton_attention.COLUMNS}
}
"""For each compiler and cost model, the function that computes each column."""


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
    """The columns of a model that a compiler decides, without those that the declaration gives itself.

    A parameter with a default is only filled if the declaration has that name.
    """
    functions = COMPILERS[compiler].get(model, {})
    return {
        name: Derivation(f"{compiler}.{function.__name__}", _parameters(function, declared), function)
        for name, function in functions.items()
        if name not in declared
    }


def _parameters(function: Callable[..., Any], declared: Collection[str]) -> frozenset[str]:
    parameters = inspect.signature(function).parameters.values()
    return frozenset(p.name for p in parameters if p.default is p.empty or p.name in declared)
