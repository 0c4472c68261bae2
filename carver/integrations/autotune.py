"""Every `triton.autotune` kernel of a process: compile a part of its list in parallel, and time that part or, where
nothing may be timed, rank it by machine code.

Copies of the process compile what Triton itself would launch, so that Triton finds all of it in its cache.

The kernel's keys, hooks, heuristics and own pruning stay, as do Triton's caches."""

from __future__ import annotations

import functools
import itertools
import math
import os
import statistics
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any
from unittest import mock

import numpy as np

from ..arch.descriptor import Arch
from ..arch.devices import load
from ..base.errors import ConfigError
from ..base.folders import cores_available
from ..compiled.triton import (
    Compiled,
    Target,
    build_launcher,
    compile_launched,
    function_of,
    grid_of,
    hashed,
    heuristics,
    hooked,
    plain_config,
    without_tuner,
)  # fmt: skip
from ..compiled.worker import Forks
from ..export.triton import Feedback, Make, Pruner, device, make, pruner
from ..export.triton import perf_model as triton_perf_model
from ..problem.problem import counted
from ..ranking.kernel import in_turns, most_compiled, rank_kernel
from ..ranking.ranking import TIED, as_fast, least
from ..ranking.surrogate import Price, axes_of, explored
from ..run.cuda import by_run, check_timer, stamped
from ..run.records import PAIRED, median_interval
from .enable import Chosen, Enabled, asked, enabled, originals, replaced

LAUNCH_ONLY = ("grid", "warmup", "stream")
"""Keywords of a launch that are no arguments of the kernel."""
MOST_VALUES = 1 << 20
"""Elements of the largest integer tensor that is copied to the host, where a loop's bound is loaded from it."""
MOST_FLOATS = 16
"""The same for floating point, where a branch depends on a value: a gradient of 1 that need not be multiplied by."""
WARMUP_MS, TIMED_MS = 1, 2
"""Warm-up and timing of one configuration in one round by Triton's timer, which by itself takes 25 and 100. Source:
first calls of five operators on an H200 take 0.86 of what they took with 2 and 8, and later ones as long
(`enable_rounds.jsonl` in tests/data)."""
ROUNDS, OPEN = 9, 4
"""Most rounds of a configuration: short ones in turn tell more than one long one, since clocks drift. And how many that
noise may have put behind the fastest are timed again: those of the least times, and the list's first."""
MOST_STAMPED = 1000
"""Runs that CUPTI keeps the time stamps of."""


def enable_triton(
    topk: int | None = None, arch: Arch | str = "auto", *, pinned: bool | str | os.PathLike[str] = False,
    record: bool = False, margin: float | None = None, strict: bool = False, timer: str = "events",
) -> Enabled:  # fmt: skip
    """From now on, choose of each `triton.autotune` kernel of this process in less time at its first call.

    Of a long list a part is compiled, in parallel, and timed shortly, and a model of the times chooses what is compiled
    next. Triton times the first `topk` configurations (3 by default) and the first of the list again, in turn until
    their order is sure or a tie; a short list whole. The list's first is left only for a gain that noise does not
    explain. With `topk=1`, or CARVER_TUNING=off, nothing is timed, lists are ranked by machine code, and tuning takes
    no GPU memory. So are those of a kernel with a timer of its own, of which the first are timed.

    `pinned`: nothing is timed, and every process takes the same: what a table of pins has, or what the model alone
    chooses. True, or a table's file or folder (else `CARVER_PINS`). `record` puts what is missing into the table;
    `margin`: the first of the list is left only for a predicted gain above it; `strict`: an entry that is missing or
    stale is an error and not a line in the log.

    `timer` takes the place of Triton's own: "events" around each launch, L2 cleared; "graph" has launches in a CUDA
    graph, L2 as they leave it; "cupti" reads the kernels' time stamps by NVIDIA's package. A kernel's own timer stays.

    Else as `carver.enable("triton")`: a second call takes the place of the first, with a warning. Without a GPU here,
    and without `arch`, kernels are tuned as before, and the log says so. Raises ConfigError if Triton is missing.
    """
    picks = asked(pinned, record=record, margin=margin, strict=strict)
    check_timer(timer)
    log = enabled(("triton",), topk, arch, picks)
    log.timer = timer
    if not getattr(sys.modules["triton"].__spec__, "_initializing", False):  # two threads must not import it
        threading.Thread(target=hashed).start()  # while the caller makes what its kernels are called with
    return log


