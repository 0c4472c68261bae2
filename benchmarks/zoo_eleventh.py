"""The twelve kernels of `kernels/triton_zoo_eleventh.py` as `zoo.py` measures them, two problems each. All were
predicted before they were timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_eleventh as zoo
from zoo_blind import LINES, TOKENS, args, counts, of, picked
from zoo_edges import LINE, TILE, ints, line, subject
from zoo_eighth import by_tokens
from zoo_forms import drawn, starts
from zoo_more import shapes
from zoo_subject import Arrays, Config, Problem, cdiv

from carver.compiled.binary import Tensor


def over(high: int = 0) -> Any:
    return lambda p, c: (cdiv(p["wide"] - high, c["BLOCK_C"]), cdiv(p["high"] - high, c["BLOCK_R"]))


def lattice_want(p: Problem, t: Arrays) -> Any:
    import torch

    x = torch.stack([t["x_ptr"][k].roll((1 - k // 3, 1 - k % 3), (0, 1)) for k in range(9)])
    return x + 0.6 * (x.sum(0) / 9 - x)


def likeness_want(p: Problem, t: Arrays) -> Any:
    import torch

    def mean(x: Any) -> Any:
        return torch.nn.functional.avg_pool2d(x[None, None], 5, 1)[0, 0]

    a, b = t["a_ptr"].double(), t["b_ptr"].double()
    ma, mb = mean(a), mean(b)
    va, vb, cov = mean(a * a) - ma * ma, mean(b * b) - mb * mb, mean(a * b) - ma * mb
    y = (2 * ma * mb + 0.01) * (2 * cov + 0.03) / ((ma * ma + mb * mb + 0.01) * (va + vb + 0.03))
    return y.float()


def patch_count(p: Problem) -> int:
    return ((p["high"] - p["side"]) // p["step"] + 1) * ((p["wide"] - p["side"]) // p["step"] + 1)


def patches_want(p: Problem, t: Arrays) -> Any:
    x = t["x_ptr"].unfold(0, p["side"], p["step"]).unfold(1, p["side"], p["step"])
    return x.reshape(-1, p["side"] ** 2)


def cluster_want(p: Problem, t: Arrays) -> Any:
    return (counts(t["label_ptr"], (p["clusters"], p["width"]), t["x_ptr"].float()),
            counts(t["label_ptr"], (p["clusters"],)))  # fmt: skip


def degrees_want(p: Problem, t: Arrays) -> Any:
    return tuple(counts(t[n], (p["nodes"],), t["w_ptr"]) for n in ("from_ptr", "to_ptr"))


def ends(p: Problem) -> dict[str, Any]:
    return {"from_ptr": np.sort(picked(211, "nodes", "n", skew=1.5)(p)),
            "to_ptr": picked(223, "nodes", "n", skew=p["skew"])(p)}  # fmt: skip


def points(p: Problem) -> dict[str, Any]:
    """Cells of points that lie in the order of a scan: neighbours are often of one cell."""
    draw = drawn(227)
    cell = np.repeat(draw.integers(0, p["cells"], cdiv(p["n"], 4)), 4)[: p["n"]].astype(np.int32)
    return {"cell_ptr": cell, "x_ptr": draw.integers(0, 1 << 20, (p["n"], p["channels"]), dtype=np.int32)}


def pillars_want(p: Problem, t: Arrays) -> Any:
    at = t["cell_ptr"].long()[:, None].expand(-1, p["channels"])
    return t["x_ptr"].new_zeros(p["cells"], p["channels"]).scatter_reduce_(0, at, t["x_ptr"], "amax")


def nearest(p: Problem) -> dict[str, Any]:
    """Rows of x near a point's own place, as of a cloud that is sorted along a curve."""
    away = drawn(229).integers(-p["apart"], p["apart"], (p["n"], p["near"]))
    at = np.arange(p["n"])[:, None] * p["rows"] // p["n"] + away
    return {"at_ptr": np.clip(at, 0, p["rows"] - 1).astype(np.int32)}


def interpolate_want(p: Problem, t: Arrays) -> Any:
    return sum(t["w_ptr"][:, k, None] * t["x_ptr"].float()[t["at_ptr"][:, k].long()] for k in range(p["near"]))


def graph(p: Problem) -> dict[str, Any]:
    start = starts(p, "nodes", "most")
    return {"start_ptr": start, "to_ptr": drawn(233).integers(0, p["nodes"], start[-1], dtype=np.int32)}


