"""A sixth zoo of Triton kernels, whose addresses decide: windows, atomics and gathers as libraries of images, graphs,
fields and language models write them."""

import triton
import triton.language as tl

# -- windows


@triton.jit
def seismic_3d(
    now_ptr, old_ptr, speed_ptr, next_ptr, planes, rows, cols, REACH: tl.constexpr, BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
):  # fmt: skip
    """A step of the wave equation with a star of 6 * REACH + 1 places."""
    z = tl.program_id(2)
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    inside = (r >= REACH) & (r < rows - REACH) & (c >= REACH) & (c < cols - REACH)
    inside = inside & (z >= REACH) & (z < planes - REACH)
    at = (z * rows + r) * cols + c
    x = tl.load(now_ptr + at, mask=inside, other=0.0)
    acc = -3.0 * x
    for k in tl.static_range(1, REACH + 1):
        acc += (
            tl.load(now_ptr + at + k, mask=inside, other=0.0)
            + tl.load(now_ptr + at - k, mask=inside, other=0.0)
            + tl.load(now_ptr + at + k * cols, mask=inside, other=0.0)
            + tl.load(now_ptr + at - k * cols, mask=inside, other=0.0)
            + tl.load(now_ptr + at + k * rows * cols, mask=inside, other=0.0)
            + tl.load(now_ptr + at - k * rows * cols, mask=inside, other=0.0)
        ) / (2 * k * k)
    old = tl.load(old_ptr + at, mask=inside, other=0.0)
    v = tl.load(speed_ptr + at, mask=inside, other=0.0)
    tl.store(next_ptr + at, 2.0 * x - old + v * acc, mask=inside)


@triton.jit
def _around(ptr, r, c, rows, cols, mask):
    """The mean of eight neighbours, less the middle; a field ends where it begins."""
    up, down = (r + rows - 1) % rows * cols, (r + 1) % rows * cols
    left, right = (c + cols - 1) % cols, (c + 1) % cols
    row = ptr + r * cols
    middle = tl.load(row + c, mask=mask, other=0.0)
    sides = tl.load(ptr + up + c, mask=mask, other=0.0) + tl.load(ptr + down + c, mask=mask, other=0.0)
    sides += tl.load(row + left, mask=mask, other=0.0) + tl.load(row + right, mask=mask, other=0.0)
    corners = tl.load(ptr + up + left, mask=mask, other=0.0) + tl.load(ptr + up + right, mask=mask, other=0.0)
    corners += tl.load(ptr + down + left, mask=mask, other=0.0) + tl.load(ptr + down + right, mask=mask, other=0.0)
    return middle, 0.2 * sides + 0.05 * corners - middle


