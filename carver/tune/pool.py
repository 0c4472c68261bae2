"""Where candidates are measured: lanes in this machine, one a device, or the workers of an executor."""

from __future__ import annotations

import os
import queue
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, RunError
from ..worker import Reply
from .jitted import cpu_workers
from .lane import Lane, Work, build, measure_remote, portable

if TYPE_CHECKING:
    from .plan import Plan

RETRIES = 2
"""How often a candidate whose executor's worker died is given to another one."""

Found = tuple[int, Mapping[str, Any]]


class Pool:
    """Measures candidates of one plan, `width` at once. A context manager; workers start when first needed."""

    def __init__(self, plan: Plan, devices: list[str], executor: Executor | None, parallel: int | None) -> None:
        self._plan, self._devices, self._executor = plan, devices, executor
        self._stack = ExitStack()
        self._lanes: queue.SimpleQueue[Lane] | None = None
        self._built: dict[int, Future[Work | Reply]] = {}
        self._compilers: ThreadPoolExecutor | None = None
        self.width = len(devices)
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

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def measure(
        self, ready: Mapping[int, Work], ahead: Mapping[int, Work], best_ms: float | None
    ) -> Iterator[Found]:
        """What became of each, as soon as it is known. Those `ahead` are compiled too: they are likely to be next."""
        if not ready:
            return
        if self._executor is not None:
            yield from self._remote(self._executor, ready, best_ms)
            return
        built = self._build(ready, ahead)
        good: dict[int, Work] = {}
        for i, each in built.items():
            if isinstance(each, Reply):
                yield i, {"outcome": each.outcome, "message": each.message}
            else:
                good[i] = each
        if not good:
            return
        lanes = self._open()
        if self.width == 1:
            lane = lanes.get()
            try:
                for i, work in good.items():
                    found = lane.measure(work, best_ms)
                    yield i, found
                    if found["samples_ms"]:
                        best_ms = min(best_ms or min(found["samples_ms"]), *found["samples_ms"])
            finally:
                lanes.put(lane)
            return
        with ThreadPoolExecutor(self.width) as threads:
            futures = {threads.submit(_on_any, lanes, work, best_ms): i for i, work in good.items()}
            for future in as_completed(futures):
                yield futures[future], future.result()

    def _build(self, ready: Mapping[int, Work], ahead: Mapping[int, Work]) -> dict[int, Work | Reply]:
        """Binaries of what is needed, made side by side. When it returns nothing compiles, and timing may begin."""
        if self._compilers is None:
            self._compilers = self._stack.enter_context(ThreadPoolExecutor(cpu_workers()))
        plan, soon = self._plan, dict(list({**ready, **ahead}.items())[: max(len(ready), cpu_workers())])
        for i, work in soon.items():
            if work.program is not None and i not in self._built:
                self._built[i] = self._compilers.submit(build, work, plan.kind, plan.settings.timeout)
        for future in self._built.values():
            future.exception()
        return {i: self._built[i].result() if i in self._built else work for i, work in ready.items()}

    def _open(self) -> queue.SimpleQueue[Lane]:
        if self._lanes is None:
            self._lanes = queue.SimpleQueue()
            for device in self._devices:
                self._lanes.put(self._stack.enter_context(Lane(self._plan.spec(device))))
        return self._lanes

    def _remote(self, executor: Executor, ready: Mapping[int, Work], best_ms: float | None) -> Iterator[Found]:
        spec = self._plan.spec(self._plan.device)
        left, lost = {i: portable(work) for i, work in ready.items()}, dict.fromkeys(ready, 0)
        gone = "the executor has lost its workers ({}); what was measured is kept: run again with a new one"
        while left:
            try:
                futures = {
                    executor.submit(measure_remote, spec, self._references, work, best_ms): i
                    for i, work in left.items()
                }
            except BrokenProcessPool as e:
                raise RunError(gone.format(e)) from None
            for future in as_completed(futures):
                i, error = futures[future], future.exception()
                if error is None:
                    del left[i]
                    yield i, future.result()
                    continue
                if isinstance(error, BrokenProcessPool):
                    raise RunError(gone.format(error)) from None
                if isinstance(error, ConfigError | TypeError | AttributeError | ImportError):
                    raise ConfigError(f"the executor's workers cannot run {self._plan.name}: {error}") from error
                lost[i] += 1
                if lost[i] > RETRIES:
                    del left[i]
                    said = f"{type(error).__name__}: {error}"
                    yield i, {"outcome": "crash", "message": f"lost with its worker {lost[i]} times; {said}"}


def _on_any(lanes: queue.SimpleQueue[Lane], work: Work, best_ms: float | None) -> dict[str, Any]:
    lane = lanes.get()
    try:
        return lane.measure(work, best_ms)
    finally:
        lanes.put(lane)
