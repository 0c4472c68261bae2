"""The tuners of a process: each list is compiled side by side, ranked by its machine code, and the first few are timed;
or picks are pinned, and nothing is.

A tool is a module of this folder with `patch(log)`, which replaces as little of the tool as it can and returns what
restores it. The tool's keys, hooks and caches stay. What cannot be ranked is tuned as before, and the log says why."""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from ..arch.descriptor import Arch
from ..arch.devices import load
from ..base.errors import CarverError, ConfigError, nearest, told, warn
from ..base.folders import cache_folder
from ..base.given import canonical, shown
from ..base.table import Column, drawn, screen_width
from ..base.types import Record
from ..compiled.triton import plain_config
from ..compiled.worker import encode
from ..problem.problem import counted
from ..ranking import pins
from ..ranking.pins import Pin, PinsError, Table, picks_hash

PINS = logging.getLogger("carver.pins")

Copies = Callable[[Sequence[Any]], Any]
"""Makes the compilers of a list."""


@dataclass
class Pinned:
    """What a process takes for each key of each kernel. `table`: a folder or a file, as `pins.path_of` takes it.

    An entry that is missing or stale is logged and chosen anew, which `record` puts into the table; with `strict` it is
    a PinsError.
    """

    table: str | os.PathLike[str] | None = None
    record: bool = False
    margin: float | None = None
    strict: bool = False
    picks: dict[tuple[str, str], Pin] = field(default_factory=dict)
    _read: dict[Path, Table | str] = field(default_factory=dict)
    """Tables by path, or why one cannot be used."""

    def take(
        self, tuner: Any, configs: Sequence[Any], given: Mapping[str, Any], arch: Arch, args: Mapping[str, Any],
        copies: Copies,
    ) -> tuple[Any, str, Pin]:  # fmt: skip
        """One of the configurations, where it comes from, and its pin. `args`: what of `given` the kernel gets.

        Raises CarverError where there is none.
        """
        kernel, key = tuner.fn, tuner_key(tuner, given)
        path = pins.path_of(self.table, arch)
        pin, lacks = self._entry(path, arch, pins.name_of(kernel), key)
        if pin is not None and not (lacks := pins.stale(pin, kernel, configs, arch)):
            return self._taken(pin, configs), f"pinned in {path}", pin
        what = f"{pins.name_of(kernel)} {canonical(key)}: {'the entry is stale: ' if pin else ''}{lacks}"
        if self.strict:
            raise PinsError(f"{what}; record it with 'carver pins record'")
        if pin or (not self.record and (self.table is not None or path.exists())):
            PINS.warning("%s; chosen anew", what)
        made = pins.pick(
            kernel, configs, args=args, grid=given["grid"], arch=arch, key=key, default=configs[0],
            margin=self.margin, pool=copies,
        )  # fmt: skip
        if self.record:
            try:
                self._read[path] = pins.add(path, arch.name, [made])
            except (OSError, CarverError) as error:  # the pick is that of all ranks, whoever can write it down
                PINS.warning("%s is not recorded: %s", made.kernel, error)
        return self._taken(made, configs), f"chosen: {made.why}", made

    def _entry(self, path: Path, arch: Arch, kernel: str, key: Mapping[str, Any]) -> tuple[Pin | None, str]:
        if path not in self._read:
            try:
                self._read[path] = Table.read(path, arch.name) if path.exists() else f"there is no table {path}"
            except CarverError as error:
                self._read[path] = str(error)
        table = self._read[path]
        if isinstance(table, str):
            return None, table
        pin = table.pins.get((kernel, canonical(key)))
        return pin, "" if pin else f"{path} has no entry"

    def _taken(self, pin: Pin, configs: Sequence[Any]) -> Any:
        told = ({name: encode(value) for name, value in plain_config(config).items()} for config in configs)
        taken = canonical(pin.config)
        found = next((c for c, plain in zip(configs, told, strict=True) if canonical(plain) == taken), None)
        if found is None:
            raise PinsError(f"{pin.kernel}: {canonical(pin.config)} is none of the kernel's configurations")
        self.picks[pin.place] = pin
        return found


