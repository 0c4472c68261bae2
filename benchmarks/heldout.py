"""What the model is worth where nothing was fitted, and what each of its terms and constants adds.

    python benchmarks/heldout.py gpus FOLDER [--k 1 3 5 10] [--json FILE]
    python benchmarks/heldout.py problems FOLDER [--k 1 3 5 10] [--folds 2]
    python benchmarks/heldout.py transfer FOLDER [--json FILE]
    python benchmarks/heldout.py bands FOLDER [--problems 12] [--rows 400] [--drop TABLE:COLUMN=VALUE ...] [--json FILE]
    python benchmarks/heldout.py terms FOLDER [--k 1 3 5 10] [--most 300]

FOLDER is a measured table, or holds several. A fit starts from the priors.

`gpus`: every table three times: with the constants as shipped; with the kernel's constants fitted on all GPUs of other
chips than the table's; and with no fitted constant at all, the priors that hold for a kernel that nobody measured.
`problems`: each half of a table's problems, ranked with constants that are fitted on the other half. `transfer`: for
each two GPUs with a table of the same kernel, what the best configuration of the one costs on the other, and what
carver's first pick costs there, told no more of that GPU than its descriptor: with the constants as shipped, and fitted
on the tables of all other chips. All choose among the configurations that both tables have. Where the problems differ
(one table has a matmul of 4096, the other of 2048), that counts against the GPU asked, as it would for anyone who takes
a configuration along.

`bands`: whether bands hold on devices that nobody measured. A kernel's constants are fitted on the tables of all other
chips, and where chips of two vendors have one, on those of the other vendor alone; the band is that of their errors,
widened as carver widens it. A kernel that no other chip was measured with has the priors and their band. Printed is the
share of times measured on the chip left out that fall inside, of all candidates predicted near the best: with the
widths that ship, and with those that the other families alone would have led to, the least that hold COVERAGE of the
times of each family, its kernels counting the same. `--drop` leaves out rows, such as those that a compiler no longer
makes.

`terms`: a term is left out, nothing else is changed or fitted, and all is ranked again. It is left out by the value of
its constants at which it vanishes, by a column of the kernel's declaration or a field of the device that says there is
nothing to price, or, where it is a rule rather than a number, by a function that answers so. Printed are, of each
table, the terms whose absence changes a figure.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple
from unittest.mock import patch

import frame
import numpy as np
from adapters import read
from rich.console import Console
from rich.progress import track

from carver.arch.descriptor import Arch
from carver.base.types import FloatArray
from carver.calibrate.fitting import errors_near, predict_case, quantiles, samples, spaces
from carver.calibrate.tables import Case
from carver.cli.measure import tell
from carver.cost.estimate import estimate
from carver.cost.learn import fit, identified
from carver.cost.model import CONSTANTS, model_named, resolve
from carver.kernels.space import Space
from carver.ranking.declared import COVERAGE, WIDENED, Kind, share_within, widened
from carver.ranking.recommend import rank

LEAST = 100
"""Configurations that two tables must share."""
WIDTHS = np.round(np.arange(0.1, 1.01, 0.05), 2).tolist()
"""A band of more than 2.7 times either side is of no use: what a family needs beyond that, none of its kin gets."""
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
        out.append(replace(case, configs=[case.configs[i] for i in rows], seconds=case.seconds[rows]))
    return out


def slowdowns(case: Case, predicted_s: FloatArray, ks: Sequence[int]) -> list[float]:
    """Time of the best of the first k over the best time. Equal predictions: the order of the table, turned round."""
    predicted = predicted_s[::-1]
    order = len(predicted) - 1 - np.argsort(np.where(np.isfinite(predicted), predicted, np.inf), kind="stable")
    times = np.where(np.isfinite(case.seconds), case.seconds, np.nanmax(case.seconds))[order]
    return [float(times[:k].min() / case.best_s) for k in ks]


def groups(path: Path, key: Callable[[Case], Any]) -> dict[Any, list[Case]]:
    found: dict[Any, list[Case]] = {}
    for case in read(path, tell):
        found.setdefault(key(case), []).append(case)
    return found


def told(each: Iterable[Any], doing: str) -> Iterable[Any]:
    return track(each, doing, console=Console(stderr=True))


def means(scores: Iterable[Sequence[float]]) -> tuple[float, ...]:
    return tuple(geometric_mean(column) for column in zip(*scores, strict=True))


# other GPUs, other problems


def gpus(args: argparse.Namespace) -> None:
    rng, rows = np.random.default_rng(0), list[dict[str, Any]]()

    def name_of(case: Case) -> str:
        return case.table + (f" ({case.group})" if case.group else "")

    for name, cases in told(list(groups(args.path, kernel).items()), "fitting"):
        for table, held in dict.fromkeys((name_of(c), chip(c)) for c in cases):
            mine = [c for c in cases if name_of(c) == table]
            others = [c for c in cases if chip(c) != held]
            fitted = fit(samples(thinned(others, rng)), list(CONSTANTS), start=PRIORS) if others else None
            row = {"table": table, "device": mine[0].arch.name, "kernel": "/".join(name), "problems": len(mine)}
            for label, k in (("shipped", {}), ("held out", fitted), ("priors", PRIORS)):
                scores = [slowdowns(c, predict_case(c, k), args.k) for c in mine] if k is not None else []
                row[label] = means(scores) if scores else None
            rows.append(row)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    print(f"Slowdown of the best of the first {', '.join(map(str, args.k))}")
    cells = ([" ".join(f"{v:.3f}" for v in c) if isinstance(c, tuple) else c or "-" for c in row.values()]
             for row in rows)  # fmt: skip
    heads = ("as shipped", "this GPU left out", "nothing fitted")
    print(frame.table(("table", "device", "kernel", "problems", *heads), cells))


def problems(args: argparse.Namespace) -> None:
    lines = []
    for (name, operator), cases in groups(args.path, lambda case: (case.table, case.problem.operator)).items():
        scores = held_out(cases, args.folds, args.k)
        worst = 1 / max(row[-1] for row in scores)
        lines.append((name, operator, len(cases), *(1 / mean for mean in means(scores)), worst))
    print("Best time over the time of the best of the first k")
    heads = ("table", "operator", "problems", *(f"k={k}" for k in args.k), f"worst, k={args.k[-1]}")
    print(frame.table(heads, lines))


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


def transfer(args: argparse.Namespace) -> None:
    found = groups(args.path, lambda case: (*kernel(case), case.group))
    rows = []
    for (operator, _, name, _), cases in told(list(found.items()), "fitting"):
        if len({case.table for case in cases}) < len(cases):
            continue  # tables of many problems have no one configuration to take along
        left_out = {case.arch: without(case, cases, f"{operator}/{name}") for case in cases}
        for chosen, paying in permutations(cases, 2):
            if chip(chosen) != chip(paying) and (costs := taken(chosen, paying, left_out[paying.arch])):
                rows.append([f"{operator}/{name}", chosen.arch.name, paying.arch.name, *costs])
    names = ("kernel", "best on", "runs on", "configs", "its best costs", "carver's first", "this GPU left out")
    if args.json:
        args.json.write_text(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=1))
    print("Time over the best of the same configurations")
    print(frame.table(names, rows))


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


# bands


class Sampled(NamedTuple):
    """A problem with all its candidates, and with those that constants are fitted on."""

    whole: Case
    some: Case


@dataclass(frozen=True)
class Away:
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


def width(rows: Sequence[Away]) -> float:
    """The least of WIDTHS that holds COVERAGE of the times in each family that any of them holds it in."""
    families = {row.family for row in rows}
    least = [
        next((more for more in WIDTHS if held([r for r in rows if r.family == one], more) >= COVERAGE), 0.0)
        for one in families
    ]
    return max(least, default=float("nan"))


def held(rows: Iterable[Away], more: float) -> float:
    """Share inside, in the mean over kernels."""
    kernels: dict[str, list[float]] = {}
    for row in rows:
        if np.isfinite(share := row.inside(more)):
            kernels.setdefault(row.kernel, []).append(share)
    return float(np.mean([np.mean(shares) for shares in kernels.values()])) if kernels else float("nan")


def bands(args: argparse.Namespace) -> None:
    rng = np.random.default_rng(0)
    tables: dict[tuple[str, str, str], dict[str, list[Case]]] = {}
    for case in read(args.path, tell):
        if len((case := dropped(case, args.drop)).configs):
            tables.setdefault(kernel(case), {}).setdefault(case.table, []).append(case)
    rows: list[Away] = []
    for name, found in told(list(tables.items()), "fitting"):
        chosen = [of_one[i] for of_one in found.values() for i in rng.permutation(len(of_one))[: args.problems]]
        cases = [Sampled(case, *thinned([case], rng, 1, args.rows)) for case in chosen]
        for one in dict.fromkeys(map(chip, chosen)):
            rows += left_out("/".join(name), cases, lambda case, one=one: chip(case) == one)
        for one in dict.fromkeys(case.arch.vendor for case in chosen):
            if len({chip(case) for case in chosen if case.arch.vendor == one}) > 1:
                far = left_out("/".join(name), cases, lambda case, one=one: case.arch.vendor == one)
                rows += [row for row in far if row.kind == "other vendor"]
    print(*families(rows), sep="\n")
    if args.json:
        args.json.write_text(json.dumps([
            {"family": row.family, "device": row.case.arch.name, "kernel": row.kernel, "table": row.case.table,
             "constants": row.kind, "inside": row.inside(WIDENED[row.kind])} for row in rows
        ], indent=1))  # fmt: skip


def dropped(case: Case, drop: Iterable[str]) -> Case:
    for text in drop:
        table, _, (column, _, value) = *text.partition(":")[:2], text.partition(":")[2].partition("=")
        if table in case.table:
            kept = [i for i, config in enumerate(case.configs) if str(config.get(column)) != value]
            case = replace(case, configs=[case.configs[i] for i in kept], seconds=case.seconds[kept])
    return case


def left_out(name: str, cases: Sequence[Sampled], out: Callable[[Case], bool]) -> list[Away]:
    """The cases that are left out, priced with constants fitted on all others."""
    others, mine = [some for whole, some in cases if not out(whole)], [whole for whole, _ in cases if out(whole)]
    constants = fit(samples(others), list(PRIORS), start=PRIORS) if others else PRIORS
    own = quantiles([errors_near(case, predict_case(case, constants)) for case in others]) if others else (0.0, 0.0)
    near = any(case.arch.vendor == mine[0].arch.vendor for case in others)
    kind: Kind = ("other device" if near else "other vendor") if others else "priors"
    return [Away(case, name, kind, errors_near(case, predict_case(case, constants)), own) for case in mine]


def families(rows: Sequence[Away]) -> list[str]:
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


# terms

FREE = 1e9


@dataclass(frozen=True)
class Left:
    """What leaves a term out."""

    constants: Mapping[str, float] = field(default_factory=dict)
    columns: Mapping[str, str | None] = field(default_factory=dict)
    """The column that takes the place of one; None: the model's default does."""
    fields: Mapping[str, float] = field(default_factory=dict)
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """What takes the place of functions of carver.cost, by module and name."""

    def __call__(self, case: Case) -> FloatArray:
        """Predicted seconds of a case's candidates, NaN where one cannot run."""
        out = np.full(len(case.configs), np.nan)
        with ExitStack() as stack:
            for name, function in self.functions.items():
                stack.enter_context(patch(f"carver.cost.{name}", function))
            for space in spaces(case):
                k = {**resolve(space.kernel, case.arch), **self.constants}
                changed = self.of(space)
                out[space.index] = estimate(model_named(space.kernel.model).work(changed, k), changed.arch, k).seconds
        return out

    def of(self, space: Space) -> Space:
        columns = {name: column for name, column in space.columns.items() if name not in self.columns}
        columns |= {
            name: space.columns[other]
            for name, other in self.columns.items()
            if name in space.columns and other in space.columns
        }
        return replace(space, columns=columns, arch=space.arch.replace(**self.fields) if self.fields else space.arch)


