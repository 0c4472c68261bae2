"""Typed columns: the inputs of a cost model, one value for each candidate.

The columns of a model are the fields of a frozen dataclass. `column` declares a field that a declaration gives, in its
[schedule] or as a tunable of that name. `given` declares one that the problem and the device give, and that a schedule
may replace. `read_columns` takes them from a space. The same dataclass defines which keys a [schedule] may and must
have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache, partial
from typing import Any, TypeVar, cast

import numpy as np

from ..arch.descriptor import Arch
from ..base.types import FloatArray
from ..problem.problem import Problem
from .compiler import Formula
from .declaration import Kernel
from .enumeration import Fixed
from .scope import size_scope
from .space import Space
from .trace import Symbol, Trace

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


def read_columns(schema: type[Schema], space: Space | Tables, whole: bool = False, **rest: Any) -> Schema:
    """Fill the dataclass `schema` with the columns of a space, as floats; with `whole`, all have shape (n,).

    `rest` are the fields of the schema that are not columns.
    """
    which = cast(Any, schema)  # mypy takes no type of a variable for hashable
    if (which, whole) not in space.floats:
        read = space.joined if isinstance(space, Tables) else partial(_value, space)
        found = {each.name: read(each) for each in columns(which)}
        if whole:
            found = {name: v if v is None else np.broadcast_to(v, len(space)) for name, v in found.items()}
        space.floats[which, whole] = found
    return schema(**rest, **space.floats[which, whole])


def _value(space: Space, column: Column) -> Any:
    """A column's values in a space: floats, or a symbol if they depend on sizes and the space is traced."""
    there = column.required or column.name in space.columns or column.name in space.scope
    value = space[column.name] if there else column.default
    if isinstance(value, Symbol):
        return value.astype(np.float64)
    return value if value is None else _number(value)


@dataclass(frozen=True, eq=False)
class Tables:
    """All candidates of one or more kernels, one kernel's after the other's, with symbols for what depends on sizes: a
    cost model that reads its columns from here is traced."""

    tables: tuple[Fixed, ...]
    trace: Trace
    floats: dict[Any, Mapping[str, Any]] = field(default_factory=dict)
    _wide: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, tables: tuple[Fixed, ...]) -> Tables:
        return cls(tables, Trace(sum(len(table.index) for table in tables)))

    def __len__(self) -> int:
        return self.trace.rows

    @property
    def problem(self) -> Problem:
        return self.tables[0].problem

    @property
    def arch(self) -> Arch:
        return self.tables[0].arch

    @property
    def kernel(self) -> Kernel:
        """The first kernel. What a model asks of it is the same for the others (`Model.variant`)."""
        return self.tables[0].kernel

    @cached_property
    def spaces(self) -> list[Space]:
        """Those of each kernel. Columns that depend on sizes run over the candidates of all."""
        sizes = {name: self.trace.size(name, n) for name, n in size_scope(self.problem).items()}
        out = []
        for t in self.tables:
            known: dict[str, Any] = sizes | {**t.scope} | {name: self.wide(name) for name in t.columns}

            def compute(name: str, formulas: Mapping[str, Formula] = t.sized, known: dict[str, Any] = known) -> Any:
                if name not in known:
                    known |= {each: compute(each) for each in formulas[name].names & formulas.keys()}
                    known[name] = formulas[name](known)
                return known[name]

            columns = {**t.columns, **{name: compute(name) for name in t.sized}}
            out.append(Space(t.problem, t.arch, t.kernel, sizes | {**t.scope}, columns, t.index))
        return out

    def wide(self, name: str) -> Any:
        """A column for the candidates of all kernels, with 1 for kernels that have none of this name."""
        if name not in self._wide:
            some = [table.columns.get(name, np.ones(len(table.index), np.int64)) for table in self.tables]
            self._wide[name] = np.concatenate(some)
        return self._wide[name]

    def joined(self, column: Column) -> Any:
        """A column of all candidates, as `_value` gives those of each kernel."""
        return self.stacked([_value(space, column) for space in self.spaces])

    def stacked(self, values: Sequence[Any]) -> Any:
        """What all kernels give; else their columns, one after the other."""
        counts = [len(table.index) for table in self.tables]
        if any(isinstance(value, Symbol) for value in values):
            owner, out = np.repeat(np.arange(len(counts)), counts), values[-1]
            for number, value in enumerate(values):
                own = np.ndim(value) and not isinstance(value, Symbol)
                wide = stacked([value if at == number else 1.0 for at in range(len(counts))], counts) if own else value
                if wide is not out:
                    out = self.trace.chosen(owner == number, wide, out)
            return out
        first, *others = values
        alike = not any(map(np.ndim, values)) and all(value == first for value in others)
        return first if alike or not others else stacked(values, counts)


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


@dataclass(frozen=True, eq=False, repr=False)
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
