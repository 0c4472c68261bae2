"""Kernels of one's own: a folder of declarations, configurations in one's own words, lists of values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import carver
from carver.base.errors import ConfigError, NoCandidates

OP = carver.MatmulTemplate(1024, 1024, 1024).with_arch("h200")
TILE = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3}

MINE = """
backend = "triton"
compiler = "triton"
model = "contraction"
title = "matmul and GELU"
constants_of = "matmul/triton"
[tunables]
BM = [64, 128]
BN = [64, 128]
BK = [32, 64]
num_warps = [4, 8]
num_stages = [3]
[schedule]
tile_m = "BM"
tile_n = "BN"
tile_k = "BK"
"""


@pytest.fixture
def config(tmp_path: Path) -> dict[str, str]:
    """The environment of a user who has a kernel."""
    (tmp_path / "templates" / "matmul").mkdir(parents=True)
    (tmp_path / "templates" / "matmul" / "gelu.toml").write_text(MINE)
    return {**os.environ, "CARVER_CONFIG_DIR": str(tmp_path)}


def carver_json(env: dict[str, str], *args: str, given: str = "") -> Any:
    command = [sys.executable, "-m", "carver", *args, "--json"]
    done = subprocess.run(command, env=env, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_declaration_of_the_users_is_a_kernel_like_any_other(config: dict[str, str]) -> None:
    asked = ("matmul", "1024", "1024", "1024", "--arch", "h200", "--kernel", "gelu")
    found = carver_json(config, "recommend", *asked, "-k", "3")
    assert {hint["kernel"] for hint in found["hints"]} == {"gelu"} and found["backend"] == "triton"
    grid = json.dumps({"BM": [64, 128], "BN": [64], "BK": [32, 64], "EVEN_K": [1]})
    ranked = carver_json(config, "rank", *asked, "--ignore", "EVEN_K", given=grid)
    assert len(ranked["hints"]) == 4
    assert {hint["config"]["num_warps"] for hint in ranked["hints"]} == {4}  # Triton's own default


def test_commands_that_rank_take_a_kernel_by_name(config: dict[str, str]) -> None:
    asked = ("matmul", "1024", "1024", "1024", "--arch", "h200", "--kernel", "gelu")
    assert carver_json(config, "explain", *asked)["hint"]["kernel"] == "gelu"
    mine = json.dumps({"BM": 64, "BN": 64, "BK": 32, "num_warps": 4, "num_stages": 3})
    assert carver_json(config, "explain", *asked, "--config", mine)["hint"]["config"]["BM"] == 64
    command = [sys.executable, "-m", "carver", "export", "triton", *asked]
    done = subprocess.run(command, env=config, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)[0].keys() == {"BM", "BN", "BK", "num_warps", "num_stages"}


@pytest.mark.slow
def test_a_requirement_that_cannot_be_computed_names_its_file(config: dict[str, str]) -> None:
    path = Path(config["CARVER_CONFIG_DIR"]) / "templates" / "matmul" / "gelu.toml"
    path.write_text(MINE.replace("[schedule]", '[requires]\n"large" = "m > 64"\n[schedule]'))
    command = [sys.executable, "-m", "carver", "recommend", "matmul", "64", "64", "64", "--arch", "h200", "-k", "1"]
    done = subprocess.run([*command, "--kernel", "gelu"], env=config, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.startswith(f"error: {path}: [requires] large: 'm > 64' uses 'm'")


def test_lists_of_values_are_every_combination() -> None:
    grid = OP.rank({**TILE, "BLOCK_M": [64, 128], "BLOCK_N": (32, 64, 128)})
    each = OP.rank([TILE | {"BLOCK_M": m, "BLOCK_N": n} for m in (64, 128) for n in (32, 64, 128)])
    assert [h.config for h in grid] == [h.config for h in each]
    assert grid.indices == each.indices


def test_a_grid_without_a_list_or_without_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="a list of configurations, or lists of values by key"):
        OP.rank(TILE)
    with pytest.raises(ConfigError, match="10000000000 combinations of values are more than 1000000"):
        OP.rank({key: range(1, 101) for key in TILE})


def test_names_and_keys_to_ignore() -> None:
    ours = OP.rank([TILE])
    theirs = {"tm": 64, "BLOCK_SIZE_N": 64, "BK": 32, "num_warps": 4, "num_stages": 3, "EVEN_K": True, "num_ctas": 2}
    found = OP.rank([theirs], names={"BLOCK_M": "tm"}, ignore=["EVEN_K", "num_ctas"])
    assert found.seconds.tolist() == ours.seconds.tolist()
    with pytest.raises(ConfigError, match="names maps 'BLOCK_X', which is no key of these kernels; did you mean"):
        OP.rank([TILE], names={"BLOCK_X": "tm"})
    with pytest.raises(ConfigError, match="spellings of one"):
        OP.rank([TILE | {"tm": 64}], names={"BLOCK_M": "tm"})


@pytest.mark.parametrize(("device", "stages"), [("h200", 3), ("mi300x", 2)])
def test_what_triton_has_a_default_for_may_be_lacking(device: str, stages: int) -> None:
    op = carver.MatmulTemplate(1024, 1024, 1024).with_arch(device)
    (hint,) = op.rank([{"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}])
    assert (hint.config["num_warps"], hint.config["num_stages"]) == (4, stages)
    with pytest.raises(ConfigError, match="lacks BLOCK_K"):
        op.rank([{"BLOCK_M": 64, "BLOCK_N": 64}])


def test_a_kernel_is_asked_for_by_name() -> None:
    hints = OP.recommend_hints(3, kernel="mma")
    assert {(hint.backend, hint.kernel) for hint in hints} == {("cuda", "mma")}
    with pytest.raises(ConfigError, match="matmul has no kernel 'simd'; did you mean 'simt'"):
        OP.recommend_hints(3, kernel="simd")


def test_a_kernel_that_is_asked_for_says_what_it_requires() -> None:
    with pytest.raises(NoCandidates, match=r"kernel 'wgmma' on a100.*requires that"):
        carver.MatmulTemplate(64, 64, 64).with_arch("a100").recommend_hints(3, kernel="wgmma")


@pytest.mark.slow
def test_keys_of_ones_own_are_not_taken_for_other_spellings(config: dict[str, str]) -> None:
    path = Path(config["CARVER_CONFIG_DIR"]) / "templates" / "matmul" / "gelu.toml"
    path.write_text(path.read_text().replace("BM", "BLOCK_SIZE_M").replace("BN", "BLOCK_SIZE_N").replace("BK", "GROUP"))
    asked = ("matmul", "1024", "1024", "1024", "--arch", "h200", "--kernel", "gelu")
    grid = json.dumps({"BLOCK_SIZE_M": [64, 128], "BLOCK_SIZE_N": 64, "GROUP": 32, "num_ctas": 1})
    ranked = carver_json(config, "rank", *asked, given=grid)
    assert {tuple(hint["config"]) for hint in ranked["hints"]} == {
        ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "GROUP", "num_warps", "num_stages")
    }


@pytest.mark.slow
def test_a_declaration_that_names_no_backend_is_not_passed_over(config: dict[str, str]) -> None:
    path = Path(config["CARVER_CONFIG_DIR"]) / "templates" / "matmul" / "gelu.toml"
    path.write_text(MINE.replace('backend = "triton"', ""))
    command = [sys.executable, "-m", "carver", "recommend", "matmul", "64", "64", "64", "--arch", "h200", "-k", "1"]
    done = subprocess.run(command, env=config, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.startswith(f"error: {path}: missing backend")


@pytest.mark.slow
@pytest.mark.parametrize(("device", "count"), [("cpu", 6), pytest.param("auto", 40, marks=pytest.mark.gpu)])
def test_our_kernels_compute_what_they_say(device: str, count: int) -> None:
    """Problems drawn at random: each is refused by an error of ours, or computed right."""
    program = Path(__file__).parent.parent / "benchmarks" / "drawn_problems.py"
    command = [sys.executable, program, "--device", device, "--count", str(count), "--seed", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and " ok" in done.stdout, done.stdout + done.stderr
