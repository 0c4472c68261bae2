"""Measure Triton's flash attention on the GPU of this machine: shared memory and best tile against the predicted.

    python benchmarks/attention.py --out attention.csv [--budget 20] [--device h200]

For each problem: carver's first ten, then every other tile that its rules allow, as far as `--budget` goes, each result
checked against PyTorch's attention; and a few tiles that the rules hold too large. Writes a table that `carver evaluate
FILE` reads, with the shared memory, registers and spills that the compiler reports, and prints what the first and the
best of ten lose. Needs PyTorch and Triton.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
import triton
from kernels.triton_declared import attention
from triton_table import Config, Launch, Row, main

import carver

TILES = list(itertools.product((32, 64, 128, 256), (16, 32, 64, 128), (4, 8), (2, 3, 4)))
PROBLEMS = [
    {"batch": b, "heads": 32, "kv_heads": kv, "seq": seq, "seq_kv": seq, "head_dim": d, "causal": causal}
    for (b, seq), kv, d, causal in itertools.product(((16, 1024), (2, 8192)), (8, 32), (64, 128, 256), (False, True))
    if kv == 8 or d == 128
]


def arguments(p: Row, c: Config) -> tuple[tuple[float, ...], Config]:
    """What a launch takes beside the tensors: the numbers, and the constants."""
    numbers = (p["head_dim"] ** -0.5 * 1.44269504, p["heads"] // p["kv_heads"], p["seq"], p["seq_kv"])
    return numbers, {"HEAD": p["head_dim"], "CAUSAL": p["causal"], **c}


class Attention:
    problems = PROBLEMS

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
        attention.warmup(*[torch.float16] * 4, *numbers, grid=(1,), **constants)

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
            return attention[grid](q, k, v, out, *numbers, **constants)

        return Launch(run, lambda: float((out.float() - expected.float()).abs().max()), 2e-2)


if __name__ == "__main__":
    main({"all": Attention()}, __doc__)
