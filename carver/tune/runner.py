"""What the process does that runs candidates: keep the inputs, make each kernel, run it once, time it.

A kernel in C or CUDA comes as a `Program` and its binary. Anything else is Python code of the user's, which this
process imports by name, or was forked with.
"""

from __future__ import annotations

import importlib
import inspect
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import ConfigError, RunError
from ..ranking.hint import Hint
from ..run.buffers import decode, is_gpuarray, is_torch
from ..run.device import Buffer
from ..run.trial import POISON, Failed, Stand, program_from_dict
from ..run.worker import outcome_of
from .inputs import as_argument
from .spec import Kernel, element

LEAST_SAMPLES = 3
"""Timed runs of a candidate, however slow it is."""

STATE_S = 5.0
"""How long clocks and temperature count for what is measured."""

SLOW_SAMPLES = 5
"""Runs after which a candidate that is far slower than the best is given up."""


@dataclass(frozen=True)
class Code:
    """Python that runs in the worker process: the tuned function, and what the user hooks in."""

    function: Callable[..., Any] | None = None
    pre_hook: Callable[..., Any] | None = None
    bench: Callable[..., Any] | None = None
    direct: bool = False
    """The function does the work itself on the arrays; else it returns a callable that does."""
    whole: bool = False
    """It takes the config as one argument, `config`."""

    @property
    def needed(self) -> bool:
        return any((self.function, self.pre_hook, self.bench))

    def references(self) -> dict[str, Any] | None:
        """The functions by module and name; None where one of them cannot be imported elsewhere."""
        out: dict[str, Any] = {"direct": self.direct, "whole": self.whole}
        for name in ("function", "pre_hook", "bench"):
            if (fn := getattr(self, name)) is not None:
                if (where := reference(fn)) is None:
                    return None
                out[name] = where
        return out

    @classmethod
    def resolve(cls, references: Mapping[str, Any]) -> Code:
        functions = {k: _resolve(v) for k, v in references.items() if isinstance(v, str)}
        return cls(direct=references.get("direct", False), whole=references.get("whole", False), **functions)


def reference(fn: Callable[..., Any]) -> str | None:
    """"module:name" if importing that gives the function, decorated or not."""
    module, name = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    if not module or module == "__main__" or not name or "<" in name:
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is not None and _undecorated(found) is fn else None


def _undecorated(found: Any) -> Any:
    """The user's function within what `jit` and `autotune` made of it."""
    while not callable(getattr(found, "__code__", None)) and hasattr(found, "fn"):
        found = found.fn
    return found


def _resolve(where: str) -> Callable[..., Any]:
    module, _, name = where.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    fn: Callable[..., Any] = _undecorated(found)
    return fn


