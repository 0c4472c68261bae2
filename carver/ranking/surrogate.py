"""Rankings after some of their candidates were measured (`Ranking.learn`), profiles carried from shape to shape, and
prices of configurations that were not compiled, from those that were: a Gaussian process over configurations.

A list is a few dozen points in as many dimensions as it has tunables. The logarithm of the price, and so what of the
best one's speed those near it lack, is the sum of one function of each axis and one function of all axes together, each
with a Matern 3/2 covariance. The axes are the tunables themselves and four numbers that need no compiler: programs of
the grid, elements of a tile that a thread gets, how full the last wave is, and warps that an SM has at a time. Scales
belong to the kind of an axis, not to a kernel; SCALES says where they come from. What to compile next is the expected
improvement (Jones, Schonlau and Welch, 1998) times the probability that the compiler does not refuse.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from ..base.errors import ConfigError, NoCandidates
from ..base.given import shown
from ..base.types import FloatArray, Record
from ..cost.learn import KERNEL_OFFSET
from .hint import Hint, Update
from .profile import WITHIN, Given, Learnt, Prior, Profile, profile_of
from .ranking import Ranking

LEVEL = 2.0
"""Prior standard deviation of a list's level. [ln s]"""
UNSURE = 0.05
"""Variance that is added to the labels of what was compiled (1) and refused (0)."""
LEAST_CHANCE = 0.05
"""No configuration is taken to be refused for certain."""
STARTS = 4
"""Configurations far from each other that are compiled first, at most half of all."""
BATCHES = 3
"""Batches in which the rest is compiled. Each waits for its slowest compiler and starts disassemblers. With two the
first pick of a list loses twice as much, with four no less. Whatever the machine: the order of a list depends on
nothing but the list."""
SM_WARPS = 64
"""Warps that an SM holds, whatever their registers."""
ROOT_2, ROOT_3 = math.sqrt(2.0), math.sqrt(3.0)


class Scale(Record):
    """What an axis of one kind does to ln(price)."""

    joint: float
    """Inverse of the distance over which all axes together change the price. [1 / unit of the axis]"""
    alone: float
    """The same for the function of this axis alone."""
    variance: float
    """Of the function of this axis alone."""


SCALES: Mapping[str, Scale] = {
    "tile": Scale(0.3879, 0.2044, 0.0626),
    "warps": Scale(0.3393, 0.1886, 0.0514),
    "stages": Scale(0.1014, 0.3429, 0.0189),
    "word": Scale(0.5, 0.5, 0.05),
    "count": Scale(0.5, 0.5, 0.05),
    "programs": Scale(0.1266, 0.1009, 0.0220),
    "thread": Scale(0.3707, 0.2133, 0.2435),
    "waves": Scale(0.4679, 0.3826, 0.0398),
    "held": Scale(0.2177, 0.4550, 0.1735),
}
"""By kind of an axis. The maximum of the likelihood of the prices of fla-core's lists of 20 to 60 entries in
`tests/data`; `python benchmarks/few_compiles.py fit` repeats it, and `score` reports the lists of other libraries.
fla-core's have no words and no counts (numbers that are none of a tile): these two have the prior's scales."""
JOINT_VARIANCE = 0.0749
NOISE = 0.0341
"""Standard deviation of a price about these functions. [ln s]"""


KINDS: Mapping[str, str] = {"num_warps": "warps", "num_stages": "stages"}
"""Kinds by name of what is no tile."""


class Axes(Record):
    """Configurations as points; see `axes_of`."""

    columns: FloatArray
    """Of shape (configurations, axes)."""
    kinds: tuple[str, ...]
    tunables: int
    """The first so many axes are tunables; the others follow from them."""

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def thread(self) -> FloatArray:
        """Elements of a tile that a thread gets, in doublings: of how many code is longest and takes longest."""
        return self.columns[:, self.kinds.index("thread")]

    def longest_first(self, places: Iterable[int]) -> list[int]:
        """In an order in which none that takes long to compile begins when the others end."""
        thread = self.thread
        return sorted(places, key=lambda place: -thread[place])


