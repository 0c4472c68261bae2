"""Whether bands hold on devices that nobody measured: each chip left out in turn, of every table, reported by family.

    python benchmarks/bands.py FOLDER [--problems 12] [--rows 400] [--json out.json]

A kernel's constants are fitted on the tables of all other chips, from the priors; the band is that of their errors,
widened as carver widens the band of another device. A kernel that no other chip was measured with has the priors and
their band. Printed is the share of times measured on the chip left out that fall inside, of the candidates predicted
near the best: with the widths that ship, and with those that the vendor's other families alone would have led to,
which are the least that hold COVERAGE of the times in the mean over families and kernels.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import hypot
from pathlib import Path

import numpy as np
from holdout import chip, kernel, thinned
from rich.console import Console
from rich.progress import track

from carver.base.types import FloatArray
from carver.calibrate.fitting import errors_near, quantiles
from carver.calibrate.samples import predict_case, samples
from carver.cli.evaluate import tell
from carver.cost.constants import CONSTANTS
from carver.cost.fit import fit
from carver.evaluate.cases import Case
from carver.evaluate.tables import read
from carver.ranking.uncertainty import COVERAGE, Kind, share_within, widened

WIDTHS = np.round(np.arange(0.1, 2.01, 0.05), 2).tolist()


@dataclass(frozen=True)
class Left:
    """A case of a chip that was left out: logarithms of measured over predicted."""

    case: Case
    family: str
    kernel: str
    kind: Kind
    errors: FloatArray
    own: tuple[float, float]
    """The band of the cases that its constants were fitted on."""

    @property
    def vendor(self) -> str:
        return self.case.arch.vendor

    def inside(self, more: float) -> float:
        middle = sum(self.own) / 2
        half = hypot(middle - self.own[0], more)
        return share_within(self.errors, (middle - half, middle + half))


def width(rows: Sequence[Left]) -> float:
    """The least of WIDTHS that holds COVERAGE of the times, every family and kernel counting the same."""
    return next((more for more in WIDTHS if held((row, row.inside(more)) for row in rows) >= COVERAGE), WIDTHS[-1])


def held(inside: Iterable[tuple[Left, float]]) -> float:
    """Mean over families and kernels."""
    cells: dict[tuple[str, str], list[float]] = {}
    for row, share in inside:
        if np.isfinite(share):
            cells.setdefault((row.family, row.kernel), []).append(share)
    return float(np.mean([np.mean(shares) for shares in cells.values()])) if cells else float("nan")


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
    rows: list[Left] = []
    for name, found in track(tables.items(), "fitting", console=Console(stderr=True)):
        cases = [case for of_one in found.values() for case in thinned(of_one, rng, args.problems, args.rows)]
        for chip_out in dict.fromkeys(map(chip, cases)):
            others = [case for case in cases if chip(case) != chip_out]
            constants = fit(samples(others), list(CONSTANTS), start=priors) if others else priors
            seen = [errors_near(case, predict_case(case, constants)) for case in others]
            own = quantiles(seen) if seen else (0.0, 0.0)
            kind: Kind = "other device" if others else "priors"
            for case in (case for case in cases if chip(case) == chip_out):
                errors = errors_near(case, predict_case(case, constants))
                rows.append(Left(case, f"{case.arch.vendor} {chip_out}", "/".join(name), kind, errors, own))
    print(*shown(rows), sep="\n")
    if args.json:
        args.json.write_text(json.dumps([
            {"family": row.family, "device": row.case.arch.name, "kernel": row.kernel, "table": row.case.table,
             "constants": row.kind, "inside": row.inside(widened(row.kind, row.case.arch))} for row in rows
        ], indent=1))  # fmt: skip


def shown(rows: Sequence[Left]) -> list[str]:
    """Lines of a table in Markdown: a family each, every kernel of it counting the same."""
    lines = [f"Share of measured times inside a band made to hold {COVERAGE:.0%}", ""]
    lines += ["| family left out | devices | kernels | problems | inside | by other families' widths | worst kernel |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for family in sorted({row.family for row in rows}):
        mine = [row for row in rows if row.family == family]
        others = [row for row in rows if row.family != family and row.vendor == mine[0].vendor]
        widths = {kind: width([row for row in others if row.kind == kind]) for kind in {row.kind for row in mine}}
        shipped = [(row, row.inside(widened(row.kind, row.case.arch))) for row in mine]
        by_kernel = {
            name: held((row, share) for row, share in shipped if row.kernel == name)
            for name in sorted({row.kernel for row in mine})
        }
        worst = min(by_kernel, key=lambda name: by_kernel[name])
        devices = ", ".join(sorted({row.case.arch.name for row in mine}))
        nested = held((row, row.inside(widths[row.kind])) for row in mine)
        lines.append(
            f"| {family} | {devices} | {len(by_kernel)} | {len(mine)} | {held(shipped):.0%} | {nested:.0%} | "
            f"{worst}: {by_kernel[worst]:.0%} |"
        )
    for vendor, kind in sorted({(row.vendor, row.kind) for row in rows}):
        least = width([row for row in rows if (row.vendor, row.kind) == (vendor, kind)])
        lines.append(f"\nLeast width over all families, {vendor}, {kind}: {least:.2f}")
    return lines


if __name__ == "__main__":
    main()
