"""A cost model: the columns and constants that it reads, and the function that turns them into `Work`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from ..base.types import FloatArray
from ..kernels.columns import columns
from ..kernels.declaration import Kernel
from ..kernels.enumeration import Tables
from ..kernels.space import Space
from ..kernels.trace import simple
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
    """The demands of a space's candidates with these constants. If the model has a `variant`, also of `Tables`;
    constants in which their kernels differ are then columns."""
    parts: tuple[Part, ...]
    optional: Part | None = None
    """Columns of a variant of the kernel. They count if a declaration gives any column that only this part requires."""
    bound: Callable[[Any, Mapping[str, Any]], FloatArray] | None = None
    """A lower bound of each candidate's seconds, much cheaper to compute than `work`."""
    variant: Callable[[Kernel, Mapping[str, float]], Hashable] | None = None
    """What the terms ask of a kernel as a whole. Kernels for which it is the same can be priced in one pass; the terms
    can be traced."""
    apart: tuple[type, ...] = ()
    """Columns of terms that are computed for each kernel by itself (`apart`). A kernel of which one of these depends on
    sizes is priced alone."""

    def in_force(self, names: Collection[str]) -> tuple[Part, ...]:
        """The parts that apply to a declaration with columns of these names."""
        if self.optional is None:
            return self.parts
        marks = {column.name for column in columns(self.optional.columns) if column.required}
        return (*self.parts, self.optional) if marks.intersection(names) else self.parts


Demands = TypeVar("Demands")


Terms: TypeAlias = Callable[[Any, Mapping[str, Any]], Demands]
"""A function that computes demands of a space's candidates, as a dataclass of arrays."""


def apart(terms: Terms[Demands], space: Space | Tables, k: Mapping[str, Any]) -> Demands:
    """`terms(space, k)`; for tables of several kernels, that of each kernel by itself, one after the other."""
    if isinstance(space, Space):
        return terms(space, k)
    made = [terms(each, resolve(each.kernel, each.arch)) for each in space.spaces]
    every = [{name: simple(value) for name, value in vars(each).items()} for each in made]
    return type(made[0])(**{name: space.stacked([each[name] for each in every]) for name in every[0]})
