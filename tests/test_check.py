"""`carver check`: all faults of a declaration at once, by line, and what it would recommend."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cases import KERNELS
from click.testing import CliRunner

import carver
from carver.base.errors import CarverError
from carver.cli.export import DEVICES, checked, example, line_of, trial, trials
from carver.cli.main import main
from carver.kernels.backends import BACKENDS
from carver.kernels.declaration import DeclarationError, Kernel

FAULTY = """\
backend = "tritn"
compiler = "triton"
model = "contraction"
colour = 3

[tunables]
BLOCK_M = [16, 32]
BLOCK_N = ["a"]
BLOCK_K = [32]
num_warps = [4]

[let]
half = "BLOCK_M // 2"

[schedule]
tile_m = "BLOK_M"
tile_n = "BLOCK_N"
tile_k = "BLOCK_K +"
serialised = "1"

[rules]
"too big" = "9**9**9 > smem_bytes"

[[launches]]
entry = "f"
gird = ["1"]

[constants]
dram_eficiency = 0.9
"""
SAYS = {
    1: "unknown backend 'tritn'; did you mean 'triton' or 'triton_tma' or 'triton_walk'?",
    2: "the compiler's columns need 'num_stages'",
    4: "unknown key 'colour'",
    8: "a list of whole numbers or an expression is wanted, each number from 0 to 2^31, got ['a']",
    13: "'half' is used nowhere",
    16: "there is no 'BLOK_M'; did you mean 'BLOCK_M'",
    18: "does not parse",
    19: "reads no column 'serialised'; did you mean 'serialized'?",
    22: "a power is a number from 0 to 4",
    24: "[[launches]] lacks args, block, grid",
    26: "[[launches]] has unknown key 'gird'; did you mean 'grid'?",
    29: "unknown constant 'dram_eficiency'; did you mean 'dram_efficiency'",
}


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    path = tmp_path / "matmul" / "mine.toml"
    path.parent.mkdir()
    path.write_text(FAULTY)
    return path


def test_every_fault_is_told_at_once_with_its_line(faulty: Path) -> None:
    with pytest.raises(DeclarationError) as caught:
        checked(faulty)
    found: dict[int | None, str] = {}
    for fault in caught.value.faults:
        found[line_of(FAULTY, fault)] = fault.says
    found[24] = next(f.says for f in caught.value.faults if f.key == "entry")
    assert {line: text for line, text in SAYS.items() if text not in found.get(line, "")} == {}
    assert found.keys() - SAYS.keys() <= {25}


def test_the_command_says_file_line_and_fault(faulty: Path) -> None:
    done = CliRunner().invoke(main, ["check", str(faulty)])
    assert done.exit_code == 2
    assert f"{faulty}:19: [schedule] serialised: model 'contraction' reads no column" in done.output
    assert len(done.output.splitlines()) == len(SAYS)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"backend = \n", ":1: not TOML: Invalid value (at line 1, column 11)"),
        (b"\xff\xfe", "can't decode byte 0xff"),
        (b"", "missing backend, model, schedule, tunables"),
        (b"tunables = 3\nmodel = []\n", ":1: [tunables] is a table of keys and values, got 3"),
    ],
)
def test_files_that_are_no_declaration(tmp_path: Path, text: bytes, says: str) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(text)
    done = CliRunner().invoke(main, ["check", str(path), "--operator", "matmul"])
    assert done.exit_code == 2 and says in done.output
    assert isinstance(done.exception, SystemExit)


def test_an_operator_that_is_not_there(faulty: Path) -> None:
    done = CliRunner().invoke(main, ["check", str(faulty), "--operator", "matmull"])
    assert "no operator 'matmull', which its folder is named after; did you mean 'matmul'" in done.output


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_every_shipped_declaration_is_without_fault_and_recommends(kernel: Kernel) -> None:
    assert checked(kernel.path) is kernel
    for dtype in ("float16", "float32", "float8_e4m3", "float64"):
        found = list(trials(kernel, example(kernel.operator, dtype)))
        assert {t.arch.name for t in found} == {
            name for name in DEVICES if BACKENDS[kernel.backend].runs_on(carver.load_arch(name))
        }
        if any(t.candidates and t.predicted_ms and kernel.keys("") <= t.config.keys() for t in found):
            return
        assert all(t.why for t in found)
    # for other reductions than the example, for other rows, for one query, for other scales, backward
    others = {"normalise", "rows", "held", "triton_decode", "triton_weights", "triton_rows", "triton_mx",
              "triton_backward"}  # fmt: skip
    assert kernel.name in others


def test_a_trial_that_fails_says_why() -> None:
    kernel = next(k for k in KERNELS if k.name == "wgmma")
    found = trial(kernel, example("matmul"), carver.load_arch("a100"))
    assert not found.candidates and "requires that the device has wgmma for the types" in found.why


def test_an_example_is_a_problem_that_people_have() -> None:
    problem = example("attention")
    assert problem.sizes["d"] == 128 and set(problem.dtypes.values()) == {"float16"}
    with pytest.raises(CarverError):
        example("matmul", "float17")


def test_the_command_answers_in_json(faulty: Path) -> None:
    done = CliRunner().invoke(main, ["check", str(faulty), "--json"])
    assert {fault["line"] for fault in json.loads(done.output)["faults"]} >= SAYS.keys() - {24, 26}
    shipped = next(k for k in KERNELS if (k.operator, k.name) == ("matmul", "tilelang"))
    done = CliRunner().invoke(main, ["check", str(shipped.path), "--json"])
    assert done.exit_code == 0 and json.loads(done.output)["trials"][0]["arch"] == "h200_sxm"
    wgmma = next(k for k in KERNELS if k.name == "wgmma")
    found = json.loads(CliRunner().invoke(main, ["check", str(wgmma.path), "--json"]).output)["trials"]
    unpriced = {row["arch"]: row["predicted_ms"] is None for row in found}
    assert not unpriced["h200_sxm"] and unpriced["t4"]


CUDA = """
backend = "cuda"
model = "stream"
source = "mine.cu"

