"""Devices that run kernels, behind one interface: compile, load, launch, time, copy.

    device = open_device("auto")                  # "cuda", "cuda:1", "cpu"
    loaded = device.load(device.compile(program.source), program)
    device.time(lambda: loaded.launch(pointers))

Compiling needs no device, only a compiler, and may run in parallel with anything. PyCUDA and torch are imported when a
device first needs them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..arch import detect
from ..arch.descriptor import Arch
from ..base.dtypes import size_bytes
from ..base.errors import ConfigError, DeviceError
from ..kernels.backends import BACKENDS
from . import cpu, cuda
from .buffers import Array, Buffer, OutOfMemory, decode, encode
from .compile import Binary, Resources, c_compiler, compile_source, cuda_compiler
from .launch import Loaded
from .render import Call, Launcher, Program, Scalar, Source, TensorSpec, concrete, render

__all__ = [
    "Binary", "Buffer", "Call", "Device", "Loaded", "OutOfMemory", "Program", "Resources", "Scalar",
    "Source", "TensorSpec", "c_compiler", "compile_source", "concrete", "cuda_compiler", "decode",
    "encode", "has_source", "lease_name", "open_device", "render",
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
