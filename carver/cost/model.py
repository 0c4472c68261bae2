"""A cost model: the columns and constants that it reads, the function that turns them into `Work`, and whether a
declaration gives what it reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, TypeAlias, TypeVar

from ..base.errors import nearest
from ..base.types import FloatArray
from ..kernels.columns import Column, Shown, by_name, columns
from ..kernels.declaration import DeclarationError, Fault, Kernel
from ..kernels.enumeration import Tables
from ..kernels.space import Space
from ..kernels.trace import simple
from . import estimate
from .constants import CONSTANTS, resolve
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


_PLACES = {
    "attention": "attention.ATTENTION", "contraction": "contraction.CONTRACTION", "stream": "stream.STREAM",
    "cpu_contraction": "cpu.CPU_CONTRACTION", "cpu_stream": "cpu.CPU_STREAM", "window": "window.WINDOW",
    "delayed_sum": "window.DELAYED_SUM", "gated": "attention.GATED", "matmul_softmax": "attention.MATMUL_SOFTMAX",
}  # fmt: skip


class _Models(Mapping[str, Model]):
    """Models by name. Each is imported on first use, since a query needs one or two."""

    def __getitem__(self, name: str) -> Model:
        module, model = _PLACES[name].split(".")
        found: Model = getattr(import_module(f"{__package__}.models.{module}"), model)
        return found

    def __contains__(self, name: object) -> bool:
        return name in _PLACES

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


MODELS: Mapping[str, Model] = _Models()


@lru_cache(maxsize=256)
def model_of(kernel: Kernel) -> Model:
    """The cost model that a declaration names. Raises DeclarationError where the two do not fit."""
    if faults := model_faults(kernel):
        raise DeclarationError(kernel.path, faults)
    return MODELS[kernel.model]


def columns_of(kernel: Kernel) -> Mapping[str, Column]:
    """The columns that a declaration may give, by name."""
    parts = MODELS[kernel.model].in_force({*kernel.tunables, *kernel.derived})
    return by_name((*(part.columns for part in parts), Shown))


def constants_of(kernel: Kernel) -> frozenset[str]:
    """The names of the constants on which a kernel's predicted times depend."""
    parts = MODELS[kernel.model].in_force({*kernel.tunables, *kernel.derived})
    return estimate.READS.union(*(part.constants for part in parts))


def model_faults(kernel: Kernel) -> list[Fault]:
    """Every reason why the model cannot price this kernel; empty where it can."""
    if kernel.model not in MODELS:
        return [Fault("", "model", f"unknown model {kernel.model!r}; {nearest(kernel.model, MODELS)}")]
    model, known, out = kernel.model, columns_of(kernel), []
    for name in kernel.schedule:
        if name not in known:
            near = nearest(name, known)
            says = f"model {model!r} reads no column {name!r}; {near} A helper of other expressions stands under [let]"
            out.append(Fault("schedule", name, says))
    for name in kernel.let:
        if name in known:
            says = f"{name!r} is a column that model {model!r} reads: it stands under [schedule]"
            out.append(Fault("let", name, says))
    there = {*kernel.tunables, *kernel.derived}
    if missing := [c.name for c in known.values() if c.required and not c.from_problem and c.name not in there]:
        out.append(Fault("schedule", "", f"model {model!r} also reads {', '.join(missing)}, which nothing gives"))
    read = constants_of(kernel)
    for name in kernel.constants:
        if name not in CONSTANTS:
            out.append(Fault("constants", name, f"unknown constant {name!r}; {nearest(name, CONSTANTS)}"))
        elif name not in read:
            out.append(Fault("constants", name, f"model {model!r} does not read the constant {name!r}"))
    return out
