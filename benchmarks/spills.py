"""Time loads and stores of local memory, where compilers keep registers that they spill, by its size and by occupancy.

    python benchmarks/spills.py --out FILE.jsonl

Threads walk an array of their own, which lies in local memory since its index is not known to the compiler: stores,
loads that wait for nothing, loads that each wait for the one before, or a store and a load of another word in turn.
`sm_clk` is how long each pass over the array of all blocks takes, `warp_clk` what one access of one warp takes, both by
the SM's own clock. Needs a GPU and PyTorch.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from pathlib import Path

import torch
from frame import write

SOURCE = """
extern "C" __global__ void walk(long long* clocks, float* out, int* start, int passes, int step, int bound) {
    extern __shared__ float held[];
    float a[WORDS];
    for (int i = 0; i < WORDS; i++) a[(i + start[0]) & (WORDS - 1)] = i + start[1];
    float sum = 0.0f;
    int at = start[0];
    __syncthreads();
    long long began = clock64();
    for (int p = 0; p < passes; p++) {
        #pragma unroll 8
        for (int i = 0; i < WORDS; i++) {
            int j = (at + i * step) & (WORDS - 1);
            if (KIND == 0) a[j] = sum + i;
            if (KIND == 1) sum += a[j];
            if (KIND == 2) { at = (at + 1 + __float_as_int(a[at & (WORDS - 1)]) * start[1]) & (WORDS - 1); }
            if (KIND == 3) { a[j] = sum; sum += a[(j + WORDS / 2) & (WORDS - 1)]; }
        }
        at += start[2];
    }
    long long ended = clock64();
    float rest = 0.0f;
    if (bound < 0) { held[threadIdx.x] = sum; for (int i = 0; i < WORDS; i++) rest += a[(i + at) & (WORDS - 1)]; }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum + at + rest;
    if (threadIdx.x == 0) clocks[blockIdx.x] = ended - began;
}
"""
KINDS = ("store", "load", "chain", "store and load")
WORDS = (16, 32, 64, 128, 256, 512)
THREADS = (128, 256, 512, 1024, 2048)
"""On each SM, in blocks of 128."""
SHARED = (0, 100 * 1024)
"""Bytes of shared memory on each SM, which L1 has not."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    device = torch.cuda.get_device_properties(0)
    sms, start = device.multi_processor_count, torch.zeros(4, dtype=torch.int32, device="cuda")
    for (kind, what), words in itertools.product(enumerate(KINDS), WORDS):
        source = SOURCE.replace("WORDS", str(words)).replace("KIND", str(kind))
        kernel = torch.cuda._compile_kernel(source, "walk")
        for threads, shared in itertools.product(THREADS, SHARED):
            blocks = threads // 128
            clocks = torch.zeros(sms * blocks, dtype=torch.int64, device="cuda")
            out = torch.zeros(sms * threads, device="cuda")
            passes = max(4096 // words, 4)
            each = shared // blocks // 128 * 128
            taken = []
            try:
                if each > 48 * 1024:
                    kernel.set_shared_memory_config(each)
                for _ in range(5):
                    kernel((sms * blocks, 1, 1), (128, 1, 1), [clocks, out, start, passes, 1, 0], each)
                    torch.cuda.synchronize()
                    taken.append(float(clocks.double().mean()))
                why = ""
            except RuntimeError as error:  # what does not launch is a result
                why = str(error).splitlines()[0][:200]
            clk = statistics.median(taken) if taken else None
            row = {"kind": what, "words": words, "threads": threads, "shared": shared, "passes": passes, "why": why}
            row |= {"sm_clk": clk and clk / passes, "warp_clk": clk and clk / passes / words}
            write(options.out, row | {"gpu": device.name})
            print(row, flush=True)


if __name__ == "__main__":
    main()
