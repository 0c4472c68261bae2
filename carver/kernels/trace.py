"""Formulas that run once with symbols for a problem's sizes, and the straight NumPy code of what they did with them.

What needs numbers or columns alone is computed when formulas are traced, once for all sizes. In the code, what needs
sizes alone is computed once for each problem, and the rest for the rows of the table that are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from ..base.types import IntArray

Operation: TypeAlias = str | Callable[..., Any]
"""NumPy's name of a function, or a function that is called as it is."""
_INFIX = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//", "remainder": "%", "power": "**",
    "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=",
}  # fmt: skip
_NEUTRAL = {"add": (0, True), "subtract": (0, False), "multiply": (1, True), "divide": (1, False)}
"""The number that changes nothing in an operation, and whether it may also stand first."""
_TRUTH, _WHOLE, _FLOAT = range(3)
_GIVES = {"divide": _FLOAT, "sqrt": _FLOAT, "log2": _FLOAT, "float64": _FLOAT, "int64": _WHOLE}
_GIVES |= dict.fromkeys((*list(_INFIX)[-6:], "logical_and", "logical_or", "logical_not"), _TRUTH)
"""The kind of number that an operation returns; others return the widest of their arguments' kinds."""


class Symbol(np.lib.mixins.NDArrayOperatorsMixin):
    """A value that depends on sizes. It has no truth: a Python `if` on it is an error, and never takes one side."""

    __slots__ = ("args", "high", "kind", "op", "per_row", "trace")

    def __init__(self, trace: Trace, op: Operation, args: tuple[Any, ...], per_row: bool) -> None:
        self.trace, self.op, self.args, self.per_row = trace, op, args, per_row
        inner = (arg.high for arg in args if isinstance(arg, Symbol) and op != "row")
        self.high: int = len(args) if op == "stack" else max(inner, default=0)
        """Number of arrays that are stacked in it; 0 for one alone."""
        self.kind: int = _TRUTH
        if isinstance(op, str):
            self.kind = _GIVES[op] if op in _GIVES else max(map(_kind, args[op == "where" :]))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None) -> Any:
        if method != "__call__":
            raise TypeError(f"np.{ufunc.__name__}.{method} cannot be traced")
        return self.trace.made(ufunc.__name__, *inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        match function.__name__:
            case "where":
                return self.trace.chosen(*args)
            case "clip":
                return np.minimum(np.maximum(args[0], args[1]), args[2])
            case "broadcast_to":
                return args[0]
            case "zeros_like":
                return 0.0
            case "ndim":
                return 1
            case "stack":
                return self.trace.made("stack", *args[0])
        raise TypeError(f"np.{function.__name__} cannot be traced")

    def __bool__(self) -> bool:
        raise TypeError("a value that depends on sizes has no truth while its formula is traced")

    def __len__(self) -> int:
        return self.trace.rows

    def __iter__(self) -> Iterator[Any]:
        if not self.high:
            raise TypeError("a value that depends on sizes has no rows while its formula is traced")
        return (self[row] for row in range(self.high))

    def __getitem__(self, row: int) -> Any:
        return self.trace.made("row", self, row)

    def astype(self, kind: Any) -> Any:
        return self.trace.made(np.dtype(kind).name, self)


def _kind(value: Any) -> int:
    if isinstance(value, Symbol):
        return value.kind
    dtype = np.asarray(value).dtype
    return _TRUTH if dtype == np.bool_ else _FLOAT if dtype.kind == "f" else _WHOLE


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) else None


def simple(value: Any) -> Any:
    """The number that all entries of a column are; the column itself if they differ."""
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, np.ndarray) or value.ndim > 1:
        return value
    first = value.item(0) if value.size else None
    return first if value.ndim == 0 or (len(value) and (value == first).all()) else value


