"""The commands that write for other tools, `carver export TARGET` and `carver portfolio`; and `carver check`, which
tells the author of a declaration every mistake at once with its line, and what it would recommend."""

from __future__ import annotations

import dataclasses
import json
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import click
import numpy as np

from ..arch.descriptor import ACCUMULATES_IN, Arch
from ..arch.devices import load as load_arch
from ..base.dtypes import canonical
from ..base.errors import CarverError, ConfigError, NoCandidates, nearest
from ..base.given import MOST_BYTES, json_of, text_of
from ..base.table import is_watched, progress_bars, words
from ..base.types import Record
from ..cost.model import model_faults, price
from ..export import cutlass, plain, tilelang, vllm
from ..kernels import expr
from ..kernels.backends import BACKENDS
from ..kernels.declaration import DeclarationError, Fault, Kernel, backends, load, read
from ..kernels.enumeration import enumerate_space
from ..kernels.expr import size_scope, static_scope
from ..ops.operator import Template
from ..problem import notation, problem
from ..problem.problem import Problem
from ..ranking.hint import Hint
from ..ranking.portfolio import Portfolio
from ..ranking.portfolio import portfolio as find_portfolio
from ..run.records import Records
from . import options as opts
from .rankings import call_of, configs_of

EVENLY = 4096
"""Sizes that stand for a long range whose sizes count alike."""
export = opts.Group("export", help="Write hints in the format of another tool.")


def _write(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text.rstrip("\n"))
    else:
        output.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")


def _listing(configs: Sequence[Mapping[str, Any]]) -> str:
    """As JSON; what was merged or left out goes to stderr."""
    for note in getattr(configs, "notes", ()):
        click.echo(f"note: {note}", err=True)
    return json.dumps(configs, indent=1)


def _target(
    name: str, text: str, make: Callable[[Sequence[Hint], dict[str, str] | None], str],
    only: Callable[[Arch], str] | None = None, operators: Callable[[str], bool] = lambda name: True,
) -> None:  # fmt: skip
    """Adds the target that `make` writes of these operators. `only`: the backend of its kernels, by the device, if they
    are of one."""

    def run(
        template: Template, output: Path | None = None, names: Any = (), topk: int = 10, kernel: str | None = None,
        backend: str | None = None,
    ) -> None:  # fmt: skip
        assert template.arch is not None
        ranking = template.recommend_hints(topk, only(template.arch) if only else backend, kernel)
        for note in ranking.notes:
            click.echo(f"note: {note}", err=True)
        _write(make(ranking, names), output)

    run.__doc__ = text
    made = opts.per_operator(run, name, of=operators)
    for each in made.commands.values():
        each.params = [param for param in each.params if not (only and param.name == "backend")]
    export.add_command(made)


def _has(backend: str) -> Callable[[str], bool]:
    """Whether an operator has kernels for a backend; one without kernels of its own stands for others."""
    return lambda name: name not in problem.operator_files() or backend in backends(name).values()


_target("json", "Write configurations with their predicted times as JSON.", plain.to_json)
_target("csv", "Write configurations with their predicted times as CSV.", plain.to_csv)
_target("triton", "Write keys of triton.Config, num_warps and num_stages among them, as JSON.",
        lambda hints, names: _listing(plain.configs(hints, names)), lambda _: "triton", _has("triton"))  # fmt: skip


def _export_kernel(
    source: str, arch: str, args: Path | None = None, configs: TextIO | None = None, output: Path | None = None,
    topk: int = 10,
) -> None:  # fmt: skip
    """Write the first configurations of any Triton kernel by its machine code, as Python to be pasted.

    `carver inspect --help` shows the file of arguments.
    """
    from ..export import triton
    from ..ranking.kernel import rank_kernel

    call = call_of(source, args)
    ranking = rank_kernel(configs=configs_of(configs, args), arch=opts.device(arch), **vars(call))
    _write(triton.pasted(triton.configs(ranking[:topk])), output)


_of_triton = export.commands["triton"]
assert isinstance(_of_triton, click.Group)
opts.command(_export_kernel, "kernel", _of_triton, short_help="Any Triton kernel, by its machine code.")
_target("tilelang", "Write the list that @tilelang.autotune takes, as JSON.",
        lambda hints, names: _listing(tilelang.configs(hints, names)), lambda _: "tilelang",
        _has("tilelang"))  # fmt: skip



