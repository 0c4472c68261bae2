"""What `zoo.py` measures: a Triton kernel with its problems and tunables."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Problem = Mapping[str, Any]
Config = Mapping[str, Any]
Arrays = dict[str, Any]

SMS = 132
"""Programs of a persistent kernel on the GPU that is measured."""
TILE = {"BLOCK_M": (16, 32, 64, 128, 256), "BLOCK_N": (32, 64, 128, 256), "BLOCK_K": (32, 64, 128)}
PIPE = {"num_warps": (4, 8), "num_stages": (2, 3, 4)}


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True)
class Subject:
    """A kernel, its problems and tunables; `args` names every argument: tensors by type and shape, numbers by value."""

    name: str
    kernel: Any
    problems: tuple[Problem, ...]
    space: Mapping[str, tuple[int, ...]]
    args: Callable[[Problem, Config], dict[str, Any]]
    grid: Callable[[Problem, Config], tuple[int, ...]]
    outputs: tuple[str, ...]
    got: Callable[[Problem, Config, Arrays], Any]
    want: Callable[[Problem, Arrays], Any] | None = None
    """What is right, by PyTorch. Kernels whose times ship were held against it: now configurations have to agree."""
    constants: Callable[[Problem], dict[str, Any]] = lambda p: {}
    values: Callable[[Problem], dict[str, Any]] = lambda p: {}
    """What integer tensors hold."""
    keep: Callable[[Problem, Config], bool] = lambda p, c: True
    in_place: tuple[str, ...] = ()
    tolerance: float = 0.02
    """Of the largest magnitude of the result."""
    unseen: bool = False
    kind: str = ""
    """Kernels of a kind are summed up together."""

    def configs(self, problem: Problem, count: int) -> list[dict[str, int]]:
        every = [dict(zip(self.space, v, strict=True)) for v in itertools.product(*self.space.values())]
        kept = [c for c in every if self.keep(problem, c)]
        return random.Random(self.name).sample(kept, min(count, len(kept)))


def stages(c: Config, bytes_each: int, extra: int = 0) -> bool:
    """Whether the buffers of all stages fit 227 KiB."""
    return bytes_each * c["num_stages"] + extra <= 227 * 1024


def per_thread(c: Config, accumulators: int, most: int = 256) -> bool:
    return 2 <= accumulators / (32 * c["num_warps"]) <= most


def tiles(p: Problem, c: Config) -> int:
    return cdiv(p["M"], c["BLOCK_M"]) * cdiv(p["N"], c["BLOCK_N"])
