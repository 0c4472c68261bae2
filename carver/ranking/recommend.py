"""carver's own candidates, ranked: which kernels there are for a problem, and the fastest of their candidates.

Where a model has a lower bound, only those are priced whose bound is not above the k-th best time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import ConfigError, NoCandidates
from ..base.given import takes
from ..base.types import BoolArray, FloatArray, IntArray
from ..cost.check import model_of
from ..cost.pricing import Priced, least_seconds, price_each
from ..cost.tile import peak
from ..kernels.backends import BACKENDS, preferred
from ..kernels.declaration import Kernel, backends, every, kernel_named, kernels
from ..kernels.enumeration import Columns, Many, enumerate_many, instructions
from ..kernels.scope import matrix_unit, multiply_dtype, plain, static_scope
from ..kernels.space import Space, misses
from ..problem.problem import Problem, counted
from .declared import Declared, recalled
from .ranking import Ranking

if TYPE_CHECKING:
    from .profile import Given

RECONSIDERED = 200
"""Number of candidates that a profile reorders: the fastest by the model alone."""
TOGETHER = 64
"""Number of problems that are priced at once, so that their columns fit a core's cache."""
Order = list[int]
"""Candidates, best first: the rows of the first part count from 0, those of the next follow."""

FEW = 1024
"""Up to this many candidates of a single problem are priced without bounds: bounding them would take as long."""
REACH, REACH_ALONE = 1.05, 1.2
"""The first pass prices candidates whose lower bound is within this factor of the least bound of their problem. With
many problems the factor is small, since a second pass over all of them together is cheap. A problem alone gets a larger
one, so that it rarely needs a second pass."""
TILES = "triton"
"""Backend to advise if carver's own kernels cannot run, or leave the fastest arithmetic unit idle."""
FULL_RATE = 0.95
"""Kernels that can reach this share of the fastest unit's rate count as using it."""


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
            missed = {why: said for kernel in offered for why, said in misses(problem, arch, kernel).items()}
            raise NoCandidates(f"{problem} with backend {backend!r} on {arch.name}", told, missed)
    parts, orders = fastest(spaces, len(problems), topk)
    return [
        Ranking(
            Declared(problem, arch, backend, parts, (*too_large(problem, arch), *notes)), order, count, dict(by_rule)
        )
        for problem, order, count, by_rule in zip(problems, orders, counts, removed, strict=True)
    ]


def fastest(spaces: Sequence[Many], problems: int, topk: int) -> tuple[tuple[Priced, ...], list[Order]]:
    """All candidates that were priced, and the `topk` fastest of each problem: the same as if all had been priced.

    Equal times are ordered by less shared memory, then fewer warps, then the kernel declared first, then smaller
    tunables.
    """
    spaces = [many for many in spaces if len(many.owner)]
    owned = [many.owner for many in spaces]
    wanted = np.minimum(topk, np.bincount(np.concatenate(owned), minlength=problems))
    if (bounds := _bounds(spaces, problems, topk)) is None:
        parts = price_each([many.space for many in spaces])
        return tuple(parts), _orders(parts, owned, range(len(parts)), _kth(parts, owned, wanted), wanted)
    first = _within_reach(spaces, bounds, wanted)
    parts, owners, kernels = _priced(spaces, first)
    limit = _kth(parts, owners, wanted)
    rest = [~done & (bound <= limit[many.owner]) for many, bound, done in zip(spaces, bounds, first, strict=True)]
    if any(some.any() for some in rest):
        more_parts, more_owners, more_kernels = _priced(spaces, rest)
        parts, owners, kernels = parts + more_parts, owners + more_owners, kernels + more_kernels
        limit = _kth(parts, owners, wanted)
    return tuple(parts), _orders(parts, owners, kernels, limit, wanted)


def in_order(parts: Sequence[Priced], topk: int) -> Order:
    """The `topk` fastest candidates of one problem, if all of them are priced."""
    owners = [np.zeros(len(part.space), np.int64) for part in parts]
    wanted = np.array([min(topk, sum(map(len, owners)))])
    return _orders(parts, owners, range(len(parts)), _kth(parts, owners, wanted), wanted)[0]


def _bounds(spaces: Sequence[Many], problems: int, topk: int) -> list[FloatArray] | None:
    """Lower bounds of the candidates' times, for each space. [s]

    They are 0, and exclude no candidate, if the model has no bound or if pricing all costs less than bounding them;
    None if they are 0 for all.
    """
    most = max(FEW, topk) if problems == 1 else topk * problems
    found = [least_seconds(many.space) if len(many.owner) > most else None for many in spaces]
    if all(bound is None for bound in found):
        return None
    return [np.zeros(len(m.owner)) if bound is None else bound for m, bound in zip(spaces, found, strict=True)]


