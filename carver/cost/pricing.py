"""Price a space: run the cost model that a kernel's declaration names, with the constants in force."""

from __future__ import annotations

from dataclasses import dataclass

from ..arch.descriptor import Arch
from ..base.errors import KernelError
from ..kernels.space import Space, flops_per_s
from ..problem.problem import Problem
from .check import model_of
from .constants import resolve
from .estimate import Estimate, estimate
from .work import Work


@dataclass(frozen=True, eq=False)
class Priced:
    """One kernel's candidates with what they ask for and what they are predicted to cost."""

    space: Space
    work: Work
    estimate: Estimate


def price(space: Space) -> tuple[Work, Estimate]:
    """The cost model's answer for every candidate of a space. Raises KernelError where numbers of its declaration make
    no time."""
    kernel, arch = space.kernel, space.arch
    model = model_of(kernel)
    k = resolve(kernel, arch)
    try:
        work = model.work(space, k)
        return work, estimate(work, arch, k)
    except ArithmeticError as error:
        raise KernelError(f"{kernel.operator}/{kernel.name} cannot be priced with these constants: {error}") from None


def roofline_seconds(problem: Problem, arch: Arch) -> float:
    """The later of all arithmetic at the rate of the fastest unit and all compulsory bytes at that of DRAM. [s]"""
    rate = max(flops_per_s(problem, arch).values())
    return max(problem.flops / rate, problem.compulsory_bytes / arch.dram_bytes_per_s)
