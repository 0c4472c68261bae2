"""One file an operator: what each says of itself fits its template, its notation and its kernels."""

from __future__ import annotations

from inspect import signature

import numpy as np
import pytest

import carver
from carver.base.errors import ProblemError
from carver.kernels import declaration
from carver.ops import operator
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
