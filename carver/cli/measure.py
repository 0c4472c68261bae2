"""The commands that measure on a device, that keep what was measured, and that judge rankings by it."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from math import expm1, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from ..base.errors import ConfigError
from ..base.given import lines_from, printable
from ..base.table import Column, drawn, is_watched, progress_bars, scaled, screen_width, words
from ..ops.operator import Template
from ..ranking.plots import tables
from ..run.records import Measurement, Records
from . import options as opts

if TYPE_CHECKING:
    from ..calibrate.device import Calibration
    from ..calibrate.fitting import Fit
    from ..calibrate.summary import Summary
    from ..calibrate.tables import Formats, Remark
    from ..ranking.hint import Hint
    from ..ranking.ranking import Ranking
    from ..run.report import Report
    from ..tune import AutotuneResult


@partial(opts.per_operator, arch="auto")
def bench(
    template: Template, topk: int = 10, kernel: str | None = None, learn: bool = False, device: str | None = None,
    vs_grid: bool = False, budget: int | None = None, vs_library: bool = False, warm: bool = False,
    timer: str = "events", rounds: int = 5, budget_s: float = 60.0, timeout_s: float = 30.0, no_check: bool = False,
    fresh: bool = False, html: Path | None = None, plot: Path | None = None, quiet: bool = False, as_json: bool = False,
) -> opts.Found:  # fmt: skip
    """Compile, check and time the first hints, and compare with the predictions. Exits with 1 if none ran."""
    from ..run.bench import benchmark
    from ..tune import cache

    if budget is not None and not vs_grid:
        raise click.UsageError("--budget is the size of a sample of the grid; give --vs-grid as well")
    arch = template.arch
    assert arch is not None
    ranking = template.recommend_hints(topk, template.own_backend, kernel)
    if learn and (profile := cache.load_profile(LEARNT_AS, ranking)) is not None:
        ranking = template.recommend_hints(topk, template.own_backend, kernel, profile)
    grid = list(template.recommend_hints(max(topk, ranking.candidates), ranking.backend, kernel)) if vs_grid else None
    report = benchmark(
        list(ranking), device or ("cpu" if arch.kind == "cpu" else "cuda"), grid=grid, check=not no_check,
        grid_budget=budget, library=vs_library, warm=warm, rounds=rounds, budget_s=budget_s, timeout_s=timeout_s,
        timer=timer, fresh=fresh, progress=not quiet and not as_json and sys.stderr.isatty(),
    )  # fmt: skip
    if learn and (times := _calm_ms(ranking, report)):
        cache.save_profile(LEARNT_AS, ranking.learn(times))
    opts.save_document(report.document, html)
    if report.ok:
        opts.save_plot(plot, report.plot)
    return opts.Found(report.to_dict, lambda: report.table(styled=True), int(not report.ok))


LEARNT_AS = "bench"
"""Of the profiles of `--learn`, beside those of tuned functions."""


def _calm_ms(ranking: Ranking, report: Report) -> dict[Hint, float | None]:
    """Times of the hints that nothing disturbed, None for one that failed; empty where none ran."""
    places = {(hint.kernel, *hint.config.items()): hint for hint in ranking}
    calm = [m for m in report.measurements if not any(c.get("disturbed_percent", 0) >= 50 for c in m.conditions)]
    found = {(m.kernel, *m.config.items()): m.median_ms if m.ok else None for m in calm}
    times = {places[key]: ms for key, ms in found.items() if key in places}
    return times if any(times.values()) else {}


@partial(opts.per_operator, arch="auto")
def tune(
    template: Template, topk: int = 10, backend: str | None = None, timeout: float = 30.0, fresh: bool = False,
    html: Path | None = None,
) -> opts.Found:  # fmt: skip
    """Find the fastest of the first hints on the device of this machine, check it, and keep it in the cache.

    `carver.autotune` tunes kernels of your own, and `carver bench` compares predictions with measured times.
    """
    from ..tune import AutoTuner

    with warnings.catch_warnings():  # the notes below say the same
        warnings.filterwarnings("ignore", ".*not kept")
        tuner = AutoTuner.from_template(template, topk, backend)
        found = tuner.run(timeout=timeout, fresh=fresh, progress=is_watched())
    opts.save_document(lambda: _tried(found), html)
    return opts.Found(found.to_dict, f"{words(found.config)}\n{found!r}", notes=found.notes)


def _tried(found: AutotuneResult) -> dict[str, Any]:
    """What the page of `tune` holds."""
    tried = sorted(found.table, key=lambda m: (m.median_ms is None, m.median_ms or 0.0))
    rows = [[m.rank, m.median_ms, m.predicted_ms, m.outcome, words(m.config)] for m in tried]
    heads = ["predicted rank", "measured ms", "predicted ms", "outcome", "configuration"]
    shown = {"title": "Candidates tried", "columns": heads, "rows": rows, "words": [3, 4],
             "note": "; ".join(found.notes)}  # fmt: skip
    points = [(m.predicted_ms, m.median_ms, m.bound) for m in tried if m.predicted_ms and m.median_ms]
    return {**tables(found.name, found.summary().replace("\n", "; "), shown), "measured": points}


records = opts.Group("records", help="List, export and import measurements of this machine.")


def _open(database: Path | None = None) -> None:
    ctx = click.get_current_context()
    ctx.obj = ctx.with_resource(Records(database, new=ctx.invoked_subcommand == "import"))


records.callback, records.params = _open, opts.params_of(_open)  # it runs before each sub-command


class Filters(opts.Options):
    """Which measurements."""

    outcome: str | None = None
    operator: str | None = None
    kernel: str | None = None
    backend: str | None = None
    arch: str | None = None
    device: str | None = None


def _store() -> Records:
    found: Records = click.get_current_context().obj
    return found


@partial(opts.command, name="list", group=records)
def _list(filters: Filters, last: int = 20) -> opts.Found:
    """List measurements, one per line."""
    store = _store()
    found = store.find(problem=None, **vars(filters))
    rows = [_cells(m) for m in found[-last:]]
    names = ("id", "when", "device", "problem", "kernel", "outcome", "ms")
    columns = [
        Column(name, tuple(row[i] for row in rows), name != "ms", may_shrink=name in ("device", "problem"),
               spare={"kernel": 1, "when": 2}.get(name, 0))
        for i, name in enumerate(names)
    ]
    text = f"{drawn(columns, screen_width(), styled=True)}\n{min(last, len(found))} of {len(found)} in {store.path}"
    return opts.Found([m.to_dict() for m in found[-last:]], text)


def _cells(m: Measurement) -> tuple[str, ...]:
    sizes = " ".join(f"{axis}={n}" for axis, n in m.problem["sizes"].items() if n > 1)
    time = "" if m.median_ms is None else f"{m.median_ms:.4g}"
    return m.uuid[:8], m.created_at[:16].replace("T", " "), m.device, f"{m.operator} {sizes}", m.kernel, m.outcome, time


@partial(opts.command, name="show", group=records)
def _show(id: str) -> opts.Found:
    """Print one measurement in full, by the first characters of its id."""
    return opts.Found(_store().show(id).to_dict())


@partial(opts.command, name="export", group=records)
def _export(filters: Filters, file: TextIO, as_json: bool = False) -> None:
    """Write measurements as JSON lines."""
    click.echo(f"{_store().export(file, **vars(filters))} exported", err=True)


@partial(opts.command, name="import", group=records)
def _import(file: TextIO) -> opts.Found:
    """Read what `export` wrote; measurements that are here already are skipped."""
    added, skipped = _store().import_(lines_from(file, ConfigError))
    return opts.Found({"added": added, "skipped": skipped}, f"{added} added, {skipped} here already")


@partial(opts.command, name="prune", group=records)
def _prune(filters: Filters, older_than_days: float | None = None) -> opts.Found:
    """Delete measurements that fit all the filters; at least one must be given."""
    return opts.Found({"deleted": _store().prune(older_than_days=older_than_days, **vars(filters))})


@opts.command
def calibrate(
    more: tuple[Path, ...], device: str = "auto", seconds: float = 170.0, only_micro: bool = False,
    out: Path | None = None, tables: tuple[Path, ...] = (), kernel: str | None = None, start: str = "shipped",
    hold: tuple[str, ...] = (), write: bool = False, toml: bool = False, quiet: bool = False, as_json: bool = False,
) -> opts.Found:  # fmt: skip
    """Measure the constants of this device. With --from, fit those of your own kernels to measured times.

    \b
    carver calibrate                                 this machine's GPU, or CPU
    carver calibrate --from mine.csv other.sqlite    from five problems on
    """
    command = f"carver calibrate {shlex.join(sys.argv[2:])}".strip() if sys.argv[1:2] == ["calibrate"] else ""
    if not tables:
        if more or kernel or hold or write or toml:
            raise ConfigError("--kernel, --hold, --write, --toml and tables go with --from TABLE")
        return _device(device, seconds, not only_micro, out, command or "carver calibrate", quiet or as_json)
    if out or only_micro or device != "auto":
        raise ConfigError(
            "--device, --only-micro and --out are for the calibration of a device; --from measures nothing, and its "
            "--toml prints what was fitted"
        )
    return _tables((*tables, *more), kernel, start, hold, write, toml)


def _device(device: str, seconds: float, kernels: bool, out: Path | None, command: str, quiet: bool) -> opts.Found:
    from ..arch.devices import own_folder
    from ..calibrate.device import calibrate
    from ..calibrate.fitting import check_target
    from ..calibrate.fitting import write as keep

    check_target(out or own_folder() / "device.toml")
    with progress_bars(not quiet and sys.stderr.isatty()) as bars:
        found = calibrate(device, seconds, kernels=kernels, command=command, say=bars.say)
    path = keep(found.arch, out)
    return opts.Found({**found.to_dict(), "written": str(path)}, lambda: f"{_measured(found)}\nwritten: {path}")


def _measured(found: Calibration) -> str:
    readings = found.micro.readings.values()
    columns = [
        Column(found.before.title, tuple(f"{r.what} ({r.note})" if r.note else r.what for r in readings), True),
        Column("measured", tuple(_quantity(r.value, r.unit) for r in readings)),
        Column("+-", tuple(f"{100 * r.error:.1f} %" for r in readings)),
        Column("descriptor", tuple(_quantity(r.datasheet, r.unit) if r.datasheet else "" for r in readings)),
        Column("ratio", tuple(f"{r.value / r.datasheet:.2f}" if r.datasheet else "" for r in readings)),
    ]
    lines = [f"left out: {line}" for line in (*found.micro.left_out, *found.derived.refused, *found.skipped)]
    for choice in found.choices:
        cases = f"{len(choice.group.cases)} problems, {choice.group.candidates} configurations"
        lines.append(f"{choice.group.name} ({cases}): {choice.verdict}.")
    return "\n".join([drawn(columns, screen_width(), styled=True), *lines])


def _quantity(value: float, unit: str) -> str:
    return f"{value:,.5g} {unit}" if unit in ("clk", "FLOP/clk", "B/clk") else scaled(value, unit)


def _tables(
    paths: tuple[Path, ...], kernel: str | None, start: str, hold: tuple[str, ...], write: bool, toml: bool
) -> opts.Found:
    from ..arch.devices import load
    from ..calibrate.fitting import fit_group, groups, with_kernel
    from ..calibrate.fitting import write as keep
    from ..calibrate.tables import insist, read

    every = groups(case for path in paths for case in read(path, insist, _formats()))
    chosen = [group for group in every if kernel in (None, group.name)]
    if not chosen:
        known = ", ".join(sorted({group.name for group in every})) or "nothing that carver can read"
        raise ConfigError(f"no kernel {kernel!r} in {', '.join(map(str, paths))}: {known}" if every else (
            f"no measured table in {', '.join(map(str, paths))} that carver can read; "
            "docs/reference/tables.md lists the forms"
        ))  # fmt: skip
    names = " ".join(path.name for path in paths)
    words = [f"--kernel {kernel}"] * bool(kernel) + [f"--start {start}"] * (start != "shipped")
    command = " ".join([f"carver calibrate --from {names}", *words, *(f"--hold {name}" for name in hold)])
    rows, lines = [], list[str]()
    for group in chosen:
        fit = fit_group(group, "priors" if start == "priors" else "shipped", hold=hold)
        row = fit.to_dict()
        if toml:
            data = f"{len(group.cases)} problems, {group.candidates} configurations, {names}"
            row["toml"] = f"# {group.name} on {group.arch.title}\n" + fit.to_toml(data, command)
        if write and fit.helps:
            arch = with_kernel(load(group.arch.name), group.name, fit.constants, fit.band, command)
            row["written"] = str(keep(arch))
        rows.append(row)
        written = f"written: {row['written']}" if "written" in row else "not written: the fit does not help"
        if toml:
            lines.append(row["toml"])
            click.echo("\n".join([fit.verdict, *[written] * write]), err=True)
        else:
            lines += [*_fitted(fit), *[written] * ("written" in row)]
            if write and "written" not in row:
                click.echo(written, err=True)
    return opts.Found(rows, "\n".join(lines))


def _fitted(fit: Fit) -> Iterator[str]:
    group = fit.group
    yield f"{group.name} on {group.arch.title}: {group.candidates} configurations"
    yield f"  {'slowdown of the first k picks':<44s} {'k=1':>7s} {'k=3':>7s} {'k=5':>7s} {'worst':>7s}"
    for name, q in ((f"before ({fit.start})", fit.before), ("after, on held-out problems", fit.after)):
        if q is not None:
            means = " ".join(f"{q.slowdown[k]:7.3f}" for k in (1, 3, 5))
            yield f"  {name:<44s} {means} {q.worst:7.2f}"
    yield f"{fit.verdict}"
    low, high = (100 * expm1(side) for side in fit.band)
    held = f"; held out it covers {100 * fit.covered:.0f} %" if fit.after else ", of the problem that was fitted"
    yield f"Band of 80 %: {low:+.0f} % to {high:+.0f} %{held}."
    if fit.at_bound:
        yield f"At a physical bound, so standing for something else: {', '.join(fit.at_bound)}."


def _formats() -> Sequence[Formats]:
    """Of tables: carver's own, or those that a program gives which runs the command line, `benchmarks/tables.py`."""
    from ..calibrate.tables import OWN

    return click.get_current_context().obj or OWN


