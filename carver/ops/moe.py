"""A gated mixture-of-experts layer: two grouped matmuls, which serving engines run with one configuration or two."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import NoCandidates, ProblemError
from ..base.given import takes
from ..base.table import ROWS_SHOWN, Column, aligned, listing
from ..problem.problem import counted, size
from ..ranking.hint import Hint
from ..ranking.ranking import Ranking
from .elsewise import explained
from .grouped_matmul import GroupedMatmulTemplate, Routing
from .template import Template

CONSIDERED = 256
"""Candidates that each matmul of a layer contributes."""


@dataclass(frozen=True)
class LayerHint:
    """One configuration for both matmuls, or one for each, and what each matmul is predicted to take."""

    config: Mapping[str, int]
    """That of the first matmul; of the second it is `down.config`."""
    up: Hint
    down: Hint

    @property
    def predicted_ms(self) -> float:
        return self.up.predicted_ms + self.down.predicted_ms

    @property
    def bound(self) -> str:
        """What bounds the matmul that takes longer."""
        return max((self.up, self.down), key=lambda hint: hint.predicted_ms).bound

    def explain(self) -> str:
        """Why each matmul is predicted to take its time."""
        return f"{explained(self.up)}\n\n{explained(self.down)}"


@dataclass(frozen=True, eq=False)
class LayerRanking(Sequence[LayerHint]):
    """Configurations of a layer, best first. `rejected`: how many one of the matmuls cannot run with."""

    title: str
    hints: tuple[LayerHint, ...]
    rejected: int = 0

    def __len__(self) -> int:
        return len(self.hints)

    @overload
    def __getitem__(self, i: int) -> LayerHint: ...
    @overload
    def __getitem__(self, i: slice) -> LayerRanking: ...
    def __getitem__(self, i: int | slice) -> LayerHint | LayerRanking:
        return replace(self, hints=self.hints[i]) if isinstance(i, slice) else self.hints[i]

    def __repr__(self) -> str:
        hints = self.hints[:ROWS_SHOWN]
        shown = [
            Column("#", tuple(str(place) for place in range(1, len(hints) + 1))),
            Column("ms", aligned([hint.predicted_ms for hint in hints])),
            Column("up ms", aligned([hint.up.predicted_ms for hint in hints])),
            Column("down ms", aligned([hint.down.predicted_ms for hint in hints])),
            Column("bound", tuple(hint.bound for hint in hints), True),
        ]
        remarks = [f"{self.rejected} cannot run in one of the matmuls"] if self.rejected else []
        configs = [dict(hint.config) for hint in hints]
        if any(hint.down.config != hint.config for hint in hints):
            for config, hint in zip(configs, hints, strict=True):
                config |= {f"down {key}": value for key, value in hint.down.config.items() if key != "BLOCK_M"}
        return listing(self.title, shown, configs, more=len(self) - ROWS_SHOWN, remarks=remarks)


class MoETemplate:
    """`tokens` tokens, each through `topk` of `experts` gated MLPs of width `intermediate`.

    `up` is the matmul with gate and up projection side by side (2 `intermediate` x `hidden`), `down` the one back.
    `routing` is "uniform", "zipf", an exponent of Zipf's law, or the number of tokens of each expert. `block_shape`:
    8-bit operands, with one scale per block of this shape. With a narrower `weight_dtype` (int8, int4, or uint4 with
    zero points) only weights have scales: (1, 128) is one for each column and 128 elements of its depth.
    """

    @takes(ProblemError, words="dtype$")
    def __init__(
        self,
        tokens: int,
        experts: int,
        topk: int,
        hidden: int,
        intermediate: int,
        dtype: str = "bfloat16",
        block_shape: Sequence[int] | str | None = None,
        routing: str | float | Sequence[int] = "uniform",
        weight_dtype: str | None = None,
        out_dtype: str = "bfloat16",
    ) -> None:
        hidden, intermediate = size("hidden", hidden), size("intermediate", intermediate)
        rows = _routed(tokens, experts, topk, routing)
        types = dtype if weight_dtype in (None, dtype) else f"{dtype}, weights {weight_dtype}"
        self.title = f"{tokens} tokens to {topk} of {experts} experts of {hidden} x {intermediate} ({types})"
        self.up: Template
        self.down: Template
        self.up, self.down = (
            GroupedMatmulTemplate(rows, n, k, None, dtype, out_dtype, weight_dtype, block_shape)
            for n, k in ((2 * intermediate, hidden), (hidden, intermediate))
        )

    def with_arch(self, arch: Arch | str | os.PathLike[str]) -> MoETemplate:
        """The same layer for a device."""
        new = object.__new__(MoETemplate)
        new.title = self.title
        new.up, new.down = (each.with_arch(arch) for each in (self.up, self.down))
        return new

    def recommend_hints(self, topk: int = 10, backend: str = "triton", separate: bool = False) -> LayerRanking:
        """The `topk` configurations with which both matmuls together are predicted to take least, best first.

        `separate`: pairs, one for each matmul, of the same BLOCK_M: engines sort and pad the rows once for both.
        """
        topk = counted("topk", topk, 1)
        rankings = [each.recommend_hints(CONSIDERED, backend) for each in (self.up, self.down)]
        if separate:
            return self._paired(rankings[0], rankings[1], topk)
        configs = (ranking.parts[part].space.config(row) for ranking in rankings for part, row in ranking.order)
        union = {tuple(config.items()): config for config in configs}
        return self._ranked(list(union.values()), backend, topk)

    def _paired(self, up: Ranking, down: Ranking, topk: int) -> LayerRanking:
        """Of each height, the pairs of the first configurations of each matmul."""
        rows_up, rows_down = (
            np.array([each.parts[part].space.config(row)["BLOCK_M"] for part, row in each.order]) for each in (up, down)
        )
        pairs = sorted(
            (float(up.seconds[i] + down.seconds[j]), int(i), int(j))
            for height in np.intersect1d(rows_up, rows_down)
            for i in np.flatnonzero(rows_up == height)[:topk] for j in np.flatnonzero(rows_down == height)[:topk]
        )[:topk]  # fmt: skip
        if not pairs:
            raise NoCandidates(f"{self.up.problem} and {self.down.problem}, of one height,", {})
        hints = tuple(LayerHint(dict(up[i].config), up[i], down[j]) for _, i, j in pairs)
        return LayerRanking(f"{self.title} on {up.arch.title}, a configuration for each matmul", hints)

    def rank(self, configs: Iterable[Mapping[str, int]], backend: str = "triton") -> LayerRanking:
        """Your own configurations, in that backend's or the serving engines' keys, in the order of predicted times.

        Those that one of the matmuls cannot run with are left out.
        """
        return self._ranked(list(configs), backend)

    def _ranked(self, configs: Sequence[Mapping[str, int]], backend: str, topk: int | None = None) -> LayerRanking:
        rankings = [each.rank(configs, backend) for each in (self.up, self.down)]
        total, places = np.zeros(len(configs)), np.full((2, len(configs)), -1)
        for place, ranking in zip(places, rankings, strict=True):
            total[ranking.indices] += ranking.seconds
            place[ranking.indices] = np.arange(len(ranking.indices))
        both = np.flatnonzero((places >= 0).all(axis=0))
        if not len(both):
            raise NoCandidates(f"{self.up.problem} and {self.down.problem}", {})
        order = both[np.argsort(total[both], kind="stable")][:topk]
        hints = ([ranking[int(i)] for i in place[order]] for ranking, place in zip(rankings, places, strict=True))
        chosen = tuple(LayerHint(dict(up.config), up, down) for up, down in zip(*hints, strict=True))
        return LayerRanking(f"{self.title} on {rankings[0].arch.title}", chosen, len(configs) - len(both))

    def __repr__(self) -> str:
        device = f" on {self.up.arch.name}" if self.up.arch else ""
        return f"{type(self).__name__}({self.title}{device})"


def _routed(
    tokens: int, experts: int, topk: int, routing: str | float | Sequence[int]
) -> Routing | Sequence[int]:
    if isinstance(routing, int | float):
        return Routing(tokens, experts, topk, routing)
    if isinstance(routing, str):
        if routing in (skews := {"uniform": 0.0, "zipf": 1.0}):
            return Routing(tokens, experts, topk, skews[routing])
        known = "'uniform', 'zipf', an exponent of Zipf's law or a list of counts"
        raise ProblemError(f"routing is {known}, got {routing!r}")
    if len(routing) != experts or sum(routing) != tokens * topk:
        raise ProblemError(
            f"{tokens} tokens to {topk} of {experts} experts are {experts} counts that add up to {tokens * topk}; "
            f"got {len(routing)} that add up to {sum(routing)}"
        )
    return routing
