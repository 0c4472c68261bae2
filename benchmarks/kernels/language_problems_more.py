"""More problems of `benchmarks/languages.py`, of other kinds than those of `language_problems.py`."""

from __future__ import annotations

from typing import Any

from .language_problems import Problem

SOURCE = "languages_more.cu"
CHUNKED = 1 << 25
W5 = (-2.84, 1.6, -0.2, 0.025, -0.0018)
TERMS, INTERVALS = 16, 32
HEADS, LENGTH, SPLITS = 256, 2048, 4


def more_problems() -> list[Problem]:

    def problem(name: str, tensors: Any, *rest: Any, **more: Any) -> Problem:
        outs = tuple(each for each, (_, _, init) in tensors.items() if init in ("poison", "zero"))
        return Problem(name, tensors, outs, *rest, source=SOURCE, **more)

    def bulk_room(c: dict[str, Any]) -> int:
        return int(c["STAGES"] * c["CHUNK"] * 4)

    return [
        problem("cuda_bulk_32m", {"out": ("float32", (CHUNKED,), "poison"), "x": ("float32", (CHUNKED,), "rand")},
            lambda c: ("out", "x", CHUNKED // c["CHUNK"]),
            "CHUNK=1024..8192 STAGES=2,3,4 BLOCK=128..512 PRODUCER=0,1 BACK=0,1 PER_SM=1..4",
            lambda c: (132 * c["PER_SM"], c["BLOCK"] + 32 * c["PRODUCER"], bulk_room(c)),
            lambda c: bulk_room(c) * c["PER_SM"] < 220_000),
        problem("cuda_batched_32k", {"C": ("float32", (32_768, 32, 32), "poison"),
             "A": ("float32", (32_768, 32, 32), "randn"), "B": ("float32", (32_768, 32, 32), "randn")}, ("C", "A", "B"),
            "MATS=1..4 TILE=1..8", "32768 // MATS, MATS * (32 // TILE) ** 2, 0",
            "32 <= MATS * (32 // TILE) ** 2 <= 1024", defines={"ORDER": 32}),
        problem("cuda_convolved_16x56x56x64x128", {"out": ("float32", (16, 56, 56, 128), "poison"),
             "x": ("float32", (16, 56, 56, 64), "randn"), "w": ("float32", (3, 3, 64, 128), "randn")},
            ("out", "x", "w", 56, 56, 64, 128), "PIX=28,56 TP=2,4,7,14 CO=32..128 TC=2..8 CI=8..32",
            "(56 // PIX * 56 * 16, 128 // CO), PIX // TP * (CO // TC), 0",
            "PIX % TP == 0 and 64 <= PIX // TP * (CO // TC) <= 512 and ((PIX + 2) * (CI + 1) + 3 * CI * CO < 12000)"),
        problem("cuda_mandel_4096x3072", {"out": ("int32", (3072, 4096), "poison")}, ("out", 4096, 3072),
            "BX=8..128 BY=1..16 PER=1..4", "(4096 // BX, 3072 // (BY * PER)), (BX, BY), 0", "32 <= BX * BY <= 512",
            defines={"LIMIT": 256}),
        problem("cuda_star_512x384x128",
            {"out": ("float32", (136, 392, 520), "zero"), "x": ("float32", (136, 392, 520), "randn")},
            ("out", "x", 512, 384), "BX=32..128 BY=2..16 DEEP=16,32,128 SHARED=0,1",
            "(512 // BX, 384 // BY, 128 // DEEP), (BX, BY), 0", "64 <= BX * BY <= 1024"),
        problem("cuda_dgemm_1024x1536x1024", {"C": ("float64", (1024, 1536), "poison"),
             "A": ("float64", (1024, 1024), "randn"), "B": ("float64", (1024, 1536), "randn")},
            ("C", "A", "B", 1536, 1024), "BM=32..128 BN=32..128 BK=4..16 TM=2..8 TN=2..8",
            "(1536 // BN, 1024 // BM), BM // TM * (BN // TN), 0",
            "64 <= BM // TM * (BN // TN) <= 256 and TM * TN >= 8 and (BK * (BM + BN + 1) * 8 < 48000)"),
        problem("cuda_wmma_2048", {"C": ("float32", (2048, 2048), "poison"), "A": ("bfloat16", (2048, 2048), "randn"),
             "B": ("bfloat16", (2048, 2048), "randn")}, ("C", "A", "B", 2048, 2048),
            "WY=1..4 WX=1..4 TY=1..4 TX=1..4 BK=16..64 SHARED=0,1",
            "(128 // (WX * TX), 128 // (WY * TY)), WY * WX * 32, 0",
            "2 <= WY * WX <= 8 and TY * TX >= 2 and (WY * TY * 16 * (BK + 8) + BK * (WX * TX * 16 + 8) < 24000)"),
        problem("cuda_groups_40960x1024",
            {"out": ("float32", (40_960,), "poison"), "x": ("float32", (40_960, 1024), "randn")}, ("out", "x", 1024),
            "BLOCK=64..512 LANES=4..32 VEC=1..4", "40960 * LANES // BLOCK, BLOCK, 0"),
        problem("cuda_resized_6000x4500",
            {"out": ("uint8", (4500, 6000, 3), "poison"), "x": ("uint8", (3000, 4000, 3), "small")},
            ("out", "x", 4000, 3000, 6000, 4500), "BX=16..256 BY=1..8 PER=1..4",
            "(cdiv(6000, BX * PER), cdiv(4500, BY)), (BX, BY), 0", "64 <= BX * BY <= 512"),
        problem("cuda_cholesky_16k",
            {"out": ("float32", (16_384, 32, 32), "poison"), "a": ("float32", (16_384, 32, 32), "rand")}, ("out", "a"),
            "BLOCK=32..256 LANES=8..32", "16384 * LANES // BLOCK, BLOCK, 0", "BLOCK // LANES <= 11",
            defines={"ORDER": 32}),
        problem("cuda_fourier_16k",
            {"out": ("float32", (16_384, 1024, 2), "poison"), "x": ("float32", (16_384, 1024, 2), "randn")},
            ("out", "x"), "BLOCK=64..512 ROWS=1..8", "16384 // ROWS, (BLOCK, ROWS), ROWS * 16384",
            "BLOCK * ROWS <= 1024", defines={"ORDER": 1024}),
        problem("cuda_scattered_8m", {"out": ("float32", (100_000,), "zero"), "x": ("float32", (1 << 23,), "rand"),
             "which": ("int32", (1 << 23,), "which")}, ("out", "x", "which", 1 << 23),
            "BLOCK=64..512 VEC=1..4 WAVES=1,2,8", "132 * 2048 // BLOCK * WAVES, BLOCK, 0"),
        problem("cuda_drawn_16m", {"out": ("int32", (1 << 26,), "poison")}, ("out", 42),
            "BLOCK=64..1024 PER=1..8 ROUNDS=1,2,5,10", "(1 << 24) // (BLOCK * PER), BLOCK, 0"),
        problem("cuda_simpson_256k",
            {"out": ("float32", (262_144,), "poison"), "rate": ("float32", (262_144,), "rand")}, ("out", "rate"),
            "BLOCK=32..1024 UNROLL=1..4", "262144 // BLOCK, BLOCK, 0",
            defines={"TERMS": TERMS, "INTERVALS": INTERVALS}),
        problem("cuda_bins_256k", {"out": ("int32", (16, 262_144), "poison"), "x": ("int32", (64, 262_144), "bits")},
            ("out", "x", 262_144), "BLOCK=32..512 UNROLL=1,4,16,64", "262144 // BLOCK, BLOCK, 0", defines={"BINS": 16}),
        problem("cuda_decode_256x2048", {"part": ("float32", (SPLITS, HEADS, 130), "poison"),
             "q": ("bfloat16", (HEADS, 128), "randn"), "k": ("bfloat16", (HEADS, LENGTH, 128), "randn"),
             "v": ("bfloat16", (HEADS, LENGTH, 128), "randn")}, ("part", "q", "k", "v", LENGTH, SPLITS),
            "WARPS=1..16 KEYS=1..8", lambda c: ((HEADS, SPLITS), 32 * c["WARPS"], 0)),
        problem("numba_smooth_6000x5000",
            {"x": ("float32", (6000, 5000), "rand"), "out": ("float32", (6000, 5000), "poison")}, ("x", "out"),
            {"BX": [32, 64, 128, 256], "BY": [1, 2, 4, 8], "SHARED": [False, True]},
            "(cdiv(5000, BX), cdiv(6000, BY)), (BX, BY), 0", "64 <= BX * BY <= 512", made="numba_smooth"),
        problem("numba_counted_32m", {"x": ("int32", (1 << 25,), "bits"), "out": ("int32", (64,), "zero")},
            ("x", "out"), "BLOCK=64..512 PER_SM=1..8", "132 * PER_SM, BLOCK, 0", made="numba_counted"),
        problem("warp_gathered_1m", {"x": ("float32", (100_000, 4), "randn"), "which": ("int32", (1 << 24,), "which"),
             "out": ("float32", (1 << 20,), "poison")}, ("x", "which", "out", 16), "BLOCK=32..1024 UNROLL=1,4,16",
            "1 << 20, BLOCK, 0", made="warp_gathered"),
    ]  # fmt: skip
