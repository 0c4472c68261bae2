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
from zoo_edges import LINE, TILE, line, plane, subject
from zoo_forms import drawn
from zoo_more import shapes
from zoo_subject import cdiv

from carver.compiled.binary import Tensor

TOKENS = {"BLOCK_T": (1, 2, 4, 8, 16, 32), "BLOCK_C": (16, 64, 128, 256), "num_warps": (1, 2, 4, 8)}
LINES = {"BLOCK": (64, 128, 256, 512, 1024), "num_warps": (1, 2, 4, 8)}


def of(dtype: str, *axes: str | int) -> Any:
    """A tensor of a problem's extents, by their names."""
    return lambda p: Tensor(dtype, tuple(p[n] if isinstance(n, str) else n for n in axes))


def args(numbers: str = "", **tensors: Any) -> Any:
    """Tensors, then numbers by the names of a problem's."""
    return lambda p: {**{f"{n}_ptr": made(p) for n, made in tensors.items()}, **{n: p[n] for n in numbers.split()}}


def along(size: str, count: str, block: str = "BLOCK") -> Any:
    return lambda p, c: (cdiv(math.prod(p[n] for n in size.split()), c[block]), p[count])


def picked(seed: int, most: str, *axes: str, skew: float = 1.0, dtype: Any = np.int32) -> Any:
    """Whole numbers below p[most], low ones more often where `skew` is above 1."""
    return lambda p: (drawn(seed).random([p[n] for n in axes]) ** skew * p[most]).astype(dtype)


def image(dtype: str, out: str = "") -> Any:
    return args("rows cols", x=of(dtype, "rows", "cols"), y=of(out or dtype, "rows", "cols"))


