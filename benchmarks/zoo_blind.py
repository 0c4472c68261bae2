"""The 24 kernels of `kernels/triton_zoo_blind.py` as `zoo.py` measures them: ten of windows, seven of atomics, seven of
gathers, two problems each. Every second one, beginning with the second, is `unseen`. No rule of the model follows from
any.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from kernels import triton_zoo_blind as zoo
from zoo_edges import LINE, TILE, framed, line, plane, subject
from zoo_forms import drawn
from zoo_more import shapes
from zoo_subject import Arrays, Problem, cdiv

from carver.compiled.binary import Tensor

TOKENS = {"BLOCK_T": (1, 2, 4, 8, 16, 32), "BLOCK_C": (16, 64, 128, 256), "num_warps": (1, 2, 4, 8)}
LINES = {"BLOCK": (64, 128, 256, 512, 1024), "num_warps": (1, 2, 4, 8)}


def of(dtype: str, *axes: str | int) -> Any:
    """A tensor of a problem's extents, by their names."""
    return lambda p: Tensor(dtype, tuple(p[n] if isinstance(n, str) else n for n in axes))


def args(numbers: str = "", **tensors: Any) -> Any:
    """Tensors, then numbers by the names of a problem's."""
    return lambda p: {**{f"{n}_ptr": made(p) for n, made in tensors.items()}, **{n: p[n] for n in numbers.split()}}


def along(size: str, count: str, block: str = "BLOCK") -> Any:
    return lambda p, c: (cdiv(math.prod(p[n] for n in size.split()), c[block]), p[count])


def picked(seed: int, most: str, *axes: str, skew: float = 1.0, dtype: Any = np.int32) -> Any:
    """Whole numbers below p[most], low ones more often where `skew` is above 1."""
    return lambda p: (drawn(seed).random([p[n] for n in axes]) ** skew * p[most]).astype(dtype)


def shifts(x: Any, reach: int, value: float | None = None) -> list[Any]:
    """An image, moved by as many rows and columns: with a value beyond its edges, or these repeated."""
    import torch

    mode = {"mode": "replicate"} if value is None else {"value": value}
    wide, (rows, cols) = torch.nn.functional.pad(x.float()[None], (reach,) * 4, **mode)[0], x.shape
    return [wide[a : a + rows, b : b + cols] for a in range(2 * reach + 1) for b in range(2 * reach + 1)]


def largest(parts: list[Any]) -> Any:
    import torch

    return torch.stack(parts).amax(0)


def pool_want(p: Problem, t: Arrays) -> Any:
    import torch

    return torch.nn.functional.max_pool3d(t["x_ptr"].float(), 2)


def blur_want(p: Problem, t: Arrays) -> Any:
    import torch

    x, n = t["x_ptr"].float(), p["reach"]
    wide = torch.nn.functional.pad(x[None], (n, n, 0, 0), mode="replicate")[0]
    return (wide.unfold(1, 2 * n + 1, 1).sum(-1) / (2 * n + 1)).floor()


def median_want(p: Problem, t: Arrays) -> Any:
    import torch

    return torch.nn.functional.pad(t["x_ptr"], (2, 2), mode="replicate").unfold(1, 5, 1).median(-1).values


def frames_want(p: Problem, t: Arrays) -> Any:
    import torch

    weight = torch.arange(1, p["width"] + 1, device=t["x_ptr"].device)
    return (t["x_ptr"].unfold(1, p["width"], p["hop"])[:, : p["frames"]] ** 2 * weight).sum(-1)


def laplace_want(p: Problem, t: Arrays) -> Any:
    x, y = t["x_ptr"], -60.0 * t["x_ptr"]
    for k, by in ((1, 16.0), (2, -1.0)):
        y = y + by * sum(x.roll(s * k, axis) for s in (1, -1) for axis in (0, 1))
    return framed(y[2:-2, 2:-2], x.shape, (2, 2))


def volume_want(p: Problem, t: Arrays) -> Any:
    import torch

    y = torch.nn.functional.conv3d(t["x_ptr"].float()[None, None], t["w_ptr"].float().reshape(1, 1, 3, 3, 3))[0, 0]
    return framed(y, t["x_ptr"].shape, (1, 1, 1))


