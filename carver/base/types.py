"""Array aliases (one that runs over candidates has shape (n,)), dicts that cannot be changed, dataclasses that are soon
made, and methods of a class that are functions of a higher layer."""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, FrozenInstanceError
from functools import cached_property, partial
from importlib import import_module
from operator import attrgetter
from types import MethodType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

import numpy as np

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414

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


if not TYPE_CHECKING:

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True, **options):
        """`dataclasses.dataclass`, but of frozen classes, of which importing carver makes fifty, only `__init__` is
        compiled. The standard library compiles six methods of each, which was half of the time of that import."""
        if cls is None:
            return partial(dataclass, frozen=frozen, eq=eq, repr=repr, **options)
        if not frozen:
            return dataclasses.dataclass(cls, eq=eq, repr=repr, **options)
        own = {*vars(cls)}
        cls.__doc__ = cls.__doc__ or cls.__name__  # else the library takes milliseconds to write a signature there
        cls = dataclasses.dataclass(cls, init=False, eq=False, repr=False, **options)
        fields = dataclasses.fields(cls)
        methods = {"__init__": _init(cls, fields), "__setattr__": _set, "__delattr__": _delete}
        if eq:
            compared = _values([f.name for f in fields if f.compare])
            hashed = _values([f.name for f in fields if (f.compare if f.hash is None else f.hash)])
            methods["__eq__"] = lambda a, b: compared(a) == compared(b) if type(a) is type(b) else NotImplemented
            methods["__hash__"] = lambda self: hash(hashed(self))
        if repr:
            methods["__repr__"] = _repr
        if options.get("slots"):
            methods |= {"__getstate__": _state, "__setstate__": _restore}
        for name in methods.keys() - own:
            setattr(cls, name, methods[name])
        return cls


def _init(cls: type, fields: tuple[dataclasses.Field[Any], ...]) -> Any:
    scope: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    parameters, lines = ["self"], []
    for f in sorted(fields, key=lambda f: bool(f.kw_only)):
        name = value = f.name
        default = ""
        if f.default_factory is not MISSING:
            scope[f"_made_{name}"] = f.default_factory
            value = f"_made_{name}() if {name} is _missing else {name}" if f.init else f"_made_{name}()"
            default = "=_missing"
        elif f.default is not MISSING:
            scope[f"_given_{name}"] = f.default
            value, default = name if f.init else f"_given_{name}", f"=_given_{name}"
        parameters += ["*"] if f.kw_only and "*" not in parameters else []
        parameters += [name + default] if f.init else []
        lines.append(f"_set(self, {name!r}, {value})")
    lines += ["self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines or ["pass"]), scope)
    made = scope["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = {f.name: f.type for f in fields if f.init} | {"return": None}
    return made


def _values(names: list[str]) -> Any:
    """A function that returns the values of these attributes as a tuple."""
    return attrgetter(*(names if len(names) > 1 else names * 2)) if names else lambda _: ()


def _state(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, f.name) for f in dataclasses.fields(self)])


def _restore(self: Any, state: tuple[Any, ...]) -> None:
    for f, value in zip(dataclasses.fields(self), state, strict=False):
        object.__setattr__(self, f.name, value)


def _repr(self: Any) -> str:
    said = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(said)})"


def _refuse_field(self: Any, name: str, does: str) -> None:
    if "__dataclass_fields__" in vars(type(self)) or name in type(self).__dataclass_fields__:
        raise FrozenInstanceError(f"cannot {does} field {name!r}")


def _set(self: Any, name: str, value: Any) -> None:
    _refuse_field(self, name, "assign to")
    object.__setattr__(self, name, value)


def _delete(self: Any, name: str) -> None:
    _refuse_field(self, name, "delete")
    object.__delattr__(self, name)


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
