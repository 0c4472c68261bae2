"""The 13 kernels of `kernels/triton_zoo.py` as `zoo.py` measures them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from kernels import triton_zoo as zoo

from carver.compiled.binary import Tensor

from .subject import PIPE, TILE, Arrays, Config, Problem, cdiv, shapes, space, subject


def seq_lengths(p: Problem) -> np.ndarray:
    drawn = np.random.default_rng(5).integers(p["length"] // 2, p["length"] + 1, p["batch"])
    return drawn.astype(np.int32)


def page_table(p: Problem) -> np.ndarray:
    pages = p["length"] // p["page"]
    return np.random.default_rng(6).permutation(p["batch"] * pages).astype(np.int32).reshape(p["batch"], pages)


def group_starts(p: Problem) -> np.ndarray:
    share = np.random.default_rng(7).dirichlet(np.full(p["groups"], 4.0))
    ends = np.round(np.cumsum(share) * p["M"]).astype(np.int32)
    ends[-1] = p["M"]
    return np.concatenate([[0], ends]).astype(np.int32)


def decode_got(p: Problem, c: Config, t: Arrays) -> Any:
    import torch

    parts = t["out_ptr"].view(p["batch"] * p["heads"], c["splits"], p["head"])
    lse = t["lse_ptr"].view(p["batch"] * p["heads"], c["splits"], 1)
    weight = torch.exp2(lse - lse.amax(1, keepdim=True))
    return (parts * weight).sum(1) / weight.sum(1)


def conv_out(p: Problem) -> tuple[int, int]:
    return tuple((p[n] + 2 * p["pad"] - p["r"]) // p["stride"] + 1 for n in ("h", "w"))  # type: ignore[return-value]


SUBJECTS = [
    subject("", zoo.causal_attention, shapes("batch heads kv_heads seq head", (2, 32, 8, 4096, 128),
        (8, 16, 16, 1024, 64), (1, 24, 24, 3000, 128), (1, 32, 8, 8192, 128), (16, 12, 12, 512, 64)),
        "BLOCK_M=32..128 BLOCK_N=32..128 num_warps=4,8 num_stages=1,2,3,4",
        "q: float16[batch, heads, seq, head]; k v: float16[batch, kv_heads, seq, head]; "
        "out: float16[batch, heads, seq, head]; scale = head ** (-0.5); seq; stride_z = heads * seq * head; "
        "stride_h = seq * head; stride_kz = kv_heads * seq * head; stride_kh = seq * head; stride_s = head",
        "cdiv(seq, BLOCK_M), heads, batch",
        constants="GROUP = heads // kv_heads; head", output="out_ptr", keep="BLOCK_N <= BLOCK_M"),
    subject("", zoo.window_attention, shapes("batch heads seq head window", (1, 32, 8192, 128, 1024),
        (1, 64, 4096, 64, 512)), "BLOCK_M=32..128 BLOCK_N=32..128 num_warps=4,8 num_stages=1,2,3,4",
        "q k v out: bfloat16[heads, seq, head]; scale = head ** (-0.5); seq window; stride_h = seq * head; "
        "stride_s = head", "cdiv(seq, BLOCK_M), heads", constants="head", output="out_ptr", keep="True", unseen=True),
    subject("", zoo.paged_decode, shapes("batch heads kv_heads length head page", (16, 32, 8, 4096, 128, 16),
        (1, 64, 8, 32768, 128, 16), (64, 32, 8, 1024, 128, 16)),
        "BLOCK_N=16..128 splits=1..32 num_warps=1..8 num_stages=1,2,3,4",
        "q: float16[batch, heads, head]; k v: float16[batch * length, kv_heads, head]; "
        "table: int32[batch, length // page]; length: int32[batch]; out: float32[batch * heads, splits, head]; "
        "lse: float32[batch * heads, splits]; scale = head ** (-0.5); pages = length // page; splits",
        "batch, kv_heads, splits", constants="GROUP = heads // kv_heads; HEADS = kv_heads; head page; ROWS = 16",
        output="out_ptr lse_ptr", got=decode_got, keep="True",
        values=lambda p: {"length_ptr": seq_lengths(p), "table_ptr": page_table(p)}, unseen=True),
    subject("", zoo.matmul_split_k, shapes("M N K", (16, 6144, 4096), (128, 4096, 11008), (1024, 1024, 8192),
        (32, 14336, 4096), (512, 2048, 4096)), TILE | PIPE | space("SPLIT_K=1..8"),
        "a: float16[M, K]; b: float16[K, N]; c: float32[M, N]; M N K; stride_am = K; stride_bk = N; stride_cm = N",
        "tiles(p, c), SPLIT_K", output="c_ptr",
        keep="per_thread(c, BLOCK_M * BLOCK_N) and stages(c, (BLOCK_M + BLOCK_N) * BLOCK_K * 2)"),
    subject("", zoo.matmul_persistent, shapes("M N K", (4096, 4096, 4096), (2048, 8192, 2048), (8192, 1024, 1024),
        (8192, 8192, 4096), (1024, 14336, 4096)), TILE | PIPE | space("GROUP_M=8"),
        "a: float16[M, K]; b: float16[N, K]; c: float16[M, N]; M N K", "min(SMS, tiles(p, c))", output="c_ptr",
        keep="BLOCK_M >= 64 and per_thread(c, BLOCK_M * BLOCK_N) and stages(c, (BLOCK_M + BLOCK_N) * BLOCK_K * 2, "
        "BLOCK_M * BLOCK_N * 2)"),
    subject("", zoo.matmul_int4, shapes("M N K quant", (16, 8192, 8192, 128), (256, 4096, 4096, 128),
        (2048, 4096, 4096, 128)), {**TILE, "BLOCK_N": (32, 64, 128), **PIPE},
        "x: float16[M, K]; w: int32[K // 8, N]; scale: float16[K // quant, N]; out: float16[M, N]; M N K; "
        "stride_x = K; stride_w = N; stride_s = N; stride_o = N", "tiles(p, c)", constants="quant", output="out_ptr",
        keep="BLOCK_M <= 128 and BLOCK_K <= quant and per_thread(c, BLOCK_M * BLOCK_N, 128)"),
    subject("", zoo.gated_matmul, shapes("M N K dtype", (4096, 5632, 2048, "bfloat16"), (256, 14336, 4096, "bfloat16")),
        TILE | PIPE | space("GROUP_M=8"),
        "x: bfloat16[M, K]; gate up: bfloat16[N, K]; out: bfloat16[M, N]; M N K; stride_x = K; stride_w = K; "
        "stride_o = N", "tiles(p, c)", output="out_ptr",
        keep="BLOCK_M >= 32 and BLOCK_N <= 128 and per_thread(c, 2 * BLOCK_M * BLOCK_N) and stages(c, "
        "(BLOCK_M + 2 * BLOCK_N) * BLOCK_K * 2)", unseen=True),
    subject("", zoo.grouped_gemm, shapes("M N K groups", (4096, 2816, 2048, 16), (1024, 4096, 1536, 64)),
        {**TILE, **PIPE},
        "x: bfloat16[M, K]; w: bfloat16[groups, N, K]; out: bfloat16[M, N]; start: int32[groups + 1]; N K; "
        "stride_x = K; stride_e = N * K; stride_w = K; stride_o = N", "SMS * 2", constants="groups", output="out_ptr",
        keep="BLOCK_M <= 128 and per_thread(c, BLOCK_M * BLOCK_N) and stages(c, (BLOCK_M + BLOCK_N) * BLOCK_K * 2)",
        values=lambda p: {"start_ptr": group_starts(p)}),
    subject("", zoo.layer_norm, shapes("rows cols", (8192, 4096), (1024, 16384), (65536, 768)),
        "BLOCK=256..8192 num_warps=1..16 num_stages=1,3",
        "x: float16[rows, cols]; weight bias: float16[cols]; out: float16[rows, cols]; stride = cols; cols; "
        "eps = 1e-05", "rows", output="out_ptr", keep="1 <= BLOCK / (32 * num_warps) <= 128"),
    subject("", zoo.quantise_groups, shapes("rows cols", (4096, 7168), (256, 4096), (32768, 2048)),
        "ROWS=1..16 GROUPS=1..16 num_warps=1..8 num_stages=1",
        "x: bfloat16[rows, cols]; q: float8_e4m3[rows, cols]; scale: float32[rows, cols // 128]; rows cols",
        "cdiv(rows, ROWS), cdiv(cols // 128, GROUPS)", constants="GROUP = 128", output="q_ptr scale_ptr",
        got=lambda p, c, t: t["q_ptr"].float() * t["scale_ptr"].repeat_interleave(128, 1),
        keep="4 <= ROWS * GROUPS * 128 / (32 * num_warps) <= 128", tolerance=0.07, unseen=True),
    subject("", zoo.cross_entropy, shapes("rows cols", (4096, 32000), (2048, 128256)),
        "BLOCK=512..32768 num_warps=2..32 num_stages=1,2,3",
        "logits: bfloat16[rows, cols]; target: int64[rows]; loss: float32[rows]; vocabulary = cols; stride = cols",
        "rows", output="loss_ptr", keep="2 <= BLOCK / (32 * num_warps) <= 128",
        values=lambda p: {"target_ptr": np.random.default_rng(8).integers(0, p["cols"], p["rows"])},
        in_place=("logits_ptr",), unseen=True),
    subject("", zoo.linear_attention, shapes("heads seq head", (64, 4096, 128), (256, 1024, 64)),
        "CHUNK=16..128 BLOCK_V=16..128 num_warps=2..8 num_stages=1,2,3,4",
        "q k v out: bfloat16[heads, seq, head]; seq; stride_h = seq * head; stride_s = head; scale = head ** (-0.5)",
        "head // BLOCK_V, heads", constants="head", output="out_ptr",
        keep="BLOCK_V <= head and per_thread(c, head * BLOCK_V, 128)"),
    subject("", zoo.conv2d, shapes("n h w c f r stride pad", (32, 56, 56, 64, 64, 3, 1, 1),
        (32, 28, 28, 128, 256, 3, 2, 1), (16, 14, 14, 512, 512, 3, 1, 1)),
        {"BLOCK_M": (32, 64, 128, 256), "BLOCK_N": (32, 64, 128), "BLOCK_K": (32, 64), **PIPE},
        lambda p: {
            "x_ptr": Tensor("float16", (p["n"], p["h"], p["w"], p["c"])),
            "w_ptr": Tensor("float16", (p["f"], p["r"], p["r"], p["c"])),
            "out_ptr": Tensor("float16", (p["n"], *conv_out(p), p["f"])),
            "N": p["n"], "H": p["h"], "W": p["w"], "C": p["c"], "F": p["f"], "P": conv_out(p)[0], "Q": conv_out(p)[1]},
        lambda p, c: (cdiv(p["n"] * math.prod(conv_out(p)), c["BLOCK_M"]), cdiv(p["f"], c["BLOCK_N"])),
        constants="r; S = r; stride pad", output="out_ptr", keep="per_thread(c, BLOCK_M * BLOCK_N, 128)", unseen=True),
]  # fmt: skip
