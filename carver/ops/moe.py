"""A gated mixture-of-experts layer: two grouped matmuls, which serving engines run with one configuration."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import NoCandidates, ProblemError
from ..base.given import takes
from ..ranking.hint import Hint
from .grouped_matmul import GroupedMatmulTemplate, Routing
from .template import Template

CONSIDERED = 256
"""Candidates that each matmul of a layer contributes."""


@dataclass(frozen=True)
class LayerHint:
    """One configuration for both matmuls, and what each is predicted to take with it."""

    config: Mapping[str, int]
    up: Hint
    down: Hint

    @property
    def predicted_ms(self) -> float:
        return self.up.predicted_ms + self.down.predicted_ms


class MoETemplate:
    """`tokens` tokens, each through `topk` of `experts` gated MLPs of width `intermediate`.

    `up` is the matmul with gate and up projection side by side (2 `intermediate` x `hidden`), `down` the one back.
    `routing` is "uniform", an exponent of Zipf's law, or how many tokens each expert gets. `block_shape`: 8-bit
    operands in blocks with a scale each.
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
        block_shape: Sequence[int] | None = None,
        routing: str | float | Sequence[int] = "uniform",
        weight_dtype: str | None = None,
        out_dtype: str = "bfloat16",
    ) -> None:
        rows = _routed(tokens, experts, topk, routing)
        self.up: Template
        self.down: Template
        self.up, self.down = (
            GroupedMatmulTemplate(rows, n, k, None, dtype, out_dtype, weight_dtype, block_shape)
            for n, k in ((2 * intermediate, hidden), (hidden, intermediate))
        )

    def with_arch(self, arch: Arch | str | os.PathLike[str]) -> MoETemplate:
        """The same layer for a device."""
        new = object.__new__(MoETemplate)
        new.up, new.down = (each.with_arch(arch) for each in (self.up, self.down))
        return new

    def recommend_hints(self, topk: int = 10, backend: str = "triton") -> list[LayerHint]:
        """The `topk` configurations with which both matmuls together are predicted to take least, best first."""
        rankings = (each.recommend_hints(CONSIDERED, backend) for each in (self.up, self.down))
        configs = (ranking.parts[part].space.config(row) for ranking in rankings for part, row in ranking.order)
        union = {tuple(config.items()): config for config in configs}
        return self._ranked(list(union.values()), backend, topk)

    def rank(self, configs: Iterable[Mapping[str, int]], backend: str = "triton") -> list[LayerHint]:
        """Your own configurations, in that backend's or the serving engines' keys, in the order of predicted times.

        Those that one of the matmuls cannot run with are left out.
        """
        return self._ranked(list(configs), backend)

    def _ranked(self, configs: Sequence[Mapping[str, int]], backend: str, topk: int | None = None) -> list[LayerHint]:
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
        return [LayerHint(dict(up.config), up, down) for up, down in zip(*hints, strict=True)]


def _routed(
    tokens: int, experts: int, topk: int, routing: str | float | Sequence[int]
) -> Routing | Sequence[int]:
    if isinstance(routing, int | float):
        return Routing(tokens, experts, topk, routing)
    if isinstance(routing, str):
        if routing == "uniform":
            return Routing(tokens, experts, topk)
        raise ProblemError(f"routing is 'uniform', an exponent of Zipf's law or a list of counts, got {routing!r}")
    if len(routing) != experts or sum(routing) != tokens * topk:
        raise ProblemError(
            f"{tokens} tokens to {topk} of {experts} experts are {experts} counts that add up to {tokens * topk}; "
            f"got {len(routing)} that add up to {sum(routing)}"
        )
    return routing
