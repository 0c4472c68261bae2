"""The candidate space: one column per tunable or derived quantity, one row per candidate.

A space is built in two halves. What does not depend on the problem's sizes (tiles, threads, shared
memory, registers, the rules over them) is enumerated once per kernel, device and element types, and
kept. What does is evaluated per problem. So a new shape costs a millisecond with every candidate looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from .descriptor import Arch
from .dtypes import BYTES
from .errors import ConfigError, NoCandidates, nearest
from .expr import Expression
from .kernel import Kernel
from .problem import Problem
from .types import BoolArray

MAX_CANDIDATES = 2_000_000
"""Rows that enumeration may hold at any moment. A declaration that needs more lacks rules."""


@dataclass(frozen=True)
class Space:
    """Candidates of one kernel for one problem on one device.

    `columns` holds the tunables and the schedule of the declaration, each an int64 array of shape (n,).
    `scope` holds the scalars its expressions see: sizes, element widths, flags, the device.
    `index` is the place of each row in what was enumerated or given; `removed` counts what each rule took.
    """

    problem: Problem
    arch: Arch
    kernel: Kernel
    scope: Mapping[str, Any]
    columns: Mapping[str, Any]
    index: np.ndarray
    removed: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, name: str) -> Any:
        """A column, or the scalar of that name."""
        return self.columns[name] if name in self.columns else self.scope[name]

    def get(self, name: str, default: Any) -> Any:
        return self.columns.get(name, self.scope.get(name, default))

    def config(self, row: int) -> dict[str, int]:
        """The tunables of one row, in the backend's vocabulary."""
        return {name: int(self.columns[name][row]) for name in self.kernel.tunables}

    def where(self, keep: BoolArray) -> Space:
        columns = {name: _rows(column, keep) for name, column in self.columns.items()}
        return Space(self.problem, self.arch, self.kernel, self.scope, columns, self.index[keep], self.removed)


def roles(problem: Problem) -> dict[str, int]:
    """The sizes of a contraction's axes multiplied up by role: batch, rows, columns and reduced.

    `m` axes are in the output and the first input only, `n` axes in the output and the second, `b` axes
    in all three, `k` axes are reduced. This is how an implicit GEMM sees any two-operand statement.
    """
    s = problem.statement
    if len(s.inputs) < 2:
        return {}
    first, second = set(s.inputs[0].axes), {axis for t in s.inputs[1:] for axis in t.axes}
    group = {"b": first & second & set(s.spatial), "k": set(s.reduced)}
    group["m"] = (set(s.spatial) & first) - group["b"]
    group["n"] = set(s.spatial) - group["b"] - group["m"]
    return {role: prod(problem.sizes[axis] for axis in axes) for role, axes in group.items()}


def static_scope(problem: Problem, arch: Arch) -> dict[str, Any]:
    """What the expressions of a declaration see, sizes left out."""
    s = problem.statement
    scope: dict[str, Any] = {"arch": arch, "out_bytes": problem.itemsize(s.output.name)}
    for tensor in s.tensors:
        scope[f"{tensor.name.lower()}_bytes"] = problem.itemsize(tensor.name)
        scope |= _aligned(tensor.name.lower(), problem.align_bytes[tensor.name])
    scope |= _aligned("out", problem.align_bytes[s.output.name])
    if problem.operator == "matmul":  # a declaration's A, B and C, whatever a statement of one's own calls them
        for name, tensor in zip("abc", (*s.inputs[:2], s.output), strict=True):
            scope[f"{name}_bytes"] = problem.itemsize(tensor.name)
            scope |= _aligned(name, problem.align_bytes[tensor.name])
    scope["in_bytes"] = problem.itemsize(s.inputs[0].name)
    scope["acc_bytes"] = BYTES[problem.accumulate]
    dtype = multiply_dtype(problem)
    unit = arch.matrix_unit(dtype, _accumulate(problem)) if len(s.inputs) > 1 else None
    scope["matrix"] = int(unit is not None)
    scope["wgmma"] = int(unit is not None and unit.instruction == "wgmma")
    scope["tcgen05"] = int(unit is not None and unit.instruction == "tcgen05")
    scope["mma_m"], scope["mma_n"], scope["mma_k"] = unit.shape if unit else (1, 1, 1)
    for name, tensor in zip("ab", s.inputs, strict=False):
        scope[f"{name}_k_contiguous"] = int(tensor.index[-1][-1][0] in s.reduced)
    scope["inputs"] = len(s.inputs)
    scope["keeps"] = int(not s.reduced)
    scope["flops_per_element"] = problem.options.get("flops_per_element", 1)
    scope |= dict.fromkeys(("trans_a", "trans_b", "bias", "activation"), 0) | dict(problem.options)
    return scope


