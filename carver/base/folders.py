"""Folders for the cache, for the user's own files and for locks; leases that say which process may use what; and what
this process may use of its host.

In a checkout `arch/` and `templates/` stand beside the package. In a wheel they stand inside it, as `carver/_arch/` and
`carver/_templates/` (see `package_dir` in setup.py)."""

from __future__ import annotations

import atexit
import contextlib
import os
import platform
import stat
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from .errors import CarverError, DeviceError, Foreign
from .given import printable


def memory_bytes() -> int:
    """Memory of the whole host."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def quota_cores(root: Path = Path("/")) -> int:
    """Cores that a container may keep busy, whichever they are; as many as there are without a quota."""
    try:
        quota, period = (root / "sys/fs/cgroup/cpu.max").read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return sys.maxsize
    return max(1, int(quota) // int(period)) if quota.isdigit() else sys.maxsize


def cores_available() -> int:
    """Number of cores that this process may use: those of its affinity, or fewer where its container has a quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, quota_cores())


_PACKAGE = Path(__file__).resolve().parents[1]


@lru_cache(maxsize=2)
def folder(name: Literal["arch", "templates"]) -> Path:
    """The real directory of a shipped data folder; compilers get it as an include path."""
    installed, checkout = _PACKAGE / f"_{name}", _PACKAGE.parent / name
    for path in (installed, checkout):
        if path.is_dir():
            return path
    raise FileNotFoundError(
        f"carver's {name}/ folder is missing: looked for {installed} (wheel) and {checkout} (checkout)"
    )


@cache
def shipped(file: str) -> Any:
    """The tables of a data file that ships with carver: `templates/<file>.toml`, read once."""
    return tomllib.loads((folder("templates") / f"{file}.toml").read_text(encoding="utf-8"))


def cache_folder() -> Path:
    """`CARVER_CACHE_DIR`, else `carver` in the platform's cache folder; not created here."""
    return _chosen("CARVER_CACHE_DIR") or _usual("cache", "XDG_CACHE_HOME", "~/.cache")


def config_folder() -> Path:
    """The user's own descriptors (`arch/`) and declarations of kernels (`templates/`): `CARVER_CONFIG_DIR`, else
    `carver` in the platform's folder for settings; not created here."""
    return _chosen("CARVER_CONFIG_DIR") or _usual("config", "XDG_CONFIG_HOME", "~/.config", roaming=True)


def _usual(kind: str, variable: str, folder: str, **how: bool) -> Path:
    """The folder of the platform, as `platformdirs` has it, whose import is a tenth of a first query on Linux."""
    if sys.platform == "linux":
        home = os.environ.get(variable, "").strip() or os.path.expanduser(folder)  # noqa: PTH111 - no error without home
        return Path(home, "carver")
    import platformdirs

    found: Path = getattr(platformdirs, f"user_{kind}_path")("carver", appauthor=False, **how)
    return found


def _chosen(variable: str) -> Path | None:
    """The folder that an environment variable names, if any. Raises DeviceError for `~name` of no user."""
    chosen = os.environ.get(variable)
    try:
        return Path(chosen).expanduser() if chosen else None
    except RuntimeError:
        raise DeviceError(f"{variable}={chosen}: there is no such user, or no home folder; name a folder") from None


def own_files(folder: Path, error: type[CarverError]) -> list[Path]:
    """The TOML files of a folder of the user's settings, by name. Raises `error` for what is no plain file, and for
    what everybody can write to: a declaration names sources, and what is compiled of them is run."""
    found = sorted(folder.glob("*.toml"))
    for path in (folder, *found) if found else ():
        try:
            mode = path.stat().st_mode
        except OSError as e:
            raise error(f"{path} cannot be read: {e.strerror}") from None
        if path != folder and not stat.S_ISREG(mode):
            raise error(f"{path} is no plain file: take it out of {folder}")
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX and sys.platform != "win32":
            raise error(f"{path} can be written to by everybody, and carver would use what they write: 'chmod o-w' it")
    return found


