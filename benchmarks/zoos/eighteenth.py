"""The 21 kernels of `kernels/triton_zoo_eighteenth.py` as `zoo.py` measures them: ten of gathers, five of atomics, six
of windows, two problems each. All were predicted before they were timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_eighteenth as zoo

from .blind import LINES, TOKENS, picked
from .edges import line
from .eleventh import over
from .forms import drawn
from .seventeenth import OVER, ROWS
from .subject import Problem, shapes, subject
from .thirteenth import WIDE


def hashed(key: np.ndarray, seed: int, bits: int) -> np.ndarray:
    mixed = (key.astype(np.uint32) ^ np.uint32(seed)) * np.uint32(2654435769)
    return ((mixed ^ (mixed >> np.uint32(15))) * np.uint32(2246822519) >> np.uint32(32 - bits)).astype(np.int32)


def nests(p: Problem) -> dict[str, Any]:
    """Half as many keys as places, each in its first place, or its second, where that is left; half of what is looked
    up is there."""
    size = 1 << p["bits"]
    held, slot = drawn(1009).permutation(4 * size)[: size // 2].astype(np.int32), np.full(size, -1, np.int32)
    for seed in (0, 77):
        place, who = np.unique(hashed(held, seed, p["bits"]), return_index=True)
        place, who = place[slot[place] < 0], who[slot[place] < 0]
        slot[place] = held[who]
        held = np.delete(held, who)
    known = slot[slot >= 0]
    key = np.where(drawn(1013).random(p["n"]) < 0.5, known[picked(1019, "m", "n")({**p, "m": known.size})],
                   4 * size + picked(1021, "m", "n")({**p, "m": 4 * size}))  # fmt: skip
    return {"key_ptr": key.astype(np.int32), "slot_ptr": slot}


def picture(p: Problem) -> dict[str, Any]:
    """Noise, or waves with little of it."""
    noise = drawn(1031).random((p["planes"], p["area"]), np.float32)
    waves = 0.5 + 0.45 * np.sin(np.arange(p["area"], dtype=np.float32) / 700)
    x = noise if p["noise"] == 1 else waves + (noise - 0.5) * p["noise"]
    return {"x_ptr": (x * (p["levels"] - 1)).astype(np.int16)}


def lengths(p: Problem) -> dict[str, Any]:
    each = {n: drawn(seed).random(p["seqs"]) ** 2 for n, seed in (("a", 1033), ("b", 1039))}
    found = {}
    for n, share in each.items():
        ends = np.rint(np.cumsum(share) / share.sum() * p[n]).astype(np.int32)
        found[f"from_{n}_ptr"] = np.concatenate([[0], ends]).astype(np.int32)
    return found


def points(p: Problem) -> dict[str, Any]:
    """Points along rays."""
    draw, rays = drawn(1049), p["n"] // p["along"]
    first, last = draw.random((2, 3, rays, 1), np.float32)
    place = first + (last - first) * np.linspace(0, 1, p["along"], dtype=np.float32)
    return {"place_ptr": place.reshape(3, p["n"]) * np.float32(0.9999)}


def walked(p: Problem) -> dict[str, Any]:
    pages = p["roots"] * p["leaves"]
    return {"address_ptr": picked(1051, "m", "n", skew=p["skew"])({**p, "m": pages * p["page"]}),
            "root_ptr": drawn(1061).permutation(p["roots"]).astype(np.int32),
            "leaf_ptr": drawn(1063).permutation(pages).astype(np.int32)}  # fmt: skip


def pairs(p: Problem) -> dict[str, Any]:
    return {n: picked(seed, "side", "tokens", "each", skew=1.5)(p)
            for n, seed in (("row_ptr", 1069), ("col_ptr", 1087))}  # fmt: skip


def mesh(p: Problem) -> dict[str, Any]:
    """Triangles of two to a square of pixels, with those of a disc's outside not seen; in order, or not."""
    side, down, across = p["side"], p["high"] // p["side"], p["wide"] // p["side"]
    r, c = np.arange(p["high"])[:, None], np.arange(p["wide"])
    face = (r // side * across + c // side) * 2 + (r % side + c % side >= side)
    i, j = np.arange(down)[:, None], np.arange(across)
    a = i * (across + 1) + j
    two = [[a, a + 1, a + across + 1], [a + 1, a + across + 1, a + across + 2]]
    corner = np.stack([np.stack(t, -1) for t in two], 2).reshape(-1, 3)
    order = drawn(1091).permutation(corner.shape[0]) if p["mixed"] else np.arange(corner.shape[0])
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    seen = (r - p["high"] / 2) ** 2 + (c - p["wide"] / 2) ** 2 < (0.6 * p["wide"]) ** 2
    return {"face_ptr": np.where(seen, place[face], -1).astype(np.int32).ravel(),
            "corner_ptr": corner[order].astype(np.int32)}  # fmt: skip


def streams(p: Problem) -> dict[str, Any]:
    size, draw = 1 << p["bits"], drawn(1093)
    ends = np.unique(np.concatenate([[0, size], (draw.random(200) ** 2 * size).astype(int)]))
    share = np.diff(ends)
    slot = np.concatenate([np.arange(n) << 20 | n << 8 | s for s, n in enumerate(share)])
    return {"slot_ptr": slot.astype(np.int32), "state_ptr": draw.integers(1 << 16, 1 << 30, p["streams"], np.int32),
            "word_ptr": draw.integers(0, 1 << 15, (p["count"], p["streams"]), np.int16)}  # fmt: skip


def ordered(p: Problem) -> dict[str, Any]:
    return {"group_ptr": drawn(1097).permutation(np.arange(p["rows"]) * p["groups"] // p["rows"]).astype(np.int32)}


def largest_of(p: Problem) -> dict[str, Any]:
    part, draw = p["width"] // p["each"], drawn(1103)
    id = np.arange(p["each"]) * part + draw.integers(0, part, (p["n"], p["each"]))
    return {"id_ptr": (draw.permuted(id, axis=1) if p["mixed"] else id).astype(np.int32)}


def count_of(n: int, tap: int) -> int:
    return n * (tap * 7 % 5 + 1) // 5


def tap_pairs(p: Problem) -> dict[str, Any]:
    draw, count = drawn(1109), [count_of(p["n"], k) for k in range(27)]
    to, source = (np.concatenate([np.sort(draw.permutation(p["n"])[:m]) for m in count]) for _ in range(2))
    return {"in_ptr": source.astype(np.int32), "out_ptr": to.astype(np.int32),
            "first_ptr": np.cumsum([0, *count]).astype(np.int32)}  # fmt: skip


def words(p: Problem) -> dict[str, Any]:
    return {"word_ptr": picked(1117, "words", "n", skew=3.0)(p), "near_ptr": picked(1123, "words", "n", skew=2.0)(p),
            "sign_ptr": (drawn(1129).random(p["n"]) < 1 / 6).astype(np.int32)}  # fmt: skip


SUBJECTS = [
    subject("gathers", zoo.cuckoo_lookup, shapes("n bits", (1 << 20, 20), (4_000_000, 12)), LINES,
        "key: int32[n]; slot value: int32[1 << bits]; y: int32[n]; n", line, constants="bits",
        most=8, tolerance=0.0, values=nests),
    subject("gathers", zoo.spline_edges, shapes("n width knots dtype", (200_000, 64, 16, "float32"),
        (65_536, 512, 60, "bfloat16")), TOKENS,
        "x: dtype[n, width]; w: float32[width, knots + 3]; y: dtype[n, width]; n width knots", OVER, most=16),
    subject("gathers", zoo.tone_curves, shapes("planes area levels noise", (3, 4_000_000, 4096, 1.0),
        (12, 500_000, 1024, 0.05)), LINES, "x: int16[planes, area]; table: uint8[3, levels]; y: uint8[planes, area]; "
        "area levels", "cdiv(area, BLOCK), planes", tolerance=0.0, values=picture),
    subject("gathers", zoo.concat_ragged, shapes("seqs a b width dtype", (512, 200_000, 60_000, 128, "float16"),
        (4000, 100_000, 150_000, 100, "float32")), "BLOCK_T=2..64 num_warps=1..8",
        "a: dtype[a, width]; b: dtype[b, width]; from_a from_b: int32[seqs + 1]; y: dtype[a + b, width]; width",
        "seqs", constants="BLOCK_C = pow2_up(width)", tolerance=0.0,
        keep="elements(c, BLOCK_T * pow2_up(width), 32)", values=lengths),
    subject("gathers", zoo.sample_volume, shapes("n side width along dtype", (1 << 19, 64, 4, 1, "float32"),
        (1 << 18, 128, 16, 64, "float16")), "BLOCK_T=16..256 num_warps=1..8",
        "place: float32[3, n]; x: dtype[side ** 3, width]; y: dtype[n, width]; n", "cdiv(n, BLOCK_T)",
        constants="side width", keep="elements(c, BLOCK_T * width, 16)", values=points),
    subject("gathers", zoo.page_walk, shapes("n roots leaves page skew", (1 << 21, 64, 64, 256, 1.0),
        (1 << 20, 256, 256, 1024, 3.0)), LINES,
        "address: int32[n]; root: int32[roots]; leaf: int32[roots * leaves]; memory: float32[roots * leaves * page]; "
        "y: float32[n]; n", line, constants="leaves page", most=8, tolerance=0.0, values=walked),
    subject("gathers", zoo.memory_values, shapes("tokens each side width dtype", (4096, 32, 256, 512, "bfloat16"),
        (1000, 64, 500, 300, "float32")), "BLOCK_C=32..512 num_warps=1..8",
        "row col: int32[tokens, each]; score: float32[tokens, each]; value: dtype[side ** 2, width]; "
        "y: dtype[tokens, width]; side width", "tokens, cdiv(width, BLOCK_C)", constants="each",
        most=16, values=pairs),
    subject("gathers", zoo.shade, shapes("high wide side mixed", (1080, 1920, 8, 0), (1600, 2400, 4, 1)), LINES,
        "face: int32[high * wide]; share y: float32[3, high * wide]; "
        "corner: int32[2 * (high // side) * (wide // side), 3]; "
        "colour: float32[(high // side + 1) * (wide // side + 1), 3]; n = high * wide",
        "cdiv(high * wide, BLOCK)", most=8, values=mesh),
    subject("gathers", zoo.rans_decode, shapes("streams count bits", (65_536, 128, 11), (20_000, 300, 9)),
        "BLOCK=32..512 num_warps=1..8",
        "state: int32[streams]; word: int16[count, streams]; slot: int32[1 << bits]; y: uint8[count, streams]; "
        "streams count", "cdiv(streams, BLOCK)", constants="bits", most=4, tolerance=0.0,
        values=streams),
    subject("gathers", zoo.act_order, shapes("rows cols groups", (4096, 11_008, 32), (3072, 5120, 96)),
        "BLOCK_R=8..64 BLOCK_C=32..256 num_warps=2..8",
        "q: int32[rows // 8, cols]; group: int32[rows]; scale: float16[groups, cols]; "
        "zero: int32[groups, cols // 8]; y: float16[rows, cols]; rows cols",
        "cdiv(cols, BLOCK_C), cdiv(rows, BLOCK_R)", values=ordered),
    subject("atomics", zoo.scatter_top, shapes("n width each mixed", (8192, 16_384, 32, 0), (3000, 24_576, 64, 1)),
        ROWS, "value: float32[n, each]; id: int32[n, each]; y: float32[n, width]; n width", "cdiv(n, BLOCK_T)",
        constants="each", tolerance=0.0, keep="elements(c, BLOCK_T * each, 16)", values=largest_of),
    subject("atomics", zoo.spline_grad, shapes("n width knots", (65_536, 64, 8), (20_000, 300, 64)), TOKENS,
        "x g: float32[n, width]; y: float32[width, knots + 1]; n width knots", OVER, most=16),
    subject("atomics", zoo.group_products, shapes("n groups", (1 << 19, 1 << 17), (200_000, 5000)), LINES,
        "x: float32[n]; group: int32[n]; y: int32[groups]; n", line, most=8,
        got=lambda p, c, t: t["y_ptr"].view(t["x_ptr"].dtype), values=lambda p: {
            "group_ptr": picked(1151, "groups", "n")(p), "y_ptr": 0}),
    subject("atomics", zoo.scatter_conv, shapes("n ins outs", (60_000, 64, 64), (30_000, 32, 128)),
        "BLOCK_M=16..128 num_warps=2..8",
        "x: float16[n, ins]; w: float16[27, ins, outs]; in out: int32[sum(n * (k * 7 % 5 + 1) // 5 for k in "
        "range(27))]; first: int32[28]; y: float32[n, outs]", "cdiv(n, BLOCK_M), 27", constants="ins outs",
        keep="per_thread(c, BLOCK_M * outs, 64)", values=tap_pairs),
    subject("atomics", zoo.skip_gram, shapes("n words width", (1 << 18, 100_000, 128), (100_000, 5000, 64)), ROWS,
        "word near sign: int32[n]; a b ga gb: float32[words, width]; n", "cdiv(n, BLOCK_T)", constants="width",
        output="ga_ptr gb_ptr", keep="elements(c, BLOCK_T * width, 16)", values=words),
    subject("windows", zoo.running_boxes, shapes("high wide reach dtype", (4096, 8192, 4, "float32"),
        (2000, 3000, 15, "float16")), "EACH=16..128 BLOCK_C=64..512 num_warps=1..8",
        "x y: dtype[high, wide]; high wide", "cdiv(wide, BLOCK_C), cdiv(high, EACH)", constants="reach", most=8),
    subject("windows", zoo.lattice_volume, shapes("deep high wide", (128, 128, 256), (100, 90, 130)), LINES,
        "x y: float32[7, deep, high, wide]; deep high wide", "cdiv(deep * high * wide, BLOCK)", most=8),
    subject("windows", zoo.enlarge_filtered, shapes("planes high wide dtype", (256, 128, 128, "float16"),
        (64, 300, 200, "float32")), WIDE,
        "x: dtype[planes, high, wide]; w: float32[16]; y: dtype[planes, 2 * high, 2 * wide]; high wide",
        "cdiv(2 * wide, BLOCK_C), cdiv(2 * high, BLOCK_R), planes", most=16),
    subject("windows", zoo.rebuild, shapes("planes high wide", (16, 1080, 1920), (200, 300, 401)), WIDE,
        "marker x y: uint8[planes, high, wide]; high wide", lambda p, c: (*over()(p, c), p["planes"]),
        tolerance=0.0, most=16),
    subject("windows", zoo.red_black, shapes("high wide", (4096, 8192), (1500, 3001)), WIDE,
        "x b: float32[high, wide]; high wide; over = 1.6", "cdiv(wide // 2, BLOCK_C), cdiv(high - 2, BLOCK_R)",
        output="", got=lambda p, c, t: t["x_ptr"], in_place=("x_ptr",), most=16),
    subject("windows", zoo.table_means, shapes("planes high wide reach", (4, 2160, 3840, 7), (64, 500, 401, 31)), WIDE,
        "table: float32[planes, high + 1, wide + 1]; y: float32[planes, high, wide]; high wide",
        lambda p, c: (*over()(p, c), p["planes"]), constants="reach", most=16),
]  # fmt: skip
