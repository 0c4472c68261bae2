"""The commands that answer without a device: `carver recommend`, `rank`, `explain` and `inspect`."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TextIO

import click

from ..arch.descriptor import Arch
from ..base.errors import ConfigError
from ..base.given import text_from
from ..kernels.declaration import every
from ..ops.elsewise import explained
from ..ops.grouped_matmul import MoETemplate
from ..ops.matmul import SCALE_BLOCK
from ..ops.operator import Template, recommend_many
from ..ranking.compare import rank_over, recommend_over
from ..ranking.hint import Hint
from ..ranking.rank import spellings
from ..ranking.recommend import default_backend
from ..view.page import document
from . import options as opts
from .reading import SOURCES, call_of, configs_of, kernel_of, read_configs, read_problems

DRAWN = 300
"""Candidates on an HTML page."""


@opts.per_operator
def recommend(
    template: Template, archs: list[Arch], pictures: opts.Pictures, topk: opts.TopK = 10, backend: opts.Backend = None,
    kernel: opts.KernelName = None, profile: opts.Profile = None,
) -> opts.Found:  # fmt: skip
    """Print the configurations with the shortest predicted times, best first."""
    if len(archs) > 1:
        if kernel or profile is not None:
            raise ConfigError("--kernel and --profile are of one device: give one --arch")
        fleet = recommend_over(template.problem, archs, backend)
        return pictures.over(fleet, f"{template.problem} on {len(fleet.rankings)} devices")
    template = template.with_arch(archs[0])
    ranking = template.recommend_hints(topk, backend, kernel, profile)
    if pictures.html or pictures.roofline or pictures.heatmap:
        ranking = template.recommend_hints(max(topk, ranking.candidates), backend, kernel, profile)
    return pictures.of(ranking, slice(topk), max(topk, DRAWN))


@partial(opts.without_operator, recommend)
def _recommend_all(
    many: Annotated[TextIO | None, opts.option(
        "Rank all problems of FILE in one call, for the device of --arch; - is standard input. FILE is a CSV with "
        "columns operator, M, N, K, in_dtype and so on, or has one JSON object with these keys per line. Keys are the "
        "arguments of the operator's template; a shape is rows and cols. The default operator is matmul. Prints the "
        "first hint of each problem; --json has all.", type=click.File(), metavar="FILE")] = None,
    arch: Annotated[str | None, opts.option("Device for --many; see `carver archs`.", metavar="NAME")] = None,
    backend: opts.Backend = None, topk: opts.TopK = 10, as_json: opts.AsJson = False,
) -> None:  # fmt: skip
    if many is None:
        raise click.UsageError("name an operator, or give --many FILE --arch NAME", click.get_current_context())
    if arch is None:
        raise ConfigError("--many needs the device: --arch NAME")
    for ranking in recommend_many(read_problems(text_from(many, ConfigError)), opts.device(arch), topk, backend):
        hints = json.dumps(opts.told(ranking), ensure_ascii=False) if as_json else f"{ranking.problem}: {ranking[0]}"
        click.echo(hints)


def _moe(
    tokens: Annotated[int, opts.argument()],
    experts: Annotated[int, opts.argument()],
    chosen: Annotated[int, opts.argument(type=click.IntRange(1))],
    hidden: Annotated[int, opts.argument()],
    intermediate: Annotated[int, opts.argument()],
    arch: opts.ArchName,
    dtype: Annotated[str, opts.option(
        "Type of activations, and of weights unless --weight-dtype is given.")] = "bfloat16",
    weight_dtype: Annotated[str | None, opts.option("Type of weights, if it differs.", metavar="TYPE")] = None,
    scale_block: Annotated[str | None, opts.option(f"{SCALE_BLOCK.help}.", metavar=SCALE_BLOCK.metavar)] = None,
    routing: Annotated[str, opts.option("Either uniform, zipf, or an exponent of Zipf's law.")] = "uniform",
    separate: Annotated[bool, opts.option("A configuration for each of the two matmuls, of one BLOCK_M.")] = False,
    topk: opts.TopK = 10,
    explain: Annotated[bool, opts.option("Explain the predicted time of the first.")] = False,
    as_json: opts.AsJson = False,
) -> opts.Found:
    """TOKENS tokens, each through CHOSEN of EXPERTS gated MLPs, HIDDEN to INTERMEDIATE wide and back.

    The configurations with which both matmuls together are predicted to take least, best first.
    """
    if explain and as_json:
        raise ConfigError("--explain and --json are two forms of the same: give one of the two")
    skew = float(routing) if routing.replace(".", "", 1).isdecimal() else routing
    layer = MoETemplate(tokens, experts, chosen, hidden, intermediate, dtype, scale_block, skew, weight_dtype)
    ranking = layer.with_arch(opts.device(arch)).recommend_hints(topk, separate=separate)
    hints = [
        {"config": dict(hint.config), "down_config": dict(hint.layers["down"].config),
         "predicted_ms": hint.predicted_ms, "up_ms": hint.layers["up"].predicted_ms,
         "down_ms": hint.layers["down"].predicted_ms, "bound": hint.bound}
        for hint in ranking
    ]  # fmt: skip
    text = ranking[0].explain if explain else ranking.__repr__
    return opts.Found({"layer": str(ranking.subject), "hints": hints}, text)


opts.command(_moe, "moe", recommend, short_help="A gated layer of EXPERTS experts: two grouped matmuls.")


def backend_of(
    template: Template, configs: Any, names: Mapping[str, str] | None, ignore: Collection[str]
) -> str:  # fmt: skip
    """The backend that has the keys of the first configuration; Triton's if it has, or if none has."""
    first = configs if isinstance(configs, Mapping) else configs[0]
    keys = (first.keys() if isinstance(first, Mapping) else set()) - {"kernel", *ignore}
    assert template.arch is not None
    declared = every(template.problem.operator)
    own = default_backend(template.problem, template.arch)
    for backend in dict.fromkeys(("triton", own, *(kernel.backend for kernel in declared))):
        offered = [kernel for kernel in declared if kernel.backend == backend]
        known = {name for kernel in offered for name in kernel.tunables}
        if offered and keys <= known | spellings(offered, None).keys() | set((names or {}).values()):
            return backend
    return "triton"


