"""The problems of `languages_sixth.cu`: kernels as those who tune with Kernel Tuner write them, two shapes of each."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .language_problems import Problem

F16, F32, F64, I32, U8 = "float16", "float32", "float64", "int32", "uint8"
MOST = 24
THREADS = [32, 64, 128, 256, 512]


def ceil(a: int, b: int) -> int:
    return -(-a // b)


def sixth_problems() -> list[Problem]:
    problem = partial(Problem, source="languages_sixth.cu", most=MOST)
    f32 = np.float32

    def pnpoly(name: str, n: int, corners: int) -> Problem:
        return problem(f"cuda_pnpoly_{name}",
            {"inside": (I32, (n,), "poison"), "points": (F32, (n, 2), "rand"), "corners": (F32, (corners, 2), "rand")},
            ("inside",), ("inside", "points", n),
            "block_size_x=32..1024 tile_size=1..16 between_method=0,1,2 use_method=0,1,2",
            lambda c: (ceil(n, c["block_size_x"] * c["tile_size"]), c["block_size_x"], 0),
            defines={"VERTICES": corners}, constants={"vertices": "corners"})  # fmt: skip

    def gridder(name: str, subgrids: int, count: int, side: int) -> Problem:
        return problem(f"cuda_gridder_{name}", {"grids": (F32, (subgrids, side, side, 2), "poison"),
             "visibilities": (F32, (subgrids, count, 2), "randn"), "uvw": (F32, (subgrids, count, 3), "randn")},
            ("grids",), ("grids", "visibilities", "uvw", count),
            "block_size_x=64..1024 tile_size=1..8 batch_size=32..256 unroll_factor=1..4",
            lambda c: (subgrids, c["block_size_x"], 0), lambda c: c["block_size_x"] * c["tile_size"] <= side * side,
            defines={"SIDE": side})  # fmt: skip

    def thomas(name: str, n: int, systems: int, real: str) -> Problem:
        kind = F32 if real == "float" else F64
        return problem(f"cuda_thomas_{name}", {"x": (kind, (n, systems), "poison"), "cp": (kind, (n, systems),
         "poison"),
             **{each: (kind, (n, systems), "rand") for each in "abcd"}}, ("x",),
            ("x", "cp", "a", "b", "c", "d", n, systems),
            {"block_size_x": THREADS, "unroll_factor": [1, 2, 4, 8, 16], "RESTRICT": ["", "__restrict__"]},
            lambda c: (ceil(systems, c["block_size_x"]), c["block_size_x"], 0), defines={"real": real})  # fmt: skip

    def advec(name: str, itot: int, jtot: int, ktot: int, real: str) -> Problem:
        kind = F32 if real == "float" else F64
        scalar = f32 if real == "float" else np.float64
        cells = (ktot + 2, jtot + 2, itot + 2)
        return problem(f"cuda_advec_{name}", {**{t: (kind, cells, "zero") for t in ("ut", "vt", "wt")},
             **{f: (kind, cells, "randn") for f in "uvw"}, "dzi": (kind, (ktot,), "rand")}, ("ut", "vt", "wt"),
            ("ut", "vt", "wt", "u", "v", "w", "dzi", itot, jtot, ktot, scalar(0.5), scalar(0.25)),
            "block_size_x=16..256 block_size_y=1..8 block_size_z=1..4 tile_z=1..8 contiguous_z=0,1 unroll_factor=1,8",
            lambda c: ((ceil(itot, c["block_size_x"]), ceil(jtot, c["block_size_y"]), ceil(ktot,
                c["block_size_z"] * c["tile_z"])), (c["block_size_x"], c["block_size_y"], c["block_size_z"]), 0),
            "64 <= block_size_x * block_size_y * block_size_z <= 512", defines={"real": real})  # fmt: skip

    def compact(name: str, n: int, above: float) -> Problem:
        return problem(f"cuda_compact_{name}",
            {"out": (F32, (n,), "poison"), "count": (I32, (1,), "zero"), "x": (F32, (n,), "randn")}, ("out", "count"),
            ("out", "count", "x", n, f32(above)),
            "block_size_x=64..1024 items_per_thread=1..16 whole_block=0,1 blocks=264,1056,4224",
            "blocks, block_size_x, 0")  # fmt: skip

    def matched(name: str, ours: int, theirs: int) -> Problem:
        return problem(f"cuda_matched_{name}", {**{each: (I32, (ours,), "poison") for each in ("best", "second",
         "which")},
             "ours": (I32, (ours, 8), "bits"), "theirs": (I32, (theirs, 8), "bits")}, ("best", "second"),
            ("best", "second", "which", "ours", "theirs", theirs),
            "block_size_x=32..512 tile_size=1..4 chunk=16,64,256 unroll_factor=1..4",
            lambda c: (ours // (c["block_size_x"] * c["tile_size"]), c["block_size_x"], 0))  # fmt: skip

    def median(name: str, width: int, height: int, radius: int) -> Problem:
        return problem(f"cuda_median_{name}", {"out": (F32, (height, width), "poison"), "x": (F32, (height, width),
         "rand")},
            ("out",), ("out", "x", width, height), "block_size_x=16..128 block_size_y=1..16 per_thread=1..4 staged=0,1",
            lambda c: ((ceil(width, c["block_size_x"]), ceil(height, c["block_size_y"] * c["per_thread"])),
                (c["block_size_x"], c["block_size_y"]), 0), "64 <= block_size_x * block_size_y <= 512",
            entry=f"median<{radius}, per_thread>")  # fmt: skip

    def attend(name: str, heads: int, n: int, dim: int) -> Problem:
        def shared(c: dict[str, Any]) -> int:
            return c["stages"] * 2 * c["keys_tile"] * (dim + c["padding"]) * 2

        return problem(f"cuda_attend_{name}",
            {"O": (F16, (heads, n, dim), "poison"), **{each: (F16, (heads, n, dim), "randn") for each in "QKV"}},
            ("O",), ("O", "Q", "K", "V", n, f32(1.4426950408889634 * dim**-0.5)),
            "warps=2..8 keys_tile=16..128 stages=1,2 padding=0,8",
            lambda c: ((n // (16 * c["warps"]), heads), 32 * c["warps"], shared(c)), lambda c: shared(c) <= 160 << 10,
            defines={"D": dim})  # fmt: skip

    def backproject(name: str, cells: tuple[int, int, int], angles: int, width: int, height: int) -> Problem:
        return problem(f"cuda_backproject_{name}", {"volume": (F32, cells[::-1], "poison"),
             "x": (F32, (angles, height, width), "rand"), "turns": (F32, (angles, 2), "turns")}, ("volume",),
            ("volume", "x", *cells, width, height, f32(2.0 * width)),
            "block_size_x=8..128 block_size_y=1..16 tile_z=1..8 unroll_factor=1..4",
            lambda c: ((ceil(cells[0], c["block_size_x"]), ceil(cells[1], c["block_size_y"]), ceil(cells[2],
                c["tile_z"])), (c["block_size_x"], c["block_size_y"]), 0), "64 <= block_size_x * block_size_y <= 512",
            defines={"ANGLES": angles}, constants={"turns": "turns"})  # fmt: skip

    def correlate(name: str, stations: int, times: int, channels: int) -> Problem:
        def launch(c: dict[str, Any]) -> Any:
            tiles = stations // (c["block_size_x"] * c["tile_size"])
            return (tiles * (tiles + 1) // 2, channels), (c["block_size_x"],) * 2, 0

        return problem(f"cuda_correlate_{name}", {"out": (F32, (channels, stations, stations, 2), "zero"),
             "x": (F32, (channels, times, stations, 2), "randn")}, ("out",), ("out", "x", stations, times),
            "block_size_x=8..32 tile_size=1..8 chunk=8..32 unroll_factor=1,4,8 strided=0,1", launch,
            "block_size_x * tile_size <= 128 and 16 * chunk * block_size_x * tile_size <= 48 << 10 and "
            "(block_size_x ** 2 * tile_size ** 2 <= 16384) and (block_size_x * tile_size >= 16)")  # fmt: skip

    def yuv(name: str, pixels: int) -> Problem:
        return problem(f"cuda_yuv_{name}", {"planes": (U8, (3, pixels), "poison"), "rgb": (U8, (pixels, 3), "levels")},
            ("planes",), ("planes", "rgb", pixels), "block_size_x=32..1024 per_thread=1..8 method=0,1,2",
            lambda c: (ceil(pixels, c["block_size_x"] * c["per_thread"] * (4 if c["method"] else 1)),
                c["block_size_x"], 0), "block_size_x * per_thread <= 4096")  # fmt: skip

    return [
        pnpoly("4mx600", 4_000_000, 600), pnpoly("20mx48", 20_000_000, 48),
        gridder("2048x128", 2048, 128, 32), gridder("400x600", 400, 600, 64),
        thomas("64kx256", 256, 65_536, "float"), thomas("20kx512", 512, 20_000, "double"),
        advec("256x256x128", 256, 256, 128, "double"), advec("500x300x64", 500, 300, 64, "float"),
        compact("32m", 1 << 25, 0.0), compact("80m", 80_000_000, 1.5),
        matched("64kx4096", 65_536, 4096), matched("16kx8192", 16_384, 8192),
        median("4096x4096", 4096, 4096, 1), median("1920x1080", 1920, 1080, 2),
        attend("32x2048x64", 32, 2048, 64), attend("16x4096x128", 16, 4096, 128),
        backproject("256x256x64", (256, 256, 64), 90, 384, 128),
        backproject("128x128x128", (128, 128, 128), 180, 200, 200),
        correlate("256x768x64", 256, 768, 64), correlate("512x256x24", 512, 256, 24),
        yuv("33m", 33_177_600), yuv("8m", 8_294_400),
    ]  # fmt: skip
