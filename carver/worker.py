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
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
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
        env: Mapping[str, str] | None = None,
    ) -> None:
        """`target` is "module:factory"; the child calls it with `arguments`."""
        self._command = [sys.executable, "-m", "carver.worker", target, json.dumps(dict(arguments))]
        self._start_timeout_s = start_timeout_s
        self._env = {**os.environ, **(env or {})}
        self._env["PYTHONPATH"] = os.pathsep.join(
            [str(Path(__file__).resolve().parent.parent), *filter(None, sys.path)]
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = self._tail = b""
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
        self._buffer = self._tail = b""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True, env=self._env, bufsize=0,
        )  # fmt: skip
        self.started += 1
        with self._whole():
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
        with self._whole():
            try:
                self._process.stdin.write(json.dumps(dict(job)).encode() + b"\n")
            except BrokenPipeError:
                return self._lost()
            reply = self._receive(timeout_s, f"running {job.get('do', 'a job')}")
        if reply.outcome in ("crash", "out_of_memory"):
            self._end(0.0)
        return reply

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """A job and its reply: an interrupt between them must not leave the reply to the next job."""
        try:
            yield
        except BaseException:
            self._end(0.0)
            raise

    def _receive(self, timeout_s: float, doing: str) -> Reply:
        assert self._process is not None and self._process.stdout is not None
        deadline, out = time.monotonic() + timeout_s, self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                self._end(0.0)
                return Reply("timeout", f"still {doing} after {timeout_s:g} s; its process was killed")
            if self._listen(out, left):
                chunk = os.read(out, 1 << 20)
                if not chunk:
                    return self._lost()
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        d = json.loads(line)
        return Reply(d["outcome"], d["message"], d["data"])

    def _listen(self, out: int, seconds: float) -> bool:
        """Whether the child has said something on `out`; of what it prints meanwhile the end is kept."""
        assert self._process is not None and self._process.stderr is not None
        printed = [] if self._process.stderr.closed else [self._process.stderr.fileno()]
        ready = select.select([out, *printed] if out >= 0 else printed, [], [], seconds)[0]
        for fd in printed:
            if fd in ready:
                chunk = os.read(fd, 1 << 16)
                self._tail = (self._tail + chunk)[-_TAIL_BYTES:]
                if not chunk:
                    self._process.stderr.close()
        return out in ready

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
        assert self._process is not None and self._process.stderr is not None
        for _ in range(64):  # more than a pipe holds; what it started may print on
            self._listen(-1, 0.0)
        return self._tail.decode(errors="replace").strip() or "nothing"

    def _end(self, grace_s: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdin.close()
        if grace_s:
            try:
                process.wait(grace_s)
            except subprocess.TimeoutExpired:
                grace_s = 0.0
        with contextlib.suppress(ProcessLookupError):  # the leader and all it started are gone
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
        process.stderr.close()
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


def main(target: str, arguments: str) -> None:
    """The child: make the handler, then one reply line for every job line until the pipe closes."""
    _watch()
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a kernel prints must not land between the replies
    faulthandler.enable()
    sys.excepthook = _bug
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    module, _, factory = target.partition(":")
    try:
        handle: Handler = getattr(importlib.import_module(module), factory)(**json.loads(arguments))
    except CarverError as e:
        _reply(replies, "crash", str(e), {"raise": type(e).__name__})
        return
    _reply(replies, "ok")
    for line in sys.stdin:
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
        except Exception:  # of a library that the job called
            _reply(replies, "crash", traceback.format_exc()[-_TAIL_BYTES:])


def _watch() -> None:
    """A process that ends this one's group once the pipe of jobs closes: the parent is done or dead, and no kernel may
    outlive it. No thread: a candidate may hold the interpreter's lock for ever."""
    group = os.getpgrp()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child of this fork runs nothing but what follows
        if os.fork():
            return
    os.close(1)  # the parent must see the end of the replies
    closed = select.poll()
    closed.register(0, 0)
    closed.poll()
    time.sleep(GRACE_S)
    os.killpg(group, signal.SIGKILL)


def _reply(to: IO[str], outcome: str, message: str = "", data: Mapping[str, Any] = _NOTHING) -> None:
    to.write(json.dumps({"outcome": outcome, "message": message, "data": dict(data)}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
