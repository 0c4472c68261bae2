"""docs/howto/kernels.md: its reference is the code's, its example runs and says what the page says."""

from __future__ import annotations

import re

from docs_kernels import BLOCK, PAGE, answered, written

import carver
from carver.kernels.scope import size_scope, static_scope
from carver.kernels.vocabulary import meaning
from carver.problem.operator_file import operator_files
from carver.ranking.trial import example

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_reference_is_current() -> None:
    assert written(TEXT) == TEXT, "make it anew: python tests/docs_kernels.py"


def test_the_example_says_what_the_page_says() -> None:
    assert answered(TEXT) == TEXT, "make it anew: python tests/docs_kernels.py"
    assert len(BLOCK.findall(TEXT)) == 6
    assert "reads no column 'serialised'" in TEXT
    assert "8 of 8 given configurations can run" in TEXT
    assert "my tiled transpose: TILE=" in TEXT


def test_every_name_in_scope_is_described() -> None:
    arch = carver.CUDA("h200")
    for operator, said in operator_files().items():
        problem = example(operator)
        for name in {*static_scope(problem, arch), *size_scope(problem)}:
            assert meaning(name) or name in {*problem.sizes, *problem.options, *said.options}, (operator, name)


def test_every_meaning_is_of_a_name_that_is_there() -> None:
    from carver.kernels.vocabulary import MEANINGS

    arch, there = carver.CUDA("h200"), set()
    for operator in operator_files():
        problem = example(operator)
        there |= {*static_scope(problem, arch), *size_scope(problem)}
    for name in MEANINGS:
        pattern = name.replace("<tensor>", r"\w+")
        assert any(re.fullmatch(pattern, each) for each in there), name
