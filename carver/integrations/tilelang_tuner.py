"""TileLang's `autotune`, and `AutoTuner.from_kernel(...).run()`: its list ranked, the first few compiled and timed.

Copies of the process fill TileLang's cache of cubins, out of which it builds what it times. The key of its own results
is made of the whole list, so that they are found with and without this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..compiled.binary import Binary
from . import tilelang
from .enable import Chosen, Enabled, replaced
from .kernels import rank_made


def patch(log: Enabled) -> Callable[[], None]:
    """Replace the step of TileLang's `AutoTuner` that compiles, which comes after its caches."""
    from tilelang.autotuner.tuner import _PASS_CONFIGS_KEY, AutoTuner

    prepare, run = AutoTuner._prepare_compile_execution, AutoTuner.run

    def _prepare_compile_execution(
        self: Any, config_args: list[dict[str, Any]], grouped_compile_active: bool, group_compile_size: int,
        compile_func: Any, elaborate_func: Any,
    ) -> Any:  # fmt: skip
        listed = list(self.configs)

        def make(place: int) -> Binary:
            config = dict(config_args[place])
            own = config.pop(_PASS_CONFIGS_KEY, None) or {}
            options = {**(self.compile_args.pass_configs or {}), **own}
            return tilelang.lowered(elaborate_func(**config), self.compile_args.target, options, {})

        def rank() -> Chosen[int]:
            ranking = rank_made(name, log.device(), listed, make, backend="tilelang")
            return Chosen(ranking.indices[: log.topk], dict(ranking[0].config))

        name = getattr(self.fn, "__name__", "kernel")
        places = log.first(name, range(len(listed)), rank)
        config_args[:] = [config_args[place] for place in places]
        self.configs = [listed[place] for place in places]  # by whose places it reports
        return prepare(
            self, config_args, grouped_compile_active, group_compile_size, compile_func, elaborate_func
        )

    def run_all(self: Any, *args: Any, **kwargs: Any) -> Any:
        listed = self.configs
        try:
            return run(self, *args, **kwargs)
        finally:
            self.configs = listed

    return replaced(AutoTuner, _prepare_compile_execution=_prepare_compile_execution, run=run_all)
