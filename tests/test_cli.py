"""The command line: what is printed, as JSON too, and the exit codes 0 success, 1 no answer, 2 wrong usage."""

from __future__ import annotations

import ast
import csv
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import carver
from carver.base.store import BLOBS
from carver.base.table import Bars, Column, drawn
from carver.cli.main import COMMANDS, main
from carver.cli.options import SAID, folded
from carver.run.records import Measurement
from carver.run.report import Report
from carver.tune import AutoTuner
from carver.tune.doctor import examine

MATMUL = ["matmul", "1000", "504", "768", "--arch", "h200", "--backend", "triton"]
MODULES = {where.partition(".")[0] for where in COMMANDS.values()}
OP = carver.MatmulTemplate(1000, 504, 768).with_arch("h200")


def run(*args: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, list(args), input=given)


def answer(*args: str, given: str | None = None) -> Any:
    result = run(*args, "--json", given=given)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


def test_recommend_prints_the_ranking() -> None:
    result = run("recommend", *MATMUL, "--topk", "3")
    assert result.exit_code == 0
    printed = [line.rstrip() for line in result.stdout.splitlines()]
    assert printed == repr(OP.recommend_hints(3, "triton")).splitlines()


def test_recommend_as_json_holds_the_hints() -> None:
    found = answer("recommend", *MATMUL, "--topk", "3")
    hints = OP.recommend_hints(3, "triton")
    assert [carver.Hint.from_dict(h) for h in found["hints"]] == list(hints)
    assert found["candidates"] == hints.candidates
    assert found["rejected"] == hints.rejected
    assert found["arch"] == "h200_sxm"


@pytest.mark.parametrize(
    ("args", "template"),
    [
        (["matmul", "64", "32", "16", "--dtype", "float32", "--trans-a", "--batch", "2", "--bias"],
         carver.MatmulTemplate(64, 32, 16, batch=2, trans_A=True, in_dtype="float32", with_bias=True)),
        (["matmul", "64", "32", "16", "--out-dtype", "float32", "--lda", "20", "--activation", "relu"],
         carver.MatmulTemplate(64, 32, 16, out_dtype="float32", lda=20, activation="relu")),
        (["elementwise", "64", "32", "16", "--inputs", "2", "--broadcast", "1"],
         carver.ElementwiseTemplate((64, 32, 16), inputs=2, broadcast=1)),
        (["reduction", "max", "640", "320", "--axis", "0"], carver.ReductionTemplate("max", (640, 320), 0)),
        (["op", "C[m,n] += A[m,k] * B[k,n]", "m=64", "n=32", "k=16"],
         carver.OpTemplate("C[m,n] += A[m,k] * B[k,n]", m=64, n=32, k=16)),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)  # fmt: skip
def test_arguments_make_the_problem_they_say(args: list[str], template: carver.ops.operator.Template) -> None:
    found = answer("recommend", *args, "--arch", "a100", "--backend", "triton", "-k", "1")
    assert carver.problem.problem.Problem.from_dict(found["problem"]) == template.problem


CONFIGS = [
    {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4, "num_stages": 3},
    {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 4},
    {"BLOCK_M": 48, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 4},
]


def as_csv() -> str:
    rows = [",".join(CONFIGS[0]), *(",".join(map(str, c.values())) for c in CONFIGS)]
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize("text", [
    json.dumps(CONFIGS), "\n".join(map(json.dumps, CONFIGS)), as_csv(), "\ufeff" + as_csv(),
    json.dumps([{name: float(value) for name, value in c.items()} for c in CONFIGS]),
])  # fmt: skip
def test_rank_reads_json_lines_and_csv(text: str, tmp_path: Path) -> None:
    expected = OP.rank(CONFIGS)
    found = answer("rank", *MATMUL, given=text)
    assert [h["index"] for h in found["hints"]] == expected.indices
    assert found["reasons"] == {"2": "Triton tiles are powers of two (tile_m is 48)"}
    path = tmp_path / "configs"
    path.write_text(text, encoding="utf-8")
    assert answer("rank", *MATMUL, "--configs", str(path)) == found
    table = run("rank", *MATMUL, "--configs", str(path)).stdout
    assert "given" in table
    assert "1 cannot, by the rule: Triton tiles are powers of two" in table


def test_json_lines_are_wrong_where_they_are_wrong() -> None:
    said = run("rank", *MATMUL, given=json.dumps(CONFIGS[0]) + '\n{"BLOCK_M": 64,,\n').stderr
    assert "line 2 column 16" in said


@pytest.mark.parametrize("words, said", [
    (("explain", *MATMUL, "--rank", "2", "--config", "{}"), "--rank is of carver's own hints"),
    (("explain", *MATMUL, "--ignore", "tag"), "go with --config"),
    (("arch", "show", "h200", "--toml", "--json"), "--toml and --json"),
    (("portfolio", *MATMUL, "--over", "m=1:8", "--python", "--json"), "--python and --json"),
    (("portfolio", *MATMUL, "--over", "m=1:8", "--python", "--measured"), "--python and --measured"),
    (("recommend", "moe", "64", "8", "2", "64", "64", "--arch", "h200", "--explain", "--json"), "--explain and --json"),
    (("recommend", "--json", *MATMUL), "--json is for main recommend without an operator: write options of matmul"),
    (("recommend", "--many", __file__, *MATMUL), "--many is for main recommend without an operator"),
    (("bench-query", "--repeats", "3", *MATMUL), "--repeats is for main bench-query without an operator"),
    (("recommend", *MATMUL, "--heatmap", "block", "BLOCK_N", "h.png"), "no tunable 'block'"),
])  # fmt: skip
def test_what_cannot_both_be_meant_is_refused_before_anything_is_printed(words: Sequence[str], said: str) -> None:
    result = run(*words)
    assert result.exit_code == 2 and said in result.stderr and not result.stdout


@pytest.mark.parametrize(
    ("words", "template"),
    [
        ("conv 8 64 56 56 128 3 3 --pad 1 --stride 2", carver.ConvTemplate(8, 64, 56, 56, 128, 3, 3, 2, 1)),
        ("conv2d 4096 4096 15 15", carver.Conv2DTemplate(4096, 4096, 15, 15)),
        ("dedispersion 64 8192 256 650", carver.DedispersionTemplate(64, 8192, 256, 650)),
        ("window 4096 7 --batch 64", carver.WindowTemplate(4096, 7, 64)),
        ("gated-mlp 4096 1024 512 --trans-b", carver.GatedMLPTemplate(4096, 1024, 512, trans_B=True)),
        ("matmul-softmax 512 256 128 --batch 4", carver.MatmulSoftmaxTemplate(512, 256, 128, batch=4)),
    ],
)
def test_every_operator_has_a_sub_command(words: str, template: Any) -> None:
    found = answer("recommend", *words.split(), "--arch", "h200", "--topk", "2", "--json")
    hints = template.with_arch("h200").recommend_hints(2)
    assert found["problem"] == hints.problem.to_dict() and [h["config"] for h in found["hints"]] == [
        dict(hint.config) for hint in hints
    ]


def test_a_cuda_source_is_inspected_by_the_name_of_a_kernel() -> None:
    assert "write FILE.cu:NAME" in run("inspect", "mine.cu", "--arch", "h200").stderr


def test_a_triton_kernel_without_triton_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carver.cli.rankings.find_spec", lambda name: None)
    (tmp_path / "k.py").write_text("import triton\n")
    (tmp_path / "a.toml").write_text("[args]\n")
    given = [f"{tmp_path}/k.py:k", "--args", f"{tmp_path}/a.toml", "--arch", "h200"]
    for words in (["inspect"], ["rank", "kernel"]):
        result = run(*words, *given)
        assert result.exit_code == 1 and "pip install triton==3.6.0" in result.stderr


def test_every_option_says_what_it_is() -> None:
    def options(command: click.Command) -> Iterator[click.Option]:
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(main)):
                yield from options(command.get_command(click.Context(main), name))  # type: ignore[arg-type]
        yield from (param for param in command.params if isinstance(param, click.Option))

    assert [option.opts for option in options(main) if not option.help] == []


