"""Arithmetic over columns, as kernel declarations write it.

The language is the arithmetic part of Python: ``+ - * // % **``, comparisons, ``and or not``,
``a if c else b``, ``min max ceil(a, b) pow2(x) log2(x)``. Names are columns or scalars; ``arch.x`` is a
field of the device. Nothing else parses, so a declaration from elsewhere can compute and do no harm.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from types import CodeType
from typing import Any

import numpy as np

from ..base.errors import KernelError

_FUNCTIONS = ("min", "max", "ceil", "pow2", "log2")
_OPERATORS = (
    ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.Pow, ast.USub, ast.UAdd,
    ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Not, ast.And, ast.Or, ast.Load,
)  # fmt: skip


def pow2(x: Any) -> Any:
    """The least power of two that is not less; 1 for what is below."""
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
    "_where": lambda c, a, b: np.where(c, a, b) if isinstance(c, np.ndarray) else (a if c else b),
}


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression; call it with the values of its names."""

    text: str
    names: frozenset[str]
    code: CodeType

    def __call__(self, scope: Mapping[str, Any]) -> Any:
        return eval(self.code, _ENV, {name: scope[name] for name in self.names})


class _Vectorise(ast.NodeTransformer):
    """Python's short-circuit forms, which want one truth value, as element-wise calls."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        return _call("_and" if isinstance(node.op, ast.And) else "_or", *node.values)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _call("_not", node.operand) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        return _call("_where", node.test, node.body, node.orelse)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        left, pairs = node.left, []
        for op, right in zip(node.ops, node.comparators, strict=True):
            pairs.append(ast.Compare(left, [op], [right]))
            left = right
        return pairs[0] if len(pairs) == 1 else _call("_and", *pairs)


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


@lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """Parse one expression. Raises KernelError that shows what is not allowed in it."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as e:
        raise KernelError(f"expression {text!r} does not parse: {e.msg}") from None
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=f)) if f in _FUNCTIONS and not node.keywords:
                continue
            case ast.Name(id=name):
                if name.startswith("_"):
                    raise KernelError(f"expression {text!r}: name {name!r} is not allowed")
                if name not in _FUNCTIONS:
                    names.add(name)
            case ast.Attribute(value=ast.Name(id="arch"), attr=attr) if not attr.startswith("_"):
                continue
            case ast.Constant(value=int() | float()):
                continue
            case ast.Expression() | ast.BinOp() | ast.UnaryOp() | ast.BoolOp() | ast.Compare() | ast.IfExp():
                continue
            case _ if isinstance(node, _OPERATORS):
                continue
            case _:
                raise KernelError(
                    f"expression {text!r}: {type(node).__name__} is not allowed; use integers, names, arch.<field>, "
                    f"+ - * // % comparisons and/or/not, 'a if c else b' and {', '.join(_FUNCTIONS)}"
                )
    code = compile(ast.fix_missing_locations(_Vectorise().visit(tree)), text, "eval")
    return Expression(text, frozenset(names), code)
