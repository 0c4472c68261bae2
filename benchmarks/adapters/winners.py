"""Lists of tuned winners: which configuration was the fastest for a problem, mostly without its time or the others'.

The candidates of a problem are all configurations that its list names for any problem of the same kind, on devices of
the same vendor: tuners search other spaces elsewhere. Beside the place of the winner among them stands what chance
would do, and what the list alone would: the candidates in the order of how often they won on other problems.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any, TypeVar

import numpy as np

from carver.arch.descriptor import Arch
from carver.base.errors import NoCandidates
from carver.base.table import WIDTH, Column, titled
from carver.calibrate.summary import geometric_mean, short
from carver.problem.problem import Problem
from carver.ranking.declared import declared_in
from carver.ranking.recommend import rank

FIRST = 10
SAMPLE = 400
"""Problems of one list and device that are ranked: more hardly move a median. They are taken at equal distances."""
TILE = ("tile_m", "tile_n", "tile_k")
T = TypeVar("T")


@dataclass(frozen=True)
class Pool:
    """All configurations of a list that one kind of problem may take, and how often each won."""

    configs: Sequence[Mapping[str, Any]]
    wins: Sequence[int]


@dataclass(frozen=True)
class Winner:
    """A problem, and the place of its fastest configuration in the pool."""

    table: str
    problem: Problem
    arch: Arch
    backend: str
    pool: Pool
    won: int

    def scored(self) -> Place:
        return place(self)


@dataclass(frozen=True)
class Place:
    """Where carver's order has a winner. Shares in [0, 1]."""

    winner: Winner
    percentile: float
    """Place over the number of candidates, in percent: 0 is the first, 100 for a winner that the rules refuse."""
    loss: float
    """Predicted time of the winner over that of carver's first pick; NaN for one that was refused."""
    refused: bool
    first: bool
    """carver's first pick has the winner's tile."""
    first_ten: bool
    """One of carver's first ten picks has the winner's tile."""
    same_first_ten: bool
    """One of carver's first ten picks is the winner, in every tunable."""
    random: float
    """Chance that one of ten random candidates has the winner's tile."""
    elsewhere: bool
    """The candidate that won most on other problems has the winner's tile."""
    elsewhere_ten: bool
    """One of the ten that won most on other problems has it."""


def place(winner: Winner) -> Place:
    pool, won = winner.pool, winner.won
    n = len(pool.configs)
    by_wins = sorted(range(n), key=lambda i: (int(i == won) - pool.wins[i], i))
    refused = Place(winner, 100.0, float("nan"), True, False, False, False, 0.0, False, False)
    try:
        ranking = rank(winner.problem, winner.arch, pool.configs, winner.backend)
    except NoCandidates:
        return refused
    order = [int(i) for i in ranking.indices]
    tiles = {
        order[at]: tuple(int(part.space.columns[name][row]) for name in TILE)
        for part, places, rows in declared_in(ranking).by_part(ranking.rows)
        for at, row in zip(places, rows, strict=True)
    }
    if won not in tiles:
        return refused
    at, tile, seconds = order.index(won), tiles[won], ranking.seconds
    alike = sum(other == tile for other in tiles.values())
    ten = min(FIRST, len(order))
    return Place(
        winner, 100.0 * at / n, float(seconds[at] / seconds[0]), False, tiles[order[0]] == tile,
        any(tiles[i] == tile for i in order[:FIRST]), won in order[:FIRST],
        1.0 - comb(len(order) - alike, ten) / comb(len(order), ten), tiles.get(by_wins[0]) == tile,
        any(tiles.get(i) == tile for i in by_wins[:FIRST]),
    )  # fmt: skip


