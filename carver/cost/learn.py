"""Predict unmeasured candidates from measured ones: a Gaussian process around the cost model.

    ln(measured / predicted) = offset of the kernel + offset of the problem + slopes x + discrepancy + own error

x holds the logarithms of the model's constants relative to their start, with a normal prior. The slopes are the
sensitivities d ln(predicted) / d ln(constant): a measured candidate corrects the constants that it depends on, and
through them every candidate that depends on the same ones. The discrepancy is what no constant explains. It is similar
for similar configurations, most of all within a problem, and less the more the sizes differ. The own error is
independent for each candidate.

Three scales are unknown: how far constants may move, and the deviations of the discrepancy and of the own error. The
result is averaged over their values in GRID, weighted by the evidence of the measurements. Few measurements, or ones
that the model already explains, leave its predictions as they are.

Source of the structure: Kennedy and O'Hagan, Bayesian calibration of computer models, 2001, with the model linear in
its constants around their start; Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapter 2.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ..base.types import BoolArray, FloatArray, IntArray, Record
from ..kernels.expr import size_scope, static_scope
from ..kernels.space import Space
from .estimate import estimate
from .model import CONSTANTS, constants_of, model_of, resolve

STEP = 0.05
"""Step of ln(constant) to either side, for derivatives. Smaller steps vanish where the model rounds up."""
PRIOR_SHARE, PRIOR_MOST = 0.15, 0.35
"""Prior standard deviation of ln(constant): a share of the logarithm of its range, and an upper limit."""
KERNEL_OFFSET, PROBLEM_OFFSET = 0.2, 0.1
"""Standard deviations of a factor common to all candidates of a kernel, and of one common to a problem. [ln s]"""
NEAR_OCTAVES = 1.0
"""Distance between configurations at which the correlation of their discrepancies is 1/e. [doublings of tunables]"""
EACH = 0.5
"""Share of the discrepancy's variance that depends on single tunables, whatever the values of the others."""
WORD_OCTAVES = 4.0
"""Coordinate of a word on its own axis: two words of a tunable are as unlike as numbers of which one is 50 times the
other. [doublings]"""
SIZE_OCTAVES = 16.0
"""Standard deviation of the Gaussian correlation between problems, over their distance. [doublings of sizes]
A parameter that is no number and differs counts as this distance."""
OWN_PROBLEM = 0.25
"""Share of the discrepancy's variance that a problem shares with no other."""
GRID: Sequence[tuple[float, float, float]] = [
    (moved, gap, own) for moved in (0.0, 0.5, 1.0, 2.0) for gap in (0.0, 0.03, 0.06, 0.12, 0.24) for own in (0.02, 0.05)
]
"""The scales to average over: a factor on the constants' prior deviations, the deviation of the discrepancy, and that
of the own error. [1, ln s, ln s]"""
OFFSETS = [scales for scales in GRID if not any(scales[:2])]
"""Those by which only factors of a kernel and of a problem are learnt."""
REPEATABLE = 0.01
"""Standard deviation of repeated measurements of one candidate. [ln s]"""
MOST_SEEN = 150
"""Only this many measurements of a kernel are used, the latest."""
PAYS = 0.01
"""What other problems teach is used only if, tried on each of them in turn, it picks candidates that are faster by this
share in the mean. It must also explain their times better."""
PARTS = 4
"""With measurements of one problem only, they are divided into this many parts, and each is predicted from the rest."""
LATEST_PROBLEMS = 8
"""Number of problems, the latest, on which that is tried."""
OUTLIER = 0.7
"""Distance from the median of measured / predicted to which outliers are clipped. A candidate many times slower than
predicted has a cause of its own, such as another path of the code, which says nothing of the others. [ln s]"""
LEAST_WEIGHT = 1e-3
"""Entries of GRID with less posterior probability than this are left out."""


