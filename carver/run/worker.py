"""A process of its own for code that may crash, hang or eat the memory.

The parent's `Worker` sends jobs as JSON lines and gets one JSON line back for each. Whatever happens to the process
becomes a `Reply` with an outcome, and the next job gets a new process. The child hands each job to the object that
`factory(**arguments)` made. What no other process can import comes from a fork of this one, or runs right here,
`Inline`, where nothing protects from it. A warden stands between the two: what a job starts ends with its process.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import pkgutil
import resource
import secrets
import selectors
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from ..base import errors, warden
from ..base.errors import CarverError, NoCandidates, RunError
from ..base.host import cores_available
from .records import OUTCOMES

GRACE_S = 3.0
"""What a process gets to leave by itself once its pipe is closed, before it is killed."""
SETUP_TIMEOUT_S = 600.0
"""What a set-up may take: drawing or loading the inputs, computing the reference. [s]"""
KILL_S = 30.0
"""What the warden gets to kill everything before the parent does so itself. [s]"""
STARTS = 3
"""How often a process is started that something kills before it is ready."""

_TAIL_BYTES = 4000
_REPLY_BYTES = 1 << 26
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_MARK = "CARVER_WORKER"
"""The environment variable by which processes are found whose warden was killed."""

_OUTCOMES = {
    "CompilerFailed": "crash", "CompileError": "compile_error", "CompilationError": "compile_error",
    "CompileTimeError": "compile_error",
    "ConfigError": "does_not_fit", "KernelError": "does_not_fit", "NoCandidates": "does_not_fit",
    "AssertionError": "does_not_fit", "OutOfResources": "does_not_fit",
    "MemoryError": "out_of_memory", "OutOfMemory": "out_of_memory", "OutOfMemoryError": "out_of_memory",
}  # fmt: skip
"""What an exception says about the candidate, by the name of its class, carver's own or another package's."""

Handler = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def outcome_of(error: BaseException) -> str:
    """What became of the candidate that raised it; a crash where `_OUTCOMES` names none of the error's classes."""
    names = (each.__name__ for each in type(error).__mro__)
    return next((_OUTCOMES[name] for name in names if name in _OUTCOMES), "crash")


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of one job: an outcome of `carver.run.records.OUTCOMES`, the reason, and what the job returned.

    `transient` says that it may not befall the same candidate again: SIGKILL from outside (by hand, or from the
    system's out-of-memory killer), or a compiler that lacked memory or disk.
    """

    outcome: str
    message: str = ""
    data: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    transient: bool = False


class Worker:
    """One child process at a time, replaced after anything that may have damaged it. A context manager."""

    def __init__(
        self,
        target: str | Callable[[], Handler],
        arguments: Mapping[str, Any] = _NOTHING,
        *,
        start_timeout_s: float = 120.0,
    ) -> None:
        """`target` is "module:factory", which the child calls with `arguments`, or a function for a fork to call."""
        self._target, self._arguments, self._start_timeout_s = target, arguments, start_timeout_s
        self._process: subprocess.Popen[bytes] | _Fork | None = None
        self._buffer = self._tail = b""
        self._ready = False
        self._mark = ""
        self.started = 0
        self.stopped = False
        self.set_up: Mapping[str, Any] | None = None
        """The job that the process was set up by, see `ask`; None in a new one."""
        self.owners: set[str] = set()
        """Whose jobs this process has done, see `ask`."""

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end(0.0 if kind else GRACE_S)

    def close(self) -> None:
        self._end(GRACE_S)

    @property
    def pid(self) -> int | None:
        """The warden's process id; None while there is none."""
        return self._process.pid if self._process else None

    def stop(self) -> None:
        """End what runs, asked from another thread than the one that waits for it; `ask` asks nothing more."""
        self.stopped = True
        if (process := self._process) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)

    def spawn(self) -> None:
        """Begin what `start` waits for. A fork is left to `start`: it would keep what other threads hold just then."""
        if self._process is None and isinstance(self._target, str):
            self._launch()

    def start(self) -> None:
        """Start the child now rather than at the first job. Raises what its factory raised."""
        for _ in range(STARTS):
            if self._process is None:
                self._launch()
            if self._ready:
                return
            self._ready = True
            with self._whole():
                ready = self._receive("ready", self._start_timeout_s, "starting")
            if not ready.transient or self.stopped:
                break
        if "raise" in ready.data:
            self._end(0.0)
            kind = getattr(errors, str(ready.data["raise"]), CarverError)
            raise kind(ready.message) if kind is not NoCandidates else CarverError(ready.message)
        if ready.outcome != "ok":
            raise RunError(f"the worker process did not start: {ready.message}")

    def _launch(self) -> None:
        self._buffer, self._tail, self.set_up, self._ready, self.owners = b"", b"", None, False, set()
        self._process = self._new()
        self.started += 1

    def _new(self) -> subprocess.Popen[bytes] | _Fork:
        if not isinstance(self._target, str):
            return _Fork(self._target)
        self._mark = secrets.token_hex(16)
        environment = {**os.environ, _MARK: self._mark}
        environment |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(cores_available()))
        if kept := [p for p in environment.pop("PYTHONPATH", "").split(os.pathsep) if p]:  # "" is the current directory
            environment["PYTHONPATH"] = os.pathsep.join(kept)
        package = str(Path(__file__).resolve().parents[1])
        paths = [str(Path(p).resolve()) for p in sys.path]  # behind its own: nothing there stands for what is installed
        child = [sys.executable, "-P", "-c", _CHILD, package, json.dumps(paths), self._target]
        return subprocess.Popen(
            [*warden.command(), *child, json.dumps(dict(self._arguments))], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, start_new_session=True, env=environment,
        )  # fmt: skip

    def call(self, job: Mapping[str, Any], timeout_s: float) -> Reply:
        """Run one job. Raises for nothing that a kernel does; a hang past `timeout_s` kills the process."""
        self.start()
        assert self._process is not None and self._process.stdin is not None
        token = secrets.token_hex(8)  # a line that a candidate wrote into the pipe is no reply
        with self._whole():
            try:
                self._process.stdin.write(json.dumps({"token": token, "job": dict(job)}).encode() + b"\n")
            except BrokenPipeError:
                return self._lost()
            reply = self._receive(token, timeout_s, f"running {job.get('do', 'a job')}")
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

    def _receive(self, token: str, timeout_s: float, doing: str) -> Reply:
        assert self._process is not None and self._process.stdout is not None
        deadline, out = time.monotonic() + timeout_s, self._process.stdout.fileno()
        while b"\n" not in self._buffer and len(self._buffer) < _REPLY_BYTES:
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
        if (reply := _parsed(line, token)) is None:
            self._end(0.0)
            return Reply("crash", f"what it wrote into the pipe of replies is none: {line[:80]!r}")
        return reply

    def _listen(self, out: int, seconds: float) -> bool:
        """Whether the child has said something on `out`; of what it prints meanwhile the end is kept."""
        assert self._process is not None and self._process.stderr is not None
        printed = -1 if self._process.stderr.closed else self._process.stderr.fileno()
        with selectors.DefaultSelector() as pipes:
            for fd in (out, printed):
                if fd >= 0:
                    pipes.register(fd, selectors.EVENT_READ)
            ready = {key.fd for key, _ in pipes.select(seconds)}
        if printed in ready:
            chunk = os.read(printed, 1 << 16)
            self._tail = (self._tail + chunk)[-_TAIL_BYTES:]
            if not chunk:
                self._process.stderr.close()
        return out in ready

    def _lost(self) -> Reply:
        """The reply of a child that is gone."""
        assert self._process is not None
        try:
            code = self._process.wait(KILL_S)
        except subprocess.TimeoutExpired:
            code = None
        said = self._said()
        self._end(0.0)
        if code is None:
            return Reply("crash", f"the worker process closed its pipe; it said: {said}")
        if code == -signal.SIGKILL:
            why = "the worker process was killed (SIGKILL), by hand or for want of memory"
            return Reply("crash", why, transient=True)
        if code < 0:
            names = {s.value: s.name for s in signal.Signals}
            return Reply("crash", f"the worker process died of {names.get(-code, f'signal {-code}')}")
        return Reply("crash", f"the worker process ended with status {code}; it said: {said}")

    def _said(self) -> str:
        """The end of what the child printed."""
        assert self._process is not None and self._process.stderr is not None
        for _ in range(64):  # more than a pipe holds
            self._listen(-1, 0.0)
        return self._tail.decode(errors="replace").strip() or "nothing"

    def _end(self, grace_s: float) -> None:
        process, self._process, self.owners = self._process, None, set()
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdin.close()
        process.stdout.close()
        process.stderr.close()
        if _waited(process, grace_s):
            self._sweep(process)
            return
        process.terminate()
        if not _waited(process, KILL_S):
            process.kill()
        self._sweep(process)
        if not _waited(process, KILL_S):
            raise RunError(
                f"process {process.pid} does not end although killed: the device's driver holds it; reset the device"
            )

    def _sweep(self, process: subprocess.Popen[bytes] | _Fork) -> None:
        """Kill what is left of a process whose warden was itself killed and could not do so."""
        if self._mark and process.returncode == -signal.SIGKILL:
            marked = f"{_MARK}={self._mark}".encode()
            for path in Path("/proc").glob("[0-9]*/environ"):
                with contextlib.suppress(OSError):
                    if marked in path.read_bytes().split(b"\0"):
                        os.kill(int(path.parent.name), signal.SIGKILL)


