"""The 31 kernels of `kernels/triton_zoo_forms.py` as `zoo.py` measures them: other forms of six kinds, two problems
each.

Every second one in the order of this file is `unseen`, beginning with the second. This was decided before any was
measured or ranked.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from kernels import triton_zoo_forms as zoo

from carver.compiled.binary import Tensor

from .edges import IMAGE, LINE, TILE, TOKENS, VOLUME, floats, ints, line, plane
from .subject import Problem, Subject, cdiv, per_thread, shapes, stages, subject

MATMUL = {
    "BLOCK_M": (64, 128), "BLOCK_N": (32, 64, 128, 256), "BLOCK_K": (32, 64), "num_warps": (4, 8),
    "num_stages": (2, 3, 4),
}  # fmt: skip
ROW = {"num_warps": (1, 2, 4, 8, 16), "num_stages": (1,)}


def drawn(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def starts(p: Problem, name: str, most: str) -> np.ndarray:
    """Where each of p[name] parts begins and the last ends: lengths from none to p[most], drawn unevenly."""
    lengths = (drawn(31).random(p[name]) ** 2 * (p[most] + 1)).astype(np.int32)
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def bent(p: Problem) -> dict[str, Any]:
    """Places of a gentle wave over the image in 1/256 of a pixel."""
    r, c = np.meshgrid(np.arange(p["high"]), np.arange(p["wide"]), indexing="ij")
    v = r + p["bend"] * np.sin(c / 40)
    u = c + p["bend"] * np.cos(r / 30)
    held = {"v_ptr": (v, p["high"]), "u_ptr": (u, p["wide"])}
    return {n: (np.clip(x, 0, most - 1.01) * 256).astype(np.int32) for n, (x, most) in held.items()}


def csr_args(p: Problem) -> dict[str, Any]:
    n = int(starts(p, "rows", "most")[-1])
    return {"start_ptr": ints(p["rows"] + 1), "col_ptr": ints(n), "v_ptr": Tensor("float32", (n,)),
            "x_ptr": Tensor("float32", (p["cols"],)), "y_ptr": Tensor("float32", (p["rows"],)),
            "cols": p["cols"]}  # fmt: skip


# -- the kernels


def outside(p: Problem) -> dict[str, Any]:
    return {n: p[n] - p["side"] + 1 for n in ("high", "wide")}


def walks(p: Problem, c: Any) -> bool:
    return stages(c, 2 * (c["BLOCK_M"] + c["BLOCK_N"]) * c["BLOCK_K"], 2 * c["BLOCK_M"] * c["BLOCK_N"]) and per_thread(
        c, c["BLOCK_M"] * c["BLOCK_N"], 128
    )


OVERLAPS = [
    subject("overlap", zoo.diffuse, shapes("rows cols dtype", (8192, 8192, "float32"), (4000, 12000, "float16")), TILE,
        IMAGE, plane),
    subject("overlap", zoo.planes_walk, shapes("planes rows cols", (64, 1024, 2048), (200, 500, 1000)), TILE, VOLUME,
        plane, most=8),
    subject("overlap", zoo.im2col, shapes("images channels high wide side", (8, 64, 56, 56, 3), (16, 16, 100, 100, 5)),
        "BLOCK_P=4,16,32,64,128 BLOCK_K=16..128 num_warps=2..8",
        "x: float16[images, channels, high, wide]; y: float16[images, (high - side + 1) * (wide - side + 1), "
        "channels * side ** 2]; channels high wide; out_high = high - side + 1; out_wide = wide - side + 1",
        lambda p, c: (cdiv(math.prod(outside(p).values()), c["BLOCK_P"]),
            cdiv(p["channels"] * p["side"] ** 2, c["BLOCK_K"]), p["images"]), constants="side"),
    subject("overlap", zoo.rolling, shapes("series length window", (512, 16384, 20), (3000, 5000, 7)), LINE,
        "x mean deviation: float32[series, length]; length window", "cdiv(length, BLOCK), series",
        output="mean_ptr deviation_ptr"),
    subject("overlap", zoo.conv1d_dense, shapes("batch length width out_width taps", (8, 4096, 256, 512, 5),
        (16, 1500, 768, 768, 3)), MATMUL,
        "x: float16[batch, length, width]; w: float16[taps, width, out_width]; y: float16[batch, length, out_width]; "
        "length width out_width", "cdiv(length, BLOCK_M), out_width // BLOCK_N, batch", constants="taps", keep=walks),
    subject("overlap", zoo.near_attention, shapes("heads length window width", (64, 8192, 16, 64), (128, 3000, 9, 128)),
        "BLOCK=4..64 num_warps=1..8", "q k v y: float16[heads, length, width]; length", "cdiv(length, BLOCK), heads",
        constants="window width", keep="elements(c, BLOCK * width, 32)"),
]  # fmt: skip

ATOMICS = [
    subject("atomics", zoo.histogram_held, shapes("n bins parts", (1 << 25, 256, 8), (30_000_000, 2048, 16)),
        "BLOCK=512..4096 num_warps=2..8", "key: int32[n]; count: int32[bins]; n", "cdiv(n, BLOCK * parts)",
        constants="bins parts", output="count_ptr", keep="elements(c, max(BLOCK, bins), 64)", tolerance=0.0),
    subject("atomics", zoo.sparse_sorted, shapes("n rows cols", (1 << 23, 1 << 19, 1 << 20), (1 << 22, 4000, 1 << 14)),
        LINE, "v: float32[n]; row col: int32[n]; x: float32[cols]; y: float32[rows]; n cols", line,
        values=lambda p: {"row_ptr": np.sort(drawn(32).integers(0, p["rows"], p["n"])).astype(np.int32)}),
    subject("atomics", zoo.embed_backward, shapes("tokens words width", (16384, 32000, 1024), (8192, 100_000, 2048)),
        TOKENS, "g: float16[tokens, width]; word: int32[tokens]; y: float16[words, width]; tokens width",
        "cdiv(width, BLOCK_C), cdiv(tokens, BLOCK_T)", tolerance=0.05,
        values=lambda p: {"word_ptr": (drawn(33).random(p["tokens"]) ** 3 * p["words"]).astype(np.int32)}),
    subject("atomics", zoo.route, shapes("tokens experts", (1 << 18, 64), (1 << 17, 256)),
        "BLOCK=4..128 num_warps=1..8",
        "score: float32[tokens, experts]; weight: float32[tokens, 2]; place: int32[2 * tokens]; "
        "count: int32[experts]; tokens", "cdiv(tokens, BLOCK)", constants="experts",
        output="weight_ptr place_ptr count_ptr", got=lambda p, c, t: (t["weight_ptr"], t["count_ptr"]),
        keep="elements(c, BLOCK * experts, 64)"),
    subject("atomics", zoo.segment_rows, shapes("rows width groups each", (1 << 18, 256, 10_000, 32),
        (1 << 15, 2048, 1000, 16)), "BLOCK=64..1024 num_warps=1..8",
        "x: float16[rows, width]; group: int32[rows]; y: float32[groups, width]; rows width",
        "cdiv(rows, each), cdiv(width, BLOCK)", constants="each", keep="elements(c, BLOCK, 16) and BLOCK <= width",
        values=lambda p: {"group_ptr": np.sort(drawn(34).integers(0, p["groups"], p["rows"])).astype(np.int32)}),
]  # fmt: skip

GATHERS = [
    subject("gathers", zoo.warp_image, shapes("channels high wide bend", (3, 2160, 3840, 12.0), (64, 512, 640, 40.0)),
        LINE, "x y: float32[channels, high, wide]; v u: int32[high, wide]; channels high wide",
        "cdiv(high * wide, BLOCK)", values=bent, most=16),
    subject("gathers", zoo.two_levels, shapes("n slots places", (1 << 23, 1 << 16, 1 << 25),
        (1 << 22, 1 << 24, 1 << 22)), LINE,
        "x: float32[places]; table: int32[slots]; key: int32[n]; y: float32[n]; n slots places", line),
    subject("gathers", zoo.sparse_csr, shapes("rows most cols", (1 << 16, 300, 1 << 18), (10_000, 4000, 1 << 22)),
        "BLOCK=32..1024 num_warps=1..4", csr_args, "rows", values=lambda p: {"start_ptr": starts(p, "rows", "most")},
        most=16),
    subject("gathers", zoo.rope_at, shapes("tokens heads dim places", (16384, 32, 128, 1 << 15),
        (40_000, 20, 64, 1 << 12)), "BLOCK_H=1..32 num_warps=1..8",
        "x y: float16[tokens, heads, dim]; position: int32[tokens]; angle: float32[places, dim]; heads",
        "tokens, cdiv(heads, BLOCK_H)", constants="dim", keep="elements(c, BLOCK_H * dim // 2, 32)",
        values=lambda p: {"position_ptr": drawn(35).integers(0, p["places"], p["tokens"]).astype(np.int32)}),
    subject("gathers", zoo.combine, shapes("tokens width each", (8192, 4096, 4), (16384, 1536, 8)),
        "BLOCK=128..4096 num_warps=1..8",
        "x: float16[tokens * each, width]; place: int32[tokens, each]; weight: float32[tokens, each]; "
        "y: float16[tokens, width]; width", "tokens, cdiv(width, BLOCK)", constants="each",
        values=lambda p: {"place_ptr": drawn(36).permutation(p["tokens"] * p["each"]).astype(np.int32)
            .reshape(p["tokens"], p["each"])}),
    subject("gathers", zoo.pad_jagged, shapes("batch most width", (64, 2048, 512), (2000, 100, 300)), TOKENS,
        lambda p: {"x_ptr": Tensor("float16", (int(starts(p, "batch", "most")[-1]), p["width"])),
            "start_ptr": ints(p["batch"] + 1), "y_ptr": Tensor("float16", (p["batch"], p["most"], p["width"])),
            "most": p["most"], "width": p["width"]}, "cdiv(most, BLOCK_T), cdiv(width, BLOCK_C), batch",
        values=lambda p: {"start_ptr": starts(p, "batch", "most")}),
]  # fmt: skip

SPILLS = [
    subject("spills", zoo.three_matmuls, shapes("M N K", (4096, 2048, 1024), (1000, 1024, 4096)),
        "BLOCK_M=64,128 BLOCK_N=64,128 BLOCK_K=32,64 num_warps=4,8 num_stages=2,3",
        "a: float16[M, K]; q k v: float16[K, N]; y: float16[M, 3 * N]; M N K", "cdiv(M, BLOCK_M), N // BLOCK_N",
        keep="stages(c, 2 * (BLOCK_M + 3 * BLOCK_N) * BLOCK_K)"),
    subject("spills", zoo.standard_score, shapes("rows cols", (4096, 16384), (1000, 50_000)), ROW,
        lambda p: {**floats("x_ptr", "y_ptr")("float16", p["rows"], p["cols"]),
            "g_ptr": Tensor("float16", (p["cols"],)), "cols": p["cols"],
            "BLOCK": 1 << (p["cols"] - 1).bit_length()}, "rows",
        keep=lambda p, c: (1 << (p["cols"] - 1).bit_length()) // 32 // c["num_warps"] <= 256),
    subject("spills", zoo.distances, shapes("M N K", (4096, 4096, 128), (2048, 8192, 64)),
        "BLOCK_M=32..128 BLOCK_N=64..256 BLOCK_K=4,16 num_warps=2..8",
        "x: float32[K, M]; y: float32[K, N]; out: float32[M, N]; M N K", "M // BLOCK_M, N // BLOCK_N", output="out_ptr",
        keep="16 <= BLOCK_M * BLOCK_N / (32 * num_warps) <= 256"),
    subject("spills", zoo.wide_attention, shapes("heads length scale width", (32, 2048, 0.1, 128),
        (16, 2048, 0.06, 256)), "BLOCK_M=64,128 BLOCK_N=32..128 num_warps=4,8 num_stages=1,2,3",
        "q k v y: float16[heads, length, width]; length scale", "length // BLOCK_M, heads", constants="width",
        keep="stages(c, 4 * BLOCK_N * width, 2 * BLOCK_M * width)"),
]  # fmt: skip

PERSISTENT = [
    subject("persistent", zoo.matmul_one_loop, shapes("M N K flatten", (4096, 4096, 1024, True),
        (3000, 5120, 2048, False)), MATMUL,
        "a: float16[M, K]; b: float16[N, K]; bias: float32[N]; c: float16[M, N]; M N K", "min(SMS, tiles(p, c))",
        constants="flatten", output="c_ptr", keep=walks),
    subject("persistent", zoo.batched_walk, shapes("batch M N K", (16, 1024, 1024, 512), (64, 256, 2048, 256)), MATMUL,
        "a: float16[batch, M, K]; b: float16[batch, K, N]; c: float16[batch, M, N]; batch M N K",
        "min(SMS, batch * tiles(p, c))", output="c_ptr", keep=walks),
    subject("persistent", zoo.rows_in_turn, shapes("rows cols dtype", (32768, 2048, "float16"),
        (20_000, 5000, "float32")), "PROGRAMS=1..8 num_warps=2..16 num_stages=1,2,3",
        lambda p: {**floats("x_ptr", "r_ptr", "y_ptr")(p["dtype"], p["rows"], p["cols"]), "rows": p["rows"],
            "cols": p["cols"], "BLOCK": 1 << (p["cols"] - 1).bit_length()}, "SMS * PROGRAMS", keep="True"),
]  # fmt: skip

ROWS = [
    subject("rows", zoo.transposed_tile, shapes("rows cols dtype", (8000, 6000, "float32"), (4096, 16384, "float16")),
        "BLOCK_R=16..128 BLOCK_C=16..128 num_warps=1..8",
        "x: dtype[rows, cols + 7]; y: dtype[cols, rows + 5]; rows cols; stride_x = cols + 7; stride_y = rows + 5",
        plane),
    subject("rows", zoo.complex_product, shapes("n dtype", (1 << 25, "float32"), (1 << 25, "float16")), LINE,
        "a b y: dtype[n, 2]; n", line),
    subject("rows", zoo.softmax_columns, shapes("rows cols dtype", (2048, 32768, "float16"), (1000, 20_000, "float32")),
        "BLOCK_R=8..128 BLOCK_C=16..128 num_warps=2..8", "x y: dtype[rows, cols]; rows cols", "cdiv(cols, BLOCK_C)"),
    subject("rows", zoo.softmax_jagged, shapes("segments most", (20_000, 5000), (4000, 30_000)),
        "BLOCK=128..4096 num_warps=1..8",
        lambda p: {**floats("x_ptr", "y_ptr")("float32", int(starts(p, "segments", "most")[-1])),
            "start_ptr": ints(p["segments"] + 1)}, "segments",
        values=lambda p: {"start_ptr": starts(p, "segments", "most")}),
    subject("rows", zoo.every_third, shapes("n step dtype", (1 << 25, 3, "float16"), (1 << 24, 4, "bfloat16")), LINE,
        "x: dtype[n, step]; y: dtype[n]; n", line, constants="step"),
    subject("rows", zoo.middle_max, shapes("outer middle inner", (64, 1000, 1024), (2000, 64, 300)),
        "BLOCK_M=4..64 BLOCK_C=32..256 num_warps=1..8",
        "x: float32[outer, middle, inner]; y: float32[outer, inner]; i: int32[outer * inner]; middle inner",
        "cdiv(inner, BLOCK_C), outer", output="y_ptr i_ptr",
        got=lambda p, c, t: (t["y_ptr"], t["i_ptr"].reshape(p["outer"], p["inner"]))),
    subject("rows", zoo.running_sum, shapes("rows cols", (8192, 8192), (20_000, 3000)),
        "BLOCK=128..4096 num_warps=1..8", "x y: float32[rows, cols]; cols", "rows"),
]  # fmt: skip

LISTED: list[Subject] = [*OVERLAPS, *ATOMICS, *GATHERS, *SPILLS, *PERSISTENT, *ROWS]
SUBJECTS = [replace(each, unseen=i % 2 == 1) for i, each in enumerate(LISTED)]
