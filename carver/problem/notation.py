"""Index notation: one line says what an operator computes.

    C[b,m,n] += A[b,m,k] * B[b,k,n]                 a batched matmul
    O[n,p,q,f] += I[n,2*p+r,2*q+s,c] * W[r,s,c,f]   a strided convolution
    Y[r] max= X[r,c]                                a reduction
    Y[] += X[i]                                     a sum to one number
    Z[i,j] = A[i,j] * B[i,j] + C[j]                 element by element

Indices are sums of axes with integer strides. An axis of the output is spatial; any other is reduced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import cached_property, lru_cache
from itertools import permutations
from math import prod
from typing import Any, TypeAlias

from ..base.errors import NotationError
from ..base.given import shown
from ..base.types import Record

Affine: TypeAlias = tuple[tuple[str, int], ...]
"""The index of a dimension as (axis, stride) pairs: 2*p+r is (("p", 2), ("r", 1))."""

_STATEMENT = re.compile(r"\s*(?P<left>[^=]*?)\s*(?P<op>\+=|max=|min=|=)\s*(?P<right>.+?)\s*")
_TENSOR = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*\[(?P<index>[^\[\]]*)\]\s*")
_TERM = re.compile(r"\s*(?:(?P<stride>\d+)\s*\*\s*)?(?P<axis>[A-Za-z_]\w*)\s*")
MAX_LENGTH = 4096
"""Limit on the characters of a statement."""
MAX_TENSORS = 64
_EXAMPLE = "write for example 'C[m,n] += A[m,k] * B[k,n]'"


class Tensor(Record):
    """A named operand and the affine index of each of its dimensions."""

    name: str
    index: tuple[Affine, ...]

    @cached_property
    def axes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(axis for dim in self.index for axis, _ in dim))

    @property
    def windows(self) -> tuple[int, ...]:
        """The dimensions that several axes index."""
        return tuple(place for place, dim in enumerate(self.index) if len(dim) > 1)

    @property
    def is_plain(self) -> bool:
        """Whether one axis alone, of stride 1, indexes each dimension."""
        return all(len(dim) == 1 and dim[0][1] == 1 for dim in self.index)

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Extent of each dimension. [elements]"""
        return tuple(1 + sum(stride * (sizes[axis] - 1) for axis, stride in dim) for dim in self.index)

    def footprint(self, extent: Mapping[str, Any]) -> Any:
        """Distinct elements touched when each axis runs over `extent` values. [elements]

        A dimension that is indexed by several axes counts its span once, so that overlapping windows of a convolution
        are not counted twice, and at most the product of the axes' extents. The extents of axes that index a dimension
        alone may be arrays.
        """
        size: Any = 1
        for dim in self.index:
            if len(dim) == 1:
                size = size * extent[dim[0][0]]
            else:
                reach = 1 + sum(stride * (extent[axis] - 1) for axis, stride in dim)
                size = size * min(reach, prod(extent[axis] for axis, _ in dim))
        return size

    def __str__(self) -> str:
        return f"{self.name}[{','.join('+'.join(a if s == 1 else f'{s}*{a}' for a, s in d) for d in self.index)}]"


class Statement(Record):
    """A parsed line of index notation."""

    output: Tensor
    summands: tuple[tuple[Tensor, ...], ...]
    """The products that are added up; more than one only if nothing is reduced."""
    combine: str
    """Operator that reduces values: "+=", "max=", "min="; "=" if nothing is reduced."""

    @cached_property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(tensor for product in self.summands for tensor in product)

    @property
    def spatial(self) -> tuple[str, ...]:
        return self.output.axes

    @cached_property
    def reduced(self) -> tuple[str, ...]:
        seen = dict.fromkeys(axis for t in self.inputs for axis in t.axes)
        return tuple(axis for axis in seen if axis not in self.spatial)

    @cached_property
    def axes(self) -> tuple[str, ...]:
        return (*self.spatial, *self.reduced)

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        return (self.output, *self.inputs)

    @cached_property
    def contracts(self) -> bool:
        """Whether it is a contraction: a reduction over operands that have different indices."""
        return bool(self.reduced) and len({t.index for t in self.inputs}) > 1

    def __str__(self) -> str:
        return f"{self.output} {self.combine} {self.spelt(str)}"

    def spelt(self, write: Callable[[Tensor], str]) -> str:
        """The right side as text, with each tensor formatted by `write`."""
        return " + ".join(" * ".join(map(write, product)) for product in self.summands)

    def without(self, axes: Collection[str]) -> Statement:
        """The statement without these axes and their dimensions; each must be the only axis of its dimensions."""

        def cut(tensor: Tensor) -> Tensor:
            return Tensor(tensor.name, tuple(dim for dim in tensor.index if dim[0][0] not in axes))

        return Statement(cut(self.output), tuple(tuple(map(cut, p)) for p in self.summands), self.combine)


