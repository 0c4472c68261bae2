"""Which element types each generation multiplies, and what the others cost: declared, against what compilers emit.

The facts are of Triton 3.6's assembly for a tile of 128 x 128 x 64 with 4 warps, and for the conversion of 8 elements
a lane to half precision.
"""

from __future__ import annotations

import pytest

import carver
from carver.kernels.expr import static_scope, warp_matrix_unit

OCP, AMD = ("float8_e4m3", "float8_e5m2"), ("float8_e4m3fnuz", "float8_e5m2fnuz")
EMITTED = [  # device, type, type that the matrix instruction takes, vector instructions an element to get there
    ("mi100", "float8_e4m3", "float16", 27), ("mi100", "float8_e5m2", "float16", 1.6), ("mi100", AMD[0], None, 0),
    ("mi250x_gcd", "float8_e4m3", "float16", 27), ("mi250x_gcd", "float8_e5m2", "float16", 1.6),
    ("mi250x_gcd", AMD[0], None, 0), ("mi250x_gcd", AMD[1], None, 0),
    ("mi300x", "float8_e4m3", "float16", 27), ("mi300x", "float8_e5m2", "float16", 1.6),
    ("mi300x", AMD[0], AMD[0], 0), ("mi300x", AMD[1], AMD[1], 0),
    ("mi355x", "float8_e4m3", "float8_e4m3", 0), ("mi355x", "float8_e5m2", "float8_e5m2", 0),
    ("mi355x", AMD[0], "float16", 27), ("mi355x", AMD[1], "float16", 12),
    ("rx_7900_xtx", "float8_e5m2", "float16", 1.6), ("rx_7900_xtx", AMD[1], "float16", 12),
    ("rx_9070_xt", "float8_e4m3", "float8_e4m3", 0), ("rx_9070_xt", "float8_e5m2", "float8_e5m2", 0),
    ("rx_9070_xt", AMD[0], "float16", 27), ("rx_9070_xt", AMD[1], "float16", 12),
    ("rx_6900_xt", "float8_e4m3", None, 0), ("a100", "float8_e5m2", "float16", 0),
    ("rtx_4090", "float8_e4m3", OCP[0], 0),
]  # fmt: skip


def matmul(dtype: str, size: int = 4096) -> carver.MatmulTemplate:
    return carver.MatmulTemplate(size, size, size, in_dtype=dtype, out_dtype="float16")


@pytest.mark.parametrize(("device", "dtype", "multiplied", "instructions"), EMITTED)
def test_the_instruction_is_the_one_that_compilers_emit(
    device: str, dtype: str, multiplied: str | None, instructions: float
) -> None:
    arch, problem = carver.load_arch(device), matmul(dtype).problem
    unit = warp_matrix_unit(problem, arch)
    assert (unit and unit.dtype) == multiplied
    assert static_scope(problem, arch)["widen_instr"] == instructions


@pytest.mark.parametrize(
    ("device", "own", "other"),
    [("mi300x", AMD[0], OCP[0]), ("mi355x", OCP[0], AMD[0]), ("rx_9070_xt", OCP[0], AMD[0])],
)
def test_a_type_that_is_converted_is_no_faster_than_half_precision(device: str, own: str, other: str) -> None:
    """By machine code the emulated products reach 59 (MI300X) and 66 TFLOP/s (MI355X); people measured 18 there."""
    ms = {}
    for dtype in ("float16", own, other):
        ranking = matmul(dtype).with_arch(device).recommend_hints(1, "triton")
        ms[dtype] = ranking[0].predicted_ms
        told = [note for note in ranking.notes if "converted to float16 by about 27 instructions" in note]
        assert len(told) == (dtype == other)
    assert ms[own] < 0.8 * ms["float16"] and 2 * ms["float16"] < ms[other]
    assert 15 < 2 * 4096**3 / ms[other] / 1e9 < 130


def test_emulated_attention_takes_its_conversions() -> None:
    size = dict(heads=32, seq=4096, head_dim=128)
    half, eight, own = (
        carver.FlashAttentionTemplate(**size, in_dtype=dtype).with_arch("mi300x").recommend_hints(1)[0].predicted_ms
        for dtype in ("float16", "float8_e4m3", "float8_e4m3fnuz")
    )
    assert own <= half and eight > 1.5 * half


@pytest.mark.parametrize(("device", "backend"), [("h100", "triton"), ("h100", "cuda"), ("rtx_4090", "tilelang")])
def test_no_other_vendor_multiplies_floats_of_amd(device: str, backend: str) -> None:
    with pytest.raises(carver.CarverError, match="8-bit floats of AMD"):
        matmul(AMD[0]).with_arch(device).recommend_hints(1, backend)


def test_files_for_serving_are_of_the_type_that_the_device_has() -> None:
    """vLLM and SGLang store weights as fnuz on an MI300X."""
    from carver.export import vllm

    def types(device: str) -> set[str]:
        file = vllm.moe(carver.load_arch(device), 8, 2, 1024, 768, "fp8_w8a8", batches=[64])
        return {hint.problem.dtypes["A"] for hint in file.hints[64]}

    assert types("mi300x") == {"float8_e4m3fnuz"} and types("mi355x") == {"float8_e4m3"} == types("h200")
    assert types("pro_w7900") == {"float8_e4m3"}
    with pytest.raises(carver.CarverError, match="compiles no kernel"):
        types("a100")
