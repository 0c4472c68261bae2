"""What learning while measuring gains over rank order, on measured tables.

    python benchmarks/learn.py TABLE ... [--batch 3] [--trials 12] [--most 16] [--skip 0]
    python benchmarks/learn.py tests/data/h200/zoo_learn.jsonl.gz [--compiled] [--seeds 20]

TABLE is a file or folder that `carver evaluate` reads. The problems of a table that are of one operator, backend and
device are tuned one after another in the table's order, at most --most of them, spread evenly; each gets --trials
measurements in batches. Before every batch the candidates are ranked by `Ranking.learn` with all measurements so far,
of the problems before too. A configuration that did not run is a trial.
Printed are, after 1, 3, 6, ... trials, the geometric mean over problems (from the --skip-th on) of the best time so far
over the best of the table: learning, and in rank order.

The second table has every configuration that was listed of `benchmarks/zoo.py`'s causal attention, split-K and
persistent matmul, with the seconds of its compilation, and one call of `triton.autotune` over each list. Printed are
trials and seconds to 99 % of the best, problem after problem of a kernel. A trial takes its compilation (of the problem
that compiled it first: others find it in Triton's cache, and every search pays it at each problem here) and what
Triton's tuner takes for one, which tries the whole list. Kernel Tuner's genetic algorithm, its defaults, runs in its
own simulation mode, where it is installed. The kernels are ranked by the declarations that come closest, or with
--compiled by what Triton makes of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import frame
import numpy as np
from adapters import read

import carver
from carver.calibrate.tables import Case, seconds
from carver.ranking.surrogate import to_measure

COUNTS = (1, 3, 6, 9, 12)
NEVER = 2.0
"""Slowdown, in logarithms, that counts while nothing has run."""
GOAL = 0.99


Rank = Callable[[Any], carver.Ranking]
"""The candidates of a problem ranked by a profile, or by the model alone where that is None."""


def declared(case: Case) -> Rank:
    return lambda profile: carver.ranking.recommend.rank(
        case.problem, case.arch, case.configs, case.backend, profile=profile
    )


def tuned(
    seconds: Any, rank: Rank, profile: Any, trials: int, batch: int
) -> tuple[list[float], list[float], Any, list[int]]:
    """Measured times in the order of learning and in rank order [s], inf for what failed, the profile, the order."""
    times = np.where(np.isfinite(seconds), seconds, np.inf)
    start, ranking = rank(None), rank(profile)
    tried: list[int] = []
    while len(tried) < min(trials, len(start)):
        took = to_measure(ranking, tried, min(times[tried], default=np.inf), batch)
        tried += took
        left = len(tried) < len(ranking.indices) or any(np.isfinite(times[took]))
        if not left:
            break
        ranking = ranking.learn({i: float(times[i]) * 1e3 if np.isfinite(times[i]) else None for i in took})
    return [float(times[i]) for i in tried], [float(times[i]) for i in start.indices], ranking.profile, tried


def grouped(paths: Sequence[Path], most: int) -> dict[str, list[Case]]:
    """The problems that are tuned one after another, at most so many of a table, spread evenly."""
    groups: dict[str, list[Case]] = {}
    for path in paths:
        for case in read(path, lambda remark: None):
            name = f"{case.table} {case.problem.operator} {case.backend} {case.arch.name}"
            groups.setdefault(name, []).append(case)
    some = {name: every[:: -(-len(every) // most)] for name, every in groups.items()}
    ranked = {name: [case for case in every if case.ranked() is not None] for name, every in some.items()}
    return {name: every for name, every in ranked.items() if every}


def slowdowns(times: Sequence[float], best: float, counts: Sequence[int]) -> list[float]:
    lost = [min(times[:k], default=np.inf) / best for k in counts]
    return [float(np.log(x)) if np.isfinite(x) else NEVER for x in lost]


def replay(group: Sequence[Case], trials: int, batch: int, counts: Sequence[int]) -> np.ndarray:
    """Of shape (problems, 2, counts): learning and rank order."""
    profile, out = None, []
    for case in group:
        learnt, ranked, profile, _ = tuned(case.seconds, declared(case), profile, trials, batch)
        out.append([slowdowns(times, case.best_s, counts) for times in (learnt, ranked)])
    return np.array(out)


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


def by_code(subject: Any, problem: Any, case: Case) -> Rank:
    return lambda profile: carver.rank_kernel(
        subject.kernel, case.configs, args=lambda c: subject.args(problem, c), grid=lambda c: subject.grid(problem, c),
        arch=case.arch, constants=subject.constants(problem), values=subject.values(problem), profile=profile,
        compile="all",
    )  # fmt: skip


def first(times: list[float], goal: float) -> int | None:
    return next((n for n, t in enumerate(times, 1) if t <= goal), None)


def genetic(case: Case, seeds: int) -> list[int] | None:
    """Evaluations of Kernel Tuner's genetic algorithm until the goal, a seed each; all and one if it stops before."""
    if find_spec("kernel_tuner") is None:
        return None
    from strategies import trace, tries, write_cachefile

    keys = list(case.configs[0])
    params = {key: sorted({config[key] for config in case.configs}) for key in keys}
    known = {tuple(config[key] for key in keys) for config in case.configs}
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache.json"
        write_cachefile(cache, case.configs, case.seconds.tolist(), case.arch.title)
        goal = case.best_s * 1e3 / GOAL
        return [
            tries(trace(cache, params, "genetic_algorithm", known, seed, len(known)), goal) for seed in range(seeds)
        ]


def to_goal(options: argparse.Namespace) -> None:
    from zoo import BY_NAME

    rows = list(frame.rows(options.tables[0]))
    timed = [row for row in rows if "time_ms" in row]
    own = {(row["kernel"], row["problem"]): row for row in rows if "autotuner_s" in row}
    lines = []
    print("trials, seconds to 99 % of the best; - where it was not reached; Triton's tuner: all, and share of the best")
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
            rank = by_code(BY_NAME[name], problem, case) if options.compiled else declared(case)
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
            lines.append((f"{name} {said:.40}", *cells, f"{len(here)}, {sum(took):.1f} ({reached})", median))
            print(*lines[-1], sep=" | ", file=sys.stderr, flush=True)
    print(frame.table(("", "learn", "rank order", "triton.autotune", "genetic"), lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path, nargs="+")
    parser.add_argument("--batch", type=int, default=3)
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--most", type=int, default=16, help="problems of each table")
    parser.add_argument("--skip", type=int, default=0, help="problems at the beginning that the mean leaves out")
    parser.add_argument("--compiled", action="store_true", help="needs Triton; minutes where nothing is in the cache")
    parser.add_argument("--seeds", type=int, default=20, help="of the genetic algorithm")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.tables[0].name.endswith(".jsonl.gz"):
        to_goal(options)
        return
    counts = [k for k in COUNTS if k <= options.trials]
    lines = []
    for name, group in grouped(options.tables, options.most).items():
        logs = replay(group, options.trials, options.batch, counts)
        mean = np.exp(np.mean(logs[options.skip :] if len(logs) > options.skip else logs, axis=0))
        columns = [" ".join(f"{x:.3f}" for x in row) for row in mean]
        lines.append((name[:50], len(group), *columns, "worse" if (mean[0] > 1.01 * mean[1]).any() else ""))
    print(frame.table((f"after {counts} trials", "problems", "learn", "rank order", ""), lines))


if __name__ == "__main__":
    main()
