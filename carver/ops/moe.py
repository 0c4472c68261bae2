"""A gated mixture-of-experts layer: two grouped matmuls, which serving engines run with one configuration or two."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import NoCandidates, ProblemError
from ..base.given import takes
from ..problem.problem import counted, size
from ..ranking.declared import declared_in
from ..ranking.hint import Subject
from ..ranking.layered import Layered
from ..ranking.ranking import Ranking
from .grouped_matmul import GroupedMatmulTemplate, Routing
from .template import Template

CONSIDERED = 256
"""Candidates that each matmul of a layer contributes."""


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

    def recommend_hints(self, topk: int = 10, backend: str = "triton", separate: bool = False) -> Ranking:
        """The `topk` configurations with which both matmuls together are predicted to take least, best first. A hint's
        `layers` are those of both matmuls, "up" and "down".

        `separate`: pairs, one for each matmul, of the same BLOCK_M: engines sort and pad the rows once for both. Then
        `config` is that of the first matmul.
        """
        topk = counted("topk", topk, 1)
        up, down = (each.recommend_hints(CONSIDERED, backend) for each in (self.up, self.down))
        own = [[config for _, config in declared_in(each).configs(each.rows)] for each in (up, down)]
        if not separate:
            union = {tuple(config.items()): config for configs in own for config in configs}
            return self.rank(list(union.values()), backend)[:topk]
        heights_up, heights_down = (np.array([config["BLOCK_M"] for config in configs]) for configs in own)
        pairs = sorted(
            (float(up.seconds[i] + down.seconds[j]), int(i), int(j))
            for height in np.intersect1d(heights_up, heights_down)
            for i in np.flatnonzero(heights_up == height)[:topk] for j in np.flatnonzero(heights_down == height)[:topk]
        )[:topk]  # fmt: skip
        if not pairs:
            raise NoCandidates(f"{self.up.problem} and {self.down.problem}, of one height,", {})
        rows = np.array([[up.rows[i] for _, i, _ in pairs], [down.rows[j] for *_, j in pairs]])
        table = Layered(
            Subject(f"{self.title} on {up.arch.title}, a configuration for each matmul"),
            {"up": declared_in(up), "down": declared_in(down)}, rows, np.arange(len(pairs)),
        )  # fmt: skip
        return Ranking(table, range(len(pairs)), len(pairs), {})

    def rank(self, configs: Iterable[Mapping[str, int]], backend: str = "triton") -> Ranking:
        """Your own configurations, in that backend's or the serving engines' keys, in the order of predicted times.

        Those that one of the matmuls cannot run with are left out.
        """
        given = list(configs)
        rankings = {"up": self.up.rank(given, backend), "down": self.down.rank(given, backend)}
        at = [dict(zip(ranking.indices, ranking.rows, strict=True)) for ranking in rankings.values()]
        both = sorted(at[0].keys() & at[1].keys())
        reasons = {**rankings["down"].reasons, **rankings["up"].reasons}
        if not both:
            raise NoCandidates(f"{self.up.problem} and {self.down.problem}", dict(Counter(reasons.values())))
        table = Layered(
            Subject(f"{self.title} on {rankings['up'].arch.title}"),
            {name: declared_in(ranking) for name, ranking in rankings.items()},
            np.array([[rows[i] for i in both] for rows in at]), np.array(both),
        )  # fmt: skip
        order = np.argsort(table.seconds, kind="stable").tolist()
        return Ranking(table, order, len(both), dict(Counter(reasons.values())), reasons, len(given))

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
