"""Spaces of configurations, named choices with conditions; and their search by predicted times: what is compiled next
is what the surrogate expects to gain most from.

Each round draws candidates from the space, some by chance and some near the best so far, and compiles the few that
promise most (`surrogate.promising`), as `rank_kernel` does with a list. What does not fit for a figure that it names,
shared memory, is tried again with as many stages as that figure allows. The order of a search follows from its seed and
from the space; a budget only says where it ends, so a longer search goes on from what a shorter one left in the store.
"""

from __future__ import annotations

import inspect
import itertools
import json
import math
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ..arch.descriptor import Arch
from ..base import given
from ..base.errors import CarverError, CompileError, ConfigError, nearest
from ..compiled.facts import Facts
from ..compiled.triton import plain_config
from ..cost.models.compiled import fits
from ..kernels.expr import parse
from .kernel import price_of, rank_facts
from .ranking import Ranking, Search, Step
from .surrogate import KINDS, STARTS, Axes, Price, axes_of, promising, spread

Config = dict[str, Any]
LISTED = 1000
"""A space of at most so many combinations is looked at whole."""
DRAWN, BESIDE = 150, 150
"""Of a larger one, the members by chance and the members near the best that one round looks at."""
MOVED = 3
"""Tunables in which a member near another differs from it, at most."""
TRIES = 60
"""Combinations that are tried for each member that is drawn: conditions may refuse most."""


class Space(Protocol):
    """What a search asks of a space. `kinds`: of tunables that are no numbers of a tile, as `surrogate.axes_of` takes
    them."""

    @property
    def kinds(self) -> Mapping[str, str]: ...

    def candidates(self, best: Sequence[Config], best_s: float, rng: random.Random) -> list[Config]:
        """Members to look at: some by chance, some near the `best` so far, whose first takes `best_s`. [s]"""

    def member(self, config: Mapping[str, Any]) -> Config | None:
        """The member of the space that is nearest to a configuration of somebody else's; None if none is near."""


