"""What kernel declarations compute with: the expression language, the scalars that expressions read, and the
instructions of a device that fit a problem.

An expression is the arithmetic part of Python: ``+ - * // % **``, comparisons, ``and or not``, ``a if c else b``,
``min max ceil(a, b) pow2(x) log2(x)``. Names are columns or scalars; ``arch.x`` is a number of the device. Nothing else
parses, and the length, depth and numbers of an expression are limited. So a declaration from an untrusted source can
only compute numbers. What a compiler decides is said in the same language, with division and lines that name parts.

`static_scope` has the scalars that are the same for all sizes, `size_scope` those that depend on them; what each means
is in `templates/names.toml`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from functools import cache, lru_cache, reduce
from inspect import get_annotations
from itertools import takewhile
from math import gcd, prod
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from ..arch.descriptor import Arch, Matrix
from ..base.dtypes import BYTES, element_bytes
from ..base.errors import KernelError, nearest
from ..base.given import shown
from ..base.types import Record
from ..problem import notation
from ..problem.notation import Statement, Tensor, summed_row
from ..problem.problem import Problem
from .trace import Symbol

MAX_LENGTH = 4096
"""Limit on the characters of an expression."""
MAX_DEPTH = 64
"""Limit on the nesting of operations."""
MAX_POWER = 4
MAX_BITS = 1024
"""Of an integer on the way to a result, as many as those of the largest float."""
MAX_INTEGER = 2**53
"""Largest number in an expression; floating point represents every integer up to it."""
MAX_VALUE = 2**63 - 1
"""Largest result: columns are int64."""

FUNCTIONS = {"min": 0, "max": 0, "ceil": 2, "pow2": 1, "log2": 1}
"""Number of arguments of each function; 0: any number."""


def _times(a: Any, b: Any) -> Any:
    if type(a) is int and type(b) is int:
        _check_bits(a.bit_length() + b.bit_length())
    return a * b


def _power(a: Any, b: Any) -> Any:
    if type(a) is int and type(b) is int:
        _check_bits(a.bit_length() * b)
    return a**b


def _check_bits(bits: int) -> None:
    if bits > MAX_BITS:
        raise OverflowError(f"a number of more than {MAX_BITS} bits")


_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: _times, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Pow: _power, ast.USub: operator.neg, ast.UAdd: operator.pos,
    ast.Not: np.logical_not, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


def pow2(x: Any) -> Any:
    """The smallest power of two that is at least x; 1 for x below 1."""
    return 1 << np.ceil(np.log2(np.maximum(x, 1))).astype(np.int64)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "and": lambda *a: reduce(np.logical_and, a),
    "or": lambda *a: reduce(np.logical_or, a),
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

    @property
    def is_condition(self) -> bool:
        node = ast.parse(self.text.strip(), mode="eval").body
        return isinstance(node, ast.Compare | ast.BoolOp) or isinstance(getattr(node, "op", None), ast.Not)

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
            of_itself = turned and isinstance(left, ast.Call)  # a power of two: which one is the reader's choice
            return f"{ast.unparse(what)} is {has:,}" + ("" if of_itself else f", {_BOUNDS[type(op)]} {bound:,}")
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
        return pairs[0] if len(pairs) == 1 else _called(_FUNCTIONS["and"], *pairs)
    if kind is ast.BoolOp:
        return _called(_FUNCTIONS["and" if type(node.op) is ast.And else "or"], *map(inner, node.values))
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


VECTOR, MMA, WGMMA, TCGEN05 = range(4)
"""Values of the column `instruction`: what multiplies a tile."""


def roles(problem: Problem) -> dict[str, int]:
    """Sizes of a statement by role: the product of the extents of all axes with the same role.

    In a contraction, `b` axes are in the output and both inputs, `m` axes in the output and the first input, `n` axes
    in the output and the second input, and `k` axes are reduced. So an implicit GEMM sees any statement of two
    operands. Any other statement is a matrix of `r` rows and `c` columns as stored in memory: the output, or the input
    of a reduction, of which there are `b` where axes lie before those that are reduced.
    """
    sizes = problem.sizes
    return {
        role: sizes[axes[0]] if len(axes) == 1 else prod([sizes[axis] for axis in axes])
        for role, axes in _role_axes(problem.computes)
    }


@lru_cache(maxsize=256)
def _role_axes(computes: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    s = notation.parse(computes)
    if s.contracts:
        first, second = set(s.inputs[0].axes), {axis for t in s.inputs[1:] for axis in t.axes}
        group = {"b": first & second & set(s.spatial), "k": set(s.reduced)}
        group["m"] = (set(s.spatial) & first) - group["b"]
        group["n"] = set(s.spatial) - group["b"] - group["m"]
    elif not s.reduced:
        last = set(s.output.axes[-1:])
        group = {"r": set(s.axes) - last, "c": last}
    else:
        along = s.inputs[0].index[-1][-1][0] in s.reduced
        outer = {*takewhile(lambda axis: axis in s.spatial and not along, s.inputs[0].axes)}
        kept, summed = set(s.spatial) - outer, set(s.reduced)
        group = {"b": outer, "r": kept, "c": summed} if along else {"b": outer, "r": summed, "c": kept}
    return tuple((role, tuple(sorted(axes))) for role, axes in group.items())


def reduces_rows(problem: Problem) -> bool:
    """Whether the contiguous axis of the first input is reduced."""
    return problem.statement.inputs[0].index[-1][-1][0] in problem.statement.reduced


def plain(problem: Problem) -> bool:
    """Whether the statement has the operator's own form, so that a kernel's arguments fit its tensors.

    If nothing is reduced, each operand must have all axes, the outer or the inner one. Those of a contraction must have
    the names and axes in `op.toml`; axes may be missing (the batch), and trans_a (trans_b) swaps the last two of A (B).
    A convolution is not plain: the model prices it as a matmul, but carver's matmul kernels cannot read its input.
    """
    s, declared = problem.statement, notation.parse(problem.operator_file.computes)
    if not s.reduced:
        out, named = declared.output.index, all(t.name == f"X{i}" for i, t in enumerate(s.inputs))
        return named and s.output.index == out and all(t.index in (out, out[:1], out[1:]) for t in s.inputs)
    if len(s.tensors) != len(declared.tensors):
        return False
    return not problem.contracts or all(
        _spelt_as(tensor, wanted, problem) for tensor, wanted in zip(s.tensors, declared.tensors, strict=True)
    )


def _spelt_as(tensor: Tensor, wanted: Tensor, problem: Problem) -> bool:
    axes = tuple(axis for axis in wanted.axes if axis in problem.sizes)
    orders = {axes}
    if problem.options.get(f"trans_{wanted.name.lower()}"):
        orders.add((*axes[:-2], *axes[:-3:-1]))
    index = tuple(dim[0][0] if len(dim) == 1 and dim[0][1] == 1 else "" for dim in tensor.index)
    return tensor.name == wanted.name and (index in orders or tensor.index == wanted.index)


def static_scope(problem: Problem, arch: Arch) -> Mapping[str, Any]:
    """The scalars that a declaration's expressions may read, without sizes."""
    return _static_scope(problem.sizeless, arch)


