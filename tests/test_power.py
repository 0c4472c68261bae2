"""Products that the power limit slows, and products that share the vector units."""

from __future__ import annotations

import numpy as np
import pytest

import carver
from carver.compiled.isa import rates
from carver.cost.estimate import Work, moving_clk


def matmul(arch: carver.Arch | str, size: int, tiles: dict[tuple[int, int], int]) -> dict[tuple[int, int], float]:
    """Milliseconds by tile, of warps given for each."""
    op = carver.MatmulTemplate(size, size, size, in_dtype="bfloat16", trans_B=True).with_arch(arch)
    configs = [
        {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": 64, "num_warps": warps, "num_stages": 2, "GROUP_M": 8}
        for (m, n), warps in tiles.items()
    ]  # fmt: skip
    return {(h.config["BLOCK_M"], h.config["BLOCK_N"]): h.predicted_ms for h in op.rank(configs, backend="triton")}


def test_an_emptier_last_wave_costs_nothing_where_power_is_the_limit() -> None:
    """ROCm/tritonBLAS issue 76: on an MI300X, 256 x 256 x 64 is faster than 128 x 128 x 64 at 8192 cubed, although its
    1,024 blocks fill 304 compute units 3.4 times and those of 128 x 128 13.5 times."""
    tiles = {(256, 256): 8, (128, 128): 4}
    limited = matmul("mi300x", 8192, tiles)
    assert limited[256, 256] < limited[128, 128]
    free = matmul(carver.load_arch("mi300x").replace(sustained_matrix_clock_hz=2.1e9), 8192, tiles)
    assert free[256, 256] > free[128, 128]


@pytest.mark.parametrize("size", [6144, 12288, 16384])
def test_sizes_beside_it_agree(size: int) -> None:
    """Tuned kernels of the MI300X use 256 x 256 where it fills six tenths of the device (AMD-AGI/Primus-Turbo 272)."""
    times = matmul("mi300x", size, {(256, 256): 8, (128, 128): 4})
    assert times[256, 256] < 1.02 * times[128, 128]


def test_few_products_run_at_the_full_clock() -> None:
    arch = carver.load_arch("h100_pcie")
    free = arch.replace(sustained_matrix_clock_hz=arch.matrix_clock_hz)
    one, other = (
        carver.MatmulTemplate(16, 8192, 8192).with_arch(a).recommend_hints(1, "triton")[0].predicted_ms
        for a in (arch, free)
    )
    assert one == pytest.approx(other, rel=1e-3)


def test_kernels_on_vector_units_know_no_such_limit() -> None:
    arch = carver.load_arch("rx_7900_xtx")
    free = arch.replace(sustained_matrix_clock_hz=arch.matrix_clock_hz)
    one, other = (
        carver.MatmulTemplate(2048, 2048, 2048, in_dtype="float32").with_arch(a).recommend_hints(1, "triton")[0]
        for a in (arch, free)
    )
    assert one.predicted_ms == other.predicted_ms


def test_bytes_take_energy_from_products() -> None:
    """Horowitz, ISSCC 2014: 12.5 pJ for a byte of 1 MB of SRAM, 2.5 of 32 KB, 1 for an operation of halves. A compute
    unit of the MI300X makes 2,048 of them a clock, and the limit takes 2.1 / 1.31 of the time."""
    one = np.ones(1)
    work = Work(
        grid=one, resident=one, warps=one, steps=one, ahead=one, math_clk=one, chain_clk=one, fill_bytes=4096 * one,
        l2_bytes=one, l2_read_bytes=one, dram_bytes=one, l3_bytes=one, smem_clk=100 * one,
    )  # fmt: skip
    clk = (12.5 * 4096 + 2.5 * 100 * 128) / 2048 * 2.1e9 / 1.31e9
    assert moving_clk(work, carver.load_arch("mi300x")) == pytest.approx(clk)


def test_attention_of_an_h100_pcie() -> None:
    """Dao-AILab/flash-attention issue 1777: Triton reaches 230 to 248 TFLOP/s, FlashAttention 3 243 to 323."""
    op = carver.FlashAttentionTemplate(batch=16, heads=32, seq=1024, head_dim=64, causal=False).with_arch("h100_pcie")
    tflops = 4 * 16 * 32 * 1024 * 1024 * 64 / op.recommend_hints(1, "triton")[0].predicted_ms / 1e9
    assert 0.75 * 230 <= tflops <= 1.25 * 248


ATTENTION = [("rx_7900_xtx", 64, 1.5 * 47.6), ("rx_9070_xt", 128, 103.0), ("radeon_8060s", 128, 37.0)]
"""ROCm/flash-attention issue 27; carlushuang/gcnasm 24, the best of hand-written kernels; AMD-AGI/TraceLens 943, of
which this is the rate of a pure product."""


@pytest.mark.parametrize(("arch", "head", "most"), ATTENTION)
def test_attention_of_rdna(arch: str, head: int, most: float) -> None:
    op = carver.FlashAttentionTemplate(batch=4, heads=32, seq=4096, head_dim=head, causal=False).with_arch(arch)
    tflops = 4 * 4 * 32 * 4096 * 4096 * head / op.recommend_hints(1, "triton")[0].predicted_ms / 1e9
    assert 0.4 * most < tflops < most


def test_tables_of_instructions_say_which_products_share_vector_units() -> None:
    for name in carver.arch.devices.names():
        arch = carver.load_arch(name)
        if arch.vendor == "amd" and arch.matrix:
            assert (rates.table(arch.isa).matrix_pipe == "valu") == arch.matrix_on_vector, name
