"""Spaces of configurations: named choices with conditions, and where a search takes its candidates from."""

from __future__ import annotations

import inspect
import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from ..base.errors import ConfigError, nearest
from ..base.given import fits, shown
from ..compiled.triton import plain_config
from ..kernels.expr import parse

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
    """What a search asks of a space. `kinds`: of tunables that are none of numbers of a tile, warps and stages, as
    `surrogate.axes_of` takes them."""

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
        if odd := [name for name, each in values.items() if not fits(each, "Iterable[Any]", {})]:
            raise ConfigError(f"tunable {odd[0]!r} takes a list of values, got {shown(values[odd[0]])}")
        self.values = {name: tuple(each) for name, each in values.items()}
        if empty := [name for name, each in self.values.items() if not each]:
            raise ConfigError(f"tunable {empty[0]!r} has no values")
        self.rules: tuple[Callable[..., bool] | str, ...] = ()
        self._checks: tuple[tuple[Callable[..., bool], tuple[str, ...]], ...] = ()

    def where(self, allowed: Callable[..., bool] | str) -> SearchSpace:
        """The same space with one more constraint: a function whose arguments are the tunables that it reads, or an
        expression of them in the arithmetic of declarations: "BLOCK_M * BLOCK_N <= 32768"."""
        check, wanted = _expression(allowed) if isinstance(allowed, str) else (allowed, _parameters(allowed))
        if unknown := [name for name in wanted if name not in self.values]:
            raise ConfigError(f"a constraint asks for {unknown[0]!r}; {nearest(unknown[0], self.values)}")
        narrowed = SearchSpace(**self.values)
        narrowed.rules = (*self.rules, allowed)
        narrowed._checks = (*self._checks, (check, wanted))
        return narrowed

    def allows(self, config: Mapping[str, Any]) -> bool:
        """Whether all constraints hold."""
        return all(check(*(config[name] for name in wanted)) for check, wanted in self._checks)

    def __iter__(self) -> Iterator[Config]:
        for combination in itertools.product(*self.values.values()):
            config = dict(zip(self.values, combination, strict=True))
            if self.allows(config):
                yield config

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Choices:
    """A space of named choices: a `SearchSpace`, or a list of its members."""

    kinds: Mapping[str, str] = {}

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
                f"a space is a dict of lists, a carver.SearchSpace or configurations, got {shown(space)}"
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


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


def _expression(text: str) -> tuple[Callable[..., bool], tuple[str, ...]]:
    expression = parse(text)
    names = tuple(sorted(expression.names))
    return lambda *values: bool(expression(dict(zip(names, values, strict=True)))), names


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
