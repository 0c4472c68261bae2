"""What moved between two evaluations of the same tables, and whether anything was lost.

    python benchmarks/tables.py evaluate FOLDER --json > before.json        at one commit
    python benchmarks/tables.py evaluate FOLDER --json > after.json         at another
    python benchmarks/changes.py before.json after.json [--slack 0.005]

Printed is a row in Markdown of each table that both have: the slowdown of the best of the first k picks before and
after, in the geometric mean. A row whose first pick has become worse by more than `--slack` is marked, and the exit
code is then 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Key = tuple[str, str]


def rows(path: Path) -> dict[Key, Mapping[str, float]]:
    """Slowdowns by k, of each table and device. A table in two folders goes by its last two names."""
    found: dict[Key, Mapping[str, float]] = {}
    for row in json.loads(path.read_text())["rows"]:
        found[_key(row)] = {k: value["mean"] for k, value in row["slowdown"].items()}
    return found


def _key(row: Mapping[str, Any]) -> Key:
    return str(row["name"]).replace("tests/data/", ""), str(row["device"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--slack", type=float, default=0.005, help="that k=1 may be worse")
    args = parser.parse_args()
    before, after = rows(args.before), rows(args.after)
    lost, same = [], 0
    print("| table | device | before, k = 1 / 3 / 5 / 10 | after |", "|---|---|---|---|", sep="\n")
    for key in sorted(before.keys() & after.keys()):
        old, new = (" / ".join(f"{value:.3f}" for value in of[key].values()) for of in (before, after))
        if old == new:
            same += 1
            continue
        worse = after[key]["1"] - before[key]["1"] > args.slack
        lost += [key] if worse else []
        print(f"| {key[0]} | {key[1]} | {old} | {f'**{new}**' if worse else new} |")
    print(f"\nUnmoved: {same} rows. Worse by more than {args.slack} at k=1: {len(lost)}.")
    print(f"Before only: {len(before.keys() - after.keys())}, after only: {len(after.keys() - before.keys())}.")
    sys.exit(bool(lost))


if __name__ == "__main__":
    main()
