"""The problems of `languages_thirteenth.cu` and `languages_thirteenth.py`, two shapes of each."""

from __future__ import annotations

from typing import Any

from .language_problems import Problem
from .language_problems_ninth import F16, F32, I32, U8, whole

F64 = "float64"


def thirteenth_problems() -> list[Problem]:
    def problem(name: str, tensors: Any, *rest: Any, **more: Any) -> Problem:
        outs = tuple(each for each, (_, _, init) in tensors.items() if init in ("poison", "zero"))
        made = "" if name.startswith("cuda_") else "_".join(name.split("_")[:2])
        most = 8 if made.startswith("tilelang") else 9
        return Problem(name, tensors, outs, *rest, most=most, made=made, source="languages_thirteenth.cu", **more)

    def dmma(m: int, n: int, k: int) -> Problem:
        ring = "STAGES * (WM * FM * 8 * (BK + 4) + BK * (WN * FN * 8 + 4)) * 8"
        return problem(f"cuda_dmma_{m}x{n}x{k}",
            {"C": (F64, (m, n), "poison"), "A": (F64, (m, k), "randn"), "B": (F64, (k, n), "randn")},
            ("C", "A", "B", n, k), "WM=1,2,4 WN=1,2,4 FM=2,4 FN=2,4,8 BK=8,16,32 STAGES=2,3,4",
            f"({n} // (WN * FN * 8), {m} // (WM * FM * 8)), WM * WN * 32, {ring}",
            f"{ring} < 220000 and 2 <= WM * WN <= 8 and FM * FN <= 16")  # fmt: skip

    def chacha(name: str, blocks: int) -> Problem:
        return problem(f"cuda_chacha_{name}",
            {"out": (I32, (blocks, 16), "poison"), "in": (I32, (blocks, 16), "bits"), "key": (I32, (8,), "bits")},
            ("out", "in", "key", 12345), "BLOCK=64..512 PER=1..4 VEC=1,4 UNROLL=1,2,10",
            f"{blocks} // (BLOCK * PER), BLOCK, 0")  # fmt: skip

    def suppressed(n: int) -> Problem:
        return problem(f"cuda_suppressed_{n}",
            {"mask": ("int64", (n, -(-n // 64)), "zero"), "boxes": (F32, (n, 4), "boxes")}, ("mask", "boxes", n, 0.5),
            "THREADS=32..256 UNROLL=1,4,64 DIVIDE=0,1", f"({-(-n // 64)}, cdiv({n}, THREADS)), THREADS, 0")  # fmt: skip

    def stereo(width: int, height: int) -> Problem:
        return problem(f"cuda_stereo_{width}x{height}",
            {"out": ("int16", (height, width, 128), "poison"), "costs": (U8, (height, width, 128), "levels")},
            ("out", "costs", width, 10, 120), "LANES=8..32 WARPS=1..8 UNROLL=1..8",
            f"{height} * LANES // (WARPS * 32), WARPS * 32, 0", f"{height} * LANES % (WARPS * 32) == 0")  # fmt: skip

    def flux(name: str, n: int, far: int) -> Problem:
        return problem(f"cuda_flux_{name}",
            {"out": (F32, (5 * n,), "poison"), "state": (F32, (5 * n,), "gas"), "near": (I32, (4, n), f"near:{far}"),
             "normals": (F32, (12 * n,), "randn")}, ("out", "state", "near", "normals", n),
            "BLOCK=64..512 PLANES=0,1 UNROLL=1,4", f"cdiv({n}, BLOCK), BLOCK, 0", values=("near",))  # fmt: skip

    def coded(n: int, queries: int) -> Problem:
        return problem(f"cuda_coded_{n}x{queries}",
            {"out": (F32, (queries, n), "poison"), "codes": (I32, (n, 4), "bits"),
             "tables": (F32, (queries, 16, 256), "rand")}, ("out", "codes", "tables", n),
            "BLOCK=64..1024 PER=1..8 HALVES=0,1", f"({n} // (BLOCK * PER), {queries}), BLOCK, 0")  # fmt: skip

    def rays(width: int, height: int, count: int) -> Problem:
        return problem(f"cuda_rays_{width}x{height}x{count}",
            {"out": (F32, (height, width), "poison"), "corners": (F32, (count, 9), "randn")},
            ("out", "corners", width, height, count), "BX=8..64 BY=4..16 PER=1..4 TILE=16..256",
            f"({width} // BX, {height} // (BY * PER)), (BX, BY), 0", "64 <= BX * BY <= 256")  # fmt: skip

    def similar(images: int, height: int, width: int) -> Problem:
        held = (images, height, width)
        return problem(f"cuda_similar_{images}x{height}x{width}",
            {"out": (F32, held, "poison"), "one": (F32, held, "rand"), "two": (F32, held, "rand")},
            ("out", "one", "two", width, height), "BX=16..64 BY=4..16 PER=1..4",
            f"({width} // BX, {height} // (BY * PER), {images}), (BX, BY), 0",
            "64 <= BX * BY <= 512 and (BY * PER + 10) * (7 * BX + 20) <= 12000 and 16 <= BY * PER")  # fmt: skip

    def beams(stations: int, count: int, times: int, channels: int) -> Problem:
        return problem(f"cuda_beams_{stations}x{count}x{times}x{channels}",
            {"out": (F32, (channels, count, times, 2), "poison"),
             "samples": (F32, (channels, stations, times, 2), "randn"),
             "weights": (F32, (channels, count, stations, 2), "randn")},
            ("out", "samples", "weights", stations, count, times),
            "block_size_x=32..256 BEAMS=2..16 use_shared=0,1 loop_unroll_factor=1,2,4,8",
            f"({times} // block_size_x, {count} // BEAMS, {channels}), block_size_x, 0")  # fmt: skip

    def harmonics(name: str, n: int) -> Problem:
        return problem(f"cuda_harmonics_{name}",
            {"out": (F16, (n, 16), "poison"), "directions": (F32, (n, 3), "randn")}, ("out", "directions", n),
            "BLOCK=64..1024 STAGED=0,1 VEC=2,8", f"{n} // BLOCK, BLOCK, 0", "VEC == 2 or not STAGED")  # fmt: skip

    def twice(m: int, dim: int, hidden: int) -> Problem:
        return problem(f"tilelang_twice_{m}x{dim}x{hidden}",
            {"A": (F16, (m, dim), "randn"), "up": (F16, (hidden, dim), "randn"), "down": (F16, (hidden, dim), "randn"),
             "out": (F16, (m, dim), "poison")}, (),
            "block_M=64,128 block_H=32..128 num_stages=1,2,3 threads=128,256", whole,
            defines={"M": m, "dim": dim, "hidden": hidden})  # fmt: skip

    def logsum(rows: int, cols: int) -> Problem:
        return problem(f"tilelang_logsum_{rows}x{cols}",
            {"x": (F16, (rows, cols), "randn"), "out": (F32, (rows,), "poison")}, (),
            "block=1..8 chunk=1024..4096 num_stages=1,2,3 threads=128,256", whole, "block * chunk <= 8192",
            defines={"rows": rows, "cols": cols})  # fmt: skip

    def ising(rows: int, cols: int) -> Problem:
        held = (rows, cols)
        return problem(f"numba_ising_{rows}x{cols}",
            {"spins": ("int8", held, "spins"), "others": ("int8", held, "spins"), "drawn": (F32, held, "rand"),
             "out": ("int8", held, "poison")}, ("spins", "others", "drawn", "out", 0.44),
            "BLOCK=32..1024", f"{rows * cols} // BLOCK, BLOCK, 0")  # fmt: skip

    def lab(name: str, n: int) -> Problem:
        return problem(f"numba_lab_{name}",
            {"x": (U8, (n, 3), "levels"), "out": (F32, (3, n) if name == "planes" else (n, 3), "poison")},
            ("x", "out"), "BLOCK=64..512 PER=1..4", f"cdiv({n}, BLOCK * PER), BLOCK, 0",
            defines={"PLANES": int(name == "planes")})  # fmt: skip

    def skinned(name: str, n: int, bones: int) -> Problem:
        return problem(f"warp_skinned_{name}",
            {"points": (F32, (n, 3), "randn"), "bones": (F32, (bones, 4, 4), "randn"),
             "named": (I32, (n, 4), f"below:{bones}"), "weights": (F32, (n, 4), "rand"),
             "out": (F32, (n, 3), "poison")}, ("points", "bones", "named", "weights", "out"), "BLOCK=32..1024",
            f"{n}, BLOCK, 0", defines={"BONES": 4}, values=("named",))  # fmt: skip

    def rigid(name: str, n: int) -> Problem:
        three = (n, 3)
        return problem(f"warp_rigid_{name}",
            {"x": (F32, three, "randn"), "q": (F32, (n, 4), "turns"), "v": (F32, three, "randn"),
             "w": (F32, three, "randn"), "inertia": (F32, three, "moments"), "xn": (F32, three, "poison"),
             "qn": (F32, (n, 4), "poison"), "vn": (F32, three, "poison"), "wn": (F32, three, "poison")},
            ("x", "q", "v", "w", "inertia", "xn", "qn", "vn", "wn", 1e-3), "BLOCK=32..1024",
            f"{n}, BLOCK, 0")  # fmt: skip

    def added(name: str, n: int) -> Problem:
        return problem(f"gluon_added_{name}",
            {"a": (F32, (n,), "randn"), "b": (F32, (n,), "randn"), "out": (F32, (n,), "poison")},
            {"a": None, "b": None, "out": None}, "BLOCK=512..4096 DEPTH=2..4 VEC=1..4 TILES=4,8,16 num_warps=2..8",
            f"{n} // (BLOCK * TILES), None, 0", "BLOCK * DEPTH <= 12288")  # fmt: skip

    def rotated(tokens: int, heads: int, dim: int) -> Problem:
        held, half = (tokens, heads, dim), (tokens, dim // 2)
        return problem(f"gluon_rotated_{tokens}x{heads}x{dim}",
            {"x": (F16, held, "randn"), "cosines": (F32, half, "randn"), "sines": (F32, half, "randn"),
             "out": (F16, held, "poison")}, ("x", "cosines", "sines", "out"),
            "ROWS=4..64 VEC=1..8 num_warps=1..8", f"{tokens * heads} // ROWS, None, 0",
            defines={"HEADS": heads, "HALF": dim // 2})  # fmt: skip

    def residual(rows: int, cols: int) -> Problem:
        held = (rows, cols)
        return problem(f"cutile_residual_{rows}x{cols}",
            {"x": (F16, held, "randn"), "given": (F16, held, "randn"), "weight": (F16, (1, cols), "rand"),
             "kept": (F16, held, "poison"), "out": (F16, held, "poison")},
            {"x": None, "given": None, "weight": None, "kept": None, "out": None},
            "rows=1..16 occupancy=1..8", f"{rows} // rows, None, 0", f"rows * {cols} <= 16384",
            defines={"cols": cols})  # fmt: skip

    def swiglu(rows: int, cols: int) -> Problem:
        return problem(f"cute_swiglu_{rows}x{cols}",
            {"A": (F16, (rows, 2 * cols), "randn"), "B": (F16, (rows, cols), "poison")}, {"A": None, "B": None},
            "THREADS=32..512 VEC=1..8", whole, f"{cols} % (THREADS * VEC) == 0", defines={"COLS": cols})  # fmt: skip

    return [
        dmma(4096, 2048, 1024), dmma(1024, 1024, 4096), chacha("128mb", 1 << 21), chacha("8mb", 1 << 17),
        suppressed(20_000), suppressed(4000), stereo(1920, 1080), stereo(640, 480), flux("97k", 97_046, 2000),
        flux("1m", 1 << 20, 300), coded(1 << 20, 32), coded(1 << 18, 8), rays(1024, 1024, 1024),
        rays(512, 256, 8192), similar(16, 1080, 1920), similar(32, 512, 512), beams(64, 96, 1024, 64),
        beams(256, 32, 4096, 16), harmonics("8m", 1 << 23), harmonics("512k", 1 << 19), twice(8192, 128, 2048),
        twice(16_384, 64, 512), logsum(4096, 32_768), logsum(512, 131_072), ising(8192, 4096), ising(2048, 1024),
        lab("cells", 3840 * 2160), lab("planes", 1920 * 1080 * 8), skinned("2m", 1 << 21, 64),
        skinned("256k", 1 << 18, 4096), rigid("1m", 1 << 20), rigid("128k", 1 << 17), added("64m", 1 << 26),
        added("4m", 1 << 22), rotated(8192, 32, 128), rotated(4096, 8, 64), residual(16_384, 4096),
        residual(4096, 1024), swiglu(8192, 8192), swiglu(16_384, 1536),
    ]  # fmt: skip
