"""Devices that run kernels, behind one interface: compile, load, launch, time, copy.

    device = open_device("auto")                  # "cuda", "cuda:1", "cpu"
    kernel = compile_hint(hint, device)
    c = kernel(a, b)                              # torch tensors, PyCUDA arrays, NumPy arrays on the CPU

Compiling needs no device, only a compiler, and may run in parallel with anything. PyCUDA and torch are imported when a
device first needs them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ..arch import detect
from ..arch.descriptor import Arch
from ..base.dtypes import size_bytes
from ..base.errors import ConfigError, DeviceError, RunError
from ..kernels.backends import BACKENDS
from ..ranking.hint import Hint
from . import cpu, cuda
from .buffers import Array, Buffer, OutOfMemory, address, decode, empty_like, encode
from .compile import Binary, Resources, c_compiler, compile_source, cuda_compiler
from .launch import Loaded
from .render import Call, Launcher, Program, Scalar, Source, TensorSpec, concrete, render

__all__ = [
    "Binary", "Buffer", "Call", "CompiledKernel", "Device", "Loaded", "OutOfMemory", "Program", "Resources", "Scalar",
    "Source", "TensorSpec", "c_compiler", "compile_hint", "compile_source", "concrete", "cuda_compiler", "decode",
    "encode", "has_source", "lease_name", "open_device", "prepare", "render",
]  # fmt: skip


class Device(Protocol):
    """What a benchmark needs of a machine. Errors of a kernel are RunError, no room is OutOfMemory."""

    kind: str
    name: str
    arch: Arch

    @property
    def lease(self) -> str:
        """What processes that measure on it take turns by (`carver.base.folders.lease`)."""

    def compile(self, source: Source) -> Binary: ...

    def load(self, binary: Binary, program: Program) -> Loaded: ...

    def launcher(self, binary: Binary, program: Program, names: Sequence[str]) -> Launcher:
        """Loads the program for good, for calls with arguments in the order of `names`."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Buffer: ...

    def part(self, whole: Buffer, start_bytes: int, shape: tuple[int, ...], dtype: str) -> Buffer:
        """An array within a buffer, which it keeps allocated."""

    def write(self, buffer: Buffer, stored: Array) -> None:
        """Stored bits into memory that is there."""

    def stored(self, buffer: Buffer) -> Array:
        """The stored bits, on the CPU where they lie."""

    def download(self, buffer: Buffer) -> Array:
        """The values; bfloat16 and 8-bit floats as float32."""

    def fill(self, buffer: Buffer, byte: int) -> None:
        """Every byte set; 0xFF is NaN in every float type and -1 in the integers."""

    def synchronize(self) -> None: ...

    def time(
        self, run: Callable[[], None], repeats: int = 1, *, cold: bool = True, rest_s: float = 0.0,
        timer: str = "events",
    ) -> list[float]:  # fmt: skip
        """Device time of each of `repeats` runs; caches are emptied before each when `cold`. [s]

        A CPU rests for `rest_s` before each, until threads that wait for more work by spinning have gone to sleep.
        """

    def state(self) -> dict[str, Any]:
        """What can change a measurement: clocks, temperature, driver, governor."""

    def baseline_s(self) -> float:
        """Time of a kernel of carver's own, always the same: what it takes longer than before, others take. [s]"""

    def energy_j(self) -> float | None:
        """What a counter of the device's energy says; None where there is none that this user may read. [J]"""

    def disturbed_percent(self) -> float | None:
        """Of the times since the last call, those of runs that lost a core to others; None where no device can tell."""


CANARY, MARGIN_BYTES = 0xA5, 4096
"""The byte before and behind every array that candidates run on, and how many of it."""


class Guarded:
    """An array on a device between two margins, which nobody has a reason to write to."""

    def __init__(self, device: Device, shape: tuple[int, ...], dtype: str) -> None:
        self._device = device
        size = size_bytes(shape, dtype)
        self._whole = device.empty((size + 2 * MARGIN_BYTES,), "uint8")
        self.buffer = device.part(self._whole, MARGIN_BYTES, shape, dtype)
        margin = (MARGIN_BYTES,)
        self._margins = [device.part(self._whole, at, margin, "uint8") for at in (0, MARGIN_BYTES + size)]
        self.restore()

    def restore(self) -> None:
        for margin in self._margins:
            self._device.fill(margin, CANARY)

    def is_intact(self) -> bool:
        return all(bool((self._device.stored(m) == CANARY).all()) for m in self._margins)