TERMS = {
    "nothing": Left(),
    "latency that the pipeline does not cover": Left({"l2_latency_load": 1e-6, "dram_latency_load": 1e-6}),
    "bandwidth of L2": Left({"l2_efficiency": FREE}),
    "neighbours that L2 serves together": Left({"l2_merge": 0.0}),
    "bandwidth of DRAM": Left({"dram_efficiency": FREE}),
    "bytes lost to short runs in DRAM": Left({"dram_run_bytes": 0.0}),
    "shared-memory port": Left({"smem_efficiency": FREE}),
    "instruction issue": Left({"step_instr": 0.0, "copy_instr": 0.0, "fragment_instr": 0.0, "convert_instr": 0.0}),
    "start of a block": Left({"block_start_clk": 0.0, "block_dispatch_clk": 0.0, "warp_start_clk": 0.0}),
    "epilogue instructions": Left({"store_instr": 0.0}),
    "starts that hide behind other blocks": Left({"block_overlap": 0.0}),
    "wgmmas that wait for each other": Left({"serial_clk": 0.0}),
    "copies that pass registers: each step in turn": Left(columns={"synchronous_copies": None}),
    "lanes that load from different rows": Left(columns={"scattered_a": None, "scattered_b": None}),
    "operands moved one element at a time": Left(columns={"singles_a": None, "singles_b": None}),
    "warps that wait for their own instructions": Left({"dependent_issue_clk": 0.0}),
    "rows that start within a sector": Left(functions={"traffic.split_waste": lambda *_: 1.0}),
    "lines that all SMs want": Left({"hot_steps": FREE}),
    "barrier and chain of a step": Left({"step_sync_clk": 0.0, "step_chain_clk": 0.0, "group_chain_clk": 0.0}),
    "adding up split results": Left({"split_s": 0.0, "split_each_s": 0.0}),
    "bank conflicts": Left(
        functions={
            "tile.turns": lambda arch, lanes, *_: np.ones(np.shape(lanes)),
            "models.stream._turns": lambda *_: 1.0,
        }
    ),
    "Turing's half-wide port, Kepler's 8-byte banks": Left(fields={"smem_bytes_per_clk": 128.0}),
    "load and store lanes of an SM": Left(fields={"lsu_per_clk": 1024.0}),
    "how a thread's operands reach its registers, all of it": Left(
        functions={"models.contraction.by_thread": lambda kernel: False}
    ),
    "reads of one address that one pass serves": Left({"read_merge": 1.0}),
    "operands read past shared memory, priced as if from it": Left(columns={"staged_m": None, "staged_n": None}),
    "loads that wait among the products": Left({"load_waits": 0.0}),
    "windows that share loads": Left(columns={"loads": "products"}),
    "inputs that wait and spill": Left(
        functions={"models.stream.spilled_values": lambda live, waiting, budget, loads: np.zeros(len(loads))}
    ),
    "rounds of the halo copy": Left({"copy_waits": 0.0}),
    "stores in runs shorter than a sector": Left(columns={"store_run_bytes": None}),
    "partial results added by compare-and-swap": Left(columns={"atomic": None}),
    "operand reads that alternate with MFMA": Left(columns={"fragment_conflicts": None}),
    "conversions on narrow units": Left(fields={"sfu_per_clk": FREE}),
    "loads of less than a register": Left({"narrow_load": 1.0}),
    "trials that share a load's lines": Left({"line_lookup_clk": 0.0}),
}


