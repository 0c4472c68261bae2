"""The store of a cache folder: a database of what is looked up, and a folder of files named by what they hold.

`store.sqlite` holds entries (bytes under a kind and a key, with their SHA-256) and every measurement; `blobs` holds
what a compiler or a loader needs as a file. A process has one open connection, which its threads share. The database
has a write-ahead log, so that several processes may write at once and `kill -9` costs nothing that was committed; a
power cut may cost the last few rows, never the file. On a file system of several machines, where such a log does not
work, it has a rollback journal. A file that is damaged or somebody else's is reported and never touched.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import stat
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from weakref import WeakSet

from .errors import DeviceError, Foreign, StoreError, warn
from .folders import below, cache_folder, check_owner, is_writable, kept, own, private, publish

NAME = "store.sqlite"
BLOBS = "blobs"
BUSY_TIMEOUT_S = 60.0
"""How long a writer waits for another process's transaction; each lasts milliseconds."""
FORMAT = 1
"""Of the database, in its header. Others are not read."""

_APPLICATION_ID = 0x63617276  # "carv", in the header of the file
_ENTRIES = """CREATE TABLE entries (
    kind TEXT NOT NULL, key TEXT NOT NULL, sha256 TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (kind, key)) STRICT"""
_SCHEMA = (
    _ENTRIES,
    """CREATE TABLE measurements (
        uuid TEXT PRIMARY KEY, run_id TEXT NOT NULL, candidate TEXT NOT NULL, outcome TEXT NOT NULL,
        operator TEXT NOT NULL, problem TEXT NOT NULL, kernel TEXT NOT NULL, backend TEXT NOT NULL,
        config TEXT NOT NULL, arch TEXT NOT NULL, device TEXT NOT NULL, host TEXT NOT NULL, message TEXT NOT NULL,
        rank INTEGER, predicted_ms REAL, bound TEXT NOT NULL, terms_ms TEXT NOT NULL, rounds_ms TEXT NOT NULL,
        median_ms REAL, ci_low_ms REAL, ci_high_ms REAL, error REAL, conditions TEXT NOT NULL,
        device_info TEXT NOT NULL, versions TEXT NOT NULL, hint TEXT, created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL, UNIQUE (run_id, candidate)) STRICT""",
    "CREATE INDEX measurements_by_operator ON measurements (operator, device, created_at)",
    """CREATE TABLE runs (
        run_id TEXT PRIMARY KEY, run_key TEXT NOT NULL, host TEXT NOT NULL, device TEXT NOT NULL,
        settings TEXT NOT NULL, spent_s REAL NOT NULL, started_at TEXT NOT NULL, finished_at TEXT) STRICT""",
    "CREATE INDEX runs_by_key ON runs (run_key, started_at)",
)
_SELECT = "SELECT key, sha256, body FROM entries WHERE kind = ?"
_NETWORK = re.compile(r"nfs|cifs|smb|9p$|lustre|gpfs|beegfs|ceph|afs|gluster|virtiofs|fuse\.(sshfs|s3|gcs|juicefs)")
"""File systems on which processes of several machines cannot share memory, as a write-ahead log needs."""

_LOCK = threading.RLock()
"""Held while a connection of this process is used or made, and during a fork."""
_STORES: WeakSet[Store] = WeakSet()


