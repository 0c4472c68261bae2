"""Array aliases (one that runs over candidates has shape (n,)), a dict and records that cannot be changed, and methods
of a class that are functions of a higher layer."""

from __future__ import annotations

from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from importlib import import_module
from inspect import Parameter, Signature
from operator import attrgetter
from types import MethodType
from typing import Any, ClassVar, NoReturn, TypeAlias, TypeVar, dataclass_transform

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

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


class _OfFields:
    """The signature of a class whose fields are its arguments, for `help` and editors."""

    def __get__(self, instance: object, owner: type[Record]) -> Signature:
        def default(its: Field[Any]) -> Any:
            return its.default if its.default_factory is MISSING else its.default_factory()

        taken = [(name, default(its), its.type) for name, its in owner._fields.items() if its.init]
        return Signature([
            Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=kind,
                      default=Parameter.empty if value is MISSING else value)
            for name, value, kind in taken
        ])  # fmt: skip


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Record:
    """A frozen dataclass with methods that all of them share: `class Tensor(Record)`. A decorator compiles six for each
    class, which took a third of the time of `import carver`. With `eq=False` a record is equal to itself alone."""

    __match_args__: ClassVar[tuple[str, ...]]
    __signature__: ClassVar[Any] = _OfFields()
    _fields: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls, eq: bool = True) -> None:
        dataclass(init=False, repr=False, eq=False)(cls)
        cls._fields = {its.name: its for its in fields(cls)}  # type: ignore[arg-type]
        if not eq:
            cls.__eq__, cls.__hash__ = object.__eq__, object.__hash__  # type: ignore[method-assign]

    def __init__(self, /, *args: Any, **given: Any) -> None:
        names, own = self.__match_args__, dict(zip(self.__match_args__, args))  # noqa: B905 - strict takes as long again
        if len(own) < len(self._fields):
            for name, its in self._fields.items():
                if name not in own:
                    own[name] = given.pop(name) if name in given and its.init else _default(type(self), its)
        if given or len(args) > len(names):
            odd = ", ".join(given) or f"{len(args)} values"
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(names)}, each once; got {odd}")
        object.__setattr__(self, "__dict__", own)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Checks what was given."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._compared == other._compared

    def __hash__(self) -> int:
        return hash(self._compared)

    @property
    def _compared(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name, its in self._fields.items() if its.compare])

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name, its in self._fields.items() if its.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")


def _default(owner: type, its: Field[Any]) -> Any:
    if its.default is MISSING and its.default_factory is MISSING:
        raise TypeError(f"{owner.__name__} needs {its.name}")
    return its.default if its.default_factory is MISSING else its.default_factory()


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
