"""The commands that write for other tools: `carver export TARGET ...`, `carver portfolio ...`."""

from __future__ import annotations

import functools
import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ..arch.descriptor import Arch
from ..base.errors import ConfigError
from ..export import cutlass, first, plain, tilelang, vllm
from ..ops.template import Template
from ..ranking.hint import Hint
from ..ranking.portfolio import Portfolio
from ..ranking.portfolio import portfolio as find_portfolio
from ..run.records import Records
from .operators import arch_option, backend_option, device, kernel_option, per_operator
from .options import OUTPUT, Group, as_json, names_option, print_json, topk_option

EVENLY = 4096
"""Sizes that stand for a long range whose sizes count alike."""
_FOLDER = click.Path(file_okay=False, path_type=Path)
output_option = click.option("--output", "-o", type=OUTPUT, help="Write to this file.  [default: standard output]")


@click.group("export", cls=Group)
def export() -> None:
    """Write hints in the format of another tool."""


def _write(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text.rstrip("\n"))
    else:
        output.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")


def _listing(configs: Iterable[Mapping[str, Any]]) -> str:
    """As JSON, each once: hints that differ in what a target leaves open are one to it."""
    return json.dumps(list({json.dumps(config): config for config in configs}.values()), indent=1)


def _target(
    name: str, text: str, make: Callable[[Sequence[Hint], dict[str, str] | None], str],
    backend: Callable[[Arch], str] | None = None, fits: Callable[[Hint], bool] | None = None,
) -> None:  # fmt: skip
    """Adds the target that `make` writes. `backend` is that of its kernels, by the device, if they are of one; `fits`
    says which hints it can take, where that is not all of its backend's."""

    @output_option
    @names_option
    @topk_option
    @kernel_option
    def run(
        template: Template, topk: int, kernel: str | None, names: dict[str, str] | None, output: Path | None,
        **rest: Any,
    ) -> None:  # fmt: skip
        assert template.arch is not None
        own = backend(template.arch) if backend else None
        ranking = template.recommend_hints(topk, own or rest.get("backend"), kernel)
        for note in ranking.notes:
            click.echo(f"note: {note}", err=True)
        hints: Sequence[Hint] = ranking
        if fits and own:  # where none fits, the target says why
            hints = first([template.problem], template.arch, topk, own, fits)[0] or hints
        _write(make(hints, names), output)

    run.__name__, run.__doc__ = name, text
    export.add_command(per_operator(run if backend else backend_option(run)))


_target("json", "Configurations with their predicted times as JSON.", plain.to_json)
_target("csv", "Configurations with their predicted times as CSV.", plain.to_csv)
_target("triton", "Keys of triton.Config, num_warps and num_stages among them, as JSON.",
        lambda hints, names: _listing(plain.configs(hints, names)), lambda _: "triton")  # fmt: skip
_target("tilelang", "The list that @tilelang.autotune takes, as JSON.",
        lambda hints, names: _listing(tilelang.configs(hints, names)), lambda _: "tilelang")  # fmt: skip
_target("cutlass", "CUTLASS's tile, cluster, stages and schedules as JSON.",
        lambda hints, _: _listing(cutlass.configs(hints)), cutlass.closest, cutlass.rows_fit)  # fmt: skip
_target("cute-dsl", "Arguments of CuTe DSL's dense GEMM for Blackwell as JSON.",
        lambda hints, _: _listing(cutlass.cute_dsl(hints)), cutlass.closest, cutlass.rows_fit)  # fmt: skip


