"""Whether bands hold on devices that nobody measured: each chip left out in turn, of every table, reported by family.

    python benchmarks/bands.py FOLDER [--problems 12] [--rows 400] [--drop TABLE:COLUMN=VALUE ...] [--json out.json]

A kernel's constants are fitted on the tables of all other chips, from the priors, and where chips of two vendors have
one, on those of the other vendor alone; the band is that of their errors, widened as carver widens it. A kernel that no
other chip was measured with has the priors and their band. Printed is the share of times measured on the chip left out
that fall inside, of all candidates predicted near the best: with the widths that ship, and with those that the other
families alone would have led to. Those are the least that hold COVERAGE of the times of each family, its kernels
counting the same. `--drop` leaves out rows, such as those that a compiler no longer makes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from adapters import read
from holdout import PRIORS, chip, kernel, thinned
from rich.console import Console
from rich.progress import track

from carver.base.types import FloatArray
from carver.calibrate.fitting import errors_near, predict_case, quantiles, samples
from carver.cli.measure import tell
from carver.cost.fit import fit
from carver.evaluate.tables import Case
from carver.ranking.uncertainty import COVERAGE, WIDENED, Kind, share_within, widened

WIDTHS = np.round(np.arange(0.1, 1.01, 0.05), 2).tolist()
"""A band of more than 2.7 times either side is of no use: what a family needs beyond that, none of its kin gets."""


class Sampled(NamedTuple):
    """A problem with all its candidates, and with those that constants are fitted on."""

    whole: Case
    some: Case


@dataclass(frozen=True)
class Left:
    """A case of a chip that was left out: logarithms of measured over predicted."""

    case: Case
    kernel: str
    kind: Kind
    errors: FloatArray
    own: tuple[float, float]
    """The band of the cases that its constants were fitted on."""

    @property
    def family(self) -> str:
        return f"{self.case.arch.vendor} {chip(self.case)}"

    def inside(self, more: float) -> float:
        return share_within(self.errors, widened(self.own, more))


def width(rows: Sequence[Left]) -> float:
    """The least of WIDTHS that holds COVERAGE of the times in each family that any of them holds it in."""
    families = {row.family for row in rows}
    least = [
        next((more for more in WIDTHS if held([r for r in rows if r.family == one], more) >= COVERAGE), 0.0)
        for one in families
    ]
    return max(least, default=float("nan"))


def held(rows: Iterable[Left], more: float) -> float:
    """Share inside, in the mean over kernels."""
    kernels: dict[str, list[float]] = {}
    for row in rows:
        if np.isfinite(share := row.inside(more)):
            kernels.setdefault(row.kernel, []).append(share)
    return float(np.mean([np.mean(shares) for shares in kernels.values()])) if kernels else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--problems", type=int, default=12, help="of a table at most")
    parser.add_argument("--rows", type=int, default=400, help="candidates of a problem to fit on, at most")
    parser.add_argument("--drop", nargs="+", default=[], metavar="TABLE:COLUMN=VALUE", help="rows to leave out")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    tables: dict[tuple[str, str, str], dict[str, list[Case]]] = {}
    for case in read(args.folder, tell):
        if len((case := without(case, args.drop)).configs):
            tables.setdefault(kernel(case), {}).setdefault(case.table, []).append(case)
    rows: list[Left] = []
    for name, found in track(tables.items(), "fitting", console=Console(stderr=True)):
        chosen = [of_one[i] for of_one in found.values() for i in rng.permutation(len(of_one))[: args.problems]]
        cases = [Sampled(case, *thinned([case], rng, 1, args.rows)) for case in chosen]
        for one in dict.fromkeys(map(chip, chosen)):
            rows += left_out("/".join(name), cases, lambda case, one=one: chip(case) == one)
        for one in dict.fromkeys(case.arch.vendor for case in chosen):
            if len({chip(case) for case in chosen if case.arch.vendor == one}) > 1:
                far = left_out("/".join(name), cases, lambda case, one=one: case.arch.vendor == one)
                rows += [row for row in far if row.kind == "other vendor"]
    print(*shown(rows), sep="\n")
    if args.json:
        args.json.write_text(json.dumps([
            {"family": row.family, "device": row.case.arch.name, "kernel": row.kernel, "table": row.case.table,
             "constants": row.kind, "inside": row.inside(WIDENED[row.kind])} for row in rows
        ], indent=1))  # fmt: skip


def without(case: Case, drop: Iterable[str]) -> Case:
    for text in drop:
        table, _, (column, _, value) = *text.partition(":")[:2], text.partition(":")[2].partition("=")
        if table in case.table:
            kept = [i for i, config in enumerate(case.configs) if str(config.get(column)) != value]
            case = replace(case, configs=[case.configs[i] for i in kept], seconds=case.seconds[kept])
    return case


def left_out(name: str, cases: Sequence[Sampled], out: Callable[[Case], bool]) -> list[Left]:
    """The cases that are left out, priced with constants fitted on all others."""
    others, mine = [some for whole, some in cases if not out(whole)], [whole for whole, _ in cases if out(whole)]
    constants = fit(samples(others), list(PRIORS), start=PRIORS) if others else PRIORS
    own = quantiles([errors_near(case, predict_case(case, constants)) for case in others]) if others else (0.0, 0.0)
    near = any(case.arch.vendor == mine[0].arch.vendor for case in others)
    kind: Kind = ("other device" if near else "other vendor") if others else "priors"
    return [Left(case, name, kind, errors_near(case, predict_case(case, constants)), own) for case in mine]


def shown(rows: Sequence[Left]) -> list[str]:
    """Lines of a table in Markdown: a family and kind each, every kernel of it counting the same."""
    lines = [f"Share of measured times inside a band made to hold {COVERAGE:.0%}", ""]
    lines += ["| family left out | constants | devices | problems | inside | by other families' widths | by kernel |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for kind, family in sorted({(row.kind, row.family) for row in rows}):
        kin = [row for row in rows if row.kind == kind]
        mine = [row for row in kin if row.family == family]
        more, nested = WIDENED[kind], width([row for row in kin if row.family != family])
        by_kernel = {name: held([row for row in mine if row.kernel == name], more) for name in {r.kernel for r in mine}}
        each = ", ".join(f"{name} {share:.0%}" for name, share in sorted(by_kernel.items()))
        devices = ", ".join(sorted({row.case.arch.name for row in mine}))
        inside, theirs = held(mine, more), held(mine, nested)
        lines.append(f"| {family} | {kind} | {devices} | {len(mine)} | {inside:.0%} | {theirs:.0%} | {each} |")
    for kind in sorted({row.kind for row in rows}):
        lines.append(f"\nLeast width, {kind}: {width([row for row in rows if row.kind == kind]):.2f}")
    return lines


if __name__ == "__main__":
    main()
