"""From readings and measured problems to a descriptor: a kernel's constants, fitted and judged on held-out problems;
fields and constants that follow from readings; and the file that keeps them.

A datasheet value that a measurement replaces is kept in `[fitted.datasheet]` and in the source of its field. If a
kernel's constants were fitted against the datasheet's fields, their products with the fields are kept: a kernel that
predicts well is not changed by a measurement that its fit never saw.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import pairwise
from math import isfinite, nan
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..arch.descriptor import PLAUSIBLE, Arch, Pairs, section_of
from ..arch.devices import own_folder, to_toml
from ..base.errors import ConfigError, NoCandidates, nearest
from ..base.folders import existing, is_writable, publish
from ..base.types import FloatArray, Record
from ..cost.learn import Sample, fit, identified, predict, together
from ..cost.model import CONSTANTS, resolve
from ..kernels.declaration import Kernel, every
from ..kernels.expr import multiply_dtype
from ..kernels.space import Space, given_space
from ..problem.problem import operator_files
from ..ranking.declared import COVERAGE, NEAR, share_within, trust
from ..ranking.recommend import by_kernel, offered_kernels, tunables_of
from .micro import Microbenchmarks, matrix_name, matrix_rows
from .summary import geometric_mean, log_error, slowdowns
from .tables import Case

MOST_PROBLEMS = 120
"""More would add minutes and no digits: they are thinned evenly."""
MOST_FOLDS = 5
LEAST_PROBLEMS = 3
"""With fewer, what is held out says nothing."""
SAME = 0.002
"""Held-out slowdowns closer than this, in logarithms, are the same: the predicted times decide."""
CLOSER = 0.9
"""Where the order stays as good, the error of the times has to shrink by this factor, or chance would do."""
AT_BOUND = 0.01

Start = Literal["shipped", "priors"]


class Group(Record):
    """Measured problems of one kernel on one device."""

    kernel: Kernel
    arch: Arch
    cases: tuple[Case, ...]

    @property
    def name(self) -> str:
        return f"{self.kernel.operator}/{self.kernel.name}"

    @property
    def candidates(self) -> int:
        return sum(int(np.isfinite(case.seconds).sum()) for case in self.cases)


def groups(cases: Iterable[Case]) -> list[Group]:
    """The cases by kernel and device, each with the configurations of that kernel only; two must have run."""
    found: dict[tuple[Kernel, Arch], list[Case]] = {}
    for case in cases:
        try:
            offered = offered_kernels(case.problem, case.arch, case.backend)[0]
        except NoCandidates:
            continue
        for kernel, places in by_kernel(case.configs, offered).items():
            part = replace(case, configs=[case.configs[i] for i in places], seconds=case.seconds[places])
            if np.isfinite(part.seconds).sum() > 1:
                found.setdefault((kernel, case.arch), []).append(part)
    out = []
    for (kernel, arch), rows in found.items():
        count = min(len(rows), MOST_PROBLEMS)
        out.append(Group(kernel, arch, tuple(rows[int(i * (len(rows) / count))] for i in range(count))))
    return out


def samples(cases: Iterable[Case]) -> list[Sample]:
    """The measured candidates of all cases, joined by kernel, device and element types."""
    parts: dict[tuple[object, ...], list[tuple[Space, FloatArray]]] = {}
    for case in cases:
        for space in spaces(case):
            seconds = case.seconds[space.index]
            ran = np.isfinite(seconds)
            if ran.sum() > 1:
                dtypes = tuple(case.problem.dtypes.values())
                key = (space.kernel, case.arch, dtypes, case.problem.accumulate)
                parts.setdefault(key, []).append((space.where(ran), seconds[ran]))
    return [sample for group in parts.values() for sample in together(group)]


def spaces(case: Case) -> list[Space]:
    """The candidates of a case that can run, one space a kernel; `index` is their place in the case."""
    offered = offered_kernels(case.problem, case.arch, case.backend)[0]
    out = []
    for kernel, places in by_kernel(case.configs, offered).items():
        space, _ = given_space(case.problem, case.arch, kernel, [tunables_of(case.configs[i]) for i in places])
        out.append(replace(space, index=np.asarray(places)[space.index]))
    return out


def predict_case(case: Case, constants: Mapping[str, float]) -> FloatArray:
    """Predicted seconds of a case's candidates, NaN where one cannot run, with some constants replaced."""
    out = np.full(len(case.configs), np.nan)
    for space in spaces(case):
        out[space.index] = predict(space, {**resolve(space.kernel, case.arch), **constants})
    return out


