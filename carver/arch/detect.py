"""The device in this machine, as its driver or operating system reports it. Needs no third-party package.

NVIDIA through the driver library, AMD through the kernel's topology files, a CPU through /proc, /sys, `lscpu` and
`sysctl`. This module knows no descriptors: `carver.arch.devices.from_device` finds the one that matches.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from pathlib import Path
from typing import Any, TypeAlias

from ..base.errors import ArchError, DeviceError
from ..base.folders import quota_cores
from ..base.types import Record

DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
"""NVIDIA's, as the loader finds it."""
Fields: TypeAlias = tuple[tuple[str, int | float | None], ...]


class Detected(Record):
    """One device: names to look its descriptor up by, best first, and fields of `Arch` as the system states them."""

    names: tuple[str, ...]
    vendor: str
    kind: str
    isa: str  # empty: the system does not say
    said_by: str
    fields: Fields  # None: the system does not say

    @property
    def name(self) -> str:
        return self.names[0]


class _NoDevice(DeviceError): ...


class _CudaDriver:
    """libcuda through ctypes. Every call returns a CUresult, 0 for success. Tests put a table in its place."""

    def __init__(self) -> None:
        try:
            self._lib = ctypes.CDLL(DRIVER)
        except OSError as error:
            reason = f"the driver library {DRIVER} does not load ({error})"
            raise _NoDevice(f"no NVIDIA GPU here: {reason}{_INSTEAD}") from None
        self._call("cuInit", 0)

    def _call(self, function: str, *arguments: object) -> None:
        code = getattr(self._lib, function)(*arguments)
        if code:
            meaning = {100: "no device", 3: "not initialised", 999: "unknown error"}.get(code, "see CUresult in cuda.h")
            error = _NoDevice if code == 100 else DeviceError
            raise error(f"no NVIDIA GPU to read here: {function} returned {code} ({meaning}){_INSTEAD}")

    def _number(self, function: str, *arguments: int, kind: Any = ctypes.c_int) -> int:
        value = kind()
        self._call(function, ctypes.byref(value), *arguments)
        return int(value.value)

    def count(self) -> int:
        return self._number("cuDeviceGetCount")

    def name(self, device: int) -> str:
        text = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", text, len(text), device)
        return text.value.decode(errors="replace")

    def total_bytes(self, device: int) -> int:
        return self._number("cuDeviceTotalMem_v2", device, kind=ctypes.c_size_t)

    def attribute(self, device: int, number: int) -> int:
        return self._number("cuDeviceGetAttribute", number, device)

    def version(self) -> int:
        return self._number("cuDriverGetVersion")


def cuda_uuid(ordinal: int) -> str:
    """Of the GPU with that ordinal, 32 hexadecimal digits: no other has it, whatever CUDA_VISIBLE_DEVICES says."""
    text = ctypes.create_string_buffer(16)
    _CudaDriver()._call("cuDeviceGetUuid_v2", text, ordinal)
    return text.raw.hex()


_INSTEAD = '; name a device to get recommendations without it, such as "h200", "mi300x" or "cpu"'

ATTRIBUTES = {
    "max_threads_per_block": 1,
    "warp_size": 10,
    "sm_count": 16,
    "l2_bytes": 38,
    "max_threads_per_sm": 39,
    "smem_per_sm_bytes": 81,
    "regs_per_sm": 82,
    "smem_per_block_bytes": 97,
    "max_blocks_per_sm": 106,
    "smem_reserved_bytes": 111,
}
"""Field of `Arch` -> number in enum CUdevice_attribute. Source: cuda.h of CUDA 13.0."""
_CLOCK_KHZ, _INTEGRATED, _MEMORY_CLOCK_KHZ, _BUS_BITS, _CC_MAJOR, _CC_MINOR = 13, 18, 36, 37, 75, 76


def nvidia(driver: _CudaDriver | None = None) -> list[Detected]:
    """The NVIDIA GPUs that the driver shows, in its order. DRAM moves two bits a pin and memory clock.

    Of memory shared with a CPU the driver states the clock, the transfer rate or nothing: the datasheet's stands.
    """
    driver = driver or _CudaDriver()
    devices = []
    for i in range(driver.count()):
        said: dict[str, int | float | None] = {name: driver.attribute(i, n) for name, n in ATTRIBUTES.items()}
        clock_hz = driver.attribute(i, _CLOCK_KHZ) * 1e3
        pin, bus = driver.attribute(i, _MEMORY_CLOCK_KHZ) * 2e3, driver.attribute(i, _BUS_BITS)
        said |= {"clock_hz": clock_hz, "dram_bytes": driver.total_bytes(i)}
        if not driver.attribute(i, _INTEGRATED):
            said |= {"pin_bits_per_s": pin, "bus_bits": bus, "dram_bytes_per_s": pin * bus / 8}
        # 0 is an answer for reserved shared memory; of anything else it says that the driver does not know
        fields = tuple((name, value or (0 if name == "smem_reserved_bytes" else None)) for name, value in said.items())
        isa = f"sm_{driver.attribute(i, _CC_MAJOR)}{driver.attribute(i, _CC_MINOR)}"
        version = driver.version()
        said_by = f"driver of this machine (CUDA {version // 1000}.{version % 1000 // 10})"
        devices.append(Detected((driver.name(i),), "nvidia", "gpu", isa, said_by, fields))
    if not devices:
        raise DeviceError(f"no NVIDIA GPU here: the driver shows 0 devices (CUDA_VISIBLE_DEVICES?){_INSTEAD}")
    return devices


