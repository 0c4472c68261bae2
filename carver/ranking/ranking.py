"""A ranking: a sequence of hints that knows what it was chosen from; and which of several candidates is taken where
the model does not tell them apart: by a stated order.

A front end gives `Candidates`: rows, each a candidate with its predicted time. A ranking is an order of their row
numbers, with the reasons why other candidates are missing. Everything else is the same for all front ends: slices,
tables, plots, exports, explanations and learning. Front ends are `carver.ranking.declared` (declared operators, also
several of them with a configuration for all or for each) and `carver.ranking.kernel` (compiled kernels: whoever has
`Facts` calls its `rank_facts`)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, overload

import numpy as np

from ..arch.descriptor import Arch
from ..base.given import canonical
from ..base.table import several
from ..base.types import FloatArray, IntArray, Record, late
from ..problem.problem import Problem
from .hint import Hint, Subject, declared

if TYPE_CHECKING:
    from .profile import Learnt, Prior

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


def size(config: Mapping[str, Any]) -> tuple[float, str]:
    """The order of configurations by their size: the product of their whole numbers, then their text."""
    whole = [v for v in config.values() if isinstance(v, int) and not isinstance(v, bool) and v > 0]
    return math.fsum(math.log2(v) for v in whole), canonical(config)


def least(hint: Hint) -> tuple[Any, ...]:
    """The order that resolves ties: fewer registers, fewer bytes of shared memory, the smaller configuration."""
    return hint.launch.registers, hint.launch.smem_bytes, size(hint.config)


def tied(hints: Sequence[Hint]) -> list[Hint]:
    """Those that the model does not tell from the fastest, in the order in which ties are resolved."""
    best = min(hint.predicted_ms for hint in hints)
    return sorted((hint for hint in hints if hint.predicted_ms <= best * (1 + TIED)), key=least)


class Choice(Record):
    """What is taken, why, and of how many that are tied."""

    hint: Hint
    why: str
    tied: int


def choose(hints: Sequence[Hint], default: Mapping[str, Any] | None = None, margin: float | None = None) -> Choice:
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


MOST_TIED = 256
"""Of the first candidates, those that are looked at for ties."""
TOGETHER = 256
"""Most hints that are made at once while a ranking is walked."""


class Candidates(Protocol):
    """What a front end gives: candidates as columns, one row each. The number of its row is a candidate's identity.

    It predicts times and makes hints by the unchanged model; what measurements say is the ranking's.
    """

    @property
    def subject(self) -> Problem | Subject: ...
    @property
    def arch(self) -> Arch: ...
    @property
    def backend(self) -> str:
        """The tool whose configurations they are."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know, which every hint repeats."""

    @property
    def of(self) -> str:
        """Subject of profiles: "matmul/triton", or "copy/compiled" for a kernel's own name."""

    @property
    def seconds(self) -> FloatArray:
        """Predicted times. [s]"""

    @property
    def index(self) -> IntArray:
        """The place of each in the list that the user gave, or in carver's own space."""

    @property
    def also(self) -> Mapping[int, tuple[int, ...]]:
        """By row, further places in the list that are the same candidate."""

    @property
    def keys(self) -> Sequence[str]:
        """The names of all tunables."""

    def column(self, key: str) -> tuple[IntArray, Any]:
        """The rows whose configurations have this key, and their values."""

    def hints(self, rows: Sequence[int], ranks: Sequence[int]) -> list[Hint]:
        """The hints of some rows, made together."""

    def learnable(self, rows: Sequence[int]) -> list[Prior]:
        """The same rows by kernel, with what learning needs of them."""


class Step(Record):
    """One configuration that was compiled."""

    config: Mapping[str, Any]
    origin: str
    """"seed", "spread", "promising" or "fewer stages"."""
    seconds: float
    """Since the search began. [s]"""
    predicted_ms: float | None
    """None where it was refused."""
    why: str = ""


class Search(Record):
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

    plot = late("ranking.plots:plot_search")

    def __str__(self) -> str:
        refused = sum(step.predicted_ms is None for step in self.steps)
        took = self.steps[-1].seconds if self.steps else 0.0
        best = f", best {self.best[-1][2]:.4g} ms" if self.best else ""
        return f"{len(self.steps)} compiled, {refused} of them refused, in {took:.1f} s{best}; ended: {self.ended}"


