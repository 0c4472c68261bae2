"""The 26 kernels of `kernels/triton_zoo_more.py` as `zoo.py` measures them.

Every second one in the order of this file is `unseen`, beginning with the second. This was decided before any was
measured or ranked. Neighbours are of a kind, so that both halves hold something of each.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from kernels import triton_zoo_more as zoo

from carver.compiled.binary import Tensor

from .subject import PIPE, TILE, Arrays, Config, Problem, cdiv, shapes, space, subject


def lengths(p: Problem, key: str) -> np.ndarray:
    """Between a half and the whole of the longest, drawn for each sequence."""
    drawn = np.random.default_rng(11).integers(p[key] // 2, p[key] + 1, p["batch"])
    return drawn.astype(np.int32)


def sequence_starts(p: Problem) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths(p, "longest"))]).astype(np.int32)


def packed(p: Problem) -> int:
    return int(sequence_starts(p)[-1])


def sparse_blocks(p: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Where rows of blocks start, and the columns of their blocks: one block at least in each row."""
    rng = np.random.default_rng(12)
    present = rng.random((p["N"] // p["side"], p["K"] // p["side"])) < p["density"]
    present[np.arange(len(present)), rng.integers(0, present.shape[1], len(present))] = True
    starts = np.concatenate([[0], np.cumsum(present.sum(1))])
    return starts.astype(np.int32), np.nonzero(present)[1].astype(np.int32)


def token_ids(p: Problem, below: int, dtype: Any) -> np.ndarray:
    return np.random.default_rng(13).integers(0, below, p["tokens"]).astype(dtype)


def expert_targets(p: Problem) -> np.ndarray:
    """The token of each row of the experts' results, which are sorted by expert."""
    return np.random.default_rng(14).permutation(np.repeat(np.arange(p["tokens"]), p["top"])).astype(np.int32)


def mla_got(p: Problem, c: Config, t: Arrays) -> Any:
    import torch

    parts, lse = t["out_ptr"], t["lse_ptr"][..., None]
    weight = torch.exp2(lse - lse.amax(1, keepdim=True))
    return (parts * weight).sum(1) / weight.sum(1)


def pooled(p: Problem) -> tuple[int, int]:
    high, wide = ((p[n] + 2 * p["pad"] - p["side"]) // p["stride"] + 1 for n in ("height", "width"))
    return high, wide


SCALED = (
    "a: {0}[M, K]; b: {0}[N, K]; c: bfloat16[M, N]; M N K; scale_a: float32[M]; scale_b: float32[N]; "
    "stride_am = K; stride_bn = K; stride_cm = N"
)
FLAT = {"num_warps": (1, 2, 4, 8), "num_stages": (1,)}

LISTED = [
    subject("", zoo.matmul_stream_k, shapes("M N K", (1536, 1536, 8192), (384, 7168, 4096), (1000, 3072, 2048)),
        TILE | PIPE,
        "a: float16[M, K]; b: float16[K, N]; c: float32[M, N]; M N K; stride_am = K; stride_bk = N; stride_cm = N",
        "SMS", output="c_ptr",
        keep="BLOCK_M >= 32 and fits(c, 2)"),
    subject("", zoo.matmul_block_ptr, shapes("M N K", (4096, 4096, 2048), (512, 11008, 4096), (1000, 2064, 1040)),
        TILE | PIPE | space("GROUP_M=1,8"),
        "a: float16[M, K]; b: float16[K, N]; c: float16[M, N]; M N K; stride_am = K; stride_bk = N; stride_cm = N; "
        "slope = 0.25", "tiles(p, c)", output="c_ptr", keep="BLOCK_M >= 32 and fits(c, 2)"),
    subject("", zoo.matmul_gelu_residual, shapes("M N K", (4096, 4096, 1024), (2048, 8192, 2048), (1520, 3056, 1536)),
        TILE | PIPE | space("GROUP_M=8"),
        "a: bfloat16[K, M]; w: bfloat16[N, K]; bias: bfloat16[N]; residual out: bfloat16[M, N]; M N K; stride_ak = M; "
        "stride_wn = K; stride_out = N", "tiles(p, c)", output="out_ptr", keep="BLOCK_M >= 32 and fits(c, 2)"),
    subject("", zoo.matmul_lora, shapes("M N K rank scale", (4096, 4096, 4096, 16, 2.0), (256, 14336, 4096, 64, 0.5),
        (1900, 5120, 5120, 32, 1.0)), {**TILE, "BLOCK_N": (32, 64, 128), **PIPE},
        "x: bfloat16[M, K]; w: bfloat16[N, K]; down: bfloat16[rank, K]; up: bfloat16[N, rank]; out: bfloat16[M, N]; "
        "scale M N K; stride_x = K; stride_w = K; stride_out = N", "N // BLOCK_N, cdiv(M, BLOCK_M)", constants="rank",
        output="out_ptr",
        keep="per_thread(c, BLOCK_M * (BLOCK_N + rank)) and stages(c, (BLOCK_M + BLOCK_N + rank) * BLOCK_K * 2)"),
    subject("", zoo.matmul_int8, shapes("M N K", (4096, 4096, 4096), (32, 8192, 8192), (777, 3072, 4096)),
        TILE | space("BLOCK_K=32..256") | PIPE | space("GROUP_M=8"),
        SCALED.format("int8"), "tiles(p, c)", output="c_ptr", keep="fits(c, 1)"),
    subject("", zoo.matmul_fp8_rows, shapes("M N K", (4096, 4096, 4096), (64, 7168, 8192), (3000, 2048, 2048)),
        TILE | space("DOTS=1..4") | PIPE, SCALED.format("float8_e4m3"), "tiles(p, c)", output="c_ptr",
        keep="fits(c, 1, 128)"),
    subject("", zoo.batched_gemm, shapes("batch M N K", (4096, 64, 64, 64), (1536, 128, 128, 128), (2500, 96, 80, 32)),
        "BLOCK_M=16..128 BLOCK_N=16..128 MATRICES=1..16 num_warps=1..8 num_stages=1,2,3,4",
        "a: float16[batch, M, K]; b: float16[batch, K, N]; c: float16[batch, M, N]; batch M N",
        "tiles(p, c), cdiv(batch, MATRICES)", constants="K", output="c_ptr",
        keep="BLOCK_M <= pow2_up(M) and BLOCK_N <= pow2_up(N) and per_thread(c, BLOCK_M * BLOCK_N, 128) and stages(c, "
        "(BLOCK_M + BLOCK_N) * K * 2)"),
    subject("", zoo.matmul_block_sparse, shapes("tokens N K side density", (4096, 4096, 4096, 64, 0.2),
        (2048, 8192, 4096, 128, 0.1), (1000, 4096, 4096, 32, 0.3)),
        "BLOCK_M=16..256 BLOCK_K=16..128 num_warps=2..8 num_stages=1,2,3,4",
        lambda p: {
            "x_ptr": Tensor("float16", (p["tokens"], p["K"])),
            "block_ptr": Tensor("float16", (len(sparse_blocks(p)[1]), p["side"], p["side"])),
            "column_ptr": Tensor("int32", (len(sparse_blocks(p)[1]),)),
            "start_ptr": Tensor("int32", (p["N"] // p["side"] + 1,)),
            "out_ptr": Tensor("float16", (p["tokens"], p["N"])),
            "tokens": p["tokens"], "stride_x": p["K"], "stride_out": p["N"]}, "N // side, cdiv(tokens, BLOCK_M)",
        constants="side", output="out_ptr",
        keep="BLOCK_K <= side <= 8 * BLOCK_K and per_thread(c, BLOCK_M * side, 128) and stages(c, "
        "(BLOCK_M + side) * side * 2)",
        values=lambda p: dict(zip(("start_ptr", "column_ptr"), sparse_blocks(p), strict=True))),
    subject("", zoo.matmul_split_epilogue, shapes("M N K", (4096, 4096, 4096), (8192, 2048, 1024), (1500, 3072, 3072)),
        {**TILE, "BLOCK_M": (64, 128, 256), **PIPE, "GROUP_M": (8,), "HALVES": (0, 1)},
        "a: bfloat16[M, K]; b: bfloat16[K, N]; c: bfloat16[M, N]; M N K", "min(SMS, tiles(p, c))", output="c_ptr",
        keep="fits(c, 2, 256, BLOCK_M * BLOCK_N * (2 - HALVES))"),
    subject("", zoo.mla_decode, shapes("batch heads length", (32, 16, 4096), (4, 128, 8192), (96, 64, 1000)),
        "BLOCK_H=16..64 BLOCK_N=16..64 splits=1..32 num_warps=4,8 num_stages=1,2,3",
        "q: bfloat16[batch, heads, 576]; kv: bfloat16[batch, length, 576]; length: int32[batch]; "
        "out: float32[batch * heads, splits, 512]; lse: float32[batch * heads, splits]; scale = 576 ** (-0.5); heads; "
        "longest = length; splits", "batch, heads // BLOCK_H, splits", constants="LATENT = 512; ROPE = 64",
        output="out_ptr lse_ptr", got=mla_got,
        keep="BLOCK_H <= heads and per_thread(c, BLOCK_H * 512, 128) and stages(c, BLOCK_N * 1152, BLOCK_H * 1152)",
        values=lambda p: {"length_ptr": lengths(p, "length")}),
    subject("", zoo.alibi_attention, shapes("heads seq head", (16, 4096, 256), (48, 2048, 256), (24, 1500, 256)),
        "BLOCK_M=32..128 BLOCK_N=16..128 num_warps=4,8 num_stages=1,2,3",
        "q k v out: bfloat16[heads, seq, head]; scale = head ** (-0.5); seq heads; stride_h = seq * head; "
        "stride_s = head", "cdiv(seq, BLOCK_M), heads", constants="head", output="out_ptr",
        keep="per_thread(c, BLOCK_M * head, 128) and stages(c, BLOCK_N * head * 4, BLOCK_M * head * 2)"),
    subject("", zoo.varlen_attention, shapes("batch longest heads kv_heads head", (16, 1024, 16, 16, 64),
        (6, 4096, 16, 4, 128), (64, 300, 12, 12, 64)),
        "BLOCK_M=32..128 BLOCK_N=32..128 num_warps=4,8 num_stages=1,2,3,4",
        lambda p: {
            **dict.fromkeys(("q_ptr", "out_ptr"), Tensor("float16", (packed(p), p["heads"], p["head"]))),
            **dict.fromkeys(("k_ptr", "v_ptr"), Tensor("float16", (packed(p), p["kv_heads"], p["head"]))),
            "start_ptr": Tensor("int32", (p["batch"] + 1,)), "scale": p["head"] ** -0.5,
            "stride_q": p["heads"] * p["head"], "stride_kv": p["kv_heads"] * p["head"]},
        lambda p, c: (cdiv(int(lengths(p, "longest").max()), c["BLOCK_M"]), p["heads"], p["batch"]),
        constants="GROUP = heads // kv_heads; head", output="out_ptr",
        keep="stages(c, BLOCK_N * head * 4, BLOCK_M * head * 2)", values=lambda p: {"start_ptr": sequence_starts(p)}),
    subject("", zoo.attention_dkdv, shapes("heads seq head", (32, 2048, 64), (16, 4096, 128), (24, 1100, 64)),
        "BLOCK_M=16..128 BLOCK_N=32..128 num_warps=4,8 num_stages=1,2,3",
        "q k v do dk dv: bfloat16[heads, seq, head]; lse delta: float32[heads, seq]; scale = head ** (-0.5); seq; "
        "stride_h = seq * head; stride_s = head", "cdiv(seq, BLOCK_N), heads", constants="head", output="dk_ptr dv_ptr",
        keep="per_thread(c, 2 * BLOCK_N * head + BLOCK_M * BLOCK_N) and stages(c, BLOCK_M * head * 4, "
        "BLOCK_N * head * 4)"),
    subject("", zoo.gated_scan, shapes("batch seq width", (8, 4096, 2560), (2, 8192, 4096), (16, 2000, 1000)),
        "BLOCK_T=16..256 BLOCK_D=8..128 num_warps=1..8 num_stages=1,3",
        "x gate out: bfloat16[batch, seq, width]; seq width", "cdiv(width, BLOCK_D), batch", output="out_ptr",
        keep="2 <= BLOCK_T * BLOCK_D / (32 * num_warps) <= 64"),
    subject("", zoo.rms_norm_residual, shapes("rows cols", (8192, 4096), (512, 8192), (20000, 1536)),
        "ROWS=1..8 programs=132..1056 num_warps=2..16 num_stages=1,2,3",
        "x residual out: bfloat16[rows, cols]; weight: bfloat16[cols]; rows cols; eps = 1e-06; programs", "programs",
        constants="COLS = pow2_up(cols)", output="out_ptr", got=lambda p, c, t: (t["residual_ptr"], t["out_ptr"]),
        keep="elements(c, ROWS * pow2_up(cols))", in_place=("residual_ptr",)),
    subject("", zoo.rms_norm_backward, shapes("rows cols", (8192, 4096), (2048, 12288), (16384, 2000)),
        "programs=66..1056 num_warps=2..16 num_stages=1,2,3",
        "x dy dx: bfloat16[rows, cols]; weight: bfloat16[cols]; partial: float32[programs, cols]; rows cols; "
        "eps = 1e-06; programs", "programs", constants="COLS = pow2_up(cols)", output="dx_ptr partial_ptr",
        got=lambda p, c, t: (t["dx_ptr"], t["partial_ptr"].sum(0)), keep="elements(c, pow2_up(cols))"),
    subject("", zoo.softmax_long, shapes("rows cols", (512, 131072), (2048, 32768), (100, 1000000)),
        "BLOCK=512..16384 num_warps=2..32 num_stages=1,2,3", "x out: bfloat16[rows, cols]; cols", "rows",
        output="out_ptr", keep="elements(c, BLOCK)"),
    subject("", zoo.swiglu_halves, shapes("tokens width", (4096, 11008), (300, 14336), (16384, 1400)),
        {"BLOCK_T": (1, 2, 4, 8, 16), "BLOCK_D": (64, 128, 256, 512, 1024, 2048), **FLAT},
        "x: bfloat16[tokens, 2 * width]; out: bfloat16[tokens, width]; tokens width",
        "cdiv(width, BLOCK_D), cdiv(tokens, BLOCK_T)", output="out_ptr", keep="elements(c, BLOCK_T * BLOCK_D)"),
    subject("", zoo.rotary_in_place, shapes("tokens heads half", (8192, 32, 64), (4096, 64, 32), (1000, 40, 64)),
        {"BLOCK_T": (1, 2, 4, 8, 16), "BLOCK_H": (1, 2, 4, 8, 16, 32), **FLAT},
        "x: bfloat16[tokens, heads, 2 * half]; cos sin: float32[4096, half]; position: int32[tokens]; tokens heads",
        "cdiv(tokens, BLOCK_T), cdiv(heads, BLOCK_H)", constants="half", output="", got=lambda p, c, t: t["x_ptr"],
        keep="elements(c, BLOCK_T * BLOCK_H * half)", values=lambda p: {"position_ptr": token_ids(p, 4096, np.int32)},
        in_place=("x_ptr",)),
    subject("", zoo.causal_conv1d, shapes("batch seq width taps", (4, 4096, 5120, 4), (16, 1024, 2048, 4),
        (3, 5000, 1800, 4)), {"BLOCK_T": (1, 2, 4, 8, 16, 32, 64), "BLOCK_D": (32, 64, 128, 256, 512), **FLAT},
        "x out: bfloat16[batch, seq, width]; weight: bfloat16[taps, width]; bias: bfloat16[width]; seq width",
        "cdiv(width, BLOCK_D), cdiv(seq, BLOCK_T), batch", constants="taps", output="out_ptr",
        keep="elements(c, BLOCK_T * BLOCK_D)"),
    subject("", zoo.gather_rows, shapes("tokens seq vocabulary cols", (8192, 2048, 32000, 4096),
        (32768, 4096, 128256, 1024), (5000, 1000, 50257, 1600)),
        {"ROWS": (1, 2, 4, 8, 16), "BLOCK": (64, 128, 256, 512, 1024, 2048), **FLAT},
        "id: int64[tokens]; table: bfloat16[vocabulary, cols]; place: bfloat16[seq, cols]; "
        "out: bfloat16[tokens, cols]; tokens cols seq; scale = cols ** 0.5", "cdiv(tokens, ROWS), cdiv(cols, BLOCK)",
        output="out_ptr", keep="elements(c, ROWS * BLOCK)",
        values=lambda p: {"id_ptr": token_ids(p, p["vocabulary"], np.int64)}),
    subject("", zoo.scatter_add_rows, shapes("tokens top cols", (2048, 8, 2048), (4096, 2, 4096), (700, 6, 3000)),
        {"ROWS": (1, 2, 4, 8, 16), "BLOCK": (64, 128, 256, 512, 1024, 2048), **FLAT},
        "x: bfloat16[tokens * top, cols]; weight: float32[tokens * top]; id: int32[tokens * top]; "
        "out: float32[tokens, cols]; rows = tokens * top; cols", "cdiv(cols, BLOCK), cdiv(tokens * top, ROWS)",
        output="out_ptr", keep="elements(c, ROWS * BLOCK)", values=lambda p: {"id_ptr": expert_targets(p)}),
    subject("", zoo.radix_histogram, shapes("n bins shift", (1 << 25, 256, 24), (1 << 22, 16, 8), (30_000_001, 64, 10)),
        "BLOCK=256..4096 STEPS=1,4,16,64 num_warps=1..16 num_stages=1,2,3",
        "key: int32[n]; count: int32[bins]; n shift", "cdiv(n, BLOCK * STEPS)", constants="bins", output="count_ptr",
        keep="elements(c, BLOCK) and bins <= BLOCK", tolerance=0.0),
    subject("", zoo.column_moments, shapes("rows cols", (16384, 4096), (200000, 256), (5000, 12000)),
        "BLOCK_R=4..64 BLOCK_C=32..256 STEPS=1,4,16,64 num_warps=2..8 num_stages=1,2,3",
        "x: bfloat16[rows, cols]; sum square: float32[cols]; rows cols",
        "cdiv(cols, BLOCK_C), cdiv(rows, BLOCK_R * STEPS)", output="sum_ptr square_ptr",
        keep="elements(c, BLOCK_R * BLOCK_C)"),
    subject("", zoo.transpose_pad, shapes("batch rows cols padded", (1, 8192, 8192, 8320), (64, 1000, 512, 1024),
        (12, 3000, 1300, 3072)), {"BLOCK_R": (8, 16, 32, 64, 128), "BLOCK_C": (8, 16, 32, 64, 128), **FLAT},
        "x: bfloat16[batch, rows, cols]; out: bfloat16[batch, cols, padded]; rows cols padded; fill = -1.5",
        "cdiv(padded, BLOCK_R), cdiv(cols, BLOCK_C), batch", output="out_ptr", keep="elements(c, BLOCK_R * BLOCK_C)"),
    subject("", zoo.max_pool, shapes("images height width channels side stride pad", (64, 112, 112, 64, 3, 2, 1),
        (32, 56, 56, 256, 2, 2, 0), (8, 75, 99, 200, 3, 1, 1)),
        {"BLOCK_P": (1, 2, 4, 8, 16, 32, 64), "BLOCK_C": (16, 32, 64, 128, 256), **FLAT},
        lambda p: {
            "x_ptr": Tensor("float16", (p["images"], p["height"], p["width"], p["channels"])),
            "out_ptr": Tensor("float16", (p["images"], *pooled(p), p["channels"])), "images": p["images"],
            "height": p["height"], "width": p["width"], "channels": p["channels"], "high": pooled(p)[0],
            "wide": pooled(p)[1]},
        lambda p, c: (cdiv(p["images"] * math.prod(pooled(p)), c["BLOCK_P"]), cdiv(p["channels"], c["BLOCK_C"])),
        constants="side stride pad", output="out_ptr",
        keep="elements(c, BLOCK_P * BLOCK_C) and BLOCK_C <= pow2_up(channels)"),
]  # fmt: skip
SUBJECTS = [replace(subject, unseen=i % 2 == 1) for i, subject in enumerate(LISTED)]
