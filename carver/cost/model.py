"""A cost model: the columns and constants that it reads, the function that turns them into `Work`; and what each
constant means, its prior and its physical bounds.

The columns of a model are tables of `templates/columns/`, constants those of `templates/constants.toml`. A declaration
gives columns in its [schedule] or as a tunable of that name; the problem and the device give others, which a schedule
may replace. The same tables define which keys a [schedule] may and must have.

A prior is used for a kernel that nobody measured. A declaration overrides it under its `[constants]` with values fitted
to measurements (`[fitted]` says which, when and how). A descriptor of a device overrides both with values measured
there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import KernelError, nearest
from ..base.folders import shipped
from ..base.types import FloatArray, FrozenDict, Record
from ..kernels.declaration import DeclarationError, Fault, Kernel
from ..kernels.enumeration import Tables
from ..kernels.space import Space
from ..kernels.trace import Symbol, simple
from . import estimate
from .estimate import Work


class Column(Record):
    """Description of one column: an array of shape (n,), or () if all candidates have the same value."""

    name: str
    unit: str
    """Empty for a ratio; "flag" for 0 or 1."""
    meaning: str
    required: bool
    default: FloatArray | None
    """None if the model can do without the column, or derives its value from another one."""
    from_problem: bool


def _number(value: Any) -> Any:
    """Floats as an array; one alone as a NumPy scalar, which computes faster than an array of shape ()."""
    return np.asarray(value, np.float64)[()]


class Columns:
    """What terms read, as attributes that `read_columns` fills. A class of columns names a table, "file.table"."""

    described: ClassVar[tuple[Column, ...]] = ()
    """Those of its table, behind those of the class that it extends."""
    constants: ClassVar[frozenset[str]]
    """Names of the constants that terms over them read, as its table lists them."""

    def __init_subclass__(cls, table: str) -> None:
        file, _, name = table.partition(".")
        said, found = dict(shipped(f"columns/{file}")[name]), {column.name: column for column in cls.described}
        cls.constants = frozenset(said.pop("constants", ()))
        for source, listed in said.items():
            for column, (unit, meaning, *usual) in listed.items():
                default = None if usual in ([], ["optional"]) else _number(usual[0])
                found[column] = Column(column, unit, meaning, not usual, default, source == "problem")
        cls.described = tuple(found.values())

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> FloatArray: ...


Schema = TypeVar("Schema", bound=Columns)


def read_columns(schema: type[Schema], space: Space | Tables, whole: bool = False, **rest: Any) -> Schema:
    """The columns of a space as floats; with `whole`, all have shape (n,). `rest`: what else terms read."""
    if (schema, whole) not in space.floats:
        found = {each.name: _value(space, each) for each in schema.described}
        if whole:
            found = {name: v if v is None else np.broadcast_to(v, len(space)) for name, v in found.items()}
        space.floats[schema, whole] = found
    made = schema()
    made.__dict__.update(rest, **space.floats[schema, whole])
    return made


def _value(space: Space | Tables, column: Column) -> Any:
    """A column's values in a space: floats, or a symbol if they depend on sizes and the space is traced."""
    if isinstance(space, Tables):
        return space.stacked([_value(each, column) for each in space.spaces])
    there = column.required or column.name in space.columns or column.name in space.scope
    value = space[column.name] if there else column.default
    if isinstance(value, Symbol):
        return value.astype(np.float64)
    return value if value is None else _number(value)


class Shown(Columns, table="any.shown"):
    """Columns that hints show to people and other tools. Any schedule may give them, whatever its model."""


class Constant(Record):
    """A constant of the cost model; a fit keeps it from `low` to `high`."""

    prior: float
    low: float
    high: float
    meaning: str


CONSTANTS = {name: Constant(*said) for name, said in shipped("constants").items()}
"""By name, as the file has them."""


@lru_cache(maxsize=256)
def resolve(kernel: Kernel, arch: Arch) -> Mapping[str, float]:
    """The constants to price `kernel` with on `arch`. Later sources override earlier ones: the priors, the kernel's
    declaration, the descriptor's `[fitted.constants]` for all kernels, its `[fitted."operator/kernel"]` for this one.

    A kernel's `l2_efficiency` is a share of the L2 rate by design. It is ignored where the descriptor gives a measured
    rate (`l2_achieved`), which is already what kernels reach.
    """
    out = {name: c.prior for name, c in CONSTANTS.items()}
    own = f"{kernel.operator}/{kernel.name}"
    for source, given in (
        (str(kernel.path), kernel.constants),
        (arch.name, arch.fitted_constants("constants")),
        (arch.name, arch.fitted_constants(own)),
    ):
        for name in given:
            if name not in CONSTANTS:
                raise KernelError(f"{source}: unknown constant {name!r}; {nearest(name, CONSTANTS)}")
        out.update(given)
        if given is kernel.constants and arch.l2_achieved:
            out["l2_efficiency"] = 1.0
    return FrozenDict(out)


