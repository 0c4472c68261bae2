"""Measure kernels that serving and training engines write otherwise: one launch over groups of rows, attention with
tensor descriptors, decoding with split keys in pages (`kernels/triton_more.py`).

    python benchmarks/declared.py --out declared.csv --device h200 --rep 8 [--only walk]

72 configurations of each problem, drawn from what shared memory holds, in one table for all kernels. Needs PyTorch and
Triton.
"""

from __future__ import annotations

import itertools
import random
from types import MappingProxyType
from typing import Any

import torch
import triton
from kernels import triton_more
from triton_table import Config, Launch, Row, main

import carver

MOST, PAGE, SMS = 72, 16, 132
SMEM_BYTES = 227 << 10
LOG2_E = 1.44269504
TILES: dict[str, dict[str, tuple[int, ...]]] = {
    "walk": {"BLOCK_M": (32, 64, 128), "BLOCK_N": (64, 128, 256), "BLOCK_K": (32, 64, 128), "num_warps": (4, 8),
             "num_stages": (2, 3, 4), "PER_SM": (1, 2)},
    "attention": {"BLOCK_M": (64, 128, 256), "BLOCK_N": (32, 64, 128), "num_warps": (4, 8), "num_stages": (1, 2, 3, 4)},
    "decode": {"BLOCK_M": (16,), "BLOCK_N": (16, 32, 64, 128), "num_warps": (2, 4, 8), "num_stages": (2, 3, 4),
               "SPLIT_KV": (1, 2, 4, 8, 16, 32, 64)},
}  # fmt: skip
PROBLEMS: list[Row] = [
    *({"kernel": "walk", "counts": counts, "N": n, "K": k} for counts, n, k in (
        ((512,) * 8, 4096, 4096), ((128,) * 8, 7168, 4096), ((1024,) * 4, 2048, 2048), ((256,) * 16, 5120, 1024),
        ((64,) * 64, 2560, 3584), ((256,) * 64, 1408, 2048), ((128,) * 32, 2880, 2880), ((32,) * 128, 1536, 2048),
        ((64,) * 128, 2048, 768), ((4096,) * 2, 4096, 4096), ((16,) * 64, 2048, 7168), ((2048,) * 8, 1024, 4096),
    )),
    *({"kernel": "attention", "batch": b, "heads": h, "seq": s, "head_dim": d, "causal": causal}
      for b, h, s, d, causal in (
        (4, 32, 1024, 64, True), (4, 16, 2048, 64, False), (1, 16, 8192, 64, True), (2, 16, 4096, 128, True),
        (1, 32, 4096, 128, False), (8, 16, 1024, 128, True), (16, 16, 512, 64, False), (1, 8, 16384, 128, True),
        (4, 8, 2048, 128, False), (32, 8, 512, 128, True), (2, 32, 2048, 64, True), (1, 64, 1024, 128, False),
    )),
    *({"kernel": "decode", "batch": b, "heads": g * h, "kv_heads": h, "seq_kv": s, "head_dim": d}
      for b, h, g, s, d in (
        (1, 8, 4, 8192, 128), (8, 8, 4, 4096, 128), (32, 8, 4, 2048, 128), (64, 8, 8, 1024, 128),
        (16, 8, 8, 8192, 128), (4, 8, 8, 32768, 128), (128, 8, 4, 2048, 128), (2, 4, 8, 16384, 128),
        (1, 8, 8, 65536, 128), (32, 1, 16, 4096, 64),
    )),
]  # fmt: skip


def fits(p: Row, c: Config) -> bool:
    """Within shared memory, and of few enough sums a thread."""
    threads, ahead = 32 * c["num_warps"], max(c["num_stages"] - 1, 1)
    if p["kernel"] in ("attention", "decode"):
        held = 2 * p["head_dim"] * (c["BLOCK_M"] + 2 * ahead * c["BLOCK_N"])
        return held <= SMEM_BYTES and c["BLOCK_M"] * (p["head_dim"] + c["BLOCK_N"]) // threads <= 320
    held = (2 * c["BLOCK_M"] + 2 * c["BLOCK_N"]) * c["BLOCK_K"] * ahead
    return held <= SMEM_BYTES and 2 <= c["BLOCK_M"] * c["BLOCK_N"] // threads <= 256


def words(p: Row, c: Config) -> Row:
    """The constants of a launch."""
    own = {name: value for name, value in c.items() if name != "PER_SM"}
    more = {
        "walk": {}, "attention": {"HEAD": p.get("head_dim"), "CAUSAL": p.get("causal")},
        "decode": {"HEAD": p.get("head_dim"), "PAGE": PAGE},
    }  # fmt: skip
    return own | more[p["kernel"]]


