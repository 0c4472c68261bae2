"""A process of its own for code that may crash, hang or eat the memory: compilers, readers of code, runs on a device.

The parent's `Child` sends jobs as JSON lines and gets a JSON line back for each, with the token of the job: nothing
else that is written into the pipe is taken for a reply. Whatever happens to the process becomes a `Reply` with an
outcome, and the next job gets a new process. The child hands each job to the object that `factory(**arguments)` made.
What no other process can import comes from a fork. A warden stands between the two, so all ends with its parent.

`carver.base.children` asks several at a time.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import gc
import json
import os
import pkgutil
import resource
import secrets
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from . import errors, warden
from .errors import CarverError, NoCandidates, RunError
from .folders import cores_available
from .types import Record

GRACE_S = 3.0
"""What a process gets to leave by itself once its pipe is closed, before it is killed."""
KILL_S = 30.0
"""What the warden gets to kill everything before the parent does so itself. [s]"""
PACKAGE = str(Path(__file__).resolve().parents[1])
STARTS = 3
"""How often a process is started that something kills before it is ready."""

OUTCOMES = ("ok", "compile_error", "wrong_result", "timeout", "crash", "out_of_memory", "does_not_fit")
"""What becomes of a candidate."""
_SAID_BYTES = 4000
"""Of what a process prints, as much of the beginning and of the end is kept."""
_REPLY_BYTES = 1 << 26
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_MARK = "CARVER_WORKER"
"""The environment variable by which processes are found whose warden was killed."""

_OUTCOMES = {
    "CompileTimeout": "timeout", "CompilerFailed": "crash", "CompileError": "compile_error",
    "CompilationError": "compile_error", "CompileTimeError": "compile_error",
    "ConfigError": "does_not_fit", "KernelError": "does_not_fit", "NoCandidates": "does_not_fit",
    "AssertionError": "does_not_fit", "OutOfResources": "does_not_fit",
    "MemoryError": "out_of_memory", "OutOfMemory": "out_of_memory", "OutOfMemoryError": "out_of_memory",
}  # fmt: skip
"""What an exception says about the candidate, by the name of its class, carver's own or another package's."""

Handler = Callable[[Mapping[str, Any]], Any]
"""What a child does with a job: its answer is a mapping, to a job with the key "stream" an iterator of mappings."""


def outcome_of(error: BaseException) -> str:
    """What became of the candidate that raised it; a crash where `_OUTCOMES` names none of the error's classes."""
    names = (each.__name__ for each in type(error).__mro__)
    return next((_OUTCOMES[name] for name in names if name in _OUTCOMES), "crash")


class Reply(Record):
    """What became of one job: one of OUTCOMES, the reason, and what the job returned.

    `transient` says that it may not befall the same candidate again: SIGKILL from outside (by hand, or from the
    system's out-of-memory killer), or a compiler that lacked memory or disk.
    """

    outcome: str
    message: str = ""
    data: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    transient: bool = False


