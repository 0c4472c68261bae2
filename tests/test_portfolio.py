"""Portfolios: what they lose, where they switch, and what they say."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import carver
from carver.base.errors import ConfigError, ProblemError
from carver.cli.main import main
from carver.ranking.portfolio import Bucket, Portfolio, _cover, _table, at
from carver.ranking.recommend import rank, recommend
from carver.run.records import Measurement, Records

OP = carver.MatmulTemplate(4096, 4096, 4096).with_arch("h200")


@pytest.fixture(scope="module", params=["cuda", "triton"])
def four(request: pytest.FixtureRequest) -> Portfolio:
    start = time.process_time()
    found = OP.portfolio(M=range(1, 8193), k=4, backend=request.param)
    assert time.process_time() - start < 6  # 2 s on an idle core
    return found


def test_four_configurations_cover_every_batch(four: Portfolio) -> None:
    assert len(four) <= 4
    assert four.loss < 0.04 < four.single_loss
    assert four.loss <= four.worst


def test_the_loss_is_that_of_an_independent_ranking(four: Portfolio) -> None:
    sizes = [1, 3, 17, 40, 100, 222, 500, 900, 2000, 3300, 7000]
    losses = []
    for n in sizes:
        problem = at(OP.problem, "m", n)
        mine = rank(problem, four.arch, [four.hint(n)], four.backend).seconds[0]
        losses.append(mine / recommend(problem, four.arch, 1, four.backend).seconds[0] - 1)
    # a candidate that is never worth recommending at one size may still win there by a hair
    assert min(losses) > -0.01 and max(losses) <= four.worst + 0.02
    assert np.median(losses) < 0.1


@pytest.mark.slow
def test_more_configurations_lose_less() -> None:
    one, eight = (OP.portfolio(M=range(1, 8193), k=k, backend="triton").loss for k in (1, 8))
    assert eight < 0.01 and eight < one


@pytest.mark.parametrize("seed", range(5))
def test_the_choice_is_the_best_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    loss, weights = rng.random((14, 9)) ** 3, rng.dirichlet(np.ones(9))
    found = _cover(loss, weights, 3)
    best = min(np.min(loss[list(c)], axis=0) @ weights for c in itertools.combinations(range(14), 3))
    assert np.min(loss[found], axis=0) @ weights == pytest.approx(best)


def test_buckets_merge_where_that_costs_nothing() -> None:
    loss = np.array([[0.0, 0.0, 0.5, 0.0005, 0.9], [0.5, 0.5, 0.0, 0.0, 0.0]])
    table = _table([1, 2, 4, 8, 16], loss, np.full(5, 0.2))
    assert table == (Bucket(2, 0), Bucket(16, 1))


def test_a_change_must_be_worth_it() -> None:
    """A size whose alignment alone favours another configuration makes no bucket of its own."""
    loss = np.zeros((2, 100))
    loss[0, 40], loss[1, :40], loss[1, 41:] = 0.1, 0.005, 0.005
    assert _table(range(1, 101), loss, np.full(100, 0.01)) == (Bucket(100, 0),)
    loss[0, 40] = 0.3
    assert _table(range(1, 101), loss, np.full(100, 0.01)) == (Bucket(40, 0), Bucket(41, 1), Bucket(100, 0))


def test_the_table_is_as_short_along_the_reduced_axis() -> None:
    found = OP.portfolio(K=range(1, 8193), k=4, backend="triton")
    assert len(found.table) <= 5 and found.loss < 0.03


def test_axes_by_the_names_that_people_use() -> None:
    rows = carver.ReductionTemplate("sum", (4096, 4096)).with_arch("h200")
    assert [b.upto for b in rows.portfolio(COLS=[64, 4096], k=2).table][-1] == 4096
    own = carver.OpTemplate("C[n,m] += A[n,k] * B[k,m]", n=64, m=512, k=512).with_arch("h200")
    found = own.portfolio(n=[64, 4096], k=1)
    assert found.axis == "m" and "n from" in repr(found) and repr(found).startswith("1 configuration for")


@pytest.mark.slow
def test_a_long_range_is_sampled() -> None:
    start = time.process_time()
    found = OP.portfolio(M=range(1, 10**9), k=1)
    assert time.process_time() - start < 10 and found.table[-1].upto == 10**9 - 1


def test_a_size_goes_to_the_bucket_that_holds_it(four: Portfolio) -> None:
    bounds = [b.upto for b in four.table]
    assert bounds == sorted(set(bounds)) and bounds[-1] == 8192
    for b in four.table[:-1]:
        assert four.place(b.upto) == b.config
    assert four.place(10**6) == four.table[-1].config
    assert {b.config for b in four.table} == set(range(len(four)))
    sizes = [1, 64, 65, 5000]
    source: dict[str, Any] = {}
    exec(four.to_python(), source)
    assert [source["choose"](n) for n in sizes] == [dict(four[n]) for n in sizes]
    assert [json.loads(four.to_json())["configs"][four.place(n)] for n in sizes] == [
        {"kernel": four.configs[four.place(n)][0], **four[n]} for n in sizes
    ]
    assert f"{len(four)} configurations for matmul" in repr(four)
    assert len(four.table) <= 2 * len(four)


def test_exports_take_its_hints() -> None:
    found = OP.portfolio(M=range(1, 8193), k=3, backend="tilelang")
    assert len(found.hints().to_tilelang()) == len(found) == 3


@pytest.mark.slow
def test_weights_decide() -> None:
    sizes = [16, 4096]
    for heavy, other in (sizes, sizes[::-1]):
        one = OP.portfolio(M={heavy: 0.99, other: 0.01}, k=1, backend="triton")
        problem = at(OP.problem, "m", heavy)
        assert recommend(problem, OP.arch, 1, "triton")[0].config == one[heavy]  # type: ignore[arg-type]
    many = OP.portfolio(M=dict.fromkeys(range(1, 2000), 1.0), k=4, backend="triton")
    assert many.loss < 0.05


def test_a_size_that_is_listed_twice_counts_twice() -> None:
    listed = OP.portfolio(M=[16, 16, 16, 4096], k=1, backend="triton")
    weighed = OP.portfolio(M={16: 3, 4096: 1}, k=1, backend="triton")
    assert listed.to_dict() == weighed.to_dict() != OP.portfolio(M=[16, 4096], k=1, backend="triton").to_dict()


def test_measured_loss() -> None:
    found = OP.portfolio(M=[64, 4096], k=2, backend="triton")
    other = {"BLOCK_M": 1}
    rows = [(64, found[64], 1.1e-5), (64, other, 1.0e-5), (4096, found[4096], 2e-4), (128, other, 1.0)]
    assert found.measured(rows) == pytest.approx({64: 0.1, 4096: 0.0})
    with pytest.raises(ConfigError, match="none of the 1 measured sizes"):
        found.measured(rows[3:])
    with pytest.raises(ConfigError, match="above 0 s, got nan for size 64"):
        found.measured([(64, found[64], float("nan"))])


@pytest.mark.slow
def test_measured_loss_of_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    found = OP.portfolio(M=range(64, 129), k=1, backend="triton")

    def record(m: int, config: dict[str, int], ms: float, **other: str) -> Measurement:
        said = dict(operator="matmul", kernel="triton", backend="triton", arch=found.arch.name) | other
        return Measurement(
            run_id="r", candidate=f"{m} {config} {other}", outcome="ok", problem=at(OP.problem, "m", m).to_dict(),
            config=config, device="d", host="h", median_ms=ms, **said,
        )  # fmt: skip

    picked, better = dict(found[64]), {**found[64], "GROUP_M": 1}
    rows = [
        record(64, picked, 2.2), record(64, better, 2.0), record(96, picked, 3.0),
        record(64, better, 0.1, arch="a100"), record(64, better, 0.1, backend="cuda"),
    ]  # fmt: skip
    assert found.measured(rows) == pytest.approx({64: 0.1, 96: 0.0})
    other = carver.MatmulTemplate(64, 512, 512).problem.to_dict()
    with pytest.raises(ConfigError, match="no size of this problem was measured"):
        found.measured([replace(rows[0], problem=other)])
    with Records() as store:
        for row in rows:
            store.put(row)
    words = ["portfolio", "matmul", "4096", "4096", "4096", "--arch", "h200", "--over", "m=64:128", "-k", "1",
             "--backend", "triton", "--measured"]  # fmt: skip
    assert "measured loss 4.9% in the mean: 10.0% at 64, 0.0% at 96" in CliRunner().invoke(main, words).output
    said = json.loads(CliRunner().invoke(main, [*words, "--json"]).output)
    assert said["measured_loss"] == pytest.approx({"64": 0.1, "96": 0.0})


def test_rows_along_the_axis_are_dense_again() -> None:
    odd = carver.MatmulTemplate(4095, 512, 512, trans_A=True).problem
    assert odd.align_bytes["A"] == 2 and at(odd, "m", 4096).align_bytes["A"] == 128
    padded = carver.MatmulTemplate(64, 512, 512, ldb=520).problem
    assert at(padded, "m", 128).align_bytes["B"] == padded.align_bytes["B"] == 16


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(Q=range(1, 9)), "no axis 'Q' to vary; known: K, M, N, b, batch, k, m, n"),
        (dict(), "name the one axis"),
        (dict(M=range(1, 9), N=range(1, 9)), "name the one axis"),
        (dict(M=range(0, 9)), "starts at 1 or above"),
        (dict(M=[]), "whole numbers of at least 1"),
        (dict(M=64), "a range, a list, or a mapping from size to weight, got 64"),
        (dict(M=["64"]), "size m must be a whole number"),
        (dict(M=[0, 64]), "size m must be a whole number"),
        (dict(M=range(1, 9), k=0), "k must be a whole number"),
        (dict(M={64: float("inf"), 128: 1.0}), "with weights of at least 0, got"),
        (dict(M={64: "1"}), "with weights of at least 0, got"),
        (dict(M=[[64]]), "size m must be a whole number"),
    ],
)
def test_bad_questions(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        OP.portfolio(**arguments)


def test_other_operators_vary_too() -> None:
    op = carver.ReductionTemplate("sum", (4096, 4096)).with_arch("h200")
    assert op.portfolio(R=range(1, 65536), k=3).loss < 0.05


def test_its_table_fits_the_terminal(four: Portfolio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = repr(four).splitlines()
    assert max(map(len, lines[1:-1])) <= 60 and "…" not in repr(four)
    assert any(str(four.table[-1].upto) in line.split() for line in lines)


@pytest.mark.slow
def test_from_the_command_line() -> None:
    words = ["portfolio", "matmul", "4096", "4096", "4096", "--arch", "h200", "--over", "m=1:256", "-k", "2"]
    evenly = CliRunner().invoke(main, [*words[:-4], "--over", "M=1:100000000", "--uniform", "-k", "1", "--json"])
    assert json.loads(evenly.output)["table"][-1]["upto"] == 100_000_000
    assert "predicted loss" in CliRunner().invoke(main, words).output
    assert len(json.loads(CliRunner().invoke(main, [*words, "--json"]).output)["configs"]) == 2
    assert CliRunner().invoke(main, [*words, "--python"]).stdout.startswith("def choose(m):")
    done = CliRunner().invoke(main, [*words[:-4], "--over", "m"])
    assert done.exit_code == 2 and "AXIS=FROM:TO" in done.output


@pytest.mark.slow
def test_a_sequence_is_its_queries_and_its_keys() -> None:
    op = carver.FlashAttentionTemplate(batch=4, heads=32, kv_heads=8, seq=4096, head_dim=128, causal=True)
    few = op.with_arch("h200").portfolio(seq=[256, 1024, 8192], k=2)
    assert few.axis == "seq" and few.to_python().startswith("def choose(seq):")
    there = at(few.problem, "seq", 256)
    assert there.sizes["q"] == there.sizes["s"] == 256 and there.sizes["z"] == 4
    assert op.with_arch("h200").portfolio(batch=[1, 8], k=1).axis == "z"
    decode = carver.FlashAttentionTemplate(batch=4, heads=32, kv_heads=8, seq=1, seq_kv=4096, head_dim=128)
    assert decode.with_arch("h200").portfolio(seq_kv=range(512, 65536), k=2).axis == "s"
    assert decode.with_arch("h200").portfolio(seq=[1, 16], k=1).axis == "q"


def test_what_is_no_size_has_no_configuration() -> None:
    few = carver.MatmulTemplate(64, 64, 64).with_arch("a100").portfolio(M=range(1, 65))
    for size in (0, "x", 1.5):
        with pytest.raises(ProblemError, match="size m must be a whole number"):
            few[size]
