"""The problems of `languages_fourteenth.cu` and `languages_fourteenth.py`, two shapes of each."""

from __future__ import annotations

from typing import Any

from .language_problems import Problem
from .language_problems_ninth import F16, F32, I32, U8, whole

BF16 = "bfloat16"


def fourteenth_problems() -> list[Problem]:
    def problem(name: str, tensors: Any, *rest: Any, **more: Any) -> Problem:
        outs = tuple(each for each, (_, _, init) in tensors.items() if init in ("poison", "zero"))
        made = "" if name.startswith("cuda_") else "_".join(name.split("_")[:2])
        most = 6 if made.startswith("tilelang") else 8
        return Problem(name, tensors, outs, *rest, most=most, made=made, source="languages_fourteenth.cu", **more)

    def linear(m: int, n: int, k: int) -> Problem:
        ring = "STAGES * (WM * FM * 16 + WN * FN * 8) * (BK + 8) * 2"
        return problem(f"cuda_linear_{m}x{n}x{k}",
            {"C": (BF16, (m, n), "poison"), "A": (BF16, (m, k), "randn"), "B": (BF16, (n, k), "randn"),
             "bias": (F32, (n,), "randn"), "R": (BF16, (m, n), "randn")}, ("C", "A", "B", "bias", "R", n, k),
            "WM=1,2,4 WN=1,2,4 FM=2,4 FN=4,8 BK=32,64 STAGES=2,3,4",
            f"({n} // (WN * FN * 8), {m} // (WM * FM * 16)), WM * WN * 32, {ring}",
            f"{ring} < 220000 and 4 <= WM * WN <= 8 and 64 <= WN * FN * 8 <= 256 and 64 <= WM * FM * 16")  # fmt: skip

    def conv3d(cin: int, cout: int, deep: int, height: int, width: int) -> Problem:
        return problem(f"cuda_conv3d_{cin}x{cout}x{deep}x{height}x{width}",
            {"out": (F32, (cout, deep, height, width), "poison"),
             "x": (F32, (cin, deep + 2, height + 2, width + 2), "randn"), "w": (F32, (cout, cin * 27), "randn")},
            ("out", "x", "w", width, height, deep), "BX=8..64 BY=4..16 PER=1,2,4 OWN=1..8 UNROLL=1,3",
            f"({width} // (BX * PER), {height} // BY, {deep} * ({cout} // OWN)), (BX, BY), 0",
            f"64 <= BX * BY <= 512 and PER * OWN <= 16 and {width} % (BX * PER) == 0 and {height} % BY == 0",
            defines={"CIN": cin, "COUT": cout})  # fmt: skip

    def peaks(rows: int, cols: int) -> Problem:
        return problem(f"cuda_peaks_{rows}x{cols}",
            {"best": (F32, (rows,), "poison"), "where": (I32, (rows,), "poison"), "x": (F16, (rows, cols), "randn")},
            ("best", "where", "x", cols), "BLOCK=32..1024 VEC=1..8 UNROLL=1,4", f"{rows}, BLOCK, 0")  # fmt: skip

    def headed(name: str, n: int) -> Problem:
        return problem(f"cuda_headed_{name}",
            {"out": (F32, (n,), "poison"), "x": (F32, (n,), "rand"), "heads": (U8, (n,), "heads")},
            ("out", "x", "heads"), "BLOCK=64..512 ITEMS=1..16 STAGED=0,1",
            f"{n} // (BLOCK * ITEMS), BLOCK, 0")  # fmt: skip

    def joint(name: str, words: int, bins: int) -> Problem:
        return problem(f"cuda_joint_{name}",
            {"out": (I32, (bins, bins), "zero"), "one": (I32, (words,), "bits"), "two": (I32, (words,), "bits")},
            ("out", "one", "two", words), "BLOCK=128..1024 COPIES=1..8 PER_SM=1..8 UNROLL=1,4",
            "132 * PER_SM, BLOCK, 0",
            f"COPIES * {bins}**2 * 4 <= 48 << 10 and PER_SM * COPIES * {bins}**2 * 4 <= 200000 "
            "and 512 <= PER_SM * BLOCK <= 2048 and COPIES <= BLOCK // 32", defines={"BINS": bins})  # fmt: skip

    def blockrows(rows: int, blocks: int, cols: int) -> Problem:
        return problem(f"cuda_blockrows_{rows}x{blocks}x{cols}",
            {"out": (F32, (rows * 32, cols), "poison"), "starts": (I32, (rows + 1,), f"cells:{blocks}"),
             "cols": (I32, (blocks,), f"below:{rows}"), "held": (F16, (blocks, 32, 32), "randn"),
             "x": (F16, (rows * 32, cols), "randn")}, ("out", "starts", "cols", "held", "x"),
            "WARPS=1,2,4 FN=1,2,4 UNROLL=1,2", f"({cols} // (WARPS * FN * 16), {rows}), WARPS * 64, 0",
            f"{cols} % (WARPS * FN * 16) == 0", defines={"COLS": cols}, values=("starts", "cols"))  # fmt: skip

    def shallow(width: int, height: int) -> Problem:
        return problem(f"cuda_shallow_{width}x{height}",
            {"out": (F32, (3, height, width), "poison"), "in": (F32, (3, height + 2, width + 2), "above")},
            ("out", "in", width, height, 0.1), "BX=16..128 BY=2..16 PER=1..8 TILED=0,1",
            f"({width} // BX, {height} // (BY * PER)), (BX, BY), 0",
            f"64 <= BX * BY <= 512 and {height} % (BY * PER) == 0 and (BX + 2) * (BY * PER + 2) <= 4000")  # fmt: skip

    def glued(m: int, n: int, k: int) -> Problem:
        return problem(f"tilelang_glued_{m}x{n}x{k}",
            {"A": (F16, (m, k), "randn"), "G": (F16, (n, k), "randn"), "U": (F16, (n, k), "randn"),
             "C": (F16, (m, n), "poison")}, (),
            "block_M=64,128 block_N=64,128 block_K=32,64 num_stages=2,3,4 threads=128,256", whole,
            "block_M * block_N // threads <= 64 and (block_M + 2 * block_N) * block_K * num_stages <= 98304",
            defines={"M": m, "N": n, "K": k})  # fmt: skip

    def attending(heads: int, seq: int, dim: int) -> Problem:
        shape = (seq, heads, dim)
        return problem(f"tilelang_attending_{heads}x{seq}x{dim}",
            {"Q": (BF16, shape, "randn"), "K": (BF16, shape, "randn"), "V": (BF16, shape, "randn"),
             "Out": (BF16, shape, "poison")}, (), "block_M=64,128 block_N=32..128 num_stages=1,2,3 threads=128,256",
            whole, "block_M * 2 >= threads", defines={"heads": heads, "seq": seq, "dim": dim})  # fmt: skip

    def grouped(m: int, n: int, k: int, group: int) -> Problem:
        return problem(f"tilelang_grouped_{m}x{n}x{k}",
            {"A": (F16, (m, k), "randn"), "B": ("int8", (n, k), "small"), "scales": (F16, (n, k // group), "rand"),
             "C": (F16, (m, n), "poison")}, (),
            "block_M=16..128 block_N=64,128 block_K=32..128 num_stages=2,3,4 threads=128,256", whole,
            f"block_M <= {m} and (block_M + 2 * block_N) * block_K * num_stages <= 98304 and block_K <= {group}",
            defines={"M": m, "N": n, "K": k, "group": group})  # fmt: skip

    def parted(m: int, n: int, k: int) -> Problem:
        return problem(f"tilelang_parted_{m}x{n}x{k}",
            {"A": (F16, (m, k), "randn"), "B": (F16, (k, n), "randn"), "C": (F32, (m, n), "zero")}, (),
            "parts=1..16 block_M=64,128 block_N=64,128 block_K=32,64 num_stages=2,3,4 threads=128,256", whole,
            f"block_M <= {m} and block_M * block_N // threads <= 128", defines={"M": m, "N": n, "K": k})  # fmt: skip

    def rows(n: int, nz: int, wide: int) -> Problem:
        return problem(f"numba_rows_{n}x{nz}",
            {"starts": (I32, (n + 1,), f"cells:{nz}"), "cols": (I32, (nz,), f"below:{wide}"),
             "held": (F32, (nz,), "randn"), "x": (F32, (wide,), "randn"), "out": (F32, (n,), "poison")},
            ("starts", "cols", "held", "x", "out"), "BLOCK=64..512 LANES=1..32", f"{n} * LANES // BLOCK, BLOCK, 0",
            f"{n} * LANES % BLOCK == 0", values=("starts", "cols"))  # fmt: skip

    def fir(signals: int, n: int, taps: int) -> Problem:
        return problem(f"numba_fir_{signals}x{n}x{taps}",
            {"x": (F32, (signals, n + taps - 1), "randn"), "taps": (F32, (taps,), "randn"),
             "out": (F32, (signals, n), "poison")}, ("x", "taps", "out"), "BLOCK=32..512 PER=1..8 STAGED=0,1",
            f"({n} // (BLOCK * PER), {signals}), BLOCK, 0", "BLOCK * PER <= 4096", defines={"TAPS": taps})  # fmt: skip

    def waved(deep: int, height: int, width: int) -> Problem:
        held = (deep + 4, height + 4, width + 4)
        return problem(f"warp_waved_{deep}x{height}x{width}",
            {"u": (F32, held, "randn"), "before": (F32, held, "randn"), "speed": (F32, held, "rand"),
             "out": (F32, held, "zero")}, ("u", "before", "speed", "out"), "BLOCK=32..512 PER=1..8",
            f"({deep} // PER, {height}, {width}), BLOCK, 0")  # fmt: skip

    def rowed(n: int, cols: int) -> Problem:
        return problem(f"warp_rowed_{n}x{cols}",
            {"x": (F32, (n, cols), "rand"), "sums": (F32, (n,), "poison"), "squares": (F32, (n,), "poison")},
            ("x", "sums", "squares"), "TILE=128..2048 BLOCK=32..256", f"({n}, BLOCK), BLOCK, 0",
            "BLOCK <= TILE <= 16 * BLOCK", defines={"COLS": cols})  # fmt: skip

    def softened(n: int, cols: int) -> Problem:
        return problem(f"gluon_softened_{n}x{cols}",
            {"x": (F16, (n, cols), "randn"), "bias": (F32, (cols,), "randn"), "out": (F16, (n, cols), "poison")},
            ("x", "bias", "out"), "ROWS=1..8 VEC=1..8 ACROSS=1,2,4 num_warps=1..8", f"{n} // ROWS, None, 0",
            f"ACROSS <= num_warps and ROWS >= num_warps // ACROSS and {cols} >= 32 * VEC * ACROSS "
            f"and ROWS * {cols} // num_warps <= 4096", defines={"COLS": cols})  # fmt: skip

    def turned(height: int, width: int) -> Problem:
        return problem(f"gluon_turned_{height}x{width}",
            {"x": (F16, (height, width), "randn"), "out": (F16, (width, height), "poison")}, ("x", "out"),
            "ROWS=16..128 COLS=16..128 VEC=1..8 num_warps=1..8", f"({width} // COLS, {height} // ROWS), None, 0",
            "512 <= ROWS * COLS <= 8192 and ROWS * COLS >= num_warps * 32 * VEC",
            defines={"HEIGHT": height, "WIDTH": width})  # fmt: skip

    def gated(m: int, n: int, k: int) -> Problem:
        return problem(f"cutile_gated_{m}x{n}x{k}",
            {"a": (F16, (m, k), "randn"), "g": (F16, (k, n), "randn"), "u": (F16, (k, n), "randn"),
             "c": (F16, (m, n), "poison")}, {"a": None, "g": None, "u": None, "c": None},
            "rows=64,128 cols=32..128 depth=32,64 occupancy=1,2", f"({m} // rows, {n} // cols), None, 0")  # fmt: skip

    def lost(n: int, cols: int) -> Problem:
        return problem(f"cutile_lost_{n}x{cols}",
            {"x": (F16, (n, cols), "randn"), "out": (F32, (n, 1), "poison")}, {"x": None, "out": None},
            "rows=1..8 cols=512..4096 occupancy=1..8", f"{n} // rows, None, 0", "rows * cols <= 8192")  # fmt: skip

    def softmaxed(n: int, cols: int) -> Problem:
        return problem(f"cute_softmaxed_{n}x{cols}",
            {"A": (F32, (n, cols), "randn"), "B": (F32, (n, cols), "poison")}, {"A": None, "B": None},
            "ROWS=1..16 LANES=8..32 VEC=1..4", whole, "64 <= ROWS * LANES <= 512", defines={"COLS": cols})  # fmt: skip

    def mixed(n: int, cols: int) -> Problem:
        return problem(f"cute_mixed_{n}x{cols}",
            {"A": (F16, (n, cols), "randn"), "R": (F16, (n, cols), "randn"), "bias": (F32, (1, cols), "randn"),
             "B": (F16, (n, cols), "poison")}, {"A": None, "R": None, "bias": None, "B": None},
            "THREADS=32..512 ROWS=1..8 VEC=1..8", whole, f"{cols} % (THREADS * VEC) == 0",
            defines={"COLS": cols})  # fmt: skip

    return [
        linear(4096, 4096, 1024), linear(1024, 2048, 4096), conv3d(16, 32, 32, 64, 64), conv3d(4, 16, 64, 128, 128),
        peaks(8192, 32_768), peaks(32_768, 2048), headed("32m", 1 << 25), headed("2m", 1 << 21),
        joint("32m", 1 << 23, 64), joint("4m", 1 << 20, 32), blockrows(512, 16_384, 512), blockrows(2048, 32_768, 128),
        shallow(4096, 4096), shallow(1024, 768), glued(4096, 4096, 2048), glued(1024, 2816, 1024),
        attending(16, 4096, 64), attending(8, 2048, 128), grouped(2048, 4096, 4096, 128), grouped(64, 8192, 4096, 128),
        parted(128, 1024, 16_384), parted(512, 2048, 8192), rows(262_144, 4_194_304, 262_144),
        rows(65_536, 6_553_600, 1 << 20), fir(64, 1 << 18, 31), fir(1024, 4096, 63), waved(128, 256, 512),
        waved(64, 96, 96), rowed(8192, 8192), rowed(1024, 32_768), softened(16_384, 2048), softened(65_536, 256),
        turned(8192, 4096), turned(2048, 1024), gated(4096, 2048, 2048), gated(1024, 4096, 1024), lost(4096, 32_768),
        lost(16_384, 4096), softmaxed(16_384, 2048), softmaxed(2048, 4096), mixed(8192, 4096), mixed(2048, 2048),
    ]  # fmt: skip
