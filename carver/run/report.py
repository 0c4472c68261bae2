"""Compare predicted with measured times for one problem, as a table, a plot, JSON and HTML."""

from __future__ import annotations

import html
import json
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..arch.devices import from_plain
from ..base.errors import ConfigError, NoCandidates
from ..base.table import (
    ROWS_SHOWN,
    WIDTH,
    Column,
    Tunables,
    aligned,
    drawn,
    html_cells,
    in_all,
    in_style,
    scaled,
    screen_width,
    tunables,
    words,
    wrapped,
)  # fmt: skip
from ..base.types import Record
from ..problem.problem import Problem
from ..ranking.hint import Hint, Subject
from ..ranking.plots import figure_of, legend_beside, log_ticks, new_axes, page, save, tables, title
from ..ranking.table import GREY, MARKERS, OTHER
from .records import Measurement, tied

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .built import Built

KS = (1, 3, 5, 10)
LIBRARY = "library"
"""The backend of the measurement of what numpy or torch do."""
STEADY_PERCENT = 25.0
"""A median whose interval reaches further to both sides was disturbed."""
DISTURBED_PERCENT = 10.0
"""Runs that lost a core, beyond which a CPU's times are not to be relied on."""


class Best(Record):
    """The fastest candidate that computed the right result."""

    measurement: Measurement
    device: str
    defines: Mapping[str, str] | None = None
    """Macros that it was measured with."""

    @property
    def config(self) -> Mapping[str, Any]:
        return self.measurement.config

    @property
    def median_ms(self) -> float:
        return _median(self.measurement)

    @property
    def hint(self) -> Hint:
        if self.measurement.hint is None:
            raise ConfigError(f"{self.measurement.kernel} was measured without a hint; there is none to give")
        return Hint.from_dict(self.measurement.hint)

    @cached_property
    def kernel(self) -> Built:
        """Compiled and loaded on the device at the first use: `c = report.best.kernel(a, b)`."""
        from .built import compile_hint

        return compile_hint(self.hint, self.device, self.defines)


class Residual(Record):
    """Measured over predicted time of the candidates that one term dominates."""

    bound: str
    count: int
    median_ratio: float
    spread: float
    """Median of |ln(measured / predicted)|, about 0."""