def _waited(process: subprocess.Popen[bytes] | _Fork, seconds: float) -> bool:
    """Whether the process has ended within that time."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
        return True
    return False


def _parsed(line: bytes, token: str) -> Reply | None:
    """The reply to the job of that token; None for anything else."""
    try:
        d = json.loads(line)
        known = d["token"] == token and d["outcome"] in OUTCOMES
        return Reply(d["outcome"], str(d["message"]), dict(d["data"])) if known else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


class Inline:
    """Jobs run in this process: nothing can be killed, a crash takes the caller along."""

    def __init__(self, make: Callable[[], Handler]) -> None:
        self._make = make
        self._handle: Handler | None = None
        self.started = 0
        self.stopped = False
        self.set_up: Mapping[str, Any] | None = None
        self.owners: set[str] = set()

    def spawn(self) -> None:
        """Nothing: what `start` makes belongs to the thread that uses it."""

    def start(self) -> None:
        if self._handle is None:
            self._handle = self._make()
            self.started += 1

    def call(self, job: Mapping[str, Any], timeout_s: float) -> Reply:
        self.start()
        assert self._handle is not None
        began = time.monotonic()
        reply = _answer(self._handle, job)
        took = time.monotonic() - began
        if took > timeout_s:
            return Reply("timeout", f"took {took:.3g} s; {timeout_s:g} s were allowed, and nothing could stop it")
        return reply

    def stop(self) -> None:
        self.stopped = True

    def close(self) -> None: ...


def ask(
    worker: Worker | Inline, setup: Mapping[str, Any], job: Mapping[str, Any], timeout_s: float,
    failed: Callable[[Reply], CarverError], owner: str = "",
) -> Reply:  # fmt: skip
    """The reply to a job of a process that did the job `setup` first.

    What SIGKILL took is asked once more; so is what fails in a process that did jobs of another `owner`, who may have
    left it damaged: only what fails in a fresh one counts. Raises what `failed` makes of a set-up that did not end
    well.
    """

    def once() -> Reply:
        worker.start()
        if worker.stopped:
            raise RunError("the measurement was stopped")
        if worker.set_up != setup:
            worker.set_up = None
            reply = worker.call(setup, SETUP_TIMEOUT_S)
            if reply.transient:
                return reply
            if reply.outcome != "ok":
                raise failed(reply)
            worker.set_up = setup
        worker.owners.add(owner)
        return worker.call(job, timeout_s)

    suspects = worker.owners - {owner}
    reply = once()
    if worker.stopped or not (reply.transient or (suspects and reply.outcome in _CATCHING)):
        return reply
    worker.close()
    again = once()
    if reply.transient:
        return replace(again, message=f"{reply.message}, and this was tried once more. {again.message}".strip())
    first = f"fine in a new process, after {reply.outcome} in a used one: {reply.message}"
    return replace(again, message=first) if again.outcome == "ok" else again


_CATCHING = ("crash", "wrong_result", "out_of_memory")
"""What a candidate may owe to another one that ran before it in the same process."""


def _answer(handle: Handler, job: Mapping[str, Any]) -> Reply:
    """What became of a job; an exception that is neither carver's nor for want of memory passes through."""
    try:
        data = dict(handle(job))
        return Reply(data.pop("outcome", "ok"), data.pop("message", ""), data)
    except (CarverError, MemoryError) as e:
        return Reply(outcome_of(e), str(e) or "memory ran out")