@opts.command
def evaluate(
    path: Path, more: tuple[str, ...], k: tuple[int, ...] = (), by: str = "table", workers: int | None = None,
    plot: Path | None = None, html: Path | None = None,
) -> opts.Found:  # fmt: skip
    """Score the rankings on measured tables. Every problem of every table under PATH is ranked with the model as
    shipped, and the slowdown of the first k picks is printed.

    PATH is a file or a folder of carver's own tables, CSV, records, or results of Kernel Tuner;
    docs/reference/tables.md has the forms.

    Each figure has two others for comparison: the slowdown of k random configurations, and that of the one
    configuration that is best over all problems in hindsight.

    Tables that could not be read or ranked are reported on stderr. The exit code is 2 if a table was broken, or none
    could be ranked.
    """
    from ..calibrate import summary

    if by not in summary.GROUPS:
        raise ConfigError(f"--by takes {', '.join(summary.GROUPS)}; got {by!r}")
    for word in more:
        if not k or not word.isdecimal() or int(word) < 1:
            allowed = "one PATH, a folder for several tables, and numbers from 1 on behind --k"
            raise ConfigError(f"evaluate takes {allowed}; got {word!r} as well")
    ks = tuple(sorted({*k, *map(int, more)})) or summary.KS
    remarks: list[Remark] = []
    formats = _formats()
    rows, others = summary.evaluate(path, ks, by, workers, remarks.append, formats)
    also, won = formats[0], formats[0].summarise(others)
    for remark in remarks:
        tell(remark)
    if rows:
        opts.save_plot(plot, lambda: summary.plot(rows, ks))
        opts.save_document(lambda: _figures(rows, ks, by, path), html)
    broken = any(remark.broken for remark in remarks)
    ends: int | ConfigError = 2 if broken else 0
    if not rows and not won and not broken:
        ends = ConfigError(
            f"no measured table under {path} that carver can rank; docs/reference/tables.md lists the forms"
        )
    found = {"rows": [row.to_dict() for row in rows]}
    found |= {"winners": [row.to_dict() for row in won]} if also.table else {}
    found |= {"remarks": [vars(remark) for remark in remarks]}
    text = [summary.table(rows, ks, screen_width(), by, styled=True)] if rows else []
    text += [also.table(won, screen_width(), styled=True)] if won and also.table else []
    return opts.Found(found, "\n".join(text), ends)


