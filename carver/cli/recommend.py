"""`carver recommend`: the configurations of one problem, or of a file of them."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

import click

from ..base.errors import ConfigError
from ..base.given import text_from
from ..ops.template import Template
from .layers import moe
from .operators import backend_option, kernel_option, per_operator, without_operator
from .options import PICTURE, as_json, heatmap_option, profile_option, save_plots, show, topk_option


@as_json
@heatmap_option
@profile_option
@click.option("--roofline", type=PICTURE, help="Save a roofline plot, PNG, SVG or PDF.")
@click.option("--plot", type=PICTURE, help="Save a plot of the terms, PNG, SVG or PDF.")
@kernel_option
@backend_option
@topk_option
def _recommend(
    template: Template, topk: int, backend: str | None, kernel: str | None, plot: Path | None, roofline: Path | None,
    heatmap: tuple[str, str, Path] | None, profile: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """The configurations with the shortest predicted times, best first."""
    ranking = template.recommend_hints(topk, backend, kernel, profile)
    save_plots(ranking, plot, roofline, heatmap)
    show(ranking, topk, as_json)


MANY = (
    "Rank all problems of FILE at once, for the device of --arch; - is standard input. FILE is a CSV with columns "
    "operator, M, N, K, in_dtype and so on, or JSON objects with these keys, one a line: the arguments of the "
    "operator's template, a shape as rows and cols. Without an operator, matmul."
)


@click.option("--many", type=click.File(), metavar="FILE", help=MANY)
@click.option("--arch", metavar="NAME", help="Device of --many, see `carver archs`.")
@backend_option
@topk_option
@as_json
@click.pass_context
def _recommend_all(
    ctx: click.Context, many: TextIO | None, arch: str | None, backend: str | None, topk: int, as_json: bool
) -> None:
    """The configurations with the shortest predicted times, best first."""
    if ctx.invoked_subcommand is None:
        if many is None:
            raise click.UsageError("name an operator, or give --many FILE --arch NAME", ctx)
        from .many import answer_many

        answer_many(text_from(many, ConfigError), arch, topk, backend, as_json)
    elif many is not None:
        raise click.UsageError(f"--many has its own operators; {ctx.invoked_subcommand} asks for one problem", ctx)


recommend = without_operator(per_operator(_recommend), _recommend_all)
recommend.add_command(moe)
