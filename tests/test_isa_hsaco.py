"""AMD's code objects, as clang and Triton make them, against the assembly that the same compilers print."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carver
from carver.arch.devices import load
from carver.base.errors import CompileError, DeviceError
from carver.compiled.binary import Binary
from carver.compiled.execution.facts import execution
from carver.compiled.facts import Facts
from carver.compiled.isa.amd import tool
from carver.run.compile import hip_compiler

SOURCE = """
__attribute__((constant)) float filter[8];
extern "C" __attribute__((global)) void taps(float *y, const float *x, int n) {
    __attribute__((shared)) static float held[64];
    int lane = __builtin_amdgcn_workitem_id_x(), start = __builtin_amdgcn_workgroup_id_x() * 64;
    held[lane] = x[start + lane];
    __builtin_amdgcn_s_barrier();
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < n; i++) sum += held[lane ^ i] * filter[lane + i & 7];
    y[start + lane] = sum;
}
"""
DEVICES = {"gfx90a": "mi210", "gfx942": "mi300x", "gfx1100": "rx_7900_xtx", "gfx1201": "rx_9070_xt"}


def _there(*wanted: Callable[[], Any]) -> bool:
    try:
        return all(each() for each in wanted)
    except DeviceError:
        return False


needs_tools = pytest.mark.skipif(
    not _there(lambda: tool("llvm-objdump"), lambda: tool("llvm-readelf")), reason="no llvm-objdump"
)
needs_clang = pytest.mark.skipif(
    not _there(hip_compiler) or shutil.which("ld.lld-19") is None, reason="no clang and lld that make AMD's objects"
)


def made(folder: Path, name: str, *flags: str) -> Path:
    (folder / "taps.hip").write_text(SOURCE)
    command = [hip_compiler().path, "-x", "hip", "-O3", "-nogpulib", "-nogpuinc", "--offload-device-only", *flags]
    subprocess.run([*command, folder / "taps.hip", "-o", folder / name], check=True, capture_output=True)
    return folder / name


def facts(code: Any, device: str, **more: Any) -> Facts:
    x = carver.Tensor("float32", (1 << 16,))
    given = {"entry": "taps", "args": (x, x, np.int32(24)), "grid": 1024, "block": 64} | more
    held = {} if more else {"constants": {"filter": np.ones(8, np.float32)}}
    return execution(Binary(code, **given, **held), load(device)).facts()


def alike(object_: Facts, assembly: Facts) -> bool:
    """But for what fills up before the head of a loop, and the words for places."""
    unplaced = [replace(each, name="") for each in object_.loops], [replace(each, name="") for each in assembly.loops]
    near = abs(object_.straight.instructions - assembly.straight.instructions) <= 15
    return near and replace(object_, straight=assembly.straight, code="", loops=unplaced[0]) == replace(
        assembly, code="", loops=unplaced[1]
    )  # fmt: skip


@needs_tools
@needs_clang
@pytest.mark.parametrize("isa", DEVICES)
def test_an_object_of_clang_says_what_its_assembly_says(isa: str, tmp_path: Path) -> None:
    flags = [f"--offload-arch={isa}", "--no-gpu-bundle-output"]
    of_object = facts(made(tmp_path, "taps.co", *flags), DEVICES[isa])
    of_text = facts(made(tmp_path, "taps.s", "-S", *flags), DEVICES[isa])
    assert alike(of_object, of_text)
    assert (of_object.read_bytes, of_object.written_bytes, of_object.shared_bytes) == (1 << 18, 1 << 18, 256)
    assert [loop.trips for loop in of_object.loops] == [24]


@needs_tools
@needs_clang
def test_a_bundle_gives_the_object_of_the_device(tmp_path: Path) -> None:
    bundle = made(tmp_path, "b", "--offload-arch=gfx90a", "--offload-arch=gfx1100", "--gpu-bundle-output")
    for device in ("mi210", "rx_7900_xtx"):
        assert facts(bundle, device).read_bytes == 1 << 18
    with pytest.raises(CompileError, match="0 code objects for gfx942; it is for gfx1100, gfx90a"):
        facts(bundle, "mi300x")
    whole = bundle.read_bytes()
    for cut in (whole[:60], whole[: len(whole) // 3]):
        with pytest.raises(CompileError, match=r"cut off|cannot read"):
            facts(cut, "mi210")
    with pytest.raises(CompileError, match="compressed"):
        facts(b"CCOB" + whole, "mi210")


@needs_tools
@needs_clang
def test_what_is_no_object_for_the_device_is_one_sentence(tmp_path: Path) -> None:
    flags = ["--offload-arch=gfx90a", "--no-gpu-bundle-output"]
    object_ = made(tmp_path, "taps.co", *flags)
    with pytest.raises(CompileError, match=r"^the code holds no kernel 'tap', but: taps$"):
        facts(object_, "mi210", entry="tap")
    with pytest.raises(CompileError, match=r"^the code is for gfx90a, and the device is a gfx942$"):
        facts(object_, "mi300x")
    with pytest.raises(CompileError, match="no code object of AMD's"):
        facts(Path(shutil.which("true") or "/bin/true"), "mi210")


@needs_tools
@pytest.mark.parametrize(
    ("isa", "lanes", "waves", "resident"),
    [("gfx942", 64, 0, 8), ("gfx942", 64, 1, 1), ("gfx90a", 64, 2, 2), ("gfx1100", 32, 0, 8), ("gfx1100", 32, 8, 4),
     ("gfx1201", 32, 0, 8)],
)  # fmt: skip
def test_an_object_of_triton_says_what_its_assembly_says(isa: str, lanes: int, waves: int, resident: int) -> None:
    """Arguments that are put into registers before the start among them (gfx942), and registers that nothing uses, by
    which `waves_per_eu` keeps waves out."""
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton_kernels import row_sums

    types = {"x_at": "*fp32", "y_at": "*fp32", "rows": "i32", "cols": "i32"}
    source = triton.compiler.ASTSource(row_sums, types, {"BLOCK_ROWS": 4, "BLOCK_COLS": 256})
    made = triton.compile(source, target=GPUTarget("hip", isa, lanes), options={"waves_per_eu": waves})
    asm = made.asm
    args = (carver.Tensor("float32", (256, 1000)), carver.Tensor("float32", (256,)), np.int32(256), np.int32(1000))
    call = {"entry": "row_sums", "args": (*args, None, None), "grid": 64, "block": 4 * lanes}
    call |= {"shared_bytes": made.metadata.shared}
    of_text = facts(asm["amdgcn"].encode(), DEVICES[isa], **call)
    assert of_text.resident == resident
    try:
        of_object = facts(asm["hsaco"], DEVICES[isa], **call)
    except DeviceError as old:
        assert "install a newer LLVM" in str(old)
        pytest.skip("an LLVM that is too old")
    assert alike(of_object, of_text)
    assert (of_object.read_bytes, of_object.written_bytes) == (4 * 256 * 1000, 4 * 256)
    assert [loop.trips for loop in of_object.loops] == [4]


def test_without_the_tools_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CARVER_LLVM_BIN", str(tmp_path))
    with pytest.raises(DeviceError, match=r"no llvm-readelf to read AMD's code objects with.*apt install llvm-19"):
        facts(b"\x7fELF" + bytes(99), "mi210")
