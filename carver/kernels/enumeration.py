"""A kernel's own candidates: the part that does not depend on sizes is enumerated once, the rest is evaluated per
shape.

Tiles, threads, shared memory, registers and the rules over them are the same for every shape of a problem on a device;
`fixed_candidates` keeps them. A rule that needs sizes is evaluated once for each distinct combination of the fixed
columns that it reads, of which there are far fewer than candidates. A column is evaluated when it is first needed.
"""

from __future__ import annotations

from collections import ChainMap, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate
from threading import Lock
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import KernelError, NoCandidates, nearest
from ..base.types import BoolArray, IntArray
from ..problem.problem import Problem
from .compiler import Formula
from .declaration import Kernel
from .expr import Expression
from .scope import size_scope, static_scope
from .space import Space, as_column, device_rules
from .trace import Code, Symbol, Trace, loops

MAX_CANDIDATES = 2_000_000
"""Limit on the rows of the table during enumeration. A declaration that exceeds it lacks rules."""
MAX_KEPT_BYTES = 256 * 2**20
"""Limit on the size of the cache of fixed candidates and of what is cached with them."""


Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class SizedRule:
    """A rule that depends on sizes, with the u distinct combinations of the fixed columns that it reads."""

    why: str
    expression: Formula
    columns: tuple[tuple[str, Formula], ...]
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


@dataclass(frozen=True, eq=False)
class Fixed:
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
    sized: Mapping[str, Formula]
    """Columns that depend on sizes."""
    rules: tuple[SizedRule, ...]
    _made: dict[Hashable, Any] = field(default_factory=dict)
    _held: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._held.extend(map(_bytes, (*self.columns.values(), *(rule.which for rule in self.rules))))

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The result of `make()`, cached under `key` as long as these candidates are."""
        if key not in self._made:
            self._made[key] = make()
            self._held.append(_bytes(self._made[key]))
        made: Made = self._made[key]
        return made

    @property
    def bytes(self) -> int:
        """Size of the columns, the rules and the cached results."""
        return sum(self._held)

    def allowed(self, rules: Sequence[tuple[str, BoolArray, IntArray]]) -> tuple[IntArray, dict[str, int]]:
        """Rows of the candidates that all rules allow for one shape, and the number of candidates that each removed.

        Of each rule its sentence, whether it holds for some combinations, and the combination of each row.
        """
        removed = dict(self.removed)
        if loops is not None:
            rows, lost = loops.allowed([rule[1:] for rule in rules], len(self.index))
        else:
            rows, lost = np.arange(len(self.index)), []
            for _, held, which in rules:
                kept = rows if held.all() else rows[held.take(which if len(rows) == len(which) else which.take(rows))]
                lost.append(len(rows) - len(kept))
                rows = kept
        for (why, *_), count in zip(rules, lost, strict=True):
            if count:
                removed[why] = removed.get(why, 0) + count
        return rows, removed

    @cached_property
    def ascending(self) -> bool:
        """Whether the order of `index` is the lexicographic order of the tunables, as declared: lists ascend, and what
        is computed follows from tunables that were declared before."""
        before: set[str] = set()
        for name, values in self.kernel.tunables.items():
            if isinstance(values, Expression):
                if not self._listed(values) <= before:
                    return False
            elif list(values) != sorted(set(values)):
                return False
            else:
                before.add(name)
        return True

    def _listed(self, formula: Formula) -> set[str]:
        """The tunables with a list that a formula uses, by itself or through others."""
        formulas = {**self.kernel.derived, **self.kernel.tunables}
        found: set[str] = set()
        for name in formula.names & formulas.keys():
            its = formulas[name]
            found |= {name} if isinstance(its, tuple) else self._listed(its)
        return found

    def __reduce__(self) -> tuple[Any, ...]:  # a copy is enumerated again
        return fixed_candidates, (self.kernel, self.arch, self.problem)


class Columns(Mapping[str, IntArray]):
    """The columns of some rows of fixed candidates, computed on first access."""

    def __init__(self, fixed: Fixed, rows: IntArray, scope: Mapping[str, Any]) -> None:
        self.fixed = fixed
        self.rows = rows
        self.scope = scope
        self._made: dict[str, IntArray] = {}

    def __getitem__(self, name: str) -> IntArray:
        made = self._made.get(name)
        if made is None:
            if name in self.fixed.columns:
                made = self.fixed.columns[name].take(self.rows)
            else:
                formula = self.fixed.sized[name]
                read = {each: self[each] if each in self else self.scope[each] for each in formula.names}
                made = as_column(formula(read), len(self.rows))
            self._made[name] = made
        return made

    def __contains__(self, name: object) -> bool:
        return name in self.fixed.columns or name in self.fixed.sized

    def at(self, name: str, rows: IntArray) -> IntArray:
        """A column in some of these rows."""
        if name in self._made or name not in self.fixed.columns:
            return self[name].take(rows)
        return self.fixed.columns[name].take(self.rows.take(rows))

    def part(self, rows: IntArray) -> Columns:
        """The columns of some of these rows; those that were not made yet are computed for these alone."""
        out = Columns(self.fixed, self.rows[rows], self.scope)
        out._made = {name: column[rows] for name, column in self._made.items()}
        return out

    def __iter__(self) -> Iterator[str]:
        yield from self.fixed.columns
        yield from self.fixed.sized

    def __len__(self) -> int:
        return len(self.fixed.columns) + len(self.fixed.sized)


def enumerate_space(problem: Problem, arch: Arch, kernel: Kernel) -> Space:
    """Every configuration of the kernel that its rules and the device allow.

    Raises NoCandidates, with the number that each rule removed, if none is left.
    """
    [space] = enumerate_each(problem, arch, [kernel])
    if not len(space):
        raise NoCandidates(f"{problem} as {kernel.title} on {arch.name}", space.removed)
    return space


def enumerate_each(problem: Problem, arch: Arch, kernels: Sequence[Kernel]) -> list[Space]:
    """For each kernel, every configuration that its rules and the device allow; there may be none."""
    tables = tuple(fixed_candidates(kernel, arch, problem.sizeless) for kernel in kernels)
    first, *others = tables
    scope = {**first.scope, **size_scope(problem)}
    code, each = first.once(("rules", *others), partial(_rules, tables))
    held, out = code.everywhere(scope), []
    for table, rules in zip(tables, each, strict=True):
        rows, removed = table.allowed([(why, held[at], which) for why, at, which in rules])
        columns = Columns(table, rows, scope)
        out.append(Space(problem, arch, table.kernel, scope, columns, table.index.take(rows), removed))
    return out


def own_rows(space: Space, rows: IntArray) -> Space:
    """Some rows of a space of a kernel's own candidates."""
    columns = space.columns
    assert isinstance(columns, Columns)
    chosen = Columns(columns.fixed, columns.rows.take(rows), columns.scope)
    return Space(space.problem, space.arch, space.kernel, space.scope, chosen, space.index.take(rows), space.removed)


