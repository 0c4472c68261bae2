"""How good a ranking is, against what was measured, of many problems by table, GPU, operator or shape."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import ConfigError, ProblemError
from ..base.table import WIDTH, Column, progress_bars, several, titled
from ..base.types import FloatArray, IntArray, Record
from ..kernels.expr import multiply_dtype
from ..ranking.declared import COVERAGE, NEAR, declared_in, trust
from ..ranking.plots import axes, legend_beside, log_ticks, title
from ..ranking.ranking import Ranking
from ..ranking.table import BLUE, GREEN, ORANGE, PINK
from .tables import Case, Formats, Remark, insist, read_all, reason

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KS = (1, 3, 5, 10)
GROUPS = ("table", "gpu", "operator", "shape")


class Summary(Record):
    """One line of an evaluation. Slowdowns are (geometric mean, 95th percentile, worst) by k."""

    name: str
    device: str
    problems: int
    candidates: float
    """Per problem, in the mean."""
    slowdown: Mapping[int, tuple[float, float, float]]
    random: Mapping[int, float]
    """Best of k candidates drawn at random, in the geometric mean."""
    fixed: float | None
    """The one configuration that is best over all these problems in hindsight; None where they share none."""
    spearman: float
    log_error: float
    covered: float
    """Share of measured times near the best that fell into the band of 80 %."""
    recall: float
    """Of the candidates that ran, the share that the rules keep."""
    precision: float
    """Of the candidates that the rules keep, the share that ran."""
    scores: Sequence[Score] = ()
    """Of each problem; `to_dict` leaves them out."""

    def to_dict(self) -> dict[str, Any]:
        slowdown = {str(k): dict(zip(("mean", "p95", "worst"), v, strict=True)) for k, v in self.slowdown.items()}
        random = {str(k): v for k, v in self.random.items()}
        own = {name: value for name, value in vars(self).items() if name != "scores"}
        return own | {"slowdown": slowdown, "random": random}


def evaluate(
    path: Path, ks: Sequence[int] = KS, by: str = "table", workers: int | None = None,
    say: Callable[[Remark], None] = insist, formats: Sequence[Formats] | None = None,
) -> tuple[list[Summary], list[Any]]:  # fmt: skip
    """Rank every problem of every table with the shipped model and sum up what its picks cost. `say` is told what could
    not be read or ranked. Also returned is what `scored` gave of what is no case."""
    cases = list(read_all(path, say, formats))
    scores: list[Score] = []
    others: list[Any] = []
    failed: dict[str, list[Remark]] = {}
    with (
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) if workers != 1 else nullcontext() as pool,
        progress_bars(sys.stderr.isatty()) as bars,
    ):
        attempt, step = partial(_attempt, ks=ks), bars.bar("ranking", len(cases))
        for one in pool.map(attempt, cases, chunksize=8) if pool else map(attempt, cases):
            step()
            if isinstance(one, Score):
                scores.append(one)
            elif isinstance(one, Remark):
                failed.setdefault(one.table, []).append(one)
            else:
                others.append(one)
    for table, remarks in failed.items():
        text = f"{len(remarks)} problems not ranked, the first: {remarks[0].text}"
        say(Remark(table, text, any(remark.broken for remark in remarks)))
    return summarise(scores, ks, by), others


def _attempt(case: Any, ks: Sequence[int]) -> Any:
    """One table's oddity must not hide the scores of the others, nor a fault of the model's."""
    try:
        return score(case, ks) if isinstance(case, Case) else case.scored()
    except Exception as error:
        return Remark(case.table, f"{case.problem}: {reason(error)}", not isinstance(error, ProblemError))


def summarise(scores: Iterable[Score], ks: Sequence[int] = KS, by: str = "table") -> list[Summary]:
    groups: dict[str, list[Score]] = {}
    for s in scores:
        case = s.case
        ways = {"gpu": case.arch.title, "operator": case.problem.operator, "shape": str(case.problem)}
        name = ways.get(by, f"{case.table}{f' ({case.group})' if case.group else ''}")
        groups.setdefault(name, []).append(s)
    return [_summary(name, rows, ks) for name, rows in groups.items()]


def _summary(name: str, rows: Sequence[Score], ks: Sequence[int]) -> Summary:
    counts = np.sum([s.runnable for s in rows], axis=0)
    ran_kept, failed_kept, ran_rejected, _ = (int(c) for c in counts)
    slowdown = {}
    for k in ks:
        values = [s.slowdown[k] for s in rows]
        slowdown[k] = (geometric_mean(values), float(np.quantile(values, 0.95)), max(values))
    devices = sorted({s.case.arch.name for s in rows})

    def over_numbers(average: Callable[[Any], Any], of: str) -> float:
        known = [v for s in rows if np.isfinite(v := getattr(s, of))]
        return float(average(known)) if known else float("nan")

    return Summary(
        name, devices[0] if len(devices) == 1 else f"{len(devices)} devices", problems=len(rows),
        candidates=float(np.mean([len(s.case.configs) for s in rows])), slowdown=slowdown,
        random={k: geometric_mean([s.random[k] for s in rows]) for k in ks}, fixed=best_fixed([s.case for s in rows]),
        spearman=over_numbers(np.mean, "spearman"), log_error=over_numbers(np.median, "log_error"),
        covered=over_numbers(np.mean, "covered"), recall=ran_kept / max(ran_kept + ran_rejected, 1),
        precision=ran_kept / max(ran_kept + failed_kept, 1), scores=rows,
    )  # fmt: skip


def best_fixed(cases: Sequence[Case]) -> float | None:
    """Geometric-mean slowdown of the best configuration tried on half of the problems; where untried, the median."""
    if len(cases) < 2:
        return None
    losses: dict[tuple[tuple[str, Any], ...], list[float]] = {}
    medians = [float(np.log(np.nanmedian(c.seconds) / c.best_s)) for c in cases]
    for case, median in zip(cases, medians, strict=True):
        tried: dict[tuple[tuple[str, Any], ...], float] = {}  # a table may have one configuration more than once
        for config, seconds in zip(case.configs, case.seconds, strict=True):
            if np.isfinite(seconds):
                key = tuple(config.items())
                tried[key] = min(tried.get(key, np.inf), float(np.log(seconds / case.best_s)) - median)
        for key, loss in tried.items():
            losses.setdefault(key, []).append(loss)
    total = sum(medians)
    common = [sum(v) for v in losses.values() if 2 * len(v) >= len(cases)]
    return float(np.exp((total + min(common)) / len(cases))) if common else None


def table(
    rows: Sequence[Summary], ks: Sequence[int] = KS, width: int = WIDTH, by: str = "table", styled: bool = False
) -> str:
    """The summary, grouped `by` that, as a table: the model's slowdown, and below it in brackets that of random draws.
    On a narrow screen recall and precision give way, then the later k; `to_dict` has everything."""
    def column(heading: str, above: Iterable[str], below: Iterable[str], **how: Any) -> Column:
        pairs = zip(above, below, strict=True)
        return Column(heading, tuple(cell for pair in pairs for cell in (*pair, ""))[:-1], **how)

    columns = [
        column(f"{by}\nand device", (r.name for r in rows), (r.device for r in rows), is_text=True, may_shrink=True),
        column("problems\nx configs", (str(r.problems) for r in rows), (f"x {r.candidates:.0f}" for r in rows)),
        *(
            column(f"k={k}", (short(r.slowdown[k][0], 3) for r in rows), (f"({short(r.random[k])})" for r in rows),
                   spare=place)
            for place, k in enumerate(ks)
        ),
        column("p95\nworst", (short(r.slowdown[ks[0]][1]) for r in rows),
               (short(r.slowdown[ks[0]][2]) for r in rows)),
        column("fixed\nSpearm.", (short(r.fixed) if r.fixed else "-" for r in rows),
               (f"{r.spearman:.2f}" if np.isfinite(r.spearman) else "-" for r in rows)),
        column("time err\nin band", (f"{100 * r.log_error:.0f} %" for r in rows),
               (f"{100 * r.covered:.0f} %" for r in rows)),
        column("recall\nprecis.", (f"{r.recall:.3f}" for r in rows), (f"{r.precision:.3f}" for r in rows),
               spare=len(ks)),
    ]  # fmt: skip
    title = "Slowdown of the first k picks, over the fastest time measured (in brackets: of k random draws)"
    legend = (
        f"p95, worst: over the problems, k={ks[0]} · fixed: the one configuration that is best over all problems in "
        f"hindsight · Spearm.: rank correlation within {NEAR:g}x of the best · in band: measured times in the band of "
        f"{COVERAGE:.0%} · recall: of those that ran, kept by the rules · precis.: of those kept, ran"
    )
    return titled(title, columns, width, [legend], styled)


def short(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}" if value < 10 else f"{value:.1f}"


def plot(rows: Sequence[Summary], ks: Sequence[int] = KS, ax: Axes | None = None) -> Axes:
    """What the first k picks cost on measured tables, filled, against as many random draws, open. [x the best time]"""
    if not rows:
        raise ConfigError("nothing to plot: no table was evaluated")
    ax = axes(ax, 1.5 + (0.2 + 0.13 * len(ks)) * len(rows))
    forms = (("o", BLUE), ("s", ORANGE), ("^", GREEN), ("D", PINK))
    for j, k in enumerate(ks):
        y = np.arange(len(rows)) + (j - (len(ks) - 1) / 2) * 0.7 / len(ks)
        picks, draws = [row.slowdown[k][0] for row in rows], [row.random[k] for row in rows]
        marker, colour = forms[j % len(forms)]
        ax.hlines(y, picks, draws, color="#cccccc", lw=1, zorder=1)
        ax.scatter(picks, y, marker=marker, color=colour, s=30, zorder=3, label=f"first {k}" if k > 1 else "first")
        ax.scatter(draws, y, marker=marker, facecolors="white", edgecolors=colour, s=26, zorder=2)
    count = [several(row.problems, "problem") for row in rows]
    names = [f"{row.name}\n{row.device}, {n}" for row, n in zip(rows, count, strict=True)]
    ax.set_yticks(range(len(rows)), names, fontsize=9)
    ax.set(xscale="log", ylim=(len(rows) - 0.5, -0.5), xlabel="time over that of the fastest measured [×], mean")
    ax.set_xlim(0.97, None)
    ax.axvline(1.0, color="black", lw=0.8)
    ax.hlines(np.arange(1, len(rows)) - 0.5, *ax.get_xlim(), color="#eeeeee", lw=0.8)
    log_ticks(ax, "x")
    title(ax, "filled: best of the first k picks; open: best of k random draws")
    legend_beside(ax, "")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


class Score(Record):
    """One problem's result. Slowdowns are times over the best measured time of the problem."""

    case: Case
    slowdown: dict[int, float]
    """Best of the first k picks, by k. A pick that did not run counts as no pick."""
    random: dict[int, float]
    """The same for k candidates drawn without looking, in the geometric mean over all draws of their best rank."""
    spearman: float
    """Rank correlation over the candidates within 1.5x of the best."""
    log_error: float
    """Median |log(predicted / measured)|."""
    covered: float
    """Share of the measured times near the best predicted that fell into their hint's band."""
    runnable: tuple[int, int, int, int]
    """Candidates: ran and kept, failed and kept, ran and rejected, failed and rejected."""


