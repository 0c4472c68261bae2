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

from ..base.types import BoolArray, FloatArray, IntArray
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
    (moved, gap, own) for moved in (0.0, 0.5, 1.0, 2.0) for gap in (0.0, 0.03, 0.06, 0.12, 0.24) for own in (0.02, 0.05)
]
"""Factor on the prior deviations of constants; deviations of the discrepancy and of the own error. [ln s]"""
REPEATABLE = 0.01
"""Standard deviation of a time that is measured again. [ln s]"""
MOST_SEEN = 150
"""Measurements of one kernel that are learnt from, the latest."""
PAYS = 0.01
"""What earlier problems teach is carried to another if it picks faster by this share, in the mean, on each of them, and
explains more of their times."""
PARTS = 4
"""Of the measurements of a single problem: each is told by the others in place of problems."""
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
    if not carries(seen.where(~own), log_s[~own], here.get("kind")):
        seen, log_s = seen.where(own), log_s[own]
    return posterior(candidates, seen, log_s) if len(seen) and len(candidates) else None


def carries(seen: Rows, log_s: FloatArray, kind: object = None) -> bool:
    """Whether what was measured of all problems but one says more of that one than the start does.

    Each of the latest problems in turn is told by the others. Its times have to be explained better, but for a common
    factor, and the measured candidate with the least predicted time has to be faster than the start's by PAYS, in the
    mean; of those of this kind, not slower by as much. Of a single problem, parts of what was measured are told by the
    rest, and have to be explained better.
    """
    number = _numbered(seen.problems)
    each = [number == i for i in dict.fromkeys(number[::-1].tolist())]
    several = len(each) > 1
    judged = [rows for rows in each[:LATEST_PROBLEMS] if rows.sum() > 1]
    if len(seen) < PARTS or not judged:
        return False
    start = seen.log_s
    parts = judged if several else [np.arange(len(seen)) % PARTS == i for i in range(PARTS)]
    told = _told_by_others(seen, log_s, parts)
    left, wrong = ([np.var((log_s - said)[rows]) + REPEATABLE**2 for rows in judged] for said in (told, start))
    gains = np.array([log_s[rows][start[rows].argmin()] - log_s[rows][told[rows].argmin()] for rows in judged])
    alike = [seen.problems[rows.argmax()].get("kind") == kind for rows in judged]
    pays = gains.mean() > PAYS and (gains[alike] + PAYS).sum() >= 0
    return bool(np.log(left).mean() < np.log(wrong).mean() and (pays or not several))


def posterior(candidates: Rows, seen: Rows, log_s: FloatArray) -> Posterior:
    """Of the times of `candidates`, after `seen` were measured to take exp(log_s) seconds.

    A candidate of which the very problem and configuration were measured has that time.
    """
    seen, wrong = _latest(seen, log_s)
    names, (left, right) = _aligned(candidates.names, seen.names, candidates.slopes, seen.slopes)
    variance = prior_deviation(names) ** 2
    towards = _shared(candidates, seen)
    alone = (left**2) @ variance, KERNEL_OFFSET**2 + PROBLEM_OFFSET**2
    among = _shared(seen, seen)
    found = [(scales, *_whitened(among, wrong, scales)) for scales in GRID]
    share = _weights([evidence for *_, evidence in found])
    means, spreads, shifts, widths = [], [], [], []
    for (scales, whiten, white, _), weight in zip(found, share, strict=True):
        if not weight:
            continue
        moved, gap, error = scales
        gain = whiten @ _covariance(towards, scales).T
        means.append(gain.T @ white)
        spreads.append(moved**2 * alone[0] + alone[1] + gap**2 + error**2 - (gain**2).sum(axis=0))
        taught = whiten @ (right * (moved**2 * variance))
        shifts.append(taught.T @ white)
        widths.append(moved**2 * variance - (taught**2).sum(axis=0))
    share = share[share > 0]
    mean, deviation = _mixed(share, means, spreads)
    shift, width = _mixed(share, shifts, widths)
    return Posterior(candidates.log_s + mean, deviation, names, shift, width)


