"""A kernel's own candidates: the part that does not depend on sizes is enumerated once, the rest is evaluated per
shape.

Tiles, threads, shared memory, registers and the rules over them are the same for every shape of a problem on a device;
`fixed_candidates` keeps them. A rule that needs sizes is evaluated once for each distinct combination of the fixed
columns that it reads, of which there are far fewer than candidates. A column is evaluated when it is first needed.
"""

from __future__ import annotations

from collections import ChainMap, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from .scope import size_columns, size_scope, static_scope
from .space import Space, as_column, device_rules
from .trace import Code, Leaf, Trace

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

    def allowed(self, holds: Iterable[BoolArray]) -> tuple[IntArray, dict[str, int]]:
        """Rows of the candidates that all rules allow for one shape, and the number of candidates that each removed.

        `holds` gives the result of each of `rules` for its combinations.
        """
        removed = dict(self.removed)
        rows: IntArray | None = None
        left = len(self.index)
        for rule, held in zip(self.rules, holds, strict=True):
            if not left or held.all():
                continue
            kept: IntArray = (
                held.take(rule.which).nonzero()[0] if rows is None else rows[held.take(rule.which.take(rows))]
            )
            if lost := left - len(kept):
                removed[rule.why] = removed.get(rule.why, 0) + lost
                rows, left = kept, len(kept)
        return np.arange(left) if rows is None else rows, removed

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
    """The columns of some rows of fixed candidates, computed on first access.

    A size in `scope` is a number, or an array with one value per row."""

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
        scope = self.scope
        if isinstance(scope, Sizes):
            scope = Sizes(scope.fixed, scope.sizes, scope.owner[rows])
        out = Columns(self.fixed, self.rows[rows], scope)
        out._made = {name: column[rows] for name, column in self._made.items()}
        return out

    def __iter__(self) -> Iterator[str]:
        yield from self.fixed.columns
        yield from self.fixed.sized

    def __len__(self) -> int:
        return len(self.fixed.columns) + len(self.fixed.sized)


class Sizes(Mapping[str, Any]):
    """A scope for rows of several problems: on first access, each size is repeated for all rows of its problem."""

    def __init__(self, fixed: Mapping[str, Any], sizes: Mapping[str, Any], owner: IntArray) -> None:
        self.fixed = fixed
        self.sizes = sizes
        self.owner = owner
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self.sizes:
            return self.fixed[name]
        if name not in self._made:
            self._made[name] = self.sizes[name].take(self.owner)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        yield from {**self.fixed, **self.sizes}

    def __len__(self) -> int:
        return len({**self.fixed, **self.sizes})


def enumerate_space(problem: Problem, arch: Arch, kernel: Kernel) -> Space:
    """Every configuration of the kernel that its rules and the device allow.

    Raises NoCandidates, with the number that each rule removed, if none is left.
    """
    [many] = enumerate_many([problem], arch, [kernel])
    if not len(many.owner):
        raise NoCandidates(f"{problem} as {kernel.title} on {arch.name}", many.removed[0])
    return replace(many.space, removed=many.removed[0])


@dataclass(frozen=True, eq=False)
class Many:
    """Candidates of several problems that differ only in sizes, as one space; each row is one problem's candidate."""

    space: Space
    """The joined space. Its `problem` is the first one; with several problems, sizes are columns."""
    owner: IntArray
    """Index of each row's problem, ascending."""
    removed: tuple[Mapping[str, int], ...]
    """For each problem, the number of candidates that each rule removed."""

    @property
    def counts(self) -> list[int]:
        """Number of candidates of each problem."""
        return [int(n) for n in np.bincount(self.owner, minlength=len(self.removed))]

    def rows(self, rows: IntArray) -> Space:
        """The space of the given rows."""
        columns, scope = self.space.columns, self.space.scope
        assert isinstance(columns, Columns)
        if isinstance(scope, Sizes):
            scope = Sizes(scope.fixed, scope.sizes, scope.owner.take(rows))
        return _space(self.space.problem, columns.fixed, columns.rows.take(rows), scope)


def enumerate_many(problems: Sequence[Problem], arch: Arch, kernels: Sequence[Kernel]) -> list[Many]:
    """For each kernel, every configuration that its rules and the device allow, for each problem; there may be none.
    The problems differ only in sizes."""
    tables = tuple(fixed_candidates(kernel, arch, problems[0].sizeless) for kernel in kernels)
    static = tables[0].scope
    if len(problems) == 1:
        scope = {**static, **size_scope(problems[0])}
        return [_of_one(problems[0], *each, scope) for each in zip(tables, _held(tables, scope), strict=True)]
    sizes = size_columns(problems)
    shapes = {**static, **{name: values[:, None] for name, values in sizes.items()}}
    return [_of_several(problems, *each, sizes) for each in zip(tables, _held(tables, shapes), strict=True)]


