"""Any operator, given by its notation."""

from __future__ import annotations

from ..base import dtypes
from ..base.errors import ProblemError
from ..problem import notation
from ..problem.problem import Problem, size
from .operator import ACCUM_DTYPE, DTYPE, OUT_DTYPE, Argument, Operator, operators
from .template import Template, accumulator, output_type


class OpTemplate(Template):
    """Any operator, as one line of index notation, with the size of each axis.

    A statement that is equivalent to one of carver's operators, under any names, becomes that operator
    (`Operator.recognise`). Any other statement that contracts two operands is ranked as the matmul it maps onto, and
    one without reduced axes as element-wise.
    """

    def __init__(
        self,
        computes: str,
        in_dtype: str = "float16",
        out_dtype: str | None = None,
        accum_dtype: str | None = None,
        **sizes: int,
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
    (
        Argument("computes", metavar="NOTATION"), Argument("sizes", metavar="AXIS=SIZE...", count=-1), DTYPE, OUT_DTYPE,
        ACCUM_DTYPE,
    ),
)  # fmt: skip
