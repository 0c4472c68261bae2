"""Plots of rankings and explanations, and a ranking as one HTML file.

Plots need matplotlib: the extra `plot`. The file needs no server and no network, light and dark, for a desk and a
phone. It holds what the command prints with `--json`, and a script that draws it. Pictures are SVG and the script is
plain JavaScript of 20 KB, where a plotting library is some megabytes a file; SVG has all that bars and curves need.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._version import __version__
from ..arch.descriptor import Arch, blocks_by_limit, occupancy_limits
from ..base.errors import CarverError, ConfigError, nearest
from ..base.given import shown as repeated
from ..base.table import ROWS_SHOWN, aligned, several, words
from ..cost.model import price
from ..kernels.declaration import kernel_named
from ..kernels.expr import flops_per_s, multiply_dtype
from ..kernels.space import given_space
from ..problem.problem import Problem, counted
from .compare import Fleet
from .declared import Declared, Layered
from .hint import Hint
from .ranking import Ranking, Search
from .recommend import recommend
from .table import BLUE, GREY, MARKERS, ORANGE, OTHER, RED, Explanation, columns, rate, term_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Over = Literal["best", "median", "fixed"]
FORMATS = (".png", ".svg", ".pdf")
WIDTH = 9.0
"""Of a figure. [inch]"""
LETTER_INCHES = 0.6 * 9 / 72
"""Width of a letter of a monospaced font of 9 points."""
GAP_POINTS = 12
"""Between a table and the bars beside it."""
WORD = 8
"""Letters of a heading that stays on one line."""


def plot_terms(ranking: Ranking, ax: Axes | None = None, most: int = ROWS_SHOWN) -> Axes:
    """The predicted time of each hint as a bar divided into its terms, best on top. [ms]"""
    hints = _first(ranking, most)
    every, same = columns(ranking, hints)
    tunables = {name for h in hints for name in h.tunables}
    shown = [c for c in every if c.heading.replace("\n", "") in ("#", "given", "kernel", *tunables)]
    names = [c.heading.replace("\n", "") for c in shown]
    headings = [name.replace("_", "_\n").split("\n") if len(name) > WORD else [name] for name in names]
    lines = max(map(len, headings))
    widths = [max(map(len, (*heading, *c.cells))) for heading, c in zip(headings, shown, strict=True)]
    padded = [[""] * (lines - len(heading)) + heading for heading in headings]
    head = "\n".join(_row((heading[i] for heading in padded), widths) for i in range(lines))
    labels = [_row((c.cells[i] for c in shown), widths) for i in range(len(hints))]
    # as wide as the bars need beside a table of so many letters
    ax = axes(ax, 2.0 + 0.26 * len(hints), max(WIDTH, 5.0 + LETTER_INCHES * len(labels[0])))
    times = aligned([h.predicted_ms for h in hints])
    _stacked(ax, [h.terms_ms for h in hints], [f"{t} ms, {h.bound}" for t, h in zip(times, hints, strict=True)])
    ax.set_yticks(range(len(hints)), labels, family="monospace", fontsize=9)
    ax.tick_params(axis="y", pad=GAP_POINTS)
    ax.annotate(
        head, (0, 1), xytext=(-GAP_POINTS, 1), xycoords="axes fraction", textcoords="offset points", ha="right",
        va="bottom", family="monospace", fontsize=9, color=GREY, linespacing=1.1,
    )  # fmt: skip
    in_all = fill(f"in all: {words(same)}", 60) if same else ""
    part = f"first {len(hints)} of {len(ranking)}" if len(hints) < len(ranking) else ""
    title(ax, _heading(ranking), part, in_all)
    return ax


def _first(ranking: Ranking, most: int) -> list[Hint]:
    if not len(ranking):
        raise ConfigError("nothing to plot: the ranking holds no hint")
    return list(ranking[: counted("most", most, 1)])


def plot_devices(rankings: Mapping[str, Ranking] | Iterable[Ranking], ax: Axes | None = None) -> Axes:
    """The best hint of each ranking as a bar of its terms: devices side by side, or one device and its variants. [ms]

    A mapping gives each ranking its label; without one it is the device's title.
    """
    named = dict(rankings) if isinstance(rankings, Mapping) else {r.arch.title: r for r in rankings}
    if not named:
        raise ConfigError("no rankings to compare")
    best = [ranking[0] for ranking in named.values()]
    ax = axes(ax, 1.7 + 0.33 * len(best))
    told = zip(aligned([h.predicted_ms for h in best]), (rate([h]) for h in best), best, strict=True)
    _stacked(ax, [h.terms_ms for h in best], [f"{t} ms, {r.cells[0]} {r.heading}, {h.bound}" for t, r, h in told])
    ax.set_yticks(range(len(best)), list(named), fontsize=9)
    problems = dict.fromkeys(str(h.subject) for h in best)
    title(ax, "best configuration of each", *problems)
    return ax


def plot_roofline(ranking: Ranking, ax: Axes | None = None, most: int = 500) -> Axes:
    """The hints under the device's roofline: predicted rate over arithmetic intensity of their DRAM traffic.

    Of a compiled kernel the arithmetic is that of its matrix products. Raises ConfigError if it has none.
    """
    hints = _first(ranking, most)
    if not hints[0].flops:
        raise ConfigError(f"no roofline of {ranking.subject}: its code has no matrix products, whose FLOPs are counted")
    ax = axes(ax, 5.2)
    arch = ranking.arch
    dtype, rates = rates_of(ranking)
    x = np.array([h.flops / h.details.get("dram_bytes", h.compulsory_bytes) for h in hints])
    y = np.array([h.flops / h.predicted_ms * 1e-9 for h in hints])
    compulsory = hints[0].flops / hints[0].compulsory_bytes
    roofs: dict[float, list[str]] = {}
    for unit, flops_each_s in rates.items():
        roofs.setdefault(flops_each_s / 1e12, []).append(unit)
    peak, slopes = max(roofs), {"DRAM": arch.dram_bytes_per_s / 1e12, "L2": arch.l2_bytes_per_s / 1e12}
    ridge = peak / slopes["DRAM"]
    low, high = min(x.min(), compulsory, ridge) / 2.5, max(x.max(), compulsory, ridge) * 2.5
    bottom = min(y.min(), low * slopes["DRAM"] * 2.5) / 1.6
    ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(bottom, peak * 1.6))
    # names stand in the legend: beside the lines they would cover each other, or candidates, on some device
    for roof, units in sorted(roofs.items(), reverse=True):
        if roof > 1.2 * bottom:
            ax.plot([roof / slopes["DRAM"], high], [roof] * 2, color="black", ls="-" if roof == peak else "--", lw=1.3,
                    label=f"{' and '.join(units)} units, {dtype}: {roof:,.4g} TFLOP/s")  # fmt: skip
    for name, slope in slopes.items():
        if peak > slope * low * 1.2:  # else it is all but out of sight
            ax.plot([low, peak / slope], [low * slope, peak], color=MARKERS[name][1], ls="-" if name == "DRAM" else ":",
                    lw=1.6, label=f"{name}: {slope:,.3g} TB/s")  # fmt: skip
    ax.axvline(compulsory, color=GREY, lw=0.9, label="each byte moved once")
    for i, bound in enumerate(dict.fromkeys(h.bound for h in hints)):
        chosen = np.array([h.bound == bound for h in hints])
        marker, colour = MARKERS.get(bound, OTHER)
        # no edges: white ones of candidates on top of each other would bleach the colour
        ax.scatter(x[chosen], y[chosen], marker=marker, color=colour, s=24, zorder=4 - 0.1 * i,
                   label=f"bound by {bound} ({chosen.sum()})")  # fmt: skip
    ax.plot(x[0], y[0], "o", ms=11, mfc="none", mec="black", mew=1.3, zorder=5, label=f"first: {y[0]:,.4g} TFLOP/s")
    log_ticks(ax)
    ax.set(xlabel="arithmetic intensity [FLOP/byte of DRAM traffic]", ylabel="predicted rate [TFLOP/s]")
    title(ax, f"{_heading(ranking)}, first {len(hints)}")
    legend_beside(ax, "")
    ax.grid(True, which="major", color="#e5e5e5", lw=0.6)
    ax.set_axisbelow(True)
    return ax


def rates_of(ranking: Ranking) -> tuple[str, Mapping[str, float]]:
    """The element type of the products and the rate of each unit that multiplies it. [FLOP/s]"""
    subject, first = ranking.subject, ranking[0]
    if first.layers:
        subject = next(iter(first.layers.values())).subject
    if isinstance(subject, Problem):
        return multiply_dtype(subject), flops_per_s(subject, ranking.arch)
    assert first.facts is not None
    spans = [first.facts.straight, *(loop.span for loop in first.facts.loops)]
    kinds = {kind for span in spans for kind in (*span.matrix, *span.block_matrix)}
    dtypes = sorted({kind.split()[1] for kind in kinds})  # after the instruction
    return " and ".join(dtypes), {"matrix": max(map(ranking.arch.flops_per_s, dtypes))}


def plot_heatmap(ranking: Ranking, x: str = "", y: str = "", over: Over = "best", ax: Axes | None = None) -> Axes:
    """Predicted time over two tunables, which need no names where only two vary. [ms]

    `over` says what a cell stands for: the best of all priced candidates with that pair ("best"), their median
    ("median"), or the first hint with these two changed and everything else kept ("fixed").
    """
    if not (x or y):
        varied = [name for name in ranking.table.keys if len(np.unique(ranking.table.column(name)[1])) > 1]
        x, y = varied if len(varied) == 2 else (x, y)
    xs, ys, ms = heatmap(ranking, x, y, over)
    ax = axes(ax, 1.6 + 0.45 * len(ys), 2.6 + 0.85 * len(xs))
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Rectangle

    best, worst = float(np.nanmin(ms)), float(np.nanmax(ms))
    top = min(worst, 4 * best) if worst > best else best * 1.01
    image = ax.imshow(ms, cmap="viridis_r", norm=LogNorm(best, top), aspect="auto", origin="lower")
    ax.set_facecolor("#eeeeee")
    texts = iter(aligned(ms[np.isfinite(ms)].tolist(), 3))
    for (row, column), value in np.ndenumerate(ms):
        if np.isfinite(value):
            dark = np.log(value / best) > 0.45 * np.log(top / best)
            ax.text(column, row, next(texts), ha="center", va="center", fontsize=9, color="white" if dark else "black")
        else:
            ax.text(column, row, "–", ha="center", va="center", color=GREY)
    row, column = divmod(int(np.nanargmin(ms)), len(xs))
    ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=RED, lw=3, clip_on=False, zorder=4))
    ax.set_xticks(range(len(xs)), list(map(str, xs)))
    ax.set_yticks(range(len(ys)), list(map(str, ys)))
    ax.tick_params(length=0)
    ax.set(xlabel=f"tunable {x}", ylabel=f"tunable {y}")
    said = {"best": "best over the rest", "median": "median over the rest", "fixed": "the rest as in the first hint"}
    empty = "cannot run" if over == "fixed" else "no candidate"
    title(ax, _heading(ranking), f"{said[over]}; framed: the fastest; –: {empty}")
    bar = ax.figure.colorbar(image, ax=ax, label="predicted time [ms]", extend="max" if worst > top else "neither")
    ticks = [best * factor for factor in (1, 1.2, 1.5, 2, 3, 4) if best * factor <= top * 1.001]
    ticks += [top] * (top > 1.1 * ticks[-1])
    bar.set_ticks(ticks, labels=list(aligned(ticks, 3)))
    bar.minorticks_off()
    return ax


def heatmap(ranking: Ranking, x: str, y: str, over: Over = "best") -> tuple[list[int], list[int], np.ndarray]:
    """Values of `x`, values of `y`, and predicted times of shape (y, x), NaN where there is no candidate. [ms]"""
    own = isinstance(ranking.table, Declared) and not ranking.given
    every = recommend(ranking.problem, ranking.arch, ranking.candidates, ranking.backend) if own else ranking
    table = every.table
    if not (x and y):
        raise ConfigError(f"a heat map needs two tunables, x and y, of {', '.join(table.keys)}")
    for name in (x, y):
        if name not in table.keys:
            raise ConfigError(f"no tunable {name!r}; {nearest(name, table.keys)}")
    if x == y:
        raise ConfigError(f"a heat map is over two tunables, got {x!r} twice")
    if over not in ("best", "median", "fixed"):
        raise ConfigError(f"over takes 'best', 'median' or 'fixed', got {over!r}")
    columns_of = [table.column(name) for name in (x, y)]
    of_x, of_y = (dict(zip(rows.tolist(), np.asarray(values).tolist(), strict=True)) for rows, values in columns_of)
    rows = sorted(of_x.keys() & of_y.keys())
    if not rows:
        raise ConfigError(f"no kernel of this ranking has both {x!r} and {y!r}")
    places = [np.array([of[row] for row in rows]) for of in (of_x, of_y)]
    seconds = every.all_seconds[rows]
    if over == "fixed":
        places, seconds = _around(ranking, (x, y), places, rows)
    xs, ys = (np.unique(values) for values in places)
    ms = np.full((len(ys), len(xs)), np.nan)
    column, row = np.searchsorted(xs, places[0]), np.searchsorted(ys, places[1])
    reduce = np.median if over == "median" else np.min
    for i, j in set(zip(row.tolist(), column.tolist(), strict=True)):
        ms[i, j] = reduce(seconds[(row == i) & (column == j)]) * 1e3
    return xs.tolist(), ys.tolist(), ms


def _around(
    ranking: Ranking, names: tuple[str, str], values: Sequence[np.ndarray], rows: Sequence[int]
) -> tuple[list[np.ndarray], np.ndarray]:
    """The first hint with two tunables set to every pair of values: those pairs that can run, and their times [s]. Of a
    kernel that would have to be compiled they are those of the list."""
    hint = ranking[0]
    if not isinstance(ranking.table, Declared):
        rest = {name: value for name, value in hint.config.items() if name not in names}
        alike = [
            i for i, other in enumerate(ranking.table.hints(rows, [0] * len(rows)))
            if {name: value for name, value in other.config.items() if name not in names} == rest
        ]  # fmt: skip
        return [column[alike] for column in values], ranking.all_seconds[[rows[i] for i in alike]]
    kernel = kernel_named(hint.problem.operator, hint.kernel, hint.backend)
    if missing := [name for name in names if name not in hint.config]:
        raise ConfigError(f"the first hint is of kernel {hint.kernel!r}, which has no {missing[0]!r}; use over='best'")
    first, second = (np.unique(v).tolist() for v in values)
    pairs = [dict(zip(names, (a, b), strict=True)) for a in first for b in second]
    space, _ = given_space(hint.problem, ranking.arch, kernel, [{**hint.config, **pair} for pair in pairs])
    return [space.columns[name] for name in names], price(space).seconds


def plot_explanation(explanation: Explanation) -> Figure:
    """Above: the terms of one hint's time [ms]. Below: the effect of its nearest changes that can run [%].

    Returns a figure, where the other plots return axes, because it has two axes.
    """
    hint, changes = explanation.hint, [c for c in explanation.changes if c.ms is not None]
    alone = {name: ms for name, ms in explanation.loop_ms.items() if ms > 0}
    ratios = (1.6 + len(alone), 0.6 + max(len(changes), 1))
    top, bottom = new_axes(3.0 + 0.26 * (len(alone) + len(changes)), rows=2, height_ratios=ratios)
    figure: Figure = top.figure
    whole = hint.predicted_ms
    told = aligned([whole])[0]
    _stacked(top, [hint.terms_ms], [f"{told} ms"])
    rows = range(1, len(alone) + 1)
    top.barh(rows, list(alone.values()), height=0.6, color="#dddddd", edgecolor=GREY, hatch="///", lw=0.5)
    for row, ms in zip(rows, alone.values(), strict=True):
        beside(top, ms, row, f"{ms:.{len(told.partition('.')[2])}f} ms")
    part = {"DRAM": "all bytes"}  # it works beyond the loop
    labels = (f"{part.get(name, 'main loop')}, {name} alone" for name in alone)
    top.set_yticks([0, *rows], ["predicted", *labels], fontsize=9)
    top.set_ylim(len(alone) + 0.6, -0.6)
    top.set_xlim(0, max([whole, *alone.values()]) * room([told]))
    what = fill(f"{hint.problem} on {explanation.arch.title}", 110)
    figure.suptitle(f"{what}\n{fill(words(hint.config), 110)}", x=0.01, ha="left", fontsize=10)

    percent = [100 * (c.ms / whole - 1) for c in changes if c.ms is not None]
    texts = [f"{p:+.1f} %, {c.bound}" for c, p in zip(changes, percent, strict=True)]
    for i, (p, text) in enumerate(zip(percent, texts, strict=True)):
        bottom.barh(i, p, height=0.7, color=ORANGE if p > 0 else BLUE)
        beside(bottom, max(p, 0), i, text)
    bottom.axvline(0, color="black", lw=0.8)
    bottom.set_yticks(range(len(changes)), [f"{c.tunable} {c.old} → {c.new}" for c in changes], fontsize=9)
    bottom.tick_params(axis="y", length=0)
    bottom.set_ylim(max(len(changes), 1) - 0.4, -0.6)
    low, high = min([0.0, *percent]), max([1.0, *percent])
    bottom.set_xlim(low * 1.08, high + (room(texts) - 1) * (high - low))
    bottom.set_xlabel("change of the predicted time [%]")
    skipped = len(explanation.changes) - len(changes)
    title(bottom, "one tunable moved by one step, the rest kept where that runs; below 0 is faster",
          f"left out: {several(skipped, 'step')} that cannot run" if skipped else "")  # fmt: skip
    bottom.spines[["top", "right"]].set_visible(False)
    return figure


def explore(draw: Callable[..., object], **choices: Iterable[Any]) -> None:
    """A menu for each argument of `draw` in a notebook; without ipywidgets one picture, of the first of each choice."""
    menus = {name: list(values) for name, values in choices.items()}

    def show(**chosen: Any) -> None:  # a notebook would print what `draw` returns
        draw(**chosen)

    try:
        from ipywidgets import interact
    except ImportError:
        draw(**{name: values[0] for name, values in menus.items()})
    else:
        interact(show, **menus)


def plot_search(search: Search, ax: Axes | None = None) -> Axes:
    """The best predicted time so far of a search against configurations compiled; each of them as a point. [ms]"""
    if not search.best:
        raise ConfigError("nothing to plot: the search has no price")
    ax = axes(ax, 4.0)
    priced = [(i, step) for i, step in enumerate(search.steps, 1) if step.predicted_ms is not None]
    colours = {"seed": ORANGE, "spread": GREY, "fewer stages": RED}
    for origin in dict.fromkeys(step.origin for _, step in priced):
        own = [(i, step.predicted_ms or 0.0) for i, step in priced if step.origin == origin]
        ax.scatter([i for i, _ in own], [ms for _, ms in own], s=18, color=colours.get(origin, BLUE), label=origin)
    counts, seconds, best = zip(*search.best, strict=True)
    ax.step([*counts, len(search.steps)], [*best, best[-1]], where="post", color=BLUE, lw=1.2, label="best so far")
    ax.set_yscale("log")
    log_ticks(ax, "y")
    ax.set_xlabel(f"configurations compiled, in {seconds[-1]:.0f} s")
    ax.set_ylabel("predicted time [ms]")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=9)
    title(ax, f"best {best[-1]:.4g} ms", f"ended: {search.ended}")
    return ax


def _stacked(ax: Axes, terms: Sequence[Mapping[str, float]], texts: Sequence[str]) -> None:
    """One bar a mapping, its terms end to end, and a text behind it."""
    rows, left = np.arange(len(terms)), np.zeros(len(terms))
    for name in dict.fromkeys(name for each in terms for name in each):
        ms = np.array([each.get(name, 0.0) for each in terms])
        if ms.any():
            ax.barh(rows, ms, left=left, height=0.74, label=name, color=term_colour(name), ec="white", lw=0.5)
            left += ms
    for row, end, text in zip(rows.tolist(), left.tolist(), texts, strict=True):
        beside(ax, end, row, text)
    ax.set_xlim(0, left.max() * room(texts))
    ax.set_ylim(len(terms) - 0.5, -0.5)
    ax.set_xlabel("predicted time [ms]")
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, 0.0), borderaxespad=4.2, ncols=6, fontsize=9,
              handlelength=1.2, handletextpad=0.5, columnspacing=1.2)  # fmt: skip


def _row(cells: Iterable[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))


def _heading(ranking: Ranking) -> str:
    on = f"\n{ranking.arch.title}, backend {ranking.backend}"
    return f"{ranking.subject}{'' if isinstance(ranking.table, Layered) else on}"


def save(path: Path, drawn: Axes | Figure) -> None:
    """Write a picture in the format that the file's ending names, and forget it."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"a plot is saved as {', '.join(FORMATS)}; got {str(path)!r}")
    figure = figure_of(drawn)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    pyplot().close(figure)


