"""The 41 kernels of `kernels/triton_zoo_edges.py` as `zoo.py` measures them: 20 of loads that overlap, eleven of
atomics, ten of gathers, two problems each.

Every second one in the order of this file is `unseen`, beginning with the second. This was decided before any was
measured or ranked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from kernels import triton_zoo_edges as zoo
from zoo_more import elements, shapes
from zoo_subject import Arrays, Config, Problem, Subject, cdiv

from carver.compiled.binary import Tensor

LINE = {"BLOCK": (128, 256, 512, 1024, 2048, 4096), "num_warps": (1, 2, 4, 8)}
TILE = {"BLOCK_R": (1, 2, 4, 8, 16, 32), "BLOCK_C": (32, 64, 128, 256, 512), "num_warps": (2, 4, 8)}
PIXELS = {"BLOCK_P": (2, 4, 8, 16, 32, 64), "BLOCK_C": (16, 32, 64, 128), "num_warps": (1, 2, 4, 8)}
TOKENS = {"BLOCK_T": (1, 2, 4, 8, 16, 32), "BLOCK_C": (16, 64, 128, 256, 512), "num_warps": (1, 2, 4, 8)}

Args = Callable[[Problem], dict[str, Any]]
Want = Callable[[Problem, Arrays], Any]


def subject(
    kind: str, kernel: Any, problems: tuple[Problem, ...], space: Mapping[str, tuple[int, ...]], args: Args,
    grid: Callable[[Problem, Config], tuple[int, ...]], want: Want | None = None, *, constants: str = "",
    name: str = "", most: int = 32, **more: Any,
) -> Subject:  # fmt: skip
    """`constants`: names of a problem's numbers that are compile-time constants, by the same names in capitals;
    `output`: of the tensors that it writes; `most`: elements a thread."""
    blocks = [n for n in space if n.startswith("BLOCK")]
    keep = more.pop("keep", lambda p, c: elements(c, math.prod(c[n] for n in blocks), most))
    fixed = constants.split()
    outputs = tuple(more.pop("output", "y_ptr").split())
    got = more.pop("got", lambda p, c, t: tuple(t[n] for n in outputs))
    return Subject(
        name or kernel.fn.__name__, kernel, problems, space, lambda p, c: args(p), grid, outputs, got,
        want, lambda p: {n.upper(): p[n] for n in fixed}, keep=keep, kind=kind, **more,
    )  # fmt: skip


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


def image(p: Problem) -> dict[str, Any]:
    return {**floats("x_ptr", "y_ptr")(p["dtype"], p["rows"], p["cols"]), "rows": p["rows"], "cols": p["cols"]}


def volume(p: Problem) -> dict[str, Any]:
    sizes = {n: p[n] for n in ("planes", "rows", "cols")}
    return {**floats("x_ptr", "y_ptr")("float32", *sizes.values()), **sizes}


def pooled(p: Problem) -> tuple[int, int]:
    high, wide = ((p[n] - p["side"]) // p["stride"] + 1 for n in ("high", "wide"))
    return high, wide


def skewed(p: Problem) -> dict[str, Any]:
    """Bins of which the first are drawn most often."""
    drawn = np.random.default_rng(21).random(p["n"]) ** p["power"] * p["bins"]
    return {"bin_ptr": drawn.astype(np.int32)}


# -- the kernels

OVERLAPS = [
    subject(
        "overlap", zoo.taps, shapes("n taps dtype", (1 << 26, 7, "float32"), (1 << 25, 27, "float32")), LINE,
        lambda p: {**floats("x_ptr", "y_ptr")(p["dtype"], p["n"]), "w_ptr": Tensor("float32", (p["taps"],)),
                   "n": p["n"]},
        line, constants="taps",
    ),
    subject(
        "overlap", zoo.taps, shapes("n taps dtype", (1 << 26, 5, "float16"), (50_000_003, 13, "float16")), LINE,
        lambda p: {**floats("x_ptr", "y_ptr")(p["dtype"], p["n"]), "w_ptr": Tensor("float32", (p["taps"],)),
                   "n": p["n"]},
        line, constants="taps", name="taps_half",
    ),
    subject(
        "overlap", zoo.taps_loop, shapes("n taps", (1 << 25, 9), (1 << 24, 27)), LINE,
        lambda p: {**floats("x_ptr", "y_ptr")("float32", p["n"]), "w_ptr": Tensor("float32", (p["taps"],)),
                   "n": p["n"], "count": p["taps"]},
        line,
    ),
    subject(
        "overlap", zoo.stencil_cross,
        shapes("rows cols reach dtype", (8192, 8192, 1, "float32"), (3000, 10000, 1, "float16")), TILE, image, plane,
        constants="reach",
    ),
    subject(
        "overlap", zoo.stencil_box,
        shapes("rows cols side dtype", (8192, 8192, 3, "float16"), (4096, 8192, 3, "float32")), TILE, image, plane,
        constants="side",
    ),
    subject(
        "overlap", zoo.stencil_cross,
        shapes("rows cols reach dtype", (6000, 8000, 2, "float32"), (4096, 4096, 4, "float32")), TILE, image, plane,
        constants="reach", name="stencil_star",
    ),
    subject(
        "overlap", zoo.laplace_3d, shapes("planes rows cols", (256, 512, 512), (100, 300, 1000)), TILE, volume,
        space_3d,
    ),
    subject(
        "overlap", zoo.box_3d, shapes("planes rows cols", (128, 512, 512), (60, 500, 700)), TILE, volume, space_3d,
        most=16,
    ),
    subject(
        "overlap", zoo.conv1d_last, shapes("batch length width taps", (8, 4096, 2048, 4), (4, 3000, 5120, 9)),
        {"BLOCK_T": (1, 2, 4, 8, 16, 32), "BLOCK_C": (64, 128, 256, 512), "num_warps": (1, 2, 4, 8)},
        lambda p: {**floats("x_ptr", "y_ptr")("float16", p["batch"], p["length"], p["width"]),
                   "w_ptr": Tensor("float16", (p["taps"], p["width"])), "length": p["length"], "width": p["width"]},
        lambda p, c: (cdiv(p["width"], c["BLOCK_C"]), cdiv(p["length"], c["BLOCK_T"]), p["batch"]),
        constants="taps",
    ),
    subject(
        "overlap", zoo.conv1d_first,
        shapes("batch channels length taps dtype", (4, 1024, 8192, 7, "float32"), (16, 512, 6000, 15, "float16")),
        LINE,
        lambda p: {**floats("x_ptr", "y_ptr")(p["dtype"], p["batch"], p["channels"], p["length"]),
                   "w_ptr": Tensor(p["dtype"], (p["channels"], p["taps"])), "length": p["length"],
                   "channels": p["channels"]},
        lambda p, c: (cdiv(p["length"], c["BLOCK"]), p["batch"] * p["channels"]), constants="taps",
    ),
    subject(
        "overlap", zoo.conv2d_last, shapes("images high wide width side", (16, 56, 56, 256, 3), (8, 64, 64, 192, 5)),
        PIXELS,
        lambda p: {**floats("x_ptr", "y_ptr")("float16", p["images"], p["high"], p["wide"], p["width"]),
                   "w_ptr": Tensor("float16", (p["side"], p["side"], p["width"])), "high": p["high"],
                   "wide": p["wide"], "width": p["width"]},
        lambda p, c: (cdiv(p["high"] * p["wide"], c["BLOCK_P"]), cdiv(p["width"], c["BLOCK_C"]), p["images"]),
        constants="side",
    ),
    subject(
        "overlap", zoo.conv2d_first,
        shapes("images channels high wide side", (16, 64, 128, 128, 3), (8, 128, 112, 112, 7)),
        {"BLOCK_R": (1, 2, 4, 8, 16), "BLOCK_C": (32, 64, 128), "num_warps": (1, 2, 4, 8)},
        lambda p: {**floats("x_ptr", "y_ptr")("float32", p["images"], p["channels"], p["high"], p["wide"]),
                   "w_ptr": Tensor("float32", (p["channels"], p["side"], p["side"])), "high": p["high"],
                   "wide": p["wide"], "channels": p["channels"]},
        lambda p, c: (cdiv(p["wide"], c["BLOCK_C"]), cdiv(p["high"], c["BLOCK_R"]), p["images"] * p["channels"]),
        constants="side", most=16,
    ),
    subject(
        "overlap", zoo.pool_first,
        shapes("images channels high wide side stride", (32, 64, 112, 112, 3, 2), (16, 64, 150, 150, 5, 1)), LINE,
        lambda p: {"x_ptr": Tensor("float16", (p["images"], p["channels"], p["high"], p["wide"])),
                   "y_ptr": Tensor("float16", (p["images"], p["channels"], *pooled(p))), "high": p["high"],
                   "wide": p["wide"], "out_high": pooled(p)[0], "out_wide": pooled(p)[1]},
        lambda p, c: (cdiv(math.prod(pooled(p)), c["BLOCK"]), p["images"] * p["channels"]),
        constants="side stride", most=16,
    ),
    subject(
        "overlap", zoo.pool_last,
        shapes("images high wide width side stride", (32, 112, 112, 64, 3, 2), (16, 56, 56, 256, 3, 1)), PIXELS,
        lambda p: {"x_ptr": Tensor("float16", (p["images"], p["high"], p["wide"], p["width"])),
                   "y_ptr": Tensor("float16", (p["images"], *pooled(p), p["width"])), "high": p["high"],
                   "wide": p["wide"], "width": p["width"], "out_high": pooled(p)[0], "out_wide": pooled(p)[1]},
        lambda p, c: (cdiv(math.prod(pooled(p)), c["BLOCK_P"]), cdiv(p["width"], c["BLOCK_C"]), p["images"]),
        constants="side stride",
    ),
    subject(
        "overlap", zoo.window_max, shapes("n window", (1 << 24, 8), (1 << 22, 32)),
        {"BLOCK": (16, 32, 64, 128, 256, 512), "num_warps": (1, 2, 4, 8)},
        lambda p: {**floats("x_ptr", "y_ptr")("float32", p["n"]), "n": p["n"]}, line, constants="window",
        keep=lambda p, c: elements(c, c["BLOCK"] * p["window"], 64),
    ),
    subject(
        "overlap", zoo.unfold, shapes("windows step window", (1 << 22, 4, 16), (3_000_000, 8, 32)),
        {"BLOCK": (8, 16, 32, 64, 128, 256), "num_warps": (1, 2, 4, 8)},
        lambda p: {"x_ptr": Tensor("float16", (p["windows"] * p["step"] + p["window"],)),
                   "y_ptr": Tensor("float16", (p["windows"], p["window"])), "windows": p["windows"],
                   "step": p["step"]},
        lambda p, c: (cdiv(p["windows"], c["BLOCK"]),),
        constants="window",
        keep=lambda p, c: elements(c, c["BLOCK"] * p["window"], 64),
    ),
    subject(
        "overlap", zoo.strided_mean, shapes("n step taps", (1 << 24, 2, 5), (10_000_000, 4, 8)), LINE,
        lambda p: {"x_ptr": Tensor("float32", (p["n"] * p["step"] + p["taps"],)),
                   "y_ptr": Tensor("float32", (p["n"],)), "n": p["n"]},
        line, constants="step taps",
    ),
    subject(
        "overlap", zoo.blur_rows,
        shapes("rows cols taps dtype", (8192, 4096, 9, "float32"), (5000, 6000, 15, "float16")), TILE, image, plane,
        constants="taps",
    ),
    subject(
        "overlap", zoo.wave_step, shapes("rows cols", (4096, 8192), (9000, 3000)), LINE,
        lambda p: {**floats("now_ptr", "old_ptr", "next_ptr")("float32", p["rows"], p["cols"]), "rows": p["rows"],
                   "cols": p["cols"], "speed": 0.1},
        lambda p, c: (cdiv(p["cols"] - 2, c["BLOCK"]), p["rows"] - 2), output="next_ptr",
    ),
    subject(
        "overlap", zoo.sobel,
        shapes("rows cols dtype", (8192, 8192, "float16"), (4000, 5000, "float32")), TILE, image, plane,
    ),
]  # fmt: skip

ATOMICS = [
    subject(
        "atomics", zoo.histogram, shapes("n bins", (1 << 20, 16), (1 << 24, 65536)), LINE,
        lambda p: {"key_ptr": ints(p["n"]), "count_ptr": ints(p["bins"]), "n": p["n"], "bins": p["bins"]}, line,
        output="count_ptr", tolerance=0.0,
    ),
    subject(
        "atomics", zoo.histogram_of, shapes("n bins power", (1 << 22, 256, 2), (1 << 22, 65536, 4)), LINE,
        lambda p: {"bin_ptr": ints(p["n"]), "count_ptr": ints(p["bins"]), "n": p["n"]}, line,
        output="count_ptr", tolerance=0.0, values=skewed,
    ),
    subject(
        "atomics", zoo.scatter_rows, shapes("tokens rows width", (65536, 8192, 256), (16384, 65536, 1024)), TOKENS,
        lambda p: {"x_ptr": Tensor("float32", (p["tokens"], p["width"])), "row_ptr": ints(p["tokens"]),
                   "y_ptr": Tensor("float32", (p["rows"], p["width"])), "tokens": p["tokens"], "rows": p["rows"],
                   "width": p["width"]},
        tokens,
    ),
    subject(
        "atomics", zoo.scatter_rows, shapes("tokens rows width", (1 << 19, 1 << 17, 32), (1 << 17, 1024, 64)), TOKENS,
        lambda p: {"x_ptr": Tensor("float32", (p["tokens"], p["width"])), "row_ptr": ints(p["tokens"]),
                   "y_ptr": Tensor("float32", (p["rows"], p["width"])), "tokens": p["tokens"], "rows": p["rows"],
                   "width": p["width"]},
        tokens,
        name="scatter_narrow_rows",
        keep=lambda p, c: elements(c, c["BLOCK_T"] * c["BLOCK_C"], 32) and c["BLOCK_C"] <= p["width"],
    ),
    subject(
        "atomics", zoo.split_sum, shapes("parts n", (4, 1 << 23), (32, 1 << 20)), LINE,
        lambda p: {"x_ptr": Tensor("float32", (p["parts"], p["n"])), "y_ptr": Tensor("float32", (p["n"],)),
                   "n": p["n"]},
        lambda p, c: (*line(p, c), p["parts"]),
    ),
    subject(
        "atomics", zoo.column_sum, shapes("rows cols", (32768, 1024), (4096, 8192)),
        {"BLOCK_R": (1, 4, 16, 64), "BLOCK_C": (32, 64, 128, 256), "num_warps": (1, 2, 4, 8)},
        lambda p: {"x_ptr": Tensor("float16", (p["rows"], p["cols"])), "y_ptr": Tensor("float32", (p["cols"],)),
                   "rows": p["rows"], "cols": p["cols"]},
        plane,
    ),
    subject(
        "atomics", zoo.grand_total, shapes("n", (1 << 25,), (20_000_000,)), LINE,
        lambda p: {"x_ptr": Tensor("float32", (p["n"],)), "y_ptr": Tensor("float32", (1,)), "n": p["n"]}, line,
        tolerance=0.2,
    ),
    subject(
        "atomics", zoo.segment_sum, shapes("n length", (1 << 23, 4), (1 << 23, 100)), LINE,
        lambda p: {"x_ptr": Tensor("float32", (p["n"],)), "y_ptr": Tensor("float32", (cdiv(p["n"], p["length"]),)),
                   "n": p["n"], "length": p["length"]},
        line,
    ),
    subject(
        "atomics", zoo.scatter_max, shapes("n places", (1 << 23, 1 << 25), (1 << 23, 4096)), LINE,
        lambda p: {"key_ptr": ints(p["n"]), "y_ptr": ints(p["places"]), "n": p["n"], "places": p["places"]}, line,
        tolerance=0.0,
    ),
    subject(
        "atomics", zoo.scatter_add, shapes("n places", (1 << 22, 1 << 26), (1 << 23, 1 << 20)), LINE,
        lambda p: {"x_ptr": Tensor("float32", (p["n"],)), "key_ptr": ints(p["n"]),
                   "y_ptr": Tensor("float32", (p["places"],)), "n": p["n"], "places": p["places"]},
        line,
    ),
]  # fmt: skip

GATHERS = [
    subject(
        "gathers", zoo.take, shapes("n places", (1 << 23, 1 << 26), (1 << 24, 1 << 20)), LINE,
        lambda p: {"x_ptr": Tensor("float32", (p["places"],)), "key_ptr": ints(p["n"]),
                   "y_ptr": Tensor("float32", (p["n"],)), "n": p["n"], "places": p["places"]},
        line,
    ),
    subject(
        "gathers", zoo.embed, shapes("tokens rows width dtype", (65536, 1 << 17, 256, "float16"),
                                     (1 << 20, 1 << 20, 16, "float32")), TOKENS,
        lambda p: {"x_ptr": Tensor(p["dtype"], (p["rows"], p["width"])), "key_ptr": ints(p["tokens"]),
                   "y_ptr": Tensor(p["dtype"], (p["tokens"], p["width"])), "tokens": p["tokens"], "rows": p["rows"],
                   "width": p["width"]},
        tokens,
        keep=lambda p, c: elements(c, c["BLOCK_T"] * c["BLOCK_C"], 32) and c["BLOCK_C"] <= p["width"],
    ),
    subject(
        "gathers", zoo.hashed, shapes("n factor", (1 << 24, 40503), (1 << 25, 12345)), LINE,
        lambda p: {**floats("x_ptr", "y_ptr")("float32", p["n"]), "n": p["n"], "factor": p["factor"]}, line,
    ),
    subject(
        "gathers", zoo.transposed, shapes("rows cols", (4096, 4096), (3000, 5000)), LINE,
        lambda p: {"x_ptr": Tensor("float32", (p["rows"], p["cols"])),
                   "y_ptr": Tensor("float32", (p["cols"], p["rows"])), "rows": p["rows"], "cols": p["cols"]},
        lambda p, c: (cdiv(p["rows"] * p["cols"], c["BLOCK"]),),
    ),
    subject(
        "gathers", zoo.codebook, shapes("n entries", (1 << 26, 256), (1 << 25, 32768)), LINE,
        lambda p: {"code_ptr": Tensor("int16", (p["n"],)), "table_ptr": Tensor("float16", (p["entries"],)),
                   "y_ptr": Tensor("float16", (p["n"],)), "n": p["n"], "entries": p["entries"]},
        line,
    ),
    subject(
        "gathers", zoo.permute_channels, shapes("batch channels length", (32, 512, 4096), (64, 1000, 784)), LINE,
        lambda p: {**floats("x_ptr", "y_ptr")("float16", p["batch"], p["channels"], p["length"]),
                   "order_ptr": ints(p["channels"]), "channels": p["channels"], "length": p["length"]},
        lambda p, c: (cdiv(p["length"], c["BLOCK"]), p["channels"], p["batch"]),
        values=lambda p: {"order_ptr": np.random.default_rng(22).permutation(p["channels"]).astype(np.int32)},
    ),
    subject(
        "gathers", zoo.turned, shapes("rows cols cosine sine", (4096, 4096, 0.98, 0.198997), (3000, 5000, 0.6, 0.8)),
        TILE, lambda p: {**image({**p, "dtype": "float32"}), "cosine": p["cosine"], "sine": p["sine"]}, plane,
        most=16,
    ),
    subject(
        "gathers", zoo.sparse_rows, shapes("rows cols each", (1 << 19, 1 << 20, 16), (200_000, 1 << 24, 32)),
        {"BLOCK": (4, 8, 16, 32, 64, 128, 256), "num_warps": (1, 2, 4, 8)},
        lambda p: {"v_ptr": Tensor("float32", (p["rows"] * p["each"],)), "col_ptr": ints(p["rows"] * p["each"]),
                   "x_ptr": Tensor("float32", (p["cols"],)), "y_ptr": Tensor("float32", (p["rows"],)),
                   "rows": p["rows"], "cols": p["cols"]},
        lambda p, c: (cdiv(p["rows"], c["BLOCK"]),), constants="each",
        keep=lambda p, c: elements(c, c["BLOCK"] * p["each"], 32),
    ),
    subject(
        "gathers", zoo.paged_copy, shapes("pages reads page width", (8192, 4096, 16, 1024), (65536, 32768, 16, 128)),
        LINE,
        lambda p: {"x_ptr": Tensor("float16", (p["pages"], p["page"], p["width"])), "table_ptr": ints(p["reads"]),
                   "y_ptr": Tensor("float16", (p["reads"], p["page"], p["width"])), "pages": p["pages"]},
        lambda p, c: (cdiv(p["page"] * p["width"], c["BLOCK"]), p["reads"]),
        constants="page width",
    ),
    subject(
        "gathers", zoo.bag, shapes("bags rows width count", (8192, 1 << 17, 512, 32), (16384, 1 << 20, 128, 20)),
        {"BLOCK": (64, 128, 256, 512), "num_warps": (1, 2, 4)},
        lambda p: {"x_ptr": Tensor("float16", (p["rows"], p["width"])), "key_ptr": ints(p["bags"] * p["count"]),
                   "y_ptr": Tensor("float16", (p["bags"], p["width"])), "rows": p["rows"], "width": p["width"]},
        lambda p, c: (p["bags"], cdiv(p["width"], c["BLOCK"])), constants="count",
    ),
]  # fmt: skip

LAST = subject(
    "atomics", zoo.count_up, shapes("n relaxed", (1 << 26, True), (1 << 26, False)), LINE,
    lambda p: {"y_ptr": ints(p["n"]), "n": p["n"]}, line, constants="relaxed", tolerance=0.0,
)  # fmt: skip
LISTED = [*OVERLAPS, *ATOMICS, *GATHERS, LAST]
SUBJECTS = [replace(each, unseen=i % 2 == 1) for i, each in enumerate(LISTED)]
