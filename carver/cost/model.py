"""A cost model: the columns and constants that it reads, and the function that turns them into `Work`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..base.types import FloatArray, FrozenDict, IntArray
from ..kernels.columns import Stack, columns
from ..kernels.enumeration import Columns, Fixed
from ..kernels.space import Space
from .work import Work


@dataclass(frozen=True)
class Part:
    """A dataclass of columns, and the names of the constants that the terms over these columns read."""

    columns: type
    constants: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Model:
    """A cost model, which declarations name by their key `model`."""

    work: Callable[[Space, Mapping[str, float]], Work]
    parts: tuple[Part, ...]
    optional: Part | None = None
    """Columns of a variant of the kernel. They count if a declaration gives any column that only this part requires."""
    many: bool = False
    """Whether sizes may also be columns, so that candidates of several problems can be priced as one space."""
    bound: Callable[[Space, Mapping[str, float]], FloatArray] | None = None
    """A lower bound of each candidate's seconds, much cheaper to compute than `work`."""

    def in_force(self, names: Collection[str]) -> tuple[Part, ...]:
        """The parts that apply to a declaration with columns of these names."""
        if self.optional is None:
            return self.parts
        marks = {column.name for column in columns(self.optional.columns) if column.required}
        return (*self.parts, self.optional) if marks.intersection(names) else self.parts


Demands = TypeVar("Demands")


Terms: TypeAlias = Callable[[Space, Mapping[str, float]], Demands]
"""A function that computes demands of a space's candidates, as a dataclass of arrays."""


def kept(terms: Terms[Demands], reads: tuple[type, ...], space: Space, k: Mapping[str, float]) -> Demands:
    """`terms(space, k)`, cached for carver's own candidates, which are the same for every shape.

    Nothing is cached if a column that the terms read (`reads`) depends on the problem's sizes.
    """
    chosen = space.columns
    if not isinstance(chosen, Columns) or chosen.fixed.once(("sized", reads), partial(_sized, reads, chosen.fixed)):
        return terms(space, k)
    constants = k if isinstance(k, FrozenDict) else FrozenDict(k)
    made = chosen.fixed.once((terms, constants), partial(_Demands.of, terms, chosen.fixed, constants))
    found: Demands = made.take(chosen.rows)
    return found


def _sized(reads: tuple[type, ...], fixed: Fixed) -> bool:
    return any(column.name in fixed.sized for each in reads for column in columns(each))


@dataclass(frozen=True)
class _Demands:
    """Demands of all candidates that are enumerated once and serve every shape."""

    kind: type
    alike: Mapping[str, Any]
    """Values that all candidates share."""
    columns: Stack

    @classmethod
    def of(cls, terms: Terms[Any], fixed: Fixed, k: FrozenDict[float]) -> _Demands:
        made = terms(Space(fixed.problem, fixed.arch, fixed.kernel, fixed.scope, fixed.columns, fixed.index), k)
        values = {f.name: getattr(made, f.name) for f in fields(made)}
        columns = {name: value for name, value in values.items() if np.ndim(value)}
        alike = {name: value for name, value in values.items() if name not in columns}
        return cls(type(made), alike, Stack.of(columns))

    @property
    def nbytes(self) -> int:
        return self.columns.nbytes

    def take(self, rows: IntArray) -> Any:
        return self.kind(**self.alike, **self.columns.take(rows))