def score(case: Case, ks: Sequence[int] = (1, 3, 5, 10)) -> Score:
    ranking = case.ranked()
    order = np.array(ranking.indices if ranking else [], int)
    ran = np.isfinite(case.seconds)
    kept = np.zeros(len(ran), bool)
    kept[order] = True
    counts = (int((ran & kept).sum()), int((~ran & kept).sum()), int((ran & ~kept).sum()), int((~ran & ~kept).sum()))
    times = np.where(ran, case.seconds, np.inf)
    best = case.best_s
    predicted = np.full(len(ran), np.nan)
    if ranking:
        predicted[order] = ranking.seconds
    both = ran & np.isfinite(predicted)
    near = both & (times <= NEAR * best)
    sorted_times = np.sort(times[ran])
    return Score(
        case, slowdowns(case, order, ks), {k: random_best(sorted_times, k) / best for k in ks},
        _spearman(predicted[near], times[near]), log_error(case, predicted), _covered(ranking, case.seconds), counts,
    )  # fmt: skip


def slowdowns(case: Case, order: IntArray, ks: Sequence[int]) -> dict[int, float]:
    """Time of the best of the first k in that order over the best; what fails, or is not there, costs the slowest."""
    times = np.where(np.isfinite(case.seconds), case.seconds, np.inf)
    slowest = float(np.nanmax(case.seconds))
    return {k: float(min(times[order[:k]].min(initial=np.inf), slowest)) / case.best_s for k in ks}


