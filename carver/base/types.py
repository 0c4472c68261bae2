"""Array aliases, and a dict that cannot be changed. An array that runs over candidates has shape (n,)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cached_property
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

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


def check_fields(cls: Any, given: object, what: str, error: type[Exception]) -> None:
    """Raise `error` unless `given`, read from JSON, has the fields of a dataclass, with values of their types."""
    if not isinstance(given, Mapping):
        raise error(f"a {what} is an object of keys and values, got {type(given).__name__}")
    names = {f.name for f in fields(cls)}
    optional = {f.name for f in fields(cls) if f.default is not MISSING or f.default_factory is not MISSING}
    keys = {"missing": names - optional - given.keys(), "unknown": given.keys() - names}
    if odd := [f"keys {how}: {', '.join(sorted(map(str, which)))}" for how, which in keys.items() if which]:
        raise error(f"not a {what}: {'; '.join(odd)}")
    for f in fields(cls):
        annotation = str(f.type)
        if f.name in given and not _fits(given[f.name], annotation):
            wanted = annotation if annotation.partition("[")[0] in (*_PLAIN, "tuple", "Mapping") else "an object"
            raise error(f"not a {what}: {f.name} must be {wanted}, got {given[f.name]!r}")


_PLAIN: Mapping[str, Any] = {"str": str, "int": int, "float": (int, float), "bool": bool}


def _fits(value: object, annotation: str) -> bool:
    """Whether a value from JSON can stand for a field's annotation; where that is a class, whether it is a dict."""
    if annotation.endswith(" | None"):
        return value is None or _fits(value, annotation.removesuffix(" | None"))
    kind, _, inner = annotation.removesuffix("]").partition("[")
    if kind == "tuple":
        return isinstance(value, list | tuple) and all(_fits(v, inner.partition(",")[0]) for v in value)
    if kind == "Mapping":
        return isinstance(value, Mapping) and all(_fits(v, inner.rpartition(", ")[2]) for v in value.values())
    if kind in _PLAIN:
        return isinstance(value, _PLAIN[kind]) and (kind == "bool") == isinstance(value, bool)
    return value is None or isinstance(value, Mapping)
