"""Times that others published of kernels, against what carver says of such a kernel's machine code, with no GPU."""

from __future__ import annotations

import pytest

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

import carver  # noqa: E402
from carver import Tensor  # noqa: E402
from carver.base.errors import NoCandidates  # noqa: E402


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # type: ignore[no-untyped-def]
    tall, wide = tl.cdiv(M, BM), tl.cdiv(N, BN)
    place = tl.program_id(0)
    first = place // (8 * wide) * 8
    size = min(tall - first, 8)
    m = (first + place % (8 * wide) % size) * BM + tl.arange(0, BM)
    n = place % (8 * wide) // size * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        left = tl.load(a + m[:, None] * K + start + k[None, :])
        total = tl.dot(left, tl.load(b + n[None, :] * K + (start + k)[:, None]), total)
    tl.store(c + m[:, None] * N + n[None, :], total.to(tl.float16))


@triton.jit
def rms_norm(x, w, y, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    inside = (row < M)[:, None] & (column < N)[None, :]
    place = row[:, None] * N + column[None, :]
    value = tl.load(x + place, inside, other=0.0).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(value * value, 1) / N + 1e-6)
    weight = tl.load(w + column, column < N, other=0.0).to(tl.float32)
    tl.store(y + place, (value * scale[:, None] * weight[None, :]).to(tl.float16), inside)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "dtype", "n", "tile", "tflops"),
    [
        # zzc0721/torch-performance-test-data: float16 by cuBLAS, whose tiles fill an SM as this one does
        ("rtx_4090", "float16", 8192, {"BM": 128, "BN": 256, "BK": 32, "num_stages": 3, "num_warps": 8}, 155.5),
        # triton-lang/triton 3546: the tutorial's matmul of float8 on an H100
        ("h100_sxm", "float8_e5m2", 3584, {"BM": 128, "BN": 256, "BK": 128, "num_stages": 3, "num_warps": 8}, 1280),
    ],
)
def test_matmuls(device: str, dtype: str, n: int, tile: dict[str, int], tflops: float) -> None:
    args = {"a": Tensor(dtype, (n, n)), "b": Tensor(dtype, (n, n)), "c": Tensor("float16", (n, n))}
    [hint] = carver.rank_kernel(
        matmul, [tile], args=args | dict.fromkeys("MNK", n), arch=device,
        grid=lambda c: (triton.cdiv(n, c["BM"]) * triton.cdiv(n, c["BN"]),),
    )  # fmt: skip
    assert 2 * n**3 / hint.predicted_ms / 1e9 == pytest.approx(tflops, rel=0.25)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "m", "n", "rows", "warps", "us"),
    [("mi308x", 16380, 1536, 1, 2, 54.95), ("mi308x", 364800, 128, 16, 1, 74.5), ("mi355x", 364800, 128, 32, 4, 27.19)],
)
def test_rows_of_amd(device: str, m: int, n: int, rows: int, warps: int, us: float) -> None:
    """ROCm/aiter 1350: RMS norm of many short rows in float16, after tuning."""
    args = {"x": Tensor("float16", (m, n)), "w": Tensor("float16", (n,)), "y": Tensor("float16", (m, n))}
    config = {"ROWS": rows, "BLOCK": triton.next_power_of_2(n), "num_warps": warps}
    [hint] = carver.rank_kernel(
        rms_norm, [config], args=args | {"M": m, "N": n}, arch=device, grid=(triton.cdiv(m, rows),)
    )
    assert hint.predicted_ms * 1e3 == pytest.approx(us, rel=0.25)


def test_the_bytes_that_a_tile_lacks_are_those_of_triton() -> None:
    """vllm-project/vllm 17744: 73,728 bytes required, 65,536 there, with three stages on an MI300X."""
    tile = {"BM": 16, "BN": 128, "BK": 128, "num_stages": 3, "num_warps": 4}
    shapes = {"a": (64, 4096), "b": (4096, 4096), "c": (64, 4096)}
    args = {name: Tensor("bfloat16", shape) for name, shape in shapes.items()} | {"M": 64, "N": 4096, "K": 4096}
    with pytest.raises(NoCandidates, match=r"it needs 73,728 bytes of shared memory, a block may have 65,536"):
        carver.rank_kernel(matmul, [tile], args=args, arch="mi300x", grid=(4 * 32,))
