"""Sums and maxima along the rows or columns of a matrix, and normalisations, which keep its shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.errors import ProblemError, nearest
from ..problem import problem
from ..problem.problem import Problem, size
from . import operator
from .matmul import GEMVTemplate
from .operator import Operator, Template, wide

REDUCTIONS = problem.of("reduction").options["reduce_op"]
"""By their codes, as sources know them."""
NORMALISATIONS = ("softmax", "layer_norm", "rms_norm")
"""Those whose result has the shape of the input."""
EPSILON = 1e-5
"""What layer norm and RMS norm add to the mean square."""


class ReductionTemplate(Template):
    """sum, max, mean, softmax, layer_norm or rms_norm over the rows (`axis=1`) or columns (`axis=0`) of a matrix."""

    def __init__(
        self, op: str = "sum", shape: Sequence[int] = (), axis: int = 1, in_dtype: str = "float16",
        out_dtype: str | None = None,
    ) -> None:  # fmt: skip
        if op not in REDUCTIONS:
            raise ProblemError(
                f"unknown reduction {op!r}; {nearest(str(op), REDUCTIONS)}; carver has {', '.join(REDUCTIONS)}"
            )
        if len(shape) != 2:
            raise ProblemError(f"shape must be (rows, columns), got {shape!r}; more axes: GeneralReductionTemplate")
        if axis not in (0, 1, -1) or isinstance(axis, bool):
            raise ProblemError(f"axis must be 1 (along a row) or 0 (down a column), got {axis!r}")
        kind = dtypes.canonical(in_dtype)
        keeps = op in NORMALISATIONS
        out = dtypes.canonical(out_dtype or (kind if keeps or op == "max" else wide(kind)))
        down = axis == 0
        sign = "max=" if op == "max" else "+="
        options = {"reduce_op": REDUCTIONS.index(op), "axis": 0 if down else 1, "keeps_shape": keeps}
        sizes = {"r": size("rows", shape[0]), "c": size("columns", shape[1])}
        computes = f"Y[{'c' if down else 'r'}] {sign} X[r,c]"
        super().__init__(Problem("reduction", computes, sizes, {"Y": out, "X": kind}, wide(kind), options))


class GeneralReductionTemplate(Template):
    """A sum over the axes that `structure` marks with R; S marks those that stay: "SSR" sums over the last of three."""

    def __init__(
        self, structure: str, shape: Sequence[int], dtype: str = "float16", out_dtype: str | None = None
    ) -> None:
        if not structure or set(structure) - {"S", "R"} or "R" not in structure:
            raise ProblemError(
                f"structure must be letters S (kept) and R (reduced) with at least one R, got {structure!r}"
            )
        if len(structure) != len(shape):
            raise ProblemError(
                f"structure {structure!r} has {len(structure)} axes, shape {tuple(shape)} has {len(shape)}"
            )
        kind = dtypes.canonical(dtype)
        super().__init__(flat_reduction(structure, shape, "+=", kind, dtypes.canonical(out_dtype or kind)))


def flat_reduction(
    structure: str, shape: Sequence[int], combine: str, kind: str, out: str, operands: int = 1
) -> Problem:
    """A reduction of any shape, of the product of its operands, as one over the rows or the columns of a matrix, or
    over the columns of each of many."""
    runs = structure.replace("SR", "S R").replace("RS", "R S").split()
    if structure.strip("S").count("RS"):
        raise ProblemError(
            f"structure {structure!r} reduces axes that do not lie side by side: reduce the last of them first, then "
            "the others of what is left"
        )
    extents, start = [], 0
    for run in runs:
        extents.append(prod(size("shape", n) for n in shape[start : start + len(run)]))
        start += len(run)
    extents = [1, *extents] if len(runs) == 1 else extents
    down, sizes = runs[-1][0] == "S", dict(zip("brc"[-len(extents) :], extents, strict=True))
    batch = "b," if "b" in sizes else ""
    names = ["X", *(f"X{i}" for i in range(1, operands))]
    computes = f"Y[{batch}{'c' if down else 'r'}] {combine} {' * '.join(f'{name}[{batch}r,c]' for name in names)}"
    options = {"reduce_op": REDUCTIONS.index("max" if combine == "max=" else "sum"), "axis": 1 - down, "keeps_shape": 0}
    types = {"Y": out} | dict.fromkeys(names, kind)
    return Problem("reduction", computes, sizes, types, wide(kind), options)


def recognise(problem: Problem) -> Problem | None:
    """A statement whose operands are walked alike, as the reduction of a matrix that it is."""
    s = problem.statement
    if not s.reduced or len({t.index for t in s.inputs}) > 1:
        return None
    first = s.inputs[0]
    kind, out = problem.dtypes[first.name], problem.dtypes[s.output.name]
    axes = [dim[0][0] for dim in first.index]
    kept = tuple(axis for axis in axes if axis in s.spatial)
    if s.combine == "min=" or not first.is_plain or kept != s.spatial:
        raise ProblemError(
            f"{s} is no reduction that carver has a kernel for: it takes '+=' and 'max=' over plain axes, those of "
            f"the output in the order of the input"
        )
    structure = "".join("S" if axis in s.spatial else "R" for axis in axes)
    if len(s.inputs) == 2 and s.combine == "+=" and "RS" not in structure:  # of each row, a product of vectors
        rows, cols = (prod(problem.sizes[axis] for axis in some) for some in (s.spatial, s.reduced))
        vector = GEMVTemplate(1, cols, rows, in_dtype=kind, out_dtype=out).problem
        return replace(vector, accumulate=problem.accumulate, written=problem.computes)
    flat = flat_reduction(structure, [problem.sizes[axis] for axis in axes], s.combine, kind, out, len(s.inputs))
    return replace(flat, written=problem.computes)


def word(problem: Problem) -> str:
    """Which of REDUCTIONS it is."""
    return REDUCTIONS[problem.options["reduce_op"]]


def reference(problem: Problem, inputs: Mapping[str, Any], xp: Any) -> tuple[Any, Any]:
    """Layer norm and RMS norm have neither scale nor shift."""
    kind, s = word(problem), problem.statement
    if kind not in NORMALISATIONS:
        value, magnitude = operator.value(problem, inputs, xp)
        count = prod(problem.sizes[axis] for axis in s.reduced) if kind == "mean" else 1
        return value / count, magnitude / count
    x = inputs[s.inputs[0].name]
    axis = s.inputs[0].axes.index(s.reduced[0])
    if kind == "softmax":
        value = operator.softmax(x, xp, axis)
        return value, value
    count = x.shape[axis]
    centre = x.sum(axis, keepdims=True) / count if kind == "layer_norm" else 0.0
    scale = (((x - centre) ** 2).sum(axis, keepdims=True) / count + EPSILON) ** -0.5
    away = abs(x).sum(axis, keepdims=True) / count if kind == "layer_norm" else 0.0
    return (x - centre) * scale, (abs(x) + away) * scale


def library(problem: Problem, operands: Sequence[Any], out: Any, xp: Any) -> Callable[[], object] | None:
    if len(operands) > 1:
        return operator.product_call(problem, operands, out, xp)
    kind, axes, [x] = word(problem), operator.plain_axes(problem), operands
    if axes is None:
        return None
    over = tuple(i for i, axis in enumerate(axes[0]) if axis in problem.statement.reduced)
    if xp is np:
        plain: dict[str, Callable[..., object]] = {"sum": np.sum, "max": np.amax, "mean": np.mean}
        return partial(plain[kind], x, over, out=out) if kind in plain else None
    nn = xp.nn.functional
    calls: dict[str, Callable[[], object]] = {
        "sum": lambda: xp.sum(x, over, dtype=out.dtype),
        "max": lambda: xp.amax(x, over),
        "mean": lambda: xp.mean(x, over, dtype=out.dtype),
        "softmax": lambda: nn.softmax(x, over[0]),
    }
    if over == (x.ndim - 1,) and kind in ("layer_norm", "rms_norm"):
        return lambda: getattr(nn, kind)(x, x.shape[-1:])
    return calls.get(kind)


OPERATOR = Operator(
    "reduction",
    ReductionTemplate,
    f"{', '.join(REDUCTIONS)} of a matrix.",
    reference=reference,
    library=library,
    approximates=lambda _: True,
    recognise=recognise,
)  # fmt: skip