class SearchSpace:
    """The product of the values of each tunable, without what constraints reject; enumerated when iterated.

        SearchSpace(block=[64, 128], stages=range(1, 4)).where(lambda block, stages: block * stages <= 256)
    """

    def __init__(self, **values: Iterable[Any]) -> None:
        if odd := [name for name, each in values.items() if not given.fits(each, "Iterable[Any]", {})]:
            raise ConfigError(f"tunable {odd[0]!r} takes a list of values, got {given.shown(values[odd[0]])}")
        self.values = {name: tuple(each) for name, each in values.items()}
        if empty := [name for name, each in self.values.items() if not each]:
            raise ConfigError(f"tunable {empty[0]!r} has no values")
        self.rules: tuple[Callable[..., bool] | str, ...] = ()
        self._checks: tuple[Callable[[Mapping[str, Any]], Any], ...] = ()

    @given.takes(ConfigError)
    def where(self, allowed: Callable[..., bool] | str) -> SearchSpace:
        """The same space with one more constraint: a function whose arguments are the tunables that it reads, or an
        expression of them in the arithmetic of declarations: "BLOCK_M * BLOCK_N <= 32768"."""
        if isinstance(allowed, str) and not parse(allowed).is_condition:
            raise ConfigError(f"a constraint compares, such as 'BLOCK_M * BLOCK_N <= 32768'; got {allowed!r}")
        wanted = sorted(parse(allowed).names) if isinstance(allowed, str) else [*inspect.signature(allowed).parameters]
        if unknown := [name for name in wanted if name not in self.values]:
            raise ConfigError(f"a constraint asks for {unknown[0]!r}; {nearest(unknown[0], self.values)}")
        narrowed = SearchSpace(**self.values)
        narrowed.rules = (*self.rules, allowed)
        narrowed._checks = (*self._checks, parse(allowed) if isinstance(allowed, str) else of_config(allowed, wanted))
        return narrowed

    def allows(self, config: Mapping[str, Any]) -> bool:
        """Whether all constraints hold."""
        return all(check(config) for check in self._checks)

    def __iter__(self) -> Iterator[Config]:
        for combination in itertools.product(*self.values.values()):
            config = dict(zip(self.values, combination, strict=True))
            if self.allows(config):
                yield config

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Choices:
    """A space of named choices: a `SearchSpace`, or a list of its members."""

    kinds = KINDS

    def __init__(self, space: SearchSpace | Sequence[Config]) -> None:
        """Raises ConfigError for a space without members."""
        self._space = space if isinstance(space, SearchSpace) else None
        self._listed: list[Config] | None = None
        if not isinstance(space, SearchSpace) or math.prod(map(len, space.values.values())) <= LISTED:
            self._listed = list(space)
        self._members = {_key(config) for config in self._listed or ()}
        if self._listed is not None and not self._listed:
            raise ConfigError("the space to search has no members")
        self._values: Mapping[str, Sequence[Any]] = space.values if isinstance(space, SearchSpace) else _values(space)

    @classmethod
    def of(cls, space: Any) -> Choices:
        """Of a dict of lists, a `SearchSpace`, or configurations in any iterable. Raises ConfigError."""
        if isinstance(space, Mapping):
            return cls(SearchSpace(**space))
        if isinstance(space, SearchSpace):
            return cls(space)
        if isinstance(space, str) or not isinstance(space, Iterable):
            raise ConfigError(
                f"a space is a dict of lists, a carver.SearchSpace or configurations, got {given.shown(space)}"
            )
        return cls([plain_config(config) for config in space])

    def __contains__(self, config: Mapping[str, Any]) -> bool:
        if self._listed is not None:
            return _key(config) in self._members
        assert self._space is not None
        inside = all(config.get(name) in values for name, values in self._values.items())
        return inside and self._space.allows(config)

    def candidates(self, best: Sequence[Config], best_s: float, rng: random.Random) -> list[Config]:
        if self._listed is not None and len(self._listed) <= LISTED:
            return self._listed
        if self._listed is not None:
            drawn = rng.sample(self._listed, DRAWN)
        else:
            made = ({name: rng.choice(v) for name, v in self._values.items()} for _ in range(TRIES * DRAWN))
            drawn = list(itertools.islice((config for config in made if config in self), DRAWN))
        if not drawn and not best:
            raise ConfigError(f"none of {TRIES * DRAWN:,} combinations meets the conditions: give a list of members")
        moved = (self._beside(rng.choice(best), rng) for _ in range(2 * BESIDE if best else 0))
        return drawn + list(itertools.islice((config for config in moved if config in self), BESIDE))

    def _beside(self, config: Config, rng: random.Random) -> Config:
        moved = dict(config)
        for name in rng.sample(list(moved), min(rng.randint(1, MOVED), len(moved))):
            values = self._values[name]
            at = values.index(moved[name])
            near = [i for i in (at - 1, at + 1) if 0 <= i < len(values)]
            if not isinstance(moved[name], int | float) or isinstance(moved[name], bool):
                near = [i for i in range(len(values)) if i != at]
            moved[name] = values[rng.choice(near)] if near else moved[name]
        return moved

    def member(self, config: Mapping[str, Any]) -> Config | None:
        """With the nearest value of each tunable, and the first one of those that it does not have."""
        found = {name: _nearest(values, config.get(name)) for name, values in self._values.items()}
        return found if found in self else None


def of_config(function: Callable[..., bool], wanted: Sequence[str]) -> Callable[[Mapping[str, Any]], bool]:
    return lambda config: function(*(config[name] for name in wanted))


def _key(config: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, repr(value)) for name, value in config.items()))


def _values(members: Iterable[Config]) -> dict[str, list[Any]]:
    """The values of each tunable that there are, numbers in order."""
    found: dict[str, dict[str, Any]] = {}
    for config in members:
        for name, value in config.items():
            found.setdefault(name, {}).setdefault(repr(value), value)
    every = {name: list(values.values()) for name, values in found.items()}
    return {name: sorted(v) if all(isinstance(x, int | float) for x in v) else v for name, v in every.items()}


