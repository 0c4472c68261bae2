"""Kernels in Triton as its tutorials write them, for its compiler to show what it makes of them."""

import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, M, N, K, lda, ldb, ldc, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """C = A B."""
    rows, cols = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_at = a + (rows % M)[:, None] * lda + depth[None, :]
    b_at = b + depth[:, None] * ldb + (cols % N)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        left = K - k * BLOCK_K
        x = tl.load(a_at, mask=depth[None, :] < left, other=0.0)
        total = tl.dot(x, tl.load(b_at, mask=depth[:, None] < left, other=0.0), total)
        a_at += BLOCK_K
        b_at += BLOCK_K * ldb
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c + rows[:, None] * ldc + cols[None, :], total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def _linear(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows, cols = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + depth
        x = tl.load(a + (rows % M)[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
        total = tl.dot(x, tl.load(b + (cols % N)[None, :] * K + k[:, None], mask=k[:, None] < K, other=0.0), total)
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c + rows[:, None] * N + cols[None, :], total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def linear(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """C = A B^T."""
    _linear(a, b, c, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K)


@triton.jit
def linear_of_constants(
    a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The same, of sizes that the compiler sees."""
    _linear(a, b, c, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K)


@triton.jit
def gated(a, b, b2, c, M, N, K, lda, ldb, ldc, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """C = silu(A B) * (A B2)."""
    rows, cols = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_at = a + (rows % M)[:, None] * lda + depth[None, :]
    offset = depth[:, None] * ldb + (cols % N)[None, :]
    gate = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    up = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        left = K - k * BLOCK_K
        x = tl.load(a_at, mask=depth[None, :] < left, other=0.0)
        gate = tl.dot(x, tl.load(b + offset, mask=depth[:, None] < left, other=0.0), gate)
        up = tl.dot(x, tl.load(b2 + offset, mask=depth[:, None] < left, other=0.0), up)
        a_at += BLOCK_K
        offset += BLOCK_K * ldb
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    out = gate * tl.sigmoid(gate) * up
    tl.store(c + rows[:, None] * ldc + cols[None, :], out.to(c.dtype.element_ty), mask=inside)


@triton.jit
def row_sums(x_at, y_at, rows, cols, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr):
    r = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    total = tl.zeros((BLOCK_ROWS, BLOCK_COLS), tl.float32)
    for start in range(0, cols, BLOCK_COLS):
        c = start + tl.arange(0, BLOCK_COLS)
        inside = (r[:, None] < rows) & (c[None, :] < cols)
        total += tl.load(x_at + r[:, None] * cols + c[None, :], mask=inside, other=0.0).to(tl.float32)
    tl.store(y_at + r, tl.sum(total, 1), mask=r < rows)
