"""Tuned results on disk: one folder an entry, JSON and source and binary, published by one rename.

`result.json` names every file of the entry with its SHA-256 and the key that the folder is called by. An entry that
does not hold what it says, or that another user owns, is no entry: it is moved aside and made anew. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ..base.errors import CarverError
from ..base.folders import cache_folder
from ..run.records import now

SCHEMA = 1


def tune_folder() -> Path:
    return cache_folder() / "tune"


def all_off() -> bool:
    """CARVER_DISABLE_CACHE: no cache at all, in process or on disk."""
    return _set("CARVER_DISABLE_CACHE")


def disk_off() -> bool:
    """CARVER_DISABLE_TUNE_CACHE: tuned results stay in this process."""
    return all_off() or _set("CARVER_DISABLE_TUNE_CACHE")


def _set(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


class Foreign(CarverError):
    """A folder that is not what `save` writes; says what is wrong."""


def read(folder: Path, key: str | None = None) -> dict[str, Any]:
    """The verified `result.json` of a folder. Raises Foreign."""
    path = folder / "result.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        files = dict(found["files"])
        if hasattr(os, "getuid") and key is not None and path.stat().st_uid != os.getuid():
            raise Foreign(f"{folder} belongs to another user")
        if found["schema"] != SCHEMA:
            raise Foreign(f"{folder} has schema {found['schema']!r}; this carver reads {SCHEMA}")
        if key is not None and found["key"] != key:
            raise Foreign(f"{folder} holds the entry of another key")
        for name, sha256 in files.items():
            if _sha256((folder / below(name)).read_bytes()) != sha256:
                raise Foreign(f"{folder / name} is not the file that was saved")
        if found["digest"] != _digest(found):
            raise Foreign(f"{path} was changed after it was saved")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise Foreign(f"{folder} is no saved result: {type(e).__name__}: {e}") from None
    return dict(found)


def below(name: str) -> PurePosixPath:
    """The name of a file as a path that does not lead out of the folder that it is in. Raises Foreign."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or not path.name:
        raise Foreign(f"{name!r} is no file below the folder of an entry")
    return path


def write(folder: Path, result: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Publish an entry in one step: readers see the old one or the new one, whole. The last writer stays."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".staging-", dir=folder.parent))
    try:
        for name, content in files.items():
            path = staging / below(name)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_bytes(content)
        whole = {**result, "schema": SCHEMA, "files": {name: _sha256(content) for name, content in files.items()}}
        whole["digest"] = _digest(whole)
        text = json.dumps(whole, indent=1)
        with (staging / "result.json").open("w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        while True:
            try:
                staging.rename(folder)
                return
            except OSError:
                if not folder.exists():
                    raise
            aside = folder.parent / f".stale-{uuid.uuid4().hex}"
            try:
                folder.rename(aside)
            except FileNotFoundError:
                continue  # another writer was faster
            shutil.rmtree(aside, ignore_errors=True)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@dataclass(frozen=True)
class CacheEntry:
    """One folder of the cache; `problem` says why it is not usable, empty where it is."""

    key: str
    folder: Path
    size_bytes: int
    found: Mapping[str, Any]
    problem: str = ""


def entries() -> Iterator[CacheEntry]:
    """Every entry, good or not, by name."""
    home = tune_folder()
    for folder in sorted(home.iterdir()) if home.is_dir() else []:
        if folder.name.startswith(".") or not folder.is_dir():
            continue
        size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
        try:
            yield CacheEntry(folder.name, folder, size, read(folder, folder.name))
        except Foreign as e:
            yield CacheEntry(folder.name, folder, size, {}, str(e))


def remove(entry: CacheEntry) -> None:
    """Delete an entry in one step, and note when: it is tuned anew, from no measurement before that."""
    note = entry.folder.parent / f".staging-{uuid.uuid4().hex}"
    note.write_text(now(), encoding="utf-8")
    note.replace(_note(entry.key))
    aside = entry.folder.parent / f".stale-{uuid.uuid4().hex}"
    entry.folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def cleared_at(key: str) -> str | None:
    """When the entry of that key was last removed, as the records write times; None if it never was."""
    try:
        return _note(key).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _note(key: str) -> Path:
    return tune_folder() / f".cleared-{key}"


def _digest(found: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in found.items() if name != "digest"}
    return _sha256(json.dumps(rest, sort_keys=True).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
