"""Array aliases (one that runs over candidates has shape (n,)), a dict that cannot be changed, and methods of a class
that are functions of a higher layer."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from operator import attrgetter
from types import MethodType
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np

IntArray: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
FloatArray: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
BoolArray: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

Value = TypeVar("Value")


class FrozenDict(dict[str, Value]):
    """Compares, prints and goes into JSON as the dict that it is, but cannot be changed."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("this mapping cannot be changed; dict(...) makes a copy that can")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    @cached_property
    def _hash(self) -> int:
        return hash(frozenset(self.items()))

    def __hash__(self) -> int:  # type: ignore[override]
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


class Late:
    """A method that is a function of another module, "module:name", imported when the method is first asked for."""

    def __init__(self, function: str) -> None:
        self._module, self._name = function.split(":")

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        return MethodType(attrgetter(self._name)(import_module(f"carver.{self._module}")), instance)


def late(function: str) -> Any:
    """The same for a class whose annotation says what is returned: a layer above does it."""
    return Late(function)
