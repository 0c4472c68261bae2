"""Ways to choose a configuration, side by side, from measured times: seconds they take, what their choice costs.

    python benchmarks/report.py FILE [FILE ...] [--each]
    python benchmarks/report.py tests/data/h100/search.jsonl.gz [--budget 120] [--json]

FILE has what programs wrote that `tests/data/*/README.md` names with their commit: libraries with and without
`enable_triton`, lists tuned again and again (`steady*.jsonl.gz`), PyTorch's compiler with carver's lists and others
(`inductor_blocks.jsonl`, `products.jsonl`, `flex.jsonl`), tuners of other languages (`live_tuners.json`). Each way is
compared with the first of the same case: its seconds and its milliseconds over those, in the geometric mean, and the
worst. Where whole lists were timed besides, the first of the list stands for that, "over the best" is against the
fastest of the list, and a pick that is not the same in all runs is counted, apart where two of its times are 3 % apart.

Of searches by price (`carver.search` of a Helion kernel, with no GPU) printed are the least predicted times of the
seeds, of what was compiled within so many CPU seconds, and of random draws within the same and in all.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, NamedTuple

import frame

Row = Mapping[str, Any]
APART = 1.03
"""Of two picks of one list, the slower over the faster from which they are more than a tie."""
MOST = 60
"""Configurations that a search compiles."""


class Run(NamedTuple):
    """What one way chose for a case, and the seconds that it took; None where nothing was chosen."""

    case: str
    way: str
    seconds: float
    ms: float | None
    pick: int | float | None = None
    """What is chosen, where that is more than its time."""


class Timed(NamedTuple):
    """Of a case: the time that others are compared with, its seconds, and the least known."""

    ms: float
    seconds: float
    best_ms: float


def compiled(rows: Sequence[Row]) -> Iterator[Run]:
    """A row is a case: ways by name."""
    for i, row in enumerate(rows):
        said = " ".join(str(v) for k, v in row.items() if not isinstance(v, dict) and k not in ("torch", "topk"))
        for way in sorted((k for k, v in row.items() if isinstance(v, dict)), key=lambda k: k != "inductor"):
            title = f"{way}, topk={row['topk']}" if "carver" in way else way
            yield Run(f"{i}: {said}", title, row[way]["compile_s"], row[way]["ms"])


def enabled(rows: Sequence[Row]) -> Iterator[Run]:
    for row in sorted(rows, key=lambda row: row["topk"]):
        way = (f"topk={row['topk']}" if row["topk"] else "the tuner alone") + ", warm" * row.get("warm", False)
        yield Run(f"{row['case']} {row['shape']}", way, row["first_s"], row["later_ms"])


def tuners(rows: Sequence[Row]) -> Iterator[Run]:
    for row in sorted(rows, key=lambda row: row["line"]):
        way = "with carver" if row["line"] else "the tuner alone"
        yield Run(f"{row['tool']} {row['problem']}", way, row.get("seconds", math.nan), row.get("ms"))


def steady(rows: Sequence[Row]) -> tuple[list[Run], dict[str, Timed]]:
    """Runs in fresh processes, and what whole lists took."""
    times = {row["timed"]: [median(each) if each else None for each in row["rounds_ms"]]
             for row in rows if "timed" in row}  # fmt: skip
    runs = [
        Run(row["list"], row["way"], row.get("seconds", math.nan),
            None if row["place"] is None else times.get(row["list"], {row["place"]: None})[row["place"]], row["place"])
        for row in rows if "way" in row
    ]  # fmt: skip
    known = {name: [ms for ms in each if ms] for name, each in times.items()}
    return runs, {
        name: Timed(each[0], math.nan, min(known[name])) for name, each in times.items() if known[name] and each[0]
    }


def runs_of(rows: Sequence[Row]) -> tuple[list[Run], dict[str, Timed]]:
    """The runs of a file, and what the ways of each case are compared with: its first where nothing else is known."""
    keys = {key for row in rows for key in row}
    if "rounds_ms" in keys:
        return steady(rows)
    read = enabled if "later_ms" in keys else tuners if "line" in keys else compiled
    runs, cases = list(read(rows)), dict[str, Timed]()
    first = runs[0].way
    for run in runs:
        best = min((other.ms for other in runs if other.case == run.case and other.ms), default=math.nan)
        if run.way == first and run.ms:
            cases[run.case] = Timed(run.ms, run.seconds, best)
    return runs, cases


def summary(runs: Sequence[Run], cases: Mapping[str, Timed]) -> Iterator[tuple[Any, ...]]:
    ways: dict[str, dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        ways[run.way][run.case].append(run)
    for way, found in ways.items():
        times = {case: [run.ms for run in some if run.ms] for case, some in found.items()}
        changed = sum(len({run.pick for run in some} - {None}) > 1 for some in found.values())
        apart = sum(bool(each) and max(each) / min(each) > APART for each in times.values())
        count = max(map(len, found.values()))
        pairs = [(run, cases[case]) for case, some in found.items() if case in cases for run in some if run.ms]
        over = [run.ms / known.ms for run, known in pairs if run.ms]
        best = [run.ms / known.best_ms for run, known in pairs if run.ms]
        spent = [run.seconds / known.seconds for run, known in pairs if math.isfinite(known.seconds)]
        seconds = sum(run.seconds for some in found.values() for run in some if math.isfinite(run.seconds)) / count
        yield (way, len(found), count, f"{changed}, {apart}", f"{seconds:.1f}", *map(_mean, (spent, over)),
               f"{max(over, default=math.nan):.3f}", _mean(best))  # fmt: skip


def _mean(ratios: Sequence[float]) -> str:
    return f"{geometric_mean(ratios):.3f}" if ratios else "-"


def searches(rows: Iterable[Row], budget_s: float) -> list[dict[str, Any]]:
    cases: dict[tuple[str, int, str], dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        cases[row["case"], row["shape"], row["arch"]][row["way"]].append(row)
    found = []
    for (name, shape, arch), ways in cases.items():
        within = [row for row in ways["search"] if row["cpu_s"] <= budget_s][:MOST]
        spent = [sum(row["cpu_s"] for row in ways["random"][: i + 1]) for i in range(len(ways["random"]))]
        alike = [row for row, s in zip(ways["random"], spent, strict=True) if s <= budget_s]
        best = {"search": within, "seeds": [row for row in within if row["origin"] == "seed"],
                "random_same_budget": alike, "random_all": ways["random"]}  # fmt: skip
        least = {f"{way}_ms": min((r["ms"] for r in some if r["ms"]), default=math.inf) for way, some in best.items()}
        near = (i for i, row in enumerate(within, 1) if row["ms"] and row["ms"] <= 1.05 * least["search_ms"])
        found.append({
            "case": name, "shape": shape, "arch": arch, "compiled": len(within), "until_within_5_%": next(near, 0),
            "random": len(ways["random"]), "random_in_budget": len(alike), **least,
        })  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--each", action="store_true", help="each case as well")
    parser.add_argument("--budget", type=float, default=120.0, help="CPU seconds of a search")
    parser.add_argument("--json", action="store_true", help="of searches")
    options = parser.parse_args()
    rows = [row for file in options.files for row in read(file)]
    if any(row.get("way") in ("search", "random") for row in rows):
        found = searches(rows, options.budget)
        lines = [[f"{c:.4f}" if isinstance(c, float) else c for c in row.values()] for row in found]
        print(json.dumps(found) if options.json else frame.table([k.replace("_", " ") for k in found[0]], lines))
        return
    runs, cases = runs_of(rows)
    if options.each:
        each = ((run.case, run.way, f"{run.seconds:.1f}", f"{run.ms:.4f}" if run.ms else "-") for run in runs)
        print(frame.table(("case", "way", "seconds", "ms"), each), end="\n\n")
    heads = ("cases", "runs", "change, apart", "seconds of all", "seconds over", "ms over", "worst", "over the best")
    print(frame.table(("way", *heads), summary(runs, cases)))


def read(file: Path) -> Iterator[dict[str, Any]]:
    """Of lines, or of a file that is one object."""
    if file.suffix == ".json":
        yield from json.loads(file.read_text(encoding="utf-8"))["tunings"]
    else:
        yield from (row for row in frame.rows(file) if row)


if __name__ == "__main__":
    main()
