"""Triton kernels whose machine instructions one can count by hand."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def vadd(x, y, z, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(z + i, tl.load(x + i) + tl.load(y + i))


@triton.jit
def exponential(x, z, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(z + i, tl.exp2(tl.load(x + i)))


@triton.jit
def one_dot(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n[None, :])
    tl.store(c + m[:, None] * N + n[None, :], tl.dot(x, y))


@triton.jit
def row_maximum(x, z, n, B: tl.constexpr):
    """Two loads an iteration, in a loop that compilers cannot count."""
    i = tl.arange(0, B)
    most = tl.zeros((B,), tl.float32)
    at = tl.program_id(0)
    while at < n:
        most = tl.maximum(most, tl.load(x + at * B + i) * tl.load(z + at * B + i))
        at = at * 2 + 1
    tl.store(z + tl.program_id(0) * B + i, most)


@triton.jit
def matmul(a, b, c, N, K, M: tl.constexpr, W: tl.constexpr, D: tl.constexpr):
    m = tl.program_id(0) * M + tl.arange(0, M)
    n = tl.program_id(1) * W + tl.arange(0, W)
    k = tl.arange(0, D)
    pa = a + m[:, None] * K + k[None, :]
    pb = b + k[:, None] * N + n[None, :]
    acc = tl.zeros((M, W), tl.float32)
    for _ in range(0, K, D):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc)
        pa += D
        pb += D * N
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16))
