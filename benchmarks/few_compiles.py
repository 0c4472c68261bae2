"""How well `carver.ranking.surrogate` chooses what to compile of an autotuned list: replayed, with nothing compiled.

    python benchmarks/few_compiles.py score [--share default,0.3,0.4] [--parts 6] [--json]
    python benchmarks/few_compiles.py times
    python benchmarks/few_compiles.py fit

The tables in `tests/data` hold the price of every configuration of the lists of libraries, as compiling all of them
gave it, beside measured times. `score` compiles only a share of each list of 20 or more, on paper, or as much as
`rank_kernel` does by default, and prints what its first pick loses by price against compiling all, and the first and
the best of three by measured time, beside a random share. With `--parts` each list counts as so many random parts of
itself too, which tell a gain from chance: one list's first moves a mean by 0.004. The lists of fla-core are those that
SCALES was fitted to; FlagGems' and those of twenty other packages are held out. `fit` repeats the fit. `times` lets the
surrogate choose by measured times, as `enable_triton` does where it times what it compiles, and prints how much slower
than the best of each list its choice is; beside it the best of three and the first by prices, of as many and of all.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean
from typing import Any
from unittest.mock import patch

import frame
import numpy as np
from scipy.optimize import minimize

from carver.arch.devices import load
from carver.base.types import FloatArray
from carver.ranking import surrogate
from carver.ranking.kernel import in_turns, most_compiled
from carver.ranking.surrogate import Axes, Price, Scale, axes_of, covariance, explored

TABLES = {
    "fla-core": "h200/lists.jsonl.gz", "FlagGems": "h100/lists.jsonl.gz", "20 packages": "h200/packages.jsonl.gz",
}  # fmt: skip
FITTED = "fla-core"
LEAST_ENTRIES = 20
MOST_FITTED = 60
"""Entries of the longest list that is fitted to: a longer one would outweigh the others."""
SEED = 1
PART = 0.85
"""Of a list's entries, those in a random part of it."""


@dataclass(frozen=True)
class Listed:
    """One autotuned list at one launch."""

    kernel: str
    axes: Axes
    price_s: FloatArray
    """NaN where the compiler refused."""
    measured_ms: FloatArray
    library: str


def lists() -> list[Listed]:
    rows = [row | {"library": library} for library, name in TABLES.items() for row in frame.rows(frame.DATA / name)]
    rows = [row for row in rows if row.get("predicted_ms") and len(row["configs"]) >= LEAST_ENTRIES]
    rows = [row for row in rows if sum(ms is not None for ms in row["predicted_ms"]) > 1]
    return [
        Listed(
            row["kernel"],
            axes_of(row["configs"], [math.prod(grid or [1]) for grid in row["grids"]], load(row["arch"]).sm_count),
            np.array(row["predicted_ms"], float) * 1e-3,
            np.array(row.get("measured_ms") or [None] * len(row["configs"]), float),
            row["library"],
        )
        for row in rows
    ]


def parts(listed: Listed, count: int) -> list[Listed]:
    """The list, and so many random parts of it in which something can be compiled."""
    every, drawn = len(listed.axes), [listed]
    some = max(LEAST_ENTRIES, math.ceil(PART * every))
    for seed in range(count):
        rows = np.sort(np.random.default_rng(seed).permutation(every)[:some])
        axes = replace(listed.axes, columns=listed.axes.columns[rows])
        drawn.append(replace(listed, axes=axes, price_s=listed.price_s[rows], measured_ms=listed.measured_ms[rows]))
    return [each for each in drawn if np.isfinite(each.price_s).any()]


def count_of(listed: Listed, share: float | None) -> int:
    """Of this share, by default what `rank_kernel` compiles."""
    return most_compiled(share, len(listed.axes))


def compiled(listed: Listed, share: float | None) -> list[int]:
    """Places that are compiled where the surrogate chooses."""

    def price(places: Sequence[int]) -> Mapping[int, Price]:
        return {
            i: Price(float(s) if np.isfinite(s) else None, repr(s)) for i in places for s in [listed.price_s[i]]
        }  # fmt: skip

    return list(explored(listed.axes, price, count_of(listed, share)))


