"""Kernels of Helion for `benchmarks/search.py`: the products and reductions of a transformer, at two shapes each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
def matmul_silu(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """silu(a b + bias) times one factor a row."""
    rows, depth = a.size()
    columns = b.size(1)
    out = torch.empty([rows, columns], dtype=a.dtype, device=a.device)
    for m, n in hl.tile([rows, columns]):
        total = hl.zeros([m, n], dtype=torch.float32)
        for k in hl.tile(depth):
            total = torch.addmm(total, a[m, k], b[k, n])
        x = total + bias[n].to(torch.float32)[None, :]
        out[m, n] = (x * torch.sigmoid(x) * scale[m].to(torch.float32)[:, None]).to(a.dtype)
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


CASES: dict[str, tuple[Any, list[list[tuple[int, ...]]]]] = {
    "matmul": (matmul, [[(4096, 4096), (4096, 4096)], [(512, 8192), (8192, 2048)]]),
    "matmul_silu": (matmul_silu, [
        [(2048, 4096), (4096, 4096), (4096,), (2048,)], [(8192, 1024), (1024, 4096), (4096,), (8192,)],
    ]),
    "layer_norm": (layer_norm, [[(8192, 4096), (4096,), (4096,)], [(32768, 1024), (1024,), (1024,)]]),
    "attention": (attention, [[(32, 4096, 128)] * 3, [(128, 1024, 64)] * 3]),
}  # fmt: skip
"""By name: a kernel, and the shapes of its arguments, of two launches."""


def bound(name: str, shape: int, tensor: Callable[..., Any]) -> tuple[Any, tuple[Any, ...]]:
    """A kernel bound to the arguments of one of its launches, and these; `tensor` makes them."""
    kernel, shapes = CASES[name]
    args = tuple(tensor(*each, dtype=torch.float16) for each in shapes[shape])
    return kernel.bind(args), args
