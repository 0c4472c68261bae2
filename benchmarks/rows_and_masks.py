"""Rows read in turn and at random, and matmuls with and without a mask along K.

    python benchmarks/rows_and_masks.py --out FILE.jsonl

Needs a GPU with PyTorch and Triton. Both of a pair are timed in turns, L2 overwritten before each run; medians of 21.
Rows: a table of 512 MB, each row once, by an index that counts up or is a permutation: read only, or copied.
"""

from __future__ import annotations

import argparse
import statistics
from functools import partial
from pathlib import Path
from typing import Any

import frame
import triton
import triton.language as tl
from kernels import triton_changes as kernels

TABLE_BYTES, PROGRAM_BYTES, ROUNDS = 1 << 29, 4096, 21
ROWS_BYTES = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
TILES = ((128, 128, 64, 8, 3), (128, 128, 64, 4, 3), (128, 256, 64, 8, 3), (64, 128, 64, 4, 4), (128, 64, 64, 4, 4),
         (64, 64, 64, 4, 4), (128, 128, 32, 8, 4), (128, 128, 128, 8, 2), (256, 64, 64, 8, 3))  # fmt: skip


@triton.jit
def walk(x, index, y, ROWS: tl.constexpr, WORDS: tl.constexpr, WRITES: tl.constexpr):
    r, c = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, WORDS)
    v = tl.load(x + tl.load(index + r)[:, None].to(tl.int64) * WORDS + c[None, :])
    if WRITES:
        tl.store(y + r[:, None].to(tl.int64) * WORDS + c[None, :], v)
    else:
        tl.store(y + tl.program_id(0), tl.sum(v))


def in_turns(runs: list[Any], flush: Any) -> list[float]:
    for run in runs * 3:
        run()
    times = [[frame.median_ms(run, flush, 1) for run in runs] for _ in range(ROUNDS)]
    return [statistics.median(each) for each in zip(*times, strict=True)]


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    flush = torch.empty(frame.CLEARED_BYTES, dtype=torch.int8, device="cuda")
    x = torch.zeros(TABLE_BYTES // 4, device="cuda")
    y = torch.empty_like(x)
    for bytes_ in ROWS_BYTES:
        count, each = TABLE_BYTES // bytes_, max(PROGRAM_BYTES // bytes_, 1)
        orders = [torch.arange(count, device="cuda", dtype=torch.int32),
                  torch.randperm(count, device="cuda").to(torch.int32)]  # fmt: skip
        for writes in (False, True):
            launch = partial(walk[(count // each,)], x)
            runs = [partial(launch, order, y, each, bytes_ // 4, writes) for order in orders]
            turn, random = in_turns(runs, flush)
            row = {"row_bytes": bytes_, "writes": writes, "turn_ms": turn, "random_ms": random}
            print(row, flush=True)
            frame.write(out, row)
    size = 4096
    a, b, c = (torch.randn(size, size, device="cuda").to(torch.bfloat16) for _ in range(3))
    for tile in TILES:
        m, n, k, warps, stages = tile
        runs = [
            partial(kernels.matmul[(size // m * (size // n),)], a, b, c, size, size, size, m, n, k, 8, mask, False,
                    False, num_warps=warps, num_stages=stages)
            for mask in (True, False)
        ]  # fmt: skip
        masked, plain = in_turns(runs, flush)
        row = {"tile": tile, "masked_ms": masked, "plain_ms": plain}
        print(row, flush=True)
        frame.write(out, row)


if __name__ == "__main__":
    main()
