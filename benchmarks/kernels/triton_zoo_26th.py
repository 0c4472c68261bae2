"""Triton kernels of paintings, onsets, vessels, pooled blurs, bilateral grids, pair distances, ratings, cameras,
genomes, splines, meshes and skies: a twenty-sixth zoo."""

import triton
import triton.language as tl


@triton.jit
def oil_painted(x_ptr, y_ptr, high, wide, REACH: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Kuwahara's filter: the mean of that quarter around a pixel that varies least; borders repeat."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask, side = (r < high) & (c < wide), 2 * REACH + 1
    a = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    b, d, e, aa, bb, dd, ee = a, a, a, a, a, a, a
    for k in tl.static_range((2 * REACH + 1) * (2 * REACH + 1)):
        row, col = r + k // side - REACH, c + k % side - REACH
        at = tl.minimum(tl.maximum(row, 0), high - 1) * wide + tl.minimum(tl.maximum(col, 0), wide - 1)
        x = tl.load(x_ptr + at, mask=mask, other=0).to(tl.float32)
        if k // (2 * REACH + 1) <= REACH:
            if k % (2 * REACH + 1) <= REACH:
                a += x
                aa += x * x
            if k % (2 * REACH + 1) >= REACH:
                b += x
                bb += x * x
        if k // (2 * REACH + 1) >= REACH:
            if k % (2 * REACH + 1) <= REACH:
                d += x
                dd += x * x
            if k % (2 * REACH + 1) >= REACH:
                e += x
                ee += x * x
    n = (REACH + 1) * (REACH + 1)
    best, least = a, n * aa - a * a
    for_b, for_d, for_e = n * bb - b * b, n * dd - d * d, n * ee - e * e
    best, least = tl.where(for_b < least, b, best), tl.minimum(for_b, least)
    best, least = tl.where(for_d < least, d, best), tl.minimum(for_d, least)
    best = tl.where(for_e < least, e, best)
    tl.store(y_ptr + r * wide + c, best / n, mask=mask)


@triton.jit
def onset_strength(x_ptr, y_ptr, frames, bins, BLOCK_T: tl.constexpr, BLOCK_F: tl.constexpr):
    """How much louder each frame of a spectrogram is than the loudest near in the frame before."""
    t, clip = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.program_id(1)
    total, row = tl.zeros((BLOCK_T,), tl.float32), ((clip * frames + t) * bins)[:, None]
    for f0 in range(0, bins, BLOCK_F):
        f = (f0 + tl.arange(0, BLOCK_F))[None, :]
        mask, was = (t < frames)[:, None] & (f < bins), ((t > 0) & (t < frames))[:, None]
        x = tl.load(x_ptr + row + f, mask=mask, other=0.0).to(tl.float32)
        before = tl.load(x_ptr + row - bins + f, mask=was & (f < bins), other=0.0).to(tl.float32)
        left = tl.load(x_ptr + row - bins + f - 1, mask=was & (f > 0) & (f <= bins), other=0.0).to(tl.float32)
        right = tl.load(x_ptr + row - bins + f + 1, mask=was & (f + 1 < bins), other=0.0).to(tl.float32)
        more = x - tl.maximum(before, tl.maximum(left, right))
        total += tl.sum(tl.where(mask, tl.maximum(more, 0.0), 0.0), 1)
    tl.store(y_ptr + clip * frames + t, total, mask=t < frames)


@triton.jit
def _seen(x_ptr, at, inside):
    return tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def vessels(x_ptr, y_ptr, planes, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """How bent a volume is: the squares of its second derivatives, by nineteen points."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c, z = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :], tl.program_id(2)
    at, up = (z * rows + r) * cols + c, rows * cols
    inside = (z > 0) & (z < planes - 1) & (r > 0) & (r < rows - 1) & (c > 0) & (c < cols - 1)
    x = 2 * _seen(x_ptr, at, inside)
    cc = _seen(x_ptr, at - 1, inside) + _seen(x_ptr, at + 1, inside) - x
    rr = _seen(x_ptr, at - cols, inside) + _seen(x_ptr, at + cols, inside) - x
    zz = _seen(x_ptr, at - up, inside) + _seen(x_ptr, at + up, inside) - x
    rc = _seen(x_ptr, at - cols - 1, inside) + _seen(x_ptr, at + cols + 1, inside)
    rc -= _seen(x_ptr, at - cols + 1, inside) + _seen(x_ptr, at + cols - 1, inside)
    zc = _seen(x_ptr, at - up - 1, inside) + _seen(x_ptr, at + up + 1, inside)
    zc -= _seen(x_ptr, at - up + 1, inside) + _seen(x_ptr, at + up - 1, inside)
    zr = _seen(x_ptr, at - up - cols, inside) + _seen(x_ptr, at + up + cols, inside)
    zr -= _seen(x_ptr, at - up + cols, inside) + _seen(x_ptr, at + up - cols, inside)
    y = cc * cc + rr * rr + zz * zz + (rc * rc + zc * zc + zr * zr) / 8
    tl.store(y_ptr + at, y, mask=(r < rows) & (c < cols))


@triton.jit
def blur_pool(x_ptr, y_ptr, high, wide, width, BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr):
    """Every second pixel of a picture that four by four taps have blurred, channels together."""
    at, c = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P), tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    r, q, image = at // (wide // 2) * 2 - 1, at % (wide // 2) * 2 - 1, tl.program_id(2)
    total, there = tl.zeros((BLOCK_P, BLOCK_C), tl.float32), (at < high // 2 * (wide // 2))[:, None] & (c < width)
    for k in tl.static_range(16):
        i, j = r + k // 4, q + k % 4
        mask = there & ((i >= 0) & (i < high) & (j >= 0) & (j < wide))[:, None]
        x = tl.load(x_ptr + ((image * high + i) * wide + j)[:, None] * width + c, mask=mask, other=0.0)
        by = (1 + 2 * (k // 4 % 3 > 0)) * (1 + 2 * (k % 4 % 3 > 0))
        total += x.to(tl.float32) * by
    to = (image * (high // 2) * (wide // 2) + at)[:, None] * width + c
    tl.store(y_ptr + to, (total / 64).to(y_ptr.dtype.element_ty), mask=there)


@triton.jit
def bilateral_grid(x_ptr, y_ptr, high, wide, SIDE: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Sums and counts of pixels by where they lie and how bright they are."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (r < high) & (c < wide)
    x = tl.load(x_ptr + r * wide + c, mask=mask, other=0).to(tl.int32)
    cell = (((r + SIDE // 2) // SIDE * (wide // SIDE + 2) + (c + SIDE // 2) // SIDE) * 17 + (x + 8) // 16) * 2
    tl.atomic_add(y_ptr + cell, x.to(tl.float32), mask=mask, sem="relaxed")
    tl.atomic_add(y_ptr + cell + 1, tl.full((BLOCK_R, BLOCK_C), 1.0, tl.float32), mask=mask, sem="relaxed")


@triton.jit
def pair_distances(x_ptr, y_ptr, n, BINS: tl.constexpr, BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr):
    """How many pairs of particles lie how far apart, in a box of 1024 with a period."""
    i = (tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I))[:, None]
    j = (tl.program_id(1) * BLOCK_J + tl.arange(0, BLOCK_J))[None, :]
    square = tl.zeros((BLOCK_I, BLOCK_J), tl.int32)
    for d in tl.static_range(3):
        a, b = tl.load(x_ptr + d * n + i, mask=i < n, other=0), tl.load(x_ptr + d * n + j, mask=j < n, other=0)
        apart = (a - b + 512 & 1023) - 512
        square += apart * apart
    bin = (tl.sqrt(square.to(tl.float32)) * (BINS / 512)).to(tl.int32)
    mask = (i < j) & (j < n) & (bin < BINS)
    tl.atomic_add(y_ptr + bin, tl.full((BLOCK_I, BLOCK_J), 1, tl.int32), mask=mask, sem="relaxed")


@triton.jit
def rated_gradients(user_ptr, item_ptr, rating_ptr, u_ptr, v_ptr, gu_ptr, gv_ptr, n, WIDTH: tl.constexpr,
                    BLOCK_T: tl.constexpr):  # fmt: skip
    """What ratings ask of the rows of their users and of their items."""
    t, c = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.arange(0, WIDTH)[None, :]
    user, item = tl.load(user_ptr + t, mask=t < n, other=0), tl.load(item_ptr + t, mask=t < n, other=0)
    mask, at, to = (t < n)[:, None], user[:, None] * WIDTH + c, item[:, None] * WIDTH + c
    u, v = tl.load(u_ptr + at, mask=mask, other=0.0), tl.load(v_ptr + to, mask=mask, other=0.0)
    by = (tl.load(rating_ptr + t, mask=t < n, other=0.0) - tl.sum(u * v, 1))[:, None]
    tl.atomic_add(gu_ptr + at, by * v, mask=mask, sem="relaxed")
    tl.atomic_add(gv_ptr + to, by * u, mask=mask, sem="relaxed")


@triton.jit
def pose_equations(camera_ptr, j_ptr, e_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """The upper halves of cameras' normal equations, and their right sides, by what each saw: 27 sums of each."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    to = y_ptr + tl.load(camera_ptr + i, mask=mask, other=0) * 27
    e = tl.load(e_ptr + 2 * i, mask=mask, other=0.0)
    f = tl.load(e_ptr + 2 * i + 1, mask=mask, other=0.0)
    for a in tl.static_range(6):
        ja = tl.load(j_ptr + 12 * i + a, mask=mask, other=0.0)
        ka = tl.load(j_ptr + 12 * i + 6 + a, mask=mask, other=0.0)
        for b in tl.static_range(6):
            if b >= a:
                jb = tl.load(j_ptr + 12 * i + b, mask=mask, other=0.0)
                kb = tl.load(j_ptr + 12 * i + 6 + b, mask=mask, other=0.0)
                tl.atomic_add(to + a * 6 - a * (a - 1) // 2 + b - a, ja * jb + ka * kb, mask=mask, sem="relaxed")
        tl.atomic_add(to + 21 + a, ja * e + ka * f, mask=mask, sem="relaxed")


@triton.jit
def search_genome(pattern_ptr, first_ptr, seen_ptr, low_ptr, high_ptr, n, size, STEPS: tl.constexpr,
                  BLOCK: tl.constexpr):  # fmt: skip
    """Where each pattern of STEPS letters lies in an index of Ferragina and Manzini, from its last letter on."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    low, high = tl.zeros((BLOCK,), tl.int32), tl.zeros((BLOCK,), tl.int32) + size
    for k in range(STEPS):
        letter = tl.load(pattern_ptr + i * STEPS + STEPS - 1 - k, mask=mask, other=0).to(tl.int32)
        first = tl.load(first_ptr + letter)
        low = first + tl.load(seen_ptr + low * 4 + letter, mask=mask, other=0)
        high = first + tl.load(seen_ptr + high * 4 + letter, mask=mask, other=0)
    tl.store(low_ptr + i, low, mask=mask)
    tl.store(high_ptr + i, high, mask=mask)


@triton.jit
def spline_layer(x_ptr, w_ptr, y_ptr, rows, ins, cells, outs, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """A layer whose weights are cubic splines of its inputs, in 1/256 of a cell."""
    t, c = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T), tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    total, mask = tl.zeros((BLOCK_T, BLOCK_C), tl.float32), (t < rows)[:, None] & (c < outs)[None, :]
    for i in range(ins):
        x = tl.load(x_ptr + t * ins + i, mask=t < rows, other=0).to(tl.int32)
        u, cell = (x & 255).to(tl.float32) / 256, x >> 8
        at = w_ptr + ((i * (cells + 3) + cell) * outs)[:, None] + c[None, :]
        v = 1 - u
        a, d = v * v * v, u * u * u
        b = 3 * d - 6 * u * u + 4
        total += a[:, None] * tl.load(at, mask=mask, other=0.0).to(tl.float32)
        total += b[:, None] * tl.load(at + outs, mask=mask, other=0.0).to(tl.float32)
        total += (6 - a - b - d)[:, None] * tl.load(at + 2 * outs, mask=mask, other=0.0).to(tl.float32)
        total += d[:, None] * tl.load(at + 3 * outs, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + t[:, None] * outs + c[None, :], total / 6, mask=mask)


@triton.jit
def smooth_mesh(near_ptr, x_ptr, y_ptr, n, step, BLOCK: tl.constexpr):
    """Moves each corner of a mesh toward the mean of its neighbours, of which it has eight at most."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask, count = i < n, tl.zeros((BLOCK,), tl.float32)
    a, b, c = count, count, count
    for k in tl.static_range(8):
        j = tl.load(near_ptr + i * 8 + k, mask=mask, other=-1)
        there = j >= 0
        a += tl.load(x_ptr + j * 3, mask=there, other=0.0)
        b += tl.load(x_ptr + j * 3 + 1, mask=there, other=0.0)
        c += tl.load(x_ptr + j * 3 + 2, mask=there, other=0.0)
        count += there.to(tl.float32)
    by = step / tl.maximum(count, 1.0)
    stay = tl.where(count > 0, 1 - step, 1.0)
    tl.store(y_ptr + i * 3, tl.load(x_ptr + i * 3, mask=mask, other=0.0) * stay + a * by, mask=mask)
    tl.store(y_ptr + i * 3 + 1, tl.load(x_ptr + i * 3 + 1, mask=mask, other=0.0) * stay + b * by, mask=mask)
    tl.store(y_ptr + i * 3 + 2, tl.load(x_ptr + i * 3 + 2, mask=mask, other=0.0) * stay + c * by, mask=mask)


@triton.jit
def sky_of_normals(d_ptr, sky_ptr, y_ptr, n, size, BLOCK: tl.constexpr):
    """Looks up the sky, six square pictures, where each pixel of a map of normals points to."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask, c = i < n, tl.arange(0, 4)
    x = tl.load(d_ptr + i, mask=mask, other=0).to(tl.int32)
    y = tl.load(d_ptr + n + i, mask=mask, other=0).to(tl.int32)
    z = tl.load(d_ptr + 2 * n + i, mask=mask, other=1).to(tl.int32)
    p, q, r = tl.abs(x), tl.abs(y), tl.abs(z)
    by_x, by_y = (p >= q) & (p >= r), q >= r
    most = tl.maximum(tl.where(by_x, p, tl.where(by_y, q, r)), 1)
    face = tl.where(by_x, (x < 0).to(tl.int32), tl.where(by_y, 2 + (y < 0).to(tl.int32), 4 + (z < 0).to(tl.int32)))
    u = (tl.where(by_x, y, x) + most) * size // (2 * most)
    v = (tl.where(by_x | by_y, z, y) + most) * size // (2 * most)
    at = (face * size + tl.minimum(v, size - 1)) * size + tl.minimum(u, size - 1)
    sky = tl.load(sky_ptr + at[:, None] * 4 + c[None, :], mask=mask[:, None], other=0.0)
    tl.store(y_ptr + i[:, None] * 4 + c[None, :], sky, mask=mask[:, None])
