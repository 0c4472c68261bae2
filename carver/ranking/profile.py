"""What measurements taught about one kernel on one device, as plain JSON: kept, sent, and given to the next ranking."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..base.errors import ConfigError
from ..base.given import check_fields, json_of, text_of
from ..base.types import FloatArray, FrozenDict
from ..cost.learn import MOST_SEEN, Posterior, Rows, places

FORMAT = 1
SHOWN = 0.02
"""Constants whose logarithm changed by less are not listed."""

Given: TypeAlias = "Profile | Mapping[str, Any] | str | Path"
"""A profile, its JSON value, or the path of a file with it."""


@dataclass(frozen=True)
class Measured:
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
        return json.dumps([self.kernel, dict(self.problem), dict(self.config)], sort_keys=True, default=str)


@dataclass(frozen=True)
class Profile:
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

    def told(self, kernel: str, found: Posterior) -> Profile:
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
        return len({json.dumps(dict(m.problem), sort_keys=True, default=str) for m in self.measured})

    def __str__(self) -> str:
        return f"{len(self.measured)} measurements of {self.problems} problems"

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
        check_fields(_Written, rest, "profile", ConfigError)
        for row in rest["measured"]:
            check_fields(Measured, row, "measured candidate of a profile", ConfigError)
            if not row["predicted_ms"] > 0 or (row["ms"] is not None and not 0 < row["ms"] < float("inf")):
                raise ConfigError(f"a profile's times are above 0 ms, got {row['ms']!r} and {row['predicted_ms']!r}")
        return cls(rest["of"], rest["device"], tuple(Measured(**row) for row in rest["measured"]), rest["constants"])


@dataclass(frozen=True)
class _Written:
    of: str
    device: str
    measured: tuple[Any, ...]
    constants: Mapping[str, Mapping[str, float]]


def profile_of(given: Given, of: str, device: str) -> Profile:
    """The given profile. Raises ConfigError if it is no profile, or has another subject."""
    if isinstance(given, str | Path):
        given = json_of(text_of(Path(given), ConfigError), given, ConfigError)
    found = given if isinstance(given, Profile) else Profile.from_dict(given)
    if (found.of, found.device) != (of, device):
        raise ConfigError(f"this profile is of {found.of} on {found.device}; asked for is {of} on {device}")
    return found
