"""Every `triton.autotune` kernel of a process: compile its list in parallel, rank it by machine code, time a few.

Copies of the process compile what Triton itself would launch, so that Triton finds all of it in its cache.

`enable_triton` replaces three methods of Triton's `Autotuner` and nothing else: the kernel's keys, hooks, heuristics
and own pruning stay, as do Triton's caches. What cannot be ranked is tuned as before, and the log says why.
"""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..arch.descriptor import Arch
from ..arch.devices import CUDA, HIP, load
from ..base.errors import CarverError, ConfigError
from ..base.table import Column, drawn, screen_width
from ..compiled.forks import Forks
from ..compiled.triton import Compiled, Target, build_launcher, compile_launched, function_of, hooked
from ..export.triton import Feedback
from ..problem.problem import counted
from ..ranking.kernel import rank_kernel
from ..ranking.pins import Pin, picks_hash
from ..ranking.ties import TIED, least
from .pinned import Pinned, asked

LAUNCH_ONLY = ("grid", "warmup", "stream")
"""Keywords of a launch that are no arguments of the kernel."""
MOST_VALUES = 1 << 20
"""Elements of the largest integer tensor that is copied to the host, where a loop's bound is loaded from it."""
MOST_FLOATS = 16
"""The same for floating point, where a branch depends on a value: a gradient of 1 that need not be multiplied by."""
WARMUP_MS, TIMED_MS = 10, 40
"""Warm-up and timing of one configuration by Triton's timer, which by itself takes 25 and 100."""
TIMING_S, OWN_TIMING_S = 0.05, 0.2
"""Time to measure one configuration so, with synchronisation and clearing of caches; and the time that is assumed for a
timer of the kernel's own."""
START_S, READ_S = 0.3, 0.05
"""Time that a disassembler takes to start, and time to read and price the code of one configuration."""


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


