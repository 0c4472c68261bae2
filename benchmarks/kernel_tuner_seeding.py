"""Evaluations that Kernel Tuner needs to come within 5 % of the best: its genetic algorithm alone and seeded.

    python benchmarks/kernel_tuner_seeding.py TABLE [--seeds 30] [--topk 10] [--then genetic_algorithm] [--json FILE]

TABLE is an exhaustive Kernel Tuner table: NAME.csv.gz beside NAME.meta.json. It becomes a cachefile in a temporary
folder, and Kernel Tuner replays it in simulation mode, so that no GPU is needed. The genetic algorithm gets the same
random seeds with and without carver; an evaluation is a configuration that was not tried before.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import random
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from adapters import read

from carver.evaluate.tables import Case
from carver.export.kernel_tuner import SeededStrategy, seeds

WITHIN = 1.05
BUDGET = 400


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


def evaluations(times: Sequence[float], target: float) -> int:
    """Number of the first try at or below the target; one more than were made where none is."""
    return next((i for i, t in enumerate(times, 1) if t <= target), len(times) + 1)


def compare(case: Case, topk: int, repeats: int, then: str, budget: int = BUDGET) -> dict[str, Any]:
    """Evaluations to within 5 % of the best, alone and seeded, one number a random seed."""
    keys = list(case.configs[0])
    tune_params = {key: sorted({config[key] for config in case.configs}) for key in keys}
    known = {tuple(config[key] for key in keys) for config in case.configs}
    target = WITHIN * case.best_s * 1e3
    ranking = case.ranked()
    assert ranking is not None
    first = seeds(list(itertools.islice(ranking, topk)), tune_params)
    out: dict[str, Any] = {"table": case.table, "space": len(known), "topk": topk, "then": then}
    out["best_ms"] = case.best_s * 1e3
    with tempfile.TemporaryDirectory() as folder:
        cachefile = Path(folder) / "cache.json"
        write_cachefile(cachefile, case.configs, case.seconds.tolist(), case.arch.title)
        for name, make in (("alone", lambda: then), ("seeded", lambda: SeededStrategy(first, then))):
            counts = [
                evaluations(trace(cachefile, tune_params, make(), known, seed, budget), target)
                for seed in range(repeats)
            ]
            out[name] = {"median": statistics.median(counts), "mean": statistics.mean(counts), "worst": max(counts),
                         "counts": counts}  # fmt: skip
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--topk", type=int, default=10)
    parser.add_argument("--then", default="genetic_algorithm")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    stem = given.table.name.removesuffix(".csv.gz").removesuffix(".meta.json")
    case = next(iter(read(given.table.with_name(f"{stem}.meta.json"))))
    found = compare(case, given.topk, given.seeds, given.then)
    print(f"{found['table']}: {found['space']} configurations, best {found['best_ms']:.4g} ms, {given.seeds} seeds")
    print(f"evaluations to within 5 % of the best, {found['then']}")
    for name in ("alone", "seeded"):
        row = found[name]
        print(f"  {name:8} median {row['median']:6.1f}   mean {row['mean']:6.1f}   worst {row['worst']}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
