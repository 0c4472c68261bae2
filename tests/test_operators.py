"""One file an operator: what each says of itself fits its template, its notation and its kernels."""

from __future__ import annotations

import runpy
import time
import tomllib
from collections.abc import Mapping
from inspect import signature
from math import prod
from pathlib import Path

import numpy as np
import pytest

import carver
from carver.base.errors import NoCandidates, ProblemError
from carver.base.folders import folder
from carver.ops import operator
from carver.ops.transpose import TransposeTemplate
from carver.problem import notation
from carver.problem.problem import operator_files
from carver.run import check as reference

OPERATORS = list(operator.operators().values())


def test_every_folder_of_kernels_has_its_operator() -> None:
    assert set(operator_files()) <= set(operator.operators())


def test_an_unknown_operator_names_the_nearest() -> None:
    with pytest.raises(ProblemError, match="no operator 'matmull'; did you mean 'matmul'"):
        operator.named("matmull")


@pytest.mark.parametrize("each", OPERATORS, ids=lambda o: o.name)
def test_what_a_template_needs_is_positional_on_the_command_line(each: operator.Operator) -> None:
    parameters = signature(each.template).parameters
    needed = {name for name, p in parameters.items() if p.default is p.empty}
    assert needed <= {name for name, told in each.arguments.items() if isinstance(told, Mapping) and "help" not in told}


def test_the_file_of_arguments_describes_parameters_alone() -> None:
    """What is left of one that went would be read as if it were there."""
    said = tomllib.loads((folder("templates") / "arguments.toml").read_text())
    taken = {each.name: {*signature(each.template).parameters} for each in OPERATORS}
    assert said.pop("shared").keys() <= set().union(*taken.values())
    assert {f"{name} {argument}" for name, told in said.items() for argument in told.keys() - taken[name]} == set()


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)


def inputs(template: carver.ops.operator.Template) -> dict[str, np.ndarray]:
    return {name: x.astype(np.float64) for name, x in reference.draw(template.problem, 3).items()}


@pytest.mark.parametrize("causal", [False, True])
def test_reference_of_attention(causal: bool) -> None:
    op = carver.FlashAttentionTemplate(2, 4, 2, seq=3, seq_kv=5, head_dim=8, causal=causal, value_dim=6)
    x = inputs(op)
    value, magnitude = reference.expected(op.problem, x)
    for z, h, g, q in np.ndindex(2, 2, 2, 3):
        keys = 5 - 2 + q if causal else 5
        weights = softmax(x["K"][z, h, :keys] @ x["Q"][z, h, g, q])
        np.testing.assert_allclose(value[z, h, g, q], weights @ x["V"][z, h, :keys], rtol=1e-13)
    assert (magnitude >= abs(value)).all()


@pytest.mark.parametrize("trans_b", [False, True])
def test_reference_of_a_gated_mlp(trans_b: bool) -> None:
    op = carver.GatedMLPTemplate(3, 5, 4, trans_B=trans_b)
    x = inputs(op)
    gate, up = (x["A"] @ (w.T if trans_b else w) for w in x["W"])
    value, magnitude = reference.expected(op.problem, x)
    np.testing.assert_allclose(value, gate / (1 + np.exp(-gate)) * up, rtol=1e-13)
    assert (magnitude >= abs(value)).all()


def test_reference_of_a_matmul_and_its_softmax() -> None:
    op = carver.MatmulSoftmaxTemplate(3, 5, 4, batch=2)
    x = inputs(op)
    value, magnitude = reference.expected(op.problem, x)
    np.testing.assert_allclose(value, softmax(x["A"] @ x["B"]), rtol=1e-13)
    assert (magnitude >= value).all()


def test_a_block_sparse_mask_has_no_reference() -> None:
    op = carver.FlashAttentionTemplate(seq=4, seq_kv=8, visited=4)
    with pytest.raises(ProblemError, match="how many keys are visited and not which"):
        reference.expected(op.problem, inputs(op))


@pytest.mark.parametrize(
    ("computes", "sizes", "rows", "cols", "batch"),
    [
        ("B[j,i] = A[i,j]", {"i": 6, "j": 4}, 6, 4, 1),
        ("O[n,d,s] = I[n,s,d]", {"n": 3, "d": 4, "s": 5}, 5, 4, 3),
        ("O[c,h,w] = I[h,w,c]", {"c": 3, "h": 4, "w": 5}, 20, 3, 1),
    ],
)
def test_a_transpose_in_notation(computes: str, sizes: dict[str, int], rows: int, cols: int, batch: int) -> None:
    asked, named = carver.OpTemplate(computes, **sizes).problem, TransposeTemplate(rows, cols, batch).problem
    assert asked == named
    x = inputs(TransposeTemplate(rows, cols, batch))
    np.testing.assert_array_equal(reference.expected(asked, x)[0], x["X"].transpose(0, 2, 1))


