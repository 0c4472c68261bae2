"""Formulas that run once with symbols for a problem's sizes, and the straight NumPy code of what they did with them.

What needs numbers or columns alone is computed when formulas are traced, once for all sizes. In the code, what needs
sizes alone is computed once for each problem, and the rest for the rows of the table that are asked for.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from functools import cached_property
from importlib import import_module
from itertools import accumulate, islice
from math import frexp
from operator import itemgetter
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from ..base.types import IntArray, Record

loops: Any = None
"""The extension; None where it was not built, or with CARVER_PURE: then the same code runs in Python."""
if not os.environ.get("CARVER_PURE"):
    with suppress(ImportError):
        loops = import_module("._loops", __package__)
    _source = Path(__file__).with_name("_loops.c")
    if loops is not None and _source.is_file() and getattr(loops, "source", None) != crc32(_source.read_bytes()):
        warnings.warn("the extension was built from an older _loops.c: pip install -e . builds it anew; until then "
                      "formulas run in Python", stacklevel=2)  # fmt: skip
        loops = None

_INFIX = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//", "remainder": "%", "power": "**",
    "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=",
}  # fmt: skip
_NEUTRAL = {"add": (0, True), "subtract": (0, False), "multiply": (1, True), "divide": (1, False)}
"""The number that changes nothing in an operation, and whether it may also stand first."""
_TRUTH, _WHOLE, _FLOAT = range(3)
_KINDS = {"b": _TRUTH, "f": _FLOAT, bool: _TRUTH, float: _FLOAT}
_COMPARES = list(_INFIX)[-6:]
_LOGICAL = ["logical_and", "logical_or", "logical_not"]
_GIVES = {"divide": _FLOAT, "sqrt": _FLOAT, "log2": _FLOAT, "float64": _FLOAT, "int64": _WHOLE}
_GIVES |= dict.fromkeys((*_COMPARES, *_LOGICAL), _TRUTH)
"""The kind of number that an operation returns; others return the widest of their arguments' kinds."""


class Symbol(np.lib.mixins.NDArrayOperatorsMixin):
    """A value that depends on sizes. It has no truth: a Python `if` on it is an error, and never takes one side."""

    __slots__ = ("args", "high", "kind", "op", "per_row", "trace")

    def __init__(self, trace: Trace, op: str, args: tuple[Any, ...], per_row: bool) -> None:
        self.trace, self.op, self.args, self.per_row = trace, op, args, per_row
        inner = (arg.high for arg in args if isinstance(arg, Symbol) and op != "row")
        self.high: int = len(args) if op == "stack" else max(inner, default=0)
        """Number of arrays that are stacked in it; 0 for one alone."""
        self.kind: int = _GIVES[op] if op in _GIVES else max(map(_kind, args[op == "where" :]))

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


_TRACED = (Symbol, np.ndarray)


def _kind(value: Any) -> int:
    if isinstance(value, Symbol):
        return value.kind
    return _KINDS.get(value.dtype.kind if isinstance(value, np.ndarray) else type(value), _WHOLE)


