"""An NVIDIA GPU through PyCUDA, in the primary context, which torch uses too.

Whatever context a thread has, or none, is what it has afterwards: a device's own is current while it is worked with.
Kernels run on the default stream, in order with torch's.
"""

from __future__ import annotations

import atexit
import csv
import ctypes
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import cache, cached_property, lru_cache
from importlib.util import find_spec
from math import prod
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

import numpy as np

from ..arch import detect
from ..arch import devices as arch
from ..arch.descriptor import Arch
from ..arch.detect import DRIVER
from ..base import dtypes
from ..base.children import finished
from ..base.errors import ConfigError, DeviceError, RunError, nearest
from . import compile as compiling
from .buffers import C_TYPES, STORAGE, Array, Buffer, Loaded, OutOfMemory, Resources, decode
from .compile import Binary
from .render import SWIZZLES, Call, Launcher, Program, Scalar, Source, TensorMap

_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
_OF_A_FUNCTION = (4, 1, 3)
"""CUfunction_attribute in cuda.h of CUDA 13.0; of a function: registers, static shared and local memory."""
_OUT_OF_MEMORY, _INVALID_CONTEXT, _INVALID_HANDLE = 2, 201, 400
"""CUresult in cuda.h. The last two are what a launch says in a thread without a context, or with another GPU's."""
_MAP_BYTES, _MAP_ALIGN_BYTES = 128, 64
_MAP_TYPES = {"float64": 8, "float32": 7, "tf32": 11, "float16": 6, "bfloat16": 9, "float8_e4m3": 0, "float8_e5m2": 0,
              "int8": 0, "int32": 3}  # fmt: skip
_L2_PROMOTION_128_BYTES = 2
"""CUtensorMapDataType and CUtensorMapL2promotion of cuda.h; the latter is what a miss brings into L2."""


@cache
def _library() -> Any:
    try:
        return ctypes.CDLL(DRIVER)
    except OSError as e:
        raise DeviceError(f"no NVIDIA GPU can be used here: the driver library {DRIVER} does not load ({e})") from None


def _checked(code: int, what: str) -> None:
    if code:
        text = ctypes.c_char_p()
        _library().cuGetErrorString(code, ctypes.byref(text))
        said = text.value.decode(errors="replace") if text.value else f"CUresult {code}"
        raise (OutOfMemory if code == _OUT_OF_MEMORY else RunError)(f"{what}: {said}")


@cache
def _primary(library: Any, ordinal: int) -> Any:
    """The context that the runtime, torch and PyCUDA share, kept for the life of the process."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    _checked(library.cuDeviceGet(ctypes.byref(device), ordinal), f"cuda:{ordinal}")
    _checked(library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), f"the context of cuda:{ordinal}")
    return context


@contextmanager
def _current(ordinal: int) -> Iterator[None]:
    """That GPU's context in this thread, which may have none or that of another GPU, and has it again afterwards."""
    library, before = _library(), ctypes.c_void_p()
    _checked(library.cuCtxGetCurrent(ctypes.byref(before)), "asking for the context")
    _checked(library.cuCtxSetCurrent(_primary(library, ordinal)), f"making the context of cuda:{ordinal} current")
    try:
        yield
    finally:
        library.cuCtxSetCurrent(before)


@cache
def _module(path: str, sha256: str, ordinal: int) -> Any:
    """Loaded into the current context, that GPU's, for the life of the process: a graph may launch from it any time."""
    module = ctypes.c_void_p()
    _checked(_library().cuModuleLoadData(ctypes.byref(module), Path(path).read_bytes()), f"loading {path}")
    return module


