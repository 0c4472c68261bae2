"""What measured candidates say of those that were not measured: a Gaussian process around the cost model.

    ln(measured / predicted) = offset of the kernel + offset of the problem + slopes x + discrepancy + own error

x are the logarithms of the model's constants over where they start, a priori normal; slopes are the sensitivities
d ln(predicted) / d ln(constant), so that a candidate teaches the constants it depends on, and through them all others
that do. The discrepancy is what no constant explains: alike for near configurations, more so of one problem, less so of
problems of other sizes. The own error is each candidate's alone. How far constants may move, and how large discrepancy
and own error are, is averaged over GRID by the evidence of the measurements: few, or such as the start explains, leave
it where it is.

Source of the structure: Kennedy and O'Hagan, Bayesian calibration of computer models, 2001, with the model linear in
its constants around their start; Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapter 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.types import FloatArray
from .constants import CONSTANTS

STEP = 0.05
"""Of ln(constant), to either side: less and the model's ceilings hide it."""
PRIOR_SHARE, PRIOR_MOST = 0.15, 0.35
"""Standard deviation of ln(constant): this share of its range, at most so much."""
KERNEL_OFFSET, PROBLEM_OFFSET = 0.2, 0.1
"""Standard deviations of factors on all candidates of a kernel, and of one problem. [ln s]"""
NEAR_OCTAVES = 1.0
"""Distance of configurations, in doublings of tunables, over which the correlation of discrepancies falls to 1/e."""
EACH = 0.5
"""Share of the discrepancy's variance that is of single tunables, whatever the others are."""
SIZE_OCTAVES = 16.0
"""The same of problems, in doublings of sizes; a difference in kind counts as much."""
OWN_PROBLEM = 0.25
"""Share of the discrepancy's variance that is of one problem alone."""
GRID: Sequence[tuple[float, float, float]] = [
    (moved, gap, own) for moved in (0.0, 0.5, 1.0, 2.0) for gap in (0.0, 0.03, 0.06, 0.12) for own in (0.02, 0.05)
]
"""Factor on the prior deviations of constants; deviations of the discrepancy and of the own error. [ln s]"""
REPEATABLE = 0.01
"""Standard deviation of a time that is measured again. [ln s]"""
MOST_SEEN = 150
"""Measurements of one kernel that are learnt from, the latest."""
PAYS = 0.01
"""What earlier problems teach is carried to another if it picks faster by this share, in the mean, on each of them, and
by more than the standard error of that mean."""
PARTS = 4
"""Of the measurements of a single problem: each is told by the others to see whether they explain it."""
LATEST_PROBLEMS = 8
"""Of those that this is tried on."""
OUTLIER = 0.7
"""A measurement further from the middle of measured / predicted counts as if it were so far: what makes a candidate
many times slower than the model has it, as another path of the code does, others do not have a share of. [ln s]"""
LEAST_WEIGHT = 1e-3
"""Entries of GRID that the measurements make less likely than this are left out."""


@dataclass(frozen=True)
class Rows:
    """Candidates of one kernel as the process sees them. Names that one set of rows lacks are nought in it."""

    names: tuple[str, ...]
    """Of constants, the columns of `slopes`."""
    log_s: FloatArray
    """Predicted by the constants at their start. [ln s]"""
    slopes: FloatArray
    axes: tuple[str, ...]
    """Of tunables, the columns of `places`."""
    places: FloatArray
    """In doublings."""
    problems: tuple[Mapping[str, Any], ...]
    """The sizes of each row's problem, and what kind it is."""

    def __len__(self) -> int:
        return len(self.log_s)

    def where(self, keep: Any) -> Rows:
        rows = np.arange(len(self))[keep]
        problems = tuple(self.problems[i] for i in rows)
        return Rows(self.names, self.log_s[rows], self.slopes[rows], self.axes, self.places[rows], problems)

    def followed_by(self, more: Rows) -> Rows:
        names, both = _aligned(self.names, more.names, self.slopes, more.slopes)
        axes, where = _aligned(self.axes, more.axes, self.places, more.places)
        log_s = np.concatenate([self.log_s, more.log_s])
        return Rows(names, log_s, np.vstack(both), axes, np.vstack(where), self.problems + more.problems)


@dataclass(frozen=True)
class Posterior:
    """Of ln(time), one entry a candidate; of the constants' logarithms over their start, one a name."""

    mean: FloatArray
    deviation: FloatArray
    names: tuple[str, ...]
    moved: FloatArray
    moved_deviation: FloatArray


def place(value: object) -> float:
    """A tunable's value on an axis in doublings; of a word, what tells it from others."""
    if isinstance(value, int | float):
        return math.log2(max(float(value), 0.5))
    return float(sum(map(ord, str(value))) % 97)


