"""Confirm hints by running them: compile all, check each result, time them in rounds, record every number.

Compilation comes first, on all cores, and needs no device. Then one worker process at a time runs one candidate at a
time. The order is drawn anew in each round, so that a drift of the clocks favours none. Whatever a candidate does wrong
becomes its recorded outcome; the worker is replaced and the others continue. A rerun with the same candidates and
settings takes what is recorded and measures only what is missing.
"""

from __future__ import annotations

import platform
import random
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib import metadata
from itertools import zip_longest
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.child import Reply
from ..base.errors import ConfigError, DeviceError, KernelError
from ..base.folders import cache_folder, lease
from ..base.host import cores_available
from ..base.table import Bars, progress_bars
from ..kernels import declaration as kernel
from ..problem.problem import Problem
from ..ranking.hint import Hint
from .device import Program, has_source
from .records import Measurement, Records, Run
from .render import render
from .report import LIBRARY, Report
from .session import Opened, Session, Settings, Trial, build, compiler_of, digest, program_identity
from .timers import check_timer
from .travel import program_to_dict

TARGET_CI_PERCENT = 1.0
"""A candidate is done when the confidence interval of its median is within this of the median on both sides."""

LEAST_SAMPLES = 10
"""Samples in all before a candidate may be done: fewer give no interval worth the name."""

ROUND_S = (0.01, 0.5)
"""Bounds of what one candidate gets of one round. [s]"""

_SCHEMA = 3  # of the keys that identify a candidate and a run


@dataclass(frozen=True)
class Candidate:
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
        program = program_to_dict(self.program)
        return Trial(digest([program]), {}, program)


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
            self.session = stack.enter_context(Session(device, self.settings))
            self.machine: Opened = self.session.machine
            check_timer(self.settings.timer, self.machine.kind)
            self._compiler = compiler_of(self.machine.kind)
            self.push(stack.pop_all())
        self._state: Mapping[str, Any] = self.machine.state

    @property
    def compiler(self) -> str:
        """Kind and version, as they enter the keys."""
        return f"{self._compiler.kind} {self._compiler.version}"

    def compile(self, wanted: Sequence[Candidate], each: Callable[[], None] = lambda: None) -> list[Trial | Reply]:
        """What can run, in the order of the candidates, made on all cores; a Reply that says why where nothing can."""

        def one(candidate: Candidate) -> Trial | Reply:
            made: Trial | Reply = Reply("does_not_fit", candidate.refused)
            if candidate.program is not None:
                made = build(candidate.trial(), self.machine.kind)
            each()
            return made

        with ThreadPoolExecutor(cores_available()) as pool:  # an interrupt waits for the compilers that run alone
            return list(pool.map(one, wanted))

    def refresh(self) -> None:
        """Read the device's clocks and temperature, which the rounds from here on are recorded with."""
        self._state = self.session.state()

    def inputs(self, problem: Problem) -> dict[str, Any]:
        """What the session draws for a problem."""
        return {"problem": problem.to_dict(), "seed": self.settings.seed, "check": self.settings.check}

    def measurement(self, run: Run, key: str, candidate: Candidate, reply: Reply) -> Measurement:
        """The record of a candidate, which that key identifies, whose compilation or check ended so."""
        arch = self.machine.arch.name
        m = Measurement(
            run_id=run.run_id, candidate=key, outcome=reply.outcome, message=reply.message,
            operator=candidate.problem.operator, problem=candidate.problem.to_dict(), kernel=candidate.kernel,
            backend=candidate.backend, config=dict(candidate.config), arch=arch, device=self.machine.name,
            host=platform.node(), error=reply.data.get("error"), versions={**versions(), "compiler": self.compiler},
            device_info={**self.machine.state, "arch": arch, "resources": reply.data.get("resources", {})},
        )  # fmt: skip
        return _predicted(m, candidate.hint)

    def sampled(self, m: Measurement, reply: Reply) -> Measurement:
        """The record after one more round, or after the round that it failed in."""
        if reply.outcome == "ok":
            conditions = {**self._state, **reply.data.get("conditions", {})}
            after = m.with_round(reply.data["samples_ms"], conditions)
            return replace(after, message=reply.message or m.message) if after.ok else after
        return replace(m, outcome=reply.outcome, message=f"in round {len(m.rounds_ms) + 1}: {reply.message}")


