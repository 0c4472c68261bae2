"""Operators that compute each element of the result from the elements at its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import prod
from typing import Any

from ..base import dtypes
from ..base.errors import ProblemError
from ..problem.problem import Problem, counted, size
from . import operator
from .operator import Operator, Template, flat_shape, option_macros, wide

MAX_INPUTS = 63
"""Of one kernel: with the output as many tensors as a statement may name."""


class ElementwiseTemplate(Template):
    """Y = f(X0, X1, ...), element by element: carver's kernel computes the sum, unless compiled with an EXPRESSION.

    `inputs` is the number of full-size inputs. `broadcast` is the number of further inputs that are read along the last
    dimension only (a bias, a scale).
    """

    def __init__(
        self, shape: Sequence[int], dtype: str = "float16", inputs: int = 1, flops_per_element: int = 1,
        broadcast: int = 0, out_dtype: str | None = None,
    ) -> None:  # fmt: skip
        rows, cols = flat_shape(shape)
        full, short = size("inputs", inputs), counted("broadcast", broadcast)
        if full + short > MAX_INPUTS:
            raise ProblemError(f"inputs and broadcast are together at most {MAX_INPUTS}, got {full} and {short}")
        names = [f"X{i}" for i in range(full + short)]
        terms = [f"{x}[r,c]" for x in names[:full]] + [f"{x}[c]" for x in names[full:]]
        kind = dtypes.canonical(dtype)
        types = dict.fromkeys(names, kind) | {"Y": dtypes.canonical(out_dtype or kind)}
        options = {
            "flops_per_element": counted("flops_per_element", flops_per_element),
            "inputs": full,
            "broadcast": short,
        }
        computes = f"Y[r,c] = {' + '.join(terms)}"
        super().__init__(Problem("elementwise", computes, {"r": rows, "c": cols}, types, wide(kind), options))


def reference(problem: Problem, inputs: Mapping[str, Any], xp: Any) -> tuple[Any, Any]:
    """The sum of the products of the inputs, each repeated along the axes it lacks."""
    s = problem.statement
    value = magnitude = 0.0
    ones = xp.ones_like(inputs[s.inputs[0].name][..., :1]).reshape(-1)[:1]
    for product in s.summands:
        views = [operator.by_axis(inputs[t.name], problem, t, xp) for t in product]
        missing = [axis for axis in s.spatial if not any(axis in axes for _, axes in views)]
        repeated = [(xp.broadcast_to(ones, (problem.sizes[axis],)), (axis,)) for axis in missing]
        full = operator.einsum([*views, *repeated], s.spatial, xp)
        value, magnitude = value + full, magnitude + abs(full)
    return value, magnitude


def library(problem: Problem, operands: Sequence[Any], out: Any, xp: Any) -> Callable[[], object] | None:
    """The sum of products, one call an operation: neither library fuses them."""
    s, axes = problem.statement, operator.plain_axes(problem)
    if axes is None:
        return None
    views = (operator.arranged(x, have, s.spatial, xp) for x, have in zip(operands, axes, strict=True))
    summands = [[next(views) for _ in product] for product in s.summands]

    def call() -> None:
        one = len(summands) == 1
        join = xp.multiply if one else xp.add
        first, *others = summands[0] if one else [reduce(xp.multiply, product) for product in summands]
        if not others:
            out[...] = first
        for i, x in enumerate(others):
            join(out if i else first, x, out=out)

    return call


def macros(problem: Problem) -> dict[str, int | str]:
    """Which axes each input has, and what is computed where that is more than a product."""
    s = problem.statement
    given = option_macros(problem) | {"INPUTS": len(s.inputs)}
    for tensor in s.inputs:
        given |= {f"{tensor.name.upper()}_{axis.upper()}": int(axis in tensor.axes) for axis in s.spatial}
    if len(s.summands) < len(s.inputs):  # without one, kernels add
        given["EXPRESSION"] = f"({s.spelt(lambda tensor: tensor.name.lower())})"
    return given


def recognise(problem: Problem) -> Problem | None:
    """Operands that have all axes of the result, or only the outer or the inner ones, at one place parted for all."""
    out, *inputs = problem.statement.tensors
    if problem.statement.reduced:
        return None
    for at in reversed(range(len(out.index))):  # the last axis is the column where nothing says otherwise
        axes = {out.index[:at]: "r", out.index[at:]: "c", out.index: "r,c"}
        if all(t.index in axes for t in inputs):
            break
    else:
        return None
    shape, options = out.shape(problem.sizes), problem.options
    short = [t for t in inputs if t.index != out.index]
    form = ElementwiseTemplate(
        (prod(shape[:at]), prod(shape[at:])), problem.dtypes[inputs[0].name], len(inputs), options["flops_per_element"],
        out_dtype=problem.dtypes[out.name],
    ).problem  # fmt: skip
    # what has all axes comes first among factors, and among summands; a kernel takes the tensors in this order
    products = [tuple(sorted(product, key=short.__contains__)) for product in problem.statement.summands]
    ordered = replace(problem.statement, summands=tuple(sorted(products, key=lambda product: product[0] in short)))
    ours = {t: f"X{i}[{axes[t.index]}]" for i, t in enumerate(ordered.inputs)}
    return replace(
        form, computes=f"Y[r,c] = {ordered.spelt(ours.__getitem__)}", written=problem.computes, align_bytes={},
        options={**form.options, "inputs": len(inputs) - len(short), "broadcast": len(short)},
    )  # fmt: skip


OPERATOR = Operator(
    "elementwise",
    ElementwiseTemplate,
    "Y = f(X0, X1, ...), element by element.",
    reference=reference,
    library=library,
    macros=macros,
    recognise=recognise,
)  # fmt: skip
