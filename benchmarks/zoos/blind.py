"""The 24 kernels of `kernels/triton_zoo_blind.py` as `zoo.py` measures them: ten of windows, seven of atomics, seven of
gathers, two problems each. Every second one, beginning with the second, is `unseen`. No rule of the model follows from
any.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from kernels import triton_zoo_blind as zoo

from .edges import LINE, TILE, line, plane
from .forms import drawn
from .subject import cdiv, shapes, subject

TOKENS = {"BLOCK_T": (1, 2, 4, 8, 16, 32), "BLOCK_C": (16, 64, 128, 256), "num_warps": (1, 2, 4, 8)}
LINES = {"BLOCK": (64, 128, 256, 512, 1024), "num_warps": (1, 2, 4, 8)}


IMAGE = "x y: {}[rows, cols]; rows cols"


def along(size: str, count: str, block: str = "BLOCK") -> Any:
    return lambda p, c: (cdiv(math.prod(p[n] for n in size.split()), c[block]), p[count])


def picked(seed: int, most: str, *axes: str, skew: float = 1.0, dtype: Any = np.int32) -> Any:
    """Whole numbers below p[most], low ones more often where `skew` is above 1."""
    return lambda p: (drawn(seed).random([p[n] for n in axes]) ** skew * p[most]).astype(dtype)


LISTED = [
    subject("windows", zoo.dilate, shapes("rows cols side", (4320, 7680, 3), (2000, 3000, 5)), TILE,
        IMAGE.format("uint8"), plane, constants="side"),
    subject("windows", zoo.box_blur, shapes("rows cols reach", (4096, 8192, 4), (3000, 1500, 7)), TILE,
        IMAGE.format("uint8"), plane, constants="reach"),
    subject("windows", zoo.median_of_five, shapes("signals length", (64, 1 << 20), (20000, 1500)), LINE,
        "x y: float32[signals, length]; length", along("length", "signals")),
    subject("windows", zoo.halve_volume, shapes("volumes deep high wide", (64, 64, 128, 128), (512, 30, 56, 60)), LINES,
        "x: float16[volumes, deep, high, wide]; deep high wide; y: float16[volumes, deep // 2, high // 2, wide // 2]",
        "cdiv(deep * high * wide // 8, BLOCK), volumes"),
    subject("windows", zoo.frames_energy, shapes("signals length frames hop width", (256, 441000, 1720, 256, 512),
        (64, 960000, 23996, 40, 160)), LINES, "x: float32[signals, length]; y: float32[signals, frames]; length frames",
        along("frames", "signals"), constants="hop width"),
    subject("windows", zoo.laplace_double, shapes("rows cols", (4096, 4096), (1800, 3600)), TILE,
        IMAGE.format("float64"), plane, most=16),
    subject("windows", zoo.conv_depth_3d, shapes("planes rows cols", (128, 512, 512), (200, 200, 300)), TILE,
        "x: float16[planes, rows, cols]; w: float16[27]; y: float16[planes, rows, cols]; rows cols",
        lambda p, c: (*plane(p, c), p["planes"] - 2), most=16),
    subject("windows", zoo.contrast_hwc, shapes("rows cols", (2160, 3840), (1000, 1500)), TILE,
        "x y: uint8[rows, cols, 3]; rows cols", plane, most=8),
    subject("windows", zoo.dilated_causal, shapes("length width apart taps", (65536, 512, 64, 3), (100000, 200, 2, 7)),
        TOKENS, "x: bfloat16[length, width]; w: bfloat16[taps, width]; y: bfloat16[length, width]; length width",
        "cdiv(width, BLOCK_C), cdiv(length, BLOCK_T)", constants="apart taps"),
    subject("windows", zoo.pool_channels_last, shapes("images high wide width side", (64, 56, 56, 256, 2),
        (128, 64, 48, 96, 4)), "BLOCK_P=1..32 BLOCK_C=32..128 num_warps=1..8",
        "x: float16[images, high, wide, width]; y: float16[images, high // side, wide // side, width]; high wide width",
        "cdiv(high * wide // side ** 2, BLOCK_P), cdiv(width, BLOCK_C), images", constants="side"),
    subject("atomics", zoo.joint_histogram, shapes("n skew bins", (1 << 24, 1.0, 256), (1 << 24, 3.0, 256)), LINE,
        "a b: uint8[n]; y: int32[65536]; n", line, tolerance=0.0,
        values=lambda p: {f"{n}_ptr": picked(i, "bins", "n", skew=p["skew"], dtype=np.uint8)(p)
            for i, n in enumerate("ab")}),
    subject("atomics", zoo.cluster_sums, shapes("n clusters width", (1 << 19, 1000, 64), (1 << 21, 100000, 16)),
        "BLOCK=1..128 num_warps=1..8",
        "x: float32[n, width]; to: int32[n]; y: float32[clusters, width]; count: int32[clusters]; n", line,
        constants="width", output="y_ptr count_ptr", keep="1 <= BLOCK * width / (32 * num_warps) <= 32",
        values=lambda p: {"to_ptr": picked(3, "clusters", "n")(p)}),
    subject("atomics", zoo.nearest_depth, shapes("n pixels", (1 << 23, 1 << 21), (1 << 22, 1 << 25)), LINE,
        "to depth: int32[n]; y: int32[pixels]; n", line, tolerance=0.0,
        values=lambda p: {"to_ptr": picked(5, "pixels", "n")(p)}),
    subject("atomics", zoo.split_gemv, shapes("rows cols", (4096, 65536), (20000, 3000)), TILE,
        "a: float16[rows, cols]; x: float16[cols]; y: float32[rows]; rows cols", plane),
    subject("atomics", zoo.add_half_rows, shapes("n nodes width", (100000, 20000, 128), (8192, 2000, 1000)), TOKENS,
        "x: float16[n, width]; to: int32[n]; y: float16[nodes, width]; n width",
        "cdiv(width, BLOCK_C), cdiv(n, BLOCK_T)", values=lambda p: {"to_ptr": picked(7, "nodes", "n")(p)}),
    subject("atomics", zoo.confusion, shapes("images area classes", (16, 1 << 20, 19), (64, 65536, 150)), LINE,
        "label guess: int32[images, area]; y: int32[images * classes ** 2]; area classes", along("area", "images"),
        tolerance=0.0,
        values=lambda p: {f"{n}_ptr": picked(i, "classes", "images", "area", skew=2.0)(p)
            for i, n in enumerate(("label", "guess"))}),
    subject("atomics", zoo.scale_gradient, shapes("rows cols", (32768, 2048), (5000, 10000)), TILE,
        "x: bfloat16[rows, cols]; g: float32[rows, cols]; y: float32[cols]; rows cols", plane),
    subject("gathers", zoo.colour_table, shapes("n side", (1 << 23, 33), (2_000_000, 65)), LINES,
        "x: float32[3, n]; table: float32[side ** 3, 3]; y: float32[3, n]; n", line, constants="side", most=8,
        values=lambda p: {"x_ptr": (drawn(11).random((3, p["n"])) * 0.999).astype(np.float32)}),
    subject("gathers", zoo.turn_by_place, shapes("tokens heads half places", (16384, 32, 64, 8192),
        (40000, 8, 32, 100000)), "BLOCK_T=1..64 num_warps=1..8",
        "x: bfloat16[tokens, heads, half, 2]; cos sin: float32[places, half]; at: int64[tokens]; "
        "y: bfloat16[tokens, heads, half, 2]; tokens heads", along("tokens", "heads", "BLOCK_T"), constants="half",
        keep="1 <= BLOCK_T * half / (32 * num_warps) <= 32",
        values=lambda p: {"at_ptr": picked(13, "places", "tokens", dtype=np.int64)(p)}),
    subject("gathers", zoo.listed_distances, shapes("questions each rows width", (256, 4096, 1_000_000, 128),
        (2000, 500, 100_000, 64)), "BLOCK=1..64 num_warps=1..8",
        "q: float16[questions, width]; x: float16[rows, width]; id: int32[questions, each]; "
        "y: float32[questions, each]; each", along("each", "questions"), constants="width",
        keep="1 <= BLOCK * width / (32 * num_warps) <= 64",
        values=lambda p: {"id_ptr": picked(17, "rows", "questions", "each")(p)}),
    subject("gathers", zoo.neighbour_max, shapes("nodes width degree", (50000, 128, 16), (10000, 600, 24)), TOKENS,
        "x: float16[nodes, width]; id: int32[nodes, degree]; y: float16[nodes, width]; nodes width",
        "cdiv(width, BLOCK_C), cdiv(nodes, BLOCK_T)", constants="degree",
        values=lambda p: {"id_ptr": picked(19, "nodes", "nodes", "degree")(p)}),
    subject("gathers", zoo.code_distances, shapes("n questions parts bytes", (1 << 21, 8, 16, 256),
        (300_000, 64, 32, 256)), LINES,
        "code: uint8[n, parts]; table: float32[questions, parts, 256]; y: float32[questions, n]; n",
        along("n", "questions"), constants="parts",
        values=lambda p: {"code_ptr": picked(23, "bytes", "n", "parts", dtype=np.uint8)(p)}),
    subject("gathers", zoo.enlarge, shapes("planes high wide out_high out_wide", (96, 540, 960, 1080, 1920),
        (256, 300, 400, 224, 224)), LINES,
        "x: float32[planes, high, wide]; y: float32[planes, out_high, out_wide]; high wide out_high out_wide",
        along("out_high out_wide", "planes")),
    subject("gathers", zoo.unwind, shapes("images side", (16, 2048), (2000, 256)), LINES,
        "x y: float16[images, side, side]; side", "cdiv(side ** 2, BLOCK), images"),
]  # fmt: skip
SUBJECTS = [replace(each, unseen=i % 2 == 1) for i, each in enumerate(LISTED)]
