"""Matrix products of groups of rows, each with its own weights: the experts of a mixture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.errors import ProblemError
from ..base.given import number
from ..base.types import FloatArray
from ..problem.problem import Problem, counted, size
from . import arrays
from .matmul import SCALE_BLOCK, scales
from .operator import DTYPE, OUT_DTYPE, Argument, Operator
from .template import Template, accumulator, output_type

MAX_EXPERTS = 1 << 16
MAX_CHOICES = 1 << 24
"""Tokens x experts: a chance of each is held."""
HEIGHTS = (16, 32, 64, 128, 256)
"""Heights of a tile that groups of rows are padded to."""


@dataclass(frozen=True)
class Routing:
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
        weights = np.arange(1, self.experts + 1, dtype=np.float64) ** -float(self.skew)
        chances = np.zeros(self.experts)
        while True:  # what an expert would get beyond every token goes to the others
            free = chances < 1.0
            chances[free] = weights[free] / weights[free].sum() * (self.topk - np.count_nonzero(~free))
            if (chances <= 1.0).all():
                return chances
            chances = np.minimum(chances, 1.0)

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


@dataclass(frozen=True)
class Counts:
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
        self,
        rows: int | Sequence[int] | Routing,
        N: int,
        K: int,
        experts: int | None = None,
        in_dtype: str = "bfloat16",
        out_dtype: str | None = None,
        b_dtype: str | None = None,
        scale_block: Sequence[int] | str | None = None,
        chosen: int | None = None,
        skew: float = 0.0,
    ) -> None:
        dealt = _dealt(_routed(rows, experts, chosen, skew), experts)
        a, b = dtypes.canonical(in_dtype), dtypes.canonical(b_dtype or in_dtype, packed=True)
        types = {"C": output_type(a, out_dtype), "A": a, "B": b}
        sizes = {"e": dealt.groups, "m": max(1, round(dealt.rows / dealt.groups)), "n": N, "k": K}
        scale_n, scale_k = scales(scale_block, a, b) or (0, 0)
        options = {"routed_rows": dealt.rows, "uneven": int(dealt.uneven), "scale_n": scale_n, "scale_k": scale_k}
        options |= {f"tiles_{height}": dealt.row_tiles(height) for height in HEIGHTS}
        computes = "C[e,m,n] += A[e,m,k] * B[e,n,k]"
        super().__init__(Problem("grouped_matmul", computes, sizes, types, accumulator(a), options))


def _routed(
    rows: int | Sequence[int] | Routing, experts: int | None, chosen: int | None, skew: float
) -> int | Sequence[int] | Routing:  # fmt: skip
    """Rows as they were given, or the routing of so many tokens."""
    if chosen is None:
        if skew:
            raise ProblemError("skew is of tokens that choose among experts; say with chosen how many each goes to")
        return rows
    if not isinstance(rows, int) or experts is None:
        raise ProblemError(f"tokens go to chosen={chosen} of experts; got rows={rows!r}, experts={experts!r}")
    return Routing(rows, experts, size("chosen", chosen), skew)


def _dealt(rows: int | Sequence[int] | Routing, experts: int | None) -> Routing | Counts:
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
    return arrays.value(problem, inputs, xp)


OPERATOR = Operator(
    "grouped_matmul",
    GroupedMatmulTemplate,
    "C = A B for each of EXPERTS groups of ROWS rows with its own B, N x K.",
    (
        Argument("rows"), Argument("N"), Argument("K"), Argument("experts"), DTYPE, OUT_DTYPE,
        Argument("b_dtype", "type of B, if it differs from A's", "--b-dtype", metavar="TYPE"), SCALE_BLOCK,
        Argument("chosen", "ROWS are tokens, each of which goes to this many experts", "--chosen"),
        Argument("skew", "exponent of Zipf's law, by which tokens choose experts", "--skew"),
    ),
    reference=reference,
)  # fmt: skip