@lru_cache(maxsize=256)
def encoded(tensor: TensorMap, base: int, ordinal: int) -> bytes:
    """The kernel parameter for a tensor map whose `base` lies at this address."""
    rank, wide = len(tensor.sizes), _MAP_TYPES[tensor.dtype]
    item_bytes = dtypes.BYTES[tensor.dtype]
    strides = [tensor.row_bytes * prod(tensor.sizes[1:axis]) for axis in range(1, rank)]
    room = ctypes.create_string_buffer(_MAP_BYTES + _MAP_ALIGN_BYTES)
    at = -(-ctypes.addressof(room) // _MAP_ALIGN_BYTES) * _MAP_ALIGN_BYTES
    with _current(ordinal):
        code = _library().cuTensorMapEncodeTiled(
            ctypes.c_void_p(at), wide, rank, ctypes.c_void_p(base + tensor.start_bytes),
            (ctypes.c_uint64 * rank)(*tensor.sizes), (ctypes.c_uint64 * (rank - 1))(*strides),
            (ctypes.c_uint32 * rank)(*tensor.box), (ctypes.c_uint32 * rank)(*[1] * rank),
            0, SWIZZLES[tensor.box[0] * item_bytes], _L2_PROMOTION_128_BYTES, 0,
        )  # fmt: skip
    _checked(code, f"a tensor map of {tensor}")
    return ctypes.string_at(at, _MAP_BYTES)


def _functions(binary: Binary, program: Program, ordinal: int) -> list[tuple[Any, list[Any], Call]]:
    """Of each call the function, and its extents and shared memory."""
    library = _library()
    found: list[tuple[Any, list[Any], Call]] = []
    with _current(ordinal):
        module = _module(str(binary.checked()), binary.sha256, ordinal)
        for call in program.calls:
            function = ctypes.c_void_p()
            entry, smem_bytes = call.entry, call.dynamic_smem_bytes
            _checked(library.cuModuleGetFunction(ctypes.byref(function), module, entry.encode()), f"loading {entry}")
            if smem_bytes:
                code = library.cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED_SIZE_BYTES, smem_bytes)
                _checked(code, f"{smem_bytes} bytes of shared memory for {entry}")
            found.append((function, [ctypes.c_uint(n) for n in (*call.grid, *call.threads, smem_bytes)], call))
    return found


_RELAXED = 2
"""CUstreamCaptureMode in cuda.h: what is captured may allocate memory."""


def launcher(binary: Binary, program: Program, names: Sequence[str], ordinal: int) -> Launcher:
    """The program for arguments in the order of `names`, on any stream, from any thread."""
    fixed = _functions(binary, program, ordinal)
    types = {arg.value: C_TYPES[arg.kind] for call in program.calls for arg in call.args if isinstance(arg, Scalar)
             and isinstance(arg.value, str)}  # fmt: skip

    class Slots(threading.local):
        """Where the driver reads the arguments from: a set for each thread."""

        def __init__(self) -> None:
            self.given = [types.get(name, ctypes.c_void_p)() for name in names]
            at = dict(zip(names, self.given, strict=True))
            self.calls: list[Any] = []
            self.kept: list[Any] = []
            self.maps: list[tuple[TensorMap, Any, Any]] = []
            for function, extents, call in fixed:
                maps = [ctypes.create_string_buffer(_MAP_BYTES) for _ in call.maps]
                self.maps += [(each, at[each.base], room) for each, room in zip(call.maps, maps, strict=True)]
                values = maps + [
                    at[arg] if isinstance(arg, str)
                    else (at[arg.value] if isinstance(arg.value, str) else C_TYPES[arg.kind](arg.value))
                    if isinstance(arg, Scalar)
                    else ctypes.c_int64(arg) if isinstance(arg, int) else ctypes.c_void_p()
                    for arg in call.args
                ]  # fmt: skip
                self.kept.append(values)
                pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
                self.calls.append((function, *extents, pointers))

    slots, cu_launch_kernel = Slots(), _library().cuLaunchKernel
    streams = {0: ctypes.c_void_p()}
    title = program.source.path.name

    def launch(values: Sequence[Any], stream: int = 0) -> None:
        here = slots
        for slot, value in zip(here.given, values):  # noqa: B905 (the caller has counted; this is the hot path)
            slot.value = value
        for tensor, base, room in here.maps:
            room.raw = encoded(tensor, base.value, ordinal)
        if (on := streams.get(stream)) is None:
            on = streams.setdefault(stream, ctypes.c_void_p(stream))
        for function, gx, gy, gz, bx, by, bz, smem, pointers in here.calls:
            if code := cu_launch_kernel(function, gx, gy, gz, bx, by, bz, smem, on, pointers, None):
                if code in (_INVALID_CONTEXT, _INVALID_HANDLE):
                    with _current(ordinal):
                        code = cu_launch_kernel(function, gx, gy, gz, bx, by, bz, smem, on, pointers, None)
                _checked(code, f"launching {title}")

    return launch


