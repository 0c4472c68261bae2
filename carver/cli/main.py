"""The command line. Exit codes: 0 for success, 1 if there is no answer, 2 for wrong input, 130 after Ctrl-C."""

from __future__ import annotations

import errno
import sys
import warnings
from importlib import import_module
from typing import Any, NoReturn

import click

from .._version import __version__
from ..base.errors import CarverError, CompileError, ConfigError, DeviceError, NoCandidates, RunError, nearest
from ..base.given import printable
from ..base.table import WIDTH

GROUPS = {
    "Choose configurations": {
        "recommend": "rankings", "rank": "rankings", "search": "kernels", "explain": "rankings", "portfolio": "export",
    },
    "Look at kernels": {"inspect": "kernels", "compare": "kernels", "check": "export"},
    "Use them elsewhere": {"export": "export", "pins": "kernels"},
    "Measure on this machine": {"bench": "measure", "tune": "measure", "calibrate": "measure", "records": "measure"},
    "Judge by measured tables": {"evaluate": "measure"},
    "Devices": {"archs": "system.list_archs", "arch": "system"},
    "Caches and this installation": {
        "cache": "system", "profile": "system", "doctor": "system", "skill": "system", "bench-query": "system",
    },
}  # fmt: skip
"""Where each command is: the module, and the name in it if it is not the command's. It is imported when it is asked
for: a command pays for what it uses."""
COMMANDS = {name: where for commands in GROUPS.values() for name, where in commands.items()}
NO_ANSWER = (NoCandidates, DeviceError, CompileError, RunError)


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, _, command = COMMANDS[name].partition(".")
        found: click.Command = getattr(import_module(f"{__package__}.{module}"), command or name.replace("-", "_"))
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from .options import write_commands

        for title, commands in GROUPS.items():
            write_commands(self, ctx, formatter, title, commands)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args[0] not in COMMANDS and not args[0].startswith("-"):  # click looks among those that were imported
            ctx.fail(f"No such command {args[0]!r}; {nearest(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        plain = warnings.showwarning

        def note(message: Warning | str, category: type[Warning], *where: Any) -> None:
            """carver's warnings as a line, without the place in the code."""
            if category is not UserWarning:
                plain(message, category, *where)
            else:
                click.secho(f"note: {printable(str(message))}", fg="yellow", err=True)

        try:
            with warnings.catch_warnings():
                warnings.showwarning = note  # type: ignore[assignment]
                return super().invoke(ctx)
        except CarverError as error:
            _fail(error)
        except KeyboardInterrupt as stopped:
            click.echo(str(stopped) or "interrupted", err=True)
            sys.exit(130)
        except click.ClickException as error:  # which repeats what was given
            error.message = printable(error.message)  # type: ignore[misc, unused-ignore]
            error.exit_code = 2  # type: ignore[misc]  # a file that cannot be opened is 1 to click
            raise
        except OSError as error:
            if error.errno == errno.EPIPE:  # which click knows
                raise
            what = "what was to be written" if error.filename is None else error.filename
            _fail(ConfigError(f"{what}: {error.strerror or error}"))


def _fail(error: CarverError) -> NoReturn:
    click.secho("error: ", fg="red", bold=True, err=True, nl=False)
    click.echo(printable(str(error)), err=True)
    sys.exit(1 if isinstance(error, NO_ANSWER) else 2)


SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": WIDTH, "show_default": True}


@click.group(cls=_Commands, context_settings=SETTINGS)
@click.version_option(__version__, prog_name="carver")
def main() -> None:
    """Tile configurations for GPU and CPU kernels, ranked and explained by a cost model.

    \b
    carver recommend matmul 4096 4096 4096 --arch h200
    carver explain matmul 4096 4096 4096 --arch h200 --rank 2
    carver rank matmul 4096 4096 4096 --arch h200 --configs configs.json
    """
