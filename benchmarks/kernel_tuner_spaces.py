"""Whole spaces of three CUDA kernels, timed once: how much of each a strategy of Kernel Tuner's measures, and carver.

    python benchmarks/kernel_tuner_spaces.py measure FILE.jsonl [--seconds 200] [--threads 48]
    python benchmarks/kernel_tuner_spaces.py replay FILE.jsonl[.gz] [--seeds 30] [--json FILE]

`measure` needs an NVIDIA GPU, nvcc, PyTorch and Kernel Tuner 1.5: it compiles every configuration of
`kernels/spaces.cu`, checks what it writes on random inputs against double precision, and times it 11 times in random
order, with a buffer of 128 MiB read before each launch. A line is written for each as it is done. `replay` needs no
GPU: it makes a cachefile of Kernel Tuner's of each space and lets its random, genetic and Bayesian strategies try
configurations until one is within 5 % of the best, a random seed each. carver ranks the space from the kernel's source
and tries its first configurations in order; how many it compiles for that is printed beside.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

SOURCE = HERE / "kernels" / "spaces.cu"
STRATEGIES = ("random_sample", "genetic_algorithm", "bayes_opt")
WITHIN, BUDGET = 1.05, 400
WIDTH, ORDER, BODIES = 4096, 2048, 24_576
RUNS = 11
NAMES = ("blur", "sgemm", "bodies")


def subject(name: str) -> dict[str, Any]:
    """Arguments of `tune_kernel`; the arrays are empty where only shapes matter."""
    text = f"#define KERNEL_{name} 1\n" + SOURCE.read_text()
    if name == "blur":
        arrays = np.zeros((WIDTH, WIDTH), np.float32), np.zeros((WIDTH + 6, WIDTH + 6), np.float32)
        return {
            "kernel_name": name, "kernel_source": text, "problem_size": (WIDTH, WIDTH), "lang": "CUPY",
            "arguments": [*arrays, np.zeros(49, np.float32), np.int32(WIDTH)],
            "grid_div_x": ["block_size_x", "across"], "grid_div_y": ["block_size_y", "down"],
            "tune_params": {"block_size_x": [16, 32, 64, 128, 256], "block_size_y": [1, 2, 4, 8, 16],
                            "across": [1, 2, 4, 8], "down": [1, 2, 4, 8], "staged": [0, 1], "strided": [0, 1]},
            "restrictions": ["64 <= block_size_x * block_size_y <= 512", "across * down <= 16",
                             "across * down > 1 or strided == 0",
                             "(block_size_x * across + 6) * (block_size_y * down + 6) * 4 <= 49152 or staged == 0"],
        }  # fmt: skip
    if name == "sgemm":
        return {
            "kernel_name": name, "kernel_source": text, "problem_size": (ORDER, ORDER), "lang": "CUPY",
            "arguments": [*(np.zeros((ORDER, ORDER), np.float32) for _ in "cab"), np.int32(ORDER)],
            "grid_div_x": ["block_size_x", "wide"], "grid_div_y": ["block_size_y", "tall"],
            "tune_params": {"block_size_x": [8, 16, 32], "block_size_y": [4, 8, 16, 32], "tall": [1, 2, 4, 8],
                            "wide": [1, 2, 4, 8], "depth": [8, 16, 32], "padded": [0, 1], "ahead": [0, 1]},
            "restrictions": ["64 <= block_size_x * block_size_y <= 512", "4 <= tall * wide",
                             "block_size_y * tall * depth % (block_size_x * block_size_y) == 0",
                             "block_size_x * wide * depth % (block_size_x * block_size_y) == 0",
                             "(block_size_y * tall * (depth + 1) + block_size_x * wide * depth) * 4 <= 49152"],
        }  # fmt: skip
    return {
        "kernel_name": name, "kernel_source": text, "problem_size": (BODIES, "parts"), "lang": "CUPY",
        "arguments": [np.zeros((BODIES, 3), np.float32), np.zeros((BODIES, 4), np.float32), np.int32(BODIES)],
        "grid_div_x": ["block_size_x", "each"], "grid_div_y": [],
        "tune_params": {"block_size_x": [64, 128, 256, 512, 1024], "each": [1, 2, 4, 8], "staged": [0, 1],
                        "unrolled": [1, 2, 4, 8, 16], "parts": [1, 2, 4, 8, 16, 32]},
        "restrictions": ["block_size_x * each <= 4096", "24576 % (block_size_x * each) == 0",
                         "24576 // parts % block_size_x == 0"],
    }  # fmt: skip


def space_of(given: dict[str, Any], threads: int = 1024) -> tuple[Any, Any]:
    """All configurations of the space, and what makes a launch of one."""
    from kernel_tuner.core import KernelSource
    from kernel_tuner.interface import Options, _kernel_options
    from kernel_tuner.searchspace import Searchspace

    from carver.integrations.kernel_tuner import Instances

    kernel = KernelSource(given["kernel_name"], given["kernel_source"], given["lang"], None)
    options = Options({name: given.get(name) for name in _kernel_options})
    names = list(given["tune_params"])
    every = Searchspace(dict(given["tune_params"]), given["restrictions"], threads).list
    return [dict(zip(names, map(int, each), strict=True)) for each in every], Instances(kernel, options)


# -------------------------------------------------------------------------------------------------------- with a GPU


def tensors_of(name: str) -> tuple[list[Any], Any]:
    """The kernel's arguments on the GPU, and what is right of the first."""
    import torch

    torch.manual_seed(1)

    def drawn(*shape: int) -> Any:
        return torch.randn(*shape, device="cuda")

    if name == "blur":
        x, weights = drawn(WIDTH + 6, WIDTH + 6), drawn(49)
        right = torch.nn.functional.conv2d(x.double()[None, None], weights.double().view(1, 1, 7, 7))[0, 0]
        return [torch.zeros_like(right, dtype=torch.float32), x, weights, WIDTH], right
    if name == "sgemm":
        a, b = drawn(ORDER, ORDER), drawn(ORDER, ORDER)
        return [torch.zeros_like(a), a, b, ORDER], a.double() @ b.double()
    body = drawn(BODIES, 4).abs()
    parts = []
    for own in body.double().split(512):
        away = body.double()[None, :, :3] - own[:, None, :3]
        parts.append((away * (((away * away).sum(-1) + 0.01) ** -1.5 * body.double()[:, 3])[..., None]).sum(1))
    return [torch.zeros(BODIES, 3, device="cuda"), body, BODIES], torch.cat(parts)