LISTED = [
    subject("windows", zoo.dilate, shapes("rows cols side", (4320, 7680, 3), (2000, 3000, 5)), TILE, image("uint8"),
            plane, constants="side"),
    subject("windows", zoo.box_blur, shapes("rows cols reach", (4096, 8192, 4), (3000, 1500, 7)), TILE, image("uint8"),
            plane, constants="reach"),
    subject("windows", zoo.median_of_five, shapes("signals length", (64, 1 << 20), (20000, 1500)), LINE,
            args("length", x=of("float32", "signals", "length"), y=of("float32", "signals", "length")),
            along("length", "signals")),
    subject("windows", zoo.halve_volume, shapes("volumes deep high wide", (64, 64, 128, 128), (512, 30, 56, 60)), LINES,
            lambda p: {**args("deep high wide", x=of("float16", "volumes", "deep", "high", "wide"))(p), "y_ptr": Tensor(
                "float16", (p["volumes"], p["deep"] // 2, p["high"] // 2, p["wide"] // 2))},
            lambda p, c: (cdiv(p["deep"] * p["high"] * p["wide"] // 8, c["BLOCK"]), p["volumes"])),
    subject("windows", zoo.frames_energy, shapes("signals length frames hop width", (256, 441000, 1720, 256, 512),
                                                 (64, 960000, 23996, 40, 160)), LINES,
            args("length frames", x=of("float32", "signals", "length"), y=of("float32", "signals", "frames")),
            along("frames", "signals"), constants="hop width"),
    subject("windows", zoo.laplace_double, shapes("rows cols", (4096, 4096), (1800, 3600)), TILE, image("float64"),
            plane, most=16),
    subject("windows", zoo.conv_depth_3d, shapes("planes rows cols", (128, 512, 512), (200, 200, 300)), TILE,
            args("rows cols", x=of("float16", "planes", "rows", "cols"), w=of("float16", 27),
                 y=of("float16", "planes", "rows", "cols")),
            lambda p, c: (*plane(p, c), p["planes"] - 2), most=16),
    subject("windows", zoo.contrast_hwc, shapes("rows cols", (2160, 3840), (1000, 1500)), TILE,
            args("rows cols", x=of("uint8", "rows", "cols", 3), y=of("uint8", "rows", "cols", 3)), plane,
            most=8),
    subject("windows", zoo.dilated_causal, shapes("length width apart taps", (65536, 512, 64, 3), (100000, 200, 2, 7)),
            TOKENS, args("length width", x=of("bfloat16", "length", "width"), w=of("bfloat16", "taps", "width"),
                         y=of("bfloat16", "length", "width")),
            lambda p, c: (cdiv(p["width"], c["BLOCK_C"]), cdiv(p["length"], c["BLOCK_T"])),
            constants="apart taps"),
    subject("windows", zoo.pool_channels_last, shapes("images high wide width side", (64, 56, 56, 256, 2),
                                                      (128, 64, 48, 96, 4)),
            {"BLOCK_P": (1, 2, 4, 8, 16, 32), "BLOCK_C": (32, 64, 128), "num_warps": (1, 2, 4, 8)},
            lambda p: {"x_ptr": Tensor("float16", (p["images"], p["high"], p["wide"], p["width"])), "y_ptr": Tensor(
                "float16", (p["images"], p["high"] // p["side"], p["wide"] // p["side"], p["width"])),
                **{n: p[n] for n in ("high", "wide", "width")}},
            lambda p, c: (cdiv(p["high"] * p["wide"] // p["side"] ** 2, c["BLOCK_P"]), cdiv(p["width"], c["BLOCK_C"]),
                          p["images"]), constants="side"),
    subject("atomics", zoo.joint_histogram, shapes("n skew bins", (1 << 24, 1.0, 256), (1 << 24, 3.0, 256)), LINE,
            args("n", a=of("uint8", "n"), b=of("uint8", "n"), y=of("int32", 65536)), line,
            tolerance=0.0,
            values=lambda p: {f"{n}_ptr": picked(i, "bins", "n", skew=p["skew"], dtype=np.uint8)(p)
                              for i, n in enumerate("ab")}),
    subject("atomics", zoo.cluster_sums, shapes("n clusters width", (1 << 19, 1000, 64), (1 << 21, 100000, 16)),
            {"BLOCK": (1, 2, 4, 8, 16, 32, 64, 128), "num_warps": (1, 2, 4, 8)},
            args("n", x=of("float32", "n", "width"), to=of("int32", "n"), y=of("float32", "clusters", "width"),
                 count=of("int32", "clusters")), line,
            constants="width", output="y_ptr count_ptr", values=lambda p: {"to_ptr": picked(3, "clusters", "n")(p)},
            keep=lambda p, c: 1 <= c["BLOCK"] * p["width"] / (32 * c["num_warps"]) <= 32),
    subject("atomics", zoo.nearest_depth, shapes("n pixels", (1 << 23, 1 << 21), (1 << 22, 1 << 25)), LINE,
            args("n", to=of("int32", "n"), depth=of("int32", "n"), y=of("int32", "pixels")), line,
            tolerance=0.0, values=lambda p: {"to_ptr": picked(5, "pixels", "n")(p)}),
    subject("atomics", zoo.split_gemv, shapes("rows cols", (4096, 65536), (20000, 3000)), TILE,
            args("rows cols", a=of("float16", "rows", "cols"), x=of("float16", "cols"), y=of("float32", "rows")),
            plane),
    subject("atomics", zoo.add_half_rows, shapes("n nodes width", (100000, 20000, 128), (8192, 2000, 1000)), TOKENS,
            args("n width", x=of("float16", "n", "width"), to=of("int32", "n"), y=of("float16", "nodes", "width")),
            lambda p, c: (cdiv(p["width"], c["BLOCK_C"]), cdiv(p["n"], c["BLOCK_T"])),
            values=lambda p: {"to_ptr": picked(7, "nodes", "n")(p)}),
    subject("atomics", zoo.confusion, shapes("images area classes", (16, 1 << 20, 19), (64, 65536, 150)), LINE,
            args("area classes", label=of("int32", "images", "area"), guess=of("int32", "images", "area"),
                 y=lambda p: Tensor("int32", (p["images"] * p["classes"] ** 2,))), along("area", "images"),
            tolerance=0.0,
            values=lambda p: {f"{n}_ptr": picked(i, "classes", "images", "area", skew=2.0)(p)
                              for i, n in enumerate(("label", "guess"))}),
    subject("atomics", zoo.scale_gradient, shapes("rows cols", (32768, 2048), (5000, 10000)), TILE,
            args("rows cols", x=of("bfloat16", "rows", "cols"), g=of("float32", "rows", "cols"),
                 y=of("float32", "cols")), plane),
    subject("gathers", zoo.colour_table, shapes("n side", (1 << 23, 33), (2_000_000, 65)), LINES,
            args("n", x=of("float32", 3, "n"), table=lambda p: Tensor("float32", (p["side"] ** 3, 3)),
                 y=of("float32", 3, "n")), line, constants="side", most=8,
            values=lambda p: {"x_ptr": (drawn(11).random((3, p["n"])) * 0.999).astype(np.float32)}),
    subject("gathers", zoo.turn_by_place, shapes("tokens heads half places", (16384, 32, 64, 8192),
                                                 (40000, 8, 32, 100000)),
            {"BLOCK_T": (1, 2, 4, 8, 16, 32, 64), "num_warps": (1, 2, 4, 8)},
            args("tokens heads", x=of("bfloat16", "tokens", "heads", "half", 2), cos=of("float32", "places", "half"),
                 sin=of("float32", "places", "half"), at=of("int64", "tokens"),
                 y=of("bfloat16", "tokens", "heads", "half", 2)), along("tokens", "heads", "BLOCK_T"),
            constants="half", values=lambda p: {"at_ptr": picked(13, "places", "tokens", dtype=np.int64)(p)},
            keep=lambda p, c: 1 <= c["BLOCK_T"] * p["half"] / (32 * c["num_warps"]) <= 32),
    subject("gathers", zoo.listed_distances, shapes("questions each rows width", (256, 4096, 1_000_000, 128),
                                                    (2000, 500, 100_000, 64)),
            {"BLOCK": (1, 2, 4, 8, 16, 32, 64), "num_warps": (1, 2, 4, 8)},
            args("each", q=of("float16", "questions", "width"), x=of("float16", "rows", "width"),
                 id=of("int32", "questions", "each"), y=of("float32", "questions", "each")), along("each", "questions"),
            constants="width", values=lambda p: {"id_ptr": picked(17, "rows", "questions", "each")(p)},
            keep=lambda p, c: 1 <= c["BLOCK"] * p["width"] / (32 * c["num_warps"]) <= 64),
    subject("gathers", zoo.neighbour_max, shapes("nodes width degree", (50000, 128, 16), (10000, 600, 24)), TOKENS,
            args("nodes width", x=of("float16", "nodes", "width"), id=of("int32", "nodes", "degree"),
                 y=of("float16", "nodes", "width")),
            lambda p, c: (cdiv(p["width"], c["BLOCK_C"]), cdiv(p["nodes"], c["BLOCK_T"])),
            constants="degree",
            values=lambda p: {"id_ptr": picked(19, "nodes", "nodes", "degree")(p)}),
    subject("gathers", zoo.code_distances, shapes("n questions parts bytes", (1 << 21, 8, 16, 256),
                                                  (300_000, 64, 32, 256)), LINES,
            args("n", code=of("uint8", "n", "parts"), table=of("float32", "questions", "parts", 256),
                 y=of("float32", "questions", "n")), along("n", "questions"), constants="parts",
            values=lambda p: {"code_ptr": picked(23, "bytes", "n", "parts", dtype=np.uint8)(p)}),
    subject("gathers", zoo.enlarge, shapes("planes high wide out_high out_wide", (96, 540, 960, 1080, 1920),
                                           (256, 300, 400, 224, 224)), LINES,
            args("high wide out_high out_wide", x=of("float32", "planes", "high", "wide"),
                 y=of("float32", "planes", "out_high", "out_wide")), along("out_high out_wide", "planes")),
    subject("gathers", zoo.unwind, shapes("images side", (16, 2048), (2000, 256)), LINES,
            args("side", x=of("float16", "images", "side", "side"), y=of("float16", "images", "side", "side")),
            lambda p, c: (cdiv(p["side"] ** 2, c["BLOCK"]), p["images"])),
]  # fmt: skip
SUBJECTS = [replace(each, unseen=i % 2 == 1) for i, each in enumerate(LISTED)]
