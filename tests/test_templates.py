"""The faces of operators: what each computes, counted by hand, and that any positive size is answered."""

from __future__ import annotations

import re
import time
from typing import Any

import numpy as np
import pytest
from cases import answerable, device_for, template

import carver
from carver.base.errors import ArchError, NoCandidates, ProblemError
from carver.run.render import render

SIZES = [
    (1, 1, 1), (17, 17, 17), (1, 4096, 4096), (4096, 1, 4096), (4096, 4096, 1), (127, 8191, 509), (1000, 1000, 1000),
    (65536, 65537, 64), (2**31 + 11, 3, 5), (7, 2**31 + 11, 2),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "backend"), list(answerable()))
def test_any_positive_size_is_answered(operator: str, backend: str) -> None:
    arch = carver.load_arch(device_for(backend))
    for sizes in SIZES:
        hints = template(operator, *sizes, "float32").with_arch(arch).recommend_hints(3, backend)
        assert len(hints) >= 1, sizes
        for hint in hints:
            assert 0 < hint.predicted_ms < 1e9, sizes
            assert np.isfinite(list(hint.details.values())).all(), sizes


def test_matmul_by_hand() -> None:
    p = carver.MatmulTemplate(3, 5, 7, batch=2, trans_A=True, with_bias=True, activation="gelu").problem
    assert p.computes == "C[b,m,n] += A[b,k,m] * B[b,k,n]"
    assert p.flops == 2 * 2 * 3 * 5 * 7
    assert dict(p.options) == {"trans_a": 1, "trans_b": 0, "bias": 1, "activation": 2}
    assert p.dtypes == {"A": "float16", "B": "float16", "C": "float16"}


def test_an_epilogue_is_a_bias_and_an_activation() -> None:
    def problem(**how: Any) -> carver.problem.problem.Problem:
        return carver.MatmulTemplate(64, 64, 64, **how).problem

    assert problem(epilogue=("bias", "gelu")) == problem(with_bias=True, activation="gelu")
    assert problem(epilogue="bias") == problem(with_bias=True)
    assert problem(epilogue="silu") == problem(activation="silu")
    assert problem(epilogue=()) == problem()
    with pytest.raises(ProblemError, match="one after the other; got \\('gelu', 'bias'\\)"):
        problem(epilogue=("gelu", "bias"))
    with pytest.raises(ProblemError, match="unknown activation 'softmax'"):
        problem(epilogue="softmax")
    with pytest.raises(ProblemError, match="given twice"):
        problem(epilogue="bias", activation="relu")


@pytest.mark.parametrize(("dtype", "accumulate", "out"), [
    ("float16", "float32", "float16"), ("bfloat16", "float32", "bfloat16"), ("tf32", "float32", "float32"),
    ("float32", "float32", "float32"), ("float64", "float64", "float64"), ("int8", "int32", "int32"),
    ("float8_e4m3", "float32", "float16"), ("float8_e5m2", "float32", "float16"),
])  # fmt: skip
def test_types_default_to_what_libraries_do(dtype: str, accumulate: str, out: str) -> None:
    p = carver.MatmulTemplate(64, 64, 64, in_dtype=dtype).problem
    assert (p.accumulate, p.dtypes["C"]) == (accumulate, out)
    assert carver.MatmulTemplate(64, 64, 64, in_dtype=dtype).with_arch("h200").recommend_hints(1)[0].predicted_ms > 0


@pytest.mark.parametrize("name", ["fp16", "half", "torch.float16", np.float16, np.dtype("float16")], ids=str)
def test_dtypes_have_many_names(name: object) -> None:
    assert carver.MatmulTemplate(8, 8, 8, in_dtype=name).problem.dtypes["A"] == "float16"  # type: ignore[arg-type]


def test_leading_dimensions_decide_alignment() -> None:
    assert carver.MatmulTemplate(64, 64, 64).problem.align_bytes["A"] == 128
    padded = carver.MatmulTemplate(64, 64, 64, lda=66, ldb=68).problem.align_bytes
    assert (padded["A"], padded["B"], padded["C"]) == (4, 8, 128)