class Child:
    """One child process at a time, replaced after anything that may have damaged it. A context manager."""

    def __init__(
        self,
        target: str | Callable[[], Handler],
        arguments: Mapping[str, Any] = _NOTHING,
        *,
        start_timeout_s: float = 120.0,
        environment: Mapping[str, str] = _NOTHING,
        guarded: bool = True,
    ) -> None:
        """`target` is "module:factory", which the child calls with `arguments`, or a function for a fork to call. One
        that is not `guarded` has no warden: that of the process which makes it ends what the fork leaves behind."""
        self._target, self._arguments, self._start_timeout_s = target, arguments, start_timeout_s
        self._environment, self._guarded = environment, guarded
        self._process: subprocess.Popen[bytes] | _Forked | None = None
        self._buffer = self._head = self._tail = b""
        self._folder = ""
        """Of the child's temporary files, which go with it."""
        self._asked: list[str] = []
        """Tokens of what has no reply yet: "ready", which is asked of a new process, then those of jobs."""
        self.since = 0.0
        """When the last job was sent. [s]"""
        self._mark = ""
        self.started = 0
        self.stopped = False
        self.set_up: Mapping[str, Any] | None = None
        """The job that the process was set up by, see `ask`; None in a new one."""
        self.owners: set[str] = set()
        """Whose jobs this process has done, see `ask`."""

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end(0.0 if kind else GRACE_S)

    def close(self) -> None:
        self._end(GRACE_S)

    def kill(self) -> None:
        """End it and all that it started, at once."""
        self._end(0.0)

    @property
    def pid(self) -> int | None:
        """The process id of the warden, or of a fork without one; None while there is none."""
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
            if self._asked[:1] != ["ready"]:
                return
            with self._whole():
                ready = self._reply(self._start_timeout_s, "starting")
            if not ready.transient or self.stopped:
                break
        if "raise" in ready.data:
            self._end(0.0)
            kind = getattr(errors, str(ready.data["raise"]), CarverError)
            raise kind(ready.message) if kind is not NoCandidates else CarverError(ready.message)
        if ready.outcome != "ok":
            raise RunError(f"the worker process did not start: {ready.message}")

    def _launch(self) -> None:
        self._buffer = self._head = self._tail = b""
        self.set_up, self.owners, self._asked = None, set(), ["ready"]
        self._folder = tempfile.mkdtemp(prefix="carver-")
        self._process = self._new()
        for pipe in self.pipes:  # what was ready may have been read since
            os.set_blocking(pipe.fileno(), False)
        self.started += 1

    def _new(self) -> subprocess.Popen[bytes] | _Forked:
        if not isinstance(self._target, str):
            return _Forked(self._target, self._folder, self._guarded)
        self._mark = secrets.token_hex(16)
        environment = {**os.environ, **self._environment, _MARK: self._mark, **_temporary(self._folder)}
        environment |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(cores_available()))
        if kept := [p for p in environment.pop("PYTHONPATH", "").split(os.pathsep) if p]:  # "" is the current directory
            environment["PYTHONPATH"] = os.pathsep.join(kept)
        paths = [str(Path(p).resolve()) for p in sys.path]  # behind its own: nothing there stands for what is installed
        child = [sys.executable, "-P", "-c", _CHILD, PACKAGE, json.dumps(paths), self._target]
        return subprocess.Popen(
            [*warden.command(), *child, json.dumps(dict(self._arguments))], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, start_new_session=True, env=environment,
        )  # fmt: skip

    def call(self, job: Mapping[str, Any], timeout_s: float) -> Reply:
        """Run one job. Raises for nothing that a kernel does; a hang past `timeout_s` kills the process."""
        self.start()
        with self._whole():
            self.send(job)
            reply = self._reply(timeout_s, f"running {job.get('do', 'a job')}")
        if reply.outcome in ("crash", "out_of_memory"):
            self._end(0.0)
        return reply

    def stream(self, job: Mapping[str, Any], timeout_s: float) -> Iterator[Reply]:
        """The replies to a job whose handler gives several, each within the timeout; the last may say why it ended."""
        self.start()
        with self._whole():
            self.send(job)
            asked = list(self._asked)
            while (reply := self._reply(timeout_s, "at work")).outcome == "ok" and reply.data:
                self._asked = list(asked)
                yield reply
        if reply.outcome != "ok":
            self._end(0.0)
            yield reply

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """A job and its reply: an interrupt between them must not leave the reply to the next job."""
        try:
            yield
        except BaseException:
            self._end(0.0)
            raise

    def _reply(self, timeout_s: float, doing: str) -> Reply:
        """Wait for the reply to what was asked first; of what the child prints meanwhile the end is kept."""
        deadline = time.monotonic() + timeout_s
        while (reply := self._answer()) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                self._end(0.0)
                return Reply("timeout", f"still {doing} after {timeout_s:g} s; its process was killed")
            for pipe in ready(self.pipes, left):
                if (lost := self._take(pipe)) is not None:
                    return lost
        return reply

    def _answer(self, transient: bool = False) -> Reply | None:
        """The reply to what was asked first, once it is whole. `transient`: whether what is none is a mishap."""
        if b"\n" not in self._buffer and len(self._buffer) < _REPLY_BYTES:
            return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        token = self._asked.pop(0) if self._asked else ""
        with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
            d = json.loads(line)
            if d["token"] == token and d["outcome"] in OUTCOMES:
                return Reply(d["outcome"], str(d["message"]), dict(d["data"]))
        self._end(0.0)
        return Reply("crash", f"what it wrote into the pipe of replies is none: {line[:80]!r}", transient=transient)

    def _take(self, pipe: IO[bytes]) -> Reply | None:
        """Take what is in one of `pipes`; the reply of a child that is gone, where that is what it says."""
        assert self._process is not None
        if pipe is not self._process.stdout:
            self._print(pipe)
            return None
        with contextlib.suppress(BlockingIOError):
            if not (chunk := os.read(pipe.fileno(), 1 << 20)):
                return self._lost()
            self._buffer += chunk
        return None

    def _print(self, pipe: IO[bytes]) -> None:
        """Keep the beginning and the end of what the child prints."""
        try:
            chunk = os.read(pipe.fileno(), 1 << 16)
        except BlockingIOError:
            return
        self._head += chunk[: max(_SAID_BYTES - len(self._head), 0)]
        self._tail = (self._tail + chunk)[-_SAID_BYTES:]
        if not chunk:
            pipe.close()

    def send(self, job: Mapping[str, Any]) -> None:
        """Ask, and do not wait: what comes out of `pipes` is for `read`."""
        if self._process is None:
            self._launch()
        assert self._process is not None and self._process.stdin is not None
        self.since, token = time.monotonic(), secrets.token_hex(8)
        self._asked.append(token)  # a line that a candidate wrote into the pipe is no reply
        with contextlib.suppress(BrokenPipeError):  # it is gone: the end of its other pipe says so
            self._process.stdin.write(json.dumps({"token": token, "job": dict(job)}).encode() + b"\n")

    @property
    def pipes(self) -> list[IO[bytes]]:
        """What to listen to: its replies, and what it prints."""
        if self._process is None:
            return []
        ends = (self._process.stdout, self._process.stderr)
        return [end for end in ends if end is not None and not end.closed]

    def read(self, pipe: IO[bytes]) -> Reply | None:
        """Take what is in one of `pipes`; the reply to the job that was sent, once it is whole."""
        if (lost := self._take(pipe)) is not None:
            return lost
        starting = self._asked[:1] == ["ready"]
        reply = self._answer(transient=True)
        return self._answer(transient=True) if starting and reply and reply.outcome == "ok" else reply

    def late(self, doing: str) -> Reply:
        """End a child that took too long; its reply."""
        took_s = time.monotonic() - self.since
        self._end(0.0)
        return Reply("timeout", f"not {doing} within {took_s:.0f} s", transient=True)

    def printed(self) -> str:
        """What the child printed since it was last asked for that: the beginning and the end."""
        self._drain()
        head, tail, self._head, self._tail = self._head, self._tail, b"", b""
        return (head if tail in head else head + b"\n" + tail).decode(errors="replace")

    def _drain(self) -> None:
        """Take what the child has printed by now."""
        for pipe in self.pipes[1:]:
            for _ in range(64):  # more than a pipe holds
                if not pipe.closed:
                    self._print(pipe)

    def _lost(self) -> Reply:
        """The reply of a child that is gone."""
        assert self._process is not None
        try:
            code = self._process.wait(KILL_S)
        except subprocess.TimeoutExpired:
            code = None
        self._drain()
        said = self._tail.decode(errors="replace").strip() or "nothing"
        self._end(0.0)
        if code is None:
            return Reply("crash", f"the worker process closed its pipe; it said: {said}")
        if code == -signal.SIGKILL:
            why = "the worker process was killed (SIGKILL), by hand or for want of memory"
            return Reply("crash", why, transient=True)
        if code < 0:
            return Reply("crash", f"the worker process died of {signal_name(-code)}")
        return Reply("crash", f"the worker process ended with status {code}; it said: {said}")

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

    def _sweep(self, process: subprocess.Popen[bytes] | _Forked) -> None:
        """Kill what is left of a process whose warden was itself killed and could not do so, and remove its files."""
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._mark and process.returncode == -signal.SIGKILL:
            marked = f"{_MARK}={self._mark}".encode()
            for path in Path("/proc").glob("[0-9]*/environ"):
                with contextlib.suppress(OSError):
                    if marked in path.read_bytes().split(b"\0"):
                        os.kill(int(path.parent.name), signal.SIGKILL)


