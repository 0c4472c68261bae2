"""`carver rank`: configurations of the user's, by the model or by what a compiler makes of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, TextIO

import click

from ..base.errors import ConfigError
from ..base.given import text_from
from ..ops.template import Template
from .operators import BackendOption, arch_option, device, kernel_option, per_operator
from .options import (
    args_option,
    as_json,
    configs_option,
    ignore_option,
    most_option,
    names_option,
    plot_options,
    profile_option,
    save_plots,
    show,
)  # fmt: skip
from .reading import read_configs


@per_operator
@as_json
@click.option(
    "--backend", cls=BackendOption, default="triton", metavar="NAME",
    help="Backend whose keys the configurations have: BACKENDS.",
)
@most_option
@configs_option()
@kernel_option
@profile_option
@names_option
@ignore_option
@click.option(
    "--compiled", type=click.IntRange(1), metavar="N",
    help="Compile the first N for the device and rank them by their machine code; needs --source and --args.",
)
@click.option("--source", metavar="FILE.py:NAME", help="The Triton kernel to which the configurations belong.")
@args_option
@plot_options
def rank(
    template: Template, configs: TextIO, topk: int | None, backend: str, compiled: int | None, source: str | None,
    path: Path | None, plot: Path | None, roofline: Path | None, heatmap: tuple[str, str, Path] | None, as_json: bool,
    **how: Any,
) -> None:  # fmt: skip
    """Rank your own configurations by their predicted times."""
    given = read_configs(text_from(configs, ConfigError))
    if compiled is not None or source or path:
        if compiled is None or not source or path is None:
            raise ConfigError("--compiled N, --source FILE.py:NAME and --args FILE.toml go together")
        if plot or roofline or heatmap:
            raise ConfigError("--compiled ranks by what a compiler made: there is no plot of that")
        from .inspect import call_of

        found = template.rank(given, backend, compiled=compiled, call=call_of(source, path), **how)[:topk]
        click.echo(found.to_json() if as_json else str(found))
        return
    shown = template.rank(given, backend, **how)[:topk]
    save_plots(shown, plot, roofline, heatmap)
    show(shown, len(shown), as_json)


@rank.command("kernel", short_help="Any Triton kernel, ranked by its machine code.")
@click.argument("source", metavar="FILE.py:NAME")
@args_option
@configs_option("those of the kernel's triton.autotune")
@profile_option
@arch_option
@most_option
@click.option("--explain", "place", type=click.IntRange(1), metavar="N", help="Explain the predicted time of the N-th.")
@as_json
def rank_any_kernel(
    source: str, path: Path | None, configs: TextIO | None, profile: Path | None, arch: str, topk: int | None,
    place: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Rank the configurations of any Triton kernel by their machine code.

    Each is compiled for the device, which need not be in the machine. This takes seconds the first time; later, results
    come from disk. `carver inspect --help` shows the file of arguments.
    """
    from ..ranking.kernel import rank_kernel
    from .inspect import call_of

    call = call_of(source, path)
    given = None if configs is None else read_configs(text_from(configs, ConfigError))
    ranking = rank_kernel(
        call.kernel, given, args=call.args, grid=call.grid, arch=device(arch), constants=call.constants,
        values=call.values, progress=sys.stderr.isatty(), profile=profile,
    )  # fmt: skip
    if place is not None and place > len(ranking):
        raise ConfigError(f"--explain {place}: only {len(ranking)} configurations compile and fit")
    shown = ranking[place - 1 : place] if place else ranking[:topk]
    click.echo(shown.to_json() if as_json else shown.explain() if place else str(shown))
