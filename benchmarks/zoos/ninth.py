"""The fourteen kernels of `kernels/triton_zoo_ninth.py` as `zoo.py` measures them, two problems each. All were
predicted before they were timed; since then the rule for bits of places follows from `butterfly`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_ninth as zoo

from carver.compiled.binary import Tensor

from .blind import TOKENS, along, picked
from .edges import LINE, TILE, line
from .eighth import by_tokens
from .forms import drawn
from .subject import Arrays, Config, Problem, cdiv, shapes, subject


def keys(p: Problem) -> dict[str, Any]:
    """Below 2^24, which float32 has exactly; and where programs put their first of each digit."""
    key = drawn(61).integers(0, 1 << 24, p["n"], dtype=np.int32)
    digits = np.resize(key >> p["shift"] & 3, cdiv(p["n"], p["each"]) * p["each"])
    digits[p["n"] :] = 4
    many = np.stack([(digits.reshape(-1, p["each"]) == d).sum(1) for d in range(4)])
    first = np.cumsum(many.ravel()) - many.ravel()
    return {"key_ptr": key, "first_ptr": np.ascontiguousarray(first.reshape(many.shape).T, np.int32)}


def points(p: Problem) -> dict[str, Any]:
    """Of a quarter of a circle's square, near some lines; angles of a quarter turn."""
    at = np.linspace(0.0, np.pi / 2, p["angles"], endpoint=False)
    x = (drawn(67).random(2 * p["n"]) ** 1.5 * 0.999).astype(np.float32)
    return {"x_ptr": x, "cos_ptr": np.cos(at).astype(np.float32), "sin_ptr": np.sin(at).astype(np.float32)}


def ends(p: Problem) -> dict[str, Any]:
    """Edges sorted by where they begin, as lists of neighbours are."""
    begin = np.sort(drawn(71).integers(0, p["nodes"], p["n"], dtype=np.int32))
    return {"from_ptr": begin, "to_ptr": (drawn(73).random(p["n"]) ** 2 * p["nodes"]).astype(np.int32)}


def relative(p: Problem) -> dict[str, Any]:
    """Of each pair of cells of a square window, where the one lies from the other."""
    side = round(p["cells"] ** 0.5)
    row, col = np.divmod(np.arange(p["cells"]), side)
    at = (row[:, None] - row + side - 1) * (2 * side - 1) + col[:, None] - col + side - 1
    return {"at_ptr": at.astype(np.int32)}


def chunks(p: Problem) -> dict[str, Any]:
    """Tensors of few and of many elements, cut into chunks."""
    sizes = (drawn(79).random(p["tensors"]) ** 6 * p["most"]).astype(np.int64) // 8 * 8 + 8
    pairs = zip(sizes, np.cumsum(sizes) - sizes, strict=True)
    first = np.concatenate([np.arange(0, n, p["chunk"]) + at for n, at in pairs])
    size = np.concatenate([np.minimum(n - np.arange(0, n, p["chunk"]), p["chunk"]) for n in sizes])
    return {"first_ptr": first.astype(np.int32), "size_ptr": size.astype(np.int32)}


def adam_args(p: Problem) -> dict[str, Any]:
    held = chunks(p)
    parts, n = held["size_ptr"].shape, int(held["size_ptr"].sum())
    wide = {name: Tensor("float32", (n,)) for name in ("p_ptr", "m_ptr", "v_ptr", "y_ptr")}
    return {**wide, "g_ptr": Tensor("bfloat16", (n,)), **{name: Tensor("int32", parts) for name in held}}


def kept(p: Problem, c: Config, t: Arrays) -> Any:
    """Before the residual; where an element was dropped, what it would have been."""
    import torch

    y = t["y_ptr"].float() - t["r_ptr"].float()
    return torch.where(y == 0, t["x_ptr"].float() / 0.9, y)


