"""What is compiled of a long list: the surrogate finds the best of smooth prices, avoids refusals, wastes nothing."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carver
from carver.base.errors import ConfigError
from carver.compiled.worker import Copies
from carver.ranking import surrogate
from carver.ranking.kernel import most_compiled
from carver.ranking.surrogate import Axes, Price, axes_of, compiles, explored, predicted, proposals, spread

CONFIGS = [
    {"BLOCK_M": m, "BLOCK_N": n, "num_warps": w, "num_stages": s}
    for m, n, w, s in product((16, 32, 64, 128), (32, 64, 128, 256), (2, 4, 8), (2, 3, 4))
]
AXES = axes_of(CONFIGS, [(4096 // c["BLOCK_M"]) * (4096 // c["BLOCK_N"]) for c in CONFIGS], 132)


def price_s(config: Mapping[str, int]) -> float:
    """Best at 64 x 128 with 4 warps, the more stages the better."""
    away = [math.log2(config["BLOCK_M"] / 64), math.log2(config["BLOCK_N"] / 128), math.log2(config["num_warps"] / 4)]
    return 1e-4 * math.exp(sum(0.15 * x**2 for x in away) + 0.02 * (4 - config["num_stages"]))


def priced(places: list[int]) -> dict[int, Price]:
    return {i: Price(price_s(CONFIGS[i]), repr(i)) for i in places}


@pytest.mark.parametrize("batch", [1, 2, 8])
def test_a_fifth_of_a_smooth_list_holds_its_best(batch: int) -> None:
    found = explored(AXES, priced, most=len(CONFIGS) // 5, batch=batch)
    best = min(price_s(config) for config in CONFIGS)
    assert len(found) <= 28
    assert min(price.seconds or 1.0 for price in found.values()) <= 1.01 * best


@pytest.mark.parametrize("most", [2, 5, 11, 27, 64])
def test_a_list_is_compiled_in_four_batches_at_most(most: int) -> None:
    """Each batch waits for its slowest compiler and starts disassemblers, which took a quarter of a first call."""
    batches: list[int] = []

    def counted(places: list[int]) -> dict[int, Price]:
        batches.append(len(places))
        return priced(places)

    explored(AXES, counted, most)
    assert len(batches) <= 4 and sum(batches) == most
    assert batches[1:] == sorted(batches[1:], reverse=True)


def test_the_answer_does_not_depend_on_a_seed() -> None:
    assert list(explored(AXES, priced, 20, 2)) == list(explored(AXES, priced, 20, 2))


def test_what_was_priced_is_predicted_as_it_is_and_the_rest_with_more_doubt() -> None:
    known = {i: math.log(price_s(CONFIGS[i])) for i in spread(AXES, 20)}
    mean, deviation = predicted(AXES, known, range(len(CONFIGS)))
    own = list(known)
    others = [i for i in range(len(CONFIGS)) if i not in known]
    assert np.allclose(mean[own], list(known.values()), atol=0.05)
    assert deviation[own].max() < deviation[others].min()
    truth = np.log([price_s(config) for config in CONFIGS])
    assert np.corrcoef(mean[others], truth[others])[0, 1] > 0.8


def test_what_lies_beside_refusals_is_compiled_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tiles of 128 rows need too much shared memory: after some refusals at most half as many of them are proposed
    as where refusals said nothing."""
    prices = {i: price_s(CONFIGS[i]) if CONFIGS[i]["BLOCK_M"] < 128 else None for i in spread(AXES, 16)}
    left = [i for i in range(len(CONFIGS)) if i not in prices]
    chance = dict(zip(left, compiles(AXES, {i: price is None for i, price in prices.items()}, left), strict=True))
    large = [chance[i] for i in left if CONFIGS[i]["BLOCK_M"] == 128]
    small = [chance[i] for i in left if CONFIGS[i]["BLOCK_M"] < 128]
    assert np.mean(large) < 0.6 * np.mean(small)
    chosen = proposals(AXES, prices, left, 6)
    assert len(set(chosen)) == 6 and not set(chosen) & set(prices)
    monkeypatch.setattr(surrogate, "compiles", lambda axes, refused, places: np.ones(len(places)))
    blind = proposals(AXES, prices, left, 6)
    many, few = (sum(CONFIGS[i]["BLOCK_M"] == 128 for i in each) for each in (blind, chosen))
    assert many and 2 * few <= many


def test_what_changes_no_code_is_compiled_once() -> None:
    """Stages that make no difference: of three that are alike one is compiled, and of the first another to find out."""

    def alike(places: list[int]) -> dict[int, Price]:
        blind = [{**CONFIGS[i], "num_stages": 4} for i in places]
        return {i: Price(price_s(config), repr(config)) for i, config in zip(places, blind, strict=True)}

    found = explored(AXES, alike, most=len(CONFIGS), batch=2)
    assert len(CONFIGS) == 144 and len(found) <= 48 + 5


