"""Measure kernels that serving and training engines write otherwise: one launch over groups of rows, attention with
tensor descriptors and backwards, decoding with split keys in pages (`kernels/triton_more.py`), weights of few bits and
operands of 8 with a scale a row (`kernels/triton_low_bits.py`), experts of weights of few bits
(`kernels/triton_moe.py`), a persistent matmul with tensor descriptors (`kernels/triton_zoo.py`).

    python benchmarks/declared.py --out declared.csv --device h200 --rep 8 [--only walk]

72 configurations of each problem, drawn from what shared memory holds, in one table for all kernels. Needs PyTorch and
Triton.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import torch
import triton
from kernels import triton_low_bits, triton_moe, triton_more, triton_zoo
from serving import Matmul, aligned, routed
from triton_table import Config, Launch, Row, main

import carver

MOST, PAGE, SMS, GROUP = 72, 16, 132, 128
SMEM_BYTES = 227 << 10
LOG2_E = 1.44269504
TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float8_e4m3": torch.float8_e4m3fn}
TILES: dict[str, dict[str, tuple[int, ...]]] = {
    "walk": {"BLOCK_M": (32, 64, 128), "BLOCK_N": (64, 128, 256), "BLOCK_K": (32, 64, 128), "num_warps": (4, 8),
             "num_stages": (2, 3, 4), "PER_SM": (1, 2)},
    "attention": {"BLOCK_M": (64, 128, 256), "BLOCK_N": (32, 64, 128), "num_warps": (4, 8), "num_stages": (1, 2, 3, 4)},
    "decode": {"BLOCK_M": (16,), "BLOCK_N": (16, 32, 64, 128), "num_warps": (2, 4, 8), "num_stages": (2, 3, 4),
               "SPLIT_KV": (1, 2, 4, 8, 16, 32, 64)},
    "weights": {"BLOCK_M": (16, 32, 64, 128), "BLOCK_N": (32, 64, 128, 256), "BLOCK_K": (32, 64, 128),
                "num_warps": (4, 8), "num_stages": (2, 3, 4), "SPLIT_K": (1, 2, 4, 8), "GROUP_M": (8,)},
    "rows_scaled": {"BLOCK_M": (16, 32, 64, 128, 256), "BLOCK_N": (32, 64, 128, 256), "BLOCK_K": (64, 128, 256),
                    "num_warps": (4, 8), "num_stages": (2, 3, 4, 5), "GROUP_M": (8,)},
    "experts": {"BLOCK_M": (16, 32, 64, 128), "BLOCK_N": (16, 32, 64, 128, 256), "BLOCK_K": (32, 64, 128, 256),
                "num_warps": (4, 8), "num_stages": (2, 3, 4), "GROUP_M": (1, 16)},
    "backward": {"BLOCK_M": (16, 32, 64, 128), "BLOCK_N": (16, 32, 64, 128), "num_warps": (4, 8),
                 "num_stages": (1, 2, 3)},
    "persistent": {"BLOCK_M": (64, 128, 256), "BLOCK_N": (32, 64, 128, 256), "BLOCK_K": (32, 64, 128),
                   "num_warps": (4, 8), "num_stages": (2, 3, 4), "GROUP_M": (8,)},
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
    *({"kernel": "weights", "type": kind, "M": m, "N": n, "K": k} for kind, m, n, k in (
        ("int4", 1, 4096, 4096), ("int4", 16, 14336, 4096), ("int4", 64, 4096, 14336), ("int4", 32, 6144, 4096),
        ("int4", 8, 28672, 8192), ("int4", 256, 4096, 14336), ("int4", 512, 14336, 4096), ("int4", 1024, 6144, 4096),
        ("int4", 4096, 4096, 4096), ("int4", 2048, 8192, 8192), ("uint4", 16, 5120, 5120), ("uint4", 48, 27648, 5120),
        ("uint4", 1, 8192, 8192), ("int8", 16, 4096, 4096), ("int8", 1, 14336, 4096), ("int8", 64, 8192, 8192),
        ("int8", 256, 6144, 4096), ("int8", 1024, 4096, 14336), ("int8", 4096, 4096, 4096),
    )),
    *({"kernel": "rows_scaled", "per_row": per_row, "M": m, "N": n, "K": k} for per_row, m, n, k in (
        (True, 16, 4096, 4096), (True, 64, 6144, 4096), (True, 256, 28672, 4096), (True, 1024, 4096, 14336),
        (True, 4096, 8192, 8192), (True, 2048, 5120, 5120), (True, 128, 8192, 8192), (True, 8192, 4096, 4096),
        (False, 32, 14336, 4096), (False, 512, 6144, 4096), (False, 4096, 5120, 5120),
    )),
    *({"kernel": "experts", "type": kind, "group": group, "tokens": tokens, "experts": e, "topk": topk,
       "chosen": chosen, "N": n, "K": k}
      for kind, group, e, chosen, hidden, wide, batches in (
        ("int4", 128, 128, 8, 2048, 768, (1, 32, 512)), ("uint4", 64, 64, 6, 2048, 1408, (16, 256, 2048)),
        ("int4", 32, 8, 2, 4096, 3584, (4, 128)), ("int8", 128, 60, 4, 2048, 1408, (16, 1024)),
      )
      for topk, n, k in ((chosen, 2 * wide, hidden), (1, hidden, wide)) for tokens in batches),
    *({"kernel": "backward", "of": of, "batch": b, "heads": h, "seq": s, "head_dim": d, "causal": causal}
      for of in ("keys", "queries") for b, h, s, d, causal in (
        (4, 16, 1024, 128, True), (1, 16, 8192, 128, True), (2, 32, 2048, 128, False), (1, 8, 2048, 128, False),
        (4, 32, 1024, 64, True), (2, 12, 4096, 64, True), (16, 8, 512, 64, True),
    )),
    *({"kernel": "persistent", "type": kind, "M": m, "N": n, "K": k} for kind, m, n, k in (
        ("float16", 3072, 3072, 3072), ("float16", 512, 14336, 4096), ("float16", 256, 28672, 8192),
        ("float16", 5000, 4104, 2056), ("bfloat16", 1024, 1024, 8192), ("bfloat16", 16384, 2048, 512),
        ("bfloat16", 2048, 6144, 4096), ("bfloat16", 6144, 6144, 6144), ("bfloat16", 96, 8192, 8192),
        ("bfloat16", 32768, 768, 768), ("float8_e4m3", 4096, 4096, 4096), ("float8_e4m3", 1024, 8192, 7168),
        ("float8_e4m3", 128, 24576, 1536), ("float8_e4m3", 8192, 2112, 7168),
    )),
]  # fmt: skip


def fits(p: Row, c: Config) -> bool:
    """Within shared memory, and of few enough sums a thread."""
    threads, ahead = 32 * c["num_warps"], max(c["num_stages"] - 1, 1)
    if p["kernel"] in ("attention", "decode"):
        held = 2 * p["head_dim"] * (c["BLOCK_M"] + 2 * ahead * c["BLOCK_N"])
        return held <= SMEM_BYTES and c["BLOCK_M"] * (p["head_dim"] + c["BLOCK_N"]) // threads <= 320
    if p["kernel"] == "backward":
        kept, walked = (c["BLOCK_N"], c["BLOCK_M"])[:: 1 if p["of"] == "keys" else -1]
        held = 4 * p["head_dim"] * (kept + ahead * walked)
        sums = kept * (p["head_dim"] * (2 if p["of"] == "keys" else 1) + 2 * walked)
        return held <= SMEM_BYTES and sums // threads <= 320
    if p["kernel"] == "weights":
        own = 4 if p["type"] == "int8" else 3 + 4 / ahead  # halves of the bytes of an element of B
        held = c["BLOCK_K"] * ahead * (2 * c["BLOCK_M"] + own * c["BLOCK_N"] / 2)
        few = c["BLOCK_M"] <= 64 if p["M"] <= 64 else c["BLOCK_M"] >= 32 and c["SPLIT_K"] == 1
        return few and held <= SMEM_BYTES and 2 <= c["BLOCK_M"] * c["BLOCK_N"] // threads <= 256
    if p["kernel"] == "experts":  # weights are read by each thread to where they are unpacked
        held = 2 * c["BLOCK_K"] * (c["BLOCK_M"] * c["num_stages"] + c["BLOCK_N"])
        mean = p["tokens"] * p["chosen"] / p["experts"]
        few = c["BLOCK_M"] <= 4 * max(mean, 16) and c["BLOCK_N"] * c["BLOCK_K"] <= 128 * threads
        return few and held <= SMEM_BYTES and 2 <= c["BLOCK_M"] * c["BLOCK_N"] // threads <= 128
    if p["kernel"] == "rows_scaled":
        held = (c["BLOCK_M"] + c["BLOCK_N"]) * c["BLOCK_K"] * ahead
        few = c["BLOCK_M"] <= 64 if p["M"] <= 64 else c["BLOCK_M"] >= 64
        return few and held <= SMEM_BYTES and 2 <= c["BLOCK_M"] * c["BLOCK_N"] // threads <= 256
    if p["kernel"] == "persistent":  # tensor descriptors: a buffer a stage, and the result's
        each = TYPES[p["type"]].itemsize
        held = (c["BLOCK_M"] + c["BLOCK_N"]) * c["BLOCK_K"] * c["num_stages"] * each + c["BLOCK_M"] * c["BLOCK_N"] * 2
        return held <= SMEM_BYTES and 8 <= c["BLOCK_M"] * c["BLOCK_N"] // threads <= 256
    held = (2 * c["BLOCK_M"] + 2 * c["BLOCK_N"]) * c["BLOCK_K"] * ahead
    return held <= SMEM_BYTES and 2 <= c["BLOCK_M"] * c["BLOCK_N"] // threads <= 256


def words(p: Row, c: Config) -> Row:
    """The constants of a launch."""
    runtime = ("PER_SM", "GROUP_M") if p["kernel"] == "experts" else ("PER_SM",)
    own = {name: value for name, value in c.items() if name not in runtime}
    more = {
        "walk": {}, "persistent": {}, "attention": {"HEAD": p.get("head_dim"), "CAUSAL": p.get("causal")},
        "decode": {"HEAD": p.get("head_dim"), "PAGE": PAGE},
        "backward": {"HEAD": p.get("head_dim"), "CAUSAL": p.get("causal")},
        "weights": {"BITS": 8, "GROUP": 0, "ZEROS": False} if p.get("type") == "int8" else
                   {"BITS": 4, "GROUP": GROUP, "ZEROS": p.get("type") == "uint4"},
        "rows_scaled": {"PER_ROW": p.get("per_row")},
        "experts": {"N": p.get("N"), "K": p.get("K"), "BITS": 8 if p.get("type") == "int8" else 4,
                    "GROUP": p.get("group"), "ZEROS": p.get("type") == "uint4", "GATED": p.get("topk") == 1},
    }  # fmt: skip
    return own | more[p["kernel"]]


BACKWARD = {"keys": triton_more.keys_backward, "queries": triton_more.queries_backward}


class Declared:
    problems = PROBLEMS

    def columns(self, p: Row) -> Row:
        types = {"in_dtype": "bfloat16", "out_dtype": "bfloat16"}
        match p["kernel"]:
            case "walk":
                size = {"rows": p["counts"][0], "experts": len(p["counts"]), "N": p["N"], "K": p["K"]}
                return {"operator": "grouped_matmul", "backend": "triton_walk"} | size | types
            case "attention":
                size = {name: p[name] for name in ("batch", "heads", "seq", "head_dim", "causal")}
                return {"operator": "attention", "backend": "triton_tma", "in_dtype": "float16"} | size
            case "backward":
                size = {name: p[name] for name in ("batch", "heads", "seq", "head_dim", "causal")}
                return {"operator": "attention", "in_dtype": "float16", "backward": p["of"]} | size
            case "weights":
                size = {name: p[name] for name in "MNK"} | {"in_dtype": "float16", "b_dtype": p["type"]}
                block = "row" if p["type"] == "int8" else f"1x{GROUP}"
                return {"operator": "scaled_matmul", "scale_block": block} | size
            case "experts":
                size = {"rows": p["tokens"], "N": p["N"], "K": p["K"], "experts": p["experts"], "chosen": p["chosen"]}
                types |= {"b_dtype": p["type"], "scale_block": f"1x{p['group']}"}
                return {"operator": "grouped_matmul"} | size | types
            case "persistent":
                types = {"in_dtype": p["type"], "out_dtype": result_of(p), "trans_B": 1}
                return {"operator": "matmul", "backend": "triton_tma"} | {name: p[name] for name in "MNK"} | types
            case "rows_scaled":
                size = {name: p[name] for name in "MNK"} | {"in_dtype": "float8_e4m3", "out_dtype": "bfloat16"}
                return {"operator": "scaled_matmul", "scale_block": "row" if p["per_row"] else "tensor"} | size
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
        return p["kernel"], p.get("of"), *words(p, c).items()

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
            case "backward":
                given = (*[half] * 4, number, number, *[half] * (2 if p["of"] == "keys" else 1))
                BACKWARD[p["of"]].warmup(*given, 1.0, p["seq"], grid=(1,), **words(p, c))
            case "weights":
                stored = torch.int8 if p["type"] == "int8" else torch.int32
                given = (half, stored, half, half, half, number)
                triton_low_bits.weights.warmup(*given, p["M"], p["N"], p["K"], grid=(1,), **words(p, c))
            case "experts":
                types = (torch.bfloat16, torch.uint8, *[torch.bfloat16] * 2, torch.uint8, number, *[torch.int32] * 3)
                triton_moe.grouped_weights.warmup(*types, *expert_sizes(p, c, 16), grid=(1,), **words(p, c))
            case "persistent":
                given = (*[TYPES[p["type"]]] * 2, TYPES[result_of(p)], *(p[name] for name in "MNK"))
                triton_zoo.matmul_persistent.warmup(*given, grid=(1,), **words(p, c))
            case "rows_scaled":
                given = (torch.float8_e4m3fn, torch.float8_e4m3fn, number, number, torch.bfloat16)
                triton_low_bits.rows_scaled.warmup(*given, p["M"], p["N"], p["K"], grid=(1,), **words(p, c))

    def launch(self, p: Row) -> Launch:
        torch.manual_seed(0)
        triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
        launches = (walk, attention, decode, backward, weights, rows_scaled, experts, persistent)
        return {launch.__name__: launch for launch in launches}[p["kernel"]](p)


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


def backward(p: Row) -> Launch:
    shape = (p["batch"], p["heads"], p["seq"], p["head_dim"])
    q, k, v = (draw(*shape).requires_grad_() for _ in range(3))
    grad, scale = draw(*shape), p["head_dim"] ** -0.5
    whole = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=p["causal"])
    whole.backward(grad)
    with torch.no_grad():
        delta = (whole.float() * grad.float()).sum(-1)
        lse = torch.empty(shape[:3], device="cuda")
        for b in range(shape[0]):
            scores = (q[b] @ k[b].mT).float() * scale
            if p["causal"]:
                scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu_(1), -torch.inf)
            lse[b] = torch.logsumexp(scores, -1) * LOG2_E
    del scores
    own, wants = ("BLOCK_N", (k.grad, v.grad)) if p["of"] == "keys" else ("BLOCK_M", (q.grad,))
    outs = [torch.empty_like(want) for want in wants]

    def run(c: Config) -> Any:
        grid = (triton.cdiv(p["seq"], c[own]), shape[0] * shape[1])
        return BACKWARD[p["of"]][grid](q, k, v, grad, lse, delta, *outs, scale, p["seq"], **words(p, c))

    return Launch(run, lambda: max(map(worst, outs, wants)), 2e-2)


def weights(p: Row) -> Launch:
    m, n, k = p["M"], p["N"], p["K"]
    a, out = draw(m, k), torch.empty(m, n, device="cuda", dtype=torch.float16)
    parts = torch.empty(8 * m * n if m <= 64 else 1, device="cuda", dtype=torch.float32)
    if p["type"] == "int8":
        b = torch.randint(-128, 128, (k, n), device="cuda", dtype=torch.int8)
        scale = torch.rand(n, device="cuda", dtype=torch.float16) / 64
        zero, dense = scale, b.half() * scale
    else:
        b = torch.randint(-(2**31), 2**31, (k // 8, n), device="cuda", dtype=torch.int32)
        scale = torch.rand(k // GROUP, n, device="cuda", dtype=torch.float16) / 8
        zero = torch.randint(0, 16, (k // GROUP, n), device="cuda").half() if p["type"] == "uint4" else scale
        own = (b[:, None, :] >> torch.arange(0, 32, 4, device="cuda")[None, :, None] & 15).reshape(k, n)
        zeros = zero.repeat_interleave(GROUP, 0) if p["type"] == "uint4" else 8
        dense = (own.half() - zeros) * scale.repeat_interleave(GROUP, 0)
        del own, zeros
    want = a @ dense
    del dense

    def run(c: Config) -> Any:
        split = c["SPLIT_K"]
        grid = (triton.cdiv(m, c["BLOCK_M"]) * triton.cdiv(n, c["BLOCK_N"]), split)
        made = triton_low_bits.weights[grid](a, b, scale, zero, out, parts, m, n, k, **words(p, c))
        if split > 1:
            triton_low_bits.add_parts[(triton.cdiv(m * n, 1024),)](parts, out, m * n, SPLIT_K=split, BLOCK=1024)
        return made

    return Launch(run, lambda: worst(out, want), 2e-2)


def rows_scaled(p: Row) -> Launch:
    m, n, k = p["M"], p["N"], p["K"]
    a, b = (draw(rows, k).to(torch.float8_e4m3fn) for rows in (m, n))
    rows, columns = (torch.rand(size if p["per_row"] else 1, device="cuda") for size in (m, n))
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    want = (a.half() @ b.half().T).float() * (rows[:, None] * columns)

    def run(c: Config) -> Any:
        grid = (triton.cdiv(m, c["BLOCK_M"]) * triton.cdiv(n, c["BLOCK_N"]),)
        return triton_low_bits.rows_scaled[grid](a, b, rows, columns, out, m, n, k, **words(p, c))

    return Launch(run, lambda: worst(out, want), 2e-2)


def result_of(p: Row) -> str:
    return "bfloat16" if p["type"] == "float8_e4m3" else str(p["type"])


def persistent(p: Row) -> Launch:
    a, b = (draw(p[rows], p["K"]).to(TYPES[p["type"]]) for rows in "MN")
    out = torch.empty(p["M"], p["N"], device="cuda", dtype=TYPES[result_of(p)])
    want = a.bfloat16() @ b.bfloat16().T if p["type"] == "float8_e4m3" else a @ b.T

    def run(c: Config) -> Any:
        grid = (min(SMS, triton.cdiv(p["M"], c["BLOCK_M"]) * triton.cdiv(p["N"], c["BLOCK_N"])),)
        return triton_zoo.matmul_persistent[grid](a, b, out, p["M"], p["N"], p["K"], **words(p, c))

    return Launch(run, lambda: worst(out, want), 2e-2)


def expert_sizes(p: Row, c: Config, slots: int) -> tuple[int, ...]:
    """Of a launch over so many slots: the sizes and strides."""
    n, k, each = p["N"], p["K"], 1 if p["type"] == "int8" else 2
    deep = k // p["group"]
    strides = (k, n * k // each, k // each, n, n * deep, deep, n // each * deep, deep)
    return (p["tokens"] * p["chosen"], p["topk"], c["GROUP_M"], -(-slots // c["BLOCK_M"]), *strides)


def experts(p: Row) -> Launch:
    """A sample of rows and columns is compared with the sum in float64."""
    n, k, group, each = p["N"], p["K"], p["group"], 1 if p["type"] == "int8" else 2
    layer = Matmul("plain", p["tokens"], p["experts"], p["topk"], p["tokens"] * p["chosen"], n, k, 0.0)
    experts_of = routed(layer, p["chosen"])
    x = draw(layer.routed if p["topk"] == 1 else p["tokens"], k, dtype=torch.bfloat16)
    flat = torch.randint(0, 256, (p["experts"] * n * k // each + 512,), device="cuda", dtype=torch.uint8)
    w = flat[:-512].view(p["experts"], n, k // each)  # a step reads past the last row where K ends within it
    scale = (torch.rand(p["experts"], n, k // group, device="cuda") / 8 + 0.01).bfloat16()
    zero = torch.randint(0, 256, (p["experts"], n // each, k // group), device="cuda", dtype=torch.uint8)
    gate = torch.rand(layer.routed, device="cuda") + 0.5
    out = torch.zeros(layer.routed, n, device="cuda", dtype=torch.bfloat16)
    heights = TILES["experts"]["BLOCK_M"]
    slots = {height: aligned(experts_of, layer, height) for height in heights}

    rows, cols = (torch.randint(0, most, (many,), device="cuda") for most, many in ((layer.routed, 16), (n, 64)))
    owner = torch.from_numpy(experts_of.reshape(-1)).cuda().long()[rows][:, None]
    dense, middle = w[owner, cols], 128 if each == 1 else 8
    if each == 2:
        dense = torch.stack([dense & 15, dense >> 4], -1).flatten(2)
    if p["type"] == "uint4":
        middle = (zero[owner, cols // 2] >> (cols % 2 * 4)[None, :, None] & 15).repeat_interleave(group, 2).double()
    dense = (dense.double() - middle) * scale[owner, cols].repeat_interleave(group, 2).double()
    want = torch.einsum("rk,rck->rc", x[rows // p["topk"]].double(), dense)
    want *= gate[rows, None] if p["topk"] == 1 else 1.0

    def run(c: Config) -> Any:
        here = slots[c["BLOCK_M"]]
        sizes = expert_sizes(p, c, here["slots"])
        grid = (sizes[3] * triton.cdiv(n, c["BLOCK_N"]),)
        given = (x, w, out, scale, zero, gate, here["slot"], here["expert"], here["used"])
        return triton_moe.grouped_weights[grid](*given, *sizes, **words(p, c))

    return Launch(run, lambda: worst(out[rows[:, None], cols], want), 2e-2)


if __name__ == "__main__":
    main({"all": Declared()}, __doc__)