def terms(args: argparse.Namespace) -> None:
    lines = []
    for name, every in told(list(groups(args.path, lambda case: case.table).items()), "ranking"):
        cases = [every[i] for i in np.random.default_rng(0).permutation(len(every))[: args.most]]
        whole = costs(cases, TERMS["nothing"], args.k)
        changed = {term: row for term, left in TERMS.items() if (row := costs(cases, left, args.k)) != whole}
        lines += [
            ("" if i else name, term, *row) for i, (term, row) in enumerate({"nothing": whole, **changed}.items())
        ]
    print("Slowdown of the best of the first k")
    print(frame.table(("table", "left out", *(f"k={k}" for k in args.k)), lines))


def costs(cases: list[Case], left: Left, ks: list[int]) -> list[str]:
    scores = [slowdowns(case, left(case), ks) for case in cases]
    return [f"{mean:.3f}" for mean in means(scores)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for run in (gpus, problems, transfer, bands, terms):
        command = commands.add_parser(run.__name__)
        command.set_defaults(run=run)
        command.add_argument("path", type=Path, metavar="FOLDER")
        if run in (gpus, problems, terms):
            command.add_argument("--k", type=int, nargs="+", default=[1, 3, 5, 10])
        if run in (gpus, transfer, bands):
            command.add_argument("--json", type=Path)
        if run is problems:
            command.add_argument("--folds", type=int, default=2)
        elif run is terms:
            command.add_argument("--most", type=int, default=300, help="problems of a table")
        elif run is bands:
            command.add_argument("--problems", type=int, default=12, help="of a table at most")
            command.add_argument("--rows", type=int, default=400, help="candidates of a problem to fit on, at most")
            command.add_argument(
                "--drop", nargs="+", default=[], metavar="TABLE:COLUMN=VALUE", help="rows to leave out"
            )
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