def timed(listed: Listed, cores: int) -> list[int]:
    """Places that `enable_triton` compiles and times on so many cores, the list's first among them."""
    known: dict[int, Price] = {}

    def price(places: Sequence[int]) -> Mapping[int, Price]:
        for i in (*places, 0):
            ms = float(listed.measured_ms[i])
            known[i] = Price(ms if np.isfinite(ms) else None, str(i))
        return known

    most = most_compiled(in_turns(len(listed.axes), cores), len(listed.axes))
    if most == len(listed.axes):
        return list(range(most))
    return list(explored(listed.axes, price, most, wide=max(1, 3 * cores // 4)))


def over_best(every: Sequence[Listed], cores: Sequence[int] = (2, 4, 8, 16)) -> list[dict[str, Any]]:
    """How much slower than the best of each list, by measured times, what each way takes is."""

    def by_price(listed: Listed, places: Sequence[int]) -> list[int]:
        priced = np.where(np.isfinite(listed.price_s), listed.price_s, np.inf)
        order = [places[i] for i in np.argsort(priced[np.array(places)], kind="stable")]
        return [*different(priced, order), 0]

    ways: dict[str, Callable[[Listed], tuple[list[int], list[int]]]] = {
        f"timed, {count} cores": lambda listed, count=count: 2 * (timed(listed, count),) for count in cores
    }  # fmt: skip
    ways["three by price of a part"] = lambda listed: ((some := compiled(listed, None)), by_price(listed, some))
    ways["three by price of all"] = lambda listed: ((some := [*range(len(listed.axes))]), by_price(listed, some))
    out = []
    for way, choose in ways.items():
        over, count = [], 0
        for listed in every:
            some, taken = choose(listed)
            count += len(some)
            least = np.nanmin(listed.measured_ms)
            over.append(float(np.nanmin([*listed.measured_ms[taken], 5.0 * least]) / least))
        out.append({
            "way": way, "lists": len(over), "compiled": count / sum(len(listed.axes) for listed in every),
            "over": geometric_mean(over), "worst": max(over), "within 1 %": sum(each <= 1.01 for each in over),
        })  # fmt: skip
    return out


def score(every: Sequence[Listed], choose: Callable[[Listed], Sequence[int]]) -> dict[str, float]:
    count, loss, first, three = 0, [], [], []
    for listed in every:
        chosen = np.array(choose(listed))
        count += len(chosen)
        priced = np.where(np.isfinite(listed.price_s), listed.price_s, np.inf)
        order, all_of_it = chosen[np.argsort(priced[chosen], kind="stable")], np.argsort(priced, kind="stable")
        loss.append(min(priced[order[0]] / priced.min(), 5.0))
        times = listed.measured_ms
        if np.isfinite(times[order[0]]) and np.isfinite(times[all_of_it[0]]):
            first.append(times[order[0]] / times[all_of_it[0]])
            three.append(np.nanmin(times[different(priced, order)]) / np.nanmin(times[different(priced, all_of_it)]))
    return {
        "lists": len(loss), "share_compiled": count / sum(len(listed.axes) for listed in every),
        "price_loss": geometric_mean(loss), "worst_price_loss": max(loss), "measured_first": geometric_mean(first),
        "measured_best_of_3": geometric_mean(three),
    }  # fmt: skip


def different(priced: FloatArray, order: Sequence[int], count: int = 3) -> list[int]:
    """The first of an order whose prices differ: equal ones are one code, and one hint of a ranking."""
    return list({float(priced[i]): int(i) for i in reversed(order)}.values())[::-1][:count]


def fit(every: Sequence[Listed]) -> None:
    """Print the scales of the greatest likelihood, with a weak prior about those that stand in the module."""
    lists_of = [each for each in every if each.library == FITTED and len(each.axes) <= MOST_FITTED]
    kinds = list(surrogate.SCALES)

    def taken(theta: FloatArray) -> tuple[dict[str, Scale], float, float]:
        values = np.exp(theta)
        return (
            {kind: Scale(*map(float, values[3 * i : 3 * i + 3])) for i, kind in enumerate(kinds)},
            float(values[-2]), float(values[-1]),
        )  # fmt: skip

    start = np.log([0.5, 0.5, 0.05] * len(kinds) + [0.135, 0.02])

    def cost(theta: FloatArray) -> float:
        scales, joint, noise = taken(theta)
        total, count = 0.0, 0
        with patch.multiple(surrogate, SCALES=scales, JOINT_VARIANCE=joint, NOISE=noise):
            for each in lists_of:
                seen = np.flatnonzero(np.isfinite(each.price_s))
                wrong = np.log(each.price_s[seen])
                wrong = wrong - wrong.mean()
                among = covariance(each.axes, seen, seen) + surrogate.LEVEL**2 + noise**2 * np.eye(len(seen))
                root = np.linalg.cholesky(among)
                white = np.linalg.solve(root, wrong)
                total += 0.5 * float(white @ white) + float(np.log(np.diag(root)).sum())
                count += len(seen)
        return total / count + 5e-4 * float(((theta - start) ** 2).sum())

    found = minimize(cost, start, method="L-BFGS-B", options={"maxiter": 12})
    scales, joint, noise = taken(found.x)
    for kind, scale in scales.items():
        print(f"{kind:9} joint {scale.joint:.4f}, alone {scale.alone:.4f}, variance {scale.variance:.4f}")
    print(f"JOINT_VARIANCE {joint:.4f}, NOISE {noise:.4f}; minus log likelihood an entry {found.fun:.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["score", "times", "fit"])
    parser.add_argument("--share", default="default,0.3,0.4")
    parser.add_argument("--parts", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    every = lists()
    if asked.what == "fit":
        fit(every)
        return
    if asked.what == "times":
        rows = over_best([each for each in every if np.isfinite(each.measured_ms).sum() > 1])
        print(json.dumps(rows) if asked.json else frame.table(list(rows[0]), [[*row.values()] for row in rows]))
        return
    out = []
    for share in (None if each == "default" else float(each) for each in asked.share.split(",")):
        rng = np.random.default_rng(SEED)

        def at_random(listed: Listed, share: float | None = share, rng: np.random.Generator = rng) -> Sequence[int]:
            return [int(i) for i in rng.permutation(len(listed.axes))[: count_of(listed, share)]]

        def by_surrogate(listed: Listed, share: float | None = share) -> Sequence[int]:
            return compiled(listed, share)

        for library in TABLES:
            some = [part for each in every if each.library == library for part in parts(each, asked.parts)]
            for way, choose in (("surrogate", by_surrogate), ("random", at_random)):
                out.append({"lists of": library, "chosen by": way, **score(some, choose)})
    if asked.json:
        print(json.dumps(out))
        return
    heads = ("lists of", "chosen by", "lists", "compiled", "price", "worst", "measured first", "best of 3")
    print(frame.table(heads, (row.values() for row in out)))


if __name__ == "__main__":
    main()
