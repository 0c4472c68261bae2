"""The commands that answer without a device: `carver recommend`, `rank` and `explain`; and what the user
gives in files: configurations and problems as JSON, JSON lines or CSV, told apart by the first character, and how a
kernel is called, as TOML."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import click
import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import ConfigError, DeviceError, KernelError, nearest
from ..base.given import json_each, json_of, shown, text_from, text_of, toml_of
from ..base.table import is_watched, progress_bars, screen_width, several, wrapped
from ..kernels import expr
from ..kernels.backends import ROW_KEYS, is_grid
from ..kernels.declaration import every
from ..ops.elsewise import explained
from ..ops.grouped_matmul import MoETemplate
from ..ops.operator import Template, recommend_many
from ..ranking.compare import rank_over, recommend_over
from ..ranking.hint import Hint
from ..ranking.plots import document
from ..ranking.recommend import default_backend, spellings
from . import options as opts

if TYPE_CHECKING:
    from ..ranking.kernel import Call


def read_configs(text: str) -> list[dict[str, Any]] | dict[str, Any]:
    """Configurations; lists of values as a dict."""
    given = _read(text, "configurations", "the list of configurations", _rows)
    if not given:
        alone = "" if text.lstrip()[0] in "[{" else f", below {shown(text.strip())} as the header of a CSV"
        raise ConfigError(f"no configurations: the list is empty{alone}")
    if text.lstrip()[0] == "{" and isinstance(given[0], dict):
        if "hints" in given[0]:
            raise ConfigError("this is a ranking; its configurations are what jq '[.hints[].config]' takes out of it")
        if len(given) == 1 and is_grid(given[0]):
            return dict(given[0])
    return list(given)


def configs_of(
    listed: TextIO | None, args: Path | None, one: dict[str, Any] | None = None
) -> list[dict[str, Any]] | dict[str, Any] | None:
    """Configurations of --configs or --config, else those of the file of arguments; None where neither has any."""
    if listed is not None and one is not None:
        raise ConfigError("--config is one configuration, --configs many: give one of the two")
    if one is not None:
        return [one]
    if listed is not None:
        return read_configs(text_from(listed, ConfigError))
    given = None if args is None else _toml(args).get("configs")
    if given is None or (isinstance(given, list) and given and all(isinstance(each, dict) for each in given)):
        return given
    if not isinstance(given, dict) or not given:
        raise ConfigError(f"{args}: [configs] is a table of lists, [[configs]] one configuration; got {shown(given)}")
    return given if is_grid(given) else [given]


def read_problems(text: str) -> list[Template]:
    """Templates from objects, or rows of a CSV with a header, of an operator and its arguments."""
    from ..calibrate.tables import template_of

    what = "the list of problems, which is neither JSON, one a line, nor CSV with a header,"
    found = []
    for place, row in enumerate(_read(text, "problems", what, _cells), 1):
        if not isinstance(row, dict):
            raise ConfigError(f"problem {place} is an object of an operator and its arguments, got {shown(row)}")
        words = {str(name): str(value) for name, value in row.items() if value is not None}
        found.append(template_of(words.pop("operator", "matmul"), words, f"problem {place}"))
    return found


def _read(text: str, of: str, what: str, csv_rows: Callable[[str], list[Any]]) -> list[Any]:
    match text.lstrip()[:1]:
        case "":
            raise ConfigError(f"no {of}: the input is empty")
        case "[":
            return list(json_of(text, what, ConfigError))
        case "{":
            return json_each(text, what, ConfigError)
    return csv_rows(text)


def _cells(text: str) -> list[dict[str, str]]:
    """Rows by the names of the header; an empty cell is left out."""
    header, rows = _table(text)
    for place, row in enumerate(rows, 1):
        if any(row[len(header) :]):
            raise ConfigError(f"problem {place} has {len(row)} cells, the header {len(header)}: {shown(','.join(row))}")
    return [{name: cell for name, cell in zip(header, row, strict=False) if cell} for row in rows]


def _rows(text: str) -> list[dict[str, Any]]:
    """A CSV's header names tunables; a cell may be empty. What `carver export csv` says besides is left out."""
    names, rows = _table(text)
    if not all(name.isidentifier() for name in names):
        raise ConfigError(
            "the configurations are neither JSON nor CSV with a header of tunables, such as BLOCK_M,BLOCK_N; the first "
            f"line is {shown(text.strip().splitlines()[0])}"
        )
    out = []
    besides = ROW_KEYS if ROW_KEYS[-1] in names else ()
    for place, row in enumerate(rows):
        if len(row) != len(names):
            raise ConfigError(f"row {place} of the CSV has {len(row)} cells, its header has {len(names)}")
        cells = {name: cell for name, cell in zip(names, row, strict=True) if name not in besides}
        wrong = {name: cell for name, cell in cells.items() if cell and not _WHOLE.fullmatch(cell)}
        if bad := [f"{name} is {cell!r}" for name, cell in wrong.items()]:
            raise ConfigError(f"row {place} of the CSV must have whole numbers; {', '.join(bad)}")
        out.append({name: int(cell) for name, cell in cells.items() if cell})
    return out


