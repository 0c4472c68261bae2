"""Rankings side by side: of several devices, and of a kernel before and after a change.

Of devices, the best configuration of each, and what one for all would lose. Of a change, what the predicted time of the
best configuration does, and why: these are what a tuner would take. Where a configuration is in both rankings, its own
two times are known too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import CarverError, ConfigError, NoCandidates
from ..base.given import as_json, takes
from ..base.table import Column, titled, words
from ..base.types import Record
from ..problem.problem import Problem
from .declared import declared_in
from .hint import Hint
from .ranking import Ranking
from .recommend import offered_kernels, rank, recommend

SAME = 0.005
"""Relative change of a time below which it counts as none."""
MATTERS = 0.3
"""A resource whose time is below this share of the main loop, before and after, explains no change of it."""


class Comparison(Record):
    """The best configuration before and after, on one device."""

    device: str
    """The device's name."""
    before: Hint
    after: Hint
    times_ms: Sequence[tuple[Mapping[str, Any], float | None, float | None]] = ()
    """Every configuration, with its time before and after; None where it cannot run."""

    @property
    def ratio(self) -> float:
        """The time after over the time before."""
        return self.after.predicted_ms / self.before.predicted_ms

    @property
    def measures(self) -> dict[str, tuple[float, float]]:
        """Numbers of both that may explain a change, by name with its unit."""
        return _pairs(_measures(self.before), _measures(self.after))

    @property
    def terms_ms(self) -> dict[str, tuple[float, float]]:
        """The terms of the predicted time."""
        return _pairs(self.before.terms_ms, self.after.terms_ms)

    @property
    def loop_ms(self) -> dict[str, tuple[float, float]]:
        """For each resource, the time of the main loop if it were the only bound."""
        return _pairs(self.before.loop_ms, self.after.loop_ms)

    @property
    def why(self) -> str:
        """What changed most: the term, the resource of the main loop, and what the compiler did otherwise."""
        said = []
        if abs(self.ratio - 1.0) >= SAME:
            term = _largest(self.terms_ms)
            said.append(f"{term} {_arrow(self.terms_ms[term])} ms")
            loop = max(self.before.terms_ms.get("main loop", 0.0), self.after.terms_ms.get("main loop", 0.0))
            alone = {name: pair for name, pair in self.loop_ms.items() if max(pair) >= MATTERS * loop}
            if term in ("main loop", "tail wave") and alone:
                what = _largest(alone)
                said.append(f"in its loop {what} {_arrow(alone[what])} ms")
        changed = {name: pair for name, pair in self.measures.items() if abs(pair[1] - pair[0]) > SAME * max(pair)}
        said += [f"{name} {_arrow(pair)}" for name, pair in changed.items()]
        if self.before.bound != self.after.bound:
            said.append(f"bound {self.before.bound} -> {self.after.bound}")
        if self.before.config != self.after.config:
            said.append(f"the best configuration is another: {words(self.after.config)}")
        return "; ".join(said) or "nothing changed"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""

        def both(pairs: Mapping[str, tuple[float, float]]) -> dict[str, dict[str, float]]:
            return {name: {"before": before, "after": after} for name, (before, after) in pairs.items()}

        return {
            "arch": self.before.arch.name, "ratio": self.ratio, "why": self.why,
            "before": self.before.to_dict(), "after": self.after.to_dict(),
            "measures": both(self.measures), "terms_ms": both(self.terms_ms), "loop_ms": both(self.loop_ms),
            "times_ms": [{"config": dict(c), "before": old, "after": new} for c, old, new in self.times_ms],
        }  # fmt: skip


@takes(ConfigError)
def compare(before: Sequence[Hint], after: Sequence[Hint]) -> Comparison:
    """Two rankings of one kernel on one device, best first."""
    if not before or not after:
        raise ConfigError(f"compare takes rankings with a hint at least, got {len(before)} and {len(after)} hints")
    old, new = ({words(hint.config): hint.predicted_ms for hint in hints} for hints in (before, after))
    configs = {words(hint.config): hint.config for hint in (*after, *before)}
    rows = [(configs[key], old.get(key), new.get(key)) for key in dict.fromkeys([*old, *new])]
    return Comparison(before[0].arch.name, before[0], after[0], tuple(rows))


def table(found: Sequence[Comparison], title: str, width: int, styled: bool = False) -> str:
    """One line a device; below the table why, device by device."""
    columns = _columns(found)
    return titled(title, columns, width, [f"{each.device}: {each.why}" for each in found], styled)


