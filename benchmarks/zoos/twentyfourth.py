"""The 28 kernels of `kernels/triton_zoo_24th.py` as `zoo.py` measures them: six of windows, six of atomics, six of
gathers, two that spill, two that stay for many tiles, two of strides, four others, two problems each. All were
predicted before they were timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import triton_zoo_24th as zoo

from .blind import LINES
from .edges import LINE, line
from .eleventh import over
from .forms import drawn, starts
from .subject import Problem, shapes, subject
from .thirteenth import WIDE
from .twentieth import tensors
from .twentythird import PRODUCT, small

HEADS = "BLOCK_M=32..256 BLOCK_N=32..128 num_warps=4,8 num_stages=1..3"


def torsions(p: Problem) -> dict[str, Any]:
    """Four atoms of a chain, which are near each other in the order of atoms."""
    draw = drawn(2003)
    first = np.sort(draw.integers(0, p["atoms"] - 24, p["n"]))[:, None]
    return {"atom_ptr": (first + np.cumsum(draw.integers(1, 7, (p["n"], 4)), 1)).astype(np.int32)}


def splats(p: Problem) -> dict[str, Any]:
    """Lists of tiles, of uneven length: Gaussians near the tile, in no order."""
    start = starts(p, "tiles", "most")
    tile = np.repeat(np.arange(p["tiles"]), np.diff(start))
    id = tile * p["count"] // p["tiles"] + drawn(2011).integers(-p["near"], p["near"], start[-1])
    return {"start_ptr": start, "id_ptr": (id % p["count"]).astype(np.int32)}


def splat_args(p: Problem) -> dict[str, Any]:
    n = int(starts(p, "tiles", "most")[-1])
    return tensors(p, start=("int32", (p["tiles"] + 1,)), id=("int32", (n,)), splat=("float32", (p["count"], 8)),
                   grad=("float32", (p["tiles"] * 256,)), y=("float32", (p["count"], 4))) | {
        "wide": p["wide"]}  # fmt: skip


def events(p: Problem) -> dict[str, Any]:
    """In the order of time, along two edges that move across the picture, and some anywhere."""
    draw, n = drawn(2017), p["n"]
    time = np.sort(draw.random(n))
    edge = (time * 0.6 + draw.integers(0, 2, n) * 0.3) * p["wide"] + draw.standard_normal(n) * 4
    col = np.where(draw.random(n) < 0.2, draw.random(n) * p["wide"], edge)
    return {"col_ptr": col.clip(0, p["wide"] - 1).astype(np.int16), "time_ptr": time.astype(np.float32) * 0.999,
            "row_ptr": draw.integers(0, p["high"], n, np.int16),
            "sign_ptr": (draw.integers(0, 2, n) * 2 - 1).astype(np.int8)}  # fmt: skip


def tracks(p: Problem) -> dict[str, Any]:
    """From a beam at one face, spread as it goes."""
    draw, n, side = drawn(2027), p["n"], p["side"]
    start = np.stack([side / 2 + draw.standard_normal(n) * side / 10, side / 2 + draw.standard_normal(n) * side / 10,
                      draw.random(n)])  # fmt: skip
    way = np.stack([draw.standard_normal(n) * 0.2, draw.standard_normal(n) * 0.2, 0.7 + 0.3 * draw.random(n)])
    return {"from_ptr": start.astype(np.float32), "way_ptr": way.astype(np.float32)}


def used(p: Problem) -> dict[str, Any]:
    """Sequences of uneven length; the first pages of every eight are the same."""
    draw = drawn(2029)
    length = (draw.random(p["seqs"]) ** 1.5 * (p["most"] - 1) + 1).astype(np.int32)
    table = draw.integers(0, p["pages"], (p["seqs"], p["most"]), np.int32)
    table[:, : p["shared"]] = table[np.arange(p["seqs"]) // 8 * 8, : p["shared"]]
    return {"length_ptr": length, "table_ptr": table}


def delays(p: Problem) -> dict[str, Any]:
    """Later the lower the frequency, by its square."""
    f = np.linspace(1.5, 1.2, p["channels"])
    late = (f**-2 - f[0] ** -2) / (f[-1] ** -2 - f[0] ** -2)
    return {"delay_ptr": np.outer(np.linspace(0, p["most"], p["trials"]), late).astype(np.int32)}


def graph(p: Problem) -> dict[str, Any]:
    draw, start = drawn(2039), starts(p, "nodes", "most")
    row = np.repeat(np.arange(p["nodes"]), np.diff(start))
    col = (row + draw.standard_normal(len(row)) * p["near"]).astype(np.int64) % p["nodes"]
    u = np.sort(draw.integers(0, p["nodes"], p["n"]))
    v = (u + draw.standard_normal(p["n"]) * p["near"]).astype(np.int64) % p["nodes"]
    return {"start_ptr": start, "col_ptr": col[np.lexsort((col, row))].astype(np.int32), "u_ptr": u.astype(np.int32),
            "v_ptr": v.astype(np.int32)}  # fmt: skip


def graph_args(p: Problem) -> dict[str, Any]:
    n = int(starts(p, "nodes", "most")[-1])
    return tensors(p, u=("int32", (p["n"],)), v=("int32", (p["n"],)), start=("int32", (p["nodes"] + 1,)),
                   col=("int32", (n,)), y=("int32", (p["n"],))) | {"n": p["n"]}  # fmt: skip


def floor_seen(p: Problem) -> dict[str, Any]:
    """A floor that reaches to the horizon, its texture many times over: fine levels near, coarse ones far."""
    r, c = np.meshgrid(np.arange(p["high"]), np.arange(p["wide"]), indexing="ij")
    far = p["high"] / (r + 0.1 * p["high"])
    u, v = far * (c / p["wide"] - 0.5) * 1.3, far * 0.7
    level = np.log2(far * p["side"] / p["wide"]).clip(0, p["levels"] - 1.001)
    return {n: x.astype(np.float32).ravel() for n, x in (("u_ptr", u % 1), ("v_ptr", v % 1), ("level_ptr", level))}


def sown(p: Problem) -> dict[str, Any]:
    draw, shape = drawn(2053), (p["voices"], p["length"] // p["hop"] + 1)
    most = p["source"] - 2 * p["hop"] * p["overlap"] - 2
    return {"pos_ptr": draw.integers(0, most, shape, np.int32),
            "rate_ptr": (0.5 * 4 ** draw.random(shape)).astype(np.float32)}  # fmt: skip


def lattice(p: Problem) -> dict[str, Any]:
    """Atoms near the points of a grid, in its order, and those around each, from the nearest on."""
    draw, side = drawn(2063), p["side"]
    k, j, i = np.meshgrid(*[np.arange(side)] * 3, indexing="ij")
    x = np.stack([i, j, k], -1).reshape(-1, 3)
    way = np.stack(np.meshgrid(*[np.arange(-2, 3)] * 3, indexing="ij"), -1).reshape(-1, 3)
    way = way[np.argsort((way**2).sum(1), kind="stable")][1 : p["near"] + 1]
    near = ((x[None] + way[:, None]) % side) @ np.array([1, side, side * side])
    return {"x_ptr": (x + draw.random(x.shape) * 0.2).astype(np.float32), "near_ptr": near.astype(np.int32)}


def ranges(p: Problem) -> dict[str, Any]:
    """Short ranges more often than long ones."""
    draw = drawn(2069)
    long = np.exp2(draw.random(p["n"]) * (p["levels"] - 1)).astype(np.int64)
    first = (draw.random(p["n"]) * (p["size"] - long)).astype(np.int64)
    return {"first_ptr": first.astype(np.int32), "last_ptr": (first + long - 1).astype(np.int32)}


SUBJECTS = [
    subject("windows", zoo.yin_difference, shapes("batch length frames hop window lags",
        (8, 160_000, 621, 256, 512, 512), (1, 500_000, 1129, 441, 1024, 800)),
        "BLOCK_L=16..256 BLOCK_W=16..128 num_warps=1..8",
        "x: float32[batch, length]; y: float32[batch, frames, lags]; length frames lags",
        "cdiv(lags, BLOCK_L), frames, batch", constants="hop window", most=32),
    subject("windows", zoo.power_spectra, shapes("batch length frames hop width bins",
        (16, 160_000, 1246, 128, 512, 257),
        (4, 500_000, 1559, 320, 1024, 513)),
        "BLOCK_M=32..128 BLOCK_N=32..128 BLOCK_K=16..64 num_warps=4,8 num_stages=2,3",
        "x: float32[batch, length]; window: float32[width]; cos sin: float32[width, bins]; "
        "y: float32[batch, frames, bins]; length frames bins", "cdiv(bins, BLOCK_N), cdiv(frames, BLOCK_M), batch",
        constants="hop width", keep="per_thread(c, BLOCK_M * BLOCK_N * 2, 128) and "
        "stages(c, 4 * (BLOCK_M + 2 * BLOCK_N) * BLOCK_K)", tolerance=0.03),
    subject("windows", zoo.snake_between, shapes("batch channels length dtype", (8, 128, 16_384, "float32"),
        (2, 512, 40_001, "float16")), LINE,
        "x: dtype[batch, channels, length]; up down: float32[12]; a: float32[channels]; "
        "y: dtype[batch, channels, length]; length channels", "cdiv(length, BLOCK), batch * channels", most=16,
        values=lambda p: {"a_ptr": (drawn(2081).random(p["channels"]) + 0.5).astype(np.float32)}),
    subject("windows", zoo.deblock, shapes("frames high wide", (16, 1080, 1920), (30, 480, 857)), WIDE,
        "x y: uint8[frames, high, wide]; high wide; alpha = 120; beta = 110; most = 9",
        lambda p, c: (*over()(p, c), p["frames"]), most=16, tolerance=0.0),
    subject("windows", zoo.flow_direction, shapes("high wide", (4000, 5000), (1201, 1201)), WIDE,
        "x: float32[high, wide]; y: uint8[high, wide]; high wide", over(), most=16),
    subject("windows", zoo.semblance, shapes("panels traces samples dips", (32, 24, 4096, 41), (6, 60, 10_000, 101)),
        "BLOCK_D=1..32 BLOCK_T=32..512 num_warps=1..8",
        "x: float32[panels, traces, samples]; y: float32[panels, dips, samples]; samples dips",
        "cdiv(samples, BLOCK_T), cdiv(dips, BLOCK_D), panels", constants="traces", most=16),
    subject("atomics", zoo.dihedral_forces, shapes("n atoms", (1_000_000, 400_000), (100_000, 30_000)), LINES,
        "atom: int32[n, 4]; x y: float32[atoms, 3]; n", line, most=8, values=torsions, tolerance=0.03),
    subject("atomics", zoo.splat_gradient, shapes("tiles wide count most near", (3072, 64, 200_000, 300, 2000),
        (900, 30, 20_000, 100, 300)), "BLOCK_R=2..16 num_warps=1..8", splat_args, "tiles, 16 // BLOCK_R", most=16,
        keep="1 <= BLOCK_R * 16 / (32 * num_warps)", values=splats, tolerance=0.03),
    subject("atomics", zoo.event_voxels, shapes("n bins high wide", (4_000_000, 5, 480, 640), (500_000, 15, 260, 346)),
        LINE, "col row: int16[n]; time: float32[n]; sign: int8[n]; y: float32[bins, high, wide]; n high wide", line,
        constants="bins", most=16, values=events, tolerance=0.03),
    subject("atomics", zoo.tally_tracks, shapes("n side steps", (400_000, 64, 64), (50_000, 200, 100)), LINES,
        "from way: float32[3, n]; y: float32[side, side, side]; n", line, constants="side steps", most=8, values=tracks,
        tolerance=0.03),
    subject("atomics", zoo.columns_to_image, shapes("rows places down across high wide side step",
        (512 * 9, 3136, 56, 56, 58, 58, 3, 1), (64 * 121, 3025, 55, 55, 227, 227, 11, 4)),
        "BLOCK_R=1..16 BLOCK_P=32..512 num_warps=1..8",
        "x: float32[rows, places]; y: float32[rows // side ** 2, high, wide]; rows places across high wide",
        "cdiv(places, BLOCK_P), cdiv(rows, BLOCK_R)", constants="side step", most=16),
    subject("atomics", zoo.touch_pages, shapes("seqs most pages shared", (4096, 512, 200_000, 32),
        (600, 3000, 900_000, 200)), LINES,
        "length: int32[seqs]; table: int32[seqs, most]; stamp count: int32[pages]; most; clock = 100",
        "cdiv(most, BLOCK), seqs", output="stamp_ptr count_ptr", most=8, tolerance=0.0, values=used),
    subject("gathers", zoo.dedisperse, shapes("channels samples trials out most dtype",
        (256, 65_536, 128, 61_440, 4000, "uint8"), (64, 300_000, 60, 290_000, 9000, "float32")),
        "BLOCK_D=1..32 BLOCK_T=32..512 num_warps=1..8",
        "x: dtype[channels, samples]; delay: int32[trials, channels]; y: float32[trials, out]; "
        "channels samples trials out",
        "cdiv(out, BLOCK_T), cdiv(trials, BLOCK_D)", most=16, values=delays),
    subject("gathers", zoo.common_neighbours, shapes("nodes n most near", (100_000, 200_000, 48, 1000),
        (20_000, 60_000, 100, 200)), "BLOCK_E=1..32 BLOCK_K=8..64 num_warps=1..4", graph_args, "cdiv(n, BLOCK_E)",
        constants="STEPS = 7", most=8, values=graph, tolerance=0.0),
    subject("gathers", zoo.mip_sample, shapes("high wide side levels", (1080, 1920, 2048, 9), (512, 512, 512, 6)),
        "BLOCK=32..512 num_warps=1..8",
        "u v level: float32[high * wide]; x: float16[(side ** 2 - (side >> levels) ** 2) // 3 * 4, 4]; "
        "y: float16[high * wide, 4]; n = high * wide", "cdiv(high * wide, BLOCK)", constants="side levels",
        keep="0.5 <= BLOCK / (32 * num_warps) <= 4", values=floor_seen),
    subject("gathers", zoo.grains, shapes("voices length source hop overlap", (16, 480_000, 2_000_000, 480, 4),
        (2, 400_000, 100_000, 100, 8)), LINE,
        "pos: int32[voices, length // hop + 1]; rate: float32[voices, length // hop + 1]; x: float32[source]; "
        "y: float32[voices, length]; length; count = length // hop + 1", "cdiv(length, BLOCK), voices",
        constants="hop overlap", most=16, values=sown),
    subject("gathers", zoo.tabulated_density, shapes("side near cells scale",
        (64, 56, 2000, 200.0), (30, 80, 500, 60.0)),
        LINES, "near: int32[near, side ** 3]; x: float32[side ** 3, 3]; table: float32[cells]; y: float32[side ** 3]; "
        "n = side ** 3; scale", "cdiv(side ** 3, BLOCK)", constants="near cells", most=8, values=lattice),
    subject("gathers", zoo.range_minima, shapes("n size levels", (1 << 22, 1 << 20, 20), (1_000_000, 100_000, 16)),
        LINES, "first last: int32[n]; table: int32[levels, size]; y: int32[n]; n size", line, most=16, tolerance=0.0,
        values=ranges),
    subject("spills", zoo.gauss_jordan, shapes("count side", (65_536, 16), (10_000, 32)), "BLOCK=1..16 num_warps=1..8",
        "x y: float32[count, side, side]; count", "cdiv(count, BLOCK)", constants="side",
        keep="2 <= BLOCK * side ** 2 / (32 * num_warps) <= 256"),
    subject("spills", zoo.delta_rule, shapes("heads length width", (64, 1024, 128), (16, 1500, 256)),
        "BLOCK=8..128 num_warps=1..8", "q k v: bfloat16[heads, length, width]; beta: float32[heads, length]; "
        "y: bfloat16[heads, length, width]; length", "width // BLOCK, heads", constants="width",
        keep="4 <= BLOCK * width / (32 * num_warps) <= 256", tolerance=0.05),
    subject("persistent", zoo.staying_block_scales, shapes("M N K", (4096, 7168, 2048), (1000, 4096, 7168)),
        "BLOCK_M=32..128 BLOCK_N=64..256 BLOCK_K=64,128 num_warps=4,8 num_stages=2..4",
        "a: float8_e4m3[M, K]; b: float8_e4m3[N, K]; s: float32[M, K // 128]; u: float32[N // 128, K // 128]; "
        "y: bfloat16[M, N]; M N K", "SMS", constants="PROGRAMS = SMS", tolerance=0.05,
        keep=small(2) + "stages(c, (BLOCK_M + BLOCK_N) * BLOCK_K)"),
    subject("persistent", zoo.staying_conv, shapes("images high wide channels N", (32, 28, 28, 256, 512),
        (8, 60, 80, 128, 256)), PRODUCT, "x: float16[images, high, wide, channels]; w: float16[9, channels, N]; "
        "y: float16[images * high * wide, N]; M = images * high * wide; high wide N", "SMS",
        constants="CHANNELS = channels; PROGRAMS = SMS", tolerance=0.05,
        keep=small(1) + "stages(c, 2 * (BLOCK_M + BLOCK_N) * BLOCK_K)"),
    subject("strides", zoo.nv12_to_rgb, shapes("frames high wide", (16, 1080, 1920), (30, 480, 854)), WIDE,
        "light: uint8[frames, high, wide]; colour: uint8[frames, high // 2, wide]; y: uint8[frames, high, wide, 3]; "
        "high wide", lambda p, c: (*over()(p, c), p["frames"]), most=16),
    subject("strides", zoo.keys_to_tiles, shapes("tokens heads width page", (32_768, 8, 128, 16), (100_000, 4, 64, 32)),
        "BLOCK=4..128 num_warps=1..8", "x: float16[tokens, heads, width]; "
        "y: float16[cdiv(tokens, page), heads, width // 8, page, 8]; tokens heads", "cdiv(tokens, BLOCK), heads",
        constants="page width", keep="1 <= BLOCK * width / (32 * num_warps) <= 32", tolerance=0.0),
    subject("others", zoo.pack_mxfp4, shapes("rows cols", (8192, 4096), (1000, 14_336)),
        "BLOCK_R=1..16 BLOCK_C=64..1024 num_warps=1..8", "x: bfloat16[rows, cols]; y: uint8[rows, cols // 2]; "
        "scale: uint8[rows, cols // 32]; rows cols", "cols // BLOCK_C, cdiv(rows, BLOCK_R)", output="y_ptr scale_ptr",
        most=32, tolerance=0.0),
    subject("others", zoo.differential_attention, shapes("heads length width", (16, 2048, 64), (8, 3000, 32)), HEADS,
        "q k v y: float16[heads, length, 2 * width]; length; scale = 0.18; share = 0.3", "cdiv(length, BLOCK_M), heads",
        constants="width", keep="BLOCK_M * width * 4 <= 256 * 32 * num_warps and BLOCK_M >= 16 * num_warps "
        "and (BLOCK_M + 2 * num_stages * BLOCK_N) * width * 4 <= 220_000"),
    subject("others", zoo.attend_int8, shapes("heads length width", (32, 4096, 128), (12, 3000, 64)), HEADS,
        "q k: int8[heads, length, width]; v: float16[heads, length, width]; s u: float32[heads, length]; "
        "y: float16[heads, length, width]; length; scale = 0.0001", "cdiv(length, BLOCK_M), heads", constants="width",
        keep="BLOCK_M * width <= 256 * 32 * num_warps and BLOCK_M >= 16 * num_warps "
        "and (BLOCK_M + 3 * num_stages * BLOCK_N) * width <= 220_000"),
    subject("others", zoo.viterbi, shapes("count length states", (512, 512, 32), (1000, 200, 64)),
        "BLOCK=1..8 num_warps=1..8", "x: float32[count, length, states]; step: float32[states, states]; "
        "y: uint8[count, length, states]; best: float32[count, states]; count length", "cdiv(count, BLOCK)",
        constants="STATES = states", output="y_ptr best_ptr",
        keep="1 <= BLOCK * states ** 2 / (32 * num_warps) <= 128"),
]  # fmt: skip
