"""Where candidates are measured: sessions in this machine, one per device, or the workers of an executor."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from multiprocessing.process import BaseProcess
from typing import Any

from ..base.child import Reply
from ..base.errors import CarverError, ConfigError, RunError
from ..base.folders import lease
from ..run.built import cpu_workers
from ..run.compile import bundle
from ..run.device import lease_name
from ..run.session import Session, Spec, Trial, build, unbuilt
from .plan import Plan

RETRIES = 2
"""How often a candidate whose executor's worker died is given to another one."""

Found = tuple[int, Mapping[str, Any]]


class Sessions(ExitStack):
    """Measures candidates of one plan, `width` at once. A context manager; workers start when first needed."""

    def __init__(self, plan: Plan, devices: list[str], executor: Executor | None, parallel: int | None) -> None:
        super().__init__()
        self._plan, self._devices, self._executor = plan, devices, executor
        self._every: list[Session] = []
        self._free = queue.SimpleQueue[Session]()
        self._sent = 0  # how often the inputs went to the executor
        self._built: dict[int, Future[Trial | Reply]] = {}
        self._compilers: ThreadPoolExecutor | None = None
        self._stop = threading.Event()
        self.width = len(devices)
        self.alone = executor is None and len(devices) == 1
        """Whether one device times all, so that rounds can be compared."""
        self._references: Mapping[str, Any] = {}
        if executor is not None:
            self.width = parallel or getattr(executor, "_max_workers", None) or os.cpu_count() or 1
            found = plan.spec(plan.device).references()
            if found is None:
                raise ConfigError(
                    f"{plan.name} cannot be imported by an executor's workers: it is a closure, or in __main__, or "
                    "takes an argument that is no plain value; define it in a module that they can import"
                )
            self._references = found

    def measure(
        self, ready: Mapping[int, Trial], ahead: Iterable[tuple[int, Trial]], best_ms: float | None
    ) -> Iterator[Found]:
        """What became of each, as soon as it is known. Those `ahead` are compiled too: they are likely to be next."""
        if not ready:
            return
        if self._executor is not None:
            yield from self._remote(self._executor, ready, best_ms)
            return
        self._compile(ready, ahead)
        if not self._every:  # made ready as far as that goes while compilers run
            self._every = [self.enter_context(Session(self._plan.spec(device))) for device in self._devices]
            for session in self._every:
                session.begin()
                self._free.put(session)
        if self.width == 1:
            (session,) = self._every
            for i, trial in ready.items():
                found = self._one(session, i, trial, best_ms)
                yield i, found
                if samples_ms := found.get("samples_ms"):
                    best_ms = min(best_ms or min(samples_ms), *samples_ms)
            return
        threads = ThreadPoolExecutor(self.width)
        left = {threads.submit(self._on_any, i, trial, best_ms): i for i, trial in ready.items()}

        def stop() -> None:
            self._stop.set()
            for session in self._every:
                session.worker.stop()
            threads.shutdown()

        try:
            for future in as_completed(list(left)):
                found = future.result()
                yield left.pop(future), found
        except BaseException as e:
            yield from _finished(left, e, stop)
            raise
        threads.shutdown()

    def _on_any(self, i: int, trial: Trial, best_ms: float | None) -> dict[str, Any]:
        session = self._free.get()
        try:
            return self._one(session, i, trial, best_ms)
        finally:
            self._free.put(session)

    def _one(self, session: Session, i: int, trial: Trial, best_ms: float | None) -> dict[str, Any]:
        began = time.monotonic()
        if i in self._built:  # on a CPU nothing is timed while something compiles
            wait([self._built[i]] if self._plan.kind == "cuda" else self._built.values())
        waited_s = time.monotonic() - began
        built = self._built[i].result() if i in self._built else trial
        found = unbuilt(built) if isinstance(built, Reply) else session.measure(built, best_ms)
        return found | {"spent_s": {**found.get("spent_s", {}), "compile": waited_s}}

    def _compile(self, ready: Mapping[int, Trial], ahead: Iterable[tuple[int, Trial]]) -> None:
        """Begin to compile what is needed, and what comes next, as many as work side by side. For a CPU only when
        something needed is missing; for a GPU as soon as there is room, while it measures."""
        plan, gpu = self._plan, self._plan.kind == "cuda"
        if self._compilers is None:
            self._compilers = ThreadPoolExecutor(cpu_workers())
            self.callback(self._compilers.shutdown, cancel_futures=True)
            self.callback(self._stop.set)
        missing = any(trial.program is not None and i not in self._built for i, trial in ready.items())
        count = max(len(ready), cpu_workers()) if gpu or missing else 0
        for i, trial in islice({**ready, **dict(islice(ahead, count))}.items(), count):
            if trial.program is not None and i not in self._built:
                self._built[i] = self._compilers.submit(build, trial, plan.kind, plan.settings.timeout, self._stop)

    def _remote(self, executor: Executor, ready: Mapping[int, Trial], best_ms: float | None) -> Iterator[Found]:
        """Tasks for an executor. The inputs go along with the first for each of its workers, and then when missed."""
        spec, trials = self._plan.spec(self._plan.device), dict(ready)
        for i, trial in ready.items():  # with the text of its source, for a host that may not have the file
            if trial.program is not None:
                trials[i] = replace(trial, files=bundle(trial.program.source), binary=None)
        lost, wanted = dict.fromkeys(ready, 0), list(ready)
        gone = "the executor has lost its workers ({}); what was measured is kept: run again with a new one"
        missed: set[int] = set()
        while wanted:
            left: dict[Future[dict[str, Any]], int] = {}
            again = []
            try:
                for i in wanted:
                    full = i in missed or self._sent < self.width
                    self._sent += full
                    sent = spec if full else replace(spec, inputs=None)
                    left[executor.submit(measure_remote, sent, self._references, trials[i], best_ms)] = i
                for future in as_completed(list(left)):
                    error = future.exception()
                    i = left.pop(future)
                    if error is None:
                        yield i, future.result()
                    elif isinstance(error, InputsMissing) and i not in missed:
                        missed.add(i)
                        again.append(i)
                    elif isinstance(error, BrokenProcessPool):
                        raise error
                    elif isinstance(error, ConfigError | TypeError | AttributeError | ImportError):
                        raise ConfigError(f"the executor's workers cannot run {self._plan.name}: {error}") from error
                    elif lost[i] < RETRIES:
                        lost[i] += 1
                        again.append(i)
                    else:
                        said = f"lost with its worker {lost[i] + 1} times; {type(error).__name__}: {error}"
                        yield i, {"outcome": "crash", "message": said}
            except BaseException as e:
                yield from _finished(left, e)
                if isinstance(e, BrokenProcessPool):
                    raise RunError(gone.format(e)) from None
                raise
            wanted = again


