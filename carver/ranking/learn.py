"""Rankings after some of their candidates were measured: `Ranking.learn`, and profiles carried from shape to shape."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np

from ..base.errors import ConfigError, NoCandidates
from ..base.types import FloatArray
from ..cost.check import constants_of
from ..cost.constants import CONSTANTS, resolve
from ..cost.fit import predict
from ..cost.learn import KERNEL_OFFSET, REPEATABLE, Posterior, Rows, learnt, places, slopes
from ..kernels.space import Space
from ..problem.problem import Problem
from .hint import Hint
from .profile import Given, Measured, Profile, profile_of
from .ranking import Learnt, Ranking, Told

WITHIN = 1.2816
"""Standard deviations to either side that hold the middle 80 % of a normal distribution."""

Times = Mapping[int, float | None] | Mapping[Hint, float | None]


@dataclass(frozen=True)
class Part:
    """The hints of one kernel in a ranking."""

    kernel: str
    start: str
    hints: tuple[tuple[int, int], ...]
    rows: Rows
    configs: tuple[Mapping[str, Any], ...]


def learn(ranking: Ranking, times: Times) -> Ranking:
    """The same candidates, ranked by what these measurements of them taught.

    `times` maps a configuration's place in the list that was given to `rank` (`Hint.index`), or a hint, to its measured
    time in ms; None where it did not run, which takes it off the ranking. What the ranking learnt before is kept. A
    measured candidate is predicted to take the time that it took, with a band of what timings repeat within; all others
    and their bands follow from `carver.cost.learn`. Raises ConfigError for a candidate that the ranking does not have
    and a time that is none, NoCandidates where nothing is left.
    """
    profile = ranking.learnt.profile if ranking.learnt else profile_of(None, subject(ranking), ranking.arch.name)
    places_of = _places(ranking, times)
    parts = [_part(ranking, number) for number in sorted({part for part, _ in ranking.order})]
    new = []
    for part in parts:
        for row, at in enumerate(part.hints):
            if at in places_of:
                ms = _time(places_of[at], part.configs[row])
                new.append(_measured(part, row, ms))
    return _ranked(ranking, profile.with_measured(new), parts)


def with_profile(ranking: Ranking, profile: Given | None) -> Ranking:
    """A new ranking by what was learnt before; as it is where nothing was."""
    if profile is None:
        return ranking
    found = profile_of(profile, subject(ranking), ranking.arch.name)
    return _ranked(ranking, found, [_part(ranking, number) for number in sorted({part for part, _ in ranking.order})])


def subject(ranking: Ranking) -> str:
    """What a profile of such a ranking is of."""
    return f"{ranking.problem.operator}/{ranking.backend}"


def described(problem: Problem) -> dict[str, Any]:
    """A problem as profiles have it: its sizes, and of what kind it is."""
    return {**problem.sizes, "kind": str(problem.sizeless)}


def started(constants: Mapping[str, float]) -> str:
    """What tells one start from another."""
    return sha256(json.dumps({k: f"{v:.6g}" for k, v in constants.items()}, sort_keys=True).encode()).hexdigest()[:12]


def _part(ranking: Ranking, number: int) -> Part:
    space = ranking.parts[number].space
    hints = tuple(at for at in ranking.order if at[0] == number)
    keep = np.array([row for _, row in hints])
    chosen = _rows(space, keep)
    constants = resolve(space.kernel, space.arch)
    names = [name for name in CONSTANTS if name in constants_of(space.kernel)]
    configs = tuple(space.config(int(row)) for row in keep)
    axes, where = places(configs)
    problem = described(ranking.problem)
    rows = Rows(
        tuple(names), np.log(ranking.parts[number].estimate.seconds[keep]),
        slopes(lambda k: predict(chosen, k), names, constants), axes, where, (problem,) * len(hints),
    )  # fmt: skip
    return Part(space.kernel.name, started(constants), hints, rows, configs)


def _rows(space: Space, keep: Any) -> Space:
    columns = {name: np.asarray(space.columns[name])[keep] for name in space.columns}
    return replace(space, columns=columns, index=space.index[keep])


def _measured(part: Part, row: int, ms: float | None) -> Measured:
    rows = part.rows
    return Measured(
        part.kernel, part.start, rows.problems[row], dict(part.configs[row]), ms, float(np.exp(rows.log_s[row])) * 1e3,
        dict(zip(rows.names, map(float, rows.slopes[row]), strict=True)),
    )  # fmt: skip


def _places(ranking: Ranking, times: Times) -> dict[tuple[int, int], float | None]:
    """Which candidate of the ranking each time is of."""
    if not isinstance(times, Mapping):
        raise ConfigError(f"learn takes a mapping of places (hint.index) or hints to ms, got {type(times).__name__}")
    by_index: dict[int, list[tuple[int, int]]] = {}
    for part, row in ranking.order:
        by_index.setdefault(int(ranking.parts[part].space.index[row]), []).append((part, row))
    out: dict[tuple[int, int], float | None] = {}
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


def _time(ms: object, config: Mapping[str, Any]) -> float | None:
    if ms is None:
        return None
    if isinstance(ms, bool) or not isinstance(ms, int | float) or not 0 < float(ms) < float("inf"):
        raise ConfigError(f"a measured time is above 0 ms, or None where it did not run; got {ms!r} for {dict(config)}")
    return float(ms)


def _ranked(ranking: Ranking, profile: Profile, parts: Sequence[Part]) -> Ranking:
    told: dict[tuple[int, int], Told] = {}
    order: list[tuple[float, int, tuple[int, int]]] = []
    before = {at: i for i, at in enumerate(ranking.order)}
    failed = 0
    reasons = dict(ranking.reasons)
    for part in parts:
        found, measured = posterior_of(part.rows, part.kernel, part.start, profile)
        if found is not None:
            profile = profile.told(part.kernel, found)
        here = part.rows.problems[0] if part.hints else {}
        times = {_key(m.config): m.ms for m in profile.measured if (m.kernel, m.problem) == (part.kernel, here)}
        for row, at in enumerate(part.hints):
            key = _key(part.configs[row])
            if key in times and times[key] is None:
                failed += 1
                reasons[int(ranking.parts[at[0]].space.index[at[1]])] = FAILED
                continue
            log_s, deviation = float(part.rows.log_s[row]), None
            if found is not None:
                log_s, deviation = float(found.mean[row]), float(found.deviation[row])
            if (ms := times.get(key)) is not None:
                log_s, deviation = float(np.log(ms / 1e3)), REPEATABLE
            if deviation is not None:
                text = f"learnt from {measured} measurements on this device" if key not in times else "measured here"
                told[at] = Told(float(np.exp(log_s)), WITHIN * deviation, text)
            order.append((log_s, before[at], at))
    if not order:
        raise NoCandidates(f"{ranking.problem} on {ranking.arch.name}", {FAILED: failed})
    rejected = {**ranking.rejected, **({FAILED: failed + ranking.rejected.get(FAILED, 0)} if failed else {})}
    return replace(
        ranking, order=tuple(at for *_, at in sorted(order)), learnt=Learnt(profile, told), rejected=rejected,
        reasons=reasons,
    )  # fmt: skip


def chances(ranking: Ranking, seconds: float) -> FloatArray:
    """For each hint, in order, the chance that it takes less than so many seconds."""
    told = ranking.learnt.told if ranking.learnt else {}
    widths = np.array([told[at].half_band / WITHIN if at in told else KERNEL_OFFSET for at in ranking.order])
    z = (math.log(seconds) - np.log(ranking.seconds)) / widths
    out: FloatArray = 0.5 * np.vectorize(math.erfc, otypes=[float])(-z / math.sqrt(2))
    return out


FAILED = "it was measured and did not run"


def _key(config: Mapping[str, Any]) -> str:
    return json.dumps(dict(config), sort_keys=True, default=str)


def posterior_of(rows: Rows, kernel: str, start: str, profile: Profile) -> tuple[Posterior | None, int]:
    """What a profile says of candidates of a kernel, and of how many measurements."""
    seen = profile.rows(kernel, start)
    if seen is None:
        return None, 0
    return learnt(rows, *seen), len(seen[0])
