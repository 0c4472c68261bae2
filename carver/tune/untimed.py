"""Choose a candidate without measuring: by results for other sizes, and by the model alone."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from ..base.errors import ConfigError, nearest
from ..ranking.ties import TIED, size
from ..run.records import Measurement, RecordsError
from . import cache
from .configs import Entry, frozen
from .plan import Plan

MODES = ("on", "cached", "off")
_ALIKE = ("schema", "function", "outputs", "device")
"""Parts of a key that a tuning at another size has to share."""
_SIZES = ("arguments", "arrays")
"""Parts that may differ, in their numbers alone."""


def mode() -> str:
    """CARVER_TUNING: "on" measures, "cached" takes what was tuned, else the nearest size, "off" the ranking's first."""
    chosen = os.environ.get("CARVER_TUNING") or "on"
    if chosen not in MODES:
        raise ConfigError(f"CARVER_TUNING must be on, cached or off, got {chosen!r}; {nearest(chosen, MODES)}")
    return chosen


Choice = tuple[int, str, float | None]
"""The place of a candidate, why it was taken, and the time that is expected of it. [ms]"""


def choices(plan: Plan, from_cache: bool) -> Iterator[Choice]:
    """Candidates, best first: the same in every process with the same cache."""
    if from_cache:
        yield from _nearest(plan)
    first = "the first of the ranking" if any(e.predicted_ms for e in plan.entries) else "the first candidate"

    def order(candidate: tuple[int, Entry]) -> tuple[float, int, str]:
        e = candidate[1]
        if not e.predicted_ms:
            return math.inf, 0, ""
        return e.predicted_ms, (e.hint.rank if e.hint else None) or 0, frozen(e.recorded)

    for place, e in sorted(enumerate(plan.entries), key=order):
        yield place, first, e.predicted_ms


def pinned(plan: Plan) -> Iterator[Choice]:
    """Candidates by prediction alone, ties resolved by the stated order (`ranking.ties`): the same in every process,
    whatever its cache and the order of the list. Raises ConfigError where nothing is predicted."""
    left = [(place, e) for place, e in enumerate(plan.entries) if e.predicted_ms]
    if not left:
        raise ConfigError(
            f"{plan.name}: pinned=True takes the predicted fastest, and nothing predicts these configurations: give "
            "hints, or a template="
        )

    def least(candidate: tuple[int, Entry]) -> tuple[Any, ...]:
        launch = candidate[1].hint.launch if candidate[1].hint else None
        used = (launch.registers, launch.smem_bytes) if launch else (0, 0)
        return *used, size(candidate[1].recorded)

    while left:
        best = min(e.predicted_ms or math.inf for _, e in left)
        alike = [each for each in left if (each[1].predicted_ms or math.inf) <= best * (1 + TIED)]
        taken = min(alike, key=least)
        left.remove(taken)
        several = f"the smallest of {len(alike)} within {TIED:.0%} of the fastest"
        why = several if alike[1:] else "the predicted fastest"
        yield taken[0], why, taken[1].predicted_ms


def _nearest(plan: Plan) -> list[Choice]:
    """From the tuning of the same function here whose sizes are nearest: its times, scaled by what the model says."""
    found, own = [], json.loads(json.dumps(plan.parts, default=str))  # as it is on disk
    for entry in cache.entries() if plan.kept else ():
        with suppress(KeyError, TypeError):  # damaged, or of another version
            parts = entry.found["parts"]
            far = sum(_distance(parts[name], own[name]) for name in _SIZES)
            if far < math.inf and all(parts[name] == own[name] for name in _ALIKE):
                found.append((far, entry.key, entry.found))
    for _, _, near in sorted(found, key=lambda each: each[:2]):
        with suppress(RecordsError):  # the next nearest may do
            return _scaled(plan, [Measurement.from_dict(m) for m in near["table"]], near)
    return []


def _scaled(plan: Plan, table: list[Measurement], entry: Mapping[str, Any]) -> list[Choice]:
    measured = {frozen(m.config): m for m in table if m.ok and m.median_ms}
    best, key = frozen(entry["config"]), str(entry["key"])[:12]
    chosen: list[tuple[float, str, Choice]] = []
    for place, e in enumerate(plan.entries):
        said = frozen(e.recorded)
        if (m := measured.get(said)) is None or m.median_ms is None:
            continue
        if e.predicted_ms and m.predicted_ms:
            ms = m.median_ms * e.predicted_ms / m.predicted_ms
            why = f"the nearest tuned size, {key}, its times scaled by the model"
            chosen.append((ms, said, (place, why, ms)))
        elif said == best:
            chosen.append((0.0, said, (place, f"the best of the nearest tuned size, {key}", None)))
    return [choice for *_, choice in sorted(chosen, key=lambda each: each[:2])]


def _distance(a: Any, b: Any) -> float:
    """How far sizes are from each other: the sum of |ln(a / b)| over numbers; infinite where anything else differs."""
    if a == b:
        return 0.0
    if all(isinstance(x, int | float) and not isinstance(x, bool) and x > 0 for x in (a, b)):
        return abs(math.log(a / b))
    if isinstance(a, Mapping) and isinstance(b, Mapping) and a.keys() == b.keys():
        return sum(_distance(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return sum(_distance(x, y) for x, y in zip(a, b, strict=True))
    return math.inf
