"""Atomic additions of integers side by side, and of floats to random places of a row, on the GPU of this machine.

    python benchmarks/kernels/additions.py FILE.jsonl

Medians of seven launches, each with a flushed L2. Needs PyTorch and Triton.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def count(p, TABLE, BLOCK: tl.constexpr, SEM: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(p + o % TABLE, 1, sem=SEM)


@triton.jit
def scatter(src, index, out, N, W: tl.constexpr, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    ok = o < N
    tl.atomic_add(out + o // W * W + tl.load(index + o, ok, other=0), tl.load(src + o, ok), ok, sem="relaxed")


def median_ms(launch: Callable[[], object], flush: Any) -> float:
    launch()
    times = []
    for _ in range(7):
        flush.random_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(200_000)
        begin.record()
        launch()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def main(out: Path) -> None:
    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    launches: list[tuple[dict[str, Any], Callable[[], object]]] = []
    sums = torch.zeros(1 << 28, dtype=torch.int32, device="cuda")
    shapes = (128, 4), (256, 4), (512, 4), (1024, 4), (1024, 8)
    tables = 1 << 28, 1 << 22, 1 << 16, 1 << 10
    for table, sem, (block, warps) in itertools.product(tables, ("relaxed", "acq_rel"), shapes):
        n = 1 << 28 if table > 1 << 20 else 1 << 24
        what = {"kernel": "count", "n": n, "table": table, "sem": sem, "BLOCK": block, "num_warps": warps}
        launches.append((what, partial(count[n // block,], sums, table, BLOCK=block, SEM=sem, num_warps=warps)))
    for rows, width in ((4096, 4096), (1024, 65536)):
        src, own = torch.randn(2, rows, width, device="cuda")
        index = torch.randint(width, (rows, width), device="cuda")
        what = {"kernel": "scatter_add_", "rows": rows, "width": width}
        launches.append((what, partial(own.scatter_add_, 1, index, src)))
        for b in (256, 1024):
            run = partial(scatter[rows * width // b,], src, index, own, rows * width, W=width, B=b, num_warps=4)
            launches.append((what | {"kernel": "scatter", "B": b, "num_warps": 4}, run))
    with out.open("w") as file:
        for what, launch in launches:
            print(json.dumps(what | {"time_ms": median_ms(launch, flush)}), file=file, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
