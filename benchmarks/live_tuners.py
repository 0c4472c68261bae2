"""Kernel Tuner's tune_kernel on the GPU here, as it is and with `carver.enable`.

    python benchmarks/live_tuners.py OUT.json [--limit 300] [--only blur,turn]

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
BODIES = """
__global__ void __launch_bounds__(block_size_x) bodies(float4 *out, const float4 *in, int n) {
    __shared__ float4 tile[block_size_x * staged];
    const int first = blockIdx.x * block_size_x * each + threadIdx.x;
    float4 own[each];
    float ax[each] = {}, ay[each] = {}, az[each] = {};
    #pragma unroll
    for (int i = 0; i < each; i++) own[i] = in[first + i * block_size_x];
    for (int start = 0; start < n; start += block_size_x * staged) {
        #pragma unroll
        for (int i = 0; i < staged; i++) tile[threadIdx.x + i * block_size_x] = in[start + threadIdx.x + i * block_size_x];
        __syncthreads();
        #pragma unroll loop_unroll_factor_bodies
        for (int j = 0; j < block_size_x * staged; j++) {
            const float4 other = tile[j];
            #pragma unroll
            for (int i = 0; i < each; i++) {
                const float x = other.x - own[i].x, y = other.y - own[i].y, z = other.z - own[i].z;
                const float near = x * x + y * y + z * z + 0.01f, root = rsqrtf(near), pull = other.w * root * root * root;
                ax[i] += x * pull, ay[i] += y * pull, az[i] += z * pull;
            }
        }
        __syncthreads();
    }
    #pragma unroll
    for (int i = 0; i < each; i++) out[first + i * block_size_x] = make_float4(ax[i], ay[i], az[i], 0.0f);
}
"""  # noqa: E501 - CUDA
GEMV = """
__global__ void __launch_bounds__(block_size_x) gemv(float *y, const float *a, const float *x, int rows, int n) {
    __shared__ float kept[block_size_x / 32 * tall];
    const int row = blockIdx.x * tall, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float sum[tall] = {};
    for (int k = threadIdx.x * wide; k < n; k += block_size_x * wide) {
        float v[wide];
        #pragma unroll
        for (int i = 0; i < wide; i++) v[i] = x[k + i];
        #pragma unroll
        for (int r = 0; r < tall; r++)
            #pragma unroll
            for (int i = 0; i < wide; i++) sum[r] += a[(size_t)(row + r) * n + k + i] * v[i];
    }
    #pragma unroll
    for (int r = 0; r < tall; r++) {
        for (int by = 16; by; by /= 2) sum[r] += __shfl_down_sync(~0u, sum[r], by);
        if (!lane) kept[warp * tall + r] = sum[r];
    }
    __syncthreads();
    if (threadIdx.x < tall) {
        float all = 0;
        for (int w = 0; w < block_size_x / 32; w++) all += kept[w * tall + threadIdx.x];
        y[row + threadIdx.x] = all;
    }
}
"""
TURN = """
__global__ void __launch_bounds__(block_size_x * block_size_y) turn(float *out, const float *in, int n) {
    __shared__ float kept[side][side + padding];
    const int x = blockIdx.x * side, y = blockIdx.y * side;
    for (int j = threadIdx.y; j < side; j += block_size_y)
        for (int i = threadIdx.x; i < side; i += block_size_x) kept[j][i] = in[(size_t)(y + j) * n + x + i];
    __syncthreads();
    for (int j = threadIdx.y; j < side; j += block_size_y)
        for (int i = threadIdx.x; i < side; i += block_size_x) out[(size_t)(x + j) * n + y + i] = kept[i][j];
}
"""


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
    if name == "bodies":
        n = np.int32(32768)
        bodies = rng.standard_normal((n, 4)).astype(np.float32)
        bodies[:, 3] = np.abs(bodies[:, 3])
        some = rng.choice(n, 64, replace=False)
        apart = bodies[None, :, :3].astype(float) - bodies[some, None, :3]
        pull = bodies[None, :, 3] / (np.sum(apart**2, 2) + 0.01) ** 1.5
        right = np.full((n, 4), np.nan, np.float32)
        right[some, :3], right[some, 3] = np.einsum("ij,ijk->ik", pull, apart), 0
        params = {"block_size_x": [64, 128, 256, 512], "each": [1, 2, 4], "staged": [1, 2]}
        params |= {"loop_unroll_factor_bodies": [1, 4, 16]}
        return {
            "kernel_name": "bodies", "kernel_source": BODIES, "problem_size": int(n),
            "arguments": [np.zeros((n, 4), np.float32), bodies, n], "answer": [right, None, None],
            "verify": lambda answer, result, atol: bool(
                np.allclose(result[0].reshape(-1, 4)[some], answer[0][some], rtol=1e-3, atol=1e-2 * n**0.5)
            ),
            "grid_div_x": ["block_size_x", "each"], "tune_params": params,
        }  # fmt: skip
    if name == "gemv":
        rows, n = np.int32(8192), np.int32(16384)
        a, x = rng.standard_normal((rows, n)).astype(np.float32), rng.standard_normal(n).astype(np.float32)
        params = {"block_size_x": [32, 64, 128, 256, 512], "tall": [1, 2, 4, 8], "wide": [1, 2, 4, 8]}
        return {
            "kernel_name": "gemv", "kernel_source": GEMV, "problem_size": int(rows), "atol": 1e-1,
            "arguments": [np.zeros(rows, np.float32), a, x, rows, n], "answer": [a @ x, None, None, None, None],
            "grid_div_x": ["tall"], "tune_params": params,
        }  # fmt: skip
    if name == "turn":
        n = np.int32(8192)
        source = rng.standard_normal((n, n)).astype(np.float32)
        params = {"block_size_x": [16, 32, 64], "block_size_y": [2, 4, 8, 16], "side": [16, 32, 64]}
        params |= {"padding": [0, 1, 2]}
        return {
            "kernel_name": "turn", "kernel_source": TURN, "problem_size": (int(n), int(n)),
            "arguments": [np.zeros((n, n), np.float32), source, n], "answer": [source.T.copy(), None, None],
            "grid_div_x": ["side"], "grid_div_y": ["side"], "tune_params": params,
            "restrictions": ["block_size_x <= side", "block_size_y <= side"],
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
    every = [
        ({k: r[k] for k in problem["tune_params"]}, r["time"] if isinstance(r.get("time"), float) else None)
        for r in results
    ]
    best = min((one for one in every if one[1] is not None), key=lambda one: one[1])
    return {
        "seconds": seconds, "timed": len(results), "ms": best[1], "config": best[0],
        "all": [[*config.values(), ms] for config, ms in every],
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
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--only", default="blur,sgemm,bodies,gemv,turn")
    parser.add_argument("--lang", default="CUPY", help="or CUDA, which is PyCUDA")
    parser.add_argument("--one", nargs=3, metavar=("LANG", "PROBLEM", "LINE"))
    asked = parser.parse_args()
    if asked.one:
        asked.out.write_text(json.dumps(one(asked.one[0], asked.one[1], asked.one[2] == "with")))
        return
    began, found = time.monotonic(), []
    for name in asked.only.split(","):
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
            print({k: v for k, v in result.items() if k not in ("device", "all")}, flush=True)
    sys.exit(all("error" in result for result in found))


if __name__ == "__main__":
    main()
