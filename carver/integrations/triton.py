"""Hints inside other tools' own tuners, where carver is called back: short names for what `carver.export` has."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FunctionType
from typing import Any

from ..arch.descriptor import Arch
from ..arch.devices import load
from ..base.errors import ConfigError
from ..compiled.triton import without_tuner
from ..export.triton import Feedback, Make, Pruner, device, make, pruner
from ..export.triton import perf_model as triton_perf_model
from ..problem.problem import counted

__all__ = ["triton_perf_model", "triton_pruner"]


def triton_pruner(
    template: Make | None = None, topk: int = 10, names: Mapping[str, str] | None = None, ignore: Sequence[str] = (),
    propose: bool = False, compiled: int | None = None, kernel: Any = None, arch: Arch | str = "auto",
) -> Pruner:
    """For `triton.autotune(configs, key, prune_configs_by=carver.triton_pruner(topk=5))`, or in a dict:
    `{"early_config_prune": carver.triton_pruner(topk=5)}`.

    Keeps the `topk` configurations of the kernel's own list that are predicted fastest, and the first of the list. They
    are predicted by their machine code: all are compiled, in parallel, for `arch`, by default the GPU of this machine.

    With a `template` they are predicted by the model of that operator, and nothing is compiled. It is an operator with
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
    if template is None:
        if names or ignore or propose or compiled is not None:
            raise ConfigError("names, ignore, propose and compiled go with a template: triton_pruner(op, ...)")
        return Pruner(_by_code(counted("topk", topk, 1), lambda given: load(arch), tuner), by_code=True)
    if arch != "auto":
        raise ConfigError("a template has its own device: op.with_arch(...)")
    if compiled is None:
        return pruner(template, topk, names, ignore, propose, tuner)
    if tuner is None:
        raise ConfigError("compiled= needs the kernel: triton_pruner(..., kernel=lambda: matmul)")
    screen = pruner(template, compiled, names, ignore, propose)
    return Pruner(_by_code(counted("topk", topk, 1), lambda given: device(make(template, given)), tuner, screen))


def _tuner_of(kernel: Any) -> Any:
    """Triton's tuner, where the kernel has one; else the kernel."""
    return kernel() if isinstance(kernel, FunctionType) else kernel


def _by_code(
    topk: int, target: Callable[[Mapping[str, Any]], Arch], tuner: Callable[[], Any] | None,
    screen: Pruner | None = None,
) -> Callable[..., list[Any]]:  # fmt: skip
    """Keeps what is first by machine code, of the list or of what `screen` leaves of it. `target`: the device, by the
    arguments of the call."""
    from .autotune import ranked

    feedback = Feedback()

    def early_config_prune(configs: list[Any], named_args: Mapping[str, Any], **kwargs: Any) -> list[Any]:
        own = tuner() if tuner else _asking()
        given = {**named_args, **kwargs}
        first = configs if screen is None else screen(configs, named_args, **kwargs)
        return ranked(without_tuner(own), first, given, target(given), topk, tuner=own, feedback=feedback)[0]

    return early_config_prune


def _asking() -> Any:
    """Triton's tuner that called the pruner, which it does not hand over. Raises ConfigError where another called."""
    frame = sys._getframe(2)
    while frame is not None:
        if hasattr(own := frame.f_locals.get("self"), "prune_configs"):
            return own
        frame = frame.f_back  # type: ignore[assignment]
    raise ConfigError("no triton.autotune asks: name the kernel, triton_pruner(kernel=lambda: matmul)")
