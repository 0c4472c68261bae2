"""Seconds that the host takes for a launch of a Triton kernel, by what it hands over. Needs an NVIDIA GPU.

    python benchmarks/host_launch.py OUT.jsonl

A kernel of one block has three pointers, or tensor descriptors in the place of one to three of them, made once or anew
for each launch. Launches are queued behind a kernel that sleeps, so that none waits for the GPU; medians of rounds.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

LAUNCHES, ROUNDS, SLEEP_CLK = 200, 9, 200_000_000


@triton.jit
def by_pointer(a, b, c, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(c + at, tl.load(a + at) + tl.load(b + at))


@triton.jit
def by_one(a, b, c, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(c + at, a.load([0]) + tl.load(b + at))


@triton.jit
def by_two(a, b, c, N: tl.constexpr):
    tl.store(c + tl.arange(0, N), a.load([0]) + b.load([0]))


@triton.jit
def by_three(a, b, c, N: tl.constexpr):
    c.store([0], a.load([0]) + b.load([0]))


def host_s(launch: Callable[[], object]) -> float:
    """Median over rounds of what a launch keeps the host busy for."""
    launch()
    found = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        torch.cuda._sleep(SLEEP_CLK)
        began = time.perf_counter()
        for _ in range(LAUNCHES):
            launch()
        found.append((time.perf_counter() - began) / LAUNCHES)
        torch.cuda.synchronize()
    return statistics.median(found)


def main() -> None:
    tensors = [torch.randn(1024, device="cuda") for _ in range(3)]
    made = [TensorDescriptor.from_tensor(each, [1024]) for each in tensors]
    ways: dict[str, Callable[[], object]] = {}
    for count, kernel in enumerate((by_pointer, by_one, by_two, by_three)):

        def once(kernel=kernel, count=count):
            kernel[(1,)](*made[:count], *tensors[count:], N=1024)

        def anew(kernel=kernel, count=count):
            kernel[(1,)](*(TensorDescriptor.from_tensor(x, [1024]) for x in tensors[:count]), *tensors[count:], N=1024)

        ways[f"{count} made once"] = once
        if count:
            ways[f"{count} made anew"] = anew
    with Path(sys.argv[1]).open("a", encoding="utf-8") as file:
        for way, launch in ways.items():
            row = {"descriptors": way, "host_s": host_s(launch), "gpu": torch.cuda.get_device_name(),
                   "triton": triton.__version__}  # fmt: skip
            file.write(json.dumps(row) + "\n")
            print(row, flush=True)


if __name__ == "__main__":
    main()
