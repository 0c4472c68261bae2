"""The twelve kernels of `kernels/triton_zoo_twelfth.py` as `zoo.py` measures them, two problems each. All were
predicted before they were timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_twelfth as zoo

from .blind import LINES, picked
from .edges import LINE, line
from .eleventh import over
from .forms import drawn
from .subject import PIPE, TILE, Config, Problem, cdiv, per_thread, shapes, stages, subject


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


def by_tile(m: str, n: str) -> Any:
    return lambda p, c: (cdiv(p[m], c["BLOCK_M"]), cdiv(p[n], c["BLOCK_N"]))


def fits(p: Problem, c: Config) -> bool:
    m, n, k = c["BLOCK_M"], c["BLOCK_N"], c["BLOCK_K"]
    return per_thread(c, m * n, 128) and m * n // c["num_warps"] >= 512 and stages(c, 2 * k * (m + n))


WALKS = {"BLOCK_T": (1, 2, 4, 8, 16, 32, 64), "num_warps": (1, 2, 4, 8)}
SUBJECTS = [
    subject("windows", zoo.peaks, shapes("high wide reach least", (2000, 3000, 1, 1.0), (1024, 1024, 4, 0.5)),
        "BLOCK_R=1..16 BLOCK_C=32..256 num_warps=1..8", "x y: float32[high, wide]; high wide reach least", over(),
        tolerance=0.0),
    subject("windows", zoo.undistort, shapes("high wide bend", (2160, 3840, 0.1), (1080, 1920, 0.35)),
        "BLOCK_R=1..16 BLOCK_C=32..256 num_warps=1..8", "x y: uint8[high, wide, 3]; high wide bend", over()),
    subject("atomics", zoo.compact, shapes("n least", (1 << 25, 0.0), (5_000_000, 2.0)), LINE,
        "x y: float32[n]; count: int32[1]; n least", line, output="y_ptr count_ptr",
        got=lambda p, c, t: (t["y_ptr"].double().sum().float()[None], t["count_ptr"])),
    subject("atomics", zoo.matvec_transposed, shapes("n rows cols apart", (1 << 23, 500_000, 500_000, 300),
        (1 << 22, 200_000, 50_000, 50_000)), LINE,
        "value: float32[n]; row col: int32[n]; x: float32[rows]; y: float32[cols]; n", line, values=places),
    subject("atomics", zoo.bigrams, shapes("n words skew", (1 << 24, 256, 1.0), (1 << 23, 2000, 4.0)), LINE,
        "word: int32[n]; y: int32[words, words]; n", line, constants="words", tolerance=0.0,
        values=lambda p: {"word_ptr": picked(331, "words", "n", skew=p["skew"])(p)}),
    subject("gathers", zoo.reorder_beams, shapes("beams heads length filled width", (64, 8, 4096, 1500, 128),
        (256, 16, 512, 300, 64)), "BLOCK_T=4..128 num_warps=1..8",
        "x: bfloat16[beams, heads, length, width]; beam: int32[beams]; y: bfloat16[beams, heads, length, width]; "
        "heads length filled", "cdiv(filled, BLOCK_T), beams, heads", constants="width",
        got=lambda p, c, t: t["y_ptr"][:, :, : p["filled"]], keep="4 <= BLOCK_T * width / num_warps / 32 <= 64",
        tolerance=0.0, values=lambda p: {"beam_ptr": picked(337, "beams", "beams", skew=2.0)(p)}),
    subject("gathers", zoo.walk, shapes("n nodes degree steps", (1 << 20, 100_000, 8, 40), (1 << 18, 1 << 22, 16, 20)),
        LINES, "next: int32[nodes, degree]; start y: int32[n]; n steps", line, constants="degree", tolerance=0.0,
        values=graph),
    subject("rows", zoo.short_rows, shapes("rows width padded", (1 << 19, 128, 128), (300_000, 80, 128)),
        "BLOCK_R=1..64 num_warps=1..8", "x: bfloat16[rows, width]; w: bfloat16[width]; y: bfloat16[rows, width]; rows",
        "cdiv(rows, BLOCK_R)", constants="width padded", keep="1 <= BLOCK_R * padded / num_warps / 32 <= 64"),
    subject("products", zoo.gram, shapes("rows width", (16_384, 1024), (5000, 3000)), TILE | PIPE,
        "x: float16[rows, width]; y: float32[width, width]; rows width", by_tile("width", "width"), keep=fits),
    subject("products", zoo.weight_gradient, shapes("rows outs ins", (8192, 4096, 1024), (30_000, 512, 768)),
        TILE | PIPE, "dy: bfloat16[rows, outs]; x: bfloat16[rows, ins]; y: bfloat16[outs, ins]; rows outs ins",
        by_tile("outs", "ins"), keep=fits),
    subject("scans", zoo.flagged_scan, shapes("rows cols share", (4096, 4096, 0.01), (512, 32_768, 0.2)),
        "BLOCK_R=1..8 BLOCK_C=128..2048 num_warps=1..8",
        "x: float32[rows, cols]; flag: int8[rows, cols]; y: float32[rows, cols]; cols", "cdiv(rows, BLOCK_R)",
        values=flags),
    subject("copies", zoo.split_heads, shapes("tokens heads width", (16_384, 32, 128), (50_000, 12, 64)), WALKS,
        "x: bfloat16[tokens, 3, heads, width]; q k v: bfloat16[heads, tokens, width]; tokens",
        "cdiv(tokens, BLOCK_T), heads", constants="heads width", output="q_ptr k_ptr v_ptr",
        keep="1 <= BLOCK_T * width / num_warps / 32 <= 64", tolerance=0.0),
]  # fmt: skip
