"""Triton kernels of different kinds, as people write them; `zoo.py` measures them and scores how carver ranks them."""

import triton
import triton.language as tl


@triton.jit
def causal_attention(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, seq, stride_z, stride_h, stride_kz, stride_kh, stride_s,
    GROUP: tl.constexpr, HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Forward pass in two loops: whole blocks of keys, then those that the diagonal cuts."""
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    head = tl.program_id(1)
    batch = tl.program_id(2)
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, HEAD)
    cols = tl.arange(0, BLOCK_N)
    q_base = q_ptr + batch * stride_z + head * stride_h
    kv_offset = batch * stride_kz + (head // GROUP) * stride_kh
    q = tl.load(q_base + rows[:, None] * stride_s + dims[None, :], mask=rows[:, None] < seq, other=0.0)
    k_ptrs = k_ptr + kv_offset + cols[None, :] * stride_s + dims[:, None]
    v_ptrs = v_ptr + kv_offset + cols[:, None] * stride_s + dims[None, :]
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD), tl.float32)
    whole = block * BLOCK_M // BLOCK_N * BLOCK_N
    for start in range(0, whole, BLOCK_N):
        k = tl.load(k_ptrs + start * stride_s)
        scores = tl.dot(q, k) * (scale * 1.44269504)
        new_top = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp2(scores - new_top[:, None])
        shrink = tl.exp2(top - new_top)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        v = tl.load(v_ptrs + start * stride_s)
        acc = tl.dot(p.to(v.dtype), v, acc)
        top = new_top
    for start in range(whole, tl.minimum((block + 1) * BLOCK_M, seq), BLOCK_N):
        inside = start + cols < seq
        k = tl.load(k_ptrs + start * stride_s, mask=inside[None, :], other=0.0)
        scores = tl.dot(q, k) * (scale * 1.44269504)
        scores = tl.where(rows[:, None] >= start + cols[None, :], scores, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp2(scores - new_top[:, None])
        shrink = tl.exp2(top - new_top)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        v = tl.load(v_ptrs + start * stride_s, mask=inside[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
        top = new_top
    out = out_ptr + batch * stride_z + head * stride_h + rows[:, None] * stride_s + dims[None, :]
    tl.store(out, (acc / total[:, None]).to(out_ptr.dtype.element_ty), mask=rows[:, None] < seq)


@triton.jit
def window_attention(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, seq, window, stride_h, stride_s,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Each query sees the `window` keys up to itself."""
    block = tl.program_id(0)
    head = tl.program_id(1)
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, HEAD)
    cols = tl.arange(0, BLOCK_N)
    base = head * stride_h
    q = tl.load(q_ptr + base + rows[:, None] * stride_s + dims[None, :], mask=rows[:, None] < seq, other=0.0)
    top = tl.full((BLOCK_M,), -1e30, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD), tl.float32)
    first = tl.maximum(block * BLOCK_M - window + 1, 0) // BLOCK_N * BLOCK_N
    last = tl.minimum((block + 1) * BLOCK_M, seq)
    for start in range(first, last, BLOCK_N):
        keys = start + cols
        k = tl.load(k_ptr + base + keys[None, :] * stride_s + dims[:, None], mask=keys[None, :] < seq, other=0.0)
        scores = tl.dot(q, k) * (scale * 1.44269504)
        seen = (rows[:, None] >= keys[None, :]) & (rows[:, None] - keys[None, :] < window)
        scores = tl.where(seen, scores, -1e30)
        new_top = tl.maximum(top, tl.max(scores, 1))
        p = tl.where(seen, tl.exp2(scores - new_top[:, None]), 0.0)
        shrink = tl.exp2(top - new_top)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(v_ptr + base + keys[:, None] * stride_s + dims[None, :], mask=keys[:, None] < seq, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
        top = new_top
    out = out_ptr + base + rows[:, None] * stride_s + dims[None, :]
    tl.store(out, (acc / total[:, None]).to(out_ptr.dtype.element_ty), mask=rows[:, None] < seq)


@triton.jit
def paged_decode(
    q_ptr, k_ptr, v_ptr, table_ptr, length_ptr, out_ptr, lse_ptr, scale, pages, splits,
    GROUP: tl.constexpr, HEADS: tl.constexpr, HEAD: tl.constexpr, PAGE: tl.constexpr, BLOCK_N: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """One new token a sequence; the keys lie in pages, and programs share a sequence's keys out."""
    batch = tl.program_id(0)
    kv_head = tl.program_id(1)
    part = tl.program_id(2)
    length = tl.load(length_ptr + batch)
    each = tl.cdiv(tl.cdiv(length, splits), BLOCK_N) * BLOCK_N
    begin = part * each
    end = tl.minimum(begin + each, length)
    rows = tl.arange(0, ROWS)
    dims = tl.arange(0, HEAD)
    cols = tl.arange(0, BLOCK_N)
    heads = kv_head * GROUP + rows
    real = rows < GROUP
    q_offsets = (batch * HEADS * GROUP + heads)[:, None] * HEAD + dims[None, :]
    q = tl.load(q_ptr + q_offsets, mask=real[:, None], other=0.0)
    top = tl.full((ROWS,), -1e30, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, HEAD), tl.float32)
    for start in range(begin, end, BLOCK_N):
        keys = start + cols
        inside = keys < end
        page = tl.load(table_ptr + batch * pages + keys // PAGE, mask=inside, other=0)
        places = (page * PAGE + keys % PAGE) * (HEADS * HEAD) + kv_head * HEAD
        k = tl.load(k_ptr + places[None, :] + dims[:, None], mask=inside[None, :], other=0.0)
        scores = tl.dot(q, k) * (scale * 1.44269504)
        scores = tl.where(inside[None, :], scores, -1e30)
        new_top = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp2(scores - new_top[:, None])
        shrink = tl.exp2(top - new_top)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(v_ptr + places[:, None] + dims[None, :], mask=inside[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
        top = new_top
    where = (batch * HEADS * GROUP + heads) * splits + part
    out = acc / tl.maximum(total, 1e-30)[:, None]
    tl.store(out_ptr + where[:, None] * HEAD + dims[None, :], out, mask=real[:, None])
    tl.store(lse_ptr + where, top + tl.log2(tl.maximum(total, 1e-30)), mask=real)


@triton.jit
def matmul_split_k(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):  # fmt: skip
    """Parts of K are added to a zeroed float32 result by atomics."""
    tile = tl.program_id(0)
    part = tl.program_id(1)
    columns = tl.cdiv(N, BLOCK_N)
    m = tile // columns * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    k = part * BLOCK_K + tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (m % M)[:, None] * stride_am + k[None, :]
    b_ptrs = b_ptr + k[:, None] * stride_bk + (n % N)[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K * SPLIT_K)):
        left = K - step * BLOCK_K * SPLIT_K
        a = tl.load(a_ptrs, mask=k[None, :] < left, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < left, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K * SPLIT_K
        b_ptrs += BLOCK_K * SPLIT_K * stride_bk
    out = c_ptr + m[:, None] * stride_cm + n[None, :]
    mask = (m[:, None] < M) & (n[None, :] < N)
    if SPLIT_K == 1:
        tl.store(out, acc, mask=mask)
    else:
        tl.atomic_add(out, acc, mask=mask, sem="relaxed")


@triton.jit
def matmul_persistent(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """A program a multiprocessor walks the tiles; operands and result through tensor descriptors; B is N by K."""
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * tiles_n
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
        first_m = tile // in_group * GROUP_M
        rows = tl.minimum(tiles_m - first_m, GROUP_M)
        m = (first_m + tile % in_group % rows) * BLOCK_M
        n = tile % in_group // rows * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, tl.cdiv(K, BLOCK_K)):
            a = a_desc.load([m, k * BLOCK_K])
            b = b_desc.load([n, k * BLOCK_K])
            acc = tl.dot(a, b.T, acc)
        c_desc.store([m, n], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def matmul_int4(
    x_ptr, w_ptr, scale_ptr, out_ptr, M, N, K, stride_x, stride_w, stride_s, stride_o,
    QUANT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Weights of four bits, eight to an int32 along K, one scale for QUANT of K and a column."""
    tile = tl.program_id(0)
    columns = tl.cdiv(N, BLOCK_N)
    m = tile // columns * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + m[:, None] * stride_x + k[None, :]
    w_ptrs = w_ptr + (k[:, None] // 8) * stride_w + n[None, :]
    shift = (k % 8) * 4
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        x = tl.load(x_ptrs, mask=m[:, None] < M, other=0.0)
        packed = tl.load(w_ptrs)
        scale = tl.load(scale_ptr + (start // QUANT) * stride_s + n)
        w = (((packed >> shift[:, None]) & 15) - 8).to(tl.float16) * scale[None, :]
        acc = tl.dot(x, w, acc)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K // 8 * stride_w
    tl.store(out_ptr + m[:, None] * stride_o + n[None, :], acc.to(tl.float16), mask=m[:, None] < M)


@triton.jit
def gated_matmul(
    x_ptr, gate_ptr, up_ptr, out_ptr, M, N, K, stride_x, stride_w, stride_o,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """silu(x gate) * (x up): two accumulators that share the rows of x; both weights are N by K."""
    tile = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * tiles_n
    first_m = tile // in_group * GROUP_M
    rows = tl.minimum(tiles_m - first_m, GROUP_M)
    m = (first_m + tile % in_group % rows) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile % in_group // rows * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + m[:, None] * stride_x + k[None, :]
    offsets = n[None, :] * stride_w + k[:, None]
    gate = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    up = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, tl.cdiv(K, BLOCK_K)):
        x = tl.load(x_ptrs, mask=m[:, None] < M, other=0.0)
        gate = tl.dot(x, tl.load(gate_ptr + offsets), gate)
        up = tl.dot(x, tl.load(up_ptr + offsets), up)
        x_ptrs += BLOCK_K
        offsets += BLOCK_K
    value = gate * tl.sigmoid(gate) * up
    tl.store(out_ptr + m[:, None] * stride_o + n[None, :], value.to(out_ptr.dtype.element_ty), mask=m[:, None] < M)


@triton.jit
def grouped_gemm(
    x_ptr, w_ptr, out_ptr, start_ptr, N, K, stride_x, stride_e, stride_w, stride_o,
    GROUPS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Rows sorted by expert, start_ptr[e] to start_ptr[e + 1]; persistent programs walk the tiles of all experts."""
    tile = tl.program_id(0)
    columns = tl.cdiv(N, BLOCK_N)
    done = 0
    for expert in range(GROUPS):
        begin = tl.load(start_ptr + expert)
        end = tl.load(start_ptr + expert + 1)
        tiles = tl.cdiv(end - begin, BLOCK_M) * columns
        while tile < done + tiles:
            m = begin + (tile - done) // columns * BLOCK_M + tl.arange(0, BLOCK_M)
            n = (tile - done) % columns * BLOCK_N + tl.arange(0, BLOCK_N)
            k = tl.arange(0, BLOCK_K)
            x_ptrs = x_ptr + m[:, None] * stride_x + k[None, :]
            w_ptrs = w_ptr + expert * stride_e + n[None, :] * stride_w + k[:, None]
            acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            for _ in range(0, tl.cdiv(K, BLOCK_K)):
                x = tl.load(x_ptrs, mask=m[:, None] < end, other=0.0)
                acc = tl.dot(x, tl.load(w_ptrs), acc)
                x_ptrs += BLOCK_K
                w_ptrs += BLOCK_K
            out = out_ptr + m[:, None] * stride_o + n[None, :]
            tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=m[:, None] < end)
            tile += tl.num_programs(0)
        done += tiles


@triton.jit
def layer_norm(x_ptr, weight_ptr, bias_ptr, out_ptr, stride, cols, eps, BLOCK: tl.constexpr):
    """A row a program, read once for the mean and variance and once more for the result."""
    row = tl.program_id(0)
    x_row = x_ptr + row * stride
    total = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + i, mask=i < cols, other=0.0).to(tl.float32)
        total += x
        squares += x * x
    mean = tl.sum(total, 0) / cols
    scale = tl.rsqrt(tl.sum(squares, 0) / cols - mean * mean + eps)
    for start in range(0, cols, BLOCK):
        i = start + tl.arange(0, BLOCK)
        mask = i < cols
        x = tl.load(x_row + i, mask=mask, other=0.0).to(tl.float32)
        y = (x - mean) * scale * tl.load(weight_ptr + i, mask=mask) + tl.load(bias_ptr + i, mask=mask)
        tl.store(out_ptr + row * stride + i, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def quantise_groups(x_ptr, q_ptr, scale_ptr, rows, cols, ROWS: tl.constexpr, GROUP: tl.constexpr, GROUPS: tl.constexpr):
    """Rows of bfloat16 to float8, one scale for each GROUP of a row."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    g = tl.program_id(1) * GROUPS + tl.arange(0, GROUPS)
    groups = cols // GROUP
    c = tl.arange(0, GROUP)
    inside = (r < rows)[:, None] & (g < groups)[None, :]
    offsets = r[:, None, None] * cols + g[None, :, None] * GROUP + c[None, None, :]
    x = tl.load(x_ptr + offsets, mask=inside[:, :, None], other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x), 2), 1e-10) / 448.0
    tl.store(q_ptr + offsets, (x / scale[:, :, None]).to(tl.float8e4nv), mask=inside[:, :, None])
    tl.store(scale_ptr + r[:, None] * groups + g[None, :], scale, mask=inside)


@triton.jit
def cross_entropy(logits_ptr, target_ptr, loss_ptr, vocabulary, stride, BLOCK: tl.constexpr):
    """Loss of each row by an online softmax, and its gradient over the logits, in place."""
    row = tl.program_id(0)
    base = logits_ptr + row.to(tl.int64) * stride
    target = tl.load(target_ptr + row)
    at_target = tl.load(base + target).to(tl.float32)
    top = float("-inf")
    total = 0.0
    for start in range(0, vocabulary, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(base + i, mask=i < vocabulary, other=float("-inf")).to(tl.float32)
        new_top = tl.maximum(top, tl.max(x, 0))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(x - new_top), 0)
        top = new_top
    for start in range(0, vocabulary, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(base + i, mask=i < vocabulary, other=float("-inf")).to(tl.float32)
        gradient = tl.exp(x - top) / total - tl.where(i == target, 1.0, 0.0)
        tl.store(base + i, gradient.to(logits_ptr.dtype.element_ty), mask=i < vocabulary)
    tl.store(loss_ptr + row, top + tl.log(total) - at_target)


@triton.jit
def linear_attention(
    q_ptr, k_ptr, v_ptr, out_ptr, seq, stride_h, stride_s, scale,
    HEAD: tl.constexpr, CHUNK: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Causal, without a softmax: a program carries the state of one head and BLOCK_V of its values over the chunks."""
    values = tl.program_id(0) * BLOCK_V + tl.arange(0, BLOCK_V)
    base = tl.program_id(1) * stride_h
    dims = tl.arange(0, HEAD)
    steps = tl.arange(0, CHUNK)
    causal = steps[:, None] >= steps[None, :]
    state = tl.zeros((HEAD, BLOCK_V), tl.float32)
    for start in range(0, seq, CHUNK):
        s = start + steps
        q = tl.load(q_ptr + base + s[:, None] * stride_s + dims[None, :])
        k = tl.load(k_ptr + base + dims[:, None] + s[None, :] * stride_s)
        v = tl.load(v_ptr + base + s[:, None] * stride_s + values[None, :])
        q = (q * scale).to(k.dtype)
        out = tl.dot(q, state.to(q.dtype))
        scores = tl.where(causal, tl.dot(q, k), 0.0)
        out = tl.dot(scores.to(v.dtype), v, out)
        state = tl.dot(k, v, state)
        tl.store(out_ptr + base + s[:, None] * stride_s + values[None, :], out.to(out_ptr.dtype.element_ty))


@triton.jit
def conv2d(
    x_ptr, w_ptr, out_ptr, N, H, W, C, F, P, Q,
    R: tl.constexpr, S: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """As an implicit matmul; channels last; weights F by R by S by C."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    f = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    c = tl.arange(0, BLOCK_K)
    image = m // (P * Q)
    top = m // Q % P * STRIDE - PAD
    left = m % Q * STRIDE - PAD
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    chunks = tl.cdiv(C, BLOCK_K)
    for step in range(0, R * S * chunks):
        tap = step // chunks
        channel = step % chunks * BLOCK_K + c
        y = top + tap // S
        x = left + tap % S
        inside = (y >= 0) & (y < H) & (x >= 0) & (x < W) & (image < N)
        place = ((image * H + y) * W + x) * C
        real = channel < C
        a = tl.load(x_ptr + place[:, None] + channel[None, :], mask=inside[:, None] & real[None, :], other=0.0)
        b_place = (f * (R * S) + tap) * C
        b = tl.load(w_ptr + b_place[None, :] + channel[:, None], mask=(f < F)[None, :] & real[:, None], other=0.0)
        acc = tl.dot(a, b, acc)
    mask = (m < N * P * Q)[:, None] & (f < F)[None, :]
    tl.store(out_ptr + m[:, None] * F + f[None, :], acc.to(out_ptr.dtype.element_ty), mask=mask)
