"""What the first picks of experts with weights of few bits lose: by the declaration, and by the machine code.

    python benchmarks/experts.py [tests/data/h200/experts.csv] [--only 2,5]

The kernel is `grouped_weights` of `kernels/triton_moe.py`, the table is that of `declared.py --only "'experts'"`. Needs
Triton and PyTorch, but no GPU. `--only`: places of problems in the table.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
from adapters import read
from declared import PROBLEMS, expert_sizes, words
from kernels import triton_moe
from serving import Matmul, placed, routed

import carver
from carver import Tensor
from carver.evaluate.summary import score, slowdowns
from carver.evaluate.tables import Case

TABLE = Path(__file__).resolve().parent.parent / "tests/data/h200/experts.csv"
SIZES = ("real", "topk", "group", "row_tiles", "stride_x", "stride_we", "stride_wn", "stride_out", "stride_se",
         "stride_sn", "stride_ze", "stride_zn")  # fmt: skip
PICKS = (1, 3, 5)


def predicted_s(p: dict[str, Any], configs: list[dict[str, Any]], arch: str) -> np.ndarray:
    """By the machine code; NaN where a configuration does not fit. Those of equal slots are ranked together."""
    n, k, each = p["N"], p["K"], 1 if p["type"] == "int8" else 2
    deep, routes = k // p["group"], p["tokens"] * p["chosen"]
    layer = Matmul("plain", p["tokens"], p["experts"], p["topk"], routes, n, k, 0.0)
    experts_of = routed(layer, p["chosen"])
    alike = defaultdict(list)
    for place, c in enumerate(configs):
        alike[c["BLOCK_M"], c["GROUP_M"]].append(place)
    found = np.full(len(configs), np.nan)
    for (height, _), places in alike.items():
        on = placed(experts_of, layer, height)
        sizes = dict(zip(SIZES, expert_sizes(p, configs[places[0]], on["slots"]), strict=True))
        args = {
            "x_ptr": Tensor("bfloat16", (routes if p["topk"] == 1 else p["tokens"], k)),
            "w_ptr": Tensor("uint8", (p["experts"], n, k // each)), "out_ptr": Tensor("bfloat16", (routes, n)),
            "scale_ptr": Tensor("bfloat16", (p["experts"], n, deep)),
            "zero_ptr": Tensor("uint8", (p["experts"], n // each, deep)), "gate_ptr": Tensor("float32", (routes,)),
            "slot_ptr": Tensor("int32", on["slot"].shape), "expert_ptr": Tensor("int32", on["expert"].shape),
            "slots_used_ptr": Tensor("int32", (1,)), **sizes,
        }  # fmt: skip
        own = {name: v for name, v in words(p, configs[places[0]]).items() if name not in configs[places[0]]}
        ranking = carver.rank_kernel(
            triton_moe.grouped_weights,
            [{name: v for name, v in configs[i].items() if name != "GROUP_M"} for i in places],
            args=args, arch=arch, constants=own, progress=False,
            grid=lambda known, tiles=sizes["row_tiles"]: (tiles * -(-n // known["BLOCK_N"]),),
            values={"slot_ptr": on["slot"], "expert_ptr": on["expert"], "slots_used_ptr": on["used"]}, compile="all",
        )  # fmt: skip
        for hint in ranking:
            found[places[hint.index]] = hint.predicted_ms / 1e3
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", nargs="?", type=Path, default=TABLE)
    parser.add_argument("--only", type=lambda text: list(map(int, text.split(","))), default=None)
    options = parser.parse_args()
    cases = [c for c in read(options.table, print) if isinstance(c, Case)]
    problems = [p for p in PROBLEMS if p["kernel"] == "experts"]
    lost: dict[str, list[dict[int, float]]] = {"declared": [], "compiled": []}
    for i, (case, p) in enumerate(zip(cases, problems, strict=True)):
        if options.only is not None and i not in options.only:
            continue
        seconds = predicted_s(p, [dict(c) for c in case.configs], case.arch.name)
        order = np.argsort(seconds)[: int(np.isfinite(seconds).sum())]
        lost["declared"].append(score(case, PICKS).slowdown)
        lost["compiled"].append(slowdowns(case, order, PICKS))
        ratio = seconds[order[0]] / case.seconds[order[0]]
        said = "   ".join(" ".join(f"{rows[-1][k]:.3f}" for k in PICKS) for rows in lost.values())
        shape = f"{p['type']}/{p['group']} {p['tokens']} tokens, {p['N']} x {p['K']}"
        print(f"{i:3} {shape:38} {said}   predicted / measured {ratio:.2f}", flush=True)
    for name, rows in lost.items():
        print(f"{name}: {' '.join(f'{geometric_mean(row[k] for row in rows):.3f}' for k in PICKS)} at k=1, 3, 5")


if __name__ == "__main__":
    main()
