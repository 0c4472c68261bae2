"""Triton kernels of bags, pages, joins, sparse grids, suffixes, noise, molecules, groups, patterns, sketches, charges,
frontiers, regions, meshes, envelopes and fields: a twenty-second zoo."""

import triton
import triton.language as tl


@triton.jit
def weighted_bags(id_ptr, weight_ptr, table_ptr, y_ptr, bags, width, EACH: tl.constexpr, BLOCK_T: tl.constexpr,
                  BLOCK_C: tl.constexpr):  # fmt: skip
    """Sums of EACH rows of a table by the weight of each."""
    b, c = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    total = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    for k in range(EACH):
        id = tl.load(id_ptr + b * EACH + k, mask=b < bags, other=0)
        w = tl.load(weight_ptr + b * EACH + k, mask=b < bags, other=0.0)
        x = tl.load(table_ptr + id[:, None] * width + c[None, :], mask=(c < width)[None, :], other=0.0)
        total += w[:, None] * x.to(tl.float32)
    tl.store(y_ptr + b[:, None] * width + c[None, :], total, mask=(b < bags)[:, None] & (c < width)[None, :])


@triton.jit
def paged_int8(table_ptr, length_ptr, weight_ptr, v_ptr, scale_ptr, y_ptr, pages, most, heads, PAGE: tl.constexpr,
               WIDTH: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Values of bytes in pages, times the scale of each token and head, summed by weights of a step of decoding."""
    seq, head, c = tl.program_id(1), tl.program_id(0), tl.arange(0, WIDTH)
    length, total = tl.load(length_ptr + seq), tl.zeros((WIDTH,), tl.float32)
    for first in range(0, length, BLOCK):
        t = first + tl.arange(0, BLOCK)
        page = tl.load(table_ptr + seq * pages + t // PAGE, mask=t < length, other=0)
        slot = (page * PAGE + t % PAGE) * heads + head
        w = tl.load(weight_ptr + (seq * heads + head) * most + t, mask=t < length, other=0.0)
        w *= tl.load(scale_ptr + slot, mask=t < length, other=0.0).to(tl.float32)
        v = tl.load(v_ptr + slot[:, None] * WIDTH + c[None, :], mask=(t < length)[:, None], other=0).to(tl.float32)
        total += tl.sum(w[:, None] * v, 0)
    tl.store(y_ptr + (seq * heads + head) * WIDTH + c, total)


@triton.jit
def chained_join(key_ptr, head_ptr, next_ptr, build_ptr, paid_ptr, y_ptr, n, BITS: tl.constexpr, STEPS: tl.constexpr,
                 BLOCK: tl.constexpr):  # fmt: skip
    """What rows of a table joined by chains of equal hashes hold; -1 for a key that is not there."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + at, mask=at < n, other=0)
    row = tl.load(head_ptr + (key.to(tl.uint32) * 2654435769 >> (32 - BITS)).to(tl.int32), mask=at < n, other=-1)
    found = tl.full((BLOCK,), -1, tl.int32)
    for _ in tl.static_range(STEPS):
        here = tl.load(build_ptr + row, mask=row >= 0, other=-1) == key
        found = tl.where((row >= 0) & here, row, found)
        row = tl.load(next_ptr + row, mask=(row >= 0) & (found < 0), other=-1)
    tl.store(y_ptr + at, tl.load(paid_ptr + found, mask=found >= 0, other=-1), mask=at < n)


@triton.jit
def submanifold(map_ptr, x_ptr, w_ptr, y_ptr, n, width, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """A filter of 27 taps for each channel of a sparse grid; neighbours are listed, or -1."""
    t, c = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    total = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    for k in range(27):
        id = tl.load(map_ptr + k * n + t, mask=t < n, other=-1)
        mask = (id >= 0)[:, None] & (c < width)[None, :]
        x = tl.load(x_ptr + id[:, None] * width + c[None, :], mask=mask, other=0.0).to(tl.float32)
        total += x * tl.load(w_ptr + k * width + c, mask=c < width, other=0.0)[None, :]
    tl.store(y_ptr + t[:, None] * width + c[None, :], total.to(tl.float16),
             mask=(t < n)[:, None] & (c < width)[None, :])  # fmt: skip


@triton.jit
def group_points(id_ptr, x_ptr, middle_ptr, y_ptr, n, count, CHANNELS: tl.constexpr, BLOCK: tl.constexpr):
    """Neighbours of centres by lists, less the centre: channels first."""
    at, b = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1)
    id = tl.load(id_ptr + b * count + at, mask=at < count, other=0)
    for k in tl.static_range(CHANNELS):
        x = tl.load(x_ptr + (b * CHANNELS + k) * n + id, mask=at < count, other=0.0)
        m = tl.load(middle_ptr + (b * CHANNELS + k) * (count // 32) + at // 32, mask=at < count, other=0.0)
        tl.store(y_ptr + (b * CHANNELS + k) * count + at, x - m, mask=at < count)


@triton.jit
def before_suffix(suffix_ptr, text_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """The byte before each suffix, in the order of the suffixes."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    suffix = tl.load(suffix_ptr + at, mask=at < n, other=1)
    place = tl.where(suffix == 0, n - 1, suffix - 1)
    tl.store(y_ptr + at, tl.load(text_ptr + place), mask=at < n)


@triton.jit
def pointer_jump(parent_ptr, y_ptr, n, JUMPS: tl.constexpr, BLOCK: tl.constexpr):
    """The ancestor of each node, so many steps above its parent."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    up = tl.load(parent_ptr + at, mask=at < n, other=0)
    for _ in tl.static_range(JUMPS):
        up = tl.load(parent_ptr + up)
    tl.store(y_ptr + at, up, mask=at < n)


@triton.jit
def equalise_tiles(x_ptr, curve_ptr, y_ptr, high, wide, SIDE: tl.constexpr, BLOCK_R: tl.constexpr,
                   BLOCK_C: tl.constexpr):  # fmt: skip
    """Each grey value by the curves of the four tiles around it, blended."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (r < high) & (c < wide)
    x = tl.load(x_ptr + r * wide + c, mask=mask, other=0).to(tl.int32)
    v, u = (r + 0.5) / high * SIDE - 0.5, (c + 0.5) / wide * SIDE - 0.5
    top, left = tl.floor(v).to(tl.int32), tl.floor(u).to(tl.int32)
    fv, fu = v - top, u - left
    r0, r1 = tl.maximum(top, 0), tl.minimum(top + 1, SIDE - 1)
    c0, c1 = tl.maximum(left, 0), tl.minimum(left + 1, SIDE - 1)
    curve = curve_ptr + x
    a = tl.load(curve + (r0 * SIDE + c0) * 256) * (1 - fu) + tl.load(curve + (r0 * SIDE + c1) * 256) * fu
    b = tl.load(curve + (r1 * SIDE + c0) * 256) * (1 - fu) + tl.load(curve + (r1 * SIDE + c1) * 256) * fu
    tl.store(y_ptr + r * wide + c, (a * (1 - fv) + b * fv).to(tl.uint8), mask=mask)


@triton.jit
def slope(table_ptr, x, y, z, u, v, w):
    hash = tl.load(table_ptr + (tl.load(table_ptr + (tl.load(table_ptr + (x & 255)) + y & 255)) + z & 255)) & 15
    a, b = tl.where(hash < 8, u, v), tl.where(hash < 4, v, tl.where((hash == 12) | (hash == 14), u, w))
    return tl.where(hash & 1 == 0, a, -a) + tl.where(hash & 2 == 0, b, -b)


@triton.jit
def perlin(table_ptr, y_ptr, wide, step, z, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Noise of gradients whose directions a table of 256 whole numbers mixes."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    v, u = r[:, None] * step + c[None, :] * 0.0, c[None, :] * step + r[:, None] * 0.0
    y, x = tl.floor(v).to(tl.int32), tl.floor(u).to(tl.int32)
    v, u, w = v - y, u - x, 0.25
    fu, fv = u * u * u * (u * (u * 6 - 15) + 10), v * v * v * (v * (v * 6 - 15) + 10)
    a = slope(table_ptr, x, y, z, u, v, w)
    b = slope(table_ptr, x + 1, y, z, u - 1, v, w)
    d = slope(table_ptr, x, y + 1, z, u, v - 1, w)
    e = slope(table_ptr, x + 1, y + 1, z, u - 1, v - 1, w)
    low, up = a + fu * (b - a), d + fu * (e - d)
    tl.store(y_ptr + r[:, None] * wide + c[None, :], low + fv * (up - low), mask=(c < wide)[None, :])


@triton.jit
def antidiagonals(x_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Costs of all pairs in the order in which a recurrence of both sequences needs them."""
    d = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    i = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    pair, mask = tl.program_id(2), (d < rows + cols - 1) & (i < rows)
    inside = mask & (i <= d) & (d - i < cols)
    x = tl.load(x_ptr + (pair * rows + i) * cols + d - i, mask=inside, other=0.0)
    tl.store(y_ptr + (pair * (rows + cols - 1) + d) * rows + i, x, mask=mask)


@triton.jit
def bond_angles(atom_ptr, x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Cosines of the angles that triples of atoms make."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    i = tl.load(atom_ptr + at * 3, mask=at < n, other=0)
    j = tl.load(atom_ptr + at * 3 + 1, mask=at < n, other=0)
    k = tl.load(atom_ptr + at * 3 + 2, mask=at < n, other=0)
    dot, left, right = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for axis in tl.static_range(3):
        middle = tl.load(x_ptr + j * 3 + axis)
        a, b = tl.load(x_ptr + i * 3 + axis) - middle, tl.load(x_ptr + k * 3 + axis) - middle
        dot, left, right = dot + a * b, left + a * a, right + b * b
    tl.store(y_ptr + at, dot / tl.sqrt(left * right + 1e-6), mask=at < n)


@triton.jit
def rotate_volume(x_ptr, y_ptr, deep, high, wide, cos, sin, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A volume turned about its second axis: the nearest voxel, none outside."""
    z, r = tl.program_id(2), (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    dz, dc = z - deep * 0.5, c - wide * 0.5
    i = tl.floor(dz * cos - dc * sin + deep * 0.5 + 0.5).to(tl.int32)
    k = tl.floor(dz * sin + dc * cos + wide * 0.5 + 0.5).to(tl.int32)
    inside = (i >= 0) & (i < deep) & (k >= 0) & (k < wide) & (r < high)
    x = tl.load(x_ptr + (i * high + r) * wide + k, mask=inside, other=0)
    tl.store(y_ptr + (z * high + r) * wide + c, x, mask=(r < high) & (c < wide))


@triton.jit
def group_stats(key_ptr, x_ptr, y_ptr, least_ptr, most_ptr, n, BLOCK: tl.constexpr):
    """Sums, least and largest of groups."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + at, mask=at < n, other=0)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    tl.atomic_add(y_ptr + key, x.to(tl.float32), mask=at < n, sem="relaxed")
    tl.atomic_min(least_ptr + key, x, mask=at < n, sem="relaxed")
    tl.atomic_max(most_ptr + key, x, mask=at < n, sem="relaxed")


@triton.jit
def lbp_histogram(x_ptr, y_ptr, high, wide, CELL: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Counts of local binary patterns in each cell of a picture."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None] + 1
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :] + 1
    mask, at = (r < high - 1) & (c < wide - 1), r * wide + c
    own, code = tl.load(x_ptr + at, mask=mask, other=0), tl.zeros((BLOCK_R, BLOCK_C), tl.int32)
    for k in tl.static_range(8):
        way = k + (k >= 4)
        near = tl.load(x_ptr + at + (way // 3 - 1) * wide + way % 3 - 1, mask=mask, other=0)
        code += (near >= own).to(tl.int32) << k
    cell = r // CELL * (wide // CELL + 1) + c // CELL
    tl.atomic_add(y_ptr + cell * 256 + code, 1, mask=mask, sem="relaxed")


@triton.jit
def segment_argmax(part_ptr, x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """The largest of each part with where it is, in one word."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bits = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.int32, bitcast=True)
    order = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    word = (order.to(tl.int64) << 32) | at
    tl.atomic_max(y_ptr + tl.load(part_ptr + at, mask=at < n, other=0), word, mask=at < n, sem="relaxed")


@triton.jit
def bev_splat(u_ptr, v_ptr, x_ptr, y_ptr, n, width, SIDE: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """Features of points are added to the cells of the ground that they stand on."""
    t, c = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    u = tl.load(u_ptr + t, mask=t < n, other=-1.0) * SIDE
    v = tl.load(v_ptr + t, mask=t < n, other=-1.0) * SIDE
    inside = (u >= 0) & (u < SIDE) & (v >= 0) & (v < SIDE)
    cell = v.to(tl.int32) * SIDE + u.to(tl.int32)
    mask = inside[:, None] & (c < width)[None, :]
    x = tl.load(x_ptr + t[:, None] * width + c[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.atomic_add(y_ptr + cell[:, None] * width + c[None, :], x, mask=mask, sem="relaxed")


@triton.jit
def minhash(x_ptr, y_ptr, length, PLACES: tl.constexpr, BLOCK: tl.constexpr):
    """The least of each of several hashes over a document, a part a program."""
    at, doc = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1)
    x = tl.load(x_ptr + doc * length + at, mask=at < length, other=0).to(tl.uint32)
    for k in range(PLACES):
        h = (x ^ (k * 0x1E3779B9).to(tl.uint32)) * 0x85EBCA6B
        h = (h ^ (h >> 13)) * 0xC2B2AE35
        low = tl.min(tl.where(at < length, ((h ^ (h >> 16)) >> 1).to(tl.int32), 0x7FFFFFFF), 0)
        tl.atomic_min(y_ptr + doc * PLACES + k, low - 0x7FFFFFFF, sem="relaxed")


@triton.jit
def charge_cells(x_ptr, charge_ptr, y_ptr, n, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """Charges are shared out to the eight nodes around them."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    q = tl.load(charge_ptr + at, mask=at < n, other=0.0)
    u = tl.load(x_ptr + at, mask=at < n, other=0.0) * (SIDE - 1)
    v = tl.load(x_ptr + n + at, mask=at < n, other=0.0) * (SIDE - 1)
    w = tl.load(x_ptr + 2 * n + at, mask=at < n, other=0.0) * (SIDE - 1)
    i, j, k = u.to(tl.int32), v.to(tl.int32), w.to(tl.int32)
    fu, fv, fw = u - i, v - j, w - k
    for corner in tl.static_range(8):
        a, b, c = corner // 4, corner // 2 % 2, corner % 2
        part = (fu if a else 1 - fu) * (fv if b else 1 - fv) * (fw if c else 1 - fw)
        tl.atomic_add(y_ptr + ((i + a) * SIDE + j + b) * SIDE + k + c, q * part, mask=at < n, sem="relaxed")


@triton.jit
def bfs_push(front_ptr, start_ptr, col_ptr, y_ptr, count_ptr, n, level, BLOCK: tl.constexpr):
    """A frontier's neighbours take its level if they have none that is lower; how many did, one program a node."""
    node = tl.load(front_ptr + tl.program_id(0))
    first, last = tl.load(start_ptr + node), tl.load(start_ptr + node + 1)
    fresh = tl.zeros((BLOCK,), tl.int32)
    for begin in range(first, last, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        to = tl.load(col_ptr + at, mask=at < last, other=0)
        old = tl.atomic_max(y_ptr + to, level, mask=at < last, sem="relaxed")
        fresh += ((old < level) & (at < last)).to(tl.int32)
    tl.atomic_add(count_ptr, tl.sum(fresh, 0), sem="relaxed")


@triton.jit
def ticket_filter(x_ptr, y_ptr, count_ptr, n, limit, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Numbers above a limit, behind one another in a ring in whatever order programs come."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=-1e30)
    kept = (x > limit).to(tl.int32)
    first = tl.atomic_add(count_ptr, tl.sum(kept, 0), sem="relaxed")
    tl.store(y_ptr + (first + tl.cumsum(kept, 0) - 1 & SIZE - 1), x, mask=kept > 0)


@triton.jit
def bias_buckets_grad(g_ptr, y_ptr, n, BUCKETS: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Gradients of attention's bias by distance, each distance up to a limit a bucket."""
    head = tl.program_id(2)
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (r < n) & (c <= r)
    g = tl.load(g_ptr + (head * n + r) * n + c, mask=mask, other=0.0).to(tl.float32)
    tl.atomic_add(y_ptr + head * BUCKETS + tl.minimum(r - c, BUCKETS - 1), g, mask=mask, sem="relaxed")


@triton.jit
def calibration(score_ptr, right_ptr, y_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    """Counts, confidences and hits in bins of confidence."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    p = 1 / (1 + tl.exp(-tl.load(score_ptr + at, mask=at < n, other=0.0)))
    right = tl.load(right_ptr + at, mask=at < n, other=0).to(tl.float32)
    bin = tl.minimum((p * BINS).to(tl.int32), BINS - 1)
    tl.atomic_add(y_ptr + bin * 3, 1.0, mask=at < n, sem="relaxed")
    tl.atomic_add(y_ptr + bin * 3 + 1, p, mask=at < n, sem="relaxed")
    tl.atomic_add(y_ptr + bin * 3 + 2, right, mask=at < n, sem="relaxed")


@triton.jit
def region_props(label_ptr, y_ptr, high, wide, count, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Area and sums of both coordinates of each labelled region; 0 is none."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    label = tl.load(label_ptr + r * wide + c, mask=(r < high) & (c < wide), other=0)
    tl.atomic_add(y_ptr + label, 1, mask=label > 0, sem="relaxed")
    tl.atomic_add(y_ptr + count + label, r + c * 0, mask=label > 0, sem="relaxed")
    tl.atomic_add(y_ptr + 2 * count + label, c + r * 0, mask=label > 0, sem="relaxed")


@triton.jit
def fem_assemble(node_ptr, force_ptr, y_ptr, n, CORNERS: tl.constexpr, BLOCK: tl.constexpr):
    """Forces that elements put on their corners, three components each."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for k in tl.static_range(CORNERS):
        node = tl.load(node_ptr + at * CORNERS + k, mask=at < n, other=0)
        for axis in tl.static_range(3):
            f = tl.load(force_ptr + (k * 3 + axis) * n + at, mask=at < n, other=0.0)
            tl.atomic_add(y_ptr + node * 3 + axis, f, mask=at < n, sem="relaxed")


@triton.jit
def slope_min(x_ptr, y_ptr, length, tilt, REACH: tl.constexpr, BLOCK: tl.constexpr):
    """The least of the neighbours, each dearer the further away it is: a step of a path's recurrence."""
    at, row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1)
    best = tl.full((BLOCK,), 1e30, tl.float32)
    for k in tl.static_range(-REACH, REACH + 1):
        mask = (at + k >= 0) & (at + k < length)
        x = tl.load(x_ptr + row * length + at + k, mask=mask, other=1e30)
        best = tl.minimum(best, x + tilt * (k if k > 0 else -k))
    tl.store(y_ptr + row * length + at, best, mask=at < length)


@triton.jit
def fill_depth(x_ptr, y_ptr, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Depths that are missing become the mean of those that are not, of 25 around."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    total, count = tl.zeros((BLOCK_R, BLOCK_C), tl.int32), tl.zeros((BLOCK_R, BLOCK_C), tl.int32)
    at, plane = r * wide + c, tl.program_id(2) * high * wide
    own = tl.load(x_ptr + plane + at, mask=(r < high) & (c < wide), other=0).to(tl.int32)
    for i in tl.static_range(-2, 3):
        for j in tl.static_range(-2, 3):
            mask = (r + i >= 0) & (r + i < high) & (c + j >= 0) & (c + j < wide)
            x = tl.load(x_ptr + plane + at + i * wide + j, mask=mask, other=0).to(tl.int32)
            total += x
            count += (x > 0).to(tl.int32)
    y = tl.where(own > 0, own, total // tl.maximum(count, 1))
    tl.store(y_ptr + plane + at, y.to(tl.int16), mask=(r < high) & (c < wide))


@triton.jit
def dynamic_conv(x_ptr, w_ptr, y_ptr, n, width, EACH: tl.constexpr, TAPS: tl.constexpr, BLOCK_T: tl.constexpr,
                 BLOCK_C: tl.constexpr):  # fmt: skip
    """A causal filter whose taps each token makes for EACH channels at a time."""
    t, c = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    first, heads = tl.program_id(2) * n, width // EACH
    total, inside = tl.zeros((BLOCK_T, BLOCK_C), tl.float32), (t < n)[:, None] & (c < width)[None, :]
    for k in tl.static_range(TAPS):
        mask = inside & (t >= k)[:, None]
        x = tl.load(x_ptr + (first + t - k)[:, None] * width + c[None, :], mask=mask, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + ((first + t)[:, None] * heads + c[None, :] // EACH) * TAPS + k, mask=inside, other=0.0)
        total += x * w.to(tl.float32)
    tl.store(y_ptr + (first + t)[:, None] * width + c[None, :], total.to(tl.bfloat16), mask=inside)


@triton.jit
def self_similarity(x_ptr, y_ptr, high, wide, CHANNELS: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Products of a pixel's features with those of four neighbours."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None] + 1
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :] + 1
    mask, at, first = (r < high - 1) & (c < wide - 1), r * wide + c, tl.program_id(2) * CHANNELS
    up, left = tl.zeros((BLOCK_R, BLOCK_C), tl.float32), tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    down, right = tl.zeros((BLOCK_R, BLOCK_C), tl.float32), tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for k in range(CHANNELS):
        plane = x_ptr + (first + k) * high * wide + at
        own = tl.load(plane, mask=mask, other=0.0).to(tl.float32)
        up += own * tl.load(plane - wide, mask=mask, other=0.0).to(tl.float32)
        down += own * tl.load(plane + wide, mask=mask, other=0.0).to(tl.float32)
        left += own * tl.load(plane - 1, mask=mask, other=0.0).to(tl.float32)
        right += own * tl.load(plane + 1, mask=mask, other=0.0).to(tl.float32)
    out = y_ptr + tl.program_id(2) * 4 * high * wide + at
    tl.store(out, up, mask=mask)
    tl.store(out + high * wide, down, mask=mask)
    tl.store(out + 2 * high * wide, left, mask=mask)
    tl.store(out + 3 * high * wide, right, mask=mask)


@triton.jit
def rolling_correlation(a_ptr, b_ptr, y_ptr, length, SPAN: tl.constexpr, BLOCK: tl.constexpr):
    """The correlation of two series over the last SPAN steps."""
    at, row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * length
    sa, sb, aa = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    bb, ab = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    mask = (at >= SPAN - 1) & (at < length)
    for k in tl.static_range(SPAN):
        a = tl.load(a_ptr + row + at - k, mask=mask, other=0.0)
        b = tl.load(b_ptr + row + at - k, mask=mask, other=0.0)
        sa, sb, aa, bb, ab = sa + a, sb + b, aa + a * a, bb + b * b, ab + a * b
    top, under = ab - sa * sb / SPAN, (aa - sa * sa / SPAN) * (bb - sb * sb / SPAN)
    tl.store(y_ptr + row + at, top / tl.sqrt(tl.maximum(under, 1e-8)), mask=mask)


@triton.jit
def eikonal(x_ptr, cost_ptr, y_ptr, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A sweep of arrival times: each from the earlier of both neighbours along both axes."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask, at = (r < high) & (c < wide), r * wide + c
    f = tl.load(cost_ptr + at, mask=mask, other=1.0)
    own = tl.load(x_ptr + at, mask=mask, other=1e9)
    a = tl.minimum(tl.load(x_ptr + at - wide, mask=mask & (r > 0), other=1e9),
                   tl.load(x_ptr + at + wide, mask=mask & (r < high - 1), other=1e9))  # fmt: skip
    b = tl.minimum(tl.load(x_ptr + at - 1, mask=mask & (c > 0), other=1e9),
                   tl.load(x_ptr + at + 1, mask=mask & (c < wide - 1), other=1e9))  # fmt: skip
    d = tl.abs(a - b)
    y = tl.where(d >= f, tl.minimum(a, b) + f, 0.5 * (a + b + tl.sqrt(tl.maximum(2 * f * f - d * d, 0.0))))
    tl.store(y_ptr + at, tl.minimum(own, y), mask=mask)


@triton.jit
def peaks_3d(x_ptr, y_ptr, deep, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Voxels that none of their 26 neighbours surpasses; the others become zero."""
    z, plane = tl.program_id(2) % deep, tl.program_id(2) * high * wide
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask, at = (r < high) & (c < wide), plane + r * wide + c
    own = tl.load(x_ptr + at, mask=mask, other=0.0)
    best = own
    for i in tl.static_range(-1, 2):
        for j in tl.static_range(-1, 2):
            for k in tl.static_range(-1, 2):
                inside = (z + i >= 0) & (z + i < deep) & (r + j >= 0) & (r + j < high) & (c + k >= 0) & (c + k < wide)
                best = tl.maximum(best, tl.load(x_ptr + at + (i * high + j) * wide + k, mask=inside, other=-60000.0))
    tl.store(y_ptr + at, tl.where(own == best, own, 0.0), mask=mask)


@triton.jit
def convex_up(x_ptr, w_ptr, y_ptr, high, wide, SCALE: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Flow made SCALE times finer: each fine pixel a softmax over the nine coarse ones around it."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask, i, j = (r < high * SCALE) & (c < wide * SCALE), r // SCALE, c // SCALE
    fine = r % SCALE * SCALE + c % SCALE
    first = tl.program_id(2)
    u, v = tl.zeros((BLOCK_R, BLOCK_C), tl.float32), tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    total = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for k in tl.static_range(9):
        near = mask & (i + k // 3 >= 1) & (i + k // 3 <= high) & (j + k % 3 >= 1) & (j + k % 3 <= wide)
        at = (i + k // 3 - 1) * wide + j + k % 3 - 1
        w = tl.load(w_ptr + ((first * 9 + k) * SCALE * SCALE + fine) * high * wide + i * wide + j, mask=mask, other=0.0)
        w = tl.exp(w.to(tl.float32))
        total += w
        u += w * tl.load(x_ptr + first * 2 * high * wide + at, mask=near, other=0.0)
        v += w * tl.load(x_ptr + (first * 2 + 1) * high * wide + at, mask=near, other=0.0)
    out = first * 2 * high * wide * SCALE * SCALE + r * wide * SCALE + c
    tl.store(y_ptr + out, u / total, mask=mask)
    tl.store(y_ptr + out + high * wide * SCALE * SCALE, v / total, mask=mask)
