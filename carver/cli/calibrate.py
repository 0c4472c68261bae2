"""`carver calibrate`: measure this device, or fit constants to a table of measured times."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from math import expm1
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..base.errors import ConfigError
from ..base.table import console, scaled
from .evaluate import reading, tell_or_fail
from .options import Command, as_json, print_json

if TYPE_CHECKING:
    from ..calibrate.device import Calibration, Say
    from ..calibrate.fitting import Fit


@click.command(cls=Command)
@click.option("--device", default="auto", help="cpu, cuda or cuda:1; auto is the NVIDIA GPU, if there is one.")
@click.option(
    "--seconds", default=170.0, help="Time for the whole calibration, of which the kernels get what is left over. [s]"
)
@click.option("--only-micro", is_flag=True, help="Run only the microbenchmarks, no kernels.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path),
    help="Write the descriptor here instead of your folder of devices.",
)  # fmt: skip
@click.option(
    "--from", "tables", multiple=True, type=click.Path(exists=True, path_type=Path), metavar="TABLE ...",
    help="Measure nothing; fit the constants of kernels in these tables, and report the effect on held-out problems.",
)  # fmt: skip
@click.argument("more", nargs=-1, type=click.Path(exists=True, path_type=Path), metavar="")
@click.option("--kernel", metavar="NAME", help="With --from: only this kernel, such as matmul/triton.")
@click.option(
    "--start", type=click.Choice(["shipped", "priors"]), default="shipped",
    help="With --from: constants from which the fit starts and near which it stays; priors for your own kernels.",
)  # fmt: skip
@click.option(
    "--hold", multiple=True, metavar="CONSTANT",
    help="With --from: do not fit this constant, because the problems do not show it; repeatable.",
)  # fmt: skip
@click.option("--write", is_flag=True, help="With --from: write a fit that helps to your descriptor of the device.")
@click.option("--toml", is_flag=True, help="With --from: print [constants] and [fitted] for a kernel's declaration.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
@as_json
def calibrate(
    device: str, seconds: float, only_micro: bool, out: Path | None, tables: tuple[Path, ...], more: tuple[Path, ...],
    kernel: str | None, start: str, hold: tuple[str, ...], write: bool, toml: bool, quiet: bool, as_json: bool,
) -> None:  # fmt: skip
    """Measure the constants of this device. With --from, fit those of your own kernels to measured times.

    \b
    carver calibrate                                 this machine's GPU, or CPU
    carver calibrate --from mine.csv other.sqlite    from five problems on
    """
    command = f"carver calibrate {shlex.join(sys.argv[2:])}".strip() if sys.argv[1:2] == ["calibrate"] else ""
    if not tables:
        if more or kernel or hold or write or toml:
            raise ConfigError("--kernel, --hold, --write, --toml and tables go with --from TABLE")
        _device(device, seconds, not only_micro, out, command or "carver calibrate", quiet or as_json, as_json)
        return
    if out or only_micro or device != "auto":
        raise ConfigError(
            "--device, --only-micro and --out are for the calibration of a device; --from measures nothing, and its "
            "--toml prints what was fitted"
        )
    _tables((*tables, *more), kernel, start, hold, write, toml, as_json)


def _device(
    device: str, seconds: float, kernels: bool, out: Path | None, command: str, quiet: bool, as_json: bool
) -> None:
    from ..arch.devices import own_folder
    from ..calibrate.device import calibrate
    from ..calibrate.keep import check_target
    from ..calibrate.keep import write as keep

    check_target(out or own_folder() / "device.toml")
    with _progress(not quiet and sys.stderr.isatty()) as say:
        found = calibrate(device, seconds, kernels=kernels, command=command, say=say)
    path = keep(found.arch, out)
    if as_json:
        print_json({**found.to_dict(), "written": str(path)})
        return
    _print_device(found)
    click.echo(f"written: {path}")


@contextmanager
def _progress(shown: bool) -> Iterator[Say]:
    """A bar that names what was done last; how many steps there are depends on the device."""
    if not shown:
        yield lambda text: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed:.0f} steps"), TimeElapsedColumn(),
               TextColumn("{task.description}"))  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("compiling", total=None)
        yield lambda text: bar.update(task, advance=1, description=text)


def _print_device(found: Calibration) -> None:
    from rich.table import Table
    from rich.text import Text

    screen = console()
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    table.add_column(found.before.title)
    for heading in ("measured", "+-", "descriptor", "ratio"):
        table.add_column(heading, justify="right", no_wrap=True)
    for r in found.micro.readings.values():
        said = _quantity(r.datasheet, r.unit) if r.datasheet else ""
        ratio = f"{r.value / r.datasheet:.2f}" if r.datasheet else ""
        what = f"{r.what} ({r.note})" if r.note else r.what
        table.add_row(Text(what), _quantity(r.value, r.unit), f"{100 * r.error:.1f} %", said, ratio)
    screen.print(table)
    for line in (*found.micro.left_out, *found.derived.refused, *found.skipped):
        click.echo(f"left out: {line}")
    for choice in found.choices:
        cases = f"{len(choice.group.cases)} problems, {choice.group.candidates} configurations"
        click.echo(f"{choice.group.name} ({cases}): {choice.verdict}.")


def _quantity(value: float, unit: str) -> str:
    return f"{value:,.5g} {unit}" if unit in ("clk", "FLOP/clk", "B/clk") else scaled(value, unit)


def _tables(
    paths: tuple[Path, ...], kernel: str | None, start: str, hold: tuple[str, ...], write: bool, toml: bool,
    as_json: bool,
) -> None:  # fmt: skip
    from ..arch.devices import load
    from ..calibrate.fitting import fit_group, groups
    from ..calibrate.keep import with_kernel
    from ..calibrate.keep import write as keep
    from ..evaluate.tables import read

    formats = reading().formats
    every = groups(case for path in paths for case in read(path, tell_or_fail, formats))
    chosen = [group for group in every if kernel in (None, group.name)]
    if not chosen:
        known = ", ".join(sorted({group.name for group in every})) or "nothing that carver can read"
        raise ConfigError(f"no kernel {kernel!r} in {', '.join(map(str, paths))}: {known}" if every else (
            f"no measured table in {', '.join(map(str, paths))} that carver can read; docs/tables.md lists the forms"
        ))  # fmt: skip
    names = " ".join(path.name for path in paths)
    words = [f"--kernel {kernel}"] * bool(kernel) + [f"--start {start}"] * (start != "shipped")
    command = " ".join([f"carver calibrate --from {names}", *words, *(f"--hold {name}" for name in hold)])
    rows = []
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
        if not as_json:
            _print_fit(fit, row, toml, write)
    if as_json:
        print_json(rows)


def _print_fit(fit: Fit, row: dict[str, Any], toml: bool, write: bool) -> None:
    if toml:
        click.echo(row["toml"])
        click.echo(fit.verdict, err=True)
    else:
        group = fit.group
        click.echo(f"{group.name} on {group.arch.title}: {group.candidates} configurations")
        click.echo(
            f"  {'slowdown of the best of the first k picks':<44s} {'k=1':>7s} {'k=3':>7s} {'k=5':>7s} {'worst':>7s}"
        )
        for name, q in ((f"before ({fit.start})", fit.before), ("after, on held-out problems", fit.after)):
            if q is not None:
                means = " ".join(f"{q.slowdown[k]:7.3f}" for k in (1, 3, 5))
                click.echo(f"  {name:<44s} {means} {q.worst:7.2f}")
        click.echo(f"{fit.verdict}")
        low, high = (100 * expm1(side) for side in fit.band)
        held = f"; held out it covers {100 * fit.covered:.0f} %" if fit.after else ", of the problem that was fitted"
        click.echo(f"Band of 80 %: {low:+.0f} % to {high:+.0f} %{held}.")
        if fit.at_bound:
            click.echo(f"At a physical bound, so standing for something else: {', '.join(fit.at_bound)}.")
    if "written" in row:
        click.echo(f"written: {row['written']}", err=toml)
    elif write:
        click.echo("not written: the fit does not help", err=toml)
