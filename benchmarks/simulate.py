"""How soon each search strategy of the tuner finds the best of a measured table, replayed with no device.

    python benchmarks/simulate.py TABLE ... [--most 50] [--seeds 5] [--compile-s 2] [--rep 100] [--search NAME] [--json]
    python benchmarks/simulate.py tests/data/h200/gemm.json.gz

TABLE is a file or folder that `benchmarks/tables.py evaluate` reads. Printed are trials and seconds until within 1 % of
the best: medians over the problems of the tables, of each at most --most, spread evenly.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from adapters import read

from carver.base.errors import NoCandidates
from carver.base.table import WIDTH, Column, progress_bars, screen_width, several, titled
from carver.base.types import FloatArray, Record
from carver.calibrate.tables import Case
from carver.ranking.profile import Profile
from carver.ranking.recommend import rank
from carver.tune.candidates import Choices, exhaustive, genetic, learn, local, random_order, rank_order

GOAL = 0.99
"""Share of the best candidate's speed that counts as reached."""


class Cost(Record):
    """What one trial takes beside its runs. [s] A candidate that fails costs its compilation only."""

    compile_s: float = 2.0
    overhead_s: float = 0.05
    warmup: int = 25
    rep: int = 100

    def trial(self, seconds: float) -> float:
        ran = np.isfinite(seconds)
        return self.compile_s + (self.overhead_s + (self.warmup + self.rep) * float(seconds) if ran else 0.0)


SEARCHES: Mapping[str, Callable[..., str]] = {
    "learn": learn,
    "rank order": rank_order,
    "local, from the ranking": local,
    "genetic, from the ranking": genetic,
    "genetic, random start": partial(genetic, seeded=False),
    "random": random_order,
    "exhaustive": exhaustive,
}
RANDOM = ("genetic, random start", "random", "genetic, from the ranking")
"""Those that draw: replayed with several seeds."""


class Replay(Record):
    """One replay. `to_goal` and `goal_s` are None where it stopped before the goal."""

    search: str
    case: str
    seed: int
    to_goal: int | None
    goal_s: float | None
    trials: int
    seconds: float
    reached: float
    """The best measured time over that of its own best: its share of the possible speed."""
    exhaustive_s: float
    tried: tuple[int, ...] = ()
    """Places of the candidates, in the order in which they were measured."""


def choices_of(case: Case, profile: Profile | None = None) -> tuple[Choices, FloatArray]:
    """The candidates of a case that the rules let pass, with predictions [s] and measured times [s], inf where failed.
    What the model rejects is tried by nobody but counts for the best."""
    ranking = case.ranked()
    keep = np.array(ranking.indices if ranking else [], int)
    predicted = ranking.seconds if ranking else np.zeros(0)
    given = np.argsort(keep)  # strategies must not see the ranking in the order of the list
    times = np.where(np.isfinite(case.seconds), case.seconds, np.inf)
    configs = [case.configs[i] for i in keep[given]]
    own = rank(case.problem, case.arch, configs, case.backend, profile=profile) if ranking else None
    return Choices(configs, predicted[given], ranking=own), times[keep[given]]


def replay(
    case: Case, search: str, seed: int = 0, cost: Cost | None = None, given: tuple[Choices, FloatArray] | None = None
) -> Replay:
    """One strategy on one table. Exhaustive search counts until its end: it knows no sooner."""
    price = cost or Cost()
    choices, times = given or choices_of(case)
    known: dict[int, None] = {}

    def measure(batch: Sequence[int]) -> list[float]:
        known.update(dict.fromkeys(batch))
        return [float(times[i]) for i in batch]

    SEARCHES[search](choices, measure, seed)
    tried = list(known)
    spent = np.cumsum([price.trial(float(times[i])) for i in tried])
    fastest = np.minimum.accumulate(times[tried])
    there = np.flatnonzero(fastest <= case.best_s / GOAL)
    at = None if not len(there) else len(tried) - 1 if search == "exhaustive" else int(there[0])
    total = sum(price.trial(float(t)) for t in times)
    # options set problems of one shape apart, as which reduction it is
    name = " ".join([f"{case.table}: {case.problem}", *(f"{k}={v}" for k, v in case.problem.options.items())])
    return Replay(
        search, name, seed, None if at is None else at + 1, None if at is None else float(spent[at]), len(tried),
        float(spent[-1]), float(case.best_s / fastest[-1]), total, tuple(tried),
    )  # fmt: skip