def open_device(name: str = "auto") -> Device:
    """The device called "cuda", "cuda:1" or "cpu"; "auto" is the first NVIDIA GPU, or the CPU where there is none.

    Raises DeviceError where there is a GPU that cannot be used: for the CPU of such a machine, say "cpu".
    """
    asked = re.fullmatch(r"auto|cpu|cuda(?::(\d+))?", name)
    if asked is None:
        raise ConfigError(f"no device {name!r}; write 'auto', 'cpu', 'cuda' or 'cuda:1'")
    if name != "auto":
        return cpu.CpuDevice() if name == "cpu" else cuda.CudaDevice(int(asked[1] or 0))
    found = detect.nvidia_names()
    if not found:
        return cpu.CpuDevice()
    try:
        return cuda.CudaDevice()
    except DeviceError as e:
        raise DeviceError(f'device "auto" is the {found[0]} of this machine, not its CPU; {e}') from None


def has_source(backend: str) -> bool:
    """Whether its kernels are carver's own, which run on the device of the backend's name."""
    return backend in BACKENDS and bool(BACKENDS[backend].source)


def lease_name(device: str) -> str:
    """`Device.lease` of the device of that name, which is not opened."""
    return cpu.CpuDevice.lease if device == "cpu" else cuda.lease_of(int(device.partition(":")[2] or 0))


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel ready to call: `c = kernel(a, b)`, or `kernel(a, b, c)` to write into an array that is there.

    A batch of one may be left out: a matmul takes [m, k] and [k, n] as well, and then gives [m, n].
    """

    program: Program
    binary: Binary
    device: Device
    loaded: Loaded
    workspace: Buffer | None

    @property
    def source(self) -> Source:
        return self.program.source

    @property
    def registers(self) -> int | None:
        """The most that any entry uses. [registers per thread]"""
        return max((r.registers for r in self.loaded.resources.values()), default=None)

    @property
    def smem_bytes(self) -> int:
        """The most that a block of any launch uses, static and dynamic together."""
        static = {entry: r.static_smem_bytes for entry, r in self.loaded.resources.items()}
        return max((call.dynamic_smem_bytes + static.get(call.entry, 0) for call in self.program.calls), default=0)

    def pointers(self, *tensors: object) -> dict[str, int]:
        """Checked addresses of the inputs in order and the output, as `loaded.launch` takes them."""
        specs = self.program.tensors
        found = {
            spec.name: address(t, spec, self.device.kind, writes=spec is self.program.output)
            for spec, t in zip(specs, tensors, strict=True)
        }
        return found | {"workspace": self.workspace.pointer if self.workspace else 0}

    def __call__(self, *tensors: Any) -> Any:
        inputs = len(self.program.inputs)
        if len(tensors) not in (inputs, inputs + 1):
            names = ", ".join(t.name for t in self.program.inputs)
            raise RunError(f"takes {names} and, if you like, {self.program.output.name}; got {len(tensors)} arrays")
        if len(tensors) == inputs:
            output = self.program.output
            given = zip(self.program.inputs, tensors, strict=True)
            fewer = max(len(spec.shape) - len(getattr(t, "shape", spec.shape)) for spec, t in given)
            if fewer > 0 and set(output.shape[:fewer]) == {1}:
                output = replace(output, shape=output.shape[fewer:])
            made = empty_like(tensors, output)
            tensors = (*tensors, self.device.empty(output.shape, output.dtype) if made is None else made)
        self.loaded.launch(self.pointers(*tensors))
        return tensors[-1]


def prepare(program: Program, device: Device) -> CompiledKernel:
    """Compile, load, and allocate what the program needs between its launches."""
    binary = device.compile(program.source)
    workspace = device.empty((program.workspace_bytes,), "int8") if program.workspace_bytes else None
    return CompiledKernel(program, binary, device, device.load(binary, program), workspace)


def compile_hint(hint: Hint, device: Device | str = "auto", defines: Mapping[str, str] | None = None) -> CompiledKernel:
    """The kernel of a hint, for a device that is here. `defines` adds macros, such as an elementwise EXPRESSION."""
    if device == "auto" and has_source(hint.backend):
        device = hint.backend
    opened = open_device(device) if isinstance(device, str) else device
    if hint.backend != opened.kind:
        raise DeviceError(f"a hint for the backend {hint.backend!r} cannot run on {opened.name} ({opened.kind})")
    return prepare(render(hint, opened.arch, defines), opened)
