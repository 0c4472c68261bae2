"""Learning from measurements: rankings, profiles, and that nothing is carried which does not hold."""

from __future__ import annotations

import json
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import carver
from carver.base.errors import ConfigError, NoCandidates
from carver.cost.learn import Rows, _told_by_others, carries, learnt, places, posterior, predict
from carver.cost.model import resolve
from carver.ranking.profile import Profile

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from learn import grouped, replay  # noqa: E402

CONFIGS = [
    {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "num_warps": w, "num_stages": s}
    for m, n, k, w, s in product((64, 128, 256), (64, 128), (32, 64), (4, 8), (2, 3))
]
OTHERWISE = {"l2_latency_load": 2.5, "step_sync_clk": 3.0, "dram_latency_load": 1.8}
"""Factors on constants of the GPU that the tests pretend to measure."""


def matmul(m: int = 2048, n: int = 4096, k: int = 4096) -> carver.OpTemplate:
    return carver.MatmulTemplate(m, n, k, trans_B=True).with_arch("h200")


def truth(ranking: carver.Ranking) -> dict[int, float]:
    """Times of all candidates, were the constants others. [ms]"""
    [part] = ranking.table.parts
    constants = dict(resolve(part.space.kernel, part.space.arch))
    seconds = predict(part.space, {**constants, **{k: constants[k] * factor for k, factor in OTHERWISE.items()}})
    return {int(i): float(t) * 1e3 for i, t in zip(part.space.index, seconds, strict=True)}


def taught(ranking: carver.Ranking, count: int = 9) -> carver.Ranking:
    times = truth(ranking)
    tried: list[int] = []
    while len(tried) < count:
        batch = [i for i in ranking.indices if i not in tried][:3]
        tried += batch
        ranking = ranking.learn({i: times[i] for i in batch})
    return ranking


def test_what_was_measured_is_what_is_predicted() -> None:
    start = matmul().rank(CONFIGS)
    first = start.indices[0]
    ranking = start.learn({first: 10.0})
    hint = next(h for h in ranking if h.index == first)
    assert hint.predicted_ms == pytest.approx(10.0)
    assert sum(hint.terms_ms.values()) == pytest.approx(10.0)
    assert hint.calibrated == "measured here"
    assert sorted(ranking.indices) == sorted(start.indices)
    assert start[0].predicted_ms < 1, "the ranking that was asked is as it was"
    assert ranking.indices[0] != first


def test_measurements_that_agree_narrow_the_band() -> None:
    start = matmul().rank(CONFIGS)
    as_predicted = {h.index: 1.05 * h.predicted_ms for h in start}
    few, many = (start.learn({i: as_predicted[i] for i in start.indices[:count]}) for count in (3, 12))

    def width(ranking: carver.Ranking) -> float:
        return float(np.mean([np.log(h.band_ms[1] / h.band_ms[0]) for h in ranking if h.index in start.indices[12:]]))

    assert width(many) < width(few) < width(start)
    assert "learnt from 12 measurements" in next(h for h in many if h.index == start.indices[-1]).calibrated


def test_measurements_that_surprise_widen_it_again() -> None:
    start = matmul().rank(CONFIGS)
    agreed = start.learn({i: start.seconds[place] * 1e3 for place, i in enumerate(start.indices[:3])})
    surprised = agreed.learn({i: (1.0, 2.0, 0.5)[n % 3] for n, i in enumerate(start.indices[3:9])})
    last = next(h for h in surprised if h.index == start.indices[-1])
    before = next(h for h in agreed if h.index == start.indices[-1])
    assert last.band_ms[1] / last.band_ms[0] > before.band_ms[1] / before.band_ms[0]


def measured(ranking: carver.Ranking) -> set[int]:
    return {h.index for h in ranking if h.calibrated == "measured here"}


def test_constants_move_to_what_was_measured() -> None:
    start = matmul().rank(CONFIGS)
    ranking = taught(start, 15)
    times, best = truth(start), min(truth(start).values())
    rest = [i for i in start.indices if i not in measured(ranking)]

    def error(of: carver.Ranking) -> float:
        logs = [np.log(h.predicted_ms / times[h.index]) for h in of if h.index in rest]
        return float(np.std(logs))

    assert error(ranking) < 0.5 * error(start)
    assert times[ranking.indices[0]] < 1.01 * best
    moved = ranking.profile["constants"]
    assert moved, "no constant moved"
    assert all(set(each) == {"factor", "deviation"} for each in moved.values())