def ready(pipes: Iterable[IO[bytes]], seconds: float) -> list[Any]:
    """Those of the pipes that have something to read, or have ended, within that time."""
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        return [key.fileobj for key, _ in selector.select(seconds)]


def _temporary(folder: str) -> dict[str, str]:
    """What a process is told of its folder of temporary files."""
    return {"TMPDIR": folder, warden.FOLDER: folder}


def signal_name(number: int) -> str:
    """As SIGSEGV."""
    return {each.value: each.name for each in signal.Signals}.get(number, f"signal {number}")


def _waited(process: subprocess.Popen[bytes] | _Forked, seconds: float) -> bool:
    """Whether the process has ended within that time."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
        return True
    return False


def answered(handle: Handler, job: Mapping[str, Any]) -> Reply:
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
        replies.write(json.dumps(line, default=vars) + "\n")
        replies.flush()

    try:
        handle = make()
    except CarverError as e:
        send("ready", Reply("crash", str(e), {"raise": type(e).__name__}))
        return
    except Exception:
        said = traceback.format_exc()[-_SAID_BYTES:]
        send("ready", Reply("crash", f"the worker's own code failed:\n{said}", {"raise": "RunError"}))
        return
    send("ready", Reply("ok"))
    for line in jobs:
        asked = json.loads(line)
        try:
            if "stream" in asked["job"]:
                for item in handle(asked["job"]):
                    send(asked["token"], Reply("ok", data=dict(item)))
                reply = Reply("ok")
            else:
                reply = answered(handle, asked["job"])
        except Exception:  # of a library that the job called
            reply = Reply("crash", traceback.format_exc()[-_SAID_BYTES:])
        send(asked["token"], reply)


OWN = """
import importlib.util, json, sys
_, package, paths, *words = sys.argv
spec = importlib.util.spec_from_file_location("carver", package + "/__init__.py", submodule_search_locations=[package])
sys.modules["carver"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["carver"])
"""
"""The first lines of a process: this very carver, whatever the current directory has in place of what is installed."""
_CHILD = f"""{OWN}
sys.path += [path for path in json.loads(paths) if path not in sys.path]
from carver.base.child import main
main(*words)
"""


def main(target: str, arguments: str) -> None:
    """The child that `Child` starts."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a kernel prints must not land between the replies
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def make() -> Handler:
        handler: Handler = pkgutil.resolve_name(target)(**json.loads(arguments))
        return handler

    jobs = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # nor is a job what a kernel's code reads
    _serve(make, jobs, replies)