def test_gemv_by_hand() -> None:
    p = carver.GEMVTemplate(100, 300, batch=4).problem
    assert p.flops == 2 * 4 * 100 * 300
    assert p.compulsory_bytes == 2 * 4 * (100 + 300 + 100 * 300)
    assert carver.GEMVTemplate(100, 300, trans_A=True).problem.computes == "Y[b,n] += X[b,k] * A[b,k,n]"


def test_elementwise_by_hand() -> None:
    p = carver.ElementwiseTemplate((4, 5, 6), "float32", inputs=2, flops_per_element=3, broadcast=1).problem
    assert p.computes == "Y[r,c] = X0[r,c] + X1[r,c] + X2[c]"
    assert dict(p.sizes) == {"r": 20, "c": 6}
    assert p.flops == 360
    assert p.compulsory_bytes == 4 * (120 + 120 + 120 + 6)


@pytest.mark.parametrize(("axis", "computes"), [(1, "Y[r] += X[r,c]"), (-1, "Y[r] += X[r,c]"), (0, "Y[c] += X[r,c]")])
def test_reduction_by_hand(axis: int, computes: str) -> None:
    p = carver.ReductionTemplate("sum", (3, 5), axis).problem
    assert str(p.statement) == computes
    assert p.dtypes == {"X": "float16", "Y": "float32"}


@pytest.mark.parametrize("op", ["softmax", "layer_norm", "rms_norm"])
def test_normalisations_write_what_they_read(op: str) -> None:
    """A softmax of 64 x 32 halves reads 4096 bytes and writes as many."""
    p = carver.ReductionTemplate(op, (64, 32)).problem
    assert p.compulsory_bytes == 2 * 64 * 32 * 2
    assert p.dtypes["Y"] == "float16"


@pytest.mark.parametrize(("structure", "shape", "computes", "sizes"), [
    ("SSR", (3, 5, 7), "Y[r] += X[r,c]", {"r": 15, "c": 7}),
    ("RS", (3, 5), "Y[c] += X[r,c]", {"r": 3, "c": 5}),
    ("SRR", (3, 5, 7), "Y[r] += X[r,c]", {"r": 3, "c": 35}),
    ("RR", (3, 5), "Y[r] += X[r,c]", {"r": 1, "c": 15}),
    ("SRS", (3, 5, 7), "Y[b,c] += X[b,r,c]", {"b": 3, "r": 5, "c": 7}),
    ("SSRRS", (2, 3, 5, 7, 11), "Y[b,c] += X[b,r,c]", {"b": 6, "r": 35, "c": 11}),
])  # fmt: skip
def test_general_reduction_by_hand(
    structure: str, shape: tuple[int, ...], computes: str, sizes: dict[str, int]
) -> None:
    p = carver.GeneralReductionTemplate(structure, shape).problem
    assert str(p.statement) == computes
    assert dict(p.sizes) == sizes


@pytest.mark.parametrize(("computes", "sizes", "operator"), [
    ("C[m,n] += A[m,k] * B[k,n]", {"m": 64, "n": 32, "k": 16}, "matmul"),
    ("O[n,p,q,f] += I[n,p+r,q+s,c] * W[r,s,c,f]", {"n": 2, "p": 8, "q": 8, "f": 64, "r": 3, "s": 3, "c": 64}, "matmul"),
    ("Y[r] max= X[r,c]", {"r": 64, "c": 512}, "reduction"),
    ("Y[i,j] = A[i,j] * B[i,j]", {"i": 64, "j": 512}, "elementwise"),
])  # fmt: skip
def test_an_operator_of_ones_own_is_ranked_as_what_it_is(computes: str, sizes: dict[str, int], operator: str) -> None:
    op = carver.OpTemplate(computes, **sizes).with_arch("h200")  # type: ignore[arg-type]
    assert op.problem.operator == operator
    assert op.recommend_hints(1, "triton")[0].predicted_ms > 0


