"""Confirm hints by running them: compile all, check each result, time them in rounds, record every number. `benchmark`
runs carver's own kernels; `benchmark_kernel` a Triton kernel as its user launches it, in this process, on its tensors.

Compilation comes first, on all cores, and needs no device. Then one worker process at a time runs one candidate at a
time. The order is drawn anew in each round, so that a drift of the clocks favours none. Whatever a candidate does wrong
becomes its recorded outcome; the worker is replaced and the others continue. A rerun with the same candidates and
settings takes what is recorded and measures only what is missing.

`Runner` is what any run knows of its candidates, each by a key that covers all that its result depends on. Who measures
decides about the order: here all in rounds, in `carver.tune.tuner` as a strategy says. The states of a candidate, which
are in docs/developers/architecture.md: new, built, checked, round i, done; failed; lost or busy, told and not recorded.
"""

from __future__ import annotations

import platform
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from functools import partial
from importlib import metadata
from itertools import zip_longest
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.child import Reply, outcome_of
from ..base.errors import ConfigError, DeviceError, KernelError, StoreError, warn
from ..base.folders import cache_folder, cores_available, lease
from ..base.given import as_json, takes
from ..base.table import Bars, progress_bars, words
from ..base.types import Record
from ..compiled.triton import function_of, without_tuner
from ..kernels import declaration as kernel
from ..problem.problem import Problem
from ..ranking.hint import Hint
from .buffers import is_torch, put
from .check import agreement
from .cuda import check_timer
from .device import has_source
from .inputs import beside
from .records import Measurement, Records, Run
from .render import Program, render
from .report import LIBRARY, Report
from .session import BUSY, Session, Spec, Trial, build, compiler_of, digest, program_identity, unbuilt
from .worker import Settings

TARGET_CI_PERCENT = 1.0
"""A candidate is done when the confidence interval of its median is within this of the median on both sides."""
LEAST_SAMPLES = 10
"""Samples in all before a candidate may be done: fewer give no interval worth the name."""


class Runner:
    """The candidates of one run, by key. `width`: how many are measured at once."""

    def __init__(self, records: Records, width: int = 1) -> None:
        self.records, self.width = records, width
        self.known: dict[str, Measurement] = {}
        self.lost: set[str] = set()
        self.busy: set[str] = set()
        self.spent_s = dict.fromkeys(("compile", "check", "measure"), 0.0)
        self.unrecorded = ""
        """Why the records did not take everything, such as a full disk; what is measured counts all the same."""
        self.retaken = 0
        """Disturbed timings that were taken again."""
        self.worst = 0.0
        """Of these the longest baseline over its least."""

    def take(self, m: Measurement, found: Mapping[str, Any]) -> Measurement:
        """The measurement after a round, which is recorded unless it is lost or busy. `m`: what is known of the
        candidate, at first without a time. `found`: the `outcome` and a `message`; what was measured (`samples_ms`,
        `conditions`), seen by the check (`error`, `resources`) and spent (`spent_s`); whether it is to count (`busy`,
        `transient`). A `Session` says so of the round."""
        for name, seconds in found.get("spent_s", {}).items():
            self.spent_s[name] += seconds / self.width
        self.retaken += found.get("retaken", 0)
        self.worst = max(self.worst, found.get("worst", 0.0))
        m = _after(m, found)
        self.known[m.candidate] = m
        if found.get("transient"):
            self.lost.add(m.candidate)
        elif m.ok and found.get("busy", 0.0) > BUSY:
            self.busy.add(m.candidate)
        else:
            try:
                self.records.put(m, sum(found.get("spent_s", {}).values()))
            except StoreError as e:
                self.unrecorded = str(e)
        return m