def _within_reach(spaces: Sequence[Many], bounds: Sequence[FloatArray], wanted: IntArray) -> list[BoolArray]:
    """Whether each candidate is priced in the first pass: at least `wanted` of each problem."""
    least = np.full(len(wanted), np.inf)
    for many, bound in zip(spaces, bounds, strict=True):
        np.minimum.at(least, many.owner, np.where(bound > 0, bound, np.inf))
    more = REACH if len(wanted) > 1 else REACH_ALONE
    reach = np.where(np.isfinite(least), least, 0.0) * more
    while True:
        chosen = [bound <= reach[many.owner] for many, bound in zip(spaces, bounds, strict=True)]
        owners = np.concatenate([many.owner[some] for many, some in zip(spaces, chosen, strict=True)])
        short = np.bincount(owners, minlength=len(wanted)) < wanted
        if not short.any():
            return chosen
        reach[short] *= more


def _priced(
    spaces: Sequence[Many], chosen: Sequence[BoolArray]
) -> tuple[list[Priced], list[IntArray], list[int]]:
    """Price the chosen rows of each space. Returns the priced parts, each row's problem, and each part's kernel."""
    parts, owners, kernels = [], [], []
    for place, (many, some) in enumerate(zip(spaces, chosen, strict=True)):
        if some.any():
            parts.append(many.space if some.all() else many.rows(np.flatnonzero(some)))
            owners.append(many.owner[some])
            kernels.append(place)
    return price_each(parts), owners, kernels


def _kth(parts: Sequence[Priced], owners: Sequence[IntArray], wanted: IntArray) -> FloatArray:
    """The `wanted`-th smallest time of each problem."""
    times = np.concatenate([part.seconds for part in parts])
    if len(wanted) == 1:
        return np.partition(times, wanted - 1)[wanted - 1]
    owner = np.concatenate(owners)
    counts = np.bincount(owner, minlength=len(wanted))
    table = np.full((len(wanted), counts.max()), np.inf)
    table[np.arange(table.shape[1]) < counts[:, None]] = times[np.argsort(owner, kind="stable")]
    table.partition(np.unique(wanted - 1), axis=1)
    return table[np.arange(len(wanted)), wanted - 1]


def _orders(
    parts: Sequence[Priced], owners: Sequence[IntArray], kernels: Sequence[int], limit: FloatArray, wanted: IntArray
) -> list[Order]:
    keys: list[tuple[Any, ...]] = []
    first = 0
    for part, owned, declared in zip(parts, owners, kernels, strict=True):
        space, seconds, warps = part.space, part.seconds, part.warps
        rows = (seconds <= (limit if len(limit) == 1 else limit[owned])).nonzero()[0]
        start, first = first, first + len(seconds)
        if len(rows):
            one = np.ones(len(rows))
            smem_bytes = _column(space, "smem_bytes", rows) if "smem_bytes" in space.columns else one
            used = warps[rows] if np.ndim(warps) else warps * one
            by = (_place(space, rows), declared * one, used, smem_bytes, seconds[rows])
            keys.append((*by, owned[rows], start + rows))
    *tied, owner, row = map(np.concatenate, zip(*keys, strict=True))
    order = np.lexsort((*tied, owner))
    starts = np.searchsorted(owner[order], np.arange(len(wanted))).tolist()
    found = row[order].tolist()
    return [found[start : start + count] for start, count in zip(starts, wanted.tolist(), strict=True)]


def _column(space: Space, name: str, rows: IntArray) -> IntArray:
    columns = space.columns
    return columns.at(name, rows) if isinstance(columns, Columns) else np.asarray(columns[name])[rows]


def _place(space: Space, rows: IntArray) -> FloatArray:
    """Positions of rows in the lexicographic order of their tunables, as declared."""
    if isinstance(space.columns, Columns) and space.columns.fixed.ascending:
        return space.index[rows].astype(np.float64)
    tunables = [_column(space, name, rows) for name in reversed(list(space.kernel.tunables))]
    place = np.zeros(len(rows))
    if tunables:
        place[np.lexsort(tunables)] = np.arange(len(rows))
    return place


def own_backend(arch: Arch, operator: str = "matmul") -> str:
    """carver's own backend for the device, if it has kernels for the operator; otherwise the first backend that has."""
    return preferred(arch, backends(operator).values()).name


def default_backend(problem: Problem, arch: Arch) -> str:
    """carver's own kernels, unless they cannot run the problem as it is written, or leave the fastest unit idle.

    Then tiles for Triton are better advice. But if Triton would copy operands element by element, carver's own kernels
    stay: such copies usually cost more than the faster unit gains.
    """
    return _default_backend(problem.sizeless, arch)


@lru_cache(maxsize=256)
def _default_backend(problem: Problem, arch: Arch) -> str:
    own = own_backend(arch, problem.operator)
    scope = static_scope(problem, arch)
    operator = problem.operator
    there = [each for each in {own, TILES} if each in backends(operator).values()]
    meets = [k for each in there for k in kernels(operator, each) if not k.unmet(scope)]
    runs = [k for k in meets if k.backend == own]
    tiles = [k for k in meets if k.backend == TILES and k.device_kind == arch.kind]
    if not BACKENDS[own].source or not tiles:
        return own
    if not (plain(problem) and runs):
        return TILES
    enough = unit_share(problem, arch, runs) >= min(FULL_RATE, unit_share(problem, arch, tiles))
    return own if enough or copied_singly(problem, arch, tiles) else TILES