def measure(out: Path, seconds: float, threads: int) -> None:
    import torch
    from languages import Driver, Loaded, measured

    import carver

    arch, driver, buffer = carver.CUDA(), Driver(), torch.zeros(32 << 20, device="cuda")
    until = time.monotonic() + seconds
    with out.open("a", encoding="utf-8") as file:

        def write(**row: Any) -> None:
            file.write(json.dumps(row) + "\n")
            file.flush()

        write(gpu=torch.cuda.get_device_name(), torch=torch.__version__)
        for place, name in enumerate(NAMES):
            last = until - (len(NAMES) - 1 - place) * seconds / len(NAMES)
            given = subject(name)
            every, instances = space_of(given)
            random.Random(0).shuffle(every)
            (result, *rest), right = tensors_of(name)
            with ThreadPoolExecutor(threads) as pool:  # before anything is timed: launches need the interpreter in time
                made = list(pool.map(partial(built, instances, arch=arch), every))
            print(f"{name}: {len(made)} are compiled, {until - time.monotonic():.0f} s are left", flush=True)
            for config, (code, error) in zip(every, made, strict=True):
                if time.monotonic() > last:
                    break
                if error:
                    write(kernel=name, config=config, error=error)
                    continue
                block, grid = instances.launch(config)
                args = [{"t": str(i)} if isinstance(each, torch.Tensor) else {"s": each, "type": "i32"}
                        for i, each in enumerate([result, *rest])]  # fmt: skip
                one = {"symbol": code.entry, "grid": grid, "block": block, "shared_dynamic": 0, "args": args}
                try:
                    run = Loaded(driver, code.code, one, {str(i): t for i, t in enumerate([result, *rest])}, {})
                    result.zero_()
                    run()
                    driver("cuCtxSynchronize")
                    off = float((result.double() - right).norm() / right.norm())
                    if off < 1e-4:
                        torch.cuda._sleep(3_000_000)  # the queue is full before the first run starts
                        write(kernel=name, config=config, ms=statistics.median(measured(run, buffer, 2, RUNS)))
                    else:
                        write(kernel=name, config=config, error=f"relative error {off:.1e}")
                    driver("cuModuleUnload", run.module)
                except RuntimeError as error:  # a configuration that does not run is a result
                    write(kernel=name, config=config, error=str(error))
            print(f"{name}: {until - time.monotonic():.0f} s are left", flush=True)