def simulate(
    cases: Iterable[Case], seeds: int = 5, cost: Cost | None = None, searches: Sequence[str] = tuple(SEARCHES)
) -> list[Replay]:
    """Each strategy on every case; those that draw, once a seed. What "learn" has learnt is carried from a table's
    problem to the next of the same operator, backend and device."""
    replays = []
    profiles: dict[tuple[str, ...], Profile] = {}
    with progress_bars(sys.stderr.isatty(), transient=True) as bars:
        step = bars.bar("problems", len(every := list(cases)))
        for case in every:
            step()
            key = (case.table, case.problem.operator, case.backend, case.arch.name)
            given = choices_of(case, profiles.get(key))
            if len(given[0]) < 2:
                continue
            for search in searches:
                for seed in range(seeds if search in RANDOM else 1):
                    replays.append(replay(case, search, seed, cost, given))
                    if search == "learn" and (ranking := given[0].ranking):
                        known = {i: float(given[1][i]) * 1e3 for i in replays[-1].tried}
                        with suppress(NoCandidates):  # where none ran
                            found = ranking.learn({i: ms if math.isfinite(ms) else None for i, ms in known.items()})
                            profiles |= {key: found.learnt.profile} if found.learnt else {}
    return replays


def replay_summary(replays: Sequence[Replay]) -> list[dict[str, Any]]:
    """One row a strategy: medians over cases and seeds; a replay that never got there counts as the longest."""
    rows = []
    for search in SEARCHES:
        own = [t for t in replays if t.search == search]
        if not own:
            continue
        trials = [float("inf") if t.to_goal is None else t.to_goal for t in own]
        share = [float("inf") if t.goal_s is None else t.goal_s / t.exhaustive_s for t in own]
        seconds = [float("inf") if t.goal_s is None else t.goal_s for t in own]
        rows.append({
            "search": search, "replays": len(own), "reached": sum(t.to_goal is not None for t in own) / len(own),
            "trials": statistics.median(trials), "trials_p90": float(np.quantile(trials, 0.9, method="higher")),
            "seconds": statistics.median(seconds), "of_exhaustive": statistics.median(share),
            "trials_to_stop": statistics.median(t.trials for t in own),
            "seconds_to_stop": statistics.median(t.seconds for t in own),
            "speed": statistics.median(t.reached for t in own), "speed_worst": min(t.reached for t in own),
        })  # fmt: skip
    return rows


def to_dict(replays: Sequence[Replay]) -> dict[str, Any]:
    """Plain JSON types; what was never reached is null."""
    rows = [{k: None if v == float("inf") else v for k, v in row.items()} for row in replay_summary(replays)]
    return {"goal": GOAL, "summary": rows, "replays": [asdict(t) for t in replays]}


def replay_table(replays: Sequence[Replay], width: int = WIDTH, styled: bool = False) -> str:
    rows = replay_summary(replays)
    cells: dict[str, Callable[[dict[str, Any]], str]] = {
        "reached": lambda row: f"{100 * row['reached']:.0f} %",
        "trials": lambda row: _count(row["trials"]),
        "90%": lambda row: _count(row["trials_p90"]),
        "seconds": lambda row: _count(row["seconds"]),
        "of exhaustive": lambda row: _count(row["of_exhaustive"], lambda share: f"1/{1 / share:.3g}"),
        "stops after": lambda row: _count(row["trials_to_stop"]),
        "speed": lambda row: f"{row['speed']:.3f}",
        "worst": lambda row: f"{row['speed_worst']:.3f}",
    }
    columns = [Column("search", tuple(row["search"] for row in rows), is_text=True)]
    columns += [Column(name, tuple(map(cell, rows)), spare=place) for place, (name, cell) in enumerate(cells.items())]
    title = f"Until within 1 % of the best, {several(len({t.case for t in replays}), 'problem')}: medians"
    caption = (
        "speed: of the fastest that the search had tried when it stopped, 1 is the best of the table; worst: the least "
        "of all replays. never: half of the replays (90 %: a tenth) or more stopped before that."
    )
    return titled(title, columns, width, [caption], styled)


def _count(value: float, shown: Callable[[float], str] = "{:.3g}".format) -> str:
    return "never" if math.isinf(value) else shown(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path, nargs="+", metavar="TABLE")
    parser.add_argument("--most", type=int, default=50, help="most problems of a table to use, spread evenly")
    parser.add_argument("--seeds", type=int, default=5, help="replays of a search that draws")
    parser.add_argument("--compile-s", type=float, default=2.0, help="assumed time to compile one candidate [s]")
    parser.add_argument("--rep", type=int, default=100, help="timed runs of each candidate")
    parser.add_argument("--search", action="append", choices=tuple(SEARCHES), help="this strategy alone; repeatable")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    cases: list[Case] = []
    for path in args.tables:
        found = list(read(path))
        cases += found[:: -(-len(found) // args.most)] if found else []
    replays = simulate(cases, args.seeds, Cost(args.compile_s, rep=args.rep), args.search or tuple(SEARCHES))
    if not replays:
        parser.error("no problem of these tables has two configurations to choose from")
    print(json.dumps(to_dict(replays), indent=1) if args.json else replay_table(replays, screen_width()))


if __name__ == "__main__":
    main()
