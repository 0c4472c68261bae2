"""A measured problem: its candidates, their times, and the kernel they are candidates of."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..arch.devices import isa_of, load, match, names
from ..base.errors import ArchError, CarverError, ConfigError, NoCandidates
from ..base.types import FloatArray
from ..kernels.declaration import kernels
from ..problem.problem import Problem
from ..ranking.rank import rank
from ..ranking.ranking import Ranking
from ..run.records import Measurement
from ..run.report import LIBRARY, Report


@dataclass(frozen=True)
class Case:
    """One problem of a measured table. `seconds` is NaN where a configuration did not run."""

    table: str
    problem: Problem
    arch: Arch
    backend: str
    configs: Sequence[Mapping[str, Any]]
    seconds: FloatArray
    group: str = ""
    """Cases of one group share what `carver evaluate --by group` averages over."""
    reference_s: float | None = None
    """A vendor library's time for the same problem, where the table has one."""

    @classmethod
    def of(cls, table: str, problem: Problem, arch: Arch, backend: str, found: Iterable[Measurement]) -> Case:
        """The case of measurements of one problem."""
        rows = list(found)
        configs = [{"kernel": m.kernel, **m.config} for m in rows]
        return cls(table, problem, arch, backend, configs, seconds([m.median_ms if m.ok else None for m in rows]))

    @property
    def best_s(self) -> float:
        return float(np.nanmin(self.seconds))

    def ranked(self) -> Ranking | None:
        """The model's order of the candidates; None where it holds that none can run."""
        try:
            return rank(self.problem, self.arch, self.configs, self.backend)
        except NoCandidates:
            return None

    def report(self) -> Report:
        """Prediction against measurement, candidate by candidate; the model's refusals are left out."""
        shared = {
            "run_id": self.table, "operator": self.problem.operator, "problem": self.problem.to_dict(),
            "backend": self.backend, "arch": self.arch.name, "device": self.arch.title, "host": "",
        }  # fmt: skip
        rows = [
            self._measured(float(self.seconds[h.index]), candidate=str(h.index), kernel=h.kernel, config=dict(h.config),
                           rank=h.rank, predicted_ms=h.predicted_ms, bound=h.bound, hint=h.to_dict(), **shared)
            for h in self.ranked() or ()
        ]  # fmt: skip
        if self.reference_s:
            library = {**shared, "backend": LIBRARY}
            rows.append(self._measured(self.reference_s, candidate=LIBRARY, kernel=LIBRARY, config={}, **library))
        return Report(self.problem, rows, device=self.arch.title)

    @staticmethod
    def _measured(seconds: float, **what: Any) -> Measurement:
        ran = bool(np.isfinite(seconds))
        return Measurement(outcome="ok" if ran else "crash", median_ms=seconds * 1e3 if ran else None, **what)


def device(name: str, isa: str = "") -> tuple[Arch, str]:
    """The descriptor of the device that a table was measured on, and a remark where that took more than its name.

    Remarks and alternatives behind the name are left out. Then the ISA decides, stated as `isa` or a word of the
    name, if all that have it are of about one size: "AMD Vega20 (gfx906)". A descriptor of another ISA is no match.
    """
    word = re.search(r"\b(sm_\d+|gfx[0-9a-f]+)", f"{isa} {name}")
    stated = word[1] if word else ""
    for text in (name, re.split(r"[/(,;:]", name)[0], stated):
        whole = isa_of(text) in ("", text)  # an ISA with features behind it is tried without them
        arch = match(text) if text.strip() and whole else None
        if arch is None or stated not in ("", arch.isa):
            continue
        sizes = [other.sm_count for other in map(load, names()) if other.isa == stated] if text == stated else [1]
        if max(sizes) <= 1.5 * min(sizes):
            return arch, "" if text == name else f"measured on {name!r}, ranked for {arch.title}"
    raise ArchError(f"no descriptor for its device {name!r}{f', {stated}' if stated else ''}; carver archs lists all")


def seconds(milliseconds: Any, ran: Any = True) -> FloatArray:
    """Times that can be compared: NaN for what did not run, and for what is no time above 0. [s]"""
    ms = np.asarray(milliseconds, np.float64)  # of None, NaN
    return np.where(np.asarray(ran, bool) & np.isfinite(ms) & (ms > 0), ms * 1e-3, np.nan)


def tunables(rows: Sequence[Mapping[str, Any]], operator: str, backend: str) -> tuple[list[dict[str, int]], str]:
    """The rows as configurations of a backend, and a remark on what tells equal ones apart, because no kernel has it.

    What a row does not have is at the kernel's default.
    """
    names = {name for kernel in kernels(operator, backend) for name in kernel.tunables}
    configs = [{k: _whole(k, v) for k, v in row.items() if k in names} for row in rows]
    unread: dict[str, None] = {}
    if any(row.keys() - names for row in rows):
        first: dict[tuple[Any, ...], Mapping[str, Any]] = {}
        for row, config in zip(rows, configs, strict=True):
            twin = first.setdefault(tuple(config.items()), row)
            unread |= {k: None for k in row if k not in names and str(row[k]) != str(twin.get(k))}
    return configs, f"configurations differ in {', '.join(unread)}, which nothing reads" if unread else ""


def _whole(name: str, value: Any) -> int:
    if type(value) is int:
        return value
    try:
        if int(value) == value:
            return int(value)
    except (TypeError, ValueError):
        pass
    raise ConfigError(f"{name} takes a whole number, got {value!r}")


def reason(error: Exception) -> str:
    """What went wrong with foreign data, in words."""
    if isinstance(error, CarverError):
        return str(error)
    return f"it has no {error}" if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"


@dataclass(frozen=True)
class Remark:
    """What is to be said of a table that was not read or ranked as it stands; `broken` where that is its fault."""

    table: str
    text: str
    broken: bool = False


def insist(remark: Remark) -> None:
    """A broken table is an error, any other remark a warning."""
    if remark.broken:
        raise ConfigError(f"{remark.table}: {remark.text}")
    warnings.warn(f"{remark.table}: {remark.text}", stacklevel=3)
