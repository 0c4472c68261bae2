"""Formulas that run once with symbols for a problem's sizes, and the straight NumPy code of what they did with them.

What needs numbers or columns alone is computed when formulas are traced, once for all sizes. In the code, what needs
sizes alone is computed once for each problem, and the rest for the rows of the table that are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from importlib import import_module
from itertools import accumulate, islice
from typing import Any, TypeAlias, cast

import numpy as np

from ..base.types import IntArray

loops: Any = None
"""The extension; None where it was not built, or with CARVER_PURE: then the same code runs in Python."""
if not os.environ.get("CARVER_PURE"):
    with suppress(ImportError):
        loops = import_module("._loops", __package__)

Operation: TypeAlias = str | Callable[..., Any]
"""NumPy's name of a function, or a function that is called as it is."""
_INFIX = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//", "remainder": "%", "power": "**",
    "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=",
}  # fmt: skip
_ALONE = {
    "minimum": "min({}, {})", "maximum": "max({}, {})", "where": "({1} if {0} else {2})", "logical_not": "(not {})",
    "logical_and": "({} and {})", "logical_or": "({} or {})",
}  # fmt: skip
"""Operations on numbers as Python has them, which takes a tenth of the time."""
_NEUTRAL = {"add": (0, True), "subtract": (0, False), "multiply": (1, True), "divide": (1, False)}
"""The number that changes nothing in an operation, and whether it may also stand first."""
_TRUTH, _WHOLE, _FLOAT = range(3)
_COMPARES = list(_INFIX)[-6:]
_LOGICAL = ["logical_and", "logical_or", "logical_not"]
_GIVES = {"divide": _FLOAT, "sqrt": _FLOAT, "log2": _FLOAT, "float64": _FLOAT, "int64": _WHOLE}
_GIVES |= dict.fromkeys((*_COMPARES, *_LOGICAL), _TRUTH)
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

    def size(self, name: str, like: float) -> Symbol:
        """A number of the problem that depends on its sizes; `like` one that it may be, which says its kind."""
        return self._symbol("size", (name, like), False)

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
        if op == "not_equal" and _kind(args[0]) == _TRUTH and _number(args[1]) == 0:
            return args[0]
        if isinstance(op, str) and op in _NEUTRAL:
            number, first_too = _NEUTRAL[op]
            for one, other in ((args[1], args[0]), *([args] if first_too else [])):
                same = _number(one) == number and isinstance(other, Symbol)
                if same and other.kind >= max(_kind(one), _WHOLE) and (op != "divide" or other.kind == _FLOAT):
                    return other
        if op in ("ceil", "floor") and _kind(args[0]) < _FLOAT:
            return args[0]
        if op == "power" and _number(args[1]) in (0.5, 2):  # as NumPy does for a number
            return self.made("sqrt", args[0]) if args[1] == 0.5 else self.made("multiply", args[0], args[0])
        per_row = any(symbol.per_row for symbol in symbols) or any(isinstance(arg, np.ndarray) for arg in args)
        return self._symbol(op, args, per_row)

    def chosen(self, condition: Any, yes: Any, no: Any) -> Any:
        """`np.where`: one side as it is, where a number decides."""
        told, yes, no = map(self.told, (condition, yes, no))
        if isinstance(told, Symbol | np.ndarray):
            told = told if _kind(told) == _TRUTH else self.made("not_equal", told, 0)
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
        self._leaves = [*leaves.values()]
        self._writer = _Writer(self._leaves, whole)
        self.sizes: list[str] = [symbol.args[0] for symbol in self._writer.sizes]
        self._alike = {at for at, each in enumerate(self._leaves) if isinstance(each, Symbol) and not each.per_row}
        """Results that are the same for all rows of a problem."""
        self._loops = None if loops is None else _Loops.of(self._writer)

    @cached_property
    def _python(self) -> tuple[Callable[..., list[Any]], list[np.ndarray]]:
        """The code in Python, and its columns, those of a row side by side."""
        columns = [] if self._writer.whole else self._writer.columns.values()
        return self._writer.compiled(), [np.stack(some, 1) for some in columns if some]

    @cached_property
    def _many(self) -> Callable[..., list[Any]]:
        """The same for sizes that are arrays."""
        return _Writer(self._leaves, self._writer.whole, many=True).compiled()

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for some in self._writer.columns.values() for column in some)

    def __call__(self, sizes: Mapping[str, float], rows: IntArray) -> list[Any]:
        """The leaves for these rows of the table."""
        if self._loops and (out := self._loops(sizes, rows)) is not None:
            return out
        return self._python[0]([sizes[name] for name in self.sizes], self._taken(rows))

    def _taken(self, rows: IntArray) -> list[np.ndarray]:
        return [np.ascontiguousarray(table.take(rows, 0).T) for table in self._python[1]]  # a row at once, by column

    def each(self, every: Sequence[Mapping[str, float]], rows: Sequence[IntArray]) -> Iterator[list[Any]]:
        """The same for several problems, at once where Python computes them."""
        if self._loops or len(every) == 1 or not self._writer.plain:
            yield from map(self, every, rows)
            return
        counts = [len(each) for each in rows]
        sizes = [np.repeat([each[name] for each in every], counts) for name in self.sizes]
        leaves = self._many(sizes, self._taken(np.concatenate(rows)))
        for start, count in zip(accumulate(counts, initial=0), counts, strict=False):
            yield [leaf[..., start : start + count] for leaf in leaves]

    def recorded(self, leaves: Sequence[Any], rows: int) -> Any:
        """What the formula returned, for these rows: arrays, or one number for all."""

        def of(value: Any) -> Any:
            if not isinstance(value, Leaf):
                return value
            found = leaves[value.at]
            return np.broadcast_to(found, (*np.shape(found)[:-1], rows)) if value.at in self._alike else found

        return mapped(self.results, of)

    def everywhere(self, every: Sequence[Mapping[str, float]]) -> list[Any]:
        """`of_all` of several problems, one below the other."""
        if len(every) > 1 and self._writer.plain:
            found = self._many([np.array([[sizes[name]] for sizes in every]) for name in self.sizes], [])
        else:
            found = [np.stack(some) for some in zip(*map(self.of_all, every), strict=True)]
        return [np.atleast_2d(each) for each in found]

    def of_all(self, sizes: Mapping[str, float]) -> list[Any]:
        """The leaves for all rows, by code that was written so."""
        if self._loops and (out := self._loops(sizes, None)) is not None:
            return out
        return [np.atleast_1d(each) for each in self._python[0]([sizes[name] for name in self.sizes], [])]


