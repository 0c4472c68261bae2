"""Triton kernels of ranks, curves, swizzles, scales, crops, codes, densities, norms, hashes, films and fields: a
twenty-first zoo."""

import triton
import triton.language as tl


@triton.jit
def rank_values(rank_ptr, value_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Numbers of a column become those of their ranks in another."""
    at, col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1)
    rank = tl.load(rank_ptr + col * n + at, mask=at < n, other=0)
    tl.store(y_ptr + col * n + at, tl.load(value_ptr + rank), mask=at < n)


@triton.jit
def from_hilbert(x_ptr, y_ptr, BITS: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A picture whose pixels lie along Hilbert's curve, in rows."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    u, v = c + r * 0, r + c * 0
    along = tl.zeros((BLOCK_R, BLOCK_C), tl.int32)
    for down in tl.static_range(BITS):
        bit = BITS - 1 - down
        a, b = (u >> bit) & 1, (v >> bit) & 1
        along = along * 4 + ((3 * a) ^ b)
        last = (1 << bit) - 1
        u, v = tl.where((b == 0) & (a == 1), last - (u & last), u & last), tl.where(
            (b == 0) & (a == 1), last - (v & last), v & last)  # fmt: skip
        u, v = tl.where(b == 0, v, u), tl.where(b == 0, u, v)
    tl.store(y_ptr + (r << BITS) + c, tl.load(x_ptr + along))


@triton.jit
def unswizzle(x_ptr, y_ptr, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Tiles of 8 by 64 whose rows have their eighths turned around, in rows."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    tile = (r // 8 * (cols // 64) + c // 64) * 512
    x = tl.load(x_ptr + tile + r % 8 * 64 + ((c // 8 % 8) ^ (r % 8)) * 8 + c % 8)
    tl.store(y_ptr + r * cols + c, x)


@triton.jit
def scale_blocks(q_ptr, scale_ptr, y_ptr, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Bytes by the scales of their sixteens, which lie as a tensor core reads them: 32 by 4 by 4."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    k = c // 16
    at = (r // 128 * (cols // 64) + k // 4) * 512 + r % 32 * 16 + r // 32 % 4 * 4 + k % 4
    scale = tl.load(scale_ptr + at).to(tl.float32)
    tl.store(y_ptr + r * cols + c, (tl.load(q_ptr + r * cols + c).to(tl.float32) * scale).to(tl.float16))


@triton.jit
def random_crops(x_ptr, top_ptr, left_ptr, turned_ptr, y_ptr, high, wide, out_high, out_wide, BLOCK: tl.constexpr):
    """A part of each picture, some of them from right to left."""
    at, plane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1)
    top, left = tl.load(top_ptr + plane // 3), tl.load(left_ptr + plane // 3)
    r, c = at // out_wide, at % out_wide
    c = left + tl.where(tl.load(turned_ptr + plane // 3) > 0, out_wide - 1 - c, c)
    mask = at < out_high * out_wide
    x = tl.load(x_ptr + (plane * high + top + r) * wide + c, mask=mask, other=0).to(tl.float32)
    tl.store(y_ptr + plane * out_high * out_wide + at, (x * (1 / 255)).to(tl.float16), mask=mask)


@triton.jit
def take_long(id_ptr, x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Numbers of eight bytes by indices of eight bytes; none where these are below zero."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    id = tl.load(id_ptr + at, mask=at < n, other=-1)
    tl.store(y_ptr + at, tl.load(x_ptr + id, mask=id >= 0, other=0), mask=at < n)


@triton.jit
def unpack_codes(word_ptr, entry_ptr, y_ptr, n, BITS: tl.constexpr, BLOCK: tl.constexpr):
    """Codes of BITS bits, packed without gaps, and their entries in a dictionary."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    word, shift = at * BITS // 32, at * BITS % 32
    low = tl.load(word_ptr + word, mask=at < n, other=0).to(tl.uint32)
    high = tl.load(word_ptr + word + 1, mask=at < n, other=0).to(tl.uint32)
    both = (high.to(tl.uint64) << 32) | low.to(tl.uint64)
    code = ((both >> shift.to(tl.uint64)) & ((1 << BITS) - 1)).to(tl.int32)
    tl.store(y_ptr + at, tl.load(entry_ptr + code), mask=at < n)


@triton.jit
def shift_rows(x_ptr, y_ptr, n, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Scores by distance become those of pairs: each row is shifted one further."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask, head = (r < n) & (c < n), tl.program_id(2)
    x = tl.load(x_ptr + (head * n + r) * (2 * n - 1) + n - 1 + c - r, mask=mask)
    tl.store(y_ptr + (head * n + r) * n + c, x, mask=mask)


@triton.jit
def density_map(u_ptr, v_ptr, y_ptr, n, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """How many points are in each cell of a square; those outside are not counted."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    u, v = tl.load(u_ptr + at, mask=at < n, other=-1.0) * SIDE, tl.load(v_ptr + at, mask=at < n, other=-1.0) * SIDE
    inside = (u >= 0) & (u < SIDE) & (v >= 0) & (v < SIDE)
    tl.atomic_add(y_ptr + u.to(tl.int32) * SIDE + v.to(tl.int32), 1, mask=inside, sem="relaxed")


@triton.jit
def frames_add(frame_ptr, w_ptr, y_ptr, frames, samples, HOP: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Frames under a window, each added to a signal where it lies."""
    batch, frame = tl.program_id(1) // frames, tl.program_id(1) % frames
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(frame_ptr + tl.program_id(1) * SIZE + at, mask=at < SIZE, other=0.0)
    w = tl.load(w_ptr + at, mask=at < SIZE, other=0.0)
    tl.atomic_add(y_ptr + batch * samples + frame * HOP + at, x * w, mask=at < SIZE, sem="relaxed")


@triton.jit
def tensor_norms(x_ptr, tensor_ptr, y_ptr, n, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of squares of many tensors that lie one behind another, a chunk a program."""
    chunk, total = tl.program_id(0), tl.zeros((BLOCK,), tl.float32)
    for first in range(0, CHUNK, BLOCK):
        at = chunk * CHUNK + first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
        total += x * x
    tl.atomic_add(y_ptr + tl.load(tensor_ptr + chunk), tl.sum(total, 0), sem="relaxed")


@triton.jit
def hashed_sums(key_ptr, x_ptr, y_ptr, n, BITS: tl.constexpr, BLOCK: tl.constexpr):
    """Sums by the first bits of the key's hash."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + at, mask=at < n, other=0).to(tl.uint32)
    key = (key ^ (key >> 16)) * 0x45D9F3B
    slot = ((key ^ (key >> 16)) * 0x45D9F3B >> (32 - BITS)).to(tl.int32)
    tl.atomic_add(y_ptr + slot, tl.load(x_ptr + at, mask=at < n, other=0.0), mask=at < n, sem="relaxed")


@triton.jit
def film_means(x_ptr, y_ptr, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Means of a pixel's neighbours in three frames that differ little from it."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None] + 1
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :] + 1
    frame, mask = tl.program_id(2) + 1, (r < high - 1) & (c < wide - 1)
    at = (frame * high + r) * wide + c
    own = tl.load(x_ptr + at, mask=mask, other=0).to(tl.int32)
    total, count = tl.zeros((BLOCK_R, BLOCK_C), tl.int32), tl.zeros((BLOCK_R, BLOCK_C), tl.int32)
    for t in tl.static_range(-1, 2):
        for i in tl.static_range(-1, 2):
            for j in tl.static_range(-1, 2):
                x = tl.load(x_ptr + at + (t * high + i) * wide + j, mask=mask, other=0).to(tl.int32)
                near = tl.abs(x - own) < 24
                total += tl.where(near, x, 0)
                count += near.to(tl.int32)
    tl.store(y_ptr + at, (total // tl.maximum(count, 1)).to(tl.uint8), mask=mask)


@triton.jit
def halve_sequence(x_ptr, w_ptr, y_ptr, n, width, TAPS: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """A filter for each channel at every other place of sequences, channels last."""
    o = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    first, total = tl.program_id(2) * n, tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    for k in tl.static_range(TAPS):
        t = 2 * o + k - TAPS // 2
        mask = ((t >= 0) & (t < n))[:, None] & (c < width)[None, :]
        x = tl.load(x_ptr + (first + t)[:, None] * width + c[None, :], mask=mask, other=0.0).to(tl.float32)
        total += x * tl.load(w_ptr + k * width + c, mask=c < width, other=0.0)[None, :]
    at = (tl.program_id(2) * (n // 2) + o)[:, None] * width + c[None, :]
    tl.store(y_ptr + at, total.to(y_ptr.dtype.element_ty), mask=(o < n // 2)[:, None] & (c < width)[None, :])


@triton.jit
def shrink_labels(x_ptr, y_ptr, deep, high, wide, BLOCK: tl.constexpr):
    """A voxel keeps its label where all 27 around it have the same."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    i, j, k = at // (high * wide), at // wide % high, at % wide
    inside = (i > 0) & (i < deep - 1) & (j > 0) & (j < high - 1) & (k > 0) & (k < wide - 1)
    own = tl.load(x_ptr + at, mask=inside, other=0)
    alike = inside
    for way in tl.static_range(27):
        away = ((way // 9 - 1) * high + way // 3 % 3 - 1) * wide + way % 3 - 1
        alike &= tl.load(x_ptr + at + away, mask=inside, other=0) == own
    tl.store(y_ptr + at, tl.where(alike, own, 0).to(tl.uint8), mask=at < deep * high * wide)


@triton.jit
def curl(x_ptr, y_ptr, deep, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """How a field of three components turns, by central differences; edges stay as they are."""
    z = tl.program_id(2) + 1
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None] + 1
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :] + 1
    mask, at, size = (r < high - 1) & (c < wide - 1), (z * high + r) * wide + c, deep * high * wide
    for k in tl.static_range(3):
        a, b = (k + 1) % 3, (k + 2) % 3
        along_a = high * wide if a == 0 else (wide if a == 1 else 1)
        along_b = high * wide if b == 0 else (wide if b == 1 else 1)
        d = tl.load(x_ptr + b * size + at + along_a, mask=mask, other=0.0)
        d -= tl.load(x_ptr + b * size + at - along_a, mask=mask, other=0.0)
        d -= tl.load(x_ptr + a * size + at + along_b, mask=mask, other=0.0)
        d += tl.load(x_ptr + a * size + at - along_b, mask=mask, other=0.0)
        tl.store(y_ptr + k * size + at, 0.5 * d, mask=mask)
