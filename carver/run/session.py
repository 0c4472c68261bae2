"""One device under measurement, as seen by the process that measures: settings, worker process, and answers."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..arch import devices as archs
from ..arch.descriptor import Arch
from ..base.child import Child, Handler, Reply, answered, may_fork, outcome_of
from ..base.errors import CompileError, CompilerFailed, ConfigError, DeviceError, KernelError, RunError
from ..base.folders import scratch
from ..base.given import as_json, typed
from ..base.store import unpack
from ..base.types import Record
from ..problem.problem import Problem
from .check import Checker, OperatorReference
from .compile import Compiler, c_compiler, compile_source, cuda_compiler, sweep_binaries
from .inputs import Inputs, PythonCode, serialized
from .render import Program
from .spec import Param, retargeted
from .worker import Settings, Worker

SETUP_TIMEOUT_S = 600.0
"""What a set-up may take: drawing or loading the inputs, computing the reference. [s]"""
BUSY = 1.5
"""Of its least time, what the device's baseline takes where others have part of the device."""
REST_S = 0.2
"""Before a disturbed timing is taken again; each time twice as long."""


class Spec(Record, eq=False):
    """Everything that a session needs. Those of one `identity` are alike but for the device."""

    device: str
    settings: Settings
    identity: str = ""
    inputs: Inputs | None = None
    """None where the worker that this goes to has them already, or draws them for a problem."""
    call: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of the user's function."""
    out: tuple[int, ...] = ()
    """Places of the outputs among the inputs."""
    hidden: tuple[int, ...] = ()
    """Those of them that references do not see: all but what `restore_value` names, which are inputs too."""
    checker: Checker = field(default_factory=Checker)
    code: PythonCode = field(default_factory=PythonCode)
    isolate: bool = True
    retakes: int = 0
    """How often a disturbed timing is taken again; with 0 nothing is looked for."""
    energy: bool = False
    """Whether the energy of a run is asked for too."""

    def references(self) -> dict[str, Any] | None:
        """How another process gets at the user's code; None where it cannot, or not at its arguments."""
        plain = all(v is None or isinstance(v, bool | int | float | str | Param) for v in self.call.values())
        return self.code.references() if plain else None


class Trial(Record):
    """One candidate, ready to run: a program with its binary, or a config for Python code."""

    key: str
    config: Mapping[str, Any]
    program: Program | None = None
    binary: tuple[str, str, str] | None = None
    files: Mapping[str, bytes] | None = None
    """Text of the source and its headers, where there is no binary yet and perhaps no such file."""
    hooks: tuple[int, int] = (-1, -1)
    """Places of its own hooks among those of the code, before and after; -1 for none."""

    def job(self, do: str) -> dict[str, Any]:
        return {"do": do, "trial": as_json(self)}


def digest(parts: Sequence[Any]) -> str:
    """SHA-256 of plain values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def program_identity(program: Program, compiler: str) -> dict[str, Any]:
    """All of a program that its result depends on: its launches, and in place of its path what the source says."""
    whole: dict[str, Any] = as_json(program)
    return whole | {"source": program.source.key(compiler)}


def compiler_of(kind: str) -> Compiler:
    return c_compiler() if kind == "cpu" else cuda_compiler()


def build(
    trial: Trial, kind: str, timeout_s: float | None = None, stop: threading.Event | None = None, device: str = ""
) -> Trial | Reply:
    """The trial with its binary, compiled here; a Reply that says why where there is none. `stop` ends the compiler.
    `device` is the one here, where the trial was made for another host's."""
    assert trial.program is not None
    source = trial.program.source
    if trial.files is not None and not source.path.is_file():
        source = replace(source, path=unpack(trial.files))
    if device and kind == "cuda":
        source = retargeted(source, archs.load(device).isa)
    try:
        binary = compile_source(source, compiler_of(kind), timeout_s, stop)
    except (CompileError, KernelError, RunError) as e:
        return Reply(outcome_of(e), str(e), transient=isinstance(e, CompilerFailed))
    program = replace(trial.program, source=source)
    return replace(trial, program=program, binary=(str(binary.path), binary.sha256, binary.log), files=None)


class Opened(Record):
    """The device that the worker opened."""

    kind: str
    name: str
    lease: str
    arch: Arch
    state: Mapping[str, Any]