class Rows(Record):
    """Candidates of one kernel as inputs of the Gaussian process. A name that other rows have and these lack counts
    as 0 here."""

    names: tuple[str, ...]
    """Names of the constants: the columns of `slopes`."""
    log_s: FloatArray
    """Predicted time with the constants at their start. [ln s]"""
    slopes: FloatArray
    axes: tuple[str, ...]
    """Names of the tunables: the columns of `places`."""
    places: FloatArray
    """Coordinates of the configurations. [doublings]"""
    problems: tuple[Mapping[str, Any], ...]
    """Sizes and kind of each row's problem."""

    def __len__(self) -> int:
        return len(self.log_s)

    def where(self, keep: Any) -> Rows:
        rows = np.arange(len(self))[keep]
        problems = tuple(self.problems[i] for i in rows)
        return Rows(self.names, self.log_s[rows], self.slopes[rows], self.axes, self.places[rows], problems)


class Posterior(Record):
    """Mean and deviation of each candidate's ln(time), and of each constant's logarithm relative to its start."""

    mean: FloatArray
    deviation: FloatArray
    names: tuple[str, ...]
    moved: FloatArray
    moved_deviation: FloatArray


def place(value: float) -> float:
    """Coordinate of a number: its log2, and below 1 what goes on from there, so that no two numbers share one."""
    if value >= 1:
        return math.log2(value)
    return value - 1.0 if value > -1 else -2.0 - math.log2(-value)


def places(configs: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, ...], FloatArray]:
    """The names of all axes, and the coordinates of the configurations, of shape (configurations, names).

    A tunable's numbers are on one axis, and count as 0 where it is missing. Each of its words has an axis of its own:
    all words are as far from each other.
    """
    rows: list[dict[str, float]] = [{} for _ in configs]
    missing: dict[str, float] = {}
    for row, config in zip(rows, configs, strict=True):
        for name, value in config.items():
            number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
            axis = name if number else f"{name}={json.dumps(value, default=str)}"
            row[axis] = place(value) if number else WORD_OCTAVES
            missing[axis] = place(0) if number else 0.0
    found = [[row.get(axis, far) for axis, far in missing.items()] for row in rows]
    return tuple(missing), np.array(found).reshape(-1, len(missing))


def slopes(
    seconds: Callable[[Mapping[str, float]], FloatArray], names: Sequence[str], constants: Mapping[str, float]
) -> FloatArray:
    """d ln(seconds) / d ln(constant) at `constants`, of shape (candidates, names); 0 where the bounds leave no room."""
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
    """Prior standard deviation of each constant's logarithm."""
    ranges = [(CONSTANTS[n].prior, CONSTANTS[n].low, CONSTANTS[n].high) for n in names]
    widths = [math.log(high / max(low, (prior or high) / 10)) for prior, low, high in ranges]
    return np.minimum(PRIOR_SHARE * np.array(widths), PRIOR_MOST)


def learnt(candidates: Rows, seen: Rows, log_s: FloatArray) -> Posterior | None:
    """`posterior` of candidates of one problem; of measurements of other problems only their common factor is used
    where `carries` does not allow more, and not even that where they have none (`agree`).

    None if no measurement is left to learn from.
    """
    if not len(candidates):
        return None
    here = candidates.problems[0]
    own = np.array([problem == here for problem in seen.problems], bool)
    others, told = seen.where(~own), log_s[~own]
    if carries(others, told, here.get("kind")):
        return posterior(candidates, seen, log_s)
    seen, log_s = seen.where(own), log_s[own]
    if not agree(others, told):
        return posterior(candidates, seen, log_s) if len(seen) else None
    level = posterior(candidates, others, told, OFFSETS)
    if not len(seen):
        return level
    factor = level.mean[0] - candidates.log_s[0]
    moved, known = (replace(each, log_s=each.log_s + factor) for each in (candidates, seen))
    return posterior(moved, known, log_s)


def agree(seen: Rows, log_s: FloatArray) -> bool:
    """Whether the factors of problems, measured over predicted, are alike: each is predicted as the mean of the others,
    and that explains half of their squares or more."""
    number = _numbered(seen.problems)
    own = np.array([np.median((log_s - seen.log_s)[number == i]) for i in range(number.max(initial=-1) + 1)])
    others = (own.sum() - own) / max(len(own) - 1, 1)
    return bool(len(own) > 1 and ((own - others) ** 2).sum() < 0.5 * (own**2).sum())