def private(*names: str) -> Path:
    """The folder of these names in the cache, made if it is not there, for this user alone whatever the umask says.

    Where the cache cannot be written, or its disk is full, it is one of this process, which ends with it. Raises
    DeviceError where others could put into it, or into the cache, what we would run.
    """
    folder = cache_folder().joinpath(*names)
    if is_writable(folder):
        with contextlib.suppress(OSError):
            return _made(cache_folder(), names)
    return _made(_own(), names)


ROOM_BYTES = 1 << 20
"""Less than this on a disk is a full one: a database and a result would not fit."""


def is_writable(folder: Path) -> bool:
    """Whether this user may put into the folder, or make it, and the disk has room."""
    import shutil

    there = existing(folder)
    return os.access(there, os.W_OK) and shutil.disk_usage(there).free >= ROOM_BYTES


def existing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    return next(p for p in (folder, *folder.parents) if p.exists())


def kept(*names: str) -> Path:
    """The folder of these names in the cache, to read from; it may not be there. Raises DeviceError where this user may
    not read it, or others could have put into it what we would run."""
    folder = cache_folder()
    try:
        for place in accumulate(names, Path.joinpath, initial=folder):
            if place.exists():
                check_owner(place)
        folder.joinpath(*names).exists()
    except PermissionError:
        raise DeviceError(
            f"the cache folder {folder} is another user's, who lets nobody read it: have them run 'chmod -R go+rX "
            f"{folder}', or set CARVER_CACHE_DIR to another folder"
        ) from None
    return folder.joinpath(*names)


def own() -> Path | None:
    """The folder of this process alone, where it has one since the cache could not be written."""
    return _own() if _own.cache_info().currsize else None


@cache
def _own() -> Path:
    import tempfile

    held = contextlib.ExitStack()
    atexit.register(held.close)
    return held.enter_context(scratch(Path(tempfile.gettempdir()), "carver-cache-"))


def _made(folder: Path, names: Sequence[str]) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    cache = folder
    for place in accumulate(names, Path.joinpath, initial=folder):
        try:
            place.mkdir(mode=0o700)
            place.chmod(0o700)
        except FileExistsError:
            if place != cache and not place.is_dir():
                raise
            check_owner(place)
        folder = place
    return folder


def check_owner(path: Path) -> None:
    """Raises DeviceError unless what is there belongs to this user, or to root, and only its owner may write to it.
    `CARVER_TRUST_CACHE` names a cache folder of another user that is trusted all the same, as do `trusted`."""
    if sys.platform == "win32":
        return
    found = path.stat()
    foreign = found.st_uid not in (os.getuid(), 0)
    if (foreign or found.st_mode & 0o022) and cache_folder().resolve() not in trusted():
        whose = "belongs to another user" if foreign else "can be written to by others"
        raise DeviceError(
            f"the cache folder {path} {whose}, and compiled code in it would be run: remove it, make it yours "
            "('chmod go-w'), set CARVER_CACHE_DIR to another folder, or, if you trust whoever can write there, set "
            f"CARVER_TRUST_CACHE={cache_folder()} or run 'carver cache trust {cache_folder()}'"
        )


def trusted() -> list[Path]:
    """Cache folders whose owners this user trusts: `CARVER_TRUST_CACHE`, and what `trust` was told."""
    path, told = _trusted_file(), list[Path]()
    with contextlib.suppress(OSError):
        if path.stat().st_uid in (os.getuid(), 0) and not path.stat().st_mode & 0o022:
            told = _told(path)
    chosen = _chosen("CARVER_TRUST_CACHE")
    return [each.resolve() for each in (chosen, *told) if each]


def trust(folder: Path, drop: bool = False) -> None:
    """From now on trust whoever can write to that cache folder, or no more."""
    path = _trusted_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    others = [each for each in (_told(path) if path.is_file() else []) if each != folder.resolve()]
    publish(path, b"".join(os.fsencode(each) + b"\n" for each in (*others, *(() if drop else (folder.resolve(),)))))


def _trusted_file() -> Path:
    """What `trust` was told: one folder a line."""
    return config_folder() / "trusted_caches"


def _told(path: Path) -> list[Path]:
    return [Path(os.fsdecode(line)) for line in path.read_bytes().splitlines() if line]


