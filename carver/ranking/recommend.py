"""carver's own candidates, ranked: for one problem, or for many at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..arch.descriptor import Arch
from ..base.errors import ConfigError, NoCandidates
from ..base.given import takes
from ..cost.check import model_of
from ..kernels.declaration import Kernel, kernel_named
from ..kernels.enumeration import enumerate_many
from ..kernels.scope import static_scope
from ..problem.problem import Problem, counted
from .declared import Declared
from .fastest import fastest
from .offers import default_backend, offered_kernels, too_large
from .rank import recalled
from .ranking import Ranking

if TYPE_CHECKING:
    from .profile import Given

RECONSIDERED = 200
"""Number of candidates that a profile reorders: the fastest by the model alone."""
TOGETHER = 64
"""Number of problems that are priced at once, so that their columns fit a core's cache."""


@takes(ConfigError, besides="topk")
def recommend(
    problem: Problem,
    arch: Arch,
    topk: int = 10,
    backend: str | None = None,
    *,
    advised: bool = True,
    kernel: str | None = None,
    profile: Given | None = None,
) -> Ranking:
    """The `topk` fastest candidates of carver's own space for a backend, by the model.

    `kernel` names the one kernel of the operator that is looked at, whatever its backend. With `advised=False` of all
    that can run, those that a kernel's [avoid] leaves out among them. With a `profile`, what was learnt before, they
    are the best of the RECONSIDERED fastest by the model alone. Raises NoCandidates
    when no kernel can run the problem on the device.
    """
    only = kernel_named(problem.operator, kernel) if kernel else None
    chosen = only.backend if only else backend or default_backend(problem, arch)
    offered, notes = offered_kernels(problem, arch, chosen)
    offered = tuple(each for each in offered if only in (None, each))
    if only and not offered:
        unmet = only.unmet(static_scope(problem, arch))
        raise NoCandidates(
            f"{problem} with kernel {only.name!r} on {arch.name}",
            {f"{only.title} requires that {why}": 1 for why in unmet},
        )
    if not advised:
        offered = tuple(replace(each, avoid={}) for each in offered)
    topk = counted("topk", topk, 1)
    wanted = topk if profile is None else max(topk, RECONSIDERED)
    [found] = _recommend([problem], arch, wanted, chosen, offered, notes)
    return recalled(found, profile)[:topk]


@takes(ConfigError, besides="topk")
def recommend_problems(
    problems: Sequence[Problem], arch: Arch, topk: int = 10, backend: str | None = None, profile: Given | None = None
) -> list[Ranking]:
    """`recommend` for each problem, in the given order. Problems that differ only in sizes are priced in one pass."""
    topk = counted("topk", topk, 1)
    wanted = topk if profile is None else max(topk, RECONSIDERED)
    kinds: dict[Problem, list[int]] = {}
    for place, problem in enumerate(problems):
        kinds.setdefault(problem.sizeless, []).append(place)
    found: dict[int, Ranking] = {}
    for places in kinds.values():
        chosen = backend or default_backend(problems[places[0]], arch)
        offered, notes = offered_kernels(problems[places[0]], arch, chosen)
        step = TOGETHER if all(model_of(kernel).many for kernel in offered) else 1
        for start in range(0, len(places), step):
            some = places[start : start + step]
            answers = _recommend([problems[i] for i in some], arch, wanted, chosen, offered, notes)
            found |= zip(some, answers, strict=True)
    return [recalled(found[place], profile)[:topk] for place in range(len(problems))]


def _recommend(
    problems: Sequence[Problem], arch: Arch, topk: int, backend: str, offered: Sequence[Kernel], notes: tuple[str, ...]
) -> list[Ranking]:
    """`recommend` for problems that differ only in sizes, with the given kernels."""
    spaces = enumerate_many(problems, arch, offered)
    removed = [Counter[str]() for _ in problems]
    counts = [0] * len(problems)
    for space in spaces:
        for place, (by_rule, more) in enumerate(zip(space.removed, space.counts, strict=True)):
            removed[place].update(by_rule)
            counts[place] += more
    for problem, count, by_rule in zip(problems, counts, removed, strict=True):
        if not count:
            avoided = {why for kernel in offered for why in kernel.avoid}  # listed after rules that can never be met
            told = dict(sorted(by_rule.items(), key=lambda item: item[0] in avoided))
            raise NoCandidates(f"{problem} with backend {backend!r} on {arch.name}", told)
    parts, orders = fastest(spaces, len(problems), topk)
    return [
        Ranking(
            Declared(problem, arch, backend, parts, (*too_large(problem, arch), *notes)), order, count, dict(by_rule)
        )
        for problem, order, count, by_rule in zip(problems, orders, counts, removed, strict=True)
    ]
