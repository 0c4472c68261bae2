"""The candidate space, with a column per tunable or derived quantity and a row per candidate.

Spaces of a kernel's own candidates are built in `enumeration`, spaces of the user's configurations here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np

from ..arch.descriptor import TMEM_COLUMNS, Arch
from ..base.errors import ConfigError, nearest
from ..base.given import index, shown
from ..base.types import BoolArray, IntArray, Record
from ..problem.problem import Problem
from .declaration import MAX_TUNABLE, Kernel, is_tunable
from .expr import Expression, missed, parse, size_scope, static_scope

MOST_MISSES = 200_000
"""Candidates of a declaration of which an error message may still ask each."""


class Space(Record):
    """Candidates of one kernel for one problem on one device.

    `columns` holds the tunables and the schedule of the declaration, each an int64 array of shape (n,).
    `scope` holds the scalars that its expressions read: sizes, element widths, flags, the device.
    `index` is the position of each row among the enumerated or given configurations.
    `removed` counts the candidates that each rule removed.
    """

    problem: Problem
    arch: Arch
    kernel: Kernel
    scope: Mapping[str, Any]
    columns: Mapping[str, Any]
    index: np.ndarray
    removed: Mapping[str, int] = field(default_factory=dict)
    floats: dict[Any, Mapping[str, Any]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What a model reads of it, once that was asked: a fit prices the same candidates thousands of times."""

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, name: str) -> Any:
        """A column, or the scalar of that name."""
        return self.columns[name] if name in self.columns else self.scope[name]

    def get(self, name: str, default: Any) -> Any:
        return self.columns[name] if name in self.columns else self.scope.get(name, default)

    def at(self, row: int, name: str, default: int) -> int:
        """The value of a column in one row; the default if there is no such column."""
        return int(self.columns[name][row] if name in self.columns else self.scope.get(name, default))

    def config(self, row: int) -> dict[str, int]:
        """The tunables of one row, under the backend's keys; a vendor's options only where they are set."""
        kernel = self.kernel
        tunables = {name: int(self.columns[name][row]) for name in kernel.tunables}
        unset = {n for names in kernel.options.values() for n in names if tunables[n] == kernel.defaults[n]}
        return {name: value for name, value in tunables.items() if name not in unset}

    def where(self, rows: BoolArray | IntArray) -> Space:
        """The space of these rows, by a flag for each row or by position."""
        lazy = getattr(self.columns, "of", None)
        columns = lazy(rows) if lazy else {name: column[rows] for name, column in self.columns.items()}
        return replace(self, columns=columns, index=self.index[rows])


class Broken(str):
    """Why a configuration cannot run: the rule that it breaks, and by how much it misses it."""

    rule: str
    missed: str

    def __new__(cls, rule: str, missed: str) -> Broken:
        text = super().__new__(cls, f"{rule} ({missed})" if missed else rule)
        text.rule, text.missed = rule, missed
        return text


def given_space(
    problem: Problem, arch: Arch, kernel: Kernel, configs: Iterable[Mapping[str, Any]]
) -> tuple[Space, dict[int, Broken]]:
    """The space of the user's configurations, and why each one that cannot run breaks a rule, by its position.

    Raises ConfigError for a configuration with missing, unknown or non-integer entries.
    """
    keys = [name for name in kernel.tunables if name in kernel.keys(arch.vendor)]
    rows = [_checked(config, kernel, keys, i) for i, config in enumerate(configs)]
    if not rows:
        raise ConfigError(f"no configurations given; each is a dict of {', '.join(keys)}")
    given = {name: np.array([row[name] for row in rows], np.int64) for name in kernel.tunables}
    literal = {name: values for name, values in kernel.tunables.items() if not isinstance(values, Expression)}
    counts = [name for name, values in literal.items() if min(values) > 0]
    columns = given | {name: np.maximum(given[name], 1) for name in counts}
    scope = {**static_scope(problem, arch), **size_scope(problem)}
    env: dict[str, Any] = dict(scope) | columns
    for name, expression in kernel.derived.items():
        env[name] = columns[name] = as_column(expression(env), len(rows))
    rules = {f"{name} is at least 1": given[name] > 0 for name in counts}
    rules |= {text: rule(env) for text, rule in (*kernel.rules.items(), *device_rules(kernel))}
    why = np.full(len(rows), -1)
    for i, holds in enumerate(rules.values()):
        why = np.where((why < 0) & ~np.broadcast_to(np.asarray(holds, bool), len(rows)), i, why)
    space = Space(problem, arch, kernel, scope, columns, np.arange(len(rows)))
    broken = {int(i): list(rules)[why[i]] for i in np.flatnonzero(why >= 0)}
    return space.where(why < 0), {i: Broken(rule, _missed(kernel, rule, env, i)) for i, rule in broken.items()}


