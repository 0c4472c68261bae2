"""The store: what many threads, processes, forks and users do with one, and what is damaged."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from carver.base import folders, store
from carver.base.errors import DeviceError, Foreign, StoreError

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("CARVER_CACHE_DIR", str(tmp_path / "cache"))
    folders._own.cache_clear()
    yield tmp_path / "cache"
    folders._own.cache_clear()


def test_nothing_is_made_by_looking(home: Path) -> None:
    assert store.get("kind") == {} and store.get("kind", ["a"]) == {} and not home.exists()


def test_the_last_writer_stays(home: Path) -> None:
    for body in (b"one", b"two"):
        assert store.put("kind", "a", body)
    store.put("other", "a", b"three")
    assert store.get("kind") == {"a": b"two"} and store.get("other", ["a", "b"]) == {"a": b"three"}
    store.to_write().drop("kind", store.get("kind"))
    assert store.get("kind") == {} and store.get("other")
    assert home.stat().st_mode & 0o077 == 0 and (home / store.NAME).stat().st_mode & 0o077 == 0


def test_threads_share_one_connection() -> None:
    def work(name: int) -> bool:
        for i in range(20):
            store.put("kind", f"{name}", str(i).encode())
            if store.get("kind", [f"{name}"]) != {f"{name}": str(i).encode()}:
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert len(store.get("kind")) == 8 and len(list(store._STORES)) >= 1
    assert sum(each._db is not None for each in store._opened.values()) == 1


FORKING = """
import os, sys, threading
from carver.base import store
store.put("kind", "before", b"x")
stop = threading.Event()
def busy():
    while not stop.is_set():
        store.put("kind", "busy", b"y")
threads = [threading.Thread(target=busy) for _ in range(2)]
for t in threads:
    t.start()
children = []
for i in range(20):
    pid = os.fork()
    if not pid:
        ok = store.get("kind", ["before"]) == {"before": b"x"} and store.put("kind", f"child {i}", b"z")
        os._exit(0 if ok else 1)
    children.append(pid)
ended = [os.waitpid(pid, 0)[1] for pid in children]
stop.set()
for t in threads:
    t.join()
print(sum(ended), len(store.get("kind")))
"""


def test_forks_of_a_process_with_busy_threads_have_connections_of_their_own() -> None:
    done = subprocess.run([sys.executable, "-c", FORKING], check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.split() == ["0", "22"], done.stderr


WRITING = """
import sys
from carver.base import store
for i in range(10**6):
    assert store.put("kind", f"{sys.argv[1]} {i}", b"x" * 3000)
    print(i, flush=True)
