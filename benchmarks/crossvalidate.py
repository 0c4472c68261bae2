"""Each half of a table's problems ranked with constants fitted on the other half, starting from the priors.

    python benchmarks/crossvalidate.py TABLE_OR_FOLDER [--folds 2] [--k 1 3 5 10]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from adapters import read
from holdout import PRIORS, slowdowns
from rich import box
from rich.console import Console
from rich.table import Table

from carver.calibrate.fitting import predict_case, samples, spaces
from carver.cli.measure import tell
from carver.cost.fit import fit, identified
from carver.evaluate.summary import geometric_mean
from carver.evaluate.tables import Case


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--k", type=int, nargs="+", default=[1, 3, 5, 10])
    args = parser.parse_args()
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in read(args.path, tell):
        groups.setdefault((case.table, case.problem.operator), []).append(case)
    table = Table(title="Best time over the time of the best of the first k", box=box.SIMPLE_HEAD, title_justify="left")
    for name in ("table", "operator", "problems", *(f"k={k}" for k in args.k), f"worst, k={args.k[-1]}"):
        table.add_column(name, justify="left" if name in ("table", "operator") else "right")
    for (name, operator), cases in groups.items():
        scores = held_out(cases, args.folds, args.k)
        means = [f"{1 / geometric_mean(column):.3f}" for column in zip(*scores, strict=True)]
        table.add_row(name, operator, str(len(cases)), *means, f"{1 / max(row[-1] for row in scores):.3f}")
    Console(width=110).print(table)


def held_out(cases: list[Case], folds: int, ks: list[int]) -> list[list[float]]:
    """Slowdowns of each case. Problems that differ in their types alone stay in one fold."""
    shapes = list(dict.fromkeys(tuple(c.problem.sizes.values()) for c in cases))
    fold = np.array([shapes.index(tuple(c.problem.sizes.values())) % folds for c in cases])
    out: list[list[float]] = [[]] * len(cases)
    for f in range(folds):
        rest = samples(c for c, mine in zip(cases, fold, strict=True) if mine != f)
        by_kernel = {s.space.kernel: [t for t in rest if t.space.kernel is s.space.kernel] for s in rest}
        fitted = {kernel: fit(group, identified(group, PRIORS), start=PRIORS) for kernel, group in by_kernel.items()}
        for i in np.flatnonzero(fold == f):
            predicted = np.full(len(cases[i].configs), np.nan)
            for space in spaces(cases[i]):
                own = predict_case(cases[i], {**PRIORS, **fitted.get(space.kernel, {})})
                predicted[space.index] = own[space.index]
            out[i] = slowdowns(cases[i], predicted, ks)
    return out


if __name__ == "__main__":
    main()
