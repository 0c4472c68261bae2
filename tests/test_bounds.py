"""No prediction is below the roofline, and more work takes no less time: over operators, sizes, types and devices."""

from __future__ import annotations

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

import carver
from carver import ops
from carver.base.errors import ConfigError, KernelError, NoCandidates
from carver.cost.model import roofline_seconds

DEVICES = tuple(carver.arch_names())
FLOATS = ("float64", "float32", "tf32", "float16", "bfloat16", "float8_e4m3")
CONTRACTED = (*FLOATS, "int8", "int32")
BACKENDS = ("cuda", "triton", "cpu", "tilelang")
SLACK = 0.02
"""Share by which more work may be predicted to take less time: tilings that fit the larger problem better."""

extent = st.one_of(st.integers(1, 64), st.integers(0, 13).map(lambda e: 1 << e), st.integers(1, 8192))


@st.composite
def operators(draw: st.DrawFn) -> ops.operator.Template:
    """An operator of any kind with random sizes and types."""
    kind = draw(st.sampled_from([
        "matmul", "gemv", "elementwise", "reduction", "gated_mlp", "attention", "grouped_matmul", "matmul_softmax",
        "conv", "conv2d", "dedispersion", "transpose",
    ]))  # fmt: skip
    dtype = draw(st.sampled_from(CONTRACTED))
    narrow = draw(st.sampled_from(["float16", "bfloat16"]))
    match kind:
        case "matmul":
            turned = {"trans_A": draw(st.booleans()), "trans_B": draw(st.booleans())}
            sizes = draw(extent), draw(extent), draw(extent)
            return carver.MatmulTemplate(*sizes, batch=draw(st.sampled_from([1, 1, 3])), in_dtype=dtype, **turned)
        case "gemv":
            return carver.GEMVTemplate(draw(extent), draw(extent), trans_A=draw(st.booleans()), in_dtype=dtype)
        case "elementwise":
            shape, inputs = (draw(extent), draw(extent)), draw(st.integers(1, 3))
            return carver.ElementwiseTemplate(shape, dtype, inputs=inputs, broadcast=draw(st.integers(0, 1)))
        case "reduction":
            op = draw(st.sampled_from(["sum", "max", "mean", "softmax", "layer_norm", "rms_norm"]))
            shape, axis = (draw(extent), draw(extent)), draw(st.integers(0, 1))
            return carver.ReductionTemplate(op, shape, axis, draw(st.sampled_from(["float16", "float32"])))
        case "gated_mlp":
            return carver.GatedMLPTemplate(draw(extent), draw(extent), draw(extent), in_dtype=narrow)
        case "attention":
            seq = draw(st.sampled_from([1, 128, 1000, 4096]))
            return carver.FlashAttentionTemplate(2, 8, 4, seq, head_dim=64, causal=draw(st.booleans()), in_dtype=narrow)
        case "grouped_matmul":
            return carver.GroupedMatmulTemplate(draw(extent), draw(extent), draw(extent), experts=8, in_dtype=narrow)
        case "matmul_softmax":
            return carver.MatmulSoftmaxTemplate(draw(extent), draw(extent), draw(extent), in_dtype=narrow)
        case "conv":
            channels, filters, image = draw(extent), draw(extent), draw(st.integers(7, 128))
            return carver.ConvTemplate(2, channels, image, image, filters, 3, 3, in_dtype=narrow)
        case "conv2d":
            return carver.Conv2DTemplate(draw(extent), draw(extent), draw(st.integers(1, 17)), draw(st.integers(1, 17)))
        case "dedispersion":
            return carver.DedispersionTemplate(draw(extent), draw(extent), draw(st.integers(1, 1024)), max_delay=650)
        case _:
            return carver.OpTemplate("O[c,r] = X[r,c]", dtype, r=draw(extent), c=draw(extent))


def best(op: ops.operator.Template, name: str, backend: str) -> carver.Hint:
    """The first pick; what has no kernel there is passed over."""
    try:
        (hint,) = op.with_arch(name).recommend_hints(1, backend)
    except (ConfigError, KernelError, NoCandidates):
        reject()
    return hint