def patch(log: Enabled) -> Callable[[], None]:
    """Replace three methods of Triton's `Autotuner`."""
    from triton.runtime.autotuner import Autotuner

    names = [name for name in ("prune_configs", "_bench", "check_disk_cache") if hasattr(Autotuner, name)]
    prune, bench, *check = originals(Autotuner, *names)

    def prune_configs(self: Any, kwargs: dict[str, Any], *rest: Any) -> list[Any]:
        configs = list(prune(self, kwargs, *rest))

        def choose() -> Chosen[Any]:
            if not hasattr(self, "_carver_feedback"):
                self._carver_feedback = Feedback()
            given, device = {**self.nargs, **kwargs}, log.device()
            if log.pinned is not None:
                taken, where, pin = log.pinned.take(
                    self, configs, given, device, _of_kernel(given),
                    lambda ordered: copies(self.fn, ordered, given, device, hurry=False),
                )  # fmt: skip
                return Chosen([taken], pin.config, where)
            if log.topk > 1 and (_default_timer(self) or len(configs) <= log.topk):

                def time(config: Any) -> Any:
                    return shortly(self, *self.nargs.values(), config=config, **kwargs)

                kept, best = fastest(self.fn, configs, given, device, log.topk, time)
            else:
                kept, best = ranked(self.fn, configs, given, device, log.topk, self, self._carver_feedback)
            self._carver_race = Race(kept, _default_timer(self))
            return Chosen(kept, best)

        if len(configs) > 1:
            self._carver_race = self._carver_untimed = None
            configs = log.first(getattr(self.base_fn, "__name__", "kernel"), configs, choose)
            self._carver_untimed = configs[0] if log.pinned is not None or log.topk == len(configs) == 1 else None
        return configs

    def _bench(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
        if getattr(self, "_carver_untimed", None) is config:
            return [float("nan")] * 3  # the only one that is left: taken without being run
        race: Race | None = getattr(self, "_carver_race", None)
        if race is None:  # not ranked: Triton's own times, which one round of short ones is no match for
            return bench(self, *args, config=config, **meta)
        return race.told(config, lambda one: shortly(self, *args, config=one, **meta))

    def shortly(self: Any, *args: Any, **how: Any) -> Any:
        with _timed_shortly(self, log.timer):
            return bench(self, *args, **how)

    def check_disk_cache(self: Any, key: Any, configs: Any, run: Callable[[], None]) -> bool:
        if getattr(self, "_carver_untimed", None) is None:
            return bool(check[0](self, key, configs, run))
        run()  # nothing is timed, so there is nothing to keep
        return False

    more = {"check_disk_cache": check_disk_cache} if check else {}
    return replaced(Autotuner, prune_configs=prune_configs, _bench=_bench, **more)


@dataclass
class Race:
    """Times of a list's configurations, in rounds, of which all but the first are of those whose order is open."""

    every: Sequence[Any]
    """The list's first, then the picks in the order that resolves ties."""
    warm: bool = False
    """The first is timed once more before all others, which warms the clocks."""
    rounds: dict[int, list[list[float]]] = field(default_factory=dict)
    """By place: of each round the median, and the quantiles of 20 and 80 %."""
    said: dict[int, Any] = field(default_factory=dict)
    """By place: what the tuner is told."""

    def told(self, config: Any, time: Callable[[Any], Any]) -> Any:
        """The times of a configuration for the tuner, which takes the least. The first that noise does not tell from
        the fastest has its own; who is no slower is told to be, by a hair."""
        place = next((i for i, each in enumerate(self.every) if each is config), None)
        if place is None:
            return time(config)
        if not self.said:
            self._run(time)
        return self.said[place]

    def _run(self, time: Callable[[Any], Any]) -> None:
        if self.warm and len(self.every) > 1:
            time(self.every[0])
        self.said = {i: time(each) for i, each in enumerate(self.every)}
        self.rounds = {
            i: [triple] for i, said in self.said.items() if (triple := _triple(said)) and math.isfinite(triple[0])
        }
        if len(self.rounds) < 2:
            return
        for back in itertools.islice(itertools.cycle((True, False)), ROUNDS - 1):
            best = self._best()
            left = [i for i in self.rounds if i != best and self._over(i, best)[1] <= 1 + TIED < self._over(i, best)[2]]
            if not left:
                break
            again = {best, *sorted(left, key=self._median_ms)[:OPEN], *left[: left[0] == 0]}
            for i in sorted(again, reverse=back):  # there and back: a drift of the clocks favours none
                if not (triple := _triple(time(self.every[i]))) or not math.isfinite(triple[0]):
                    return
                self.rounds[i].append(triple)
        best = self._best()
        enough = min(PAIRED, len(self.rounds[best]))
        taken = min(i for i, found in self.rounds.items()
                    if i == best or (len(found) >= enough and as_fast(self._over(i, best))))  # fmt: skip
        least = self._median_ms(taken)
        for i, found in self.rounds.items():
            own = self._median_ms(i)
            own = own if i == taken or own > least else math.nextafter(least, math.inf)
            self.said[i] = [own, *found[-1][1:]] if isinstance(self.said[i], Sequence) else own

    def _median_ms(self, place: int) -> float:
        return statistics.median(each[0] for each in self.rounds[place])

    def _best(self) -> int:
        return min(self.rounds, key=self._median_ms)

    def _over(self, slow: int, fast: int) -> tuple[float, float, float]:
        """The time of one over that of another, and its bounds: of rounds in pairs, since clocks drift, else of
        quantiles."""
        pairs = list(zip(self.rounds[slow], self.rounds[fast], strict=False))
        if len(pairs) >= PAIRED:
            return median_interval([a[0] / b[0] for a, b in pairs])
        (own, low, high), (other, least, most) = pairs[0]
        return own / other, low / most, high / least


def _triple(said: Any) -> list[float]:
    """What a timer said as a median and two quantiles; empty for what is none."""
    own = list(said) if isinstance(said, Sequence) else [said] * 3
    return own[:3] if len(own) >= 3 and all(isinstance(each, int | float) for each in own) else []


def ranked(
    kernel: Any, configs: Sequence[Any], given: Mapping[str, Any], arch: Arch, topk: int, tuner: Any = None,
    feedback: Feedback | None = None,
) -> tuple[list[Any], dict[str, Any]]:  # fmt: skip
    """The first `topk` of the configurations for the arguments of a launch, and the best as a dict.

    Triton's own cache holds what was compiled then. What `tuner` timed after the ranking before is learnt first, where
    there is `feedback`. Raises CarverError for what cannot be ranked.
    """
    launched = _of_kernel(given)
    feedback = feedback or Feedback()
    profile = feedback.profile(tuner, f"{function_of(kernel).__name__}/compiled", arch)
    with copies(kernel, configs, given, arch) as compilers:
        ranking = rank_kernel(
            kernel, configs, args=launched, grid=given["grid"], arch=arch, values=Values(launched), pool=compilers,
            profile=profile, compile=in_turns(len(configs), compilers.processes),
        )  # fmt: skip
    feedback.ranked(tuner, ranking, configs)
    picks = [configs[hint.index] for hint in sorted(ranking[:topk], key=least)]
    if topk > 1:  # the list's own first is left only for a gain
        picks = [configs[0], *(each for each in picks if each is not configs[0])]
    return picks, dict(ranking[0].config)


def fastest(
    kernel: Any, configs: Sequence[Any], given: Mapping[str, Any], arch: Arch, topk: int, time: Callable[[Any], Any]
) -> tuple[list[Any], dict[str, Any]]:  # fmt: skip
    """As `ranked`, by the `time` of each, as Triton's tuner takes it, and with the list's first. Of a long list a part
    is compiled, which the surrogate chooses by times; of a short one all is, and kept, with no best."""
    known = [{**given, **config.all_kwargs()} for config in configs]
    grids = [grid_of(given["grid"], each | heuristics(kernel, each)) for each in known]
    axes = axes_of([plain_config(config) for config in configs], [math.prod(grid) for grid in grids], arch.sm_count)
    prices: dict[int, Price] = {}
    with copies(kernel, configs, given, arch) as compilers:

        def timed(places: list[int]) -> dict[int, Price]:
            asked = dict.fromkeys([*axes.longest_first(places), *({0} - prices.keys())])
            made = compilers.filled(asked)
            time(configs[made[0]])  # which warms the clocks
            for place in asked:
                ms = (_triple(time(configs[place])) if place in made else None) or [math.inf]
                prices[place] = Price(ms[0] / 1e3 if math.isfinite(ms[0]) else None, str(place))
            return prices

        most = most_compiled(in_turns(len(configs), compilers.processes), len(configs))
        if most == len(configs):
            return [configs[i] for i in compilers.filled(axes.longest_first(range(most)))], {}
        explored(axes, timed, most, wide=max(1, 3 * compilers.processes // 4))
    taken = {place: price.seconds for place, price in prices.items() if price.seconds is not None}
    best = sorted(taken, key=lambda place: taken[place])[:topk] or [0]
    return [configs[place] for place in dict.fromkeys([0, *best])], configs[best[0]].all_kwargs()


def copies(kernel: Any, configs: Sequence[Any], given: Mapping[str, Any], arch: Arch, hurry: bool = True) -> Forks:
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

    count = most_compiled(in_turns(len(configs), cores_available()), len(configs))
    return Forks(build, arch, hurry=count * hurry, beside=launcher)


def _of_kernel(given: Mapping[str, Any]) -> dict[str, Any]:
    """What a launch gives, without keywords of its own."""
    return {name: value for name, value in given.items() if name not in LAUNCH_ONLY}


def _default_timer(tuner: Any) -> bool:
    """Whether the kernel names no timer, and so is timed by Triton's."""
    return getattr(tuner, "_do_bench", tuner) is None


@contextmanager
def _timed_shortly(tuner: Any, timer: str = "events") -> Iterator[None]:
    """Triton's own timer with WARMUP_MS and TIMED_MS, or another one. A timer of the kernel's stays as it is."""
    from triton.testing import do_bench, do_bench_cudagraph

    if not _default_timer(tuner) or tuner.do_bench is not do_bench:
        yield
        return
    another = {
        "events": functools.partial(do_bench, warmup=WARMUP_MS, rep=TIMED_MS), "cupti": by_stamps,
        "graph": functools.partial(do_bench_cudagraph, rep=TIMED_MS / 10),  # which it replays ten times
    }[timer]  # fmt: skip
    with mock.patch.object(tuner, "do_bench", another):
        yield


def by_stamps(call: Callable[[], object], quantiles: Sequence[float]) -> list[float]:
    """Quantiles of the times of a call's kernels by CUPTI, L2 cleared before each. [ms]"""
    from triton.runtime import driver

    check_timer("cupti")
    active = driver.active
    room, wait = active.get_empty_cache_for_benchmark(), active.get_device_interface().synchronize

    def stamps(runs: int, *steps: Callable[[], object]) -> list[tuple[int, int]]:
        wait()
        with stamped() as found:
            for _ in range(runs):
                for step in steps:
                    step()
            wait()
        return found

    def clear() -> None:
        active.clear_cache(room)

    call()
    clears = len(stamps(1, clear))
    first_ms = 1e3 * by_run(stamps(1, clear, call), 1, clears)[0]
    stamps(max(1, int(WARMUP_MS / max(first_ms, 1e-3))), call)
    runs = min(max(3, int(TIMED_MS / max(first_ms, 1e-3))), MOST_STAMPED)
    times_s = by_run(stamps(runs, clear, call), runs, clears)
    return [float(1e3 * each) for each in np.quantile(times_s, quantiles)]


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


__all__ = ["triton_perf_model", "triton_pruner"]


def triton_pruner(
    template: Make | None = None, topk: int = 10, names: Mapping[str, str] | None = None, ignore: Sequence[str] = (),
    propose: bool = False, compiled: int | None = None, kernel: Any = None, arch: Arch | str = "auto",
) -> Pruner:
    """For `triton.autotune(configs, key, prune_configs_by=carver.triton_pruner(topk=5))`, or in a dict:
    `{"early_config_prune": carver.triton_pruner(topk=5)}`.

    Keeps the `topk` configurations of the kernel's own list that are predicted fastest, and the first of the list. They
    are predicted by their machine code: all are compiled, in parallel, for `arch`, by default the GPU of this machine.

    With a `template` they are predicted by the model of that operator, and nothing is compiled. It is an operator with
    its device, or a function of the kernel's arguments that returns one:

        lambda M, N, K: carver.MatmulTemplate(M, N, K).with_arch("h200")

    - `names` maps BLOCK_M and the like to the kernel's keys, if they have unusual names.
    - `ignore`: keys of the kernel that do not matter to the time.
    - `propose` tries carver's own candidates instead of the list.
    - `compiled`: so many of the first configurations are compiled for the device, in parallel, and the `topk` are
      chosen by their machine code.
    - `kernel` is the kernel, or a function without arguments that returns it, because its decorator comes before it:
      `kernel=lambda: matmul`. With it, the times that Triton's tuner measures for one key improve the ranking for the
      next.
    """
    tuner = None if kernel is None else lambda: kernel() if isinstance(kernel, FunctionType) else kernel
    if template is None:
        if names or ignore or propose or compiled is not None:
            raise ConfigError("names, ignore, propose and compiled go with a template: triton_pruner(op, ...)")
        return Pruner(_by_code(counted("topk", topk, 1), lambda given: load(arch), tuner), by_code=True)
    if arch != "auto":
        raise ConfigError("a template has its own device: op.with_arch(...)")
    if compiled is None:
        return pruner(template, topk, names, ignore, propose, tuner)
    if tuner is None:
        raise ConfigError("compiled= needs the kernel: triton_pruner(..., kernel=lambda: matmul)")
    screen = pruner(template, compiled, names, ignore, propose)
    return Pruner(_by_code(counted("topk", topk, 1), lambda given: device(make(template, given)), tuner, screen))


def _by_code(
    topk: int, target: Callable[[Mapping[str, Any]], Arch], tuner: Callable[[], Any] | None,
    screen: Pruner | None = None,
) -> Callable[..., list[Any]]:  # fmt: skip
    """Keeps what is first by machine code, of the list or of what `screen` leaves of it. `target`: the device, by the
    arguments of the call."""
    feedback = Feedback()

    def early_config_prune(configs: list[Any], named_args: Mapping[str, Any], **kwargs: Any) -> list[Any]:
        own = tuner() if tuner else _asking()
        given = {**named_args, **kwargs}
        first = configs if screen is None else screen(configs, named_args, **kwargs)
        return ranked(without_tuner(own), first, given, target(given), topk, tuner=own, feedback=feedback)[0]

    return early_config_prune


def _asking() -> Any:
    """Triton's tuner that called the pruner, which it does not hand over. Raises ConfigError where another called."""
    frame = sys._getframe(2)
    while frame is not None:
        if hasattr(own := frame.f_locals.get("self"), "prune_configs"):
            return own
        frame = frame.f_back  # type: ignore[assignment]
    raise ConfigError("no triton.autotune asks: name the kernel, triton_pruner(kernel=lambda: matmul)")