@cache
def _nvml() -> Any:
    try:
        library = ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")
    except OSError:
        return None
    return None if library.nvmlInit_v2() else library


def energy_j(uuid: str) -> float | None:
    """Used by the GPU of that UUID (32 hexadecimal digits) since its driver was loaded; None without NVML. [J]"""
    if (library := _nvml()) is None:
        return None
    dashed = "-".join((uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:]))
    handle, millijoules = ctypes.c_void_p(), ctypes.c_ulonglong()
    if library.nvmlDeviceGetHandleByUUID(f"GPU-{dashed}".encode(), ctypes.byref(handle)):
        raise DeviceError(f"NVML knows no GPU-{dashed}")
    failed = library.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(millijoules))
    return None if failed else millijoules.value * 1e-3


TIMERS = ("events", "graph", "cupti")
"""Which clock times a GPU: events around each run, the same in a CUDA graph, or the time stamps of the kernels."""
BUFFER_BYTES = 1 << 23
"""That CUPTI writes into at a time."""


def check_timer(timer: str, kind: str = "cuda") -> None:
    """Raises ConfigError for a timer that a device of this kind lacks, DeviceError without its package."""
    if timer not in TIMERS:
        raise ConfigError(f"no timer {timer!r}; {nearest(str(timer), TIMERS)}")
    if timer != "events" and kind != "cuda":
        raise ConfigError(f"timer={timer!r} is of NVIDIA GPUs; a device of the kind {kind!r} has one: leave it out")
    if timer == "cupti" and find_spec("cupti") is None:
        raise DeviceError("timer='cupti' needs NVIDIA's package, which is not here: pip install cupti-python")


@contextmanager
def stamped() -> Iterator[list[tuple[int, int]]]:
    """Start and end [ns] of each kernel that runs inside, once it is left. What is launched must have ended by then."""
    from cupti import cupti

    found: list[tuple[int, int]] = []
    kind = cupti.ActivityKind.CONCURRENT_KERNEL
    cupti.activity_register_callbacks(
        lambda: (BUFFER_BYTES, 0), lambda records: found.extend((r.start, r.end) for r in records if r.kind == kind)
    )
    cupti.activity_enable(kind)
    try:
        yield found
        cupti.activity_flush_all(0)
    finally:
        cupti.activity_disable(kind)


def by_run(stamps: Sequence[tuple[int, int]], runs: int, others: int = 0) -> list[float]:
    """Of so many runs, one after another, the time from the start of the first kernel to the end of the last. [s]

    `others`: kernels before those of each run that are not its own. Raises RunError where not all runs launch as many.
    """
    each, left = divmod(len(stamps), runs)
    if left or each <= others:
        raise RunError(f"CUPTI saw {len(stamps)} kernels of {runs} runs, not as many of each: use timer='events'")
    ordered = sorted(stamps)
    own = [ordered[at + others : at + each] for at in range(0, len(ordered), each)]
    return [(max(end for _, end in some) - some[0][0]) * 1e-9 for some in own]