def _number(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) else None


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

    def made(self, op: str, *args: Any) -> Any:
        """The result of an operation. It is not recorded where a number decides it or changes nothing: values are
        finite, and nothing is divided by 0."""
        args = tuple(map(self.simplified, args))
        symbols = [arg for arg in args if isinstance(arg, Symbol)]
        if not symbols:
            return self.simplified(getattr(np, op)(*args))
        nothing = (op == "multiply" and 0 in map(_number, args)) or (op == "divide" and _number(args[0]) == 0)
        if nothing and not any(symbol.high for symbol in symbols):
            return 0.0
        if op in ("logical_and", "logical_or") and (truths := [arg for arg in args if isinstance(arg, bool)]):
            return truths[0] if truths[0] == (op == "logical_or") else symbols[0]
        if op == "not_equal" and _kind(args[0]) == _TRUTH and _number(args[1]) == 0:
            return args[0]
        asked = _number(args[1]) if op == "greater_equal" and symbols[0].op == "maximum" else None
        if asked is not None and any(n is not None and n >= asked for n in map(_number, symbols[0].args)):
            return True
        if op in _NEUTRAL:
            number, first_too = _NEUTRAL[op]
            for one, other in ((args[1], args[0]), *([args] if first_too else [])):
                same = _number(one) == number and isinstance(other, Symbol)
                if same and other.kind >= max(_kind(one), _WHOLE) and (op != "divide" or other.kind == _FLOAT):
                    return other
        if op in ("ceil", "floor") and _kind(args[0]) < _FLOAT:
            return args[0]
        if op == "divide" and abs(frexp(_number(args[1]) or 0.0)[0]) == 0.5:  # exactly the same
            return self.made("multiply", args[0], 1.0 / args[1])
        if op == "power" and _number(args[1]) in (0.5, 2):  # as NumPy does for a number
            return self.made("sqrt", args[0]) if args[1] == 0.5 else self.made("multiply", args[0], args[0])
        per_row = any(symbol.per_row for symbol in symbols) or any(isinstance(arg, np.ndarray) for arg in args)
        return self._symbol(op, args, per_row)

    def chosen(self, condition: Any, yes: Any, no: Any) -> Any:
        """`np.where`: one side as it is, where a number decides."""
        told, yes, no = map(self.simplified, (condition, yes, no))
        if isinstance(told, _TRACED):
            told = told if _kind(told) == _TRUTH else self.made("not_equal", told, 0)
            return yes if yes is no or _number(yes) == _number(no) is not None else self.made("where", told, yes, no)
        return yes if told else no

    def simplified(self, value: Any) -> Any:
        """`simple`, found once for each array."""
        if not isinstance(value, np.ndarray):
            return simple(value)
        if id(value) not in self._simple:
            self._simple[id(value)] = value, simple(value)
        return self._simple[id(value)][1]

    def _symbol(self, op: str, args: tuple[Any, ...], per_row: bool) -> Symbol:
        key = op, *(id(arg) if isinstance(arg, _TRACED) else (type(arg), arg) for arg in args)
        if key not in self._made:
            self._made[key] = Symbol(self, op, args, per_row)
        return self._made[key]


_TAKE = "take"
"""In place of a function: a column's values for the rows that are asked for."""


class Leaf(Record):
    """The place of a result among those that the code returns."""

    at: int


_TYPES = (np.bool_, np.int64, np.float64)
_BLOCK, _ROWS = 192, 2500
"""Rows that the extension computes at once, and Python, where each operation is a call: then intermediate values stay
in a core's cache."""