def places(configs: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, ...], FloatArray]:
    """Axes, and the configurations on them."""
    axes = tuple(dict.fromkeys(name for config in configs for name in config))
    return axes, np.array([[place(config.get(name, 0)) for name in axes] for config in configs]).reshape(-1, len(axes))


def slopes(
    seconds: Callable[[Mapping[str, float]], FloatArray], names: Sequence[str], constants: Mapping[str, float]
) -> FloatArray:
    """d ln(seconds) / d ln(constant) at `constants`, of shape (candidates, names); nought where it has no room."""
    columns = []
    for name in names:
        at, bounds = constants[name], CONSTANTS[name]
        ends = max(at * math.exp(-STEP), min(bounds.low, at)), min(at * math.exp(STEP), max(bounds.high, at))
        if ends[0] <= 0 or ends[1] <= ends[0] * (1 + 1e-9):
            columns.append(np.zeros(len(seconds(constants))))
            continue
        low, high = (np.log(seconds({**constants, name: value})) for value in ends)
        columns.append((high - low) / math.log(ends[1] / ends[0]))
    return np.stack(columns, axis=1)


def prior_deviation(names: Sequence[str]) -> FloatArray:
    """Of the logarithm of each constant."""
    ranges = [(CONSTANTS[n].prior, CONSTANTS[n].low, CONSTANTS[n].high) for n in names]
    widths = [math.log(high / max(low, (prior or high) / 10)) for prior, low, high in ranges]
    return np.minimum(PRIOR_SHARE * np.array(widths), PRIOR_MOST)


def learnt(candidates: Rows, seen: Rows, log_s: FloatArray) -> Posterior | None:
    """`posterior`, of what other problems taught only as far as `carries` says so; None where nothing is left.

    The candidates are of one problem.
    """
    here = candidates.problems[0] if len(candidates) else {}
    own = np.array([problem == here for problem in seen.problems], bool)
    if not carries(seen.where(~own), log_s[~own]):
        seen, log_s = seen.where(own), log_s[own]
    return posterior(candidates, seen, log_s) if len(seen) and len(candidates) else None


def carries(seen: Rows, log_s: FloatArray) -> bool:
    """Whether what was measured of all problems but one picks better on that one than the start does.

    Of each of the latest problems in turn the measured candidate with the least predicted time is taken, once by the
    start and once by what the others taught. Of a single problem, parts of what was measured have to be explained by
    the rest, but for a common factor, better than by the start.
    """
    problems: list[Mapping[str, Any]] = []
    for problem in reversed(seen.problems):
        if problem not in problems:
            problems.append(problem)
    if len(problems) < 2:
        part, wrong = np.arange(len(seen)) % PARTS, log_s - seen.log_s
        if len(seen) < PARTS:
            return False
        left = np.zeros(len(seen))
        for out in (part == i for i in range(PARTS)):
            left[out] = log_s[out] - posterior(seen.where(out), seen.where(~out), log_s[~out]).mean
        return float(np.var(left)) < float(np.var(wrong))
    gains = []
    for problem in problems[:LATEST_PROBLEMS]:
        out = np.array([other == problem for other in seen.problems])
        if out.sum() > 1:
            mean = posterior(seen.where(out), seen.where(~out), log_s[~out]).mean
            gains.append(log_s[out][np.argmin(seen.log_s[out])] - log_s[out][np.argmin(mean)])
    return not gains or float(np.mean(gains)) > max(PAYS, float(np.std(gains)) / math.sqrt(len(gains)))


