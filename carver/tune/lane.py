"""A device under test: its worker process, the inputs there, and the check of what comes back.

A `Spec` says all of it in values that travel, so that a lane can be made where the device is: here, one process a
GPU, or in a worker of an executor on another host.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import platform
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..arch import devices as archs
from ..base.errors import CarverError, CompileError, CompilerFailed, CompileTimeout, ConfigError, KernelError, RunError
from ..base.folders import lease, scratch
from ..run.device import c_compiler, compile_source, cuda_compiler, lease_name
from ..run.trial import program_from_dict, program_to_dict
from ..run.worker import SETUP_TIMEOUT_S, Inline, Reply, Worker, ask, may_fork, outcome_of
from .checks import Checker, OperatorReference
from .inputs import Inputs
from .runner import Code, Runner, decoded
from .spec import bundle, retargeted, unpack


@dataclass(frozen=True)
class Profile:
    """How each candidate is run. Part of what a result is known by."""

    warmup: int = 25
    rep: int = 100
    timeout_s: float = 100.0
    warm_cache: bool = False
    slow_factor: float = 4.0
    reset_to_zero: tuple[str | int, ...] = ()
    restore_value: tuple[str | int, ...] = ()

    def __post_init__(self) -> None:
        for name, least in (("warmup", 0), ("rep", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(f"{name} must be a whole number of runs, at least {least}, got {value!r}")
        if not self.timeout_s > 0:
            raise ConfigError(f"timeout must be a time above 0 in seconds, got {self.timeout_s!r}")
        if not self.slow_factor > 1:
            raise ConfigError(f"slow_factor must be above 1, got {self.slow_factor!r}")


@dataclass(frozen=True)
class Work:
    """One candidate, ready to run: a program with its binary, or a config for Python code."""

    key: str
    config: Mapping[str, Any]
    program: Mapping[str, Any] | None = None
    binary: tuple[str, str, str] | None = None
    files: Mapping[str, bytes] | None = None
    """Text of the source and its headers, where there is no binary yet and perhaps no such file."""

    def job(self) -> dict[str, Any]:
        binary = list(self.binary) if self.binary else None
        return {"key": self.key, "config": dict(self.config), "program": self.program, "binary": binary}


@dataclass(frozen=True, eq=False)
class Spec:
    """Everything that a lane needs. Compared by `identity`."""

    identity: str
    device: str
    kind: str
    inputs: Inputs | None
    """None where the worker that this goes to has them already."""
    call: Mapping[str, Any]
    out: tuple[int, ...]
    """Places of the outputs among the inputs."""
    outputs: int
    hidden: tuple[int, ...]
    """Those of them that references do not see: all but what `restore_value` names, which are inputs too."""
    profile: Profile
    checker: Checker
    code: Code = field(default_factory=Code)
    isolate: bool = True

    def references(self) -> dict[str, Any] | None:
        """How another process gets at the user's code; None where it cannot, or not at its arguments."""
        plain = all(v is None or isinstance(v, bool | int | float | str) for v in self.call.values())
        return self.code.references() if plain else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and (self.identity, self.device) == (other.identity, other.device)

    def __hash__(self) -> int:
        return hash((self.identity, self.device))


class InputsMissing(CarverError):
    """The worker of an executor that got a task without the inputs does not have them."""