def test_the_file_of_options_describes_parameters_alone() -> None:
    """What is left of one that went would be read as if it were there."""
    for module in {*MODULES, "options"} & SAID.keys():
        nodes = list(ast.walk(ast.parse((Path(carver.__file__).parent / "cli" / f"{module}.py").read_text())))
        taken: dict[str, set[str]] = {}
        for node in nodes:
            if isinstance(node, ast.FunctionDef):
                taken.setdefault(node.name.lstrip("_"), set()).update(each.arg for each in node.args.args)
            elif isinstance(node, ast.ClassDef):
                taken[node.name] = {ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
        for function, said in SAID[module].items():
            assert said.keys() <= taken[function], (module, function)


def test_a_missing_option_says_what_it_takes() -> None:
    assert "Missing option '--arch'. The device: a name from `carver archs`" in run("recommend", *MATMUL[:4]).stderr


def test_explain() -> None:
    text = run("explain", *MATMUL, "--rank", "2").stdout
    assert text.strip() == str(OP.recommend_hints(2, "triton").explain(1))
    assert "Where the time goes" in text
    found = answer("explain", *MATMUL, "--config", json.dumps(CONFIGS[0]))
    assert found == answer("explain", *MATMUL, "--config", ", ".join(f"{name}={n}" for name, n in CONFIGS[0].items()))
    yours = {"BM": CONFIGS[0]["BLOCK_M"], "tag": 1, **{k: v for k, v in CONFIGS[0].items() if k != "BLOCK_M"}}
    words = ("--name", "BLOCK_M=BM", "--ignore", "tag")  # as the error of an unknown key advises
    told = answer("explain", *MATMUL, "--config", json.dumps(yours), *words)
    assert told["terms_ms"] == found["terms_ms"] and {"BM", "BLOCK_N"} < told["hint"]["config"].keys()
    assert [each["tunable"] for each in told["changes"]] == [
        each["tunable"].replace("BLOCK_M", "BM") for each in found["changes"]
    ]  # fmt: skip
    assert found["hint"]["config"] == {**CONFIGS[0], "GROUP_M": 8, "SPLIT_K": 1}
    assert sum(found["terms_ms"].values()) == pytest.approx(found["hint"]["predicted_ms"])


def test_explanations_are_at_most_100_columns_wide() -> None:
    text = run("explain", "attention", "4", "32", "4096", "128", "--arch", "mi300x").stdout
    assert max(map(len, text.splitlines())) <= 100 and "packing query heads" in text


def test_explain_reads_a_saved_hint(tmp_path: Path) -> None:
    hint = OP.rank([CONFIGS[0] | {"BLOCK_M": 256, "BLOCK_N": 256}])[0]  # 196,608 bytes of shared memory
    path = tmp_path / "hint.json"
    path.write_text(hint.to_json())
    assert run("explain", "hint", str(path)).stdout.strip() == str(hint.explain())
    assert "B200" in run("explain", "hint", str(path), "--arch", "b200").stdout
    small = run("explain", "hint", str(path), "--arch", "gtx_1080")
    assert small.exit_code == 1
    assert "shared memory of one block fits" in small.stderr


def test_archs_lists_every_device() -> None:
    found = answer("archs")
    assert [row["name"] for row in found] == carver.arch_names()
    text = run("archs").stdout
    assert all(name in text for name in carver.arch_names())
    assert max(map(len, text.splitlines())) <= 100
    assert {row["isa"] for row in answer("archs", "sm_90")} == {"sm_90"}


def test_archs_are_listed_by_the_words_that_arch_takes() -> None:
    hopper = {each["name"] for each in answer("archs", "hopper")}
    assert hopper == {arch.name for arch in map(carver.load_arch, carver.arch_names()) if arch.isa == "sm_90"}
    assert {each["name"] for each in answer("archs", "hopper", "sxm")} < hopper


def test_arch_show_gives_every_constant(tmp_path: Path) -> None:
    text = run("arch", "show", "H200").stdout
    assert "NVIDIA H200" in text
    for field in ("l2_bytes", "clock_hz", "smem_per_block_bytes"):
        assert field in text
    assert answer("arch", "show", "H200")["l2_bytes"] == carver.CUDA("h200").l2_bytes
    own = tmp_path / "own.toml"
    own.write_text(run("arch", "show", "H200", "--toml").stdout)
    assert carver.load_arch(str(own)) == carver.CUDA("h200")


def test_bench_query_prints_both_times() -> None:
    found = answer("bench-query", *MATMUL, "--repeats", "3", "--many", "5")
    assert 0 < found["repeated_us"] / 1e3 < found["new_shape_ms"]
    assert found["many_s"] > 0
    text = run("bench-query", *MATMUL, "--repeats", "3", "--many", "5").stdout
    assert "a new shape" in text and "at once 5" in text


def test_many_problems_are_answered_a_line_each(tmp_path: Path) -> None:
    rows = [
        {"operator": "matmul", "M": 512, "N": 512, "K": 64, "trans_B": True},
        {"M": 16, "N": 4096, "K": 4096, "lda": None},
        {"operator": "reduction", "op": "softmax", "rows": 512, "cols": 1024},
    ]  # fmt: skip
    lines = tmp_path / "problems.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    several = tmp_path / "problems.csv"
    several.write_text("operator,M,N,K,trans_B\nmatmul,512,512,64,true\n\nmatmul,16,4096,4096,\n")
    ops = [carver.MatmulTemplate(512, 512, 64, trans_B=True), carver.MatmulTemplate(16, 4096, 4096),
           carver.ReductionTemplate("softmax", (512, 1024))]  # fmt: skip
    for file, count in ((lines, 3), (several, 2)):
        shown = run("recommend", "--many", str(file), "--arch", "h200").stdout
        assert max(map(len, shown.splitlines())) <= 100
        text = shown.replace("\n  ", " ").splitlines()
        said = run("recommend", "--many", str(file), "--arch", "h200", "--topk", "3", "--json").stdout.splitlines()
        assert len(text) == len(said) == count
        for op, line, found in zip(ops, text, map(json.loads, said), strict=False):
            hints = op.with_arch("h200").recommend_hints(3)
            assert line == f"{op.problem}: {hints[0]}"
            assert found["hints"] == [hint.to_dict() for hint in hints]


@pytest.mark.parametrize(("text", "says"), [
    ("", "the input is empty"), ("{", "neither JSON"), ("[1]", "problem 1 is an object"),
    ('{"M": 1}', "problem 1: matmul needs a value in column N, K"),
    ('{"operator": "mattmul"}', "no operator 'mattmul'"),
    ("M,N,K\n1,2,x\n", "problem 1"),
    ("M,N,K\n64,64,64,float16\n", "problem 1 has 4 cells, the header 3: '64,64,64,float16'"),
    ("M,M,N,K\n64,32,64,64\n", "the header of the CSV has 'M' twice"),
    (f"M,N,K\n64,64,{'1' * 200_000}\n", "the CSV cannot be read: field larger than field limit"),
    (f"M,N,K\n64,64,{'1' * 5000}\n", "K must be a whole number, got inf"),
])  # fmt: skip
def test_problems_that_are_none_are_named(text: str, says: str) -> None:
    result = CliRunner().invoke(main, ["recommend", "--many", "-", "--arch", "h200"], input=text)
    assert result.exit_code == 2 and says in result.output
    assert "--arch NAME" in CliRunner().invoke(main, ["recommend", "--many", "-"], input='{"M": 1}').output


def test_plots_are_saved(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    png, svg = tmp_path / "terms.png", tmp_path / "roof.svg"
    assert run("recommend", *MATMUL, "--plot", str(png), "--roofline", str(svg)).exit_code == 0
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in svg.read_text()
    heat = tmp_path / "heat.svg"
    assert run("recommend", *MATMUL, "--heatmap", "BLOCK_M", "BLOCK_N", str(heat)).exit_code == 0
    assert "<svg" in heat.read_text()
    assert run("recommend", *MATMUL, "--heatmap", "BLOCK_M", "BLOCK_Q", str(heat)).exit_code == 2


def test_auto_is_the_gpu_of_this_machine_or_its_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carver.arch.detect.nvidia_names", lambda: ["NVIDIA A100"])
    monkeypatch.setattr("carver.arch.devices.CUDA", lambda: carver.load_arch("a100"))
    question = "recommend", "matmul", "64", "64", "64", "--json", "--arch", "auto"
    assert json.loads(run(*question).stdout)["backend"] == "cuda"
    monkeypatch.setattr("carver.arch.detect.nvidia_names", list)
    answered = run(*question)
    assert json.loads(answered.stdout)["backend"] == "cpu" and "no GPU in this" in answered.stderr.splitlines()[0]
    monkeypatch.setattr("carver.arch.devices.HIP", lambda: carver.load_arch("mi300x"))
    answered = run(*question)
    assert json.loads(answered.stdout)["backend"] == "triton" and not answered.stderr


NO_ANSWER = [
    ["recommend", "elementwise", "64", "--inputs", "9", "--backend", "cuda", "--arch", "h200"],
    ["rank", *MATMUL],  # with a configuration that cannot run
    ["bench", "matmul", "64", "64", "64", "--arch", "h200", "--device", "cuda:99"],
]


@pytest.mark.parametrize("args", NO_ANSWER, ids=lambda a: a[0])
def test_a_question_without_an_answer_exits_1(args: list[str]) -> None:
    result = run(*args, given=json.dumps([CONFIGS[2]]))
    assert result.exit_code == 1
    assert result.stderr.startswith("error: no ")
    assert result.stdout == ""


WRONG_USAGE = [
    [],
    ["recommand"],
    ["recommend", "matmul", "64", "64", "64"],
    ["recommend", "matmul", "64", "64", "--arch", "h200"],
    ["recommend", "matmul", "64", "64", "x", "--arch", "h200"],
    ["recommend", "matmul", "64", "64", "0", "--arch", "h200"],
    ["recommend", "matmul", "64", "64", "64", "--arch", "h300"],
    ["recommend", "matmul", "64", "64", "64", "--arch", "h200", "--dtype", "f15"],
    ["recommend", "matmul", "64", "64", "64", "--arch", "h200", "--topk", "0"],
    ["recommend", "matmul", "64", "64", "64", "--arch", "h200", "--backend", "tritn"],
    ["recommend", "op", "C[m,n] += A[m,k]", "m=1", "--arch", "h200"],
    ["recommend", "op", "C[m] += A[m,k]", "m:1", "--arch", "h200"],
    ["recommend", "op", "C[m] += A[m,k]", "m=1", "k=2", "k=3", "--arch", "h200"],
    ["rank", *MATMUL, "--topk", "0"],
    ["explain", *MATMUL, "--rank", "100000"],
    ["archs", "no-such-device"],
    ["arch", "show", "h300"],
    ["bench", "matmul", "8", "8", "8", "--arch", "cpu_avx2", "--budget", "3"],
    ["bench", "matmul", "8", "8", "8", "--arch", "cpu_avx2", "--device", "nonsense"],
    ["records", "--database", "/dev/null/records", "list"],
    ["records", "export", "/dev/null/records"],
    ["calibrate", "--seconds", "nan"],
    ["calibrate", "--seconds", "0"],
    ["calibrate", "--out", "/dev/null/card.toml"],
]


@pytest.mark.parametrize("args", WRONG_USAGE, ids=" ".join)
def test_wrong_usage_exits_2_and_says_what_is_wrong(args: list[str]) -> None:
    result = run(*args, given=json.dumps(CONFIGS))
    assert result.exit_code == 2
    assert "rror" in result.stderr or "Usage" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the input is empty"),
        ("[]", "the list is empty"),
        ("[{]", "not JSON"),
        ("a,b\n1,x\n", "row 0 of the CSV must have whole numbers; b is 'x'"),
        ("a,b\n1,2\n1\n", "row 1 of the CSV has 1 cells, its header has 2"),
        ("a,b\n", "the list is empty, below 'a,b' as the header of a CSV"),
        ("null", "the list is empty, below 'null' as the header of a CSV"),
        ("a,a\n1,2\n", "the header of the CSV has 'a' twice"),
        (f"a,b\n1,{'1' * 200_000}\n", "the CSV cannot be read: field larger than field limit"),
        ("hello world\n", "neither JSON nor CSV with a header of tunables"),
        ("# A title\n\nText, text, and text.\n", "the first line is '# A title'"),
        ('[{"BLOCK_M": 1}]', "lacks BLOCK_K"),
        ('{"BLOCK_M": 1, "BLOCK_M": 2}', "an object has the key 'BLOCK_M' twice"),
        ("[7]", "expected a dict"),
    ],
)
def test_configurations_that_cannot_be_read(text: str, says: str) -> None:
    result = run("rank", *MATMUL, given=text)
    assert result.exit_code == 2
    assert says in result.stderr


