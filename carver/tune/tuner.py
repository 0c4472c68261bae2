"""The tuner: from a function and candidates to the fastest correct one."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from ..base.errors import CarverError, CompileError, ConfigError, KernelError, NoCandidates, RunError, StoreError, warn
from ..base.folders import cache_folder, existing, lease
from ..base.given import takes, whole
from ..base.table import progress_bars, words
from ..ops.operator import Template
from ..ranking.ranking import TIED, Ranking, size
from ..ranking.surrogate import with_profile
from ..run.bench import Runner, versions
from ..run.built import JIT
from ..run.check import OperatorReference, guarded
from ..run.device import lease_name
from ..run.records import Measurement, Records, RecordsError, now, tied, undecided
from ..run.session import BUSY, Trial, digest
from ..run.spec import HintKernel
from . import cache
from .cache import AutotuneResult, RunLog, outcomes
from .candidates import BudgetSpent, Choices, Entry, frozen, once, strategy
from .plan import Plan, Tuning, make_plan
from .sessions import Sessions

OWN = "user"
"""The backend of measurements of users' kernels in the records."""


class AutoTuner:
    """Tune a function over candidates. Every setter returns the tuner.

        tuner = AutoTuner.from_kernel(kernel=matmul, configs=[...]).set_profile_args(ref_prog=...)
        result = tuner.run(warmup=25, rep=100)
    """

    def __init__(self, fn: JIT | Callable[..., Any], configs: Any, template: Template | None = None) -> None:
        inner = getattr(fn, "jit", fn)  # of what is decorated already
        self.jit = inner if isinstance(inner, JIT) else JIT(fn)
        self.configs, self.template = once(configs), template
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._profile: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<tuner of {self.jit!r}>"

    @classmethod
    def from_kernel(
        cls, kernel: JIT | Callable[..., Any], configs: Any, args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None, template: Template | None = None,
    ) -> AutoTuner:  # fmt: skip
        """A tuner of a function, decorated or not. `args` are those of its arguments that are not tuned.

        `template` ranks configs that are plain dicts with carver's own keys; they are then tried in that order.
        """
        tuner = cls(kernel, configs, template)
        return tuner.set_kernel_args(*args, **(kwargs or {}))

    @classmethod
    def from_template(cls, template: Template, topk: int = 10, backend: str | None = None) -> AutoTuner:
        """A tuner of carver's own kernels for an operator, checked against its reference in float64."""

        def own(hint: Any) -> HintKernel:
            return HintKernel(hint)

        own.__name__ = own.__qualname__ = template.problem.operator
        target = "auto" if template.arch is None else "cpu" if template.arch.kind == "cpu" else "cuda"
        tuner = cls(JIT(own, target=target), lambda: template.recommend_hints(topk, backend or template.own_backend))
        return tuner.set_profile_args(ref_prog=OperatorReference(template.problem))

    def set_kernel_args(self, *args: Any, **kwargs: Any) -> AutoTuner:
        """The arguments of the function that are not tuned."""
        self._args, self._kwargs = args, kwargs
        return self

    def set_compile_args(self, out_idx: Sequence[int] | int | None = None, target: str | None = None) -> AutoTuner:
        """Set which arrays are outputs, and the device. Compiler flags and macros belong to the kernel."""
        out = self.jit.out_idx if out_idx is None else out_idx
        self.jit = JIT(self.jit.fn, out, target or self.jit.target, self.jit.params)
        return self

    def set_profile_args(self, **settings: Any) -> AutoTuner:
        """Set how candidates are run and checked: any field of `Tuning`; times in seconds, warmup and rep in runs."""
        Tuning.of({**self._profile, **settings})
        self._profile |= settings
        return self

    def run(
        self, warmup: int | None = None, rep: int | None = None, timeout: float | None = None, *,
        devices: Sequence[str] | None = None, executor: Executor | None = None, parallel: int | None = None,
        fresh: bool = False, progress: bool = False, **settings: Any,
    ) -> AutotuneResult:  # fmt: skip
        """Tune, or return what was tuned before. `settings` are those of `set_profile_args`, for this run only.

        `devices` are several devices of one machine ("cuda:0", "cuda:1"), with one process each. `executor` is any
        `concurrent.futures.Executor`; its workers then measure, `parallel` at a time. `fresh` tunes again. `progress`
        shows a bar on standard error.
        """
        named = {"warmup": warmup, "rep": rep, "timeout": timeout}
        chosen = {**self._profile, **settings, **{k: v for k, v in named.items() if v is not None}}
        return self.tune(self.plan(Tuning.of(chosen)), devices, executor, parallel, fresh, progress)

    def plan(self, settings: Tuning | None = None) -> Plan:
        """Expand and check the candidates, the inputs and the key, by default as `run` would. Runs no code of a
        candidate."""
        settings = settings or Tuning(**self._profile)
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            raise RunError(
                f"{self.jit.name} is not tuned for these arguments in this process, and a CUDA graph is being "
                "captured, in which nothing can be tuned or loaded: call it once before the capture"
            )
        return make_plan(self.jit, self.configs, self._args, self._kwargs, settings, self.template)

    @takes(ConfigError)
    def tune(
        self, plan: Plan, devices: Sequence[str] | None = None, executor: Executor | None = None,
        parallel: int | None = None, fresh: bool = False, progress: bool = False,
    ) -> AutotuneResult:  # fmt: skip
        """Carry out a plan: take the result from the cache, or measure what the records do not have."""
        if parallel is not None:
            whole("parallel", parallel, ConfigError, 1)
        if other := [each for each in devices or () if each.partition(":")[0] != plan.kind]:
            raise ConfigError(f"{plan.name} is tuned on {plan.device}; {other[0]!r} is a device of another kind")
        on_disk, mode = plan.kept and not cache.disk_off(), cache.mode()
        if mode == "off":
            return self.choose(plan, "CARVER_TUNING=off")
        if on_disk and not fresh and (found := self._cached(plan)) is not None:
            return found
        if mode == "cached":
            return self.choose(plan, "CARVER_TUNING=cached", from_cache=not cache.disk_off())
        with ExitStack() as stack:
            records = stack.enter_context(Records())
            stack.enter_context(lease(f"tune {plan.key}", wait_s=float("inf")))
            if on_disk and not fresh and (found := self._cached(plan)) is not None:
                return found  # another process tuned it while we waited
            reuse, generation = plan.kept and not fresh and not cache.all_off(), cache.generation(plan.key)
            how = asdict(plan.settings.settings())
            run = records.begin(plan.key + generation, plan.arch.title, how, fresh=not reuse)
            log = stack.enter_context(RunLog(run.run_id))
            names = list(devices or (plan.device,))
            if executor is None:
                for name in sorted({lease_name(each) for each in names}):  # in one order: else two may wait for ever
                    stack.enter_context(lease(name, shared=True, wait_s=float("inf")))
            pool = stack.enter_context(Sessions(plan, names, executor, parallel))
            bars = stack.enter_context(progress_bars(progress, transient=True))
            step = bars.bar(plan.name, len(plan.entries))
            attempt = _Attempt(plan, records, run.run_id, pool, log, reuse, generation, step)
            result = attempt.search()
            if lost := len(attempt.runner.lost):
                return _noted(result, f"not kept: of {lost} candidates the compiler could do nothing this time")
            if busy := len(attempt.runner.busy):
                return _noted(result, f"not kept: {busy} of {result.trials} candidates were timed while "
                                      "others had the device, however often; tune again when it is quiet")  # fmt: skip
            try:
                records.finish(run)
                if on_disk and not cache.save(plan.key, *result._files(plan.parts)):
                    why = "is full" if os.access(existing(cache_folder()), os.W_OK) else "cannot be written"
                    return _noted(result, f"not kept beyond this process: {cache_folder()} {why}")
            except (OSError, StoreError) as e:
                return _noted(result, f"not kept: {e}")
        return result

    def choose(self, plan: Plan, why: str, from_cache: bool = False, pinned: bool = False) -> AutotuneResult:
        """Choose a candidate without measuring: by a tuning at the nearest size, else the first of the ranking."""
        for place, reason, expected_ms in _pinned(plan) if pinned else _choices(plan, from_cache):
            if not isinstance(plan.trial(place), Trial):
                continue
            note = f"not measured ({why}): {reason}"
            env = {"device": plan.arch.title, "versions": versions(), "created_at": now()}
            found = AutotuneResult(
                plan.name, plan.entries[place].recorded, None, (), env, note, 0, 0.0, plan.key,
                expected_ms, notes=(*plan.notes, note),
            )  # fmt: skip
            found = _finished(found, plan, place)
            with contextlib.suppress(CompileError, KernelError, RunError):
                if found.built is not None:
                    found.built.compile()
                return found
        raise RunError(f"no configuration of {plan.name} fits {plan.arch.title}, or compiles for it")

    def _cached(self, plan: Plan) -> AutotuneResult | None:
        try:
            if (saved := cache.load(plan.key)) is None:
                return None
            found = AutotuneResult.of(saved, plan.device, trust=True)
        except CarverError as e:
            warn(f"cache entry {plan.key[:12]} is made anew: {e}")
            return None
        return _finished(found, plan)


