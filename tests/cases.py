"""Operators, shapes and devices that the tests run over; what has no kernel yet is left out by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import NamedTuple, TypeVar

import carver
from carver.base.errors import NoCandidates
from carver.base.folders import folder
from carver.cost.model import MODELS
from carver.kernels.declaration import Kernel, load
from carver.problem.problem import Problem, operator_files
from carver.ranking.recommend import offered_kernels

T = TypeVar("T")


class Used(NamedTuple):
    """What ptxas says that one entry uses."""

    registers: int
    static_smem_bytes: int
    spill_bytes: int


def used(log: str) -> dict[str, Used]:
    """By entry, out of a compiler's log."""
    found = {}
    for block in log.split("Compiling entry function '")[1:]:
        registers, smem = (re.search(rf"{what}", block) for what in (r"Used (\d+) registers", r"(\d+) bytes smem"))
        spills = map(int, re.findall(r"(\d+) bytes spill (?:stores|loads)", block))
        if registers:
            found[block.partition("'")[0]] = Used(int(registers[1]), int(smem[1]) if smem else 0, sum(spills))
    return found


def holds_for_each(values: Iterable[T]) -> Callable[[Callable[[T], None]], Callable[[], None]]:
    """A law of one value as one test of all of them, which says for which it does not hold.

    Thousands of small tests would take longer to collect and to report than to run.
    """
    listed = cache(lambda: tuple(values))  # not before one of the tests runs

    def of(check: Callable[[T], None]) -> Callable[[], None]:
        def test() -> None:
            wrong, every = [], listed()
            for value in every:
                try:
                    check(value)
                except AssertionError as error:
                    wrong.append(f"{getattr(value, 'name', value)}: {error}")
            assert every and not wrong, "\n".join(wrong)

        test.__doc__ = check.__doc__
        return test

    return of


KERNELS: tuple[Kernel, ...] = tuple(
    load(path)
    for operator in sorted(operator_files())
    for path in sorted((folder("templates") / operator).glob("*.toml"))
    if path.name != "op.toml"
)
PRICED = tuple(kernel for kernel in KERNELS if kernel.model in MODELS)
"""Kernels whose model is there."""

BACKENDS = {
    operator: sorted({kernel.backend for kernel in PRICED if kernel.operator == operator})
    for operator in operator_files()
}


def template(operator: str, rows: int, cols: int, depth: int, dtype: str = "float16"):  # type: ignore[no-untyped-def]
    """An operator's face with sizes that come from three numbers."""
    match operator:
        case "matmul":
            return carver.MatmulTemplate(rows, cols, depth, in_dtype=dtype)
        case "gemv":
            return carver.GEMVTemplate(cols, depth, in_dtype=dtype)
        case "elementwise":
            return carver.ElementwiseTemplate((rows, cols), dtype)
        case "reduction":
            return carver.ReductionTemplate("sum", (rows, cols), in_dtype=dtype)
    raise ValueError(f"no face from three numbers for {operator!r}: add it here and to FACES")


FACES = ("matmul", "gemv", "elementwise", "reduction")


def answerable() -> Iterator[tuple[str, str]]:
    """(operator, backend) of what carver answers for in full. Profiles of other tools know fewer shapes and devices."""
    for operator in FACES:
        for backend in ("cuda", "triton", "cpu"):
            if backend in BACKENDS.get(operator, ()):
                yield operator, backend


def device_for(backend: str) -> str:
    return "cpu_avx2" if backend == "cpu" else "h200_sxm"


def offered(problem: Problem, arch: carver.Arch, backend: str) -> bool:
    """Whether some kernel of the backend accepts the problem on the device at all."""
    if backend not in BACKENDS[problem.operator]:
        return False
    try:
        return bool(offered_kernels(problem, arch, backend)[0])
    except NoCandidates:
        return False
