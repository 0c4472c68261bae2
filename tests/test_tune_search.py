"""Search strategies on tables with known answers, and the replay of recorded tables."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tuned
from click.testing import CliRunner
from test_tune import X, cache  # noqa: F401 (the fixture)

import carver
from carver.base import store
from carver.base.errors import ConfigError
from carver.calibrate.tables import Case
from carver.cli.main import main
from carver.tune import cache as disk
from carver.tune.candidates import (
    STRATEGIES,
    BudgetSpent,
    Choices,
    exhaustive,
    genetic,
    local,
    random_order,
    rank_order,
    strategy,
)  # fmt: skip

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import simulate
from simulate import SEARCHES, Cost, choices_of, replay, replay_summary

GRID = [{"a": a, "b": b, "kind": k} for a, b, k in product((16, 32, 64, 128), (1, 2, 3), ("x", "y"))]


def seconds(config: dict[str, Any]) -> float:
    """One valley: best at a=64, b=2, kind y."""
    return float(
        1e-3 * (1 + (math.log2(config["a"] / 64)) ** 2 + 0.5 * (config["b"] - 2) ** 2 + 0.3 * (config["kind"] == "x"))
    )


TRUE = np.array([seconds(c) for c in GRID])
BEST = int(TRUE.argmin())


class Table:
    """Answers from a table, and keeps the order it was asked in."""

    def __init__(self, times: Sequence[float], most: int = 10**9) -> None:
        self.times, self.most = list(times), most
        self.asked: list[int] = []
        self.batches: list[int] = []

    def __call__(self, batch: Sequence[int]) -> list[float]:
        self.batches.append(len(batch))
        for i in batch:
            if i not in self.asked:
                if len(self.asked) >= self.most:
                    raise BudgetSpent("spent")
                self.asked.append(i)
        return [self.times[i] for i in batch]


def choices(predicted: Any = TRUE, width: int = 1) -> Choices:
    return Choices(GRID, np.asarray(predicted, float), width)


@pytest.mark.parametrize("name", ["rank", "exhaustive", "random", "local"])
@pytest.mark.parametrize("width", [1, 5])
def test_every_strategy_tries_all_once_if_nothing_stops_it(name: str, width: int) -> None:
    table = Table(TRUE)
    strategy(name)(choices(width=width), table, 3)
    assert sorted(table.asked) == list(range(len(GRID)))
    if name != "exhaustive":
        assert max(table.batches) <= width


def test_rank_order_is_the_order_of_predictions_then_as_given() -> None:
    predicted = np.full(len(GRID), np.nan)
    predicted[[7, 3, 9]] = 3.0, 1.0, 2.0
    table = Table(TRUE)
    rank_order(choices(predicted), table)
    assert table.asked[:5] == [3, 9, 7, 0, 1]


def test_local_search_walks_downhill_from_the_best_predicted() -> None:
    start = GRID.index({"a": 16, "b": 1, "kind": "x"})
    predicted = np.full(len(GRID), 1.0)
    predicted[start] = 0.5
    table = Table(TRUE)
    local(choices(predicted), table)
    assert table.asked[0] == start
    assert table.asked.index(BEST) < 16, "sooner than half of the grid, from its far corner"


def test_genetic_search_finds_the_valley_and_is_repeatable() -> None:
    grid = [{"a": a, "b": b} for a, b in product(range(40), range(40))]
    times = [1 + (c["a"] - 31) ** 2 + (c["b"] - 7) ** 2 for c in grid]
    wide = Choices(grid, np.full(len(grid), np.nan))
    runs = []
    for _ in range(2):
        table = Table(times)
        genetic(wide, table, seed=5)
        runs.append(table.asked)
    assert runs[0] == runs[1]
    assert len(runs[0]) < 500
    assert min(times[i] for i in runs[0]) <= 1 + 2


def test_genetic_search_starts_from_the_ranking_if_seeded() -> None:
    table = Table(TRUE)
    genetic(choices(), table)
    assert set(table.asked[:6]) <= set(np.argsort(TRUE)[:12])
    assert BEST in table.asked[:6]


def test_random_depends_on_the_seed_alone() -> None:
    orders = []
    for seed in (1, 1, 2):
        table = Table(TRUE)
        random_order(choices(), table, seed)
        orders.append(table.asked)
    assert orders[0] == orders[1] != orders[2]


# live


@pytest.mark.parametrize("search", ["rank", "local", "genetic"])
def test_budget_in_trials(search: str) -> None:
    configs = [{"pause_ms": 0.1 * (1 + i)} for i in range(15)]
    with carver.set_autotune_inputs(X):
        made = carver.AutoTuner.from_kernel(tuned.sleeper, configs, (9,))
        result = made.run(search=search, trials=3, **{**tuned.QUICK, "rep": 2})
    assert result.trials == len(result.table) == 3
    assert result.stopped == "the budget of 3 trials is spent"


@pytest.mark.slow
@pytest.mark.parametrize("search", ["rank", "genetic"])
def test_budget_in_seconds_and_at_least_one_trial(search: str) -> None:
    configs = [{"pause_ms": 60.0 + i} for i in range(5)]
    with carver.set_autotune_inputs(X):
        made = carver.AutoTuner.from_kernel(tuned.sleeper, configs, (9,))
        result = made.run(seconds=0.05, search=search, **{**tuned.QUICK, "rep": 2})
    assert result.trials == 1 and "budget of 0.05 s" in result.stopped


def test_a_template_ranks_plain_configs() -> None:
    """Predictions of plain configs come from ranking them with a template."""
    op = carver.MatmulTemplate(M=64, N=64, K=64, in_dtype="float32").with_arch("cpu")
    hints = list(reversed(op.recommend_hints(300)[::60]))
    configs = [dict(h.config) for h in hints]

    def kernel(**config: int) -> carver.Kernel:
        return tuned.scale.fn(100)

    made = carver.AutoTuner.from_kernel(carver.jit(out_idx=[-1])(kernel), configs, template=op)
    result = made.run(trials=2, **tuned.QUICK)
    assert [m.config for m in result.table] == configs[-2:], "the best predicted were given last"
    assert [m.predicted_ms for m in result.table] == [pytest.approx(h.predicted_ms) for h in hints[-2:]]


# replay


def case(noise: float = 0.0) -> Case:
    """A measured table of carver's CPU matmul whose times are the model's own, up to noise."""
    op = carver.MatmulTemplate(M=96, N=96, K=96, in_dtype="float32").with_arch("cpu_avx2")
    hints = list(op.recommend_hints(60))
    rng = np.random.default_rng(1)
    order = rng.permutation(len(hints))
    times = np.array([hints[i].predicted_ms * 1e-3 for i in order]) * np.exp(rng.normal(0, noise, len(order)))
    times[5] = np.nan
    assert op.arch is not None
    return Case("made", op.problem, op.arch, "cpu", [hints[i].config for i in order], times)


def test_a_replay_counts_trials_and_seconds() -> None:
    table, cost = case(), Cost(compile_s=1.0, overhead_s=0.0, warmup=0, rep=100)
    found, times = choices_of(table)
    first = replay(table, "rank order", cost=cost)
    assert first.to_goal in (1, 2)
    best = float(np.nanmin(table.seconds))
    if first.to_goal == 1:
        assert first.goal_s == pytest.approx(1.0 + 100 * times[found.order[0]])
    everything = replay(table, "exhaustive", cost=cost)
    finite = times[np.isfinite(times)]
    assert everything.trials == everything.to_goal == len(times)
    assert everything.seconds == pytest.approx(len(times) + 100 * finite.sum())
    assert everything.exhaustive_s == pytest.approx(everything.seconds)
    assert everything.reached == pytest.approx(best / finite.min())


def test_rank_order_beats_the_rest_where_the_model_is_good() -> None:
    traces = simulate.simulate([case(0.02)], seeds=3)
    rows = {row["search"]: row for row in replay_summary(traces)}
    assert set(rows) == set(SEARCHES)
    assert rows["rank order"]["trials"] < rows["random"]["trials"] < rows["exhaustive"]["trials"]
    assert rows["learn"]["trials_to_stop"] < rows["exhaustive"]["trials"]
    assert rows["exhaustive"]["of_exhaustive"] == pytest.approx(1)


def test_a_replay_that_stops_short_counts_as_never() -> None:
    table = case()
    times = table.seconds.copy()
    worst = int(np.nanargmax(times))
    times[worst] = np.nanmin(times) / 3  # the model thinks least of what is best by far
    trace = replay(Case("made", table.problem, table.arch, "cpu", table.configs, times), "learn")
    assert trace.to_goal is None and trace.reached < 0.5 and trace.trials < len(times)
    assert replay_summary([trace])[0]["trials"] == math.inf


def test_a_table_of_which_little_ran_is_replayed() -> None:
    """The one configuration that ran is one that the rules refuse."""
    op = carver.MatmulTemplate(64, 64, 64).with_arch("h200")
    configs = [{"BLOCK_M": m, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4, "num_stages": stages}
               for m, stages in ((16, 300), (32, 3), (64, 3))]  # fmt: skip
    assert op.arch is not None
    table = Case("made", op.problem, op.arch, "triton", configs, np.array([1e-3, np.nan, np.nan]))
    [trace] = simulate.simulate([table], searches=("learn",))
    assert trace.to_goal is None and trace.reached == 0


def test_the_replay_as_a_program(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    rows = ["operator,arch,backend,M,N,K,in_dtype,time_ms," + ",".join(f"config.{k}" for k in case().configs[0])]
    for config, s in zip(case().configs, case().seconds, strict=True):
        if np.isfinite(s):
            rows.append(f"matmul,cpu_avx2,cpu,96,96,96,float32,{s * 1e3}," + ",".join(str(v) for v in config.values()))
    path = tmp_path / "table.csv"
    path.write_text("\n".join(rows))
    monkeypatch.setattr(sys, "argv", ["simulate.py", str(path), "--seeds", "1", "--json"])
    simulate.main()
    found = json.loads(capsys.readouterr().out)
    assert {row["search"] for row in found["summary"]} == set(SEARCHES)
    assert len(found["replays"]) == len(SEARCHES)
    sys.argv.remove("--json")
    simulate.main()
    assert "rank order" in capsys.readouterr().out


def test_exhaustive_measures_in_rank_order() -> None:
    table = Table(TRUE)
    exhaustive(choices(), table)
    assert table.asked[0] == BEST


def test_learning_stops_when_nothing_left_can_win() -> None:
    op = carver.MatmulTemplate(2048, 4096, 4096).with_arch("h200")
    configs = [{"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "num_warps": w, "num_stages": 3}
               for m, n, k, w in product((64, 128), (64, 128, 256), (32, 64), (4, 8))]  # fmt: skip
    ranking = op.rank(configs)
    predicted = np.full(len(configs), np.nan)
    predicted[ranking.indices] = ranking.seconds
    times = np.where(np.isnan(predicted), np.inf, 1.1 * predicted)
    table = Table(list(times))
    said = STRATEGIES["learn"](Choices(configs, predicted, 1, ranking), table)
    assert "nothing left is likely to win" in said
    assert table.asked[:3] == ranking.indices[:3]
    assert len(table.asked) < len(ranking)
    assert times[table.asked].min() == times.min()


def test_learning_without_predictions_tries_all_as_given() -> None:
    table = Table(TRUE)
    assert "all" in STRATEGIES["learn"](Choices(GRID, np.full(len(GRID), np.nan)), table)
    assert table.asked == list(range(len(GRID)))


def test_learning_goes_on_where_what_is_priced_fails() -> None:
    op = carver.MatmulTemplate(2048, 4096, 4096).with_arch("h200")
    configs = [{"BLOCK_M": 64, "BLOCK_N": n, "BLOCK_K": 64, "num_warps": 4, "num_stages": 3} for n in (64, 128)]
    table = Table([math.inf, math.inf, 1.0])
    choices = Choices([*configs, {"BLOCK_M": 1}], np.array([1.0, 1.0, np.nan]), 1, op.rank(configs))
    STRATEGIES["learn"](choices, table)
    assert sorted(table.asked) == [0, 1, 2]


def test_functions_of_one_name_learn_apart(tmp_path: Path) -> None:
    def plan(pause: int) -> Any:
        source = f"def scaled(n, block_M=64, block_N=64):\n    return [n, {pause}]\n"
        path = tmp_path / f"module_{pause}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        with carver.set_autotune_inputs(X):
            made = carver.AutoTuner.from_kernel(module.scaled, [{"block_M": 64}, {"block_M": 128}], (3,))
            return made.plan()

    first, second = plan(1), plan(2)
    assert first.name == second.name == "scaled"
    assert first.learnt_as != second.learnt_as and first.learnt_as == plan(1).learnt_as


def test_profiles_are_kept_listed_shown_and_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    op = carver.MatmulTemplate(2048, 4096, 4096).with_arch("h200")
    ranking = op.recommend_hints(4, "triton", profile=op.recommend_hints(4, "triton").profile)
    disk.save_profile("mine", ranking.learn({ranking[0]: 1.0}))
    found = disk.load_profile("mine", ranking)
    assert found is not None
    assert [m.ms for m in found.measured] == [1.0]
    name = "mine.matmul.triton.h200_sxm"
    run = CliRunner().invoke
    assert f"{name}  1 measurement of 1 problem" in run(main, ["profile", "list"]).output
    assert "matmul/triton on h200_sxm" in run(main, ["profile", "show", name]).output
    assert json.loads(run(main, ["profile", "show", name, "--json"]).output) == found.to_dict()
    store.put(disk.PROFILE, "odd", b"{}")
    assert "odd  unusable: not a profile" in run(main, ["profile", "list"]).output
    asked = ["recommend", "matmul", "512", "512", "512", "--arch", "h200", "--backend", "triton", "--json", "--profile"]
    carried = json.loads(run(main, [*asked, name]).output)
    taught = carver.MatmulTemplate(512, 512, 512).with_arch("h200").recommend_hints(10, "triton", profile=found)
    assert [hint["config"] for hint in carried["hints"]] == [dict(hint.config) for hint in taught]
    (tmp_path / "sent.json").write_text(json.dumps(found.to_dict()))
    assert json.loads(run(main, [*asked, str(tmp_path / "sent.json")]).output) == carried
    for nobody in ("nobody", "\x00", "\udcff"):
        assert f"no profile {nobody!r}" in run(main, [*asked, nobody]).output
    os.mkfifo(tmp_path / "pipe.json")
    assert "no profile" in run(main, [*asked, str(tmp_path / "pipe.json")]).output
    with pytest.raises(ConfigError, match="is no plain file"):
        op.recommend_hints(4, "triton", profile=tmp_path / "pipe.json")
    with pytest.raises(ConfigError, match="cannot be read: embedded null byte"):
        op.recommend_hints(4, "triton", profile="\x00")
    assert run(main, ["profile", "drop", name]).exit_code == 0
    assert disk.load_profile("mine", ranking) is None
    assert "no profile" in run(main, ["profile", "drop", name]).output


def test_one_search_can_be_replayed(monkeypatch: Any, capsys: Any) -> None:
    table = Path(__file__).parent / "data" / "h200" / "block_fp8.csv"
    monkeypatch.setattr(sys, "argv", ["simulate.py", str(table), "--most", "2", "--search", "learn", "--json"])
    simulate.main()
    assert {row["search"] for row in json.loads(capsys.readouterr().out)["summary"]} == {"learn"}
