"""How a search came to its ranking."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..base.types import Late


@dataclass(frozen=True)
class Step:
    """One configuration that was compiled."""

    config: Mapping[str, Any]
    origin: str
    """"seed", "spread", "promising" or "fewer stages"."""
    seconds: float
    """Since the search began. [s]"""
    predicted_ms: float | None
    """None where it was refused."""
    why: str = ""


@dataclass(frozen=True)
class Search:
    """How a search came to its ranking."""

    steps: tuple[Step, ...]
    ended: str
    """Why it ended."""
    measured_ms: Mapping[int, float | None] = field(default_factory=dict)
    """By step, where some were measured; None where it did not run."""

    @property
    def best(self) -> list[tuple[int, float, float]]:
        """The best price so far after each step that has one: steps, seconds, predicted time. [s, ms]"""
        found: list[tuple[int, float, float]] = []
        for count, step in enumerate(self.steps, 1):
            if step.predicted_ms is not None:
                least = min(step.predicted_ms, found[-1][2] if found else math.inf)
                found.append((count, step.seconds, least))
        return found

    plot = Late("view.plots:plot_search")

    def __str__(self) -> str:
        refused = sum(step.predicted_ms is None for step in self.steps)
        took = self.steps[-1].seconds if self.steps else 0.0
        best = f", best {self.best[-1][2]:.4g} ms" if self.best else ""
        return f"{len(self.steps)} compiled, {refused} of them refused, in {took:.1f} s{best}; ended: {self.ended}"