class Quality(Record):
    """How good one set of constants is on problems."""

    slowdown: Mapping[int, float]
    """Time of the best of the first k over the best measured, geometric mean over the problems."""
    worst: float
    """Of the first pick."""
    log_error: float
    """Median |log(predicted / measured)| of the problems' medians."""
    losses: tuple[float, ...]
    """What the order costs each problem: the mean log slowdown of the first pick and of the best of three."""

    @property
    def loss(self) -> float:
        return float(np.mean(self.losses))

    def worse_than(self, other: Quality) -> bool:
        """Whether the first pick or the best of three costs more, beyond what is the same."""
        return any(np.log(self.slowdown[k] / other.slowdown[k]) > SAME for k in (1, 3))

    def to_dict(self) -> dict[str, Any]:
        return {
            **{f"slowdown_{k}": v for k, v in self.slowdown.items()},
            "worst": self.worst, "log_error": self.log_error,
        }  # fmt: skip


class Fit(Record):
    """Constants fitted to a group. `before` and `after` are of held-out problems."""

    group: Group
    start: Start
    constants: Mapping[str, float]
    before: Quality
    after: Quality | None
    """None where there is one problem only, and none can be held out."""
    folds: int
    band: tuple[float, float]
    """10 % and 90 % quantile of log(measured / predicted) near the best, held out where possible."""
    covered: float
    """Share of the held-out measured times near the best that the band fitted on the other folds holds."""

    @property
    def helps(self) -> str:
        """What gets better on held-out problems: the order, by more than the standard error of the mean of what it
        costs, or the times where the order stays as good; empty for nothing."""
        if self.after is None or len(self.group.cases) < LEAST_PROBLEMS or self.after.worse_than(self.before):
            return ""
        gains = np.subtract(self.before.losses, self.after.losses)
        if gains.mean() > max(SAME, gains.std(ddof=1) / np.sqrt(len(gains))):
            return "the fit helps"
        times_only = "the order is as good as before, the times are better, so the fit helps"
        return times_only if self.after.log_error < CLOSER * self.before.log_error else ""

    @property
    def verdict(self) -> str:
        if self.after is None:
            return "One problem: nothing can be held out, so nobody can say whether this fit helps. Measure four more."
        n, was, now = len(self.group.cases), self.before, self.after
        told = (
            f"On problems held out of the fit ({n} problems, {self.folds} folds) the first pick takes "
            f"{now.slowdown[1]:.3f} of the best time, {was.slowdown[1]:.3f} before, and predicted times are off by "
            f"{100 * now.log_error:.0f} %, {100 * was.log_error:.0f} % before"
        )
        if said := self.helps:
            return f"{told}: {said}."
        # the constants in force may have been fitted to these very problems, which no held-out fit can beat
        here = {"same kind": "the shipped constants were fitted on this kind of device",
                "this device": "the constants in your descriptor were fitted on this device"}  # fmt: skip
        known = here.get(trust(self.group.kernel, self.group.arch).kind) if self.start != "priors" else None
        flattered = f" ({known}, perhaps to these problems)" if known else ""
        return f"{told}: the fit does not help{flattered}."

    @property
    def at_bound(self) -> list[str]:
        """Constants that ran into their physical bounds: they stand for something that the model lacks."""
        each = ((name, value, CONSTANTS[name]) for name, value in self.constants.items())
        return [name for name, x, known in each if not known.low * (1 + AT_BOUND) < x < known.high * (1 - AT_BOUND)]

    def to_dict(self) -> dict[str, Any]:
        return {
            "kernel": self.group.name, "backend": self.group.kernel.backend, "arch": self.group.arch.name,
            "problems": len(self.group.cases), "candidates": self.group.candidates, "folds": self.folds,
            "start": self.start, "before": self.before.to_dict(), "after": self.after.to_dict() if self.after else None,
            "helps": bool(self.helps), "verdict": self.verdict, "at_bound": self.at_bound, "band": list(self.band),
            "covered": self.covered if isfinite(self.covered) else None, "constants": dict(self.constants),
        }  # fmt: skip

    def to_toml(self, data: str, command: str) -> str:
        """`[constants]` and `[fitted]` as a kernel's declaration holds them."""
        said = {**about(self.group.arch, command), "data": data}
        lines = ["[constants]", *(f"{name} = {value!r}" for name, value in self.constants.items()), "", "[fitted]"]
        lines += [f'{key} = "{text}"' for key, text in said.items()]
        dtypes = list(dict.fromkeys(multiply_dtype(case.problem) for case in self.group.cases))
        lines += [f"dtypes = {json.dumps(dtypes)}", f"error_low = {self.band[0]:.3f}"]
        lines += [f"error_high = {self.band[1]:.3f}"]
        lines += [f"problems = {len(self.group.cases)}", f"slowdown_before = {self.before.slowdown[1]:.4f}"]
        if self.after:
            lines.append(f"slowdown_held_out = {self.after.slowdown[1]:.4f}")
        return "\n".join(lines) + "\n"


