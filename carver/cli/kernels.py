"""The commands about kernels by their code, with no GPU: `carver inspect`, `compare`, `search` and `pins`."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

import click

from ..base.child import OWN, PACKAGE
from ..base.errors import CompileError, ConfigError
from ..base.folders import publish
from ..base.given import json_of, printable, text_from, whole
from ..base.table import is_watched, progress_bars, screen_width, several, words
from ..ranking.compare import Comparison, table
from ..ranking.compare import compare as compared
from ..ranking.compare import markdown as as_markdown
from ..ranking.hint import Hint
from ..ranking.plots import tables
from ..ranking.ranking import Search
from ..ranking.search import MOST, PATIENCE, SearchSpace
from . import options as opts
from .rankings import NEEDS_ARGS, SOURCES, call_of, configs_of, kernel_of, read_configs


@opts.command
def inspect(
    kernel: str, arch: str, args: Path | None = None, config: Any = None, macros: tuple[str, ...] = (),
    block: int = 256,
) -> opts.Found:  # fmt: skip
    """Compile one configuration of a kernel and print what the machine code contains. Kernels are named as for
    `carver rank kernel`. The device need not be in the machine.

    Prints shared memory, registers, spills and blocks per SM, and for each loop how often a program runs it, its
    instructions by pipe, its bytes, and the time of a single warp. A CUDA source without --args says the same, but not
    how often its loops run. A file of arguments (block: where the caller chooses it):

    \b
        grid = ["ceil(M, BLOCK_M) * ceil(N, BLOCK_N)"]
        block = [256]
        [args]
        M = 4096
        a = {dtype = "float16", shape = [4096, 4096]}
        [constants]
        GROUP_M = 8
        [values]
        B_Seqlen = 2048
        [configs]
        BLOCK_M = [64, 128]
        num_warps = [4, 8]
    """
    from ..compiled.facts import Facts
    from ..cost.models.compiled import fits
    from ..integrations.kernels import inspect
    from ..run.spec import Kernel

    call, target = kernel_of(kernel, args, macros), opts.device(arch)
    if call.tuned:
        raise ConfigError(f"-D {min(call.tuned)} has several values: inspect takes one configuration")
    if isinstance(call.kernel, Kernel) and args is None:
        defines = {**call.kernel.defines, **call.how["constants"], **(config or {})}
        threads = call.kernel.block
        if threads == 1:
            threads = whole("block", block, ConfigError, 1, target.max_threads_per_block)
        compiled = inspect(replace(call.kernel, block=threads, defines=defines), arch=target)
        assert isinstance(compiled, tuple)
        return opts.Found([asdict(each) for each in compiled], opts.folded("\n".join(map(str, compiled))))
    if isinstance(call.kernel, list | tuple):
        raise ConfigError(f"{kernel!r} is a list of binaries: name one")
    facts = inspect(call.kernel, config=config or {}, arch=target, **call.how)
    assert isinstance(facts, Facts)
    if why := fits(facts, target):
        click.echo(f"it cannot be launched: {why}", err=True)
    return opts.Found(asdict(facts), opts.folded(str(facts)))


@opts.command
def compare(
    old: str, new: str, arch: tuple[str, ...], args: Path | None = None, configs: TextIO | None = None,
    config: Any = None, macros: tuple[str, ...] = (), fail_over: str | None = None, markdown: bool = False,
    html: Path | None = None, as_json: bool = False,
) -> opts.Found:  # fmt: skip
    """Compare a kernel before and after a change, on devices that need not be in the machine.

    Kernels are named as for `carver rank kernel`. OLD is another one, or a git revision of the same file, such as
    HEAD or main. Printed are the predicted times of the best configurations, registers, spills, bytes, waits and what
    bounds the time, and what changed most.

    \b
        carver compare main kernels.py:matmul --args args.toml --arch h100
    """
    if markdown and as_json:
        raise ConfigError("--markdown and --json are two forms of the same: give one of the two")
    if args is None:
        raise ConfigError(NEEDS_ARGS)
    most = _percent(fail_over)
    given = configs_of(configs, None, config)
    found = []
    with _before(old, new) as (source, paths), progress_bars(is_watched(), transient=True) as bars:
        step = bars.bar("devices", len(arch))
        for name in arch:
            found.append(_on(opts.device(name).name, {source: paths, new: _paths()}, args, given, macros))
            step()
    title = f"{new.rpartition(':')[2]}: {old} -> {new}"
    opts.save_document(lambda: _document(found, title), html)
    told = {"old": old, "new": new, "devices": [each.to_dict() for each in found]}
    text = as_markdown(found, title) if markdown else table(found, title, screen_width(), styled=True)
    worse = [each.device for each in found if most is not None and each.ratio > 1.0 + most]
    if most is not None and worse:
        click.echo(f"slower by more than {100 * most:g}% on {', '.join(worse)}", err=True)
    return opts.Found(told, text, int(bool(worse)))


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
        pairs = each.measures | {f"{name}, ms": both for name, both in each.terms_ms.items()}
        pairs |= {f"main loop, {name} alone, ms": both for name, both in each.loop_ms.items() if name != "latency"}
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
def _before(old: str, new: str) -> Iterator[tuple[str, list[str]]]:
    """The kernel before the change as FILE.py:NAME, and where it looks for modules; of a revision, in a folder with all
    files of that revision."""
    path, _, name = new.rpartition(":")
    if old.rpartition(":")[0].endswith((".py", *SOURCES)):
        yield old, _paths()
        return
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
        yield f"{there}:{name}", _paths(root, Path(folder))


def _paths(root: Path | None = None, place: Path | None = None) -> list[str]:
    """Where a process looks for modules: where this one does, and then in the current directory. Of a repository that
    was unpacked elsewhere in that place, but for what it does not hold, such as an environment."""
    here = str(Path.cwd())
    found = [Path(path).resolve() for path in dict.fromkeys((*sys.path, here)) if path not in ("", here)] + [Path(here)]
    if root is not None and place is not None:
        moved = {path: place / path.relative_to(root) for path in (*found, root) if path.is_relative_to(root)}
        found = [moved[path] if path in moved and moved[path].is_dir() else path for path in (*found, root)]
    return [str(path) for path in found]


def _git(folder: Path, *words: str) -> bytes:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, check=False)
    except FileNotFoundError:
        raise ConfigError("a revision is read by git, which is not installed; give two files FILE.py:NAME") from None
    if done.returncode:
        raise ConfigError(f"OLD is FILE.py:NAME or a git revision; git says: {done.stderr.decode().strip()}")
    return done.stdout


_RANK = f"""{OWN}
from carver.cli.main import main
sys.path[:] = json.loads(paths)
main(words)
"""


def _on(arch: str, sides: Mapping[str, Sequence[str]], args: Path, configs: Any, macros: Sequence[str]) -> Comparison:
    """The rankings of both kernels on one device, each in a process of its own that looks for modules in its own paths:
    those of the same name do not meet."""
    told = None if configs is None else json.dumps(configs).encode()
    more = ["--args", str(args), "--arch", arch, "--json", *(["--configs", "-"] if told else [])]
    more += [word for macro in macros for word in ("-D", macro)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    hints, running = [], dict[str, subprocess.Popen[bytes]]()
    try:
        for source, paths in sides.items():
            asked = [sys.executable, "-P", "-c", _RANK, PACKAGE, json.dumps(paths), "rank", "kernel", source, *more]
            running[source] = subprocess.Popen(asked, **pipes)
        for source, process in running.items():
            out, said = process.communicate(told)
            if process.returncode:
                why = said.decode(errors="replace").strip().removeprefix("error: ")
                raise (CompileError if process.returncode == 1 else ConfigError)(f"{source} on {arch}: {why}")
            hints.append([Hint.from_dict(each) for each in json_of(out, "a ranking", ConfigError)["hints"]])
    finally:
        for process in running.values():
            process.kill()
    return compared(hints[0], hints[-1])


@opts.command
def search(
    kernel: str, arch: str, args: Path | None = None, macros: tuple[str, ...] = (), space: TextIO | None = None,
    where: tuple[str, ...] = (), seeds: TextIO | None = None, budget_s: float | None = None, most: int = MOST,
    patience: int = PATIENCE, seed: int = 0, topk: int = 10, quiet: bool = False, plot: Path | None = None,
    progress: Path | None = None, html: Path | None = None,
) -> opts.Found:  # fmt: skip
    """Search the space of a kernel for the configurations with the shortest predicted times.

    Kernels are named as for `carver rank kernel`. Only some dozens are compiled, those that promise most. The device
    need not be in the machine. Ctrl-C prints what was found so far; the same command later goes on from there. `carver
    inspect --help` shows the file of arguments.
    """
    from ..integrations.kernels import search as searched

    call = kernel_of(kernel, args, macros, needs=True)
    given: Any = configs_of(space, args)
    if given is not None and call.tuned:
        raise ConfigError(f"-D {min(call.tuned)} has several values, and a space is given, too: give one of the two")
    given = call.tuned or given
    if given is None:
        more = "give [configs] in the file of --args, or several values to a -D"
        raise ConfigError(f"no space to search: name a file with --space, {more}")
    if where:
        if not isinstance(given, dict):
            raise ConfigError("--where is of a space that is given as one object of lists")
        given = SearchSpace(**given)
        for each in where:
            given = given.where(each)
    first: Any = () if seeds is None else read_configs(text_from(seeds, ConfigError))
    ranking = searched(
        call.kernel, given, **call.how, arch=opts.device(arch), seeds=[first] if isinstance(first, dict) else first,
        budget_s=budget_s, most=most, patience=patience, seed=seed, progress=False, told=None if quiet else _say,
    )  # fmt: skip
    assert ranking.search is not None
    done = ranking.search
    opts.save_plot(progress, done.plot)
    first = opts.Pictures(plot, html=html).of(ranking, slice(topk))
    steps = {"ended": done.ended, "steps": [asdict(step) for step in done.steps]}
    return opts.Found(lambda: {**first.data(), "search": steps}, lambda: f"{first.text()}\n{opts.folded(str(done))}")


def _say(so_far: Search) -> None:
    """The best so far, one line on standard error: over the last one on a terminal."""
    best = min((s for s in so_far.steps if s.predicted_ms is not None), key=lambda s: s.predicted_ms or 0, default=None)
    config = f": {words(best.config)}" if best else ""
    last = so_far.steps[-1].seconds
    line = f"{len(so_far.steps)} compiled, {last:.0f} s, best {best.predicted_ms:.4g} ms{config}" if best else "..."
    click.echo(line[:110], err=True)


pins = opts.Group("pins", help="Tables of pinned configurations: the same in every process and on every run.")


@partial(opts.command, name="record", group=pins)
def _record(
    kernel: str, args: tuple[Path, ...], configs: TextIO | None = None, table: Path | None = None, arch: str = "auto",
    margin: float | None = None,
) -> opts.Found:  # fmt: skip
    """Choose a configuration of a Triton kernel for each file of arguments, and put it into the table. No GPU is used.

    A run records its own: CARVER_TRITON=pinned, or `python -m carver.triton --pinned --record PROGRAM`.
    """
    from ..compiled.triton import autotuned
    from ..kernels.backends import listed
    from ..ranking.pins import add, path_of, pick

    chip = opts.device(arch)
    made, named = [], configs_of(configs, None)
    for path in args:
        call = call_of(kernel, path)
        assert isinstance(call.args, Mapping)
        asked = {**call.args, **call.constants}
        given = named or configs_of(None, path)
        every: Any = autotuned(call.kernel, asked) if given is None else listed(given)
        key = None
        if hasattr(call.kernel, "keys"):
            from ..integrations.enable import tuner_key

            key = tuner_key(call.kernel, asked)
        made.append(pick(call.kernel, every, args=asked, grid=call.grid, arch=chip, key=key, default=every[0],
                         margin=margin, values=call.values, progress=sys.stderr.isatty()))  # fmt: skip
    where = path_of(table, chip)
    found = add(where, chip.name, made)
    told = {"table": str(where), "entries": len(found.pins), "recorded": [pin.to_dict() for pin in made]}
    lines = [*(printable(str(pin)) for pin in made), f"{len(found.pins)} in {where}"]
    return opts.Found(told, opts.folded("\n".join(lines)))


@partial(opts.command, name="show", group=pins)
def _show(table: tuple[Path, ...]) -> opts.Found:
    """Print the entries of tables: kernel, key, configuration, and why it was chosen."""
    from ..ranking.pins import Table, home

    places = table or (home(),)
    files = sorted(file for place in places for file in ([place] if place.is_file() else place.glob("*.json")))
    if not files:
        raise ConfigError(f"there is no table of pins in {places[0]}; 'carver pins record' makes one")
    found = [(file, Table.read(file)) for file in files]
    told = [
        {"table": str(file), "device": each.device, "hash": each.hash, "pins": [pin.to_dict() for pin in each]}
        for file, each in found
    ]
    lines = [
        line for file, each in found
        for line in (f"{file}: {each.device}, {several(len(each.pins), 'entry', 'entries')}, picks {each.hash}",
                     *(f"  {printable(str(pin))}" for pin in each))
    ]  # fmt: skip
    return opts.Found(told, opts.folded("\n".join(lines)))


@partial(opts.command, name="merge", group=pins)
def _merge(tables: tuple[Path, ...], output: Path) -> opts.Found:
    """Put the entries of several tables of one device into one file. Two that differ are an error that names both."""
    from ..ranking.pins import merged

    found = merged(tables)
    publish(output, found.text().encode(), 0o644, lasting=True)
    said = {"table": str(output), "entries": len(found.pins), "hash": found.hash}
    return opts.Found(said, f"{len(found.pins)} in {output}, picks {found.hash}")


@partial(opts.command, name="diff", group=pins)
def _diff(first: Path, second: Path) -> opts.Found:
    """Print where two tables differ. Exits with 1 where they do."""
    from ..ranking.pins import Table, differences

    found = differences(Table.read(first), Table.read(second))
    said = opts.folded("\n".join(map(printable, found))) or "nothing: they are the same"
    return opts.Found(found, said, int(bool(found)))


@partial(opts.command, name="verify", group=pins)
def _verify(table: Path, source: Path, as_json: bool = False) -> opts.Found:
    """Compute every entry of a table again, with no GPU. Imports the kernels that the table names from one folder.

    Exits with 1 where another configuration would be chosen, or an entry depends on what has changed since.
    """
    from ..ranking.pins import Table, verify

    sys.path.insert(0, str(source.resolve()))
    rows: list[dict[str, Any]] = []
    for pin, problem in verify(Table.read(table), source, progress=sys.stderr.isatty() and not as_json):
        rows.append({"kernel": pin.kernel, "key": pin.key, "config": pin.config, "problem": problem})
        if not as_json:
            click.echo(opts.folded(printable(f"NOT {pin}\n    {problem}" if problem else f"ok  {pin}")))
    bad = sum(bool(row["problem"]) for row in rows)
    return opts.Found(rows, f"{len(rows) - bad} of {len(rows)} hold", int(bool(bad)))
