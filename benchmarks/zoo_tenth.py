"""The seventeen kernels of `kernels/triton_zoo_tenth.py` as `zoo.py` measures them, two problems each. All were
predicted before they were timed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from kernels import triton_zoo_tenth as zoo
from zoo_blind import LINES, TOKENS, args, counts, of, picked, shifts
from zoo_edges import LINE, TILE, ints, line, plane, subject
from zoo_eighth import by_tokens
from zoo_forms import drawn, starts
from zoo_more import shapes
from zoo_subject import Arrays, Problem, cdiv

from carver.compiled.binary import Tensor


def winograd_want(p: Problem, t: Arrays) -> Any:
    import torch

    x = torch.nn.functional.pad(t["x_ptr"].float(), (1, 1, 1, 1)).unfold(1, 4, 2).unfold(2, 4, 2)
    for axis in (3, 4):
        a, b, c, d = x.unbind(axis)
        x = torch.stack((a - c, b + c, c - b, b - d), axis)
    return x.permute(3, 4, 0, 1, 2).reshape(16, p["planes"], -1)


def cost_want(p: Problem, t: Arrays) -> Any:
    import torch

    a, b = t["a_ptr"].float(), torch.nn.functional.pad(t["b_ptr"].float(), (p["most"], 0))
    return torch.stack([(a * b[..., p["most"] - k : b.shape[-1] - k]).sum(0) for k in range(p["most"])])


def demosaic_want(p: Problem, t: Arrays) -> Any:
    import torch

    at = shifts(t["x_ptr"], 1, 0.0)
    own, side, above = at[4], at[3] + at[5], at[1] + at[7]
    corner = at[0] + at[2] + at[6] + at[8]
    even_r = (torch.arange(p["high"], device=own.device) % 2 == 0)[:, None].expand_as(own)
    even_c = (torch.arange(p["wide"], device=own.device) % 2 == 0)[None].expand_as(own)
    side, above, corner, both = side // 2, above // 2, corner // 4, (side + above) // 4
    low, high = torch.where(even_c, above, corner), torch.where(even_c, corner, above)
    red, blue = torch.where(even_r, torch.where(even_c, own, side), low), torch.where(even_c, side, own)
    blue, green = torch.where(even_r, high, blue), torch.where(even_r == even_c, both, own)
    return torch.stack((red, green, blue), -1)


def enlarge_want(p: Problem, t: Arrays) -> Any:
    import torch

    w = t["w_ptr"].reshape(-1, 1, 4, 4)
    return torch.nn.functional.conv_transpose2d(t["x_ptr"].float(), w, stride=2, padding=1, groups=p["channels"])


def turned(p: Problem) -> dict[str, Any]:
    """Where each pixel of a turned image lies in the other, within its edges."""
    r, c = np.mgrid[: p["high"], : p["wide"]].astype(np.float64)
    u = (c - p["wide"] / 2) * math.cos(p["turn"]) - (r - p["high"] / 2) * math.sin(p["turn"]) + p["wide"] / 2
    v = (c - p["wide"] / 2) * math.sin(p["turn"]) + (r - p["high"] / 2) * math.cos(p["turn"]) + p["high"] / 2
    inside = (np.clip(u, 0, p["wide"] - 1.01), np.clip(v, 0, p["high"] - 1.01))
    return {n: x.astype(np.float32).ravel() for n, x in zip(("u_ptr", "v_ptr"), inside, strict=True)}


def sample_want(p: Problem, t: Arrays) -> Any:
    c, r, g, y = t["u_ptr"].int(), t["v_ptr"].int(), t["g_ptr"], 0.0
    u, v, cells = t["u_ptr"] - c, t["v_ptr"] - r, p["high"] * p["wide"]
    for a in (0, 1):
        for b in (0, 1):
            weight = (u if b else 1 - u) * (v if a else 1 - v)
            y = y + counts((r + a) * p["wide"] + c + b, (cells, p["channels"]), (g * weight).T)
    return y.T.reshape(-1, p["high"], p["wide"])


def rows_want(p: Problem, t: Arrays) -> Any:
    import torch

    row = torch.arange(p["rows"], device=t["x_ptr"].device)[:, None]
    return counts(row * p["bins"] + t["x_ptr"].int(), (p["rows"] * p["bins"],))


def coo_want(p: Problem, t: Arrays) -> Any:
    rows = t["x_ptr"].float()[t["col_ptr"].long()] * t["v_ptr"][:, None]
    return counts(t["row_ptr"], (p["rows"], p["width"]), rows)


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


def pool_want(p: Problem, t: Arrays) -> Any:
    g = t["g_ptr"].float()
    return g.new_zeros(p["planes"], p["side"] ** 2).scatter_add_(1, t["at_ptr"].long(), g)


def sparse(p: Problem) -> dict[str, Any]:
    start = starts(p, "rows", "most")
    return {"start_ptr": start, "col_ptr": drawn(109).integers(0, p["cols"], start[-1], dtype=np.int32)}


def spmm_args(p: Problem) -> dict[str, Any]:
    n = int(starts(p, "rows", "most")[-1])
    return {"start_ptr": ints(p["rows"] + 1), "col_ptr": ints(n), "v_ptr": Tensor("float32", (n,)),
            "x_ptr": Tensor("float16", (p["cols"], p["width"])),
            "y_ptr": Tensor("float32", (p["rows"], p["width"]))}  # fmt: skip


def spmm_want(p: Problem, t: Arrays) -> Any:
    import torch

    row = torch.repeat_interleave(torch.arange(p["rows"], device=t["v_ptr"].device), t["start_ptr"].diff().long())
    return counts(row, (p["rows"], p["width"]), t["x_ptr"].float()[t["col_ptr"].long()] * t["v_ptr"][:, None])


def ends(p: Problem) -> dict[str, Any]:
    cuts = np.sort(drawn(113).choice(np.arange(1, p["n"]), p["runs"] - 1, replace=False))
    return {"end_ptr": np.append(cuts, p["n"]).astype(np.int32)}


def runs_want(p: Problem, t: Arrays) -> Any:
    import torch

    return torch.repeat_interleave(t["value_ptr"], torch.diff(t["end_ptr"].long(), prepend=t["end_ptr"].new_zeros(1)))


def near(p: Problem) -> dict[str, Any]:
    """Of each tap a point not far away, or none."""
    draw = drawn(127)
    at = np.arange(p["n"]) + draw.integers(-400, 401, (p["taps"], p["n"]))
    gone = (draw.random(at.shape) > p["share"]) | (at < 0) | (at >= p["n"])
    return {"at_ptr": np.where(gone, -1, at).astype(np.int32)}


def gathered_want(p: Problem, t: Arrays) -> Any:
    import torch

    x = torch.nn.functional.pad(t["x_ptr"].float(), (0, 0, 0, 1))
    w = t["w_ptr"].float().reshape(p["taps"], p["width"], p["out"])
    return sum(x[t["at_ptr"][k].long()] @ w[k] for k in range(p["taps"]))


def twiddles(p: Problem) -> dict[str, Any]:
    angle = -2 * np.pi * np.arange(3 * p["stride"]) / (4 * p["stride"])
    return {"cos_ptr": np.cos(angle).astype(np.float32), "sin_ptr": np.sin(angle).astype(np.float32)}


def fft_want(p: Problem, t: Arrays) -> Any:
    import torch

    x = torch.complex(t["re_ptr"], t["im_ptr"]).reshape(p["signals"], 4, -1, p["stride"])
    w = torch.complex(t["cos_ptr"], t["sin_ptr"])
    k = torch.arange(p["stride"], device=w.device)
    y = torch.fft.fft(torch.stack([x[:, q] * w[q * k] for q in range(4)], 1), dim=1)
    y = y.transpose(1, 2).reshape(p["signals"], -1)
    return y.real, y.imag


def recurrence_want(p: Problem, t: Arrays) -> Any:
    import torch

    h, every = 0.0, []
    for a, b in zip(t["a_ptr"].float().unbind(1), t["b_ptr"].float().unbind(1), strict=True):
        h = a * h + b
        every.append(h)
    return torch.stack(every, 1)


def totals_want(p: Problem, t: Arrays) -> Any:
    import torch

    flag, total = t["flag_ptr"].reshape(-1, p["each"]) != 0, t["x_ptr"].double().reshape(-1, p["each"]).cumsum(1)
    place = torch.where(flag, torch.arange(p["each"], device=total.device), -1).cummax(1).values
    return (total - torch.where(place > 0, total.gather(1, (place - 1).clamp(0)), 0.0)).flatten()


def threshold_want(p: Problem, t: Arrays) -> Any:
    import torch

    x = t["x_ptr"].float()
    return torch.where(x >= x.topk(p["top"], 1).values[:, -1:], x, 0.0)


def above(p: Problem, c: Any, t: Arrays) -> Any:
    """Without what lies within the last halving of the limit."""
    import torch

    x = t["x_ptr"].float()
    limit = x.topk(p["top"], 1).values[:, -1:]
    return torch.where((x - limit).abs() < 1e-3, torch.where(x >= limit, x, 0.0), t["y_ptr"].float())


def lstm_want(p: Problem, t: Arrays) -> Any:
    a, b, d, e = t["g_ptr"].float().reshape(p["rows"], 4, p["cols"]).unbind(1)
    z = b.sigmoid() * t["c_ptr"] + a.sigmoid() * d.tanh()
    return e.sigmoid() * z.tanh(), z


ROWS = {"BLOCK_R": (1, 2, 4, 8, 16), "num_warps": (1, 2, 4, 8)}
SUBJECTS = [
    subject("windows", zoo.winograd_input, shapes("planes high wide", (2048, 112, 112), (20_000, 28, 28)), LINES,
            args("high wide", x=of("float16", "planes", "high", "wide"),
                 y=lambda p: Tensor("float16", (16, p["planes"], p["high"] // 2 * (p["wide"] // 2)))),
            lambda p, c: (cdiv(p["high"] // 2 * (p["wide"] // 2), c["BLOCK"]), p["planes"]), winograd_want),
    subject("windows", zoo.cost_volume, shapes("channels high wide most", (32, 270, 960, 48), (16, 500, 700, 24)),
            LINES, args("high wide", a=of("float16", "channels", "high", "wide"),
                        b=of("float16", "channels", "high", "wide"), y=of("float32", "most", "high", "wide")),
            lambda p, c: (cdiv(p["wide"], c["BLOCK"]), p["high"], p["most"]), cost_want, constants="channels"),
    subject("windows", zoo.demosaic, shapes("high wide", (6000, 8000), (3001, 4500)), TILE,
            args("high wide", x=of("uint8", "high", "wide"), y=of("uint8", "high", "wide", 3)),
            lambda p, c: (cdiv(p["wide"], c["BLOCK_C"]), cdiv(p["high"], c["BLOCK_R"])), demosaic_want),
    subject("windows", zoo.enlarge_learned, shapes("images channels high wide", (8, 64, 96, 96), (3, 300, 50, 70)),
            TILE, args("channels high wide", x=of("float16", "images", "channels", "high", "wide"),
                       w=of("float32", "channels", 16),
                       y=lambda p: Tensor("float16", (p["images"], p["channels"], 2 * p["high"], 2 * p["wide"]))),
            lambda p, c: (cdiv(2 * p["wide"], c["BLOCK_C"]), cdiv(2 * p["high"], c["BLOCK_R"]),
                          p["images"] * p["channels"]), enlarge_want),
    subject("atomics", zoo.sample_backward, shapes("high wide channels turn", (1024, 1024, 8, 0.2),
                                                   (700, 500, 30, 1.4)), LINE,
            lambda p: {**args("high wide", y=of("float32", "channels", "high", "wide"))(p),
                       "g_ptr": Tensor("float32", (p["channels"], p["high"] * p["wide"])), "n": p["high"] * p["wide"],
                       "u_ptr": Tensor("float32", (p["high"] * p["wide"],)),
                       "v_ptr": Tensor("float32", (p["high"] * p["wide"],))},
            lambda p, c: (cdiv(p["high"] * p["wide"], c["BLOCK"]),),
            sample_want, constants="channels", values=turned),
    subject("atomics", zoo.rows_histogram, shapes("rows cols bins skew", (4096, 4096, 256, 1), (60_000, 500, 32, 2)),
            TILE, args("rows cols", x=of("uint8", "rows", "cols"),
                       y=lambda p: Tensor("int32", (p["rows"] * p["bins"],))), plane, rows_want, constants="bins",
            tolerance=0.0, values=lambda p: {"x_ptr": picked(131, "bins", "rows", "cols", skew=p["skew"],
                                                             dtype=np.uint8)(p)}),
    subject("atomics", zoo.coo_rows, shapes("n rows cols width", (400_000, 30_000, 30_000, 64),
                                            (100_000, 2000, 50_000, 200)), TOKENS,
            args("n width", row=of("int32", "n"), col=of("int32", "n"), v=of("float32", "n"),
                 x=of("float16", "cols", "width"), y=of("float32", "rows", "width")),
            by_tokens("n", "width"), coo_want, values=entries),
    subject("atomics", zoo.pool_gradient, shapes("planes side", (1024, 114), (8000, 58)), LINES,
            lambda p: {"g_ptr": Tensor("float16", (p["planes"], pooled(p))), "n": pooled(p), "size": p["side"] ** 2,
                       "at_ptr": Tensor("int32", (p["planes"], pooled(p))),
                       "y_ptr": Tensor("float32", (p["planes"], p["side"] ** 2))},
            lambda p, c: (cdiv(pooled(p), c["BLOCK"]), p["planes"]), pool_want, values=largest_places),
    subject("gathers", zoo.spmm_rows, shapes("rows cols width most", (30_000, 30_000, 128, 40),
                                             (5000, 100_000, 300, 200)),
            {"BLOCK_T": (1, 2, 4, 8, 16, 32), "BLOCK_C": (32, 64, 128, 256), "num_warps": (1, 2, 4, 8)}, spmm_args,
            lambda p, c: (p["rows"], cdiv(p["width"], c["BLOCK_C"])), spmm_want, constants="width", values=sparse),
    subject("gathers", zoo.expand_runs, shapes("n runs steps", (1 << 25, 200_000, 18), (1 << 23, 1 << 21, 22)), LINE,
            args("n runs", end=of("int32", "runs"), value=of("float32", "runs"), y=of("float32", "n")), line,
            runs_want, constants="steps", values=ends),
    subject("gathers", zoo.gathered_products, shapes("n taps width out share", (100_000, 27, 64, 64, 0.4),
                                                     (40_000, 9, 128, 256, 0.8)),
            {"BLOCK_M": (16, 32, 64, 128), "BLOCK_N": (32, 64, 128), "BLOCK_K": (32, 64), "num_warps": (2, 4, 8),
             "num_stages": (2, 3, 4)},
            args("n", x=of("float16", "n", "width"), at=of("int32", "taps", "n"),
                 w=lambda p: Tensor("float16", (p["taps"] * p["width"], p["out"])), y=of("float16", "n", "out")),
            lambda p, c: (cdiv(p["n"], c["BLOCK_M"]), cdiv(p["out"], c["BLOCK_N"])), gathered_want,
            constants="taps width out", values=near, keep=lambda p, c: c["BLOCK_N"] <= p["out"]
            and 8 <= c["BLOCK_M"] * c["BLOCK_N"] / c["num_warps"] / 32 <= 128),
    subject("gathers", zoo.fft_pass, shapes("signals n stride", (512, 16384, 64), (40, 262_144, 1)), LINES,
            args("n", re=of("float32", "signals", "n"), im=of("float32", "signals", "n"),
                 cos=lambda p: Tensor("float32", (3 * p["stride"],)),
                 sin=lambda p: Tensor("float32", (3 * p["stride"],)), y=of("float32", "signals", "n"),
                 z=of("float32", "signals", "n")),
            lambda p, c: (cdiv(p["n"] // 4, c["BLOCK"]), p["signals"]), fft_want, constants="stride",
            output="y_ptr z_ptr", values=twiddles),
    subject("scans", zoo.recurrence, shapes("rows cols", (20_000, 1024), (3000, 4096)),
            {"BLOCK_R": (1, 2, 4, 8, 16), "BLOCK_C": (64, 128, 256, 512, 1024), "num_warps": (1, 2, 4, 8)},
            args("rows", a=of("float16", "rows", "cols"), b=of("float16", "rows", "cols"),
                 y=of("float32", "rows", "cols")), lambda p, c: (cdiv(p["rows"], c["BLOCK_R"]),), recurrence_want,
            constants="cols"),
    subject("scans", zoo.runs_total, shapes("n each", (1 << 25, 4096), (4_096_000, 2048)),
            {"BLOCK": (128, 256, 512, 1024, 2048), "num_warps": (1, 2, 4, 8)},
            args("", flag=of("int8", "n"), x=of("float32", "n"), y=of("float32", "n")),
            lambda p, c: (p["n"] // p["each"],), totals_want, constants="each",
            values=lambda p: {"flag_ptr": (drawn(137).random(p["n"]) < 0.02).astype(np.int8)}),
    subject("sorts", zoo.sort_rows, shapes("rows cols", (40_000, 256), (100_000, 64)), ROWS,
            args("rows", x=of("float32", "rows", "cols"), y=of("float32", "rows", "cols")),
            lambda p, c: (cdiv(p["rows"], c["BLOCK_R"]),), lambda p, t: t["x_ptr"].sort(1).values, constants="cols",
            tolerance=0.0, keep=lambda p, c: 1 <= c["BLOCK_R"] * p["cols"] / c["num_warps"] / 32 <= 16),
    subject("rows", zoo.threshold_rows, shapes("rows cols top", (30_000, 1000, 50), (6000, 4000, 10)),
            {"BLOCK_R": (1, 2, 4, 8), "BLOCK": (1024, 4096), "num_warps": (1, 2, 4, 8, 16)},
            args("rows cols", x=of("float16", "rows", "cols"), y=of("float16", "rows", "cols")),
            lambda p, c: (cdiv(p["rows"], c["BLOCK_R"]),), threshold_want, constants="top", got=above,
            keep=lambda p, c: p["cols"] <= c["BLOCK"] < 2 * p["cols"]
            and 2 <= c["BLOCK_R"] * c["BLOCK"] / c["num_warps"] / 32 <= 64),
    subject("rows", zoo.lstm_cell, shapes("rows cols", (8192, 1024), (3000, 1500)), TILE,
            args("rows cols", g=lambda p: Tensor("float16", (p["rows"], 4 * p["cols"])),
                 c=of("float32", "rows", "cols"), y=of("float16", "rows", "cols"), z=of("float32", "rows", "cols")),
            plane, lstm_want, output="y_ptr z_ptr"),
]  # fmt: skip
SMALL = {name: shapes(names, row) for name, names, row in (
    ("winograd_input", "planes high wide", (3, 10, 12)), ("cost_volume", "channels high wide most", (3, 4, 50, 6)),
    ("demosaic", "high wide", (9, 40)), ("enlarge_learned", "images channels high wide", (2, 3, 5, 7)),
    ("sample_backward", "high wide channels turn", (12, 14, 2, 0.3)),
    ("rows_histogram", "rows cols bins skew", (9, 50, 8, 2)), ("coo_rows", "n rows cols width", (50, 9, 12, 40)),
    ("pool_gradient", "planes side", (3, 14)), ("spmm_rows", "rows cols width most", (9, 30, 40, 7)),
    ("expand_runs", "n runs steps", (300, 20, 5)), ("fft_pass", "signals n stride", (2, 256, 4)),
    ("gathered_products", "n taps width out share", (70, 3, 64, 64, 0.7)), ("recurrence", "rows cols", (5, 1024)),
    ("runs_total", "n each", (8192, 2048)), ("sort_rows", "rows cols", (5, 64)),
    ("threshold_rows", "rows cols top", (5, 1000, 9)), ("lstm_cell", "rows cols", (5, 50)),
)}  # fmt: skip
"""A problem of each kernel for Triton's interpreter."""