class Enabled(list[Entry]):
    """The log of what was ranked and what was left alone. `stop()`, or the end of a `with` block, restores Triton."""

    def __init__(self, topk: int, restore: Callable[[], None], pinned: Pinned | None = None) -> None:
        super().__init__()
        self.topk, self.pinned = topk, pinned
        self._restore = restore

    def __enter__(self) -> Enabled:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Triton tunes as it did before."""
        self._restore()

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


def enable_triton(
    topk: int | None = None, arch: Arch | str = "auto", *, pinned: bool | str | os.PathLike[str] = False,
    record: bool = False, margin: float | None = None, strict: bool = False,
) -> Enabled:  # fmt: skip
    """From now on, rank each `triton.autotune` kernel of this process for the arguments of its first call.

    Triton times the first `topk` configurations (3 by default) and the first of the list, which is left only for a gain
    that noise does not explain. Their times improve the ranking for the kernel's next key. With `topk=1`, or
    CARVER_TUNING=off, nothing is timed, and tuning takes no GPU memory. Lists that are timed faster than they are
    ranked are compiled in parallel and not ranked.

    `pinned`: nothing is timed, and every process takes the same: what a table of pins has, or what the model alone
    chooses. True, or a table's file or folder (else `CARVER_PINS`). `record` puts what is missing into the table;
    `margin`: the first of the list is left only for a predicted gain above it; `strict`: an entry that is missing or
    stale is an error and not a line in the log.

    Raises DeviceError if there is no GPU and `arch` names none, ConfigError if Triton is missing or its tuner is
    enabled already.
    """
    picks = asked(pinned, record=record, margin=margin, strict=strict)
    try:
        from triton.runtime.autotuner import Autotuner
    except ImportError:
        raise ConfigError("enable_triton needs Triton: pip install triton") from None
    if hasattr(Autotuner.prune_configs, "__wrapped__"):
        raise ConfigError("Triton's tuner is enabled already; stop() what the first call returned")
    topk = 1 if os.environ.get("CARVER_TUNING") == "off" else counted("topk", 3 if topk is None else topk, 1)
    device = functools.lru_cache(maxsize=1)(functools.partial(_device, arch))
    before = {name: getattr(Autotuner, name) for name in ("prune_configs", "_bench", "check_disk_cache")
              if hasattr(Autotuner, name)}  # fmt: skip

    def restore() -> None:
        for name, method in before.items():
            setattr(Autotuner, name, method)

    log = Enabled(topk, restore, picks)

    @functools.wraps(before["prune_configs"])
    def prune_configs(self: Any, kwargs: dict[str, Any], *rest: Any) -> list[Any]:
        configs = list(before["prune_configs"](self, kwargs, *rest))
        began, name = time.perf_counter(), getattr(self.base_fn, "__name__", "kernel")
        if len(configs) == 1:
            return configs
        try:
            timing_s = TIMING_S if _default_timer(self) else OWN_TIMING_S
            if not hasattr(self, "_carver_feedback"):
                self._carver_feedback = Feedback()
            given = {**self.nargs, **kwargs}
            if picks is not None:
                taken, where, pin = picks.take(
                    self, configs, given, device(), _of_kernel(given),
                    lambda ordered: copies(self.fn, ordered, given, device(), hurry=False),
                )  # fmt: skip
                log.append(Entry(name, len(configs), 1, time.perf_counter() - began, "", pin.config, where))
                self._carver_untimed = taken
                return [taken]
            kept, first = ranked(self.fn, configs, given, device(), topk, timing_s, self, self._carver_feedback)
        except Exception as error:  # a tuner in the middle of somebody's training goes on, whatever is wrong in here
            if strict:
                raise
            why = str(error) if isinstance(error, CarverError) else f"{type(error).__name__}: {error}"
            log.append(Entry(name, len(configs), len(configs), time.perf_counter() - began, why.splitlines()[0]))
            if picks is not None:  # what cannot be ranked is not timed either: the tuner's own default
                self._carver_untimed = configs[0]
                return configs[:1]
            return configs
        why = "" if first else f"compiled side by side; to rank {len(configs)} takes longer than to time them"
        log.append(Entry(name, len(configs), len(kept), time.perf_counter() - began, why, first))
        self._carver_untimed = kept[0] if topk == 1 else None
        self._carver_race = Race()
        return kept

    @functools.wraps(before["_bench"])
    def _bench(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        if getattr(self, "_carver_untimed", None) is config:
            return [float("nan")] * 3  # the only one that is left: taken without being run
        with _timed_shortly(self):
            timings: list[float] = before["_bench"](self, *args, config=config, **meta)
        race: Race | None = getattr(self, "_carver_race", None)
        return list(race.after(timings)) if race and isinstance(timings, list) else timings

    Autotuner.prune_configs, Autotuner._bench = prune_configs, _bench
    if "check_disk_cache" in before:

        @functools.wraps(before["check_disk_cache"])
        def check_disk_cache(self: Any, key: Any, configs: Any, bench: Callable[[], None]) -> bool:
            if getattr(self, "_carver_untimed", None) is None:
                return bool(before["check_disk_cache"](self, key, configs, bench))
            bench()  # nothing is timed, so there is nothing to keep
            return False

        Autotuner.check_disk_cache = check_disk_cache
    return log


@dataclass
class Race:
    """Times of one list as they come: the first stays unless noise does not explain that another is faster."""

    best: Sequence[float] | None = None

    def after(self, timing: Any) -> Any:
        """The times of a configuration for the tuner, which takes the least: its own where it leads, else above the
        leader's. Median, 20 % and 80 % quantile, as Triton's timer gives them, or one number."""
        own = list(timing) if isinstance(timing, Sequence) else [timing] * 3
        if len(own) < 3 or not all(isinstance(each, int | float) for each in own):
            return timing
        if self.best is None or (own[2] < self.best[1] and own[0] * (1 + TIED) < self.best[0]):
            self.best = own
        elif own[0] <= self.best[0]:  # faster by no more than noise: a tie, in which the earlier one stays
            own = [math.nextafter(self.best[0], math.inf), own[1], own[2]]
        return own if isinstance(timing, Sequence) else own[0]


def worth(count: int, topk: int, processes: int, timing_s: float) -> bool:
    """Whether to rank a list is quicker than to time all of it: both compile it."""
    reading_s = START_S + READ_S * -(-count // processes)
    return topk == 1 or reading_s < timing_s * (count - topk)


def ranked(
    kernel: Any, configs: Sequence[Any], given: Mapping[str, Any], arch: Arch, topk: int, timing_s: float = math.inf,
    tuner: Any = None, feedback: Feedback | None = None,
) -> tuple[list[Any], dict[str, Any]]:  # fmt: skip
    """The first `topk` of the configurations for the arguments of a launch, and the best as a dict.

    Triton's own cache holds what was compiled then. All are kept where timing one takes so few seconds (`timing_s`)
    that ranking takes longer. What `tuner` timed after the ranking before is learnt first, where there is `feedback`.
    Raises CarverError for what cannot be ranked.
    """
    launched = _of_kernel(given)
    compilers = copies(kernel, configs, given, arch)
    if not worth(len(configs), topk, compilers.processes, timing_s):
        return [configs[i] for i in compilers.filled(len(configs))], {}
    grid, values = given["grid"], Values(launched)
    feedback = feedback or Feedback()
    profile = feedback.profile(tuner, f"{function_of(kernel).__name__}/compiled", arch)
    ranking = rank_kernel(
        kernel, configs, args=launched, grid=grid, arch=arch, values=values, pool=compilers, profile=profile
    )
    feedback.ranked(tuner, ranking, configs)
    picks = [configs[hint.index] for hint in sorted(ranking[:topk], key=least)]
    if topk > 1:  # the list's own first is left only for a gain
        picks = [configs[0], *(each for each in picks if each is not configs[0])]
    return picks, dict(ranking[0].config)


def copies(
    kernel: Any, configs: Sequence[Any], given: Mapping[str, Any], arch: Arch, hurry: bool = True
) -> Forks:
    """Copies of this process that compile what Triton would at the launch of each configuration. In a `hurry` those
    that take far longer than others are given up."""
    launched, target = _of_kernel(given), Target.of(arch)
    function_of(kernel).cache_key  # noqa: B018 - a hash of its source and all it calls, made once for all copies

    def build(place: int) -> Compiled:
        return compile_launched(kernel.run, target, wanted(configs[place]))

    def wanted(config: Any) -> dict[str, Any]:
        return {**hooked(config, launched), **config.all_kwargs()}

    def launcher() -> None:
        build_launcher(kernel, target, wanted(configs[0]))

    return Forks(build, arch, hurry=hurry, beside=launcher)


def _of_kernel(given: Mapping[str, Any]) -> dict[str, Any]:
    """What a launch gives, without keywords of its own."""
    return {name: value for name, value in given.items() if name not in LAUNCH_ONLY}


def _default_timer(tuner: Any) -> bool:
    """Whether the kernel names no timer, and so is timed by Triton's."""
    return getattr(tuner, "_do_bench", tuner) is None