def nvidia_names(root: Path = Path("/")) -> list[str]:
    """The NVIDIA GPUs that programs may use, by what the driver calls them; none where CUDA_VISIBLE_DEVICES hides all.

    A GPU that is here and that CUDA does not show, or does not start on, is a DeviceError.
    """
    try:
        driver = _CudaDriver()
    except _NoDevice as error:
        nodes = sorted(root.glob("dev/nvidia[0-9]*"))
        if not nodes or os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
            return []
        reason = str(error).removesuffix(_INSTEAD)
        raise DeviceError(f'{nodes[0]} is here, yet {reason}; see to the driver, or ask for device="cpu"') from None
    return [driver.name(i) for i in range(driver.count())]


def amd(root: Path = Path("/")) -> list[Detected]:
    """The AMD GPUs of the kernel's compute topology, in its order.

    Source: Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c. A compute unit is `simd_per_cu` SIMDs.
    """
    nodes = root / "sys/class/kfd/kfd/topology/nodes"
    if not nodes.is_dir():
        raise DeviceError(f"no AMD GPU here: {nodes} does not exist (is amdgpu loaded?){_INSTEAD}")
    devices = []
    for node in sorted(nodes.iterdir(), key=lambda path: int(path.name)):
        said = _properties(node / "properties")
        if said.get("simd_count"):
            devices.append(_amd_device(node, said))
    if not devices:
        raise DeviceError(f"no AMD GPU here: no node in {nodes} has SIMDs{_INSTEAD}")
    return devices


def _amd_device(node: Path, said: dict[str, int]) -> Detected:
    if not (version := said.get("gfx_target_version", 0)):
        raise DeviceError(f"{node}/properties has no gfx_target_version: take a newer Linux or amdgpu driver{_INSTEAD}")
    isa = f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
    per_cu, wave = said.get("simd_per_cu") or 4, said.get("wave_front_size") or 64
    caches = [_properties(path / "properties") for path in sorted(node.glob("caches/*"))]
    banks = [_properties(path / "properties") for path in sorted(node.glob("mem_banks/*"))]

    def total(level: int) -> int:
        return sum(cache.get("size", 0) for cache in caches if cache.get("level") == level) * 1024

    bus = banks[0].get("width") if banks else None
    fields: dict[str, int | float | None] = {
        "sm_count": said["simd_count"] // per_cu,
        "clock_hz": said.get("max_engine_clk_fcompute", 0) * 1e6 or None,
        "warp_size": wave,
        "schedulers_per_sm": per_cu,
        "l2_bytes": total(2) or None,
        "l3_bytes": total(3) or None,
        "dram_bytes": sum(bank.get("size_in_bytes", 0) for bank in banks) or None,
        "bus_bits": bus or None,
        "l2_partitions": said.get("num_xcc") or None,
    }
    name = f"{said['vendor_id']:04x}:{said['device_id']:04x}" if "vendor_id" in said else f"kfd node {node.name}, {isa}"
    return Detected((name,), "amd", "gpu", isa, "kernel of this machine (kfd topology)", tuple(fields.items()))


def _properties(path: Path) -> dict[str, int]:
    """Lines of `name number`."""
    if not path.is_file():
        return {}
    rows = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def apple() -> list[Detected]:
    """The GPU of an Apple system on a chip; it has no number that macOS states, only the chip's name."""
    name = _sysctl("machdep.cpu.brand_string") if sys.platform == "darwin" else ""
    if not name.startswith("Apple"):
        raise DeviceError(f"no Apple GPU here: this is {platform.system()} on {platform.machine()}{_INSTEAD}")
    return [Detected((f"{name} GPU", name), "apple", "gpu", "", "sysctl", ())]


def cpu(root: Path = Path("/")) -> list[Detected]:
    """The CPU of this machine: physical cores that this process may use, clock and caches."""
    return [_mac_cpu() if sys.platform == "darwin" and root == Path("/") else _linux_cpu(root)]