class _Writer:
    """Writes the code of the symbols that some leaves need. One that is needed once stands where it is needed."""

    def __init__(self, leaves: Sequence[Any], whole: bool, many: bool = False) -> None:
        self.leaves, self.many = leaves, many
        self.order: list[Symbol] = []
        self.uses: dict[int, int] = {}
        self.env: dict[str, Any] = {name: getattr(np, name) for name in ("inf", "nan", "float64", "int64")}
        self.env["stack"] = lambda *rows: np.array(np.broadcast_arrays(*rows))
        self.columns: dict[Any, list[np.ndarray]] = {np.float64: [], np.int64: [], np.bool_: []}
        self.names: dict[int, str] = {}
        self.whole = whole
        for each in leaves:
            self._walk(each)
        self.plain = all(isinstance(symbol.op, str) for symbol in self.order)
        """Whether no function is called that cannot be traced."""
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
        lines: list[str] = []
        for symbol in self.order:
            if id(symbol) not in self.names and (self.uses[id(symbol)] > 1 or id(symbol) in leaves):
                said = self._said(symbol)
                self.names[id(symbol)] = f"v{len(self.names)}"
                lines.append(f"{self.names[id(symbol)]} = {said}")
        given = {"sizes": [self.names[id(symbol)] for symbol in self.sizes]}
        for table, (kind, some) in enumerate((k, some) for k, some in self.columns.items() if some and not self.whole):
            given[f"taken[{table}]"] = [f"{np.dtype(kind).kind}{i}" for i in range(len(some))]
        body = [f"[{', '.join(names)}] = {values}" for values, names in given.items()] + lines
        body.append(f"return [{', '.join(map(self._text, self.leaves))}]")
        source = "def run(sizes, taken):\n" + "".join(f"    {line}\n" for line in body)
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
            return f"{args[0]}.astype({op})" if symbol.per_row or self.many else f"{op[:-2]}({args[0]})"
        if isinstance(op, str) and op in _INFIX:
            return f"({args[0]} {_INFIX[op]} {args[1]})"
        if not (symbol.per_row or self.many) and op in _ALONE:
            return _ALONE[op].format(*args)
        name = op if isinstance(op, str) else f"call{id(symbol)}"
        self.env.setdefault(name, getattr(np, op) if isinstance(op, str) else op)
        return f"{name}({', '.join(args)})"