FINALISTS, FINAL_ROUNDS = 3, 3
"""Candidates that noise may have put in another order, and the most further rounds among them."""


class _Attempt:
    """The search of one run: what is known, what is measured, when to stop."""

    def __init__(
        self, plan: Plan, records: Records, run_id: str, pool: Sessions, log: RunLog, reuse: bool, generation: str,
        step: Callable[[], None],
    ) -> None:  # fmt: skip
        self.plan, self.run_id, self.pool, self.log, self.step = plan, run_id, pool, log, step
        self.reuse, self.generation = reuse, generation
        self.runner = Runner(records, pool.width)
        self.tried: dict[int, Measurement] = {}
        self.began = time.monotonic()
        self.versions = versions()
        self._trial = functools.cache(plan.trial)  # made when a candidate's turn comes: of many few are tried
        self.reference_ms: float | None = None
        self.order: Sequence[int] = ()

    def search(self) -> AutotuneResult:
        plan, s = self.plan, self.plan.settings
        count = len(plan.entries) - (1 if s.baseline else 0)
        predicted = np.array([(e.predicted_ms or np.nan) * 1e-3 for e in plan.entries[:count]])
        ranking = self._ranking()
        choices = Choices([e.recorded for e in plan.entries[:count]], predicted, self.pool.width, ranking)
        self.order = choices.order
        where = f"{plan.device} ({plan.arch.title})"
        for note in (f"{plan.name}: {count} candidates on {where}, inputs: {plan.inputs.origin}", *plan.notes):
            self.log.say(note)
        try:
            stopped = strategy(s.search)(choices, self.measure, s.seed)
        except BudgetSpent as e:
            stopped = str(e)
        self._final_rounds()
        if ranking is not None:
            self._keep_learnt(ranking)
        if s.baseline and count not in self.tried:
            known = self._recorded(count)
            self._keep(count, known, recorded=True) if known else self._run([count])
        return self._result(stopped, self.tried[count] if s.baseline else None)

    def _ranking(self) -> Ranking | None:
        """What a search learns with, after what earlier tunings of this kernel taught."""
        plan = self.plan
        if plan.settings.search != "learn" or plan.ranking is None or plan.settings.objective != "time":
            return None
        reuse = self.reuse and plan.kept and not cache.disk_off()
        profile = cache.load_profile(plan.learnt_as, plan.ranking) if reuse else None
        try:
            return with_profile(plan.ranking, profile)
        except NoCandidates:  # all of them failed before, as on a machine that lacked something
            return plan.ranking

    def _keep_learnt(self, ranking: Ranking) -> None:
        priced = set(ranking.indices)
        quiet = {i: m for i, m in self.tried.items() if i in priced and not self._is_busy(i)}
        times = {i: m.median_ms if m.ok else None for i, m in quiet.items()}
        if not any(times.values()) or not self.plan.kept or cache.disk_off():
            return
        with contextlib.suppress(OSError, CarverError):  # nothing measured is lost, the records have it
            cache.save_profile(self.plan.learnt_as, ranking.learn(times))

    def measure(self, batch: Sequence[int]) -> list[float]:
        """Times of these candidates [s], from the records where they have them; infinite where one failed."""
        s = self.plan.settings
        wanted = [i for i in batch if i not in self.tried]
        if wanted and s.trials is not None and len(self.tried) + len(wanted) > s.trials:
            wanted = wanted[: max(s.trials - len(self.tried), 0)]
        step = self.pool.width if s.seconds is not None else max(len(wanted), 1)
        for start in range(0, len(wanted), step):
            if self.tried and s.seconds is not None and time.monotonic() - self.began > s.seconds:
                raise BudgetSpent(f"the budget of {s.seconds:g} s is spent")
            fresh = []
            for i in wanted[start : start + step]:
                if (known := self._recorded(i)) is not None:
                    self._keep(i, known, recorded=True)
                else:
                    fresh.append(i)
            self._run(fresh)
        if any(i not in self.tried for i in batch):
            raise BudgetSpent(f"the budget of {s.trials} trials is spent")
        return [float("inf") if self._is_busy(i) else self._cost(i) for i in batch]

    def _is_busy(self, index: int) -> bool:
        """Whether it was timed on a disturbed device only: it is not kept, nor chosen where there are others."""
        return self.tried[index].candidate in self.runner.busy

    def _cost(self, index: int) -> float:
        """What is to be least: the time [s], or the objective that was asked for; infinite for what does not work."""
        m, objective = self.tried[index], self.plan.settings.objective
        if not m.ok or not m.median_ms or objective == "time":
            return _seconds(m)
        if objective == "energy":
            return min((float(c["energy_j"]) for c in m.conditions if "energy_j" in c), default=math.inf)
        if objective == "smem":
            return float(m.device_info.get("smem_bytes", math.inf))
        assert callable(objective)
        with guarded("objective"):
            cost = float(objective(m))
        if math.isnan(cost):
            raise RunError(f"objective gives NaN for {words(m.config)}, which is neither more nor less than another")
        return cost

    def _key(self, index: int) -> str:
        trial = self._trial(index)
        key = trial.key if isinstance(trial, Trial) else digest([self.plan.key, index])
        return digest([self.generation, key]) if self.generation else key

    def _run(self, indices: Sequence[int]) -> None:
        ready: dict[int, Trial] = {}
        same: dict[str, int] = {}
        for i in indices:
            trial = self._trial(i)
            if isinstance(trial, RunError):
                self._store(i, {"outcome": "does_not_fit", "message": str(trial)})
            elif same.setdefault(trial.key, i) == i:
                ready[i] = trial
        quiet = (m for i, m in self.tried.items() if not self._is_busy(i))
        best = min((m.median_ms for m in quiet if m.ok and m.median_ms), default=None)
        for i, found in self.pool.measure(ready, self._ahead(indices), best):
            self._store(i, found)
        for i in indices:
            if i not in self.tried and (twin := self._recorded(i)) is not None:
                self._keep(i, twin, recorded=True)

    def _right(self) -> list[int]:
        """Those that ran and were right, on a quiet device where there are such."""
        right = [i for i in sorted(self.tried) if self.tried[i].ok and self.tried[i].median_ms]
        return [i for i in right if not self._is_busy(i)] or right

    def _final_rounds(self) -> None:
        """Further rounds of the fastest few, in turn, until their order is sure or a tie; no longer than all took."""
        s = self.plan.settings
        if s.objective != "time" or self.plan.code.bench is not None or not self.pool.alone:
            return
        ends = time.monotonic() + self.runner.spent_s["check"] + self.runner.spent_s["measure"]
        if s.seconds is not None:
            ends = min(ends, self.began + s.seconds)
        for _ in range(FINAL_ROUNDS):
            places = {self.tried[i].candidate: i for i in self._right() if not self._is_busy(i)}
            left = undecided([self.tried[i] for i in places.values()])[:FINALISTS]
            ready = {places[m.candidate]: self._trial(places[m.candidate]) for m in left}
            if len(left) < 2 or max(len(m.rounds_ms) for m in left) > FINAL_ROUNDS or time.monotonic() > ends:
                return
            for i, found in self.pool.measure({i: t for i, t in ready.items() if isinstance(t, Trial)}, (), None):
                if found["outcome"] != "ok" or found.get("busy", 0.0) > BUSY:
                    return  # what was right and quiet before still counts
                self._keep(i, self.runner.take(self.tried[i], found), recorded=False)

    def _ahead(self, indices: Sequence[int]) -> Iterator[tuple[int, Trial]]:
        """What is measured next where that is known: in rank order, as far as the budget of trials goes."""
        s = self.plan.settings
        if s.search not in ("rank", "exhaustive") and (s.search != "learn" or self.plan.ranking is not None):
            return
        rest = [i for i in self.order if i not in self.tried and i not in indices]
        for i in rest if s.trials is None else rest[: max(s.trials - len(self.tried) - len(indices), 0)]:
            if isinstance(trial := self._trial(i), Trial):
                yield i, trial

    def _recorded(self, index: int) -> Measurement | None:
        """An earlier measurement of the candidate under the same conditions; of other runs, only what is certain."""
        key = self._key(index)
        if key in self.runner.known or not self.reuse:
            return self.runner.known.get(key)
        found = self.runner.records.find(candidate=key)
        own = [m for m in found if m.run_id == self.run_id]
        sure = [m for m in found if m.outcome in ("ok", "wrong_result", "compile_error")]
        return (own or sure)[-1] if own or sure else None

    def _store(self, index: int, found: Mapping[str, Any]) -> None:
        plan, entry = self.plan, self.plan.entries[index]
        hint, own = entry.hint, isinstance(entry.made, HintKernel)
        sizes = {name: n for name, n in plan.bound.items() if isinstance(n, int) and not isinstance(n, bool)}
        m = Measurement(
            run_id=self.run_id, candidate=self._key(index), outcome="ok", config=entry.recorded, arch=plan.arch.name,
            device=plan.arch.title, host=platform.node(), predicted_ms=entry.predicted_ms, versions=self.versions,
            operator=hint.problem.operator if hint else plan.name,
            problem=hint.problem.to_dict() if hint else {"operator": plan.name, "sizes": sizes},
            kernel=hint.kernel if hint and own else plan.name, backend=hint.backend if hint and own else OWN,
            rank=hint.rank if hint else None, bound=hint.bound if hint else "",
            terms_ms=dict(hint.terms_ms) if hint else {}, hint=hint.to_dict() if hint and own else None,
        )  # fmt: skip
        self._keep(index, self.runner.take(m, found), recorded=False)

    def _keep(self, index: int, m: Measurement, *, recorded: bool) -> None:
        if index not in self.tried:
            self.step()
        self.tried[index] = self.runner.known[m.candidate] = m
        self.reference_ms = self.reference_ms or m.device_info.get("reference_ms")
        self.log.candidate(len(self.tried), len(self.plan.entries), m, recorded)

    def _result(self, stopped: str, baseline: Measurement | None) -> AutotuneResult:
        plan = self.plan
        table = tuple({m.uuid: m for _, m in sorted(self.tried.items())}.values())
        right = self._right()
        if not right:
            first = next((f"{words(m.config)}: {m.message.strip()}" for m in table if m.message), "")
            raise RunError(
                f"no configuration of {plan.name} works on {plan.arch.title}: {outcomes(table)}; the first, {first}\n"
                f"{plan.taken}log: {self.log.path}"
            )
        best = min(right, key=lambda i: (self._cost(i), _seconds(self.tried[i]), words(self.tried[i].config)))
        if plan.settings.objective == "time" and (alike := tied([self.tried[i] for i in right])):
            best = next(i for i in right if self.tried[i] is alike[0])
        m = self.tried[best]
        baseline_ms = baseline.median_ms if baseline is not None and baseline.ok else None
        assert m.median_ms is not None
        seconds, runner = time.monotonic() - self.began, self.runner
        spent_s = {"setup": max(seconds - sum(runner.spent_s.values()), 0.0), **runner.spent_s}
        env = {
            "device": m.device, "host": m.host, "device_info": dict(m.device_info), "versions": self.versions,
            "inputs": plan.inputs.origin, "inputs_sha256": plan.inputs.checksum, "created_at": now(),
            "run_id": self.run_id, "log": str(self.log.path), "checked": bool(m.device_info.get("checked")),
            "spent_s": spent_s,
        }  # fmt: skip
        if (objective := plan.settings.objective) != "time":
            env["objective"] = {"name": str(getattr(objective, "__name__", objective)), "value": self._cost(best)}
        notes = plan.notes
        if plan.settings.objective != "time" and plan.settings.search == "learn":
            notes += ("tried in the order of predicted times, with nothing learnt: the model knows no other objective",)
        if runner.unrecorded:
            notes += (f"measurements were not recorded: {runner.unrecorded}",)
        if runner.retaken:
            slower = "every run of a candidate lost a core"
            if math.isfinite(runner.worst):
                slower = f"the baseline kernel took up to {runner.worst:.3g} x its time"
            notes += (f"{runner.retaken} timings were taken again, as others had the device: {slower}",)
        found = AutotuneResult(
            plan.name, plan.entries[best].recorded, m.median_ms, table, env, stopped, len(table),
            seconds, plan.key, m.predicted_ms, self.reference_ms, baseline_ms, notes,
        )  # fmt: skip
        spent = ", ".join(f"{name} {s:.3g} s" for name, s in spent_s.items())
        self.log.say(f"{found.summary()}; {seconds:.3g} s: {spent}")
        return _finished(found, plan, best)


