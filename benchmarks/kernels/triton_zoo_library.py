"""A fifth zoo of Triton kernels: as libraries write them, with strides as arguments, padding, masks, int64 indices."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

# -- windows


@triton.jit
def depthwise_strided(
    x_ptr, w_ptr, y_ptr, channels, high, wide, out_high, out_wide, stride_xn, stride_xc, stride_xh, stride_yn,
    stride_yc, stride_yh, step, pad, SIDE: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Depthwise, NCHW, padded, with a step."""
    n, c = tl.program_id(2) // channels, tl.program_id(2) % channels
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    q = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    acc = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for i in range(SIDE):
        for j in range(SIDE):
            h, v = r * step + i - pad, q * step + j - pad
            inside = ((h >= 0) & (h < high))[:, None] & ((v >= 0) & (v < wide))[None, :]
            at = x_ptr + n * stride_xn + c * stride_xc + h[:, None] * stride_xh + v[None, :]
            w = tl.load(w_ptr + (c * SIDE + i) * SIDE + j).to(tl.float32)
            acc += w * tl.load(at, mask=inside, other=0.0).to(tl.float32)
    out = y_ptr + n * stride_yn + c * stride_yc + r[:, None] * stride_yh + q[None, :]
    tl.store(out, acc.to(y_ptr.dtype.element_ty), mask=(r < out_high)[:, None] & (q < out_wide)[None, :])


