"""Hints inside other tools' own tuners, where carver is called back: short names for what `carver.export` has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..ops.template import Template

if TYPE_CHECKING:
    from ..export.triton import Pruner


def triton_pruner(
    template: Template | Callable[..., Template], topk: int = 10, names: Mapping[str, str] | None = None,
    ignore: Sequence[str] = (), propose: bool = False,
) -> Pruner:  # fmt: skip
    """`triton.autotune(configs, key, prune_configs_by=carver.triton_pruner(op, topk=5))`, or the same in a dict:
    `{"early_config_prune": carver.triton_pruner(op, topk=5)}`.

    Keeps the `topk` of the kernel's own list that are predicted fastest. `template` is an operator with its device or
    a function of the kernel's arguments that makes one:

        lambda M, N, K: carver.MatmulTemplate(M, N, K).with_arch("h200")

    `names` maps BLOCK_M and the like to the kernel's keys where they have unusual names; `ignore` are its keys that do
    not matter to the time. `propose` tries carver's own candidates instead of the list.
    """
    from ..export.triton import pruner

    return pruner(template, topk, names, ignore, propose)


def triton_perf_model(
    template: Template | Callable[..., Template], names: Mapping[str, str] | None = None, ignore: Sequence[str] = ()
) -> Callable[..., float]:
    """`prune_configs_by={"perf_model": carver.triton_perf_model(op), "top_k": 5}`: predicted seconds. [s]"""
    from ..export.triton import perf_model

    return perf_model(template, names, ignore)