@lru_cache(maxsize=256)
def _static_scope(problem: Problem, arch: Arch) -> Mapping[str, Any]:
    s = problem.statement
    scope: dict[str, Any] = {"arch": arch}
    # declarations use the tensor names of `op.toml`, whatever names the user's own statement has
    declared = notation.parse(problem.operator_file.computes).tensors
    named = {tensor.name: tensor for tensor in s.tensors} | {"out": s.output}
    named |= {ours.name: theirs for ours, theirs in zip(declared, s.tensors, strict=False)}
    for name, tensor in named.items():
        itemsize, row_bytes = problem.itemsize(tensor.name), problem.align_bytes[tensor.name]
        scope[f"{name.lower()}_bytes"] = itemsize
        scope[f"row_align_{name.lower()}"] = row_bytes
        scope[f"align_{name.lower()}"] = min(16, row_bytes)  # no copy is wider
        scope[f"by_16_{name.lower()}"] = int(row_bytes >= 16 * itemsize)  # all that Triton checks of a stride
    scope["in_bytes"] = problem.itemsize(s.inputs[0].name)
    scope["acc_bytes"] = BYTES[problem.accumulate]
    multiplied = multiply_dtype(problem)
    unit = matrix_unit(problem, arch) if len(s.inputs) > 1 else None
    scope["matrix"] = int(unit is not None)
    for instruction in ("mma", "wgmma", "tcgen05"):
        scope[instruction] = int(unit is not None and unit.instruction == instruction)
    by_warps = warp_matrix_unit(problem, arch) if unit else None
    rows, columns, depth = by_warps.shape if by_warps else (1, 1, 1)
    # CDNA's instruction of 32 x 32 also exists as 16 x 16 at the same rate
    scope["mma_m"], scope["mma_n"], scope["mma_k"] = min(16, rows), min(16, columns), depth
    scope["matrix_widens"] = int(unit is not None and unit.dtype != multiplied)
    scope["mma_widens"] = int(by_warps is not None and by_warps.dtype != multiplied)
    types = [problem.dtypes[tensor.name] for tensor in s.inputs]
    scope["amd_float8"] = int(any(problem.dtypes[tensor.name].endswith("fnuz") for tensor in s.tensors))
    scope["tf32"] = int("tf32" in problem.dtypes.values())
    scope["e4m3"] = int("float8_e4m3" in problem.dtypes.values())
    scope["widen_instr"] = widen_instr(multiplied, by_warps)
    scope["dots"] = int(arch.vendor == "amd" and arch.isa not in WITHOUT_DOTS and multiplied in ("float16", "int8"))
    scope["one_type"] = int(len(set(types)) == 1)
    for name, tensor, dtype in zip("ab", s.inputs, types, strict=False):
        scope[f"{name}_k_last"] = int(bool(tensor.index) and all(axis in s.reduced for axis, _ in tensor.index[-1]))
        scope[f"{name}_converts"] = int(dtype != multiplied)
        scope[f"{name}_float8"] = int(dtype.startswith("float8"))
        scope[f"{name}_integer"] = int("int" in dtype)
        scope[f"{name}_unsigned"] = int(dtype.startswith("uint"))
    scope["plain"] = int(plain(problem))
    scope["inputs"] = scope["operands"] = len(s.inputs)
    scope["axis"] = int(reduces_rows(problem))
    scope["reduce_op"] = int(s.combine == "max=")
    scope["keeps_shape"] = 0
    scope["flops_per_element"] = problem.options.get("flops_per_element", 1)
    shared = ("trans_a", "trans_b", "bias", "activation", "static_shapes")
    scope |= dict.fromkeys((*shared, *problem.operator_file.options), 0) | dict(problem.options)
    return MappingProxyType(scope)


