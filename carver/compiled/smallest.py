"""A small kernel that uses most features, to warm up Triton's compiler."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def add(x, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, BLOCK)
    tile = at[:, None] * BLOCK + at[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for i in range(tl.cdiv(n, BLOCK)):
        part = tl.load(x + i * BLOCK + tile, mask=tile < n, other=0.0)
        total = tl.dot(part.to(tl.float16), part.to(tl.float16), total)
    total = tl.exp(total - tl.max(total, 1)[:, None])
    tl.store(x + at, tl.where(at < n, tl.sum(total, 1), 0.0), mask=at < n)