def _is_matmul(name: str) -> bool:
    return name == "matmul" or name not in problem.operator_files()


_target("cutlass", "Write CUTLASS's tile, cluster, stages and schedules as JSON.",
        lambda hints, _: _listing(cutlass.configs(hints)), cutlass.closest, _is_matmul)  # fmt: skip
_target("cute-dsl", "Write arguments of CuTe DSL's dense GEMM for Blackwell as JSON.",
        lambda hints, _: _listing(cutlass.cute_dsl(hints)), cutlass.closest, _is_matmul)  # fmt: skip


def _serving(name: str, make: Callable[..., Sequence[vllm.ConfigFile]]) -> None:
    """Adds a command that writes the files which `make` gives of each device, the batches and its own options."""

    def write(
        arch: tuple[str, ...], project: str = "vllm", batches: str | None = None, device_name: str = "",
        folder: Path = Path(), force: bool = False, explain: bool = False, as_json: bool = False, **layer: Any,
    ) -> opts.Found:  # fmt: skip
        made = [
            file for each in _devices(arch, device_name)
            for file in make(each, batches=_batches(batches), device_name=device_name, project=project, **layer)
        ]  # fmt: skip
        if not as_json:
            return opts.Found([], "\n".join(_written(made, folder, force, explain)))
        if make is _model:
            return opts.Found([_said(each) for file in made for each in _both(file)])
        said = [_said(file) | ({"down": _said(file.down)} if file.down else {}) for file in made]
        return opts.Found(said[0] if len(said) == 1 else said)

    write.__doc__ = make.__doc__
    made = opts.command(write, name, export)
    made.params[:0] = opts.params_of(make)


def _devices(names: Sequence[str], device_name: str) -> list[Arch]:
    found = {each.name: each for each in map(opts.device, names)}
    if device_name and len(found) > 1:
        raise ConfigError(f"--device-name is of one device, got {len(found)}: {', '.join(found)}")
    return list(found.values())


def _both(file: vllm.ConfigFile) -> Sequence[vllm.ConfigFile]:
    return (file, file.down) if file.down else (file,)


def _written(files: Sequence[vllm.ConfigFile], folder: Path, force: bool, explain: bool) -> list[str]:
    """Writes all of them or, where one is there already, none; what to say of each."""
    each = [one for file in files for one in _both(file)]
    there = [name for file in each for name in file.names if (folder / name).exists()]
    if there and not force:
        raise ConfigError(f"{folder / there[0]} is there already{_more(len(there) - 1)}; --force writes over it")
    folder.mkdir(parents=True, exist_ok=True)
    told: dict[str, list[str]] = {}
    for file in each:
        for note in file.notes:
            told.setdefault(note, []).append(file.name.partition(",dtype")[0].removesuffix(".json"))
    for note, names in told.items():
        click.echo(opts.folded(f"note: {names[0]}{_more(len(names) - 1)}: {note}"), err=True)
    said = []
    for file in each:
        said += [_reasons(file)] * explain
        for name in file.names:
            (folder / name).write_text(file.to_json(), encoding="utf-8")
            said.append(str(folder / name))
    return said


def _more(count: int) -> str:
    return f", and {count} more" if count else ""


def _said(file: vllm.ConfigFile) -> dict[str, Any]:
    configs = {m: dict(c) for m, c in file.configs.items()}
    return {"name": file.name, "configs": configs, "predicted_ms": dict(file.predicted_ms), "notes": list(file.notes)}


def _batches(text: str | None) -> Sequence[int]:
    if text is None:
        return vllm.BATCHES
    words = text.replace(",", " ").split()
    if not words or not all(word.isdecimal() and int(word) > 0 for word in words):
        raise ConfigError(f"--batches takes numbers of tokens such as 1,16,256; got {text!r}")
    return [int(word) for word in words]