class Lane:
    """One worker process on one device. A context manager."""

    def __init__(self, spec: Spec, references: Mapping[str, Any] | None = None) -> None:
        self.spec = spec
        known = references or (spec.references() if spec.code.needed else {})
        self._call: Mapping[str, Any] = {}

        def here() -> Runner:
            return Runner(spec.device, spec.code, spec.call)

        self.worker: Worker | Inline
        if not spec.isolate:
            self.worker = Inline(here)
        elif known is not None:
            self._call = spec.call
            self.worker = Worker("carver.tune.runner:Runner", {"device": spec.device, "code": known})
        elif spec.kind == "cpu" and may_fork():
            self.worker = Worker(here)
        else:
            raise ConfigError(
                "the function cannot be run in another process: it is a closure, or in __main__, or takes an argument "
                "that is no plain value, and a process that uses CUDA cannot be forked: define the function in a "
                "module, or pass isolate=False, which gives up timeouts"
            )
        tmp = Path(os.environ.get("CARVER_TMP_DIR") or tempfile.gettempdir())
        tmp.mkdir(parents=True, exist_ok=True)
        self._held = ExitStack()
        self._folder = self._held.enter_context(scratch(tmp, "carver-tune-"))
        self._manifest: list[dict[str, Any]] | None = None
        self._checked = False
        self._described: Mapping[str, Any] | None = None

    def __enter__(self) -> Lane:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.worker.close()
        self._held.close()

    def stop(self) -> None:
        """End what runs, asked from another thread than the one that waits for it; nothing is measured after it."""
        self.worker.stop()

    @property
    def described(self) -> Mapping[str, Any]:
        """Name and state of the device."""
        if self._described is None:
            reply = self.worker.call({"do": "describe"}, SETUP_TIMEOUT_S)
            if reply.outcome != "ok":
                raise RunError(f"the device does not answer: {reply.message}")
            self._described = reply.data
        return self._described

    def begin(self) -> None:
        """What needs no candidate, so that it can go on while compilers run: the worker process comes up, the inputs
        are drawn, carver's own reference is computed. The user's reference is timed, so it waits for quiet."""
        self.worker.spawn()
        self._write()
        if isinstance(self.spec.checker.ref_prog, OperatorReference):
            self._prepare_checks()

    def measure(self, work: Work, best_ms: float | None = None) -> dict[str, Any]:
        """Compile if need be, run and check once, time. What became of it, in plain values."""
        found: dict[str, Any] = {
            "outcome": "ok", "message": "", "samples_ms": [], "error": None, "host": platform.node(), "resources": {},
            "checked": False, "spent_s": {},
        }  # fmt: skip
        s, spent_s = self.spec, found["spent_s"]
        if work.files is not None:
            began = time.monotonic()
            built = build(work, s.kind, s.profile.timeout_s, device=s.device)
            spent_s["compile"] = time.monotonic() - began
            if isinstance(built, Reply):
                return found | {"outcome": built.outcome, "message": built.message, "device": "", "state": {}}
            work = built
        found |= {"device": self.described["name"], "state": dict(self.described["state"])}
        self._prepare_checks()
        began = time.monotonic()
        found |= self._check(work)
        if found["outcome"] == "wrong_result":
            self.worker.set_up = None  # an earlier candidate may have written over the inputs: load them again
            found |= self._check(work)
        checked = time.monotonic()
        spent_s["check"] = checked - began
        if found["outcome"] != "ok":
            return found
        job = {
            "do": "sample", "work": work.job(), "warmup": s.profile.warmup, "rep": s.profile.rep,
            "timeout_s": s.profile.timeout_s, "cold": not s.profile.warm_cache, "best_ms": best_ms,
            "slow_factor": s.profile.slow_factor,
        }  # fmt: skip
        reply = self._ask(job, s.profile.timeout_s)
        spent_s["measure"] = time.monotonic() - checked
        if reply.outcome != "ok":
            return found | {"outcome": reply.outcome, "message": reply.message}
        return found | {"samples_ms": list(reply.data["samples_ms"]), "message": reply.message}

    def _check(self, work: Work) -> dict[str, Any]:
        """One run of a candidate, and what its outputs are worth."""
        s = self.spec
        out = self._folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        reply = self._ask({"do": "check", "work": work.job(), "to": str(out)}, s.profile.timeout_s)
        found: dict[str, Any] = {"outcome": reply.outcome, "message": reply.message}
        if reply.outcome != "ok":
            return found
        found |= {
            "resources": reply.data["resources"], "state": reply.data["state"], "checked": s.checker.wanted,
            "reference_ms": s.checker.ref_latency_ms,
        }  # fmt: skip
        if s.checker.wanted:
            outputs = [
                decoded(np.load(out / f"out{i}.npy", allow_pickle=False), dtype)
                for i, dtype in enumerate(reply.data["outputs"])
            ]
            found["outcome"], found["message"], found["error"] = s.checker.check(outputs)
        return found

    def _prepare_checks(self) -> None:
        s = self.spec
        if s.checker.wanted and not self._checked:
            assert s.inputs is not None
            s.checker.prepare(s.inputs, s.device, s.outputs, s.hidden)
            self._checked = True

    def _write(self) -> list[dict[str, Any]]:
        if self._manifest is None:
            assert self.spec.inputs is not None
            self._manifest = self.spec.inputs.write(self._folder)
        return self._manifest

    def _ask(self, job: Mapping[str, Any], timeout_s: float) -> Reply:
        """The reply in a worker that has the inputs."""
        s = self.spec
        setup = {
            "do": "setup", "inputs": self._write(), "call": dict(self._call), "out": list(s.out),
            "reset_to_zero": list(s.profile.reset_to_zero), "restore_value": list(s.profile.restore_value),
        }  # fmt: skip

        def failed(reply: Reply) -> ConfigError:
            return ConfigError(f"the inputs cannot be set up: {reply.message}")

        return ask(self.worker, setup, job, timeout_s, failed, owner=job["work"]["key"])


def build(
    work: Work, kind: str, timeout_s: float, stop: threading.Event | None = None, device: str = ""
) -> Work | Reply:
    """The work with its binary, compiled here; a Reply that says why where there is none.

    `stop` ends the compiler. `device` is the one here, where the work was made for another host's.
    """
    assert work.program is not None
    program = program_from_dict(work.program)
    source = program.source
    if work.files is not None and not source.path.is_file():
        source = replace(source, path=unpack(work.files))
    if device and kind == "cuda":
        source = retargeted(source, archs.load(device).isa)
    program = replace(program, source=source)
    try:
        binary = compile_source(source, c_compiler() if kind == "cpu" else cuda_compiler(), timeout_s, stop)
    except CompileTimeout as e:
        return Reply("timeout", str(e))
    except (CompileError, KernelError, RunError) as e:
        return Reply(outcome_of(e), str(e), passing=isinstance(e, CompilerFailed))
    return replace(
        work, program=program_to_dict(program), binary=(str(binary.path), binary.sha256, binary.log), files=None
    )


def portable(work: Work) -> Work:
    """The work with the text of its source, for a host that may not have the file."""
    if work.program is None:
        return work
    return replace(work, files=bundle(program_from_dict(work.program).source), binary=None)


@lru_cache(maxsize=1)
def _lane_here(spec: Spec, references: str) -> Lane:
    """Kept between the tasks of one tuning; its worker ends with this process."""
    if spec.inputs is None:
        raise InputsMissing(f"no inputs for {spec.identity[:12]} in process {os.getpid()}")
    lane = Lane(spec, json.loads(references))
    atexit.register(lane.close)
    return lane


def measure_remote(spec: Spec, references: Mapping[str, Any], work: Work, best_ms: float | None) -> dict[str, Any]:
    """The task that an executor runs on one of its workers, which takes turns with others on the same device."""
    lane = _lane_here(spec, json.dumps(dict(references), sort_keys=True))
    with lease(lease_name(spec.device), shared=True, wait_s=float("inf")):
        return lane.measure(work, best_ms) | {"worker_pid": os.getpid()}


def digest(parts: Sequence[Any]) -> str:
    """SHA-256 of plain values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
