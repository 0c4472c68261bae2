"""Calibrate the device of this machine: microbenchmarks, a fit to carver's own kernels, a descriptor."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from math import inf, isfinite
from typing import Any, Literal

import numpy as np

from ..arch.descriptor import Arch
from ..base.child import Child
from ..base.errors import ConfigError, DeviceError, NoCandidates, RunError
from ..base.folders import cache_folder, lease, shipped
from ..base.given import as_json, number, typed
from ..base.types import Record
from ..cost.learn import fit, identified
from ..ops.operator import Template, operators
from ..problem.problem import Problem
from ..ranking.hint import Hint
from ..ranking.recommend import own_backend, recommend
from ..run.bench import Bench, candidates, measure, stratified
from ..run.device import CpuDevice, open_device
from ..run.records import Records, now
from ..run.worker import MOST_S, Settings
from . import fitting
from .fitting import LEAST_PROBLEMS, Fit, Group, Quality, band_of, fit_group, groups, predict_case, quality, samples
from .micro import NOTHING, Cpu, Gpu, Microbenchmarks, run_part
from .tables import Case

SECONDS = 170.0
"""For everything: the microbenchmarks, which take what they need, the kernels, and the fits after them."""
PART_TIMEOUT_S = 300.0
"""For one part of the microbenchmarks; the first compiles all of a GPU's."""
KERNELS_SHARE = 0.7
"""Of the seconds, for the kernels; compilers and fits take the rest."""

Kept = Literal["fit", "microbenchmarks", "shipped"]
Say = Callable[[str], None]


class Choice(Record):
    """Which constants one kernel gets, by the order in which they put problems that they were not fitted to."""

    group: Group
    kept: Kept
    shipped: Quality
    microbenchmarks: Quality
    fit: Fit
    table: Mapping[str, float]
    band: tuple[float, float]

    @property
    def verdict(self) -> str:
        after = self.fit.after
        if after is None or len(self.group.cases) < LEAST_PROBLEMS:
            return f"fewer than {LEAST_PROBLEMS} problems were measured: the constants as shipped stay"
        said = (
            f"held out, the first pick takes {after.slowdown[1]:.3f} of the best time with the better fit, "
            f"{self.microbenchmarks.slowdown[1]:.3f} with the microbenchmarks' constants and "
            f"{self.shipped.slowdown[1]:.3f} as shipped"
        )
        words = {
            "fit": "the fit is kept",
            "microbenchmarks": "the fit does not help, the microbenchmarks do no harm: theirs are kept",
            "shipped": "neither helps: this kernel is predicted as before",
        }
        return f"{said}: {words[self.kept]}"

    def to_dict(self) -> dict[str, Any]:
        after = self.fit.after
        return {
            "kernel": self.group.name, "kept": self.kept, "problems": len(self.group.cases),
            "candidates": self.group.candidates, "shipped": self.shipped.to_dict(),
            "microbenchmarks": self.microbenchmarks.to_dict(), "fit": after.to_dict() if after else None,
            "constants": dict(self.fit.constants), "table": dict(self.table), "band": list(self.band),
            "verdict": self.verdict,
        }  # fmt: skip


class Calibration(Record):
    """What was measured on a device, and the descriptor that came out of it."""

    before: Arch
    arch: Arch
    micro: Microbenchmarks
    derived: fitting.Derived
    cases: Sequence[Case]
    skipped: Sequence[str]
    """Problems that were not measured, and kernels that were not fitted."""
    choices: tuple[Choice, ...]
    state: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {
            "device": self.before.title, "arch": self.arch.name, "state": dict(self.state),
            **self.micro.to_dict(),
            "fields": {k: v for k, v in self.derived.fields.items() if k != "matrix"},
            "constants": dict(self.derived.constants), "refused": list(self.derived.refused),
            "kernels": [c.to_dict() for c in self.choices], "skipped": list(self.skipped),
            "cases": [
                {"problem": c.problem.to_dict(), "arch": c.arch.name, "backend": c.backend,
                 "configs": [dict(x) for x in c.configs],
                 "seconds": [float(t) if isfinite(t) else None for t in c.seconds]}
                for c in self.cases
            ],
        }  # fmt: skip


