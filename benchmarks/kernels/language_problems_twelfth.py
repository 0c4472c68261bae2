"""The problems of `languages_twelfth.cu` and `languages_twelfth.py`, two shapes of each."""

from __future__ import annotations

from typing import Any

from .language_problems import Problem
from .language_problems_ninth import F16, F32, I32, whole


def twelfth_problems() -> list[Problem]:
    def problem(name: str, tensors: Any, *rest: Any, **more: Any) -> Problem:
        outs = tuple(each for each, (_, _, init) in tensors.items() if init in ("poison", "zero"))
        made = "" if name.startswith("cuda_") else "_".join(name.split("_")[:2])
        most = 8 if made.startswith("tilelang") else 10
        return Problem(name, tensors, outs, *rest, most=most, made=made, source="languages_twelfth.cu", **more)

    ring = "STAGES * (WM * FM + WN * FN) * 16 * (BK + 8) * 2"

    def implicit(n: int, side: int, cin: int, cout: int) -> Problem:
        return problem(f"cuda_implicit_{n}x{side}x{cin}x{cout}",
            {"out": (F16, (n, side, side, cout), "poison"), "x": (F16, (n, side + 2, side + 2, cin), "randn"),
             "w": (F16, (cout, 3, 3, cin), "randn")}, ("out", "x", "w", side, cin, cout),
            "WM=2,4 WN=1,2 FM=2,4 FN=1..4 BK=32,64 STAGES=2,3,4",
            f"({n * side * side} // (WM * FM * 16), {cout} // (WN * FN * 16)), WM * WN * 32, {ring}",
            f"{ring} < 220000 and FM * FN <= 8 and {cout} % (WN * FN * 16) == 0")  # fmt: skip

    def special(m: int, n: int, k: int) -> Problem:
        return problem(f"cuda_special_{m}x{n}x{k}",
            {"C": (F16, (m, n), "poison"), "A": (F16, (m, k), "randn"), "B": (F16, (n, k), "randn")},
            ("C", "A", "B", m, n, k), "WM=2,4 WN=1,2 FM=2,4 FN=2,4 BK=32,64 STAGES=2..8 PRODUCERS=1,2,4 PER_SM=1,2",
            f"132 * PER_SM, (WM * WN + PRODUCERS) * 32, {ring}",
            f"{ring} * PER_SM < 220000 and FM * FN <= 8")  # fmt: skip

    def bytekeys(heads: int, seq: int) -> Problem:
        return problem(f"cuda_bytekeys_{heads}x{seq}",
            {"out": (F32, (heads, 128), "poison"), "q": (I32, (heads, 32), "bits"),
             "k": (I32, (heads, seq, 32), "bits"), "v": (F16, (heads, seq, 128), "randn"),
             "scales": (F32, (heads, seq), "rand")},
            ("out", "q", "k", "v", "scales", seq), "WARPS=1..8 LANES=4,8,16 PER=1..4",
            f"{heads}, WARPS * 32, 0")  # fmt: skip

    def inverted(order: int, count: int) -> Problem:
        held = (count, order, order)
        return problem(f"cuda_inverted_{order}x{count}",
            {"out": (F32, held, "poison"), "a": (F32, held, "randn")}, ("out", "a", count, 2.5 * order),
            "BLOCK=32..256 SHARED=0,1 turns=1,4", f"cdiv({count}, BLOCK // {order} * turns), BLOCK, 0",
            defines={"ORDER": order})  # fmt: skip

    def largest(rows: int, cols: int) -> Problem:
        return problem(f"cuda_largest_{rows}x{cols}",
            {"out": (F32, (rows, 32), "poison"), "x": (F32, (rows, cols), "randn")}, ("out", "x", cols),
            "ROWS=1..8 PARTS=1..8 VEC=1..4", f"{rows} // ROWS, ROWS * PARTS * 32, 0",
            f"ROWS * PARTS <= 16 and {cols} % (PARTS * 32 * VEC) == 0")  # fmt: skip

    def distances(n: int) -> Problem:
        return problem(f"cuda_distances_{n}",
            {"counts": (I32, (256,), "zero"), "pos": (F32, (n, 4), "rand")}, ("counts", "pos", n),
            "BLOCK=64..512 PER=1..4 COPIES=1..16 PARTS=1,4,16", f"({n} // (BLOCK * PER), PARTS), BLOCK, 0",
            f"COPIES <= BLOCK // 32 and {n} // PARTS % BLOCK == 0")  # fmt: skip

    def blocked(name: str, rows: int, cols: int, blocks: int, n: int) -> Problem:
        return problem(f"cuda_blocked_{name}",
            {"C": (F32, (rows, n), "poison"), "starts": (I32, (rows // 16 + 1,), f"cells:{blocks}"),
             "cols": (I32, (blocks,), f"below:{cols // 16}"), "held": (F16, (blocks, 16, 16), "randn"),
             "B": (F16, (cols, n), "randn")}, ("C", "starts", "cols", "held", "B", n), "WARPS=1..8 NT=2..16",
            f"({n} // (NT * 8), {rows // 16} // WARPS), WARPS * 32, 0", f"{n} % (NT * 8) == 0 and WARPS * NT <= 64",
            values=("starts", "cols"))  # fmt: skip

    def bucketed(name: str, n: int, room: int) -> Problem:
        return problem(f"cuda_bucketed_{name}",
            {"out": (I32, (256, room), "poison"), "heads": (I32, (256,), "zero"), "x": (I32, (n,), f"below:{1 << 30}")},
            ("out", "heads", "x", room), "BLOCK=64..512 ITEMS=2..16 STAGED=0,1", f"{n} // (BLOCK * ITEMS), BLOCK, 0",
            "BLOCK * ITEMS <= 4096")  # fmt: skip

    def wkv(batch: int, heads: int, steps: int) -> Problem:
        held = (batch, steps, heads, 64)
        return problem(f"cuda_wkv_{batch}x{heads}x{steps}",
            {"out": (F32, held, "poison"), "r": (F32, held, "randn"), "k": (F32, held, "randn"),
             "w": (F32, held, "rand"), "v": (F32, held, "randn"), "u": (F32, (heads, 64), "randn")},
            ("out", "r", "k", "w", "v", "u", steps, heads), "PARTS=1..8 CHUNK=1..16",
            f"{batch * heads}, 64 * PARTS, 0")  # fmt: skip

    def ntt(order: int, batch: int) -> Problem:
        return problem(f"cuda_ntt_{order}x{batch}",
            {"out": (I32, (batch, order), "poison"), "x": (I32, (batch, order), "below:998244353"),
             "roots": (I32, (order,), "below:998244353")}, ("out", "x", "roots"),
            "THREADS=64..512 TABLED=0,1 UNROLL=1..4", f"{batch}, THREADS, 0", defines={"N": order})  # fmt: skip

    def groupnorm(images: int, side: int, channels: int) -> Problem:
        held = (images, side * side, channels)
        return problem(f"cuda_groupnorm_{images}x{side}x{channels}",
            {"out": (F16, held, "poison"), "x": (F16, held, "randn"), "gamma": (F32, (channels,), "rand"),
             "beta": (F32, (channels,), "randn")}, ("out", "x", "gamma", "beta", side * side, channels),
            "BLOCK=64..1024 VEC=1,2 UNROLL=1..4", f"(32, {images}), BLOCK, 0",
            defines={"GROUP": channels // 32})  # fmt: skip

    def pushed(name: str, n: int, cells: int) -> Problem:
        return problem(f"cuda_pushed_{name}",
            {"out": (F32, (6 * n,), "poison"), "p": (F32, (6 * n,), "randn"), "E": (F32, (cells, 4), "randn"),
             "B": (F32, (cells, 4), "randn"), "cell": (I32, (n,), f"cell_of:{cells}")},
            ("out", "p", "E", "B", "cell", n, 0.1), "BLOCK=64..512 PER=1..4 LAYOUT=0,1,2",
            f"{n} // (BLOCK * PER), BLOCK, 0", values=("cell",))  # fmt: skip

    def batched(batch: int, m: int, n: int, k: int) -> Problem:
        return problem(f"tilelang_batched_{batch}x{m}x{n}x{k}",
            {"A": (F16, (batch, m, k), "randn"), "B": (F16, (batch, n, k), "randn"), "R": (F16, (batch, m, n), "randn"),
             "C": (F16, (batch, m, n), "poison")}, (),
            "block_M=64,128 block_N=64,128 block_K=32,64 num_stages=1,2,3 threads=128,256", whole,
            defines={"batch": batch, "M": m, "N": n, "K": k})  # fmt: skip

    def affined(rows: int, cols: int) -> Problem:
        return problem(f"tilelang_affined_{rows}x{cols}",
            {"x": (F16, (rows, cols), "randn"), "gamma": (F32, (cols,), "rand"), "beta": (F32, (cols,), "randn"),
             "out": (F16, (rows, cols), "poison")}, (), "block=1..8 threads=64..512", whole, f"block * {cols} <= 16384",
            defines={"rows": rows, "cols": cols})  # fmt: skip

    def filtered(n: int, side: int, cin: int, cout: int) -> Problem:
        return problem(f"tilelang_filtered_{n}x{side}x{cin}x{cout}",
            {"x": (F16, (n, side, side, cin), "randn"), "w": (F16, (9 * cin, cout), "randn"),
             "out": (F16, (n * side * side, cout), "poison")}, (),
            "block_M=64,128 block_N=64,128 block_K=32,64 num_stages=1,2,3 threads=128,256", whole,
            defines={"n": n, "side": side, "cin": cin, "cout": cout})  # fmt: skip

    def haar(height: int, width: int) -> Problem:
        return problem(f"numba_haar_{height}x{width}",
            {"x": (F32, (height, width), "randn"), "out": (F32, (height, width), "poison")}, ("x", "out"),
            "BX=8..64 BY=2..32 STAGED=0,1", f"({width} // (BX * 2), {height} // (BY * 2)), (BX, BY), 0",
            "64 <= BX * BY <= 512", defines={"H": height // 2, "W": width // 2})  # fmt: skip

    def moments(rows: int, cols: int) -> Problem:
        return problem(f"numba_moments_{rows}x{cols}",
            {"x": ("float64", (rows, cols), "randn"), "out": ("float64", (rows, 3), "poison")}, ("x", "out"),
            "BLOCK=32..512 ROWS=1..4", f"{rows} // ROWS, (BLOCK, ROWS), 0", "64 <= BLOCK * ROWS <= 512",
            defines={"COLS": cols})  # fmt: skip

    def strained(name: str, n: int) -> Problem:
        return problem(f"warp_strained_{name}",
            {"F": (F32, (n, 3, 3), "randn"), "out": (F32, (n, 3, 3), "poison")}, ("F", "out", 2.0, 0.5),
            "BLOCK=32..512 PER=1,2,4", f"{n} // PER, BLOCK, 0")  # fmt: skip

    def reacted(height: int, width: int) -> Problem:
        held = (height, width)
        return problem(f"warp_reacted_{height}x{width}",
            {"u": (F32, held, "rand"), "v": (F32, held, "rand"), "un": (F32, held, "poison"),
             "vn": (F32, held, "poison")}, ("u", "v", "un", "vn", 0.04, 0.06), "BLOCK=32..512 PER=1..8",
            f"({height} // PER, {width}), BLOCK, 0")  # fmt: skip

    def biased(m: int, n: int, k: int) -> Problem:
        return problem(f"cutile_biased_{m}x{n}x{k}",
            {"a": (F16, (m, k), "randn"), "b": (F16, (k, n), "randn"), "bias": (F32, (1, n), "randn"),
             "c": (F16, (m, n), "poison")}, {"a": None, "b": None, "bias": None, "c": None},
            "rows=64,128 cols=64..256 depth=32..128 occupancy=1,2", f"({m} // rows, {n} // cols), None, 0",
            "rows * cols <= 16384")  # fmt: skip

    def softback(rows: int, cols: int) -> Problem:
        return problem(f"cutile_softback_{rows}x{cols}",
            {"p": (F16, (rows, cols), "rand"), "dy": (F16, (rows, cols), "randn"), "dx": (F16, (rows, cols), "poison")},
            {"p": None, "dy": None, "dx": None}, "rows=1..16 occupancy=1..8", f"{rows} // rows, None, 0",
            f"rows * {cols} <= 16384", defines={"cols": cols})  # fmt: skip

    def normed(rows: int, cols: int) -> Problem:
        return problem(f"cute_normed_{rows}x{cols}",
            {"A": (F32, (rows, cols), "randn"), "B": (F32, (rows, cols), "poison")}, {"A": None, "B": None},
            "ROWS=1..16 LANES=8..32 VEC=1..4", whole, "64 <= ROWS * LANES <= 512", defines={"COLS": cols})  # fmt: skip

    return [
        implicit(16, 64, 128, 128), implicit(32, 14, 256, 512), special(4096, 2048, 2048), special(1024, 4096, 4096),
        bytekeys(1024, 1024), bytekeys(256, 8192), inverted(16, 200_000), inverted(32, 60_000),
        largest(8192, 4096), largest(2048, 32_768), distances(1 << 15), distances(1 << 16),
        blocked("16kx64", 16_384, 16_384, 1024 * 40, 64), blocked("8kx512", 8192, 4096, 512 * 24, 512),
        bucketed("16m", 1 << 24, 70_000), bucketed("4m", 1 << 22, 18_000), wkv(8, 64, 1024), wkv(4, 32, 2048),
        ntt(1024, 16_384), ntt(4096, 2048), groupnorm(8, 64, 320), groupnorm(16, 32, 1280),
        pushed("4m", 1 << 22, 1 << 15), pushed("1m", 1 << 20, 1 << 18), batched(64, 512, 512, 128),
        batched(24, 1024, 512, 512), affined(8192, 4096), affined(16_384, 1024), filtered(8, 64, 64, 128),
        filtered(16, 32, 128, 256), haar(8192, 4096), haar(2048, 2048), moments(8192, 2048), moments(1024, 16_384),
        strained("4m", 1 << 22), strained("512k", 1 << 19), reacted(4096, 4096), reacted(1024, 2000),
        biased(4096, 2048, 1024), biased(1024, 4096, 2048), softback(16_384, 4096), softback(8192, 1024),
        normed(8192, 4096), normed(16_384, 768),
    ]  # fmt: skip