class Store:
    """One database. Threads may share it; after a fork each process has a connection of its own. A `fixed` one cannot
    be written and is read as it stands. An `owned` one must pass `check_owner`: DeviceError."""

    def __init__(self, path: Path, *, fixed: bool = False, owned: bool = False) -> None:
        self.path, self.fixed, self.owned = path, fixed, owned
        self._db: sqlite3.Connection | None = None
        self._file: tuple[int, ...] = ()
        with _LOCK:
            _STORES.add(self)

    def close(self) -> None:
        """It is opened again when it is used."""
        with _LOCK:
            if self._db is not None:
                self._db.close()
            self._db = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection, for this thread alone until the block ends. Raises StoreError for what is no database."""
        try:
            with _LOCK:
                yield self._connected()
        except sqlite3.OperationalError as e:
            raise StoreError(
                f"{self.path}: {e}; check that the folder can be written and that the disk has room, "
                "or set CARVER_CACHE_DIR to another folder"
            ) from None
        except sqlite3.DatabaseError as e:
            raise StoreError(
                f"{self.path}: {e}; carver has not changed the file: move it away to start a new one, recover "
                "what is in it with 'sqlite3 FILE .recover', or set CARVER_CACHE_DIR to another folder"
            ) from None
        except UnicodeEncodeError as e:
            raise StoreError(f"{self.path} holds text that is UTF-8 alone: {e}") from None
        except OSError as e:
            why = f"{e.filename or self.path}: {e.strerror or e}; set CARVER_CACHE_DIR to a folder you can write"
            raise StoreError(f"no database: {why}") from None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """All of what is done in the block or nothing, and nobody else's writes in between."""
        with self.reading() as db, _transaction(db):
            yield db

    def _connected(self) -> sqlite3.Connection:
        """The open connection; a new one where the file is no longer the one that was opened."""
        file = self._named()
        if self._db is not None and file == self._file:
            return self._db
        self.close()
        if file and not stat.S_ISREG(file[-1]):
            raise StoreError(f"{self.path} is no plain file: move it away, or set CARVER_CACHE_DIR to another folder")
        if self.owned and file:
            check_owner(self.path)
        if not file:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch(0o600)
        where = str(self.path)
        if self.fixed:  # nobody writes to it: without a log beside it, SQLite must not look for one
            logged = self.path.with_name(f"{self.path.name}-wal").exists()
            where = f"{self.path.resolve().as_uri()}?mode=ro{'' if logged else '&immutable=1'}"
        db = sqlite3.connect(
            where, timeout=BUSY_TIMEOUT_S, isolation_level=None, uri=self.fixed, check_same_thread=False
        )
        try:
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA trusted_schema = OFF")
            self._prepare(db)
        except BaseException:
            db.close()
            raise
        self._db, self._file = db, self._named()
        return db

    def _named(self) -> tuple[int, ...]:
        """What tells the file of the path from another one, and whose it is; empty where there is none."""
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return ()
        return found.st_dev, found.st_ino, found.st_uid, found.st_mode

    def _prepare(self, db: sqlite3.Connection) -> None:
        # tables before the id: another process may create both between the two questions
        table = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchone()
        if table and _pragma(db, "application_id") != _APPLICATION_ID:
            raise StoreError(
                f"{self.path}: an SQLite database of another program (it has table {table['name']!r}); "
                "carver has not changed it: move it away, or set CARVER_CACHE_DIR to another folder"
            )
        if (version := _pragma(db, "user_version")) not in (0, FORMAT):
            raise StoreError(
                f"{self.path}: format {version}, this carver reads {FORMAT}; move it away, or set CARVER_CACHE_DIR to "
                "another folder"
            )
        if self.fixed:
            return
        journal = "delete" if is_shared(self.path) else "wal"
        db.execute(f"PRAGMA synchronous = {'NORMAL' if journal == 'wal' else 'FULL'}")
        if db.execute("PRAGMA journal_mode").fetchone()[0] != journal:
            _set_journal(db, journal)
        if version == FORMAT:
            return
        with _transaction(db):
            if _pragma(db, "user_version") != FORMAT:
                for statement in _SCHEMA:
                    db.execute(statement)
                db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {FORMAT}")

    def get(self, kind: str, keys: Collection[str] | None = None) -> dict[str, bytes | None]:
        """The entries of these keys that there are, or all of that kind by key; None for one that is damaged."""
        with self.reading() as db:
            if keys is None:
                rows = db.execute(f"{_SELECT} ORDER BY key", (kind,)).fetchall()
            else:
                one = f"{_SELECT} AND key = ?"
                rows = [row for key in keys if (row := db.execute(one, (kind, key)).fetchone()) is not None]
        return {key: body if sha256(body).hexdigest() == digest else None for key, digest, body in rows}

    def put(self, kind: str, key: str, body: bytes) -> None:
        """Committed on return, in the place of what was there."""
        with self.writing() as db:
            insert(db, [(kind, key, body)])

    def drop(self, kind: str, keys: Collection[str]) -> None:
        with self.writing() as db:
            db.executemany("DELETE FROM entries WHERE kind = ? AND key = ?", [(kind, key) for key in keys])


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # a full disk has rolled back by itself
            db.execute("ROLLBACK")
        raise


