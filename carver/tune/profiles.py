"""What tuning taught about kernels, kept in the store: one profile per kernel and device."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress

from ..base import store
from ..base.errors import ConfigError
from ..base.given import json_of
from ..ranking.profile import Profile
from ..ranking.ranking import Ranking

KIND = "profile"
"""Of entries of the store."""


def name_of(learnt_as: str, ranking: Ranking) -> str:
    """Of a kernel's profile: by its `Plan.learnt_as`, the operator and backend that rank it, and the device."""
    words = (learnt_as, *ranking.table.of.split("/"), ranking.arch.name)
    return ".".join(re.sub(r"[^A-Za-z0-9_-]", "_", word) for word in words)


def load(learnt_as: str, ranking: Ranking) -> Profile | None:
    """What was learnt before; None where nothing was, or where it is damaged: it is written anew after this tuning."""
    with suppress(ConfigError):
        return named(name_of(learnt_as, ranking))
    return None


def save(learnt_as: str, ranking: Ranking) -> None:
    """Keep what the ranking has learnt. Raises StoreError."""
    store.to_write().put(KIND, name_of(learnt_as, ranking), json.dumps(ranking.profile).encode())


def every() -> Iterator[tuple[str, Profile | str]]:
    """Every profile of the cache by name, or why it is none."""
    for name, body in sorted(store.get(KIND).items()):
        try:
            yield name, _read(name, body)
        except ConfigError as why:
            yield name, str(why)


def named(name: str) -> Profile:
    """The profile of that name. Raises ConfigError where there is none, or where it is damaged."""
    found = store.get(KIND, [name])
    if name not in found:
        raise ConfigError(f"no profile {name!r}; 'carver profile list' has those that there are")
    return _read(name, found[name])


def drop(names: list[str]) -> None:
    """Delete them. Raises ConfigError where there is no profile of a name."""
    if unknown := sorted(set(names) - store.get(KIND, names).keys()):
        raise ConfigError(f"no profile {unknown[0]!r}; 'carver profile list' has those that there are")
    store.to_write().drop(KIND, names)


def _read(name: str, body: bytes | None) -> Profile:
    if body is None:
        raise ConfigError(f"the profile {name!r} was changed after it was saved")
    return Profile.from_dict(json_of(body, f"the profile {name!r}", ConfigError))
