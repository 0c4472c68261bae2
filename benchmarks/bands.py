"""Whether bands hold on devices that nobody measured: each chip left out in turn, of every table, reported by family.

    python benchmarks/bands.py FOLDER [--problems 12] [--rows 400] [--json out.json]

A kernel's constants are fitted on the tables of all other chips, from the priors; the band is that of their errors,
widened as carver widens the band of another device. A kernel that no other chip was measured with has the priors and
their band. Printed is the share of times measured on the chip left out that fall inside, of the candidates predicted
near the best.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from math import hypot
from pathlib import Path

import numpy as np
from holdout import chip, kernel, thinned
from rich.console import Console
from rich.progress import track

from carver.calibrate.fitting import errors_near, quantiles
from carver.calibrate.samples import predict_case, samples
from carver.cli.evaluate import tell
from carver.cost.constants import CONSTANTS
from carver.cost.fit import fit
from carver.evaluate.cases import Case
from carver.evaluate.tables import read
from carver.ranking.uncertainty import COVERAGE, WIDENED, share_within


def band(others: Sequence[Case], constants: Mapping[str, float]) -> tuple[float, float]:
    """Of a device that none of the cases is of: logarithms of measured over predicted."""
    if not others:
        return -WIDENED["priors"], WIDENED["priors"]
    low, high = quantiles([errors_near(case, predict_case(case, constants)) for case in others])
    middle, more = (low + high) / 2, WIDENED["other device"]
    return middle - hypot(middle - low, more), middle + hypot(high - middle, more)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--problems", type=int, default=12, help="of a table at most")
    parser.add_argument("--rows", type=int, default=400, help="candidates of a problem at most")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    tables: dict[tuple[str, str, str], dict[str, list[Case]]] = {}
    for case in read(args.folder, tell):
        tables.setdefault(kernel(case), {}).setdefault(case.table, []).append(case)
    priors = {name: constant.prior for name, constant in CONSTANTS.items()}
    rows = []
    for name, found in track(tables.items(), "fitting", console=Console(stderr=True)):
        cases = [case for of_one in found.values() for case in thinned(of_one, rng, args.problems, args.rows)]
        for held in dict.fromkeys(map(chip, cases)):
            others = [case for case in cases if chip(case) != held]
            constants = fit(samples(others), list(CONSTANTS), start=priors) if others else priors
            said = band(others, constants)
            for case in (case for case in cases if chip(case) == held):
                inside = share_within(errors_near(case, predict_case(case, constants)), said)
                rows.append({
                    "family": f"{case.arch.vendor} {held}", "device": case.arch.name, "kernel": "/".join(name),
                    "table": case.table, "constants": "other chips" if others else "priors", "inside": inside,
                })  # fmt: skip
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    print(*shown(rows), sep="\n")


def shown(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Lines of a table in Markdown: a family each, every kernel of it counting the same."""
    lines = [f"Share of measured times inside a band made to hold {COVERAGE:.0%}", ""]
    lines += ["| family left out | devices | kernels | problems | inside | worst kernel |", "|---|---|---|---|---|---|"]
    for family in sorted({str(row["family"]) for row in rows}):
        mine = [row for row in rows if row["family"] == family and np.isfinite(float(str(row["inside"])))]
        by_kernel = {
            name: float(np.mean([float(str(row["inside"])) for row in mine if row["kernel"] == name]))
            for name in sorted({str(row["kernel"]) for row in mine})
        }
        if by_kernel:
            worst = min(by_kernel, key=lambda name: by_kernel[name])
            devices = ", ".join(sorted({str(row["device"]) for row in mine}))
            lines.append(
                f"| {family} | {devices} | {len(by_kernel)} | {len(mine)} | {np.mean(list(by_kernel.values())):.0%} | "
                f"{worst}: {by_kernel[worst]:.0%} |"
            )
    return lines


if __name__ == "__main__":
    main()
