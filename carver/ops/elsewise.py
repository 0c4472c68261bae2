"""What a change of the problem would bring, if it brings more than another tile could.

Each change is priced as a separate problem: its first pick against the first pick of the problem as given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..arch.descriptor import Arch
from ..arch.devices import load
from ..base.errors import CarverError, ConfigError
from ..kernels.expr import plain
from ..problem.problem import Problem
from ..ranking.hint import Hint
from ..ranking.recommend import recommend
from ..ranking.table import explain
from .matmul import GEMVTemplate, MatmulTemplate
from .reduction import ReductionTemplate

WORTH = 1.1
"""How many times faster the changed problem has to be to be named."""
PADDED = 16
"""Elements that rows are padded to a multiple of: whole copies of 16 bytes for every type."""


def explained(hint: Hint, arch: Arch | str | None = None) -> Any:
    """`explain`, for another device than the hint's if one is named, with notes on what a change of the problem would
    bring; text for a compiled kernel, or for several operators."""
    if hint.layers:
        return "\n\n".join(str(explained(layer, arch)) for layer in hint.layers.values())
    if hint.facts is not None:
        if arch is not None:
            raise ConfigError("a compiled configuration is explained on the device that it was compiled for")
        from ..ranking.kernel import explained as explained_code

        return "\n".join(explained_code(hint, hint.facts))
    found = explain(hint, None if arch is None else load(arch))
    more = tuple(f"{text[0].upper()}{text[1:]}." for text in faster_if(hint.problem, found.arch, hint.backend))
    return replace(found, notes=(*found.notes, *more))


def faster_if(problem: Problem, arch: Arch, backend: str) -> tuple[str, ...]:
    """Sentences on changes of a plain matmul or row sum that a first pick gains `WORTH` from, the best first."""
    now = _seconds(problem, arch, backend)
    found = []
    for what, parts in _changes(problem, arch):
        try:
            then = sum(_seconds(part, arch, backend if part.operator == problem.operator else None) for part in parts)
        except CarverError:  # not for this device or backend
            continue
        if then and now > WORTH * then:
            found.append((now / then, what))
    return tuple(f"would be {gain:.3g} times faster if {what}" for gain, what in sorted(found, reverse=True))


def _seconds(problem: Problem, arch: Arch, backend: str | None) -> float:
    return float(recommend(problem, arch, 1, backend).seconds[0])


def _changes(p: Problem, arch: Arch) -> Iterator[tuple[str, tuple[Problem, ...]]]:
    if not plain(p):
        return
    if p.operator == "matmul" and not (p.options.get("bias") or p.options.get("activation")):
        yield from _of_matmul(p)
    elif p.operator == "reduction" and p.options.get("axis") == 1 and not p.options.get("keeps_shape"):
        rows, cols = p.sizes["r"], p.sizes["c"]
        parts = 1
        while rows * parts * 2 <= 2 * arch.sm_count and cols % (parts * 2) == 0:
            parts *= 2
        if parts > 1:
            kind, out = p.dtypes["X"], p.dtypes["Y"]
            first = ReductionTemplate("sum", (rows * parts, cols // parts), 1, kind, "float32").problem
            second = ReductionTemplate("sum", (rows, parts), 1, "float32", out).problem
            yield f"each row were summed in {parts} parts, and those by a second call", (first, second)


def _of_matmul(p: Problem) -> Iterator[tuple[str, tuple[Problem, ...]]]:
    m, n, k, batch = (p.sizes.get(axis, 1) for axis in "mnkb")
    trans_a, trans_b = bool(p.options.get("trans_a")), bool(p.options.get("trans_b"))

    def changed(n: int = n, k: int = k, trans_a: bool = trans_a, trans_b: bool = trans_b) -> tuple[Problem]:
        made = MatmulTemplate(
            m, n, k, batch, trans_a, trans_b, p.dtypes["A"], p.dtypes["C"], p.accumulate, p.dtypes["B"],
            static_shapes=bool(p.options.get("static_shapes")),
        )  # fmt: skip
        return (made.problem,)

    if n > 1:
        yield f"B were stored as {'K x N' if trans_b else 'N x K'}", changed(trans_b=not trans_b)
    if m > 1:
        yield f"A were stored as {'M x K' if trans_a else 'K x M'}", changed(trans_a=not trans_a)
    more_n, more_k = (-(-size // PADDED) * PADDED for size in (n, k))
    if (more_n, more_k) != (n, k) and min(n, k) > 1:
        yield f"rows were padded to N={more_n}, K={more_k}", changed(more_n, more_k)
    if 1 in (m, n) and p.dtypes["A"] == p.dtypes["B"] and max(m, n) > 1:
        matrix = trans_a if n == 1 else not trans_b
        vector = GEMVTemplate(max(m, n), k, batch, matrix, p.dtypes["A"], p.dtypes["C"], p.accumulate).problem
        yield "it were asked for as a GEMV", (vector,)
