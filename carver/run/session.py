"""One device under measurement, as seen by the process that measures: settings, worker process, and answers."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..arch import devices as archs
from ..arch.descriptor import Arch
from ..base.child import Child, Reply, may_fork, outcome_of
from ..base.errors import (
    CompileError,
    CompilerFailed,
    CompileTimeout,
    ConfigError,
    DeviceError,
    KernelError,
    RunError,
    nearest,
)
from ..base.folders import scratch
from ..base.given import number, shown, whole
from ..base.store import unpack
from ..problem.problem import Problem
from .compile import Compiler, bundle, sweep_binaries
from .device import Program, c_compiler, compile_source, cuda_compiler
from .spec import retargeted
from .stand import Stand
from .timers import check_timer
from .travel import PythonCode, arch_from_dict, program_from_dict, program_to_dict
from .worker import SETUP_TIMEOUT_S, Inline, ask

MOST_S = 1e7
"""Four months."""
MOST_RUNS = 1_000_000
MOST_ROUNDS = 10_000


@dataclass(frozen=True)
class Settings:
    """How candidates are measured.

    Each has `warmup` runs, then at most `rep` in each of `rounds` rounds, in which all have their turn as long as
    `budget_s` lasts. One that computes or hangs longer than `timeout_s` is stopped; one `slow_factor` times slower
    than the best is timed a few times only. Caches are cold unless `warm`. `reset_to_zero` and `restore_value` name
    arrays to be zeroed, or put back, before each run. `timer`: of `carver.run.timers`.
    """

    warm: bool = False
    check: bool = True
    seed: int = 0
    reset_to_zero: tuple[str | int, ...] = ()
    restore_value: tuple[str | int, ...] = ()
    rounds: int = 5
    budget_s: float = 60.0
    timeout_s: float = 30.0
    warmup: int = 3
    rep: int = 100
    slow_factor: float = math.inf
    timer: str = "events"

    def __post_init__(self) -> None:
        for name in ("budget_s", "timeout_s"):
            number(name, getattr(self, name), ConfigError, 1e-6, MOST_S)
        check_timer(self.timer)
        slow = self.slow_factor
        if isinstance(slow, bool) or not isinstance(slow, int | float) or not slow > 1:
            raise ConfigError(f"slow_factor must be a number above 1, got {shown(slow)}")
        for name, least, most in (("warmup", 0, MOST_RUNS), ("rep", 1, MOST_RUNS), ("rounds", 1, MOST_ROUNDS)):
            given = whole(name, getattr(self, name), ConfigError, least, most)
            object.__setattr__(self, name, given)

    def fit(self, problem: Problem) -> None:
        """Raises ConfigError if a name is no tensor of the problem."""
        known = [t.name for t in problem.statement.tensors] + (["bias"] if problem.options.get("bias") else [])
        for setting, allowed in (("reset_to_zero", [*known, "workspace"]), ("restore_value", known)):
            for name in getattr(self, setting):
                if name not in allowed:
                    raise ConfigError(f"{setting}: no {name!r} in {problem}; {nearest(str(name), allowed)}")


@dataclass(frozen=True)
class Trial:
    """One candidate, ready to run: a program with its binary, or a config for Python code."""

    key: str
    config: Mapping[str, Any]
    program: Mapping[str, Any] | None = None
    binary: tuple[str, str, str] | None = None
    files: Mapping[str, bytes] | None = None
    """Text of the source and its headers, where there is no binary yet and perhaps no such file."""
    hooks: tuple[int, int] = (-1, -1)
    """Places of its own hooks among those of the code, before and after; -1 for none."""

    def job(self, do: str) -> dict[str, Any]:
        binary = list(self.binary) if self.binary else None
        trial = {"key": self.key, "config": dict(self.config), "program": self.program, "binary": binary}
        return {"do": do, "trial": trial | {"hooks": list(self.hooks)}}

    def portable(self) -> Trial:
        """With the text of its source, for a host that may not have the file."""
        if self.program is None:
            return self
        return replace(self, files=bundle(program_from_dict(self.program).source), binary=None)


def digest(parts: Sequence[Any]) -> str:
    """SHA-256 of plain values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def program_identity(program: Program, compiler: str) -> dict[str, Any]:
    """All of a program that its result depends on: its launches, and in place of its path what the source says."""
    return program_to_dict(program) | {"source": program.source.key(compiler)}


def compiler_of(kind: str) -> Compiler:
    return c_compiler() if kind == "cpu" else cuda_compiler()


