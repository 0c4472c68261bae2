"""What a worker process does with a candidate: load it, check its result, time it.

`Stand` is what the benchmark's `Trial` and the tuner's `Runner` have in common. Each has its own inputs, its own way to
tell a right result, and its own rule for how many samples are enough.

python -m carver.run.worker carver.run.trial:Trial '{"device": "cpu"}'
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..arch.descriptor import Arch, Matrix
from ..base.dtypes import ARRAY_BYTES
from ..base.errors import CarverError, DeviceError
from ..problem.problem import Problem
from . import reference
from .device import Binary, Buffer, Call, Loaded, Program, Scalar, Source, TensorSpec, open_device
from .library import float64, library_call, namespace

POISON = {name: 0x7F for name in ARRAY_BYTES if "int" in name or name == "bool"}
"""The byte that fills an output before each check, 0xFF (NaN) for every float type."""

WARM_UP_RUNS = 3
LEAST_OF_ROUND = 3
"""Samples of one round, however slow the kernel."""
LIBRARY_REST_S = 0.01
"""Before each run of a library on the CPU: it has threads of its own, and those that emptied the caches still spin."""


def program_to_dict(program: Program) -> dict[str, Any]:
    """Plain JSON types; `program_from_dict` gives back an equal program."""
    s = program.source
    return {
        "source": [str(s.path), dict(s.defines), list(s.flags), list(s.entries), s.isa],
        "calls": [_call_to_list(call) for call in program.calls],
        "workspace_bytes": program.workspace_bytes,
        "tensors": [[t.name, list(t.shape), t.dtype, t.align_bytes] for t in program.tensors],
    }


def _call_to_list(call: Call) -> list[Any]:
    block = call.block if isinstance(call.block, int) else list(call.block)
    args = [[a.kind, a.value] if isinstance(a, Scalar) else a for a in call.args]
    return [call.entry, list(call.grid), block, call.dynamic_smem_bytes, args]


def _call_from_list(entry: str, grid: list[int], block: Any, smem_bytes: int, args: list[Any]) -> Call:
    x, y, z = grid
    shape = tuple(block) if isinstance(block, list) else block
    scalars = tuple(Scalar(*a) if isinstance(a, list) else a for a in args)
    return Call(entry, (x, y, z), shape, smem_bytes, scalars)


def program_from_dict(d: Mapping[str, Any]) -> Program:
    path, defines, flags, entries, isa = d["source"]
    *inputs, output = (TensorSpec(name, tuple(shape), dtype, align) for name, shape, dtype, align in d["tensors"])
    return Program(
        source=Source(Path(path), MappingProxyType(defines), tuple(flags), tuple(entries), isa),
        calls=tuple(_call_from_list(*call) for call in d["calls"]),
        workspace_bytes=d["workspace_bytes"],
        inputs=tuple(inputs),
        output=output,
    )


def arch_from_dict(d: Mapping[str, Any]) -> Arch:
    """The descriptor whose fields came through JSON."""
    rows = [Matrix(**{**row, "shape": tuple(row["shape"])}) for row in d["matrix"]]
    return Arch(**{**{name: _frozen(value) for name, value in d.items()}, "matrix": tuple(rows)})


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


class Failed(CarverError):
    """Ends a job whose outcome is known."""

    def __init__(self, outcome: str, message: str) -> None:
        self.outcome = outcome
        super().__init__(message)


class Stand:
    """The handler of one worker process: a device, the kernels that were loaded on it, and how their runs are timed."""

    jobs: tuple[str, ...] = ("describe", "setup", "check", "sample")
    """Methods that the parent may ask for by name, with their arguments."""

    def __init__(self, device: str) -> None:
        self.device = open_device(device)
        self._loaded: dict[str, Loaded] = {}
        self._workspace: Buffer | None = None

    def __call__(self, job: Mapping[str, Any]) -> Mapping[str, Any]:
        arguments = dict(job)
        if (do := arguments.pop("do")) not in self.jobs:
            raise ValueError(f"no job {do!r}")
        try:
            return dict(getattr(self, do)(**arguments))
        except Failed as e:
            return {"outcome": e.outcome, "message": str(e)}

    def describe(self) -> Mapping[str, Any]:
        d = self.device
        return {"kind": d.kind, "name": d.name, "arch": asdict(d.arch), "state": d.state()}

    def _load(self, key: str, program: Program, binary: Sequence[str]) -> Loaded:
        """The program on the device, loaded once, and a workspace that is large enough for it."""
        if key not in self._loaded:
            path, sha256, log = binary
            self._loaded[key] = self.device.load(Binary(Path(path), sha256, log, 0.0, cached=True), program)
        if program.workspace_bytes > (self._workspace.size_bytes if self._workspace else 0):
            self._workspace = None  # frees the smaller one first
            self._workspace = self.device.empty((program.workspace_bytes,), "int8")
        return self._loaded[key]

    def _resources(self, key: str) -> dict[str, list[int]]:
        """Registers, static shared memory and spills [bytes] of each entry; nothing for what is not a program."""
        found = self._loaded[key].resources if key in self._loaded else {}
        return {entry: [r.registers, r.static_smem_bytes, r.spill_bytes] for entry, r in found.items()}

    def _time(
        self, run: Callable[[], None], repeats: int, prepare: Callable[[], None] | None, cold: bool, rest_s: float = 0.0
    ) -> list[float]:
        """Times of runs, each after `prepare` where there is one. [s]"""
        if prepare is None:
            return self.device.time(run, repeats, cold=cold, rest_s=rest_s)
        samples = []
        for _ in range(repeats):
            prepare()
            samples += self.device.time(run, 1, cold=cold, rest_s=rest_s)
        return samples


@dataclass
class Inputs:
    """Values that all candidates get, where they lie on the device, and the right result with its tolerance."""

    values: Mapping[str, Any]
    buffers: dict[str, Buffer]
    right: tuple[Any, Any] | None = None


class Trial(Stand):
    """What a benchmark asks: candidates on the drawn inputs of one problem, compared with its reference here."""

    jobs = (*Stand.jobs, "state", "library")

    def __init__(self, device: str) -> None:
        super().__init__(device)
        if self.device.kind == "cpu" and sys.platform == "linux":  # a greedy candidate fails before the system does
            memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            limits = [n for n in resource.getrlimit(resource.RLIMIT_AS) if n != resource.RLIM_INFINITY]
            resource.setrlimit(resource.RLIMIT_AS, (min([memory_bytes, *limits]),) * 2)
        self._xp: Any = None
        self._sets: list[Inputs] = []
        self._inputs: Inputs
        self._output: Buffer
        self._warm: set[str] = set()
        self._reset: tuple[str, ...] = ()
        self._restored: tuple[str, ...] = ()

    def describe(self) -> Mapping[str, Any]:
        return {**super().describe(), "lease": self.device.lease}

    def state(self) -> Mapping[str, Any]:
        return self.device.state()

    def setup(
        self,
        problem: Mapping[str, Any],
        *,
        seed: int,
        check: bool,
        reset_to_zero: Sequence[str],
        restore_value: Sequence[str],
    ) -> Mapping[str, Any]:
        """Draw the inputs, move them to the device, and compute what is right.

        Random values are what is timed; where sums are checked, so are values whose sums are exact.
        """
        p = self._problem = Problem.from_dict(problem)
        self._types = {**p.dtypes, "bias": p.dtypes[p.statement.output.name]}
        self._sets = []
        self._output = self.device.empty(reference.output_shape(p), p.dtypes[p.statement.output.name])
        self.device.fill(self._output, 0)
        xp = self._xp = namespace(self.device.kind) if check else None
        for exact in (False, True):
            values = reference.draw_exact(p, seed) if exact else reference.draw(p, seed)
            if values is None or (exact and not check):
                continue
            inputs = Inputs(values, {})
            self._upload(inputs)
            if check:
                arrays = {name: float64(self.device, buffer, xp) for name, buffer in inputs.buffers.items()}
                value, magnitude = reference.expected(p, arrays, xp)
                value = reference.representable(p, value, xp)
                allowed = (
                    reference.tolerance_exact(p, value) if exact else reference.tolerance(p, value, magnitude)
                )
                inputs.right = value, allowed
            self._sets.append(inputs)
        self._inputs = self._sets[0]
        self._reset, self._restored = tuple(reset_to_zero), tuple(restore_value)
        return {}

    def _upload(self, inputs: Inputs, *names: str) -> None:
        for name in names or inputs.values:
            inputs.buffers.pop(name, None)  # frees its memory first
            inputs.buffers[name] = self.device.upload(inputs.values[name], self._types[name])

    def check(self, key: str, program: Mapping[str, Any], binary: Sequence[str]) -> Mapping[str, Any]:
        """One launch on each set of inputs into a poisoned output, compared element by element with the reference."""
        run = self._runner(key, program, binary)
        error, said = self._worst(run)
        if error > 1:  # perhaps of what a candidate before this one wrote to the inputs
            for inputs in self._sets:
                self._upload(inputs)
            error, said = self._worst(run)
        wrong = error > 1
        return {
            "outcome": "wrong_result" if wrong else "ok", "message": said if wrong else "",
            "error": None if self._xp is None else min(error, 1e300), "resources": self._resources(key),
        }  # fmt: skip

    def _worst(self, run: Callable[[], None]) -> tuple[float, str]:
        """The largest error over what is allowed, and a sentence about it; 0 where nothing is checked."""
        worst = 0.0, ""
        try:
            for inputs in self._sets:
                self._inputs = inputs
                self.device.fill(self._output, POISON.get(self._output.dtype, 0xFF))
                if self._workspace:
                    self.device.fill(self._workspace, 0xFF)
                self._prepare()
                run()
                self.device.synchronize()
                if inputs.right is not None:
                    found = reference.worst(float64(self.device, self._output, self._xp), *inputs.right)
                    worst = max(worst, found)
                self._restore()
                if worst[0] > 1:
                    break
        finally:
            self._inputs = self._sets[0]
        return worst

    def sample(
        self, key: str, program: Mapping[str, Any], binary: Sequence[str], *, seconds: float, most: int, cold: bool
    ) -> Mapping[str, Any]:
        """One round of timings. [ms]"""
        return self._sample(key, self._runner(key, program, binary), seconds, most, cold)

    def library(self, seconds: float, most: int, cold: bool) -> Mapping[str, Any]:
        """One round of timings of the library's own call on the same inputs. [ms]"""
        try:
            name, call = library_call(self._problem, self.device.kind, self._inputs.buffers, self._output)
        except DeviceError as e:
            raise Failed("does_not_fit", str(e)) from None
        return {"name": name, **self._sample("library", call, seconds, most, cold, LIBRARY_REST_S)}

    def _sample(
        self, key: str, run: Callable[[], object], seconds: float, most: int, cold: bool, rest_s: float = 0.0
    ) -> dict[str, Any]:
        def once() -> None:
            run()

        if key not in self._warm:
            for _ in range(WARM_UP_RUNS):
                self._prepare()
                once()
            self.device.synchronize()
            self._warm.add(key)
        prepare = self._prepare if self._reset or self._restored else None
        self.device.disturbed_percent()  # of what ran before
        began = time.perf_counter()
        samples = self._time(once, 1, prepare, cold, rest_s)
        repeats = int(seconds / max(time.perf_counter() - began, 1e-6))
        if self.device.disturbed_percent():
            samples = []
        samples += self._time(once, max(LEAST_OF_ROUND, min(most, repeats)) - len(samples), prepare, cold, rest_s)
        self._restore()
        disturbed = self.device.disturbed_percent()
        said = {} if disturbed is None else {"disturbed_percent": disturbed}
        return {"samples_ms": [x * 1e3 for x in samples], "conditions": said}

    def _prepare(self) -> None:
        """Before a launch: zeros into what the kernel adds to, and the given values back into what it changes."""
        for name in self._reset:
            if name != "workspace" or self._workspace:
                self.device.fill(self._buffer(name), 0)
        self._restore()

    def _restore(self) -> None:
        for name in self._restored:
            if name == self._problem.statement.output.name:
                self.device.fill(self._output, 0)
            else:
                self._upload(self._inputs, name)

    def _buffer(self, name: str) -> Buffer:
        if name == "workspace" and self._workspace:
            return self._workspace
        return self._output if name == self._problem.statement.output.name else self._inputs.buffers[name]

    def _runner(self, key: str, program: Mapping[str, Any], binary: Sequence[str]) -> Callable[[], None]:
        concrete = program_from_dict(program)
        loaded, name = self._load(key, concrete, binary), concrete.output.name

        def run() -> None:
            pointers = {t: buffer.pointer for t, buffer in self._inputs.buffers.items()}
            pointers[name] = self._output.pointer
            pointers["workspace"] = self._workspace.pointer if self._workspace else 0
            loaded.launch(pointers)

        return run
