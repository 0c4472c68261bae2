"""The seventeen kernels of `kernels/triton_zoo_tenth.py` as `zoo.py` measures them, two problems each. All were
predicted before they were timed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from kernels import triton_zoo_tenth as zoo
from zoo_blind import LINES, TOKENS, args, of, picked
from zoo_edges import LINE, TILE, ints, line, plane, subject
from zoo_eighth import by_tokens
from zoo_forms import drawn, starts
from zoo_more import shapes
from zoo_subject import Arrays, Problem, cdiv

from carver.compiled.binary import Tensor


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
            args("high wide", x=of("float16", "planes", "high", "wide"),
                 y=lambda p: Tensor("float16", (16, p["planes"], p["high"] // 2 * (p["wide"] // 2)))),
            lambda p, c: (cdiv(p["high"] // 2 * (p["wide"] // 2), c["BLOCK"]), p["planes"])),
    subject("windows", zoo.cost_volume, shapes("channels high wide most", (32, 270, 960, 48), (16, 500, 700, 24)),
            LINES, args("high wide", a=of("float16", "channels", "high", "wide"),
                        b=of("float16", "channels", "high", "wide"), y=of("float32", "most", "high", "wide")),
            lambda p, c: (cdiv(p["wide"], c["BLOCK"]), p["high"], p["most"]), constants="channels"),
    subject("windows", zoo.demosaic, shapes("high wide", (6000, 8000), (3001, 4500)), TILE,
            args("high wide", x=of("uint8", "high", "wide"), y=of("uint8", "high", "wide", 3)),
            lambda p, c: (cdiv(p["wide"], c["BLOCK_C"]), cdiv(p["high"], c["BLOCK_R"]))),
    subject("windows", zoo.enlarge_learned, shapes("images channels high wide", (8, 64, 96, 96), (3, 300, 50, 70)),
            TILE, args("channels high wide", x=of("float16", "images", "channels", "high", "wide"),
                       w=of("float32", "channels", 16),
                       y=lambda p: Tensor("float16", (p["images"], p["channels"], 2 * p["high"], 2 * p["wide"]))),
            lambda p, c: (cdiv(2 * p["wide"], c["BLOCK_C"]), cdiv(2 * p["high"], c["BLOCK_R"]),
                          p["images"] * p["channels"])),
    subject("atomics", zoo.sample_backward, shapes("high wide channels turn", (1024, 1024, 8, 0.2),
                                                   (700, 500, 30, 1.4)), LINE,
            lambda p: {**args("high wide", y=of("float32", "channels", "high", "wide"))(p),
                       "g_ptr": Tensor("float32", (p["channels"], p["high"] * p["wide"])), "n": p["high"] * p["wide"],
                       "u_ptr": Tensor("float32", (p["high"] * p["wide"],)),
                       "v_ptr": Tensor("float32", (p["high"] * p["wide"],))},
            lambda p, c: (cdiv(p["high"] * p["wide"], c["BLOCK"]),),
            constants="channels", values=turned),
    subject("atomics", zoo.rows_histogram, shapes("rows cols bins skew", (4096, 4096, 256, 1), (60_000, 500, 32, 2)),
            TILE, args("rows cols", x=of("uint8", "rows", "cols"),
                       y=lambda p: Tensor("int32", (p["rows"] * p["bins"],))), plane, constants="bins",
            tolerance=0.0, values=lambda p: {"x_ptr": picked(131, "bins", "rows", "cols", skew=p["skew"],
                                                             dtype=np.uint8)(p)}),
    subject("atomics", zoo.coo_rows, shapes("n rows cols width", (400_000, 30_000, 30_000, 64),
                                            (100_000, 2000, 50_000, 200)), TOKENS,
            args("n width", row=of("int32", "n"), col=of("int32", "n"), v=of("float32", "n"),
                 x=of("float16", "cols", "width"), y=of("float32", "rows", "width")),
            by_tokens("n", "width"), values=entries),
    subject("atomics", zoo.pool_gradient, shapes("planes side", (1024, 114), (8000, 58)), LINES,
            lambda p: {"g_ptr": Tensor("float16", (p["planes"], pooled(p))), "n": pooled(p), "size": p["side"] ** 2,
                       "at_ptr": Tensor("int32", (p["planes"], pooled(p))),
                       "y_ptr": Tensor("float32", (p["planes"], p["side"] ** 2))},
            lambda p, c: (cdiv(pooled(p), c["BLOCK"]), p["planes"]), values=largest_places),
    subject("gathers", zoo.spmm_rows, shapes("rows cols width most", (30_000, 30_000, 128, 40),
                                             (5000, 100_000, 300, 200)),
            {"BLOCK_T": (1, 2, 4, 8, 16, 32), "BLOCK_C": (32, 64, 128, 256), "num_warps": (1, 2, 4, 8)}, spmm_args,
            lambda p, c: (p["rows"], cdiv(p["width"], c["BLOCK_C"])), constants="width", values=sparse),
    subject("gathers", zoo.expand_runs, shapes("n runs steps", (1 << 25, 200_000, 18), (1 << 23, 1 << 21, 22)), LINE,
            args("n runs", end=of("int32", "runs"), value=of("float32", "runs"), y=of("float32", "n")), line,
            constants="steps", values=ends),
    subject("gathers", zoo.gathered_products, shapes("n taps width out share", (100_000, 27, 64, 64, 0.4),
                                                     (40_000, 9, 128, 256, 0.8)),
            {"BLOCK_M": (16, 32, 64, 128), "BLOCK_N": (32, 64, 128), "BLOCK_K": (32, 64), "num_warps": (2, 4, 8),
             "num_stages": (2, 3, 4)},
            args("n", x=of("float16", "n", "width"), at=of("int32", "taps", "n"),
                 w=lambda p: Tensor("float16", (p["taps"] * p["width"], p["out"])), y=of("float16", "n", "out")),
            lambda p, c: (cdiv(p["n"], c["BLOCK_M"]), cdiv(p["out"], c["BLOCK_N"])),
            constants="taps width out", values=near, keep=lambda p, c: c["BLOCK_N"] <= p["out"]
            and 8 <= c["BLOCK_M"] * c["BLOCK_N"] / c["num_warps"] / 32 <= 128),
    subject("gathers", zoo.fft_pass, shapes("signals n stride", (512, 16384, 64), (40, 262_144, 1)), LINES,
            args("n", re=of("float32", "signals", "n"), im=of("float32", "signals", "n"),
                 cos=lambda p: Tensor("float32", (3 * p["stride"],)),
                 sin=lambda p: Tensor("float32", (3 * p["stride"],)), y=of("float32", "signals", "n"),
                 z=of("float32", "signals", "n")),
            lambda p, c: (cdiv(p["n"] // 4, c["BLOCK"]), p["signals"]), constants="stride",
            output="y_ptr z_ptr", values=twiddles),
    subject("scans", zoo.recurrence, shapes("rows cols", (20_000, 1024), (3000, 4096)),
            {"BLOCK_R": (1, 2, 4, 8, 16), "BLOCK_C": (64, 128, 256, 512, 1024), "num_warps": (1, 2, 4, 8)},
            args("rows", a=of("float16", "rows", "cols"), b=of("float16", "rows", "cols"),
                 y=of("float32", "rows", "cols")), lambda p, c: (cdiv(p["rows"], c["BLOCK_R"]),),
            constants="cols"),
    subject("scans", zoo.runs_total, shapes("n each", (1 << 25, 4096), (4_096_000, 2048)),
            {"BLOCK": (128, 256, 512, 1024, 2048), "num_warps": (1, 2, 4, 8)},
            args("", flag=of("int8", "n"), x=of("float32", "n"), y=of("float32", "n")),
            lambda p, c: (p["n"] // p["each"],), constants="each",
            values=lambda p: {"flag_ptr": (drawn(137).random(p["n"]) < 0.02).astype(np.int8)}),
    subject("sorts", zoo.sort_rows, shapes("rows cols", (40_000, 256), (100_000, 64)), ROWS,
            args("rows", x=of("float32", "rows", "cols"), y=of("float32", "rows", "cols")),
            lambda p, c: (cdiv(p["rows"], c["BLOCK_R"]),), constants="cols",
            tolerance=0.0, keep=lambda p, c: 1 <= c["BLOCK_R"] * p["cols"] / c["num_warps"] / 32 <= 16),
    subject("rows", zoo.threshold_rows, shapes("rows cols top", (30_000, 1000, 50), (6000, 4000, 10)),
            {"BLOCK_R": (1, 2, 4, 8), "BLOCK": (1024, 4096), "num_warps": (1, 2, 4, 8, 16)},
            args("rows cols", x=of("float16", "rows", "cols"), y=of("float16", "rows", "cols")),
            lambda p, c: (cdiv(p["rows"], c["BLOCK_R"]),), constants="top", got=above,
            keep=lambda p, c: p["cols"] <= c["BLOCK"] < 2 * p["cols"]
            and 2 <= c["BLOCK_R"] * c["BLOCK"] / c["num_warps"] / 32 <= 64),
    subject("rows", zoo.lstm_cell, shapes("rows cols", (8192, 1024), (3000, 1500)), TILE,
            args("rows cols", g=lambda p: Tensor("float16", (p["rows"], 4 * p["cols"])),
                 c=of("float32", "rows", "cols"), y=of("float16", "rows", "cols"), z=of("float32", "rows", "cols")),
            plane, output="y_ptr z_ptr"),
]  # fmt: skip
