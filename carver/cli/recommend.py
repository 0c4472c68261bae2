"""`carver recommend`: the configurations of one problem, of a file of them, or of a layer of experts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TextIO

import click

from ..base.errors import ConfigError
from ..base.given import text_from
from ..ops.matmul import SCALE_BLOCK
from ..ops.moe import MoETemplate
from ..ops.template import Template, recommend_many
from .operators import arch_option, backend_option, device, kernel_option, per_operator, without_operator
from .options import as_json, plot_options, print_json, profile_option, save_plots, show, told, topk_option
from .reading import read_problems


@per_operator
@as_json
@profile_option
@plot_options
@kernel_option
@backend_option
@topk_option
def recommend(
    template: Template, topk: int, backend: str | None, kernel: str | None, profile: Path | None, as_json: bool,
    **plots: Any,
) -> None:  # fmt: skip
    """The configurations with the shortest predicted times, best first."""
    ranking = template.recommend_hints(topk, backend, kernel, profile)
    save_plots(ranking, **plots)
    show(ranking, topk, as_json)


MANY = (
    "Rank all problems of FILE in one call, for the device of --arch; - is standard input. FILE is a CSV with columns "
    "operator, M, N, K, in_dtype and so on, or has one JSON object with these keys per line. Keys are the arguments "
    "of the operator's template; a shape is rows and cols. The default operator is matmul. Prints the first hint of "
    "each problem; --json has all."
)


@click.option("--many", type=click.File(), metavar="FILE", help=MANY)
@click.option("--arch", metavar="NAME", help="Device for --many; see `carver archs`.")
@backend_option
@topk_option
@as_json
def _recommend_all(many: TextIO | None, arch: str | None, backend: str | None, topk: int, as_json: bool) -> None:
    """The configurations with the shortest predicted times, best first."""
    if many is None:
        raise click.UsageError("name an operator, or give --many FILE --arch NAME", click.get_current_context())
    if arch is None:
        raise ConfigError("--many needs the device: --arch NAME")
    for ranking in recommend_many(read_problems(text_from(many, ConfigError)), device(arch), topk, backend):
        hints = json.dumps(told(ranking), ensure_ascii=False) if as_json else f"{ranking.problem}: {ranking[0]}"
        click.echo(hints)


without_operator(recommend, _recommend_all)


@recommend.command("moe", short_help="A gated layer of EXPERTS experts: two grouped matmuls.")
@click.argument("tokens", type=int)
@click.argument("experts", type=int)
@click.argument("chosen", type=click.IntRange(1))
@click.argument("hidden", type=int)
@click.argument("intermediate", type=int)
@click.option("--dtype", default="bfloat16", help="Type of activations, and of weights unless --weight-dtype is given.")
@click.option("--weight-dtype", metavar="TYPE", help="Type of weights, if it differs.")
@click.option("--scale-block", metavar=SCALE_BLOCK.metavar, help=SCALE_BLOCK.help)
@click.option("--routing", default="uniform", help="uniform, zipf, or an exponent of Zipf's law.")
@click.option("--separate", is_flag=True, help="A configuration for each of the two matmuls, of one BLOCK_M.")
@arch_option
@topk_option
@click.option("--explain", is_flag=True, help="Explain the predicted time of the first.")
@as_json
def moe(
    tokens: int, experts: int, chosen: int, hidden: int, intermediate: int, dtype: str, weight_dtype: str | None,
    scale_block: str | None, routing: str, separate: bool, arch: str, topk: int, explain: bool, as_json: bool,
) -> None:  # fmt: skip
    """TOKENS tokens, each through CHOSEN of EXPERTS gated MLPs, HIDDEN to INTERMEDIATE wide and back.

    The configurations with which both matmuls together are predicted to take least, best first.
    """
    if explain and as_json:
        raise ConfigError("--explain and --json are two forms of the same: give one of the two")
    skew = float(routing) if routing.replace(".", "", 1).isdecimal() else routing
    layer = MoETemplate(tokens, experts, chosen, hidden, intermediate, dtype, scale_block, skew, weight_dtype)
    ranking = layer.with_arch(device(arch)).recommend_hints(topk, separate=separate)
    if as_json:
        hints = [
            {"config": dict(hint.config), "down_config": dict(hint.down.config), "predicted_ms": hint.predicted_ms,
             "up_ms": hint.up.predicted_ms, "down_ms": hint.down.predicted_ms, "bound": hint.bound}
            for hint in ranking
        ]  # fmt: skip
        print_json({"layer": ranking.title, "hints": hints})
    else:
        click.echo(ranking[0].explain() if explain else repr(ranking))
