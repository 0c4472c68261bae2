"""Commands made of functions, and the options that several of them have.

A parameter is an option or an argument if `templates/options.toml` says something of it: its flag is the parameter's
name, its type and default are the parameter's. `per_operator` makes of a function of a template a command
for each operator: `matmul M N K`, `gemv N K`, `op "C[m,n] += ..." m=..`.
"""

from __future__ import annotations

import functools
import json
import math
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, get_args, get_type_hints

import click
from click.core import ParameterSource

from ..arch import detect
from ..arch import devices as archs
from ..arch.descriptor import Arch
from ..base.dtypes import BYTES
from ..base.errors import CarverError, ConfigError, DeviceError, ProblemError, nearest
from ..base.folders import shipped
from ..base.given import json_of, printable, shown
from ..base.table import Column, drawn, screen_width, words, wrapped
from ..base.types import Record
from ..kernels.declaration import every
from ..ops.operator import Operator, Template, operators
from ..problem.problem import operator_files
from ..ranking import plots
from ..ranking.compare import Fleet
from ..ranking.plots import FORMATS, plot_devices, pyplot, save
from ..ranking.ranking import Ranking
from ..ranking.table import fleet_table, ranking_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Function = Callable[..., Any]
SAID: dict[Any, Any] = shipped("options")
"""What is said of the parameters of commands."""


class Command(click.Command):
    """A command whose errors call its parameters by their flags, where the library says them by their names."""

    says = ""
    """What its positional arguments are, for the error that one is missing."""

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
            text = getattr(error.param, "help", None) or self.says
            error.message = text or error.message  # type: ignore[misc, unused-ignore]
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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_commands(self, ctx, formatter, "Commands", sorted(self.commands))


def write_commands(
    group: click.Group, ctx: click.Context, formatter: click.HelpFormatter, title: str, names: Iterable[str]
) -> None:
    """Names of commands, each with the first sentence of its help, whole."""
    found = [(name, group.get_command(ctx, name)) for name in names]
    with formatter.section(title):
        formatter.write_dl([(name, each.get_short_help_str(1000)) for name, each in found if each is not None])


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
        found = super().convert(value, param, ctx)
        pyplot()  # which says where it is not installed, and takes seconds
        return found


class _Shape(click.ParamType):  # type: ignore[type-arg]
    """Two sizes, as `128,128` or `128x128`."""

    name = "N,K"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        words = value.replace("x", ",").replace(" ", ",").split(",") if isinstance(value, str) else list(value)
        if len(words) != 2 or not all(str(word).isdecimal() for word in words):
            self.fail(f"a block shape is two sizes such as 128,128; got {value!r}", param, ctx)
        return int(words[0]), int(words[1])


PICTURE = _Picture(dir_okay=False, path_type=Path)
TYPES: Mapping[str, Any] = {
    "output": _Output(dir_okay=False, path_type=Path), "picture": PICTURE, "axes and picture": (str, str, PICTURE),
    "input": click.Path(exists=True, dir_okay=False, path_type=Path), "table": click.Path(exists=True, path_type=Path),
    "path": click.Path(path_type=Path), "new file": click.Path(dir_okay=False, path_type=Path),
    "folder": click.Path(exists=True, file_okay=False, path_type=Path), "file": click.File(),
    "written": click.File("w"), "new folder": click.Path(file_okay=False, path_type=Path), "shape": _Shape(),
}  # fmt: skip
"""What parameters take, by the names that `templates/options.toml` has for it."""


