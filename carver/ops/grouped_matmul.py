"""Matrix products of groups of rows, each with its own weights: the experts of a mixture; and a gated layer of experts,
two such products, which serving engines run with one configuration or two."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..base import dtypes
from ..base.errors import ArchError, NoCandidates, ProblemError
from ..base.given import number, takes
from ..base.types import FloatArray, Record
from ..problem.problem import Problem, counted, size
from ..ranking.declared import Layered, declared_in
from ..ranking.hint import Subject
from ..ranking.ranking import Ranking
from . import operator
from .matmul import scales
from .operator import Operator, Template, accumulator, output_type

MAX_EXPERTS = 1 << 16
MAX_CHOICES = 1 << 24
"""Tokens x experts: a chance of each is held."""
HEIGHTS = (16, 32, 64, 128, 256)
"""Heights of a tile that groups of rows are padded to."""


class Routing(Record):
    """Tokens that each go to `topk` of `experts`, independently of each other.

    Expert e of 1 to E gets a share of all choices proportional to e^-skew (Zipf's law; 0: all alike), and no expert
    gets a token twice. The number of tokens that reach an expert is then a binomial variable; the model uses its mean.
    """

    tokens: int
    experts: int
    topk: int = 1
    skew: float = 0.0

    def __post_init__(self) -> None:
        for name in ("tokens", "experts", "topk"):
            object.__setattr__(self, name, size(name, getattr(self, name)))
        if self.experts > MAX_EXPERTS or self.experts * self.tokens > MAX_CHOICES:
            raise ProblemError(
                f"at most {MAX_EXPERTS} experts, and {MAX_CHOICES >> 20} M times that a token may choose one, are "
                f"counted; got {self.tokens} tokens and {self.experts} experts: give rows as a list of counts"
            )
        if self.topk > self.experts:
            raise ProblemError(f"a token cannot go to {self.topk} of {self.experts} experts")
        number("skew, the exponent of Zipf's law,", self.skew, ProblemError, 0.0, 100.0)

    @cached_property
    def shares(self) -> FloatArray:
        """The chance that a token reaches each expert; they add up to `topk`."""
        ranks = np.arange(1, self.experts + 1, dtype=np.float64)
        chances = np.zeros(self.experts)
        while (free := chances < 1.0).any():  # what an expert would get beyond every token goes to the others
            weights = (ranks[free] / ranks[free][0]) ** -float(self.skew)  # the first is 1, however small the others
            chances[free] = weights / weights.sum() * (self.topk - np.count_nonzero(~free))
            if (chances <= 1.0).all():
                break
            chances = np.minimum(chances, 1.0)
        return chances

    @cached_property
    def _more(self) -> tuple[FloatArray, FloatArray]:
        """P(T > t) by t from 0 on, one row for each distinct share, and how many experts have it."""
        shares, alike = np.unique(np.clip(self.shares, 1e-12, 1 - 1e-12), return_counts=True)
        t = np.arange(1, self.tokens + 1)
        ways = np.concatenate([[0.0], np.cumsum(np.log((self.tokens - t + 1) / t))])
        chosen = np.arange(self.tokens + 1)
        logs = ways + chosen * np.log(shares)[:, None] + (self.tokens - chosen) * np.log1p(-shares)[:, None]
        upto = np.cumsum(np.exp(logs), axis=1)
        return np.clip(1.0 - upto, 0.0, 1.0), alike.astype(np.float64)

    @property
    def uneven(self) -> bool:
        return self.topk < self.experts

    @property
    def rows(self) -> int:
        return self.tokens * self.topk

    @property
    def groups(self) -> int:
        """Experts that any token reaches."""
        more, alike = self._more
        return max(1, round(float(alike @ more[:, 0])))

    def row_tiles(self, height: int) -> int:
        """Tiles of so many rows that all groups make: the mean of ceil(T / height) is the sum of P(T > j height)."""
        more, alike = self._more
        return max(1, round(float(alike @ more[:, ::height].sum(axis=1))))


class Counts(Record):
    """Groups whose rows were counted."""

    counts: tuple[int, ...]

    @property
    def uneven(self) -> bool:
        return len(set(self.counts)) > 1

    @property
    def rows(self) -> int:
        return sum(self.counts)

    @property
    def groups(self) -> int:
        return sum(count > 0 for count in self.counts)

    def row_tiles(self, height: int) -> int:
        return sum(-(-count // height) for count in self.counts)


class GroupedMatmulTemplate(Template):
    """C = A B for groups of rows, each with its own B, which is stored N x K as in serving engines.

    `rows` is one of these: the number of rows of each of `experts` groups; a list of counts; a `Routing`; or, with
    `chosen`, a number of tokens, each of which goes to that many of `experts`, by Zipf's law with exponent `skew`. A
    kernel gathers the rows of a group and pads them to whole tiles, so the cost depends on how many tiles the groups
    make. `scale_block`: 8-bit operands, with one scale for each row and that many elements of K of A, and one for each
    block of that many columns and elements of K of B. If the weights are narrower than A (int8, int4, or uint4 with
    zero points), only they have scales: (1, 128) is one for each column and 128 of K.
    """

    def __init__(
        self, rows: int | Sequence[int] | Routing, N: int, K: int, experts: int | None = None,
        in_dtype: str = "bfloat16", out_dtype: str | None = None, b_dtype: str | None = None,
        scale_block: Sequence[int] | str | None = None, chosen: int | None = None, skew: float = 0.0,
    ) -> None:  # fmt: skip
        dealt = _dealt(rows, experts, chosen, skew)
        a, b = dtypes.canonical(in_dtype), dtypes.canonical(b_dtype or in_dtype, packed=True)
        types = {"C": output_type(a, out_dtype), "A": a, "B": b}
        sizes = {"e": dealt.groups, "m": max(1, round(dealt.rows / dealt.groups)), "n": N, "k": K}
        scale_n, scale_k = scales(scale_block, a, b) or (0, 0)
        options = {"routed_rows": dealt.rows, "uneven": int(dealt.uneven), "scale_n": scale_n, "scale_k": scale_k}
        options |= {f"tiles_{height}": dealt.row_tiles(height) for height in HEIGHTS}
        computes = "C[e,m,n] += A[e,m,k] * B[e,n,k]"
        super().__init__(Problem("grouped_matmul", computes, sizes, types, accumulator(a), options))


def _dealt(
    rows: int | Sequence[int] | Routing, experts: int | None, chosen: int | None, skew: float
) -> Routing | Counts:
    if chosen is not None:
        if not isinstance(rows, int) or experts is None:
            raise ProblemError(f"tokens go to chosen={chosen} of experts; got rows={rows!r}, experts={experts!r}")
        return Routing(rows, experts, size("chosen", chosen), skew)
    if skew:
        raise ProblemError("skew is of tokens that choose among experts; say with chosen how many each goes to")
    if isinstance(rows, Routing):
        if experts is not None and experts != rows.experts:
            raise ProblemError(f"the routing is over {rows.experts} experts, not experts={experts}")
        return rows
    if isinstance(rows, Sequence) and not isinstance(rows, str):
        counts = tuple(counted("rows", count) for count in rows)
        if experts is not None and experts != len(counts):
            raise ProblemError(f"rows has counts of {len(counts)} experts, not of experts={experts}")
    else:
        if experts is None:
            raise ProblemError("say how many experts there are, or give rows as a list of counts or a Routing")
        if (groups := size("experts", experts)) > MAX_EXPERTS:
            raise ProblemError(f"at most {MAX_EXPERTS} experts have weights of their own, got {groups}")
        counts = (size("rows", rows),) * groups
    if not sum(counts):
        raise ProblemError("no group has a row")
    return Counts(counts)


def reference(problem: Problem, inputs: Mapping[str, Any], xp: Any) -> tuple[Any, Any]:
    if problem.options["uneven"]:
        raise ProblemError("groups of different numbers of rows have no reference: their tensors are not dense")
    return operator.value(problem, inputs, xp)


OPERATOR = Operator(
    "grouped_matmul",
    GroupedMatmulTemplate,
    "C = A B for each of EXPERTS groups of ROWS rows with its own B, N x K.",
    reference=reference,
)  # fmt: skip


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
        self, tokens: int, experts: int, topk: int, hidden: int, intermediate: int, dtype: str = "bfloat16",
        block_shape: Sequence[int] | str | None = None, routing: str | float | Sequence[int] = "uniform",
        weight_dtype: str | None = None, out_dtype: str = "bfloat16",
    ) -> None:  # fmt: skip
        hidden, intermediate = size("hidden", hidden), size("intermediate", intermediate)
        rows = _dealt_by(tokens, experts, topk, routing)
        types = dtype if weight_dtype in (None, dtype) else f"{dtype}, weights {weight_dtype}"
        self.title = f"{tokens} tokens to {topk} of {experts} experts of {hidden} x {intermediate} ({types})"
        self.up: Template
        self.down: Template
        self.up, self.down = (
            GroupedMatmulTemplate(rows, n, k, None, dtype, out_dtype, weight_dtype, block_shape)
            for n, k in ((2 * intermediate, hidden), (hidden, intermediate))
        )

    @takes(ArchError, besides="arch")
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


def _dealt_by(tokens: int, experts: int, topk: int, routing: str | float | Sequence[int]) -> Routing | Sequence[int]:
    if isinstance(routing, int | float | np.number):
        return Routing(tokens, experts, topk, float(routing))
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
