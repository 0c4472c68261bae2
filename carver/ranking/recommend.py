"""carver's own candidates, ranked: which kernels there are for a problem, and the fastest of their candidates.

Where a model has a lower bound, only those are priced whose bound is not above the k-th best time.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import ConfigError, NoCandidates
from ..base.given import takes
from ..base.types import BoolArray
from ..cost.pricing import Priced, least_seconds, price_each
from ..cost.tile import peak
from ..kernels.backends import BACKENDS, preferred
from ..kernels.declaration import Kernel, backends, every, kernel_named, kernels
from ..kernels.enumeration import Columns, enumerate_each, instructions, own_rows
from ..kernels.scope import matrix_unit, multiply_dtype, plain, static_scope
from ..kernels.space import Space, misses
from ..kernels.trace import loops
from ..problem.problem import Problem, counted
from .declared import Declared, recalled
from .ranking import Ranking

if TYPE_CHECKING:
    from .profile import Given

RECONSIDERED = 200
"""Number of candidates that a profile reorders: the fastest by the model alone."""
Order = list[int]
"""Candidates, best first: the rows of the first part count from 0, those of the next follow."""
FEW = 1024 if loops is None else 256
"""Up to this many candidates are priced without bounds: bounding them would take as long."""
REACH = 1.2
"""The first pass prices candidates whose lower bound is within this factor of the least bound. It is large, so that a
second pass is rare."""
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
    return recalled(_recommend(problem, arch, wanted, chosen, offered, notes), profile)[:topk]


@takes(ConfigError, besides="topk")
def recommend_problems(
    problems: Sequence[Problem], arch: Arch, topk: int = 10, backend: str | None = None, profile: Given | None = None
) -> list[Ranking]:
    """`recommend` for each problem, in the given order."""
    topk = counted("topk", topk, 1)
    wanted = topk if profile is None else max(topk, RECONSIDERED)
    out = []
    for problem in problems:
        chosen = backend or default_backend(problem, arch)
        ranking = _recommend(problem, arch, wanted, chosen, *offered_kernels(problem, arch, chosen))
        out.append(recalled(ranking, profile)[:topk])
    return out


def _recommend(
    problem: Problem, arch: Arch, topk: int, backend: str, offered: Sequence[Kernel], notes: tuple[str, ...]
) -> Ranking:
    """`recommend` with the given kernels."""
    spaces, removed = enumerate_each(problem, arch, offered), dict[str, int]()
    for space in spaces:
        for why, count in space.removed.items():
            removed[why] = removed.get(why, 0) + count
    candidates = sum(map(len, spaces))
    if not candidates:
        avoided = {why for kernel in offered for why in kernel.avoid}  # listed after rules that can never be met
        told = dict(sorted(removed.items(), key=lambda item: item[0] in avoided))
        missed = {why: said for kernel in offered for why, said in misses(problem, arch, kernel).items()}
        raise NoCandidates(f"{problem} with backend {backend!r} on {arch.name}", told, missed)
    parts, order = fastest(spaces, topk)
    table = Declared(problem, arch, backend, parts, (*too_large(problem, arch), *notes))
    return Ranking(table, order, candidates, removed)


def fastest(spaces: Sequence[Space], topk: int) -> tuple[tuple[Priced, ...], Order]:
    """The candidates that were priced, and the `topk` fastest: the same as if all had been priced.

    Equal times are ordered by less shared memory, then fewer warps, then the kernel declared first, then smaller
    tunables.
    """
    spaces = [space for space in spaces if len(space)]
    total = sum(map(len, spaces))
    bounds = least_seconds(spaces) if total > max(FEW, topk) else []
    least = [float(bound.min()) for bound in bounds if bound is not None]
    if not least:
        parts = price_each(spaces)
        return tuple(parts), in_order(parts, topk)
    reach, wanted, first = min(least), min(topk, total), list[BoolArray]()
    while sum(map(np.count_nonzero, first)) < wanted:  # a candidate without a bound is always priced
        reach *= REACH
        first = [np.ones(len(s), bool) if b is None else b <= reach for s, b in zip(spaces, bounds, strict=True)]
    parts, kernels = _priced(spaces, first)
    limit = _kth(parts, wanted)
    if limit > reach:
        rest = [np.zeros(len(s), bool) if b is None else b <= limit for s, b in zip(spaces, bounds, strict=True)]
        more, more_kernels = _priced(spaces, [some & ~done for some, done in zip(rest, first, strict=True)])
        parts, kernels = parts + more, kernels + more_kernels
    return tuple(parts), in_order(parts, topk, kernels)


def _priced(spaces: Sequence[Space], chosen: Sequence[BoolArray]) -> tuple[list[Priced], list[int]]:
    """The chosen rows of each space, priced, and the number of each part's space."""
    there = [place for place, some in enumerate(chosen) if some.any()]
    return price_each([own_rows(spaces[place], np.flatnonzero(chosen[place])) for place in there]), there


def _kth(parts: Sequence[Priced], wanted: int) -> float:
    """The `wanted`-th smallest time."""
    return float(np.partition(np.concatenate([part.seconds for part in parts]), wanted - 1)[wanted - 1])


def in_order(parts: Sequence[Priced], topk: int, kernels: Sequence[int] | None = None) -> Order:
    """The `topk` fastest candidates of parts, of which some may be of one kernel: `kernels` has the number of each."""
    starts = [0, *accumulate(len(part.seconds) for part in parts)]
    times = np.concatenate([part.seconds for part in parts])
    kth = min(topk, len(times)) - 1
    rows = (times <= np.partition(times, kth)[kth]).nonzero()[0]
    rows = rows[times[rows].argsort(kind="stable")]

    def by(row: int) -> tuple[Any, ...]:
        number = bisect(starts, row) - 1
        part, at = parts[number], row - starts[number]
        columns = part.space.columns
        if isinstance(columns, Columns) and columns.fixed.ascending:
            place = [part.space.index[at]]
        else:
            place = [part.space.at(at, name, 0) for name in part.space.kernel.tunables]
        return part.space.at(at, "smem_bytes", 0), part.warps[at], kernels[number] if kernels else number, place

    tied = groupby(zip(times[rows].tolist(), rows.tolist(), strict=True), key=itemgetter(0))
    found = [[row for _, row in group] for _, group in tied]
    return [row for group in found for row in (group if len(group) == 1 else sorted(group, key=by))][:topk]


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
