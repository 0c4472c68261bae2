"""docs/kernels.md: its reference is the code's, its example runs and says what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs_kernels import PAGE, written

import carver
from carver.kernels.space import size_scope, static_scope
from carver.kernels.vocabulary import meaning
from carver.problem import words
from carver.ranking.trial import example

TEXT = PAGE.read_text(encoding="utf-8")
DECLARATION = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)[0]
SHOWN = re.findall(r"```console\n\$ (.*?)```", TEXT, re.DOTALL)


def test_the_reference_is_current() -> None:
    assert written(TEXT) == TEXT, "make it anew: python tests/docs_kernels.py"


@pytest.mark.parametrize("place", range(len(SHOWN)))
def test_the_example_says_what_the_page_says(tmp_path: Path, place: int) -> None:
    path = tmp_path / "templates" / "matmul" / "gelu.toml"
    path.parent.mkdir(parents=True)
    wrong = DECLARATION.replace('tile_k = "BLOCK_SIZE_K"', 'tile_k = "BLOCK_SIZE_KK"\nserialised = "1"')
    path.write_text(wrong if place == 1 else DECLARATION)
    command, _, says = SHOWN[place].partition("\n")
    if command.endswith("|"):
        second, _, says = says.partition("\n")
        command += second
    run = command.replace("carver ", f"{sys.executable} -m carver ", 1)
    env = {**os.environ, "CARVER_CONFIG_DIR": str(tmp_path), "COLUMNS": "100"}
    env["PYTHONPATH"] = str(Path(carver.__file__).parents[1])
    done = subprocess.run(
        run, shell=True, env=env, cwd=path.parents[1], capture_output=True, text=True, check=False
    )
    assert (done.stdout + done.stderr).rstrip() == says.rstrip()


def test_every_name_in_scope_is_described() -> None:
    arch = carver.CUDA("h200")
    for operator, said in words.declared().items():
        problem = example(operator)
        for name in {*static_scope(problem, arch), *size_scope(problem)}:
            assert meaning(name) or name in problem.sizes or name in said.options, (operator, name)


def test_every_meaning_is_of_a_name_that_is_there() -> None:
    from carver.kernels.vocabulary import MEANINGS

    arch, there = carver.CUDA("h200"), set()
    for operator in words.declared():
        problem = example(operator)
        there |= {*static_scope(problem, arch), *size_scope(problem)}
    for name in MEANINGS:
        pattern = name.replace("<tensor>", r"\w+")
        assert any(re.fullmatch(pattern, each) for each in there), name
