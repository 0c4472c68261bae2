"""Short Triton kernels of experts, graphs, trees, genomes, scenes and caches, ten of atomics and ten of gathers: a
sixteenth zoo."""

import triton
import triton.language as tl


@triton.jit
def combine_half(x_ptr, gate_ptr, token_ptr, y_ptr, slots, width, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """What experts found for their slots is weighted and added to the tokens' rows in two bytes."""
    s = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (s < slots)[:, None] & (c < width)[None, :]
    token = tl.load(token_ptr + s, mask=s < slots, other=0)
    gate = tl.load(gate_ptr + s, mask=s < slots, other=0.0)
    x = tl.load(x_ptr + s[:, None] * width + c[None, :], mask=mask, other=0.0).to(tl.float32) * gate[:, None]
    tl.atomic_add(y_ptr + token[:, None] * width + c[None, :], x.to(y_ptr.dtype.element_ty), mask=mask, sem="relaxed")


@triton.jit
def expert_load(logit_ptr, count_ptr, load_ptr, tokens, EXPERTS: tl.constexpr, TOP: tl.constexpr,
                BLOCK_T: tl.constexpr):  # fmt: skip
    """How many tokens choose each expert, and with what weight: the TOP largest logits of a token."""
    t, e = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.arange(0, EXPERTS)
    logit = tl.load(logit_ptr + t[:, None] * EXPERTS + e[None, :], mask=(t < tokens)[:, None], other=0.0).to(tl.float32)
    share = tl.exp(logit - tl.max(logit, 1)[:, None])
    share /= tl.sum(share, 1)[:, None]
    for _ in tl.static_range(TOP):
        best, chosen = tl.max(share, 1, return_indices=True)
        tl.atomic_add(count_ptr + chosen, 1, mask=t < tokens, sem="relaxed")
        tl.atomic_add(load_ptr + chosen, best, mask=t < tokens, sem="relaxed")
        share = tl.where(e[None, :] == chosen[:, None], -1.0, share)


@triton.jit
def hash_grid_grad(x_ptr, g_ptr, y_ptr, n, first_cells, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Gradients of two features for each level of a hashed grid: each point adds to eight corners of its cell."""
    at, level = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1)
    mask, f = at < n, tl.arange(0, 2)
    cells = (first_cells * tl.exp2(0.5 * level)).to(tl.int32)
    u = tl.load(x_ptr + 3 * at, mask=mask, other=0.0) * cells
    v = tl.load(x_ptr + 3 * at + 1, mask=mask, other=0.0) * cells
    w = tl.load(x_ptr + 3 * at + 2, mask=mask, other=0.0) * cells
    i, j, k = u.to(tl.int32), v.to(tl.int32), w.to(tl.int32)
    u, v, w = u - i, v - j, w - k
    g = tl.load(g_ptr + (at[:, None] * tl.num_programs(1) + level) * 2 + f[None, :], mask=mask[:, None], other=0.0)
    for corner in tl.static_range(8):
        a, b, c = corner // 4, corner // 2 % 2, corner % 2
        share = tl.where(a == 1, u, 1 - u) * tl.where(b == 1, v, 1 - v) * tl.where(c == 1, w, 1 - w)
        hashed = (i + a).to(tl.uint32) ^ ((j + b).to(tl.uint32) * 2654435761) ^ ((k + c).to(tl.uint32) * 805459861)
        row = level * SIZE + (hashed & (SIZE - 1)).to(tl.int32)
        add = (g.to(tl.float32) * share[:, None]).to(y_ptr.dtype.element_ty)
        tl.atomic_add(y_ptr + row[:, None] * 2 + f[None, :], add, mask=mask[:, None], sem="relaxed")


@triton.jit
def split_k_in_turn(x_ptr, w_ptr, y_ptr, turn_ptr, rows, cols, inner, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                    BLOCK_K: tl.constexpr, SPLIT: tl.constexpr):  # fmt: skip
    """A matmul whose SPLIT parts of a tile add to it in float16 one after another, as a counter gives them turns."""
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(2) * BLOCK_N + tl.arange(0, BLOCK_N)
    part = tl.program_id(0)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(part * BLOCK_K, inner, SPLIT * BLOCK_K):
        k = first + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + m[:, None] * inner + k[None, :], mask=(m < rows)[:, None] & (k < inner)[None, :], other=0.0)
        w = tl.load(w_ptr + k[:, None] * cols + n[None, :], mask=(k < inner)[:, None] & (n < cols)[None, :], other=0.0)
        acc = tl.dot(x, w, acc)
    mask = (m < rows)[:, None] & (n < cols)[None, :]
    y = y_ptr + m[:, None] * cols + n[None, :]
    turn = turn_ptr + tl.program_id(1) * tl.num_programs(2) + tl.program_id(2)
    while tl.atomic_add(turn, 0, sem="acquire") != part:
        pass
    if part > 0:
        acc += tl.load(y, mask=mask, other=0.0, cache_modifier=".cg")
    tl.store(y, acc.to(tl.float16), mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(turn, tl.where(part == SPLIT - 1, 0, part + 1), sem="release")


@triton.jit
def log_sums(x_ptr, group_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Logarithms of sums of exponentials by group, which no atomic adds: each is compared and swapped until it is in;
    those that are in compare with what is never there."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    group = tl.load(group_ptr + at, mask=at < n, other=-1)
    sums, waits = y_ptr + tl.maximum(group, 0), group >= 0
    old = tl.load(sums)
    while tl.max(waits.to(tl.int32), 0) > 0:
        had = old.to(tl.float32, bitcast=True)
        new = tl.maximum(had, x) + tl.log(1 + tl.exp(-tl.abs(had - x)))
        there = tl.atomic_cas(sums, tl.where(waits, old, -1), new.to(tl.int32, bitcast=True), sem="relaxed")
        waits &= there != old
        old = there


@triton.jit
def boosting(x_ptr, g_ptr, h_ptr, leaf_ptr, y_ptr, n, features, LEAVES: tl.constexpr, BLOCK_R: tl.constexpr,
             BLOCK_F: tl.constexpr):  # fmt: skip
    """Sums of both gradients of rows by leaf, feature and bin, as boosted trees are grown from."""
    r = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    f = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    mask = (r < n)[:, None] & (f < features)[None, :]
    leaf = tl.load(leaf_ptr + r, mask=r < n, other=0).to(tl.int32)
    g, h = tl.load(g_ptr + r, mask=r < n, other=0.0), tl.load(h_ptr + r, mask=r < n, other=0.0)
    bin = tl.load(x_ptr + r[:, None] * features + f[None, :], mask=mask, other=0).to(tl.int32)
    at = y_ptr + ((leaf[:, None] * features + f[None, :]) * 256 + bin) * 2
    tl.atomic_add(at, tl.broadcast_to(g[:, None], (BLOCK_R, BLOCK_F)), mask=mask, sem="relaxed")
    tl.atomic_add(at + 1, tl.broadcast_to(h[:, None], (BLOCK_R, BLOCK_F)), mask=mask, sem="relaxed")


@triton.jit
def attention_mass(q_ptr, k_ptr, lse_ptr, y_ptr, queries, keys, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr,
                   BLOCK_N: tl.constexpr):  # fmt: skip
    """How much each key of a head was looked at, to evict those that were not: probabilities are summed over a block of
    queries, and added to what others found."""
    head, d = tl.program_id(1), tl.arange(0, WIDTH)
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    q = tl.load(q_ptr + (head * queries + m[:, None]) * WIDTH + d[None, :], mask=(m < queries)[:, None], other=0.0)
    lse = tl.load(lse_ptr + head * queries + m, mask=m < queries, other=float("inf"))
    for first in range(0, keys, BLOCK_N):
        n = first + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + (head * keys + n[None, :]) * WIDTH + d[:, None], mask=(n < keys)[None, :], other=0.0)
        mass = tl.sum(tl.exp(tl.dot(q, k) - lse[:, None]), 0)
        tl.atomic_add(y_ptr + head * keys + n, mass, mask=n < keys, sem="relaxed")


@triton.jit
def coo_half(row_ptr, col_ptr, v_ptr, x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Entries of a sparse matrix in any order, times a vector, are added up in float16."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    row, col = tl.load(row_ptr + at, mask=mask, other=0), tl.load(col_ptr + at, mask=mask, other=0)
    add = tl.load(v_ptr + at, mask=mask, other=0.0) * tl.load(x_ptr + col, mask=mask, other=0.0)
    tl.atomic_add(y_ptr + row, add, mask=mask, sem="relaxed")


@triton.jit
def deliver_spikes(spike_ptr, start_ptr, to_ptr, delay_ptr, w_ptr, y_ptr, neurons, BLOCK: tl.constexpr):
    """A neuron that fired, a program: its synapses add their weights to what their targets get after their delays."""
    neuron = tl.load(spike_ptr + tl.program_id(0))
    first, end = tl.load(start_ptr + neuron), tl.load(start_ptr + neuron + 1)
    for i in range(first, end, BLOCK):
        at = i + tl.arange(0, BLOCK)
        to = tl.load(to_ptr + at, mask=at < end, other=0)
        delay = tl.load(delay_ptr + at, mask=at < end, other=0).to(tl.int32)
        w = tl.load(w_ptr + at, mask=at < end, other=0.0)
        tl.atomic_add(y_ptr + delay * neurons + to, w, mask=at < end, sem="relaxed")


@triton.jit
def add_runs(value_a, id_a, value_b, id_b):
    return tl.where(id_a == id_b, value_a + value_b, value_b), id_b


@triton.jit
def scanned_segments(x_ptr, id_ptr, y_ptr, n, width, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """Rows of sorted segments are summed by a scan in the block; where a segment or block ends, the sum is added."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    id = tl.load(id_ptr + t, mask=t < n, other=-1)
    after = tl.load(id_ptr + t + 1, mask=(t + 1 < n) & (t % BLOCK_T != BLOCK_T - 1), other=-2)
    mask = (t < n)[:, None] & (c < width)[None, :]
    x = tl.load(x_ptr + t[:, None] * width + c[None, :], mask=mask, other=0.0).to(tl.float32)
    x, _ = tl.associative_scan((x, tl.broadcast_to(id[:, None], (BLOCK_T, BLOCK_C))), 0, add_runs)
    tl.atomic_add(y_ptr + id[:, None] * width + c[None, :], x, mask=mask & (id != after)[:, None], sem="relaxed")


@triton.jit
def paged_bytes(q_ptr, k_ptr, v_ptr, scale_ptr, page_ptr, length_ptr, y_ptr, pages, HEADS: tl.constexpr,
                WIDTH: tl.constexpr, PAGE: tl.constexpr, BLOCK_N: tl.constexpr):  # fmt: skip
    """Attention of a new token over a paged cache of bytes, a scale for each token; HEADS heads share the keys."""
    one, kv = tl.program_id(0), tl.program_id(1)
    h, d = tl.arange(0, HEADS), tl.arange(0, WIDTH)
    length, kvs = tl.load(length_ptr + one), tl.num_programs(1)
    q = tl.load(q_ptr + ((one * kvs + kv) * HEADS + h[:, None]) * WIDTH + d[None, :])
    best, total = tl.full((HEADS,), float("-inf"), tl.float32), tl.zeros((HEADS,), tl.float32)
    acc = tl.zeros((HEADS, WIDTH), tl.float32)
    for first in range(0, length, BLOCK_N):
        t = first + tl.arange(0, BLOCK_N)
        row = (tl.load(page_ptr + one * pages + t // PAGE, mask=t < length, other=0) * PAGE + t % PAGE) * kvs + kv
        scale = tl.load(scale_ptr + row, mask=t < length, other=0.0)
        k = tl.load(k_ptr + row[None, :] * WIDTH + d[:, None], mask=(t < length)[None, :], other=0).to(tl.float16)
        score = tl.where((t < length)[None, :], tl.dot(q, k) * scale[None, :], float("-inf"))
        top = tl.maximum(best, tl.max(score, 1))
        p, old = tl.exp2(score - top[:, None]), tl.exp2(best - top)
        v = tl.load(v_ptr + row[:, None] * WIDTH + d[None, :], mask=(t < length)[:, None], other=0).to(tl.float16)
        acc = tl.dot((p * scale[None, :]).to(tl.float16), v, acc * old[:, None])
        total, best = total * old + tl.sum(p, 1), top
    tl.store(y_ptr + ((one * kvs + kv) * HEADS + h[:, None]) * WIDTH + d[None, :], acc / total[:, None])


@triton.jit
def triplanes(place_ptr, plane_ptr, y_ptr, n, SIDE: tl.constexpr, WIDTH: tl.constexpr, BLOCK_T: tl.constexpr):
    """Features of points in space: the sum of those of three planes, each between four of its cells."""
    t, d = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.arange(0, WIDTH)
    total = tl.zeros((BLOCK_T, WIDTH), tl.float32)
    for plane in tl.static_range(3):
        u = tl.load(place_ptr + 3 * t + plane, mask=t < n, other=0.0) * (SIDE - 1)
        v = tl.load(place_ptr + 3 * t + (plane + 1) % 3, mask=t < n, other=0.0) * (SIDE - 1)
        i, j = tl.minimum(u.to(tl.int32), SIDE - 2), tl.minimum(v.to(tl.int32), SIDE - 2)
        u, v = (u - i)[:, None], (v - j)[:, None]
        at = plane_ptr + ((plane * SIDE + i) * SIDE + j)[:, None] * WIDTH + d[None, :]
        low = tl.load(at).to(tl.float32) * (1 - v) + tl.load(at + WIDTH).to(tl.float32) * v
        at += SIDE * WIDTH
        high = tl.load(at).to(tl.float32) * (1 - v) + tl.load(at + WIDTH).to(tl.float32) * v
        total += low * (1 - u) + high * u
    tl.store(y_ptr + t[:, None] * WIDTH + d[None, :], total.to(y_ptr.dtype.element_ty), mask=(t < n)[:, None])


@triton.jit
def octree(place_ptr, child_ptr, value_ptr, y_ptr, n, DEPTH: tl.constexpr, BLOCK: tl.constexpr):
    """The value of the leaf in which a point lies: from the root on, each level's bits say which of eight children."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x, y = tl.load(place_ptr + at, mask=mask, other=0), tl.load(place_ptr + n + at, mask=mask, other=0)
    z = tl.load(place_ptr + 2 * n + at, mask=mask, other=0)
    node = tl.zeros((BLOCK,), tl.int32)
    for level in range(DEPTH):
        bit = DEPTH - 1 - level
        child = ((x >> bit) & 1) * 4 + ((y >> bit) & 1) * 2 + ((z >> bit) & 1)
        inner = (node >= 0) & mask
        node = tl.where(inner, tl.load(child_ptr + node * 8 + child, mask=inner, other=0), node)
    tl.store(y_ptr + at, tl.load(value_ptr + ~node, mask=mask & (node < 0), other=0.0), mask=mask)


@triton.jit
def probe(key_ptr, table_ptr, value_ptr, y_ptr, n, most, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """A join by a hashed table with open addresses: each key goes on until it or a gap is there."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + at, mask=at < n, other=-1)
    hashed = key.to(tl.uint32) * 2654435769
    place = (hashed ^ (hashed >> 15)).to(tl.int32) & (SIZE - 1)
    found, looks = tl.full((BLOCK,), -1, tl.int32), key >= 0
    for _ in range(most):
        there = tl.load(table_ptr + place, mask=looks, other=-1)
        found = tl.where(looks & (there == key), place, found)
        looks &= (there != key) & (there >= 0)
        place = (place + 1) & (SIZE - 1)
    tl.store(y_ptr + at, tl.load(value_ptr + found, mask=found >= 0, other=0.0), mask=at < n)


@triton.jit
def rank_bits(at_ptr, word_ptr, before_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """How many bits of a long string are set before each place: a count for 512 bits, and up to eight words."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(at_ptr + i, mask=i < n, other=0)
    count = tl.load(before_ptr + at // 512, mask=i < n, other=0)
    for k in tl.static_range(8):
        first = (at // 512 * 8 + k) * 64
        left = tl.minimum(at - first, 64)
        word = tl.load(word_ptr + first // 64, mask=(i < n) & (left > 0), other=0).to(tl.uint64, bitcast=True)
        word = tl.where(left >= 64, word, word & ((tl.full((BLOCK,), 1, tl.uint64) << (left & 63).to(tl.uint64)) - 1))
        word -= (word >> 1) & 0x5555555555555555
        word = (word & 0x3333333333333333) + ((word >> 2) & 0x3333333333333333)
        word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0F
        count += tl.where(left > 0, ((word * 0x0101010101010101) >> 56).to(tl.int32), 0)
    tl.store(y_ptr + i, count, mask=i < n)


@triton.jit
def kmers(base_ptr, table_ptr, y_ptr, n, LENGTH: tl.constexpr, BLOCK: tl.constexpr):
    """How often the LENGTH bases from each place on are known: their two bits each are a place of a table."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    word = tl.zeros((BLOCK,), tl.int32)
    for k in tl.static_range(LENGTH):
        word = word * 4 + tl.load(base_ptr + at + k, mask=at < n, other=0).to(tl.int32)
    tl.store(y_ptr + at, tl.load(table_ptr + word, mask=at < n, other=0), mask=at < n)


@triton.jit
def reslice(x_ptr, turn_ptr, y_ptr, high, wide, SIDE: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """A slanted slice through a volume, from the nearest voxels; a slice a program along the third axis."""
    r = (tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    c = (tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    inside, place = (r < high) & (c < wide), tl.zeros((BLOCK_R, BLOCK_C), tl.int32)
    for axis in tl.static_range(3):
        turn = turn_ptr + (tl.program_id(2) * 3 + axis) * 3
        i = (tl.load(turn) + tl.load(turn + 1) * r + tl.load(turn + 2) * c + 0.5).to(tl.int32)
        inside &= (i >= 0) & (i < SIDE)
        place = place * SIDE + i
    x = tl.load(x_ptr + place, mask=inside, other=0)
    tl.store(y_ptr + (tl.program_id(2) * high + r) * wide + c, x, mask=(r < high) & (c < wide))


@triton.jit
def alias_draw(row_ptr, even_ptr, coin_ptr, share_ptr, other_ptr, y_ptr, n, words, BLOCK: tl.constexpr):
    """Draws of words by their rows' shares: an even draw keeps its word or takes the one that shares its place."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    even, coin = tl.load(even_ptr + at, mask=mask, other=0.0), tl.load(coin_ptr + at, mask=mask, other=0.0)
    word = tl.minimum((even * words).to(tl.int32), words - 1)
    place = tl.load(row_ptr + at, mask=mask, other=0) * words + word
    keeps = coin < tl.load(share_ptr + place, mask=mask, other=0.0)
    other = tl.load(other_ptr + place, mask=mask & ~keeps, other=0).to(tl.int32)
    tl.store(y_ptr + at, tl.where(keeps, word, other), mask=mask)


@triton.jit
def wander(start_ptr, to_ptr, y_ptr, n, steps, nodes, BLOCK: tl.constexpr):
    """Walks from node to node along edges drawn at random, all steps kept; step by step side by side."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask, node = at < n, at % nodes
    for step in range(steps):
        first = tl.load(start_ptr + node, mask=mask, other=0)
        many = tl.load(start_ptr + node + 1, mask=mask, other=1) - first
        drawn = (at + step * 40503).to(tl.uint32) * 2654435769
        drawn = (drawn ^ (drawn >> 15)) * 2246822519
        edge = first + ((drawn >> 8) % tl.maximum(many, 1).to(tl.uint32)).to(tl.int32)
        node = tl.where(many > 0, tl.load(to_ptr + edge, mask=mask & (many > 0), other=0), node)
        tl.store(y_ptr + step * n + at, node, mask=mask)


@triton.jit
def deform_attention(value_ptr, place_ptr, share_ptr, y_ptr, queries, HEADS: tl.constexpr, POINTS: tl.constexpr,
                     WIDTH: tl.constexpr, LEVELS: tl.constexpr, SIDE: tl.constexpr, BLOCK_Q: tl.constexpr):  # fmt: skip
    """What a query sees at POINTS places of each of LEVELS maps, each half the last one's size, between four cells."""
    q, d, head = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q), tl.arange(0, WIDTH), tl.program_id(1)
    mask, first = q < queries, 0
    total = tl.zeros((BLOCK_Q, WIDTH), tl.float32)
    for level in tl.static_range(LEVELS):
        side = SIDE >> level
        for point in range(POINTS):
            at = ((q * HEADS + head) * LEVELS + level) * POINTS + point
            share = tl.load(share_ptr + at, mask=mask, other=0.0)
            u = tl.load(place_ptr + 2 * at, mask=mask, other=0.0) * side - 0.5
            v = tl.load(place_ptr + 2 * at + 1, mask=mask, other=0.0) * side - 0.5
            i, j = tl.floor(u).to(tl.int32), tl.floor(v).to(tl.int32)
            u, v = u - i, v - j
            for corner in tl.static_range(4):
                a, b = i + corner // 2, j + corner % 2
                part = tl.where(corner // 2 == 1, u, 1 - u) * tl.where(corner % 2 == 1, v, 1 - v) * share
                inside = mask & (a >= 0) & (a < side) & (b >= 0) & (b < side)
                row = value_ptr + ((first + a * side + b) * HEADS + head)[:, None] * WIDTH + d[None, :]
                total += tl.load(row, mask=inside[:, None], other=0.0).to(tl.float32) * part[:, None]
        first += side * side
    out = y_ptr + ((q * HEADS + head) * WIDTH)[:, None] + d[None, :]
    tl.store(out, total.to(y_ptr.dtype.element_ty), mask=mask[:, None])
