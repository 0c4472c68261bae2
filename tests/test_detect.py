"""Detection against drivers and file trees whose answer is known, and against the CPU that runs the tests."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from carver.arch import detect
from carver.arch import devices as arches
from carver.arch.devices import CPU, CUDA, HIP, Apple, from_device, load, to_toml
from carver.base.errors import ArchError, DeviceError

H200 = {
    1: 1024, 10: 32, 13: 1_980_000, 16: 132, 18: 0, 36: 3_201_000, 37: 6016, 38: 62_914_560, 39: 2048, 75: 9, 76: 0,
    81: 233_472, 82: 65_536, 97: 232_448, 106: 32, 111: 1024,
}  # fmt: skip
"""CUdevice_attribute -> value, as a driver answered on an NVIDIA H200."""


@dataclass
class FakeDriver:
    """One device a row: its name, memory and attributes; a number that it does not know is 0, as in cuda.h."""

    devices: list[tuple[str, int, Mapping[int, int]]] = field(default_factory=list)

    def count(self) -> int:
        return len(self.devices)

    def name(self, device: int) -> str:
        return self.devices[device][0]

    def total_bytes(self, device: int) -> int:
        return self.devices[device][1]

    def attribute(self, device: int, number: int) -> int:
        return self.devices[device][2].get(number, 0)

    def version(self) -> int:
        return 13_000


@pytest.fixture(autouse=True)
def _no_settings_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_CONFIG_DIR", str(tmp_path / "config"))


def use(monkeypatch: pytest.MonkeyPatch, constructor: str, devices: list[detect.Detected]) -> None:
    looks = {"CUDA": "nvidia", "HIP": "amd", "CPU": "cpu", "Apple": "apple"}
    monkeypatch.setattr(detect, looks[constructor], lambda: devices)


def tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


# ---- NVIDIA


def test_the_shipped_h200_agrees_with_its_driver() -> None:
    (device,) = detect.nvidia(FakeDriver([("NVIDIA H200", 150_754_820_096, H200)]))
    shipped, found = load("h200_sxm"), from_device(device)
    differs = {name for name in dict(device.fields) if getattr(shipped, name) != getattr(found, name)}
    assert differs <= {"dram_bytes", "dram_bytes_per_s"}, "capacity is what is left of 141 GB, the rate is rounded"
    assert found.dram_bytes_per_s == pytest.approx(shipped.dram_bytes_per_s, rel=1e-4)
    assert (found.name, found.isa, found.matrix_clock_hz) == ("h200_sxm", "sm_90", 1.83e9)
    assert dict(found.source)["sm.sm_count"] == "driver of this machine (CUDA 13.0)"


def test_auto_takes_the_drivers_word_over_the_datasheets(monkeypatch: pytest.MonkeyPatch) -> None:
    slower = H200 | {16: 66, 13: 1_500_000, 38: 31_457_280}
    use(monkeypatch, "CUDA", detect.nvidia(FakeDriver([("Tesla T4", 1 << 34, H200), ("NVIDIA H200", 1 << 36, slower)])))
    half = CUDA("cuda:1")
    assert (half.name, half.sm_count, half.clock_hz, half.l2_bytes) == ("h200_sxm", 66, 1.5e9, 31_457_280)
    assert half.matrix_clock_hz == 1.5e9, "no higher than the clock itself"
    assert half.l2_bytes_per_s == load("h200").l2_bytes_per_s, "what no driver says stays"
    with pytest.raises(ArchError, match=r"\('cuda:2'\): this machine has 2 device\(s\): 0: Tesla T4, 1: NVIDIA"):
        CUDA("cuda:2")


def test_a_device_without_descriptor_starts_from_its_nearest_relative() -> None:
    (device,) = detect.nvidia(FakeDriver([("NVIDIA H300", 1 << 37, H200 | {16: 144, 36: 0})]))
    found = from_device(device)
    base = load(found.provenance.removeprefix("estimated from "))
    assert (found.name, found.sm_count, found.isa, base.isa) == ("nvidia_h300", 144, "sm_90", "sm_90")
    assert "no descriptor of its own: estimated from" in found.title
    assert found.dram_bytes_per_s == base.dram_bytes_per_s, "the driver said nothing of the memory clock"
    ratio = 144 * 1.98e9 / (base.sm_count * base.clock_hz)
    assert found.l2_bytes_per_s == pytest.approx(base.l2_bytes_per_s * ratio)
    assert from_device(device).matrix_unit("float16") == base.matrix_unit("float16")


@pytest.mark.parametrize(
    ("cc", "sms", "isa"),
    [
        ((12, 1), 24, "sm_121"), ((8, 7), 8, "sm_87"), ((10, 1), 20, "sm_100"), ((10, 3), 148, "sm_103"),
        ((6, 2), 2, "sm_61"),
    ],
)  # fmt: skip
def test_a_new_isa_starts_from_the_nearest_of_its_vendor(cc: tuple[int, int], sms: int, isa: str) -> None:
    unknown = FakeDriver([("NVIDIA New", 1 << 34, H200 | {16: sms, 75: cc[0], 76: cc[1]})])
    found = from_device(detect.nvidia(unknown)[0])
    base = load(found.provenance.removeprefix("estimated from "))
    assert (found.cc, base.isa) == (cc, isa)


def test_a_calibrated_descriptor_is_preferred_and_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = (("date", "2026-11-20"), ("device", "NVIDIA H200"), ("command", "carver calibrate"))
    mine = load("h200").replace(fitted=fitted, dram_bytes_per_s=4.3e12)
    path = arches.own_folder() / "h200_sxm.toml"
    path.parent.mkdir(parents=True)
    path.write_text(to_toml(mine), encoding="utf-8")
    use(monkeypatch, "CUDA", detect.nvidia(FakeDriver([("NVIDIA H200", 1 << 37, H200)])))
    assert CUDA("auto") == CUDA("cuda") == load("cuda:0") == mine
    assert CUDA().provenance.startswith("calibrated on NVIDIA H200, 2026-11-20")


def test_memory_shared_with_a_cpu_keeps_the_datasheets_rate() -> None:
    """A driver states 8533 MHz, the transfer rate, where it states 4266 MHz or nothing on other such devices."""
    spark = H200 | {13: 2_418_000, 16: 48, 18: 1, 36: 8_533_000, 37: 256, 75: 12, 76: 1}
    found = from_device(detect.nvidia(FakeDriver([("NVIDIA GB10", 128_523_960_320, spark)]))[0])
    assert (found.name, found.dram_bytes) == ("gb10", 128_523_960_320)
    assert (found.dram_bytes_per_s, found.bus_bits) == (2.73e11, 256)


@pytest.mark.parametrize(
    ("sms", "mib", "name"),
    [
        (16, 62_841, "jetson_agx_orin"), (8, 62_841, "jetson_agx_orin"), (14, 30_697, "jetson_agx_orin_32"),
        (8, 15_388, "jetson_orin_nx_16"), (4, 15_657, "jetson_orin_nx_16"), (8, 7620, "jetson_orin_nano_8"),
    ],
)  # fmt: skip
def test_modules_of_one_chip_differ_in_memory(sms: int, mib: int, name: str) -> None:
    """All print "Orin"; some modes of power switch SMs off."""
    orin = H200 | {13: 918_000, 16: sms, 18: 1, 36: 612_000, 37: 256, 75: 8, 76: 7}
    found = from_device(detect.nvidia(FakeDriver([("Orin", mib << 20, orin)]))[0])
    assert (found.name, found.sm_count, found.clock_hz, found.dram_bytes) == (name, sms, 9.18e8, mib << 20)
    assert (found.dram_bytes_per_s, found.bus_bits) == (load(name).dram_bytes_per_s, load(name).bus_bits)


def test_no_nvidia_device() -> None:
    with pytest.raises(DeviceError, match=r'the driver shows 0 devices .*; name a device .*"h200"'):
        detect.nvidia(FakeDriver())


def test_no_driver_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: not found")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(DeviceError, match=r"no NVIDIA GPU here: the driver library libcuda.so.1 .*; name a device"):
        CUDA("auto")


def test_a_driver_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def cuInit(self, flags: int) -> int:
            return 100

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Broken())
    with pytest.raises(DeviceError, match=r"cuInit returned 100 \(no device\); name a device"):
        CUDA("auto")


@pytest.mark.parametrize("code", [None, 100])
def test_no_gpu_is_told_from_one_that_cuda_does_not_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None
) -> None:
    class Library:
        def __init__(self, name: str) -> None:
            if code is None:
                raise OSError(f"{name}: not found")

        def cuInit(self, flags: int) -> int | None:
            return code

    monkeypatch.setattr(ctypes, "CDLL", Library)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert detect.nvidia_names(tree(tmp_path, {"dev/nvidiactl": ""})) == []
    tree(tmp_path, {"dev/nvidia0": ""})
    with pytest.raises(DeviceError, match=r'dev/nvidia0 is here, yet .*; see to the driver, or ask for device="cpu"$'):
        detect.nvidia_names(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert detect.nvidia_names(tmp_path) == []


def test_a_driver_that_does_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def cuInit(self, flags: int) -> int:
            return 999

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Broken())
    with pytest.raises(DeviceError, match="cuInit returned 999"):
        detect.nvidia_names()


def test_the_calls_of_the_driver_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real wrapper over a library in Python: pointers are filled as libcuda fills them."""

    class Library:
        def cuInit(self, flags: int) -> int:
            return 0

        def cuDeviceGetCount(self, out: ctypes._Pointer[ctypes.c_int]) -> int:
            out._obj.value = 1  # type: ignore[attr-defined]
            return 0

        def cuDeviceGetName(self, out: ctypes.Array[ctypes.c_char], size: int, device: int) -> int:
            out.value = b"NVIDIA H200"
            return 0 if size == 256 and device == 0 else 1

        def cuDeviceTotalMem_v2(self, out: ctypes._Pointer[ctypes.c_size_t], device: int) -> int:
            out._obj.value = 150_754_820_096  # type: ignore[attr-defined]
            return 0

        def cuDeviceGetAttribute(self, out: ctypes._Pointer[ctypes.c_int], number: int, device: int) -> int:
            out._obj.value = H200[number]  # type: ignore[attr-defined]
            return 0

        def cuDriverGetVersion(self, out: ctypes._Pointer[ctypes.c_int]) -> int:
            out._obj.value = 13_000  # type: ignore[attr-defined]
            return 0

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    assert detect.nvidia() == detect.nvidia(FakeDriver([("NVIDIA H200", 150_754_820_096, H200)]))
    assert CUDA("auto").name == "h200_sxm"
    assert detect.nvidia_names() == ["NVIDIA H200"]


