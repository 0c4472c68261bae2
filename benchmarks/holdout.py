"""What to expect on a GPU, and on an operator, that nobody measured.

    python benchmarks/holdout.py FOLDER [--k 1 3 5 10] [--json out.json]

Scores every measured table under FOLDER three times: with the constants as shipped; with the kernel's constants
fitted on all GPUs of other chips than the table's (leave one GPU out); and with no fitted constant at all, the
priors that hold for a kernel that nobody measured (leave one operator out).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from adapters import read
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from carver.base.types import FloatArray
from carver.calibrate.fitting import predict_case, samples, spaces
from carver.cli.measure import tell
from carver.cost.constants import CONSTANTS
from carver.cost.fit import fit
from carver.evaluate.summary import geometric_mean
from carver.evaluate.tables import Case

MOST_CASES, MOST_ROWS = 150, 1500
"""Cases of one table, and candidates of one case, that a fit sees: more change nothing and take minutes."""
PRIORS = {name: constant.prior for name, constant in CONSTANTS.items()}


def chip(case: Case) -> str:
    """Cards of one chip count as one GPU."""
    return case.arch.isa


def kernel(case: Case) -> tuple[str, str, str]:
    return case.problem.operator, case.backend, spaces(case)[0].kernel.name


def thinned(
    cases: Sequence[Case], rng: np.random.Generator, problems: int = MOST_CASES, most_rows: int = MOST_ROWS
) -> list[Case]:
    """A sample of the cases, and of the candidates of each the fastest tenth of the sample and a share of the rest."""
    chosen = [cases[i] for i in sorted(rng.permutation(len(cases))[:problems])]
    out = []
    for case in chosen:
        rows = rng.permutation(len(case.configs))[:most_rows]
        fastest = np.argsort(np.where(np.isfinite(case.seconds), case.seconds, np.inf))[: most_rows // 10]
        rows = np.unique(np.concatenate([rows, fastest]))
        out.append(dataclasses.replace(case, configs=[case.configs[i] for i in rows], seconds=case.seconds[rows]))
    return out


def slowdowns(case: Case, predicted_s: FloatArray, ks: Sequence[int]) -> list[float]:
    """Time of the best of the first k over the best time. Equal predictions: the order of the table, turned round."""
    predicted = predicted_s[::-1]
    order = len(predicted) - 1 - np.argsort(np.where(np.isfinite(predicted), predicted, np.inf), kind="stable")
    times = np.where(np.isfinite(case.seconds), case.seconds, np.nanmax(case.seconds))[order]
    return [float(times[:k].min() / case.best_s) for k in ks]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--k", type=int, nargs="+", default=[1, 3, 5, 10])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    groups: dict[tuple[str, str, str], list[Case]] = {}
    for case in read(args.folder, tell):
        groups.setdefault(kernel(case), []).append(case)
    rows = []
    for name, cases in track(groups.items(), "fitting", console=Console(stderr=True)):
        for table, held in dict.fromkeys((c.table + (f" ({c.group})" if c.group else ""), chip(c)) for c in cases):
            mine = [c for c in cases if c.table + (f" ({c.group})" if c.group else "") == table]
            others = [c for c in cases if chip(c) != held]
            fitted = fit(samples(thinned(others, rng)), list(CONSTANTS), start=PRIORS) if others else None
            row = {"table": table, "device": mine[0].arch.name, "kernel": "/".join(name), "problems": len(mine)}
            for label, k in (("shipped", {}), ("held out", fitted), ("priors", PRIORS)):
                scores = [slowdowns(c, predict_case(c, k), args.k) for c in mine] if k is not None else []
                row[label] = [geometric_mean(column) for column in zip(*scores, strict=True)] if scores else None
            rows.append(row)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    Console(width=110).print(shown(rows, args.k))


def shown(rows: Sequence[Mapping[str, object]], ks: Sequence[int]) -> Table:
    head = "Slowdown of the best of the first " + ", ".join(map(str, ks))
    table = Table(title=head, box=box.SIMPLE_HEAD, title_justify="left", padding=(0, 1, 0, 0))
    table.add_column("table and device", overflow="fold", min_width=24)
    for name in ("problems", "as shipped", "this GPU left out", "nothing fitted"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        cells = [row[label] for label in ("shipped", "held out", "priors")]
        text = [" ".join(f"{v:.3f}" for v in c) if isinstance(c, list) else "-" for c in cells]
        table.add_row(f"{row['table']}\n[dim]{row['device']}[/]", str(row["problems"]), *text)
    return table


if __name__ == "__main__":
    main()