def fit_group(group: Group, start: Start = "shipped", before: Quality | None = None, hold: Collection[str] = ()) -> Fit:
    """Fit the constants that the group's data identify; hold out every fold of its problems in turn. `before` is what
    the fit is compared with where that is not its own start. Constants to `hold` stay at the start."""
    for name in hold:
        if name not in CONSTANTS:
            raise ConfigError(f"no constant {name!r} to hold; {nearest(name, CONSTANTS)}")
    begin: dict[str, float] = {} if start == "shipped" else {name: c.prior for name, c in CONSTANTS.items()}
    cases = group.cases
    if all(np.isfinite(c.seconds).sum() < 3 for c in cases):
        raise ConfigError(f"{group.name} on {group.arch.name}: no problem has three measured configurations to order")
    known = trust(group.kernel, group.arch).kind not in ("priors", "other kernel")

    def fitted(some: Iterable[Case]) -> dict[str, float]:
        data = samples(some)
        names = [name for name in identified(data, begin) if name not in hold]
        return fit(data, names, begin, trusted=known and start == "shipped")

    constants = fitted(cases)
    before = before or quality(cases, [predict_case(case, begin) for case in cases])
    if len(cases) == 1:
        band = band_of(cases, [predict_case(cases[0], {**begin, **constants})])
        return Fit(group, start, constants, before, None, 1, band, float("nan"))
    folds = MOST_FOLDS if len(cases) > 2 * MOST_FOLDS else len(cases)
    held: list[FloatArray] = [np.array([])] * len(cases)
    for fold in range(folds):
        k = {**begin, **fitted(case for i, case in enumerate(cases) if i % folds != fold)}
        for i in range(fold, len(cases), folds):
            held[i] = predict_case(cases[i], k)
    errors = [errors_near(case, p) for case, p in zip(cases, held, strict=True)]
    covered = [
        share_within(errors[i], quantiles([e for j, e in enumerate(errors) if j % folds != i % folds]))
        for i in range(len(cases))
    ]
    return Fit(
        group, start, constants, before, quality(cases, held), folds, quantiles(errors), float(np.nanmean(covered))
    )


def quality(cases: Sequence[Case], predicted: Sequence[FloatArray]) -> Quality:
    """What the order of the predictions costs on the cases. A case that the model refuses costs its slowest time."""
    each = []
    for case, p in zip(cases, predicted, strict=True):
        order = np.argsort(np.where(np.isfinite(p), p, np.inf), kind="stable")[: int(np.isfinite(p).sum())]
        each.append(slowdowns(case, order, (1, 3, 5)))
    slowdown = {k: [one[k] for one in each] for k in (1, 3, 5)}
    errors = [e for case, p in zip(cases, predicted, strict=True) if isfinite(e := log_error(case, p))] or [nan]
    means = {k: geometric_mean(values) for k, values in slowdown.items()}
    losses = np.log([slowdown[1], slowdown[3]]).mean(axis=0)
    return Quality(means, max(slowdown[1]), float(np.median(errors)), tuple(losses))


def errors_near(case: Case, predicted: FloatArray) -> FloatArray:
    """log(measured / predicted) of the candidates that a user would be shown: those predicted near the best."""
    both = np.isfinite(predicted) & np.isfinite(case.seconds)
    near = both & (predicted <= NEAR * predicted[both].min(initial=np.inf))
    out: FloatArray = np.log(case.seconds[near] / predicted[near])
    return out


