"""The command line. Exit codes: 0 success, 1 the question has no answer here, 2 it was asked wrongly."""

from __future__ import annotations

import csv
import dataclasses
import errno
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import fill
from typing import Any, NoReturn, TextIO

import click

from .._version import __version__
from ..arch import devices as archs
from ..arch.descriptor import IDENTITY, SECTIONS, Arch
from ..base.errors import CarverError, CompileError, ConfigError, DeviceError, NoCandidates, RunError
from ..base.given import json_each, json_of, printable, shown, text_from
from ..base.table import WIDTH, Column, console, rich_table, screen_width
from ..kernels.foreign import SAID, is_grid
from ..ops.elsewise import explained
from ..ops.template import Template
from ..ranking.hint import Hint
from ..ranking.kernel import rank_kernel
from ..ranking.offers import default_backend
from ..ranking.ranking import Ranking
from ..view.table import ranking_table
from . import export as cli_export
from . import query
from .bench import PICTURE, as_json, bench, records, save_plot
from .calibrate import calibrate
from .check import check
from .evaluate import evaluate
from .inspect import args_option, call_of, inspect_command
from .layers import moe
from .operators import BackendOption, backend_option, device, kernel_option, per_operator
from .tune import bench_call, cache, doctor, profile, simulate

NO_ANSWER = (NoCandidates, DeviceError, CompileError, RunError)


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except CarverError as error:
            _fail(error)
        except click.ClickException as error:  # which repeats what was given
            error.message = printable(error.message)  # type: ignore[misc, unused-ignore]
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


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH})
@click.version_option(__version__, prog_name="carver")
def main() -> None:
    """Tile configurations for GPU and CPU kernels, ranked and explained by a cost model.

    \b
    carver recommend matmul 4096 4096 4096 --arch h200
    carver explain matmul 4096 4096 4096 --arch h200 --rank 2
    carver rank matmul 4096 4096 4096 --arch h200 --configs configs.json
    """


topk_option = click.option("--topk", "-k", type=int, default=10, show_default=True, help="How many to recommend.")


heatmap_option = click.option(
    "--heatmap", type=(str, str, PICTURE), metavar="X Y FILE", help="Save the predicted time over two tunables."
)


def _profile(ctx: click.Context, param: click.Parameter, given: str | None) -> Path | None:
    from ..tune.profiles import named

    return None if given is None else Path(given) if Path(given).is_file() else named(given)


profile_option = click.option(
    "--profile", callback=_profile, metavar="NAME|FILE",
    help="What was learnt of the kernel before: a name that 'carver profile list' prints, or a file of JSON.",
)  # fmt: skip


