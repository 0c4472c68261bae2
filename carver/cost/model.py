"""A cost model: the columns and constants that it reads, and the function that turns them into `Work`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..base.types import FloatArray, FrozenDict, IntArray
from ..kernels.columns import Stack, Together, columns, shared
from ..kernels.declaration import Kernel
from ..kernels.enumeration import Fixed
from ..kernels.space import Space
from .constants import resolve
from .work import Work


@dataclass(frozen=True)
class Part:
    """A dataclass of columns, and the names of the constants that the terms over these columns read."""

    columns: type
    constants: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Model:
    """A cost model, which declarations name by their key `model`."""

    work: Callable[[Any, Mapping[str, Any]], Work]
    """The demands of a space's candidates with these constants. If the model has a `variant`, also of a `Together`;
    constants in which its kernels differ are then columns."""
    parts: tuple[Part, ...]
    optional: Part | None = None
    """Columns of a variant of the kernel. They count if a declaration gives any column that only this part requires."""
    many: bool = False
    """Whether sizes may also be columns, so that candidates of several problems can be priced as one space."""
    bound: Callable[[Space, Mapping[str, float]], FloatArray] | None = None
    """A lower bound of each candidate's seconds, much cheaper to compute than `work`."""
    variant: Callable[[Kernel, Mapping[str, float]], Hashable] | None = None
    """What the terms ask of a kernel as a whole. Kernels for which it is the same can be priced in one pass."""

    def in_force(self, names: Collection[str]) -> tuple[Part, ...]:
        """The parts that apply to a declaration with columns of these names."""
        if self.optional is None:
            return self.parts
        marks = {column.name for column in columns(self.optional.columns) if column.required}
        return (*self.parts, self.optional) if marks.intersection(names) else self.parts


Demands = TypeVar("Demands")


Terms: TypeAlias = Callable[[Space, Mapping[str, float]], Demands]
"""A function that computes demands of a space's candidates, as a dataclass of arrays."""


def kept(terms: Terms[Demands], reads: tuple[type, ...], space: Space | Together, k: Mapping[str, float]) -> Demands:
    """`terms(space, k)`, cached for carver's own candidates, which are the same for every shape.

    Nothing is cached if a column that the terms read (`reads`) depends on the problem's sizes. If the candidates are
    those of several kernels, each has its own constants.
    """
    chosen = space if isinstance(space, Together) else Together.of(space)
    if chosen is None:
        assert isinstance(space, Space)
        return terms(space, k)
    constants = (k,) if len(chosen.parts) == 1 else tuple(resolve(part.kernel, part.arch) for part in chosen.parts)
    if chosen.once(("sized", reads), partial(_sized, reads, chosen.tables)):
        made, rows = _Demands.of(terms, chosen.parts, constants), np.arange(len(chosen))
    else:
        frozen = tuple(each if isinstance(each, FrozenDict) else FrozenDict(each) for each in constants)
        made, rows = chosen.once((terms, frozen), partial(_of_tables, terms, chosen.tables, frozen)), chosen.rows
    found: Demands = made.take(rows)
    return found


def _sized(reads: tuple[type, ...], tables: Sequence[Fixed]) -> bool:
    return any(column.name in table.sized for each in reads for column in columns(each) for table in tables)


@dataclass(frozen=True)
class _Demands:
    """Demands of candidates of one or more kernels, one kernel's after the other's."""

    kind: type
    alike: Mapping[str, Any]
    """Values that all candidates share."""
    columns: Stack

    @classmethod
    def of(cls, terms: Terms[Any], spaces: Sequence[Space], constants: Sequence[Mapping[str, float]]) -> _Demands:
        made = [terms(space, k) for space, k in zip(spaces, constants, strict=True)]
        values = [{name: _number(value) for name, value in vars(each).items()} for each in made]
        alike, stacked = shared(values, [len(space) for space in spaces])
        return cls(type(made[0]), alike, stacked)

    @property
    def nbytes(self) -> int:
        return self.columns.nbytes

    def take(self, rows: IntArray) -> Any:
        return self.kind(**self.alike, **self.columns.take(rows))


def _number(column: Any) -> Any:
    """The number that every entry of a column is; the column itself if they differ."""
    return column[0] if np.size(column) and np.ndim(column) and (column == column[0]).all() else column


def _of_tables(terms: Terms[Any], tables: Sequence[Fixed], constants: Sequence[Mapping[str, float]]) -> _Demands:
    """Demands of all candidates that are enumerated once and serve every shape."""
    spaces = [Space(t.problem, t.arch, t.kernel, t.scope, t.columns, t.index) for t in tables]
    return _Demands.of(terms, spaces, constants)
