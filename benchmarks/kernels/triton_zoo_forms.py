"""A fourth zoo of Triton kernels: overlap, atomics, gathers, spills, persistent loops and rows in other forms."""

import triton
import triton.language as tl

# -- loads that overlap


@triton.jit
def diffuse(x_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Five points by block pointers, which pad with zeros."""
    r, c = tl.program_id(1) * BLOCK_R, tl.program_id(0) * BLOCK_C
    at = tl.make_block_ptr(x_ptr, (rows, cols), (cols, 1), (r, c), (BLOCK_R, BLOCK_C), (1, 0))
    here = tl.load(at, boundary_check=(0, 1), padding_option="zero")
    acc = tl.load(tl.advance(at, (-1, 0)), boundary_check=(0, 1), padding_option="zero").to(tl.float32)
    acc += tl.load(tl.advance(at, (1, 0)), boundary_check=(0, 1), padding_option="zero")
    acc += tl.load(tl.advance(at, (0, -1)), boundary_check=(0, 1), padding_option="zero")
    acc += tl.load(tl.advance(at, (0, 1)), boundary_check=(0, 1), padding_option="zero")
    out = tl.make_block_ptr(y_ptr, (rows, cols), (cols, 1), (r, c), (BLOCK_R, BLOCK_C), (1, 0))
    tl.store(out, (0.6 * here + 0.1 * acc).to(y_ptr.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def planes_walk(x_ptr, y_ptr, planes, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Seven points of a volume; a program walks along the planes and keeps three of them in registers."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    inside = (r >= 1) & (r < rows - 1) & (c >= 1) & (c < cols - 1)
    plane = rows * cols
    at = x_ptr + r * cols + c
    below = tl.load(at, mask=inside, other=0.0)
    here = tl.load(at + plane, mask=inside, other=0.0)
    for z in range(1, planes - 1):
        at += plane
        above = tl.load(at + plane, mask=inside, other=0.0)
        acc = tl.load(at - 1, mask=inside, other=0.0) + tl.load(at + 1, mask=inside, other=0.0)
        acc += tl.load(at - cols, mask=inside, other=0.0) + tl.load(at + cols, mask=inside, other=0.0)
        tl.store(y_ptr + z * plane + r * cols + c, acc + above + below - 6.0 * here, mask=inside)
        below = here
        here = above


@triton.jit
def im2col(
    x_ptr, y_ptr, channels, high, wide, out_high, out_wide,
    SIDE: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A row for each result of a convolution, channels first: y[p, (c, i, j)] = x[c, r + i, q + j]."""
    p = (tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P))[:, None]
    k = (tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K))[None, :]
    image = tl.program_id(2)
    depth = channels * SIDE * SIDE
    c, i, j = k // (SIDE * SIDE), k // SIDE % SIDE, k % SIDE
    mask = (p < out_high * out_wide) & (k < depth)
    at = (image * channels + c) * high * wide + (p // out_wide + i) * wide + p % out_wide + j
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    tl.store(y_ptr + (image * out_high * out_wide + p) * depth + k, x, mask=mask)


@triton.jit
def rolling(x_ptr, mean_ptr, deviation_ptr, length, window, BLOCK: tl.constexpr):
    """Mean and deviation of `window` neighbours, series by series, in a loop whose length is an argument."""
    base = tl.program_id(1) * length
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    square = tl.zeros((BLOCK,), tl.float32)
    for k in range(window):
        x = tl.load(x_ptr + base + t - k, mask=(t >= k) & (t < length), other=0.0).to(tl.float32)
        total += x
        square += x * x
    mean = total / window
    tl.store(mean_ptr + base + t, mean, mask=t < length)
    tl.store(deviation_ptr + base + t, tl.sqrt(tl.maximum(square / window - mean * mean, 0.0)), mask=t < length)


@triton.jit
def conv1d_dense(
    x_ptr, w_ptr, y_ptr, length, width, out_width, TAPS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Dense, channels last, a matrix product a tap: y[b, t] = sum of x[b, t + k] @ w[k]."""
    t = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    d = tl.arange(0, BLOCK_K)
    x_ptr += tl.program_id(2) * length * width
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(TAPS):
        for start in range(0, width, BLOCK_K):
            at = (t + k)[:, None] * width + start + d[None, :]
            x = tl.load(x_ptr + at, mask=(t + k < length)[:, None], other=0.0)
            acc += tl.dot(x, tl.load(w_ptr + (k * width + start + d)[:, None] * out_width + n[None, :]))
    y_ptr += tl.program_id(2) * length * out_width
    tl.store(y_ptr + t[:, None] * out_width + n[None, :], acc.to(tl.float16), mask=(t < length)[:, None])


@triton.jit
def near_attention(
    q_ptr, k_ptr, v_ptr, y_ptr, length, WINDOW: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Each token attends to the WINDOW tokens that end with it, one after another, with no matrix products."""
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, WIDTH)
    base = tl.program_id(1) * length * WIDTH
    at = base + t[:, None] * WIDTH + d[None, :]
    inside = (t < length)[:, None]
    q = tl.load(q_ptr + at, mask=inside, other=0.0).to(tl.float32)
    best = tl.full((BLOCK,), -1e30, tl.float32)
    norm = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, WIDTH), tl.float32)
    for back in range(WINDOW):
        seen = (t >= back) & (t < length)
        k = tl.load(k_ptr + at - back * WIDTH, mask=seen[:, None], other=0.0).to(tl.float32)
        v = tl.load(v_ptr + at - back * WIDTH, mask=seen[:, None], other=0.0).to(tl.float32)
        s = tl.where(seen, tl.sum(q * k, 1), -1e30)
        new = tl.maximum(best, s)
        old = tl.exp(best - new)
        p = tl.where(seen, tl.exp(s - new), 0.0)
        acc = acc * old[:, None] + p[:, None] * v
        norm = norm * old + p
        best = new
    tl.store(y_ptr + at, (acc / norm[:, None]).to(tl.float16), mask=inside)


