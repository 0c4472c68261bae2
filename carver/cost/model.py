"""A cost model: the columns and constants that it reads, the function that turns them into `Work`; and what each
constant means, its prior and its physical bounds.

The columns of a model are the fields of a `table`: `column` is one that a declaration gives, in its [schedule] or as a
tunable of that name, and `given` one that the problem and the device give, and that a schedule may replace. The same
class defines which keys a [schedule] may and must have.

A prior (`templates/constants.toml`) is used for a kernel that nobody measured. A declaration overrides it under its
`[constants]` with values fitted to measurements (`[fitted]` says which, when and how). A descriptor of a device
overrides both with values measured there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from importlib import import_module
from typing import Any, TypeVar, cast

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import KernelError, nearest
from ..base.folders import folder
from ..base.given import text_of, toml_of
from ..base.types import FloatArray, FrozenDict, Record
from ..kernels.declaration import DeclarationError, Fault, Kernel
from ..kernels.enumeration import Tables
from ..kernels.space import Space
from ..kernels.trace import Symbol, simple
from . import estimate
from .estimate import Work

_REQUIRED = object()
table = dataclass(init=False, repr=False, eq=False, match_args=False)
"""Makes a class of columns, which `read_columns` fills. Without the methods that a dataclass writes: to compile them
takes longer than all else when a model is imported."""


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


def column(unit: str, meaning: str, default: object = _REQUIRED) -> Any:
    """Declare a field that declarations give. It is required unless it has a default."""
    return field(metadata={"column": (unit, meaning, default, False)})


def given(unit: str, meaning: str, default: object = _REQUIRED) -> Any:
    """Declare a field that the problem and the device give."""
    return field(metadata={"column": (unit, meaning, default, True)})


@lru_cache(maxsize=64)
def columns(schema: Any) -> tuple[Column, ...]:
    """The columns among the fields of a dataclass, in order."""
    out = []
    for each in fields(schema):
        if "column" in each.metadata:
            unit, meaning, default, from_problem = each.metadata["column"]
            value = None if default is None or default is _REQUIRED else _number(default)
            out.append(Column(each.name, unit, meaning, default is _REQUIRED, value, from_problem))
    return tuple(out)


def _number(value: Any) -> Any:
    """Floats as an array; one alone as a NumPy scalar, which computes faster than an array of shape ()."""
    return np.asarray(value, np.float64)[()]


Schema = TypeVar("Schema")


def read_columns(schema: type[Schema], space: Space | Tables, whole: bool = False, **rest: Any) -> Schema:
    """Fill the dataclass `schema` with the columns of a space, as floats; with `whole`, all have shape (n,).

    `rest` are the fields of the schema that are not columns.
    """
    which = cast(Any, schema)  # mypy takes no type of a variable for hashable
    if (which, whole) not in space.floats:
        found = {each.name: _value(space, each) for each in columns(which)}
        if whole:
            found = {name: v if v is None else np.broadcast_to(v, len(space)) for name, v in found.items()}
        space.floats[which, whole] = found
    made = object.__new__(schema)
    made.__dict__.update(rest, **space.floats[which, whole])
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


@table
class Shown:
    """Columns that hints show to people and other tools. Any schedule may give them, whatever its model."""

    threads: FloatArray = column("threads", "threads per block; checked against the limit of the device", None)
    smem_bytes: FloatArray = column("bytes", "shared memory of a block; checked against the limit of the device", 0)
    registers: FloatArray = column("registers", "registers per thread", 0)
    tile_m: FloatArray = column("elements", "rows of the output that a block owns", 1)
    tile_n: FloatArray = column("elements", "columns of the output that a block owns", 1)
    tile_k: FloatArray = column("elements", "depth of one step along the reduction", 1)
    tile_r: FloatArray = column("elements", "rows of a tile as stored, where nothing is contracted", 1)
    tile_c: FloatArray = column("elements", "columns of a tile as stored, where nothing is contracted", 1)
    tile_elements: FloatArray = column("elements", "elements of a tile, where a tensor is processed as one line", None)
    warps_m: FloatArray = column("warps", "warps along the rows of the tile", 1)
    warps_n: FloatArray = column("warps", "warps along the columns of the tile", 1)
    thread_m: FloatArray = column("elements", "rows of a thread's tile", 1)
    thread_n: FloatArray = column("elements", "columns of a thread's tile", 1)
    reduce_threads: FloatArray = column("threads", "threads that share the reduction of one output", None)
    split: FloatArray = column("", "parts of the reduction", 1)
    group: FloatArray = column("", "rows of tiles that are walked together", 1)
    instruction: FloatArray = column("", "0 vector units, 1 mma or mfma, 2 wgmma, 3 tcgen05", 0)
    stages: FloatArray = column("", "stages of the pipeline; by default one more than `ahead`", None)
    ahead: FloatArray = column("steps", "prefetch distance: steps between the issue of a load and its use", 1)
    async_copies: FloatArray = column("flag", "copies into shared memory bypass the registers", 0)
    access_elements: FloatArray = column("elements", "elements that one load or store of a thread moves", None)
    copy_a_bytes: FloatArray = column("bytes", "width of one copy of the first operand", 16)
    copy_b_bytes: FloatArray = column("bytes", "width of one copy of the second operand", 16)


class Constant(Record):
    """A constant of the cost model; a fit keeps it from `low` to `high`."""

    prior: float
    low: float
    high: float
    meaning: str


_FILE = folder("templates") / "constants.toml"
CONSTANTS = {name: Constant(*said) for name, said in toml_of(text_of(_FILE, KernelError), _FILE, KernelError).items()}
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


class Part(Record):
    """A dataclass of columns, and the names of the constants that the terms over these columns read."""

    columns: type
    constants: frozenset[str] = frozenset()


class Model(Record):
    """A cost model, which declarations name by their key `model`."""

    work: Callable[[Any, Mapping[str, Any]], Work]
    """The demands of a space's candidates with these constants. If the model has a `variant`, also of `Tables`;
    constants in which their kernels differ are then columns."""
    parts: tuple[Part, ...]
    optional: Part | None = None
    """Columns of a variant of the kernel, see `parts_of`."""
    bound: Callable[[Any, Mapping[str, Any]], FloatArray] | None = None
    """A lower bound of each candidate's seconds, much cheaper to compute than `work`."""
    variant: Callable[[Kernel, Mapping[str, float]], Hashable] | None = None
    """What the terms ask of a kernel as a whole. Kernels for which it is the same can be priced in one pass; the terms
    can be traced."""
    apart: tuple[type, ...] = ()
    """Columns of terms that are computed for each kernel by itself (`apart`). A kernel of which one of these depends on
    sizes is priced alone."""