SUBJECTS = [
    subject("windows", zoo.atrous, shapes("images channels high wide apart", (16, 64, 128, 128, 2),
        (4, 256, 60, 100, 6)), TILE,
        "x: float16[images, channels, high, wide]; w: float32[channels, 9]; y: float16[images, channels, high, wide]; "
        "channels high wide", "cdiv(wide, BLOCK_C), cdiv(high, BLOCK_R), images * channels", constants="apart"),
    subject("windows", zoo.resample, shapes("sounds length out up down taps", (64, 1 << 19, 570_653, 160, 147, 16),
        (400, 100_000, 50_000, 1, 2, 24)), LINE,
        "x: float32[sounds, length]; h: float32[up, taps]; y: float32[sounds, out]; length out", along("out", "sounds"),
        constants="up down taps"),
    subject("windows", zoo.butterfly, shapes("n apart", (1 << 26, 16), (1 << 25, 1 << 14)), LINE, "x y: float16[n]; n",
        line, constants="apart"),
    subject("atomics", zoo.scatter_mean, shapes("n groups width", (300_000, 20_000, 64), (60_000, 1000, 300)), TOKENS,
        "x: float16[n, width]; to: int32[n]; sum: float32[groups, width]; count: float32[groups]; n width",
        by_tokens("n", "width"), output="sum_ptr count_ptr",
        values=lambda p: {"to_ptr": picked(83, "groups", "n", skew=2.0)(p)}),
    subject("atomics", zoo.sort_pass, shapes("n shift each", (1 << 24, 22, 4096), (5_000_000, 0, 2048)),
        "BLOCK=128..2048 num_warps=1..8", "key: int32[n]; first: int32[cdiv(n, each), 4]; y: int32[n]; n",
        "cdiv(n, each)", constants="shift each", tolerance=0.0, values=keys),
    subject("atomics", zoo.vote_lines, shapes("n distances angles", (1 << 20, 900, 32), (200_000, 3000, 90)), LINE,
        "x: float32[2 * n]; cos sin: float32[angles]; y: int32[angles * distances]; n", line,
        constants="distances angles", values=points),
    subject("gathers", zoo.score_edges, shapes("n nodes width", (1_000_000, 50_000, 64), (300_000, 100_000, 256)),
        "BLOCK_T=1..32 num_warps=1..8", "x: float16[nodes, width]; to: int32[n]; y: float32[n]; from: int32[n]; n",
        "cdiv(n, BLOCK_T)", constants="width", keep="2 <= BLOCK_T * width / num_warps / 32 <= 64", values=ends),
    subject("gathers", zoo.sparse_ell, shapes("rows cols each", (500_000, 500_000, 16), (2_000_000, 20_000, 7)), LINE,
        "value: float32[each, rows]; col: int32[each, rows]; x: float32[cols]; y: float32[rows]; rows",
        "cdiv(rows, BLOCK)", constants="each", values=lambda p: {"col_ptr": picked(89, "cols", "each", "rows")(p)}),
    subject("gathers", zoo.add_position_bias, shapes("windows heads cells", (512, 16, 49), (64, 24, 256)), LINE,
        "x: float16[windows, heads, cells, cells]; table: float32[(2 * round(cells ** 0.5) - 1) ** 2, heads]; "
        "at: int32[cells, cells]; y: float16[windows, heads, cells, cells]; cells",
        "cdiv(cells ** 2, BLOCK), windows * heads", constants="heads", values=relative),
    subject("rows", zoo.top_of_rows, shapes("rows cols top", (32768, 256, 8), (4000, 1000, 4)),
        "BLOCK_R=1..16 BLOCK=256,1024 num_warps=1..8", "x: float32[rows, cols]; y: float32[rows, top]; rows cols",
        "cdiv(rows, BLOCK_R)", constants="top",
        keep="cols <= BLOCK < 2 * cols and 2 <= BLOCK_R * BLOCK / num_warps / 32 <= 64"),
    subject("rows", zoo.pack_bits, shapes("n", (1 << 22,), (3_000_000,)), "BLOCK=16..256 num_warps=1..8",
        "x: float16[n, 32]; y: int32[n]; n", line, keep="2 <= BLOCK / num_warps <= 64"),
    subject("rows", zoo.dropout, shapes("n seed", (1 << 26, 7), (20_000_000, 11)), LINE, "x r y: bfloat16[n]; n seed",
        line, got=kept),
    subject("products", zoo.ternary_gemv, shapes("rows cols", (14336, 4096), (4096, 14336)),
        "BLOCK_R=1..16 BLOCK_K=16..128 num_warps=1..8",
        "w: int32[rows, cols // 16]; x: float16[cols]; s y: float32[rows]; rows", "cdiv(rows, BLOCK_R)",
        constants="cols", keep="cols // 16 % BLOCK_K == 0 and 1 <= BLOCK_R * BLOCK_K / num_warps / 32 <= 16"),
    subject("rows", zoo.adam_chunks, shapes("tensors most chunk", (400, 1_000_000, 65536), (3000, 20_000, 4096)),
        "BLOCK=256..4096 num_warps=2..8", adam_args, lambda p, c: (len(chunks(p)["size_ptr"]),), constants="chunk",
        values=chunks, in_place=("m_ptr", "v_ptr")),
]  # fmt: skip