def _linux_cpu(root: Path) -> Detected:
    info = root / "proc/cpuinfo"
    if not info.is_file():
        raise ArchError(f'no description of the CPU: {info} does not exist; name one, for example CPU("avx2")')
    blocks = [_cpuinfo(block) for block in info.read_text(encoding="utf-8").split("\n\n") if block.strip()]
    listed = _lscpu() if root == Path("/") else {}
    allowed = os.sched_getaffinity(0) if root == Path("/") else range(len(blocks))
    used = [block for block in blocks if int(block.get("processor", -1)) in allowed] or blocks
    flags = set((used[0].get("flags") or used[0].get("features") or "").split())
    isa = _isa(flags, listed.get("Architecture") or platform.machine())
    places = {(block.get("physical id", "0"), block.get("core id", block.get("processor"))) for block in used}
    cores = min(len(places), quota_cores(root))
    sysfs = root / "sys/devices/system/cpu"
    khz, mhz = text_at(sysfs / "cpu0/cpufreq/cpuinfo_max_freq"), listed.get("CPU max MHz") or used[0].get("cpu MHz")
    # the highest clock that is stated anywhere; in a virtual machine only the present one is
    clock_hz = float(khz) * 1e3 if khz else float(mhz or 0) * 1e6 or None
    said: dict[str, int | float | None] = {"sm_count": cores, "clock_hz": clock_hz}
    said |= _caches(sysfs, {int(block["processor"]) for block in used if "processor" in block}, cores)
    memory = re.search(r"^MemTotal:\s+(\d+) kB", text_at(root / "proc/meminfo"), re.MULTILINE)
    said["dram_bytes"] = int(memory[1]) * 1024 if memory else None
    name = used[0].get("model name") or listed.get("Model name") or f"{platform.machine()} CPU"
    vendor = "arm" if isa == "neon" else "x86"
    return Detected((name,), vendor, "cpu", isa, "/proc and /sys of this machine", tuple(said.items()))


def _isa(flags: set[str], machine: str) -> str:
    if "avx512f" in flags:
        return "avx512"
    if {"avx2", "fma"} <= flags:
        return "avx2"
    if "asimd" in flags or machine.lower() in ("aarch64", "arm64"):
        return "neon"
    raise ArchError(f"this CPU ({machine}) has none of AVX-512, AVX2 with FMA, NEON; carver has no kernels for it")


def _cpuinfo(block: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in block.splitlines())
    return {key.strip().lower() if key[:1].isupper() else key.strip(): value.strip() for key, _, value in pairs}


def _caches(sysfs: Path, processors: set[int], cores: int) -> dict[str, int | float | None]:
    """Data cache of a core, and every distinct L2 and L3 that so many cores at once reach. [bytes]"""
    distinct: dict[tuple[int, str], int] = {}
    for number in processors:
        for index in (sysfs / f"cpu{number}/cache").glob("index*"):
            size = re.fullmatch(r"(\d+)([KMG]?)", text_at(index / "size"))
            if size and text_at(index / "type") != "Instruction":
                shared = text_at(index / "shared_cpu_list") or str(number)
                scale = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[size[2]]
                distinct[int(text_at(index / "level")), shared] = int(size[1]) * scale
    if not distinct:
        return {}
    l1 = next((size for (level, _), size in distinct.items() if level == 1), None)
    level_2 = [size for (level, _), size in distinct.items() if level == 2][:cores]
    return {
        "l1_bytes": l1,
        "smem_per_sm_bytes": l1,
        "smem_per_block_bytes": l1,
        "l2_bytes": sum(level_2) or None,
        "l2_partitions": len(level_2) or None,
        "l3_bytes": sum(size for (level, _), size in distinct.items() if level == 3),
    }


def _mac_cpu() -> Detected:
    """Performance cores only: work of one size for every core would wait for the slow ones."""

    def first(*names: str) -> int | None:
        numbers = (int(text) for text in map(_sysctl, names) if text.isdigit())
        return next((number for number in numbers if number), None)

    arm = platform.machine() == "arm64"
    flags = set(f"{_sysctl('machdep.cpu.features')} {_sysctl('machdep.cpu.leaf7_features')}".lower().split())
    l1 = first("hw.perflevel0.l1dcachesize", "hw.l1dcachesize")
    said: dict[str, int | float | None] = {
        "sm_count": first("hw.perflevel0.physicalcpu", "hw.physicalcpu"),
        "clock_hz": float(first("hw.cpufrequency_max") or 0) or None,
        "l1_bytes": l1,
        "smem_per_sm_bytes": l1,
        "smem_per_block_bytes": l1,
        "l2_bytes": first("hw.perflevel0.l2cachesize", "hw.l2cachesize"),
        "l3_bytes": first("hw.l3cachesize") or 0,
        "dram_bytes": first("hw.memsize"),
        "l2_partitions": 1 if arm else None,
    }
    isa = "neon" if arm else _isa(flags, platform.machine())
    name = _sysctl("machdep.cpu.brand_string") or "Mac CPU"
    return Detected((f"{name} CPU",), "arm" if arm else "x86", "cpu", isa, "sysctl", tuple(said.items()))


def _sysctl(name: str) -> str:
    import subprocess

    done = subprocess.run(["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _lscpu() -> dict[str, str]:
    """The rows of `lscpu`, empty where there is no such program (it only repeats /proc and /sys)."""
    import shutil
    import subprocess

    if (program := shutil.which("lscpu")) is None:
        return {}
    plain = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run([program], capture_output=True, text=True, check=False, env=plain)
    rows = (line.partition(":") for line in done.stdout.splitlines())
    return {name.strip(): value.strip() for name, _, value in rows}


def text_at(path: Path) -> str:
    """What a file of the system's says; empty where there is none or it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
