"""Kernels of Helion: a product and reductions of a transformer."""

from __future__ import annotations

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    rows, depth = a.size()
    columns = b.size(1)
    out = torch.empty([rows, columns], dtype=a.dtype, device=a.device)
    for m, n in hl.tile([rows, columns]):
        total = hl.zeros([m, n], dtype=torch.float32)
        for k in hl.tile(depth):
            total = torch.addmm(total, a[m, k], b[k, n])
        out[m, n] = total.to(a.dtype)
    return out


@helion.kernel(static_shapes=True)
def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    rows, _ = x.size()
    out = torch.empty_like(x)
    for m in hl.tile(rows):
        row = x[m, :].to(torch.float32)
        away = row - row.mean(dim=-1)[:, None]
        scale = torch.rsqrt((away * away).mean(dim=-1) + 1e-5)
        out[m, :] = (away * scale[:, None] * weight[:].to(torch.float32) + bias[:].to(torch.float32)).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    heads, queries, width = q.size()
    keys, width = k.size(1), hl.specialize(width)
    out = torch.empty_like(q)
    factor = width**-0.5 * 1.44269504
    for h, m in hl.tile([heads, queries]):
        top = hl.full([h, m], float("-inf"), dtype=torch.float32)
        weights = hl.zeros([h, m], dtype=torch.float32)
        total = hl.zeros([h, m, width], dtype=torch.float32)
        rows = q[h, m, :]
        for n in hl.tile(keys):
            scores = torch.bmm(rows, k[h, n, :].transpose(1, 2)) * factor
            higher = torch.maximum(top, torch.amax(scores, -1))
            share = torch.exp2(scores - higher[:, :, None])
            fade = torch.exp2(top - higher)
            weights = weights * fade + share.sum(-1)
            total = torch.baddbmm(total * fade[:, :, None], share.to(v.dtype), v[h, n, :])
            top = higher
        out[h, m, :] = (total / weights[:, :, None]).to(out.dtype)
    return out
