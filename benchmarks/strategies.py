"""Tries that Kernel Tuner's strategies need to come within 5 % of the best of a whole space, and what carver adds.

    python benchmarks/strategies.py seeds TABLE [--seeds 30] [--topk 10] [--then genetic_algorithm] [--json FILE]
    python benchmarks/strategies.py spaces tests/data/h100/kernel_tuner_spaces.jsonl.gz [--seeds 30] [--json FILE]

No GPU is used: a space becomes a cachefile in a temporary folder, and Kernel Tuner 1.5 replays it in simulation mode.

`seeds`: TABLE is an exhaustive Kernel Tuner table, NAME.csv.gz beside NAME.meta.json. The strategy gets the same random
seeds with and without carver's first hints; a try is a configuration that was not tried before. `spaces`: three kernels
of `kernels/spaces.cu`, all configurations of which were timed on a GPU. Kernel Tuner's random, genetic and Bayesian
strategies try them, a random seed each; carver ranks the space from the kernel's source and tries its first in order;
how many it compiles for that is printed beside.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import math
import random
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import frame
import numpy as np
from adapters import read

from carver.calibrate.tables import Case
from carver.export.kernel_tuner import SeededStrategy
from carver.export.kernel_tuner import seeds as seeds_of

SOURCE = frame.HERE / "kernels" / "spaces.cu"
STRATEGIES = ("random_sample", "genetic_algorithm", "bayes_opt")
WITHIN, BUDGET = 1.05, 400
WIDTH, ORDER, BODIES = 4096, 2048, 24_576
NAMES = ("blur", "sgemm", "bodies")


def write_cachefile(path: Path, configs: Sequence[Mapping[str, int]], seconds: Sequence[float], device: str) -> None:
    """A cachefile as Kernel Tuner 1.5 reads it, from measured configurations; NaN is one that failed."""
    keys = list(configs[0])
    rows = {}
    for config, s in zip(configs, seconds, strict=True):
        failed = not np.isfinite(s)
        rows[",".join(str(config[key]) for key in keys)] = dict(config) | {
            "time": "RuntimeFailedConfig" if failed else s * 1e3, "times": [] if failed else [s * 1e3],
            "compile_time": 0.0, "verification_time": 0.0, "benchmark_time": 0.0, "strategy_time": 0.0,
            "framework_time": 0.0, "timestamp": "2026-01-01 00:00:00+00:00",
        }  # fmt: skip
    head = {
        "device_name": device, "kernel_name": "replayed", "problem_size": 1, "tune_params_keys": keys,
        "tune_params": {key: sorted({config[key] for config in configs}) for key in keys}, "objective": "time",
    }  # fmt: skip
    path.write_text(json.dumps(head | {"cache": rows}))


def trace(cachefile: Path, tune_params: Mapping[str, list[int]], strategy: Any, known: set[tuple[int, ...]], seed: int,
          budget: int) -> list[float]:  # fmt: skip
    """Times of the configurations in the order in which a strategy first tried them. [ms]"""
    import kernel_tuner

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 Kernel Tuner draws from it

    def measured(p: dict[str, Any]) -> bool:
        return tuple(p[key] for key in tune_params) in known

    with contextlib.redirect_stdout(io.StringIO()):
        results, _ = kernel_tuner.tune_kernel(
            "replayed", "__global__ void replayed() {}", 1, [], dict(tune_params), restrictions=measured,
            cache=str(cachefile), simulation_mode=True, strategy=strategy, strategy_options={"max_fevals": budget},
            lang="CUDA", quiet=True,
        )  # fmt: skip
    seen: dict[tuple[int, ...], float] = {}
    for row in results:
        value = row["time"]
        seen.setdefault(tuple(row[key] for key in tune_params), value if isinstance(value, int | float) else np.inf)
    return list(seen.values())


def tries(times: Sequence[float], target: float) -> int:
    """Number of the first at or below the target; one more than were made where none is."""
    return next((i for i, ms in enumerate(times, 1) if ms <= target), len(times) + 1)


def compare(case: Case, topk: int, repeats: int, then: str, budget: int = BUDGET) -> dict[str, Any]:
    """Tries until within 5 % of the best, alone and seeded, one number a random seed."""
    keys = list(case.configs[0])
    tune_params = {key: sorted({config[key] for config in case.configs}) for key in keys}
    known = {tuple(config[key] for key in keys) for config in case.configs}
    target = WITHIN * case.best_s * 1e3
    ranking = case.ranked()
    assert ranking is not None
    first = seeds_of(list(itertools.islice(ranking, topk)), tune_params)
    out: dict[str, Any] = {"table": case.table, "space": len(known), "topk": topk, "then": then}
    out["best_ms"] = case.best_s * 1e3
    with tempfile.TemporaryDirectory() as folder:
        cachefile = Path(folder) / "cache.json"
        write_cachefile(cachefile, case.configs, case.seconds.tolist(), case.arch.title)
        for name, make in (("alone", lambda: then), ("seeded", lambda: SeededStrategy(first, then))):
            counts = [
                tries(trace(cachefile, tune_params, make(), known, seed, budget), target)
                for seed in range(repeats)
            ]
            out[name] = {"median": statistics.median(counts), "mean": statistics.mean(counts), "worst": max(counts),
                         "counts": counts}  # fmt: skip
    return out


def seeds(options: argparse.Namespace) -> dict[str, Any]:
    stem = options.table.name.removesuffix(".csv.gz").removesuffix(".meta.json")
    case = next(iter(read(options.table.with_name(f"{stem}.meta.json"))))
    found = compare(case, options.topk, options.seeds, options.then)
    print(f"{found['table']}: {found['space']} configurations, best {found['best_ms']:.4g} ms, {options.seeds} seeds")
    columns = ("median", "mean", "worst")
    lines = [(name, *(f"{found[name][what]:.1f}" for what in columns)) for name in ("alone", "seeded")]
    print(frame.table((f"tries of {options.then} until within 5 %", *columns), lines))
    return found


def subject(name: str) -> dict[str, Any]:
    """Arguments of `tune_kernel`; of the arrays only the shapes matter."""
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


def spaces(options: argparse.Namespace) -> dict[str, Any]:
    from carver.integrations.kernel_tuner import rank_space

    rows = list(frame.rows(options.table))
    device, found = rows[0]["gpu"], []
    print(f"{'kernel':8}{'space':>7}{'within 5 %':>12}{'best ms':>9}  tries, median of {options.seeds} seeds")
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
                          for seed in range(options.seeds)]  # fmt: skip
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
    return {"gpu": device, "seeds": options.seeds, "kernels": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for run in (seeds, spaces):
        command = commands.add_parser(run.__name__)
        command.set_defaults(run=run)
        command.add_argument("table", type=Path)
        command.add_argument("--seeds", type=int, default=30)
        command.add_argument("--json", type=Path)
        if run is seeds:
            command.add_argument("--topk", type=int, default=10)
            command.add_argument("--then", default="genetic_algorithm")
    options = parser.parse_args()
    found = options.run(options)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
