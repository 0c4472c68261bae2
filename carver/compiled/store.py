"""Compiler output kept on disk: text with its hash, written at once, read as data and never run."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from ..base.errors import Foreign
from ..base.folders import kept, private, publish
from ..base.given import json_of, text_of
from ..base.shipped import folder

FORMAT = "1"
"""Of an entry; others are not read."""

FOLDER = "compiled"


@lru_cache(maxsize=1)
def readers() -> str:
    """A hash of the modules that read compiled code and of the rates that they price it with (`arch/isa`): what other
    ones read off it is read again."""
    modules, rates = Path(__file__).parent.rglob("*.py"), folder("arch").joinpath("isa").rglob("*.toml")
    return sha256(b"".join(file.read_bytes() for file in (*sorted(modules), *sorted(rates)))).hexdigest()


def load(key: str) -> dict[str, Any] | None:
    """The entry; None where there is none, or where it is not what was written.

    Raises DeviceError where others than this user can write to the cache.
    """
    try:
        digest, _, text = text_of(kept(FOLDER, key[:2]) / f"{key}.json", Foreign).partition("\n")
    except (OSError, Foreign):
        return None
    if digest != sha256(text.encode()).hexdigest():
        return None
    try:
        found = json_of(text, "an entry", Foreign)
    except Foreign:
        return None
    return found if isinstance(found, dict) and found.pop("format", None) == FORMAT else None


def save(key: str, entry: dict[str, Any]) -> None:
    """Write the entry, dataclasses as objects; where the disk does not take it, it is made again another time."""
    text = json.dumps({**entry, "format": FORMAT}, default=vars).encode()
    with suppress(OSError):
        publish(private(FOLDER, key[:2]) / f"{key}.json", f"{sha256(text).hexdigest()}\n".encode() + text)
