"""Rankings after some of their candidates were measured: `Ranking.learn`, and profiles carried from shape to shape."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any, Protocol, TypeAlias

import numpy as np

from ..base.errors import ConfigError, NoCandidates
from ..base.given import is_number
from ..base.types import FloatArray
from ..cost.check import constants_of
from ..cost.constants import CONSTANTS, resolve
from ..cost.fit import predict
from ..cost.learn import KERNEL_OFFSET, REPEATABLE, Rows, learnt, places, slopes
from ..problem.problem import Problem
from .hint import Hint
from .making import Told
from .profile import Given, Measured, Profile, profile_of
from .ranking import Learnt, Ranking

WITHIN = 1.2816
"""Standard deviations to either side of the mean that contain 80 % of a normal distribution."""

Times = Mapping[int, float | None] | Mapping[Hint, float | None]
Place: TypeAlias = tuple[int, int]
"""(part, row) of a hint of a ranking."""


@dataclass(frozen=True)
class Part:
    """Candidates of one kernel, with their predicted times by the unchanged model."""

    kernel: str
    start: str
    configs: tuple[Mapping[str, Any], ...]
    rows: Rows

    @classmethod
    def of(
        cls, kernel: str, start: str, configs: Sequence[Mapping[str, Any]], problem: Mapping[str, Any],
        seconds: Callable[[Mapping[str, float]], FloatArray], names: Sequence[str], constants: Mapping[str, float],
    ) -> Part:  # fmt: skip
        """`seconds` predicts the times of the configurations from constants; `names` are those that may change."""
        axes, where = places(configs)
        log_s, steep = np.log(seconds(constants)), slopes(seconds, names, constants)
        rows = Rows(tuple(names), log_s, steep, axes, where, (problem,) * len(configs))
        return cls(kernel, start, tuple(configs), rows)

    def where(self, keep: Sequence[bool]) -> Part:
        """Of those that are kept; itself where all are."""
        if all(keep):
            return self
        configs = tuple(config for config, is_kept in zip(self.configs, keep, strict=True) if is_kept)
        return replace(self, configs=configs, rows=self.rows.where(np.array(keep)))

    @property
    def seconds(self) -> FloatArray:
        """Times that the unchanged model predicts. [s]"""
        return np.exp(self.rows.log_s)

    def measured(self, row: int, ms: object) -> Measured:
        """The record of one measurement. Raises ConfigError if `ms` is not a time."""
        rows, config = self.rows, self.configs[row]
        return Measured(
            self.kernel, self.start, rows.problems[row], dict(config), _time(ms, config),
            float(self.seconds[row]) * 1e3, dict(zip(rows.names, map(float, rows.slopes[row]), strict=True)),
        )  # fmt: skip

    def told(self, profile: Profile) -> tuple[Profile, dict[int, Told], set[int]]:
        """Apply a profile. Returns it with the constants that it changed, its predictions for these candidates by row,
        and the rows that did not run."""
        seen = profile.rows(self.kernel, self.start)
        found = learnt(self.rows, *seen) if seen is not None else None
        out: dict[int, Told] = {}
        if seen is not None and found is not None:
            profile = profile.told(self.kernel, found)
            text = f"learnt from {len(seen[0])} measurements on this device"
            pairs = zip(np.exp(found.mean), WITHIN * found.deviation, strict=True)
            out |= {row: Told(float(t), float(width), text) for row, (t, width) in enumerate(pairs)}
        here = self.rows.problems[0] if self.configs else {}
        times = {_key(m.config): m.ms for m in profile.measured if (m.kernel, m.problem) == (self.kernel, here)}
        failed = set()
        for row, key in enumerate(map(_key, self.configs)):
            if (ms := times.get(key)) is not None:
                out[row] = Told(ms / 1e3, WITHIN * REPEATABLE, "measured here")
            elif key in times:
                failed.add(row)
        return profile, out, failed


def learn(ranking: Ranking, times: Times) -> Ranking:
    """Rank the same candidates again, with what these measurements of them teach.

    `times` maps a configuration's place in the list given to `rank` (`Hint.index`), or a hint, to its measured time in
    ms. None means that it did not run; it is then removed from the ranking. What the ranking learnt before is kept. The
    predicted time of a measured candidate becomes its measured time, with a band of the repeatability of timings; all
    others and their bands follow from `carver.cost.learn`. Raises ConfigError for a candidate that the ranking does not
    have and for a value that is not a time, NoCandidates if no candidate is left.
    """
    profile = ranking.learnt.profile if ranking.learnt else Profile(subject(ranking), ranking.arch.name)
    places_of = _places(ranking, times)
    parts = _parts(ranking)
    new = [
        part.measured(row, places_of[at])
        for hints, part in parts for row, at in enumerate(hints) if at in places_of
    ]  # fmt: skip
    return _ranked(ranking, profile.with_measured(new), parts)


def with_profile(ranking: Ranking, profile: Given | None) -> Ranking:
    """A new ranking by an earlier profile; the same ranking if that has no measurements."""
    if profile is None:
        return ranking
    found = profile_of(profile, subject(ranking), ranking.arch.name)
    return _ranked(ranking, found, _parts(ranking))


def subject(ranking: Ranking) -> str:
    """Name of a profile's subject: the operator and backend."""
    return f"{ranking.problem.operator}/{ranking.backend}"


