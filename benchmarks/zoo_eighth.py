"""The twelve kernels of `kernels/triton_zoo_eighth.py` as `zoo.py` measures them, two problems each: three of windows,
three of atomics, three of gathers, one that spills, one that stays, one of strides. No rule of the model follows from
any.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_eighth as zoo
from zoo_blind import LINES, TOKENS, args, of, picked
from zoo_edges import LINE, TILE, line, plane, subject
from zoo_forms import drawn
from zoo_more import shapes
from zoo_subject import SMS, Problem, cdiv

from carver.compiled.binary import Tensor


def by_tokens(rows: str, cols: str, *more: str) -> Any:
    return lambda p, c: (cdiv(p[rows], c["BLOCK_T"]), cdiv(p[cols], c["BLOCK_C"]), *(p[n] for n in more))


def places(seed: int, *axes: str | int, skew: float = 1.0) -> Any:
    """Floats from 0 to less than 1."""
    return lambda p: {"x_ptr": (drawn(seed).random([p.get(n, n) for n in axes]) ** skew * 0.999).astype(np.float32)}


def sorted_into(p: Problem) -> Any:
    return {"to_ptr": np.sort(picked(41, "segments", "n", skew=2.0)(p))}


SUBJECTS = [
    subject("windows", zoo.smooth_down, shapes("rows cols taps", (8192, 4096, 5), (3000, 5000, 15)), TILE,
            args("rows cols taps", x=of("float16", "rows", "cols"), w=of("float32", "taps"),
                 y=of("float16", "rows", "cols")), plane),
    subject("windows", zoo.pool_three_by_two, shapes("planes high wide", (4096, 112, 112), (20000, 55, 55)), LINES,
            lambda p: {**args("high wide", x=of("float32", "planes", "high", "wide"))(p),
                       "y_ptr": Tensor("float32", (p["planes"], (p["high"] + 1) // 2, (p["wide"] + 1) // 2)),
                       "out_high": (p["high"] + 1) // 2, "out_wide": (p["wide"] + 1) // 2},
            lambda p, c: (cdiv((p["high"] + 1) // 2 * ((p["wide"] + 1) // 2), c["BLOCK"]), p["planes"])),
    subject("windows", zoo.cut_frames, shapes("sounds length frames hop width", (16, 1 << 20, 4092, 256, 1024),
                                              (40, 200_000, 1244, 160, 400)), TILE,
            args("length frames hop width", x=of("float32", "sounds", "length"), w=of("float32", "width"),
                 y=of("float32", "sounds", "frames", "width")),
            lambda p, c: (cdiv(p["width"], c["BLOCK_C"]), cdiv(p["frames"], c["BLOCK_R"]), p["sounds"])),
    subject("atomics", zoo.count_points, shapes("n side", (1 << 23, 512), (1 << 23, 4000)), LINE,
            args("n", x=of("float32", "n", 2), y=lambda p: Tensor("int32", (p["side"] ** 2,))), line,
            constants="side", tolerance=0.0, values=places(43, "n", 2, skew=2.0)),
    subject("atomics", zoo.add_sorted_rows, shapes("n segments width", (200_000, 3000, 96), (30_000, 30_000, 512)),
            TOKENS, args("n width", x=of("float32", "n", "width"), to=of("int32", "n"),
                         y=of("float32", "segments", "width")), by_tokens("n", "width"),
            values=sorted_into),
    subject("atomics", zoo.moments_of_columns, shapes("rows cols each", (65536, 1024, 8), (200_000, 300, 4)), TILE,
            args("rows cols", x=of("float16", "rows", "cols"), y=of("float32", 2, "cols")),
            lambda p, c: (cdiv(p["cols"], c["BLOCK_C"]), cdiv(p["rows"], c["BLOCK_R"] * p["each"])),
            constants="each"),
    subject("gathers", zoo.bags, shapes("count each rows width", (65536, 8, 200_000, 64), (5000, 20, 1_000_000, 256)),
            TOKENS, args("count width", table=of("float16", "rows", "width"), id=of("int32", "count", "each"),
                         y=of("float16", "count", "width")), by_tokens("count", "width"),
            constants="each",
            values=lambda p: {"id_ptr": picked(47, "rows", "count", "each", skew=3.0)(p)}),
    subject("gathers", zoo.curve, shapes("n size", (1 << 25, 1024), (1 << 24, 1 << 20)), LINE,
            args("n", x=of("float32", "n"), table=of("float32", "size"), y=of("float32", "n")), line,
            constants="size", values=places(53, "n")),
    subject("gathers", zoo.read_pages, shapes("sequences length width pages page", (64, 4096, 128, 20_000, 16),
                                              (200, 512, 576, 2000, 64)), TOKENS,
            args("length width", x=of("bfloat16", "pages", "page", "width"),
                 page=lambda p: Tensor("int32", (p["sequences"], p["length"] // p["page"])),
                 y=of("bfloat16", "sequences", "length", "width")), by_tokens("length", "width", "sequences"),
            constants="page",
            values=lambda p: {"page_ptr": drawn(59).integers(
                0, p["pages"], (p["sequences"], p["length"] // p["page"]), dtype=np.int32)}),
    subject("spills", zoo.norm_of_gated, shapes("rows cols", (2048, 16384), (8000, 6000)),
            {"BLOCK": (8192, 16384, 32768), "num_warps": (1, 2, 4, 8, 16)},
            args("cols", x=of("bfloat16", "rows", "cols"), g=of("bfloat16", "rows", "cols"), w=of("float32", "cols"),
                 y=of("bfloat16", "rows", "cols")), lambda p, c: (p["rows"],),
            keep=lambda p, c: p["cols"] <= c["BLOCK"] <= 2.8 * p["cols"]),
    subject("persistent", zoo.softmax_in_turn, shapes("rows cols", (60_000, 1000), (400_000, 250)),
            {"BLOCK_R": (1, 2, 4, 8, 16), "BLOCK": (256, 1024), "num_warps": (2, 4, 8), "num_stages": (1, 2, 4)},
            args("rows cols", x=of("float16", "rows", "cols"), y=of("float16", "rows", "cols")),
            lambda p, c: (4 * SMS,),
            keep=lambda p, c: p["cols"] <= c["BLOCK"] < 2 * p["cols"] and c["BLOCK_R"] * c["BLOCK"] <= 8192),
    subject("strides", zoo.swap_heads, shapes("tokens heads width", (40_000, 32, 64), (300_000, 12, 16)),
            {"BLOCK_T": (1, 4, 16, 32), "BLOCK_H": (1, 2, 4, 16), "num_warps": (2, 4, 8)},
            args("tokens heads", x=of("float16", "tokens", "heads", "width"),
                 y=of("float16", "heads", "tokens", "width")),
            lambda p, c: (cdiv(p["tokens"], c["BLOCK_T"]), cdiv(p["heads"], c["BLOCK_H"])),
            constants="width",
            keep=lambda p, c: 1 <= c["BLOCK_T"] * c["BLOCK_H"] * p["width"] / (32 * c["num_warps"]) <= 64),
]  # fmt: skip
