"""Problems of `benchmarks/languages.py` in the form in which such kernels are commonly written, in seven languages."""

from __future__ import annotations

from typing import Any

import numpy as np

from .language_problems import Problem

SOURCE = "languages_third.cu"
F32, F16 = "float32", "float16"


def whole(c: dict[str, Any]) -> tuple[Any, Any, int]:
    """A program that launches itself."""
    return None, None, 0


def f32(value: float) -> Any:
    return np.float32(value)


def third_problems() -> list[Problem]:
    def problem(name: str, tensors: Any, *rest: Any, **more: Any) -> Problem:
        outs = tuple(each for each, (_, _, init) in tensors.items() if init in ("poison", "zero"))
        return Problem(name, tensors, outs, *rest, source=SOURCE, **more)

    def hgemm_room(c: dict[str, Any]) -> int:
        m, n = c["WM"] * c["FM"] * 16, c["WN"] * c["FN"] * 16
        return int(c["STAGES"] * (m * (c["BK"] + 8) + c["BK"] * (n + 8)) * 2)

    def sgemm_fits(c: dict[str, Any]) -> bool:
        bm, bn, wm, wn, tm, tn = (c[k] for k in ("BM", "BN", "WM", "WN", "TM", "TN"))
        wsn = min(8, wn // tn)
        wsm = 32 // wsn
        warps = bm // wm * (bn // wn) if bm % wm == 0 and bn % wn == 0 else 0
        return (
            2 <= warps <= 16 and wn % (wsn * tn) == 0 and wm % (wsm * tm) == 0 and wm >= wsm * tm
            and wm * wn // 32 <= 128
        )  # fmt: skip

    m = 2560
    return [
        problem("cuda_sgemm_2048x2560x1024",
            {"C": (F32, (2048, m), "zero"), "A": (F32, (2048, 1024), "randn"), "B": (F32, (1024, m), "randn")},
            ("C", "A", "B", 2048, m, 1024, f32(0.5), f32(2.0)),
            "BM=64,128 BN=64,128 BK=8,16 WM=32,64 WN=32,64 TM=4,8 TN=4,8",
            lambda c: ((m // c["BN"], 2048 // c["BM"]), c["BM"] // c["WM"] * (c["BN"] // c["WN"]) * 32, 0), sgemm_fits),
        problem("cuda_hgemm_3072x2048x2048",
            {"C": (F16, (3072, 2048), "poison"), "A": (F16, (3072, 2048), "randn"), "B": (F16, (2048, 2048), "randn")},
            ("C", "A", "B", 3072, 2048, 2048), "WM=1..4 WN=1..4 FM=1..4 FN=1..4 BK=16..64 STAGES=2,3,4",
            lambda c: ((2048 // (c["WN"] * c["FN"] * 16), 3072 // (c["WM"] * c["FM"] * 16)), c["WM"] * c["WN"] * 32,
                hgemm_room(c),),
            lambda c: 2 <= c["WM"] * c["WN"] <= 8 and c["FM"] * c["FN"] >= 4 and hgemm_room(c) < 110_000),
        problem("cuda_box27_512x256x200",
            {"out": (F32, (200, 256, 512), "poison"), "x": (F32, (200, 256, 512), "randn")},
            ("out", "x", 512, 256, 200), "BX=8..64 BY=2..16 BZ=1..8",
            "(512 // BX, 256 // BY, 200 // BZ), (BX, BY, BZ), 0", "128 <= BX * BY * BZ <= 1024"),
        problem("cuda_warpsoft_48kx768", {"out": (F16, (49_999, 768), "poison"), "x": (F16, (49_999, 768), "randn")},
            ("out", "x", 49_999, 768), "WARPS=1..16 ROWS_PER_WARP=1..4 VEC=1..8",
            "cdiv(49999, WARPS * ROWS_PER_WARP), (32, WARPS), 0", defines={"COLS": 768}),
        problem("cuda_permute_32x3136x256",
            {"out": (F16, (32, 256, 3136), "poison"), "x": (F16, (32, 3136, 256), "randn")}, ("out", "x", 3136, 256),
            "TC=16..64 TH=16..64 PAD=0,2,8 VEC=1..8 BLOCK=64..256", "(256 // TC, 3136 // TH, 32), BLOCK, 0",
            "TC * TH // VEC >= BLOCK"),
        problem("cuda_dwconv_32x96x112", {"out": (F32, (32 * 96, 112, 112), "poison"),
             "x": (F32, (32 * 96, 112, 112), "randn"), "w": (F32, (96, 25), "randn")}, ("out", "x", "w", 96, 112, 112),
            "BX=8..64 BY=2..16 OX=1..8 UNROLL=1,5", "(cdiv(112, BX * OX), cdiv(112, BY), 32 * 96), (BX, BY), 0",
            "64 <= BX * BY <= 512 and BX * OX <= 128"),
        problem("cuda_radix4_16m", {"out": (F32, (1 << 24, 2), "poison"), "x": (F32, (1 << 24, 2), "randn")},
            ("out", "x", 1 << 24, 16), "BLOCK=64..1024 PER=1..4 FAST=0,1", "(1 << 22) // (BLOCK * PER), BLOCK, 0"),
        problem("cuda_ell_256kx24", {"y": (F32, (1 << 18,), "poison"), "values": (F32, (24, 1 << 18), "randn"),
             "cols": ("int32", (24 << 18,), "cols"), "x": (F32, (65_536,), "randn")},
            ("y", "values", "cols", "x", 1 << 18, 24), "BLOCK=32..1024 UNROLL=1..8 GRID=264,2048", "GRID, BLOCK, 0"),
        problem("cuda_copy_48m", {"out": (F32, (48 << 20,), "poison"), "x": (F32, (48 << 20,), "randn")},
            ("out", "x", np.int64(48 << 20)), "BLOCK=64..1024 VEC=1..4 UNROLL=1..8 GRID=132,264,1056,8192",
            "GRID, BLOCK, 0"),
        problem("cuda_options_16m", {"call": (F32, (1 << 24,), "poison"), "put": (F32, (1 << 24,), "poison"),
             **{name: (F32, (1 << 24,), "rand") for name in ("price", "strike", "years")}},
            ("call", "put", "price", "strike", "years", f32(0.02), f32(0.3), 1 << 24),
            "BLOCK=64..1024 PER=1..8 GRID=264,1056,4096", "GRID, BLOCK, 0"),
        problem("cuda_rope_16kx32x128", {"out": (F16, (16_384, 32, 128), "poison"),
             "x": (F16, (16_384, 32, 128), "randn"), "cosine": (F32, (16_384, 64), "randn"),
             "sine": (F32, (16_384, 64), "randn")}, ("out", "x", "cosine", "sine", 32, 128),
            "BLOCK=64..1024 TOKENS=1..4 VEC=1..4", "16384 // TOKENS, BLOCK, 0"),
        problem("cuda_quantised_8kx11008", {"out": ("int8", (8192, 11_008), "poison"),
             "scales": (F32, (8192,), "poison"), "x": (F32, (8192, 11_008), "randn")}, ("out", "scales", "x", 11_008),
            "BLOCK=64..1024 UNROLL=1..8", "8192, BLOCK, 0"),
        problem("cuda_w4gemv_16384x8192", {"y": (F32, (16_384,), "poison"), "W": ("int32", (16_384, 1024), "bits"),
             "scales": (F16, (16_384, 64), "rand"), "x": (F16, (8192,), "randn")},
            ("y", "W", "scales", "x", 16_384, 8192), "WARPS=1..16 ROWS=1..8",
             "16384 // (WARPS * ROWS), (32, WARPS), 0"),
        problem("cuda_flash_32x2048x64",
            {"O": (F32, (32, 2048, 64), "poison"), **{n: (F32, (32, 2048, 64), "randn") for n in "QKV"}},
            ("O", "Q", "K", "V", 2048, f32(0.125)), "BR=32..256 BC=16..64 STEP=1..16",
             "(2048 // BR, 32), BR, BC * 512"),
        problem("cuda_lattice_2048", {"out": (F32, (9, 2048, 2048), "poison"), "x": (F32, (9, 2048, 2048), "rand")},
            ("out", "x", 2048, 2048, f32(1.2)), "BX=16..256 BY=1..8 PER=1..4",
            "(2048 // BX, 2048 // (BY * PER)), (BX, BY), 0", "64 <= BX * BY <= 1024"),
        problem("cuda_nearest_1mx256", {"out": ("int32", (1 << 20,), "poison"), "points": (F32, (16, 1 << 20), "randn"),
             "centres": (F32, (256, 16), "randn")}, ("out", "points", "centres", 1 << 20, 256),
            "BLOCK=64..512 PER=1..4 CHUNK=32..256", "(1 << 20) // (BLOCK * PER), BLOCK, 0"),
        problem("cuda_adam_24m",
            {**{n: (F32, (24 << 20,), "poison") for n in "pmv"}, **{n: (F32, (24 << 20,), "randn") for n in "wg"}},
            ("p", "m", "v", "w", "g", f32(1e-3), f32(0.9), f32(0.999), f32(1e-8), 24 << 20),
            "BLOCK=64..1024 VEC=1..4 GRID=132,528,2112,24576", "GRID, BLOCK, 0"),
        problem("cuda_bilateral_4000x3000", {"out": (F32, (3000, 4000), "poison"), "x": (F32, (3000, 4000), "rand")},
            ("out", "x", 4000, 3000, f32(0.06), f32(8.0)), "BX=8..64 BY=2..16 SHARED=0,1 UNROLL=1,7",
            "(cdiv(4000, BX), cdiv(3000, BY)), (BX, BY), 0", "64 <= BX * BY <= 512"),
        problem("cuda_loss_4kx50304", {"out": (F32, (4096,), "poison"), "x": (F16, (4096, 50_304), "randn")},
            ("out", "x", 50_304), "BLOCK=64..1024 VEC=1..8", "4096, BLOCK, 0"),
        problem("tilelang_causal_32x2048x128", {"Q": (F16, (32, 2048, 128), "randn"),
             "K": (F16, (8, 2048, 128), "randn"), "V": (F16, (8, 2048, 128), "randn"),
             "Out": (F16, (32, 2048, 128), "poison")}, (),
            "block_M=64,128 block_N=32..128 num_stages=1,2,3 threads=128,256", whole, made="tilelang_causal",
            defines={"heads": 32, "seq": 2048, "dim": 128, "groups": 4}),
        problem("tilelang_low_1024x4096x4096", {"A": (F16, (1024, 4096), "randn"), "B": ("int8", (4096, 4096), "small"),
             "scales": (F32, (4096,), "rand"), "C": (F16, (1024, 4096), "poison")}, (),
            "block_M=64,128 block_N=64,128 block_K=32..128 num_stages=2,3,4 threads=128,256", whole,
            made="tilelang_low", defines={"M": 1024, "N": 4096, "K": 4096}),
        problem("tilelang_depthwise_2048x130", {"x": (F32, (2048, 130, 130), "randn"),
             "w": (F32, (2048, 3, 3), "randn"), "out": (F32, (2048, 128, 128), "poison")}, (),
            "block_H=2..32 block_W=16..128 threads=128..512", whole, made="tilelang_depthwise",
            defines={"planes": 2048, "height": 130, "width": 130}),
        problem("tilelang_rms_16384x4096",
            {"x": (F16, (16_384, 4096), "randn"), "out": (F16, (16_384, 4096), "poison")}, (),
            "block=1..8 threads=128..512", whole, made="tilelang_rms", defines={"rows": 16_384, "cols": 4096}),
        problem("cute_fused_8192x8192",
            {**{n: (F16, (8192, 8192), "randn") for n in "ab"}, "c": (F16, (8192, 8192), "poison")},
            {"a": None, "b": None, "c": None}, "TR=1..8 TC=16..128 VR=1..4 VC=1..8", whole, "64 <= TR * TC <= 512",
            made="cute_fused"),
        problem("cute_product_2048x2048x1024",
            {"A": (F32, (2048, 1024), "randn"), "B": (F32, (2048, 1024), "randn"), "C": (F32, (2048, 2048), "poison")},
            {"A": None, "B": None, "C": None}, "BM=32..128 BN=32..128 BK=8,16 TM=4,8 TN=4,8", whole,
            "64 <= BM // TM * (BN // TN) <= 256", made="cute_product"),
        problem("cutile_softmaxed_32768x2048",
            {"x": (F32, (32_768, 2048), "randn"), "out": (F32, (32_768, 2048), "poison")}, {"x": None, "out": None},
            "rows=1..8 cols=2048 occupancy=1..8", "32768 // rows, None, 0", made="cutile_softmaxed"),
        problem("cutile_matmul_2048x4096x2048",
            {"a": (F16, (2048, 2048), "randn"), "b": (F16, (2048, 4096), "randn"), "c": (F16, (2048, 4096), "poison")},
            {"a": None, "b": None, "c": None}, "rows=64..256 cols=64..256 depth=32..128 occupancy=1,2",
            "(2048 // rows, 4096 // cols), None, 0", "rows * cols < 65536", made="cutile_matmul"),
        problem("cutile_turned_8192x6144", {"x": (F32, (8192, 6144), "randn"), "out": (F32, (6144, 8192), "poison")},
            {"x": None, "out": None}, "rows=16..128 cols=16..128 occupancy=1..4",
            "(8192 // rows, 6144 // cols), None, 0", "rows * cols <= 8192", made="cutile_turned"),
        problem("gluon_wgmma_4096x2048x2048",
            {"a": (F16, (4096, 2048), "randn"), "b": (F16, (2048, 2048), "randn"), "c": (F16, (4096, 2048), "poison")},
            lambda c: {"a": [c["BM"], c["BK"]], "b": [c["BK"], c["BN"]], "c": [c["BM"], c["BN"]], "K": 2048},
            "BM=64,128 BN=64..256 BK=32..128 STAGES=2,3,4 num_warps=4,8", "(4096 // BM, 2048 // BN), None, 0",
            "(BM + BN) * BK * STAGES + BM * BN < 110000", made="gluon_wgmma"),
        problem("gluon_gelu_50m", {"x": (F32, (50_000_000,), "randn"), "out": (F32, (50_000_000,), "poison")},
            {"x": None, "out": None, "n": 50_000_000}, "BLOCK=512..4096 VEC=1..8 num_warps=1..8 GRID=132..1056",
            "GRID, None, 0", made="gluon_gelu"),
        problem("numba_product_2048", {n: (F32, (2048, 2048), "randn" if n != "C" else "poison") for n in "ABC"},
            ("A", "B", "C"), "TPB=8..32 PER=1..8", "(2048 // TPB, 2048 // (TPB * PER)), (TPB, TPB), 0",
            made="numba_product"),
        problem("numba_prices_256kx96", {"draws": (F32, (96, 1 << 18), "randn"), "start": (F32, (1 << 18,), "rand"),
             "out": (F32, (1 << 18,), "poison")}, ("draws", "start", "out"), "BLOCK=32..1024 GRID=132,264,512,1024",
            "GRID, BLOCK, 0", made="numba_prices"),
        problem("warp_sampled_3000x4000", {"x": (F32, (3000, 4000), "rand"), "out": (F32, (3000, 4000), "poison")},
            ("x", "out", 0.3), "BLOCK=32..1024", "(3000, 4000), BLOCK, 0", made="warp_sampled"),
    ]  # fmt: skip
