"""Price a space: run the cost model that the kernel's declaration names."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import accumulate
from typing import Any, cast

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import KernelError
from ..base.types import FloatArray
from ..kernels.columns import Tables, columns
from ..kernels.enumeration import Columns, Fixed, Sizes
from ..kernels.scope import flops_per_s
from ..kernels.space import Space
from ..kernels.trace import Code, Leaf, mapped
from ..problem.problem import Problem
from .check import model_of
from .constants import resolve
from .estimate import Estimate, estimate
from .work import Work


@dataclass(frozen=True, eq=False)
class Pass:
    """Candidates that are priced together. Of these, only the times are always asked for."""

    seconds: FloatArray
    warps: FloatArray
    """Warps of a block, of each candidate or of all."""
    _make: Callable[[], tuple[Work, Estimate]]

    @cached_property
    def record(self) -> tuple[Work, Estimate]:
        return self._make()

    def __reduce__(self) -> tuple[Any, ...]:  # a copy has the record, not the code that makes it
        return Pass, (self.seconds, self.warps, partial(tuple, self.record))


@dataclass(frozen=True, eq=False)
class Priced:
    """Candidates of one kernel, their demands and their predicted times."""

    space: Space
    _pass: Pass
    _rows: slice
    """Which of the candidates of the pass are these."""

    @property
    def seconds(self) -> FloatArray:
        return self._pass.seconds[self._rows]

    @property
    def together(self) -> tuple[Work, Estimate, int]:
        """Demands and times of all candidates that were priced in one pass, and the place of the first of these."""
        return *self._pass.record, self._rows.start

    @property
    def warps(self) -> FloatArray:
        out: FloatArray = self._of(self._pass.warps)
        return out

    @cached_property
    def work(self) -> Work:
        out: Work = self._of(self._pass.record[0])
        return out

    @cached_property
    def estimate(self) -> Estimate:
        out: Estimate = self._of(self._pass.record[1])
        return out

    def _of(self, record: Any) -> Any:
        """These candidates' rows of every array in a record that runs over all of the pass."""
        n, rows = len(self._pass.seconds), self._rows
        return mapped(record, lambda v: v[..., rows] if isinstance(v, np.ndarray) and v.shape[-1:] == (n,) else v)


def price(space: Space) -> Priced:
    """Every candidate with its demands and predicted time. Raises KernelError if the declaration's numbers lead to an
    arithmetic error, such as a division by zero."""
    [priced] = price_each([space])
    return priced


def price_each(spaces: Sequence[Space]) -> list[Priced]:
    """`price` for candidates of several kernels of the same problems, alike kernels in one pass."""
    passes: dict[Hashable, list[int]] = {}
    for place, space in enumerate(spaces):
        own = isinstance(space.columns, Columns)
        key = cast(Columns, space.columns).fixed.once("pass", partial(_alike, space)) if own else None
        passes.setdefault(place if key is None else key, []).append(place)
    found: dict[int, Priced] = {}
    for places in passes.values():
        some = [spaces[place] for place in places]
        made = _in_one_pass(some)
        ends = accumulate(map(len, some))
        found |= {at: Priced(each, made, slice(end - len(each), end))
                  for at, each, end in zip(places, some, ends, strict=True)}  # fmt: skip
    return [found[place] for place in range(len(spaces))]


def _alike(space: Space) -> Hashable:
    """What carver's own candidates of kernels that can be priced in one pass have in common; None if they cannot."""
    kernel, model, sized = space.kernel, model_of(space.kernel), cast(Columns, space.columns).fixed.sized
    if model.variant is None or any(column.name in sized for each in model.apart for column in columns(each)):
        return None
    return kernel.model, model.variant(kernel, resolve(kernel, space.arch))


def _in_one_pass(spaces: Sequence[Space]) -> Pass:
    model, arch = model_of(spaces[0].kernel), spaces[0].arch

    def priced(space: Space | Tables, k: Mapping[str, Any]) -> tuple[Work, Estimate]:
        work = model.work(space, k)
        return work, estimate(work, arch, k)

    try:
        with np.errstate(divide="raise" if len(spaces) > 1 else "warn"):  # as numbers do: constants may be columns
            if model.variant and isinstance(spaces[0].columns, Columns):
                return _traced(spaces, priced)
            work, found = priced(spaces[0], resolve(spaces[0].kernel, arch))
    except ArithmeticError as error:
        names = " and ".join(f"{space.kernel.operator}/{space.kernel.name}" for space in spaces)
        raise KernelError(f"{names} cannot be priced with these constants: {error}") from None
    return Pass(found.seconds, work.warps, lambda: (work, found))


def _traced(spaces: Sequence[Space], priced: Callable[..., Any]) -> Pass:
    code, leaves = _computed("price", priced, spaces)
    (work, found), rows = code.results, sum(map(len, spaces))
    warps = leaves[work.warps.at] if isinstance(work.warps, Leaf) else work.warps
    return Pass(leaves[found.seconds.at], warps, lambda: code.recorded(leaves, rows))


def least_seconds(space: Space) -> FloatArray | None:
    """A lower bound of each candidate's seconds, if its model has one."""
    if (bound := model_of(space.kernel).bound) is None:
        return None
    out: FloatArray = _computed("bound", bound, [space])[1][0]
    return out


def _computed(what: str, terms: Callable[..., Any], spaces: Sequence[Space]) -> tuple[Code, list[Any]]:
    """What `terms` gives for carver's own candidates of some kernels, by code that is traced once for all sizes: the
    code, and its leaves for these candidates."""
    own = [cast(Columns, space.columns) for space in spaces]
    first, *others = tables = tuple(each.fixed for each in own)
    code = first.once((what, *others), partial(_code, terms, tables))
    starts = accumulate((len(table.index) for table in tables), initial=0)
    rows = np.concatenate([each.rows + start for each, start in zip(own, starts, strict=False)])
    scopes = [each.scope for each in own]
    if not isinstance(scopes[0], Sizes):
        return code, code(scopes[0], rows, None)
    return code, code(scopes[0].sizes, rows, np.concatenate([cast(Sizes, scope).owner for scope in scopes]))


def _code(terms: Callable[..., Any], tables: tuple[Fixed, ...]) -> Code:
    space = Tables.of(tables)
    every = [resolve(table.kernel, table.arch) for table in tables]
    k = {name: space.stacked([each[name] for each in every]) for name in every[0]}
    return Code(space.trace, terms(space, k))


def roofline_seconds(problem: Problem, arch: Arch) -> float:
    """The roofline's time: the longer of the arithmetic at the fastest unit's rate and the compulsory bytes at the rate
    of DRAM. [s]"""
    return max(problem.flops / _peak(problem.sizeless, arch), problem.compulsory_bytes / arch.dram_bytes_per_s)


@lru_cache(maxsize=256)
def _peak(problem: Problem, arch: Arch) -> float:
    return max(flops_per_s(problem, arch).values())
