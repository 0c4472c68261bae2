"""Short Triton kernels of volumes, pictures, particles, events, graphs, bags, trees, rays: a thirteenth zoo."""

import triton
import triton.language as tl


@triton.jit
def laplace_13(x_ptr, y_ptr, deep, high, wide, BLOCK_Z: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """The Laplacian of a volume by differences of fourth order, zero around it; a block has three axes."""
    z = (tl.program_id(2) * BLOCK_Z + tl.arange(0, BLOCK_Z))[:, None, None]
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[None, :, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, None, :]
    mask = (z < deep) & (r < high) & (c < wide)
    at = (z * high + r) * wide + c
    total = -7.5 * tl.load(x_ptr + at, mask=mask, other=0.0)
    for k in tl.static_range(-2, 3):
        if k != 0:
            weight = 4 / 3 if k * k == 1 else -1 / 12
            x = tl.load(x_ptr + at + k, mask=mask & (c + k >= 0) & (c + k < wide), other=0.0)
            x += tl.load(x_ptr + at + k * wide, mask=mask & (r + k >= 0) & (r + k < high), other=0.0)
            x += tl.load(x_ptr + at + k * wide * high, mask=mask & (z + k >= 0) & (z + k < deep), other=0.0)
            total += weight * x
    tl.store(y_ptr + at, total, mask=mask)


@triton.jit
def non_local_means(x_ptr, y_ptr, high, wide, reach, strength, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Means of the pixels around, weighted by how alike their 3 x 3 patches are; x is padded by reach + 1."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (r < high) & (c < wide)
    row = wide + 2 * reach + 2
    here = x_ptr + (r + reach + 1) * row + c + reach + 1
    total = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    weights = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for i in range(-reach, reach + 1):
        for j in range(-reach, reach + 1):
            there = here + i * row + j
            apart = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
            for a in tl.static_range(-1, 2):
                for b in tl.static_range(-1, 2):
                    d = tl.load(here + a * row + b, mask=mask, other=0.0)
                    d -= tl.load(there + a * row + b, mask=mask, other=0.0)
                    apart += d * d
            weight = tl.exp(-apart * strength)
            total += weight * tl.load(there, mask=mask, other=0.0)
            weights += weight
    tl.store(y_ptr + r * wide + c, total / weights, mask=mask)


@triton.jit
def _least(x_ptr, r, c, high, wide):
    """The least of a pixel and the four beside it; 0 outside of the picture."""
    inside = (r >= 0) & (r < high) & (c >= 0) & (c < wide)
    p = x_ptr + r * wide + c
    least = tl.load(p, mask=inside, other=0)
    least = tl.minimum(least, tl.load(p - 1, mask=inside & (c > 0), other=255))
    least = tl.minimum(least, tl.load(p + 1, mask=inside & (c < wide - 1), other=255))
    least = tl.minimum(least, tl.load(p - wide, mask=inside & (r > 0), other=255))
    return tl.minimum(least, tl.load(p + wide, mask=inside & (r < high - 1), other=255))


@triton.jit
def opening(x_ptr, y_ptr, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A picture eroded, then dilated, by a cross, in one pass."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    most = _least(x_ptr, r, c, high, wide)
    most = tl.maximum(most, _least(x_ptr, r, c - 1, high, wide))
    most = tl.maximum(most, _least(x_ptr, r, c + 1, high, wide))
    most = tl.maximum(most, _least(x_ptr, r - 1, c, high, wide))
    most = tl.maximum(most, _least(x_ptr, r + 1, c, high, wide))
    tl.store(y_ptr + r * wide + c, most, mask=(r < high) & (c < wide))


@triton.jit
def resize_by_table(x_ptr, top_ptr, down_ptr, left_ptr, across_ptr, y_ptr, high, wide, out_high, out_wide,
                    TAPS: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """Planes of another size: of each row and column of the result, where its taps begin and their weights."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (r < out_high)[:, None] & (c < out_wide)[None, :]
    top = tl.load(top_ptr + r, mask=r < out_high, other=0)[:, None]
    left = tl.load(left_ptr + c, mask=c < out_wide, other=0)[None, :]
    plane = tl.program_id(2)
    p = x_ptr + plane * high * wide + top * wide + left
    total = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for i in range(TAPS):
        part = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
        for j in tl.static_range(TAPS):
            across = tl.load(across_ptr + c * TAPS + j, mask=c < out_wide, other=0.0)
            part += across[None, :] * tl.load(p + i * wide + j, mask=mask, other=0.0)
        total += tl.load(down_ptr + r * TAPS + i, mask=r < out_high, other=0.0)[:, None] * part
    tl.store(y_ptr + plane * out_high * out_wide + r[:, None] * out_wide + c[None, :], total, mask=mask)


@triton.jit
def deposit(place_ptr, mass_ptr, y_ptr, n, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """The mass of particles [axis, particle], shared out to the eight cells around each; the box is periodic."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(place_ptr + at, mask=mask, other=0.0)
    y = tl.load(place_ptr + n + at, mask=mask, other=0.0)
    z = tl.load(place_ptr + 2 * n + at, mask=mask, other=0.0)
    mass = tl.load(mass_ptr + at, mask=mask, other=0.0)
    i, j, k = x.to(tl.int32), y.to(tl.int32), z.to(tl.int32)
    x, y, z = x - i, y - j, z - k
    for a in tl.static_range(2):
        for b in tl.static_range(2):
            for d in tl.static_range(2):
                share = (x if a else 1 - x) * (y if b else 1 - y) * (z if d else 1 - z)
                cell = ((i + a) % SIDE * SIDE + (j + b) % SIDE) * SIDE + (k + d) % SIDE
                tl.atomic_add(y_ptr + cell, share * mass, mask=mask, sem="relaxed")


@triton.jit
def newest(key_ptr, time_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Of each key the newest event: its time, then its number, in one word of 64 bits."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    key = tl.load(key_ptr + at, mask=mask, other=0)
    event = (tl.load(time_ptr + at, mask=mask, other=0).to(tl.int64) << 32) + at
    tl.atomic_max(y_ptr + key, event, mask=mask, sem="relaxed")


@triton.jit
def hook(from_ptr, to_ptr, root_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Edges between two components hang the component of the lower number on the highest beside it."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    a = tl.load(root_ptr + tl.load(from_ptr + at, mask=mask, other=0), mask=mask, other=0)
    b = tl.load(root_ptr + tl.load(to_ptr + at, mask=mask, other=0), mask=mask, other=0)
    tl.atomic_max(y_ptr + tl.minimum(a, b), tl.maximum(a, b), mask=mask & (a != b), sem="relaxed")


@triton.jit
def expert_down(x_ptr, w_ptr, token_ptr, expert_ptr, gate_ptr, y_ptr, tokens, width, INNER: tl.constexpr,
                BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """The second product of experts, weighted, added to the tokens that chose them; an expert has whole 128 slots."""
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    expert = tl.load(expert_ptr + tl.program_id(1) * BLOCK_M // 128)
    x = x_ptr + m[:, None] * INNER + k[None, :]
    w = w_ptr + expert * INNER * width + k[:, None] * width + n[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(INNER // BLOCK_K):
        total = tl.dot(tl.load(x), tl.load(w, mask=n[None, :] < width, other=0.0), total)
        x += BLOCK_K
        w += BLOCK_K * width
    token = tl.load(token_ptr + m)
    total *= tl.load(gate_ptr + m)[:, None]
    mask = (token < tokens)[:, None] & (n < width)[None, :]
    tl.atomic_add(y_ptr + token[:, None] * width + n[None, :], total, mask=mask, sem="relaxed")


@triton.jit
def quantised_bags(start_ptr, id_ptr, table_ptr, scale_ptr, y_ptr, WIDTH: tl.constexpr, BLOCK_T: tl.constexpr):
    """Sums of rows of a table of bytes with a scale a row, over bags of any length."""
    bag = tl.program_id(0)
    c = tl.arange(0, WIDTH)
    end = tl.load(start_ptr + bag + 1)
    total = tl.zeros((BLOCK_T, WIDTH), tl.float32)
    for first in range(tl.load(start_ptr + bag), end, BLOCK_T):
        t = first + tl.arange(0, BLOCK_T)
        row = tl.load(id_ptr + t, mask=t < end, other=0).to(tl.int64)
        scale = tl.load(scale_ptr + row, mask=t < end, other=0.0)
        q = tl.load(table_ptr + row[:, None] * WIDTH + c[None, :], mask=(t < end)[:, None], other=0)
        total += q.to(tl.float32) * scale[:, None]
    tl.store(y_ptr + bag * WIDTH + c, tl.sum(total, 0))


@triton.jit
def chosen_attention(q_ptr, x_ptr, chosen_ptr, y_ptr, scale, COUNT: tl.constexpr, HEADS: tl.constexpr,
                     WIDTH: tl.constexpr, BLOCK_N: tl.constexpr):  # fmt: skip
    """Attention of a token's heads to the rows that were chosen for it, which are keys and values at once."""
    token = tl.program_id(0)
    h, c = tl.arange(0, HEADS)[:, None], tl.arange(0, WIDTH)[None, :]
    q = tl.load(q_ptr + (token * HEADS + h) * WIDTH + c)
    most = tl.full((HEADS,), float("-inf"), tl.float32)
    weight = tl.zeros((HEADS,), tl.float32)
    total = tl.zeros((HEADS, WIDTH), tl.float32)
    for first in range(0, COUNT, BLOCK_N):
        row = tl.load(chosen_ptr + token * COUNT + first + tl.arange(0, BLOCK_N))
        x = tl.load(x_ptr + row[:, None] * WIDTH + c)
        s = tl.dot(q, tl.trans(x)) * (scale * 1.4426950408889634)
        now = tl.maximum(most, tl.max(s, 1))
        p, fade = tl.exp2(s - now[:, None]), tl.exp2(most - now)
        weight = weight * fade + tl.sum(p, 1)
        total = tl.dot(p.to(x.dtype), x, total * fade[:, None])
        most = now
    tl.store(y_ptr + (token * HEADS + h) * WIDTH + c, (total / weight[:, None]).to(y_ptr.dtype.element_ty))


@triton.jit
def forest(x_ptr, feature_ptr, limit_ptr, leaf_ptr, y_ptr, n, trees, FEATURES: tl.constexpr, DEPTH: tl.constexpr,
           BLOCK: tl.constexpr):  # fmt: skip
    """Sums of the leaves where rows end in each of many trees of full depth."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    total = tl.zeros((BLOCK,), tl.float32)
    for tree in range(trees):
        node = tl.zeros((BLOCK,), tl.int32)
        for _ in tl.static_range(DEPTH):
            place = tree * ((1 << DEPTH) - 1) + node
            x = tl.load(x_ptr + at * FEATURES + tl.load(feature_ptr + place), mask=mask, other=0.0)
            node = 2 * node + 1 + (x > tl.load(limit_ptr + place)).to(tl.int32)
        total += tl.load(leaf_ptr + (tree << DEPTH) + node - ((1 << DEPTH) - 1))
    tl.store(y_ptr + at, total, mask=mask)


@triton.jit
def backproject(x_ptr, cos_ptr, sin_ptr, y_ptr, side, angles, detectors, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A slice from its projections [angle, detector]: between two neighbours of where each ray through a pixel ends."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    v, u = r - 0.5 * side, c - 0.5 * side
    total = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for angle in range(angles):
        t = u * tl.load(cos_ptr + angle) + v * tl.load(sin_ptr + angle) + 0.5 * detectors
        left = tl.floor(t).to(tl.int32)
        part = t - left
        p = x_ptr + angle * detectors + left
        a = tl.load(p, mask=(left >= 0) & (left < detectors), other=0.0)
        b = tl.load(p + 1, mask=(left >= -1) & (left < detectors - 1), other=0.0)
        total += a + part * (b - a)
    tl.store(y_ptr + r * side + c, total / angles, mask=(r < side) & (c < side))
