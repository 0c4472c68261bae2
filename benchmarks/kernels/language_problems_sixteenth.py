"""The problems of `languages_sixteenth.cu`, two shapes or more of each."""

from __future__ import annotations

from typing import Any

from .language_problems import NZ, ROWS, Problem
from .language_problems_ninth import F16, F32, I32


def sixteenth_problems() -> list[Problem]:
    def problem(name: str, tensors: Any, *rest: Any, most: int = 8, **more: Any) -> Problem:
        outs = tuple(each for each, (_, _, init) in tensors.items() if init in ("poison", "zero"))
        return Problem(f"cuda_{name}", tensors, outs, *rest, most=most, source="languages_sixteenth.cu", **more)

    def walked(rows: int, cols: int) -> Problem:
        return problem(f"walked_{rows}x{cols}", {"out": (F32, (rows,), "poison"), "x": (F32, (rows, cols), "randn")},
            ("out", "x"), "BLOCK=64,256,1024 VEC=1,4 UNROLL=1,4,16 LANES=1,32", f"{rows} * LANES // BLOCK, BLOCK, 0",
            f"{cols} >= LANES * VEC and (LANES == 1 or UNROLL == 4)", defines={"COLS": cols}, most=12)  # fmt: skip

    def naivemv(rows: int, cols: int) -> Problem:
        return problem(f"naivemv_{rows}x{cols}",
            {"y": (F32, (rows,), "poison"), "A": (F32, (rows, cols), "randn"), "x": (F32, (cols,), "randn")},
            ("y", "A", "x", cols), "BLOCK=32..1024 VEC=1,4 UNROLL=1,4,16", f"{rows} // BLOCK, BLOCK, 0")  # fmt: skip

    def ownsoft(rows: int, cols: int) -> Problem:
        return problem(f"ownsoft_{rows}x{cols}",
            {"out": (F32, (rows, cols), "poison"), "x": (F32, (rows, cols), "randn")}, ("out", "x", cols),
            "BLOCK=32..512 UNROLL=1,4,16", f"{rows} // BLOCK, BLOCK, 0")  # fmt: skip

    def structs(count: int, fields: int) -> Problem:
        return problem(f"structs_{count}x{fields}",
            {"out": (F32, (count,), "poison"), "x": (F32, (count, fields), "randn")}, ("out", "x", count),
            "BLOCK=64..1024 APART=0,1 UNROLL=1,4,16", f"{count} // BLOCK, BLOCK, 0", "APART == 0 or UNROLL == 4",
            defines={"FIELDS": fields})  # fmt: skip

    def binned(count: int, values: int) -> Problem:
        return problem(f"binned_{count}of{values}",
            {"out": (I32, (256,), "zero"), "x": (I32, (count,), f"below:{values}")}, ("out", "x", count),
            "BLOCK=128..1024 COPIES=1..16 STRIDE=1,2 UNROLL=1,4", "132 * 2048 // BLOCK, BLOCK, 0",
            "COPIES <= BLOCK // 32 and COPIES * STRIDE <= 16")  # fmt: skip

    def ladder(side: int) -> Problem:
        return problem(f"ladder_{side}", {"C": (F32, (side, side), "poison"), "A": (F32, (side, side), "randn"),
             "B": (F32, (side, side), "randn")}, ("C", "A", "B", side, side),
            "STEP=0,1,2,3,4,5 SIDE=16..128 TM=1,4,8 THREADS=64..1024", f"({side} // SIDE, {side} // SIDE), THREADS, 0",
            f"THREADS == SIDE * SIDE // (TM if STEP == 3 else TM * TM if STEP > 3 else 1) and (TM == 1) == (STEP < 3) "
            f"and (SIDE >= 64) == (STEP > 2) and (STEP > 0 or {side} < 4096)", most=16)  # fmt: skip

    def rowmv(rows: int, cols: int) -> Problem:
        return problem(f"rowmv_{rows}x{cols}",
            {"y": (F32, (rows,), "poison"), "A": (F16, (rows, cols), "randn"), "x": (F16, (cols,), "randn")},
            ("y", "A", "x", cols), "LANES=32,128,512 BLOCK=32..512 WIDE=1..8 UNROLL=1,4",
            f"{rows} * LANES // BLOCK, BLOCK, 0", "LANES == 32 or BLOCK == LANES")  # fmt: skip

    def csr() -> Problem:
        return problem("csr_64k", {"y": (F32, (ROWS,), "poison"), "starts": (I32, (ROWS + 1,), "starts"),
             "cols": (I32, (NZ,), "cols"), "held": (F32, (NZ,), "randn"), "x": (F32, (ROWS,), "randn")},
            ("y", "starts", "cols", "held", "x"), "BLOCK=64..512 LANES=1..32 UNROLL=1,4",
            f"{ROWS} * LANES // BLOCK, BLOCK, 0", values=("starts",), most=12)  # fmt: skip

    def scanned(rows: int, cols: int) -> Problem:
        return problem(f"scanned_{rows}x{cols}",
            {"out": (F32, (rows, cols), "poison"), "x": (F32, (rows, cols), "randn")}, ("out", "x", cols),
            "BLOCK=64..1024 PER=1..16", f"{rows}, BLOCK, 0", f"{cols} % (BLOCK * PER) == 0")  # fmt: skip

    def pulled(n: int) -> Problem:
        return problem(f"pulled_{n}", {"out": (F32, (n, 4), "poison"), "pos": (F32, (n, 4), "rand")},
            ("out", "pos", n), "BLOCK=64..512 UNROLL=1,4,16 TILED=0,1", f"{n} // BLOCK, BLOCK, 0")  # fmt: skip

    def turned(rows: int, cols: int) -> Problem:
        return problem(f"turned_{rows}x{cols}",
            {"out": (F32, (cols, rows), "poison"), "x": (F32, (rows, cols), "randn")}, ("out", "x", rows, cols),
            "WAY=0,1,2,3 SIDE=16..64 DEEP=4..32", f"({cols} // SIDE, {rows} // SIDE), (SIDE, DEEP), 0",
            "DEEP <= SIDE and 128 <= SIDE * DEEP <= 1024", most=12)  # fmt: skip

    def seven(deep: int, height: int, width: int) -> Problem:
        return problem(f"seven_{deep}x{height}x{width}", {"out": (F32, (deep, height, width), "poison"),
             "in": (F32, (deep + 2, height + 2, width + 2), "randn")}, ("out", "in", width, height),
            "BX=32..128 BY=1..8 PER=1..16 KEPT=0,1", f"({width} // BX, {height} // BY, {deep} // PER), (BX, BY), 0",
            "64 <= BX * BY <= 512")  # fmt: skip

    def entropies(rows: int, cols: int) -> Problem:
        return problem(f"entropies_{rows}x{cols}", {"out": (F32, (rows,), "poison"), "x": (F32, (rows, cols), "randn"),
             "labels": (I32, (rows,), f"below:{cols}")}, ("out", "x", "labels", cols),
            "BLOCK=64..1024 VEC=1..4 UNROLL=1,4", f"{rows}, BLOCK, 0")  # fmt: skip

    def decoded(heads: int, seq: int) -> Problem:
        return problem(f"decoded_{heads}x{seq}",
            {"out": (F32, (heads, 128), "poison"), "q": (F32, (heads, 128), "randn"),
             "K": (F16, (heads, seq, 128), "randn"), "V": (F16, (heads, seq, 128), "randn")},
            ("out", "q", "K", "V", seq), "WARPS=1..16 UNROLL=1..8", f"{heads}, WARPS * 32, 0")  # fmt: skip

    return [
        walked(262_144, 32), walked(262_144, 256), walked(131_072, 1024), walked(65_536, 4096),
        naivemv(65_536, 512), naivemv(131_072, 128), ownsoft(262_144, 64), ownsoft(65_536, 512),
        structs(4_194_304, 8), structs(2_097_152, 32), binned(16_777_216, 256), binned(16_777_216, 4),
        ladder(1024), ladder(4096), rowmv(16_384, 4096), rowmv(4096, 16_384), csr(), scanned(8192, 4096),
        scanned(65_536, 1024), pulled(16_384), pulled(65_536), turned(8192, 8192), turned(2048, 2048),
        seven(256, 512, 512), seven(128, 128, 128), entropies(4096, 32_768), entropies(16_384, 4096),
        decoded(256, 4096), decoded(1024, 512),
    ]  # fmt: skip
