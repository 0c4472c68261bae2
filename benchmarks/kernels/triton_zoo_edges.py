"""A third zoo of Triton kernels: loads that overlap, atomics, gathers; `zoo.py` measures and scores it."""

import triton
import triton.language as tl

# -- loads that overlap


@triton.jit
def taps(x_ptr, w_ptr, y_ptr, n, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    """y[i] = sum of w[k] * x[i + k], one load a tap."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(TAPS):
        acc += tl.load(w_ptr + k) * tl.load(x_ptr + i + k, mask=i + k < n, other=0.0).to(tl.float32)
    tl.store(y_ptr + i, acc.to(y_ptr.dtype.element_ty), mask=i < n)


@triton.jit
def taps_loop(x_ptr, w_ptr, y_ptr, n, count, BLOCK: tl.constexpr):
    """The same in a loop whose length is an argument."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in range(count):
        acc += tl.load(w_ptr + k) * tl.load(x_ptr + i + k, mask=i + k < n, other=0.0)
    tl.store(y_ptr + i, acc, mask=i < n)


@triton.jit
def stencil_cross(x_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr, REACH: tl.constexpr):
    """A cross of 4 * REACH + 1 points; the frame is left as it is."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    inside = (r >= REACH) & (r < rows - REACH) & (c >= REACH) & (c < cols - REACH)
    at = x_ptr + r * cols + c
    acc = -4.0 * tl.load(at, mask=inside, other=0.0).to(tl.float32)
    for d in tl.static_range(1, REACH + 1):
        acc += tl.load(at - d, mask=inside, other=0.0) * (1.0 / d) + tl.load(at + d, mask=inside, other=0.0) * (1.0 / d)
        acc += tl.load(at - d * cols, mask=inside, other=0.0) * (1.0 / d)
        acc += tl.load(at + d * cols, mask=inside, other=0.0) * (1.0 / d)
    tl.store(y_ptr + r * cols + c, acc.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def stencil_box(x_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr, SIDE: tl.constexpr):
    """The mean of SIDE x SIDE points from each one on."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    inside = (r <= rows - SIDE) & (c <= cols - SIDE)
    acc = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for i in tl.static_range(SIDE):
        for j in tl.static_range(SIDE):
            acc += tl.load(x_ptr + (r + i) * cols + c + j, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + r * cols + c, (acc / (SIDE * SIDE)).to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def laplace_3d(x_ptr, y_ptr, planes, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Seven points, one plane a program."""
    z = tl.program_id(2)
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    inside = (r >= 1) & (r < rows - 1) & (c >= 1) & (c < cols - 1) & (z >= 1) & (z < planes - 1)
    plane = rows * cols
    at = x_ptr + z * plane + r * cols + c
    acc = tl.load(at - 1, mask=inside, other=0.0) + tl.load(at + 1, mask=inside, other=0.0)
    acc += tl.load(at - cols, mask=inside, other=0.0) + tl.load(at + cols, mask=inside, other=0.0)
    acc += tl.load(at - plane, mask=inside, other=0.0) + tl.load(at + plane, mask=inside, other=0.0)
    acc -= 6.0 * tl.load(at, mask=inside, other=0.0)
    tl.store(y_ptr + z * plane + r * cols + c, acc, mask=inside)


@triton.jit
def box_3d(x_ptr, y_ptr, planes, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """The mean of 27 points."""
    z = tl.program_id(2)
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    inside = (r < rows - 2) & (c < cols - 2) & (z < planes - 2)
    plane = rows * cols
    acc = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for k in tl.static_range(3):
        for i in tl.static_range(3):
            for j in tl.static_range(3):
                acc += tl.load(x_ptr + (z + k) * plane + (r + i) * cols + c + j, mask=inside, other=0.0)
    tl.store(y_ptr + z * plane + r * cols + c, acc / 27, mask=inside)


@triton.jit
def conv1d_last(
    x_ptr, w_ptr, y_ptr, length, width,
    TAPS: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Depthwise and causal, channels last: y[b, t, c] = sum of w[k, c] * x[b, t - k, c]."""
    t = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    x_ptr += tl.program_id(2) * length * width
    y_ptr += tl.program_id(2) * length * width
    acc = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    for k in tl.static_range(TAPS):
        w = tl.load(w_ptr + k * width + c, mask=c < width, other=0.0).to(tl.float32)
        mask = (t >= k)[:, None] & (t < length)[:, None] & (c < width)[None, :]
        acc += w[None, :] * tl.load(x_ptr + (t - k)[:, None] * width + c[None, :], mask=mask, other=0.0)
    out = (t < length)[:, None] & (c < width)[None, :]
    tl.store(y_ptr + t[:, None] * width + c[None, :], acc.to(y_ptr.dtype.element_ty), mask=out)


@triton.jit
def conv1d_first(x_ptr, w_ptr, y_ptr, length, channels, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    """Depthwise, channels first: a row a channel, padded at both ends."""
    row = tl.program_id(1)
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(TAPS):
        at = t + k - TAPS // 2
        w = tl.load(w_ptr + row % channels * TAPS + k).to(tl.float32)
        acc += w * tl.load(x_ptr + row * length + at, mask=(at >= 0) & (at < length), other=0.0).to(tl.float32)
    tl.store(y_ptr + row * length + t, acc.to(y_ptr.dtype.element_ty), mask=t < length)


@triton.jit
def conv2d_last(
    x_ptr, w_ptr, y_ptr, high, wide, width,
    SIDE: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Depthwise, channels last, pixels of an image numbered through; padded to the same size."""
    pixel = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    image = tl.program_id(2) * high * wide
    r = pixel // wide
    q = pixel % wide
    acc = tl.zeros((BLOCK_P, BLOCK_C), tl.float32)
    for i in tl.static_range(SIDE):
        for j in tl.static_range(SIDE):
            y, x = r + i - SIDE // 2, q + j - SIDE // 2
            mask = ((y >= 0) & (y < high) & (x >= 0) & (x < wide))[:, None] & (c < width)[None, :]
            w = tl.load(w_ptr + (i * SIDE + j) * width + c, mask=c < width, other=0.0).to(tl.float32)
            at = (image + y * wide + x)[:, None] * width + c[None, :]
            acc += w[None, :] * tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    out = (pixel < high * wide)[:, None] & (c < width)[None, :]
    tl.store(y_ptr + (image + pixel)[:, None] * width + c[None, :], acc.to(y_ptr.dtype.element_ty), mask=out)


@triton.jit
def conv2d_first(
    x_ptr, w_ptr, y_ptr, high, wide, channels,
    SIDE: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Depthwise, channels first, a plane along the third axis of the grid."""
    plane = tl.program_id(2)
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    base = plane * high * wide
    acc = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for i in tl.static_range(SIDE):
        for j in tl.static_range(SIDE):
            y, x = r + i - SIDE // 2, c + j - SIDE // 2
            w = tl.load(w_ptr + plane % channels * SIDE * SIDE + i * SIDE + j).to(tl.float32)
            mask = (y >= 0) & (y < high) & (x >= 0) & (x < wide)
            acc += w * tl.load(x_ptr + base + y * wide + x, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + base + r * wide + c, acc.to(y_ptr.dtype.element_ty), mask=(r < high) & (c < wide))


@triton.jit
def pool_first(
    x_ptr, y_ptr, high, wide, out_high, out_wide,
    SIDE: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Maximum of windows, channels first, the results of a plane numbered through."""
    plane = tl.program_id(1)
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    r = p // out_wide * STRIDE
    c = p % out_wide * STRIDE
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    for i in tl.static_range(SIDE):
        for j in tl.static_range(SIDE):
            at = x_ptr + plane * high * wide + (r + i) * wide + c + j
            best = tl.maximum(best, tl.load(at, mask=p < out_high * out_wide, other=float("-inf")).to(tl.float32))
    out = y_ptr + plane * out_high * out_wide + p
    tl.store(out, best.to(y_ptr.dtype.element_ty), mask=p < out_high * out_wide)


@triton.jit
def pool_last(
    x_ptr, y_ptr, high, wide, width, out_high, out_wide,
    SIDE: tl.constexpr, STRIDE: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Mean of windows, channels last."""
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    image = tl.program_id(2)
    r = p // out_wide * STRIDE
    q = p % out_wide * STRIDE
    mask = (p < out_high * out_wide)[:, None] & (c < width)[None, :]
    acc = tl.zeros((BLOCK_P, BLOCK_C), tl.float32)
    for i in tl.static_range(SIDE):
        for j in tl.static_range(SIDE):
            at = ((image * high + r + i) * wide + q + j)[:, None] * width + c[None, :]
            acc += tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    out = (image * out_high * out_wide + p)[:, None] * width + c[None, :]
    tl.store(y_ptr + out, (acc / (SIDE * SIDE)).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def window_max(x_ptr, y_ptr, n, WINDOW: tl.constexpr, BLOCK: tl.constexpr):
    """y[i] = the largest of x[i], ..., x[i + WINDOW - 1], the windows as a tensor of two dimensions."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = i[:, None] + tl.arange(0, WINDOW)[None, :]
    x = tl.load(x_ptr + at, mask=at < n, other=float("-inf"))
    tl.store(y_ptr + i, tl.max(x, 1), mask=i < n)


@triton.jit
def unfold(x_ptr, y_ptr, windows, step, WINDOW: tl.constexpr, BLOCK: tl.constexpr):
    """y[i, k] = x[i * step + k]."""
    i = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None]
    k = tl.arange(0, WINDOW)[None, :]
    tl.store(y_ptr + i * WINDOW + k, tl.load(x_ptr + i * step + k, mask=i < windows), mask=i < windows)


@triton.jit
def strided_mean(x_ptr, y_ptr, n, STEP: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    """y[i] = mean of x[STEP * i + k]."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(TAPS):
        acc += tl.load(x_ptr + i * STEP + k, mask=i < n, other=0.0).to(tl.float32)
    tl.store(y_ptr + i, (acc / TAPS).to(y_ptr.dtype.element_ty), mask=i < n)


@triton.jit
def blur_rows(x_ptr, y_ptr, rows, cols, TAPS: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """The mean of TAPS rows from each one on."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    inside = (r <= rows - TAPS) & (c < cols)
    acc = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for k in range(TAPS):
        acc += tl.load(x_ptr + (r + k) * cols + c, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + r * cols + c, (acc / TAPS).to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def wave_step(now_ptr, old_ptr, next_ptr, rows, cols, speed, BLOCK: tl.constexpr):
    """A step of the wave equation, a row a program along the second axis."""
    r = tl.program_id(1) + 1
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) + 1
    inside = c < cols - 1
    at = r * cols + c
    here = tl.load(now_ptr + at, mask=inside, other=0.0)
    around = tl.load(now_ptr + at - 1, mask=inside, other=0.0) + tl.load(now_ptr + at + 1, mask=inside, other=0.0)
    around += tl.load(now_ptr + at - cols, mask=inside, other=0.0)
    around += tl.load(now_ptr + at + cols, mask=inside, other=0.0)
    old = tl.load(old_ptr + at, mask=inside, other=0.0)
    tl.store(next_ptr + at, 2.0 * here - old + speed * (around - 4.0 * here), mask=inside)


@triton.jit
def sobel(x_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """The magnitude of a gradient from 3 x 3 points."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    inside = (r < rows - 2) & (c < cols - 2)
    at = x_ptr + r * cols + c
    a = tl.load(at, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(at + 1, mask=inside, other=0.0).to(tl.float32)
    d = tl.load(at + 2, mask=inside, other=0.0).to(tl.float32)
    e = tl.load(at + cols, mask=inside, other=0.0).to(tl.float32)
    f = tl.load(at + cols + 2, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(at + 2 * cols, mask=inside, other=0.0).to(tl.float32)
    h = tl.load(at + 2 * cols + 1, mask=inside, other=0.0).to(tl.float32)
    i = tl.load(at + 2 * cols + 2, mask=inside, other=0.0).to(tl.float32)
    across = d + 2.0 * f + i - a - 2.0 * e - g
    down = g + 2.0 * h + i - a - 2.0 * b - d
    tl.store(y_ptr + r * cols + c, tl.sqrt(across * across + down * down).to(y_ptr.dtype.element_ty), mask=inside)


# -- atomics


@triton.jit
def histogram(key_ptr, count_ptr, n, bins, BLOCK: tl.constexpr):
    """Keys counted one by one; `bins` is a power of two."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + i, mask=i < n, other=0)
    tl.atomic_add(count_ptr + (key & (bins - 1)), 1, mask=i < n, sem="relaxed")


@triton.jit
def histogram_of(bin_ptr, count_ptr, n, BLOCK: tl.constexpr):
    """The same for keys that are bins."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(count_ptr + tl.load(bin_ptr + i, mask=i < n, other=0), 1, mask=i < n, sem="relaxed")


@triton.jit
def scatter_rows(x_ptr, row_ptr, y_ptr, tokens, rows, width, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """Rows added to rows of a table at random places; `rows` is a power of two."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    row = tl.load(row_ptr + t, mask=t < tokens, other=0) & (rows - 1)
    mask = (t < tokens)[:, None] & (c < width)[None, :]
    x = tl.load(x_ptr + t[:, None] * width + c[None, :], mask=mask, other=0.0)
    tl.atomic_add(y_ptr + row[:, None] * width + c[None, :], x, mask=mask, sem="relaxed")


@triton.jit
def split_sum(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Parts of a sum, one along the second axis of the grid, added where all meet."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(1) * n + i, mask=i < n, other=0.0)
    tl.atomic_add(y_ptr + i, x, mask=i < n, sem="relaxed")


@triton.jit
def column_sum(x_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Columns summed within a program, and its sums added to those of all."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (r < rows)[:, None] & (c < cols)[None, :]
    x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.atomic_add(y_ptr + c, tl.sum(x, 0), mask=c < cols, sem="relaxed")


@triton.jit
def grand_total(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """One addition of a program to one number."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0), 0), sem="relaxed")


@triton.jit
def segment_sum(x_ptr, y_ptr, n, length, BLOCK: tl.constexpr):
    """Each element added to the sum of its segment of `length` neighbours."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y_ptr + i // length, tl.load(x_ptr + i, mask=i < n, other=0.0), mask=i < n, sem="relaxed")


@triton.jit
def scatter_max(key_ptr, y_ptr, n, places, BLOCK: tl.constexpr):
    """The largest index of each place, which a key names by its low bits."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + i, mask=i < n, other=0)
    tl.atomic_max(y_ptr + (key & (places - 1)), i, mask=i < n, sem="relaxed")


@triton.jit
def scatter_add(x_ptr, key_ptr, y_ptr, n, places, BLOCK: tl.constexpr):
    """Numbers added at random places."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + i, mask=i < n, other=0)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.atomic_add(y_ptr + (key & (places - 1)), x, mask=i < n, sem="relaxed")


@triton.jit
def count_up(y_ptr, n, RELAXED: tl.constexpr, BLOCK: tl.constexpr):
    """One more in each place."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y_ptr + i, 1, mask=i < n, sem="relaxed" if RELAXED else "acq_rel")


# -- gathers


@triton.jit
def take(x_ptr, key_ptr, y_ptr, n, places, BLOCK: tl.constexpr):
    """y[i] = x[key[i]], by the low bits of the key."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + i, mask=i < n, other=0)
    tl.store(y_ptr + i, tl.load(x_ptr + (key & (places - 1)), mask=i < n, other=0.0), mask=i < n)


@triton.jit
def embed(x_ptr, key_ptr, y_ptr, tokens, rows, width, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """Rows of a table, by the low bits of the key."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    row = tl.load(key_ptr + t, mask=t < tokens, other=0) & (rows - 1)
    mask = (t < tokens)[:, None] & (c < width)[None, :]
    x = tl.load(x_ptr + row[:, None] * width + c[None, :], mask=mask, other=0.0)
    tl.store(y_ptr + t[:, None] * width + c[None, :], x, mask=mask)


@triton.jit
def hashed(x_ptr, y_ptr, n, factor, BLOCK: tl.constexpr):
    """y[i] = x[i * factor mod n]; `n` is a power of two."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + (i.to(tl.int64) * factor & (n - 1))))


@triton.jit
def transposed(x_ptr, y_ptr, rows, cols, BLOCK: tl.constexpr):
    """A transpose, its results numbered through."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < rows * cols
    tl.store(y_ptr + i, tl.load(x_ptr + i % rows * cols + i // rows, mask=mask, other=0.0), mask=mask)


@triton.jit
def codebook(code_ptr, table_ptr, y_ptr, n, entries, BLOCK: tl.constexpr):
    """A number of a table that all programs share for each code."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    code = tl.load(code_ptr + i, mask=i < n, other=0).to(tl.int32) & (entries - 1)
    tl.store(y_ptr + i, tl.load(table_ptr + code), mask=i < n)


@triton.jit
def permute_channels(x_ptr, order_ptr, y_ptr, channels, length, BLOCK: tl.constexpr):
    """y[b, c, t] = x[b, order[c], t]."""
    c = tl.program_id(1)
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    base = tl.program_id(2) * channels
    source = base + tl.load(order_ptr + c)
    x = tl.load(x_ptr + source * length + t, mask=t < length, other=0.0)
    tl.store(y_ptr + (base + c) * length + t, x, mask=t < length)


@triton.jit
def turned(x_ptr, y_ptr, rows, cols, cosine, sine, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """An image turned about its corner, four neighbours weighted; what falls outside is clamped to the edge."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    v = tl.minimum(tl.maximum(cosine * r - sine * c, 0.0), rows - 1.001)
    u = tl.minimum(tl.maximum(sine * r + cosine * c, 0.0), cols - 1.001)
    top, left = v.to(tl.int32), u.to(tl.int32)
    fv, fu = v - top, u - left
    at = x_ptr + top * cols + left
    upper = tl.load(at) * (1.0 - fu) + tl.load(at + 1) * fu
    lower = tl.load(at + cols) * (1.0 - fu) + tl.load(at + cols + 1) * fu
    tl.store(y_ptr + r * cols + c, upper * (1.0 - fv) + lower * fv, mask=(r < rows) & (c < cols))


@triton.jit
def sparse_rows(v_ptr, col_ptr, x_ptr, y_ptr, rows, cols, EACH: tl.constexpr, BLOCK: tl.constexpr):
    """A sparse matrix of EACH numbers a row times a vector; `cols` is a power of two."""
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = r[:, None] * EACH + tl.arange(0, EACH)[None, :]
    mask = (r < rows)[:, None]
    col = tl.load(col_ptr + at, mask=mask, other=0) & (cols - 1)
    product = tl.load(v_ptr + at, mask=mask, other=0.0) * tl.load(x_ptr + col, mask=mask, other=0.0)
    tl.store(y_ptr + r, tl.sum(product, 1), mask=r < rows)


@triton.jit
def paged_copy(x_ptr, table_ptr, y_ptr, pages, PAGE: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Pages of PAGE rows in the order of a table; `pages` is a power of two."""
    page = tl.load(table_ptr + tl.program_id(1)) & (pages - 1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < PAGE * WIDTH
    x = tl.load(x_ptr + page * PAGE * WIDTH + i, mask=mask, other=0.0)
    tl.store(y_ptr + tl.program_id(1) * PAGE * WIDTH + i, x, mask=mask)


@triton.jit
def bag(x_ptr, key_ptr, y_ptr, rows, width, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """The sum of COUNT rows of a table; `rows` is a power of two."""
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in range(COUNT):
        row = tl.load(key_ptr + tl.program_id(0) * COUNT + k) & (rows - 1)
        acc += tl.load(x_ptr + row * width + c, mask=c < width, other=0.0).to(tl.float32)
    tl.store(y_ptr + tl.program_id(0) * width + c, acc.to(y_ptr.dtype.element_ty), mask=c < width)