def _serve(make: Callable[[], Handler], jobs: Iterable[str], replies: IO[str]) -> None:
    """The child: make the handler, then one reply line for every job line until the pipe closes."""

    def send(token: str, reply: Reply) -> None:
        line = {"token": token, "outcome": reply.outcome, "message": reply.message, "data": dict(reply.data)}
        replies.write(json.dumps(line) + "\n")

    try:
        handle = make()
    except CarverError as e:
        send("ready", Reply("crash", str(e), {"raise": type(e).__name__}))
        return
    except Exception:
        said = traceback.format_exc()[-_TAIL_BYTES:]
        send("ready", Reply("crash", f"the worker's own code failed:\n{said}", {"raise": "RunError"}))
        return
    send("ready", Reply("ok"))
    for line in jobs:
        asked = json.loads(line)
        try:
            reply = _answer(handle, asked["job"])
        except Exception:  # of a library that the job called
            reply = Reply("crash", traceback.format_exc()[-_TAIL_BYTES:])
        send(asked["token"], reply)


_CHILD = """
import importlib.util, json, sys
_, package, paths, target, arguments = sys.argv
sys.path += [path for path in json.loads(paths) if path not in sys.path]
spec = importlib.util.spec_from_file_location("carver", package + "/__init__.py", submodule_search_locations=[package])
sys.modules["carver"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["carver"])
from carver.run.worker import main
main(target, arguments)
"""
"""The child's first lines: this very carver, and nothing from the current directory in place of what is installed."""


