"""What no launch of a kernel can be is said before a compiler starts, or as soon as it knows."""

from __future__ import annotations

from typing import Any

import pytest

triton = pytest.importorskip("triton")

import triton.language as tl  # noqa: E402

import carver  # noqa: E402
from carver import Tensor as T  # noqa: E402
from carver.base.errors import CarverError, CompileError, ConfigError, NoCandidates  # noqa: E402
from carver.compiled.triton import sentence  # noqa: E402

ROWS, COLUMNS = 256, 262_144


@triton.jit
def double(x, y, COLS, BX: tl.constexpr, BY: tl.constexpr):
    at = (tl.program_id(0) * BX + tl.arange(0, BX)[:, None]) * COLS + tl.program_id(1) * BY + tl.arange(0, BY)[None, :]
    tl.store(y + at, tl.load(x + at) * 2)


@triton.jit
def matmul(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm, rn = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    rk, acc = tl.arange(0, BK), tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x, y = tl.load(a + rm[:, None] * K + k + rk[None, :]), tl.load(b + (k + rk)[:, None] * N + rn[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(tl.float16))


def ranked(arch: str, configs: list[dict[str, int]]) -> carver.Ranking:
    tensor = T("float16", (ROWS, COLUMNS))

    def grid(c: dict[str, Any]) -> tuple[int, int]:
        return ROWS // c["BX"], COLUMNS // c["BY"]

    return carver.rank_kernel(double, configs, args={"x": tensor, "y": tensor, "COLS": COLUMNS}, grid=grid, arch=arch)


@pytest.mark.slow
def test_a_grid_has_at_most_65535_programs_along_y() -> None:
    """CUDA C++ Programming Guide, technical specifications per compute capability."""
    ranking = ranked("a100", [{"BX": 256, "BY": 4}, {"BX": 256, "BY": 8}])
    assert ranking.indices == [1] and "65,536 programs along y" in ranking.reasons[0] and "65,535" in ranking.reasons[0]
    assert ranked("mi300x", [{"BX": 256, "BY": 4}]).indices == [0]


def test_a_block_has_at_most_1024_threads() -> None:
    ranking = ranked("a100", [{"BX": 256, "BY": 64, "num_warps": w} for w in (4, 128)])
    assert ranking.reasons == {1: "it has 4096 threads, a block may have 1024"}
    with pytest.raises(NoCandidates, match="2048 threads"):
        ranked("mi300x", [{"BX": 256, "BY": 64, "num_warps": 32}])
    with pytest.raises(CompileError, match="4096 threads, a block may have 1024"):
        carver.inspect(
            double, args={"x": T("float16", (64,)), "y": T("float16", (64,)), "COLS": 64}, arch="a100",
            config={"BX": 256, "BY": 64, "num_warps": 128},
        )  # fmt: skip


def square(arch: str, configs: list[dict[str, int]], n: int = 2560) -> carver.Ranking:
    args = {name: T("float16", (n, n)) for name in "abc"} | {"N": n, "K": n}
    return carver.rank_kernel(
        matmul, configs, args=args, arch=arch, grid=lambda c: (n // c["BM"], n // c["BN"])
    )


@pytest.mark.slow
def test_a_tile_beyond_lds_is_refused_before_its_code_is_generated() -> None:
    """Two copies of (128 + 128) x 128 halves are 131,072 bytes; LLVM takes minutes for tiles of heads of 512."""
    with pytest.raises(NoCandidates, match="it needs 131,072 bytes of shared memory, a block may have 65,536"):
        square("radeon_8060s", [{"BM": 128, "BN": 128, "BK": 128, "num_warps": 4, "num_stages": 3}])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"BM": 128, "BN": 256, "BK": 64, "num_warps": 8, "num_stages": 6},
         "it needs 294,912 bytes of shared memory, a block may have 232,448"),
        ({"BM": 256, "BN": 256, "BK": 64, "num_warps": 1, "num_stages": 2},
         "a thread holds 2,048 numbers of a product, it has 255 registers"),
        ({"BM": 256, "BN": 256, "BK": 64, "num_warps": 16, "num_stages": 2}, "Insufficient registers .128. to compile"),
    ],
)  # fmt: skip
def test_what_no_block_or_thread_can_hold_is_refused_with_its_figure(config: dict[str, int], why: str) -> None:
    """The first two before NVIDIA's back end begins, which would take minutes for the second; the third by ptxas."""
    with pytest.raises(NoCandidates, match=why):
        square("h100", [config])


def test_an_mi100_is_read_too() -> None:
    """Triton's tutorial reaches 81 TFLOP/s at 2560 cubed (ROCm/triton 396), rocBLAS 119."""
    ranking = square("mi100", [{"BM": 128, "BN": 128, "BK": 32, "num_warps": w, "num_stages": 2} for w in (4, 8)])
    assert 60 < 2 * 2560**3 / ranking[0].predicted_ms / 1e9 < 150


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match=r"inspect\(\) needs arch"):
        carver.inspect(double)
    with pytest.raises(ConfigError, match=r"rank_kernel\(\) needs arch"):
        carver.rank_kernel(double)
    with pytest.raises(CarverError, match=r"read from compute capability 7\.5 on"):
        ranked("v100", [{"BX": 256, "BY": 64}])


def test_an_assembler_that_lacks_the_device_says_so() -> None:
    """As Triton 3.6's own ptxas of a Jetson Thor."""
    from triton.runtime.errors import PTXASError

    said = "Value 'sm_110a' is not defined for option 'gpu-name'"
    told = f"Internal Triton PTX codegen error\n`ptxas` stderr:\nptxas-blackwell fatal   : {said}\n\nRepro command: x"
    assert sentence(PTXASError(told)) == "PTXASError: no sm_110a; TRITON_PTXAS_BLACKWELL_PATH may name a newer ptxas"
