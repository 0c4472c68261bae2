"""Problems of `benchmarks/languages.py` of other operators: sparse rows, routing, serving, gradients, scans."""

from __future__ import annotations

from typing import Any

from .language_problems import NZ, ROWS, Problem
from .language_problems_third import F16, F32, f32

SOURCE = "languages_fourth.cu"


def fourth_problems() -> list[Problem]:
    def problem(name: str, tensors: Any, *rest: Any, **more: Any) -> Problem:
        outs = tuple(each for each, (_, _, init) in tensors.items() if init in ("poison", "zero"))
        return Problem(f"cuda_{name}", tensors, outs, *rest, source=SOURCE, **more)

    def gemm_room(c: dict[str, Any]) -> bool:
        bm, bn = c["WM"] * c["FM"] * 16, c["WN"] * c["FN"] * 16
        return c["WM"] * c["WN"] >= 2 and bm <= 128 and bn <= 256 and (bm + bn) * (c["BK"] + 8) * 2 <= 48 << 10

    return [
        problem("scored_64k",
            {"out": (F32, (NZ,), "zero"), "starts": ("int32", (ROWS + 1,), "starts"), "held": (F32, (NZ,), "randn")},
            ("out", "starts", "held", ROWS), "BLOCK=64..512 LANES=1..32",
            lambda c: (ROWS * c["LANES"] // c["BLOCK"], c["BLOCK"], 0), values=("starts",)),
        problem("edges_2m", {"out": (F32, (100_000, 32), "zero"), "x": (F32, (100_000, 32), "randn"),
             "weight": (F32, (1 << 21,), "randn"), "from": ("int32", (1 << 21,), "which"),
             "to": ("int32", (1 << 21,), "which")}, ("out", "x", "weight", "from", "to", 1 << 21),
            "BLOCK=64..1024 VEC=1..4 GRID=264,1056,8448", "GRID, BLOCK, 0", defines={"DIM": 32}),
        problem("mixed_8x2048x4096", {"out": (F16, (8, 2048, 4096), "poison"), "x": (F16, (8, 2048, 4096), "randn"),
             "w": (F16, (4096, 4), "randn"), "bias": (F16, (4096,), "randn")}, ("out", "x", "w", "bias", 2048, 4096),
            "BLOCK=32..256 VEC=1,2,8 CHUNK=16,64,256,1024", "(cdiv(4096, BLOCK * VEC), 2048 // CHUNK, 8), BLOCK, 0"),
        problem("pooled_64x64x112", {"out": (F32, (64, 64, 56, 56), "poison"), "x": (F32, (64, 64, 112, 112), "randn")},
            ("out", "x", 112, 112, 56, 56), "BX=8..64 BY=1..16 PER=1,2,4,7",
            "(cdiv(56, BX), cdiv(56, BY * PER), 4096), (BX, BY), 0", "64 <= BX * BY <= 1024"),
        problem("w4gemm_512x4096x4096", {"C": (F16, (512, 4096), "poison"), "A": (F16, (512, 4096), "randn"),
             "W": ("int32", (4096, 512), "bits"), "scales": (F16, (4096, 32), "rand")},
            ("C", "A", "W", "scales", 512, 4096, 4096), "WM=1..4 WN=1..4 FM=1..4 FN=1..4 BK=32..128",
            "(4096 // (WN * FN * 16), 512 // (WM * FM * 16)), WM * WN * 32, 0", gemm_room),
        problem("paged_32x16x2048", {"out": (F32, (32, 16, 128), "poison"), "q": (F16, (32, 16, 128), "randn"),
             "kcache": (F16, (4096, 16, 16, 128), "randn"), "vcache": (F16, (4096, 16, 16, 128), "randn"),
             "table": ("int32", (4096,), "pages")},
            ("out", "q", "kcache", "vcache", "table", 128, 16, 2048, f32(128**-0.5)), "WARPS=4..16 GROUP=2..16",
            "(16, 32), WARPS * 32, 2048 * 4"),
        problem("slopes_16kx4096", {"dgamma": (F32, (4096,), "zero"), "dbeta": (F32, (4096,), "zero"),
             "dy": (F32, (16_384, 4096), "randn"), "x": (F32, (16_384, 4096), "randn"),
             "mean": (F32, (16_384,), "randn"), "rstd": (F32, (16_384,), "rand")},
            ("dgamma", "dbeta", "dy", "x", "mean", "rstd", 16_384, 4096), "BX=32..128 BY=1..16 DOWN=4,16,64 UNROLL=1,4",
            "(4096 // BX, DOWN), (BX, BY), 0", "64 <= BX * BY <= 1024"),
        problem("routed_512k", {"weights": (F32, (1 << 19, 2), "poison"), "ids": ("int32", (1 << 19, 2), "poison"),
             "logits": (F32, (1 << 19, 64), "randn")}, ("weights", "ids", "logits", 1 << 19),
            "BLOCK=64..512 LANES=2..32", "(1 << 19) * LANES // BLOCK, BLOCK, 0"),
        problem("bagged_16kx32", {"out": (F32, (16_384, 128), "poison"), "table": (F32, (100_000, 128), "randn"),
             "which": ("int32", (16_384 * 32,), "which")}, ("out", "table", "which", 128),
            "BX=16..128 BY=1..8 VEC=1,4 UNROLL=1,4,16", "16384 // BY, (BX, BY), 0",
            "64 <= BX * BY <= 1024 and BX * VEC <= 128"),
        problem("hadamard_8kx4096", {"out": (F32, (8192, 4096), "poison"), "x": (F32, (8192, 4096), "randn")},
            ("out", "x", 4096), "BLOCK=64..1024 RADIX=2,4", "8192, BLOCK, 4096 * 4"),
        problem("scanned_4x1024x2048", {"y": (F32, (4, 1024, 2048), "poison"), "x": (F32, (4, 1024, 2048), "randn"),
             "dt": (F32, (4, 1024, 2048), "rand"), "A": (F32, (2048, 16), "less"), "B": (F32, (4, 1024, 16), "randn"),
             "Cc": (F32, (4, 1024, 16), "randn")}, ("y", "x", "dt", "A", "B", "Cc", 1024, 2048),
            "BLOCK=32..256 LANES=1..16 UNROLL=1,4", "(2048 * LANES // BLOCK, 4), BLOCK, 0"),
        problem("life_16k", {"out": ("uint8", (8192, 16_384), "poison"), "x": ("uint8", (8192, 16_384), "cells")},
            ("out", "x", 8192, 16_384), "BX=32..256 BY=1..4 PER=1..8", "(16384 // (BX * PER), 8192 // BY), (BX, BY), 0",
            "BX * BY <= 1024"),
        problem("waves_384", {"next": (F32, (384, 384, 384), "zero"), "now": (F32, (384, 384, 384), "randn"),
             "before": (F32, (384, 384, 384), "randn")}, ("next", "now", "before", 384, 384, 384, f32(0.1)),
            "BX=32..128 BY=1..16 DEEP=1,4,16,96", "(384 // BX, 384 // BY, 384 // DEEP), (BX, BY), 0",
            "64 <= BX * BY <= 1024"),
        problem("ranked_16m", {"out": ("int32", (1 << 24,), "poison"), "x": ("int32", (1 << 24,), "low")}, ("out", "x"),
            "BLOCK=64..512 ITEMS=1..16", "(1 << 24) // (BLOCK * ITEMS), BLOCK, 0",
            "(16 * BLOCK + BLOCK * ITEMS + 16) * 4 <= 48 << 10"),
    ]  # fmt: skip
