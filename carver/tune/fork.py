"""Processes for functions that no other process can import: forked from this one, or this one itself."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import select
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from typing import IO, Any

from ..device.buffers import OutOfMemory
from ..errors import CarverError, CompileError, ConfigError, KernelError, NoCandidates, RunError
from ..worker import GRACE_S, Reply

Handler = Callable[[Mapping[str, Any]], Mapping[str, Any]]
_TAIL_BYTES = 4000


def may_fork() -> bool:
    """Whether a forked child can work: not after CUDA was started here, whose context does not survive it."""
    torch, driver = sys.modules.get("torch"), sys.modules.get("pycuda.driver")
    if torch is not None and torch.cuda.is_initialized():
        return False
    return hasattr(os, "fork") and (driver is None or driver.Context.get_current() is None)


def answer(handle: Handler, job: Mapping[str, Any]) -> Reply:
    """A job's reply, with carver's own errors as outcomes."""
    try:
        data = dict(handle(job))
        return Reply(data.pop("outcome", "ok"), data.pop("message", ""), data)
    except CompileError as e:
        return Reply("compile_error", str(e))
    except (ConfigError, KernelError, NoCandidates) as e:
        return Reply("does_not_fit", str(e))
    except (MemoryError, OutOfMemory) as e:
        return Reply("out_of_memory", str(e) or "memory ran out")
    except CarverError as e:
        return Reply("crash", str(e))


class Inline:
    """Jobs run in this process: nothing can be killed, a crash takes the caller along."""

    def __init__(self, make: Callable[[], Handler]) -> None:
        self._make = make
        self._handle: Handler | None = None
        self.started = 0

    def start(self) -> None:
        if self._handle is None:
            self._handle = self._make()
            self.started += 1

    def call(self, job: Mapping[str, Any], timeout_s: float) -> Reply:
        self.start()
        assert self._handle is not None
        began = time.monotonic()
        reply = answer(self._handle, job)
        took = time.monotonic() - began
        if took > timeout_s:
            return Reply("timeout", f"took {took:.3g} s; {timeout_s:g} s were allowed, and nothing could stop it")
        return reply

    def close(self) -> None: ...


class Forked:
    """One forked child at a time, replaced after anything that may have damaged it; jobs as `carver.worker.Worker`."""

    def __init__(self, make: Callable[[], Handler]) -> None:
        self._make = make
        self._pid: int | None = None
        self._to = self._from = -1
        self._said: IO[bytes] | None = None
        self._buffer = b""
        self.started = 0

    @property
    def pid(self) -> int | None:
        return self._pid

    def start(self) -> None:
        if self._pid is not None:
            return
        child_reads, self._to = os.pipe()
        self._from, child_writes = os.pipe()
        self._said, self._buffer = tempfile.TemporaryFile(), b""  # noqa: SIM115 (it lives as long as the child)
        sys.stdout.flush()
        sys.stderr.flush()
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            os.close(self._to)
            os.close(self._from)
            _child(self._make, child_reads, child_writes, self._said.fileno(), parent)
        os.close(child_reads)
        os.close(child_writes)
        self._pid = pid
        self.started += 1

    def call(self, job: Mapping[str, Any], timeout_s: float) -> Reply:
        self.start()
        try:
            os.write(self._to, json.dumps(dict(job)).encode() + b"\n")
            return self._receive(job, timeout_s)
        except BrokenPipeError:
            return self._lost()
        except BaseException:
            self._end()  # or the next job would get the answer to this one
            raise

    def _receive(self, job: Mapping[str, Any], timeout_s: float) -> Reply:
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._from], [], [], left)[0]:
                self._end()
                return Reply(
                    "timeout", f"still running {job.get('do', 'a job')} after {timeout_s:g} s; its process was killed"
                )
            chunk = os.read(self._from, 1 << 20)
            if not chunk:
                return self._lost()
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        d = json.loads(line)
        if d["outcome"] in ("crash", "out_of_memory"):
            self._end()
        return Reply(d["outcome"], d["message"], d["data"])

    def _lost(self) -> Reply:
        assert self._said is not None
        size = os.fstat(self._said.fileno()).st_size
        said = os.pread(self._said.fileno(), _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode(errors="replace").strip()
        code = self._end(GRACE_S)
        if code == os.EX_SOFTWARE:
            raise RunError(f"the worker's own code failed, not what it ran:\n{said}")
        if code == -signal.SIGKILL:
            return Reply("crash", "the worker process was killed (SIGKILL), by hand or for want of memory", killed=True)
        if code < 0:
            return Reply("crash", f"the worker process died of {signal.Signals(-code).name}")
        return Reply("crash", f"the worker process ended with status {code}; it said: {said or 'nothing'}")

    def _end(self, grace_s: float = 0.0) -> int:
        """Kill the child's group, after `grace_s` to leave by itself; its exit code, negative for a signal."""
        pid, self._pid = self._pid, None
        if pid is None:
            return 0
        os.close(self._to)
        os.close(self._from)
        if self._said is not None:
            self._said.close()
        deadline = time.monotonic() + grace_s
        while not (done := os.waitpid(pid, os.WNOHANG))[0] and time.monotonic() < deadline:
            time.sleep(0.005)
        for signalled in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signalled(pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode((done if done[0] else os.waitpid(pid, 0))[1])

    def close(self) -> None:
        self._end()


def _watch(parent: int) -> None:
    """End this group once its parent is gone: nothing that hangs may outlive it."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _child(make: Callable[[], Handler], reads: int, writes: int, said: int, parent: int) -> None:
    """The forked side; never returns.

    Jobs run in a thread that starts here: to GNU's OpenMP the one that forked still has the team of its parent, whose
    threads did not come along, and its first parallel region would wait for them for ever.
    """
    try:
        os.setsid()
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, signal.SIG_DFL)
        os.dup2(said, 1)
        os.dup2(said, 2)
        faulthandler.enable(2)
        threading.Thread(target=_serve, args=(make, reads, writes), daemon=True).start()
        _watch(parent)
    finally:
        os._exit(os.EX_SOFTWARE)


def _serve(make: Callable[[], Handler], reads: int, writes: int) -> None:
    """Reply to jobs until the pipe closes, and end the process."""
    code = os.EX_SOFTWARE
    try:
        handle = make()
        with os.fdopen(reads, "rb") as jobs:
            for line in jobs:
                reply = answer(handle, json.loads(line))
                fields = {"outcome": reply.outcome, "message": reply.message, "data": dict(reply.data)}
                os.write(writes, json.dumps(fields).encode() + b"\n")
        code = os.EX_OK
    finally:
        if code != os.EX_OK:
            sys.excepthook(*sys.exc_info())
            sys.stderr.flush()
        os._exit(code)
