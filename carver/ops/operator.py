"""Everything that carver knows of an operator besides its kernels: one `Operator` in a file of this folder.

Every `Operator` of a module here is found; nothing else lists operators. Its kernels are declared in the folder
of templates/ that the problems of its template name.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias, get_args, get_origin, get_type_hints

from ..base import dtypes
from ..base.errors import ProblemError, nearest
from ..problem import notation
from ..problem.problem import Problem, size
from . import arrays
from .template import Template, accumulator, output_type

Reference: TypeAlias = Callable[[Problem, Mapping[str, Any], Any], tuple[Any, Any]]
"""Problem, float64 inputs by tensor name and their namespace (NumPy or torch), to the output and the sum of the
magnitudes that were added up to get it, which scales its rounding error."""
Library: TypeAlias = Callable[[Problem, Sequence[Any], Any, Any], Callable[[], object] | None]
"""Problem, inputs, output and their namespace, to a call that computes the one from the others; None without one."""


@dataclass(frozen=True)
class Argument:
    """How a parameter of a template is given on the command line, in the parameter's annotation; a text there is the
    help alone. Type, default and the name of an option are the parameter's. One without either is not an option; one
    without a default is positional."""

    help: str = ""
    metavar: str = ""
    choices: tuple[str | int, ...] = ()
    positional: bool = False
    count: int = 1
    """Values of a positional one; -1 is one or more."""


DType = Annotated[str, Argument(metavar="TYPE")]
OutDType = Annotated[str | None, Argument("output type; by default that of the inputs, if wide enough", "TYPE")]
AccumDType = Annotated[str | None, Argument("accumulator type; by default float32, int32 or float64", "TYPE")]
WeightDType = Annotated[str | None, Argument("type of B, if it differs from A's, such as int4", "TYPE")]
Batch = Annotated[int, "number of such matrices, each with its own output"]
Bias = Annotated[bool, "add a bias"]


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
    reference: Reference = arrays.value
    library: Library = arrays.product_call
    macros: Callable[[Problem], Mapping[str, int | str]] = option_macros
    """What its sources are compiled with, besides tunables, element types and alignments."""
    approximates: Callable[[Problem], bool] = lambda _: False
    """Whether its kernels end in an exponential or a division that is not rounded correctly."""
    recognise: Callable[[Problem], Problem | None] = lambda _: None
    """A problem in someone's own notation as this operator spells it; None where it is something else."""

    @cached_property
    def arguments(self) -> Mapping[str, tuple[Argument, Any]]:
        """Of each parameter of the template that the command line has: how, and its type."""
        hints, found = get_type_hints(self.template.__init__, include_extras=True), {}
        for name, parameter in signature(self.template).parameters.items():
            kind, *said = get_args(hints[name]) if get_origin(hints[name]) is Annotated else (hints[name],)
            told = said[0] if said else Argument()
            told = Argument(told) if isinstance(told, str) else told
            if parameter.default is Parameter.empty:
                told = replace(told, positional=True)
            if said or told.positional:
                found[name] = told, kind
        return MappingProxyType(found)


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


class OpTemplate(Template):
    """Any operator, as one line of index notation, with the size of each axis.

    A statement that is equivalent to one of carver's operators, under any names, becomes that operator
    (`Operator.recognise`). Any other statement that contracts two operands is ranked as the matmul it maps onto, and
    one without reduced axes as element-wise.
    """

    def __init__(
        self,
        computes: Annotated[str, Argument(metavar="NOTATION")],
        in_dtype: DType = "float16",
        out_dtype: OutDType = None,
        accum_dtype: AccumDType = None,
        **sizes: Annotated[int, Argument(metavar="AXIS=SIZE...", count=-1)],
    ) -> None:
        statement = notation.parse(computes)
        kind = dtypes.canonical(in_dtype)
        out, accumulate = output_type(kind, out_dtype), accumulator(kind, accum_dtype)
        _check_statement(statement)
        types = {t.name: kind for t in statement.inputs} | {statement.output.name: out}
        operator = "matmul" if statement.reduced else "elementwise"
        options = {} if statement.reduced else {"flops_per_element": max(len(statement.inputs) - 1, 1)}
        sizes = {axis: size(axis, extent) for axis, extent in sizes.items()}  # by the user's names in errors
        given = Problem(operator, computes, sizes, types, accumulate, options)
        found = (each.recognise(given) for each in operators().values())
        super().__init__(next((problem for problem in found if problem), given))


def _check_statement(s: notation.Statement) -> None:
    """Refuse what no kernel that carver knows computes in one go."""
    for tensor in s.inputs:
        walked = [axis for dim in tensor.index for axis, _ in dim]
        if len(set(walked)) < len(walked):
            raise ProblemError(f"{s}: an axis stands twice in {tensor}; no kernel walks a diagonal")
    if not s.reduced or len(s.inputs) == 1:
        return
    if s.combine != "+=":
        raise ProblemError(f"{s}: products are summed ('+='); no kernel joins them by {s.combine!r}")
    for axis in s.reduced:
        if lone := [str(t) for t in s.inputs[:2] if axis not in t.axes]:
            raise ProblemError(
                f"{s}: {axis!r} is summed, but does not occur in {lone[0]}; contract two operands at a time, each "
                "summed axis in both (carver.Chain takes several statements)"
            )


OPERATOR = Operator(
    "op",
    OpTemplate,
    "Any operator in index notation: 'C[m,n] += A[m,k] * B[k,n]' m=64 n=64 k=64.",
)  # fmt: skip
