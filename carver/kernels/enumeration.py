"""A kernel's own candidates: the part that does not depend on sizes is enumerated once, the rest is evaluated per
shape.

Tiles, threads, shared memory, registers and the rules over them are the same for every shape of a problem on a device;
`Fixed` has them. A rule that needs sizes is evaluated once for each distinct combination of the fixed columns that it
reads, of which there are far fewer than candidates. A column is evaluated when it is first needed.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import KernelError, NoCandidates, nearest
from ..base.kept import Kept
from ..base.types import BoolArray, FloatArray, FrozenDict, IntArray, Record
from ..problem.problem import Problem
from .declaration import Kernel
from .expr import Expression, size_scope, static_scope
from .space import Space, as_column, device_rules
from .trace import Code, Leaf, Symbol, Trace, loops

MAX_CANDIDATES = 2_000_000
"""Limit on the rows of the table during enumeration. A declaration that exceeds it lacks rules."""
TIES = ("smem_bytes", "warps")
"""Columns that order candidates of equal time, before the kernel and its tunables."""


class SizedRule(Record, eq=False):
    """A rule that depends on sizes, with the u distinct combinations of the fixed columns that it reads."""

    why: str
    expression: Expression
    columns: tuple[tuple[str, Expression], ...]
    """The columns that it reads and that depend on sizes, in the order in which they can be computed."""
    combinations: Mapping[str, IntArray]
    """Values of the fixed columns in each combination, of shape (u,)."""
    scalars: frozenset[str]
    """The other names that it reads."""
    which: IntArray
    """Index of each candidate's combination, of shape (n,)."""

    @property
    def size(self) -> int:
        """The number of combinations, u."""
        return max(map(len, self.combinations.values()), default=1)


class Fixed(Record, eq=False):
    """A kernel's candidates on a device before sizes are known, and the columns and rules that depend on sizes."""

    kernel: Kernel
    arch: Arch
    problem: Problem
    """The problem without its sizes."""
    scope: Mapping[str, Any]
    columns: Mapping[str, IntArray]
    index: IntArray
    """Position of each candidate among all combinations of the declared values."""
    removed: Mapping[str, int]
    sized: Mapping[str, Expression]
    """Columns that depend on sizes."""
    rules: tuple[SizedRule, ...]

    def rows(self, problem: Problem, rows: IntArray, removed: Mapping[str, int] = FrozenDict()) -> Space:
        """Some of the candidates, for a problem."""
        scope = {**self.scope, **size_scope(problem)}
        columns = Columns(self, rows, scope)
        return Space(problem, self.arch, self.kernel, scope, columns, self.index.take(rows), removed)

    @property
    def ascending(self) -> bool:
        """Whether rows stand in the order of their tunables' values. A computed tunable is the same where those are
        that were declared before, if it reads no others."""
        tunables, derived, before = self.kernel.tunables.keys(), self.kernel.derived, set[str]()

        def read(names: Iterable[str]) -> set[str]:
            through = set().union(*(read(derived[name].names) for name in names if name in derived))
            return through | tunables & set(names)

        for name, values in self.kernel.tunables.items():
            if read(values.names) - before if isinstance(values, Expression) else [*values] != sorted(values):
                return False
            before.add(name)
        return True

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in (*self.columns.values(), *(rule.which for rule in self.rules)))

    def __reduce__(self) -> tuple[Any, ...]:  # a copy is enumerated again
        return fixed_candidates, (self.kernel, self.arch, self.problem)


class Columns(Mapping[str, IntArray]):
    """The columns of some rows of fixed candidates, computed on first access."""

    def __init__(self, fixed: Fixed, rows: IntArray, scope: Mapping[str, Any]) -> None:
        self.fixed = fixed
        self.rows = rows
        self.scope = scope
        self._made: dict[str, IntArray] = {}

    def of(self, rows: BoolArray | IntArray) -> Columns:
        """The columns of some of the rows."""
        return Columns(self.fixed, self.rows[rows], self.scope)

    def __getitem__(self, name: str) -> IntArray:
        made = self._made.get(name)
        if made is None:
            if (column := self.fixed.columns.get(name)) is not None:
                made = column.take(self.rows)
            else:
                formula = self.fixed.sized[name]
                read = {each: self[each] if each in self else self.scope[each] for each in formula.names}
                made = as_column(formula(read), len(self.rows))
            self._made[name] = made
        return made

    def __contains__(self, name: object) -> bool:
        return name in self.fixed.columns or name in self.fixed.sized

    def __iter__(self) -> Iterator[str]:
        yield from self.fixed.columns
        yield from self.fixed.sized

    def __len__(self) -> int:
        return len(self.fixed.columns) + len(self.fixed.sized)


