"""Grouped matmuls in one launch, attention with tensor descriptors, decoding with split keys in pages."""

import triton
import triton.language as tl


@triton.jit
def walk(
    x_ptr, w_ptr, out_ptr, start_ptr, groups, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Rows sorted by group, from start_ptr[g] to start_ptr[g + 1]; each program takes every so many-th tile of all."""
    tile, done, columns = tl.program_id(0), 0, tl.cdiv(N, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    for group in range(groups):
        begin, end = tl.load(start_ptr + group), tl.load(start_ptr + group + 1)
        tiles = tl.cdiv(end - begin, BLOCK_M) * columns
        while tile < done + tiles:
            m = begin + (tile - done) // columns * BLOCK_M + tl.arange(0, BLOCK_M)
            n = (tile - done) % columns * BLOCK_N + tl.arange(0, BLOCK_N)
            x = x_ptr + m.to(tl.int64)[:, None] * K + k[None, :]
            w = w_ptr + group.to(tl.int64) * N * K + (n % N)[None, :] * K + k[:, None]
            total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            for _ in range(0, tl.cdiv(K, BLOCK_K)):
                total = tl.dot(tl.load(x, mask=m[:, None] < end, other=0.0), tl.load(w), total)
                x += BLOCK_K
                w += BLOCK_K
            out = out_ptr + m.to(tl.int64)[:, None] * N + n[None, :]
            tl.store(out, total.to(out_ptr.dtype.element_ty), mask=(m[:, None] < end) & (n[None, :] < N))
            tile += tl.num_programs(0)
        done += tiles


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, heads, seq,
    HEAD: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Tiles come and go by tensor descriptors; only the blocks of keys on the diagonal are masked."""
    row, head = tl.program_id(0) * BLOCK_M, tl.program_id(1)
    q_desc = tl.make_tensor_descriptor(q_ptr, [heads * seq, HEAD], [HEAD, 1], [BLOCK_M, HEAD])
    k_desc = tl.make_tensor_descriptor(k_ptr, [heads * seq, HEAD], [HEAD, 1], [BLOCK_N, HEAD])
    v_desc = tl.make_tensor_descriptor(v_ptr, [heads * seq, HEAD], [HEAD, 1], [BLOCK_N, HEAD])
    out_desc = tl.make_tensor_descriptor(out_ptr, [heads * seq, HEAD], [HEAD, 1], [BLOCK_M, HEAD])
    first = head * seq
    q = q_desc.load([first + row, 0])
    queries = row + tl.arange(0, BLOCK_M)
    top = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.full((BLOCK_M,), 1.0, tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD), tl.float32)
    whole = row // BLOCK_N * BLOCK_N if CAUSAL else seq
    for start in tl.range(0, whole, BLOCK_N):
        scores = tl.dot(q, k_desc.load([first + start, 0]).T) * scale
        above = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp2(scores - above[:, None])
        shrink = tl.exp2(top - above)
        total = total * shrink + tl.sum(p, 1)
        acc = tl.dot(p.to(q.dtype), v_desc.load([first + start, 0]), acc * shrink[:, None])
        top = above
    if CAUSAL:
        for start in tl.range(whole, row + BLOCK_M, BLOCK_N):
            scores = tl.dot(q, k_desc.load([first + start, 0]).T) * scale
            scores = tl.where(queries[:, None] >= (start + tl.arange(0, BLOCK_N))[None, :], scores, -1e30)
            above = tl.maximum(top, tl.max(scores, 1))
            p = tl.exp2(scores - above[:, None])
            shrink = tl.exp2(top - above)
            total = total * shrink + tl.sum(p, 1)
            acc = tl.dot(p.to(q.dtype), v_desc.load([first + start, 0]), acc * shrink[:, None])
            top = above
    out_desc.store([first + row, 0], (acc / total[:, None]).to(out_ptr.dtype.element_ty))


@triton.jit
def decode(
    q_ptr, k_ptr, v_ptr, table_ptr, part_ptr, lse_ptr, scale, pages, keys, heads, group,
    HEAD: tl.constexpr, PAGE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, SPLIT_KV: tl.constexpr,
):  # fmt: skip
    """One new token a sequence: the heads that share keys are rows of a tile, and programs share the keys out."""
    batch, head, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    each = tl.cdiv(tl.cdiv(keys, SPLIT_KV), BLOCK_N) * BLOCK_N
    begin, end = part * each, tl.minimum(part * each + each, keys)
    rows, dims, cols = tl.arange(0, BLOCK_M), tl.arange(0, HEAD), tl.arange(0, BLOCK_N)
    at = (batch * heads + head) * group + rows
    q = tl.load(q_ptr + at[:, None] * HEAD + dims[None, :], mask=rows[:, None] < group, other=0.0)
    top = tl.full((BLOCK_M,), -1e30, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD), tl.float32)
    for start in range(begin, end, BLOCK_N):
        key = start + cols
        page = tl.load(table_ptr + batch * pages + key // PAGE, mask=key < end, other=0).to(tl.int64)
        place = ((page * PAGE + key % PAGE) * heads + head) * HEAD
        k = tl.load(k_ptr + place[None, :] + dims[:, None], mask=key[None, :] < end, other=0.0)
        scores = tl.where(key[None, :] < end, tl.dot(q, k) * scale, -1e30)
        above = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp2(scores - above[:, None])
        shrink = tl.exp2(top - above)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(v_ptr + place[:, None] + dims[None, :], mask=key[:, None] < end, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
        top = above
    to = at * SPLIT_KV + part
    total = tl.maximum(total, 1e-30)  # a part may have no keys
    out = (acc / total[:, None]).to(part_ptr.dtype.element_ty)
    tl.store(part_ptr + to[:, None] * HEAD + dims[None, :], out, mask=rows[:, None] < group)
    if SPLIT_KV > 1:
        tl.store(lse_ptr + to, top + tl.log2(total), mask=rows < group)


@triton.jit
def join(part_ptr, lse_ptr, out_ptr, HEAD: tl.constexpr, SPLIT_KV: tl.constexpr):
    """What the parts of the keys gave, weighted by their sums."""
    row, dims, parts = tl.program_id(0), tl.arange(0, HEAD), tl.arange(0, SPLIT_KV)
    lse = tl.load(lse_ptr + row * SPLIT_KV + parts)
    weight = tl.exp2(lse - tl.max(lse, 0))
    each = tl.load(part_ptr + (row * SPLIT_KV + parts)[:, None] * HEAD + dims[None, :])
    tl.store(out_ptr + row * HEAD + dims, (tl.sum(each * weight[:, None], 0) / tl.sum(weight, 0)).to(tl.float16))