class Declared:
    problems = MappingProxyType({"all": PROBLEMS})

    def columns(self, p: Row) -> Row:
        types = {"in_dtype": "bfloat16", "out_dtype": "bfloat16"}
        match p["kernel"]:
            case "walk":
                size = {"rows": p["counts"][0], "experts": len(p["counts"]), "N": p["N"], "K": p["K"]}
                return {"operator": "grouped_matmul", "backend": "triton_walk"} | size | types
            case "attention":
                size = {name: p[name] for name in ("batch", "heads", "seq", "head_dim", "causal")}
                return {"operator": "attention", "backend": "triton_tma", "in_dtype": "float16"} | size
        size = {name: p[name] for name in ("batch", "heads", "kv_heads", "seq_kv", "head_dim")}
        size |= {"seq": 1, "page": PAGE, "in_dtype": "float16"}
        return {"operator": "attention", "backend": "triton_decode"} | size

    def configs(self, p: Row, arch: carver.Arch) -> list[Config]:
        tiles = TILES[p["kernel"]]
        every = [dict(zip(tiles, values, strict=True)) for values in itertools.product(*tiles.values())]
        good = [c for c in every if fits(p, c)]
        drawn = random.Random(5).sample(good, min(MOST, len(good)))
        return [drawn[-1], *drawn]  # the first finds a GPU that idled

    def identity(self, p: Row, c: Config) -> tuple[Any, ...]:
        return p["kernel"], *words(p, c).items()

    def compile(self, p: Row, c: Config) -> None:
        half, number = torch.float16, torch.float32
        match p["kernel"]:
            case "walk":
                given = (torch.bfloat16, torch.bfloat16, torch.bfloat16, torch.int32, 7, p["N"], p["K"])
                triton_more.walk.warmup(*given, grid=(1,), **words(p, c))
            case "attention":
                numbers = (1.0, p["batch"] * p["heads"], p["seq"])
                triton_more.attention.warmup(*[half] * 4, *numbers, grid=(1,), **words(p, c))
            case "decode":
                part = number if c["SPLIT_KV"] > 1 else half
                group = p["heads"] // p["kv_heads"]
                numbers = (1.0, p["seq_kv"] // PAGE, p["seq_kv"], p["kv_heads"], group)
                given = (half, half, half, torch.int32, part, number)
                triton_more.decode.warmup(*given, *numbers, grid=(1,), **words(p, c))

    def launch(self, p: Row) -> Launch:
        torch.manual_seed(0)
        triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
        return {"walk": walk, "attention": attention, "decode": decode}[p["kernel"]](p)


def draw(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def worst(got: torch.Tensor, want: torch.Tensor) -> float:
    return float((got.float() - want.float()).abs().max() / want.float().abs().max())


def walk(p: Row) -> Launch:
    counts, n, k = p["counts"], p["N"], p["K"]
    starts = torch.tensor([0, *itertools.accumulate(counts)], dtype=torch.int32, device="cuda")
    x, w = draw(sum(counts), k, dtype=torch.bfloat16), draw(len(counts), n, k, dtype=torch.bfloat16)
    out = torch.empty(sum(counts), n, device="cuda", dtype=torch.bfloat16)
    want = torch.cat([rows @ weights.T for rows, weights in zip(x.split(counts), w, strict=True)])

    def run(c: Config) -> Any:
        return triton_more.walk[(SMS * c["PER_SM"],)](x, w, out, starts, len(counts), n, k, **words(p, c))

    return Launch(run, lambda: worst(out, want), 2e-2)


def attention(p: Row) -> Launch:
    shape = (p["batch"], p["heads"], p["seq"], p["head_dim"])
    q, k, v = (draw(*shape) for _ in range(3))
    out, heads = torch.empty_like(q), p["batch"] * p["heads"]
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=p["causal"])
    numbers = (p["head_dim"] ** -0.5 * LOG2_E, heads, p["seq"])

    def run(c: Config) -> Any:
        grid = (triton.cdiv(p["seq"], c["BLOCK_M"]), heads)
        return triton_more.attention[grid](q, k, v, out, *numbers, **words(p, c))

    return Launch(run, lambda: worst(out, want), 2e-2)


def decode(p: Row) -> Launch:
    batch, heads, keys, head_dim = p["batch"], p["kv_heads"], p["seq_kv"], p["head_dim"]
    pages, group = keys // PAGE, p["heads"] // p["kv_heads"]
    q = draw(batch, heads, group, head_dim)
    k, v = (draw(batch * pages, PAGE, heads, head_dim) for _ in range(2))
    table = torch.randperm(batch * pages, device="cuda").to(torch.int32).view(batch, pages)
    out = torch.empty_like(q)
    parts = torch.empty(q.numel() * 64, device="cuda", dtype=torch.float32)
    lse = torch.empty(q.numel() // head_dim * 64, device="cuda", dtype=torch.float32)
    one = table[0].long()
    first = [x[one].reshape(keys, heads, head_dim).transpose(0, 1) for x in (k, v)]
    want = torch.nn.functional.scaled_dot_product_attention(q[0], *first)
    numbers = (head_dim**-0.5 * LOG2_E, pages, keys, heads, group)

    def run(c: Config) -> Any:
        split = c["SPLIT_KV"]
        grid = (batch, heads, split)
        made = triton_more.decode[grid](q, k, v, table, parts if split > 1 else out, lse, *numbers, **words(p, c))
        if split > 1:
            triton_more.join[(batch * heads * group,)](parts, lse, out, HEAD=head_dim, SPLIT_KV=split)
        return made

    return Launch(run, lambda: worst(out[0], want), 2e-2)


if __name__ == "__main__":
    main(Declared(), __doc__)