def markdown(found: Sequence[Comparison], title: str) -> str:
    """The same for a comment on a pull request."""
    columns = _columns(found)
    head = "| " + " | ".join(column.heading for column in columns) + " |"
    rule = "|" + "|".join("---" if column.is_text else "---:" for column in columns) + "|"
    rows = ["| " + " | ".join(cells) + " |" for cells in zip(*(c.cells for c in columns), strict=True)]
    return "\n".join([f"**{title}**", "", head, rule, *rows, "", *(f"- {each.device}: {each.why}" for each in found)])


def _columns(found: Sequence[Comparison]) -> list[Column]:
    out = [
        Column("device", tuple(each.device for each in found), True, may_shrink=True),
        Column("before ms", tuple(f"{each.before.predicted_ms:.4g}" for each in found)),
        Column("after ms", tuple(f"{each.after.predicted_ms:.4g}" for each in found)),
        Column("change", tuple(f"{100 * (each.ratio - 1):+.1f} %" for each in found), style="bold cyan"),
    ]
    for place, name in enumerate(found[0].measures, 1):
        if any(any(each.measures[name]) for each in found):
            out.append(Column(name, tuple(_arrow(each.measures[name]) for each in found), spare=place))
    bounds = ((each.before.bound, each.after.bound) for each in found)
    out.append(Column("bound", tuple(old if old == new else f"{old} -> {new}" for old, new in bounds), True, "magenta"))
    return out


def _measures(hint: Hint) -> dict[str, float]:
    return {
        "registers": float(hint.launch.registers),
        "spilled bytes": hint.details.get("spill_bytes", 0.0),
        "smem KiB": hint.launch.smem_bytes / 1024,
        "blocks per SM": hint.details["blocks_per_sm"],
        "DRAM MB": hint.details.get("dram_bytes", 0.0) / 1e6,
        "waits ms": hint.loop_ms.get("latency", 0.0),
    }


def _pairs(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    return {name: (before.get(name, 0.0), after.get(name, 0.0)) for name in dict.fromkeys([*before, *after])}


def _largest(pairs: Mapping[str, tuple[float, float]]) -> str:
    return max(pairs, key=lambda name: abs(pairs[name][1] - pairs[name][0]))


def _arrow(pair: tuple[float, float]) -> str:
    old, new = (f"{value:.4g}" for value in pair)
    return old if old == new else f"{old} -> {new}"


CONSIDERED = 32
"""First candidates of each device among which one configuration for all is looked for."""
COMMON = "triton"
"""Backend of one configuration for devices whose own backends differ."""


class OneForAll(Record):
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


class Fleet(Record):
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
        one = None if self.one is None else {**as_json(self.one), "mean_loss": self.one.mean}
        return {"hints": [hint.to_dict() for hint in self.best], "left_out": dict(self.left_out), "one_for_all": one}


def recommend_over(
    problem: Problem, archs: Sequence[Arch], backend: str | None = None,
    told: Callable[[str], None] = lambda line: None,
) -> Fleet:  # fmt: skip
    """`recommend` on each device, of which `told` hears. Raises NoCandidates if none of them has a candidate."""
    rankings, left_out = _each(archs, lambda arch: recommend(problem, arch, CONSIDERED, backend), told)
    own = {ranking.backend for ranking in rankings.values()}
    common = backend or (own.pop() if len(own) == 1 else COMMON)
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


def rank_over(
    archs: Sequence[Arch], ranked: Callable[[Arch], Ranking], told: Callable[[str], None] = lambda line: None
) -> Fleet:
    """A user's own list on each device, as `ranked` ranks it there. `told` hears a line after each device."""
    rankings, left_out = _each(archs, ranked, told)
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


def _each(
    archs: Sequence[Arch], ranked: Callable[[Arch], Ranking], told: Callable[[str], None] = lambda line: None
) -> tuple[dict[str, Ranking], dict[str, str]]:
    found: dict[str, Ranking] = {}
    left_out: dict[str, str] = {}
    for done, arch in enumerate(archs, start=1):
        try:
            found[arch.name] = ranked(arch)
            told(f"{done} of {len(archs)}, {arch.name}: {1e3 * float(found[arch.name].seconds[0]):.4g} ms")
        except CarverError as why:
            left_out[arch.name] = str(why)
            told(f"{done} of {len(archs)}, {arch.name}: left out")
            if len(left_out) == len(archs) and len(set(left_out.values())) == 1:  # nothing of one device
                raise
    if not found:
        if not left_out:
            raise ConfigError("no devices given")
        raise NoCandidates(f"on any of {', '.join(left_out)}", Counter(left_out.values()))
    return found, left_out


def _sorted(rankings: Mapping[str, Ranking]) -> dict[str, Ranking]:
    return dict(sorted(rankings.items(), key=lambda item: float(item[1].seconds[0])))