def _device_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Names of devices, for a shell that completes what was begun."""
    return [name for name in archs.names() if name.startswith(incomplete.lower())]


def _param(name: str, told: str | Mapping[str, Any], kind: Any, default: Any) -> click.Parameter:
    """The option or the argument of a parameter, by what the file says of it."""
    how: dict[str, Any] = {"help": told} if isinstance(told, str) else {**SAID.get(told.get("like"), {}), **told}
    how |= HOW.get(how.pop("how", None), {})
    inner = next((each for each in get_args(kind) if each is not type(None)), kind)
    taken = inner if inner in (bool, int, float, str) else str
    if (choices := how.pop("choices", None)) is not None:
        taken = click.Choice(choices if isinstance(choices, list) else [each for each in _constant(choices) if each])
        how |= {"help": how["help"].replace("CHOICES", ", ".join(map(str, taken.choices)))} if "help" in how else {}
    elif {"least", "above"} & how.keys():
        ranged = click.FloatRange if taken is float else click.IntRange
        taken = ranged(how.get("least", how.get("above")), min_open="above" in how)
    found = {"type": TYPES.get(how.pop("type", None), taken), "required": default is Parameter.empty}
    found |= {} if default in (Parameter.empty, ()) else {"default": default}
    flags = how.pop("flags", f"--{name.replace('_', '-')}").split()
    how = {key: value for key, value in how.items() if key not in ("like", "least", "above")}
    if "help" not in how:
        return click.Argument([name], **found | how)
    found |= {"multiple": True} if isinstance(default, tuple) and "default" not in found else {}
    found |= {"shell_complete": _device_names} if name == "arch" else {}
    if inner is bool:
        found["is_flag"] = bool(found.pop("type"))
    made: click.Option = how.pop("cls", click.Option)([*flags, name], **found | how)
    return made


def _constant(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(f"carver.{module}"), name)


class Options(Record):
    """A record whose fields are options that several commands have: such a command has one parameter for all."""


class Found(NamedTuple):
    """What a command found: in the types of JSON, and as text. Either may be a function that makes it when it is asked
    for. Without a text, a list of records is printed as a table, and one record as a line for each of its entries."""

    data: Any
    text: Any = None
    ends: int | CarverError = 0
    """The exit code, or the error that the command ends with once this is printed."""
    notes: Sequence[str] = ()
    """What is said beside a text."""


NO_OPTIONS = (Template, Arch, list[Arch])
"""Types of parameters that a command is given otherwise."""


def params_of(function: Function) -> list[click.Parameter]:
    """The options and arguments of a function, in their order; `--json` where it returns what it found."""
    hints, made = get_type_hints(function), list[click.Parameter]()
    own = SAID.get(function.__module__.rpartition(".")[2], {}).get(function.__name__.lstrip("_"), {})
    for name, parameter in signature(function).parameters.items():
        if _is_options(hints[name]):
            made += params_of(hints[name])
        elif hints[name] not in NO_OPTIONS and (told := own.get(name, SAID.get(name))) is not None:
            made.append(_param(name, told, hints[name], parameter.default))
    if hints.get("return") is Found and "as_json" not in hints:
        made.append(_param("as_json", SAID["as_json"], bool, False))
    return made


def _is_options(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Options)


def printing(function: Function) -> Function:
    """The function as click calls it: with its options, one by one, and prints what it found."""
    hints = get_type_hints(function)
    groups = {name: kind for name, kind in hints.items() if _is_options(kind)}

    @functools.wraps(function)
    def run(*args: Any, **given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{each.name: given.pop(each.name) for each in fields(kind)})
        as_json = given.get("as_json") if "as_json" in hints else given.pop("as_json", False)
        found = function(*args, **given)
        if isinstance(found, Found):
            data, text, ends, notes = found
            if as_json or text is None:
                data = data() if callable(data) else data
                text = json.dumps(_finite(data), indent=1, ensure_ascii=False) if as_json else recorded(data)
            if said := str(text() if callable(text) else text):
                click.echo(said)
            for note in () if as_json else notes:
                click.echo(f"note: {note}", err=True)
            if isinstance(ends, CarverError):
                raise ends
            if ends:
                sys.exit(ends)

    return run


def folded(text: str) -> str:
    """The text with lines that keep to the width of the screen."""
    return "\n".join(wrapped(text.splitlines(), max(40, screen_width()), 4))


def recorded(data: Any) -> str:
    """Records as a table, one record as lines, counts as "3 deleted"."""
    if isinstance(data, Mapping) and all(isinstance(count, int) for count in data.values()):
        return ", ".join(f"{count} {what}" for what, count in data.items())
    if isinstance(data, Mapping):
        room = max(map(len, data), default=0)
        return "\n".join(printable(f"{name:<{room}}  {_cell(value)}".rstrip()) for name, value in data.items())
    if not data or not all(isinstance(each, Mapping) for each in data):
        return "\n".join(printable(str(each)) for each in data) or "none"
    columns = []
    for name in data[0]:
        values = [each[name] for each in data]
        is_text = not all(value is None or isinstance(value, int | float) for value in values)
        columns.append(Column(name, tuple(map(_cell, values)), is_text))
    return drawn(columns, screen_width(), styled=True)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return words(value)
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def command(function: Function, name: str = "", group: click.Group | None = None, **how: Any) -> Command:
    """A command of a function, called as its words are, or as `name`; added to `group`."""
    called = name or function.__name__.replace("_", "-")
    made = Command(called, callback=printing(function), params=params_of(function), help=function.__doc__, **how)
    if group is not None:
        group.add_command(made)
    return made


def device(name: str) -> Arch:
    """A descriptor by any of its names; "auto" is the GPU of this machine, or its CPU where it has none."""
    if name.strip().lower() != "auto" or detect.nvidia_names():
        return archs.load(name)
    with suppress(DeviceError):
        return archs.HIP()
    click.echo("note: no GPU in this machine: auto is its CPU, and its kernels are those of the CPU", err=True)
    return archs.CPU()


def devices_of(words: Sequence[str]) -> list[Arch]:
    """The devices that the words of `--arch` mean together, each once. An instruction set alone is one device."""
    found: dict[str, Arch] = {}
    for word in words:
        several = archs.group(word)
        if not several or (len(words) == 1 and several[0].isa == word.strip().lower()):
            several = [device(word)]
        found |= {arch.name: arch for arch in several}
    return list(found.values())


class _Backend(click.Option):
    """`--backend`, in any case. Its help lists the backends of the operator that it is asked for, from templates/."""

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        return super().process_value(ctx, value.lower() if isinstance(value, str) else value)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        name = str(ctx.command.name).replace("-", "_")
        asked = [name] if name in operator_files() else operator_files()
        found = {k.backend for operator in asked for k in every(operator)}
        names, text = super().get_help_record(ctx) or ("", "")
        return names, text.replace("BACKENDS", ", ".join(sorted(found)))


def _profile(ctx: click.Context, param: click.Parameter, given: str | None) -> Any:
    if given is None or Path(given).is_file():
        return None if given is None else Path(given)
    from ..tune.cache import profile_named

    return profile_named(given)


def _renamed(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> dict[str, str] | None:
    pairs = {word: word.partition("=") for word in given}
    if odd := [word for word, (ours, _, theirs) in pairs.items() if not (ours and theirs)]:
        raise ConfigError(f"--name takes KEY=YOURS, such as BLOCK_M=BLOCK_SIZE_M; got {odd[0]!r}")
    return {ours: theirs for ours, _, theirs in pairs.values()} or None


def _piped(ctx: click.Context, param: click.Parameter, given: TextIO | None) -> TextIO | None:
    if given is not None and given.isatty():
        raise click.UsageError("no configurations: name a file with --configs, or pipe them in", ctx)
    return given


def _config(ctx: click.Context, param: click.Parameter, given: str | None) -> dict[str, Any] | None:
    if given is None:
        return None
    if given.lstrip().startswith("{"):
        return dict(json_of(given, "--config", ConfigError))
    config: dict[str, Any] = {}
    for pair in filter(None, (word.strip() for word in given.split(","))):
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier() or name in config:
            takes = "NAME=VALUE,NAME=VALUE or a JSON object, each name once"
            raise ConfigError(f"--config takes {takes}; got {shown(given)}")
        try:
            config[name] = json_of(value.lower() if value in ("True", "False") else value, name, ConfigError)
        except ConfigError:  # a word, such as a macro's value
            config[name] = value
    return config


HOW: Mapping[Any, Mapping[str, Any]] = {
    "backend": {"cls": _Backend}, "profile": {"callback": _profile},
    "names": {"flags": "--name", "callback": _renamed, "multiple": True, "metavar": "KEY=YOURS"},
    "config": {"callback": _config, "metavar": "NAME=VALUE,...|JSON"},
    "configs": {"type": "file", "callback": _piped, "show_default": False, "required": False},
}  # fmt: skip
"""How options are read that the file names one of these for."""


def per_operator(
    function: Function, name: str = "", arch: str | None = None, of: Callable[[str], bool] = lambda name: True,
) -> click.Group:  # fmt: skip
    """A group with one sub-command for each operator that `of` says. `function` is called with the template and with
    its own options; if it takes `archs`, with the devices that `--arch` means besides, else the template is of the one
    device.

    Every sub-command has `--arch`, which must be given unless `arch` is its default.
    """
    several = "archs" in signature(function).parameters
    told = {"like": "archs" if several else "arch", "multiple": several}
    own = [_param("arch", told, str, arch or Parameter.empty), *params_of(function)]
    run = printing(function)
    group = _Operators(name or function.__name__.replace("_", "-"), help=function.__doc__)
    for operator in filter(lambda each: of(each.name), operators().values()):
        made = Command(
            operator.name.replace("_", "-"), callback=functools.partial(_call, run, several, operator),
            params=[*_params(operator), *own],
            help=f"{operator.summary}\n\n{function.__doc__}", short_help=operator.summary,
        )  # fmt: skip
        made.says = operator.summary
        group.add_command(made)
    return group


def without_operator(group: click.Group, alone: Function) -> None:
    """Makes a group answer without a sub-command too. With one, options in front of it would have no effect."""

    run = printing(alone)

    @click.pass_context
    def answer(ctx: click.Context, /, **given: Any) -> None:
        if ctx.invoked_subcommand is None:
            run(**given)
            return
        for param in group.params:
            if ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE:
                ctx.fail(f"{param.opts[0]} is for {ctx.command_path} without an operator: write options of "
                         f"{ctx.invoked_subcommand} behind it")  # fmt: skip

    group.invoke_without_command, group.no_args_is_help, group.callback = True, False, answer
    group.params += params_of(alone)


class _Operators(Group):
    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        for operator in operators().values():
            first, command = _params(operator)[0].type, operator.name.replace("_", "-")
            if command not in self.commands:
                if args[0] in (command, *getattr(first, "choices", ())):
                    ctx.fail(f"{ctx.command_path} writes {', '.join(self.commands)}; not {args[0]}")
            elif isinstance(first, click.Choice) and args[0] in first.choices:  # as softmax is of reduction
                ctx.fail(f"{args[0]} is a {operator.name}: {ctx.command_path} {command} {' '.join(args)}")
        return super().resolve_command(ctx, args)


def _call(run: Function, several: bool, operator: Operator, /, arch: str | tuple[str, ...], **given: Any) -> None:
    parameters = signature(operator.template).parameters
    taken: dict[str, Any] = {}
    for name in operator.arguments:
        value = given.pop(name.lower())
        taken |= _extents(value) if parameters[name].kind is Parameter.VAR_KEYWORD else {name: value}
    if several:
        archs = devices_of(arch)
        run(operator.template(**taken), archs=archs, **given)
    else:
        one = device(str(arch))
        run(operator.template(**taken).with_arch(one), **given)


def _extents(words: Sequence[str]) -> Mapping[str, int]:
    """The sizes of axes from words such as m=4096."""
    extents: dict[str, int] = {}
    for word in words:
        axis, equals, value = word.partition("=")
        if not equals or not value.strip().isdecimal():
            raise ProblemError(f"{word!r} is not the size of an axis; write for example m=4096")
        if extents.setdefault(axis.strip(), int(value)) != int(value):
            raise ProblemError(f"axis {axis.strip()!r} has two sizes, {extents[axis.strip()]} and {value}")
    return extents


def _params(operator: Operator) -> list[click.Parameter]:
    """The arguments of a template as click has them, options behind."""
    made, hints = list[click.Parameter](), get_type_hints(operator.template.__init__)
    known = signature(operator.template).parameters
    for place, told in operator.arguments.items():
        how, default = {"help": told} if isinstance(told, str) else dict(told), known[place].default
        if "help" in how:
            flag = place.removeprefix("in_").removeprefix("with_").replace("_", "-").lower()
            how |= {"flags": f"--{flag}", "help": how["help"].replace("TYPES", ", ".join(BYTES))}
        else:
            how, default = {"metavar": place.upper(), **how}, Parameter.empty
        kind = str if known[place].kind is Parameter.VAR_KEYWORD else hints[place]
        made.append(_param(place.lower(), how, kind, default))
    return sorted(made, key=lambda each: isinstance(each, click.Option))


def _finite(value: Any) -> Any:
    """What is no number as null: JSON knows no NaN."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