class _candidate:
    """Whatever a candidate's Python code raises in this block is its outcome, `sys.exit` included."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, Exception | SystemExit) and not isinstance(error, Failed):
            raise Failed(outcome_of(error), f"{type(error).__name__}: {error}") from error


class Runner(Stand):
    """What the tuner asks: candidates of any kind on inputs that are given, their outputs for the parent to judge."""

    def __init__(self, device: str, code: Code | Mapping[str, Any], call: Mapping[str, Any] | None = None) -> None:
        """`call` are arguments of the user's function that cannot come as JSON, in a process that was forked."""
        super().__init__(device)
        self._where, self._given = device, call
        self.code = code if isinstance(code, Code) else Code.resolve(code)
        self._made: dict[str, Callable[..., Any]] = {}
        self._seen: Mapping[str, Any] = {}
        self._stale_at = 0.0

    def setup(
        self,
        inputs: Sequence[Mapping[str, Any]],
        call: Mapping[str, Any],
        out: Sequence[int],
        reset_to_zero: Sequence[str | int],
        restore_value: Sequence[str | int],
    ) -> Mapping[str, Any]:
        """Load the inputs; `out` are the places of outputs among them, `call` the arguments of the user's function."""
        self._manifest, self._out = list(inputs), list(out)
        self._call = call if self._given is None else self._given
        self._names = [entry["name"] for entry in inputs]
        self._reset = [self._place(n) for n in reset_to_zero]
        self._restored = [self._place(n) for n in restore_value]
        self._buffers: list[Buffer] | None = None
        self._workspace = None
        self._arguments: list[Any] | None = None
        self._saved: dict[int, Any] = {}
        return {}

    def _place(self, name: str | int) -> int:
        if isinstance(name, int) and -len(self._names) <= name < len(self._names):
            return name % len(self._names)
        if name in self._names:
            return self._names.index(str(name))
        raise ConfigError(f"no argument {name!r}; the kernel's are {', '.join(self._names)}")

    def check(self, work: Mapping[str, Any], to: str) -> Mapping[str, Any]:
        """One run; its outputs as `.npy` files in the folder `to`, with their element types."""
        run = self._runner(work)
        self._poison()
        with _candidate():
            self._prepare(work)
            returned = run()
            if self.code.direct and isinstance(returned, Kernel):
                raise ConfigError(
                    f"the arrays were taken for {', '.join(self._names)}, of which the function makes a Kernel: give "
                    "these arguments with from_kernel(..., args=(...)) or in the call"
                )
            self.device.synchronize()
            found = self._outputs(returned)
        dtypes = []
        for i, (values, dtype) in enumerate(found):
            np.save(Path(to) / f"out{i}.npy", values, allow_pickle=False)
            dtypes.append(dtype)
        return {"outputs": dtypes, "resources": self._resources(work["key"]), "state": self._state()}

    def _state(self) -> Mapping[str, Any]:
        """The device's, read right after a run, at most `STATE_S` ago: to read it may take longer than a trial."""
        if time.monotonic() > self._stale_at:
            self._seen, self._stale_at = self.device.state(), time.monotonic() + STATE_S
        return self._seen

    def _poison(self) -> None:
        """Nonsense into the outputs and the workspace: what a kernel does not write must not look right."""
        if self._workspace is not None:
            self.device.fill(self._workspace, 0xFF)
        for place in self._out:
            if place in self._reset or place in self._restored:
                continue
            if self._buffers is not None:
                self.device.fill(self._buffers[place], POISON.get(self._buffers[place].dtype, 0xFF))
            elif self._arguments is not None:
                _fill(self._arguments[place])

    def sample(
        self,
        work: Mapping[str, Any],
        *,
        warmup: int,
        rep: int,
        timeout_s: float,
        cold: bool,
        best_ms: float | None,
        slow_factor: float,
    ) -> Mapping[str, Any]:
        """`rep` timings after `warmup` runs, fewer where they would take longer than a quarter of `timeout_s`. [ms]

        At least `LEAST_SAMPLES`, unless the time ends first: then the one that there was time for.
        """
        run = self._runner(work)

        def once() -> None:
            run()

        def prepared() -> None:
            self._prepare(work)

        prepare = prepared if self._reset or self._restored or self.code.pre_hook is not None else None
        with _candidate():
            if self.code.bench is not None:
                return {"samples_ms": _said(self.code.bench(once))}
            self.device.time(lambda: None, cold=cold)  # whatever emptying the caches takes to get ready
            began = time.perf_counter()
            first = self._time(once, 1, prepare, cold)[0]
            each = max(time.perf_counter() - began, 1e-7)
            ends = began + 0.9 * timeout_s
            samples = [first] if warmup == 0 else []
            for _ in range(min(warmup - 1, int(timeout_s / 16 / max(first, 1e-7)))):
                prepared()
                once()
            self.device.synchronize()
            count = max(LEAST_SAMPLES, min(rep, int(timeout_s / 4 / each)))
            if time.perf_counter() + count * each < ends:
                samples += self._time(once, min(SLOW_SAMPLES, count), prepare, cold)
            while len(samples) < LEAST_SAMPLES and time.perf_counter() + each < ends:
                samples += self._time(once, 1, prepare, cold)
            samples = samples or [first]
            slow = best_ms is not None and min(samples) * 1e3 > slow_factor * best_ms
            if not slow and LEAST_SAMPLES <= len(samples) < count:
                samples += self._time(once, count - len(samples), prepare, cold)
        return {"samples_ms": [x * 1e3 for x in samples], "message": _gave_up(best_ms, slow_factor) if slow else ""}

    def _runner(self, work: Mapping[str, Any]) -> Callable[[], Any]:
        """What runs the candidate once, compiled and loaded."""
        if work.get("program") is None:
            return self._python(work)
        program = program_from_dict(work["program"])
        if self._buffers is None:
            self._buffers = []
            for entry in self._manifest:
                if entry["form"] == "plain":
                    raise ConfigError(f"{entry['name']} is no array; give scalars in Kernel(scalars=...)")
                self._buffers.append(self.device.upload(np.load(entry["path"], allow_pickle=False), entry["dtype"]))
            self._saved = {place: self.device.download(self._buffers[place]) for place in self._restored}
        if len(self._buffers) != len(program.tensors):
            raise ConfigError(f"the kernel takes {len(program.tensors)} arrays, {len(self._buffers)} are given")
        loaded = self._load(work["key"], program, work["binary"])
        pointers = {t.name: b.pointer for t, b in zip(program.tensors, self._buffers, strict=True)}
        pointers["workspace"] = self._workspace.pointer if self._workspace else 0
        return lambda: loaded.launch(pointers)

    def _python(self, work: Mapping[str, Any]) -> Callable[[], Any]:
        if self._arguments is None:
            self._arguments = [as_argument(entry, self._where) for entry in self._manifest]
            self._saved = {place: _copy(self._arguments[place]) for place in self._restored}
        code, key, arguments = self.code, work["key"], self._arguments
        assert code.function is not None
        config = {name: _arrived(value) for name, value in work["config"].items()}
        options = {"config": config} if code.whole else config
        if code.direct:
            given = dict(zip(self._names, arguments, strict=True))
            return call_by_name(code.function, {**given, **self._call, **options})
        if key not in self._made:
            with _candidate():
                made = code.function(**self._call, **options)
            made = made.launcher() if isinstance(made, Kernel) else made
            if not callable(made):
                raise Failed("crash", f"the function returned {made!r}, not a kernel nor a callable")
            self._made[key] = made
        kernel = self._made[key]
        return lambda: kernel(*arguments)

    def _outputs(self, returned: Any) -> list[tuple[Any, str]]:
        """Values of the outputs with their element types; 8-bit floats and bfloat16 as float32."""
        if self._buffers is not None:
            chosen = [self._buffers[place] for place in self._out]
            return [(self.device.download(b), b.dtype) for b in chosen]
        assert self._arguments is not None
        arrays = list(returned) if isinstance(returned, list | tuple) else [returned]
        if self._out or returned is None:
            arrays = [self._arguments[place] for place in self._out]
        return [_to_host(a) for a in arrays]

    def _prepare(self, work: Mapping[str, Any]) -> None:
        """Before a run: zeros into what the kernel adds to, given values back into what it changes, the user's hook."""
        if self._buffers is not None:
            for place in self._reset:
                self.device.fill(self._buffers[place], 0)
            for place, saved in self._saved.items():
                fresh = self.device.upload(saved, self._buffers[place].dtype)
                _overwrite(self._buffers[place], fresh)
        elif self._arguments is not None:
            for place in self._reset:
                self._arguments[place][...] = 0
            for place, saved in self._saved.items():
                self._arguments[place][...] = saved
        if self.code.pre_hook is not None:
            values = self._arguments if self._arguments is not None else self._buffers or []
            views = [_view(v) for v in values]
            self.code.pre_hook(dict(zip(self._names, views, strict=True)) | {"config": dict(work["config"])})