_TYPES = (np.bool_, np.int64, np.float64)
_BLOCK = 512
"""Rows that the extension computes at once: then intermediate values stay in a core's cache."""


class _Loops:
    """The code of some leaves as a program of NumPy's inner loops, which the extension runs for one problem."""

    def __init__(self, writer: _Writer) -> None:
        self._whole = writer.whole
        self._arrays: list[np.ndarray] = [np.zeros(1, _TYPES[symbol.kind]) for symbol in writer.sizes]
        """Registers that hold sizes, then numbers and columns, then results."""
        self._n_sizes = len(writer.sizes)
        self._known: dict[Any, int] = {}
        self._columns: list[int] = []
        self._converted: dict[tuple[int, int], int] = {}
        self._steps: dict[bool, list[tuple[Any, ...]]] = {False: [], True: []}
        """By whether they are for rows: the loop, the registers that it reads, and the one that it writes."""
        parts = {id(symbol): [number] for number, symbol in enumerate(writer.sizes)}
        for symbol in writer.order:
            if symbol.op != "size":
                read = [parts.get(id(arg)) or [self._given(arg)] for arg in symbol.args]
                parts[id(symbol)] = self._parts(symbol, read)
        leaves = [parts.get(id(each)) or [self._given(each)] for each in writer.leaves]
        self._stacked = [len(each) for each in leaves]
        self._names = [symbol.args[0] for symbol in writer.sizes]
        self._compiled([number for each in leaves for number in each])

    @classmethod
    def of(cls, writer: _Writer) -> _Loops | None:
        """None where functions are called that are written in Python."""
        return cls(writer) if writer.plain else None

    def __call__(self, sizes: Mapping[str, Any], rows: IntArray | None) -> list[Any] | None:
        """The leaves; None where Python has to compute them, since NumPy may warn, or a size is of another kind."""
        found: list[Any] | None = self._run(tuple([sizes[name] for name in self._names]), rows)
        if found is None or len(found) == len(self._stacked):
            return found
        rest = iter(found)
        return [next(rest) if n == 1 else np.stack(list(islice(rest, n))) for n in self._stacked]

    def _given(self, value: Any) -> int:
        """The register of a number, or of a column."""
        key = id(value) if isinstance(value, np.ndarray) else (type(value), value)
        if key not in self._known:
            self._known[key] = len(self._arrays)
            if isinstance(value, np.ndarray):
                self._columns.append(len(self._arrays))
            self._arrays.append(value if isinstance(value, np.ndarray) else np.array([value], _TYPES[_kind(value)]))
        return self._known[key]

    def _parts(self, symbol: Symbol, read: list[list[int]]) -> list[int]:
        """Writes the steps of a symbol: the registers of its value, several if arrays are stacked in it."""
        op, kind, per_row = symbol.op, symbol.kind, symbol.per_row
        if op == "row":
            return [read[0][symbol.args[1]]]
        if op == "stack":
            return [self._cast(number, kind, per_row) for (number,) in read]
        alike = max(map(_kind, symbol.args)) if op in _COMPARES or op in _LOGICAL else kind
        out = []
        for part in range(symbol.high or 1):
            chosen = [each[part if len(each) > 1 else 0] for each in read]
            kinds = [_TRUTH if op == "where" and not place else alike for place in range(len(chosen))]
            cast = [self._cast(number, each, per_row) for number, each in zip(chosen, kinds, strict=True)]
            same = op in ("float64", "int64")
            loop = op if op == "where" else getattr(np, str(op), None)
            out.append(cast[0] if same else self._step(loop, cast, kind, per_row))
        return out

    def _cast(self, number: int, kind: int, per_row: bool) -> int:
        array = self._arrays[number]
        if array.dtype == _TYPES[kind]:
            return number
        if (number, kind) not in self._converted:
            cast = array.astype(_TYPES[kind])
            if number in self._known.values():
                made = self._given(cast if number in self._columns else cast.item())
            else:
                made = self._step("cast", [number], kind, per_row)
            self._converted[number, kind] = made
        return self._converted[number, kind]

    def _step(self, loop: Any, read: list[int], kind: int, per_row: bool) -> int:
        length = max(len(self._arrays[each]) for each in read) if self._whole else _BLOCK if per_row else 1
        self._arrays.append(np.broadcast_to(np.zeros((), _TYPES[kind]), length))  # replaced by one that is shared
        self._steps[per_row].append((loop, *read, len(self._arrays) - 1))
        return len(self._arrays) - 1

    def _compiled(self, leaves: list[int]) -> None:
        """Give results the places of others that are needed no more, and make the program."""
        steps = self._steps[False] + self._steps[True]
        last = {number: at for at, step in enumerate(steps) for number in step[1:]} | dict.fromkeys(leaves)
        columns = [number for number in self._columns if number in last and not self._whole]
        written, rows = {step[-1] for step in steps}, {step[-1] for step in self._steps[True]} | {*columns}
        arrays: list[np.ndarray] = []
        places: dict[int, int] = {}
        free: dict[tuple[Any, int], list[int]] = {}

        def place(number: int, array: np.ndarray) -> int:
            arrays.append(array)
            return places.setdefault(number, len(arrays) - 1)

        for number, array in enumerate(self._arrays):
            if number not in written:
                place(number, np.zeros(_BLOCK, array.dtype) if number in columns else array)
        for at, (_, *read, out) in enumerate(steps):
            for number in rows.intersection(read):
                if last[number] == at:
                    array = arrays[places[number]]
                    free.setdefault((array.dtype, len(array)), []).append(places[number])
            array = self._arrays[out]
            again = free.get((array.dtype, len(array))) if out in rows else None
            places[out] = again.pop() if again else place(out, np.zeros(len(array), array.dtype))
        placed = [(loop, *(places[number] for number in numbers)) for loop, *numbers in steps]
        once = len(steps if self._whole else self._steps[False])
        self._run = loops.Program(
            tuple(arrays), self._n_sizes, tuple(places[number] for number in columns),
            _cells([self._arrays[number] for number in columns]), tuple(placed[:once]), tuple(placed[once:]),
            tuple(places[number] for number in leaves), _BLOCK,
        ).run  # fmt: skip


def _cells(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Columns side by side, each value in 8 bytes as it is."""
    out = np.zeros((len(columns[0]) if columns else 0, len(columns)), np.int64)
    for number, column in enumerate(columns):
        out[:, number] = column.view(np.int64) if column.dtype == np.float64 else column
    return out


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
