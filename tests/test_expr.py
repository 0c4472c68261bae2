"""Expressions of kernel declarations: the values that Python gives, column by column, and nothing else parses."""

from __future__ import annotations

import numpy as np
import pytest
from cases import holds_for_each
from hypothesis import example, given
from hypothesis import strategies as st

import carver
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


@holds_for_each(range(0, 40))
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


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("9**9**9", "a power is a number from 0 to 4"),
        ("10**10**8", "a power is a number from 0 to 4"),
        ("x ** -1", "a power is a number from 0 to 4"),
        ("x ** y", "a power is a number from 0 to 4"),
        ("arch.title * 2**3", "a device has no number 'title'"),
        ("arch.smem_per_blok_bytes", "did you mean 'smem_per_block_bytes'"),
        ("(" * 50_000 + "1" + ")" * 50_000, "an expression of 100001 characters, more than 4096"),
        ("(" * 1_000 + "1" + ")" * 1_000, "does not parse"),
        ("-" * 3_000 + "1", "more than 64 operations within each other|does not parse"),
        ("+".join(["x"] * 100), "more than 64 operations within each other"),
        ("1" * 400, "a number is at most 2^53"),
        ("1e999", "a number is at most 2^53"),
        ("pow2(x, 2)", "pow2 takes 1 value, got 2"),
        ("ceil(x)", "ceil takes 2 values, got 1"),
        ("min()", "Call is not allowed"),
        ("cdiv(x, 2)", r"no function 'cdiv', only min, max, ceil, pow2, log2; ceil\(a, b\) is a / b rounded up"),
        ("x \x00", "does not parse"),
    ],
    ids=lambda text: text[:20],
)
def test_what_could_do_harm_is_refused(text: str, says: str) -> None:
    with pytest.raises(KernelError, match=says.replace("^", r"\^")):
        parse(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("m // 0", "cannot be computed"),
        ("m % (m - m)", "cannot be computed"),
        ("m * m * m * m", "no number of 64 bits"),
        ("(-m) ** 0.5", "no number of 64 bits"),
        ("(" * 60 + "3" + "**4)" * 60, "a number of more than 1024 bits"),
        ("*".join(["(m**4)**4"] * 4), "a number of more than 1024 bits"),
        ("m + kk", "uses 'kk'; did you mean 'k'"),
    ],
)
def test_what_arithmetic_cannot_do_is_our_error(text: str, says: str) -> None:
    with pytest.raises(KernelError, match=says):
        parse(text)({"m": 2**31, "k": 1})


def test_a_chain_of_products_stops_at_64_bits() -> None:
    """Each column the square of the one before: 40 of them would be a number of 2^40 digits."""
    value, square = 10, parse("x * x")
    with pytest.raises(KernelError, match="no number of 64 bits"):
        for _ in range(40):
            value = square({"x": value})


TOKENS = st.sampled_from(
    ["x", "y", "n", "arch", ".title", ".sm_count", "9", "2**33", "1e300", "0", "**", "*", "//", "%", "-", "+", "(", ")",
     " if ", " else ", " and ", " not ", "<", "==", "min(", "pow2(", "log2(", "ceil(", ",", "[", "'a'", "lambda:", "_x"]
)  # fmt: skip


@given(st.lists(TOKENS, max_size=40).map("".join), st.integers(-(2**62), 2**62))
@example("pow2(x)*pow2(y)", 2**62)
@example("log2(n)**0", 0)
def test_whatever_is_written_is_a_number_or_our_error(text: str, n: int) -> None:
    scope = {"x": np.array([-3, 0, 7]), "y": np.array([2**62, -(2**62), 0]), "n": n, "arch": carver.CUDA("h200")}
    with np.errstate(all="ignore"):
        try:
            value = parse(text)(scope)
        except KernelError:
            return
    assert np.asarray(value).dtype.kind in "bif"