def test_a_profile_starts_the_next_shape() -> None:
    profile = json.loads(json.dumps(taught(matmul().rank(CONFIGS), 15).profile))
    assert (profile["of"], profile["device"], len(profile["measured"])) == ("matmul/triton", "h200_sxm", 15)
    op = matmul(1024, 8192, 2048)
    start, carried = op.rank(CONFIGS), op.rank(CONFIGS, profile=profile)
    times = truth(start)
    assert times[carried.indices[0]] <= times[start.indices[0]]
    assert carried.profile == profile | {"constants": carried.profile["constants"]}
    assert op.recommend_hints(5, "triton", profile=profile).profile["measured"] == profile["measured"]
    [many] = carver.recommend_many([op], "h200", 5, "triton", profile=profile)
    assert [h.config for h in many] == [h.config for h in op.recommend_hints(5, "triton", profile=profile)]


def test_what_did_not_run_is_taken_off() -> None:
    start = matmul().rank(CONFIGS)
    ranking = start.learn({start.indices[0]: None})
    assert start.indices[0] not in ranking.indices
    assert ranking.reasons[start.indices[0]] == "it was measured and did not run"
    assert len(matmul().rank(CONFIGS, profile=ranking.profile)) == len(start) - 1
    with pytest.raises(NoCandidates, match="did not run"):
        start.learn(dict.fromkeys(start.indices))


def test_hints_name_candidates_too() -> None:
    hints = matmul().recommend_hints(4, "triton")
    ranking = hints.learn({hints[3]: hints[0].predicted_ms / 2})
    assert ranking[0].config == hints[3].config


def test_times_of_numpy_are_times() -> None:
    assert matmul().rank(CONFIGS).learn({0: np.float32(0.5)}).profile["measured"][0]["ms"] == 0.5
    assert matmul().rank(CONFIGS).learn({0: np.int64(2)}).profile["measured"][0]["ms"] == 2.0


