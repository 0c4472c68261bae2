"""What blocks of machine code ask of an H100, by kernels that differ in one thing. Needs nvcc and nvdisasm, no GPU."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from test_execution import NVCC, f32, i32

from carver.arch.devices import load
from carver.compiled.binary import Binary
from carver.compiled.execution.facts import facts_of_binary
from carver.compiled.facts import Facts
from carver.cost.models.compiled import Shape, price_compiled, shape_of

H100 = load("h100")
SOURCE = """
#define SUMMED(name, last) extern "C" __global__ void name(const float* x, float* y, int times) { \\
    extern __shared__ float held[]; \\
    int i = threadIdx.x; \\
    float v = x[blockIdx.x * blockDim.x + i]; \\
    _Pragma("unroll 1") for (int k = 0; k < times; ++k) v = (v * 1.5f + 0.5f) * 0.25f + v; \\
    held[i] = v; \\
    __syncthreads(); \\
    if (i >= last) return; \\
    _Pragma("unroll 1") for (int j = i % 32 + 32; j < blockDim.x; j += 32) v += held[j]; \\
    y[blockIdx.x * 32 + i % 32] = v; \\
}
SUMMED(summed_by_a_warp, 32)
SUMMED(summed_by_all, 1024)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("laws")
    (folder / "k.cu").write_text(SOURCE)
    command = [str(NVCC), "-cubin", "-arch=sm_90", "-o", str(folder / "k.cubin"), str(folder / "k.cu")]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "k.cubin"


def of(built: Path, entry: str, *args: object, grid: int = 1024, **more: int) -> tuple[Facts, Shape]:
    facts = facts_of_binary(Binary(str(built), entry, args, grid, 256, **more), H100)  # type: ignore[arg-type]
    return facts, shape_of(facts, H100)


@pytest.mark.parametrize("shared_bytes", [1024, 200_000])
def test_a_warp_that_finishes_a_block_does_not_do_all_of_its_work(built: Path, shared_bytes: int) -> None:
    """Where all warps add up what one does, a block does more, and it was said to take less than half of the time."""
    found = [of(built, entry, f32(1 << 20), f32(1 << 20), i32(2000), shared_bytes=shared_bytes)
             for entry in ("summed_by_a_warp", "summed_by_all")]  # fmt: skip
    one, all_ = (float(price_compiled([facts], H100)[1].seconds[0]) for facts, _ in found)
    assert [facts.warps for facts, _ in found] == [8, 8]
    assert 0.97 * all_ < one <= all_
    assert found[0][1].issue_clk < found[1][1].issue_clk
