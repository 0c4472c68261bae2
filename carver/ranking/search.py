"""Search of a space by predicted times: what is compiled next is what the surrogate expects to gain most from.

Each round draws candidates from the space, some by chance and some near the best so far, and compiles the few that
promise most (`surrogate.promising`), as `rank_kernel` does with a list. What does not fit for a figure that it names,
shared memory, is tried again with as many stages as that figure allows. The order of a search follows from its seed and
from the space; a budget only says where it ends, so a longer search goes on from what a shorter one left in the store.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ..arch.descriptor import Arch
from ..base.errors import CarverError, CompileError
from ..compiled.facts import Facts
from ..cost.models.compiled import fits, price_compiled
from .kernel import rank_facts
from .ranking import Ranking, Search, Step
from .space import Config, Space
from .surrogate import STARTS, Price, axes_of, promising, spread

BATCH = 12
"""Configurations that are compiled at a time, whatever the machine: the order depends on nothing but the space."""
BEST = 5
"""Of the best so far, those near which candidates are looked for."""
MOST, PATIENCE = 60, 24
"""By default, the most that are compiled, and how many of them without a gain end a search."""
GAIN = 0.005
"""A shorter time by this share is a gain."""


class Kernels(Protocol):
    """What a search asks of a kernel: facts of configurations, however they are compiled."""

    @property
    def name(self) -> str: ...
    @property
    def backend(self) -> str: ...
    @property
    def source(self) -> str:
        """An identifier of its code."""

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Sizes and kinds of its arguments, as `described` gives them."""

    def programs(self, config: Config) -> float:
        """Of the grid, known without compiling; 1 where it is not. Raises CarverError for what cannot be launched."""

    def facts(self, configs: Sequence[Config], seconds: float) -> list[Facts | CarverError]:
        """Each compiled within so many seconds, or why it is not."""


@dataclass
class _State:
    """What is known in the middle of a search."""

    kernels: Kernels
    space: Space
    arch: Arch
    deadline: float
    seconds: float
    told: Callable[[Search], None]
    began: float = field(default_factory=time.perf_counter)
    configs: list[Config] = field(default_factory=list)
    """All that were candidates; those of `prices` were compiled."""
    programs: list[float] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    """By configuration as text; -1 for what cannot be launched."""
    prices: dict[int, Price] = field(default_factory=dict)
    found: dict[int, Facts | CarverError] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    fewer: list[int] = field(default_factory=list)

    def add(self, configs: Sequence[Config]) -> list[int]:
        """Places of those that can be launched, each once."""
        out = []
        for config in configs:
            text = json.dumps(config, sort_keys=True, default=str)
            if text not in self.places:
                try:
                    programs = self.kernels.programs(config)
                except CompileError:
                    self.places[text] = -1
                    continue
                self.places[text] = len(self.configs)
                self.configs.append(config)
                self.programs.append(programs)
            out.append(self.places[text])
        return [place for place in dict.fromkeys(out) if place >= 0]

    def compile(self, places: Sequence[int], origin: str) -> None:
        """Prices of these places, in batches, until there is no time left."""
        wanted = [place for place in places if place not in self.prices]
        for at in range(0, len(wanted), BATCH):
            left = self.deadline - time.perf_counter()
            if left <= 0 and self.prices:
                return
            batch = wanted[at : at + BATCH]
            some = self.kernels.facts([self.configs[place] for place in batch], min(self.seconds, max(left, 1.0)))
            for place, facts in zip(batch, some, strict=True):
                self._told(place, facts, origin)
            self.told(self.search("in progress"))

    def _told(self, place: int, facts: Facts | CarverError, origin: str) -> None:
        config, why = self.configs[place], str(facts) if isinstance(facts, CarverError) else fits(facts, self.arch)
        seconds = None
        if not why and isinstance(facts, Facts):
            seconds = float(price_compiled([facts], self.arch)[1].seconds[0])
        self.found[place] = facts
        self.prices[place] = Price(seconds, repr(facts.identity) if isinstance(facts, Facts) else "")
        took = time.perf_counter() - self.began
        self.steps.append(Step(config, origin, took, None if seconds is None else 1e3 * seconds, why))
        if isinstance(facts, Facts) and facts.shared_bytes > self.arch.smem_per_block_bytes:
            stages = config.get("num_stages")
            fit = int((stages or 0) * self.arch.smem_per_block_bytes / facts.shared_bytes)
            if fit >= 1 and (fewer := self.space.member({**config, "num_stages": fit})):
                self.fewer += self.add([fewer] if (fewer.get("num_stages") or 0) < (stages or 0) else [])

    def with_fewer(self, most: int) -> bool:
        """Compile what has fewer stages and is not yet compiled, `most` in all; whether there was any."""
        fewer = [place for place in dict.fromkeys(self.fewer) if place not in self.prices]
        self.compile(fewer[: most - len(self.prices)], "fewer stages")
        return bool(fewer)

    @property
    def best(self) -> list[int]:
        """Places of the best so far, best first."""
        priced = {place: price.seconds for place, price in self.prices.items() if price.seconds is not None}
        return sorted(priced, key=lambda place: (priced[place], place))[:BEST]

    def idle(self) -> int:
        """Steps since the last gain."""
        since, least = 0, math.inf
        for step in self.steps:
            gained = step.predicted_ms is not None and step.predicted_ms < least * (1.0 - GAIN)
            since = 0 if gained else since + 1
            least = min(least, step.predicted_ms or math.inf)
        return since

    def search(self, ended: str) -> Search:
        return Search(tuple(self.steps), ended)


