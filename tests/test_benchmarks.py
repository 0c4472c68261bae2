"""Programs of benchmarks/: how an order is scored, and figures of the docs that come from times that ship."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import itertools
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from statistics import mean

import pytest
from cases import holds_for_each

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import frame  # noqa: E402
import heldout  # noqa: E402
import report  # noqa: E402

from carver.cost.model import CONSTANTS  # noqa: E402

DATA = ROOT / "tests" / "data"
OTHERS = {
    "cuda", "cutlass", "fla", "gemlite", "helion", "kernel_tuner", "liger_kernel", "numba", "pycuda", "sglang",
    "tilelang", "torch", "triton", "tvm", "vllm", "warp",
}  # fmt: skip
"""Packages that programs measure, which need not be installed."""
TIMES = random.Random(1).sample([1.0, 1.1, 1.3, 1.7, 2.0, 2.2, 3.1, 4.0, 4.9], 9)


@pytest.mark.parametrize("k", [1, 2, 3, 9])
def test_the_mean_of_the_least_of_k_is_that_over_all_subsets(k: int) -> None:
    subsets = [min(some) for some in itertools.combinations(TIMES, k)]
    assert frame.drawn(frame.np.sort(TIMES), k) == pytest.approx(mean(subsets), rel=1e-12)


def test_an_order_loses_nothing_where_it_is_right_and_less_the_more_picks_count() -> None:
    right = frame.scored("right", [2 * t for t in TIMES], TIMES)
    assert right.lost == (1.0, 1.0, 1.0) and right.ratio == pytest.approx(2.0)
    shuffled = frame.scored("any", random.Random(2).sample(TIMES, 9), TIMES)
    assert shuffled.lost[0] >= shuffled.lost[1] >= shuffled.lost[2] >= 1.0
    assert right.random == shuffled.random and right.random[0] > right.random[1] > right.random[2] > 1.0
    backwards = frame.scored("backwards", [-t for t in TIMES], TIMES)
    assert backwards.lost[0] == pytest.approx(max(TIMES) / min(TIMES))


def test_what_did_not_run_or_was_not_predicted_is_no_pick() -> None:
    """Equal predictions are taken in the order of the list: what was measured does not choose among them."""
    found = frame.scored("some", [None, 1.0, float("nan"), 2.0, 2.0, 3.0], [1.0, None, 1.0, 9.0, 4.0, 3.0])
    assert found.lost == (3.0, 1.0, 1.0) and found.ratio == pytest.approx(2 / 9)
    with pytest.raises(ValueError, match="no configuration has a prediction and a time"):
        frame.scored("none", [None, 1.0], [1.0, None])


def test_both_halves_have_kernels_and_a_name_stays_in_its_half() -> None:
    halves = [frame.half(f"kernel {i}") for i in range(100)]
    assert 35 <= sum(halves) <= 65 and halves == [frame.half(f"kernel {i}") for i in range(100)]


@pytest.mark.slow
def test_programs_import_what_is_there() -> None:
    """Those that need a GPU or a package too, which no test runs."""
    folder = ROOT / "benchmarks"
    trees = {}
    for path in folder.rglob("*.py"):
        dotted = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        trees[dotted] = ast.parse(path.read_text(encoding="utf-8"))
    stems = {each.split(".")[-1] for each in trees}
    for name, tree in trees.items():
        for node in [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level]:
            module, first = str(node.module), str(node.module).split(".")[0]
            if module not in trees:
                there = first in {*OTHERS, "kernels", *stems} or importlib.util.find_spec(first)
                assert there, f"{name}.py imports {module}, which is nowhere"
                continue
            named = {n.id if isinstance(n, ast.Name) else getattr(n, "asname", None) or n.name
                     for n in ast.walk(trees[module])
                     if isinstance(n, ast.Name | ast.FunctionDef | ast.ClassDef | ast.alias)}  # fmt: skip
            missing = {alias.name for alias in node.names} - named - stems
            assert not missing, f"{name}.py imports {sorted(missing)} of {module}, which does not have it"


@holds_for_each(heldout.TERMS)
def test_what_leaves_a_term_out_is_there(term: str) -> None:
    left = heldout.TERMS[term]
    assert left.constants.keys() <= CONSTANTS.keys()
    for name in left.functions:
        module, _, function = name.rpartition(".")
        assert callable(getattr(importlib.import_module(f"carver.cost.{module}"), function)), name


def summary(*files: str) -> dict[str, list[str]]:
    rows = [row for file in files for row in report.read(DATA / file)]
    return {way: [str(cell) for cell in cells] for way, *cells in report.summary(*report.runs_of(rows))}


def test_inductors_lists_take_longer_than_carvers() -> None:
    """docs/evidence/feeding.md: compiling takes 0.37 of the time with two candidates, 0.52 with three, 0.55 with five;
    running 0.96, 0.98 and 0.96, no block more than 1 % longer."""
    found = summary("h200/inductor_blocks.jsonl", "h100/inductor_blocks.jsonl")
    said = [float(cell) for topk in (2, 3, 5) for cell in found[f"carver, topk={topk}"][4:6]]
    assert said == pytest.approx([0.37, 0.96, 0.52, 0.98, 0.55, 0.96], abs=0.0051)
    assert max(float(found[f"carver, topk={topk}"][6]) for topk in (2, 3, 5)) < 1.0105


def test_picks_that_change_from_process_to_process_are_counted() -> None:
    """docs/evidence/pins.md: Triton's tuner changes 17 of 24 picks in five runs, none by more than 3 %, and eight
    processes do not agree in 20 of 30; pinned ones never change."""
    steady = summary("h100/steady.jsonl.gz")
    assert steady["triton"][:3] == ["30", "5", "21, 0"] and steady["triton"][7] == "1.002"
    assert steady["pinned, without a GPU"][5:8] == ["0.562", "1.043", "1.012"] and steady["carver"][2] == "14, 0"
    assert summary("h100/ranks.jsonl.gz")["triton"][2] == "20, 0"


def test_recorded_lists_are_scored() -> None:
    """README: 149 lists of flash-linear-attention, 1.031 (random 1.61), best of three 1.008."""
    command = [sys.executable, ROOT / "benchmarks" / "lists.py", "score", DATA / "h200" / "lists.jsonl.gz"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said[1].split()[:6] == ["fla", "149", "1.031", "1.008", "1.002", "1.614"]


def test_every_program_takes_its_arguments_by_name() -> None:
    """benchmarks/README.md: `--help` prints arguments and what is needed. What has no arguments is no program."""
    programs = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").glob("*.py")}
    run = {name: text for name, text in programs.items() if '__name__ == "__main__"' in text}
    assert len(run) > 20
    assert not [name for name, text in run.items() if "ArgumentParser(" not in text and name != "tables.py"]
    assert not [name for name, text in run.items() if f"python benchmarks/{name}" not in text]


class Clock:
    """Of a GPU that works off what it is given in turn: `torch` as far as timing asks it."""

    def __init__(self) -> None:
        self.ms, self.cuda = 0.0, self

    def Event(self, enable_timing: bool) -> Clock:
        assert enable_timing
        event = Clock()
        event.record = lambda: setattr(event, "ms", self.ms)  # type: ignore[attr-defined]
        return event

    def elapsed_time(self, end: Clock) -> float:
        return end.ms - self.ms

    def synchronize(self) -> None:
        """All is done already."""

    def zero_(self) -> None:
        self.ms += 50.0


def test_a_time_is_of_the_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What overwrites L2 is not in it; every third run takes 3 ms instead of 2."""
    clock = Clock()
    monkeypatch.setitem(sys.modules, "torch", clock)  # type: ignore[arg-type]
    took = itertools.cycle([2.0, 3.0, 2.0])

    def run() -> None:
        clock.ms += next(took)

    assert frame.median_ms(run, clock, 9) == 2.0