# ---- AMD

NODES = "sys/class/kfd/kfd/topology/nodes"


def kfd(root: Path, node: int, lines: Mapping[str, int], l2: tuple[int, int] = (0, 0), l3: int = 0) -> Path:
    files = {f"{NODES}/{node}/properties": "".join(f"{key} {value}\n" for key, value in lines.items())}
    caches = [(2, l2[1])] * l2[0] + [(3, l3)] * bool(l3)
    files |= {f"{NODES}/{node}/caches/{i}/properties": f"level {n}\nsize {kb}\n" for i, (n, kb) in enumerate(caches)}
    files[f"{NODES}/{node}/mem_banks/0/properties"] = "size_in_bytes 206141652992\nwidth 8192\n"
    return tree(root, files)


MI300X = {
    "simd_count": 1216, "simd_per_cu": 4, "wave_front_size": 64, "gfx_target_version": 90402, "vendor_id": 4098,
    "device_id": 29857, "max_engine_clk_fcompute": 2100, "num_xcc": 8,
}  # fmt: skip


def test_mi300x_by_topology(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kfd(tmp_path, 0, {"cpu_cores_count": 96, "simd_count": 0})
    kfd(tmp_path, 2, MI300X, (8, 4096), 262_144)
    kfd(tmp_path, 10, MI300X | {"simd_count": 608}, (8, 4096), 262_144)
    devices = detect.amd(tmp_path)
    assert [device.names for device in devices] == [("1002:74a1",)] * 2, "the CPU node is none"
    use(monkeypatch, "HIP", devices)
    whole, half = HIP("auto"), HIP("hip:1")
    assert (whole.name, whole.sm_count, whole.l2_bytes, whole.l3_bytes) == ("mi300x", 304, 32 << 20, 256 << 20)
    assert (whole.clock_hz, whole.l2_partitions, whole.bus_bits, whole.dram_bytes) == (2.1e9, 8, 8192, 206_141_652_992)
    assert half.sm_count == 152


@pytest.mark.parametrize(
    ("version", "simds", "per_cu", "name"),
    [
        (90010, 416, 4, "mi210"), (90010, 440, 4, "mi250x_gcd"), (90008, 480, 4, "mi100"), (90006, 240, 4, "mi50"),
        (100302, 56, 2, "pro_w6600"), (90500, 1024, 4, "mi355x"), (110000, 192, 2, "rx_7900_xtx"),
    ],
)  # fmt: skip
def test_amd_devices_by_isa_and_size(tmp_path: Path, version: int, simds: int, per_cu: int, name: str) -> None:
    wave = 64 if per_cu == 4 else 32
    said = {"simd_count": simds, "simd_per_cu": per_cu, "gfx_target_version": version, "wave_front_size": wave}
    kfd(tmp_path, 1, said)
    (device,) = detect.amd(tmp_path)
    found = from_device(device)
    assert (found.isa, found.sm_count) == (load(name).isa, load(name).sm_count)
    assert found.provenance.startswith("datasheet"), "known by ISA and size, without a name"


@pytest.mark.parametrize(
    ("version", "cus", "chip", "name"),
    [
        (110000, 96, 0x744C, "rx_7900_xtx"), (110000, 84, 0x744C, "rx_7900_xt"), (110000, 96, 0x7448, "pro_w7900"),
        (90006, 60, 0x66A1, "mi50"), (90006, 64, 0x66A1, "mi60"), (90500, 256, 0x75B3, "mi355x"),
        (120001, 64, 0x7550, "rx_9070_xt"), (120001, 56, 0x7550, "rx_9070"), (120001, 64, 0x7551, "r9700"),
        (110501, 40, 0x1586, "radeon_8060s"), (110000, 80, 0x744C, "rx_7900_gre"),
        (90000, 56, 0x687F, "rx_vega_56"), (80003, 64, 0x7300, "r9_fury_x"),
        (120000, 32, 0x7590, "rx_9060_xt"), (110002, 32, 0x7480, "rx_7600"), (110000, 72, 0x744C, "rx_7900m"),
        (90402, 80, 0x74A2, "mi308x"), (90402, 304, 0x74B5, "mi300x"), (110003, 12, 0x15BF, "radeon_780m"),
    ],
)  # fmt: skip
def test_amd_cards_of_one_chip_differ_in_compute_units(
    tmp_path: Path, version: int, cus: int, chip: int, name: str
) -> None:
    said = {"simd_count": 2 * cus, "simd_per_cu": 2, "gfx_target_version": version, "wave_front_size": 32}
    kfd(tmp_path, 1, said | {"vendor_id": 4098, "device_id": chip})
    assert from_device(detect.amd(tmp_path)[0]).name == name


def test_a_card_of_a_known_chip_with_other_compute_units_is_an_estimate(tmp_path: Path) -> None:
    said = {"simd_count": 176, "simd_per_cu": 2, "gfx_target_version": 110000, "wave_front_size": 32}
    kfd(tmp_path, 1, said | {"vendor_id": 4098, "device_id": 0x744C})
    found = from_device(detect.amd(tmp_path)[0])
    assert (found.sm_count, found.provenance) == (88, "estimated from rx_7900_xt")


def test_an_unknown_amd_device_is_an_estimate(tmp_path: Path) -> None:
    kfd(tmp_path, 1, MI300X | {"simd_count": 800, "device_id": 1})
    found = from_device(detect.amd(tmp_path)[0])
    assert found.provenance == "estimated from mi300a", "228 CUs are nearest to 200"
    assert found.sm_count == 200


def test_no_amd_device(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"no AMD GPU here: .*/nodes does not exist .*; name a device"):
        detect.amd(tmp_path)
    kfd(tmp_path, 0, {"simd_count": 0})
    with pytest.raises(DeviceError, match=r"no node in .*/nodes has SIMDs; name a device"):
        detect.amd(tmp_path)
    kfd(tmp_path, 0, {"simd_count": 4})
    with pytest.raises(DeviceError, match=r"nodes/0/properties has no gfx_target_version: .*; name a device"):
        detect.amd(tmp_path)


def test_no_apple_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(DeviceError, match=r"no Apple GPU here: this is "):
        Apple("auto")


def test_apple_by_the_name_of_its_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(detect, "_sysctl", {"machdep.cpu.brand_string": "Apple M2 Max"}.__getitem__)
    assert Apple("auto").name == "apple_m2_max"


# ---- CPU

SYS = "sys/devices/system/cpu"


def sysfs_caches(cpu: int, siblings: str, everyone: str) -> dict[str, str]:
    rows = [
        ("1", "Data", "32K", siblings),
        ("1", "Instruction", "32K", siblings),
        ("2", "Unified", "1024K", siblings),
        ("3", "Unified", "32M", everyone),
    ]
    return {
        f"{SYS}/cpu{cpu}/cache/index{i}/{key}": f"{value}\n"
        for i, row in enumerate(rows)
        for key, value in zip(("level", "type", "size", "shared_cpu_list"), row, strict=True)
    }


def x86(root: Path, flags: str = "fma avx2") -> Path:
    """Two cores of two threads each: processors 0 and 2 are core 0, 1 and 3 are core 1."""
    block = "processor\t: {0}\nmodel name\t: Test CPU 9000\ncpu MHz\t\t: 1000.0\nphysical id\t: 0\ncore id\t\t: {1}\n"
    block += f"flags\t\t: fpu {flags}"
    files = {"proc/cpuinfo": "\n\n".join(block.format(n, n % 2) for n in range(4)) + "\n"}
    files["proc/meminfo"] = "MemTotal:       16000000 kB\n"
    files[f"{SYS}/cpu0/cpufreq/cpuinfo_max_freq"] = "4500000\n"
    for n in range(4):
        files |= sysfs_caches(n, f"{n % 2},{n % 2 + 2}", "0-3")
    return tree(root, files)


def test_cpu_by_its_files(tmp_path: Path) -> None:
    (device,) = detect.cpu(x86(tmp_path))
    assert device.names == ("Test CPU 9000",) and (device.vendor, device.isa) == ("x86", "avx2")
    assert dict(device.fields) == {
        "sm_count": 2, "clock_hz": 4.5e9, "dram_bytes": 16_000_000 * 1024,
        "l1_bytes": 32 << 10, "smem_per_sm_bytes": 32 << 10, "smem_per_block_bytes": 32 << 10,
        "l2_bytes": 2 << 20, "l2_partitions": 2, "l3_bytes": 32 << 20,
    }  # fmt: skip
    found, base = from_device(device), load("cpu_avx2")
    assert (found.name, found.sm_count, found.provenance) == ("test_cpu_9000", 2, "estimated from cpu_avx2")
    ratio = 2 * 4.5e9 / (base.sm_count * base.clock_hz)
    assert found.l2_bytes_per_s == pytest.approx(base.l2_bytes_per_s * ratio)
    assert found.vector_flops_per_s("float32") == 2 * 4.5e9 * 32


@pytest.mark.parametrize(
    ("quota", "cores"), [("max 100000", 2), ("800000 100000", 2), ("150000 100000", 1), ("50000 100000", 1)]
)
def test_a_quota_leaves_as_many_cores_and_their_caches(tmp_path: Path, quota: str, cores: int) -> None:
    """Kernels run on so many threads, wherever they are; L3 is there for whichever."""
    root = tree(x86(tmp_path), {"sys/fs/cgroup/cpu.max": f"{quota}\n"})
    found = dict(detect.cpu(root)[0].fields)
    assert (found["sm_count"], found["l2_partitions"], found["l2_bytes"]) == (cores, cores, cores << 20)
    assert found["l3_bytes"] == 32 << 20


@pytest.mark.parametrize("cores", [1, 2, 16, 64])
def test_memory_bandwidth_of_a_part_of_a_server(cores: int) -> None:
    base = load("cpu_avx512")
    device = detect.Detected(("Test CPU",), "x86", "cpu", "avx512", "a test", (("sm_count", cores),))
    per_core = from_device(device).dram_bytes_per_s / cores
    assert per_core <= 48 * 64 / base.dram_latency_s, "more than a core can wait for"
    assert per_core >= base.dram_bytes_per_s / max(base.sm_count, cores), "less than its share"
    assert per_core * cores <= base.dram_bytes_per_s
    if cores < 4:
        assert per_core == pytest.approx(48 * 64 / base.dram_latency_s), "two channels feed two cores"


@pytest.mark.parametrize(("flags", "isa"), [("avx2 fma", "avx2"), ("avx2 fma avx512f", "avx512"), ("asimd", "neon")])
def test_isa_by_flags(tmp_path: Path, flags: str, isa: str) -> None:
    assert detect.cpu(x86(tmp_path, flags))[0].isa == isa


def test_arm_cpuinfo(tmp_path: Path) -> None:
    block = "processor\t: {0}\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd atomics\nCPU implementer\t: 0x41\n"
    root = tree(tmp_path, {"proc/cpuinfo": "\n".join(block.format(n) for n in range(4))})
    (device,) = detect.cpu(root)
    assert (device.isa, device.vendor, dict(device.fields)["sm_count"]) == ("neon", "arm", 4)
    assert from_device(device).clock_hz == load("cpu_neon").clock_hz, "nothing states a clock"


def test_a_cpu_without_a_last_level_cache(tmp_path: Path) -> None:
    for path in x86(tmp_path).glob(f"{SYS}/cpu*/cache/index3/*"):
        path.unlink()
    found = from_device(detect.cpu(tmp_path)[0])
    assert (found.l3_bytes, found.l3_bytes_per_s) == (0, 0.0)


def test_cpus_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArchError, match=r'cpuinfo does not exist; name one, for example CPU\("avx2"\)'):
        detect.cpu(tmp_path)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    with pytest.raises(ArchError, match=r"this CPU \(x86_64\) has none of AVX-512, AVX2 with FMA, NEON"):
        detect.cpu(x86(tmp_path, "sse2"))