class Model(Record):
    """A cost model, which declarations name by their key `model`."""

    work: Callable[[Any, Mapping[str, Any]], Work]
    """The demands of a space's candidates with these constants. If the model has a `variant`, also of `Tables`;
    constants in which their kernels differ are then columns."""
    parts: tuple[type[Columns], ...]
    optional: type[Columns] | None = None
    """Columns of a variant of the kernel, see `parts_of`."""
    bound: Callable[[Any, Mapping[str, Any]], FloatArray] | None = None
    """A lower bound of each candidate's seconds, much cheaper to compute than `work`."""
    variant: Callable[[Kernel, Mapping[str, float]], Hashable] | None = None
    """What the terms ask of a kernel as a whole. Kernels for which it is the same can be priced in one pass; the terms
    can be traced."""
    apart: tuple[type[Columns], ...] = ()
    """Columns of terms that are computed for each kernel by itself (`apart`). A kernel of which one of these depends on
    sizes is priced alone."""


def apart(
    terms: Callable[[Any, Mapping[str, Any]], SimpleNamespace], space: Space | Tables, k: Mapping[str, Any]
) -> SimpleNamespace:
    """`terms(space, k)`, demands of candidates as arrays, or one number for all; for tables of several kernels, that of
    each kernel by itself, one after the other."""
    if isinstance(space, Space):
        return terms(space, k)
    made = [terms(each, resolve(each.kernel, each.arch)) for each in space.spaces]
    every = [{name: simple(value) for name, value in vars(each).items()} for each in made]
    return SimpleNamespace(**{name: space.stacked([each[name] for each in every]) for name in every[0]})


MODELS = {
    "attention": "attention.ATTENTION", "contraction": "contraction.CONTRACTION", "stream": "stream.STREAM",
    "cpu_contraction": "cpu.CPU_CONTRACTION", "cpu_stream": "cpu.CPU_STREAM", "window": "stream.WINDOW",
    "delayed_sum": "stream.DELAYED_SUM", "gated": "attention.GATED", "matmul_softmax": "attention.MATMUL_SOFTMAX",
}  # fmt: skip
"""Where each model is, by the name that declarations give it. A query needs one or two: they are imported then."""


def model_named(name: str) -> Model:
    module, model = MODELS[name].split(".")
    found: Model = getattr(import_module(f"{__package__}.models.{module}"), model)
    return found


@lru_cache(maxsize=256)
def model_of(kernel: Kernel) -> Model:
    """The cost model that a declaration names. Raises DeclarationError where the two do not fit."""
    if faults := model_faults(kernel):
        raise DeclarationError(kernel.path, faults)
    return model_named(kernel.model)


def parts_of(kernel: Kernel) -> tuple[type[Columns], ...]:
    """What a kernel's model reads. The columns of a variant count if the declaration gives one that only they require.
    """
    model, given = model_named(kernel.model), {*kernel.tunables, *kernel.derived}
    own = model.optional and given.intersection(c.name for c in model.optional.described if c.required)
    return (*model.parts, model.optional) if model.optional and own else model.parts


def columns_of(kernel: Kernel) -> Mapping[str, Column]:
    """The columns that a declaration may give, by name; if several classes have one, as the first says."""
    out: dict[str, Column] = {}
    schemas: tuple[type[Columns], ...] = (*parts_of(kernel), Shown)
    for schema in schemas:
        for each in schema.described:
            out.setdefault(each.name, each)
    return out


def constants_of(kernel: Kernel) -> frozenset[str]:
    """The names of the constants on which a kernel's predicted times depend."""
    return estimate.READS.union(*(part.constants for part in parts_of(kernel)))


def model_faults(kernel: Kernel) -> list[Fault]:
    """Every reason why the model cannot price this kernel; empty where it can."""
    if kernel.model not in MODELS:
        return [Fault("", "model", f"unknown model {kernel.model!r}; {nearest(kernel.model, MODELS)}")]
    model, known, out = kernel.model, columns_of(kernel), []
    for name in kernel.schedule:
        if name not in known:
            near = nearest(name, known)
            says = f"model {model!r} reads no column {name!r}; {near} A helper stands under [let]"
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