def carries(seen: Rows, log_s: FloatArray, kind: object = None) -> bool:
    """Whether measurements of other problems predict a problem better than the unchanged model does.

    Each of the latest problems is predicted from all others. Two things must hold in the mean over them. Their times
    are explained better, apart from a common factor. And the candidate that is predicted fastest is by PAYS faster
    than the one that the unchanged model picks; for problems of this `kind`, at least not slower by as much.

    With a single problem, each part of its measurements is predicted from the rest, and must be explained better.
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


def posterior(
    candidates: Rows, seen: Rows, log_s: FloatArray, grid: Sequence[tuple[float, float, float]] = GRID
) -> Posterior:
    """Distribution of the times of `candidates`, given that the rows `seen` were measured to take exp(log_s) seconds.

    A candidate whose problem and configuration were both measured has the measured time, up to REPEATABLE.
    """
    seen, wrong = _latest(seen, log_s)
    names, (left, right) = _aligned(candidates.names, seen.names, candidates.slopes, seen.slopes)
    variance = prior_deviation(names) ** 2
    towards = _shared(candidates, seen)
    alone = (left**2) @ variance, KERNEL_OFFSET**2 + PROBLEM_OFFSET**2
    among = _shared(seen, seen)
    found = [(scales, *_whitened(among, wrong, scales)) for scales in grid]
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
    """ln(time) of each part's rows as `posterior` predicts it from all rows outside the part. Rows in no part keep the
    unchanged model's time.

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
    """The last MOST_SEEN rows, and their ln(measured / predicted) with outliers clipped."""
    seen = seen.where(slice(-MOST_SEEN, None))
    wrong = log_s[-MOST_SEEN:] - seen.log_s
    middle = float(np.median(wrong))
    return seen, middle + np.clip(wrong - middle, -OUTLIER, OUTLIER)


def _shared(a: Rows, b: Rows) -> tuple[FloatArray, ...]:
    """Terms of the covariance between the rows of `a` and `b`, each of shape (a, b).

    They are due to constants, to the discrepancy (scaled to 1) and to offsets; the last is 1 where problem and
    configuration are equal.
    """
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
    """The whitening matrix (with it, the measurements are independent and of variance 1), `wrong` whitened, and the
    log evidence of these scales."""
    root = np.linalg.cholesky(_covariance(among, scales) + REPEATABLE**2 * np.eye(len(wrong)))
    whiten = np.linalg.inv(root)
    white: FloatArray = whiten @ wrong
    evidence = -0.5 * float(white @ white) - float(np.log(np.diag(root)).sum()) - scales[0] - 4.0 * scales[1]
    return whiten, white, evidence


def _weights(evidence: Sequence[float]) -> FloatArray:
    """Posterior weights of the entries of GRID, 0 for improbable ones."""
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
    """The columns of both matrices under the union of their names; missing columns are 0."""
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
    """Correlation of the discrepancies of two configurations: partly of each tunable alone, partly of all together."""
    whole: FloatArray = np.exp(-_distance(a, b) / NEAR_OCTAVES)
    if not a.shape[1]:
        return whole
    each = np.exp(-np.abs(a[:, None] - b[None]) / NEAR_OCTAVES).mean(axis=2)
    out: FloatArray = EACH * each + (1.0 - EACH) * whole
    return out


def _numbered(*rows: Sequence[Mapping[str, Any]]) -> IntArray:
    """Number the distinct problems; returns the number of each row's problem, all sequences concatenated."""
    known: dict[int, int] = {}
    kinds: list[Mapping[str, Any]] = []
    for problem in (each for some in rows for each in some):
        if id(problem) not in known:
            if problem not in kinds:
                kinds.append(problem)
            known[id(problem)] = kinds.index(problem)
    return np.array([known[id(problem)] for some in rows for problem in some], np.int64)


