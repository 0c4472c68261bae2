"""A cost model: the columns and constants that it reads, the function that turns them into `Work`; what each constant
means, its prior and its physical bounds; and the prices of candidates, the fastest of carver's own among them.

The columns of a model are tables of `templates/columns/`, constants those of `templates/constants.toml`. A declaration
gives columns in its [schedule] or as a tunable of that name; the problem and the device give others, which a schedule
may replace. The same tables define which keys a [schedule] may and must have.

A prior is used for a kernel that nobody measured. A declaration overrides it under its `[constants]` with values fitted
to measurements (`[fitted]` says which, when and how). A descriptor of a device overrides both with values measured
there.

Where a model has a lower bound, only those of carver's own candidates are priced whose bound is not above the k-th best
time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from importlib import import_module
from itertools import groupby
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import KernelError, nearest
from ..base.folders import shipped
from ..base.kept import Kept
from ..base.types import FloatArray, FrozenDict, IntArray, Record
from ..kernels.declaration import DeclarationError, Fault, Kernel
from ..kernels.enumeration import TIES, Fixed, Tables, fixed_candidates
from ..kernels.expr import flops_per_s, size_scope
from ..kernels.space import Space
from ..kernels.trace import Code, Symbol, loops, mapped, simple
from ..problem.problem import Problem
from .estimate import READS, Estimate, Work, estimate


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
    return READS.union(*(part.constants for part in parts_of(kernel)))


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


MANY = 128
"""Problems of many that are looked at together."""
FEW, FEW_TOGETHER, FEW_ALONE = 64, 128, 384
"""Up to this many candidates are priced without bounds: bounding them would take as long. The first is the extension's;
the others are for many problems and for one in Python, where the number of operations counts more than that of rows."""
UNTRACED = 10_000
"""Up to this many candidates of the first problem are priced as they are: tracing formulas takes as long as so many."""
REACH, REACH_IN_PYTHON = 1.1, 1.15
"""The first pass prices candidates whose lower bound is within this factor of the least bound. The second is Python's,
where another pass takes as long as hundreds of rows."""


class Priced(Record, eq=False):
    """Candidates of one kernel and their predicted times."""

    space: Space
    seconds: FloatArray
    made: tuple[Work, Estimate] | None = None
    """Demands and terms; None of carver's own candidates, whose are computed for the few that somebody asks for."""
    traced: tuple[Traced, IntArray] | None = None
    """Of carver's own candidates where formulas are traced: those of the pass, and the rows there."""


def price(space: Space) -> Priced:
    """Every candidate with its predicted time. Raises KernelError if the declaration's numbers lead to an arithmetic
    error, such as a division by zero."""
    with _named([space.kernel]):
        made = _demands(space, resolve(space.kernel, space.arch))
    return Priced(space, made[1].seconds, made)


def _demands(space: Space | Tables, k: Mapping[str, Any]) -> tuple[Work, Estimate]:
    work = model_of(space.kernel).work(space, k)
    return work, estimate(work, space.arch, k)


@contextmanager
def _named(kernels: Sequence[Kernel]) -> Iterator[None]:
    """Says whose constants lead to an arithmetic error."""
    try:
        yield
    except ArithmeticError as error:
        names = " and ".join(f"{kernel.operator}/{kernel.name}" for kernel in kernels)
        raise KernelError(f"{names} cannot be priced with these constants: {error}") from None


def shown(some: Sequence[tuple[Priced, IntArray]]) -> list[Mapping[str, Any]]:
    """What hints tell of some rows of each of these, as columns: `_shown`."""
    found: dict[int, Any] = {}
    passes: dict[Traced, list[tuple[int, IntArray]]] = {}
    for place, (part, rows) in enumerate(some):
        if part.traced:
            passes.setdefault(part.traced[0], []).append((place, part.traced[1][rows]))
        elif part.made:
            found[place] = _picked(_shown(*part.made), len(part.space), rows)
        else:
            space = part.space.where(rows)
            found[place] = _shown(*_demands(space, resolve(space.kernel, space.arch)))
    for traced, parts in passes.items():
        every, start = np.concatenate([rows for _, rows in parts]), 0
        told = traced.shown.recorded(traced.shown(some[parts[0][0]][0].space.scope, every))
        for place, rows in parts:
            end = start + len(rows)
            found[place] = told if len(parts) == 1 else _picked(told, len(every), slice(start, end))
            start = end
    return [found[place] for place in range(len(some))]


