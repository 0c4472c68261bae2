"""Triton kernels that read each row two or three times: what L1, L2 and DRAM give of it.

    python benchmarks/kernels/triton_passes.py measure FILE.jsonl                    on the GPU of this machine
    python benchmarks/kernels/triton_passes.py score FILE.jsonl [--arch h200]        no GPU needed
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Any

import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


@triton.jit
def layer_norm(x, w, y, n, BLOCK: tl.constexpr):
    """Three passes: mean, variance, result."""
    row, c = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(0, n, BLOCK):
        total += tl.load(x + row * n + i + c, mask=i + c < n, other=0.0).to(tl.float32)
    mean = tl.sum(total, 0) / n
    away = tl.zeros((BLOCK,), tl.float32)
    for i in range(0, n, BLOCK):
        v = tl.load(x + row * n + i + c, mask=i + c < n, other=0.0).to(tl.float32)
        d = tl.where(i + c < n, v - mean, 0.0)
        away += d * d
    scale = 1.0 / tl.sqrt(tl.sum(away, 0) / n + 1e-5)
    for i in range(0, n, BLOCK):
        v = tl.load(x + row * n + i + c, mask=i + c < n, other=0.0).to(tl.float32)
        g = tl.load(w + i + c, mask=i + c < n, other=0.0).to(tl.float32)
        tl.store(y + row * n + i + c, ((v - mean) * scale * g).to(y.dtype.element_ty), mask=i + c < n)


@triton.jit
def softmax(x, y, n, BLOCK: tl.constexpr):
    """Two passes, of which the first keeps a running maximum and sum."""
    row, c = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    m, s = tl.full((BLOCK,), -float("inf"), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for i in range(0, n, BLOCK):
        v = tl.load(x + row * n + i + c, mask=i + c < n, other=-1e30).to(tl.float32)
        new = tl.maximum(m, v)
        s = s * tl.exp(m - new) + tl.exp(v - new)
        m = new
    top = tl.max(m, 0)
    total = tl.sum(s * tl.exp(m - top), 0)
    for i in range(0, n, BLOCK):
        v = tl.load(x + row * n + i + c, mask=i + c < n, other=-1e30).to(tl.float32)
        tl.store(y + row * n + i + c, (tl.exp(v - top) / total).to(y.dtype.element_ty), mask=i + c < n)


@triton.jit
def scaled_by_most(x, y, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Rows over their largest magnitude, some rows a program."""
    r, c = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64), tl.arange(0, BLOCK)
    most = tl.zeros((ROWS, BLOCK), tl.float32)
    for i in range(0, n, BLOCK):
        most = tl.maximum(most, tl.abs(tl.load(x + r[:, None] * n + i + c[None, :]).to(tl.float32)))
    scale = 1.0 / tl.max(most, 1)
    for i in range(0, n, BLOCK):
        v = tl.load(x + r[:, None] * n + i + c[None, :]).to(tl.float32)
        tl.store(y + r[:, None] * n + i + c[None, :], (v * scale[:, None]).to(y.dtype.element_ty))


SHAPES = ((65536, 1024), (16384, 4096), (8192, 12288), (4096, 32768), (1024, 131072))
PROBLEMS = [(kernel, *shape) for kernel in (layer_norm, softmax, scaled_by_most) for shape in SHAPES]
BLOCKS = ((256, 2), (512, 2), (512, 4), (1024, 2), (1024, 4), (1024, 8), (2048, 4), (2048, 8), (4096, 4), (4096, 8),
          (4096, 16))  # fmt: skip
TILES = ((1, 512, 2), (1, 1024, 4), (1, 1024, 8), (2, 512, 4), (2, 1024, 8), (4, 256, 4), (4, 512, 4), (4, 1024, 8),
         (8, 256, 8), (16, 128, 8), (16, 256, 4))  # fmt: skip


def listed(kernel: Any) -> list[tuple[dict[str, int], int]]:
    """Tiles and warps."""
    if kernel is scaled_by_most:
        return [({"ROWS": rows, "BLOCK": block}, warps) for rows, block, warps in TILES]
    return [({"BLOCK": block}, warps) for block, warps in BLOCKS]


def given(kernel: Any, rows: int, n: int, tensor: Callable[[tuple[int, ...]], Any]) -> dict[str, Any]:
    weight = {"w": tensor((n,))} if kernel is layer_norm else {}
    return {"x": tensor((rows, n)), **weight, "y": tensor((rows, n)), "n": n}


def measure(path: Path) -> None:
    import torch

    with path.open("w") as out:
        for kernel, rows, n in PROBLEMS:
            args = given(kernel, rows, n, lambda shape: (torch.randn(shape, device="cuda") * 0.5).half())
            for config, warps in listed(kernel):
                grid = (rows // config.get("ROWS", 1),)
                launch = lambda: kernel[grid](**args, **config, num_warps=warps)  # noqa: B023, E731
                ms = triton.testing.do_bench(launch, 5, 30, return_mode="median")
                row = {"kernel": kernel.__name__, "rows": rows, "n": n, "config": config, "warps": warps, "ms": ms}
                print(json.dumps(row), file=out, flush=True)


def score(path: Path, arch: str) -> None:
    import carver

    every = [json.loads(line) for line in path.read_text().splitlines()]
    picks, errors = [], []
    for kernel, rows, n in PROBLEMS:
        mine = [row for row in every if (row["kernel"], row["rows"], row["n"]) == (kernel.__name__, rows, n)]
        ranking = carver.rank_kernel(
            kernel, [{**row["config"], "num_warps": row["warps"]} for row in mine], arch=arch,
            args=given(kernel, rows, n, lambda shape: carver.Tensor("float16", shape)),
            grid=lambda config: (rows // config.get("ROWS", 1),),  # noqa: B023
        )  # fmt: skip
        away = [abs(math.log(hint.predicted_ms / mine[hint.index]["ms"])) for hint in ranking]
        picks.append(mine[ranking[0].index]["ms"] / min(row["ms"] for row in mine))
        errors += away
        print(f"{kernel.__name__:<16}{rows:>7}{n:>8}  first pick {picks[-1]:.3f}, error {fmean(away):.3f}")
    print(f"first picks {geometric_mean(picks):.4f}, mean error {fmean(errors):.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "score"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--arch", default="h200")
    options = parser.parse_args()
    measure(options.file) if options.what == "measure" else score(options.file, options.arch)
