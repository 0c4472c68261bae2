"""The problems of `languages_eleventh.cu` and `languages_eleventh.py`, two shapes of each."""

from __future__ import annotations

from typing import Any

from .language_problems import Problem
from .language_problems_ninth import F16, F32, I32, U8, whole


def eleventh_problems() -> list[Problem]:
    def problem(name: str, tensors: Any, *rest: Any, **more: Any) -> Problem:
        outs = tuple(each for each, (_, _, init) in tensors.items() if init in ("poison", "zero"))
        made = "" if name.startswith("cuda_") else "_".join(name.split("_")[:2])
        most = 8 if made.startswith("tilelang") else 10
        return Problem(name, tensors, outs, *rest, most=most, made=made, source="languages_eleventh.cu", **more)

    def splitk(m: int, n: int, k: int) -> Problem:
        return problem(f"cuda_splitk_{m}x{n}x{k}",
            {"C": (F32, (m, n), "zero"), "A": (F32, (m, k), "randn"), "B": (F32, (k, n), "randn")},
            ("C", "A", "B", n, k), "BM=32..128 BN=32..128 BK=8,16 TM=4,8 TN=4,8 SPLIT=1..16",
            f"({n} // BN, {m} // BM, SPLIT), BM // TM * (BN // TN), 0",
            "64 <= BM // TM * (BN // TN) <= 256 and BM * BK % (BM // TM * (BN // TN) * 4) == 0")  # fmt: skip

    def volumes(side: int, cin: int, cout: int) -> Problem:
        return problem(f"cuda_volumes_{side}x{cin}x{cout}",
            {"out": (F32, (cout, side, side, side), "poison"), "x": (F32, (cin, *[side + 2] * 3), "randn"),
             "w": (F32, (cout, cin, 3, 3, 3), "randn")}, ("out", "x", "w", side),
            "BX=16,32 BY=2..16 PER=1..8 STAGED=0,1",
            f"({side} // BX, {side} // BY, {side * cout} // PER), (BX, BY), 0", "BX * BY >= 64",
            defines={"CIN": cin, "COUT": cout}, constants={"taps": "w"})  # fmt: skip

    def netsort(name: str, rows: int, per: int) -> Problem:
        return problem(f"cuda_netsort_{name}",
            {"out": (I32, (rows, 32 * per), "poison"), "x": (I32, (rows, 32 * per), "bits")}, ("out", "x", rows),
            "WARPS=1..16 CHUNKED=0,1 turns=1,4,16", f"{rows} // (WARPS * turns), WARPS * 32, 0",
            defines={"PER": per})  # fmt: skip

    def sliced(name: str, rows: int, mean: int) -> Problem:
        slices = rows // 32
        held = (slices * mean * 32,)
        return problem(f"cuda_sliced_{name}",
            {"y": (F32, (rows,), "poison"), "starts": (I32, (slices + 1,), f"cells:{slices * mean}"),
             "cols": (I32, held, f"below:{rows}"), "held": (F32, held, "randn"), "x": (F32, (rows,), "randn")},
            ("y", "starts", "cols", "held", "x"), "BLOCK=64..512 PARTS=1..8 UNROLL=1..4",
            f"{rows} // (BLOCK // PARTS), BLOCK, 0", "PARTS * 32 <= BLOCK", values=("starts", "cols"))  # fmt: skip

    def fftcols(width: int, batch: int) -> Problem:
        held = (batch, 256, width, 2)
        return problem(f"cuda_fftcols_{width}x{batch}",
            {"out": (F32, held, "poison"), "x": (F32, held, "randn")}, ("out", "x", width),
            "COLS=4..32 THREADS=16,64 PAD=0,1",
            f"({width} // COLS, {batch}), (COLS, THREADS), 256 * (COLS + PAD) * 8",
            "64 <= COLS * THREADS <= 1024")  # fmt: skip

    def redblack(nx: int, ny: int, nz: int) -> Problem:
        held = (nz, ny, nx)
        return problem(f"cuda_redblack_{nx}x{ny}x{nz}",
            {"out": (F32, held, "zero"), "x": (F32, held, "randn"), "f": (F32, held, "randn")},
            ("out", "x", "f", nx, ny, nz, 1.5), "BX=32..128 BY=1..8 PER=1..16 HALVED=0,1 UNROLL=1,2",
            f"(cdiv({nx} - 2, BX * (1 + HALVED)), cdiv({ny} - 2, BY), cdiv({nz} - 2, PER)), (BX, BY), 0",
            "64 <= BX * BY <= 512")  # fmt: skip

    def gram(n: int, dim: int) -> Problem:
        return problem(f"cuda_gram_{n}x{dim}",
            {"G": (F32, (dim, dim), "zero"), "X": (F32, (n, dim), "randn")}, ("G", "X", n),
            "T=2..8 ROWS=16..64 DEEP=256,1024,4096", f"{n} // DEEP, ({dim} // T)**2, 0",
            f"64 <= ({dim} // T)**2 <= 1024", defines={"D": dim})  # fmt: skip

    def recurred(rows: int, length: int) -> Problem:
        return problem(f"cuda_recurred_{rows}x{length}",
            {"out": (F32, (rows, length), "poison"), "a": (F32, (rows, length), "rand"),
             "b": (F32, (rows, length), "randn")}, ("out", "a", "b", length), "WARPS=1..8 ITEMS=4..16 VEC=1,4",
            f"{rows} // WARPS, WARPS * 32, 0")  # fmt: skip

    def dilated(width: int, height: int, radius: int) -> Problem:
        return problem(f"cuda_dilated_{width}x{height}",
            {"out": (U8, (height, width), "poison"), "x": (U8, (height, width), "levels")},
            ("out", "x", width // 4, height), "BX=32..256 BY=1..8 PER=1..8 STAGED=0,1",
            f"({width // 4} // BX, {height} // (BY * PER)), (BX, BY), 0", "64 <= BX * BY <= 512",
            defines={"R": radius})  # fmt: skip

    def blockquant(rows: int, cols: int) -> Problem:
        return problem(f"cuda_blockquant_{rows}x{cols}",
            {"out": (U8, (rows, cols), "poison"), "scale": (F32, (rows // 128, cols // 128), "poison"),
             "x": (F16, (rows, cols), "randn")}, ("out", "scale", "x", cols), "BLOCK=64..512 VEC=2..8 KEPT=0,1",
            f"({cols // 128}, {rows // 128}), BLOCK, 0")  # fmt: skip

    def normback(rows: int, cols: int) -> Problem:
        return problem(f"cuda_normback_{rows}x{cols}",
            {"dx": (F16, (rows, cols), "poison"), "dy": (F16, (rows, cols), "randn"), "x": (F16, (rows, cols), "randn"),
             "gamma": (F32, (cols,), "rand"), "mean": (F32, (rows,), "rand"), "over": (F32, (rows,), "rand")},
            ("dx", "dy", "x", "gamma", "mean", "over"), "ROWS=1..4 WARPS=1..8 VEC=2..8 KEPT=0,1",
            f"{rows} // ROWS, ROWS * WARPS * 32, 0", f"ROWS * WARPS <= 16 and {cols} % (WARPS * 32 * VEC) == 0",
            defines={"COLS": cols})  # fmt: skip

    def windowed(heads: int, seq: int, dim: int, window: int) -> Problem:
        shape = (heads, seq, dim)
        return problem(f"tilelang_windowed_{heads}x{seq}x{dim}",
            {**{name: (F16, shape, "randn") for name in "QKV"}, "Out": (F16, shape, "poison")}, (),
            "block_M=64,128 block_N=32..128 num_stages=1,2,3 threads=128,256", whole,
            defines={"heads": heads, "seq": seq, "dim": dim, "window": window})  # fmt: skip

    def outer(m: int, n: int, k: int) -> Problem:
        return problem(f"tilelang_outer_{m}x{n}x{k}",
            {"A": (F16, (k, m), "randn"), "B": (F16, (k, n), "randn"), "C": (F32, (m, n), "poison")}, (),
            "block_M=64,128 block_N=64..256 block_K=32,64 num_stages=2,3,4 threads=128,256", whole,
            "block_M * block_N // threads <= 128 and (block_M + block_N) * block_K * num_stages <= 98304",
            defines={"M": m, "N": n, "K": k})  # fmt: skip

    def masked(height: int, width: int, radius: int) -> Problem:
        wide, deep = width + 2 * radius, height + 2 * radius
        return problem(f"numba_masked_{height}x{width}",
            {"x": (F32, (deep, wide), "randn"), "w": (F32, (2 * radius + 1,) * 2, "randn"),
             "out": (F32, (height, width), "poison")}, ("x", "w", "out"),
            "BX=16..128 BY=1..16 PER=1..4 STAGED=0,1", f"({width} // BX, {height} // (BY * PER)), (BX, BY), 0",
            "64 <= BX * BY <= 512", defines={"R": radius})  # fmt: skip

    def prefix(rows: int, cols: int) -> Problem:
        return problem(f"numba_prefix_{rows}x{cols}",
            {"x": (F32, (rows, cols), "rand"), "out": (F32, (rows, cols), "poison")}, ("x", "out"),
            "BLOCK=32..512 ITEMS=1..16", f"{rows}, BLOCK, 0", f"BLOCK * ITEMS <= {cols}",
            defines={"COLS": cols})  # fmt: skip

    def flowed(name: str, height: int, width: int) -> Problem:
        """Numbers of a speed in planes, or nine of a cell together: as their array's shape says."""
        def tensors(c: dict[str, Any]) -> tuple[Any, ...]:
            return ("xp", "outp", 1.2) if c["PLANES"] else ("xc", "outc", 1.2)

        planes, cells = (9, height, width), (height, width, 9)
        return problem(f"warp_flowed_{name}",
            {"xp": (F32, planes, "rand"), "outp": (F32, planes, "poison"), "xc": (F32, cells, "rand"),
             "outc": (F32, cells, "poison")}, tensors, "PLANES=0,1 ROWWISE=0,1 BLOCK=64..512",
            f"({height}, {width}) if ROWWISE else ({width}, {height}), BLOCK, 0")  # fmt: skip

    def deposited(name: str, n: int, side: int) -> Problem:
        return problem(f"warp_deposited_{name}",
            {"pos": (F32, (n, 3), "rand"), "cell": (I32, (n,), f"cell_of:{side**3}"),
             "grid": (F32, (side + 1,) * 3, "zero")}, ("pos", "cell", "grid"), "PER=1,2,4 BLOCK=32..512",
            f"{n} // PER, BLOCK, 0", values=("cell",))  # fmt: skip

    def summed(rows: int, cols: int) -> Problem:
        return problem(f"cutile_summed_{rows}x{cols}",
            {"x": (F16, (rows, cols), "randn"), "out": (F32, (rows, 1), "poison")}, {"x": None, "out": None},
            "rows=1..8 cols=256..4096 occupancy=1,4", f"{rows} // rows, None, 0",
            f"{cols} % cols == 0 and rows * cols <= 8192")  # fmt: skip

    def smoothed(height: int, width: int) -> Problem:
        return problem(f"cute_smoothed_{height}x{width}",
            {"A": (F32, (height + 8, width + 8), "randn"), "B": (F32, (height, width), "poison")},
            {"A": None, "B": None}, "BX=32..128 BY=1..8 PER=1..8 STAGED=0,1", whole,
            "64 <= BX * BY <= 512")  # fmt: skip

    return [
        splitk(512, 512, 8192), splitk(1024, 256, 4096), volumes(96, 8, 16), volumes(64, 16, 32),
        netsort("128kx128", 1 << 17, 4), netsort("32kx512", 1 << 15, 16), sliced("512kx16", 1 << 19, 16),
        sliced("64kx64", 1 << 16, 64), fftcols(4096, 8), fftcols(1024, 8), redblack(514, 386, 130),
        redblack(258, 258, 258), gram(1 << 19, 64), gram(1 << 20, 32), recurred(8192, 4096), recurred(2048, 8192),
        dilated(8192, 4096, 2), dilated(2048, 2048, 4), blockquant(8192, 8192), blockquant(2048, 7168),
        normback(16_384, 4096), normback(8192, 1536), windowed(32, 4096, 128, 1024), windowed(64, 2048, 64, 256),
        outer(2048, 2048, 4096), outer(1024, 4096, 1024), masked(4096, 4096, 3), masked(1024, 1920, 6),
        prefix(8192, 4096), prefix(1024, 16_384), flowed("2048", 2048, 2048), flowed("1000x1600", 1000, 1600),
        deposited("2m", 1 << 21, 64), deposited("1m", 1 << 20, 100), summed(8192, 16_384), summed(2048, 32_768),
        smoothed(4096, 8192), smoothed(2048, 2048),
    ]  # fmt: skip
