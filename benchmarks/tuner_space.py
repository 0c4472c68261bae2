"""Where carver's order of a whole tuner's space has the winners of tuned files.

    python benchmarks/tuner_space.py TABLE [--most 400] [--cold]

`carver evaluate` places a winner among the configurations that won somewhere. Here it is placed among all that the
kernel's declaration lists, which for `triton_block_fp8` is what vLLM and SGLang time: 1,280 configurations, with the
winner's options for its vendor. These tuners launch a configuration again and again on the same tensors and clear no
cache, so a problem that L2 holds is ranked for a device that reads it from L2; with --cold, from DRAM.

Printed for each device and range of rows: the median place of the winner in percent; the share of winners whose tile is
in the first ten hints of `recommend`; the predicted time of the winner over that of the first, its geometric mean and
the share of winners within 2 % and within 5 %; and the median of the difference.
"""

from __future__ import annotations

import argparse
import itertools
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from adapters import read_all
from adapters.winners import TILE, Winner

from carver.arch.descriptor import Arch
from carver.kernels.declaration import kernels
from carver.problem.problem import Problem
from carver.ranking.rank import rank
from carver.ranking.recommend import recommend

ROWS = (64, 512)
"""Where ranges of rows end."""


@dataclass(frozen=True)
class Place:
    rows: int
    percent: float
    """Of all configurations, those before the winner; 100 for one that the rules refuse."""
    ten: bool
    """One of the first ten hints has the winner's tile."""
    loss: float
    """Predicted time of the winner over that of the first; NaN for one that the rules refuse."""
    behind_us: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--most", type=int, default=400, help="winners of a device that are ranked, at equal distances")
    parser.add_argument("--cold", action="store_true", help="read all operands from DRAM")
    args = parser.parse_args()
    by_device: dict[tuple[str, str], list[Winner]] = defaultdict(list)
    for winner in read_all(args.table):
        if isinstance(winner, Winner) and winner.backend == "triton_block_fp8":
            by_device[winner.table, winner.arch.name].append(winner)
    for (table, device), winners in by_device.items():
        places = [place(winner, args.cold) for winner in winners[:: -(-len(winners) // args.most)]]
        print(f"{table}, {device}: {told(places)}")
        for low, high in itertools.pairwise((0, *ROWS, 1 << 30)):
            if within := [one for one in places if low < one.rows <= high]:
                print(f"    more than {low} rows: {told(within)}", flush=True)


def place(winner: Winner, cold: bool) -> Place:
    (kernel,) = kernels(winner.problem.operator, winner.backend)
    arch = winner.arch if cold else warm(winner.arch, winner.problem)
    won = winner.pool.configs[winner.won]
    options = kernel.options.get(arch.vendor, ())
    asked = {name: won[name] for name in options if name in won}
    listed = {name: kernel.tunables[name] for name in won if name in kernel.keys("")}
    space = [dict(zip(listed, values, strict=True)) | asked for values in itertools.product(*listed.values())]
    space += [dict(won)] if won not in space else []
    ranking = rank(winner.problem, arch, space, winner.backend)
    order, seconds, own = list(ranking.indices), ranking.seconds, space.index(won)
    words = {"tile_m": "BLOCK_M", "tile_n": "BLOCK_N", "tile_k": "BLOCK_K"}
    hints = recommend(winner.problem, arch, 10, winner.backend)
    ten = [won[words[axis]] for axis in TILE] in [[hint.config[words[axis]] for axis in TILE] for hint in hints]
    rows = winner.problem.sizes["m"]
    if own not in order:
        return Place(rows, 100.0, ten, float("nan"), float("nan"))
    at = order.index(own)
    behind_us = 1e6 * float(seconds[at] - seconds[0])
    return Place(rows, 100.0 * at / len(space), ten, float(seconds[at] / seconds[0]), behind_us)


def warm(arch: Arch, problem: Problem) -> Arch:
    """The device with a DRAM like its L2, if L2 holds the whole problem: for launches that find it there."""
    if problem.compulsory_bytes * arch.l2_copies > arch.l2_bytes:
        return arch
    return arch.replace(dram_bytes_per_s=arch.l2_bytes_per_s, dram_latency_s=arch.l2_latency_s)


def told(places: list[Place]) -> str:
    loss = np.array([one.loss for one in places])
    ran = loss[np.isfinite(loss)]
    return (
        f"{len(places)} winners, median {np.median([one.percent for one in places]):.1f} %, "
        f"ten {np.mean([one.ten for one in places]):.0%}, predicted loss {np.exp(np.log(ran).mean()):.3f}, within 2 % "
        f"{np.mean(loss <= 1.02):.0%}, within 5 % {np.mean(loss <= 1.05):.0%}, behind by "
        f"{np.median([one.behind_us for one in places if np.isfinite(one.behind_us)]):.1f} us in the median"
    )


if __name__ == "__main__":
    main()
