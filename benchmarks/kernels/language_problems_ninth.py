"""The problems of `languages_ninth.py`, two shapes of each."""

from __future__ import annotations

from typing import Any

import numpy as np

from .language_problems import Problem

F16, F32, U8, I32 = "float16", "float32", "uint8", "int32"


def whole(c: dict[str, Any]) -> tuple[Any, Any, int]:
    """A program that launches itself."""
    return None, None, 0


def ninth_problems() -> list[Problem]:
    def problem(name: str, tensors: Any, *rest: Any, **more: Any) -> Problem:
        outs = tuple(each for each, (_, _, init) in tensors.items() if init in ("poison", "zero"))
        return Problem(name, tensors, outs, *rest, most=14, made="_".join(name.split("_")[:2]), **more)

    def linear(m: int, n: int, k: int) -> Problem:
        return problem(f"tilelang_linear_{m}x{n}x{k}",
            {"A": (F16, (m, k), "randn"), "B": (F16, (k, n), "randn"), "bias": (F32, (n,), "randn"),
             "C": (F16, (m, n), "poison")}, (),
            "block_M=64,128 block_N=64..256 block_K=32,64 num_stages=2,3,4 threads=128,256 swizzled=0,1", whole,
            "block_M * block_N // threads <= 128 and (block_M + block_N) * block_K * num_stages <= 98304",
            defines={"M": m, "N": n, "K": k})  # fmt: skip

    def decoding(batch: int, heads: int, seq: int, dim: int, splits: int) -> Problem:
        groups = 8
        held = (batch, seq, heads, dim)
        return problem(f"tilelang_decoding_{batch}x{heads}x{seq}x{dim}",
            {"Q": (F16, (batch, heads * groups, dim), "randn"), "K": (F16, held, "randn"), "V": (F16, held, "randn"),
             "parts": (F32, (splits, batch, heads * groups, dim), "poison"),
             "weights": (F32, (splits, batch, heads * groups), "poison")}, (),
            "block_N=32..128 num_stages=1,2,3 threads=128,256", whole,
            defines={"batch": batch, "heads": heads, "groups": groups, "seq": seq, "dim": dim,
                     "splits": splits})  # fmt: skip

    def rowsoft(rows: int, cols: int) -> Problem:
        return problem(f"tilelang_rowsoft_{rows}x{cols}",
            {"x": (F16, (rows, cols), "randn"), "out": (F16, (rows, cols), "poison")}, (),
            "block_M=1..16 block_N=256..2048 threads=64..256", whole,
            f"{cols} % block_N == 0 and 4 * threads <= block_M * block_N <= 64 * threads",
            defines={"rows": rows, "cols": cols})  # fmt: skip

    def packed(m: int, n: int, k: int) -> Problem:
        return problem(f"tilelang_packed_{m}x{n}x{k}",
            {"A": (F16, (m, k), "randn"), "B": (U8, (n, k // 2), "levels"), "C": (F16, (m, n), "poison")}, (),
            "block_M=64,128 block_N=64,128 block_K=32..128 num_stages=2,3 threads=128,256", whole,
            defines={"M": m, "N": n, "K": k})  # fmt: skip

    def heated(nx: int, ny: int, nz: int) -> Problem:
        return problem(f"numba_heated_{nx}x{ny}x{nz}",
            {"x": (F32, (nz, ny, nx), "randn"), "y": (F32, (nz, ny, nx), "zero")}, ("x", "y", np.float32(0.1)),
            "BX=16..128 BY=1..16 PER=1..8", f"(cdiv({nx}, BX), cdiv({ny}, BY), cdiv({nz}, PER)), (BX, BY), 0",
            "64 <= BX * BY <= 512")  # fmt: skip

    def dotted(name: str, n: int) -> Problem:
        return problem(f"numba_dotted_{name}",
            {"x": (F32, (n,), "rand"), "y": (F32, (n,), "rand"), "out": (F32, (1,), "zero")}, ("x", "y", "out"),
            "BLOCK=64..1024 SHUFFLE=0,1 GRID=132,528,2112", "GRID, BLOCK, 0")  # fmt: skip

    def binned(name: str, n: int, bins: int) -> Problem:
        return problem(f"numba_binned_{name}", {"x": (F32, (n,), "rand"), "out": (I32, (bins,), "zero")}, ("x", "out"),
            "BLOCK=64..1024 SHARED=0,1 GRID=132,264,1056", "GRID, BLOCK, 0", defines={"BINS": bins})  # fmt: skip

    def tiled(m: int, n: int, k: int) -> Problem:
        return problem(f"numba_tiled_{m}x{n}x{k}",
            {"A": (F32, (m, k), "randn"), "B": (F32, (k, n), "randn"), "C": (F32, (m, n), "poison")}, ("A", "B", "C"),
            "BM=32..128 BN=32..128 BK=8,16 TM=2..8 TN=2..8",
            f"({n} // BN, {m} // BM), BM // TM * (BN // TN), 0",
            "64 <= BM // TM * (BN // TN) <= 512 and TM * TN >= 8")  # fmt: skip

    def means(name: str, n: int, d: int, k: int) -> Problem:
        return problem(f"numba_means_{name}",
            {"points": (F32, (d, n), "randn"), "centres": (F32, (k, d), "randn"), "label": (I32, (n,), "poison"),
             "apart": (F32, (n,), "poison")}, ("points", "centres", "label", "apart"),
            "BLOCK=64..512 SHARED=0,1 GRID=264,1056,4096", "GRID, BLOCK, 0", defines={"D": d, "K": k})  # fmt: skip

    def near(name: str, n: int, side: int) -> Problem:
        cells = side**3
        return problem(f"warp_near_{name}",
            {"pos": (F32, (n, 3), "in_cells"), "cell": (I32, (n,), f"cell_of:{cells}"),
             "starts": (I32, (cells + 1,), f"cells:{n}"), "out": (F32, (n,), "poison")},
            ("pos", "cell", "starts", "out"), "TOGETHER=0,1 BLOCK=32..512", f"{n}, BLOCK, 0", defines={"G": side},
            values=("cell", "starts"))  # fmt: skip

    def blocks(name: str, rows: int, count: int) -> Problem:
        return problem(f"warp_blocks_{name}",
            {"starts": (I32, (rows + 1,), f"cells:{count}"), "cols": (I32, (count,), f"below:{rows}"),
             "held": (F32, (count, 3, 3), "randn"), "x": (F32, (rows, 3), "randn"), "y": (F32, (rows, 3), "poison")},
            ("starts", "cols", "held", "x", "y"), "ROWWISE=0,1 BLOCK=32..512",
            f"({rows}, 3) if ROWWISE else {rows}, BLOCK, 0", values=("starts",))  # fmt: skip

    def blurred(height: int, width: int, radius: int) -> Problem:
        return problem(f"warp_blurred_{height}x{width}",
            {"x": (F32, (height, width, 3), "rand"), "out": (F32, (height, width, 3), "poison")}, ("x", "out"),
            "PER=1,2,4 BLOCK=32..512", f"({height} // PER, {width}), BLOCK, 0", defines={"R": radius})  # fmt: skip

    def affine(m: int, n: int, k: int) -> Problem:
        return problem(f"warp_affine_{m}x{n}x{k}",
            {"A": (F32, (m, k), "randn"), "B": (F32, (k, n), "randn"), "bias": (F32, (n,), "randn"),
             "C": (F32, (m, n), "poison")}, ("A", "B", "bias", "C"), "TM=16..64 TN=16..64 TK=8..32 BLOCK=64..256",
            f"({m} // TM, {n} // TN, BLOCK), BLOCK, 0", "TM * TN >= 4 * BLOCK")  # fmt: skip

    def marched(name: str, side: int, rays: int, steps: int) -> Problem:
        return problem(f"warp_marched_{name}",
            {"x": (F32, (side, side, side), "rand"), "out": (F32, (rays, rays), "poison")}, ("x", "out", 0.9, 0.2),
            "UNROLL=1,2,4 BLOCK=32..512", f"({rays}, {rays}), BLOCK, 0", defines={"STEPS": steps})  # fmt: skip

    def attended(heads: int, seq: int) -> Problem:
        return problem(f"cutile_attended_{heads}x{seq}",
            {**{n: (F16, (heads, seq, 64), "randn") for n in "QKV"}, "Out": (F16, (heads, seq, 64), "poison")},
            {**dict.fromkeys(("Q", "K", "V", "Out")), "dim": 64},
            "rows=64..256 cols=32..128 occupancy=1,2", f"({seq} // rows, {heads}), None, 0")  # fmt: skip

    def layered(rows: int, cols: int) -> Problem:
        return problem(f"cutile_layered_{rows}x{cols}",
            {"x": (F16, (rows, cols), "randn"), "w": (F16, (cols,), "randn"), "out": (F16, (rows, cols), "poison")},
            {"x": None, "w": None, "out": None}, "rows=1..8 cols=256..4096 occupancy=1,4",
            f"{rows} // rows, None, 0", f"{cols} % cols == 0 and rows * cols <= 8192")  # fmt: skip

    def matvec(rows: int, cols: int) -> Problem:
        return problem(f"cute_matvec_{rows}x{cols}",
            {"A": (F32, (rows, cols), "randn"), "x": (F32, (cols,), "randn"), "y": (F32, (rows,), "poison")},
            {"A": None, "x": None, "y": None}, "ROWS=1..64 LANES=4..32 VEC=1..4", whole,
            "64 <= ROWS * LANES <= 512")  # fmt: skip

    return [
        linear(4096, 2048, 1024), linear(1024, 4096, 2048),
        decoding(8, 8, 8192, 128, 4), decoding(2, 4, 32_768, 64, 16),
        rowsoft(16_384, 4096), rowsoft(2048, 32_768), packed(1024, 4096, 2048), packed(256, 8192, 4096),
        heated(512, 512, 128), heated(300, 200, 400), dotted("32m", 32 << 20), dotted("3m", 3_000_000),
        binned("16mx256", 16 << 20, 256), binned("8mx4096", 8 << 20, 4096), tiled(2048, 2048, 1024),
        tiled(1024, 512, 4096), means("2mx16x32", 2 << 20, 16, 32), means("500kx8x128", 500_000, 8, 128),
        near("256kx32", 1 << 18, 32), near("200kx16", 200_000, 16), blocks("128kx2m", 1 << 17, 2_000_000),
        blocks("30kx1m", 30_000, 1_000_000), blurred(2160, 3840, 2), blurred(1024, 1024, 4),
        affine(2048, 2048, 1024), affine(512, 4096, 1024),
        marched("256", 256, 1024, 256), marched("384", 384, 1536, 96),
        attended(32, 2048), attended(8, 8192), layered(16_384, 4096), layered(4096, 8192),
        matvec(16_384, 4096), matvec(2048, 16_384),
    ]  # fmt: skip