@pytest.mark.parametrize("computes", ["Y[r] min= X[r,c]", "Y[r] += X[r+c]", "Y[c,r] += X[r,c,k]"])
def test_a_reduction_without_a_kernel_is_refused(computes: str) -> None:
    sizes = {axis: 8 for axis in "rck" if axis in computes}
    with pytest.raises(ProblemError, match="is no reduction that carver has a kernel for"):
        carver.OpTemplate(computes, **sizes)  # type: ignore[arg-type]


def test_operands_may_have_any_name() -> None:
    """The first operand is A to the kernel, also where the statement calls the second one A."""
    face = carver.MatmulTemplate(1000, 504, 4).with_arch("h200").recommend_hints(3, "triton")
    own = carver.OpTemplate("O[m,n] += B[m,k] * A[k,n]", m=1000, n=504, k=4).with_arch("h200")
    assert own.recommend_hints(3, "triton").seconds.tolist() == face.seconds.tolist()


def test_own_notation_and_face_give_the_same_answer() -> None:
    face = carver.MatmulTemplate(1000, 504, 768).with_arch("h200").recommend_hints(5)
    own = carver.OpTemplate("C[m,n] += A[m,k] * B[k,n]", m=1000, n=504, k=768).with_arch("h200").recommend_hints(5)
    assert [h.config for h in own] == [h.config for h in face]
    assert own.seconds.tolist() == face.seconds.tolist()


def test_a_device_without_the_matrix_type_says_so() -> None:
    hints = carver.MatmulTemplate(512, 512, 512, in_dtype="bfloat16").with_arch("t4").recommend_hints(2, "triton")
    assert not hints[0].use_tc
    assert "no matrix instruction for bfloat16" in hints[0].notes[0]
    assert "no matrix instruction for bfloat16" in str(hints)


def test_backends_are_chosen_by_the_device() -> None:
    op = carver.MatmulTemplate(64, 64, 64)
    assert op.with_arch("h200").recommend_hints(1).backend == "cuda"
    assert op.with_arch("mi300x").recommend_hints(1).backend == "triton"
    advice = op.with_arch("mi300x").recommend_hints(1, "cuda")[0].notes
    assert advice == ("carver's CUDA kernels do not run on AMD Instinct MI300X: take the tiles as advice",)
    for old in ("mi50", "rx_580", "rx_vega_64"):  # Triton 3.6 compiles nothing for them
        hint = op.with_arch(old).recommend_hints(1)[0]
        assert hint.backend == "triton" and "Triton's kernels do not run on" in hint.notes[0]
    assert not any("do not run" in note for note in op.with_arch("rx_6900_xt").recommend_hints(1)[0].notes)
    assert "Tensile's kernels do not run on" in op.with_arch("h200").recommend_hints(1, "tensile").notes[0]


def test_a_template_without_a_device_says_what_to_call() -> None:
    with pytest.raises(ProblemError, match=r"no device named; call .with_arch"):
        carver.MatmulTemplate(64, 64, 64).recommend_hints(1)


def test_with_arch_takes_names_and_keeps_the_template() -> None:
    op = carver.MatmulTemplate(64, 64, 64)
    assert op.with_arch("h200").arch == op.with_arch(carver.CUDA("H200")).arch
    assert op.arch is None


def test_what_if_questions_change_the_answer() -> None:
    op = carver.MatmulTemplate(8192, 8192, 512)
    h200 = carver.CUDA("h200")
    best = op.with_arch(h200).recommend_hints(1)[0].predicted_ms
    half = op.with_arch(h200.replace(sm_count=66)).recommend_hints(1)[0].predicted_ms
    assert 1.5 * best < half < 2.5 * best


def test_a_kernel_that_the_device_cannot_run_is_said_with_its_requirement() -> None:
    with pytest.raises(NoCandidates) as caught:
        carver.ElementwiseTemplate((64, 64), inputs=9).with_arch("h200").recommend_hints(1, "cuda")
    assert "elementwise, one tile a block requires that operands are at most 8" in str(caught.value)


