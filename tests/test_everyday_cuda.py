"""CUDA kernels as users of tuners write them, for three targets: passes, bytes and products against counts by hand."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from everyday import facts_of, halves, ints, moved
from test_execution import f32, i32

import carver
from carver.arch.descriptor import Arch
from carver.arch.devices import load
from carver.base.errors import DeviceError
from carver.compiled.isa.sass import tool

SOURCE = Path(__file__).parent / "languages" / "everyday.cu"
ARCH = {80: "a100_80gb", 90: "h100", 120: "rtx_5090"}


def _tools() -> bool:
    try:
        return shutil.which("nvcc") is not None and tool().is_file()
    except DeviceError:
        return False


pytestmark = [pytest.mark.skipif(not _tools(), reason="no nvcc or no nvdisasm"), pytest.mark.slow]


@pytest.fixture(
    scope="module",
    params=[pytest.param(sm, marks=() if sm == 90 else pytest.mark.exhaustive) for sm in ARCH],
)
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Arch]:
    """The code of all kernels for a device."""
    out = tmp_path_factory.mktemp("code") / "everyday.cubin"
    command = ["nvcc", "-cubin", f"-arch=sm_{request.param}", "-std=c++17", "-O3", str(SOURCE), "-o", str(out)]
    subprocess.run(command, check=True, timeout=300, capture_output=True)
    return out.read_bytes(), load(ARCH[request.param])


N, M = 1_000_003, 1024
GEMM = [*[f32(M, M)] * 3, *[i32(M)] * 3]
COUNTS: dict[str, tuple[Any, Any, Any, int, dict[str, float], float]] = {
    # grid, block, arguments, bytes of shared memory, bytes moved, passes of the loop that runs most
    "cg_reduce": (400, 256, [f32(N), f32(1), i32(N)], 0, {"l0": 4 * N, "a1": 1600}, N / 400 / 256),
    "cg_reduce_int": (400, 256, [ints(N), ints(1), i32(N)], 0, {"l0": 4 * N, "a1": 1600}, N / 400 / 256),
    "filter_aggregated": (400, 256, [ints(N), ints(N), ints(1), i32(N)], 0,
                          {"l0": 4 * N, "a2": 4 * N / 32, "s": 4 * N}, N / 400 / 256),
    "pipe_gemm": ((16, 16), 256, GEMM, 3 * 8192, {"l0": 4 * M * M * 16, "l1": 4 * M * M * 16, "s2": 4 * M * M}, 64),
    "mma_gemm": ((8, 8), 128, [*[carver.Tensor("bfloat16", (M, M))] * 2, f32(M, M), *[i32(M)] * 3],
                 3 * 16384, {"l0": 2 * M * M * 8, "l1": 2 * M * M * 8, "s2": 4 * M * M}, 32),
    "wmma_gemm": ((16, 16), 128, [halves(M, M), halves(M, M), f32(M, M), *[i32(M)] * 3], 0,
                  {"l0": 2 * M * M * 16, "l1": 2 * M * M * 16, "s2": 4 * M * M}, 32),
    "brx": (400, 256, [f32(102_400), f32(102_400), ints(400), i32(102_400), i32(2)], 0,
            {"l0": 409_600, "s1": 409_600}, 4),
    "hist": (320, 256, [carver.Tensor("uint8", (1 << 22, 4)), ints(256), i32(1 << 22)], 0,
             {"l0": 1 << 24, "a1": 1024 * 320}, 51.2),
    "block_copy": (264, 256, [f32(4096, 1024), f32(4096, 1024), i32(4096)], 0, {"l0": 1 << 24, "s1": 1 << 24}, 0),
    "bitonic": (500, 512, [ints(512_000), i32(512_000)], 4096, {"l0": 2_048_000, "s0": 2_048_000}, 55),
    "hotspot": ((43, 43), (32, 32), [*[f32(M, M)] * 3, *[i32(M)] * 2], 0,
                {"l0": 4 * M * M * (32 / 24) ** 2, "l1": 4 * M * M * (32 / 24) ** 2, "s2": 4 * M * M}, 0),
    "polygon": (1000, 256, [ints(1_024_000), f32(1_024_000, 2), f32(600, 2), *[i32(1_024_000)], i32(600)], 0,
                {"l1": 8_192_000, "s0": 4_096_000}, 0),
    "int8_gemv": (512, (32, 8), [ints(4096, 1024), ints(1024), ints(4096), i32(4096), i32(1024)], 0,
                  {"l0": 1 << 24, "l1": 4096 * 512, "s2": 16_384}, 0),
    # rows of 64 with a rim of 4, read as 32, 32 and 8: of the 12 sectors that these touch two are in L1 by then
    "conv9": ((32, 128), (32, 8), [*[f32(2048, 2048)] * 2, *[i32(2048)] * 2], 72 * 24 * 4,
              {"l0": 4096 * 24 * 288 * 10 / 12, "s1": 4 * 2048 * 2048}, 0),
}  # fmt: skip


@pytest.mark.parametrize("entry", COUNTS)
def test_counts_by_hand(target: tuple[bytes, Arch], entry: str) -> None:
    grid, block, args, shared_bytes, wanted, passes = COUNTS[entry]
    of = facts_of(*target, entry, grid, block, args, shared_bytes)
    found = {key: bytes_ for key, bytes_ in moved(of).items() if key in wanted}
    assert found == pytest.approx(wanted, rel=0.05)
    if passes:
        assert any(loop.trips == pytest.approx(passes, rel=0.01) for loop in of.loops)
    if entry in ("mma_gemm", "wmma_gemm"):
        assert of.dot_flops * of.programs == 2 * M**3


def test_switches_and_rows_by_given_numbers(target: tuple[bytes, Arch]) -> None:
    args = {"x": f32(102_400), "y": f32(102_400), "op": ints(400), "n": i32(102_400), "mode": i32(-1)}
    of = facts_of(*target, "brx", 400, 256, args, values={"op": np.arange(400) % 10})
    assert [loop.trips for loop in of.loops] == [4] and not of.assumed
    rows, each = 20_000, 7
    held = {"rows": np.arange(rows + 1) * each, "cols": np.random.default_rng(0).integers(0, rows, rows * each)}
    size = 4 * rows * each
    args = {"rows": ints(rows + 1), "cols": ints(rows * each), "vals": f32(rows * each), "x": f32(rows), "y": f32(rows)}
    of = facts_of(*target, "spmv", rows // 32, 256, {**args, "m": i32(rows)}, values=held)
    found = moved(of)
    assert [found[name] for name in ("lcols", "lvals", "lx", "sy")] == pytest.approx([size] * 3 + [4 * rows], rel=0.01)


def test_a_causal_row_for_each_thread(target: tuple[bytes, Arch]) -> None:
    """Warps of 32 rows run as far as their last one: 32, 64, ... of 2,048."""
    args = [*[halves(32, 2048, 64)] * 4, i32(32), i32(2048), np.float32(0.125)]
    of = facts_of(*target, "attend", (16, 32), 128, args)
    assert max(loop.trips for loop in of.loops) == pytest.approx(1040, rel=0.01)
    assert {key: moved(of)[key] for key in ("l1", "l2", "s3")} == pytest.approx(
        {"l1": 16 * 32 * 2048 * 128, "l2": 16 * 32 * 2048 * 128, "s3": 32 * 2048 * 128}
    )