def calibrate(
    device: str = "auto", seconds: float = SECONDS, *, kernels: bool = True, command: str = "carver calibrate",
    say: Say = lambda text: None, **few: Any,
) -> Calibration:  # fmt: skip
    """Measure, fit and judge. Nothing is written; `few` goes to `measured`, for fewer problems than usual."""
    number("seconds", seconds, ConfigError, 1e-6, MOST_S)
    base, state, micro = _microbenchmarks(device, say)
    derived = fitting.derive(base, micro)
    cases, skipped = measured(device, base, KERNELS_SHARE * seconds, each=say, **few) if kernels else ([], [])
    fields, constants = derived.fields, derived.constants
    changed = fitting.with_fields(base, fields).replace(fitted=(("constants", tuple(constants.items())),))
    choices = []
    for group in groups(cases):
        try:
            choices.append(_choice(group, changed, derived))
        except ConfigError as none:  # too few of this kernel ran: the others are fitted all the same
            skipped.append(str(none))
        say(f"fit of {group.name}")
    arch = _descriptor(base, micro, derived, choices, state, command)
    return Calibration(base, arch, micro, derived, cases, skipped, tuple(choices), state)


class Probe:
    """The handler of the worker process that runs the microbenchmarks of a device, part by part."""

    def __init__(self, device: str) -> None:
        self.device = open_device(device)
        self.device.arch = fitting.uncalibrated(self.device.arch)
        self.bench = Cpu(self.device) if isinstance(self.device, CpuDevice) else Gpu(self.device)

    def __call__(self, job: Mapping[str, Any]) -> Mapping[str, Any]:
        d = self.device
        if job["do"] == "describe":
            return {"arch": as_json(d.arch), "parts": self.bench.parts, "lease": d.lease, "state": d.state()}
        self.bench.hz = job["hz"]
        return {"micro": as_json(run_part(self.bench, job["do"])), "hz": self.bench.hz, "state": d.state()}


def _microbenchmarks(device: str, say: Say) -> tuple[Arch, Mapping[str, Any], Microbenchmarks]:
    """What the device was taken for, its state after the last part that ran, and the readings. Each part is written to
    the log as soon as it is done; one that hangs or crashes is left out."""
    log = cache_folder() / "calibrate.jsonl"
    with Child("carver.calibrate.device:Probe", {"device": device}) as worker:
        said = worker.call({"do": "describe"}, PART_TIMEOUT_S)
        if said.outcome != "ok":
            raise DeviceError(f"the device does not answer: {said.message}")
        arch, state = typed(Arch, said.data["arch"]), said.data["state"]
        hz, micro = arch.clock_hz, NOTHING
        with lease(said.data["lease"], shared=True, wait_s=inf, waiting=lambda who: say(f"waiting for {who}")):
            for name in said.data["parts"]:
                reply = worker.call({"do": name, "hz": hz}, PART_TIMEOUT_S)
                if reply.outcome == "ok":
                    part, hz, state = typed(Microbenchmarks, reply.data["micro"]), reply.data["hz"], reply.data["state"]
                else:
                    part = Microbenchmarks({}, (f"{name}: {reply.outcome}: {reply.message}",))
                micro += part
                try:
                    log.parent.mkdir(parents=True, exist_ok=True)
                    line = {"at": now(), "device": arch.title, "part": name, **part.to_dict()}
                    with log.open("a") as file:
                        file.write(json.dumps(line) + "\n")
                except OSError as e:  # the readings go on to the descriptor all the same
                    micro += Microbenchmarks({}, (f"the log of {name}, {log}: {e.strerror}",))
                say(f"microbenchmarks: {name}")
    return arch, state, micro


def _choice(group: Group, changed: Arch, derived: fitting.Derived) -> Choice:
    """The better of two fits, from the microbenchmarks' and from the shipped constants; neither where it does harm."""
    cases, kernel, base = group.cases, group.kernel, group.arch
    moved = Group(kernel, changed, tuple(replace(case, arch=changed) for case in cases))
    predicted = {"shipped": [predict_case(c, {}) for c in cases],
                 "microbenchmarks": [predict_case(c, {}) for c in moved.cases]}  # fmt: skip
    shipped, plain = (quality(cases, predicted[name]) for name in ("shipped", "microbenchmarks"))
    fits = [fit_group(g, before=shipped) for g in (moved, group)]
    fit = min(fits, key=lambda f: (not f.helps, f.after.loss if f.after else 0.0))
    as_before = partial(fitting.unmoved, kernel, base, derived.fields, derived.constants)
    if fit.helps:
        table = fit.constants if fit is fits[0] else as_before(fit.constants)
        return Choice(group, "fit", shipped, plain, fit, table, fit.band)
    harmless = len(cases) >= LEAST_PROBLEMS and not plain.worse_than(shipped)
    kept: Kept = "microbenchmarks" if harmless else "shipped"
    table = {} if harmless else as_before()
    return Choice(group, kept, shipped, plain, fit, table, band_of(cases, predicted[kept]))


