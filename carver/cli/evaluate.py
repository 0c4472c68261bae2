"""`carver evaluate`: how good the rankings are on measured tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..base.errors import ConfigError
from ..base.given import printable
from ..base.table import console, screen_width
from .options import PICTURE, as_json, print_json, save_plot

if TYPE_CHECKING:
    from ..evaluate.cases import Remark
    from ..evaluate.tables import Formats


@dataclass(frozen=True)
class Read:
    """Tables beside carver's own that a program reads which runs the command line, `benchmarks/tables.py`."""

    formats: Sequence[Formats] | None = None
    summarise: Callable[[Iterable[Any]], Sequence[Any]] = list
    """Rows of what `evaluate` scored that is no `Case`, each with a `to_dict`."""
    table: Callable[..., Any] | None = None
    """Those rows as text, by the width of the screen."""


def reading() -> Read:
    """What the program that runs the command line reads beside carver's own tables, if anything."""
    found = click.get_current_context().obj
    return found if isinstance(found, Read) else Read()


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

    PATH is a file or a folder of carver's own tables, CSV, records, or results of Kernel Tuner; docs/tables.md has the
    forms.

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
    also = reading()
    rows, others = summary.evaluate(path, ks, by, workers, remarks.append, also.formats)
    won = also.summarise(others)
    for remark in remarks:
        tell(remark)
    if rows:
        save_plot(plot, lambda: summary.plot(rows, ks))
    if as_json:
        found = {"rows": [row.to_dict() for row in rows]}
        found |= {"winners": [row.to_dict() for row in won]} if also.table else {}
        print_json(found | {"remarks": [vars(remark) for remark in remarks]})
    else:
        if rows:
            console().print(summary.table(rows, ks, screen_width(), by))
        if won and also.table:
            console().print(also.table(won, screen_width()))
    if any(remark.broken for remark in remarks):
        sys.exit(2)
    if not rows and not won:
        raise ConfigError(f"no measured table under {path} that carver can rank; docs/tables.md lists the forms")


def tell(remark: Remark) -> None:
    """One line on stderr."""
    click.secho("error: " if remark.broken else "note: ", fg="red" if remark.broken else "yellow", err=True, nl=False)
    click.echo(printable(f"{remark.table}: {remark.text}"), err=True)


def tell_or_fail(remark: Remark) -> None:
    """For commands that need every table that they are given."""
    if remark.broken:
        raise ConfigError(f"{remark.table}: {remark.text}")
    tell(remark)