@dataclass(frozen=True)
class WinnerSummary:
    """The winners of one list on one device. Shares in [0, 1], of the winner's tile unless said otherwise."""

    name: str
    device: str
    problems: int
    candidates: float
    percentile: float
    """Median."""
    loss: float
    """Geometric mean of those that were not refused."""
    refused: float
    first: float
    first_ten: float
    same_first_ten: float
    """Of the winner in every tunable."""
    random_ten: float
    elsewhere_first: float
    elsewhere_ten: float

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def summarise(places: Iterable[Place]) -> list[WinnerSummary]:
    groups: dict[tuple[str, str], list[Place]] = {}
    for one in places:
        groups.setdefault((one.winner.table, one.winner.arch.name), []).append(one)
    return [
        WinnerSummary(
            name, device, len(rows), float(np.mean([len(p.winner.pool.configs) for p in rows])),
            float(np.median([p.percentile for p in rows])), geometric_mean([p.loss for p in rows if not p.refused]),
            *(float(np.mean([getattr(p, share) for p in rows])) for share in (
                "refused", "first", "first_ten", "same_first_ten", "random", "elsewhere", "elsewhere_ten")),
        )
        for (name, device), rows in groups.items()
    ]  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One line of a list: a problem of some kind, its device, and what won, in the words of a backend."""

    kind: str
    problem: Problem
    arch: Arch
    backend: str
    config: Mapping[str, Any]

    @property
    def key(self) -> tuple[tuple[str, Any], ...]:
        return tuple(sorted(self.config.items()))

    @property
    def pool(self) -> tuple[str, ...]:
        return self.kind, self.backend, self.arch.vendor


def listed(table: str, rows: Iterable[Row]) -> Iterator[Winner | str]:
    """The winners of a list, and a remark where not all are ranked. Rows that say the same count once."""
    distinct = {(row.problem, row.arch.name, row.backend, row.key): row for row in rows}
    wins: dict[tuple[str, ...], Counter[tuple[tuple[str, Any], ...]]] = {}
    by_device: dict[str, list[Row]] = {}
    for row in distinct.values():
        wins.setdefault(row.pool, Counter())[row.key] += 1
        by_device.setdefault(row.arch.name, []).append(row)
    pools = {kind: Pool([dict(key) for key in won], list(won.values())) for kind, won in wins.items()}
    places = {kind: {key: i for i, key in enumerate(won)} for kind, won in wins.items()}
    for name, own in by_device.items():
        step = -(-len(own) // SAMPLE)
        if step > 1:
            yield f"{name}: one in {step} of {len(own)} winners is ranked"
        for row in own[::step]:
            yield Winner(table, row.problem, row.arch, row.backend, pools[row.pool], places[row.pool][row.key])


def sorted_out(table: str, rows: Sequence[T], make: Callable[[T], Row | str]) -> Iterator[Winner | str]:
    """The winners of a list; `make` gives the line of a row, or says why there is none."""
    made = [make(row) for row in rows]
    yield from listed(table, [line for line in made if isinstance(line, Row)])
    for why, count in Counter(line for line in made if isinstance(line, str)).items():
        yield f"{count} of {len(made)} winners passed over: {why}"


def table(rows: Sequence[WinnerSummary], width: int = WIDTH, styled: bool = False) -> str:
    """Where carver's order has the winners of each list, beside chance and beside what won most on other problems."""
    def shares(heading: str, values: Iterable[float], **how: Any) -> Column:
        return Column(heading, tuple(f"{value:.0%}" for value in values), **how)

    columns = [
        Column("list", tuple(r.name for r in rows), is_text=True, may_shrink=True),
        Column("device", tuple(r.device for r in rows), is_text=True),
        Column("winners\nof", tuple(f"{r.problems} / {r.candidates:.0f}" for r in rows)),
        Column("percentile\nmedian", tuple(f"{r.percentile:.1f}" for r in rows)),
        Column("predicted\nloss", tuple(short(r.loss, 3) if np.isfinite(r.loss) else "-" for r in rows)),
        shares("first", (r.first for r in rows)),
        shares("elsewh.\nfirst", (r.elsewhere_first for r in rows), spare=1),
        shares("in first\nten", (r.first_ten for r in rows)),
        shares("random\nten", (r.random_ten for r in rows)),
        shares("elsewh.\nten", (r.elsewhere_ten for r in rows)),
        shares("refused", (r.refused for r in rows), spare=2),
    ]
    title = "Where carver's order has the winners that others tuned, among all that the list names"
    legend = (
        "percentile: 0 is carver's first pick · predicted loss: time of the winner over carver's first pick, by the "
        "model · first, in first ten: share of winners whose tile those picks have; random: so many drawn at random; "
        "elsewh.: those that won most on other problems of the list · refused: winners that the rules hold cannot run, "
        "counted as last"
    )
    return titled(title, columns, width, [legend], styled)
