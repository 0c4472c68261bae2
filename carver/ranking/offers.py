"""The kernels that exist for a problem on a device, the backend used by default, and the notes on both."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ..arch.descriptor import Arch
from ..base.errors import ConfigError, NoCandidates
from ..cost.tile import peak
from ..kernels.backends import BACKENDS, preferred
from ..kernels.declaration import Kernel, backends, every, kernels
from ..kernels.enumeration import instructions
from ..kernels.scope import matrix_unit, multiply_dtype, plain, static_scope
from ..problem.problem import Problem

TILES = "triton"
"""Backend to advise if carver's own kernels cannot run, or leave the fastest arithmetic unit idle."""
FULL_RATE = 0.95
"""Kernels that can reach this share of the fastest unit's rate count as using it."""


def own_backend(arch: Arch, operator: str = "matmul") -> str:
    """carver's own backend for the device, if it has kernels for the operator; otherwise the first backend that has."""
    return preferred(arch, backends(operator).values()).name


def default_backend(problem: Problem, arch: Arch) -> str:
    """carver's own kernels, unless they cannot run the problem as it is written, or leave the fastest unit idle.

    Then tiles for Triton are better advice. But if Triton would copy operands element by element, carver's own kernels
    stay: such copies usually cost more than the faster unit gains.
    """
    return _default_backend(problem.sizeless, arch)


@lru_cache(maxsize=256)
def _default_backend(problem: Problem, arch: Arch) -> str:
    own = own_backend(arch, problem.operator)
    scope = static_scope(problem, arch)
    operator = problem.operator
    there = [each for each in {own, TILES} if each in backends(operator).values()]
    meets = [k for each in there for k in kernels(operator, each) if not k.unmet(scope)]
    runs = [k for k in meets if k.backend == own]
    tiles = [k for k in meets if k.backend == TILES and k.device_kind == arch.kind]
    if not BACKENDS[own].source or not tiles:
        return own
    if not (plain(problem) and runs):
        return TILES
    enough = unit_share(problem, arch, runs) >= min(FULL_RATE, unit_share(problem, arch, tiles))
    return own if enough or copied_singly(problem, arch, tiles) else TILES


def offered_kernels(problem: Problem, arch: Arch, backend: str) -> tuple[tuple[Kernel, ...], tuple[str, ...]]:
    """The kernels of a backend whose requirements this problem and device meet, and notes for the user."""
    offered, notes = _offered(problem.sizeless, arch, backend)
    if not offered:
        scope = static_scope(problem, arch)
        raise NoCandidates(
            f"{problem} with backend {backend!r} on {arch.name}",
            {f"{k.title} requires that {why}": 1 for k in kernels(problem.operator, backend) for why in k.unmet(scope)},
        )
    return offered, notes


def too_large(problem: Problem, arch: Arch) -> tuple[str, ...]:
    """A note for the user if the problem exceeds the device's memory; otherwise empty."""
    if sum(problem.elements.values()) * 8 <= arch.dram_bytes or problem.compulsory_bytes <= arch.dram_bytes:
        return ()  # the first condition is cheap and usually decides
    needs, has = (f"{n / 2**30:,.1f} GiB" for n in (problem.compulsory_bytes, arch.dram_bytes))
    return (f"the tensors take {needs}, the memory of {arch.title} is {has}: predicted as if they fitted",)


@lru_cache(maxsize=256)
def _offered(problem: Problem, arch: Arch, backend: str) -> tuple[tuple[Kernel, ...], tuple[str, ...]]:
    scope = static_scope(problem, arch)
    declared = kernels(problem.operator, backend)
    if declared[0].device_kind != arch.kind:
        others = sorted({k.backend for k in every(problem.operator) if k.device_kind == arch.kind})
        what = f"backend {backend!r} is for a {declared[0].device_kind.upper()}, {arch.title} is a {arch.kind.upper()}"
        has = ", ".join(map(repr, others)) or "no backend"
        raise ConfigError(f"{what}; for it, {problem.operator} has {has}")
    offered = tuple(kernel for kernel in declared if not kernel.unmet(scope))
    notes = []
    if not BACKENDS[backend].runs_on(arch):
        notes.append(f"{BACKENDS[backend].title} kernels do not run on {arch.title}: take the tiles as advice")
    contracts = any("instruction" in kernel.derived for kernel in offered)
    if contracts and not scope["matrix"]:
        notes.append(f"{arch.title} has no matrix instruction for {multiply_dtype(problem)}: vector units are used")
    if contracts and scope["widen_instr"]:
        dtype, unit = multiply_dtype(problem), matrix_unit(problem, arch)
        own = arch.own_float8(dtype)
        has = f"; it multiplies {own} itself" if own != dtype else ""
        notes.append(
            f"{arch.title} has no matrix instruction for {dtype}: each element is converted to "
            f"{unit.dtype if unit else 'float32'} by about {scope['widen_instr']:.0f} instructions{has}"
        )
    if odd := copied_singly(problem, arch, offered):
        what = " and ".join(odd)
        notes.append(f"Triton copies {what} element by element: pad rows to multiples of 16, or see static_shapes")
    if (share := unit_share(problem, arch, offered)) < FULL_RATE:
        rate = f"{arch.title}'s rate for {multiply_dtype(problem)}"
        notes.append(f"at most {share:.0%} of {rate}: none of these kernels issues its fastest instruction")
    return offered, tuple(notes)


def copied_singly(problem: Problem, arch: Arch, offered: Sequence[Kernel]) -> list[str]:
    """The inputs that Triton's kernels copy element by element because a stride is not a multiple of 16."""
    scope = static_scope(problem, arch)
    reads = any("by_16_a" in column.names for kernel in offered for column in kernel.derived.values())
    odd = [t.name for t in problem.statement.inputs if not scope[f"by_16_{t.name.lower()}"]]
    return odd if reads and not scope["static_shapes"] else []


def unit_share(problem: Problem, arch: Arch, offered: Sequence[Kernel]) -> float:
    """Rate of the fastest arithmetic unit that these kernels can use, over that of the device's fastest unit.

    1 for problems without a matrix instruction.
    """
    used = {kind for kernel in offered for kind in instructions(problem, arch, kernel)}
    if not static_scope(problem, arch)["matrix"] or not used:
        return 1.0
    fastest = max(peak(problem, arch, kind) for kind in range(4))
    return max(peak(problem, arch, kind) for kind in used) / fastest