def may_fork() -> bool:
    """Whether a forked child can work: not after CUDA was started here, whose context does not survive it."""
    torch, driver = sys.modules.get("torch"), sys.modules.get("pycuda.driver")
    if torch is not None and torch.cuda.is_initialized():
        return False
    return hasattr(os, "fork") and (driver is None or driver.Context.get_current() is None)


forking = threading.Lock()
"""Held while this process forks, and by a thread that does what no fork may cut in two: a copy that is made while
another thread compiles would wait for that thread's locks for ever."""
os.register_at_fork(before=forking.acquire, after_in_parent=forking.release, after_in_child=forking.release)


def _pipe() -> tuple[int, int]:
    """Two ends above the standard descriptors, which a process may have closed and its copy takes for itself."""
    ends = os.pipe()
    above = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3) for end in ends]
    for end in ends:
        os.close(end)
    return above[0], above[1]


class _Forked:
    """A child that is forked from this process, with what `Child` uses of `subprocess.Popen`."""

    def __init__(self, make: Callable[[], Handler], folder: str, guarded: bool) -> None:
        self.guarded = guarded
        (jobs, stdin), (stdout, replies), (stderr, prints) = (_pipe() for _ in range(3))
        for stream in (sys.stdout, sys.stderr):  # whatever stands there, or nothing
            with contextlib.suppress(Exception):
                stream.flush()
        parent = os.getpid()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python's and of libraries, for their threads: see `forking`
            self.pid = os.fork()
        if self.pid == 0:
            try:
                for end in (stdin, stdout, stderr):
                    os.close(end)
                gc.freeze()  # the collector walks through none of what the parent holds: pages stay shared
                os.setsid()
                os.environ |= _temporary(folder) if guarded else {"TMPDIR": folder}
                tempfile.tempdir = folder
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(prints, 1)
                os.dup2(prints, 2)
                # what stood there may be a notebook's
                sys.stdin = os.fdopen(0, closefd=False)
                sys.stdout = sys.stderr = os.fdopen(prints, "w", buffering=1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                faulthandler.enable(2)
                if guarded:
                    warden.guard(lambda: _forked(make, jobs, replies), parent)
                if warden.ends_with(parent):
                    _forked(make, jobs, replies)
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
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # somebody else waited for it
                pid, status = self.pid, 0
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("a fork", timeout_s)
            else:
                time.sleep(0.005)
        return self.returncode

    def terminate(self, number: int = signal.SIGTERM) -> None:
        """A warden ends all that its process started; a fork without one gets SIGKILL with its group."""
        if self.returncode is None:
            os.kill(self.pid, number if self.guarded else signal.SIGKILL)
            if not self.guarded:
                with contextlib.suppress(OSError):
                    os.killpg(self.pid, signal.SIGKILL)

    def kill(self) -> None:
        self.terminate(signal.SIGKILL)


def _forked(make: Callable[[], Handler], jobs: int, replies: int) -> None:
    """The forked side. Jobs run in a thread that starts here: to GNU's OpenMP the one that forked still has the team of
    its parent, whose threads did not come along, and its first parallel region would wait for them for ever."""
    thread = threading.Thread(target=_serve, args=(make, os.fdopen(jobs), os.fdopen(replies, "w", buffering=1)))
    thread.start()
    thread.join()
    os._exit(os.EX_OK)
