"""The twelve kernels of `kernels/triton_zoo_eighth.py` as `zoo.py` measures them, two problems each: three of windows,
three of atomics, three of gathers, one that spills, one that stays, one of strides. No rule of the model follows from
any.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_eighth as zoo

from .blind import LINES, TOKENS, picked
from .edges import LINE, TILE, line, plane
from .forms import drawn
from .subject import Problem, cdiv, shapes, subject


def by_tokens(rows: str, cols: str, *more: str) -> Any:
    return lambda p, c: (cdiv(p[rows], c["BLOCK_T"]), cdiv(p[cols], c["BLOCK_C"]), *(p[n] for n in more))


def places(seed: int, *axes: str | int, skew: float = 1.0) -> Any:
    """Floats from 0 to less than 1."""
    return lambda p: {"x_ptr": (drawn(seed).random([p.get(n, n) for n in axes]) ** skew * 0.999).astype(np.float32)}


def sorted_into(p: Problem) -> Any:
    return {"to_ptr": np.sort(picked(41, "segments", "n", skew=2.0)(p))}


SUBJECTS = [
    subject("windows", zoo.smooth_down, shapes("rows cols taps", (8192, 4096, 5), (3000, 5000, 15)), TILE,
        "x: float16[rows, cols]; w: float32[taps]; y: float16[rows, cols]; rows cols taps", plane),
    subject("windows", zoo.pool_three_by_two, shapes("planes high wide", (4096, 112, 112), (20000, 55, 55)), LINES,
        "x: float32[planes, high, wide]; high wide; y: float32[planes, (high + 1) // 2, (wide + 1) // 2]; "
        "out_high = (high + 1) // 2; out_wide = (wide + 1) // 2",
        "cdiv((high + 1) // 2 * ((wide + 1) // 2), BLOCK), planes"),
    subject("windows", zoo.cut_frames, shapes("sounds length frames hop width", (16, 1 << 20, 4092, 256, 1024),
        (40, 200_000, 1244, 160, 400)), TILE,
        "x: float32[sounds, length]; w: float32[width]; y: float32[sounds, frames, width]; length frames hop width",
        "cdiv(width, BLOCK_C), cdiv(frames, BLOCK_R), sounds"),
    subject("atomics", zoo.count_points, shapes("n side", (1 << 23, 512), (1 << 23, 4000)), LINE,
        "x: float32[n, 2]; y: int32[side ** 2]; n", line, constants="side", tolerance=0.0,
        values=places(43, "n", 2, skew=2.0)),
    subject("atomics", zoo.add_sorted_rows, shapes("n segments width", (200_000, 3000, 96), (30_000, 30_000, 512)),
        TOKENS, "x: float32[n, width]; to: int32[n]; y: float32[segments, width]; n width", by_tokens("n", "width"),
        values=sorted_into),
    subject("atomics", zoo.moments_of_columns, shapes("rows cols each", (65536, 1024, 8), (200_000, 300, 4)), TILE,
        "x: float16[rows, cols]; y: float32[2, cols]; rows cols", "cdiv(cols, BLOCK_C), cdiv(rows, BLOCK_R * each)",
        constants="each"),
    subject("gathers", zoo.bags, shapes("count each rows width", (65536, 8, 200_000, 64), (5000, 20, 1_000_000, 256)),
        TOKENS, "table: float16[rows, width]; id: int32[count, each]; y: float16[count, width]; count width",
        by_tokens("count", "width"), constants="each",
        values=lambda p: {"id_ptr": picked(47, "rows", "count", "each", skew=3.0)(p)}),
    subject("gathers", zoo.curve, shapes("n size", (1 << 25, 1024), (1 << 24, 1 << 20)), LINE,
        "x: float32[n]; table: float32[size]; y: float32[n]; n", line, constants="size", values=places(53, "n")),
    subject("gathers", zoo.read_pages, shapes("sequences length width pages page", (64, 4096, 128, 20_000, 16),
        (200, 512, 576, 2000, 64)), TOKENS,
        "x: bfloat16[pages, page, width]; page: int32[sequences, length // page]; "
        "y: bfloat16[sequences, length, width]; length width", by_tokens("length", "width", "sequences"),
        constants="page",
        values=lambda p: {"page_ptr": drawn(59).integers(
            0, p["pages"], (p["sequences"], p["length"] // p["page"]), dtype=np.int32)}),
    subject("spills", zoo.norm_of_gated, shapes("rows cols", (2048, 16384), (8000, 6000)),
        "BLOCK=8192..32768 num_warps=1..16",
        "x g: bfloat16[rows, cols]; w: float32[cols]; y: bfloat16[rows, cols]; cols", "rows",
        keep="cols <= BLOCK <= 2.8 * cols"),
    subject("persistent", zoo.softmax_in_turn, shapes("rows cols", (60_000, 1000), (400_000, 250)),
        "BLOCK_R=1..16 BLOCK=256,1024 num_warps=2..8 num_stages=1..4", "x y: float16[rows, cols]; rows cols", "4 * SMS",
        keep="cols <= BLOCK < 2 * cols and BLOCK_R * BLOCK <= 8192"),
    subject("strides", zoo.swap_heads, shapes("tokens heads width", (40_000, 32, 64), (300_000, 12, 16)),
        "BLOCK_T=1,4,16,32 BLOCK_H=1,2,4,16 num_warps=2..8",
        "x: float16[tokens, heads, width]; y: float16[heads, tokens, width]; tokens heads",
        "cdiv(tokens, BLOCK_T), cdiv(heads, BLOCK_H)", constants="width",
        keep="1 <= BLOCK_T * BLOCK_H * width / (32 * num_warps) <= 64"),
]  # fmt: skip