def _reasons(file: vllm.ConfigFile) -> str:
    """A line a number of tokens: its tile, and of each matmul the time, what bounds it, blocks, waves and padding."""
    heads = "of each matmul: ms, bound, waves, padded / useful arithmetic"
    lines = [f"tokens  {'MxNxK, warps, stages, group':<28} {'ms':>8}  {heads}"]
    for batch, config in file.configs.items():
        if batch not in file.hints:
            lines.append(f"{batch:>6}  vLLM's CUDA kernel, of which vLLM chooses the tile")
            continue
        tile = "x".join(str(config[f"BLOCK_SIZE_{axis}"]) for axis in "MNK")
        words = f"{tile}, {config['num_warps']}, {config['num_stages']}, {config['GROUP_SIZE_M']}"
        each = "; ".join(
            f"{hint.predicted_ms:.4f} {hint.bound}, {hint.details['waves']:.2f}, {hint.details['padding']:.2f}"
            for hint in file.hints[batch]
        )
        lines.append(f"{batch:>6}  {words:<28} {file.predicted_ms[batch]:>8.4f}  {each}")
    return "\n".join(lines)


def _moe(
    arch: Arch, experts: int | None = None, topk: int | None = None, hidden: int | None = None,
    intermediate: int | None = None, dtype: str | None = None, block_shape: tuple[int, int] | None = None,
    group_size: int | None = None, zero_points: bool = False, separate: bool = False, model: Path | None = None,
    tp: int = 1, **how: Any,
) -> Sequence[vllm.ConfigFile]:  # fmt: skip
    """Write the file that vLLM and SGLang look up for fused mixture-of-experts layers."""
    sizes: dict[str, Any] = {"experts": experts, "topk": topk, "hidden": hidden, "intermediate": intermediate}
    given = [name for name, size in sizes.items() if size is not None]
    if model is not None and (given or dtype or block_shape or group_size or zero_points):
        raise ConfigError("--model says the sizes and the quantisation of the layer: give it alone, with --tp")
    if model is not None:
        return [vllm.moe(arch, **vllm.layer_of(_config(model), tp, how["project"]), separate=separate, **how)]
    if len(given) < len(sizes) or tp != 1:
        missing = ", ".join(f"--{name}" for name in sizes if name not in given) or "--model for --tp"
        raise ConfigError(f"say the layer by --model config.json --tp N, or by its sizes: missing {missing}")
    how |= {"block_shape": block_shape, "group_size": group_size, "zero_points": zero_points, "separate": separate}
    return [vllm.moe(arch, **sizes, dtype=dtype or "", **how)]


def _config(path: Path) -> dict[str, Any]:
    read = json_of(text_of(path, ConfigError), path, ConfigError)
    if not isinstance(read, dict):
        raise ConfigError(f"{path} is a model's config.json, an object; got {type(read).__name__}")
    return read


def _block_fp8(
    arch: Arch, n: int, k: int, block_shape: tuple[int, int] = (128, 128), **how: Any
) -> Sequence[vllm.ConfigFile]:
    """Write the file that vLLM and SGLang look up for a block-scaled fp8 linear layer, N x K."""
    return [vllm.block_fp8(arch, n=n, k=k, block_shape=block_shape, **how)]


def _model(
    arch: Arch, file: Path, tp: int = 1, separate: bool = False, dry_run: bool = False, **how: Any
) -> Sequence[vllm.ConfigFile]:
    """Write all files that vLLM and SGLang look up for a model: its experts, its block-scaled linear layers.

    Sizes and quantisation are those of the model's config.json, split over --tp devices.
    """
    config = _config(file)
    linears = vllm.linears_of(config, tp, how["project"])
    layer = vllm.layer_of(config, tp, how["project"]) if vllm.has_experts(config) else None
    if not linears and layer is None:
        raise ConfigError(f"{file}: engines look up files for experts and for block-scaled fp8 layers; it has neither")
    if dry_run:
        context = click.get_current_context()
        if context.params["as_json"]:
            click.echo(json.dumps({"linears": [{"n": n, "k": k} for n, k in linears], "experts": layer}, indent=1))
            context.exit()
        for n, k in linears:
            click.echo(f"linear N={n} K={k}")
        if layer is not None:
            click.echo(f"experts {words(layer)}")
        context.exit()
    block = vllm.block_of(config) or (128, 128)
    files = [vllm.block_fp8(arch, n=n, k=k, block_shape=block, **how) for n, k in linears]
    return files if layer is None else [*files, vllm.moe(arch, **layer, separate=separate, **how)]


_serving("vllm-model", _model)
_serving("vllm-moe", _moe)
_serving("vllm-block-fp8", _block_fp8)


