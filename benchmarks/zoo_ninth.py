"""The fourteen kernels of `kernels/triton_zoo_ninth.py` as `zoo.py` measures them, two problems each. All were
predicted before they were timed; since then the rule for bits of places follows from `butterfly`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_ninth as zoo
from zoo_blind import TOKENS, along, args, of, picked
from zoo_edges import LINE, TILE, line, subject
from zoo_eighth import by_tokens
from zoo_forms import drawn
from zoo_more import shapes
from zoo_subject import Arrays, Config, Problem, cdiv

from carver.compiled.binary import Tensor


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
            args("channels high wide", x=of("float16", "images", "channels", "high", "wide"),
                 w=of("float32", "channels", 9), y=of("float16", "images", "channels", "high", "wide")),
            lambda p, c: (cdiv(p["wide"], c["BLOCK_C"]), cdiv(p["high"], c["BLOCK_R"]), p["images"] * p["channels"]),
            constants="apart"),
    subject("windows", zoo.resample, shapes("sounds length out up down taps", (64, 1 << 19, 570_653, 160, 147, 16),
                                            (400, 100_000, 50_000, 1, 2, 24)), LINE,
            args("length out", x=of("float32", "sounds", "length"), h=of("float32", "up", "taps"),
                 y=of("float32", "sounds", "out")), along("out", "sounds"), constants="up down taps"),
    subject("windows", zoo.butterfly, shapes("n apart", (1 << 26, 16), (1 << 25, 1 << 14)), LINE,
            args("n", x=of("float16", "n"), y=of("float16", "n")), line, constants="apart"),
    subject("atomics", zoo.scatter_mean, shapes("n groups width", (300_000, 20_000, 64), (60_000, 1000, 300)), TOKENS,
            args("n width", x=of("float16", "n", "width"), to=of("int32", "n"), sum=of("float32", "groups", "width"),
                 count=of("float32", "groups")), by_tokens("n", "width"), output="sum_ptr count_ptr",
            values=lambda p: {"to_ptr": picked(83, "groups", "n", skew=2.0)(p)}),
    subject("atomics", zoo.sort_pass, shapes("n shift each", (1 << 24, 22, 4096), (5_000_000, 0, 2048)),
            {"BLOCK": (128, 256, 512, 1024, 2048), "num_warps": (1, 2, 4, 8)},
            args("n", key=of("int32", "n"), first=lambda p: Tensor("int32", (cdiv(p["n"], p["each"]), 4)),
                 y=of("int32", "n")), lambda p, c: (cdiv(p["n"], p["each"]),), constants="shift each",
            tolerance=0.0, values=keys),
    subject("atomics", zoo.vote_lines, shapes("n distances angles", (1 << 20, 900, 32), (200_000, 3000, 90)), LINE,
            args("n", x=lambda p: Tensor("float32", (2 * p["n"],)), cos=of("float32", "angles"),
                 sin=of("float32", "angles"), y=lambda p: Tensor("int32", (p["angles"] * p["distances"],))),
            line, constants="distances angles", values=points),
    subject("gathers", zoo.score_edges, shapes("n nodes width", (1_000_000, 50_000, 64), (300_000, 100_000, 256)),
            {"BLOCK_T": (1, 2, 4, 8, 16, 32), "num_warps": (1, 2, 4, 8)},
            args("n", x=of("float16", "nodes", "width"), to=of("int32", "n"), y=of("float32", "n"),
                 **{"from": of("int32", "n")}),
            lambda p, c: (cdiv(p["n"], c["BLOCK_T"]),),
            constants="width", values=ends,
            keep=lambda p, c: 2 <= c["BLOCK_T"] * p["width"] / c["num_warps"] / 32 <= 64),
    subject("gathers", zoo.sparse_ell, shapes("rows cols each", (500_000, 500_000, 16), (2_000_000, 20_000, 7)), LINE,
            args("rows", value=of("float32", "each", "rows"), col=of("int32", "each", "rows"),
                 x=of("float32", "cols"), y=of("float32", "rows")), lambda p, c: (cdiv(p["rows"], c["BLOCK"]),),
            constants="each",
            values=lambda p: {"col_ptr": picked(89, "cols", "each", "rows")(p)}),
    subject("gathers", zoo.add_position_bias, shapes("windows heads cells", (512, 16, 49), (64, 24, 256)), LINE,
            args("cells", x=of("float16", "windows", "heads", "cells", "cells"),
                 table=lambda p: Tensor("float32", ((2 * round(p["cells"] ** 0.5) - 1) ** 2, p["heads"])),
                 at=of("int32", "cells", "cells"), y=of("float16", "windows", "heads", "cells", "cells")),
            lambda p, c: (cdiv(p["cells"] ** 2, c["BLOCK"]), p["windows"] * p["heads"]), constants="heads",
            values=relative),
    subject("rows", zoo.top_of_rows, shapes("rows cols top", (32768, 256, 8), (4000, 1000, 4)),
            {"BLOCK_R": (1, 2, 4, 8, 16), "BLOCK": (256, 1024), "num_warps": (1, 2, 4, 8)},
            args("rows cols", x=of("float32", "rows", "cols"), y=of("float32", "rows", "top")),
            lambda p, c: (cdiv(p["rows"], c["BLOCK_R"]),),
            constants="top", keep=lambda p, c: p["cols"] <= c["BLOCK"] < 2 * p["cols"]
            and 2 <= c["BLOCK_R"] * c["BLOCK"] / c["num_warps"] / 32 <= 64),
    subject("rows", zoo.pack_bits, shapes("n", (1 << 22,), (3_000_000,)),
            {"BLOCK": (16, 32, 64, 128, 256), "num_warps": (1, 2, 4, 8)},
            args("n", x=of("float16", "n", 32), y=of("int32", "n")), line,
            keep=lambda p, c: 2 <= c["BLOCK"] / c["num_warps"] <= 64),
    subject("rows", zoo.dropout, shapes("n seed", (1 << 26, 7), (20_000_000, 11)), LINE,
            args("n seed", x=of("bfloat16", "n"), r=of("bfloat16", "n"), y=of("bfloat16", "n")), line,
            got=kept),
    subject("products", zoo.ternary_gemv, shapes("rows cols", (14336, 4096), (4096, 14336)),
            {"BLOCK_R": (1, 2, 4, 8, 16), "BLOCK_K": (16, 32, 64, 128), "num_warps": (1, 2, 4, 8)},
            lambda p: {"w_ptr": Tensor("int32", (p["rows"], p["cols"] // 16)), "x_ptr": Tensor("float16", (p["cols"],)),
                       "s_ptr": Tensor("float32", (p["rows"],)), "y_ptr": Tensor("float32", (p["rows"],)),
                       "rows": p["rows"]},
            lambda p, c: (cdiv(p["rows"], c["BLOCK_R"]),), constants="cols",
            keep=lambda p, c: p["cols"] // 16 % c["BLOCK_K"] == 0
            and 1 <= c["BLOCK_R"] * c["BLOCK_K"] / c["num_warps"] / 32 <= 16),
    subject("rows", zoo.adam_chunks, shapes("tensors most chunk", (400, 1_000_000, 65536), (3000, 20_000, 4096)),
            {"BLOCK": (256, 512, 1024, 2048, 4096), "num_warps": (2, 4, 8)}, adam_args,
            lambda p, c: (len(chunks(p)["size_ptr"]),), constants="chunk", values=chunks,
            in_place=("m_ptr", "v_ptr")),
]  # fmt: skip
