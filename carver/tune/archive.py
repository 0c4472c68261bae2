"""Tuned results, profiles and binaries as one file: for an image, for another machine, for the other ranks.

A zip with `manifest.json`, which names every other file with its SHA-256. All of them are checked before any is used.
Importing an archive is trusting whoever made it: the kernels in it run with your rights.
"""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..base.errors import DeviceError, Foreign
from ..base.folders import below, cache_folder, private, publish, scratch
from ..base.given import content, fits, json_of, shown
from . import cache

FORMAT = 1
MANIFEST = "manifest.json"
KINDS = ("tune", "profiles", "binaries")
"""Folders of the cache that travel."""
_MOST_FILES = 1 << 16
_MOST_BYTES = 1 << 30
"""Of an archive, packed and unpacked."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


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
    chosen = [e for e in cache.chosen(keys) if not e.problem]
    files: dict[str, Path] = {}
    for entry in chosen:
        files |= {f"tune/{entry.key}/{name}": entry.folder / name for name in ("result.json", *entry.found["files"])}
    for kind in ("profiles", *(["binaries"] if binaries else [])):
        home = cache_folder() / kind
        found = sorted(home.rglob("*")) if home.is_dir() else []
        files |= {f"{kind}/{p.relative_to(home).as_posix()}": p for p in found
                  if p.is_file() and not any(part.startswith(".") for part in p.relative_to(home).parts)}  # fmt: skip
    contents = {name: place.read_bytes() for name, place in sorted(files.items())}
    manifest = {"format": FORMAT, "schema": cache.SCHEMA, "files": {n: cache.sha256_of(c) for n, c in contents.items()}}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, given in {MANIFEST: json.dumps(manifest, indent=1).encode(), **contents}.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), given, zipfile.ZIP_DEFLATED)
    publish(path, packed.getvalue(), 0o644, lasting=True)
    return _counted(packed.getvalue(), contents)


def load(path: Path, sha256: str | None = None, replace: bool = False) -> Moved:
    """Put what is in an archive into the cache; entries that are there already are left alone unless `replace`.

    Raises Foreign, before anything is written, where a file is not what the manifest says, where one is missing or not
    named there, and where the archive is not the one with that `sha256`.
    """
    packed = content(path, Foreign, _MOST_BYTES)
    if sha256 is not None and cache.sha256_of(packed) != sha256.lower():
        raise Foreign(f"{path} is not the archive with SHA-256 {sha256}")
    contents = _checked(path, packed)
    there = 0
    with scratch(Path(tempfile.gettempdir()), "carver-import-") as workshop:
        try:
            for name, given in contents.items():
                (workshop / name).parent.mkdir(parents=True, exist_ok=True)
                (workshop / name).write_bytes(given)
        except OSError as e:
            raise Foreign(f"{path}: {name} cannot be unpacked: {e.strerror}") from None
        entries = [(key, cache.read(workshop / "tune" / key), files) for key, files in _entries(contents)]
    if odd := next((key for key, found, _ in entries if found["key"] != key), None):
        raise Foreign(f"{path}: the entry {odd[:12]} is that of another key")
    try:
        for key, found, files in entries:
            home = private("tune")
            if (home / key).exists() and not replace:
                there += 1
                continue
            plain = {k: v for k, v in found.items() if k not in ("schema", "files", "digest", "signature", "signed")}
            cache.write(home / key, plain, {n: c for n, c in files.items() if n != "result.json"})
        for name, given in contents.items():
            kind, *rest = PurePosixPath(name).parts
            if kind != "tune":
                folder = private(kind, *rest[:-1])
                if replace or not (folder / rest[-1]).exists():
                    publish(folder / rest[-1], given)
    except OSError as e:
        raise DeviceError(f"the cache folder {cache_folder()} does not take what is in {path}: {e}") from None
    moved = _counted(packed, contents)
    return Moved(moved.sha256, moved.entries - there, moved.profiles, moved.binaries, there)


def _checked(path: Path, packed: bytes) -> dict[str, bytes]:
    """Every file of an archive by its name. Raises Foreign."""
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            infos = archive.infolist()
            large = len(infos) > _MOST_FILES or sum(i.file_size for i in infos) > _MOST_BYTES
            contents = {} if large else {str(below(i.filename)): archive.read(i) for i in infos}
    except Foreign as e:
        raise Foreign(f"{path}: {e}") from None
    except Exception as e:  # of zipfile, of each of its decompressors, of names that are no text
        raise Foreign(f"{path} is no archive of tuned results: {type(e).__name__}: {e}") from None
    if large:
        raise Foreign(f"{path} holds more than {_MOST_FILES:,} files or {_MOST_BYTES >> 20} MiB")
    manifest = json_of(contents.pop(MANIFEST, b"{}"), f"{path}: {MANIFEST}", Foreign)
    if not fits(manifest, "Mapping[str, Any]", {}) or not fits(manifest.get("files"), "Mapping[str, str]", {}):
        raise Foreign(f"{path} has no manifest that names its files")
    if len(infos) != len(contents) + 1 or manifest.get("format") != FORMAT:
        raise Foreign(f"{path} has format {shown(manifest.get('format'))}, or a name twice; this carver reads {FORMAT}")
    named: Mapping[str, str] = manifest["files"]
    if odd := sorted(contents.keys() ^ named.keys()):
        raise Foreign(f"{path}: {odd[0]} is {'not named in' if odd[0] in contents else 'only in'} the manifest")
    for name, given in contents.items():
        if cache.sha256_of(given) != named[name]:
            raise Foreign(f"{path}: {name} is not the file that was exported")
        parts = PurePosixPath(name).parts
        if parts[0] not in KINDS or len(parts) < 2 or any(part.startswith(".") for part in parts):
            raise Foreign(f"{path}: {name} is none of {', '.join(KINDS)}")
    return contents


def _entries(contents: Mapping[str, bytes]) -> Iterator[tuple[str, dict[str, bytes]]]:
    """The files of each entry by their names in its folder."""
    found: dict[str, dict[str, bytes]] = {}
    for name, given in contents.items():
        kind, first, *rest = PurePosixPath(name).parts
        if kind == "tune":
            found.setdefault(first, {})["/".join(rest)] = given
    yield from found.items()


def _counted(packed: bytes, contents: Mapping[str, bytes]) -> Moved:
    def count(kind: str, suffix: str) -> int:
        return sum(n.startswith(f"{kind}/") and n.endswith(suffix) for n in contents)

    kernels = count("binaries", ".so") + count("binaries", ".cubin")
    return Moved(cache.sha256_of(packed), sum(1 for _ in _entries(contents)), count("profiles", ""), kernels)
