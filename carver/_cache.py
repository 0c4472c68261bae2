"""Where carver keeps what it can make again: compiled kernels and measurements."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """`CARVER_CACHE_DIR`, else `carver` in the platform's cache folder; not created here.

    Source: XDG Base Directory Specification; Apple, File System Programming Guide; Windows KNOWNFOLDERID.
    """
    if chosen := os.environ.get("CARVER_CACHE_DIR"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "carver"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "carver" / "Cache"
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(xdg) if xdg.startswith("/") else Path.home() / ".cache") / "carver"
