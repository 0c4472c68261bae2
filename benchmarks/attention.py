"""Measure Triton's flash attention on the GPU of this machine: shared memory and best tile against the predicted.

    python benchmarks/attention.py --out attention.csv [--budget 20] [--device h200]

For each problem: carver's first ten, then every other tile that its rules allow, as far as `--budget` goes, each result
checked against PyTorch's attention; and a few tiles that the rules hold too large. Writes a table that `carver evaluate
FILE` reads, with the shared memory, registers and spills that the compiler reports, and prints what the first and the
best of ten lose. Needs PyTorch and Triton.
"""

from __future__ import annotations

import itertools
from types import MappingProxyType
from typing import Any

import torch
import triton
import triton.language as tl
from triton_table import Config, Launch, Row, main

import carver

TILES = list(itertools.product((32, 64, 128, 256), (16, 32, 64, 128), (4, 8), (2, 3, 4)))
PROBLEMS = [
    {"batch": b, "heads": 32, "kv_heads": kv, "seq": seq, "seq_kv": seq, "head_dim": d, "causal": causal}
    for (b, seq), kv, d, causal in itertools.product(((16, 1024), (2, 8192)), (8, 32), (64, 128, 256), (False, True))
    if kv == 8 or d == 128
]


@triton.jit
def forward(  # type: ignore[no-untyped-def]
    q_at, k_at, v_at, o_at, scale, group, seq, seq_kv,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    block, head = tl.program_id(0), tl.program_id(1)
    rows, cols, depth = block * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, HEAD)
    own = rows[:, None] * HEAD + depth[None, :]
    inside = rows[:, None] < seq
    q_head = head.to(tl.int64) * seq * HEAD
    kv_head = (head // group).to(tl.int64) * seq_kv * HEAD
    q = tl.load(q_at + q_head + own, mask=inside, other=0.0)
    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD], tl.float32)
    last = seq_kv
    if CAUSAL:
        last = tl.minimum(seq_kv, (block + 1) * BLOCK_M + seq_kv - seq)
    for start in range(0, last, BLOCK_N):
        key = start + cols
        k = tl.load(k_at + kv_head + key[None, :] * HEAD + depth[:, None], mask=key[None, :] < seq_kv, other=0.0)
        s = tl.dot(q, k) * scale
        if CAUSAL:
            s = tl.where(rows[:, None] + seq_kv - seq >= key[None, :], s, -1.0e6)
        else:
            s = tl.where(key[None, :] < seq_kv, s, -1.0e6)
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - higher[:, None])
        shrink = tl.exp2(top - higher)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        v = tl.load(v_at + kv_head + key[:, None] * HEAD + depth[None, :], mask=key[:, None] < seq_kv, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
        top = higher
    tl.store(o_at + q_head + own, (acc / total[:, None]).to(q.dtype), mask=inside)


def arguments(p: Row, c: Config) -> tuple[tuple[float, ...], Config]:
    """What a launch takes beside the tensors: the numbers, and the constants."""
    numbers = (p["head_dim"] ** -0.5 * 1.44269504, p["heads"] // p["kv_heads"], p["seq"], p["seq_kv"])
    return numbers, {"HEAD": p["head_dim"], "CAUSAL": p["causal"], **c}


class Attention:
    problems = MappingProxyType({"all": PROBLEMS})

    def columns(self, p: Row) -> Row:
        return {"operator": "attention", **p, "in_dtype": "float16"}

    def configs(self, p: Row, arch: carver.Arch) -> list[Config]:
        """The first ten, then all other tiles: allowed ones in a fixed shuffle, those held too large last."""
        every = [dict(zip(("BLOCK_M", "BLOCK_N", "num_warps", "num_stages"), tile, strict=True)) for tile in TILES]
        ranking = carver.FlashAttentionTemplate(**p).with_arch(arch).rank(every)
        order = ranking.indices
        rest = sorted(order[10:], key=lambda i: i * 7919 % 104729)
        return [every[i] for i in (*order[:10], *rest[:30], *list(ranking.reasons)[:6], *rest[30:])]

    def identity(self, p: Row, c: Config) -> tuple[Any, ...]:
        return p["heads"] // p["kv_heads"], p["head_dim"], p["causal"], *c.values()

    def compile(self, p: Row, c: Config) -> None:
        numbers, constants = arguments(p, c)
        forward.warmup(*[torch.float16] * 4, *numbers, grid=(1,), **constants)

    def launch(self, p: Row) -> Launch:
        def draw(heads: int, rows: int) -> torch.Tensor:
            return torch.randn(p["batch"], heads, rows, p["head_dim"], device="cuda", dtype=torch.float16)

        q, k, v = draw(p["heads"], p["seq"]), draw(p["kv_heads"], p["seq_kv"]), draw(p["kv_heads"], p["seq_kv"])
        out = torch.empty_like(q)
        grouped = p["kv_heads"] < p["heads"]
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=p["causal"], enable_gqa=grouped)

        def run(c: Config) -> Any:
            numbers, constants = arguments(p, c)
            grid = (triton.cdiv(p["seq"], c["BLOCK_M"]), p["batch"] * p["heads"])
            return forward[grid](q, k, v, out, *numbers, **constants)

        return Launch(run, lambda: float((out.float() - expected.float()).abs().max()), 2e-2)


if __name__ == "__main__":
    main(Attention(), __doc__)
