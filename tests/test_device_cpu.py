"""The CPU kernels against float64, over sizes, element types and layouts, and the cache of compiled kernels."""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from kernels import upload
from scipy.special import erf

import carver
from carver.base import store
from carver.base.dtypes import size_bytes
from carver.base.errors import (
    CompileError,
    CompilerFailed,
    CompileTimeout,
    ConfigError,
    DeviceError,
    KernelError,
    RunError,
)
from carver.base.folders import cache_folder, folder, private, scratch
from carver.kernels import declaration as kernel
from carver.kernels.expr import static_scope
from carver.ops.matmul import MatmulTemplate
from carver.ops.reduction import flat_reduction
from carver.problem.problem import Problem
from carver.run import check as reference
from carver.run import compile as compiling
from carver.run.buffers import address, decode, encode
from carver.run.built import compile_hint
from carver.run.check import Differences
from carver.run.compile import c_compiler, compile_source
from carver.run.device import CpuDevice, cores_available, open_device
from carver.run.render import CPU_FLAGS, Source, TensorSpec, concrete
from tests.prepared import Prepared, prepare

UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "float8_e4m3": 2.0**-4,
        "float8_e5m2": 2.0**-3, "int8": 0.0, "int32": 0.0}  # fmt: skip
"""Largest relative error of rounding to nearest."""


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def device() -> CpuDevice:
    opened = open_device("cpu")
    assert isinstance(opened, CpuDevice)
    return opened


def build(device: CpuDevice, problem: Problem, config: Mapping[str, int], **defines: str) -> Prepared:
    (chosen,) = kernel.kernels(problem.operator, "cpu")
    return prepare(concrete(chosen, problem, config, device.arch, defines), device)


