"""Price a space: run the cost model that the kernel's declaration names."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import accumulate, pairwise
from typing import Any, cast

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import KernelError
from ..base.types import FloatArray, IntArray
from ..kernels.columns import Tables, columns
from ..kernels.enumeration import Columns, Fixed
from ..kernels.scope import flops_per_s
from ..kernels.space import Space
from ..kernels.trace import Code, mapped
from ..problem.problem import Problem
from .check import model_of
from .constants import resolve
from .estimate import Estimate, estimate
from .work import Work


@dataclass(frozen=True, eq=False)
class Priced:
    """Candidates of one kernel and their predicted times."""

    space: Space
    seconds: FloatArray
    warps: FloatArray
    """Warps of a block."""
    made: tuple[Work, Estimate] | None = None
    """Demands and terms, of the user's own configurations."""
    traced: _Traced | None = None
    """Of carver's own candidates: their demands and terms are computed for the few that somebody asks for."""


def price(space: Space) -> Priced:
    """Every candidate with its predicted time. Raises KernelError if the declaration's numbers lead to an arithmetic
    error, such as a division by zero."""
    [priced] = price_each([space])
    return priced


def price_each(spaces: Sequence[Space]) -> list[Priced]:
    """`price` for candidates of several kernels of a problem, alike kernels in one pass."""
    found: dict[int, Priced] = {}
    for places in _passes(spaces):
        found |= zip(places, _in_one_pass([spaces[place] for place in places]), strict=True)
    return [found[place] for place in range(len(spaces))]


def least_seconds(spaces: Sequence[Space]) -> list[FloatArray | None]:
    """A lower bound of the seconds of each kernel's own candidates, where its model has one."""
    found: list[FloatArray | None] = [None] * len(spaces)
    for places in _passes(spaces):
        own = [cast(Columns, spaces[place].columns) for place in places]
        traced = _traced(own) if model_of(spaces[places[0]].kernel).bound else None
        if traced is not None:
            bound = _computed(traced.bound, traced.starts, own)
            for place, rows in zip(places, _parts(own), strict=True):
                found[place] = bound[rows]
    return found


def _passes(spaces: Sequence[Space]) -> list[list[int]]:
    """The places of alike kernels' candidates, which can be priced in one pass."""
    passes: dict[Hashable, list[int]] = {}
    for place, space in enumerate(spaces):
        columns = space.columns
        key = columns.fixed.once("pass", partial(_alike, space)) if isinstance(columns, Columns) else None
        passes.setdefault(place if key is None else key, []).append(place)
    return [*passes.values()]


def _alike(space: Space) -> Hashable:
    """What carver's own candidates of kernels that can be priced in one pass have in common; None if they cannot."""
    kernel, model, sized = space.kernel, model_of(space.kernel), cast(Columns, space.columns).fixed.sized
    if model.variant is None or any(column.name in sized for each in model.apart for column in columns(each)):
        return None
    return kernel.model, model.variant(kernel, resolve(kernel, space.arch))


def _demands(space: Space | Tables, k: Mapping[str, Any]) -> tuple[Work, Estimate]:
    work = model_of(space.kernel).work(space, k)
    return work, estimate(work, space.arch, k)


def _in_one_pass(spaces: Sequence[Space]) -> list[Priced]:
    model, first = model_of(spaces[0].kernel), spaces[0]
    try:
        with np.errstate(divide="raise" if len(spaces) > 1 else "warn"):  # as numbers do: constants may be columns
            if model.variant and isinstance(first.columns, Columns):
                own = [cast(Columns, space.columns) for space in spaces]
                traced = _traced(own)
                seconds, warps = np.broadcast_arrays(*_computed(traced.times, traced.starts, own))
                return [Priced(each, seconds[p], warps[p], None, traced)
                        for each, p in zip(spaces, _parts(own), strict=True)]  # fmt: skip
            work, found = _demands(first, resolve(first.kernel, first.arch))
    except ArithmeticError as error:
        names = " and ".join(f"{space.kernel.operator}/{space.kernel.name}" for space in spaces)
        raise KernelError(f"{names} cannot be priced with these constants: {error}") from None
    return [Priced(first, found.seconds, np.broadcast_to(work.warps, len(first)), (work, found))]


