"""Typed columns: the inputs of a cost model, one value for each candidate.

The columns of a model are the fields of a frozen dataclass. `column` declares a field that a declaration gives, in its
[schedule] or as a tunable of that name. `given` declares one that the problem and the device give, and that a schedule
may replace. `read_columns` takes them from a space. The same dataclass defines which keys a [schedule] may and must
have.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache, partial
from typing import Any, TypeVar, cast

import numpy as np

from ..arch.descriptor import Arch
from ..base.types import FloatArray, IntArray
from ..problem.problem import Problem
from .declaration import Kernel
from .enumeration import Columns, Fixed, Made, Sizes
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


def read_columns(schema: type[Schema], space: Space | Together, whole: bool = False, **rest: Any) -> Schema:
    """Fill the dataclass `schema` with the columns of a space, as floats; with `whole`, all have shape (n,).

    `rest` are the fields of the schema that are not columns.
    """
    which = cast(Any, schema)  # mypy takes no type of a variable for hashable
    own = space if isinstance(space, Together) else Together.of(space)
    if own is not None and not whole:
        sources = own.once(which, partial(_sources, which, own.tables))
        return schema(**rest, **_of_rows(sources, own))
    assert isinstance(space, Space)
    if (which, whole) not in space.floats:
        space.floats[which, whole] = _of_space(which, space, whole)
    return schema(**rest, **space.floats[which, whole])


def _of_space(schema: Any, space: Space, whole: bool) -> Mapping[str, Any]:
    found = {}
    for each in columns(schema):
        if each.name in space.columns:
            value: Any = np.asarray(space.columns[each.name], np.float64)
        elif each.name in space.scope or each.required:
            value = np.asarray(space[each.name], np.float64)
        else:
            value = each.default
        found[each.name] = np.broadcast_to(value, len(space)) if whole and value is not None else value
    return found


@dataclass(frozen=True, eq=False)
class Together:
    """Candidates of one or more kernels for the same problems on a device, one kernel's after the other's, so that one
    pass of a cost model prices all. All are carver's own."""

    parts: tuple[Space, ...]

    @classmethod
    def of(cls, space: Space) -> Together | None:
        """A space of carver's own candidates; None for other ones, such as the user's."""
        return cls((space,)) if isinstance(space.columns, Columns) else None

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def problem(self) -> Problem:
        """The problem of the first part; with several problems, sizes are columns."""
        return self.parts[0].problem

    @property
    def arch(self) -> Arch:
        return self.parts[0].arch

    @property
    def kernel(self) -> Kernel:
        """The first kernel. What a model asks of it is the same for the others (`Model.variant`)."""
        return self.parts[0].kernel

    @cached_property
    def counts(self) -> list[int]:
        """Number of candidates of each kernel."""
        return [len(part) for part in self.parts]

    @cached_property
    def tables(self) -> tuple[Fixed, ...]:
        """All candidates of each kernel before sizes are known."""
        return tuple(cast(Columns, part.columns).fixed for part in self.parts)

    @cached_property
    def rows(self) -> IntArray:
        """Position of each candidate among those of all tables."""
        rows, start = [], 0
        for part, table in zip(self.parts, self.tables, strict=True):
            rows.append(cast(Columns, part.columns).rows + start)
            start += len(table.index)
        return np.concatenate(rows)

    @cached_property
    def scope(self) -> Mapping[str, Any]:
        """The scope of the first part; sizes that differ between candidates run over those of all kernels."""
        first = self.parts[0].scope
        if not isinstance(first, Sizes):
            return first
        return Sizes(first.fixed, first.sizes, np.concatenate([cast(Sizes, part.scope).owner for part in self.parts]))

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The result of `make()`, cached under `key` as long as the first kernel's candidates are."""
        first, *others = self.tables
        return first.once((key, *others), make)


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
    """Where each column of a schema comes from, for carver's own candidates of one or more kernels."""

    known: Mapping[str, FloatArray | None]
    """Values that are the same for all rows and shapes."""
    taken: Stack
    """Columns that do not depend on sizes."""
    sized: Mapping[str, FloatArray | None]
    """Columns that depend on sizes, with the value of kernels that do not have them."""
    sizes: tuple[str, ...]

    @property
    def nbytes(self) -> int:
        return self.taken.nbytes


_SIZE, _SIZED = object(), object()
"""What stands for a value that the problem's sizes give, and for a column that is computed from them."""


def _sources(schema: Any, tables: Sequence[Fixed]) -> _Sources:
    values: list[dict[str, Any]] = [{} for _ in tables]
    sized, sizes = {}, []
    for each in columns(schema):
        found = [_source(each, table) for table in tables]
        if all(value is _SIZE for value in found):
            sizes.append(each.name)
        elif any(value is _SIZE or value is _SIZED for value in found):
            sized[each.name] = each.default
        else:
            for own, value in zip(values, found, strict=True):
                own[each.name] = value
    known, taken = shared(values, [len(table.index) for table in tables])
    return _Sources(known, taken, sized, tuple(sizes))


def _source(column: Column, table: Fixed) -> Any:
    """The value of a column for all candidates of a kernel, if sizes do not matter."""
    name = column.name
    if name in table.columns:
        return np.asarray(table.columns[name], np.float64)
    if name in table.sized:
        return _SIZED
    if name in table.scope:
        return _number(table.scope[name])
    return _SIZE if column.required or name in size_scope(table.problem) else column.default


def _of_rows(sources: _Sources, chosen: Together) -> dict[str, Any]:
    found: dict[str, Any] = {**sources.known, **sources.taken.take(chosen.rows)}
    for name, default in sources.sized.items():
        found[name] = stacked([part.get(name, default) for part in chosen.parts], chosen.counts)
    for name in sources.sizes:
        found[name] = _number(chosen.scope[name])
    return found


def shared(values: Sequence[Mapping[str, Any]], counts: Sequence[int]) -> tuple[dict[str, Any], Stack]:
    """Of values that several kernels give by the same names: numbers in which they agree, and columns of the rest.

    `counts` are the kernels' numbers of candidates.
    """
    alike, columns = {}, {}
    for name in values[0]:
        found = [each[name] for each in values]
        if any(map(np.ndim, found)) or any(value != found[0] for value in found):
            columns[name] = stacked(found, counts)
        else:
            alike[name] = found[0]
    return alike, Stack.of(columns)


def stacked(values: Sequence[Any], counts: Sequence[int]) -> FloatArray:
    """The columns of several kernels, one after the other. A number stands for a column of `counts` equal entries."""
    columns = [v if np.ndim(v) else np.full(n, v) for v, n in zip(values, counts, strict=True)]
    return np.concatenate(columns, dtype=np.float64)


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