def insert(db: sqlite3.Connection, rows: Iterable[tuple[str, str, bytes]]) -> None:
    """Entries of kind, key and body, in the place of what was there; in a block of `Store.writing`."""
    db.executemany(
        "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)",
        [(kind, key, sha256(body).hexdigest(), body) for kind, key, body in rows],
    )


def _pragma(db: sqlite3.Connection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])


def _set_journal(db: sqlite3.Connection, mode: str) -> None:
    """Where two processes do so at once SQLite gives up without waiting for its timeout."""
    until = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            db.execute(f"PRAGMA journal_mode = {mode}")
            return
        except sqlite3.OperationalError as e:
            if e.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)


def is_shared(path: Path) -> bool:
    """Whether the file is on a file system of several machines, as far as the system says."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return False
    found = [(fields[4], fields[fields.index("-") + 1]) for line in mounts if "-" in (fields := line.split())]
    where = str(path.resolve())
    above = [(point, kind) for point, kind in found if where.startswith(f"{point.rstrip('/')}/")]
    return bool(above) and bool(_NETWORK.match(max(above, key=lambda each: len(each[0]))[1]))


_opened: dict[Path, Store] = {}
"""Of the cache folder of this process, and of the one it has where that cannot be written."""


def _store(path: Path, fixed: bool) -> Store:
    with _LOCK:
        found = _opened.get(path)
        if found is None or found.fixed != fixed:
            for other in [p for p in _opened if p == path or p.parent not in (cache_folder(), own())]:
                _opened.pop(other).close()
            found = _opened[path] = Store(path, fixed=fixed, owned=True)
        return found


def to_write() -> Store:
    """The store of the cache folder; where that cannot be written, of a folder that ends with this process. Raises
    DeviceError where others could put into it what we would run."""
    return _store(private() / NAME, False)


def to_read() -> list[Store]:
    """The stores to look in, the cache folder's first; none where nothing was put into them yet."""
    home, mine = kept(), own()
    there = [(home, not is_writable(home)), *([(mine, False)] if mine else [])]
    return [_store(folder / NAME, fixed) for folder, fixed in there if (folder / NAME).exists()]


def get(kind: str, keys: Collection[str] | None = None) -> dict[str, bytes | None]:
    """`Store.get` of the cache. A store that cannot be read has nothing, with a warning: what it held is made anew.
    Raises DeviceError where others than this user can write to the cache."""
    found: dict[str, bytes | None] = {}
    for store in to_read():
        try:
            found |= store.get(kind, keys)
        except StoreError as e:
            warn(f"nothing is read from the store: {e}")
    return found


def put(kind: str, key: str, body: bytes) -> bool:
    """Whether the store took it: where it does not, it is made again another time."""
    try:
        to_write().put(kind, key, body)
    except (StoreError, OSError):
        return False
    return True


REMADE = ("compiled", "binary")
"""Kinds of entries that compilers make again."""


def clear() -> None:
    """Delete what compilers made, and the files of the store."""
    there = to_write()
    with there.writing() as db:
        db.execute(f"DELETE FROM entries WHERE kind IN ({', '.join('?' * len(REMADE))})", REMADE)
    with there.reading() as db:
        db.execute("VACUUM")
    shutil.rmtree(there.path.parent / BLOBS, ignore_errors=True)


def _before_fork() -> None:
    """No connection goes into another process: SQLite forbids it."""
    _LOCK.acquire()
    for store in list(_STORES):
        store.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


# files


