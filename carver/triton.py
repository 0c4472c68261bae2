"""Run a program with every `triton.autotune` kernel in it ranked before it is timed.

    python -m carver.triton --topk 3 train.py --its --own --arguments
    CARVER_TRITON=3 python train.py        # or CARVER_TRITON=pinned; from a wheel: see carver/_startup.py
"""

from __future__ import annotations

import atexit
import runpy
import sys
from pathlib import Path

import click

from .base.errors import CarverError
from .integrations.autotune import enable_triton


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--topk", type=int, default=3, show_default=True, help="Configurations that Triton times; 1 times none.")
@click.option("--pinned", is_flag=True, help="Time nothing, and the same in every process; see docs/howto/pins.md.")
@click.option("--table", type=click.Path(path_type=Path), help="File or folder of a table of pins; implies --pinned.")
@click.option("--record", is_flag=True, help="Put what the table lacks into it; implies --pinned.")
@click.option("--margin", type=float, help="With pins: leave a list's first only for a predicted gain above this.")
@click.option("--strict", is_flag=True, help="With pins: an entry that is missing or stale is an error.")
@click.option("--arch", default="auto", show_default=True, help="A device by name; auto is the GPU in this machine.")
@click.option("--log", is_flag=True, help="Print at the end what was ranked, and what was tuned as before and why.")
@click.option("-m", "module", help="Run a module, as python -m does, in place of a script.")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
def main(
    topk: int, arch: str, log: bool, module: str | None, program: tuple[str, ...], pinned: bool, table: Path | None,
    record: bool, margin: float | None, strict: bool,
) -> None:  # fmt: skip
    """Run PROGRAM, a script with its arguments, and rank each Triton autotuner's list before it is timed."""
    if not module and not program:
        raise click.UsageError("name a script to run, or a module with -m")
    if not module and not Path(program[0]).exists():
        raise click.UsageError(f"there is no script {program[0]!r}")
    try:
        wanted = table or pinned or record
        enabled = enable_triton(topk, arch, pinned=wanted, record=record, margin=margin, strict=strict)
    except CarverError as error:
        raise click.ClickException(str(error)) from None
    if log:
        atexit.register(lambda: print(enabled, file=sys.stderr))
    if module:
        sys.argv = [module, *program]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return
    sys.argv = list(program)
    sys.path[0] = str(Path(program[0]).resolve().parent)
    runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    main()
