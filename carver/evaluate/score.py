"""How good a ranking is, against what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..base.types import FloatArray, IntArray
from ..kernels.scope import multiply_dtype
from ..ranking.ranking import Ranking
from ..ranking.uncertainty import NEAR, trust
from .cases import Case


@dataclass(frozen=True)
class Score:
    """One problem's result. Slowdowns are times over the best measured time of the problem."""

    case: Case
    slowdown: dict[int, float]
    """Best of the first k picks, by k. A pick that did not run counts as no pick."""
    random: dict[int, float]
    """The same for k candidates drawn without looking, in the geometric mean over all draws of their best rank."""
    spearman: float
    """Rank correlation over the candidates within 1.5x of the best."""
    log_error: float
    """Median |log(predicted / measured)|."""
    covered: float
    """Share of the measured times near the best predicted that fell into their hint's band."""
    runnable: tuple[int, int, int, int]
    """Candidates: ran and kept, failed and kept, ran and rejected, failed and rejected."""


def score(case: Case, ks: Sequence[int] = (1, 3, 5, 10)) -> Score:
    ranking = case.ranked()
    order = np.array(ranking.indices if ranking else [], int)
    ran = np.isfinite(case.seconds)
    kept = np.zeros(len(ran), bool)
    kept[order] = True
    counts = (int((ran & kept).sum()), int((~ran & kept).sum()), int((ran & ~kept).sum()), int((~ran & ~kept).sum()))
    times = np.where(ran, case.seconds, np.inf)
    best = case.best_s
    predicted = np.full(len(ran), np.nan)
    if ranking:
        predicted[order] = ranking.seconds
    both = ran & np.isfinite(predicted)
    near = both & (times <= NEAR * best)
    sorted_times = np.sort(times[ran])
    return Score(
        case, slowdowns(case, order, ks), {k: random_best(sorted_times, k) / best for k in ks},
        _spearman(predicted[near], times[near]), log_error(case, predicted), _covered(ranking, case.seconds), counts,
    )  # fmt: skip


def slowdowns(case: Case, order: IntArray, ks: Sequence[int]) -> dict[int, float]:
    """Time of the best of the first k in that order over the best; what fails, or is not there, costs the slowest."""
    times = np.where(np.isfinite(case.seconds), case.seconds, np.inf)
    slowest = float(np.nanmax(case.seconds))
    return {k: float(min(times[order[:k]].min(initial=np.inf), slowest)) / case.best_s for k in ks}


def log_error(case: Case, predicted: FloatArray) -> float:
    """Median |log(predicted / measured)| of the candidates that have both; NaN where none has."""
    both = np.isfinite(predicted) & np.isfinite(case.seconds)
    return float(np.median(np.abs(np.log(predicted[both] / case.seconds[both])))) if both.any() else float("nan")


def _covered(ranking: Ranking | None, seconds: FloatArray) -> float:
    if ranking is None:
        return float("nan")
    predicted, measured = ranking.seconds, seconds[ranking.indices]
    near = (predicted <= NEAR * predicted[0]) & np.isfinite(measured)
    spaces = [part.space for part in ranking.parts]
    bands = [trust(space.kernel, space.arch, multiply_dtype(space.problem)) for space in spaces]
    low, high = np.array([(band.low, band.high) for band in bands])[[part for part, _ in ranking.order]].T
    error = np.log(measured[near] / predicted[near])
    return float(np.mean((error >= low[near]) & (error <= high[near]))) if near.any() else float("nan")


def random_best(sorted_times: FloatArray, k: int) -> float:
    """Geometric mean of the best of k times drawn without replacement. [s]

    The i-th fastest of n is the best of a draw with probability C(n-1-i, k-1) / C(n, k).
    """
    n = len(sorted_times)
    k = min(k, n)
    chance = np.zeros(n)
    chance[0] = k / n
    for i in range(1, n - k + 1):
        chance[i] = chance[i - 1] * (n - i - k + 1) / (n - i)
    return float(np.exp(chance @ np.log(sorted_times)))


def _spearman(a: FloatArray, b: FloatArray) -> float:
    from scipy.stats import rankdata

    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])


def geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values)))) if len(values) else float("nan")