def contrast_want(p: Problem, t: Arrays) -> Any:
    import torch

    y = [x - (sum(shifts(x, 1, 0.0)) / 9 + 1e-4).floor() + 128 for x in t["x_ptr"].float().unbind(-1)]
    return framed(torch.stack(y, -1)[1:-1, 1:-1].clamp(0, 255), t["x_ptr"].shape, (1, 1, 0))


def causal_want(p: Problem, t: Arrays) -> Any:
    import torch

    x, w = t["x_ptr"].float(), t["w_ptr"].float()
    wide = torch.nn.functional.pad(x, (0, 0, p["apart"] * p["taps"], 0))[-p["length"] - p["apart"] * (p["taps"] - 1) :]
    last = p["apart"] * (p["taps"] - 1)
    return sum(w[k] * wide[last - k * p["apart"] :][: p["length"]] for k in range(p["taps"])).relu()


def last_want(p: Problem, t: Arrays) -> Any:
    import torch

    return torch.nn.functional.avg_pool2d(t["x_ptr"].float().permute(0, 3, 1, 2), p["side"]).permute(0, 2, 3, 1)


def counts(at: Any, shape: Any, x: Any = None) -> Any:
    """Zeros, and at those places of its rows one more for each, or what x has more."""
    out = at.new_zeros(shape).float() if x is None else x.new_zeros(shape).float()
    return out.index_put_((at.flatten().long(),), at.new_ones(at.numel()).float() if x is None else x.float(), True)


def depth_want(p: Problem, t: Arrays) -> Any:
    zeros = t["depth_ptr"].new_zeros(p["pixels"])
    return zeros.scatter_reduce(0, t["to_ptr"].long(), t["depth_ptr"], "amax")


def confusion_want(p: Problem, t: Arrays) -> Any:
    import torch

    image = torch.arange(p["images"], device=t["label_ptr"].device)[:, None]
    at = (image * p["classes"] + t["label_ptr"]) * p["classes"] + t["guess_ptr"]
    return counts(at, (p["images"] * p["classes"] ** 2,))


def colours_want(p: Problem, t: Arrays) -> Any:
    import torch

    grid = t["x_ptr"].T.reshape(1, 1, 1, -1, 3) * 2 - 1
    table = t["table_ptr"].reshape(1, *(p["side"],) * 3, 3).permute(0, 4, 1, 2, 3)
    return torch.nn.functional.grid_sample(table, grid, align_corners=True).reshape(3, -1)


def turned_want(p: Problem, t: Arrays) -> Any:
    import torch

    a, b = t["x_ptr"].float().unbind(-1)
    cos, sin = (t[n].float()[t["at_ptr"].long()][:, None] for n in ("cos_ptr", "sin_ptr"))
    return torch.stack([a * cos - b * sin, b * cos + a * sin], -1)


def codes_want(p: Problem, t: Arrays) -> Any:
    code = t["code_ptr"].long()
    return sum(t["table_ptr"][:, k, code[:, k]] for k in range(p["parts"]))


def enlarged_want(p: Problem, t: Arrays) -> Any:
    import torch

    size = p["out_high"], p["out_wide"]
    return torch.nn.functional.interpolate(t["x_ptr"].float()[None], size, mode="bilinear", align_corners=True)[0]


def unwound_want(p: Problem, t: Arrays) -> Any:
    import torch

    i = torch.arange(p["side"], device=t["x_ptr"].device)
    spread = sum((i >> bit & 1) << 2 * bit for bit in range(12))
    return t["x_ptr"].float().flatten(1)[:, spread[None, :] | spread[:, None] << 1]


def image(dtype: str, out: str = "") -> Any:
    return args("rows cols", x=of(dtype, "rows", "cols"), y=of(out or dtype, "rows", "cols"))


