"""Loops of Triton kernels that only compute, of a number of steps that the compiler knows or not.

    python benchmarks/kernels/triton_arithmetic.py measure FILE.jsonl                    on the GPU of this machine
    python benchmarks/kernels/triton_arithmetic.py score FILE.jsonl [--arch h200]        no GPU needed
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

N, ROWS, WIDE = 1 << 22, 4096, 8192


@triton.jit
def iterate(x, y, K, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i)
    for _ in range(K):
        v = v * v + 0.5
    tl.store(y + i, v)


@triton.jit
def iterate_known(x, y, K: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i)
    for _ in range(K):
        v = v * v + 0.5
    tl.store(y + i, v)


@triton.jit
def iterate_within(x, y, n, K: tl.constexpr, B: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for c in range(0, n, B):
        v = tl.load(x + row * n + c + i)
        for _ in range(K):
            v = v * v + 0.5
        total += v
    tl.store(y + row * B + i, total)


@triton.jit
def escapes(y, K, W: tl.constexpr, B: tl.constexpr):
    """Steps of a Mandelbrot set."""
    o = tl.program_id(0) * B + tl.arange(0, B)
    cx, cy = (o % W).to(tl.float32) / W * 3 - 2, (o // W).to(tl.float32) / W * 2 - 1
    a, b, n = cx * 0, cx * 0, tl.zeros((B,), tl.int32)
    for _ in range(K):
        a, b = a * a - b * b + cx, 2 * a * b + cy
        n += (a * a + b * b < 4).to(tl.int32)
    tl.store(y + o, n)


@triton.jit
def exponentials(x, y, K, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i)
    for _ in range(K):
        v = tl.exp(-v)
    tl.store(y + i, v)


@triton.jit
def mixed(x, y, K, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    h = tl.load(x + i)
    for k in range(K):
        h = (h ^ (h >> 15)) * -2048144789 + k
    tl.store(y + i, h)


@triton.jit
def mixed_known(x, y, K: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    h = tl.load(x + i)
    for k in range(K):
        h = (h ^ (h >> 15)) * -2048144789 + k
    tl.store(y + i, h)


CASES: list[tuple[Any, int, int]] = [
    *((kernel, steps, block) for block in (128, 1024) for steps in (64, 1000, 4096)
      for kernel in (iterate, iterate_known)),
    *((iterate_within, steps, 1024) for steps in (32, 64, 100, 200, 1000)), (escapes, 1000, 1024),
    *((kernel, 1000, block) for block in (256, 1024) for kernel in (exponentials, mixed, mixed_known)),
]  # fmt: skip


def given(kernel: Any, steps: int, tensor: Any) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Arguments, constants and elements of the grid, with `tensor(type, shape)` for each tensor."""
    kind = "int32" if kernel in (escapes, mixed, mixed_known) else "float32"
    steps_of = {"K": steps}
    if kernel is iterate_within:
        return {"x": tensor(kind, (ROWS, WIDE)), "y": tensor(kind, (ROWS, 1024)), "n": WIDE}, steps_of, ROWS * 1024
    if kernel is escapes:
        return {"y": tensor(kind, (N,))} | steps_of, {"W": 2048}, N
    tensors = {"x": tensor(kind, (N,)), "y": tensor(kind, (N,))}
    return (tensors, steps_of, N) if kernel in (iterate_known, mixed_known) else (tensors | steps_of, {}, N)


def measure(path: Path) -> None:
    import torch

    def tensor(kind: str, shape: tuple[int, ...]) -> Any:
        if kind == "float32":
            return torch.rand(shape, device="cuda") * 0.3
        return torch.randint(1 << 30, shape, device="cuda", dtype=torch.int32)

    with path.open("w") as out:
        for kernel, steps, block in CASES:
            args, constants, elements = given(kernel, steps, tensor)
            launch = lambda: kernel[(elements // block,)](**args, **constants, B=block)  # noqa: B023, E731
            ms = triton.testing.do_bench(launch, 20, 60, return_mode="median")
            row = {"kernel": kernel.__name__, "steps": steps, "block": block, "ms": round(ms, 5)}
            print(json.dumps(row), file=out, flush=True)


def score(path: Path, arch: str) -> None:
    import carver

    ratios = []
    for row in map(json.loads, path.read_text().splitlines()):
        kernel = globals()[row["kernel"]]
        args, constants, elements = given(kernel, row["steps"], carver.Tensor)
        [hint] = carver.rank_kernel(
            kernel, [{"B": row["block"]}], args=args, constants=constants, grid=(elements // row["block"],), arch=arch
        )
        ratios.append(hint.predicted_ms / row["ms"])
        case = f"{row['kernel']:<16}{row['steps']:>6}{row['block']:>6}"
        print(f"{case}{row['ms']:>10.4f} ms, predicted {ratios[-1]:.2f} of it")
    within = sum(0.8 <= ratio <= 1.25 for ratio in ratios)
    away = geometric_mean(math.exp(abs(math.log(ratio))) for ratio in ratios) - 1
    print(f"{within} of {len(ratios)} within 0.8 to 1.25, mean error {away:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "score"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--arch", default="h200")
    options = parser.parse_args()
    measure(options.file) if options.what == "measure" else score(options.file, options.arch)
