"""Hints inside other tools' own tuners, where carver is called back: short names for what `carver.export` has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ..base.errors import ConfigError
from ..ops.template import Template
from ..problem.problem import counted

if TYPE_CHECKING:
    from ..export.triton import Pruner


def triton_pruner(
    template: Template | Callable[..., Template], topk: int = 10, names: Mapping[str, str] | None = None,
    ignore: Sequence[str] = (), propose: bool = False, compiled: int | None = None, kernel: Any = None,
) -> Pruner:  # fmt: skip
    """`triton.autotune(configs, key, prune_configs_by=carver.triton_pruner(op, topk=5))`, or the same in a dict:
    `{"early_config_prune": carver.triton_pruner(op, topk=5)}`.

    Keeps the `topk` of the kernel's own list that are predicted fastest. `template` is an operator with its device or
    a function of the kernel's arguments that makes one:

        lambda M, N, K: carver.MatmulTemplate(M, N, K).with_arch("h200")

    `names` maps BLOCK_M and the like to the kernel's keys where they have unusual names; `ignore` are its keys that do
    not matter to the time. `propose` tries carver's own candidates instead of the list. With `compiled` the first so
    many are compiled for the device, side by side, and the `topk` are those of them that are then predicted fastest;
    `kernel` is the kernel, or a function without arguments that gives it, as its decorator comes before it:
    `kernel=lambda: matmul`. With it what Triton's tuner timed for one key improves the ranking for the next.
    """
    from ..export.triton import pruner

    tuner = None if kernel is None else partial(_tuner_of, kernel)
    if compiled is None:
        return pruner(template, topk, names, ignore, propose, tuner)
    if tuner is None:
        raise ConfigError("compiled= needs the kernel: triton_pruner(..., kernel=lambda: matmul)")
    return _compiled(pruner(template, compiled, names, ignore, propose), template, counted("topk", topk, 1), tuner)


def _tuner_of(kernel: Any) -> Any:
    """Triton's tuner, where the kernel has one; else the kernel."""
    return kernel() if isinstance(kernel, FunctionType) else kernel


def _compiled(
    screen: Pruner, template: Template | Callable[..., Template], topk: int, tuner: Callable[[], Any]
) -> Pruner:
    from ..export.triton import Feedback, Pruner, device, make
    from .autotune import ranked

    feedback = Feedback()

    def early_config_prune(configs: list[Any], named_args: Mapping[str, Any], **kwargs: Any) -> list[Any]:
        given = {**named_args, **kwargs}
        own = inner = tuner()
        while hasattr(inner, "prune_configs"):  # Triton's tuner, which is asking
            inner = inner.fn
        first = screen(configs, named_args, **kwargs)
        return ranked(inner, first, given, device(make(template, given)), topk, tuner=own, feedback=feedback)[0]

    return Pruner(early_config_prune)


def triton_perf_model(
    template: Template | Callable[..., Template], names: Mapping[str, str] | None = None, ignore: Sequence[str] = ()
) -> Callable[..., float]:
    """`prune_configs_by={"perf_model": carver.triton_perf_model(op), "top_k": 5}`: predicted seconds. [s]"""
    from ..export.triton import perf_model

    return perf_model(template, names, ignore)