def axes_of(
    configs: Sequence[Mapping[str, Any]], programs: Sequence[float], multiprocessors: int,
    given: Mapping[str, str] = KINDS,
) -> Axes:  # fmt: skip
    """The tunables that differ between configurations, numbers in doublings, and what follows from them for a grid of
    so many `programs` each. Of stages the axis is the share of a load's latency that they leave, 4 of two stages.

    `given`: kinds of tunables by name; of others a number is one of a tile.
    """
    columns: list[FloatArray] = []
    kinds: list[str] = []
    tile = np.zeros(len(configs))
    for name in dict.fromkeys(name for config in configs for name in config):
        values = [config.get(name) for config in configs]
        words = list(dict.fromkeys(map(repr, values)))
        if len(words) < 2:
            continue
        kind = given.get(name, "tile")
        if kind == "word" or not all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
            columns += [np.array([float(repr(value) == word) for value in values]) for word in words]
            kinds += ["word"] * len(words)
            continue
        numbers = np.array(values, float)
        doublings = np.log2(np.maximum(numbers, 0.5))
        if kind == "stages":
            columns.append(4.0 / np.maximum(numbers - 1.0, 0.5))
        else:
            columns.append(np.log2(1.0 + numbers) if kind == "count" else doublings)
        kinds.append(kind)
        if kind == "tile":
            tile = tile + doublings
    tunables = len(columns)
    warps = np.log2([max(float(config.get("num_warps") or 4), 1.0) for config in configs])
    grid = np.maximum(np.asarray(programs, float), 1.0)
    waves = grid / multiprocessors
    held = np.minimum(np.log2(waves) + warps, math.log2(SM_WARPS))
    columns += [np.log2(grid), tile - warps, np.log2(np.ceil(waves) / waves), held]
    return Axes(np.stack(columns, axis=1), (*kinds, "programs", "thread", "waves", "held"), tunables)


def covariance(axes: Axes, left: Sequence[int], right: Sequence[int]) -> FloatArray:
    """Prior covariance of ln(price) between two sets of configurations, of shape (left, right), without LEVEL."""
    a, b = axes.columns[np.asarray(left, int)], axes.columns[np.asarray(right, int)]
    squares, out = np.zeros((len(a), len(b))), np.zeros((len(a), len(b)))
    for i, kind in enumerate(axes.kinds):
        scale, apart = SCALES[kind], ROOT_3 * np.abs(a[:, i, None] - b[None, :, i])
        squares += (scale.joint * apart) ** 2
        out += scale.variance * (1.0 + scale.alone * apart) * np.exp(-scale.alone * apart)
    apart = np.sqrt(squares)
    out += JOINT_VARIANCE * (1.0 + apart) * np.exp(-apart)
    return out


def _prior(axes: Axes) -> float:
    """Prior variance of ln(price) about the list's level."""
    return JOINT_VARIANCE + sum(SCALES[kind].variance for kind in axes.kinds)


def spread(axes: Axes, count: int, hurry: bool = False) -> list[int]:
    """`count` configurations, the first in the middle, each other one where those before it leave the most doubt: the
    pivots of a Cholesky decomposition. In a `hurry` none is of the half whose code is longest."""
    columns, places = axes.columns[:, : axes.tunables], range(len(axes))
    slow = hurry & (axes.thread > np.median(axes.thread))
    doubt = np.full(len(axes), _prior(axes) + LEVEL**2)
    away = np.abs(columns - np.median(columns, axis=0)).sum(axis=1)
    chosen = [int(np.where(slow, np.inf, away).argmin())]
    rows = np.zeros((0, len(axes)))
    while len(chosen) < min(count, len(axes) - int(slow.sum())):
        last = chosen[-1]
        row = covariance(axes, [last], places) + LEVEL**2 - rows[:, last] @ rows
        rows = np.vstack([rows, row / math.sqrt(doubt[last] + NOISE**2)])
        doubt = doubt - rows[-1] ** 2
        left = np.where(slow, -1.0, doubt)
        left[chosen] = -1.0
        chosen.append(int(left.argmax()))
    return chosen


