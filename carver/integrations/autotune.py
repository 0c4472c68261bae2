"""Every `triton.autotune` kernel of a process: compile its list in parallel, rank it by machine code, time a few.

Copies of the process compile what Triton itself would launch, so that Triton finds all of it in its cache.

The kernel's keys, hooks, heuristics and own pruning stay, as do Triton's caches.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..arch.descriptor import Arch
from ..compiled.forks import Forks
from ..compiled.triton import Compiled, Target, build_launcher, compile_launched, function_of, hooked
from ..export.triton import Feedback
from ..ranking.kernel import rank_kernel
from ..ranking.ties import TIED, least
from .enable import Chosen, Enabled, enabled, replaced
from .pinned import asked

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
WAVES = 3
"""Where each processor has no more than so many configurations to compile, choosing among them saves no time."""
START_S, READ_S = 0.3, 0.05
"""Time that a disassembler takes to start, and time to read and price the code of one configuration."""


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

    Else as `carver.enable("triton")`: a second call takes the place of the first, with a warning. Without a GPU here,
    and without `arch`, kernels are tuned as before, and the log says so. Raises ConfigError if Triton is missing.
    """
    picks = asked(pinned, record=record, margin=margin, strict=strict)
    return enabled(("triton",), topk, arch, picks)


def patch(log: Enabled) -> Callable[[], None]:
    """Replace three methods of Triton's `Autotuner`."""
    from triton.runtime.autotuner import Autotuner

    prune, bench = Autotuner.prune_configs, Autotuner._bench
    check = getattr(Autotuner, "check_disk_cache", None)

    def prune_configs(self: Any, kwargs: dict[str, Any], *rest: Any) -> list[Any]:
        configs = list(prune(self, kwargs, *rest))

        def choose() -> Chosen[Any]:
            timing_s = TIMING_S if _default_timer(self) else OWN_TIMING_S
            if not hasattr(self, "_carver_feedback"):
                self._carver_feedback = Feedback()
            given, device = {**self.nargs, **kwargs}, log.device()
            if log.pinned is not None:
                taken, where, pin = log.pinned.take(
                    self, configs, given, device, _of_kernel(given),
                    lambda ordered: copies(self.fn, ordered, given, device, hurry=False),
                )  # fmt: skip
                return Chosen([taken], pin.config, where)
            kept = ranked(self.fn, configs, given, device, log.topk, timing_s, self, self._carver_feedback)
            self._carver_race = Race()
            return Chosen(*kept)

        if len(configs) > 1:
            self._carver_race = None
            configs = log.first(getattr(self.base_fn, "__name__", "kernel"), configs, choose)
            self._carver_untimed = configs[0] if log.pinned is not None or log.topk == len(configs) == 1 else None
        return configs

    def _bench(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        if getattr(self, "_carver_untimed", None) is config:
            return [float("nan")] * 3  # the only one that is left: taken without being run
        with _timed_shortly(self):
            timings: list[float] = bench(self, *args, config=config, **meta)
        race: Race | None = getattr(self, "_carver_race", None)
        return list(race.after(timings)) if race and isinstance(timings, list) else timings

    def check_disk_cache(self: Any, key: Any, configs: Any, run: Callable[[], None]) -> bool:
        if getattr(self, "_carver_untimed", None) is None:
            return bool(check(self, key, configs, run))  # type: ignore[misc]
        run()  # nothing is timed, so there is nothing to keep
        return False

    own = {} if check is None else {"check_disk_cache": check_disk_cache}
    return replaced(Autotuner, prune_configs=prune_configs, _bench=_bench, **own)


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
        kernel, configs, args=launched, grid=grid, arch=arch, values=values, pool=compilers, profile=profile,
        compile="all" if len(configs) <= WAVES * compilers.processes else None,
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
