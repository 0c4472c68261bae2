"""A second zoo of Triton kernels, of other kinds than `triton_zoo.py`; `zoo.py` measures and scores both."""

import triton
import triton.language as tl


@triton.jit
def matmul_stream_k(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Programs share the steps of all tiles out evenly; a part of a tile is added to zeroed float32 by atomics."""
    steps = tl.cdiv(K, BLOCK_K)
    columns = tl.cdiv(N, BLOCK_N)
    total = tl.cdiv(M, BLOCK_M) * columns * steps
    each = tl.cdiv(total, tl.num_programs(0))
    at = tl.program_id(0) * each
    end = tl.minimum(at + each, total)
    while at < end:
        tile = at // steps
        first = at % steps
        last = tl.minimum(first + end - at, steps)
        m = tile // columns * BLOCK_M + tl.arange(0, BLOCK_M)
        n = tile % columns * BLOCK_N + tl.arange(0, BLOCK_N)
        k = first * BLOCK_K + tl.arange(0, BLOCK_K)
        a_ptrs = a_ptr + (m % M)[:, None] * stride_am + k[None, :]
        b_ptrs = b_ptr + k[:, None] * stride_bk + (n % N)[None, :]
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for _ in range(first, last):
            acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
            a_ptrs += BLOCK_K
            b_ptrs += BLOCK_K * stride_bk
        out = c_ptr + m[:, None] * stride_cm + n[None, :]
        mask = (m < M)[:, None] & (n < N)[None, :]
        if last - first == steps:
            tl.store(out, acc, mask=mask)
        else:
            tl.atomic_add(out, acc, mask=mask, sem="relaxed")
        at += last - first


@triton.jit
def matmul_block_ptr(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm, slope,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """Block pointers that check every edge; a leaky ReLU on the result."""
    tile = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * tiles_n
    first_m = tile // in_group * GROUP_M
    rows = tl.minimum(tiles_m - first_m, GROUP_M)
    m = (first_m + tile % in_group % rows) * BLOCK_M
    n = tile % in_group // rows * BLOCK_N
    a_block = tl.make_block_ptr(a_ptr, (M, K), (stride_am, 1), (m, 0), (BLOCK_M, BLOCK_K), (1, 0))
    b_block = tl.make_block_ptr(b_ptr, (K, N), (stride_bk, 1), (0, n), (BLOCK_K, BLOCK_N), (1, 0))
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, K, BLOCK_K):
        a = tl.load(a_block, boundary_check=(0, 1), padding_option="zero")
        b = tl.load(b_block, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(a, b, acc)
        a_block = tl.advance(a_block, (0, BLOCK_K))
        b_block = tl.advance(b_block, (BLOCK_K, 0))
    acc = tl.where(acc > 0, acc, acc * slope)
    c_block = tl.make_block_ptr(c_ptr, (M, N), (stride_cm, 1), (m, n), (BLOCK_M, BLOCK_N), (1, 0))
    tl.store(c_block, acc.to(c_ptr.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def matmul_gelu_residual(
    a_ptr, w_ptr, bias_ptr, residual_ptr, out_ptr, M, N, K, stride_ak, stride_wn, stride_out,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """residual + gelu(a' w' + bias): a is stored K by M, w is N by K."""
    tile = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * tiles_n
    first_m = tile // in_group * GROUP_M
    rows = tl.minimum(tiles_m - first_m, GROUP_M)
    m = (first_m + tile % in_group % rows) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile % in_group // rows * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + k[None, :] * stride_ak + m[:, None]
    w_ptrs = w_ptr + n[None, :] * stride_wn + k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=(m < M)[:, None], other=0.0)
        w = tl.load(w_ptrs, mask=(n < N)[None, :], other=0.0)
        acc = tl.dot(a, w, acc)
        a_ptrs += BLOCK_K * stride_ak
        w_ptrs += BLOCK_K
    x = acc + tl.load(bias_ptr + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    inner = 0.7978845608 * (x + 0.044715 * x * x * x)
    gelu = x * tl.sigmoid(2.0 * inner)
    offsets = m[:, None] * stride_out + n[None, :]
    mask = (m < M)[:, None] & (n < N)[None, :]
    gelu += tl.load(residual_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, gelu.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def matmul_lora(
    x_ptr, w_ptr, down_ptr, up_ptr, out_ptr, scale, M, N, K, stride_x, stride_w, stride_out,
    RANK: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """x w' + scale (x down') up': w is N by K, down is RANK by K, up is N by RANK."""
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    r = tl.arange(0, RANK)
    x_ptrs = x_ptr + m[:, None] * stride_x + k[None, :]
    w_ptrs = w_ptr + n[None, :] * stride_w + k[:, None]
    down_ptrs = down_ptr + r[None, :] * stride_x + k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    low = tl.zeros((BLOCK_M, RANK), tl.float32)
    for _ in range(0, K, BLOCK_K):
        x = tl.load(x_ptrs, mask=(m < M)[:, None], other=0.0)
        acc = tl.dot(x, tl.load(w_ptrs), acc)
        low = tl.dot(x, tl.load(down_ptrs), low)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
        down_ptrs += BLOCK_K
    up = tl.load(up_ptr + n[None, :] * RANK + r[:, None])
    acc = tl.dot((low * scale).to(up.dtype), up, acc)
    out = out_ptr + m[:, None] * stride_out + n[None, :]
    tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=(m < M)[:, None])


