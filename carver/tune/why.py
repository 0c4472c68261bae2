"""Print what went into the key of a tuned result, and in what two keys differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from difflib import unified_diff
from itertools import islice
from typing import Any

from ..base.errors import ConfigError, Foreign
from . import cache

LONGEST = 400
"""Characters of a value that are shown."""
_MOST_LINES = 8


def parts_of(key: str) -> tuple[str, dict[str, Any]]:
    """The whole key of the entry that begins with `key`, and what entered it. Raises ConfigError."""
    every = [e for e in cache.entries() if e.key.startswith(key)]
    if len(every) != 1:
        count = f"{len(every)} entries begin with" if every else "no entry"
        raise ConfigError(f"{count} {key!r}; 'carver cache list' lists them")
    (entry,) = every
    if entry.problem:
        raise ConfigError(entry.problem)
    if not isinstance(parts := entry.found.get("parts"), Mapping):
        raise Foreign(f"the entry {entry.key[:12]} does not say what entered its key")
    return entry.key, dict(parts)


def rows(parts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """One line a part: its name, and its value, which a long one is cut to."""
    return [(name, _short(value)) for name, value in parts.items()]


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Where two keys differ, by the path to each value: that, and the value of each. Of text only the lines."""
    found = []
    for path, one, other in _leaves("", a, b):
        if isinstance(one, str) and isinstance(other, str) and "\n" in one + other:
            lines = [line for line in unified_diff(one.splitlines(), other.splitlines(), n=0, lineterm="")
                     if line[:1] in "+-" and line[:3] not in ("+++", "---")]  # fmt: skip
            was, now = ("\n".join(islice((x[1:] for x in lines if x[0] == sign), _MOST_LINES)) for sign in "-+")
            found.append((path, _short(was), _short(now)))
        else:
            found.append((path, _short(one), _short(other)))
    return found


_ABSENT = object()


def _leaves(path: str, a: Any, b: Any) -> Iterator[tuple[str, Any, Any]]:
    """The innermost values that differ."""
    if a == b and type(a) is type(b):
        return
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for name in dict.fromkeys((*a, *b)):
            yield from _leaves(f"{path}.{name}".lstrip("."), a.get(name, _ABSENT), b.get(name, _ABSENT))
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from _leaves(f"{path}[{i}]", x, y)
    else:
        yield path, a, b


def _short(value: Any) -> str:
    if value is _ABSENT:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters)"
