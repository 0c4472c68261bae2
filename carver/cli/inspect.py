"""`carver inspect FILE.py:NAME`: compile one configuration of a kernel for a device, and say what came out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np

from ..base.errors import ConfigError, DeviceError, KernelError
from ..base.given import shown, text_of, toml_of
from ..compiled.arguments import Descriptor, Tensor
from ..compiled.worker import kernel_at
from ..kernels import expr
from ..ranking.kernel import Call
from ..run.inspected import inspect
from ..run.spec import Kernel
from .operators import arch_option, device
from .options import args_option, as_json, config_option, print_json


@click.command("inspect")
@click.argument("kernel", metavar="FILE.py:NAME|FILE.cu:NAME")
@args_option
@config_option("Values of the tunables, or macros of a CUDA source")
@click.option("--block", default=256, help="Threads per block of a CUDA source.")
@arch_option
@as_json
def inspect_command(
    kernel: str, path: Path | None, config: dict[str, Any] | None, block: int, arch: str, as_json: bool
) -> None:
    """Compile one configuration of a kernel and print what the machine code contains. The kernel is a Triton function,
    FILE.py:NAME, or a function of a CUDA source, FILE.cu:NAME. The device need not be in the machine.

    Prints shared memory, registers, spills and blocks per SM, and for each loop how often a program runs it, its
    instructions by pipe, its bytes, and the time of a single warp. A file of arguments, for a Triton kernel:

    \b
        grid = ["ceil(M, BLOCK_M) * ceil(N, BLOCK_N)"]
        [args]
        M = 4096
        a = {dtype = "float16", shape = [4096, 4096]}
        [constants]
        GROUP_M = 8
        [values]
        B_Seqlen = 2048
    """
    if kernel.endswith((".cu", ".cuh")):
        raise ConfigError(f"{kernel!r}: write FILE.cu:NAME, a source and a kernel in it")
    source, _, entry = kernel.rpartition(":")
    if source.endswith((".cu", ".cuh")):
        found = inspect(Kernel(Path(source), entry, block=block, defines=config or {}), arch=device(arch))
        print_json([asdict(each) for each in found]) if as_json else click.echo("\n".join(map(str, found)))
        return
    call = call_of(kernel, path)
    assert isinstance(call.args, Mapping)
    facts = inspect(
        call.kernel, args=call.args, config=config or {}, arch=device(arch), grid=call.grid,
        constants=call.constants, values=call.values,
    )  # fmt: skip
    print_json(asdict(facts)) if as_json else click.echo(str(facts))


def call_of(kernel: str, path: Path | None) -> Call:
    """The kernel FILE.py:NAME and how the file of arguments says it is called. Raises ConfigError."""
    if path is None:
        raise ConfigError("--args FILE says what a Triton kernel is called with; see carver inspect --help")
    given = _arguments(path)
    if find_spec("triton") is None and Path(kernel.rpartition(":")[0]).is_file():
        raise DeviceError("no Triton, which compiles the kernel, for any GPU and without one: pip install triton")

    def grid(known: Mapping[str, Any]) -> tuple[int, ...]:
        numbers = {name: value for name, value in known.items() if isinstance(value, int | float)}
        return tuple(_extent(each, numbers) for each in given["grid"])

    return Call(kernel_at(kernel), given["args"], grid, given["constants"], given["values"])


def _arguments(path: Path) -> dict[str, Any]:
    read = toml_of(text_of(path, ConfigError), path, ConfigError)
    _check_keys(path, read, "grid", "args", "constants", "values")
    grid = read.get("grid", [1])
    tables = {name: read.get(name, {}) for name in ("args", "constants", "values")}
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            raise ConfigError(f"{path}: [{name}] is a table of names and values, got {shown(table)}")
    return {
        "grid": grid if isinstance(grid, list) else [grid],
        "args": {name: _argument(name, value) for name, value in tables["args"].items()},
        "constants": tables["constants"],
        "values": {n: np.array(v) if isinstance(v, list) else v for n, v in tables["values"].items()},
    }


def _check_keys(what: object, given: Mapping[str, Any], *known: str) -> None:
    if unknown := given.keys() - set(known):
        raise ConfigError(f"{what}: unknown key {min(unknown)!r}; known: {', '.join(known)}")


def _argument(name: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    _check_keys(f"argument {name!r}", value, "dtype", "shape", "strides", "block_shape")
    if "dtype" not in value or "shape" not in value:
        raise ConfigError(f"argument {name!r}: a tensor has dtype and shape, and may have strides and block_shape")
    try:
        tensor = Tensor(value["dtype"], value["shape"], value.get("strides", ()))
        return Descriptor(tensor, value["block_shape"]) if "block_shape" in value else tensor
    except ConfigError as error:
        raise ConfigError(f"argument {name!r}: {error}") from None


def _extent(given: Any, numbers: Mapping[str, Any]) -> int:
    if isinstance(given, int):
        return given
    if not isinstance(given, str):
        raise ConfigError(f"grid: an extent is a whole number or an expression like 'ceil(M, BLOCK_M)', got {given!r}")
    try:
        parsed = expr.parse(given)
    except KernelError as error:
        raise ConfigError(f"grid: {error}") from None
    if missing := sorted(parsed.names - numbers.keys()):
        raise ConfigError(f"grid {given!r}: {missing[0]} is no number among args, constants and --config")
    return int(parsed(numbers))
