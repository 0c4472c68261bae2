"""Hints inside other tools' own tuners, where carver is called back: short names for what `carver.export` has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FunctionType
from typing import Any

from ..base.errors import ConfigError
from ..export.triton import Feedback, Make, Pruner, device, make, pruner
from ..export.triton import perf_model as triton_perf_model
from ..problem.problem import counted

__all__ = ["triton_perf_model", "triton_pruner"]


def triton_pruner(
    template: Make, topk: int = 10, names: Mapping[str, str] | None = None, ignore: Sequence[str] = (),
    propose: bool = False, compiled: int | None = None, kernel: Any = None,
) -> Pruner:
    """For `triton.autotune(configs, key, prune_configs_by=carver.triton_pruner(op, topk=5))`, or in a dict:
    `{"early_config_prune": carver.triton_pruner(op, topk=5)}`.

    Keeps the `topk` configurations of the kernel's own list that are predicted fastest. `template` is an operator with
    its device, or a function of the kernel's arguments that returns one:

        lambda M, N, K: carver.MatmulTemplate(M, N, K).with_arch("h200")

    - `names` maps BLOCK_M and the like to the kernel's keys, if they have unusual names.
    - `ignore`: keys of the kernel that do not matter to the time.
    - `propose` tries carver's own candidates instead of the list.
    - `compiled`: so many of the first configurations are compiled for the device, in parallel, and the `topk` are
      chosen by their machine code.
    - `kernel` is the kernel, or a function without arguments that returns it, because its decorator comes before it:
      `kernel=lambda: matmul`. With it, the times that Triton's tuner measures for one key improve the ranking for the
      next.
    """
    tuner = None if kernel is None else partial(_tuner_of, kernel)
    if compiled is None:
        return pruner(template, topk, names, ignore, propose, tuner)
    if tuner is None:
        raise ConfigError("compiled= needs the kernel: triton_pruner(..., kernel=lambda: matmul)")
    return _compiled(pruner(template, compiled, names, ignore, propose), template, counted("topk", topk, 1), tuner)


def _tuner_of(kernel: Any) -> Any:
    """Triton's tuner, where the kernel has one; else the kernel."""
    return kernel() if isinstance(kernel, FunctionType) else kernel


def _compiled(screen: Pruner, template: Make, topk: int, tuner: Callable[[], Any]) -> Pruner:
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