def sent(value: Any) -> Any:
    """A value of a config as JSON that `_arrived` gives back. Raises ConfigError for what cannot travel."""
    if isinstance(value, Hint):
        return {"hint": value.to_dict()}
    if isinstance(value, list | tuple):
        return [sent(v) for v in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    raise ConfigError(f"a config's value must be a number, text or a tuple of them, got {value!r}")


def _arrived(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Hint.from_dict(value["hint"])
    return tuple(_arrived(v) for v in value) if isinstance(value, list) else value


def call_by_name(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Callable[[], Any]:
    """The call with each argument at its place, wherever among the others the arrays stand."""
    parameters = inspect.signature(function).parameters.values()
    ordered = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY]
    named = {name: value for name, value in arguments.items() if name not in ordered}
    return lambda: function(*(arguments[name] for name in ordered), **named)


def _said(returned: Any) -> list[float]:
    """The times that a user's clock gave. [ms]"""
    samples: list[float] = np.ravel(np.asarray(returned, np.float64)).tolist()
    if not samples or not all(math.isfinite(x) and x > 0 for x in samples):
        raise Failed("crash", f"bench returned {returned!r}; it must return times above 0 in ms")
    return samples


def _gave_up(best_ms: float | None, factor: float) -> str:
    return f"more than {factor:g} x slower than the best ({best_ms:.4g} ms): timed {SLOW_SAMPLES} times only"


def _fill(array: Any) -> None:
    """Every byte of an output that is an array: NaN in all float types, far from anything in the others."""
    if is_torch(array):
        import torch

        array.reshape(-1).view(torch.uint8).fill_(0xFF if array.is_floating_point() else 0x7F)
    elif isinstance(array, np.ndarray):
        byte = b"\xff" if array.dtype.kind in "fc" else b"\x7f"
        array[...] = np.frombuffer(byte * array.dtype.itemsize, array.dtype)[0]


def _copy(array: Any) -> Any:
    return array.clone() if is_torch(array) else array.copy()


def _view(value: Any) -> Any:
    """What a hook sees of a buffer: the NumPy array on the CPU."""
    return value.owner if isinstance(value, Buffer) and isinstance(value.owner, np.ndarray) else value


def _overwrite(to: Buffer, fresh: Buffer) -> None:
    if isinstance(to.owner, np.ndarray):
        to.owner[...] = fresh.owner
        return
    from pycuda import driver

    driver.memcpy_dtod(to.owner, fresh.owner, to.size_bytes)


def _to_host(array: Any) -> tuple[Any, str]:
    if is_torch(array):
        name = str(array.dtype).removeprefix("torch.")
        wide = array.detach().float() if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2") else array.detach()
        return wide.cpu().numpy(), name
    if is_gpuarray(array):
        return array.get(), str(array.dtype)
    values = np.asarray(array)
    if values.dtype == object:
        raise RunError(f"an output is a {type(array).__name__}; outputs must be arrays or numbers")
    return values, str(values.dtype)


def decoded(values: Any, dtype: str) -> Any:
    """An output file's values; stored bits become numbers."""
    return decode(values, dtype) if dtype in ("bfloat16",) and values.dtype == element(dtype) else values
