"""In the places of Helion's own: an autotuner that measures what is predicted to be fast, and a provider that gives
Helion's searches predicted times. Needs Helion; tried with 1.5.1.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from helion import exc
from helion.autotuner import cache_classes
from helion.autotuner.base_search import BaseSearch
from helion.autotuner.benchmark_provider import BenchmarkProvider, BenchmarkResult, LocalBenchmarkProvider
from helion.autotuner.benchmark_worker import BenchmarkWorker

from ..arch.descriptor import Arch
from ..arch.devices import load
from ..base.errors import ConfigError
from ..base.given import takes
from ..problem.problem import counted
from ..ranking.search import MOST
from .helion import BUDGET_S, HelionKernels, config_of, flat, priced, search

TOPK = 8
"""Configurations that Helion measures by default."""


@takes(ConfigError)
def autotuner(
    topk: int = TOPK, *, arch: Arch | str = "auto", budget_s: float = BUDGET_S, most: int = MOST,
    processes: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """For `@helion.kernel(autotuner_fn=autotuner())`: the space is searched by predicted times, and Helion measures the
    first `topk` and its default by its own provider, with its accuracy check, and fills its cache.

    With `topk=0` nothing is measured, and no GPU is needed: the first of the search is taken.
    """
    counted("topk", topk, 0)
    how = {"arch": arch, "budget_s": budget_s, "most": most, "processes": processes}

    def made(bound: Any, args: Sequence[Any], **kwargs: Any) -> Any:
        def fresh() -> PricedSearch:
            return PricedSearch(bound, args, topk, how, **kwargs)

        if not topk:  # its cache is for what was measured, whoever asks
            return fresh()
        return cache_classes[bound.settings.autotune_cache](fresh(), autotuner_factory=fresh)

    return made


def at_prices(own: Any, arch: Arch | str = "auto", processes: int | None = None) -> Any:
    """A search of Helion's that sees predicted times in place of measured ones, and runs nothing:
    `at_prices(LFBOTreeSearch(bound, args), "h100").autotune(skip_cache=True)`."""
    own._benchmark_provider_cls = priced_provider(arch, processes)  # which only some of them take as an argument
    return own


def priced_provider(arch: Arch | str = "auto", processes: int | None = None) -> Any:
    """A benchmark provider of Helion's, a class of `BenchmarkProvider`, that gives predicted times."""
    return type("PricedProvider", (PricedProvider,), {"arch": arch, "processes": processes})


class PricedSearch(BaseSearch):  # type: ignore[misc, unused-ignore]
    """What `autotuner` gives Helion."""

    def __init__(self, bound: Any, args: Sequence[Any], topk: int, how: dict[str, Any], **kwargs: Any) -> None:
        if not topk:
            kwargs["benchmark_provider_cls"] = priced_provider(how["arch"], how["processes"])
        super().__init__(bound, args, **kwargs)
        self._topk, self._how = topk, how

    def _autotune(self) -> Any:
        """The fastest of the first few and of Helion's default, as measured."""
        provider = self.benchmark_provider
        if self._topk and isinstance(provider, LocalBenchmarkProvider) and provider._subprocess_benchmark_enabled():
            # Helion measures in a process that takes seconds to import PyTorch: it does so while the search compiles
            provider._benchmark_worker = provider._benchmark_worker or BenchmarkWorker(device=None)
            if not provider._benchmark_worker.alive():
                provider._benchmark_worker._start()
        ranking = search(self.kernel, self.args, seed=self.settings.autotune_random_seed, **self._how)
        self.log(str(ranking.search))
        first = [config_of(hint.config) for hint in ranking[: max(self._topk, 1)]]
        if not self._topk:
            return first[0]
        results = self.benchmark_batch([*first, self.config_spec.default_config()])
        best = min(results, key=lambda result: result.perf)
        if math.isinf(best.perf):
            raise exc.NoConfigFound
        return best.config


class PricedProvider(BenchmarkProvider):  # type: ignore[misc, unused-ignore]
    """Predicted times in place of measured ones. The functions of its results give their
    price and run nothing."""

    arch: Arch | str = "auto"
    processes: int | None = None
    mutated_arg_indices: Sequence[int] = ()

    def __init__(
        self, kernel: Any, settings: Any, config_spec: Any, args: Sequence[Any], log: Any, autotune_metrics: Any
    ) -> None:
        self._arch, self._metrics = load(self.arch), autotune_metrics
        self._kernels = HelionKernels(kernel, args, self._arch, self.processes)
        settings.autotune_benchmark_fn = _prices  # by which Helion looks at finalists again

    def benchmark(
        self, configs: list[Any], *, desc: str = "", raise_if_no_viable_config: bool = True
    ) -> list[BenchmarkResult]:
        began = time.perf_counter()
        found = priced(self._kernels, [flat(config) for config in configs], self._arch)
        self._metrics.num_configs_tested += len(configs)
        self._metrics.num_compile_failures += sum(map(math.isinf, found))
        took = (time.perf_counter() - began) / max(len(configs), 1)
        return [
            BenchmarkResult(
                config, partial(_price, ms), ms, "error" if math.isinf(ms) else "ok", took, time.perf_counter()
            )
            for config, ms in zip(configs, (1e3 * seconds for seconds in found), strict=True)
        ]

    def benchmark_isolated(self, fns: list[Callable[..., Any]], **how: Any) -> list[Any] | None:
        return _prices(fns)

    def setup(self) -> None:
        pass

    def cleanup(self) -> None:
        pass


def _price(ms: float, *args: Any, **kwargs: Any) -> float:
    """In the place of a kernel that runs; Helion calls it within functions of its own."""
    return ms


def _prices(fns: Sequence[Callable[..., float]], **how: Any) -> list[float]:
    return [fn() for fn in fns]