@triton.jit
def matmul_int8(
    a_ptr, b_ptr, scale_a_ptr, scale_b_ptr, c_ptr, M, N, K, stride_am, stride_bn, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """Both operands of 8 bits, B stored N by K; a scale for each row of A and each column of the result."""
    tile = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * tiles_n
    first_m = tile // in_group * GROUP_M
    rows = tl.minimum(tiles_m - first_m, GROUP_M)
    m = (first_m + tile % in_group % rows) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile % in_group // rows * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (m % M)[:, None] * stride_am + k[None, :]
    b_ptrs = b_ptr + (n % N)[None, :] * stride_bn + k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)
    for _ in range(0, tl.cdiv(K, BLOCK_K)):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc, out_dtype=tl.int32)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    scale_a = tl.load(scale_a_ptr + m, mask=m < M, other=0.0)
    scale_b = tl.load(scale_b_ptr + n, mask=n < N, other=0.0)
    c = acc.to(tl.float32) * scale_a[:, None] * scale_b[None, :]
    mask = (m < M)[:, None] & (n < N)[None, :]
    tl.store(c_ptr + m[:, None] * stride_cm + n[None, :], c.to(c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def matmul_fp8_rows(
    a_ptr, b_ptr, scale_a_ptr, scale_b_ptr, c_ptr, M, N, K, stride_am, stride_bn, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, DOTS: tl.constexpr,
):  # fmt: skip
    """Several fast products a step of the loop, whose sum is added to the accumulator; B is N by K."""
    tile = tl.program_id(0)
    rows = tl.cdiv(M, BLOCK_M)
    m = tile % rows * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile // rows * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + m[:, None] * stride_am + k[None, :]
    b_ptrs = b_ptr + n[None, :] * stride_bn + k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, K, BLOCK_K * DOTS):
        part = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for _ in tl.static_range(DOTS):
            a = tl.load(a_ptrs, mask=(m < M)[:, None], other=0.0)
            part = tl.dot(a, tl.load(b_ptrs), part)
            a_ptrs += BLOCK_K
            b_ptrs += BLOCK_K
        acc += part
    scale_a = tl.load(scale_a_ptr + m, mask=m < M, other=0.0)
    c = acc * scale_a[:, None] * tl.load(scale_b_ptr + n)[None, :]
    tl.store(c_ptr + m[:, None] * stride_cm + n[None, :], c.to(c_ptr.dtype.element_ty), mask=(m < M)[:, None])


@triton.jit
def batched_gemm(
    a_ptr, b_ptr, c_ptr, batch, M, N,
    K: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, MATRICES: tl.constexpr,
):  # fmt: skip
    """Many small products; a program computes one tile of MATRICES of them, with the whole of K in one step."""
    columns = tl.cdiv(N, BLOCK_N)
    m = tl.program_id(0) // columns * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, K)
    first = tl.program_id(1) * MATRICES
    a_ptrs = a_ptr + first * M * K + m[:, None] * K + k[None, :]
    b_ptrs = b_ptr + first * K * N + k[:, None] * N + n[None, :]
    c_ptrs = c_ptr + first * M * N + m[:, None] * N + n[None, :]
    for _ in range(first, tl.minimum(first + MATRICES, batch)):
        a = tl.load(a_ptrs, mask=(m < M)[:, None], other=0.0)
        b = tl.load(b_ptrs, mask=(n < N)[None, :], other=0.0)
        c = tl.dot(a, b)
        tl.store(c_ptrs, c.to(c_ptr.dtype.element_ty), mask=(m < M)[:, None] & (n < N)[None, :])
        a_ptrs += M * K
        b_ptrs += K * N
        c_ptrs += M * N


@triton.jit
def matmul_block_sparse(
    x_ptr, block_ptr, column_ptr, start_ptr, out_ptr, tokens, stride_x, stride_out,
    SIDE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """x w' for a w of square blocks in compressed rows: those of row r are start_ptr[r] to start_ptr[r + 1]."""
    row = tl.program_id(0)
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.arange(0, SIDE)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, SIDE), tl.float32)
    for at in range(tl.load(start_ptr + row), tl.load(start_ptr + row + 1)):
        column = tl.load(column_ptr + at) * SIDE
        for part in tl.static_range(0, SIDE, BLOCK_K):
            x_ptrs = x_ptr + m[:, None] * stride_x + (column + part + k)[None, :]
            x = tl.load(x_ptrs, mask=(m < tokens)[:, None], other=0.0)
            w = tl.load(block_ptr + at * SIDE * SIDE + n[None, :] * SIDE + (part + k)[:, None])
            acc = tl.dot(x, w, acc)
    out = out_ptr + m[:, None] * stride_out + (row * SIDE + n)[None, :]
    tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=(m < tokens)[:, None])