@pytest.mark.parametrize(
    ("times", "says"),
    [({999: 1.0}, "999 is none of them"), ({0: -1.0}, "above 0 ms"), ({0: True}, "above 0 ms"), ([1.0], "a mapping")],
)
def test_odd_measurements_are_errors(times: object, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        matmul().rank(CONFIGS).learn(times)


def test_profiles_of_something_else_are_errors() -> None:
    profile = matmul().rank(CONFIGS).learn({0: 1.0}).profile
    with pytest.raises(ConfigError, match="of matmul/triton on h200_sxm; asked for is matmul/triton on h100_sxm"):
        carver.MatmulTemplate(512, 512, 512).with_arch("h100").rank(CONFIGS, profile=profile)
    for odd in ({}, profile | {"format": 2}, profile | {"measured": [{}]}, profile | {"more": 1}, 3):
        with pytest.raises(ConfigError, match="profile"):
            matmul().rank(CONFIGS, profile=odd)
    with pytest.raises(ConfigError, match="cannot be read"):
        matmul().rank(CONFIGS, profile="/nowhere.json")


def test_one_candidate_measured_again_counts_once() -> None:
    start = matmul().rank(CONFIGS)
    ranking = start.learn({0: 1.0}).learn({0: 2.0})
    assert [m["ms"] for m in ranking.profile["measured"]] == [2.0]
    assert Profile.from_dict(ranking.profile).to_dict() == ranking.profile


def rows(*problems: int, count: int = 12) -> Rows:
    """So many candidates of each problem."""
    axes, where = places([{"tile": 1 << (i % 5), "warps": 1 << (i % 3)} for i in range(count)] * len(problems))
    log_s = np.concatenate([np.log(np.random.default_rng(n).uniform(1, 1.3, count)) for n in problems])
    each = tuple({"m": n} for n in problems for _ in range(count))
    return Rows((), log_s, np.zeros((len(log_s), 0)), axes, where, each)


def test_noise_is_not_carried() -> None:
    seen = rows(1, 2, 3, 4)
    noise = np.random.default_rng(0).normal(0, 0.05, len(seen))
    assert not carries(seen, seen.log_s + noise)
    assert learnt(rows(9), seen, seen.log_s + noise) is None


def test_a_factor_of_all_problems_is_carried_by_itself() -> None:
    """Candidates of every problem took twice as long as predicted: those of another do too, in the same order. The band
    is as wide as problems differ; what is measured there is learnt on top. Factors that differ tell nothing."""
    seen, other = rows(1, 2, 3, 4), rows(9)
    assert not carries(seen, seen.log_s + np.log(2.0))
    found = learnt(other, seen, seen.log_s + np.log(2.0))
    assert found is not None
    assert found.mean - other.log_s == pytest.approx(np.full(12, np.log(2.0)), abs=0.06)
    assert 0.08 < found.deviation.min() <= found.deviation.max() < 0.15
    first = other.where([0])
    log_s, where = np.append(seen.log_s, first.log_s), np.append(seen.places, first.places, 0)
    both = Rows((), log_s, np.zeros((49, 0)), seen.axes, where, (*seen.problems, *first.problems))
    more = learnt(other, both, both.log_s + np.log([2.0] * 48 + [2.2]))
    assert more is not None
    assert (more.mean - other.log_s)[1:] == pytest.approx(np.full(11, np.log(2.2)), abs=0.1)
    apart = np.repeat(np.log([2.0, 0.5, 1.4, 0.8]), 12)
    assert learnt(other, seen, seen.log_s + apart) is None


def test_what_holds_for_every_problem_is_carried() -> None:
    seen = rows(1, 2, 3, 4)
    slow = np.where(seen.places[:, 0] > 1.5, 0.5, 0.0)
    assert carries(seen, seen.log_s + slow)
    candidates = rows(9)
    found = posterior(candidates, seen, seen.log_s + slow)
    wrong = found.mean - candidates.log_s
    assert wrong[candidates.places[:, 0] > 1.5].min() > wrong[candidates.places[:, 0] < 1.5].max()


def test_what_others_tell_of_a_problem_is_what_they_alone_would() -> None:
    seen = rows(1, 2, 3)
    log_s = seen.log_s + np.random.default_rng(1).normal(0, 0.1, len(seen)) + 0.3 * (seen.places[:, 1] > 0.5)
    each = [np.arange(len(seen)) // 12 == i for i in range(3)]
    told = _told_by_others(seen, log_s, each[:2])
    for left_out in each[:2]:
        alone = posterior(seen.where(left_out), seen.where(~left_out), log_s[~left_out])
        np.testing.assert_allclose(told[left_out], alone.mean, rtol=1e-9)
    np.testing.assert_array_equal(told[each[2]], seen.log_s[each[2]])


@pytest.mark.parametrize("folder, most", [
    pytest.param("cpu", 16, marks=pytest.mark.slow), pytest.param("h100", 2, marks=pytest.mark.exhaustive),
    pytest.param("h100", 4, marks=pytest.mark.exhaustive), pytest.param("h200", 2, marks=pytest.mark.exhaustive),
])  # fmt: skip
def test_learning_is_not_worse_than_rank_order_on_any_table(folder: str, most: int) -> None:
    """In the mean over all tables of a device to 1 %, and on each as far as so few problems of it can tell; of 16 a
    table: `python benchmarks/learn.py tests/data/h200`."""
    counts, every = (1, 3, 6), []
    for name, group in grouped([ROOT / "tests" / "data" / folder], most).items():
        every.append(replay(group, 6, 3, counts))
        learn, rank = np.exp(every[-1].mean(axis=0))
        assert (learn <= 1.05 * rank).all(), f"{name}: {learn} after {counts} trials, {rank} in rank order"
    learn, rank = np.exp(np.concatenate(every).mean(axis=0))
    assert (learn <= 1.01 * rank).all(), f"{folder}: {learn} after {counts} trials, {rank} in rank order"


def test_no_two_candidates_have_one_place() -> None:
    """Of layouts "nt" and "tn", the sums of the letters are equal; so are log2 of 0 and of 0.5, cut at 0.5."""
    words = ["nt", "tn", "nn", "tt", None, "", (1, 2), (2, 1), float("inf")]
    numbers = [-64, -2, -1, -0.5, 0, 0.25, 0.5, 0.75, 1, 2, 3, 1 << 40]
    _, where = places([{"layout": each, "tile": 64} for each in [*words, *numbers]])
    apart = np.sqrt(((where[:, None] - where[None]) ** 2).sum(axis=2)) + np.eye(len(where))
    assert apart.min() > 0.2
    assert np.ptp([apart[i, j] for i in range(len(words)) for j in range(i)]) == pytest.approx(0.0, abs=1e-9)


def test_a_word_that_was_not_measured_keeps_its_own_time() -> None:
    axes, where = places([{"layout": "nt"}, {"layout": "tn"}])
    both = Rows((), np.zeros(2), np.zeros((2, 0)), axes, where, ({"m": 1}, {"m": 1}))
    found = posterior(both, both.where([0]), np.array([1.0]))
    assert found.mean[0] == pytest.approx(1.0, abs=0.01) and found.deviation[0] < 0.02
    assert found.deviation[1] > 3 * found.deviation[0]


def test_a_place_is_no_truth_value() -> None:
    start = matmul().rank(CONFIGS)
    with pytest.raises(ConfigError, match="True is none of them"):
        start.learn({True: 1.0})
    assert start.learn({np.int64(1): 1.0})[0].index in start.indices
