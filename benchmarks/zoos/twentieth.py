"""The 28 kernels of `kernels/triton_zoo_twentieth.py` as `zoo.py` measures them: twelve of gathers, eight of atomics,
eight of windows, two problems each. All were predicted before they were timed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from kernels import triton_zoo_twentieth as zoo

from carver.compiled.binary import Tensor

from .blind import LINES, TOKENS, picked
from .edges import LINE, line
from .eleventh import over
from .forms import drawn, starts
from .seventeenth import OVER, ROWS
from .subject import Problem, cdiv, shapes, subject
from .thirteenth import WIDE


def tensors(p: Problem, **said: tuple[str, tuple[int, ...]]) -> dict[str, Tensor]:
    return {f"{name}_ptr": Tensor(p.get(dtype, dtype), shape) for name, (dtype, shape) in said.items()}


def bsr_args(p: Problem) -> dict[str, Any]:
    n = int(starts(p, "rows", "most")[-1])
    block = (n, p["size"], p["size"])
    return tensors(p, start=("int32", (p["rows"] + 1,)), col=("int32", (n,)), block=("dtype", block),
                   x=("dtype", (p["cols"] * p["size"],)), y=("float32", (p["rows"] * p["size"],)))  # fmt: skip


def listed(seed: int, ends: tuple[str, str], name: str, most: str, skew: float = 1.0) -> Any:
    """Where parts begin, and what they list, drawn below p[most]."""

    def values(p: Problem) -> dict[str, Any]:
        start = starts(p, *ends)
        return {"start_ptr": start, name: (drawn(seed).random(start[-1]) ** skew * p[most]).astype(np.int32)}

    return values


def cached(p: Problem) -> dict[str, Any]:
    """Sequences of uneven lengths, and pages anywhere."""
    seq = np.sort(picked(1301, "seqs", "n", skew=1.3)(p))
    place = np.arange(p["n"]) - np.searchsorted(seq, seq)
    pages = cdiv(int(place.max()) + 1, p["page"])
    table = drawn(1303).permutation(p["seqs"] * pages).reshape(p["seqs"], pages)
    return {"seq_ptr": seq, "place_ptr": place.astype(np.int32), "table_ptr": table.astype(np.int32)}


def cached_args(p: Problem) -> dict[str, Any]:
    seqs, pages = cached(p)["table_ptr"].shape
    made = tensors(p, seq=("int32", (p["n"],)), place=("int32", (p["n"],)), table=("int32", (seqs, pages)),
                   cache=("dtype", (seqs * pages * p["page"], p["width"])),
                   y=("dtype", (p["n"], p["width"])))  # fmt: skip
    return made | {"n": p["n"], "width": p["width"], "pages": pages}


def mixed(key: np.ndarray) -> np.ndarray:
    key = key.astype(np.uint32) * np.uint32(2246822519)
    return (key ^ key >> np.uint32(13)) * np.uint32(3266489917)


def buckets(p: Problem) -> dict[str, Any]:
    """Half of the places are taken; two keys of three are there."""
    draw, size = drawn(1307), 1 << p["bits"]
    keys = draw.permutation(4 * size).astype(np.int32)
    there = keys[: 2 * size]
    home = (mixed(there) >> np.uint32(32 - p["bits"])).astype(np.int64)
    order = np.argsort(home, kind="stable")
    there, home = there[order], home[order]
    rank = np.arange(len(home)) - np.searchsorted(home, home)
    slot = np.full((size, 4), -1, np.int32)
    slot[home[rank < 4], rank[rank < 4]] = there[rank < 4]
    return {"slot_ptr": slot, "key_ptr": keys[draw.integers(0, 3 * size, p["n"])]}


def splats(p: Problem) -> dict[str, Any]:
    draw, start = drawn(1319), starts(p, "tiles", "most")
    middle = draw.random((p["count"], 2)) * (16 * p["across"], 16 * cdiv(p["tiles"], p["across"]))
    return {"start_ptr": start, "id_ptr": draw.integers(0, p["count"], start[-1], np.int32),
            "middle_ptr": middle.astype(np.float32),
            "shape_ptr": (draw.random((p["count"], 3)) * (0.02, 0.01, 0.02) + (0.01, 0, 0.01)).astype(np.float32),
            "colour_ptr": draw.random((p["count"], 4), np.float32)}  # fmt: skip


def splat_args(p: Problem) -> dict[str, Any]:
    n = int(starts(p, "tiles", "most")[-1])
    return tensors(p, start=("int32", (p["tiles"] + 1,)), id=("int32", (n,)), middle=("float32", (p["count"], 2)),
                   shape=("float32", (p["count"], 3)), colour=("float32", (p["count"], 4)),
                   y=("float32", (p["tiles"], 256, 3))) | {"across": p["across"]}  # fmt: skip


def graph(p: Problem) -> dict[str, Any]:
    start = starts(p, "nodes", "most")
    return {"seed_ptr": picked(1321, "nodes", "n")(p), "start_ptr": start,
            "u_ptr": drawn(1327).random((p["n"], p["each"]), np.float32) * np.float32(0.9999),
            "col_ptr": drawn(1361).integers(0, p["nodes"], start[-1], np.int32)}  # fmt: skip


def graph_args(p: Problem) -> dict[str, Any]:
    n = int(starts(p, "nodes", "most")[-1])
    return tensors(p, seed=("int32", (p["n"],)), u=("float32", (p["n"], p["each"])), start=("int32", (p["nodes"] + 1,)),
                   col=("int32", (n,)), y=("int32", (p["n"], p["each"]))) | {"n": p["n"]}  # fmt: skip


def strings(p: Problem) -> dict[str, Any]:
    begin = starts(p, "rows", "most")
    id = picked(1367, "rows", "n")(p)
    ends = np.cumsum(np.diff(begin)[id])
    return {"id_ptr": id, "from_ptr": begin, "to_ptr": np.concatenate([[0], ends]).astype(np.int32)}


def string_args(p: Problem) -> dict[str, Any]:
    held = strings(p)
    return tensors(p, id=("int32", (p["n"],)), **{"from": ("int32", (p["rows"] + 1,))}, to=("int32", (p["n"] + 1,)),
                   x=("uint8", (int(held["from_ptr"][-1]),)), y=("uint8", (int(held["to_ptr"][-1]),)))  # fmt: skip


def ends(p: Problem) -> dict[str, Any]:
    begin = np.arange(p["seqs"]) * p["each"] + picked(1451, "each", "seqs")(p) // 2
    return {"start_ptr": np.append(begin, p["seqs"] * p["each"]).astype(np.int32)}


def csr_args(p: Problem) -> dict[str, Any]:
    n = int(starts(p, "rows", "most")[-1])
    return tensors(p, start=("int32", (p["rows"] + 1,)), col=("int32", (n,)), v=("float32", (n,)),
                   x=("float32", (p["rows"],)), y=("float32", (p["cols"],)))  # fmt: skip


def sizes(p: Problem) -> dict[str, Any]:
    x, spread = drawn(1373).standard_normal((2, p["n"]))
    return {"x_ptr": (x * np.exp(p["spread"] * spread)).astype(np.float32)}


def samples(p: Problem) -> dict[str, Any]:
    """Anywhere, or on lines through the middle."""
    draw, half = drawn(1381), p["side"] / 2
    if not p["spokes"]:
        u, v = draw.random((2, p["n"])) * p["side"]
    else:
        angle = np.repeat(np.arange(p["spokes"]) * math.pi / p["spokes"], cdiv(p["n"], p["spokes"]))[: p["n"]]
        along = np.tile(np.linspace(-half, half, cdiv(p["n"], p["spokes"])), p["spokes"])[: p["n"]]
        u, v = half + along * np.cos(angle), half + along * np.sin(angle)
    most = np.float32(p["side"] - 0.01)
    return {"u_ptr": np.clip(u.astype(np.float32), 0, most), "v_ptr": np.clip(v.astype(np.float32), 0, most)}


def nearest(p: Problem) -> dict[str, Any]:
    """Near in both lists, or any of the other."""
    if not p["apart"]:
        return {"near_ptr": picked(1399, "others", "n", skew=1.5)(p)}
    away = drawn(1409).integers(-p["apart"], p["apart"], p["n"])
    return {"near_ptr": ((np.arange(p["n"]) * p["others"] // p["n"] + away) % p["others"]).astype(np.int32)}


def words(p: Problem) -> dict[str, Any]:
    return {"token_ptr": picked(1423, "words", "seqs", "most", skew=p["skew"])(p),
            "length_ptr": picked(1427, "most", "seqs")(p) + 1}  # fmt: skip


def in_sequences(p: Problem) -> dict[str, Any]:
    return {"seq_ptr": np.sort(picked(1429, "seqs", "n")(p))}


SUBJECTS = [
    subject("gathers", zoo.bsr_rows, shapes("rows cols most size dtype", (16_000, 16_000, 24, 16, "float16"),
        (3000, 2000, 20, 32, "float32")), "EACH=1..8 num_warps=1..8", bsr_args, "rows", constants="size",
        keep="elements(c, EACH * size ** 2, 64)",
        values=listed(1433, ("rows", "most"), "col_ptr", "cols")),
    subject("gathers", zoo.cache_of_tokens, shapes("n seqs page width dtype", (32_768, 40, 16, 576, "bfloat16"),
        (100_000, 300, 64, 100, "float32")), TOKENS, cached_args, OVER, constants="page", tolerance=0.0, values=cached),
    subject("gathers", zoo.bucket_probe, shapes("n bits", (1 << 21, 18), (500_000, 20)), LINES,
        "key: int32[n]; slot value: int32[1 << bits, 4]; y: int32[n]; n", line, constants="bits",
        keep="elements(c, BLOCK * 4, 16)", tolerance=0.0, values=buckets),
    subject("gathers", zoo.rasterise, shapes("tiles across most count", (3600, 80, 80, 50_000), (700, 35, 400, 5000)),
        "BLOCK=32..256 num_warps=1..8", splat_args, "256 // BLOCK, tiles", keep="elements(c, BLOCK, 8)", values=splats),
    subject("gathers", zoo.renormalise_top, shapes("n words each dtype", (30_000, 8000, 32, "float16"),
        (4000, 50_257, 128, "float32")), ROWS,
        "logit: dtype[n, words]; id: int32[n, each]; y: float32[n, each]; n words", "cdiv(n, BLOCK_T)",
        constants="each", keep="elements(c, BLOCK_T * each, 16)",
        values=lambda p: {"id_ptr": picked(1439, "words", "n", "each", skew=1.5)(p)}),
    subject("gathers", zoo.unpack_symmetric, shapes("planes n dtype", (64, 512, "float32"), (1, 6000, "float16")), WIDE,
        "x: dtype[planes, n * (n + 1) // 2]; y: dtype[planes, n, n]; n",
        "cdiv(n, BLOCK_C), cdiv(n, BLOCK_R), planes", most=16, tolerance=0.0),
    subject("gathers", zoo.from_morton, shapes("side dtype", (4096, "float32"), (4096, "uint8")), WIDE,
        "x: dtype[side ** 2]; y: dtype[side, side]", "side // BLOCK_C, side // BLOCK_R", constants="side", most=16,
        tolerance=0.0),
    subject("gathers", zoo.polar_view, shapes("planes side radii angles", (16, 512, 256, 720), (3, 2048, 1000, 2048)),
        LINES, "x: float32[planes, side, side]; y: float32[planes, radii, angles]; angles",
        "cdiv(radii * angles, BLOCK), planes", constants="side radii", most=8),
    subject("gathers", zoo.int4_rows, shapes("n rows width skew", (100_000, 1_000_000, 128, 1.0),
        (300_000, 50_000, 64, 2.0)), ROWS,
        "id: int32[n]; table: int32[rows, width // 8 + 1]; y: float16[n, width]; n", "cdiv(n, BLOCK_T)",
        constants="width", keep="elements(c, BLOCK_T * width, 16)",
        values=lambda p: {"id_ptr": picked(1447, "rows", "n", skew=p["skew"])(p)}),
    subject("gathers", zoo.sample_neighbours, shapes("n each nodes most", (100_000, 16, 1_000_000, 20),
        (20_000, 32, 50_000, 300)), "BLOCK=4..128 num_warps=1..8", graph_args, line, constants="each",
        keep="elements(c, BLOCK * each, 16)", tolerance=0.0, values=graph),
    subject("gathers", zoo.take_strings, shapes("n rows most", (60_000, 40_000, 100), (20_000, 30_000, 3000)),
        "BLOCK=32..512 num_warps=1..4", string_args, "n", most=16, tolerance=0.0, values=strings),
    subject("gathers", zoo.last_norms, shapes("seqs each width dtype", (4096, 3, 4096, "bfloat16"),
        (1000, 9, 3000, "float32")), "BLOCK_C=256..4096 num_warps=1..8",
        "x: dtype[seqs * each, width]; start: int32[seqs + 1]; w: float32[width]; y: dtype[seqs, width]; width", "seqs",
        most=16, values=ends),
    subject("atomics", zoo.transposed_csr, shapes("rows cols most", (60_000, 50_000, 60), (5000, 1_000_000, 1000)),
        "BLOCK=32..256 num_warps=1..4", csr_args, "rows", most=8,
        values=listed(1453, ("rows", "most"), "col_ptr", "cols")),
    subject("atomics", zoo.magnitude_bins, shapes("n spread", (1 << 21, 0.0), (1_000_000, 4.0)), LINES,
        "x: float32[n]; y: int32[2048]; n", line, most=8, tolerance=0.0, values=sizes),
    subject("atomics", zoo.spread_spectrum, shapes("n side wide spokes", (100_000, 512, 4, 0), (40_000, 256, 5, 200)),
        LINES, "u v re im: float32[n]; y: float32[side ** 2, 2]; n", line, constants="side wide", most=4,
        values=samples),
    subject("atomics", zoo.chamfer_grad, shapes("n others apart", (400_000, 100_000, 50), (200_000, 2000, 0)), LINES,
        "a: float32[n, 3]; b: float32[others, 3]; near: int32[n]; g: float32[n]; own: float32[n, 3]; "
        "y: float32[others, 3]; n", line, output="own_ptr y_ptr", most=8, values=nearest),
    subject("atomics", zoo.token_counts, shapes("seqs most words skew", (256, 8192, 32_000, 3.0),
        (48, 20_000, 128_256, 6.0)), LINE,
        "token: int32[seqs, most]; length: int32[seqs]; y: int32[seqs, words]; most words", "cdiv(most, BLOCK), seqs",
        most=16, tolerance=0.0, values=words),
    subject("atomics", zoo.queries_grad, shapes("heads n width scale", (16, 1024, 64, 0.125), (8, 1536, 128, 0.088)),
        "BLOCK_M=16..64 BLOCK_N=32..128 num_warps=4,8",
        "q k v g: float16[heads, n, width]; lse delta: float32[heads, n]; y: float32[heads, n, width]; n scale",
        "n // BLOCK_N, heads", constants="width", keep="per_thread(c, BLOCK_M * BLOCK_N, 32)"),
    subject("atomics", zoo.channel_peaks, shapes("rows cols dtype", (8192, 4096, "bfloat16"), (60_000, 300, "float32")),
        "BLOCK_R=4..64 BLOCK_C=32..256 num_warps=1..8", "x: dtype[rows, cols]; y: int32[cols]; rows cols",
        "cdiv(cols, BLOCK_C), cdiv(rows, BLOCK_R)", tolerance=0.0),
    subject("atomics", zoo.sketch_distinct, shapes("n bits kinds skew", (1 << 22, 14, 1 << 20, 1.0),
        (1_000_000, 10, 1 << 18, 2.0)), LINES, "key: int32[n]; y: int32[1 << bits]; n", line, constants="bits", most=8,
        tolerance=0.0, values=lambda p: {"key_ptr": picked(1459, "kinds", "n", skew=p["skew"])(p)}),
    subject("windows", zoo.lift_rows, shapes("rows n dtype", (2160, 1920, "int16"), (3000, 3000, "int32")), LINE,
        "x: dtype[rows, 2 * n]; low high: dtype[rows, n]; n", "cdiv(n, BLOCK), rows", output="low_ptr high_ptr",
        most=16, tolerance=0.0),
    subject("windows", zoo.limited_advection, shapes("high wide", (4096, 4096), (1500, 3000)), WIDE,
        "x y: float32[high, wide]; high wide", over(3), most=16),
    subject("windows", zoo.median_of_frames, shapes("frames area dtype", (24, 1280 * 720, "uint8"),
        (64, 120_000, "float16")), LINE, "x: dtype[frames, area]; y: dtype[frames - 4, area]; area",
        "cdiv(area, BLOCK), frames - 4", tolerance=0.0),
    subject("windows", zoo.gated_taps, shapes("batch channels length apart taps dtype",
        (8, 64, 16_000, 8, 3, "float16"), (2, 200, 24_000, 64, 2, "float32")), LINE,
        "x: dtype[batch, 2 * channels, length]; w: float32[2 * channels, taps]; y: dtype[batch, channels, length]; "
        "channels length", "cdiv(length, BLOCK), batch * channels", constants="apart taps", most=16),
    subject("windows", zoo.soft_pool, shapes("planes high wide side step dtype", (512, 112, 112, 3, 2, "float16"),
        (96, 200, 300, 2, 2, "float32")), LINE,
        "x: dtype[planes, high, wide]; y: dtype[planes, (high - side) // step + 1, (wide - side) // step + 1]; "
        "high wide; out_high = (high - side) // step + 1; out_wide = (wide - side) // step + 1",
        "cdiv(((high - side) // step + 1) * ((wide - side) // step + 1), BLOCK), planes", constants="side step",
        most=16),
    subject("windows", zoo.stream_27, shapes("deep high wide", (64, 96, 128), (40, 50, 70)), LINE,
        "x y: float32[27, deep, high, wide]; deep high wide", "cdiv(deep * high * wide, BLOCK)", most=16,
        tolerance=0.0),
    subject("windows", zoo.overlap_add, shapes("batch frames size hop", (48, 400, 1024, 256), (8, 1000, 400, 100)),
        LINE,
        "frame: float32[batch, frames, size]; w: float32[size]; y: float32[batch, (frames - 1) * hop + size]; frames; "
        "samples = (frames - 1) * hop + size", "cdiv((frames - 1) * hop + size, BLOCK), batch", constants="size hop",
        most=16),
    subject("windows", zoo.conv_of_sequences, shapes("n width seqs taps dtype", (16_384, 1024, 60, 4, "bfloat16"),
        (40_000, 300, 500, 3, "float32")), TOKENS,
        "x: dtype[n, width]; seq: int32[n]; w: float32[width, taps]; y: dtype[n, width]; n width", OVER,
        constants="taps", most=16, values=in_sequences),
]  # fmt: skip
