"""Everything that carver knows of an operator besides its kernels: one `Operator` in a file of this folder.

Every `Operator` of a module here is found; nothing else lists operators. Its kernels are declared in the folder
of templates/ that the problems of its template name.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeAlias

from ..base.errors import ProblemError, nearest
from ..problem import notation
from ..problem.problem import Problem
from . import arrays
from .template import Template

Reference: TypeAlias = Callable[[Problem, Mapping[str, Any], Any], tuple[Any, Any]]
"""Problem, float64 inputs by tensor name and their namespace (NumPy or torch), to the output and the sum of the
magnitudes that were added up to get it, which scales its rounding error."""
Library: TypeAlias = Callable[[Problem, Sequence[Any], Any, Any], Callable[[], object] | None]
"""Problem, inputs, output and their namespace, to a call that computes the one from the others; None without one."""


@dataclass(frozen=True)
class Argument:
    """How a parameter of a template is given on the command line. Type and default are those of its signature."""

    parameter: str
    help: str = ""
    option: str = ""
    """Such as "--trans-a"; without one it is positional."""
    choices: tuple[str | int, ...] = ()
    metavar: str = ""
    count: int = 1
    """Values of a positional argument; -1 is one or more."""


DTYPE = Argument("in_dtype", option="--dtype", metavar="TYPE")
OUT_DTYPE = Argument(
    "out_dtype", "output type; by default that of the inputs, if wide enough", "--out-dtype", metavar="TYPE"
)  # fmt: skip
ACCUM_DTYPE = Argument(
    "accum_dtype", "accumulator type; by default float32, int32 or float64", "--accum-dtype", metavar="TYPE"
)  # fmt: skip
BATCH = Argument("batch", "number of such matrices, each with its own output", "--batch")
BIAS = Argument("with_bias", "add a bias", "--bias")


def option_macros(problem: Problem) -> dict[str, int | str]:
    """The options of a problem, in capitals."""
    return {name.upper(): value for name, value in problem.options.items()}


@dataclass(frozen=True)
class Operator:
    """One operator. What is not given is what its notation says."""

    name: str
    """On the command line, in tables of measurements, and of its folder in templates/ where it has one."""
    template: type[Template]
    summary: str = ""
    """One line for the command line."""
    arguments: tuple[Argument, ...] = ()
    reference: Reference = arrays.value
    library: Library = arrays.product_call
    macros: Callable[[Problem], Mapping[str, int | str]] = option_macros
    """What its sources are compiled with, besides tunables, element types and alignments."""
    approximates: Callable[[Problem], bool] = lambda _: False
    """Whether its kernels end in an exponential or a division that is not rounded correctly."""
    recognise: Callable[[Problem], Problem | None] = lambda _: None
    """A problem in someone's own notation as this operator spells it; None where it is something else."""


@cache
def operators() -> Mapping[str, Operator]:
    """Every operator by its name."""
    package = import_module(__package__ or "")
    modules = (import_module(f"{package.__name__}.{found.name}") for found in pkgutil.iter_modules(package.__path__))
    found = {each.name: each for module in modules for each in vars(module).values() if isinstance(each, Operator)}
    return MappingProxyType(dict(sorted(found.items())))


def named(name: str) -> Operator:
    """The operator of this name. Raises ProblemError where there is none."""
    if name not in operators():
        raise ProblemError(f"no operator {name!r}; {nearest(name, operators())}")
    return operators()[name]


def respelt(problem: Problem, forms: Sequence[Problem]) -> Problem | None:
    """A problem under the names of that form which computes the same; rows are dense."""
    for form in forms:
        if names := notation.renaming(form.statement, problem.statement):
            return replace(
                form, sizes={axis: problem.sizes[names[axis]] if axis in names else 1 for axis in form.sizes},
                dtypes={name: problem.dtypes[names[name]] for name in form.dtypes}, accumulate=problem.accumulate,
                align_bytes={}, written=problem.computes,
            )  # fmt: skip
    return None
