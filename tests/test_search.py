"""Search of a space: the best of it for few compiled, the same each time, and something whatever ends it."""

from __future__ import annotations

import json
import math
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import carver
from carver.base.errors import CompileError, ConfigError, KernelError, NoCandidates
from carver.cli.main import main
from carver.ranking.ranking import Search
from carver.ranking.search import Choices, searched
from carver.ranking.surrogate import axes_of

pytest.importorskip("triton", reason="Triton is not installed")

from tests import compiled_kernels as kernels

pytestmark = pytest.mark.usefixtures("own_cache")
SIZE = 1024
ARGS = {**{name: carver.Tensor("float16", (SIZE, SIZE)) for name in ("a_ptr", "b_ptr", "c_ptr")},
        "M": SIZE, "N": SIZE, "K": SIZE}  # fmt: skip
SPACE = carver.SearchSpace(
    BM=[16, 32, 64, 128], BN=[16, 32, 64, 128], BK=[32, 64], num_warps=[4, 8], num_stages=[2, 3, 4, 8]
).where("BM * BN <= 8192")


def grid(meta: dict[str, Any]) -> tuple[int]:
    return ((SIZE // meta["BM"]) * (SIZE // meta["BN"]),)


def found(most: int, **how: Any) -> carver.Ranking:
    return carver.search(kernels.matmul, SPACE, args=ARGS, grid=grid, arch="h100", most=most, **how)


def steps(ranking: carver.Ranking) -> list[Any]:
    assert ranking.search is not None
    return [step.config for step in ranking.search.steps]


def test_conditions_are_functions_or_expressions() -> None:
    assert len(SPACE) == (16 - 1) * 2 * 2 * 4  # only 128 x 128 has more than 8,192 elements
    same = carver.SearchSpace(**SPACE.values).where(lambda BM, BN: BM * BN <= 8192)
    assert list(same) == list(SPACE)
    with pytest.raises(ConfigError, match="asks for 'BZ'"):
        SPACE.where("BZ < 3")
    for no_condition in ("BM * BN", "8192", "-BM"):
        with pytest.raises(ConfigError, match=f"a constraint compares, such as .* got '{re.escape(no_condition)}'"):
            SPACE.where(no_condition)
    assert list(SPACE.where("not BM * BN > 64 or BM < 32"))
    with pytest.raises(KernelError):
        SPACE.where("__import__('os')")


def test_large_spaces_give_members_by_chance_and_near_the_best() -> None:
    values = {name: [2**i for i in range(12)] for name in "abcd"}
    large = Choices.of(carver.SearchSpace(**values).where("a * b <= 4096"))
    best = dict(a=64, b=64, c=2, d=2048)
    drawn = large.candidates([best], 1.0, random.Random(1))
    assert drawn == large.candidates([best], 1.0, random.Random(1))
    assert all(config in large for config in drawn) and len(drawn) > 150
    near = [config for config in drawn[150:] if config != best]
    assert max(sum(config[n] != best[n] for n in "abcd") for config in near) <= 3
    assert all(config[n] / best[n] in (0.5, 1, 2) for config in near for n in "abcd")
    assert large.member(dict(a=100, b=3, other=1)) == dict(a=128, b=4, c=1, d=1)
    assert large.member(dict(a=2048, b=2048)) is None


def test_a_search_sees_configurations_as_a_ranking_of_them_does() -> None:
    """Warps and stages are no numbers of a tile, in a product and in a list of members."""
    members = list(SPACE)
    seen = axes_of(members, [1.0] * len(members), 132).kinds
    assert {"tile", "warps", "stages"} <= {*seen}
    for space in (SPACE, SPACE.values, members):
        assert axes_of(members, [1.0] * len(members), 132, Choices.of(space).kinds).kinds == seen


def test_what_is_no_space_is_refused() -> None:
    for space, match in (([], "no members"), ("BM", "a space is"), (3, "a space is"), ({"BM": []}, "no values")):
        with pytest.raises(ConfigError, match=match):
            carver.search(kernels.matmul, space, args=ARGS, grid=grid, arch="h100")


@pytest.mark.exhaustive
def test_a_quarter_of_a_space_holds_its_best() -> None:
    small = [c for c in SPACE if c["BM"] * c["BN"] >= 2048 and c["num_warps"] == 4 and c["num_stages"] in (2, 4)]
    truth = carver.rank_kernel(kernels.matmul, small, args=ARGS, grid=grid, arch="h100", compile="all")
    ranking = carver.search(kernels.matmul, small, args=ARGS, grid=grid, arch="h100", most=len(small) // 4)
    assert len(steps(ranking)) == len(small) // 4
    assert ranking.seconds[0] <= 1.05 * truth.seconds[0]


@pytest.mark.slow
def test_it_is_the_same_each_time_and_a_longer_one_goes_on() -> None:
    short, again, longer, other = found(6), found(6), found(9), found(6, seed=1)
    assert steps(short) == steps(again) and short.seconds.tolist() == again.seconds.tolist()
    assert steps(longer)[:6] == steps(short) and len(steps(longer)) == 9
    assert other.search is not None and other.search.ended == "6 were compiled"
    best = longer.search.best if longer.search else []
    assert [ms for _, _, ms in best] == sorted((ms for _, _, ms in best), reverse=True)
    assert best[-1][2] == pytest.approx(longer[0].predicted_ms)


@pytest.mark.slow
def test_it_begins_with_seeds_that_the_space_has() -> None:
    seeds = [dict(BM=64, BN=64, BK=64, num_warps=4, num_stages=3), dict(BM=100, BN=60, BK=32, num_warps=4)]
    ranking = found(6, seeds=seeds)
    assert steps(ranking)[:2] == [seeds[0], dict(BM=128, BN=64, BK=32, num_warps=4, num_stages=2)]


def test_a_template_seeds_a_space_by_the_usual_names_of_its_keys() -> None:
    from carver.arch.devices import load
    from carver.integrations.kernels import _seeds

    space = Choices.of(dict(BLOCK_SIZE_M=[64, 128, 256], BLOCK_SIZE_N=[64, 128, 256], BLOCK_K=[64], num_warps=[4, 8]))
    template = carver.MatmulTemplate(4096, 4096, 4096)
    seeds = [space.member(each) for each in _seeds(template, load("h100"))]
    first = template.with_arch("h100").recommend_hints(1, backend="triton")[0].config
    assert seeds[0] == dict(BLOCK_SIZE_M=first["BLOCK_M"], BLOCK_SIZE_N=first["BLOCK_N"], BLOCK_K=64,
                            num_warps=first["num_warps"])  # fmt: skip


@pytest.mark.slow
def test_what_lacks_shared_memory_is_tried_with_fewer_stages() -> None:
    """128 x 64 x 64 halves of 8 stages: 7 buffers of 24 KiB; with BK = 256 one of 96 KiB: two of them fit 227 KiB."""
    space = dict(BM=[128], BN=[64], BK=[256], num_warps=[4], num_stages=[2, 3, 4, 8])
    ranking = carver.search(
        kernels.matmul, space, args=ARGS, grid=grid, arch="h100",
        seeds=[dict(BM=128, BN=64, BK=256, num_warps=4, num_stages=8)], most=2,
    )  # fmt: skip
    assert ranking.search is not None
    refused, fewer = ranking.search.steps
    assert "bytes of shared memory" in refused.why and refused.predicted_ms is None
    assert fewer.origin == "fewer stages" and fewer.predicted_ms and fewer.config["num_stages"] < 8


@pytest.mark.slow
def test_interrupted_it_returns_what_it_has() -> None:
    def interrupt(so_far: Search) -> None:
        raise KeyboardInterrupt

    ranking = found(30, told=interrupt)
    assert ranking.search is not None and ranking.search.ended == "interrupted"
    assert 0 < len(ranking) <= 6


def test_one_compilation_does_not_have_the_whole_budget() -> None:
    """A quarter of what is left, ten seconds if there are so many; without a budget what the caller allows."""
    asked: list[float] = []

    class Endless:
        name, backend, source, arguments = "endless", "triton", "", {}

        def programs(self, config: Any) -> float:
            return 1.0

        def facts(self, configs: Any, seconds: float) -> list[Any]:
            asked.append(seconds)
            return [CompileError("late")] * len(configs)

    for budget_s in (400.0, 20.0, 5.0, math.inf):
        with pytest.raises(NoCandidates):
            searched(Endless(), Choices.of([{"B": 1}]), carver.load_arch("h100"), budget_s=budget_s, seconds=120.0)
    assert asked == pytest.approx([100.0, 10.0, 5.0, 120.0], rel=0.01)


def test_a_batch_is_of_as_many_as_the_budget_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 12 of one second each, as the first four took, six fit into the 6.9 s that are left, and one more is begun."""
    asked: list[int] = []

    class Slow:
        name, backend, source, arguments = "slow", "triton", "", {}

        def programs(self, config: Any) -> float:
            return 1.0

        def facts(self, configs: Any, seconds: float) -> list[Any]:
            asked.append(len(configs))
            return [CompileError("no")] * len(configs)

    clock = time.perf_counter
    monkeypatch.setattr("carver.ranking.search.time.perf_counter", lambda: clock() + sum(asked))
    space = Choices.of({"B": [16, 32, 64, 128, 256], "num_warps": [1, 2, 4, 8]})
    for budget_s, batches in ((10.9, [4, 6, 1]), (60.0, [4, 12, 4])):
        asked.clear()
        with pytest.raises(NoCandidates):
            searched(Slow(), space, carver.load_arch("h100"), budget_s=budget_s, seconds=120.0)
        assert asked == batches


@pytest.mark.slow
def test_it_ends_by_budget_patience_or_exhaustion() -> None:
    """The budget comes last: what it looks at first is compiled by then."""
    ended = [
        (found(60, patience=2).search, "2 in a row"),
        (carver.search(kernels.matmul, list(SPACE)[:7], args=ARGS, grid=grid, arch="h100").search, "all of the space"),
        (found(60, budget_s=0.01).search, "its budget of seconds"),
    ]
    for search, why in ended:
        assert search is not None and why in search.ended, search


@pytest.mark.slow
def test_an_interrupt_of_the_measuring_keeps_what_was_measured() -> None:
    asked: list[Any] = []

    def measure(config: Any) -> float:
        asked.append(config)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return 7.0 + len(asked)

    ranking = found(6, measure=measure, topk=4)
    assert len(asked) == 3 and ranking.search is not None
    assert sorted(ms or 0 for ms in ranking.search.measured_ms.values()) == [8.0, 9.0]
    assert ranking[0].config not in asked[:2]


@pytest.mark.slow
def test_measured_times_move_the_first() -> None:
    """A device on which fewer stages are faster, whatever the model says."""
    asked: list[Any] = []

    def measure(config: Any) -> float:
        asked.append(config)
        return 0.1 * config["num_stages"] + 1e-4 * config["BM"]

    ranking = found(12, topk=3, measure=measure)
    assert ranking.search is not None and 3 <= len(asked) <= 6
    assert ranking[0].config == min(asked, key=lambda c: (0.1 * c["num_stages"] + 1e-4 * c["BM"], c["BM"]))
    assert len(ranking.search.measured_ms) == len(asked)


@pytest.mark.slow
def test_nothing_that_compiles_is_said() -> None:
    space = dict(BM=[128], BN=[128], BK=[512], num_warps=[4], num_stages=[8])
    with pytest.raises(NoCandidates, match="shared memory"):
        carver.search(kernels.matmul, space, args=ARGS, grid=grid, arch="h100")


def test_the_command_says_how_it_got_there(tmp_path: Path) -> None:
    space, args = tmp_path / "space.json", tmp_path / "args.toml"
    space.write_text(json.dumps(SPACE.values))
    tensors = "\n".join(f'{n} = {{dtype = "float16", shape = [{SIZE}, {SIZE}]}}' for n in ("a_ptr", "b_ptr", "c_ptr"))
    args.write_text(f'grid = ["ceil(M, BM) * ceil(N, BN)"]\n[args]\nM = {SIZE}\nN = {SIZE}\nK = {SIZE}\n{tensors}\n')
    file = Path(kernels.__file__)
    asked = ["search", f"{file}:matmul", "--space", str(space), "--where", "BM * BN <= 8192", "--arch", "h100",
             "--args", str(args), "--most", "10", "--progress", str(tmp_path / "search.svg")]  # fmt: skip
    none = CliRunner().invoke(main, [*asked[:2], *asked[6:]])
    assert none.exit_code == 2 and "name a file with --space, give [configs]" in none.stderr
    listed = "".join(f"{name} = {list(values)}\n" for name, values in SPACE.values.items())
    args.write_text(f"{args.read_text()}[configs]\n{listed}")
    told = CliRunner().invoke(main, [*asked[:2], *asked[4:], "--json"])
    assert told.exit_code == 0, told.output
    reply = json.loads(told.stdout)
    assert len(reply["search"]["steps"]) == 10 and reply["search"]["ended"] == "10 were compiled"
    assert reply["hints"][0]["predicted_ms"] == min(s["predicted_ms"] for s in reply["search"]["steps"])
    assert "10 compiled" in told.stderr and "<svg" in (tmp_path / "search.svg").read_text()