def _after(m: Measurement, found: Mapping[str, Any]) -> Measurement:
    error = found.get("error")
    of_check = {name: found[name] for name in ("resources", "checked", "reference_ms", "smem_bytes") if name in found}
    after = replace(
        m, outcome=found["outcome"], message=found["message"] or m.message, device=found.get("device") or m.device,
        host=found.get("host") or m.host, error=m.error if error is None else min(float(error), 1e300),
        device_info={**m.device_info, **found.get("state", {}), **of_check},
    )  # fmt: skip
    if after.ok:
        return after.with_round(found["samples_ms"], found.get("conditions", {}))
    where = f"in round {len(m.rounds_ms) + 1}: " if found.get("numbered") else ""
    return replace(after, message=f"{where}{found['message']}")


def with_prediction(m: Measurement, hint: Hint | None) -> Measurement:
    """The measurement with what this hint says, which may have changed since it was measured."""
    return m if hint is None else replace(
        m, arch=hint.arch.name, rank=hint.rank, predicted_ms=hint.predicted_ms, bound=hint.bound,
        terms_ms=dict(hint.terms_ms), hint=hint.to_dict(),
    )  # fmt: skip


def done(m: Measurement) -> bool:
    """Whether more samples of it would tell nothing new."""
    percent = m.ci_percent
    return not m.ok or (len(m.samples_ms) >= LEAST_SAMPLES and percent is not None and percent < TARGET_CI_PERCENT)


def versions(*besides: str) -> dict[str, str]:
    """Of carver and what it measures with, and of packages `besides`, where they are installed."""
    out = {"python": platform.python_version()}
    for name in ("gpu-carver", "numpy", "torch", "pycuda", *besides):
        with suppress(metadata.PackageNotFoundError):
            out[name] = metadata.version(name)
    return out


ROUND_S = (0.01, 0.5)
"""Bounds of what one candidate gets of one round. [s]"""

_SCHEMA = 3  # of the keys that identify a candidate and a run


class Candidate(Record):
    """Something to compile and measure: a hint, or any kernel that is a `Program`. `config` and `kernel` name it."""

    problem: Problem
    kernel: str
    backend: str
    config: Mapping[str, Any]
    program: Program | None
    refused: str = ""
    """Why there is no program: what the kernel cannot do on this device."""
    hint: Hint | None = None

    def key(self, compiler: str) -> str:
        """SHA-256 of all that its result depends on: problem, config, launches, sources, compiler."""
        program = program_identity(self.program, compiler) if self.program else self.refused
        return digest([_SCHEMA, self.problem.to_dict(), self.kernel, self.backend, dict(self.config), program])

    def trial(self) -> Trial:
        """What runs: candidates that differ in their names only are loaded once."""
        assert self.program is not None
        return Trial(digest([as_json(self.program)]), {}, self.program)


def candidates(hints: Iterable[Hint], arch: Arch, defines: Mapping[str, str] | None = None) -> list[Candidate]:
    """The hints as programs for a device, those that render none included. Equal configs are one candidate."""
    found: dict[tuple[Any, ...], Candidate] = {}
    for hint in hints:
        identity = (hint.backend, hint.kernel, tuple(sorted(hint.config.items())))
        if identity in found:
            continue
        program, refused = None, ""
        try:
            program = render(hint, arch, defines)
        except (ConfigError, KernelError) as e:
            refused = str(e)
        found[identity] = Candidate(hint.problem, hint.kernel, hint.backend, dict(hint.config), program, refused, hint)
    return list(found.values())


def stratified(hints: Sequence[Hint], budget: int, seed: int = 0) -> list[Hint]:
    """`budget` of the hints, spread over predicted time and block tile: all of them if they are no more.

    The hints are cut into 8 classes by quantiles of their predicted time, each class into those of equal kernel and
    block tile. Every class gives the same share, and within it every tile in turn, in random order.
    """
    if budget < 1:
        raise ConfigError(f"the budget of configurations must be at least 1, got {budget!r}")
    if len(hints) <= budget:
        return list(hints)
    rng = random.Random(seed)
    quantiles = np.array_split(np.argsort([h.predicted_ms for h in hints], kind="stable"), min(8, budget))
    queues = []
    for members in quantiles:
        tiles: dict[tuple[Any, ...], list[Hint]] = {}
        for i in rng.sample(members.tolist(), len(members)):
            tiles.setdefault((hints[i].kernel, hints[i].block), []).append(hints[i])
        turns = [h for row in zip_longest(*tiles.values()) for h in row if h is not None]
        queues.append(turns)
    chosen: list[Hint] = []
    for row in zip_longest(*queues):
        chosen += [h for h in row if h is not None]
    return sorted(chosen[:budget], key=lambda h: (h.predicted_ms, h.rank))


