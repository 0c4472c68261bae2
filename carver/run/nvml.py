"""The one number that is asked of NVML, through ctypes."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

from ..base.errors import DeviceError


@cache
def _library() -> Any:
    try:
        library = ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")
    except OSError:
        return None
    return None if library.nvmlInit_v2() else library


def energy_j(uuid: str) -> float | None:
    """What the GPU of that UUID (32 hexadecimal digits) has used since its driver was loaded; None where NVML does not
    say. [J]"""
    if (library := _library()) is None:
        return None
    dashed = "-".join((uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:]))
    handle, millijoules = ctypes.c_void_p(), ctypes.c_ulonglong()
    if library.nvmlDeviceGetHandleByUUID(f"GPU-{dashed}".encode(), ctypes.byref(handle)):
        raise DeviceError(f"NVML knows no GPU-{dashed}")
    failed = library.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(millijoules))
    return None if failed else millijoules.value * 1e-3