@opts.per_operator
def rank(
    template: Template,
    pictures: opts.Pictures,
    configs: Annotated[TextIO, opts.configs_option("standard input")] = "-",  # type: ignore[assignment]
    topk: opts.Most = None,
    backend: opts.ConfigBackend = None,
    kernel: opts.KernelName = None,
    profile: opts.Profile = None,
    names: opts.Names = (),
    ignore: opts.Ignore = (),
    compiled: Annotated[int | None, opts.option(
        "Compile the first N for the device and rank them by their machine code; needs --source and --args.",
        type=click.IntRange(1), metavar="N")] = None,
    source: Annotated[str | None, opts.option(
        "The Triton kernel to which the configurations belong.", metavar="FILE.py:NAME")] = None,
    args: opts.Arguments = None,
) -> opts.Found:  # fmt: skip
    """Rank your own configurations by their predicted times."""
    given = read_configs(text_from(configs, ConfigError))
    how: dict[str, Any] = {"kernel": kernel, "profile": profile, "names": names, "ignore": ignore}
    backend = backend or backend_of(template, given, names, ignore)
    if compiled is not None or source or args:
        if compiled is None or not source or args is None:
            raise ConfigError("--compiled N, --source FILE.py:NAME and --args FILE.toml go together")
        how |= {"compiled": compiled, "call": call_of(source, args)}
    return pictures.of(template.rank(given, backend, **how), slice(topk))