# -- atomics


@triton.jit
def histogram_held(key_ptr, count_ptr, n, BINS: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """PARTS blocks of keys counted within a program, and its counts added to those of all."""
    total = tl.zeros((BINS,), tl.int32)
    for part in range(PARTS):
        i = (tl.program_id(0) * PARTS + part) * BLOCK + tl.arange(0, BLOCK)
        key = tl.load(key_ptr + i, mask=i < n, other=0) & (BINS - 1)
        total += tl.histogram(key, BINS, mask=i < n)
    tl.atomic_add(count_ptr + tl.arange(0, BINS), total, sem="relaxed")


@triton.jit
def sparse_sorted(v_ptr, row_ptr, col_ptr, x_ptr, y_ptr, n, cols, BLOCK: tl.constexpr):
    """A sparse matrix in coordinates, in the order of its rows, times a vector; `cols` is a power of two."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    row = tl.load(row_ptr + i, mask=mask, other=0)
    x = tl.load(x_ptr + (tl.load(col_ptr + i, mask=mask, other=0) & (cols - 1)), mask=mask, other=0.0)
    tl.atomic_add(y_ptr + row, tl.load(v_ptr + i, mask=mask, other=0.0) * x, mask=mask, sem="relaxed")


@triton.jit
def embed_backward(g_ptr, word_ptr, y_ptr, tokens, width, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """Gradients of an embedding, added in float16; words are drawn unevenly."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    t = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)
    word = tl.load(word_ptr + t, mask=t < tokens, other=0)
    mask = (t < tokens)[:, None] & (c < width)[None, :]
    g = tl.load(g_ptr + t[:, None] * width + c[None, :], mask=mask, other=0.0)
    tl.atomic_add(y_ptr + word[:, None] * width + c[None, :], g, mask=mask, sem="relaxed")


@triton.jit
def route(score_ptr, weight_ptr, place_ptr, count_ptr, tokens, EXPERTS: tl.constexpr, BLOCK: tl.constexpr):
    """The two best experts of each token, their weights, and a place in the queue of each."""
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    e = tl.arange(0, EXPERTS)
    at = score_ptr + t[:, None] * EXPERTS + e[None, :]
    s = tl.load(at, mask=(t < tokens)[:, None], other=0.0).to(tl.float32)
    first = tl.argmax(s, 1)
    high = tl.max(s, 1)
    s = tl.where(e[None, :] == first[:, None], float("-inf"), s)
    second = tl.argmax(s, 1)
    w = 1.0 / (1.0 + tl.exp(tl.max(s, 1) - high))
    mask = t < tokens
    tl.store(weight_ptr + 2 * t, w, mask=mask)
    tl.store(weight_ptr + 2 * t + 1, 1.0 - w, mask=mask)
    tl.store(place_ptr + 2 * t, tl.atomic_add(count_ptr + first, 1, mask=mask, sem="relaxed"), mask=mask)
    tl.store(place_ptr + 2 * t + 1, tl.atomic_add(count_ptr + second, 1, mask=mask, sem="relaxed"), mask=mask)


@triton.jit
def segment_rows(x_ptr, group_ptr, y_ptr, rows, width, EACH: tl.constexpr, BLOCK: tl.constexpr):
    """Rows of sorted groups: a program sums EACH rows as long as their group is one, and adds where it ends."""
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first = tl.program_id(0) * EACH
    mask = c < width
    group = tl.load(group_ptr + first)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in range(EACH):
        row = first + k
        now = tl.load(group_ptr + row, mask=row < rows, other=-1)
        if now != group:
            if group >= 0:
                tl.atomic_add(y_ptr + group * width + c, acc, mask=mask, sem="relaxed")
            acc = tl.zeros((BLOCK,), tl.float32)
            group = now
        acc += tl.load(x_ptr + row * width + c, mask=mask & (row < rows), other=0.0).to(tl.float32)
    if group >= 0:
        tl.atomic_add(y_ptr + group * width + c, acc, mask=mask, sem="relaxed")


# -- gathers


@triton.jit
def warp_image(x_ptr, v_ptr, u_ptr, y_ptr, channels, high, wide, BLOCK: tl.constexpr):
    """Four neighbours weighted at places in 1/256 of a pixel that two tensors hold, channels first."""
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = p < high * wide
    v = tl.load(v_ptr + p, mask=mask, other=0)
    u = tl.load(u_ptr + p, mask=mask, other=0)
    fv, fu = (v & 255).to(tl.float32) / 256, (u & 255).to(tl.float32) / 256
    at = x_ptr + (v >> 8) * wide + (u >> 8)
    for c in range(channels):
        a = tl.load(at, mask=mask, other=0.0) * (1.0 - fu) + tl.load(at + 1, mask=mask, other=0.0) * fu
        b = tl.load(at + wide, mask=mask, other=0.0) * (1.0 - fu) + tl.load(at + wide + 1, mask=mask, other=0.0) * fu
        tl.store(y_ptr + c * high * wide + p, a * (1.0 - fv) + b * fv, mask=mask)
        at += high * wide


@triton.jit
def two_levels(x_ptr, table_ptr, key_ptr, y_ptr, n, slots, places, BLOCK: tl.constexpr):
    """y[i] = x[table[key[i]]], by the low bits of either; `slots` and `places` are powers of two."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    slot = tl.load(key_ptr + i, mask=mask, other=0) & (slots - 1)
    place = tl.load(table_ptr + slot, mask=mask, other=0) & (places - 1)
    tl.store(y_ptr + i, tl.load(x_ptr + place, mask=mask, other=0.0), mask=mask)


@triton.jit
def sparse_csr(start_ptr, col_ptr, v_ptr, x_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    """A sparse matrix times a vector, a row a program; `cols` is a power of two."""
    row = tl.program_id(0)
    end = tl.load(start_ptr + row + 1)
    acc = tl.zeros((BLOCK,), tl.float32)
    for at in range(tl.load(start_ptr + row), end, BLOCK):
        i = at + tl.arange(0, BLOCK)
        col = tl.load(col_ptr + i, mask=i < end, other=0) & (cols - 1)
        acc += tl.load(v_ptr + i, mask=i < end, other=0.0) * tl.load(x_ptr + col, mask=i < end, other=0.0)
    tl.store(y_ptr + row, tl.sum(acc, 0))


@triton.jit
def rope_at(x_ptr, position_ptr, angle_ptr, y_ptr, heads, DIM: tl.constexpr, BLOCK_H: tl.constexpr):
    """Rotary embedding of all heads of a token, cosines and sines at its position."""
    t = tl.program_id(0)
    h = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    d = tl.arange(0, DIM // 2)
    angle = angle_ptr + tl.load(position_ptr + t) * DIM + d
    cosine, sine = tl.load(angle)[None, :], tl.load(angle + DIM // 2)[None, :]
    at = (t * heads + h)[:, None] * DIM + d[None, :]
    mask = (h < heads)[:, None]
    a = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(x_ptr + at + DIM // 2, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, (a * cosine - b * sine).to(tl.float16), mask=mask)
    tl.store(y_ptr + at + DIM // 2, (b * cosine + a * sine).to(tl.float16), mask=mask)


@triton.jit
def combine(x_ptr, place_ptr, weight_ptr, y_ptr, width, EACH: tl.constexpr, BLOCK: tl.constexpr):
    """What EACH experts made of a token, weighted, from the rows where they left it."""
    t = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(EACH):
        row = tl.load(place_ptr + t * EACH + k).to(tl.int64)
        w = tl.load(weight_ptr + t * EACH + k)
        acc += w * tl.load(x_ptr + row * width + c, mask=c < width, other=0.0).to(tl.float32)
    tl.store(y_ptr + t * width + c, acc.to(tl.float16), mask=c < width)


@triton.jit
def pad_jagged(x_ptr, start_ptr, y_ptr, most, width, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """Sequences of different lengths, one after another, to a tensor with zeros after each."""
    batch = tl.program_id(2)
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    start = tl.load(start_ptr + batch)
    length = tl.load(start_ptr + batch + 1) - start
    cols = (c < width)[None, :]
    x = tl.load(x_ptr + (start + t)[:, None] * width + c[None, :], mask=(t < length)[:, None] & cols, other=0.0)
    tl.store(y_ptr + (batch * most + t)[:, None] * width + c[None, :], x, mask=(t < most)[:, None] & cols)


# -- registers that spill


@triton.jit
def three_matmuls(
    a_ptr, q_ptr, k_ptr, v_ptr, y_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Three products of one matrix, side by side in the result."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    d = tl.arange(0, BLOCK_K)
    one = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    two = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    three = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + m[:, None] * K + k + d[None, :], mask=(m < M)[:, None], other=0.0)
        at = (k + d)[:, None] * N + n[None, :]
        one += tl.dot(a, tl.load(q_ptr + at))
        two += tl.dot(a, tl.load(k_ptr + at))
        three += tl.dot(a, tl.load(v_ptr + at))
    out = y_ptr + m[:, None] * 3 * N + n[None, :]
    tl.store(out, one.to(tl.float16), mask=(m < M)[:, None])
    tl.store(out + N, two.to(tl.float16), mask=(m < M)[:, None])
    tl.store(out + 2 * N, three.to(tl.float16), mask=(m < M)[:, None])


@triton.jit
def standard_score(x_ptr, g_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    """A normalisation that holds its whole row in registers."""
    c = tl.arange(0, BLOCK)
    at = tl.program_id(0) * cols + c
    x = tl.load(x_ptr + at, mask=c < cols, other=0.0).to(tl.float32)
    mean = tl.sum(x, 0) / cols
    apart = tl.where(c < cols, x - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(apart * apart, 0) / cols + 1e-5)
    g = tl.load(g_ptr + c, mask=c < cols, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, (apart * scale * g).to(tl.float16), mask=c < cols)


@triton.jit
def distances(
    x_ptr, y_ptr, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Sums of absolute differences of all pairs of rows, with no matrix products."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        for k in tl.static_range(BLOCK_K):
            x = tl.load(x_ptr + (start + k) * M + m)
            y = tl.load(y_ptr + (start + k) * N + n)
            acc += tl.abs(x[:, None] - y[None, :])
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc)


@triton.jit
def wide_attention(
    q_ptr, k_ptr, v_ptr, y_ptr, length, scale, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attention with a soft cap, heads of WIDTH."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, WIDTH)
    base = tl.program_id(1) * length * WIDTH
    q = tl.load(q_ptr + base + m[:, None] * WIDTH + d[None, :])
    best = tl.full((BLOCK_M,), -1e30, tl.float32)
    norm = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, WIDTH), tl.float32)
    for start in range(0, length, BLOCK_N):
        at = base + (start + tl.arange(0, BLOCK_N))[:, None] * WIDTH + d[None, :]
        s = tl.dot(q, tl.trans(tl.load(k_ptr + at))) * scale
        s = 20.0 * (1.0 - 2.0 / (1.0 + tl.exp(s * 0.1)))
        new = tl.maximum(best, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        old = tl.exp(best - new)
        acc = acc * old[:, None] + tl.dot(p.to(tl.float16), tl.load(v_ptr + at))
        norm = norm * old + tl.sum(p, 1)
        best = new
    tl.store(y_ptr + base + m[:, None] * WIDTH + d[None, :], (acc / norm[:, None]).to(tl.float16))


# -- persistent


@triton.jit
def matmul_one_loop(
    a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K, FLATTEN: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A persistent matmul with a bias, its tiles and its depth in two loops that the compiler may fuse."""
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    d = tl.arange(0, BLOCK_K)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=FLATTEN):
        m = tile % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M)
        n = tile // tiles_m * BLOCK_N + tl.arange(0, BLOCK_N)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            depth = k * BLOCK_K + d
            a = tl.load(a_ptr + m[:, None] * K + depth[None, :], mask=(m < M)[:, None], other=0.0)
            b = tl.load(b_ptr + n[:, None] * K + depth[None, :], mask=(n < N)[:, None], other=0.0)
            acc = tl.dot(a, b.T, acc)
        acc += tl.load(bias_ptr + n, mask=n < N, other=0.0)[None, :]
        tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(tl.float16), mask=(m < M)[:, None] & (n < N)[None, :])


