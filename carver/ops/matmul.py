"""Matrix products: batched, with an epilogue of a bias and an activation; with scales; with a vector; and fused ones,
two of one operand joined element by element, and one with a softmax of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import gcd, sqrt
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.errors import ProblemError, nearest
from ..problem import problem
from ..problem.problem import MAX_ALIGN_BYTES, Problem, size
from . import operator
from .operator import Operator, Template, accumulator, output_type, respelt

ACTIVATIONS = {word or "none": code for code, word in enumerate(problem.of("matmul").options["activation"])}
"""Code of each activation, as sources know it."""


class MatmulTemplate(Template):
    """C = activation(A @ B + bias): A is M x K, B K x N, batched and row-major; `trans_A`, `trans_B`: transposed.

    - `lda`, `ldb`, `ldc`: leading dimensions in elements, if rows are padded or are views. They limit how wide a copy
      may be.
    - `b_dtype`: the type of B, if it differs (int8 weights, for example).
    - `epilogue`: another way to say what is done to A @ B before it is stored: "bias", an activation, or ("bias",
      "gelu"), in this order.
    - `static_shapes`: sizes and strides are constants of the kernel, as Inductor's are. Otherwise Triton only knows of
      an argument whether 16 divides it, and copies element by element if not.
    - `scale_block`: operands with scales, as `scales` has them; this is the operator `scaled_matmul`. 8-bit operands
      have one scale for each row and that many elements of K of A, and one for each block of that many columns and
      elements of K of B. If the weights are narrower than A (down to int4, uint4 with zero points, and float4_e2m1),
      only they have scales.
    """

    def __init__(
        self, M: int, N: int, K: int, batch: int = 1, trans_A: bool = False, trans_B: bool = False,
        in_dtype: str = "float16", out_dtype: str | None = None, accum_dtype: str | None = None,
        b_dtype: str | None = None, with_bias: bool = False, activation: str = "none", lda: int | None = None,
        ldb: int | None = None, ldc: int | None = None, epilogue: str | Sequence[str] = (), static_shapes: bool = False,
        scale_block: Sequence[int] | str | None = None,
    ) -> None:  # fmt: skip
        if words := (epilogue,) if isinstance(epilogue, str) else tuple(epilogue):
            if with_bias or activation != "none":
                raise ProblemError(f"the epilogue is given twice: {words} and with_bias or activation")
            with_bias, rest = words[0] == "bias", words[words[0] == "bias" :]
            if len(rest) > 1 or "bias" in rest:
                raise ProblemError(f"an epilogue is a bias, an activation, or one after the other; got {words}")
            activation = rest[0] if rest else "none"
        a, b = dtypes.canonical(in_dtype, packed=True), dtypes.canonical(b_dtype or in_dtype, packed=True)
        summed = b if a.startswith("int") else a  # an integer times a float is a float
        accumulate, out = accumulator(summed, accum_dtype), output_type(a, out_dtype)
        if activation not in ACTIVATIONS:
            raise ProblemError(f"unknown activation {activation!r}; {nearest(str(activation), ACTIVATIONS)}")
        left = "A[b,k,m]" if trans_A else "A[b,m,k]"
        right = "B[b,n,k]" if trans_B else "B[b,k,n]"
        types, align = {"C": out, "A": a, "B": b}, dict[str, int]()
        rows = {"A": (lda, M if trans_A else K), "B": (ldb, K if trans_B else N), "C": (ldc, N)}
        for name, (ld, long) in rows.items():
            if ld is None:
                continue
            if size(f"ld{name.lower()}", ld) < size(name, long):
                raise ProblemError(
                    f"ld{name.lower()} is {ld}, but a row of {name} has {long} elements; "
                    "a leading dimension counts the elements from one row to the next"
                )
            align[name] = gcd(MAX_ALIGN_BYTES, max(1, int(ld * dtypes.element_bytes(types[name]))))
        scaled = scales(scale_block, a, b)
        if scaled and (with_bias or activation != "none"):
            raise ProblemError("a matmul with scales has no other epilogue")
        options = {"trans_a": trans_A, "trans_b": trans_B, "bias": with_bias, "activation": ACTIVATIONS[activation]}
        options |= {"static_shapes": True} if static_shapes else {}
        options |= {"scale_n": scaled[0], "scale_k": scaled[1]} if scaled else {}
        operator, sizes = "scaled_matmul" if scaled else "matmul", {"b": batch, "m": M, "n": N, "k": K}
        super().__init__(Problem(operator, f"C[b,m,n] += {left} * {right}", sizes, types, accumulate, options, align))


WHOLE = {"row": (1, 0), "tensor": (0, 0)}
"""Scales outside of the sum: one a row of A and a column of B, or one of each tensor."""


def scales(block: Sequence[int] | str | None, a: str, b: str) -> tuple[int, int] | None:
    """Columns and depth of B that share a scale, 0 for all of them; None without scales.

    Operands of a byte or less take any block, weights narrower than A a scale for so many elements of K of each column.
    """
    if block is None:
        if packed := {a, b} & dtypes.PACKED_BYTES.keys():
            raise ProblemError(f"{min(packed)} comes with scales: say scale_block, such as (1, 32); in a "
                               "shell: scaled-matmul ... --scale-block 1x32")  # fmt: skip
        return None
    narrow, weights = dtypes.element_bytes(a) <= 1, dtypes.element_bytes(b) < dtypes.element_bytes(a)
    if dtypes.element_bytes(b) > 1 or not (narrow or weights):
        raise ProblemError(f"scales belong to operands of 8 bits, or to weights narrower than A, got {a} and {b}")
    if isinstance(block, str) and block in WHOLE:
        return WHOLE[block]
    if isinstance(block, str) and all(word.isdecimal() for word in block.split("x")):
        block = [int(word) for word in block.split("x")]
    if isinstance(block, str) or not isinstance(block, Sequence) or len(block) != 2:
        raise ProblemError(
            f'a block of scales is (columns, depth) such as (128, 128), or 128x128, "row" or "tensor"; got {block!r}'
        )
    return size("scale_block[0]", block[0]), size("scale_block[1]", block[1])


def reference(problem: Problem, inputs: Mapping[str, Any], xp: Any) -> tuple[Any, Any]:
    """activation(the notation's sum + bias)."""
    value, magnitude = operator.value(problem, inputs, xp)
    if problem.options.get("bias"):
        value, magnitude = value + inputs["bias"], magnitude + abs(inputs["bias"])
    return _activated(value, problem.options.get("activation", 0), xp), magnitude


def _activated(x: Any, code: int, xp: Any) -> Any:
    match code:
        case 0:
            return x
        case 1:
            return x * (x > 0)
        case 2:
            import scipy.special

            return 0.5 * x * (1 + (scipy if xp is np else xp).special.erf(x / sqrt(2)))
        case 3:
            return operator.silu(x, xp)
    raise ProblemError(
        f"activation {code} has no reference; known: {', '.join(f'{v} {k}' for k, v in ACTIVATIONS.items())}"
    )


def library(problem: Problem, operands: Sequence[Any], out: Any, xp: Any) -> Callable[[], object] | None:
    """A plain product; neither library joins it with an epilogue."""
    if problem.options.get("bias") or problem.options.get("activation"):
        return None
    return operator.product_call(problem, operands, out, xp)


def macros(problem: Problem) -> dict[str, int | str]:
    """Layouts and epilogue, given whether or not the problem sets them."""
    given = dict.fromkeys(("trans_a", "trans_b", "bias", "activation"), 0) | dict(problem.options)
    named = {"bias": "epilogue_bias", "activation": "epilogue_activation"}
    return {named.get(name, name).upper(): value for name, value in given.items()}


@cache
def _forms() -> tuple[Problem, ...]:
    """Each layout of the operands."""
    return tuple(MatmulTemplate(1, 1, 1, trans_A=a, trans_B=b).problem for a in (False, True) for b in (False, True))


OPERATOR = Operator(
    "matmul",
    MatmulTemplate,
    "C = A B: M x K times K x N.",
    reference=reference,
    library=library,
    macros=macros,
    approximates=lambda problem: problem.options.get("activation", 0) > ACTIVATIONS["relu"],
    recognise=lambda problem: respelt(problem, _forms()),
)  # fmt: skip


class GEMVTemplate(Template):
    """y = A x, batched: A is N x K, or K x N with `trans_A`."""

    def __init__(
        self, N: int, K: int, batch: int = 1, trans_A: bool = False, in_dtype: str = "float16",
        out_dtype: str | None = None, accum_dtype: str | None = None, with_bias: bool = False,
    ) -> None:  # fmt: skip
        a = dtypes.canonical(in_dtype)
        types = {"Y": output_type(a, out_dtype), "X": a, "A": a}
        matrix = "A[b,k,n]" if trans_A else "A[b,n,k]"
        sizes = {"b": batch, "n": N, "k": K}
        accumulate, options = accumulator(a, accum_dtype), {"trans_a": trans_A, "bias": with_bias}
        super().__init__(Problem("gemv", f"Y[b,n] += X[b,k] * {matrix}", sizes, types, accumulate, options))


@cache
def _vector_forms() -> tuple[Problem, ...]:
    return tuple(GEMVTemplate(1, 1, trans_A=a).problem for a in (False, True))


GEMV = Operator(
    "gemv",
    GEMVTemplate,
    "y = A x: N x K times K.",
    reference=reference,
    library=library,
    macros=macros,
    recognise=lambda problem: respelt(problem, _vector_forms()),
)  # fmt: skip


class ScaledMatmulTemplate(MatmulTemplate):
    """C = A B^T: A is M x K with a scale a row and `scale_block[1]` of K, B is N x K with a scale a block.

    The same as `MatmulTemplate(..., trans_B=True, scale_block=...)`, which says what else `scale_block` may be. Weights
    narrower than A are stored K x N unless `trans_B` says otherwise.
    """

    def __init__(
        self, M: int, N: int, K: int, scale_block: Sequence[int] | str = "128x128", in_dtype: str = "float8_e4m3",
        out_dtype: str | None = None, b_dtype: str | None = None, trans_B: bool | None = None,
    ) -> None:  # fmt: skip
        alike = dtypes.element_bytes(dtypes.canonical(in_dtype, packed=True)) <= 1
        super().__init__(
            M, N, K, trans_B=alike if trans_B is None else trans_B, in_dtype=in_dtype, b_dtype=b_dtype,
            out_dtype=out_dtype or ("bfloat16" if alike else None), scale_block=scale_block,
        )  # fmt: skip


def _no_reference(problem: Problem, inputs: Mapping[str, Any], xp: Any) -> tuple[Any, Any]:
    raise ProblemError(f"{problem} has no reference: its scales are no tensors of its notation")


SCALED = Operator(
    "scaled_matmul",
    ScaledMatmulTemplate,
    "C = A B of operands with scales: M x K times K x N; of 8 bits B is stored N x K.",
    reference=_no_reference,
)  # fmt: skip


class GatedMLPTemplate(Template):
    """C = silu(A W0) * (A W1): A is M x K, both weights K x N (`trans_B`: N x K), adjacent in memory."""

    def __init__(
        self, M: int, N: int, K: int, trans_B: bool = False, in_dtype: str = "float16", out_dtype: str | None = None,
        accum_dtype: str | None = None,
    ) -> None:  # fmt: skip
        kind = dtypes.canonical(in_dtype)
        types = {"A": kind, "W": kind, "C": output_type(kind, out_dtype)}
        sizes, accumulate = {"m": M, "n": N, "k": K, "u": 2}, accumulator(kind, accum_dtype)
        computes = f"C[m,n] += A[m,k] * W[u,{'n,k' if trans_B else 'k,n'}]"
        super().__init__(Problem("gated_mlp", computes, sizes, types, accumulate, {"trans_b": trans_B}))


def _transposed(problem: Problem) -> bool:
    """Whether the weights are stored N x K."""
    return problem.statement.inputs[1].axes[-1] == "k"


def _gated_reference(problem: Problem, inputs: Mapping[str, Any], xp: Any) -> tuple[Any, Any]:
    """silu(g) u; |d silu / d g| is at most 1.1."""
    a, w, product = inputs["A"], inputs["W"], f"mk,{'unk' if _transposed(problem) else 'ukn'}->umn"
    gate, up = xp.einsum(product, a, w)
    gate_size, up_size = xp.einsum(product, abs(a), abs(w))
    value = operator.silu(gate, xp)
    return value * up, abs(value) * up_size + 1.1 * gate_size * abs(up)


def _gated_library(problem: Problem, operands: Sequence[Any], out: Any, xp: Any) -> Callable[[], object] | None:
    """torch in four calls: it fuses none of them."""
    if xp is np:
        return None
    a, w = operands
    gate, up = w.transpose(1, 2) if _transposed(problem) else w
    return lambda: xp.mul(xp.nn.functional.silu(a @ gate), a @ up, out=out)


GATED_MLP = Operator(
    "gated_mlp",
    GatedMLPTemplate,
    "C = silu(A G) * (A U): M x K times two matrices of K x N.",
    reference=_gated_reference,
    library=_gated_library,
    approximates=lambda _: True,
)  # fmt: skip


class MatmulSoftmaxTemplate(Template):
    """P = softmax(A B) along the rows: A is M x K, B is K x N (N x K with `trans_B`), batched."""

    def __init__(
        self, M: int, N: int, K: int, batch: int = 1, trans_B: bool = False, in_dtype: str = "float16",
        out_dtype: str | None = None,
    ) -> None:  # fmt: skip
        kind = dtypes.canonical(in_dtype)
        types = {"A": kind, "B": kind, "P": output_type(kind, out_dtype)}
        computes = f"P[b,m,n] += A[b,m,k] * B[b,{'n,k' if trans_B else 'k,n'}]"
        sizes = {"b": batch, "m": M, "n": N, "k": K}
        super().__init__(Problem("matmul_softmax", computes, sizes, types, accumulator(kind), {"trans_b": trans_B}))


def softmax_reference(problem: Problem, inputs: Mapping[str, Any], xp: Any) -> tuple[Any, Any]:
    """softmax of the notation's sum along its last axis. An error of a sum scales its weight by e^error."""
    total, magnitude = operator.value(problem, inputs, xp)
    value = operator.softmax(total, xp)
    return value, value * (1 + xp.amax(magnitude, -1)[..., None])


def softmax_library(problem: Problem, operands: Sequence[Any], out: Any, xp: Any) -> Callable[[], object] | None:
    """torch in two calls, the second in place."""
    call = operator.product_call(problem, operands, out, xp)
    if xp is np or call is None:
        return None

    def both() -> None:
        call()
        xp.softmax(out, -1, out=out)

    return both


MATMUL_SOFTMAX = Operator(
    "matmul_softmax",
    MatmulSoftmaxTemplate,
    "P = softmax(A B), row by row: M x K times K x N.",
    reference=softmax_reference,
    library=softmax_library,
    approximates=lambda _: True,
)  # fmt: skip
