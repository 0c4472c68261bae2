"""Problems of `benchmarks/languages.py`: warps that copy for others, scans that look back, clusters, wavefronts."""

from __future__ import annotations

from typing import Any

from .language_problems import NZ, ROWS, Problem
from .language_problems_third import F16, F32, f32

SOURCE = "languages_fifth.cu"
SIGNAL = 1 << 24
KIB = 1 << 10


def fifth_problems() -> list[Problem]:
    def problem(name: str, tensors: Any, *rest: Any, **more: Any) -> Problem:
        outs = tuple(each for each, (_, _, init) in tensors.items() if init in ("poison", "zero"))
        return Problem(f"cuda_{name}", tensors, outs, *rest, source=SOURCE, **more)

    def imma_room(c: dict[str, Any]) -> int:
        return int(c["STAGES"] * (c["WM"] * c["FM"] + c["WN"] * c["FN"]) * 16 * (c["BK"] + 16))

    def produced_fits(c: dict[str, Any]) -> bool:
        return 1 <= c["TILE"] // (c["CONSUMERS"] * 32) <= 16 and c["STAGES"] * (c["TILE"] + 64) * 4 <= 48 * KIB

    def timed_fits(c: dict[str, Any]) -> bool:
        rows = c["BY"] * c["PER"]
        return rows > 12 and 64 <= c["BX"] * c["BY"] <= 1024 and 8 * c["BX"] * rows <= 48 * KIB

    return [
        problem("produced_16m",
            {"out": (F32, (SIGNAL,), "poison"), "x": (F32, (SIGNAL + 32,), "randn"), "taps": (F32, (33,), "randn")},
            lambda c: ["out", "x", "taps", SIGNAL // c["TILE"] // c["GRID"]],
            "TILE=1024..4096 STAGES=2,3,4 CONSUMERS=2..8 GRID=256..1024", "GRID, 32 + CONSUMERS * 32, 0",
            produced_fits),
        problem("lookback_16m", {"out": ("int32", (SIGNAL,), "poison"), "x": ("int32", (SIGNAL,), "small"),
             "state": ("int64", (SIGNAL // 256 + 8,), "zero")},
            lambda c: ["out", "x", "state", SIGNAL // (c["BLOCK"] * c["ITEMS"])],
            "BLOCK=64..512 ITEMS=4..16 LOOK=1,8,32", lambda c: (SIGNAL // (c["BLOCK"] * c["ITEMS"]), c["BLOCK"], 0)),
        problem("digits_16m", {"out": ("int32", (4, 256), "zero"), "x": ("int32", (SIGNAL,), "bits")},
            ("out", "x", SIGNAL // 4), "BLOCK=128..1024 DEEP=1..4 COPIES=1..8 GRID=132,264,1024", "GRID, BLOCK, 0"),
        problem("spmm_64kx64", {"out": (F32, (ROWS, 64), "poison"), "starts": ("int32", (ROWS + 1,), "starts"),
             "cols": ("int32", (NZ,), "cols"), "held": (F32, (NZ,), "randn"), "x": (F32, (ROWS, 64), "randn")},
            ("out", "starts", "cols", "held", "x", ROWS), "BX=8..64 BY=1..16 VEC=1..4 UNROLL=1,4",
            lambda c: (ROWS // c["BY"], (c["BX"], c["BY"]), 0), "BX * VEC <= 64 and 32 <= BX * BY <= 1024",
            values=("starts",)),
        problem("tiny_16kx32",
            {name: (F32, (16_384, 32, 32), init) for name, init in (("C", "poison"), ("A", "randn"), ("B", "randn"))},
            ("C", "A", "B"), "TM=1..8 TN=1..8 PER=1..4 PAD=0,1,4", "16384 // PER, (1024 // (TM * TN), PER), 0",
            "32 <= 1024 // (TM * TN) * PER <= 1024"),
        problem("layered_8kx4096",
            {**{name: (F16, (8192, 4096), init) for name, init in (("out", "poison"), ("kept", "poison"), ("x",
             "randn"), ("y", "randn"))},
             "gamma": (F16, (4096,), "randn"), "beta": (F16, (4096,), "randn")},
            ("out", "kept", "x", "y", "gamma", "beta"), "BLOCK=64..1024 VEC=1..8", "8192, BLOCK, 0",
            "1 <= 4096 // (BLOCK * VEC) <= 16", defines={"COLS": 4096}),
        problem("upconv_16x64x56", {"out": (F32, (16, 32, 112, 112), "poison"), "x": (F32, (16, 64, 56, 56), "randn"),
             "w": (F32, (64, 32, 4, 4), "randn")}, ("out", "x", "w", 64, 32, 56, 56),
            "BX=16..64 BY=2..16 CO=1..16 STAGED=0,4,16", "(cdiv(112, BX), 112 // BY, 16 * 32 // CO), (BX, BY), 0",
            "64 <= BX * BY <= 1024 and CO * STAGED <= 256"),
        problem("best4_8kx4096", {"weights": (F32, (8192, 4), "poison"), "ids": ("int32", (8192, 4), "poison"),
             "x": (F32, (8192, 4096), "randn")}, ("weights", "ids", "x", 4096), "ROWS=1..16 VEC=1..4",
            "8192 // ROWS, (32, ROWS), 0"),
        problem("timed_6000", {"out": (F32, (6000, 6000), "poison"), "x": (F32, (6000, 6000), "randn")},
            ("out", "x", 6000, 6000, f32(0.2)), "BX=32..128 BY=2..32 PER=1..16",
            "(cdiv(6000, BX - 8), cdiv(6000, BY * PER - 8)), (BX, BY), 0", timed_fits, defines={"STEPS": 4}),
        problem("imma_4096", {"C": ("int32", (4096, 4096), "poison"), "A": ("int8", (4096, 4096), "small"),
             "B": ("int8", (4096, 4096), "small")}, ("C", "A", "B", 4096, 4096),
            "WM=1..4 WN=1..4 FM=1..4 FN=1..4 BK=32..128 STAGES=2,3,4",
            lambda c: ((4096 // (c["WN"] * c["FN"] * 16), 4096 // (c["WM"] * c["FM"] * 16)), c["WM"] * c["WN"] * 32,
                imma_room(c)),
            lambda c: 2 <= c["WM"] * c["WN"] <= 8 and c["FM"] * c["FN"] >= 2 and imma_room(c) <= 160 * KIB),
        problem("cell_8kx2048", {"hidden": (F16, (8192, 2048), "poison"), "next": (F32, (8192, 2048), "poison"),
             "gates": (F16, (8192, 8192), "randn"), "state": (F32, (8192, 2048), "randn"),
             "bias": (F32, (8192,), "randn")}, ("hidden", "next", "gates", "state", "bias", 2048, SIGNAL),
            "BLOCK=64..1024 VEC=1..8 GRID=264,1056,8192", "GRID, BLOCK, 0"),
        problem("across_32x256x4096", {"out": (F32, (32, 256, 4096), "poison"), "x": (F32, (32, 256, 4096), "randn")},
            ("out", "x", 256, 4096), "BX=16..128 BY=1..16 ONLINE=0,1", "(4096 // BX, 32), (BX, BY), 0",
            "64 <= BX * BY <= 1024"),
        problem("aligned_8kx512", {"out": ("int32", (8192,), "poison"), "left": ("uint8", (8192, 512), "small"),
             "right": ("uint8", (8192, 512), "small")}, ("out", "left", "right"), "THREADS=32..256 PAIRS=1..8",
            "8192 // PAIRS, (THREADS, PAIRS), 0", "THREADS * PAIRS <= 1024", defines={"LENGTH": 512}),
        problem("clustered_512x64k", {"out": (F32, (512, 1 << 16), "poison"), "x": (F32, (512, 1 << 16), "randn")},
            ("out", "x", 1 << 16), "PARTS=2..8 BLOCK=128..1024", "(PARTS, 512), BLOCK, (1 << 18) // PARTS"),
    ]  # fmt: skip
