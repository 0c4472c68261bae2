"""`carver.search`: a tuner's whole space, searched by the predicted times of what is compiled of it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from ..arch.descriptor import Arch
from ..arch.devices import load
from ..base.errors import CarverError, ConfigError, ProblemError
from ..base.given import number, shown, takes
from ..base.table import is_watched, progress_bars
from ..compiled.facts import Facts
from ..compiled.inspect import Candidate, candidate
from ..compiled.inspect import facts_of as triton_facts
from ..compiled.pool import SECONDS, Compilers, Pool
from ..compiled.triton import called, function_of
from ..kernels.backends import BACKENDS
from ..ops.template import Template
from ..problem.problem import counted
from ..ranking.kernel import described
from ..ranking.ranking import Ranking, Search
from ..ranking.search import MOST, PATIENCE, Kernels, searched
from ..ranking.space import Choices, Config, Space
from .kernels import Made, front_end, makes

TOPK, HINTS = 10, 8
"""Configurations that are measured by default, and hints of a template that a search starts from."""
Measure = Callable[[Mapping[str, Any]], float | None]


@takes(ConfigError, besides="^(kernel|space|args|grid|block|seeds|measure|told)$")
def search(
    kernel: Any, space: Any, *, args: Any = None, arch: Arch | str | os.PathLike[str], grid: Any = None,
    block: Any = None, constants: Mapping[str, Any] | None = None, values: Mapping[str, Any] | None = None,
    seeds: Any = (), budget_s: float | None = None, most: int = MOST, patience: int = PATIENCE, seed: int = 0,
    topk: int = TOPK, measure: Measure | None = None, pool: Compilers | None = None, processes: int | None = None,
    seconds: float = SECONDS, progress: bool | None = None, told: Callable[[Search], None] | None = None,
) -> Ranking:  # fmt: skip
    """Search a space for the configurations with the shortest predicted times, and compile only a few of it.

    - `kernel`, `args`, `grid`, `block`, `constants`, `values`, `processes`, `seconds`: as `rank_kernel` takes them.
    - `space`: a dict of lists, a `carver.SearchSpace` with conditions, or configurations in any iterable: a generator,
      the list of a tool. Or an object with `candidates` and `member` (`carver.ranking.space.Space`).
    - `seeds`: configurations to begin with, or a template of the operator, whose hints are. A value that the space does
      not have becomes the nearest that it has.
    - It ends after `budget_s` seconds, when `most` are compiled, after `patience` without a gain, or when the space has
      no other. Equal seeds give equal searches; a search with more to spend goes on from the store.
    - `measure`: the time of a configuration on the device, in ms, None where it does not run. The first `topk` are
      measured and learnt from, then what that makes the first, until the first of the ranking was measured.
    - `told`: is given the search so far after each few.

    Returns a ranking of what was compiled, with `ranking.search`: each step, the best so far against what was compiled
    and seconds, why it ended, `plot()`. Interrupted, it returns what it has. Raises ConfigError for what fits no
    configuration, NoCandidates if none compiles and fits.
    """
    device = load(arch)
    for name, value in (("most", most), ("patience", patience), ("topk", topk)):
        counted(name, value, 1)
    for name, each in (("seconds", seconds), ("budget_s", budget_s)):
        if each is not None:
            number(name, each, ConfigError)
    args, constants, values = {} if args is None else args, constants or {}, values or {}
    members: Space = space if hasattr(space, "candidates") and hasattr(space, "member") else Choices.of(space)
    with ExitStack() as open_:
        kernels: Kernels
        if not makes(kernel) and front_end(kernel) is None:
            shared = pool or open_.enter_context(Pool(processes))
            kernels = _Triton(kernel, args, grid, constants, values, device, shared)
        else:
            kernels = Made(kernel, args, grid, block, device, constants, values, processes)
        bars = open_.enter_context(progress_bars(is_watched() if progress is None else progress, transient=True))
        step, drawn = bars.bar("searching", most), 0

        def each_batch(so_far: Search) -> None:
            nonlocal drawn
            for _ in so_far.steps[drawn:]:
                step()
            drawn = len(so_far.steps)
            if told is not None:
                told(so_far)

        ranking = searched(
            kernels, members, device, seeds=_seeds(seeds, device), most=most, patience=patience, seed=seed,
            budget_s=math.inf if budget_s is None else budget_s, seconds=seconds, told=each_batch,
        )  # fmt: skip
    return ranking if measure is None else measured(ranking, measure, topk)


def measured(ranking: Ranking, measure: Measure, topk: int) -> Ranking:
    """The ranking after its first were measured: `topk` of them, then whatever comes first by what they taught."""
    times: dict[int, float | None] = {}
    wanted = list(ranking[:topk])
    while wanted:
        new = {hint.index: measure(hint.config) for hint in wanted}
        times |= new
        ranking = ranking.learn(new)
        wanted = [hint for hint in ranking[:1] if hint.index not in times and len(times) < 2 * topk]
    assert ranking.search is not None
    return replace(ranking, search=replace(ranking.search, measured_ms=times))


def _seeds(seeds: Any, arch: Arch) -> list[Config]:
    """Configurations to begin with; hints of a template under all names that their keys go by."""
    if isinstance(seeds, Template):
        hints = (seeds if seeds.arch else seeds.with_arch(arch)).recommend_hints(HINTS, backend="triton")
        aliases = BACKENDS[hints.backend].aliases
        return [
            {name: value for key, value in hint.config.items() for name in (key, *aliases.get(key, ()))}
            for hint in hints
        ]  # fmt: skip
    if isinstance(seeds, str | Mapping) or not isinstance(seeds, Iterable):
        raise ConfigError(f"seeds are configurations in a list, or a template, got {shown(seeds)}")
    return [dict(each) for each in seeds]


class _Triton:
    """Facts of configurations of a `triton.jit` function."""

    backend = "triton"

    def __init__(
        self, kernel: Any, args: Any, grid: Any, constants: Mapping[str, Any], values: Mapping[str, Any], arch: Arch,
        pool: Compilers,
    ) -> None:  # fmt: skip
        function = function_of(kernel)
        self.name, self.source = function.__name__, function.cache_key
        self.arguments = described({} if callable(args) else {**args, **constants}, values)
        self._kernel, self._args, self._grid, self._constants = kernel, args, grid, constants
        self._values, self._arch, self._pool = values, arch, pool

    def _bound(self, config: Config) -> Candidate:
        args = called("the function args", self._args, config) if callable(self._args) else self._args
        return candidate(self._kernel, config, args, self._grid, self._arch, self._constants)

    def programs(self, config: Config) -> float:
        return math.prod(self._bound(config).grid)

    def facts(self, configs: Sequence[Config], seconds: float) -> list[Facts | CarverError]:
        bound = dict(enumerate(map(self._bound, configs)))
        how: dict[str, Any] = {"pool": self._pool, "seconds": seconds}
        try:
            return triton_facts(self._kernel, bound, self._arch, self._values, **how)
        except ProblemError as lost:  # of none of these can the program be followed; of others it may be
            return [lost] * len(configs)