def _shown(work: Work, found: Estimate) -> dict[str, Any]:
    alike = {"seconds": found.seconds, "waves": found.waves, "terms": found.terms}
    alike["alone_s"] = tuple(found.alone_s.values())
    more = {name: getattr(work, name) for name in ("warps", "resident", "steps", "grid", "facts")}
    return {**alike, **more}


def _picked(columns: Any, n: int, rows: IntArray | slice) -> Any:
    """These rows of every column of so many."""
    return mapped(columns, lambda v: v[rows] if isinstance(v, np.ndarray) and v.shape == (n,) else v)


class Traced:
    """The demands and times of some kernels' own candidates, traced once for all sizes."""

    def __init__(self, tables: Tables) -> None:
        self._tables, self.is_bounded = tables, model_of(tables.kernel).bound is not None
        kernels = [table.kernel for table in tables.tables]
        with _named(kernels), np.errstate(divide="raise"):  # as numbers do: constants may be columns
            every = [resolve(kernel, tables.arch) for kernel in kernels]
            self._k = {name: tables.stacked([each[name] for each in every]) for name in every[0]}
            self._made = _, found = _demands(tables, self._k)
        self.times = Code(tables.trace, found.seconds)

    def __reduce__(self) -> tuple[Any, ...]:  # a copy is traced again
        return Traced, (self._tables,)

    @cached_property
    def shown(self) -> Code:
        return Code(self._tables.trace, _shown(*self._made))

    @cached_property
    def bound(self) -> Code | None:
        bound = model_of(self._tables.kernel).bound
        return bound and Code(self._tables.trace, bound(self._tables, self._k))


Pass: TypeAlias = "tuple[int, int, Traced | Fixed]"
"""Rows of a catalogue that are priced together: the first one, that after the last, and what prices them."""
Found: TypeAlias = tuple[IntArray, FloatArray, int]
"""Rows of the fastest candidates, their times, and the number that can run."""


class Answer(Record, eq=False):
    """The fastest candidates for a problem, more where times are equal."""

    catalogue: Catalogue
    problem: Problem
    rows: IntArray
    seconds: FloatArray
    candidates: int
    """The number that can run."""

    def parts(self) -> tuple[Priced, ...]:
        """By kernel, those that have any."""
        return tuple(self.catalogue.parts(self.problem, self.rows, self.seconds))

    def removed(self) -> dict[str, int]:
        """How many candidates each rule removes."""
        return self.catalogue.tables.removed(size_scope(self.problem))

    def order(self, topk: int) -> list[int]:
        """`in_order`, without computing columns where times differ, or what orders them does not depend on sizes."""
        times = self.seconds.tolist()
        if len({*times}) == len(times):
            return sorted(range(len(times)), key=times.__getitem__)[:topk]
        ties = self.catalogue.tables.ties
        keys = [*zip(times, *[column.take(self.rows).tolist() for column in ties], strict=True)]
        if len({*keys}) < len(keys):
            return in_order(self.parts(), topk)
        return sorted(range(len(times)), key=keys.__getitem__)[:topk]


def in_order(parts: Sequence[Priced], topk: int) -> list[int]:
    """The `topk` fastest candidates, best first: the rows of the first part count from 0, those of the next follow.

    Equal times are ordered by less shared memory, then fewer warps, then the kernel declared first, then smaller
    tunables.
    """
    keys: list[tuple[Any, ...]] = []
    for number, part in enumerate(parts):
        space, n = part.space, len(part.seconds)
        found = [space.get(name, 0) for name in (*TIES, *space.kernel.tunables)]
        columns = [each.tolist() if isinstance(each, np.ndarray) else [each] * n for each in found]
        ties = columns[: len(TIES)]
        keys += zip(part.seconds.tolist(), *ties, [number] * n, *columns[len(TIES) :], range(n), strict=True)
    return sorted(range(len(keys)), key=keys.__getitem__)[:topk]


