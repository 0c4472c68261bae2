"""The reference of declarations is the code's; the examples of the guides run and say what the pages say."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from docs_kernels import BLOCK, COLUMNS, DOCS, MEANINGS, PAGE, answered, guides, meaning, on_page_markdown

import carver
from carver.cli.export import example
from carver.kernels.expr import size_scope, static_scope
from carver.problem.problem import operator_files

GUIDES = guides()


@pytest.mark.parametrize("path", [PAGE, COLUMNS, "index.md"])
def test_the_site_has_the_reference_at_the_end_of_its_page(path: str) -> None:
    text = (DOCS / path).read_text(encoding="utf-8")
    page = on_page_markdown(text, SimpleNamespace(file=SimpleNamespace(src_uri=path)))
    assert page.startswith(text)
    assert ("| `tile_m` |" in page) == (path == COLUMNS) == ("## Constants" in page)
    assert ("## Files to extend" in page) == (path == PAGE)


@pytest.mark.slow
def test_the_example_says_what_the_page_says() -> None:
    assert answered(GUIDES) == GUIDES, "make it anew: python tests/docs_kernels.py"
    assert len(BLOCK.findall(GUIDES)) == 5
    assert "reads no column 'serialised'" in GUIDES
    assert "68%  DRAM" in GUIDES


def test_every_name_in_scope_is_described() -> None:
    arch = carver.CUDA("h200")
    for operator, said in operator_files().items():
        problem = example(operator)
        for name in {*static_scope(problem, arch), *size_scope(problem)}:
            assert meaning(name) or name in {*problem.sizes, *problem.options, *said.options}, (operator, name)


def test_every_meaning_is_of_a_name_that_is_there() -> None:
    arch, there = carver.CUDA("h200"), set()
    for operator in operator_files():
        problem = example(operator)
        there |= {*static_scope(problem, arch), *size_scope(problem)}
    for name in MEANINGS:
        pattern = name.replace("<tensor>", r"\w+")
        assert any(re.fullmatch(pattern, each) for each in there), name
