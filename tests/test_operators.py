"""One file an operator: what each says of itself fits its template, its notation and its kernels."""

from __future__ import annotations

import runpy
from inspect import signature
from pathlib import Path

import numpy as np
import pytest

import carver
from carver.base.errors import ProblemError
from carver.kernels import declaration
from carver.ops import operator
from carver.ops.transpose import TransposeTemplate
from carver.run import reference

OPERATORS = list(operator.operators().values())


def test_every_folder_of_kernels_has_its_operator() -> None:
    assert set(declaration.operators()) <= set(operator.operators())


def test_an_unknown_operator_names_the_nearest() -> None:
    with pytest.raises(ProblemError, match="no operator 'matmull'; did you mean 'matmul'"):
        operator.named("matmull")


@pytest.mark.parametrize("each", OPERATORS, ids=lambda o: o.name)
def test_arguments_of_the_command_line_are_parameters(each: operator.Operator) -> None:
    parameters = signature(each.template).parameters
    assert {argument.parameter for argument in each.arguments} <= set(parameters)
    needed = {name for name, p in parameters.items() if p.default is p.empty}
    assert not each.arguments or needed <= {a.parameter for a in each.arguments if not a.option}


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)


def inputs(template: carver.ops.template.Template) -> dict[str, np.ndarray]:
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
    from carver.compiled.arguments import Tensor
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
