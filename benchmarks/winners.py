"""Where carver's order has the winners of tuned files, on GPUs of which carver may have no times. No GPU is used.

    python benchmarks/winners.py space TABLE [--most 400] [--cold]
    python benchmarks/winners.py retune tests/data/h100/retune.jsonl.gz [--arch h100_sxm]

TABLE is a folder or table of tuned files, as `tables.py evaluate` takes them, of matmuls scaled in blocks.

`space`: each winner among the 1,280 configurations that vLLM and SGLang time. Their tuners launch one again and again
on the same tensors and clear no cache, so a problem that L2 holds is ranked for a device that reads it from
L2; with --cold, from DRAM. `retune`: such a matmul, tuned twice as they do it, and timed with cold caches: where the
winner of the first tuning stands in the second and in the cold times, and where carver has the winner of each. Places
in percent are medians of the share of configurations that are faster. Where a matrix is one row of tiles, the order of
tiles changes nothing, and the shorter of both cold times counts.
"""

from __future__ import annotations

import argparse
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import frame
import numpy as np
from adapters import read_all
from adapters.winners import Winner

import carver
from carver.arch.descriptor import Arch
from carver.kernels.declaration import kernels
from carver.problem.problem import Problem
from carver.ranking.recommend import rank, recommend

BACKEND = "triton_block_fp8"
ROWS = (64, 512)
"""Where ranges of rows end."""
TILE = ("BLOCK_M", "BLOCK_N", "BLOCK_K")


def tile(config: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(config[axis] for axis in TILE)


def winners(path: Path) -> Iterator[Winner]:
    for winner in read_all(path):
        if isinstance(winner, Winner) and winner.backend == BACKEND:
            yield winner


def won(winner: Winner) -> dict[str, Any]:
    return dict(winner.pool.configs[winner.won])


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


def space(options: argparse.Namespace) -> None:
    by_device: dict[tuple[str, str], list[Winner]] = defaultdict(list)
    for winner in winners(options.table):
        by_device[winner.table, winner.arch.name].append(winner)
    for (table, device), found in by_device.items():
        places = [place_in_space(one, options.cold) for one in found[:: -(-len(found) // options.most)]]
        print(f"{table}, {device}: {told(places)}")
        for low, high in itertools.pairwise((0, *ROWS, 1 << 30)):
            if within := [one for one in places if low < one.rows <= high]:
                print(f"    more than {low} rows: {told(within)}", flush=True)


def place_in_space(winner: Winner, cold: bool) -> Place:
    (kernel,) = kernels(winner.problem.operator, winner.backend)
    arch = winner.arch if cold else warm(winner.arch, winner.problem)
    own = won(winner)
    options = kernel.options.get(arch.vendor, ())
    asked = {name: own[name] for name in options if name in own}
    listed = {name: kernel.tunables[name] for name in own if name in kernel.keys("")}
    space = [dict(zip(listed, values, strict=True)) | asked for values in itertools.product(*listed.values())]
    space += [own] if own not in space else []
    ranking = rank(winner.problem, arch, space, winner.backend)
    order, seconds, row = list(ranking.indices), ranking.seconds, space.index(own)
    ten = tile(own) in [tile(hint.config) for hint in recommend(winner.problem, arch, 10, winner.backend)]
    rows = winner.problem.sizes["m"]
    if row not in order:
        return Place(rows, 100.0, ten, float("nan"), float("nan"))
    at = order.index(row)
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


def faster(times: np.ndarray, place: int) -> float:
    """Share of the configurations that are faster. [%]"""
    return 100.0 * float(np.mean(times < times[place]))


def distinct(order: Sequence[int], tiles: Sequence[tuple[int, ...]], count: int) -> list[tuple[int, ...]]:
    return list(dict.fromkeys(tiles[i] for i in order))[:count]


def scored(row: Mapping[str, Any], configs: Sequence[Mapping[str, int]], arch: carver.Arch) -> dict[str, float]:
    m, n, k = row["problem"]
    tuned, again, cold = (np.array(row[name]) for name in ("tuned_us", "again_us", "cold_us"))
    tiles = [tile(config) for config in configs]
    same: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for i, config in enumerate(configs):
        turn = config["GROUP_M"] if m > config["BLOCK_M"] else 1
        same[*tiles[i], config["num_warps"], config["num_stages"], turn].append(i)
    for places in same.values():
        cold[places] = cold[places].min()
    first, second, best = (int(times.argmin()) for times in (tuned, again, cold))
    op = carver.MatmulTemplate(m, n, k, trans_B=True, in_dtype="float8_e4m3", out_dtype="bfloat16")
    out = {
        "first tuning's winner in the second": faster(again, first),
        "first tuning's winner in the cold times": faster(cold, first),
        "its cold time over the least": float(cold[first] / cold[best]),
        "two tunings choose one tile [share]": float(tiles[first] == tiles[second]),
        "the tile of the first is among the ten fastest of the second [share]": float(
            tiles[first] in distinct(np.argsort(again, kind="stable").tolist(), tiles, 10)
        ),
        "a configuration's two times differ by [us]": float(np.std(tuned - again)),
    }  # fmt: skip
    for name, where, won in (("tuner's", warm(arch, op.problem), first), ("cold", arch, best)):
        order = rank(op.problem, where, configs, BACKEND).indices
        ten = [tile(hint.config) for hint in recommend(op.problem, where, 10, BACKEND)]
        out[f"carver's place of the {name} winner"] = 100.0 * order.index(won) / len(configs) if won in order else 100.0
        out[f"its tile is among carver's first ten hints, {name} [share]"] = float(tiles[won] in ten)
    out["carver's first, its cold time over the least"] = float(cold[order[0]] / cold[best])
    return out


def retune(options: argparse.Namespace) -> None:
    arch = carver.load_arch(options.arch)
    head, *rows = frame.rows(options.table)
    for low, high in ((0, ROWS[0]), (ROWS[0], 1 << 30)):
        found = [scored(row, head["configs"], arch) for row in rows if low < row["problem"][0] <= high]
        print(f"{len(found)} problems with more than {low} rows")
        for name in found[0]:
            values = [one[name] for one in found]
            if "[share]" in name:
                print(f"    {name.removesuffix(' [share]')}: {np.mean(values):.0%}")
            elif "over the least" in name:
                print(f"    {name}: {np.exp(np.mean(np.log(values))):.3f}, at most {max(values):.3f}")
            else:
                print(f"    {name}: {np.median(values):.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for run in (space, retune):
        command = commands.add_parser(run.__name__)
        command.add_argument("table", type=Path)
        command.set_defaults(run=run)
        if run is space:
            command.add_argument("--most", type=int, default=400, help="winners of a device, at equal distances")
            command.add_argument("--cold", action="store_true", help="read all operands from DRAM")
        else:
            command.add_argument("--arch", default="h100_sxm")
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
