"""Sources that came as text, or from another host, as files that a compiler can read."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from pathlib import Path

from ..base.errors import DeviceError
from ..base.folders import below, check_owner, kept, private
from .render import Source


def bundle(source: Source) -> dict[str, bytes]:
    """A source and what it includes from its folder or below, by the names there, the source first.

    What it includes from elsewhere stays there: carver's own headers, those of a flag's folder.
    """
    home = source.path.parent
    found = {path: content for _, path, content in source.files()}
    return {path.relative_to(home).as_posix(): found[path] for path in found if path.is_relative_to(home)}


def unpack(files: Mapping[str, bytes]) -> Path:
    """The first of the files, all in a folder of the cache that is named after their contents.

    Whatever differs there, or others could write to, is made anew.
    """
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    names = "sources", digest.hexdigest()[:32]
    first = next(iter(files))
    home = kept(*names)
    if all(_is_unchanged(home / below(name), content) for name, content in files.items()):
        return home / first
    home = private(*names)
    for name, content in files.items():
        path, folder = home / below(name), private(*names, *below(name).parts[:-1])
        if not _is_unchanged(path, content):
            fresh = folder / f".{uuid.uuid4().hex}"
            fresh.touch(0o600)
            fresh.write_bytes(content)
            fresh.replace(path)
    return home / first


def _is_unchanged(path: Path, content: bytes) -> bool:
    try:
        check_owner(path)
        return path.read_bytes() == content
    except (FileNotFoundError, NotADirectoryError, DeviceError):
        return False
