"""Tuned results on disk: one folder an entry, JSON and source and binary, published by one rename.

`result.json` names every file of the entry with its SHA-256 and the key that the folder is called by. An entry that
does not hold what it says, or that another user owns, is no entry: it is moved aside and made anew. Nothing is pickled.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import shutil
import stat
import tempfile
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base import given
from ..base.errors import ConfigError, DeviceError, Foreign
from ..base.folders import below, cache_folder, check_owner, kept, private
from ..base.given import fits, in_words, json_of, shown

SCHEMA = 1


def tune_folder() -> Path:
    return cache_folder() / "tune"


def all_off() -> bool:
    """CARVER_DISABLE_CACHE: no cache at all, in process or on disk."""
    return is_set("CARVER_DISABLE_CACHE")


def disk_off() -> bool:
    """CARVER_DISABLE_TUNE_CACHE: tuned results stay in this process."""
    return all_off() or is_set("CARVER_DISABLE_TUNE_CACHE")


def is_set(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


MOST_BYTES = 1 << 28
"""Of one file of an entry."""
PARTS = "key.json"
"""The file of an entry that says what entered its key."""


KINDS = {
    "name": "str", "config": "Mapping[str, Any]", "latency_ms": "float | None", "predicted_ms": "float | None",
    "ref_latency_ms": "float | None", "baseline_ms": "float | None", "stopped": "str", "trials": "int",
    "seconds": "float", "notes": "Sequence[str]", "env": "Mapping[str, Any]", "key": "str",
    "table": "Sequence[Mapping[str, Any]]",
}  # fmt: skip
"""What an entry says, by annotation."""


def read(folder: Path, key: str | None = None) -> dict[str, Any]:
    """The verified `result.json` of a folder, with "signed": whether this user wrote it here. Raises Foreign."""
    path = folder / "result.json"
    try:
        found = json_of(regular(path, given.MOST_BYTES), path, Foreign, finite=False)
        files = dict(found["files"])
        if key is not None:
            check_owner(folder)
            check_owner(path)
        if found["schema"] != SCHEMA:
            raise Foreign(f"{folder} has schema {found['schema']!r}; this carver reads {SCHEMA}")
        if key is not None and found["key"] != key:
            raise Foreign(f"{folder} holds the entry of another key")
        for name, sha256 in files.items():
            if sha256_of(regular(folder / below(name))) != sha256:
                raise Foreign(f"{folder / name} is not the file that was saved")
        if found["digest"] != _digest(found):
            raise Foreign(f"{path} was changed after it was saved")
        if odd := next((name for name, kind in KINDS.items() if not fits(found.get(name), kind, {})), None):
            raise Foreign(f"{path}: {odd} must be {in_words(KINDS[odd])}, got {shown(found.get(odd))}")
        signed = _is_signed(str(found.get("signature")), found["digest"])
    except DeviceError as e:
        raise Foreign(str(e)) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise Foreign(f"{folder} is no saved result: {type(e).__name__}: {e}") from None
    return {**found, "signed": signed}


def regular(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """The content of a file of an entry, which must be no link and of reasonable size."""
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_size > most_bytes:
        raise Foreign(f"{path} is no plain file of at most {most_bytes >> 20} MiB")
    return path.read_bytes()


def _is_signed(signature: str, digest: str) -> bool:
    """Whether the entry is by this user's secret; one that cannot be read is another's."""
    try:
        if not (kept() / "secret").is_file():
            return False
        return hmac.compare_digest(signature, _signature(digest))
    except (OSError, DeviceError):
        return False


def _signature(digest: str) -> str:
    """Of an entry with that digest, by a secret of this user's cache."""
    path = kept() / "secret"
    if not path.is_file():
        path = private() / "secret"
        with contextlib.suppress(FileExistsError), os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600),
                                                             "wb") as file:  # fmt: skip
            file.write(secrets.token_bytes(32))
    check_owner(path)
    return hmac.new(path.read_bytes(), digest.encode(), "sha256").hexdigest()


def write(folder: Path, result: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Publish an entry in one step: readers see the old one or the new one, whole. The last writer stays."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".staging-", dir=folder.parent))
    try:
        for name, content in files.items():
            path = staging / below(name)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_bytes(content)
        whole = {**result, "schema": SCHEMA, "files": {name: sha256_of(content) for name, content in files.items()}}
        whole["digest"] = _digest(whole)
        whole["signature"] = _signature(whole["digest"])
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


def chosen(keys: Collection[str] = ()) -> list[CacheEntry]:
    """The entries whose keys begin with one of these, all without any. Raises ConfigError for a key that there is no
    entry of."""
    every = list(entries())
    if unknown := [key for key in keys if not any(e.key.startswith(key) for e in every)]:
        raise ConfigError(f"no entry {unknown[0]!r}; 'carver cache list' lists {len(every)}")
    return [e for e in every if not keys or e.key.startswith(tuple(keys))]


def remove(entry: CacheEntry) -> None:
    """Delete an entry in one step, and note that: it is tuned anew, from no measurement before."""
    note = entry.folder.parent / f".staging-{uuid.uuid4().hex}"
    note.write_text(uuid.uuid4().hex, encoding="utf-8")
    note.replace(_note(entry.key))
    aside = entry.folder.parent / f".stale-{uuid.uuid4().hex}"
    entry.folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def generation(key: str) -> str:
    """What tells measurements after the entry of that key was last removed from those before; empty if it never was."""
    try:
        return _note(key).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def _note(key: str) -> Path:
    return tune_folder() / f".cleared-{key}"


def _digest(found: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in found.items() if name not in ("digest", "signature")}
    return sha256_of(json.dumps(rest, sort_keys=True).encode())


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