def _rules(tables: Sequence[Fixed]) -> tuple[Code, list[list[tuple[str, int, IntArray]]]]:
    """The code of all rules; and for each kernel's rules the sentence, the place of what the code says of each
    combination, and the combination of each candidate. A rule that several kernels have is evaluated once, for the
    combinations of all."""
    same: dict[Hashable, list[tuple[int, int, SizedRule]]] = {}
    for kernel, table in enumerate(tables):
        for number, rule in enumerate(table.rules):
            key = rule.expression, rule.columns, frozenset(rule.combinations)
            same.setdefault(key, []).append((kernel, number, rule))
    trace, static, sizes = Trace(0), tables[0].scope, size_scope(tables[0].problem)
    out: list[dict[int, tuple[str, int, IntArray]]] = [{} for _ in tables]
    every: list[Any] = []
    for found in same.values():
        one, rules = found[0][-1], [rule for *_, rule in found]
        seen: dict[str, Any] = {n: trace.size(n, sizes[n]) if n in sizes else static[n] for n in one.scalars}
        seen |= {name: np.concatenate([rule.combinations[name] for rule in rules]) for name in one.combinations}
        for name, expression in one.columns:
            seen[name] = expression(seen)
        holds = trace.told(trace.made("not_equal", one.expression(seen), 0))
        if holds is True:
            continue
        by_row = isinstance(holds, np.ndarray) or (isinstance(holds, Symbol) and holds.per_row)
        starts = accumulate((rule.size for rule in rules), initial=0)
        for (kernel, number, rule), start in zip(found, starts, strict=False):
            out[kernel][number] = rule.why, len(every), rule.which + start if by_row else np.zeros_like(rule.which)
        every.append(holds if holds is not False else np.zeros(1, bool))
    return Code(trace, every, whole=True), [[rules[number] for number in sorted(rules)] for rules in out]


def instructions(problem: Problem, arch: Arch, kernel: Kernel) -> set[int]:
    """Kinds of multiply instruction among the kernel's candidates, for any sizes; empty if the kernel declares none."""
    said = kernel.derived.get("instruction")
    scope = static_scope(problem, arch)
    if said is None or said.names <= scope.keys():
        return set() if said is None else {int(said(scope))}
    fixed = fixed_candidates(kernel, arch, problem.sizeless)
    return set(distinct(fixed.columns["instruction"])[0].tolist()) if "instruction" in fixed.columns else set(range(4))


def fixed_candidates(kernel: Kernel, arch: Arch, sizeless: Problem) -> Fixed:
    """The kernel's candidates before sizes are known. The most recently used are cached, up to `MAX_KEPT_BYTES`."""
    key = kernel, arch, sizeless
    with _LOCK:
        if found := _KEPT.get(key):
            _KEPT.move_to_end(key)
            return found
    made = _enumerated(*key)
    with _LOCK:
        _KEPT[key] = made
        held = sum(fixed.bytes for fixed in _KEPT.values())
        while held > MAX_KEPT_BYTES and len(_KEPT) > 1:
            held -= _KEPT.popitem(last=False)[1].bytes
    return made