"""


def test_a_kill_loses_nothing_that_was_put() -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITING, name], stdout=subprocess.PIPE, text=True, cwd=ROOT)
               for name in "ab"]  # fmt: skip
    for writer in writers:
        assert writer.stdout
        while writer.stdout.readline().strip() != "40":
            pass
        os.kill(writer.pid, signal.SIGKILL)
    last = [int((writer.communicate()[0].split() or ["40"])[-1]) for writer in writers]
    found = store.get("kind")
    assert None not in found.values()
    assert {f"{name} {i}" for name, count in zip("ab", last, strict=True) for i in range(count + 1)} <= found.keys()


def test_a_cache_that_is_removed_meanwhile_is_made_anew(home: Path) -> None:
    store.put("kind", "a", b"x")
    shutil.rmtree(home)
    assert store.get("kind") == {} and store.put("kind", "b", b"y") and store.get("kind") == {"b": b"y"}


@pytest.mark.parametrize("how", ["another program", "a newer one", "cut", "a pipe", "a folder", "nonsense"])
def test_what_is_no_store_is_left_alone(how: str, home: Path) -> None:
    store.put("kind", "a", b"x" * 100_000)
    store.to_write().close()
    path = home / store.NAME
    if how in ("another program", "a newer one"):
        with sqlite3.connect(path) as db:
            db.execute(f"PRAGMA {'application_id' if how == 'another program' else 'user_version'} = 7")
        db.close()
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:5000])
    elif how == "nonsense":
        path.write_bytes(b"nonsense " * 1000)
    else:
        path.unlink()
        path.mkdir() if how == "a folder" else os.mkfifo(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.warns(UserWarning, match="nothing is read from the store"):
        assert store.get("kind", ["a"]) == {}
    with pytest.raises(StoreError, match="move it away"):
        store.to_write().put("kind", "b", b"y")
    assert not store.put("kind", "b", b"y"), "what can be made again costs no ranking"
    assert not path.is_file() or path.read_bytes() == before


def test_a_full_disk_is_no_end(home: Path) -> None:
    store.put("kind", "a", b"x")
    with store.to_write().reading() as db:
        db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0]}")
    assert not store.put("kind", "b", b"x" * 1_000_000)
    assert store.get("kind") == {"a": b"x"}


def test_others_who_can_write_to_it_are_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("kind", "a", b"x")
    (home / store.NAME).chmod(0o666)
    for ask in (lambda: store.get("kind"), lambda: store.put("kind", "b", b"y")):
        with pytest.raises(DeviceError, match="can be written to by others"):
            ask()
    monkeypatch.setenv("CARVER_TRUST_CACHE", str(home))
    assert store.get("kind") == {"a": b"x"}


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_store_of_another_user_is_refused(home: Path) -> None:
    store.put("kind", "a", b"x")
    os.chown(home / store.NAME, 4321, -1)
    with pytest.raises(DeviceError, match="belongs to another user"):
        store.get("kind")


def test_a_cache_that_cannot_be_written_is_read_and_the_rest_stays_in_the_process(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("kind", "a", b"x")
    store.to_write().close()
    for module in (folders, store):
        monkeypatch.setattr(module, "is_writable", lambda folder: False)
    assert store.put("kind", "b", b"y") and store.get("kind") == {"a": b"x", "b": b"y"}
    assert store.to_write().path.parent != home and store.blob(b"content", ".so").read_bytes() == b"content"
    assert [p.name for p in home.iterdir()] == [store.NAME]
    with pytest.raises(StoreError, match="readonly"):
        store.to_read()[0].put("kind", "b", b"y")


def test_on_a_file_system_of_several_machines_there_is_no_log_beside_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = {"/": "ext4", f"{home.parent}": "nfs4", f"{home.parent}2": "ext4"}
    mounts = "".join(f"1 0 0:1 / {point} rw - {kind} a rw\n" for point, kind in points.items())
    read = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda path, **how: mounts if str(path) == "/proc/self/mountinfo" else read(path, **how)
    )
    assert not store.is_shared(Path(f"{home.parent}2") / "x") and not store.is_shared(Path("/x"))
    assert store.is_shared(home / store.NAME)
    store.put("kind", "a", b"x")
    assert [p.name for p in home.iterdir()] == [store.NAME] and store.get("kind") == {"a": b"x"}
    with store.to_write().reading() as db:
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    monkeypatch.undo()


@pytest.mark.parametrize("how", ["a pipe", "a link", "a device"])
def test_a_file_of_the_store_is_a_plain_file(how: str, home: Path) -> None:
    path = store.blob(b"content", ".so")
    digest = path.stem
    assert store.blob_of(path.name, digest) == path == store.blob(b"content", ".so")
    path.unlink()
    os.mkfifo(path) if how == "a pipe" else path.symlink_to("/dev/zero" if how == "a device" else __file__)
    assert store.blob_of(path.name, digest) is None
    with pytest.raises(Foreign, match="no plain file"):
        store.regular(path)
    assert store.blob(b"content", ".so").read_bytes() == b"content" and not path.is_symlink()


def test_the_same_entries_are_the_same_bytes() -> None:
    rows = [store.Row("b", "x", b"1" * 9000), store.Row("a", "y", b"2")]
    packed = store.pack(rows)
    assert packed == store.pack(rows[::-1]) and store.packed(packed, "it", 10, 10**6) == sorted(rows)
    with pytest.raises(Foreign, match="more than 1 entries"):
        store.packed(packed, "it", 1, 10**6)


def test_one_thread_that_waits_keeps_no_lock_when_it_is_interrupted(home: Path) -> None:
    with pytest.raises(KeyboardInterrupt), store.to_write().writing():
        raise KeyboardInterrupt
    other = threading.Thread(target=store.put, args=("kind", "a", b"x"))
    other.start()
    other.join(10)
    assert store.get("kind") == {"a": b"x"}
