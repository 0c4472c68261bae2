"""Triton kernels of documents, vocoders, prices, likeness, channels that lie together, alloys, earthquakes, volumes,
experts, adapters, graphs, scanners, superpixels, ranges, caches, drafts, meshes, gates, sinks, heads and rewards: a
twenty-fifth zoo."""

import triton
import triton.language as tl


@triton.jit
def conv_of_documents(x_ptr, w_ptr, first_ptr, y_ptr, tokens, width, TAPS: tl.constexpr, BLOCK_T: tl.constexpr,
                      BLOCK_C: tl.constexpr):  # fmt: skip
    """A short convolution along packed documents, each channel by itself: none looks into the document before."""
    t, c = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask, total = (t < tokens)[:, None] & (c < width)[None, :], tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    first = tl.load(first_ptr + t, mask=t < tokens, other=0)
    for k in tl.static_range(TAPS):
        at = t - (TAPS - 1) + k
        x = tl.load(x_ptr + at[:, None] * width + c[None, :], mask=mask & (at >= first)[:, None], other=0.0)
        total += x.to(tl.float32) * tl.load(w_ptr + c * TAPS + k, mask=c < width, other=0.0).to(tl.float32)[None, :]
    y = total * tl.sigmoid(total)
    tl.store(y_ptr + t[:, None] * width + c[None, :], y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def longer_signal(x_ptr, w_ptr, y_ptr, channels, length, out, STEP: tl.constexpr, TAPS: tl.constexpr,
                  BLOCK: tl.constexpr):  # fmt: skip
    """A transposed convolution of each channel: STEP samples for one."""
    t, row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1)
    total, last = tl.zeros((BLOCK,), tl.float32), (t + STEP // 2) // STEP
    for j in tl.static_range(TAPS // STEP):
        at = last - j
        x = tl.load(x_ptr + row * length + at, mask=(at >= 0) & (at < length), other=0.0).to(tl.float32)
        total += x * tl.load(w_ptr + row % channels * TAPS + t + STEP // 2 - at * STEP)
    tl.store(y_ptr + row * out + t, total.to(y_ptr.dtype.element_ty), mask=t < out)


@triton.jit
def bollinger(x_ptr, mean_ptr, band_ptr, times, assets, SPAN: tl.constexpr, BLOCK_R: tl.constexpr,
              BLOCK_C: tl.constexpr):  # fmt: skip
    """Mean and deviation of the last SPAN prices of many papers, a row for each moment."""
    r, c = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R), tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    total, squares = tl.zeros((BLOCK_R, BLOCK_C), tl.float32), tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    mask = (r < times)[:, None] & (c < assets)[None, :]
    for k in range(SPAN):
        at = (r - k)[:, None]
        x = tl.load(x_ptr + at * assets + c[None, :], mask=mask & (at >= 0), other=0.0)
        total += x
        squares += x * x
    count = tl.minimum(r + 1, SPAN).to(tl.float32)[:, None]
    mean = total / count
    at = r[:, None] * assets + c[None, :]
    tl.store(mean_ptr + at, mean, mask=mask)
    tl.store(band_ptr + at, tl.sqrt(tl.maximum(squares / count - mean * mean, 0.0)), mask=mask)


@triton.jit
def blurred_moments(x_ptr, y_ptr, w_ptr, out_ptr, planes, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """What SSIM sums of two pictures, blurred down the columns by eleven taps."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c, plane = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :], tl.program_id(2)
    a, b = tl.zeros((BLOCK_R, BLOCK_C), tl.float32), tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    aa, bb, ab = a, a, a
    for k in tl.static_range(11):
        there = (r + k - 5 >= 0) & (r + k - 5 < high) & (c < wide)
        at = (plane * high + r + k - 5) * wide + c
        x, y = tl.load(x_ptr + at, mask=there, other=0.0), tl.load(y_ptr + at, mask=there, other=0.0)
        w = tl.load(w_ptr + k)
        a += w * x
        b += w * y
        aa += w * x * x
        bb += w * y * y
        ab += w * x * y
    to, mask, page = out_ptr + (plane * high + r) * wide + c, (r < high) & (c < wide), planes * high * wide
    tl.store(to, a, mask=mask)
    tl.store(to + page, b, mask=mask)
    tl.store(to + 2 * page, aa, mask=mask)
    tl.store(to + 3 * page, bb, mask=mask)
    tl.store(to + 4 * page, ab, mask=mask)


@triton.jit
def wide_depthwise(x_ptr, w_ptr, bias_ptr, y_ptr, high, wide, width, SIDE: tl.constexpr, BLOCK_P: tl.constexpr,
                   BLOCK_C: tl.constexpr):  # fmt: skip
    """A convolution of SIDE by SIDE of each channel, channels together, as networks of pictures have it."""
    at, c = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P), tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    r, q, image = at // wide, at % wide, tl.program_id(2) * high * wide
    total = tl.zeros((BLOCK_P, BLOCK_C), tl.float32)
    for k in range(SIDE * SIDE):
        i, j = k // SIDE - SIDE // 2, k % SIDE - SIDE // 2
        there = (r + i >= 0) & (r + i < high) & (q + j >= 0) & (q + j < wide)
        x = tl.load(x_ptr + (image + at + i * wide + j)[:, None] * width + c[None, :],
                    mask=there[:, None] & (c < width)[None, :], other=0.0)  # fmt: skip
        total += x.to(tl.float32) * tl.load(w_ptr + k * width + c, mask=c < width, other=0.0).to(tl.float32)[None, :]
    total += tl.load(bias_ptr + c, mask=c < width, other=0.0).to(tl.float32)[None, :]
    tl.store(y_ptr + (image + at)[:, None] * width + c[None, :], total.to(tl.float16),
             mask=(at < high * wide)[:, None] & (c < width)[None, :])  # fmt: skip


@triton.jit
def _potential(x_ptr, r, c, high, wide, gamma, mask):
    r, c = (r + high) % high, (c + wide) % wide
    up, down = (r + high - 1) % high * wide, (r + 1) % high * wide
    x = tl.load(x_ptr + r * wide + c, mask=mask, other=0.0)
    near = tl.load(x_ptr + up + c, mask=mask, other=0.0) + tl.load(x_ptr + down + c, mask=mask, other=0.0)
    near += tl.load(x_ptr + r * wide + (c + wide - 1) % wide, mask=mask, other=0.0)
    near += tl.load(x_ptr + r * wide + (c + 1) % wide, mask=mask, other=0.0)
    return x * x * x - x - gamma * (near - 4 * x)


@triton.jit
def separate_alloy(x_ptr, y_ptr, high, wide, gamma, step, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A step of Cahn and Hilliard's equation on a torus: what flows down the potential of its neighbours'."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (r < high) & (c < wide)
    flow = _potential(x_ptr, r - 1, c, high, wide, gamma, mask) + _potential(x_ptr, r + 1, c, high, wide, gamma, mask)
    flow += _potential(x_ptr, r, c - 1, high, wide, gamma, mask) + _potential(x_ptr, r, c + 1, high, wide, gamma, mask)
    flow -= 4 * _potential(x_ptr, r, c, high, wide, gamma, mask)
    x = tl.load(x_ptr + r * wide + c, mask=mask, other=0.0)
    tl.store(y_ptr + r * wide + c, x + step * flow, mask=mask)


@triton.jit
def _slope(x_ptr, at, go, mask):
    """Between two points, by four."""
    a, b = tl.load(x_ptr + at, mask=mask, other=0.0), tl.load(x_ptr + at + go, mask=mask, other=0.0)
    c, d = tl.load(x_ptr + at - go, mask=mask, other=0.0), tl.load(x_ptr + at + 2 * go, mask=mask, other=0.0)
    return 1.125 * (b - a) - (d - c) / 24.0


@triton.jit
def shaken_ground(sxx_ptr, sxz_ptr, szz_ptr, light_ptr, vx_ptr, vz_ptr, new_vx_ptr, new_vz_ptr, high, wide, step,
                  BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """How fast the ground moves by the stresses around, on staggered grids."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask, at = (r < high) & (c < wide), r * wide + c
    inside = (r >= 2) & (r < high - 2) & (c >= 2) & (c < wide - 2)
    by = tl.load(light_ptr + at, mask=mask, other=0.0) * step
    vx = tl.load(vx_ptr + at, mask=mask, other=0.0)
    vx += by * (_slope(sxx_ptr, at, 1, inside) + _slope(sxz_ptr, at - wide, wide, inside))
    vz = tl.load(vz_ptr + at, mask=mask, other=0.0)
    vz += by * (_slope(sxz_ptr, at - 1, 1, inside) + _slope(szz_ptr, at, wide, inside))
    tl.store(new_vx_ptr + at, vx, mask=mask)
    tl.store(new_vz_ptr + at, vz, mask=mask)


@triton.jit
def _excess(px_ptr, py_ptr, pz_ptr, f_ptr, z, r, c, planes, rows, cols):
    """What flows out of a cell, less what is seen there."""
    at = (z * rows + r) * cols + c
    there = (z < planes) & (r < rows) & (c < cols)
    y = tl.load(px_ptr + at, mask=there, other=0.0) - tl.load(px_ptr + at - 1, mask=there & (c > 0), other=0.0)
    y += tl.load(py_ptr + at, mask=there, other=0.0) - tl.load(py_ptr + at - cols, mask=there & (r > 0), other=0.0)
    y += tl.load(pz_ptr + at, mask=there, other=0.0)
    y -= tl.load(pz_ptr + at - rows * cols, mask=there & (z > 0), other=0.0)
    return y - tl.load(f_ptr + at, mask=there, other=0.0)


@triton.jit
def smooth_volume(px_ptr, py_ptr, pz_ptr, f_ptr, qx_ptr, qy_ptr, qz_ptr, planes, rows, cols, step,
                  BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """A step of Chambolle's: total variation of a volume, by its dual."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c, z = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :], tl.program_id(2)
    here = _excess(px_ptr, py_ptr, pz_ptr, f_ptr, z, r, c, planes, rows, cols)
    dx = tl.where(c + 1 < cols, _excess(px_ptr, py_ptr, pz_ptr, f_ptr, z, r, c + 1, planes, rows, cols) - here, 0.0)
    dy = tl.where(r + 1 < rows, _excess(px_ptr, py_ptr, pz_ptr, f_ptr, z, r + 1, c, planes, rows, cols) - here, 0.0)
    dz = tl.where(z + 1 < planes, _excess(px_ptr, py_ptr, pz_ptr, f_ptr, z + 1, r, c, planes, rows, cols) - here, 0.0)
    by = 1 / (1 + step * tl.sqrt(dx * dx + dy * dy + dz * dz))
    at, mask = (z * rows + r) * cols + c, (r < rows) & (c < cols)
    tl.store(qx_ptr + at, (tl.load(px_ptr + at, mask=mask, other=0.0) + step * dx) * by, mask=mask)
    tl.store(qy_ptr + at, (tl.load(py_ptr + at, mask=mask, other=0.0) + step * dy) * by, mask=mask)
    tl.store(qz_ptr + at, (tl.load(pz_ptr + at, mask=mask, other=0.0) + step * dz) * by, mask=mask)


@triton.jit
def local_contrast(x_ptr, y_ptr, planes, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Each voxel of a scan less the mean of the 27 around, over what they span."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c, z = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :], tl.program_id(2)
    total = tl.zeros((BLOCK_R, BLOCK_C), tl.int32)
    least, most, count = total + 40000, total - 40000, total
    for k in tl.static_range(27):
        p, i, j = z + k // 9 - 1, r + k // 3 % 3 - 1, c + k % 3 - 1
        there = (p >= 0) & (p < planes) & (i >= 0) & (i < rows) & (j >= 0) & (j < cols)
        x = tl.load(x_ptr + (p * rows + i) * cols + j, mask=there, other=0).to(tl.int32)
        total += x
        count += there.to(tl.int32)
        least, most = tl.minimum(least, tl.where(there, x, 40000)), tl.maximum(most, tl.where(there, x, -40000))
    at, mask = (z * rows + r) * cols + c, (r < rows) & (c < cols)
    x = tl.load(x_ptr + at, mask=mask, other=0).to(tl.float32)
    y = (x - total.to(tl.float32) / count.to(tl.float32)) / (most - least + 1).to(tl.float32)
    tl.store(y_ptr + at, y.to(tl.float16), mask=mask)


@triton.jit
def sum_of_experts(x_ptr, weight_ptr, token_ptr, y_ptr, n, width, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """What experts say of their tokens, in the order of experts, added to the tokens' rows."""
    at, c = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T), tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (at < n)[:, None] & (c < width)[None, :]
    token = tl.load(token_ptr + at, mask=at < n, other=0)
    x = tl.load(x_ptr + at[:, None] * width + c[None, :], mask=mask, other=0.0).to(tl.float32)
    x *= tl.load(weight_ptr + at, mask=at < n, other=0.0)[:, None]
    tl.atomic_add(y_ptr + token[:, None] * width + c[None, :], x, mask=mask, sem="relaxed")


@triton.jit
def gain_gradient(x_ptr, g_ptr, by_ptr, y_ptr, rows, cols, EACH: tl.constexpr, BLOCK_R: tl.constexpr,
                  BLOCK_C: tl.constexpr):  # fmt: skip
    """What is asked of the gains of a norm: each program sums EACH rows and adds them to all others'."""
    c, total = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C), tl.zeros((BLOCK_C,), tl.float32)
    for r0 in range(0, EACH, BLOCK_R):
        r = tl.program_id(1) * EACH + r0 + tl.arange(0, BLOCK_R)
        at, mask = r[:, None] * cols + c[None, :], (r < rows)[:, None] & (c < cols)[None, :]
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        g = tl.load(g_ptr + at, mask=mask, other=0.0).to(tl.float32)
        total += tl.sum(x * g * tl.load(by_ptr + r, mask=r < rows, other=0.0)[:, None], 0)
    tl.atomic_add(y_ptr + c, total, mask=c < cols, sem="relaxed")


@triton.jit
def shrink_by_adapter(x_ptr, a_ptr, id_ptr, y_ptr, tokens, hidden, RANK: tl.constexpr, SPLIT: tl.constexpr,
                      BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """Tokens times the small matrix of their adapter; programs that share a sum each take some of its terms."""
    m, j = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, RANK)
    a = a_ptr + tl.load(id_ptr + tl.program_id(0) * BLOCK_M // 64) * RANK * hidden
    acc, k = tl.zeros((BLOCK_M, RANK), tl.float32), tl.arange(0, BLOCK_K)
    for k0 in range(tl.program_id(1) * BLOCK_K, hidden, SPLIT * BLOCK_K):
        x = tl.load(x_ptr + m[:, None] * hidden + (k0 + k)[None, :], mask=m[:, None] < tokens, other=0.0)
        acc = tl.dot(x, tl.load(a + j[None, :] * hidden + (k0 + k)[:, None]), acc)
    tl.atomic_add(y_ptr + m[:, None] * RANK + j[None, :], acc, mask=m[:, None] < tokens, sem="relaxed")


@triton.jit
def neighbour_moments(from_ptr, to_ptr, x_ptr, sum_ptr, square_ptr, edges, width, BLOCK_T: tl.constexpr,
                      BLOCK_C: tl.constexpr):  # fmt: skip
    """Sums and sums of squares of what the neighbours of a node hold."""
    e, c = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (e < edges)[:, None] & (c < width)[None, :]
    a, b = tl.load(from_ptr + e, mask=e < edges, other=0), tl.load(to_ptr + e, mask=e < edges, other=0)
    x = tl.load(x_ptr + a[:, None] * width + c[None, :], mask=mask, other=0.0)
    to = b[:, None] * width + c[None, :]
    tl.atomic_add(sum_ptr + to, x, mask=mask, sem="relaxed")
    tl.atomic_add(square_ptr + to, x * x, mask=mask, sem="relaxed")


@triton.jit
def rays_back(way_ptr, x_ptr, y_ptr, rays, SIDE: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """What the rays of a scanner saw, laid along each between the four pixels that are nearest to its steps."""
    d, angle = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1)
    mask = d < rays
    cos, sin = tl.load(way_ptr + 2 * angle), tl.load(way_ptr + 2 * angle + 1)
    seen, off = tl.load(x_ptr + angle * rays + d, mask=mask, other=0.0), (d - rays // 2).to(tl.float32) * (SIDE / rays)
    for k in range(STEPS):
        along = (k - STEPS // 2) * (SIDE * 1.0 / STEPS)
        c, r = SIDE / 2 + off * cos - along * sin, SIDE / 2 + off * sin + along * cos
        i, j = r.to(tl.int32), c.to(tl.int32)
        f, g = r - i, c - j
        inside, to = mask & (r >= 0) & (i < SIDE - 1) & (c >= 0) & (j < SIDE - 1), y_ptr + i * SIDE + j
        tl.atomic_add(to, seen * (1 - f) * (1 - g), mask=inside, sem="relaxed")
        tl.atomic_add(to + 1, seen * (1 - f) * g, mask=inside, sem="relaxed")
        tl.atomic_add(to + SIDE, seen * f * (1 - g), mask=inside, sem="relaxed")
        tl.atomic_add(to + SIDE + 1, seen * f * g, mask=inside, sem="relaxed")


@triton.jit
def superpixels(label_ptr, x_ptr, y_ptr, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Sums of colour and place of the pixels of each patch, and how many they are."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask, at, page = (r < high) & (c < wide), r * wide + c, high * wide
    to = y_ptr + 6 * tl.load(label_ptr + at, mask=mask, other=0)
    one = tl.where(mask, 1.0, 0.0)
    tl.atomic_add(to, tl.load(x_ptr + at, mask=mask, other=0.0), mask=mask, sem="relaxed")
    tl.atomic_add(to + 1, tl.load(x_ptr + page + at, mask=mask, other=0.0), mask=mask, sem="relaxed")
    tl.atomic_add(to + 2, tl.load(x_ptr + 2 * page + at, mask=mask, other=0.0), mask=mask, sem="relaxed")
    tl.atomic_add(to + 3, one * r, mask=mask, sem="relaxed")
    tl.atomic_add(to + 4, one * c, mask=mask, sem="relaxed")
    tl.atomic_add(to + 5, one, mask=mask, sem="relaxed")


@triton.jit
def least_of_ranges(first_ptr, last_ptr, table_ptr, y_ptr, n, size, BLOCK: tl.constexpr):
    """Least of each range by two that overlap, of a table of the ranges of every power of two."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(first_ptr + at, mask=at < n, other=0), tl.load(last_ptr + at, mask=at < n, other=0)
    level = ((b - a + 1).to(tl.float32).to(tl.int32, bitcast=True) >> 23) - 127
    table = table_ptr + level * size
    x, y = tl.load(table + a, mask=at < n, other=0), tl.load(table + b + 1 - (1 << level), mask=at < n, other=0)
    tl.store(y_ptr + at, tl.minimum(x, y), mask=at < n)


@triton.jit
def flat_slots(row_ptr, start_ptr, table_ptr, y_ptr, most, BLOCK: tl.constexpr):
    """Slots of the tokens of a batch's requests, one after the other, from a table of all requests."""
    start, from_ = tl.load(start_ptr + tl.program_id(0)), tl.load(row_ptr + tl.program_id(0)) * most
    count = tl.load(start_ptr + tl.program_id(0) + 1) - start
    for k0 in range(0, count, BLOCK):
        k = k0 + tl.arange(0, BLOCK)
        tl.store(y_ptr + start + k, tl.load(table_ptr + from_ + k, mask=k < count, other=0), mask=k < count)


@triton.jit
def fetch_latents(slot_ptr, x_ptr, scale_ptr, rope_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Rows of a cache of latents: 512 floats of eight bits with a scale for 128, then 64 that were turned."""
    t, d, e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, 512), tl.arange(0, 64)
    mask = (t < n)[:, None]
    slot = tl.load(slot_ptr + t, mask=t < n, other=0)[:, None]
    x = tl.load(x_ptr + slot * 512 + d[None, :], mask=mask, other=0.0).to(tl.float32)
    x *= tl.load(scale_ptr + slot * 4 + d[None, :] // 128, mask=mask, other=0.0)
    tl.store(y_ptr + t[:, None] * 576 + d[None, :], x.to(tl.bfloat16), mask=mask)
    rope = tl.load(rope_ptr + slot * 64 + e[None, :], mask=mask, other=0.0)
    tl.store(y_ptr + t[:, None] * 576 + 512 + e[None, :], rope, mask=mask)


@triton.jit
def accept_drafts(token_ptr, child_ptr, beside_ptr, target_ptr, count_ptr, last_ptr, requests, NODES: tl.constexpr,
                  STEPS: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """How far the trees of drafts go along with what the model says, and where that ends."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask, tree = at < requests, at * NODES
    here, count = tl.zeros((BLOCK,), tl.int32), tl.zeros((BLOCK,), tl.int32)
    node = tl.load(child_ptr + tree, mask=mask, other=-1)
    for _ in range(STEPS):
        live = node >= 0
        said = tl.load(token_ptr + tree + node, mask=live, other=-1)
        hit = live & (said == tl.load(target_ptr + tree + here, mask=live, other=-2))
        child = tl.load(child_ptr + tree + node, mask=live, other=-1)
        beside = tl.load(beside_ptr + tree + node, mask=live, other=-1)
        here, count = tl.where(hit, node, here), count + hit.to(tl.int32)
        node = tl.where(hit, child, beside)
    tl.store(count_ptr + at, count, mask=mask)
    tl.store(last_ptr + at, here, mask=mask)


@triton.jit
def interpolated_faces(face_ptr, bary_ptr, corner_ptr, x_ptr, y_ptr, n, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """What the three corners of the triangle that a pixel sees hold, by how near it is to each."""
    at, c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)[None, :]
    face = tl.load(face_ptr + at, mask=at < n, other=-1)
    seen = face >= 0
    u = tl.load(bary_ptr + 2 * at, mask=seen, other=0.0)[:, None]
    v = tl.load(bary_ptr + 2 * at + 1, mask=seen, other=0.0)[:, None]
    i = tl.load(corner_ptr + 3 * face, mask=seen, other=0)[:, None] * WIDTH
    j = tl.load(corner_ptr + 3 * face + 1, mask=seen, other=0)[:, None] * WIDTH
    k = tl.load(corner_ptr + 3 * face + 2, mask=seen, other=0)[:, None] * WIDTH
    y = u * tl.load(x_ptr + i + c, mask=seen[:, None], other=0.0)
    y += v * tl.load(x_ptr + j + c, mask=seen[:, None], other=0.0)
    y += (1 - u - v) * tl.load(x_ptr + k + c, mask=seen[:, None], other=0.0)
    tl.store(y_ptr + at[:, None] * WIDTH + c, y, mask=(at < n)[:, None])


@triton.jit
def move_slots(from_ptr, to_ptr, x_ptr, y_ptr, n, width, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """Rows of one cache to slots of another."""
    t, c = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (t < n)[:, None] & (c < width)[None, :]
    a, b = tl.load(from_ptr + t, mask=t < n, other=0), tl.load(to_ptr + t, mask=t < n, other=0)
    x = tl.load(x_ptr + a.to(tl.int64)[:, None] * width + c[None, :], mask=mask, other=0.0)
    tl.store(y_ptr + b.to(tl.int64)[:, None] * width + c[None, :], x, mask=mask)


@triton.jit
def largest_neighbour(start_ptr, col_ptr, x_ptr, y_ptr, from_ptr, width, BLOCK: tl.constexpr):
    """The most that the neighbours of a node hold in each place, and which of them does."""
    row, c = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    best, where = tl.full((BLOCK,), -1e30, tl.float32), tl.full((BLOCK,), -1, tl.int32)
    for e in range(tl.load(start_ptr + row), tl.load(start_ptr + row + 1)):
        col = tl.load(col_ptr + e)
        x = tl.load(x_ptr + col * width + c, mask=c < width, other=0.0).to(tl.float32)
        best, where = tl.maximum(best, x), tl.where(x > best, col, where)
    tl.store(y_ptr + row * width + c, tl.where(where < 0, 0.0, best).to(tl.float16), mask=c < width)
    tl.store(from_ptr + row * width + c, where, mask=c < width)


@triton.jit
def gated_chunks(q_ptr, k_ptr, v_ptr, g_ptr, y_ptr, length, WIDTH: tl.constexpr, BLOCK_T: tl.constexpr,
                 BLOCK: tl.constexpr):  # fmt: skip
    """Linear attention whose state fades by a gate, a chunk at a time; the state stays in registers."""
    head, d, e = tl.program_id(1), tl.arange(0, WIDTH), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    t, state = tl.arange(0, BLOCK_T), tl.zeros((WIDTH, BLOCK), tl.float32)
    for t0 in range(0, length, BLOCK_T):
        mask, at = (t0 + t < length)[:, None], (head * length + t0 + t)[:, None] * WIDTH
        q = tl.load(q_ptr + at + d[None, :], mask=mask, other=0.0)
        k = tl.load(k_ptr + at + d[None, :], mask=mask, other=0.0)
        v = tl.load(v_ptr + at + e[None, :], mask=mask, other=0.0)
        g = -tl.sigmoid(tl.load(g_ptr + head * length + t0 + t, mask=t0 + t < length, other=-90.0))
        sum, all = tl.cumsum(g, 0), tl.sum(g, 0)
        fade = tl.exp(tl.minimum(sum[:, None] - sum[None, :], 0.0))
        a = tl.where(t[:, None] >= t[None, :], tl.dot(q, tl.trans(k)) * fade, 0.0)
        y = tl.dot(q, state.to(q.dtype)) * tl.exp(sum)[:, None] + tl.dot(a.to(v.dtype), v)
        k = (k.to(tl.float32) * tl.exp(all - sum)[:, None]).to(v.dtype)
        state = state * tl.exp(all) + tl.dot(tl.trans(k), v)
        tl.store(y_ptr + at + e[None, :], y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def staying_swiglu(x_ptr, w_ptr, y_ptr, M, N, K, PROGRAMS: tl.constexpr, GROUP: tl.constexpr, BLOCK_M: tl.constexpr,
                   BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """Two products of the halves of a matrix, one gated by the other; programs stay."""
    down, across = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), down * across, PROGRAMS):
        group = tile // (GROUP * across)
        size = min(down - group * GROUP, GROUP)
        m = (group * GROUP + tile % size) * BLOCK_M + tl.arange(0, BLOCK_M)
        n = tile % (GROUP * across) // size * BLOCK_N + tl.arange(0, BLOCK_N)
        k = tl.arange(0, BLOCK_K)
        gate, up = tl.zeros((BLOCK_M, BLOCK_N), tl.float32), tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k0 in range(0, K, BLOCK_K):
            x = tl.load(x_ptr + m[:, None] * K + (k0 + k)[None, :], mask=m[:, None] < M, other=0.0)
            w = w_ptr + n[None, :] * K + (k0 + k)[:, None]
            gate = tl.dot(x, tl.load(w), gate)
            up = tl.dot(x, tl.load(w + N * K), up)
        y = gate * tl.sigmoid(gate) * up
        tl.store(y_ptr + m[:, None] * N + n[None, :], y.to(y_ptr.dtype.element_ty), mask=m[:, None] < M)


@triton.jit
def norm_and_turn(x_ptr, w_ptr, at_ptr, turn_ptr, y_ptr, tokens, stride, heads, WIDTH: tl.constexpr,
                  BLOCK_T: tl.constexpr, BLOCK_H: tl.constexpr):  # fmt: skip
    """Queries out of rows that hold keys and values too: each head to norm one, then turned by its token's place."""
    t = (tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T))[:, None, None]
    h = (tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H))[None, :, None]
    d, mask = tl.arange(0, WIDTH // 2)[None, None, :], (t < tokens) & (h < heads)
    from_ = x_ptr + t * stride + h * WIDTH + d
    a = tl.load(from_, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(from_ + WIDTH // 2, mask=mask, other=0.0).to(tl.float32)
    by = tl.rsqrt((tl.sum(a * a, 2) + tl.sum(b * b, 2)) / WIDTH + 1e-6)[:, :, None]
    a, b = a * by * tl.load(w_ptr + d), b * by * tl.load(w_ptr + WIDTH // 2 + d)
    turn = turn_ptr + tl.load(at_ptr + t, mask=t < tokens, other=0) * WIDTH + d
    cos, sin = tl.load(turn), tl.load(turn + WIDTH // 2)
    to = y_ptr + (t * heads + h) * WIDTH + d
    tl.store(to, (a * cos - b * sin).to(y_ptr.dtype.element_ty), mask=mask)
    tl.store(to + WIDTH // 2, (b * cos + a * sin).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def sink_attention(q_ptr, k_ptr, v_ptr, sink_ptr, y_ptr, length, span, scale, GROUP: tl.constexpr, WIDTH: tl.constexpr,
                   BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):  # fmt: skip
    """Attention to the last `span` tokens, with a share that goes to none."""
    head = tl.program_id(1)
    row, d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, WIDTH)
    at = (head * length + row)[:, None] * WIDTH + d[None, :]
    q, held = tl.load(q_ptr + at, mask=row[:, None] < length, other=0.0), head // GROUP * length
    top = tl.zeros((BLOCK_M,), tl.float32) + tl.load(sink_ptr + head) * 1.44269504
    total, acc = tl.full((BLOCK_M,), 1.0, tl.float32), tl.zeros((BLOCK_M, WIDTH), tl.float32)
    first = tl.maximum(tl.program_id(0) * BLOCK_M - span + 1, 0) // BLOCK_N * BLOCK_N
    for start in range(first, tl.minimum(tl.program_id(0) * BLOCK_M + BLOCK_M, length), BLOCK_N):
        col = start + tl.arange(0, BLOCK_N)
        here = (held + col)[:, None] * WIDTH + d[None, :]
        k = tl.load(k_ptr + here, mask=col[:, None] < length, other=0.0)
        w = tl.dot(q, tl.trans(k)) * scale
        seen = (col[None, :] <= row[:, None]) & (col[None, :] > row[:, None] - span)
        w = tl.where(seen, w, -1e30)
        new = tl.maximum(top, tl.max(w, 1))
        p, old = tl.exp2(w - new[:, None]), tl.exp2(top - new)
        v = tl.load(v_ptr + here, mask=col[:, None] < length, other=0.0)
        acc = acc * old[:, None] + tl.dot(p.to(v.dtype), v)
        total, top = total * old + tl.sum(p, 1), new
    tl.store(y_ptr + at, (acc / total[:, None]).to(y_ptr.dtype.element_ty), mask=row[:, None] < length)


@triton.jit
def _then(fade, gain, next_fade, next_gain):
    return fade * next_fade, gain * next_fade + next_gain


@triton.jit
def advantages(reward_ptr, value_ptr, done_ptr, y_ptr, games, length, discount, fade, BLOCK_R: tl.constexpr,
               BLOCK: tl.constexpr):  # fmt: skip
    """How much better each move was than expected, from the last to the first, by what it led to."""
    r, t = (tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None], tl.arange(0, BLOCK)[None, :]
    later = tl.zeros((BLOCK_R,), tl.float32)
    for part in range(tl.cdiv(length, BLOCK)):
        k = (tl.cdiv(length, BLOCK) - 1 - part) * BLOCK + t
        at, mask = r * length + k, (r < games) & (k < length)
        value = tl.load(value_ptr + r * (length + 1) + k, mask=mask, other=0.0)
        next = tl.load(value_ptr + r * (length + 1) + k + 1, mask=mask, other=0.0)
        goes_on = 1.0 - tl.load(done_ptr + at, mask=mask, other=0).to(tl.float32)
        gain = tl.where(mask, tl.load(reward_ptr + at, mask=mask, other=0.0) + discount * next * goes_on - value, 0.0)
        by, y = tl.associative_scan((discount * fade * goes_on, gain), 1, _then, reverse=True)
        y += by * later[:, None]
        tl.store(y_ptr + at, y, mask=mask)
        later = tl.sum(tl.where(t == 0, y, 0.0), 1)