LISTED = [
    subject("windows", zoo.dilate, shapes("rows cols side", (4320, 7680, 3), (2000, 3000, 5)), TILE, image("uint8"),
            plane, lambda p, t: largest(shifts(t["x_ptr"], p["side"] // 2, 0.0)), constants="side"),
    subject("windows", zoo.box_blur, shapes("rows cols reach", (4096, 8192, 4), (3000, 1500, 7)), TILE, image("uint8"),
            plane, blur_want, constants="reach"),
    subject("windows", zoo.median_of_five, shapes("signals length", (64, 1 << 20), (20000, 1500)), LINE,
            args("length", x=of("float32", "signals", "length"), y=of("float32", "signals", "length")),
            along("length", "signals"), median_want),
    subject("windows", zoo.halve_volume, shapes("volumes deep high wide", (64, 64, 128, 128), (512, 30, 56, 60)), LINES,
            lambda p: {**args("deep high wide", x=of("float16", "volumes", "deep", "high", "wide"))(p), "y_ptr": Tensor(
                "float16", (p["volumes"], p["deep"] // 2, p["high"] // 2, p["wide"] // 2))},
            lambda p, c: (cdiv(p["deep"] * p["high"] * p["wide"] // 8, c["BLOCK"]), p["volumes"]),
            pool_want),
    subject("windows", zoo.frames_energy, shapes("signals length frames hop width", (256, 441000, 1720, 256, 512),
                                                 (64, 960000, 23996, 40, 160)), LINES,
            args("length frames", x=of("float32", "signals", "length"), y=of("float32", "signals", "frames")),
            along("frames", "signals"), frames_want, constants="hop width"),
    subject("windows", zoo.laplace_double, shapes("rows cols", (4096, 4096), (1800, 3600)), TILE, image("float64"),
            plane, laplace_want, most=16),
    subject("windows", zoo.conv_depth_3d, shapes("planes rows cols", (128, 512, 512), (200, 200, 300)), TILE,
            args("rows cols", x=of("float16", "planes", "rows", "cols"), w=of("float16", 27),
                 y=of("float16", "planes", "rows", "cols")),
            lambda p, c: (*plane(p, c), p["planes"] - 2), volume_want, most=16),
    subject("windows", zoo.contrast_hwc, shapes("rows cols", (2160, 3840), (1000, 1500)), TILE,
            args("rows cols", x=of("uint8", "rows", "cols", 3), y=of("uint8", "rows", "cols", 3)), plane, contrast_want,
            most=8),
    subject("windows", zoo.dilated_causal, shapes("length width apart taps", (65536, 512, 64, 3), (100000, 200, 2, 7)),
            TOKENS, args("length width", x=of("bfloat16", "length", "width"), w=of("bfloat16", "taps", "width"),
                         y=of("bfloat16", "length", "width")),
            lambda p, c: (cdiv(p["width"], c["BLOCK_C"]), cdiv(p["length"], c["BLOCK_T"])), causal_want,
            constants="apart taps"),
    subject("windows", zoo.pool_channels_last, shapes("images high wide width side", (64, 56, 56, 256, 2),
                                                      (128, 64, 48, 96, 4)),
            {"BLOCK_P": (1, 2, 4, 8, 16, 32), "BLOCK_C": (32, 64, 128), "num_warps": (1, 2, 4, 8)},
            lambda p: {"x_ptr": Tensor("float16", (p["images"], p["high"], p["wide"], p["width"])), "y_ptr": Tensor(
                "float16", (p["images"], p["high"] // p["side"], p["wide"] // p["side"], p["width"])),
                **{n: p[n] for n in ("high", "wide", "width")}},
            lambda p, c: (cdiv(p["high"] * p["wide"] // p["side"] ** 2, c["BLOCK_P"]), cdiv(p["width"], c["BLOCK_C"]),
                          p["images"]), last_want, constants="side"),
    subject("atomics", zoo.joint_histogram, shapes("n skew bins", (1 << 24, 1.0, 256), (1 << 24, 3.0, 256)), LINE,
            args("n", a=of("uint8", "n"), b=of("uint8", "n"), y=of("int32", 65536)), line,
            lambda p, t: counts(t["a_ptr"].int() * 256 + t["b_ptr"], (65536,)), tolerance=0.0,
            values=lambda p: {f"{n}_ptr": picked(i, "bins", "n", skew=p["skew"], dtype=np.uint8)(p)
                              for i, n in enumerate("ab")}),
    subject("atomics", zoo.cluster_sums, shapes("n clusters width", (1 << 19, 1000, 64), (1 << 21, 100000, 16)),
            {"BLOCK": (1, 2, 4, 8, 16, 32, 64, 128), "num_warps": (1, 2, 4, 8)},
            args("n", x=of("float32", "n", "width"), to=of("int32", "n"), y=of("float32", "clusters", "width"),
                 count=of("int32", "clusters")), line,
            lambda p, t: (counts(t["to_ptr"], (p["clusters"], p["width"]), t["x_ptr"]),
                          counts(t["to_ptr"], (p["clusters"],))),
            constants="width", output="y_ptr count_ptr", values=lambda p: {"to_ptr": picked(3, "clusters", "n")(p)},
            keep=lambda p, c: 1 <= c["BLOCK"] * p["width"] / (32 * c["num_warps"]) <= 32),
    subject("atomics", zoo.nearest_depth, shapes("n pixels", (1 << 23, 1 << 21), (1 << 22, 1 << 25)), LINE,
            args("n", to=of("int32", "n"), depth=of("int32", "n"), y=of("int32", "pixels")), line, depth_want,
            tolerance=0.0, values=lambda p: {"to_ptr": picked(5, "pixels", "n")(p)}),
    subject("atomics", zoo.split_gemv, shapes("rows cols", (4096, 65536), (20000, 3000)), TILE,
            args("rows cols", a=of("float16", "rows", "cols"), x=of("float16", "cols"), y=of("float32", "rows")), plane,
            lambda p, t: t["a_ptr"].float() @ t["x_ptr"].float()),
    subject("atomics", zoo.add_half_rows, shapes("n nodes width", (100000, 20000, 128), (8192, 2000, 1000)), TOKENS,
            args("n width", x=of("float16", "n", "width"), to=of("int32", "n"), y=of("float16", "nodes", "width")),
            lambda p, c: (cdiv(p["width"], c["BLOCK_C"]), cdiv(p["n"], c["BLOCK_T"])),
            lambda p, t: counts(t["to_ptr"], (p["nodes"], p["width"]), t["x_ptr"]),
            values=lambda p: {"to_ptr": picked(7, "nodes", "n")(p)}),
    subject("atomics", zoo.confusion, shapes("images area classes", (16, 1 << 20, 19), (64, 65536, 150)), LINE,
            args("area classes", label=of("int32", "images", "area"), guess=of("int32", "images", "area"),
                 y=lambda p: Tensor("int32", (p["images"] * p["classes"] ** 2,))), along("area", "images"),
            confusion_want, tolerance=0.0,
            values=lambda p: {f"{n}_ptr": picked(i, "classes", "images", "area", skew=2.0)(p)
                              for i, n in enumerate(("label", "guess"))}),
    subject("atomics", zoo.scale_gradient, shapes("rows cols", (32768, 2048), (5000, 10000)), TILE,
            args("rows cols", x=of("bfloat16", "rows", "cols"), g=of("float32", "rows", "cols"),
                 y=of("float32", "cols")), plane, lambda p, t: (t["x_ptr"].float() * t["g_ptr"]).sum(0)),
    subject("gathers", zoo.colour_table, shapes("n side", (1 << 23, 33), (2_000_000, 65)), LINES,
            args("n", x=of("float32", 3, "n"), table=lambda p: Tensor("float32", (p["side"] ** 3, 3)),
                 y=of("float32", 3, "n")), line, colours_want, constants="side", most=8,
            values=lambda p: {"x_ptr": (drawn(11).random((3, p["n"])) * 0.999).astype(np.float32)}),
    subject("gathers", zoo.turn_by_place, shapes("tokens heads half places", (16384, 32, 64, 8192),
                                                 (40000, 8, 32, 100000)),
            {"BLOCK_T": (1, 2, 4, 8, 16, 32, 64), "num_warps": (1, 2, 4, 8)},
            args("tokens heads", x=of("bfloat16", "tokens", "heads", "half", 2), cos=of("float32", "places", "half"),
                 sin=of("float32", "places", "half"), at=of("int64", "tokens"),
                 y=of("bfloat16", "tokens", "heads", "half", 2)), along("tokens", "heads", "BLOCK_T"), turned_want,
            constants="half", values=lambda p: {"at_ptr": picked(13, "places", "tokens", dtype=np.int64)(p)},
            keep=lambda p, c: 1 <= c["BLOCK_T"] * p["half"] / (32 * c["num_warps"]) <= 32),
    subject("gathers", zoo.listed_distances, shapes("questions each rows width", (256, 4096, 1_000_000, 128),
                                                    (2000, 500, 100_000, 64)),
            {"BLOCK": (1, 2, 4, 8, 16, 32, 64), "num_warps": (1, 2, 4, 8)},
            args("each", q=of("float16", "questions", "width"), x=of("float16", "rows", "width"),
                 id=of("int32", "questions", "each"), y=of("float32", "questions", "each")), along("each", "questions"),
            lambda p, t: ((t["x_ptr"][t["id_ptr"].long()].float() - t["q_ptr"].float()[:, None]) ** 2).sum(-1),
            constants="width", values=lambda p: {"id_ptr": picked(17, "rows", "questions", "each")(p)},
            keep=lambda p, c: 1 <= c["BLOCK"] * p["width"] / (32 * c["num_warps"]) <= 64),
    subject("gathers", zoo.neighbour_max, shapes("nodes width degree", (50000, 128, 16), (10000, 600, 24)), TOKENS,
            args("nodes width", x=of("float16", "nodes", "width"), id=of("int32", "nodes", "degree"),
                 y=of("float16", "nodes", "width")),
            lambda p, c: (cdiv(p["width"], c["BLOCK_C"]), cdiv(p["nodes"], c["BLOCK_T"])),
            lambda p, t: t["x_ptr"].float()[t["id_ptr"].long()].amax(1), constants="degree",
            values=lambda p: {"id_ptr": picked(19, "nodes", "nodes", "degree")(p)}),
    subject("gathers", zoo.code_distances, shapes("n questions parts bytes", (1 << 21, 8, 16, 256),
                                                  (300_000, 64, 32, 256)), LINES,
            args("n", code=of("uint8", "n", "parts"), table=of("float32", "questions", "parts", 256),
                 y=of("float32", "questions", "n")), along("n", "questions"), codes_want, constants="parts",
            values=lambda p: {"code_ptr": picked(23, "bytes", "n", "parts", dtype=np.uint8)(p)}),
    subject("gathers", zoo.enlarge, shapes("planes high wide out_high out_wide", (96, 540, 960, 1080, 1920),
                                           (256, 300, 400, 224, 224)), LINES,
            args("high wide out_high out_wide", x=of("float32", "planes", "high", "wide"),
                 y=of("float32", "planes", "out_high", "out_wide")), along("out_high out_wide", "planes"),
            enlarged_want),
    subject("gathers", zoo.unwind, shapes("images side", (16, 2048), (2000, 256)), LINES,
            args("side", x=of("float16", "images", "side", "side"), y=of("float16", "images", "side", "side")),
            lambda p, c: (cdiv(p["side"] ** 2, c["BLOCK"]), p["images"]), unwound_want),
]  # fmt: skip
SUBJECTS = [replace(each, unseen=i % 2 == 1) for i, each in enumerate(LISTED)]
SMALL = {name: shapes(names, row) for name, names, row in (
    ("dilate", "rows cols side", (9, 70, 3)), ("box_blur", "rows cols reach", (5, 40, 3)),
    ("median_of_five", "signals length", (3, 200)), ("halve_volume", "volumes deep high wide", (2, 4, 6, 10)),
    ("frames_energy", "signals length frames hop width", (2, 200, 10, 8, 16)), ("laplace_double", "rows cols", (9, 40)),
    ("conv_depth_3d", "planes rows cols", (4, 7, 40)), ("contrast_hwc", "rows cols", (7, 40)),
    ("dilated_causal", "length width apart taps", (30, 20, 3, 3)),
    ("pool_channels_last", "images high wide width side", (2, 8, 12, 40, 2)),
    ("joint_histogram", "n skew bins", (500, 1.0, 256)),
    ("cluster_sums", "n clusters width", (50, 7, 16)), ("nearest_depth", "n pixels", (500, 60)),
    ("split_gemv", "rows cols", (20, 300)), ("add_half_rows", "n nodes width", (30, 9, 40)),
    ("confusion", "images area classes", (2, 300, 7)), ("scale_gradient", "rows cols", (50, 70)),
    ("colour_table", "n side", (300, 5)), ("turn_by_place", "tokens heads half places", (20, 3, 32, 50)),
    ("listed_distances", "questions each rows width", (3, 40, 90, 64)),
    ("neighbour_max", "nodes width degree", (40, 70, 5)),
    ("code_distances", "n questions parts bytes", (200, 2, 4, 256)),
    ("enlarge", "planes high wide out_high out_wide", (2, 9, 11, 20, 30)), ("unwind", "images side", (2, 16)),
)}  # fmt: skip
"""A problem of each kernel for Triton's interpreter."""