M2 = {
    "machdep.cpu.brand_string": "Apple M2", "hw.perflevel0.physicalcpu": "4", "hw.physicalcpu": "8",
    "hw.perflevel0.l1dcachesize": "131072", "hw.perflevel0.l2cachesize": "16777216", "hw.memsize": "17179869184",
}  # fmt: skip
INTEL = {
    "machdep.cpu.brand_string": "Intel", "machdep.cpu.features": "FPU FMA", "machdep.cpu.leaf7_features": "AVX2",
    "hw.physicalcpu": "6", "hw.l1dcachesize": "32768", "hw.l2cachesize": "262144", "hw.l3cachesize": "12582912",
}  # fmt: skip


@pytest.mark.parametrize(
    ("machine", "said", "expected"),
    [
        ("arm64", M2, ("neon", 4, 131_072, 16 << 20, 0)),
        ("x86_64", INTEL, ("avx2", 6, 32_768, 256 << 10, 12 << 20)),
    ],
)
def test_mac_cpu(
    monkeypatch: pytest.MonkeyPatch, machine: str, said: dict[str, str], expected: tuple[object, ...]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(detect, "_sysctl", lambda name: said.get(name, ""))
    (device,) = detect.cpu()
    found = from_device(device)
    assert (device.isa, found.sm_count, found.l1_bytes, found.l2_bytes, found.l3_bytes) == expected


@pytest.mark.skipif(not Path("/proc/cpuinfo").is_file(), reason="reads /proc")
def test_the_cpu_that_runs_this() -> None:
    here = CPU("auto")
    assert here.kind == "cpu" and here == CPU("native")
    assert 1 <= here.sm_count <= len(os.sched_getaffinity(0))
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    assert here.isa == ("avx512" if "avx512f" in text else "avx2" if "avx2" in text else "neon")
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert here.dram_bytes == pytest.approx(pages, rel=0.02)
    if shutil.which("getconf"):
        done = subprocess.run(["getconf", "LEVEL1_DCACHE_SIZE"], capture_output=True, text=True, check=False)
        assert done.stdout.strip() in ("", "0", "undefined", str(here.l1_bytes)), "the C library reads it from the CPU"
