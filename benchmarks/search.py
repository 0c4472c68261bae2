"""Search against random draws, offline: Helion kernels at two shapes each, priced for a GPU that need not be there.

    python benchmarks/search.py run FILE.jsonl [--case matmul] [--random 100] [--budget 120] [--arch h100]
    python benchmarks/search.py report FILE.jsonl [--json]

`run` appends a row for each configuration that is compiled; what FILE has is not done again, so it can be stopped at
any time. `report` compares, `tests/data/h100/search.jsonl.gz` as well: the best price within `--budget` CPU seconds and
60 compiled, and the best of the random draws. Of a search each row has the CPU seconds of all its processes so far. A
random draw is Helion's own; it counts whether it compiles or not, and is given up after 20 s.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

SECONDS = 20.0
MOST = 60
TOGETHER = 6
CASES = ("matmul", "matmul_silu", "layer_norm", "attention")


def cpu_s() -> float:
    """Of this process and of all that it waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def rows_of(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    text = gzip.decompress(file.read_bytes()).decode() if file.suffix == ".gz" else file.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def searched(name: str, shape: int, arch: str, tensor: Any) -> Iterator[dict[str, Any]]:
    """A row for each configuration of a search, once it has ended."""
    from benchmarks.helion_kernels import bound
    from carver.integrations.helion import search

    kernel, args = bound(name, shape, tensor)
    began, spent = cpu_s(), list[float]()
    ranking = search(
        kernel, args, arch=arch, budget_s=None, most=MOST, patience=MOST, seconds=SECONDS,
        told=lambda so_far: spent.extend([cpu_s() - began] * (len(so_far.steps) - len(spent))),
    )  # fmt: skip
    assert ranking.search is not None
    for step, cpu in zip(ranking.search.steps, spent, strict=True):
        yield {"ms": step.predicted_ms, "why": step.why, "origin": step.origin, "cpu_s": round(cpu, 2)}


def drawn(name: str, shape: int, arch: str, tensor: Any, done: int, count: int) -> Iterator[dict[str, Any]]:
    """A row for each random draw of Helion's, from the `done`-th on."""
    import random

    import carver
    from benchmarks.helion_kernels import bound
    from carver.base.errors import CarverError
    from carver.cost.models.compiled import fits, price_compiled
    from carver.integrations.helion import HelionKernels, flat

    kernel, args = bound(name, shape, tensor)
    device, draws = carver.load_arch(arch), kernel.config_spec.create_config_generation()
    random.seed(1)
    configs = [flat(draws.random_config()) for _ in range(count)][done:]
    kernels = HelionKernels(kernel, args, device)
    for at in range(0, len(configs), TOGETHER):
        began = cpu_s()
        batch = configs[at : at + TOGETHER]
        found = kernels.facts(batch, SECONDS)
        each = (cpu_s() - began) / len(batch)
        for facts in found:
            why = str(facts) if isinstance(facts, CarverError) else fits(facts, device)
            ms = None if why else 1e3 * float(price_compiled([facts], device)[1].seconds[0])  # type: ignore[list-item]
            yield {"ms": ms, "why": why, "cpu_s": round(each, 2)}


def run(asked: argparse.Namespace) -> None:
    from carver.integrations.helion import absent

    rows = rows_of(asked.file)
    with asked.file.open("a", encoding="utf-8") as out, absent(asked.arch) as tensor:
        for name in asked.case or CASES:
            for shape in (0, 1):
                here = [row for row in rows if (row["case"], row["shape"], row["arch"]) == (name, shape, asked.arch)]
                done = sum(row["way"] == "random" for row in here)
                ways: list[tuple[str, Iterator[dict[str, Any]]]] = []
                if all(row["way"] != "search" for row in here):
                    ways.append(("search", searched(name, shape, asked.arch, tensor)))
                if done < asked.random:
                    ways.append(("random", drawn(name, shape, asked.arch, tensor, done, asked.random)))
                for way, each in ways:
                    of = {"case": name, "shape": shape, "arch": asked.arch, "way": way}
                    for row in each:
                        out.write(json.dumps(of | row) + "\n")
                        out.flush()
                    print(name, shape, way, "done", flush=True)


def report(asked: argparse.Namespace) -> None:
    cases: dict[tuple[str, int, str], dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows_of(asked.file):
        cases[row["case"], row["shape"], row["arch"]][row["way"]].append(row)
    found = []
    for (name, shape, arch), ways in cases.items():
        within = [row for row in ways["search"] if row["cpu_s"] <= asked.budget][:MOST]
        spent, alike = 0.0, list[dict[str, Any]]()
        for row in ways["random"]:
            spent += row["cpu_s"]
            alike += [row] if spent <= asked.budget else []
        best = {
            "search": within, "random_same_budget": alike, "random_all": ways["random"],
            "seeds": [row for row in within if row["origin"] == "seed"],
        }  # fmt: skip
        found.append({
            "case": name, "shape": shape, "arch": arch, "compiled": len(within), "random": len(ways["random"]),
            "random_in_budget": len(alike),
            "random_cpu_s": round(median(row["cpu_s"] for row in ways["random"]), 2) if ways["random"] else None,
            **{f"{way}_ms": min((r["ms"] for r in some if r["ms"]), default=math.inf) for way, some in best.items()},
        })  # fmt: skip
    if asked.json:
        print(json.dumps(found))
        return
    print("case          shape  compiled   search ms    seeds  random, same budget (n)  random, all (n)  search / all")
    for row in found:
        print(
            f"{row['case']:13} {row['shape']:5} {row['compiled']:9} {row['search_ms']:11.4f} {row['seeds_ms']:8.4f} "
            f"{row['random_same_budget_ms']:17.4f} {row['random_in_budget']:6} {row['random_all_ms']:11.4f} "
            f"{row['random']:5} {row['search_ms'] / row['random_all_ms'] if row['random'] else math.nan:12.3f}"
        )
    ratios = [row["search_ms"] / row["random_all_ms"] for row in found if math.isfinite(row["random_all_ms"])]
    if ratios:
        print(f"geometric mean of the last column {geometric_mean(ratios):.3f}, worst {max(ratios):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--random", type=int, default=100)
    parser.add_argument("--budget", type=float, default=120.0, help="CPU seconds of a search")
    parser.add_argument("--arch", default="h100")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    (run if asked.what == "run" else report)(asked)


if __name__ == "__main__":
    main()
