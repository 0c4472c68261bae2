"""The problems of `languages_eighth.cu`: of tuned codes and public samples, two shapes of each; and Gluon."""

from __future__ import annotations

from functools import partial

from .language_problems import Problem

F16, F32, U8, I32 = "float16", "float32", "uint8", "int32"
MOST = 16
BLOCK = "(block_size_x, block_size_y), 0"


def eighth_problems() -> list[Problem]:
    problem = partial(Problem, source="languages_eighth.cu", most=MOST)

    def buffered(name: str, m: int, n: int, k: int) -> Problem:
        rows, cols = "block_size_y * tile_size_y", "block_size_x * tile_size_x"
        shared = f"4 * stages * ({rows} * (tile_k + padding) + {cols} * tile_k)"
        return problem(f"cuda_buffered_{name}",
            {"c": (F32, (m, n), "poison"), "a": (F32, (m, k), "randn"), "b": (F32, (k, n), "randn")}, ("c",),
            ("c", "a", "b", n, k),
            "block_size_x=8,16,32 block_size_y=4..16 tile_size_x=4,8 tile_size_y=2..8 tile_k=8..32 "
            "stages=2,3,4 padding=0,4",
            f"({n} // ({cols}), {m} // ({rows})), (block_size_x, block_size_y), {shared}",
            f"64 <= block_size_x * block_size_y <= 256 and {shared} <= 100_000 and "
            f"32 <= {rows} and 64 <= {cols} <= 128")  # fmt: skip

    def coulomb(name: str, width: int, height: int, atoms: int) -> Problem:
        return problem(f"cuda_coulomb_{name}",
            {"out": (F32, (height, width), "poison"), "atoms": (F32, (atoms, 4), "rand")}, ("out",),
            ("out", "atoms", width, height, 0.001),
            "block_size_x=16..128 block_size_y=1..8 tile_size_x=1..8 in_shared=0,1 unroll_factor=1,2,5",
            f"(cdiv({width}, block_size_x * tile_size_x), cdiv({height}, block_size_y)), {BLOCK}",
            "64 <= block_size_x * block_size_y <= 512",
            defines={"ATOMS": atoms}, constants={"atoms": "atoms"})  # fmt: skip

    def sobel(name: str, width: int, height: int) -> Problem:
        return problem(f"cuda_sobel_{name}",
            {"out": (U8, (height, width), "poison"), "x": (U8, (height, width), "levels")}, ("out",),
            ("out", "x", width, height),
            "block_size_x=16..64 block_size_y=2..16 per_thread=1..4 use_shared=0,1 words=0,1",
            f"(cdiv({width}, block_size_x * per_thread), cdiv({height}, block_size_y)), {BLOCK}",
            "64 <= block_size_x * block_size_y <= 512 and (per_thread > 1 or not words)")  # fmt: skip

    def cumsum(name: str, rows: int, cols: int) -> Problem:
        return problem(f"cuda_cumsum_{name}",
            {"out": (F32, (rows, cols), "poison"), "x": (F32, (rows, cols), "rand")}, ("out",), ("out", "x", cols),
            "block_size_x=64..1024 per_thread=1..8 vector=1,4 scan_again=0,1", f"{rows}, block_size_x, 0",
            f"per_thread >= vector and block_size_x * per_thread <= {cols}")  # fmt: skip

    def winograd(name: str, planes: int, side: int) -> Problem:
        tiles = planes * (side // 2) ** 2
        return problem(f"cuda_winograd_{name}",
            {"out": (F32, (16 * tiles,), "poison"), "x": (F32, (planes, side, side), "randn")}, ("out",),
            ("out", "x", side, planes), "block_size_x=32..512 per_thread=1..4 in_planes=0,1",
            f"cdiv({tiles}, block_size_x * per_thread), block_size_x, 0")  # fmt: skip

    def fdtd(name: str, nx: int, ny: int, nz: int) -> Problem:
        fields = ("ex", "ey", "ez", "hx", "hy", "hz")
        return problem(f"cuda_fdtd_{name}",
            {**{f"o{f}": (F32, (nz, ny, nx), "poison") for f in fields[:3]},
             **{f: (F32, (nz, ny, nx), "randn") for f in fields}}, ("oex", "oey", "oez"),
            ("oex", "oey", "oez", *fields, nx, ny, nz, 0.5),
            "block_size_x=16..128 block_size_y=1..8 tile_size_z=1..16 keep=0,1 unroll_factor=1,4",
            f"(cdiv({nx}, block_size_x), cdiv({ny}, block_size_y), cdiv({nz}, tile_size_z)), {BLOCK}",
            "64 <= block_size_x * block_size_y <= 512")  # fmt: skip

    def asian(name: str, paths: int, steps: int) -> Problem:
        return problem(f"cuda_asian_{name}", {"partial": (F32, (1 << 16,), "zero")}, ("partial",),
            ("partial", paths, 0.0005, 0.02), "block_size_x=64..512 per_thread=1..8 fast_math=0,1 unroll_factor=1,2,4",
            f"cdiv({paths}, block_size_x * per_thread), block_size_x, 0", defines={"STEPS": steps})  # fmt: skip

    def tables(name: str, count: int, rounds: int) -> Problem:
        return problem(f"cuda_tables_{name}",
            {"out": (I32, (count, 4), "poison"), "x": (I32, (count, 4), "bits"), "table": (I32, (256,), "bits"),
             "keys": (I32, (64,), "bits")}, ("out",), ("out", "x", "table", count),
            "block_size_x=64..512 per_sm=2..16 in_shared=0,1 one_table=0,1 unroll_factor=1,2",
            "132 * per_sm, block_size_x, 0", "256 <= block_size_x * per_sm <= 2048 and in_shared + one_table > 0",
            defines={"ROUNDS": rounds}, constants={"keys": "keys"})  # fmt: skip

    def stats(name: str, images: int, channels: int, plane: int) -> Problem:
        return problem(f"cuda_stats_{name}",
            {"out": (F32, (channels, 2), "poison"), "x": (F32, (images, channels, plane), "randn")}, ("out",),
            ("out", "x", images, channels, plane), "block_size_x=64..1024 vector=1,4 welford=0,1 unroll_factor=1,2,4",
            f"{channels}, block_size_x, 0")  # fmt: skip

    def tf32(name: str, m: int, n: int, k: int) -> Problem:
        rows, cols, threads = "warps_y * frags_y * 16", "warps_x * frags_x * 16", "warps_x * warps_y * 32"
        return problem(f"cuda_tf32_{name}",
            {"c": (F32, (m, n), "poison"), "a": (F32, (m, k), "randn"), "b": (F32, (k, n), "randn")}, ("c",),
            ("c", "a", "b", n, k),
            "warps_x=1..4 warps_y=1..4 frags_x=1..4 frags_y=1..4 tile_k=16,32 padding=0,4,8",
            f"({n} // ({cols}), {m} // ({rows})), {threads}, 0",
            f"4 * ({rows} * (tile_k + padding) + ({cols} + padding) * tile_k) <= 48 << 10 and 32 <= {rows} <= 128 and "
            f"32 <= {cols} <= 128 and {threads} >= 64 and "
            f"min({rows}, {cols}) * tile_k % (4 * {threads}) == 0")  # fmt: skip

    def closest(name: str, n: int, m: int) -> Problem:
        return problem(f"cuda_closest_{name}",
            {"out": (F32, (n, 8), "poison"), "points": (F32, (n, 4), "randn"), "others": (F32, (m, 4), "randn")},
            ("out",), ("out", "points", "others", n, m),
            "block_size_x=32..512 in_shared=0,1 tile=128,256,512 guarded=0,1 unroll_factor=1,4",
            f"cdiv({n}, block_size_x), block_size_x, 0", "in_shared or tile == 128")  # fmt: skip


    def standard(rows: int, cols: int) -> Problem:
        return problem(f"gluon_standard_{rows}x{cols}",
            {"x": (F16, (rows, cols), "randn"), "w": (F16, (cols,), "randn"), "out": (F16, (rows, cols), "poison")},
            ("out",), {"x": None, "w": None, "out": None, "COLS": cols},
            "ROWS=1..8 VEC=2..8 ACROSS=1..8 num_warps=1..8",
            f"{rows} // ROWS, None, 0", f"ROWS * {cols} // num_warps <= 4096 and ACROSS <= num_warps <= ROWS * ACROSS",
            made="gluon_standard")  # fmt: skip

    def summed(rows: int, cols: int) -> Problem:
        return problem(f"gluon_summed_{rows}x{cols}",
            {"x": (F32, (rows, cols), "randn"), "out": (F32, (cols,), "poison")}, ("out",),
            {"x": None, "out": None, "rows": rows, "COLS": cols}, "DEEP=8..64 WIDE=8..128 VEC=1..4 num_warps=1..8",
            f"{cols} // WIDE, None, 0", "512 <= DEEP * WIDE <= 64 * 32 * num_warps and VEC <= WIDE // 8",
            made="gluon_summed")  # fmt: skip

    def mma(m: int, n: int, k: int) -> Problem:
        return problem(f"gluon_mma_{m}x{n}x{k}",
            {"a": (F16, (m, k), "randn"), "b": (F16, (k, n), "randn"), "c": (F16, (m, n), "poison")}, ("c",),
            {"a": None, "b": None, "c": None, "N": n, "K": k}, "BM=32..128 BN=32..128 BK=32,64 num_warps=4,8",
            f"({n} // BN, {m} // BM), None, 0", "BM * BN <= 64 * 32 * num_warps", made="gluon_mma")  # fmt: skip

    return [
        buffered("2048x2048x1024", 2048, 2048, 1024), buffered("4096x1024x2048", 4096, 1024, 2048),
        coulomb("1024x1024x2000", 1024, 1024, 2000), coulomb("3000x700x1000", 3000, 700, 1000),
        sobel("8192x8192", 8192, 8192), sobel("3840x2160", 3840, 2160),
        cumsum("8192x4096", 8192, 4096), cumsum("600x60000", 600, 60_000),
        winograd("512x112", 512, 112), winograd("2048x28", 2048, 28),
        fdtd("256x256x256", 256, 256, 256), fdtd("400x200x150", 400, 200, 150),
        asian("1mx64", 1 << 20, 64), asian("200kx252", 200_000, 252),
        tables("4mx10", 4_000_000, 10), tables("1mx14", 1_000_000, 14),
        stats("32x256x3136", 32, 256, 3136), stats("16x1000x784", 16, 1000, 784),
        tf32("4096x4096x1024", 4096, 4096, 1024), tf32("2048x1024x4096", 2048, 1024, 4096),
        closest("100kx4096", 100_000, 4096), closest("16kx16k", 16_384, 16_384),
        standard(16_384, 4096), standard(65_536, 1024), summed(8192, 8192), summed(65_536, 2048),
        mma(4096, 4096, 1024), mma(1024, 2048, 4096),
    ]  # fmt: skip