def _for_serving(make: Callable[..., vllm.ConfigFile]) -> Callable[..., None]:
    """A command that writes the file which `make` gives of the device, the batches and the command's own options."""

    @as_json
    @arch_option
    @click.option("--explain", is_flag=True, help="Print the time of each tile and what bounds it.")
    @click.option("--folder", type=_FOLDER, default=Path(), show_default="the current one", help="Folder for the file.")
    @click.option("--device-name", default="", show_default="from the descriptor", help="The device as torch names it.")
    @click.option("--batches", metavar="M,M,...", help="Numbers of tokens.  [default: those of vLLM's script]")
    @click.option("--project", type=click.Choice(["vllm", "sglang"]), default="vllm",
                  help="Project whose spelling of block shapes to use.")  # fmt: skip
    @functools.wraps(make)
    def write(arch: str, batches: str | None, folder: Path, explain: bool, as_json: bool, **layer: Any) -> None:
        file = make(device(arch), batches=_batches(batches), **layer)
        if as_json:
            print_json(_said(file) | ({"down": _said(file.down)} if file.down else {}))
            return
        folder.mkdir(parents=True, exist_ok=True)
        for each in (file, file.down) if file.down else (file,):
            if explain:
                click.echo(_reasons(each))
            (folder / each.name).write_text(each.to_json(), encoding="utf-8")
            click.echo(str(folder / each.name))

    return write


def _said(file: vllm.ConfigFile) -> dict[str, Any]:
    configs = {m: dict(c) for m, c in file.configs.items()}
    return {"name": file.name, "configs": configs, "predicted_ms": dict(file.predicted_ms)}


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


@export.command("vllm-moe")
@click.option("--experts", type=int, required=True, help="Experts on one device.")
@click.option("--topk", type=int, required=True, help="Experts per token.")
@click.option("--hidden", type=int, required=True, help="Width of the model.")
@click.option(
    "--intermediate", type=int, required=True, help="Width of one expert on one device: the N in the name of the file."
)
@click.option("--dtype", type=click.Choice([d for d in vllm.DTYPES if d]), help="Quantisation.  [default: 16 bits]")
@click.option("--block-shape", type=int, nargs=2, help="Shape of the scaled blocks of fp8_w8a8, such as 128 128.")
@click.option("--group-size", type=int, help="Elements of K that share a scale, of int4_w4a16 and int8_w8a16.")
@click.option("--zero-points", is_flag=True, help="The weights of int4_w4a16 have zero points, as AWQ's do.")
@click.option("--separate", is_flag=True, help="With --project sglang: a second file, of the matmul back.")
@_for_serving
def vllm_moe(arch: Arch, dtype: str | None, **layer: Any) -> vllm.ConfigFile:
    """Write the file that vLLM and SGLang look up for fused mixture-of-experts layers."""
    return vllm.moe(arch, dtype=dtype or "", **layer)


@export.command("vllm-block-fp8")
@click.argument("n", type=int)
@click.argument("k", type=int)
@click.option("--block-shape", type=int, nargs=2, default=(128, 128), help="Shape of the scaled blocks.")
@_for_serving
def vllm_block_fp8(arch: Arch, **layer: Any) -> vllm.ConfigFile:
    """Write the file that vLLM and SGLang look up for a block-scaled fp8 linear layer, N x K."""
    return vllm.block_fp8(arch, **layer)


@per_operator
@as_json
@output_option
@click.option("--python", "as_python", is_flag=True, help="Print a Python function from the size to the configuration.")
@backend_option
@click.option("--measured", is_flag=True, help="Also print the loss in the times that the records hold.")
@click.option("--uniform", is_flag=True, help="Give each size the same weight.  [default: each factor of size]")
@click.option("--over", required=True, metavar="AXIS=FROM:TO", help="The axis that varies, and its range: m=1:8192.")
@click.option("--topk", "-k", "count", type=click.IntRange(1), default=4, help="How many configurations.")
def portfolio(
    template: Template, count: int, over: str, uniform: bool, measured: bool, backend: str | None, as_python: bool,
    output: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Choose a few configurations that cover a range of sizes with least loss. A table says which to use when."""
    if as_python and (as_json or measured):
        other = "--json" if as_json else "--measured"
        raise ConfigError(f"--python and {other} are two answers: ask for one of the two")
    axis, sizes = _range(over)
    assert template.arch is not None
    spread = dict.fromkeys(sizes[:: -max(1, len(sizes) // EVENLY)], 1.0) if uniform else sizes
    found: Portfolio = find_portfolio(template.problem, template.arch, axis, spread, count, backend)
    text = found.to_json() if as_json else found.to_python() if as_python else repr(found)
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