def _alike(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]) -> tuple[FloatArray, FloatArray]:
    """For each pair of rows: 1 if they are of one problem, and the factor of their problems on the correlation."""
    number = _numbered(a, b)
    every = [*a, *b]
    kinds = [every[i] for i in np.unique(number, return_index=True)[1]]
    far = np.array([[_far(x, y) for y in kinds] for x in kinds])
    left, right = number[: len(a)], number[len(a) :]
    same = (left[:, None] == right).astype(float)
    squares = far[np.ix_(left, right)]
    return same, OWN_PROBLEM * same + (1.0 - OWN_PROBLEM) * np.exp(-squares / (2.0 * SIZE_OCTAVES**2))


def _far(a: Mapping[str, Any], b: Mapping[str, Any]) -> float:
    """Squared distance between two problems. [doublings^2]"""
    total = 0.0
    for name in {*a, *b}:
        x, y = a.get(name, 1), b.get(name, 1)
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (x, y))
        total += (place(x) - place(y)) ** 2 if numbers else SIZE_OCTAVES**2 * (x != y)
    return total


RANKING_WIDTH = 0.4
"""A candidate this much slower than the best of its problem counts half as much (its weight is 1/sqrt(2))."""
PRIOR = 0.003
"""Weight per candidate that pulls a constant to its start; squared log errors of the candidates weigh against it."""
TRUSTED = 0.1
"""Least weight of that pull, for all candidates together, where the start was itself fitted: then few measurements
move a constant only a little."""
SCALE_WEIGHT = 0.6
"""Weight of a problem's mean log error, relative to the errors in the order of its candidates."""


class Sample(Record):
    """Measured candidates of one kernel on one device, for one or many problems, as a single space."""

    space: Space
    seconds: FloatArray
    problem: IntArray
    """Index from 0 of each candidate's problem."""

    @cached_property
    def weights(self) -> FloatArray:
        """The weight of each candidate, over the root of how many its problem has: faster ones weigh more."""
        count = np.bincount(self.problem)
        best = np.full(len(count), np.inf)
        np.minimum.at(best, self.problem, self.seconds)
        excess = self.seconds / best[self.problem] - 1
        out: FloatArray = 1.0 / np.sqrt(1.0 + (excess / RANKING_WIDTH) ** 2)
        return out


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
    data: Sequence[Sample], names: Sequence[str], start: Mapping[str, float] | None = None, max_evaluations: int = 60,
    *, trusted: bool = False,
) -> dict[str, float]:  # fmt: skip
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
    pull = max(PRIOR * np.sqrt(sum(len(s.seconds) for s in data)), TRUSTED if trusted else 0.0)

    def residuals(x: FloatArray) -> FloatArray:
        k = dict(zip(names, np.exp(x), strict=True))
        return np.concatenate([pull * (x - x0), *(deviations(s, {**b, **k}) for s, b in zip(data, base, strict=True))])

    result = least_squares(
        residuals, x0, bounds=(low, high), loss="soft_l1", f_scale=0.1, diff_step=0.03, max_nfev=max_evaluations,
        ftol=1e-4,  # what lies below moves no constant by as much as timings repeat, and takes as long again
    )  # fmt: skip
    return {name: float(f"{value:.4g}") for name, value in zip(names, np.exp(result.x), strict=True)}


def deviations(sample: Sample, constants: Mapping[str, float]) -> FloatArray:
    """The residuals of `fit` for one sample: those of the candidates, then those of the problems."""
    w, count = sample.weights, np.bincount(sample.problem)
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
        here = deviations(s, base)
        for name in constants_of(s.space.kernel):
            steps = [deviations(s, {**base, name: base[name] * (1 + e)}) - here for e in (-0.1, 0.1)]
            effect[name] += max(float(step @ step) for step in steps) / 0.1**2
    least = (0.01 * PRIOR) ** 2 * sum(len(s.seconds) for s in data)
    return [name for name in CONSTANTS if effect[name] > least]