def _noted(result: AutotuneResult, note: str) -> AutotuneResult:
    warn(f"{result.name}: {note}")
    return replace(result, notes=(*result.notes, note))


def _finished(found: AutotuneResult, plan: Plan, best: int | None = None) -> AutotuneResult:
    """The result with its kernel, built from the plan where it was not saved with it."""
    same = (i for i, e in enumerate(plan.entries) if e.recorded == dict(found.config))
    if best is None and (best := next(same, None)) is None:
        return found
    entry = plan.entries[best]
    built = found.built if found.built is not None or plan.python else plan.build(entry)
    return replace(found, built=built, make=lambda: plan.kernel(entry, built))


def _seconds(m: Measurement) -> float:
    return m.median_ms * 1e-3 if m.ok and m.median_ms else float("inf")


# without measuring

_ALIKE = ("schema", "function", "outputs", "device")
"""Parts of a key that a tuning at another size has to share."""
_SIZES = ("arguments", "arrays")
"""Parts that may differ, in their numbers alone."""


Choice = tuple[int, str, float | None]
"""The place of a candidate, why it was taken, and the time that is expected of it. [ms]"""


def _choices(plan: Plan, from_cache: bool) -> Iterator[Choice]:
    """Candidates, best first: the same in every process with the same cache."""
    if from_cache:
        yield from _nearest(plan)
    first = "the first of the ranking" if any(e.predicted_ms for e in plan.entries) else "the first candidate"

    def order(candidate: tuple[int, Entry]) -> tuple[float, int, str]:
        e = candidate[1]
        if not e.predicted_ms:
            return math.inf, 0, ""
        return e.predicted_ms, (e.hint.rank if e.hint else None) or 0, frozen(e.recorded)

    for place, e in sorted(enumerate(plan.entries), key=order):
        yield place, first, e.predicted_ms