class Ranking(Record, Sequence[Hint], eq=False):
    """Hints, best first. Prints as a table. Hints are made when they are accessed.

    Indices count from 0, as in any sequence: `hints[0]`, `hints.explain(0)`. Ranks, which are printed and exported,
    count from 1, in the whole ranking: `hints[0].rank` is 1, and `hints[5:][0].rank` is 6.

    `rejected` has the number of candidates that each rule removed. `reasons` maps the place of each rejected
    configuration in your list to the rule that it breaks.
    """

    table: Candidates
    """All that the user gave, or those of carver's own that may be among the fastest."""
    order: Sequence[int]
    """Rows of the table, best first, of the whole ranking; of a slice `rows` has its own."""
    candidates: int
    """Number of candidates that can run."""
    removed: Mapping[str, int] | Callable[[], Mapping[str, int]]
    """What `rejected` has, or what counts it: a query needs its hints alone."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    given: int = 0
    """Number of configurations that the user gave; 0 if carver chose among its own."""
    learnt: Learnt | None = None
    """What was learnt from measurements; None if the ranking is the model's alone."""
    places: range | None = None
    """Places in `order` that a slice has; None for all."""
    undecided: tuple[int, ...] = ()
    """Places of configurations that were neither compiled nor refused: the compiler failed at its work, or ran out of
    time. Another time, or another machine, may give code."""
    search: Search | None = None
    """How a search came to what is ranked; None for a list."""
    _hints: dict[int, Hint] = field(default_factory=dict, repr=False)
    """Hints that were accessed, by row; a slice shares them."""

    def __len__(self) -> int:
        return len(self._places)

    @property
    def _places(self) -> range:
        return range(len(self.order)) if self.places is None else self.places

    @overload
    def __getitem__(self, i: int) -> Hint: ...
    @overload
    def __getitem__(self, i: slice) -> Ranking: ...
    def __getitem__(self, i: int | slice) -> Hint | Ranking:
        if isinstance(i, slice):
            return replace(self, places=self._places[i])
        if not -len(self) <= (i := operator.index(i)) < len(self):
            raise IndexError(f"this ranking has {several(len(self), 'hint')}; there is no hint {i}")
        [hint] = self._made([self._places[i]])
        return hint

    def __iter__(self) -> Iterator[Hint]:
        start, step = 0, 16
        while start < len(self):
            yield from self._made(self._places[start : start + step])
            start, step = start + step, min(4 * step, TOGETHER)

    def _made(self, places: Sequence[int]) -> list[Hint]:
        """The hints at places of `order`; those that are new are made together."""
        order, made = self.order, self._hints
        new = [place for place in places if order[place] not in made]
        if new:
            rows = [order[place] for place in new]
            updates = self.learnt.updates if self.learnt else {}
            alike = self.tied
            for place, hint in zip(new, self.table.hints(rows, [place + 1 for place in new]), strict=True):
                row = order[place]
                made[row] = hint.updated(updates[row]) if row in updates else hint
                if place < alike:
                    object.__setattr__(made[row], "tied", True)
        return [made[order[place]] for place in places]

    @cached_property
    def rejected(self) -> dict[str, int]:
        return dict(self.removed() if callable(self.removed) else self.removed)

    def __getstate__(self) -> dict[str, Any]:  # a copy has the counts, not all that they are counted in
        return vars(self) | {"removed": self.rejected}

    @cached_property
    def tied(self) -> int:
        """The number of candidates, from the first on, that the model does not tell from each other; 0 for one."""
        first = self.all_seconds[list(self.order[:MOST_TIED])]
        count = int(np.count_nonzero(first <= first[:1] * (1 + TIED)))
        return count if count > 1 else 0

    @property
    def rows(self) -> list[int]:
        """Rows of the table, best first."""
        return [self.order[place] for place in self._places]

    @property
    def subject(self) -> Problem | Subject:
        return self.table.subject

    @property
    def problem(self) -> Problem:
        """The declared problem. Raises ConfigError for a ranking of something else."""
        return declared(self.table.subject)

    @property
    def arch(self) -> Arch:
        return self.table.arch

    @property
    def backend(self) -> str:
        return self.table.backend

    @property
    def notes(self) -> tuple[str, ...]:
        return self.table.notes

    @property
    def indices(self) -> list[int]:
        """Positions of the ranked configurations in the given list, best first."""
        found: list[int] = self.table.index[self.rows].tolist()
        return found

    @property
    def all_seconds(self) -> FloatArray:
        """Predicted times of all rows of the table, by row. [s]"""
        out = self.table.seconds
        if self.learnt:
            out = out.copy()
            for row, update in self.learnt.updates.items():
                out[row] = update.seconds
        return out

    @property
    def seconds(self) -> FloatArray:
        """Predicted times, best first. [s]"""
        out: FloatArray = self.all_seconds[self.rows]
        return out

    @property
    def profile(self) -> dict[str, Any]:
        """What `learn` has learnt, as JSON: kernel, device, measurements, and the constants that moved.

        `rank`, `rank_kernel`, `recommend_hints` and `recommend_many` take it as `profile=`, for this problem or for
        another.
        """
        from .profile import Profile

        return (self.learnt.profile if self.learnt else Profile(self.table.of, self.arch.name)).to_dict()

    def explain(self, i: int = 0) -> Any:
        """Why `self[i]` is predicted to take the time it takes, and what its nearest changes would do: an
        `Explanation`, or text for a compiled kernel or for several operators."""
        return self[i].explain()

    # what layers above do with a ranking
    learn: ClassVar[Callable[..., Ranking]] = late("ranking.surrogate:learn")
    benchmark: ClassVar[Callable[..., Any]] = late("run.bench:benchmark")
    benchmark_kernel: ClassVar[Callable[..., Any]] = late("run.bench:benchmark_kernel")
    plot: ClassVar[Callable[..., Any]] = late("ranking.plots:plot_terms")
    plot_roofline: ClassVar[Callable[..., Any]] = late("ranking.plots:plot_roofline")
    plot_heatmap: ClassVar[Callable[..., Any]] = late("ranking.plots:plot_heatmap")
    to_frame: ClassVar[Callable[..., Any]] = late("ranking.table:ranking_frame")
    to_triton: ClassVar[Callable[..., list[Any]]] = late("export.triton:configs")
    to_tilelang: ClassVar[Callable[..., list[dict[str, Any]]]] = late("export.tilelang:configs")
    to_kernel_tuner: ClassVar[Callable[..., dict[str, Any]]] = late("export.kernel_tuner:arguments")
    to_helion: ClassVar[Callable[..., list[Any]]] = late("export.helion:seed_configs")
    to_optuna: ClassVar[Callable[..., int]] = late("export.optuna:queued")
    to_cutlass: ClassVar[Callable[..., list[dict[str, Any]]]] = late("export.cutlass:configs")
    to_json: ClassVar[Callable[..., str]] = late("export.plain:to_json")
    to_csv: ClassVar[Callable[..., str]] = late("export.plain:to_csv")
    __repr__ = late("ranking.table:ranking_table")
    _repr_html_ = late("ranking.table:ranking_html")