def size_scope(problem: Problem) -> Mapping[str, float]:
    """The scalars that depend on sizes: extents of axes by name and by role, and the operands' layout in memory."""
    kept = vars(problem)  # as cached properties are: the kernels of one problem ask for it in turn
    if "size_scope" not in kept:
        kept["size_scope"] = _size_scope(problem)
    found: Mapping[str, float] = kept["size_scope"]
    return found


def _size_scope(problem: Problem) -> dict[str, float]:
    s, sizes, elements = problem.statement, problem.sizes, problem.elements
    out, operands = s.output.name, dict[str, float]()
    most = elements[out]
    if not s.reduced:
        apart = [t for t in s.tensors if scattered(t, s)]
        strided = [t for t in apart if t in s.inputs and s.output.axes[-1] in dict(t.index[-1])]
        operands |= {
            "scattered": len(apart), "scattered_elements": sum(elements[t.name] for t in apart if t not in strided),
            "strided_elements": sum(elements[t.name] for t in strided),
            "strided_reach": sum(elements[t.name] * row_of(problem, t)[2] for t in strided),
        }  # fmt: skip
        walked = [t for t in s.inputs if any(sizes[axis] > 1 for axis in t.axes)]
        short = [t for t in walked if elements[t.name] < most]
        across = [t for t in short if s.output.axes[-1] in t.axes]
        operands |= {"repeated": len(short), "repeated_bytes": sum(most * problem.itemsize(t.name) for t in across)}
    role, widths = roles(problem), problem.sizeless.widths
    if s.contracts:
        for name, rows, tensor in zip("ab", (role["m"], role["n"]), s.inputs, strict=False):
            said = (*row_of(problem, tensor), problem.scale_bytes.get(tensor.name, 0.0))
            operands |= zip([f"{name}_{w}" for w in ("k_contiguous", "run", "gap", "scale_bytes")], said, strict=True)
            # distinct elements over rows x depth, which is below 1 if windows overlap
            operands[name + "_reuse"] = min(1.0, elements[tensor.name] / (role["b"] * rows * role["k"]))
        operands |= window(problem, s.inputs[0]) | {"out_gap": row_of(problem, s.output)[2]}
        operands["k_row"] = summed_row(s, sizes)
    traffic: dict[str, float] = {
        "elements": prod(sizes.values()),
        "read_bytes": sum([elements[t.name] * widths[t.name] for t in s.inputs]),
        "write_bytes": most * widths[out],
        "compulsory_bytes": problem.compulsory_bytes,
    }
    sized = {name: problem.options.get(name, 1) for name in problem.operator_file.sized}
    return {**sizes, **role, **traffic, **operands, **sized}