def enumerate_space(problem: Problem, arch: Arch, kernel: Kernel) -> Space:
    """Every configuration of the kernel that its rules and the device allow.

    Raises NoCandidates, with the number that each rule removed, if none is left.
    """
    fixed = fixed_candidates(kernel, arch, problem.sizeless)
    tables = Tables.of([fixed])
    [rows] = tables.allowed([size_scope(problem)])
    removed = tables.removed(size_scope(problem))
    if not len(rows):
        raise NoCandidates(f"{problem} as {kernel.title} on {arch.name}", removed)
    return fixed.rows(problem, rows[np.argsort(fixed.index[rows])], removed)


class Rules(Record, eq=False):
    """The rules over sizes of some kernels' candidates. A group of rows are candidates that no rule tells apart."""

    code: Code
    """Whether each rule holds for each combination of what it reads; these truths follow one that holds always and one
    that never does."""
    groups: tuple[IntArray, ...]
    """The first row of each group, and the number of all rows. Of each group the truths that allow it, of shape (rules,
    groups), and the next group for which that truth is another one. Of each truth one before it that must hold too, of
    a rule that reads some of the same columns and no others: a group that has the one has the other."""
    depth: int
    """Of a truth, the most that must hold with it."""
    kernels: list[tuple[slice, list[tuple[str, IntArray]]]]
    """The groups of each kernel, and its rules as they are declared: sentence, and the truth of each group."""

    @classmethod
    def of(cls, code: Code, counts: Sequence[int], found: Sequence[Sequence[tuple[SizedRule, IntArray]]]) -> Rules:
        """From each kernel's number of rows and the truth of each row for each of its rules. Rules that tell few groups
        apart come first: they rule out many rows at once."""
        starts = [0, *accumulate(counts)]
        new = np.zeros(starts[-1], bool)
        new[[start for start in starts if start < starts[-1]]] = True
        for start, rules in zip(starts, found, strict=False):
            for _, truths in rules:
                new[start + np.flatnonzero(np.diff(truths, prepend=-1))] = True
        begins = np.flatnonzero(new)
        ends = begins.searchsorted(starts).tolist()
        kernels, left, with_it = [], [], np.zeros(2 + sum(code.lengths), np.int64)
        for rules, start, own in zip(found, starts, map(slice, ends, ends[1:]), strict=False):
            told = [(rule, truths.take(begins[own] - start)) for rule, truths in rules]
            kernels.append((own, [(rule.why, truths) for rule, truths in told]))
            told, alone = sorted(told, key=lambda each: each[1].max(initial=0)), []
            for place, (rule, truths) in enumerate(told, 1):
                wider = (its for other, its in told[place:] if rule.combinations.keys() <= other.combinations.keys())
                if (its := next((its for its in wider if not with_it[its].any()), None)) is None:
                    alone.append(truths)
                else:
                    with_it[its] = truths
            left.append(sorted(alone, key=lambda truths: np.count_nonzero(np.diff(truths))))
        which: IntArray = np.zeros((max(1, *map(len, left)), len(begins)), np.int64)
        for (own, _), alone in zip(kernels, left, strict=True):
            for place, truths in enumerate(alone):
                which[place, own] = truths
        another = np.diff(which, prepend=-1) != 0
        after = [np.append(np.flatnonzero(new), len(begins))[np.cumsum(new)] for new in another]
        groups = np.append(begins, starts[-1]), which, np.stack(after), with_it
        narrow = np.int64 if loops is None else np.int32  # the extension reads fewer cache lines, NumPy widens indices
        depth, next_one = 0, with_it
        while next_one.any():
            depth, next_one = depth + 1, with_it[next_one]
        return cls(code, tuple(each.astype(narrow) for each in groups), depth, kernels)

    def held(self, every: Sequence[Mapping[str, Any]]) -> Iterator[BoolArray]:
        """The truths for each problem's sizes."""
        always = np.array([True, False])
        return (np.concatenate([always, *leaves]) for leaves in self.code.everywhere(every))

    def rows(self, held: BoolArray) -> IntArray:
        """The rows that all rules allow."""
        begins, which, _, with_it = self.groups
        for _ in range(self.depth):
            held = held & held.take(with_it)
        allowed = np.flatnonzero(held.take(which).all(0))
        first = begins.take(allowed)
        count = begins.take(allowed + 1) - first
        end = count.cumsum()
        return np.repeat(first - end + count, count) + np.arange(count.sum())

    def lost(self, held: BoolArray, kernel: int) -> Iterator[tuple[str, int]]:
        """How many of a kernel's candidates each rule removes."""
        own, rules = self.kernels[kernel]
        left = np.diff(self.groups[0])[own]
        for why, truths in rules:
            kept = left * held.take(truths)
            yield why, int(left.sum() - kept.sum())
            left = kept


