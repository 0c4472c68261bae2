"""The 25 kernels of `kernels/triton_zoo_fifteenth.py` as `zoo.py` measures them, two problems each. All were predicted
before they were timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_fifteenth as zoo

from carver.compiled.binary import Tensor

from .blind import LINES, TOKENS, picked
from .edges import LINE, line
from .eleventh import over
from .forms import drawn, starts
from .subject import Arrays, Problem, cdiv, shapes, subject
from .thirteenth import WIDE


def drawn_bytes(p: Problem) -> dict[str, Any]:
    """Dark pictures where p["dark"] is more than one."""
    return {"x_ptr": picked(503, "bytes", "high", "wide", skew=p["dark"], dtype=np.uint8)({**p, "bytes": 256})}


def rays(p: Problem) -> dict[str, Any]:
    """Of a camera before the volume, pixel by pixel, or from anywhere to anywhere."""
    draw, n, side = drawn(547), p["n"], p["cells"]
    across = int(n**0.5) + 1
    at = np.stack([np.arange(n) % across, np.arange(n) // across], 1) / across
    origin = np.concatenate([at * side, np.full((n, 1), 0.5)], 1)
    way = np.concatenate([(at - 0.5) * 0.3, np.ones((n, 1))], 1)
    if p["anywhere"]:
        origin, way = draw.random((n, 3)) * side, draw.normal(size=(n, 3))
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    return {"origin_ptr": origin.astype(np.float32), "way_ptr": way.astype(np.float32)}


def paged(p: Problem) -> dict[str, Any]:
    pages = cdiv(p["most"], p["page"])
    page = drawn(557).permutation(p["seqs"] * pages).reshape(p["seqs"], pages)
    return {"page_ptr": page.astype(np.int32),
            "length_ptr": drawn(563).integers(p["most"] // 4, p["most"] + 1, p["seqs"], dtype=np.int32)}  # fmt: skip


def bags(p: Problem) -> dict[str, Any]:
    start = starts({**p, "all": p["tables"] * p["bags"]}, "all", "most").astype(np.int64)
    return {"start_ptr": start, "id_ptr": (drawn(569).random(start[-1]) ** p["skew"] * p["rows"]).astype(np.int64)}


def bags_args(p: Problem) -> dict[str, Any]:
    n = int(bags(p)["start_ptr"][-1])
    return {"table_ptr": Tensor("float16", (p["tables"], p["rows"], p["width"])),
            "start_ptr": Tensor("int64", (p["tables"] * p["bags"] + 1,)), "id_ptr": Tensor("int64", (n,)),
            "w_ptr": Tensor("float32", (n,)), "y_ptr": Tensor("float32", (p["bags"], p["tables"], p["width"])),
            "bags": p["bags"], "rows": p["rows"]}  # fmt: skip


def sliced(p: Problem) -> dict[str, Any]:
    """Rows of up to p["most"] entries near the diagonal, or anywhere; -1 for what a row has less than its slice."""
    slices, draw = cdiv(p["rows"], p["slice"]), drawn(571)
    length = draw.integers(1, p["most"] + 1, (slices, p["slice"]))
    width = length.max(1)
    start = np.concatenate([[0], np.cumsum(width * p["slice"])])
    at = np.arange(start[-1])
    part = np.repeat(np.arange(slices), width * p["slice"])
    lane, k = at % p["slice"], (at - start[part]) // p["slice"]
    away = draw.integers(-p["apart"], p["apart"] + 1, len(at))
    col = np.clip(part * p["slice"] + lane + away, 0, p["rows"] - 1)
    return {"start_ptr": start.astype(np.int32), "col_ptr": np.where(k < length[part, lane], col, -1).astype(np.int32)}


def sliced_args(p: Problem) -> dict[str, Any]:
    held, rows = sliced(p), p["rows"]
    n = len(held["col_ptr"])
    return {"start_ptr": Tensor("int32", held["start_ptr"].shape), "col_ptr": Tensor("int32", (n,)),
            "v_ptr": Tensor("float32", (n,)), "x_ptr": Tensor("float32", (rows,)), "y_ptr": Tensor("float32", (rows,)),
            "rows": rows}  # fmt: skip


def graph(p: Problem) -> dict[str, Any]:
    start = starts(p, "nodes", "most")
    to = drawn(577).random(start[-1]) ** p["skew"] * p["nodes"]
    return {"start_ptr": start, "to_ptr": to.astype(np.int32)}


def graph_args(p: Problem) -> dict[str, Any]:
    nodes, heads, width = p["nodes"], p["heads"], p["width"]
    return {"start_ptr": Tensor("int32", (nodes + 1,)), "to_ptr": Tensor("int32", (len(graph(p)["to_ptr"]),)),
            "own_ptr": Tensor("float32", (nodes, heads)), "other_ptr": Tensor("float32", (nodes, heads)),
            "x_ptr": Tensor("float16", (nodes, heads, width)),
            "y_ptr": Tensor("float32", (nodes, heads, width))}  # fmt: skip






def linked(t: Arrays) -> Any:
    """Every particle once, and the end of every list."""
    import torch

    return torch.cat([t["head_ptr"], t["next_ptr"]]).sort().values




















SUBJECTS = [
    subject("atomics", zoo.embedding_grad, shapes("tokens rows width skew dtype", (16_384, 50_000, 1024, 1.5,
        "bfloat16"), (60_000, 200, 256, 1.0, "float16")), TOKENS,
        "g: dtype[tokens, width]; id: int32[tokens]; y: dtype[rows, width]; tokens width",
        "cdiv(tokens, BLOCK_T), cdiv(width, BLOCK_C)", tolerance=0.05,
        values=lambda p: {"id_ptr": picked(499, "rows", "tokens", skew=p["skew"])(p)}),
    subject("atomics", zoo.tile_histograms, shapes("high wide side dark", (2160, 3840, 240, 1.0),
        (3000, 4000, 64, 4.0)), LINES, "x: uint8[high, wide]; "
        "y: int32[cdiv(high, side) * cdiv(wide, side) * 256]; high wide",
        "cdiv(side ** 2, BLOCK), cdiv(high, side), cdiv(wide, side)", constants="side",
        tolerance=0.0, values=drawn_bytes),
    subject("atomics", zoo.weight_grad_split, shapes("tokens outs ins", (16_384, 512, 768), (50_000, 256, 200)),
        "BLOCK_M=32..128 BLOCK_N=32..128 BLOCK_K=32,64 SPLIT=1,4,16,64 num_warps=4,8 num_stages=2,3,4",
        "g: float16[tokens, outs]; x: float16[tokens, ins]; y: float32[outs, ins]; tokens outs ins",
        "cdiv(outs, BLOCK_M), cdiv(ins, BLOCK_N), SPLIT",
        keep="per_thread(c, BLOCK_M * BLOCK_N, 128) and stages(c, 2 * BLOCK_K * (BLOCK_M + BLOCK_N))"),
    subject("atomics", zoo.sum_by_last, shapes("n dtype", (1 << 26, "float32"), (20_000_000, "bfloat16")),
        "BLOCK=256..4096 EACH=2..64 num_warps=1..8",
        "x: dtype[n]; part: float32[16384]; count: int32[1]; y: float32[1]; n", "cdiv(n, BLOCK * EACH)",
        constants="PARTS = 16384",
        output="y_ptr part_ptr count_ptr", got=lambda p, c, t: t["y_ptr"],
        keep="cdiv(n, BLOCK * EACH) <= 16384 and elements(c, BLOCK, 16)"),
    subject("atomics", zoo.push, shapes("n channels deep", (1 << 23, 4096, 4096), (2_000_000, 1 << 18, 64)), LINES,
        "event channel: int32[n]; count: int32[channels]; y: int32[channels, deep]; n", line,
        constants="deep", output="count_ptr y_ptr", tolerance=0.0,
        got=lambda p, c, t: (t["y_ptr"].sort(1).values, t["count_ptr"]),
        values=lambda p: {"channel_ptr": picked(509, "channels", "n")(p),
                          "event_ptr": 1 + picked(521, "most", "n")({**p, "most": 1 << 20})}),
    subject("atomics", zoo.link_cells, shapes("n cells size", (1 << 22, 64, 64.0), (1_000_000, 12, 12.0)), LINES,
        "x: float32[n, 3]; head: int32[cells ** 3]; next: int32[n]; n cells size", line,
        output="head_ptr next_ptr", tolerance=0.0,
        got=lambda p, c, t: linked(t),
        values=lambda p: {"x_ptr": drawn(523).random((p["n"], 3), np.float32)}),
    subject("atomics", zoo.best_of_group, shapes("n groups skew", (1 << 23, 2000, 1.0), (3_000_000, 1 << 19, 2.0)),
        LINE, "score: float32[n]; group: int32[n]; y: int64[groups]; n", line, tolerance=0.0,
        got=lambda p, c, t: (t["y_ptr"] >> 32).int().view(t["score_ptr"].dtype),
        values=lambda p: {"group_ptr": picked(541, "groups", "n", skew=p["skew"])(p)}),
    subject("atomics", zoo.norm_backward_locked, shapes("rows width", (8192, 4096), (20_000, 768)),
        "GROUPS=16..256 num_warps=1..16",
        "g x: bfloat16[rows, width]; w: bfloat16[width]; mean rstd: float32[rows]; lock: int32[256]; "
        "dx: bfloat16[rows, width]; dw: float32[256, width]; width", "rows",
        constants="PADDED = pow2_up(width)", output="dx_ptr dw_ptr lock_ptr",
        got=lambda p, c, t: (t["dx_ptr"], t["dw_ptr"].sum(0)), keep="2 <= pow2_up(width) / num_warps / 32 <= 64"),
    subject("atomics", zoo.count_sketch, shapes("n rows width most skew", (1 << 22, 5, 1 << 14, 1_000_000, 1.0),
        (1 << 20, 3, 1 << 20, 50_000_000, 4.0)), LINES, "id: int32[n]; x: float32[n]; y: float32[rows, width]; n",
        line, constants="rows width",
        values=lambda p: {"id_ptr": picked(587, "most", "n", skew=p["skew"])(p)}),
    subject("atomics", zoo.unscale, shapes("n scale dtype", (1 << 26, 0.5, "float32"), (9_000_001, 0.5, "float16")),
        LINE, "x: dtype[n]; found: int32[1]; n scale", line,
        output="found_ptr", got=lambda p, c, t: t["x_ptr"].float() + t["found_ptr"], in_place=("x_ptr",)),
    subject("atomics", zoo.orientations, shapes("high wide cell bins", (2160, 3840, 8, 9), (1500, 2000, 16, 18)), WIDE,
        "x: float32[high, wide]; y: float32[high // cell, wide // cell, bins]; high wide", over(),
        constants="cell bins",
        got=lambda p, c, t: (t["y_ptr"].sum((0, 1)), t["y_ptr"].sum(2).flatten())),
    subject("gathers", zoo.index_scores, shapes("seqs most heads width page", (32, 8192, 64, 128, 64),
        (8, 30_000, 32, 128, 16)), "BLOCK_T=32..256 num_warps=2..8",
        "q: bfloat16[seqs, heads, width]; w: float32[seqs, heads]; k: bfloat16[seqs * cdiv(most, page) * page, width]; "
        "page: int32[seqs, cdiv(most, page)]; length: int32[seqs]; y: float32[seqs, most]; pages = cdiv(most, page); "
        "most", "cdiv(most, BLOCK_T), seqs", constants="heads width page",
        keep="elements(c, heads * BLOCK_T, 128)", values=paged),
    subject("gathers", zoo.pooled_tables, shapes("tables bags rows width most skew", (8, 4096, 200_000, 64, 60, 1.0),
        (3, 20_000, 1_000_000, 32, 12, 3.0)), "BLOCK_L=1..64 num_warps=1..8", bags_args, "bags, tables",
        constants="width", keep="1 <= BLOCK_L * width / num_warps / 32 <= 32", values=bags),
    subject("gathers", zoo.sliced_ell, shapes("rows most slice apart", (1 << 20, 20, 32, 1 << 20),
        (150_000, 150, 64, 3000)), "BLOCK_S=1..32 num_warps=1..8", sliced_args, "cdiv(rows, slice * BLOCK_S)",
        constants="slice", keep="1 <= BLOCK_S * slice / num_warps / 32 <= 16", values=sliced),
    subject("gathers", zoo.features, shapes("n dense days shops items", (1 << 20, 16, 7, 5000, 2_000_000),
        (300_000, 8, 31, 400, 100_000)), "BLOCK_R=1..64 num_warps=1..8",
        "dense: float32[n, dense]; day: uint8[n]; shop: int32[n]; item: int64[n]; days: float32[days, 8]; "
        "shops: float32[shops, 16]; items: float32[items, 32]; y: float32[n, dense + 56]; n", "cdiv(n, BLOCK_R)",
        constants="dense", keep="1 <= BLOCK_R / num_warps <= 32",
        values=lambda p: {"day_ptr": picked(593, "days", "n", dtype=np.uint8)(p),
                          "shop_ptr": picked(599, "shops", "n", skew=2.0)(p),
                          "item_ptr": picked(601, "items", "n", skew=3.0, dtype=np.int64)(p)}),
    subject("gathers", zoo.codes_gemv, shapes("outs groups books", (14_336, 512, 2), (4096, 1376, 1)),
        "BLOCK_M=1..32 BLOCK_G=16..128 num_warps=1..8",
        "code: uint8[books, outs, groups]; book: float16[books, 256, 8]; scale: float16[outs]; x: float16[groups * 8]; "
        "y: float32[outs]; outs", "cdiv(outs, BLOCK_M)", constants="groups books",
        keep="elements(c, BLOCK_M * BLOCK_G * 8, 64)",
        values=lambda p: {"code_ptr": drawn(607).integers(0, 256, (p["books"], p["outs"], p["groups"]), np.uint8)}),
    subject("gathers", zoo.march, shapes("n cells steps step anywhere dtype", (1 << 18, 128, 160, 1.0, 0, "float16"),
        (60_000, 64, 100, 0.5, 1, "float32")), LINES,
        "volume: dtype[cells, cells, cells]; origin way: float32[n, 3]; y: float32[n]; n steps step", line,
        constants="SIDE = cells", most=8, values=rays),
    subject("gathers", zoo.attend_neighbours, shapes("nodes most heads width skew", (60_000, 40, 4, 64, 1.0),
        (10_000, 300, 8, 16, 2.0)), "BLOCK_E=1..32 num_warps=1..8", graph_args, "nodes",
        constants="heads width", keep="1 <= BLOCK_E * heads * width / num_warps / 32 <= 64", values=graph),
    subject("gathers", zoo.embed_ngrams, shapes("tokens rows ngrams width words", (65_536, 200_003, 3, 256, 30_000),
        (50_000, 5003, 2, 64, 1000)), "BLOCK_T=1..32 num_warps=1..8",
        "word: int64[tokens]; table: bfloat16[ngrams, rows, width]; y: bfloat16[tokens, ngrams, width]; "
        "tokens rows", "cdiv(tokens, BLOCK_T)",
        constants="ngrams width", keep="1 <= BLOCK_T * width / num_warps / 32 <= 64",
        tolerance=0.0, values=lambda p: {"word_ptr": picked(613, "words", "tokens", skew=3.0, dtype=np.int64)(p)}),
    subject("windows", zoo.life, shapes("high wide", (4320, 7680), (1000, 1501)), WIDE,
        "x y: uint8[high, wide]; high wide", over(), tolerance=0.0, most=16,
        values=lambda p: {"x_ptr": drawn(617).integers(0, 2, (p["high"], p["wide"]), np.uint8)}),
    subject("windows", zoo.polyphase, shapes("sounds n up taps", (16, 480_000, 4, 12), (100, 48_000, 3, 32)), LINE,
        "x: float32[sounds, n]; w: float32[up, taps]; y: float32[sounds, n * up]; n", "cdiv(n * up, BLOCK), sounds",
        constants="up taps", most=16),
    subject("windows", zoo.advect, shapes("high wide step", (4096, 4096, 4.0), (1080, 1920, 0.5)), WIDE,
        "x u v y: float32[high, wide]; high wide step", over(), most=16),
    subject("windows", zoo.motion, shapes("high wide reach", (1080, 1920, 3), (480, 640, 7)),
        "BLOCK_R=8..32 BLOCK_C=16..128 num_warps=1..8",
        "x y: uint8[high, wide]; out: int32[high // 8, wide // 8]; high wide",
        "cdiv(wide, BLOCK_C), cdiv(high, BLOCK_R)", constants="reach", output="out_ptr",
        tolerance=0.0),
    subject("spills", zoo.feed_forward, shapes("tokens inner width", (16_384, 2048, 256), (5000, 1024, 128)),
        "BLOCK_M=32..128 BLOCK_N=32..128 num_warps=4,8 num_stages=1,2,3",
        "x: bfloat16[tokens, width]; up: bfloat16[width, inner]; down: bfloat16[inner, width]; "
        "y: bfloat16[tokens, width]; tokens inner", "cdiv(tokens, BLOCK_M)", constants="width",
        keep="stages(c, 4 * width * BLOCK_N, 2 * BLOCK_M * (width + BLOCK_N))"),
    subject("persistent", zoo.walk_norm_quantise, shapes("rows width", (32_768, 4096), (100_000, 1000)),
        "EACH=1..16 num_warps=1..16",
        "x: bfloat16[rows, width]; w: bfloat16[width]; y: int8[rows, width]; scale: float32[rows]; rows width",
        "SMS * EACH", constants="PADDED = pow2_up(width)", output="y_ptr scale_ptr",
        keep="2 <= pow2_up(width) / num_warps / 32 <= 64"),
]  # fmt: skip
