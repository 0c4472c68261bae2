"""Kernels as Inductor writes them: a gated activation, a sum of squares, and a loop whose bound is loaded."""

import triton
import triton.language as tl


@triton.jit
def triton_poi_fused_mul_silu(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), xmask).to(tl.float32)
    tmp1 = tl.load(in_ptr1 + (x0), xmask).to(tl.float32)
    tmp2 = tmp0 * tl.sigmoid(tmp0) * tmp1
    tl.store(out_ptr0 + (x0), tmp2, xmask)


@triton.jit
def triton_red_fused_pow_sum(in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    x0 = xindex
    tmp3 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        tmp0 = tl.load(in_ptr0 + (r0_index + 8192 * x0), r0_mask & xmask, other=0.0).to(tl.float32)
        tmp3 = tl.where(r0_mask & xmask, tmp3 + tmp0 * tmp0, tmp3)
    tl.store(out_ptr0 + (x0), tl.sum(tmp3, 1)[:, None], xmask)


@triton.jit
def triton_poi_fused_jagged(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    count = tl.load(in_ptr1)
    tmp0 = tl.zeros([XBLOCK], tl.float32)
    for row in range(0, count):
        tmp0 += tl.load(in_ptr0 + row * xnumel + xindex, xmask, other=0.0)
    tl.store(out_ptr0 + xindex, tmp0, xmask)