def unpack(files: Mapping[str, bytes]) -> Path:
    """The first of the files, all in a folder of the store that is named after their contents. Whatever differs there,
    or others could write to, is made anew."""
    digest = sha256()
    for name, content in files.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    names = BLOBS, digest.hexdigest()[:32]
    first = next(iter(files))
    home = kept(*names)
    if all(_holds(home / below(name), content) for name, content in files.items()):
        return home / first
    home = private(*names)
    for name, content in files.items():
        private(*names, *below(name).parts[:-1])
        if not _holds(home / below(name), content):
            publish(home / below(name), content)
    return home / first


def _holds(path: Path, content: bytes) -> bool:
    try:
        check_owner(path)
        return regular(path) == content
    except (OSError, DeviceError, Foreign):
        return False


MOST_BYTES = 1 << 28
"""Of one file."""


def regular(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """The content of a file, which must be no link, pipe or device and of reasonable size. Raises Foreign."""
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_size > most_bytes:
        raise Foreign(f"{path} is no plain file of at most {most_bytes >> 20} MiB")
    return path.read_bytes()


SUFFIXES = ("", ".so", ".cubin", ".hsaco", ".s")


def names_of(content: bytes) -> list[str]:
    """What a file of that content may be called in the store: after its SHA-256."""
    return [f"{sha256(content).hexdigest()}{suffix}" for suffix in SUFFIXES]


def blob(content: bytes, suffix: str) -> Path:
    """The file of the store with that content, which others cannot have changed."""
    name = f"{sha256(content).hexdigest()}{suffix}"
    if _holds(path := kept(BLOBS) / name, content):
        return path
    if not _holds(path := private(BLOBS) / name, content):
        publish(path, content)
    return path


def blob_of(name: str, digest: str) -> Path | None:
    """The file of that name in the store, if it still has that SHA-256."""
    for home in (kept(BLOBS), *([mine / BLOBS] if (mine := own()) else [])):
        with suppress(OSError, DeviceError, Foreign):
            check_owner(path := home / below(name))
            if sha256(regular(path)).hexdigest() == digest:
                return path
    return None


# entries in one file, for another cache


class Row(NamedTuple):
    kind: str
    key: str
    body: bytes


_PACKED = 0x63617261  # "cara", in the header of the file


def pack(rows: Iterable[Row]) -> bytes:
    """Entries as a database of their own: the same entries give the same bytes."""
    with closing(sqlite3.connect(":memory:")) as db:
        for statement in (f"PRAGMA application_id = {_PACKED}", f"PRAGMA user_version = {FORMAT}", _ENTRIES):
            db.execute(statement)
        insert(db, sorted(rows))
        db.commit()
        return db.serialize()


def packed(content: bytes, what: object, most_rows: int, most_bytes: int) -> list[Row]:
    """What `pack` wrote, each entry checked. Raises Foreign."""
    with closing(sqlite3.connect(":memory:")) as db:
        try:
            db.deserialize(content)
            db.execute("PRAGMA trusted_schema = OFF")
            db.execute("PRAGMA cell_size_check = ON")
            tables = [row[0] for row in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")]
            if tables != [_ENTRIES] or _pragma(db, "application_id") != _PACKED:
                raise Foreign(f"{what} is no archive of carver's")
            if (version := _pragma(db, "user_version")) != FORMAT:
                raise Foreign(f"{what} has format {version}; this carver reads {FORMAT}")
            count, size = db.execute("SELECT count(*), total(length(body)) FROM entries").fetchone()
            if count > most_rows or size > most_bytes:
                raise Foreign(f"{what} holds more than {most_rows:,} entries or {most_bytes >> 20} MiB")
            rows = db.execute("SELECT kind, key, sha256, body FROM entries ORDER BY kind, key").fetchall()
        except (sqlite3.Error, OverflowError, ValueError, MemoryError) as e:
            raise Foreign(f"{what} is no archive of carver's: {str(e) or 'it is empty'}") from None
    for kind, key, digest, body in rows:
        if not isinstance(body, bytes) or sha256(body).hexdigest() != digest:
            raise Foreign(f"{what}: the entry {kind} {str(key)[:12]!r} is not what was exported")
    return [Row(str(kind), str(key), body) for kind, key, _, body in rows]
