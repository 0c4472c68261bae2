"""The convolution of a network's layer, as the matmul it maps onto."""

from __future__ import annotations

from ..base import dtypes
from ..base.errors import ProblemError
from ..problem.problem import Problem, counted, size
from .operator import ACCUM_DTYPE, DTYPE, OUT_DTYPE, Argument, Operator
from .template import Template, accumulator, output_type


class ConvTemplate(Template):
    """The convolution of a network's layer, as the matmul it maps onto (implicit GEMM), channels last.

    N images of H x W x C under F filters of KH x KW: rows are the N x P x Q output pixels, columns the F filters, and C
    x KH x KW products are summed. `pad` is the padding of the input on every side.
    """

    def __init__(
        self,
        N: int,
        C: int,
        H: int,
        W: int,
        F: int,
        KH: int,
        KW: int,
        stride: int = 1,
        pad: int = 0,
        dilation: int = 1,
        in_dtype: str = "float16",
        out_dtype: str | None = None,
        accum_dtype: str | None = None,
    ) -> None:
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


OPERATOR = Operator(
    "conv",
    ConvTemplate,
    "A network's convolution: N x C x H x W images with F filters of KH x KW.",
    (
        *(Argument(name) for name in ("N", "C", "H", "W", "F", "KH", "KW")),
        Argument("stride", "pixels from one output to the next", "--stride"),
        Argument("pad", "pixels of border on each side", "--pad"),
        Argument("dilation", "pixels from one tap to the next", "--dilation"), DTYPE, OUT_DTYPE, ACCUM_DTYPE,
    ),
)  # fmt: skip
