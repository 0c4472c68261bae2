"""Fit constants of the cost model to measured candidates: bounded robust least squares on their logarithms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..base.types import FloatArray, IntArray
from ..kernels.space import Space, size_scope, static_scope
from .check import constants_of, model_of
from .constants import CONSTANTS, resolve
from .estimate import estimate

RANKING_WIDTH = 0.4
"""A candidate this much slower than the best of its problem counts half as much (its weight is 1/sqrt(2))."""
PRIOR = 0.003
"""What holds a constant to its start, per candidate, against squared log errors."""
TRUSTED = 0.1
"""What holds it at least, for all candidates together, to a start that was fitted itself: few move it little."""
SCALE_WEIGHT = 0.6
"""Weight of a problem's mean log error against that of the order of its candidates."""


@dataclass(frozen=True)
class Sample:
    """Candidates of many problems, of one kernel on one device, as a single space."""

    space: Space
    seconds: FloatArray
    problem: IntArray
    """Which problem each candidate belongs to, from 0."""


def together(group: Sequence[tuple[Space, FloatArray]]) -> list[Sample]:
    """One sample of many problems, unless the kernel's model takes from the problem what columns do not carry."""
    whole, apart = _join(group), [_join([part]) for part in group]
    k = resolve(whole.space.kernel, whole.space.arch)
    same = np.allclose(predict(whole.space, k), np.hstack([predict(one.space, k) for one in apart]), rtol=1e-9)
    return [whole] if same else apart


def _join(group: Sequence[tuple[Space, FloatArray]]) -> Sample:
    """Many spaces as one: scalars that differ between problems become columns."""
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
    """The constants `names` that order the candidates of each problem best, the rest as they are.

    Residuals, per candidate: the log error less its problem's weighted mean, weighted towards the fastest
    candidates; per problem: that mean; per constant: its distance from where it started, so that what the
    data do not identify stays put, more so where that start is `trusted`. Differences are taken over 3 %: the
    model's ceilings hide smaller steps.
    """
    from scipy.optimize import least_squares

    base = [{**resolve(s.space.kernel, s.space.arch), **(start or {})} for s in data]
    low = np.log([max(CONSTANTS[n].low, 1e-12) for n in names])
    high = np.log([CONSTANTS[n].high for n in names])
    x0 = np.clip(np.log([base[0][n] for n in names]), low + 1e-6, high - 1e-6)
    weights = [_weights(s) for s in data]
    pull = max(PRIOR * np.sqrt(sum(len(s.seconds) for s in data)), TRUSTED if trusted else 0.0)

    def residuals(x: FloatArray) -> FloatArray:
        k = dict(zip(names, np.exp(x), strict=True))
        told = (deviations(s, {**b, **k}, w) for s, b, w in zip(data, base, weights, strict=True))
        return np.concatenate([pull * (x - x0), *told])

    result = least_squares(
        residuals, x0, bounds=(low, high), loss="soft_l1", f_scale=0.1, diff_step=0.03, max_nfev=max_evaluations
    )
    return {name: float(f"{value:.4g}") for name, value in zip(names, np.exp(result.x), strict=True)}


def deviations(sample: Sample, constants: Mapping[str, float], weights: tuple[FloatArray, IntArray]) -> FloatArray:
    """What `fit` makes small for one sample: each candidate's residual, then each problem's."""
    w, count = weights
    d = np.log(predict(sample.space, constants) / sample.seconds)
    mean = np.bincount(sample.problem, w * d) / np.bincount(sample.problem, w)
    return np.concatenate([5.0 * w * (d - mean[sample.problem]) / np.sqrt(count[sample.problem]), SCALE_WEIGHT * mean])


def identified(data: Sequence[Sample], start: Mapping[str, float] | None = None) -> list[str]:
    """The constants that these data say something about, in the order of `CONSTANTS`.

    Those that the kernels' models read at all, and whose column of the Jacobian (over a step of 10 % to either
    side) is more than a hundredth of what holds a constant to its prior.
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
    """Of the candidates, and how many each problem has."""
    count = np.bincount(sample.problem)
    best = np.full(len(count), np.inf)
    np.minimum.at(best, sample.problem, sample.seconds)
    excess = sample.seconds / best[sample.problem] - 1
    return 1.0 / np.sqrt(1.0 + (excess / RANKING_WIDTH) ** 2), count
