"""Short Triton kernels of windows, atomics and gathers, as packages for images, sound, fields and search write them."""

import triton
import triton.language as tl


@triton.jit
def dilate(x_ptr, y_ptr, rows, cols, SIDE: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Largest byte around each of an image."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    out = tl.zeros((BLOCK_R, BLOCK_C), tl.uint8)
    for a in tl.static_range(SIDE):
        for b in tl.static_range(SIDE):
            h, v = r + a - SIDE // 2, c + b - SIDE // 2
            inside = (h >= 0) & (h < rows) & (v >= 0) & (v < cols)
            out = tl.maximum(out, tl.load(x_ptr + h * cols + v, mask=inside, other=0))
    tl.store(y_ptr + r * cols + c, out, mask=(r < rows) & (c < cols))


@triton.jit
def box_blur(x_ptr, y_ptr, rows, cols, REACH: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Mean of bytes along rows, edges repeated."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    mask = (r < rows) & (c < cols)
    total = tl.zeros((BLOCK_R, BLOCK_C), tl.int32)
    for k in range(-REACH, REACH + 1):
        v = tl.minimum(tl.maximum(c + k, 0), cols - 1)
        total += tl.load(x_ptr + r * cols + v, mask=mask, other=0)
    tl.store(y_ptr + r * cols + c, (total // (2 * REACH + 1)).to(tl.uint8), mask=mask)


@triton.jit
def median_of_five(x_ptr, y_ptr, length, BLOCK: tl.constexpr):
    """Of a signal, its ends repeated: the least that two others do not exceed."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    base, mask, last = x_ptr + tl.program_id(1) * length, i < length, length - 1
    a, b = tl.load(base + tl.maximum(i - 2, 0), mask=mask), tl.load(base + tl.maximum(i - 1, 0), mask=mask)
    c = tl.load(base + i, mask=mask)
    d, e = tl.load(base + tl.minimum(i + 1, last), mask=mask), tl.load(base + tl.minimum(i + 2, last), mask=mask)
    low = tl.maximum(tl.minimum(a, b), tl.minimum(d, e))
    high = tl.minimum(tl.maximum(a, b), tl.maximum(d, e))
    y = tl.maximum(tl.minimum(low, high), tl.minimum(tl.maximum(low, high), c))
    tl.store(y_ptr + tl.program_id(1) * length + i, y, mask=mask)


@triton.jit
def halve_volume(x_ptr, y_ptr, deep, high, wide, BLOCK: tl.constexpr):
    """Largest of 2 x 2 x 2 of volumes of even sides."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    h, w = high // 2, wide // 2
    mask = i < deep // 2 * h * w
    z, r, c = i // (h * w), i // w % h, i % w
    at = x_ptr + tl.program_id(1) * deep * high * wide + (2 * z * high + 2 * r) * wide + 2 * c
    y = tl.full((BLOCK,), float("-inf"), x_ptr.dtype.element_ty)
    for k in tl.static_range(8):
        y = tl.maximum(y, tl.load(at + (k // 4 * high + k // 2 % 2) * wide + k % 2, mask=mask))
    tl.store(y_ptr + tl.program_id(1) * (deep // 2) * h * w + i, y, mask=mask)


@triton.jit
def frames_energy(x_ptr, y_ptr, length, frames, HOP: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Of windows of a sound that overlap, a window of a Hann shape in each."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    base, acc = x_ptr + tl.program_id(1) * length, tl.zeros((BLOCK,), tl.float32)
    for k in range(WIDTH):
        x = tl.load(base + i * HOP + k, mask=i < frames, other=0.0)
        acc += x * x * (k + 1.0)
    tl.store(y_ptr + tl.program_id(1) * frames + i, acc, mask=i < frames)


@triton.jit
def laplace_double(x_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Of fourth order, in doubles, inside of a frame of two."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    inside = (r >= 2) & (r < rows - 2) & (c >= 2) & (c < cols - 2)
    at = x_ptr + r * cols + c
    y = tl.load(at, mask=inside, other=0.0) * -60.0
    for k in tl.static_range(1, 3):
        by = 16.0 if k == 1 else -1.0
        y += by * (tl.load(at - k, mask=inside, other=0.0) + tl.load(at + k, mask=inside, other=0.0))
        y += by * (tl.load(at - k * cols, mask=inside, other=0.0) + tl.load(at + k * cols, mask=inside, other=0.0))
    tl.store(y_ptr + r * cols + c, y, mask=inside)


@triton.jit
def conv_depth_3d(x_ptr, w_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """3 x 3 x 3 of each volume, inside of a frame of one."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    z = tl.program_id(2) + 1
    inside = (r >= 1) & (r < rows - 1) & (c >= 1) & (c < cols - 1)
    at, acc = x_ptr + r * cols + c, tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for k in tl.static_range(27):
        step = ((z + k // 9 - 1) * rows + k // 3 % 3 - 1) * cols + k % 3 - 1
        acc += tl.load(w_ptr + k).to(tl.float32) * tl.load(at + step, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + z * rows * cols + r * cols + c, acc.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def contrast_hwc(x_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Of images whose three colours lie side by side: each byte less the mean of 3 x 3 around it, plus 128."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    inside = (r >= 1) & (r < rows - 1) & (c >= 1) & (c < cols - 1)
    for colour in tl.static_range(3):
        at = x_ptr + (r * cols + c) * 3 + colour
        total = tl.zeros((BLOCK_R, BLOCK_C), tl.int32)
        for k in tl.static_range(9):
            total += tl.load(at + ((k // 3 - 1) * cols + k % 3 - 1) * 3, mask=inside, other=0)
        own = tl.load(at, mask=inside, other=0).to(tl.int32)
        y = tl.minimum(tl.maximum(own - total // 9 + 128, 0), 255)
        tl.store(y_ptr + (r * cols + c) * 3 + colour, y.to(tl.uint8), mask=inside)


@triton.jit
def dilated_causal(x_ptr, w_ptr, y_ptr, length, width, APART: tl.constexpr, TAPS: tl.constexpr, BLOCK_T: tl.constexpr,
                   BLOCK_C: tl.constexpr):
    """Taps of a sequence that lie apart, each channel with its own weights."""
    t = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    mask, acc = (t < length) & (c < width), tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    for k in tl.static_range(TAPS):
        x = tl.load(x_ptr + (t - k * APART) * width + c, mask=mask & (t >= k * APART), other=0.0)
        acc += x.to(tl.float32) * tl.load(w_ptr + k * width + c, mask=c < width, other=0.0).to(tl.float32)
    tl.store(y_ptr + t * width + c, tl.maximum(acc, 0.0).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def pool_channels_last(x_ptr, y_ptr, high, wide, width, SIDE: tl.constexpr, BLOCK_P: tl.constexpr,
                       BLOCK_C: tl.constexpr):
    """Means of squares of a side, side by side, of images whose channels lie side by side."""
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)[:, None]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    w = wide // SIDE
    mask = (p < high // SIDE * w) & (c < width)
    base = x_ptr + tl.program_id(2) * high * wide * width
    acc = tl.zeros((BLOCK_P, BLOCK_C), tl.float32)
    for a in range(SIDE):
        for b in range(SIDE):
            at = ((p // w * SIDE + a) * wide + p % w * SIDE + b) * width + c
            acc += tl.load(base + at, mask=mask, other=0.0).to(tl.float32)
    out = y_ptr + tl.program_id(2) * (high // SIDE) * w * width + p * width + c
    tl.store(out, (acc / (SIDE * SIDE)).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def joint_histogram(a_ptr, b_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """How often two images have two bytes in one place."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(a_ptr + i, mask=i < n, other=0), tl.load(b_ptr + i, mask=i < n, other=0)
    tl.atomic_add(y_ptr + a.to(tl.int32) * 256 + b, 1, mask=i < n, sem="relaxed")


@triton.jit
def cluster_sums(x_ptr, to_ptr, y_ptr, count_ptr, n, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Of points, the sum and the number of each cluster's."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.arange(0, WIDTH)[None, :]
    to = tl.load(to_ptr + i, mask=i < n, other=0)
    x = tl.load(x_ptr + i[:, None] * WIDTH + c, mask=(i < n)[:, None], other=0.0)
    tl.atomic_add(y_ptr + to[:, None] * WIDTH + c, x, mask=(i < n)[:, None], sem="relaxed")
    tl.atomic_add(count_ptr + to, 1, mask=i < n, sem="relaxed")


@triton.jit
def nearest_depth(to_ptr, depth_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """The largest whole number of the points that fall on a pixel."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    to, depth = tl.load(to_ptr + i, mask=i < n, other=0), tl.load(depth_ptr + i, mask=i < n, other=0)
    tl.atomic_max(y_ptr + to, depth, mask=i < n, sem="relaxed")


@triton.jit
def split_gemv(a_ptr, x_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Rows times a vector, each program's part added."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (r < rows)[:, None] & (c < cols)[None, :]
    a = tl.load(a_ptr + r[:, None] * cols + c[None, :], mask=mask, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + c, mask=c < cols, other=0.0).to(tl.float32)
    tl.atomic_add(y_ptr + r, tl.sum(a * x[None, :], 1), mask=r < rows, sem="relaxed")


@triton.jit
def add_half_rows(x_ptr, to_ptr, y_ptr, n, width, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """Rows of halves, added to rows."""
    t = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    to = tl.load(to_ptr + t, mask=t < n, other=0)[:, None]
    mask = (t < n)[:, None] & (c < width)
    x = tl.load(x_ptr + t[:, None] * width + c, mask=mask, other=0.0)
    tl.atomic_add(y_ptr + to * width + c, x, mask=mask, sem="relaxed")


@triton.jit
def confusion(label_ptr, guess_ptr, y_ptr, area, classes, BLOCK: tl.constexpr):
    """Of each image, how often a class was taken for another."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.program_id(1) * area + i
    label, guess = tl.load(label_ptr + at, mask=i < area, other=0), tl.load(guess_ptr + at, mask=i < area, other=0)
    to = (tl.program_id(1) * classes + label) * classes + guess
    tl.atomic_add(y_ptr + to, 1, mask=i < area, sem="relaxed")


@triton.jit
def scale_gradient(x_ptr, g_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Sums of products down the columns, each program's part added."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (r < rows) & (c < cols)[None, :]
    at = r * cols + c[None, :]
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32) * tl.load(g_ptr + at, mask=mask, other=0.0)
    tl.atomic_add(y_ptr + c, tl.sum(x, 0), mask=c < cols, sem="relaxed")


@triton.jit
def colour_table(x_ptr, table_ptr, y_ptr, n, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """A colour of each pixel out of a cube, between the eight around it."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x, y = tl.load(x_ptr + i, mask=mask, other=0.0), tl.load(x_ptr + n + i, mask=mask, other=0.0)
    z = tl.load(x_ptr + 2 * n + i, mask=mask, other=0.0)
    x, y, z = x * (SIDE - 1), y * (SIDE - 1), z * (SIDE - 1)
    kx, ky, kz = x.to(tl.int32), y.to(tl.int32), z.to(tl.int32)
    fx, fy, fz = x - kx, y - ky, z - kz
    at = table_ptr + ((kz * SIDE + ky) * SIDE + kx) * 3
    for colour in tl.static_range(3):
        out = tl.zeros((BLOCK,), tl.float32)
        for k in tl.static_range(8):
            w = (fx if k % 2 else 1.0 - fx) * (fy if k // 2 % 2 else 1.0 - fy) * (fz if k // 4 else 1.0 - fz)
            step = ((k // 4 * SIDE + k // 2 % 2) * SIDE + k % 2) * 3
            out += w * tl.load(at + step + colour, mask=mask, other=0.0)
        tl.store(y_ptr + colour * n + i, out, mask=mask)


@triton.jit
def turn_by_place(x_ptr, cos_ptr, sin_ptr, at_ptr, y_ptr, tokens, heads, HALF: tl.constexpr, BLOCK_T: tl.constexpr):
    """Pairs of numbers that lie side by side, turned by angles that lie at each token's place."""
    t, c = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.arange(0, HALF)[None, :]
    mask = (t < tokens)[:, None]
    at = tl.load(at_ptr + t, mask=t < tokens, other=0)[:, None] * HALF + c
    cos, sin = tl.load(cos_ptr + at, mask=mask, other=0.0), tl.load(sin_ptr + at, mask=mask, other=0.0)
    own = (t[:, None] * heads + tl.program_id(1)) * 2 * HALF + 2 * c
    a, b = tl.load(x_ptr + own, mask=mask, other=0.0), tl.load(x_ptr + own + 1, mask=mask, other=0.0)
    tl.store(y_ptr + own, (a * cos - b * sin).to(y_ptr.dtype.element_ty), mask=mask)
    tl.store(y_ptr + own + 1, (b * cos + a * sin).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def listed_distances(q_ptr, x_ptr, id_ptr, y_ptr, each, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """From a question to each of its candidates, rows of a table."""
    i, c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    row = tl.load(id_ptr + tl.program_id(1) * each + i, mask=i < each, other=0)
    x = tl.load(x_ptr + row[:, None] * WIDTH + c[None, :], mask=(i < each)[:, None], other=0.0).to(tl.float32)
    d = x - tl.load(q_ptr + tl.program_id(1) * WIDTH + c).to(tl.float32)[None, :]
    tl.store(y_ptr + tl.program_id(1) * each + i, tl.sum(d * d, 1), mask=i < each)


@triton.jit
def neighbour_max(x_ptr, id_ptr, y_ptr, nodes, width, DEGREE: tl.constexpr, BLOCK_T: tl.constexpr,
                  BLOCK_C: tl.constexpr):
    """The largest of as many neighbours of each node, channel by channel."""
    t = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    mask, y = (t < nodes)[:, None] & (c < width), tl.full((BLOCK_T, BLOCK_C), float("-inf"), tl.float32)
    for k in range(DEGREE):
        row = tl.load(id_ptr + t * DEGREE + k, mask=t < nodes, other=0)[:, None]
        y = tl.maximum(y, tl.load(x_ptr + row * width + c, mask=mask, other=0.0).to(tl.float32))
    tl.store(y_ptr + t[:, None] * width + c, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def code_distances(code_ptr, table_ptr, y_ptr, n, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """Of codes of a byte for each part, the sum of what a table of a question has for them."""
    i, acc = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.zeros((BLOCK,), tl.float32)
    for k in range(PARTS):
        code = tl.load(code_ptr + i * PARTS + k, mask=i < n, other=0)
        acc += tl.load(table_ptr + (tl.program_id(1) * PARTS + k) * 256 + code, mask=i < n, other=0.0)
    tl.store(y_ptr + tl.program_id(1) * n + i, acc, mask=i < n)


@triton.jit
def enlarge(x_ptr, y_ptr, high, wide, out_high, out_wide, BLOCK: tl.constexpr):
    """Images of another size, between the four pixels around each place."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < out_high * out_wide
    r, c = (i // out_wide) * ((high - 1) / (out_high - 1)), (i % out_wide) * ((wide - 1) / (out_wide - 1))
    top, left = r.to(tl.int32), c.to(tl.int32)
    down, right = tl.minimum(top + 1, high - 1), tl.minimum(left + 1, wide - 1)
    fr, fc = r - top, c - left
    base = x_ptr + tl.program_id(1) * high * wide
    a, b = tl.load(base + top * wide + left, mask=mask), tl.load(base + top * wide + right, mask=mask)
    d, e = tl.load(base + down * wide + left, mask=mask), tl.load(base + down * wide + right, mask=mask)
    y = (a * (1.0 - fc) + b * fc) * (1.0 - fr) + (d * (1.0 - fc) + e * fc) * fr
    tl.store(y_ptr + tl.program_id(1) * out_high * out_wide + i, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def unwind(x_ptr, y_ptr, side, BLOCK: tl.constexpr):
    """Images that lie in the order of Morton's curve, as rows."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    r, c = i // side, i % side
    at = tl.zeros((BLOCK,), tl.int32)
    for bit in tl.static_range(12):
        at |= ((c >> bit & 1) << 2 * bit) | ((r >> bit & 1) << 2 * bit + 1)
    x = tl.load(x_ptr + tl.program_id(1) * side * side + at, mask=i < side * side)
    tl.store(y_ptr + tl.program_id(1) * side * side + i, x, mask=i < side * side)
