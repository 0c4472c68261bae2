"""Methods of a class that are functions of a higher layer."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import MethodType
from typing import Any


class Late:
    """A method that is a function of another module, which is imported when the method is first asked for."""

    def __init__(self, function: str) -> None:
        self._module, _, self._name = function.rpartition(".")

    def __get__(self, instance: object, owner: type) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(import_module(f"carver.{self._module}"), self._name)
        return function if instance is None else MethodType(function, instance)
