"""What a benchmark of small candidates takes, in this checkout and in another: the cost of what guards measurements.

    git worktree add --detach /tmp/before COMMIT
    python benchmarks/overhead.py --before /tmp/before --repeats 9

Each runs `carver bench` of the 20 first hints of a small sum, compiled before, in turns, `--fresh` each time: both are
met by the same noise. Seconds of the whole command by the clock, and of processors in all its processes, which others
on a busy machine hardly change; medians, and their ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent.parent
COMMAND = (
    "bench", "reduction", "sum", "512", "512", "--dtype", "float32", "--arch", "cpu", "-k", "20", "--fresh", "--quiet",
    "--json", "--rounds", "2", "--warm",
)  # fmt: skip


def seconds(tree: Path, cache: Path) -> tuple[float, float]:
    """Of one run of the command with the package of that checkout, by the clock and of processors; every candidate must
    have worked. [s]"""
    environment = {**os.environ, "PYTHONPATH": str(tree), "CARVER_CACHE_DIR": str(cache)}
    began, used = time.perf_counter(), sum(os.times()[2:4])
    done = subprocess.run([sys.executable, "-m", "carver", *COMMAND], env=environment, cwd=cache,
                          capture_output=True, text=True, check=False)  # fmt: skip
    took = time.perf_counter() - began, sum(os.times()[2:4]) - used
    rows = json.loads(done.stdout)["candidates"] if done.returncode == 0 else []
    if len(rows) < 20 or any(row["outcome"] != "ok" for row in rows):
        raise SystemExit(f"{tree}: {len(rows)} candidates; {done.stderr[-1000:]}")
    return took


def main() -> int:
    parser = argparse.ArgumentParser(description="a benchmark of small candidates, before and after")
    parser.add_argument("--before", type=Path, required=True, help="another checkout")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    trees = {"before": args.before.resolve(), "now": HOME}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in trees}
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(args.repeats + 1):
            for name, tree in trees.items():
                cache = Path(folder) / name
                cache.mkdir(mode=0o700, exist_ok=True)
                took = seconds(tree, cache)
                if turn:  # the first compiles
                    times[name].append(took)
    for place, what in enumerate(("clock", "processor")):
        each = {name: [took[place] for took in every] for name, every in times.items()}
        medians = {name: statistics.median(every) for name, every in each.items()}
        ratio = medians["now"] / medians["before"]
        found[what] = {"median_s": medians, "ratio": ratio, "seconds": each}
        print(f"{what}: before {medians['before']:.2f} s, now {medians['now']:.2f} s, ratio {ratio:.3f}")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
