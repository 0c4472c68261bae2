"""Reports on compiled kernels: Triton functions through `compiled.inspect`, CUDA sources through nvcc or NVRTC."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, overload

from ..arch.descriptor import Arch, blocks_that_fit
from ..arch.devices import load
from ..base.errors import ConfigError
from ..base.given import shown, takes
from ..base.table import several
from ..compiled import inspect as triton
from ..compiled.facts import Facts, code_lines
from ..compiled.machine import Machine, matrix_rates, read_machines
from ..ranking.hint import Hint
from .compile import compile_source, cuda_compiler
from .render import Source, render
from .spec import HintKernel, Kernel, dim3


@dataclass(frozen=True)
class CodeFacts:
    """What is known of one function of a CUDA source on one device. How often its loops run is not known."""

    name: str
    threads: int
    """Of a block."""
    shared_bytes: int
    """Of a block, those that its launch asks for among them."""
    resident: int
    """Blocks that an SM holds; 0 where a block does not fit."""
    machine: Machine

    def __str__(self) -> str:
        return "\n".join(_lines(self))


@overload
def inspect(kernel: Kernel | HintKernel | Hint, *, arch: Arch | str | os.PathLike[str]) -> tuple[CodeFacts, ...]: ...
@overload
def inspect(
    kernel: Any, *, arch: Arch | str | os.PathLike[str], args: Mapping[str, Any], config: Any = ...,
    grid: triton.Grid = ..., constants: Mapping[str, Any] | None = ..., values: Mapping[str, Any] | None = ...,
) -> Facts: ...
@takes(ConfigError, besides="^(kernel|config|grid)$")
def inspect(
    kernel: Any, *, arch: Arch | str | os.PathLike[str], args: Mapping[str, Any] | None = None, config: Any = None,
    grid: triton.Grid = (1,), constants: Mapping[str, Any] | None = None, values: Mapping[str, Any] | None = None,
) -> Facts | tuple[CodeFacts, ...]:  # fmt: skip
    """Compile one configuration of a kernel for one device, which need not be in the machine, and report on the result.

    Takes a `triton.jit` function with its `args`, `config`, `grid`, `constants` and `values`, as `rank_kernel` does.
    Also takes a `carver.Kernel` of CUDA source, or a hint of carver's own CUDA kernels; then each function that is
    launched gives a `CodeFacts`. Raises CompileError if the compiler refuses, DeviceError without a device.
    """
    device = load(arch)
    if isinstance(kernel, Hint):
        kernel = HintKernel(kernel)
    if isinstance(kernel, Kernel) and kernel.is_triton:
        raise ConfigError("give the Triton function of the carver.Kernel itself, with args=, config= and grid=")
    if not isinstance(kernel, Kernel | HintKernel):
        return triton.inspect(
            kernel, args=args or {}, config=config or {}, arch=device, grid=grid, constants=constants, values=values
        )
    if kernel.kind != "cuda":
        raise ConfigError(
            f"{kernel.name} is a {kernel.kind} kernel; inspect takes CUDA sources, and Triton functions with args=, "
            "config= and grid="
        )
    if device.vendor != "nvidia":
        raise ConfigError(f"{kernel.name} is a CUDA source, which is compiled for NVIDIA's GPUs, not {device.title}")
    if given := next((name for name, value in (("args", args), ("config", config)) if value), None):
        raise ConfigError(f"{given}= belongs to Triton functions, got {shown(kernel)}: a source has its defines")
    if isinstance(kernel, HintKernel):
        program = render(kernel.hint, device)
        calls = {call.entry: (prod(call.threads), call.dynamic_smem_bytes) for call in program.calls}
        return _read(program.source, calls, device)
    calls = {kernel.entry: (prod(dim3("block", kernel.block)), int(kernel.shared_bytes))}
    return _read(kernel.compiled_from(device), calls, device)


def _read(source: Source, calls: Mapping[str, tuple[int, int]], arch: Arch) -> tuple[CodeFacts, ...]:
    """`calls`: threads of a block and bytes that the launch adds to its shared memory, by function."""
    binary = compile_source(source, cuda_compiler())
    cubin, held = binary.checked().read_bytes(), binary.resources
    found = []
    for name, (threads, added) in calls.items():
        [machine] = read_machines([cubin], arch.isa, matrix_rates(arch), name)
        shared_bytes = added + (held[name].static_smem_bytes if name in held else 0)
        fitting = blocks_that_fit(arch, -(-threads // arch.warp_size), shared_bytes, machine.registers)
        resident = fitting if threads <= arch.max_threads_per_block else 0
        found.append(CodeFacts(name, threads, shared_bytes, resident, machine))
    return tuple(found)


def _lines(facts: CodeFacts) -> Iterator[str]:
    machine = facts.machine
    spills = f", {machine.spill_bytes} bytes per thread spilled" if machine.spill_bytes else ""
    yield (
        f"{facts.name}: {facts.shared_bytes:,} bytes of shared memory, {machine.registers} registers per thread"
        f"{spills}, {several(facts.threads, 'thread')}, {several(facts.resident, 'block')} per SM"
    )
    loops = [(loop.parent, f"loop {i}, each pass", loop.span) for i, loop in enumerate(machine.loops)]
    asides = [("behind a branch", aside.span) for aside in machine.asides]
    yield from code_lines(loops, [*asides, ("outside of loops", machine.straight)])