@as_json
@heatmap_option
@profile_option
@click.option("--roofline", type=PICTURE, help="Save a roofline plot, PNG, SVG or PDF.")
@click.option("--plot", type=PICTURE, help="Save a plot of the terms, PNG, SVG or PDF.")
@kernel_option
@backend_option
@topk_option
def recommend(
    template: Template, topk: int, backend: str | None, kernel: str | None, plot: Path | None, roofline: Path | None,
    heatmap: tuple[str, str, Path] | None, profile: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """The configurations with the shortest predicted times, best first."""
    ranking = template.recommend_hints(topk, backend, kernel, profile)
    _save_plots(ranking, plot, roofline, heatmap)
    _show(ranking, topk, as_json)


def _save_plots(
    ranking: Ranking, plot: Path | None, roofline: Path | None, heatmap: tuple[str, str, Path] | None
) -> None:
    save_plot(plot, ranking.plot)
    save_plot(roofline, ranking.plot_roofline)
    if heatmap is not None:
        x, y, file = heatmap
        save_plot(file, lambda: ranking.plot_heatmap(x, y))


configs_option = click.option(
    "--configs", type=click.File(), default="-", show_default=True,
    help="JSON (a list of objects, one a line, or one object of lists: every combination) or CSV with a header; "
    "- is standard input.",
)  # fmt: skip


@as_json
@heatmap_option
@click.option(
    "--backend", cls=BackendOption, default="triton", show_default=True, metavar="NAME",
    help="Whose vocabulary they are in: BACKENDS.",
)
@click.option("--topk", "-k", type=int, help="How many to print.  [default: all]")
@configs_option
@kernel_option
@profile_option
@cli_export.names_option
@click.option("--ignore", multiple=True, metavar="KEY", help="Leave a key out; repeatable.")
@click.option(
    "--compiled", type=click.IntRange(1), metavar="N",
    help="Compile the first N for the device and rank them anew by what came out; with --source and --args.",
)
@click.option("--source", metavar="FILE.py:NAME", help="The Triton kernel that they are configurations of.")
@click.option(
    "--args", "arguments", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML: what it is called with, as 'carver inspect' takes it.",
)
@click.option("--roofline", type=PICTURE, help="Save a roofline plot, PNG, SVG or PDF.")
@click.option("--plot", type=PICTURE, help="Save a plot of the terms, PNG, SVG or PDF.")
def rank(
    template: Template, configs: TextIO, topk: int | None, backend: str, kernel: str | None,
    names: tuple[str, ...], ignore: tuple[str, ...], compiled: int | None, source: str | None, arguments: Path | None,
    plot: Path | None, roofline: Path | None, heatmap: tuple[str, str, Path] | None, profile: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Your own configurations in the order of their predicted times."""
    if topk is not None and topk < 1:
        raise ConfigError(f"topk must be at least 1, got {topk}")
    given, renamed = read_configs(text_from(configs, ConfigError)), cli_export.renames(names)
    if compiled is not None or source or arguments:
        if compiled is None or not source or arguments is None:
            raise ConfigError("--compiled N, --source FILE.py:NAME and --args FILE.toml go together")
        if plot or roofline or heatmap:
            raise ConfigError("--compiled ranks by what a compiler made: there is no plot of that")
        call = call_of(source, arguments)
        found = template.rank(
            given, backend, kernel=kernel, names=renamed, ignore=ignore, compiled=compiled, call=call,
            profile=profile,
        )[:topk]  # fmt: skip
        click.echo(found.to_json() if as_json else str(found))
        return
    ranking = template.rank(given, backend, kernel=kernel, names=renamed, ignore=ignore, profile=profile)
    shown = ranking[:topk] if topk else ranking
    _save_plots(shown, plot, roofline, heatmap)
    _show(shown, len(shown), as_json)


@as_json
@click.option("--config", metavar="JSON", help="Explain this configuration, in the backend's vocabulary.")
@click.option("--rank", "place", type=click.IntRange(1), help="The hint of this rank.  [default: 1]")
@click.option("--plot", type=PICTURE, help="Save a plot of it, PNG, SVG or PDF.")
@backend_option
def explain(
    template: Template, place: int | None, config: str | None, backend: str | None, plot: Path | None, as_json: bool
) -> None:
    """Why a configuration takes the time it is predicted to take."""
    if config is None:
        place = place or 1
        ranking = template.recommend_hints(place, backend)
        if place > len(ranking):
            raise ConfigError(f"--rank {place}: only {len(ranking)} candidates can run")
        found = ranking.explain(place - 1)
    elif place is not None:
        raise ConfigError("--rank is of carver's own hints, --config of yours: give one of the two")
    else:
        assert template.arch is not None
        backend = backend or default_backend(template.problem, template.arch)
        found = template.rank(read_configs(f"[{config}]"), backend).explain(0)
    _print(found.to_dict()) if as_json else click.echo(str(found))
    save_plot(plot, found.plot)


@as_json
@click.option("--many", "count", type=click.IntRange(1), default=1000, show_default=True, help="Shapes asked at once.")
@click.option("--repeats", type=click.IntRange(1), default=100, show_default=True, help="Queries of each kind.")
@backend_option
@topk_option
def bench_query(
    template: Template, topk: int, backend: str | None, repeats: int, count: int, as_json: bool
) -> None:
    """CPU time of queries, which have one thread: for a new shape, for the same again, for many shapes at once."""
    arch, problem = template.arch, template.problem
    assert arch is not None
    axis = problem.statement.axes[-1]

    def longer(count: int, seed: int) -> list[Template]:
        sizes = [dict(problem.sizes) | {axis: problem.sizes[axis] + 16 * (i + 1000 * seed)} for i in range(count)]
        return [Template(dataclasses.replace(problem, sizes=each, align_bytes={})) for each in sizes]

    ranking = template.recommend_hints(topk, backend)
    _show_timings(
        {"problem": str(problem), "arch": arch.name, "topk": topk, "candidates": ranking.candidates}
        | query.timings(longer, arch, topk, backend, repeats, count),
        f"{problem} and longer on {arch.title}: top {topk} of {ranking.candidates:,} candidates", as_json,
    )  # fmt: skip


def _show_timings(found: dict[str, Any], title: str, as_json: bool) -> None:
    if as_json:
        _print(found)
        return
    click.echo(title)
    query.print_timings(found, query.LINES)


explain_group, rank_group = per_operator(explain), per_operator(rank)
for command in (inspect_command, explain_group, rank_group, per_operator(bench)):
    main.add_command(command)


@rank_group.command("kernel", short_help="Any Triton kernel, by what its compiler makes of it.")
@click.argument("source", metavar="FILE.py:NAME")
@args_option
@configs_option
@profile_option
@click.option("--arch", required=True, metavar="NAME", help="A device by any of its names.")
@click.option("--topk", "-k", type=click.IntRange(1), help="How many to print.  [default: all]")
@click.option("--explain", "place", type=click.IntRange(1), metavar="N", help="Print why the N-th takes its time.")
@as_json
def rank_any_kernel(
    source: str, path: Path | None, configs: TextIO, profile: Path | None, arch: str, topk: int | None,
    place: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Any Triton kernel's configurations, by what its compiler makes of them.

    Each is compiled for the device, which need not be there: seconds the first time, then from the disk. The file of
    arguments is as `carver inspect` takes it.
    """
    call = call_of(source, path)
    ranking = rank_kernel(
        call.kernel, read_configs(text_from(configs, ConfigError)), args=call.args, grid=call.grid, arch=device(arch),
        constants=call.constants, values=call.values, progress=sys.stderr.isatty(), profile=profile,
    )  # fmt: skip
    if place is not None and place > len(ranking):
        raise ConfigError(f"--explain {place}: only {len(ranking)} configurations compile and fit")
    shown = ranking[place - 1 : place] if place else ranking[:topk]
    click.echo(shown.to_json() if as_json else shown.explain() if place else str(shown))


@click.option("--many", type=click.File(), metavar="FILE", help=query.MANY_HELP)
@click.option("--arch", metavar="NAME", help="Device of --many, see `carver archs`.")
@backend_option
@topk_option
@as_json
@click.pass_context
def recommend_all(
    ctx: click.Context, many: TextIO | None, arch: str | None, backend: str | None, topk: int, as_json: bool
) -> None:
    """The configurations with the shortest predicted times, best first."""
    if ctx.invoked_subcommand is None:
        if many is None:
            raise click.UsageError("name an operator, or give --many FILE --arch NAME", ctx)
        query.answer_many(text_from(many, ConfigError), arch, topk, backend, as_json)
    elif many is not None:
        raise click.UsageError(f"--many has its own operators; {ctx.invoked_subcommand} asks for one problem", ctx)


@click.option("--many", "count", type=click.IntRange(1), default=1000, show_default=True, help="Shapes asked at once.")
@click.option("--repeats", type=click.IntRange(1), default=200, show_default=True, help="Queries of each kind.")
@as_json
@click.pass_context
def query_matmuls(ctx: click.Context, repeats: int, count: int, as_json: bool) -> None:
    """CPU time of queries, which have one thread; without an operator, of matmuls of all sizes on an H200."""
    if ctx.invoked_subcommand is None:
        arch = archs.load("h200")
        found = {"arch": arch.name, "topk": 10, "many": count, **query.fresh(arch, 10, None, 5)}
        found |= query.timings(query.drawn, arch, 10, None, repeats, count)
        title = f"matmuls of 16 to 8192 each way on {arch.title}, top 10; CPU time; at once {count:,} shapes"
        _show_timings(found, title, as_json)


def _without_operator(group: click.Group, alone: Callable[..., None]) -> click.Group:
    """A group that answers without a sub-command too."""
    group.invoke_without_command, group.no_args_is_help, group.callback = True, False, alone
    group.params += reversed(getattr(alone, "__click_params__", []))
    return group


recommending = _without_operator(per_operator(recommend), recommend_all)
recommending.add_command(moe)
main.add_command(recommending)
main.add_command(_without_operator(per_operator(bench_query), query_matmuls))
main.add_command(records)
cli_export.wire(main)
main.add_command(evaluate)
main.add_command(calibrate)
for command in (bench_call, cache, check, doctor, profile, simulate):
    main.add_command(command)


@explain_group.command("hint")
@click.argument("file", type=click.File())
@click.option("--arch", metavar="NAME", help="Another device than the hint's own.")
@click.option("--plot", type=PICTURE, help="Save a plot of it, PNG, SVG or PDF.")
@as_json
def explain_hint_file(file: TextIO, arch: str | None, plot: Path | None, as_json: bool) -> None:
    """A hint that was saved as JSON."""
    hint = Hint.from_json(text_from(file, ConfigError))
    found = explained(hint, device(arch) if arch else None)
    _print(found.to_dict()) if as_json else click.echo(str(found))
    save_plot(plot, found.plot)


@main.command("archs")
@click.argument("words", nargs=-1)
@as_json
def list_archs(words: tuple[str, ...], as_json: bool) -> None:
    """The devices that carver knows. WORDS keep those whose name, title or ISA has them all."""
    every = [archs.load(name) for name in sorted({*archs.names(), *archs.own_names()})]
    kept = [a for a in every if all(w.lower() in f"{a.name} {a.title} {a.isa} {a.vendor}".lower() for w in words)]
    if not kept:
        raise ConfigError(f"no device has {' '.join(words)!r} in its name; `carver archs` lists all {len(every)}")
    if as_json:
        _print([{name: getattr(a, name) for name in IDENTITY} | _rates(a) for a in kept])
        return
    shown = [
        Column("name", tuple(a.name for a in kept), is_text=True),
        Column("device", tuple(a.title.removeprefix("NVIDIA ").removeprefix("AMD ") for a in kept), True, "", True),
        Column("ISA", tuple(a.isa for a in kept), is_text=True),
        Column("SMs", tuple(str(a.sm_count) for a in kept)),
        Column("TFLOP/s\nfloat32", tuple(f"{a.vector_flops_per_s('float32') / 1e12:.1f}" for a in kept), spare=1),
        Column("TFLOP/s\nfloat16", tuple(f"{a.flops_per_s('float16') / 1e12:.1f}" for a in kept), spare=2),
        Column("DRAM\nGB/s", tuple(f"{a.dram_bytes_per_s / 1e9:.0f}" for a in kept), spare=3),
        Column("L2\nMB", tuple(f"{a.l2_bytes / 1e6:.1f}" for a in kept), spare=4),
    ]
    console().print(rich_table(shown, screen_width()))


@main.group("arch")
def one_arch() -> None:
    """One device."""


@one_arch.command("show")
@click.argument("name")
@click.option("--toml", is_flag=True, help="As a descriptor file, to start your own from.")
@as_json
def show_arch(name: str, toml: bool, as_json: bool) -> None:
    """Every constant of a device, with its source."""
    arch = device(name)
    if toml and as_json:
        raise ConfigError("--toml and --json are two forms of the same: give one of the two")
    if toml:
        click.echo(archs.to_toml(arch), nl=False)
    elif as_json:
        _print(dataclasses.asdict(arch) | {key: dict(getattr(arch, key)) for key in ("vector", "source")})
    else:
        _show_arch(arch)


def _show_arch(arch: Arch) -> None:
    from rich.text import Text

    screen, source, wide = console(), dict(arch.source), screen_width()
    screen.print(Text(f"{arch.title}  ({arch.name}, {arch.isa})", "bold"))
    screen.print(Text(f"also called {', '.join((*arch.aliases, *arch.device_names)) or 'nothing else'}", "dim"))
    sections: dict[str, list[tuple[str, str]]] = {
        section: [(name, _quantity(name, getattr(arch, name))) for name in names]
        for section, names in SECTIONS.items()
        if section != "cpu" or arch.kind == "cpu"
    }
    sections["vector"] = [
        (dtype, f"{rate:g} FLOP/clk/SM, {arch.vector_flops_per_s(dtype) / 1e12:.4g} TFLOP/s")
        for dtype, rate in arch.vector
    ]
    sections["matrix"] = [
        (f"{row.dtype}, sums {row.accumulate}",
         f"{row.instruction} {'x'.join(map(str, row.shape))}, {row.flops_per_clk_per_sm:g} FLOP/clk/SM, "
         f"{row.flops_per_clk_per_sm * arch.sm_count * arch.matrix_clock_hz / 1e12:.4g} TFLOP/s")
        for row in arch.matrix
    ]  # fmt: skip
    for section, rows in sections.items():
        if not rows:
            continue
        screen.print(Text(f"\n{section}", "bold"))
        width = max(len(key) for key, _ in rows)
        for key, value in rows:
            screen.print(Text(f"  {key:<{width}s}  {value}"))
        for key, text in source.items():
            if key.partition(".")[0] == section:
                said = fill(f"source of {key}: {text}", wide, initial_indent="  ", subsequent_indent="    ")
                screen.print(Text(said, "dim"))
    screen.print(Text(f"\nconstants: {arch.provenance}"))


def _quantity(name: str, value: object) -> str:
    """A field in a unit that people read."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        for ending, size, unit in (
            ("_hz", 1e9, "GHz"), ("bytes_per_s", 1e9, "GB/s"), ("bits_per_s", 1e9, "Gbit/s"), ("_s", 1e-9, "ns"),
        ):  # fmt: skip
            if name.endswith(ending):
                return f"{value / size:,.5g} {unit}" if value < 1e6 * size else f"{value / size:,.0f} {unit}"
        return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
    return str(value)


def _rates(arch: Arch) -> dict[str, Any]:
    return {
        "sm_count": arch.sm_count,
        "float32_flops_per_s": arch.vector_flops_per_s("float32"),
        "float16_flops_per_s": arch.flops_per_s("float16"),
        "dram_bytes_per_s": arch.dram_bytes_per_s,
        "l2_bytes": arch.l2_bytes,
        "constants": arch.provenance,
    }


def read_configs(text: str) -> list[dict[str, Any]] | dict[str, Any]:
    """Configurations from JSON, JSON lines or CSV, told apart by their first character; lists of values as a dict."""
    start = text.lstrip()[:1]
    if not start:
        raise ConfigError("no configurations: the input is empty")
    if start == "[":
        given = json_of(text, "the list of configurations", ConfigError)
    else:
        given = _objects(text) if start == "{" else _rows(text)
    if not given:
        raise ConfigError("no configurations: the list is empty")
    if start == "{" and len(given) == 1 and isinstance(given[0], dict) and is_grid(given[0]):
        return dict(given[0])
    return list(given)


def _objects(text: str) -> list[Any]:
    """JSON objects one after the other, on one line each or on several."""
    found = json_each(text, "the list of configurations", ConfigError)
    if isinstance(found[0], dict) and "hints" in found[0]:
        raise ConfigError("this is a ranking; its configurations are what jq '[.hints[].config]' takes out of it")
    return found


def _rows(text: str) -> list[dict[str, Any]]:
    """A CSV's header names tunables; a cell may be empty. What `carver export csv` says besides is left out."""
    header, *rows = (row for row in csv.reader(io.StringIO(text, newline="")) if row)
    names = [name.strip() for name in header]
    if not all(name.isidentifier() for name in names):
        raise ConfigError(
            "the configurations are neither JSON nor CSV with a header of tunables, such as BLOCK_M,BLOCK_N; the first "
            f"line is {shown(text.strip().splitlines()[0])}"
        )
    out = []
    besides = SAID if SAID[-1] in names else ()
    for place, row in enumerate(rows):
        if len(row) != len(names):
            raise ConfigError(f"row {place} of the CSV has {len(row)} cells, its header has {len(names)}")
        cells = {name: cell for name, cell in zip(names, row, strict=True) if name not in besides}
        if bad := [f"{name} is {cell!r}" for name, cell in cells.items() if not _whole(cell)]:
            raise ConfigError(f"row {place} of the CSV must have whole numbers; {', '.join(bad)}")
        out.append({name: int(cell) for name, cell in cells.items() if cell})
    return out


def _whole(cell: str) -> bool:
    return not cell or (len(cell) < 20 and cell.strip().removeprefix("-").isdecimal())


def _show(ranking: Ranking, most: int, as_json: bool) -> None:
    if as_json:
        _print(query.told(ranking))
    else:
        console().print(ranking_table(ranking, most, width=screen_width()))


def _print(found: object) -> None:
    click.echo(json.dumps(found, indent=1, ensure_ascii=False))
