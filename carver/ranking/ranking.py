"""A ranking: a sequence of hints that knows what it was chosen from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np

from ..arch.descriptor import Arch
from ..base.types import FloatArray
from ..cost.pricing import Priced
from ..problem.problem import Problem
from .hint import Hint
from .making import Told, make_hint, retold

if TYPE_CHECKING:
    from .learn import Part
    from .profile import Profile


@dataclass(frozen=True)
class Learnt:
    """What measurements say of a ranking's candidates; see `carver.ranking.learn`."""

    profile: Profile
    told: Mapping[tuple[int, int], Told]
    """By (part, row), only for candidates of which something was learnt."""
    parts: Sequence[tuple[Sequence[tuple[int, int]], Part]]
    """The candidates of each kernel with what the model says of them, and where in the ranking they came from. It is
    the same after each measurement, and takes many predictions."""


@dataclass(frozen=True, eq=False)
class Ranking(Sequence[Hint]):
    """Hints, best first. Prints as a table. Hints are made when they are accessed.

    Indices count from 0, as in any sequence: `hints[0]`, `hints.explain(0)`. Ranks, which are printed and exported,
    count from 1: `hints[0].rank` is 1.

    `rejected` has the number of candidates that each rule removed. `reasons` maps the place of each rejected
    configuration in your list to the rule that it breaks.
    """

    problem: Problem
    arch: Arch
    backend: str
    parts: tuple[Priced, ...]
    """The priced candidates: all that the user gave, or those of carver's own that may be among the fastest."""
    order: tuple[tuple[int, int], ...]
    """(part, row) of each hint."""
    candidates: int
    """Number of candidates that can run."""
    rejected: Mapping[str, int]
    reasons: Mapping[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    given: int = 0
    """Number of configurations that the user gave; 0 if carver chose among its own."""
    learnt: Learnt | None = None
    """What was learnt from measurements; None if the ranking is the model's alone."""
    _hints: dict[int, Hint] = field(default_factory=dict, init=False, repr=False)
    """Hints that were accessed, by position."""

    def __len__(self) -> int:
        return len(self.order)

    @overload
    def __getitem__(self, i: int) -> Hint: ...
    @overload
    def __getitem__(self, i: slice) -> Ranking: ...
    def __getitem__(self, i: int | slice) -> Hint | Ranking:
        if isinstance(i, slice):
            return replace(self, order=self.order[i])
        place = range(len(self.order))[i]
        if place not in self._hints:
            part, row = self.order[place]
            hint = make_hint(self.problem, self.parts[part], row, place + 1, self.backend, self.notes)
            told = self.learnt.told.get((part, row)) if self.learnt else None
            self._hints[place] = retold(hint, told) if told else hint
        return self._hints[place]

    @property
    def indices(self) -> list[int]:
        """Positions of the ranked configurations in the given list, best first."""
        return [int(self.parts[part].space.index[row]) for part, row in self.order]

    @property
    def seconds(self) -> FloatArray:
        """Predicted times, best first. [s]"""
        told = self.learnt.told if self.learnt else {}
        return np.array([
            told[at].seconds if at in told else self.parts[at[0]].seconds[at[1]] for at in self.order
        ])  # fmt: skip

    @property
    def half_bands(self) -> FloatArray:
        """Half of the width of each hint's band in logarithms, best first; nan if no measurement changed it."""
        told = self.learnt.told if self.learnt else {}
        return np.array([told[at].half_band if at in told else np.nan for at in self.order])

    @property
    def profile(self) -> dict[str, Any]:
        """What `learn` has learnt, as JSON: kernel, device, measurements, and the constants that moved.

        `rank`, `recommend_hints` and `recommend_many` take it as `profile=`, for this problem or another.
        """
        if self.learnt is None:
            from .profile import Profile

            return Profile(f"{self.problem.operator}/{self.backend}", self.arch.name).to_dict()
        return self.learnt.profile.to_dict()

    # Added by `carver._methods`; each function is defined in the layer that it is named after.
    explain: ClassVar[Callable[..., Any]]
    learn: ClassVar[Callable[..., Ranking]]
    benchmark: ClassVar[Callable[..., Any]]
    plot: ClassVar[Callable[..., Any]]
    plot_roofline: ClassVar[Callable[..., Any]]
    plot_heatmap: ClassVar[Callable[..., Any]]
    to_frame: ClassVar[Callable[..., Any]]
    to_triton: ClassVar[Callable[..., list[Any]]]
    to_tilelang: ClassVar[Callable[..., list[dict[str, Any]]]]
    to_kernel_tuner: ClassVar[Callable[..., dict[str, Any]]]
    to_helion: ClassVar[Callable[..., list[Any]]]
    to_optuna: ClassVar[Callable[..., int]]
    to_cutlass: ClassVar[Callable[..., list[dict[str, Any]]]]
    to_json: ClassVar[Callable[..., str]]
    to_csv: ClassVar[Callable[..., str]]
