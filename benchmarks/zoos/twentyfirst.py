"""The 16 kernels of `kernels/triton_zoo_21st.py` as `zoo.py` measures them: eight of gathers, four of atomics, four of
windows, two problems each. All were predicted before they were timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_21st as zoo

from .blind import LINES, TOKENS, picked
from .edges import LINE, line
from .eleventh import over
from .forms import drawn
from .subject import Problem, cdiv, shapes, subject
from .thirteenth import WIDE


def crops(p: Problem) -> dict[str, Any]:
    draw, n = drawn(1471), p["planes"] // 3
    return {"top_ptr": draw.integers(0, p["high"] - p["out_high"], n, np.int32),
            "left_ptr": draw.integers(0, p["wide"] - p["out_wide"], n, np.int32),
            "turned_ptr": draw.integers(0, 2, n, np.int32)}  # fmt: skip


def indices(p: Problem) -> dict[str, Any]:
    """One of eight is missing; the others are anywhere, or near in order."""
    draw = drawn(1481)
    id = draw.integers(0, p["rows"], p["n"])
    if p["near"]:
        id = (np.arange(p["n"]) * p["rows"] // p["n"] + draw.integers(0, p["near"], p["n"])) % p["rows"]
    return {"id_ptr": np.where(draw.random(p["n"]) < 0.125, -1, id)}


def points(p: Problem) -> dict[str, Any]:
    u, v = drawn(1483).standard_normal((2, p["n"])) * p["spread"] + 0.5
    return {"u_ptr": u.astype(np.float32), "v_ptr": v.astype(np.float32)}


def owners(p: Problem) -> dict[str, Any]:
    return {"tensor_ptr": np.sort(picked(1487, "tensors", "chunks", skew=2.0)(p))}


SUBJECTS = [
    subject("gathers", zoo.rank_values, shapes("cols n", (64, 40_000), (4, 1 << 20)), LINE,
        "rank: int32[cols, n]; value: float32[n]; y: float32[cols, n]; n", "cdiv(n, BLOCK), cols", most=16,
        tolerance=0.0,
        values=lambda p: {"rank_ptr": np.stack([drawn(1489 + i).permutation(p["n"]) for i in range(p["cols"])])
            .astype(np.int32)}),
    subject("gathers", zoo.from_hilbert, shapes("bits dtype", (11, "float32"), (12, "uint8")), WIDE,
        "x: dtype[1 << 2 * bits]; y: dtype[1 << bits, 1 << bits]", "(1 << bits) // BLOCK_C, (1 << bits) // BLOCK_R",
        constants="bits", most=16, tolerance=0.0),
    subject("gathers", zoo.unswizzle, shapes("rows cols dtype", (4096, 4096, "float16"), (2048, 8192, "float32")),
        "BLOCK_R=1..32 BLOCK_C=32..256 num_warps=1..8", "x: dtype[rows * cols]; y: dtype[rows, cols]; cols",
        "cols // BLOCK_C, rows // BLOCK_R", most=16, tolerance=0.0),
    subject("gathers", zoo.scale_blocks, shapes("rows cols", (4096, 8192), (1024, 14_336)),
        "BLOCK_R=1..32 BLOCK_C=64..256 num_warps=1..8",
        "q: int8[rows, cols]; scale: float16[rows * cols // 16]; y: float16[rows, cols]; cols",
        "cols // BLOCK_C, rows // BLOCK_R", most=16),
    subject("gathers", zoo.random_crops, shapes("planes high wide out_high out_wide", (768, 256, 256, 224, 224),
        (96, 500, 700, 320, 321)), LINE,
        "x: uint8[planes, high, wide]; top left turned: int32[planes // 3]; y: float16[planes, out_high, out_wide]; "
        "high wide out_high out_wide", "cdiv(out_high * out_wide, BLOCK), planes", most=16,
        values=crops),
    subject("gathers", zoo.take_long, shapes("n rows near", (2_000_000, 1_000_000, 0), (3_000_000, 4_000_000, 3000)),
        LINES, "id y: int64[n]; x: int64[rows]; n", line, most=8, tolerance=0.0, values=indices),
    subject("gathers", zoo.unpack_codes, shapes("n bits", (8_000_000, 11), (4_000_000, 17)), LINE,
        "word: int32[n * bits // 32 + 2]; entry: float32[1 << bits]; y: float32[n]; n", line, constants="bits",
        most=16, tolerance=0.0),
    subject("gathers", zoo.shift_rows, shapes("heads n dtype", (16, 1024, "float16"), (8, 900, "float32")), WIDE,
        "x: dtype[heads, n, 2 * n - 1]; y: dtype[heads, n, n]; n", "cdiv(n, BLOCK_C), cdiv(n, BLOCK_R), heads",
        most=16, tolerance=0.0),
    subject("atomics", zoo.density_map, shapes("n side spread", (1 << 21, 1024, 0.2), (1_000_000, 128, 0.1)), LINES,
        "u v: float32[n]; y: int32[side ** 2]; n", line, constants="side", most=8, tolerance=0.0,
        values=points),
    subject("atomics", zoo.frames_add, shapes("batch frames size hop", (16, 500, 1024, 256), (4, 900, 600, 100)),
        "BLOCK=64..1024 num_warps=1..8",
        "frame: float32[batch, frames, size]; w: float32[size]; y: float32[batch, (frames - 1) * hop + size]; frames; "
        "samples = (frames - 1) * hop + size", "cdiv(size, BLOCK), batch * frames", constants="hop size", most=16),
    subject("atomics", zoo.tensor_norms, shapes("chunks chunk tensors dtype", (2000, 16_384, 300, "bfloat16"),
        (6000, 4096, 20, "float32")), LINE,
        "x: dtype[chunks * chunk]; tensor: int32[chunks]; y: float32[tensors]; n = chunks * chunk", "chunks",
        constants="chunk", most=16, values=owners),
    subject("atomics", zoo.hashed_sums, shapes("n bits kinds skew", (1 << 21, 20, 500_000, 1.0),
        (1_000_000, 14, 5000, 1.5)), LINES, "key: int32[n]; x: float32[n]; y: float32[1 << bits]; n", line,
        constants="bits", most=8,
        values=lambda p: {"key_ptr": picked(1493, "kinds", "n", skew=p["skew"])(p)}),
    subject("windows", zoo.film_means, shapes("frames high wide", (18, 1080, 1920), (10, 500, 640)), WIDE,
        "x y: uint8[frames, high, wide]; high wide", lambda p, c: (*over(2)(p, c), p["frames"] - 2), most=16,
        tolerance=0.0),
    subject("windows", zoo.halve_sequence, shapes("batch n width taps dtype", (8, 4096, 512, 4, "bfloat16"),
        (4, 3000, 700, 7, "float32")), TOKENS,
        "x: dtype[batch, n, width]; w: float32[taps, width]; y: dtype[batch, n // 2, width]; n width",
        "cdiv(n // 2, BLOCK_T), cdiv(width, BLOCK_C), batch", constants="taps", most=16),
    subject("windows", zoo.shrink_labels, shapes("deep high wide", (128, 256, 256), (60, 190, 230)), LINE,
        "x y: uint8[deep, high, wide]; deep high wide", "cdiv(deep * high * wide, BLOCK)", most=16, tolerance=0.0,
        values=lambda p: {"x_ptr": (np.indices((p["deep"], p["high"], p["wide"])) // 20).sum(0)
            .astype(np.uint8)}),
    subject("windows", zoo.curl, shapes("deep high wide", (66, 258, 258), (34, 130, 200)), WIDE,
        "x y: float32[3, deep, high, wide]; deep high wide",
        lambda p, c: (cdiv(p["wide"] - 2, c["BLOCK_C"]), cdiv(p["high"] - 2, c["BLOCK_R"]), p["deep"] - 2), most=16),
]  # fmt: skip