def described(problem: Problem) -> dict[str, Any]:
    """A problem in the form of profiles: its sizes and its kind."""
    return {**problem.sizes, "kind": str(problem.sizeless)}


def started(constants: Mapping[str, float]) -> str:
    """An identifier of the constants that a model starts from."""
    return sha256(json.dumps({k: f"{v:.6g}" for k, v in constants.items()}, sort_keys=True).encode()).hexdigest()[:12]


def _parts(ranking: Ranking) -> list[tuple[Sequence[Place], Part]]:
    """For each kernel, the places of its hints, and its candidates to learn from."""
    if ranking.learnt:
        left = set(ranking.order)
        kept = [(places, part, [at in left for at in places]) for places, part in ranking.learnt.parts]
        return [
            ([at for at, here in zip(places, is_left, strict=True) if here], part.where(is_left))
            for places, part, is_left in kept if any(is_left)
        ]  # fmt: skip
    out: list[tuple[Sequence[Place], Part]] = []
    for number in sorted({part for part, _ in ranking.order}):
        space = ranking.parts[number].space
        hints: list[Place] = [at for at in ranking.order if at[0] == number]
        chosen = space.where(np.array([row for _, row in hints]))
        names = [name for name in CONSTANTS if name in constants_of(space.kernel)]
        constants = resolve(space.kernel, space.arch)
        part = Part.of(
            space.kernel.name, started(constants), [space.config(row) for _, row in hints], described(ranking.problem),
            partial(predict, chosen), names, constants,
        )  # fmt: skip
        out.append((hints, part))
    return out


def _places(ranking: Ranking, times: Times) -> dict[Place, float | None]:
    """The times by the place of their candidate in the ranking."""
    check_times(times)
    by_index: dict[int, list[Place]] = {}
    for part, row in ranking.order:
        by_index.setdefault(int(ranking.parts[part].space.index[row]), []).append((part, row))
    out: dict[Place, float | None] = {}
    for which, ms in times.items():
        if isinstance(which, Hint):
            own = [at for at in by_index.get(which.index, ()) if ranking.parts[at[0]].space.kernel.name == which.kernel]
        else:
            own = by_index.get(which, [])
        if len(own) != 1:
            why = "is that of several kernels' candidates: give hints in place of places" if own else "is none of them"
            raise ConfigError(f"this ranking has {len(ranking)} candidates; {which!r} {why}")
        out[own[0]] = ms
    return out


