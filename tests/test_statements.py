"""Statements in index notation by Triton. Of sums over windows, whose bodies hold every tap: what they issue, and where
their lanes read. Of sums of a middle axis: how many loads registers keep under way. Of contractions over several axes:
where their steps end."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carver
from carver.base.folders import folder
from carver.kernels.declaration import load
from carver.kernels.expr import size_scope
from carver.kernels.space import given_space

H200 = Path(__file__).parent / "data" / "h200"
MIDDLE = "y[b,g] += x[b,r,g]"
IMAGES = "y[n,u,v] += x[n,u+r,v+s] * w[n,r,s]"
CHANNELS = "y[n,u,v,g] += x[n,u+r,v+s,g] * w[r,s,g]"
ROWS = "y[b,x] += x[b,x+r] * w[b,r]"

COMPILED = [
    (IMAGES, {"n": 16, "u": 1022, "v": 1022, "r": 3, "s": 3}, "float32",
     {"h200": (153, 250, 452, 863), "a100_sxm_80": (150, 247, 434, 810), "mi300x": (182, 318, 573, 1077)}),
    (IMAGES, {"n": 60, "u": 300, "v": 500, "r": 5, "s": 5}, "float32",
     {"h200": (243, 425, 775, 1588), "l40s": (239, 412, 766, 1578)}),
    (CHANNELS, {"n": 16, "u": 54, "v": 54, "g": 256, "r": 3, "s": 3}, "float16",
     {"h200": (255, 283, 340, 466), "a100_sxm_80": (254, 279, 338, 463), "mi300x": (274, 293, 334, 433)}),
    (CHANNELS, {"n": 8, "u": 100, "v": 60, "g": 40, "r": 7, "s": 7}, "float16",
     {"h200": (784, 1307, 2327, 4679), "l40s": (782, 1297, 2343, 4672), "mi300x": (661, 1210, 2319, 4640)}),
    (ROWS, {"b": 2000, "x": 3000, "r": 25}, "float16",
     {"h200": (232, 436, 841, 1653), "a100_sxm_80": (228, 434, 941, 1652), "mi300x": (275, 567, 1097, 2069)}),
    (ROWS, {"b": 64, "x": 262144, "r": 4}, "float16",
     {"h200": (84, 126, 211, 380), "l40s": (81, 123, 209, 381), "mi300x": (101, 135, 203, 337)}),
]  # fmt: skip
"""Instructions of a thread with 1, 2, 4 and 8 outputs in four warps, by Triton 3.6: of the kernels of
benchmarks/kernels/triton_zoo_notation.py."""


WAITS = [
    ("float16", 512, "h200", {(1, 512, 8): 0.25, (8, 32, 2): 0.5, (32, 16, 2): 0.5, (32, 32, 2): 2, (128, 32, 4): 4,
                              (128, 32, 2): 8, (128, 128, 8): 7}),
    ("float16", 512, "l40s", {(8, 32, 2): 0.25, (32, 16, 2): 0.5, (32, 32, 2): 2, (64, 16, 1): 1, (128, 32, 4): 4,
                              (128, 32, 2): 8}),
    ("float32", 768, "h200", {(1, 512, 8): 0.25, (64, 32, 8): 1, (32, 32, 2): 4, (64, 16, 1): 3, (128, 32, 4): 5}),
    ("float32", 768, "l40s", {(4, 64, 4): 0.25, (8, 32, 2): 0.25, (32, 32, 2): 3, (64, 16, 1): 2, (128, 32, 4): 8}),
    ("float32", 300, "h200", {(8, 32, 4): 0.5, (8, 256, 8): 1, (128, 32, 4): 1, (128, 32, 2): 2}),
    ("float32", 768, "mi300x", {(1, 512, 8): 1, (32, 32, 2): 1, (64, 16, 1): 1, (128, 32, 4): 1}),
]  # fmt: skip
"""Latencies of a step that follow one another in code of Triton 3.6, by type, columns, device and configuration
(BLOCK_ROWS, BLOCK_COLS, num_warps); a quarter where four steps wait together."""


def ranked(said: str, sizes: dict[str, int], dtype: str, configs: list[dict[str, int]], out: str | None = None) -> Any:
    """Predicted milliseconds of each on an H200."""
    op = carver.OpTemplate(said, in_dtype=dtype, out_dtype=out or dtype, **sizes)
    ranking = op.with_arch("h200").rank(configs, "triton")
    found = {hint.index: hint.predicted_ms for hint in ranking}
    return np.array([found[place] for place in range(len(configs))])


def columns(said: str, sizes: dict[str, int], dtype: str, arch: str, threads: tuple[int, ...] = (1, 2, 4, 8)) -> Any:
    """Of bodies of a window with so many outputs a thread."""
    lanes = 4 * carver.load_arch(arch).warp_size
    return spaced("window", said, sizes, dtype, arch, [{"BLOCK": lanes * each, "num_warps": 4} for each in threads])


def per_step(cols: int, dtype: str, arch: str, configs: list[tuple[int, ...]]) -> Any:
    """Latencies of a step, in the mean, of configurations of a middle sum: BLOCK_ROWS, BLOCK_COLS, num_warps."""
    given = [dict(zip(("BLOCK_ROWS", "BLOCK_COLS", "num_warps"), each, strict=True)) for each in configs]
    space = spaced("reduction", MIDDLE, {"b": 8, "r": 1000, "g": cols}, dtype, arch, given)
    return space["waits"] / space["ahead"]


def spaced(operator: str, said: str, sizes: dict[str, int], dtype: str, arch: str, configs: list[Any]) -> Any:
    problem = carver.OpTemplate(said, in_dtype=dtype, out_dtype=dtype, **sizes).problem
    kernel = load(folder("templates") / operator / "triton.toml")
    return given_space(problem, carver.load_arch(arch), kernel, configs)[0]


def test_bodies_have_the_instructions_that_the_compiler_makes() -> None:
    """Divisions that take a place apart, addresses, loads, and what widens and multiplies: on four targets."""
    ratios = [
        columns(said, sizes, dtype, arch)["body_instr"] / counted
        for said, sizes, dtype, counts in COMPILED
        for arch, counted in counts.items()
    ]
    assert np.min(ratios) >= 0.7 and np.max(ratios) <= 1.3
    assert 0.95 <= np.median(ratios) <= 1.05


def measured(kernel: str) -> Any:
    """Configurations with their times on an H200, problem by problem."""
    with gzip.open(H200 / "notation.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if row["kernel"] == kernel]
    for place in range(1 + max(row["problem"] for row in rows)):
        mine = [row for row in rows if row["problem"] == place]
        yield [row["config"] for row in mine], np.array([row["time_ms"] for row in mine])


@pytest.mark.parametrize(("kernel", "said", "dtype"), [
    ("stencil_of_images", IMAGES, "float32"), ("depthwise", CHANNELS, "float16"), ("filters", ROWS, "float16"),
])  # fmt: skip
def test_first_picks_are_among_the_fastest_measured(kernel: str, said: str, dtype: str) -> None:
    """20 configurations of two problems each, timed on an H200, on which nothing was fitted."""
    sizes = {
        "stencil_of_images": ((16, 1022, 1022, 3, 3), (60, 300, 500, 5, 5)),
        "depthwise": ((16, 54, 54, 256, 3, 3), (8, 100, 60, 40, 7, 7)),
        "filters": ((64, 262144, 9), (2000, 3000, 25)),
    }[kernel]
    names = {IMAGES: "nuvrs", CHANNELS: "nuvgrs", ROWS: "bxr"}[said]
    for each, (configs, times) in zip(sizes, measured(kernel), strict=True):
        predicted = ranked(said, dict(zip(names, each, strict=True)), dtype, configs)
        first = int(np.argmin(predicted))
        assert times[first] <= 1.06 * times.min()
        assert 0.7 <= predicted[first] / times[first] <= 1.25


def test_lanes_that_read_far_apart_wait_for_each_other() -> None:
    """Four outputs a thread lie side by side, since they are stored at once: their loads take four passes over L1's
    banks, and as many more instructions would not take as long."""
    sizes, one = {"n": 60, "u": 300, "v": 500, "r": 5, "s": 5}, {"BLOCK": 512, "num_warps": 8}
    near, apart = ranked(IMAGES, sizes, "float32", [one, {"BLOCK": 512, "num_warps": 4}])
    issued = columns(IMAGES, sizes, "float32", "h200", (2, 4))["body_instr"] / (2, 4)
    assert issued[1] < issued[0] and apart > 1.4 * near


def test_weights_that_all_lanes_share_are_read_in_one_pass() -> None:
    """Rows under filters of their own, and channels, whose weights lie as far apart as they do."""
    rows = columns("y[n,u,v] += x[n,u+r,v] * w[n,r]", {"n": 8, "u": 64, "v": 96, "r": 5}, "float32", "h200")
    channels = columns("y[n,u,v] += x[n,u+r,v] * w[r,v]", {"n": 8, "u": 64, "v": 96, "r": 5}, "float32", "h200")
    assert (rows["common_loads"] > 0).all() and not np.any(channels["common_loads"])
    assert (rows["lane_loads"] + rows["common_loads"] == channels["lane_loads"]).all()


def test_each_axis_of_a_flat_place_is_divided_out() -> None:
    """The same outputs and taps: a line of them needs no division, an image of many more than rows."""
    said = {
        "y[x] += x[x+r] * w[r]": {"x": 1 << 20, "r": 9},
        "y[b,x] += x[b,x+r] * w[r]": {"b": 1 << 10, "x": 1 << 10, "r": 9},
        "y[a,b,x] += x[a,b,x+r] * w[r]": {"a": 1 << 5, "b": 1 << 5, "x": 1 << 10, "r": 9},
    }
    line, rows, images = (float(columns(s, n, "float32", "h200", (1,))["body_instr"][0]) for s, n in said.items())
    assert line < rows < images and images - rows > rows - line


def test_a_body_too_long_to_be_kept_is_fetched_by_every_block() -> None:
    """49 taps of 16 outputs have as many instructions as an SM keeps, 64 have more: a third more, at far over that."""
    sizes, config = {"n": 64, "u": 256, "v": 256, "g": 40}, {"BLOCK": 512, "num_warps": 1}
    kept, lost = (ranked(CHANNELS, {**sizes, "r": n, "s": n}, "float16", [config])[0] for n in (7, 8))
    assert lost > 1.3 * 64 / 49 * kept


def test_registers_say_how_many_loads_wait_for_each_other() -> None:
    """Sums of a middle axis: those that full occupancy leaves a thread, more where its sums alone take more."""
    said = [per_step(cols, dtype, arch, [*found]) / [*found.values()] for dtype, cols, arch, found in WAITS]
    ratios = np.concatenate(said)
    assert np.min(ratios) >= 0.5 and np.max(ratios) <= 2.0
    assert np.median(ratios) == 1.0


def test_first_picks_of_middle_sums_are_among_the_fastest_measured() -> None:
    """33 configurations of four problems, timed on an H200."""
    halves = (64, 1000, 512, "float16"), (4000, 49, 128, "bfloat16")
    kinds = halves[0], (8, 197, 768, "float32"), halves[1], (3, 20000, 300, "float32")
    lost = []
    for (b, r, g, dtype), (configs, times) in zip(kinds, measured("middle_sums"), strict=True):
        predicted = ranked(MIDDLE, {"b": b, "r": r, "g": g}, dtype, configs, "float32")
        first = int(np.argmin(predicted))
        lost.append(times[first] / times.min())
        assert 0.8 <= predicted[first] / times[first] <= 1.25
    assert np.exp(np.mean(np.log(lost))) <= 1.05


def test_more_sums_than_registers_for_loads_make_a_thread_wait() -> None:
    """The same tile by fewer threads: each has more loads in a step, and no more of them under way."""
    waits = per_step(512, "float16", "h200", [(64, 64, warps) for warps in (16, 8, 4, 2)])
    assert (np.diff(waits) > 0).all() and waits[0] < 1 < waits[-1]


@pytest.mark.parametrize(("said", "sizes", "row"), [
    ("y[a,d] += x[a,e,f] * w[e,f,d]", {"a": 64, "d": 64, "e": 50, "f": 32}, 1600),
    ("y[a,d] += x[a,e,f] * w[f,e,d]", {"a": 64, "d": 64, "e": 50, "f": 32}, 32),
    ("y[a,b,c,d] += x[a,e,b,f] * w[e,c,f,d]", {"a": 8, "b": 8, "c": 8, "d": 8, "e": 50, "f": 32}, 32),
    ("y[a,b,c,d] += x[a,e,b,f] * w[e,c,f,d]", {"a": 8, "b": 8, "c": 8, "d": 8, "e": 50, "f": 1}, 50),
    ("y[n,p,q,f] += x[n,p+r,q+s,c] * w[r,s,c,f]", {"n": 2, "p": 8, "q": 8, "f": 64, "r": 3, "s": 3, "c": 96}, 96),
    ("y[n,f,p,q] += x[n,c,p+r,q+s] * w[f,c,r,s]", {"n": 2, "p": 8, "q": 8, "f": 64, "r": 3, "s": 3, "c": 96}, 96),
])  # fmt: skip
def test_steps_end_where_a_row_of_summed_elements_does(said: str, sizes: dict[str, int], row: int) -> None:
    assert size_scope(carver.OpTemplate(said, in_dtype="float16", **sizes).problem)["k_row"] == row


def test_a_step_beyond_its_row_takes_as_long_as_a_whole_one() -> None:
    """Rows of 32 in steps of 128: four times the products of what is read as one row of as many."""
    tile = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "num_warps": 8, "num_stages": 3}
    sizes = {"a": 4096, "e": 128, "d": 4096}
    apart, side_by_side = "y[a,d] += x[a,e,f] * w[f,e,d]", "y[a,d] += x[a,e,f] * w[e,f,d]"
    plain = ranked("y[a,d] += x[a,e] * w[e,d]", {**sizes, "e": 128 * 32}, "float16", [tile])
    assert ranked(side_by_side, {**sizes, "f": 32}, "float16", [tile]) == plain
    assert 3 < ranked(apart, {**sizes, "f": 32}, "float16", [tile])[0] / plain[0] < 4.5
    assert ranked(apart, {**sizes, "f": 128, "e": 32}, "float16", [tile])[0] < 1.1 * plain[0]


def test_first_picks_of_contractions_over_several_axes_are_fast() -> None:
    """33 tiles of two problems, of which the second sums rows of 32 elements: timed on an H200."""
    kinds = (64, 64, 32, 64, 32, 64), (16, 100, 24, 96, 50, 32)
    for sizes, (configs, times) in zip(kinds, measured("tensors_of_four"), strict=True):
        named = dict(zip("abgdef", sizes, strict=True))
        predicted = ranked("y[a,b,g,d] += x[a,e,b,f] * w[e,g,f,d]", named, "float16", configs)
        first = int(np.argmin(predicted))
        assert times[first] <= 1.02 * times.min() and 0.8 <= predicted[first] / times[first] <= 1.25
