"""Typed columns: the inputs of a cost model, one value for each candidate.

The columns of a model are the fields of a frozen dataclass. `column` declares a field that a declaration gives, in its
[schedule] or as a tunable of that name. `given` declares one that the problem and the device give, and that a schedule
may replace. `read_columns` takes them from a space. The same dataclass defines which keys a [schedule] may and must
have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache, partial
from typing import Any, TypeVar, cast

import numpy as np

from ..base.types import FloatArray, IntArray
from .enumeration import Columns, Fixed
from .scope import size_scope
from .space import Space

_REQUIRED = object()


@dataclass(frozen=True, slots=True)
class Column:
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


def read_columns(schema: type[Schema], space: Space, whole: bool = False, **rest: Any) -> Schema:
    """Fill the dataclass `schema` with the columns of a space, as floats; with `whole`, all have shape (n,).

    `rest` are the fields of the schema that are not columns.
    """
    chosen, which = space.columns, cast(Any, schema)  # mypy takes no type of a variable for hashable
    if isinstance(chosen, Columns) and not whole:
        sources = chosen.fixed.once(which, partial(_sources, which, chosen.fixed))
        return schema(**rest, **_of_rows(sources, chosen, space))
    found = rest
    for each in columns(which):
        if each.name in space.columns:
            value: Any = np.asarray(space.columns[each.name], np.float64)
        elif each.name in space.scope or each.required:
            value = np.asarray(space[each.name], np.float64)
        else:
            value = each.default
        found[each.name] = np.broadcast_to(value, len(space)) if whole and value is not None else value
    return schema(**found)


@dataclass(frozen=True)
class Stack:
    """Columns of equal length, stacked into one matrix per dtype, so that rows of all are taken at once."""

    parts: tuple[tuple[tuple[str, ...], np.ndarray], ...]

    @classmethod
    def of(cls, columns: Mapping[str, np.ndarray]) -> Stack:
        """Stack columns of shape (n,)."""
        names: dict[Any, list[str]] = {}
        for name, column in columns.items():
            names.setdefault(column.dtype, []).append(name)
        return cls(tuple((tuple(some), np.stack([columns[name] for name in some])) for some in names.values()))

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for _, part in self.parts)

    def take(self, rows: IntArray) -> dict[str, np.ndarray]:
        """The given rows of each column."""
        return {name: row for names, part in self.parts for name, row in zip(names, part.take(rows, 1), strict=True)}


@dataclass(frozen=True)
class _Sources:
    """Where each column of a schema comes from, for carver's own candidates of a kernel."""

    known: Mapping[str, FloatArray | None]
    """Values that are the same for all rows and shapes."""
    taken: Stack
    """Columns that do not depend on sizes."""
    sized: tuple[str, ...]
    """Columns that depend on sizes."""
    sizes: tuple[str, ...]

    @property
    def nbytes(self) -> int:
        return self.taken.nbytes


def _sources(schema: Any, fixed: Fixed) -> _Sources:
    known: dict[str, FloatArray | None] = {}
    taken, sized, sizes = {}, [], []
    for each in columns(schema):
        if each.name in fixed.columns:
            taken[each.name] = np.asarray(fixed.columns[each.name], np.float64)
        elif each.name in fixed.sized:
            sized.append(each.name)
        elif each.name in fixed.scope:
            known[each.name] = _number(fixed.scope[each.name])
        elif each.required or each.name in size_scope(fixed.problem):
            sizes.append(each.name)
        else:
            known[each.name] = each.default
    return _Sources(known, Stack.of(taken), tuple(sized), tuple(sizes))


def _of_rows(sources: _Sources, chosen: Columns, space: Space) -> dict[str, Any]:
    found: dict[str, Any] = {**sources.known, **sources.taken.take(chosen.rows)}
    for name in sources.sized:
        found[name] = np.asarray(chosen[name], np.float64)
    for name in sources.sizes:
        found[name] = _number(space.scope[name])
    return found


def by_name(schemas: Iterable[type]) -> dict[str, Column]:
    """The columns of several dataclasses, by name. If several declare a name, the first one counts."""
    out: dict[str, Column] = {}
    for schema in schemas:
        for each in columns(schema):
            out.setdefault(each.name, each)
    return out


@dataclass(frozen=True)
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
