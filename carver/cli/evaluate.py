"""`carver evaluate`: how good the rankings are on measured tables."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..base.errors import ConfigError
from ..base.given import printable
from ..base.table import console, screen_width
from .options import PICTURE, as_json, print_json, save_plot

if TYPE_CHECKING:
    from ..evaluate.cases import Remark


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("more", nargs=-1, metavar="")
@click.option("--k", "ks", type=click.IntRange(1), multiple=True, metavar="K ...", help="[default: 1 3 5 10]")
@click.option("--by", default="table", help="One line per table, gpu, operator or shape.")
@click.option("--workers", type=click.IntRange(1), default=None, help="Number of processes.  [default: one per core]")
@click.option("--plot", type=PICTURE, help="Save the figures as PNG, SVG or PDF.")
@as_json
def evaluate(
    path: Path, more: tuple[str, ...], ks: tuple[int, ...], by: str, workers: int | None, plot: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Score the rankings on measured tables. Every problem of every table under PATH is ranked with the model as
    shipped, and the slowdown of the first k picks is printed.

    PATH is a file, a folder, or the name of an installed package whose tuned files are read, such as vllm.

    For lists that name only winners, it prints where the winners stand in carver's ranking.

    Each figure has two others for comparison: the slowdown of k random configurations, and that of the one
    configuration that is best over all problems in hindsight.

    Tables that could not be read or ranked are reported on stderr. The exit code is 2 if a table was broken, or none
    could be ranked.
    """
    from ..evaluate import summary

    if by not in summary.GROUPS:
        raise ConfigError(f"--by takes {', '.join(summary.GROUPS)}; got {by!r}")
    for word in more:
        if not ks or not word.isdecimal() or int(word) < 1:
            allowed = "one PATH, a folder for several tables, and numbers from 1 on behind --k"
            raise ConfigError(f"evaluate takes {allowed}; got {word!r} as well")
    ks = tuple(sorted({*ks, *map(int, more)})) or summary.KS
    remarks: list[Remark] = []
    rows, won = summary.evaluate(_where(path), ks, by, workers, say=remarks.append)
    for remark in remarks:
        tell(remark)
    if rows:
        save_plot(plot, lambda: summary.plot(rows, ks))
    if as_json:
        found = {"rows": [row.to_dict() for row in rows], "winners": [row.to_dict() for row in won]}
        print_json(found | {"remarks": [vars(remark) for remark in remarks]})
    else:
        if rows:
            console().print(summary.table(rows, ks, screen_width(), by))
        if won:
            console().print(summary.winners_table(won, screen_width()))
    if any(remark.broken for remark in remarks):
        sys.exit(2)
    if not rows and not won:
        raise ConfigError(f"no measured table under {path} that carver can rank; docs/tables.md lists the forms")


def _where(path: Path) -> Path:
    """A path that is there, or the folder of an installed package, which is not imported."""
    if path.exists():
        return path
    name = str(path)
    try:
        spec = importlib.util.find_spec(name) if name.isidentifier() else None
    except ValueError:  # a module that says not where it is from, as __main__
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"{name!r} is no file, no folder and no package installed here")
    return Path(next(iter(spec.submodule_search_locations)))


def tell(remark: Remark) -> None:
    """One line on stderr."""
    click.secho("error: " if remark.broken else "note: ", fg="red" if remark.broken else "yellow", err=True, nl=False)
    click.echo(printable(f"{remark.table}: {remark.text}"), err=True)


def tell_or_fail(remark: Remark) -> None:
    """For commands that need every table that they are given."""
    if remark.broken:
        raise ConfigError(f"{remark.table}: {remark.text}")
    tell(remark)