class Inline(Child):
    """Jobs run in this process: nothing can be killed, a crash takes the caller along."""

    _handle: Handler | None = None

    def spawn(self) -> None:
        """Nothing: what `start` makes belongs to the thread that uses it."""

    def start(self) -> None:
        if self._handle is None:
            assert not isinstance(self._target, str)
            self._handle = self._target()
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
    worker: Child, setup: Mapping[str, Any], job: Mapping[str, Any], timeout_s: float,
    failed: Callable[[Reply], Exception], owner: str = "",
) -> Reply:  # fmt: skip
    """The reply to a job of a process that did the job `setup` first.

    What SIGKILL took is asked once more; so is what fails in a process that did jobs of another `owner`, who may have
    left it damaged: only what fails in a fresh one counts. Raises what `failed` makes of a set-up that failed.
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


class Session(ExitStack):
    """A worker process on a device, which may be replaced, and a folder for what goes to and fro. A context manager."""

    def __init__(self, spec: Spec, references: Mapping[str, Any] | None = None) -> None:
        """`references`: where another process finds the user's function."""
        super().__init__()
        self.spec = spec
        self.problem: Problem | None = None
        """Whose inputs the worker draws, in the place of those that `spec` has."""
        self._manifest: list[dict[str, Any]] | None = None
        self._checked = False
        self._quiet_ms = float("inf")
        self._patience = spec.retakes
        """How often the next disturbed timing is taken again: fewer times where the last one stayed disturbed."""
        known = references or (spec.references() if spec.code.needed else {})
        device, code, call = spec.device, spec.code, spec.call

        def here() -> Worker:
            return Worker(device, code, call)

        self.worker: Child
        self.forked = False
        if not spec.isolate:
            self.worker = Inline(here)
        elif known is not None:
            self.worker = Child("carver.run.worker:limited", {"device": device, "code": known})
        elif device == "cpu" and may_fork():
            self.worker, self.forked = Child(here), True
        else:
            raise ConfigError(
                "the function cannot be run in another process: it is a closure, or in __main__, or takes an argument "
                "that is no plain value, and a process that uses CUDA cannot be forked: define the function in a "
                "module, or pass isolate=False, which gives up timeouts"
            )
        tmp = Path(os.environ.get("CARVER_TMP_DIR") or tempfile.gettempdir())
        tmp.mkdir(parents=True, exist_ok=True)
        sweep_binaries()
        self.folder = self.enter_context(scratch(tmp, "carver-tune-"))
        self.callback(self.worker.close)

    @cached_property
    def machine(self) -> Opened:
        """Raises DeviceError where the device cannot be opened."""
        reply = self.worker.call({"do": "describe"}, SETUP_TIMEOUT_S)
        if reply.outcome != "ok":
            raise DeviceError(f"device {self.spec.device!r}: {reply.message}")
        opened: Opened = typed(Opened, reply.data)
        return opened

    def begin(self) -> None:
        """What needs no candidate, so that it can go on while compilers run: the worker process comes up, the inputs
        are drawn, carver's own reference is computed. The user's reference is timed, so it waits for quiet."""
        self.worker.spawn()
        self._inputs()
        if isinstance(self.spec.checker.ref_prog, OperatorReference):
            self._prepare_checks()

    def measure(self, trial: Trial, best_ms: float | None = None, seconds: float | None = None) -> dict[str, Any]:
        """Compile if need be, run and check once, time one round, check again: what `Runner.take` takes. The round
        takes `seconds`, by default a quarter of the time limit, if the candidate is fast enough for that."""
        s, spent_s = self.spec, dict[str, float]()
        found: dict[str, Any] = {"host": platform.node(), "spent_s": spent_s}
        if trial.files is not None:
            began = time.monotonic()
            built = build(trial, s.device.partition(":")[0], s.settings.timeout_s, device=s.device)
            spent_s["compile"] = time.monotonic() - began
            if isinstance(built, Reply):
                return found | unbuilt(built)
            trial = built
        found |= {"device": self.machine.name, "state": dict(self.machine.state)}
        self._prepare_checks()
        began = time.monotonic()
        reply = self.check(trial)
        found |= self._judged(reply)
        if found["outcome"] == "wrong_result" and reply.outcome == "ok" and self.worker.owners - {trial.key}:
            self.worker.close()  # only what is wrong in a new process counts
            found |= self._judged(self.check(trial))
        spent_s["check"] = time.monotonic() - began
        if found["outcome"] != "ok":
            return found
        found["smem_bytes"] = _smem_bytes(trial, found.get("resources", {}))
        timed = self.round(trial, best_ms, s.settings.timeout_s / 4 if seconds is None else seconds)
        return found | timed | {"spent_s": spent_s | timed["spent_s"], "message": timed["message"] or found["message"]}

    def round(self, trial: Trial, best_ms: float | None, seconds: float) -> dict[str, Any]:
        """One round of timings of what was checked before, again while others disturb it."""
        began, most = time.monotonic(), self.spec.retakes
        reply = self.sample(trial, best_ms, seconds)
        found: dict[str, Any] = {"retaken": 0, "busy": self._busy(reply), "worst": 0.0}
        while found["busy"] > BUSY and found["retaken"] < self._patience:
            time.sleep(REST_S * 2 ** found["retaken"])
            worst = max(found["worst"], found["busy"])
            reply = self.sample(trial, best_ms, seconds)
            found |= {"retaken": found["retaken"] + 1, "busy": self._busy(reply), "worst": worst}
        self._patience = max(self._patience // 2, min(most, 1)) if found["busy"] > BUSY else most
        spent_s, numbered = {"measure": time.monotonic() - began}, self.spec.settings.rounds > 1
        found |= {"spent_s": spent_s, "numbered": numbered, **_timings(reply)}
        if reply.outcome == "ok" and reply.data.get("outputs") is not None:
            after = self._judged(reply)
            if after["outcome"] != "ok":
                return found | after | {"message": f"right at first, but after it was timed {after['message']}"}
        return found

    def library(self, seconds: float) -> dict[str, Any]:
        """One round of timings of the library's own call, whose `name` it says."""
        began = time.monotonic()
        reply = self._ask({"do": "library", "seconds": seconds}, self.spec.settings.timeout_s + seconds)
        spent_s = {"measure": time.monotonic() - began}
        return {"name": reply.data.get("name"), "state": self.machine.state, "spent_s": spent_s, **_timings(reply)}

    def check(self, trial: Trial) -> Reply:
        return self._ask(trial.job("check") | {"to": str(self.folder)}, self.spec.settings.timeout_s)

    def sample(self, trial: Trial, best_ms: float | None, seconds: float) -> Reply:
        s = self.spec
        job = trial.job("sample") | {"seconds": seconds, "best_ms": best_ms, "to": str(self.folder)}
        return self._ask(job | {"watch": bool(s.retakes), "energy": s.energy}, s.settings.timeout_s + seconds)

    def _busy(self, reply: Reply) -> float:
        """The baseline's time around a timing over its least so far; infinite where every run lost a core."""
        conditions = reply.data.get("conditions", {}) if reply.outcome == "ok" else {}
        if not (around := conditions.get("baseline_ms")):
            return 0.0
        self._quiet_ms = min(self._quiet_ms, *around)
        lost = (conditions.get("disturbed_percent") or 0) >= 50
        return float("inf") if lost else max(around) / self._quiet_ms

    def _judged(self, reply: Reply) -> dict[str, Any]:
        """What the outputs that a reply names are worth; those of a problem were judged by the worker."""
        checker = self.spec.checker
        found: dict[str, Any] = {"outcome": reply.outcome, "message": reply.message, "error": reply.data.get("error")}
        if reply.outcome != "ok":
            return found
        found |= {name: reply.data[name] for name in ("resources", "state") if name in reply.data}
        found |= {"checked": checker.wanted or found["error"] is not None, "reference_ms": checker.ref_latency_ms}
        if checker.wanted:
            files = [self.folder / f"out{i}.npy" for i in range(reply.data["outputs"])]
            outputs = [np.load(file, allow_pickle=False) for file in files]
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
        """Arguments of `Worker.setup`."""
        s = self.spec
        if self.problem is not None:
            return {"problem": self.problem.to_dict()}
        if self._manifest is None:
            assert s.inputs is not None
            self._manifest = s.inputs.write(self.folder)
        call = {} if self.forked or not s.isolate else {k: serialized(v) for k, v in s.call.items()}
        return {"inputs": self._manifest, "call": call, "out": list(s.out)}

    def _ask(self, job: Mapping[str, Any], timeout_s: float) -> Reply:
        """The reply to a job, in a worker that has the inputs."""
        setup = {"do": "setup", "settings": as_json(self.spec.settings), **self._inputs()}

        def refused(reply: Reply) -> ConfigError | RunError:
            kind = ConfigError if reply.outcome == "does_not_fit" else RunError
            what = self.problem or "the inputs"
            return kind(f"{what} cannot be set up on {self.machine.name}: {reply.outcome}: {reply.message}")

        owner = job.get("trial", {}).get("key", "")
        return ask(self.worker, setup, job, timeout_s, refused, owner)


def unbuilt(reply: Reply) -> dict[str, Any]:
    """What `Runner.take` takes of a candidate that a compiler made nothing of."""
    return {"outcome": reply.outcome, "message": reply.message, "transient": reply.transient}


def _timings(reply: Reply) -> dict[str, Any]:
    found = {"outcome": reply.outcome, "message": reply.message}
    return found | {name: reply.data[name] for name in ("samples_ms", "conditions") if name in reply.data}


def _smem_bytes(trial: Trial, resources: Mapping[str, Any]) -> int:
    """The most shared memory that a block of any launch of a program takes, static and dynamic together."""
    static = {entry: r[1] for entry, r in resources.items()}
    calls = trial.program.calls if trial.program is not None else ()
    return max((static.get(call.entry, 0) + call.dynamic_smem_bytes for call in calls), default=0)
