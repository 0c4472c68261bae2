"""The convolution of one image with one filter, computed directly."""

from __future__ import annotations

from dataclasses import replace

from ..base import dtypes
from ..problem.problem import Problem
from .operator import DTYPE, Argument, Operator, respelt
from .template import Template, accumulator


class Conv2DTemplate(Template):
    """One single-channel image under one filter, direct: `height` x `width` outputs of an input with a border."""

    def __init__(self, height: int, width: int, filter_height: int, filter_width: int, dtype: str = "float32") -> None:
        kind = dtypes.canonical(dtype)
        sizes = {"y": height, "x": width, "r": filter_height, "s": filter_width}
        types = dict.fromkeys(("O", "I", "F"), kind)
        computes = "O[y,x] += I[y+r,x+s] * F[r,s]"
        super().__init__(Problem("conv2d", computes, sizes, types, accumulator(kind)))


OPERATOR = Operator(
    "conv2d",
    Conv2DTemplate,
    "A direct convolution of one image, HEIGHT x WIDTH results, FILTER_HEIGHT x FILTER_WIDTH taps.",
    (*map(Argument, ("height", "width", "filter_height", "filter_width")), replace(DTYPE, parameter="dtype")),
    recognise=lambda problem: respelt(problem, [Conv2DTemplate(1, 1, 1, 1).problem]),
)
