"""NVIDIA's own libraries, through ctypes: launches with as little as possible between Python and the driver, and the
one number that is asked of NVML.

PyCUDA makes the context and the memory; its launches do not know torch's streams, and take several times as long.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from math import prod
from pathlib import Path
from typing import Any

from ..arch.detect import DRIVER
from ..base import dtypes
from ..base.errors import DeviceError, RunError
from .buffers import OutOfMemory
from .compile import Binary, Resources
from .render import SWIZZLES, Call, Launcher, Program, Scalar, TensorMap

C_TYPES: dict[str, Any] = {
    "i": ctypes.c_int32, "I": ctypes.c_uint32, "q": ctypes.c_int64, "Q": ctypes.c_uint64, "b": ctypes.c_int8,
    "B": ctypes.c_uint8, "h": ctypes.c_int16, "H": ctypes.c_uint16, "f": ctypes.c_float, "d": ctypes.c_double,
    "P": ctypes.c_void_p,
}  # fmt: skip
"""By the letters of Python's `struct`."""
_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
_OF_A_FUNCTION = (4, 1, 3)
"""CUfunction_attribute in cuda.h of CUDA 13.0; of a function: registers, static shared and local memory."""
_OUT_OF_MEMORY = 2
"""CUresult in cuda.h."""
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
def _module(path: str, sha256: str, ordinal: int) -> Any:
    """Loaded into the device's current context for the life of the process: a captured graph may launch from it when
    nothing else remembers it."""
    module = ctypes.c_void_p()
    _checked(_library().cuModuleLoadData(ctypes.byref(module), Path(path).read_bytes()), f"loading {path}")
    return module


@lru_cache(maxsize=256)
def encoded(tensor: TensorMap, base: int) -> bytes:
    """The kernel parameter for a tensor map whose `base` lies at this address."""
    rank, wide = len(tensor.sizes), _MAP_TYPES[tensor.dtype]
    item_bytes = dtypes.BYTES[tensor.dtype]
    strides = [tensor.row_bytes * prod(tensor.sizes[1:axis]) for axis in range(1, rank)]
    room = ctypes.create_string_buffer(_MAP_BYTES + _MAP_ALIGN_BYTES)
    at = -(-ctypes.addressof(room) // _MAP_ALIGN_BYTES) * _MAP_ALIGN_BYTES
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
    module = _module(str(binary.checked()), binary.sha256, ordinal)
    found: list[tuple[Any, list[Any], Call]] = []
    for call in program.calls:
        function = ctypes.c_void_p()
        entry, smem_bytes = call.entry, call.dynamic_smem_bytes
        _checked(library.cuModuleGetFunction(ctypes.byref(function), module, entry.encode()), f"loading {entry}")
        if smem_bytes:
            code = library.cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED_SIZE_BYTES, smem_bytes)
            _checked(code, f"{smem_bytes} bytes of shared memory for {entry}")
        found.append((function, [ctypes.c_uint(n) for n in (*call.grid, *call.threads, smem_bytes)], call))
    return found


@dataclass(frozen=True)
class Loaded:
    """A program on a device. `resources` is by entry, as the driver reports it; empty on the CPU."""

    program: Program
    resources: Mapping[str, Resources]
    go: Callable[[Sequence[Any]], None]
    """Takes what is given to the program by name (`Program.given`), in that order."""

    def launch(self, pointers: Mapping[str, Any]) -> None:
        """Launch every call in order, without waiting. `pointers` has every tensor and number by name, and
        "workspace"."""
        self.go([pointers[name] for name in self.program.given])


def resources(binary: Binary, program: Program, ordinal: int) -> dict[str, Resources]:
    """Of each entry."""
    found = {}
    for function, _, call in _functions(binary, program, ordinal):
        said = [ctypes.c_int() for _ in _OF_A_FUNCTION]
        for value, attribute in zip(said, _OF_A_FUNCTION, strict=True):
            code = _library().cuFuncGetAttribute(ctypes.byref(value), attribute, function)
            _checked(code, f"reading what {call.entry} uses")
        found[call.entry] = Resources(*(value.value for value in said))
    return found


def direct(binary: Binary, program: Program, ordinal: int) -> Callable[[], int]:
    """The driver's own launch of a kernel that takes no argument: less cannot lie between Python and the driver."""
    ((function, extents, _),) = _functions(binary, program, ordinal)
    return partial(_library().cuLaunchKernel, function, *extents, ctypes.c_void_p(), None, None)


_RELAXED = 2
"""CUstreamCaptureMode in cuda.h: what is captured may allocate memory."""


@contextmanager
def captured(run: Callable[[], object], stream: int) -> Iterator[Callable[[], None]]:
    """What `run` launches on this stream, which is not the default one, as a CUDA graph that the call launches there.

    Raises RunError where that cannot be captured, or is nothing.
    """
    library, on = _library(), ctypes.c_void_p(stream)
    graph, whole, nodes = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    _checked(library.cuStreamBeginCapture_v2(on, _RELAXED), "capturing a CUDA graph")
    try:
        run()
    finally:
        code = library.cuStreamEndCapture(on, ctypes.byref(graph))
    _checked(code, "capturing a CUDA graph")
    _checked(library.cuGraphGetNodes(graph, None, ctypes.byref(nodes)), "reading a CUDA graph")
    if not nodes.value:
        raise RunError("nothing was launched on the stream that a CUDA graph is captured from: use timer='events'")
    _checked(library.cuGraphInstantiateWithFlags(ctypes.byref(whole), graph, ctypes.c_ulonglong(0)), "a CUDA graph")
    _checked(library.cuGraphDestroy(graph), "a CUDA graph")
    try:
        yield lambda: _checked(library.cuGraphLaunch(whole, on), "launching a CUDA graph")
    finally:
        library.cuGraphExecDestroy(whole)


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
            room.raw = encoded(tensor, base.value)
        if (on := streams.get(stream)) is None:
            on = streams.setdefault(stream, ctypes.c_void_p(stream))
        for function, gx, gy, gz, bx, by, bz, smem, pointers in here.calls:
            if code := cu_launch_kernel(function, gx, gy, gz, bx, by, bz, smem, on, pointers, None):
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
    """What the GPU of that UUID (32 hexadecimal digits) has used since its driver was loaded; None where NVML does not
    say. [J]"""
    if (library := _nvml()) is None:
        return None
    dashed = "-".join((uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:]))
    handle, millijoules = ctypes.c_void_p(), ctypes.c_ulonglong()
    if library.nvmlDeviceGetHandleByUUID(f"GPU-{dashed}".encode(), ctypes.byref(handle)):
        raise DeviceError(f"NVML knows no GPU-{dashed}")
    failed = library.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(millijoules))
    return None if failed else millijoules.value * 1e-3
