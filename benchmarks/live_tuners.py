"""Kernel Tuner's tune_kernel on the GPU here, as it is and with `carver.enable`.

    python benchmarks/live_tuners.py OUT.json [--limit 170]

Each problem is tuned twice, in fresh processes with empty caches: by the tool alone over its whole list, and with one
line more. Reported are seconds of tuning, what of the list was timed, and the time of the choice by the tool's own
timer. Problems that the seconds no longer allow are left out. Needs an NVIDIA GPU, PyTorch, and kernel-tuner==1.5.0
with CuPy or PyCUDA.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BLUR = """
__global__ void __launch_bounds__(block_size_x * block_size_y) blur(float *out, const float *in, int width) {
    const int x0 = (blockIdx.x * block_size_x + threadIdx.x) * across;
    const int y0 = (blockIdx.y * block_size_y + threadIdx.y) * down;
    #pragma unroll
    for (int j = 0; j < down; j++)
        #pragma unroll
        for (int i = 0; i < across; i++) {
            float total = 0;
            #pragma unroll
            for (int v = 0; v < 7; v++)
                #pragma unroll
                for (int u = 0; u < 7; u++)
                    total += in[(y0 + j + v) * (width + 6) + x0 + i + u] * (1.0f + u * v);
            out[(y0 + j) * width + x0 + i] = total;
        }
}
"""
SGEMM = """
__global__ void __launch_bounds__(block_size_x * block_size_y) sgemm(float *c, const float *a, const float *b, int n) {
    constexpr int rows = block_size_y * tall, cols = block_size_x * wide, threads = block_size_x * block_size_y;
    __shared__ float as[rows][depth + 1], bs[depth][cols];
    const int thread = threadIdx.y * block_size_x + threadIdx.x, row = blockIdx.y * rows, col = blockIdx.x * cols;
    float sum[tall][wide] = {};
    for (int k = 0; k < n; k += depth) {
        for (int e = thread; e < rows * depth; e += threads) as[e / depth][e % depth] = a[(row + e / depth) * n + k + e % depth];
        for (int e = thread; e < depth * cols; e += threads) bs[e / cols][e % cols] = b[(k + e / cols) * n + col + e % cols];
        __syncthreads();
        #pragma unroll
        for (int d = 0; d < depth; d++)
            #pragma unroll
            for (int i = 0; i < tall; i++)
                #pragma unroll
                for (int j = 0; j < wide; j++)
                    sum[i][j] += as[threadIdx.y + i * block_size_y][d] * bs[d][threadIdx.x + j * block_size_x];
        __syncthreads();
    }
    for (int i = 0; i < tall; i++)
        for (int j = 0; j < wide; j++)
            c[(row + threadIdx.y + i * block_size_y) * n + col + threadIdx.x + j * block_size_x] = sum[i][j];
}
"""  # noqa: E501 - CUDA


def kernel_tuner_problem(name: str) -> dict[str, Any]:
    """Arguments of `tune_kernel`, with the right answer."""
    import numpy as np

    rng = np.random.default_rng(1)
    if name == "blur":
        width = height = np.int32(4096)
        source = rng.standard_normal((height + 6, width + 6)).astype(np.float32)
        out = np.zeros((height, width), np.float32)
        taps = 1 + np.outer(np.arange(7), np.arange(7))
        right = sum(taps[v, u] * source[v : v + height, u : u + width] for v in range(7) for u in range(7))
        params = {"block_size_x": [16, 32, 64, 128], "block_size_y": [1, 2, 4, 8]}
        params |= {"across": [1, 2, 4], "down": [1, 2, 4]}
        return {
            "kernel_name": "blur", "kernel_source": BLUR, "problem_size": (int(width), int(height)),
            "arguments": [out, source, width], "answer": [right.astype(np.float32), None, None],
            "grid_div_x": ["block_size_x", "across"], "grid_div_y": ["block_size_y", "down"], "tune_params": params,
            "restrictions": ["64 <= block_size_x * block_size_y <= 512", "across * down != 2"], "atol": 1e-1,
        }  # fmt: skip
    n = np.int32(2048)
    a, b = (rng.standard_normal((n, n)).astype(np.float32) for _ in "ab")
    params = {"block_size_x": [8, 16, 32], "block_size_y": [8, 16]}
    params |= {"tall": [2, 4, 8], "wide": [2, 4, 8], "depth": [8, 16]}
    return {
        "kernel_name": "sgemm", "kernel_source": SGEMM, "problem_size": (int(n), int(n)),
        "arguments": [np.zeros((n, n), np.float32), a, b, n], "answer": [a @ b, None, None, None], "atol": 1e-1,
        "grid_div_x": ["block_size_x", "wide"], "grid_div_y": ["block_size_y", "tall"], "tune_params": params,
        "restrictions": ["tall * wide >= 8", "block_size_x >= block_size_y"],
    }  # fmt: skip


def tune_with_kernel_tuner(name: str, lang: str) -> dict[str, Any]:
    import kernel_tuner

    problem = kernel_tuner_problem(name)
    began = time.perf_counter()
    results, _ = kernel_tuner.tune_kernel(**problem, lang=lang, quiet=True, iterations=9)
    seconds = time.perf_counter() - began
    timed = [r for r in results if isinstance(r.get("time"), float)]
    best = min(timed, key=lambda r: r["time"])
    return {
        "seconds": seconds, "timed": len(results), "ms": best["time"],
        "config": {k: best[k] for k in problem["tune_params"]},
    }  # fmt: skip


def one(lang: str, name: str, line: bool) -> dict[str, Any]:
    """Tune one problem in this process."""
    import torch

    device = torch.cuda.get_device_name()
    log = None
    if line:
        import carver

        log = carver.enable("kernel_tuner", arch=device)
    found = tune_with_kernel_tuner(name, lang)
    if log is not None:
        found |= {"timed": log[0].kept, "listed": log[0].listed, "why": log[0].why, "rank_s": log[0].seconds}
    return found | {"device": device, "line": line, "tool": "kernel_tuner", "problem": name}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--limit", type=float, default=170.0)
    parser.add_argument("--lang", default="CUPY", help="or CUDA, which is PyCUDA")
    parser.add_argument("--one", nargs=3, metavar=("LANG", "PROBLEM", "LINE"))
    asked = parser.parse_args()
    if asked.one:
        asked.out.write_text(json.dumps(one(asked.one[0], asked.one[1], asked.one[2] == "with")))
        return
    began, found = time.monotonic(), []
    for name in ("blur", "sgemm"):
        for line in ("with", "without"):
            left = asked.limit - (time.monotonic() - began)
            if left < 25:
                continue
            with tempfile.TemporaryDirectory() as folder:
                caches = {n: f"{folder}/{n}" for n in ("CARVER_CACHE_DIR", "CUPY_CACHE_DIR")}
                command = [sys.executable, __file__, f"{folder}/one.json", "--one", asked.lang, name, line]
                try:
                    done = subprocess.run(
                        command, env=os.environ | caches, timeout=left, capture_output=True, text=True, check=False,
                        cwd=folder,
                    )  # fmt: skip
                    result = json.loads(Path(folder, "one.json").read_text())
                except (subprocess.TimeoutExpired, FileNotFoundError) as error:
                    said = done.stderr[-1500:] if isinstance(error, FileNotFoundError) else "out of time"
                    result = {"tool": "kernel_tuner", "problem": name, "line": line == "with", "error": said}
            found.append(result)
            asked.out.write_text(json.dumps(found, indent=1))
            print({k: v for k, v in result.items() if k != "device"}, flush=True)
    sys.exit(all("error" in result for result in found))


if __name__ == "__main__":
    main()
