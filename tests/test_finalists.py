"""Measured candidates that noise does not tell apart, and the rounds that decide among the fastest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tuned

import carver
from carver.run.records import Measurement, ratio, tied, undecided
from carver.run.report import Report

GIVEN: dict[str, Any] = {
    "run_id": "r", "outcome": "ok", "operator": "matmul", "kernel": "mma", "backend": "cuda", "arch": "h100_sxm",
    "device": "GPU", "host": "here",
}  # fmt: skip
PROBLEM = carver.MatmulTemplate(64, 64, 64).problem


def timed(name: str, rounds: Sequence[Sequence[float]], registers: int = 32, shared: int = 0, **config: Any) -> Any:
    info = {"resources": {"kernel": [registers, 0, 0]}, "smem_bytes": shared}
    m = Measurement(candidate=name, config=config or {"T": name}, problem=PROBLEM.to_dict(), device_info=info, **GIVEN)
    for samples in rounds:
        m = m.with_round(samples, {})
    return m


def test_rounds_are_compared_in_pairs() -> None:
    """Clocks fall by 20 % from round to round; in each, one is 3 % slower than the other: medians alone overlap."""
    clocks = (1.0, 1.2, 1.44, 1.73)
    fast, slow = (timed(n, [[c * k] * 5 for c in clocks]) for n, k in (("a", 1.0), ("b", 1.03)))
    assert fast.ci_high_ms > slow.ci_low_ms and ratio(slow, fast) == pytest.approx((1.03, 1.03, 1.03))
    assert tied([fast, slow]) == [fast] and not undecided([fast, slow])


def test_one_lucky_round_of_a_slower_one_is_no_tie() -> None:
    """4 % slower, but no slower than 1 % in one of five rounds: the least of five ratios is no bound to choose by."""
    fast = timed("a", [[1.0] * 5] * 5)
    slow = timed("b", [[c] * 5 for c in (1.005, 1.04, 1.05, 1.04, 1.06)], registers=24)
    assert tied([fast, slow]) == [fast] and undecided([fast, slow]) == []
    even = timed("c", [[c] * 5 for c in (0.99, 1.04, 1.05, 1.04, 1.06)], registers=24)
    assert tied([fast, even]) == [even, fast] and undecided([fast, even]) == [fast, even]


def test_a_time_without_an_interval_is_exact() -> None:
    fast, slow = (
        Measurement(candidate=n, config={"T": n}, problem=PROBLEM.to_dict(), median_ms=ms, **GIVEN)
        for n, ms in (("a", 1.0), ("b", 1.1))
    )
    assert ratio(slow, fast) == pytest.approx((1.1, 1.1, 1.1)) and tied([slow, fast]) == [fast]
    assert Report(PROBLEM, [slow, fast]).best.config == {"T": "a"}


@pytest.mark.parametrize(
    ("other", "taken", "open_"),
    [
        (dict(rounds=[[1.005] * 9], registers=24), "other", 0),  # less than 1 % slower: a tie, by registers
        (dict(rounds=[[1.005] * 9], shared=-1), "other", 0),  # then by shared memory
        (dict(rounds=[[1.005] * 9], registers=40), "best", 0),
        (dict(rounds=[[1.05] * 9], registers=24), "best", 0),  # slower
        (dict(rounds=[[0.9, 0.99, 1.05, 1.2, 1.3]], registers=24), "other", 2),  # noise: more rounds may say
        (dict(rounds=[[0.9, 0.99, 1.05, 1.2, 1.3]], registers=40), "best", 2),
    ],
)
def test_a_tie_is_resolved_by_the_stated_order(other: dict[str, Any], taken: str, open_: int) -> None:
    both = [timed("best", [[1.0] * 9]), timed("other", **other)]
    assert tied(both)[0].candidate == tied(both[::-1])[0].candidate == taken
    assert len(undecided(both)) == open_


def test_the_smaller_configuration_is_taken_last_of_all() -> None:
    both = [timed(name, [[1.0] * 9], BLOCK=size) for name, size in (("wide", 128), ("narrow", 64))]
    assert [m.candidate for m in tied(both)] == [m.candidate for m in tied(both[::-1])] == ["narrow", "wide"]
    assert tied([]) == undecided([]) == [] == tied([Measurement(**{**GIVEN, "outcome": "crash"}, candidate="c",
                                                                config={}, problem=PROBLEM.to_dict())])  # fmt: skip


def test_a_report_says_what_is_tied() -> None:
    every = [timed("a", [[1.0] * 9], 64), timed("b", [[1.002] * 9], 32), timed("c", [[1.3] * 9])]
    report = Report(PROBLEM, every)
    assert report.best.measurement.candidate == "b" and report.to_dict()["tied"] == 2
    assert [row["tied"] for row in report.rows()] == [True, True, False]
    assert report.rows()[0]["over_best"] == 1.0 and report.slowdown(1) == 1.0, "against the least time"
    assert "2 are tied, within what is noise" in str(report).replace("\n", " ")
    assert Report(PROBLEM, every[1:]).to_dict()["tied"] == 0


@pytest.mark.parametrize("order", [1, -1])
def test_a_tuner_takes_the_same_of_a_tie_whatever_the_order(order: int) -> None:
    configs = [{"pause_ms": ms} for ms in (0.03, 0.01, 0.02)][::order]
    with carver.set_autotune_inputs(np.zeros(64, np.float32)):
        made = carver.AutoTuner.from_kernel(tuned.sleeper, configs, (1,))
        result = made.run(**tuned.QUICK, bench=tuned.fixed_bench)
    assert result.config == {"pause_ms": 0.01} and len(result.tied) == 3
    assert "3 tied with the fastest" in result.summary()


@pytest.mark.slow
def test_the_fastest_few_are_timed_again_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses of 2 ms are asked for twice and one of 40 ms once: only the first two can be in another order."""
    monkeypatch.setattr("carver.tune.tuner.undecided", lambda every: [m for m in every if m.config["pause_ms"] < 3])
    with carver.set_autotune_inputs(np.zeros(64, np.float32)):
        made = carver.AutoTuner.from_kernel(tuned.sleeper, [{"pause_ms": ms} for ms in (2.0, 40.0, 2.001)], (1,))
        result = made.run(**tuned.QUICK, search="exhaustive")
    rounds = {m.config["pause_ms"]: len(m.rounds_ms) for m in result.table}
    assert rounds[40.0] == 1 and 2 <= rounds[2.0] <= 4 and abs(rounds[2.0] - rounds[2.001]) <= 1