@triton.jit
def batched_walk(
    a_ptr, b_ptr, c_ptr, batch, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Products of a batch by tensor descriptors, the tiles of all shared out among as many programs as SMs."""
    a_at = tl.make_tensor_descriptor(a_ptr, (batch * M, K), (K, 1), (BLOCK_M, BLOCK_K))
    b_at = tl.make_tensor_descriptor(b_ptr, (batch * K, N), (N, 1), (BLOCK_K, BLOCK_N))
    c_at = tl.make_tensor_descriptor(c_ptr, (batch * M, N), (N, 1), (BLOCK_M, BLOCK_N))
    tiles_m, tiles_n = M // BLOCK_M, N // BLOCK_N
    for tile in range(tl.program_id(0), batch * tiles_m * tiles_n, tl.num_programs(0)):
        at = tile // (tiles_m * tiles_n)
        m = at * M + tile // tiles_n % tiles_m * BLOCK_M
        n = tile % tiles_n * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, K, BLOCK_K):
            acc = tl.dot(a_at.load((m, k)), b_at.load((at * K + k, n)), acc)
        c_at.store((m, n), acc.to(tl.float16))


@triton.jit
def rows_in_turn(x_ptr, r_ptr, y_ptr, rows, cols, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    """Softmax of a sum, rows taken in turn by PROGRAMS programs an SM."""
    c = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        at = row * cols + c
        x = tl.load(x_ptr + at, mask=c < cols, other=float("-inf")).to(tl.float32)
        x += tl.load(r_ptr + at, mask=c < cols, other=0.0).to(tl.float32)
        p = tl.exp(x - tl.max(x, 0))
        tl.store(y_ptr + at, (p / tl.sum(p, 0)).to(y_ptr.dtype.element_ty), mask=c < cols)


# -- strides and rows


@triton.jit
def transposed_tile(x_ptr, y_ptr, rows, cols, stride_x, stride_y, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A transpose of padded rows, tile by tile."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (r < rows)[:, None] & (c < cols)[None, :]
    x = tl.load(x_ptr + r[:, None] * stride_x + c[None, :], mask=mask, other=0.0)
    tl.store(y_ptr + c[:, None] * stride_y + r[None, :], x.T, mask=(c < cols)[:, None] & (r < rows)[None, :])


@triton.jit
def complex_product(a_ptr, b_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Complex numbers, real and imaginary parts in turn."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    ar, ai = tl.load(a_ptr + 2 * i, mask=mask), tl.load(a_ptr + 2 * i + 1, mask=mask)
    br, bi = tl.load(b_ptr + 2 * i, mask=mask), tl.load(b_ptr + 2 * i + 1, mask=mask)
    tl.store(y_ptr + 2 * i, ar * br - ai * bi, mask=mask)
    tl.store(y_ptr + 2 * i + 1, ar * bi + ai * br, mask=mask)


@triton.jit
def softmax_columns(x_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Softmax down the columns, in two passes over the rows."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    top = tl.full((BLOCK_C,), -1e30, tl.float32)
    norm = tl.zeros((BLOCK_C,), tl.float32)
    for start in range(0, rows, BLOCK_R):
        r = start + tl.arange(0, BLOCK_R)
        mask = (r < rows)[:, None] & (c < cols)[None, :]
        x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=mask, other=-1e30).to(tl.float32)
        new = tl.maximum(top, tl.max(x, 0))
        norm = norm * tl.exp(top - new) + tl.sum(tl.exp(x - new[None, :]), 0)
        top = new
    for start in range(0, rows, BLOCK_R):
        r = start + tl.arange(0, BLOCK_R)
        mask = (r < rows)[:, None] & (c < cols)[None, :]
        at = r[:, None] * cols + c[None, :]
        x = tl.load(x_ptr + at, mask=mask, other=-1e30).to(tl.float32)
        tl.store(y_ptr + at, (tl.exp(x - top[None, :]) / norm[None, :]).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def softmax_jagged(x_ptr, start_ptr, y_ptr, BLOCK: tl.constexpr):
    """Softmax of segments of different lengths, one a program, in two passes."""
    start = tl.load(start_ptr + tl.program_id(0))
    end = tl.load(start_ptr + tl.program_id(0) + 1)
    top = tl.full((BLOCK,), -1e30, tl.float32)
    norm = tl.zeros((BLOCK,), tl.float32)
    for at in range(start, end, BLOCK):
        i = at + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < end, other=-1e30)
        new = tl.maximum(top, x)
        norm = norm * tl.exp(top - new) + tl.where(i < end, tl.exp(x - new), 0.0)
        top = new
    high = tl.max(top, 0)
    total = tl.sum(norm * tl.exp(top - high), 0)
    for at in range(start, end, BLOCK):
        i = at + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < end, other=-1e30)
        tl.store(y_ptr + i, tl.exp(x - high) / total, mask=i < end)


@triton.jit
def every_third(x_ptr, y_ptr, n, STEP: tl.constexpr, BLOCK: tl.constexpr):
    """One channel of pixels that have STEP, put into a grey image and taken from its mean."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(STEP):
        acc += tl.load(x_ptr + i * STEP + k, mask=i < n, other=0.0).to(tl.float32)
    tl.store(y_ptr + i, (acc / STEP).to(y_ptr.dtype.element_ty), mask=i < n)


@triton.jit
def middle_max(x_ptr, y_ptr, i_ptr, middle, inner, BLOCK_M: tl.constexpr, BLOCK_C: tl.constexpr):
    """The largest along the middle of three axes, and where it is."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    outer = tl.program_id(1)
    best = tl.full((BLOCK_C,), float("-inf"), tl.float32)
    where = tl.zeros((BLOCK_C,), tl.int32)
    for start in range(0, middle, BLOCK_M):
        m = start + tl.arange(0, BLOCK_M)
        mask = (m < middle)[:, None] & (c < inner)[None, :]
        at = (outer * middle + m)[:, None] * inner + c[None, :]
        x = tl.load(x_ptr + at, mask=mask, other=float("-inf")).to(tl.float32)
        high, place = tl.max(x, 0, return_indices=True)
        where = tl.where(high > best, start + place, where)
        best = tl.maximum(best, high)
    tl.store(y_ptr + outer * inner + c, best.to(y_ptr.dtype.element_ty), mask=c < inner)
    tl.store(i_ptr + outer * inner + c, where, mask=c < inner)


@triton.jit
def running_sum(x_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    """Sums of all elements of a row up to each one, block after block."""
    row = tl.program_id(0) * cols
    before = 0.0
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + c, mask=c < cols, other=0.0).to(tl.float32)
        tl.store(y_ptr + row + c, before + tl.cumsum(x, 0), mask=c < cols)
        before += tl.sum(x, 0)