def _figures(rows: Sequence[Summary], ks: Sequence[int], by: str, path: Path) -> dict[str, Any]:
    """What the page of `evaluate` holds."""
    heads = [by, "device", "problems", "configurations", *(f"k={k}" for k in ks), *(f"random k={k}" for k in ks)]
    told = [
        [row.name, row.device, row.problems, round(row.candidates), *(row.slowdown[k][0] for k in ks),
         *(row.random[k] for k in ks)] for row in rows
    ]  # fmt: skip
    note = ("The time of the fastest of the first k picks, and of k random ones, over the fastest time measured: the "
            "geometric mean over the problems.")  # fmt: skip
    shown = {"title": "Slowdown of the first k picks", "columns": heads, "rows": told, "words": [0, 1], "note": note,
             "bars": [4, 4 + len(ks)], "ratios": list(range(4, len(heads)))}  # fmt: skip
    scored = [(row.name, each) for row in rows for each in row.scores]
    of_each = [
        [str(each.case.problem), *(each.slowdown[k] for k in ks), 1e3 * each.case.best_s,
         100 * each.log_error if isfinite(each.log_error) else None, len(each.case.configs),
         name if len(rows) > 1 else ""]
        for name, each in sorted(scored, key=lambda pair: -pair[1].slowdown[ks[0]])
    ]  # fmt: skip
    heads = ["problem", *(f"k={k}" for k in ks), "fastest measured, ms", "time off, %", "configurations", by]
    problems = {"title": "Problems, the worst first pick first", "columns": heads, "rows": of_each,
                "words": [0, len(heads) - 1], "ratios": list(range(1, 1 + len(ks)))}  # fmt: skip
    return tables(f"carver evaluate {path}", "rankings compared with measured times", shown, problems)


def tell(remark: Remark) -> None:
    """One line on stderr."""
    click.secho("error: " if remark.broken else "note: ", fg="red" if remark.broken else "yellow", err=True, nl=False)
    click.echo(printable(f"{remark.table}: {remark.text}"), err=True)


