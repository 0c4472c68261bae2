"""What learning while measuring gains over rank order, on measured tables.

    python benchmarks/learn.py TABLE ... [--batch 3] [--trials 12] [--most 16] [--skip 0] [--shuffles 0]
                               [--json FILE] [--plot FILE]

TABLE is a file or folder that `carver evaluate` reads, or the JSON of foreign kernels that `benchmarks/compiled.py`
takes: then its attention and tensor-descriptor matmul are ranked by the declarations of carver's own. The problems of a
table that are of one operator, backend and device are tuned one after another in the table's order, at most --most of
them, spread evenly; each gets --trials measurements in batches. Before every batch the candidates are ranked by
`Ranking.learn` with all measurements so far, of the problems before too. A configuration that did not run is a trial.

Prints, after 1, 3, 6, ... trials, the geometric mean over problems (from the --skip-th on) of the best time so far over
the best of the table: learning, and in rank order. --shuffles N takes the mean over N random orders of the problems.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from adapters import read

import carver
from carver.base.errors import ConfigError
from carver.base.given import text_of
from carver.evaluate.tables import Case, seconds
from carver.ranking.learn import to_measure

COUNTS = (1, 3, 6, 9, 12)
NEVER = 2.0
"""Slowdown, in logarithms, that counts while nothing has run."""


def foreign(path: Path, table: dict[str, Any]) -> Iterator[Case]:
    """The problems of another project's kernels, as those of the declarations that come closest."""
    for row in table["results"]:
        match row.get("kind"):
            case "attention":
                template: carver.OpTemplate | Any = carver.FlashAttentionTemplate(**row["problem"], in_dtype="float16")
            case "tma":
                dtype, m, n, k = row["problem"]
                template = carver.MatmulTemplate(m, n, k, in_dtype=dtype, trans_B=True)
            case _:
                continue
        arch = carver.load_arch("h200")
        yield Case(
            f"{path.name}: {row['kind']}", template.problem, arch, "triton", row["configs"], seconds(row["times"])
        )


def cases(path: Path) -> list[Case]:
    if path.name.endswith(".json.gz"):
        table = json.loads(text_of(path, ConfigError))
        if any("kind" in row for row in table.get("results", ()) if isinstance(row, dict)):
            return list(foreign(path, table))
    return list(read(path, lambda remark: None))


Rank = Callable[[Any], carver.Ranking]
"""The candidates of a problem ranked by a profile, or by the model alone where that is None."""


def declared(case: Case) -> Rank:
    return lambda profile: carver.ranking.rank.rank(
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
        for case in cases(path):
            if case.ranked() is not None:
                name = f"{case.table} {case.problem.operator} {case.backend} {case.arch.name}"
                groups.setdefault(name, []).append(case)
    return {name: every[:: -(-len(every) // most)] for name, every in groups.items()}


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


def plot(found: dict[str, Any], counts: Sequence[int], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(found), 3.2), layout="constrained")
    for axes, (name, lost) in zip(figure.subplots(1, len(found), squeeze=False)[0], found.items(), strict=True):
        for which, label, style in (("rank", "rank order", "o--"), ("learn", "learn", "o-")):
            axes.plot(counts, lost[which], style, label=label)
        axes.set(title=name.partition(": ")[2] or name, xlabel="trials", xticks=counts, ylim=(0.98, None))
        axes.set_ylabel("time of the best so far / of all")
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path, nargs="+")
    parser.add_argument("--batch", type=int, default=3)
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--most", type=int, default=16, help="problems of each table")
    parser.add_argument("--skip", type=int, default=0, help="problems at the beginning that the mean leaves out")
    parser.add_argument("--shuffles", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="curves of each table, with Matplotlib")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    counts = [k for k in COUNTS if k <= options.trials]
    heads = " ".join(f"{k:>5}" for k in counts)
    print(f"{'':50} problems  learn {heads}   rank order {heads}")
    found = {}
    for name, group in grouped(options.tables, options.most).items():
        orders = [np.arange(len(group))]
        if options.shuffles:
            orders = [np.random.default_rng(seed).permutation(len(group)) for seed in range(options.shuffles)]
        logs = [replay([group[i] for i in order], options.trials, options.batch, counts) for order in orders]
        kept = [each[options.skip :] if len(each) > options.skip else each for each in logs]
        mean = np.exp(np.mean(np.concatenate(kept), axis=0))
        found[name] = {"problems": len(group), "learn": mean[0].tolist(), "rank": mean[1].tolist()}
        columns = ["  ".join(f"{x:.3f}" for x in row).replace("  ", " ") for row in mean]
        worse = "  worse" if (mean[0] > 1.01 * mean[1]).any() else ""
        print(f"{name[:50]:50} {len(group):8}        {columns[0]}              {columns[1]}{worse}", flush=True)
    if options.plot:
        plot(found, counts, options.plot)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
