"""What measurements teach of a kernel's candidates, and the profile that carries it to the next ranking, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..base.errors import ConfigError
from ..base.given import canonical, is_number, json_of, read, text_of
from ..base.table import several
from ..base.types import FloatArray, FrozenDict, Record
from ..cost.learn import MOST_SEEN, REPEATABLE, Posterior, Rows, learnt, places, slopes
from ..problem.problem import Problem
from .hint import Update

FORMAT = 1
WITHIN = 1.2816
"""Standard deviations to either side of the mean that contain 80 % of a normal distribution."""
SHOWN = 0.02
"""Constants whose logarithm changed by less are not listed."""

Given: TypeAlias = "Profile | Mapping[str, Any] | str | Path"
"""A profile, its JSON value, or the path of a file with it."""


class Measured(Record):
    """One measured candidate, with the predictions of the unchanged model."""

    kernel: str
    start: str
    """Identifier of the constants that the model started from. Predictions from different starts are not comparable."""
    problem: Mapping[str, Any]
    """Sizes and kind of the problem."""
    config: Mapping[str, Any]
    ms: float | None
    """Measured time; None if the candidate did not run."""
    predicted_ms: float
    slopes: Mapping[str, float]
    """d ln(predicted) / d ln(constant)."""

    @property
    def key(self) -> str:
        """Identifier of the candidate, the same for each measurement of it."""
        return canonical([self.kernel, self.problem, self.config])


class Profile(Record):
    """Measurements of a kernel, latest last, and the constants that they moved."""

    of: str
    """The subject: operator and backend, or a kernel's own name."""
    device: str
    measured: tuple[Measured, ...] = ()
    constants: Mapping[str, Mapping[str, float]] = field(default_factory=FrozenDict)
    """For each constant that changed, the "factor" on its start, and the "deviation" of that factor's logarithm."""

    def with_measured(self, more: Sequence[Measured]) -> Profile:
        """Add measurements. They replace earlier ones of the same candidates; of each kernel, only the latest MOST_SEEN
        are kept."""
        every = {m.key: m for m in self.measured}
        for m in more:
            every.pop(m.key, None)
            every[m.key] = m
        kept: list[Measured] = []
        count: dict[str, int] = {}
        for m in reversed(every.values()):
            count[m.kernel] = count.get(m.kernel, 0) + 1
            if count[m.kernel] <= MOST_SEEN:
                kept.append(m)
        return replace(self, measured=tuple(reversed(kept)))

    def rows(self, kernel: str, start: str) -> tuple[Rows, FloatArray] | None:
        """The candidates of one kernel that ran, as inputs of the Gaussian process, and their ln(seconds); None without
        any."""
        ran = [m for m in self.measured if (m.kernel, m.start) == (kernel, start) and m.ms is not None]
        if not ran:
            return None
        names = tuple(dict.fromkeys(name for m in ran for name in m.slopes))
        axes, where = places([m.config for m in ran])
        slopes = np.array([[m.slopes.get(name, 0.0) for name in names] for m in ran]).reshape(len(ran), len(names))
        log_s = np.log([m.predicted_ms / 1e3 for m in ran])
        seen = Rows(names, log_s, slopes, axes, where, tuple(m.problem for m in ran))
        return seen, np.log([m.ms / 1e3 for m in ran if m.ms is not None])

    def with_constants(self, kernel: str, found: Posterior) -> Profile:
        """The profile with the constants of one kernel replaced by those of `found`."""
        moved = {
            f"{kernel}.{name}": {"factor": float(f"{np.exp(x):.4g}"), "deviation": float(f"{d:.3g}")}
            for name, x, d in zip(found.names, found.moved, found.moved_deviation, strict=True)
            if abs(x) > SHOWN
        }
        others = {name: value for name, value in self.constants.items() if not name.startswith(f"{kernel}.")}
        return replace(self, constants={**others, **moved})

    @property
    def problems(self) -> int:
        return len({canonical(m.problem) for m in self.measured})

    def __str__(self) -> str:
        return f"{several(len(self.measured), 'measurement')} of {several(self.problems, 'problem')}"

    def to_dict(self) -> dict[str, Any]:
        """The JSON value."""
        rows = [asdict(m) | {"slopes": {k: float(f"{v:.4g}") for k, v in m.slopes.items()}} for m in self.measured]
        constants = {name: dict(value) for name, value in self.constants.items()}
        return {"format": FORMAT, "of": self.of, "device": self.device, "constants": constants, "measured": rows}

    @classmethod
    def from_dict(cls, given: object) -> Profile:
        """The profile that `to_dict` wrote. Raises ConfigError for anything else."""
        if not isinstance(given, Mapping):
            raise ConfigError(f"a profile is an object of keys and values, got {type(given).__name__}")
        rest = {name: value for name, value in given.items() if name != "format"}
        if given.get("format") != FORMAT:
            raise ConfigError(f"not a profile of format {FORMAT}: its format is {given.get('format')!r}")
        profile = read(cls, rest, "profile", ConfigError, optional=())
        for row in profile.measured:
            if not row.predicted_ms > 0 or (row.ms is not None and not 0 < row.ms < float("inf")):
                raise ConfigError(f"a profile's times are above 0 ms, got {row.ms!r} and {row.predicted_ms!r}")
        return profile