Demands = TypeVar("Demands")


def apart(
    terms: Callable[[Any, Mapping[str, Any]], Demands], space: Space | Tables, k: Mapping[str, Any]
) -> Demands:
    """`terms(space, k)`, demands of candidates as a record of arrays; for tables of several kernels, that of each
    kernel by itself, one after the other."""
    if isinstance(space, Space):
        return terms(space, k)
    made = [terms(each, resolve(each.kernel, each.arch)) for each in space.spaces]
    every = [{name: simple(value) for name, value in vars(each).items()} for each in made]
    return type(made[0])(**{name: space.stacked([each[name] for each in every]) for name in every[0]})


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


def parts_of(kernel: Kernel) -> tuple[Part, ...]:
    """What a kernel's model reads. The columns of a variant count if the declaration gives one that only they require.
    """
    model, given = model_named(kernel.model), {*kernel.tunables, *kernel.derived}
    own = model.optional and given.intersection(c.name for c in columns(model.optional.columns) if c.required)
    return (*model.parts, model.optional) if model.optional and own else model.parts


def columns_of(kernel: Kernel) -> Mapping[str, Column]:
    """The columns that a declaration may give, by name; if several classes have one, as the first says."""
    out: dict[str, Column] = {}
    for schema in (*(part.columns for part in parts_of(kernel)), Shown):
        for each in columns(schema):
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
