"""Clocks that an SM needs for cp.async of a warp, by how its lanes' words lie in global and in shared memory.

    python benchmarks/copies.py

Eight warps of an SM copy from lines that are in L1, eight copies in a row. Lanes that copy the same word take turns, in
each line for itself, as do lanes that write to the same bank; plain loads of one word cost no more than of 32.
`_turns` of `carver/compiled/isa/banks.py` says what this is expected to be. Needs PyCUDA, nvcc and a GPU for a second.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

SOURCE = r"""
template <int BYTES> __device__ void copy(unsigned to, const void *from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES) : "memory");
}
extern "C" __global__ void __launch_bounds__(256)
copies(const char *from, const int *global_bytes, const int *shared_bytes, float *out, long long *clocks, int times) {
    extern __shared__ __align__(128) char room[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const char *const mine = from + (blockIdx.x * 8 + warp) * 8192 + global_bytes[lane];
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(room)) + warp * 4096 + shared_bytes[lane];
    float sum = 0.f;
    __syncthreads();
    const long long began = clock64();
    for (int time = 0; time < times; ++time) {
#pragma unroll
        for (int each = 0; each < 8; ++each) {
#if COPIED == 0
            sum += *reinterpret_cast<const volatile float *>(mine);
#else
            copy<COPIED>(to, mine);
#endif
        }
        asm volatile("cp.async.commit_group;\ncp.async.wait_group 4;" ::: "memory");
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) clocks[blockIdx.x] = clock64() - began;
    out[blockIdx.x * 256 + threadIdx.x] = sum + room[threadIdx.x];
}
"""
LANE = np.arange(32)
WAYS: dict[str, Callable[[int], tuple[Any, Any]]] = {  # for so many bytes a copy: where lanes read, where they write
    "neighbours": lambda b: (b * LANE, b * LANE),
    "pairs of lanes want a word": lambda b: (b * (LANE // 2), b * LANE),
    "lanes i and i + 16 want a word": lambda b: (b * (LANE % 16), b * LANE),
    "four neighbours want a word": lambda b: (b * (LANE // 4), b * LANE),
    "16 lanes want a word": lambda b: (b * (LANE // 16), b * LANE),
    "all lanes want a word": lambda b: (0 * LANE, b * LANE),
    "two lines, 16 lanes want a word of each": lambda b: (128 * (LANE // 16), b * LANE),
    "four lines, 8 lanes want a word of each": lambda b: (128 * (LANE // 8), b * LANE),
    "eight lines of four words": lambda b: (128 * (LANE // 4) + b * (LANE % 4), b * LANE),
    "a line each": lambda b: (128 * LANE, b * LANE),
    "rows of 64 bytes in shared memory": lambda b: (b * LANE, 64 * LANE),
    "both, a line for each two": lambda b: (64 * LANE, 64 * LANE),
}
TIMES, RUNS = 2000, 3


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    import pycuda.autoprimaryctx  # noqa: F401
    import pycuda.driver as cuda
    from pycuda.compiler import SourceModule

    device = cuda.Context.get_device()
    blocks = device.multiprocessor_count
    kernels: dict[int, Any] = {
        size: SourceModule(SOURCE, options=["-std=c++17", f"-DCOPIED={size}"], no_extern_c=True).get_function("copies")
        for size in (4, 8, 0)
    }
    memory = cuda.mem_alloc(blocks * 8 * 8192)
    cuda.memset_d32(memory, 0x3F800000, blocks * 8 * 2048)
    out, clocks = np.empty(blocks * 256, np.float32), np.empty(blocks, np.int64)
    print(f"{device.name()}\n{'clocks a warp':42} {'copy of 4':>10} {'copy of 8':>10} {'load of 4':>10}")
    for name, places in WAYS.items():
        line = f"{name:42}"
        for size, kernel in kernels.items():
            given = [cuda.In(np.asarray(place, np.int32)) for place in places(size or 4)]
            found = []
            for _ in range(RUNS):
                kernel(memory, *given, cuda.Out(out), cuda.Out(clocks), np.int32(TIMES), block=(256, 1, 1),
                       grid=(blocks, 1), shared=8 * 4096)  # fmt: skip
                found.append(median(clocks.tolist()) / (8 * 8 * TIMES))
            line += f" {median(found):10.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