def band_of(cases: Sequence[Case], predicted: Sequence[FloatArray]) -> tuple[float, float]:
    """The band of predictions of all cases."""
    return quantiles([errors_near(case, p) for case, p in zip(cases, predicted, strict=True)])


def quantiles(errors: Sequence[FloatArray]) -> tuple[float, float]:
    """The band that holds `COVERAGE` of the errors, every problem counting the same."""
    kept = [e for e in errors if len(e)]
    if not kept:
        return float("nan"), float("nan")
    values = np.concatenate(kept)
    weight = np.concatenate([np.full(len(e), 1 / len(e)) for e in kept])
    order = np.argsort(values)
    share = (np.cumsum(weight[order]) - 0.5 * weight[order]) / weight.sum()
    low, high = np.interp([(1 - COVERAGE) / 2, (1 + COVERAGE) / 2], share, values[order])
    return float(low), float(high)


DIFFERS = 0.03
"""A rate that is this close to the descriptor's confirms it."""
STRAY = 1.25
"""A constant this far outside its physical bounds was disturbed, and is not used; nearer ones are cut to the bound."""
MERGES = 1.2
"""An L2 that gives this much more to neighbours that read the same lines serves them together."""
MERGE_SMS = 16
"""How many of them: what the H200 was measured to do."""
STEADY = 0.25
"""A reading whose interval reaches further to both sides was disturbed."""
LEVELS = ("l1_bytes_per_s", "l2_bytes_per_s", "l3_bytes_per_s", "l2_read_bytes_per_s", "dram_read_bytes_per_s")
"""Readings of bandwidth, the nearest memory first: those of a CPU, then those of a GPU, and DRAM of both."""
RISE = 1.1
"""A bandwidth this much above that of a nearer memory was not measured on an idle device."""
DISTURBED_S = 5e-5
"""No parallel region takes this long on a CPU that has nothing else to do."""
PRODUCTS = {
    "dram_efficiency": "dram_bytes_per_s", "l2_efficiency": "l2_bytes_per_s", "l2_latency_load": "l2_latency_s",
    "dram_latency_load": "dram_latency_s",
}  # fmt: skip
"""Constants that multiply a field."""


class Derived(Record):
    """What the microbenchmarks say of a device."""

    fields: Mapping[str, Any]
    constants: Mapping[str, float]
    refused: tuple[str, ...]


def derive(arch: Arch, micro: Microbenchmarks) -> Derived:
    """Fields and constants of the model from the readings."""
    micro, refused = _steady(micro)
    names = ("launch_s", "block_dispatch_clk", "warp_start_clk")
    found: dict[str, float | None] = {name: micro.get(name) for name in names}
    if arch.kind == "cpu":
        empty_s = found["launch_s"] or 0.0
        fields = _cpu_fields(arch, micro, empty_s < DISTURBED_S)
        if empty_s >= DISTURBED_S:
            refused.append(
                f"all that takes every core: a region of empty tasks took {1e3 * empty_s:.2g} ms, so the cores were "
                "busy with something else; calibrate again when they are not"
            )
            found = {}
    else:
        fields = _gpu_fields(arch, micro)
        found |= _gpu_constants(arch, micro)
    constants = {}
    for name, value in found.items():
        if value is None:
            continue
        bounds = CONSTANTS[name]
        if not bounds.low / STRAY <= value <= bounds.high * STRAY:
            refused.append(f"{name} = {value:.3g} is outside {bounds.low:g} to {bounds.high:g}: not used")
        else:
            constants[name] = float(f"{min(max(value, bounds.low), bounds.high):.4g}")
    for name, value in list(fields.items()):
        low, high = PLAUSIBLE.get(name, (0.0, float("inf")))
        if name != "matrix" and not low <= value <= high:
            refused.append(f"{name} = {value:.3g} is outside {low:g} to {high:g}: not used")
            del fields[name]
    short = {name: float(f"{v:.4g}") if isinstance(v, float) else v for name, v in fields.items()}
    return Derived(short, constants, tuple(refused))


