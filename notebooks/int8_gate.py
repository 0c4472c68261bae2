"""A kernel that carver has no declaration of: y = silu(x w scale), weights in int8 with a scale for each column."""

import triton
import triton.language as tl


@triton.jit
def int8_gate(x, w, scale, y, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_at = x + m[:, None] * K + k[None, :]
    w_at = w + k[:, None] * N + n[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(tl.cdiv(K, BLOCK_K)):
        total = tl.dot(tl.load(x_at), tl.load(w_at).to(tl.bfloat16), total)
        x_at += BLOCK_K
        w_at += BLOCK_K * N
    total *= tl.load(scale + n)[None, :]
    tl.store(y + m[:, None] * N + n[None, :], (total * tl.sigmoid(total)).to(tl.bfloat16))
