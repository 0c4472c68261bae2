"""`carver search`: a Triton kernel's whole space, of which a few configurations are compiled."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TextIO

import click

from ..base.errors import ConfigError
from ..base.given import text_from
from ..base.table import words
from ..ranking.search import MOST, PATIENCE
from ..ranking.space import SearchSpace
from ..ranking.steps import Search
from .options import (
    PICTURE,
    ArchName,
    Arguments,
    AsJson,
    Html,
    Plot,
    Quiet,
    TopK,
    argument,
    command,
    device,
    option,
    print_json,
    save_page,
    save_plot,
    show,
    told,
)
from .reading import call_of, configs_of, read_configs

Progress = Annotated[Path | None, option(
    "Save a plot of the best price against configurations compiled (PNG, SVG or PDF).", type=PICTURE)]  # fmt: skip


@command
def search(
    kernel: Annotated[str, argument("FILE.py:NAME")],
    arch: ArchName,
    args: Arguments = None,
    space: Annotated[TextIO | None, option(
        "The space: JSON, one object of lists, or a list of configurations; or CSV. - is standard input.  "
        "[default: [configs] of --args]", type=click.File())] = None,
    where: Annotated[tuple[str, ...], option(
        "A condition of the space, such as 'BLOCK_M * BLOCK_N <= 32768'. May be given several times.",
        metavar="EXPRESSION", multiple=True)] = (),
    seeds: Annotated[TextIO | None, option(
        "Configurations to begin with, JSON or CSV.", type=click.File())] = None,
    budget: Annotated[float | None, option(
        "End after so many seconds.", type=click.FloatRange(0, min_open=True), metavar="S")] = None,
    most: Annotated[int, option("Compile so many at most.", type=click.IntRange(1))] = MOST,
    patience: Annotated[int, option(
        "End after so many that brought no gain.", type=click.IntRange(1))] = PATIENCE,
    seed: Annotated[int, option("Of what is drawn: equal seeds give equal searches.")] = 0,
    topk: TopK = 10,
    quiet: Quiet = False,
    plot: Plot = None,
    progress: Progress = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Search the space of a Triton kernel for the configurations with the shortest predicted times.

    Only some dozens are compiled, those that promise most. The device need not be in the machine. Ctrl-C prints what
    was found so far; the same command later goes on from there. `carver inspect --help` shows the file of arguments.
    """
    from ..integrations.search import search as searched

    call = call_of(kernel, args)
    given: Any = configs_of(space, args)
    if given is None:
        raise ConfigError("no space to search: name a file with --space, or give [configs] in the file of --args")
    if where:
        if not isinstance(given, dict):
            raise ConfigError("--where is of a space that is given as one object of lists")
        given = SearchSpace(**given)
        for each in where:
            given = given.where(each)
    first: Any = () if seeds is None else read_configs(text_from(seeds, ConfigError))
    ranking = searched(
        call.kernel, given, args=call.args, grid=call.grid, constants=call.constants, values=call.values,
        arch=device(arch), seeds=[first] if isinstance(first, dict) else first, budget_s=budget, most=most,
        patience=patience, seed=seed, progress=False, told=None if quiet else _say,
    )  # fmt: skip
    assert ranking.search is not None
    found = ranking.search
    save_page(ranking, html)
    save_plot(progress, found.plot)
    shown = ranking[:topk]
    save_plot(plot, shown.plot)
    if as_json:
        print_json({**told(shown), "search": {"ended": found.ended, "steps": [asdict(step) for step in found.steps]}})
    else:
        show(shown, len(shown), False)
        click.echo(str(found))


def _say(so_far: Search) -> None:
    """The best so far, one line on standard error: over the last one on a terminal."""
    best = min((s for s in so_far.steps if s.predicted_ms is not None), key=lambda s: s.predicted_ms or 0, default=None)
    config = f": {words(best.config)}" if best else ""
    last = so_far.steps[-1].seconds
    line = f"{len(so_far.steps)} compiled, {last:.0f} s, best {best.predicted_ms:.4g} ms{config}" if best else "..."
    click.echo(line[:110], err=True)
