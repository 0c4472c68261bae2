"""Where candidates are measured: lanes in this machine, one per device, or the workers of an executor."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import platform
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

import numpy as np

from ..base.child import Reply
from ..base.errors import CarverError, ConfigError, RunError
from ..base.folders import lease
from ..run.check import OperatorReference
from ..run.device import lease_name
from ..run.session import Session, Trial, build
from ..run.stand import decoded
from ..run.travel import sent
from .built import cpu_workers
from .plan import Plan, Spec

RETRIES = 2
"""How often a candidate whose executor's worker died is given to another one."""

Found = tuple[int, Mapping[str, Any]]


class Lanes(ExitStack):
    """Measures candidates of one plan, `width` at once. A context manager; workers start when first needed."""

    def __init__(self, plan: Plan, devices: list[str], executor: Executor | None, parallel: int | None) -> None:
        super().__init__()
        self._plan, self._devices, self._executor = plan, devices, executor
        self._every: list[Lane] = []
        self._free = queue.SimpleQueue[Lane]()
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
        self._open()
        if self.width == 1:
            (lane,) = self._every
            for i, trial in ready.items():
                found = self._one(lane, i, trial, best_ms)
                yield i, found
                if found["samples_ms"]:
                    best_ms = min(best_ms or min(found["samples_ms"]), *found["samples_ms"])
            return
        threads = ThreadPoolExecutor(self.width)
        left = {threads.submit(self._on_any, i, trial, best_ms): i for i, trial in ready.items()}

        def stop() -> None:
            self._stop.set()
            for lane in self._every:
                lane.stop()
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
        lane = self._free.get()
        try:
            return self._one(lane, i, trial, best_ms)
        finally:
            self._free.put(lane)

    def _one(self, lane: Lane, i: int, trial: Trial, best_ms: float | None) -> dict[str, Any]:
        began = time.monotonic()
        if i in self._built:  # on a CPU nothing is timed while something compiles
            wait([self._built[i]] if self._plan.kind == "cuda" else self._built.values())
        waited_s = time.monotonic() - began
        built = self._built[i].result() if i in self._built else trial
        if isinstance(built, Reply):
            found: dict[str, Any] = {
                "outcome": built.outcome, "message": built.message, "samples_ms": [], "transient": built.transient,
            }  # fmt: skip
        else:
            found = lane.measure(built, best_ms)
        return found | {"spent_s": {**found.get("spent_s", {}), "compile": waited_s}}

    def _compile(self, ready: Mapping[int, Trial], ahead: Iterable[tuple[int, Trial]]) -> None:
        """Begin to compile what is needed, and what comes next, as many as work side by side.

        For a CPU only when something needed is missing; for a GPU as soon as there is room, while it measures.
        """
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

    def _open(self) -> None:
        """The lanes, once, made ready as far as that goes while compilers run."""
        if not self._every:
            self._every = [self.enter_context(Lane(self._plan.spec(device))) for device in self._devices]
            for lane in self._every:
                lane.begin()
                self._free.put(lane)

    def _remote(self, executor: Executor, ready: Mapping[int, Trial], best_ms: float | None) -> Iterator[Found]:
        """Tasks for an executor. The inputs go along with the first for each of its workers, and then when missed."""
        spec, trials = self._plan.spec(self._plan.device), {i: trial.portable() for i, trial in ready.items()}
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


BUSY = 1.5
"""Of its least time, what the device's baseline takes where others have part of the device."""
REST_S = 0.2
"""Before a disturbed timing is taken again; each time twice as long."""


class InputsMissing(CarverError):
    """The worker of an executor that got a task without the inputs does not have them."""