@pytest.mark.parametrize("computes", ["B[j,i,d] = A[i,j,d]", "B[i,j] = A[i,j]", "B[j,i] = A[i,j] + C[j,i]"])
def test_what_is_no_transpose_of_a_matrix(computes: str) -> None:
    axes = {"i": 4, "j": 5} | ({"d": 6} if "d" in computes else {})
    assert carver.OpTemplate(computes, **axes).problem.operator == "elementwise"


@pytest.mark.parametrize(
    ("computes", "as_ours", "rows"),
    [
        ("Z[i,j] = A[i,j] * s[i]", "Y[r,c] = X0[r,c] * X1[r]", 4),
        ("Z[i,j,k] = s[j,k] + A[i,j,k]", "Y[r,c] = X0[r,c] + X1[c]", 4),
        ("Z[i,j,k] = A[i,j,k] * s[i,j]", "Y[r,c] = X0[r,c] * X1[r]", 20),
        ("Z[i,j] = u[i] * v[j]", "Y[r,c] = X0[r] * X1[c]", 4),
        ("Z[i,j,k] = A[i,j,k] * u[i] + v[j,k]", "Y[r,c] = X0[r,c] * X1[r] + X2[c]", 4),
    ],
)
def test_operands_repeated_along_either_axis(computes: str, as_ours: str, rows: int) -> None:
    sizes = {"i": 4, "j": 5} | ({"k": 6} if "k" in computes else {})
    problem = carver.OpTemplate(computes, **sizes).problem
    assert (problem.operator, problem.computes, problem.written) == ("elementwise", as_ours, computes)
    assert problem.sizes == {"r": rows, "c": prod(sizes.values()) // rows}


@pytest.mark.parametrize("backend", ["cuda", "cpu"])
@pytest.mark.parametrize("computes", [
    "Z[i,j,k] = A[i,j,k] * s[j]", "Z[i,j,k] = A[i,j,k] + s[i,k]", "Z[i,j,k] = A[i,j,k] * u[i] + v[k]",
    "Z[i,k,j] = A[i,j,k] + B[i,k,j]", "R[i,k] += A[i,j,k] * s[j]", "R[k] += A[i,j,k] * B[i,j,k]",
])  # fmt: skip
def test_what_our_kernels_cannot_compute_they_are_no_candidates_for(computes: str, backend: str) -> None:
    """The model prices it, and kernels of others may well compute it."""
    op = carver.OpTemplate(computes, i=4, j=50, k=60)
    with pytest.raises(NoCandidates, match=r"requires that (operands|one tensor)"):
        op.with_arch({"cuda": "h200", "cpu": "cpu_avx2"}[backend]).recommend_hints(1, backend)
    assert op.with_arch("h200").recommend_hints(1, "triton")


@pytest.mark.parametrize(
    ("computes", "sizes", "bmnk"),
    [
        ("Y[b,i,k] += X[b,i,j] * W[k,j]", {"b": 8, "i": 128, "j": 512, "k": 256}, (1, 1024, 256, 512)),
        ("C[m,n] += A[m,p,q] * B[p,q,n]", {"m": 512, "n": 256, "p": 8, "q": 64}, (1, 512, 256, 512)),
        ("C[b,h,m,n] += A[b,h,m,k] * B[b,h,k,n]", {"b": 2, "h": 4, "m": 256, "n": 128, "k": 64}, (8, 256, 128, 64)),
        ("O[n,p,q,f] += I[n,p,q,c] * W[c,f]", {"n": 8, "p": 14, "q": 14, "c": 9, "f": 5}, (1, 1568, 5, 9)),
    ],
)
def test_axes_that_lie_in_memory_as_one_are_one(computes: str, sizes: dict[str, int], bmnk: tuple[int, ...]) -> None:
    problem = carver.OpTemplate(computes, **sizes).problem
    assert (problem.operator, problem.written) == ("matmul", computes)
    assert problem.sizes == dict(zip("bmnk", bmnk, strict=True))


@pytest.mark.parametrize("computes", [
    "C[m,b,n] += A[b,m,k] * B[b,k,n]", "C[m,n] += A[m,p,q] * B[q,p,n]", "C[m,p,q,n] += A[m,p,q,p+r] * B[r,n]",
])  # fmt: skip
def test_axes_that_a_tensor_has_apart_stay_two(computes: str) -> None:
    statement = notation.parse(computes)
    assert notation.fused(statement, dict.fromkeys(statement.axes, 4))[0] == statement


def test_many_axes_are_fused_or_left_in_no_time() -> None:
    axes = [f"a{i}" for i in range(250)]
    for order, left in ((axes, 2), (axes[::2] + axes[1::2], 251)):
        statement = notation.parse(f"C[{','.join(axes)}] += A[{','.join(order)},k] * B[k]")
        began = time.monotonic()
        assert len(notation.fused(statement, dict.fromkeys(statement.axes, 2))[1]) == left
        assert time.monotonic() - began < 5  # a fifth of a second; each pair of axes took 8


def test_a_product_of_vectors_is_a_gemv_of_one_row() -> None:
    whole = carver.OpTemplate("s[] += x[i] * y[i]", i=1 << 26).with_arch("h100").recommend_hints(topk=1)[0]
    gemv = carver.GEMVTemplate(1, 1 << 26).with_arch("h100").recommend_hints(topk=1)[0]
    assert (whole.config, whole.predicted_ms) == (gemv.config, gemv.predicted_ms)
    assert whole.predicted_ms < 2 * 2 * 2 * (1 << 26) / whole.arch.dram_bytes_per_s * 1e3  # within twice its bytes


def test_a_transpose_in_tiles_is_nearly_as_fast_as_a_copy() -> None:
    for arch in ("h200", "a100", "mi300x"):
        turned, copied = (
            op.with_arch(arch).recommend_hints(1, "triton")[0].predicted_ms
            for op in (TransposeTemplate(8192, 8192), carver.ElementwiseTemplate((8192, 8192)))
        )
        assert copied < turned < 1.2 * copied
    [small] = TransposeTemplate(64, 32).with_arch("h200").rank([{"BLOCK_R": 16, "BLOCK_C": 8, "num_warps": 2}])
    assert small.block == (8, 16)
    narrow = {"BLOCK_R": 64, "BLOCK_C": 8, "num_warps": 4}
    [thin] = TransposeTemplate(8192, 8192).with_arch("h200").rank([narrow])
    [wide] = TransposeTemplate(8192, 8192).with_arch("h200").rank([{**narrow, "BLOCK_C": 64}])
    assert thin.predicted_ms > 1.5 * wide.predicted_ms  # half of each sector that it reads is thrown away


@pytest.mark.parametrize(("dtype", "tile"), [("float16", (64, 128)), ("float32", (64, 64)), ("float16", (256, 32))])
def test_shared_memory_of_a_transpose_is_what_triton_takes_at_most(dtype: str, tile: tuple[int, int]) -> None:
    pytest.importorskip("triton")
    from carver.compiled.binary import Tensor
    from carver.compiled.triton import Target, compile_triton, specialise

    source = Path(__file__).parents[1] / "benchmarks" / "kernels" / "triton_transpose.py"
    function = runpy.run_path(str(source))["transpose"]
    config = {"BLOCK_R": tile[0], "BLOCK_C": tile[1], "num_warps": 4}
    [hint] = TransposeTemplate(4096, 4096, dtype=dtype).with_arch("h200").rank([config])
    matrix = Tensor(dtype, (4096, 4096))
    given = {"x_ptr": matrix, "y_ptr": matrix, "rows": 4096, "cols": 4096}
    target = Target.of(carver.CUDA("h200"))
    built = compile_triton(function, specialise(function, given, {}, config, target), target)
    assert 0 < built.shared_bytes <= hint.launch.smem_bytes


def test_one_image_under_one_filter_is_no_matmul_of_one_column() -> None:
    named = carver.Conv2DTemplate(4096, 4096, 7, 7)
    asked = carver.OpTemplate("O[y,x] += I[y+r,x+s] * W[r,s]", y=4096, x=4096, r=7, s=7, in_dtype="float32")
    assert asked.problem == named.problem
    assert asked.with_arch("a100").recommend_hints(1)[0].predicted_ms < 0.2  # 3.1 ms as tiles of tl.dot


@pytest.mark.parametrize(
    ("computes", "sizes", "operator"),
    [
        ("O[x] += I[x+s] * W[s]", {"x": 64, "s": 5}, "window"),
        ("O[x] += W[s] * I[2*x+s]", {"x": 64, "s": 5}, "window"),
        ("O[y,x,c] += I[y+r,x+s,c] * W[r,s,c]", {"y": 8, "x": 8, "c": 4, "r": 3, "s": 3}, "window"),
        ("O[z,y,x] += I[z+q,y+r,x+s] * W[q,r,s]", {"z": 8, "y": 8, "x": 8, "q": 3, "r": 3, "s": 3}, "window"),
        ("O[x,f] += I[x+s,c] * W[s,c,f]", {"x": 64, "s": 5, "c": 8, "f": 16}, "matmul"),
        ("O[x] += I[x+s,c] * W[s,c]", {"x": 64, "s": 5, "c": 8}, "matmul"),
    ],
)
def test_a_window_that_only_its_own_output_reads(computes: str, sizes: dict[str, int], operator: str) -> None:
    op = carver.OpTemplate(computes, **sizes)
    assert op.problem.operator == operator
    value = reference.expected(op.problem, inputs(op))[0]
    assert value.shape == op.problem.statement.output.shape(op.problem.sizes)
    assert op.with_arch("h200").recommend_hints(1, "triton")[0].predicted_ms > 0


@pytest.mark.parametrize("taps", [16, 64])
def test_one_more_tap_takes_no_less_time(taps: int) -> None:
    """Seventeen of 16-bit elements reach by 16, and all but two or three of them begin within a vector."""
    less, more = (
        carver.WindowTemplate(1 << 20, n).with_arch("h100").recommend_hints(1)[0].predicted_ms for n in (taps, taps + 1)
    )
    assert less <= more


def test_taps_of_a_row_find_in_the_first_level_cache_what_the_first_fetched() -> None:
    sizes = {"n": 32, "y": 56, "x": 56, "c": 128, "s": 3}
    times = [
        carver.OpTemplate("O[n,y,x,c] += I[n,y+r,x+s,c] * W[r,s,c]", **sizes, r=r)
        .with_arch("a100").recommend_hints(1)[0].predicted_ms
        for r in (1, 3, 9)
    ]  # fmt: skip
    copy = carver.ElementwiseTemplate((32 * 56 * 56, 128)).with_arch("a100").recommend_hints(1, "triton")[0]
    assert copy.predicted_ms < times[0] < times[1] < times[2] < 27 * copy.predicted_ms


def test_scales_within_the_sum_cost_instructions_and_registers() -> None:
    """After each step FMUL and FFMA on each sum; fewer columns than threads are loaded by every thread for itself."""
    op = carver.MatmulTemplate(4096, 7168, 2048, trans_B=True, in_dtype="float8_e4m3", out_dtype="bfloat16")
    wide = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 16, "num_warps": 8, "num_stages": 4}
    tall = {**wide, "BLOCK_M": 64, "num_warps": 4}
    scaled, plain = (op.with_arch("h200").rank([wide, tall], backend) for backend in ("triton_block_fp8", "triton"))
    assert dict(scaled[0].config) == tall and dict(plain[0].config)["BLOCK_M"] == 128  # measured: 0.173 and 0.218 ms
    registers = {hint.config["BLOCK_M"]: hint.launch.registers for hint in scaled}
    assert 240 <= registers[128] <= 255 and 180 <= registers[64] <= 200  # compiled: 255 and 198