@opts.per_operator
def portfolio(
    template: Template, over: str, topk: int = 4, uniform: bool = False, measured: bool = False,
    backend: str | None = None, python: bool = False, output: Path | None = None, as_json: bool = False,
) -> None:  # fmt: skip
    """Choose a few configurations that cover a range of sizes with least loss. A table says which to use when."""
    if python and (as_json or measured):
        other = "--json" if as_json else "--measured"
        raise ConfigError(f"--python and {other} are two answers: ask for one of the two")
    axis, sizes = _range(over)
    assert template.arch is not None
    spread = dict.fromkeys(sizes[:: -max(1, len(sizes) // EVENLY)], 1.0) if uniform else sizes
    with progress_bars(is_watched(), transient=True) as bars:
        bars.bar("portfolio", 1)
        found: Portfolio = find_portfolio(template.problem, template.arch, axis, spread, topk, backend)
    text = found.to_json() if as_json else found.to_python() if python else repr(found)
    if measured:
        with Records(new=False) as store:
            losses = found.measured(store.find(problem=None, operator=template.problem.operator))
        if as_json:
            text = json.dumps({**found.to_dict(), "measured_loss": losses}, indent=1)
        else:
            mean = statistics.geometric_mean(1 + loss for loss in losses.values()) - 1
            each = ", ".join(f"{loss:.1%} at {size}" for size, loss in losses.items())
            text += f"\nmeasured loss {mean:.1%} in the mean: {each}"
    _write(text, output)


def _range(text: str) -> tuple[str, range]:
    axis, equals, span = text.partition("=")
    low, colon, high = span.partition(":")
    if not (axis and equals and colon and low.isdecimal() and high.isdecimal() and 0 < int(low) <= int(high)):
        raise ConfigError(f"--over takes AXIS=FROM:TO, such as m=1:8192; got {text!r}")
    return axis.strip(), range(int(low), int(high) + 1)


@opts.command
def check(file: Path, operator: str | None = None, dtype: str = "float16", as_json: bool = False) -> opts.Found:
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
        for line, says in () if as_json else faults:
            click.echo(f"{file}:{line}: {says}" if line else f"{file}: {says}", err=True)
        told = [{"line": line or None, "says": says} for line, says in faults]
        return opts.Found({"faults": told, "trials": []}, "", 2)
    found = list(trials(kernel, example(kernel.operator, dtype)))
    rows = [dataclasses.asdict(each) | {"arch": each.arch.name} for each in found]
    head = f"{kernel.operator}/{kernel.name}: {kernel.title}, model {kernel.model}, backend {kernel.backend}"
    text = "\n".join([head, f"tunables {', '.join(kernel.tunables)}\n", *map(_line, found)])
    ends = int(not any(each.candidates for each in found))
    return opts.Found({"faults": [], "trials": rows}, opts.folded(text), ends)


def _line(trial: Trial) -> str:
    if trial.predicted_ms is None:
        return f"{trial.arch.name:<12} none: {trial.why}"
    return (
        f"{trial.arch.name:<12} {trial.candidates:>7,} candidates, first {trial.predicted_ms:.4g} ms: "
        f"{words(trial.config)}"
    )


DEVICES = ("h200_sxm", "a100_sxm_80", "rtx_4090", "t4", "mi300x", "cpu_avx512", "cpu_avx2")
"""Devices on which a declaration is tried, if its backend runs there."""
EXTENT = 512
"""Extent of an axis that is not in the operator's [example]."""


class Trial(Record):
    """Result of ranking a declaration's candidates for its operator's example on one device."""

    arch: Arch
    candidates: int
    config: Mapping[str, int]
    """The best configuration; empty if there is no candidate."""
    predicted_ms: float | None
    """Its time; None if there is no candidate."""
    why: str
    """If there is no candidate, how many each rule removed."""


def example(operator: str, dtype: str = "float16") -> Problem:
    """A problem of realistic size: [example] of `op.toml`, with `EXTENT` for axes that it does not give."""
    dtype = canonical(dtype)
    declared = problem.of(operator)
    statement = notation.parse(declared.computes)
    sizes = {axis: int(declared.example.get(axis, EXTENT)) for axis in statement.axes}
    options = {name: int(n) for name, n in declared.example.items() if name not in sizes}
    dtypes = {tensor.name: dtype for tensor in statement.tensors}
    return Problem(operator, str(statement), sizes, dtypes, ACCUMULATES_IN.get(dtype, "float32"), options)


def checked(path: Path, operator: str = "") -> Kernel:
    """Read and check a declaration. Raises DeclarationError with all its faults."""
    kernel, faults = read(path, operator)
    names = problem.operator_files()
    if kernel.operator in names:
        faults += [*model_faults(kernel), *source_faults(kernel), *unknown_names(kernel, example(kernel.operator))]
    else:
        says = f"no operator {kernel.operator!r}, which its folder is named after; {nearest(kernel.operator, names)}"
        faults.append(Fault("", "", says))
    if faults:
        raise DeclarationError(path, faults)
    return load(path, operator)


def source_faults(kernel: Kernel) -> list[Fault]:
    """Why the kernel's source, if it has one, cannot be run."""
    if kernel.source is None:
        return []
    if not kernel.source.is_file():
        return [Fault("", "source", f"there is no file {str(kernel.source)!r}")]
    return [] if kernel.launches else [Fault("", "source", "nothing says how it is launched: [[launches]] is missing")]


def unknown_names(kernel: Kernel, problem: Problem) -> list[Fault]:
    """Names in a declaration's expressions that neither it nor its operator defines."""
    static = {*static_scope(problem, load_arch(DEVICES[0]))}
    known = {*static, *size_scope(problem), *kernel.tunables, *kernel.derived}
    tensors = {tensor.name for tensor in problem.statement.tensors}
    rows = {f"ld{name.lower()}" for name in tensors}
    out: dict[Fault, None] = {}
    for table, key, formula in kernel.formulas():
        before = static if table == "requires" else known | rows if table == "launches.maps" else known
        for name in sorted(formula.names - before):
            what = "the compiler's columns need" if key == "compiler" else "there is no"
            says = f"{what} {name!r}; {nearest(name, before)}"
            if name in known:
                says = f"{name!r} is a size, a tunable or a column: a condition on one stands under [rules]"
            out[Fault(table, key, says)] = None
    passed = known | tensors | rows | {"bias", "workspace"}
    for arg in (arg for launch in kernel.launches for arg in launch.args if not arg.endswith("*")):
        for name in sorted(expr.parse(arg).names - passed):
            out[Fault("launches", "args", f"there is no {name!r}; {nearest(name, passed)}")] = None
    for name in sorted({each.tensor for launch in kernel.launches for each in launch.maps} - tensors):
        says = f"{problem.operator} has no tensor {name!r}; {nearest(name, tensors)}"
        out[Fault("launches.maps", "tensor", says)] = None
    return list(out)


def trials(kernel: Kernel, problem: Problem) -> Iterator[Trial]:
    """Try the kernel on each of DEVICES that its backend runs on."""
    for arch in map(load_arch, DEVICES):
        if BACKENDS[kernel.backend].runs_on(arch):
            yield trial(kernel, problem, arch)


def trial(kernel: Kernel, problem: Problem, arch: Arch) -> Trial:
    if unmet := kernel.unmet(static_scope(problem, arch)):
        return Trial(arch, 0, {}, None, f"it requires that {'; '.join(unmet)}")
    try:
        space = enumerate_space(problem, arch, kernel)
        seconds = price(space).seconds
    except NoCandidates as none:
        told = (f"{count} by {rule!r}" for rule, count in none.removed.items())
        return Trial(arch, 0, {}, None, f"of its candidates are left out {', '.join(told)}")
    except CarverError as error:
        return Trial(arch, 0, {}, None, str(error))
    best = int(np.argmin(seconds))
    return Trial(arch, len(space), space.config(best), float(seconds[best]) * 1e3, "")


def line_of(text: str, fault: Fault) -> int | None:
    """The line of a fault in a TOML file, from 1: that of its key, else that of its table; None for the whole file."""
    if broken := re.search(r"\(at line (\d+)", fault.says):
        return int(broken[1])
    table, header = "", None
    for number, line in enumerate(text.splitlines(), 1):
        if found := re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line):
            table = found[1]
            if table == (fault.table or fault.key):
                header = header or number
        key: Any = re.match(r"""\s*(?:"([^"]*)"|'([^']*)'|([\w.-]+))\s*=""", line)
        if key and table == fault.table and fault.key and next(filter(None, key.groups())) == fault.key:
            return number
    return header