@triton.jit
def pool_3d(
    x_ptr, y_ptr, depth, high, wide, out_depth, out_high, out_wide, SIDE: tl.constexpr, STEP: tl.constexpr,
    PAD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Mean of SIDE^3 places of what is inside, NCDHW; a program has results in the order of memory."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    each = out_depth * out_high * out_wide
    z, r, q = i // (out_high * out_wide), i // out_wide % out_high, i % out_wide
    base = tl.program_id(1) * depth * high * wide
    total = tl.zeros((BLOCK,), tl.float32)
    count = tl.zeros((BLOCK,), tl.float32)
    for a in tl.static_range(SIDE):
        for b in tl.static_range(SIDE):
            for c in tl.static_range(SIDE):
                d, h, v = z * STEP + a - PAD, r * STEP + b - PAD, q * STEP + c - PAD
                inside = (d >= 0) & (d < depth) & (h >= 0) & (h < high) & (v >= 0) & (v < wide) & (i < each)
                total += tl.load(x_ptr + base + (d * high + h) * wide + v, mask=inside, other=0.0).to(tl.float32)
                count += inside.to(tl.float32)
    tl.store(y_ptr + tl.program_id(1) * each + i, (total / count).to(y_ptr.dtype.element_ty), mask=i < each)


@triton.jit
def conv3d_dense(
    x_ptr, w_ptr, y_ptr, depth, high, wide, out_depth, out_high, out_wide, channels, out_channels, SIDE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Dense, NDHWC, as one product: rows are the places of the result, K walks over the places of the kernel."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    each = out_depth * out_high * out_wide
    image, place = m // each, m % each
    z, r, q = place // (out_high * out_wide), place // out_wide % out_high, place % out_wide
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    blocks = tl.cdiv(channels, BLOCK_K)
    for step in range(SIDE * SIDE * SIDE * blocks):
        tap, start = step // blocks, step % blocks * BLOCK_K
        a, b, c = tap // (SIDE * SIDE), tap // SIDE % SIDE, tap % SIDE
        at = (((image * depth + z + a) * high + r + b) * wide + q + c) * channels
        x = tl.load(x_ptr + at[:, None] + (start + k)[None, :], mask=(start + k < channels)[None, :], other=0.0)
        w = tl.load(w_ptr + (tap * channels + start + k)[:, None] * out_channels + n[None, :],
                    mask=(start + k < channels)[:, None], other=0.0)  # fmt: skip
        acc = tl.dot(x, w, acc)
    tl.store(y_ptr + m[:, None] * out_channels + n[None, :], acc.to(tl.float16))


@triton.jit
def conv_update(
    x_ptr, state_ptr, w_ptr, bias_ptr, y_ptr, out_state_ptr, dim, stride_sb, stride_sd, WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One token of a causal convolution of 4 taps: the state of a channel is its last three inputs."""
    b = tl.program_id(0)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = d < dim
    state = state_ptr + b * stride_sb + d * stride_sd
    out_state = out_state_ptr + b * stride_sb + d * stride_sd
    acc = tl.load(bias_ptr + d, mask=mask, other=0.0).to(tl.float32)
    for k in tl.static_range(WIDTH - 1):
        s = tl.load(state + k, mask=mask, other=0.0)
        acc += s * tl.load(w_ptr + d * WIDTH + k, mask=mask, other=0.0).to(tl.float32)
        if k > 0:
            tl.store(out_state + k - 1, s, mask=mask)
    x = tl.load(x_ptr + b * dim + d, mask=mask, other=0.0)
    acc += x * tl.load(w_ptr + d * WIDTH + WIDTH - 1, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_state + WIDTH - 2, x, mask=mask)
    tl.store(y_ptr + b * dim + d, (acc * tl.sigmoid(acc)).to(tl.float16), mask=mask)


@triton.jit
def upsample(x_ptr, y_ptr, high, wide, out_high, out_wide, ratio_h, ratio_w, BLOCK: tl.constexpr):
    """Bilinear, of the centres of pixels; a program has a run of results of one plane."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    plane = tl.program_id(1)
    mask = i < out_high * out_wide
    fh = tl.maximum((i // out_wide + 0.5) * ratio_h - 0.5, 0.0)
    fw = tl.maximum((i % out_wide + 0.5) * ratio_w - 0.5, 0.0)
    h, v = fh.to(tl.int32), fw.to(tl.int32)
    down, right = tl.where(h < high - 1, wide, 0), tl.where(v < wide - 1, 1, 0)
    at = x_ptr + plane * high * wide + h * wide + v
    fh -= h
    fw -= v
    upper = tl.load(at, mask=mask, other=0.0) * (1 - fw) + tl.load(at + right, mask=mask, other=0.0) * fw
    lower = tl.load(at + down, mask=mask, other=0.0) * (1 - fw) + tl.load(at + down + right, mask=mask, other=0.0) * fw
    out = upper * (1 - fh) + lower * fh
    tl.store(y_ptr + plane * out_high * out_wide + i, out.to(y_ptr.dtype.element_ty), mask=mask)


# -- atomics


@triton.jit
def split_k_half(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Parts of K are added in float16."""
    pid, part = tl.program_id(0), tl.program_id(1)
    rows, cols = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first = pid // (GROUP * cols) * GROUP
    high = min(rows - first, GROUP)
    pid_m, pid_n = first + pid % (GROUP * cols) % high, pid % (GROUP * cols) // high
    m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k = part * BLOCK_K + tl.arange(0, BLOCK_K)
    a = a_ptr + (m % M)[:, None] * stride_am + k[None, :] * stride_ak
    b = b_ptr + k[:, None] * stride_bk + (n % N)[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for i in range(0, tl.cdiv(K, BLOCK_K * SPLIT)):
        left = K - i * BLOCK_K * SPLIT
        x = tl.load(a, mask=k[None, :] < left, other=0.0)
        acc += tl.dot(x, tl.load(b, mask=k[:, None] < left, other=0.0))
        a += BLOCK_K * SPLIT * stride_ak
        b += BLOCK_K * SPLIT * stride_bk
    mask = (m < M)[:, None] & (n < N)[None, :]
    tl.atomic_add(c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn, acc.to(tl.float16), mask=mask, sem="relaxed")


@triton.jit
def norm_backward(
    x_ptr, g_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, stride, rows, cols, EACH: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Of a layer norm; a program has EACH rows and adds its sums of the weight's and bias's gradients at the end."""
    c = tl.arange(0, BLOCK)
    mask = c < cols
    w = tl.load(w_ptr + c, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), tl.float32)
    db = tl.zeros((BLOCK,), tl.float32)
    start = tl.program_id(0) * EACH
    for r in range(start, min(start + EACH, rows)):
        x = tl.load(x_ptr + r * stride + c, mask=mask, other=0.0).to(tl.float32)
        g = tl.load(g_ptr + r * stride + c, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + r)
        xhat = tl.where(mask, (x - tl.load(mean_ptr + r)) * rstd, 0.0)
        wg = w * g
        dx = (wg - (xhat * tl.sum(xhat * wg, 0) + tl.sum(wg, 0)) / cols) * rstd
        tl.store(dx_ptr + r * stride + c, dx.to(dx_ptr.dtype.element_ty), mask=mask)
        dw += g * xhat
        db += g
    tl.atomic_add(dw_ptr + c, dw, mask=mask)
    tl.atomic_add(db_ptr + c, db, mask=mask)


@triton.jit
def scatter_dim(
    x_ptr, index_ptr, y_ptr, rows, cols, out_rows, stride_xr, stride_xc, stride_ir, stride_ic, stride_yr, stride_yc,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """y[index[r, c], c] += x[r, c]: `scatter_add` along rows, with int64 indices."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (r < rows)[:, None] & (c < cols)[None, :]
    at = tl.load(index_ptr + r[:, None] * stride_ir + c[None, :] * stride_ic, mask=mask, other=0)
    x = tl.load(x_ptr + r[:, None] * stride_xr + c[None, :] * stride_xc, mask=mask, other=0.0)
    at = tl.where(at < 0, at + out_rows, at)
    tl.atomic_add(y_ptr + at * stride_yr + c[None, :] * stride_yc, x, mask=mask, sem="relaxed")


@triton.jit
def histogram_bytes(x_ptr, count_ptr, each, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    """256 bins for each image, which is made of bytes."""
    image = tl.program_id(1)
    total = tl.zeros((256,), tl.int32)
    start = tl.program_id(0) * BLOCK * STEPS
    for s in range(STEPS):
        i = start + s * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + image * each + i, mask=i < each, other=0)
        total += tl.histogram(x.to(tl.int32), 256, mask=i < each)
    tl.atomic_add(count_ptr + image * 256 + tl.arange(0, 256), total, sem="relaxed")


@triton.jit
def bag_backward(g_ptr, key_ptr, y_ptr, width, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """A bag's gradient is added to the row of each of its words."""
    b = tl.program_id(0)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(g_ptr + b * width + d, mask=d < width, other=0.0)
    for k in range(COUNT):
        word = tl.load(key_ptr + b * COUNT + k)
        tl.atomic_add(y_ptr + word * width + d, g, mask=d < width)


@triton.jit
def voxels(point_ptr, value_ptr, sum_ptr, count_ptr, n, side, CHANNELS: tl.constexpr, BLOCK: tl.constexpr):
    """Points of a unit cube are added to the cell in which they lie, channel by channel, and counted."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = (tl.load(point_ptr + i * 3, mask=mask, other=0.0) * side).to(tl.int32)
    y = (tl.load(point_ptr + i * 3 + 1, mask=mask, other=0.0) * side).to(tl.int32)
    z = (tl.load(point_ptr + i * 3 + 2, mask=mask, other=0.0) * side).to(tl.int32)
    cell = (z * side + y) * side + x
    for c in tl.static_range(CHANNELS):
        v = tl.load(value_ptr + i * CHANNELS + c, mask=mask, other=0.0)
        tl.atomic_add(sum_ptr + cell * CHANNELS + c, v, mask=mask)
    tl.atomic_add(count_ptr + cell, tl.full((BLOCK,), 1, tl.int32), mask=mask)


# -- gathers


@triton.jit
def paged_split(
    q_ptr, k_ptr, v_ptr, table_ptr, length_ptr, part_ptr, lse_ptr, scale, stride_qb, stride_qh, stride_kp, stride_kt,
    stride_kh, stride_tb, heads, PAGE: tl.constexpr, GROUP: tl.constexpr, DIM: tl.constexpr, PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Decoding by a part of the pages: 16 rows of queries share a head of the cache."""
    b, kv, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    g = tl.arange(0, 16)
    d = tl.arange(0, DIM)
    t = tl.arange(0, BLOCK)
    head = kv * GROUP + g
    q = tl.load(q_ptr + b * stride_qb + head[:, None] * stride_qh + d[None, :], mask=(g < GROUP)[:, None], other=0.0)
    length = tl.load(length_ptr + b)
    each = tl.cdiv(tl.cdiv(length, PARTS), BLOCK) * BLOCK
    start = part * each
    best = tl.full((16,), -1e30, tl.float32)
    norm = tl.zeros((16,), tl.float32)
    acc = tl.zeros((16, DIM), tl.float32)
    for first in range(start, min(start + each, length), BLOCK):
        at = first + t
        page = tl.load(table_ptr + b * stride_tb + at // PAGE, mask=at < length, other=0).to(tl.int64)
        row = page * stride_kp + at % PAGE * stride_kt + kv * stride_kh
        k = tl.load(k_ptr + row[None, :] + d[:, None], mask=(at < length)[None, :], other=0.0)
        v = tl.load(v_ptr + row[:, None] + d[None, :], mask=(at < length)[:, None], other=0.0)
        s = tl.where((at < length)[None, :], tl.dot(q, k) * scale, -1e30)
        new = tl.maximum(best, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        old = tl.exp(best - new)
        norm = norm * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p.to(v.dtype), v)
        best = new
    place = (b * heads + head) * PARTS + part
    tl.store(part_ptr + place[:, None] * DIM + d[None, :], acc / tl.maximum(norm, 1e-20)[:, None],
             mask=(g < GROUP)[:, None])  # fmt: skip
    tl.store(lse_ptr + place, best + tl.log(tl.maximum(norm, 1e-20)), mask=g < GROUP)


@triton.jit
def cache_write(
    k_ptr, v_ptr, slot_ptr, kc_ptr, vc_ptr, stride_k, stride_v, width, PAGE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Keys and values of new tokens go to their slots (int64) of a paged cache."""
    t = tl.program_id(0)
    slot = tl.load(slot_ptr + t)
    if slot < 0:
        return
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = d < width
    at = slot // PAGE * PAGE * width + slot % PAGE * width + d
    tl.store(kc_ptr + at, tl.load(k_ptr + t * stride_k + d, mask=mask), mask=mask)
    tl.store(vc_ptr + at, tl.load(v_ptr + t * stride_v + d, mask=mask), mask=mask)


@triton.jit
def gather_dim(
    x_ptr, index_ptr, y_ptr, rows, cols, in_cols, stride_xr, stride_xc, stride_ir, stride_ic,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """y[r, c] = x[r, index[r, c]]: `gather` along columns, with int64 indices."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (r < rows)[:, None] & (c < cols)[None, :]
    at = tl.load(index_ptr + r[:, None] * stride_ir + c[None, :] * stride_ic, mask=mask, other=0)
    x = tl.load(x_ptr + r[:, None] * stride_xr + at * stride_xc, mask=mask, other=0.0)
    tl.store(y_ptr + r[:, None] * cols + c[None, :], x, mask=mask)


@triton.jit
def rope_pairs(
    q_ptr, k_ptr, cos_ptr, sin_ptr, position_ptr, stride_q, stride_k, tokens, HEADS: tl.constexpr, KV: tl.constexpr,
    DIM: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    """Queries and keys in place, neighbours turned together; a program has BLOCK_H heads of a token."""
    t = tl.program_id(0)
    h = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)[:, None]
    d = tl.arange(0, DIM // 2)[None, :]
    p = tl.load(position_ptr + t)
    c = tl.load(cos_ptr + p * (DIM // 2) + d)
    s = tl.load(sin_ptr + p * (DIM // 2) + d)
    of_q = h < HEADS
    at = q_ptr + t * stride_q + h * DIM + 2 * d
    a = tl.load(at, mask=of_q, other=0.0).to(tl.float32)
    b = tl.load(at + 1, mask=of_q, other=0.0).to(tl.float32)
    tl.store(at, (a * c - b * s).to(tl.float16), mask=of_q)
    tl.store(at + 1, (b * c + a * s).to(tl.float16), mask=of_q)
    of_k = h < KV
    at = k_ptr + t * stride_k + h * DIM + 2 * d
    a = tl.load(at, mask=of_k, other=0.0).to(tl.float32)
    b = tl.load(at + 1, mask=of_k, other=0.0).to(tl.float32)
    tl.store(at, (a * c - b * s).to(tl.float16), mask=of_k)
    tl.store(at + 1, (b * c + a * s).to(tl.float16), mask=of_k)


# -- products


@triton.jit
def jagged_matmul(
    a_ptr, b_ptr, c_ptr, start_ptr, N, K, stride_am, stride_be, stride_bn, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Rows of group e times b[e]^T; programs beyond a group's rows end at once."""
    e = tl.program_id(2)
    first, last = tl.load(start_ptr + e), tl.load(start_ptr + e + 1)
    m = first + tl.program_id(0) * BLOCK_M
    if m >= last:
        return
    m += tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a = a_ptr + m[:, None] * stride_am + k[None, :]
    b = b_ptr + e * stride_be + n[None, :] * stride_bn + k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(a, mask=(m < last)[:, None], other=0.0), tl.load(b, mask=(n < N)[None, :], other=0.0), acc)
        a += BLOCK_K
        b += BLOCK_K
    mask = (m < last)[:, None] & (n < N)[None, :]
    tl.store(c_ptr + m[:, None] * stride_cm + n[None, :], acc.to(tl.bfloat16), mask=mask)


@triton.jit
def int4_zeros_split(
    a_ptr, b_ptr, zero_ptr, scale_ptr, part_ptr, M, N, K, GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Few rows times 4-bit weights, eight along N in a word, zeros packed alike; a part of K to each program."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    part = tl.program_id(2)
    shift = (n % 8 * 4)[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K * SPLIT)):
        k = (step * SPLIT + part) * BLOCK_K + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        inside = (k < K)[:, None]
        w = tl.load(b_ptr + k[:, None] * (N // 8) + (n // 8)[None, :], mask=inside, other=0) >> shift & 15
        group = (k // GROUP)[:, None]
        z = tl.load(zero_ptr + group * (N // 8) + (n // 8)[None, :], mask=inside, other=0) >> shift & 15
        s = tl.load(scale_ptr + group * N + n[None, :], mask=inside, other=0.0)
        acc = tl.dot(a, ((w - z).to(tl.float16) * s), acc)
    tl.store(part_ptr + (part * M + m)[:, None] * N + n[None, :], acc.to(tl.float16), mask=(m < M)[:, None])


@triton.jit
def window_gqa(
    q_ptr, k_ptr, v_ptr, y_ptr, scale, stride_qb, stride_qt, stride_qh, stride_kb, stride_kt, stride_kh, heads, length,
    window, GROUP: tl.constexpr, DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Causal attention within a window; batch, tokens, heads, width; GROUP heads share one of keys and values."""
    b, h = tl.program_id(1) // heads, tl.program_id(1) % heads
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, DIM)
    n = tl.arange(0, BLOCK_N)
    at = b * stride_qb + m[:, None] * stride_qt + h * stride_qh + d[None, :]
    q = tl.load(q_ptr + at, mask=(m < length)[:, None], other=0.0)
    base = b * stride_kb + h // GROUP * stride_kh
    best = tl.full((BLOCK_M,), -1e30, tl.float32)
    norm = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, DIM), tl.float32)
    low = tl.maximum(tl.program_id(0) * BLOCK_M - window + 1, 0) // BLOCK_N * BLOCK_N
    for start in range(low, tl.minimum((tl.program_id(0) + 1) * BLOCK_M, length), BLOCK_N):
        t = start + n
        k = tl.load(k_ptr + base + t[None, :] * stride_kt + d[:, None], mask=(t < length)[None, :], other=0.0)
        s = tl.dot(q, k) * (scale * 1.44269504)
        back = m[:, None] - t[None, :]
        s = tl.where((back >= 0) & (back < window), s, -1e30)
        new = tl.maximum(best, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        old = tl.exp2(best - new)
        norm = norm * old + tl.sum(p, 1)
        v = tl.load(v_ptr + base + t[:, None] * stride_kt + d[None, :], mask=(t < length)[:, None], other=0.0)
        acc = acc * old[:, None]
        acc = tl.dot(p.to(v.dtype), v, acc)
        best = new
    tl.store(y_ptr + at, (acc / norm[:, None]).to(y_ptr.dtype.element_ty), mask=(m < length)[:, None])


@triton.jit
def chunk_states(
    k_ptr, v_ptr, g_ptr, y_ptr, T, heads, CHUNK: tl.constexpr, DIM_K: tl.constexpr, DIM_V: tl.constexpr,
    BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_T: tl.constexpr,
):  # fmt: skip
    """Of linear attention with decay: of each chunk, the sum of exp(g_last - g_t) k_t v_t; batch, T, heads, width."""
    i_k, i_v = tl.program_id(0) // (DIM_V // BLOCK_V), tl.program_id(0) % (DIM_V // BLOCK_V)
    chunk = tl.program_id(1)
    b, h = tl.program_id(2) // heads, tl.program_id(2) % heads
    k = i_k * BLOCK_K + tl.arange(0, BLOCK_K)
    v = i_v * BLOCK_V + tl.arange(0, BLOCK_V)
    last = tl.load(g_ptr + (b * T + chunk * CHUNK + CHUNK - 1) * heads + h)
    acc = tl.zeros((BLOCK_K, BLOCK_V), tl.float32)
    for start in range(0, CHUNK, BLOCK_T):
        t = (b * T + chunk * CHUNK + start + tl.arange(0, BLOCK_T)) * heads + h
        decay = tl.exp(last - tl.load(g_ptr + t))
        of_k = tl.load(k_ptr + t[None, :] * DIM_K + k[:, None])
        of_v = tl.load(v_ptr + t[:, None] * DIM_V + v[None, :])
        acc += tl.dot(of_k, (of_v * decay[:, None]).to(of_v.dtype))
    chunks = tl.num_programs(1)
    out = ((b * chunks + chunk) * heads + h).to(tl.int64) * DIM_K * DIM_V
    tl.store(y_ptr + out + k[:, None] * DIM_V + v[None, :], acc)


# -- scans


@triton.jit
def selective_scan(
    u_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, d_ptr, y_ptr, length, dim, STATE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A state-space layer, token after token: batch, length, dim; STATE numbers are kept for each channel."""
    batch = tl.program_id(1)
    d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.arange(0, STATE)
    a = tl.load(a_ptr + d[:, None] * STATE + n[None, :])
    skip = tl.load(d_ptr + d)
    state = tl.zeros((BLOCK, STATE), tl.float32)
    for t in range(length):
        at = batch * length + t
        u = tl.load(u_ptr + at * dim + d).to(tl.float32)
        delta = tl.load(delta_ptr + at * dim + d).to(tl.float32)
        b = tl.load(b_ptr + at * STATE + n).to(tl.float32)
        c = tl.load(c_ptr + at * STATE + n).to(tl.float32)
        state = state * tl.exp(delta[:, None] * a) + (delta * u)[:, None] * b[None, :]
        tl.store(y_ptr + at * dim + d, (tl.sum(state * c[None, :], 1) + u * skip).to(tl.float16))


@triton.jit
def chunk_cumsum(x_ptr, y_ptr, T, heads, CHUNK: tl.constexpr, BLOCK_H: tl.constexpr):
    """Running sums of the tokens of a chunk; batch, T, heads."""
    h = tl.program_id(0) * BLOCK_H + tl.arange(0, BLOCK_H)
    t = tl.program_id(1) * CHUNK + tl.arange(0, CHUNK)
    mask = (t < T)[:, None] & (h < heads)[None, :]
    at = (tl.program_id(2) * T + t)[:, None] * heads + h[None, :]
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, tl.cumsum(x, 0), mask=mask)


# -- rows


@triton.jit
def entropy_backward(x_ptr, target_ptr, loss_ptr, y_ptr, stride, cols, ignored, scale, BLOCK: tl.constexpr):
    """Loss and gradient of a row of logits: a pass for the largest and the sum, a second that writes."""
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(target_ptr + row)
    x_ptr += row * stride
    y_ptr += row * stride
    if target == ignored:
        return
    best = float("-inf")
    norm = 0.0
    of_target = tl.load(x_ptr + target).to(tl.float32)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + c, mask=c < cols, other=float("-inf")).to(tl.float32)
        new = tl.maximum(best, tl.max(x))
        norm = norm * tl.exp(best - new) + tl.sum(tl.exp(x - new))
        best = new
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + c, mask=c < cols, other=float("-inf")).to(tl.float32)
        p = tl.exp(x - best) / norm - tl.where(c == target, 1.0, 0.0)
        tl.store(y_ptr + c, (p * scale).to(y_ptr.dtype.element_ty), mask=c < cols)
    tl.store(loss_ptr + row, best + tl.log(norm) - of_target)


@triton.jit
def sample_rows(x_ptr, noise_ptr, y_ptr, cols, temperature, BLOCK: tl.constexpr):
    """The place of the largest of logits over temperature and noise."""
    row = tl.program_id(0)
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    place = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=float("-inf")).to(tl.float32)
        x = x / temperature + tl.load(noise_ptr + row * cols + c, mask=c < cols, other=0.0).to(tl.float32)
        place = tl.where(x > best, c, place)
        best = tl.maximum(best, x)
    found = tl.argmax(best, 0)
    tl.store(y_ptr + row, tl.sum(tl.where(tl.arange(0, BLOCK) == found, place, 0), 0))


@triton.jit
def group_norm(
    x_ptr, w_ptr, b_ptr, y_ptr, each, area, groups, per_group, eps, BLOCK: tl.constexpr,
):  # fmt: skip
    """NCHW; a program has a group of channels of an image: sums in one pass, a second that writes."""
    base = tl.program_id(0).to(tl.int64) * each
    group = tl.program_id(0) % groups
    total = tl.zeros((BLOCK,), tl.float32)
    square = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, each, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + base + i, mask=i < each, other=0.0).to(tl.float32)
        total += x
        square += x * x
    mean = tl.sum(total, 0) / each
    rstd = 1 / tl.sqrt(tl.sum(square, 0) / each - mean * mean + eps)
    for start in range(0, each, BLOCK):
        i = start + tl.arange(0, BLOCK)
        c = group * per_group + i // area
        x = tl.load(x_ptr + base + i, mask=i < each, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + c, mask=i < each, other=0.0)
        y = (x - mean) * rstd * w + tl.load(b_ptr + c, mask=i < each, other=0.0)
        tl.store(y_ptr + base + i, y.to(y_ptr.dtype.element_ty), mask=i < each)


@triton.jit
def batch_moments(
    x_ptr, mean_ptr, var_ptr, images, channels, area, BLOCK_N: tl.constexpr, BLOCK_A: tl.constexpr,
):  # fmt: skip
    """Mean and variance of each channel over images and places, NCHW; a program has a channel."""
    c = tl.program_id(0)
    count = tl.zeros((), tl.float32)
    total = tl.zeros((BLOCK_N, BLOCK_A), tl.float32)
    square = tl.zeros((BLOCK_N, BLOCK_A), tl.float32)
    for first in range(0, images, BLOCK_N):
        n = first + tl.arange(0, BLOCK_N)
        for start in range(0, area, BLOCK_A):
            i = start + tl.arange(0, BLOCK_A)
            mask = (n < images)[:, None] & (i < area)[None, :]
            at = (n[:, None] * channels + c) * area + i[None, :]
            x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
            total += x
            square += x * x
    count = images * area
    mean = tl.sum(total) / count
    tl.store(mean_ptr + c, mean)
    tl.store(var_ptr + c, tl.sum(square) / count - mean * mean)


@triton.jit
def fp8_groups(
    x_ptr, q_ptr, scale_ptr, rows, cols, stride_x, stride_sr, stride_sg, eps, GROUP: tl.constexpr,
    BLOCK_R: tl.constexpr, BLOCK_G: tl.constexpr,
):  # fmt: skip
    """float8 by groups of a row; scales stand column after column, rounded up to powers of two."""
    r = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    g = tl.program_id(1) * BLOCK_G + tl.arange(0, BLOCK_G)
    c = g[None, :, None] * GROUP + tl.arange(0, GROUP)[None, None, :]
    mask = (r < rows)[:, None, None] & (c < cols)
    x = tl.load(x_ptr + r[:, None, None] * stride_x + c, mask=mask, other=0.0).to(tl.float32)
    most = tl.maximum(tl.max(tl.abs(x), 2), eps)
    scale = tl.exp2(tl.ceil(tl.log2(most / 448.0)))
    q = (x / scale[:, :, None]).to(q_ptr.dtype.element_ty)
    tl.store(q_ptr + r[:, None, None] * cols + c, q, mask=mask)
    at = scale_ptr + r[:, None] * stride_sr + g[None, :] * stride_sg
    tl.store(at, scale, mask=(r < rows)[:, None] & (g * GROUP < cols)[None, :])


# -- pointwise and copies


@triton.jit
def dequantise_words(b_ptr, zero_ptr, scale_ptr, y_ptr, K, N, GROUP: tl.constexpr, BLOCK_R: tl.constexpr,
                     BLOCK_C: tl.constexpr):  # fmt: skip
    """4-bit weights, eight along N in a word, to float16."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    w = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = (r < K)[:, None] & (w < N // 8)[None, :]
    packed = tl.load(b_ptr + r[:, None] * (N // 8) + w[None, :], mask=inside, other=0)
    zeros = tl.load(zero_ptr + (r // GROUP)[:, None] * (N // 8) + w[None, :], mask=inside, other=0)
    lane = tl.arange(0, 8)[None, None, :]
    q = (packed[:, :, None] >> lane * 4 & 15) - (zeros[:, :, None] >> lane * 4 & 15)
    c = w[None, :, None] * 8 + lane
    wide = inside[:, :, None] & (lane >= 0)
    s = tl.load(scale_ptr + (r // GROUP)[:, None, None] * N + c, mask=wide, other=0.0)
    tl.store(y_ptr + r[:, None, None] * N + c, q.to(tl.float16) * s, mask=wide)


@triton.jit
def permute_heads(
    x_ptr, y_ptr, tokens, stride_xb, stride_xt, stride_xh, stride_yb, stride_yh, stride_yt, heads, DIM: tl.constexpr,
    BLOCK_T: tl.constexpr,
):  # fmt: skip
    """Batch, tokens, heads, width to batch, heads, width, tokens."""
    b, h = tl.program_id(1) // heads, tl.program_id(1) % heads
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.arange(0, DIM)
    x = tl.load(x_ptr + b * stride_xb + h * stride_xh + t[:, None] * stride_xt + d[None, :],
                mask=(t < tokens)[:, None], other=0.0)  # fmt: skip
    tl.store(y_ptr + b * stride_yb + h * stride_yh + d[None, :] * stride_yt + t[:, None], x, mask=(t < tokens)[:, None])


@triton.jit
def copy_strided(
    x_ptr, y_ptr, n, size_1, size_2, stride_x0, stride_x1, stride_x2, stride_y0, stride_y1, stride_y2,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Three dimensions by any strides; places of both sides from one running number."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b, c = i // (size_1 * size_2), i // size_2 % size_1, i % size_2
    x = tl.load(x_ptr + a * stride_x0 + b * stride_x1 + c * stride_x2, mask=i < n)
    tl.store(y_ptr + a * stride_y0 + b * stride_y1 + c * stride_y2, x, mask=i < n)


@triton.jit
def adam_step(
    p_ptr, g_ptr, m_ptr, v_ptr, n, rate, beta_1, beta_2, eps, decay, BLOCK: tl.constexpr,
):  # fmt: skip
    """In place, with the weights in bfloat16 and the moments in float32."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    p = tl.load(p_ptr + i, mask=mask).to(tl.float32)
    g = tl.load(g_ptr + i, mask=mask).to(tl.float32)
    m = beta_1 * tl.load(m_ptr + i, mask=mask) + (1 - beta_1) * g
    v = beta_2 * tl.load(v_ptr + i, mask=mask) + (1 - beta_2) * g * g
    p = p * (1 - rate * decay) - rate * m / (tl.sqrt(tl.abs(v)) + eps)
    tl.store(p_ptr + i, p.to(tl.bfloat16), mask=mask)
    tl.store(m_ptr + i, m, mask=mask)
    tl.store(v_ptr + i, v, mask=mask)


@triton.jit
def black_scholes(price_ptr, strike_ptr, years_ptr, call_ptr, put_ptr, n, rate, volatility, BLOCK: tl.constexpr):
    """Prices of options: a logarithm, an exponential, a root and two error functions each."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    s = tl.exp(tl.load(price_ptr + i, mask=mask, other=0.0))
    k = tl.exp(tl.load(strike_ptr + i, mask=mask, other=0.0))
    t = tl.abs(tl.load(years_ptr + i, mask=mask, other=1.0)) + 0.1
    spread = volatility * tl.sqrt(t)
    first = (tl.log(s / k) + (rate + 0.5 * volatility * volatility) * t) / spread
    second = first - spread
    below_1 = 0.5 * (1 + libdevice.erf(first * 0.70710678))
    below_2 = 0.5 * (1 + libdevice.erf(second * 0.70710678))
    later = k * tl.exp(-rate * t)
    call = s * below_1 - later * below_2
    tl.store(call_ptr + i, call, mask=mask)
    tl.store(put_ptr + i, call - s + later, mask=mask)
