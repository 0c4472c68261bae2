"""Candidates that are one Triton function: compile the first of them and rank them by machine code before any runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..arch.descriptor import Arch
from ..compiled.arguments import Tensor
from ..compiled.triton import function_of
from ..ranking.kernel import rank_kernel
from ..run.inputs import Value
from ..run.spec import Kernel
from .configs import Entry


def ranked_by_code(
    entries: Sequence[Entry], kernels: Sequence[Any], values: Sequence[Value], arch: Arch, count: int
) -> tuple[list[Entry], Mapping[str, int]]:
    """The first `count` candidates compiled for the device, best first, and why others of them fell out.

    First are those that are predicted fastest, else those first in the list. `kernels`: what the tuned function made
    for each; those that failed are left out. `values`: what the kernels are given before their scalars. Raises
    NoCandidates where none compiles and fits.
    """
    made = [i for i, kernel in enumerate(kernels) if isinstance(kernel, Kernel)]
    first = sorted(made, key=lambda i: entries[i].predicted_ms or math.inf)[:count]
    configs = [dict(kernels[i].defines) for i in first]
    launches = [kernels[i].numbers([value.param for value in values]) for i in first]
    by_config = {tuple(config.items()): launch for config, launch in zip(configs, launches, strict=True)}
    given = [value.given if value.form == "plain" else Tensor(value.dtype, value.given.shape) for value in values]
    source = kernels[first[0]].source
    names = function_of(source).arg_names

    def args(config: Mapping[str, Any]) -> dict[str, Any]:
        return dict(zip(names, (*given, *by_config[tuple(config.items())][1]), strict=False))

    def grid(known: Mapping[str, Any]) -> Any:
        blocks = by_config[tuple((name, known[name]) for name in configs[0])][0]
        return blocks(known) if callable(blocks) else blocks

    ranking = rank_kernel(source, configs, args=args, grid=grid, arch=arch)
    kept = [replace(entries[first[hint.index]], predicted_ms=hint.predicted_ms) for hint in ranking]
    return kept, ranking.rejected
