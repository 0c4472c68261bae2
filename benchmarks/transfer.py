"""Choosing on one GPU and paying on another.

    python benchmarks/transfer.py FOLDER [--json out.json]

For each two GPUs under FOLDER with a table of the same kernel: what the best configuration of the one costs on the
other, and what carver's first pick costs there, told no more of that GPU than its descriptor: with the constants as
shipped, and with those fitted, from the priors, on the tables of all other chips. All choose among the configurations
that both tables have. Where the problems differ (one table has a matmul of 4096, the other of 2048), that counts
against the GPU asked, as it would for anyone who takes a configuration along.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import numpy as np
from adapters import read
from holdout import PRIORS, chip, kernel, thinned
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from carver.arch.descriptor import Arch
from carver.calibrate.fitting import samples
from carver.cli.measure import tell
from carver.cost.fit import fit
from carver.evaluate.tables import Case
from carver.ranking.rank import rank

LEAST = 100
"""Configurations that two tables must share."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in read(args.folder, tell):
        groups.setdefault((*kernel(case), case.group), []).append(case)
    rows = []
    for (operator, _, name, _), cases in track(groups.items(), "fitting", console=Console(stderr=True)):
        if len({case.table for case in cases}) < len(cases):
            continue  # tables of many problems have no one configuration to take along
        left_out = {case.arch: without(case, cases, f"{operator}/{name}") for case in cases}
        for chosen, paying in permutations(cases, 2):
            if chip(chosen) != chip(paying) and (costs := taken(chosen, paying, left_out[paying.arch])):
                rows.append([f"{operator}/{name}", chosen.arch.name, paying.arch.name, *costs])
    names = ("kernel", "best on", "runs on", "configs", "its best costs", "carver's first", "this GPU left out")
    if args.json:
        args.json.write_text(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=1))
    out = Table(title="Time over the best of the same configurations", box=box.SIMPLE_HEAD, title_justify="left")
    for place, name in enumerate(names):
        out.add_column(name, justify="left" if place < 3 else "right")
    for row in rows:
        out.add_row(*(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row))
    Console(width=140).print(out)


def without(case: Case, cases: Sequence[Case], name: str) -> Arch | None:
    """The device of a case with constants fitted on the tables of other chips; None where there are none."""
    others = [other for other in cases if chip(other) != chip(case)]
    if not others:
        return None
    fitted = fit(samples(thinned(others, np.random.default_rng(0))), list(PRIORS), start=PRIORS)
    return case.arch.replace(fitted=((name, tuple(fitted.items())),))


def taken(chosen: Case, paying: Case, left_out: Arch | None) -> list[float] | None:
    """How many configurations both tables have, and what the picks cost where one pays; None where they share few."""
    there, here = (
        {tuple(sorted(c.items())): t for c, t in zip(case.configs, case.seconds, strict=True) if np.isfinite(t)}
        for case in (chosen, paying)
    )
    both = [config for config in there if config in here]
    if len(both) < LEAST:
        return None
    configs, best_s = [dict(config) for config in both], min(here[config] for config in both)
    first = [rank(paying.problem, arch, configs, paying.backend).indices[0] for arch in (paying.arch, left_out) if arch]
    return [len(both), *(here[config] / best_s for config in (min(both, key=there.get), *(both[i] for i in first)))]


if __name__ == "__main__":
    main()
