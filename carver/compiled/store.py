"""Output of compilers, and facts read off it, in the store: written at once, read as data and never run.

A reply of a compiler is kept by what was compiled, facts by that, the arguments and the device: what a ranking needs,
with no code and no IR.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..base import store
from ..base.errors import CarverError, ConfigError, Foreign
from ..base.given import check_fields, json_of, shown, typed
from ..base.host import folder
from .binary import Binary
from .facts import AccessFacts, Facts, LoopFacts
from .machine import Span

KIND = "compiled"
"""Of entries of the store."""
ROWS = ("reuse", "rewritten", "anywhere", "atomics_anywhere")
"""Fields of facts that are rows of two or three numbers."""


@lru_cache(maxsize=1)
def readers() -> str:
    """A hash of the modules that read compiled code and of the rates that they price it with (`arch/isa`): what other
    ones read off it is read again."""
    modules, rates = Path(__file__).parent.rglob("*.py"), folder("arch").joinpath("isa").rglob("*.toml")
    return sha256(b"".join(file.read_bytes() for file in (*sorted(modules), *sorted(rates)))).hexdigest()


def load(key: str) -> dict[str, Any] | None:
    """The entry; None where there is none, or where it is not what was written. Raises DeviceError where others than
    this user can write to the cache."""
    return load_each([key]).get(key)


def load_each(keys: Collection[str]) -> dict[str, dict[str, Any]]:
    """Those of these entries that there are."""
    found = {}
    for key, body in store.get(KIND, keys).items():
        try:
            entry = None if body is None else json_of(body, "an entry", Foreign)
        except Foreign:
            continue
        if isinstance(entry, dict):
            found[key] = entry
    return found


def save(key: str, entry: dict[str, Any]) -> None:
    """Write the entry, dataclasses as objects; where the disk does not take it, it is made again another time."""
    store.put(KIND, key, json.dumps(entry, default=vars).encode())


class Used(Mapping[str, Any]):
    """What tensors hold, as arrays, and which of them were looked at or looked for. To look at what holds no numbers
    raises ConfigError."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._held: dict[str, Any] = {}
        self._missed = set[str]()

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
        """Of each; of what was looked for and not given it is empty."""
        return dict.fromkeys(self._missed, "") | {name: digest(held) for name, held in self._held.items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __contains__(self, name: object) -> bool:
        if name not in self._values:
            self._missed.add(str(name))
        return name in self._values

    def __len__(self) -> int:
        return len(self._values)


def digest(held: Any) -> str:
    """A hash of an array's type, shape and contents."""
    column = np.ascontiguousarray(held)
    return sha256(f"{column.dtype} {column.shape}".encode() + column.tobytes()).hexdigest()


def facts_key(code: str, grid: Sequence[int], args: Sequence[tuple[str, Any]], arch: Arch) -> str:
    """Of facts: what was compiled, for which launch and device, and how this package reads it."""
    return sha256(repr((readers(), code, tuple(grid), tuple(args), _device(arch))).encode()).hexdigest()


def binary_key(binary: Binary, arch: Arch) -> str:
    """The same of machine code and its launch."""
    args = [(type(a).__name__, a.tobytes()) if isinstance(a, np.generic) else repr(a) for a in binary.args]
    held = {symbol: digest(value) for symbol, value in binary.constants.items()}
    launch = (binary.entry, binary.names, args, binary.grid, binary.block, binary.shared_bytes, held)
    code = sha256(binary.code).hexdigest()
    return sha256(repr((readers(), code, launch, _device(arch))).encode()).hexdigest()


@lru_cache(maxsize=64)
def _device(arch: Arch) -> str:
    return sha256(repr(arch).encode()).hexdigest()


def save_facts(key: str, facts: Facts, used: Used) -> None:
    """Facts under a key of `facts_key`, with digests of the contents of tensors that they depend on."""
    save(key, {"facts": plain_facts(facts), "values": used.digests})


def plain_facts(facts: Facts) -> dict[str, Any]:
    """Facts as JSON takes them, dataclasses as their `vars`."""
    accesses = [  # JSON has no word for what is not known
        {**vars(a), "stride_bytes": None if math.isnan(a.stride_bytes) else a.stride_bytes} for a in facts.accesses
    ]
    return {**vars(facts), "accesses": accesses}


def load_facts(keys: Collection[str], values: Mapping[str, Any]) -> dict[str, Facts]:
    """Those that there are, without those that depend on tensors which hold something else now."""
    used, found = Used(values), dict[str, Facts]()
    held: dict[str, str] = {}

    def is_same(name: str, was: str) -> bool:
        if name in used and name not in held:
            held[name] = digest(used[name])
        return held.get(name, "") == was

    for key, entry in load_each(keys).items():
        try:
            if all(is_same(name, was) for name, was in entry["values"].items()):
                found[key] = facts_from(entry["facts"])
        except ConfigError:
            raise
        except (CarverError, KeyError, TypeError, ValueError, AttributeError):
            continue  # whatever it is, it is not what `save_facts` wrote
    return found


def facts_from(plain: Mapping[str, Any]) -> Facts:
    """The facts that `plain_facts` wrote. Raises CarverError, or an error of Python's, for anything else."""
    _check_numbers("", plain)
    check_fields(Facts, plain, "record of facts", CarverError)
    for loop in plain["loops"]:
        check_fields(LoopFacts, loop, "loop", CarverError)
    for access in plain["accesses"]:
        stride = access["stride_bytes"]
        check_fields(AccessFacts, access | {"stride_bytes": 0.0 if stride is None else stride}, "access", CarverError)
    for span in (plain["straight"], *(loop["span"] for loop in plain["loops"]), *(span for _, span in plain["asides"])):
        check_fields(Span, span, "span", CarverError)
    accesses = [
        {name: math.nan if value is None else value for name, value in access.items()} for access in plain["accesses"]
    ]
    rows = {name: [list(map(float, each)) for each in plain[name]] for name in ROWS}
    facts: Facts = typed(Facts, {**plain, **rows, "accesses": accesses})
    return facts


_SIGNED = ("stride_bytes", "parent", "loop")
"""Numbers that may be below zero: a place of -1 is none."""


def _check_numbers(name: str, value: object) -> None:
    if isinstance(value, Mapping):
        for key, each in value.items():
            _check_numbers(str(key), each)
    elif isinstance(value, list):
        for each in value:
            _check_numbers(name, each)
    elif isinstance(value, int | float) and name not in _SIGNED and not 0 <= value < math.inf:
        raise Foreign(f"{name} of facts is {value!r}")