def build(
    trial: Trial, kind: str, timeout_s: float | None = None, stop: threading.Event | None = None, device: str = ""
) -> Trial | Reply:
    """The trial with its binary, compiled here; a Reply that says why where there is none.

    `stop` ends the compiler. `device` is the one here, where the trial was made for another host's.
    """
    assert trial.program is not None
    program = program_from_dict(trial.program)
    source = program.source
    if trial.files is not None and not source.path.is_file():
        source = replace(source, path=unpack(trial.files))
    if device and kind == "cuda":
        source = retargeted(source, archs.load(device).isa)
    try:
        binary = compile_source(source, compiler_of(kind), timeout_s, stop)
    except CompileTimeout as e:
        return Reply("timeout", str(e))
    except (CompileError, KernelError, RunError) as e:
        return Reply(outcome_of(e), str(e), transient=isinstance(e, CompilerFailed))
    plain = program_to_dict(replace(program, source=source))
    return replace(trial, program=plain, binary=(str(binary.path), binary.sha256, binary.log), files=None)


@dataclass(frozen=True)
class Opened:
    """The device that the worker opened."""

    kind: str
    name: str
    lease: str
    arch: Arch
    state: Mapping[str, Any]


class Session(ExitStack):
    """A worker process on a device, which may be replaced, and a folder for what goes to and fro. A context manager."""

    def __init__(
        self, device: str, settings: Settings, code: PythonCode | None = None, call: Mapping[str, Any] | None = None,
        references: Mapping[str, Any] | None = None, isolate: bool = True,
    ) -> None:  # fmt: skip
        """`code` and `call` are the user's function and its arguments, `references` where another process finds it."""
        super().__init__()
        self.device, self.settings = device, settings

        def here() -> Stand:
            return Stand(device, code, call)

        self.worker: Child | Inline
        self.forked = False
        if not isolate:
            self.worker = Inline(here)
        elif code is None or not code.needed or references is not None:
            self.worker = Child("carver.run.stand:limited", {"device": device, "code": references})
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
            raise DeviceError(f"device {self.device!r}: {reply.message}")
        d = reply.data
        return Opened(d["kind"], d["name"], d["lease"], arch_from_dict(d["arch"]), d["state"])

    def state(self) -> Mapping[str, Any]:
        """Clocks and temperature now; nothing where the device does not say."""
        reply = self.worker.call({"do": "state"}, self.settings.timeout_s)
        return reply.data if reply.outcome == "ok" else {}

    def check(self, trial: Trial, inputs: Mapping[str, Any]) -> Reply:
        """One run. `inputs` are arguments of `Stand.setup`."""
        return self._ask(trial.job("check") | {"to": str(self.folder)}, inputs, self.settings.timeout_s)

    def sample(
        self, trial: Trial, inputs: Mapping[str, Any], seconds: float, best_ms: float | None = None,
        **also: bool,
    ) -> Reply:  # fmt: skip
        """One round of timings, which take `seconds` if the kernel is fast enough for that; `also` is what else is
        asked of `Stand.sample`: watch, energy."""
        s, slow = self.settings, {"best_ms": best_ms, "slow_factor": self.settings.slow_factor}
        job = trial.job("sample") | self._timing(seconds) | {"to": str(self.folder), **also}
        return self._ask(job | (slow if best_ms is not None else {}), inputs, s.timeout_s + seconds)

    def library(self, inputs: Mapping[str, Any], seconds: float) -> Reply:
        return self._ask({"do": "library", **self._timing(seconds)}, inputs, self.settings.timeout_s + seconds)

    def _timing(self, seconds: float) -> dict[str, Any]:
        s = self.settings
        return {
            "seconds": seconds, "most": s.rep, "warmup": s.warmup, "timeout_s": s.timeout_s, "cold": not s.warm,
            "timer": s.timer,
        }  # fmt: skip

    def _ask(self, job: Mapping[str, Any], inputs: Mapping[str, Any], timeout_s: float) -> Reply:
        """The reply to a job, in a worker that has the inputs."""
        s = self.settings
        names = {"reset_to_zero": list(s.reset_to_zero), "restore_value": list(s.restore_value)}

        def failed(reply: Reply) -> ConfigError | RunError:
            kind = ConfigError if reply.outcome == "does_not_fit" else RunError
            what = str(Problem.from_dict(inputs["problem"])) if "problem" in inputs else "the inputs"
            return kind(f"{what} cannot be set up on {self.machine.name}: {reply.outcome}: {reply.message}")

        owner = job.get("trial", {}).get("key", "")
        return ask(self.worker, {"do": "setup", **inputs, **names}, job, timeout_s, failed, owner)