def _rank_any_kernel(
    source: opts.AnySource,
    arch: Annotated[tuple[str, ...], opts.option(opts.DEVICES, metavar="NAME", multiple=True)],
    pictures: opts.Pictures,
    args: opts.Arguments = None,
    configs: opts.Configs = None,
    config: Annotated[Any, opts.config_option("Rank this configuration alone")] = None,
    macros: opts.Macros = (),
    compile: Annotated[str | None, opts.option(
        "Share of the list to compile, or 'all'. By default 0.4 of a list of 20 or more.", metavar="SHARE")] = None,
    profile: opts.Profile = None,
    topk: opts.Most = None,
    explain: Annotated[int | None, opts.option(
        "Explain the predicted time of the N-th.", type=click.IntRange(1), metavar="N")] = None,
    no_launch: Annotated[bool, opts.option("Leave out the time of the launch, as within a CUDA graph.")] = False,
) -> opts.Found:  # fmt: skip
    """Rank the configurations of any kernel by their machine code.

    A kernel is FILE.cu:NAME or FILE.hip:NAME, a function of a source with -D macros, or FILE.py:NAME: a function of
    Triton, Gluon, TileLang, CuTe DSL, cuTile, Numba or Warp, a carver.Kernel, a list of carver.Binary, or a function
    that makes one of a configuration. Each is compiled for the device, which need not be in the machine; Triton's
    results are kept on disk. `carver inspect --help` shows the file of arguments.
    """
    from ..integrations.kernels import rank_kernel

    call = kernel_of(source, args, macros, needs=True)
    given = configs_of(configs, args, config)
    if given is not None and call.tuned:
        raise ConfigError(f"-D {min(call.tuned)} has several values, and a list is given, too: give one of the two")
    given = call.tuned or given
    if given is None and source.rpartition(":")[0].endswith(SOURCES):
        given = [{}]  # macros have one value each
    how = {**call.how, "profile": profile, "compile": share(compile), "launch": not no_launch}
    found = opts.devices_of(arch)
    if len(found) > 1:
        if profile is not None or explain is not None:
            raise ConfigError("--profile and --explain are of one device: give one --arch")
        told = partial(click.echo, err=True)
        fleet = rank_over(found, lambda each: rank_kernel(call.kernel, given, arch=each, **how), told)
        return pictures.over(fleet, f"{fleet.best[0].subject} on {len(fleet.rankings)} devices")
    ranking = rank_kernel(call.kernel, given, arch=found[0], **how)
    if explain is None:
        return pictures.of(ranking, slice(topk))
    if explain > len(ranking):
        raise ConfigError(f"--explain {explain}: only {len(ranking)} configurations compile and fit")
    return opts.Found(pictures.of(ranking, slice(explain - 1, explain)).data, lambda: ranking.explain(explain - 1))


opts.command(_rank_any_kernel, "kernel", rank, short_help="Any kernel, ranked by its machine code.")
Explained = Annotated[Path | None, opts.option("Save a plot of the explanation (PNG, SVG or PDF).", type=opts.PICTURE)]


@opts.per_operator
def explain(
    template: Template,
    config: Annotated[Any, opts.config_option("Explain this configuration, given with the backend's keys")] = None,
    rank: Annotated[int | None, opts.option(
        "Explain the hint of this rank.  [default: 1]", type=click.IntRange(1))] = None,
    names: opts.Names = (),
    ignore: opts.Ignore = (),
    plot: Explained = None,
    backend: opts.Backend = None,
    kernel: opts.KernelName = None,
    html: opts.Html = None,
) -> opts.Found:  # fmt: skip
    """Explain the predicted time of a configuration."""
    if config is None:
        if names or ignore:
            raise ConfigError("--name and --ignore are of a configuration's keys: they go with --config")
        place = rank or 1
        ranking = template.recommend_hints(place, backend, kernel)
        if place > len(ranking):
            raise ConfigError(f"--rank {place}: only {len(ranking)} candidates can run")
        ranking = ranking[place - 1 : place]
    elif rank is not None:
        raise ConfigError("--rank is of carver's own hints, --config of yours: give one of the two")
    else:
        backend = backend or backend_of(template, config, names, ignore)
        ranking = template.rank([config], backend, kernel=kernel, names=names, ignore=ignore)
    found = ranking.explain(0)
    if config is not None:
        offered = [each for each in every(template.problem.operator) if each.backend == backend]
        theirs = {ours: name for name, ours in spellings(offered, names).items() if name in config}
        found = found.renamed(theirs)
    opts.save_document(lambda: document(ranking), html)
    opts.save_plot(plot, found.plot)
    return opts.Found(found.to_dict, found.__str__)


def _explain_hint(
    file: Annotated[TextIO, opts.argument(type=click.File())],
    arch: Annotated[str | None, opts.option(
        "Explain for this device instead of the hint's own.", metavar="NAME")] = None,
    plot: Explained = None,
) -> opts.Found:  # fmt: skip
    """Explain a hint that was saved as JSON."""
    found = explained(Hint.from_json(text_from(file, ConfigError)), opts.device(arch) if arch else None)
    opts.save_plot(plot, found.plot)
    return opts.Found(found.to_dict, found.__str__)


opts.command(_explain_hint, "hint", explain)
_first = opts.command(_rank_any_kernel, "kernel", explain, short_help="The first of the configurations of any kernel.")
next(param for param in _first.params if param.name == "explain").default = 1


def share(text: str | None) -> str | float | None:
    """What `--compile` says: a number where it is one."""
    try:
        return text if text is None else float(text)
    except ValueError:
        return text