def predicted(axes: Axes, known: Mapping[int, float], places: Sequence[int]) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of ln(price) at `places`, given ln(price) of some configurations."""
    seen = list(known)
    return _posterior(axes, covariance(axes, seen, seen), covariance(axes, seen, places), list(known.values()))


def _posterior(
    axes: Axes, among: FloatArray, across: FloatArray, values: Sequence[float]
) -> tuple[FloatArray, FloatArray]:
    """The same by covariances among what is known, and of that with the places."""
    level = float(np.mean(values))
    root = np.linalg.cholesky(among + LEVEL**2 + NOISE**2 * np.eye(len(among)))
    reach = np.linalg.solve(root, across + LEVEL**2)
    mean = level + reach.T @ np.linalg.solve(root, np.array(values) - level)
    return mean, np.sqrt(np.maximum(_prior(axes) + LEVEL**2 - (reach**2).sum(axis=0), NOISE**2))


def compiles(axes: Axes, refused: Mapping[int, bool], places: Sequence[int]) -> FloatArray:
    """Probability that the compiler does not refuse what is at `places`, from what it refused."""
    seen = list(refused)
    if not any(refused.values()):
        return np.ones(len(places))
    prior = _prior(axes)
    labels = -np.array([float(refused[i]) for i in seen])
    among = covariance(axes, seen, seen) / prior + UNSURE * np.eye(len(seen))
    said = 1.0 + covariance(axes, places, seen) / prior @ np.linalg.solve(among, labels)
    return np.clip(said, LEAST_CHANCE, 1.0)


def below(z: FloatArray) -> FloatArray:
    """Cumulative distribution function of the standard normal distribution; scipy's takes a third of a second to
    import."""
    return np.array([math.erfc(-x / ROOT_2) / 2.0 for x in z])


def gain(z: FloatArray, deviation: FloatArray) -> FloatArray:
    """Expected improvement over a value that is so many standard deviations above the mean, in its unit."""
    return deviation * (z * below(z) + np.exp(-(z**2) / 2.0) / math.sqrt(2.0 * math.pi))


def proposals(axes: Axes, prices: Mapping[int, float | None], places: Sequence[int], count: int) -> list[int]:
    """The `count` of `places` to compile next, the most promising first.

    `prices` has the price of what was compiled, None where it was refused. [s] What is modelled is the share of the
    best one's speed that each lacks: near the best it is the difference of logarithms, and how much slower than twice
    as slow something is says little of where the best lies. Each of a batch is chosen as if those before it had their
    predicted prices (kriging believer; Ginsbourger, Le Riche and Carraro, 2010).
    """
    known = {i: price for i, price in prices.items() if price is not None}
    if not known:
        return list(places[:count])
    least = min(known.values())
    chance = compiles(axes, {i: price is None for i, price in prices.items()}, places)
    values, free = [1.0 - least / price for price in known.values()], np.array([p not in known for p in places])
    among, across = covariance(axes, list(known), list(known)), covariance(axes, list(known), places)
    chosen: list[int] = []
    while len(chosen) < count and free.any():
        mean, deviation = _posterior(axes, among, across, values)
        at = int(np.where(free, gain(-mean / deviation, chance * deviation), -1.0).argmax())
        chosen.append(places[at])
        values.append(float(mean[at]))
        free[at] = False
        own, row = covariance(axes, [places[at]], [places[at]]), across[:, [at]]
        among = np.block([[among, row], [row.T, own]])
        across = np.vstack([across, covariance(axes, [places[at]], places)])
    return chosen


class Price(Record):
    """What is known of a configuration that was compiled."""

    seconds: float | None
    """None where it was refused."""
    code: str = ""
    """A hash of its machine code."""


Pricer = Callable[[list[int]], Mapping[int, Price]]
"""Compiles the configurations at some places; fewer prices than places where it was stopped."""


def explored(axes: Axes, price: Pricer, most: int, batch: int | None = None, wide: int = 0) -> dict[int, Price]:
    """Prices of at most `most` configurations, those far apart first, then the promising ones. `price` is given about
    `batch` places at a time. What is refused leaves its place to another, but no more than double are tried, and in the
    end none for fewer than half of a `wide` batch.

    `wide`: so many take no longer than one, and somebody waits. Then batches are of so many at least, two of them at
    least, and of the half with the longest code none is begun with: by measured times that loses nothing, by prices
    0.2 % of the first pick's.
    """
    most = max(most, min(2 * wide, len(axes)))
    starts = spread(axes, min(max(STARTS, wide), max(most // 2, 1)), wide > 0)
    batch = batch or max(math.ceil((most - len(starts)) / BATCHES), wide)
    prices = dict(price(starts))
    while (left := most - sum(known.seconds is not None for known in prices.values())) and len(prices) < 2 * most:
        if wide and len(prices) >= most and 2 * left < batch:
            break
        chosen = promising(axes, prices, range(len(axes)), min(batch, left))
        if not chosen:
            break
        prices |= price(chosen)
    return prices


def promising(axes: Axes, prices: Mapping[int, Price], places: Sequence[int], count: int) -> list[int]:
    """The `proposals` among `places` that have no price yet. Where every two that differ in one axis alone have equal
    code, one place on that axis stands for all."""
    stand = _stand_ins(axes, prices)
    left = [place for place in places if place not in prices and place not in stand]
    return proposals(axes, {place: known.seconds for place, known in prices.items()}, left, count)


def _stand_ins(axes: Axes, prices: Mapping[int, Price]) -> dict[int, int]:
    """Places that have the code of one that was compiled, as far as is known: by what changed no code so far."""
    columns, seen = axes.columns[:, : axes.tunables], [i for i, known in prices.items() if known.seconds is not None]
    idle = np.zeros(axes.tunables, bool)
    for axis in range(axes.tunables):
        pairs = [(i, j) for i, j in combinations(seen, 2) if list(np.flatnonzero(columns[i] != columns[j])) == [axis]]
        idle[axis] = bool(pairs) and all(prices[i].code == prices[j].code for i, j in pairs)
    if not idle.any():
        return {}
    known = {tuple(columns[i, ~idle]): i for i in prices}
    rows = [tuple(row) for row in columns[:, ~idle].tolist()]
    return {i: known[row] for i, row in enumerate(rows) if row in known and i not in prices}


Times = Mapping[int, float | None] | Mapping[Hint, float | None]
FAILED = "it was measured and did not run"


def learn(ranking: Ranking, times: Times) -> Ranking:
    """Rank the same candidates again, with what these measurements of them teach.

    `times` maps a configuration's place in the list given to `rank` or `rank_kernel` (`Hint.index`), or a hint, to its
    measured time in ms. None means that it did not run; it is then removed from the ranking. What the ranking learnt
    before is kept. The predicted time of a measured candidate becomes its measured time, with a band of the
    repeatability of timings; all others and their bands follow from `carver.cost.learn`. Raises ConfigError for a
    candidate that the ranking does not have and for a value that is not a time, NoCandidates if no candidate is left.
    """
    known = _by_row(ranking, times)
    priors = _priors(ranking)
    new = [prior.measured(row, known[row]) for prior in priors for row in prior.of if row in known]
    before = ranking.learnt.profile if ranking.learnt else Profile(ranking.table.of, ranking.arch.name)
    return _ranked(ranking, before.with_measured(new), priors)


def with_profile(ranking: Ranking, profile: Given | None) -> Ranking:
    """A new ranking by an earlier profile; the same ranking if that has no measurements."""
    if profile is None:
        return ranking
    return _ranked(ranking, profile_of(profile, ranking.table.of, ranking.arch.name), _priors(ranking))


def _priors(ranking: Ranking) -> list[Prior]:
    """The ranking's candidates by kernel."""
    rows = ranking.rows
    if ranking.learnt is None:
        return ranking.table.learnable(rows)
    left = set(rows)
    return [prior for prior in (prior.where(left) for prior in ranking.learnt.priors) if prior.of]