class Trace:
    """What formulas do with symbols over a table of so many rows. Equal operations are recorded once."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._made: dict[Any, Symbol] = {}
        self._simple: dict[int, tuple[Any, Any]] = {}
        """By the id of an array: the array, so that the id stays its own, and what it is, simplified."""

    def size(self, name: str) -> Symbol:
        """A number of the problem that depends on its sizes."""
        return self._symbol("size", (name,), False)

    def called(self, function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
        """What a function returns that cannot be traced itself: it is called whenever the code runs."""
        return self.made(lambda *args: function(**dict(zip(values, args, strict=True))), *values.values())

    def made(self, op: Operation, *args: Any) -> Any:
        """The result of an operation. It is not recorded where a number decides it or changes nothing: values are
        finite, and nothing is divided by 0."""
        args = tuple(map(self.told, args))
        symbols = [arg for arg in args if isinstance(arg, Symbol)]
        if isinstance(op, str) and not symbols:
            return self.told(getattr(np, op)(*args))
        if (op == "multiply" and 0 in map(_number, args)) or (op == "divide" and _number(args[0]) == 0):
            return 0.0
        if op in ("logical_and", "logical_or") and (truths := [arg for arg in args if isinstance(arg, bool)]):
            return truths[0] if truths[0] == (op == "logical_or") else symbols[0]
        if isinstance(op, str) and op in _NEUTRAL:
            number, first_too = _NEUTRAL[op]
            for one, other in ((args[1], args[0]), *([args] if first_too else [])):
                same = _number(one) == number and isinstance(other, Symbol)
                if same and other.kind >= max(_kind(one), _WHOLE) and (op != "divide" or other.kind == _FLOAT):
                    return other
        per_row = any(symbol.per_row for symbol in symbols) or any(isinstance(arg, np.ndarray) for arg in args)
        return self._symbol(op, args, per_row)

    def chosen(self, condition: Any, yes: Any, no: Any) -> Any:
        """`np.where`: one side as it is, where a number decides."""
        told, yes, no = map(self.told, (condition, yes, no))
        if isinstance(told, Symbol | np.ndarray):
            return yes if yes is no or _number(yes) == _number(no) is not None else self.made("where", told, yes, no)
        return yes if told else no

    def told(self, value: Any) -> Any:
        """`simple`, found once for each array."""
        if not isinstance(value, np.ndarray):
            return simple(value)
        if id(value) not in self._simple:
            self._simple[id(value)] = value, simple(value)
        return self._simple[id(value)][1]

    def _symbol(self, op: Operation, args: tuple[Any, ...], per_row: bool) -> Symbol:
        key = op, *(id(arg) if isinstance(arg, Symbol | np.ndarray) else (type(arg), arg) for arg in args)
        if key not in self._made:
            self._made[key] = Symbol(self, op, args, per_row)
        return self._made[key]


@dataclass(frozen=True)
class Leaf:
    """The place of a result among those that the code returns."""

    at: int


class Code:
    """The code of a traced formula. `results` is what it returned, with a `Leaf` for all that is not a number.

    With `whole` it computes all rows that its columns have, which may differ in number.
    """

    def __init__(self, trace: Trace, results: Any, whole: bool = False) -> None:
        leaves: dict[int, Any] = {}

        def leaf(value: Any) -> Any:
            value = trace.told(value)
            if not isinstance(value, Symbol | np.ndarray):
                return value
            leaves.setdefault(id(value), value)
            return Leaf(list(leaves).index(id(value)))

        self.results = mapped(results, leaf)
        writer = _Writer([*leaves.values()], whole)
        self.sizes: list[str] = [symbol.args[0] for symbol in writer.sizes]
        self.tables = [] if whole else [np.stack(some, 1) for some in writer.columns.values() if some]
        self._run = writer.compiled()
        self._alike = {at for at, each in enumerate(leaves.values()) if isinstance(each, Symbol) and not each.per_row}
        """Results that are the same for all rows of a problem."""

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self.tables)

    def __call__(self, sizes: Mapping[str, Any], rows: IntArray, owner: IntArray | None) -> list[Any]:
        """The leaves for these rows of the table. Each size is a number, or an array of one entry a problem if `owner`
        is the problem of each row."""
        taken = [np.ascontiguousarray(table.take(rows, 0).T) for table in self.tables]  # a row at once, then by column
        out: list[Any] = self._run([np.array(sizes[name], ndmin=1) for name in self.sizes], taken, owner)
        return out

    def recorded(self, leaves: Sequence[Any], rows: int) -> Any:
        """What the formula returned, for these rows: arrays, or one number for all."""

        def of(value: Any) -> Any:
            if not isinstance(value, Leaf):
                return value
            found = leaves[value.at]
            if value.at not in self._alike or found.shape[-1] == rows:
                return found
            return found.item() if found.size == 1 else np.broadcast_to(found, (*found.shape[:-1], rows))

        return mapped(self.results, of)

    def everywhere(self, sizes: Mapping[str, Any]) -> list[Any]:
        """The leaves for all rows, by code that was written so. Each size is a number, or has shape (p, 1)."""
        out: list[Any] = self._run([np.array(sizes[name], ndmin=1) for name in self.sizes], [], None)
        return out


class _Writer:
    """Writes the code of the symbols that some leaves need. One that is needed once stands where it is needed."""

    def __init__(self, leaves: Sequence[Any], whole: bool) -> None:
        self.leaves = leaves
        self.order: list[Symbol] = []
        self.uses: dict[int, int] = {}
        self.env: dict[str, Any] = {name: getattr(np, name) for name in ("inf", "nan", "float64", "int64")}
        self.env["stack"] = lambda *rows: np.array(np.broadcast_arrays(*rows))
        self.columns: dict[Any, list[np.ndarray]] = {np.float64: [], np.int64: [], np.bool_: []}
        self.names: dict[int, str] = {}
        self.whole = whole
        for each in leaves:
            self._walk(each)
        self.sizes = [symbol for symbol in self.order if symbol.op == "size"]
        self.names |= {id(symbol): f"s{i}" for i, symbol in enumerate(self.sizes)}

    def _walk(self, value: Any) -> None:
        if isinstance(value, np.ndarray) and id(value) not in self.names:
            kind = self.columns[value.dtype.type]
            self.names[id(value)] = name = f"{value.dtype.kind}{len(kind)}"
            kind.append(value)
            if self.whole:
                self.env[name] = value
        elif isinstance(value, Symbol):
            self.uses[id(value)] = self.uses.get(id(value), 0) + 1
            if self.uses[id(value)] == 1:
                for each in value.args if value.op != "size" else ():
                    self._walk(each)
                self.order.append(value)

    def compiled(self) -> Callable[..., list[Any]]:
        leaves = {id(each) for each in self.leaves}
        wanted = {id(arg) for s in self.order if s.per_row for arg in s.args if isinstance(arg, Symbol)} | leaves
        shared = [id(symbol) for symbol in self.order if not symbol.per_row and id(symbol) in wanted]
        lines: dict[bool, list[str]] = {False: [], True: []}
        for symbol in self.order:
            if id(symbol) not in self.names and (self.uses[id(symbol)] > 1 or id(symbol) in {*shared, *leaves}):
                said = self._said(symbol)
                self.names[id(symbol)] = f"v{len(self.names)}"
                lines[symbol.per_row].append(f"{self.names[id(symbol)]} = {said}")
        given = {"sizes": [self.names[id(symbol)] for symbol in self.sizes]}
        for table, (kind, some) in enumerate((k, some) for k, some in self.columns.items() if some and not self.whole):
            given[f"taken[{table}]"] = [f"{np.dtype(kind).kind}{i}" for i in range(len(some))]
        body = [f"[{', '.join(names)}] = {values}" for values, names in given.items()] + lines[False]
        spread = [f"{self.names[each]} = {self.names[each]}.take(owner, -1)" for each in shared]
        body += [*(["if owner is not None:", *(f"    {each}" for each in spread)] if spread else []), *lines[True]]
        body.append(f"return [{', '.join(map(self._text, self.leaves))}]")
        source = "def run(sizes, taken, owner):\n" + "".join(f"    {line}\n" for line in body)
        exec(compile(source, "<traced>", "exec"), self.env)
        run: Callable[..., list[Any]] = self.env["run"]
        return run

    def _text(self, value: Any) -> str:
        if isinstance(value, int | float):
            return f"({value!r})"
        if not isinstance(value, Symbol | np.ndarray):  # an argument of a function that is called
            self.env[name := f"given{id(value)}"] = value
            return name
        return self.names.get(id(value)) or self._said(cast(Symbol, value))

    def _said(self, symbol: Symbol) -> str:
        args, op = list(map(self._text, symbol.args)), symbol.op
        if op == "row":
            return f"{args[0]}[{symbol.args[1]}]"
        if op in ("float64", "int64"):
            return f"{args[0]}.astype({op})"
        if isinstance(op, str) and op in _INFIX:
            return f"({args[0]} {_INFIX[op]} {args[1]})"
        name = op if isinstance(op, str) else f"call{id(symbol)}"
        self.env.setdefault(name, getattr(np, op) if isinstance(op, str) else op)
        return f"{name}({', '.join(args)})"


def mapped(record: Any, function: Callable[[Any], Any]) -> Any:
    """A tree of dataclasses, mappings and tuples, with the function's result for each leaf."""
    kind = type(record)
    if kind in (float, int, bool, Leaf, np.ndarray):
        return function(record)
    if kind is tuple or kind is list:
        return tuple([mapped(each, function) for each in record])
    if kind is dict:
        return {name: mapped(each, function) for name, each in record.items()}
    if is_dataclass(kind):
        return kind(*[mapped(getattr(record, name), function) for name in kind.__dataclass_fields__])
    return function(record)
