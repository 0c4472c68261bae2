"""The 23 kernels of `kernels/triton_zoo_windows.py` as `zoo.py` measures them, two problems each. All were predicted
before they were timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_windows as zoo
from zoo_blind import LINES
from zoo_edges import LINE, PIXELS, line
from zoo_eleventh import over
from zoo_forms import drawn
from zoo_subject import Arrays, Config, Problem, cdiv, shapes, subject
from zoo_thirteenth import WIDE

OUT = "high wide out_high out_wide"
SPACE = {"BLOCK_Z": (1, 2, 4), "BLOCK_R": (1, 2, 4, 8), "BLOCK_C": (32, 64, 128), "num_warps": (1, 2, 4, 8)}


def pixels(p: Problem, c: Config) -> tuple[int, ...]:
    """Of the outputs where there are fewer of them."""
    n = p.get("out_high", p["high"]) * p.get("out_wide", p["wide"])
    return cdiv(n, c["BLOCK_P"]), cdiv(p["width"], c["BLOCK_C"]), p["images"]


# -- what is right, by PyTorch


def repeated(x: Any, reach: int) -> Any:
    """Planes as floats with their edges repeated."""
    import torch.nn.functional as F

    return F.pad(x.float()[None], (reach,) * 4, "replicate")[0]


def boxed(x: Any, reach: int) -> Any:
    import torch.nn.functional as F

    return F.avg_pool2d(repeated(x[None], reach), 2 * reach + 1, 1)[0]


def guided(p: Problem, t: Arrays) -> Any:
    g, x = t["g_ptr"].double(), t["x_ptr"].double()
    mean = [boxed(v, p["reach"]) for v in (g, x, g * g, g * x)]
    a = (mean[3] - mean[0] * mean[1]) / (mean[2] - mean[0] ** 2 + p["small"])
    return a, mean[1] - a * mean[0]


def bilateral(p: Problem, t: Arrays) -> Any:
    import torch
    import torch.nn.functional as F

    n, high, wide = p["reach"], p["high"], p["wide"]
    own = t["x_ptr"].float()
    x = F.pad(own, (0, 0, n, n, n, n), value=float("inf"))
    total, weight = torch.zeros_like(own), torch.zeros_like(own[..., :1])
    for i in range(2 * n + 1):
        for j in range(2 * n + 1):
            v = x[i : i + high, j : j + wide]
            w = torch.exp(-p["alike"] * (v - own).square().sum(2, True) - p["near"] * ((i - n) ** 2 + (j - n) ** 2))
            total, weight = total + w * torch.nan_to_num(v, posinf=0.0), weight + w
    return (total / weight + 0.5).byte()


def volumes(p: Problem, t: Arrays) -> Any:
    import torch.nn.functional as F

    channels = p["channels"]
    return F.conv3d(t["x_ptr"].float(), t["w_ptr"].float().view(channels, 1, 3, 3, 3), padding=1, groups=channels)


def given_back(p: Problem, t: Arrays) -> Any:
    import torch.nn.functional as F

    side, step = p["side"], p["step"]
    w = t["w_ptr"].float().T.reshape(p["width"], 1, side, side)
    more = [p[n] - ((p[f"out_{n}"] - 1) * step - side // 2 * 2 + side) for n in ("high", "wide")]
    g = t["g_ptr"].float().permute(0, 3, 1, 2)
    return F.conv_transpose2d(g, w, None, step, side // 2, more, p["width"]).permute(0, 2, 3, 1)


def of_taps(p: Problem, t: Arrays) -> Any:
    import torch

    x, g, n = t["x_ptr"].float(), t["g_ptr"].float(), p["length"]
    return torch.stack([(g[..., k:] * x[..., : n - k]).sum((0, 2)) for k in range(p["taps"])], 1)


def of_taps_last(p: Problem, t: Arrays) -> Any:
    import torch

    x, g, n = t["x_ptr"].float(), t["g_ptr"].float(), p["length"]
    return torch.stack([(g[k:] * x[: n - k]).sum(0) for k in range(4)])


def counted(p: Problem, t: Arrays) -> Any:
    import torch.nn.functional as F

    return F.avg_pool2d(t["x_ptr"].float(), p["side"], p["step"], p["pad"], count_include_pad=False)


def apart(p: Problem, t: Arrays) -> Any:
    import torch.nn.functional as F

    x = t["x_ptr"].float().permute(0, 3, 1, 2)
    return F.max_pool2d(x, p["side"], p["step"], dilation=p["apart"]).permute(0, 2, 3, 1)


def attended(p: Problem, t: Arrays) -> Any:
    import torch
    import torch.nn.functional as F

    n, high, wide = p["reach"], p["high"], p["wide"]
    shape = (high, wide, p["heads"], p["width"])
    q, k, v = (t[f"{name}_ptr"].float().view(shape) for name in "qkv")
    around = (0, 0, 0, 0, n, n, n, n)
    k, v, there = F.pad(k, around), F.pad(v, around), F.pad(torch.ones_like(q[..., 0]), around[2:])
    cut = [(slice(i, i + high), slice(j, j + wide)) for i in range(2 * n + 1) for j in range(2 * n + 1)]
    score = torch.stack([(q * k[s]).sum(3) * p["scale"] + (there[s] - 1) * 1e30 for s in cut]).softmax(0)
    return torch.stack([w[..., None] * v[s] for w, s in zip(score, cut, strict=True)]).sum(0).flatten(0, 1).flatten(1)


def morphed(p: Problem, t: Arrays) -> Any:
    import torch.nn.functional as F

    x, side = t["x_ptr"].float(), p["side"]
    return F.max_pool2d(x, side, 1, side // 2) + F.max_pool2d(-x, side, 1, side // 2)


def inner(x: Any, reach: int = 1, dims: int = 3) -> Any:
    """Without `reach` cells of each side."""
    return x[(slice(reach, -reach),) * dims]


def around(x: Any, d: int, reach: int = 1) -> Any:
    """The sum of the six cells d away from each inner one."""
    import torch

    moved = [torch.roll(x, away, dim) for dim in range(3) for away in (d, -d)]
    return inner(sum(moved), reach)


def heated(p: Problem, t: Arrays) -> Any:
    x, y = t["x_ptr"], t["x_ptr"].clone()
    inner(y).add_(0.1 * (around(x, 1) - 6 * inner(x)))
    return y


def waved(p: Problem, t: Arrays) -> Any:
    import torch

    n, now = p["reach"], t["now_ptr"]
    total = -2.5 * n * inner(now, n) + sum(around(now, d, n) / d**2 for d in range(1, n + 1))
    y = torch.zeros_like(now)
    inner(y, n).copy_(2 * inner(now, n) - inner(t["old_ptr"], n) + 0.01 * inner(t["speed_ptr"], n) * total)
    return y


def cubic(p: Problem, t: Arrays) -> Any:
    import torch.nn.functional as F

    return F.interpolate(t["x_ptr"].float()[None], (p["out_high"], p["out_wide"]), mode="bicubic")[0]


def unfolded(p: Problem, t: Arrays) -> Any:
    import torch.nn.functional as F

    y = F.unfold(t["x_ptr"].float().permute(0, 3, 1, 2), p["side"], 1, p["pad"], p["step"])
    y = y.unflatten(1, (p["width"], -1)).permute(0, 3, 2, 1)
    return y.reshape(-1, p["side"] ** 2 * p["width"])


def continued(p: Problem, t: Arrays) -> Any:
    import torch
    import torch.nn.functional as F

    x = torch.cat([t["state_ptr"], t["x_ptr"]], 1).float().view(p["batch"], p["channels"], -1)
    y = F.silu(F.conv1d(x, t["w_ptr"].float()[:, None], groups=p["channels"]))
    return y.flatten(0, 1), x[..., -3:].flatten(0, 1)


def peaked(p: Problem, t: Arrays) -> Any:
    import torch.nn.functional as F

    x, side = t["x_ptr"].float(), p["side"]
    return x * (x == F.max_pool2d(x, side, 1, side // 2))


def matched(p: Problem, t: Arrays) -> Any:
    import torch
    import torch.nn.functional as F

    n, x, w = p["taps"], t["x_ptr"].double()[:, None], t["w_ptr"].double()
    one, two, both = (F.conv1d(a, b[None, None])[:, 0] for a, b in (
        (x, torch.ones_like(w)), (x * x, torch.ones_like(w)), (x, w)))  # fmt: skip
    y = (both - one * w.mean()) / ((two - one**2 / n) * ((w * w).sum() - w.sum() ** 2 / n)).clamp(min=1e-6).sqrt()
    return F.pad(y, (0, n - 1))


def watered(p: Problem, t: Arrays) -> Any:
    import torch

    h, *flow = t["x_ptr"].double() + torch.tensor([p["rest"], 0.0, 0.0], device=t["x_ptr"].device).view(3, 1, 1)

    def through(dim: int) -> Any:
        """The fluxes between each cell and the next along an axis; `dim` 1 swaps both flows."""
        along, other = flow if dim else reversed(flow)
        u = along / h
        flux = torch.stack([along, along * u + 4.9 * h * h, other * u])
        state, fast = torch.stack([h, along, other]), u.abs() + (9.8 * h).sqrt()
        after = [torch.roll(v, -1, d) for v, d in ((flux, dim + 1), (state, dim + 1), (fast, dim))]
        both = flux + after[0] - torch.maximum(fast, after[2]) * (after[1] - state)
        both = both - torch.roll(both, 1, dim + 1)
        return both if dim else both[[0, 2, 1]]

    y = torch.zeros_like(t["x_ptr"])
    inside = (slice(None), slice(1, -1), slice(1, -1))
    y[inside] = (t["x_ptr"] - p["step"] * (through(0) + through(1)))[inside].float()
    return y


def cycled(p: Problem, t: Arrays) -> Any:
    x, high, wide = t["x_ptr"].int(), p["high"], p["wide"]
    own = x[1:-1, 1:-1]
    after = (own + 1) % p["kinds"]
    near = [x[i : i + high, j : j + wide] == after for i in range(3) for j in range(3) if (i, j) != (1, 1)]
    return after.where(sum(v.int() for v in near) >= p["least"], own)


def filtered(p: Problem, t: Arrays) -> Any:
    import torch

    x, w, n = torch.view_as_complex(t["x_ptr"].float()), torch.view_as_complex(t["w_ptr"]), p["n"] * p["step"]
    return torch.view_as_real(sum(w[k] * x[k : k + n : p["step"]] for k in range(p["taps"])))


def banded(p: Problem, t: Arrays) -> Any:
    import torch

    x, n = t["x_ptr"].double(), p["taps"]
    windows = x.unfold(0, n, 1)
    mean, y = windows.mean(2), torch.zeros_like(x)
    y[n - 1 :] = (x[n - 1 :] - mean) / (windows.square().mean(2) - mean**2 + 1e-3).sqrt()
    return y


def sloping(p: Problem, t: Arrays) -> Any:
    import torch
    import torch.nn.functional as F

    smooth, slope = (torch.tensor(v, device=t["x_ptr"].device) for v in ([1.0, 2.0, 1.0], [-1.0, 0.0, 1.0]))
    x = F.pad(t["x_ptr"].float()[None, None], (1,) * 6, "replicate")
    total = 0.0
    for axis in range(3):
        a, b, c = (slope if axis == k else smooth for k in range(3))
        y = F.conv3d(F.conv3d(F.conv3d(x, a.view(1, 1, 3, 1, 1)), b.view(1, 1, 1, 3, 1)), c.view(1, 1, 1, 1, 3))
        total = total + y * y
    return total.sqrt()[0, 0]


SUBJECTS = [
    subject("windows", zoo.guided_means, shapes("high wide small reach", (2160, 3840, 0.1, 2), (1000, 1400, 0.05, 4)),
        WIDE, "g x a b: float32[high, wide]; high wide small", over(), constants="reach", output="a_ptr b_ptr",
        most=16, want=guided),
    subject("windows", zoo.bilateral_colour, shapes("high wide near alike reach", (1080, 1920, 0.1, 0.0003, 2),
        (2000, 3000, 0.2, 0.001, 1)), WIDE, "x y: uint8[high, wide, 3]; high wide near alike", over(),
        constants="reach", most=4, want=bilateral),
    subject("windows", zoo.depthwise_volume, shapes("images channels deep high wide dtype",
        (4, 64, 16, 112, 112, "float16"), (2, 200, 32, 40, 50, "float32")), SPACE,
        "x: dtype[images, channels, deep, high, wide]; w: dtype[channels, 27]; "
        "y: dtype[images, channels, deep, high, wide]; channels deep high wide",
        "cdiv(wide, BLOCK_C) * cdiv(high, BLOCK_R), cdiv(deep, BLOCK_Z), images * channels", most=8, want=volumes),
    subject("windows", zoo.depthwise_grad_last, shapes(f"images {OUT} width side step dtype",
        (16, 56, 56, 56, 56, 256, 3, 1, "bfloat16"), (8, 112, 112, 56, 56, 96, 5, 2, "float16")), PIXELS,
        f"g: dtype[images, out_high, out_wide, width]; w: dtype[side ** 2, width]; "
        f"y: dtype[images, high, wide, width]; {OUT}",
        lambda p, c: (cdiv(p["high"] * p["wide"], c["BLOCK_P"]), cdiv(p["width"], c["BLOCK_C"]), p["images"]),
        constants="width side step", most=16, want=given_back),
    subject("windows", zoo.taps_grad, shapes("batch length channels taps dtype", (4, 4096, 2048, 4, "bfloat16"),
        (2, 20_000, 700, 9, "float32")), "BLOCK=32..1024 num_warps=1..8",
        "x g: dtype[batch, channels, length]; y: float32[channels, taps]; batch length channels", "channels",
        constants="taps; PADDED = pow2_up(taps)", keep="elements(c, BLOCK * pow2_up(taps), 64)", want=of_taps),
    subject("windows", zoo.taps_grad_last, shapes("length width each", (65_536, 1024, 8), (30_000, 200, 4)),
        "BLOCK_T=1..32 BLOCK_C=32..256 num_warps=1..8",
        "x g: float16[length, width]; y: float32[cdiv(length, each * BLOCK_T), 4, width]; length",
        "cdiv(length, each * BLOCK_T), cdiv(width, BLOCK_C)", constants="width each",
        got=lambda p, c, t: t["y_ptr"].sum(0), want=of_taps_last),
    subject("windows", zoo.mean_pool_counted, shapes(f"planes {OUT} side step pad dtype",
        (2048, 112, 112, 56, 56, 3, 2, 1, "float16"), (256, 150, 200, 150, 200, 5, 1, 2, "float32")), LINE,
        f"x: dtype[planes, high, wide]; y: dtype[planes, out_high, out_wide]; {OUT}",
        "cdiv(out_high * out_wide, BLOCK), planes", constants="side step pad", most=16, want=counted),
    subject("windows", zoo.max_pool_apart, shapes(f"images {OUT} width side step apart dtype",
        (16, 64, 64, 60, 60, 256, 3, 1, 2, "float16"), (8, 100, 140, 49, 69, 192, 2, 2, 3, "bfloat16")), PIXELS,
        f"x: dtype[images, high, wide, width]; y: dtype[images, out_high, out_wide, width]; {OUT}", pixels,
        constants="width side step apart", want=apart),
    subject("windows", zoo.attend_around, shapes("high wide heads width reach scale", (128, 128, 8, 32, 3, 0.18),
        (64, 96, 4, 64, 2, 0.125)), "BLOCK=16..128 num_warps=1..8",
        "q k v y: bfloat16[high * wide, heads * width]; high wide scale", "cdiv(high * wide, BLOCK), heads",
        constants="heads width reach", keep="elements(c, BLOCK * width, 64)", want=attended),
    subject("windows", zoo.morph_gradient, shapes("planes high wide side", (8, 1080, 1920, 3), (64, 500, 300, 7)), WIDE,
        "x y: uint8[planes, high, wide]; high wide", lambda p, c: (*over()(p, c), p["planes"]), constants="side",
        tolerance=0.0, most=16, want=morphed),
    subject("windows", zoo.thin_edges, shapes("high wide", (4096, 6000), (1000, 1501)), WIDE,
        "gx gy y: float32[high, wide]; high wide", over(), got=lambda p, c, t: (t["y_ptr"].sum(0), t["y_ptr"].sum(1))),
    subject("windows", zoo.heat_flat, shapes("deep high wide", (256, 512, 512), (100, 300, 700)), LINE,
        "x y: float32[deep, high, wide]; deep high wide; rate = 0.1", "cdiv(deep * high * wide, BLOCK)", most=16,
        want=heated),
    subject("windows", zoo.wave_padded, shapes("deep high wide reach", (128, 264, 264, 4), (64, 504, 380, 2)), SPACE,
        "now old speed next: float32[deep + 2 * reach, high, wide]; high wide",
        "cdiv(wide - 2 * reach, BLOCK_C), cdiv(high - 2 * reach, BLOCK_R), deep // BLOCK_Z", constants="reach",
        output="next_ptr", most=8, want=waved),
    subject("windows", zoo.bicubic, shapes(f"planes {OUT} dtype", (12, 540, 960, 1080, 1920, "float16"),
        (16, 500, 700, 300, 420, "float32")), LINES,
        f"x: dtype[planes, high, wide]; y: dtype[planes, out_high, out_wide]; {OUT}; down = high / out_high; "
        "across = wide / out_wide", "cdiv(out_high * out_wide, BLOCK), planes", most=8, want=cubic),
    subject("windows", zoo.columns_last, shapes(f"images {OUT} width side step pad dtype",
        (8, 56, 56, 56, 56, 128, 3, 1, 1, "float16"), (4, 112, 112, 56, 56, 48, 5, 2, 2, "bfloat16")), PIXELS,
        f"x: dtype[images, high, wide, width]; y: dtype[images * out_high * out_wide, side ** 2 * width]; {OUT}",
        pixels, constants="width side step pad", tolerance=0.0, most=16, want=unfolded),
    subject("windows", zoo.conv_with_state, shapes("batch channels length dtype", (8, 2048, 4096, "bfloat16"),
        (32, 768, 1000, "float16")), LINE, "x: dtype[batch * channels, length]; w: dtype[channels, 4]; "
        "state: dtype[batch * channels, 3]; y: dtype[batch * channels, length]; last: dtype[batch * channels, 3]; "
        "length channels", "cdiv(length, BLOCK), batch * channels", output="y_ptr last_ptr", want=continued),
    subject("windows", zoo.keep_peaks, shapes("planes high wide side dtype", (640, 128, 128, 3, "float16"),
        (1000, 96, 72, 5, "float32")), LINES, "x y: dtype[planes, high, wide]; high wide",
        "cdiv(high * wide, BLOCK), planes", constants="side", tolerance=0.0, most=8, want=peaked),
    subject("windows", zoo.sliding_match, shapes("signals length taps", (64, 1 << 18, 24), (500, 20_000, 11)), LINE,
        "x: float32[signals, length]; w: float32[taps]; y: float32[signals, length]; length taps",
        "cdiv(length, BLOCK), signals", most=16, want=matched),
    subject("windows", zoo.shallow_water, shapes("high wide rest step", (4096, 4096, 4.0, 0.01),
        (1000, 3000, 4.0, 0.01)), WIDE, "x y: float32[3, high, wide]; high wide rest step", over(), most=8,
        want=watered),
    subject("windows", zoo.cyclic_cells, shapes("high wide kinds least", (4000, 8000, 6, 2), (1000, 1500, 14, 1)), WIDE,
        "x: uint8[high + 2, wide + 2]; y: uint8[high, wide]; high wide", over(), constants="kinds least",
        tolerance=0.0, most=16, want=cycled, values=lambda p: {
            "x_ptr": drawn(617).integers(0, p["kinds"], (p["high"] + 2, p["wide"] + 2), np.uint8)}),
    subject("windows", zoo.fir_complex, shapes("n taps step dtype", (1 << 24, 16, 1, "float32"),
        (5_000_000, 9, 4, "float16")), LINE, "x: dtype[n * step + taps, 2]; w: float32[taps, 2]; y: float32[n, 2]; n",
        line, constants="taps step", most=16, want=filtered),
    subject("windows", zoo.bands, shapes("times wide taps dtype", (8192, 4096, 20, "float32"),
        (20_000, 500, 8, "float16")), WIDE, "x y: dtype[times, wide]; times wide",
        "cdiv(wide, BLOCK_C), cdiv(times, BLOCK_R)", constants="taps", most=16, want=banded),
    subject("windows", zoo.sobel_volume, shapes("deep high wide dtype", (192, 256, 256, "float32"),
        (60, 300, 500, "float16")), WIDE, "x y: dtype[deep, high, wide]; deep high wide",
        lambda p, c: (*over()(p, c), p["deep"]), most=8, want=sloping),
]  # fmt: skip