class Tables(Record, eq=False):
    """All candidates of one or more kernels of a problem, one kernel's after the other's, with symbols for what depends
    on sizes: a cost model that reads its columns from here is traced."""

    tables: tuple[Fixed, ...]
    starts: tuple[int, ...]
    """Row of each table's first candidate, and the number of all."""
    trace: Trace
    floats: dict[Any, Mapping[str, Any]] = field(default_factory=dict)
    _wide: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, tables: Iterable[Fixed]) -> Tables:
        tables = tuple(tables)
        starts = (0, *accumulate(len(table.index) for table in tables))
        return cls(tables, starts, Trace(starts[-1]))

    def __reduce__(self) -> tuple[Any, ...]:  # a copy is traced again
        return Tables.of, (self.tables,)

    def __len__(self) -> int:
        return self.starts[-1]

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
            scope, made = sizes | {**t.scope}, dict[str, Any]()

            def compute(name: str, t: Fixed = t, scope: Mapping[str, Any] = scope, made: dict[str, Any] = made) -> Any:
                if name not in made and name in t.sized:
                    made[name] = t.sized[name]({each: compute(each) for each in t.sized[name].names})
                elif name not in made:
                    made[name] = self.wide(name) if name in t.columns else scope[name]
                return made[name]

            columns = {**t.columns, **{name: compute(name) for name in t.sized}}
            out.append(Space(t.problem, t.arch, t.kernel, scope, columns, t.index))
        return out

    def wide(self, name: str) -> Any:
        """A column for the candidates of all kernels, with 1 for kernels that have none of this name."""
        if name not in self._wide:
            some = [table.columns.get(name, np.ones(len(table.index), np.int64)) for table in self.tables]
            self._wide[name] = np.concatenate(some)
        return self._wide[name]

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

    @cached_property
    def rules(self) -> Rules:
        """The rules over sizes. One that several kernels have is evaluated once, for the combinations of all."""
        same: dict[Hashable, list[tuple[int, int, SizedRule]]] = {}
        for kernel, table in enumerate(self.tables):
            for number, rule in enumerate(table.rules if len(table.index) else ()):
                key = rule.expression, rule.columns, frozenset(rule.combinations)
                same.setdefault(key, []).append((kernel, number, rule))
        trace, static, sizes = Trace(0), self.tables[0].scope, size_scope(self.problem)
        every: list[Any] = []
        alike = sorted(same.values(), key=lambda found: len(found[0][-1].combinations))  # who reads few comes first
        for found in alike:
            one, rules = found[0][-1], [rule for *_, rule in found]
            seen: dict[str, Any] = {n: trace.size(n, sizes[n]) if n in sizes else static[n] for n in one.scalars}
            seen |= {name: np.concatenate([rule.combinations[name] for rule in rules]) for name in one.combinations}
            for name, expression in one.columns:
                seen[name] = expression(seen)
            every.append(trace.made("not_equal", one.expression(seen), 0))
        code = Code(trace, every, whole=True)
        starts = [*accumulate(code.lengths, initial=2)]  # after what always and what never holds
        of_kernels: list[dict[int, IntArray]] = [{} for _ in self.tables]
        for found, holds in zip(alike, code.results, strict=True):
            start = starts[holds.at] if isinstance(holds, Leaf) else int(not holds)
            many = isinstance(holds, Leaf) and code.lengths[holds.at] > 1
            for kernel, number, rule in found:
                of_kernels[kernel][number] = start + rule.which * many
                start += rule.size * many
        return Rules.of(code, [len(table.index) for table in self.tables], [
            [(table.rules[number], own[number]) for number in sorted(own) if own[number].any()]
            for table, own in zip(self.tables, of_kernels, strict=True)
        ])  # fmt: skip

    def allowed(self, every: Sequence[Mapping[str, Any]]) -> list[IntArray]:
        """For each problem's sizes the rows that all rules allow."""
        return [self.rules.rows(held) for held in self.rules.held(every)]

    def removed(self, sizes: Mapping[str, Any]) -> dict[str, int]:
        """How many candidates each sentence removes: those that break no rule before it."""
        rules, out = self.rules, dict[str, int]()
        [held] = rules.held([sizes])
        for number, table in enumerate(self.tables):
            for why, lost in (*table.removed.items(), *rules.lost(held, number)):
                out[why] = out.get(why, 0) + lost
        return {why: lost for why, lost in out.items() if lost}

    @cached_property
    def ties(self) -> list[IntArray]:
        """What orders candidates of equal time, the columns `TIES`, then the kernel and its tunables. Candidates are
        alike where that depends on sizes."""
        if any(table.sized.keys() & {*TIES} for table in self.tables):
            return [np.zeros(len(self), np.int64)]
        out = []
        for number, table in enumerate(self.tables):
            columns = [table.columns.get(name, table.scope.get(name, 0)) for name in TIES]
            out.append(np.broadcast_arrays(*columns, number, table.index * table.ascending))
        return [np.concatenate(columns) for columns in zip(*out, strict=True)]


