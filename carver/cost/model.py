"""What a cost model is: the columns and the constants that it reads, and the function that makes demands of both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from ..kernels.columns import columns
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

    def in_force(self, names: Collection[str]) -> tuple[Part, ...]:
        """The parts that a declaration with columns of these names is read by."""
        if self.optional is None:
            return self.parts
        marks = {column.name for column in columns(self.optional.columns) if column.required}
        return (*self.parts, self.optional) if marks.intersection(names) else self.parts