def test_what_pages_ask_a_program_to_do_is_what_it_does() -> None:
    """The word after a program's name, where that is no file: one of its commands."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests" / "data").glob("*/README.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    text = re.sub(r"benchmarks/\w+\.py[^`|]*`?\s+(?:of|at)\s+commit\s+[0-9a-f]{7}", "", text)
    asked = set(re.findall(r"python benchmarks/(\w+)\.py\s([a-z_]+)(?=[\s`])", text))
    assert len(asked) > 20 and {("heldout", "bands"), ("winners", "space"), ("zoo", "score")} <= asked
    of_carver = {("tables", command) for command in ("evaluate", "calibrate")}
    for name, word in asked - of_carver:
        source = (ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
        assert f'"{word}"' in source or f"def {word}(" in source, f"{name}.py {word}"


def test_bytes_that_a_chip_counts_follow_from_facts() -> None:
    """What SMs read once comes from DRAM, and L2's counter has it and what crosses to its other half. By itself:
    kernels of tests have names of those of benchmarks."""
    code = """
import sys
import machine
sys.path.append("tests")
from tests.test_compiled_laws import H100, facts, loading
size = 2.0**26
of = facts(read_bytes=size, near_bytes=size, sm_reuse=((0.0, size),), sm_live_bytes=size)
moved = machine.moved_bytes(loading(of, 1024.0), H100)
print(moved["dram read"] / size, moved["l2"] / size)
"""
    path = os.pathsep.join(str(ROOT / name) for name in ("benchmarks", "."))
    env = os.environ | {"PYTHONPATH": path}
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    dram, l2 = map(float, ran.stdout.split())
    assert (dram, l2) == pytest.approx((1.0, 1.5), abs=0.03)