def _by_row(ranking: Ranking, times: Times) -> dict[int, float | None]:
    """The times by the candidate's row in the ranking's table."""
    if not isinstance(times, Mapping):
        raise ConfigError(f"learn takes a mapping of places (hint.index) or hints to ms, got {type(times).__name__}")
    table, by_index = ranking.table, dict[int, list[int]]()
    for row, index in zip(ranking.rows, ranking.indices, strict=True):
        for place in (index, *table.also.get(row, ())):
            by_index.setdefault(place, []).append(row)
    out: dict[int, float | None] = {}
    for which, ms in times.items():
        if isinstance(which, Hint):
            here = table.hints(rows := by_index.get(which.index, []), [0] * len(rows))
            own = [
                row for row, hint in zip(rows, here, strict=True)
                if (hint.kernel, hint.config) == (which.kernel, which.config)
            ]  # fmt: skip
        else:
            own = [] if isinstance(which, bool) else by_index.get(which, [])
        if len(own) != 1:
            none = "is none of them: times are by hint, or by hint.index"
            why = "is that of several kernels' candidates: give hints in place of places" if own else none
            raise ConfigError(f"this ranking has {len(ranking)} candidates; {shown(which)} {why}")
        out[own[0]] = ms
    return out


def _ranked(ranking: Ranking, profile: Profile, priors: Sequence[Prior]) -> Ranking:
    updates: dict[int, Update] = {}
    failed: set[int] = set()
    for prior in priors:
        profile, own, lost = prior.updates(profile)
        updates |= own
        failed |= lost
    table, left = ranking.table, [row for row in ranking.rows if row not in failed]
    reasons = {int(place): FAILED for row in failed for place in (table.index[row], *table.also.get(row, ()))}
    if not left:
        raise NoCandidates(f"{ranking.subject} on {ranking.arch.name}", {FAILED: len(reasons)})
    seconds = [updates[row].seconds if row in updates else float(table.seconds[row]) for row in left]
    order = [left[i] for i in np.argsort(seconds, kind="stable")]
    return replace(
        ranking, order=order, places=None, learnt=Learnt(profile, updates, priors), _hints={},
        reasons={**ranking.reasons, **reasons},
        removed=dict(Counter(ranking.rejected) + Counter({FAILED: len(reasons)})),
    )  # fmt: skip


