"""Kernels of CUDA C++ that others timed on devices that nothing was fitted on: predicted times, and their order."""

from __future__ import annotations

import csv
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
    if kernel == "add":
        return {"args": [rows, rows, rows, 8192 * width], "grid": 8192 * width // block}
    words, table = Tensor("int32", (8192,)), Tensor("float32", (50_257, width))
    drawn = np.random.default_rng(0).integers(0, 50_257, 8192).astype(np.int32)
    return {"args": [rows, words, table, Tensor("float32", (1024, width)), width], "grid": 8192 * width // block,
            "values": {"words": drawn}}  # fmt: skip


@cache
def predicted_ms(kernel: str, case: str, device: str, block: int) -> float:
    defines = dict(each.split("=") for each in case.split(";") if each)
    source = carver.Kernel(HERE / "published_kernels.cu", kernel, defines=defines)
    how = launch(kernel, defines, block)
    return carver.rank_kernel(source, [{}], arch=device, block=block, **how)[0].predicted_ms


def predicted(row: dict[str, str]) -> float:
    return predicted_ms(row["kernel"], row["case"], row["device"], int(row["block"]))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['kernel']}-{row['case']}-{row['block']}")
def test_a_kernel_takes_about_as_long_as_was_reported(row: dict[str, str]) -> None:
    assert 0.7 < predicted(row) / float(row["reported_ms"]) < 1.3


@pytest.mark.parametrize(("kernel", "device"), sorted({(row["kernel"], row["device"]) for row in ROWS}))
def test_the_first_pick_is_the_fastest_or_a_tie(kernel: str, device: str) -> None:
    rows = [row for row in ROWS if (row["kernel"], row["device"]) == (kernel, device)]
    first = min(rows, key=predicted)
    assert float(first["reported_ms"]) <= 1.03 * min(float(row["reported_ms"]) for row in rows)