def _told_by_others(seen: Rows, log_s: FloatArray, left_out: Sequence[BoolArray]) -> FloatArray:
    """ln(time) of the rows of each part, as `posterior` has it from all rows but these; the start's of other rows.

    With P the inverse of the covariance of y, a part of y given the rest has the mean y_part - P_part^-1 (P y)_part and
    the covariance P_part^-1 (Rasmussen and Williams, section 5.4.2).
    """
    out = np.array(seen.log_s)
    known, wrong = _latest(seen, log_s)
    skip = len(seen) - len(known)
    parts = [np.flatnonzero(part[skip:]) for part in left_out]
    shared = _shared(known, known)
    found: list[list[tuple[float, FloatArray]]] = [[] for _ in parts]
    for scales in GRID:
        whiten, white, evidence = _whitened(shared, wrong, scales)
        inverse = whiten.T @ whiten
        pulled = whiten.T @ white
        for part, of_part in zip(parts, found, strict=True):
            own = inverse[np.ix_(part, part)]
            miss = np.linalg.solve(own, pulled[part])
            likely = 0.5 * (float(np.linalg.slogdet(own)[1]) - float(miss @ pulled[part]))
            of_part.append((evidence - likely, wrong[part] - miss))
    for part, of_part in zip(parts, found, strict=True):
        share = _weights([evidence for evidence, _ in of_part])
        out[skip + part] += share @ np.array([mean for _, mean in of_part])
    return out


def _latest(seen: Rows, log_s: FloatArray) -> tuple[Rows, FloatArray]:
    """The last MOST_SEEN rows, and ln(measured / predicted) of them, outliers drawn in."""
    seen = seen.where(slice(-MOST_SEEN, None))
    wrong = log_s[-MOST_SEEN:] - seen.log_s
    middle = float(np.median(wrong))
    return seen, middle + np.clip(wrong - middle, -OUTLIER, OUTLIER)


def _shared(a: Rows, b: Rows) -> tuple[FloatArray, ...]:
    """What rows share, of shape (a, b) each: by constants, by nearness, by offsets, and whether they are equal."""
    names, (left, right) = _aligned(a.names, b.names, a.slopes, b.slopes)
    _, (here, there) = _aligned(a.axes, b.axes, a.places, b.places)
    same, alike = _alike(a.problems, b.problems)
    varied = np.ptp(np.vstack([here, there]), axis=0) > 0
    equal = (_distance(here, there) < 1e-6) * same
    near = _near(here[:, varied], there[:, varied]) * alike
    return (left * prior_deviation(names) ** 2) @ right.T, near, KERNEL_OFFSET**2 + PROBLEM_OFFSET**2 * same, equal


def _covariance(shared: tuple[FloatArray, ...], scales: tuple[float, float, float]) -> FloatArray:
    constants, near, offset, equal = shared
    moved, gap, error = scales
    return moved**2 * constants + gap**2 * near + offset + error**2 * equal


def _whitened(
    among: tuple[FloatArray, ...], wrong: FloatArray, scales: tuple[float, float, float]
) -> tuple[FloatArray, FloatArray, float]:
    """A matrix that makes what was measured independent and of variance 1, that of `wrong`, and the log evidence."""
    root = np.linalg.cholesky(_covariance(among, scales) + REPEATABLE**2 * np.eye(len(wrong)))
    whiten = np.linalg.inv(root)
    white: FloatArray = whiten @ wrong
    evidence = -0.5 * float(white @ white) - float(np.log(np.diag(root)).sum()) - scales[0] - 4.0 * scales[1]
    return whiten, white, evidence


def _weights(evidence: Sequence[float]) -> FloatArray:
    """Of the entries of GRID; nought for those that are far less likely."""
    weights = np.exp(np.array(evidence) - max(evidence))
    weights = np.where(weights > LEAST_WEIGHT * weights.sum(), weights, 0.0)
    out: FloatArray = weights / weights.sum()
    return out


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


def _numbered(*rows: Sequence[Mapping[str, Any]]) -> IntArray:
    """The place of each problem among those that differ, of all rows after one another."""
    known: dict[int, int] = {}
    kinds: list[Mapping[str, Any]] = []
    for problem in (each for some in rows for each in some):
        if id(problem) not in known:
            if problem not in kinds:
                kinds.append(problem)
            known[id(problem)] = kinds.index(problem)
    return np.array([known[id(problem)] for some in rows for problem in some], np.int64)


def _alike(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]) -> tuple[FloatArray, FloatArray]:
    """Whether rows are of one problem, and the correlation of their discrepancies for that."""
    number = _numbered(a, b)
    every = [*a, *b]
    kinds = [every[i] for i in np.unique(number, return_index=True)[1]]
    far = np.array([[_far(x, y) for y in kinds] for x in kinds])
    left, right = number[: len(a)], number[len(a) :]
    same = (left[:, None] == right).astype(float)
    squares = far[np.ix_(left, right)]
    return same, OWN_PROBLEM * same + (1.0 - OWN_PROBLEM) * np.exp(-squares / (2.0 * SIZE_OCTAVES**2))


def _far(a: Mapping[str, Any], b: Mapping[str, Any]) -> float:
    """Squared distance of two problems in doublings."""
    total = 0.0
    for name in {*a, *b}:
        x, y = a.get(name, 1), b.get(name, 1)
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (x, y))
        total += (place(x) - place(y)) ** 2 if numbers else SIZE_OCTAVES**2 * (x != y)
    return total
