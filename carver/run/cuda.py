"""An NVIDIA GPU through PyCUDA, in the primary context, which torch uses too.

One device a process: its context is made current when it is opened. Kernels run on the default stream, so they are
ordered with torch's default stream without further ado.
"""

from __future__ import annotations

import atexit
import csv
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cached_property
from typing import Any

import numpy as np

from ..arch import detect
from ..arch import devices as arch
from ..arch.descriptor import Arch
from ..base.dtypes import size_bytes
from ..base.errors import DeviceError, RunError
from . import compile as compiling
from . import launch
from .buffers import STORAGE, Array, Buffer, OutOfMemory, decode
from .compile import Binary
from .render import Launcher, Program, Source
from .timers import by_run, stamped

_INSTEAD = 'or ask for device="cpu", with hints for a CPU'

_NON_BLOCKING = 1
"""CUstream_flags in cuda.h: of a stream that does not wait for the default one, which cannot be captured."""
_SMI_TIMEOUT_S = 10.0
_SMI_FIELDS = {
    "clocks.sm": ("sm_clock_hz", 1e6),
    "clocks.mem": ("memory_clock_hz", 1e6),
    "clocks.max.sm": ("sm_clock_max_hz", 1e6),
    "temperature.gpu": ("temperature_c", 1.0),
    "power.draw": ("power_w", 1.0),
    "clocks_throttle_reasons.active": ("throttle_reasons", None),
    "driver_version": ("driver", None),
}
"""What nvidia-smi calls a quantity, our name for it, and its unit in SI; None for text."""


def _driver() -> Any:
    try:
        from pycuda import driver
    except ImportError as e:
        reason = f"PyCUDA cannot be imported ({e}); pip install pycuda, {_INSTEAD}"
        raise DeviceError(f"no NVIDIA GPU can be used here: {reason}") from None
    try:
        driver.init()
    except driver.Error as e:
        reason = f"CUDA does not start ({e}); see to the driver, {_INSTEAD}"
        raise DeviceError(f"no NVIDIA GPU can be used here: {reason}") from None
    return driver


def lease_of(ordinal: int) -> str:
    """By the GPU's UUID: ordinals depend on CUDA_VISIBLE_DEVICES."""
    return f"gpu {detect.cuda_uuid(ordinal)}"


def device_count() -> int:
    """GPUs that PyCUDA can use here; 0 without it, or without a driver."""
    try:
        return int(_driver().Device.count())
    except DeviceError:
        return 0


@contextmanager
def _errors(driver: Any, what: str) -> Iterator[None]:
    """The driver's errors as ours. After an illegal access every further call fails: only a new process helps."""
    try:
        yield
    except driver.MemoryError as e:
        raise OutOfMemory(f"{what}: {e}") from None
    except driver.Error as e:
        raise RunError(f"{what}: {e}") from None