def searched(
    kernels: Kernels, space: Space, arch: Arch, *, seeds: Sequence[Config] = (), budget_s: float = math.inf,
    most: int = MOST, patience: int = PATIENCE, seed: int = 0, seconds: float,
    told: Callable[[Search], None] = lambda search: None,
) -> Ranking:  # fmt: skip
    """The ranking of what was compiled of a space, with `search`: how it came about.

    `told` is given what there is after each batch. Interrupted, it returns what it has, if anything was compiled.
    Raises NoCandidates if nothing compiles and fits.
    """
    state = _State(kernels, space, arch, time.perf_counter() + budget_s, seconds, told)
    try:
        ended = _explored(state, seeds, most, patience, random.Random(seed))
    except KeyboardInterrupt:
        if not state.best:
            raise
        ended = "interrupted"
    places = list(state.found)
    ranking = rank_facts(
        kernels.name, arch, [state.configs[place] for place in places], state.found.values(), backend=kernels.backend,
        source=kernels.source, arguments=kernels.arguments,
    )  # fmt: skip
    return replace(ranking, search=state.search(ended))


def _explored(state: _State, seeds: Sequence[Config], most: int, patience: int, rng: random.Random) -> str:
    """Why it ended."""
    first = state.add([member for each in seeds if (member := state.space.member(each)) is not None])
    state.compile(first[:most], "seed")
    state.with_fewer(most)
    best_s = state.prices[state.best[0]].seconds or math.inf if state.best else math.inf
    drawn = state.add(state.space.candidates([], best_s, rng))
    far = spread(_axes(state), len(first) + STARTS) if drawn else []
    far = [place for place in far if place not in state.prices]
    state.compile(far[: min(STARTS, most - len(state.prices))], "spread")
    while True:
        if time.perf_counter() >= state.deadline:
            return "its budget of seconds"
        if len(state.prices) >= most:
            return f"{most} were compiled"
        if state.idle() >= patience:
            return f"{patience} in a row brought no gain"
        if state.with_fewer(most):
            continue
        best = state.best
        best_s = state.prices[best[0]].seconds or math.inf if best else math.inf
        places = state.add(state.space.candidates([state.configs[place] for place in best], best_s, rng))
        chosen = promising(_axes(state), state.prices, places, min(BATCH, most - len(state.prices)))
        if not chosen:
            return "all of the space was compiled"
        state.compile(chosen, "promising")


def _axes(state: _State) -> Any:
    return axes_of(state.configs, state.programs, state.arch.sm_count, state.space.kinds)