def test_records_round_trip(tmp_path: Path) -> None:
    store = str(tmp_path / "records.sqlite")
    assert "there is no database" in run("records", "--database", store, "list").stderr
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert answer("records", "--database", store, "import", str(empty)) == {"added": 0, "skipped": 0}
    assert answer("records", "--database", store, "list") == []
    assert run("records", "--database", store, "prune").exit_code == 2
    assert run("records", "--database", store, "show", "x").exit_code == 2
    assert "'fine' is not one of" in run("records", "--database", store, "list", "--outcome", "fine").stderr


def test_every_command_has_help() -> None:
    for path in ([], *([name] for name in COMMANDS), *(["recommend", op] for op in ("matmul", "op"))):
        result = CliRunner().invoke(main, [*path, "--help"], terminal_width=80)
        assert result.exit_code == 0
        assert "Usage:" in result.stdout
        assert max(map(len, result.stdout.splitlines())) <= 80


def test_help_lists_the_backends_of_the_operator() -> None:
    for group in ("recommend", "rank", "portfolio"):
        said = " ".join(CliRunner().invoke(main, [group, "reduction", "--help"]).stdout.split())
        assert "cpu, cuda, triton." in said and "clblast" not in said


def leaves(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name, each in ((name, command.get_command(context, name)) for name in command.list_commands(context)):
        yield from leaves(each, *path, name)


def test_every_command_takes_json_but_those_that_write_for_a_target() -> None:
    every = [(path[:2], {o for p in command.params for o in p.opts}) for path, command in leaves(main)]
    without = {path for path, options in every if "--json" not in options}
    targets = ("json", "csv", "triton", "tilelang", "cutlass", "cute-dsl")
    assert without == {("skill",), *(("export", target) for target in targets)}


def test_the_keys_of_json_are_those_of_the_page() -> None:
    page = (Path(__file__).resolve().parent.parent / "docs" / "reference" / "json.md").read_text(encoding="utf-8")

    def listed(command: str) -> list[str]:
        [row] = re.findall(rf"^\| `{command}`[^|]*\|(.*)\|$", page, re.MULTILINE)
        return re.findall(r"`(\w+)`", row)

    assert listed("recommend") == list(answer("recommend", *MATMUL, "-k", "1"))
    assert listed("recommend") == list(answer("rank", *MATMUL, given=as_csv()))
    assert listed("explain") == list(answer("explain", *MATMUL))
    [hint] = OP.recommend_hints(1)
    failed = Measurement("r", "c", "crash", "matmul", OP.problem.to_dict(), "k", "cuda", {}, "h200", "H200", "host")
    assert listed("bench") == list(Report(hint.problem, [failed]).to_dict())


def measured_table(path: Path, *rows: tuple[int, int, int]) -> str:
    """A table of matmuls, each by BLOCK_M, num_stages and whether it ran."""
    names = "BLOCK_M,BLOCK_N,BLOCK_K,num_warps,num_stages".replace(",", ",config.")
    lines = [f"operator,arch,backend,time_ms,valid,M,N,K,config.{names}"]
    lines += [f"matmul,h200,triton,1,{valid},64,64,64,{block_m},64,64,4,{stages}" for block_m, stages, valid in rows]
    (path / "t.csv").write_text("\n".join(lines) + "\n")
    return str(path / "t.csv")


def test_what_is_no_number_is_null_in_json(tmp_path: Path) -> None:
    """No order, and no error of the times, can be told of configurations that the rules refuse."""
    table = measured_table(tmp_path, *((block_m, 300, 1) for block_m in (16, 32, 64)))
    [row] = answer("evaluate", table, "--workers", "1")["rows"]
    assert row["spearman"] is row["log_error"] is None and row["recall"] == 0
    assert answer("calibrate", "--from", table)[0]["band"] == [None, None]


def test_a_plot_that_cannot_be_drawn_is_said_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("carver.run.bench.benchmark", lambda *_, **__: pytest.fail("measured"))
    result = run("bench", "matmul", "64", "64", "64", "--arch", "cpu_avx2", "--device", "cpu", "--plot", "x.png")
    assert result.exit_code == 2 and "plots need matplotlib" in result.stderr


def test_what_only_reads_makes_no_database_of_an_empty_file(tmp_path: Path) -> None:
    empty = tmp_path / "x.db"
    empty.touch()
    for words in (["evaluate", str(tmp_path), "--workers", "1"], ["records", "--database", str(empty), "list"]):
        result = run(*words)
        assert result.exit_code == 2 and "x.db is empty" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["x.db"] and not empty.stat().st_size


@pytest.mark.slow
def test_output_through_a_pipe_is_plain_text() -> None:
    code = "from carver.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "recommend", *MATMUL, "-k", "2"], capture_output=True, text=True, check=True,
        timeout=60,
    )  # fmt: skip
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_a_row_ends_with_its_last_letter_in_colours_too() -> None:
    columns = [Column("n", ("1", "20")), Column("bound", ("DRAM", "shared memory"), is_text=True, style="bold")]
    plain, styled = (drawn(columns, 80, styled).splitlines() for styled in (False, True))
    assert [click.unstyle(row) for row in styled] == plain == [" n  bound", " 1  DRAM", "20  shared memory"]


