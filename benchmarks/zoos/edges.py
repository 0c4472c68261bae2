"""The 41 kernels of `kernels/triton_zoo_edges.py` as `zoo.py` measures them: 20 of loads that overlap, eleven of
atomics, ten of gathers, two problems each.

Every second one in the order of this file is `unseen`, beginning with the second. This was decided before any was
measured or ranked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from kernels import triton_zoo_edges as zoo

from carver.compiled.binary import Tensor

from .subject import Config, Problem, cdiv, shapes, subject

LINE = {"BLOCK": (128, 256, 512, 1024, 2048, 4096), "num_warps": (1, 2, 4, 8)}
TILE = {"BLOCK_R": (1, 2, 4, 8, 16, 32), "BLOCK_C": (32, 64, 128, 256, 512), "num_warps": (2, 4, 8)}
PIXELS = {"BLOCK_P": (2, 4, 8, 16, 32, 64), "BLOCK_C": (16, 32, 64, 128), "num_warps": (1, 2, 4, 8)}
TOKENS = {"BLOCK_T": (1, 2, 4, 8, 16, 32), "BLOCK_C": (16, 64, 128, 256, 512), "num_warps": (1, 2, 4, 8)}

IMAGE = "x y: dtype[rows, cols]; rows cols"
VOLUME = "x y: float32[planes, rows, cols]; planes rows cols"


def floats(*names: str) -> Callable[..., dict[str, Tensor]]:
    return lambda dtype, *shape: {n: Tensor(dtype, shape) for n in names}


def ints(n: int) -> Tensor:
    return Tensor("int32", (n,))


def line(p: Problem, c: Config) -> tuple[int, ...]:
    return (cdiv(p["n"], c["BLOCK"]),)


def plane(p: Problem, c: Config) -> tuple[int, ...]:
    return cdiv(p["cols"], c["BLOCK_C"]), cdiv(p["rows"], c["BLOCK_R"])


def tokens(p: Problem, c: Config) -> tuple[int, ...]:
    return cdiv(p["tokens"], c["BLOCK_T"]), cdiv(p["width"], c["BLOCK_C"])


def space_3d(p: Problem, c: Config) -> tuple[int, ...]:
    return (*plane(p, c), p["planes"])


def pooled(p: Problem) -> tuple[int, int]:
    high, wide = ((p[n] - p["side"]) // p["stride"] + 1 for n in ("high", "wide"))
    return high, wide


def skewed(p: Problem) -> dict[str, Any]:
    """Bins of which the first are drawn most often."""
    drawn = np.random.default_rng(21).random(p["n"]) ** p["power"] * p["bins"]
    return {"bin_ptr": drawn.astype(np.int32)}


# -- the kernels

OVERLAPS = [
    subject("overlap", zoo.taps, shapes("n taps dtype", (1 << 26, 7, "float32"), (1 << 25, 27, "float32")), LINE,
        "x y: dtype[n]; w: float32[taps]; n", line, constants="taps"),
    subject("overlap", zoo.taps, shapes("n taps dtype", (1 << 26, 5, "float16"), (50_000_003, 13, "float16")), LINE,
        "x y: dtype[n]; w: float32[taps]; n", line, constants="taps", name="taps_half"),
    subject("overlap", zoo.taps_loop, shapes("n taps", (1 << 25, 9), (1 << 24, 27)), LINE,
        "x y: float32[n]; w: float32[taps]; n; count = taps", line),
    subject("overlap", zoo.stencil_cross, shapes("rows cols reach dtype", (8192, 8192, 1, "float32"),
        (3000, 10000, 1, "float16")), TILE, IMAGE, plane, constants="reach"),
    subject("overlap", zoo.stencil_box, shapes("rows cols side dtype", (8192, 8192, 3, "float16"),
        (4096, 8192, 3, "float32")), TILE, IMAGE, plane, constants="side"),
    subject("overlap", zoo.stencil_cross, shapes("rows cols reach dtype", (6000, 8000, 2, "float32"),
        (4096, 4096, 4, "float32")), TILE, IMAGE, plane, constants="reach", name="stencil_star"),
    subject("overlap", zoo.laplace_3d, shapes("planes rows cols", (256, 512, 512), (100, 300, 1000)), TILE, VOLUME,
        space_3d),
    subject("overlap", zoo.box_3d, shapes("planes rows cols", (128, 512, 512), (60, 500, 700)), TILE, VOLUME, space_3d,
        most=16),
    subject("overlap", zoo.conv1d_last, shapes("batch length width taps", (8, 4096, 2048, 4), (4, 3000, 5120, 9)),
        "BLOCK_T=1..32 BLOCK_C=64..512 num_warps=1..8",
        "x y: float16[batch, length, width]; w: float16[taps, width]; length width",
        "cdiv(width, BLOCK_C), cdiv(length, BLOCK_T), batch", constants="taps"),
    subject("overlap", zoo.conv1d_first, shapes("batch channels length taps dtype", (4, 1024, 8192, 7, "float32"),
        (16, 512, 6000, 15, "float16")), LINE,
        "x y: dtype[batch, channels, length]; w: dtype[channels, taps]; length channels",
        "cdiv(length, BLOCK), batch * channels", constants="taps"),
    subject("overlap", zoo.conv2d_last, shapes("images high wide width side", (16, 56, 56, 256, 3),
        (8, 64, 64, 192, 5)), PIXELS,
        "x y: float16[images, high, wide, width]; w: float16[side, side, width]; high wide width",
        "cdiv(high * wide, BLOCK_P), cdiv(width, BLOCK_C), images", constants="side"),
    subject("overlap", zoo.conv2d_first, shapes("images channels high wide side", (16, 64, 128, 128, 3),
        (8, 128, 112, 112, 7)), "BLOCK_R=1..16 BLOCK_C=32..128 num_warps=1..8",
        "x y: float32[images, channels, high, wide]; w: float32[channels, side, side]; high wide channels",
        "cdiv(wide, BLOCK_C), cdiv(high, BLOCK_R), images * channels", constants="side", most=16),
    subject("overlap", zoo.pool_first, shapes("images channels high wide side stride", (32, 64, 112, 112, 3, 2),
        (16, 64, 150, 150, 5, 1)), LINE,
        lambda p: {"x_ptr": Tensor("float16", (p["images"], p["channels"], p["high"], p["wide"])),
            "y_ptr": Tensor("float16", (p["images"], p["channels"], *pooled(p))), "high": p["high"],
            "wide": p["wide"], "out_high": pooled(p)[0], "out_wide": pooled(p)[1]},
        lambda p, c: (cdiv(math.prod(pooled(p)), c["BLOCK"]), p["images"] * p["channels"]), constants="side stride",
        most=16),
    subject("overlap", zoo.pool_last, shapes("images high wide width side stride", (32, 112, 112, 64, 3, 2),
        (16, 56, 56, 256, 3, 1)), PIXELS,
        lambda p: {"x_ptr": Tensor("float16", (p["images"], p["high"], p["wide"], p["width"])),
            "y_ptr": Tensor("float16", (p["images"], *pooled(p), p["width"])), "high": p["high"],
            "wide": p["wide"], "width": p["width"], "out_high": pooled(p)[0], "out_wide": pooled(p)[1]},
        lambda p, c: (cdiv(math.prod(pooled(p)), c["BLOCK_P"]), cdiv(p["width"], c["BLOCK_C"]), p["images"]),
        constants="side stride"),
    subject("overlap", zoo.window_max, shapes("n window", (1 << 24, 8), (1 << 22, 32)), "BLOCK=16..512 num_warps=1..8",
        "x y: float32[n]; n", line, constants="window", keep="elements(c, BLOCK * window, 64)"),
    subject("overlap", zoo.unfold, shapes("windows step window", (1 << 22, 4, 16), (3_000_000, 8, 32)),
        "BLOCK=8..256 num_warps=1..8", "x: float16[windows * step + window]; y: float16[windows, window]; windows step",
        "cdiv(windows, BLOCK)", constants="window", keep="elements(c, BLOCK * window, 64)"),
    subject("overlap", zoo.strided_mean, shapes("n step taps", (1 << 24, 2, 5), (10_000_000, 4, 8)), LINE,
        "x: float32[n * step + taps]; y: float32[n]; n", line, constants="step taps"),
    subject("overlap", zoo.blur_rows, shapes("rows cols taps dtype", (8192, 4096, 9, "float32"),
        (5000, 6000, 15, "float16")), TILE, IMAGE, plane, constants="taps"),
    subject("overlap", zoo.wave_step, shapes("rows cols", (4096, 8192), (9000, 3000)), LINE,
        "now old next: float32[rows, cols]; rows cols; speed = 0.1", "cdiv(cols - 2, BLOCK), rows - 2",
        output="next_ptr"),
    subject("overlap", zoo.sobel, shapes("rows cols dtype", (8192, 8192, "float16"), (4000, 5000, "float32")), TILE,
        IMAGE, plane),
]  # fmt: skip

ATOMICS = [
    subject("atomics", zoo.histogram, shapes("n bins", (1 << 20, 16), (1 << 24, 65536)), LINE,
        "key: int32[n]; count: int32[bins]; n bins", line, output="count_ptr", tolerance=0.0),
    subject("atomics", zoo.histogram_of, shapes("n bins power", (1 << 22, 256, 2), (1 << 22, 65536, 4)), LINE,
        "bin: int32[n]; count: int32[bins]; n", line, output="count_ptr", tolerance=0.0, values=skewed),
    subject("atomics", zoo.scatter_rows, shapes("tokens rows width", (65536, 8192, 256), (16384, 65536, 1024)), TOKENS,
        "x: float32[tokens, width]; row: int32[tokens]; y: float32[rows, width]; tokens rows width", tokens),
    subject("atomics", zoo.scatter_rows, shapes("tokens rows width", (1 << 19, 1 << 17, 32), (1 << 17, 1024, 64)),
        TOKENS, "x: float32[tokens, width]; row: int32[tokens]; y: float32[rows, width]; tokens rows width", tokens,
        name="scatter_narrow_rows", keep="elements(c, BLOCK_T * BLOCK_C, 32) and BLOCK_C <= width"),
    subject("atomics", zoo.split_sum, shapes("parts n", (4, 1 << 23), (32, 1 << 20)), LINE,
        "x: float32[parts, n]; y: float32[n]; n", lambda p, c: (*line(p, c), p["parts"])),
    subject("atomics", zoo.column_sum, shapes("rows cols", (32768, 1024), (4096, 8192)),
        "BLOCK_R=1,4,16,64 BLOCK_C=32..256 num_warps=1..8", "x: float16[rows, cols]; y: float32[cols]; rows cols",
        plane),
    subject("atomics", zoo.grand_total, shapes("n", (1 << 25,), (20_000_000,)), LINE, "x: float32[n]; y: float32[1]; n",
        line, tolerance=0.2),
    subject("atomics", zoo.segment_sum, shapes("n length", (1 << 23, 4), (1 << 23, 100)), LINE,
        "x: float32[n]; y: float32[cdiv(n, length)]; n length", line),
    subject("atomics", zoo.scatter_max, shapes("n places", (1 << 23, 1 << 25), (1 << 23, 4096)), LINE,
        "key: int32[n]; y: int32[places]; n places", line, tolerance=0.0),
    subject("atomics", zoo.scatter_add, shapes("n places", (1 << 22, 1 << 26), (1 << 23, 1 << 20)), LINE,
        "x: float32[n]; key: int32[n]; y: float32[places]; n places", line),
]  # fmt: skip

GATHERS = [
    subject("gathers", zoo.take, shapes("n places", (1 << 23, 1 << 26), (1 << 24, 1 << 20)), LINE,
        "x: float32[places]; key: int32[n]; y: float32[n]; n places", line),
    subject("gathers", zoo.embed, shapes("tokens rows width dtype", (65536, 1 << 17, 256, "float16"),
        (1 << 20, 1 << 20, 16, "float32")), TOKENS,
        "x: dtype[rows, width]; key: int32[tokens]; y: dtype[tokens, width]; tokens rows width", tokens,
        keep="elements(c, BLOCK_T * BLOCK_C, 32) and BLOCK_C <= width"),
    subject("gathers", zoo.hashed, shapes("n factor", (1 << 24, 40503), (1 << 25, 12345)), LINE,
        "x y: float32[n]; n factor", line),
    subject("gathers", zoo.transposed, shapes("rows cols", (4096, 4096), (3000, 5000)), LINE,
        "x: float32[rows, cols]; y: float32[cols, rows]; rows cols", "cdiv(rows * cols, BLOCK)"),
    subject("gathers", zoo.codebook, shapes("n entries", (1 << 26, 256), (1 << 25, 32768)), LINE,
        "code: int16[n]; table: float16[entries]; y: float16[n]; n entries", line),
    subject("gathers", zoo.permute_channels, shapes("batch channels length", (32, 512, 4096), (64, 1000, 784)), LINE,
        "x y: float16[batch, channels, length]; order: int32[channels]; channels length",
        "cdiv(length, BLOCK), channels, batch",
        values=lambda p: {"order_ptr": np.random.default_rng(22).permutation(p["channels"]).astype(np.int32)}),
    subject("gathers", zoo.turned, shapes("rows cols cosine sine", (4096, 4096, 0.98, 0.198997),
        (3000, 5000, 0.6, 0.8)), TILE,
        "x y: float32[rows, cols]; rows cols cosine sine", plane, most=16),
    subject("gathers", zoo.sparse_rows, shapes("rows cols each", (1 << 19, 1 << 20, 16), (200_000, 1 << 24, 32)),
        "BLOCK=4..256 num_warps=1..8",
        "v: float32[rows * each]; col: int32[rows * each]; x: float32[cols]; y: float32[rows]; rows cols",
        "cdiv(rows, BLOCK)", constants="each", keep="elements(c, BLOCK * each, 32)"),
    subject("gathers", zoo.paged_copy, shapes("pages reads page width", (8192, 4096, 16, 1024),
        (65536, 32768, 16, 128)), LINE,
        "x: float16[pages, page, width]; table: int32[reads]; y: float16[reads, page, width]; pages",
        "cdiv(page * width, BLOCK), reads", constants="page width"),
    subject("gathers", zoo.bag, shapes("bags rows width count", (8192, 1 << 17, 512, 32), (16384, 1 << 20, 128, 20)),
        "BLOCK=64..512 num_warps=1..4",
        "x: float16[rows, width]; key: int32[bags * count]; y: float16[bags, width]; rows width",
        "bags, cdiv(width, BLOCK)", constants="count"),
]  # fmt: skip

LAST = subject("atomics", zoo.count_up, shapes("n relaxed", (1 << 26, True), (1 << 26, False)), LINE, "y: int32[n]; n",
        line, constants="relaxed", tolerance=0.0)  # fmt: skip
LISTED = [*OVERLAPS, *ATOMICS, *GATHERS, LAST]
SUBJECTS = [replace(each, unseen=i % 2 == 1) for i, each in enumerate(LISTED)]
