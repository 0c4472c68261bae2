"""From a kernel and its arguments to facts: specialise, compile (or fetch from disk), evaluate, match."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from ..arch.descriptor import Arch
from ..base.errors import CompileError
from . import pool
from .arguments import Descriptor, given
from .facts import Facts, gathered
from .footprint import Touched, sizes_of
from .forks import Forks
from .machine import Machine, matrix_rates
from .program import evaluate
from .run import Run
from .triton import Specialised, Target, cache_key, function_of, grid_of, plain_config, specialise
from .worker import request

Grid = tuple[int, ...] | Callable[[dict[str, Any]], tuple[int, ...]]


@dataclass(frozen=True)
class Asked:
    """One configuration, bound to the kernel's parameters."""

    config: Mapping[str, Any]
    given: Specialised
    grid: tuple[int, int, int]
    args: tuple[tuple[str, Any], ...]
    """Arguments that are no constants, in order."""
    key: str
    """Equal for configurations that compile to the same code."""


def asked(
    kernel: Any, config: Any, args: Mapping[str, Any], grid: Grid, arch: Arch,
    constants: Mapping[str, Any] | None = None,
) -> Asked:  # fmt: skip
    """Bind a configuration. Raises ConfigError for what does not fit the kernel's parameters."""
    target = Target.of(arch)
    plain = plain_config(config)
    given = specialise(kernel, args, constants or {}, plain, target)
    known = {**args, **(constants or {}), **plain, **given.constants}
    names = function_of(kernel).arg_names
    rest = tuple((name, known.get(name)) for name in names if given.signature[name] != "constexpr")
    key = sha256(f"{cache_key(kernel, given, target)} {matrix_rates(arch)}".encode()).hexdigest()
    return Asked(plain, given, grid_of(grid, known), rest, key)


def facts_of(
    kernel: Any, wanted: Sequence[Asked], arch: Arch, values: Mapping[str, Any] | None = None, **bounds: Any
) -> list[Facts | CompileError]:
    """Facts of each configuration, or why it has none. `bounds`: as `pool.compiled` takes them.

    A pool of `Forks` is of the same list.
    """
    copies = bounds.get("pool")
    requests = {
        each.key: copies.request(i, len(wanted), arch)
        if isinstance(copies, Forks)
        else request(kernel, each.given, arch)
        for i, each in enumerate(wanted)
    }
    replies = pool.compiled(requests, arch.isa, matrix_rates(arch), **bounds)
    machines: dict[str, Machine] = {}
    runs: dict[str, tuple[Run, Touched]] = {}
    found: list[Facts | CompileError] = []
    for each in wanted:
        reply = replies[each.key]
        if "refused" in reply:
            found.append(CompileError(reply["refused"]))
            continue
        if each.key not in machines:
            machines[each.key] = Machine.from_json(reply["machine"])
        # configurations that differ in warps and stages alone are one program
        program = sha256(repr((reply["ttir"], each.grid, each.args)).encode()).hexdigest()
        if program not in runs:
            given = [(name, _evaluated(value)) for name, value in each.args]
            run = evaluate(reply["ttir"], given, each.grid, values)
            runs[program] = run, Touched.of(run, sizes_of(each.args))
        shape = {name: reply[name] for name in ("warps", "ctas", "shared_bytes")}
        code = sha256(repr(sorted(reply["code"].items())).encode()).hexdigest()
        found.append(gathered(machines[each.key], *runs[program], arch, **shape, code=code))
    return found


def _evaluated(value: Any) -> Any:
    return (value.tensor.shape, value.tensor.strides) if isinstance(value, Descriptor) else value


def inspect(
    kernel: Any, *, args: Mapping[str, Any], config: Any, arch: Arch, grid: Grid = (1,),
    constants: Mapping[str, Any] | None = None, values: Mapping[str, Any] | None = None,
) -> Facts:  # fmt: skip
    """Compile one configuration of a kernel for one device, and say what came out. Raises CompileError if refused."""
    known = {name: given(value) for name, value in args.items()}
    [facts] = facts_of(kernel, [asked(kernel, config, known, grid, arch, constants)], arch, values)
    if isinstance(facts, CompileError):
        raise facts
    return facts
