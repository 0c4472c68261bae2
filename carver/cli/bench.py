"""The commands that measure and that keep what was measured: `carver bench`, `carver records`."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from ..base.errors import ConfigError
from ..base.given import lines_from, printable
from ..base.table import Column, console, rich_table, screen_width
from ..ops.template import Template
from ..run.records import OUTCOMES, Measurement, Records
from .operators import kernel_option, per_operator
from .options import OUTPUT, PICTURE, Group, as_json, print_json, save_plot, topk_option

if TYPE_CHECKING:
    from ..ranking.hint import Hint
    from ..ranking.ranking import Ranking
    from ..run.report import Report


@partial(per_operator, arch="auto")
@as_json
@click.option("--quiet", is_flag=True, help="No progress bar.")
@click.option("--plot", type=PICTURE, help="Save a plot of predicted against measured times (PNG, SVG or PDF).")
@click.option("--html", type=OUTPUT, help="Save the report as one HTML page.")
@click.option("--fresh", is_flag=True, help="Measure again what the records already have.")
@click.option("--no-check", is_flag=True, help="Do not compare results with the reference.")
@click.option("--timeout", "timeout_s", default=30.0, help="Time limit of one candidate. [s]")
@click.option("--seconds", "budget_s", default=60.0, help="Time limit of all timings together. [s]")
@click.option("--rounds", default=5, help="Number of rounds; each candidate is timed once per round.")
@click.option("--warm", is_flag=True, help="Do not empty the device's caches before each run.")
@click.option(
    "--vs-library", "library", is_flag=True, help="Also time the library's own call: torch, or NumPy on the CPU."
)
@click.option("--budget", "grid_budget", type=int, help="With --vs-grid: time only a stratified sample of this size.")
@click.option(
    "--vs-grid", is_flag=True,
    help="Also time all other candidates, so that hints can be compared with the best.",
)
@click.option("--device", help="cpu, cuda or cuda:1.  [default: what --arch names]")
@click.option(
    "--learn", is_flag=True,
    help="Choose hints by what earlier runs with --learn taught, and keep what this run teaches.",
)
@topk_option
@kernel_option
def bench(
    template: Template, topk: int, kernel: str | None, learn: bool, device: str | None, vs_grid: bool, no_check: bool,
    html: Path | None, plot: Path | None, quiet: bool, as_json: bool, **settings: Any,
) -> None:  # fmt: skip
    """Compile, check and time the first hints, and compare with the predictions. Exits with 1 if none ran."""
    from ..run.bench import benchmark
    from ..tune import profiles

    if settings["grid_budget"] is not None and not vs_grid:
        raise click.UsageError("--budget is the size of a sample of the grid; give --vs-grid as well")
    arch = template.arch
    assert arch is not None
    ranking = template.recommend_hints(topk, template.own_backend, kernel)
    if learn and (profile := profiles.load(LEARNT_AS, ranking)) is not None:
        ranking = template.recommend_hints(topk, template.own_backend, kernel, profile)
    grid = list(template.recommend_hints(max(topk, ranking.candidates), ranking.backend, kernel)) if vs_grid else None
    report = benchmark(
        list(ranking), device or ("cpu" if arch.kind == "cpu" else "cuda"), grid=grid, check=not no_check,
        progress=not quiet and not as_json and sys.stderr.isatty(), **settings,
    )  # fmt: skip
    if learn and (times := _calm_ms(ranking, report)):
        profiles.save(LEARNT_AS, ranking.learn(times))
    if html is not None:
        report.to_html(html)
    click.echo(report.to_json()) if as_json else console().print(report)
    if not report.ok:
        sys.exit(1)
    save_plot(plot, report.plot)


LEARNT_AS = "bench"
"""Of the profiles of `--learn`, beside those of tuned functions."""


def _calm_ms(ranking: Ranking, report: Report) -> dict[Hint, float | None]:
    """Times of the hints that nothing disturbed, None for one that failed; empty where none ran."""
    places = {(hint.kernel, *hint.config.items()): hint for hint in ranking}
    calm = [m for m in report.measurements if not any(c.get("disturbed_percent", 0) >= 50 for c in m.conditions)]
    found = {(m.kernel, *m.config.items()): m.median_ms if m.ok else None for m in calm}
    times = {places[key]: ms for key, ms in found.items() if key in places}
    return times if any(times.values()) else {}


@click.group(cls=Group)
@click.option(
    "--database", type=click.Path(dir_okay=False, path_type=Path),
    help="SQLite file to use instead of the one in the cache folder.",
)  # fmt: skip
@click.pass_context
def records(ctx: click.Context, database: Path | None) -> None:
    """Measurements of this machine, and imported ones."""
    ctx.obj = ctx.with_resource(Records(database, new=ctx.invoked_subcommand == "import"))


_FILTERS = {
    "outcome": f"one of {', '.join(OUTCOMES)}", "operator": "such as matmul", "kernel": "such as mma",
    "backend": "such as cuda", "arch": "a descriptor's name", "device": "as the driver prints it",
}  # fmt: skip


def _filters(command: Any) -> Any:
    for name, text in _FILTERS.items():
        kind = click.Choice(OUTCOMES) if name == "outcome" else str
        command = click.option(f"--{name}", type=kind, metavar=name.upper(), help=text)(command)
    return command


@records.command("list")
@_filters
@click.option("--last", type=click.IntRange(1), default=20, help="How many to list, the newest last.")
@as_json
@click.pass_obj
def list_records(store: Records, /, last: int, as_json: bool, **filters: str | None) -> None:
    """List measurements, one per line."""
    found = store.find(problem=None, **filters)
    if as_json:
        print_json([m.to_dict() for m in found[-last:]])
        return
    rows = [_cells(m) for m in found[-last:]]
    names = ("id", "when", "device", "problem", "kernel", "outcome", "ms")
    columns = [
        Column(name, tuple(row[i] for row in rows), name != "ms", may_shrink=name in ("device", "problem"),
               spare={"kernel": 1, "when": 2}.get(name, 0))
        for i, name in enumerate(names)
    ]
    console().print(rich_table(columns, screen_width()))
    click.echo(f"{min(last, len(found))} of {len(found)} in {store.path}")


def _cells(m: Measurement) -> tuple[str, ...]:
    sizes = " ".join(f"{axis}={n}" for axis, n in m.problem["sizes"].items() if n > 1)
    time = "" if m.median_ms is None else f"{m.median_ms:.4g}"
    return m.uuid[:8], m.created_at[:16].replace("T", " "), m.device, f"{m.operator} {sizes}", m.kernel, m.outcome, time


@records.command("show")
@click.argument("id")
@as_json
@click.pass_obj
def show_record(store: Records, /, id: str, as_json: bool) -> None:
    """Print one measurement in full, by the first characters of its id."""
    found = store.show(id).to_dict()
    if as_json:
        print_json(found)
        return
    for name, value in found.items():
        click.echo(printable(f"{name:<14s} {value if isinstance(value, str) else json.dumps(value)}"))


@records.command("export")
@click.argument("file", type=click.File("w"), default="-")
@_filters
@click.option("--json", "_as_json", is_flag=True, help="The only format: one JSON object per line.")
@click.pass_obj
def export_records(store: Records, /, file: TextIO, _as_json: bool, **filters: str | None) -> None:
    """Write measurements as JSON lines."""
    count = store.export(file, **filters)
    click.echo(f"{count} exported", err=True)


@records.command("import")
@click.argument("file", type=click.File())
@as_json
@click.pass_obj
def import_records(store: Records, /, file: TextIO, as_json: bool) -> None:
    """Read what `export` wrote; measurements that are here already are skipped."""
    added, skipped = store.import_(lines_from(file, ConfigError))
    counts = {"added": added, "skipped": skipped}
    print_json(counts) if as_json else click.echo(f"{added} added, {skipped} here already")


@records.command("prune")
@_filters
@click.option("--older-than", "older_than_days", type=float, metavar="DAYS", help="Only measurements older than this.")
@as_json
@click.pass_obj
def prune_records(store: Records, /, older_than_days: float | None, as_json: bool, **filters: str | None) -> None:
    """Delete measurements that fit all the filters; at least one must be given."""
    count = store.prune(older_than_days=older_than_days, **filters)
    print_json({"deleted": count}) if as_json else click.echo(f"{count} deleted")