_INSTEAD = 'or ask for device="cpu", with hints for a CPU (in a shell: --arch cpu)'

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
        library, before = _library(), ctypes.c_void_p()
        library.cuCtxGetCurrent(ctypes.byref(before))
        with _errors(driver, f"opening {self.name}"):
            self._context = self._device.retain_primary_context()
            if threading.current_thread() is threading.main_thread():  # any other must leave PyCUDA none when it ends
                self._context.push()  # for the user's PyCUDA arrays
                atexit.register(self._context.pop)
        if before:
            library.cuCtxSetCurrent(before)
        self._stream = 0  # where programs launch, the driver's handle; 0 is the default one

    @contextmanager
    def _on(self, what: str) -> Iterator[None]:
        """The device's context current, for PyCUDA too, which counts those of a thread; the driver's errors as ours."""
        with _errors(self._driver, what), _current(self._ordinal):
            self._context.push()
            try:
                yield
            finally:
                with suppress(self._driver.Error):  # of a device that is lost, which was told
                    self._context.pop()

    @property
    def lease(self) -> str:
        return lease_of(self._ordinal)

    def compile(self, source: Source) -> Binary:
        return compiling.compile_source(source, compiling.cuda_compiler())

    def load(self, binary: Binary, program: Program) -> Loaded:
        run, used = self.launcher(binary, program, program.given), {}
        with _current(self._ordinal):
            for function, _, call in _functions(binary, program, self._ordinal):
                said = [ctypes.c_int() for _ in _OF_A_FUNCTION]
                for value, attribute in zip(said, _OF_A_FUNCTION, strict=True):
                    code = _library().cuFuncGetAttribute(ctypes.byref(value), attribute, function)
                    _checked(code, f"reading what {call.entry} uses")
                used[call.entry] = Resources(*(value.value for value in said))
        return Loaded(program, used, lambda values: run(values, self._stream))

    def launcher(self, binary: Binary, program: Program, names: Sequence[str]) -> Launcher:
        return launcher(binary, program, names, self._ordinal)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Buffer:
        size = dtypes.size_bytes(shape, dtype)
        with self._on(f"allocating {size} bytes on {self.name}"):
            owner = self._driver.mem_alloc(max(size, 1))
        return Buffer(int(owner), shape, dtype, owner)

    def part(self, whole: Buffer, start_bytes: int, shape: tuple[int, ...], dtype: str) -> Buffer:
        return Buffer(whole.pointer + start_bytes, shape, dtype, whole.owner)

    def write(self, buffer: Buffer, stored: Array) -> None:
        with self._on("copying to the device"):
            self._driver.memcpy_htod(buffer.pointer, np.ascontiguousarray(stored))

    def stored(self, buffer: Buffer) -> Array:
        stored = np.empty(buffer.shape, STORAGE[buffer.dtype])
        with self._on("copying from the device"):
            self._driver.memcpy_dtoh(stored, buffer.pointer)
        return stored

    def download(self, buffer: Buffer) -> Array:
        return decode(self.stored(buffer), buffer.dtype)

    def fill(self, buffer: Buffer, byte: int) -> None:
        with self._on("filling a buffer"):
            self._driver.memset_d8(buffer.pointer, byte, buffer.size_bytes)

    def synchronize(self) -> None:
        with self._on("running kernels"):
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
        with self._on("timing"), ExitStack() as stack:
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
        with self._on("timing"):
            return [ended.time_since(began) * 1e-3 for began, ended in pairs]

    @contextmanager
    def _captured(self, run: Callable[[], None], stream: int) -> Iterator[Callable[[], None]]:
        """What `run` launches on this stream, which is not the default one, as a CUDA graph that the call launches.

        Raises RunError where that cannot be captured, or is nothing.
        """
        torch: Any = sys.modules.get("torch")
        theirs = torch is not None and torch.cuda.is_available()
        library, on = _library(), ctypes.c_void_p(stream)
        graph, whole, nodes = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        self._context.synchronize()  # what was written to the default stream
        _checked(library.cuStreamBeginCapture_v2(on, _RELAXED), "capturing a CUDA graph")
        self._stream = stream
        try:
            with torch.cuda.stream(torch.cuda.ExternalStream(stream)) if theirs else nullcontext():
                run()
        finally:
            self._stream = 0
            code = library.cuStreamEndCapture(on, ctypes.byref(graph))
        _checked(code, "capturing a CUDA graph")
        _checked(library.cuGraphGetNodes(graph, None, ctypes.byref(nodes)), "reading a CUDA graph")
        if not nodes.value:
            raise RunError("nothing was launched on the stream that a CUDA graph is captured from: use timer='events'")
        code = library.cuGraphInstantiateWithFlags(ctypes.byref(whole), graph, ctypes.c_ulonglong(0))
        _checked(code, "a CUDA graph")
        _checked(library.cuGraphDestroy(graph), "a CUDA graph")
        try:
            yield lambda: _checked(library.cuGraphLaunch(whole, on), "launching a CUDA graph")
        finally:
            library.cuGraphExecDestroy(whole)

    def energy_j(self) -> float | None:
        """From NVML, since the driver was loaded; Volta and later."""
        return energy_j(detect.cuda_uuid(self._ordinal))

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
            done = finished([program, f"--id={self._device.pci_bus_id()}", *query], _SMI_TIMEOUT_S)
        except (TimeoutExpired, OSError) as e:
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
