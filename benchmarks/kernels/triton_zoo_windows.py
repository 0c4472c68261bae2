"""Triton kernels of windows: filters, convolutions, pools, fields, automata, columns, signals and pictures."""

import triton
import triton.language as tl


@triton.jit
def guided_means(g_ptr, x_ptr, a_ptr, b_ptr, high, wide, small, REACH: tl.constexpr, BLOCK_R: tl.constexpr,
                 BLOCK_C: tl.constexpr):  # fmt: skip
    """The line of a guided filter at each pixel, from four means over a box; edges repeat."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (r < high) & (c < wide)
    g1, x1 = tl.zeros((BLOCK_R, BLOCK_C), tl.float32), tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    gg, gx = tl.zeros((BLOCK_R, BLOCK_C), tl.float32), tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for i in range(-REACH, REACH + 1):
        row = tl.minimum(tl.maximum(r + i, 0), high - 1) * wide
        for j in tl.static_range(-REACH, REACH + 1):
            at = row + tl.minimum(tl.maximum(c + j, 0), wide - 1)
            g = tl.load(g_ptr + at, mask=mask, other=0.0)
            x = tl.load(x_ptr + at, mask=mask, other=0.0)
            g1, x1, gg, gx = g1 + g, x1 + x, gg + g * g, gx + g * x
    n: tl.constexpr = (2 * REACH + 1) * (2 * REACH + 1)
    g1, x1 = g1 / n, x1 / n
    a = (gx / n - g1 * x1) / (gg / n - g1 * g1 + small)
    tl.store(a_ptr + r * wide + c, a, mask=mask)
    tl.store(b_ptr + r * wide + c, x1 - a * g1, mask=mask)


@triton.jit
def bilateral_colour(x_ptr, y_ptr, high, wide, near, alike, REACH: tl.constexpr, BLOCK_R: tl.constexpr,
                     BLOCK_C: tl.constexpr):  # fmt: skip
    """A bilateral filter of bytes in three colours beside one another; what is outside has no weight."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (r < high) & (c < wide)
    p = x_ptr + (r * wide + c) * 3
    r0 = tl.load(p, mask=mask, other=0).to(tl.float32)
    g0 = tl.load(p + 1, mask=mask, other=0).to(tl.float32)
    b0 = tl.load(p + 2, mask=mask, other=0).to(tl.float32)
    weight = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    rs, gs, bs = weight, weight, weight
    for i in tl.static_range(-REACH, REACH + 1):
        for j in tl.static_range(-REACH, REACH + 1):
            inside = mask & (r + i >= 0) & (r + i < high) & (c + j >= 0) & (c + j < wide)
            q = p + (i * wide + j) * 3
            red = tl.load(q, mask=inside, other=0).to(tl.float32)
            green = tl.load(q + 1, mask=inside, other=0).to(tl.float32)
            blue = tl.load(q + 2, mask=inside, other=0).to(tl.float32)
            away = (red - r0) * (red - r0) + (green - g0) * (green - g0) + (blue - b0) * (blue - b0)
            w = tl.where(inside, tl.exp(-alike * away - near * (i * i + j * j)), 0.0)
            weight, rs, gs, bs = weight + w, rs + w * red, gs + w * green, bs + w * blue
    q = y_ptr + (r * wide + c) * 3
    tl.store(q, (rs / weight + 0.5).to(tl.uint8), mask=mask)
    tl.store(q + 1, (gs / weight + 0.5).to(tl.uint8), mask=mask)
    tl.store(q + 2, (bs / weight + 0.5).to(tl.uint8), mask=mask)