def _descriptor(
    base: Arch, micro: Microbenchmarks, derived: fitting.Derived, choices: list[Choice], state: Mapping[str, Any],
    command: str,
) -> Arch:  # fmt: skip
    fields, constants = derived.fields, derived.constants
    of_state = ("driver", "cuda", "compiler", "system", "sm_clock_hz", "memory_clock_hz", "governor", "power_w")
    said = fitting.about(base, command) | {key: str(state[key]) for key in of_state if key in state}
    tables: dict[str, Any] = {
        "constants": constants,
        "datasheet": fitting.datasheet(base, fields),
        "measured": {r.name: float(f"{r.value:.5g}") for r in micro.readings.values()},
        "interval": {r.name: float(f"{r.error:.2g}") for r in micro.readings.values()},
        **fitting.fitted_elsewhere(base, fields, constants),
        **{c.group.name: c.table for c in choices},
        "error_low": {c.group.name: float(f"{c.band[0]:.4g}") for c in choices},
        "error_high": {c.group.name: float(f"{c.band[1]:.4g}") for c in choices},
        "slowdown_held_out": {c.group.name: round(c.fit.after.slowdown[1], 4) for c in choices if c.fit.after},
        "slowdown_before": {c.group.name: round(c.shipped.slowdown[1], 4) for c in choices if c.fit.after},
    }
    return fitting.with_fields(base, fields).replace(fitted=fitting.fitted_pairs(said, tables))


COUNTS = (5, 28, 4)
"""Candidates of each problem: its first hints, others spread over predicted time and tile, then hints of the fit."""
EVERYTHING = 10**6


def measured(
    device: str, arch: Arch, seconds: float, problems: Mapping[str, Sequence[Template]] | None = None,
    counts: tuple[int, int, int] = COUNTS, each: Callable[[str], None] = lambda text: None,
    records: Records | None = None,
) -> tuple[list[Case], list[str]]:  # fmt: skip
    """Cases of carver's own kernels, and the problems that time did not allow or that failed.

    Measure until the time is up, first every problem's hints and a sample, then the hints of a first fit.

    The second round is where a fit shows what it got wrong: it measures what the fitted model likes best and nobody has
    tried. Operators take turns, so that less time means fewer problems of each.
    """
    began = time.monotonic()
    top, spread, again = counts
    if problems is None:
        said = shipped("calibrate/problems")[arch.kind]
        problems = {name: [operators()[name].template(**each) for each in rows] for name, rows in said.items()}
    todo = [template for turn in zip_longest(*problems.values()) for template in turn if template is not None]
    settings = Settings(rounds=3, budget_s=max(0.5, 0.4 * seconds / len(todo)), timeout_s=20.0)
    cases: dict[Problem, Case] = {}
    skipped: list[str] = []
    with Bench(device, records, settings) as bench:
        for template in todo:
            if time.monotonic() - began > 0.75 * seconds:
                skipped.append(f"{template.problem}: no time left")
                continue
            try:
                hints = list(recommend(template.problem, arch, EVERYTHING, own_backend(arch)))
                case = _case(bench, arch, template.problem, [*hints[:top], *stratified(hints[top:] or hints, spread)])
            except (NoCandidates, RunError) as none:  # the next problem may well work
                skipped.append(str(none))
                continue
            if np.isfinite(case.seconds).sum() > 1:
                cases[template.problem] = case
            each(str(template.problem))
        for group in groups(cases.values()):
            data = samples(group.cases)
            constants = fit(data, identified(data), max_evaluations=20)
            for case in group.cases:
                if time.monotonic() - began > seconds:
                    break
                try:
                    more = _second(bench, arch, group, case, constants, again)
                except RunError as none:
                    skipped.append(str(none))
                    continue
                if more is not None:
                    was = cases[case.problem]
                    times = np.concatenate([was.seconds, more.seconds])
                    cases[case.problem] = replace(was, configs=[*was.configs, *more.configs], seconds=times)
            each(group.name)
    return list(cases.values()), skipped


def _case(bench: Bench, arch: Arch, problem: Problem, hints: Sequence[Hint]) -> Case:
    found = measure(bench, candidates(hints, bench.machine.arch), fresh=True)
    return Case.of("calibrate", problem, arch, own_backend(arch), found)


def _second(
    bench: Bench, arch: Arch, group: Group, case: Case, constants: Mapping[str, float], again: int
) -> Case | None:
    """What the fitted model would choose now, of what has not been measured."""
    there = arch.replace(fitted=tuple((dict(arch.fitted) | {group.name: tuple(constants.items())}).items()))
    known = {tuple(sorted(config.items())) for config in case.configs}
    fresh = [
        hint for hint in recommend(case.problem, there, 4 * again, own_backend(arch))
        if hint.kernel == group.kernel.name
        and tuple(sorted({"kernel": hint.kernel, **hint.config}.items())) not in known
    ]  # fmt: skip
    return _case(bench, arch, case.problem, fresh[:again]) if fresh else None