def _table(text: str) -> tuple[list[str], list[list[str]]]:
    """The header of a CSV, and its rows without blank ones."""
    try:
        header, *rows = ([cell.strip() for cell in row] for row in csv.reader(io.StringIO(text.lstrip(), newline="")))
    except csv.Error as error:
        raise ConfigError(f"the CSV cannot be read: {error}") from None
    if twice := [name for place, name in enumerate(header) if name and name in header[:place]]:
        raise ConfigError(f"the header of the CSV has {shown(twice[0])} twice")
    return header, [row for row in rows if any(row)]


_WHOLE = re.compile(r"-?\d{1,19}", re.ASCII)
NEEDS_ARGS = (
    "--args FILE.toml says what the kernel is called with: grid = [...], and under [args] each parameter that is not "
    'tuned, as n = 4096 or x = {dtype = "float16", shape = [4096, 4096]}; carver inspect --help has a whole one'
)


def call_of(kernel: str, path: Path | None) -> Call:
    """The kernel FILE.py:NAME and how the file of arguments says it is called. Raises ConfigError."""
    if path is None:
        raise ConfigError(NEEDS_ARGS)
    given = _arguments(path)
    if find_spec("triton") is None and Path(kernel.rpartition(":")[0]).is_file():
        raise DeviceError(NO_TRITON)
    from ..compiled.worker import kernel_at
    from ..ranking.kernel import Call

    found, sizes = kernel_at(kernel), _sizes("grid", _launch(path, given, "grid"))
    return Call(found, given["args"], sizes, given["constants"], given["values"])


def _launch(path: Path, given: Mapping[str, Any], what: str) -> Any:
    """The grid or the block of a launch that has none of its own."""
    if given[what] is None:
        raise ConfigError(f"{path} has no {what}: give it before the tables, as {what} = [...]")
    return given[what]


class Read(NamedTuple):
    """A kernel in a language that carver reads, and how it is called, as `carver.rank_kernel` takes both.

    how: args, constants, values, grid, block; tuned: macros of a source with the values that are tuned
    """

    kernel: Any
    how: dict[str, Any]
    tuned: dict[str, list[Any]]


