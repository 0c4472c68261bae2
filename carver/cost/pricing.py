"""Price a space: run the cost model that the kernel's declaration names."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import KernelError
from ..base.types import FloatArray
from ..kernels.columns import Together
from ..kernels.enumeration import Columns
from ..kernels.scope import flops_per_s
from ..kernels.space import Space
from ..problem.problem import Problem
from .check import model_of
from .constants import resolve, resolve_each
from .estimate import Estimate, Phase, estimate
from .work import Work


@dataclass(frozen=True, eq=False)
class Priced:
    """Candidates of one kernel, their demands and their predicted times."""

    space: Space
    _work: Work
    _estimate: Estimate
    """Demands and times of all candidates that were priced in one pass."""
    _rows: slice
    """Which of them are these."""

    @property
    def seconds(self) -> FloatArray:
        return self._estimate.seconds[self._rows]

    @property
    def together(self) -> tuple[Work, Estimate, int]:
        """Demands and times of all candidates that were priced in one pass, and the place of the first of these."""
        return self._work, self._estimate, self._rows.start

    @property
    def warps(self) -> FloatArray:
        """Warps of a block, of each candidate or of all."""
        out: FloatArray = _of_rows(self._work.warps, len(self._work), self._rows)
        return out

    @cached_property
    def work(self) -> Work:
        out: Work = _of_rows(self._work, len(self._work), self._rows)
        return out

    @cached_property
    def estimate(self) -> Estimate:
        out: Estimate = _of_rows(self._estimate, len(self._work), self._rows)
        return out


def _of_rows(record: Any, n: int, rows: slice) -> Any:
    """The given rows of every array in a record that runs over n candidates."""
    if rows == slice(0, n):
        return record
    if isinstance(record, np.ndarray):
        return record[..., rows] if record.shape[-1:] == (n,) else record
    if isinstance(record, tuple):
        return tuple(_of_rows(each, n, rows) for each in record)
    if isinstance(record, dict):
        return {name: _of_rows(each, n, rows) for name, each in record.items()}
    if isinstance(record, Work | Estimate | Phase):
        return replace(record, **{f.name: _of_rows(getattr(record, f.name), n, rows) for f in fields(record)})
    return record


def price(space: Space) -> Priced:
    """Every candidate with its demands and predicted time. Raises KernelError if the declaration's numbers lead to an
    arithmetic error, such as a division by zero."""
    [priced] = price_each([space])
    return priced


def price_each(spaces: Sequence[Space]) -> list[Priced]:
    """`price` for candidates of several kernels of the same problems, alike kernels in one pass."""
    passes: dict[Hashable, list[int]] = {}
    for place, space in enumerate(spaces):
        kernel, variant = space.kernel, model_of(space.kernel).variant
        if variant is None or not isinstance(space.columns, Columns):
            passes[place] = [place]
        else:
            passes.setdefault((kernel.model, variant(kernel, resolve(kernel, space.arch))), []).append(place)
    found: dict[int, Priced] = {}
    for places in passes.values():
        found |= zip(places, _in_one_pass([spaces[place] for place in places]), strict=True)
    return [found[place] for place in range(len(spaces))]


def _in_one_pass(spaces: Sequence[Space]) -> Iterator[Priced]:
    kernels, arch = tuple(space.kernel for space in spaces), spaces[0].arch
    counts = [len(space) for space in spaces]
    k = resolve_each(kernels, arch, np.repeat(np.arange(len(kernels)), counts))
    together = Together(tuple(spaces)) if len(spaces) > 1 else spaces[0]
    try:
        with np.errstate(divide="raise" if len(spaces) > 1 else "warn"):  # as numbers do: constants may be columns
            work = model_of(kernels[0]).work(together, k)
            priced = estimate(work, arch, k)
    except ArithmeticError as error:
        names = " and ".join(f"{kernel.operator}/{kernel.name}" for kernel in kernels)
        raise KernelError(f"{names} cannot be priced with these constants: {error}") from None
    for space, end in zip(spaces, accumulate(counts), strict=True):
        yield Priced(space, work, priced, slice(end - len(space), end))


def roofline_seconds(problem: Problem, arch: Arch) -> float:
    """The roofline's time: the longer of the arithmetic at the fastest unit's rate and the compulsory bytes at the rate
    of DRAM. [s]"""
    return max(problem.flops / _peak(problem.sizeless, arch), problem.compulsory_bytes / arch.dram_bytes_per_s)


@lru_cache(maxsize=256)
def _peak(problem: Problem, arch: Arch) -> float:
    return max(flops_per_s(problem, arch).values())
