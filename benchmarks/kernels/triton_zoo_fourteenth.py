"""Short Triton kernels of fields, pictures, sounds, tables, meshes, molecules, graphs, experts: a fourteenth zoo."""

import triton
import triton.language as tl


@triton.jit
def _flux(a, b, c, d, e):
    """What flows between c and d: three parabolas, weighted by how smooth the field is under each."""
    s0 = 13 / 12 * (a - 2 * b + c) * (a - 2 * b + c) + 0.25 * (a - 4 * b + 3 * c) * (a - 4 * b + 3 * c)
    s1 = 13 / 12 * (b - 2 * c + d) * (b - 2 * c + d) + 0.25 * (b - d) * (b - d)
    s2 = 13 / 12 * (c - 2 * d + e) * (c - 2 * d + e) + 0.25 * (3 * c - 4 * d + e) * (3 * c - 4 * d + e)
    w0 = 0.1 / ((s0 + 1e-3) * (s0 + 1e-3))
    w1 = 0.6 / ((s1 + 1e-3) * (s1 + 1e-3))
    w2 = 0.3 / ((s2 + 1e-3) * (s2 + 1e-3))
    total = w0 * (2 * a - 7 * b + 11 * c) + w1 * (5 * c - b + 2 * d) + w2 * (2 * c + 5 * d - e)
    return total / (6 * (w0 + w1 + w2))