class Bench(ExitStack):
    """One device under measurement: its session, the compiler, the records. A context manager."""

    def __init__(self, device: str = "auto", records: Records | None = None, settings: Settings | None = None) -> None:
        super().__init__()
        self.settings = settings or Settings()
        with ExitStack() as stack:
            self.records = records or stack.enter_context(Records())
            self.session = stack.enter_context(Session(Spec(device, self.settings)))
            self.machine = self.session.machine
            check_timer(self.settings.timer, self.machine.kind)
            self._compiler = compiler_of(self.machine.kind)
            self.push(stack.pop_all())

    @property
    def compiler(self) -> str:
        """Kind and version, as they enter the keys."""
        return f"{self._compiler.kind} {self._compiler.version}"

    def compile(self, wanted: Sequence[Candidate], each: Callable[[], None] = lambda: None) -> list[Trial | Reply]:
        """What can run, in the order of the candidates, made on all cores; a Reply that says why where nothing can."""

        def one(candidate: Candidate) -> Trial | Reply:
            made: Trial | Reply = Reply("does_not_fit", candidate.refused)
            if candidate.backend == LIBRARY:
                made = Trial(LIBRARY, {})
            elif candidate.program is not None:
                made = build(candidate.trial(), self.machine.kind)
            each()
            return made

        with ThreadPoolExecutor(cores_available()) as pool:  # an interrupt waits for the compilers that run alone
            return list(pool.map(one, wanted))

    def unmeasured(self, run: Run, key: str, candidate: Candidate) -> Measurement:
        """What is known of a candidate before its first round, under that key."""
        arch = self.machine.arch.name
        m = Measurement(
            run_id=run.run_id, candidate=key, outcome="ok", operator=candidate.problem.operator,
            problem=candidate.problem.to_dict(), kernel=candidate.kernel, backend=candidate.backend,
            config=dict(candidate.config), arch=arch, device=self.machine.name, host=platform.node(),
            versions={**versions(), "compiler": self.compiler}, device_info={**self.machine.state, "arch": arch},
        )  # fmt: skip
        return with_prediction(m, candidate.hint)