def _finished(
    left: Mapping[Future[dict[str, Any]], int], error: BaseException, stop: Callable[[], None] = lambda: None
) -> Iterator[Found]:
    """What had ended well when an error ended the measuring, once what has not is stopped."""
    done = [(i, f.result()) for f, i in left.items() if f.done() and not f.cancelled() and f.exception() is None]
    for future in left:
        future.cancel()
    stop()
    if not isinstance(error, GeneratorExit):  # nobody is left to take it
        yield from done


class InputsMissing(CarverError):
    """The worker of an executor that got a task without the inputs does not have them."""


_HERE: dict[str, Session] = {}
"""Of this process, by device: that of the last tuning that sent a task. Who holds the device's lease may use it."""


def _session_here(spec: Spec, references: Mapping[str, Any]) -> Session:
    """Kept between the tasks of one tuning, until the next one takes the device; its worker ends with this process."""
    session = _HERE.get(spec.device)
    if session is not None and session.spec.identity == spec.identity:
        return session
    if spec.inputs is None:
        raise InputsMissing(f"no inputs for {spec.identity[:12]} in process {os.getpid()}")
    if session is not None:
        session.close()
    if not _HERE:  # they end with this process or, in one of a pool, with the process that the pool belongs to
        atexit.register(_close)
        if (parent := multiprocessing.parent_process()) is not None:
            threading.Thread(target=_close, args=(parent,), daemon=True).start()
    _HERE[spec.device] = Session(spec, references)
    return _HERE[spec.device]


def _close(parent: BaseProcess | None = None) -> None:
    if parent is not None:
        parent.join()
    while _HERE:
        _, session = _HERE.popitem()
        session.worker.stop()
        session.close()


def measure_remote(spec: Spec, references: Mapping[str, Any], trial: Trial, best_ms: float | None) -> dict[str, Any]:
    """The task that an executor runs on one of its workers, which takes turns with others on the same device."""
    with lease(lease_name(spec.device), shared=True, wait_s=float("inf")):
        return _session_here(spec, references).measure(trial, best_ms) | {"worker_pid": os.getpid()}
