"""The fastest of many candidates, without pricing all of them where a model has a lower bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.types import BoolArray, FloatArray, IntArray
from ..cost.check import model_of
from ..cost.constants import resolve
from ..cost.pricing import Priced, price_each
from ..kernels.enumeration import Columns, Many
from ..kernels.space import Space

Order = list[int]
"""Candidates, best first: the rows of the first part count from 0, those of the next follow."""

FEW = 2048
"""Up to this many candidates of a single problem are priced without bounds: bounding them would take as long."""
REACH, REACH_ALONE = 1.05, 1.2
"""The first pass prices candidates whose lower bound is within this factor of the least bound of their problem. With
many problems the factor is small, since a second pass over all of them together is cheap. A problem alone gets a larger
one, so that it rarely needs a second pass."""


def fastest(spaces: Sequence[Many], problems: int, topk: int) -> tuple[tuple[Priced, ...], list[Order]]:
    """All candidates that were priced, and the `topk` fastest of each problem: the same as if all had been priced.

    Equal times are ordered by less shared memory, then fewer warps, then the kernel declared first, then smaller
    tunables.
    """
    spaces = [many for many in spaces if len(many.owner)]
    bounds = _bounds(spaces, problems, topk)
    wanted = np.minimum(topk, np.bincount(np.concatenate([many.owner for many in spaces]), minlength=problems))
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


def _bounds(spaces: Sequence[Many], problems: int, topk: int) -> list[FloatArray]:
    """Lower bounds of the candidates' times, for each space. [s]

    They are 0, and exclude no candidate, if the model has no bound or if pricing all costs less than bounding them.
    """
    out = []
    for many in spaces:
        bound = model_of(many.space.kernel).bound
        if bound is None or len(many.owner) <= (max(FEW, topk) if problems == 1 else topk * problems):
            out.append(np.zeros(len(many.owner)))
        else:
            out.append(bound(many.space, resolve(many.space.kernel, many.space.arch)))
    return out


def _within_reach(spaces: Sequence[Many], bounds: Sequence[FloatArray], wanted: IntArray) -> list[BoolArray]:
    """Whether each candidate is priced in the first pass: at least `wanted` of each problem."""
    if not any(bound.any() for bound in bounds):
        return [np.ones(len(bound), bool) for bound in bounds]
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
        seconds = part.seconds
        rows = np.flatnonzero(seconds <= limit[owned])
        start, first = first, first + len(seconds)
        if not len(rows):
            continue
        columns, one = part.space.columns, np.ones(len(rows))
        smem_bytes = columns["smem_bytes"][rows] if "smem_bytes" in columns else 0 * one
        used = np.broadcast_to(part.warps, len(part.space))[rows]
        by_tunables = _place(part.space, rows)
        keys.append((by_tunables, declared * one, used, smem_bytes, seconds[rows], owned[rows], start + rows))
    *by, owner, row = (np.concatenate(key) for key in zip(*keys, strict=True))
    order = np.lexsort((*by, owner))
    starts = np.searchsorted(owner[order], np.arange(len(wanted))).tolist()
    found = row[order].tolist()
    return [found[start : start + count] for start, count in zip(starts, wanted.tolist(), strict=True)]


def _place(space: Space, rows: IntArray) -> FloatArray:
    """Positions of rows in the lexicographic order of their tunables, as declared."""
    if isinstance(space.columns, Columns) and space.columns.fixed.ascending:
        return space.index[rows].astype(np.float64)
    tunables = [np.asarray(space.columns[name])[rows] for name in reversed(list(space.kernel.tunables))]
    place = np.zeros(len(rows))
    if tunables:
        place[np.lexsort(tunables)] = np.arange(len(rows))
    return place
