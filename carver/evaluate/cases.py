"""A measured problem: its candidates, their times, and the kernel they are candidates of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arch import load
from ..descriptor import Arch
from ..errors import NoCandidates
from ..problem import Problem
from ..ranking import Ranking, rank
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


def device(name: str) -> Arch:
    return load(name)
