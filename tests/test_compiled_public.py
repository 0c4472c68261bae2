"""Times that others published of small CUDA kernels, on GPUs with an L2 of 4 to 40 MB. They showed rules that an H200
does not; of constants only `DISPATCH_CLK` was read off them, off those of an A100. Source: threads of karpathy/llm.c,
its kernels written anew: batches of 8 times 1024 tokens, 768 floats each (274, 284, 299, 301), and rows of 50,257
floats (383, 841)."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from everyday import disassembles

import carver

pytestmark = [
    pytest.mark.nvcc,
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc on the PATH"),
    pytest.mark.skipif(not disassembles(), reason="no nvdisasm: it comes with Triton, or the CUDA toolkit"),
]

SOURCE = """
#include <cuda_bf16.h>
extern "C" __global__ void embed(float4* out, const int* tokens, const float4* words, const float4* places) {
  int at = blockIdx.x * blockDim.x + threadIdx.x, token = at / WIDTH, column = at % WIDTH;
  float4 u = words[tokens[token] * WIDTH + column], v = places[token % LENGTH * WIDTH + column];
  out[at] = make_float4(u.x + v.x, u.y + v.y, u.z + v.z, u.w + v.w);
}
extern "C" __global__ void gelu(__nv_bfloat16* out, const __nv_bfloat16* x) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[at];
  out[at] = 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
}
extern "C" __global__ void add(__nv_bfloat16* out, const __nv_bfloat16* x, const __nv_bfloat16* y) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  out[at] = (float)x[at] + (float)y[at];
}
extern "C" __global__ void softmax(float* out, const float* in, int columns) {  // a warp a row, which it reads twice
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  const float* x = in + (size_t)row * columns;
  float top = -INFINITY, sum = 0.0f;
  for (int i = lane; i < columns; i += 32) {
    float v = x[i];
    if (v > top) { sum *= expf(top - v); top = v; }
    sum += expf(v - top);
  }
  for (int away = 16; away; away /= 2) {
    float other = __shfl_xor_sync(~0u, top, away), more = __shfl_xor_sync(~0u, sum, away), both = fmaxf(top, other);
    sum = sum * expf(top - both) + more * expf(other - both);
    top = both;
  }
  for (int i = lane; i < columns; i += 32) out[(size_t)row * columns + i] = expf(x[i] - top) / sum;
}
"""
ROWS, LENGTH, WIDTH, WORDS = 8192, 1024, 192, 50_257


def predicted_ms(
    entry: str, arch: str, threads: int, blocks: tuple[int, ...], args: Mapping[str, Any], values: Mapping[str, Any]
) -> list[float]:
    def made(config: Mapping[str, int]) -> carver.Kernel:
        return carver.Kernel(SOURCE, entry, grid=(threads // config["block"],), block=(config["block"],),
                             defines={"WIDTH": WIDTH, "LENGTH": LENGTH}, flags=["--use_fast_math"])  # fmt: skip

    ranking = carver.rank_kernel(made, [{"block": n} for n in blocks], args=args, arch=arch, values=values)
    times = {hint.config["block"]: hint.predicted_ms for hint in ranking}
    return [times[n] for n in blocks]


def test_positions_come_back_when_a_small_l2_has_lost_them() -> None:
    """The table of places, 3.1 MB, is read again after 9.4 MB."""
    args = {
        "out": carver.Tensor("float32", (ROWS, 4 * WIDTH)), "tokens": carver.Tensor("int32", (ROWS,)),
        "words": carver.Tensor("float32", (WORDS, 4 * WIDTH)), "places": carver.Tensor("float32", (LENGTH, 4 * WIDTH)),
    }  # fmt: skip
    tokens = np.random.default_rng(0).integers(0, WORDS, ROWS, dtype=np.int32)
    blocks = (32, 64, 128, 256, 512, 1024)
    measured = np.array([0.1902, 0.1908, 0.1919, 0.1916, 0.1923, 0.1896])
    found = predicted_ms("embed", "rtx_3070", ROWS * WIDTH, blocks, args, {"tokens": tokens})
    assert np.allclose(found, measured, rtol=0.12)


@pytest.mark.parametrize(("entry", "measured"), [("add", (0.1498, 0.0760)), ("gelu", (0.1502, 0.0761))])
def test_blocks_of_a_warp_are_as_fast_as_they_are_dealt_out(entry: str, measured: tuple[float, float]) -> None:
    count = ROWS * 4 * WIDTH
    names = ("out", "x", "y") if entry == "add" else ("out", "x")
    args = {name: carver.Tensor("bfloat16", (count,)) for name in names}
    assert np.allclose(predicted_ms(entry, "a100_sxm_40", count, (32, 64), args, {}), measured, rtol=0.08)


@pytest.mark.parametrize(("arch", "measured"), [("rtx_3070_laptop", 12.78), ("rtx_4060_laptop", 22.82)])
def test_rows_that_begin_anywhere_are_moved_once_a_pass(arch: str, measured: float) -> None:
    """A warp that goes on where it ended fills the sectors that it began."""
    args = {name: carver.Tensor("float32", (ROWS, WORDS)) for name in ("out", "in")} | {"columns": WORDS}
    [found] = predicted_ms("softmax", arch, ROWS * 32, (128,), args, {})
    assert found == pytest.approx(measured, rel=0.1)