class CudaDevice:
    kind = "cuda"

    def __init__(self, ordinal: int = 0) -> None:
        self._driver = driver = _driver()
        if ordinal >= driver.Device.count():
            raise DeviceError(f"no device cuda:{ordinal}; this machine has {driver.Device.count()}")
        self._ordinal, self._device = ordinal, driver.Device(ordinal)
        self.name: str = self._device.name()
        self.arch: Arch = arch.CUDA(f"cuda:{ordinal}")
        with _errors(driver, f"opening {self.name}"):
            self._context = self._device.retain_primary_context()
            self._context.push()
        atexit.register(self._context.pop)
        self._stream = 0  # where programs launch, the driver's handle; 0 is the default one

    @property
    def lease(self) -> str:
        return lease_of(self._ordinal)

    def compile(self, source: Source) -> Binary:
        return compiling.compile_source(source, compiling.cuda_compiler())

    def load(self, binary: Binary, program: Program) -> launch.Loaded:
        run = self.launcher(binary, program, program.given)
        used = launch.resources(binary, program, self._ordinal)
        return launch.Loaded(program, used, lambda values: run(values, self._stream))

    def launcher(self, binary: Binary, program: Program, names: Sequence[str]) -> Launcher:
        return launch.launcher(binary, program, names, self._ordinal)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Buffer:
        size = size_bytes(shape, dtype)
        with _errors(self._driver, f"allocating {size} bytes on {self.name}"):
            owner = self._driver.mem_alloc(max(size, 1))
        return Buffer(int(owner), shape, dtype, owner)

    def part(self, whole: Buffer, start_bytes: int, shape: tuple[int, ...], dtype: str) -> Buffer:
        return Buffer(whole.pointer + start_bytes, shape, dtype, whole.owner)

    def write(self, buffer: Buffer, stored: Array) -> None:
        with _errors(self._driver, "copying to the device"):
            self._driver.memcpy_htod(buffer.pointer, np.ascontiguousarray(stored))

    def stored(self, buffer: Buffer) -> Array:
        stored = np.empty(buffer.shape, STORAGE[buffer.dtype])
        with _errors(self._driver, "copying from the device"):
            self._driver.memcpy_dtoh(stored, buffer.pointer)
        return stored

    def download(self, buffer: Buffer) -> Array:
        return decode(self.stored(buffer), buffer.dtype)

    def fill(self, buffer: Buffer, byte: int) -> None:
        with _errors(self._driver, "filling a buffer"):
            self._driver.memset_d8(buffer.pointer, byte, buffer.size_bytes)

    def synchronize(self) -> None:
        with _errors(self._driver, "running kernels"):
            self._context.synchronize()

    def time(
        self, run: Callable[[], None], repeats: int = 1, *, cold: bool = True, rest_s: float = 0.0,
        timer: str = "events",
    ) -> list[float]:  # fmt: skip
        """Time between events around each of `repeats` runs, L2 overwritten before each when `cold`. [s]

        With the timer "graph" a run is the launch of a CUDA graph of what it launches on a stream of its own, torch's
        current one included; with "cupti" its time is from the start of its first kernel to the end of its last.

        Nothing waits between the runs: while the GPU overwrites L2, the host has time to queue what comes next, so
        that the events enclose the kernels and not the launches. Where it is to stay warm, all of this comes first.
        """
        event, room = self._driver.Event, self._eviction
        on: tuple[Any, ...] = ()
        stamps: list[tuple[int, int]] = []
        with _errors(self._driver, "timing"), ExitStack() as stack:
            if timer == "graph":
                on = (self._driver.Stream(_NON_BLOCKING),)
                run = stack.enter_context(self._captured(run, int(on[0].handle)))
            elif timer == "cupti":
                stamps = stack.enter_context(stamped())
            pairs = [(event(), event()) for _ in range(repeats)]
            for _ in range(0 if cold else repeats):
                self._driver.memset_d8_async(room.owner, 0, room.size_bytes, *on)
            if not cold:
                run()
            for index, (began, ended) in enumerate(pairs):
                if cold:
                    self._driver.memset_d8_async(room.owner, index & 0xFF, room.size_bytes, *on)
                began.record(*on)
                run()
                ended.record(*on)
            self._context.synchronize()
        if timer == "cupti":
            return by_run(stamps, repeats + (not cold))[not cold :]
        with _errors(self._driver, "timing"):
            return [ended.time_since(began) * 1e-3 for began, ended in pairs]

    @contextmanager
    def _captured(self, run: Callable[[], None], stream: int) -> Iterator[Callable[[], None]]:
        torch: Any = sys.modules.get("torch")
        theirs = torch is not None and torch.cuda.is_available()
        self._context.synchronize()  # what was written to the default stream

        def there() -> None:
            self._stream = stream
            try:
                with torch.cuda.stream(torch.cuda.ExternalStream(stream)) if theirs else nullcontext():
                    run()
            finally:
                self._stream = 0

        with launch.captured(there, stream) as launched:
            yield launched

    def energy_j(self) -> float | None:
        """From NVML, since the driver was loaded; Volta and later."""
        return launch.energy_j(detect.cuda_uuid(self._ordinal))

    def baseline_s(self) -> float:
        """Of overwriting L2 twice, the best of five. [s]"""
        room = self._eviction
        return min(self.time(lambda: self._driver.memset_d8_async(room.owner, 0, room.size_bytes), 5, cold=False))

    @cached_property
    def _eviction(self) -> Buffer:
        """Twice the size of L2, so that writing it leaves nothing else there."""
        return self.empty((2 * self.arch.l2_bytes,), "int8")

    def state(self) -> dict[str, Any]:
        """Clocks, temperature, power and driver from nvidia-smi; where it is not installed, the versions only."""
        said: dict[str, Any] = {
            "cuda": ".".join(map(str, self._driver.get_version())),
            "cuda_driver_version": self._driver.get_driver_version(),
        }
        program = shutil.which("nvidia-smi")
        if program is None:
            return said
        query = [f"--query-gpu={','.join(_SMI_FIELDS)}", "--format=csv,noheader,nounits"]
        try:
            done = subprocess.run(
                [program, f"--id={self._device.pci_bus_id()}", *query],
                capture_output=True, text=True, errors="replace", timeout=_SMI_TIMEOUT_S, check=False,
            )  # fmt: skip
        except (subprocess.TimeoutExpired, OSError) as e:
            return said | {"nvidia_smi": str(e)}
        row = next(csv.reader(done.stdout.splitlines(), skipinitialspace=True), [])
        for (name, unit), text in zip(_SMI_FIELDS.values(), row, strict=False):
            if unit is None:
                said[name] = text
            elif text.replace(".", "", 1).isdigit():
                said[name] = float(text) * unit
        return said

    def disturbed_percent(self) -> None:
        """Unknown: the driver does not say who else had the GPU."""