def tuner_key(tuner: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the key of Triton's tuner sees them: those that it names, and the types of all tensors."""
    names = [name for name in tuner.arg_names if name in given]
    types = {name: str(given[name].dtype).removeprefix("torch.") for name in names if hasattr(given[name], "dtype")}
    return {name: encode(given[name]) for name in tuner.keys if name in given and name not in types} | types


def asked(pinned: bool | str | os.PathLike[str], **how: Any) -> Pinned | None:
    """What `pinned=` asks for: True, or a table. Raises ConfigError."""
    if not isinstance(pinned, bool | str | os.PathLike):
        raise ConfigError(f"pinned is True, or the file or folder of a table of pins, got {pinned!r}")
    if pinned is False:
        if used := [name for name, value in how.items() if value]:
            raise ConfigError(f"{used[0]}= goes with pinned=")
        return None
    cache_folder()  # what a pick needs beside Triton is missing now, or not at all: each kernel would take its first
    return Pinned(None if pinned is True else pinned, **how)


T = TypeVar("T")
TOPK = 3
TOOLS = {"triton": "autotune", "tilelang": "tilelang", "cuda.tile": "cutile", "kernel_tuner": "kernel_tuner"}
"""The module here for each tool, by the package that it is."""


class Entry(Record):
    """What was done at one first call of a kernel."""

    kernel: str
    listed: int
    kept: int
    seconds: float
    """Compiling and ranking. [s]"""
    why: str = ""
    """Why it was tuned as before; empty where it was ranked."""
    first: Mapping[str, Any] = field(default_factory=dict)
    """The configuration that is predicted or found to be the fastest."""
    pin: str = ""
    """Where a pinned configuration comes from."""


class Chosen(NamedTuple, Generic[T]):
    """What of a list is timed."""

    kept: list[T]
    best: Mapping[str, Any]
    """Empty where the list was only compiled."""
    pin: str = ""


class Enabled(list[Entry]):
    """The log of what was ranked and what was left alone. `stop()` restores tools, as the end of a `with` block does,
    within another one to that one's."""

    _within: ClassVar[list[Enabled]] = []
    """The `with` blocks that run, from the outermost."""

    def __init__(self, topk: int, arch: Arch | str = "auto", pinned: Pinned | None = None) -> None:
        super().__init__()
        self.topk, self.pinned, self.timer = topk, pinned, "events"
        self.patches: list[Callable[[Enabled], Callable[[], None]]] = []
        self.restore: list[Callable[[], None]] = []
        self.device = functools.lru_cache(maxsize=1)(functools.partial(load, arch))

    def __enter__(self) -> Enabled:
        self._within.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._within[:] = [each for each in self._within if each is not self]
        for outer in self._within[-1:]:
            patches = outer.patches
            outer.stop()
            for patch in patches:
                outer.put(patch)

    def put(self, patch: Callable[[Enabled], Callable[[], None]]) -> None:
        """In the place of what a tool does."""
        self.restore.append(patch(self))
        self.patches.append(patch)

    def stop(self) -> None:
        """All tools tune as they did before."""
        self.patches = []
        while self.restore:
            self.restore.pop()()

    def first(self, kernel: str, every: Sequence[T], choose: Callable[[], Chosen[T]]) -> list[T]:
        """Those of a list that are timed, and a line in the log.

        Whatever `choose` raises, the tool goes on as before, since it may be in the middle of somebody's training; with
        pins it takes the first of the list, and where they are strict the error is the caller's.
        """
        began = time.perf_counter()
        try:
            kept, best, pin = choose()
        except Exception as error:
            if self.pinned is not None and self.pinned.strict:
                raise
            why, took = next(iter(told(error).splitlines()), ""), time.perf_counter() - began
            if self.pinned is not None:
                PINS.warning("%s takes the first of its list, which is not ranked: %s", kernel, why)
            self.append(Entry(kernel, len(every), len(every), took, why))
            return list(every if self.pinned is None else every[:1])
        why = "" if best else "compiled side by side: a short list is timed whole"
        self.append(Entry(kernel, len(every), len(kept), time.perf_counter() - began, why, best, pin))
        return kept

    @property
    def pins(self) -> list[Pin]:
        """What was taken so far, by kernel and key, where picks are pinned."""
        return [pin for _, pin in sorted(self.pinned.picks.items())] if self.pinned else []

    @property
    def hash(self) -> int:
        """Of which configuration each kernel took for each key, below 2^62: equal on ranks that chose alike."""
        return int(picks_hash(self.pins), 16) >> 2

    def table(self, width: int) -> str:
        """One line a first call."""
        columns = [
            Column("kernel", tuple(e.kernel for e in self), True),
            Column("listed", tuple(str(e.listed) for e in self)),
            Column("timed", tuple(str(0 if e.kept == 1 and not e.why else e.kept) for e in self)),
            Column("s", tuple(f"{e.seconds:.1f}" for e in self)),
            Column("pinned", tuple(e.pin for e in self), True, may_shrink=True),
            Column("tuned as before, since", tuple(e.why for e in self), True, may_shrink=True),
        ]
        return drawn(columns, width)

    def __repr__(self) -> str:
        if not self:
            return "no autotuned kernel was called yet"
        return self.table(screen_width())


def enable(*tools: str, topk: int | None = None, arch: Arch | str = "auto") -> Enabled:
    """From now on, rank the lists of these tools in this process: "triton", "tilelang", "cuda.tile", "kernel_tuner".

    Without a name, of all that are installed. Only the first `topk` configurations of a list are timed (3 by default),
    of a list of Triton's what is compiled.
    With `topk=1`, or CARVER_TUNING=off, Triton's tuner times nothing, and the others only their one configuration.

    A second call takes the place of the first, with a warning. Without a GPU here, and without `arch`, lists are tuned
    as before, and the log says so. Raises ConfigError for a named tool that is unknown, not installed, or of a version
    that cannot be enabled.
    """
    return enabled(tools, topk, arch)


def enabled(tools: Sequence[str], topk: int | None, arch: Arch | str, pinned: Pinned | None = None) -> Enabled:
    """`enable`, with what is pinned of Triton's kernels. Where no tool is named, one that cannot be is left out with a
    warning."""
    topk = 1 if os.environ.get("CARVER_TUNING") == "off" else counted("topk", TOPK if topk is None else topk, 1)
    if unknown := [tool for tool in tools if not isinstance(tool, str) or tool not in TOOLS]:
        raise ConfigError(f"carver knows no tuner {shown(unknown[0])}; {nearest(str(unknown[0]), TOOLS)}")
    log = Enabled(topk, arch, pinned)
    try:
        for tool in tools or filter(_installed, TOOLS):
            try:
                log.put(import_module(f".{TOOLS[tool]}", __package__).patch)
            except (ImportError, AttributeError) as error:  # of a version that lacks what is replaced
                why = f"{tool} cannot be enabled: {error}"
                if tools:
                    raise ConfigError(why) from None
                warn(why)
    except BaseException:
        log.stop()
        raise
    return log


def originals(owner: Any, *names: str) -> list[Any]:
    """These methods as the owner has them. Where they were replaced already, the replacements are taken back, with a
    warning: a cell of a notebook may run again."""
    if earlier := next((found for name in names if (found := getattr(getattr(owner, name), "_carver", None))), None):
        earlier()
        enabled_again(owner.__name__)
    return [getattr(owner, name) for name in names]


def enabled_again(name: str) -> None:
    warn(f"{name} was enabled already: from now on with the settings of this call, and its log")


def replaced(owner: Any, **methods: Callable[..., Any]) -> Callable[[], None]:
    """Put methods in the place of an owner's own; what restores these."""
    before = {name: getattr(owner, name) for name in methods}
    after = {name: functools.wraps(before[name])(method) for name, method in methods.items()}

    def restore() -> None:
        for name, method in before.items():
            if getattr(owner, name) is after[name]:  # and not of a later call
                setattr(owner, name, method)

    for name, wrapped in after.items():
        wrapped._carver = restore  # type: ignore[attr-defined]
        setattr(owner, name, wrapped)
    return restore


def _installed(tool: str) -> bool:
    try:
        return find_spec(tool) is not None
    except ImportError:  # of a package that it is a part of
        return False
