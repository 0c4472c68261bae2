"""The twelve kernels of `kernels/triton_zoo_twelfth.py` as `zoo.py` measures them, two problems each. All were
predicted before they were timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_twelfth as zoo
from zoo_blind import LINES, args, of, picked
from zoo_edges import LINE, line, subject
from zoo_eleventh import over
from zoo_forms import drawn
from zoo_more import shapes
from zoo_subject import PIPE, TILE, Config, Problem, cdiv, per_thread, stages

from carver.compiled.binary import Tensor


def places(p: Problem) -> dict[str, Any]:
    """A sparse matrix whose rows lie one after another and whose columns lie near the diagonal, or anywhere."""
    row = np.sort(drawn(307).integers(0, p["rows"], p["n"]))
    away = drawn(311).integers(-p["apart"], p["apart"] + 1, p["n"])
    col = np.clip(row * p["cols"] // p["rows"] + away, 0, p["cols"] - 1)
    return {"row_ptr": row.astype(np.int32), "col_ptr": col.astype(np.int32)}


def graph(p: Problem) -> dict[str, Any]:
    draw = drawn(313)
    return {"next_ptr": draw.integers(0, p["nodes"], (p["nodes"], p["degree"]), dtype=np.int32),
            "start_ptr": draw.integers(0, p["nodes"], p["n"], dtype=np.int32)}  # fmt: skip


def flags(p: Problem) -> dict[str, Any]:
    return {"flag_ptr": (drawn(317).random((p["rows"], p["cols"])) < p["share"]).astype(np.int8)}


def product_args(p: Problem) -> dict[str, Any]:
    return {"dy_ptr": Tensor("bfloat16", (p["rows"], p["outs"])), "x_ptr": Tensor("bfloat16", (p["rows"], p["ins"])),
            "y_ptr": Tensor("bfloat16", (p["outs"], p["ins"])),
            "rows": p["rows"], "outs": p["outs"], "ins": p["ins"]}  # fmt: skip


def by_tile(m: str, n: str) -> Any:
    return lambda p, c: (cdiv(p[m], c["BLOCK_M"]), cdiv(p[n], c["BLOCK_N"]))


def fits(p: Problem, c: Config) -> bool:
    m, n, k = c["BLOCK_M"], c["BLOCK_N"], c["BLOCK_K"]
    return per_thread(c, m * n, 128) and m * n // c["num_warps"] >= 512 and stages(c, 2 * k * (m + n))


WALKS = {"BLOCK_T": (1, 2, 4, 8, 16, 32, 64), "num_warps": (1, 2, 4, 8)}
SUBJECTS = [
    subject("windows", zoo.peaks, shapes("high wide reach least", (2000, 3000, 1, 1.0), (1024, 1024, 4, 0.5)),
            {"BLOCK_R": (1, 2, 4, 8, 16), "BLOCK_C": (32, 64, 128, 256), "num_warps": (1, 2, 4, 8)},
            args("high wide reach least", x=of("float32", "high", "wide"), y=of("float32", "high", "wide")), over(),
            tolerance=0.0),
    subject("windows", zoo.undistort, shapes("high wide bend", (2160, 3840, 0.1), (1080, 1920, 0.35)),
            {"BLOCK_R": (1, 2, 4, 8, 16), "BLOCK_C": (32, 64, 128, 256), "num_warps": (1, 2, 4, 8)},
            args("high wide bend", x=of("uint8", "high", "wide", 3), y=of("uint8", "high", "wide", 3)), over()),
    subject("atomics", zoo.compact, shapes("n least", (1 << 25, 0.0), (5_000_000, 2.0)), LINE,
            args("n least", x=of("float32", "n"), y=of("float32", "n"), count=of("int32", 1)), line,
            output="y_ptr count_ptr", got=lambda p, c, t: (t["y_ptr"].double().sum().float()[None], t["count_ptr"])),
    subject("atomics", zoo.matvec_transposed, shapes("n rows cols apart", (1 << 23, 500_000, 500_000, 300),
                                                     (1 << 22, 200_000, 50_000, 50_000)), LINE,
            args("n", value=of("float32", "n"), row=of("int32", "n"), col=of("int32", "n"), x=of("float32", "rows"),
                 y=of("float32", "cols")), line, values=places),
    subject("atomics", zoo.bigrams, shapes("n words skew", (1 << 24, 256, 1.0), (1 << 23, 2000, 4.0)), LINE,
            args("n", word=of("int32", "n"), y=of("int32", "words", "words")), line,
            constants="words", tolerance=0.0,
            values=lambda p: {"word_ptr": picked(331, "words", "n", skew=p["skew"])(p)}),
    subject("gathers", zoo.reorder_beams, shapes("beams heads length filled width", (64, 8, 4096, 1500, 128),
                                                 (256, 16, 512, 300, 64)),
            {"BLOCK_T": (4, 8, 16, 32, 64, 128), "num_warps": (1, 2, 4, 8)},
            args("heads length filled", x=of("bfloat16", "beams", "heads", "length", "width"),
                 beam=of("int32", "beams"), y=of("bfloat16", "beams", "heads", "length", "width")),
            lambda p, c: (cdiv(p["filled"], c["BLOCK_T"]), p["beams"], p["heads"]),
            constants="width", tolerance=0.0,
            got=lambda p, c, t: t["y_ptr"][:, :, : p["filled"]],
            keep=lambda p, c: 4 <= c["BLOCK_T"] * p["width"] / c["num_warps"] / 32 <= 64,
            values=lambda p: {"beam_ptr": picked(337, "beams", "beams", skew=2.0)(p)}),
    subject("gathers", zoo.walk, shapes("n nodes degree steps", (1 << 20, 100_000, 8, 40), (1 << 18, 1 << 22, 16, 20)),
            LINES, args("n steps", next=of("int32", "nodes", "degree"), start=of("int32", "n"), y=of("int32", "n")),
            line, constants="degree", tolerance=0.0, values=graph),
    subject("rows", zoo.short_rows, shapes("rows width padded", (1 << 19, 128, 128), (300_000, 80, 128)),
            {"BLOCK_R": (1, 2, 4, 8, 16, 32, 64), "num_warps": (1, 2, 4, 8)},
            args("rows", x=of("bfloat16", "rows", "width"), w=of("bfloat16", "width"),
                 y=of("bfloat16", "rows", "width")),
            lambda p, c: (cdiv(p["rows"], c["BLOCK_R"]),), constants="width padded",
            keep=lambda p, c: 1 <= c["BLOCK_R"] * p["padded"] / c["num_warps"] / 32 <= 64),
    subject("products", zoo.gram, shapes("rows width", (16_384, 1024), (5000, 3000)), TILE | PIPE,
            args("rows width", x=of("float16", "rows", "width"), y=of("float32", "width", "width")),
            by_tile("width", "width"), keep=fits),
    subject("products", zoo.weight_gradient, shapes("rows outs ins", (8192, 4096, 1024), (30_000, 512, 768)),
            TILE | PIPE, product_args, by_tile("outs", "ins"), keep=fits),
    subject("scans", zoo.flagged_scan, shapes("rows cols share", (4096, 4096, 0.01), (512, 32_768, 0.2)),
            {"BLOCK_R": (1, 2, 4, 8), "BLOCK_C": (128, 256, 512, 1024, 2048), "num_warps": (1, 2, 4, 8)},
            args("cols", x=of("float32", "rows", "cols"), flag=of("int8", "rows", "cols"),
                 y=of("float32", "rows", "cols")), lambda p, c: (cdiv(p["rows"], c["BLOCK_R"]),),
            values=flags),
    subject("copies", zoo.split_heads, shapes("tokens heads width", (16_384, 32, 128), (50_000, 12, 64)), WALKS,
            args("tokens", x=of("bfloat16", "tokens", 3, "heads", "width"),
                 **dict.fromkeys("qkv", of("bfloat16", "heads", "tokens", "width"))),
            lambda p, c: (cdiv(p["tokens"], c["BLOCK_T"]), p["heads"]), output="q_ptr k_ptr v_ptr",
            constants="heads width", tolerance=0.0,
            keep=lambda p, c: 1 <= c["BLOCK_T"] * p["width"] / c["num_warps"] / 32 <= 64),
]  # fmt: skip
