"""Cubins that nvcc makes of CUDA C++, read whole. Needs nvcc and nvdisasm, no GPU."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from carver.base.errors import CompileError, DeviceError
from carver.compiled.isa import rates, sass

SOURCE = """
extern "C" __global__ void scale(float4* x, float a) {
    float4 v = x[threadIdx.x];
    v.x *= a; v.y *= a; v.z *= a; v.w *= a;
    x[threadIdx.x] = v;
}
extern "C" __global__ void reverse(float* x) {
    __shared__ float s[1024];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[1023 - threadIdx.x];
}
extern "C" __global__ void array(float* x, int n) {
    float t[64], s = 0;
    for (int i = 0; i < 64; i++) t[i] = x[i * n];
    for (int i = 0; i < n; i++) s += t[(int)x[i] & 63];
    x[0] = s;
}
"""
NVCC = shutil.which("nvcc")


def has_disassembler() -> bool:
    try:
        return sass.tool().is_file()
    except DeviceError:
        return False


@pytest.fixture(scope="module", params=[
    "sm_75", "sm_90", "sm_120", *(pytest.param(isa, marks=pytest.mark.exhaustive) for isa in ("sm_80", "sm_100")),
])  # fmt: skip
def cubin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    if not NVCC or not has_disassembler():
        pytest.skip("no nvcc, or no nvdisasm")
    folder = tmp_path_factory.mktemp("cubin")
    (folder / "k.cu").write_text(SOURCE)
    made = folder / "k.cubin"
    command = [NVCC, "-cubin", f"-arch={request.param}", "-o", str(made), str(folder / "k.cu")]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"this nvcc does not compile for {request.param}")
    return request.param, made.read_bytes()


@pytest.mark.nvcc
@pytest.mark.slow
def test_a_kernel_is_chosen_by_name(cubin: tuple[str, bytes]) -> None:
    isa, data = cubin
    code = sass.read(data, "scale")
    work = rates.demand(code, code.straight, rates.table(isa))
    assert (code.isa, code.kernel, code.loops) == (isa, "scale", ())
    assert {a: n for a, n in work.accesses.items() if "global" in a} == {"load global 16": 1, "store global 16": 1}
    assert sum(each.opcode.startswith("FMUL") for each in code.instructions) == 4
    assert work.unknown == {}
    with pytest.raises(CompileError, match="several kernels, name one of: array, reverse, scale"):
        sass.read(data)
    with pytest.raises(CompileError, match="no kernel 'scael', but: array, reverse, scale"):
        sass.read(data, "scael")


@pytest.mark.nvcc
@pytest.mark.slow
def test_shared_memory_and_barriers(cubin: tuple[str, bytes]) -> None:
    isa, data = cubin
    code = sass.read(data, "reverse")
    assert code.resources.shared_bytes == 4096
    work = rates.demand(code, code.straight, rates.table(isa))
    assert work.barriers == 1
    assert work.bytes["load shared"] + work.bytes["store shared"] == 2 * 4 * 32


@pytest.mark.nvcc
@pytest.mark.slow
def test_an_array_on_the_stack_is_no_spill(cubin: tuple[str, bytes]) -> None:
    _, data = cubin
    code = sass.read(data, "array")
    assert (code.resources.stack_bytes, code.resources.spill_bytes) == (256, 0)
    assert code.loops


@pytest.mark.nvcc
@pytest.mark.slow
def test_many_are_read_at_once(cubin: tuple[str, bytes]) -> None:
    _, data = cubin
    one, two = sass.read_many([data, data], "array")
    assert one == two == sass.read(data, "array")


def test_where_no_disassembler_is_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    with pytest.raises(DeviceError, match=r"no nvdisasm .* install triton, or the CUDA toolkit"):
        sass.tool()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvdisasm").touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert sass.tool() == tmp_path / "bin" / "nvdisasm"