def main(target: str, arguments: str) -> None:
    """The child that `Worker` starts."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a kernel prints must not land between the replies
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def make() -> Handler:
        handler: Handler = pkgutil.resolve_name(target)(**json.loads(arguments))
        return handler

    _serve(make, sys.stdin, replies)


def may_fork() -> bool:
    """Whether a forked child can work: not after CUDA was started here, whose context does not survive it."""
    torch, driver = sys.modules.get("torch"), sys.modules.get("pycuda.driver")
    if torch is not None and torch.cuda.is_initialized():
        return False
    return hasattr(os, "fork") and (driver is None or driver.Context.get_current() is None)


class _Fork:
    """A child that is forked from this process, with what `Worker` uses of `subprocess.Popen`."""

    def __init__(self, make: Callable[[], Handler]) -> None:
        (jobs, stdin), (stdout, replies), (stderr, prints) = (os.pipe() for _ in range(3))
        sys.stdout.flush()
        sys.stderr.flush()
        parent, self.pid = os.getpid(), os.fork()
        if self.pid == 0:
            try:
                for end in (stdin, stdout, stderr):
                    os.close(end)
                os.setsid()
                os.dup2(prints, 1)
                os.dup2(prints, 2)
                faulthandler.enable(2)
                warden.guard(lambda: _forked(make, jobs, replies), parent)
            finally:
                os._exit(os.EX_SOFTWARE)
        for end in (jobs, replies, prints):
            os.close(end)
        self.stdin = os.fdopen(stdin, "wb", 0)
        self.stdout, self.stderr = os.fdopen(stdout, "rb", 0), os.fdopen(stderr, "rb", 0)
        self.returncode: int | None = None

    def wait(self, timeout_s: float) -> int:
        """The exit code, negative for a signal. Raises subprocess.TimeoutExpired."""
        deadline = time.monotonic() + timeout_s
        while self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("a fork", timeout_s)
            else:
                time.sleep(0.005)
        return self.returncode

    def terminate(self, number: int = signal.SIGTERM) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.terminate(signal.SIGKILL)


def _forked(make: Callable[[], Handler], jobs: int, replies: int) -> None:
    """The forked side.

    Jobs run in a thread that starts here: to GNU's OpenMP the one that forked still has the team of its parent, whose
    threads did not come along, and its first parallel region would wait for them for ever.
    """
    thread = threading.Thread(target=_serve, args=(make, os.fdopen(jobs), os.fdopen(replies, "w", buffering=1)))
    thread.start()
    thread.join()
    os._exit(os.EX_OK)