def chances(ranking: Ranking, seconds: float) -> FloatArray:
    """For each hint, in order, the probability that it takes less than `seconds`."""
    return below(_deviations(ranking, seconds)[0])


def to_measure(ranking: Ranking, tried: Collection[int], best_s: float, count: int) -> list[int]:
    """Positions (`Hint.index`) of the candidates to measure next, at most `count`.

    They are the one with the least predicted time, and those with the largest expected improvement over it and over
    `best_s`, the best measured time so far. If `best_s` is inf, they are those with the least predicted times. Source
    of the criterion: Jones, Schonlau and Welch, Efficient Global Optimization of Expensive Black-Box Functions, 1998.
    """
    left = np.array([place for place, i in enumerate(ranking.indices) if i not in tried], int)
    if math.isfinite(best_s) and count < len(left):
        z, width = (x[left] for x in _deviations(ranking, min(best_s, float(ranking.seconds[left[0]]))))
        left = np.concatenate([left[:1], left[1:][np.argsort(-gain(z, width)[1:], kind="stable")]])
    return [ranking.indices[place] for place in left[:count]]


def _deviations(ranking: Ranking, seconds: float) -> tuple[FloatArray, FloatArray]:
    """For each hint, by how many standard deviations its ln(time) is below that of `seconds`, and these deviations."""
    updates = ranking.learnt.updates if ranking.learnt else {}
    widths = np.array([updates[row].half_band / WITHIN if row in updates else KERNEL_OFFSET for row in ranking.rows])
    return (math.log(seconds) - np.log(ranking.seconds)) / widths, widths
