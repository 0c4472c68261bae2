"""The twelve kernels of `kernels/triton_zoo_thirteenth.py` as `zoo.py` measures them, two problems each. All were
predicted before they were timed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from kernels import triton_zoo_thirteenth as zoo

from carver.compiled.binary import Tensor

from .blind import LINES, picked
from .edges import LINE, line
from .eleventh import over
from .forms import drawn, starts
from .subject import Problem, cdiv, shapes, subject
from .twelfth import fits


def begins(p: Problem) -> dict[str, Any]:
    def along(size: int, out: int) -> np.ndarray:
        middle = (np.arange(out) + 0.5) * size / out
        return np.clip(np.round(middle - p["taps"] / 2), 0, size - p["taps"]).astype(np.int32)

    return {"top_ptr": along(p["high"], p["out_high"]), "left_ptr": along(p["wide"], p["out_wide"])}


def particles(p: Problem) -> dict[str, Any]:
    """Anywhere in the box, or one cell's after another's."""
    place = (drawn(347).random((3, p["n"])) * p["side"]).astype(np.float32)
    place = np.minimum(place, np.float32(p["side"] - 0.01))
    if p["sorted"]:
        i, j, k = place.astype(np.int64)
        order = np.argsort((i * p["side"] + j) * p["side"] + k, kind="stable")
        place = np.ascontiguousarray(place[:, order])
    return {"place_ptr": place}


def edges(p: Problem) -> dict[str, Any]:
    """Any two nodes, or in order and near each other; components of some nodes each."""
    draw = drawn(349)
    a = draw.integers(0, p["nodes"], p["n"])
    a = np.sort(a) if p["apart"] else a
    away = draw.integers(-p["apart"], p["apart"] + 1, p["n"])
    b = np.clip(a + away, 0, p["nodes"] - 1) if p["apart"] else draw.integers(0, p["nodes"], p["n"])
    root = np.arange(p["nodes"]) // p["each"] * p["each"]
    return {"from_ptr": a.astype(np.int32), "to_ptr": b.astype(np.int32), "root_ptr": root.astype(np.int32)}


def slots(p: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Of each slot its token, experts one after another in whole 128 slots; of each 128 the expert."""
    draw = drawn(353)
    chosen = np.argsort(draw.random((p["tokens"], p["experts"])) ** p["skew"], 1)[:, : p["top"]]
    token, expert = list[np.ndarray](), list[int]()
    for e in range(p["experts"]):
        own = np.nonzero((chosen == e).any(1))[0]
        blocks = cdiv(len(own), 128)
        token.append(np.append(own, np.full(128 * blocks - len(own), p["tokens"])))
        expert += [e] * blocks
    return np.concatenate(token).astype(np.int32), np.array(expert, np.int32)


def expert_args(p: Problem) -> dict[str, Any]:
    token, expert = slots(p)
    n, inner, width = len(token), p["inner"], p["width"]
    return {"x_ptr": Tensor("bfloat16", (n, inner)), "w_ptr": Tensor("bfloat16", (p["experts"], inner, width)),
            "token_ptr": Tensor("int32", (n,)), "expert_ptr": Tensor("int32", (len(expert),)),
            "gate_ptr": Tensor("float32", (n,)), "y_ptr": Tensor("float32", (p["tokens"], width)),
            "tokens": p["tokens"], "width": width}  # fmt: skip


def bags(p: Problem) -> dict[str, Any]:
    start = starts(p, "bags", "most")
    return {"start_ptr": start, "id_ptr": (drawn(359).random(start[-1]) ** p["skew"] * p["rows"]).astype(np.int32)}


def bags_args(p: Problem) -> dict[str, Any]:
    n = int(starts(p, "bags", "most")[-1])
    return {"start_ptr": Tensor("int32", (p["bags"] + 1,)), "id_ptr": Tensor("int32", (n,)),
            "table_ptr": Tensor("int8", (p["rows"], p["width"])), "scale_ptr": Tensor("float32", (p["rows"],)),
            "y_ptr": Tensor("float32", (p["bags"], p["width"]))}  # fmt: skip


def turns(p: Problem) -> dict[str, Any]:
    angle = np.arange(p["angles"]) * math.pi / p["angles"]
    return {"cos_ptr": np.cos(angle).astype(np.float32), "sin_ptr": np.sin(angle).astype(np.float32)}


