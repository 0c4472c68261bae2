"""Gluon: C = A B^T with both operands by TMA, one buffer each."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma, warpgroup_mma, warpgroup_mma_wait


@gluon.jit
def matmul(a, b, c, scale, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, num_warps: gl.constexpr):
    row, col = gl.program_id(0) * BM, gl.program_id(1) * BN
    a_tile = gl.allocate_shared_memory(gl.float16, [BM, BK], a.layout)
    b_tile = gl.allocate_shared_memory(gl.float16, [BN, BK], b.layout)
    filled = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(filled, count=1)
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [num_warps, 1], [16, BN, 16])
    total = gl.zeros((BM, BN), gl.float32, layout)
    for k in range(0, K, BK):
        mbarrier.expect(filled, (BM + BN) * BK * 2)
        tma.async_copy_global_to_shared(a, [row, k], filled, a_tile)
        tma.async_copy_global_to_shared(b, [col, k], filled, b_tile)
        mbarrier.wait(filled, (k // BK) & 1)
        total = warpgroup_mma(a_tile, b_tile.permute((1, 0)), total, is_async=True)
        total = warpgroup_mma_wait(num_outstanding=0, deps=[total])
    mbarrier.invalidate(filled)
    rows = row + gl.arange(0, BM, gl.SliceLayout(1, layout))
    cols = col + gl.arange(0, BN, gl.SliceLayout(0, layout))
    gl.store(c + rows[:, None] * 1024 + cols[None, :], (total * scale).to(gl.float16))
