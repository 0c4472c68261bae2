"""Compile many kernels in parallel, each limited in time and memory; earlier results come from disk."""

from __future__ import annotations

import json
import os
import re
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Protocol

from ..base import warden
from ..base.errors import CompileError, ConfigError
from ..base.given import fits, json_of, shown
from ..base.host import cores_available
from ..base.table import progress_bars
from . import store

WORKER = "carver.compiled.worker"
"""The program of each process."""
SECONDS = 120.0
BATCH = 24
"""Codes that one process disassembles at once."""
MEMORY_BYTES = 8 * 2**30
"""That a compiler may write to."""
KILL_S = 30.0
"""What the warden gets to end a process and all that it started. [s]"""

Request = Mapping[str, Any]
Reply = dict[str, Any]
"""What `worker.answer` gives, or {"refused": sentence}."""


@dataclass
class _Worker:
    process: subprocess.Popen[str]
    said: IO[bytes]
    """What it and its compilers print beside their answers."""
    key: str = ""
    since: float = 0.0

    @classmethod
    def start(cls, memory_bytes: int) -> _Worker:
        if getattr(getattr(sys.modules["__main__"], "__spec__", None), "name", "") == WORKER:
            raise SystemExit(
                "a process that compiles imports this file to find a kernel, and the file ranks kernels when it is "
                'imported: put that below `if __name__ == "__main__":`'
            )
        command = [*warden.command(), sys.executable, "-P", "-m", WORKER]
        path = [p for p in sys.path if p]
        # no GPU: a kernel's module that looks for one at import would take memory of it in each of these processes
        hidden = dict.fromkeys(("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CARVER_TRITON"), "")
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)} | hidden
        said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        pipe = subprocess.PIPE
        worker = cls(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=said, text=True, env=environment), said)
        worker.send([memory_bytes, *path])
        return worker

    def send(self, message: Any) -> None:
        assert self.process.stdin
        self.said.seek(0)  # of its writes as well: what it said of an earlier request is not this one's
        self.said.truncate()
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
        """What it started, an assembler that hangs say, ends with it."""
        self.process.terminate()
        try:
            self.process.communicate(timeout=KILL_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        self.said.close()

    def last_words(self) -> str:
        """Why it ended or refused, as far as it said: the first error that it printed, else the last line."""
        self.said.seek(0)
        first = self.said.read(4096).decode(errors="replace").split("\n")
        size = self.said.seek(0, os.SEEK_END)
        self.said.seek(max(size - 4096, 0))
        lines = [line.strip() for line in self.said.read().decode(errors="replace").split("\n") if line.strip()]
        told = [parts[1] for line in first if len(parts := re.split("error: ", line, maxsplit=1, flags=re.I)) > 1]
        return (told or lines[-1:] or ["out of memory perhaps"])[0][:300]


class Pool:
    """Compiling processes, started when there is work and kept until the pool is closed: one `with` block, or longer.

    At most `processes` at a time (as many as there are cores, unless given), each with `memory_bytes` to write to.
    """

    def __init__(self, processes: int | None = None, memory_bytes: int = MEMORY_BYTES) -> None:
        self.processes = processes or cores_available()
        self.memory_bytes = memory_bytes
        self._idle: list[_Worker] = []
        self._busy: list[_Worker] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes. What they were asked stays without a reply."""
        for worker in (*self._idle, *self._busy):
            worker.end()
        self._idle, self._busy = [], []

    def replies(self, requests: Mapping[str, Request], seconds: float = SECONDS) -> Iterator[tuple[str, Reply]]:
        """Each reply as it comes; a process that dies or takes longer than `seconds` refuses what it was asked."""
        waiting = list(requests)[::-1]
        with selectors.DefaultSelector() as selector:

            def give() -> None:
                if not waiting:
                    return
                worker = self._idle.pop() if self._idle else _Worker.start(self.memory_bytes)
                self._busy.append(worker)
                selector.register(worker.replies, selectors.EVENT_READ, worker)
                worker.key, worker.since = waiting.pop(), time.monotonic()
                worker.send(requests[worker.key])

            def take(worker: _Worker) -> str:
                selector.unregister(worker.replies)
                self._busy.remove(worker)
                return worker.key

            try:
                for _ in range(self.processes):
                    give()
                while self._busy:
                    first = min(w.since for w in self._busy) + seconds
                    for ready, _ in selector.select(timeout=max(first - time.monotonic(), 0.0)):
                        worker: _Worker = ready.data
                        key = take(worker)
                        if line := worker.replies.readline():
                            reply = _parsed(line)
                            if reply.get("refused", "").endswith("PassManager::run failed"):  # it printed why
                                reply["refused"] = f"{reply['refused']}: {worker.last_words()}"
                            self._idle.append(worker)
                            give()  # the next is under way while the caller looks at this reply
                            yield key, reply
                        else:
                            why = f"the compiler's process ended with {worker.process.wait()}: {worker.last_words()}"
                            worker.end()
                            give()
                            yield key, transient(why)
                    for worker in [w for w in self._busy if time.monotonic() - w.since >= seconds]:
                        key = take(worker)
                        worker.end()
                        give()
                        yield key, transient(f"not compiled within {seconds:.0f} s")
            finally:
                for worker in self._busy:  # the caller stopped listening: what they would answer is of no use
                    worker.end()
                self._busy = []


class Compilers(Protocol):
    """A `Pool`, or `forks.Forks`."""

    processes: int

    def replies(self, requests: Mapping[str, Request], seconds: float = SECONDS) -> Iterator[tuple[str, Reply]]: ...


def compiled(
    requests: Mapping[str, Request], isa: str, matrix: Sequence[Sequence[Any]], *, pool: Compilers | None = None,
    processes: int | None = None, seconds: float = SECONDS, progress: bool = False,
) -> dict[str, Reply]:  # fmt: skip
    """Replies by key, each with what was read off the code, or why there is none.

    Replies are kept on disk by key, those of a compiler that was ended excepted. `isa` and `matrix`: as
    `machine.read_machines` takes them. Without a `pool` its processes, `processes` at most, end with this call. Raises
    ConfigError where a kernel cannot be imported in another process.
    """
    if pool is None:
        with Pool(processes) as own:
            return compiled(requests, isa, matrix, pool=own, seconds=seconds, progress=progress)
    found = {key: reply for key, reply in store.load_each(requests).items() if _is_whole(reply)}
    missing = {key: requests[key] for key in requests if key not in found}
    with progress_bars(progress and bool(missing), transient=True) as bars:
        step = bars.bar("compiling", len(missing))
        for key, reply in pool.replies(missing, seconds):
            if "error" in reply:
                raise ConfigError(reply["error"])
            found[key] = reply | ({"reader": store.readers()} if "machine" in reply else {})
            step()
    unread = [key for key, reply in found.items() if "refused" not in reply and reply.get("reader") != store.readers()]
    found |= _read({key: found[key] for key in unread}, isa, matrix, pool, seconds)
    for key in {**missing, **dict.fromkeys(unread)}:
        if not found[key].pop("transient", False):
            store.save(key, found[key])
    return found


def _read(
    replies: Mapping[str, Reply], isa: str, matrix: Sequence[Sequence[Any]], pool: Compilers, seconds: float
) -> dict[str, Reply]:
    """Replies with what is read off their codes, as many at once as keep all processes busy.

    Where one of several cannot be read, or takes too long, each is read by itself: the others still can be.
    """
    keys, read = list(replies), dict[str, Reply]()
    size = max(1, min(BATCH, -(-len(keys) // pool.processes)))
    batches = {str(i): keys[i : i + size] for i in range(0, len(keys), size)}
    while batches:
        asked = {
            i: {"codes": [replies[key]["code"] for key in batch], "isa": isa, "matrix": matrix}
            for i, batch in batches.items()
        }
        alone: dict[str, list[str]] = {}
        for i, reply in pool.replies(asked, seconds):
            if "error" in reply:
                raise CompileError(reply["error"])
            if "machines" in reply:
                for key, machine in zip(batches[i], reply["machines"], strict=True):
                    read[key] = replies[key] | {"machine": machine, "reader": store.readers()}
            elif len(batches[i]) > 1:
                alone |= {key: [key] for key in batches[i]}
            else:
                read[batches[i][0]] = transient(reply["refused"])
        batches = alone
    return read


def _parsed(line: str) -> Reply:
    try:
        reply = json_of(line, "the answer of a compiler's process", CompileError, finite=False)
    except CompileError as error:
        return transient(str(error))
    known = isinstance(reply, dict) and ("machines" in reply or "error" in reply or _is_whole(reply))
    return reply if known else transient(f"the compiler's process answered {shown(reply)}")


_KINDS = {
    "ttir": "str", "code": "Mapping[str, str]", "shared_bytes": "int", "warps": "int", "stages": "int", "ctas": "int",
    "machine": "Mapping[str, Any] | None",
}  # fmt: skip
"""What a reply with code says, by annotation."""


def _is_whole(reply: Reply) -> bool:
    """Whether what was kept is a reply; else it is made anew."""
    if "refused" in reply:
        return isinstance(reply["refused"], str)
    return all(fits(reply.get(name), kind, {}) for name, kind in _KINDS.items())


def transient(sentence: str) -> Reply:
    """A refusal that another run need not meet."""
    return {"refused": sentence, "transient": True}


def own_fault(fault: Exception) -> str:
    """What to tell of a candidate whose code or program carver fails at: the fault is carver's, not the kernel's."""
    return f"carver fails to read what was compiled: {type(fault).__name__}: {fault}"[:300]
