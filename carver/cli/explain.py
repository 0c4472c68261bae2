"""`carver explain`: why a configuration takes its time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TextIO

import click

from ..base.errors import ConfigError
from ..base.given import text_from
from ..ops.elsewise import explained
from ..ops.template import Template
from ..ranking.hint import Hint
from ..ranking.offers import default_backend
from .operators import backend_option, device, kernel_option, per_operator
from .options import PICTURE, as_json, config_option, ignore_option, names_option, print_json, save_plot

plot_option = click.option("--plot", type=PICTURE, help="Save a plot of the explanation (PNG, SVG or PDF).")


@per_operator
@as_json
@config_option("Explain this configuration, given with the backend's keys")
@click.option("--rank", "place", type=click.IntRange(1), help="Explain the hint of this rank.  [default: 1]")
@names_option
@ignore_option
@plot_option
@backend_option
@kernel_option
def explain(
    template: Template, place: int | None, config: dict[str, Any] | None, backend: str | None, kernel: str | None,
    plot: Path | None, as_json: bool, **keys: Any,
) -> None:  # fmt: skip
    """Explain the predicted time of a configuration."""
    if config is None:
        if any(keys.values()):
            raise ConfigError("--name and --ignore are of a configuration's keys: they go with --config")
        place = place or 1
        ranking = template.recommend_hints(place, backend, kernel)
        if place > len(ranking):
            raise ConfigError(f"--rank {place}: only {len(ranking)} candidates can run")
        found = ranking.explain(place - 1)
    elif place is not None:
        raise ConfigError("--rank is of carver's own hints, --config of yours: give one of the two")
    else:
        assert template.arch is not None
        backend = backend or default_backend(template.problem, template.arch)
        found = template.rank([config], backend, kernel=kernel, **keys).explain(0)
    print_json(found.to_dict()) if as_json else click.echo(str(found))
    save_plot(plot, found.plot)


@explain.command("hint")
@click.argument("file", type=click.File())
@click.option("--arch", metavar="NAME", help="Explain for this device instead of the hint's own.")
@plot_option
@as_json
def explain_hint_file(file: TextIO, arch: str | None, plot: Path | None, as_json: bool) -> None:
    """Explain a hint that was saved as JSON."""
    hint = Hint.from_json(text_from(file, ConfigError))
    found = explained(hint, device(arch) if arch else None)
    print_json(found.to_dict()) if as_json else click.echo(str(found))
    save_plot(plot, found.plot)
