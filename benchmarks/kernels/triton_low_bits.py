"""Matmuls of weights in few bits, and of operands with a scale a row or a tensor, as serving engines write them."""

import triton
import triton.language as tl


@triton.jit
def _tile(M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """Rows and columns of this program's tile; GROUP_M rows of tiles are walked together."""
    pid, width = tl.program_id(0), GROUP_M * tl.cdiv(N, BLOCK_N)
    first = pid // width * GROUP_M
    size = min(tl.cdiv(M, BLOCK_M) - first, GROUP_M)
    m = (first + pid % width % size) * BLOCK_M + tl.arange(0, BLOCK_M)
    return m, pid % width // size * BLOCK_N + tl.arange(0, BLOCK_N)


@triton.jit(do_not_specialize=["M"])
def weights(
    a_ptr, b_ptr, scale_ptr, zero_ptr, c_ptr, part_ptr, M, N, K,
    BITS: tl.constexpr, GROUP: tl.constexpr, ZEROS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr, SPLIT_K: tl.constexpr,
):  # fmt: skip
    """A in 16 bits times weights of BITS: of 4, eight along K lie in a word. A scale a column and GROUP of K is
    multiplied before the product; without groups a scale a column, after the sum."""
    EACH: tl.constexpr = 8 if BITS == 4 else 1
    part = tl.program_id(1)
    m, n = _tile(M, N, BLOCK_M, BLOCK_N, GROUP_M)
    steps = tl.cdiv(K, BLOCK_K * SPLIT_K)
    a = a_ptr + (m % M)[:, None] * K + (part * steps * BLOCK_K + tl.arange(0, BLOCK_K))[None, :]
    words = part * steps * (BLOCK_K // EACH) + tl.arange(0, BLOCK_K // EACH)
    b = b_ptr + words[:, None] * N + (n % N)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(part * steps, part * steps + steps):
        x, w = tl.load(a), tl.load(b)
        if BITS == 4:
            w = (w[:, None, :] >> (tl.arange(0, EACH) * BITS)[None, :, None]) & 15
            w = tl.reshape(w, (BLOCK_K, BLOCK_N))
            if not ZEROS:
                w -= 8
        w = w.to(x.dtype)
        if GROUP:
            at = step * BLOCK_K // GROUP * N + n % N
            if ZEROS:
                w -= tl.load(zero_ptr + at)[None, :]
            w *= tl.load(scale_ptr + at)[None, :]
        total = tl.dot(x, w, total)
        a += BLOCK_K
        b += BLOCK_K // EACH * N
    if not GROUP:
        total *= tl.load(scale_ptr + n % N)[None, :]
    inside = (m[:, None] < M) & (n[None, :] < N)
    to = m.to(tl.int64)[:, None] * N + n[None, :]
    if SPLIT_K > 1:
        tl.store(part_ptr + part.to(tl.int64) * M * N + to, total, mask=inside)
    else:
        tl.store(c_ptr + to, total.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["M"])
def rows_scaled(
    a_ptr, b_ptr, row_ptr, column_ptr, c_ptr, M, N, K,
    PER_ROW: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """Operands of 8 bits, B stored N x K; the sum times a scale a row of A and of B, or times one of each tensor."""
    m, n = _tile(M, N, BLOCK_M, BLOCK_N, GROUP_M)
    k = tl.arange(0, BLOCK_K)
    a = a_ptr + (m % M)[:, None] * K + k[None, :]
    b = b_ptr + (n % N)[None, :] * K + k[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, tl.cdiv(K, BLOCK_K)):
        left = K - start * BLOCK_K
        x = tl.load(a, mask=k[None, :] < left, other=0.0)
        total = tl.dot(x, tl.load(b, mask=k[:, None] < left, other=0.0), total)
        a += BLOCK_K
        b += BLOCK_K
    if PER_ROW:
        total *= tl.load(row_ptr + m, mask=m < M, other=0.0)[:, None]
        total *= tl.load(column_ptr + n, mask=n < N, other=0.0)[None, :]
    else:
        total *= tl.load(row_ptr) * tl.load(column_ptr)
    to = m.to(tl.int64)[:, None] * N + n[None, :]
    tl.store(c_ptr + to, total.to(c_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def add_parts(part_ptr, c_ptr, size, SPLIT_K: tl.constexpr, BLOCK: tl.constexpr):
    """The sum of what the parts of K gave."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for part in tl.static_range(SPLIT_K):
        total += tl.load(part_ptr + part * size + at, mask=at < size, other=0.0)
    tl.store(c_ptr + at, total.to(c_ptr.dtype.element_ty), mask=at < size)


@triton.jit
def block_scaled(
    a_ptr, b_ptr, a_scale_ptr, b_scale_ptr, c_ptr, M, N, K,
    KIND: tl.constexpr, GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    """MX and NV formats: a scale a row and GROUP of K of A and of B, which is stored N x K, within the instruction."""
    m, n = _tile(M, N, BLOCK_M, BLOCK_N, GROUP_M)
    EACH: tl.constexpr = 2 if KIND == "e2m1" else 1
    k, parts = tl.arange(0, BLOCK_K // EACH), tl.arange(0, BLOCK_K // GROUP)
    a = a_ptr + (m % M)[:, None] * (K // EACH) + k[None, :]
    b = b_ptr + (n % N)[None, :] * (K // EACH) + k[:, None]
    a_scale = a_scale_ptr + (m % M)[:, None] * (K // GROUP) + parts[None, :]
    b_scale = b_scale_ptr + (n % N)[:, None] * (K // GROUP) + parts[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, tl.cdiv(K, BLOCK_K)):
        x, w = tl.load(a), tl.load(b)
        total = tl.dot_scaled(x, tl.load(a_scale), KIND, w, tl.load(b_scale), KIND, total)
        a += BLOCK_K // EACH
        b += BLOCK_K // EACH
        a_scale += BLOCK_K // GROUP
        b_scale += BLOCK_K // GROUP
    to = m.to(tl.int64)[:, None] * N + n[None, :]
    tl.store(c_ptr + to, total.to(c_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))
