"""What each term of the model is worth: leave it out, change nothing else, and rank again.

    python benchmarks/ablation.py FOLDER [--most 300]

A term is left out by the value of its constants at which it vanishes. Nothing is fitted again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from holdout import slowdowns
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from carver.cli_evaluate import tell
from carver.evaluate.cases import Case
from carver.evaluate.score import geometric_mean
from carver.evaluate.tables import read
from carver.fit import predict_case

FREE = 1e9
TERMS = {
    "nothing": {},
    "latency that the pipeline does not cover": {"l2_latency_load": 1e-6, "dram_latency_load": 1e-6},
    "bandwidth of L2": {"l2_efficiency": FREE},
    "bandwidth of DRAM": {"dram_efficiency": FREE},
    "bytes lost to short runs in DRAM": {"dram_run_bytes": 0.0},
    "shared-memory port": {"smem_efficiency": FREE},
    "instruction issue": {"step_instr": 0.0, "copy_instr": 0.0, "fragment_instr": 0.0, "convert_instr": 0.0},
    "start of a block": {"block_start_clk": 0.0, "block_dispatch_clk": 0.0, "warp_start_clk": 0.0},
    "epilogue instructions": {"store_instr": 0.0},
    "starts that hide behind other blocks": {"block_overlap": 0.0},
    "a lone accumulator tile": {"lone_tile": 1.0},
    "lines that all SMs want": {"hot_steps": FREE},
    "barrier and chain of a step": {"step_sync_clk": 0.0, "step_chain_clk": 0.0, "group_chain_clk": 0.0},
    "adding up split results": {"split_s": 0.0, "split_each_s": 0.0},
}
KS = (1, 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most", type=int, default=300, help="problems of a table")
    args = parser.parse_args()
    tables: dict[str, list[Case]] = {}
    for case in read(args.folder, tell):
        tables.setdefault(case.table, []).append(case)
    rng = np.random.default_rng(0)
    chosen = {t: [cases[i] for i in rng.permutation(len(cases))[: args.most]] for t, cases in tables.items()}
    out = Table(title=f"Slowdown of the best of the first {KS[0]} / {KS[1]}", box=box.SIMPLE_HEAD, title_justify="left")
    out.add_column("left out")
    for name in chosen:
        out.add_column(name.split(".")[0].replace("_", "\n", 1), justify="right")
    for term, constants in track(TERMS.items(), "ranking", console=Console(stderr=True)):
        row = []
        for cases in chosen.values():
            scores = [slowdowns(case, predict_case(case, constants), KS) for case in cases]
            row.append(" / ".join(f"{geometric_mean(column):.3f}" for column in zip(*scores, strict=True)))
        out.add_row(term, *row)
    Console(width=110).print(out)


if __name__ == "__main__":
    main()
