"""Rankings after some of their candidates were measured: `Ranking.learn`, and profiles carried from shape to shape; and
how far to trust a prediction: where its constants come from, and a band of its error.

The band is the predicted time times exp(low) .. exp(high), and should hold the middle 80 % of measured times. On the
device on which a kernel's constants were fitted, low and high are quantiles of the errors on held-out problems, which
the kernel's `[fitted]` table states. Elsewhere they are widened by the error that moving to another device was seen to
add. `carver evaluate` prints the share of measured times that fell inside."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import hypot
from typing import Literal

import numpy as np

from ..arch.descriptor import Arch
from ..arch.devices import match
from ..base.errors import ConfigError, NoCandidates
from ..base.given import shown
from ..base.types import FloatArray
from ..cost.learn import KERNEL_OFFSET
from ..kernels.declaration import Kernel
from .hint import Hint, Told
from .profile import WITHIN, Given, Learnt, Part, Profile, profile_of
from .ranking import Ranking

COVERAGE = 0.8
"""Share of measured times that a band is meant to contain."""
NEAR = 1.5
"""Bands are fitted to candidates predicted within this factor of the best, since these are the ones shown."""

Kind = Literal[
    "this device", "same kind", "other type", "family", "other device", "other vendor", "other kernel", "priors"
]
WIDENED: dict[Kind, float] = {
    "this device": 0.0, "same kind": 0.0, "other type": 0.2, "family": 0.1, "other device": 0.45, "other vendor": 0.9,
    "other kernel": 0.45, "priors": 0.7,
}  # fmt: skip
"""Error that is added to both sides of a band, as an independent error, if constants come from elsewhere. [ln]

For other devices, other vendors and priors it is the smallest value with which bands contain `COVERAGE` of the times of
every family left out (`benchmarks/heldout.py bands`). docs/howto/calibration.md lists the families, and the one table
for which no useful width is enough."""
MARKS: dict[Kind, str] = {
    "this device": "measured on this device", "same kind": "measured on this device", "other type": "same family",
    "family": "same family", "other device": "this device not measured", "other vendor": "this device not measured",
    "other kernel": "this kernel not measured", "priors": "datasheet only",
}  # fmt: skip
"""Basis of a ranking: times of this kernel on the device or one of its kind; times on its family or with other types;
times of another kernel, or on other devices; or only the device's datasheet."""
UNSTATED = 0.35
"""One side of the band of a fitted kernel whose `[fitted]` table does not state that side. [ln]"""


@dataclass(frozen=True, slots=True)
class Trust:
    """Where a kernel's constants on a device come from, a mark first (`MARKS`).

    `low` and `high` are in logarithms of measured / predicted.
    """

    kind: Kind
    text: str
    low: float
    high: float

    def band_ms(self, predicted_ms: float) -> tuple[float, float]:
        return predicted_ms * float(np.exp(self.low)), predicted_ms * float(np.exp(self.high))


@lru_cache(maxsize=512)
def trust(kernel: Kernel, arch: Arch, dtype: str | None = None) -> Trust:
    """What is known of the constants that `kernel` is priced with on `arch`, for operands of `dtype`.

    A device with fields that the caller replaced is one of the same family.
    """
    name, here = f"{kernel.operator}/{kernel.name}", dict(arch.fitted)
    low, high = arch.fitted_constants("error_low").get(name), arch.fitted_constants("error_high").get(name)
    if low is not None and high is not None:
        return _made("this device", f"calibrated for this kernel on this device, {here['date']}", low, high)
    said = kernel.fitted
    if "device" not in said:
        text = "rates calibrated, this kernel not" if here else "nobody measured this kernel"
        return _made("priors", text, 0.0, 0.0)
    low, high = float(said.get("error_low", -UNSTATED)), float(said.get("error_high", UNSTATED))
    there = [found for name in said["device"].split(", ") if (found := match(name.partition(" (")[0]))]
    far = all(found.vendor != arch.vendor for found in there)
    if kernel.constants_of:
        text = f"constants of {kernel.constants_of}, fitted on {said['device']}"
        return _made("other vendor" if far else "other kernel", text, low, high)
    if any(found.name == arch.name for found in there) and not arch.replaced:
        if dtype and dtype not in said.get("dtypes", (dtype,)):
            return _made("other type", f"fitted on {said['device']}, but not with {dtype}", low, high)
        return _made("same kind", f"{said['device']}, {said['date']}", low, high)
    if any((found.vendor, found.isa) == (arch.vendor, arch.isa) for found in there):
        return _made("family", f"fitted on {said['device']}, also {arch.isa}", low, high)
    return _made("other vendor" if far else "other device", f"fitted on {said['device']}", low, high)


def _made(kind: Kind, text: str, low: float, high: float) -> Trust:
    low, high = widened((low, high), WIDENED[kind])
    return Trust(kind, f"{MARKS[kind]}: {text}", low, high)


def widened(band: tuple[float, float], more: float) -> tuple[float, float]:
    """Widen both sides of a band by an independent error of `more`, counted from the error in the band nearest to 0."""
    low, high = band
    middle = min(max(0.0, low), high)
    return middle - hypot(middle - low, more), middle + hypot(high - middle, more)


def share_within(errors: FloatArray, band: tuple[float, float]) -> float:
    """Share of log errors inside a band; NaN if there are no errors."""
    return float(np.mean((errors >= band[0]) & (errors <= band[1]))) if len(errors) else float("nan")


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
        rejected=dict(Counter(ranking.rejected) + Counter({FAILED: len(reasons)})),
    )  # fmt: skip


def chances(ranking: Ranking, seconds: float) -> FloatArray:
    """For each hint, in order, the probability that it takes less than `seconds`."""
    return _below(_deviations(ranking, seconds)[0])


def to_measure(ranking: Ranking, tried: Collection[int], best_s: float, count: int) -> list[int]:
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


def _deviations(ranking: Ranking, seconds: float) -> tuple[FloatArray, FloatArray]:
    """For each hint, by how many standard deviations its ln(time) is below that of `seconds`, and these deviations."""
    bands = ranking.half_bands
    widths = np.where(np.isnan(bands), KERNEL_OFFSET, bands / WITHIN)
    return (math.log(seconds) - np.log(ranking.seconds)) / widths, widths


def _below(z: FloatArray) -> FloatArray:
    """Cumulative distribution function of the standard normal distribution."""
    out: FloatArray = 0.5 * np.vectorize(math.erfc, otypes=[float])(-z / math.sqrt(2))
    return out
