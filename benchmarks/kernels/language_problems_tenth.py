"""The problems of `languages_tenth.cu` and `languages_tenth.py`, two shapes of each."""

from __future__ import annotations

from typing import Any

from .language_problems import Problem
from .language_problems_ninth import F16, F32, I32, U8, whole

BLOCK = "(block_size_x, block_size_y), 0"


def tenth_problems() -> list[Problem]:
    def problem(name: str, tensors: Any, *rest: Any, **more: Any) -> Problem:
        outs = tuple(each for each, (_, _, init) in tensors.items() if init in ("poison", "zero"))
        made = "" if name.startswith("cuda_") else "_".join(name.split("_")[:2])
        return Problem(name, tensors, outs, *rest, most=12, made=made, source="languages_tenth.cu", **more)

    def sampled(name: str, n: int, count: int, dim: int) -> Problem:
        return problem(f"cuda_sampled_{name}",
            {"out": (F32, (count,), "poison"), "rows": (I32, (count,), f"cell_of:{n}"),
             "cols": (I32, (count,), f"below:{n}"), "A": (F32, (n, dim), "randn"), "B": (F32, (n, dim), "randn")},
            ("out", "rows", "cols", "A", "B"), "BLOCK=64..512 LANES=4..32 PER=1..4 VEC=1,4",
            f"{count} * LANES // (BLOCK * PER), BLOCK, 0", f"LANES * VEC <= {dim}", defines={"DIM": dim},
            values=("rows", "cols"))  # fmt: skip

    def byted(rows: int, k: int) -> Problem:
        return problem(f"cuda_byted_{rows}x{k}",
            {"y": (F32, (rows,), "poison"), "W": ("int8", (rows, k), "levels"), "x": (F16, (k,), "randn"),
             "scale": (F32, (rows,), "rand")}, ("y", "W", "x", "scale", k), "WARPS=1..8 ROWS=1..8 VEC=4..16",
            f"{rows} // (WARPS * ROWS), WARPS * 32, 0")  # fmt: skip

    def fft512(name: str, count: int) -> Problem:
        return problem(f"cuda_fft512_{name}",
            {"out": (F32, (count, 512, 2), "poison"), "x": (F32, (count, 512, 2), "randn"),
             "roots": (F32, (512, 2), "roots")}, ("out", "x", "roots"),
            "transforms=1..8 padding=0,1 in_parts=0,1 by_table=0,1",
            f"{count} // transforms, 64 * transforms, 0")  # fmt: skip

    def solved(name: str, count: int, order: int) -> Problem:
        return problem(f"cuda_solved_{name}",
            {"X": (F32, (count, order, 32), "poison"), "L": (F32, (count, order, order), "heavy"),
             "B": (F32, (count, order, 32), "randn")}, ("X", "L", "B"), "WARPS=1..8 way=0,1,2 fast_division=0,1",
            f"{count} // WARPS, WARPS * 32, 0", defines={"ORDER": order})  # fmt: skip

    def gated(m: int, n: int, k: int) -> Problem:
        room = "STAGES * (WM * FM + 2 * WN * FN) * 16 * (BK + 8) * 2"
        return problem(f"cuda_gated_{m}x{n}x{k}",
            {"C": (F16, (m, n), "poison"), "A": (F16, (m, k), "small"), "G": (F16, (n, k), "small"),
             "U": (F16, (n, k), "small")}, ("C", "A", "G", "U", n, k),
            "WM=1..4 WN=1..4 FM=1..4 FN=1,2 BK=32,64 STAGES=2,3,4",
            f"({n} // (WN * FN * 16), {m} // (WM * FM * 16)), WM * WN * 32, {room}",
            f"2 <= WM * WN <= 8 and FM * FN >= 2 and {room} < 220000")  # fmt: skip

    def combined(tokens: int, top: int, dim: int) -> Problem:
        return problem(f"cuda_combined_{tokens}x{top}x{dim}",
            {"out": (F16, (tokens, dim), "poison"), "made": (F16, (tokens * top, dim), "randn"),
             "where": (I32, (tokens * top,), "pages"), "weights": (F32, (tokens * top,), "rand")},
            ("out", "made", "where", "weights", dim), "BLOCK=64..512 TOKENS=1..8 VEC=2..8",
            f"{tokens} // TOKENS, BLOCK, 0", f"BLOCK * VEC <= 2 * {dim}", defines={"TOP": top},
            values=("where",))  # fmt: skip

    def lattice19(nx: int, ny: int, nz: int) -> Problem:
        held = (19 * nx * ny * nz,)
        return problem(f"cuda_lattice19_{nx}x{ny}x{nz}",
            {"to": (F32, held, "poison"), "x": (F32, held, "rand")}, ("to", "x", nx, ny, nz, 1.2),
            "block_size_x=16..128 block_size_y=1..8 tile_size_z=1,4 in_planes=0,1 fast_division=0,1",
            f"(cdiv({nx}, block_size_x), cdiv({ny}, block_size_y), cdiv({nz}, tile_size_z)), {BLOCK}",
            "64 <= block_size_x * block_size_y <= 256")  # fmt: skip

    def elements(name: str, count: int, order: int) -> Problem:
        points = (count, order, order, order)
        return problem(f"cuda_elements_{name}",
            {"out": (F32, points, "poison"), "u": (F32, points, "randn"), "g": (F32, (count, 3, *points[1:]), "rand"),
             "D": (F32, (order, order), "randn")}, ("out", "u", "g", "D"), "many=1..8 padding=0,1 by_constant=0,1",
            f"{count} // many, ({order}, {order}, many), 0", defines={"ORDER": order},
            constants={"slopes": "D"})  # fmt: skip

    def disparity(width: int, height: int, depth: int) -> Problem:
        return problem(f"cuda_disparity_{width}x{height}",
            {"out": (I32, (height, width), "poison"), "left": (U8, (height, width), "levels"),
             "right": (U8, (height, width), "levels")}, ("out", "left", "right", width, height),
            "block_size_x=16..128 block_size_y=1..8 per_thread=1..4 use_shared=0,1",
            f"(cdiv({width}, block_size_x), cdiv({height}, block_size_y * per_thread)), {BLOCK}",
            "64 <= block_size_x * block_size_y <= 512", defines={"DEPTH": depth})  # fmt: skip

    def stepped(name: str, n: int) -> Problem:
        return problem(f"cuda_stepped_{name}",
            {"xo": (F32, (n,), "poison"), "ro": (F32, (n,), "poison"), "total": (F32, (1,), "poison"),
             "partial": (F32, (132 * 32,), "poison"), "ended": (I32, (1,), "zero"),
             **{each: (F32, (n,), "randn") for each in "xrpq"}},
            ("xo", "ro", "total", "partial", "ended", *"xrpq", 0.01, n),
            "BLOCK=64..1024 PER_SM=1..16 VEC=1,4 UNROLL=1,2", "132 * PER_SM, BLOCK, 0",
            "256 <= BLOCK * PER_SM <= 2048")  # fmt: skip

    def chunked(heads: int, seq: int, dim: int) -> Problem:
        shape = (heads, seq, dim)
        return problem(f"tilelang_chunked_{heads}x{seq}x{dim}",
            {**{name: (F16, shape, "randn") for name in "QKV"}, "Out": (F16, shape, "poison")}, (),
            "block_T=32..128 block_V=32..128 num_stages=1,2 threads=128,256", whole,
            f"block_V <= {dim}", defines={"heads": heads, "seq": seq, "dim": dim})  # fmt: skip

    def rolled(times: int, series: int, window: int) -> Problem:
        held = (times, series)
        return problem(f"numba_rolled_{times}x{series}",
            {"x": (F32, held, "rand"), "mean": (F32, held, "poison"), "deviation": (F32, held, "poison")},
            ("x", "mean", "deviation"), "BLOCK=32..512 CHUNK=32..512",
            f"(cdiv({series}, BLOCK), cdiv({times}, CHUNK)), BLOCK, 0", defines={"WINDOW": window})  # fmt: skip

    def temporal(batch: int, cin: int, cout: int, times: int, taps: int) -> Problem:
        return problem(f"numba_temporal_{batch}x{cin}x{cout}x{times}",
            {"x": (F32, (batch, cin, times + taps - 1), "randn"), "w": (F32, (cout, cin, taps), "randn"),
             "out": (F32, (batch, cout, times), "poison")}, ("x", "w", "out"), "BT=32..256 PER=1..8 CO=1..8",
            f"({times} // BT, {cout} // (CO * PER), {batch}), (BT, CO), 0", "64 <= BT * CO <= 512",
            defines={"TAPS": taps, "CIN": cin})  # fmt: skip

    def springs(name: str, n: int, many: int) -> Problem:
        """With lists as rows of a point, or turned: rows of a neighbour."""
        def lists(c: dict[str, Any]) -> tuple[str, ...]:
            of_point = ("by_rank", "rest_by_rank") if c["TURNED"] else ("to", "rest")
            return ("pos", "speed", *of_point, "out")

        return problem(f"warp_springs_{name}",
            {"pos": (F32, (n, 3), "randn"), "speed": (F32, (n, 3), "randn"), "to": (I32, (n, many), "near:300"),
             "rest": (F32, (n, many), "rand"), "by_rank": (I32, (many, n), "near:300"),
             "rest_by_rank": (F32, (many, n), "rand"), "out": (F32, (n, 3), "poison")}, lists,
            "TURNED=0,1 BLOCK=32..512", f"{n}, BLOCK, 0", defines={"NEIGHBOURS": many},
            values=("to", "by_rank"))  # fmt: skip

    def swished(rows: int, cols: int) -> Problem:
        return problem(f"cutile_swished_{rows}x{cols}",
            {"x": (F16, (rows, 2 * cols), "randn"), "out": (F16, (rows, cols), "poison")}, {"x": None, "out": None},
            "rows=1..16 cols=256..2048", f"({rows} // rows, {cols} // cols), None, 0",
            f"{cols} % cols == 0 and rows * cols <= 16384")  # fmt: skip

    def turned(rows: int, cols: int) -> Problem:
        return problem(f"cute_turned_{rows}x{cols}",
            {"A": (F32, (rows, cols), "randn"), "B": (F32, (cols, rows), "poison")}, {"A": None, "B": None},
            "TILE=16..64 ROWS=2..16 PAD=0,1", whole, "64 <= TILE * ROWS <= 512")  # fmt: skip

    return [
        sampled("1mx64", 200_000, 1 << 20, 64), sampled("393kx128", 30_000, 3 << 17, 128),
        byted(16_384, 8192), byted(4096, 14_336), fft512("64k", 1 << 16), fft512("4k", 1 << 12),
        solved("64kx32", 1 << 16, 32), solved("200kx16", 200_000, 16),
        gated(2048, 4096, 2048), gated(512, 8192, 1024), combined(8192, 8, 2048), combined(4096, 2, 4096),
        lattice19(192, 128, 96), lattice19(120, 100, 64), elements("16kx8", 1 << 14, 8), elements("20kx6", 20_000, 6),
        disparity(1920, 1080, 64), disparity(1024, 768, 128), stepped("16m", 1 << 24), stepped("2m", 2_000_000),
        chunked(64, 4096, 128), chunked(256, 2048, 64), rolled(8192, 4096, 64), rolled(20_000, 1000, 20),
        temporal(16, 128, 256, 4096, 5), temporal(64, 64, 64, 2048, 9), springs("1mx8", 1 << 20, 8),
        springs("200kx24", 200_000, 24), swished(16_384, 4096), swished(2048, 14_336), turned(8192, 4096),
        turned(2048, 6144),
    ]  # fmt: skip