class Code:
    """A traced formula as steps over registers: first those of a problem, then those of its rows.

    The extension runs them by NumPy's inner loops. Without it, and where NumPy may warn, Python runs the same steps.
    `results` is what the formula returned, with a `Leaf` for all that is not a number. With `whole` it computes all
    rows that its columns have, which may differ in number.
    """

    def __init__(self, trace: Trace, results: Any, whole: bool = False) -> None:
        leaves: dict[int, Any] = {}

        def leaf(value: Any) -> Any:
            value = trace.simplified(value)
            if not isinstance(value, _TRACED):
                return value
            leaves.setdefault(id(value), value)
            return Leaf(list(leaves).index(id(value)))

        self.results = mapped(results, leaf)
        self.sizes: dict[str, int] = {}
        """Names of sizes, and their registers."""
        self._whole = whole
        self._registers: list[Any] = []
        """Numbers and columns; and for those that are written an array that has the type and the length."""
        self._found: dict[Any, list[int]] = {}
        """The registers of each value, several if arrays are stacked in it."""
        self._columns: list[int] = []
        self._steps: dict[bool, list[tuple[Any, ...]]] = {False: [], True: []}
        """By whether they are for rows: the function, the registers that it reads, and the one that it writes."""
        self._leaves = [self._of(each) for each in leaves.values()]
        self._placed = self._place()
        self._program = self._compiled() if loops is not None else None
        self._found.clear()
        names = [*self.sizes]
        self._asked = itemgetter(*names) if len(names) > 1 else lambda sizes: tuple([sizes[name] for name in names])

    @property
    def lengths(self) -> list[int]:
        """Of each leaf, the number of its entries for one problem, where all rows are computed."""
        return [np.size(self._registers[number]) for number, *_ in self._leaves]

    def prepared(self, sizes: Mapping[str, float]) -> tuple[Any, tuple[float, ...]] | None:
        """What the extension runs, and the sizes that it reads; None where Python runs the code."""
        return (self._program, self._asked(sizes)) if self._program else None

    def __call__(self, sizes: Mapping[str, float], rows: IntArray | None) -> list[np.ndarray]:
        """The leaves for these rows of the table; for all, by code that was written so."""
        return self._run(self._asked(sizes), rows)

    def each(self, every: Sequence[Mapping[str, float]], rows: Sequence[IntArray]) -> Iterator[list[np.ndarray]]:
        """The same for several problems, at once where Python computes them."""
        if self._program or len(every) == 1:
            yield from map(self, every, rows)
            return
        counts = [len(each) for each in rows]
        sizes = [np.repeat([each[name] for each in every], counts) for name in self.sizes]
        leaves = self._run(sizes, np.concatenate(rows))
        for start, count in zip(accumulate(counts, initial=0), counts, strict=False):
            yield [leaf[..., start : start + count] for leaf in leaves]

    def everywhere(self, every: Sequence[Mapping[str, float]]) -> Iterator[Sequence[np.ndarray]]:
        """The leaves for all rows of each problem."""
        if len(every) == 1:
            return (self(sizes, None) for sizes in every)
        found = self._run([np.array([[sizes[name]] for sizes in every]) for name in self.sizes], None)
        leaves = [np.broadcast_to(leaf, (len(every), leaf.shape[-1])) for leaf in found]
        return ([leaf[place] for leaf in leaves] for place in range(len(every)))

    def recorded(self, leaves: Sequence[np.ndarray]) -> Any:
        """What the formula returned, with these leaves."""
        return mapped(self.results, lambda value: leaves[value.at] if isinstance(value, Leaf) else value)

    def _run(self, sizes: Sequence[Any], rows: IntArray | None) -> list[np.ndarray]:
        found: Any = self._program.run(tuple(sizes), rows) if self._program else None
        if found is None:
            found = self._in_python(sizes, rows)
        if len(found) == len(self._leaves):
            return list(found)
        rest = iter(found)
        return [next(rest) if len(each) == 1 else np.stack(list(islice(rest, len(each)))) for each in self._leaves]

    def _in_python(self, sizes: Sequence[Any], rows: IntArray | None) -> list[np.ndarray]:
        if rows is not None and len(rows) > _ROWS:
            parts = [slice(start, start + _ROWS) for start in range(0, len(rows), _ROWS)]
            some = [self._in_python([n[part] if np.ndim(n) else n for n in sizes], rows[part]) for part in parts]
            return [np.concatenate(values) for values in zip(*some, strict=True)]
        run, tables = self._python
        found = run(sizes, [] if rows is None else [np.ascontiguousarray(table.take(rows, 0).T) for table in tables])
        for at, value in enumerate(found):
            if not (shape := np.shape(value)) or (rows is not None and shape != rows.shape):
                found[at] = np.broadcast_to(value, 1 if rows is None else rows.shape)
        return found

    def _of(self, value: Any) -> list[int]:
        key = id(value) if isinstance(value, Symbol) else (type(value), value)
        if isinstance(value, np.ndarray):
            key = value.dtype.str, value.tobytes()  # columns that are equal are one
        if key not in self._found:
            self._found[key] = self._written(value) if isinstance(value, Symbol) else [self._register(value)]
            if isinstance(value, np.ndarray):
                self._columns += self._found[key]
        return self._found[key]

    def _register(self, value: Any) -> int:
        self._registers.append(value)
        return len(self._registers) - 1

    def _written(self, symbol: Symbol) -> list[int]:
        """Writes the steps of a symbol."""
        op, kind, per_row = symbol.op, symbol.kind, symbol.per_row
        if op == "size":
            self.sizes[symbol.args[0]] = number = self._register(np.zeros(1, _TYPES[kind]))
            return [number]
        if op == "row":
            return [self._of(symbol.args[0])[symbol.args[1]]]
        read = [self._of(arg) for arg in symbol.args]
        if op in ("stack", "float64", "int64"):
            return [self._cast(number, kind) for (number,) in read]
        alike, out = max(map(_kind, symbol.args)) if op in _COMPARES or op in _LOGICAL else kind, []
        for part in range(symbol.high or 1):
            chosen = [each[part if len(each) > 1 else 0] for each in read]
            kinds = [_TRUTH if op == "where" and not place else alike for place in range(len(chosen))]
            cast = [self._cast(number, each) for number, each in zip(chosen, kinds, strict=True)]
            out.append(self._step(getattr(np, op), cast, kind, per_row))
        return out

    def _cast(self, number: int, kind: int) -> int:
        value, to, key = self._registers[number], _TYPES[kind], ("cast", number, kind)
        if _kind(value) == kind:
            return number
        if key not in self._found and number in self._columns:
            self._found[key] = self._of(value.astype(to))
        elif key not in self._found:
            is_number, by_row = not isinstance(value, np.ndarray), any(number == step[-1] for step in self._steps[True])
            self._found[key] = self._of(to(value).item()) if is_number else [self._step(to, [number], kind, by_row)]
        return self._found[key][0]

    def _step(self, function: Any, read: list[int], kind: int, per_row: bool) -> int:
        length = max(np.size(self._registers[each]) for each in read) if self._whole else _BLOCK if per_row else 1
        out = self._register(np.zeros(length, _TYPES[kind]))  # stands for the result until that has a place
        self._steps[per_row].append((function, *read, out))
        return out

    def _place(self) -> tuple[list[Any], list[tuple[Any, ...]], list[int]]:
        """The registers, of which sizes come first and results have the places of others that are needed no more; the
        steps, in which a column is taken where it is first read; and the registers that are leaves."""
        leaves = [number for each in self._leaves for number in each]
        columns = dict.fromkeys(() if self._whole else self._columns)
        left, steps = {*columns}, list[tuple[Any, ...]]()
        for step in (*self._steps[False], *self._steps[True], (None, *leaves)):
            new = [number for number in dict.fromkeys(step[1:]) if number in left]
            steps += [*((_TAKE, number) for number in new), step]
            left.difference_update(new)
        del steps[-1]
        self._columns = [step[-1] for step in steps if step[0] is _TAKE]
        last = {number: at for at, step in enumerate(steps) for number in step[1:]} | dict.fromkeys(leaves)
        written, rows = {step[-1] for step in steps}, {step[-1] for step in steps[len(self._steps[False]) :]}
        given = [number for number in range(len(self._registers)) if number not in written and number not in columns]
        order = dict.fromkeys([*self.sizes.values(), *given])
        places = {number: place for place, number in enumerate(order)}
        registers = [self._registers[number] for number in order]
        free: dict[tuple[Any, int], list[int]] = {}
        for at, (function, *read, out) in enumerate(steps):
            for number in rows.intersection(read):
                if last[number] == at:
                    array = registers[places[number]]
                    free.setdefault((array.dtype, len(array)), []).append(places[number])
            array = self._registers[out]
            length = _BLOCK if function is _TAKE else len(array)
            again = free.get((array.dtype, length)) if out in rows else None
            if not again:
                registers.append(np.zeros(length, array.dtype))
            places[out] = again.pop() if again else len(registers) - 1
        taken = {number: place for place, number in enumerate(self._columns)}
        placed = [
            (function, *([taken[out]] if function is _TAKE else [places[number] for number in read]), places[out])
            for function, *read, out in steps
        ]
        return registers, placed, [places[number] for number in leaves]

    def _compiled(self) -> Any:
        registers, steps, leaves = self._placed
        arrays = [v if isinstance(v, np.ndarray) else np.array([v], _TYPES[_kind(v)]) for v in registers]
        named = [("where" if f is np.where else "cast" if f in _TYPES else f, *numbers) for f, *numbers in steps]
        once = len(steps if self._whole else self._steps[False])
        columns = tuple(np.ascontiguousarray(self._registers[number]) for number in self._columns)
        return loops.Program(
            tuple(arrays), len(self.sizes), columns, tuple(named[:once]), tuple(named[once:]), tuple(leaves), _BLOCK,
        )  # fmt: skip

    @cached_property
    def _python(self) -> tuple[Callable[..., list[Any]], list[np.ndarray]]:
        """The steps as a function in Python, and its columns, those of a row side by side."""
        registers, steps, leaves = self._placed
        once = len(self._steps[False])
        read = {place for function, *places in steps[once:] if function is not _TAKE for place in places}
        # NumPy takes an array of one number in two thirds of the time that it takes a number of Python
        numbers = read.intersection((*range(len(self.sizes)), *(out for *_, out in steps[:once])))
        env: dict[str, Any] = {f"r{at}": np.asarray(v) if at in read else v for at, v in enumerate(registers)}
        env |= {"asarray": np.asarray, "putmask": np.putmask}
        kinds: dict[Any, dict[int, np.ndarray]] = {}
        for place, number in enumerate(self._columns):
            kinds.setdefault(self._registers[number].dtype, {})[place] = self._registers[number]
        given = {"sizes": [f"r{at}" for at in range(len(self.sizes))]}
        given |= {f"taken[{at}]": [f"c{place}" for place in some] for at, some in enumerate(kinds.values())}
        lines = [f"[{', '.join(names)}] = {what}" for what, names in given.items()]
        taken, written = set[int](), set[int]()  # of an entry for each row; the second are written over, once read
        for at, (function, *places) in enumerate(steps):
            if function is _TAKE:
                lines.append(f"r{places[1]} = c{places[0]}")
                taken.add(places[1])
                written.discard(places[1])
                continue
            if at == once:
                lines += [f"r{place} = asarray(r{place})" for place in sorted(numbers)]
            *args, out = (f"r{place}" for place in places)
            infix = _INFIX.get(getattr(function, "__name__", "")) if at < once else None
            if infix:
                lines.append(f"{out} = {args[0]} {infix} {args[1]}")
            elif function is np.where and places[-1] in written and out in args[1:] and places[0] in taken | written:
                other, mask = (args[1], args[0]) if out == args[2] else (args[2], "~" + args[0])
                lines.append(f"putmask({out}, {mask}, {other})")
            else:
                if isinstance(function, np.ufunc) and places[-1] in written:
                    args.append(f"out={out}" if function in (np.maximum, np.minimum) else out)
                call = f"f{id(function)}" if function not in _TYPES or at < once else f"{args.pop(0)}.astype"
                env[f"f{id(function)}"] = function
                lines.append(f"{out} = {call}({', '.join(args or [f'f{id(function)}'])})")
            (written.discard if (taken | written).isdisjoint(places[:-1]) else written.add)(places[-1])
            taken.discard(places[-1])
        lines.append(f"return [{', '.join(f'r{place}' for place in leaves)}]")
        exec("def run(sizes, taken):\n" + "".join(f"    {line}\n" for line in lines), env)
        return env["run"], [np.stack([*some.values()], 1) for some in kinds.values()]


_ENDS = frozenset((float, int, bool, Leaf, np.ndarray))


def mapped(record: Any, function: Callable[[Any], Any]) -> Any:
    """A tree of dataclasses, mappings and tuples, with the function's result for each leaf."""
    kind = type(record)
    if kind in _ENDS:
        return function(record)
    if kind is tuple or kind is list:
        return tuple([mapped(each, function) for each in record])
    if kind is dict:
        return {
            name: function(each) if type(each) in _ENDS else mapped(each, function) for name, each in record.items()
        }
    if is_dataclass(kind):
        return kind(*[mapped(getattr(record, name), function) for name in kind.__dataclass_fields__])
    return function(record)
