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
from ..kernels.space import multiply_dtype, plain, static_scope
from ..problem.problem import Problem

TILES = "triton"
"""Whose tiles are the better advice where kernels of ours cannot run, or leave the fastest unit idle."""
FULL_RATE = 0.95
"""Kernels that reach this share of the fastest unit's rate are taken to use it."""


def own_backend(arch: Arch, operator: str = "matmul") -> str:
    """carver's own kernels where it has some for the operator and the vendor, else those of the first tool that has."""
    return preferred(arch, backends(operator).values()).name


def default_backend(problem: Problem, arch: Arch) -> str:
    """carver's own kernels, unless they cannot run the problem as it is spelt or leave the fastest unit idle.

    Tiles for Triton are then the better advice, but where Triton copies operands element by element: that mostly
    costs more than the unit gains.
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
    """The kernels of a backend that this problem and device meet the requirements of, and what to tell of them."""
    offered, notes = _offered(problem.sizeless, arch, backend)
    if not offered:
        scope = static_scope(problem, arch)
        raise NoCandidates(
            f"{problem} with backend {backend!r} on {arch.name}",
            {f"{k.title} requires that {why}": 1 for k in kernels(problem.operator, backend) for why in k.unmet(scope)},
        )
    return offered, notes


def too_large(problem: Problem, arch: Arch) -> tuple[str, ...]:
    """What to tell the user of a problem that the device has no memory for; else nothing."""
    if sum(problem.elements.values()) * 8 <= arch.dram_bytes or problem.compulsory_bytes <= arch.dram_bytes:
        return ()  # the first of the two is quick, and mostly settles it
    needs, has = (f"{n / 1e9:,.4g} GB" for n in (problem.compulsory_bytes, arch.dram_bytes))
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
    if odd := copied_singly(problem, arch, offered):
        what = " and ".join(odd)
        notes.append(f"Triton copies {what} element by element: pad rows to multiples of 16, or see static_shapes")
    if (share := unit_share(problem, arch, offered)) < FULL_RATE:
        rate = f"{arch.title}'s rate for {multiply_dtype(problem)}"
        notes.append(f"at most {share:.0%} of {rate}: none of these kernels issues its fastest instruction")
    return offered, tuple(notes)


def copied_singly(problem: Problem, arch: Arch, offered: Sequence[Kernel]) -> list[str]:
    """The inputs that kernels of Triton copy element by element, because 16 does not divide a stride."""
    scope = static_scope(problem, arch)
    reads = any("by_16_a" in column.names for kernel in offered for column in kernel.derived.values())
    odd = [t.name for t in problem.statement.inputs if not scope[f"by_16_{t.name.lower()}"]]
    return odd if reads and not scope["static_shapes"] else []


def unit_share(problem: Problem, arch: Arch, offered: Sequence[Kernel]) -> float:
    """Rate of the fastest arithmetic instruction that these kernels can issue, over that of the device's fastest.

    1 for problems that no matrix instruction is for.
    """
    used = {kind for kernel in offered for kind in instructions(problem, arch, kernel)}
    if not static_scope(problem, arch)["matrix"] or not used:
        return 1.0
    fastest = max(peak(problem, arch, kind) for kind in range(4))
    return max(peak(problem, arch, kind) for kind in used) / fastest
