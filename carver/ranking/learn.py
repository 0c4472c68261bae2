"""Rankings after some of their candidates were measured: `Ranking.learn`, and profiles carried from shape to shape."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..base.errors import ConfigError, NoCandidates
from ..base.given import shown
from ..base.types import FloatArray
from ..cost.learn import KERNEL_OFFSET
from .hint import Hint, Told
from .profile import WITHIN, Given, Learnt, Part, Profile, profile_of
from .ranking import Ranking
from .surrogate import below, gain

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
    parts = _parts(ranking)
    new = [part.measured(row, known[row]) for part in parts for row in part.of if row in known]
    before = ranking.learnt.profile if ranking.learnt else Profile(ranking.table.of, ranking.arch.name)
    return _ranked(ranking, before.with_measured(new), parts)


def with_profile(ranking: Ranking, profile: Given | None) -> Ranking:
    """A new ranking by an earlier profile; the same ranking if that has no measurements."""
    if profile is None:
        return ranking
    return _ranked(ranking, profile_of(profile, ranking.table.of, ranking.arch.name), _parts(ranking))


def _parts(ranking: Ranking) -> list[Part]:
    """The ranking's candidates by kernel."""
    rows = ranking.rows
    if ranking.learnt is None:
        return ranking.table.learnable(rows)
    left = set(rows)
    return [part for part in (part.where(left) for part in ranking.learnt.parts) if part.of]


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


def _ranked(ranking: Ranking, profile: Profile, parts: Sequence[Part]) -> Ranking:
    told: dict[int, Told] = {}
    failed: set[int] = set()
    for part in parts:
        profile, said, lost = part.told(profile)
        told |= said
        failed |= lost
    table, left = ranking.table, [row for row in ranking.rows if row not in failed]
    reasons = {int(place): FAILED for row in failed for place in (table.index[row], *table.also.get(row, ()))}
    if not left:
        raise NoCandidates(f"{ranking.subject} on {ranking.arch.name}", {FAILED: len(reasons)})
    seconds = [told[row].seconds if row in told else float(table.seconds[row]) for row in left]
    order = [left[i] for i in np.argsort(seconds, kind="stable")]
    return replace(
        ranking, order=order, places=None, learnt=Learnt(profile, told, parts), _hints={},
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
    bands = ranking.half_bands
    widths = np.where(np.isnan(bands), KERNEL_OFFSET, bands / WITHIN)
    return (math.log(seconds) - np.log(ranking.seconds)) / widths, widths
