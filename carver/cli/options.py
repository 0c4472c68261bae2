"""Options that several commands have, and what they do with them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from ..base.errors import CarverError, ConfigError, nearest
from ..base.given import json_of, shown
from ..base.table import console, screen_width
from ..ranking.ranking import Ranking
from ..view.canvas import FORMATS, pyplot, save
from ..view.table import ranking_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Command(click.Command):
    """A command whose errors call its parameters by their flags, where the library says them by their names."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            word = next((w for w in given if w.startswith(error.option_name)), "")
            if word.removeprefix("-")[:1].isdigit():
                raise click.UsageError(f"{word}: a size is a whole number of at least 1", ctx) from None
            raise
        except click.MissingParameter as error:
            error.message = getattr(error.param, "help", None) or error.message  # type: ignore[misc, unused-ignore]
            raise

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except CarverError as error:
            error.args = (in_flags(str(error), self.params),)
            raise


class Group(click.Group):
    command_class = Command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args[0] not in self.commands and not args[0].startswith("-"):
            ctx.fail(f"{ctx.command_path} has no {args[0]!r}; {nearest(args[0], self.commands)}")
        return super().resolve_command(ctx, args)


def in_flags(text: str, params: Sequence[click.Parameter]) -> str:
    """A message with names that have an underscore, or that a sentence begins with, as the command line has them. What
    stands before "=" is part of a problem or a configuration."""
    for param in params:
        name = str(param.name)
        flag = param.opts[0] if isinstance(param, click.Option) else param.human_readable_name
        text = re.sub(rf"\b{name}\b{'(?!=)' if '_' in name else '(?= must be )'}", flag, text)
    return text


class _Output(click.Path):
    """A file to write. That its folder is there is checked before anything is computed or measured."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not (folder := Path(value).parent).is_dir():
            self.fail(f"{str(value)!r}: there is no folder {str(folder)!r}", param, ctx)
        return super().convert(value, param, ctx)


class _Picture(_Output):
    """A file for a plot, whose ending says the format."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if Path(value).suffix.lower() not in FORMATS:
            self.fail(f"a plot is saved as {', '.join(FORMATS)}; got {str(value)!r}", param, ctx)
        pyplot()  # which says where it is not installed
        return super().convert(value, param, ctx)


OUTPUT = _Output(dir_okay=False, path_type=Path)
PICTURE = _Picture(dir_okay=False, path_type=Path)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
topk_option = click.option("--topk", "-k", type=click.IntRange(1), default=10, help="How many hints.")
most_option = click.option("--topk", "-k", type=click.IntRange(1), help="How many to print.  [default: all]")
args_option = click.option(
    "--args", "path", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file with [args] (numbers and tensors), [constants], [values] and grid.",
)  # fmt: skip


def _piped(ctx: click.Context, param: click.Parameter, given: TextIO | None) -> TextIO | None:
    if given is not None and given.isatty():
        raise click.UsageError("no configurations: name a file with --configs, or pipe them in", ctx)
    return given


def configs_option(otherwise: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The user's configurations, from standard input unless a command has something else to take."""
    default = otherwise or "standard input"
    return click.option(
        "--configs", type=click.File(), default=None if otherwise else "-", show_default=False, callback=_piped,
        help="JSON (a list of objects, one per line, or one object of lists: every combination) or CSV with a header; "
        f"- is standard input.  [default: {default}]",
    )  # fmt: skip


def _config(ctx: click.Context, param: click.Parameter, given: str | None) -> dict[str, Any] | None:
    if given is None:
        return None
    if given.lstrip().startswith("{"):
        return dict(json_of(given, "--config", ConfigError))
    config: dict[str, Any] = {}
    for pair in filter(None, (word.strip() for word in given.split(","))):
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise ConfigError(f"--config takes NAME=VALUE,NAME=VALUE or a JSON object; got {shown(given)}")
        try:
            config[name] = json_of(value.lower() if value in ("True", "False") else value, name, ConfigError)
        except ConfigError:  # a word, such as a macro's value
            config[name] = value
    return config


def config_option(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """One configuration."""
    text = f"{what}: BLOCK_M=128,num_warps=8, or a JSON object."
    return click.option("--config", callback=_config, metavar="NAME=VALUE,...|JSON", help=text)


def _profile(ctx: click.Context, param: click.Parameter, given: str | None) -> Any:
    if given is None or Path(given).is_file():
        return None if given is None else Path(given)
    from ..tune.profiles import named

    return named(given)


profile_option = click.option(
    "--profile", callback=_profile, metavar="NAME|FILE",
    help="What was learnt of the kernel before: a name from 'carver profile list', or a JSON file.",
)  # fmt: skip


def _renamed(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> dict[str, str] | None:
    pairs = {word: word.partition("=") for word in given}
    if odd := [word for word, (ours, _, theirs) in pairs.items() if not (ours and theirs)]:
        raise ConfigError(f"--name takes KEY=YOURS, such as BLOCK_M=BLOCK_SIZE_M; got {odd[0]!r}")
    return {ours: theirs for ours, _, theirs in pairs.values()} or None


names_option = click.option(
    "--name", "names", multiple=True, callback=_renamed, metavar="KEY=YOURS",
    help="Your name for one of carver's keys; repeatable.",
)  # fmt: skip
ignore_option = click.option(
    "--ignore", multiple=True, metavar="KEY", help="Ignore a key that does not matter to the time; repeatable."
)


def plot_options(command: Callable[..., None]) -> Callable[..., None]:
    """Those of a ranking, which `save_plots` takes."""
    for option in (
        click.option("--heatmap", type=(str, str, PICTURE), metavar="X Y FILE",
                     help="Save a heat map of the predicted time over two tunables, X and Y."),
        click.option("--roofline", type=PICTURE, help="Save a roofline plot (PNG, SVG or PDF)."),
        click.option("--plot", type=PICTURE, help="Save a plot of the terms (PNG, SVG or PDF)."),
    ):  # fmt: skip
        command = option(command)
    return command


def print_json(found: object) -> None:
    """What is no number is null: JSON knows no NaN."""
    click.echo(json.dumps(_finite(found), indent=1, ensure_ascii=False))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


def told(ranking: Ranking) -> dict[str, Any]:
    """A ranking in plain JSON types."""
    return {
        "problem": ranking.problem.to_dict(), "arch": ranking.arch.name, "backend": ranking.backend,
        "candidates": ranking.candidates, "rejected": dict(ranking.rejected),
        "reasons": {str(place): why for place, why in ranking.reasons.items()},
        "notes": list(ranking.notes), "constants": ranking.arch.provenance,
        "hints": [hint.to_dict() for hint in ranking],
    }  # fmt: skip


def show(ranking: Ranking, most: int, as_json: bool) -> None:
    if as_json:
        print_json(told(ranking))
    else:
        console().print(ranking_table(ranking, most, width=screen_width()))


def save_plot(path: Path | None, draw: Callable[[], Axes | Figure]) -> None:
    """Draw without a window and save, where a file is named."""
    if path is not None:
        pyplot().switch_backend("agg")
        save(path, draw())


def save_plots(
    ranking: Ranking, plot: Path | None, roofline: Path | None, heatmap: tuple[str, str, Path] | None
) -> None:
    save_plot(plot, ranking.plot)
    save_plot(roofline, ranking.plot_roofline)
    if heatmap is not None:
        x, y, file = heatmap
        save_plot(file, lambda: ranking.plot_heatmap(x, y))
