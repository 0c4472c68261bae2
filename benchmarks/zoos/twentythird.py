"""The 12 kernels of `kernels/triton_zoo_23rd.py` as `zoo.py` measures them: four that spill, four that stay for many
tiles, four of strides, two problems each. All were predicted before they were timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_23rd as zoo

from .forms import drawn
from .subject import Problem, shapes, subject

PRODUCT = "BLOCK_M=64..256 BLOCK_N=64..256 BLOCK_K=32..128 num_warps=4,8 num_stages=2..4"
HEADS = "BLOCK_T=1..32 BLOCK_H=1..16 num_warps=1..8"


def borders(p: Problem) -> dict[str, Any]:
    """Where the groups begin: shares that differ by ten times and more."""
    share = drawn(1601).random(p["groups"]) ** 2 + 0.05
    last = np.round(np.cumsum(share) / share.sum() * p["M"]).astype(np.int32)
    return {"first_ptr": np.concatenate([[0], last]).astype(np.int32)}


def small(accumulators: int) -> str:
    return f"per_thread(c, BLOCK_M * BLOCK_N * {accumulators}, 512) and BLOCK_K * num_stages <= 256 and "


SUBJECTS = [
    subject("spills", zoo.attend_wide, shapes("heads length width", (64, 2048, 256), (32, 3000, 128)),
        "BLOCK_M=32..256 BLOCK_N=32..128 num_warps=2..8 num_stages=1..3",
        "q k v: bfloat16[heads, length, width]; y: bfloat16[heads, length, width]; length; scale = 0.09",
        "cdiv(length, BLOCK_M), heads", constants="width",
        keep="BLOCK_M * width <= 512 * 32 * num_warps and BLOCK_M <= 32 * num_warps "
        "and (BLOCK_M + 2 * num_stages * BLOCK_N) * width * 2 <= 220_000"),
    subject("spills", zoo.norm_gradient, shapes("rows cols", (4096, 12_288), (20_000, 5120)),
        "BLOCK=8192..16384 num_warps=1..32",
        "x: bfloat16[rows, cols]; w: float32[cols]; g y: bfloat16[rows, cols]; cols", "rows",
        keep="cols <= BLOCK < 2 * cols"),
    subject("spills", zoo.states_in_turn, shapes("batch length width states", (8, 1024, 2048, 64), (4, 600, 4096, 128)),
        "BLOCK=8..256 num_warps=1..8",
        "x d: bfloat16[batch, length, width]; b c: bfloat16[batch, length, states]; a: float32[width, states]; "
        "y: bfloat16[batch, length, width]; length width", "width // BLOCK, batch", constants="states",
        keep="4 <= BLOCK * states / (32 * num_warps) <= 256", tolerance=0.05,
        values=lambda p: {"a_ptr": (drawn(1607).random((p["width"], p["states"])) + 0.5).astype(np.float32)}),
    subject("spills", zoo.gated_mlp, shapes("M N K", (4096, 4096, 2048), (1000, 11_264, 4096)), PRODUCT,
        "x: float16[M, K]; u v: float16[K, N]; y: float16[M, N]; M N K", "cdiv(N, BLOCK_N), cdiv(M, BLOCK_M)",
        keep=small(2) + "stages(c, 2 * (BLOCK_M + 2 * BLOCK_N) * BLOCK_K)", tolerance=0.05),
    subject("persistent", zoo.staying_product, shapes("M N K", (8192, 3072, 4096), (3000, 5000, 1024)),
        PRODUCT + " GROUP=1,8", "a: bfloat16[M, K]; b: bfloat16[N, K]; bias: float32[N]; y: bfloat16[M, N]; M N K",
        "SMS", constants="PROGRAMS = SMS",
        keep=small(1) + "stages(c, 2 * (BLOCK_M + BLOCK_N) * BLOCK_K)", tolerance=0.05),
    subject("persistent", zoo.even_shares, shapes("M N K", (1024, 1536, 8192), (2048, 2560, 2048)), PRODUCT,
        "a: float16[M, K]; b: float16[K, N]; y: float32[M, N]; M N K", "SMS", constants="PROGRAMS = SMS",
        keep=small(1) + "stages(c, 2 * (BLOCK_M + BLOCK_N) * BLOCK_K)", tolerance=0.05),
    subject("persistent", zoo.ragged_products, shapes("M groups N K", (8192, 16, 2048, 2048), (3000, 64, 1536, 1024)),
        PRODUCT, "x: float16[M, K]; w: float16[groups, K, N]; first: int32[groups + 1]; y: float16[M, N]; groups N K",
        "SMS", constants="PROGRAMS = SMS", values=borders,
        keep=small(1) + "stages(c, 2 * (BLOCK_M + BLOCK_N) * BLOCK_K)", tolerance=0.05),
    subject("persistent", zoo.staying_int8, shapes("M N K", (4096, 4096, 4096), (512, 8192, 7168)), PRODUCT,
        "a: int8[M, K]; b: int8[N, K]; s: float32[M]; y: float16[M, N]; M N K", "SMS", constants="PROGRAMS = SMS",
        keep=small(1) + "stages(c, (BLOCK_M + BLOCK_N) * BLOCK_K)", tolerance=0.05,
        values=lambda p: {"s_ptr": (drawn(1609).random(p["M"]) * 1e-4).astype(np.float32)}),
    subject("strides", zoo.turn_pairs, shapes("tokens heads row skip width", (8192, 16, 192, 128, 64),
        (3000, 40, 576, 512, 64)), HEADS,
        "x: bfloat16[tokens, heads, row]; cos sin: float32[tokens, width // 2]; y: bfloat16[tokens, heads, width]; "
        "tokens heads", "cdiv(tokens, BLOCK_T), cdiv(heads, BLOCK_H)", constants="row skip width",
        keep="1 <= BLOCK_T * BLOCK_H * width / 2 / (32 * num_warps) <= 16"),
    subject("strides", zoo.softmax_down, shapes("pages rows cols", (16, 1024, 4096), (3, 5000, 3000)),
        "BLOCK_R=1..64 BLOCK_C=16..256 num_warps=1..8",
        "x y: float16[pages, rows, cols]; rows cols", "cdiv(cols, BLOCK_C), pages", tolerance=0.05),
    subject("strides", zoo.norm_of_channels, shapes("pictures points channels each", (64, 4096, 320, 32),
        (16, 10_000, 512, 16)), "BLOCK_P=16..1024 num_warps=1..16",
        "x: float16[pictures, points, channels]; w: float32[channels]; y: float16[pictures, points, channels]; points "
        "channels", "channels // each, pictures", constants="each",
        keep="1 <= BLOCK_P * each / (32 * num_warps) <= 64"),
    subject("strides", zoo.part_heads, shapes("tokens heads width", (16_384, 32, 128), (50_000, 12, 64)), HEADS,
        "x: float16[tokens, heads, 3, width]; y: float16[3, heads, tokens, width]; tokens heads",
        "cdiv(tokens, BLOCK_T), cdiv(heads, BLOCK_H), 3", constants="width", tolerance=0.0,
        keep="1 <= BLOCK_T * BLOCK_H * width / (32 * num_warps) <= 32"),
]  # fmt: skip
