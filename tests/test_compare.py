"""A kernel before and after a change, as `carver compare` shows it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("triton", reason="Triton is not installed")

from carver.cli.main import main

KERNEL = """
import triton
import triton.language as tl
from beside import change

@triton.autotune([triton.Config({"BLOCK": b}, num_warps=4) for b in (512, 1024)], key=["n"])
@triton.jit
def scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, change(x_ptr, i, n), mask=i < n)
"""
BEFORE = """
import triton
import triton.language as tl

@triton.jit
def change(x_ptr, i, n):
    return tl.load(x_ptr + i, mask=i < n)
"""
AFTER = BEFORE.replace("return", "return tl.load(x_ptr + n + i, mask=i < n) +")
ARGS = """
grid = ["ceil(n, BLOCK)"]
[args]
n = 4194304
x_ptr = {dtype = "float32", shape = [8388608]}
y_ptr = {dtype = "float32", shape = [4194304]}
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kernel at HEAD, and beside it a changed module that it imports."""
    for name, text in (("kernels.py", KERNEL), ("beside.py", BEFORE), ("args.toml", ARGS)):
        (tmp_path / name).write_text(text)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        who = ["-c", "user.name=someone", "-c", "user.email=some@where"]
        subprocess.run(["git", "-C", str(tmp_path), *who, *words], check=True)
    (tmp_path / "beside.py").write_text(AFTER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["compare", *words, "--args", "args.toml", "--arch", "h100"])


@pytest.mark.slow
def test_a_change_since_a_revision_is_priced_and_explained(repository: Path) -> None:
    """Two arrays of 16.8 MB are read in place of one."""
    done = run("HEAD", "kernels.py:scale", "--json", "--arch", "mi300x", "--fail-over", "10")
    assert done.exit_code == 1 and "slower by more than 10% on mi300x, h100_sxm" in done.stderr
    second, first = json.loads(done.stdout)["devices"]
    assert (first["arch"], second["arch"]) == ("h100_sxm", "mi300x")
    moved = first["measures"]["DRAM MB"]
    assert 14 < moved["after"] - moved["before"] < 20
    assert second["ratio"] > 1.2
    assert 1.25 < first["ratio"] < 1.6
    assert first["ratio"] == pytest.approx(first["after"]["predicted_ms"] / first["before"]["predicted_ms"])
    assert {each["config"]["BLOCK"] for each in first["times_ms"]} == {512, 1024}
    assert "DRAM MB" in first["why"] and first["why"].startswith("main loop")


@pytest.mark.slow
def test_of_a_revision_what_a_kernel_imports_by_its_full_name_is_of_that_revision(repository: Path) -> None:
    """Of a package at the root of the repository. And what lies in the current directory stands for nothing installed:
    a click.py there is not run."""
    (repository / "package" / "inner").mkdir(parents=True)
    files = {"__init__.py": "", "inner/__init__.py": "", "beside.py": BEFORE,
             "inner/kernels.py": KERNEL.replace("from beside", "from package.beside")}  # fmt: skip
    assert "from package.beside" in files["inner/kernels.py"]
    for name, text in files.items():
        (repository / "package" / name).write_text(text)
    who = ["-c", "user.name=someone", "-c", "user.email=some@where"]
    for words in (["add", "-A"], ["commit", "-qm", "two"]):
        subprocess.run(["git", "-C", str(repository), *who, *words], check=True)
    (repository / "package" / "beside.py").write_text(AFTER)
    (repository / "click.py").write_text("raise SystemExit('it was run')")
    done = run("HEAD", "package/inner/kernels.py:scale", "--json", "--fail-over", "10")
    assert done.exit_code == 1 and "slower by more than 10% on h100_sxm" in done.stderr
    [found] = json.loads(done.stdout)["devices"]
    assert 1.25 < found["ratio"] < 1.6


@pytest.mark.slow
def test_as_a_table_and_for_a_pull_request(repository: Path) -> None:
    words = ("HEAD", "kernels.py:scale", "--config", "BLOCK=1024,num_warps=4")
    done = run(*words, "--fail-over", "90%", "--html", "page.html")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("scale: HEAD -> kernels.py:scale\n") and "\nh100_sxm: main loop" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 120
    page = Path("page.html").read_text(encoding="utf-8")
    assert "h100_sxm: what changed" in page and "h100_sxm: configurations" in page and "DRAM MB" in page
    lines = run(*words, "--markdown").stdout.splitlines()
    assert lines[0] == "**scale: HEAD -> kernels.py:scale**" and lines[2].startswith("| device | before ms |")
    assert lines[4].startswith("| h100_sxm | ") and lines[2].count("|") == lines[3].count("|") == lines[4].count("|")


@pytest.mark.slow
def test_two_files_that_are_equal_differ_in_nothing(repository: Path) -> None:
    done = run("kernels.py:scale", "kernels.py:scale", "--config", "BLOCK=512", "--fail-over", "0%")
    assert done.exit_code == 0 and "h100_sxm: nothing changed" in done.stdout


@pytest.mark.slow
@pytest.mark.nvcc
@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc on the PATH")
def test_a_source_and_its_headers_are_compared_with_a_revision(repository: Path) -> None:
    """Twice the loads after the change, in a header that the source includes; and a search of what its macros are."""
    cuda = """#include "change.cuh"
    extern "C" __global__ void scale(const float* x, float* y, int n) {
        int i = blockIdx.x * BLOCK + threadIdx.x;
        if (i < n) y[i] = change(x, i, n);
    }
    """
    change = "__device__ float change(const float* x, int i, int n) { return x[i]; }"
    given = ARGS.replace("x_ptr", "x").replace("y_ptr", "y").replace("n = 4194304", "").strip()
    files = {"scale.cu": cuda, "change.cuh": change, "args.toml": f'block = ["BLOCK"]\n{given}\nn = 4194304'}
    for name, text in files.items():
        (repository / name).write_text(text)
    who = ["-c", "user.name=someone", "-c", "user.email=some@where"]
    for words in (["add", "-A"], ["commit", "-qm", "two"]):
        subprocess.run(["git", "-C", str(repository), *who, *words], check=True)
    (repository / "change.cuh").write_text(change.replace("return x[i]", "return x[i] + x[n + i]"))
    done = run("HEAD", "scale.cu:scale", "-D", "BLOCK=256,512", "--json")
    assert done.exit_code == 0, done.stderr
    [device] = json.loads(done.stdout)["devices"]
    assert 1.1 < device["after"]["predicted_ms"] / device["before"]["predicted_ms"] < 1.6
    assert device["after"]["config"]["BLOCK"] in (256, 512)
    words = ["search", "scale.cu:scale", "--args", "args.toml", "--arch", "h100", "-D", "BLOCK=64,128,256,512,1024"]
    found = CliRunner().invoke(main, [*words, "--where", "BLOCK < 1024", "--quiet", "--json"])
    assert found.exit_code == 0, found.stderr
    assert len(json.loads(found.stdout)["search"]["steps"]) == 4
    words = ["explain", "kernel", "scale.cu:scale", "--args", "args.toml", "--arch", "h100", "-D", "BLOCK=256"]
    told = CliRunner().invoke(main, words)
    assert told.stdout.splitlines()[1] == "BLOCK=256", told.stderr


@pytest.mark.parametrize(("words", "says"), [
    (("nowhere", "kernels.py:scale"), "OLD is FILE.py:NAME or a git revision; git says: fatal: not a valid"),
    (("HEAD", "none.py:scale"), "'none.py' is no file"),
    (("HEAD", "kernels.py:scale", "--fail-over", "much"), "--fail-over takes a percentage such as 5%, got 'much'"),
    (("HEAD", "kernels.py:other"), "kernels.py:other on h100"),
    (("HEAD", "kernels.py:scale", "--json", "--markdown"), "two forms of the same"),
])  # fmt: skip
def test_what_cannot_be_compared_is_one_clear_error(repository: Path, words: tuple[str, ...], says: str) -> None:
    done = run(*words)
    assert done.exit_code == 2 and says in done.stderr and "Traceback" not in done.stderr


@pytest.mark.exhaustive
def test_changes_that_were_measured() -> None:
    """Signs and sizes of the changes on an H100 and an H200, as the page of accuracy has them."""
    root = Path(__file__).resolve().parent.parent
    page = (root / "docs/evidence/accuracy.md").read_text(encoding="utf-8").partition("## Changes of a kernel")[2]
    rows = re.findall(r"\| ([0-9.]+) \| ([0-9.]+) \|", page)
    signs, sizes = re.findall(r"in 12 of 15 \(H200: (\d+)\).* in 14 \((\d+)\)", page)[0]
    assert "all signs and sizes are right" in page
    for arch, file, of, right, near in (
        ("h100", "changes", "15", "12", "14"),
        ("h200", "changes", "15", signs, sizes),
        ("h200", "changes_second", "10", "10", "10"),
    ):
        command = [sys.executable, "benchmarks/compare_changes.py", "score", f"tests/data/{arch}/{file}.json"]
        done = subprocess.run(
            [*command, "--arch", arch], cwd=root, capture_output=True, text=True, timeout=600, check=True
        )
        assert f"sign right: {right} of {of}; size within 0.8 and 1.25: {near} of {of}" in done.stdout
        if arch == "h100":
            assert len(rows) == 6
            now = dict(re.findall(r" (\d+\.\d+) +(\d+\.\d+) ", done.stdout))
            assert all(float(now[was]) == pytest.approx(float(page), abs=0.01) for was, page in rows)
