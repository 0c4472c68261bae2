"""Seconds that the host takes for a launch of a Triton kernel, by what it hands over. Needs an NVIDIA GPU.

    python benchmarks/host_launch.py OUT.jsonl

A kernel of one block has three pointers, or tensor descriptors in the place of one to three of them, made once or anew
for each launch. Launches are queued behind a kernel that sleeps, so that none waits for the GPU; medians of rounds.
Where Helion is installed, one configuration of its product of 512 x 2048 x 8192 too, with pointers and with descriptors
that host or kernel makes: the host's time, and that of a run by launches and in a CUDA graph.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

HERE = Path(__file__).resolve().parent
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


def of_helion() -> Iterator[dict[str, object]]:
    sys.path[:0] = [str(HERE)]
    import helion
    import helion_kernels
    from triton.testing import do_bench, do_bench_cudagraph

    def drawn(*shape: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.randn(*shape, device="cuda", dtype=torch.float32).to(dtype)

    bound, args = helion_kernels.bound("matmul", 1, drawn)
    for indexing, host in (("pointer", False), ("tensor_descriptor", False), ("tensor_descriptor", True)):
        run = bound.compile_config(helion.Config(
            block_sizes=[64, 128, 128], num_warps=4, num_stages=4, range_unroll_factors=[0, 1],
            load_eviction_policies=["", "first"], indexing=[indexing] * 3, host_tensor_descriptors=host,
        ))  # fmt: skip
        yield {
            "helion": indexing, "made by": "host" if host else "kernel", "host_s": host_s(lambda run=run: run(*args)),
            "launches_ms": do_bench(lambda run=run: run(*args), return_mode="median"),
            "graph_ms": do_bench_cudagraph(lambda run=run: run(*args)),
        }  # fmt: skip


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
    rows: Iterator[dict[str, object]] = ({"descriptors": way, "host_s": host_s(launch)} for way, launch in ways.items())
    with Path(sys.argv[1]).open("a", encoding="utf-8") as file:
        for row in chain(rows, of_helion() if find_spec("helion") else ()):
            row |= {"gpu": torch.cuda.get_device_name(), "triton": triton.__version__}
            file.write(json.dumps(row) + "\n")
            print(row, flush=True)


if __name__ == "__main__":
    main()