def publish(path: Path, content: bytes, mode: int = 0o600, *, lasting: bool = False) -> None:
    """Write a file in one step: readers see the old one or the new one, whole; if `lasting`, after a power cut too."""
    fresh = path.with_name(f".{os.urandom(16).hex()}")
    try:
        fresh.touch(0o600)
        with fresh.open("wb") as file:
            file.write(content)
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        fresh.chmod(mode)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def below(name: str) -> PurePosixPath:
    """The name of a file as a path that does not lead out of the folder that it is in. Raises Foreign."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or not path.name:
        raise Foreign(f"{name!r} is no file below the folder of an entry")
    return path


def sweep(home: Path, prefix: str) -> None:
    """Remove the folders that `scratch` made there for processes that have died."""
    import fcntl
    import shutil

    for lock in home.glob(f"{prefix}*.lock"):
        with contextlib.suppress(OSError), lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            lock.unlink()


@contextmanager
def scratch(home: Path, prefix: str) -> Iterator[Path]:
    """A new folder in `home` for the length of the block. Those of processes that died in theirs are removed."""
    import fcntl
    import shutil
    import tempfile

    sweep(home, prefix)
    while True:
        file, name = tempfile.mkstemp(".lock", prefix, home)
        lock, folder = Path(name), Path(name).with_suffix("")
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not _is(file, lock):
                continue  # swept before it was locked
            folder.mkdir(mode=0o700)
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
                lock.unlink(missing_ok=True)
                fcntl.flock(file, fcntl.LOCK_UN)  # a forked child has the file open too
            return
        finally:
            os.close(file)


def lock_folder() -> Path:
    """`CARVER_LOCK_DIR`, else where all users of this machine keep locks: containers that share a GPU share this."""
    if chosen := _chosen("CARVER_LOCK_DIR"):
        return chosen
    import tempfile

    system = (p for p in map(Path, ("/run/lock", "/var/lock")) if os.access(p, os.W_OK))
    return next(system, Path(tempfile.gettempdir()))


@contextmanager
def lease(
    name: str, *, wait_s: float = 0.0, waiting: Callable[[str], None] | None = None, shared: bool = False,
    beside: Path | None = None,
) -> Iterator[None]:  # fmt: skip
    """Hold `name` against all other processes with this cache folder, until the block or the process ends.

    With `shared`, against those of every user of this machine: for a device. With `beside`, against all that share this
    file, whatever their caches, by a hidden one that lies beside it meanwhile. While another holds it, waits up to
    `wait_s` [s] and tells `waiting` once who that is, then raises DeviceError.
    """
    import fcntl
    from hashlib import sha256

    digest = sha256(name.encode()).hexdigest()[:32]
    if beside is not None:
        path = beside.with_name(f".{beside.name}.lock")
    else:
        path = lock_folder() / f"carver-{digest}" if shared else private("leases") / digest
    deadline, told = time.monotonic() + wait_s, False
    while True:
        with _opened(path, shared) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = printable(os.pread(file, 200, 0).decode(errors="replace")) or "another process"
            else:
                if not _is(file, path):
                    continue  # its last holder has just removed it
                with contextlib.suppress(OSError):  # of another user: locked all the same
                    os.ftruncate(file, 0)
                    os.pwrite(file, f"process {os.getpid()} on {platform.node()}".encode(), 0)
                try:
                    yield
                finally:
                    if not shared:
                        path.unlink(missing_ok=True)
                    fcntl.flock(file, fcntl.LOCK_UN)  # a forked child has the file open too
                return
        if time.monotonic() >= deadline:
            raise DeviceError(f"{name} is in use by {holder}; wait for it, or end that process")
        if waiting and not told:
            waiting(holder)
            told = True
        time.sleep(0.1)


@contextmanager
def _opened(path: Path, shared: bool) -> Iterator[int]:
    """A descriptor of the lock file. One that another user has made can be read, which is enough to lock it."""
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o644 if shared else 0o600)
        except PermissionError:
            file = os.open(path, os.O_RDONLY | flags)
    except OSError as e:
        other = "CARVER_LOCK_DIR" if shared else "CARVER_CACHE_DIR"
        raise DeviceError(f"the lock {path} cannot be opened: {e.strerror}; set {other} to another folder") from None
    try:
        yield file
    finally:
        os.close(file)


def _is(fd: int, path: Path) -> bool:
    """Whether the open file is still the one of that path."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
