"""The measured candidates of tables, as what constants are fitted to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from ..base.types import FloatArray
from ..cost.constants import resolve
from ..cost.fit import Sample, predict, together
from ..evaluate.cases import Case
from ..kernels.space import Space, given_space
from ..ranking.offers import offered_kernels
from ..ranking.rank import by_kernel, tunables_of


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