def kernel_of(text: str, path: Path | None, macros: Sequence[str] = (), needs: bool = False) -> Read:
    """What FILE.cu:NAME or FILE.hip:NAME names, a function of a source, or FILE.py:NAME: a kernel of any language, a
    `carver.Kernel`, `carver.Binary` or a list of them, or a function that makes one.

    `needs`: a source has a file of arguments. Raises ConfigError.
    """
    file, _, entry = text.rpartition(":")
    given = {"args": {}, "constants": {}, "values": {}} if path is None else _arguments(path)
    how = {name: given[name] for name in ("args", "constants", "values")}
    how |= {name: _sizes(name, given[name]) for name in ("grid", "block") if given.get(name) is not None}
    if text.endswith(SOURCES):
        raise ConfigError(f"{text!r}: write FILE{Path(text).suffix}:NAME, a source and a kernel in it")
    if file.endswith(SOURCES):
        if not Path(file).is_file():
            raise ConfigError(f"there is no file {file!r}")
        if path is None and needs:
            raise ConfigError(NEEDS_ARGS)
        if path is not None:
            for what in ("grid", "block"):
                _launch(path, given, what)
        from ..run.spec import Kernel

        defined = macros_of(macros)
        how["constants"] = {**how["constants"], **{name: one for name, (one, *more) in defined.items() if not more}}
        kernel = Kernel(Path(file), entry)
        if said := given.get("shared_bytes"):
            kernel = replace(kernel, shared_bytes=lambda known: _sizes("shared_bytes", said)(known)[0])
        return Read(kernel, how, {name: v for name, v in defined.items() if len(v) > 1})
    if macros:
        raise ConfigError("-D is of a source, FILE.cu:NAME or FILE.hip:NAME; [constants] has what is not tuned")
    from ..compiled.binary import Binary
    from ..compiled.worker import object_at
    from ..integrations.kernels import KNOWN, front_end, makes
    from ..run.spec import Kernel

    try:
        found = object_at(text, "a kernel in it")
    except ConfigError:
        if find_spec("triton") is None and Path(file).is_file() and "triton" in text_of(Path(file), ConfigError):
            raise DeviceError(NO_TRITON) from None
        raise
    if isinstance(found, list | tuple | Binary | Kernel) or front_end(found) is not None or makes(found):
        return Read(found, how, {})
    if not hasattr(found, "arg_names") and not hasattr(found, "fn"):
        raise ConfigError(f"{text!r} is {shown(found)}: {KNOWN}")
    how = dict(vars(call_of(text, path)))
    return Read(how.pop("kernel"), how, {})


NO_TRITON = "this needs Triton, whose compiler needs no GPU: pip install triton==3.6.0"
SOURCES = (".cu", ".cuh", ".hip")


def macros_of(given: Sequence[str]) -> dict[str, list[Any]]:
    """NAME=VALUE,VALUE as lists; a name alone is 1. Raises ConfigError."""
    out: dict[str, list[Any]] = {}
    for each in given:
        name, has_values, values = each.partition("=")
        if not name.isidentifier() or name in out or (has_values and not values):
            raise ConfigError(f"-D {each}: a macro is given once, as NAME, NAME=VALUE or NAME=VALUE,VALUE")
        out[name] = [_number(value.strip()) for value in values.split(",")] if has_values else [1]
    return out


def _number(text: str) -> Any:
    try:
        return int(text, 0)
    except ValueError:
        return text


def _sizes(what: str, given: Any) -> Callable[[Mapping[str, Any]], tuple[int, ...]]:
    """Sizes of a grid or a block as a function of arguments, constants and configuration."""

    def sizes(known: Mapping[str, Any]) -> tuple[int, ...]:
        numbers = {name: value for name, value in known.items() if isinstance(value, int | float | np.number)}
        return tuple(_extent(each, numbers, what) for each in given)

    return sizes


def _arguments(path: Path) -> dict[str, Any]:
    read = _toml(path)
    tables = {name: read.get(name, {}) for name in ("args", "constants", "values")}
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            raise ConfigError(f"{path}: [{name}] is a table of names and values, got {shown(table)}")
    if text := next((name for name, value in tables["args"].items() if _has_text(value)), None):
        raise ConfigError(
            f"argument {text!r} is {shown(tables['args'][text])}: a tensor is {{dtype = 'float16', shape = [4096]}} in "
            "a file; what a kernel takes as text stands under [constants]"
        )
    sizes = {name: read.get(name) for name in ("grid", "block", "shared_bytes")}
    return {
        **{name: size if size is None or isinstance(size, list) else [size] for name, size in sizes.items()},
        "args": {name: _argument(name, value) for name, value in tables["args"].items()},
        "constants": {name: _argument(name, value) for name, value in tables["constants"].items()},
        "values": {n: np.array(v) if isinstance(v, list) else v for n, v in tables["values"].items()},
    }