def run(device: CpuDevice, built: Prepared, *inputs: np.ndarray) -> np.ndarray:
    """Runs on uploaded inputs with the output and the workspace poisoned; checks that nothing beside it was written."""
    spec = built.program.output
    frame = device.empty((size_bytes(spec.shape, spec.dtype) + 256,), "int8")
    device.fill(frame, 0xFF)
    if built.workspace:
        device.fill(built.workspace, 0xFF)
    buffers = [upload(device, x, t.dtype) for x, t in zip(inputs, built.program.inputs, strict=True)]
    built.loaded.launch(built.pointers(*buffers, frame.pointer + 128))
    raw = frame.owner.view(np.uint8)
    assert (raw[:128] == 0xFF).all() and (raw[-128:] == 0xFF).all(), "wrote beside its output"
    stored = raw[128:-128].view(np.dtype(encode(np.zeros(1), spec.dtype).dtype)).reshape(spec.shape)
    return decode(stored, spec.dtype)


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Random values that the dtype holds exactly."""
    if dtype.startswith("int"):
        return rng.integers(-100, 100, shape)
    return decode(encode(rng.standard_normal(shape), dtype), dtype)


def matmul(
    m: int, n: int, k: int, b: int = 1, dtype: str = "float32", out: str = "", acc: str = "", **options: int
) -> Problem:
    a_index, b_index = ("k,m" if options.get("trans_a") else "m,k"), ("n,k" if options.get("trans_b") else "k,n")
    types = {"A": dtype, "B": dtype, "C": out or dtype}
    acc = acc or {"float64": "float64", "int8": "int32"}.get(dtype, "float32")
    computes = f"C[b,m,n] += A[b,{a_index}] * B[b,{b_index}]"
    return Problem("matmul", computes, {"b": b, "m": m, "n": n, "k": k}, types, acc, options)


def check_matmul(device: CpuDevice, problem: Problem, config: Mapping[str, int]) -> None:
    rng = np.random.default_rng(1)
    built = build(device, problem, config)
    inputs = [values(rng, t.shape, t.dtype) for t in built.program.inputs]
    a, b = (x.astype(np.float64) for x in inputs[:2])
    a = a.swapaxes(-1, -2) if problem.options.get("trans_a") else a
    b = b.swapaxes(-1, -2) if problem.options.get("trans_b") else b
    right, scale = a @ b, np.abs(a) @ np.abs(b)
    if len(inputs) == 3:
        right, scale = right + inputs[2], scale + np.abs(inputs[2])
    activation = problem.options.get("activation", 0)
    right = {
        0: lambda x: x,
        1: lambda x: np.maximum(x, 0),
        2: lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2))),
        3: lambda x: x / (1 + np.exp(-x)),
    }[activation](right)
    got = run(device, built, *inputs)
    out = built.program.output.dtype
    if out == "int8":
        right = np.clip(right, -128, 127)
    bound = UNIT[out] * np.abs(right) + 4 * math.sqrt(problem.sizes["k"]) * UNIT[problem.accumulate] * scale + 1e-7
    if problem.accumulate == "int32":
        bound = np.zeros_like(bound)
    assert got.shape == right.shape
    np.testing.assert_array_less(np.abs(got - right), bound + 1e-300)


SMALL = {"mc": 24, "kc": 64, "nc": 32, "mr": 6, "nr": 16}
SIZES = [(1, 1, 1), (17, 17, 17), (24, 32, 64), (25, 33, 65), (97, 89, 101), (1, 300, 130), (300, 1, 7), (48, 64, 129)]


@pytest.mark.parametrize("m, n, k", SIZES)
def test_matmul_sizes(device: CpuDevice, m: int, n: int, k: int) -> None:
    check_matmul(device, matmul(m, n, k), SMALL)


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_matmul_layouts(device: CpuDevice, trans_a: int, trans_b: int) -> None:
    check_matmul(device, matmul(31, 45, 131, b=3, trans_a=trans_a, trans_b=trans_b), SMALL)


@pytest.mark.parametrize(
    "dtype, out",
    [
        ("float64", "float64"), ("float16", "float16"), ("float16", "float32"), ("bfloat16", "bfloat16"),
        ("float8_e4m3", "float16"), ("float8_e5m2", "bfloat16"), ("int8", "int32"), ("int8", "int8"),
    ],
)  # fmt: skip
def test_matmul_dtypes(device: CpuDevice, dtype: str, out: str) -> None:
    check_matmul(device, matmul(37, 41, 150, dtype=dtype, out=out), SMALL)


def test_integers_are_not_multiplied_by_floats(device: CpuDevice) -> None:
    """Weights of int8 become floats; a product that is summed as an integer is refused, not truncated."""
    types = {"A": "float16", "B": "int8", "C": "float32"}
    sizes, computes = {"b": 1, "m": 5, "n": 7, "k": 70}, "C[b,m,n] += A[b,m,k] * B[b,k,n]"
    check_matmul(device, Problem("matmul", computes, sizes, types), SMALL)
    turned = Problem("matmul", computes, sizes, types | {"A": "int8", "B": "float16"}, "int32")
    (chosen,) = kernel.kernels("matmul", "cpu")
    assert chosen.unmet(static_scope(turned, device.arch))
    with pytest.raises(CompileError, match="no floating-point products"):
        build(device, turned, SMALL)


@pytest.mark.parametrize(("activation", "k"), [(0, 50), (1, 200), (2, 200), (3, 200)])
def test_matmul_epilogue(device: CpuDevice, activation: int, k: int) -> None:
    check_matmul(device, matmul(29, 35, k, b=2, bias=1, activation=activation), SMALL)


@pytest.mark.parametrize(
    "config",
    [
        {"mc": 24, "kc": 64, "nc": 64, "mr": 12, "nr": 32},
        {"mc": 48, "kc": 128, "nc": 64, "mr": 1, "nr": 64},
        {"mc": 96, "kc": 64, "nc": 96, "mr": 8, "nr": 48},
        {"mc": 192, "kc": 1024, "nc": 32, "mr": 4, "nr": 8},
    ],
)
def test_matmul_register_tiles(device: CpuDevice, config: dict[str, int]) -> None:
    check_matmul(device, matmul(101, 67, 150), config)


def test_matmul_any_number_of_threads_gives_the_same_bits(device: CpuDevice) -> None:
    problem, config = matmul(100, 70, 150), SMALL
    rng = np.random.default_rng(2)
    inputs = [values(rng, (1, 100, 150), "float32"), values(rng, (1, 150, 70), "float32")]
    one = CpuDevice(threads=1)
    np.testing.assert_array_equal(
        run(one, build(one, problem, config), *inputs), run(device, build(device, problem, config), *inputs)
    )


@pytest.mark.exhaustive
def test_matmul_reaches_half_of_numpy(device: CpuDevice) -> None:
    """1024^3 in float32, both on all the cores of this process, taking turns; the best of a few configurations."""
    problem = matmul(1024, 1024, 1024)
    rng = np.random.default_rng(9)
    a, b = (rng.standard_normal((1, 1024, 1024), dtype=np.float32) for _ in range(2))
    c = np.empty_like(a)
    lanes = device.arch.simd_bytes // 4
    runs = []
    for mc, nc, mr in [(192, 1024, 6), (96, 1024, 6), (192, 512, 4), (240, 512, 6)]:
        built = build(device, problem, {"mc": mc, "kc": 256, "nc": nc, "mr": mr, "nr": 2 * lanes})
        runs.append((built, built.pointers(a, b, c)))
    ours, numpys = [], []
    for _ in range(15):
        numpys += device.time(lambda: np.matmul(a, b, out=c), 1, cold=False)
        for built, pointers in runs:
            ours += device.time(lambda k=built, p=pointers: k.loaded.launch(p), 1, cold=False)
    ratio = min(numpys) / min(ours)
    print(f"{ratio:.2f} of numpy, {2 * 1024**3 / min(ours) / 1e9:.0f} GFLOP/s")
    assert ratio >= 0.5


def test_register_tile_must_divide(device: CpuDevice) -> None:
    with pytest.raises(CompileError, match="register tiles must divide") as caught:
        build(device, matmul(8, 8, 8), {**SMALL, "mc": 25})
    assert "static assertion" in caught.value.log


# --- gemv -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n, k", [(1, 1), (17, 1000), (67, 31), (8, 129), (1000, 5)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_gemv(device: CpuDevice, n: int, k: int, dtype: str, transposed: bool, bias: bool) -> None:
    computes = f"Y[b,n] += X[b,k] * A[b,{'k,n' if transposed else 'n,k'}]"
    options = {"trans_a": transposed, "bias": bias}
    problem = Problem("gemv", computes, {"b": 2, "n": n, "k": k}, dict.fromkeys("XAY", dtype), options=options)
    built = build(device, problem, {"block_n": 16, "rows": 4, "unroll": 2})
    rng = np.random.default_rng(3)
    inputs = [values(rng, t.shape, dtype).astype(np.float64) for t in built.program.inputs]
    x, a, *added = inputs
    matrix = a.swapaxes(1, 2) if transposed else a
    right = np.einsum("bk,bnk->bn", x, matrix) + sum(added)
    scale = np.einsum("bk,bnk->bn", np.abs(x), np.abs(matrix)) + np.abs(right)
    bound = UNIT[dtype] * np.abs(right) + 4 * math.sqrt(k) * UNIT["float32"] * scale + 1e-7
    np.testing.assert_array_less(np.abs(run(device, built, *inputs) - right), bound)


def test_gemv_adds_a_float_bias_to_integer_sums(device: CpuDevice) -> None:
    types = {"X": "int8", "A": "int8", "Y": "float32"}
    problem = Problem("gemv", "Y[b,n] += X[b,k] * A[b,n,k]", {"b": 1, "n": 9, "k": 64}, types, "int32", {"bias": 1})
    built = build(device, problem, {"block_n": 16, "rows": 4, "unroll": 2})
    got = run(device, built, np.ones((1, 64)), np.ones((1, 9, 64)), np.full(9, 0.5, np.float32))
    np.testing.assert_array_equal(got, 64.5)


# --- elementwise ------------------------------------------------------------------------------------------------


def elementwise(r: int, c: int, dtype: str, *inputs: str) -> Problem:
    computes = f"Y[r,c] = {' + '.join(f'X{i}[{axes}]' for i, axes in enumerate(inputs))}"
    types = {f"X{i}": dtype for i in range(len(inputs))} | {"Y": dtype}
    acc = {"float64": "float64", "int32": "int32"}.get(dtype, "float32")
    return Problem("elementwise", computes, {"r": r, "c": c}, types, acc)


@pytest.mark.parametrize("r, c", [(1, 1), (17, 1), (1, 4099), (13, 1021), (3000, 7)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_elementwise_sums_its_inputs(device: CpuDevice, r: int, c: int, dtype: str) -> None:
    built = build(device, elementwise(r, c, dtype, "r,c", "r,c"), {"block": 1024, "unroll": 2})
    rng = np.random.default_rng(4)
    x, y = values(rng, (r, c), dtype), values(rng, (r, c), dtype)
    right = x.astype(np.float64) + y
    np.testing.assert_allclose(run(device, built, x, y), right, rtol=UNIT[dtype] * 1.01, atol=2e-7)


@pytest.mark.parametrize("r, c", [(1, 1), (5, 2048), (1000, 3), (37, 41)])
def test_elementwise_repeats_rows_and_columns(device: CpuDevice, r: int, c: int) -> None:
    problem = elementwise(r, c, "float32", "r,c", "c", "r")
    built = build(device, problem, {"block": 1024, "unroll": 1}, EXPRESSION="exp(x0) * x1 - x2")
    rng = np.random.default_rng(5)
    x, row, column = (rng.standard_normal(shape, dtype=np.float32) for shape in ((r, c), (c,), (r,)))
    right = np.exp(x.astype(np.float64)) * row - column[:, None]
    np.testing.assert_allclose(run(device, built, x, row, column), right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_expressions_know_the_activations_and_no_unknown_function(device: CpuDevice, dtype: str) -> None:
    problem, config = elementwise(1, 300, dtype, "r,c"), {"block": 1024, "unroll": 1}
    x = np.linspace(-6, 6, 300)[None].astype(dtype)
    built = build(device, problem, config, EXPRESSION="relu(x0) + 2 * gelu(x0) - 3 * silu(x0)")
    right = np.maximum(x, 0) + x * (1 + erf(x / math.sqrt(2))) - 3 * x / (1 + np.exp(-x.astype(np.float64)))
    np.testing.assert_allclose(run(device, built, x), right, atol=1e-5 if dtype == "float32" else 1e-13)
    with pytest.raises(CompileError) as caught:
        build(device, problem, config, EXPRESSION="rleu(x0)")
    assert "rleu" in caught.value.log


@pytest.mark.parametrize("count", [1, 5, 8])
def test_elementwise_inputs(device: CpuDevice, count: int) -> None:
    built = build(device, elementwise(11, 13, "int32", *["r,c"] * count), {"block": 1024, "unroll": 4})
    inputs = [np.full((11, 13), 10**i, np.int32) for i in range(count)]
    np.testing.assert_array_equal(run(device, built, *inputs), sum(inputs))


# --- reductions -------------------------------------------------------------------------------------------------

OPS = ("sum", "max", "mean", "softmax", "layer_norm", "rms_norm")


def reduction(op: str, axis: int, r: int, c: int, dtype: str, out: str) -> Problem:
    norm = OPS.index(op) > 2
    computes = f"Y[{'r' if axis else 'c'}] {'max=' if op == 'max' else '+='} X[r,c]"
    acc = "float64" if dtype == "float64" else "float32"
    options = {"reduce_op": OPS.index(op), "axis": axis, "keeps_shape": int(norm)}
    return Problem("reduction", computes, {"r": r, "c": c}, {"X": dtype, "Y": out}, acc, options)


def reduced(op: str, axis: int, x: np.ndarray) -> np.ndarray:
    match op:
        case "sum" | "max" | "mean":
            return np.asarray(getattr(np, op)(x, axis=axis))
        case "softmax":
            e = np.exp(x - x.max(axis=axis, keepdims=True))
            return e / e.sum(axis=axis, keepdims=True)
        case "layer_norm":
            x = x - x.mean(axis=axis, keepdims=True)
    return x / np.sqrt((x * x).mean(axis=axis, keepdims=True) + 1e-5)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions(device: CpuDevice, op: str, axis: int) -> None:
    for r, c in [(1, 1), (17, 1), (1, 5003), (5003, 1), (67, 129), (130, 64)]:
        problem = reduction(op, axis, r, c, "float32", "float32")
        built = build(device, problem, {"block_r": 16, "block_c": 64, "unroll": 2})
        x = np.random.default_rng(6).standard_normal((r, c), dtype=np.float32) * 3
        right = reduced(op, axis, x.astype(np.float64))
        np.testing.assert_allclose(run(device, built, x), right, rtol=3e-6, atol=3e-5, err_msg=f"{r} x {c}")


@pytest.mark.parametrize("op", ["sum", "max", "mean"])
def test_reductions_of_a_middle_axis(device: CpuDevice, op: str) -> None:
    for shape in [(1, 1, 1), (3, 1, 5), (5, 130, 67), (7, 16, 64), (300, 3, 2)]:
        flat = flat_reduction("SRS", shape, "max=" if op == "max" else "+=", "float32", "float32")
        problem = replace(flat, options={**flat.options, "reduce_op": OPS.index(op)})
        built = build(device, problem, {"block_r": 16, "block_c": 64, "unroll": 2})
        x = np.random.default_rng(6).standard_normal(shape, dtype=np.float32) * 3
        right = reduced(op, 1, x.astype(np.float64))
        np.testing.assert_allclose(run(device, built, x), right, rtol=3e-6, atol=3e-5, err_msg=str(shape))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("parts", [1, 3])
def test_reductions_of_integers_are_exact(device: CpuDevice, axis: int, parts: int) -> None:
    shape = (1, 64 * parts) if axis else (64 * parts, 1)
    x = np.full(shape, 16_777_217, np.int32)
    x.reshape(-1)[5] += 2
    count = x.size
    for op, out, right in [
        ("max", "int32", 16_777_219),
        ("sum", "float64", 16_777_217 * count + 2),
        ("sum", "int32", min(16_777_217 * count + 2, 2**31 - 1)),
        ("mean", "float64", 16_777_217 + 2 / count),
    ]:
        built = build(device, reduction(op, axis, *shape, "int32", out), {"block_r": 64, "block_c": 64, "unroll": 2})
        assert run(device, built, x) == right, (op, out)


@pytest.mark.parametrize("op, dtype, out", [("sum", "float16", "float32"), ("mean", "bfloat16", "bfloat16"),
                                            ("softmax", "float16", "float16"), ("rms_norm", "bfloat16", "bfloat16"),
                                            ("layer_norm", "float64", "float64")])  # fmt: skip
def test_reduction_dtypes(device: CpuDevice, op: str, dtype: str, out: str) -> None:
    axis = int(op in ("mean", "rms_norm"))
    problem = reduction(op, axis, 83, 301, dtype, out)
    built = build(device, problem, {"block_r": 16, "block_c": 64, "unroll": 4})
    x = values(np.random.default_rng(7), (83, 301), dtype)
    right = reduced(op, axis, x.astype(np.float64))
    np.testing.assert_allclose(run(device, built, x), right, rtol=UNIT[out] * 1.1 + 3e-6, atol=1e-4 * UNIT[out] + 1e-5)


def test_softmax_of_large_numbers_is_finite_and_max_keeps_nan(device: CpuDevice) -> None:
    config = {"block_r": 16, "block_c": 64, "unroll": 2}
    x = np.full((2, 100), 1e4, np.float32)
    x[0, 3] = 2e4
    soft = run(device, build(device, reduction("softmax", 1, 2, 100, "float32", "float32"), config), x)
    np.testing.assert_allclose(soft, reduced("softmax", 1, x.astype(np.float64)), rtol=1e-6)
    x[1, 50] = np.nan
    most = run(device, build(device, reduction("max", 1, 2, 100, "float32", "float32"), config), x)
    assert most[0] == 2e4 and np.isnan(most[1])


# --- element types ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3", "float8_e5m2"])
def test_conversions_of_the_kernels_agree_with_those_of_the_host(device: CpuDevice, dtype: str) -> None:
    """Every code of a 16- or 8-bit type, and floats between and beyond them, through a kernel that copies."""
    count = 1 << (16 if dtype.endswith("16") else 8)
    codes = np.arange(count).astype(np.uint16 if count > 256 else np.uint8)
    codes = codes.view(np.float16) if dtype == "float16" else codes
    every = decode(codes, dtype).astype(np.float32)
    widen = Problem("elementwise", "Y[r,c] = X0[r,c]", {"r": 1, "c": count}, {"X0": dtype, "Y": "float32"})
    config = {"block": 1024, "unroll": 1}
    np.testing.assert_array_equal(run(device, build(device, widen, config), codes[None])[0], every)

    finite = np.sort(every[np.isfinite(every)])
    middle = finite[:-1] + (finite[1:] - finite[:-1]) / 2
    x = np.concatenate([finite, middle, np.nextafter(middle, np.float32(9e9)), np.nextafter(middle, np.float32(-9e9))])
    x = np.concatenate([x, np.float32([1e30, -1e30, np.nan, 1e-30, -0.0])]).astype(np.float32)[None]
    narrow = Problem("elementwise", "Y[r,c] = X0[r,c]", {"r": 1, "c": x.size}, {"X0": "float32", "Y": dtype})
    got, want = run(device, build(device, narrow, config), x), decode(encode(x, dtype), dtype)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "dtype, value, stored",
    [
        ("bfloat16", 1.0, 0x3F80), ("bfloat16", 1 + 2**-8, 0x3F80), ("bfloat16", 1 + 3 * 2**-8, 0x3F82),
        ("float8_e4m3", 448, 0x7E), ("float8_e4m3", 1e9, 0x7E), ("float8_e4m3", 2**-9, 0x01), ("float8_e4m3", -1, 0xB8),
        ("float8_e5m2", 57344, 0x7B), ("float8_e5m2", 2**-16, 0x01), ("float8_e5m2", 1.5, 0x3E),
        ("float8_e4m3", 0.0, 0x00), ("float8_e4m3", -0.0, 0x80), ("float8_e4m3", 2**-10, 0x00),
        ("float8_e4m3", 3 * 2**-10, 0x02), ("float8_e4m3", 0.99 * 2**-6, 0x08), ("float8_e4m3", 1.9375, 0x40),
        ("float8_e4m3", np.nan, 0x7F), ("float8_e5m2", -np.inf, 0xFB), ("float8_e5m2", 1.875, 0x40),
        ("int8", 200.0, 127), ("int8", -3.5, -4), ("float16", 65504, 65504),
    ],
)  # fmt: skip
def test_encode(dtype: str, value: float, stored: int) -> None:
    assert encode([value], dtype)[0] == stored


def test_stored_bits_are_left_alone(device: CpuDevice) -> None:
    bits = np.array([0x3F80, 0xC000], np.uint16)
    np.testing.assert_array_equal(device.download(upload(device, bits, "bfloat16")), [1.0, -2.0])


# --- arrays that users pass -------------------------------------------------------------------------------------


def test_kernel_is_called_with_arrays_and_allocates_its_output(device: CpuDevice) -> None:
    built = compile_hint(MatmulTemplate(20, 30, 40, in_dtype="float32").with_arch("cpu").recommend_hints(1)[0])
    rng = np.random.default_rng(8)
    a, b = rng.standard_normal((1, 20, 40), dtype=np.float32), rng.standard_normal((1, 40, 30), dtype=np.float32)
    c = built(a, b)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)
    out = np.zeros_like(c)
    assert built(a, b, out) is out
    np.testing.assert_array_equal(out, c)
    np.testing.assert_array_equal(built(a[0], b[0]), c[0])  # a batch of one may be left out
    flat = np.zeros_like(c[0])
    assert built(a, b, flat) is flat and (flat == c[0]).all()
    assert built.source.path.name == "cpu.c" and built.compile().path.is_file()


@pytest.mark.parametrize(
    "array, said",
    [
        (np.zeros((3, 4)), "contiguous float32 array of shape .3, 4., got float64"),
        (np.zeros((4, 3), np.float32), r"got float32 \(4, 3\)"),
        (np.zeros(4, np.float32), r"got float32 \(4,\)"),
        (np.zeros((1, 3, 4), np.float32), r"got float32 \(1, 3, 4\)"),
        (np.zeros((4, 3), np.float32).T, "not contiguous"),
        ([1.0], "A is a list; a kernel on cpu takes torch tensors or NumPy arrays"),
    ],
)
def test_unfit_arrays_are_refused(array: object, said: str) -> None:
    with pytest.raises(RunError, match=said):
        address(array, TensorSpec("A", (3, 4), "float32", 16), "cpu")


def test_wrong_number_of_arrays(device: CpuDevice) -> None:
    built = compile_hint(MatmulTemplate(20, 30, 40, in_dtype="float32").with_arch("cpu").recommend_hints(1)[0])
    with pytest.raises(RunError, match=r"takes A, B, C \(outputs, which may be left out: C\); got 1 arguments"):
        built(np.zeros((1, 20, 40), np.float32))


# --- the device -------------------------------------------------------------------------------------------------


def test_time_gives_one_positive_sample_a_run(device: CpuDevice) -> None:
    runs = []
    for cold in (True, False):
        samples = device.time(lambda: runs.append(1), 5, cold=cold)
        assert 1 <= len(samples) <= 5 and all(s > 0 for s in samples), "runs that lost a core are left out"
    assert len(runs) == 10


def test_caches_are_emptied_before_each_cold_run(monkeypatch: pytest.MonkeyPatch) -> None:
    device, log = CpuDevice(1), []
    monkeypatch.setattr(device, "_stream", lambda size: log.append("flush"))
    device.time(lambda: log.append("run"), 2)
    device.time(lambda: log.append("run"), 1, cold=False)
    assert log == ["flush", "run"] * 2 + ["run"]


def test_state_says_threads_and_compiler(device: CpuDevice) -> None:
    state = device.state()
    assert state["threads"] == device.threads and state["compiler"] == c_compiler().version
    assert json.loads(json.dumps(state)) == state


def test_threads_must_exist() -> None:
    with pytest.raises(DeviceError, match="threads must be from 1 to"):
        CpuDevice(threads=cores_available() + 1)


def test_no_device_of_that_name() -> None:
    with pytest.raises(ConfigError, match="no device 'tpu'"):
        open_device("tpu")


def test_config_with_a_missing_tunable(device: CpuDevice) -> None:
    with pytest.raises(ConfigError, match="missing or unknown: nr"):
        build(device, matmul(8, 8, 8), {k: v for k, v in SMALL.items() if k != "nr"})


# --- compiler and cache -----------------------------------------------------------------------------------------


@pytest.fixture
def answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "answer.c"
    path.write_text("#ifndef ANSWER\n#define ANSWER 1\n#endif\nint answer(void) { return ANSWER; }\n")
    return Source(path, {"ANSWER": "42"}, CPU_FLAGS, ("answer",), "native")


def key_of(source: Source) -> str:
    return source.key(c_compiler().identity)


def kept(source: Source) -> Any:
    return json.loads(store.get(compiling.KIND, [key_of(source)])[key_of(source)] or "")


@pytest.mark.parametrize("path", sorted(folder("templates").glob("*/*.c")), ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_a_source_compiles_alone_without_a_warning(path: Path) -> None:
    flags = (*CPU_FLAGS, "-Wall", "-Wextra", "-Werror")
    assert compile_source(Source(path, MappingProxyType({}), flags, (), "native"), c_compiler()).path.is_file()


def test_second_compilation_comes_from_the_cache(answer: Source) -> None:
    first, second = (compile_source(answer, c_compiler()) for _ in range(2))
    assert (first.cached, second.cached) == (False, True)
    assert (first.path, first.sha256) == (second.path, second.sha256)
    assert first.path.stat().st_mode & 0o077 == 0 and first.path.parent.stat().st_mode & 0o077 == 0


def test_key_changes_with_all_that_matters(answer: Source, tmp_path: Path) -> None:
    keys = {answer.key("1"), answer.key("2")}
    keys.add(Source(answer.path, {"ANSWER": "43"}, answer.flags, answer.entries, answer.isa).key("1"))
    keys.add(Source(answer.path, answer.defines, (*answer.flags, "-g"), answer.entries, answer.isa).key("1"))
    keys.add(Source(answer.path, answer.defines, answer.flags, answer.entries, "sm_90").key("1"))
    answer.path.write_text(answer.path.read_text() + "\n")
    keys.add(answer.key("1"))
    for name in ("NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(name, "-g")
            keys.add(answer.key("1"))
    assert len(keys) == 11


@pytest.mark.parametrize(
    ("directive", "flags", "file"),
    [
        ('#include "beside.inc"', (), "beside.inc"),
        ('#include "below/x.hpp"', (), "below/x.hpp"),
        ('#include "../above.h"', (), "../above.h"),
        ("#  include <away.h>", ("-I{tmp}/away",), "away/away.h"),
        ("#  include <away.h>", ("-I", "{tmp}/away"), "away/away.h"),
        ('#include "middle.h"', (), "deep/answer.h"),
        ('#define HEADER "named.h"\n#include HEADER', (), "named.h"),
        ("#include GIVEN", ('-DGIVEN="given.h"', "-I."), "given.h"),
        ("", ("-include", "{tmp}/kernels/forced.h"), "forced.h"),
        ("", ("-imacros", "{tmp}/kernels/forced.h"), "forced.h"),
        *(
            ("#include <away.h>", flags, "away/away.h")
            for flags in (
                ("-idirafter", "{tmp}/away"), ("-idirafter{tmp}/away",), ("-iquote{tmp}/none", "-isystem{tmp}/away"),
                ("-Wp,-I{tmp}/away",), ("-Wp,-isystem,{tmp}/away",), ("-Xpreprocessor", "-I{tmp}/away"),
                ("--include-directory={tmp}/away",), ("--include-directory-after", "{tmp}/away"),
            )
        ),
        ("", ("-Wp,-include,{tmp}/away/away.h",), "away/away.h"),
    ],
)
def test_an_edited_header_is_compiled_anew(
    answer: Source, tmp_path: Path, directive: str, flags: tuple[str, ...], file: str
) -> None:
    home = tmp_path / "kernels"
    home.mkdir()
    header = tmp_path / file if file.startswith("away") else home / file
    header.parent.mkdir(exist_ok=True)
    (home / "middle.h").write_text('#include "deep/answer.h"\n')
    (home / "answer.c").write_text(f"{directive}\nint answer(void) {{ return VALUE; }}\n")
    given = {k[2:]: v for k, _, v in (f.partition("=") for f in flags) if k.startswith("-D")}
    extra = [f.replace("{tmp}", str(tmp_path)) for f in flags if not f.startswith("-D")]
    source = replace(answer, path=home / "answer.c", defines=given, flags=(*answer.flags, *extra))
    for value in (1, 2):
        header.write_text(f"#define VALUE {value}\n")
        built = compile_source(source, c_compiler())
        assert not built.cached and ctypes.CDLL(str(built.path)).answer() == value
    assert compile_source(source, c_compiler()).cached


def test_an_edited_object_is_linked_anew(answer: Source, tmp_path: Path) -> None:
    answer.path.write_text("int value(void);\nint answer(void) { return value(); }\n")
    archive = (f"-L{tmp_path}", "-lvalue")
    source = replace(answer, flags=(*answer.flags, "-Wl,--whole-archive", *archive, "-Wl,--no-whole-archive"))
    for value in (1, 2):
        (tmp_path / "value.c").write_text(f"int value(void) {{ return {value}; }}\n")
        for made in (["cc", "-fPIC", "-c", "value.c"], ["ar", "rcs", "libvalue.a", "value.o"]):
            subprocess.run(made, cwd=tmp_path, check=True)
        for each in (source, replace(answer, flags=(*answer.flags, str(tmp_path / "value.o")))):
            assert ctypes.CDLL(str(compile_source(each, c_compiler()).path)).answer() == value


def test_a_header_that_now_hides_another_is_seen(answer: Source, tmp_path: Path, monkeypatch: Any) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("CPATH", f"{tmp_path}/first:{tmp_path}/second")
    answer.path.write_text("#include <where.h>\nint answer(void) { return WHERE; }\n")
    for value, name in ((2, "second"), (1, "first")):
        (tmp_path / name / "where.h").write_text(f"#define WHERE {value}\n")
        assert ctypes.CDLL(str(compile_source(answer, c_compiler()).path)).answer() == value


def damage(how: str, source: Source) -> None:
    blobs, entry = cache_folder() / store.BLOBS, kept(source)
    binary = blobs / entry["binary"]
    match how:
        case "binary":
            binary.write_bytes(b"\x7fELF damaged")
        case "no binary":
            binary.unlink()
        case "a pipe":
            binary.unlink()
            os.mkfifo(binary)
        case "cut":
            store.put(compiling.KIND, key_of(source), json.dumps(entry).encode()[:20])
        case "elsewhere":
            evil = cache_folder() / f"{hashlib.sha256(b'evil').hexdigest()}.so"
            evil.write_bytes(b"evil")
            store.put(compiling.KIND, key_of(source), json.dumps(entry | {"binary": f"../{evil.name}"}).encode())


@pytest.mark.parametrize("how", ["binary", "no binary", "a pipe", "cut", "elsewhere"])
def test_damaged_entries_are_built_again(answer: Source, how: str) -> None:
    good = compile_source(answer, c_compiler())
    damage(how, answer)
    again = compile_source(answer, c_compiler())
    assert not again.cached and again.path.parent == good.path.parent
    assert hashlib.sha256(again.path.read_bytes()).hexdigest() == again.sha256
    assert compile_source(answer, c_compiler()).cached


def test_a_folder_that_others_can_write_to_is_refused(answer: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = compile_source(answer, c_compiler()).path.parent
    folder.chmod(0o777)
    with pytest.raises(DeviceError, match=r"can be written to by others.*CARVER_CACHE_DIR"):
        compile_source(answer, c_compiler())
    folder.chmod(0o700)
    if os.getuid():
        pytest.skip("only root can give a folder away")
    os.chown(folder, 4321, -1)
    with pytest.raises(DeviceError, match="belongs to another user"):
        compile_source(answer, c_compiler())
    monkeypatch.setenv("CARVER_TRUST_CACHE", str(folder.parent))
    assert compile_source(answer, c_compiler()).cached


def test_a_compiler_may_say_what_is_no_utf_8(tmp_path: Path, answer: Source) -> None:
    answer.path.write_bytes(b"#error caf\xe9 latin\n")
    odd = tmp_path / "odd"
    odd.write_bytes(b"#!/bin/sh\nprintf 'caf\\351'; exit 1\n")
    odd.chmod(0o700)
    for compiler in (c_compiler(), compiling.Compiler("cc", odd, "0")):
        with pytest.raises(CompileError, match="caf"):
            compile_source(answer, compiler)


def test_compile_error_carries_the_log(answer: Source) -> None:
    answer.path.write_text("int answer(void) { return missing; }\n")
    with pytest.raises(CompileError) as caught:
        compile_source(answer, c_compiler())
    assert "missing" in caught.value.log and "answer.c" in str(caught.value)
    assert [p.name for p in (cache_folder() / store.BLOBS).iterdir()] == []


def test_a_compiler_that_hangs_is_stopped(answer: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o700)
    monkeypatch.setattr(compiling, "TIMEOUT_S", 0.2)
    with pytest.raises(CompileError, match=r"stopped after 0\.2 s"):
        compile_source(answer, compiling.Compiler("cc", slow, "0"))
    monkeypatch.setattr(compiling, "TIMEOUT_S", 60.0)
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(CompileTimeout):
        compile_source(answer, compiling.Compiler("cc", slow, "0"), None, stop)


def script(path: Path, text: str) -> compiling.Compiler:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return compiling.Compiler("cc", path, path.read_text())


@pytest.mark.parametrize(
    "said",
    [
        "kill -9 $$",
        "echo 'answer.c:1: fatal error: error writing to /tmp/cc.s: No space left on device' >&2; exit 1",
        "echo 'gcc: fatal error: Killed signal terminated program cc1' >&2; exit 1",
        "echo 'cc1: out of memory allocating 65536 bytes after a total of 12345 bytes' >&2; exit 1",
        "echo 'answer.c:9:1: internal compiler error: Segmentation fault' >&2; exit 1",
        "exit 4",
    ],
)
def test_what_a_compiler_lacks_says_nothing_of_the_source(answer: Source, tmp_path: Path, said: str) -> None:
    once = f"test -e {tmp_path}/asked || {{ touch {tmp_path}/asked; {said}; }}"
    assert compile_source(answer, script(tmp_path / "once", f"({once}) || exit $?; exec cc \"$@\"")).path.is_file()
    with pytest.raises(CompilerFailed):
        compile_source(answer, script(tmp_path / "always", said))
    assert issubclass(CompilerFailed, CompileError)


def test_a_compiler_that_prints_without_end_costs_no_memory(answer: Source, tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        compile_source(answer, script(tmp_path / "loud", "echo 'x.c:1: error: this'; yes | head -c 300000000; exit 1"))
    assert len(caught.value.log) <= 2 << 20


def test_a_compiler_in_a_session_of_its_own_ends_with_the_time(answer: Source, tmp_path: Path) -> None:
    compiler = script(tmp_path / "hidden", f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 600' & sleep 600")
    with pytest.raises(CompileTimeout):
        compile_source(answer, compiler, 1.0)
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()


def test_what_a_killed_compilation_leaves_is_swept(answer: Source) -> None:
    home = private(store.BLOBS)
    code = (
        "import sys; from pathlib import Path; from carver.base.folders import scratch\n"
        "with scratch(Path(sys.argv[1]), 'building-'):\n    print('in', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(home)], stdin=-1, stdout=-1)
    assert child.stdout is not None and child.stdout.readline() == b"in\n"
    compile_source(answer, c_compiler())
    assert len(list(home.glob("building-*"))) == 2, "it lives"
    child.kill()
    child.wait()
    with scratch(home, "building-"):
        assert len(list(home.glob("building-*"))) == 2
    assert not list(home.glob("building-*"))


def test_the_cache_is_private_whatever_the_umask(answer: Source) -> None:
    before = os.umask(0)
    try:
        path = compile_source(answer, c_compiler()).path
    finally:
        os.umask(before)
    assert all(p.stat().st_mode & 0o077 == 0 for p in (path, path.parent, path.parent.parent))
    path.parent.parent.chmod(0o770)
    with pytest.raises(DeviceError, match=r"can be written to by others.*chmod go-w"):
        compile_source(answer, c_compiler())


def test_a_binary_is_looked_at_again_before_it_is_loaded(answer: Source) -> None:
    binary = compile_source(answer, c_compiler())
    binary.checked()
    binary.path.chmod(0o666)
    with pytest.raises(DeviceError, match="can be written to by others"):
        binary.checked()
    binary.path.chmod(0o600)
    binary.path.write_bytes(binary.path.read_bytes() + b"\0")
    with pytest.raises(RunError, match="is not the file that was compiled"):
        binary.checked()


@pytest.mark.parametrize("flag", [
    "@flags", "-fplugin=evil.so", "-specs=mine", "-wrapper", "-B/tmp", "--sysroot=/tmp", "-isysroot", "-iprefix",
    "-iwithprefixbefore", "-Wp,-iprefix,/tmp", "-Xcompiler=-fplugin=evil.so",
])  # fmt: skip
def test_flags_that_no_key_covers_are_refused(answer: Source, flag: str) -> None:
    with pytest.raises(KernelError, match="of which the cache would not see a change"):
        compile_source(replace(answer, flags=(*answer.flags, flag)), c_compiler())


def test_missing_compilers_say_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CC", "CARVER_NVCC", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(compiling, "_find_nvrtc", lambda: None)
    monkeypatch.setattr(compiling, "_USUAL_CUDA", str(tmp_path))
    with pytest.raises(DeviceError, match="apt install gcc"):
        c_compiler()
    with pytest.raises(DeviceError, match="install the CUDA toolkit"):
        compiling.cuda_compiler()
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(DeviceError, match=r"CC=.no-such-compiler"):
        c_compiler()


def test_a_sum_beyond_half_precision_is_right_only_as_infinity() -> None:
    problem = carver.MatmulTemplate(1, 3, 256, in_dtype="int8", out_dtype="float16").problem
    right = reference.representable(problem, np.array([[1.0, 7e4, -7e4]]))
    assert right.tolist() == [[1.0, np.inf, -np.inf]]
    allowed = np.full((1, 3), np.inf)
    assert Differences(np.array([[1.0, np.inf, -np.inf]]), right, allowed).error == 0
    assert Differences(np.array([[1.0, np.inf, -6e4]]), right, allowed).error == np.inf


def test_a_smooth_activation_into_integers_may_round_either_way() -> None:
    problem = carver.MatmulTemplate(8, 8, 16, in_dtype="int8", out_dtype="int8", activation="silu").problem
    value = np.array([2.5])
    assert 0.5 < reference.tolerance_exact(problem, value)[0] < 0.6


@pytest.mark.parametrize(("taken", "left"), [([0, 0, 0, 1, 1, 1], 2), ([0, 1, 1, 2, 2, 3], 3)])
def test_runs_that_lost_a_core_are_not_timed(monkeypatch: pytest.MonkeyPatch, taken: list[int], left: int) -> None:
    counts = iter(taken)
    monkeypatch.setattr("carver.run.device.cores_taken", lambda: next(counts))
    device = CpuDevice(1)
    assert len(device.time(lambda: None, 3, cold=False)) == left
    assert device.disturbed_percent() == (100 if left == 3 else 0)
    assert device.disturbed_percent() is None, "counted since the last call"
