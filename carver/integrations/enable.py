"""The tuners of a process: each list is compiled side by side, ranked by its machine code, and the first few are timed
by the tool's own means. One switch and one log for all tools.

A tool is a module of this folder with `patch(log)`, which replaces as little of the tool as it can and returns what
restores it. The tool's keys, hooks and caches stay. What cannot be ranked is tuned as before, and the log says why.
"""

from __future__ import annotations

import functools
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from inspect import stack
from typing import Any, Generic, NamedTuple, TypeVar

from ..arch.descriptor import Arch
from ..arch.devices import load
from ..base.errors import CarverError, ConfigError, nearest
from ..base.given import shown
from ..base.table import Column, drawn, screen_width
from ..problem.problem import counted
from ..ranking.pins import Pin, picks_hash
from .pinned import Pinned
from .pinned import log as PINS

T = TypeVar("T")
TOPK = 3
TOOLS = {
    "triton": "autotune", "tilelang": "tilelang", "cuda.tile": "cutile", "kernel_tuner": "kernel_tuner",
}  # fmt: skip
"""The module here for each tool, by the package that it is."""


@dataclass(frozen=True)
class Entry:
    """What was done at one first call of a kernel."""

    kernel: str
    listed: int
    kept: int
    seconds: float
    """Compiling and ranking. [s]"""
    why: str = ""
    """Why it was tuned as before; empty where it was ranked."""
    first: Mapping[str, Any] = field(default_factory=dict)
    """The configuration that is predicted to be the fastest."""
    pin: str = ""
    """Where a pinned configuration comes from."""


class Chosen(NamedTuple, Generic[T]):
    """What of a list is timed."""

    kept: list[T]
    best: Mapping[str, Any]
    """Empty where the list was only compiled."""
    pin: str = ""


class Enabled(list[Entry]):
    """The log of what was ranked and what was left alone. `stop()`, or the end of a `with` block, restores tools."""

    def __init__(self, topk: int, arch: Arch | str = "auto", pinned: Pinned | None = None) -> None:
        super().__init__()
        self.topk, self.pinned, self.timer = topk, pinned, "events"
        self.restore: list[Callable[[], None]] = []
        self.device = functools.lru_cache(maxsize=1)(functools.partial(load, arch))

    def __enter__(self) -> Enabled:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """All tools tune as they did before."""
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
            told = str(error) if isinstance(error, CarverError) else f"{type(error).__name__}: {error}"
            why, took = next(iter(told.splitlines()), ""), time.perf_counter() - began
            if self.pinned is not None:
                PINS.warning("%s takes the first of its list, which is not ranked: %s", kernel, why)
            self.append(Entry(kernel, len(every), len(every), took, why))
            return list(every if self.pinned is None else every[:1])
        why = "" if best else f"compiled side by side; to rank {len(every)} takes longer than to time them"
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

    Without a name, of all that are installed. Only the first `topk` configurations of a list are timed (3 by default).
    With `topk=1`, or CARVER_TUNING=off, Triton's tuner times nothing, and the others only their one configuration.

    A second call takes the place of the first, with a warning. Without a GPU here, and without `arch`, lists are tuned
    as before, and the log says so. Raises ConfigError for a tool that is unknown or not installed.
    """
    return enabled(tools or tuple(filter(_installed, TOOLS)), topk, arch)


def enabled(tools: Iterable[str], topk: int | None, arch: Arch | str, pinned: Pinned | None = None) -> Enabled:
    """`enable`, with what is pinned of Triton's kernels."""
    topk = 1 if os.environ.get("CARVER_TUNING") == "off" else counted("topk", TOPK if topk is None else topk, 1)
    log = Enabled(topk, arch, pinned)
    try:
        for tool in tools:
            if tool not in TOOLS:
                raise ConfigError(f"carver knows no tuner {shown(tool)}; {nearest(str(tool), TOOLS)}")
            try:
                log.restore.append(import_module(f".{TOOLS[tool]}", __package__).patch(log))
            except ImportError as error:
                raise ConfigError(f"{tool} cannot be imported ({error}); is it installed?") from None
    except BaseException:
        log.stop()
        raise
    return log


def replaced(owner: Any, **methods: Callable[..., Any]) -> Callable[[], None]:
    """Put methods in the place of an owner's; what restores them. Where that was done already, the earlier ones are
    taken back first, with a warning: a cell of a notebook may run again."""
    for name in methods:
        if earlier := getattr(getattr(owner, name), "_carver", None):
            earlier()
            what = f"{owner.__name__} was enabled already: from now on with the settings of this call, and its log"
            outside = (i for i, f in enumerate(stack(0), 1) if not f.frame.f_globals["__name__"].startswith("carver."))
            warnings.warn(what, stacklevel=next(outside, 2))
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
