"""Compile many kernels in parallel, each limited in time and memory; and what compilers gave, and facts read off it, in
the store: written at once, read as data and never run.

A reply of a compiler is kept by what was compiled, facts by that, the arguments and the device: what a ranking needs,
with no code and no IR."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..arch.descriptor import Arch
from ..base import child, store
from ..base.errors import CarverError, CompileError, ConfigError, Foreign
from ..base.folders import folder
from ..base.given import fits, json_of, printable, read, shown
from ..base.table import progress_bars
from .binary import Binary
from .facts import Facts

KIND = "compiled"
"""Of entries of the store."""


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
    found = sha256(f"{column.dtype} {column.shape}".encode())
    found.update(column.data)
    return found.hexdigest()


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
    save(key, {"facts": facts, "values": used.digests})


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


def facts_from(plain: object) -> Facts:
    """Facts that JSON has as objects of their fields. Raises CarverError for anything else."""
    _check_numbers("", plain)
    return read(Facts, plain, "record of facts", CarverError)


_SIGNED = ("stride_bytes", "parent", "loop", "beyond")
"""Numbers that may be below zero: a place of -1 is none, a byte of -1 before the first."""


def _check_numbers(name: str, value: object) -> None:
    if isinstance(value, Mapping):
        for key, each in value.items():
            _check_numbers(str(key), each)
    elif isinstance(value, list):
        for each in value:
            _check_numbers(name, each)
    elif isinstance(value, int | float) and name not in _SIGNED and not 0 <= value < math.inf:
        raise Foreign(f"{name} of facts is {value!r}")


MOST_LETTERS = 300
"""Of a refusal's reason."""
SECONDS = 120.0
"""For a configuration on a core that it has to itself; on a busy machine longer, see `children.crowding`."""
BATCH, BATCH_BYTES = 24, 25_000
"""Codes that one process disassembles at once, at most; and their packed bytes that take a third as long to read as a
disassembler to start, a quarter of a second."""
MEMORY_BYTES = 8 * 2**30
"""That a compiler may write to."""

_TOO_LONG: dict[str, tuple[float, dict[str, Any]]] = {}
"""What took longer than so many seconds in this process, by key, with its reply: another size may ask for it again."""

Request = Mapping[str, Any]
Reply = dict[str, Any]
"""What a copy gives, or {"refused": sentence}."""


def told(reply: child.Reply, said: str = "") -> Reply:
    """What a child's reply comes to; `said`: what the child printed."""
    if reply.outcome != "ok":
        why, _, tail = reply.message.partition("; it said: ")
        more = last_words(said or tail)
        why = why.replace("the worker process", "the compiler's process")[:MOST_LETTERS]
        refused = transient(printable(f"{why}: {more}" if more not in ("", "nothing") else why))
        return refused | ({"late": True} if reply.outcome == "timeout" else {})
    found = reply.data.get("reply")
    known = {"machines", "facts", "lost", "error"}
    if not isinstance(found, dict) or (found and not known & set(found) and not _is_whole(found)):
        return transient(f"the compiler's process answered {shown(found)}")
    if (why := found.get("refused", "")).endswith(("PassManager::run failed", "because")):  # it printed the reason
        found["refused"] = f"{why.removesuffix(' because')}: {last_words(said)}"
    if "refused" in found:
        found["refused"] = printable(found["refused"])
    return dict(found)


def last_words(said: str) -> str:
    """The first error that a compiler printed, else its last line."""
    lines = [line.strip() for line in said.split("\n") if line.strip()]
    errors = [parts[1] for line in lines if len(parts := re.split("error: ", line, maxsplit=1, flags=re.I)) > 1]
    return (errors or lines[-1:] or [""])[0][:MOST_LETTERS]


class Compilers(Protocol):
    """`worker.Forks`, as far as `compiled` asks."""

    processes: int

    def replies(self, requests: Mapping[str, Request], seconds: float = SECONDS) -> Iterator[tuple[str, Reply]]: ...


