"""A kernel without a declaration with times of its configurations, ranked by what Triton makes of them, with no GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import frame

import carver


class Case(NamedTuple):
    """One problem of one kernel, with what was measured. [ms]"""

    name: str
    kernel: Any
    configs: Sequence[dict[str, Any]]
    times: Sequence[float | None]
    args: Any
    grid: Callable[[Mapping[str, Any]], tuple[int, ...]]
    constants: Mapping[str, Any] = {}
    values: Mapping[str, Any] = {}


def ranked(case: Case, arch: carver.Arch, processes: int | None = None) -> carver.Ranking:
    return carver.rank_kernel(
        case.kernel, case.configs, args=case.args, grid=case.grid, arch=arch, constants=case.constants,
        values=case.values, progress=sys.stderr.isatty(), compile="all", processes=processes,
    )  # fmt: skip


def predicted_ms(ranking: carver.Ranking, count: int) -> list[float | None]:
    """By place in the list that was ranked."""
    ms = {place: hint.predicted_ms for hint in ranking for place in (hint.index, *hint.also)}
    return [ms.get(place) for place in range(count)]


def score(case: Case, arch: carver.Arch) -> frame.Score:
    """Rank all configurations; only those that ran are picks."""
    return frame.scored(case.name, predicted_ms(ranked(case, arch), len(case.configs)), case.times)