def offered_kernels(problem: Problem, arch: Arch, backend: str) -> tuple[tuple[Kernel, ...], tuple[str, ...]]:
    """The kernels of a backend whose requirements this problem and device meet, and notes for the user."""
    offered, notes = _offered(problem.sizeless, arch, backend)
    if not offered:
        scope = static_scope(problem, arch)
        raise NoCandidates(
            f"{problem} with backend {backend!r} on {arch.name}",
            {f"{k.title} requires that {why}": 1 for k in kernels(problem.operator, backend) for why in k.unmet(scope)},
        )
    return offered, notes


def too_large(problem: Problem, arch: Arch) -> tuple[str, ...]:
    """A note for the user if the problem exceeds the device's memory; otherwise empty."""
    if sum(problem.elements.values()) * 8 <= arch.dram_bytes or problem.compulsory_bytes <= arch.dram_bytes:
        return ()  # the first condition is cheap and usually decides
    needs, has = (f"{n / 2**30:,.1f} GiB" for n in (problem.compulsory_bytes, arch.dram_bytes))
    return (f"the tensors take {needs}, the memory of {arch.title} is {has}: predicted as if they fitted",)


@lru_cache(maxsize=256)
def _offered(problem: Problem, arch: Arch, backend: str) -> tuple[tuple[Kernel, ...], tuple[str, ...]]:
    scope = static_scope(problem, arch)
    declared = kernels(problem.operator, backend)
    if declared[0].device_kind != arch.kind:
        others = sorted({k.backend for k in every(problem.operator) if k.device_kind == arch.kind})
        what = f"backend {backend!r} is for a {declared[0].device_kind.upper()}, {arch.title} is a {arch.kind.upper()}"
        has = ", ".join(map(repr, others)) or "no backend"
        raise ConfigError(f"{what}; for it, {problem.operator} has {has}")
    offered = tuple(kernel for kernel in declared if not kernel.unmet(scope))
    notes = []
    if not BACKENDS[backend].runs_on(arch):
        notes.append(f"{BACKENDS[backend].title} kernels do not run on {arch.title}: take the tiles as advice")
    contracts = any("instruction" in kernel.derived for kernel in offered)
    if contracts and not scope["matrix"]:
        notes.append(f"{arch.title} has no matrix instruction for {multiply_dtype(problem)}: vector units are used")
    if contracts and scope["widen_instr"]:
        dtype, unit = multiply_dtype(problem), matrix_unit(problem, arch)
        own = arch.own_float8(dtype)
        has = f"; it multiplies {own} itself" if own != dtype else ""
        notes.append(
            f"{arch.title} has no matrix instruction for {dtype}: each element is converted to "
            f"{unit.dtype if unit else 'float32'} by about {scope['widen_instr']:.0f} instructions{has}"
        )
    elif contracts and scope["matrix"] and scope["matrix_widens"]:
        dtype, unit = multiply_dtype(problem), matrix_unit(problem, arch)
        to = unit.dtype if unit else "float16"
        notes.append(f"{arch.title} has no matrix instruction for {dtype}: elements are converted to {to}")
    if odd := copied_singly(problem, arch, offered):
        what = " and ".join(odd)
        notes.append(f"Triton copies {what} element by element: pad rows to multiples of 16, or see static_shapes")
    if (share := unit_share(problem, arch, offered)) < FULL_RATE:
        rate = f"{arch.title}'s rate for {multiply_dtype(problem)}"
        notes.append(f"at most {share:.0%} of {rate}: none of these kernels issues its fastest instruction")
    return offered, tuple(notes)


def copied_singly(problem: Problem, arch: Arch, offered: Sequence[Kernel]) -> list[str]:
    """The inputs that Triton's kernels copy element by element because a stride is not a multiple of 16."""
    scope = static_scope(problem, arch)
    reads = any("by_16_a" in column.names for kernel in offered for column in kernel.derived.values())
    odd = [t.name for t in problem.statement.inputs if not scope[f"by_16_{t.name.lower()}"]]
    return odd if reads and not scope["static_shapes"] else []


def unit_share(problem: Problem, arch: Arch, offered: Sequence[Kernel]) -> float:
    """Rate of the fastest arithmetic unit that these kernels can use, over that of the device's fastest unit.

    1 for problems without a matrix instruction.
    """
    used = {kind for kernel in offered for kind in instructions(problem, arch, kernel)}
    if not static_scope(problem, arch)["matrix"] or not used:
        return 1.0
    fastest = max(peak(problem, arch, kind) for kind in range(4))
    return max(peak(problem, arch, kind) for kind in used) / fastest
