"""The 32 kernels of `kernels/triton_zoo_22nd.py` as `zoo.py` measures them: twelve of gathers, twelve of atomics, eight
of windows, two problems each. All were predicted before they were timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_22nd as zoo

from .blind import LINES, TOKENS, picked
from .edges import LINE, line
from .eleventh import over
from .forms import drawn, starts
from .seventeenth import OVER
from .subject import Problem, cdiv, shapes, subject
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