@triton.jit
def matmul_split_epilogue(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr, HALVES: tl.constexpr,
):  # fmt: skip
    """Persistent in one flattened loop, through tensor descriptors; the result leaves in two halves of its columns."""
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BLOCK_K, BLOCK_N])
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N // 2 if HALVES else BLOCK_N])
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * tiles_n
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        first_m = tile // in_group * GROUP_M
        rows = tl.minimum(tiles_m - first_m, GROUP_M)
        m = (first_m + tile % in_group % rows) * BLOCK_M
        n = tile % in_group // rows * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, tl.cdiv(K, BLOCK_K)):
            acc = tl.dot(a_desc.load([m, k * BLOCK_K]), b_desc.load([k * BLOCK_K, n]), acc)
        if HALVES:
            parts = tl.permute(tl.reshape(acc, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
            left, right = tl.split(parts)
            c_desc.store([m, n], left.to(c_ptr.dtype.element_ty))
            c_desc.store([m, n + BLOCK_N // 2], right.to(c_ptr.dtype.element_ty))
        else:
            c_desc.store([m, n], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def mla_decode(
    q_ptr, kv_ptr, length_ptr, out_ptr, lse_ptr, scale, heads, longest, splits,
    LATENT: tl.constexpr, ROPE: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One new token, whose heads share one latent key of LATENT + ROPE; its first LATENT are the value as well."""
    batch = tl.program_id(0)
    head = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    part = tl.program_id(2)
    length = tl.load(length_ptr + batch)
    each = tl.cdiv(tl.cdiv(length, splits), BLOCK_N) * BLOCK_N
    begin = part * each
    end = tl.minimum(begin + each, length)
    wide = tl.arange(0, LATENT)
    rope = LATENT + tl.arange(0, ROPE)
    cols = tl.arange(0, BLOCK_N)
    q_rows = q_ptr + (batch * heads + head)[:, None] * (LATENT + ROPE)
    q = tl.load(q_rows + wide[None, :])
    q_rope = tl.load(q_rows + rope[None, :])
    kv_base = kv_ptr + batch.to(tl.int64) * longest * (LATENT + ROPE)
    top = tl.full((BLOCK_H,), -1e30, tl.float32)
    total = tl.zeros((BLOCK_H,), tl.float32)
    acc = tl.zeros((BLOCK_H, LATENT), tl.float32)
    for start in range(begin, end, BLOCK_N):
        keys = start + cols
        inside = keys < end
        kv_rows = kv_base + keys[:, None] * (LATENT + ROPE)
        kv = tl.load(kv_rows + wide[None, :], mask=inside[:, None], other=0.0)
        k_rope = tl.load(kv_rows + rope[None, :], mask=inside[:, None], other=0.0)
        scores = tl.dot(q, tl.trans(kv))
        scores = tl.dot(q_rope, tl.trans(k_rope), scores) * (scale * 1.44269504)
        scores = tl.where(inside[None, :], scores, -1e30)
        new_top = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp2(scores - new_top[:, None])
        shrink = tl.exp2(top - new_top)
        total = total * shrink + tl.sum(p, 1)
        acc = tl.dot(p.to(kv.dtype), kv, acc * shrink[:, None])
        top = new_top
    where = (batch * heads + head) * splits + part
    total = tl.maximum(total, 1e-30)
    tl.store(out_ptr + where[:, None] * LATENT + wide[None, :], acc / total[:, None])
    tl.store(lse_ptr + where, top + tl.log2(total))


@triton.jit
def alibi_attention(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, seq, heads, stride_h, stride_s,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Causal prefill with wide heads; scores fall off with the distance, at another slope for each head."""
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    head = tl.program_id(1)
    slope = tl.exp2(-8.0 * (head + 1) / heads) * 1.44269504
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, HEAD)
    cols = tl.arange(0, BLOCK_N)
    base = head * stride_h
    q = tl.load(q_ptr + base + rows[:, None] * stride_s + dims[None, :], mask=(rows < seq)[:, None], other=0.0)
    top = tl.full((BLOCK_M,), -1e30, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD), tl.float32)
    for start in range(0, tl.minimum((block + 1) * BLOCK_M, seq), BLOCK_N):
        keys = start + cols
        k = tl.load(k_ptr + base + keys[None, :] * stride_s + dims[:, None], mask=(keys < seq)[None, :], other=0.0)
        distance = rows[:, None] - keys[None, :]
        scores = tl.dot(q, k) * (scale * 1.44269504) - slope * distance.to(tl.float32)
        scores = tl.where(distance >= 0, scores, -1e30)
        new_top = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp2(scores - new_top[:, None])
        shrink = tl.exp2(top - new_top)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(v_ptr + base + keys[:, None] * stride_s + dims[None, :], mask=(keys < seq)[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
        top = new_top
    out = out_ptr + base + rows[:, None] * stride_s + dims[None, :]
    tl.store(out, (acc / total[:, None]).to(out_ptr.dtype.element_ty), mask=(rows < seq)[:, None])


@triton.jit
def varlen_attention(
    q_ptr, k_ptr, v_ptr, start_ptr, out_ptr, scale, stride_q, stride_kv,
    GROUP: tl.constexpr, HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Sequences packed one after another, start_ptr[i] to start_ptr[i + 1]; every key of a sequence is seen."""
    head = tl.program_id(1)
    begin = tl.load(start_ptr + tl.program_id(2))
    length = tl.load(start_ptr + tl.program_id(2) + 1) - begin
    if tl.program_id(0) * BLOCK_M >= length:
        return
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, HEAD)
    cols = tl.arange(0, BLOCK_N)
    q_offsets = (begin + rows)[:, None] * stride_q + head * HEAD + dims[None, :]
    q = tl.load(q_ptr + q_offsets, mask=(rows < length)[:, None], other=0.0)
    q = (q * (scale * 1.44269504)).to(q.dtype)
    kv_base = begin * stride_kv + head // GROUP * HEAD
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD), tl.float32)
    for start in tl.range(0, length, BLOCK_N):
        inside = start + cols < length
        offsets = kv_base + (start + cols)[:, None] * stride_kv + dims[None, :]
        k = tl.load(k_ptr + offsets, mask=inside[:, None], other=0.0)
        scores = tl.dot(q, k.T) + tl.where(inside, 0.0, float("-inf"))[None, :]
        new_top = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp2(scores - new_top[:, None])
        shrink = tl.exp2(top - new_top)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(v_ptr + offsets, mask=inside[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
        top = new_top
    tl.store(out_ptr + q_offsets, (acc / total[:, None]).to(out_ptr.dtype.element_ty), mask=(rows < length)[:, None])


@triton.jit
def attention_dkdv(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, scale, seq, stride_h, stride_s,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Gradients of BLOCK_N keys and values of a causal head: one loop over the queries that see them."""
    block = tl.program_id(0)
    head = tl.program_id(1)
    base = head * stride_h
    keys = block * BLOCK_N + tl.arange(0, BLOCK_N)
    dims = tl.arange(0, HEAD)
    own = keys[:, None] * stride_s + dims[None, :]
    real = (keys < seq)[:, None]
    k = tl.load(k_ptr + base + own, mask=real, other=0.0)
    v = tl.load(v_ptr + base + own, mask=real, other=0.0)
    dk = tl.zeros((BLOCK_N, HEAD), tl.float32)
    dv = tl.zeros((BLOCK_N, HEAD), tl.float32)
    for start in range(block * BLOCK_N // BLOCK_M * BLOCK_M, seq, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        inside = rows < seq
        offsets = base + rows[:, None] * stride_s + dims[None, :]
        q = tl.load(q_ptr + offsets, mask=inside[:, None], other=0.0)
        do = tl.load(do_ptr + offsets, mask=inside[:, None], other=0.0)
        lse = tl.load(lse_ptr + head * seq + rows, mask=inside, other=float("inf"))
        delta = tl.load(delta_ptr + head * seq + rows, mask=inside, other=0.0)
        scores = tl.dot(k, q.T) * (scale * 1.44269504)
        p = tl.exp2(scores - lse[None, :] * 1.44269504)
        p = tl.where(rows[None, :] >= keys[:, None], p, 0.0)
        dv = tl.dot(p.to(do.dtype), do, dv)
        dp = tl.dot(v, do.T)
        ds = p * (dp - delta[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk)
    tl.store(dv_ptr + base + own, dv.to(dv_ptr.dtype.element_ty), mask=real)
    tl.store(dk_ptr + base + own, (dk * scale).to(dk_ptr.dtype.element_ty), mask=real)


@triton.jit
def _then(a_first, b_first, a_second, b_second):
    """h -> a h + b, one after the other."""
    return a_first * a_second, a_second * b_first + b_second


@triton.jit
def gated_scan(x_ptr, gate_ptr, out_ptr, seq, width, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr):
    """h[t] = a[t] h[t - 1] + (1 - a[t]) x[t], where a is the gate's sigmoid; an associative scan a chunk of time."""
    d = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    t = tl.arange(0, BLOCK_T)
    base = tl.program_id(1) * seq * width
    h = tl.zeros((BLOCK_D,), tl.float32)
    for start in range(0, seq, BLOCK_T):
        offsets = base + (start + t)[:, None] * width + d[None, :]
        mask = (start + t < seq)[:, None] & (d < width)[None, :]
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        a = tl.sigmoid(tl.load(gate_ptr + offsets, mask=mask, other=0.0).to(tl.float32))
        decay, own = tl.associative_scan((a, (1.0 - a) * x), 0, _then)
        states = decay * h[None, :] + own
        tl.store(out_ptr + offsets, states.to(out_ptr.dtype.element_ty), mask=mask)
        h = tl.sum(tl.where((t == BLOCK_T - 1)[:, None], states, 0.0), 0)


@triton.jit
def rms_norm_residual(
    x_ptr, residual_ptr, weight_ptr, out_ptr, rows, cols, eps, programs, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """residual += x, and its norm; whole rows, ROWS of them at a time, shared out among the programs."""
    c = tl.arange(0, COLS)
    real = c < cols
    weight = tl.load(weight_ptr + c, mask=real, other=0.0).to(tl.float32)
    for first in range(tl.program_id(0) * ROWS, rows, programs * ROWS):
        r = first + tl.arange(0, ROWS)
        offsets = r[:, None] * cols + c[None, :]
        mask = (r < rows)[:, None] & real[None, :]
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        x += tl.load(residual_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        tl.store(residual_ptr + offsets, x.to(residual_ptr.dtype.element_ty), mask=mask)
        scale = tl.rsqrt(tl.sum(x * x, 1) / cols + eps)
        y = x * scale[:, None] * weight[None, :]
        tl.store(out_ptr + offsets, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def rms_norm_backward(
    x_ptr, dy_ptr, weight_ptr, dx_ptr, partial_ptr, rows, cols, eps, programs, COLS: tl.constexpr,
):  # fmt: skip
    """A row at a time; what each program's rows add to the gradient of the weight is a row of partial_ptr."""
    program = tl.program_id(0)
    c = tl.arange(0, COLS)
    mask = c < cols
    weight = tl.load(weight_ptr + c, mask=mask, other=0.0).to(tl.float32)
    dweight = tl.zeros((COLS,), tl.float32)
    for row in range(program, rows, programs):
        x = tl.load(x_ptr + row * cols + c, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * cols + c, mask=mask, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(x * x, 0) / cols + eps)
        normed = x * scale
        dweight += dy * normed
        dnormed = dy * weight
        dx = (dnormed - normed * (tl.sum(dnormed * normed, 0) / cols)) * scale
        tl.store(dx_ptr + row * cols + c, dx.to(dx_ptr.dtype.element_ty), mask=mask)
    tl.store(partial_ptr + program * cols + c, dweight, mask=mask)


@triton.jit
def softmax_long(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    """Rows that fit no block: a running maximum and sum for each place of the block, then a second pass."""
    row = tl.program_id(0).to(tl.int64) * cols
    i = tl.arange(0, BLOCK)
    tops = tl.full((BLOCK,), -1e30, tl.float32)
    totals = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        x = tl.load(x_ptr + row + start + i, mask=start + i < cols, other=float("-inf")).to(tl.float32)
        new_tops = tl.maximum(tops, x)
        totals = totals * tl.exp(tops - new_tops) + tl.exp(x - new_tops)
        tops = new_tops
    top = tl.max(tops, 0)
    share = 1.0 / tl.sum(totals * tl.exp(tops - top), 0)
    for start in range(0, cols, BLOCK):
        x = tl.load(x_ptr + row + start + i, mask=start + i < cols, other=float("-inf")).to(tl.float32)
        y = tl.exp(x - top) * share
        tl.store(out_ptr + row + start + i, y.to(out_ptr.dtype.element_ty), mask=start + i < cols)


@triton.jit
def swiglu_halves(x_ptr, out_ptr, tokens, width, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr):
    """silu(x[:, :width]) * x[:, width:]."""
    t = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    mask = (t < tokens)[:, None] & (d < width)[None, :]
    x_ptrs = x_ptr + t[:, None] * (2 * width) + d[None, :]
    gate = tl.load(x_ptrs, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(x_ptrs + width, mask=mask, other=0.0).to(tl.float32)
    y = gate * tl.sigmoid(gate) * up
    tl.store(out_ptr + t[:, None] * width + d[None, :], y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def rotary_in_place(
    x_ptr, cos_ptr, sin_ptr, position_ptr, tokens, heads,
    HALF: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    """The halves of each head are turned by the angles of the token's position; x is tokens by heads by 2 HALF."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    h = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    i = tl.arange(0, HALF)
    real = t < tokens
    position = tl.load(position_ptr + t, mask=real, other=0)
    angles = position[:, None] * HALF + i[None, :]
    cos = tl.load(cos_ptr + angles, mask=real[:, None], other=0.0)[:, None, :]
    sin = tl.load(sin_ptr + angles, mask=real[:, None], other=0.0)[:, None, :]
    offsets = (t[:, None, None] * heads + h[None, :, None]) * (2 * HALF) + i[None, None, :]
    mask = real[:, None, None] & (h < heads)[None, :, None]
    left = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    right = tl.load(x_ptr + offsets + HALF, mask=mask, other=0.0).to(tl.float32)
    tl.store(x_ptr + offsets, (left * cos - right * sin).to(x_ptr.dtype.element_ty), mask=mask)
    tl.store(x_ptr + offsets + HALF, (right * cos + left * sin).to(x_ptr.dtype.element_ty), mask=mask)


@triton.jit
def causal_conv1d(
    x_ptr, weight_ptr, bias_ptr, out_ptr, seq, width,
    TAPS: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Each channel by itself, channels last: TAPS times up to its own, a bias and silu; weights are TAPS by width."""
    d = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    t = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)
    base = tl.program_id(2) * seq * width
    real = d < width
    acc = tl.zeros((BLOCK_T, BLOCK_D), tl.float32)
    acc += tl.load(bias_ptr + d, mask=real, other=0.0).to(tl.float32)[None, :]
    for tap in tl.static_range(TAPS):
        weight = tl.load(weight_ptr + tap * width + d, mask=real, other=0.0).to(tl.float32)
        at = t + tap - TAPS + 1
        mask = ((at >= 0) & (at < seq))[:, None] & real[None, :]
        x = tl.load(x_ptr + base + at[:, None] * width + d[None, :], mask=mask, other=0.0)
        acc += x.to(tl.float32) * weight[None, :]
    out = out_ptr + base + t[:, None] * width + d[None, :]
    y = acc * tl.sigmoid(acc)
    tl.store(out, y.to(out_ptr.dtype.element_ty), mask=(t < seq)[:, None] & real[None, :])


@triton.jit
def gather_rows(
    id_ptr, table_ptr, place_ptr, out_ptr, tokens, cols, seq, scale, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Embeddings of tokens, scaled, and those of their places added."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(id_ptr + r, mask=r < tokens, other=0)
    mask = (r < tokens)[:, None] & (c < cols)[None, :]
    x = tl.load(table_ptr + row[:, None] * cols + c[None, :], mask=mask, other=0.0).to(tl.float32)
    place = tl.load(place_ptr + (r % seq)[:, None] * cols + c[None, :], mask=mask, other=0.0).to(tl.float32)
    y = x * scale + place
    tl.store(out_ptr + r[:, None] * cols + c[None, :], y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def scatter_add_rows(
    x_ptr, weight_ptr, id_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out[id] += weight x for every row, by atomics: what experts return to their tokens."""
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    r = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    real = r < rows
    target = tl.load(id_ptr + r, mask=real, other=0)
    weight = tl.load(weight_ptr + r, mask=real, other=0.0)
    mask = real[:, None] & (c < cols)[None, :]
    x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.atomic_add(out_ptr + target[:, None] * cols + c[None, :], x * weight[:, None], mask=mask, sem="relaxed")


@triton.jit
def radix_histogram(key_ptr, count_ptr, n, shift, BINS: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    """How often each digit occurs among the keys: BLOCK * STEPS keys a program, then one atomic a bin."""
    bins = tl.arange(0, BINS)
    counts = tl.zeros((BINS,), tl.int32)
    first = tl.program_id(0) * BLOCK * STEPS
    for step in range(STEPS):
        i = first + step * BLOCK + tl.arange(0, BLOCK)
        keys = tl.load(key_ptr + i, mask=i < n, other=0)
        counts += tl.histogram((keys >> shift) & (BINS - 1), BINS, mask=i < n)
    tl.atomic_add(count_ptr + bins, counts, sem="relaxed")


@triton.jit
def column_moments(
    x_ptr, sum_ptr, square_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """Sums and sums of squares of columns; each program adds BLOCK_R * STEPS rows by atomics."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    first = tl.program_id(1) * BLOCK_R * STEPS
    total = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    square = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for step in range(STEPS):
        r = first + step * BLOCK_R + tl.arange(0, BLOCK_R)
        mask = (r < rows)[:, None] & (c < cols)[None, :]
        x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=mask, other=0.0).to(tl.float32)
        total += x
        square += x * x
    tl.atomic_add(sum_ptr + c, tl.sum(total, 0), mask=c < cols, sem="relaxed")
    tl.atomic_add(square_ptr + c, tl.sum(square, 0), mask=c < cols, sem="relaxed")


@triton.jit
def transpose_pad(
    x_ptr, out_ptr, rows, cols, padded, fill, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Columns become rows of `padded` elements, what lies past the old rows is filled; a batch along the third axis."""
    batch = tl.program_id(2)
    r = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    source = x_ptr + batch * rows * cols + r[:, None] * cols + c[None, :]
    x = tl.load(source, mask=(r < rows)[:, None] & (c < cols)[None, :], other=fill)
    target = out_ptr + batch * cols * padded + c[:, None] * padded + r[None, :]
    tl.store(target, tl.trans(x).to(out_ptr.dtype.element_ty), mask=(c < cols)[:, None] & (r < padded)[None, :])


@triton.jit
def max_pool(
    x_ptr, out_ptr, images, height, width, channels, high, wide,
    SIDE: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Channels last; the result is `high` by `wide`."""
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    image = p // (high * wide)
    top = p // wide % high * STRIDE - PAD
    left = p % wide * STRIDE - PAD
    real = (image < images)[:, None] & (c < channels)[None, :]
    best = tl.full((BLOCK_P, BLOCK_C), float("-inf"), tl.float32)
    for i in tl.static_range(SIDE):
        for j in tl.static_range(SIDE):
            y = top + i
            x = left + j
            inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
            place = ((image * height + y) * width + x) * channels
            value = tl.load(x_ptr + place[:, None] + c[None, :], mask=inside[:, None] & real, other=float("-inf"))
            best = tl.maximum(best, value.to(tl.float32))
    tl.store(out_ptr + p[:, None] * channels + c[None, :], best.to(out_ptr.dtype.element_ty), mask=real)