def scattered(tensor: Tensor, statement: Statement) -> bool:
    """Whether an element-wise statement reads this operand across its rows when it writes the output along its rows."""
    lanes = statement.output.axes[-1]
    return lanes in tensor.axes and tensor.index[-1] != ((lanes, 1),)


def row_of(problem: Problem, tensor: Tensor) -> tuple[int, int, int]:
    """Whether a tensor's innermost axis is reduced, the elements of its row along axes of the same kind, and how far
    they lie apart: 1 where they are contiguous.

    Axes of extent 1 do not count. In a window (`2*q+s`) the longest axis counts, and ends the row, as does a distance
    above 1; what one axis leaves out, another one reads. A tile has one place of the batch, whose axes are passed over
    where they are the innermost, and end the row where they are not. [flag, elements, elements]
    """
    reduced, sizes, found, run, gap = problem.statement.reduced, problem.sizes, None, 1, 1
    batch = dict(_role_axes(problem.computes)).get("b", ())
    for dim in reversed(tensor.index):
        live = {axis: stride for axis, stride in dim if sizes[axis] > 1}
        if not live:
            continue
        if live.keys() <= set(batch):
            if found is not None:
                break
            gap *= prod(sizes[axis] for axis in live)
            continue
        near = live if found is None else {axis: stride for axis, stride in live.items() if stride == 1}
        if found is None:
            found = max(live, key=lambda axis: sizes[axis]) in reduced
            gap *= gcd(*live.values())
        alike = [sizes[axis] for axis in near if (axis in reduced) == found]
        if len(dim) == 1 and not alike:
            break
        run *= max(alike, default=1)
        if len(live) > 1 or not alike or gap > 1:
            break
    return int(bool(found)), run, gap


def window(problem: Problem, tensor: Tensor) -> dict[str, int]:
    """Of one output of a windowed operand, as `templates/names.toml` has it. A row is the innermost windowed dimension
    and everything inside it. [rows, axes, elements]"""
    if not (windows := tensor.windows):
        return {"window_rows": 1, "window_axes": 1, "window_weights": 1, "window_reach": 0, "window_stride": 0}
    s, sizes, shape = problem.statement, problem.sizes, tensor.shape(problem.sizes)
    taps = [[(axis, stride) for axis, stride in tensor.index[i] if axis in s.reduced] for i in windows]
    inner, last = prod(shape[windows[-1] + 1 :]), s.output.axes[-1]
    return {
        "window_rows": prod(sizes[axis] for each in taps[:-1] for axis, _ in each),
        "window_reach": sum(stride * (sizes[axis] - 1) for axis, stride in taps[-1]) * inner,
        "window_stride": gcd(*(stride for axis, stride in taps[-1] if sizes[axis] > 1)) * inner,
        "window_axes": sum(sizes[axis] > 1 for axis in s.output.axes),
        "window_weights": sizes[last] if any(last in other.axes for other in s.inputs if other is not tensor) else 1,
    }  # fmt: skip


