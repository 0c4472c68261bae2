"""Kernels that Inductor writes itself: which of a kernel's few configurations runs, by machine code and with no timing.

Inductor gives a point-wise kernel, a reduction or a scan a short list by a hint of its size
(`torch._inductor.runtime.triton_heuristics`). All of it is compiled, and timed at the first launch; in deterministic
mode a reduction has one configuration, by a rule. Here the whole list is compiled as before, read and priced.

Private to PyTorch, read in 2.11 and run with 2.11 and 2.13: `CachingAutotuner.autotune_to_one_config`, `launchers`,
`_interpret_args_grid`, and `TritonKernel.inductor_meta_common`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..arch.descriptor import Arch
from ..base.errors import CarverError
from ..compiled.forks import Forks
from ..compiled.triton import Compiled, Target, plain_config
from ..compiled.within import compile_within
from ..ranking import pins
from ..ranking.pins import Pin
from ..ranking.ties import canonical

log = logging.getLogger("carver.pins")

SETTINGS: Mapping[str, Any] = {
    "deterministic": True, "max_autotune_pointwise": True, "coordinate_descent_tuning": False,
    "autotune_local_cache": False, "autotune_remote_cache": False,
}  # fmt: skip
"""Of Inductor: nothing else is timed, lists are written whole, and no result of earlier timings takes their place."""
REDUCTIONS = ("REDUCTION", "PERSISTENT_REDUCTION")
AFTER = ("_release_static_launchers_except", "_prune_compile_results_to_launcher")
"""What later versions do with the launchers that are not taken."""


@dataclass
class Kernels:
    """What was taken for each kernel, and why the others took Inductor's own."""

    arch: Arch
    margin: float | None = None
    picks: dict[tuple[str, str], Pin] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def hash(self) -> int:
        """Of which configuration each kernel took, below 2^62: equal on ranks that chose alike."""
        return int(pins.picks_hash(self.picks.values()), 16) >> 2

    def take(self, tuner: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """One of the launchers of Inductor's tuner, for these arguments of a launch."""
        listed = [launcher.config for launcher in tuner.launchers]
        try:
            pin = self._pick(tuner, listed, args, named)
        except Exception as error:  # in the middle of somebody's training: what Inductor takes with no timing
            why = str(error) if isinstance(error, CarverError) else f"{type(error).__name__}: {error}"
            self.refused[tuner.fn.__name__] = why = next(iter(why.splitlines()), "")
            log.info("%s takes Inductor's own configuration: %s", tuner.fn.__name__, why)
            default = _default(tuner, listed)
            return next(launcher for launcher in tuner.launchers if launcher.config is default)
        self.picks[pin.place] = pin
        log.info("%s", pin)
        taken = canonical(pin.config)
        return next(launcher for launcher in tuner.launchers if canonical(plain_config(launcher.config)) == taken)

    def _pick(self, tuner: Any, listed: Sequence[Any], args: Sequence[Any], named: Mapping[str, Any]) -> Pin:
        from torch._inductor.runtime import triton_helpers

        helpers: Any = triton_helpers
        if tuner.fn.fn is None:  # it was compiled in another process
            tuner.fn = tuner._reload_kernel().fn
        target, given = Target.of(self.arch), dict(zip(_parameters(tuner), args, strict=False)) | dict(named)
        extra = tuner.inductor_meta.get("extra_launcher_args", ())

        def build(config: Any) -> Compiled:
            helpers.set_driver_to_gpu = lambda: None  # in a copy of this process, which has no GPU
            return compile_within(lambda: tuner._precompile_config(config), target)

        def grid(known: Mapping[str, Any]) -> tuple[int, ...]:
            config = next(c for c in listed if all(known.get(name) == value for name, value in c.kwargs.items()))
            return tuple(tuner._interpret_args_grid(tuple(args), config)[1])

        own = {name: value for name, value in given.items() if name not in extra}
        return pins.pick(
            tuner.fn, listed, args=own, grid=grid, arch=self.arch, default=_default(tuner, listed), margin=self.margin,
            key={**pins.default_key(own), "source": tuner.fn.cache_key[:16]},  # names of kernels are used again
            pool=lambda ordered: Forks(lambda place: build(ordered[place]), self.arch),
        )  # fmt: skip

    @contextmanager
    def chosen(self) -> Iterator[None]:
        """Inside, kernels that Inductor writes are chosen here."""
        from torch._inductor import config
        from torch._inductor.codegen import triton
        from torch._inductor.runtime import triton_heuristics

        writer: Any = triton.TritonKernel
        tuners: Any = triton_heuristics.CachingAutotuner
        before, told = tuners.autotune_to_one_config, writer.__dict__["inductor_meta_common"]
        common: Callable[[], dict[str, Any]] = writer.inductor_meta_common

        def autotune_to_one_config(tuner: Any, *args: Any, **named: Any) -> None:
            launcher = self.take(tuner, args, named)
            for name in AFTER:
                if (after := getattr(tuner, name, None)) is not None:
                    after(launcher)
            tuner.launchers = [launcher]

        def whole_lists() -> dict[str, Any]:
            """What is written beside a kernel: with these two, a reduction's list has one configuration."""
            return {**common(), "deterministic": False, "are_deterministic_algorithms_enabled": False}

        tuners.autotune_to_one_config = autotune_to_one_config
        writer.inductor_meta_common = staticmethod(whole_lists)
        try:
            with config.patch(dict(SETTINGS)):
                yield
        finally:
            tuners.autotune_to_one_config = before
            writer.inductor_meta_common = told


def _parameters(tuner: Any) -> list[str]:
    """Names of what a launch gives, in order: what the kernel declares to be constant is not among them."""
    constants = {name for name, p in zip(tuner.fn.arg_names, tuner.fn.params, strict=True) if p.is_constexpr}
    names = [name for name in tuner.triton_meta["signature"] if name not in constants]
    return [*names, *tuner.inductor_meta.get("extra_launcher_args", ())]


def _default(tuner: Any, listed: Sequence[Any]) -> Any:
    """What Inductor takes where it times nothing: the rule of its deterministic mode for reductions, else the first."""
    from torch._inductor.runtime import triton_heuristics

    if len(listed) > 1 and tuner.heuristic_type.name in REDUCTIONS and "XBLOCK" in listed[0].kwargs:
        meta = {**tuner.inductor_meta, "deterministic": True}
        [config] = triton_heuristics.filter_reduction_configs_for_determinism(meta, list(listed))
        return config
    return listed[0]
