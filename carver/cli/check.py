"""`carver check`: a declaration of a kernel, its faults and a trial ranking."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import click

from ..base.given import MOST_BYTES
from ..base.table import words
from ..kernels.declaration import DeclarationError
from ..ranking.trial import Trial, checked, example, line_of, trials
from .options import as_json, print_json


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--operator", metavar="NAME", help="Operator of the kernel.  [default: the name of its folder]")
@click.option("--dtype", metavar="TYPE", default="float16", help="Type of the problem on which it is tried.")
@as_json
def check(file: Path, operator: str | None, dtype: str, as_json: bool) -> None:
    """Check the declaration of a kernel. Prints every mistake with its line, else what it would recommend.

    It is tried on a problem of the operator's usual size, on devices that its backend runs on. Exit code 2 if the
    declaration is faulty, 1 if no device has a candidate.
    """
    try:
        kernel = checked(file.resolve(), operator or "")
    except DeclarationError as error:
        with file.open(encoding="utf-8", errors="replace") as opened:
            text = opened.read(MOST_BYTES)
        faults = sorted({(line_of(text, fault) or 0, str(fault)) for fault in error.faults})
        if as_json:
            told = [{"line": line or None, "says": says} for line, says in faults]
            print_json({"faults": told, "trials": []})
        for line, says in () if as_json else faults:
            click.echo(f"{file}:{line}: {says}" if line else f"{file}: {says}", err=True)
        sys.exit(2)
    found = list(trials(kernel, example(kernel.operator, dtype)))
    if as_json:
        rows = [dataclasses.asdict(each) | {"arch": each.arch.name} for each in found]
        print_json({"faults": [], "trials": rows})
    else:
        click.echo(f"{kernel.operator}/{kernel.name}: {kernel.title}, model {kernel.model}, backend {kernel.backend}")
        click.echo(f"tunables {', '.join(kernel.tunables)}\n")
        for each in found:
            click.echo(_line(each))
    if not any(each.candidates for each in found):
        sys.exit(1)


def _line(trial: Trial) -> str:
    if trial.predicted_ms is None:
        return f"{trial.arch.name:<12} none: {trial.why}"
    return (
        f"{trial.arch.name:<12} {trial.candidates:>7,} candidates, first {trial.predicted_ms:.4g} ms: "
        f"{words(trial.config)}"
    )
