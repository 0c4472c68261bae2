"""Index notation on arrays: what a statement computes, in float64, and the library call for a product of two operands.

Arrays are NumPy's or torch's: a function that takes `xp` works in that namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ..problem.notation import Tensor
from ..problem.problem import Problem

View = tuple[Any, tuple[str, ...]]
"""An array with one dimension for each of these axes."""


def value(problem: Problem, inputs: Mapping[str, Any], xp: Any) -> tuple[Any, Any]:
    """What the notation says, and the sum of the magnitudes that were joined to get it.

    `inputs` are float64 arrays of `xp` by tensor name.
    """
    s = problem.statement
    views = [by_axis(inputs[t.name], problem, t, xp) for t in s.inputs]
    if s.combine in ("max=", "min="):
        over = tuple(range(len(s.spatial), len(s.axes)))
        found = (xp.amax if s.combine == "max=" else xp.amin)(einsum(views, s.axes, xp), over)
        return found, abs(found)
    return contract(views, s.spatial, xp), contract([(abs(x), axes) for x, axes in views], s.spatial, xp)


def by_axis(x: Any, problem: Problem, tensor: Tensor, xp: Any) -> View:
    """A view of an operand with one dimension for each of its axes: windows of a convolution overlap in it."""
    if all(len(dim) == 1 for dim in tensor.index):
        return x, tuple(dim[0][0] for dim in tensor.index)
    shape = tensor.shape(problem.sizes)
    pitch = [prod(shape[i + 1 :]) for i in range(len(shape))]
    terms = [(axis, stride * pitch[i]) for i, dim in enumerate(tensor.index) for axis, stride in dim]
    extents, strides = [problem.sizes[axis] for axis, _ in terms], [stride for _, stride in terms]
    if xp is np:
        x = np.lib.stride_tricks.as_strided(x, extents, [stride * x.itemsize for stride in strides], writeable=False)
    else:
        x = x.as_strided(extents, strides)
    return x, tuple(axis for axis, _ in terms)


def einsum(views: Sequence[View], out: tuple[str, ...], xp: Any) -> Any:
    """The sum of products of the views over the axes not in `out`."""
    letter = {axis: chr(ord("a") + i) for i, axis in enumerate(dict.fromkeys(a for _, axes in views for a in axes))}
    spelt = ["".join(letter[axis] for axis in axes) for axes in (*(axes for _, axes in views), out)]
    return xp.einsum(f"{','.join(spelt[:-1])}->{spelt[-1]}", *(x for x, _ in views))


def roles(in_x: Sequence[str], in_y: Sequence[str], out: Sequence[str]) -> tuple[Sequence[str], ...]:
    """The axes of a product of two operands: those of the output that both have (b), the first alone (m) or the second
    alone (n), and those that are summed (k)."""
    batch = [axis for axis in out if axis in in_x and axis in in_y]
    m, n = ([axis for axis in out if axis in axes and axis not in batch] for axes in (in_x, in_y))
    return batch, m, n, [axis for axis in in_x if axis in in_y and axis not in out]


def contract(views: Sequence[View], out: tuple[str, ...], xp: Any) -> Any:
    """As `einsum`, but as one batched matrix product where two operands share the axes that are summed."""
    if len(views) != 2:
        return einsum(views, out, xp)
    (x, in_x), (y, in_y) = views
    batch, m, n, k = roles(in_x, in_y, out)
    if not k or {*batch, *k, *m} != set(in_x) or {*batch, *k, *n} != set(in_y):
        return einsum(views, out, xp)
    extent = dict(zip((*in_x, *in_y), (*x.shape, *y.shape), strict=True))
    size = {name: prod(extent[a] for a in axes) for name, axes in (("b", batch), ("m", m), ("n", n), ("k", k))}
    left = einsum([(x, in_x)], (*batch, *m, *k), xp).reshape(size["b"], size["m"], size["k"])
    right = einsum([(y, in_y)], (*batch, *k, *n), xp).reshape(size["b"], size["k"], size["n"])
    product = xp.matmul(left, right).reshape([extent[a] for a in (*batch, *m, *n)])
    return einsum([(product, (*batch, *m, *n))], out, xp)


def softmax(x: Any, xp: Any, axis: int = -1) -> Any:
    raised = xp.exp(x - xp.amax(x, axis, keepdims=True))
    return raised / raised.sum(axis, keepdims=True)


def silu(x: Any, xp: Any) -> Any:
    return x / (1 + xp.exp(-x))


def plain_axes(problem: Problem) -> list[tuple[str, ...]] | None:
    """The axes of each input, where each indexes a dimension alone."""
    inputs = problem.statement.inputs
    return [tuple(dim[0][0] for dim in t.index) for t in inputs] if all(t.is_plain for t in inputs) else None


def product_call(problem: Problem, operands: Sequence[Any], out: Any, xp: Any) -> Callable[[], object] | None:
    """matmul on views [batch, m, k], [batch, k, n], [batch, m, n]; transposed operands are views too."""
    s, axes = problem.statement, plain_axes(problem)
    if axes is None or len(operands) != 2 or s.combine != "+=":
        return None
    (x, y), (in_x, in_y) = operands, axes
    groups = roles(in_x, in_y, s.spatial)
    if any(len(group) > 1 for group in groups) or not groups[3]:
        return None
    b, m, n, k = (group[0] if group else "" for group in groups)
    left, right = arranged(x, in_x, (b, m, k), xp), arranged(y, in_y, (b, k, n), xp)
    target = arranged(out, s.spatial, (b, m, n), xp)
    if xp is np or (left.dtype == target.dtype and b):
        return lambda: xp.matmul(left, right, out=target)
    if left.dtype == target.dtype:
        return lambda: xp.mm(left[0], right[0], out=target[0])
    return lambda: xp.matmul(left, right)


def arranged(x: Any, axes: tuple[str, ...], wanted: tuple[str, ...], xp: Any) -> Any:
    """A view of x with the wanted axes in order; a missing one has extent 1."""
    letter = {axis: chr(ord("a") + i) for i, axis in enumerate(axes)}
    view = xp.einsum(f"{''.join(letter.values())}->{''.join(letter[a] for a in wanted if a in letter)}", x)
    for i, axis in enumerate(wanted):
        if axis not in letter:
            view = view[(slice(None),) * i + (None,)]
    return view
