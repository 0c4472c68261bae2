"""Operators on the command line: `matmul M N K`, `gemv N K`, `op "C[m,n] += ..." m=..`; each makes a `Template`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

import click
from click.core import ParameterSource

from ..arch import detect
from ..arch import devices as archs
from ..arch.descriptor import Arch
from ..base.dtypes import BYTES
from ..base.errors import ProblemError
from ..kernels.declaration import every
from ..ops.operator import Argument, Operator, operators
from ..problem.operator_file import operator_files
from .options import Command, Group


def device(name: str) -> Arch:
    """A descriptor by any of its names; "auto" is the NVIDIA GPU of this machine, or its CPU where it has none."""
    if name.strip().lower() != "auto":
        return archs.load(name)
    return archs.CUDA() if detect.nvidia_names() else archs.CPU()


class BackendOption(click.Option):
    """`--backend`. Its help lists the backends of the operator that it is asked for, from templates/."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        name = str(ctx.command.name).replace("-", "_")
        asked = [name] if name in operator_files() else operator_files()
        found = {k.backend for operator in asked for k in every(operator)}
        names, text = super().get_help_record(ctx) or ("", "")
        return names, text.replace("BACKENDS", ", ".join(sorted(found)))


backend_option = click.option(
    "--backend", cls=BackendOption, metavar="NAME",
    help="Whose kernels: BACKENDS.  [default: carver's own, or triton if those leave the fastest unit idle]",
)
DEVICE = "device: a name from `carver archs`, a TOML file, cpu, or auto (this machine's GPU, else its CPU)"
arch_option = click.option("--arch", required=True, metavar="NAME", help=DEVICE)
kernel_option = click.option("--kernel", metavar="NAME", help="Only this kernel, such as a declaration of your own.")


def per_operator(command: Callable[..., None], arch: str | None = None) -> click.Group:
    """A group with one sub-command an operator. `command` is called with the template and with its own options.

    Its options are those that `click.option` put on it; every sub-command has `--arch` besides, which must be given
    unless `arch` is its default.
    """
    asked: dict[str, Any] = {"default": arch} if arch else {"required": True}
    device_option = click.Option(["--arch"], **asked, metavar="NAME", help=DEVICE)
    own = tuple(reversed(getattr(command, "__click_params__", [])))
    group = _Operators(command.__name__.replace("_", "-"), help=command.__doc__)
    for operator in operators().values():
        if operator.arguments:
            group.add_command(
                Command(
                    operator.name.replace("_", "-"),
                    callback=functools.partial(_call, command, operator),
                    params=[*_params(operator), device_option, *own],
                    help=f"{operator.summary}\n\n{command.__doc__}",
                    short_help=operator.summary,
                )
            )
    return group


def without_operator(group: click.Group, alone: Callable[..., None]) -> None:
    """Makes a group answer without a sub-command too. With one, options in front of it would have no effect."""

    @click.pass_context
    def answer(ctx: click.Context, /, **given: Any) -> None:
        if ctx.invoked_subcommand is None:
            alone(**given)
            return
        for param in group.params:
            if ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE:
                ctx.fail(f"{param.opts[0]} is for {ctx.command_path} without an operator: write options of "
                         f"{ctx.invoked_subcommand} behind it")  # fmt: skip

    group.invoke_without_command, group.no_args_is_help, group.callback = True, False, answer
    group.params += reversed(getattr(alone, "__click_params__", []))


class _Operators(Group):
    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        for operator in operators().values():
            if operator.arguments and args[0] in (operator.arguments[0].choices or ()):  # as softmax is of reduction
                ctx.fail(f"{args[0]} is a {operator.name}: {ctx.command_path} {operator.name} {' '.join(args)}")
            if args[0].replace("-", "_") == operator.name and not operator.arguments:
                ctx.fail(f"{args[0]} has no sub-command: in Python it is carver.{operator.template.__name__}, and "
                         f"{ctx.command_path} op takes index notation")  # fmt: skip
        return super().resolve_command(ctx, args)


def _call(command: Callable[..., None], operator: Operator, /, arch: str, **given: Any) -> None:
    parameters = signature(operator.template).parameters
    taken: dict[str, Any] = {}
    for argument in operator.arguments:
        value, name = given.pop(argument.parameter.lower()), argument.parameter
        taken |= _extents(value) if parameters[name].kind is Parameter.VAR_KEYWORD else {name: value}
    command(operator.template(**taken).with_arch(device(arch)), **given)


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
    known = signature(operator.template).parameters
    return [_param(argument, known[argument.parameter]) for argument in operator.arguments]


_DTYPES = f"inputs: {', '.join(BYTES)}"


def _param(argument: Argument, parameter: Parameter) -> click.Parameter:
    """An argument as click has it; type and default are those of the template's parameter."""
    name, words = argument.parameter.lower(), str(parameter.annotation)
    text = parameter.kind is Parameter.VAR_KEYWORD or "str" in words
    number = float if "float" in words else int
    kind = click.Choice(argument.choices) if argument.choices else str if text else number
    if not argument.option:
        metavar = argument.metavar or name.upper()
        return click.Argument([name], type=kind, nargs=argument.count, required=True, metavar=metavar)
    default = None if parameter.default is Parameter.empty else parameter.default
    return click.Option(
        [argument.option, name],
        type=None if default is False else kind,
        is_flag=default is False,
        default=default,
        metavar=argument.metavar or None,
        help=argument.help or (_DTYPES if argument.option == "--dtype" else None),
    )