def test_one_that_is_refused_is_worth_no_batch_of_its_own() -> None:
    """Somebody waits, and a batch takes a second, whatever it holds."""

    def batches(wide: int) -> list[int]:
        sizes: list[int] = []

        def but_one(places: list[int]) -> dict[int, Price]:
            sizes.append(len(places))
            return priced(places) | ({places[0]: Price(None)} if len(sizes) == 2 else {})

        explored(AXES, but_one, most=24, wide=wide)
        return sizes

    assert batches(12) == [12, 12] and sum(batches(0)) == 25


def test_what_is_refused_leaves_its_place_to_another() -> None:
    """A compiler that refuses a large tile says so sooner than it makes code, and such code is not ranked."""

    def of_few_bytes(places: list[int]) -> dict[int, Price]:
        known = [(i, CONFIGS[i]) for i in places]
        fit = {i: (config["BLOCK_M"] + config["BLOCK_N"]) * config["num_stages"] < 768 for i, config in known}
        return {i: Price(price_s(config) if fit[i] else None, repr(i)) for i, config in known}

    found = explored(AXES, of_few_bytes, most=20)
    assert sum(price.seconds is not None for price in found.values()) == 20 < len(found)


def test_where_all_is_refused_it_ends() -> None:
    found = explored(AXES, lambda places: {i: Price(None) for i in places}, most=30, batch=4)
    assert 60 <= len(found) < 60 + 4


def test_what_takes_long_to_compile_comes_first() -> None:
    """Long code is that of many elements a thread."""
    elements = [c["BLOCK_M"] * c["BLOCK_N"] / c["num_warps"] for c in CONFIGS]
    order = AXES.longest_first(range(len(CONFIGS)))
    assert [elements[i] for i in order] == sorted(elements, reverse=True)
    assert AXES.longest_first([3, 143, 0]) == sorted([3, 143, 0], key=lambda i: -elements[i])


def test_in_a_hurry_long_code_is_not_begun_with() -> None:
    middle = np.median(AXES.thread)
    assert max(AXES.thread[spread(AXES, 8, hurry=True)]) <= middle < max(AXES.thread[spread(AXES, 8)])
    assert len(set(spread(AXES, 500, hurry=True))) == (AXES.thread <= middle).sum()


def test_words_and_constants_have_axes_of_their_own() -> None:
    axes = axes_of([{"layout": "nt", "B": 16}, {"layout": "tn", "B": 16}], [4, 8], 132)
    assert isinstance(axes, Axes) and axes.kinds == ("word", "word", "programs", "thread", "waves", "held")
    assert axes.columns[0, :2].tolist() == [1.0, 0.0] and axes.columns[1, :2].tolist() == [0.0, 1.0]


def test_each_of_what_is_spread_is_where_those_before_leave_the_most_doubt() -> None:
    chosen = spread(AXES, 12)
    for count in range(1, 12):
        left = [i for i in range(len(CONFIGS)) if i not in chosen[:count]]
        doubt = predicted(AXES, dict.fromkeys(chosen[:count], 0.0), left)[1]
        assert doubt[left.index(chosen[count])] == pytest.approx(doubt.max())


def test_a_third_of_the_lists_of_other_libraries_is_enough() -> None:
    """All lists of 20 and more to whose prices nothing was fitted. Two fifths of each, chosen by logarithms of prices
    and by distances between tunables, lost 0.9 %."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
    from few_compiles import FITTED, compiled, lists, score

    found = score([each for each in lists() if each.library != FITTED], lambda listed: compiled(listed, None))
    assert found["lists"] == 68 and found["share_compiled"] < 0.37
    assert found["price_loss"] < 1.006


@pytest.mark.slow
def test_times_of_a_part_tell_more_than_prices_of_all() -> None:
    """Of the measured lists of three tables, by as many compiled as two cores compile while somebody waits."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
    from few_compiles import lists, over_best

    rows = over_best([each for each in lists() if np.isfinite(each.measured_ms).sum() > 1], (2, 16))
    few, many, _, every = rows
    assert few["lists"] == 122 and few["compiled"] < 0.4 and many["compiled"] < 0.65
    for timed in (few, many):
        assert timed["over"] < 1.011 and every["over"] > 1.02 and timed["within 1 %"] > 110 > every["within 1 %"]


def test_first_calls_that_time_a_part_are_sooner_and_choose_as_well() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
    import frame
    from first_calls_timed import show

    found = show(frame.DATA / "h200" / "first_calls.jsonl")
    for cores, most in (("3@2", 0.165), ("3@16", 0.12)):
        (before, worse), (took, later) = found[cores, "8ede9152"], found[cores, "367e6c8d"]
        assert took < most and took < 0.85 * before and later < 1.006 and worse > 1.03
    took, later = show(frame.DATA / "h200" / "first_calls_copies.jsonl")["3@16", ""]
    assert took < 0.10 and later < 1.01