def figure_of(drawn: Axes | Figure) -> Figure:
    """The whole picture that axes are part of."""
    whole: Any = drawn if hasattr(drawn, "savefig") else drawn.get_figure(root=True)
    figure: Figure = whole
    return figure


def pyplot() -> Any:
    """matplotlib's state of open figures. Raises CarverError where it is not installed."""
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise CarverError("plots need matplotlib: pip install matplotlib") from None
    return plt


def legend_beside(ax: Axes, title: str) -> None:
    """Where it covers no data."""
    ax.legend(title=title, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), alignment="left", fontsize=9,
              labelspacing=0.7)  # fmt: skip


def room(texts: Sequence[str]) -> float:
    """How much longer than the longest bar an axis must be for the texts behind the bars."""
    return 1.08 + 0.019 * max(map(len, texts), default=0)


def log_ticks(ax: Axes, which: str = "xy") -> None:
    """Plain numbers on logarithmic axes; between the powers of ten too where an axis is short."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis in (getattr(ax, f"{name}axis") for name in which):
        low, high = axis.get_view_interval()
        span = high / low
        between = (1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8) if span < 5 else (2, 3, 5) if span < 40 else (2, 5)
        major = axis.get_tick_params("major")
        axis.set_tick_params("minor", length=major.get("length", 3.5), pad=major.get("pad", 3.5))  # labels in one line
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(LogLocator(subs=between))
        axis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}") if span < 400 else NullFormatter())


def beside(ax: Axes, x: float, y: float, text: str) -> None:
    """A text to the right of a point, such as the end of a bar."""
    ax.annotate(text, (x, y), xytext=(4, 0), textcoords="offset points", va="center", fontsize=9)


def title(ax: Axes, *lines: str) -> None:
    """Lines above the axes, broken where they are long; empty ones are left out."""
    ax.set_title("\n".join(fill(line, 80) for line in "\n".join(lines).split("\n") if line), loc="left", fontsize=10)


def axes(given: Axes | None, height: float, width: float = WIDTH) -> Axes:
    """Those that the caller has, or new ones."""
    if given is not None and not hasattr(given, "barh"):
        raise ConfigError(f"ax is an Axes of matplotlib, got {repeated(given)}: plot().figure.savefig(FILE) saves")
    return new_axes(height, width) if given is None else given


def new_axes(height: float, width: float = WIDTH, rows: int = 1, **how: Any) -> Any:
    """The axes of a picture that has no others, or those of several rows. [inch]"""
    return pyplot().figure(figsize=(width, height), layout="constrained").subplots(rows, 1, **how)


ASSETS = Path(__file__).resolve().parent / "assets"
EXPLAINED = 40
POINTS = 64
"""Of a curve of occupancy."""


def page(document: Mapping[str, Any]) -> str:
    """The HTML of a document: `title`, `subtitle`, `command`, `provenance`, and what there is of `hints`, `rejected`,
    `reasons`, `roofline` (`flops_per_s`, `dram_bytes_per_s`), `measured` (predicted and measured ms, bound) and
    `tables` (`title`, `columns`, `rows`, `note`; `words`: which columns are text, `bars`: which are drawn, `ratios`:
    which have three places).

    A hint is the dict of `Hint.to_dict`, perhaps with `explanation` (of `explain --json`), `occupancy` and `loops`.
    """
    data = json.dumps(document, default=list, allow_nan=False).replace("<", "\\u003c")
    return Template((ASSETS / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(str(document["title"])), data=data,
        style=(ASSETS / "page.css").read_text(encoding="utf-8"),
        script=(ASSETS / "page.js").read_text(encoding="utf-8"),
    )  # fmt: skip


def tables(title: str, subtitle: str, *shown: Mapping[str, Any]) -> dict[str, Any]:
    """What `page` draws of tables alone. Those without rows are left out, and columns that are empty in all rows."""
    told = [_filled(each) for each in shown if each["rows"]]
    return {"title": title, "subtitle": subtitle, "tables": told, "provenance": [f"carver {__version__}"]}


def _filled(table: Mapping[str, Any]) -> dict[str, Any]:
    kept = [i for i in range(len(table["columns"])) if any(row[i] not in (None, "") for row in table["rows"])]
    places = {name: [kept.index(i) for i in table[name] if i in kept]
              for name in ("words", "bars", "ratios") if name in table}  # fmt: skip
    columns, *rows = ([row[i] for i in kept] for row in (table["columns"], *table["rows"]))
    return {**table, **places, "columns": columns, "rows": rows}


def devices(fleet: Fleet, title: str) -> dict[str, Any]:
    """What `page` draws of a fleet: a row a device, what one configuration for all loses, devices left out."""
    one = fleet.one
    rows = [
        [name, hint.predicted_ms, *(hint.band_ms or (None, None)),
         f"{hint.details['roofline_share']:.0%}" if "roofline_share" in hint.details else None, hint.bound,
         hint.backend, words(hint.config),
         *([] if one is None else [f"{one.losses[name]:+.1%}"])]
        for name, hint in zip(fleet.rankings, fleet.best, strict=True)
    ]  # fmt: skip
    heads = ["device", "ms", "80 % from", "to", "roof", "bound", "backend", "configuration"]
    note = "" if one is None else f"One for all ({one.backend}): {words(one.config)}"
    best = {"title": "Best configuration of each device", "columns": [*heads, *["one for all"] * bool(one)],
            "rows": rows, "words": [0, 5, 6, 7], "bars": [1], "note": note}  # fmt: skip
    refused = [list(each) for each in fleet.left_out.items()]
    out = {"title": "Left out", "columns": ["device", "why"], "rows": refused, "words": [0, 1]}
    return tables(title, "predicted, not measured", best, out)


def document(ranking: Ranking, explained: int = EXPLAINED) -> dict[str, Any]:
    """What `page` draws of a ranking. The first `explained` carry their nearest changes."""
    arch = ranking.arch
    hints: list[dict[str, Any]] = []
    for hint in ranking:
        drawn = hint.to_dict()
        drawn["occupancy"] = occupancy_curves(
            arch, hint.launch.threads / arch.warp_size, hint.launch.smem_bytes, hint.launch.registers
        )
        if hint.facts is not None:
            loops = [(f"{x.name} {x.where}".strip() or "loop", x.trips, x.span) for x in hint.facts.loops]
            drawn["loops"] = [
                {"name": name, "passes": passes, "instructions": span.instructions, "pipes": dict(span.pipe_clk),
                 "matrix_flop": dict(span.matrix)}
                for name, passes, span in (*loops, ("outside of loops", 1.0, hint.facts.straight))
            ]  # fmt: skip
        elif len(hints) < explained and isinstance(hint.subject, Problem):
            drawn["explanation"] = {n: v for n, v in hint.explain().to_dict().items() if n != "hint"}
        hints.append(drawn)
    peak = max(rates_of(ranking)[1].values(), default=0.0) if hints and ranking[0].flops else 0.0
    return {
        "title": f"{ranking.subject}", "subtitle": f"{arch.title}, backend {ranking.backend}",
        "backend": ranking.backend, "hints": hints, "rejected": dict(ranking.rejected),
        "reasons": {str(place): why for place, why in ranking.reasons.items()},
        "roofline": {"flops_per_s": peak, "dram_bytes_per_s": arch.dram_bytes_per_s},
        "provenance": [
            *ranking.notes, f"{arch.title}; constants: {arch.provenance}",
            f"predicted by carver {__version__}, not measured",
        ],
    }  # fmt: skip


def occupancy_curves(arch: Arch, warps: float, smem_bytes: float, registers: float) -> dict[str, Any]:
    """Blocks of a kernel that an SM holds, by each limit and for other registers, shared memory and warps."""
    now = {"registers a thread": registers, "shared memory of a block [bytes]": smem_bytes, "warps of a block": warps}
    most_warps = arch.max_threads_per_block / arch.warp_size
    most = (float(arch.max_regs_per_thread), float(arch.smem_per_block_bytes), most_warps)
    curves = {}
    for place, ((name, value), limit) in enumerate(zip(now.items(), most, strict=True)):
        values = np.unique(np.round(np.linspace(1.0 if place != 1 else 0.0, max(limit, value), POINTS)))
        columns = [np.full(len(values), float(n)) for n in (registers, smem_bytes, warps)]
        columns[place] = values
        blocks = np.minimum.reduce(occupancy_limits(arch, columns[2], columns[1], columns[0]))
        curves[name] = {"values": values.tolist(), "blocks": blocks.astype(int).tolist(), "now": float(value)}
    return {"limits": blocks_by_limit(arch, warps, smem_bytes, registers), "curves": curves}


