"""Short Triton kernels of gradients, queues, sketches, caches, tables, volumes, texts and games: a fifteenth zoo."""

import triton
import triton.language as tl


@triton.jit
def embedding_grad(g_ptr, id_ptr, y_ptr, tokens, width, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """Gradients of tokens are added to the rows of a table in its own type of two bytes."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (t < tokens)[:, None] & (c < width)[None, :]
    row = tl.load(id_ptr + t, mask=t < tokens, other=0)
    g = tl.load(g_ptr + t[:, None] * width + c[None, :], mask=mask, other=0.0)
    tl.atomic_add(y_ptr + row[:, None] * width + c[None, :], g, mask=mask, sem="relaxed")


@triton.jit
def tile_histograms(x_ptr, y_ptr, high, wide, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """A histogram of bytes for each SIDE x SIDE tile of a picture, as contrast is evened out within limits."""
    tile = tl.program_id(1) * tl.num_programs(2) + tl.program_id(2)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    r, c = tl.program_id(1) * SIDE + at // SIDE, tl.program_id(2) * SIDE + at % SIDE
    mask = (at < SIDE * SIDE) & (r < high) & (c < wide)
    x = tl.load(x_ptr + r * wide + c, mask=mask, other=0)
    tl.atomic_add(y_ptr + tile * 256 + x.to(tl.int32), 1, mask=mask, sem="relaxed")


@triton.jit
def weight_grad_split(g_ptr, x_ptr, y_ptr, tokens, outs, ins, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                      BLOCK_K: tl.constexpr, SPLIT: tl.constexpr):  # fmt: skip
    """dW += g^T x of a linear layer; SPLIT programs share the tokens of a tile and add what they found."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(tl.program_id(2) * BLOCK_K, tokens, SPLIT * BLOCK_K):
        t = first + tl.arange(0, BLOCK_K)
        g = tl.load(g_ptr + t[None, :] * outs + m[:, None], mask=(t < tokens)[None, :] & (m < outs)[:, None], other=0.0)
        x = tl.load(x_ptr + t[:, None] * ins + n[None, :], mask=(t < tokens)[:, None] & (n < ins)[None, :], other=0.0)
        acc = tl.dot(g, x, acc)
    mask = (m < outs)[:, None] & (n < ins)[None, :]
    tl.atomic_add(y_ptr + m[:, None] * ins + n[None, :], acc, mask=mask, sem="relaxed")


@triton.jit
def sum_by_last(x_ptr, part_ptr, count_ptr, y_ptr, n, EACH: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """The norm of a vector in one launch: whoever comes last to the counter adds up what all left and resets it."""
    total = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) * (EACH * BLOCK)
    for i in range(EACH):
        at = first + i * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
        total += x * x
    tl.store(part_ptr + tl.program_id(0), tl.sum(total, 0))
    tl.debug_barrier()
    if tl.atomic_add(count_ptr, 1, sem="acq_rel") == tl.num_programs(0) - 1:
        k = tl.arange(0, PARTS)
        part = tl.load(part_ptr + k, mask=k < tl.num_programs(0), other=0.0, cache_modifier=".cg")
        tl.store(y_ptr, tl.sqrt(tl.sum(part, 0)))
        tl.store(count_ptr, 0)


@triton.jit
def push(event_ptr, channel_ptr, count_ptr, y_ptr, n, DEEP: tl.constexpr, BLOCK: tl.constexpr):
    """Events go to the rings of their channels, each in the place that the ring's counter gives it."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    channel = tl.load(channel_ptr + at, mask=mask, other=0)
    event = tl.load(event_ptr + at, mask=mask, other=0)
    place = tl.atomic_add(count_ptr + channel, 1, mask=mask, sem="relaxed") % DEEP
    tl.store(y_ptr + channel * DEEP + place, event, mask=mask)


@triton.jit
def link_cells(x_ptr, head_ptr, next_ptr, n, cells, size, BLOCK: tl.constexpr):
    """Particles of a cube join the list of their cell: each becomes its head, and is followed by the one that was."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    cell = tl.zeros((BLOCK,), tl.int32)
    for axis in tl.static_range(3):
        x = tl.load(x_ptr + 3 * at + axis, mask=mask, other=0.0)
        cell = cell * cells + tl.minimum((x * size).to(tl.int32), cells - 1)
    tl.store(next_ptr + at, tl.atomic_xchg(head_ptr + cell, at + 1, mask=mask, sem="relaxed"), mask=mask)


@triton.jit
def best_of_group(score_ptr, group_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Which member of each group scores most: score and number in one int64, of which the largest stays."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    score = tl.abs(tl.load(score_ptr + at, mask=mask, other=0.0)).to(tl.int32, bitcast=True).to(tl.int64)
    group = tl.load(group_ptr + at, mask=mask, other=0)
    tl.atomic_max(y_ptr + group, (score << 32) | at.to(tl.int64), mask=mask, sem="relaxed")


@triton.jit
def norm_backward_locked(g_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, lock_ptr, dx_ptr, dw_ptr, width,
                         GROUPS: tl.constexpr, PADDED: tl.constexpr):  # fmt: skip
    """Of a layer norm, a row a program; rows of a group add their part of dw in turn, under the group's lock."""
    row, c = tl.program_id(0), tl.arange(0, PADDED)
    mask = c < width
    g = tl.load(g_ptr + row * width + c, mask=mask, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + row * width + c, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + c, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.load(rstd_ptr + row)
    x = tl.where(mask, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
    gw = g * w
    dx = (gw - x * (tl.sum(x * gw, 0) / width) - tl.sum(gw, 0) / width) * rstd
    tl.store(dx_ptr + row * width + c, dx, mask=mask)
    lock, sums = lock_ptr + row % GROUPS, dw_ptr + row % GROUPS * width + c
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(sums, tl.load(sums, mask=mask, other=0.0) + g * x, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def count_sketch(id_ptr, x_ptr, y_ptr, n, ROWS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """A sketch of a sparse vector: every hash adds each number to a column of its own row, with a sign."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    id = tl.load(id_ptr + at, mask=mask, other=0).to(tl.uint32)
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    for row in tl.static_range(ROWS):
        hashed = (id + row * 40503) * 2654435769
        hashed = (hashed ^ (hashed >> 15)) * 2246822519
        column = ((hashed >> 8) & (WIDTH - 1)).to(tl.int32)
        tl.atomic_add(y_ptr + row * WIDTH + column, tl.where(hashed >> 31 == 0, x, -x), mask=mask, sem="relaxed")


@triton.jit
def unscale(x_ptr, found_ptr, n, scale, BLOCK: tl.constexpr):
    """Gradients over the scale of the loss, in place; a flag is raised if one of them is not finite."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32) * scale
    tl.store(x_ptr + at, x, mask=at < n)
    bad = tl.max((tl.abs(x) > 3e38).to(tl.int32), 0)
    tl.atomic_max(found_ptr, bad, mask=bad > 0, sem="relaxed")


@triton.jit
def orientations(x_ptr, y_ptr, high, wide, CELL: tl.constexpr, BINS: tl.constexpr, BLOCK_R: tl.constexpr,
                 BLOCK_C: tl.constexpr):  # fmt: skip
    """Histograms of oriented gradients: each pixel adds its magnitude to one of BINS bins of its cell."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (r > 0) & (r < high - 1) & (c > 0) & (c < wide - 1)
    p = x_ptr + r * wide + c
    u = tl.load(p + 1, mask=mask, other=0.0) - tl.load(p - 1, mask=mask, other=0.0)
    v = tl.load(p + wide, mask=mask, other=0.0) - tl.load(p - wide, mask=mask, other=0.0)
    ratio = tl.minimum(tl.abs(u), tl.abs(v)) / tl.maximum(tl.maximum(tl.abs(u), tl.abs(v)), 1e-12)
    turn = tl.where(tl.abs(v) > tl.abs(u), 1 - ratio / 2, ratio / 2)
    turn = tl.where((u < 0) != (v < 0), 2 - turn, turn) * (BINS / 2)
    bin = tl.minimum(turn.to(tl.int32), BINS - 1)
    cell = (r // CELL) * (wide // CELL) + c // CELL
    inside = mask & (r // CELL < high // CELL) & (c // CELL < wide // CELL)
    tl.atomic_add(y_ptr + cell * BINS + bin, tl.sqrt(u * u + v * v), mask=inside, sem="relaxed")


@triton.jit
def index_scores(q_ptr, w_ptr, k_ptr, page_ptr, length_ptr, y_ptr, pages, most, HEADS: tl.constexpr,
                 WIDTH: tl.constexpr, PAGE: tl.constexpr, BLOCK_T: tl.constexpr):  # fmt: skip
    """How much a new token looks at each key of a paged cache: heads' scores above zero, weighted and summed."""
    one, t = tl.program_id(1), tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    h, d = tl.arange(0, HEADS), tl.arange(0, WIDTH)
    length = tl.load(length_ptr + one)
    if tl.program_id(0) * BLOCK_T < length:
        q = tl.load(q_ptr + (one * HEADS + h[:, None]) * WIDTH + d[None, :])
        page = tl.load(page_ptr + one * pages + t // PAGE, mask=t < length, other=0)
        row = page * PAGE + t % PAGE
        k = tl.load(k_ptr + row[None, :] * WIDTH + d[:, None], mask=(t < length)[None, :], other=0.0)
        score = tl.maximum(tl.dot(q, k), 0.0) * tl.load(w_ptr + one * HEADS + h)[:, None]
        tl.store(y_ptr + one * most + t, tl.sum(score, 0), mask=t < length)


@triton.jit
def pooled_tables(table_ptr, start_ptr, id_ptr, w_ptr, y_ptr, bags, rows, WIDTH: tl.constexpr, BLOCK_L: tl.constexpr):
    """Weighted sums of rows of several tables at once, [table, bag]; int64 ids and starts, a bag a program."""
    bag, table = tl.program_id(0), tl.program_id(1)
    d = tl.arange(0, WIDTH)
    first = tl.load(start_ptr + table * bags + bag)
    end = tl.load(start_ptr + table * bags + bag + 1)
    total = tl.zeros((WIDTH,), tl.float32)
    for i in range(first, end, BLOCK_L):
        at = i + tl.arange(0, BLOCK_L)
        id = tl.load(id_ptr + at, mask=at < end, other=0)
        w = tl.load(w_ptr + at, mask=at < end, other=0.0)
        row = table_ptr + (table.to(tl.int64) * rows + id)[:, None] * WIDTH + d[None, :]
        total += tl.sum(tl.load(row, mask=(at < end)[:, None], other=0.0).to(tl.float32) * w[:, None], 0)
    tl.store(y_ptr + (bag * tl.num_programs(1) + table) * WIDTH + d, total)


@triton.jit
def sliced_ell(start_ptr, col_ptr, v_ptr, x_ptr, y_ptr, rows, SLICE: tl.constexpr, BLOCK_S: tl.constexpr):
    """A sparse matrix by a vector: SLICE rows lie side by side, column by column, as many as the longest has."""
    s, lane = tl.program_id(0) * BLOCK_S + tl.arange(0, BLOCK_S), tl.arange(0, SLICE)[None, :]
    slices = tl.cdiv(rows, SLICE)
    first = tl.load(start_ptr + s, mask=s < slices, other=0)
    width = (tl.load(start_ptr + s + 1, mask=s < slices, other=0) - first) // SLICE
    total = tl.zeros((BLOCK_S, SLICE), tl.float32)
    for k in range(tl.max(width, 0)):
        at = first[:, None] + k * SLICE + lane
        col = tl.load(col_ptr + at, mask=(k < width)[:, None], other=-1)
        x = tl.load(x_ptr + col, mask=col >= 0, other=0.0)
        total += tl.load(v_ptr + at, mask=(k < width)[:, None], other=0.0) * x
    row = s[:, None] * SLICE + lane
    tl.store(y_ptr + row, total, mask=row < rows)


@triton.jit
def features(dense_ptr, day_ptr, shop_ptr, item_ptr, days_ptr, shops_ptr, items_ptr, y_ptr, n, DENSE: tl.constexpr,
             BLOCK_R: tl.constexpr):  # fmt: skip
    """What a ranking model reads of an event: numbers, then rows of 8, 16 and 32 of a tiny, a small, a large table."""
    r = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    mask = (r < n)[:, None]
    y = y_ptr + r[:, None] * (DENSE + 56)
    a, b, c, d = tl.arange(0, DENSE), tl.arange(0, 8), tl.arange(0, 16), tl.arange(0, 32)
    day = tl.load(day_ptr + r, mask=r < n, other=0).to(tl.int32)
    shop = tl.load(shop_ptr + r, mask=r < n, other=0)
    item = tl.load(item_ptr + r, mask=r < n, other=0)
    dense = tl.load(dense_ptr + r[:, None] * DENSE + a[None, :], mask=mask, other=0.0)
    tl.store(y + a[None, :], tl.log(tl.abs(dense) + 1), mask=mask)
    tl.store(y + DENSE + b[None, :], tl.load(days_ptr + day[:, None] * 8 + b[None, :], mask=mask), mask=mask)
    tl.store(y + DENSE + 8 + c[None, :], tl.load(shops_ptr + shop[:, None] * 16 + c[None, :], mask=mask), mask=mask)
    tl.store(y + DENSE + 24 + d[None, :], tl.load(items_ptr + item[:, None] * 32 + d[None, :], mask=mask), mask=mask)


@triton.jit
def codes_gemv(code_ptr, book_ptr, scale_ptr, x_ptr, y_ptr, outs, GROUPS: tl.constexpr, BOOKS: tl.constexpr,
               BLOCK_M: tl.constexpr, BLOCK_G: tl.constexpr):  # fmt: skip
    """A matrix by a vector, whose eight weights in a row are the sum of an entry of each of BOOKS books of 256."""
    m, k = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, 8)
    total = tl.zeros((BLOCK_M, BLOCK_G), tl.float32)
    for first in range(0, GROUPS, BLOCK_G):
        g = first + tl.arange(0, BLOCK_G)
        mask = (m < outs)[:, None] & (g < GROUPS)[None, :]
        x = tl.load(x_ptr + g[:, None] * 8 + k[None, :], mask=(g < GROUPS)[:, None], other=0.0).to(tl.float32)
        for book in tl.static_range(BOOKS):
            code = tl.load(code_ptr + (book * outs + m[:, None]) * GROUPS + g[None, :], mask=mask, other=0).to(tl.int32)
            entry = book_ptr + (book * 256 + code[:, :, None]) * 8 + k[None, None, :]
            w = tl.load(entry, mask=mask[:, :, None], other=0.0).to(tl.float32)
            total += tl.sum(w * x[None, :, :], 2)
    scale = tl.load(scale_ptr + m, mask=m < outs, other=0.0).to(tl.float32)
    tl.store(y_ptr + m, tl.sum(total, 1) * scale, mask=m < outs)


@triton.jit
def march(volume_ptr, origin_ptr, way_ptr, y_ptr, n, steps, step, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """Light through a volume along rays: what is between eight cells at each step dims what comes after."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    ox, oy = tl.load(origin_ptr + 3 * at, mask=mask, other=0.0), tl.load(origin_ptr + 3 * at + 1, mask=mask, other=0.0)
    oz = tl.load(origin_ptr + 3 * at + 2, mask=mask, other=0.0)
    wx, wy = tl.load(way_ptr + 3 * at, mask=mask, other=0.0), tl.load(way_ptr + 3 * at + 1, mask=mask, other=0.0)
    wz = tl.load(way_ptr + 3 * at + 2, mask=mask, other=0.0)
    light, total = tl.full((BLOCK,), 1.0, tl.float32), tl.zeros((BLOCK,), tl.float32)
    for i in range(steps):
        away = i * step
        x, y, z = ox + away * wx, oy + away * wy, oz + away * wz
        fx, fy, fz = tl.floor(x), tl.floor(y), tl.floor(z)
        inside = mask & (fx >= 0) & (fx < SIDE - 1) & (fy >= 0) & (fy < SIDE - 1) & (fz >= 0) & (fz < SIDE - 1)
        p = volume_ptr + (fz.to(tl.int32) * SIDE + fy.to(tl.int32)) * SIDE + fx.to(tl.int32)
        x, y, z = x - fx, y - fy, z - fz
        density = tl.zeros((BLOCK,), tl.float32)
        for corner in tl.static_range(8):
            a, b, c = corner % 2, corner // 2 % 2, corner // 4
            w = (x if a == 1 else 1 - x) * (y if b == 1 else 1 - y) * (z if c == 1 else 1 - z)
            density += w * tl.load(p + (c * SIDE + b) * SIDE + a, mask=inside, other=0.0)
        alpha = 1 - tl.exp(-step * tl.maximum(density, 0.0))
        total += light * alpha * away
        light *= 1 - alpha
    tl.store(y_ptr + at, total, mask=mask)


@triton.jit
def attend_neighbours(start_ptr, to_ptr, own_ptr, other_ptr, x_ptr, y_ptr, HEADS: tl.constexpr, WIDTH: tl.constexpr,
                      BLOCK_E: tl.constexpr):  # fmt: skip
    """Graph attention: a node's neighbours, weighted by a softmax of both ends' scores that is found on the way."""
    node, h, d = tl.program_id(0), tl.arange(0, HEADS), tl.arange(0, WIDTH)
    own = tl.load(own_ptr + node * HEADS + h)[None, :]
    most = tl.full((HEADS,), float("-inf"), tl.float32)
    below, total = tl.zeros((HEADS,), tl.float32), tl.zeros((HEADS, WIDTH), tl.float32)
    first, end = tl.load(start_ptr + node), tl.load(start_ptr + node + 1)
    for i in range(first, end, BLOCK_E):
        at = i + tl.arange(0, BLOCK_E)
        to = tl.load(to_ptr + at, mask=at < end, other=0)[:, None] * HEADS + h[None, :]
        score = own + tl.load(other_ptr + to)
        score = tl.where((at < end)[:, None], tl.where(score > 0, score, 0.2 * score), float("-inf"))
        now = tl.maximum(most, tl.max(score, 0))
        keep, share = tl.exp(most - now), tl.exp(score - now[None, :])
        x = tl.load(x_ptr + to[:, :, None] * WIDTH + d[None, None, :], mask=(at < end)[:, None, None], other=0.0)
        below = below * keep + tl.sum(share, 0)
        total = total * keep[:, None] + tl.sum(share[:, :, None] * x, 0)
        most = now
    y = total / tl.maximum(below, 1e-12)[:, None]
    tl.store(y_ptr + (node * HEADS + h[:, None]) * WIDTH + d[None, :], y)


@triton.jit
def embed_ngrams(word_ptr, table_ptr, y_ptr, tokens, rows, NGRAMS: tl.constexpr, WIDTH: tl.constexpr,
                 BLOCK_T: tl.constexpr):  # fmt: skip
    """For each token the rows that its last 2, 3, ... words hash to, side by side; words are int64."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.arange(0, WIDTH)
    hashed = tl.load(word_ptr + t, mask=t < tokens, other=0)
    for k in tl.static_range(NGRAMS):
        before = tl.load(word_ptr + t - 1 - k, mask=(t < tokens) & (t > k), other=0)
        hashed = hashed * 1000003 ^ before
        row = (hashed & 0x7FFFFFFFFFFF) % rows
        x = tl.load(table_ptr + (k * rows + row)[:, None] * WIDTH + d[None, :], mask=(t < tokens)[:, None], other=0.0)
        tl.store(y_ptr + (t[:, None] * NGRAMS + k) * WIDTH + d[None, :], x, mask=(t < tokens)[:, None])


@triton.jit
def life(x_ptr, y_ptr, high, wide, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A step of Conway's game on a torus of bytes."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (r < high) & (c < wide)
    count = tl.zeros((BLOCK_R, BLOCK_C), tl.int32)
    own = tl.load(x_ptr + r * wide + c, mask=mask, other=0)
    for i in tl.static_range(-1, 2):
        for j in tl.static_range(-1, 2):
            if i != 0 or j != 0:
                p = x_ptr + (r + i + high) % high * wide + (c + j + wide) % wide
                count += tl.load(p, mask=mask, other=0)
    alive = (count == 3) | ((count == 2) & (own != 0))
    tl.store(y_ptr + r * wide + c, alive.to(tl.uint8), mask=mask)


@triton.jit
def polyphase(x_ptr, w_ptr, y_ptr, n, UP: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    """Sounds at UP times their rate, a sound along the second axis: each place between has TAPS weights."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, place, phase = x_ptr + tl.program_id(1) * n, at // UP, at % UP
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(TAPS):
        inside = (place >= k) & (place < n)
        total += tl.load(w_ptr + phase * TAPS + k) * tl.load(x + place - k, mask=inside, other=0.0)
    tl.store(y_ptr + tl.program_id(1) * (n * UP) + at, total, mask=at < n * UP)


@triton.jit
def advect(x_ptr, u_ptr, v_ptr, y_ptr, high, wide, step, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Smoke is what it was where the wind brought it from, between four cells; edges repeat."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask, at = (r < high) & (c < wide), r * wide + c
    u = c - step * tl.load(u_ptr + at, mask=mask, other=0.0)
    v = r - step * tl.load(v_ptr + at, mask=mask, other=0.0)
    u, v = tl.minimum(tl.maximum(u, 0.0), wide - 1.001), tl.minimum(tl.maximum(v, 0.0), high - 1.001)
    left, top = u.to(tl.int32), v.to(tl.int32)
    u, v = u - left, v - top
    p = x_ptr + top * wide + left
    above = tl.load(p, mask=mask, other=0.0) * (1 - u) + tl.load(p + 1, mask=mask, other=0.0) * u
    below = tl.load(p + wide, mask=mask, other=0.0) * (1 - u) + tl.load(p + wide + 1, mask=mask, other=0.0) * u
    tl.store(y_ptr + at, above * (1 - v) + below * v, mask=mask)


@triton.jit
def motion(x_ptr, y_ptr, out_ptr, high, wide, REACH: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Motion of each 8 x 8 block of bytes: which of (2 REACH + 1)^2 moves of the other picture is nearest."""
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (r < high)[:, None] & (c < wide)[None, :]
    x = tl.load(x_ptr + r[:, None] * wide + c[None, :], mask=mask, other=0).to(tl.int32)
    least = tl.full((BLOCK_R // 8, BLOCK_C // 8), 1 << 30, tl.int32)
    which = tl.zeros((BLOCK_R // 8, BLOCK_C // 8), tl.int32)
    for move in range((2 * REACH + 1) * (2 * REACH + 1)):
        dr, dc = move // (2 * REACH + 1) - REACH, move % (2 * REACH + 1) - REACH
        row = tl.minimum(tl.maximum(r + dr, 0), high - 1)
        col = tl.minimum(tl.maximum(c + dc, 0), wide - 1)
        away = x - tl.load(y_ptr + row[:, None] * wide + col[None, :], mask=mask, other=0).to(tl.int32)
        away = tl.sum(tl.sum((away * away).reshape(BLOCK_R // 8, 8, BLOCK_C // 8, 8), 3), 1)
        which = tl.where(away < least, move, which)
        least = tl.minimum(away, least)
    br = tl.program_id(1) * (BLOCK_R // 8) + tl.arange(0, BLOCK_R // 8)
    bc = tl.program_id(0) * (BLOCK_C // 8) + tl.arange(0, BLOCK_C // 8)
    inside = (br < high // 8)[:, None] & (bc < wide // 8)[None, :]
    tl.store(out_ptr + br[:, None] * (wide // 8) + bc[None, :], which, mask=inside)


@triton.jit
def feed_forward(x_ptr, up_ptr, down_ptr, y_ptr, tokens, inner, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr,
                 BLOCK_N: tl.constexpr):  # fmt: skip
    """Both layers of a feed-forward block in one: a program keeps its tokens' whole rows and sums."""
    m, d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, WIDTH)
    mask = (m < tokens)[:, None]
    x = tl.load(x_ptr + m[:, None] * WIDTH + d[None, :], mask=mask, other=0.0)
    acc = tl.zeros((BLOCK_M, WIDTH), tl.float32)
    for first in range(0, inner, BLOCK_N):
        n = first + tl.arange(0, BLOCK_N)
        hidden = tl.dot(x, tl.load(up_ptr + d[:, None] * inner + n[None, :]))
        hidden = tl.maximum(hidden, 0.0)
        down = tl.load(down_ptr + n[:, None] * WIDTH + d[None, :])
        acc = tl.dot((hidden * hidden).to(x.dtype), down, acc)
    tl.store(y_ptr + m[:, None] * WIDTH + d[None, :], acc, mask=mask)


@triton.jit
def walk_norm_quantise(x_ptr, w_ptr, y_ptr, scale_ptr, rows, width, PADDED: tl.constexpr, EACH: tl.constexpr):
    """Norms of rows by their root mean square as int8 with a scale; programs that stay take every so many."""
    c = tl.arange(0, PADDED)
    w = tl.load(w_ptr + c, mask=c < width, other=0.0).to(tl.float32)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * width + c, mask=c < width, other=0.0).to(tl.float32)
        x = x * tl.rsqrt(tl.sum(x * x, 0) / width + 1e-6) * w
        scale = tl.maximum(tl.max(tl.abs(x), 0), 1e-5) / 127
        x = x / scale
        tl.store(y_ptr + row * width + c, (x + tl.where(x < 0, -0.5, 0.5)).to(tl.int8), mask=c < width)
        tl.store(scale_ptr + row, scale)
