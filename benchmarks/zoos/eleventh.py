"""The twelve kernels of `kernels/triton_zoo_eleventh.py` as `zoo.py` measures them, two problems each. All were
predicted before they were timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_eleventh as zoo

from carver.compiled.binary import Tensor

from .blind import LINES, TOKENS, picked
from .edges import LINE, TILE, ints, line
from .eighth import by_tokens
from .forms import drawn, starts
from .subject import Config, Problem, cdiv, shapes, subject


def over(high: int = 0) -> Any:
    return lambda p, c: (cdiv(p["wide"] - high, c["BLOCK_C"]), cdiv(p["high"] - high, c["BLOCK_R"]))


def ends(p: Problem) -> dict[str, Any]:
    return {"from_ptr": np.sort(picked(211, "nodes", "n", skew=1.5)(p)),
            "to_ptr": picked(223, "nodes", "n", skew=p["skew"])(p)}  # fmt: skip


def points(p: Problem) -> dict[str, Any]:
    """Cells of points that lie in the order of a scan: neighbours are often of one cell."""
    draw = drawn(227)
    cell = np.repeat(draw.integers(0, p["cells"], cdiv(p["n"], 4)), 4)[: p["n"]].astype(np.int32)
    return {"cell_ptr": cell, "x_ptr": draw.integers(0, 1 << 20, (p["n"], p["channels"]), dtype=np.int32)}


def nearest(p: Problem) -> dict[str, Any]:
    """Rows of x near a point's own place, as of a cloud that is sorted along a curve."""
    away = drawn(229).integers(-p["apart"], p["apart"], (p["n"], p["near"]))
    at = np.arange(p["n"])[:, None] * p["rows"] // p["n"] + away
    return {"at_ptr": np.clip(at, 0, p["rows"] - 1).astype(np.int32)}


def graph(p: Problem) -> dict[str, Any]:
    start = starts(p, "nodes", "most")
    return {"start_ptr": start, "to_ptr": drawn(233).integers(0, p["nodes"], start[-1], dtype=np.int32)}


def graph_args(p: Problem) -> dict[str, Any]:
    n = int(starts(p, "nodes", "most")[-1])
    return {"start_ptr": ints(p["nodes"] + 1), "to_ptr": ints(n), "a_ptr": Tensor("float32", (p["nodes"],)),
            "b_ptr": Tensor("float32", (p["nodes"],)), "y_ptr": Tensor("float32", (n,))}  # fmt: skip


def coloured(p: Problem) -> dict[str, Any]:
    """A picture whose colours change slowly, with noise."""
    draw = drawn(239)
    walk = np.cumsum(draw.integers(-p["rough"], p["rough"] + 1, (p["n"], 3)), 0)
    return {"x_ptr": (np.abs((walk + 256) % 512 - 256).clip(0, 255)).astype(np.uint8)}


def pages(p: Problem) -> dict[str, Any]:
    return {"page_ptr": drawn(241).permutation(p["pages"])[: p["copied"]].astype(np.int32)}


def by_page(p: Problem, c: Config) -> tuple[int, ...]:
    return p["copied"], cdiv(p["page"], c["BLOCK"])


SUBJECTS = [
    subject("windows", zoo.lattice_step, shapes("high wide", (2048, 2048), (1000, 3000)), TILE,
        "x y: float32[9, high, wide]; high wide", over()),
    subject("windows", zoo.likeness, shapes("high wide", (3000, 4000), (1080, 1920)), TILE,
        "a b: float16[high, wide]; y: float32[high - 4, wide - 4]; high wide", over(4)),
    subject("windows", zoo.patches, shapes("high wide side step", (2048, 2048, 16, 8), (1500, 1500, 7, 2)),
        "BLOCK_T=1..16 BLOCK_C=64..256 num_warps=1..8",
        "x: float16[high, wide]; y: float16[((high - side) // step + 1) * ((wide - side) // step + 1), side ** 2]; "
        "high wide", "cdiv(((high - side) // step + 1) * ((wide - side) // step + 1), BLOCK_T), "
        "cdiv(side ** 2, BLOCK_C)", constants="side step", tolerance=0.0),
    subject("atomics", zoo.labelled_sums, shapes("n width clusters", (1 << 20, 64, 1000), (200_000, 200, 16)), TOKENS,
        "x: float16[n, width]; label: int32[n]; y: float32[clusters, width]; m: float32[clusters]; n width",
        by_tokens("n", "width"), output="y_ptr m_ptr", values=lambda p: {"label_ptr": picked(251, "clusters", "n")(p)}),
    subject("atomics", zoo.degrees, shapes("n nodes skew", (1 << 23, 1 << 20, 1), (1 << 22, 30_000, 3)), LINE,
        "from to: int32[n]; w: float32[n]; y z: float32[nodes]; n", line, output="y_ptr z_ptr", values=ends),
    subject("atomics", zoo.pillars, shapes("n channels cells", (400_000, 64, 40_000), (2_000_000, 16, 200_000)),
        "BLOCK_T=1..64 num_warps=1..8", "x: int32[n, channels]; cell: int32[n]; y: int32[cells, channels]; n",
        "cdiv(n, BLOCK_T)", constants="channels", keep="1 <= BLOCK_T * channels / num_warps / 32 <= 32", tolerance=0.0,
        values=points),
    subject("gathers", zoo.interpolate, shapes("n rows width near apart", (200_000, 50_000, 128, 3, 60),
        (50_000, 400_000, 320, 8, 100_000)), TOKENS,
        "at: int32[n, near]; w: float32[n, near]; x: float16[rows, width]; y: float16[n, width]; n width",
        by_tokens("n", "width"), constants="near", values=nearest),
    subject("gathers", zoo.edge_softmax, shapes("nodes most", (200_000, 60), (20_000, 3000)),
        "BLOCK=32..512 num_warps=1..4", graph_args, "nodes", values=graph),
    subject("gathers", zoo.graded, shapes("n side rough", (8_000_000, 33, 2), (3_000_000, 65, 60)), LINES,
        "x: uint8[n, 3]; table: float32[side, side, side, 3]; y: float32[n, 3]; n", line, constants="side",
        values=coloured),
    subject("gathers", zoo.pages_copied, shapes("pages copied page", (8000, 4000, 16_384), (200_000, 100_000, 576)),
        "BLOCK=256..8192 num_warps=1..8", "x: float16[pages, page]; page: int32[copied]; y: float16[copied, page]",
        by_page, constants="page", tolerance=0.0, values=pages),
    subject("rows", zoo.inverted, shapes("n", (1 << 22,), (1_000_000,)), LINES, "x y: float32[n, 6]; z: float32[n]; n",
        line, output="y_ptr z_ptr"),
    subject("rows", zoo.split_columns, shapes("rows cols split", (32_768, 4096, 16), (20_000, 1000, 100)),
        "BLOCK_R=4..64 BLOCK_C=32..256 num_warps=1..8", "x: float16[rows, cols]; y z: float32[split, cols]; rows cols",
        "cdiv(cols, BLOCK_C), split", constants="split", output="y_ptr z_ptr"),
]  # fmt: skip
