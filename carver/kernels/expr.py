"""The expression language of kernel declarations: arithmetic over columns.

It is the arithmetic part of Python: ``+ - * // % **``, comparisons, ``and or not``, ``a if c else b``,
``min max ceil(a, b) pow2(x) log2(x)``. Names are columns or scalars; ``arch.x`` is a number of the device. Nothing else
parses, and the length, depth and numbers of an expression are limited. So a declaration from an untrusted source can
only compute numbers. What a compiler decides is said in the same language, with division and lines that name parts.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from functools import cache, lru_cache, reduce
from inspect import get_annotations
from typing import Any, TypeAlias

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
_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Pow: operator.pow, ast.USub: operator.neg, ast.UAdd: operator.pos,
    ast.Not: np.logical_not, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


def pow2(x: Any) -> Any:
    """The smallest power of two that is at least x; 1 for x below 1."""
    return 1 << np.ceil(np.log2(np.maximum(x, 1))).astype(np.int64)


def _all(*values: Any) -> Any:
    return reduce(np.logical_and, values)


def _any(*values: Any) -> Any:
    return reduce(np.logical_or, values)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": lambda *a: reduce(np.minimum, a),
    "max": lambda *a: reduce(np.maximum, a),
    "ceil": lambda a, b: -(-a // b),
    "pow2": pow2,
    "log2": lambda x: np.log2(np.maximum(x, 1)),
}
Value: TypeAlias = Callable[[dict[str, Any]], Any]
"""What computes a value from those of the names that it reads."""


class Expression(Record):
    """A parsed expression; call it with the values of its names."""

    text: str
    names: frozenset[str]
    value: Value = field(compare=False, repr=False)

    def __call__(self, scope: Mapping[str, Any]) -> Any:
        """The value of the expression. Raises KernelError for names that the scope lacks, and for arithmetic errors."""
        try:
            value = self.value({name: scope[name] for name in self.names})
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
    names = set[str]()
    try:
        value = _value(tree.body, names, _OPERATORS, {})
    except _Forbidden as why:
        raise KernelError(f"expression {text!r}: {why}") from None
    return Expression(text, frozenset(names), value)


@lru_cache(maxsize=1024)
def steps(label: str, text: str, known: tuple[tuple[str, int], ...]) -> Expression:
    """The last line of a text, before which lines such as `wide = 16 // out_bytes` each name a part of it. Parts are
    computed where they are read. `known`: numbers that have a name; `label` is what errors call it."""
    *lines, last = ast.parse(text).body
    trees = {line.targets[0].id: line.value for line in lines} | {"": last.value}  # type: ignore[attr-defined]
    parts: dict[str, Value] = {name: _constant(number) for name, number in known} | dict.fromkeys(trees, _constant(0))
    names, allowed = set[str](), {**_OPERATORS, ast.Div: operator.truediv}
    for name, tree in trees.items():
        parts[name] = _value(tree, names, allowed, parts)
    return Expression(label, frozenset(names), parts[""])


class _Forbidden(Exception):
    """Why a tree is outside of the language."""


def _constant(number: Any) -> Value:
    return lambda _: number


def _called(function: Callable[..., Any], *args: Value) -> Value:
    """A function's result for these values."""
    if len(args) == 2:
        first, second = args
        return lambda known: function(first(known), second(known))
    return lambda known: function(*[arg(known) for arg in args])


def _part(name: str, parts: Mapping[str, Value]) -> Value:
    def value(known: dict[str, Any]) -> Any:
        if name not in known:
            known[name] = parts[name](known)
        return known[name]

    return value


def _chosen(test: Value, yes: Value, no: Value) -> Value:
    """One side alone where a number decides."""

    def value(known: dict[str, Any]) -> Any:
        found = test(known)
        if np.ndim(found):
            return np.where(found, yes(known), no(known))
        return yes(known) if found else no(known)

    return value


def _value(
    node: Any, names: set[str], allowed: Mapping[type, Callable[..., Any]], parts: Mapping[str, Value], depth: int = 1
) -> Value:
    """What computes a tree: element by element, where Python's short-circuit forms work on one truth value. Adds the
    names that it reads, but for those of parts, to `names`. Raises _Forbidden."""

    def inner(one: Any) -> Value:
        return _value(one, names, allowed, parts, depth + 1)

    def operation(op: Any) -> Callable[..., Any]:
        if type(op) not in allowed:
            raise _refused(op)
        return allowed[type(op)]

    kind = type(node)
    if depth > MAX_DEPTH:
        raise _Forbidden(f"more than {MAX_DEPTH} operations within each other")
    if kind is ast.Name:
        if node.id.startswith("_"):
            raise _Forbidden(f"name {node.id!r} is not allowed")
        if node.id in parts:
            return _part(node.id, parts)
        names.add(node.id)
        return operator.itemgetter(node.id)
    if kind is ast.Constant and isinstance(node.value, int | float):
        if not abs(node.value) <= MAX_INTEGER:
            raise _Forbidden("a number is at most 2^53")
        return _constant(node.value)
    if kind is ast.BinOp:
        function, power = operation(node.op), node.right if type(node.op) is ast.Pow else None
        small = isinstance(power, ast.Constant) and isinstance(power.value, int | float)
        if power and not (small and 0 <= power.value <= MAX_POWER):
            raise _Forbidden(f"a power is a number from 0 to {MAX_POWER}")
        return _called(function, inner(node.left), inner(node.right))
    if kind is ast.Attribute and type(node.value) is ast.Name and node.value.id == "arch" and node.attr[0] != "_":
        if node.attr not in device_fields():
            raise _Forbidden(f"a device has no number {node.attr!r}; {nearest(node.attr, device_fields())}")
        names.add("arch")
        return _called(operator.attrgetter(node.attr), operator.itemgetter("arch"))
    if kind is ast.Compare:
        ends = [inner(end) for end in (node.left, *node.comparators)]
        pairs = [_called(operation(op), left, right) for left, op, right in zip(ends, node.ops, ends[1:], strict=False)]
        return pairs[0] if len(pairs) == 1 else _called(_all, *pairs)
    if kind is ast.BoolOp:
        return _called(_all if type(node.op) is ast.And else _any, *map(inner, node.values))
    if kind is ast.UnaryOp:
        return _called(operation(node.op), inner(node.operand))
    if kind is ast.IfExp:
        return _chosen(inner(node.test), inner(node.body), inner(node.orelse))
    if kind is ast.Call and type(node.func) is ast.Name and node.func.id not in FUNCTIONS:
        has = ", ".join(FUNCTIONS)
        raise _Forbidden(f"there is no function {node.func.id!r}, only {has}; ceil(a, b) is a / b rounded up")
    if kind is ast.Call and type(node.func) is ast.Name and node.args and not node.keywords:
        name, count = node.func.id, len(node.args)
        if FUNCTIONS[name] not in (0, count):
            wanted = f"{FUNCTIONS[name]} value{'s' if FUNCTIONS[name] > 1 else ''}"
            raise _Forbidden(f"{name} takes {wanted}, got {count}")
        return _called(_FUNCTIONS[name], *map(inner, node.args))
    raise _refused(node)


def _refused(node: ast.AST) -> _Forbidden:
    return _Forbidden(
        f"{type(node).__name__} is not allowed; use integers, names, arch.<field>, "
        f"+ - * // % comparisons and/or/not, 'a if c else b' and {', '.join(FUNCTIONS)}"
    )