def test_json_can_be_read_back_as_a_table() -> None:
    """What a shell pipeline does: hints to CSV and back into `rank`."""
    hints = answer("recommend", *MATMUL, "-k", "5")["hints"]
    rows = [h["config"] for h in hints]
    text = "\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)])
    assert next(csv.DictReader(text.splitlines()))["BLOCK_M"] == str(rows[0]["BLOCK_M"])
    again = answer("rank", *MATMUL, given=text)["hints"]
    assert [h["config"] for h in again] == rows


@pytest.mark.slow
def test_query_times_without_an_operator() -> None:
    result = CliRunner().invoke(main, ["bench-query", "--repeats", "3", "--many", "5"])
    assert result.exit_code == 0
    for what in ("import carver", "the first query", "a new shape", "the same shape again", "at once"):
        assert what in result.output


def test_files_that_cannot_be_read_or_written_are_named(tmp_path: Path) -> None:
    binary, ranking = tmp_path / "b.bin", tmp_path / "r.json"
    binary.write_bytes(bytes(range(128, 256)))
    for args in (["rank", *MATMUL, "--configs", str(binary)], ["explain", "hint", str(binary)]):
        result = run(*args)
        assert result.exit_code == 2 and "no text in UTF-8" in result.stderr
    ranking.write_text(run("recommend", *MATMUL, "-k", "1", "--json").stdout)
    assert "jq '.hints[0]'" in run("explain", "hint", str(ranking)).stderr
    assert "this is a ranking" in run("rank", *MATMUL, "--configs", str(ranking)).stderr
    away = str(tmp_path / "none" / "x.png")
    for args in (
        ["export", "json", *MATMUL, "-o", away],
        ["recommend", *MATMUL, "--plot", away],
        ["bench", *MATMUL[:-2], "--html", away],
    ):
        result = run(*args)
        assert result.exit_code == 2 and "none/x" in result.stderr and "there is no folder" in result.stderr
        assert not result.stdout  # said before anything is computed


