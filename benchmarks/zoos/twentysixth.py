"""The twelve kernels of `kernels/triton_zoo_26th.py` as `zoo.py` measures them: four each of windows, atomics and
gathers, two problems each. All were predicted before they were timed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from kernels import triton_zoo_26th as zoo

from .blind import LINES, picked
from .edges import PIXELS, line
from .eleventh import over
from .forms import drawn
from .subject import Arrays, Problem, shapes, subject
from .thirteenth import WIDE


def picture(p: Problem) -> dict[str, Any]:
    """Bright and dark in slow waves, some noise."""
    r, c = np.meshgrid(np.arange(p["high"]), np.arange(p["wide"]), indexing="ij")
    x = 128 + 90 * np.sin(c / 90) * np.cos(r / 70) + drawn(2601).normal(0, 12, r.shape)
    return {"x_ptr": x.clip(0, 255).astype(np.uint8)}


def rated(p: Problem) -> dict[str, Any]:
    """Some things are rated often."""
    return {"user_ptr": picked(2609, "users", "n")(p), "item_ptr": picked(2617, "items", "n", skew=2.0)(p)}


def index(p: Problem) -> dict[str, Any]:
    """How often each letter stands before each place of a text, and patterns."""
    draw, size = drawn(2621), p["size"]
    seen, text = np.zeros((size + 1, 4), np.int32), draw.integers(0, 4, size)
    for letter in range(4):
        np.cumsum(text == letter, out=seen[1:, letter])
    first = np.concatenate([[0], np.cumsum(seen[-1])[:3]]).astype(np.int32)
    return {"pattern_ptr": draw.integers(0, 4, (p["n"], p["steps"]), np.uint8), "first_ptr": first, "seen_ptr": seen}


def inputs(p: Problem) -> dict[str, Any]:
    return {"x_ptr": drawn(2633).integers(0, p["cells"] * 256, (p["rows"], p["ins"]), np.int16)}


def neighbours(p: Problem) -> dict[str, Any]:
    """A sheet of squares; where `mixed`, its corners are in no order. Borders have fewer."""
    n, wide, draw = p["n"], p["wide"], drawn(2647)
    at = np.arange(n)
    near = np.stack([at + i * wide + j for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j], 1)
    across = np.abs(near.clip(0, n - 1) % wide - (at % wide)[:, None]) > 1
    near = np.where((near < 0) | (near >= n) | across, -1, near)
    if p["mixed"]:
        new = draw.permutation(n)
        moved = np.empty_like(near)
        moved[new] = np.where(near >= 0, new[near.clip(min=0)], -1)
        near = moved
    return {"near_ptr": near.astype(np.int32)}


def normals(p: Problem) -> dict[str, Any]:
    """Of balls in rows, as bytes."""
    r, c = np.meshgrid(np.arange(p["high"]), np.arange(p["wide"]), indexing="ij")
    x, y = (c % p["ball"] / p["ball"] * 2 - 1) * 0.7, (r % p["ball"] / p["ball"] * 2 - 1) * 0.7
    z = np.sqrt(1 - x * x - y * y) * np.where((r // p["ball"] + c // p["ball"]) % 2, 1, -1)
    return {"d_ptr": (np.stack([x, y, z]) * 127).astype(np.int8)}


SUBJECTS = [
    subject("windows", zoo.oil_painted, shapes("high wide reach", (2160, 3840, 2), (1000, 1400, 1)), WIDE,
        "x: uint8[high, wide]; y: float32[high, wide]; high wide", over(), constants="reach", most=8),
    subject("windows", zoo.onset_strength, shapes("clips frames bins", (64, 2000, 513), (300, 800, 128)),
        "BLOCK_T=1..32 BLOCK_F=32..256 num_warps=1..8",
        "x: float16[clips, frames, bins]; y: float32[clips, frames]; frames bins", "cdiv(frames, BLOCK_T), clips",
        most=16),
    subject("windows", zoo.vessels, shapes("planes high wide", (200, 512, 512), (64, 300, 400)), WIDE,
        "x: float16[planes, high, wide]; y: float32[planes, high, wide]; planes; rows = high; cols = wide",
        lambda p, c: (*over()(p, c), p["planes"]), most=16),
    subject("windows", zoo.blur_pool, shapes("images high wide width dtype", (32, 112, 112, 64, "bfloat16"),
        (8, 200, 120, 24, "float32")), PIXELS,
        "x: dtype[images, high, wide, width]; y: dtype[images, high // 2, wide // 2, width]; high wide width",
        "cdiv(high // 2 * (wide // 2), BLOCK_P), cdiv(width, BLOCK_C), images", most=16),
    subject("atomics", zoo.bilateral_grid, shapes("high wide side", (2160, 3840, 16), (600, 800, 8)), WIDE,
        "x: uint8[high, wide]; y: float32[high // side + 2, wide // side + 2, 17, 2]; high wide", over(),
        constants="side", most=16, values=picture),
    subject("atomics", zoo.pair_distances, shapes("n bins", (4096, 256), (6000, 64)),
        "BLOCK_I=1..64 BLOCK_J=32..256 num_warps=1..8", "x: int32[3, n]; y: int32[bins]; n",
        "cdiv(n, BLOCK_I), cdiv(n, BLOCK_J)", constants="bins", most=32, tolerance=0.01,
        values=lambda p: {"x_ptr": drawn(2657).integers(0, 1024, (3, p["n"]), np.int32)}),
    subject("atomics", zoo.rated_gradients, shapes("n users items width", (1_000_000, 100_000, 20_000, 32),
        (200_000, 6000, 4000, 128)), "BLOCK_T=1..64 num_warps=1..8",
        "user item: int32[n]; rating: float32[n]; u gu: float32[users, width]; v gv: float32[items, width]; n",
        "cdiv(n, BLOCK_T)", constants="width", output="gu_ptr gv_ptr", values=rated,
        keep="elements(c, BLOCK_T * width, 16)"),
    subject("atomics", zoo.pose_equations, shapes("n cameras", (500_000, 200), (100_000, 2000)), LINES,
        "camera: int32[n]; j: float32[n, 2, 6]; e: float32[n, 2]; y: float32[cameras, 27]; n", line, most=8,
        values=lambda p: {"camera_ptr": picked(2659, "cameras", "n")(p)}),
    subject("gathers", zoo.search_genome, shapes("n steps size", (1_000_000, 20, 1 << 22), (200_000, 36, 100_000)),
        LINES, "pattern: uint8[n, steps]; first: int32[4]; seen: int32[size + 1, 4]; low high: int32[n]; n size", line,
        constants="steps", output="low_ptr high_ptr", most=8, tolerance=0.0, values=index),
    subject("gathers", zoo.spline_layer, shapes("rows ins cells outs dtype", (4096, 64, 16, 256, "float32"),
        (1000, 200, 8, 64, "float16")), "BLOCK_T=1..32 BLOCK_C=32..256 num_warps=1..8",
        "x: int16[rows, ins]; w: dtype[ins, cells + 3, outs]; y: float32[rows, outs]; rows ins cells outs",
        "cdiv(outs, BLOCK_C), cdiv(rows, BLOCK_T)", values=inputs,
        keep="elements(c, BLOCK_T * BLOCK_C, 16) and BLOCK_C <= outs"),
    subject("gathers", zoo.smooth_mesh, shapes("n wide mixed", (4_000_000, 2000, 0), (300_000, 500, 1)), LINES,
        "near: int32[n, 8]; x y: float32[n, 3]; n; step = 0.4", line, most=8, values=neighbours),
    subject("gathers", zoo.sky_of_normals, shapes("high wide size ball", (1080, 1920, 512, 300), (2160, 3840, 64, 50)),
        LINES, "d: int8[3, high, wide]; sky: float16[6, size, size, 4]; y: float16[high, wide, 4]; "
        "n = high * wide; size", "cdiv(high * wide, BLOCK)", most=8, tolerance=0.0, values=normals),
]  # fmt: skip

# -- what is right


def painted_want(p: Problem, t: Arrays) -> Any:
    import torch

    n, many = p["reach"], (p["reach"] + 1) ** 2
    x = torch.nn.functional.pad(t["x_ptr"].double()[None, None], (n, n, n, n), mode="replicate")
    mean, square = (torch.nn.functional.avg_pool2d(v, n + 1, 1)[0, 0] for v in (x, x * x))
    spread = ((square - mean * mean) * many * many).round() * 4
    cut = [(slice(i, i + p["high"]), slice(j, j + p["wide"])) for i in (0, n) for j in (0, n)]
    least = torch.stack([spread[c] + k for k, c in enumerate(cut)]).argmin(0)  # the first of equals
    return torch.stack([mean[c] for c in cut]).gather(0, least[None])[0]


def onset_want(p: Problem, t: Arrays) -> Any:
    import torch

    x = t["x_ptr"].float()
    before = torch.nn.functional.pad(x, (1, 1, 1, 0))[:, :-1]
    most = torch.maximum(before[..., 1:-1], torch.maximum(before[..., :-2], before[..., 2:]))
    return (x - most).clamp(min=0).sum(2)


def vessels_want(p: Problem, t: Arrays) -> Any:
    x = t["x_ptr"].float()

    def at(*go: int) -> Any:
        return x.roll([-g for g in go], (0, 1, 2))

    units = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    y = sum((at(*u) + at(*(-k for k in u)) - 2 * x) ** 2 for u in units)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        both, other = [i + j for i, j in zip(units[a], units[b], strict=True)], list(units[a])
        other[b] = -1
        y += (at(*both) + at(*(-k for k in both)) - at(*other) - at(*(-k for k in other))) ** 2 / 8
    for d in range(3):
        y.select(d, 0).zero_()
        y.select(d, -1).zero_()
    return y


def blur_want(p: Problem, t: Arrays) -> Any:
    import torch

    row = torch.tensor([1.0, 3.0, 3.0, 1.0], device=t["x_ptr"].device) / 8
    w = (row[:, None] * row).expand(p["width"], 1, 4, 4)
    y = torch.nn.functional.conv2d(t["x_ptr"].float().permute(0, 3, 1, 2), w, stride=2, padding=1, groups=p["width"])
    return y.permute(0, 2, 3, 1)


def grid_want(p: Problem, t: Arrays) -> Any:
    import torch

    x, side = t["x_ptr"].long(), p["side"]
    r, c = torch.meshgrid(*[torch.arange(p[n], device=x.device) for n in ("high", "wide")], indexing="ij")
    high, wide = p["high"] // side + 2, p["wide"] // side + 2
    cell = (((r + side // 2) // side * wide + (c + side // 2) // side) * 17 + (x + 8) // 16).ravel()
    parts = [cell.bincount(v.double(), minlength=high * wide * 17) for v in (x.ravel(), torch.ones_like(cell))]
    return torch.stack(parts, 1).view(high, wide, 17, 2)


def pairs_want(p: Problem, t: Arrays) -> Any:
    import torch

    x, count = t["x_ptr"], torch.zeros(p["bins"], device=t["x_ptr"].device)
    for i in range(0, p["n"], 500):
        apart = ((x[:, i : i + 500, None] - x[:, None] + 512) & 1023) - 512
        bin = ((apart * apart).sum(0).float().sqrt() * (p["bins"] / 512)).int()
        after = torch.ones_like(bin).triu(i + 1) > 0
        count += bin[after & (bin < p["bins"])].bincount(minlength=p["bins"])
    return count


def rated_want(p: Problem, t: Arrays) -> Any:
    import torch

    user, item = t["user_ptr"].long(), t["item_ptr"].long()
    u, v = t["u_ptr"][user], t["v_ptr"][item]
    by = (t["rating_ptr"] - (u * v).sum(1))[:, None]
    return (torch.zeros_like(t["u_ptr"]).index_add_(0, user, by * v),
            torch.zeros_like(t["v_ptr"]).index_add_(0, item, by * u))  # fmt: skip


def pose_want(p: Problem, t: Arrays) -> Any:
    import torch

    j, e, camera = t["j_ptr"], t["e_ptr"], t["camera_ptr"].long()
    a, b = torch.triu_indices(6, 6, device=j.device)
    parts = torch.cat([(j[:, :, a] * j[:, :, b]).sum(1), (j * e[:, :, None]).sum(1)], 1)
    return torch.zeros(p["cameras"], 27, device=j.device).index_add_(0, camera, parts)


def genome_want(p: Problem, t: Arrays) -> Any:
    import torch

    pattern, first, seen = (t[f"{n}_ptr"].long() for n in ("pattern", "first", "seen"))
    low = torch.zeros(p["n"], dtype=torch.int64, device=first.device)
    high = low + p["size"]
    for letter in pattern.flip(1).T:
        low, high = first[letter] + seen[low, letter], first[letter] + seen[high, letter]
    return low, high


def spline_want(p: Problem, t: Arrays) -> Any:
    x, y = t["x_ptr"].long(), t["x_ptr"].new_zeros(p["rows"], p["outs"]).float()
    u, cell = (x & 255).float() / 256, x >> 8
    parts = (1 - u) ** 3, 3 * u**3 - 6 * u**2 + 4, -3 * u**3 + 3 * u**2 + 3 * u + 1, u**3
    for i in range(p["ins"]):
        for k, part in enumerate(parts):
            y += part[:, i, None] * t["w_ptr"][i, cell[:, i] + k].float() / 6
    return y


def mesh_want(p: Problem, t: Arrays) -> Any:
    near, x = t["near_ptr"].long(), t["x_ptr"]
    there = (near >= 0)[:, :, None]
    mean = (x[near.clamp(min=0)] * there).sum(1) / there.sum(1)
    return 0.6 * x + 0.4 * mean


def sky_want(p: Problem, t: Arrays) -> Any:
    import torch

    x, y, z = t["d_ptr"].long().flatten(1)
    p_, q, r, size = x.abs(), y.abs(), z.abs(), p["size"]
    by_x, by_y = (p_ >= q) & (p_ >= r), q >= r
    most = torch.where(by_x, p_, torch.where(by_y, q, r)).clamp(min=1)
    face = torch.where(by_x, (x < 0).long(), torch.where(by_y, 2 + (y < 0).long(), 4 + (z < 0).long()))
    u, v = ((torch.where(by, a, b) + most) * size // (2 * most) for by, a, b in ((by_x, y, x), (by_x | by_y, z, y)))
    return t["sky_ptr"][face, v.clamp(max=size - 1), u.clamp(max=size - 1)].view(p["high"], p["wide"], 4)


WANT = {
    "oil_painted": painted_want, "onset_strength": onset_want, "vessels": vessels_want, "blur_pool": blur_want,
    "bilateral_grid": grid_want, "pair_distances": pairs_want, "rated_gradients": rated_want,
    "pose_equations": pose_want, "search_genome": genome_want, "spline_layer": spline_want,
    "smooth_mesh": mesh_want, "sky_of_normals": sky_want,
}  # fmt: skip
SUBJECTS = [replace(s, want=WANT[s.name]) for s in SUBJECTS]