def test_a_batch_is_as_wide_as_the_cores_and_two_are_enough() -> None:
    batches: list[int] = []

    def counted(places: list[int]) -> dict[int, Price]:
        batches.append(len(places))
        return priced(places)

    explored(AXES, counted, 16, wide=12)
    assert batches == [12, 12]
    batches.clear()
    explored(AXES, counted, 16, wide=1)
    assert batches == [4, 4, 4, 4]


def test_long_lists_are_compiled_by_the_root_of_their_length() -> None:
    assert [most_compiled(None, count) for count in (8, 19, 20, 100, 400)] == [8, 19, 11, 23, 45]
    assert [most_compiled(share, 100) for share in (0.3, 1.0, "all")] == [30, 100, 100]


def test_recorded_first_calls_are_those_of_this_rule() -> None:
    """Four batches, each read by a disassembler on each of two cores. Compilers take the largest part."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
    import frame

    for row in frame.rows(frame.DATA / "cpu" / "first_calls.jsonl"):
        parts = row["parts_s"]
        assert row["compiled"] == most_compiled(None, row["listed"]) and row["disassemblers"] <= 2 * 4
        assert sum(parts.values()) <= row["cpu_s"] < 2.5 * (parts["front end"] + parts["back end"])
        assert 0.2 <= parts["disassembler"] / row["disassemblers"] < 0.4


@pytest.mark.slow
def test_a_part_of_a_long_list_of_a_kernel_is_compiled_and_its_best_is_found() -> None:
    """A copy in 24 configurations: the first of 12 of them is as fast as the first of all, and what was not compiled
    is said to take what it takes, within a factor of two."""
    pytest.importorskip("triton")
    import compiled_kernels as kernels

    configs = [{"BLOCK": b, "num_warps": w} for b in (64, 128, 256, 512, 1024, 2048) for w in (1, 2, 4, 8)]
    args = {"x_ptr": carver.Tensor("float16", (1 << 20,)), "y_ptr": carver.Tensor("float16", (1 << 20,)), "n": 1 << 20}

    def rank(compile: str | float | None = None) -> carver.Ranking:
        grid = lambda c: (-(-(1 << 20) // c["BLOCK"]),)  # noqa: E731
        return carver.rank_kernel(kernels.copy, configs, args=args, grid=grid, arch="h100", compile=compile)

    every, part = rank("all"), rank()
    assert part.given == every.given == 24
    assert sum(len((hint.index, *hint.also)) for hint in part) + len(part.reasons) == 24
    assert part[0].predicted_ms <= 1.02 * every[0].predicted_ms
    assert "12 of 24 were compiled" in str(part)
    times = {i: hint.predicted_ms for hint in every for i in (hint.index, *hint.also)}
    told = {i: float(why.split(" to take ")[1].split(" ms")[0]) for i, why in part.reasons.items() if "to take" in why}
    assert len(told) == 12
    assert all(0.5 < told[i] / times[i] < 2.0 for i in told)
    assert rank(0.25).given == 24
    with pytest.raises(ConfigError, match="above 0 and at most 1, or 'all'"):
        rank(3.0)


@pytest.mark.slow
def test_an_interrupted_long_list_counts_what_earlier_batches_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 24 configurations 12 are compiled, in batches; Ctrl-C comes in the second."""
    pytest.importorskip("triton")
    import compiled_kernels as kernels

    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    answered, batches = Copies.replies, list[int]()

    def stopped(self: Copies, requests: Mapping[str, Any], seconds: float = 120.0) -> Iterator[tuple[str, Any]]:
        batches.append(len(requests))
        if len(batches) > 2:  # one compiles the first, one reads its code
            raise KeyboardInterrupt
        return answered(self, requests, seconds)

    monkeypatch.setattr(Copies, "replies", stopped)
    configs = [{"BLOCK": b, "num_warps": w} for b in (64, 128, 256, 512, 1024, 2048) for w in (1, 2, 4, 8)]
    args = {"x_ptr": carver.Tensor("float16", (1 << 20,)), "y_ptr": carver.Tensor("float16", (1 << 20,)), "n": 1 << 20}
    grid = lambda c: (-(-(1 << 20) // c["BLOCK"]),)  # noqa: E731
    with pytest.raises(KeyboardInterrupt) as ended:
        carver.rank_kernel(kernels.copy, configs, args=args, grid=grid, arch="h100")
    assert str(ended.value).endswith(f" (and {batches[0]} of those asked for before these)") and batches[0] > 1