def versions() -> dict[str, str]:
    """Of carver and what it measures with, where they are installed."""
    out = {"python": platform.python_version()}
    for name in ("gpu-carver", "numpy", "torch", "pycuda"):
        try:
            out[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return out


def done(m: Measurement) -> bool:
    """Whether more samples of it would tell nothing new."""
    percent = m.ci_percent
    return not m.ok or (len(m.samples_ms) >= LEAST_SAMPLES and percent is not None and percent < TARGET_CI_PERCENT)


def benchmark(
    hints: Sequence[Hint],
    device: str = "auto",
    *,
    budget_s: float = 60.0,
    rounds: int = 5,
    warm: bool = False,
    timeout_s: float = 30.0,
    library: bool = False,
    grid: Sequence[Hint] | None = None,
    grid_budget: int | None = None,
    check: bool = True,
    progress: bool = True,
    records: Records | None = None,
    fresh: bool = False,
    seed: int = 0,
    defines: Mapping[str, str] | None = None,
    reset_to_zero: Sequence[str] = (),
    restore_value: Sequence[str] = (),
    timer: str = "events",
) -> Report:
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
            warnings.warn(f"not kept: {cache_folder()} cannot be written, or its disk is full", stacklevel=2)
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
    identity = [_identity(bench.settings), sorted(keyed), machine.name, machine.state.get("driver"), versions()]
    run_key = digest(identity)
    waiting = f"waiting for {{}}, which measures on {machine.name}"
    with (
        progress_bars(progress) as shown,
        lease(machine.lease, shared=True, wait_s=float("inf"), waiting=lambda who: shown.say(waiting.format(who))),
    ):
        limits = {"budget_s": bench.settings.budget_s, "timeout_s": bench.settings.timeout_s}
        run = store.begin(run_key, machine.name, _identity(bench.settings) | limits, fresh=fresh)
        known = {m.candidate: m for m in store.find(run_id=run.run_id)}
        if grown := {name: limit for name, limit in limits.items() if limit > run.settings[name]}:
            run = store.extend(run, dict(run.settings) | grown)
            if "timeout_s" in grown:
                known = {key: m for key, m in known.items() if m.outcome != "timeout"}
        if known:
            shown.say(
                f"{len(known)} of {len(keyed)} measured since {run.started_at[:19]} UTC; fresh=True measures all again"
            )
        if run.finished_at is None and _rounds(bench, run, keyed, known, shown):
            store.finish(run)
    return [_predicted(known[key], c.hint) for key, c in keyed.items()]


def _identity(s: Settings) -> dict[str, Any]:
    """What makes a run another run; of `budget_s` and `timeout_s` one that is resumed may have had less."""
    return {
        "schema": _SCHEMA, "cold": not s.warm, "check": s.check, "seed": s.seed, "rounds": s.rounds,
        "reset_to_zero": list(s.reset_to_zero), "restore_value": list(s.restore_value),
        **({} if s.timer == "events" else {"timer": s.timer}),
    }  # fmt: skip


def _predicted(m: Measurement, hint: Hint | None) -> Measurement:
    """The record with what this hint says, which may have changed since it was measured."""
    return m if hint is None else replace(
        m, arch=hint.arch.name, rank=hint.rank, predicted_ms=hint.predicted_ms, bound=hint.bound,
        terms_ms=dict(hint.terms_ms), hint=hint.to_dict(),
    )  # fmt: skip


def _rounds(
    bench: Bench, run: Run, every: Mapping[str, Candidate], known: dict[str, Measurement], shown: Bars,
) -> bool:  # fmt: skip
    """Measure what is missing in `known`, commit each round of each candidate, and bring `known` up to date.

    Whether that is all: a candidate that no compiler could do is told, and left to another time.
    """
    settings, store = bench.settings, bench.records
    todo = [key for key in every if key not in known or not done(known[key])]
    built = dict(zip(todo, bench.compile([every[key] for key in todo], shown.bar("compile", len(todo))), strict=True))
    lost = {k: reply for k, reply in built.items() if isinstance(reply, Reply) and reply.transient}
    known |= {k: bench.measurement(run, k, every[k], reply) for k, reply in lost.items()}
    todo = [k for k in todo if k not in lost]
    spent = run.spent_s
    for place in range(settings.rounds):
        turn = [k for k in todo if len(known[k].rounds_ms) == place and not done(known[k])] if place else todo
        turn = [k for k in turn if place or k not in known]
        if place and (spent >= settings.budget_s or all(done(known[k]) for k in todo)):
            break
        if not turn:
            continue
        random.Random(f"{run.run_key} {place}").shuffle(turn)
        bench.refresh()
        share = (settings.budget_s - spent) / (len(turn) * (settings.rounds - place))
        seconds, advance = min(max(share, ROUND_S[0]), ROUND_S[1]), shown.bar(f"round {place + 1}", len(turn))
        for key in turn:
            if place and spent >= settings.budget_s:
                return not lost
            began = time.monotonic()
            known[key] = _one(bench, run, key, every[key], built[key], known.get(key), seconds)
            elapsed = time.monotonic() - began
            store.put(known[key], spent_s=elapsed)
            spent += elapsed
            advance()
    return not lost


def _one(
    bench: Bench, run: Run, key: str, candidate: Candidate, built: Trial | Reply, before: Measurement | None,
    seconds: float,
) -> Measurement:  # fmt: skip
    """One candidate through one round; through its check as well if it has not been measured before."""
    session, inputs = bench.session, bench.inputs(candidate.problem)
    if candidate.backend == LIBRARY:
        reply = session.library(inputs, seconds)
        named = replace(candidate, kernel=reply.data.get("name", candidate.kernel))
        m = before or bench.measurement(run, key, named, reply)
        return bench.sampled(m, reply) if m.ok else m
    if isinstance(built, Reply):
        return bench.measurement(run, key, candidate, built)
    if before is None:
        before = bench.measurement(run, key, candidate, session.check(built, inputs))
    return bench.sampled(before, session.sample(built, inputs, seconds)) if before.ok else before
