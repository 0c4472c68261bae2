"""Compile many kernels side by side, each bounded in time and memory; what was compiled before comes from disk."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from ..base.errors import CompileError, ConfigError
from . import store

SECONDS = 120.0
READER = 4
"""Version of what is read off machine code; code that is kept on disk is read again where it differs."""
BATCH = 24
"""Codes that one process disassembles at once."""
MEMORY_BYTES = 8 * 2**30
"""Of address space, of a compiler."""

Request = Mapping[str, Any]
Reply = dict[str, Any]
"""What `worker.answer` gives, or {"refused": sentence}."""


@dataclass
class _Worker:
    process: subprocess.Popen[str]
    key: str = ""
    since: float = 0.0

    @classmethod
    def start(cls, memory_bytes: int) -> _Worker:
        command = [sys.executable, "-m", "carver.compiled.worker"]
        path = [p for p in sys.path if p]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        worker = cls(process)
        worker.send([memory_bytes, *path])
        return worker

    def send(self, message: Any) -> None:
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the process is gone: its end of the other pipe says so

    @property
    def replies(self) -> IO[str]:
        assert self.process.stdout
        return self.process.stdout

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def compiled(
    requests: Mapping[str, Request], isa: str, matrix: Sequence[Sequence[Any]], *, processes: int | None = None,
    seconds: float = SECONDS, memory_bytes: int = MEMORY_BYTES, progress: bool = False,
) -> dict[str, Reply]:  # fmt: skip
    """Replies by key, each with what was read off the code, or why there is none.

    Replies are kept on disk by key, those of a compiler that was ended excepted. `isa` and `matrix`: as
    `machine.read_machines` takes them. Raises ConfigError where a kernel cannot be imported in another process.
    """
    bounds = processes or _cores(), seconds, memory_bytes
    found = {key: reply for key in requests if (reply := store.load(key)) is not None}
    missing = {key: requests[key] for key in requests if key not in found}
    with _shown(progress and bool(missing), len(missing)) as step:
        for key, reply in _side_by_side(missing, *bounds):
            if "error" in reply:
                raise ConfigError(reply["error"])
            found[key] = reply
            step()
    unread = [key for key, reply in found.items() if "refused" not in reply and reply.get("reader") != READER]
    size = max(1, min(BATCH, -(-len(unread) // bounds[0])))
    batches = {str(i): unread[i : i + size] for i in range(0, len(unread), size)}
    asked = {
        i: {"codes": [found[key]["code"] for key in keys], "isa": isa, "matrix": matrix} for i, keys in batches.items()
    }
    for i, reply in _side_by_side(asked, *bounds):
        if "machines" not in reply:
            raise CompileError(reply.get("error") or reply["refused"])
        for key, machine in zip(batches[i], reply["machines"], strict=True):
            found[key] |= {"machine": machine, "reader": READER}
    for key in {**missing, **dict.fromkeys(unread)}:
        if not found[key].pop("passing", False):
            store.save(key, found[key])
    return found


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _side_by_side(
    requests: Mapping[str, Request], processes: int, seconds: float, memory_bytes: int
) -> Iterator[tuple[str, Reply]]:
    keys = list(requests)
    waiting = list(reversed(keys))
    workers: list[_Worker] = []
    selector = selectors.DefaultSelector()

    def give(worker: _Worker | None) -> None:
        if not waiting:
            return
        if worker is None:
            worker = _Worker.start(memory_bytes)
            workers.append(worker)
            selector.register(worker.replies, selectors.EVENT_READ, worker)
        worker.key, worker.since = waiting.pop(), time.monotonic()
        worker.send(requests[worker.key])

    def drop(worker: _Worker) -> str:
        selector.unregister(worker.replies)
        worker.end()
        workers.remove(worker)
        key, worker.key = worker.key, ""
        return key

    try:
        for _ in range(min(processes, len(keys))):
            give(None)
        while any(worker.key for worker in workers):
            for ready, _ in selector.select(timeout=0.5):
                worker: _Worker = ready.data
                if line := worker.replies.readline():
                    key, worker.key = worker.key, ""
                    yield key, json.loads(line)
                    give(worker)
                else:
                    code = worker.process.wait()
                    yield drop(worker), _passing(f"the compiler's process ended with {code}, out of memory perhaps")
                    give(None)
            for worker in [w for w in workers if w.key and time.monotonic() - w.since > seconds]:
                yield drop(worker), _passing(f"not compiled within {seconds:.0f} s")
                give(None)
    finally:
        for worker in workers:
            worker.end()
        selector.close()


def _passing(sentence: str) -> Reply:
    """A refusal that another run need not meet."""
    return {"refused": sentence, "passing": True}


@contextmanager
def _shown(wanted: bool, total: int) -> Iterator[Callable[[], None]]:
    """A bar that a call moves on by one."""
    if not wanted:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("compiling"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.advance(task)
