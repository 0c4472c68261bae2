"""Devices that run kernels, behind one interface: compile, load, launch, time, copy.

    device = open_device("auto")                  # "cuda", "cuda:1", "cpu"
    loaded = device.load(device.compile(program.source), program)
    device.time(lambda: loaded.launch(pointers))

Compiling needs no device and may run in parallel with anything. PyCUDA and torch are imported when first needed.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..arch import detect
from ..arch import devices as arch
from ..arch.descriptor import Arch
from ..base.dtypes import size_bytes
from ..base.errors import ConfigError, DeviceError, RunError
from ..base.folders import cores_available, folder
from ..kernels.backends import BACKENDS
from . import compile as compiling
from .buffers import C_TYPES, STORAGE, Array, Buffer, Loaded, OutOfMemory, decode
from .compile import Binary
from .cuda import CudaDevice, lease_of
from .render import CPU_FLAGS, Launcher, Program, Scalar, Source

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
        return CpuDevice() if name == "cpu" else CudaDevice(int(asked[1] or 0))
    found = detect.nvidia_names()
    if not found:
        return CpuDevice()
    try:
        return CudaDevice()
    except DeviceError as e:
        raise DeviceError(f'device "auto" is the {found[0]} of this machine, not its CPU; {e}') from None


def has_source(backend: str) -> bool:
    """Whether its kernels are carver's own, which run on the device of the backend's name."""
    return backend in BACKENDS and bool(BACKENDS[backend].source)


def lease_name(device: str) -> str:
    """`Device.lease` of the device of that name, which is not opened."""
    return CpuDevice.lease if device == "cpu" else lease_of(int(device.partition(":")[2] or 0))


POWERCAP = Path("/sys/class/powercap")
_ALIGN_BYTES = 64
_BASELINE_BYTES = 1 << 22
_POINTER = ctypes.c_void_p


def cores_taken() -> int:
    """How often a thread of this process had to give up its core to another process so far."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