def _toml(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        raise ConfigError(f"{path} cannot be read twice, as --args is: give a file")
    read: Mapping[str, Any] = toml_of(text_of(path, ConfigError), path, ConfigError)
    _check_keys(path, read, "grid", "block", "shared_bytes", "args", "constants", "values", "configs")
    return read


def _check_keys(what: object, given: Mapping[str, Any], *known: str) -> None:
    if unknown := given.keys() - set(known):
        raise ConfigError(f"{what}: unknown key {min(unknown)!r}; known: {', '.join(known)}")


def _has_text(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and any(map(_has_text, value)))


def _argument(name: str, value: Any) -> Any:
    """A tensor; a number; {} is None, {dtype = ...} alone Triton's type of that name; a list is a tuple of these."""
    if isinstance(value, list):
        return tuple(_argument(f"{name}.{i}", part) for i, part in enumerate(value))
    if not isinstance(value, Mapping):
        return value
    _check_keys(f"argument {name!r}", value, "dtype", "shape", "strides", "block_shape", "value")
    if not value:
        return None
    if value.keys() == {"dtype"}:
        return _type(name, value["dtype"])
    if value.keys() == {"dtype", "value"}:
        try:  # a number of a type, as a parameter of machine code has it
            return np.dtype(value["dtype"]).type(value["value"])
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"argument {name!r}: no number of type {shown(value['dtype'])}: {error}") from None
    if "dtype" not in value or "shape" not in value:
        raise ConfigError(f"argument {name!r}: a tensor has dtype and shape, and may have strides and block_shape")
    from ..compiled.binary import Descriptor, Tensor

    try:
        tensor = Tensor(value["dtype"], value["shape"], value.get("strides", ()))
        return Descriptor(tensor, value["block_shape"]) if "block_shape" in value else tensor
    except ConfigError as error:
        raise ConfigError(f"argument {name!r}: {error}") from None


def _type(name: str, dtype: Any) -> Any:
    """Triton's, whose integers are called int8 and uint8 where its signatures have i8 and u8."""
    from ..compiled.binary import TRITON_TYPE
    from ..compiled.worker import decode

    if dtype not in TRITON_TYPE:
        raise ConfigError(f"argument {name!r}: unknown element type {shown(dtype)}; {nearest(str(dtype), TRITON_TYPE)}")
    return decode({"dtype": re.sub(r"^(u?)i?(?=\d)", r"\1int", TRITON_TYPE[dtype])})


def _extent(given: Any, numbers: Mapping[str, Any], what: str = "grid") -> int:
    if isinstance(given, int):
        return given
    if not isinstance(given, str):
        raise ConfigError(f"{what}: an extent is a whole number or an expression such as 'ceil(M, BM)', got {given!r}")
    try:
        parsed = expr.parse(given)
        if missing := sorted(parsed.names - numbers.keys()):
            raise KernelError(f"{given!r}: {missing[0]} is no number among args, constants, -D and configurations")
        return int(parsed(numbers))
    except KernelError as error:
        raise ConfigError(f"{what} {error}") from None


DRAWN = 300
"""Candidates on an HTML page."""


@opts.per_operator
def recommend(
    template: Template, archs: list[Arch], pictures: opts.Pictures, topk: int = 10, backend: str | None = None,
    kernel: str | None = None, profile: Any = None,
) -> opts.Found:  # fmt: skip
    """Print the configurations with the shortest predicted times, best first."""
    if len(archs) > 1:
        if kernel or profile is not None:
            raise ConfigError("--kernel and --profile are of one device: give one --arch")
        with progress_bars(is_watched(), transient=True) as bars:
            step = bars.bar("devices", len(archs))
            fleet = recommend_over(template.problem, archs, backend, lambda line: step())
        return pictures.over(fleet, f"{template.problem} on {several(len(fleet.rankings), 'device')}")
    template = template.with_arch(archs[0])
    ranking = template.recommend_hints(topk, backend, kernel, profile)
    if pictures.html or pictures.roofline or pictures.heatmap:
        ranking = template.recommend_hints(max(topk, ranking.candidates), backend, kernel, profile)
    return pictures.of(ranking, slice(topk), max(topk, DRAWN))