class Catalogue:
    """All candidates of some kernels on a device before sizes are known, and what finds the fastest for sizes.

    Candidates are rows, one kernel's after the other's. Alike kernels that follow each other are priced in one pass.
    """

    def __init__(self, kernels: Sequence[Kernel], arch: Arch, sizeless: Problem) -> None:
        self.tables = Tables.of([fixed_candidates(kernel, arch, sizeless) for kernel in kernels])
        starts = self.tables.starts
        self._apart = [*zip(starts, starts[1:], self.tables.tables, strict=False)]
        self._asked = False
        self.nbytes = 2 * sum(table.nbytes for table in self.tables.tables)  # columns of traced formulas take as much

    @cached_property
    def _together(self) -> list[Pass]:
        """What is priced in one pass each: alike kernels that follow each other, where formulas can be traced."""
        end, out = 0, list[Pass]()
        for _, alike in groupby((table for table in self.tables.tables if len(table.index)), _alike):
            own = Tables.of(alike)
            start, end = end, end + len(own)
            out.append((start, end, Traced(own) if model_of(own.kernel).variant else own.tables[0]))
        return out

    def fastest(self, problems: Sequence[Problem], topk: int) -> Iterator[Answer]:
        """The `topk` fastest candidates for each problem: the same as if all had been priced."""
        for start in range(0, len(problems), MANY):
            yield from self._fastest(problems[start : start + MANY], topk)

    def _fastest(self, problems: Sequence[Problem], topk: int) -> list[Answer]:
        every = [size_scope(problem) for problem in problems]
        if len(every) == 1 and not self._asked:
            self._asked = True  # a process may ask once: then tracing would take longer than all else
            if len(self.tables.allowed(every)[0]) <= UNTRACED:
                [one] = self._search(problems, every, topk, self._apart)
                return [Answer(self, problems[0], *one)]
        found = [each for sizes in every if (each := self._at_once(sizes, topk))]
        if len(found) < len(every):
            found = self._search(problems, every, topk, self._together)
        return [Answer(self, problem, *each) for problem, each in zip(problems, found, strict=True)]

    def _at_once(self, sizes: Mapping[str, float], topk: int) -> Found | None:
        """What `_search` finds, by one call of the extension; None where Python has a part in it."""
        if len(self._together) != 1 or not isinstance(one := self._together[0][-1], Traced):
            return None
        rules, times = self.tables.rules.code.prepared(sizes), one.times.prepared(sizes)
        if not rules or not times:
            return None
        bounds = (lambda: one.bound and one.bound.prepared(sizes)) if one.is_bounded else None
        few = FEW if "bound" in vars(one) else FEW_ALONE  # to trace the bound first takes as long as many queries
        found: Found | None = loops.search(rules, self.tables.rules.groups, bounds, times, topk, few, REACH)
        return found

    def _search(
        self, problems: Sequence[Problem], every: Sequence[Mapping[str, float]], topk: int, passes: Sequence[Pass]
    ) -> list[Found]:
        """The same of each problem, with steps in Python: bounds, times of those whose bound is near the least, and
        times of the rest whose bound is not above the last of these."""
        allowed = self.tables.allowed(every)
        bounded = any(isinstance(one, Traced) and one.is_bounded for *_, one in passes)

        def told(what: str, rows: Mapping[int, IntArray]) -> dict[int, FloatArray]:
            """By problem, of rows of each."""
            if not rows:
                return {}
            of = [(problems[place], every[place]) for place in rows]
            if len(passes) == 1:
                return dict(zip(rows, _computed(passes[0][-1], what, of, [*rows.values()]), strict=True))
            parts = [
                _computed(one, what, of, [own[slice(*own.searchsorted((start, end)))] - start for own in rows.values()])
                for start, end, one in passes
            ]  # fmt: skip
            return {place: np.concatenate(own) for place, *own in zip(rows, *parts, strict=True)}

        few = max(topk, FEW_ALONE if loops is None and len(problems) == 1 else FEW_TOGETHER)
        bounds = told("bound", {place: rows for place, rows in enumerate(allowed) if bounded and len(rows) > few})
        near = {place: bound <= _reach(bound, topk) for place, bound in bounds.items()}
        rows = {place: own[near[place]] if place in near else own for place, own in enumerate(allowed) if len(own)}
        times = told("times", rows)
        last = {place: _last(seconds, topk) for place, seconds in times.items()}
        rest = {place: allowed[place][left] for place, bound in bounds.items()
                if (left := (bound <= last[place]) & ~near[place]).any()}  # fmt: skip
        for place, more in told("times", rest).items():
            both = np.append(rows[place], rest[place])
            rows[place], times[place] = np.sort(both), np.append(times[place], more)[both.argsort()]
            last[place] = _last(times[place], topk)
        out: list[Found] = [(own[:0], np.zeros(0), len(own)) for own in allowed]
        for place, seconds in times.items():
            fastest = seconds <= last[place]
            out[place] = rows[place][fastest], seconds[fastest], len(allowed[place])
        return out

    def parts(self, problem: Problem, rows: IntArray, seconds: FloatArray) -> Iterator[Priced]:
        """These rows as candidates of each kernel that has any."""
        first, numbers, passes = 0, rows.tolist(), vars(self).get("_together", self._apart)
        for start, end, table in self._apart:
            last = bisect_left(numbers, end, first)
            if first < last:
                own = rows[first:last]
                begin, one = next((begin, one) for begin, after, one in passes if begin <= start < after)
                traced = (one, own - begin) if isinstance(one, Traced) else None
                yield Priced(table.rows(problem, own - start), seconds[first:last], None, traced)
            first = last