def benchmark(
    hints: Sequence[Hint], device: str = "auto", *, budget_s: float = 60.0, rounds: int = 5, warm: bool = False,
    timeout_s: float = 30.0, library: bool = False, grid: Sequence[Hint] | None = None, grid_budget: int | None = None,
    check: bool = True, progress: bool = True, records: Records | None = None, fresh: bool = False, seed: int = 0,
    defines: Mapping[str, str] | None = None, reset_to_zero: Sequence[str] = (), restore_value: Sequence[str] = (),
    timer: str = "events",
) -> Report:  # fmt: skip
    """Compile, check and time the hints, and compare their times with the predictions.

    - `device` is "cuda", "cuda:1" or "cpu"; "auto" is the first device of the kind that the hints are for.
    - `grid`: more hints to time, for example the whole feasible space, which slowdowns are against; with
      `grid_budget` only a stratified sample of so many.
    - `library` times numpy or torch on the same problem.
    - Every candidate gets one round; further rounds follow until its median is known within 1 %, as far as `budget_s`
      allows. A candidate that computes or hangs longer than `timeout_s` is stopped.
    - Caches are cold for each sample unless `warm`. `fresh` measures again what the records have.
    - `reset_to_zero` and `restore_value` name tensors (or "workspace") to set to zero, or to restore, before each
      launch, for kernels that add to them.
    - `timer` of a GPU: "events" around each run; "graph", which has the run in a CUDA graph; "cupti", the time stamps
      of the kernels, by NVIDIA's package.
    """
    if not hints:
        raise ConfigError("no hints to measure: give at least one")
    if not isinstance(hints[0].subject, Problem):
        raise ConfigError(
            f"carver does not know how {hints[0].subject} is launched; the hints of a Triton kernel are timed by "
            "ranking.benchmark_kernel(kernel, args=..., grid=...), with tensors on the GPU"
        )
    problem = hints[0].problem
    if others := [h for h in hints if h.problem != problem]:
        raise ConfigError(f"one benchmark measures one problem: got {problem} and {others[0].problem}")
    if check and "EXPRESSION" in (defines or {}):
        raise ConfigError(
            "no reference for an EXPRESSION of your own: pass check=False, and check the best kernel yourself"
        )
    if not has_source(hints[0].backend):
        raise DeviceError(
            f"hints of the backend {hints[0].backend!r} are for kernels that carver has no source of; carver.autotune "
            "times yours, and carver's own are those of the backends 'cuda' and 'cpu'"
        )
    device = hints[0].backend if device == "auto" else device
    sample = stratified(grid, grid_budget, seed) if grid is not None and grid_budget is not None else grid or ()
    settings = Settings(
        warm, check, seed, tuple(reset_to_zero), tuple(restore_value), rounds, float(budget_s), float(timeout_s),
        timer=timer,
    )  # fmt: skip
    with ExitStack() as stack:
        store = records or stack.enter_context(Records())
        bench = stack.enter_context(Bench(device, store, settings))
        machine = bench.machine
        if others := [h for h in (*hints, *sample) if h.backend != machine.kind]:
            has = any(k.backend == machine.kind for k in kernel.every(problem.operator))
            raise DeviceError(
                f"a hint for the backend {others[0].backend!r} cannot run on {machine.name}; "
                + (f"ask for hints with backend={machine.kind!r}, or give another device" if has else
                   f"carver has no kernel of its own for {problem.operator} there: carver.autotune times yours")
            )  # fmt: skip
        every = candidates([*hints, *sample], machine.arch, defines)
        if library:
            every.append(Candidate(problem, LIBRARY, LIBRARY, {}, None))
        measurements = measure(bench, every, fresh=fresh, progress=progress)
        if not store.lasting:
            warn(f"not kept: {cache_folder()} cannot be written, or its disk is full")
    grid_size = len(grid) if grid is not None else None
    return Report(problem, measurements, device=device, grid_size=grid_size, defines=defines)


def measure(
    bench: Bench, every: Sequence[Candidate], *, fresh: bool = False, progress: bool = False
) -> list[Measurement]:
    """Measure candidates of one problem, hints or not, as one run that the records can resume; in the order given."""
    store, machine = bench.records, bench.machine
    for c in every[:1]:
        bench.settings.fit(c.problem)
    keyed = {c.key(bench.compiler): c for c in every}
    how = asdict(bench.settings)
    limits = {name: how.pop(name) for name in ("budget_s", "timeout_s")}  # a run that is resumed may have had less
    run_key = digest([_SCHEMA, how, sorted(keyed), machine.name, machine.state.get("driver"), versions()])
    waiting = f"waiting for {{}}, which measures on {machine.name}"
    with (
        progress_bars(progress) as shown,
        lease(machine.lease, shared=True, wait_s=float("inf"), waiting=lambda who: shown.say(waiting.format(who))),
    ):
        run = store.begin(run_key, machine.name, how | limits, fresh=fresh)
        runner = Runner(store)
        known = {m.candidate: m for m in store.find(run_id=run.run_id)}
        if grown := {name: limit for name, limit in limits.items() if limit > run.settings[name]}:
            run = store.extend(run, dict(run.settings) | grown)
            if "timeout_s" in grown:
                known = {key: m for key, m in known.items() if m.outcome != "timeout"}
        if known:
            shown.say(
                f"{len(known)} of {len(keyed)} measured since {run.started_at[:19]} UTC; fresh=True measures all again"
            )
        runner.known |= known
        if run.finished_at is None and _rounds(bench, run, keyed, runner, shown) and not runner.unrecorded:
            store.finish(run)
    if runner.unrecorded:
        warn(f"measurements were not recorded: {runner.unrecorded}")
    return [with_prediction(runner.known[key], c.hint) for key, c in keyed.items()]