@pytest.mark.parametrize(("computes", "sizes", "face"), [
    ("C[i,j] += A[i,k] * B[k,j]", "ijk", carver.MatmulTemplate(4, 5, 6)),
    ("k[n,m] += n[n,k] * m[k,m]", "nmk", carver.MatmulTemplate(4, 5, 6)),
    ("C[i,j] += A[k,i] * B[j,k]", "ijk", carver.MatmulTemplate(4, 5, 6, trans_A=True, trans_B=True)),
    ("C[i,j] += B[k,j] * A[i,k]", "ijk", carver.MatmulTemplate(4, 5, 6)),
    ("C[z,i,j] += A[z,i,k] * B[z,k,j]", "ijkz", carver.MatmulTemplate(4, 5, 6, batch=7)),
    ("Y[i] += X[i,j] * V[j]", "ij", carver.GEMVTemplate(4, 5)),
    ("Y[i] += V[j] * X[j,i]", "ij", carver.GEMVTemplate(4, 5, trans_A=True)),
    ("Y[i,j] += V[i,k] * X[i,k,j]", "jki", carver.GEMVTemplate(4, 5, batch=6, trans_A=True)),
    ("Y[] += X[i]", "i", carver.GeneralReductionTemplate("R", (4,))),
    ("Y[j] max= X[i,j]", "ij", carver.ReductionTemplate("max", (4, 5), axis=0)),
    ("Y[j,i] = A[i,j]", "ij", carver.TransposeTemplate(4, 5)),
    ("Z[i,j] = B[j] + A[i,j]", "ij", carver.ElementwiseTemplate((4, 5), broadcast=1)),
])  # fmt: skip
def test_a_statement_is_known_by_what_it_says(computes: str, sizes: str, face: carver.ops.operator.Template) -> None:
    own = carver.OpTemplate(computes, **dict(zip(sizes, (4, 5, 6, 7), strict=False)))  # type: ignore[arg-type]
    assert own.problem == face.problem and hash(own.problem) == hash(face.problem)
    assert own.problem.to_dict() == face.problem.to_dict()
    assert all(f"{axis}={n}" in str(own.problem) for axis, n in zip(sizes, (4, 5, 6, 7), strict=False))


@pytest.mark.parametrize("computes", [
    "C[i,j] += A[i,2*k] * B[k,j]", "C[i,j] += A[i,k] * B[k,j] * S[j]", "Y[i,j] = A[j,i] + B[i,j]",
])  # fmt: skip
def test_a_statement_that_says_something_else_keeps_its_names(computes: str) -> None:
    sizes = {axis: 8 for axis in "ijkl" if axis in computes}
    op = carver.OpTemplate(computes, **sizes)  # type: ignore[arg-type]
    assert op.problem.computes == computes and not op.problem.names
    assert op.with_arch("h200").recommend_hints(1, "triton")[0].predicted_ms > 0


@pytest.mark.parametrize(("computes", "says"), [
    ("C[i,j] max= A[i,k] * B[k,j]", "products are summed"),
    ("C[i,j] += A[i,k] * B[j,i]", "'k' is summed, but does not occur in B[j,i]"),
    ("C[i,j] += A[i,k] * B[k,l] * D[l,j]", "'l' is summed, but does not occur in A[i,k]; contract two"),
    ("Y[i] = X[i,i]", "an axis stands twice in X[i,i]"),
])  # fmt: skip
def test_a_statement_that_no_kernel_computes_is_refused(computes: str, says: str) -> None:
    with pytest.raises(ProblemError, match=re.escape(says)):
        carver.OpTemplate(computes, **{axis: 8 for axis in "ijkl" if axis in computes})  # type: ignore[arg-type]


def test_a_reduction_of_a_product_reads_all_operands() -> None:
    one = carver.OpTemplate("Y[i] += X[i,j]", i=8192, j=8192).with_arch("h200").recommend_hints(1, "triton")[0]
    product = carver.OpTemplate("Y[i] += X[i,j] * M[i,j] * N[i,j]", i=8192, j=8192)
    three = product.with_arch("h200").recommend_hints(1)[0]
    assert (three.kernel, three.backend) == ("triton", "triton")  # carver's own kernel takes one operand
    assert 2.6 < three.predicted_ms / one.predicted_ms < 3.4


