"""What a cost model is: the columns and the constants that it reads, and the function that makes demands of both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..base.types import FloatArray, FrozenDict
from ..kernels.columns import columns
from ..kernels.enumeration import Columns, Fixed
from ..kernels.space import Space
from .work import Work


@dataclass(frozen=True)
class Part:
    """Columns, as a dataclass declares them, and the names of the constants of the terms that read them."""

    columns: type
    constants: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Model:
    """A declaration names one by its key `model`."""

    work: Callable[[Space, Mapping[str, float]], Work]
    parts: tuple[Part, ...]
    optional: Part | None = None
    """In force where a declaration has any column that only this part requires."""
    many: bool = False
    """Whether sizes may be columns too, so that candidates of several problems are priced as one space."""
    bound: Callable[[Space, Mapping[str, float]], FloatArray] | None = None
    """Seconds that no candidate goes below, for much less than `work` takes."""

    def in_force(self, names: Collection[str]) -> tuple[Part, ...]:
        """The parts that a declaration with columns of these names is read by."""
        if self.optional is None:
            return self.parts
        marks = {column.name for column in columns(self.optional.columns) if column.required}
        return (*self.parts, self.optional) if marks.intersection(names) else self.parts


Demands = TypeVar("Demands")


Terms: TypeAlias = Callable[[Space, Mapping[str, float]], Demands]
"""What a space asks for, as a dataclass of arrays."""


def kept(terms: Terms[Demands], reads: Sequence[type], space: Space, k: Mapping[str, float]) -> Demands:
    """`terms(space, k)`; of carver's candidates kept from shape to shape, unless a column of `reads` needs sizes."""
    chosen = space.columns
    if not isinstance(chosen, Columns) or any(c.name in chosen.fixed.sized for each in reads for c in columns(each)):
        return terms(space, k)
    found: Demands = rows_of(_of_fixed(terms, chosen.fixed, FrozenDict(k)), chosen.rows)
    return found


@lru_cache(maxsize=256)
def _of_fixed(terms: Callable[[Space, Mapping[str, float]], Any], fixed: Fixed, k: FrozenDict[float]) -> Any:
    return terms(Space(fixed.problem, fixed.arch, fixed.kernel, fixed.scope, fixed.columns, fixed.index), k)


def rows_of(demands: Demands, rows: Any) -> Demands:
    """Some rows of a dataclass of arrays; what is one number for all stays."""
    taken = {f.name: getattr(demands, f.name) for f in fields(demands)}  # type: ignore[arg-type]
    return type(demands)(**{name: v.take(rows) if np.ndim(v) else v for name, v in taken.items()})
