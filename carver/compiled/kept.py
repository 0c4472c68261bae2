"""Facts of a configuration for its arguments, kept on disk: what a ranking needs, with no code and no IR."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import CarverError, ConfigError
from ..base.given import check_fields, shown
from . import store
from .facts import AccessFacts, Facts, LoopFacts
from .machine import Span, span_of


class Used(Mapping[str, Any]):
    """What tensors hold, as arrays, and which of them were looked at.

    To look at what holds no numbers raises ConfigError.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._held: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._held:
            value = self._values[name]
            try:
                held = np.asarray(value)
            except ValueError:  # rows of several lengths
                held = np.zeros(0)
            if not held.size or held.dtype.kind not in "biuf":
                raise ConfigError(f"values[{name!r}] is a number or an array of numbers, got {shown(value)}")
            self._held[name] = held
        return self._held[name]

    @property
    def digests(self) -> dict[str, str]:
        return {name: digest(held) for name, held in self._held.items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __len__(self) -> int:
        return len(self._values)


def digest(held: Any) -> str:
    """A hash of an array's type, shape and contents."""
    column = np.ascontiguousarray(held)
    return sha256(f"{column.dtype} {column.shape}".encode() + column.tobytes()).hexdigest()


def key_of(code: str, grid: Sequence[int], args: Sequence[tuple[str, Any]], arch: Arch) -> str:
    """Of facts: what was compiled, for which launch and device, and how this package reads it."""
    return sha256(repr((store.readers(), code, tuple(grid), tuple(args), _device(arch))).encode()).hexdigest()


@lru_cache(maxsize=64)
def _device(arch: Arch) -> str:
    return sha256(repr(arch).encode()).hexdigest()


def save(key: str, facts: Facts, used: Used) -> None:
    """Keep facts under a key of `key_of`, with digests of the contents of tensors that they depend on."""
    accesses = [  # JSON has no word for what is not known
        {**vars(a), "stride_bytes": None if math.isnan(a.stride_bytes) else a.stride_bytes} for a in facts.accesses
    ]
    store.save(key, {"facts": {**vars(facts), "accesses": accesses}, "values": used.digests})


def load(key: str, values: Mapping[str, Any]) -> Facts | None:
    """None where there are none, or where tensors that they depend on hold something else."""
    entry = store.load(key)
    if entry is None:
        return None
    used = Used(values)
    try:
        if any(name not in used or digest(used[name]) != was for name, was in entry["values"].items()):
            return None
        return _facts(entry["facts"])
    except (CarverError, KeyError, TypeError, ValueError, AttributeError):
        return None  # whatever it is, it is not what `save` wrote


def _facts(plain: Mapping[str, Any]) -> Facts:
    """Raises CarverError, or an error of Python's, for what `save` did not write."""
    check_fields(Facts, plain, "record of facts", CarverError)
    for loop in plain["loops"]:
        check_fields(LoopFacts, loop, "loop", CarverError)
    for access in plain["accesses"]:
        stride = access["stride_bytes"]
        check_fields(AccessFacts, access | {"stride_bytes": 0.0 if stride is None else stride}, "access", CarverError)
    for span in (plain["straight"], *(loop["span"] for loop in plain["loops"]), *(span for _, span in plain["asides"])):
        check_fields(Span, span, "span", CarverError)
    accesses: list[dict[str, Any]] = [
        {name: math.nan if value is None else value for name, value in access.items()} for access in plain["accesses"]
    ]
    return Facts(**{
        **plain,
        "grid": tuple(plain["grid"]),
        "loops": tuple(LoopFacts(**{**loop, "span": span_of(loop["span"])}) for loop in plain["loops"]),
        "asides": tuple((times, span_of(span)) for times, span in plain["asides"]),
        "straight": span_of(plain["straight"]),
        "reuse": tuple((float(n), float(meanwhile)) for n, meanwhile in plain["reuse"]),
        "accesses": tuple(AccessFacts(**access) for access in accesses),
    })  # fmt: skip