[requires]
"one matrix" = "b == 1 and TILE > 1"

[tunables]
TILE = [16, 32]

[schedule]
warps = "8"
blocks = "ceil(i, TILE) * ceil(j, TILE)"
steps = "1"
tile_elements = "TILE * TILE"
run_elements = "TILE"
access_elements = "1"

[[launches]]
entry = "transpose"
grid = ["blocks"]
block = "256"
args = ["X", "Y", "ldx", "workspace", "jj"]
"""


def faults(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "transpose" / "mine.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    with pytest.raises(DeclarationError) as caught:
        checked(path)
    return [str(fault) for fault in caught.value.faults]


MINE = """\
backend = "triton"
compiler = "triton"
model = "contraction"
constants_of = "matmul/triton"
extends = ["triton_dot", "{extended}"]
[tunables]
M = [32, 64]
num_warps = [4]
num_stages = [3]
[schedule]
tile_m = "M"
tile_n = "64"
tile_k = "32"
"""


def extending(folder: Path, extended: str, common: str = "", more: str = "") -> Path:
    """A declaration that extends a file of that content and triton_dot."""
    for name, text in ("common/mine.toml", common), ("matmul/x.toml", MINE.replace("{extended}", extended) + more):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder / "matmul/x.toml"


def test_a_declaration_extends_files_of_its_own_folder_and_shipped_ones(tmp_path: Path) -> None:
    common = '[tunables]\nGROUP = [1, 8]\n[schedule]\ngroup = "GROUP"\n[rules]\n"M divides m" = "m % M == 0"\n'
    kernel = checked(extending(tmp_path, "mine", common))
    assert list(kernel.tunables) == ["M", "num_warps", "num_stages", "GROUP"]
    assert list(kernel.rules) == ["Triton tiles are powers of two", "num_warps is a power of two", "M divides m"]
    assert kernel.schedule["group"].text == "GROUP" and "accumulators spill registers" in kernel.avoid


@pytest.mark.parametrize(
    ("extended", "common", "more", "says"),
    [
        ("triton_dott", "", "", "there is no 'triton_dott' in common/ to extend; did you mean 'triton_dot'"),
        ("mine", '[rules]\n"num_warps is a power of two" = "1"', "", "[rules] num_warps is a power of two: of 'mine'"),
        ("mine", '[schedule]\ngroup = "1"', 'group = "8"', "of 'mine', which is extended: stands here already, or"),
        ("triton_dot", "", "", "of 'triton_dot', which is extended: stands here already, or in another file"),
        ("mine", 'extends = ["triton_dot"]', "", "of 'mine', which is extended: unknown key 'extends'; known: avoid"),
        ("mine", "rules = 3", "", "of 'mine', which is extended: [rules] is a table of keys and values, got 3"),
        ("mine", "rules = ", "", "extends 'mine': "),
        ("mine", '[rules]\nwide = "N > 8"', "", "[rules] wide: there is no 'N'"),
    ],
)
def test_faults_of_what_is_extended(tmp_path: Path, extended: str, common: str, more: str, says: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        checked(extending(tmp_path, extended, common, more))
    assert says in str(caught.value)


def test_a_requirement_of_sizes_belongs_under_rules(tmp_path: Path) -> None:
    told = "is a size, a tunable or a column: a condition on one stands under [rules]"
    found = faults(tmp_path, CUDA)
    assert f"[requires] one matrix: 'b' {told}" in found and f"[requires] one matrix: 'TILE' {told}" in found


def test_a_source_is_there_and_its_launch_is_complete(tmp_path: Path) -> None:
    text = CUDA.replace(' = "b == 1 and TILE > 1"', ' = "one_type"')
    [missing, unknown] = faults(tmp_path, text)
    assert missing.startswith("there is no file") and "mine.cu" in missing
    assert unknown == "[launches] args: there is no 'jj'; did you mean 'j'?"
    (tmp_path / "transpose" / "mine.cu").touch()
    [odd] = faults(tmp_path, text.replace("jj", "j +"))
    assert odd == "[launches] args: expression 'j +' does not parse: invalid syntax"
    assert faults(tmp_path, text) == [unknown]
    [launch] = faults(tmp_path, text.partition("[[launches]]")[0])
    assert launch == "nothing says how it is launched: [[launches]] is missing"


def test_columns_that_nothing_gives(tmp_path: Path) -> None:
    text = CUDA.partition("[[launches]]")[0].replace('warps = "8"\n', "")
    assert "[schedule]: model 'stream' also reads warps, which nothing gives" in faults(tmp_path, text)
