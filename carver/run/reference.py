"""What a kernel should have computed: inputs, the operator's reference in float64, a tolerance, and the library's call.

Arrays are NumPy's or torch's: a function that takes `xp` works in that namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import exp2, isqrt, log2, prod, sqrt
from typing import Any

import numpy as np

from ..base.errors import DeviceError
from ..ops.operator import named as operator
from ..problem.problem import Problem
from .buffers import TORCH_NAMES, Array, Buffer, as_tf32, decode, encode
from .device import Device

ROUNDOFF = {
    "float64": exp2(-53), "float32": exp2(-24), "tf32": exp2(-24), "float16": exp2(-11), "bfloat16": exp2(-8),
    "float8_e4m3": exp2(-4), "float8_e5m2": exp2(-3), "float8_e4m3fnuz": exp2(-4), "float8_e5m2fnuz": exp2(-3),
    "int8": 0.0, "int32": 0.0,
}  # fmt: skip
"""Unit roundoff: the largest relative error of rounding to nearest. tf32 is stored and accumulated as float32."""

SMALLEST = {"float16": exp2(-24), "float8_e4m3": exp2(-9), "float8_e5m2": exp2(-16),
            "float8_e4m3fnuz": exp2(-10), "float8_e5m2fnuz": exp2(-17)}  # fmt: skip
"""Smallest subnormal where it is large enough to matter: below it the error of rounding is absolute."""

_PATTERN = (1 << 22) + 15
"""Random values drawn for one tensor; a larger one repeats them at this odd period."""

_CONFIDENCE = 4.0

_ONES = 0.75
"""Share of ones among zeros and ones: few enough that two parts of a sum differ, enough that none is 0."""

_FLOAT8_SUM_BITS = 13
"""Integers up to 2^13 are exact in the sums of 8-bit products, of which Hopper keeps 14 bits."""


def draw(problem: Problem, seed: int) -> dict[str, Array]:
    """Random non-zero inputs by tensor name, the bias among them; the same for the same seed.

    Magnitudes lie in [1/16, 1), signs are random, and every value is exact in its type, so that the check sees
    the kernel's own rounding and nothing else. Integers are uniform in -127 to 127 without 0.
    """
    rng = np.random.default_rng(seed)
    shapes = {t.name: t.shape(problem.sizes) for t in problem.statement.inputs}
    types = {name: problem.dtypes[name] for name in shapes}
    if problem.options.get("bias"):
        output = problem.statement.output
        shapes["bias"], types["bias"] = output.shape(problem.sizes)[-1:], problem.dtypes[output.name]
    return {name: _random(rng, shape, types[name]) for name, shape in shapes.items()}


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    count = min(prod(shape), _PATTERN)
    if dtype in ("int8", "int32"):
        values = (rng.integers(1, 128, count) * rng.choice([-1, 1], count)).astype(np.float32)
    else:
        magnitude = rng.random(count, dtype=np.float32) * np.float32(15 / 16) + np.float32(1 / 16)
        values = np.copysign(magnitude, rng.random(count, dtype=np.float32) - np.float32(0.5))
    return np.resize(decode(encode(as_tf32(values) if dtype == "tf32" else values, dtype), dtype), shape)


def draw_exact(problem: Problem, seed: int) -> dict[str, Array] | None:
    """Inputs of which every partial sum is exact in the accumulator, in whatever order; None where nothing is added up.

    The rounding errors of a long sum may exceed what a lost tile adds to it. Here nothing rounds but the result, so
    the check sees a lost term. All values are integers: 0 or 1, in one operand 1 or 2 where there is room, and there
    negative in the second half of the longest reduced axis. So a part of the sum is far from 0 and the whole is small,
    where the output's type tells neighbours apart, but not 0: the halves differ by twice the root of the axis. Where
    the accumulator holds fewer integers than there are terms, zeros take the place of what it has no room for.
    """
    s, floats = problem.statement, ROUNDOFF[problem.accumulate] > 0
    if s.combine != "+=" or not s.reduced or not floats or problem.options.get("keeps_shape"):
        return None
    bits = -log2(ROUNDOFF[problem.accumulate])
    if any(problem.dtypes[t.name].startswith("float8") for t in s.inputs):
        bits = min(bits, _FLOAT8_SUM_BITS)
    room = exp2(bits) / prod(problem.sizes[axis] for axis in s.reduced)
    longest = max(s.reduced, key=lambda axis: problem.sizes[axis])
    signed = next((t for t in reversed(s.inputs) if ((longest, 1),) in t.index), s.inputs[-1])
    rng = np.random.default_rng([seed, 1])
    out = {}
    for t in s.inputs:
        shape = t.shape(problem.sizes)
        count = min(prod(shape), _PATTERN)
        if t is signed and room >= 2:
            values = rng.integers(1, 3, count).astype(np.float32)
        else:
            values = (rng.random(count) < (min(_ONES, room) if t is signed else _ONES)).astype(np.float32)
        values = np.resize(values, shape)
        if ((longest, 1),) in t.index and t is signed:
            n, place = problem.sizes[longest], t.index.index(((longest, 1),))
            half = np.where(np.arange(n) < (n + 1) // 2 + isqrt(int(n / min(room, 1.0))), np.float32(1), np.float32(-1))
            values *= half.reshape([-1 if i == place else 1 for i in range(len(shape))])
        out[t.name] = values
    if problem.options.get("bias"):
        out["bias"] = (2 * rng.integers(0, 2, s.output.shape(problem.sizes)[-1]) - 1).astype(np.float32)
    return out


def expected(problem: Problem, inputs: Mapping[str, Any], xp: Any = np) -> tuple[Any, Any]:
    """The output, and the sum of the magnitudes that were added up to get it, which scales the rounding error.

    `inputs` are float64 arrays of `xp` by tensor name.
    """
    return operator(problem.operator).reference(problem, inputs, xp)


def bounded(problem: Problem, inputs: Mapping[str, Any], xp: Any = np, exact: bool = False) -> tuple[Any, Any, Any]:
    """The output as its type holds it, what each element may be off by, and the magnitudes of `expected`.

    `exact` says that the inputs are those of `draw_exact`.
    """
    value, magnitude = expected(problem, inputs, xp)
    value = representable(problem, value, xp)
    return value, tolerance_exact(problem, value) if exact else tolerance(problem, value, magnitude), magnitude


def output_shape(problem: Problem) -> tuple[int, ...]:
    """As the notation says; a normalisation, whose notation says what it sums, keeps its input's shape."""
    return problem.stored(problem.statement.output).shape(problem.sizes)


