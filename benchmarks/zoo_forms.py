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
from zoo_edges import LINE, TILE, TOKENS, floats, image, ints, line, plane, subject
from zoo_more import elements, shapes
from zoo_subject import SMS, Problem, Subject, cdiv, per_thread, stages, tiles

from carver.compiled.binary import Tensor

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


def volume(p: Problem) -> dict[str, Any]:
    sizes = {n: p[n] for n in ("planes", "rows", "cols")}
    return {**floats("x_ptr", "y_ptr")("float32", *sizes.values()), **sizes}


def outside(p: Problem) -> dict[str, Any]:
    return {n: p[n] - p["side"] + 1 for n in ("high", "wide")}


def walks(p: Problem, c: Any) -> bool:
    return stages(c, 2 * (c["BLOCK_M"] + c["BLOCK_N"]) * c["BLOCK_K"], 2 * c["BLOCK_M"] * c["BLOCK_N"]) and per_thread(
        c, c["BLOCK_M"] * c["BLOCK_N"], 128
    )


OVERLAPS = [
    subject(
        "overlap", zoo.diffuse, shapes("rows cols dtype", (8192, 8192, "float32"), (4000, 12000, "float16")), TILE,
        image, plane,
    ),
    subject(
        "overlap", zoo.planes_walk, shapes("planes rows cols", (64, 1024, 2048), (200, 500, 1000)), TILE, volume,
        plane, most=8,
    ),
    subject(
        "overlap", zoo.im2col, shapes("images channels high wide side", (8, 64, 56, 56, 3), (16, 16, 100, 100, 5)),
        {"BLOCK_P": (4, 16, 32, 64, 128), "BLOCK_K": (16, 32, 64, 128), "num_warps": (2, 4, 8)},
        lambda p: {
            "x_ptr": Tensor("float16", (p["images"], p["channels"], p["high"], p["wide"])),
            "y_ptr": Tensor("float16", (p["images"], math.prod(outside(p).values()), p["channels"] * p["side"] ** 2)),
            "channels": p["channels"], "high": p["high"], "wide": p["wide"],
            **{f"out_{n}": size for n, size in outside(p).items()},
        },
        lambda p, c: (cdiv(math.prod(outside(p).values()), c["BLOCK_P"]),
                      cdiv(p["channels"] * p["side"] ** 2, c["BLOCK_K"]), p["images"]),
        constants="side",
    ),
    replace(
        subject(
            "overlap", zoo.rolling, shapes("series length window", (512, 16384, 20), (3000, 5000, 7)), LINE,
            lambda p: {**floats("x_ptr", "mean_ptr", "deviation_ptr")("float32", p["series"], p["length"]),
                       "length": p["length"], "window": p["window"]},
            lambda p, c: (cdiv(p["length"], c["BLOCK"]), p["series"]),
        ),
        outputs=("mean_ptr", "deviation_ptr"), got=lambda p, c, t: (t["mean_ptr"], t["deviation_ptr"]),
    ),
    subject(
        "overlap", zoo.conv1d_dense,
        shapes("batch length width out_width taps", (8, 4096, 256, 512, 5), (16, 1500, 768, 768, 3)), MATMUL,
        lambda p: {"x_ptr": Tensor("float16", (p["batch"], p["length"], p["width"])),
                   "w_ptr": Tensor("float16", (p["taps"], p["width"], p["out_width"])),
                   "y_ptr": Tensor("float16", (p["batch"], p["length"], p["out_width"])),
                   "length": p["length"], "width": p["width"], "out_width": p["out_width"]},
        lambda p, c: (cdiv(p["length"], c["BLOCK_M"]), p["out_width"] // c["BLOCK_N"], p["batch"]),
        constants="taps", keep=walks,
    ),
    subject(
        "overlap", zoo.near_attention, shapes("heads length window width", (64, 8192, 16, 64), (128, 3000, 9, 128)),
        {"BLOCK": (4, 8, 16, 32, 64), "num_warps": (1, 2, 4, 8)},
        lambda p: {**floats("q_ptr", "k_ptr", "v_ptr", "y_ptr")("float16", p["heads"], p["length"], p["width"]),
                   "length": p["length"]},
        lambda p, c: (cdiv(p["length"], c["BLOCK"]), p["heads"]), constants="window width",
        keep=lambda p, c: elements(c, c["BLOCK"] * p["width"], 32),
    ),
]  # fmt: skip

ATOMICS = [
    subject(
        "atomics", zoo.histogram_held, shapes("n bins parts", (1 << 25, 256, 8), (30_000_000, 2048, 16)),
        {"BLOCK": (512, 1024, 2048, 4096), "num_warps": (2, 4, 8)},
        lambda p: {"key_ptr": ints(p["n"]), "count_ptr": ints(p["bins"]), "n": p["n"]},
        lambda p, c: (cdiv(p["n"], c["BLOCK"] * p["parts"]),), constants="bins parts",
        output="count_ptr", tolerance=0.0, keep=lambda p, c: elements(c, max(c["BLOCK"], p["bins"]), 64),
    ),
    subject(
        "atomics", zoo.sparse_sorted, shapes("n rows cols", (1 << 23, 1 << 19, 1 << 20), (1 << 22, 4000, 1 << 14)),
        LINE,
        lambda p: {"v_ptr": Tensor("float32", (p["n"],)), "row_ptr": ints(p["n"]), "col_ptr": ints(p["n"]),
                   "x_ptr": Tensor("float32", (p["cols"],)), "y_ptr": Tensor("float32", (p["rows"],)), "n": p["n"],
                   "cols": p["cols"]},
        line,
        values=lambda p: {"row_ptr": np.sort(drawn(32).integers(0, p["rows"], p["n"])).astype(np.int32)},
    ),
    subject(
        "atomics", zoo.embed_backward, shapes("tokens words width", (16384, 32000, 1024), (8192, 100_000, 2048)),
        TOKENS,
        lambda p: {"g_ptr": Tensor("float16", (p["tokens"], p["width"])), "word_ptr": ints(p["tokens"]),
                   "y_ptr": Tensor("float16", (p["words"], p["width"])), "tokens": p["tokens"], "width": p["width"]},
        lambda p, c: (cdiv(p["width"], c["BLOCK_C"]), cdiv(p["tokens"], c["BLOCK_T"])), tolerance=0.05,
        values=lambda p: {"word_ptr": (drawn(33).random(p["tokens"]) ** 3 * p["words"]).astype(np.int32)},
    ),
    replace(
        subject(
            "atomics", zoo.route, shapes("tokens experts", (1 << 18, 64), (1 << 17, 256)),
            {"BLOCK": (4, 8, 16, 32, 64, 128), "num_warps": (1, 2, 4, 8)},
            lambda p: {"score_ptr": Tensor("float32", (p["tokens"], p["experts"])),
                       "weight_ptr": Tensor("float32", (p["tokens"], 2)), "place_ptr": ints(2 * p["tokens"]),
                       "count_ptr": ints(p["experts"]), "tokens": p["tokens"]},
            lambda p, c: (cdiv(p["tokens"], c["BLOCK"]),), constants="experts",
            keep=lambda p, c: elements(c, c["BLOCK"] * p["experts"], 64),
        ),
        outputs=("weight_ptr", "place_ptr", "count_ptr"), got=lambda p, c, t: (t["weight_ptr"], t["count_ptr"]),
    ),
    subject(
        "atomics", zoo.segment_rows, shapes("rows width groups each", (1 << 18, 256, 10_000, 32),
                                            (1 << 15, 2048, 1000, 16)),
        {"BLOCK": (64, 128, 256, 512, 1024), "num_warps": (1, 2, 4, 8)},
        lambda p: {"x_ptr": Tensor("float16", (p["rows"], p["width"])), "group_ptr": ints(p["rows"]),
                   "y_ptr": Tensor("float32", (p["groups"], p["width"])), "rows": p["rows"], "width": p["width"]},
        lambda p, c: (cdiv(p["rows"], p["each"]), cdiv(p["width"], c["BLOCK"])), constants="each",
        values=lambda p: {"group_ptr": np.sort(drawn(34).integers(0, p["groups"], p["rows"])).astype(np.int32)},
        keep=lambda p, c: elements(c, c["BLOCK"], 16) and c["BLOCK"] <= p["width"],
    ),
]  # fmt: skip

GATHERS = [
    subject(
        "gathers", zoo.warp_image, shapes("channels high wide bend", (3, 2160, 3840, 12.0), (64, 512, 640, 40.0)),
        LINE,
        lambda p: {**floats("x_ptr", "y_ptr")("float32", p["channels"], p["high"], p["wide"]),
                   "v_ptr": Tensor("int32", (p["high"], p["wide"])), "u_ptr": Tensor("int32", (p["high"], p["wide"])),
                   "channels": p["channels"], "high": p["high"], "wide": p["wide"]},
        lambda p, c: (cdiv(p["high"] * p["wide"], c["BLOCK"]),), values=bent, most=16,
    ),
    subject(
        "gathers", zoo.two_levels, shapes("n slots places", (1 << 23, 1 << 16, 1 << 25), (1 << 22, 1 << 24, 1 << 22)),
        LINE,
        lambda p: {"x_ptr": Tensor("float32", (p["places"],)), "table_ptr": ints(p["slots"]),
                   "key_ptr": ints(p["n"]), "y_ptr": Tensor("float32", (p["n"],)), "n": p["n"], "slots": p["slots"],
                   "places": p["places"]},
        line,
    ),
    subject(
        "gathers", zoo.sparse_csr, shapes("rows most cols", (1 << 16, 300, 1 << 18), (10_000, 4000, 1 << 22)),
        {"BLOCK": (32, 64, 128, 256, 512, 1024), "num_warps": (1, 2, 4)}, csr_args, lambda p, c: (p["rows"],),
        values=lambda p: {"start_ptr": starts(p, "rows", "most")}, most=16,
    ),
    subject(
        "gathers", zoo.rope_at, shapes("tokens heads dim places", (16384, 32, 128, 1 << 15), (40_000, 20, 64, 1 << 12)),
        {"BLOCK_H": (1, 2, 4, 8, 16, 32), "num_warps": (1, 2, 4, 8)},
        lambda p: {**floats("x_ptr", "y_ptr")("float16", p["tokens"], p["heads"], p["dim"]),
                   "position_ptr": ints(p["tokens"]), "angle_ptr": Tensor("float32", (p["places"], p["dim"])),
                   "heads": p["heads"]},
        lambda p, c: (p["tokens"], cdiv(p["heads"], c["BLOCK_H"])), constants="dim",
        values=lambda p: {"position_ptr": drawn(35).integers(0, p["places"], p["tokens"]).astype(np.int32)},
        keep=lambda p, c: elements(c, c["BLOCK_H"] * p["dim"] // 2, 32),
    ),
    subject(
        "gathers", zoo.combine, shapes("tokens width each", (8192, 4096, 4), (16384, 1536, 8)),
        {"BLOCK": (128, 256, 512, 1024, 2048, 4096), "num_warps": (1, 2, 4, 8)},
        lambda p: {"x_ptr": Tensor("float16", (p["tokens"] * p["each"], p["width"])),
                   "place_ptr": Tensor("int32", (p["tokens"], p["each"])),
                   "weight_ptr": Tensor("float32", (p["tokens"], p["each"])),
                   "y_ptr": Tensor("float16", (p["tokens"], p["width"])), "width": p["width"]},
        lambda p, c: (p["tokens"], cdiv(p["width"], c["BLOCK"])), constants="each",
        values=lambda p: {"place_ptr": drawn(36).permutation(p["tokens"] * p["each"]).astype(np.int32)
                          .reshape(p["tokens"], p["each"])},
    ),
    subject(
        "gathers", zoo.pad_jagged, shapes("batch most width", (64, 2048, 512), (2000, 100, 300)), TOKENS,
        lambda p: {"x_ptr": Tensor("float16", (int(starts(p, "batch", "most")[-1]), p["width"])),
                   "start_ptr": ints(p["batch"] + 1), "y_ptr": Tensor("float16", (p["batch"], p["most"], p["width"])),
                   "most": p["most"], "width": p["width"]},
        lambda p, c: (cdiv(p["most"], c["BLOCK_T"]), cdiv(p["width"], c["BLOCK_C"]), p["batch"]),
        values=lambda p: {"start_ptr": starts(p, "batch", "most")},
    ),
]  # fmt: skip

SPILLS = [
    subject(
        "spills", zoo.three_matmuls, shapes("M N K", (4096, 2048, 1024), (1000, 1024, 4096)),
        {"BLOCK_M": (64, 128), "BLOCK_N": (64, 128), "BLOCK_K": (32, 64), "num_warps": (4, 8), "num_stages": (2, 3)},
        lambda p: {"a_ptr": Tensor("float16", (p["M"], p["K"])),
                   **{n: Tensor("float16", (p["K"], p["N"])) for n in ("q_ptr", "k_ptr", "v_ptr")},
                   "y_ptr": Tensor("float16", (p["M"], 3 * p["N"])), **{n: p[n] for n in "MNK"}},
        lambda p, c: (cdiv(p["M"], c["BLOCK_M"]), p["N"] // c["BLOCK_N"]),
        keep=lambda p, c: stages(c, 2 * (c["BLOCK_M"] + 3 * c["BLOCK_N"]) * c["BLOCK_K"]),
    ),
    subject(
        "spills", zoo.standard_score, shapes("rows cols", (4096, 16384), (1000, 50_000)), ROW,
        lambda p: {**floats("x_ptr", "y_ptr")("float16", p["rows"], p["cols"]),
                   "g_ptr": Tensor("float16", (p["cols"],)), "cols": p["cols"],
                   "BLOCK": 1 << (p["cols"] - 1).bit_length()},
        lambda p, c: (p["rows"],),
        keep=lambda p, c: (1 << (p["cols"] - 1).bit_length()) // 32 // c["num_warps"] <= 256,
    ),
    subject(
        "spills", zoo.distances, shapes("M N K", (4096, 4096, 128), (2048, 8192, 64)),
        {"BLOCK_M": (32, 64, 128), "BLOCK_N": (64, 128, 256), "BLOCK_K": (4, 16), "num_warps": (2, 4, 8)},
        lambda p: {"x_ptr": Tensor("float32", (p["K"], p["M"])), "y_ptr": Tensor("float32", (p["K"], p["N"])),
                   "out_ptr": Tensor("float32", (p["M"], p["N"])), **{n: p[n] for n in "MNK"}},
        lambda p, c: (p["M"] // c["BLOCK_M"], p["N"] // c["BLOCK_N"]), output="out_ptr",
        keep=lambda p, c: 16 <= c["BLOCK_M"] * c["BLOCK_N"] / (32 * c["num_warps"]) <= 256,
    ),
    subject(
        "spills", zoo.wide_attention, shapes("heads length scale width", (32, 2048, 0.1, 128), (16, 2048, 0.06, 256)),
        {"BLOCK_M": (64, 128), "BLOCK_N": (32, 64, 128), "num_warps": (4, 8), "num_stages": (1, 2, 3)},
        lambda p: {**floats("q_ptr", "k_ptr", "v_ptr", "y_ptr")("float16", p["heads"], p["length"], p["width"]),
                   "length": p["length"], "scale": p["scale"]},
        lambda p, c: (p["length"] // c["BLOCK_M"], p["heads"]), constants="width",
        keep=lambda p, c: stages(c, 4 * c["BLOCK_N"] * p["width"], 2 * c["BLOCK_M"] * p["width"]),
    ),
]  # fmt: skip

PERSISTENT = [
    subject(
        "persistent", zoo.matmul_one_loop,
        shapes("M N K flatten", (4096, 4096, 1024, True), (3000, 5120, 2048, False)), MATMUL,
        lambda p: {"a_ptr": Tensor("float16", (p["M"], p["K"])), "b_ptr": Tensor("float16", (p["N"], p["K"])),
                   "bias_ptr": Tensor("float32", (p["N"],)), "c_ptr": Tensor("float16", (p["M"], p["N"])),
                   **{n: p[n] for n in "MNK"}},
        lambda p, c: (min(SMS, tiles(p, c)),),
        constants="flatten", output="c_ptr", keep=walks,
    ),
    subject(
        "persistent", zoo.batched_walk, shapes("batch M N K", (16, 1024, 1024, 512), (64, 256, 2048, 256)), MATMUL,
        lambda p: {"a_ptr": Tensor("float16", (p["batch"], p["M"], p["K"])),
                   "b_ptr": Tensor("float16", (p["batch"], p["K"], p["N"])),
                   "c_ptr": Tensor("float16", (p["batch"], p["M"], p["N"])), **{n: p[n] for n in ("batch", *"MNK")}},
        lambda p, c: (min(SMS, p["batch"] * tiles(p, c)),),
        output="c_ptr", keep=walks,
    ),
    subject(
        "persistent", zoo.rows_in_turn, shapes("rows cols dtype", (32768, 2048, "float16"), (20_000, 5000, "float32")),
        {"PROGRAMS": (1, 2, 4, 8), "num_warps": (2, 4, 8, 16), "num_stages": (1, 2, 3)},
        lambda p: {**floats("x_ptr", "r_ptr", "y_ptr")(p["dtype"], p["rows"], p["cols"]), "rows": p["rows"],
                   "cols": p["cols"], "BLOCK": 1 << (p["cols"] - 1).bit_length()},
        lambda p, c: (SMS * c["PROGRAMS"],),
        keep=lambda p, c: True,
    ),
]  # fmt: skip

ROWS = [
    subject(
        "rows", zoo.transposed_tile, shapes("rows cols dtype", (8000, 6000, "float32"), (4096, 16384, "float16")),
        {"BLOCK_R": (16, 32, 64, 128), "BLOCK_C": (16, 32, 64, 128), "num_warps": (1, 2, 4, 8)},
        lambda p: {"x_ptr": Tensor(p["dtype"], (p["rows"], p["cols"] + 7)),
                   "y_ptr": Tensor(p["dtype"], (p["cols"], p["rows"] + 5)), "rows": p["rows"], "cols": p["cols"],
                   "stride_x": p["cols"] + 7, "stride_y": p["rows"] + 5},
        plane,
    ),
    subject(
        "rows", zoo.complex_product, shapes("n dtype", (1 << 25, "float32"), (1 << 25, "float16")), LINE,
        lambda p: {**floats("a_ptr", "b_ptr", "y_ptr")(p["dtype"], p["n"], 2), "n": p["n"]}, line,
    ),
    subject(
        "rows", zoo.softmax_columns, shapes("rows cols dtype", (2048, 32768, "float16"), (1000, 20_000, "float32")),
        {"BLOCK_R": (8, 16, 32, 64, 128), "BLOCK_C": (16, 32, 64, 128), "num_warps": (2, 4, 8)},
        lambda p: {**floats("x_ptr", "y_ptr")(p["dtype"], p["rows"], p["cols"]), "rows": p["rows"],
                   "cols": p["cols"]},
        lambda p, c: (cdiv(p["cols"], c["BLOCK_C"]),),
    ),
    subject(
        "rows", zoo.softmax_jagged, shapes("segments most", (20_000, 5000), (4000, 30_000)),
        {"BLOCK": (128, 256, 512, 1024, 2048, 4096), "num_warps": (1, 2, 4, 8)},
        lambda p: {**floats("x_ptr", "y_ptr")("float32", int(starts(p, "segments", "most")[-1])),
                   "start_ptr": ints(p["segments"] + 1)},
        lambda p, c: (p["segments"],), values=lambda p: {"start_ptr": starts(p, "segments", "most")},
    ),
    subject(
        "rows", zoo.every_third, shapes("n step dtype", (1 << 25, 3, "float16"), (1 << 24, 4, "bfloat16")), LINE,
        lambda p: {"x_ptr": Tensor(p["dtype"], (p["n"], p["step"])), "y_ptr": Tensor(p["dtype"], (p["n"],)),
                   "n": p["n"]},
        line, constants="step",
    ),
    replace(
        subject(
            "rows", zoo.middle_max, shapes("outer middle inner", (64, 1000, 1024), (2000, 64, 300)),
            {"BLOCK_M": (4, 8, 16, 32, 64), "BLOCK_C": (32, 64, 128, 256), "num_warps": (1, 2, 4, 8)},
            lambda p: {"x_ptr": Tensor("float32", (p["outer"], p["middle"], p["inner"])),
                       "y_ptr": Tensor("float32", (p["outer"], p["inner"])),
                       "i_ptr": ints(p["outer"] * p["inner"]), "middle": p["middle"], "inner": p["inner"]},
            lambda p, c: (cdiv(p["inner"], c["BLOCK_C"]), p["outer"]),
        ),
        outputs=("y_ptr", "i_ptr"),
        got=lambda p, c, t: (t["y_ptr"], t["i_ptr"].reshape(p["outer"], p["inner"])),
    ),
    subject(
        "rows", zoo.running_sum, shapes("rows cols", (8192, 8192), (20_000, 3000)),
        {"BLOCK": (128, 256, 512, 1024, 2048, 4096), "num_warps": (1, 2, 4, 8)},
        lambda p: {**floats("x_ptr", "y_ptr")("float32", p["rows"], p["cols"]), "cols": p["cols"]},
        lambda p, c: (p["rows"],),
    ),
]  # fmt: skip

LISTED: list[Subject] = [*OVERLAPS, *ATOMICS, *GATHERS, *SPILLS, *PERSISTENT, *ROWS]
SUBJECTS = [replace(each, unseen=i % 2 == 1) for i, each in enumerate(LISTED)]