def ranking_as_dict(ranking: Ranking) -> dict[str, Any]:
    """A ranking in plain JSON types."""
    return {
        "problem": ranking.subject.to_dict(), "arch": ranking.arch.name, "backend": ranking.backend,
        "candidates": ranking.candidates, "rejected": dict(ranking.rejected),
        "reasons": {str(place): why for place, why in ranking.reasons.items()},
        "notes": list(ranking.notes), "constants": ranking.arch.provenance,
        "hints": [hint.to_dict() for hint in ranking],
    }  # fmt: skip


def save_plot(path: Path | None, draw: Callable[[], Axes | Figure]) -> None:
    """Draw without a window and save, where a file is named."""
    if path is not None:
        pyplot().switch_backend("agg")
        save(path, draw())


def save_document(document: Callable[[], Mapping[str, Any]], path: Path | None) -> None:
    """Write what a page holds, and the command that made it, as one HTML page, where a file is named."""
    if path is not None:
        run = Path(sys.argv[0])  # carver, or carver/__main__.py of python -m carver
        command = shlex.join(["carver", *sys.argv[1:]]) if "carver" in (run.name, run.parent.name) else ""
        path.write_text(plots.page({**document(), "command": command}), encoding="utf-8")


class Pictures(Options):
    """Files that a ranking is drawn to."""

    plot: Path | None = None
    roofline: Path | None = None
    heatmap: tuple[str, str, Path] | None = None
    html: Path | None = None

    def of(self, ranking: Ranking, shown: slice, on_page: int | None = None) -> Found:
        """Draw a ranking, and print some of it. Bars are of those that are shown; the other pictures have all
        candidates of the ranking, the page the first `on_page`."""
        few = ranking[shown]
        save_document(lambda: plots.document(ranking[:on_page]), self.html)
        save_plot(self.plot, few.plot)
        save_plot(self.roofline, lambda: ranking.plot_roofline(most=len(ranking)))
        if self.heatmap is not None:
            x, y, file = self.heatmap
            save_plot(file, lambda: ranking.plot_heatmap(x, y))
        return Found(lambda: ranking_as_dict(few), lambda: ranking_table(few, len(few), styled=True))

    def over(self, fleet: Fleet, what: str) -> Found:
        """Devices by their predicted times."""
        if self.roofline or self.heatmap:
            raise ConfigError("--roofline and --heatmap show one device: give one --arch; --plot and --html show all")
        save_plot(self.plot, lambda: plot_devices(fleet.rankings))
        save_document(lambda: plots.devices(fleet, what), self.html)
        return Found(fleet.to_dict, lambda: fleet_table(fleet, what, screen_width(), styled=True))