def _rounds(bench: Bench, run: Run, every: Mapping[str, Candidate], runner: Runner, shown: Bars) -> bool:
    """Measure what is missing, and bring `runner.known` up to date with each round of each candidate. Whether that is
    all: a candidate that no compiler could do is told, and left to another time."""
    settings, known = bench.settings, runner.known
    todo = [key for key in every if key not in known or not done(known[key])]
    bar = shown.bar("compile", len(todo))
    built: dict[str, Trial] = {}
    for key, made in zip(todo, bench.compile([every[key] for key in todo], bar), strict=True):
        if isinstance(made, Trial):
            built[key] = made
        else:
            runner.take(bench.unmeasured(run, key, every[key]), unbuilt(made))
    for place in range(settings.rounds):
        turn = [k for k in built if len(known[k].rounds_ms) == place and not done(known[k])] if place else (
            [k for k in built if k not in known])  # fmt: skip
        spent = run.spent_s + sum(runner.spent_s.values())
        if place and (spent >= settings.budget_s or all(done(known[k]) for k in built)):
            break
        if not turn:
            continue
        random.Random(f"{run.run_key} {place}").shuffle(turn)
        share = (settings.budget_s - spent) / (len(turn) * (settings.rounds - place))
        seconds, advance = min(max(share, ROUND_S[0]), ROUND_S[1]), shown.bar(f"round {place + 1}", len(turn))
        for key in turn:
            if place and run.spent_s + sum(runner.spent_s.values()) >= settings.budget_s:
                return not runner.lost
            _one(bench, run, key, every[key], built[key], runner, seconds)
            advance()
    return not runner.lost


def _one(bench: Bench, run: Run, key: str, candidate: Candidate, built: Trial, runner: Runner, seconds: float) -> None:
    """One candidate through one round; through its check as well if it has not been measured before."""
    session, before = bench.session, runner.known.get(key)
    session.problem = candidate.problem
    m = before or bench.unmeasured(run, key, candidate)
    if candidate.backend == LIBRARY:
        found = session.library(seconds)
        m = replace(m, kernel=found["name"] or m.kernel)
    else:
        found = session.round(built, None, seconds) if before else session.measure(built, seconds=seconds)
    runner.take(m, found)


WARMUP_MS, ROUND_MS = 5, 20
"""Of one candidate in one round."""


