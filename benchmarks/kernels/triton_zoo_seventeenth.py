"""Short Triton kernels of gradients, graphs, sparse sums, tokens and tables, ten of atomics and ten of gathers: a
seventeenth zoo."""

import triton
import triton.language as tl


@triton.jit
def argmax_pool_grad(g_ptr, place_ptr, y_ptr, outs, ins, BLOCK: tl.constexpr):
    """The gradient of a pooled value goes to where the largest was found; windows share cells."""
    at, plane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1)
    g = tl.load(g_ptr + plane * outs + at, mask=at < outs, other=0.0)
    place = tl.load(place_ptr + plane * outs + at, mask=at < outs, other=0)
    tl.atomic_add(y_ptr + plane * ins + place, g, mask=at < outs, sem="relaxed")


@triton.jit
def roi_align_grad(g_ptr, box_ptr, y_ptr, wide, width, BINS: tl.constexpr, BLOCK_C: tl.constexpr):
    """The gradient of a bin of a box is shared by the four cells around its middle."""
    box, bin = tl.program_id(0) // (BINS * BINS), tl.program_id(0) % (BINS * BINS)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    top, left = tl.load(box_ptr + 4 * box), tl.load(box_ptr + 4 * box + 1)
    u = top + (bin // BINS + 0.5) * (tl.load(box_ptr + 4 * box + 2) - top) / BINS
    v = left + (bin % BINS + 0.5) * (tl.load(box_ptr + 4 * box + 3) - left) / BINS
    i, j = u.to(tl.int32), v.to(tl.int32)
    u, v = u - i, v - j
    g = tl.load(g_ptr + tl.program_id(0) * width + c, mask=c < width, other=0.0)
    at = y_ptr + (i * wide + j) * width + c
    tl.atomic_add(at, g * (1 - u) * (1 - v), mask=c < width, sem="relaxed")
    tl.atomic_add(at + width, g * (1 - u) * v, mask=c < width, sem="relaxed")
    tl.atomic_add(at + wide * width, g * u * (1 - v), mask=c < width, sem="relaxed")
    tl.atomic_add(at + (wide + 1) * width, g * u * v, mask=c < width, sem="relaxed")


@triton.jit
def counting_sort(key_ptr, first_ptr, count_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Each key takes the next place of those that its kind has."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + at, mask=at < n, other=0)
    place = tl.load(first_ptr + key) + tl.atomic_add(count_ptr + key, 1, mask=at < n, sem="relaxed")
    tl.store(y_ptr + place % n, key, mask=at < n)


@triton.jit
def bucket_softmax(x_ptr, top_ptr, bucket_ptr, y_ptr, n, HEADS: tl.constexpr, BLOCK_T: tl.constexpr):
    """Sums of exponentials by bucket and head, below the bucket's largest."""
    t, h = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.arange(0, HEADS)
    mask = (t < n)[:, None]
    bucket = tl.load(bucket_ptr + t, mask=t < n, other=0)
    x = tl.load(x_ptr + t[:, None] * HEADS + h[None, :], mask=mask, other=0.0)
    top = tl.load(top_ptr + bucket[:, None] * HEADS + h[None, :], mask=mask, other=0.0)
    tl.atomic_add(y_ptr + bucket[:, None] * HEADS + h[None, :], tl.exp(x - top), mask=mask, sem="relaxed")


@triton.jit
def convolve_graph(from_ptr, to_ptr, degree_ptr, x_ptr, y_ptr, n, width, BLOCK_T: tl.constexpr,
                   BLOCK_C: tl.constexpr):  # fmt: skip
    """An edge brings its source's features to its target, scaled by the degrees of both."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (t < n)[:, None] & (c < width)[None, :]
    source, target = tl.load(from_ptr + t, mask=t < n, other=0), tl.load(to_ptr + t, mask=t < n, other=0)
    both = tl.load(degree_ptr + source).to(tl.float32) * tl.load(degree_ptr + target).to(tl.float32)
    x = tl.load(x_ptr + source[:, None] * width + c[None, :], mask=mask, other=0.0).to(tl.float32)
    x *= tl.rsqrt(both)[:, None]
    tl.atomic_add(y_ptr + target[:, None] * width + c[None, :], x.to(y_ptr.dtype.element_ty), mask=mask, sem="relaxed")


@triton.jit
def voxel_peaks(place_ptr, x_ptr, y_ptr, n, SIDE: tl.constexpr, WIDTH: tl.constexpr, BLOCK_T: tl.constexpr):
    """The largest of each feature of the points of a voxel."""
    t, d = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.arange(0, WIDTH)
    cell = tl.zeros((BLOCK_T,), tl.int32)
    for axis in tl.static_range(3):
        cell = cell * SIDE + (tl.load(place_ptr + 3 * t + axis, mask=t < n, other=0.0) * SIDE).to(tl.int32)
    mask = (t < n)[:, None]
    x = tl.load(x_ptr + t[:, None] * WIDTH + d[None, :], mask=mask, other=0.0)
    tl.atomic_max(y_ptr + cell[:, None] * WIDTH + d[None, :], x, mask=mask, sem="relaxed")


@triton.jit
def row_adagrad(row_ptr, g_ptr, state_ptr, w_ptr, n, WIDTH: tl.constexpr, BLOCK_T: tl.constexpr):
    """Rows that had a gradient are stepped by it over the root of what the row has had of squares."""
    t, d = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.arange(0, WIDTH)
    mask = (t < n)[:, None]
    row = tl.load(row_ptr + t, mask=t < n, other=0)
    g = tl.load(g_ptr + t[:, None] * WIDTH + d[None, :], mask=mask, other=0.0).to(tl.float32)
    square = tl.sum(g * g, 1) / WIDTH
    had = tl.atomic_add(state_ptr + row, square, mask=t < n, sem="relaxed")
    step = -0.05 * g * tl.rsqrt(had + square + 1e-6)[:, None]
    tl.atomic_add(w_ptr + row[:, None] * WIDTH + d[None, :], step.to(w_ptr.dtype.element_ty), mask=mask, sem="relaxed")


@triton.jit
def block_sparse_add(block_ptr, row_ptr, col_ptr, x_ptr, y_ptr, width, SIZE: tl.constexpr, BLOCK_C: tl.constexpr):
    """A block of a sparse matrix a program: its product is added to its rows in two bytes."""
    one, s = tl.program_id(0), tl.arange(0, SIZE)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    row, col = tl.load(row_ptr + one) * SIZE + s, tl.load(col_ptr + one) * SIZE + s
    block = tl.load(block_ptr + (one * SIZE + s[:, None]) * SIZE + s[None, :])
    x = tl.load(x_ptr + col[:, None] * width + c[None, :], mask=(c < width)[None, :], other=0.0)
    add = tl.dot(block, x).to(y_ptr.dtype.element_ty)
    tl.atomic_add(y_ptr + row[:, None] * width + c[None, :], add, mask=(c < width)[None, :], sem="relaxed")


@triton.jit
def first_and_last(user_ptr, time_ptr, first_ptr, last_ptr, n, BLOCK: tl.constexpr):
    """When each user was seen first and last."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    user, time = tl.load(user_ptr + at, mask=at < n, other=0), tl.load(time_ptr + at, mask=at < n, other=0)
    tl.atomic_min(first_ptr + user, time, mask=at < n, sem="relaxed")
    tl.atomic_max(last_ptr + user, time, mask=at < n, sem="relaxed")


@triton.jit
def run_lengths(id_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Lengths of runs: where one ends its place is added, where it begins subtracted."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    id = tl.load(id_ptr + at, mask=at < n, other=0)
    before = tl.load(id_ptr + at - 1, mask=(at > 0) & (at < n), other=-1)
    after = tl.load(id_ptr + at + 1, mask=at + 1 < n, other=-1)
    tl.atomic_add(y_ptr + id, at + 1, mask=(at < n) & (id != after), sem="relaxed")
    tl.atomic_add(y_ptr + id, -at, mask=(at < n) & (id != before), sem="relaxed")


@triton.jit
def rope_of_sections(x_ptr, place_ptr, cos_ptr, sin_ptr, y_ptr, tokens, HALF: tl.constexpr, BLOCK_T: tl.constexpr):
    """Pairs are turned by the token's time, row or column, as their section says; a head a program."""
    t, d = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T), tl.arange(0, HALF)
    mask, axis = (t < tokens)[:, None], tl.where(d < HALF // 4, 0, tl.where(d < HALF * 5 // 8, 1, 2))
    place = tl.load(place_ptr + axis[None, :] * tokens + t[:, None], mask=mask, other=0)
    cos = tl.load(cos_ptr + place * HALF + d[None, :], mask=mask, other=0.0)
    sin = tl.load(sin_ptr + place * HALF + d[None, :], mask=mask, other=0.0)
    at = (t[:, None] * tl.num_programs(1) + tl.program_id(1)) * 2 * HALF + d[None, :]
    a = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(x_ptr + at + HALF, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, (a * cos - b * sin).to(y_ptr.dtype.element_ty), mask=mask)
    tl.store(y_ptr + at + HALF, (b * cos + a * sin).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def label_logprobs(logit_ptr, label_ptr, lse_ptr, y_ptr, n, words, BLOCK: tl.constexpr):
    """How likely the label of each row was."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    label = tl.load(label_ptr + at, mask=at < n, other=0)
    logit = tl.load(logit_ptr + at * words + label, mask=at < n, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, logit - tl.load(lse_ptr + at, mask=at < n, other=0.0), mask=at < n)


@triton.jit
def page_bounds(k_ptr, table_ptr, low_ptr, high_ptr, n, PAGE: tl.constexpr, WIDTH: tl.constexpr,
                EACH: tl.constexpr):  # fmt: skip
    """The least and the largest of each channel of the keys of EACH pages of a sequence, by its table."""
    head, heads = tl.program_id(1), tl.num_programs(1)
    s, d = tl.arange(0, PAGE), tl.arange(0, WIDTH)
    for page in range(tl.program_id(0) * EACH, tl.minimum(tl.program_id(0) * EACH + EACH, n)):
        row = tl.load(table_ptr + page) * PAGE + s
        k = tl.load(k_ptr + (row[:, None] * heads + head) * WIDTH + d[None, :])
        tl.store(low_ptr + (page * heads + head) * WIDTH + d, tl.min(k, 0))
        tl.store(high_ptr + (page * heads + head) * WIDTH + d, tl.max(k, 0))


@triton.jit
def beam_backtrack(token_ptr, parent_ptr, y_ptr, n, beams, steps, BLOCK: tl.constexpr):
    """The tokens of each beam, from its last back along its parents."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask, beam, first = at < n, at % beams, at // beams * beams
    for back in range(steps):
        row = (steps - 1 - back) * n
        tl.store(y_ptr + row + at, tl.load(token_ptr + row + first + beam, mask=mask, other=0), mask=mask)
        beam = tl.load(parent_ptr + row + first + beam, mask=mask, other=0)


@triton.jit
def residual_codes(code_ptr, book_ptr, y_ptr, n, width, BOOKS: tl.constexpr, BLOCK_T: tl.constexpr,
                   BLOCK_C: tl.constexpr):  # fmt: skip
    """What was quantised in residuals: the sum of a row of each book."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (t < n)[:, None] & (c < width)[None, :]
    total = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    for book in tl.static_range(BOOKS):
        row = tl.load(code_ptr + t * BOOKS + book, mask=t < n, other=0).to(tl.int32) + 256 * book
        total += tl.load(book_ptr + row[:, None] * width + c[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + t[:, None] * width + c[None, :], total.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def bit_reverse(x_ptr, y_ptr, BITS: tl.constexpr, BLOCK: tl.constexpr):
    """Rows in the order of their places' bits turned round."""
    at, row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * (1 << BITS)
    turned = tl.zeros((BLOCK,), tl.int32)
    for bit in tl.static_range(BITS):
        turned = turned * 2 + (at >> bit & 1)
    tl.store(y_ptr + row + at, tl.load(x_ptr + row + turned, mask=at < 1 << BITS), mask=at < 1 << BITS)


@triton.jit
def conv_by_rules(x_ptr, w_ptr, rule_ptr, y_ptr, n, INS: tl.constexpr, OUTS: tl.constexpr, BLOCK_M: tl.constexpr):
    """A convolution of occupied voxels: a rule for each of 27 taps says where a voxel's neighbour is, if there is."""
    m, c, o = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, INS), tl.arange(0, OUTS)
    acc = tl.zeros((BLOCK_M, OUTS), tl.float32)
    for tap in range(27):
        row = tl.load(rule_ptr + tap * n + m, mask=m < n, other=-1)
        x = tl.load(x_ptr + row[:, None] * INS + c[None, :], mask=(row >= 0)[:, None], other=0.0)
        acc = tl.dot(x, tl.load(w_ptr + (tap * INS + c[:, None]) * OUTS + o[None, :]), acc)
    tl.store(y_ptr + m[:, None] * OUTS + o[None, :], acc.to(tl.float16), mask=(m < n)[:, None])


@triton.jit
def grammar_mask(logit_ptr, grammar_ptr, bit_ptr, y_ptr, words, BLOCK: tl.constexpr):
    """Logits of the words that a row's grammar lets through, a bit for each."""
    row, at = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    grammar = tl.load(grammar_ptr + row)
    bits = tl.load(bit_ptr + grammar * (words // 32) + at // 32, mask=at < words, other=0)
    logit = tl.load(logit_ptr + row * words + at, mask=at < words, other=0.0)
    tl.store(y_ptr + row * words + at, tl.where((bits >> (at % 32)) & 1 == 1, logit, -10.0), mask=at < words)


@triton.jit
def inverse_cdf(u_ptr, table_ptr, y_ptr, n, width, most, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """Even draws become those of each column's quantiles, between the two next to them."""
    t = (tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T))[:, None]
    c = (tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    mask = (t < n) & (c < width)
    u = tl.load(u_ptr + t * width + c, mask=mask, other=0.0) * most
    i = tl.minimum(u.to(tl.int32), most - 1)
    at = table_ptr + c * (most + 1) + i
    low, high = tl.load(at, mask=mask, other=0.0), tl.load(at + 1, mask=mask, other=0.0)
    tl.store(y_ptr + t * width + c, low + (high - low) * (u - i), mask=mask)


@triton.jit
def oblivious_trees(x_ptr, feature_ptr, border_ptr, leaf_ptr, y_ptr, n, features, trees, DEPTH: tl.constexpr,
                    BLOCK: tl.constexpr):  # fmt: skip
    """Trees that ask the same of all nodes of a level: the answers' bits are the leaf."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for tree in range(trees):
        leaf = tl.zeros((BLOCK,), tl.int32)
        for level in tl.static_range(DEPTH):
            feature = tl.load(feature_ptr + tree * DEPTH + level)
            x = tl.load(x_ptr + at * features + feature, mask=at < n, other=0)
            leaf = leaf * 2 + (x > tl.load(border_ptr + tree * DEPTH + level)).to(tl.int32)
        total += tl.load(leaf_ptr + (tree << DEPTH) + leaf)
    tl.store(y_ptr + at, total, mask=at < n)
