"""Index notation: what a line means, and what is wrong with one that means nothing."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carver.base.errors import NotationError
from carver.problem.notation import parse, renaming


def test_matmul() -> None:
    s = parse("C[b,m,n] += A[b,m,k] * B[b,k,n]")
    assert (s.spatial, s.reduced, s.combine) == (("b", "m", "n"), ("k",), "+=")
    assert [t.name for t in s.inputs] == ["A", "B"]
    sizes = {"b": 2, "m": 3, "n": 5, "k": 7}
    assert s.output.shape(sizes) == (2, 3, 5)
    assert s.inputs[0].footprint(sizes) == 42


def test_convolution_windows_overlap() -> None:
    s = parse("O[p,q] += I[2*p+r,q+s] * W[r,s]")
    image = s.inputs[0]
    # 4 output rows two apart, 3 taps: rows 0 to 8; 5 output columns, 2 taps: columns 0 to 5
    extent = {"p": 4, "q": 5, "r": 3, "s": 2}
    assert image.shape(extent) == (9, 6)
    assert image.footprint(extent) == 54


def test_windows_that_leave_gaps_count_only_what_is_touched() -> None:
    image = parse("O[p] += I[4*p+r] * W[r]").inputs[0]
    assert image.footprint({"p": 3, "r": 2}) == 6  # 0 1, 4 5, 8 9 of the 10 that the reach spans


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 4), st.integers(1, 6))
def test_footprint_never_misses_a_touched_element(stride: int, taps: int, dilation: int, count: int) -> None:
    image = parse(f"O[p] += I[{stride}*p+{dilation}*r] * W[r]").inputs[0]
    touched = {stride * p + dilation * r for p, r in itertools.product(range(count), range(taps))}
    assert len(touched) <= image.footprint({"p": count, "r": taps}) <= max(touched) + 1


def test_products_are_added_up() -> None:
    s = parse("Z[i,j] = A[i,j]*B[j] + C[i+j] + D[i]*E[i,j]")
    assert [[t.name for t in product] for product in s.summands] == [["A", "B"], ["C"], ["D", "E"]]
    assert [t.name for t in s.inputs] == list("ABCDE") and not s.reduced
    assert renaming(parse("Y[r,c] = P[r,c] * Q[c] + R[r,c]"), parse("Z[i,j] = C[i,j] + B[j] * A[i,j]"))
    assert not renaming(parse("Y[r,c] = P[r,c] * Q[c] + R[r,c]"), parse("Z[i,j] = C[i,j] + B[j] + A[i,j]"))


@pytest.mark.parametrize(
    "text",
    ["C[b,m,n] += A[b,m,k] * B[b,k,n]", "O[n,p] += I[n,2*p+r] * W[r]", "Y[r] max= X[r,c]", "Y[r,c] = X[r,c]",
     "Y[r,c] = X[r,c] * B[c] + A[r]"],
)  # fmt: skip
def test_statements_print_as_they_parse(text: str) -> None:
    assert parse(str(parse(text))) == parse(text)


def test_spaces_do_not_matter() -> None:
    assert parse(" C[ m , n ]+=A[m,k]*B[ k,n ]") == parse("C[m,n] += A[m,k] * B[k,n]")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a statement"),
        ("C[m,n]", "is not a statement"),
        ("C[m,n] -= A[m,n]", "not a tensor"),
        ("C += A[m]", "'C' is not a tensor 'A[i,j]'; one number is 'C[]'"),
        ("C[m,n] += A[m,k] B[k,n]", "expected *"),
        ("C[m,n] += A[m,k] *", "ends where a tensor should stand"),
        ("C[m,n] += * A[m,n]", "expected a tensor"),
        ("C[m,n] max= A[m,k] + B[k,n]", "added element by element, with '='; what 'max=' joins is a product"),
        ("C[m,n] = A[m,n] + * B[n]", "expected a tensor at '*'"),
        ("C[m,n] = A[m,n] +", "ends where a tensor should stand"),
        ("C[m] += C[m,k]", "names a tensor twice"),
        ("C[2*m] += A[m,k]", "must be plain axes"),
        ("C[m,m] += A[m,k]", "an axis stands twice"),
        ("C[m,n] += A[m,k]", "output axis 'n' occurs in no input"),
        ("C[m] = A[m,k]", "axis 'k' is reduced"),
        ("C[m] += A[m-1,k]", "not a sum of distinct axes"),
        ("C[m] += A[m+m,k]", "not a sum of distinct axes"),
        ("C[m] += A[0*m,k]", "not a sum of distinct axes"),
        ("C[m] += A[00*m+k]", "not a sum of distinct axes"),
        ("C[m] += A[]", "an input has an index, got 'A[]'"),
    ],
)
def test_a_bad_line_is_quoted_with_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(NotationError) as caught:
        parse(text)
    assert says in str(caught.value)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", [None, 7, b"C[m] += A[m,k]"])
def test_not_even_text(text: object) -> None:
    with pytest.raises(NotationError, match="is not a statement"):
        parse(text)  # type: ignore[arg-type]
