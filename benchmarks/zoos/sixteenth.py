"""The 20 kernels of `kernels/triton_zoo_sixteenth.py` as `zoo.py` measures them, two problems each. All were predicted
before they were timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_sixteenth as zoo

from carver.compiled.binary import Tensor

from .blind import LINES, TOKENS, picked
from .edges import line
from .eleventh import over
from .forms import drawn, starts
from .subject import Problem, cdiv, shapes, subject
from .thirteenth import WIDE


def chosen(p: Problem) -> dict[str, Any]:
    """Tokens of the slots of experts: those of an expert in order."""
    return {"token_ptr": np.concatenate([np.sort(drawn(701 + e).permutation(p["tokens"])[: p["each"]])
                                         for e in range(p["experts"])]).astype(np.int32)}  # fmt: skip


def places(p: Problem) -> dict[str, Any]:
    """Points of a unit cube, along rays of so many points or anywhere."""
    draw, rays = drawn(709), p["n"] // p["ray"]
    first, last = draw.random((2, rays, 1, 3), np.float32)
    return {"x_ptr": (first + (last - first) * np.linspace(0, 1, p["ray"], dtype=np.float32)[:, None]).reshape(-1, 3)}


def synapses(p: Problem) -> dict[str, Any]:
    start = starts(p, "neurons", "most")
    draw = drawn(719)
    return {"start_ptr": start, "to_ptr": draw.integers(0, p["neurons"], start[-1], np.int32),
            "delay_ptr": draw.integers(0, p["delays"], start[-1], np.uint8),
            "spike_ptr": draw.permutation(p["neurons"])[: p["spikes"]].astype(np.int32)}  # fmt: skip


def synapse_args(p: Problem) -> dict[str, Any]:
    n = int(starts(p, "neurons", "most")[-1])
    return {"spike_ptr": Tensor("int32", (p["spikes"],)), "start_ptr": Tensor("int32", (p["neurons"] + 1,)),
            "to_ptr": Tensor("int32", (n,)), "delay_ptr": Tensor("uint8", (n,)), "w_ptr": Tensor("float32", (n,)),
            "y_ptr": Tensor("float32", (p["delays"], p["neurons"])), "neurons": p["neurons"]}  # fmt: skip


def paged(p: Problem) -> dict[str, Any]:
    pages, draw = cdiv(p["most"], p["page"]), drawn(727)
    return {"page_ptr": draw.permutation(p["seqs"] * pages).reshape(p["seqs"], pages).astype(np.int32),
            "length_ptr": draw.integers(p["most"] // 4, p["most"] + 1, p["seqs"], np.int32),
            "scale_ptr": draw.random((p["seqs"] * pages * p["page"], p["kv"]), np.float32) / 1000}  # fmt: skip


def tree(p: Problem) -> dict[str, Any]:
    """Every node but those of the last level has inner children with a chance; leaves are numbered from -1 down."""
    draw, levels, nodes, leaves = drawn(733), list[np.ndarray](), 1, 0
    width, first = 1, 0
    for level in range(p["depth"]):
        inner = (draw.random((width, 8)) < p["inner"] / 100) & (level < p["depth"] - 1)
        child = np.where(inner, first + width + np.cumsum(inner).reshape(width, 8) - 1, 0)
        child = np.where(inner, child, -1 - leaves - np.cumsum(~inner).reshape(width, 8) + 1)
        levels.append(child)
        first, width, leaves = first + width, int(inner.sum()), leaves + int((~inner).sum())
    nodes = sum(map(len, levels))
    assert nodes == first + width
    return {"child_ptr": np.concatenate(levels).astype(np.int32),
            "place_ptr": (draw.integers(0, 1 << p["depth"], (3, p["n"]), np.int32))}  # fmt: skip


def tree_args(p: Problem) -> dict[str, Any]:
    child = tree(p)["child_ptr"]
    return {"place_ptr": Tensor("int32", (3, p["n"])), "child_ptr": Tensor("int32", child.shape),
            "value_ptr": Tensor("float32", (int(-child.min()),)), "y_ptr": Tensor("float32", (p["n"],)),
            "n": p["n"]}  # fmt: skip


def hashed(key: Any, size: int) -> Any:
    mixed = key.astype(np.uint32) * np.uint32(2654435769)
    return ((mixed ^ (mixed >> np.uint32(15))) & np.uint32(size - 1)).astype(np.int64)


def joined(p: Problem) -> dict[str, Any]:
    """Each key of the table is in the first gap from its place on; keys that are looked up are there or not."""
    draw = drawn(739)
    keys = draw.permutation(np.unique(draw.integers(0, 1 << 30, p["held"], np.int32)))
    order = np.argsort(hashed(keys, p["size"]), kind="stable")
    at = hashed(keys, p["size"])[order]
    at = np.maximum.accumulate(at - np.arange(len(at))) + np.arange(len(at))  # each at least one after the last
    table = np.full(p["size"] + len(at), -1, np.int32)
    table[at] = keys[order]
    assert (table[p["size"]:] < 0).all() and (at - hashed(keys, p["size"])[order]).max() < 16
    here = draw.random(p["n"]) < p["there"] / 100
    key = np.where(here, keys[draw.integers(0, len(keys), p["n"])], draw.integers(0, 1 << 30, p["n"]))
    return {"table_ptr": table[: p["size"]], "key_ptr": key.astype(np.int32)}


def bits(p: Problem) -> dict[str, Any]:
    draw = drawn(743)
    word = draw.integers(-(2**63), 2**63 - 1, p["words"], np.int64)
    count = np.unpackbits(word.view(np.uint8)).reshape(-1, 512).sum(1)
    at = draw.integers(0, 64 * p["words"], p["n"], np.int64)
    return {"word_ptr": word, "before_ptr": (np.cumsum(count) - count).astype(np.int32),
            "at_ptr": np.sort(at) if p["sorted"] else at}  # fmt: skip


def turns(p: Problem) -> dict[str, Any]:
    """A plane through the middle for each slice: where it begins, and its two directions."""
    draw = drawn(751)
    way = np.linalg.qr(draw.normal(size=(p["slices"], 3, 3)))[0][:, :, :2]
    first = p["cells"] / 2 - way @ np.array([p["high"], p["wide"]]) / 2 + draw.normal(size=(p["slices"], 3)) * 8
    return {"turn_ptr": np.concatenate([first[:, :, None], way], 2).astype(np.float32)}


def aliases(p: Problem) -> dict[str, Any]:
    draw = drawn(829)
    return {"row_ptr": picked(827, "rows", "n")(p), "other_ptr": picked(839, "words", "rows", "words")(p),
            "even_ptr": draw.random(p["n"], np.float32), "coin_ptr": draw.random(p["n"], np.float32),
            "share_ptr": draw.random((p["rows"], p["words"]), np.float32)}  # fmt: skip


def graph(p: Problem) -> dict[str, Any]:
    start = starts(p, "nodes", "most")
    to = drawn(757).random(start[-1]) ** p["skew"] * p["nodes"]
    return {"start_ptr": start, "to_ptr": to.astype(np.int32)}


def graph_args(p: Problem) -> dict[str, Any]:
    return {"start_ptr": Tensor("int32", (p["nodes"] + 1,)),
            "to_ptr": Tensor("int32", (int(starts(p, "nodes", "most")[-1]),)),
            "y_ptr": Tensor("int32", (p["steps"], p["n"])), "n": p["n"], "steps": p["steps"],
            "nodes": p["nodes"]}  # fmt: skip


def cells(p: Problem) -> int:
    return sum((p["side"] >> level) ** 2 for level in range(p["levels"]))


def looks(p: Problem) -> dict[str, Any]:
    """Places around a query's own, which steps over the largest map row by row."""
    draw, q = drawn(761), p["queries"]
    own = np.stack([np.arange(q) // p["side"] / p["side"], np.arange(q) % p["side"] / p["side"]], 1) % 1.0
    away = draw.normal(size=(q, p["heads"], p["levels"], p["points"], 2)) * p["apart"] / p["side"]
    return {"place_ptr": (own[:, None, None, None] + away).astype(np.float32)}


SUBJECTS = [
    subject("atomics", zoo.combine_half, shapes("tokens experts each width dtype", (4096, 32, 512, 1024, "bfloat16"),
        (20_000, 8, 5000, 256, "float16")), TOKENS,
        "x: dtype[experts * each, width]; gate: float32[experts * each]; token: int32[experts * each]; "
        "y: dtype[tokens, width]; slots = experts * each; width", "cdiv(experts * each, BLOCK_T), cdiv(width, BLOCK_C)",
        tolerance=0.05, values=chosen),
    subject("atomics", zoo.expert_load, shapes("tokens experts top dtype", (131_072, 64, 2, "float32"),
        (50_000, 256, 8, "bfloat16")), "BLOCK_T=1..64 num_warps=1..8",
        "logit: dtype[tokens, experts]; count: int32[experts]; load: float32[experts]; tokens", "cdiv(tokens, BLOCK_T)",
        constants="experts top", output="count_ptr load_ptr",
        keep="elements(c, experts * BLOCK_T, 32)"),
    subject("atomics", zoo.hash_grid_grad, shapes("n ray levels first_cells size dtype", (1 << 18, 64, 12, 16.0,
        1 << 19, "float32"), (100_000, 1, 8, 32.0, 1 << 16, "float16")), LINES,
        "x: float32[n, 3]; g: dtype[n, levels, 2]; y: dtype[levels, size, 2]; n first_cells",
        "cdiv(n, BLOCK), levels", constants="size", tolerance=0.05, values=places, most=8),
    subject("atomics", zoo.split_k_in_turn, shapes("rows cols inner", (64, 4096, 8192), (300, 1000, 6000)),
        "BLOCK_M=16..64 BLOCK_N=32..128 BLOCK_K=32..128 SPLIT=1..16 num_warps=4,8 num_stages=2,3,4",
        "x: float16[rows, inner]; w: float16[inner, cols]; y: float16[rows, cols]; turn: int32[8192]; rows cols inner",
        "SPLIT, cdiv(rows, BLOCK_M), cdiv(cols, BLOCK_N)",
        output="y_ptr turn_ptr", got=lambda p, c, t: t["y_ptr"],
        keep="per_thread(c, BLOCK_M * BLOCK_N, 128) and stages(c, 2 * BLOCK_K * (BLOCK_M + BLOCK_N))"),
    subject("atomics", zoo.log_sums, shapes("n groups skew", (1 << 20, 1 << 18, 1.0), (400_000, 20_000, 2.0)), LINES,
        "x: float32[n]; group: int32[n]; y: int32[groups]; n", line,
        got=lambda p, c, t: t["y_ptr"].view(t["x_ptr"].dtype), most=8,
        values=lambda p: {"group_ptr": picked(769, "groups", "n", skew=p["skew"])(p), "y_ptr": 0}),
    subject("atomics", zoo.boosting, shapes("n features leaves", (100_000, 64, 4), (200_000, 28, 1)),
        "BLOCK_R=1..64 BLOCK_F=16..64 num_warps=1..8",
        "x: uint8[n, features]; g h: float32[n]; leaf: uint8[n]; y: float32[leaves, features, 256, 2]; n features",
        "cdiv(n, BLOCK_R), cdiv(features, BLOCK_F)", constants="leaves",
        values=lambda p: {"leaf_ptr": picked(773, "leaves", "n", dtype=np.uint8)(p),
                          "x_ptr": picked(787, "bins", "n", "features", skew=1.5, dtype=np.uint8)({**p, "bins": 256})}),
    subject("atomics", zoo.attention_mass, shapes("heads queries keys width", (32, 1024, 4096, 64),
        (8, 1000, 9000, 128)), "BLOCK_M=16..128 BLOCK_N=32..128 num_warps=4,8 num_stages=2,3",
        "q: float16[heads, queries, width]; k: float16[heads, keys, width]; lse: float32[heads, queries]; "
        "y: float32[heads, keys]; queries keys", "cdiv(queries, BLOCK_M), heads", constants="width",
        keep="per_thread(c, BLOCK_M * BLOCK_N, 128) and stages(c, 2 * width * BLOCK_N, 2 * width * BLOCK_M)"),
    subject("atomics", zoo.coo_half, shapes("n rows skew", (1 << 21, 1 << 19, 1.0), (500_000, 30_000, 1.5)), LINES,
        "row col: int32[n]; v: float16[n]; x y: float16[rows]; n", line, tolerance=0.05,
        values=lambda p: {"row_ptr": picked(797, "rows", "n", skew=p["skew"])(p),
                          "col_ptr": picked(809, "rows", "n")(p)}),
    subject("atomics", zoo.deliver_spikes, shapes("neurons most delays spikes", (40_000, 600, 16, 5000),
        (20_000, 300, 4, 20_000)), "BLOCK=32..1024 num_warps=1..8", synapse_args, lambda p, c: (p["spikes"],),
        values=synapses, most=16),
    subject("atomics", zoo.scanned_segments, shapes("n width segments skew", (200_000, 128, 10_000, 1.0),
        (1_000_000, 16, 300, 2.0)), "BLOCK_T=16..128 BLOCK_C=16..64 num_warps=1..8",
        "x: bfloat16[n, width]; id: int32[n]; y: float32[segments, width]; n width",
        "cdiv(n, BLOCK_T), cdiv(width, BLOCK_C)",
        values=lambda p: {"id_ptr": np.sort(picked(811, "segments", "n", skew=p["skew"])(p))}),
    subject("gathers", zoo.paged_bytes, shapes("seqs most kv heads width page", (64, 2048, 4, 16, 128, 16),
        (16, 9000, 2, 16, 64, 64)), "BLOCK_N=16..128 num_warps=2..8 num_stages=1,2,3",
        "q: float16[seqs, kv, heads, width]; k v: int8[seqs * cdiv(most, page) * page, kv, width]; "
        "scale: float32[seqs * cdiv(most, page) * page, kv]; page: int32[seqs, cdiv(most, page)]; length: int32[seqs]; "
        "y: float32[seqs, kv, heads, width]; pages = cdiv(most, page)", "seqs, kv",
        constants="heads width page", values=paged, keep="num_warps <= 4 or BLOCK_N >= 32"),
    subject("gathers", zoo.triplanes, shapes("n side width dtype", (1 << 19, 256, 32, "float16"),
        (200_000, 512, 16, "float32")), "BLOCK_T=1..64 num_warps=1..8",
        "place: float32[n, 3]; plane: dtype[3, side, side, width]; y: dtype[n, width]; n", "cdiv(n, BLOCK_T)",
        constants="side width", keep="elements(c, BLOCK_T * width, 16)",
        values=lambda p: {"place_ptr": drawn(821).random((p["n"], 3), np.float32)}),
    subject("gathers", zoo.octree, shapes("n depth inner", (1 << 21, 7, 70), (500_000, 10, 25)), LINES, tree_args, line,
        constants="depth", values=tree),
    subject("gathers", zoo.probe, shapes("n size held there", (1 << 20, 1 << 20, 500_000, 100),
        (1_000_000, 1 << 22, 1_000_000, 30)), LINES,
        "key: int32[n]; table: int32[size]; value: float32[size]; y: float32[n]; n; most = 16", line,
        constants="size", values=joined),
    subject("gathers", zoo.rank_bits, shapes("n words sorted", (1 << 20, 1 << 22, 0), (1_000_000, 1 << 18, 1)), LINES,
        "at: int64[n]; word: int64[words]; before: int32[words // 8]; y: int32[n]; n", line,
        tolerance=0.0, most=8, values=bits),
    subject("gathers", zoo.kmers, shapes("n length dtype", (1 << 23, 11, "int16"), (3_000_000, 13, "uint8")), LINES,
        "base: uint8[n + 16]; table: dtype[4 ** length]; y: dtype[n]; n", line, constants="length",
        tolerance=0.0, values=lambda p: {"base_ptr": drawn(823).integers(0, 4, p["n"] + 16, np.uint8)}),
    subject("gathers", zoo.reslice, shapes("cells slices high wide dtype", (256, 32, 256, 256, "int16"),
        (400, 8, 500, 600, "uint8")), WIDE,
        "x: dtype[cells, cells, cells]; turn: float32[slices, 3, 3]; y: dtype[slices, high, wide]; high wide",
        lambda p, c: (*over()(p, c), p["slices"]),
        constants="SIDE = cells", got=lambda p, c, t: t["y_ptr"].float().abs().sum((1, 2)), most=16, values=turns),
    subject("gathers", zoo.alias_draw, shapes("n rows words", (1 << 22, 1000, 5000), (1_000_000, 8, 100_000)), LINES,
        "row: int32[n]; even coin: float32[n]; share: float32[rows, words]; other: int32[rows, words]; y: int32[n]; "
        "n words", line, tolerance=0.0, values=aliases),
    subject("gathers", zoo.wander, shapes("n steps nodes most skew", (1 << 18, 20, 500_000, 30, 1.0),
        (100_000, 40, 20_000, 200, 2.0)), LINES, graph_args, line, values=graph,
        tolerance=0.0, most=16),
    subject("gathers", zoo.deform_attention, shapes("queries heads points width levels side dtype",
        (10_000, 8, 4, 32, 4, 128, "float16"), (5000, 8, 8, 16, 2, 200, "float32")), "BLOCK_Q=1..32 num_warps=1..8",
        lambda p: {"value_ptr": Tensor(p["dtype"], (cells(p), p["heads"], p["width"])),
            "place_ptr": Tensor("float32", (p["queries"], p["heads"], p["levels"], p["points"], 2)),
            "share_ptr": Tensor("float32", (p["queries"], p["heads"], p["levels"], p["points"])),
            "y_ptr": Tensor(p["dtype"], (p["queries"], p["heads"], p["width"])), "queries": p["queries"]},
        "cdiv(queries, BLOCK_Q), heads", constants="heads points width levels side",
        keep="elements(c, BLOCK_Q * width, 16)", values=lambda p: looks({**p, "apart": 6})),
]  # fmt: skip