def compiled(
    requests: Mapping[str, Request], isa: str, units: Sequence[Sequence[Any]], pool: Compilers, *,
    seconds: float = SECONDS, progress: bool = False,
    heard: Callable[[str, Reply], None] = lambda key, reply: None,
) -> dict[str, Reply]:  # fmt: skip
    """Replies by key, each with what was read off the code, or why there is none. Replies are kept on disk by key as
    they come, those of a compiler that was ended excepted. What took longer than `seconds` is refused for the rest of
    the process, unless more is allowed. `isa` and `units`: as `machine.read_machines` takes them. `heard` is given each
    reply as it comes, compiled and once more read, while the processes are at work. Raises ConfigError for what fits no
    configuration, and a KeyboardInterrupt that says what is kept."""
    found = {key: reply for key, reply in load_each(requests).items() if _is_whole(reply)}
    found |= {key: _TOO_LONG[key][1] for key in requests if key in _TOO_LONG and seconds <= _TOO_LONG[key][0]}
    missing = {key: requests[key] for key in requests if key not in found}
    try:
        return _completed(found, missing, isa, units, pool, seconds, progress, heard)
    except KeyboardInterrupt:
        done = len(load_each(requests))
        raise KeyboardInterrupt(
            f"interrupted: {done} of {len(requests)} configurations are compiled and kept on disk; the same call goes "
            "on from there" if done else "interrupted: nothing is kept"
        ) from None


def _completed(
    found: dict[str, Reply], missing: Mapping[str, Request], isa: str, units: Sequence[Sequence[Any]],
    pool: Compilers, seconds: float, progress: bool, heard: Callable[[str, Reply], None],
) -> dict[str, Reply]:  # fmt: skip
    with progress_bars(progress and bool(missing), transient=True) as bars:
        step = bars.bar("compiling", len(missing))
        for key, reply in pool.replies(missing, seconds):
            if "error" in reply:
                raise ConfigError(reply["error"])
            found[key] = reply
            _kept(key, found[key])
            if reply.get("late"):
                _TOO_LONG[key] = seconds, reply
            step()
            heard(key, reply)
    unread = [key for key, reply in found.items() if "refused" not in reply and reply.get("reader") != readers()]
    return found | _read({key: found[key] for key in unread}, isa, units, pool, seconds, heard)


def _kept(key: str, reply: Reply) -> None:
    """Save what another run would get as well."""
    if not reply.get("transient", False):
        save(key, reply)


def _read(
    replies: Mapping[str, Reply], isa: str, units: Sequence[Sequence[Any]], pool: Compilers, seconds: float,
    heard: Callable[[str, Reply], None],
) -> dict[str, Reply]:  # fmt: skip
    """Replies with what is read off their codes, as many at once as keep all processes busy, but for less than a
    disassembler's start. Where one of several cannot be read, or takes too long, each is read by itself: the others
    still can be."""
    keys, read = list(replies), dict[str, Reply]()
    packed_bytes = sum(len(code) for reply in replies.values() for code in reply["code"].values())
    batches_most = max(1, min(pool.processes, -(-packed_bytes // BATCH_BYTES)))
    size = max(1, min(BATCH, -(-len(keys) // batches_most)))
    batches = {str(i): keys[i : i + size] for i in range(0, len(keys), size)}
    while batches:
        asked = {
            i: {
                "codes": [replies[key]["code"] for key in batch], "isa": isa, "units": units,
                "numbers": [replies[key].get("numbers", []) for key in batch],
            }
            for i, batch in batches.items()
        }
        alone: dict[str, list[str]] = {}
        for i, reply in pool.replies(asked, seconds):
            if "error" in reply:
                raise CompileError(reply["error"])
            if "machines" in reply:
                for key, machine in zip(batches[i], reply["machines"], strict=True):
                    read[key] = replies[key] | {"machine": machine, "reader": readers()}
                    _kept(key, read[key])
                    heard(key, read[key])
            elif len(batches[i]) > 1:
                alone |= {key: [key] for key in batches[i]}
            else:
                read[batches[i][0]] = transient(reply["refused"])
        batches = alone
    return read


_KINDS = {
    "ttir": "str", "code": "Mapping[str, str]", "shared_bytes": "int", "warps": "int", "stages": "int", "ctas": "int",
    "machine": "Mapping[str, Any] | None", "dealt": "Mapping[str, Any]",
}  # fmt: skip
"""What a reply with code says, by annotation."""


def _is_whole(reply: Reply) -> bool:
    """Whether what was kept is a reply; else it is made anew."""
    if "refused" in reply:
        return isinstance(reply["refused"], str)
    return all(fits(reply.get(name), kind, {}) for name, kind in _KINDS.items())


def transient(sentence: str) -> Reply:
    """A refusal that another run need not meet."""
    return {"refused": sentence, "transient": True}


def own_fault(fault: Exception) -> str:
    """What to tell of a candidate whose code or program carver fails at: the fault is carver's, not the kernel's."""
    return f"carver fails to read what was compiled: {type(fault).__name__}: {fault}"[:300]