def graph_args(p: Problem) -> dict[str, Any]:
    n = int(starts(p, "nodes", "most")[-1])
    return {"start_ptr": ints(p["nodes"] + 1), "to_ptr": ints(n), "a_ptr": Tensor("float32", (p["nodes"],)),
            "b_ptr": Tensor("float32", (p["nodes"],)), "y_ptr": Tensor("float32", (n,))}  # fmt: skip


def softmax_want(p: Problem, t: Arrays) -> Any:
    import torch

    row = torch.repeat_interleave(torch.arange(p["nodes"], device=t["a_ptr"].device), t["start_ptr"].diff().long())
    e = torch.nn.functional.leaky_relu(t["a_ptr"][row] + t["b_ptr"][t["to_ptr"].long()], 0.2).exp()
    return e / counts(row, (p["nodes"],), e)[row]


def graded_want(p: Problem, t: Arrays) -> Any:
    x = t["x_ptr"].float() * ((p["side"] - 1) / 255)
    at = x.int().clamp_max(p["side"] - 2)
    table, y, x = t["table_ptr"], 0.0, x - at
    for k in range(8):
        bits = (k // 4, k // 2 % 2, k % 2)
        w = 1.0
        for axis, bit in enumerate(bits):
            w = w * (x[:, axis] if bit else 1 - x[:, axis])
        y = y + w[:, None] * table[tuple((at[:, axis] + bit).long() for axis, bit in enumerate(bits))]
    return y


def coloured(p: Problem) -> dict[str, Any]:
    """A picture whose colours change slowly, with noise."""
    draw = drawn(239)
    walk = np.cumsum(draw.integers(-p["rough"], p["rough"] + 1, (p["n"], 3)), 0)
    return {"x_ptr": (np.abs((walk + 256) % 512 - 256).clip(0, 255)).astype(np.uint8)}


def pages(p: Problem) -> dict[str, Any]:
    return {"page_ptr": drawn(241).permutation(p["pages"])[: p["copied"]].astype(np.int32)}


def inverted_want(p: Problem, t: Arrays) -> Any:
    import torch

    a, b, c, d, e, f = t["x_ptr"].double().unbind(1)
    whole = torch.stack((a + 9, b, c, b, d + 9, e, c, e, f + 9), 1).reshape(-1, 3, 3)
    inverse = torch.linalg.inv(whole).reshape(-1, 9)[:, [0, 1, 2, 4, 5, 8]]
    return inverse.float(), torch.linalg.det(whole).float()


def moments_want(p: Problem, t: Arrays) -> Any:
    x = t["x_ptr"].float().reshape(p["split"], -1, p["cols"])
    return x.sum(1), (x * x).sum(1)


def by_page(p: Problem, c: Config) -> tuple[int, ...]:
    return p["copied"], cdiv(p["page"], c["BLOCK"])


SUBJECTS = [
    subject("windows", zoo.lattice_step, shapes("high wide", (2048, 2048), (1000, 3000)), TILE,
            args("high wide", x=of("float32", 9, "high", "wide"), y=of("float32", 9, "high", "wide")), over(),
            lattice_want),
    subject("windows", zoo.likeness, shapes("high wide", (3000, 4000), (1080, 1920)), TILE,
            args("high wide", a=of("float16", "high", "wide"), b=of("float16", "high", "wide"),
                 y=lambda p: Tensor("float32", (p["high"] - 4, p["wide"] - 4))), over(4), likeness_want),
    subject("windows", zoo.patches, shapes("high wide side step", (2048, 2048, 16, 8), (1500, 1500, 7, 2)),
            {"BLOCK_T": (1, 2, 4, 8, 16), "BLOCK_C": (64, 128, 256), "num_warps": (1, 2, 4, 8)},
            args("high wide", x=of("float16", "high", "wide"),
                 y=lambda p: Tensor("float16", (patch_count(p), p["side"] ** 2))),
            lambda p, c: (cdiv(patch_count(p), c["BLOCK_T"]), cdiv(p["side"] ** 2, c["BLOCK_C"])), patches_want,
            constants="side step", tolerance=0.0),
    subject("atomics", zoo.labelled_sums, shapes("n width clusters", (1 << 20, 64, 1000), (200_000, 200, 16)), TOKENS,
            args("n width", x=of("float16", "n", "width"), label=of("int32", "n"),
                 y=of("float32", "clusters", "width"), m=of("float32", "clusters")),
            by_tokens("n", "width"), cluster_want, output="y_ptr m_ptr",
            values=lambda p: {"label_ptr": picked(251, "clusters", "n")(p)}),
    subject("atomics", zoo.degrees, shapes("n nodes skew", (1 << 23, 1 << 20, 1), (1 << 22, 30_000, 3)), LINE,
            args("n", **{"from": of("int32", "n")}, to=of("int32", "n"), w=of("float32", "n"),
                 y=of("float32", "nodes"), z=of("float32", "nodes")), line, degrees_want,
            output="y_ptr z_ptr", values=ends),
    subject("atomics", zoo.pillars, shapes("n channels cells", (400_000, 64, 40_000), (2_000_000, 16, 200_000)),
            {"BLOCK_T": (1, 2, 4, 8, 16, 32, 64), "num_warps": (1, 2, 4, 8)},
            args("n", x=of("int32", "n", "channels"), cell=of("int32", "n"), y=of("int32", "cells", "channels")),
            lambda p, c: (cdiv(p["n"], c["BLOCK_T"]),), pillars_want, constants="channels", tolerance=0.0,
            keep=lambda p, c: 1 <= c["BLOCK_T"] * p["channels"] / c["num_warps"] / 32 <= 32, values=points),
    subject("gathers", zoo.interpolate, shapes("n rows width near apart", (200_000, 50_000, 128, 3, 60),
                                               (50_000, 400_000, 320, 8, 100_000)), TOKENS,
            args("n width", at=of("int32", "n", "near"), w=of("float32", "n", "near"),
                 x=of("float16", "rows", "width"), y=of("float16", "n", "width")), by_tokens("n", "width"),
            interpolate_want, constants="near", values=nearest),
    subject("gathers", zoo.edge_softmax, shapes("nodes most", (200_000, 60), (20_000, 3000)),
            {"BLOCK": (32, 64, 128, 256, 512), "num_warps": (1, 2, 4)}, graph_args, lambda p, c: (p["nodes"],),
            softmax_want, values=graph),
    subject("gathers", zoo.graded, shapes("n side rough", (8_000_000, 33, 2), (3_000_000, 65, 60)), LINES,
            args("n", x=of("uint8", "n", 3), table=of("float32", "side", "side", "side", 3),
                 y=of("float32", "n", 3)), line, graded_want, constants="side", values=coloured),
    subject("gathers", zoo.pages_copied, shapes("pages copied page", (8000, 4000, 16_384), (200_000, 100_000, 576)),
            {"BLOCK": (256, 512, 1024, 2048, 4096, 8192), "num_warps": (1, 2, 4, 8)},
            args("", x=of("float16", "pages", "page"), page=of("int32", "copied"), y=of("float16", "copied", "page")),
            by_page, lambda p, t: t["x_ptr"][t["page_ptr"].long()], constants="page", tolerance=0.0, values=pages),
    subject("rows", zoo.inverted, shapes("n", (1 << 22,), (1_000_000,)), LINES,
            args("n", x=of("float32", "n", 6), y=of("float32", "n", 6), z=of("float32", "n")), line, inverted_want,
            output="y_ptr z_ptr"),
    subject("rows", zoo.split_columns, shapes("rows cols split", (32_768, 4096, 16), (20_000, 1000, 100)),
            {"BLOCK_R": (4, 8, 16, 32, 64), "BLOCK_C": (32, 64, 128, 256), "num_warps": (1, 2, 4, 8)},
            args("rows cols", x=of("float16", "rows", "cols"), y=of("float32", "split", "cols"),
                 z=of("float32", "split", "cols")),
            lambda p, c: (cdiv(p["cols"], c["BLOCK_C"]), p["split"]), moments_want, output="y_ptr z_ptr",
            constants="split"),
]  # fmt: skip
SMALL = {name: shapes(names, row) for name, names, row in (
    ("lattice_step", "high wide", (9, 20)), ("likeness", "high wide", (12, 40)),
    ("patches", "high wide side step", (20, 30, 7, 2)), ("labelled_sums", "n width clusters", (50, 40, 5)),
    ("degrees", "n nodes skew", (300, 20, 2)), ("pillars", "n channels cells", (70, 16, 9)),
    ("interpolate", "n rows width near apart", (50, 30, 40, 3, 5)), ("edge_softmax", "nodes most", (9, 100)),
    ("graded", "n side rough", (200, 5, 9)), ("pages_copied", "pages copied page", (9, 5, 576)),
    ("inverted", "n", (300,)), ("split_columns", "rows cols split", (64, 50, 2)),
)}  # fmt: skip
"""A problem of each kernel for Triton's interpreter."""