def built(instances: Any, config: dict[str, Any], arch: Any) -> tuple[Any, str]:
    """A binary, or why there is none."""
    from carver.base.errors import CarverError

    try:
        return instances.binary(dict(config), arch), ""
    except CarverError as error:
        return None, str(error)[:300]


# ----------------------------------------------------------------------------------------------------------- with none


def tries(times: list[float], target: float) -> int:
    """Number of the first at or below the target; one more than were made where none is."""
    return next((i for i, ms in enumerate(times, 1) if ms <= target), len(times) + 1)


def replay(file: Path, seeds: int, told: Path | None) -> None:
    from kernel_tuner_seeding import trace, write_cachefile

    from carver.integrations.kernel_tuner import rank_space

    text = gzip.decompress(file.read_bytes()).decode() if file.suffix == ".gz" else file.read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    device, found = rows[0]["gpu"], []
    print(f"{'kernel':8}{'space':>7}{'within 5 %':>12}{'best ms':>9}  tries until within 5 %, median of {seeds} seeds")
    for name in NAMES:
        mine = [row for row in rows if row.get("kernel") == name]
        ms = {tuple(row["config"].values()): row.get("ms", math.inf) for row in mine}
        best, params = min(ms.values()), subject(name)["tune_params"]
        one: dict[str, Any] = {"kernel": name, "space": len(mine), "best_ms": best,
                               "within": sum(each <= WITHIN * best for each in ms.values())}  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            cachefile = Path(folder) / "cache.json"
            seconds = [row.get("ms", math.inf) / 1e3 for row in mine]
            write_cachefile(cachefile, [row["config"] for row in mine], seconds, device)
            for strategy in STRATEGIES:
                counts = [tries(trace(cachefile, params, strategy, set(ms), seed, BUDGET), WITHIN * best)
                          for seed in range(seeds)]  # fmt: skip
                one[strategy] = {"median": statistics.median(counts), "worst": max(counts)}
        began = time.process_time()
        ranking = rank_space(**subject(name), arch=device)
        order = [ms.get(tuple(hint.config[key] for key in params), math.inf) for hint in ranking]
        compiled = len(ranking.search.steps) if ranking.search else len(ranking)
        one["carver"] = {"tries": tries(order, WITHIN * best), "compiled": compiled, "first": order[0] / best,
                         "of three": min(order[:3]) / best, "cpu_s": time.process_time() - began}  # fmt: skip
        found.append(one)
        said = ", ".join(f"{each} {one[each]['median']}" for each in STRATEGIES)
        print(f"{name:8}{one['space']:7}{one['within']:12}{best:9.4f}  {said}; carver {one['carver']['tries']}, of "
              f"{compiled} compiled, its first {one['carver']['first']:.3f} of the best", flush=True)  # fmt: skip
    if told:
        told.write_text(json.dumps({"gpu": device, "seeds": seeds, "kernels": found}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("measure", "replay"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--threads", type=int, default=48)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.command == "measure":
        measure(options.file, options.seconds, options.threads)
    else:
        replay(options.file, options.seeds, options.json)


if __name__ == "__main__":
    main()