@takes(ConfigError, besides="hints|kernel|args|grid|timer|records")
def benchmark_kernel(
    hints: Sequence[Hint], kernel: Any, args: Mapping[str, Any], grid: Any, *,
    constants: Mapping[str, Any] | None = None, expected: Mapping[str, Any] | None = None, rounds: int = 5,
    budget_s: float = 60.0, check: bool = True, timer: str = "events", progress: bool = True,
    records: Records | None = None,
) -> Report:  # fmt: skip
    """Run each hint of a ranked Triton kernel, compare their results, and time those that are right in turn. `kernel`,
    `args`, `grid` and `constants` are those of the launch, with the tensors on the GPU. `expected` has by name what
    tensors are to hold then; without it, which results are right, `carver.run.check.agreement` says.

    The tensors are put back at the end. Until then the GPU holds a copy of them, and copies of each different result.
    What does not compile, run or agree is a candidate's recorded outcome; one that leaves the GPU's context broken ends
    the others too, since they run in this process. Caches are cold with the timer "events", and with "graph" as the
    launches leave them.

    Raises ConfigError for a kernel that is not Triton's, DeviceError without a tensor on a GPU.
    """
    function_of(kernel)  # raises for what is no kernel
    given = {**args, **(constants or {})}
    tensors = {name: each.detach() for name, each in given.items() if is_torch(each) and each.is_cuda}
    if not tensors:
        raise DeviceError("a Triton kernel is timed where its tensors are, and none of args is on a GPU")
    import torch

    compared, right = tensors if check else {}, {}
    for name, each in (expected or {} if check else {}).items():
        if name not in tensors or tuple(each.shape) != tuple(tensors[name].shape):
            raise ConfigError(f"expected has {name!r}, which is no tensor of args of that shape")
        right[name] = beside(each, tensors[name]).clone()  # it may be that tensor
    launch, timed = without_tuner(kernel)[grid], _timer(timer)
    device = torch.cuda.get_device_name(next(iter(tensors.values())).device)
    subject, began = hints[0].subject, time.monotonic()
    sizes = {name: n for name, n in given.items() if isinstance(n, int) and not isinstance(n, bool)}
    before = {name: each.clone() for name, each in tensors.items()}
    known: dict[int, Measurement] = {}

    def launched(hint: Hint) -> None:
        launch(**given, **hint.config)
        torch.cuda.synchronize()

    with (records or Records()) as store, progress_bars(progress) as shown:
        settings = {"rounds": rounds, "budget_s": budget_s, "check": check, "timer": timer}
        run = store.begin(digest([str(subject), sizes, settings, versions("triton")]), device, settings, fresh=True)

        def take(place: int, m: Measurement) -> None:
            known[place] = m
            store.put(m)

        accesses = [a for hint in hints for a in (hint.facts.accesses if hint.facts else ())]
        written = compared.keys() & {a.argument for a in accesses if a.kind != "load"}
        read = {a.argument for a in accesses if a.kind != "store"}
        if "" in read or not all(hint.facts for hint in hints):  # of what, is not known
            read = set(tensors)
        runs = [(words(hint.config), partial(launched, hint)) for hint in hints]
        bar = shown.bar("check", 2 * len(hints))
        verdicts = agreement(runs, compared, before, written, read, right, bar)
        for place, (hint, (outcome, message, error)) in enumerate(zip(hints, verdicts, strict=True)):
            take(place, with_prediction(Measurement(
                run_id=run.run_id, candidate=digest([str(subject), sizes, dict(hint.config)]), outcome=outcome,
                operator=str(subject), problem={"title": str(subject), "sizes": sizes}, kernel=hint.kernel,
                backend=hint.backend, config=dict(hint.config), arch=hint.arch.name, device=device,
                host=platform.node(), versions=versions("triton"), device_info={"arch": hint.arch.name},
                message=message, error=error,
            ), hint))  # fmt: skip
        put(tensors, before)
        for turn in range(rounds):
            left = [place for place, m in known.items() if m.ok and not done(m)]
            bar = shown.bar(f"round {turn + 1}", len(left))
            for place in left[:: 1 - 2 * (turn % 2)]:  # there and back: a drift of the clocks favours none
                if turn and time.monotonic() - began > budget_s:
                    break
                m = known[place]
                try:
                    take(place, m.with_round(timed(partial(launch, **given, **hints[place].config)), {}))
                except Exception as error:
                    take(place, replace(m, outcome=outcome_of(error), message=f"{type(error).__name__}: {error}"))
                bar()
        put(tensors, before)
        store.finish(run)
    return Report(subject, list(known.values()), device=device)


def _timer(name: str) -> Callable[[Callable[[], Any]], list[float]]:
    """What gives the times of one round of a call. [ms]"""
    from triton.testing import do_bench, do_bench_cudagraph

    if name not in ("events", "graph"):
        raise ConfigError(f"timer is 'events' or 'graph' for a kernel of yours, got {name!r}")
    if name == "graph":
        return lambda call: list(do_bench_cudagraph(call, rep=ROUND_MS, return_mode="all"))
    return lambda call: list(do_bench(call, warmup=WARMUP_MS, rep=ROUND_MS, return_mode="all"))
