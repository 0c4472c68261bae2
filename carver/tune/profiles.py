"""What tuning taught about kernels, kept beside tuned results: one JSON file per kernel and device."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..base.errors import ConfigError
from ..base.folders import cache_folder, kept, private, publish
from ..base.given import json_of, text_of
from ..ranking.learn import subject
from ..ranking.profile import Profile
from ..ranking.ranking import Ranking


def path_of(name: str, ranking: Ranking, folder: Path) -> Path:
    """The file of a kernel, by its `Plan.learnt_as`, the operator and backend that rank it, and the device."""
    words = (name, *subject(ranking).split("/"), ranking.arch.name)
    return folder / f"{'.'.join(re.sub(r'[^A-Za-z0-9_-]', '_', word) for word in words)}.json"


def load(name: str, ranking: Ranking) -> Profile | None:
    """What was learnt before; None where nothing was, or where the file is none of ours."""
    path = path_of(name, ranking, kept("profiles"))
    with suppress(ConfigError):  # it is written anew after this tuning
        return read(path) if path.is_file() else None
    return None


def read(path: Path) -> Profile:
    """Raises ConfigError for what is no profile."""
    return Profile.from_dict(json_of(text_of(path, ConfigError), path, ConfigError))


def save(name: str, ranking: Ranking) -> None:
    """Keep what the ranking has learnt, in one step."""
    publish(path_of(name, ranking, private("profiles")), json.dumps(ranking.profile).encode())


def every() -> Iterator[tuple[Path, Profile | str]]:
    """Every file of the cache with its profile, or why it is none."""
    for path in sorted((cache_folder() / "profiles").glob("[!.]*.json")):
        try:
            yield path, read(path)
        except ConfigError as why:
            yield path, str(why)


def named(name: str) -> Path:
    """The file that a listed name is of. Raises ConfigError where there is none."""
    found = [path for path, _ in every() if path.stem == name]
    if not found:
        raise ConfigError(f"no profile {name!r}; 'carver profile list' has those that there are")
    return found[0]