def _steady(micro: Microbenchmarks) -> tuple[Microbenchmarks, list[str]]:
    """The readings of an idle device, and what is said of the others."""
    shaky = {name: r for name, r in micro.readings.items() if not r.error <= STEADY}
    refused = [
        f"{r.what}: " + (f"it varied by {100 * r.error:.0f} %" if r.value else f"0 to {r.high:.2g} {r.unit}")
        for r in shaky.values()
    ]
    steady = {name: r for name, r in micro.readings.items() if name not in shaky}
    for near, far in pairwise(steady[name] for name in LEVELS if name in steady):
        if far.value > RISE * near.value:
            refused.append(
                f"all bandwidths: {near.what}: {near.value:.3g} B/s, and {far.what}: {far.value:.3g} B/s, which is "
                "farther away and cannot be faster, so the device was busy with something else; calibrate again when "
                "it is not"
            )
            steady = {name: r for name, r in steady.items() if name not in LEVELS}
            break
    return replace(micro, readings=steady), refused


def _gpu_fields(arch: Arch, micro: Microbenchmarks) -> dict[str, Any]:
    read = {"l2_bytes_per_s": "l2_read_bytes_per_s", "l2_latency_s": "l2_latency_s", "dram_latency_s": "dram_latency_s"}
    fields: dict[str, Any] = {field: value for field, name in read.items() if (value := micro.get(name))}
    rows = matrix_rows(arch)
    measured = {name: value for name in rows if (value := micro.get(name))}
    moved = {n: v for n, v in measured.items() if abs(v / rows[n].flops_per_clk_per_sm - 1) > DIFFERS}
    if moved:
        fields["matrix"] = tuple(
            replace(row, flops_per_clk_per_sm=float(f"{moved[name]:.4g}")) if name in moved else row
            for name, row in rows.items()
        )
    l2, shared = micro.get("l2_read_bytes_per_s"), micro.get("l2_shared_bytes_per_s")
    if l2 and shared and (merges := shared > MERGES * l2) != (arch.l2_merge_sms > 1):
        fields["l2_merge_sms"] = MERGE_SMS if merges else 1
    return fields


def _gpu_constants(arch: Arch, micro: Microbenchmarks) -> dict[str, float | None]:
    get = micro.get
    l2, dram, shared = (get(f"{level}_bytes_per_s") for level in ("l2_read", "dram_read", "l2_shared"))
    smem, swap = get("smem_bytes_per_clk"), get("atomic_swap_bytes_per_s")
    loads = {}
    for level in ("dram", "l2"):
        busy, idle = get(f"{level}_busy_latency_s"), get(f"{level}_latency_s")
        loads[f"{level}_latency_load"] = busy and idle and busy / idle
    merged = {"l2_merge": max(2.0 * (1.0 - l2 / shared), 0.0)} if l2 and shared else {}  # cost.traffic.merged, for two
    return {
        "dram_efficiency": dram and dram / arch.dram_bytes_per_s, "l2_efficiency": l2 and 1.0, **merged,
        "split_s": get("second_launch_s"), **loads, "smem_efficiency": smem and smem / arch.smem_bytes_per_clk,
        "atomic_share": swap and l2 and swap / l2,
    }  # fmt: skip


def _cpu_fields(arch: Arch, micro: Microbenchmarks, idle: bool) -> dict[str, Any]:
    """Nobody prints a datasheet of a virtual machine: clock and bandwidths are replaced where they differ. Bandwidth of
    DRAM is stated before its efficiency, as a datasheet's is."""
    said = {name: micro.get(name) for name in ("clock_hz", "l2_latency_s", "dram_latency_s")}
    if idle:
        said |= {name: micro.get(name) for name in ("l2_bytes_per_s", "l3_bytes_per_s")}
        read = micro.get("dram_read_bytes_per_s")
        said["dram_bytes_per_s"] = read and read / CONSTANTS["dram_efficiency"].prior
    return {name: v for name, v in said.items() if v and abs(v / getattr(arch, name) - 1) > DIFFERS}


def uncalibrated(arch: Arch) -> Arch:
    """The device as its datasheet has it, from a descriptor that calibration wrote."""
    said = arch.fitted_constants("datasheet")
    rows = tuple(
        replace(row, flops_per_clk_per_sm=said.get(name, row.flops_per_clk_per_sm))
        for name, row in matrix_rows(arch).items()
    )
    plain = {name: value for name, value in said.items() if name in section_of}
    source = tuple((key, text.partition(MEASURED)[2] or text) for key, text in arch.source)
    return arch.replace(**plain, matrix=rows, fitted=(), source=tuple(pair for pair in source if pair[1] != NONE))