def profile_of(given: Given, of: str, device: str) -> Profile:
    """The given profile. Raises ConfigError if it is no profile, or has another subject."""
    if isinstance(given, str | Path):
        given = json_of(text_of(Path(given), ConfigError), given, ConfigError)
    found = given if isinstance(given, Profile) else Profile.from_dict(given)
    if (found.of, found.device) != (of, device):
        raise ConfigError(f"this profile is of {found.of} on {found.device}; asked for is {of} on {device}")
    return found


class Prior(Record):
    """Candidates of one kernel, with their predicted times by the unchanged model."""

    of: tuple[int, ...]
    """Their rows in the ranking's table."""
    kernel: str
    start: str
    """Identifier of the constants that the model starts from."""
    configs: tuple[Mapping[str, Any], ...]
    rows: Rows

    @classmethod
    def made(
        cls, of: Sequence[int], kernel: str, configs: Sequence[Mapping[str, Any]], problem: Mapping[str, Any],
        seconds: Callable[[Mapping[str, float]], FloatArray], names: Sequence[str], constants: Mapping[str, float],
    ) -> Prior:  # fmt: skip
        """`seconds` predicts the times of the configurations from constants; `names` are those that may change."""
        axes, where = places(configs)
        log_s, sensitivities = np.log(seconds(constants)), slopes(seconds, names, constants)
        rows = Rows(tuple(names), log_s, sensitivities, axes, where, (problem,) * len(configs))
        text = json.dumps({k: f"{v:.6g}" for k, v in constants.items()}, sort_keys=True)
        return cls(tuple(of), kernel, sha256(text.encode()).hexdigest()[:12], tuple(configs), rows)

    def where(self, kept: Collection[int]) -> Prior:
        """Only those of these rows of the table; itself where that is all."""
        keep = [i for i, row in enumerate(self.of) if row in kept]
        if len(keep) == len(self.of):
            return self
        of, configs = tuple(self.of[i] for i in keep), tuple(self.configs[i] for i in keep)
        return replace(self, of=of, configs=configs, rows=self.rows.where(keep))

    @property
    def seconds(self) -> FloatArray:
        """Times that the unchanged model predicts. [s]"""
        return np.exp(self.rows.log_s)

    def measured(self, row: int, ms: object) -> Measured:
        """The record of one measurement, of a row of the table. Raises ConfigError if `ms` is not a time."""
        row = self.of.index(row)
        rows, config = self.rows, self.configs[row]
        return Measured(
            self.kernel, self.start, rows.problems[row], dict(config), _time(ms, config),
            float(self.seconds[row]) * 1e3, dict(zip(rows.names, map(float, rows.slopes[row]), strict=True)),
        )  # fmt: skip

    def updates(self, profile: Profile) -> tuple[Profile, dict[int, Update], set[int]]:
        """Apply a profile. Returns it with the constants that it changed, its predictions for these candidates by their
        row in the table, and the rows that did not run."""
        seen = profile.rows(self.kernel, self.start)
        found = learnt(self.rows, *seen) if seen is not None else None
        out: dict[int, Update] = {}
        if seen is not None and found is not None:
            profile = profile.with_constants(self.kernel, found)
            text = f"learnt from {len(seen[0])} measurements on this device"
            pairs = zip(np.exp(found.mean), WITHIN * found.deviation, strict=True)
            out |= {row: Update(float(t), float(width), text) for row, (t, width) in zip(self.of, pairs, strict=True)}
        here = self.rows.problems[0] if self.configs else {}
        times = {canonical(m.config): m.ms for m in profile.measured if (m.kernel, m.problem) == (self.kernel, here)}
        failed = set()
        for row, key in zip(self.of, map(canonical, self.configs), strict=True):
            if (ms := times.get(key)) is not None:
                out[row] = Update(ms / 1e3, WITHIN * REPEATABLE, "measured here")
            elif key in times:
                failed.add(row)
        return profile, out, failed


class Learnt(Record):
    """What measurements say of a ranking's candidates; see `carver.ranking.surrogate`."""

    profile: Profile
    updates: Mapping[int, Update]
    """By row of the table, only for candidates of which something was learnt."""
    priors: Sequence[Prior]
    """The candidates of each kernel with what the model says of them. It is the same after each measurement, and takes
    many predictions."""


def described(problem: Problem) -> dict[str, Any]:
    """A problem in the form of profiles: its sizes and its kind."""
    return {**problem.sizes, "kind": str(problem.sizeless)}


def _time(ms: object, config: Mapping[str, Any]) -> float | None:
    if ms is None:
        return None
    if not is_number(ms) or not ms > 0:  # type: ignore[operator]
        raise ConfigError(f"a measured time is above 0 ms, or None where it did not run; got {ms!r} for {dict(config)}")
    return float(ms)  # type: ignore[arg-type]