class Lane(Session):
    """The session of one tuning on one device. A context manager."""

    def __init__(self, spec: Spec, references: Mapping[str, Any] | None = None) -> None:
        known = references or (spec.references() if spec.code.needed else {})
        super().__init__(spec.device, spec.settings, spec.code, spec.call, known, spec.isolate)
        self.spec = spec
        self._manifest: list[dict[str, Any]] | None = None
        self._checked = False
        self._quiet_ms = float("inf")

    def stop(self) -> None:
        """End what runs, asked from another thread than the one that waits for it; nothing is measured after it."""
        self.worker.stop()

    def begin(self) -> None:
        """What needs no candidate, so that it can go on while compilers run: the worker process comes up, the inputs
        are drawn, carver's own reference is computed. The user's reference is timed, so it waits for quiet."""
        self.worker.spawn()
        self._inputs()
        if isinstance(self.spec.checker.ref_prog, OperatorReference):
            self._prepare_checks()

    def measure(self, trial: Trial, best_ms: float | None = None) -> dict[str, Any]:
        """Compile if need be, run and check once, time, check again. What became of it, in plain values."""
        s, spent_s = self.spec, dict[str, float]()
        found: dict[str, Any] = {
            "outcome": "ok", "message": "", "samples_ms": [], "error": None, "host": platform.node(), "resources": {},
            "checked": False, "spent_s": spent_s, "device": "", "state": {}, "conditions": {},
        }  # fmt: skip
        if trial.files is not None:
            began = time.monotonic()
            built = build(trial, s.device.partition(":")[0], s.settings.timeout_s, device=s.device)
            spent_s["compile"] = time.monotonic() - began
            if isinstance(built, Reply):
                return found | {"outcome": built.outcome, "message": built.message, "transient": built.transient}
            trial = built
        found |= {"device": self.machine.name, "state": dict(self.machine.state)}
        self._prepare_checks()
        began = time.monotonic()
        reply = self.check(trial, self._inputs())
        found |= self._judged(reply)
        if found["outcome"] == "wrong_result" and reply.outcome == "ok" and self.worker.owners - {trial.key}:
            self.worker.close()  # only what is wrong in a new process counts
            found |= self._judged(self.check(trial, self._inputs()))
        checked = time.monotonic()
        spent_s["check"] = checked - began
        if found["outcome"] != "ok":
            return found
        reply = self._sampled(trial, best_ms)
        found |= {"retaken": 0, "busy": self._busy(reply)}
        while found["busy"] > BUSY and found["retaken"] < s.retakes:
            time.sleep(REST_S * 2 ** found["retaken"])
            worst = max(found.get("worst", 0.0), found["busy"])
            reply = self._sampled(trial, best_ms)
            found |= {"retaken": found["retaken"] + 1, "busy": self._busy(reply), "worst": worst}
        spent_s["measure"] = time.monotonic() - checked
        if reply.outcome == "ok" and reply.data["outputs"] is not None:
            after = self._judged(reply)
            if after["outcome"] != "ok":
                return found | after | {"message": f"right at first, but after it was timed {after['message']}"}
        if reply.outcome != "ok":
            return found | {"outcome": reply.outcome, "message": reply.message}
        samples_ms = list(reply.data["samples_ms"])
        said = reply.message or found["message"]
        return found | {"samples_ms": samples_ms, "message": said, "conditions": dict(reply.data["conditions"])}

    def _sampled(self, trial: Trial, best_ms: float | None) -> Reply:
        s = self.spec
        also = {"watch": bool(s.retakes), "energy": s.energy}
        return self.sample(trial, self._inputs(), s.settings.timeout_s / 4, best_ms, **also)

    def _busy(self, reply: Reply) -> float:
        """The baseline's time around a timing over its least so far; infinite where every run lost a core."""
        conditions = reply.data.get("conditions", {}) if reply.outcome == "ok" else {}
        if not (around := conditions.get("baseline_ms")):
            return 0.0
        self._quiet_ms = min(self._quiet_ms, *around)
        lost = (conditions.get("disturbed_percent") or 0) >= 50
        return float("inf") if lost else max(around) / self._quiet_ms

    def _judged(self, reply: Reply) -> dict[str, Any]:
        """What the outputs that a reply names are worth."""
        checker = self.spec.checker
        found: dict[str, Any] = {"outcome": reply.outcome, "message": reply.message, "error": reply.data.get("error")}
        if reply.outcome != "ok":
            return found
        found |= {name: reply.data[name] for name in ("resources", "state") if name in reply.data}
        found |= {"checked": checker.wanted, "reference_ms": checker.ref_latency_ms}
        if checker.wanted:
            outputs = [
                decoded(np.load(self.folder / f"out{i}.npy", allow_pickle=False), dtype)
                for i, dtype in enumerate(reply.data["outputs"])
            ]
            found["outcome"], said, found["error"] = checker.check(outputs)
            found["message"] = said or reply.message
        return found

    def _prepare_checks(self) -> None:
        s = self.spec
        if s.checker.wanted and not self._checked:
            assert s.inputs is not None
            s.checker.prepare(s.inputs, s.device, max(len(s.out), 1), s.hidden)
            self._checked = True

    def _inputs(self) -> dict[str, Any]:
        if self._manifest is None:
            assert self.spec.inputs is not None
            self._manifest = self.spec.inputs.write(self.folder)
        call = {} if self.forked or not self.spec.isolate else {k: sent(v) for k, v in self.spec.call.items()}
        return {"inputs": self._manifest, "call": call, "out": list(self.spec.out)}


_HERE: dict[str, Lane] = {}
"""Of this process, by device: the lane of the last tuning that sent a task. Who holds the device's lease may use it."""


def _lane_here(spec: Spec, references: Mapping[str, Any]) -> Lane:
    """Kept between the tasks of one tuning, until the next one takes the device; its worker ends with this process."""
    lane = _HERE.get(spec.device)
    if lane is not None and lane.spec == spec:
        return lane
    if spec.inputs is None:
        raise InputsMissing(f"no inputs for {spec.identity[:12]} in process {os.getpid()}")
    if lane is not None:
        lane.close()
    if not _HERE:
        _close_with_process()
    _HERE[spec.device] = Lane(spec, references)
    return _HERE[spec.device]


def _close_with_process() -> None:
    """Ends the lanes here with this process or, in one of a pool, with the process that the pool belongs to."""

    def close(parent: BaseProcess | None = None) -> None:
        if parent is not None:
            parent.join()
        while _HERE:
            _, lane = _HERE.popitem()
            lane.stop()
            lane.close()

    atexit.register(close)
    if (parent := multiprocessing.parent_process()) is not None:
        threading.Thread(target=close, args=(parent,), daemon=True).start()


def measure_remote(spec: Spec, references: Mapping[str, Any], trial: Trial, best_ms: float | None) -> dict[str, Any]:
    """The task that an executor runs on one of its workers, which takes turns with others on the same device."""
    with lease(lease_name(spec.device), shared=True, wait_s=float("inf")):
        return _lane_here(spec, references).measure(trial, best_ms) | {"worker_pid": os.getpid()}