def _nearest(values: Sequence[Any], wanted: Any) -> Any:
    if wanted in values or wanted is None:
        return values[0] if wanted is None else wanted
    numbers = [value for value in values if isinstance(value, int | float)]
    if numbers and isinstance(wanted, int | float):
        return min(numbers, key=lambda value: abs(math.log2(max(value, 0.5) / max(wanted, 0.5))))
    return values[0]


BATCH = 12
"""Configurations that are compiled at a time, whatever the machine: the order depends on nothing but the space."""
BEST = 5
"""Of the best so far, those near which candidates are looked for."""
MOST, PATIENCE = 60, 24
"""By default, the most that are compiled, and how many of them without a gain end a search."""
SHARE, LEAST_S = 4, 10.0
"""Of the time that is left one compilation may take this part, but so much in any case: one that never ends would have
all of it."""
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
        """Prices of these places, in batches of as many as the time that is left allows by what others took."""
        wanted = [place for place in places if place not in self.prices]
        while wanted:
            left = self.deadline - time.perf_counter()
            if left <= 0 and self.prices:
                return
            each_s = self.steps[-1].seconds / len(self.steps) if self.steps else 0.0
            count = max(1, int(min(BATCH, left / each_s))) if each_s else BATCH
            batch, wanted, most_s = wanted[:count], wanted[count:], max(left / SHARE, min(left, LEAST_S), 1.0)
            some = self.kernels.facts([self.configs[place] for place in batch], min(self.seconds, most_s))
            for place, facts in zip(batch, some, strict=True):
                self._told(place, facts, origin)
            self.told(Search(tuple(self.steps), "in progress"))

    def _told(self, place: int, facts: Facts | CarverError, origin: str) -> None:
        config, why = self.configs[place], str(facts) if isinstance(facts, CarverError) else fits(facts, self.arch)
        self.found[place], self.prices[place] = facts, price_of(facts, self.arch)
        seconds, took = self.prices[place].seconds, time.perf_counter() - self.began
        self.steps.append(Step(config, origin, took, None if seconds is None else 1e3 * seconds, why))
        if needed := re.search(r"needs ([\d,]+) bytes of shared memory", why):
            stages = config.get("num_stages")
            fit = int((stages or 0) * self.arch.smem_per_block_bytes / int(needed[1].replace(",", "")))
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

    @property
    def axes(self) -> Axes:
        return axes_of(self.configs, self.programs, self.arch.sm_count, self.space.kinds)

    def idle(self) -> int:
        """Steps since the last gain."""
        since, least = 0, math.inf
        for step in self.steps:
            gained = step.predicted_ms is not None and step.predicted_ms < least * (1.0 - GAIN)
            since = 0 if gained else since + 1
            least = min(least, step.predicted_ms or math.inf)
        return since


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
    return replace(ranking, search=Search(tuple(state.steps), ended))


def _explored(state: _State, seeds: Sequence[Config], most: int, patience: int, rng: random.Random) -> str:
    """Why it ended."""
    first = state.add([member for each in seeds if (member := state.space.member(each)) is not None])
    state.compile(first[:most], "seed")
    state.with_fewer(most)
    best_s = state.prices[state.best[0]].seconds or math.inf if state.best else math.inf
    drawn = state.add(state.space.candidates([], best_s, rng))
    far = [place for place in spread(state.axes, len(first) + STARTS) if place not in state.prices] if drawn else []
    state.compile(far[: min(STARTS, most - len(state.prices))], "spread")
    while True:
        if time.perf_counter() >= state.deadline:
            return "its budget of seconds, in which another run may look at others"
        if len(state.prices) >= most:
            return f"{most} were compiled"
        if state.idle() >= patience:
            return f"{patience} in a row brought no gain"
        if state.with_fewer(most):
            continue
        best = state.best
        best_s = state.prices[best[0]].seconds or math.inf if best else math.inf
        places = state.add(state.space.candidates([state.configs[place] for place in best], best_s, rng))
        chosen = promising(state.axes, state.prices, places, min(BATCH, most - len(state.prices)))
        if not chosen:
            return "all of the space was compiled"
        state.compile(chosen, "promising")