def test_a_configuration_may_stand_on_several_lines() -> None:
    text = json.dumps(CONFIGS[0], indent=1) + json.dumps(CONFIGS[1])
    assert len(answer("rank", *MATMUL, given=text)["hints"]) == 2


@pytest.mark.parametrize("columns", [60, 80, 100])
@pytest.mark.parametrize("args", [
    ["recommend", *MATMUL, "-k", "1"], ["recommend", *MATMUL, "-k", "10"], ["archs"],
    ["recommend", "matmul", "4096", "4096", "4096", "--arch", "h200", "-k", "1"],
    ["recommend", "matmul", "512", "512", "512", "--arch", "h200", "--backend", "clblast", "-k", "5"],
], ids=lambda a: a[0])  # fmt: skip
def test_tables_fit_the_terminal(args: list[str], columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run(*args).stdout.splitlines()
    assert max(map(len, lines)) <= columns
    if args[0] == "archs":
        assert {line.split()[0] for line in lines[2:]} >= set(carver.arch_names())
        assert columns == 60 or "H200 SXM 141 GB" in "".join(lines), "names are cut no further than they have to be"
    else:
        assert "…" not in "".join(lines)


def test_a_negative_size_is_said_to_be_one() -> None:
    for size in ("-1", "-16"):
        result = run("recommend", *MATMUL[:2], size, *MATMUL[3:])
        assert result.exit_code == 2 and f"{size}: a size is a whole number of at least 1" in result.stderr


def test_a_backend_is_that_of_the_keys_in_any_case() -> None:
    said = [run("explain", *MATMUL[:-2], *more, "--config", json.dumps(CONFIGS[0])).stdout
            for more in ([], ["--backend", "triton"], ["--backend", "Triton"])]  # fmt: skip
    assert "Triton matmul" in said[0] and said[0] == said[1] == said[2]
    own = dict(carver.MatmulTemplate(1000, 504, 768).with_arch("h200").recommend_hints(1, "cuda")[0].config)
    found = answer("rank", *MATMUL[:-2], "--json", given=json.dumps([own]))
    assert found["backend"] == "cuda" and found["hints"][0]["config"] == own
    assert run("explain", *MATMUL[:-2], "--config", '{"wide": 3}').exit_code == 2


def test_a_missing_argument_is_explained() -> None:
    assert "Missing argument 'N'. C = A B: M x K times K x N." in run("recommend", "matmul", "16").stderr


def test_commands_are_listed_in_groups_by_whole_sentences() -> None:
    said = run("--help").stdout
    assert said.index("Choose configurations:") < said.index("  rank ") < said.index("Measure on this machine:")
    assert all(f"  {name} " in said for name in COMMANDS)
    for command in ([], ["recommend"], ["export"], ["records"], ["cache"]):
        listed = re.findall(r"^  ([a-z][-\w]*)  +(\S.*(?:\n    +\S.*)*)", run(*command, "--help").stdout, re.MULTILINE)
        assert listed and not [name for name, text in listed if not re.search(r"[.\d]$", text)]


@pytest.mark.slow
def test_words_are_completed_in_the_shell() -> None:
    devices = ("carver explain gemv 8 8 --arch h2", 6, "h200_sxm"), ("carver compare --arch rtx_409", 3, "rtx_4090")
    for typed, at, expected in (("carver recommend gem", 2, "gemv"), ("carver ra", 1, "rank"), *devices):
        env = {**os.environ, "_CARVER_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": str(at)}
        code = "from carver.cli.main import main; main(prog_name='carver')"
        words = [sys.executable, "-c", code]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=env, timeout=60)
        assert expected in done.stdout