def fused(statement: Statement, sizes: Mapping[str, int]) -> tuple[Statement, dict[str, int]]:
    """With two axes as one, and its extent, where no tensor has one without the other right behind it: in memory they
    are one axis. Y[b,i,k] += X[b,i,j] * W[k,j] is a matmul of b times i rows."""
    sizes = dict(sizes)
    while pair := next((p for each in statement.tensors for p in _neighbours(each) if _one(statement, p)), None):
        ((outer, _),), ((inner, _),) = pair
        sizes[outer] *= sizes.pop(inner)
        statement = statement.without((inner,))
    return statement, sizes


def summed_row(statement: Statement, sizes: Mapping[str, int]) -> int:
    """Summed elements that lie side by side in every operand, or as far apart: of the last summed axis that has a
    dimension of its own in each, with those around it that are one axis with it. All of them where no axis has."""
    every = prod(sizes[axis] for axis in statement.reduced)
    if sum(sizes[axis] > 1 for axis in statement.reduced) < 2:
        return every
    one, extents = fused(statement, sizes)
    own = [{dim[0][0] for dim in tensor.index if len(dim) == 1} for tensor in one.inputs]
    rows = [axis for axis in one.reduced if extents[axis] > 1 and all(axis in axes for axes in own)]
    return extents[rows[-1]] if rows else every


def _one(statement: Statement, pair: tuple[Affine, Affine]) -> bool:
    """Whether each tensor has these two as neighbours, and nowhere else, or neither."""
    axes = {pair[0][0][0], pair[1][0][0]}
    return all(
        axes.isdisjoint(tensor.axes)
        or (pair in _neighbours(tensor) and sum(axis in axes for dim in tensor.index for axis, _ in dim) == 2)
        for tensor in statement.tensors
    )


def _neighbours(tensor: Tensor) -> list[tuple[Affine, Affine]]:
    """Of dimensions that one axis of stride 1 indexes each, the second of which follows the first."""
    pairs = zip(tensor.index, tensor.index[1:], strict=False)
    return [pair for pair in pairs if all(len(dim) == 1 and dim[0][1] == 1 for dim in pair)]


def _extent(tensor: Tensor) -> list[int]:
    """The number of axes in each dimension's index."""
    return [len(dim) for dim in tensor.index]


def renaming(declared: Statement, written: Statement) -> dict[str, str] | None:
    """The names in `written` of each tensor and axis of `declared`; None if they are not the same statement.

    Tensors and axes may have any names, and factors and summands any order. Leading axes that all tensors of `declared`
    have in common (a batch) may be missing.
    """
    batch = []
    for dims in zip(*(t.index for t in declared.tensors), strict=False):
        if len(set(dims)) > 1 or len(dims[0]) > 1:
            break
        batch.append(dims[0][0][0])
    for form in (declared, declared.without(batch)):
        if sorted(map(_extent, form.inputs)) != sorted(map(_extent, written.inputs)):
            continue  # rules out most forms before the many permutations of inputs are tried
        for inputs in permutations(written.inputs):
            tensors = list(zip(form.tensors, (written.output, *inputs), strict=False))
            pairs = {
                pair
                for ours, theirs in tensors
                for one, other in zip(ours.index, theirs.index, strict=False)
                for pair in zip(one, other, strict=False)
            }
            axes = {(ours, theirs) for (ours, _), (theirs, _) in pairs}
            names = {ours.name: theirs.name for ours, theirs in tensors}
            if (
                form.combine == written.combine
                and {frozenset(names[t.name] for t in p) for p in form.summands}
                == {frozenset(t.name for t in p) for p in written.summands}
                and all(_extent(ours) == _extent(theirs) for ours, theirs in tensors)
                and all(ours == theirs for (_, ours), (_, theirs) in pairs)
                and len(axes) == len({ours for ours, _ in axes}) == len({theirs for _, theirs in axes})
            ):
                return names | dict(axes)
    return None


def parse(text: str) -> Statement:
    """Parse one statement. Raises a NotationError that shows where parsing failed."""
    return _parse(bounded(text))


def bounded(text: object) -> str:
    """The text of a statement, stripped. Raises NotationError if it is not text, or longer than MAX_LENGTH."""
    if not isinstance(text, str):
        raise NotationError(f"{shown(text)} is not a statement, which is a string; {_EXAMPLE}")
    if len(text := text.strip()) > MAX_LENGTH:
        raise NotationError(f"a statement of {len(text)} characters, more than {MAX_LENGTH}: {shown(text)}")
    return text


