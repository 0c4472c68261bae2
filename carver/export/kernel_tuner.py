"""Kernel Tuner: arguments of `tune_kernel`.

Tried with Kernel Tuner 1.5.0. Its `x0` is one configuration, or refused; a strategy made here tries every hint first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..base.errors import ConfigError, nearest
from ..base.given import takes
from ..kernels.backends import from_kernel_tuner
from ..ranking.hint import Hint
from . import check_one_space, filled, imported, renamed, values_of

from_config = from_kernel_tuner

_NO_START = ("random_sample", "bayes_opt", "brute_force", "pymoo", "adaptive_tabu_greywolf", "hybrid_vndx", "skopt")
"""Strategies that refuse a starting point, or need another package to take one."""


@takes(ConfigError)
def configs(
    hints: Iterable[Hint], names: Mapping[str, str] | None = None, fixed: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """The hints in rank order as dicts. `names` maps carver's keys to the kernel's own; `fixed`: other parameters."""
    found = [{**renamed(config, names), **(fixed or {})} for config in filled(hints)]
    if not found:
        raise ConfigError("no hints to export to Kernel Tuner")
    check_one_space(found, "Kernel Tuner")
    return found


@takes(ConfigError)
def tune_params(hints: Iterable[Hint], **how: Any) -> dict[str, list[Any]]:
    """The values that the hints use, sorted, for `tune_kernel(tune_params=...)`. Their product holds more than the
    hints; `restriction` cuts it down to them. `how` as for `configs`."""
    return values_of(configs(hints, **how))


@takes(ConfigError)
def restriction(hints: Iterable[Hint], **how: Any) -> str:
    """For `tune_kernel(restrictions=[...])`: nothing but the hints is compiled. `how` as for `configs`.

    An expression and not a function: a function of one dict works there only while it is the only restriction.
    """
    found = configs(hints, **how)
    return " or ".join("(" + " and ".join(f"{key} == {value!r}" for key, value in c.items()) + ")" for c in found)


@takes(ConfigError)
def x0(hints: Iterable[Hint], tune_params: Mapping[str, Sequence[Any]], **how: Any) -> list[Any]:
    """The first hint that lies in the space, for `strategy_options={"x0": ...}`. A list: a tuple passes the check
    there, and then fails in the crossover of the genetic algorithm."""
    return list(seeds(hints, tune_params, **how)[0])


@takes(ConfigError)
def seeds(hints: Iterable[Hint], tune_params: Mapping[str, Sequence[Any]], **how: Any) -> list[tuple[Any, ...]]:
    """The hints as tuples in the order of `tune_params`, those outside its values left out.

    Raises ConfigError where a key is missing, or no hint lies in the space.
    """
    found = configs(hints, **how)
    if missing := tune_params.keys() - found[0].keys():
        word = min(missing)
        raise ConfigError(f"the hints have no {word!r}; {nearest(word, found[0])}; or say what it is in `fixed`")
    inside = [
        tuple(config[key] for key in tune_params)
        for config in found
        if all(config[key] in values for key, values in tune_params.items())
    ]
    if not inside:
        raise ConfigError("no hint lies in the space of tune_params; rank that space: template.rank(configs, ...)")
    return inside


class SeededStrategy:
    """Tries configurations in a fixed order, then hands the rest of the budget to another strategy, which starts from
    them: from the best where it takes one start, with the best of them as its first draws where it has a population.
    Pass it as `tune_kernel(strategy=...)`."""

    def __init__(self, first: Sequence[tuple[Any, ...]], then: str | None = "genetic_algorithm") -> None:
        self.first = list(first)
        self.then = then

    def tune(self, searchspace: Any, runner: Any, tuning_options: Any) -> list[dict[str, Any]]:
        from kernel_tuner.interface import strategy_map
        from kernel_tuner.strategies.common import CostFunc
        from kernel_tuner.util import StopCriterionReached

        if self.then is not None and self.then not in strategy_map:
            raise ConfigError(f"Kernel Tuner has no strategy {self.then!r}; {nearest(self.then, strategy_map)}")
        cost = CostFunc(searchspace, tuning_options, runner, snap=False)
        timed: list[tuple[float, tuple[Any, ...]]] = []
        try:
            for config in self.first:
                if searchspace.is_param_config_valid(config):
                    timed.append((cost(config), config))
        except StopCriterionReached:
            return list(cost.results)
        results = list(cost.results)
        if self.then is not None:
            best = [config for _, config in sorted(timed)]
            if best and self.then not in _NO_START:
                tuning_options.strategy_options["x0"] = list(best[0])
            results += strategy_map[self.then].tune(_Drawn(searchspace, best[1:]), runner, tuning_options)
        return results


class _Drawn:
    """A search space whose first sample of several begins with given configurations, up to half of it."""

    def __init__(self, space: Any, first: Sequence[tuple[Any, ...]]) -> None:
        self._space, self._first = space, list(first)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._space, name)

    def get_random_sample(self, num_samples: int) -> list[tuple[Any, ...]]:
        drawn = list(self._space.get_random_sample(num_samples))
        if num_samples > 1 and self._first:
            given, self._first = self._first[: num_samples // 2], []
            # the first place is where strategies put x0
            drawn = [drawn[0], *given, *(d for d in drawn[1:] if d not in given)][:num_samples]
        return drawn


@takes(ConfigError)
def strategy(
    hints: Iterable[Hint], tune_params: Mapping[str, Sequence[Any]], then: str | None = "genetic_algorithm", **how: Any
) -> SeededStrategy:
    """A strategy that tries the hints in rank order and then hands over to `then`; None stops there."""
    imported("kernel_tuner", "Kernel Tuner", "kernel-tuner==1.5.0")
    return SeededStrategy(seeds(hints, tune_params, **how), then)


@takes(ConfigError)
def arguments(
    hints: Iterable[Hint], tune_params: Mapping[str, Sequence[Any]] | None = None,
    then: str | None = "genetic_algorithm", **how: Any,
) -> dict[str, Any]:  # fmt: skip
    """`tune_params` and `strategy` for `tune_kernel`: the hints in rank order, then another strategy."""
    space = tune_params or values_of(configs(hints, **how))
    return {"tune_params": dict(space), "strategy": strategy(hints, space, then, **how)}
