"""Price a space: run the cost model that the kernel's declaration names."""

from __future__ import annotations

from dataclasses import dataclass

from ..arch.descriptor import Arch
from ..base.errors import KernelError
from ..kernels.scope import flops_per_s
from ..kernels.space import Space
from ..problem.problem import Problem
from .check import model_of
from .constants import resolve
from .estimate import Estimate, estimate
from .work import Work


@dataclass(frozen=True, eq=False)
class Priced:
    """Candidates of one kernel, their demands and their predicted times."""

    space: Space
    work: Work
    estimate: Estimate


def price(space: Space) -> Priced:
    """Every candidate with its demands and predicted time. Raises KernelError if the declaration's numbers lead to an
    arithmetic error, such as a division by zero."""
    kernel, arch = space.kernel, space.arch
    model = model_of(kernel)
    k = resolve(kernel, arch)
    try:
        work = model.work(space, k)
        return Priced(space, work, estimate(work, arch, k))
    except ArithmeticError as error:
        raise KernelError(f"{kernel.operator}/{kernel.name} cannot be priced with these constants: {error}") from None


def roofline_seconds(problem: Problem, arch: Arch) -> float:
    """The roofline's time: the longer of the arithmetic at the fastest unit's rate and the compulsory bytes at the rate
    of DRAM. [s]"""
    rate = max(flops_per_s(problem, arch).values())
    return max(problem.flops / rate, problem.compulsory_bytes / arch.dram_bytes_per_s)