def _pinned(plan: Plan) -> Iterator[Choice]:
    """Candidates by prediction alone, ties resolved by the stated order (`ranking.choose`): the same in every process,
    whatever its cache and the order of the list. Raises ConfigError where nothing is predicted."""
    left = [(place, e) for place, e in enumerate(plan.entries) if e.predicted_ms]
    if not left:
        raise ConfigError(
            f"{plan.name}: pinned=True takes the predicted fastest, and nothing predicts these configurations: give "
            "hints, or a template="
        )

    def least(candidate: tuple[int, Entry]) -> tuple[Any, ...]:
        launch = candidate[1].hint.launch if candidate[1].hint else None
        used = (launch.registers, launch.smem_bytes) if launch else (0, 0)
        return *used, size(candidate[1].recorded)

    while left:
        best = min(e.predicted_ms or math.inf for _, e in left)
        alike = [each for each in left if (each[1].predicted_ms or math.inf) <= best * (1 + TIED)]
        taken = min(alike, key=least)
        left.remove(taken)
        several = f"the smallest of {len(alike)} within {TIED:.0%} of the fastest"
        why = several if alike[1:] else "the predicted fastest"
        yield taken[0], why, taken[1].predicted_ms


def _nearest(plan: Plan) -> list[Choice]:
    """From the tuning of the same function here whose sizes are nearest: its times, scaled by what the model says."""
    found, own = [], json.loads(json.dumps(plan.parts, default=str))  # as it is on disk
    for entry in cache.entries() if plan.kept else ():
        with contextlib.suppress(KeyError, TypeError):  # damaged, or of another version
            parts = entry.found["parts"]
            far = sum(_distance(parts[name], own[name]) for name in _SIZES)
            if far < math.inf and all(parts[name] == own[name] for name in _ALIKE):
                found.append((far, entry.key, entry.found))
    for _, _, near in sorted(found, key=lambda each: each[:2]):
        with contextlib.suppress(RecordsError):  # the next nearest may do
            return _scaled(plan, [Measurement.from_dict(m) for m in near["table"]], near)
    return []


