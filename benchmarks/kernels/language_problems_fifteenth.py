"""The problems of `languages_fifteenth.cu` and `languages_fifteenth.py`, two shapes of each."""

from __future__ import annotations

from typing import Any

from .language_problems import Problem
from .language_problems_ninth import F16, F32, I32, whole

F8 = "float8_e4m3"


def fifteenth_problems() -> list[Problem]:
    def problem(name: str, tensors: Any, *rest: Any, **more: Any) -> Problem:
        outs = tuple(each for each, (_, _, init) in tensors.items() if init in ("poison", "zero", "given"))
        made = "" if name.startswith("cuda_") else "_".join(name.split("_")[:2])
        most = 6 if made.startswith("tilelang") else 9
        return Problem(name, tensors, outs, *rest, most=most, made=made, source="languages_fifteenth.cu", **more)

    def ways(m: int, n: int, k: int) -> Problem:
        return problem(f"cuda_ways_{m}x{n}x{k}",
            {"C": (F32, (m, n), "poison"), "C0": (F32, (m, n), "rand"), "A": (F32, (m, k), "rand"),
             "B": (F32, (k, n), "rand")}, ("C", "C0", "A", "B", n, k),
            "BM=32..128 BN=32..128 BK=8,16,32 TM=2,4,8 TN=2,4,8",
            f"({n} // BN, {m} // BM), BM // TM * (BN // TN), 0",
            "64 <= BM // TM * (BN // TN) <= 512 and (BM + 1 + BN) * BK * 4 <= 48 << 10 and TM * TN >= 8")  # fmt: skip

    def crossed(rows: int, cols: int) -> Problem:
        return problem(f"cuda_crossed_{rows}x{cols}",
            {"out": (F16, (rows, cols), "poison"), "x": (F16, (rows, cols), "randn"),
             "labels": (I32, (rows,), f"below:{cols}")}, ("out", "x", "labels", cols, 1.0),
            "BLOCK=32..1024 VEC=1..8 UNROLL=1,4", f"{rows}, BLOCK, 0")  # fmt: skip

    def medians(width: int, height: int) -> Problem:
        return problem(f"cuda_medians_{width}x{height}",
            {"out": (F32, (height, width), "poison"), "in": (F32, (height + 2, width + 2), "rand")},
            ("out", "in", width, height), "BX=16..128 BY=1..16 PER=1..8 TILED=0,1",
            f"({width} // BX, {height} // (BY * PER)), (BX, BY), 0", "64 <= BX * BY <= 512")  # fmt: skip

    def embedded(rows: int, words: int, cols: int, seq: int) -> Problem:
        return problem(f"cuda_embedded_{rows}x{cols}",
            {"out": (F16, (rows, cols), "poison"), "ids": (I32, (rows,), f"below:{words}"),
             "table": (F16, (words, cols), "randn"), "places": (F16, (seq, cols), "randn"),
             "gamma": (F32, (cols,), "rand"), "beta": (F32, (cols,), "randn")},
            ("out", "ids", "table", "places", "gamma", "beta", seq), "WARPS=1..16 ROWS=1..8 VEC=1..8 UNROLL=1,2",
            f"{rows} // (WARPS * ROWS), WARPS * 32, 0", "UNROLL <= ROWS", defines={"COLS": cols},
            values=("ids",))  # fmt: skip

    def scaled(m: int, n: int, k: int) -> Problem:
        return problem(f"tilelang_scaled_{m}x{n}x{k}",
            {"A": (F8, (m, k), "randn"), "B": (F8, (n, k), "randn"), "rows": (F32, (m,), "rand"),
             "cols": (F32, (n,), "rand"), "C": ("bfloat16", (m, n), "poison")}, (),
            "block_M=64,128 block_N=64..256 block_K=64,128 num_stages=2,3,4 threads=128,256", whole,
            "block_M * block_N // threads <= 128 and (block_M + block_N) * block_K * num_stages <= 200000",
            defines={"M": m, "N": n, "K": k})  # fmt: skip

    def colsums(rows: int, cols: int) -> Problem:
        return problem(f"tilelang_colsums_{rows}x{cols}",
            {"X": (F16, (rows, cols), "randn"), "Y": (F32, (cols,), "poison")}, (),
            "block_R=16..128 block_C=32..128 num_stages=2,3,4 threads=128,256", whole,
            "threads * 8 <= block_R * block_C <= threads * 64", defines={"rows": rows, "cols": cols})  # fmt: skip

    def causal(batch: int, seq: int, channels: int) -> Problem:
        return problem(f"numba_causal_{batch}x{seq}x{channels}",
            {"x": (F32, (batch, seq + 3, channels), "randn"), "w": (F32, (4, channels), "randn"),
             "out": (F32, (batch, seq, channels), "poison")}, ("x", "w", "out"), "BLOCK=32..512 PER=1..64",
            f"({channels} // BLOCK, {seq} // PER, {batch}), BLOCK, 0")  # fmt: skip

    def projected(deep: int, height: int, width: int) -> Problem:
        own = (deep, height, width)
        return problem(f"warp_projected_{deep}x{height}x{width}",
            {"p": (F32, (deep + 2, height + 2, width + 2), "randn"), "u": (F32, own, "given"),
             "v": (F32, own, "given"), "w": (F32, own, "given")}, ("p", "u", "v", "w"), "BLOCK=32..512 PER=1..8",
            f"({deep} // PER, {height}, {width}), BLOCK, 0")  # fmt: skip

    def rooted(n: int, cols: int) -> Problem:
        return problem(f"gluon_rooted_{n}x{cols}",
            {"x": (F16, (n, cols), "randn"), "given": (F16, (n, cols), "randn"), "weight": (F32, (cols,), "rand"),
             "kept": (F16, (n, cols), "poison"), "out": (F16, (n, cols), "poison")},
            ("x", "given", "weight", "kept", "out"), "ROWS=1..8 VEC=1..8 ACROSS=1..8 num_warps=1..8",
            f"{n} // ROWS, None, 0",
            f"ACROSS <= num_warps and ROWS >= num_warps // ACROSS and {cols} >= 32 * VEC * ACROSS "
            f"and ROWS * {cols} // num_warps <= 4096", defines={"COLS": cols})  # fmt: skip

    def batched(batch: int, m: int, n: int, k: int) -> Problem:
        return problem(f"cutile_batched_{batch}x{m}x{n}x{k}",
            {"a": (F16, (batch, m, k), "randn"), "b": (F16, (batch, n, k), "randn"),
             "c": (F16, (batch, m, n), "poison")}, {"a": None, "b": None, "c": None},
            "rows=32..128 cols=32..256 depth=32,64 occupancy=1,2",
            f"({m} // rows, {n} // cols, {batch}), None, 0", "rows * cols <= 16384")  # fmt: skip

    def unit(n: int, cols: int) -> Problem:
        return problem(f"cute_unit_{n}x{cols}",
            {"A": (F32, (n, cols), "randn"), "B": (F32, (n, cols), "poison")}, {"A": None, "B": None},
            "ROWS=1..32 LANES=8..32 VEC=1..4", whole, "64 <= ROWS * LANES <= 512", defines={"COLS": cols})  # fmt: skip

    return [
        ways(2048, 2048, 512), ways(512, 1024, 1024), crossed(4096, 32_768), crossed(16_384, 2048),
        medians(8192, 4096), medians(1024, 768), embedded(32_768, 50_000, 768, 512), embedded(4096, 32_000, 2048, 2048),
        scaled(4096, 4096, 4096), scaled(512, 8192, 2048), colsums(4096, 16_384), colsums(65_536, 4096),
        causal(8, 2048, 4096), causal(2, 1024, 1536), projected(128, 256, 512), projected(64, 96, 96),
        rooted(16_384, 2048), rooted(32_768, 512), batched(16, 1024, 1024, 1024), batched(64, 256, 512, 512),
        unit(32_768, 1024), unit(4096, 4096),
    ]  # fmt: skip
