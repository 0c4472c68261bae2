"""Trials and seconds to 99 % of the best of five problems of three Triton kernels that carver did not write for itself.

    python benchmarks/learn_zoo.py [tests/data/h200/zoo_learn.jsonl.gz] [--compiled] [--seeds 20]

The table has every configuration of `benchmarks/zoo.py`'s causal attention, split-K and persistent matmul that was
listed, measured on a GPU, with the seconds of its compilation, and one call of `triton.autotune` over each list, whose
code was compiled before. Searches are replayed on these times, problem after problem of a kernel: what "learn" has
learnt is carried. A trial takes its compilation (of the problem that compiled it first; others find it in Triton's
cache, and every search pays it at each problem here) and TRIAL_S, what Triton's tuner takes for one. Triton's own tuner
tries the whole list. Kernel Tuner's genetic algorithm, its defaults, runs in its own simulation mode; without Kernel
Tuner installed its column is left out. The kernels are ranked by the declarations that come closest, or with --compiled
by what Triton makes of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from learn import Rank, declared, tuned  # noqa: E402
from zoo import BY_NAME, Subject  # noqa: E402

import carver  # noqa: E402
from carver.base.errors import ConfigError  # noqa: E402
from carver.base.given import text_of  # noqa: E402
from carver.evaluate.tables import Case, seconds  # noqa: E402

TABLE = HERE.parent / "tests" / "data" / "h200" / "zoo_learn.jsonl.gz"
GOAL = 0.99


def case_of(name: str, problem: Any, rows: list[dict[str, Any]]) -> Case:
    arch = carver.load_arch("h200")
    if name == "causal_attention":
        template: Any = carver.FlashAttentionTemplate(
            problem["batch"], problem["heads"], problem["kv_heads"], seq=problem["seq"], head_dim=problem["head"],
            causal=True,
        )  # fmt: skip
    else:
        template = carver.MatmulTemplate(
            problem["M"], problem["N"], problem["K"], in_dtype="float16", trans_B=name == "matmul_persistent"
        )
    times = seconds([row["time_ms"] for row in rows])
    return Case(name, template.problem, arch, "triton", [row["config"] for row in rows], times)


def compiled(subject: Subject, problem: Any, case: Case) -> Rank:
    return lambda profile: carver.rank_kernel(
        subject.kernel, case.configs, args=lambda c: subject.args(problem, c), grid=lambda c: subject.grid(problem, c),
        arch=case.arch, constants=subject.constants(problem), values=subject.values(problem), profile=profile,
        compile="all",
    )  # fmt: skip


def first(times: list[float], goal: float) -> int | None:
    return next((n for n, t in enumerate(times, 1) if t <= goal), None)


def genetic(case: Case, seeds: int) -> list[int] | None:
    """Evaluations of Kernel Tuner's genetic algorithm until the goal, a seed each; all and one if it stops before."""
    try:
        import kernel_tuner  # noqa: F401
    except ImportError:
        return None
    from kernel_tuner_seeding import evaluations, trace, write_cachefile

    keys = list(case.configs[0])
    params = {key: sorted({config[key] for config in case.configs}) for key in keys}
    known = {tuple(config[key] for key in keys) for config in case.configs}
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache.json"
        write_cachefile(cache, case.configs, case.seconds.tolist(), case.arch.title)
        goal = case.best_s * 1e3 / GOAL
        return [
            evaluations(trace(cache, params, "genetic_algorithm", known, seed, len(known)), goal)
            for seed in range(seeds)
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, nargs="?", default=TABLE)
    parser.add_argument("--compiled", action="store_true", help="needs Triton; minutes where nothing is in the cache")
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = [json.loads(line) for line in text_of(options.table, ConfigError).splitlines()]
    timed = [row for row in rows if "time_ms" in row]
    own = {(row["kernel"], row["problem"]): row for row in rows if "autotuner_s" in row}
    print("trials, seconds to 99 % of the best; - where it was not reached; Triton's tuner: all, and share of the best")
    print(f"{'':58} {'learn':>12} {'rank order':>12} {'triton.autotune':>20} {'genetic':>10}")
    for name in dict.fromkeys(row["kernel"] for row in timed):
        profile: Any = None
        for i, problem in enumerate(BY_NAME[name].problems):
            here = [row for row in timed if (row["kernel"], row["problem"]) == (name, i)]
            case = case_of(name, problem, here)
            compile_s = {}
            for row in timed:
                if row["kernel"] == name:
                    key = json.dumps(row["config"], sort_keys=True)
                    compile_s[key] = max(compile_s.get(key, 0.0), row["compile_s"] or 0.0)
            each_s = own[name, i]["autotuner_s"] / len(here)
            took = [compile_s[json.dumps(row["config"], sort_keys=True)] + each_s for row in here]
            rank = compiled(BY_NAME[name], problem, case) if options.compiled else declared(case)
            learnt, ranked, profile, tried = tuned(case.seconds, rank, profile, len(here), 3)
            order = list(rank(None).indices)
            cells = []
            for times, places in ((learnt, tried), (ranked, order)):
                n = first(times, case.best_s / GOAL)
                cells.append("-" if n is None else f"{n}, {sum(took[p] for p in places[:n]):.1f}")
            chosen = next((r["time_ms"] for r in here if r["config"] == own[name, i]["autotuner"]), None)
            reached = f"{case.best_s * 1e3 / chosen:.3f}" if chosen else "?"
            counts = genetic(case, options.seeds)
            median = "" if counts is None else f"{statistics.median(counts):g}"
            if counts is not None:
                mean_s = float(np.mean(took))
                median += f", {statistics.median(counts) * mean_s:.1f}"
            said = " ".join(f"{k}={v}" for k, v in problem.items())
            whole = f"{len(here)}, {sum(took):.1f} ({reached})"
            print(f"{name} {said:40.40} {cells[0]:>12} {cells[1]:>12} {whole:>20} {median:>10}", flush=True)


if __name__ == "__main__":
    main()
