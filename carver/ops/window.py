"""Sums over a window without a second axis to reuse it along: filters, stencils, depthwise convolutions."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..base import dtypes
from ..problem.problem import Problem
from .operator import BATCH, DTYPE, OUT_DTYPE, Argument, Operator
from .template import Template, accumulator, output_type


class WindowTemplate(Template):
    """O[b,x] += I[b,x+r] * W[b,r]: `batch` signals of `length` outputs, each under a filter of its own of `taps`."""

    def __init__(
        self, length: int, taps: int, batch: int = 1, in_dtype: str = "float16", out_dtype: str | None = None
    ) -> None:
        kind = dtypes.canonical(in_dtype)
        types = {"O": output_type(kind, out_dtype), "I": kind, "W": kind}
        sizes = {"b": batch, "x": length, "r": taps}
        super().__init__(Problem("window", "O[b,x] += I[b,x+r] * W[b,r]", sizes, types, accumulator(kind)))


def recognise(problem: Problem) -> Problem | None:
    """A windowed operand and one with no axis of the output that the first lacks, summed over nothing but windows.

    A matmul of it would have one column. The windowed operand comes first.
    """
    s = problem.statement
    if s.combine != "+=" or len(s.inputs) != 2:
        return None
    for image, weights in (s.inputs, s.inputs[::-1]):
        taps = {axis for dim in image.index if len(dim) > 1 for axis, _ in dim} & set(s.reduced)
        own = [axis for axis in weights.axes if axis not in image.axes]
        apart = [axis for axis in s.reduced if axis not in taps]
        if taps and prod(problem.sizes[axis] for axis in (*own, *apart)) == 1:
            ordered = replace(s, summands=((image, weights),))
            return replace(problem, operator="window", computes=str(ordered), written=problem.computes)
    return None


OPERATOR = Operator(
    "window",
    WindowTemplate,
    "A filter of TAPS taps over a signal: LENGTH results.",
    (Argument("length"), Argument("taps"), replace(BATCH, help="signals, each with its own filter"), DTYPE, OUT_DTYPE),
    recognise=recognise,
)
