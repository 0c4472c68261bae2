"""What the programs beside it share: lines of JSON, times on a GPU, how good an order of configurations is, tables.

A time is the median of runs before each of which L2 was overwritten. An order is scored by what it loses: the time of
the best of its first k over the best of all that ran, beside the mean of the least of k drawn at random, and by the
predicted over the measured time of its first. What is below is counted alike by every program.
"""

from __future__ import annotations

import gzip
import json
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

import numpy as np

from carver.base.errors import ConfigError
from carver.base.given import text_of

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "tests" / "data"
PICKS = (1, 3, 5)
NEAR = (0.8, 1.25)
"""Predicted over measured times that count as right."""


# lines of JSON


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Of a file of lines, gzipped or not."""
    for line in text_of(path, ConfigError).splitlines():
        yield json.loads(line)


def write(path: Path, row: Mapping[str, Any]) -> None:
    """Add a line, so that what came before a fault or the end of the time is there; gzipped where the name says so."""
    with gzip.open(path, "at", encoding="utf-8") if path.suffix == ".gz" else path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


# times on a GPU


def median_ms(run: Callable[[], Any], flush: Any, runs: int) -> float:
    """Of so many runs, L2 overwritten with the tensor `flush` before each; nothing waits between them."""
    import torch

    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(runs)]
    for start, end in events:
        flush.zero_()
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return float(statistics.median(start.elapsed_time(end) for start, end in events))


# how good an order is


class Score(NamedTuple):
    name: str
    lost: tuple[float, ...]
    """Time of the best of the first PICKS over the best of all."""
    random: tuple[float, ...]
    """The mean of as many random picks."""
    ratio: float
    """Predicted over measured time of the first pick."""


def scored(name: str, predicted: Iterable[float | None], measured: Iterable[float | None]) -> Score:
    """Of times of the same configurations in one unit; None or NaN where there is none, which is no pick then.

    Raises ValueError where nothing has both.
    """
    both = [(p, m) for p, m in zip(predicted, measured, strict=True) if p is not None and m is not None]
    ran = np.array([pair for pair in both if all(map(math.isfinite, pair))])
    if not len(ran):
        raise ValueError(f"{name}: no configuration has a prediction and a time")
    taken = ran[np.argsort(ran[:, 0], kind="stable")]
    every = np.sort(taken[:, 1])
    lost = tuple(float(taken[:k, 1].min() / every[0]) for k in PICKS)
    chance = tuple(drawn(every, min(k, len(every))) / float(every[0]) for k in PICKS)
    return Score(name, lost, chance, float(taken[0, 0] / taken[0, 1]))


def drawn(ascending: np.ndarray, k: int) -> float:
    """Mean of the least of k different times."""
    n = len(ascending)
    ways = [math.comb(n - i - 1, k - 1) for i in range(n)]
    return float(np.dot(ascending, ways) / sum(ways))


def near(ratios: Sequence[float]) -> str:
    """How many of predicted over measured times count as right."""
    return f"{sum(NEAR[0] <= r <= NEAR[1] for r in ratios)} of {len(ratios)}"


HEADS = (*(f"k={k}" for k in PICKS), *(f"random {k}" for k in PICKS), "ratio", "within")


def means(scores: Sequence[Score]) -> tuple[Any, ...]:
    """Cells below HEADS: geometric means, the median of predicted over measured times, how many of these are right."""
    columns = zip(*((*s.lost, *s.random) for s in scores), strict=True)
    ratios = [s.ratio for s in scores]
    return *map(geometric_mean, columns), f"{statistics.median(ratios):.2f}", near(ratios)


def report(scores: Sequence[Score], title: str = "") -> str:
    """A line for each problem, and their means."""
    lines = [(s.name, *s.lost, *s.random, f"{s.ratio:.2f}", "") for s in scores]
    return table((title, *HEADS), [*lines, (f"mean of {len(scores)}", *means(scores))])


def half(name: str) -> int:
    """0 or 1, by a hash: kernels to set something on, and those to report it of."""
    return int(sha256(name.encode()).hexdigest(), 16) % 2


# tables


def table(heads: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """Columns as wide as their cells, the first to the left; numbers with three places."""
    text = [heads, *([f"{c:.3f}" if isinstance(c, float) else str(c) for c in line] for line in lines)]
    widths = [max(map(len, column)) for column in zip(*text, strict=True)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]).rstrip()
        for line in text
    )
