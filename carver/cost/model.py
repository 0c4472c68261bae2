"""What a cost model is: the columns and the constants that it reads, and the function that makes demands of both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..base.types import FloatArray, FrozenDict
from ..kernels.columns import Stack, columns
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


def kept(terms: Terms[Demands], reads: tuple[type, ...], space: Space, k: Mapping[str, float]) -> Demands:
    """`terms(space, k)`; of carver's candidates kept from shape to shape, unless a column of `reads` needs sizes."""
    chosen = space.columns
    if not isinstance(chosen, Columns) or not _sizeless(reads, chosen.fixed):
        return terms(space, k)
    made, stack = _of_fixed(terms, chosen.fixed, k if isinstance(k, FrozenDict) else FrozenDict(k))
    found: Demands = type(made)(**made.__dict__ | stack.take(chosen.rows))
    return found


@lru_cache(maxsize=1024)
def _sizeless(reads: tuple[type, ...], fixed: Fixed) -> bool:
    return not any(column.name in fixed.sized for each in reads for column in columns(each))


@lru_cache(maxsize=256)
def _of_fixed(
    terms: Callable[[Space, Mapping[str, float]], Any], fixed: Fixed, k: FrozenDict[float]
) -> tuple[Any, Stack]:
    made = terms(Space(fixed.problem, fixed.arch, fixed.kernel, fixed.scope, fixed.columns, fixed.index), k)
    demands = {f.name: getattr(made, f.name) for f in fields(made)}
    return made, Stack.of({name: value for name, value in demands.items() if np.ndim(value)})
