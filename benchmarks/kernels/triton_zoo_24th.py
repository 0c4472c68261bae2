"""Triton kernels of pitch, spectra, terrain, video, seismics, molecules, splats, events, tracks, pages, pulsars,
graphs, textures, grains, ranges, inverses, fast weights, block scales, colours, four bits and paths: a twenty-fourth
zoo."""

import triton
import triton.language as tl


@triton.jit
def yin_difference(x_ptr, y_ptr, length, frames, lags, HOP: tl.constexpr, WINDOW: tl.constexpr, BLOCK_L: tl.constexpr,
                   BLOCK_W: tl.constexpr):  # fmt: skip
    """How far each frame of a sound is from itself some samples later."""
    lag, frame = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L), tl.program_id(1)
    first, total = x_ptr + tl.program_id(2) * length + frame * HOP, tl.zeros((BLOCK_L,), tl.float32)
    for w0 in range(0, WINDOW, BLOCK_W):
        w = w0 + tl.arange(0, BLOCK_W)
        d = tl.load(first + w)[None, :] - tl.load(first + w[None, :] + lag[:, None], mask=(lag < lags)[:, None])
        total += tl.sum(d * d, 1)
    tl.store(y_ptr + (tl.program_id(2) * frames + frame) * lags + lag, total, mask=lag < lags)


@triton.jit
def power_spectra(x_ptr, window_ptr, cos_ptr, sin_ptr, y_ptr, length, frames, bins, HOP: tl.constexpr,
                  WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                  BLOCK_K: tl.constexpr):  # fmt: skip
    """Power of overlapping frames by a table of cosines and one of sines."""
    m, n = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M), tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    sound = x_ptr + tl.program_id(2) * length
    re, im = tl.zeros((BLOCK_M, BLOCK_N), tl.float32), tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k0 in range(0, WIDTH, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        x = tl.load(sound + m[:, None] * HOP + k[None, :], mask=m[:, None] < frames, other=0.0)
        x *= tl.load(window_ptr + k)[None, :]
        at = k[:, None] * bins + n[None, :]
        re = tl.dot(x, tl.load(cos_ptr + at, mask=n[None, :] < bins, other=0.0), re)
        im = tl.dot(x, tl.load(sin_ptr + at, mask=n[None, :] < bins, other=0.0), im)
    at = (tl.program_id(2) * frames + m[:, None]) * bins + n[None, :]
    tl.store(y_ptr + at, re * re + im * im, mask=(m[:, None] < frames) & (n[None, :] < bins))


@triton.jit
def snake_between(x_ptr, up_ptr, down_ptr, a_ptr, y_ptr, length, channels, BLOCK: tl.constexpr):
    """x + sin^2(a x) / a at twice the rate: twelve taps up, twelve down."""
    t, row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1)
    a, total = tl.load(a_ptr + row % channels), tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(12):
        u = tl.zeros((BLOCK,), tl.float32)
        for j in tl.static_range(6):
            at = t + (k + 1) // 2 - 5 + j
            x = tl.load(x_ptr + row * length + at, mask=(at >= 0) & (at < length), other=0.0)
            u += x.to(tl.float32) * tl.load(up_ptr + 2 * j + (k + 1) % 2)
        s = tl.sin(a * u)
        total += (u + s * s / a) * tl.load(down_ptr + k)
    tl.store(y_ptr + row * length + t, total, mask=t < length)


