"""Sums over windows: a network's convolution, one of a single image, delayed channels, and filters of their own."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..base import dtypes
from ..base.errors import ProblemError
from ..problem.problem import Problem, counted, size
from .operator import Operator, Template, accumulator, output_type, respelt


class ConvTemplate(Template):
    """The convolution of a network's layer, as the matmul it maps onto (implicit GEMM), channels last.

    N images of H x W x C under F filters of KH x KW: rows are the N x P x Q output pixels, columns the F filters, and C
    x KH x KW products are summed. `pad` is the padding of the input on every side.
    """

    def __init__(
        self, N: int, C: int, H: int, W: int, F: int, KH: int, KW: int, stride: int = 1, pad: int = 0,
        dilation: int = 1, in_dtype: str = "float16", out_dtype: str | None = None, accum_dtype: str | None = None,
    ) -> None:  # fmt: skip
        step, apart, border = size("stride", stride), size("dilation", dilation), counted("pad", pad)
        out = {}
        for name, image, taps in (("H", H, KH), ("W", W, KW)):
            reach = apart * (size(f"K{name}", taps) - 1) + 1
            padded = size(name, image) + 2 * border
            if reach > padded:
                raise ProblemError(f"a filter that spans {reach} does not fit {name}={image} with pad={border}")
            out[name] = (padded - reach) // step + 1
        kind = dtypes.canonical(in_dtype)
        types = {"O": output_type(kind, out_dtype), "I": kind, "W": kind}
        sizes = {"n": N, "p": out["H"], "q": out["W"], "f": F, "r": KH, "s": KW, "c": C}
        computes = f"O[n,p,q,f] += I[n,{step}*p+{apart}*r,{step}*q+{apart}*s,c] * W[r,s,c,f]"
        super().__init__(Problem("matmul", computes, sizes, types, accumulator(kind, accum_dtype)))


OPERATOR = Operator("conv", ConvTemplate, "A network's convolution: N x C x H x W images with F filters of KH x KW.")


class Conv2DTemplate(Template):
    """One single-channel image under one filter, direct: `height` x `width` outputs of an input with a border."""

    def __init__(self, height: int, width: int, filter_height: int, filter_width: int, dtype: str = "float32") -> None:
        kind = dtypes.canonical(dtype)
        sizes = {"y": height, "x": width, "r": filter_height, "s": filter_width}
        types = dict.fromkeys(("O", "I", "F"), kind)
        computes = "O[y,x] += I[y+r,x+s] * F[r,s]"
        super().__init__(Problem("conv2d", computes, sizes, types, accumulator(kind)))


CONV2D = Operator(
    "conv2d",
    Conv2DTemplate,
    "A direct convolution of one image, HEIGHT x WIDTH results, FILTER_HEIGHT x FILTER_WIDTH taps.",
    recognise=lambda problem: respelt(problem, [Conv2DTemplate(1, 1, 1, 1).problem]),
)


class DedispersionTemplate(Template):
    """Sums over channels for `trials` dispersion measures, each of which delays every channel by a different time.

    A delay grows with the trial and is longest in the lowest channel: `max_delay` samples in the last trial.
    """

    def __init__(self, trials: int, samples: int, channels: int, max_delay: int, dtype: str = "int8") -> None:
        sizes = {"d": trials, "t": samples, "h": channels}
        types = {"O": "float32", "I": dtypes.canonical(dtype), "S": "float32"}
        options = {"max_delay": counted("max_delay", max_delay), "flops_per_element": 1}
        super().__init__(Problem("dedispersion", "O[d,t] += I[h,t+d] * S[h]", sizes, types, "float32", options))


DEDISPERSION = Operator(
    "dedispersion",
    DedispersionTemplate,
    "Sums of CHANNELS delayed series, SAMPLES long, for each of TRIALS delays of at most MAX_DELAY samples.",
)


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


WINDOW = Operator("window", WindowTemplate, "A filter of TAPS taps over a signal: LENGTH results.", recognise=recognise)
