"""Measured candidates that noise does not tell apart: which they are, which of them is taken, and when more is timed.

Rounds are compared in pairs: what drifts from one round to the next, as clocks do, is the same for both candidates.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from ..ranking.ties import TIED, size
from .records import Measurement, median_interval

PAIRED = 3
"""Rounds in common from which on rounds are compared, and not the intervals of two medians."""


def ratio(slow: Measurement, fast: Measurement) -> tuple[float, float]:
    """Bounds of the time of one over that of another, of candidates that ran. A median without an interval counts as
    exact."""
    rounds = [statistics.median(b) / statistics.median(a)
              for a, b in zip(fast.rounds_ms, slow.rounds_ms, strict=False) if a and b]  # fmt: skip
    if len(rounds) >= PAIRED:
        return median_interval(rounds)[1:]
    bounds = [(m.ci_low_ms or m.median_ms or 0.0, m.ci_high_ms or m.median_ms or 0.0) for m in (slow, fast)]
    return bounds[0][0] / bounds[1][1], bounds[0][1] / bounds[1][0]


def tied(measured: Sequence[Measurement]) -> list[Measurement]:
    """The fastest and those that noise does not tell from it, in the order in which ties are resolved: fewer registers,
    fewer bytes of shared memory, the smaller configuration. Empty where none ran."""
    ran = [m for m in measured if m.ok and m.median_ms]
    if not ran:
        return []
    best = min(ran, key=lambda m: m.median_ms or 0.0)
    return sorted((m for m in ran if m is best or ratio(m, best)[0] <= 1 + TIED), key=_least)


def undecided(measured: Sequence[Measurement]) -> list[Measurement]:
    """The fastest and those of which more rounds may say whether they are slower; empty where all is decided."""
    ran = tied(measured)
    if not ran:
        return []
    best = min(ran, key=lambda m: m.median_ms or 0.0)
    left = [m for m in ran if m is not best and ratio(m, best)[1] > 1 + TIED]
    return [best, *sorted(left, key=lambda m: m.median_ms or 0.0)] if left else []


def _least(m: Measurement) -> tuple[Any, ...]:
    resources = m.device_info.get("resources") or {}
    launch = (m.hint or {}).get("launch") or {}
    registers = max((used[0] for used in resources.values()), default=launch.get("registers") or 0)
    shared = m.device_info.get("smem_bytes") or launch.get("smem_bytes") or 0
    return registers, shared, size(m.config)
