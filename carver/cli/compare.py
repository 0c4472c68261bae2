"""`carver compare`: a kernel before and after a change, without a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TextIO

import click

from ..base.errors import CompileError, ConfigError
from ..base.given import json_of, text_from
from ..base.table import screen_width, words
from ..ranking.compare import Comparison, table
from ..ranking.compare import compare as compared
from ..ranking.compare import markdown as as_markdown
from ..ranking.hint import Hint
from ..view.page import tables
from .options import (
    DEVICE,
    Arguments,
    AsJson,
    Html,
    argument,
    command,
    config_option,
    configs_option,
    device,
    option,
    save_document,
)
from .reading import NEEDS_ARGS, read_configs


@command
def compare(
    old: Annotated[str, argument("OLD")],
    new: Annotated[str, argument("FILE.py:NAME")],
    arch: Annotated[tuple[str, ...], option(f"{DEVICE[:-1]}; repeatable.", metavar="NAME", multiple=True)],
    args: Arguments = None,
    configs: Annotated[TextIO | None, configs_option("[configs] of --args, or triton.autotune's")] = None,
    config: Annotated[Any, config_option("Compare this configuration alone")] = None,
    fail_over: Annotated[str | None, option(
        "Exit with 1 if the predicted time grows by more on a device, such as 5%.", metavar="PERCENT")] = None,
    markdown: Annotated[bool, option("Print Markdown, for a comment on a pull request.")] = False,
    html: Html = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Compare a Triton kernel before and after a change, on devices that need not be in the machine.

    OLD is another FILE.py:NAME, or a git revision of the same file, such as HEAD or main. Printed are the predicted
    times of the best configurations, registers, spills, bytes, waits and what bounds the time, and what changed most.

    \b
        carver compare main kernels.py:matmul --args args.toml --arch h100
    """
    if markdown and as_json:
        raise ConfigError("--markdown and --json are two forms of the same: give one of the two")
    if config is not None and configs is not None:
        raise ConfigError("--config is one configuration, --configs many: give one of the two")
    if args is None:
        raise ConfigError(NEEDS_ARGS)
    most = _percent(fail_over)
    given = [config] if config is not None else configs and read_configs(text_from(configs, ConfigError))
    with _before(old, new) as source:
        found = [_on(device(name).name, source, new, args, given) for name in arch]
    title = f"{new.rpartition(':')[2]}: {old} -> {new}"
    save_document(_document(found, title), html)
    if as_json:
        click.echo(json.dumps({"old": old, "new": new, "devices": [each.to_dict() for each in found]}, indent=1))
    else:
        click.echo(as_markdown(found, title) if markdown else table(found, title, screen_width(), styled=True))
    if most is not None and (worse := [each for each in found if each.ratio > 1.0 + most]):
        click.echo(f"slower by more than {fail_over} on {', '.join(each.device for each in worse)}", err=True)
        sys.exit(1)


def _document(found: Sequence[Comparison], title: str) -> dict[str, Any]:
    """What the page holds: the devices, then of each what changed, and every configuration with both times."""
    heads = ["device", "before, ms", "after, ms", "change, %", "bound", "what changed most"]
    devices = [
        [each.device, each.before.predicted_ms, each.after.predicted_ms, 100 * (each.ratio - 1), each.after.bound,
         each.why]
        for each in found
    ]  # fmt: skip
    shown: list[dict[str, Any]] = [{"title": "Predicted times", "columns": heads, "rows": devices, "words": [0, 4, 5],
                                    "bars": [1, 2]}]
    for each in found:
        pairs = each.measures | {f"{name}, ms": both for name, both in (each.terms_ms | each.loop_ms).items()}
        shown += [
            {"title": f"{each.device}: what changed", "columns": ["", "before", "after"],
             "rows": [[name, *both] for name, both in pairs.items() if both[0] != both[1]]},
            {"title": f"{each.device}: configurations", "columns": ["configuration", "before, ms", "after, ms"],
             "rows": [[words(config), *("cannot run" if ms is None else ms for ms in both)]
                      for config, *both in each.times_ms]},
        ]  # fmt: skip
    return tables(title, "before and after a change, predicted", *shown)


def _percent(given: str | None) -> float | None:
    if given is None:
        return None
    try:
        found = float(given.strip().removesuffix("%")) / 100
    except ValueError:
        found = -1.0
    if not 0 <= found < 100:
        raise ConfigError(f"--fail-over takes a percentage such as 5%, got {given!r}")
    return found


@contextmanager
def _before(old: str, new: str) -> Iterator[str]:
    """The kernel before the change as FILE.py:NAME; of a revision, in a folder with all files of that revision."""
    path, _, name = new.rpartition(":")
    if old.rpartition(":")[0].endswith(".py"):
        yield old
        return
    if other := next((word for word in (old, new) if word.rpartition(":")[0].endswith((".cu", ".hip"))), None):
        raise ConfigError(f"compare takes Triton kernels, FILE.py:NAME; got {other!r}")
    file = Path(path).resolve()
    if not file.is_file():
        raise ConfigError(f"{path!r} is no file; write FILE.py:NAME")
    root = Path(_git(file.parent, "rev-parse", "--show-toplevel").decode().strip())
    if old.startswith("-"):
        raise ConfigError(f"{old!r} is neither FILE.py:NAME nor a git revision")
    tree = _git(root, "archive", "--format=tar", old)
    with TemporaryDirectory(prefix="carver-compare-") as folder:
        with tarfile.open(fileobj=BytesIO(tree)) as files:
            files.extractall(folder, filter="data")
        there = Path(folder) / file.relative_to(root)
        if not there.is_file():
            raise ConfigError(f"there is no {file.relative_to(root)} at {old}")
        yield f"{there}:{name}"


def _git(folder: Path, *words: str) -> bytes:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, check=False)
    except FileNotFoundError:
        raise ConfigError("a revision is read by git, which is not installed; give two files FILE.py:NAME") from None
    if done.returncode:
        raise ConfigError(f"OLD is FILE.py:NAME or a git revision; git says: {done.stderr.decode().strip()}")
    return done.stdout


def _on(arch: str, old: str, new: str, args: Path, configs: Any) -> Comparison:
    """Both rankings on one device, each in a process of its own: modules of the same name do not meet."""
    words = [sys.executable, "-m", "carver", "rank", "kernel"]
    told = None if configs is None else json.dumps(configs).encode()
    more = ["--args", str(args), "--arch", arch, "--json", *(["--configs", "-"] if told else [])]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = [subprocess.Popen([*words, source, *more], **pipes) for source in (old, new)]
    hints = []
    for process, source in zip(running, (old, new), strict=True):
        out, said = process.communicate(told)
        if process.returncode:
            why = said.decode(errors="replace").strip().removeprefix("error: ")
            raise (CompileError if process.returncode == 1 else ConfigError)(f"{source} on {arch}: {why}")
        hints.append(_hints(out))
    return compared(*hints)


def _hints(out: bytes) -> Sequence[Hint]:
    return [Hint.from_dict(each) for each in json_of(out, "a ranking", ConfigError)["hints"]]
