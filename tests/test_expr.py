"""Expressions of kernel declarations: the values that Python gives, column by column, and nothing else parses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carver.base.errors import KernelError
from carver.kernels.expr import parse

X = np.array([1, 2, 3, 7, 8], np.int64)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x + 1", [2, 3, 4, 8, 9]),
        ("x // 2 * 2 == x", [False, True, False, False, True]),
        ("-x % 4", [3, 2, 1, 1, 0]),
        ("ceil(x, 2)", [1, 1, 2, 4, 4]),
        ("pow2(x)", [1, 2, 4, 8, 8]),
        ("log2(pow2(x))", [0, 1, 2, 3, 3]),
        ("min(x, 3, 5)", [1, 2, 3, 3, 3]),
        ("max(x, y)", [4, 4, 4, 7, 8]),
        ("x if x > 2 else -1", [-1, -1, 3, 7, 8]),
        ("x >= 2 and x < 8", [False, True, True, True, False]),
        ("x == 1 or x == 8", [True, False, False, False, True]),
        ("not x == 3", [True, True, False, True, True]),
        ("1 < x <= 7", [False, True, True, True, False]),
        ("x ** 2", [1, 4, 9, 49, 64]),
    ],
)
def test_values_by_hand(text: str, expected: list[object]) -> None:
    value = np.broadcast_to(parse(text)({"x": X, "y": 4}), X.shape)
    assert value.tolist() == expected


def test_ceiling_division_of_large_numbers_is_exact() -> None:
    assert parse("ceil(a, b)")({"a": 2**53 + 1, "b": 2}) == 2**52 + 1


@pytest.mark.parametrize("exponent", range(0, 40))
def test_pow2_is_the_next_power_of_two(exponent: int) -> None:
    n = 1 << exponent
    values = parse("pow2(x)")({"x": np.array([max(1, n - 1), n, n + 1])})
    assert values.tolist() == [1 << (max(1, n - 1) - 1).bit_length(), n, 2 * n]


def test_names_are_reported() -> None:
    assert parse("min(a, arch.l2_bytes) + b if c else 1").names == {"a", "b", "c", "arch"}


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "x.y", "arch.__class__", "a[0]", "lambda: 1", "open(x)", "x; y", "'text'", "_x + 1", "[1]",
     "f(x)", "x / 2", "min(*x)", "x := 1", "min(a, key=b)", "a | b", "(1).real", "arch.a.b"],
)  # fmt: skip
def test_nothing_else_parses(text: str) -> None:
    with pytest.raises(KernelError) as caught:
        parse(text)
    assert text in str(caught.value)


NUMBERS = st.integers(1, 50).map(str) | st.sampled_from(["x", "y"])
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.sampled_from(["//", "%"]), st.integers(1, 9)).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} < {t[2]} else {t[3]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"(({t[0]} <= {t[1]} and {t[1]} != {t[2]}) + 0)"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS, st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), min_size=1, max_size=5))
def test_columns_agree_with_python(text: str, rows: list[tuple[int, int]]) -> None:
    xs, ys = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    value = np.broadcast_to(parse(text)({"x": xs, "y": ys}), len(rows)).tolist()
    assert value == [int(eval(text, {}, {"x": x, "y": y, "min": min, "max": max})) for x, y in rows]