def stacked(values: Sequence[Any], counts: Sequence[int]) -> FloatArray:
    """The columns of several kernels, one after the other. A number stands for a column of `counts` equal entries."""
    columns = [v if np.ndim(v) else np.full(n, v) for v, n in zip(values, counts, strict=True)]
    return np.concatenate(columns, dtype=np.float64)


def instructions(problem: Problem, arch: Arch, kernel: Kernel) -> set[int]:
    """Kinds of multiply instruction among the kernel's candidates, for any sizes; empty if the kernel declares none."""
    said = kernel.derived.get("instruction")
    scope = static_scope(problem, arch)
    if said is None or said.names <= scope.keys():
        return set() if said is None else {int(said(scope))}
    fixed = fixed_candidates(kernel, arch, problem.sizeless)
    return set(distinct(fixed.columns["instruction"])[0].tolist()) if "instruction" in fixed.columns else set(range(4))


_FIXED = Kept(64 * 2**20)


def fixed_candidates(kernel: Kernel, arch: Arch, sizeless: Problem) -> Fixed:
    """The kernel's candidates before sizes are known."""
    found: Fixed = _FIXED.made((kernel, arch, sizeless), lambda: _fixed(kernel, arch, sizeless))
    return found


def _fixed(kernel: Kernel, arch: Arch, sizeless: Problem) -> Fixed:
    steps: list[_Step] = [(name, e, False) for name, e in kernel.tunables.items() if isinstance(e, Expression)]
    steps += [(name, e, False) for name, e in kernel.derived.items()]
    steps += [(why, e, True) for why, e in (*kernel.rules.items(), *kernel.avoid.items(), *device_rules(kernel))]
    table = _Table(static_scope(sizeless, arch))
    for tunable, values in kernel.tunables.items():
        if isinstance(values, Expression):
            continue
        new = np.asarray(values, np.int64)
        if len(table.index) * len(new) > MAX_CANDIDATES:
            raise NoCandidates(f"{kernel.title}: its declaration spans more than {MAX_CANDIDATES} candidates", {})
        table.cross(tunable, new)
        steps = table.settle(steps)
    sized = {name: e for name, e, is_rule in steps if not is_rule}
    known = {*table.scope, *table, *size_scope(sizeless), *sized}
    for what, expression, _ in steps:
        if unknown := expression.names - known:
            word = min(unknown)
            why = f"{what!r} uses {word!r}, which {sizeless} does not have; {nearest(word, known)}"
            raise KernelError(f"{kernel.path}: {why}")
    rules = _sized_rules([(why, e) for why, e, is_rule in steps if is_rule], sized, table)
    return Fixed(kernel, arch, sizeless, table.scope, dict(table), table.index, table.removed, sized, rules)


def _sized_rules(
    rules: Sequence[tuple[str, Expression]], sized: Mapping[str, Expression], table: _Table
) -> tuple[SizedRule, ...]:
    """The rules that depend on sizes, ordered by the depth of the columns that they read: cheap rules come first. Puts
    candidates side by side that they do not tell apart, by the values that most rules read first."""
    depth: dict[str, int] = {}

    def deep(expression: Expression) -> int:
        for name in expression.names & sized.keys() - depth.keys():
            depth[name] = 1 + deep(sized[name])
        return max((depth[name] for name in expression.names & sized.keys()), default=0)

    def through(expression: Expression) -> dict[str, Expression]:
        found: dict[str, Expression] = {}
        for name in sorted(expression.names & sized.keys()):
            found |= through(sized[name]) | {name: sized[name]}
        return found

    codes: dict[str, tuple[IntArray, IntArray]] = {}
    out = []
    for why, expression in sorted(rules, key=lambda rule: deep(rule[1])):
        read = through(expression)
        every = expression.names.union(*(e.names for e in read.values()))
        names = every & table.keys()
        codes |= {name: distinct(table[name]) for name in names - codes.keys()}
        values, which = _combinations({name: codes[name] for name in sorted(names)}, len(table.index))
        out.append(SizedRule(why, expression, tuple(read.items()), values, every - names - read.keys(), which))
    if not out:
        return ()
    often = Counter(name for rule in out for name in rule.combinations)
    order: IntArray = np.zeros(len(table.index), np.int64)
    for name, _ in often.most_common():
        found, code = codes[name]
        order = order * len(found) + code
    rows = np.argsort(order, kind="stable")
    table.pick(rows)
    return tuple(replace(rule, which=rule.which.take(rows)) for rule in out)