def test_an_operand_that_is_walked_across_its_rows_is_not_a_copy() -> None:
    statements = ("Y[i,j] = X[i,j] + Z[i,j]", "Y[j,i] = X[i,j] + Z[j,i]")
    copy, transpose = (carver.OpTemplate(s, i=8192, j=8192).with_arch("h200") for s in statements)
    assert transpose.recommend_hints(1).backend == "triton"
    across, along = (op.recommend_hints(1, "triton")[0].predicted_ms for op in (transpose, copy))
    assert across > 1.5 * along


def test_an_outer_product_is_faster_than_reading_a_matrix() -> None:
    for arch in ("h200", "a100", "mi300x"):
        outer, added = (
            carver.OpTemplate(s, i=8192, j=8192).with_arch(arch).recommend_hints(1, "triton")[0].predicted_ms
            for s in ("C[i,j] = A[i] * B[j]", "C[i,j] = A[i,j] * B[i,j]")
        )
        assert outer < 0.75 * added


def test_an_operand_keeps_its_place_in_the_function() -> None:
    f = carver.OpTemplate("Y[i] += X[i,j] * V[j]", i=3, j=4).equivalent_function()
    x, v = np.arange(12.0).reshape(3, 4), np.arange(4.0)
    assert np.array_equal(f(x, v), x @ v)


@pytest.mark.parametrize(("leading", "says"), [
    ({"lda": 10}, "lda is 10, but a row of A has 64 elements"), ({"ldb": 31}, "a row of B has 32 elements"),
    ({"ldb": 63, "trans_B": True}, "a row of B has 64 elements"), ({"ldc": 31}, "a row of C has 32 elements"),
])  # fmt: skip
def test_a_leading_dimension_holds_a_row(leading: dict[str, int], says: str) -> None:
    with pytest.raises(ProblemError, match=says):
        carver.MatmulTemplate(16, 32, 64, **leading)  # type: ignore[arg-type]


def test_only_a_name_or_a_descriptor_is_a_device() -> None:
    with pytest.raises(ArchError, match="named by a string or a path, got 5"):
        carver.MatmulTemplate(16, 32, 64).with_arch(5)  # type: ignore[arg-type]
    assert "jit" in dir(carver) and len(repr(carver.CUDA("h200"))) < 200


def test_an_element_wise_operator_of_ones_own_gets_all_its_operands() -> None:
    op = carver.OpTemplate("Z[i,j,k] = A[i,j,k] * B[k] * C[i,j,k]", i=4, j=6, k=8).with_arch("h200")
    (hint,) = op.recommend_hints(1)
    assert render(hint, carver.CUDA("h200")).calls[0].args == ("X0", "X1", "X2", "Y", 24, 8)
    mixed = carver.OpTemplate("Z[i,j] = C[j] + B[j] * A[i,j]", i=4, j=6).with_arch("h200")
    assert mixed.problem.computes == "Y[r,c] = X0[r,c] * X1[c] + X2[c]"
    program = render(mixed.recommend_hints(1)[0], carver.CUDA("h200"))
    assert program.calls[0].args[:3] == ("X0", "X1", "X2") and program.source.defines["EXPRESSION"] == "(x0 * x1 + x2)"
    a, b, c = np.arange(24.0).reshape(4, 6), np.arange(6.0), np.ones(6)
    assert np.array_equal(mixed.equivalent_function()(c, b, a), c + b * a)
    start = time.process_time()
    many = " * ".join(f"{x}[i,j,k]" for x in "ABCDEFGH")
    problem = carver.OpTemplate(f"Z[i,j,k] = {many}", i=4, j=6, k=8).problem
    assert str(problem) == "elementwise rows=24 cols=8 inputs=8 (float16)"
    assert time.process_time() - start < 1
