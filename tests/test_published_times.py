"""Kernels of CUDA C++ and HIP that others timed on devices that nothing was fitted on: predicted times, their order."""

from __future__ import annotations

import csv
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carver
from carver import Tensor

HERE = Path(__file__).parent
with (HERE / "data" / "published_times.csv").open(encoding="utf-8") as file:
    ROWS = list(csv.DictReader(file))
pytestmark = [pytest.mark.slow, pytest.mark.nvcc]
BEHIND = {("laplacian", "mi250x_gcd", "N=1024"): 1.15}
"""Where the first pick is further behind: planes of 8 MB, of which none stays in L2."""


def launch(kernel: str, case: dict[str, str], block: int) -> dict[str, Any]:
    """As the pages say: 4096 numbers a side, or N; 8 x 1024 tokens of 768 numbers; rows of 50,257; 2^26 zeros."""
    if kernel == "product":
        n = int(case.get("N", 4096))
        tiles = n // int(case.get("SIDE", case.get("WIDE", 32)))
        square = Tensor("float32", (n, n))
        return {"args": [square, square, square, n], "grid": (tiles, tiles)}
    if kernel in ("sums", "counts"):
        n, each = 1 << 26, block * (2 if kernel == "sums" and case["TREE"] == "4" else 1)
        out = Tensor("uint32", (n // each if kernel == "sums" else 512,))
        return {"args": [out, Tensor("uint32", (n,)), n], "grid": n // each, "values": {"in": np.zeros(n, np.uint32)}}
    width = 50_257 if kernel == "softmax" else 768
    rows, row = Tensor("float32", (8192, width)), Tensor("float32", (width,))
    if kernel in ("softmax", "layer_norm"):
        beside = [row, row] if kernel == "layer_norm" else []
        return {"args": [rows, rows, *beside, width], "grid": 8192 * 32 // block}
    if kernel == "gemv":  # 2^26 numbers
        n = int(case["N"])
        rows = (1 << 26) // n
        vectors = Tensor("uint32", (rows,)), Tensor("uint32", (n,))
        return {"args": [vectors[0], Tensor("uint32", (rows, n)), vectors[1], rows, n], "grid": rows // block}
    if kernel == "turn":
        n = int(case["N"])
        square = Tensor("float32" if "NUMBER" in case else "float64", (n, n))
        return {"args": [square, square, n], "grid": (n // 32, n // 32), "block": (32, 32)}
    if kernel == "form":  # of as many numbers, however many rows
        n = 32_768
        vector = Tensor("float64", (n,))
        return {"args": [Tensor("float64", (1,)), Tensor("float64", (n, n)), vector, vector, n],
                "grid": int(case.get("BLOCKS", 512))}
    if kernel == "laplacian":
        case = {"ROWS": "1", "BX": "256", "BZ": "1"} | case
        n, each, wide, deep = (int(case[name]) for name in ("N", "ROWS", "BX", "BZ"))
        cube, blocks = Tensor("float64", (n, n, n)), (n // wide, n // each, n // deep)
        turned = case.get("STEP") == "6"
        return {"args": [cube, cube, n, 1.0, 1.0, 1.0, 1.0], "grid": (*blocks[1:], blocks[0]) if turned else blocks,
                "block": (wide, 1, deep)}  # fmt: skip
    if kernel == "add":
        return {"args": [rows, rows, rows, 8192 * width], "grid": 8192 * width // block}
    words, table = Tensor("int32", (8192,)), Tensor("float32", (50_257, width))
    drawn = np.random.default_rng(0).integers(0, 50_257, 8192).astype(np.int32)
    return {"args": [rows, words, table, Tensor("float32", (1024, width)), width], "grid": 8192 * width // block,
            "values": {"words": drawn}}  # fmt: skip


@cache
def predicted_ms(kernel: str, case: str, device: str, block: int) -> float:
    defines = dict(each.split("=") for each in case.split(";") if each)
    suffix = "hip" if carver.load_arch(device).vendor == "amd" else "cu"
    if suffix == "hip" and not shutil.which("clang++-19") and not shutil.which("clang++"):
        pytest.skip("no clang that compiles HIP")
    source = carver.Kernel(HERE / f"published_kernels.{suffix}", kernel, defines=defines)
    how = {"block": block} | launch(kernel, defines, block)
    return carver.rank_kernel(source, [{}], arch=device, **how)[0].predicted_ms


def predicted(row: dict[str, str]) -> float:
    return predicted_ms(row["kernel"], row["case"], row["device"], int(row["block"]))


def kind(row: dict[str, str]) -> tuple[str, str]:
    return row["kernel"], carver.load_arch(row["device"]).vendor


FIRSTS = [next(row for row in ROWS if kind(row) == each) for each in dict.fromkeys(map(kind, ROWS))]
"""What the second tier compiles: one of each kernel and vendor."""
COMPARED = [("counts", "rtx_3080", ""), ("product", "l4", "N=2048")]
"""And those whose first pick it looks for."""


def marks(sampled: bool) -> tuple[pytest.MarkDecorator, ...]:
    return () if sampled else (pytest.mark.exhaustive,)


@pytest.mark.parametrize("row", [
    pytest.param(row, id=f"{row['kernel']}-{row['case']}-{row['device']}-{row['block']}", marks=marks(row in FIRSTS))
    for row in ROWS
])  # fmt: skip
def test_a_kernel_takes_about_as_long_as_was_reported(row: dict[str, str]) -> None:
    ratio = predicted(row) / float(row["reported_ms"])
    assert (0.7 < ratio < 1.3) != bool(row["exception"]), f"{ratio:.2f}: {row['exception'] or 'without a reason'}"


def problem(row: dict[str, str]) -> tuple[str, str, str]:
    size = row["case"].partition(";")[0] if row["case"].startswith("N=") else ""
    return row["kernel"], row["device"], size


@pytest.mark.parametrize("group", [
    pytest.param(each, marks=marks(each in COMPARED)) for each in sorted({problem(row) for row in ROWS})
])  # fmt: skip
def test_the_first_pick_is_the_fastest_or_a_tie(group: tuple[str, str, str]) -> None:
    rows = [row for row in ROWS if problem(row) == group]
    first = min(rows, key=predicted)
    most = BEHIND.get(group, 1.03)
    assert float(first["reported_ms"]) <= most * min(float(row["reported_ms"]) for row in rows)
