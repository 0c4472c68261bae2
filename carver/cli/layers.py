"""`carver recommend moe`: both matmuls of a mixture-of-experts layer, with one configuration."""

from __future__ import annotations

import json
from typing import Any

import click

from ..ops.matmul import SCALE_BLOCK
from ..ops.moe import LayerHint, MoETemplate
from .operators import device
from .options import as_json


@click.command("moe", short_help="A gated layer of EXPERTS experts: two grouped matmuls, one configuration.")
@click.argument("tokens", type=int)
@click.argument("experts", type=int)
@click.argument("chosen", type=int)
@click.argument("hidden", type=int)
@click.argument("intermediate", type=int)
@click.option("--dtype", default="bfloat16", show_default=True, help="Activations, and weights unless said.")
@click.option("--weight-dtype", metavar="TYPE", help="Weights where they differ.")
@click.option("--scale-block", metavar=SCALE_BLOCK.metavar, help=SCALE_BLOCK.help)
@click.option("--routing", default="uniform", show_default=True, help="uniform, zipf, or an exponent of Zipf's law.")
@click.option("--arch", required=True, metavar="NAME", help="device, see `carver archs`; or auto, a TOML file")
@click.option("--topk", "-k", type=int, default=10, show_default=True, help="How many to recommend.")
@click.option("--explain", is_flag=True, help="Why the first is predicted to take its time.")
@as_json
def moe(
    tokens: int, experts: int, chosen: int, hidden: int, intermediate: int, dtype: str, weight_dtype: str | None,
    scale_block: str | None, routing: str, arch: str, topk: int, explain: bool, as_json: bool,
) -> None:  # fmt: skip
    """TOKENS tokens, each through CHOSEN of EXPERTS gated MLPs, HIDDEN to INTERMEDIATE wide and back.

    The configurations with which both matmuls together are predicted to take least, best first.
    """
    skew = float(routing) if routing.replace(".", "", 1).isdigit() else routing
    layer = MoETemplate(tokens, experts, chosen, hidden, intermediate, dtype, scale_block, skew, weight_dtype)
    ranking = layer.with_arch(device(arch)).recommend_hints(topk)
    if as_json:
        click.echo(json.dumps({"layer": ranking.title, "hints": [_told(hint) for hint in ranking]}, ensure_ascii=False))
    else:
        click.echo(ranking[0].explain() if explain else repr(ranking))


def _told(hint: LayerHint) -> dict[str, Any]:
    """A hint in plain JSON types."""
    each = {"up_ms": hint.up.predicted_ms, "down_ms": hint.down.predicted_ms}
    return {"config": dict(hint.config), "predicted_ms": hint.predicted_ms, **each, "bound": hint.bound}
