"""Triton kernels of statements in index notation, with the tunables of the declared kernels that carver ranks for them:
convolutions, contractions of tensors, windows, reductions and copies in other orders."""

import triton
import triton.language as tl


@triton.jit
def _tile(rows, columns, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """The tile of this program, by rows of eight tiles, as indices of rows and columns."""
    pid, tiles_m, tiles_n = tl.program_id(0), tl.cdiv(rows, BLOCK_M), tl.cdiv(columns, BLOCK_N)
    group = pid // (8 * tiles_n)
    high = tl.minimum(tiles_m - group * 8, 8)
    m = (group * 8 + pid % (8 * tiles_n) % high) * BLOCK_M + tl.arange(0, BLOCK_M)
    return m, pid % (8 * tiles_n) // high * BLOCK_N + tl.arange(0, BLOCK_N)


@triton.jit
def conv_strided(
    x_ptr, w_ptr, y_ptr, N, P, F, C, LONG, TAPS: tl.constexpr, STEP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """y[n,u,f] += x[n,STEP*u+r,g] w[r,g,f]"""
    m, f = _tile(N * P, F, BLOCK_M, BLOCK_N)
    k, acc = tl.arange(0, BLOCK_K), tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    start, chunks = m // P * LONG + m % P * STEP, tl.cdiv(C, BLOCK_K)
    for step in range(0, TAPS * chunks):
        r, c = step // chunks, step % chunks * BLOCK_K + k
        x = tl.load(x_ptr + (start + r)[:, None] * C + c[None, :], (m < N * P)[:, None] & (c < C)[None, :], 0.0)
        w = tl.load(w_ptr + (r * C + c)[:, None] * F + f[None, :], (c < C)[:, None] & (f < F)[None, :], 0.0)
        acc = tl.dot(x, w, acc)
    inside = (m < N * P)[:, None] & (f < F)[None, :]
    tl.store(y_ptr + m[:, None] * F + f[None, :], acc.to(y_ptr.dtype.element_ty), inside)


@triton.jit
def conv_dilated(
    x_ptr, w_ptr, y_ptr, N, P, Q, F, C, H, W, SIDE: tl.constexpr, APART: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """y[n,u,v,f] += x[n,u+APART*r,v+APART*s,g] w[r,s,g,f]"""
    m, f = _tile(N * P * Q, F, BLOCK_M, BLOCK_N)
    k, acc = tl.arange(0, BLOCK_K), tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    start, chunks = (m // (P * Q) * H + m // Q % P) * W + m % Q, tl.cdiv(C, BLOCK_K)
    for step in range(0, SIDE * SIDE * chunks):
        tap, c = step // chunks, step % chunks * BLOCK_K + k
        place = start + APART * (tap // SIDE * W + tap % SIDE)
        x = tl.load(x_ptr + place[:, None] * C + c[None, :], (m < N * P * Q)[:, None] & (c < C)[None, :], 0.0)
        w = tl.load(w_ptr + (tap * C + c)[:, None] * F + f[None, :], (c < C)[:, None] & (f < F)[None, :], 0.0)
        acc = tl.dot(x, w, acc)
    inside = (m < N * P * Q)[:, None] & (f < F)[None, :]
    tl.store(y_ptr + m[:, None] * F + f[None, :], acc.to(y_ptr.dtype.element_ty), inside)


@triton.jit
def conv_volume(
    x_ptr, w_ptr, y_ptr, N, D, P, Q, F, C, SIDE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """y[n,d,u,v,f] += x[n,d+t,u+r,v+s,g] w[t,r,s,g,f]"""
    m, f = _tile(N * D * P * Q, F, BLOCK_M, BLOCK_N)
    high, wide = P + SIDE - 1, Q + SIDE - 1
    image, d = m // (D * P * Q), m // (P * Q) % D
    start = ((image * (D + SIDE - 1) + d) * high + m // Q % P) * wide + m % Q
    k, acc, chunks = tl.arange(0, BLOCK_K), tl.zeros((BLOCK_M, BLOCK_N), tl.float32), tl.cdiv(C, BLOCK_K)
    for step in range(0, SIDE * SIDE * SIDE * chunks):
        tap, c = step // chunks, step % chunks * BLOCK_K + k
        place = start + (tap // (SIDE * SIDE) * high + tap // SIDE % SIDE) * wide + tap % SIDE
        x = tl.load(x_ptr + place[:, None] * C + c[None, :], (m < N * D * P * Q)[:, None] & (c < C)[None, :], 0.0)
        w = tl.load(w_ptr + (tap * C + c)[:, None] * F + f[None, :], (c < C)[:, None] & (f < F)[None, :], 0.0)
        acc = tl.dot(x, w, acc)
    inside = (m < N * D * P * Q)[:, None] & (f < F)[None, :]
    tl.store(y_ptr + m[:, None] * F + f[None, :], acc.to(y_ptr.dtype.element_ty), inside)


@triton.jit
def tensors_of_four(
    x_ptr, w_ptr, y_ptr, A, B, C, D, E, F, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """y[a,b,g,d] += x[a,e,b,f] w[e,g,f,d]"""
    m, n = _tile(A * B, C * D, BLOCK_M, BLOCK_N)
    k, acc, chunks = tl.arange(0, BLOCK_K), tl.zeros((BLOCK_M, BLOCK_N), tl.float32), tl.cdiv(F, BLOCK_K)
    for step in range(0, E * chunks):
        e, f = step // chunks, step % chunks * BLOCK_K + k
        row, column = (m // B * E + e) * B + m % B, (e * C + n // D) * F * D + n % D
        x = tl.load(x_ptr + row[:, None] * F + f[None, :], (m < A * B)[:, None] & (f < F)[None, :], 0.0)
        w = tl.load(w_ptr + column[None, :] + f[:, None] * D, (f < F)[:, None] & (n < C * D)[None, :], 0.0)
        acc = tl.dot(x, w, acc)
    inside = (m < A * B)[:, None] & (n < C * D)[None, :]
    tl.store(y_ptr + m[:, None] * C * D + n[None, :], acc.to(y_ptr.dtype.element_ty), inside)


@triton.jit
def into_heads(
    x_ptr, w_ptr, y_ptr, T, HEADS, D, M, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """y[t,h,d] += x[t,m] w[h,m,d]"""
    t, n = _tile(T, HEADS * D, BLOCK_M, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, M, BLOCK_K):
        m = start + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + t[:, None] * M + m[None, :], (t < T)[:, None] & (m < M)[None, :], 0.0)
        place = (n // D * M * D + n % D)[None, :] + m[:, None] * D
        w = tl.load(w_ptr + place, (m < M)[:, None] & (n < HEADS * D)[None, :], 0.0)
        acc = tl.dot(x, w, acc)
    inside = (t < T)[:, None] & (n < HEADS * D)[None, :]
    tl.store(y_ptr + t[:, None] * HEADS * D + n[None, :], acc.to(y_ptr.dtype.element_ty), inside)


@triton.jit
def scores_of_heads(
    x_ptr, w_ptr, y_ptr, HEADS, Q, K, D, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """y[b,h,v,k] += x[b,v,h,d] w[b,k,h,d]"""
    q, k = _tile(Q, K, BLOCK_M, BLOCK_N)
    b, h = tl.program_id(1) // HEADS, tl.program_id(1) % HEADS
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, D, BLOCK_K):
        d = start + tl.arange(0, BLOCK_K)
        row, column = ((b * Q + q) * HEADS + h) * D, ((b * K + k) * HEADS + h) * D
        x = tl.load(x_ptr + row[:, None] + d[None, :], (q < Q)[:, None] & (d < D)[None, :], 0.0)
        w = tl.load(w_ptr + column[None, :] + d[:, None], (d < D)[:, None] & (k < K)[None, :], 0.0)
        acc = tl.dot(x, w, acc)
    inside, place = (q < Q)[:, None] & (k < K)[None, :], tl.program_id(1).to(tl.int64) * Q * K
    tl.store(y_ptr + place + q[:, None] * K + k[None, :], acc.to(y_ptr.dtype.element_ty), inside)


@triton.jit
def triangles(
    x_ptr, w_ptr, y_ptr, ROWS, COLUMNS, K, C, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """y[i,j,g] += x[i,k,g] w[j,k,g]"""
    i, j = _tile(ROWS, COLUMNS, BLOCK_M, BLOCK_N)
    c, acc = tl.program_id(1), tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + (i[:, None] * K + k[None, :]) * C + c, (i < ROWS)[:, None] & (k < K)[None, :], 0.0)
        w = tl.load(w_ptr + (j[None, :] * K + k[:, None]) * C + c, (k < K)[:, None] & (j < COLUMNS)[None, :], 0.0)
        acc = tl.dot(x, w, acc)
    inside = (i < ROWS)[:, None] & (j < COLUMNS)[None, :]
    tl.store(y_ptr + (i[:, None] * COLUMNS + j[None, :]) * C + c, acc.to(y_ptr.dtype.element_ty), inside)


@triton.jit
def depthwise(x_ptr, w_ptr, y_ptr, N, P, Q, C, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """y[n,u,v,g] += x[n,u+r,v+s,g] w[r,s,g]"""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, total = at < N * P * Q * C, tl.zeros((BLOCK,), tl.float32)
    c, q, p, n = at % C, at // C % Q, at // (C * Q) % P, at // (C * Q * P)
    start = ((n * (P + SIDE - 1) + p) * (Q + SIDE - 1) + q) * C + c
    for r in tl.static_range(SIDE):
        for s in tl.static_range(SIDE):
            x = tl.load(x_ptr + start + (r * (Q + SIDE - 1) + s) * C, inside, 0.0)
            total += x.to(tl.float32) * tl.load(w_ptr + (r * SIDE + s) * C + c, inside, 0.0).to(tl.float32)
    tl.store(y_ptr + at, total.to(y_ptr.dtype.element_ty), inside)


@triton.jit
def stencil_of_images(x_ptr, w_ptr, y_ptr, N, P, Q, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """y[n,u,v] += x[n,u+r,v+s] w[n,r,s]"""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, total = at < N * P * Q, tl.zeros((BLOCK,), tl.float32)
    q, p, n = at % Q, at // Q % P, at // (Q * P)
    start = (n * (P + SIDE - 1) + p) * (Q + SIDE - 1) + q
    for r in tl.static_range(SIDE):
        for s in tl.static_range(SIDE):
            x = tl.load(x_ptr + start + r * (Q + SIDE - 1) + s, inside, 0.0)
            total += x.to(tl.float32) * tl.load(w_ptr + (n * SIDE + r) * SIDE + s, inside, 0.0).to(tl.float32)
    tl.store(y_ptr + at, total.to(y_ptr.dtype.element_ty), inside)


@triton.jit
def filters(x_ptr, w_ptr, y_ptr, B, LONG, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    """y[b,x] += x[b,x+r] w[b,r]"""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, total, row, x = at < B * LONG, tl.zeros((BLOCK,), tl.float32), at // LONG, at % LONG
    for r in tl.static_range(TAPS):
        value = tl.load(x_ptr + row * (LONG + TAPS - 1) + x + r, inside, 0.0)
        total += value.to(tl.float32) * tl.load(w_ptr + row * TAPS + r, inside, 0.0).to(tl.float32)
    tl.store(y_ptr + at, total.to(y_ptr.dtype.element_ty), inside)


@triton.jit
def turned_round(x_ptr, y_ptr, ROWS, COLS, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """y[b,j,i] = x[b,i,j]"""
    tiles = tl.cdiv(COLS, BLOCK_C)
    r = tl.program_id(0) // tiles * BLOCK_R + tl.arange(0, BLOCK_R)
    c = tl.program_id(0) % tiles * BLOCK_C + tl.arange(0, BLOCK_C)
    matrix, inside = tl.program_id(1).to(tl.int64) * ROWS * COLS, (r < ROWS)[:, None] & (c < COLS)[None, :]
    tile = tl.load(x_ptr + matrix + r[:, None] * COLS + c[None, :], inside)
    tl.store(y_ptr + matrix + c[:, None] * ROWS + r[None, :], tl.trans(tile), tl.trans(inside))


@triton.jit
def middle_sums(x_ptr, y_ptr, R, C, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr):
    """y[b,g] += x[b,r,g]"""
    tiles = tl.cdiv(C, BLOCK_COLS)
    b, c = tl.program_id(0) // tiles, tl.program_id(0) % tiles * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
    total = tl.zeros((BLOCK_ROWS, BLOCK_COLS), tl.float32)
    for start in range(0, R, BLOCK_ROWS):
        r = start + tl.arange(0, BLOCK_ROWS)
        inside = (r < R)[:, None] & (c < C)[None, :]
        total += tl.load(x_ptr + (b * R + r)[:, None] * C + c[None, :], inside, 0.0).to(tl.float32)
    tl.store(y_ptr + b * C + c, tl.sum(total, 0).to(y_ptr.dtype.element_ty), c < C)


@triton.jit
def heads_apart(x_ptr, y_ptr, B, HEADS, S, D, BLOCK: tl.constexpr):
    """y[b,h,s,d] = x[b,s,h,d]"""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d, s, h, b = at % D, at // D % S, at // (D * S) % HEADS, at // (D * S * HEADS)
    x = tl.load(x_ptr + ((b * S + s) * HEADS + h) * D + d, at < B * HEADS * S * D)
    tl.store(y_ptr + at, x, at < B * HEADS * S * D)


@triton.jit
def outer_product(x_ptr, w_ptr, y_ptr, ROWS, COLS, BLOCK: tl.constexpr):
    """y[i,j] = x[i] w[j]"""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < ROWS * COLS
    product = tl.load(x_ptr + at // COLS, inside, 0.0).to(tl.float32) * tl.load(w_ptr + at % COLS, inside, 0.0)
    tl.store(y_ptr + at, product.to(y_ptr.dtype.element_ty), inside)


@triton.jit
def places_added(x_ptr, w_ptr, y_ptr, B, SIZE, BLOCK: tl.constexpr):
    """y[b,s,d] = x[b,s,d] + w[s,d]"""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, w = tl.load(x_ptr + at, at < B * SIZE, 0.0), tl.load(w_ptr + at % SIZE, at < B * SIZE, 0.0)
    tl.store(y_ptr + at, (x.to(tl.float32) + w).to(y_ptr.dtype.element_ty), at < B * SIZE)