def _computed(
    one: Traced | Fixed, what: str, asked: Sequence[tuple[Problem, Mapping[str, float]]], rows: Sequence[IntArray]
) -> list[FloatArray]:
    """Times of some rows for each problem, or bounds of them, which are 0 where a model has none. [s]"""
    if isinstance(one, Traced) and (code := one.bound if what == "bound" else one.times):
        leaves = code.each([sizes for _, sizes in asked], rows)
        return [np.asarray(code.recorded(found)) for found in leaves]
    return [
        np.zeros(len(own)) if isinstance(one, Traced) or what == "bound" or not len(own)
        else price(one.rows(problem, own)).seconds
        for (problem, _), own in zip(asked, rows, strict=True)
    ]  # fmt: skip


def _alike(table: Fixed) -> Hashable:
    """What candidates of kernels that can be priced in one pass have in common."""
    model = model_of(table.kernel)
    if model.variant is None or any(column.name in table.sized for each in model.apart for column in each.described):
        return id(table)
    return table.kernel.model, model.variant(table.kernel, resolve(table.kernel, table.arch))


def _reach(bound: FloatArray, topk: int) -> float:
    """The least bound that there is times a factor, such that `topk` are below."""
    reach = REACH_IN_PYTHON * float(bound.min() or bound[bound > 0].min(initial=np.inf))
    while np.count_nonzero(bound <= reach) < topk:
        reach *= REACH_IN_PYTHON
    return reach


def _last(seconds: FloatArray, topk: int) -> float:
    """The time of the last of the `topk` fastest, of one or more."""
    ascending = seconds.copy()
    ascending.partition(place := min(topk, len(seconds)) - 1)
    return float(ascending[place])


def catalogue(kernels: tuple[Kernel, ...], arch: Arch, sizeless: Problem) -> Catalogue:
    """The most recently used are kept."""
    found: Catalogue = _KEPT.made((kernels, arch, sizeless), lambda: Catalogue(kernels, arch, sizeless))
    return found


_KEPT = Kept(256 * 2**20)
"""With their traced formulas' columns."""


def roofline_seconds(problem: Problem, arch: Arch) -> float:
    """The roofline's time: the longer of the arithmetic at the fastest unit's rate and the compulsory bytes at the rate
    of DRAM. [s]"""
    peak = max(flops_per_s(problem.sizeless, arch).values())
    return max(problem.flops / peak, problem.compulsory_bytes / arch.dram_bytes_per_s)
