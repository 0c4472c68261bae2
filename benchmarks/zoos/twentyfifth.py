"""The 27 kernels of `kernels/triton_zoo_25th.py` as `zoo.py` measures them: nine of windows, six of atomics, seven of
gathers, one each that spills, that stays for many tiles, of strides, of attention and of scans, two problems each. All
were predicted before they were timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_25th as zoo

from .blind import LINES, TOKENS, picked
from .edges import LINE, PIXELS, line
from .eleventh import over
from .forms import drawn, starts
from .subject import Problem, shapes, subject
from .thirteenth import WIDE
from .twentieth import tensors
from .twentyfourth import ranges
from .twentythird import PRODUCT, small


def documents(p: Problem) -> dict[str, Any]:
    first = np.sort(drawn(2501).choice(p["tokens"], p["documents"], replace=False))
    first[0] = 0
    return {"first_ptr": np.repeat(first, np.diff(first, append=p["tokens"])).astype(np.int32)}


def dealt(p: Problem) -> dict[str, Any]:
    """Each token's experts are some of all; tokens lie in the order of experts."""
    token = np.concatenate([drawn(2503 + k).permutation(p["tokens"]) for k in range(p["most"])])
    part = np.minimum(np.arange(len(token)) * p["experts"] // len(token), p["experts"] - 1)
    return {"token_ptr": token[np.lexsort((token, part))].astype(np.int32)}


def adapters(p: Problem) -> dict[str, Any]:
    return {"id_ptr": drawn(2507).integers(0, p["adapters"], p["tokens"] // 64 + 1, np.int32)}


def edges(p: Problem) -> dict[str, Any]:
    """In no order; some nodes have many."""
    draw = drawn(2509)
    return {"from_ptr": draw.integers(0, p["nodes"], p["edges"], np.int32),
            "to_ptr": (draw.random(p["edges"]) ** 2 * p["nodes"]).astype(np.int32)}  # fmt: skip


def turned(p: Problem) -> dict[str, Any]:
    angle = np.arange(p["angles"]) * np.pi / p["angles"]
    return {"way_ptr": np.stack([np.cos(angle), np.sin(angle)], 1).astype(np.float32)}


def patches(p: Problem) -> dict[str, Any]:
    """A grid of patches, their borders uneven."""
    draw, side = drawn(2521), p["side"]
    r, c = np.meshgrid(np.arange(p["high"]), np.arange(p["wide"]), indexing="ij")
    i = (r + draw.integers(-3, 4, r.shape)).clip(0, p["high"] - 1) // side
    j = (c + draw.integers(-3, 4, c.shape)).clip(0, p["wide"] - 1) // side
    return {"label_ptr": (i * (p["wide"] // side + 1) + j).astype(np.int32)}


def requests(p: Problem) -> dict[str, Any]:
    """Lengths that differ; rows of the table in no order."""
    draw = drawn(2531)
    row = draw.permutation(p["rows"])[: p["seqs"]].astype(np.int32)
    return {"row_ptr": row, "start_ptr": starts(p, "seqs", "most")}


def request_args(p: Problem) -> dict[str, Any]:
    n = int(starts(p, "seqs", "most")[-1])
    return tensors(p, row=("int32", (p["seqs"],)), start=("int32", (p["seqs"] + 1,)),
                   table=("int32", (p["rows"], p["most"])), y=("int32", (n,))) | {"most": p["most"]}  # fmt: skip


def slots(p: Problem) -> dict[str, Any]:
    """Pages of a cache in no order, tokens of a page in a row."""
    page = drawn(2539).integers(0, p["slots"] // p["page"], p["n"] // p["page"] + 1)
    slot = page[:, None] * p["page"] + np.arange(p["page"])
    return {"slot_ptr": slot.ravel()[: p["n"]].astype(np.int32)}


def drafts(p: Problem) -> dict[str, Any]:
    """Trees of drafts of four children at most; the model says what the second of them does, or another thing."""
    draw, nodes, n = drawn(2543), p["nodes"], p["requests"]
    node = np.arange(nodes)
    child = np.where(4 * node + 1 < nodes, 4 * node + 1, -1)
    beside = np.where((node % 4 != 0) & (node + 1 < nodes), node + 1, -1)
    token = node % 4 + 4 * draw.integers(0, 2, (n, 1))
    target = draw.integers(0, 4, (n, nodes)) + 4 * draw.integers(0, 2, (n, 1))
    return {"token_ptr": token.astype(np.int32), "target_ptr": target.astype(np.int32),
            "child_ptr": np.tile(child, (n, 1)).astype(np.int32),
            "beside_ptr": np.tile(beside, (n, 1)).astype(np.int32)}  # fmt: skip


def faces(p: Problem) -> dict[str, Any]:
    """A mesh over most of a picture: triangles of a few pixels, their corners near in number."""
    r, c = np.meshgrid(np.arange(p["high"]), np.arange(p["wide"]), indexing="ij")
    across = p["wide"] // p["side"] + 2
    i, j, upper = r // p["side"], c // p["side"], (r % p["side"] + c % p["side"] >= p["side"])
    face = np.where((r - p["high"] / 2) ** 2 + (c - p["wide"] / 2) ** 2 < p["high"] ** 2 / 5,
                    2 * (i * across + j) + upper, -1)  # fmt: skip
    cell = np.arange((p["high"] // p["side"] + 1) * across)
    lower = np.stack([cell, cell + 1, cell + across], 1)
    corner = np.stack([lower, np.stack([cell + 1, cell + across, cell + across + 1], 1)], 1)
    return {"face_ptr": face.astype(np.int32).ravel(), "corner_ptr": corner.reshape(-1, 3).astype(np.int32)}


def face_args(p: Problem) -> dict[str, Any]:
    n, corners = p["high"] * p["wide"], faces(p)["corner_ptr"].shape
    return tensors(p, face=("int32", (n,)), bary=("float32", (n, 2)), corner=("int32", corners),
                   x=("float32", (int(faces(p)["corner_ptr"].max()) + 1, p["width"])),
                   y=("float32", (n, p["width"]))) | {"n": n}  # fmt: skip


def moved(p: Problem) -> dict[str, Any]:
    return {f"{n}_ptr": drawn(seed).permutation(p["slots"])[: p["n"]].astype(np.int32)
            for n, seed in (("from", 2549), ("to", 2551))}  # fmt: skip


def graph(p: Problem) -> dict[str, Any]:
    start = starts(p, "nodes", "most")
    return {"start_ptr": start, "col_ptr": drawn(2557).integers(0, p["nodes"], start[-1], np.int32)}


def graph_args(p: Problem) -> dict[str, Any]:
    row = (p["nodes"], p["width"])
    made = tensors(p, start=("int32", (p["nodes"] + 1,)), col=("int32", (int(starts(p, "nodes", "most")[-1]),)),
                   x=("float16", row), y=("float16", row), **{"from": ("int32", row)})  # fmt: skip
    return made | {"width": p["width"]}


SUBJECTS = [
    subject("windows", zoo.conv_of_documents, shapes("tokens documents width taps dtype",
        (16_384, 20, 4096, 4, "bfloat16"), (6000, 100, 1536, 3, "float32")), TOKENS,
        "x: dtype[tokens, width]; w: dtype[width, taps]; first: int32[tokens]; y: dtype[tokens, width]; tokens width",
        "cdiv(tokens, BLOCK_T), cdiv(width, BLOCK_C)", constants="taps", most=16, values=documents),
    subject("windows", zoo.longer_signal, shapes("rows channels length step taps dtype",
        (512, 256, 8000, 4, 16, "float32"), (1024, 512, 1000, 8, 16, "float16")), LINE,
        "x: dtype[rows, length]; w: dtype[channels, taps]; y: dtype[rows, length * step]; channels length; "
        "out = length * step", "cdiv(length * step, BLOCK), rows", constants="step taps", most=16),
    subject("windows", zoo.bollinger, shapes("times assets span", (4096, 5000, 20), (20_000, 300, 60)), WIDE,
        "x mean band: float32[times, assets]; times assets", "cdiv(assets, BLOCK_C), cdiv(times, BLOCK_R)",
        constants="span", most=16, output="mean_ptr band_ptr"),
    subject("windows", zoo.blurred_moments, shapes("planes high wide", (12, 540, 960), (3, 1200, 1600)), WIDE,
        "x y: float32[planes, high, wide]; w: float32[11]; out: float32[5, planes, high, wide]; planes high wide",
        lambda p, c: (*over()(p, c), p["planes"]), output="out_ptr", most=16),
    subject("windows", zoo.wide_depthwise, shapes("images high wide width side", (16, 56, 56, 96, 7),
        (8, 28, 28, 384, 5)), PIXELS,
        "x: float16[images, high, wide, width]; w: float16[side ** 2, width]; bias: float16[width]; "
        "y: float16[images, high, wide, width]; high wide width",
        "cdiv(high * wide, BLOCK_P), cdiv(width, BLOCK_C), images", constants="side", most=16),
    subject("windows", zoo.separate_alloy, shapes("high wide", (4096, 4096), (1000, 1500)), WIDE,
        "x y: float32[high, wide]; high wide; gamma = 0.5; step = 0.01", over(), most=8),
    subject("windows", zoo.shaken_ground, shapes("high wide", (3000, 4000), (1024, 1024)), WIDE,
        "sxx sxz szz light vx vz new_vx new_vz: float32[high, wide]; high wide; step = 0.1", over(), most=8,
        output="new_vx_ptr new_vz_ptr"),
    subject("windows", zoo.smooth_volume, shapes("planes high wide", (128, 256, 256), (40, 300, 400)), WIDE,
        "px py pz f qx qy qz: float32[planes, high, wide]; planes; rows = high; cols = wide; step = 0.2",
        lambda p, c: (*over()(p, c), p["planes"]), output="qx_ptr qy_ptr qz_ptr", most=8),
    subject("windows", zoo.local_contrast, shapes("planes high wide", (200, 512, 512), (60, 300, 340)), WIDE,
        "x: int16[planes, high, wide]; y: float16[planes, high, wide]; planes; rows = high; cols = wide",
        lambda p, c: (*over()(p, c), p["planes"]), most=16,
        values=lambda p: {"x_ptr": drawn(2559).integers(-1024, 3072, (p["planes"], p["high"], p["wide"]), np.int16)}),
    subject("atomics", zoo.sum_of_experts, shapes("tokens most experts width", (4096, 8, 64, 2048),
        (20_000, 2, 8, 768)), TOKENS, "x: bfloat16[tokens * most, width]; weight: float32[tokens * most]; "
        "token: int32[tokens * most]; y: float32[tokens, width]; n = tokens * most; width",
        "cdiv(width, BLOCK_C), cdiv(tokens * most, BLOCK_T)", most=16, values=dealt),
    subject("atomics", zoo.gain_gradient, shapes("rows cols", (16_384, 4096), (100_000, 512)),
        "EACH=32..512 BLOCK_R=1..16 BLOCK_C=64..512 num_warps=1..8",
        "x g: bfloat16[rows, cols]; by: float32[rows]; y: float32[cols]; rows cols",
        "cdiv(cols, BLOCK_C), cdiv(rows, EACH)", keep="elements(c, BLOCK_R * BLOCK_C, 16)", tolerance=0.03),
    subject("atomics", zoo.shrink_by_adapter, shapes("tokens hidden rank adapters", (8192, 4096, 16, 32),
        (1000, 11_264, 64, 8)), "BLOCK_M=16..64 BLOCK_K=32..256 SPLIT=1..32 num_warps=2..8 num_stages=2..4",
        "x: float16[tokens, hidden]; a: float16[adapters, rank, hidden]; id: int32[tokens // 64 + 1]; "
        "y: float32[tokens, rank]; tokens hidden", "cdiv(tokens, BLOCK_M), SPLIT", constants="rank",
        keep="hidden % (BLOCK_K * SPLIT) == 0 and BLOCK_M * rank >= 32 * num_warps "
        "and stages(c, 2 * (BLOCK_M + rank) * BLOCK_K)", values=adapters),
    subject("atomics", zoo.neighbour_moments, shapes("nodes edges width", (50_000, 400_000, 64),
        (5000, 100_000, 128)), TOKENS, "from to: int32[edges]; x sum square: float32[nodes, width]; edges width",
        "cdiv(edges, BLOCK_T), cdiv(width, BLOCK_C)", values=edges, output="sum_ptr square_ptr",
        keep="elements(c, BLOCK_T * BLOCK_C, 16) and BLOCK_C <= width"),
    subject("atomics", zoo.rays_back, shapes("angles rays side steps", (360, 512, 256, 256), (90, 1024, 512, 400)),
        LINES, "way: float32[angles, 2]; x: float32[angles, rays]; y: float32[side, side]; rays",
        "cdiv(rays, BLOCK), angles", constants="side steps", most=4, values=turned, tolerance=0.03),
    subject("atomics", zoo.superpixels, shapes("high wide side", (1080, 1920, 20), (480, 640, 8)), WIDE,
        "label: int32[high, wide]; x: float32[3, high, wide]; "
        "y: float32[(high // side + 1) * (wide // side + 1), 6]; high wide", over(), most=16, values=patches,
        tolerance=0.03),
    subject("gathers", zoo.least_of_ranges, shapes("n size levels", (1 << 22, 1 << 20, 20), (1_000_000, 100_000, 16)),
        LINES, "first last: int32[n]; table: int32[levels, size]; y: int32[n]; n size", line, most=16, tolerance=0.0,
        values=ranges),
    subject("gathers", zoo.flat_slots, shapes("seqs rows most", (2000, 4096, 8192), (300, 512, 40_000)), LINE,
        request_args, "seqs", most=16, tolerance=0.0, values=requests),
    subject("gathers", zoo.fetch_latents, shapes("n slots page", (65_536, 400_000, 64), (20_000, 1_000_000, 1)),
        "BLOCK=1..32 num_warps=1..8", "slot: int32[n]; x: float8_e4m3[slots, 512]; scale: float32[slots, 4]; "
        "rope: bfloat16[slots, 64]; y: bfloat16[n, 576]; n", "cdiv(n, BLOCK)", values=slots,
        keep="2 <= BLOCK * 512 / (32 * num_warps) <= 64"),
    subject("gathers", zoo.accept_drafts, shapes("requests nodes steps", (20_000, 64, 16), (4096, 256, 24)), LINES,
        "token child beside target: int32[requests, nodes]; count last: int32[requests]; requests",
        "cdiv(requests, BLOCK)", constants="nodes steps", output="count_ptr last_ptr", most=8, tolerance=0.0,
        values=drafts),
    subject("gathers", zoo.interpolated_faces, shapes("high wide side width", (1080, 1920, 4, 4), (512, 768, 8, 16)),
        "BLOCK=32..512 num_warps=1..8", face_args, "cdiv(high * wide, BLOCK)", constants="width",
        keep="0.5 <= BLOCK / (32 * num_warps) <= 4", values=faces),
    subject("gathers", zoo.move_slots, shapes("n slots width dtype", (100_000, 500_000, 512, "float16"),
        (300_000, 2_000_000, 128, "float16")), TOKENS,
        "from to: int32[n]; x y: dtype[slots, width]; n width", "cdiv(n, BLOCK_T), cdiv(width, BLOCK_C)",
        tolerance=0.0, values=moved,
        keep="elements(c, BLOCK_T * BLOCK_C, 16) and BLOCK_C <= width"),
    subject("gathers", zoo.largest_neighbour, shapes("nodes most width", (50_000, 40, 128), (10_000, 100, 512)),
        "BLOCK=32..512 num_warps=1..8", graph_args, "nodes, cdiv(width, BLOCK)", output="y_ptr from_ptr", values=graph,
        keep="elements(c, BLOCK, 8) and BLOCK <= width", tolerance=0.0),
    subject("spills", zoo.gated_chunks, shapes("heads length width", (64, 4096, 128), (32, 2000, 256)),
        "BLOCK_T=16..128 BLOCK=16..128 num_warps=2..8 num_stages=1..3",
        "q k v: bfloat16[heads, length, width]; g: float32[heads, length]; y: bfloat16[heads, length, width]; length",
        "width // BLOCK, heads", constants="width", tolerance=0.04,
        keep="BLOCK * width <= 256 * 32 * num_warps and BLOCK_T * BLOCK_T <= 256 * 32 * num_warps "
        "and (2 * BLOCK_T * width * num_stages + BLOCK * width) * 2 <= 200_000"),
    subject("persistent", zoo.staying_swiglu, shapes("M N K", (4096, 5504, 2048), (1000, 3072, 4096)),
        PRODUCT + " GROUP=1,8", "x: bfloat16[M, K]; w: bfloat16[2 * N, K]; y: bfloat16[M, N]; M N K", "SMS",
        constants="PROGRAMS = SMS", tolerance=0.05,
        keep="N % BLOCK_N == 0 and " + small(2) + "stages(c, 2 * (BLOCK_M + 2 * BLOCK_N) * BLOCK_K)"),
    subject("strides", zoo.norm_and_turn, shapes("tokens heads others width places", (8192, 32, 16, 128, 4096),
        (2000, 16, 4, 64, 32_768)), "BLOCK_T=1..16 BLOCK_H=1..16 num_warps=1..8",
        "x: bfloat16[tokens, (heads + others) * width]; w: float32[width]; at: int32[tokens]; "
        "turn: float32[places, width]; y: bfloat16[tokens, heads, width]; tokens; stride = (heads + others) * width; "
        "heads", "cdiv(tokens, BLOCK_T), cdiv(heads, BLOCK_H)", constants="width",
        keep="1 <= BLOCK_T * BLOCK_H * width / (64 * num_warps) <= 32", values=lambda p: {"at_ptr": picked(2579,
            "places", "tokens")(p)}),
    subject("others", zoo.sink_attention, shapes("heads length width group span", (64, 4096, 64, 8, 128),
        (16, 3000, 128, 4, 1000)), "BLOCK_M=32..256 BLOCK_N=32..128 num_warps=4,8 num_stages=1..3",
        "q: bfloat16[heads, length, width]; k v: bfloat16[heads // group, length, width]; sink: float32[heads]; "
        "y: bfloat16[heads, length, width]; length span; scale = 0.18", "cdiv(length, BLOCK_M), heads",
        constants="group width", keep="BLOCK_M * width <= 256 * 32 * num_warps and BLOCK_M >= 16 * num_warps "
        "and (BLOCK_M + 2 * num_stages * BLOCK_N) * width * 2 <= 220_000"),
    subject("others", zoo.advantages, shapes("games length", (4096, 2048), (600, 5000)),
        "BLOCK_R=1..8 BLOCK=64..1024 num_warps=1..8",
        "reward: float32[games, length]; value: float32[games, length + 1]; done: int8[games, length]; "
        "y: float32[games, length]; games length; discount = 0.99; fade = 0.95", "cdiv(games, BLOCK_R)", most=16,
        values=lambda p: {"done_ptr": (drawn(2591).random((p["games"], p["length"])) < 0.01).astype(np.int8)}),
]  # fmt: skip
