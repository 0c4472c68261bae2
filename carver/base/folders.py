"""Where carver keeps what it can make again: compiled kernels and measurements."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from .errors import DeviceError


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


def private(folder: Path) -> Path:
    """The folder, made if it is not there; refused where others could put into it what we would run."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    stat = folder.stat()
    if sys.platform != "win32" and (stat.st_uid != os.getuid() or stat.st_mode & 0o022):
        whose = "belongs to another user" if stat.st_uid != os.getuid() else "can be written to by others"
        raise DeviceError(
            f"the cache folder {folder} {whose}, and compiled code in it would be run: remove it, make it yours "
            "('chmod go-w'), or set CARVER_CACHE_DIR to another folder"
        )
    return folder


@contextmanager
def lease(name: str, *, wait_s: float = 0.0, waiting: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold `name` against all other processes with this cache folder, until the block or the process ends.

    While another holds it, waits up to `wait_s` [s] and tells `waiting` once who that is, then raises DeviceError.
    """
    import fcntl

    path = cache_folder() / "leases" / sha256(name.encode()).hexdigest()[:32]
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline, told = time.monotonic() + wait_s, False
    while True:
        with path.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = file.read() or "another process"
            else:
                if _is(file.fileno(), path):
                    file.truncate(0)
                    file.write(f"process {os.getpid()} on {platform.node()}")
                    file.flush()
                    try:
                        yield
                    finally:
                        path.unlink(missing_ok=True)
                        fcntl.flock(file, fcntl.LOCK_UN)  # a forked child has the file open too
                    return
                continue  # its last holder has just removed it
        if time.monotonic() >= deadline:
            raise DeviceError(f"{name} is in use by {holder}; wait for it, or end that process")
        if waiting and not told:
            waiting(holder)
            told = True
        time.sleep(0.1)


def _is(fd: int, path: Path) -> bool:
    """Whether the open file is still the one of that path."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