class Report:
    """The measurements of one problem, or of one kernel with its arguments, on a device. `grid_size`: how many are
    feasible, if known; `defines`: macros."""

    def __init__(
        self, problem: Problem | Subject, measurements: Iterable[Measurement], *, device: str = "auto",
        grid_size: int | None = None, defines: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        every = list(measurements)
        self.problem, self.device, self.grid_size, self.defines = problem, device, grid_size, defines
        self.library = next((m for m in every if m.backend == LIBRARY), None)
        kernels = [m for m in every if m.backend != LIBRARY]
        if not kernels:
            raise ConfigError(f"no measurements of {problem}: nothing to report")
        ordered = sorted(kernels, key=lambda m: (math.inf if m.predicted_ms is None else m.predicted_ms, m.rank or 0))
        self.measurements: tuple[Measurement, ...] = tuple(ordered)
        """In predicted order, the failed ones too."""

    @property
    def ok(self) -> tuple[Measurement, ...]:
        """Those that ran and were right, in predicted order."""
        return tuple(m for m in self.measurements if m.ok and m.median_ms)

    @property
    def unsteady(self) -> tuple[Measurement, ...]:
        """Candidates whose time is uncertain, because the device was busy or there was too little time."""
        return tuple(m for m in self.ok if (m.ci_percent or 0.0) > STEADY_PERCENT)

    @property
    def disturbed_percent(self) -> float:
        """On a CPU: the share of timed runs that lost a core to another program."""
        said = [float(c["disturbed_percent"]) for m in self.ok for c in m.conditions if "disturbed_percent" in c]
        return sum(said) / len(said) if said else 0.0

    @property
    def outcomes(self) -> dict[str, int]:
        return dict(Counter(m.outcome for m in self.measurements))

    @cached_property
    def best(self) -> Best:
        """Raises NoCandidates, with how many ended how and the first reason, if none computed the right result."""
        if not self.ok:
            first = next((m.message for m in self.measurements if m.message), "")
            raise NoCandidates(f"{self.problem} on {self.measurements[0].device}: {first}", self.outcomes)
        return Best(self.tied[0], self.device, self.defines)

    @property
    def tied(self) -> list[Measurement]:
        """The fastest, `best`, and then those that noise does not tell from it (`carver.run.records`)."""
        return tied(self.ok)

    @property
    def _least_ms(self) -> float:
        return min(map(_median, self.ok))

    def slowdown(self, k: int) -> float | None:
        """Slowdown of the first k picks: the least time among them over the least of all measured; None if none ran.

        A failed candidate among the first k counts as one of the k, because whoever follows the ranking pays for it.
        """
        if k < 1:
            raise ConfigError(f"slowdown is of the first k candidates, k at least 1; got {k!r}")
        picks = [_median(m) for m in self.measurements[:k] if m.ok and m.median_ms]
        return min(picks) / self._least_ms if picks else None

    @property
    def correlation(self) -> dict[str, float | None]:
        """Spearman's rho and Kendall's tau-b of predicted and measured times; `_near_best`: within 1.5x of it.

        None where fewer than three candidates, or candidates that all tie, say nothing.
        """
        from scipy.stats import kendalltau, spearmanr

        pairs = [(m.predicted_ms, _median(m)) for m in self.ok if m.predicted_ms is not None]
        near = [(p, t) for p, t in pairs if t <= 1.5 * self._least_ms] if pairs else []
        out: dict[str, float | None] = {}
        for name, test in (("spearman", spearmanr), ("kendall", kendalltau)):
            for where, chosen in (("", pairs), ("_near_best", near)):
                columns = list(zip(*chosen, strict=True))
                informative = len(chosen) >= 3 and all(len(set(c)) > 1 for c in columns)
                out[name + where] = float(test(*columns).statistic) if informative else None
        return out

    @property
    def spearman(self) -> float | None:
        return self.correlation["spearman"]

    @property
    def residuals(self) -> tuple[Residual, ...]:
        """Measured over predicted, by the term that dominates the prediction; the most frequent first."""
        groups: dict[str, list[float]] = {}
        for m in self.ok:
            if m.predicted_ms:
                groups.setdefault(m.bound or "none", []).append(math.log(_median(m) / m.predicted_ms))
        found = [
            Residual(bound, len(logs), math.exp(statistics.median(logs)), statistics.median(map(abs, logs)))
            for bound, logs in groups.items()
        ]
        return tuple(sorted(found, key=lambda r: (-r.count, r.bound)))

    @property
    def library_ratio(self) -> float | None:
        """The library's time over the best kernel's: above 1, the kernel is faster."""
        if self.library is None or not self.library.ok or not self.library.median_ms or not self.ok:
            return None
        return self.library.median_ms / self.best.median_ms

    @property
    def rates(self) -> dict[str, float]:
        """The best kernel's arithmetic and compulsory traffic. [FLOP/s], [bytes/s]"""
        seconds = self.best.median_ms * 1e-3
        of = self.problem if isinstance(self.problem, Problem) else self.best.hint
        return {"flops_per_s": of.flops / seconds, "bytes_per_s": of.compulsory_bytes / seconds}

    @property
    def beyond_dram(self) -> float:
        """How many times as fast as DRAM allows the best kernel of a GPU was, where that is above 1, else 0: what its
        caches cannot hold of the compulsory traffic has to pass DRAM. A CPU's rate is not known that well."""
        m, seconds = self.best.measurement, self.best.median_ms * 1e-3
        if m.backend == "cpu" or m.hint is None or m.device_info.get("arch", m.arch) != m.arch:
            return 0.0
        arch = from_plain(m.hint["arch"])
        passed_bytes = self.rates["bytes_per_s"] * seconds - arch.l2_bytes - arch.l3_bytes
        times = passed_bytes / (arch.dram_bytes_per_s * seconds)
        return times if times > 1 else 0.0

    def summary(self) -> list[str]:
        """The findings as sentences, with the first reason for each kind of failure."""
        of = f" of {self.grid_size} feasible" if self.grid_size else ""
        failed = {m.outcome: m for m in reversed(self.measurements) if not m.ok}
        lines = [f"{self.problem} on {self.measurements[0].device}: {len(self.ok)} measured{of}"]
        first = self.measurements[0]
        if first.hint is not None and first.device_info.get("arch", first.arch) != first.arch:
            lines.append(f"predicted for {first.arch}, measured on {first.device_info['arch']}")
        if failed:
            kinds = [(self.outcomes[k], k.replace("_", " "), m.reason) for k, m in sorted(failed.items())]
            lines.append("failed: " + ", ".join(f"{n} {kind} ({why or 'no reason given'})" for n, kind, why in kinds))
        if not self.ok:
            return lines
        if self.unsteady:
            most = max(m.ci_percent or 0.0 for m in self.unsteady)
            lines.append(
                f"not to be relied on: {len(self.unsteady)} of {len(self.ok)} times are known to no better than "
                f"±{STEADY_PERCENT:.0f} %, one to ±{most:.0f} %, so the device was busy with something else, or the "
                "time too short; measure again"
            )
        if self.disturbed_percent > DISTURBED_PERCENT:
            lines.append(
                f"not to be relied on: other programs took cores away during {self.disturbed_percent:.0f} % of the "
                "runs, whose times are too long; measure again when the machine is idle"
            )
        best, rates = self.best, self.rates
        lines.append(
            f"best: {best.median_ms:.4g} ms, {scaled(rates['flops_per_s'], 'FLOP/s')}, "
            f"{scaled(rates['bytes_per_s'], 'B/s')} ({best.measurement.kernel}: {words(best.config)})"
        )
        if self.beyond_dram:
            lines.append(
                f"not to be relied on: {self.beyond_dram:.2g} times as fast as the datasheet's DRAM can be, so the "
                "kernel does less than it was ranked for, or the device is another"
            )
        if len(self.tied) > 1:
            lines.append(f"{len(self.tied)} are tied, within what is noise: of these the one with least registers, "
                         "shared memory, size")  # fmt: skip
        lost = {k: self.slowdown(k) for k in KS if k <= len(self.measurements)}
        told = ", ".join(f"k={k} {'none ran' if x is None else f'{x:.3f}'}" for k, x in lost.items())
        lines.append(f"slowdown of the first k picks, against the best of the {len(self.ok)} measured: {told}")
        names = {"spearman": "Spearman", "kendall": "Kendall"}
        if rho := [f"{names[k]} {v:.3f}" for k, v in self.correlation.items() if v is not None and k in names]:
            lines.append("rank correlation: " + ", ".join(rho))
        for r in self.residuals:
            lines.append(f"measured / predicted where {r.bound} dominates: {r.median_ratio:.3g} ({r.count} candidates)")
        if self.library is not None:
            said = self.library.message
            if ratio := self.library_ratio:
                said = f"{self.library.median_ms:.4g} ms, {ratio:.3g} x the best kernel's time"
            lines.append(f"{self.library.kernel}: {said}")
        return lines

    def rows(self) -> list[dict[str, Any]]:
        """One row per candidate in predicted order: the contents of the table, the JSON and the HTML."""
        best = self._least_ms if self.ok else None
        alike = self.tied if len(self.tied) > 1 else ()
        return [
            {
                "rank": m.rank, "kernel": m.kernel, "config": dict(m.config), "predicted_ms": m.predicted_ms,
                "measured_ms": m.median_ms, "ci_percent": m.ci_percent,
                "over_best": m.median_ms / best if best and m.ok and m.median_ms else None, "bound": m.bound,
                "samples": len(m.samples_ms), "outcome": m.outcome, "message": m.message, "tied": m in alike,
            }
            for m in self.measurements
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types: findings, one row per candidate, and the state of the device."""
        first = self.measurements[0]
        return {
            "problem": self.problem.to_dict(), "device": first.device,
            "device_info": {k: v for k, v in first.device_info.items() if k != "resources"},
            "host": first.host, "versions": dict(first.versions), "arch": first.arch, "measured": len(self.ok),
            "unsteady": len(self.unsteady), "tied": len(self.tied) if len(self.tied) > 1 else 0,
            "disturbed_percent": self.disturbed_percent, "feasible": self.grid_size,
            "outcomes": self.outcomes,
            "best": {"config": dict(self.best.config), "ms": self.best.median_ms, **self.rates} if self.ok else None,
            "slowdown": {str(k): self.slowdown(k) for k in KS} if self.ok else {},
            "correlation": self.correlation if self.ok else {},
            "residuals": [asdict(r) for r in self.residuals],
            "library": {"name": self.library.kernel, "ms": self.library.median_ms, "message": self.library.message,
                        "over_best": self.library_ratio} if self.library else None,
            "candidates": self.rows(),
        }  # fmt: skip

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1)

    def table(self, most: int = ROWS_SHOWN, width: int | None = None, styled: bool = False) -> str:
        """The findings and the first candidates by prediction as text, as wide as the screen unless `width` says.
        `styled`: in a terminal's colours."""
        width = width or screen_width()
        shown, same = self._columns(most, width)
        foot = in_all(same)
        if (more := len(self.measurements) - most) > 0:
            foot.append(f"{more} more")
        below = [in_style(line, "dim") if styled else line for line in wrapped(foot, width)]
        return "\n".join([*wrapped(self.summary(), width), drawn(shown, width, styled), *below])

    def _columns(self, most: int, width: int) -> Tunables:
        """Those of the first rows, and the tunables that need none: they have one value in all of them."""
        rows = self.rows()[:most]

        def text(name: str, **look: Any) -> Column:
            return Column(name, tuple(row[name] for row in rows), is_text=True, **look)

        def numbers(heading: str, name: str, digits: int = 4, **look: Any) -> Column:
            told = iter(aligned([row[name] for row in rows if row[name] is not None], digits))
            return Column(heading, tuple("" if row[name] is None else next(told) for row in rows), **look)

        out = [
            Column("#", tuple("" if row["rank"] is None else str(row["rank"]) for row in rows)),
            numbers("measured ms", "measured_ms", style="bold cyan"),
            numbers("predicted ms", "predicted_ms"),
            numbers("x best", "over_best"),
            numbers("± %", "ci_percent", 2, spare=99),
            Column("runs", tuple(str(row["samples"]) for row in rows), spare=100),
            text("bound", style="magenta"),
        ]
        if any(row["outcome"] != "ok" for row in rows):
            out.append(text("outcome"))
        if len({row["kernel"] for row in rows}) > 1:
            out.append(text("kernel"))
        differ, same = tunables([row["config"] for row in rows], out, width)
        return [*out, *differ], same

    __str__ = table

    def __repr__(self) -> str:
        return f"<Report {self.problem}: {len(self.ok)} of {len(self.measurements)} measured>"

    def _repr_html_(self) -> str:
        shown, same = self._columns(len(self.measurements), WIDTH)
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in (*self.summary(), *in_all(same)))
        head, rows = html_cells(shown)
        told = zip(self.measurements, rows, strict=True)
        body = "".join(f'<tr title="{html.escape(m.message)}">{cells}</tr>' for m, cells in told)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f'{lines}<div style="overflow-x:auto">{table}</div>'

    def to_html(self, path: Path | str | None = None) -> str:
        """One page that needs no other file: the findings, a picture, all candidates. Written to `path` if given."""
        text = page(self.document())
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def document(self) -> dict[str, Any]:
        """What the page draws."""
        columns = {
            "#": "rank", "measured ms": "measured_ms", "predicted ms": "predicted_ms", "x best": "over_best",
            "± %": "ci_percent", "runs": "samples", "bound": "bound", "outcome": "outcome", "kernel": "kernel",
            "configuration": "config", "message": "message",
        }  # fmt: skip
        rows = [{**row, "config": words(row["config"])} for row in self.rows()]
        findings = {"title": "Findings", "columns": [""], "rows": [[line] for line in self.summary()]}
        candidates = {"title": "Candidates", "columns": list(columns), "words": list(range(6, len(columns))),
                      "rows": [[row[name] for name in columns.values()] for row in rows], "ratios": [3]}  # fmt: skip
        return {
            **tables(str(self.problem), self.measurements[0].device, findings, candidates),
            "measured": [(m.predicted_ms, _median(m), m.bound) for m in self.ok if m.predicted_ms],
        }

    def plot(self, path: Path | str | None = None) -> Figure:
        """Predicted against measured time of every candidate that ran, a form and colour by what bounds it [ms]; the
        figure, saved to `path` if given. Needs matplotlib."""
        points = [(m.predicted_ms, m.median_ms, m.bound) for m in self.ok if m.predicted_ms and m.median_ms]
        if not points:
            raise ConfigError("nothing to plot: no candidate has both a predicted and a measured time")
        ax: Axes = new_axes(6.0, 7.6)
        bounds = [bound for _, _, bound in points]
        for bound in sorted(set(bounds), key=lambda b: -bounds.count(b)):
            x, y = zip(*((p, t) for p, t, b in points if b == bound), strict=True)
            marker, colour = MARKERS.get(bound, OTHER)
            ax.plot(x, y, marker, ms=5.5, color=colour, mec="white", mew=0.4, label=f"{bound or 'none'} ({len(x)})")
        times = [t for p, m, _ in points for t in (p, m)]
        ends = min(times) / 1.15, max(times) * 1.15
        best, first = min(points, key=lambda p: p[1]), points[0]
        for (p, t, _), name, form, size in ((first, "first pick", "o", 190), (best, "fastest measured", "D", 110)):
            ax.scatter(p, t, marker=form, s=size, facecolors="none", edgecolors="black", lw=1.4, label=name, zorder=4)
        if self.library and self.library.ok and (library := self.library.median_ms):
            ends = min(ends[0], library / 1.15), max(ends[1], library * 1.15)
            ax.hlines(library, *ends, colors=GREY, ls="-.", lw=1.2, label=f"library: {library:.4g} ms")
        ax.plot(ends, ends, "--", color=GREY, lw=1, label="predicted = measured")
        ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
        log_ticks(ax)
        ax.set(xlabel="predicted time [ms]", ylabel="measured time [ms]")
        lost = {k: self.slowdown(k) for k in (1, 5, 10) if k <= len(self.measurements)}
        told = ", ".join(f"{slowdown:.3f} (first {k})" for k, slowdown in lost.items() if slowdown is not None)
        title(ax, str(self.problem), self.measurements[0].device, f"time over the fastest: {told}")
        legend_beside(ax, "bound by")
        ax.grid(True, which="both", color="#eeeeee", lw=0.6)
        ax.set_axisbelow(True)
        figure = figure_of(ax)
        if path is not None:
            save(Path(path), figure)
        return figure


def _median(m: Measurement) -> float:
    assert m.median_ms is not None
    return m.median_ms
