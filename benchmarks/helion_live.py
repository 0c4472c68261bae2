"""Helion's own searches on the GPU of this machine beside carver's, with few configurations measured and with none.

    python benchmarks/helion_live.py run OUT.jsonl [--cases matmul attention] [--shapes 0] [--efforts quick]
    python benchmarks/helion_live.py report OUT.jsonl

Each kernel of `helion_kernels.py` is tuned in fresh processes with empty caches: by Helion at its quick or full effort,
by `carver.integrations.helion_tuner.autotuner` with 8 configurations measured, and with none. Helion's own searches end
by themselves or, with what they have found, by its setting of a budget: the seconds that are left. What each chose, and
the configuration that Helion takes where it measures nothing, are then timed in one process, in rounds in another order
each, L2 cleared before each run. Every line is written as it comes. Needs an NVIDIA GPU, PyTorch and Helion 1.5.1.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

ROUNDS = 7
LATE_S = 20.0
"""Between the end of a search's budget and that of its process: imports, binding, what is being compiled."""
OURS = {"carver, 8 measured": 8, "carver, none measured": 0}


def drawn(*shape: int, dtype: Any) -> Any:
    import torch

    return torch.randn(*shape, device="cuda", dtype=torch.float32).to(dtype)


def tuned(way: str, case: str, shape: int) -> dict[str, Any]:
    """What one way chooses, in this process."""
    if way not in OURS:
        os.environ["HELION_AUTOTUNE_EFFORT"] = way.rpartition(" ")[-1]
    import helion
    import helion_kernels
    from helion.autotuner import base_search

    counted = [0]
    inner = base_search.BaseSearch.benchmark_batch

    def counting(self: Any, configs: Any, *args: Any, **kwargs: Any) -> Any:
        counted[0] += len(configs)
        return inner(self, configs, *args, **kwargs)

    base_search.BaseSearch.benchmark_batch = counting
    if way in OURS:
        from carver.integrations.helion_tuner import autotuner

        kernel = helion_kernels.CASES[case][0]
        helion_kernels.CASES[case] = (
            helion.kernel(kernel.fn, static_shapes=True, autotuner_fn=autotuner(topk=OURS[way])),
            helion_kernels.CASES[case][1],
        )
    bound, args = helion_kernels.bound(case, shape, drawn)
    bound.env  # noqa: B018 - binding is not part of tuning
    began = time.monotonic()
    config = bound.autotune(args)
    return {"seconds": time.monotonic() - began, "measured": counted[0], "config": config.config}


def timed(case: str, shape: int, configs: dict[str, Any], write: Callable[[dict[str, Any]], None]) -> None:
    """All choices and Helion's default, in rounds."""
    import helion
    import helion_kernels
    import torch
    from triton.testing import do_bench

    bound, args = helion_kernels.bound(case, shape, drawn)
    every = {"Helion, default": bound.config_spec.default_config()}
    every |= {way: helion.Config(**config) for way, config in configs.items()}
    run = {way: bound.compile_config(config) for way, config in every.items()}
    right = run["Helion, default"](*args).float()
    found: dict[str, list[float]] = {way: [] for way in run}
    off = {way: float((call(*args).float() - right).abs().max()) for way, call in run.items()}
    order = random.Random(0)
    for _ in range(ROUNDS):
        for way in order.sample(list(run), len(run)):
            found[way].append(do_bench(lambda way=way: run[way](*args), warmup=20, rep=60, return_mode="median"))
    for way, times in found.items():
        write({"case": case, "shape": shape, "way": way, "ms": statistics.median(times), "rounds_ms": times,
               "off": off[way], "gpu": torch.cuda.get_device_name()})  # fmt: skip


def run(options: argparse.Namespace) -> None:
    until = time.monotonic() + options.limit

    def write(row: dict[str, Any]) -> None:
        with options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print({k: v for k, v in row.items() if k not in ("config", "rounds_ms")}, flush=True)

    for shape in options.shapes:
        for case in options.cases:
            configs: dict[str, Any] = {}
            for way in [*OURS, *(f"Helion, {effort}" for effort in options.efforts)]:
                left = min(until - time.monotonic() - LATE_S, options.longest)
                if left < 2 * LATE_S:
                    continue
                with tempfile.TemporaryDirectory() as home:
                    caches = {"TRITON_CACHE_DIR": "triton", "CARVER_CACHE_DIR": "carver", "HELION_CACHE_DIR": "helion",
                              "TORCHINDUCTOR_CACHE_DIR": "inductor"}  # fmt: skip
                    env = os.environ | {name: f"{home}/{folder}" for name, folder in caches.items()}
                    command = [sys.executable, __file__, "one", f"{home}/one.json", "--way", way, "--cases", case,
                               "--shapes", str(shape)]  # fmt: skip
                    row: dict[str, Any] = {"case": case, "shape": shape, "way": way}
                    if way not in OURS:
                        row["budget_s"] = int(left - LATE_S)
                        env["HELION_AUTOTUNE_BUDGET_SECONDS"] = str(row["budget_s"])
                    try:
                        done = subprocess.run(
                            command, env=env, timeout=left, capture_output=True, text=True, check=False
                        )
                        row |= json.loads(Path(home, "one.json").read_text())
                        configs[way] = row["config"]
                    except subprocess.TimeoutExpired:
                        row["error"] = f"not ended after {left:.0f} s"
                    except FileNotFoundError:
                        row["error"] = done.stderr[-1500:]
                    write(row)
            timed(case, shape, configs, write)


def report(options: argparse.Namespace) -> None:
    """Of each way: seconds, configurations measured, and its time over that of Helion's search."""
    rows = [json.loads(line) for line in options.out.read_text().splitlines()]
    ms = {(r["case"], r["shape"], r["way"]): r["ms"] for r in rows if "ms" in r}
    ways = list(dict.fromkeys(r["way"] for r in rows))
    print(f"{'way':24}{'problems':>9}{'seconds':>9}{'measured':>9}{'over the best':>15}{'worst':>8}")
    for way in ways:
        mine = {key: each for key, each in ms.items() if key[2] == way}
        over = [each / min(v for k, v in ms.items() if k[:2] == key[:2]) for key, each in mine.items()]
        took = [r for r in rows if r["way"] == way and "seconds" in r]
        seconds = statistics.median(r["seconds"] for r in took) if took else 0.0
        measured = statistics.median(r["measured"] for r in took) if took else 0
        mean = math.exp(statistics.fmean(map(math.log, over))) if over else math.nan
        print(f"{way:24}{len(mine):9}{seconds:9.1f}{measured:9.0f}{mean:15.3f}{max(over, default=math.nan):8.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "one", "report"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--cases", nargs="+", default=["matmul", "matmul_silu", "layer_norm", "attention"])
    parser.add_argument("--shapes", nargs="+", type=int, default=[0])
    parser.add_argument("--efforts", nargs="*", default=["quick"])
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for all")
    parser.add_argument("--longest", type=float, default=90.0, help="seconds for one search")
    parser.add_argument("--way", default="")
    options = parser.parse_args()
    if options.command == "one":
        options.out.write_text(json.dumps(tuned(options.way, options.cases[0], options.shapes[0]), default=str))
    elif options.command == "run":
        run(options)
    else:
        report(options)


if __name__ == "__main__":
    main()