def _aligned(name: str, row_bytes: int) -> dict[str, int]:
    """`align_x`: what one copy may rely on, at most 16; `row_align_x`: what every row start is a multiple of. [bytes]"""
    return {f"align_{name}": min(16, row_bytes), f"row_align_{name}": row_bytes}


def size_scope(problem: Problem) -> dict[str, int]:
    """The extents of the axes, by name and, for a contraction, by role."""
    traffic = {
        "elements": prod(problem.sizes.values()),
        "read_bytes": sum(problem.elements[t.name] * problem.itemsize(t.name) for t in problem.statement.inputs),
        "write_bytes": problem.elements[problem.statement.output.name] * problem.itemsize(problem.statement.output.name),
    }
    return dict(problem.sizes) | roles(problem) | traffic


def multiply_dtype(problem: Problem) -> str:
    """The type in which operands are multiplied: the widest of the inputs."""
    types = [problem.dtypes[t.name] for t in problem.statement.inputs]
    return max(types, key=lambda t: (BYTES[t], t == "tf32"))


def _accumulate(problem: Problem) -> str | None:
    wide = {"int8": "int32", "float64": "float64"}.get(multiply_dtype(problem), "float32")
    return problem.accumulate if problem.accumulate == "float16" else wide


def enumerate_space(problem: Problem, arch: Arch, kernel: Kernel) -> Space:
    """Every configuration of the kernel that its rules and the device allow.

    Raises NoCandidates, with what each rule removed, when none is left.
    """
    half = _static_half(kernel, arch, _static_key(problem))
    scope = half.scope | size_scope(problem)
    space = _complete(Space(problem, arch, kernel, scope, half.columns, half.index, half.removed), half.rest)
    if not len(space):
        raise NoCandidates(f"{problem} as {kernel.title} on {arch.name}", space.removed)
    return space


def given_space(
    problem: Problem, arch: Arch, kernel: Kernel, configs: Iterable[Mapping[str, Any]]
) -> tuple[Space, dict[int, str]]:
    """The user's own configurations, and for each that cannot run its place and the rule that says so.

    Raises ConfigError for a configuration with missing, unknown or non-integer entries.
    """
    rows = [_checked(config, kernel, i) for i, config in enumerate(configs)]
    if not rows:
        raise ConfigError(f"no configurations given; each is a dict of {', '.join(kernel.tunables)}")
    columns = {name: np.array([row[name] for row in rows], np.int64) for name in kernel.tunables}
    scope = static_scope(problem, arch) | size_scope(problem)
    env: dict[str, Any] = dict(scope) | columns
    for name, expression in kernel.schedule.items():
        env[name] = columns[name] = _column(expression(env), len(rows))
    why = np.full(len(rows), -1)
    rules = [*kernel.rules.items(), *_device_rules(kernel)]
    for i, (_, rule) in enumerate(rules):
        why = np.where((why < 0) & ~np.broadcast_to(np.asarray(rule(env), bool), len(rows)), i, why)
    space = Space(problem, arch, kernel, scope, columns, np.arange(len(rows)))
    return space.where(why < 0), {int(i): rules[why[i]][0] for i in np.flatnonzero(why >= 0)}


def _checked(config: Mapping[str, Any], kernel: Kernel, place: int) -> dict[str, int]:
    if not isinstance(config, Mapping):
        raise ConfigError(f"configuration {place} is {config!r}; expected a dict of {', '.join(kernel.tunables)}")
    if unknown := config.keys() - kernel.tunables.keys():
        word = min(map(str, unknown))
        raise ConfigError(f"configuration {place} has unknown key {word!r}; {nearest(word, kernel.tunables)}")
    row = {**kernel.defaults, **config}
    if missing := kernel.tunables.keys() - row.keys():
        raise ConfigError(f"configuration {place} lacks {', '.join(sorted(missing))}; got {dict(config)}")
    for name, value in row.items():
        if isinstance(value, bool | np.bool_):
            row[name] = int(value)
        elif not hasattr(value, "__index__") or value.__index__() < 0:
            raise ConfigError(f"configuration {place}: {name} must be a whole number of at least 0, got {value!r}")
        else:
            row[name] = value.__index__()
    return row


