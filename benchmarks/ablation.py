"""What each term of the model is worth: leave it out, change nothing else, and rank again.

    python benchmarks/ablation.py FOLDER [--most 300] [--k 1 3 5 10]

A term is left out by the value of its constants at which it vanishes, by a column of the kernel's declaration or a
field of the device that says there is nothing to price, or, where it is a rule rather than a number, by a function
that answers so. Nothing is fitted again. Printed are, of each table, the terms whose absence changes a figure.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from adapters import read
from holdout import slowdowns
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from carver.base.types import FloatArray
from carver.calibrate.fitting import spaces
from carver.cli.measure import tell
from carver.cost.constants import resolve
from carver.cost.estimate import estimate
from carver.cost.models import MODELS
from carver.evaluate.summary import geometric_mean
from carver.evaluate.tables import Case
from carver.kernels.space import Space

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
                out[space.index] = estimate(MODELS[space.kernel.model].work(changed, k), changed.arch, k).seconds
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
            "threads.turns": lambda arch, lanes, *_: np.ones(np.shape(lanes)), "models.window._turns": lambda *_: 1.0,
        }
    ),
    "Turing's half-wide port, Kepler's 8-byte banks": Left(fields={"smem_bytes_per_clk": 128.0}),
    "load and store lanes of an SM": Left(fields={"lsu_per_clk": 1024.0}),
    "how a thread's operands reach its registers, all of it": Left(
        functions={"models.block.by_thread": lambda kernel: False, "models.contraction.by_thread": lambda kernel: False}
    ),
    "reads of one address that one pass serves": Left({"read_merge": 1.0}),
    "operands read past shared memory, priced as if from it": Left(columns={"staged_m": None, "staged_n": None}),
    "loads that wait among the products": Left({"load_waits": 0.0}),
    "windows that share loads": Left(columns={"loads": "products"}),
    "inputs that wait and spill": Left(
        functions={"models.window.spilled_values": lambda live, waiting, budget, loads: np.zeros(len(loads))}
    ),
    "rounds of the halo copy": Left({"copy_waits": 0.0}),
    "stores in runs shorter than a sector": Left(columns={"store_run_bytes": None}),
    "partial results added by compare-and-swap": Left(columns={"atomic": None}),
    "operand reads that alternate with MFMA": Left(columns={"fragment_conflicts": None}),
    "conversions on narrow units": Left(fields={"sfu_per_clk": FREE}),
    "loads of less than a register": Left({"narrow_load": 1.0}),
    "trials that share a load's lines": Left({"line_lookup_clk": 0.0}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most", type=int, default=300, help="problems of a table")
    parser.add_argument("--k", type=int, nargs="+", default=[1, 3, 5, 10])
    args = parser.parse_args()
    tables: dict[str, list[Case]] = {}
    for case in read(args.folder, tell):
        tables.setdefault(case.table, []).append(case)
    out = Table(title="Slowdown of the best of the first k", box=box.SIMPLE_HEAD, title_justify="left")
    out.add_column("table")
    out.add_column("left out")
    for k in args.k:
        out.add_column(f"k={k}", justify="right")
    for name, every in track(tables.items(), "ranking", console=Console(stderr=True)):
        cases = [every[i] for i in np.random.default_rng(0).permutation(len(every))[: args.most]]
        whole = costs(cases, TERMS["nothing"], args.k)
        changed = {term: row for term, left in TERMS.items() if (row := costs(cases, left, args.k)) != whole}
        for i, (term, row) in enumerate({"nothing": whole, **changed}.items()):
            out.add_row("" if i else name, term, *row, end_section=i == len(changed))
    Console(width=130).print(out)


def costs(cases: list[Case], left: Left, ks: list[int]) -> list[str]:
    scores = [slowdowns(case, left(case), ks) for case in cases]
    return [f"{geometric_mean(column):.3f}" for column in zip(*scores, strict=True)]


if __name__ == "__main__":
    main()
