"""A measured problem: its candidates, their times, and the kernel they are candidates of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arch import load, match
from ..descriptor import Arch
from ..errors import ConfigError, NoCandidates
from ..problem import Problem
from ..ranking import Ranking, rank
from ..records import Measurement
from ..report import LIBRARY, Report
from ..types import FloatArray


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
    note: Mapping[str, Any] = field(default_factory=dict)

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


def device(meta: Mapping[str, Any]) -> Arch:
    """The descriptor of the device that a table's description names: by its name, else by its ISA."""
    name, isa = str(meta.get("gpu", "")), str(meta.get("arch", "")).split(" ")[0]
    for word in (name, name.split(" (", maxsplit=1)[0], name.split(",", maxsplit=1)[0]):
        if word and (arch := match(word)):
            return arch
    if isa:
        return load(isa)
    raise ConfigError(f"a table's description names the device {name!r}, which no descriptor answers to, and no ISA")


def frames() -> Any:
    """pandas, which some tables are read with."""
    try:
        import pandas
    except ImportError:
        raise ConfigError("this table is read with pandas: pip install pandas, or the extra 'frame'") from None
    return pandas