@contextmanager
def _timed_shortly(tuner: Any) -> Iterator[None]:
    """Triton's own timer with WARMUP_MS and TIMED_MS. A timer of the kernel's stays as it is."""
    from triton.testing import do_bench

    if not _default_timer(tuner) or tuner.do_bench is not do_bench:
        yield
        return
    tuner.do_bench = functools.partial(do_bench, warmup=WARMUP_MS, rep=TIMED_MS)
    try:
        yield
    finally:
        tuner.do_bench = do_bench


class Values(Mapping[str, Any]):
    """What the integer tensors of a launch hold, and short ones of floating point, copied to the host when a loop or a
    branch turns out to depend on one."""

    def __init__(self, args: Mapping[str, Any]) -> None:
        self._tensors = {
            name: value
            for name, value in args.items()
            if hasattr(value, "is_floating_point") and hasattr(value, "numel")  # no wrapped tensor, no torch.dtype
            and 0 < value.numel() <= (MOST_FLOATS if value.is_floating_point() else MOST_VALUES)
        }

    def __getitem__(self, name: str) -> Any:
        tensor = self._tensors[name]
        return (tensor.float() if tensor.is_floating_point() else tensor).cpu().numpy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def _device(arch: Arch | str) -> Arch:
    if arch != "auto":
        return load(arch)
    from triton.runtime import driver

    return (HIP if driver.active.get_current_target().backend == "hip" else CUDA)("auto")
