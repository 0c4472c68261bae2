"""How many atomic additions L2 works off, by the bytes that all counters take: how addresses are shared out to slices.

    python benchmarks/atomics.py [--types int32,float32]

Warps add to 32 counters side by side, four sectors, all programs to the same few. Printed for counters of 128 bytes to
4 MiB in all: sectors a second, and over those of the smallest, which are in one slice. `ATOMIC_CLK` and
`SLICE_RUN_BYTES` of `carver/cost/models/compiled.py` say what this is expected to be: clock / 1.3 in one slice, and
1 / (512 / bytes + 1 / slices) times as much in more of them. Needs PyTorch, Triton and a GPU for two seconds.
"""

from __future__ import annotations

import argparse

import torch
import triton
import triton.language as tl
from gpu_time import median_ms

LANES, WARPS, STEPS, SECTOR_BYTES, RUNS = 32, 4, 256, 32, 5
PROGRAMS = 132 * 16
SIZES_BYTES = [1 << n for n in range(7, 23)]


@triton.jit
def add(count_ptr, counters, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """Each step goes on where the last one ended, so that a program meets all slices; `counters`: a power of two."""
    lane = tl.arange(0, BLOCK)
    one = (lane + 1 > 0).to(count_ptr.dtype.element_ty)
    for step in range(STEPS):
        at = (tl.program_id(0) * STEPS + step) * BLOCK + lane
        tl.atomic_add(count_ptr + (at & (counters - 1)), one, sem="relaxed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--types", default="int32,float32")
    flush = torch.empty(2**28, dtype=torch.int8, device="cuda")
    print(f"{torch.cuda.get_device_name()}\n{'type':8} {'bytes':>8} {'sectors/s':>10}  over the smallest")
    for name in parser.parse_args().types.split(","):
        first = 0.0
        for size in SIZES_BYTES:
            count = torch.zeros(size // 4, dtype=getattr(torch, name), device="cuda")

            def run(count: torch.Tensor = count) -> None:
                add[(PROGRAMS,)](count, len(count), STEPS=STEPS, BLOCK=LANES * WARPS, num_warps=WARPS)

            sectors = PROGRAMS * STEPS * LANES * WARPS * 4 // SECTOR_BYTES
            rate = sectors / (median_ms(run, flush, RUNS) / 1e3)
            first = first or rate
            print(f"{name:8} {size:8} {rate:10.3g}  {rate / first:.2f}", flush=True)


if __name__ == "__main__":
    main()
