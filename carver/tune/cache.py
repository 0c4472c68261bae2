"""Tuned results: one entry of the store each, or a folder of their own; JSON, source and binary, verified when read.

A result names every file of it with its SHA-256 and the key that it is called by; an entry holds their contents, in
base 64. What does not hold what it says, or another user owns, is no result: it is made anew. Nothing is pickled.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import shutil
import tempfile
import uuid
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from ..base import given, store
from ..base.errors import ConfigError, DeviceError, Foreign
from ..base.folders import below, cache_folder, check_owner, kept, private
from ..base.given import fits, in_words, json_of, shown
from ..base.store import regular

SCHEMA = 2
KIND = "tuned"
"""Of entries of the store."""
CLEARED = "cleared"
"""What tells measurements after the entry of a key was last removed from those before."""


def all_off() -> bool:
    """CARVER_DISABLE_CACHE: no cache at all, in process or on disk."""
    return is_set("CARVER_DISABLE_CACHE")


def disk_off() -> bool:
    """CARVER_DISABLE_TUNE_CACHE: tuned results stay in this process."""
    return all_off() or is_set("CARVER_DISABLE_TUNE_CACHE")


def is_set(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


KINDS = {
    "name": "str", "config": "Mapping[str, Any]", "latency_ms": "float | None", "predicted_ms": "float | None",
    "ref_latency_ms": "float | None", "baseline_ms": "float | None", "stopped": "str", "trials": "int",
    "seconds": "float", "notes": "Sequence[str]", "env": "Mapping[str, Any]", "key": "str",
    "table": "Sequence[Mapping[str, Any]]",
}  # fmt: skip
"""What an entry says, by annotation."""


@dataclass(frozen=True)
class Saved:
    """A verified result, by its key and where it was: what it says, and its files. `problem`: why it is none."""

    key: str
    where: str
    size_bytes: int
    found: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    signed: bool = False
    """Whether this user wrote it here."""
    problem: str = ""


def read(folder: Path) -> Saved:
    """The result that `write` put into a folder. Raises Foreign."""
    try:
        text = regular(folder / "result.json", given.MOST_BYTES)
    except OSError as e:
        raise Foreign(f"{folder} is no saved result: {type(e).__name__}: {e}") from None
    return _verified(str(folder), text, folder)


def load(key: str) -> Saved | None:
    """The entry of a key, None where there is none. Raises Foreign where it is damaged, DeviceError where others than
    this user can write to the cache."""
    found = store.get(KIND, [key])
    return entry(key, found[key]) if key in found else None


def entry(key: str, body: bytes | None) -> Saved:
    """What an entry of the store, or of an archive, holds. Raises Foreign."""
    where = f"the entry {key[:12]}"
    if body is None:
        raise Foreign(f"{where} was changed after it was saved")
    saved = _verified(where, body)
    if saved.key != key:
        raise Foreign(f"{where} is that of another key")
    return saved


def _verified(where: str, text: bytes, folder: Path | None = None) -> Saved:
    """What the text says, with its files, which are in the folder or in the text."""

    def content(name: str) -> bytes:
        return b64decode(contents[name], validate=True) if folder is None else regular(folder / below(name))

    try:
        found = json_of(text, where, Foreign, finite=False)
        if found["schema"] != SCHEMA:
            raise Foreign(f"{where} has schema {found['schema']!r}; this carver reads {SCHEMA}")
        contents: dict[str, str] = found.pop("contents", {})
        files = {str(below(name)): content(name) for name in dict(found["files"])}
        if strange := contents.keys() - files.keys():
            raise Foreign(f"{where}: {shown(min(strange))} is none of its files")
        if odd := next((name for name, held in files.items() if _digest(held) != found["files"][name]), None):
            raise Foreign(f"{where}: {odd} is not the file that was saved")
        if found["digest"] != _digest_of(found):
            raise Foreign(f"{where} was changed after it was saved")
        if odd := next((name for name, kind in KINDS.items() if not fits(found.get(name), kind, {})), None):
            raise Foreign(f"{where}: {odd} must be {in_words(KINDS[odd])}, got {shown(found.get(odd))}")
        is_ours = _is_signed(str(found.get("signature")), found["digest"])
        return Saved(found["key"], where, len(text) + sum(map(len, files.values())), found, files, is_ours)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise Foreign(f"{where} is no saved result: {type(e).__name__}: {e}") from None


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


def _signed(result: Mapping[str, Any], files: Mapping[str, bytes]) -> dict[str, Any]:
    """A result with the digests of its files and this user's signature."""
    whole = {**result, "schema": SCHEMA, "files": {str(below(name)): _digest(held) for name, held in files.items()}}
    whole["digest"] = _digest_of(whole)
    return {**whole, "signature": _signature(whole["digest"])}


def save(key: str, result: Mapping[str, Any], files: Mapping[str, bytes]) -> bool:
    """Put an entry into the store. The last writer stays. False where that cannot be written. Raises StoreError."""
    there = store.to_write()
    if there.path.parent != cache_folder():
        return False
    contents = {str(below(name)): b64encode(held).decode() for name, held in files.items()}
    there.put(KIND, key, json.dumps({**_signed(result, files), "contents": contents}).encode())
    return True


def write(folder: Path, result: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Publish a folder in one step: readers see the old one or the new one, whole. The last writer stays."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".staging-", dir=folder.parent))
    try:
        for name, content in files.items():
            path = staging / below(name)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_bytes(content)
        with (staging / "result.json").open("wb") as file:
            file.write(json.dumps(_signed(result, files), indent=1).encode() + b"\n")
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


def entries() -> Iterator[Saved]:
    """Every entry, good or not, by name."""
    for key, body in sorted(store.get(KIND).items()):
        try:
            yield entry(key, body)
        except Foreign as e:
            yield Saved(key, f"the entry {key[:12]}", len(body or b""), problem=str(e))


def chosen(keys: Collection[str] = ()) -> list[Saved]:
    """The entries whose keys begin with one of these, all without any. Raises ConfigError for a key that there is no
    entry of."""
    every = list(entries())
    if unknown := [key for key in keys if not any(e.key.startswith(key) for e in every)]:
        raise ConfigError(f"no entry {unknown[0]!r}; 'carver cache list' lists {len(every)}")
    return [e for e in every if not keys or e.key.startswith(tuple(keys))]


def remove(key: str) -> None:
    """Delete an entry in one step, and note that: it is tuned anew, from no measurement before."""
    with store.to_write().writing() as db:
        db.execute("DELETE FROM entries WHERE kind = ? AND key = ?", (KIND, key))
        store.insert(db, [(CLEARED, key, uuid.uuid4().hex.encode())])


def generation(key: str) -> str:
    """What tells measurements after the entry of that key was last removed from those before; empty if it never was."""
    return (store.get(CLEARED, [key]).get(key) or b"").decode(errors="replace")


def _digest_of(found: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in found.items() if name not in ("contents", "digest", "signature")}
    return _digest(json.dumps(rest, sort_keys=True).encode())


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()