def tolerance(problem: Problem, value: Any, magnitude: Any) -> Any:
    """How far each element may be from the float64 reference, whatever the order of the additions.

        K = extent of the reduction, u = unit roundoff of the type
        |error| <= u_out |value| + 4 sqrt(K) u_accumulate sum |a_k b_k|

    Inputs are exact in their types, so only additions and the last rounding err. K rounding errors of random
    sign grow with sqrt(K); the factor 4 covers the units that truncate instead of rounding, whose errors have
    one sign: 2 u at each partial sum, and partial sums of random signs are themselves about sqrt(K) terms.
    Of 8-bit floats Hopper adds 32 products at a time and keeps 14 bits: sqrt(K / 32) 2^-14 more. Integers are
    exact. A kernel that ends in an exponential or a division adds 2^-20 for the fast one.

    Source: Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis (2019), theorem 2.4; Fasi et
    al., Numerical behavior of NVIDIA tensor cores (2021), for truncation.
    """
    terms = prod(problem.sizes[axis] for axis in problem.statement.reduced)
    if problem.statement.combine in ("max=", "min="):
        terms = 1
    allowed = _CONFIDENCE * sqrt(terms) * ROUNDOFF[problem.accumulate] * magnitude
    if terms > 1 and any(problem.dtypes[t.name].startswith("float8") for t in problem.statement.inputs):
        allowed = allowed + sqrt(terms / 32) * exp2(-14) * magnitude
    allowed = allowed + _rounding(problem, value)
    if operator(problem.operator).approximates(problem):
        allowed = 1.2 * allowed + exp2(-20) * magnitude
    return allowed


def tolerance_exact(problem: Problem, value: Any) -> Any:
    """The same where the sums are exact (`draw_exact`): the rounding of the result, and 2^-20 for an epilogue."""
    activation = bool(problem.options.get("activation"))
    allowed = _rounding(problem, value)
    if operator(problem.operator).approximates(problem):
        allowed = allowed + exp2(-20) * (abs(value) + activation)
    return allowed


