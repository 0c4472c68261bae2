"""The seventeen kernels of `kernels/triton_zoo_tenth.py` as `zoo.py` measures them, two problems each. All were
predicted before they were timed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from kernels import triton_zoo_tenth as zoo

from carver.compiled.binary import Tensor

from .blind import LINES, TOKENS, picked
from .edges import LINE, TILE, ints, line, plane
from .eighth import by_tokens
from .forms import drawn, starts
from .subject import Arrays, Problem, cdiv, shapes, subject


def turned(p: Problem) -> dict[str, Any]:
    """Where each pixel of a turned image lies in the other, within its edges."""
    r, c = np.mgrid[: p["high"], : p["wide"]].astype(np.float64)
    u = (c - p["wide"] / 2) * math.cos(p["turn"]) - (r - p["high"] / 2) * math.sin(p["turn"]) + p["wide"] / 2
    v = (c - p["wide"] / 2) * math.sin(p["turn"]) + (r - p["high"] / 2) * math.cos(p["turn"]) + p["high"] / 2
    inside = (np.clip(u, 0, p["wide"] - 1.01), np.clip(v, 0, p["high"] - 1.01))
    return {n: x.astype(np.float32).ravel() for n, x in zip(("u_ptr", "v_ptr"), inside, strict=True)}


def entries(p: Problem) -> dict[str, Any]:
    return {"row_ptr": np.sort(picked(101, "rows", "n", skew=1.5)(p)), "col_ptr": picked(103, "cols", "n")(p)}


def largest_places(p: Problem) -> dict[str, Any]:
    """One of the nine pixels of each window of 3 x 3 that are 2 apart."""
    half = p["side"] // 2 - 1
    r, c = np.divmod(np.arange(half * half), half)
    which = drawn(107).integers(0, 9, (p["planes"], half * half))
    return {"at_ptr": ((2 * r + which // 3) * p["side"] + 2 * c + which % 3).astype(np.int32)}


def pooled(p: Problem) -> int:
    return (p["side"] // 2 - 1) ** 2


def sparse(p: Problem) -> dict[str, Any]:
    start = starts(p, "rows", "most")
    return {"start_ptr": start, "col_ptr": drawn(109).integers(0, p["cols"], start[-1], dtype=np.int32)}


def spmm_args(p: Problem) -> dict[str, Any]:
    n = int(starts(p, "rows", "most")[-1])
    return {"start_ptr": ints(p["rows"] + 1), "col_ptr": ints(n), "v_ptr": Tensor("float32", (n,)),
            "x_ptr": Tensor("float16", (p["cols"], p["width"])),
            "y_ptr": Tensor("float32", (p["rows"], p["width"]))}  # fmt: skip


def ends(p: Problem) -> dict[str, Any]:
    cuts = np.sort(drawn(113).choice(np.arange(1, p["n"]), p["runs"] - 1, replace=False))
    return {"end_ptr": np.append(cuts, p["n"]).astype(np.int32)}


def near(p: Problem) -> dict[str, Any]:
    """Of each tap a point not far away, or none."""
    draw = drawn(127)
    at = np.arange(p["n"]) + draw.integers(-400, 401, (p["taps"], p["n"]))
    gone = (draw.random(at.shape) > p["share"]) | (at < 0) | (at >= p["n"])
    return {"at_ptr": np.where(gone, -1, at).astype(np.int32)}


def twiddles(p: Problem) -> dict[str, Any]:
    angle = -2 * np.pi * np.arange(3 * p["stride"]) / (4 * p["stride"])
    return {"cos_ptr": np.cos(angle).astype(np.float32), "sin_ptr": np.sin(angle).astype(np.float32)}


def above(p: Problem, c: Any, t: Arrays) -> Any:
    """Without what lies within the last halving of the limit."""
    import torch

    x = t["x_ptr"].float()
    limit = x.topk(p["top"], 1).values[:, -1:]
    return torch.where((x - limit).abs() < 1e-3, torch.where(x >= limit, x, 0.0), t["y_ptr"].float())


ROWS = {"BLOCK_R": (1, 2, 4, 8, 16), "num_warps": (1, 2, 4, 8)}
SUBJECTS = [
    subject("windows", zoo.winograd_input, shapes("planes high wide", (2048, 112, 112), (20_000, 28, 28)), LINES,
        "x: float16[planes, high, wide]; y: float16[16, planes, high // 2 * (wide // 2)]; high wide",
        "cdiv(high // 2 * (wide // 2), BLOCK), planes"),
    subject("windows", zoo.cost_volume, shapes("channels high wide most", (32, 270, 960, 48), (16, 500, 700, 24)),
        LINES, "a b: float16[channels, high, wide]; y: float32[most, high, wide]; high wide",
        "cdiv(wide, BLOCK), high, most", constants="channels"),
    subject("windows", zoo.demosaic, shapes("high wide", (6000, 8000), (3001, 4500)), TILE,
        "x: uint8[high, wide]; y: uint8[high, wide, 3]; high wide", "cdiv(wide, BLOCK_C), cdiv(high, BLOCK_R)"),
    subject("windows", zoo.enlarge_learned, shapes("images channels high wide", (8, 64, 96, 96), (3, 300, 50, 70)),
        TILE,
        "x: float16[images, channels, high, wide]; w: float32[channels, 16]; "
        "y: float16[images, channels, 2 * high, 2 * wide]; channels high wide",
        "cdiv(2 * wide, BLOCK_C), cdiv(2 * high, BLOCK_R), images * channels"),
    subject("atomics", zoo.sample_backward, shapes("high wide channels turn", (1024, 1024, 8, 0.2),
        (700, 500, 30, 1.4)), LINE,
        "y: float32[channels, high, wide]; high wide; g: float32[channels, high * wide]; n = high * wide; "
        "u v: float32[high * wide]", "cdiv(high * wide, BLOCK)", constants="channels", values=turned),
    subject("atomics", zoo.rows_histogram, shapes("rows cols bins skew", (4096, 4096, 256, 1), (60_000, 500, 32, 2)),
        TILE, "x: uint8[rows, cols]; y: int32[rows * bins]; rows cols", plane, constants="bins", tolerance=0.0,
        values=lambda p: {"x_ptr": picked(131, "bins", "rows", "cols", skew=p["skew"], dtype=np.uint8)(p)}),
    subject("atomics", zoo.coo_rows, shapes("n rows cols width", (400_000, 30_000, 30_000, 64),
        (100_000, 2000, 50_000, 200)), TOKENS,
        "row col: int32[n]; v: float32[n]; x: float16[cols, width]; y: float32[rows, width]; n width",
        by_tokens("n", "width"), values=entries),
    subject("atomics", zoo.pool_gradient, shapes("planes side", (1024, 114), (8000, 58)), LINES,
        lambda p: {"g_ptr": Tensor("float16", (p["planes"], pooled(p))), "n": pooled(p), "size": p["side"] ** 2,
            "at_ptr": Tensor("int32", (p["planes"], pooled(p))),
            "y_ptr": Tensor("float32", (p["planes"], p["side"] ** 2))},
        lambda p, c: (cdiv(pooled(p), c["BLOCK"]), p["planes"]), values=largest_places),
    subject("gathers", zoo.spmm_rows, shapes("rows cols width most", (30_000, 30_000, 128, 40),
        (5000, 100_000, 300, 200)), "BLOCK_T=1..32 BLOCK_C=32..256 num_warps=1..8", spmm_args,
        "rows, cdiv(width, BLOCK_C)", constants="width", values=sparse),
    subject("gathers", zoo.expand_runs, shapes("n runs steps", (1 << 25, 200_000, 18), (1 << 23, 1 << 21, 22)), LINE,
        "end: int32[runs]; value: float32[runs]; y: float32[n]; n runs", line, constants="steps", values=ends),
    subject("gathers", zoo.gathered_products, shapes("n taps width out share", (100_000, 27, 64, 64, 0.4),
        (40_000, 9, 128, 256, 0.8)), "BLOCK_M=16..128 BLOCK_N=32..128 BLOCK_K=32,64 num_warps=2..8 num_stages=2,3,4",
        "x: float16[n, width]; at: int32[taps, n]; w: float16[taps * width, out]; y: float16[n, out]; n",
        "cdiv(n, BLOCK_M), cdiv(out, BLOCK_N)", constants="taps width out",
        keep="BLOCK_N <= out and 8 <= BLOCK_M * BLOCK_N / num_warps / 32 <= 128", values=near),
    subject("gathers", zoo.fft_pass, shapes("signals n stride", (512, 16384, 64), (40, 262_144, 1)), LINES,
        "re im: float32[signals, n]; cos sin: float32[3 * stride]; y z: float32[signals, n]; n",
        "cdiv(n // 4, BLOCK), signals", constants="stride", output="y_ptr z_ptr", values=twiddles),
    subject("scans", zoo.recurrence, shapes("rows cols", (20_000, 1024), (3000, 4096)),
        "BLOCK_R=1..16 BLOCK_C=64..1024 num_warps=1..8", "a b: float16[rows, cols]; y: float32[rows, cols]; rows",
        "cdiv(rows, BLOCK_R)", constants="cols"),
    subject("scans", zoo.runs_total, shapes("n each", (1 << 25, 4096), (4_096_000, 2048)),
        "BLOCK=128..2048 num_warps=1..8", "flag: int8[n]; x y: float32[n]", "n // each", constants="each",
        values=lambda p: {"flag_ptr": (drawn(137).random(p["n"]) < 0.02).astype(np.int8)}),
    subject("sorts", zoo.sort_rows, shapes("rows cols", (40_000, 256), (100_000, 64)), ROWS,
        "x y: float32[rows, cols]; rows", "cdiv(rows, BLOCK_R)", constants="cols",
        keep="1 <= BLOCK_R * cols / num_warps / 32 <= 16", tolerance=0.0),
    subject("rows", zoo.threshold_rows, shapes("rows cols top", (30_000, 1000, 50), (6000, 4000, 10)),
        "BLOCK_R=1..8 BLOCK=1024,4096 num_warps=1..16", "x y: float16[rows, cols]; rows cols", "cdiv(rows, BLOCK_R)",
        constants="top", got=above, keep="cols <= BLOCK < 2 * cols and 2 <= BLOCK_R * BLOCK / num_warps / 32 <= 64"),
    subject("rows", zoo.lstm_cell, shapes("rows cols", (8192, 1024), (3000, 1500)), TILE,
        "g: float16[rows, 4 * cols]; c: float32[rows, cols]; y: float16[rows, cols]; z: float32[rows, cols]; rows cols",
        plane, output="y_ptr z_ptr"),
]  # fmt: skip
