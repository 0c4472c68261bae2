"""The expression language of kernel declarations: arithmetic over columns.

It is the arithmetic part of Python: ``+ - * // % **``, comparisons, ``and or not``, ``a if c else b``,
``min max ceil(a, b) pow2(x) log2(x)``. Names are columns or scalars; ``arch.x`` is a number of the device. Nothing else
parses, and the length, depth and numbers of an expression are limited. So a declaration from an untrusted source can
only compute numbers. What a compiler decides is said in the same language, with division and lines that name parts.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from dataclasses import field, fields
from functools import cache, cached_property, lru_cache, reduce
from inspect import get_annotations
from types import CodeType
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import KernelError, nearest
from ..base.given import shown
from ..base.types import Record
from .trace import Symbol

MAX_LENGTH = 4096
"""Limit on the characters of an expression."""
MAX_DEPTH = 64
"""Limit on the nesting of operations."""
MAX_POWER = 4
MAX_INTEGER = 2**53
"""Largest number in an expression; floating point represents every integer up to it."""
MAX_VALUE = 2**63 - 1
"""Largest result: columns are int64."""

FUNCTIONS = {"min": 0, "max": 0, "ceil": 2, "pow2": 1, "log2": 1}
"""Number of arguments of each function; 0: any number."""
_OPERATORS = {
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.USub, ast.UAdd, ast.Not,
    ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE,
}  # fmt: skip


def pow2(x: Any) -> Any:
    """The smallest power of two that is at least x; 1 for x below 1."""
    return 1 << np.ceil(np.log2(np.maximum(x, 1))).astype(np.int64)


_ENV: dict[str, Any] = {
    "__builtins__": {},
    "min": lambda *a: reduce(np.minimum, a),
    "max": lambda *a: reduce(np.maximum, a),
    "ceil": lambda a, b: -(-a // b),
    "pow2": pow2,
    "log2": lambda x: np.log2(np.maximum(x, 1)),
    "_and": lambda *a: reduce(np.logical_and, a),
    "_or": lambda *a: reduce(np.logical_or, a),
    "_not": np.logical_not,
    "_where": lambda c, a, b: np.where(c, a(), b()) if np.ndim(c) else (a() if c else b()),
}


class Expression(Record):
    """A parsed expression; call it with the values of its names."""

    text: str
    names: frozenset[str]
    tree: ast.expr = field(compare=False, repr=False)
    parts: Mapping[str, ast.expr] = field(default_factory=dict, compare=False, repr=False)
    """What the tree, or another part, reads as `_part(name)`."""

    @cached_property
    def _codes(self) -> dict[str, CodeType]:
        """Those compiled so far, when they are first read: a query evaluates half of what declarations say."""
        return {}

    def _code(self, name: str) -> CodeType:
        """Of a part, or, without a name, of the expression."""
        if name not in self._codes:
            tree = ast.Expression(self.parts[name] if name else self.tree)
            self._codes[name] = compile(tree, self.text, "eval")
        return self._codes[name]

    def __call__(self, scope: Mapping[str, Any]) -> Any:
        """The value of the expression. Raises KernelError for names that the scope lacks, and for arithmetic errors."""
        try:
            known = _ENV | {name: scope[name] for name in self.names}
            if self.parts:
                known["_part"] = cache(lambda name: eval(self._code(name), known))
            value = eval(self._code(""), known)
        except KeyError as error:
            raise KernelError(f"{self.text!r} uses {error.args[0]!r}; {nearest(str(error.args[0]), scope)}") from None
        except (ArithmeticError, TypeError, ValueError) as error:
            raise KernelError(f"{self.text!r} cannot be computed: {error}") from None
        if isinstance(value, np.ndarray | np.generic | Symbol):
            return value
        if not isinstance(value, int | float) or not abs(value) <= MAX_VALUE:
            raise KernelError(f"{self.text!r} is no number of 64 bits")
        return value


_BOUNDS: dict[type[ast.cmpop], str] = {
    ast.LtE: "at most", ast.Lt: "below", ast.GtE: "at least", ast.Gt: "above", ast.Eq: "must be", ast.NotEq: "not",
}  # fmt: skip


def missed(rule: Expression, scope: Mapping[str, Any]) -> str:
    """By how much a rule is missed in a scope of numbers: "smem_bytes is 110,592, at most 101,376". Of alternatives,
    the first that does not ask the device alone; empty if there is no comparison."""
    return _missed(ast.parse(rule.text.strip(), mode="eval").body, scope)


def _missed(node: ast.expr, scope: Mapping[str, Any]) -> str:
    def value(part: ast.expr) -> Any:
        return _parse(ast.unparse(part))(scope)

    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return next((_missed(part, scope) for part in node.values if not value(part)), "")
    if isinstance(node, ast.BoolOp):  # of alternatives, one that a configuration can meet
        tunable = (part for part in node.values if not ast.unparse(part).removeprefix("not ").startswith("arch."))
        return next(filter(None, (_missed(part, scope) for part in tunable)), "")
    if not isinstance(node, ast.Compare):
        return ""
    ends = [node.left, *node.comparators]
    for left, op, right in zip(ends, node.ops, ends[1:], strict=False):
        if not value(ast.Compare(left, [op], [right])):
            turned = isinstance(op, ast.Eq) and isinstance(right, ast.Name)  # as in "pow2(x) == x"
            what, allowed = (right, left) if turned else (left, right)
            has, bound = (int(n) if float(n).is_integer() else n for n in map(value, (what, allowed)))
            return f"{ast.unparse(what)} is {has:,}, {_BOUNDS[type(op)]} {bound:,}"
    return ""


_PLACE: dict[str, Any] = {"lineno": 1, "col_offset": 0, "end_lineno": 1, "end_col_offset": 0}
"""Source positions that `compile` requires in every node."""
_NOTHING = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load(), **_PLACE), list(args), [], **_PLACE)


@cache
def device_fields() -> frozenset[str]:
    """The names that may follow `arch.`: the numbers of a descriptor."""
    kinds = {"int", "float", "bool"}
    stored = {f.name for f in fields(Arch) if f.type in kinds}
    getters = {name: value.fget for name, value in vars(Arch).items() if isinstance(value, property)}
    return frozenset(stored | {n for n, get in getters.items() if get and get_annotations(get)["return"] in kinds})


def parse(text: str) -> Expression:
    """Parse one expression. Raises a KernelError that shows what is not allowed in it."""
    if not isinstance(text, str):
        raise KernelError(f"an expression is a string, got {shown(text)}")
    return _parse(text)


@lru_cache(maxsize=4096)
def _parse(text: str) -> Expression:
    if len(text) > MAX_LENGTH:
        raise KernelError(f"an expression of {len(text)} characters, more than {MAX_LENGTH}: {text[:60]!r} ...")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as e:
        raise KernelError(f"expression {text!r} does not parse: {e.msg}") from None
    except (ValueError, MemoryError, RecursionError) as e:
        raise KernelError(f"expression {text!r} does not parse: {str(e) or 'it is too deep'}") from None
    names = _Names()
    try:
        if any(isinstance(node, ast.Div) for node in ast.walk(tree)):
            raise _refused(ast.Div())
        value = _vectorised(tree.body, names)
    except _Forbidden as why:
        raise KernelError(f"expression {text!r}: {why}") from None
    return Expression(text, frozenset(names), value)


@lru_cache(maxsize=1024)
def steps(label: str, text: str, known: tuple[tuple[str, int], ...]) -> Expression:
    """The last line of a text, before which lines such as `wide = 16 // out_bytes` each name a part of it. Parts are
    computed where they are read. `known`: numbers that have a name; `label` is what errors call it."""
    *lines, last = ast.parse(text).body
    parts: dict[str, Any] = {name: ast.Constant(number, **_PLACE) for name, number in known}
    parts |= {line.targets[0].id: line.value for line in lines}  # type: ignore[attr-defined]
    names = _Names(parts)
    trees = {name: _vectorised(tree, names) for name, tree in {**parts, "": last.value}.items()}  # type: ignore[attr-defined]
    return Expression(label, frozenset(names), trees.pop(""), trees)


class _Forbidden(Exception):
    """Why a tree is outside of the language."""


class _Names(set[str]):
    """The names that a tree reads besides those of its parts."""

    def __init__(self, parts: Collection[str] = ()) -> None:
        self.parts = parts


def _vectorised(node: Any, names: _Names, depth: int = 1) -> ast.expr:
    """The tree with element-wise calls for Python's short-circuit forms, which work on one truth value. Adds the names
    that it reads to `names`. Raises _Forbidden."""
    kind, deeper = type(node), depth + 1
    if depth > MAX_DEPTH:
        raise _Forbidden(f"more than {MAX_DEPTH} operations within each other")
    if kind is ast.Name:
        if node.id.startswith("_"):
            raise _Forbidden(f"name {node.id!r} is not allowed")
        if node.id in names.parts:
            return _call("_part", ast.Constant(node.id, **_PLACE))
        if node.id not in FUNCTIONS:
            names.add(node.id)
    elif kind is ast.Constant and isinstance(node.value, int | float):
        if not abs(node.value) <= MAX_INTEGER:
            raise _Forbidden("a number is at most 2^53")
    elif kind is ast.BinOp:
        power = node.right if type(_allowed(node.op)) is ast.Pow else None
        small = isinstance(power, ast.Constant) and isinstance(power.value, int | float)
        if power and not (small and 0 <= power.value <= MAX_POWER):
            raise _Forbidden(f"a power is a number from 0 to {MAX_POWER}")
        node.left, node.right = _vectorised(node.left, names, deeper), _vectorised(node.right, names, deeper)
    elif kind is ast.Attribute and type(node.value) is ast.Name and node.value.id == "arch" and node.attr[0] != "_":
        if node.attr not in device_fields():
            raise _Forbidden(f"a device has no number {node.attr!r}; {nearest(node.attr, device_fields())}")
        names.add("arch")
    elif kind is ast.Compare:
        ends = [_vectorised(end, names, deeper) for end in (node.left, *node.comparators)]
        pairs = [
            ast.Compare(left, [_allowed(op)], [right], **_PLACE)
            for left, op, right in zip(ends, node.ops, ends[1:], strict=False)
        ]
        return pairs[0] if len(pairs) == 1 else _call("_and", *pairs)
    elif kind is ast.BoolOp:
        values = [_vectorised(value, names, deeper) for value in node.values]
        return _call("_and" if type(node.op) is ast.And else "_or", *values)
    elif kind is ast.UnaryOp:
        node.operand = _vectorised(node.operand, names, deeper)
        return _call("_not", node.operand) if type(_allowed(node.op)) is ast.Not else node
    elif kind is ast.IfExp:
        sides = (ast.Lambda(_NOTHING, _vectorised(side, names, deeper), **_PLACE) for side in (node.body, node.orelse))
        return _call("_where", _vectorised(node.test, names, deeper), *sides)
    elif kind is ast.Call and type(node.func) is ast.Name and node.func.id not in FUNCTIONS:
        has = ", ".join(FUNCTIONS)
        raise _Forbidden(f"there is no function {node.func.id!r}, only {has}; ceil(a, b) is a / b rounded up")
    elif kind is ast.Call and type(node.func) is ast.Name and node.args and not node.keywords:
        name, count = node.func.id, len(node.args)
        if FUNCTIONS[name] not in (0, count):
            wanted = f"{FUNCTIONS[name]} value{'s' if FUNCTIONS[name] > 1 else ''}"
            raise _Forbidden(f"{name} takes {wanted}, got {count}")
        node.args = [_vectorised(each, names, deeper) for each in node.args]
    else:
        raise _refused(node)
    return node  # type: ignore[no-any-return]


def _allowed(op: Any) -> Any:
    if type(op) not in _OPERATORS:
        raise _refused(op)
    return op


def _refused(node: ast.AST) -> _Forbidden:
    return _Forbidden(
        f"{type(node).__name__} is not allowed; use integers, names, arch.<field>, "
        f"+ - * // % comparisons and/or/not, 'a if c else b' and {', '.join(FUNCTIONS)}"
    )
