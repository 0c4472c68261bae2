"""Kernels whose way depends on what their tensors hold: branches that nobody tells, bounds that are computed of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

triton = pytest.importorskip("triton")

import triton.language as tl  # noqa: E402

import carver  # noqa: E402
from carver import Tensor as T  # noqa: E402
from carver.base.errors import ProblemError  # noqa: E402
from carver.compiled.facts import TAKEN  # noqa: E402

N, BLOCK = 65_536, 256


@triton.jit
def gathered(x, rows, y, BLOCK: tl.constexpr):
    """A row of -1 is none."""
    row = tl.load(rows + tl.program_id(0))
    if row == -1:
        return
    i = tl.arange(0, BLOCK)
    tl.store(y + tl.program_id(0) * BLOCK + i, tl.load(x + row * BLOCK + i))


@triton.jit
def filled(x, rows, y, BLOCK: tl.constexpr):
    """Where there is none, one number is stored."""
    row = tl.load(rows + tl.program_id(0))
    i = tl.arange(0, BLOCK)
    if row == -1:
        tl.store(y + tl.program_id(0), 0.0)
    else:
        tl.store(y + tl.program_id(0) * BLOCK + i, tl.load(x + row * BLOCK + i))


@triton.jit
def level(code):
    if code > 10:
        return 1.0
    if code > 5:
        return 0.5
    return 0.0


@triton.jit
def decoded(x, rows, y, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    for j in range(BLOCK):
        tl.store(y + first + j, level(tl.load(rows + first + j)))


@triton.jit
def pooled(x, lengths, y, n, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Rows of up to ten, summed by as many steps as the longest of a block has."""
    i, c = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLS)
    long = tl.load(lengths + i, mask=i < n, other=0)
    acc = tl.zeros((ROWS, COLS), tl.float32)
    for k in range(tl.max(long, 0)):
        acc += tl.load(x + (i[:, None] * 10 + k) * COLS + c, mask=(k < long)[:, None], other=0.0)
    tl.store(y + i[:, None] * COLS + c, acc, mask=(i < n)[:, None])


@triton.jit
def grouped(x, starts, y, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    """Each program does as many blocks as groups begin before it."""
    p = tl.program_id(0)
    group = tl.sum((tl.load(starts + tl.arange(0, GROUPS)) <= p).to(tl.int32), 0)
    for k in range(group):
        i = (p * GROUPS + k) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i))


@triton.jit
def sorted_ends(x, ends, y, BLOCK: tl.constexpr):
    end = tl.max(tl.sort(tl.load(ends + tl.arange(0, BLOCK))), 0)
    for k in range(end):
        tl.store(y + k, tl.load(x + k))


def ranked(kernel: Any, arch: str = "h100", **more: Any) -> carver.Ranking:
    args = {"x": T("float32", (N,)), "rows": T("int32", (N,)), "y": T("float32", (N,))}
    return carver.rank_kernel(
        kernel, [{"BLOCK": BLOCK}], **{"args": args, "grid": (N // BLOCK,), "arch": arch} | more
    )


@pytest.mark.parametrize("kernel", [gathered, filled])
@pytest.mark.parametrize("arch", ["h100", "mi300x"])
def test_a_branch_that_nobody_tells_goes_where_more_is_done(kernel: Any, arch: str) -> None:
    ranking = ranked(kernel, arch)
    assert ranking[0].facts.written_bytes == 4 * N and TAKEN in repr(ranking)
    told = ranked(kernel, arch, values={"rows": np.arange(N) % 2 - 1})
    assert told[0].facts.written_bytes <= 2 * N + 4 * N // BLOCK and TAKEN not in repr(told)


def test_a_branch_between_numbers_says_nothing_of_its_way() -> None:
    ranking = ranked(decoded)
    assert ranking[0].facts.written_bytes == 4 * N and TAKEN not in repr(ranking)


def test_the_bound_of_a_loop_may_be_the_largest_of_what_is_held() -> None:
    rows, cols = 2000, 64
    args = {"x": T("float32", (10 * rows, cols)), "lengths": T("int32", (rows,)), "y": T("float32", (rows, cols)),
            "n": rows}  # fmt: skip
    lengths = np.arange(rows) % 7
    lengths[:32] = 1
    how: dict[str, Any] = {"args": args, "grid": lambda c: (-(-rows // c["ROWS"]),), "arch": "h100"}
    [hint] = carver.rank_kernel(pooled, [{"ROWS": 32, "COLS": cols}], values={"lengths": lengths}, **how)
    assert hint.facts.loops[0].trips == pytest.approx((62 * 6 + 1) / 63) and hint.facts.loops[0].most_trips == 6
    with pytest.raises(ProblemError, match=r"'lengths'.*say what it holds"):
        carver.rank_kernel(pooled, [{"ROWS": 32, "COLS": cols}], **how)


def test_the_bound_of_a_loop_may_be_a_count_of_what_is_held() -> None:
    """Of 64 programs eight each begin a group: 4.5 blocks of 256 numbers for each."""
    args = {"x": T("float32", (64 * 8 * BLOCK,)), "starts": T("int32", (8,)), "y": T("float32", (64 * 8 * BLOCK,))}
    [hint] = carver.rank_kernel(
        grouped, [{"GROUPS": 8, "BLOCK": BLOCK}], args=args, grid=(64,), arch="h100",
        values={"starts": np.arange(8) * 8},
    )  # fmt: skip
    assert hint.facts.loops[0].trips == 4.5 and hint.facts.written_bytes == 64 * 4.5 * BLOCK * 4


def test_what_was_said_is_not_asked_for_again() -> None:
    args = {"x": T("float32", (N,)), "ends": T("int32", (BLOCK,)), "y": T("float32", (N,))}
    with pytest.raises(ProblemError, match="computes from 'ends': it cannot be followed"):
        ranked(sorted_ends, args=args, values={"ends": np.arange(BLOCK)})
