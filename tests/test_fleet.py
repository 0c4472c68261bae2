"""One operator or kernel on several devices."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import carver
from carver.arch.devices import GENERATIONS, group
from carver.base.errors import ConfigError, NoCandidates
from carver.cli.main import main
from carver.ranking.compare import one_for_all, rank_over, recommend_over
from carver.ranking.plots import devices

OP = carver.MatmulTemplate(2048, 2048, 2048)
NAMES = ("a100", "h200", "mi300x")
ARCHS = [carver.load_arch(name) for name in NAMES]


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words), env={"COLUMNS": "140"})


@pytest.mark.slow
def test_a_pipe_gets_whole_configurations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    words = ["recommend", "matmul", "4096", "4096", "4096", "--arch", "amd"]
    whole, narrow = (CliRunner().invoke(main, words, env=env).output for env in ({}, {"COLUMNS": "80"}))
    assert "…" in narrow and "…" not in whole and "num_stages=" in whole


def test_devices_come_by_their_best_time_and_each_is_its_own_first_pick() -> None:
    fleet = recommend_over(OP.problem, ARCHS)
    times = [hint.predicted_ms for hint in fleet.best]
    assert times == sorted(times) and set(fleet.rankings) == {arch.name for arch in ARCHS}
    for arch in ARCHS:
        assert fleet.rankings[arch.name][0] == OP.with_arch(arch).recommend_hints(1)[0]


def test_one_for_all_is_the_least_mean_loss_of_what_all_can_run() -> None:
    """Against every configuration that the three devices know, ranked by hand."""
    configs = {"BLOCK_M": [64, 128, 256], "BLOCK_N": [64, 128, 256], "BLOCK_K": [32, 64], "num_warps": [4, 8],
               "num_stages": [2, 3]}  # fmt: skip
    fleet = rank_over(ARCHS, lambda arch: OP.with_arch(arch).rank(configs))
    assert fleet.one is not None
    by = [dict(zip(r.indices, r.seconds, strict=True)) for r in fleet.rankings.values()]
    common = set.intersection(*map(set, by))
    loss = {i: np.mean([np.log(t[i] / min(t.values())) for t in by]) for i in common}
    ours = np.mean([np.log1p(x) for x in fleet.one.losses.values()])
    assert ours == pytest.approx(min(loss.values())) and ours < sorted(loss.values())[len(loss) // 2]
    best = fleet.rankings["a100_sxm_80"]
    slower = 1 + fleet.one.losses["a100_sxm_80"]
    assert fleet.one.times_ms["a100_sxm_80"] == pytest.approx(best.seconds[0] * 1e3 * slower)


def test_a_configuration_that_one_device_cannot_run_is_no_one_for_all() -> None:
    # 147 KB of shared memory, of which an MI300X has 64
    wide = {"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
    narrow = wide | {"BLOCK_M": 64, "BLOCK_N": 64, "num_stages": 2}
    rankings = {arch.name: OP.with_arch(arch).rank([wide, narrow]) for arch in ARCHS}
    assert rankings["mi300x"].indices == [1] and rankings["h200_sxm"].indices == [0, 1]
    one = one_for_all(rankings, {0: wide, 1: narrow}, "triton")
    assert one is not None and one.config == narrow and one.losses["mi300x"] == 0.0 and one.worst != "mi300x"
    assert one_for_all(rankings, {0: wide}, "triton") is None


def test_what_runs_nowhere_is_told_for_each() -> None:
    fleet = recommend_over(OP.problem, [*ARCHS, carver.load_arch("cpu_avx2")], "triton")
    assert list(fleet.left_out) == ["cpu_avx2"] and "cpu_avx2" not in fleet.rankings
    with pytest.raises(NoCandidates, match="on any of cpu_avx2, cpu_neon"):
        recommend_over(OP.problem, [carver.load_arch("cpu_avx2"), carver.load_arch("cpu_neon")], "triton")


def test_what_is_wrong_on_each_device_is_told_as_on_one() -> None:
    with pytest.raises(ConfigError, match="takes a list of configurations, got 3"):
        rank_over(ARCHS, lambda arch: OP.with_arch(arch).rank(3, "triton"))  # type: ignore[arg-type]
    with pytest.raises(NoCandidates, match=r"removed:\n- 2 by .configuration 0 has unknown key 'TILE'"):
        rank_over(ARCHS, lambda arch: OP.with_arch(arch).rank([{"TILE": 64}]))


def test_words_for_many_devices() -> None:
    assert {arch.isa for arch in group("hopper")} == {"sm_90"} == {arch.isa for arch in group("SM_90")}
    assert {arch.vendor for arch in group("amd")} == {"amd"} and len(group("amd")) > 50
    assert len(group("all")) >= len(carver.arch_names()) and group("h200") == [] == group("a word")
    assert all(group(name) for name in GENERATIONS)


def test_the_command_line_shows_devices(tmp_path: Path) -> None:
    asked = ["recommend", "matmul", "2048", "2048", "2048"]
    several = [word for name in NAMES for word in ("--arch", name)]
    lines = run(*asked, *several).stdout.splitlines()
    assert lines[0] == "matmul M=2048 N=2048 K=2048 (float16) on 3 devices"
    first = recommend_over(OP.problem, ARCHS)
    rows = [word for line in lines for word in line.split()[:1] if word in first.rankings]
    assert rows == list(first.rankings)
    assert any(line.startswith("one configuration for all (triton) loses") for line in lines)
    page = devices(first, "").get("tables")[0]
    assert page["columns"][4] == "roof" and all(row[4].endswith("%") for row in page["rows"])
    told = json.loads(run(*asked, *several, "--json").stdout)
    assert [hint["arch"] for hint in told["hints"]] == list(first.rankings)
    assert first.one is not None and told["one_for_all"]["losses"] == pytest.approx(dict(first.one.losses))
    one = json.loads(run(*asked, "--arch", "sm_90", "--json").stdout)
    assert one["arch"] == "h100_sxm", "an instruction set alone is one device"
    wrong = run(*asked, *several, "--roofline", str(tmp_path / "x.png"))
    assert wrong.exit_code == 2 and "give one --arch" in wrong.stderr
    assert run(*asked, *several, "--plot", str(tmp_path / "x.png")).exit_code == 0
    assert (tmp_path / "x.png").stat().st_size > 9000


def test_each_device_of_a_user_s_list_is_told_as_it_is_done() -> None:
    wide = [{"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}]
    told: list[str] = []
    fleet = rank_over(ARCHS, lambda arch: OP.with_arch(arch).rank(wide), told.append)
    assert told[0] == f"1 of 3, {ARCHS[0].name}: {fleet.rankings[ARCHS[0].name][0].predicted_ms:.4g} ms"
    assert told[2] == "3 of 3, mi300x: left out"


def test_a_matrix_of_one_row_is_told_of_gemv() -> None:
    for rows, said in ((1, True), (16, False)):
        notes = carver.MatmulTemplate(rows, 4096, 4096).with_arch("h200").recommend_hints(1).notes
        assert any("carver.GEMVTemplate" in note for note in notes) == said