@partial(opts.without_operator, recommend)
def _recommend_all(
    many: TextIO | None = None, arch: str | None = None, backend: str | None = None, topk: int = 10,
    as_json: bool = False,
) -> None:  # fmt: skip
    if many is None:
        raise click.UsageError("name an operator, or give --many FILE --arch NAME", click.get_current_context())
    if arch is None:
        raise ConfigError("--many needs the device: --arch NAME")
    for ranking in recommend_many(read_problems(text_from(many, ConfigError)), opts.device(arch), topk, backend):
        first = wrapped([f"{ranking.problem}: {ranking[0]}"], screen_width(), 2)
        click.echo(json.dumps(opts.ranking_as_dict(ranking), ensure_ascii=False) if as_json else "\n".join(first))


def _moe(
    tokens: int, experts: int, chosen: int, hidden: int, intermediate: int, arch: str, dtype: str = "bfloat16",
    weight_dtype: str | None = None, scale_block: str | None = None, routing: str = "uniform", separate: bool = False,
    topk: int = 10, explain: bool = False, as_json: bool = False,
) -> opts.Found:  # fmt: skip
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


def backend_of(template: Template, configs: Any, names: Mapping[str, str] | None, ignore: Collection[str]) -> str:
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
    template: Template, pictures: opts.Pictures,
    configs: TextIO = "-",  # type: ignore[assignment]
    topk: int | None = None, backend: str | None = None, kernel: str | None = None, profile: Any = None,
    names: Any = (), ignore: tuple[str, ...] = (), compiled: int | None = None, source: str | None = None,
    args: Path | None = None,
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
    source: str, arch: tuple[str, ...], pictures: opts.Pictures, args: Path | None = None,
    configs: TextIO | None = None, config: Any = None, macros: tuple[str, ...] = (), compile: str | None = None,
    profile: Any = None, topk: int | None = None, explain: int | None = None, no_launch: bool = False,
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
    how = {**call.how, "profile": profile, "compile": share(compile), "launch": not no_launch}
    if given is None and source.rpartition(":")[0].endswith(SOURCES):
        given, how["constants"] = [how["constants"]], {}  # macros have one value each: titles name them
    found = opts.devices_of(arch)
    if len(found) > 1:
        if profile is not None or explain is not None:
            raise ConfigError("--profile and --explain are of one device: give one --arch")
        told = partial(click.echo, err=True)
        fleet = rank_over(found, lambda each: rank_kernel(call.kernel, given, arch=each, **how), told)
        return pictures.over(fleet, f"{fleet.best[0].subject} on {several(len(fleet.rankings), 'device')}")
    ranking = rank_kernel(call.kernel, given, arch=found[0], **how)
    if explain is None:
        return pictures.of(ranking, slice(topk))
    if explain > len(ranking):
        raise ConfigError(f"--explain {explain}: only {len(ranking)} configurations compile and fit")
    return opts.Found(pictures.of(ranking, slice(explain - 1, explain)).data,
                      lambda: opts.folded(ranking.explain(explain - 1)))  # fmt: skip


opts.command(_rank_any_kernel, "kernel", rank, short_help="Any kernel, ranked by its machine code.")


@opts.per_operator
def explain(
    template: Template, config: Any = None, rank: int | None = None, names: Any = (), ignore: tuple[str, ...] = (),
    plot: Path | None = None, backend: str | None = None, kernel: str | None = None, html: Path | None = None,
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


def _explain_hint(file: TextIO, arch: str | None = None, plot: Path | None = None) -> opts.Found:
    """Explain a hint that was saved as JSON."""
    found = explained(Hint.from_json(text_from(file, ConfigError)), opts.device(arch) if arch else None)
    opts.save_plot(plot, found.plot)
    return opts.Found(found.to_dict, found.__str__)


opts.command(_explain_hint, "hint", explain)
_first = opts.command(_rank_any_kernel, "kernel", explain, short_help="The first of the configurations of any kernel.")
_first.help = (_first.help or "").replace("Rank the configurations", "Explain the first of the configurations", 1)
next(param for param in _first.params if param.name == "explain").default = 1


def share(text: str | None) -> str | float | None:
    """What `--compile` says: a number where it is one."""
    try:
        return text if text is None or not math.isfinite(found := float(text)) else found
    except ValueError:
        return text
