"""What a change of the problem would bring."""

from __future__ import annotations

import pytest

import carver
from carver.arch.devices import load
from carver.ops.elsewise import faster_if
from carver.ops.operator import Template


def texts(op: carver.MatmulTemplate | carver.ReductionTemplate, backend: str = "triton", device: str = "h200") -> str:
    return "; ".join(faster_if(op.problem, load(device), backend))


def test_rows_that_16_does_not_divide_are_padded() -> None:
    assert "rows were padded to N=4096, K=4096" in texts(carver.MatmulTemplate(4097, 4095, 4093))


def test_an_operand_that_is_turned_element_by_element() -> None:
    op = carver.MatmulTemplate(4096, 4096, 4096, in_dtype="float8_e4m3", out_dtype="bfloat16")
    assert "B were stored as N x K" in texts(op)
    assert "B were stored" not in texts(carver.MatmulTemplate(4096, 4096, 4096, trans_B=True))


def test_vector_units_want_the_other_order() -> None:
    op = carver.MatmulTemplate(2048, 2048, 2048, trans_B=True, in_dtype="float32")
    assert "B were stored as K x N" in texts(op, device="a100")


def test_long_rows_are_split() -> None:
    assert "each row were summed in" in texts(carver.ReductionTemplate("sum", (4, 1 << 24)), device="a100")
    assert not texts(carver.ReductionTemplate("sum", (4096, 4096)))


def test_explain_says_so() -> None:
    hint = carver.MatmulTemplate(4097, 4095, 4093).with_arch("h200").recommend_hints(1, backend="triton")[0]
    text = str(hint.explain())  # type: ignore[attr-defined]
    assert "times faster if rows were padded" in text and max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("op", [
    carver.ConvTemplate(4, 64, 28, 28, 128, 3, 3, pad=1),
    carver.OpTemplate("O[b,h,m,n] += X[b,h,m,k] * W[b,n,k]", b=4, h=8, m=512, n=500, k=64),
    carver.Chain("C[m,n] += A[m,k] * B[k,n]", m=512, n=500, k=500).template,
    carver.OpTemplate("S[] += X[i] * Y[i]", i=1 << 20),
], ids=["convolution", "other axes", "no batch", "dot product"])  # fmt: skip
def test_what_no_template_says_is_explained_too(op: Template) -> None:
    (hint,) = op.with_arch("h200").recommend_hints(1, backend="triton")
    assert "parts, and those by a second call" not in str(hint.explain())  # type: ignore[attr-defined]