def multiply_dtype(problem: Problem) -> str:
    """The type in which operands are multiplied: the widest input type."""
    types = [problem.dtypes[t.name] for t in problem.statement.inputs]
    return max(types, key=lambda t: (element_bytes(t), t == "tf32"))


def vector_dtype(problem: Problem, arch: Arch) -> str:
    """The type in which vector units multiply and add. Half precision is widened first if its sum is wider.

    AMD's dot instructions instead multiply pairs of halves and add them to a float32.
    """
    dtype = multiply_dtype(problem)
    dots = arch.vendor == "amd" and arch.isa not in WITHOUT_DOTS
    widened = dtype in ("float16", "bfloat16") and problem.accumulate == "float32" and not dots
    return "float32" if widened else dtype


WITHOUT_DOTS = ("gfx803", "gfx900", "gfx1010")
"""ISAs that lack v_dot2_f32_f16 (LLVM's AMDGPU target, dot10-insts; Triton 3.6 compiles v_fmac_f32 for gfx1010)."""


WIDEN_INSTR = {"float8_e4m3": 27.0, "float8_e5m2": 1.6, "float8_e4m3fnuz": 27.0, "float8_e5m2fnuz": 12.0}
"""Instructions with which AMD's compilers convert an 8-bit float to a half, on devices whose matrix instructions take
another type. Source: vector instructions of Triton 3.6 for 8 elements a lane, gfx908 to gfx1201 alike: 211 to 218,
11 to 16, 211 to 220, 92 to 98."""


def widen_instr(dtype: str, unit: Matrix | None) -> float:
    """Instructions to convert an operand to the type of AMD's matrix instruction; 0 if it takes the operand."""
    amd = unit is not None and unit.instruction in ("mfma", "wmma") and unit.dtype != dtype
    return WIDEN_INSTR.get(dtype, 0.0) if amd else 0.0


def matrix_unit(problem: Problem, arch: Arch, instruction: str | None = None) -> Matrix | None:
    """The fastest matrix instruction whose sums are at least as wide as the problem's; None if there is none.

    On a device without instructions for 8-bit floats they are widened to half precision. Triton does not widen AMD's
    own on CDNA 1 and 2, and multiplies them on vector units.
    """
    dtype = multiply_dtype(problem)
    sums = {None, "float16"} if problem.accumulate == "float16" else {None}
    alone = dtype.endswith("fnuz") and arch.isa in ("gfx908", "gfx90a")
    for multiplied in (dtype, "float16") if dtype.startswith("float8") and not alone else (dtype,):
        if units := [unit for each in sums if (unit := arch.matrix_unit(multiplied, each, instruction))]:
            return max(units, key=lambda unit: unit.flops_per_clk_per_sm)
    return None


def flops_per_s(problem: Problem, arch: Arch) -> Mapping[str, float]:
    """Peak rate of a contraction's arithmetic by unit: "vector", and "matrix" if an instruction fits. [FLOP/s]

    At the clock of the datasheet, or the one that the device holds under load where that is higher.
    """
    peaks = {"vector": arch.vector_flops_per_s(vector_dtype(problem, arch))}
    unit = matrix_unit(problem, arch) if problem.contracts else None
    if unit is not None:
        above = max(arch.sustained_of(unit) / arch.clock_of(unit), 1.0)
        peaks["matrix"] = arch.matrix_flops_per_s(unit.dtype, unit.accumulate) * above
    return MappingProxyType(peaks)


def warp_matrix_unit(problem: Problem, arch: Arch) -> Matrix | None:
    """The matrix instruction that single warps issue, also on devices that have one for warp groups or whole blocks."""
    unit = matrix_unit(problem, arch)
    is_wide = unit is not None and unit.instruction in ("wgmma", "tcgen05")
    return (matrix_unit(problem, arch, "mma") if is_wide else None) or unit