def posterior(candidates: Rows, seen: Rows, log_s: FloatArray) -> Posterior:
    """Of the times of `candidates`, after `seen` were measured to take exp(log_s) seconds.

    A candidate of which the very problem and configuration were measured has that time.
    """
    seen, log_s = seen.where(slice(-MOST_SEEN, None)), log_s[-MOST_SEEN:]
    names, (left, right) = _aligned(candidates.names, seen.names, candidates.slopes, seen.slopes)
    _, (here, there) = _aligned(candidates.axes, seen.axes, candidates.places, seen.places)
    variance = prior_deviation(names) ** 2
    among, towards = _alike(seen.problems, seen.problems), _alike(candidates.problems, seen.problems)
    by_constants = (right * variance) @ right.T, (left * variance) @ right.T
    varied = np.ptp(np.vstack([here, there]), axis=0) > 0
    by_nearness = [_near(a[:, varied], there[:, varied]) * of[1] for a, of in ((there, among), (here, towards))]
    by_offset = [KERNEL_OFFSET**2 + PROBLEM_OFFSET**2 * each[0] for each in (among, towards)]
    equal = [(_distance(a, there) < 1e-6) * of[0] for a, of in ((there, among), (here, towards))]
    wrong = log_s - seen.log_s
    middle = float(np.median(wrong))
    wrong = middle + np.clip(wrong - middle, -OUTLIER, OUTLIER)
    alone = (left**2) @ variance, KERNEL_OFFSET**2 + PROBLEM_OFFSET**2
    found = []
    for moved, gap, error in GRID:
        inner, outer = (
            moved**2 * constants + gap**2 * nearness + offset + error**2 * same
            for constants, nearness, offset, same in zip(by_constants, by_nearness, by_offset, equal, strict=True)
        )
        root = np.linalg.cholesky(inner + REPEATABLE**2 * np.eye(len(seen)))
        white = np.linalg.solve(root, wrong)
        evidence = -0.5 * float(white @ white) - float(np.log(np.diag(root)).sum()) - moved - 4.0 * gap
        found.append((evidence, moved, gap**2 + error**2, outer, root, white))
    top = max(each[0] for each in found)
    weights = np.exp([each[0] - top for each in found])
    weights = np.where(weights > LEAST_WEIGHT * weights.sum(), weights, 0.0)
    weights /= weights.sum()
    means, spreads, shifts, widths = [], [], [], []
    for weight, (_, moved, rest, outer, root, white) in zip(weights, found, strict=True):
        if not weight:
            continue
        gain = np.linalg.solve(root, outer.T)
        means.append(gain.T @ white)
        spreads.append(moved**2 * alone[0] + alone[1] + rest - (gain**2).sum(axis=0))
        taught = np.linalg.solve(root, right * (moved**2 * variance))
        shifts.append(taught.T @ white)
        widths.append(moved**2 * variance - (taught**2).sum(axis=0))
    share = weights[weights > 0]
    mean, deviation = _mixed(share, means, spreads)
    shift, width = _mixed(share, shifts, widths)
    return Posterior(candidates.log_s + mean, deviation, names, shift, width)


def _mixed(
    share: FloatArray, means: Sequence[FloatArray], variances: Sequence[FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of a mixture of normal distributions."""
    each = np.array(means)
    mean = share @ each
    return mean, np.sqrt(np.maximum(share @ (np.array(variances) + (each - mean) ** 2), REPEATABLE**2))


def _aligned(
    first: Sequence[str], second: Sequence[str], left: FloatArray, right: FloatArray
) -> tuple[tuple[str, ...], list[FloatArray]]:
    """Columns of both under all the names of either."""
    names = tuple(dict.fromkeys([*first, *second]))
    out = []
    for own, columns in ((first, left), (second, right)):
        whole = np.zeros((len(columns), len(names)))
        whole[:, [names.index(name) for name in own]] = columns
        out.append(whole)
    return names, out


def _distance(a: FloatArray, b: FloatArray) -> FloatArray:
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2.0 * a @ b.T
    out: FloatArray = np.sqrt(np.maximum(squares, 0.0))
    return out


def _near(a: FloatArray, b: FloatArray) -> FloatArray:
    """Correlation of the discrepancies of configurations: a part for each tunable, and one for all of them."""
    whole: FloatArray = np.exp(-_distance(a, b) / NEAR_OCTAVES)
    if not a.shape[1]:
        return whole
    each = np.exp(-np.abs(a[:, None] - b[None]) / NEAR_OCTAVES).mean(axis=2)
    out: FloatArray = EACH * each + (1.0 - EACH) * whole
    return out


def _alike(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]) -> tuple[FloatArray, FloatArray]:
    """Whether rows are of one problem, and the correlation of their discrepancies for that."""
    known: dict[int, int] = {}
    kinds: list[Mapping[str, Any]] = []

    def numbered(rows: Sequence[Mapping[str, Any]]) -> list[int]:
        out = []
        for row in rows:
            if id(row) not in known:
                if row not in kinds:
                    kinds.append(row)
                known[id(row)] = kinds.index(row)
            out.append(known[id(row)])
        return out

    left, right = numbered(a), numbered(b)
    far = np.array([[_far(x, y) for y in kinds] for x in kinds])
    squares = far[np.ix_(left, right)]
    same = (np.array(left)[:, None] == np.array(right)).astype(float)
    return same, OWN_PROBLEM * same + (1.0 - OWN_PROBLEM) * np.exp(-squares / (2.0 * SIZE_OCTAVES**2))


def _far(a: Mapping[str, Any], b: Mapping[str, Any]) -> float:
    """Squared distance of two problems in doublings."""
    total = 0.0
    for name in {*a, *b}:
        x, y = a.get(name, 1), b.get(name, 1)
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (x, y))
        total += (place(x) - place(y)) ** 2 if numbers else SIZE_OCTAVES**2 * (x != y)
    return total