def log_error(case: Case, predicted: FloatArray) -> float:
    """Median |log(predicted / measured)| of the candidates that have both; NaN where none has."""
    both = np.isfinite(predicted) & np.isfinite(case.seconds)
    return float(np.median(np.abs(np.log(predicted[both] / case.seconds[both])))) if both.any() else float("nan")


def _covered(ranking: Ranking | None, seconds: FloatArray) -> float:
    if ranking is None:
        return float("nan")
    predicted, measured = ranking.seconds, seconds[ranking.indices]
    near = (predicted <= NEAR * predicted[0]) & np.isfinite(measured)
    table = declared_in(ranking)
    spaces = [part.space for part in table.parts]
    bands = [trust(space.kernel, space.arch, multiply_dtype(space.problem)) for space in spaces]
    low, high = np.array([(band.low, band.high) for band in bands])[table.owner(np.array(ranking.rows))].T
    error = np.log(measured[near] / predicted[near])
    return float(np.mean((error >= low[near]) & (error <= high[near]))) if near.any() else float("nan")


def random_best(sorted_times: FloatArray, k: int) -> float:
    """Geometric mean of the best of k times drawn from n; the i-th is best by chance C(n-1-i, k-1) / C(n, k). [s]"""
    n = len(sorted_times)
    k = min(k, n)
    chance = np.zeros(n)
    chance[0] = k / n
    for i in range(1, n - k + 1):
        chance[i] = chance[i - 1] * (n - i - k + 1) / (n - i)
    return float(np.exp(chance @ np.log(sorted_times)))


def _spearman(a: FloatArray, b: FloatArray) -> float:
    from scipy.stats import rankdata

    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])


def geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values)))) if len(values) else float("nan")
