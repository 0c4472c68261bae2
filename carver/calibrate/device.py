"""Calibrate the device of this machine: microbenchmarks, a fit to carver's own kernels, a descriptor."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isfinite
from typing import Any, Literal

from ..arch.descriptor import Arch
from ..base.child import Child
from ..base.errors import ConfigError, DeviceError
from ..base.folders import cache_folder, lease
from ..base.given import as_json, number, typed
from ..evaluate.tables import Case
from ..run.cpu import CpuDevice
from ..run.device import open_device
from ..run.records import now
from ..run.session import MOST_S
from . import cpu, cuda, keep
from .fitting import LEAST_PROBLEMS, Fit, Group, Quality, band_of, fit_group, groups, predict_case, quality
from .kernels import measured
from .micro import NOTHING, Microbenchmarks, run_part

SECONDS = 170.0
"""For everything: the microbenchmarks, which take what they need, the kernels, and the fits after them."""
PART_TIMEOUT_S = 300.0
"""For one part of the microbenchmarks; the first compiles all of a GPU's."""
KERNELS_SHARE = 0.7
"""Of the seconds, for the kernels; compilers and fits take the rest."""

Kept = Literal["fit", "microbenchmarks", "shipped"]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Choice:
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
        said = f"held out, the first pick takes {after.slowdown[1]:.3f} of the best time with the better fit, "
        said += f"{self.microbenchmarks.slowdown[1]:.3f} with the microbenchmarks' constants and "
        said += f"{self.shipped.slowdown[1]:.3f} as shipped"
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


@dataclass(frozen=True)
class Calibration:
    """What was measured on a device, and the descriptor that came out of it."""

    before: Arch
    arch: Arch
    micro: Microbenchmarks
    derived: keep.Derived
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
    device: str = "auto",
    seconds: float = SECONDS,
    *,
    kernels: bool = True,
    command: str = "carver calibrate",
    say: Say = lambda text: None,
    **few: Any,
) -> Calibration:
    """Measure, fit and judge. Nothing is written; `few` goes to `kernels.measured`, for fewer problems than usual."""
    number("seconds", seconds, ConfigError, 1e-6, MOST_S)
    base, state, micro = _microbenchmarks(device, say)
    derived = keep.derive(base, micro)
    cases, skipped = measured(device, base, KERNELS_SHARE * seconds, each=say, **few) if kernels else ([], [])
    fields, constants = derived.fields, derived.constants
    changed = keep.with_fields(base, fields).replace(fitted=(("constants", tuple(constants.items())),))
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
        self.device.arch = keep.uncalibrated(self.device.arch)
        self.bench = cpu.Cpu(self.device) if isinstance(self.device, CpuDevice) else cuda.Gpu(self.device)

    def __call__(self, job: Mapping[str, Any]) -> Mapping[str, Any]:
        d = self.device
        if job["do"] == "describe":
            return {"arch": as_json(d.arch), "parts": self.bench.parts, "lease": d.lease, "state": d.state()}
        self.bench.hz = job["hz"]
        return {"micro": as_json(run_part(self.bench, job["do"])), "hz": self.bench.hz, "state": d.state()}


def _microbenchmarks(device: str, say: Say) -> tuple[Arch, Mapping[str, Any], Microbenchmarks]:
    """What the device was taken for, its state after the last part that ran, and the readings.

    Each part is written to the log as soon as it is done; one that hangs or crashes is left out.
    """
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
                    part = Microbenchmarks({}, (), (f"{name}: {reply.outcome}: {reply.message}",))
                micro += part
                try:
                    log.parent.mkdir(parents=True, exist_ok=True)
                    line = {"at": now(), "device": arch.title, "part": name, **part.to_dict()}
                    with log.open("a") as file:
                        file.write(json.dumps(line) + "\n")
                except OSError as e:  # the readings go on to the descriptor all the same
                    micro += Microbenchmarks({}, (), (f"the log of {name}, {log}: {e.strerror}",))
                say(f"microbenchmarks: {name}")
    return arch, state, micro


def _choice(group: Group, changed: Arch, derived: keep.Derived) -> Choice:
    """The better of two fits, one that starts at the microbenchmarks' constants and one at the shipped ones; neither
    where that orders held-out problems worse."""
    cases, kernel, base = group.cases, group.kernel, group.arch
    moved = Group(kernel, changed, tuple(replace(case, arch=changed) for case in cases))
    predicted = {"shipped": [predict_case(c, {}) for c in cases],
                 "microbenchmarks": [predict_case(c, {}) for c in moved.cases]}  # fmt: skip
    shipped, plain = (quality(cases, predicted[name]) for name in ("shipped", "microbenchmarks"))
    fits = [fit_group(g, before=shipped) for g in (moved, group)]
    fit = min(fits, key=lambda f: (not f.helps, f.after.loss if f.after else 0.0))
    as_before = partial(keep.unmoved, kernel, base, derived.fields, derived.constants)
    if fit.helps:
        table = fit.constants if fit is fits[0] else as_before(fit.constants)
        return Choice(group, "fit", shipped, plain, fit, table, fit.band)
    harmless = len(cases) >= LEAST_PROBLEMS and not plain.worse_than(shipped)
    kept: Kept = "microbenchmarks" if harmless else "shipped"
    table = {} if harmless else as_before()
    return Choice(group, kept, shipped, plain, fit, table, band_of(cases, predicted[kept]))


def _descriptor(
    base: Arch, micro: Microbenchmarks, derived: keep.Derived, choices: list[Choice], state: Mapping[str, Any],
    command: str,
) -> Arch:  # fmt: skip
    fields, constants = derived.fields, derived.constants
    said = keep.about(base, command) | {
        key: str(state[key])
        for key in ("driver", "cuda", "compiler", "system", "sm_clock_hz", "memory_clock_hz", "governor", "power_w")
        if key in state
    }
    tables: dict[str, Any] = {
        "constants": constants,
        "datasheet": keep.datasheet(base, fields),
        "measured": {r.name: float(f"{r.value:.5g}") for r in micro.readings.values()},
        "interval": {r.name: float(f"{r.error:.2g}") for r in micro.readings.values()},
    }
    tables |= keep.fitted_elsewhere(base, fields, constants)
    for choice in choices:
        tables[choice.group.name] = choice.table
    tables["error_low"] = {c.group.name: float(f"{c.band[0]:.4g}") for c in choices}
    tables["error_high"] = {c.group.name: float(f"{c.band[1]:.4g}") for c in choices}
    for c in choices:
        if c.fit.after:
            tables.setdefault("slowdown_held_out", {})[c.group.name] = round(c.fit.after.slowdown[1], 4)
            tables.setdefault("slowdown_before", {})[c.group.name] = round(c.shipped.slowdown[1], 4)
    return keep.with_fields(base, fields).replace(fitted=keep.fitted_pairs(said, tables))
