"""A block of a decoder, in PyTorch."""

import torch
from torch import Tensor, nn
from torch.nn import functional

HEAD = 128
"""Width of a head."""


class Block(nn.Module):
    """Attention and a gated MLP, each behind an RMS norm; rotary positions, grouped key and value heads."""

    def __init__(self, hidden: int, inner: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        self.q = nn.Linear(hidden, heads * HEAD, bias=False)
        self.k, self.v = (nn.Linear(hidden, kv_heads * HEAD, bias=False) for _ in range(2))
        self.o = nn.Linear(heads * HEAD, hidden, bias=False)
        self.gate, self.up = (nn.Linear(hidden, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, hidden, bias=False)
        self.before, self.between = nn.RMSNorm(hidden, 1e-5), nn.RMSNorm(hidden, 1e-5)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        y = self.before(x)
        q, k, v = (f(y).view(len(x), -1, HEAD).transpose(0, 1) for f in (self.q, self.k, self.v))
        q, k = (z * cos + torch.cat((-z[..., HEAD // 2 :], z[..., : HEAD // 2]), -1) * sin for z in (q, k))
        a = functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=True)
        x = x + self.o(a[0].transpose(0, 1).reshape(len(x), -1))
        y = self.between(x)
        out: Tensor = x + self.down(functional.silu(self.gate(y)) * self.up(y))
        return out