@lru_cache(maxsize=1024)
def _parse(text: str) -> Statement:
    if not (match := _STATEMENT.fullmatch(text)):
        raise NotationError(f"{text!r} is not a statement 'OUT[..] += IN[..] * IN[..]'; {_EXAMPLE}")
    output = _tensor(match["left"], text)
    statement = Statement(output, _summands(match["right"], text), match["op"])
    names = [t.name for t in statement.tensors]
    if len(names) > MAX_TENSORS:
        raise NotationError(f"a statement of {len(names)} tensors, more than {MAX_TENSORS}: {shown(text)}")
    if len(set(names)) < len(names):
        raise NotationError(f"{text!r} names a tensor twice ({', '.join(names)}); give each operand its own name")
    if not output.is_plain:
        raise NotationError(f"{text!r}: the output's indices must be plain axes, got {output}")
    if len(output.axes) < len(output.index):
        raise NotationError(f"{text!r}: an axis stands twice in {output}")
    if len(statement.summands) > 1 and statement.combine != "=":
        raise NotationError(
            f"{text!r}: tensors are added element by element, with '='; what {statement.combine!r} joins is a product"
        )
    missing = [axis for axis in statement.spatial if not any(axis in t.axes for t in statement.inputs)]
    if missing:
        raise NotationError(
            f"{text!r}: output axis {missing[0]!r} occurs in no input; leave it out (one number is {output.name}[])"
        )
    if statement.combine == "=" and statement.reduced:
        raise NotationError(
            f"{text!r}: axis {statement.reduced[0]!r} is reduced, so say how: '+=', 'max=' or 'min=' instead of '='"
        )
    return statement


_FUNCTIONS = {
    "softmax|layer_norm|rms_norm": "carver.ReductionTemplate({0!r}, shape)",
    "relu|gelu|silu": "carver.MatmulTemplate(M, N, K, activation={0!r}) after a product, or carver.ElementwiseTemplate",
    "sum|max|min|mean|amax|amin": "'Y[i] += X[i,j]', 'Y[i] max= X[i,j]' or carver.ReductionTemplate",
    r"\w+": "carver.ElementwiseTemplate(shape, inputs=1, flops_per_element=1): few such functions change the time",
}  # fmt: skip
"""What does the work of a function that somebody writes in a statement."""


def _no_function(right: str, text: str) -> None:
    """Raises NotationError for a function, and names the operator that computes it."""
    if not (called := re.search(r"(\w+)\s*\(", right)):
        return
    does = next(what for words, what in _FUNCTIONS.items() if re.fullmatch(words, called[1].lower()))
    raise NotationError(
        f"{text!r}: a statement has tensors, * and +, and no functions such as {called[1]}; take "
        f"{does.format(called[1].lower())}"
    )


def _summands(right: str, text: str) -> tuple[tuple[Tensor, ...], ...]:
    _no_function(right, text)
    parts = re.findall(r"[^\[\]*+]*\[[^\[\]]*\]|[*+]|[^\[\]*+\s]+", right)
    summands: list[list[Tensor]] = [[]]
    expect_tensor = True
    for part in parts:
        if (part in ("*", "+")) == expect_tensor:
            wanted = "a tensor" if expect_tensor else "* or +"
            raise NotationError(f"{text!r}: expected {wanted} at {part.strip()!r}; {_EXAMPLE}")
        if part == "+":
            summands.append([])
        elif expect_tensor:
            summands[-1].append(_tensor(part, text))
            if not summands[-1][-1].index:
                raise NotationError(f"{text!r}: an input has an index, got {part.strip()!r}; a scalar costs nothing")
        expect_tensor = not expect_tensor
    if expect_tensor:
        raise NotationError(f"{text!r} ends where a tensor should stand; {_EXAMPLE}")
    return tuple(map(tuple, summands))


def _tensor(part: str, text: str) -> Tensor:
    if not (match := _TENSOR.fullmatch(part)):
        number = f"; one number is '{name}[]'" if (name := part.strip()).isidentifier() else ""
        raise NotationError(f"{text!r}: {name!r} is not a tensor 'A[i,j]'{number}; {_EXAMPLE}")
    index = match["index"].strip()
    return Tensor(match["name"], tuple(_affine(dim, text) for dim in index.split(",")) if index else ())


def _affine(dim: str, text: str) -> Affine:
    terms: dict[str, int] = {}
    for term in dim.split("+"):
        match = _TERM.fullmatch(term)
        stride = int(match["stride"] or 1) if match else 0
        if match is None or not stride or match["axis"] in terms:
            raise NotationError(f"{text!r}: index {dim.strip()!r} is not a sum of distinct axes such as 'p' or '2*p+r'")
        terms[match["axis"]] = stride
    return tuple(terms.items())