def _parts(own: Sequence[Columns]) -> list[slice]:
    """Where each one's rows are, if they stand one after the other."""
    ends = [*accumulate([len(each.rows) for each in own], initial=0)]
    return [slice(start, end) for start, end in pairwise(ends)]


def shown(some: Sequence[tuple[Priced, IntArray]]) -> list[Mapping[str, Any]]:
    """What hints tell of some rows of each of these, as columns: `_shown`."""
    found: dict[int, Any] = {}
    passes: dict[int, list[int]] = {}
    for place, (part, rows) in enumerate(some):
        if part.made:
            found[place] = _picked(_shown(*part.made), len(part.space), rows)
        else:
            passes.setdefault(id(part.traced), []).append(place)
    for places in passes.values():
        traced = cast(_Traced, some[places[0]][0].traced)
        own = [cast(Columns, some[place][0].space.columns).part(some[place][1]) for place in places]
        starts, parts = [traced.starts[traced.tables.index(each.fixed)] for each in own], _parts(own)
        told = _computed(traced.shown, starts, own)
        n = parts[-1].stop
        found |= {at: told if len(own) == 1 else _picked(told, n, p) for at, p in zip(places, parts, strict=True)}
    return [found[place] for place in range(len(some))]


def _shown(work: Work, found: Estimate) -> dict[str, Any]:
    alike = {"seconds": found.seconds, "waves": found.waves, "clocks": tuple(found.rows.values()), "terms": found.terms}
    more = {name: getattr(work, name) for name in ("warps", "resident", "steps", "grid", "facts")}
    return {**alike, **more}


def _picked(columns: Any, n: int, rows: IntArray | slice) -> Any:
    """These rows of every column of so many."""
    return mapped(columns, lambda v: v[rows] if isinstance(v, np.ndarray) and v.shape == (n,) else v)


class _Traced:
    """The demands and times of some kernels' own candidates, traced once for all sizes."""

    def __init__(self, tables: tuple[Fixed, ...]) -> None:
        self.tables = tables
        self.starts = [*accumulate((len(table.index) for table in tables), initial=0)]
        self._space = space = Tables.of(tables)
        every = [resolve(table.kernel, table.arch) for table in tables]
        self._k = {name: space.stacked([each[name] for each in every]) for name in every[0]}
        self._made = work, found = _demands(space, self._k)
        self.times = Code(space.trace, (found.seconds, work.warps))
        self.nbytes = 2 * self.times.nbytes

    @cached_property
    def shown(self) -> Code:
        return Code(self._space.trace, _shown(*self._made))

    @cached_property
    def bound(self) -> Code:
        bound = model_of(self._space.kernel).bound
        assert bound is not None
        return Code(self._space.trace, bound(self._space, self._k))

    def __reduce__(self) -> tuple[Any, ...]:  # a copy is traced again
        return _Traced, (self.tables,)


def _traced(own: Sequence[Columns]) -> _Traced:
    first, *others = tables = tuple(each.fixed for each in own)
    return first.once(("price", *others), partial(_Traced, tables))


def _computed(code: Code, starts: Sequence[int], own: Sequence[Columns]) -> Any:
    """What a formula returns for these rows of some tables, which stand at `starts` one after the other."""
    every = np.concatenate([each.rows + start for each, start in zip(own, starts, strict=False)])
    return code.recorded(code(own[0].scope, every), len(every))


def roofline_seconds(problem: Problem, arch: Arch) -> float:
    """The roofline's time: the longer of the arithmetic at the fastest unit's rate and the compulsory bytes at the rate
    of DRAM. [s]"""
    return max(problem.flops / _peak(problem.sizeless, arch), problem.compulsory_bytes / arch.dram_bytes_per_s)


@lru_cache(maxsize=256)
def _peak(problem: Problem, arch: Arch) -> float:
    return max(flops_per_s(problem, arch).values())
