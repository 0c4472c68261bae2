"""The Triton kernels that templates/*/triton.toml describe, as Triton's tutorials, vLLM and SGLang write such kernels.

The transpose is in `triton_transpose.py`.
"""

import triton
import triton.language as tl


@triton.jit
def matmul(
    a_at, b_at, c_at, M, N, K, a_b, a_m, a_k, b_b, b_k, b_n,
    SUM: tl.constexpr, PRECISION: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, SPLIT_K: tl.constexpr,
):  # fmt: skip
    tile, split, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rows, cols = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    panel = tile // (GROUP_M * cols)
    height = min(rows - panel * GROUP_M, GROUP_M)
    inside = tile % (GROUP_M * cols)
    row, col = panel * GROUP_M + inside % height, inside // height
    m = row * BLOCK_M + tl.arange(0, BLOCK_M)
    n = col * BLOCK_N + tl.arange(0, BLOCK_N)
    steps = tl.cdiv(tl.cdiv(K, BLOCK_K), SPLIT_K)
    first = split * steps * BLOCK_K
    k = first + tl.arange(0, BLOCK_K)
    a = a_at + batch.to(tl.int64) * a_b + (m % M)[:, None] * a_m + k[None, :] * a_k
    b = b_at + batch.to(tl.int64) * b_b + k[:, None] * b_k + (n % N)[None, :] * b_n
    total = tl.zeros((BLOCK_M, BLOCK_N), SUM)
    for step in range(steps):
        left = K - first - step * BLOCK_K
        x = tl.load(a, mask=tl.arange(0, BLOCK_K)[None, :] < left, other=0.0)
        y = tl.load(b, mask=tl.arange(0, BLOCK_K)[:, None] < left, other=0.0)
        total = tl.dot(x, y.to(x.dtype), total, input_precision=PRECISION, out_dtype=SUM)
        a += BLOCK_K * a_k
        b += BLOCK_K * b_k
    at_c = c_at + (split * tl.num_programs(2) + batch).to(tl.int64) * M * N + m.to(tl.int64)[:, None] * N + n[None, :]
    tl.store(at_c, total.to(c_at.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def scaled_matmul(
    a_at, b_at, c_at, a_scale_at, b_scale_at, M, N, K, a_m, a_k, b_n, b_k, as_m, as_k, bs_n, bs_k,
    SUM: tl.constexpr, SCALE_N: tl.constexpr, SCALE_K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """C = A B^T, a scale for each row and SCALE_K of A, one for each SCALE_N by SCALE_K of B."""
    tile = tl.program_id(0)
    rows, cols = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    panel = tile // (GROUP_M * cols)
    height = min(rows - panel * GROUP_M, GROUP_M)
    inside = tile % (GROUP_M * cols)
    m = ((panel * GROUP_M + inside % height) * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    n = (inside // height * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, BLOCK_K)
    a = a_at + m[:, None] * a_m + k[None, :] * a_k
    b = b_at + k[:, None] * b_k + n[None, :] * b_n
    a_scale = a_scale_at + m * as_m
    b_scale = b_scale_at + n // SCALE_N * bs_n
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        left = K - step * BLOCK_K
        x = tl.load(a, mask=k[None, :] < left, other=0.0)
        y = tl.load(b, mask=k[:, None] < left, other=0.0)
        block = step * BLOCK_K // SCALE_K
        of_a, of_b = tl.load(a_scale + block * as_k), tl.load(b_scale + block * bs_k)
        total += tl.dot(x, y, out_dtype=SUM).to(tl.float32) * of_a[:, None] * of_b[None, :]
        a += BLOCK_K * a_k
        b += BLOCK_K * b_k
    out_m = (panel * GROUP_M + inside % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    out_n = inside // height * BLOCK_N + tl.arange(0, BLOCK_N)
    at_c = c_at + out_m[:, None] * N + out_n[None, :]
    tl.store(at_c, total.to(c_at.dtype.element_ty), mask=(out_m[:, None] < M) & (out_n[None, :] < N))


@triton.jit
def grouped_matmul(
    a_at, b_at, c_at, rows_at, experts_at, N, K, tokens, topk, a_m, a_k, b_e, b_n, b_k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """Rows of A are gathered by expert through a list that is padded to whole tiles."""
    tile = tl.program_id(0)
    rows, cols = tl.num_programs(0) // tl.cdiv(N, BLOCK_N), tl.cdiv(N, BLOCK_N)
    panel = tile // (GROUP_M * cols)
    height = min(rows - panel * GROUP_M, GROUP_M)
    inside = tile % (GROUP_M * cols)
    row = panel * GROUP_M + inside % height
    listed = tl.load(rows_at + row * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    real = listed < tokens
    expert = tl.load(experts_at + row).to(tl.int64)
    n = (inside // height * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)) % N
    k = tl.arange(0, BLOCK_K)
    a = a_at + (listed[:, None] // topk * a_m + k[None, :] * a_k)
    b = b_at + expert * b_e + (k[:, None] * b_k + n[None, :] * b_n)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        left = K - step * BLOCK_K
        x = tl.load(a, mask=real[:, None] & (k[None, :] < left), other=0.0)
        y = tl.load(b, mask=k[:, None] < left, other=0.0)
        total = tl.dot(x, y, total)
        a += BLOCK_K * a_k
        b += BLOCK_K * b_k
    out_n = inside // height * BLOCK_N + tl.arange(0, BLOCK_N)
    at_c = c_at + listed[:, None] * N + out_n[None, :]
    tl.store(at_c, total.to(c_at.dtype.element_ty), mask=real[:, None] & (out_n[None, :] < N))


@triton.jit
def gated_mlp(
    a_at, w_at, c_at, M, N, K, a_m, w_u, w_k, w_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """C = silu(A W0) * (A W1)."""
    tile = tl.program_id(0)
    rows, cols = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    panel = tile // (GROUP_M * cols)
    height = min(rows - panel * GROUP_M, GROUP_M)
    inside = tile % (GROUP_M * cols)
    m = (panel * GROUP_M + inside % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = inside // height * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a = a_at + (m % M)[:, None] * a_m + k[None, :]
    w = w_at + k[:, None] * w_k + (n % N)[None, :] * w_n
    gate = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    up = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        left = K - step * BLOCK_K
        x = tl.load(a, mask=k[None, :] < left, other=0.0)
        gate = tl.dot(x, tl.load(w, mask=k[:, None] < left, other=0.0), gate)
        up = tl.dot(x, tl.load(w + w_u, mask=k[:, None] < left, other=0.0), up)
        a += BLOCK_K
        w += BLOCK_K * w_k
    out = gate * tl.sigmoid(gate) * up
    at_c = c_at + m[:, None] * N + n[None, :]
    tl.store(at_c, out.to(c_at.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def _product(a, b, columns, K, b_k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    k = tl.arange(0, BLOCK_K)
    for step in range(tl.cdiv(K, BLOCK_K)):
        left = K - step * BLOCK_K
        x = tl.load(a, mask=k[None, :] < left, other=0.0)
        y = tl.load(b, mask=k[:, None] < left, other=0.0)
        total = tl.dot(x, y, total)
        a += BLOCK_K
        b += BLOCK_K * b_k
    return tl.where(columns[None, :], total, float("-inf"))


@triton.jit
def matmul_softmax(
    a_at, b_at, p_at, M, N, K, a_m, b_k, b_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PASSES: tl.constexpr,
):  # fmt: skip
    """P = softmax(A B) over rows, which one tile holds, or which are walked twice."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a = a_at + (m % M)[:, None] * a_m + k[None, :]
    b = b_at + k[:, None] * b_k
    out = p_at + m[:, None] * N
    if PASSES == 1:
        s = _product(a, b + (n % N)[None, :] * b_n, n < N, K, b_k, BLOCK_M, BLOCK_N, BLOCK_K)
        e = tl.exp(s - tl.max(s, 1)[:, None])
        p = e / tl.sum(e, 1)[:, None]
        tl.store(out + n[None, :], p.to(p_at.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))
    else:
        top = tl.full([BLOCK_M], float("-inf"), tl.float32)
        total = tl.zeros([BLOCK_M], tl.float32)
        for start in range(0, N, BLOCK_N):
            c = start + n
            s = _product(a, b + (c % N)[None, :] * b_n, c < N, K, b_k, BLOCK_M, BLOCK_N, BLOCK_K)
            higher = tl.maximum(top, tl.max(s, 1))
            total = total * tl.exp(top - higher) + tl.sum(tl.exp(s - higher[:, None]), 1)
            top = higher
        for start in range(0, N, BLOCK_N):
            c = start + n
            s = _product(a, b + (c % N)[None, :] * b_n, c < N, K, b_k, BLOCK_M, BLOCK_N, BLOCK_K)
            p = tl.exp(s - top[:, None]) / total[:, None]
            tl.store(out + c[None, :], p.to(p_at.dtype.element_ty), mask=(m[:, None] < M) & (c[None, :] < N))


@triton.jit
def attention(
    q_at, k_at, v_at, o_at, scale, group, seq, seq_kv,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    block, head = tl.program_id(0), tl.program_id(1)
    rows, cols, depth = block * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, HEAD)
    own = rows[:, None] * HEAD + depth[None, :]
    inside = rows[:, None] < seq
    q_head = head.to(tl.int64) * seq * HEAD
    kv_head = (head // group).to(tl.int64) * seq_kv * HEAD
    q = tl.load(q_at + q_head + own, mask=inside, other=0.0)
    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD], tl.float32)
    last = seq_kv
    if CAUSAL:
        last = tl.minimum(seq_kv, (block + 1) * BLOCK_M + seq_kv - seq)
    for start in range(0, last, BLOCK_N):
        key = start + cols
        k = tl.load(k_at + kv_head + key[None, :] * HEAD + depth[:, None], mask=key[None, :] < seq_kv, other=0.0)
        s = tl.dot(q, k) * scale
        if CAUSAL:
            s = tl.where(rows[:, None] + seq_kv - seq >= key[None, :], s, -1.0e6)
        else:
            s = tl.where(key[None, :] < seq_kv, s, -1.0e6)
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - higher[:, None])
        shrink = tl.exp2(top - higher)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        v = tl.load(v_at + kv_head + key[:, None] * HEAD + depth[None, :], mask=key[:, None] < seq_kv, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
        top = higher
    tl.store(o_at + q_head + own, (acc / total[:, None]).to(q.dtype), mask=inside)


@triton.jit
def reduction(
    x_at, y_at, rows, cols, AXIS: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """Sums along rows (AXIS 1) or columns of a matrix, kept as a tile until the walk is over."""
    total = tl.zeros((BLOCK_ROWS, BLOCK_COLS), tl.float32)
    if AXIS == 1:
        r = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
        for start in range(0, cols, BLOCK_COLS):
            c = start + tl.arange(0, BLOCK_COLS)
            inside = (r[:, None] < rows) & (c[None, :] < cols)
            total += tl.load(x_at + r[:, None] * cols + c[None, :], mask=inside, other=0.0).to(tl.float32)
        tl.store(y_at + r, tl.sum(total, 1).to(y_at.dtype.element_ty), mask=r < rows)
    else:
        c = tl.program_id(0) * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
        for start in range(0, rows, BLOCK_ROWS):
            r = start + tl.arange(0, BLOCK_ROWS)
            inside = (r[:, None] < rows) & (c[None, :] < cols)
            total += tl.load(x_at + r[:, None] * cols + c[None, :], mask=inside, other=0.0).to(tl.float32)
        tl.store(y_at + c, tl.sum(total, 0).to(y_at.dtype.element_ty), mask=c < cols)


@triton.jit
def elementwise(x0_at, x1_at, y_at, elements, INPUTS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x0_at + i, mask=i < elements).to(tl.float32)
    if INPUTS == 2:
        x += tl.load(x1_at + i, mask=i < elements).to(tl.float32)
    tl.store(y_at + i, tl.maximum(x, 0.0).to(y_at.dtype.element_ty), mask=i < elements)


@triton.jit
def window(i_at, w_at, o_at, length, outputs, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    """o[b, x] = sum of i[b, x + r] w[b, r]; rows of i are TAPS - 1 longer."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, x = at // length, at % length
    total = tl.zeros((BLOCK,), tl.float32)
    for r in tl.static_range(TAPS):
        value = tl.load(i_at + row * (length + TAPS - 1) + x + r, mask=at < outputs, other=0.0)
        weight = tl.load(w_at + row * TAPS + r, mask=at < outputs, other=0.0)
        total += value.to(tl.float32) * weight.to(tl.float32)
    tl.store(o_at + at, total.to(o_at.dtype.element_ty), mask=at < outputs)