@pytest.mark.slow
@given(operators(), st.sampled_from(DEVICES), st.sampled_from(BACKENDS))
def test_no_prediction_is_below_compulsory_arithmetic_or_traffic(
    op: ops.operator.Template, name: str, backend: str
) -> None:
    hint = best(op, name, backend)
    arch = hint.arch
    assert hint.predicted_ms >= 1e3 * roofline_seconds(op.problem, arch)
    assert hint.details["dram_bytes"] >= op.problem.compulsory_bytes * (1 - 1e-9)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[ops.operator.Template, ops.operator.Template]:
    """A problem and one that is as large or larger along each axis, with rows that start on the same multiples."""
    kind = draw(st.sampled_from(["matmul", "matmul", "gemv", "elementwise", "reduction"]))
    dtype = draw(st.sampled_from(["float16", "float32", "float8_e4m3", "float64"]))
    step = draw(st.sampled_from([16, 64] if kind in ("matmul", "gemv") else [1, 8, 64]))

    def sizes() -> list[int]:
        drawn = [draw(extent) for _ in range(3)]
        return [2 * size + 1 if step == 1 else -(-size // step) * step for size in drawn]

    small = sizes()
    large = [max(pair) for pair in zip(small, sizes(), strict=True)]
    turned, other = draw(st.booleans()), draw(st.booleans())
    match kind:
        case "matmul":
            few, many = (
                carver.MatmulTemplate(*each, trans_A=turned, trans_B=other, in_dtype=dtype) for each in (small, large)
            )
        case "gemv":
            few, many = (carver.GEMVTemplate(*each[:2], trans_A=turned, in_dtype=dtype) for each in (small, large))
        case "elementwise":
            few, many = (carver.ElementwiseTemplate(each[:2], dtype) for each in (small, large))
        case _:
            op = draw(st.sampled_from(["sum", "max", "mean", "softmax", "layer_norm", "rms_norm"]))
            few, many = (carver.ReductionTemplate(op, each[:2], int(turned), "float16") for each in (small, large))
    return few, many


@given(pairs(), st.sampled_from(DEVICES), st.sampled_from(BACKENDS))
def test_more_work_is_not_predicted_to_take_less_time(
    pair: tuple[ops.operator.Template, ops.operator.Template], name: str, backend: str
) -> None:
    few, many = (best(op, name, backend) for op in pair)
    assert few.predicted_ms <= many.predicted_ms * (1 + SLACK), (few.config, many.config)


def columns(rows: int, cols: int) -> ops.operator.Template:
    return carver.ReductionTemplate("mean", (rows, cols), axis=0)


@pytest.mark.parametrize(("few", "many", "name"), [
    (carver.ReductionTemplate("mean", (2, 1144)), carver.ReductionTemplate("mean", (6, 3432)), "cpu_avx512"),
    (columns(2, 6), columns(16, 6), "cpu_avx512"),
    (carver.MatmulTemplate(16, 256, 256), carver.MatmulTemplate(112, 256, 256), "mi100"),
    (carver.MatmulTemplate(16, 16, 16), carver.MatmulTemplate(128, 128, 128), "mi100"),
    (carver.GEMVTemplate(16, 64, trans_A=True, in_dtype="float8_e4m3"),
     carver.GEMVTemplate(512, 64, trans_A=True, in_dtype="float8_e4m3"), "mi250x_gcd"),
    (carver.ReductionTemplate("sum", (2816, 64), axis=0, in_dtype="float32"),
     carver.ReductionTemplate("sum", (4096, 64), axis=0, in_dtype="float32"), "p100_sxm2"),
    (carver.GEMVTemplate(39872, 16, batch=7), carver.GEMVTemplate(39872, 32, batch=7), "pro_w7600"),
    (carver.ScaledMatmulTemplate(4096, 16, 4096), carver.ScaledMatmulTemplate(4096, 32, 4096), "rtx_4090"),
    (carver.ReductionTemplate("mean", (1_000_000, 11), in_dtype="int8"),
     carver.ReductionTemplate("mean", (1_000_000, 13), in_dtype="int8"), "h100_sxm"),
    (carver.ReductionTemplate("softmax", (1_000_000, 2)), carver.ReductionTemplate("softmax", (1_000_000, 10)), "t4"),
])  # fmt: skip
def test_pairs_that_stood_the_wrong_way_round(
    few: ops.operator.Template, many: ops.operator.Template, name: str
) -> None:
    pair = (op.with_arch(name).recommend_hints(1)[0].predicted_ms for op in (few, many))
    assert next(pair) <= next(pair) * (1 + SLACK)


def test_a_gated_mlp_reads_its_input_and_both_weights() -> None:
    op = carver.GatedMLPTemplate(32768, 128, 8192, in_dtype="bfloat16")
    (hint,) = op.with_arch("h200_sxm").recommend_hints(1)
    once = 2 * (32768 * 8192 + 2 * 128 * 8192 + 32768 * 128)
    assert hint.details["dram_bytes"] >= op.problem.compulsory_bytes == once


def test_integers_add_up_in_integers_and_are_multiplied_no_faster_than_a_cpu_can() -> None:
    op = carver.MatmulTemplate(4096, 4096, 4096, in_dtype="int32")
    assert op.problem.accumulate == "int32"
    assert carver.MatmulTemplate(8, 8, 8, in_dtype="int32", b_dtype="float32").problem.accumulate == "float32"
    (hint,) = op.with_arch("cpu_avx2").recommend_hints(1)
    assert hint.predicted_ms >= 1e3 * roofline_seconds(op.problem, hint.arch)


def test_a_last_wave_that_counts_less_takes_its_arithmetic() -> None:
    """Of 4.8 waves bound by arithmetic at its full rate, the last one counts 0.98."""
    op = carver.MatmulTemplate(16, 12288, 4096, in_dtype="float64")
    (hint,) = op.with_arch("jetson_orin_nano_8").recommend_hints(1, "tilelang")
    assert hint.predicted_ms >= 1e3 * roofline_seconds(op.problem, hint.arch)


@pytest.mark.parametrize(("op", "backend", "name"), [
    (carver.MatmulTemplate(16, 16, 1_000_000, in_dtype="float32"), "cuda", "h200_sxm"),
    (carver.MatmulTemplate(16, 16, 1_000_000, in_dtype="float32"), "triton", "mi300x"),
    (carver.MatmulTemplate(64, 64, 1_000_000, in_dtype="float64"), "cuda", "a100_sxm_80"),
    (carver.GEMVTemplate(1, 100_000_000, in_dtype="float32"), "cuda", "h200_sxm"),
], ids=["simt", "triton", "mma", "gemv"])  # fmt: skip
def test_a_long_sum_of_few_results_is_split_until_it_gains_nothing(
    op: ops.operator.Template, backend: str, name: str
) -> None:
    (hint,) = op.with_arch(name).recommend_hints(1, backend)
    assert hint.split_k is not None and hint.split_k >= 64


def test_short_rows_of_a_matrix_that_is_multiplied_are_one_run() -> None:
    (hint,) = carver.GEMVTemplate(4_000_000, 8).with_arch("h200_sxm").recommend_hints(1)
    assert hint.details["dram_bytes"] <= 1.05 * hint.problem.compulsory_bytes


@pytest.mark.parametrize("name", ["h200_sxm", "rtx_4090", "mi300x"])
@pytest.mark.parametrize("few", [2, 8, 16])
def test_a_narrow_matrix_is_transposed_as_fast_in_both_directions(few: int, name: str) -> None:
    """Rows that a tile stores whole lie one after the other, as those do that it reads whole."""
    ways = (carver.TransposeTemplate(few, 10_000_000), carver.TransposeTemplate(10_000_000, few))
    one, other = (op.with_arch(name).recommend_hints(1)[0].predicted_ms for op in ways)
    assert 0.95 <= one / other <= 1.05


@pytest.mark.parametrize("name", ["rtx_4090", "rx_7900_xtx"])
def test_a_product_of_few_columns_stores_whole_rows_as_one_run(name: str) -> None:
    """Each row of two halves is an eighth of a sector, or a thirty-second."""
    few, many = (carver.MatmulTemplate(1_000_000, n, 64).with_arch(name).recommend_hints(1, "triton") for n in (2, 16))
    assert few[0].predicted_ms <= 0.9 * many[0].predicted_ms
