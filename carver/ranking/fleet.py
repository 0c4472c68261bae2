"""One operator or kernel on several devices: the best configuration of each, and what one for all would lose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import CarverError, ConfigError, NoCandidates
from ..problem.problem import Problem
from .declared import declared_in
from .hint import Hint
from .rank import rank
from .ranking import Ranking
from .recommend import offered_kernels, recommend

CONSIDERED = 32
"""First candidates of each device among which one configuration for all is looked for."""
COMMON = "triton"
"""Backend of one configuration for devices whose own backends differ."""


@dataclass(frozen=True)
class OneForAll:
    """The configuration that loses least in the mean over all devices, of those that run on all."""

    backend: str
    config: Mapping[str, Any]
    times_ms: Mapping[str, float]
    """By device."""
    losses: Mapping[str, float]
    """By device: its time over that of the best configuration of the same backend there, minus 1."""

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.losses.values())))

    @property
    def worst(self) -> str:
        """The device that loses most."""
        return max(self.losses, key=self.losses.__getitem__)


@dataclass(frozen=True)
class Fleet:
    """Rankings by device, the device with the shortest time first."""

    rankings: Mapping[str, Ranking]
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Devices that have no candidate, and why."""
    one: OneForAll | None = None
    """None if no configuration runs on all devices, or there is a single one."""

    @property
    def best(self) -> list[Hint]:
        return [ranking[0] for ranking in self.rankings.values()]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        one = self.one
        return {
            "hints": [hint.to_dict() for hint in self.best], "left_out": dict(self.left_out),
            "one_for_all": None if one is None else {
                "backend": one.backend, "config": dict(one.config), "times_ms": dict(one.times_ms),
                "losses": dict(one.losses), "mean_loss": one.mean,
            },
        }  # fmt: skip


def recommend_over(problem: Problem, archs: Sequence[Arch], backend: str | None = None) -> Fleet:
    """`recommend` on each device. Raises NoCandidates if none of them has a candidate."""
    rankings, left_out = _each(archs, lambda arch: recommend(problem, arch, CONSIDERED, backend))
    common = backend or _common({ranking.backend for ranking in rankings.values()})
    listed = rankings
    if any(ranking.backend != common for ranking in rankings.values()):
        listed, _ = _each([ranking.arch for ranking in rankings.values()],
                          lambda arch: recommend(problem, arch, CONSIDERED, common))  # fmt: skip
    one = _one_of(problem, listed, common) if len(listed) == len(rankings) > 1 else None
    return Fleet(_sorted(rankings), left_out, one)


def _one_of(problem: Problem, listed: Mapping[str, Ranking], backend: str) -> OneForAll | None:
    """Of the candidates of all devices, each of a kernel and with keys that all of them have."""
    archs = [ranking.arch for ranking in listed.values()]
    known = [
        {kernel.name: set(kernel.keys(arch.vendor)) for kernel in offered_kernels(problem, arch, backend)[0]}
        for arch in archs
    ]
    configs: dict[str, dict[str, Any]] = {}
    for ranking in listed.values():
        for name, config in declared_in(ranking).configs(ranking.rows):
            if all(config.keys() <= keys.get(name, set()) for keys in known):
                configs.setdefault(f"{name} {config}", {"kernel": name, **config})
    every = list(configs.values())
    if not every:
        return None
    same, missing = _each(archs, lambda arch: rank(problem, arch, every, backend))
    return None if missing else one_for_all(same, dict(enumerate(every)), backend)


def rank_over(archs: Sequence[Arch], ranked: Callable[[Arch], Ranking]) -> Fleet:
    """A user's own list on each device, as `ranked` ranks it there."""
    rankings, left_out = _each(archs, ranked)
    one = None
    if len(rankings) > 1:
        configs = {hint.index: hint.config for ranking in rankings.values() for hint in ranking}
        one = one_for_all(rankings, configs, next(iter(rankings.values())).backend)
    return Fleet(_sorted(rankings), left_out, one)


def one_for_all(
    rankings: Mapping[str, Ranking], configs: Mapping[int, Mapping[str, Any]], backend: str
) -> OneForAll | None:
    """Of rankings of one list, the configuration that loses least; None if none of those named is in all of them."""
    times = []
    for ranking in rankings.values():
        also = ranking.table.also
        seconds = zip(ranking.rows, ranking.indices, ranking.seconds.tolist(), strict=True)
        times.append({place: s for row, index, s in seconds for place in (index, *also.get(row, ()))})
    common = sorted(set.intersection(set(configs), *times))
    if not common:
        return None
    losses = np.array([[t[place] / min(t.values()) for t in times] for place in common])
    at = int(np.argmin(np.log(losses).mean(axis=1)))
    place = common[at]
    return OneForAll(
        backend, configs[place], {name: t[place] * 1e3 for name, t in zip(rankings, times, strict=True)},
        dict(zip(rankings, (losses[at] - 1.0).tolist(), strict=True)),
    )  # fmt: skip


def _each(archs: Sequence[Arch], ranked: Callable[[Arch], Ranking]) -> tuple[dict[str, Ranking], dict[str, str]]:
    found: dict[str, Ranking] = {}
    left_out: dict[str, str] = {}
    for arch in archs:
        try:
            found[arch.name] = ranked(arch)
        except CarverError as why:
            left_out[arch.name] = str(why)
            if len(left_out) == len(archs) and len(set(left_out.values())) == 1:  # nothing of one device
                raise
    if not found:
        if not left_out:
            raise ConfigError("no devices given")
        raise NoCandidates(f"on any of {', '.join(left_out)}", Counter(left_out.values()))
    return found, left_out


def _common(backends: set[str]) -> str:
    return next(iter(backends)) if len(backends) == 1 else COMMON


def _sorted(rankings: Mapping[str, Ranking]) -> dict[str, Ranking]:
    return dict(sorted(rankings.items(), key=lambda item: float(item[1].seconds[0])))
