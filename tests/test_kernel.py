"""Kernel declarations: every shipped one parses, its expressions know their names, and wrong ones are refused."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from cases import FACES, KERNELS, holds_for_each, template

import carver
from carver.base.errors import KernelError
from carver.base.folders import folder
from carver.cost.model import CONSTANTS, MODELS
from carver.kernels.declaration import Kernel, kernels, load
from carver.kernels.expr import Expression, size_scope, static_scope
from carver.problem.problem import Problem, notation, operator_files

ARCH_FIELDS = {f.name for f in dataclasses.fields(carver.Arch)} | {"max_warps_per_sm", "cc_major"}
DERIVED = {"threads", "smem_bytes", "registers"}


every_kernel = holds_for_each(KERNELS)


def problem_of(operator: str) -> Problem:
    if operator in FACES:
        return template(operator, 64, 64, 64).problem  # type: ignore[no-any-return]
    statement = notation.parse(operator_files()[operator].computes)
    types = {t.name: "float16" for t in statement.tensors}
    file = operator_files()[operator]
    options = dict.fromkeys((*file.options, *file.sized), 0)
    return Problem(operator, str(statement), dict.fromkeys(statement.axes, 64), types, options=options)


@every_kernel
def test_expressions_use_known_names_only(kernel: Kernel) -> None:
    problem = problem_of(kernel.operator)
    known = {*static_scope(problem, carver.CUDA("h200")), *size_scope(problem), *kernel.tunables, *kernel.derived}
    distances = {f"ld{tensor.name.lower()}" for tensor in problem.statement.tensors}
    for *where, expression in kernel.formulas():
        there = known | distances if where[0] == "launches.maps" else known
        assert expression.names <= there, f"{where}: {sorted(expression.names - there)}"
        fields = set(re.findall(r"\barch\.(\w+)", expression.text))
        assert fields <= ARCH_FIELDS, f"{where}: {sorted(fields - ARCH_FIELDS)}"


@every_kernel
def test_rules_and_requirements_do_not_depend_on_what_they_cannot_know(kernel: Kernel) -> None:
    tunables = {*kernel.tunables, *kernel.derived}
    for why, need in kernel.requires.items():
        assert not need.names & tunables, why


@every_kernel
def test_tunables_are_written_once_each_in_order(kernel: Kernel) -> None:
    for name, values in kernel.tunables.items():
        if not isinstance(values, Expression):
            assert list(values) == sorted(set(values)), name
            assert kernel.defaults.get(name, values[0]) in values, name


@every_kernel
def test_the_model_exists(kernel: Kernel) -> None:
    assert kernel.model in MODELS


@every_kernel
def test_constants_lie_within_their_physical_bounds(kernel: Kernel) -> None:
    for name, value in kernel.constants.items():
        assert CONSTANTS[name].low <= value <= CONSTANTS[name].high, name


@every_kernel
def test_fitted_constants_say_when_and_how(kernel: Kernel) -> None:
    if kernel.fitted:
        assert {"date", "device", "command"} <= kernel.fitted.keys()


@every_kernel
def test_our_own_kernels_have_their_source_and_entries(kernel: Kernel) -> None:
    if kernel.source is None:
        assert kernel.backend not in ("cuda", "cpu")
        return
    text = with_headers(kernel.source)
    assert kernel.launches
    for launch in kernel.launches:
        assert re.search(rf"\b{launch.entry}\b", text), launch.entry
    for name in kernel.tunables:
        assert re.search(rf"\b{name.upper()}\b", text), f"{name.upper()} is never used"


def with_headers(source: Path) -> str:
    text = source.read_text(encoding="utf-8")
    for name in re.findall(r'#include "(common/[^"]+)"', text):
        text += with_headers(folder("templates") / name)
    return text


def test_a_backend_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(KernelError, match=r"has no kernel for backend 'tritn'; it has .*triton"):
        kernels("matmul", "tritn")
    with pytest.raises(KernelError, match="no operator 'matmull'; did you mean 'matmul'"):
        kernels("matmull", "triton")


TOY = """
backend = "triton"
model = "contraction"
[tunables]
x = [1, 2]
[schedule]
y = "x + 1"
z = "y * 2"
"""


def test_columns_are_ordered_by_what_they_need(declaration: Callable[..., Kernel]) -> None:
    toy = declaration(TOY.replace('y = "x + 1"\nz = "y * 2"', 'z = "y * 2"\ny = "x + 1"'))
    assert list(toy.derived) == ["y", "z"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('model = "contraction"\n', "", "missing model"),
        ("[tunables]", "[tunable]", "unknown key 'tunable'; did you mean 'tunables'"),
        ('"x + 1"', '"x +"', "does not parse"),
        ('"x + 1"', '"z"', "depend on each other in a circle"),
        ("x = [1, 2]", 'x = ["a"]', "a list of whole numbers or an expression is wanted"),
        ("x = [1, 2]", "x = 3", "a list of whole numbers or an expression is wanted"),
        ("[schedule]", "[defaults]\nw = 1\n[schedule]", "default for 'w', which is no tunable"),
        ("[schedule]", "[[launches]]\nentree = 'f'\n[schedule]", r"\[\[launches\]\] has unknown key 'entree'"),
        ("[schedule]", "[schedule", "Expected ']'"),
        ("x = [1, 2]", "x = [99999999999999999999]", "each number from 0 to 2.31, got"),
        ("x = [1, 2]", "x = [-1]", "each number from 0 to 2.31, got"),
        ("[schedule]", "[defaults]\nx = 1.5\n[schedule]", "a whole number from 0 to 2.31 is wanted, got 1.5"),
        ("[schedule]", "[[launches]]\ngrid = 'x'\n[schedule]", "grid is a list, got 'x'"),
        ("[schedule]", "[[launches]]\ngrid = [1, 1, 1, 1]\n[schedule]", "grid has at most three extents"),
        ("[schedule]", "[[launches]]\nargs = 3\n[schedule]", "args is a list, got 3"),
        ("[schedule]", "[[launches]]\n[[launches.maps]]\nbox = 3\n[schedule]", "box is a list, got 3"),
        ("[schedule]", "[workspace]\nbyte = 4\n[schedule]", r"\[workspace\] has unknown key 'byte'"),
        ("[schedule]", "[fitted]\ndevice = 3\n[schedule]", "device must be a string, got 3"),
        ("[schedule]", "[fitted]\ndevice = 'H200'\n[schedule]", "names a device, but lacks the date"),
        ("[tunables]", "constants_of = 'matmul/toy'\n[tunables]", "'matmul/toy' leads back to this kernel"),
    ],
)
def test_a_wrong_declaration_is_refused_by_file_and_reason(
    declaration: Callable[..., Kernel], old: str, new: str, says: str
) -> None:
    assert old in TOY
    with pytest.raises(KernelError, match=f"toy.toml: .*{says}") as caught:
        declaration(TOY.replace(old, new))
    faults = getattr(caught.value, "faults", ())
    assert len(set(faults)) == len(faults)


def test_constants_are_borrowed_through_other_borrowers(tmp_path: Path) -> None:
    (tmp_path / "toys").mkdir()
    lenders = {"first": "toys/second", "second": "matmul/triton", "third": "toys/fourth", "fourth": "toys/third"}
    for name, of in lenders.items():
        path = tmp_path / "toys" / f"{name}.toml"
        own = "[constants]\ntail = 1.1\n" if name == "second" else ""
        path.write_text(f'constants_of = "{of}"{TOY}{own}')
    first, triton = load(tmp_path / "toys" / "first.toml"), kernels("matmul", "triton")[0]
    assert first.constants == {**triton.constants, "tail": 1.1} and first.fitted == triton.fitted
    with pytest.raises(KernelError, match="'toys/third' leads back to this kernel"):
        load(tmp_path / "toys" / "third.toml")
