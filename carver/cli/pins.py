"""`carver pins`: tables of pinned configurations, the same in every process and on every run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TextIO

import click

from ..base.errors import ConfigError
from ..base.folders import publish
from ..base.given import printable
from .options import (
    INPUT,
    OUTPUT,
    TABLE,
    ArchName,
    AsJson,
    argument,
    command,
    configs_option,
    device,
    group_of,
    option,
    print_json,
)

pins = group_of("pins", "Tables of pinned configurations: the same in every process and on every run.")

Where = Annotated[Path | None, option(
    "The table: a file, or a folder with one a device.  [default: $CARVER_PINS, else pins in the configuration folder]",
    type=click.Path(path_type=Path), metavar="PATH")]  # fmt: skip
Tables = Annotated[tuple[Path, ...], argument("TABLE...", type=INPUT, nargs=-1)]


@partial(command, name="record", group=pins)
def _record(
    kernel: Annotated[str, argument("FILE.py:NAME")],
    args: Annotated[tuple[Path, ...], option(
        "TOML file with [args] (numbers and tensors) and grid, as `carver inspect --help` shows it; repeatable.",
        "--args", type=INPUT, multiple=True)],
    configs: Annotated[TextIO | None, configs_option("[configs] of --args, or triton.autotune's")] = None,
    table: Where = None, arch: ArchName = "auto",
    margin: Annotated[float | None, option(
        "Leave the list's first only for a predicted gain above this, such as 0.1.")] = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Choose a configuration of a Triton kernel for each file of arguments, and put it into the table. No GPU is used.

    A run records its own: CARVER_TRITON=pinned, or `python -m carver.triton --pinned --record PROGRAM`.
    """
    from ..compiled.triton import autotuned
    from ..kernels.foreign import listed
    from ..ranking.pins import add, path_of, pick
    from .reading import call_of, configs_of

    chip = device(arch)
    made, named = [], configs_of(configs, None)
    for path in args:
        call = call_of(kernel, path)
        assert isinstance(call.args, Mapping)
        asked = {**call.args, **call.constants}
        given = named or configs_of(None, path)
        every: Any = autotuned(call.kernel, asked) if given is None else listed(given)
        key = None
        if hasattr(call.kernel, "keys"):
            from ..integrations.pinned import tuner_key

            key = tuner_key(call.kernel, asked)
        made.append(pick(call.kernel, every, args=asked, grid=call.grid, arch=chip, key=key, default=every[0],
                         margin=margin, values=call.values, progress=sys.stderr.isatty()))  # fmt: skip
    where = path_of(table, chip)
    found = add(where, chip.name, made)
    if as_json:
        print_json({"table": str(where), "entries": len(found.pins), "recorded": [pin.to_dict() for pin in made]})
        return
    for pin in made:
        click.echo(printable(str(pin)))
    click.echo(f"{len(found.pins)} in {where}")


@partial(command, name="show", group=pins)
def _show(
    table: Annotated[tuple[Path, ...], argument("TABLE...", type=TABLE, nargs=-1, required=False)],
    as_json: AsJson = False,
) -> None:
    """Print the entries of tables: kernel, key, configuration, and why it was chosen."""
    from ..ranking.pins import Table, home

    places = table or (home(),)
    files = sorted(file for place in places for file in ([place] if place.is_file() else place.glob("*.json")))
    if not files:
        raise ConfigError(f"there is no table of pins in {places[0]}; 'carver pins record' makes one")
    found = [(file, Table.read(file)) for file in files]
    if as_json:
        print_json([
            {"table": str(file), "device": each.device, "hash": each.hash, "pins": [pin.to_dict() for pin in each]}
            for file, each in found
        ])  # fmt: skip
        return
    for file, each in found:
        click.echo(f"{file}: {each.device}, {len(each.pins)} entries, picks {each.hash}")
        for pin in each:
            click.echo(f"  {printable(str(pin))}")


@partial(command, name="merge", group=pins)
def _merge(
    tables: Tables,
    output: Annotated[Path, option("Write the merged table to this file.", "--output", "-o", type=OUTPUT)],
    as_json: AsJson = False,
) -> None:
    """Put the entries of several tables of one device into one file. Two that differ are an error that names both."""
    from ..ranking.pins import merged

    found = merged(tables)
    publish(output, found.text().encode(), 0o644, lasting=True)
    said = {"table": str(output), "entries": len(found.pins), "hash": found.hash}
    print_json(said) if as_json else click.echo(f"{len(found.pins)} in {output}, picks {found.hash}")


@partial(command, name="diff", group=pins)
def _diff(
    first: Annotated[Path, argument("TABLE", type=INPUT)], second: Annotated[Path, argument("OTHER", type=INPUT)],
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Print where two tables differ. Exits with 1 where they do."""
    from ..ranking.pins import Table, differences

    found = differences(Table.read(first), Table.read(second))
    print_json(found) if as_json else click.echo("\n".join(map(printable, found)) or "nothing: they are the same")
    sys.exit(1 if found else 0)


@partial(command, name="verify", group=pins)
def _verify(
    table: Annotated[Path, argument("TABLE", type=INPUT)],
    source: Annotated[str | None, option(
        "Find kernels in this folder first.  [default: the current one]", metavar="FOLDER")] = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Compute every entry of a table again, with no GPU.

    Exits with 1 where another configuration would be chosen, or an entry depends on what has changed since.
    """
    from ..ranking.pins import Table, verify

    sys.path.insert(0, str(Path(source or ".").resolve()))
    rows: list[dict[str, Any]] = []
    for each in verify(Table.read(table), progress=sys.stderr.isatty() and not as_json):
        pin = each.pin
        rows.append({"kernel": pin.kernel, "key": pin.key, "config": pin.config, "problem": each.problem})
        if not as_json:
            click.echo(printable(f"{'ok ' if not each.problem else 'NOT'} {each.pin}"))
            if each.problem:
                click.echo(printable(f"    {each.problem}"))
    bad = sum(bool(row["problem"]) for row in rows)
    print_json(rows) if as_json else click.echo(f"{len(rows) - bad} of {len(rows)} hold")
    sys.exit(1 if bad else 0)
