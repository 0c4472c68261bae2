"""Where carver's order of a whole tuner's space has the winners of tuned files.

    python benchmarks/tuner_space.py TABLE [--most 400]

`carver evaluate` places a winner among the configurations that won somewhere. Here it is placed among all that the
kernel's declaration lists, which for `triton_block_fp8` is what vLLM and SGLang time: 1,280 configurations, with the
winner's options for its vendor. Printed for each device: the median place in percent, and the share of winners whose
tile is in the first ten hints of `recommend`.
"""

from __future__ import annotations

import argparse
import itertools
from collections import defaultdict
from pathlib import Path

import numpy as np

from carver.evaluate.tables import read_all
from carver.evaluate.winners import TILE, Winner
from carver.kernels.declaration import kernels
from carver.ranking.rank import rank
from carver.ranking.recommend import recommend


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--most", type=int, default=400, help="winners of a device that are ranked, at equal distances")
    args = parser.parse_args()
    by_device: dict[tuple[str, str], list[Winner]] = defaultdict(list)
    for winner in read_all(args.table):
        if isinstance(winner, Winner) and winner.backend == "triton_block_fp8":
            by_device[winner.table, winner.arch.name].append(winner)
    for (table, device), winners in by_device.items():
        placed = [place(winner) for winner in winners[:: -(-len(winners) // args.most)]]
        percent, ten = zip(*placed, strict=True)
        print(f"{table}, {device}: {len(placed)} winners, median {np.median(percent):.1f} %, ten {np.mean(ten):.0%}")


def place(winner: Winner) -> tuple[float, bool]:
    """Place in percent among all configurations, and whether one of the first ten hints has the winner's tile."""
    (kernel,) = kernels(winner.problem.operator, winner.backend)
    won = winner.pool.configs[winner.won]
    options = kernel.options.get(winner.arch.vendor, ())
    asked = {name: won[name] for name in options if name in won}
    listed = {name: kernel.tunables[name] for name in won if name in kernel.keys("")}
    space = [dict(zip(listed, values, strict=True)) | asked for values in itertools.product(*listed.values())]
    space += [dict(won)] if won not in space else []
    order = rank(winner.problem, winner.arch, space, winner.backend).indices
    at = space.index(won)
    words = {"tile_m": "BLOCK_M", "tile_n": "BLOCK_N", "tile_k": "BLOCK_K"}
    hints = recommend(winner.problem, winner.arch, 10, winner.backend)
    tiles = [[hint.config[words[axis]] for axis in TILE] for hint in hints]
    percent = 100.0 * order.index(at) / len(space) if at in order else 100.0
    return percent, [won[words[axis]] for axis in TILE] in tiles


if __name__ == "__main__":
    main()