@pytest.mark.parametrize("device", ["h200", "mi300x", "t4"])
@pytest.mark.parametrize(
    "template",
    [
        *(carver.TransposeTemplate(rows, cols) for rows, cols in ((1, 1), (1, 4096), (4096, 3))),
        *(carver.GatedMLPTemplate(m, n, 64) for m, n in ((1, 1), (3, 7), (1, 5000))),
        *(carver.MatmulSoftmaxTemplate(m, n, 64) for m, n in ((1, 1), (3, 7), (5000, 1))),
        *(carver.ScaledMatmulTemplate(m, n, 128) for m, n in ((1, 1), (5000, 1), (1, 5000))),
        *(carver.GroupedMatmulTemplate(m, n, 64, 1) for m, n in ((1, 1), (3, 7), (5000, 1))),
    ],
    ids=str,
)
def test_the_smallest_problems_have_a_hint(template: carver.Template, device: str) -> None:
    """A rule against tiles larger than the problem leaves the smallest tile that the other rules leave."""
    arch = carver.CUDA(device) if device != "mi300x" else carver.HIP(device)
    if device == "t4" and "float8_e4m3" in template.problem.dtypes.values():
        with pytest.raises(NoCandidates, match=r"8\.9 or higher"):
            template.with_arch(arch).recommend_hints(1)
        return
    assert template.with_arch(arch).recommend_hints(1)[0].predicted_ms > 0
