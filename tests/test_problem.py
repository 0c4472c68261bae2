"""Problems: counts by hand, alignment that follows from shapes, identity, round trip."""

from __future__ import annotations

import json

import numpy as np
import pytest

from carver.base.errors import ProblemError
from carver.problem.problem import Problem, size

MATMUL = "C[b,m,n] += A[b,m,k] * B[b,k,n]"


def matmul(m: int = 4, n: int = 6, k: int = 8, dtype: str = "float16", **more: object) -> Problem:
    sizes = {"b": 1, "m": m, "n": n, "k": k}
    return Problem("matmul", MATMUL, sizes, dict.fromkeys("ABC", dtype), **more)  # type: ignore[arg-type]


def test_counts_by_hand() -> None:
    p = matmul()
    assert p.flops == 2 * 4 * 6 * 8
    assert dict(p.elements) == {"C": 24, "A": 32, "B": 48}
    assert p.compulsory_bytes == 2 * (24 + 32 + 48)


def test_counts_of_large_problems_are_exact() -> None:
    p = matmul(2**20 + 1, 2**20 + 3, 2**20 + 5)
    assert p.flops == 2 * (2**20 + 1) * (2**20 + 3) * (2**20 + 5)


def test_flops_per_element_replace_the_count() -> None:
    p = Problem("elementwise", "Y[r,c] = X[r,c]", {"r": 3, "c": 5}, {"Y": "float32", "X": "float32"},
                options={"flops_per_element": 7})  # fmt: skip
    assert p.flops == 3 * 5 * 7
    assert p.compulsory_bytes == 2 * 15 * 4


@pytest.mark.parametrize(("k", "dtype", "expected"), [
    (8, "float16", 16), (4, "float16", 8), (6, "float16", 4), (7, "float16", 2), (7, "float32", 4),
    (2, "float64", 16), (16, "int8", 16), (15, "int8", 1), (4096, "float16", 128), (80, "float16", 32),
])  # fmt: skip
def test_rows_are_aligned_as_their_length_says(k: int, dtype: str, expected: int) -> None:
    assert matmul(k=k, dtype=dtype).align_bytes["A"] == expected


def test_a_single_row_starts_where_the_buffer_starts() -> None:
    assert matmul(m=1, k=7).align_bytes["A"] == 128
    assert matmul(m=2, k=7).align_bytes["A"] == 2


def test_a_stated_alignment_is_kept() -> None:
    assert matmul(k=8, align_bytes={"A": 4}).align_bytes["A"] == 4
    assert matmul(k=8, align_bytes={"A": 256}).align_bytes["A"] == 128


def test_equal_problems_are_one_key() -> None:
    assert matmul() == matmul()
    assert hash(matmul()) == hash(matmul())
    assert matmul() != matmul(m=5)
    assert len({matmul(), matmul(), matmul(k=9)}) == 2


def test_round_trip_through_json() -> None:
    p = matmul(options={"bias": 1}, accumulate="float16", align_bytes={"A": 2})
    assert Problem.from_dict(json.loads(json.dumps(p.to_dict()))) == p


def test_mappings_are_read_only() -> None:
    with pytest.raises(TypeError):
        matmul().sizes["m"] = 5  # type: ignore[index]


@pytest.mark.parametrize("value", [np.int64(7), np.uint8(7), np.int32(7)])
def test_numpy_integers_are_sizes(value: object) -> None:
    assert size("m", value) == 7
    assert type(size("m", value)) is int


@pytest.mark.parametrize("value", [0, -1, 1.0, 2.5, "4", None, True, np.float64(4), np.bool_(True), 2**48 + 1])
def test_other_sizes_are_refused_with_what_was_given(value: object) -> None:
    with pytest.raises(ProblemError) as caught:
        size("m", value)
    assert "size m must be a whole number from 1 to 2^48" in str(caught.value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(("sizes", "says"), [
    ({"m": 1, "n": 1}, "has axes b, m, n, k; got sizes for m, n"),
    ({"b": 1, "m": 1, "n": 1, "k": 1, "z": 1}, "got sizes for b, m, n, k, z"),
    ({}, "got sizes for none"),
])  # fmt: skip
def test_sizes_must_be_those_of_the_axes(sizes: dict[str, int], says: str) -> None:
    with pytest.raises(ProblemError) as caught:
        Problem("matmul", MATMUL, sizes, dict.fromkeys("ABC", "float16"))
    assert says in str(caught.value)


def test_each_tensor_needs_a_dtype() -> None:
    with pytest.raises(ProblemError, match="has tensors A, B, C; got dtypes for A"):
        Problem("matmul", MATMUL, {"b": 1, "m": 1, "n": 1, "k": 1}, {"A": "float16"})


def test_alignments_are_those_of_its_tensors() -> None:
    with pytest.raises(ProblemError, match="align_bytes has no tensor 'a'; known: A, B, C"):
        matmul(align_bytes={"a": 16})


@pytest.mark.parametrize("said", [0, -4, 3, True])
def test_alignments_are_powers_of_two(said: int) -> None:
    with pytest.raises(ProblemError, match="alignment of A must be a power of two"):
        matmul(align_bytes={"A": said})
