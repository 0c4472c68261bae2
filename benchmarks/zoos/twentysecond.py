"""The 32 kernels of `kernels/triton_zoo_22nd.py` as `zoo.py` measures them: twelve of gathers, twelve of atomics, eight
of windows, two problems each. All were predicted before they were timed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from kernels import triton_zoo_22nd as zoo

from .blind import LINES, TOKENS, picked
from .edges import LINE, line
from .eleventh import over
from .forms import drawn, starts
from .seventeenth import OVER
from .subject import Arrays, Problem, cdiv, shapes, subject
from .thirteenth import WIDE
from .twentieth import tensors

SEGMENT = "cdiv(length, BLOCK), rows"


def pages(p: Problem) -> dict[str, Any]:
    """Sequences of uneven lengths, whose pages are anywhere."""
    length = (drawn(1601).random(p["seqs"]) ** 1.5 * (p["most"] - 1) + 1).astype(np.int32)
    each = cdiv(p["most"], p["page"])
    table = drawn(1607).permutation(p["seqs"] * each).reshape(p["seqs"], each)
    return {"length_ptr": length, "table_ptr": table.astype(np.int32)}


def chains(p: Problem) -> dict[str, Any]:
    """Rows of keys in chains by hash; two of three keys asked for are there."""
    draw, rows = drawn(1609), p["rows"]
    keys = draw.permutation(4 * rows).astype(np.int32)
    home = (keys[:rows].astype(np.uint32) * np.uint32(2654435769) >> np.uint32(32 - p["bits"])).astype(np.int64)
    order = np.argsort(home, kind="stable")
    after = np.full(rows, -1, np.int32)
    same = home[order[1:]] == home[order[:-1]]
    after[order[:-1][same]] = order[1:][same]
    head = np.full(1 << p["bits"], -1, np.int32)
    first = np.concatenate([[True], ~same])
    head[home[order[first]]] = order[first]
    return {"build_ptr": keys[:rows], "head_ptr": head, "next_ptr": after,
            "key_ptr": keys[draw.integers(0, rows + rows // 2, p["n"])]}  # fmt: skip


def neighbours(p: Problem) -> dict[str, Any]:
    """Voxels of a surface in the order of a scan, and which are beside each."""
    draw, side = drawn(1613), p["side"]
    x, y = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
    z = (side / 2 + side / 4 * np.sin(x / 17) * np.cos(y / 23)).astype(np.int64)
    flat = np.unique(((x * side + y) * side + z)[draw.random((side, side)) < 0.9])[: p["n"]]
    found = np.full((27, p["n"]), -1, np.int32)
    for k in range(27):
        want = flat + ((k // 9 - 1) * side + k // 3 % 3 - 1) * side + k % 3 - 1
        at = np.searchsorted(flat, want).clip(max=len(flat) - 1)
        found[k, : len(flat)] = np.where(flat[at] == want, at, -1)
    return {"map_ptr": found}


def balls(p: Problem) -> dict[str, Any]:
    """32 neighbours of each centre, near in the order of points."""
    draw, shape = drawn(1619), (p["batch"], p["count"] // 32)
    middle = draw.integers(0, p["n"], shape)[..., None]
    id = (middle + draw.integers(-p["near"], p["near"], (*shape, 32))) % p["n"]
    return {"id_ptr": id.reshape(p["batch"], -1).astype(np.int32)}


def triples(p: Problem) -> dict[str, Any]:
    """Atoms of molecules: those of an angle are near each other."""
    middle = np.sort(drawn(1621).integers(0, p["atoms"], p["n"]))[:, None]
    return {"atom_ptr": ((middle + drawn(1627).integers(-12, 13, (p["n"], 3))) % p["atoms"]).astype(np.int32)}


def ground(p: Problem) -> dict[str, Any]:
    """Points along rays from the middle, ray by ray."""
    draw, n = drawn(1637), p["n"]
    ray, far = np.arange(n) // p["steps"], (np.arange(n) % p["steps"] + 1) / p["steps"] * 0.55
    turn = ray * 2.399963 + draw.random(n) * 0.001
    return {"u_ptr": (0.5 + far * np.cos(turn)).astype(np.float32),
            "v_ptr": (0.5 + far * np.sin(turn)).astype(np.float32)}  # fmt: skip


def charges(p: Problem) -> dict[str, Any]:
    """Anywhere, or sorted by cell."""
    x = drawn(1657).random((3, p["n"]), np.float32) * np.float32(0.999)
    if p["sorted"]:
        i, j, k = (x * (p["side"] - 1)).astype(np.int64)
        x = x[:, np.argsort((i * p["side"] + j) * p["side"] + k, kind="stable")]
    return {"x_ptr": np.ascontiguousarray(x)}


def front(p: Problem) -> dict[str, Any]:
    start = starts(p, "nodes", "most")
    return {"start_ptr": start, "front_ptr": np.sort(drawn(1663).permutation(p["nodes"])[: p["n"]]).astype(np.int32),
            "col_ptr": drawn(1667).integers(0, p["nodes"], start[-1], np.int32)}  # fmt: skip


def front_args(p: Problem) -> dict[str, Any]:
    n = int(starts(p, "nodes", "most")[-1])
    return tensors(p, front=("int32", (p["n"],)), start=("int32", (p["nodes"] + 1,)), col=("int32", (n,)),
                   y=("int32", (p["nodes"],)), count=("int32", (1,))) | {"n": p["n"], "level": 5}  # fmt: skip


def regions(p: Problem) -> dict[str, Any]:
    """Cells of an uneven grid; a third is none."""
    r, c = np.meshgrid(np.arange(p["high"]), np.arange(p["wide"]), indexing="ij")
    i = (r + 9 * np.sin(c / 31)).astype(np.int64) // p["side"] + 1
    j = (c + 9 * np.sin(r / 27)).astype(np.int64) // p["side"] + 1
    label = (i * (p["wide"] // p["side"] + 3) + j) % (p["count"] - 1) + 1
    return {"label_ptr": np.where(label % 3 == 0, 0, label).astype(np.int32)}


def elements(p: Problem) -> dict[str, Any]:
    """Corners of the cells of a grid whose nodes are numbered along it, cell by cell."""
    side = p["side"]
    cell = np.arange(p["n"])
    first = (cell // (side * side)) * side * side + cell % (side * side)
    away = np.array([((k // 4) * side + k // 2 % 2) * side + k % 2 for k in range(8)])
    pick = np.array([0, 1, 2, 4]) if p["corners"] == 4 else np.arange(8)
    return {"node_ptr": ((first[:, None] + away[pick]) % p["nodes"]).astype(np.int32)}


def depths(p: Problem) -> dict[str, Any]:
    draw = drawn(1669)
    x = draw.integers(500, 8000, (p["frames"], p["high"], p["wide"]), np.int16)
    return {"x_ptr": np.where(draw.random(x.shape) < 0.2, 0, x).astype(np.int16)}


def uniform(seed: int, name: str, *axes: str) -> Any:
    return lambda p: {name: drawn(seed).random([p[n] for n in axes], np.float32)}


SUBJECTS = [
    subject("gathers", zoo.weighted_bags, shapes("bags each rows width dtype", (16_384, 20, 400_000, 128, "bfloat16"),
        (4000, 50, 2_000_000, 48, "float32")), TOKENS,
        "id: int64[bags, each]; weight: float32[bags, each]; table: dtype[rows, width]; y: float32[bags, width]; "
        "bags width", "cdiv(bags, BLOCK_T), cdiv(width, BLOCK_C)", constants="each", most=16,
        values=lambda p: {"id_ptr": picked(1693, "rows", "bags", "each", skew=2.0, dtype=np.int64)(p)}),
    subject("gathers", zoo.paged_int8, shapes("seqs heads most page width", (64, 8, 4096, 16, 128),
        (200, 4, 1000, 64, 64)), "BLOCK=16..256 num_warps=1..8",
        lambda p: tensors(p, table=("int32", (p["seqs"], cdiv(p["most"], p["page"]))), length=("int32", (p["seqs"],)),
            weight=("float32", (p["seqs"], p["heads"], p["most"])),
            v=("int8", (p["seqs"] * cdiv(p["most"], p["page"]) * p["page"], p["heads"], p["width"])),
            scale=("float16", (p["seqs"] * cdiv(p["most"], p["page"]) * p["page"], p["heads"])),
            y=("float32", (p["seqs"], p["heads"], p["width"])))
            | {"pages": cdiv(p["most"], p["page"]), "most": p["most"], "heads": p["heads"]},
        "heads, seqs", constants="page width", keep="1 <= BLOCK * width / (32 * num_warps) <= 128", values=pages),
    subject("gathers", zoo.chained_join, shapes("n rows bits steps", (1 << 21, 1 << 20, 20, 4),
        (3_000_000, 60_000, 16, 3)), LINES,
        "key y: int32[n]; head: int32[1 << bits]; next build paid: int32[rows]; n", line, constants="bits steps",
        most=8, tolerance=0.0, values=chains),
    subject("gathers", zoo.submanifold, shapes("n side width dtype", (200_000, 512, 64, "float16"),
        (80_000, 300, 32, "float32")), TOKENS,
        "map: int32[27, n]; x: dtype[n, width]; w: float32[27, width]; y: float16[n, width]; n width", OVER, most=16,
        values=neighbours),
    subject("gathers", zoo.group_points, shapes("batch channels n count near", (16, 64, 4096, 32_768, 60),
        (4, 9, 100_000, 524_288, 3000)), LINES,
        "id: int32[batch, count]; x: float32[batch, channels, n]; middle: float32[batch, channels, count // 32]; "
        "y: float32[batch, channels, count]; n count", "cdiv(count, BLOCK), batch", constants="channels", most=8,
        values=balls),
    subject("gathers", zoo.before_suffix, shapes("n", (1 << 23,), (3_000_000,)), LINE,
        "suffix: int32[n]; text y: uint8[n]; n", line, most=16, tolerance=0.0,
        values=lambda p: {"suffix_ptr": drawn(1697).permutation(p["n"]).astype(np.int32)}),
    subject("gathers", zoo.pointer_jump, shapes("n jumps skew", (1 << 22, 1, 1.0), (2_000_000, 3, 2.0)), LINES,
        "parent y: int32[n]; n", line, constants="jumps", most=8, tolerance=0.0,
        values=lambda p: {"parent_ptr": (drawn(1699).random(p["n"]) ** p["skew"] * np.arange(p["n"]))
            .astype(np.int32)}),
    subject("gathers", zoo.equalise_tiles, shapes("high wide side", (4096, 4096, 8), (1536, 2048, 16)), WIDE,
        "x: uint8[high, wide]; curve: float32[side, side, 256]; y: uint8[high, wide]; high wide", over(),
        constants="side", most=16, tolerance=0.05, values=lambda p: {
            "x_ptr": (drawn(1709).standard_normal((p["high"], p["wide"])) * 30 + 120).clip(0, 255).astype(np.uint8),
            "curve_ptr": np.sort(drawn(1721).random((p["side"], p["side"], 256), np.float32) * 255, 2)}),
    subject("gathers", zoo.perlin, shapes("high wide step", (4096, 4096, 0.013), (1024, 2048, 0.37)), WIDE,
        "table: int32[256]; y: float32[high, wide]; wide step; z = 7", over(), most=16,
        values=lambda p: {"table_ptr": drawn(1723).permutation(256).astype(np.int32)}),
    subject("gathers", zoo.antidiagonals, shapes("pairs rows cols dtype", (16, 1024, 1024, "float32"),
        (64, 300, 500, "float16")), WIDE,
        "x: dtype[pairs, rows, cols]; y: dtype[pairs, rows + cols - 1, rows]; rows cols",
        "cdiv(rows, BLOCK_C), cdiv(rows + cols - 1, BLOCK_R), pairs", most=16, tolerance=0.0),
    subject("gathers", zoo.bond_angles, shapes("n atoms", (2_000_000, 600_000), (400_000, 100_000)), LINES,
        "atom: int32[n, 3]; x: float32[atoms, 3]; y: float32[n]; n", line, most=8, values=triples),
    subject("gathers", zoo.rotate_volume, shapes("deep high wide cos sin dtype", (192, 256, 256, 0.866, 0.5, "float32"),
        (128, 128, 300, 0.2588, 0.9659, "uint8")), WIDE,
        "x y: dtype[deep, high, wide]; deep high wide cos sin",
        "wide // BLOCK_C + (wide % BLOCK_C > 0), cdiv(high, BLOCK_R), deep", most=16, tolerance=0.0),
    subject("atomics", zoo.group_stats, shapes("n groups skew", (1 << 21, 100_000, 1.0), (1 << 22, 3000, 2.0)), LINES,
        "key x: int32[n]; y: float32[groups]; least most: int32[groups]; n", line, most=8,
        output="y_ptr least_ptr most_ptr", values=lambda p: {"key_ptr": picked(1733, "groups", "n", skew=p["skew"])(p),
            "x_ptr": drawn(1741).integers(-1000, 5000, p["n"], np.int32)}),
    subject("atomics", zoo.lbp_histogram, shapes("high wide cell", (2160, 3840, 32), (1000, 1500, 64)), WIDE,
        "x: uint8[high, wide]; y: int32[(high // cell + 1) * (wide // cell + 1) * 256]; high wide", over(2),
        constants="cell", most=16, tolerance=0.0, values=lambda p: {"x_ptr": (np.indices((p["high"], p["wide"])).sum(0)
            // 5 + drawn(1747).integers(0, 12, (p["high"], p["wide"])) & 255).astype(np.uint8)}),
    subject("atomics", zoo.segment_argmax, shapes("n parts order", (1 << 22, 30_000, 1), (2_000_000, 200_000, 0)),
        LINES, "part: int32[n]; x: float32[n]; y: int64[parts]; n", line, most=8, tolerance=1e-6,
        values=lambda p: {"part_ptr": (np.sort if p["order"] else np.asarray)(picked(1753, "parts", "n")(p))}),
    subject("atomics", zoo.bev_splat, shapes("n steps width side dtype", (300_000, 60, 64, 200, "bfloat16"),
        (60_000, 40, 80, 128, "float32")), TOKENS,
        "u v: float32[n]; x: dtype[n, width]; y: float32[side ** 2, width]; n width", OVER, constants="side", most=16,
        values=ground),
    subject("atomics", zoo.minhash, shapes("docs length places", (2000, 4000, 64), (100, 100_000, 16)),
        "BLOCK=256..4096 num_warps=1..8", "x: int32[docs, length]; y: int32[docs, places]; length",
        "cdiv(length, BLOCK), docs", constants="places", most=32, tolerance=0.0,
        values=lambda p: {"x_ptr": drawn(1759).integers(0, 1 << 30, (p["docs"], p["length"]), np.int32)}),
    subject("atomics", zoo.charge_cells, shapes("n side sorted", (1 << 19, 128, 0), (1_000_000, 96, 1)), LINES,
        "x: float32[3, n]; charge: float32[n]; y: float32[side ** 3]; n", line, constants="side", most=8,
        values=charges),
    subject("atomics", zoo.bfs_push, shapes("n nodes most", (40_000, 400_000, 60), (3000, 100_000, 900)),
        "BLOCK=32..1024 num_warps=1..8", front_args, "n", output="y_ptr count_ptr", most=8, tolerance=0.0,
        got=lambda p, c, t: t["y_ptr"], values=front),
    subject("atomics", zoo.ticket_filter, shapes("n size limit", (1 << 24, 1 << 23, 0.5), (3_000_000, 1 << 21, 0.0)),
        LINE, "x: float32[n]; y: float32[size]; count: int32[1]; n limit", line, constants="size",
        output="y_ptr count_ptr", got=lambda p, c, t: t["count_ptr"], most=16, tolerance=0.0),
    subject("atomics", zoo.bias_buckets_grad, shapes("heads n buckets dtype", (16, 1024, 128, "bfloat16"),
        (8, 1500, 512, "float32")), WIDE,
        "g: dtype[heads, n, n]; y: float32[heads, buckets]; n", "cdiv(n, BLOCK_C), cdiv(n, BLOCK_R), heads",
        constants="buckets", most=16),
    subject("atomics", zoo.calibration, shapes("n bins spread", (1 << 20, 15, 4.0), (300_000, 100, 4.0)), LINES,
        "score: float32[n]; right: uint8[n]; y: float32[bins * 3]; n", line, constants="bins", most=8,
        values=lambda p: {"score_ptr": (drawn(1777).standard_normal(p["n"]) * p["spread"]).astype(np.float32),
            "right_ptr": drawn(1783).integers(0, 2, p["n"], np.uint8)}),
    subject("atomics", zoo.region_props, shapes("high wide side count", (2048, 2048, 24, 8192), (1080, 1920, 90, 500)),
        WIDE, "label: int32[high, wide]; y: int32[3 * count]; high wide count", over(), most=16, tolerance=0.0,
        values=regions),
    subject("atomics", zoo.fem_assemble, shapes("n corners side nodes", (400_000, 8, 80, 512_000),
        (1_000_000, 4, 100, 1_000_000)), LINES,
        "node: int32[n, corners]; force: float32[3 * corners, n]; y: float32[nodes, 3]; n", line, constants="corners",
        most=8, values=elements),
    subject("windows", zoo.slope_min, shapes("rows length reach", (1080, 1920, 8), (64, 200_000, 4)), LINE,
        "x y: float32[rows, length]; length; tilt = 0.125", SEGMENT, constants="reach", most=16),
    subject("windows", zoo.fill_depth, shapes("frames high wide", (16, 480, 640), (5, 1200, 1601)), WIDE,
        "x y: int16[frames, high, wide]; high wide", lambda p, c: (*over()(p, c), p["frames"]), most=16, tolerance=0.0,
        values=depths),
    subject("windows", zoo.dynamic_conv, shapes("batch n width each taps", (8, 2048, 1024, 64, 7),
        (4, 3000, 512, 32, 3)), TOKENS, "x: bfloat16[batch, n, width]; w: bfloat16[batch, n, width // each, taps]; "
        "y: bfloat16[batch, n, width]; n width", "cdiv(n, BLOCK_T), cdiv(width, BLOCK_C), batch",
        constants="each taps", most=16),
    subject("windows", zoo.self_similarity, shapes("images channels high wide dtype", (8, 64, 128, 160, "float16"),
        (4, 32, 300, 400, "float32")), WIDE,
        "x: dtype[images, channels, high, wide]; y: float32[images, 4, high, wide]; high wide",
        lambda p, c: (*over(2)(p, c), p["images"]), constants="channels", most=8),
    subject("windows", zoo.rolling_correlation, shapes("rows length span", (512, 8192, 20), (100, 50_000, 8)), LINE,
        "a b y: float32[rows, length]; length", SEGMENT, constants="span", most=16),
    subject("windows", zoo.eikonal, shapes("high wide", (4096, 4096), (1500, 2501)), WIDE,
        "x cost y: float32[high, wide]; high wide", over(), most=16, values=uniform(1787, "cost_ptr", "high", "wide")),
    subject("windows", zoo.peaks_3d, shapes("volumes deep high wide dtype", (2, 64, 256, 256, "float32"),
        (6, 40, 100, 130, "float16")), WIDE,
        "x y: dtype[volumes, deep, high, wide]; deep high wide", lambda p, c: (*over()(p, c), p["volumes"] * p["deep"]),
        most=16, tolerance=0.0),
    subject("windows", zoo.convex_up, shapes("images high wide scale", (8, 55, 128, 8), (2, 120, 160, 4)), WIDE,
        "x: float32[images, 2, high, wide]; w: float16[images, 9 * scale ** 2, high, wide]; "
        "y: float32[images, 2, high * scale, wide * scale]; high wide",
        "cdiv(wide * scale, BLOCK_C), cdiv(high * scale, BLOCK_R), images", constants="scale", most=16),
]  # fmt: skip

# -- what is right


def bags_want(p: Problem, t: Arrays) -> Any:
    return (t["table_ptr"][t["id_ptr"]].float() * t["weight_ptr"][..., None]).sum(1)


def paged_want(p: Problem, t: Arrays) -> Any:
    import torch

    out = list[Any]()
    v = t["v_ptr"].view(-1, p["page"], p["heads"], p["width"])
    scale = t["scale_ptr"].float().view(-1, p["page"], p["heads"])
    for seq in range(p["seqs"]):
        n = int(t["length_ptr"][seq])
        page = t["table_ptr"][seq, : cdiv(n, p["page"])].long()
        w = scale[page].flatten(0, 1)[:n] * t["weight_ptr"][seq, :, :n].T
        out.append((v[page].flatten(0, 1)[:n].float() * w[..., None]).sum(0))
    return torch.stack(out)


def join_want(p: Problem, t: Arrays) -> Any:
    import torch

    key, build = t["key_ptr"].long(), t["build_ptr"].long()
    row = t["head_ptr"].long()[((key * 2654435769) & 0xFFFFFFFF) >> (32 - p["bits"])]
    found = torch.full_like(row, -1)
    for _ in range(p["steps"]):
        found = torch.where((row >= 0) & (build[row.clamp(min=0)] == key) & (found < 0), row, found)
        row = torch.where(row >= 0, t["next_ptr"].long()[row.clamp(min=0)], -1)
    return torch.where(found >= 0, t["paid_ptr"][found.clamp(min=0)], -1)


def submanifold_want(p: Problem, t: Arrays) -> Any:
    total = 0
    for k in range(27):
        id = t["map_ptr"][k].long()
        total = total + t["x_ptr"][id.clamp(min=0)].float() * (id >= 0)[:, None] * t["w_ptr"][k]
    return total


def points_want(p: Problem, t: Arrays) -> Any:
    id = t["id_ptr"].long()[:, None].expand(-1, p["channels"], -1)
    return t["x_ptr"].gather(2, id) - t["middle_ptr"].repeat_interleave(32, 2)


def jump_want(p: Problem, t: Arrays) -> Any:
    up = t["parent_ptr"]
    for _ in range(p["jumps"]):
        up = t["parent_ptr"][up.long()]
    return up


def equalised_want(p: Problem, t: Arrays) -> Any:
    import torch

    def along(n: int) -> tuple[Any, Any, Any]:
        v = (torch.arange(n, device=t["x_ptr"].device) + 0.5) / n * p["side"] - 0.5
        return v.floor().long().clamp(min=0), (v.floor().long() + 1).clamp(max=p["side"] - 1), v - v.floor()

    (r0, r1, fv), (c0, c1, fu) = along(p["high"]), along(p["wide"])
    x = t["x_ptr"].long()
    a, b, c, d = (t["curve_ptr"][r[:, None], k[None, :], x] for r in (r0, r1) for k in (c0, c1))
    fv = fv[:, None]
    return ((a * (1 - fu) + b * fu) * (1 - fv) + (c * (1 - fu) + d * fu) * fv).to(torch.uint8)


def antidiagonals_want(p: Problem, t: Arrays) -> Any:
    import torch

    d = torch.arange(p["rows"] + p["cols"] - 1, device=t["x_ptr"].device)[:, None]
    i = torch.arange(p["rows"], device=d.device)[None, :]
    inside = (i <= d) & (d - i < p["cols"])
    return t["x_ptr"][:, i.expand_as(inside), (d - i).clamp(0, p["cols"] - 1)] * inside


def angles_want(p: Problem, t: Arrays) -> Any:
    i, j, k = (t["x_ptr"][t["atom_ptr"].long()[:, n]] for n in range(3))
    a, b = i - j, k - j
    return (a * b).sum(1) / (a.square().sum(1) * b.square().sum(1) + 1e-6).sqrt()


def stats_want(p: Problem, t: Arrays) -> Any:
    key, x = t["key_ptr"].long(), t["x_ptr"]
    y = x.new_zeros(p["groups"])
    return (y.float().index_add(0, key, x.float()), y.scatter_reduce(0, key, x, "amin"),
            y.scatter_reduce(0, key, x, "amax"))  # fmt: skip


def lbp_want(p: Problem, t: Arrays) -> Any:
    import torch

    x, h, w = t["x_ptr"].int(), p["high"], p["wide"]
    own, code = x[1:-1, 1:-1], 0
    for k, way in enumerate((0, 1, 2, 3, 5, 6, 7, 8)):
        i, j = way // 3, way % 3
        code = code + ((x[i : i + h - 2, j : j + w - 2] >= own).long() << k)
    r = torch.arange(1, h - 1, device=x.device)[:, None] // p["cell"]
    c = torch.arange(1, w - 1, device=x.device)[None, :] // p["cell"]
    size = (h // p["cell"] + 1) * (w // p["cell"] + 1) * 256
    return ((r * (w // p["cell"] + 1) + c) * 256 + code).flatten().bincount(minlength=size)


def argmax_want(p: Problem, t: Arrays) -> Any:
    import torch

    bits = t["x_ptr"].view(torch.int32)
    order = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).long()
    word = order * (1 << 32) + torch.arange(p["n"], device=bits.device)
    return word.new_zeros(p["parts"]).scatter_reduce(0, t["part_ptr"].long(), word, "amax")


def splat_want(p: Problem, t: Arrays) -> Any:
    u, v, side = t["u_ptr"] * p["side"], t["v_ptr"] * p["side"], p["side"]
    inside = (u >= 0) & (u < side) & (v >= 0) & (v < side)
    x = t["x_ptr"].float()
    return x.new_zeros(side**2, p["width"]).index_add(0, v[inside].long() * side + u[inside].long(), x[inside])


def minhash_want(p: Problem, t: Arrays) -> Any:
    import torch

    x, out = t["x_ptr"].long() & 0xFFFFFFFF, list[Any]()
    for k in range(p["places"]):
        h = ((x ^ (k * 0x1E3779B9 & 0xFFFFFFFF)) * 0x85EBCA6B) & 0xFFFFFFFF
        h = ((h ^ (h >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
        out.append(((h ^ (h >> 16)) >> 1).amin(1) - 0x7FFFFFFF)
    return torch.stack(out, 1)


def charge_want(p: Problem, t: Arrays) -> Any:
    u = t["x_ptr"] * (p["side"] - 1)
    i, side = u.long(), p["side"]
    f, y = u - u.long(), t["x_ptr"].new_zeros(p["side"] ** 3)
    for k in range(8):
        way = (k // 4, k // 2 % 2, k % 2)
        part = t["charge_ptr"]
        for axis in range(3):
            part = part * (f[axis] if way[axis] else 1 - f[axis])
        y.index_add_(0, ((i[0] + way[0]) * side + i[1] + way[1]) * side + i[2] + way[2], part)
    return y


def front_want(p: Problem, t: Arrays) -> Any:
    import torch

    start, y = t["start_ptr"].long(), t["start_ptr"].new_zeros(p["nodes"])
    first, count = start[t["front_ptr"].long()], start.diff()[t["front_ptr"].long()]
    at = torch.arange(int(count.sum()), device=y.device) - (count.cumsum(0) - count).repeat_interleave(count)
    y[t["col_ptr"].long()[first.repeat_interleave(count) + at]] = 5
    return y


def bias_want(p: Problem, t: Arrays) -> Any:
    import torch

    r = torch.arange(p["n"], device=t["g_ptr"].device)
    far = r[:, None] - r[None, :]
    bucket, seen = far.clamp(0, p["buckets"] - 1), far >= 0
    g = t["g_ptr"].float()
    return g.new_zeros(p["heads"], p["buckets"]).index_add(1, bucket[seen], g[:, seen])


def calibration_want(p: Problem, t: Arrays) -> Any:
    import torch

    q = t["score_ptr"].sigmoid()
    bin = (q * p["bins"]).int().clamp(max=p["bins"] - 1)
    parts = torch.stack([torch.ones_like(q), q, t["right_ptr"].float()], 1)
    return q.new_zeros(p["bins"], 3).index_add(0, bin, parts).flatten()


def regions_want(p: Problem, t: Arrays) -> Any:
    import torch

    label = t["label_ptr"].long()
    r, c = torch.meshgrid(*(torch.arange(n, device=label.device) for n in label.shape), indexing="ij")
    y = label.new_zeros(3, p["count"])
    for k, part in enumerate((torch.ones_like(r), r, c)):
        y[k].index_add_(0, label[label > 0], part[label > 0])
    return y.flatten()


def fem_want(p: Problem, t: Arrays) -> Any:
    y = t["force_ptr"].new_zeros(p["nodes"], 3)
    for k in range(p["corners"]):
        y.index_add_(0, t["node_ptr"][:, k].long(), t["force_ptr"][3 * k : 3 * k + 3].T)
    return y


def around(x: Any, reach: int, value: float, axes: int = 2) -> Any:
    """The neighbours of each element along the last axes, `value` beyond the ends."""
    import itertools

    import torch

    padded = torch.nn.functional.pad(x, (reach, reach) * axes, value=value)
    for way in itertools.product(range(2 * reach + 1), repeat=axes):
        part = padded
        for axis, k in enumerate(way):
            part = part.narrow(axis - axes, k, x.shape[axis - axes])
        yield part


def slope_want(p: Problem, t: Arrays) -> Any:
    import torch

    reach = p["reach"]
    costs = [x + 0.125 * abs(k - reach) for k, x in enumerate(around(t["x_ptr"], reach, 1e30, 1))]
    return torch.stack(costs).amin(0)


def depth_want(p: Problem, t: Arrays) -> Any:
    import torch

    x, total, count = t["x_ptr"].int(), 0, 0
    for near in around(x, 2, 0):
        total, count = total + near, count + (near > 0).int()
    return torch.where(x > 0, x, total // count.clamp(min=1))


def dynamic_want(p: Problem, t: Arrays) -> Any:
    import torch

    x, w = t["x_ptr"].float(), t["w_ptr"].float().repeat_interleave(p["each"], 2)
    total = 0
    for k in range(p["taps"]):
        total = total + torch.nn.functional.pad(x, (0, 0, k, 0))[:, : p["n"]] * w[..., k]
    return total


def similarity_want(p: Problem, t: Arrays) -> Any:
    import torch

    x = t["x_ptr"].float()
    y = x.new_zeros(p["images"], 4, p["high"], p["wide"])
    for k, (i, j) in enumerate(((-1, 0), (1, 0), (0, -1), (0, 1))):
        y[:, k, 1:-1, 1:-1] = (x * torch.roll(x, (-i, -j), (2, 3))).sum(1)[:, 1:-1, 1:-1]
    return y


def correlation_want(p: Problem, t: Arrays) -> Any:
    a, b = (t[n].double().unfold(1, p["span"], 1) for n in ("a_ptr", "b_ptr"))
    a, b = a - a.mean(2, keepdim=True), b - b.mean(2, keepdim=True)
    y = t["a_ptr"].new_zeros(t["a_ptr"].shape)
    y[:, p["span"] - 1 :] = (a * b).sum(2) / (a.square().sum(2) * b.square().sum(2)).clamp(min=1e-8).sqrt()
    return y


def eikonal_want(p: Problem, t: Arrays) -> Any:
    import torch

    x, f = t["x_ptr"], t["cost_ptr"]
    _, up, _, left, _, right, _, down, _ = around(x, 1, 1e9)
    a, b = torch.minimum(up, down), torch.minimum(left, right)
    d = (a - b).abs()
    y = torch.where(d >= f, torch.minimum(a, b) + f, 0.5 * (a + b + (2 * f * f - d * d).clamp(min=0).sqrt()))
    return torch.minimum(x, y)


def peaks_want(p: Problem, t: Arrays) -> Any:
    import torch

    x = t["x_ptr"]
    return torch.where(x == torch.nn.functional.max_pool3d(x.float(), 3, 1, 1).to(x.dtype), x, 0)


def convex_want(p: Problem, t: Arrays) -> Any:
    import torch

    n, s, h, w = p["images"], p["scale"], p["high"], p["wide"]
    mask = t["w_ptr"].float().view(n, 1, 9, s, s, h, w).softmax(2)
    near = torch.stack(list(around(t["x_ptr"], 1, 0.0)), 2).view(n, 2, 9, 1, 1, h, w)
    return (mask * near).sum(2).permute(0, 1, 4, 2, 5, 3).reshape(n, 2, h * s, w * s)


WANT = {
    "weighted_bags": bags_want, "paged_int8": paged_want, "chained_join": join_want, "submanifold": submanifold_want,
    "group_points": points_want, "pointer_jump": jump_want, "equalise_tiles": equalised_want,
    "before_suffix": lambda p, t: t["text_ptr"][(t["suffix_ptr"].long() - 1) % p["n"]],
    "antidiagonals": antidiagonals_want, "bond_angles": angles_want, "group_stats": stats_want,
    "lbp_histogram": lbp_want, "segment_argmax": argmax_want, "bev_splat": splat_want, "minhash": minhash_want,
    "charge_cells": charge_want, "bfs_push": front_want,
    "ticket_filter": lambda p, t: (t["x_ptr"] > p["limit"]).sum()[None], "bias_buckets_grad": bias_want,
    "calibration": calibration_want, "region_props": regions_want, "fem_assemble": fem_want, "slope_min": slope_want,
    "fill_depth": depth_want, "dynamic_conv": dynamic_want, "self_similarity": similarity_want,
    "rolling_correlation": correlation_want, "eikonal": eikonal_want, "peaks_3d": peaks_want, "convex_up": convex_want,
}  # fmt: skip
SUBJECTS = [replace(s, want=WANT.get(s.name)) for s in SUBJECTS]