@triton.jit
def weno5(x_ptr, y_ptr, rows, cols, speed, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Upwind differences along rows by WENO of fifth order; x has three columns more at either end."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (r < rows) & (c < cols)
    p = x_ptr + r * (cols + 6) + c
    x0, x1 = tl.load(p, mask=mask, other=0.0), tl.load(p + 1, mask=mask, other=0.0)
    x2, x3 = tl.load(p + 2, mask=mask, other=0.0), tl.load(p + 3, mask=mask, other=0.0)
    x4, x5 = tl.load(p + 4, mask=mask, other=0.0), tl.load(p + 5, mask=mask, other=0.0)
    y = speed * (_flux(x0, x1, x2, x3, x4) - _flux(x1, x2, x3, x4, x5))
    tl.store(y_ptr + r * cols + c, y, mask=mask)


@triton.jit
def conduct(x_ptr, k_ptr, y_ptr, deep, high, wide, step, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A step of heat through a volume whose conductivity differs from place to place; the outermost cells stay."""
    z = tl.program_id(2)
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    at = (z * high + r) * wide + c
    mask = (r < high) & (c < wide)
    inner = mask & (z > 0) & (z < deep - 1) & (r > 0) & (r < high - 1) & (c > 0) & (c < wide - 1)
    x, k = tl.load(x_ptr + at, mask=mask, other=0.0), tl.load(k_ptr + at, mask=mask, other=0.0)
    total = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for axis in tl.static_range(3):
        away = 1 if axis == 0 else (wide if axis == 1 else wide * high)
        before = tl.load(k_ptr + at - away, mask=inner, other=0.0) + k
        after = tl.load(k_ptr + at + away, mask=inner, other=0.0) + k
        total += before * (tl.load(x_ptr + at - away, mask=inner, other=0.0) - x)
        total += after * (tl.load(x_ptr + at + away, mask=inner, other=0.0) - x)
    tl.store(y_ptr + at, tl.where(inner, x + step * total, x), mask=mask)


@triton.jit
def pyramid_down(x_ptr, y_ptr, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """The next level of a pyramid of pictures: every second pixel of a 5 x 5 binomial blur, edges reflected."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (r < (high + 1) // 2) & (c < (wide + 1) // 2)
    total = tl.full((BLOCK_R, BLOCK_C), 128, tl.int32)
    for i in tl.static_range(-2, 3):
        row = tl.abs(2 * r + i)
        row = tl.where(row < high, row, 2 * high - 2 - row)
        for j in tl.static_range(-2, 3):
            col = tl.abs(2 * c + j)
            col = tl.where(col < wide, col, 2 * wide - 2 - col)
            weight = (6 if i == 0 else (4 if i * i == 1 else 1)) * (6 if j == 0 else (4 if j * j == 1 else 1))
            total += weight * tl.load(x_ptr + row * wide + col, mask=mask, other=0).to(tl.int32)
    tl.store(y_ptr + r * ((wide + 1) // 2) + c, (total >> 8).to(tl.uint8), mask=mask)


@triton.jit
def census(x_ptr, y_ptr, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Of each byte of a picture a bit for each of 24 around it: whether that is less."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (r < high) & (c < wide)
    p = x_ptr + r * wide + c
    middle = tl.load(p, mask=mask, other=0)
    bits = tl.zeros((BLOCK_R, BLOCK_C), tl.int32)
    for i in tl.static_range(-2, 3):
        for j in tl.static_range(-2, 3):
            if i != 0 or j != 0:
                inside = mask & (r + i >= 0) & (r + i < high) & (c + j >= 0) & (c + j < wide)
                bits = bits * 2 + (tl.load(p + i * wide + j, mask=inside, other=0) < middle).to(tl.int32)
    tl.store(y_ptr + r * wide + c, bits, mask=mask)


@triton.jit
def mel_bands(x_ptr, first_ptr, w_ptr, y_ptr, frames, bins, bands, TAPS: tl.constexpr, BLOCK_T: tl.constexpr,
              BLOCK_C: tl.constexpr):  # fmt: skip
    """Logarithms of the energy of a spectrum's bands, each of which has a run of bins and a weight for each."""
    t = (tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T))[:, None]
    m = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (t < frames) & (m < bands)[None, :]
    p = x_ptr + t * bins + tl.load(first_ptr + m, mask=m < bands, other=0)[None, :]
    total = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    for k in range(TAPS):
        w = tl.load(w_ptr + m * TAPS + k, mask=m < bands, other=0.0)
        x = tl.load(p + k, mask=mask, other=0.0)
        total += w[None, :] * x * x
    tl.store(y_ptr + t * bands + m[None, :], tl.log(tl.maximum(total, 1e-10)), mask=mask)


@triton.jit
def involution(x_ptr, w_ptr, y_ptr, high, wide, GROUP: tl.constexpr, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """A filter of SIDE x SIDE whose weights every pixel has for itself, one set for GROUP channels; NCHW."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    plane, area = tl.program_id(1), high * wide
    mask = at < area
    r, c = at // wide, at % wide
    p, w = x_ptr + plane * area + at, w_ptr + plane // GROUP * (SIDE * SIDE) * area + at
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(SIDE):
        for j in tl.static_range(SIDE):
            dr, dc = i - SIDE // 2, j - SIDE // 2
            inside = mask & (r + dr >= 0) & (r + dr < high) & (c + dc >= 0) & (c + dc < wide)
            x = tl.load(p + dr * wide + dc, mask=inside, other=0.0).to(tl.float32)
            total += x * tl.load(w + (i * SIDE + j) * area, mask=mask, other=0.0)
    tl.store(y_ptr + plane * area + at, total, mask=mask)


@triton.jit
def harris(x_ptr, y_ptr, high, wide, k, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """How much of a corner each pixel is, by the gradients of the 3 x 3 around it; x has a frame of two."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (r < high) & (c < wide)
    row = wide + 4
    p = x_ptr + (r + 2) * row + c + 2
    uu = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    uv, vv = uu, uu
    for i in tl.static_range(-1, 2):
        for j in tl.static_range(-1, 2):
            q = p + i * row + j
            u = tl.load(q + 1, mask=mask, other=0.0) - tl.load(q - 1, mask=mask, other=0.0)
            v = tl.load(q + row, mask=mask, other=0.0) - tl.load(q - row, mask=mask, other=0.0)
            uu += u * u
            uv += u * v
            vv += v * v
    tl.store(y_ptr + r * wide + c, uu * vv - uv * uv - k * (uu + vv) * (uu + vv), mask=mask)


@triton.jit
def yee_step(e_ptr, h_ptr, y_ptr, deep, high, wide, ratio, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A step of Maxwell's electric field from the curl of the magnetic one, three planes each [axis, z, y, x]."""
    z = tl.program_id(2)
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (r < high) & (c < wide)
    n, at = deep * high * wide, (z * high + r) * wide + c
    x, y, q = h_ptr + at, h_ptr + n + at, h_ptr + 2 * n + at
    left, above, behind = mask & (c > 0), mask & (r > 0), mask & (z > 0)
    hx, hy, hz = tl.load(x, mask=mask), tl.load(y, mask=mask), tl.load(q, mask=mask)
    ex = hz - tl.load(q - wide, mask=above, other=0.0) - hy + tl.load(y - high * wide, mask=behind, other=0.0)
    ey = hx - tl.load(x - high * wide, mask=behind, other=0.0) - hz + tl.load(q - 1, mask=left, other=0.0)
    ez = hy - tl.load(y - 1, mask=left, other=0.0) - hx + tl.load(x - wide, mask=above, other=0.0)
    tl.store(y_ptr + at, tl.load(e_ptr + at, mask=mask) + ratio * ex, mask=mask)
    tl.store(y_ptr + n + at, tl.load(e_ptr + n + at, mask=mask) + ratio * ey, mask=mask)
    tl.store(y_ptr + 2 * n + at, tl.load(e_ptr + 2 * n + at, mask=mask) + ratio * ez, mask=mask)


@triton.jit
def conv_packed(x_ptr, w_ptr, b_ptr, at_ptr, y_ptr, tokens, width, TAPS: tl.constexpr, BLOCK_T: tl.constexpr,
                BLOCK_C: tl.constexpr):  # fmt: skip
    """Causal and depthwise, a bias and silu; sequences lie one after another, at_ptr is a token's place in its own."""
    t = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    at = tl.load(at_ptr + t, mask=t < tokens, other=0)
    place = t[:, None] * width + c[None, :]
    total = tl.zeros((BLOCK_T, BLOCK_C), tl.float32) + tl.load(b_ptr + c, mask=c < width, other=0.0)[None, :]
    for k in tl.static_range(TAPS):
        mask = ((t < tokens) & (at >= k))[:, None] & (c < width)[None, :]
        w = tl.load(w_ptr + k * width + c, mask=c < width, other=0.0).to(tl.float32)
        total += w[None, :] * tl.load(x_ptr + place - k * width, mask=mask, other=0.0)
    y = total * tl.sigmoid(total)
    tl.store(y_ptr + place, y, mask=(t < tokens)[:, None] & (c < width)[None, :])


@triton.jit
def token_shift(x_ptr, mix_ptr, y_ptr, length, width, batch, KINDS: tl.constexpr, BLOCK_T: tl.constexpr,
                BLOCK_C: tl.constexpr):  # fmt: skip
    """Between each token and the one before, KINDS times by other shares, as RWKV takes them."""
    t = (tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (t < length) & (c < width)
    at = (tl.program_id(2) * length + t) * width + c
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    change = tl.load(x_ptr + at - width, mask=mask & (t > 0), other=0.0).to(tl.float32) - x
    for k in tl.static_range(KINDS):
        share = tl.load(mix_ptr + k * width + c, mask=c < width, other=0.0).to(tl.float32)
        tl.store(y_ptr + k * batch * length * width + at, x + change * share, mask=mask)


@triton.jit
def hash_insert(key_ptr, y_ptr, n, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Keys other than 0 into a table of SIZE (a power of two) by compare and swap; a place that is taken: the next."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + at, mask=at < n, other=0)
    place = ((key.to(tl.uint32) * 2654435769) >> 5).to(tl.int32) & (SIZE - 1)
    left = key != 0
    while tl.max(left.to(tl.int32), 0) > 0:
        old = tl.atomic_cas(y_ptr + place, tl.zeros((BLOCK,), tl.int32), key, sem="relaxed")
        left = left & (old != 0) & (old != key)
        place = tl.where(left, (place + 1) & (SIZE - 1), place)


@triton.jit
def vertex_normals(x_ptr, face_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """The normal of each triangle is added to its three vertices."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    i = tl.load(face_ptr + 3 * at, mask=mask, other=0) * 3
    j = tl.load(face_ptr + 3 * at + 1, mask=mask, other=0) * 3
    k = tl.load(face_ptr + 3 * at + 2, mask=mask, other=0) * 3
    x, y, z = tl.load(x_ptr + i, mask=mask), tl.load(x_ptr + i + 1, mask=mask), tl.load(x_ptr + i + 2, mask=mask)
    a, b = tl.load(x_ptr + j, mask=mask) - x, tl.load(x_ptr + j + 1, mask=mask) - y
    c, d = tl.load(x_ptr + j + 2, mask=mask) - z, tl.load(x_ptr + k, mask=mask) - x
    e, f = tl.load(x_ptr + k + 1, mask=mask) - y, tl.load(x_ptr + k + 2, mask=mask) - z
    u, v, w = b * f - c * e, c * d - a * f, a * e - b * d
    for corner in tl.static_range(3):
        p = y_ptr + (i if corner == 0 else (j if corner == 1 else k))
        tl.atomic_add(p, u, mask=mask, sem="relaxed")
        tl.atomic_add(p + 1, v, mask=mask, sem="relaxed")
        tl.atomic_add(p + 2, w, mask=mask, sem="relaxed")


@triton.jit
def group_by(key_ptr, x_ptr, sum_ptr, count_ptr, most_ptr, n, BLOCK: tl.constexpr):
    """Of each key the sum, the number and the largest of its values."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    key = tl.load(key_ptr + at, mask=mask, other=0)
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    tl.atomic_add(sum_ptr + key, x, mask=mask, sem="relaxed")
    tl.atomic_add(count_ptr + key, 1, mask=mask, sem="relaxed")
    tl.atomic_max(most_ptr + key, x, mask=mask, sem="relaxed")


@triton.jit
def pair_forces(x_ptr, from_ptr, to_ptr, y_ptr, n, atoms, BLOCK: tl.constexpr):
    """What the two atoms of each pair of a list do to each other, by Lennard and Jones; [axis, atom]."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    i, j = tl.load(from_ptr + at, mask=mask, other=0), tl.load(to_ptr + at, mask=mask, other=0)
    p, q = x_ptr + i, x_ptr + j
    x = tl.load(p, mask=mask, other=0.0) - tl.load(q, mask=mask, other=0.0)
    y = tl.load(p + atoms, mask=mask, other=0.0) - tl.load(q + atoms, mask=mask, other=0.0)
    z = tl.load(p + 2 * atoms, mask=mask, other=0.0) - tl.load(q + 2 * atoms, mask=mask, other=0.0)
    near = 1 / tl.maximum(x * x + y * y + z * z, 0.8)
    sixth = near * near * near
    force = tl.where(near > 0.16, 24 * near * sixth * (2 * sixth - 1), 0.0)
    for axis in tl.static_range(3):
        f = force * (x if axis == 0 else (y if axis == 1 else z))
        tl.atomic_add(y_ptr + axis * atoms + i, f, mask=mask, sem="relaxed")
        tl.atomic_add(y_ptr + axis * atoms + j, -f, mask=mask, sem="relaxed")


@triton.jit
def bias_gradient(g_ptr, y_ptr, windows, SIDE: tl.constexpr, EACH: tl.constexpr, BLOCK: tl.constexpr):
    """Of a table of biases by relative place in windows of SIDE x SIDE: EACH windows are summed, then added."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    head, heads = tl.program_id(1), tl.num_programs(1)
    CELLS: tl.constexpr = SIDE * SIDE
    mask = at < CELLS * CELLS
    total = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(2) * EACH
    for window in range(first, tl.minimum(first + EACH, windows)):
        total += tl.load(g_ptr + (window * heads + head) * (CELLS * CELLS) + at, mask=mask, other=0.0)
    i, j = at // CELLS, at % CELLS
    down, right = i // SIDE - j // SIDE + SIDE - 1, i % SIDE - j % SIDE + SIDE - 1
    tl.atomic_add(y_ptr + (down * (2 * SIDE - 1) + right) * heads + head, total, mask=mask, sem="relaxed")


@triton.jit
def deformable(x_ptr, shape_ptr, at_ptr, w_ptr, y_ptr, queries, LEVELS: tl.constexpr, POINTS: tl.constexpr,
               HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Deformable attention: POINTS places on each of LEVELS feature maps, between four rows each, weighted."""
    q = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    head, lane = tl.program_id(1), tl.arange(0, WIDTH)[None, :]
    mask = q < queries
    total = tl.zeros((BLOCK, WIDTH), tl.float32)
    for level in range(LEVELS):
        high, wide = tl.load(shape_ptr + 3 * level), tl.load(shape_ptr + 3 * level + 1)
        rows = x_ptr + (tl.load(shape_ptr + 3 * level + 2) * HEADS + head) * WIDTH
        for point in tl.static_range(POINTS):
            place = ((q * HEADS + head) * LEVELS + level) * POINTS + point
            u = tl.load(at_ptr + 2 * place, mask=mask, other=0.0) * wide - 0.5
            v = tl.load(at_ptr + 2 * place + 1, mask=mask, other=0.0) * high - 0.5
            w = tl.load(w_ptr + place, mask=mask, other=0.0)
            left, top = tl.floor(u).to(tl.int32), tl.floor(v).to(tl.int32)
            for corner in tl.static_range(4):
                c, r = left + corner % 2, top + corner // 2
                share = w * (1 - tl.abs(u - c)) * (1 - tl.abs(v - r))
                inside = mask & (r >= 0) & (r < high) & (c >= 0) & (c < wide)
                x = tl.load(rows + (r * wide + c)[:, None] * (HEADS * WIDTH) + lane, mask=inside[:, None], other=0.0)
                total += share[:, None] * x
    tl.store(y_ptr + (q[:, None] * HEADS + head) * WIDTH + lane, total, mask=mask[:, None])


@triton.jit
def csr_row_blocks(start_ptr, col_ptr, v_ptr, x_ptr, y_ptr, rows, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr):
    """A sparse matrix by a vector: BLOCK_R rows side by side, as long as the longest of them has entries."""
    r = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    first = tl.load(start_ptr + r, mask=r < rows, other=0)
    end = tl.load(start_ptr + r + 1, mask=r < rows, other=0)
    total = tl.zeros((BLOCK_R, BLOCK_K), tl.float32)
    for k in range(0, tl.max(end - first, 0), BLOCK_K):
        at = first[:, None] + k + tl.arange(0, BLOCK_K)[None, :]
        mask = at < end[:, None]
        col = tl.load(col_ptr + at, mask=mask, other=0)
        total += tl.load(v_ptr + at, mask=mask, other=0.0) * tl.load(x_ptr + col, mask=mask, other=0.0)
    tl.store(y_ptr + r, tl.sum(total, 1), mask=r < rows)


@triton.jit
def edge_features(x_ptr, id_ptr, y_ptr, channels, points, NEAR: tl.constexpr, BLOCK: tl.constexpr):
    """What each of a point's NEAR neighbours has more than it in each channel, and its own; [channel, point]."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel, cloud = tl.program_id(1), tl.program_id(2)
    mask = at < points * NEAR
    x = x_ptr + (cloud * channels + channel) * points
    other = tl.load(id_ptr + cloud * points * NEAR + at, mask=mask, other=0)
    own = tl.load(x + at // NEAR, mask=mask, other=0.0)
    y = y_ptr + (cloud * 2 * channels + channel) * points * NEAR + at
    tl.store(y, tl.load(x + other, mask=mask, other=0.0) - own, mask=mask)
    tl.store(y + channels * points * NEAR, own, mask=mask)


@triton.jit
def permute_quantise(x_ptr, slot_ptr, y_ptr, scale_ptr, slots, WIDTH: tl.constexpr, TOP: tl.constexpr,
                     BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """Tokens in the order of their experts, as float8 with a scale for each 128; a token has TOP slots."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (r < slots)[:, None]
    token = tl.load(slot_ptr + r, mask=r < slots, other=0) // TOP
    x = tl.load(x_ptr + token[:, None] * WIDTH + c[None, :], mask=mask, other=0.0).to(tl.float32)
    x = x.reshape(BLOCK_R, BLOCK_C // 128, 128)
    scale = tl.maximum(tl.max(tl.abs(x), 2), 1e-4) / 448
    y = (x / scale[:, :, None]).reshape(BLOCK_R, BLOCK_C).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + r[:, None] * WIDTH + c[None, :], y, mask=mask)
    g = tl.program_id(0) * (BLOCK_C // 128) + tl.arange(0, BLOCK_C // 128)
    tl.store(scale_ptr + r[:, None] * (WIDTH // 128) + g[None, :], scale, mask=mask)


@triton.jit
def correlation_lookup(x_ptr, at_ptr, y_ptr, n, high, wide, REACH: tl.constexpr, BLOCK: tl.constexpr):
    """Of a pixel's own plane of likenesses the values around a place between its pixels, as RAFT looks them up."""
    SIDE: tl.constexpr = 2 * REACH + 1
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pixel, tap = at // (SIDE * SIDE), at % (SIDE * SIDE)
    mask = pixel < n
    u = tl.load(at_ptr + 2 * pixel, mask=mask, other=0.0) + tap % SIDE - REACH
    v = tl.load(at_ptr + 2 * pixel + 1, mask=mask, other=0.0) + tap // SIDE - REACH
    left, top = tl.floor(u).to(tl.int32), tl.floor(v).to(tl.int32)
    total = tl.zeros((BLOCK,), tl.float32)
    for corner in tl.static_range(4):
        c, r = left + corner % 2, top + corner // 2
        inside = mask & (r >= 0) & (r < high) & (c >= 0) & (c < wide)
        x = tl.load(x_ptr + pixel * (high * wide) + r * wide + c, mask=inside, other=0.0)
        total += (1 - tl.abs(u - c)) * (1 - tl.abs(v - r)) * x
    tl.store(y_ptr + at, total, mask=mask)