def _rounding(problem: Problem, value: Any) -> Any:
    out = problem.dtypes[problem.statement.output.name]
    allowed = 1.01 * ROUNDOFF[out] * abs(value) + SMALLEST.get(out, 0.0)
    exact = problem.accumulate == "int32" and not operator(problem.operator).approximates(problem)
    return allowed if exact or out not in ("int8", "int32") else allowed + 0.5 + 1e-6


def representable(problem: Problem, value: Any, xp: Any = np) -> Any:
    """The reference as far as the output's type reaches: integers and 8-bit floats saturate, halves overflow."""
    out = problem.dtypes[problem.statement.output.name]
    limits = {
        "int8": (-128, 127),
        "int32": (-(2**31), 2**31 - 1),
        "float8_e4m3": (-448, 448),
        "float8_e5m2": (-57344, 57344),
        "float8_e4m3fnuz": (-240, 240),
        "float8_e5m2fnuz": (-57344, 57344),
    }
    if out == "float16":
        return value * xp.where(abs(value) < 65520, 1.0, float("inf"))  # what rounds to more than 65504
    return xp.clip(value, *limits[out]) if out in limits else value


_TORCH_BITS = {
    "float64": "<f8", "float32": "<f4", "tf32": "<f4", "float16": "<f2", "bfloat16": "<i2", "float8_e4m3": "|u1",
    "float8_e5m2": "|u1", "float8_e4m3fnuz": "|u1", "float8_e5m2fnuz": "|u1", "int8": "|i1", "int32": "<i4",
}  # fmt: skip


def namespace(kind: str) -> Any:
    """torch for a GPU if it is here and sees one, else NumPy."""
    if kind == "cuda":
        try:
            import torch
        except ImportError:
            return np
        if torch.cuda.is_available():
            return torch
    return np


def float64(device: Device, buffer: Buffer, xp: Any) -> Any:
    """The values of a buffer as a float64 array of `xp`, on the GPU for torch."""
    return device.download(buffer).astype(np.float64) if xp is np else as_torch(buffer, xp).to(xp.float64)


class _Interface:
    """A buffer as CUDA's array interface, version 3, which torch reads."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.__cuda_array_interface__ = {
            "shape": buffer.shape, "typestr": _TORCH_BITS[buffer.dtype], "data": (buffer.pointer, False), "version": 3,
        }  # fmt: skip


def as_torch(buffer: Buffer, torch: Any) -> Any:
    """A tensor on the same memory."""
    stored = torch.as_tensor(_Interface(buffer), device="cuda")
    return stored.view(getattr(torch, TORCH_NAMES.get(buffer.dtype, buffer.dtype)))


def library_call(
    problem: Problem, kind: str, inputs: Mapping[str, Buffer], output: Buffer
) -> tuple[str, Callable[[], object]]:
    """The library's name and a call that computes the problem from the same buffers.

    torch on a GPU, which takes cuBLAS for products; NumPy on the CPU. Raises DeviceError where it has no fast way.
    """
    xp = namespace(kind)
    if xp is np and kind == "cuda":
        raise DeviceError("no library to compare with on the GPU: install torch")
    narrow = {t: d for t, d in problem.dtypes.items() if d not in ("float32", "float64")}
    if xp is np and narrow:
        raise DeviceError(f"NumPy has no fast operations on {', '.join(sorted(set(narrow.values())))}")
    if xp is not np and (odd := {d for d in problem.dtypes.values() if d.startswith("float8") or d.startswith("int")}):
        raise DeviceError(f"torch has no plain operations on {', '.join(sorted(odd))}")
    arrays = {name: b.owner if xp is np else as_torch(b, xp) for name, b in inputs.items()}
    out = output.owner if xp is np else as_torch(output, xp)
    if xp is not np:
        xp.backends.cuda.matmul.allow_tf32 = "tf32" in problem.dtypes.values()
    call = operator(problem.operator).library(problem, [arrays[t.name] for t in problem.statement.inputs], out, xp)
    if call is None:
        raise DeviceError(f"the library has no fast call for {problem}")
    return ("numpy" if xp is np else "torch"), call
