"""The CPU of this machine: kernels in C, compiled by the system's compiler and loaded with ctypes."""

from __future__ import annotations

import ctypes
import os
import platform
import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from ..arch import devices as arch
from ..arch.descriptor import Arch
from ..base.dtypes import size_bytes
from ..base.errors import DeviceError, RunError
from ..base.host import cores_available
from ..base.shipped import folder
from . import compile as compiling
from .buffers import STORAGE, Array, Buffer, OutOfMemory, decode
from .compile import Binary
from .launch import C_TYPES, Loaded
from .render import CPU_FLAGS, Launcher, Program, Scalar, Source

POWERCAP = Path("/sys/class/powercap")
_ALIGN_BYTES = 64
_BASELINE_BYTES = 1 << 22
_POINTER = ctypes.c_void_p


def _launcher(library: ctypes.CDLL, program: Program, names: Sequence[str], threads: int) -> Launcher:
    """The calls of a program for arguments in the order of `names`, ready to be repeated."""
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
            set_threads(threads)
        for function, fixed, places in calls:
            args = fixed.copy()
            for i, place in places:
                args[i] = values[place]
            function(*args)

    return launch


def cores_taken() -> int:
    """How often a thread of this process had to give up its core to another process so far."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


class CpuDevice:
    """`threads` is how many cores a kernel uses; all that this process may, unless said."""

    kind = "cpu"
    lease: str = "cpu"

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
        return _launcher(_open(binary), program, names, self.threads)

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
        view = whole.owner.reshape(-1).view(np.uint8)[start_bytes : start_bytes + size_bytes(shape, dtype)]
        return Buffer(whole.pointer + start_bytes, shape, dtype, view.view(STORAGE[dtype]).reshape(shape))

    def write(self, buffer: Buffer, stored: Array) -> None:
        buffer.owner[...] = stored

    def stored(self, buffer: Buffer) -> Array:
        whole: Array = buffer.owner
        return whole

    def download(self, buffer: Buffer) -> Array:
        return decode(buffer.owner.copy(), buffer.dtype)

    def fill(self, buffer: Buffer, byte: int) -> None:
        ctypes.memset(buffer.pointer, byte, buffer.size_bytes)

    def synchronize(self) -> None:
        """Nothing to wait for: kernels return when they are done."""

    def time(
        self, run: Callable[[], None], repeats: int = 1, *, cold: bool = True, rest_s: float = 0.0,
        timer: str = "events",
    ) -> list[float]:  # fmt: skip
        """Wall time of each of `repeats` runs, caches emptied before each when `cold`. [s]

        Runs during which the system took a core away are left out, unless that befell them all, which
        `disturbed_percent` tells.
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
        """Of all packages, from the counters of Linux' powercap."""
        zones = sorted(POWERCAP.glob("intel-rapl:?"))
        packages = [zone for zone in zones if _text(f"{zone}/name").startswith("package")]  # "psys" holds them again
        said = [_text(f"{package}/energy_uj") for package in packages]
        return sum(map(int, said)) * 1e-6 if said and all(said) else None

    def baseline_s(self) -> float:
        """Of a pass over `_BASELINE_BYTES` on all cores, the best of five. [s]"""
        samples, stream = [], self._stream
        for _ in range(5):
            began = time.perf_counter_ns()
            stream(_BASELINE_BYTES)
            samples.append((time.perf_counter_ns() - began) * 1e-9)
        return min(samples)

    @cached_property
    def _stream(self) -> Callable[[int], None]:
        """Reads and writes so many bytes; twice what all caches hold, on all the cores, so that private ones empty
        too."""
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
        cpu = "/sys/devices/system/cpu/cpu0/cpufreq"
        said: dict[str, Any] = {
            "threads": self.threads,
            "compiler": compiling.c_compiler().version,
            "system": platform.platform(),
            "load_1min": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
            "governor": _text(f"{cpu}/scaling_governor") or None,
            "clock_hz": int(khz) * 1000 if (khz := _text(f"{cpu}/scaling_cur_freq")) else None,
            "temperature_c": int(milli) / 1000 if (milli := _text("/sys/class/thermal/thermal_zone0/temp")) else None,
        }
        return {name: value for name, value in said.items() if value is not None}

    def disturbed_percent(self) -> float | None:
        """Of the times since the last call, those of runs that lost a core; None if there were none."""
        percent = round(100 * self._disturbed / self._timed) if self._timed else None
        self._timed = self._disturbed = 0
        return percent


def _open(binary: Binary) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(binary.checked()))
    except OSError as e:
        raise RunError(f"{binary.path.name} does not load: {e}") from None


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