_KEPT: OrderedDict[tuple[Kernel, Arch, Problem], Fixed] = OrderedDict()
_LOCK = Lock()


def _enumerated(kernel: Kernel, arch: Arch, sizeless: Problem) -> Fixed:
    steps: list[_Step] = [(name, e, False) for name, e in kernel.tunables.items() if isinstance(e, Expression)]
    steps += [(name, e, False) for name, e in kernel.derived.items()]
    steps += [(why, e, True) for why, e in (*kernel.rules.items(), *kernel.avoid.items(), *device_rules(kernel))]
    table = _Table(static_scope(sizeless, arch), {}, np.zeros(1, np.int64), {})
    for tunable, values in kernel.tunables.items():
        if isinstance(values, Expression):
            continue
        new = np.asarray(values, np.int64)
        if len(table.index) * len(new) > MAX_CANDIDATES:
            raise NoCandidates(f"{kernel.title}: its declaration spans more than {MAX_CANDIDATES} candidates", {})
        table.cross(tunable, new)
        steps = table.settle(steps)
    sized = {name: e for name, e, is_rule in steps if not is_rule}
    known = {*table.scope, *table.columns, *size_scope(sizeless), *sized}
    for what, expression, _ in steps:
        if unknown := expression.names - known:
            word = min(unknown)
            why = f"{what!r} uses {word!r}, which {sizeless} does not have; {nearest(word, known)}"
            raise KernelError(f"{kernel.path}: {why}")
    rules = _sized_rules([(why, e) for why, e, is_rule in steps if is_rule], sized, table)
    return Fixed(kernel, arch, sizeless, table.scope, table.columns, table.index, table.removed, sized, rules)


def _sized_rules(
    rules: Sequence[tuple[str, Formula]], sized: Mapping[str, Formula], table: _Table
) -> tuple[SizedRule, ...]:
    """The rules that depend on sizes, ordered by the depth of the columns that they read: cheap rules come first."""
    depth: dict[str, int] = {}

    def deep(expression: Formula) -> int:
        for name in expression.names & sized.keys() - depth.keys():
            depth[name] = 1 + deep(sized[name])
        return max((depth[name] for name in expression.names & sized.keys()), default=0)

    def through(expression: Formula) -> dict[str, Formula]:
        found: dict[str, Formula] = {}
        for name in sorted(expression.names & sized.keys()):
            found |= through(sized[name]) | {name: sized[name]}
        return found

    codes: dict[str, tuple[IntArray, IntArray]] = {}
    out = []
    for why, expression in sorted(rules, key=lambda rule: deep(rule[1])):
        read = through(expression)
        every = expression.names.union(*(e.names for e in read.values()))
        names = every & table.columns.keys()
        codes |= {name: distinct(table.columns[name]) for name in names - codes.keys()}
        values, which = _combinations({name: codes[name] for name in sorted(names)}, len(table.index))
        out.append(SizedRule(why, expression, tuple(read.items()), values, every - names - read.keys(), which))
    return tuple(out)


def _bytes(value: Any) -> int:
    return int(getattr(value, "nbytes", 0))


def distinct(column: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct values of a column, ascending, and the index of each row's value among them.

    `np.unique` does the same, but imports masked arrays, which takes a fifth of the time of a first query.
    """
    if len(column) and column.min() >= 0 and column.max() < 1 << 20:  # without sorting
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


_Step: TypeAlias = tuple[str, Formula, bool]
"""A column to compute; if the last entry is true, a rule to enforce."""


@dataclass
class _Table:
    """The table of candidates during enumeration."""

    scope: Mapping[str, Any]
    columns: dict[str, Any]
    index: IntArray
    removed: dict[str, int]

    def cross(self, name: str, values: np.ndarray) -> None:
        """Add a column: combine each row with each value."""
        n = len(self.index)
        self.columns = {key: np.repeat(column, len(values)) for key, column in self.columns.items()}
        self.columns[name] = np.tile(values, n)
        self.index = np.repeat(self.index * len(values), len(values)) + np.tile(np.arange(len(values)), n)

    def settle(self, steps: Iterable[_Step]) -> list[_Step]:
        """Compute the columns and enforce the rules whose inputs are known; returns the remaining steps."""
        left, names = list(steps), self.scope.keys() | self.columns.keys()
        while ready := [step for step in left if step[1].names <= names]:
            left = [step for step in left if step not in ready]
            seen = ChainMap(self.columns, self.scope)  # type: ignore[arg-type]
            allowed = np.ones(len(self.index), bool)
            for name, expression, is_rule in ready:
                value = expression(seen)
                if is_rule:
                    kept = allowed & np.asarray(value, bool)
                    if lost := int(np.count_nonzero(allowed) - np.count_nonzero(kept)):
                        self.removed[name] = self.removed.get(name, 0) + lost
                        allowed = kept
                else:
                    self.columns[name] = as_column(value, len(self.index))
                    names.add(name)
            if not allowed.all():
                rows = np.flatnonzero(allowed)
                self.columns = {name: column.take(rows) for name, column in self.columns.items()}
                self.index = self.index.take(rows)
        return left