@triton.jit
def deblock(x_ptr, y_ptr, high, wide, alpha, beta, most, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Edges between the blocks of eight columns of a video, smoothed where they are faint."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    row = (tl.program_id(2) * high + r) * wide
    mask = (r < high) & (c < wide)
    edge = (c + 4) // 8 * 8
    inside = mask & (edge > 0) & (edge + 1 < wide)
    p1 = tl.load(x_ptr + row + edge - 2, mask=inside, other=0).to(tl.int32)
    p0 = tl.load(x_ptr + row + edge - 1, mask=inside, other=0).to(tl.int32)
    q0 = tl.load(x_ptr + row + edge, mask=inside, other=0).to(tl.int32)
    q1 = tl.load(x_ptr + row + edge + 1, mask=inside, other=0).to(tl.int32)
    x = tl.load(x_ptr + row + c, mask=mask, other=0).to(tl.int32)
    faint = inside & (tl.abs(p0 - q0) < alpha) & (tl.abs(p1 - p0) < beta) & (tl.abs(q1 - q0) < beta)
    d = tl.minimum(tl.maximum(((q0 - p0) * 4 + p1 - q1 + 4) >> 3, -most), most)
    y = tl.where(c == edge - 1, p0 + d, tl.where(c == edge, q0 - d, x))
    y = tl.minimum(tl.maximum(tl.where(faint, y, x), 0), 255)
    tl.store(y_ptr + row + c, y.to(tl.uint8), mask=mask)


@triton.jit
def flow_direction(x_ptr, y_ptr, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Which of its eight neighbours water runs to from each place of a terrain; 0 where it stays."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (r < high) & (c < wide)
    x = tl.load(x_ptr + r * wide + c, mask=mask, other=0.0)
    steepest, way = tl.zeros((BLOCK_R, BLOCK_C), tl.float32), tl.zeros((BLOCK_R, BLOCK_C), tl.int32)
    for k in tl.static_range(9):
        i, j = k // 3 - 1, k % 3 - 1
        if k != 4:
            there = mask & (r + i >= 0) & (r + i < high) & (c + j >= 0) & (c + j < wide)
            drop = x - tl.load(x_ptr + (r + i) * wide + c + j, mask=there, other=1e9)
            if i * j != 0:
                drop *= 0.70710678
            way = tl.where(drop > steepest, k + 1, way)
            steepest = tl.maximum(drop, steepest)
    tl.store(y_ptr + r * wide + c, way.to(tl.uint8), mask=mask)


@triton.jit
def semblance(x_ptr, y_ptr, samples, dips, TRACES: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_T: tl.constexpr):
    """How much the traces of a panel are alike along lines of each dip."""
    d, t = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D), tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    panel = tl.program_id(2)
    total, squares = tl.zeros((BLOCK_D, BLOCK_T), tl.float32), tl.zeros((BLOCK_D, BLOCK_T), tl.float32)
    for k in range(TRACES):
        at = t[None, :] + ((d - dips // 2) * (k - TRACES // 2) >> 2)[:, None]
        x = tl.load(x_ptr + (panel * TRACES + k) * samples + at, mask=(at >= 0) & (at < samples), other=0.0)
        total += x
        squares += x * x
    y = total * total / (TRACES * squares + 1e-6)
    tl.store(y_ptr + (panel * dips + d[:, None]) * samples + t[None, :], y,
             mask=(d < dips)[:, None] & (t < samples)[None, :])  # fmt: skip


@triton.jit
def corner(x_ptr, id, mask):
    x = tl.load(x_ptr + 3 * id, mask=mask, other=0.0)
    return x, tl.load(x_ptr + 3 * id + 1, mask=mask, other=0.0), tl.load(x_ptr + 3 * id + 2, mask=mask, other=0.0)


@triton.jit
def added(y_ptr, id, x, y, z, mask):
    tl.atomic_add(y_ptr + 3 * id, x, mask=mask, sem="relaxed")
    tl.atomic_add(y_ptr + 3 * id + 1, y, mask=mask, sem="relaxed")
    tl.atomic_add(y_ptr + 3 * id + 2, z, mask=mask, sem="relaxed")


@triton.jit
def dihedral_forces(atom_ptr, x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Forces of torsions on the four atoms of each."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    i, j = tl.load(atom_ptr + 4 * at, mask=mask, other=0), tl.load(atom_ptr + 4 * at + 1, mask=mask, other=0)
    k, o = tl.load(atom_ptr + 4 * at + 2, mask=mask, other=0), tl.load(atom_ptr + 4 * at + 3, mask=mask, other=0)
    ix, iy, iz = corner(x_ptr, i, mask)
    jx, jy, jz = corner(x_ptr, j, mask)
    kx, ky, kz = corner(x_ptr, k, mask)
    ox, oy, oz = corner(x_ptr, o, mask)
    ax, ay, az, bx, by, bz = jx - ix, jy - iy, jz - iz, kx - jx, ky - jy, kz - jz
    cx, cy, cz = ox - kx, oy - ky, oz - kz
    mx, my, mz = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
    nx, ny, nz = by * cz - bz * cy, bz * cx - bx * cz, bx * cy - by * cx
    mm, nn = mx * mx + my * my + mz * mz + 0.05, nx * nx + ny * ny + nz * nz + 0.05
    bb = bx * bx + by * by + bz * bz + 0.05
    pull = (1.0 - (mx * nx + my * ny + mz * nz) * tl.rsqrt(mm * nn)) * tl.sqrt(bb)
    f, g = -pull / mm, pull / nn
    fx, fy, fz, gx, gy, gz = f * mx, f * my, f * mz, g * nx, g * ny, g * nz
    s, t = (ax * bx + ay * by + az * bz) / bb - 1.0, (cx * bx + cy * by + cz * bz) / bb
    hx, hy, hz = s * fx - t * gx, s * fy - t * gy, s * fz - t * gz
    added(y_ptr, i, fx, fy, fz, mask)
    added(y_ptr, j, hx, hy, hz, mask)
    added(y_ptr, k, -fx - gx - hx, -fy - gy - hy, -fz - gz - hz, mask)
    added(y_ptr, o, gx, gy, gz, mask)


@triton.jit
def splat_gradient(start_ptr, id_ptr, splat_ptr, grad_ptr, y_ptr, wide, BLOCK_R: tl.constexpr):
    """What the pixels of a tile of 16 by 16 ask of the Gaussians that are listed for it."""
    tile, r0 = tl.program_id(0), tl.program_id(1) * BLOCK_R
    r = (tile // wide * 16 + r0 + tl.arange(0, BLOCK_R))[:, None]
    c = (tile % wide * 16 + tl.arange(0, 16))[None, :]
    ask = tl.load(grad_ptr + r * (wide * 16) + c)
    for n in range(tl.load(start_ptr + tile), tl.load(start_ptr + tile + 1)):
        id = tl.load(id_ptr + n)
        splat = splat_ptr + 8 * id
        dx, dy = c * 0.01 - tl.load(splat), r * 0.01 - tl.load(splat + 1)
        a, b, d = tl.load(splat + 2), tl.load(splat + 3), tl.load(splat + 4)
        seen = tl.exp(-0.5 * (a * a * dx * dx + d * d * dy * dy) - 0.1 * b * dx * dy) * ask
        tl.atomic_add(y_ptr + 4 * id, tl.sum(seen * (a * a * dx + 0.1 * b * dy)), sem="relaxed")
        tl.atomic_add(y_ptr + 4 * id + 1, tl.sum(seen * (d * d * dy + 0.1 * b * dx)), sem="relaxed")
        tl.atomic_add(y_ptr + 4 * id + 2, tl.sum(seen), sem="relaxed")


@triton.jit
def event_voxels(col_ptr, row_ptr, time_ptr, sign_ptr, y_ptr, n, high, wide, BINS: tl.constexpr, BLOCK: tl.constexpr):
    """Events of a camera in a grid of time, each between the two bins that are nearest."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    c = tl.load(col_ptr + at, mask=mask, other=0).to(tl.int32)
    r = tl.load(row_ptr + at, mask=mask, other=0).to(tl.int32)
    t = tl.load(time_ptr + at, mask=mask, other=0.0) * (BINS - 1)
    s = tl.load(sign_ptr + at, mask=mask, other=0).to(tl.float32)
    bin = t.to(tl.int32)
    f = t - bin
    to = y_ptr + (bin * high + r) * wide + c
    tl.atomic_add(to, s * (1 - f), mask=mask, sem="relaxed")
    tl.atomic_add(to + high * wide, s * f, mask=mask & (bin + 1 < BINS), sem="relaxed")


@triton.jit
def tally_tracks(from_ptr, way_ptr, y_ptr, n, SIDE: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """What particles leave in the cells that they cross, less with every step."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x, y = tl.load(from_ptr + at, mask=mask, other=-9.0), tl.load(from_ptr + n + at, mask=mask, other=-9.0)
    z = tl.load(from_ptr + 2 * n + at, mask=mask, other=-9.0)
    dx, dy = tl.load(way_ptr + at, mask=mask, other=0.0), tl.load(way_ptr + n + at, mask=mask, other=0.0)
    dz = tl.load(way_ptr + 2 * n + at, mask=mask, other=0.0)
    left = tl.full((BLOCK,), 1.0, tl.float32)
    for _ in range(STEPS):
        inside = (x >= 0) & (x < SIDE) & (y >= 0) & (y < SIDE) & (z >= 0) & (z < SIDE)
        cell = (z.to(tl.int32) * SIDE + y.to(tl.int32)) * SIDE + x.to(tl.int32)
        tl.atomic_add(y_ptr + cell, left * 0.05, mask=inside, sem="relaxed")
        left *= 0.95
        x += dx
        y += dy
        z += dz


@triton.jit
def columns_to_image(x_ptr, y_ptr, rows, places, across, high, wide, SIDE: tl.constexpr, STEP: tl.constexpr,
                     BLOCK_R: tl.constexpr, BLOCK_P: tl.constexpr):  # fmt: skip
    """Columns of patches added to the image they were cut from."""
    row, at = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R), tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    mask = (row < rows)[:, None] & (at < places)[None, :]
    x = tl.load(x_ptr + row[:, None] * places + at[None, :], mask=mask, other=0.0)
    channel, tap = row // (SIDE * SIDE), row % (SIDE * SIDE)
    r = (at // across * STEP)[None, :] + (tap // SIDE)[:, None]
    c = (at % across * STEP)[None, :] + (tap % SIDE)[:, None]
    tl.atomic_add(y_ptr + (channel[:, None] * high + r) * wide + c, x, mask=mask, sem="relaxed")


@triton.jit
def touch_pages(length_ptr, table_ptr, stamp_ptr, count_ptr, most, clock, BLOCK: tl.constexpr):
    """When and how often the pages of a cache were last used by a batch of sequences."""
    seq, k = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = k < tl.load(length_ptr + seq)
    page = tl.load(table_ptr + seq * most + k, mask=mask, other=0)
    tl.atomic_max(stamp_ptr + page, clock + seq, mask=mask, sem="relaxed")
    tl.atomic_add(count_ptr + page, 1, mask=mask, sem="relaxed")


@triton.jit
def dedisperse(x_ptr, delay_ptr, y_ptr, channels, samples, trials, out, BLOCK_D: tl.constexpr, BLOCK_T: tl.constexpr):
    """Channels of a radio telescope summed with the delays of each trial."""
    d, t = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D), tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    total, mask = tl.zeros((BLOCK_D, BLOCK_T), tl.float32), (d < trials)[:, None] & (t < out)[None, :]
    for k in range(channels):
        late = tl.load(delay_ptr + d * channels + k, mask=d < trials, other=0)
        total += tl.load(x_ptr + k * samples + t[None, :] + late[:, None], mask=mask, other=0).to(tl.float32)
    tl.store(y_ptr + d[:, None] * out + t[None, :], total, mask=mask)


@triton.jit
def common_neighbours(u_ptr, v_ptr, start_ptr, col_ptr, y_ptr, n, STEPS: tl.constexpr, BLOCK_E: tl.constexpr,
                      BLOCK_K: tl.constexpr):  # fmt: skip
    """How many neighbours of one end of an edge are in the sorted list of the other."""
    e = tl.program_id(0) * BLOCK_E + tl.arange(0, BLOCK_E)
    u, v = tl.load(u_ptr + e, mask=e < n, other=0), tl.load(v_ptr + e, mask=e < n, other=0)
    first, end = tl.load(start_ptr + u), tl.load(start_ptr + u + 1)
    left, right = tl.load(start_ptr + v), tl.load(start_ptr + v + 1)
    total = tl.zeros((BLOCK_E,), tl.int32)
    for k0 in range(0, tl.max(end - first), BLOCK_K):
        k = first[:, None] + k0 + tl.arange(0, BLOCK_K)[None, :]
        mask = k < end[:, None]
        x = tl.load(col_ptr + k, mask=mask, other=-1)
        low, up = left[:, None] + tl.zeros_like(k), right[:, None] + tl.zeros_like(k)
        for _ in tl.static_range(STEPS):
            middle = (low + up) // 2
            less = tl.load(col_ptr + middle, mask=mask & (low < up), other=0) < x
            low, up = tl.where((low < up) & less, middle + 1, low), tl.where((low < up) & (less == 0), middle, up)
        there = mask & (low < right[:, None])
        total += tl.sum((there & (tl.load(col_ptr + low, mask=there, other=-1) == x)).to(tl.int32), 1)
    tl.store(y_ptr + e, total, mask=e < n)


@triton.jit
def texel(level_ptr, r, c, side, ch, mask):
    r, c = tl.minimum(tl.maximum(r, 0), side - 1), tl.minimum(tl.maximum(c, 0), side - 1)
    return tl.load(level_ptr + (r * side + c)[:, None] * 4 + ch, mask=mask[:, None], other=0.0).to(tl.float32)


@triton.jit
def of_level(x_ptr, u, v, level, ch, mask, SIDE: tl.constexpr):
    side = SIDE >> level
    first = (SIDE * SIDE - side * side) // 3 * 4
    r, c = v * side - 0.5, u * side - 0.5
    i, j = tl.floor(r).to(tl.int32), tl.floor(c).to(tl.int32)
    f, g = (r - i)[:, None], (c - j)[:, None]
    x = x_ptr + 4 * first[:, None]
    a = texel(x, i, j, side, ch, mask) * (1 - g) + texel(x, i, j + 1, side, ch, mask) * g
    b = texel(x, i + 1, j, side, ch, mask) * (1 - g) + texel(x, i + 1, j + 1, side, ch, mask) * g
    return a * (1 - f) + b * f


@triton.jit
def mip_sample(u_ptr, v_ptr, level_ptr, x_ptr, y_ptr, n, SIDE: tl.constexpr, LEVELS: tl.constexpr,
               BLOCK: tl.constexpr):  # fmt: skip
    """A texture of four channels between the two levels of its pyramid that fit a pixel."""
    at, ch = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, 4)[None, :]
    mask = at < n
    u, v = tl.load(u_ptr + at, mask=mask, other=0.0), tl.load(v_ptr + at, mask=mask, other=0.0)
    level = tl.load(level_ptr + at, mask=mask, other=0.0)
    lower = tl.minimum(tl.floor(level).to(tl.int32), LEVELS - 2)
    f = (level - lower)[:, None]
    y = of_level(x_ptr, u, v, lower, ch, mask, SIDE) * (1 - f) + of_level(x_ptr, u, v, lower + 1, ch, mask, SIDE) * f
    tl.store(y_ptr + at[:, None] * 4 + ch, y.to(tl.float16), mask=mask[:, None])


@triton.jit
def grains(pos_ptr, rate_ptr, x_ptr, y_ptr, length, count, HOP: tl.constexpr, OVERLAP: tl.constexpr,
           BLOCK: tl.constexpr):  # fmt: skip
    """Sound of grains that begin every HOP samples, each read from its own place at its own speed."""
    t, voice = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(OVERLAP):
        grain = t // HOP - k
        mask = (t < length) & (grain >= 0)
        since = t - grain * HOP
        pos = tl.load(pos_ptr + voice * count + grain, mask=mask, other=0)
        go = since * tl.load(rate_ptr + voice * count + grain, mask=mask, other=1.0)
        whole = go.to(tl.int32)
        a = tl.load(x_ptr + pos + whole, mask=mask, other=0.0)
        b = tl.load(x_ptr + pos + whole + 1, mask=mask, other=0.0)
        total += (a + (b - a) * (go - whole)) * (0.5 - 0.5 * tl.cos(since * (6.2831853 / (HOP * OVERLAP))))
    tl.store(y_ptr + voice * length + t, total, mask=t < length)


@triton.jit
def tabulated_density(near_ptr, x_ptr, table_ptr, y_ptr, n, scale, NEAR: tl.constexpr, CELLS: tl.constexpr,
                      BLOCK: tl.constexpr):  # fmt: skip
    """Density at each atom of a metal: a table of the squared distance, summed over its neighbours."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask, total = at < n, tl.zeros((BLOCK,), tl.float32)
    x, y = tl.load(x_ptr + 3 * at, mask=mask, other=0.0), tl.load(x_ptr + 3 * at + 1, mask=mask, other=0.0)
    z = tl.load(x_ptr + 3 * at + 2, mask=mask, other=0.0)
    for k in range(NEAR):
        id = tl.load(near_ptr + k * n + at, mask=mask, other=0)
        dx, dy = tl.load(x_ptr + 3 * id) - x, tl.load(x_ptr + 3 * id + 1) - y
        dz = tl.load(x_ptr + 3 * id + 2) - z
        s = tl.minimum((dx * dx + dy * dy + dz * dz) * scale, CELLS - 1.5)
        cell = s.to(tl.int32)
        a, b = tl.load(table_ptr + cell), tl.load(table_ptr + cell + 1)
        total += a + (b - a) * (s - cell)
    tl.store(y_ptr + at, total, mask=mask)


@triton.jit
def range_minima(first_ptr, last_ptr, table_ptr, y_ptr, n, size, BLOCK: tl.constexpr):
    """Least of each range by two that overlap, of a table of the ranges of every power of two."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(first_ptr + at, mask=at < n, other=0), tl.load(last_ptr + at, mask=at < n, other=0)
    level = ((b - a + 1).to(tl.float32).to(tl.int32, bitcast=True) >> 23) - 127
    table = table_ptr + level * size
    x, y = tl.load(table + a, mask=at < n, other=0), tl.load(table + b + 1 - (1 << level), mask=at < n, other=0)
    tl.store(y_ptr + at, tl.minimum(x, y), mask=at < n)


@triton.jit
def gauss_jordan(x_ptr, y_ptr, count, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """Inverses of small matrices, with twice the side added to what is on the diagonal."""
    n = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None, None]
    i, j = tl.arange(0, SIDE)[None, :, None], tl.arange(0, SIDE)[None, None, :]
    at = (n * SIDE + i) * SIDE + j
    x = tl.load(x_ptr + at, mask=n < count, other=0.0) + tl.where(i == j, 2.0 * SIDE, 0.0)
    for k in range(SIDE):
        row, col = tl.sum(tl.where(i == k, x, 0.0), 1)[:, None, :], tl.sum(tl.where(j == k, x, 0.0), 2)[:, :, None]
        pivot = 1.0 / tl.sum(tl.sum(tl.where((i == k) & (j == k), x, 0.0), 2), 1)[:, None, None]
        swept = x - col * row * pivot
        swept = tl.where(i == k, row * pivot, tl.where(j == k, -col * pivot, swept))
        x = tl.where((i == k) & (j == k), pivot, swept)
    tl.store(y_ptr + at, x, mask=n < count)


@triton.jit
def delta_rule(q_ptr, k_ptr, v_ptr, beta_ptr, y_ptr, length, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Fast weights that each token corrects by what they say of its key; they stay in registers."""
    head, d, e = tl.program_id(1), tl.arange(0, WIDTH), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    state = tl.zeros((WIDTH, BLOCK), tl.float32)
    for t in range(length):
        at = (head * length + t) * WIDTH
        k, q = tl.load(k_ptr + at + d).to(tl.float32) * 0.1, tl.load(q_ptr + at + d).to(tl.float32)
        v, beta = tl.load(v_ptr + at + e).to(tl.float32), tl.sigmoid(tl.load(beta_ptr + head * length + t))
        state += k[:, None] * (beta * (v - tl.sum(state * k[:, None], 0)))[None, :]
        tl.store(y_ptr + at + e, tl.sum(state * q[:, None], 0).to(tl.bfloat16))


@triton.jit
def staying_block_scales(a_ptr, b_ptr, s_ptr, u_ptr, y_ptr, M, N, K, PROGRAMS: tl.constexpr, BLOCK_M: tl.constexpr,
                         BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """Bytes of floats with a scale for each row and 128 columns of one, each 128 by 128 of the other; programs stay."""
    across, parts = tl.cdiv(N, BLOCK_N), K // 128
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * across, PROGRAMS):
        m, n = tile // across * BLOCK_M + tl.arange(0, BLOCK_M), tile % across * BLOCK_N + tl.arange(0, BLOCK_N)
        k, acc = tl.arange(0, BLOCK_K), tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k0 in range(0, K, BLOCK_K):
            a = tl.load(a_ptr + m[:, None] * K + (k0 + k)[None, :], mask=m[:, None] < M, other=0.0)
            b = tl.load(b_ptr + n[None, :] * K + (k0 + k)[:, None])
            s = tl.load(s_ptr + m * parts + k0 // 128, mask=m < M, other=0.0)
            u = tl.load(u_ptr + n // 128 * parts + k0 // 128)
            acc += tl.dot(a, b) * s[:, None] * u[None, :]
        tl.store(y_ptr + m[:, None] * N + n[None, :], acc.to(tl.bfloat16), mask=m[:, None] < M)


@triton.jit
def staying_conv(x_ptr, w_ptr, y_ptr, M, high, wide, N, CHANNELS: tl.constexpr, PROGRAMS: tl.constexpr,
                 BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """A convolution of 3 by 3 of pictures whose channels lie together, as a product whose programs stay."""
    across = tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * across, PROGRAMS):
        m, n = tile // across * BLOCK_M + tl.arange(0, BLOCK_M), tile % across * BLOCK_N + tl.arange(0, BLOCK_N)
        r, c, k = m // wide % high, m % wide, tl.arange(0, BLOCK_K)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for tap in range(9):
            i, j = tap // 3 - 1, tap % 3 - 1
            there = (m < M) & (r + i >= 0) & (r + i < high) & (c + j >= 0) & (c + j < wide)
            from_ = x_ptr + (m + i * wide + j)[:, None] * CHANNELS
            for k0 in range(0, CHANNELS, BLOCK_K):
                x = tl.load(from_ + (k0 + k)[None, :], mask=there[:, None], other=0.0)
                w = tl.load(w_ptr + (tap * CHANNELS + k0 + k)[:, None] * N + n[None, :])
                acc = tl.dot(x, w, acc)
        tl.store(y_ptr + m[:, None] * N + n[None, :], acc.to(tl.float16), mask=m[:, None] < M)


@triton.jit
def nv12_to_rgb(light_ptr, colour_ptr, y_ptr, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Video of a plane of light and one of colour at half the size, to pixels of three bytes."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    frame, mask = tl.program_id(2), (r < high) & (c < wide)
    light = 1.164 * (tl.load(light_ptr + (frame * high + r) * wide + c, mask=mask, other=0).to(tl.float32) - 16.0)
    at = colour_ptr + (frame * (high // 2) + r // 2) * wide + c // 2 * 2
    u = tl.load(at, mask=mask, other=0).to(tl.float32) - 128.0
    v = tl.load(at + 1, mask=mask, other=0).to(tl.float32) - 128.0
    to = y_ptr + ((frame * high + r) * wide + c) * 3
    tl.store(to, tl.clamp(light + 1.596 * v, 0.0, 255.0).to(tl.uint8), mask=mask)
    tl.store(to + 1, tl.clamp(light - 0.813 * v - 0.391 * u, 0.0, 255.0).to(tl.uint8), mask=mask)
    tl.store(to + 2, tl.clamp(light + 2.018 * u, 0.0, 255.0).to(tl.uint8), mask=mask)


@triton.jit
def keys_to_tiles(x_ptr, y_ptr, tokens, heads, PAGE: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Keys of tokens to pages in which eight numbers of a token, then its page's other tokens, lie together."""
    t, d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    head, mask = tl.program_id(1), (t < tokens)[:, None]
    x = tl.load(x_ptr + (t[:, None] * heads + head) * WIDTH + d[None, :], mask=mask)
    part = (t[:, None] // PAGE * heads + head) * (WIDTH // 8) + d[None, :] // 8
    tl.store(y_ptr + (part * PAGE + t[:, None] % PAGE) * 8 + d[None, :] % 8, x, mask=mask)


@triton.jit
def pack_mxfp4(x_ptr, y_ptr, scale_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Floats of four bits, two in a byte, and the power of two that 32 of them share."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    x = tl.load(x_ptr + r * cols + c, mask=r < rows, other=0.0).to(tl.float32)
    x = tl.reshape(x, (BLOCK_R, BLOCK_C // 32, 32))
    most = tl.maximum(tl.max(tl.abs(x), 2), 1e-30)
    power = (most.to(tl.int32, bitcast=True) >> 23) - 2
    x *= ((254 - power) << 23).to(tl.float32, bitcast=True)[:, :, None]
    size, code = tl.abs(x), tl.where(x < 0, 8, 0)
    code += (size > 0.25).to(tl.int32) + (size > 0.75).to(tl.int32) + (size > 1.25).to(tl.int32)
    code += (size > 1.75).to(tl.int32) + (size > 2.5).to(tl.int32) + (size > 3.5).to(tl.int32)
    code += (size > 5.0).to(tl.int32)
    low, high = tl.split(tl.reshape(code, (BLOCK_R, BLOCK_C // 2, 2)))
    half = (tl.program_id(0) * (BLOCK_C // 2) + tl.arange(0, BLOCK_C // 2))[None, :]
    tl.store(y_ptr + r * (cols // 2) + half, (low | (high << 4)).to(tl.uint8), mask=r < rows)
    part = (tl.program_id(0) * (BLOCK_C // 32) + tl.arange(0, BLOCK_C // 32))[None, :]
    tl.store(scale_ptr + r * (cols // 32) + part, power.to(tl.uint8), mask=r < rows)


@triton.jit
def soft(q, k, v, top, total, acc, inside, scale):
    s = tl.where(inside, tl.dot(q, tl.trans(k)) * scale, -1e30)
    new = tl.maximum(top, tl.max(s, 1))
    p, old = tl.exp2(s - new[:, None]), tl.exp2(top - new)
    return new, total * old + tl.sum(p, 1), acc * old[:, None] + tl.dot(p.to(v.dtype), v)


@triton.jit
def differential_attention(q_ptr, k_ptr, v_ptr, y_ptr, length, scale, share, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr,
                           BLOCK_N: tl.constexpr):  # fmt: skip
    """One attention less a share of another, over the same values."""
    head = tl.program_id(1).to(tl.int64) * length * 2 * WIDTH
    row, d, e = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, WIDTH), tl.arange(0, 2 * WIDTH)
    at, mask = head + row[:, None] * (2 * WIDTH) + d[None, :], row[:, None] < length
    q, r = tl.load(q_ptr + at, mask=mask, other=0.0), tl.load(q_ptr + at + WIDTH, mask=mask, other=0.0)
    top, total = tl.full((BLOCK_M,), -1e30, tl.float32), tl.zeros((BLOCK_M,), tl.float32)
    other_top, other_total = top, total
    acc = tl.zeros((BLOCK_M, 2 * WIDTH), tl.float32)
    other = acc
    for start in range(0, length, BLOCK_N):
        col = (start + tl.arange(0, BLOCK_N))[:, None]
        here, inside = head + col * (2 * WIDTH), tl.trans(col) < length
        k = tl.load(k_ptr + here + d[None, :], mask=col < length, other=0.0)
        j = tl.load(k_ptr + here + WIDTH + d[None, :], mask=col < length, other=0.0)
        v = tl.load(v_ptr + here + e[None, :], mask=col < length, other=0.0)
        top, total, acc = soft(q, k, v, top, total, acc, inside, scale)
        other_top, other_total, other = soft(r, j, v, other_top, other_total, other, inside, scale)
    y = acc / total[:, None] - share * other / other_total[:, None]
    tl.store(y_ptr + head + row[:, None] * (2 * WIDTH) + e[None, :], y.to(tl.float16), mask=mask)


@triton.jit
def attend_int8(q_ptr, k_ptr, v_ptr, s_ptr, u_ptr, y_ptr, length, scale, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr,
                BLOCK_N: tl.constexpr):  # fmt: skip
    """Attention whose queries and keys are bytes with a scale for each token."""
    tokens = tl.program_id(1) * length
    row, d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, WIDTH)
    q = tl.load(q_ptr + (tokens + row)[:, None] * WIDTH + d[None, :], mask=row[:, None] < length, other=0)
    s = tl.load(s_ptr + tokens + row, mask=row < length, other=0.0) * scale
    top, total = tl.full((BLOCK_M,), -1e30, tl.float32), tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, WIDTH), tl.float32)
    for start in range(0, length, BLOCK_N):
        col = start + tl.arange(0, BLOCK_N)
        at = (tokens + col)[:, None] * WIDTH + d[None, :]
        k = tl.load(k_ptr + at, mask=col[:, None] < length, other=0)
        u = tl.load(u_ptr + tokens + col, mask=col < length, other=0.0)
        w = tl.dot(q, tl.trans(k), out_dtype=tl.int32).to(tl.float32) * s[:, None] * u[None, :]
        w = tl.where(col[None, :] < length, w, -1e30)
        new = tl.maximum(top, tl.max(w, 1))
        p, old = tl.exp2(w - new[:, None]), tl.exp2(top - new)
        v = tl.load(v_ptr + at, mask=col[:, None] < length, other=0.0)
        acc = acc * old[:, None] + tl.dot(p.to(tl.float16), v)
        total, top = total * old + tl.sum(p, 1), new
    y = acc / total[:, None]
    tl.store(y_ptr + (tokens + row)[:, None] * WIDTH + d[None, :], y.to(tl.float16), mask=row[:, None] < length)


@triton.jit
def viterbi(x_ptr, step_ptr, y_ptr, best_ptr, count, length, STATES: tl.constexpr, BLOCK: tl.constexpr):
    """Best paths through the states of sequences: where each came from, and what the last are worth."""
    n, s = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, STATES)
    step, mask = tl.load(step_ptr + s[:, None] * STATES + s[None, :]), (n < count)[:, None]
    worth = tl.load(x_ptr + n[:, None] * (length * STATES) + s[None, :], mask=mask, other=0.0)
    for t in range(1, length):
        at = (n[:, None] * length + t) * STATES + s[None, :]
        best, where = tl.max(worth[:, :, None] + step[None, :, :], 1, return_indices=True)
        worth = best + tl.load(x_ptr + at, mask=mask, other=0.0)
        tl.store(y_ptr + at, where.to(tl.uint8), mask=mask)
    tl.store(best_ptr + n[:, None] * STATES + s[None, :], worth, mask=mask)
