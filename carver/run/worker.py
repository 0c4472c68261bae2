"""Jobs on a device, in a `Child` or in this process: set up once, asked again where something else took the process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..base.child import Child, Handler, Reply, answered
from ..base.errors import CarverError, RunError

SETUP_TIMEOUT_S = 600.0
"""What a set-up may take: drawing or loading the inputs, computing the reference. [s]"""


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
        reply = answered(self._handle, job)
        took = time.monotonic() - began
        if took > timeout_s:
            return Reply("timeout", f"took {took:.3g} s; {timeout_s:g} s were allowed, and nothing could stop it")
        return reply

    def stop(self) -> None:
        self.stopped = True

    def close(self) -> None: ...


def ask(
    worker: Child | Inline, setup: Mapping[str, Any], job: Mapping[str, Any], timeout_s: float,
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
