"""Triton kernels that spill, that stay for many tiles, and that read rows and columns with strides: a twenty-third
zoo."""

import triton
import triton.language as tl


@triton.jit
def attend_wide(q_ptr, k_ptr, v_ptr, y_ptr, length, scale, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr,
                BLOCK_N: tl.constexpr):  # fmt: skip
    """Causal attention of heads so wide that what is summed up hardly fits the registers."""
    head = tl.program_id(1).to(tl.int64) * length * WIDTH
    row, d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, WIDTH)
    q = tl.load(q_ptr + head + row[:, None] * WIDTH + d[None, :], mask=row[:, None] < length, other=0.0)
    top = tl.full((BLOCK_M,), -1e30, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, WIDTH), tl.float32)
    for start in range(0, tl.minimum((tl.program_id(0) + 1) * BLOCK_M, length), BLOCK_N):
        col = start + tl.arange(0, BLOCK_N)
        at = head + col[:, None] * WIDTH + d[None, :]
        k = tl.load(k_ptr + at, mask=col[:, None] < length, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        s = tl.where(col[None, :] <= row[:, None], s, -1e30)
        new = tl.maximum(top, tl.max(s, 1))
        p, old = tl.exp2(s - new[:, None]), tl.exp2(top - new)
        v = tl.load(v_ptr + at, mask=col[:, None] < length, other=0.0)
        acc = acc * old[:, None] + tl.dot(p.to(v.dtype), v)
        total, top = total * old + tl.sum(p, 1), new
    y = acc / total[:, None]
    tl.store(y_ptr + head + row[:, None] * WIDTH + d[None, :], y.to(tl.bfloat16), mask=row[:, None] < length)


@triton.jit
def norm_gradient(x_ptr, w_ptr, g_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    """The gradient of a layer norm, a whole row at a time."""
    row, c = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    m = c < cols
    x = tl.load(x_ptr + row * cols + c, mask=m, other=0.0).to(tl.float32)
    g = tl.load(g_ptr + row * cols + c, mask=m, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + c, mask=m, other=0.0)
    mean = tl.sum(x, 0) / cols
    centred = tl.where(m, x - mean, 0.0)
    r = tl.rsqrt(tl.sum(centred * centred, 0) / cols + 1e-5)
    h, gw = centred * r, g * w
    a, b = tl.sum(gw, 0) / cols, tl.sum(gw * h, 0) / cols
    tl.store(y_ptr + row * cols + c, ((gw - a - h * b) * r).to(tl.bfloat16), mask=m)


@triton.jit
def states_in_turn(x_ptr, d_ptr, b_ptr, c_ptr, a_ptr, y_ptr, length, width, STATES: tl.constexpr,
                   BLOCK: tl.constexpr):  # fmt: skip
    """A selective state space: the states of a block of channels stay in registers."""
    ch, n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, STATES)
    x0 = tl.program_id(1).to(tl.int64) * length * width
    s0 = tl.program_id(1).to(tl.int64) * length * STATES
    a = tl.load(a_ptr + ch[:, None] * STATES + n[None, :])
    h = tl.zeros((BLOCK, STATES), tl.float32)
    for t in range(length):
        x = tl.load(x_ptr + x0 + t * width + ch).to(tl.float32)
        d = tl.load(d_ptr + x0 + t * width + ch).to(tl.float32)
        b, c = tl.load(b_ptr + s0 + t * STATES + n).to(tl.float32), tl.load(c_ptr + s0 + t * STATES + n).to(tl.float32)
        h = h * tl.exp(-tl.abs(d)[:, None] * a) + (tl.abs(d) * x)[:, None] * b[None, :]
        tl.store(y_ptr + x0 + t * width + ch, tl.sum(h * c[None, :], 1).to(tl.bfloat16))


@triton.jit
def gated_mlp(x_ptr, u_ptr, v_ptr, y_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
              BLOCK_K: tl.constexpr):  # fmt: skip
    """Two products of the same rows, one gating the other: twice the sums."""
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n, k = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    p = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    q = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k0 in range(0, K, BLOCK_K):
        x = tl.load(x_ptr + m[:, None] * K + (k0 + k)[None, :], mask=m[:, None] < M, other=0.0)
        at = (k0 + k)[:, None] * N + n[None, :]
        p = tl.dot(x, tl.load(u_ptr + at), p)
        q = tl.dot(x, tl.load(v_ptr + at), q)
    y = p * tl.sigmoid(p) * q
    tl.store(y_ptr + m[:, None] * N + n[None, :], y.to(tl.float16), mask=m[:, None] < M)


@triton.jit
def staying_product(a_ptr, b_ptr, bias_ptr, y_ptr, M, N, K, PROGRAMS: tl.constexpr, GROUP: tl.constexpr,
                    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """x W^T + bias, rectified; programs stay, and walk bands of GROUP tiles."""
    down, across = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), down * across, PROGRAMS):
        band = tile // (GROUP * across)
        high = tl.minimum(down - band * GROUP, GROUP)
        i, j = band * GROUP + tile % (GROUP * across) % high, tile % (GROUP * across) // high
        m, n, k = i * BLOCK_M + tl.arange(0, BLOCK_M), j * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k0 in range(0, K, BLOCK_K):
            a = tl.load(a_ptr + m[:, None] * K + (k0 + k)[None, :], mask=m[:, None] < M, other=0.0)
            b = tl.load(b_ptr + n[:, None] * K + (k0 + k)[None, :], mask=n[:, None] < N, other=0.0)
            acc = tl.dot(a, tl.trans(b), acc)
        y = tl.maximum(acc + tl.load(bias_ptr + n, mask=n < N, other=0.0)[None, :], 0.0)
        tl.store(y_ptr + m[:, None] * N + n[None, :], y.to(tl.bfloat16), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def even_shares(a_ptr, b_ptr, y_ptr, M, N, K, PROGRAMS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                BLOCK_K: tl.constexpr):  # fmt: skip
    """All steps of all tiles in even shares; who has a part of a tile adds it."""
    across, each = tl.cdiv(N, BLOCK_N), tl.cdiv(K, BLOCK_K)
    steps = tl.cdiv(M, BLOCK_M) * across * each
    share = tl.cdiv(steps, PROGRAMS)
    at, end = tl.program_id(0) * share, tl.minimum((tl.program_id(0) + 1) * share, steps)
    while at < end:
        tile, first = at // each, at % each
        last = tl.minimum(each, first + end - at)
        m = tile // across * BLOCK_M + tl.arange(0, BLOCK_M)
        n, k = tile % across * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for step in range(first, last):
            a = tl.load(a_ptr + m[:, None] * K + (step * BLOCK_K + k)[None, :])
            b = tl.load(b_ptr + (step * BLOCK_K + k)[:, None] * N + n[None, :])
            acc = tl.dot(a, b, acc)
        y = y_ptr + m[:, None] * N + n[None, :]
        if last - first == each:
            tl.store(y, acc)
        else:
            tl.atomic_add(y, acc, sem="relaxed")
        at += last - first


@triton.jit
def ragged_products(x_ptr, w_ptr, first_ptr, y_ptr, groups, N, K, PROGRAMS: tl.constexpr, BLOCK_M: tl.constexpr,
                    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """Rows of each group by its own weights; programs go on from group to group."""
    across, before = tl.cdiv(N, BLOCK_N), 0
    tile = tl.program_id(0)
    for g in range(groups):
        first, last = tl.load(first_ptr + g), tl.load(first_ptr + g + 1)
        here = tl.cdiv(last - first, BLOCK_M) * across
        while tile < before + here:
            m = first + (tile - before) // across * BLOCK_M + tl.arange(0, BLOCK_M)
            n, k = (tile - before) % across * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
            acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            w = w_ptr + g.to(tl.int64) * N * K
            for k0 in range(0, K, BLOCK_K):
                x = tl.load(x_ptr + m[:, None] * K + (k0 + k)[None, :], mask=m[:, None] < last, other=0.0)
                acc = tl.dot(x, tl.load(w + (k0 + k)[:, None] * N + n[None, :]), acc)
            tl.store(y_ptr + m[:, None] * N + n[None, :], acc.to(tl.float16), mask=m[:, None] < last)
            tile += PROGRAMS
        before += here


@triton.jit
def staying_int8(a_ptr, b_ptr, s_ptr, y_ptr, M, N, K, PROGRAMS: tl.constexpr, BLOCK_M: tl.constexpr,
                 BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """Bytes by bytes, scaled by row; tiles go down the columns first."""
    down = tl.cdiv(M, BLOCK_M)
    for tile in tl.range(tl.program_id(0), down * tl.cdiv(N, BLOCK_N), PROGRAMS):
        m = tile % down * BLOCK_M + tl.arange(0, BLOCK_M)
        n, k = tile // down * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)
        for k0 in range(0, K, BLOCK_K):
            a = tl.load(a_ptr + m[:, None] * K + (k0 + k)[None, :])
            b = tl.load(b_ptr + n[None, :] * K + (k0 + k)[:, None])
            acc = tl.dot(a, b, acc, out_dtype=tl.int32)
        scale = tl.load(s_ptr + m)
        tl.store(y_ptr + m[:, None] * N + n[None, :], (acc.to(tl.float32) * scale[:, None]).to(tl.float16))


@triton.jit
def turn_pairs(x_ptr, cos_ptr, sin_ptr, y_ptr, tokens, heads, ROW: tl.constexpr, SKIP: tl.constexpr,
               WIDTH: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_H: tl.constexpr):  # fmt: skip
    """The last part of each head turned by its place, neighbours in pairs."""
    t = (tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T))[:, None, None]
    h = (tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H))[None, :, None]
    d = tl.arange(0, WIDTH // 2)[None, None, :]
    m = (t < tokens) & (h < heads)
    at = (t * heads + h) * ROW + SKIP + 2 * d
    a, b = tl.load(x_ptr + at, mask=m, other=0.0).to(tl.float32), tl.load(x_ptr + at + 1, mask=m, other=0.0)
    table = t * (WIDTH // 2) + d
    c, s = tl.load(cos_ptr + table, mask=t < tokens, other=0.0), tl.load(sin_ptr + table, mask=t < tokens, other=0.0)
    to = y_ptr + (t * heads + h) * WIDTH + 2 * d
    tl.store(to, (a * c - b * s).to(tl.bfloat16), mask=m)
    tl.store(to + 1, (a * s + b * c).to(tl.bfloat16), mask=m)


@triton.jit
def softmax_down(x_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Softmax of columns, in two walks down them."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    page = tl.program_id(1).to(tl.int64) * rows * cols
    top, total = tl.full((BLOCK_C,), -1e30, tl.float32), tl.zeros((BLOCK_C,), tl.float32)
    for r0 in range(0, rows, BLOCK_R):
        r = r0 + tl.arange(0, BLOCK_R)
        m = (r[:, None] < rows) & (c[None, :] < cols)
        x = tl.load(x_ptr + page + r[:, None] * cols + c[None, :], mask=m, other=-1e30).to(tl.float32)
        new = tl.maximum(top, tl.max(x, 0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new[None, :]), 0)
        top = new
    for r0 in range(0, rows, BLOCK_R):
        r = r0 + tl.arange(0, BLOCK_R)
        m = (r[:, None] < rows) & (c[None, :] < cols)
        at = page + r[:, None] * cols + c[None, :]
        x = tl.load(x_ptr + at, mask=m, other=-1e30).to(tl.float32)
        tl.store(y_ptr + at, (tl.exp(x - top[None, :]) / total[None, :]).to(tl.float16), mask=m)


@triton.jit
def norm_of_channels(x_ptr, w_ptr, y_ptr, points, channels, EACH: tl.constexpr, BLOCK_P: tl.constexpr):
    """Group norm of pictures whose channels lie together: groups of EACH channels, a point after the other."""
    group, e = tl.program_id(0), tl.arange(0, EACH)
    page = tl.program_id(1).to(tl.int64) * points * channels + group * EACH
    s, q = tl.zeros((BLOCK_P, EACH), tl.float32), tl.zeros((BLOCK_P, EACH), tl.float32)
    for p0 in range(0, points, BLOCK_P):
        p = p0 + tl.arange(0, BLOCK_P)
        x = tl.load(x_ptr + page + p[:, None] * channels + e[None, :], mask=p[:, None] < points, other=0.0)
        s += x
        q += x.to(tl.float32) * x
    count = points * EACH
    mean = tl.sum(s) / count
    r = tl.rsqrt(tl.sum(q) / count - mean * mean + 1e-5)
    w = tl.load(w_ptr + group * EACH + e)
    for p0 in range(0, points, BLOCK_P):
        p = p0 + tl.arange(0, BLOCK_P)
        at = page + p[:, None] * channels + e[None, :]
        x = tl.load(x_ptr + at, mask=p[:, None] < points, other=0.0)
        tl.store(y_ptr + at, ((x - mean) * r * w[None, :]).to(tl.float16), mask=p[:, None] < points)


@triton.jit
def part_heads(x_ptr, y_ptr, tokens, heads, WIDTH: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_H: tl.constexpr):
    """Queries, keys and values that lie side by side in a token become three tensors of heads."""
    t = (tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T))[:, None, None]
    h = (tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H))[None, :, None]
    d, which = tl.arange(0, WIDTH)[None, None, :], tl.program_id(2)
    m = (t < tokens) & (h < heads)
    x = tl.load(x_ptr + ((t * heads + h) * 3 + which) * WIDTH + d, mask=m)
    tl.store(y_ptr + ((which * heads + h) * tokens + t).to(tl.int64) * WIDTH + d, x, mask=m)
