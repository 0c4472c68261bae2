"""Typed columns: the inputs of a cost model, one value for each candidate.

The columns of a model are the fields of a `table`. `column` declares a field that a declaration gives, in its
[schedule] or as a tunable of that name. `given` declares one that the problem and the device give, and that a schedule
may replace. `read_columns` takes them from a space. The same class defines which keys a [schedule] may and must
have.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, TypeVar, cast

import numpy as np

from ..base.types import FloatArray, Record
from .enumeration import Tables
from .space import Space
from .trace import Symbol

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


def by_name(schemas: Iterable[type]) -> dict[str, Column]:
    """The columns of several dataclasses, by name. If several declare a name, the first one counts."""
    out: dict[str, Column] = {}
    for schema in schemas:
        for each in columns(schema):
            out.setdefault(each.name, each)
    return out


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