class CpuDevice:
    """This machine's processor. Errors of a kernel are RunError, no room is OutOfMemory. `threads` is how many cores a
    kernel uses; all that this process may, unless said."""

    kind = "cpu"
    lease: str = "cpu"
    """What processes that measure on it take turns by (`carver.base.folders.lease`)."""

    def __init__(self, threads: int | None = None) -> None:
        available = cores_available()
        if threads is not None and not 1 <= threads <= available:
            raise DeviceError(f"threads must be from 1 to the {available} cores of this process, got {threads}")
        whole = arch.CPU("auto")
        self.threads = threads or min(available, whole.sm_count)
        self.arch: Arch = whole
        self.name = f"{whole.title} ({self.threads} threads)"
        self._eviction_bytes = max(2 * (whole.l2_bytes + whole.l3_bytes), _BASELINE_BYTES)
        self._timed = self._disturbed = 0

    def compile(self, source: Source) -> Binary:
        return compiling.compile_source(source, compiling.c_compiler())

    def load(self, binary: Binary, program: Program) -> Loaded:
        return Loaded(program, {}, self.launcher(binary, program, program.given))

    def launcher(self, binary: Binary, program: Program, names: Sequence[str]) -> Launcher:
        """Loads the program for good, for calls with arguments in the order of `names`, ready to be repeated."""
        library = _open(binary)
        calls = []
        for call in program.calls:
            try:
                function = getattr(library, call.entry)
            except AttributeError:
                raise RunError(f"{program.source.path.name} defines no function {call.entry!r}") from None
            function.restype = None
            function.argtypes = [
                C_TYPES[a.kind] if isinstance(a, Scalar) else ctypes.c_int64 if isinstance(a, int) else _POINTER
                for a in call.args
            ]
            named = [arg.value if isinstance(arg, Scalar) else arg for arg in call.args]
            fixed = [None if isinstance(arg, str) else arg or 0 for arg in named]
            given = [(i, names.index(arg)) for i, arg in enumerate(named) if isinstance(arg, str)]
            calls.append((function, fixed, given))
        set_threads = getattr(library, "omp_set_num_threads", None)  # absent where a kernel uses no OpenMP

        def launch(values: Sequence[Any], stream: int = 0) -> None:
            if set_threads:
                set_threads(self.threads)
            for function, fixed, places in calls:
                args = fixed.copy()
                for i, place in places:
                    args[i] = values[place]
                function(*args)

        return launch

    def empty(self, shape: tuple[int, ...], dtype: str) -> Buffer:
        size = size_bytes(shape, dtype)
        try:
            owner = np.empty(size + _ALIGN_BYTES, np.uint8)
        except MemoryError as e:
            raise OutOfMemory(f"no room for {size} bytes: {e}") from None
        start = -owner.ctypes.data % _ALIGN_BYTES
        dense = owner[start : start + size].view(STORAGE[dtype]).reshape(shape)
        return Buffer(dense.ctypes.data, shape, dtype, dense)

    def part(self, whole: Buffer, start_bytes: int, shape: tuple[int, ...], dtype: str) -> Buffer:
        """An array within a buffer, which it keeps allocated."""
        view = whole.owner.reshape(-1).view(np.uint8)[start_bytes : start_bytes + size_bytes(shape, dtype)]
        return Buffer(whole.pointer + start_bytes, shape, dtype, view.view(STORAGE[dtype]).reshape(shape))

    def write(self, buffer: Buffer, stored: Array) -> None:
        """Stored bits into memory that is there."""
        buffer.owner[...] = stored

    def stored(self, buffer: Buffer) -> Array:
        """The stored bits, on the CPU where they lie."""
        whole: Array = buffer.owner
        return whole

    def download(self, buffer: Buffer) -> Array:
        """The values; bfloat16 and 8-bit floats as float32."""
        return decode(buffer.owner.copy(), buffer.dtype)

    def fill(self, buffer: Buffer, byte: int) -> None:
        """Every byte set; 0xFF is NaN in every float type and -1 in the integers."""
        ctypes.memset(buffer.pointer, byte, buffer.size_bytes)

    def synchronize(self) -> None:
        """Nothing to wait for: kernels return when they are done."""

    def time(
        self, run: Callable[[], None], repeats: int = 1, *, cold: bool = True, rest_s: float = 0.0,
        timer: str = "events",
    ) -> list[float]:  # fmt: skip
        """Wall time of each of `repeats` runs, caches emptied before each when `cold`. [s]

        Before each it rests for `rest_s`, until threads that wait for more work by spinning have gone to sleep. Runs
        during which the system took a core away are left out, unless all were (`disturbed_percent`).
        """
        flush: Callable[[], None] = partial(self._stream, self._eviction_bytes) if cold else lambda: None
        samples, calm = [], []
        for _ in range(repeats):
            flush()
            time.sleep(rest_s)
            taken, began = cores_taken(), time.perf_counter_ns()
            run()
            samples.append((time.perf_counter_ns() - began) * 1e-9)
            if cores_taken() == taken:
                calm.append(samples[-1])
        self._timed += len(calm or samples)
        self._disturbed += 0 if calm else len(samples)
        return calm or samples

    def energy_j(self) -> float | None:
        """Of all packages, from the counters of Linux' powercap; None where this user may not read them. [J]"""
        zones = sorted(POWERCAP.glob("intel-rapl:?"))
        packages = [z for z in zones if detect.text_at(z / "name").startswith("package")]  # "psys" holds them again
        said = [detect.text_at(package / "energy_uj") for package in packages]
        return sum(map(int, said)) * 1e-6 if said and all(said) else None

    def baseline_s(self) -> float:
        """Of a pass over `_BASELINE_BYTES` on all cores, the best of five: what it takes longer, others take. [s]"""
        samples, stream = [], self._stream
        for _ in range(5):
            began = time.perf_counter_ns()
            stream(_BASELINE_BYTES)
            samples.append((time.perf_counter_ns() - began) * 1e-9)
        return min(samples)

    @cached_property
    def _stream(self) -> Callable[[int], None]:
        """Reads and writes so many bytes: twice what all caches hold, on all cores, which empties private ones too."""
        source = Source(folder("templates") / "common" / "flush.c", {}, CPU_FLAGS, ("carver_flush",), "native")
        library = _open(self.compile(source))
        buffer = np.zeros(self._eviction_bytes, np.uint8)
        library.carver_flush.argtypes = [_POINTER, ctypes.c_int64]

        def stream(bytes_: int) -> None:
            library.omp_set_num_threads(self.threads)
            library.carver_flush(buffer.ctypes.data, bytes_)

        return stream

    def state(self) -> dict[str, Any]:
        """What can change a measurement; what the system does not tell is left out."""
        cpu, zone = Path("/sys/devices/system/cpu/cpu0/cpufreq"), Path("/sys/class/thermal/thermal_zone0")
        said: dict[str, Any] = {
            "threads": self.threads,
            "compiler": compiling.c_compiler().version,
            "system": platform.platform(),
            "load_1min": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
            "governor": detect.text_at(cpu / "scaling_governor") or None,
            "clock_hz": int(khz) * 1000 if (khz := detect.text_at(cpu / "scaling_cur_freq")) else None,
            "temperature_c": int(milli) / 1000 if (milli := detect.text_at(zone / "temp")) else None,
        }
        return {name: value for name, value in said.items() if value is not None}

    def disturbed_percent(self) -> float | None:
        """Of the times since the last call, those of runs that lost a core; None if there were none."""
        percent = round(100 * self._disturbed / self._timed) if self._timed else None
        self._timed = self._disturbed = 0
        return percent


Device: TypeAlias = CpuDevice | CudaDevice


def _open(binary: Binary) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(binary.checked()))
    except OSError as e:
        raise RunError(f"{binary.path.name} does not load: {e}") from None
