"""`carver rank kernel` and `carver inspect` for sources, kernels of Python files and binaries. No GPU."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from carver.base.errors import DeviceError
from carver.cli.main import main
from carver.compiled.isa.sass import tool
from carver.run.compile import hip_compiler

PAGE = Path(__file__).parents[1] / "docs" / "howto" / "languages.md"
SOURCE = """
extern "C" __global__ void scale(const float *x, float *y, int n) {
    for (int w = 0; w < WORK; w++) {
        int i = (blockIdx.x * WORK + w) * BX + threadIdx.x;
        if (i < n) y[i] = 2 * x[i];
    }
}
"""
KERNELS = """
import numpy as np
import carver
from carver.integrations.source import binary

def made(BX, WORK):
    return carver.Kernel("scale.cu", "scale", (1 << 24) // BX // WORK, BX, defines={"BX": BX, "WORK": WORK})

def binaries(block):
    x = carver.Tensor("float32", (1 << 20,))
    return binary(carver.Kernel("scale.hip", "scale"), {"BX": block, "WORK": 1}, args=[x, x, np.int32(1 << 20)],
                  grid=(1 << 20) // block, block=block, arch=carver.load_arch("mi300x"))

try:
    listed = [binaries(64), binaries(256)]
except carver.CarverError:
    listed = []
number = 3
"""


def _has(what: str) -> bool:
    try:
        if what == "mi300x":
            return hip_compiler().path.is_file()
        return shutil.which("nvcc") is not None and tool().is_file()
    except DeviceError:
        return False


TOOLS = {"mi300x": "clang that compiles HIP", "h100": "nvcc or no nvdisasm"}
NEEDS = {device: pytest.mark.skipif(not _has(device), reason=f"no {name}") for device, name in TOOLS.items()}


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    """In a folder with the files that the page speaks of."""
    monkeypatch.chdir(tmp_path)
    for name in ("scale.cu", "scale.hip"):
        Path(name).write_text(SOURCE)
    Path("kernels.py").write_text(KERNELS)
    Path("configs.json").write_text('[{"BX": 64, "WORK": 1}, {"BX": 256, "WORK": 4}]')
    [described] = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    Path("scale.toml").write_text(described)
    return CliRunner()


def commands() -> list[object]:
    lines = re.findall(r"^carver (?:rank kernel|inspect) .*$", PAGE.read_text(encoding="utf-8"), re.M)
    amd = [any(word in line for word in ("mi300x", "rx_")) for line in lines]
    marks = [NEEDS["mi300x" if is_amd else "h100"] for is_amd in amd]
    return [pytest.param(line, marks=mark, id=line.split()[-1]) for line, mark in zip(lines, marks, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("command", commands())
def test_commands_of_the_page(shell: CliRunner, command: str) -> None:
    done = shell.invoke(main, [*shlex.split(command)[1:], "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    if "inspect" in command:
        assert sum(a["program_bytes"] for a in found["accesses"] if a["kind"] == "load") == 4 * 64 * 4
    else:
        assert len(found["hints"]) == (2 if "configs" in command else 6)
        first, last = found["hints"][0]["config"], found["hints"][-1]["config"]
        assert first["WORK"] == 4 and first["BX"] > 64 == last["BX"]  # blocks of 128 and 256 tie


@NEEDS["mi300x"]
def test_a_list_of_binaries(shell: CliRunner) -> None:
    done = shell.invoke(main, ["rank", "kernel", "kernels.py:listed", "--arch", "mi300x", "--json"])
    assert done.exit_code == 0, done.output
    assert [hint["index"] for hint in json.loads(done.stdout)["hints"]] == [1, 0]


@NEEDS["mi300x"]
def test_macros_of_one_value_each_are_one_configuration(shell: CliRunner) -> None:
    asked = "explain kernel scale.hip:scale --args scale.toml -D BX=64 -D WORK=4 --arch mi300x"
    done = shell.invoke(main, shlex.split(asked))
    assert done.exit_code == 0 and "1 warp per block" in done.output, done.output
    same = shell.invoke(main, shlex.split(asked.replace("-D BX=64 -D WORK=4", "--config BX=64,WORK=4")))
    assert same.output == done.output and "BX=64, WORK=4" in done.output


@NEEDS["mi300x"]
def test_what_the_compiler_says_of_a_source_is_the_reason(shell: CliRunner) -> None:
    Path("broken.hip").write_text("__global__ void k(float* x) { x[0] = 1 }\n", encoding="utf-8")
    asked = "rank kernel broken.hip:k --args scale.toml -D BX=64,128 -D WORK=1 --arch mi300x"
    said = str(shell.invoke(main, shlex.split(asked)).output)
    assert "removed: 2 by" in said and "broken.hip:1:39: error: expected ';'" in said


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("rank kernel scale.cu --arch h100", "write FILE.cu:NAME, a source and a kernel in it"),
        ("rank kernel scale.cu:scale -D BX=64 --arch h100", "--args FILE.toml says what the kernel is called with"),
        ("rank kernel lost.hip:scale --args scale.toml --arch mi300x", "there is no file 'lost.hip'"),
        ("rank kernel scale.cu:scale --args scale.toml -D BX= --arch h100", "a macro is given once, as NAME"),
        ("rank kernel scale.cu:scale --args scale.toml -D BX=1,2 --configs configs.json --arch h100", "one of the two"),
        (
            "rank kernel scale.cu:scale --args scale.toml --config BX=1 --configs configs.json --arch h100",
            "one of the two",
        ),
        ("rank kernel kernels.py:made --args scale.toml -D BX=1 --arch h100", "-D is of a source"),
        ("rank kernel kernels.py:number --arch h100", "is 3: a kernel is a function of Triton"),
        ("rank kernel kernels.py:lost --arch h100", "has no 'lost'"),
        ("inspect scale.hip:scale --args scale.toml -D BX=64,128 --arch mi300x", "inspect takes one configuration"),
        ("inspect kernels.py:listed --arch mi300x", "is a list of binaries"),
        ("rank kernel scale.cu:scale --args scale.toml --arch h100", "is no number among args, constants, -D and"),
        ("rank kernel kernels.py:made --args scale.toml --arch h100", "made has no list of configurations of its own"),
        ("compare main scale.cu:scale --args scale.toml --arch h100", "OLD is FILE.py:NAME or a git revision"),
        ("rank kernel scale.cu:scale --args /dev/null --arch h100", "/dev/null cannot be read twice"),
        ("rank kernel scale.cu:scale --args scale.toml -D BX=0 -D WORK=1 --arch h100", "cannot be computed: integer"),
        ("rank kernel scale.cu:scale --args scale.toml -D BX=1 -D WORK=1 --arch h100 --compile nan", "got 'nan'"),
        ("search scale.cu:scale --args scale.toml -D BX=1 -D WORK=1 --arch h100", "or several values to a -D"),
        ("search scale.cu:scale --args scale.toml -D BX=1,2 -D WORK=1 --arch h100 --budget nan", "--budget must be a"),
        ("inspect scale.cu:scale -D BX=64 -D WORK=1 --arch h100 --block 2048", "at least 1 and at most 1024, got 2048"),
        ("inspect scale.hip:scale -D BX=64 -D WORK=1 --arch mi300x", "without args, grid and block a source is read"),
    ],
)
def test_what_is_missing_is_one_sentence(shell: CliRunner, command: str, why: str) -> None:
    done = shell.invoke(main, shlex.split(command))
    assert done.exit_code != 0
    assert why in str(done.output) + str(done.exception)


@pytest.mark.parametrize(
    ("kernel", "lost"), [("scale.cu:scale", "grid"), ("scale.cu:scale", "block"), ("rows.py:rows", "grid")]
)
def test_a_file_of_arguments_says_the_whole_launch(shell: CliRunner, kernel: str, lost: str) -> None:
    if kernel.startswith("rows"):
        pytest.importorskip("triton", reason="Triton is not installed")
        text = "import triton\n\n@triton.jit\ndef rows(x, y, n):\n    pass\n"
        Path("rows.py").write_text(text, encoding="utf-8")
    whole = Path("scale.toml").read_text(encoding="utf-8").splitlines(keepends=True)
    Path("part.toml").write_text("".join(x for x in whole if not x.startswith(lost)), encoding="utf-8")
    done = shell.invoke(main, ["rank", "kernel", kernel, "--args", "part.toml", "--arch", "h100"])
    assert done.exit_code != 0
    assert f"part.toml has no {lost}" in str(done.output) + str(done.exception)
