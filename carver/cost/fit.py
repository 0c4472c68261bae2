"""Fit constants of the cost model to measured candidates: bounded robust least squares on their logarithms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..base.types import FloatArray, IntArray
from ..kernels.scope import size_scope, static_scope
from ..kernels.space import Space
from .check import constants_of, model_of
from .constants import CONSTANTS, resolve
from .estimate import estimate

RANKING_WIDTH = 0.4
"""A candidate this much slower than the best of its problem counts half as much (its weight is 1/sqrt(2))."""
PRIOR = 0.003
"""Weight per candidate that pulls a constant to its start; squared log errors of the candidates weigh against it."""
TRUSTED = 0.1
"""Least weight of that pull, for all candidates together, where the start was itself fitted: then few measurements
move a constant only a little."""
SCALE_WEIGHT = 0.6
"""Weight of a problem's mean log error, relative to the errors in the order of its candidates."""


@dataclass(frozen=True)
class Sample:
    """Measured candidates of one kernel on one device, for one or many problems, as a single space."""

    space: Space
    seconds: FloatArray
    problem: IntArray
    """Index from 0 of each candidate's problem."""


def together(group: Sequence[tuple[Space, FloatArray]]) -> list[Sample]:
    """Join problems into one sample, which is faster to price. They stay apart if the kernel's model also reads things
    from the problem that columns cannot hold, so that the joined times would differ."""
    whole, apart = _join(group), [_join([part]) for part in group]
    k = resolve(whole.space.kernel, whole.space.arch)
    same = np.allclose(predict(whole.space, k), np.hstack([predict(one.space, k) for one in apart]), rtol=1e-9)
    return [whole] if same else apart


def _join(group: Sequence[tuple[Space, FloatArray]]) -> Sample:
    """Join spaces into one: scalars that differ between problems become columns."""
    spaces = [space for space, _ in group]
    first = spaces[0]
    lengths = [len(space) for space in spaces]
    names = {*first.columns, *size_scope(first.problem), *static_scope(first.problem, first.arch)} - {"arch"}
    columns = {
        name: np.concatenate([np.broadcast_to(np.asarray(s[name]), len(s)) for s in spaces])
        for name in sorted(names)
        if all(name in s.columns or name in s.scope for s in spaces)
    }
    index = np.arange(sum(lengths))
    joined = Space(first.problem, first.arch, first.kernel, first.scope, columns, index)
    return Sample(joined, np.concatenate([t for _, t in group]), np.repeat(np.arange(len(group)), lengths))


def predict(space: Space, constants: Mapping[str, float]) -> FloatArray:
    """Predicted seconds of the candidates of a space."""
    return estimate(model_of(space.kernel).work(space, constants), space.arch, constants).seconds


def fit(
    data: Sequence[Sample],
    names: Sequence[str],
    start: Mapping[str, float] | None = None,
    max_evaluations: int = 60,
    *,
    trusted: bool = False,
) -> dict[str, float]:
    """Values of the constants `names` that best order the candidates of each problem; all others keep theirs.

    The residuals are:

    - for each candidate, its log error less the weighted mean of its problem; faster candidates weigh more;
    - for each problem, that mean;
    - for each constant, its distance from the start, so that constants which the data do not identify stay put.
      A `trusted` start, one that was fitted before, pulls harder.

    Derivatives are differences over 3 %: smaller steps vanish where the model rounds up to whole tiles and waves.
    """
    from scipy.optimize import least_squares

    if not names:  # SciPy fits nothing with NumPy 2 alone
        return {}
    base = [{**resolve(s.space.kernel, s.space.arch), **(start or {})} for s in data]
    low = np.log([max(CONSTANTS[n].low, 1e-12) for n in names])
    high = np.log([CONSTANTS[n].high for n in names])
    x0 = np.clip(np.log([max(base[0][n], 1e-12) for n in names]), low + 1e-6, high - 1e-6)
    weights = [_weights(s) for s in data]
    pull = max(PRIOR * np.sqrt(sum(len(s.seconds) for s in data)), TRUSTED if trusted else 0.0)

    def residuals(x: FloatArray) -> FloatArray:
        k = dict(zip(names, np.exp(x), strict=True))
        told = (deviations(s, {**b, **k}, w) for s, b, w in zip(data, base, weights, strict=True))
        return np.concatenate([pull * (x - x0), *told])

    result = least_squares(
        residuals, x0, bounds=(low, high), loss="soft_l1", f_scale=0.1, diff_step=0.03, max_nfev=max_evaluations,
        ftol=1e-4,  # what lies below moves no constant by as much as timings repeat, and takes as long again
    )  # fmt: skip
    return {name: float(f"{value:.4g}") for name, value in zip(names, np.exp(result.x), strict=True)}


def deviations(sample: Sample, constants: Mapping[str, float], weights: tuple[FloatArray, IntArray]) -> FloatArray:
    """The residuals of `fit` for one sample: those of the candidates, then those of the problems."""
    w, count = weights
    d = np.log(predict(sample.space, constants) / sample.seconds)
    mean = np.bincount(sample.problem, w * d) / np.bincount(sample.problem, w)
    return np.concatenate([5.0 * w * (d - mean[sample.problem]) / np.sqrt(count[sample.problem]), SCALE_WEIGHT * mean])


def identified(data: Sequence[Sample], start: Mapping[str, float] | None = None) -> list[str]:
    """The constants that these data can identify, in the order of `CONSTANTS`.

    The kernels' models must read the constant, and its column of the Jacobian (over a step of 10 % to either side)
    must exceed a hundredth of the pull towards the start.
    """
    effect: dict[str, float] = dict.fromkeys(CONSTANTS, 0.0)
    for s in data:
        base = {**resolve(s.space.kernel, s.space.arch), **(start or {})}
        weights = _weights(s)
        here = deviations(s, base, weights)
        for name in constants_of(s.space.kernel):
            steps = [deviations(s, {**base, name: base[name] * (1 + e)}, weights) - here for e in (-0.1, 0.1)]
            effect[name] += max(float(step @ step) for step in steps) / 0.1**2
    least = (0.01 * PRIOR) ** 2 * sum(len(s.seconds) for s in data)
    return [name for name in CONSTANTS if effect[name] > least]


def _weights(sample: Sample) -> tuple[FloatArray, IntArray]:
    """The weight of each candidate, and the number of candidates of each problem."""
    count = np.bincount(sample.problem)
    best = np.full(len(count), np.inf)
    np.minimum.at(best, sample.problem, sample.seconds)
    excess = sample.seconds / best[sample.problem] - 1
    return 1.0 / np.sqrt(1.0 + (excess / RANKING_WIDTH) ** 2), count