def _checked(config: Mapping[str, Any], kernel: Kernel, keys: Collection[str], place: int) -> dict[str, int]:
    if not isinstance(config, Mapping):
        raise ConfigError(f"configuration {place} is {config!r}; expected a dict of {', '.join(keys)}")
    if unknown := config.keys() - set(keys):
        word = min(map(str, unknown))
        raise ConfigError(
            f"configuration {place} has unknown key {word!r}; {nearest(word, keys)} (Your name for a key of carver's: "
            f"--name KEY={word}, in Python names={{'KEY': {word!r}}}. A key that does not matter to the time: "
            f"--ignore {word}, in Python ignore=[{word!r}].)"
        )
    row = {**kernel.defaults, **config}
    if missing := kernel.tunables.keys() - row.keys():
        raise ConfigError(f"configuration {place} lacks {', '.join(sorted(missing))}; got {dict(config)}")
    for name, value in row.items():
        if is_tunable(value):
            continue
        # spreadsheets, and data frames with gaps, hold integers as floats
        declared = kernel.tunables[name]
        is_flag = isinstance(declared, tuple) and max(declared) <= 1
        plain = is_flag if isinstance(value, bool | np.bool_) else isinstance(value, float) and value.is_integer()
        number = int(value) if plain else index(value)
        if number is None or not 0 <= number <= MAX_TUNABLE:
            said = f"{name} must be a whole number from 0 to 2^31, got {shown(value)}"
            raise ConfigError(f"configuration {place}: {said}")
        row[name] = number
    return row


_DEVICE_RULES = {
    "threads": (
        "a block holds at most arch.max_threads_per_block threads", "threads <= arch.max_threads_per_block",
        "it has {threads:,} threads, a block may have {arch.max_threads_per_block:,}",
    ),
    "smem_bytes": (
        "shared memory of one block fits arch.smem_per_block_bytes", "smem_bytes <= arch.smem_per_block_bytes",
        "it needs {smem_bytes:,} bytes, a block may have {arch.smem_per_block_bytes:,}",
    ),
    "blocks": (
        "a grid has less than 2^31 blocks", "blocks < 2147483648", "it has {blocks:,} blocks",
    ),
    "tmem_columns": (
        f"tensor memory of one block has {TMEM_COLUMNS} columns", f"tmem_columns <= {TMEM_COLUMNS}",
        f"it needs {{tmem_columns:,}} columns, an SM has {TMEM_COLUMNS}",
    ),
}  # fmt: skip
"""Limits of the device, which apply to every kernel that declares its threads and memory: sentence, rule, numbers."""


def device_rules(kernel: Kernel) -> list[tuple[str, Expression]]:
    """The limits of the device that a kernel is subject to: sentence and rule."""
    return [(why, parse(rule)) for column, (why, rule, _) in _DEVICE_RULES.items() if column in kernel.derived]


def misses(problem: Problem, arch: Arch, kernel: Kernel) -> dict[str, str]:
    """By how much the kernel's own candidates miss each rule that one of them breaks: the smallest of those that meet
    all rules before it. Empty where values of tunables are computed from others, or are too many."""
    values = [value for value in kernel.tunables.values() if not isinstance(value, Expression)]
    if len(values) < len(kernel.tunables) or math.prod(map(len, values)) > MOST_MISSES:
        return {}
    rows = np.array(sorted(itertools.product(*values), key=math.prod), np.int64).T
    env: dict[str, Any] = {**static_scope(problem, arch), **size_scope(problem)}
    env |= zip(kernel.tunables, rows, strict=True)
    n, found = rows.shape[1], dict[str, str]()
    for name, expression in kernel.derived.items():
        env[name] = as_column(expression(env), n)
    left = np.ones(n, bool)
    for why, rule in (*kernel.rules.items(), *device_rules(kernel), *kernel.avoid.items()):
        holds = np.broadcast_to(np.asarray(rule(env), bool), n)
        for row in np.flatnonzero(left & ~holds)[:1]:
            found[why] = _missed(kernel, why, env, int(row))
        left = left & holds
    return found


def _missed(kernel: Kernel, why: str, env: Mapping[str, Any], row: int) -> str:
    """By how much a row misses the rule with that sentence; empty where the rule says so itself."""
    rule = kernel.rules.get(why) or dict(device_rules(kernel)).get(why) or kernel.avoid.get(why)
    if rule is None:
        return ""
    values = {name: env[name] for name in rule.names}
    values = {name: v[row] if isinstance(v, np.ndarray) and v.ndim else v for name, v in values.items()}
    said = {sentence: numbers for sentence, _, numbers in _DEVICE_RULES.values()}
    return said[why].format(**values) if why in said else missed(rule, values)


def as_column(value: Any, n: int) -> np.ndarray:
    """The value of an expression as a column of `n` rows; true is 1."""
    column = np.asarray(value)
    if column.dtype == np.bool_:
        column = column.astype(np.int64)
    return np.broadcast_to(column, n) if column.ndim == 0 else column
