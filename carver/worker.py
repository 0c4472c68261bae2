"""A process of its own for code that may crash, hang or eat the memory.

The parent's `Worker` starts `python -m carver.worker module:factory` in a new session, sends jobs as JSON lines
and gets one JSON line back for each. Whatever happens to the process becomes a `Reply` with an outcome, and the
next job gets a new process. The child hands each job to the object that `factory(**arguments)` made.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import queue
import resource
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import IO, Any

from . import errors
from .device.buffers import OutOfMemory
from .errors import CarverError, CompileError, ConfigError, KernelError, NoCandidates, RunError

GRACE_S = 3.0
"""What a process gets to leave by itself once its pipe is closed, before its group is killed."""

_TAIL_BYTES = 4000
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of one job: an outcome of `carver.records.OUTCOMES`, the reason, and what the job returned.

    `killed` says that SIGKILL came from outside: by hand, or from the system's out-of-memory killer.
    """

    outcome: str
    message: str = ""
    data: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    killed: bool = False


class Worker:
    """One child process at a time, replaced after anything that may have damaged it. A context manager."""

    def __init__(
        self,
        target: str,
        arguments: Mapping[str, Any],
        *,
        start_timeout_s: float = 120.0,
        memory_bytes: int | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """`target` is "module:factory"; `memory_bytes` limits the child's address space (not for CUDA)."""
        self._command = [
            sys.executable,
            "-m",
            "carver.worker",
            target,
            json.dumps(dict(arguments)),
            str(memory_bytes or 0),
        ]
        self._start_timeout_s = start_timeout_s
        self._env = {**os.environ, **(env or {})}
        self._env["PYTHONPATH"] = os.pathsep.join(
            [str(Path(__file__).resolve().parent.parent), *filter(None, sys.path)]
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._buffer = b""
        self.started = 0

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end(0.0 if kind else GRACE_S)

    def close(self) -> None:
        self._end(GRACE_S)

    @property
    def pid(self) -> int | None:
        """The child's process id and group; None while there is none."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the child now rather than at the first job. Raises what its factory raised."""
        if self._process is not None:
            return
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
        self._buffer = b""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            start_new_session=True, env=self._env, bufsize=0,
        )  # fmt: skip
        self.started += 1
        ready = self._receive(self._start_timeout_s, "starting")
        if "raise" in ready.data:
            self._end(0.0)
            kind = getattr(errors, ready.data["raise"], CarverError)
            raise kind(ready.message) if kind is not NoCandidates else CarverError(ready.message)
        if ready.outcome != "ok":
            raise RunError(f"the worker process did not start: {ready.message}")

    def call(self, job: Mapping[str, Any], timeout_s: float) -> Reply:
        """Run one job. Raises for nothing that a kernel does; a hang past `timeout_s` kills the process group."""
        self.start()
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(dict(job)).encode() + b"\n")
        except BrokenPipeError:
            return self._lost()
        reply = self._receive(timeout_s, f"running {job.get('do', 'a job')}")
        if reply.outcome in ("crash", "out_of_memory"):
            self._end(0.0)
        return reply

    def _receive(self, timeout_s: float, doing: str) -> Reply:
        assert self._process is not None and self._process.stdout is not None
        deadline, fd = time.monotonic() + timeout_s, self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                self._end(0.0)
                return Reply("timeout", f"still {doing} after {timeout_s:g} s; its process was killed")
            chunk = os.read(fd, 1 << 20)
            if not chunk:
                return self._lost()
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        d = json.loads(line)
        return Reply(d["outcome"], d["message"], d["data"])

    def _lost(self) -> Reply:
        """The reply of a child that is gone."""
        assert self._process is not None
        try:
            code = self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            code = None
        said = self._said()
        self._end(0.0)
        if code == os.EX_SOFTWARE:
            raise RunError(f"the worker's own code failed, not what it ran:\n{said}")
        if code is None:
            return Reply("crash", f"the worker process closed its pipe; it said: {said}")
        if code == -signal.SIGKILL:
            return Reply("crash", "the worker process was killed (SIGKILL), by hand or for want of memory", killed=True)
        if code < 0:
            return Reply("crash", f"the worker process died of {signal.Signals(-code).name}")
        return Reply("crash", f"the worker process ended with status {code}; it said: {said}")

    def _said(self) -> str:
        """The end of what the child printed."""
        assert self._errors is not None
        size = os.fstat(self._errors.fileno()).st_size
        text = os.pread(self._errors.fileno(), _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode(errors="replace")
        return text.strip() or "nothing"

    def _end(self, grace_s: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None and self._errors is not None
        process.stdin.close()
        if grace_s:
            try:
                process.wait(grace_s)
            except subprocess.TimeoutExpired:
                grace_s = 0.0
        with contextlib.suppress(ProcessLookupError):  # the leader and all it started are gone
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
        self._errors.close()
        try:
            process.wait(30.0)
        except subprocess.TimeoutExpired:
            raise RunError(
                f"process {process.pid} does not end although killed: the device's driver holds it; reset the device"
            ) from None


def _bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    traceback.print_exception(kind, error, trace)
    sys.stderr.flush()
    os._exit(os.EX_SOFTWARE)


Handler = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def main(target: str, arguments: str, memory_bytes: str) -> None:
    """The child: make the handler, then one reply line for every job line until the pipe closes."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a kernel prints must not land between the replies
    faulthandler.enable()
    sys.excepthook = _bug
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limit := int(memory_bytes):
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    module, _, factory = target.partition(":")
    try:
        handle: Handler = getattr(importlib.import_module(module), factory)(**json.loads(arguments))
    except CarverError as e:
        _reply(replies, "crash", str(e), {"raise": type(e).__name__})
        return
    _reply(replies, "ok")
    jobs: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(jobs,), daemon=True).start()
    while (line := jobs.get()) is not None:
        try:
            data = dict(handle(json.loads(line)))
            _reply(replies, data.pop("outcome", "ok"), data.pop("message", ""), data)
        except CompileError as e:
            _reply(replies, "compile_error", str(e))
        except (ConfigError, KernelError, NoCandidates) as e:
            _reply(replies, "does_not_fit", str(e))
        except (MemoryError, OutOfMemory) as e:
            _reply(replies, "out_of_memory", str(e) or "memory ran out")
        except CarverError as e:
            _reply(replies, "crash", str(e))


def _reply(to: IO[str], outcome: str, message: str = "", data: Mapping[str, Any] = _NOTHING) -> None:
    to.write(json.dumps({"outcome": outcome, "message": message, "data": dict(data)}) + "\n")


def _read(jobs: queue.SimpleQueue[str | None]) -> None:
    """Queue the job lines. When the pipe closes the parent is done or dead, and no kernel may outlive it."""
    for line in sys.stdin:
        jobs.put(line)
    jobs.put(None)
    time.sleep(GRACE_S)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