def _of_one(problem: Problem, fixed: Fixed, held: Iterable[BoolArray], scope: Mapping[str, Any]) -> Many:
    rows, removed = fixed.allowed(held)
    return Many(_space(problem, fixed, rows, scope), np.zeros(len(rows), np.int64), (removed,))


def _of_several(problems: Sequence[Problem], fixed: Fixed, held: Sequence[BoolArray], sizes: Mapping[str, Any]) -> Many:
    held = [np.broadcast_to(np.atleast_2d(h), (len(problems), r.size)) for h, r in zip(held, fixed.rules, strict=True)]
    kinds, which = _alike(held, len(problems))
    chosen = [fixed.allowed(each[i] for each in held) for i in kinds]
    rows = np.concatenate([chosen[i][0] for i in which])
    owner = np.repeat(np.arange(len(problems)), [len(chosen[i][0]) for i in which])
    spread = Sizes(fixed.scope, sizes, owner)
    return Many(_space(problems[0], fixed, rows, spread), owner, tuple(chosen[i][1] for i in which))


def _held(tables: tuple[Fixed, ...], scope: Mapping[str, Any]) -> list[list[BoolArray]]:
    """For each kernel, whether each of its rules holds for the combinations of the columns that it reads: of shape
    (u,), or (p, u) if the sizes in `scope` have shape (p, 1)."""
    first, *others = tables
    code: Code = first.once(("rules", *others), partial(_rules, tables))
    found = code.everywhere(scope)

    def of(rule: SizedRule, held: Any, some: slice) -> BoolArray:
        value = np.asarray(found[held.at] if isinstance(held, Leaf) else [held], bool)
        same = value.shape[-1] == 1 < rule.size  # whatever the columns that it reads
        return np.broadcast_to(value, (*value.shape[:-1], rule.size)) if same else value[..., some]

    return [
        [of(rule, *held) for rule, held in zip(table.rules, each, strict=True)]
        for table, each in zip(tables, code.results, strict=True)
    ]


def _rules(tables: Sequence[Fixed]) -> Code:
    """The code of all rules. One that several kernels have is evaluated once, for the combinations of all: for each
    kernel's rules its result, and which combinations are that kernel's."""
    same: dict[Hashable, list[tuple[int, int, SizedRule]]] = {}
    for kernel, table in enumerate(tables):
        for number, rule in enumerate(table.rules):
            key = rule.expression, rule.columns, frozenset(rule.combinations)
            same.setdefault(key, []).append((kernel, number, rule))
    trace, static = Trace(0), tables[0].scope
    out: list[list[Any]] = [[None] * len(table.rules) for table in tables]
    for found in same.values():
        one, rules = found[0][-1], [rule for *_, rule in found]
        seen: dict[str, Any] = {name: static[name] if name in static else trace.size(name) for name in one.scalars}
        seen |= {name: np.concatenate([rule.combinations[name] for rule in rules]) for name in one.combinations}
        for name, expression in one.columns:
            seen[name] = expression(seen)
        held, ends = one.expression(seen), accumulate(rule.size for rule in rules)
        for (kernel, number, rule), end in zip(found, ends, strict=True):
            some = slice(end - rule.size, end) if one.combinations else slice(None)
            out[kernel][number] = held, some
    return Code(trace, out, whole=True)


def _alike(held: Sequence[BoolArray], problems: int) -> tuple[IntArray, IntArray]:
    """Group the problems for which all rules give equal results. Returns one problem of each group, and the group of
    each problem."""
    if not sum(each.shape[1] for each in held):
        return np.zeros(1, np.int64), np.zeros(problems, np.int64)
    bits = np.packbits(np.concatenate(held, axis=1), axis=1)
    _, kinds, which = np.unique(bits.view(f"V{bits.shape[1]}").reshape(-1), return_index=True, return_inverse=True)
    return kinds, which


def _space(problem: Problem, fixed: Fixed, rows: IntArray, scope: Mapping[str, Any]) -> Space:
    return Space(problem, fixed.arch, fixed.kernel, scope, Columns(fixed, rows, scope), fixed.index.take(rows))


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