def distinct(column: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct values of a column, ascending, and the index of each row's value among them.

    `np.unique` does the same, but imports masked arrays, which takes a fifth of the time of a first query.
    """
    if len(column) and column.dtype.kind == "i" and column.min() >= 0 and column.max() < 1 << 20:  # without sorting
        there = np.bincount(column) > 0
        return np.flatnonzero(there), (np.cumsum(there) - 1).take(column)
    order = np.argsort(column, kind="stable")
    ascending = column.take(order)
    first = np.ones(len(column), bool)
    first[1:] = ascending[1:] != ascending[:-1]
    places = np.empty(len(column), np.int64)
    places[order] = np.cumsum(first) - 1
    return ascending[first], places


def _combinations(codes: Mapping[str, tuple[IntArray, IntArray]], n: int) -> tuple[dict[str, IntArray], IntArray]:
    """Combinations of the distinct values of some columns, and the index of each row's combination.

    All combinations if they are fewer than the rows, else only those that occur.
    """
    which, count = np.zeros(n, np.int64), 1
    for found, code in codes.values():
        which, count = which * len(found) + code, count * len(found)
    digits: IntArray = np.arange(count) if count <= n else np.zeros(0, np.int64)
    if count > n:
        digits, which = distinct(which)
    values = {}
    for name, (found, _) in reversed(list(codes.items())):
        values[name] = found.take(digits % len(found))
        digits = digits // len(found)
    return values, which


_Step: TypeAlias = tuple[str, Expression, bool]
"""A column to compute; if the last entry is true, a rule to enforce."""


class _Table(Mapping[str, Any]):
    """The table of candidates during enumeration. A column stays as short as it was computed, with the row there of
    each candidate, and is drawn out where it is read."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self.scope = scope
        self.index: IntArray = np.zeros(1, np.int64)
        self.removed: dict[str, int] = {}
        self._short: dict[str, tuple[int, Any]] = {}
        """The stage at which each column was computed, and its values."""
        self._rows: list[IntArray] = []
        """By stage, but for the last one, the row there of each candidate. A stage ends when candidates are crossed or
        removed."""
        self._drawn: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._drawn:
            stage, column = self._short[name]
            self._drawn[name] = column.take(self._rows[stage]) if stage < len(self._rows) else column
        return self._drawn[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._short)

    def __len__(self) -> int:
        return len(self._short)

    def pick(self, rows: IntArray) -> None:
        """From now on the candidates are these rows of what they were."""
        ended = any(stage == len(self._rows) for stage, _ in self._short.values())
        self._rows = [*(each.take(rows) for each in self._rows), *([rows] if ended else [])]
        self.index, self._drawn = self.index.take(rows), {}

    def cross(self, name: str, values: np.ndarray) -> None:
        """Add a column: combine each candidate with each value."""
        n, count = len(self.index), len(values)
        self.pick(np.repeat(np.arange(n), count))
        place = np.tile(np.arange(count), n)
        self.index = self.index * count + place
        self._short[name] = len(self._rows), values.take(place)

    def settle(self, steps: Iterable[_Step]) -> list[_Step]:
        """Compute the columns and enforce the rules whose inputs are known; returns the remaining steps."""
        left, names = list(steps), self.scope.keys() | self._short.keys()
        while ready := [step for step in left if step[1].names <= names]:
            left = [step for step in left if step not in ready]
            seen: Mapping[str, Any] = ChainMap(self, self.scope)  # type: ignore[arg-type]
            allowed = np.ones(len(self.index), bool)
            for name, expression, is_rule in ready:
                value = expression(seen)
                if is_rule:
                    kept = allowed & np.asarray(value, bool)
                    if lost := int(np.count_nonzero(allowed) - np.count_nonzero(kept)):
                        self.removed[name] = self.removed.get(name, 0) + lost
                        allowed = kept
                else:
                    self._short[name] = len(self._rows), as_column(value, len(self.index))
                    names.add(name)
            if not allowed.all():
                self.pick(np.flatnonzero(allowed))
        return left
