"""The twenty kernels of `kernels/triton_zoo_fourteenth.py` as `zoo.py` measures them, two problems each. All were
predicted before they were timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_fourteenth as zoo
from zoo_blind import LINES, TOKENS, picked
from zoo_edges import LINE, line, plane
from zoo_eleventh import over
from zoo_forms import drawn, starts
from zoo_subject import Arrays, Problem, shapes, subject
from zoo_thirteenth import WIDE

from carver.compiled.binary import Tensor


def weno_want(p: Problem, t: Arrays) -> Any:
    a, b, c, d, e = (t["x_ptr"].double()[:, i : i + p["cols"] + 1] for i in range(5))
    parts = ((0.1, a - 2 * b + c, a - 4 * b + 3 * c, 2 * a - 7 * b + 11 * c),
             (0.6, b - 2 * c + d, b - d, 5 * c - b + 2 * d),
             (0.3, c - 2 * d + e, 3 * c - 4 * d + e, 2 * c + 5 * d - e))  # fmt: skip
    weight = [share / (13 / 12 * u * u + v * v / 4 + 1e-3) ** 2 for share, u, v, _ in parts]
    flux = sum(w * part[3] for w, part in zip(weight, parts, strict=True)) / (6 * sum(weight))
    return p["speed"] * (flux[:, :-1] - flux[:, 1:])


def conduct_want(p: Problem, t: Arrays) -> Any:
    x, k, total = t["x_ptr"], t["k_ptr"], 0
    for axis in range(3):
        for away in (-1, 1):
            total = total + (k.roll(away, axis) + k) * (x.roll(away, axis) - x)
    y, inner = x.clone(), (slice(1, -1),) * 3
    y[inner] += p["step"] * total[inner]
    return y


def pyramid_want(p: Problem, t: Arrays) -> Any:
    import torch

    tap = torch.tensor([1.0, 4, 6, 4, 1], device=t["x_ptr"].device)
    x = torch.nn.functional.pad(t["x_ptr"].float()[None, None], [2] * 4, mode="reflect")
    return ((torch.nn.functional.conv2d(x, tap[None, None, :, None] * tap, stride=2) + 128) / 256).floor()[0, 0]


def census_want(p: Problem, t: Arrays) -> Any:
    import torch

    x, bits = t["x_ptr"].int(), 0
    padded = torch.nn.functional.pad(x, [2] * 4)
    for i in range(5):
        for j in range(5):
            if (i, j) != (2, 2):
                bits = bits * 2 + (padded[i : i + p["high"], j : j + p["wide"]] < x).int()
    return bits


def mel(p: Problem) -> dict[str, Any]:
    """Triangles whose corners are evenly apart in mels, of a spectrum that ends at p["top"] hertz."""
    corner = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + p["top"] / 700), p["bands"] + 2) / 2595) - 1)
    corner *= (p["bins"] - 1) / p["top"]
    first = np.minimum(corner[:-2].astype(np.int32) + 1, p["bins"] - p["taps"])
    at = first[:, None] + np.arange(p["taps"])
    low, middle, high = corner[:-2, None], corner[1:-1, None], corner[2:, None]
    weight = np.maximum(0, np.minimum((at - low) / (middle - low), (high - at) / (high - middle)))
    return {"first_ptr": first, "w_ptr": weight.astype(np.float32)}


def mel_want(p: Problem, t: Arrays) -> Any:
    import torch

    full = torch.zeros(p["bands"], p["bins"], device=t["x_ptr"].device)
    full.scatter_(1, t["first_ptr"].long()[:, None] + torch.arange(p["taps"], device=full.device), t["w_ptr"])
    return (t["x_ptr"].square().double() @ full.T.double()).clamp(1e-10).log()


def involution_want(p: Problem, t: Arrays) -> Any:
    import torch

    x, side, groups = t["x_ptr"].float(), p["side"], p["planes"] // p["group"]
    parts = torch.nn.functional.unfold(x, side, padding=side // 2).view(groups, p["group"], side**2, -1)
    return (parts * t["w_ptr"].float().view(groups, 1, side**2, -1)).sum(2).view(x.shape)


def harris_want(p: Problem, t: Arrays) -> Any:
    import torch

    x = t["x_ptr"]
    u, v = (x[1:-1, 2:] - x[1:-1, :-2]), (x[2:, 1:-1] - x[:-2, 1:-1])
    total = torch.nn.functional.avg_pool2d(torch.stack([u * u, u * v, v * v]), 3, 1, divisor_override=1)
    return total[0] * total[2] - total[1] ** 2 - p["k"] * (total[0] + total[2]) ** 2


def yee_want(p: Problem, t: Arrays) -> Any:
    def less(x: Any, axis: int) -> Any:
        y = x.clone()
        y.narrow(axis, 1, x.shape[axis] - 1).sub_(x.narrow(axis, 0, x.shape[axis] - 1))
        return y

    y = t["e_ptr"].clone()
    for n in range(3):  # axes of the field are x, y, z, those of memory z, y, x
        a, b = (n + 1) % 3, (n + 2) % 3
        y[n] += p["ratio"] * (less(t["h_ptr"][b], 2 - a) - less(t["h_ptr"][a], 2 - b))
    return y


def packed_want(p: Problem, t: Arrays) -> Any:
    import torch

    x, total = t["x_ptr"].float(), t["b_ptr"].float()
    for k in range(p["taps"]):
        total = total + t["w_ptr"][k].float() * torch.where((t["at_ptr"] >= k)[:, None], x.roll(k, 0), 0.0)
    return torch.nn.functional.silu(total)


def places(p: Problem) -> dict[str, Any]:
    length = drawn(401).integers(1, p["most"], p["tokens"])
    begin = np.repeat(length.cumsum() - length, length)[: p["tokens"]]
    return {"at_ptr": (np.arange(p["tokens"]) - begin).astype(np.int32)}


def shift_want(p: Problem, t: Arrays) -> Any:
    import torch

    x = t["x_ptr"].float()
    change = torch.nn.functional.pad(x, [0, 0, 1, 0])[:, :-1] - x
    return torch.stack([x + change * share for share in t["mix_ptr"].float()])


def insert_want(p: Problem, t: Arrays) -> Any:
    key = t["key_ptr"].unique()
    return key.new_zeros(p["size"]).index_copy_(0, key.argsort() + p["size"] - len(key), key)


def normals_want(p: Problem, t: Arrays) -> Any:
    import torch

    face = t["face_ptr"].long()
    x = t["x_ptr"].double()[face]
    normal = torch.linalg.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0])
    total = torch.zeros_like(t["x_ptr"], dtype=torch.float64)
    for corner in range(3):
        total.index_add_(0, face[:, corner], normal)
    return total


def mesh(p: Problem) -> dict[str, Any]:
    """A grid of side x side vertices, two triangles a cell, in order or shuffled."""
    side = p["side"]
    i = (np.arange(side - 1)[:, None] * side + np.arange(side - 1)).reshape(-1)
    face = np.stack([i, i + 1, i + side, i + 1, i + side + 1, i + side], 1).reshape(-1, 3).astype(np.int32)
    return {"face_ptr": drawn(409).permutation(face) if p["shuffled"] else face}


def group_want(p: Problem, t: Arrays) -> Any:
    key, x = t["key_ptr"].long(), t["x_ptr"]
    zero = x.new_zeros(p["groups"])
    return (zero.double().index_add_(0, key, x.double()), key.bincount(minlength=p["groups"]),
            zero.scatter_reduce(0, key, x, "amax"))  # fmt: skip


def pairs(p: Problem) -> dict[str, Any]:
    """Each atom with some that follow it within p["apart"], as of atoms that are sorted by cells, or with any."""
    i = np.repeat(np.arange(p["atoms"]), p["each"])
    j = (i + drawn(419).integers(1, p["apart"], p["n"])) % p["atoms"]
    return {"from_ptr": i.astype(np.int32), "to_ptr": j.astype(np.int32),
            "x_ptr": (drawn(421).random((3, p["atoms"])) * 3).astype(np.float32)}  # fmt: skip


def forces_want(p: Problem, t: Arrays) -> Any:
    import torch

    i, j, x = t["from_ptr"].long(), t["to_ptr"].long(), t["x_ptr"].double()
    away = x[:, i] - x[:, j]
    near = 1 / away.square().sum(0).clamp(0.8)
    force = torch.where(near > 0.16, 24 * near**4 * (2 * near**3 - 1), 0.0) * away
    return torch.zeros_like(x).index_add_(1, i, force).index_add_(1, j, -force)


def bias_want(p: Problem, t: Arrays) -> Any:
    import torch

    side = p["side"]
    i = torch.arange(side * side, device=t["g_ptr"].device)
    down, right = (i[:, None] // side - i // side + side - 1), (i[:, None] % side - i % side + side - 1)
    total = t["g_ptr"].double().sum(0).flatten(1)
    place = (down * (2 * side - 1) + right).flatten()
    return total.new_zeros((2 * side - 1) ** 2, p["heads"]).index_add_(0, place, total.T)


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


def deformable_want(p: Problem, t: Arrays) -> Any:
    import torch

    total = 0
    for level, (high, wide, begin) in enumerate(t["shape_ptr"].tolist()):
        x = t["x_ptr"].float()[begin : begin + high * wide].permute(1, 2, 0).view(p["heads"], p["width"], high, wide)
        at = t["at_ptr"][:, :, level].transpose(0, 1) * 2 - 1
        part = torch.nn.functional.grid_sample(x, at, align_corners=False)
        total = total + (part * t["w_ptr"][:, :, level].transpose(0, 1)[:, None]).sum(3)
    return total.permute(2, 0, 1)


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


def csr_want(p: Problem, t: Arrays) -> Any:
    import torch

    row = torch.repeat_interleave(torch.arange(p["rows"], device=t["x_ptr"].device), t["start_ptr"].long().diff())
    part = t["v_ptr"].double() * t["x_ptr"][t["col_ptr"].long()]
    return part.new_zeros(p["rows"]).index_add_(0, row, part)


def edge_want(p: Problem, t: Arrays) -> Any:
    import torch

    x, at = t["x_ptr"], t["id_ptr"].long().flatten(1)[:, None].expand(-1, p["channels"], -1)
    own = x[..., None].expand(-1, -1, -1, p["near"])
    return torch.cat([x.gather(2, at).view(own.shape) - own, own], 1)


def permute_want(p: Problem, t: Arrays) -> Any:
    x = t["x_ptr"][t["slot_ptr"].long() // p["top"]].float().view(p["slots"], -1, 128)
    scale = x.abs().amax(2).clamp(1e-4) / 448
    return x.view(p["slots"], -1), scale


def permuted(p: Problem, c: Any, t: Arrays) -> Any:
    y = t["y_ptr"].float().view(p["slots"], -1, 128) * t["scale_ptr"][:, :, None]
    return y.view(p["slots"], -1), t["scale_ptr"]


def lookup_want(p: Problem, t: Arrays) -> Any:
    import torch

    side = 2 * p["reach"] + 1
    near = torch.arange(side, device=t["x_ptr"].device) - p["reach"]
    away = torch.stack(torch.broadcast_tensors(near[None, :], near[:, None]), 2)
    size = torch.tensor([p["wide"], p["high"]], device=near.device)
    at = (t["at_ptr"][:, None, None] + away + 0.5) / size * 2 - 1
    return torch.nn.functional.grid_sample(t["x_ptr"][:, None], at, align_corners=False).view(p["n"], side**2)


SUBJECTS = [
    subject("windows", zoo.weno5, shapes("rows cols speed", (4096, 4096, 0.4), (1000, 3001, 1.5)), WIDE,
        "x: float32[rows, cols + 6]; y: float32[rows, cols]; rows cols speed", plane, want=weno_want, most=16),
    subject("windows", zoo.conduct, shapes("deep high wide step", (256, 384, 512, 0.1), (100, 250, 300, 0.2)), WIDE,
        "x k y: float32[deep, high, wide]; deep high wide step",
        lambda p, c: (*over()(p, c), p["deep"]), want=conduct_want, most=16),
    subject("windows", zoo.pyramid_down, shapes("high wide", (4320, 7680), (2001, 3001)), WIDE,
        "x: uint8[high, wide]; y: uint8[(high + 1) // 2, (wide + 1) // 2]; high wide",
        "cdiv(wide, 2 * BLOCK_C), cdiv(high, 2 * BLOCK_R)", want=pyramid_want),
    subject("windows", zoo.census, shapes("high wide", (2160, 3840), (1080, 1500)), WIDE,
        "x: uint8[high, wide]; y: int32[high, wide]; high wide", over(), want=census_want, tolerance=0.0),
    subject("windows", zoo.mel_bands, shapes("frames bins bands taps top", (60_000, 201, 80, 14, 8000),
        (30_000, 1025, 128, 58, 22050)), TOKENS,
        "x: float32[frames, bins]; first: int32[bands]; w: float32[bands, taps]; y: float32[frames, bands]; "
        "frames bins bands", "cdiv(bands, BLOCK_C), cdiv(frames, BLOCK_T)", want=mel_want, constants="taps",
        values=mel),
    subject("windows", zoo.involution, shapes("planes high wide group side", (2048, 56, 56, 16, 7),
        (128, 270, 480, 32, 3)), LINES,
        "x: float16[1, planes, high, wide]; w: float16[planes // group, side ** 2, high, wide]; "
        "y: float16[1, planes, high, wide]; high wide", "cdiv(high * wide, BLOCK), planes", want=involution_want,
        constants="group side"),
    subject("windows", zoo.harris, shapes("high wide k", (4320, 7680, 0.04), (1500, 2000, 0.06)), WIDE,
        "x: float32[high + 4, wide + 4]; y: float32[high, wide]; high wide k", over(), want=harris_want, most=16),
    subject("windows", zoo.yee_step, shapes("deep high wide ratio", (256, 256, 256, 0.5), (60, 300, 500, 0.3)), WIDE,
        "e h y: float32[3, deep, high, wide]; deep high wide ratio",
        lambda p, c: (*over()(p, c), p["deep"]), want=yee_want, most=16),
    subject("windows", zoo.conv_packed, shapes("tokens width taps most", (60_000, 4096, 4, 2000),
        (20_000, 1536, 3, 60)), TOKENS,
        "x: bfloat16[tokens, width]; w: bfloat16[taps, width]; b: bfloat16[width]; at: int32[tokens]; "
        "y: bfloat16[tokens, width]; tokens width", "cdiv(width, BLOCK_C), cdiv(tokens, BLOCK_T)", want=packed_want,
        constants="taps", values=places),
    subject("windows", zoo.token_shift, shapes("batch length width kinds", (8, 4096, 2048, 6), (4, 1000, 768, 4)),
        TOKENS,
        "x: bfloat16[batch, length, width]; mix: bfloat16[kinds, width]; y: bfloat16[kinds, batch, length, width]; "
        "length width batch", "cdiv(width, BLOCK_C), cdiv(length, BLOCK_T), batch", want=shift_want, constants="kinds"),
    subject("atomics", zoo.hash_insert, shapes("n size most", (1 << 21, 1 << 23, 1 << 31),
        (1_500_000, 1 << 20, 500_000)), LINES, "key: int32[n]; y: int32[size]; n", line, want=insert_want,
        constants="size", got=lambda p, c, t: t["y_ptr"].sort().values, tolerance=0.0,
        values=lambda p: {"key_ptr": 1 + drawn(439).integers(0, p["most"] - 1, p["n"], np.int32), "y_ptr": 0}),
    subject("atomics", zoo.vertex_normals, shapes("side n shuffled", (1025, 1 << 21, 0), (601, 720_000, 1)), LINES,
        "x: float32[side ** 2, 3]; face: int32[n, 3]; y: float32[side ** 2, 3]; n", line, want=normals_want,
        values=mesh),
    subject("atomics", zoo.group_by, shapes("n groups skew", (1 << 23, 1000, 1.0), (4_000_000, 1 << 20, 2.0)), LINE,
        "key: int32[n]; x: float32[n]; sum: float32[groups]; count: int32[groups]; most: float32[groups]; n", line,
        want=group_want, output="sum_ptr count_ptr most_ptr",
        values=lambda p: {"key_ptr": picked(443, "groups", "n", skew=p["skew"])(p)}),
    subject("atomics", zoo.pair_forces, shapes("atoms each n apart", (100_000, 40, 4_000_000, 200),
        (500_000, 6, 3_000_000, 500_000)), LINES,
        "x: float32[3, atoms]; from to: int32[n]; y: float32[3, atoms]; n atoms", line, want=forces_want, values=pairs),
    subject("atomics", zoo.bias_gradient, shapes("windows heads side", (2048, 6, 7), (300, 16, 12)),
        {**LINES, "EACH": (8, 32, 128)},
        "g: float16[windows, heads, side ** 2, side ** 2]; y: float32[(2 * side - 1) ** 2, heads]; windows",
        "cdiv(side ** 4, BLOCK), heads, cdiv(windows, EACH)", want=bias_want, constants="side"),
    subject("gathers", zoo.deformable, shapes("queries heads width levels points high wide",
        (17_821, 8, 32, 4, 4, 100, 134), (40_000, 8, 32, 1, 8, 200, 200)), "BLOCK=4..128 num_warps=1..8",
        deformable_args, "cdiv(queries, BLOCK), heads", want=deformable_want, constants="levels points heads width",
        keep="elements(c, BLOCK * width, 32)", values=sampled),
    subject("gathers", zoo.csr_row_blocks, shapes("rows most apart", (1 << 20, 30, 0), (100_000, 300, 2000)),
        "BLOCK_R=1,4,8,16,32,64 BLOCK_K=8..128 num_warps=1..8", csr_args, "cdiv(rows, BLOCK_R)", want=csr_want,
        values=csr, most=16),
    subject("gathers", zoo.edge_features, shapes("clouds channels points near", (32, 64, 1024, 20), (8, 24, 5000, 32)),
        LINE,
        "x: float32[clouds, channels, points]; id: int32[clouds, points, near]; "
        "y: float32[clouds, 2 * channels, points, near]; channels points",
        "cdiv(points * near, BLOCK), channels, clouds", want=edge_want, constants="near",
        values=lambda p: {"id_ptr": picked(449, "points", "clouds", "points", "near")(p)}),
    subject("gathers", zoo.permute_quantise, shapes("tokens slots width top", (8000, 64_000, 2048, 8),
        (4000, 8000, 4096, 2)), "BLOCK_R=1..32 BLOCK_C=128..1024 num_warps=1..8",
        "x: bfloat16[tokens, width]; slot: int32[slots]; y: float8_e4m3[slots, width]; "
        "scale: float32[slots, width // 128]; slots", "width // BLOCK_C, cdiv(slots, BLOCK_R)", want=permute_want,
        constants="width top", output="y_ptr scale_ptr", got=permuted, tolerance=0.04,
        values=lambda p: {"slot_ptr": drawn(457).permutation(p["slots"]).astype(np.int32)}),
    subject("gathers", zoo.correlation_lookup, shapes("n high wide reach", (7040, 55, 128, 4), (19_200, 60, 80, 3)),
        LINES, "x: float32[n, high, wide]; at: float32[n, 2]; y: float32[n, (2 * reach + 1) ** 2]; n high wide",
        "cdiv(n * (2 * reach + 1) ** 2, BLOCK)", want=lookup_want, constants="reach",
        values=lambda p: {"at_ptr": (drawn(461).random((p["n"], 2)) * (p["wide"], p["high"])).astype(np.float32)}),
]  # fmt: skip
SMALL = {name: shapes(names, row) for name, names, row in (
    ("weno5", "rows cols speed", (5, 40, 0.5)), ("conduct", "deep high wide step", (4, 6, 40, 0.1)),
    ("pyramid_down", "high wide", (9, 70)), ("census", "high wide", (7, 40)),
    ("mel_bands", "frames bins bands taps top", (5, 129, 20, 24, 8000)),
    ("involution", "planes high wide group side", (4, 7, 9, 2, 3)), ("harris", "high wide k", (5, 40, 0.04)),
    ("yee_step", "deep high wide ratio", (3, 5, 40, 0.5)), ("conv_packed", "tokens width taps most", (40, 20, 3, 9)),
    ("token_shift", "batch length width kinds", (2, 5, 20, 3)), ("hash_insert", "n size most", (200, 512, 1000)),
    ("vertex_normals", "side n shuffled", (9, 128, 1)), ("group_by", "n groups skew", (300, 20, 1.5)),
    ("pair_forces", "atoms each n apart", (50, 4, 200, 9)), ("bias_gradient", "windows heads side", (5, 2, 3)),
    ("deformable", "queries heads width levels points high wide", (9, 2, 32, 2, 3, 12, 16)),
    ("csr_row_blocks", "rows most apart", (60, 20, 9)), ("edge_features", "clouds channels points near", (2, 3, 30, 4)),
    ("correlation_lookup", "n high wide reach", (20, 7, 9, 2)),
)}  # fmt: skip
"""A problem of each kernel for Triton's interpreter."""
