"""Measure a Triton matmul on the GPU of this machine, over element types, layouts, batches, few rows and
weights in int8, and in which order its tiles are best handed out.

    python benchmarks/triton_matmul.py --out triton_matmul.csv [--problems {fitted,more,orders}] [--only int8]
                                       [--budget 12] [--device h200]

For each problem: carver's first ten and a sample of its space, spread over predicted time and tile, each result checked
against PyTorch; of `orders`, ten large problems, the first six tiles, each with 1 to 16 rows of tiles walked together.
Writes a table that `carver evaluate FILE` reads, with the shared memory, registers and spills that the
compiler reports, and prints what the first and the best of ten lose. Needs PyTorch and Triton.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from kernels.triton_declared import matmul
from triton_table import Config, Launch, Row, main

import carver
from carver.run.bench import stratified

CONFIGS = 120

TENSORS = {"tfloat32": torch.float32, "float8_e4m3": torch.float8_e4m3fn}
SUMS = {"float64": (tl.float64, torch.float64), "int8": (tl.int32, torch.int32)}
"""What products are added up in, for Triton and for PyTorch, where it is not float32."""
OUT = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float64": torch.float64, "int8": torch.int32,
       "float8_e4m3": torch.float16}  # fmt: skip


def problem(
    M: int, N: int, K: int, in_dtype: str = "float16", trans_A: bool = False, trans_B: bool = True, batch: int = 1,
    b_dtype: str | None = None,
) -> Row:  # fmt: skip
    layout = {"trans_A": trans_A, "trans_B": trans_B}
    return {"M": M, "N": N, "K": K, "batch": batch, **layout, "in_dtype": in_dtype, "b_dtype": b_dtype or in_dtype}


FEW_ROWS = ((8, 4096, 14336), (16, 28672, 4096), (32, 8192, 8192), (64, 14336, 4096), (1, 6144, 4096))
MORE = [  # short and odd K, rows that start within a sector, sizes between those of the others
    problem(3000, 3000, 3000, "bfloat16"),
    problem(3000, 3000, 3000, trans_B=False),
    problem(1000, 1000, 1000),
    problem(8192, 8192, 128, "bfloat16"),
    problem(2048, 2048, 64, batch=32),
    problem(1024, 64, 1024, batch=48, trans_B=False),
    problem(4096, 4096, 256, trans_A=True),
    problem(768, 3072, 768, "bfloat16", trans_B=False),
    *[problem(m, n, k) for m, n, k in ((1536, 1536, 1536), (384, 5120, 5120), (96, 2560, 10240), (24, 7168, 2048))],
    problem(512, 50304, 768, "bfloat16"),
    problem(6144, 2048, 512, trans_B=False),
]
LARGE = [problem(*sizes, "bfloat16") for sizes in (
    (4096, 4096, 4096), (8192, 8192, 8192), (2048, 8192, 4096), (1536, 1536, 1536), (2048, 2048, 2048),
    (512, 50304, 768), (16384, 1024, 4096), (4096, 4096, 512), (1024, 16384, 4096), (3072, 6144, 2048),
)]  # fmt: skip
GROUPS, TILES = (1, 2, 4, 8, 16), 6
PROBLEMS = [
    *[problem(m, n, k) for m, n, k in FEW_ROWS],
    problem(4096, 4096, 4096, trans_B=False),
    problem(2048, 4096, 1024, trans_A=True, trans_B=False),
    problem(512, 512, 64, batch=256),
    problem(1024, 128, 1024, batch=64, trans_B=False),
    problem(777, 2050, 514, trans_B=False),
    *[problem(m, n, k, "bfloat16") for m, n, k in ((4096, 14336, 4096), (300, 1000, 2048))],
    *[problem(m, n, k, "float8_e4m3") for m, n, k in ((4096, 4096, 4096), (16, 14336, 4096), (256, 8192, 8192))],
    *[problem(m, n, k, "int8") for m, n, k in ((4096, 4096, 4096), (64, 8192, 8192))],
    *[problem(2048, 4096, 4096, dtype, trans_B=False) for dtype in ("int8", "float8_e4m3")],
    *[problem(m, n, k, "tfloat32") for m, n, k in ((4096, 4096, 4096), (256, 4096, 4096))],
    problem(2048, 2048, 2048, "tfloat32", trans_B=False),
    problem(2048, 2048, 2048, "float32", trans_B=False),
    problem(2048, 2048, 2048, "float64", trans_B=False),
    *[problem(m, n, k, trans_B=m == 64, b_dtype="int8")
      for m, n, k in ((1, 4096, 4096), (16, 11008, 4096), (64, 4096, 11008), (256, 4096, 4096), (2048, 4096, 4096))],
]  # fmt: skip


@triton.jit
def reduce(part_at, c_at, size, SUM: tl.constexpr, SPLIT_K: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), SUM)
    for split in range(SPLIT_K):
        total += tl.load(part_at + split * size.to(tl.int64) + at, mask=at < size, other=0.0)
    tl.store(c_at + at, total.to(c_at.dtype.element_ty), mask=at < size)


def strides(p: Row) -> tuple[int, ...]:
    m, n, k = p["M"], p["N"], p["K"]
    a = (1, m) if p["trans_A"] else (k, 1)
    b = (1, k) if p["trans_B"] else (n, 1)
    return m * k, *a, k * n, *b


def sums(p: Row) -> tuple[Any, torch.dtype]:
    return SUMS.get(p["in_dtype"], (tl.float32, torch.float32))


def constants(p: Row, c: Config) -> dict[str, Any]:
    precision = "ieee" if p["in_dtype"] in ("float32", "float64") else "tf32"
    return {"SUM": sums(p)[0], "PRECISION": precision, "GROUP_M": 8, "SPLIT_K": 1, **c}


def element(dtype: str) -> torch.dtype:
    return TENSORS.get(dtype) or getattr(torch, dtype)


def drawn(shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    if dtype == "int8":
        return torch.randint(-8, 8, shape, device="cuda", dtype=torch.int8)
    return torch.randn(shape, device="cuda").to(element(dtype))


@dataclass(frozen=True)
class Matmul:
    problems: Sequence[Row]

    def columns(self, p: Row) -> Row:
        return {"operator": "matmul", **p, "trans_A": int(p["trans_A"]), "trans_B": int(p["trans_B"])}

    def configs(self, p: Row, arch: carver.Arch) -> list[Config]:
        hints = list(carver.MatmulTemplate(**p).with_arch(arch).recommend_hints(1_000_000, "triton"))
        rest = sorted(stratified(hints, CONFIGS), key=lambda h: h.rank * 7919 % 104729)
        first = [h.rank for h in hints[:10]]
        return [dict(h.config) for h in (*hints[:10], *(h for h in rest if h.rank not in first))]

    def identity(self, p: Row, c: Config) -> tuple[Any, ...]:
        numbers = (p["M"], p["N"], p["K"], *strides(p))
        return p["in_dtype"], p["b_dtype"], *((x == 1, x % 16 == 0) for x in numbers), *sorted(c.items())

    def compile(self, p: Row, c: Config) -> None:
        words = constants(p, c)
        out = sums(p)[1] if words["SPLIT_K"] > 1 else OUT.get(p["in_dtype"], torch.float32)
        types = element(p["in_dtype"]), element(p["b_dtype"]), out
        matmul.warmup(*types, p["M"], p["N"], p["K"], *strides(p), grid=(1,), **words)

    def launch(self, p: Row) -> Launch:
        m, n, k, batch, dtype = p["M"], p["N"], p["K"], p["batch"], p["in_dtype"]
        a = drawn((batch, k, m) if p["trans_A"] else (batch, m, k), dtype)
        b = drawn((batch, n, k) if p["trans_B"] else (batch, k, n), p["b_dtype"])
        out = torch.empty((batch, m, n), device="cuda", dtype=OUT.get(dtype, torch.float32))
        parts = torch.empty((32, batch, m, n) if batch * m * n <= 1 << 24 else (0,), device="cuda", dtype=sums(p)[1])
        wide_a, wide_b = a.double(), b.double()
        expected = (wide_a.mT if p["trans_A"] else wide_a) @ (wide_b.mT if p["trans_B"] else wide_b)
        del wide_a, wide_b

        def run(c: Config) -> Any:
            words = constants(p, c)
            split = words["SPLIT_K"]
            grid = (triton.cdiv(m, c["BLOCK_M"]) * triton.cdiv(n, c["BLOCK_N"]), split, batch)
            compiled = matmul[grid](a, b, parts if split > 1 else out, m, n, k, *strides(p), **words)
            if split > 1:
                reduce[(triton.cdiv(batch * m * n, 1024),)](parts, out, batch * m * n, words["SUM"], split, 1024)
            return compiled

        def error() -> float:
            found = float((out.double() - expected).abs().max() / expected.abs().max())
            out.zero_()
            return found

        return Launch(run, error, 2e-2 if dtype in ("bfloat16", "float8_e4m3") else 2e-3)


class Orders(Matmul):
    """Tiles, each with different numbers of rows of them walked together."""

    def configs(self, p: Row, arch: carver.Arch) -> list[Config]:
        tiles: dict[tuple[tuple[str, int], ...], Config] = {}
        for hint in carver.MatmulTemplate(**p).with_arch(arch).recommend_hints(1000, "triton"):
            tile = {name: value for name, value in hint.config.items() if name != "GROUP_M"}
            if tile["SPLIT_K"] == 1:
                tiles.setdefault(tuple(tile.items()), tile)
        return [{**tile, "GROUP_M": group} for tile in list(tiles.values())[:TILES] for group in GROUPS]


if __name__ == "__main__":
    main({"fitted": Matmul(PROBLEMS), "more": Matmul(MORE), "orders": Orders(LARGE)}, __doc__)