MEASURED = "measured by carver calibrate; before: "
NONE = "no source"


def with_fields(arch: Arch, fields: Mapping[str, Any]) -> Arch:
    """The measured fields, each with its source, which repeats the one that it replaces."""
    notes = dict(arch.source)
    for name in fields:
        key = f"{section_of[name]}.{name}" if section_of[name] != name else name
        notes[key] = MEASURED + notes.get(key, NONE)
    return arch.replace(**fields, source=tuple(notes.items()))


def datasheet(arch: Arch, fields: Mapping[str, Any]) -> dict[str, float]:
    """The values that `fields` replaces."""
    was = {name: float(getattr(arch, name)) for name in fields if name != "matrix"}
    if "clock_hz" in fields:
        was["matrix_clock_hz"] = arch.matrix_clock_hz
    rows = matrix_rows(arch)
    for row in fields.get("matrix", ()):
        if row != (old := rows[matrix_name(row)]):
            was[matrix_name(row)] = old.flops_per_clk_per_sm
    return was


def unmoved(
    kernel: Kernel, before: Arch, fields: Mapping[str, Any], constants: Mapping[str, float],
    fitted: Mapping[str, float] | None = None,
) -> dict[str, float]:  # fmt: skip
    """What a kernel's own table must say for its predictions to be, with the measured fields and constants, what they
    were `before` with its constants, or with those `fitted` to it then.

    But for fields that no constant multiplies: a measured clock, L3 or rate of matrix instructions holds for all.
    """
    was = {**resolve(kernel, before), **(fitted or {})}
    table = {name: was[name] for name in (*constants, *(fitted or {}))}
    for name, field in PRODUCTS.items():
        if field in fields:
            table[name] = float(f"{was[name] * getattr(before, field) / fields[field]:.4g}")
    return table


def fitted_elsewhere(arch: Arch, fields: Mapping[str, Any], constants: Mapping[str, float]) -> dict[str, Pairs]:
    """Tables of the kernels whose constants were fitted against the datasheet's fields."""
    kernels = [k for operator in operator_files() for k in every(operator) if k.constants]
    here = [k for k in kernels if k.device_kind == arch.kind]
    return {f"{k.operator}/{k.name}": tuple(unmoved(k, arch, fields, constants).items()) for k in here}


def fitted_pairs(about: Mapping[str, str], tables: Mapping[str, Mapping[str, float] | Pairs]) -> Pairs:
    """The `[fitted]` section: what was done, then its tables, without what is no number; empty ones are left out."""
    known = {name: tuple((k, v) for k, v in dict(table).items() if isfinite(v)) for name, table in tables.items()}
    return (*about.items(), *((name, row) for name, row in known.items() if row))


def with_kernel(arch: Arch, name: str, constants: Mapping[str, float], band: tuple[float, float], command: str) -> Arch:
    """A descriptor with one more kernel's constants in `[fitted]`, as `carver calibrate --from --write` makes it."""
    tables: dict[str, Any] = dict(arch.fitted) or about(arch, command)
    tables[name] = tuple(constants.items())
    for side, value in (("error_low", band[0]), ("error_high", band[1])):
        tables[side] = tuple({**dict(tables.get(side, ())), name: float(f"{value:.4g}")}.items())
    return arch.replace(fitted=tuple(tables.items()))


def about(arch: Arch, command: str) -> dict[str, Any]:
    device = arch.device_names[0] if arch.device_names else arch.title
    return {"date": str(date.today()), "device": device, "command": command}


def check_target(path: Path) -> None:
    """Raises ConfigError where a descriptor would replace what is no plain file (a pipe), or cannot be written."""
    if not (there := existing(path.parent)).is_dir() or not is_writable(there):
        raise ConfigError(f"{path.parent} cannot be written to, or its disk is full; name another file with --out")
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path} is no plain file, which a descriptor would replace; name another")


def write(arch: Arch, path: Path | None = None) -> Path:
    """The descriptor in the user's folder, where it is found before the shipped one; whole or not at all."""
    target = path or own_folder() / f"{arch.name}.toml"
    check_target(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    publish(target, to_toml(arch).encode())
    return target