def _scaled(plan: Plan, table: list[Measurement], entry: Mapping[str, Any]) -> list[Choice]:
    measured = {frozen(m.config): m for m in table if m.ok and m.median_ms}
    best, key = frozen(entry["config"]), str(entry["key"])[:12]
    chosen: list[tuple[float, str, Choice]] = []
    for place, e in enumerate(plan.entries):
        said = frozen(e.recorded)
        if (m := measured.get(said)) is None or m.median_ms is None:
            continue
        if e.predicted_ms and m.predicted_ms:
            ms = m.median_ms * e.predicted_ms / m.predicted_ms
            why = f"the nearest tuned size, {key}, its times scaled by the model"
            chosen.append((ms, said, (place, why, ms)))
        elif said == best:
            chosen.append((0.0, said, (place, f"the best of the nearest tuned size, {key}", None)))
    return [choice for *_, choice in sorted(chosen, key=lambda each: each[:2])]


def _distance(a: Any, b: Any) -> float:
    """How far sizes are from each other: the sum of |ln(a / b)| over numbers; infinite where anything else differs."""
    if a == b:
        return 0.0
    if all(isinstance(x, int | float) and not isinstance(x, bool) and x > 0 for x in (a, b)):
        return abs(math.log(a / b))
    if isinstance(a, Mapping) and isinstance(b, Mapping) and a.keys() == b.keys():
        return sum(_distance(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return sum(_distance(x, y) for x, y in zip(a, b, strict=True))
    return math.inf
