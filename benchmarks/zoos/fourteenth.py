"""The twenty kernels of `kernels/triton_zoo_fourteenth.py` as `zoo.py` measures them, two problems each. All were
predicted before they were timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_fourteenth as zoo

from carver.compiled.binary import Tensor

from .blind import LINES, TOKENS, picked
from .edges import LINE, line, plane
from .eleventh import over
from .forms import drawn, starts
from .subject import Arrays, Problem, shapes, subject
from .thirteenth import WIDE


def mel(p: Problem) -> dict[str, Any]:
    """Triangles whose corners are evenly apart in mels, of a spectrum that ends at p["top"] hertz."""
    corner = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + p["top"] / 700), p["bands"] + 2) / 2595) - 1)
    corner *= (p["bins"] - 1) / p["top"]
    first = np.minimum(corner[:-2].astype(np.int32) + 1, p["bins"] - p["taps"])
    at = first[:, None] + np.arange(p["taps"])
    low, middle, high = corner[:-2, None], corner[1:-1, None], corner[2:, None]
    weight = np.maximum(0, np.minimum((at - low) / (middle - low), (high - at) / (high - middle)))
    return {"first_ptr": first, "w_ptr": weight.astype(np.float32)}


def places(p: Problem) -> dict[str, Any]:
    length = drawn(401).integers(1, p["most"], p["tokens"])
    begin = np.repeat(length.cumsum() - length, length)[: p["tokens"]]
    return {"at_ptr": (np.arange(p["tokens"]) - begin).astype(np.int32)}


def mesh(p: Problem) -> dict[str, Any]:
    """A grid of side x side vertices, two triangles a cell, in order or shuffled."""
    side = p["side"]
    i = (np.arange(side - 1)[:, None] * side + np.arange(side - 1)).reshape(-1)
    face = np.stack([i, i + 1, i + side, i + 1, i + side + 1, i + side], 1).reshape(-1, 3).astype(np.int32)
    return {"face_ptr": drawn(409).permutation(face) if p["shuffled"] else face}


def pairs(p: Problem) -> dict[str, Any]:
    """Each atom with some that follow it within p["apart"], as of atoms that are sorted by cells, or with any."""
    i = np.repeat(np.arange(p["atoms"]), p["each"])
    j = (i + drawn(419).integers(1, p["apart"], p["n"])) % p["atoms"]
    return {"from_ptr": i.astype(np.int32), "to_ptr": j.astype(np.int32),
            "x_ptr": (drawn(421).random((3, p["atoms"])) * 3).astype(np.float32)}  # fmt: skip


def maps(p: Problem) -> np.ndarray:
    """Of each level how high and wide it is and where its rows begin."""
    size = [(p["high"] >> n, p["wide"] >> n) for n in range(p["levels"])]
    begin = np.cumsum([0, *(h * w for h, w in size)])
    return np.array([(*each, at) for each, at in zip(size, begin, strict=False)], np.int32)


def sampled(p: Problem) -> dict[str, Any]:
    """Places around each query's own, queries in the order of pixels."""
    side = int(p["queries"] ** 0.5) + 1
    own = np.stack([np.arange(p["queries"]) % side, np.arange(p["queries"]) // side], 1) / side
    away = drawn(431).normal(0, 0.03, (p["queries"], p["heads"], p["levels"], p["points"], 2))
    return {"shape_ptr": maps(p), "at_ptr": (own[:, None, None, None] + away).astype(np.float32)}


def deformable_args(p: Problem) -> dict[str, Any]:
    taps = (p["queries"], p["heads"], p["levels"], p["points"])
    rows = int(maps(p)[:, :2].prod(1).sum())
    return {"x_ptr": Tensor("float16", (rows, p["heads"], p["width"])), "shape_ptr": Tensor("int32", (p["levels"], 3)),
            "at_ptr": Tensor("float32", (*taps, 2)), "w_ptr": Tensor("float32", taps),
            "y_ptr": Tensor("float16", (p["queries"], p["heads"], p["width"])), "queries": p["queries"]}  # fmt: skip


def csr(p: Problem) -> dict[str, Any]:
    """Entries near the diagonal, or anywhere."""
    start = starts(p, "rows", "most")
    row, draw = np.repeat(np.arange(p["rows"]), np.diff(start)), drawn(433)
    away = p["apart"] or p["rows"]
    col = p["apart"] // away * row + draw.integers(-p["apart"], away + 1, len(row))
    return {"start_ptr": start, "col_ptr": np.clip(col, 0, p["rows"] - 1).astype(np.int32)}


def csr_args(p: Problem) -> dict[str, Any]:
    n, rows = int(starts(p, "rows", "most")[-1]), p["rows"]
    return {"start_ptr": Tensor("int32", (rows + 1,)), "col_ptr": Tensor("int32", (n,)),
            "v_ptr": Tensor("float32", (n,)), "x_ptr": Tensor("float32", (rows,)), "y_ptr": Tensor("float32", (rows,)),
            "rows": rows}  # fmt: skip


def permuted(p: Problem, c: Any, t: Arrays) -> Any:
    y = t["y_ptr"].float().view(p["slots"], -1, 128) * t["scale_ptr"][:, :, None]
    return y.view(p["slots"], -1), t["scale_ptr"]


SUBJECTS = [
    subject("windows", zoo.weno5, shapes("rows cols speed", (4096, 4096, 0.4), (1000, 3001, 1.5)), WIDE,
        "x: float32[rows, cols + 6]; y: float32[rows, cols]; rows cols speed", plane, most=16),
    subject("windows", zoo.conduct, shapes("deep high wide step", (256, 384, 512, 0.1), (100, 250, 300, 0.2)), WIDE,
        "x k y: float32[deep, high, wide]; deep high wide step", lambda p, c: (*over()(p, c), p["deep"]), most=16),
    subject("windows", zoo.pyramid_down, shapes("high wide", (4320, 7680), (2001, 3001)), WIDE,
        "x: uint8[high, wide]; y: uint8[(high + 1) // 2, (wide + 1) // 2]; high wide",
        "cdiv(wide, 2 * BLOCK_C), cdiv(high, 2 * BLOCK_R)"),
    subject("windows", zoo.census, shapes("high wide", (2160, 3840), (1080, 1500)), WIDE,
        "x: uint8[high, wide]; y: int32[high, wide]; high wide", over(), tolerance=0.0),
    subject("windows", zoo.mel_bands, shapes("frames bins bands taps top", (60_000, 201, 80, 14, 8000),
        (30_000, 1025, 128, 58, 22050)), TOKENS,
        "x: float32[frames, bins]; first: int32[bands]; w: float32[bands, taps]; y: float32[frames, bands]; "
        "frames bins bands", "cdiv(bands, BLOCK_C), cdiv(frames, BLOCK_T)", constants="taps", values=mel),
    subject("windows", zoo.involution, shapes("planes high wide group side", (2048, 56, 56, 16, 7),
        (128, 270, 480, 32, 3)), LINES,
        "x: float16[1, planes, high, wide]; w: float16[planes // group, side ** 2, high, wide]; "
        "y: float16[1, planes, high, wide]; high wide", "cdiv(high * wide, BLOCK), planes", constants="group side"),
    subject("windows", zoo.harris, shapes("high wide k", (4320, 7680, 0.04), (1500, 2000, 0.06)), WIDE,
        "x: float32[high + 4, wide + 4]; y: float32[high, wide]; high wide k", over(), most=16),
    subject("windows", zoo.yee_step, shapes("deep high wide ratio", (256, 256, 256, 0.5), (60, 300, 500, 0.3)), WIDE,
        "e h y: float32[3, deep, high, wide]; deep high wide ratio", lambda p, c: (*over()(p, c), p["deep"]), most=16),
    subject("windows", zoo.conv_packed, shapes("tokens width taps most", (60_000, 4096, 4, 2000),
        (20_000, 1536, 3, 60)), TOKENS,
        "x: bfloat16[tokens, width]; w: bfloat16[taps, width]; b: bfloat16[width]; at: int32[tokens]; "
        "y: bfloat16[tokens, width]; tokens width", "cdiv(width, BLOCK_C), cdiv(tokens, BLOCK_T)",
        constants="taps", values=places),
    subject("windows", zoo.token_shift, shapes("batch length width kinds", (8, 4096, 2048, 6), (4, 1000, 768, 4)),
        TOKENS,
        "x: bfloat16[batch, length, width]; mix: bfloat16[kinds, width]; y: bfloat16[kinds, batch, length, width]; "
        "length width batch", "cdiv(width, BLOCK_C), cdiv(length, BLOCK_T), batch", constants="kinds"),
    subject("atomics", zoo.hash_insert, shapes("n size most", (1 << 21, 1 << 23, 1 << 31),
        (1_500_000, 1 << 20, 500_000)), LINES, "key: int32[n]; y: int32[size]; n", line,
        constants="size", got=lambda p, c, t: t["y_ptr"].sort().values, tolerance=0.0,
        values=lambda p: {"key_ptr": 1 + drawn(439).integers(0, p["most"] - 1, p["n"], np.int32), "y_ptr": 0}),
    subject("atomics", zoo.vertex_normals, shapes("side n shuffled", (1025, 1 << 21, 0), (601, 720_000, 1)), LINES,
        "x: float32[side ** 2, 3]; face: int32[n, 3]; y: float32[side ** 2, 3]; n", line, values=mesh),
    subject("atomics", zoo.group_by, shapes("n groups skew", (1 << 23, 1000, 1.0), (4_000_000, 1 << 20, 2.0)), LINE,
        "key: int32[n]; x: float32[n]; sum: float32[groups]; count: int32[groups]; most: float32[groups]; n", line,
        output="sum_ptr count_ptr most_ptr",
        values=lambda p: {"key_ptr": picked(443, "groups", "n", skew=p["skew"])(p)}),
    subject("atomics", zoo.pair_forces, shapes("atoms each n apart", (100_000, 40, 4_000_000, 200),
        (500_000, 6, 3_000_000, 500_000)), LINES,
        "x: float32[3, atoms]; from to: int32[n]; y: float32[3, atoms]; n atoms", line, values=pairs),
    subject("atomics", zoo.bias_gradient, shapes("windows heads side", (2048, 6, 7), (300, 16, 12)),
        {**LINES, "EACH": (8, 32, 128)},
        "g: float16[windows, heads, side ** 2, side ** 2]; y: float32[(2 * side - 1) ** 2, heads]; windows",
        "cdiv(side ** 4, BLOCK), heads, cdiv(windows, EACH)", constants="side"),
    subject("gathers", zoo.deformable, shapes("queries heads width levels points high wide",
        (17_821, 8, 32, 4, 4, 100, 134), (40_000, 8, 32, 1, 8, 200, 200)), "BLOCK=4..128 num_warps=1..8",
        deformable_args, "cdiv(queries, BLOCK), heads", constants="levels points heads width",
        keep="elements(c, BLOCK * width, 32)", values=sampled),
    subject("gathers", zoo.csr_row_blocks, shapes("rows most apart", (1 << 20, 30, 0), (100_000, 300, 2000)),
        "BLOCK_R=1,4,8,16,32,64 BLOCK_K=8..128 num_warps=1..8", csr_args, "cdiv(rows, BLOCK_R)", values=csr, most=16),
    subject("gathers", zoo.edge_features, shapes("clouds channels points near", (32, 64, 1024, 20), (8, 24, 5000, 32)),
        LINE, "x: float32[clouds, channels, points]; id: int32[clouds, points, near]; "
        "y: float32[clouds, 2 * channels, points, near]; channels points",
        "cdiv(points * near, BLOCK), channels, clouds", constants="near",
        values=lambda p: {"id_ptr": picked(449, "points", "clouds", "points", "near")(p)}),
    subject("gathers", zoo.permute_quantise, shapes("tokens slots width top", (8000, 64_000, 2048, 8),
        (4000, 8000, 4096, 2)), "BLOCK_R=1..32 BLOCK_C=128..1024 num_warps=1..8",
        "x: bfloat16[tokens, width]; slot: int32[slots]; y: float8_e4m3[slots, width]; "
        "scale: float32[slots, width // 128]; slots", "width // BLOCK_C, cdiv(slots, BLOCK_R)",
        constants="width top", output="y_ptr scale_ptr", got=permuted, tolerance=0.04,
        values=lambda p: {"slot_ptr": drawn(457).permutation(p["slots"]).astype(np.int32)}),
    subject("gathers", zoo.correlation_lookup, shapes("n high wide reach", (7040, 55, 128, 4), (19_200, 60, 80, 3)),
        LINES, "x: float32[n, high, wide]; at: float32[n, 2]; y: float32[n, (2 * reach + 1) ** 2]; n high wide",
        "cdiv(n * (2 * reach + 1) ** 2, BLOCK)", constants="reach",
        values=lambda p: {"at_ptr": (drawn(461).random((p["n"], 2)) * (p["wide"], p["high"])).astype(np.float32)}),
]  # fmt: skip
