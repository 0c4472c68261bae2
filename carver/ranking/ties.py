"""Which of several candidates is taken where the model does not tell them apart: by a stated order, never by that of a
list."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .hint import Hint

TIED = 0.01
"""Predicted times that differ by less are a tie: among candidates within it, one chosen by its registers and its size
is no slower than the one predicted fastest, and beyond it one is. Half of such pairs are within 3 % of each other when
timed. `python benchmarks/pins.py resolution` computes it from tables."""


def as_fast(over: tuple[float, float, float]) -> bool:
    """Of the time of one over that of another, as its median and bounds: whether they are a tie, or noise explains it.

    With few rounds the lower bound is the least of some ratios, which alone takes what is 4 % slower in a third of the
    cases."""
    median, low, _ = over
    return median <= 1 + TIED or low <= 1


def canonical(value: Any) -> str:
    """JSON with sorted keys: equal for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def size(config: Mapping[str, Any]) -> tuple[float, str]:
    """The order of configurations by their size: the product of their whole numbers, then their text."""
    whole = [v for v in config.values() if isinstance(v, int) and not isinstance(v, bool) and v > 0]
    return math.fsum(math.log2(v) for v in whole), canonical(dict(config))


def least(hint: Hint) -> tuple[Any, ...]:
    """The order that resolves ties: fewer registers, fewer bytes of shared memory, the smaller configuration."""
    return hint.launch.registers, hint.launch.smem_bytes, size(hint.config)


def tied(hints: Sequence[Hint]) -> list[Hint]:
    """Those that the model does not tell from the fastest, in the order in which ties are resolved."""
    best = min(hint.predicted_ms for hint in hints)
    return sorted((hint for hint in hints if hint.predicted_ms <= best * (1 + TIED)), key=least)


@dataclass(frozen=True)
class Choice:
    """What is taken, why, and of how many that are tied."""

    hint: Hint
    why: str
    tied: int


def choose(
    hints: Sequence[Hint], default: Mapping[str, Any] | None = None, margin: float | None = None
) -> Choice:
    """The fastest by prediction, ties resolved by the stated order: the same whatever the order of the hints.

    With a `margin`, `default` is left only for a predicted gain above it.
    """
    alike = tied(hints)
    taken, why = alike[0], "predicted fastest"
    if len(alike) > 1:
        why = f"one of {len(alike)} within {TIED:.0%} of the fastest: the one with least registers, shared memory, size"
    if margin is not None and default is not None:
        first = next((hint for hint in hints if dict(hint.config) == dict(default)), None)
        if first is None:
            return Choice(taken, f"{why}; the default does not run", len(alike))
        gain = first.predicted_ms / taken.predicted_ms - 1
        if first is taken:
            return Choice(taken, f"{why}, and the default", len(alike))
        if gain <= margin:
            return Choice(first, f"the default: no predicted gain above {margin:.0%} ({gain:.1%})", len(alike))
        why = f"{why}; a predicted gain of {gain:.0%} on the default"
    return Choice(taken, why, len(alike))
