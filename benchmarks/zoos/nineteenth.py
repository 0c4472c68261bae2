"""The 16 kernels of `kernels/triton_zoo_nineteenth.py` as `zoo.py` measures them: eight of gathers, four of atomics,
four of windows, two problems each. All were predicted before they were timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_nineteenth as zoo

from .blind import LINES, TOKENS, picked
from .edges import LINE, line
from .eleventh import over
from .forms import drawn
from .seventeenth import ROWS
from .subject import Problem, shapes, subject
from .thirteenth import WIDE


def both(p: Problem) -> dict[str, Any]:
    return {"a_ptr": picked(1201, "most", "n", skew=2.0)(p), "b_ptr": picked(1213, "most", "n", skew=1.5)(p)}


def labels(p: Problem) -> dict[str, Any]:
    """Long runs of labels, or noise."""
    short = picked(1217, "kinds", "runs", dtype=np.uint8)(p)
    return {"x_ptr": short[np.arange(p["n"]) * p["runs"] // p["n"]]}


def spots(p: Problem) -> dict[str, Any]:
    draw = drawn(1223)
    centre = draw.random((3, p["n"] // p["each"], 1)) * 0.9
    place = centre + draw.random((3, p["n"] // p["each"], p["each"])) * p["size"]
    return {"place_ptr": (place.reshape(3, p["n"]) % 0.9999).astype(np.float32)}


def beside(p: Problem) -> dict[str, Any]:
    """Neighbours near in the list, or anywhere."""
    away = drawn(1229).integers(-p["reach"], p["reach"], (p["n"], p["each"]))
    return {"id_ptr": ((np.arange(p["n"])[:, None] + away) % p["n"]).astype(np.int32)}


def states(p: Problem) -> dict[str, Any]:
    draw = drawn(1231)
    return {n: (draw.random(p["n"]) ** p["skew"] * 0.999).astype(np.float32) for n in ("u_ptr", "v_ptr")}


def pages_of(p: Problem) -> dict[str, Any]:
    n = p["seqs"] * p["pages"]
    return {"table_ptr": drawn(1237).permutation(n).reshape(p["seqs"], p["pages"]).astype(np.int32)}


def firsts(p: Problem) -> dict[str, Any]:
    share = drawn(1249).random(p["seqs"]) ** 2
    ends = np.rint(np.cumsum(share) / share.sum() * p["n"]).astype(np.int32)
    return {"first_ptr": np.concatenate([[0], ends]).astype(np.int32)}


def edges(p: Problem) -> dict[str, Any]:
    return {"from_ptr": picked(1259, "nodes", "n")(p), "to_ptr": picked(1277, "nodes", "n", skew=p["skew"])(p)}


SUBJECTS = [
    subject("gathers", zoo.cross_features, shapes("n most rows width dtype", (1 << 18, 5000, 1_000_003, 32, "float16"),
        (1 << 17, 300, 20_011, 64, "float32")), ROWS,
        "a b: int32[n]; row: dtype[rows, width]; y: dtype[n, width]; n rows", "cdiv(n, BLOCK_T)",
        constants="width", tolerance=0.0, keep="elements(c, BLOCK_T * width, 16)", values=both),
    subject("gathers", zoo.palette, shapes("n kinds runs", (8_000_000, 150, 8_000_000), (3_000_000, 19, 20_000)), LINES,
        "x: uint8[n]; colour: uint8[256, 3]; y: uint8[n, 3]; n", line,
        most=8, tolerance=0.0, values=labels),
    subject("gathers", zoo.occupied, shapes("n side each size", (1 << 21, 128, 1, 0.1), (1 << 20, 512, 256, 0.02)),
        LINES, "place: float32[3, n]; bit: int32[side ** 3 // 32]; y: uint8[n]; n", line,
        constants="side", most=8, tolerance=0.0, values=spots),
    subject("gathers", zoo.edge_lengths, shapes("n each reach", (200_000, 16, 500), (50_000, 32, 25_000)),
        "BLOCK=2..64 num_warps=1..8", "x: float32[n, 3]; id: int32[n, each]; y: float32[n, each]; n", line,
        constants="each", keep="elements(c, BLOCK * each, 16)", values=beside),
    subject("gathers", zoo.state_table, shapes("n side skew", (1 << 22, 128, 1.0), (1_500_000, 1000, 2.0)), LINES,
        "u v: float32[n]; table: float32[side, side]; y: float32[n]; n", line, constants="side",
        most=8, values=states),
    subject("gathers", zoo.page_scores, shapes("seqs pages page width", (64, 128, 16, 128), (16, 300, 32, 64)),
        "EACH=1..16 num_warps=1..4", "q: float16[seqs, width]; k: int8[seqs * pages * page, width]; "
        "scale: float32[seqs * pages * page]; table: int32[seqs, pages]; y: float32[seqs, pages * page]; pages",
        "cdiv(pages, EACH), seqs", constants="page width", keep="elements(c, page * width, 64)",
        values=pages_of),
    subject("gathers", zoo.turn_sequences, shapes("seqs n width dtype", (2000, 200_000, 128, "float16"),
        (300, 60_000, 500, "float32")), TOKENS,
        "x: dtype[n, width]; first: int32[seqs + 1]; y: dtype[n, width]; width", "seqs, cdiv(width, BLOCK_C)",
        tolerance=0.0, most=16, values=firsts),
    subject("gathers", zoo.decode_column, shapes("n entries width", (2_000_000, 4000, 4), (1_000_000, 30_000, 8)),
        "BLOCK=16..512 num_warps=1..8", "code: int16[n]; entry: int32[entries, width]; y: int32[n, width]; n", line,
        constants="width", tolerance=0.0,
        keep="elements(c, BLOCK * width, 16)",
        values=lambda p: {"code_ptr": picked(1279, "entries", "n", skew=1.5, dtype=np.int16)(p)}),
    subject("atomics", zoo.best_of_splits, shapes("rows cols", (2048, 32_000), (64, 1_000_000)), LINE,
        "x: int32[rows, cols]; y: int64[rows]; cols", "cdiv(cols, BLOCK), rows", tolerance=0.0, most=32,
        got=lambda p, c, t: (t["y_ptr"] >> 32, t["y_ptr"] & 0xFFFFFFFF)),
    subject("atomics", zoo.seen_bits, shapes("n most skew", (1 << 22, 1 << 24, 1.0), (1_000_000, 1 << 17, 2.0)), LINES,
        "id: int32[n]; y: int32[most // 32]; n", line, most=8, tolerance=0.0,
        values=lambda p: {"id_ptr": picked(1283, "most", "n", skew=p["skew"])(p)}),
    subject("atomics", zoo.attend_edges, shapes("n nodes heads width skew", (300_000, 30_000, 4, 32, 1.0),
        (100_000, 80_000, 8, 8, 2.0)), "BLOCK=1..64 num_warps=1..8",
        "from to: int32[n]; share: float32[n, heads]; v: float16[nodes, heads * width]; "
        "y: float32[nodes, heads * width]; n", line, constants="heads width",
        keep="elements(c, BLOCK * heads * width, 16)", values=edges),
    subject("atomics", zoo.capped_sums, shapes("n groups most", (1 << 20, 1 << 19, 20), (300_000, 20_000, 1000)), LINES,
        "x group: int32[n]; y: int32[groups]; n most", line, most=8, tolerance=0.0,
        values=lambda p: {"group_ptr": picked(1289, "groups", "n")(p), "y_ptr": 0}),
    subject("windows", zoo.sharpen, shapes("planes high wide", (3, 2160, 3840), (40, 600, 700)), WIDE,
        "x y: uint8[planes, high, wide]; high wide", lambda p, c: (*over()(p, c), p["planes"]), most=16),
    subject("windows", zoo.block_moments, shapes("planes high wide side dtype", (512, 224, 224, 8, "float16"),
        (64, 512, 768, 4, "float32")), "BLOCK=32..512 num_warps=1..8",
        "x: dtype[planes, high, wide]; y: float32[planes, high // side, wide // side]; high wide",
        "cdiv(high * wide // side ** 2, BLOCK), planes", constants="side", most=8),
    subject("windows", zoo.diffuse_masked, shapes("deep high wide", (130, 514, 514), (66, 200, 402)), WIDE,
        "x: float32[deep, high, wide]; solid: uint8[deep, high, wide]; y: float32[deep, high, wide]; deep high wide",
        "cdiv(wide - 2, BLOCK_C), cdiv(high - 2, BLOCK_R), deep - 2", most=8,
        values=lambda p: {"solid_ptr": (drawn(1291).random((p["deep"], p["high"], p["wide"])) < 0.1).astype(np.uint8)}),
    subject("windows", zoo.enlarge_signal, shapes("batch channels length step taps dtype",
        (8, 256, 8192, 4, 16, "float16"), (4, 100, 20_000, 2, 12, "float32")), LINE,
        "x: dtype[batch * channels, length]; w: dtype[channels, taps]; y: dtype[batch * channels, step * length]; "
        "length channels", "cdiv(step * length, BLOCK), batch * channels", constants="step taps",
        most=16),
]  # fmt: skip