def check_times(times: object) -> None:
    """Raises ConfigError unless `times` is a mapping."""
    if not isinstance(times, Mapping):
        raise ConfigError(f"learn takes a mapping of places (hint.index) or hints to ms, got {type(times).__name__}")


def _time(ms: object, config: Mapping[str, Any]) -> float | None:
    if ms is None:
        return None
    if not is_number(ms) or not ms > 0:  # type: ignore[operator]
        raise ConfigError(f"a measured time is above 0 ms, or None where it did not run; got {ms!r} for {dict(config)}")
    return float(ms)  # type: ignore[arg-type]


def _ranked(ranking: Ranking, profile: Profile, parts: Sequence[tuple[Sequence[Place], Part]]) -> Ranking:
    told: dict[Place, Told] = {}
    order: list[tuple[float, int, Place]] = []
    before = {at: i for i, at in enumerate(ranking.order)}
    reasons = dict(ranking.reasons)
    count = 0
    for hints, part in parts:
        profile, said, failed = part.told(profile)
        count += len(failed)
        reasons |= {int(ranking.parts[hints[row][0]].space.index[hints[row][1]]): FAILED for row in failed}
        ran = [(row, at) for row, at in enumerate(hints) if row not in failed]
        told |= {at: said[row] for row, at in ran if row in said}
        order += [(said[row].seconds if row in said else part.seconds[row], before[at], at) for row, at in ran]
    if not order:
        raise NoCandidates(f"{ranking.problem} on {ranking.arch.name}", {FAILED: count})
    return replace(
        ranking, order=tuple(at for *_, at in sorted(order)), learnt=Learnt(profile, told, parts), reasons=reasons,
        rejected=dict(Counter(ranking.rejected) + Counter({FAILED: count})),
    )  # fmt: skip


class Learning(Protocol):
    """The common interface of `Ranking` and `KernelRanking`: positions in the given list, times, bands, best first."""

    @property
    def indices(self) -> list[int]: ...
    @property
    def seconds(self) -> FloatArray: ...
    @property
    def half_bands(self) -> FloatArray: ...


def chances(ranking: Learning, seconds: float) -> FloatArray:
    """For each hint, in order, the probability that it takes less than `seconds`."""
    return _below(_deviations(ranking, seconds)[0])


def to_measure(ranking: Learning, tried: Collection[int], best_s: float, count: int) -> list[int]:
    """Positions (`Hint.index`) of the candidates to measure next, at most `count`.

    They are the one with the least predicted time, and those with the largest expected improvement over it and over
    `best_s`, the best measured time so far. If `best_s` is inf, they are those with the least predicted times. Source
    of the criterion: Jones, Schonlau and Welch, Efficient Global Optimization of Expensive Black-Box Functions, 1998.
    """
    left = np.array([place for place, i in enumerate(ranking.indices) if i not in tried], int)
    if math.isfinite(best_s) and count < len(left):
        z, width = (x[left] for x in _deviations(ranking, min(best_s, float(ranking.seconds[left[0]]))))
        gains = width * (z * _below(z) + np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi))
        left = np.concatenate([left[:1], left[1:][np.argsort(-gains[1:], kind="stable")]])
    return [ranking.indices[place] for place in left[:count]]


def _deviations(ranking: Learning, seconds: float) -> tuple[FloatArray, FloatArray]:
    """For each hint, by how many standard deviations its ln(time) is below that of `seconds`, and these deviations."""
    bands = ranking.half_bands
    widths = np.where(np.isnan(bands), KERNEL_OFFSET, bands / WITHIN)
    return (math.log(seconds) - np.log(ranking.seconds)) / widths, widths


def _below(z: FloatArray) -> FloatArray:
    """Cumulative distribution function of the standard normal distribution."""
    out: FloatArray = 0.5 * np.vectorize(math.erfc, otypes=[float])(-z / math.sqrt(2))
    return out


FAILED = "it was measured and did not run"


def _key(config: Mapping[str, Any]) -> str:
    return json.dumps(dict(config), sort_keys=True, default=str)