@dataclass(frozen=True)
class _Half:
    """Candidates after everything that sizes have no part in; `rest` is what still has to be evaluated."""

    scope: dict[str, Any]
    columns: dict[str, Any]
    index: np.ndarray
    removed: dict[str, int]
    rest: tuple[tuple[str, Expression, bool], ...]


def _static_key(problem: Problem) -> Problem:
    """The problem with its sizes taken out: what the static half of a space may depend on."""
    ones = dict.fromkeys(problem.sizes, 1)
    return Problem(
        problem.operator,
        problem.computes,
        ones,
        problem.dtypes,
        problem.accumulate,
        problem.options,
        problem.align_bytes,
    )


@lru_cache(maxsize=256)
def _static_half(kernel: Kernel, arch: Arch, problem: Problem) -> _Half:
    scope = static_scope(problem, arch)
    names = set(scope) | {"arch"}
    steps = [(name, e, False) for name, e in kernel.schedule.items()]
    steps += [(why, e, True) for why, e in (*kernel.rules.items(), *kernel.avoid.items(), *_device_rules(kernel))]
    columns: dict[str, Any] = {}
    index = np.zeros(1, np.int64)
    removed: dict[str, int] = {}
    for tunable, values in kernel.tunables.items():
        n, new = len(index), np.asarray(values, np.int64)
        if n * len(new) > MAX_CANDIDATES:
            raise NoCandidates(f"{kernel.title}: its declaration spans more than {MAX_CANDIDATES} candidates", {})
        columns = {name: np.repeat(column, len(new)) for name, column in columns.items()}
        columns[tunable] = np.tile(new, n)
        index = np.repeat(index * len(new), len(new)) + np.tile(np.arange(len(new)), n)
        names.add(tunable)
        progress = True
        while progress:
            ready = [step for step in steps if step[1].names <= names]
            progress = bool(ready)
            for step in ready:
                steps.remove(step)
                columns, index = _apply(step, scope, columns, index, removed, names)
    return _Half(scope, columns, index, removed, tuple(steps))


def _apply(
    step: tuple[str, Expression, bool],
    scope: Mapping[str, Any],
    columns: dict[str, Any],
    index: np.ndarray,
    removed: dict[str, int],
    names: set[str],
) -> tuple[dict[str, Any], np.ndarray]:
    """One schedule column computed, or one rule enforced."""
    name, expression, is_rule = step
    value = expression({**scope, **columns})
    if not is_rule:
        columns[name] = _column(value, len(index))
        names.add(name)
        return columns, index
    keep = np.broadcast_to(np.asarray(value, bool), len(index))
    if keep.all():
        return columns, index
    removed[name] = removed.get(name, 0) + int((~keep).sum())
    return {n: c[keep] for n, c in columns.items()}, index[keep]


def _complete(space: Space, rest: Sequence[tuple[str, Expression, bool]]) -> Space:
    columns, index, removed = dict(space.columns), space.index, dict(space.removed)
    names: set[str] = set(space.scope) | columns.keys()
    for step in rest:
        columns, index = _apply(step, space.scope, columns, index, removed, names)
    return Space(space.problem, space.arch, space.kernel, space.scope, MappingProxyType(columns), index, removed)


@lru_cache(maxsize=256)
def _device_rules(kernel: Kernel) -> tuple[tuple[str, Expression], ...]:
    """What the device itself refuses, for any kernel that says how many threads and how much memory it takes."""
    from .expr import parse

    rules = {}
    if "threads" in kernel.schedule:
        rules["a block holds at most arch.max_threads_per_block threads"] = "threads <= arch.max_threads_per_block"
    if "smem_bytes" in kernel.schedule:
        rules["shared memory of one block fits arch.smem_per_block_bytes"] = "smem_bytes <= arch.smem_per_block_bytes"
    return tuple((why, parse(text)) for why, text in rules.items())


def _column(value: Any, n: int) -> np.ndarray:
    column = np.asarray(value)
    if column.dtype == np.bool_:
        column = column.astype(np.int64)
    return np.broadcast_to(column, n) if column.ndim == 0 else column


def _rows(column: np.ndarray, keep: BoolArray) -> np.ndarray:
    return column[keep]