WIDE = {"BLOCK_R": (1, 2, 4, 8, 16), "BLOCK_C": (32, 64, 128, 256), "num_warps": (1, 2, 4, 8)}
SUBJECTS = [
    subject("windows", zoo.laplace_13, shapes("deep high wide", (256, 512, 512), (100, 300, 700)),
        "BLOCK_Z=1..4 BLOCK_R=1..8 BLOCK_C=32..256 num_warps=1..8", "x y: float32[deep, high, wide]; deep high wide",
        lambda p, c: (*over()(p, c), cdiv(p["deep"], c["BLOCK_Z"])), most=16),
    subject("windows", zoo.non_local_means, shapes("high wide reach strength", (1080, 1920, 2, 0.5),
        (600, 750, 4, 0.2)), WIDE,
        "x: float32[high + 2 * reach + 2, wide + 2 * reach + 2]; y: float32[high, wide]; high wide reach strength",
        over(), most=16),
    subject("windows", zoo.opening, shapes("high wide", (4320, 7680), (2000, 3000)), WIDE,
        "x y: uint8[high, wide]; high wide", over(), tolerance=0.0),
    subject("windows", zoo.resize_by_table, shapes("planes high wide out_high out_wide taps",
        (3, 2160, 3840, 1296, 2304, 8), (16, 500, 700, 1100, 1540, 4)), WIDE,
        "x: float16[planes, high, wide]; top: int32[out_high]; down: float32[out_high, taps]; left: int32[out_wide]; "
        "across: float32[out_wide, taps]; y: float16[planes, out_high, out_wide]; high wide out_high out_wide",
        "cdiv(out_wide, BLOCK_C), cdiv(out_high, BLOCK_R), planes", constants="taps", values=begins,
        most=16),
    subject("atomics", zoo.deposit, shapes("n side sorted", (1 << 21, 100, 1), (700_000, 256, 0)), LINES,
        "place: float32[3, n]; mass: float32[n]; y: float32[side ** 3]; n", line, constants="side",
        values=particles),
    subject("atomics", zoo.newest, shapes("n keys skew", (1 << 23, 1 << 20, 2.0), (3_000_000, 3000, 1.0)), LINE,
        "key time: int32[n]; y: int64[keys]; n", line, tolerance=0.0,
        values=lambda p: {"key_ptr": picked(367, "keys", "n", skew=p["skew"])(p)}),
    subject("atomics", zoo.hook, shapes("n nodes apart each", (1 << 22, 1_000_000, 0, 3), (5_000_000, 400_000, 50, 8)),
        LINE, "from to: int32[n]; root y: int32[nodes]; n", line, tolerance=0.0, values=edges),
    subject("atomics", zoo.expert_down, shapes("tokens experts top skew inner width", (4096, 8, 2, 1.0, 2048, 2048),
        (1500, 64, 8, 1.0, 512, 1500)), "BLOCK_M=32..128 BLOCK_N=64..256 BLOCK_K=32,64 num_warps=4,8 num_stages=2,3,4",
        expert_args, lambda p, c: (cdiv(p["width"], c["BLOCK_N"]), len(slots(p)[0]) // c["BLOCK_M"]),
        constants="inner", keep=fits, values=lambda p: dict(zip(("token_ptr", "expert_ptr"), slots(p), strict=True))),
    subject("gathers", zoo.quantised_bags, shapes("bags most rows width skew", (100_000, 30, 1_000_000, 128, 1.5),
        (4000, 500, 50_000, 256, 1.0)), "BLOCK_T=1..32 num_warps=1..8", bags_args, "bags",
        constants="width", keep="1 <= BLOCK_T * width / num_warps / 32 <= 64", values=bags),
    subject("gathers", zoo.chosen_attention, shapes("tokens heads width rows count scale",
        (1024, 16, 128, 100_000, 2048, 0.088), (300, 32, 256, 8000, 512, 0.0625)),
        "BLOCK_N=16..128 num_warps=1..8 num_stages=1,2,3",
        "q: bfloat16[tokens, heads, width]; x: bfloat16[rows, width]; chosen: int32[tokens, count]; "
        "y: bfloat16[tokens, heads, width]; scale", "tokens", constants="count heads width",
        keep="BLOCK_N * width / num_warps / 32 <= 128",
        values=lambda p: {"chosen_ptr": picked(373, "rows", "tokens", "count")(p)}),
    subject("gathers", zoo.forest, shapes("n trees features depth", (200_000, 50, 32, 6), (60_000, 120, 100, 8)), LINES,
        "x: float32[n, features]; feature: int32[trees, (1 << depth) - 1]; limit: float32[trees, (1 << depth) - 1]; "
        "leaf: float32[trees, 1 << depth]; y: float32[n]; n trees", line, constants="features depth",
        values=lambda p: {
            "feature_ptr": drawn(379).integers(0, p["features"], (p["trees"], (1 << p["depth"]) - 1), np.int32)}),
    subject("gathers", zoo.backproject, shapes("side angles detectors", (1024, 180, 1449), (500, 400, 520)), WIDE,
        "x: float32[angles, detectors]; cos sin: float32[angles]; y: float32[side, side]; side angles detectors",
        "cdiv(side, BLOCK_C), cdiv(side, BLOCK_R)", values=turns, most=16),
]  # fmt: skip
