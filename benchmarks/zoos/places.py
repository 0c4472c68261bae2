"""The 30 kernels of `kernels/triton_zoo_places.py` as `zoo.py` measures them: eleven of windows, eight of atomics,
eleven of gathers, two problems each.

Every second one in the order of this file is `unseen`, beginning with the second. This was decided before any was
measured, and all were ranked before.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from kernels import triton_zoo_places as zoo

from carver.compiled.binary import Tensor

from .edges import LINE, TILE, floats, ints, line, plane, space_3d, tokens
from .forms import drawn, starts
from .library import longs, wide_ints
from .subject import Arrays, Config, Problem, Subject, cdiv, shapes, subject

AREA = {"BLOCK_R": (1, 2, 4, 8, 16), "BLOCK_C": (32, 64, 128, 256), "num_warps": (1, 2, 4, 8)}
AXES = ("planes", "rows", "cols")
ROWS = {"BLOCK": (32, 64, 128, 256, 512), "num_warps": (1, 2, 4)}


def images(p: Problem, c: Config) -> tuple[int, ...]:
    """Programs along a plane of the result, and planes."""
    return cdiv(p["high"] * p["wide"], c["BLOCK"]), p["planes"]


def sizes(p: Problem, *names: str) -> dict[str, int]:
    return {n: p[n] for n in names}


# -- windows


def outer(p: Problem) -> list[int]:
    return [(p[n] + 2 * p["pad"] - p["side"]) // p["step"] + 1 for n in ("high", "wide")]


WINDOWS = [
    subject("windows", zoo.seismic_3d, shapes("planes rows cols reach", (160, 256, 256, 4), (64, 500, 500, 2)), TILE,
        lambda p: {**floats("now_ptr", "old_ptr", "speed_ptr", "next_ptr")("float32", *sizes(p, *AXES).values()),
            **sizes(p, *AXES)}, space_3d, constants="reach", output="next_ptr", most=8),
    subject("windows", zoo.gray_scott, shapes("rows cols", (2048, 2048), (1000, 3000)), TILE,
        "u v next_u next_v: float32[rows, cols]; rows cols; feed = 0.04; kill = 0.06", plane,
        output="next_u_ptr next_v_ptr", most=8),
    subject("windows", zoo.median_3x3, shapes("planes rows cols", (16, 1080, 1920), (512, 256, 256)), TILE,
        "x y: uint8[planes, rows, cols]; rows cols", space_3d, tolerance=0.0),
    subject("windows", zoo.depthwise_gradient, shapes("images channels high wide side step pad",
        (16, 96, 112, 112, 3, 2, 1), (8, 384, 56, 56, 5, 1, 2)), AREA,
        lambda p: {"g_ptr": Tensor("float16", (p["images"], p["channels"], *outer(p))),
            "w_ptr": Tensor("float16", (p["channels"], p["side"] ** 2)),
            "x_ptr": Tensor("float16", (p["images"], p["channels"], p["high"], p["wide"])),
            **sizes(p, "channels", "high", "wide"), "out_high": outer(p)[0], "out_wide": outer(p)[1]},
        "cdiv(wide, BLOCK_C), cdiv(high, BLOCK_R), images * channels", constants="side step pad", output="x_ptr",
        keep="elements(c, BLOCK_R * BLOCK_C, 16) and BLOCK_C < 2 * wide"),
    subject("windows", zoo.conv_sequence, shapes("batch length dim", (4, 4096, 4096), (32, 500, 1536)),
        "BLOCK_T=8..128 BLOCK_C=64..512 num_warps=1..4",
        "x: bfloat16[batch, length, dim]; w: bfloat16[dim, 4]; bias: bfloat16[dim]; y: bfloat16[batch, length, dim]; "
        "length dim; stride_b = length * dim; stride_t = dim", "cdiv(length, BLOCK_T), cdiv(dim, BLOCK_C), batch",
        keep="elements(c, BLOCK_C, 8)"),
    subject("windows", zoo.max_pool_places, shapes("planes high wide side step pad dtype",
        (2048, 112, 112, 3, 2, 1, "float16"), (1024, 60, 80, 2, 2, 0, "float32")), LINE,
        lambda p: {"x_ptr": Tensor(p["dtype"], (p["planes"], p["high"], p["wide"])),
            "y_ptr": Tensor(p["dtype"], (p["planes"], *outer(p))),
            "place_ptr": wide_ints(p["planes"], *outer(p)),
            **sizes(p, "high", "wide"), "out_high": outer(p)[0], "out_wide": outer(p)[1]},
        lambda p, c: (cdiv(math.prod(outer(p)), c["BLOCK"]), p["planes"]), constants="side step pad",
        output="y_ptr place_ptr", most=8),
    subject("windows", zoo.adaptive_mean, shapes("planes high wide out_high out_wide dtype",
        (8192, 56, 56, 7, 7, "float16"), (256, 200, 304, 50, 40, "float32")), "BLOCK=32..512 num_warps=1..4",
        "x: dtype[planes, high, wide]; y: dtype[planes, out_high, out_wide]; high wide out_high out_wide",
        "cdiv(out_high * out_wide, BLOCK), planes", most=8),
    subject("windows", zoo.response_norm, shapes("images channels area reach dtype", (64, 96, 3025, 2, "float32"),
        (16, 256, 4096, 3, "float16")), LINE, "x y: dtype[images, channels, area]; channels area; alpha = 0.1",
        "cdiv(area, BLOCK), channels, images", constants="reach", most=16),
    subject("windows", zoo.fold, shapes("planes high wide side step pad", (512, 128, 128, 4, 2, 1),
        (256, 96, 96, 3, 1, 1)), LINE,
        lambda p: {"x_ptr": Tensor("float16", (p["planes"] * p["side"] ** 2, *outer(p))),
            "y_ptr": Tensor("float16", (p["planes"], p["high"], p["wide"])), **sizes(p, "high", "wide"),
            "steps_h": outer(p)[0], "steps_w": outer(p)[1]}, images, constants="side step pad", most=8),
    subject("windows", zoo.bilateral, shapes("rows cols reach", (2160, 3840, 2), (1024, 1024, 3)), TILE,
        "x y: float32[rows, cols]; rows cols; near = 0.1; alike = 0.5", plane, constants="reach", most=8),
    subject("windows", zoo.correlation, shapes("channels high wide apart", (32, 135, 240, 48), (96, 64, 200, 24)), LINE,
        "a b: float16[channels, high, wide]; y: float32[apart, high, wide]; channels high wide",
        "cdiv(high * wide, BLOCK), apart", constants="apart", most=8),
]  # fmt: skip

# -- atomics


def graph(p: Problem) -> dict[str, np.ndarray]:
    """Edges of a graph a few of whose nodes have many."""
    ends = {"from_ptr": drawn(51).random(p["edges"]), "to_ptr": drawn(52).random(p["edges"]) ** 2}
    return {n: longs(x * p["nodes"]) for n, x in ends.items()}


def slots_got(p: Problem, c: Config, t: Arrays) -> Any:
    return t["count_ptr"], (t["expert_ptr"].long() * p["n"] + t["slot_ptr"]).sort().values


def flow(p: Problem) -> np.ndarray:
    r, c = np.meshgrid(np.arange(p["high"]), np.arange(p["wide"]), indexing="ij")
    return np.stack((p["bend"] * np.sin(r / 50 + c / 90), p["bend"] * np.cos(c / 40))).astype(np.float32)


def bits(words: Any) -> Any:
    """The bits of each word, as numbers that are sums of few powers of two."""
    return words.long() & 0xFFFF, words.long() >> 16 & 0xFFFF


def skewed(seed: int, n: int, below: int, power: int = 3) -> np.ndarray:
    return longs(drawn(seed).random(n) ** power * below)


ATOMICS = [
    subject("atomics", zoo.neighbour_sum, shapes("edges nodes width", (400_000, 20_000, 64), (100_000, 60_000, 256)),
        "BLOCK_E=1..32 BLOCK_C=32..128 num_warps=1..8",
        "x: float32[nodes, width]; from to: int64[edges]; y: float32[nodes, width]; degree: int32[nodes]; edges width",
        "cdiv(edges, BLOCK_E), cdiv(width, BLOCK_C)", output="y_ptr degree_ptr",
        keep="elements(c, BLOCK_E * BLOCK_C, 32) and BLOCK_C <= width", values=graph),
    subject("atomics", zoo.edge_largest, shapes("edges nodes heads", (1 << 20, 50_000, 8), (3_000_000, 1000, 1)), LINE,
        "score: float32[edges, heads]; to: int64[edges]; y: float32[nodes, heads]; n = edges * heads; heads",
        "cdiv(edges * heads, BLOCK)", most=16, values=lambda p: {"to_ptr": graph(p)["to_ptr"]}),
    subject("atomics", zoo.expert_slots, shapes("n experts", (131_072, 64), (1 << 20, 256)), LINE,
        "expert: int32[n]; count: int32[experts]; slot: int32[n]; n", line, output="count_ptr slot_ptr", got=slots_got,
        tolerance=0.0, most=16, values=lambda p: {"expert_ptr": skewed(53, p["n"], p["experts"], 2).astype(np.int32)}),
    subject("atomics", zoo.splat, shapes("planes high wide bend", (3, 1080, 1920, 30.0), (64, 256, 256, 8.0)), LINE,
        "x: float32[planes, high, wide]; flow: float32[2, high, wide]; y: float32[planes, high, wide]; high wide",
        images, values=lambda p: {"flow_ptr": flow(p)}, most=8),
    subject("atomics", zoo.tap_gradient, shapes("images channels high wide side", (32, 96, 56, 56, 3),
        (8, 256, 64, 64, 5)), "BLOCK=256..4096 num_warps=2..8",
        "x g: float16[images, channels, high, wide]; w: float32[channels, side ** 2]; channels high wide",
        "cdiv(high * wide, BLOCK), images * channels", constants="side", output="w_ptr", most=16),
    subject("atomics", zoo.bloom, shapes("n words hashes", (4_000_000, 1 << 20, 3), (1 << 20, 30_000_000, 4)), LINE,
        "key: int32[n]; word: int32[words]; n words", line, constants="hashes", output="word_ptr",
        got=lambda p, c, t: bits(t["word_ptr"]), tolerance=0.0, most=8,
        values=lambda p: {"key_ptr": np.arange(p["n"], dtype=np.int32)}),
    subject("atomics", zoo.embed_gradient, shapes("tokens words width", (16_384, 50_000, 1024), (50_000, 3000, 256)),
        "BLOCK_T=1..8 BLOCK_C=64..512 num_warps=1..4",
        "g: float16[tokens, width]; word: int64[tokens]; y: float16[words, width]; tokens width; padding = 0", tokens,
        keep="elements(c, BLOCK_T * BLOCK_C, 16) and BLOCK_C <= width",
        values=lambda p: {"word_ptr": skewed(54, p["tokens"], p["words"])}, tolerance=0.05),
    subject("atomics", zoo.weighted_count, shapes("n bins", (1 << 22, 1000), (20_000_000, 1_000_000)), LINE,
        "key: int64[n]; weight: float32[n]; y: float32[bins]; n", line, most=16,
        values=lambda p: {"key_ptr": skewed(55, p["n"], p["bins"], 2)}),
]  # fmt: skip

# -- gathers


def three_values(p: Problem) -> dict[str, np.ndarray]:
    t = longs(np.arange(p["tokens"]))
    return {"word_ptr": skewed(61, p["tokens"], p["words"]), "place_ptr": t % 512, "kind_ptr": t // 300 % 2}


def turns(p: Problem) -> np.ndarray:
    """Each image turned by its own angle and made smaller."""
    at = np.linspace(-1, 1, p["out"])
    y, x = np.meshgrid(at, at, indexing="ij")
    angle = drawn(62).random(p["images"])[:, None, None] * p["turn"]
    grid = np.stack((x * np.cos(angle) - y * np.sin(angle), x * np.sin(angle) + y * np.cos(angle)), -1) * 0.9
    return grid.astype(np.float32).reshape(p["images"], -1, 2)


def sparse_values(p: Problem) -> dict[str, np.ndarray]:
    start = starts(p, "rows", "most")
    return {"start_ptr": start, "col_ptr": drawn(63).integers(0, p["cols"], start[-1]).astype(np.int32)}


def shuffled(p: Problem) -> int:
    return int(math.prod(p[n] for n in ("images", "channels", "high", "wide")) * p["times"] ** 2)


def boxes(p: Problem) -> np.ndarray:
    x, y, w, h = drawn(64).random((4, p["boxes"])) * 0.5
    return np.stack((x * p["wide"], y * p["high"], (x + w) * p["wide"], (y + h) * p["high"]), 1).astype(np.float32)


GATHERS = [
    subject("gathers", zoo.embed_three, shapes("tokens words width dtype", (16_384, 30_522, 768, "float32"),
        (100_000, 50_000, 256, "float16")), "BLOCK_T=1..16 BLOCK_C=64..512 num_warps=1..8",
        lambda p: {**{f"{n}_ptr": wide_ints(p["tokens"]) for n in ("word", "place", "kind")},
            "words_ptr": Tensor(p["dtype"], (p["words"], p["width"])),
            "places_ptr": Tensor(p["dtype"], (512, p["width"])),
            "kinds_ptr": Tensor(p["dtype"], (2, p["width"])),
            "y_ptr": Tensor(p["dtype"], (p["tokens"], p["width"])), **sizes(p, "tokens", "width")}, tokens,
        values=three_values),
    subject("gathers", zoo.take_columns, shapes("rows cols in_cols dtype", (8192, 1000, 4096, "float32"),
        (50_000, 64, 512, "float16")), TILE,
        "x: dtype[rows, in_cols]; index: int64[cols]; y: dtype[rows, cols]; rows cols in_cols", plane,
        keep="elements(c, BLOCK_R * BLOCK_C, 32) and BLOCK_C < 2 * cols",
        values=lambda p: {"index_ptr": drawn(65).integers(0, p["in_cols"], p["cols"])}),
    subject("gathers", zoo.take_along_rows, shapes("in_rows rows cols", (20_000, 10_000, 512),
        (1_000_000, 200_000, 32)), TILE,
        "x: float32[in_rows, cols]; index: int64[rows, cols]; y: float32[rows, cols]; rows cols", plane,
        keep="elements(c, BLOCK_R * BLOCK_C, 32) and BLOCK_C < 2 * cols",
        values=lambda p: {"index_ptr": drawn(66).integers(0, p["in_rows"], (p["rows"], p["cols"]))}),
    subject("gathers", zoo.grid_sample, shapes("images channels high wide out turn", (8, 64, 128, 128, 128, 0.3),
        (64, 3, 320, 320, 224, 3.0)), LINE,
        "x: float32[images, channels, high, wide]; grid: float32[images, out ** 2, 2]; "
        "y: float32[images, channels, out, out]; channels high wide; out_area = out ** 2",
        "cdiv(out ** 2, BLOCK), images", values=lambda p: {"grid_ptr": turns(p)}, most=8),
    subject("gathers", zoo.sparse_times_rows, shapes("rows cols most width", (30_000, 30_000, 40, 128),
        (4000, 100_000, 200, 512)), ROWS,
        lambda p: {"start_ptr": ints(p["rows"] + 1), "col_ptr": ints(int(starts(p, "rows", "most")[-1])),
            "v_ptr": Tensor("float32", (int(starts(p, "rows", "most")[-1]),)),
            "x_ptr": Tensor("float16", (p["cols"], p["width"])),
            "y_ptr": Tensor("float16", (p["rows"], p["width"])), "width": p["width"]}, "rows, cdiv(width, BLOCK)",
        keep="elements(c, BLOCK, 16) and BLOCK <= width", values=sparse_values),
    subject("gathers", zoo.hash_grid, shapes("n slots levels growth", (1 << 18, 1 << 19, 16, 0.5),
        (1 << 20, 1 << 14, 8, 1.0)), LINE,
        "point: float32[n, 3]; table: float16[levels, slots, 2]; y: float16[n, levels, 2]; n slots growth",
        "cdiv(n, BLOCK), levels", constants="levels", most=8,
        values=lambda p: {"point_ptr": drawn(67).random((p["n"], 3)).astype(np.float32)}),
    subject("gathers", zoo.nf4, shapes("n each", (1 << 26, 64), (5_000_000, 128)), LINE,
        "code: uint8[n // 2]; table: float32[16]; scale: float32[cdiv(n, each)]; y: bfloat16[n]; n", line,
        constants="each"),
    subject("gathers", zoo.pixel_shuffle, shapes("images channels high wide times dtype",
        (4, 64, 180, 320, 2, "float16"), (16, 3, 128, 128, 4, "float32")), LINE,
        lambda p: {"x_ptr": Tensor(p["dtype"], (p["images"], p["channels"] * p["times"] ** 2, p["high"], p["wide"])),
            "y_ptr": Tensor(p["dtype"], (p["images"], p["channels"], p["high"] * p["times"],
                                         p["wide"] * p["times"])),
            **sizes(p, "high", "wide"), "n": shuffled(p)}, lambda p, c: (cdiv(shuffled(p), c["BLOCK"]),),
        constants="times"),
    subject("gathers", zoo.bucketise, shapes("n edges steps", (1 << 24, 255, 8), (4_000_000, 100_000, 17)), LINE,
        "x: float32[n]; edge: float32[edges]; y: int32[n]; n edges", line, constants="steps", most=16, tolerance=1e-6,
        values=lambda p: {"edge_ptr": np.sort(drawn(68).normal(0, 0.5, p["edges"])).astype(np.float32),
            "x_ptr": drawn(69).normal(0, 0.5, p["n"]).astype(np.float32)}),
    subject("gathers", zoo.roi_align, shapes("boxes channels high wide side", (512, 256, 50, 68, 7),
        (1000, 64, 200, 272, 14)), "BLOCK=128..2048 num_warps=1..8",
        "x: float32[channels, high, wide]; box: float32[boxes, 4]; y: float32[boxes, channels, side, side]; "
        "channels high wide", "boxes, cdiv(channels * side ** 2, BLOCK)", constants="side",
        values=lambda p: {"box_ptr": boxes(p)}, most=8),
    subject("gathers", zoo.shifted_windows, shapes("images high wide width shift side", (32, 56, 56, 96, 3, 7),
        (16, 32, 32, 768, 4, 8)), "BLOCK_T=1..64 BLOCK_C=32..256 num_warps=1..8",
        "x y: float16[images, high, wide, width]; high wide width shift",
        "cdiv(high * wide, BLOCK_T), cdiv(width, BLOCK_C), images", constants="side"),
]  # fmt: skip

LISTED: list[Subject] = [*WINDOWS, *ATOMICS, *GATHERS]
SUBJECTS = [replace(each, unseen=i % 2 == 1) for i, each in enumerate(LISTED)]