@triton.jit
def depthwise_volume(x_ptr, w_ptr, y_ptr, channels, deep, high, wide, BLOCK_Z: tl.constexpr, BLOCK_R: tl.constexpr,
                     BLOCK_C: tl.constexpr):  # fmt: skip
    """A depthwise convolution of 3 x 3 x 3 taps, channels first, zeros around; tiles of three dimensions."""
    across = tl.cdiv(wide, BLOCK_C)
    z = (tl.program_id(1) * BLOCK_Z + tl.arange(0, BLOCK_Z))[:, None, None]
    r = (tl.program_id(0) // across * BLOCK_R + tl.arange(0, BLOCK_R))[None, :, None]
    c = (tl.program_id(0) % across * BLOCK_C + tl.arange(0, BLOCK_C))[None, None, :]
    first = tl.program_id(2).to(tl.int64) * deep * high * wide
    w = w_ptr + tl.program_id(2) % channels * 27
    acc = tl.zeros((BLOCK_Z, BLOCK_R, BLOCK_C), tl.float32)
    for i in tl.static_range(3):
        for j in tl.static_range(3):
            for k in tl.static_range(3):
                u, v, t = z + i - 1, r + j - 1, c + k - 1
                inside = (u >= 0) & (u < deep) & (v >= 0) & (v < high) & (t >= 0) & (t < wide)
                x = tl.load(x_ptr + first + (u * high + v) * wide + t, mask=inside, other=0.0)
                acc += x.to(tl.float32) * tl.load(w + i * 9 + j * 3 + k).to(tl.float32)
    at = first + (z * high + r) * wide + c
    tl.store(y_ptr + at, acc.to(y_ptr.dtype.element_ty), mask=(z < deep) & (r < high) & (c < wide))


@triton.jit
def depthwise_grad_last(g_ptr, w_ptr, y_ptr, high, wide, out_high, out_wide, WIDTH: tl.constexpr, SIDE: tl.constexpr,
                        STEP: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """By its input, channels last: what each pixel gave to the outputs whose windows hold it."""
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    r, col, g = p // wide, p % wide, g_ptr + tl.program_id(2) * out_high * out_wide * WIDTH
    acc = tl.zeros((BLOCK_P, BLOCK_C), tl.float32)
    for i in tl.static_range(SIDE):
        for j in tl.static_range(SIDE):
            v, u = r + SIDE // 2 - i, col + SIDE // 2 - j
            inside = (v >= 0) & (v % STEP == 0) & (v // STEP < out_high)
            inside = inside & (u >= 0) & (u % STEP == 0) & (u // STEP < out_wide)
            at = (v // STEP * out_wide + u // STEP)[:, None] * WIDTH + c[None, :]
            w = tl.load(w_ptr + (i * SIDE + j) * WIDTH + c, mask=c < WIDTH, other=0.0).to(tl.float32)
            x = tl.load(g + at, mask=inside[:, None] & (c < WIDTH)[None, :], other=0.0)
            acc += x.to(tl.float32) * w[None, :]
    at = (tl.program_id(2) * high * wide + p)[:, None] * WIDTH + c[None, :]
    tl.store(y_ptr + at, acc.to(y_ptr.dtype.element_ty), mask=(p < high * wide)[:, None] & (c < WIDTH)[None, :])


@triton.jit
def taps_grad(x_ptr, g_ptr, y_ptr, batch, length, channels, TAPS: tl.constexpr, PADDED: tl.constexpr,
              BLOCK: tl.constexpr):  # fmt: skip
    """By the weights of a causal depthwise convolution: a program sums over a channel's time, taps are an axis."""
    channel, k = tl.program_id(0), tl.arange(0, PADDED)
    acc = tl.zeros((BLOCK, PADDED), tl.float32)
    for b in range(batch):
        first = (b * channels + channel) * length
        for start in range(0, length, BLOCK):
            t = start + tl.arange(0, BLOCK)
            g = tl.load(g_ptr + first + t, mask=t < length, other=0.0).to(tl.float32)
            before = t[:, None] - k[None, :]
            inside = (before >= 0) & (t < length)[:, None] & (k < TAPS)[None, :]
            acc += g[:, None] * tl.load(x_ptr + first + before, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + channel * TAPS + k, tl.sum(acc, 0), mask=k < TAPS)


@triton.jit
def taps_grad_last(x_ptr, g_ptr, y_ptr, length, WIDTH: tl.constexpr, EACH: tl.constexpr, BLOCK_T: tl.constexpr,
                   BLOCK_C: tl.constexpr):  # fmt: skip
    """By four weights a channel, channels last: EACH blocks of times a program, whose sums are written apart."""
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    w0, w1 = tl.zeros((BLOCK_C,), tl.float32), tl.zeros((BLOCK_C,), tl.float32)
    w2, w3 = tl.zeros((BLOCK_C,), tl.float32), tl.zeros((BLOCK_C,), tl.float32)
    for n in range(EACH):
        t = ((tl.program_id(0) * EACH + n) * BLOCK_T + tl.arange(0, BLOCK_T))[:, None]
        mask = (t < length) & (c < WIDTH)[None, :]
        x, at = x_ptr + t * WIDTH + c[None, :], t * WIDTH + c[None, :]
        g = tl.load(g_ptr + at, mask=mask, other=0.0).to(tl.float32)
        w0 += tl.sum(g * tl.load(x, mask=mask, other=0.0).to(tl.float32), 0)
        w1 += tl.sum(g * tl.load(x - WIDTH, mask=mask & (t >= 1), other=0.0).to(tl.float32), 0)
        w2 += tl.sum(g * tl.load(x - 2 * WIDTH, mask=mask & (t >= 2), other=0.0).to(tl.float32), 0)
        w3 += tl.sum(g * tl.load(x - 3 * WIDTH, mask=mask & (t >= 3), other=0.0).to(tl.float32), 0)
    y = y_ptr + tl.program_id(0) * 4 * WIDTH + c
    tl.store(y, w0, mask=c < WIDTH)
    tl.store(y + WIDTH, w1, mask=c < WIDTH)
    tl.store(y + 2 * WIDTH, w2, mask=c < WIDTH)
    tl.store(y + 3 * WIDTH, w3, mask=c < WIDTH)


@triton.jit
def mean_pool_counted(x_ptr, y_ptr, high, wide, out_high, out_wide, SIDE: tl.constexpr, STEP: tl.constexpr,
                      PAD: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Means of windows of planes; what is outside is not counted."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    r, c = at // out_wide * STEP - PAD, at % out_wide * STEP - PAD
    x = x_ptr + tl.program_id(1) * high * wide
    total, count = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for i in range(SIDE):
        for j in range(SIDE):
            inside = (r + i >= 0) & (r + i < high) & (c + j >= 0) & (c + j < wide)
            total += tl.load(x + (r + i) * wide + c + j, mask=inside, other=0.0).to(tl.float32)
            count += tl.where(inside, 1.0, 0.0)
    n = out_high * out_wide
    tl.store(y_ptr + tl.program_id(1) * n + at, (total / count).to(y_ptr.dtype.element_ty), mask=at < n)


@triton.jit
def max_pool_apart(x_ptr, y_ptr, high, wide, out_high, out_wide, WIDTH: tl.constexpr, SIDE: tl.constexpr,
                   STEP: tl.constexpr, APART: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """A max pool, channels last, whose taps lie APART; no border."""
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (p < out_high * out_wide)[:, None] & (c < WIDTH)[None, :]
    first = (tl.program_id(2) * high + p // out_wide * STEP) * wide + p % out_wide * STEP
    most = tl.full((BLOCK_P, BLOCK_C), float("-inf"), x_ptr.dtype.element_ty)
    for i in tl.static_range(SIDE):
        for j in tl.static_range(SIDE):
            at = (first + i * APART * wide + j * APART)[:, None] * WIDTH + c[None, :]
            most = tl.maximum(most, tl.load(x_ptr + at, mask=mask, other=float("-inf")))
    at = (tl.program_id(2) * out_high * out_wide + p)[:, None] * WIDTH + c[None, :]
    tl.store(y_ptr + at, most, mask=mask)


@triton.jit
def attend_around(q_ptr, k_ptr, v_ptr, y_ptr, high, wide, scale, HEADS: tl.constexpr, WIDTH: tl.constexpr,
                  REACH: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Attention of each pixel to the (2 REACH + 1)^2 around it, a head along the second axis."""
    p, d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)[None, :]
    r, c, n = p // wide, p % wide, high * wide
    first = tl.program_id(1) * WIDTH
    own = p[:, None] * (HEADS * WIDTH) + first + d
    q = tl.load(q_ptr + own, mask=(p < n)[:, None], other=0.0).to(tl.float32) * scale
    most, below = tl.full((BLOCK,), float("-inf"), tl.float32), tl.zeros((BLOCK,), tl.float32)
    total = tl.zeros((BLOCK, WIDTH), tl.float32)
    for i in range(-REACH, REACH + 1):
        for j in range(-REACH, REACH + 1):
            inside = (r + i >= 0) & (r + i < high) & (c + j >= 0) & (c + j < wide)
            at = own + (i * wide + j) * (HEADS * WIDTH)
            k = tl.load(k_ptr + at, mask=inside[:, None], other=0.0).to(tl.float32)
            score = tl.where(inside, tl.sum(q * k, 1), -1e30)
            now = tl.maximum(most, score)
            keep, share = tl.exp(most - now), tl.exp(score - now)
            v = tl.load(v_ptr + at, mask=inside[:, None], other=0.0).to(tl.float32)
            below, most = below * keep + share, now
            total = total * keep[:, None] + share[:, None] * v
    tl.store(y_ptr + own, (total / below[:, None]).to(y_ptr.dtype.element_ty), mask=(p < n)[:, None])


@triton.jit
def morph_gradient(x_ptr, y_ptr, high, wide, SIDE: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """The largest byte around less the smallest; edges repeat; a loop over rows of the window."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask, x = (r < high) & (c < wide), x_ptr + tl.program_id(2) * high * wide
    least, most = tl.full((BLOCK_R, BLOCK_C), 255, tl.uint8), tl.full((BLOCK_R, BLOCK_C), 0, tl.uint8)
    for i in range(SIDE):
        row = tl.minimum(tl.maximum(r + i - SIDE // 2, 0), high - 1) * wide
        for j in tl.static_range(SIDE):
            v = tl.load(x + row + tl.minimum(tl.maximum(c + j - SIDE // 2, 0), wide - 1), mask=mask, other=0)
            least, most = tl.minimum(least, v), tl.maximum(most, v)
    tl.store(y_ptr + tl.program_id(2) * high * wide + r * wide + c, most - least, mask=mask)


@triton.jit
def thin_edges(gx_ptr, gy_ptr, y_ptr, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Canny's second step: a slope stays where both neighbours along its direction are less steep."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    inside = (r >= 1) & (r < high - 1) & (c >= 1) & (c < wide - 1)
    at = r * wide + c
    gx, gy = tl.load(gx_ptr + at, mask=inside, other=0.0), tl.load(gy_ptr + at, mask=inside, other=0.0)
    flat, steep = tl.abs(gy) < 0.4142 * tl.abs(gx), tl.abs(gy) > 2.4142 * tl.abs(gx)
    step = tl.where(flat, 1, tl.where(steep, wide, tl.where(gx * gy > 0, wide + 1, wide - 1)))
    own = gx * gx + gy * gy
    ax, ay = tl.load(gx_ptr + at + step, mask=inside, other=0.0), tl.load(gy_ptr + at + step, mask=inside, other=0.0)
    bx, by = tl.load(gx_ptr + at - step, mask=inside, other=0.0), tl.load(gy_ptr + at - step, mask=inside, other=0.0)
    keep = (own > ax * ax + ay * ay) & (own >= bx * bx + by * by)
    tl.store(y_ptr + at, tl.where(keep, tl.sqrt(own), 0.0), mask=inside)


@triton.jit
def heat_flat(x_ptr, y_ptr, deep, high, wide, rate, BLOCK: tl.constexpr):
    """Heat in a box after a step, seven points, cells in one row; walls stay as they are."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = deep * high * wide
    z, r, c = at // (high * wide), at // wide % high, at % wide
    inner = (z > 0) & (z < deep - 1) & (r > 0) & (r < high - 1) & (c > 0) & (c < wide - 1)
    own = tl.load(x_ptr + at, mask=at < n, other=0.0)
    acc = tl.load(x_ptr + at - 1, mask=inner, other=0.0) + tl.load(x_ptr + at + 1, mask=inner, other=0.0)
    acc += tl.load(x_ptr + at - wide, mask=inner, other=0.0) + tl.load(x_ptr + at + wide, mask=inner, other=0.0)
    acc += tl.load(x_ptr + at - high * wide, mask=inner, other=0.0)
    acc += tl.load(x_ptr + at + high * wide, mask=inner, other=0.0)
    tl.store(y_ptr + at, tl.where(inner, own + rate * (acc - 6.0 * own), own), mask=at < n)


@triton.jit
def wave_padded(now_ptr, old_ptr, speed_ptr, next_ptr, high, wide, REACH: tl.constexpr, BLOCK_Z: tl.constexpr,
                BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """A wave in a box with REACH cells of padding on each side, 6 REACH + 1 points; whole tiles of three
    dimensions."""
    z = (tl.program_id(2) * BLOCK_Z + tl.arange(0, BLOCK_Z) + REACH)[:, None, None]
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R) + REACH)[None, :, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C) + REACH)[None, None, :]
    mask = (r < high - REACH) & (c < wide - REACH)
    at, plane = (z * high + r) * wide + c, high * wide
    own = tl.load(now_ptr + at, mask=mask, other=0.0)
    acc = -2.5 * REACH * own
    for d in tl.static_range(1, REACH + 1):
        along = tl.load(now_ptr + at - d, mask=mask, other=0.0) + tl.load(now_ptr + at + d, mask=mask, other=0.0)
        along += tl.load(now_ptr + at - d * wide, mask=mask, other=0.0)
        along += tl.load(now_ptr + at + d * wide, mask=mask, other=0.0)
        along += tl.load(now_ptr + at - d * plane, mask=mask, other=0.0)
        along += tl.load(now_ptr + at + d * plane, mask=mask, other=0.0)
        acc += along * (1.0 / (d * d))
    speed, old = tl.load(speed_ptr + at, mask=mask, other=0.0), tl.load(old_ptr + at, mask=mask, other=0.0)
    tl.store(next_ptr + at, 2.0 * own - old + 0.01 * speed * acc, mask=mask)


@triton.jit
def _cubic(t):
    """Weights of four neighbours of a place t of the way from the second to the third."""
    a: tl.constexpr = -0.75
    u = 1.0 - t
    w0 = ((a * (t + 1.0) - 5.0 * a) * (t + 1.0) + 8.0 * a) * (t + 1.0) - 4.0 * a
    w1 = ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0
    w2 = ((a + 2.0) * u - (a + 3.0)) * u * u + 1.0
    return w0, w1, w2, 1.0 - w0 - w1 - w2


@triton.jit
def _row(x, row, c, wide, w0, w1, w2, w3, mask):
    a = tl.load(x + row + tl.minimum(tl.maximum(c - 1, 0), wide - 1), mask=mask, other=0.0).to(tl.float32)
    b = tl.load(x + row + tl.minimum(tl.maximum(c, 0), wide - 1), mask=mask, other=0.0).to(tl.float32)
    d = tl.load(x + row + tl.minimum(tl.maximum(c + 1, 0), wide - 1), mask=mask, other=0.0).to(tl.float32)
    e = tl.load(x + row + tl.minimum(tl.maximum(c + 2, 0), wide - 1), mask=mask, other=0.0).to(tl.float32)
    return a * w0 + b * w1 + d * w2 + e * w3


@triton.jit
def bicubic(x_ptr, y_ptr, high, wide, out_high, out_wide, down, across, BLOCK: tl.constexpr):
    """Planes at another size from 4 x 4 neighbours; corners are not aligned, edges repeat."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask, x = at < out_high * out_wide, x_ptr + tl.program_id(1) * high * wide
    v, u = (at // out_wide + 0.5) * down - 0.5, (at % out_wide + 0.5) * across - 0.5
    r, c = tl.floor(v), tl.floor(u)
    v0, v1, v2, v3 = _cubic(v - r)
    u0, u1, u2, u3 = _cubic(u - c)
    r, c = r.to(tl.int32), c.to(tl.int32)
    y = v0 * _row(x, tl.minimum(tl.maximum(r - 1, 0), high - 1) * wide, c, wide, u0, u1, u2, u3, mask)
    y += v1 * _row(x, tl.minimum(tl.maximum(r, 0), high - 1) * wide, c, wide, u0, u1, u2, u3, mask)
    y += v2 * _row(x, tl.minimum(tl.maximum(r + 1, 0), high - 1) * wide, c, wide, u0, u1, u2, u3, mask)
    y += v3 * _row(x, tl.minimum(tl.maximum(r + 2, 0), high - 1) * wide, c, wide, u0, u1, u2, u3, mask)
    tl.store(y_ptr + tl.program_id(1) * out_high * out_wide + at, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def columns_last(x_ptr, y_ptr, high, wide, out_high, out_wide, WIDTH: tl.constexpr, SIDE: tl.constexpr,
                 STEP: tl.constexpr, PAD: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """Images, channels last, to a row of SIDE x SIDE x WIDTH for each output; zeros around."""
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    n = out_high * out_wide
    r, col = p // out_wide * STEP - PAD, p % out_wide * STEP - PAD
    x = x_ptr + tl.program_id(2) * high * wide * WIDTH
    y = y_ptr + ((tl.program_id(2) * n + p) * (SIDE * SIDE * WIDTH))[:, None] + c[None, :]
    for i in tl.static_range(SIDE):
        for j in tl.static_range(SIDE):
            inside = (r + i >= 0) & (r + i < high) & (col + j >= 0) & (col + j < wide)
            at = ((r + i) * wide + col + j)[:, None] * WIDTH + c[None, :]
            v = tl.load(x + at, mask=inside[:, None] & (c < WIDTH)[None, :], other=0.0)
            tl.store(y + (i * SIDE + j) * WIDTH, v, mask=(p < n)[:, None] & (c < WIDTH)[None, :])


@triton.jit
def conv_with_state(x_ptr, w_ptr, state_ptr, y_ptr, last_ptr, length, channels, BLOCK: tl.constexpr):
    """A causal convolution of four taps and SiLU that goes on from the last three inputs, and leaves its own."""
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(1)
    x, state, w = x_ptr + row * length, state_ptr + row * 3, w_ptr + row % channels * 4
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(4):
        at = t + k - 3
        v = tl.load(x + at, mask=(at >= 0) & (at < length), other=0.0).to(tl.float32)
        v += tl.load(state + at + 3, mask=at < 0, other=0.0).to(tl.float32)
        acc += v * tl.load(w + k).to(tl.float32)
        if k == 3:
            tl.store(last_ptr + row * 3 + t - (length - 3), v, mask=(t >= length - 3) & (t < length))
    y = acc / (1.0 + tl.exp(-acc))
    tl.store(y_ptr + row * length + t, y.to(y_ptr.dtype.element_ty), mask=t < length)


@triton.jit
def keep_peaks(x_ptr, y_ptr, high, wide, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """Heat maps, in which only what is the most of its window stays; a map along the second axis."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = high * wide
    r, c, x = at // wide, at % wide, x_ptr + tl.program_id(1) * n
    own = tl.load(x + at, mask=at < n, other=0.0)
    most = own
    for i in tl.static_range(SIDE):
        for j in tl.static_range(SIDE):
            v, u = r + i - SIDE // 2, c + j - SIDE // 2
            inside = (v >= 0) & (v < high) & (u >= 0) & (u < wide)
            most = tl.maximum(most, tl.load(x + v * wide + u, mask=inside, other=float("-inf")))
    tl.store(y_ptr + tl.program_id(1) * n + at, tl.where(own == most, own, 0.0), mask=at < n)


@triton.jit
def sliding_match(x_ptr, w_ptr, y_ptr, length, taps, BLOCK: tl.constexpr):
    """How alike each stretch of a signal and a pattern are, by their correlation; the length of it is an argument."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, mask = x_ptr + tl.program_id(1) * length, at < length - taps + 1
    one, two, both = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    w1, w2 = 0.0, 0.0
    for k in range(taps):
        w, v = tl.load(w_ptr + k), tl.load(x + at + k, mask=mask, other=0.0)
        w1, w2 = w1 + w, w2 + w * w
        one, two, both = one + v, two + v * v, both + v * w
    down = (two - one * one / taps) * (w2 - w1 * w1 / taps)
    y = (both - one * w1 / taps) * tl.rsqrt(tl.maximum(down, 1e-6))
    tl.store(y_ptr + tl.program_id(1) * length + at, y, mask=mask)


@triton.jit
def _flux(h, hu, hv):
    """Of water along the first of two speeds, and how fast waves are."""
    u = hu / h
    return hu, hu * u + 4.9 * h * h, hv * u, tl.abs(u) + tl.sqrt(9.8 * h)


@triton.jit
def _between(h, hu, hv, k, ku, kv):
    f0, f1, f2, a = _flux(h, hu, hv)
    g0, g1, g2, b = _flux(k, ku, kv)
    most = tl.maximum(a, b)
    return f0 + g0 - most * (k - h), f1 + g1 - most * (ku - hu), f2 + g2 - most * (kv - hv)


@triton.jit
def _water(x_ptr, at, n, rest, mask):
    h = rest + tl.load(x_ptr + at, mask=mask, other=0.0)
    return h, tl.load(x_ptr + n + at, mask=mask, other=0.0), tl.load(x_ptr + 2 * n + at, mask=mask, other=0.0)


@triton.jit
def shallow_water(x_ptr, y_ptr, high, wide, rest, step, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A step of finite volumes of shallow water: height above rest and two flows, with fluxes through four sides."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (r >= 1) & (r < high - 1) & (c >= 1) & (c < wide - 1)
    at, n = r * wide + c, high * wide
    h, hu, hv = _water(x_ptr, at, n, rest, mask)
    k, ku, kv = _water(x_ptr, at + 1, n, rest, mask)
    e0, e1, e2 = _between(h, hu, hv, k, ku, kv)
    k, ku, kv = _water(x_ptr, at - 1, n, rest, mask)
    w0, w1, w2 = _between(k, ku, kv, h, hu, hv)
    k, ku, kv = _water(x_ptr, at + wide, n, rest, mask)
    s0, s2, s1 = _between(h, hv, hu, k, kv, ku)
    k, ku, kv = _water(x_ptr, at - wide, n, rest, mask)
    n0, n2, n1 = _between(k, kv, ku, h, hv, hu)
    tl.store(y_ptr + at, h - rest - step * (e0 - w0 + s0 - n0), mask=mask)
    tl.store(y_ptr + n + at, hu - step * (e1 - w1 + s1 - n1), mask=mask)
    tl.store(y_ptr + 2 * n + at, hv - step * (e2 - w2 + s2 - n2), mask=mask)


@triton.jit
def cyclic_cells(x_ptr, y_ptr, high, wide, KINDS: tl.constexpr, LEAST: tl.constexpr, BLOCK_R: tl.constexpr,
                 BLOCK_C: tl.constexpr):  # fmt: skip
    """A cell takes the next kind where LEAST of the eight around are of it; a frame of one cell is padding."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask, x = (r < high) & (c < wide), x_ptr + r * (wide + 2) + c
    own = tl.load(x + wide + 3, mask=mask, other=0)
    after = tl.where(own == KINDS - 1, 0, own + 1).to(tl.uint8)
    count = tl.zeros((BLOCK_R, BLOCK_C), tl.int32)
    for k in tl.static_range(9):
        if k != 4:
            count += (tl.load(x + k // 3 * (wide + 2) + k % 3, mask=mask, other=0) == after).to(tl.int32)
    tl.store(y_ptr + r * wide + c, tl.where(count >= LEAST, after, own), mask=mask)


@triton.jit
def fir_complex(x_ptr, w_ptr, y_ptr, n, TAPS: tl.constexpr, STEP: tl.constexpr, BLOCK: tl.constexpr):
    """A filter of complex samples, real and imaginary parts beside one another, of which every STEP-th is kept."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real, imaginary = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(TAPS):
        p = x_ptr + 2 * (i * STEP + k)
        a, b = tl.load(w_ptr + 2 * k), tl.load(w_ptr + 2 * k + 1)
        x, y = tl.load(p, mask=i < n, other=0.0).to(tl.float32), tl.load(p + 1, mask=i < n, other=0.0).to(tl.float32)
        real, imaginary = real + a * x - b * y, imaginary + a * y + b * x
    tl.store(y_ptr + 2 * i, real, mask=i < n)
    tl.store(y_ptr + 2 * i + 1, imaginary, mask=i < n)


@triton.jit
def bands(x_ptr, y_ptr, times, wide, TAPS: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """How many deviations each value is above the mean of the TAPS last of its column."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask, at = (r < times) & (r >= TAPS - 1) & (c < wide), r * wide + c
    one, two = tl.zeros((BLOCK_R, BLOCK_C), tl.float32), tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for k in range(TAPS):
        v = tl.load(x_ptr + at - k * wide, mask=mask, other=0.0).to(tl.float32)
        one, two = one + v, two + v * v
    own, mean = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32), one / TAPS
    y = (own - mean) * tl.rsqrt(tl.maximum(two / TAPS - mean * mean, 0.0) + 1e-3)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def sobel_volume(x_ptr, y_ptr, deep, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """How steep a volume is, from 3 x 3 x 3 points; edges repeat, a plane along the third axis."""
    z = tl.program_id(2)
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (r < high) & (c < wide)
    gx, gy = tl.zeros((BLOCK_R, BLOCK_C), tl.float32), tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    gz = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for i in tl.static_range(-1, 2):
        plane = tl.minimum(tl.maximum(z + i, 0), deep - 1) * high
        for j in tl.static_range(-1, 2):
            row = (plane + tl.minimum(tl.maximum(r + j, 0), high - 1)) * wide
            for k in tl.static_range(-1, 2):
                v = tl.load(x_ptr + row + tl.minimum(tl.maximum(c + k, 0), wide - 1), mask=mask, other=0.0)
                v = v.to(tl.float32)
                gx += k * (2 - i * i) * (2 - j * j) * v
                gy += j * (2 - i * i) * (2 - k * k) * v
                gz += i * (2 - j * j) * (2 - k * k) * v
    y = tl.sqrt(gx * gx + gy * gy + gz * gz)
    tl.store(y_ptr + (z * high + r) * wide + c, y.to(y_ptr.dtype.element_ty), mask=mask)

