"""Tuned results, profiles and binaries as one file: for an image, for another machine, for the other ranks.

A database of entries, each with its SHA-256. All of them are checked before any is used. Importing an archive is
trusting whoever made it: the kernels in it run with your rights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ..base import store
from ..base.errors import DeviceError, Foreign, StoreError
from ..base.folders import cache_folder, publish
from ..base.given import content, shown
from ..base.store import Row
from ..run import compile
from . import cache, profiles

BLOB = "blob"
"""Entries of an archive that are files of a store, by their names there."""
KINDS = (cache.KIND, profiles.KIND, compile.KIND, BLOB)
_MOST_ENTRIES = 1 << 16
_MOST_BYTES = 1 << 30
"""Of an archive."""


@dataclass(frozen=True)
class Moved:
    """What an archive holds, or what came out of one."""

    sha256: str
    """Of the archive."""
    entries: int
    profiles: int
    binaries: int
    kept: int = 0
    """Entries that were there already and were left alone."""


def export(path: Path, keys: Collection[str] = (), binaries: bool = False) -> Moved:
    """Write the good entries of the cache, or those whose keys begin with one of `keys`, and all profiles; with
    `binaries` the compiled kernels of all candidates too. The same cache gives the same bytes.

    Raises ConfigError for a key that there is no entry of.
    """
    good = [entry.key for entry in cache.chosen(keys) if not entry.problem]
    rows = [Row(cache.KIND, key, body) for key, body in store.get(cache.KIND, good).items() if body is not None]
    rows += [Row(profiles.KIND, name, body) for name, body in store.get(profiles.KIND).items() if body is not None]
    for key, body in store.get(compile.KIND).items() if binaries else ():
        if body is not None and (binary := compile.binary_of(body)) is not None:
            rows += [Row(compile.KIND, key, body), Row(BLOB, binary.path.name, binary.path.read_bytes())]
    packed = store.pack(set(rows))
    publish(path, packed, 0o644, lasting=True)
    return _counted(packed, rows)


def load(path: Path, digest: str | None = None, replace: bool = False) -> Moved:
    """Put what is in an archive into the cache; entries that are there already are left alone unless `replace`.

    Raises Foreign, before anything is written, where an entry is not what was exported, and where the archive is not
    the one with that SHA-256.
    """
    packed = content(path, Foreign, _MOST_BYTES)
    if digest is not None and sha256(packed).hexdigest() != digest.lower():
        raise Foreign(f"{path} is not the archive with SHA-256 {digest}")
    rows = store.packed(packed, path, _MOST_ENTRIES, _MOST_BYTES)
    if odd := next((row for row in rows if row.kind not in KINDS), None):
        raise Foreign(f"{path}: {shown(odd.kind)} is none of {', '.join(KINDS)}")
    entries = {row.key: cache.entry(row.key, row.body) for row in rows if row.kind == cache.KIND}
    blobs = {row.key: row.body for row in rows if row.kind == BLOB}
    if odd_name := next((n for n, held in blobs.items() if n not in store.names_of(held)), None):
        raise Foreign(f"{path}: {shown(odd_name)} is not the file that was exported")
    try:
        already = set() if replace else store.get(cache.KIND, entries).keys()
        for key in entries.keys() - already:
            found = {k: v for k, v in entries[key].found.items() if k not in ("schema", "files", "digest", "signature")}
            if not cache.save(key, found, entries[key].files):
                raise DeviceError(f"the cache folder {cache_folder()} cannot be written, or its disk is full")
        for name, held in blobs.items():
            store.blob(held, Path(name).suffix)
        others = [row for row in rows if row.kind in (profiles.KIND, compile.KIND)]
        there = {kind: set() if replace else store.get(kind).keys() for kind in (profiles.KIND, compile.KIND)}
        with store.to_write().writing() as db:
            store.insert(db, [row for row in others if row.key not in there[row.kind]])
    except (OSError, StoreError) as e:
        raise DeviceError(f"the cache folder {cache_folder()} does not take what is in {path}: {e}") from None
    moved = _counted(packed, rows)
    return Moved(moved.sha256, moved.entries - len(already), moved.profiles, moved.binaries, len(already))


def _counted(packed: bytes, rows: Collection[Row]) -> Moved:
    count = Counter(row.kind for row in rows)
    return Moved(sha256(packed).hexdigest(), count[cache.KIND], count[profiles.KIND], count[compile.KIND])