@triton.jit
def gray_scott(
    u_ptr, v_ptr, next_u_ptr, next_v_ptr, rows, cols, feed, kill, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr
):
    """Two fields that react and diffuse."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    mask = (r < rows) & (c < cols)
    u, du = _around(u_ptr, r, c, rows, cols, mask)
    v, dv = _around(v_ptr, r, c, rows, cols, mask)
    both = u * v * v
    tl.store(next_u_ptr + r * cols + c, u + du - both + feed * (1.0 - u), mask=mask)
    tl.store(next_v_ptr + r * cols + c, v + 0.5 * dv + both - (feed + kill) * v, mask=mask)


@triton.jit
def _in_order(a, b, c):
    low, high = tl.minimum(a, b), tl.maximum(a, b)
    return tl.minimum(low, c), tl.maximum(low, tl.minimum(high, c)), tl.maximum(high, c)


@triton.jit
def median_3x3(x_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Of images of bytes, edges repeated."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    mask = (r < rows) & (c < cols)
    base = x_ptr + tl.program_id(2) * rows * cols
    left, right = tl.maximum(c - 1, 0), tl.minimum(c + 1, cols - 1)
    up, down = base + tl.maximum(r - 1, 0) * cols, base + tl.minimum(r + 1, rows - 1) * cols
    row = base + r * cols
    a, b, d = _in_order(tl.load(up + left, mask=mask), tl.load(up + c, mask=mask), tl.load(up + right, mask=mask))
    e, f, g = _in_order(tl.load(row + left, mask=mask), tl.load(row + c, mask=mask), tl.load(row + right, mask=mask))
    h, i, j = _in_order(tl.load(down + left, mask=mask), tl.load(down + c, mask=mask), tl.load(down + right, mask=mask))
    _, middle, _ = _in_order(b, f, i)
    _, out, _ = _in_order(tl.maximum(tl.maximum(a, e), h), middle, tl.minimum(tl.minimum(d, g), j))
    tl.store(y_ptr + tl.program_id(2) * rows * cols + r * cols + c, out, mask=mask)


@triton.jit
def depthwise_gradient(
    g_ptr, w_ptr, x_ptr, channels, high, wide, out_high, out_wide, SIDE: tl.constexpr, STEP: tl.constexpr,
    PAD: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Of the input of a depthwise convolution, NCHW."""
    plane = tl.program_id(2)
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    acc = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for i in tl.static_range(SIDE):
        for j in tl.static_range(SIDE):
            h, v = r + PAD - i, c + PAD - j
            inside = (h >= 0) & (v >= 0) & (h % STEP == 0) & (v % STEP == 0)
            inside = inside & (h // STEP < out_high) & (v // STEP < out_wide)
            g = tl.load(g_ptr + (plane * out_high + h // STEP) * out_wide + v // STEP, mask=inside, other=0.0)
            acc += g.to(tl.float32) * tl.load(w_ptr + (plane % channels * SIDE + i) * SIDE + j).to(tl.float32)
    at = (plane * high + r) * wide + c
    tl.store(x_ptr + at, acc.to(x_ptr.dtype.element_ty), mask=(r < high) & (c < wide))


@triton.jit
def conv_sequence(
    x_ptr, w_ptr, bias_ptr, y_ptr, length, dim, stride_b, stride_t, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr
):
    """Causal and depthwise, four taps: the last three tokens are carried while a program walks along the sequence."""
    d = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = d < dim
    start = tl.program_id(0) * BLOCK_T
    base = x_ptr + tl.program_id(2) * stride_b + d
    a = tl.load(base + (start - 3) * stride_t, mask=mask & (start >= 3), other=0.0).to(tl.float32)
    b = tl.load(base + (start - 2) * stride_t, mask=mask & (start >= 2), other=0.0).to(tl.float32)
    c = tl.load(base + (start - 1) * stride_t, mask=mask & (start >= 1), other=0.0).to(tl.float32)
    w = w_ptr + d * 4
    w0, w1 = tl.load(w, mask=mask).to(tl.float32), tl.load(w + 1, mask=mask).to(tl.float32)
    w2, w3 = tl.load(w + 2, mask=mask).to(tl.float32), tl.load(w + 3, mask=mask).to(tl.float32)
    bias = tl.load(bias_ptr + d, mask=mask).to(tl.float32)
    for t in range(start, min(start + BLOCK_T, length)):
        x = tl.load(base + t * stride_t, mask=mask, other=0.0).to(tl.float32)
        y = bias + a * w0 + b * w1 + c * w2 + x * w3
        a, b, c = b, c, x
        y = y / (1.0 + tl.exp(-y))
        tl.store(y_ptr + tl.program_id(2) * stride_b + t * stride_t + d, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def max_pool_places(
    x_ptr, y_ptr, place_ptr, high, wide, out_high, out_wide, SIDE: tl.constexpr, STEP: tl.constexpr, PAD: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The largest of SIDE x SIDE, and where it is in its plane, as int64."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    each = out_high * out_wide
    r, c = i // out_wide, i % out_wide
    base = x_ptr + tl.program_id(1) * high * wide
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    place = tl.zeros((BLOCK,), tl.int32)
    for a in tl.static_range(SIDE):
        for b in tl.static_range(SIDE):
            h, v = r * STEP + a - PAD, c * STEP + b - PAD
            inside = (h >= 0) & (h < high) & (v >= 0) & (v < wide) & (i < each)
            x = tl.load(base + h * wide + v, mask=inside, other=float("-inf")).to(tl.float32)
            place = tl.where(x > best, h * wide + v, place)
            best = tl.maximum(best, x)
    at = tl.program_id(1) * each + i
    tl.store(y_ptr + at, best.to(y_ptr.dtype.element_ty), mask=i < each)
    tl.store(place_ptr + at, place.to(tl.int64), mask=i < each)


@triton.jit
def adaptive_mean(x_ptr, y_ptr, high, wide, out_high, out_wide, BLOCK: tl.constexpr):
    """Windows whose sizes differ by one, so that a plane of any size gives one of out_high x out_wide."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < out_high * out_wide
    r, c = i // out_wide, i % out_wide
    top, left = r * high // out_high, c * wide // out_wide
    bottom = ((r + 1) * high + out_high - 1) // out_high
    right = ((c + 1) * wide + out_wide - 1) // out_wide
    acc = tl.zeros((BLOCK,), tl.float32)
    base = x_ptr + tl.program_id(1) * high * wide
    for a in range(tl.cdiv(high, out_high) + 1):
        for b in range(tl.cdiv(wide, out_wide) + 1):
            h, v = top + a, left + b
            acc += tl.load(base + h * wide + v, mask=mask & (h < bottom) & (v < right), other=0.0).to(tl.float32)
    acc /= ((bottom - top) * (right - left)).to(tl.float32)
    tl.store(y_ptr + tl.program_id(1) * out_high * out_wide + i, acc.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def response_norm(x_ptr, y_ptr, channels, area, alpha, REACH: tl.constexpr, BLOCK: tl.constexpr):
    """Of a place, over the channels next to its own, NCHW."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(1)
    base = x_ptr + tl.program_id(2) * channels * area + i
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(-REACH, REACH + 1):
        x = tl.load(base + (c + k) * area, mask=(i < area) & (c + k >= 0) & (c + k < channels), other=0.0)
        acc += x.to(tl.float32) * x.to(tl.float32)
    x = tl.load(base + c * area, mask=i < area, other=0.0).to(tl.float32)
    y = x / tl.sqrt(tl.sqrt(1.0 + alpha * acc)) / tl.sqrt(1.0 + alpha * acc)
    tl.store(y_ptr + (tl.program_id(2) * channels + c) * area + i, y.to(y_ptr.dtype.element_ty), mask=i < area)


@triton.jit
def fold(
    x_ptr, y_ptr, high, wide, steps_h, steps_w, SIDE: tl.constexpr, STEP: tl.constexpr, PAD: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Patches are added up where they overlap (`col2im`): each place asks for those that it is in."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    r, c = i // wide + PAD, i % wide + PAD
    acc = tl.zeros((BLOCK,), tl.float32)
    base = x_ptr + tl.program_id(1) * SIDE * SIDE * steps_h * steps_w
    for a in tl.static_range(SIDE):
        for b in tl.static_range(SIDE):
            h, v = r - a, c - b
            inside = (i < high * wide) & (h >= 0) & (v >= 0) & (h % STEP == 0) & (v % STEP == 0)
            inside = inside & (h // STEP < steps_h) & (v // STEP < steps_w)
            at = ((a * SIDE + b) * steps_h + h // STEP) * steps_w + v // STEP
            acc += tl.load(base + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + tl.program_id(1) * high * wide + i, acc.to(y_ptr.dtype.element_ty), mask=i < high * wide)


@triton.jit
def bilateral(x_ptr, y_ptr, rows, cols, near, alike, REACH: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A blur that keeps edges: neighbours weigh by how near and how alike they are."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    middle = tl.load(x_ptr + r * cols + c, mask=(r < rows) & (c < cols), other=0.0)
    total = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    norm = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for i in tl.static_range(-REACH, REACH + 1):
        for j in tl.static_range(-REACH, REACH + 1):
            inside = (r + i >= 0) & (r + i < rows) & (c + j >= 0) & (c + j < cols)
            x = tl.load(x_ptr + (r + i) * cols + c + j, mask=inside, other=0.0)
            apart = x - middle
            w = tl.where(inside, tl.exp(-(i * i + j * j) * near - apart * apart * alike), 0.0)
            total += w * x
            norm += w
    tl.store(y_ptr + r * cols + c, total / norm, mask=(r < rows) & (c < cols))


@triton.jit
def correlation(a_ptr, b_ptr, y_ptr, channels, high, wide, APART: tl.constexpr, BLOCK: tl.constexpr):
    """How alike places of two images are, for each of APART shifts to the left: the cost volume of stereo matching."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.program_id(1)
    mask = i < high * wide
    acc = tl.zeros((BLOCK,), tl.float32)
    for c in range(channels):
        a = tl.load(a_ptr + c * high * wide + i, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + c * high * wide + i - d, mask=mask & (i % wide >= d), other=0.0).to(tl.float32)
        acc += a * b
    tl.store(y_ptr + d * high * wide + i, (acc / channels).to(y_ptr.dtype.element_ty), mask=mask)


# -- atomics


@triton.jit
def neighbour_sum(
    x_ptr, from_ptr, to_ptr, y_ptr, degree_ptr, edges, width, BLOCK_E: tl.constexpr, BLOCK_C: tl.constexpr
):
    """Features of one end of each edge are added to those of the other, and edges counted."""
    e = tl.program_id(0) * BLOCK_E + tl.arange(0, BLOCK_E)
    d = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    source = tl.load(from_ptr + e, mask=e < edges, other=0)
    target = tl.load(to_ptr + e, mask=e < edges, other=0)
    mask = (e < edges)[:, None] & (d < width)
    x = tl.load(x_ptr + source[:, None] * width + d, mask=mask, other=0.0)
    tl.atomic_add(y_ptr + target[:, None] * width + d, x, mask=mask, sem="relaxed")
    if tl.program_id(1) == 0:
        tl.atomic_add(degree_ptr + target, tl.full((BLOCK_E,), 1, tl.int32), mask=e < edges, sem="relaxed")


@triton.jit
def edge_largest(score_ptr, to_ptr, y_ptr, n, heads, BLOCK: tl.constexpr):
    """The largest score of the edges that end in a node, for each head."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    target = tl.load(to_ptr + i // heads, mask=mask, other=0)
    x = tl.load(score_ptr + i, mask=mask, other=0.0)
    tl.atomic_max(y_ptr + target * heads + i % heads, x, mask=mask, sem="relaxed")


@triton.jit
def expert_slots(expert_ptr, count_ptr, slot_ptr, n, BLOCK: tl.constexpr):
    """Each row takes the next free place of its expert."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    expert = tl.load(expert_ptr + i, mask=i < n, other=0)
    slot = tl.atomic_add(count_ptr + expert, tl.full((BLOCK,), 1, tl.int32), mask=i < n, sem="relaxed")
    tl.store(slot_ptr + i, slot, mask=i < n)


@triton.jit
def splat(x_ptr, flow_ptr, y_ptr, high, wide, BLOCK: tl.constexpr):
    """Each pixel goes where its flow says, in parts to the four pixels around that place; CHW."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    area = high * wide
    mask = i < area
    x = tl.load(x_ptr + tl.program_id(1) * area + i, mask=mask, other=0.0)
    v = (i % wide).to(tl.float32) + tl.load(flow_ptr + i, mask=mask, other=0.0)
    h = (i // wide).to(tl.float32) + tl.load(flow_ptr + area + i, mask=mask, other=0.0)
    left, top = tl.floor(v), tl.floor(h)
    fv, fh = v - left, h - top
    r, c = top.to(tl.int32), left.to(tl.int32)
    base = y_ptr + tl.program_id(1) * area + r * wide + c
    for a in tl.static_range(2):
        for b in tl.static_range(2):
            inside = mask & (r + a >= 0) & (r + a < high) & (c + b >= 0) & (c + b < wide)
            part = (fh if a else 1.0 - fh) * (fv if b else 1.0 - fv)
            tl.atomic_add(base + a * wide + b, x * part, mask=inside, sem="relaxed")


@triton.jit
def tap_gradient(x_ptr, g_ptr, w_ptr, channels, high, wide, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """Of the taps of a depthwise convolution: each program adds one sum for each of SIDE x SIDE taps of its channel."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    plane = tl.program_id(1)
    r, c = i // wide, i % wide
    g = tl.load(g_ptr + plane * high * wide + i, mask=i < high * wide, other=0.0).to(tl.float32)
    for a in tl.static_range(SIDE):
        for b in tl.static_range(SIDE):
            h, v = r + a - SIDE // 2, c + b - SIDE // 2
            inside = (h >= 0) & (h < high) & (v >= 0) & (v < wide) & (i < high * wide)
            x = tl.load(x_ptr + plane * high * wide + h * wide + v, mask=inside, other=0.0).to(tl.float32)
            tl.atomic_add(w_ptr + (plane % channels * SIDE + a) * SIDE + b, tl.sum(x * g), sem="relaxed")


@triton.jit
def bloom(key_ptr, word_ptr, n, words, HASHES: tl.constexpr, BLOCK: tl.constexpr):
    """Sets HASHES bits of a filter for each key."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    h = tl.load(key_ptr + i, mask=i < n, other=0).to(tl.uint32)
    for _ in tl.static_range(HASHES):
        h = (h ^ (h >> 16)) * 0x45D9F3B
        h = (h ^ (h >> 15)) * 0x2C1B3C6D
        bit = (tl.full((BLOCK,), 1, tl.uint32) << (h & 31)).to(tl.int32, bitcast=True)
        tl.atomic_or(word_ptr + (h >> 5) % words.to(tl.uint32), bit, mask=i < n, sem="relaxed")


@triton.jit
def embed_gradient(g_ptr, word_ptr, y_ptr, tokens, width, padding, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """Gradients are added to the rows of their words in their own type; padding has none."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    word = tl.load(word_ptr + t, mask=t < tokens, other=0)
    mask = ((t < tokens) & (word != padding))[:, None] & (d < width)
    g = tl.load(g_ptr + t[:, None] * width + d, mask=mask, other=0.0)
    tl.atomic_add(y_ptr + word[:, None] * width + d, g, mask=mask, sem="relaxed")


@triton.jit
def weighted_count(key_ptr, weight_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """`bincount` with weights."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + i, mask=i < n, other=0)
    tl.atomic_add(y_ptr + key, tl.load(weight_ptr + i, mask=i < n, other=0.0), mask=i < n, sem="relaxed")


# -- gathers


@triton.jit
def embed_three(
    word_ptr, place_ptr, kind_ptr, words_ptr, places_ptr, kinds_ptr, y_ptr, tokens, width, BLOCK_T: tl.constexpr,
    BLOCK_C: tl.constexpr,
):  # fmt: skip
    """The sum of a token's word, its place and its kind."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    word = tl.load(word_ptr + t, mask=t < tokens, other=0)[:, None]
    place = tl.load(place_ptr + t, mask=t < tokens, other=0)[:, None]
    kind = tl.load(kind_ptr + t, mask=t < tokens, other=0)[:, None]
    mask = (t < tokens)[:, None] & (d < width)
    y = tl.load(words_ptr + word * width + d, mask=mask, other=0.0).to(tl.float32)
    y += tl.load(places_ptr + place * width + d, mask=mask, other=0.0).to(tl.float32)
    y += tl.load(kinds_ptr + kind * width + d, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + t[:, None] * width + d, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def take_columns(x_ptr, index_ptr, y_ptr, rows, cols, in_cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """y[r, c] = x[r, index[c]]: `index_select` along columns."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    at = tl.load(index_ptr + c, mask=c < cols, other=0)[None, :]
    mask = (r < rows) & (c < cols)[None, :]
    tl.store(y_ptr + r * cols + c[None, :], tl.load(x_ptr + r * in_cols + at, mask=mask, other=0.0), mask=mask)


@triton.jit
def take_along_rows(x_ptr, index_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """y[r, c] = x[index[r, c], c]: `gather` along rows."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    mask = (r < rows) & (c < cols)
    at = tl.load(index_ptr + r * cols + c, mask=mask, other=0)
    tl.store(y_ptr + r * cols + c, tl.load(x_ptr + at * cols + c, mask=mask, other=0.0), mask=mask)


@triton.jit
def grid_sample(x_ptr, grid_ptr, y_ptr, channels, high, wide, out_area, BLOCK: tl.constexpr):
    """Bilinear, zeros outside: places of a result are given as numbers from -1 to 1; NCHW."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1)
    mask = i < out_area
    v = (tl.load(grid_ptr + (n * out_area + i) * 2, mask=mask, other=0.0) + 1.0) * wide * 0.5 - 0.5
    h = (tl.load(grid_ptr + (n * out_area + i) * 2 + 1, mask=mask, other=0.0) + 1.0) * high * 0.5 - 0.5
    left, top = tl.floor(v), tl.floor(h)
    fv, fh = v - left, h - top
    r, c = top.to(tl.int32), left.to(tl.int32)
    upper, lower = mask & (r >= 0) & (r < high), mask & (r >= -1) & (r < high - 1)
    before, after = (c >= 0) & (c < wide), (c >= -1) & (c < wide - 1)
    for k in range(channels):
        at = x_ptr + ((n * channels + k) * high + r) * wide + c
        a = tl.load(at, mask=upper & before, other=0.0) * (1.0 - fv)
        a += tl.load(at + 1, mask=upper & after, other=0.0) * fv
        b = tl.load(at + wide, mask=lower & before, other=0.0) * (1.0 - fv)
        b += tl.load(at + wide + 1, mask=lower & after, other=0.0) * fv
        tl.store(y_ptr + (n * channels + k) * out_area + i, a * (1.0 - fh) + b * fh, mask=mask)


@triton.jit
def sparse_times_rows(start_ptr, col_ptr, v_ptr, x_ptr, y_ptr, width, BLOCK: tl.constexpr):
    """A sparse matrix in rows times a dense one: a program has BLOCK columns of a row of the result."""
    row = tl.program_id(0)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in range(tl.load(start_ptr + row), tl.load(start_ptr + row + 1)):
        x = tl.load(x_ptr + tl.load(col_ptr + k) * width + d, mask=d < width, other=0.0)
        acc += tl.load(v_ptr + k) * x.to(tl.float32)
    tl.store(y_ptr + row * width + d, acc.to(y_ptr.dtype.element_ty), mask=d < width)


@triton.jit
def hash_grid(point_ptr, table_ptr, y_ptr, n, slots, growth, LEVELS: tl.constexpr, BLOCK: tl.constexpr):
    """Two features of a point at one of LEVELS resolutions, between the corners of its cell, which a table holds."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    level = tl.program_id(1)
    mask = i < n
    side = tl.exp2(level.to(tl.float32) * growth) * 16.0
    x = tl.load(point_ptr + i * 3, mask=mask, other=0.0) * side
    y = tl.load(point_ptr + i * 3 + 1, mask=mask, other=0.0) * side
    z = tl.load(point_ptr + i * 3 + 2, mask=mask, other=0.0) * side
    fx, fy, fz = x - tl.floor(x), y - tl.floor(y), z - tl.floor(z)
    kx, ky, kz = x.to(tl.uint32), y.to(tl.uint32), z.to(tl.uint32)
    first = tl.zeros((BLOCK,), tl.float32)
    second = tl.zeros((BLOCK,), tl.float32)
    for a in tl.static_range(2):
        for b in tl.static_range(2):
            for c in tl.static_range(2):
                h = ((kx + a) ^ ((ky + b) * 2654435761) ^ ((kz + c) * 805459861)) & (slots - 1)
                w = (fx if a else 1.0 - fx) * (fy if b else 1.0 - fy) * (fz if c else 1.0 - fz)
                at = table_ptr + (level * slots + h) * 2
                first += w * tl.load(at, mask=mask, other=0.0).to(tl.float32)
                second += w * tl.load(at + 1, mask=mask, other=0.0).to(tl.float32)
    out = y_ptr + (i * LEVELS + level) * 2
    tl.store(out, first.to(y_ptr.dtype.element_ty), mask=mask)
    tl.store(out + 1, second.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def nf4(code_ptr, table_ptr, scale_ptr, y_ptr, n, EACH: tl.constexpr, BLOCK: tl.constexpr):
    """Two weights of 4 bits in a byte, each the number of one of sixteen values; a scale for each EACH of them."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    packed = tl.load(code_ptr + i // 2, mask=mask, other=0).to(tl.int32)
    code = tl.where(i % 2 == 0, packed >> 4, packed & 15)
    y = tl.load(table_ptr + code) * tl.load(scale_ptr + i // EACH, mask=mask, other=0.0)
    tl.store(y_ptr + i, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def pixel_shuffle(x_ptr, y_ptr, high, wide, n, TIMES: tl.constexpr, BLOCK: tl.constexpr):
    """Channels become pixels: TIMES x TIMES of them for each."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v, rest = i % (wide * TIMES), i // (wide * TIMES)
    h, plane = rest % (high * TIMES), rest // (high * TIMES)
    source = (plane * TIMES + h % TIMES) * TIMES + v % TIMES
    at = (source * high + h // TIMES) * wide + v // TIMES
    tl.store(y_ptr + i, tl.load(x_ptr + at, mask=i < n), mask=i < n)


@triton.jit
def bucketise(x_ptr, edge_ptr, y_ptr, n, edges, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """How many edges lie below a number: a search by halves."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    low = tl.zeros((BLOCK,), tl.int32)
    high = low + edges
    for _ in tl.static_range(STEPS):
        middle = (low + high) // 2
        right = (tl.load(edge_ptr + middle, mask=(low < high) & (i < n), other=0.0) < x) & (low < high)
        low = tl.where(right, middle + 1, low)
        high = tl.where(right, high, middle)
    tl.store(y_ptr + i, low, mask=i < n)


@triton.jit
def roi_align(x_ptr, box_ptr, y_ptr, channels, high, wide, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """SIDE x SIDE places of each box, bilinear, of every channel of one image."""
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    box = box_ptr + tl.program_id(0) * 4
    mask = i < channels * SIDE * SIDE
    c, r, q = i // (SIDE * SIDE), i // SIDE % SIDE, i % SIDE
    left, top = tl.load(box), tl.load(box + 1)
    v = left + (q + 0.5) * ((tl.load(box + 2) - left) / SIDE)
    h = top + (r + 0.5) * ((tl.load(box + 3) - top) / SIDE)
    kh, kv = tl.minimum(h.to(tl.int32), high - 2), tl.minimum(v.to(tl.int32), wide - 2)
    fh, fv = h - kh, v - kv
    at = x_ptr + (c * high + kh) * wide + kv
    upper = tl.load(at, mask=mask, other=0.0) * (1.0 - fv) + tl.load(at + 1, mask=mask, other=0.0) * fv
    lower = tl.load(at + wide, mask=mask, other=0.0) * (1.0 - fv) + tl.load(at + wide + 1, mask=mask, other=0.0) * fv
    tl.store(y_ptr + tl.program_id(0) * channels * SIDE * SIDE + i, upper * (1.0 - fh) + lower * fh, mask=mask)


@triton.jit
def shifted_windows(
    x_ptr, y_ptr, high, wide, width, shift, SIDE: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr
):
    """An image of tokens, rolled by `shift`, is cut into windows of SIDE x SIDE tokens."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    window, inner = t // (SIDE * SIDE), t % (SIDE * SIDE)
    h = (window // (wide // SIDE) * SIDE + inner // SIDE + shift) % high
    v = (window % (wide // SIDE) * SIDE + inner % SIDE + shift) % wide
    mask = (t < high * wide)[:, None] & (d < width)
    base = tl.program_id(2) * high * wide * width
    x = tl.load(x_ptr + base + (h * wide + v)[:, None] * width + d, mask=mask)
    tl.store(y_ptr + base + t[:, None] * width + d, x, mask=mask)