@pytest.fixture
def few_timings(monkeypatch: pytest.MonkeyPatch) -> None:
    """`carver tune` times each candidate three times, and again for nobody who shares the cores."""
    run = AutoTuner.run
    few = {"warmup": 1, "rep": 3, "retakes": 0}
    monkeypatch.setattr(AutoTuner, "run", lambda self, **given: run(self, **given, **few))


@pytest.mark.slow
@pytest.mark.usefixtures("few_timings")
def test_tuning_here_finds_one_of_the_first_hints() -> None:
    words = ["tune", "elementwise", "256", "1000", "--arch", "cpu", "--topk", "2", "--backend", "cpu", "--json"]
    found = answer(*words)
    hints = carver.ElementwiseTemplate((256, 1000)).with_arch(carver.CPU()).recommend_hints(2, "cpu")
    assert found["config"] in [dict(hint.config) for hint in hints] and found["latency_ms"] > 0


@pytest.mark.slow
@pytest.mark.usefixtures("few_timings")
def test_what_is_not_kept_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the cache is full; or other work had the device, which is a note of the same words."""
    monkeypatch.setattr("carver.tune.cache.save", lambda *args: False)
    words = ["tune", "elementwise", "256", "1000", "--arch", "cpu", "--topk", "1", "--backend", "cpu", "--fresh"]
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code == 0 and done.stderr.count("not kept") == 1


def test_runs_as_a_module() -> None:
    words = [sys.executable, "-m", "carver", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("carver, version")


def test_what_is_no_command_is_told_by_the_nearest() -> None:
    for words, told in (
        (["recomend"], "did you mean 'recommend'"),
        (["recommend", "softmax", "64", "64"], "carver recommend reduction softmax 64 64"),
    ):
        result = CliRunner().invoke(main, words, prog_name="carver")
        assert result.exit_code == 2 and told in result.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["recommend", "attention", "2", "0", "64", "64"], "size HEADS must be a whole number from 1 to 2^48, got 0"),
        (["recommend", "attention", "0", "2", "64", "64"], "size BATCH must be a whole number"),
        (["recommend", "attention", "2", "4", "64", "64", "--seq-kv", "-1"], "size --seq-kv must be a whole number"),
        (["recommend", "attention", "2", "4", "64", "64", "--kv-heads", "3"], "HEADS must be a multiple of --kv-heads"),
        (["recommend", "transpose", "64", "64", "--batch", "0"], "size --batch must be"),
        (["recommend", "grouped-matmul", "64", "64", "64", "8", "--chosen", "0"], "size --chosen must be"),
        (["bench", "matmul", "64", "64", "64", "--timeout", "-1"], "--timeout must be a number"),
        (["bench", "matmul", "64", "64", "64", "--seconds", "nan"], "--seconds must be a number"),
        (["records", "prune", "--older-than", "-1"], "--older-than must be a number"),
        (["export", "vllm-moe", "--experts", "8", "--topk", "2", "--hidden", "512", "--intermediate", "512", "--dtype",
          "int4_w4a16"], "say --group-size, such as 128"),
        (["explain", "matmul", "64", "64", "64", "--config", "BLOCK_M:64"],
         "--config takes NAME=VALUE,NAME=VALUE or a JSON object, each name once; got 'BLOCK_M:64'"),
        (["explain", "matmul", "64", "64", "64", "--config", "BLOCK_M=64,BLOCK_M=32"], "once; got 'BLOCK_M=64"),
        (["explain", "matmul", "64", "64", "64", "--config", '{"BLOCK_M": 64, "BLOCK_M": 32}'],
         "--config is not JSON: an object has the key 'BLOCK_M' twice"),
        (["explain", "matmul", "64", "64", "64", "--config", '{"BLOCK_M"}'], "--config is not JSON: "),
        (["explain", *MATMUL[:-2], "--backend", "triton", "--config", "BLOCK_M=wide,BLOCK_N=64,BLOCK_K=32"],
         "BLOCK_M must be a whole number"),
        (["recommend", "moe", "64", "8", "2", "64", "-3"], "-3: a size is a whole number of at least 1"),
        (["recommend", "op", "C[m] += A[m,k]", "m=4", "k=²"], "'k=²' is not the size of an axis"),
        (["recommend", "moe", "64", "8", "2", "64", "64", "--routing", "²"], "routing is 'uniform'"),
        (["portfolio", "matmul", "64", "64", "64", "--over", "m=1:²"], "--over takes AXIS=FROM:TO"),
        (["export", "vllm-moe", "--experts", "8", "--topk", "2", "--hidden", "512", "--intermediate", "512",
          "--batches", "²"], "--batches takes numbers of tokens"),
        (["recommend", "atention", "2", "0", "64", "64"], "has no 'atention'; did you mean 'attention'"),
        (["portfolio", "matmul", "64", "64", "64", "--over", "m=1:99999999999999999999"], "from 1 to 2^48, got 999999"),
    ],
)  # fmt: skip
def test_an_error_calls_a_parameter_as_it_was_given(args: list[str], says: str) -> None:
    result = run(*args, *([] if args[0] in ("records", "bench") else ["--arch", "h200"]))
    assert result.exit_code == 2 and says in result.stderr


def test_a_problem_is_named_as_ever_in_an_error() -> None:
    """What stands before "=" is no flag."""
    result = run("recommend", "attention", "64", "64", "4000000000", "64", "--arch", "h200")
    assert "batch=64 heads=64 seq=4000000000 head_dim=64" in result.stderr


def test_a_file_that_is_no_text_is_named_once(tmp_path: Path) -> None:
    for name, command in (("b.toml", "check"), ("b.csv", "evaluate")):
        path = tmp_path / name
        path.write_bytes(bytes(range(128, 256)))
        for given in (path, tmp_path) if command == "evaluate" else (path,):
            result = run(command, str(given))
            assert result.exit_code == 2 and "no text in UTF-8" in result.stderr
            assert result.stderr.count(name) == 1


def test_doctor_lists_the_users_own_declarations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_CONFIG_DIR", str(tmp_path))
    for operator in ("matmul", "matmull"):
        (tmp_path / "templates" / operator).mkdir(parents=True)
    shipped = Path(carver.__file__).parent.parent / "templates" / "matmul" / "triton.toml"
    (tmp_path / "templates" / "matmul" / "mine.toml").write_text(shipped.read_text())
    assert json.loads(run("doctor", "--json").stdout)["declarations"]["names"] == ["matmul/mine"]
    (tmp_path / "templates" / "matmull" / "mine.toml").write_text(shipped.read_text())
    monkeypatch.setenv("COLUMNS", "100")
    said = run("doctor").stdout
    assert "no operator 'matmull'; did you mean 'matmul'" in " ".join(said.split())
    assert max(map(len, said[said.index("settings") :].splitlines())) <= 100, "as wide as the screen"


@pytest.mark.slow
def test_doctor_counts_a_cache_that_others_write_and_delete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    folder = tmp_path / BLOBS
    folder.mkdir()
    (folder / "stays").write_bytes(b"12345")
    over = threading.Event()

    def churn() -> None:
        while not over.is_set():
            for number in range(100):
                (folder / str(number)).mkdir()
                (folder / str(number) / "file").write_bytes(b"1")
            for number in range(100):
                (folder / str(number) / "file").unlink()
                (folder / str(number)).rmdir()

    with ThreadPoolExecutor() as pool:
        busy = pool.submit(churn)
        try:
            counted = [examine()["caches"]["files"] for _ in range(20)]
        finally:
            over.set()
        busy.result()
    assert all(each["files"] >= 1 and 5 <= each["bytes"] <= each["files"] + 4 for each in counted)


@pytest.mark.parametrize("words", [("archs",), ("evaluate", "tests/data/h200/triton_tma.csv", "--workers", "1")])
def test_columns_that_do_not_fit_are_told(words: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent.parent)
    monkeypatch.setenv("COLUMNS", "60")
    assert "left out for want of width: " in run(*words).stdout
    monkeypatch.setenv("COLUMNS", "120")
    assert "left out for want of width: " not in run(*words).stdout


def test_a_line_that_is_folded_goes_on_below_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert folded("a short line\n  a line of forty characters and more words") == (
        "a short line\n  a line of forty characters and more\n      words"
    )
    monkeypatch.setenv("COLUMNS", "80")
    declared = Path(carver.__file__).parents[1] / "templates" / "matmul" / "triton.toml"
    for words in (["portfolio", *MATMUL, "--over", "m=16:64"], ["check", str(declared)]):
        lines = run(*words).stdout.splitlines()
        assert max(map(len, lines)) <= 80
        if words[0] == "portfolio":  # the first size is the first that was asked for
            assert lines[[line.startswith("M from") for line in lines].index(True) + 1].split()[0] == "16"


def test_a_device_for_which_there_is_no_kernel_is_named() -> None:
    result = run("recommend", "attention", "1", "8", "64", "64", "--arch", "cpu_avx2")
    assert result.exit_code == 2 and "is a CPU; attention has kernels for GPUs" in result.stderr


@pytest.mark.parametrize(("module", "words", "steps"), [
    ("cli.rankings", ["recommend", "matmul", "64", "64", "64", "--arch", "h200", "--arch", "a100"], 2),
    ("cli.export", ["portfolio", *MATMUL, "--over", "m=16:32"], 0),
    pytest.param("tune.tuner", ["tune", "elementwise", "64", "999", "--arch", "cpu", "--topk", "2", "--fresh"], 2,
                 marks=pytest.mark.slow),
], ids=lambda each: each if isinstance(each, str) else "")  # fmt: skip
@pytest.mark.usefixtures("few_timings")
def test_what_takes_long_has_a_bar(
    module: str, words: list[str], steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    class Drawn(Bars):
        def bar(self, what: str, total: int) -> Callable[[], None]:
            assert total >= 1
            return lambda: seen.append(what)

    @contextmanager
    def bars(wanted: bool, transient: bool = False) -> Iterator[Bars]:
        assert not wanted, "nobody looks on"
        yield Drawn()

    monkeypatch.setattr(f"carver.{module}.progress_bars", bars)
    monkeypatch.chdir(Path(__file__).parents[1])
    assert run(*words).exit_code == 0 and len(seen) == steps


def test_multiprocessors_have_their_maker_s_name() -> None:
    for arch, said in (("h200", " on each SM;"), ("mi300x", " on each CU;"), ("rx_7900_xtx", " on each 2 CUs;")):
        assert said in run("explain", "matmul", "512", "512", "512", "--arch", arch).stdout


def test_an_explanation_keeps_to_the_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, most in (("72", 72), ("200", 100)):
        monkeypatch.setenv("COLUMNS", columns)
        lines = run("explain", *MATMUL).stdout.splitlines()
        assert 60 < max(map(len, lines)) <= most


def test_a_cache_that_is_no_folder_is_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path / "file"))
    result = run("records", "list")
    assert result.exit_code == 2 and "File exists; set CARVER_CACHE_DIR" in result.stderr
    assert "Errno" not in result.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["records", "lst"], "has no 'lst'; did you mean 'list'"),
        (["evaluate", "__main__"], "__main__ is no file and no folder"),
        (["cache", "export-all"], "did you mean 'export'"),
        (["export", "jsn"], "did you mean 'json'"),
        (["calibrate", "--from", __file__, "--only-micro"], "--from measures nothing"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(args: list[str], says: str) -> None:
    result = run(*args)
    assert result.exit_code == 2 and says in result.stderr


@pytest.mark.slow
def test_records_of_this_machines_cpu_are_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A descriptor made of the machine's own data has a name that no file has; the records hold it."""
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path))
    words = ["matmul", "64", "64", "64", "--dtype", "float32", "--arch", "cpu", "--topk", "3", "--seconds", "5"]
    assert run("bench", *words, "--rounds", "1", "--json").exit_code == 0
    found = answer("evaluate", str(tmp_path / "store.sqlite"), "--workers", "1")
    assert [row["problems"] for row in found["rows"]] == [1] and not found["remarks"]


@pytest.mark.parametrize(("target", "word"), [("cute-dsl", "attention"), ("cutlass", "gemv"), ("tilelang", "softmax")])
def test_a_target_lists_the_operators_that_it_can_write(target: str, word: str) -> None:
    refused = CliRunner().invoke(main, ["export", target, word, "64", "64", "--arch", "h200"])
    assert refused.exit_code == 2 and f"export {target} writes conv, matmul, op; not {word}" in refused.output
    assert word not in CliRunner().invoke(main, ["export", target, "--help"]).output
