"""The twelve kernels of `kernels/triton_zoo_26th.py` as `zoo.py` measures them: four each of windows, atomics and
gathers, two problems each. All were predicted before they were timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_26th as zoo

from .blind import LINES, picked
from .edges import PIXELS, line
from .eleventh import over
from .forms import drawn
from .subject import Problem, shapes, subject
from .thirteenth import WIDE


def picture(p: Problem) -> dict[str, Any]:
    """Bright and dark in slow waves, some noise."""
    r, c = np.meshgrid(np.arange(p["high"]), np.arange(p["wide"]), indexing="ij")
    x = 128 + 90 * np.sin(c / 90) * np.cos(r / 70) + drawn(2601).normal(0, 12, r.shape)
    return {"x_ptr": x.clip(0, 255).astype(np.uint8)}


def rated(p: Problem) -> dict[str, Any]:
    """Some things are rated often."""
    return {"user_ptr": picked(2609, "users", "n")(p), "item_ptr": picked(2617, "items", "n", skew=2.0)(p)}


def index(p: Problem) -> dict[str, Any]:
    """How often each letter stands before each place of a text, and patterns."""
    draw, size = drawn(2621), p["size"]
    seen, text = np.zeros((size + 1, 4), np.int32), draw.integers(0, 4, size)
    for letter in range(4):
        np.cumsum(text == letter, out=seen[1:, letter])
    first = np.concatenate([[0], np.cumsum(seen[-1])[:3]]).astype(np.int32)
    return {"pattern_ptr": draw.integers(0, 4, (p["n"], p["steps"]), np.uint8), "first_ptr": first, "seen_ptr": seen}


def inputs(p: Problem) -> dict[str, Any]:
    return {"x_ptr": drawn(2633).integers(0, p["cells"] * 256, (p["rows"], p["ins"]), np.int16)}


def neighbours(p: Problem) -> dict[str, Any]:
    """A sheet of squares; where `mixed`, its corners are in no order. Borders have fewer."""
    n, wide, draw = p["n"], p["wide"], drawn(2647)
    at = np.arange(n)
    near = np.stack([at + i * wide + j for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j], 1)
    across = np.abs(near.clip(0, n - 1) % wide - (at % wide)[:, None]) > 1
    near = np.where((near < 0) | (near >= n) | across, -1, near)
    if p["mixed"]:
        new = draw.permutation(n)
        moved = np.empty_like(near)
        moved[new] = np.where(near >= 0, new[near.clip(min=0)], -1)
        near = moved
    return {"near_ptr": near.astype(np.int32)}


def normals(p: Problem) -> dict[str, Any]:
    """Of balls in rows, as bytes."""
    r, c = np.meshgrid(np.arange(p["high"]), np.arange(p["wide"]), indexing="ij")
    x, y = (c % p["ball"] / p["ball"] * 2 - 1) * 0.7, (r % p["ball"] / p["ball"] * 2 - 1) * 0.7
    z = np.sqrt(1 - x * x - y * y) * np.where((r // p["ball"] + c // p["ball"]) % 2, 1, -1)
    return {"d_ptr": (np.stack([x, y, z]) * 127).astype(np.int8)}


SUBJECTS = [
    subject("windows", zoo.oil_painted, shapes("high wide reach", (2160, 3840, 2), (1000, 1400, 1)), WIDE,
        "x: uint8[high, wide]; y: float32[high, wide]; high wide", over(), constants="reach", most=8),
    subject("windows", zoo.onset_strength, shapes("clips frames bins", (64, 2000, 513), (300, 800, 128)),
        "BLOCK_T=1..32 BLOCK_F=32..256 num_warps=1..8",
        "x: float16[clips, frames, bins]; y: float32[clips, frames]; frames bins", "cdiv(frames, BLOCK_T), clips",
        most=16),
    subject("windows", zoo.vessels, shapes("planes high wide", (200, 512, 512), (64, 300, 400)), WIDE,
        "x: float16[planes, high, wide]; y: float32[planes, high, wide]; planes; rows = high; cols = wide",
        lambda p, c: (*over()(p, c), p["planes"]), most=16),
    subject("windows", zoo.blur_pool, shapes("images high wide width dtype", (32, 112, 112, 64, "bfloat16"),
        (8, 200, 120, 24, "float32")), PIXELS,
        "x: dtype[images, high, wide, width]; y: dtype[images, high // 2, wide // 2, width]; high wide width",
        "cdiv(high // 2 * (wide // 2), BLOCK_P), cdiv(width, BLOCK_C), images", most=16),
    subject("atomics", zoo.bilateral_grid, shapes("high wide side", (2160, 3840, 16), (600, 800, 8)), WIDE,
        "x: uint8[high, wide]; y: float32[high // side + 2, wide // side + 2, 17, 2]; high wide", over(),
        constants="side", most=16, values=picture),
    subject("atomics", zoo.pair_distances, shapes("n bins", (4096, 256), (6000, 64)),
        "BLOCK_I=1..64 BLOCK_J=32..256 num_warps=1..8", "x: int32[3, n]; y: int32[bins]; n",
        "cdiv(n, BLOCK_I), cdiv(n, BLOCK_J)", constants="bins", most=32, tolerance=0.01,
        values=lambda p: {"x_ptr": drawn(2657).integers(0, 1024, (3, p["n"]), np.int32)}),
    subject("atomics", zoo.rated_gradients, shapes("n users items width", (1_000_000, 100_000, 20_000, 32),
        (200_000, 6000, 4000, 128)), "BLOCK_T=1..64 num_warps=1..8",
        "user item: int32[n]; rating: float32[n]; u gu: float32[users, width]; v gv: float32[items, width]; n",
        "cdiv(n, BLOCK_T)", constants="width", output="gu_ptr gv_ptr", values=rated,
        keep="elements(c, BLOCK_T * width, 16)"),
    subject("atomics", zoo.pose_equations, shapes("n cameras", (500_000, 200), (100_000, 2000)), LINES,
        "camera: int32[n]; j: float32[n, 2, 6]; e: float32[n, 2]; y: float32[cameras, 27]; n", line, most=8,
        values=lambda p: {"camera_ptr": picked(2659, "cameras", "n")(p)}),
    subject("gathers", zoo.search_genome, shapes("n steps size", (1_000_000, 20, 1 << 22), (200_000, 36, 100_000)),
        LINES, "pattern: uint8[n, steps]; first: int32[4]; seen: int32[size + 1, 4]; low high: int32[n]; n size", line,
        constants="steps", output="low_ptr high_ptr", most=8, tolerance=0.0, values=index),
    subject("gathers", zoo.spline_layer, shapes("rows ins cells outs dtype", (4096, 64, 16, 256, "float32"),
        (1000, 200, 8, 64, "float16")), "BLOCK_T=1..32 BLOCK_C=32..256 num_warps=1..8",
        "x: int16[rows, ins]; w: dtype[ins, cells + 3, outs]; y: float32[rows, outs]; rows ins cells outs",
        "cdiv(outs, BLOCK_C), cdiv(rows, BLOCK_T)", values=inputs,
        keep="elements(c, BLOCK_T * BLOCK_C, 16) and BLOCK_C <= outs"),
    subject("gathers", zoo.smooth_mesh, shapes("n wide mixed", (4_000_000, 2000, 0), (300_000, 500, 1)), LINES,
        "near: int32[n, 8]; x y: float32[n, 3]; n; step = 0.4", line, most=8, values=neighbours),
    subject("gathers", zoo.sky_of_normals, shapes("high wide size ball", (1080, 1920, 512, 300), (2160, 3840, 64, 50)),
        LINES, "d: int8[3, high, wide]; sky: float16[6, size, size, 4]; y: float16[high, wide, 4]; "
        "n = high * wide; size", "cdiv(high * wide, BLOCK)", most=8, tolerance=0.0, values=normals),
]  # fmt: skip
