"""The work of a worker process on a candidate: keep its inputs, load it, run it, check its result, time it.

A kernel in C or CUDA comes as a `Program` and its binary. Anything else is the user's Python code, which this process
imports by name, or has from a fork. Inputs come from the tuner's files, and then the parent checks the outputs; or they
are drawn here for a problem of carver's own, and checked here against its reference.
"""

from __future__ import annotations

import ctypes
import math
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ..base.child import outcome_of
from ..base.errors import CarverError, ConfigError, DeviceError, RunError, nearest, told
from ..base.folders import memory_bytes
from ..base.given import as_json, number, shown, typed, whole
from ..base.types import Record
from ..problem.problem import Problem
from .buffers import POISON, Array, Buffer, Loaded, encode, fill, is_gpuarray, is_torch
from .check import Differences, bounded, draw, draw_exact, float64, library_call, namespace
from .compile import Binary
from .cuda import check_timer
from .device import Guarded, open_device
from .inputs import PythonCode, as_argument, as_stored, deserialized, read
from .render import Program
from .spec import Kernel, element

MOST_S = 1e7
"""Four months."""
MOST_RUNS = 1_000_000
MOST_ROUNDS = 10_000
LEAST_SAMPLES = 3
"""Timed runs of a candidate in one round, however slow it is."""
SLOW_SAMPLES = 5
"""Runs after which a candidate that is far slower than the best is given up."""
ENERGY_S = 1.0
"""Counters of energy are brought up to date every 20 to 100 ms."""
STATE_S = 5.0
"""How long clocks and temperature count for what is measured: to read them may take longer than a kernel."""
LIBRARY_REST_S = 0.01
"""Before each run of a library on the CPU: it has threads of its own, and those that emptied the caches still spin."""
Around = tuple[Callable[[], None], Callable[[], None]]
"""What is done before and after each run, and not timed."""


class Settings(Record):
    """How candidates are measured.

    Each has `warmup` runs, then at most `rep` in each of `rounds` rounds, in which all have their turn as long as
    `budget_s` lasts. One that computes or hangs longer than `timeout_s` is stopped; one `slow_factor` times slower
    than the best is timed a few times only. Caches are cold unless `warm`. `reset_to_zero` and `restore_value` name
    arrays to be zeroed, or put back, before each run. `timer`: of `carver.run.cuda`.
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


@dataclass
class Set:
    """Inputs and outputs of a candidate, in order: as stored bits on the host, and where candidates find them."""

    stored: list[Any]
    """Of what is no array, the value."""
    arrays: list[Any] = field(default_factory=list)
    """`Guarded` ones for programs, arguments for Python code."""
    right: tuple[Any, Any] | None = None
    """The right output and what it may be off by, in float64."""


class Failed(CarverError):
    """Ends a job whose outcome is known; `error` is how wrong a result is, over what is allowed."""

    def __init__(self, outcome: str, message: str, error: float | None = None) -> None:
        self.outcome, self.error = outcome, error
        super().__init__(message)


@contextmanager
def _candidate() -> Iterator[None]:
    """Whatever a candidate's Python code raises in this block is its outcome, `sys.exit` included."""
    try:
        yield
    except Failed:
        raise
    except (Exception, SystemExit) as error:
        raise Failed(outcome_of(error), told(error)) from error


class Worker:
    """The handler of one worker process. Its public methods, `jobs`, are what the parent may ask for by name."""

    jobs = ("describe", "state", "setup", "check", "sample", "library")

    def __init__(
        self, device: str, code: PythonCode | Mapping[str, Any] | None = None, call: Mapping[str, Any] | None = None
    ) -> None:
        """`call` are arguments of the user's function that cannot come as JSON, in a process that was forked."""
        self.device = open_device(device)
        self.code = code if isinstance(code, PythonCode) else PythonCode.resolve(code or {})
        self._where, self._given = device, call
        self._loaded: dict[str, Loaded] = {}
        self._made: dict[str, Callable[..., Any]] = {}
        self._warm: set[str] = set()
        self._workspace: Guarded | None = None
        self._seen: Mapping[str, Any] = {}
        self._stale_at = 0.0
        self._sets: list[Set] = []

    def __call__(self, job: Mapping[str, Any]) -> Mapping[str, Any]:
        arguments = dict(job)
        if (do := arguments.pop("do")) not in self.jobs:
            raise ValueError(f"no job {do!r}")
        try:
            return dict(getattr(self, do)(**arguments))
        except Failed as e:
            return {"outcome": e.outcome, "message": str(e), "error": e.error}

    def describe(self) -> Mapping[str, Any]:
        d = self.device
        return {"kind": d.kind, "name": d.name, "arch": as_json(d.arch), "lease": d.lease, "state": self.state()}

    def state(self) -> Mapping[str, Any]:
        """The device's, at most `STATE_S` old."""
        if time.monotonic() > self._stale_at:
            self._seen, self._stale_at = self.device.state(), time.monotonic() + STATE_S
        return self._seen

    def setup(
        self, *, settings: Mapping[str, Any], inputs: Sequence[Mapping[str, Any]] = (), out: Sequence[int] = (),
        call: Mapping[str, Any] = MappingProxyType({}), problem: Mapping[str, Any] | None = None,
    ) -> Mapping[str, Any]:  # fmt: skip
        """Take the inputs from files, of which `out` are the places of outputs, or draw those of a `problem`.

        `call` are the arguments of the user's function. Of a problem, random values are what is timed; where sums are
        checked, so are values whose sums are exact.
        """
        self.settings: Settings = typed(Settings, settings)
        self._call = {k: deserialized(v) for k, v in call.items()} if self._given is None else self._given
        self._manifest, self._problem, self._sets = list(inputs), None, []
        self._workspace, self._last = None, list[Any]()
        if problem is not None:
            self._problem = Problem.from_dict(problem)
            self._draw(self._problem, self.settings.seed, self.settings.check)
        else:
            self._names, self._out = [entry["name"] for entry in inputs], list(out)
        self._resets_workspace = "workspace" in self.settings.reset_to_zero
        self._reset = [self._place(n) for n in self.settings.reset_to_zero if n != "workspace"]
        self._restored = [self._place(n) for n in self.settings.restore_value]
        return {}

    def _place(self, name: str | int) -> int:
        if isinstance(name, int) and -len(self._names) <= name < len(self._names):
            return name % len(self._names)
        if name in self._names:
            return self._names.index(str(name))
        raise ConfigError(f"no argument {name!r}; the kernel's are {', '.join(self._names)}")

    def _draw(self, p: Problem, seed: int, check: bool) -> None:
        """The sets of a problem, on the device, each with what is right; they share the output."""
        xp = self._xp = namespace(self.device.kind) if check else None
        output = p.statement.output.name
        types = {**p.dtypes, "bias": p.dtypes[output]}
        result = Guarded(self.device, p.stored(p.statement.output).shape(p.sizes), p.dtypes[output])
        zeros = np.zeros(result.buffer.shape, element(p.dtypes[output]))
        for exact in (False, True):
            values = draw_exact(p, seed) if exact else draw(p, seed)
            if values is None or (exact and not check):
                continue
            stored = [encode(x, types[name]) for name, x in values.items()]
            made = [self._upload(bits, types[name]) for name, bits in zip(values, stored, strict=True)]
            one = Set([*stored, zeros], [*made, result])
            if check:
                arrays = {n: float64(self.device, g.buffer, xp) for n, g in zip(values, made, strict=True)}
                one.right = bounded(p, arrays, xp, exact)[:2]
            self._sets.append(one)
            self._names = [*values, output]
        self._out = [len(self._names) - 1]
        self.device.write(result.buffer, zeros)

    def _upload(self, stored: Array, dtype: str) -> Guarded:
        made = Guarded(self.device, stored.shape, dtype)
        self.device.write(made.buffer, stored)
        return made

    # one candidate

    def check(self, trial: Mapping[str, Any], to: str = "") -> Mapping[str, Any]:
        """One run on each set of inputs, into poisoned outputs; `trial` is what `carver.run.session.Trial.job` sends.
        They are compared with the reference here, or left as `.npy` files in the folder `to`."""
        run = self._runner(trial)
        error: float | None = None
        for one in reversed(self._sets):  # the last is the one that is timed
            self._poison(one)
            with _candidate():
                self._prepare(one, trial)
                returned = run(one)
                self._hooked(one, trial, after=True)
                if self.code.direct and isinstance(returned, Kernel):
                    raise ConfigError(
                        f"the arrays were taken for {', '.join(self._names)}, of which the function makes a Kernel: "
                        "give these arguments with from_kernel(..., args=(...)) or in the call; a function that is "
                        "annotated '-> carver.Kernel' takes arrays, and sees a carver.Param of each"
                    )
                self.device.synchronize()
            self._unharmed(one)
            error = max(error or 0.0, self._judged(one)) if one.right is not None else error
        used = self._loaded[trial["key"]].resources if trial["key"] in self._loaded else {}  # of Python code, nothing
        each = {entry: [r.registers, r.static_smem_bytes, r.spill_bytes] for entry, r in used.items()}
        said: dict[str, Any] = {"resources": each, "state": self.state(), "error": error}
        if self._problem is None:
            said["outputs"] = self._save(self._outputs(returned), to)
        return said

    def sample(
        self, trial: Mapping[str, Any], *, seconds: float, best_ms: float | None = None, watch: bool = False,
        energy: bool = False, to: str = "",
    ) -> Mapping[str, Any]:  # fmt: skip
        """One round of timings [ms], which takes `seconds`, and less of one far slower than the best so far.

        The result of the last run is looked at as in `check`: where it is not what it was then, it is left in the
        folder `to`. With `watch` the conditions have the device's baseline before and after, with `energy` a run's. [J]
        """
        run, one = self._runner(trial), self._sets[0]
        returned: Any = None

        def once() -> None:
            nonlocal returned
            returned = run(one)

        prepared, ended = partial(self._prepare, one, trial), partial(self._hooked, one, trial, after=True)
        hooked = self.code.pre_hook is not None or self.code.post_hook is not None or max(trial["hooks"]) >= 0
        needed = self._reset or self._resets_workspace or self._restored or hooked
        with _candidate():
            if self.code.bench is not None:
                told = self.code.bench(once)
                samples_ms: list[float] = np.ravel(np.asarray(told, np.float64)).tolist()
                if not samples_ms or not all(math.isfinite(x) and x > 0 for x in samples_ms):
                    raise Failed("crash", f"bench returned {told!r}; it must return times above 0 in ms")
                return {"samples_ms": samples_ms, "outputs": None, "conditions": dict(self.state())}
            before_s = self.device.baseline_s() if watch else 0.0
            said = self._timed(trial["key"], once, (prepared, ended) if needed else None, seconds, best_ms)
            if energy:
                said["conditions"]["energy_j"] = self._energy(once, prepared if needed else None)
            if watch:
                said["conditions"]["baseline_ms"] = [before_s * 1e3, self.device.baseline_s() * 1e3]
        self._unharmed(one, inputs=self.device.kind == "cpu")  # which take long to come from a GPU
        if one.right is not None:
            self._judged(one, "right at first, but after it was timed ")
        elif self._problem is None:
            found = self._outputs(returned)
            same = len(found) == len(self._last) and all(
                a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in zip(found, self._last, strict=True)
            )
            said["outputs"] = None if same else self._save(found, to)
        self._put_back(one, self._restored)
        return said

    def library(self, seconds: float) -> Mapping[str, Any]:
        """One round of timings of the library's own call on the same inputs. [ms]"""
        assert self._problem is not None
        self._put_back(self._sets[0], self._restored)
        buffers = {name: g.buffer for name, g in zip(self._names, self._sets[0].arrays, strict=True)}
        output = buffers.pop(self._problem.statement.output.name)
        try:
            name, call = library_call(self._problem, self.device.kind, buffers, output)
        except DeviceError as e:
            raise Failed("does_not_fit", str(e)) from None
        return {"name": name, **self._timed("library", call, None, seconds, rest_s=LIBRARY_REST_S)}

    def _timed(
        self, key: str, run: Callable[[], object], around: Around | None, seconds: float, best_ms: float | None = None,
        rest_s: float = 0.0,
    ) -> dict[str, Any]:  # fmt: skip
        """Timings [ms], as many as `seconds` allow, at most `rep` and at least `LEAST_SAMPLES`. Before the first round
        come `warmup` runs. Where the time limit would end first there are fewer."""
        s, cold = self.settings, not self.settings.warm
        before, after = around or (lambda: None, lambda: None)

        def timed() -> None:
            run()

        def taken(repeats: int) -> list[float]:
            if around is None:
                return self.device.time(timed, repeats, cold=cold, rest_s=rest_s, timer=s.timer)
            found = []
            for _ in range(repeats):
                before()
                found += self.device.time(timed, 1, cold=cold, rest_s=rest_s, timer=s.timer)
                after()
            return found

        self.device.time(lambda: None, cold=cold)  # whatever emptying the caches takes to get ready
        self.device.disturbed_percent()  # of what ran before
        began = time.perf_counter()
        ends = began + 0.9 * s.timeout_s
        samples = taken(1)
        first, each = samples[0], max(time.perf_counter() - began, 1e-7)
        if self.device.disturbed_percent() or (key not in self._warm and s.warmup):
            samples = []
        if key not in self._warm:
            self._warm.add(key)
            for _ in range(min(s.warmup - 1, int(s.timeout_s / 16 / max(first, 1e-7)))):
                before()
                run()
                after()
            self.device.synchronize()
        count = max(LEAST_SAMPLES, min(s.rep, int(seconds / each)))
        some = min(SLOW_SAMPLES, count) if best_ms is not None else count
        if time.perf_counter() + some * each < ends:
            samples += taken(some - len(samples))
        while len(samples) < LEAST_SAMPLES and time.perf_counter() + each < ends:
            samples += taken(1)
        samples = samples or [first]
        slow = best_ms is not None and min(samples) * 1e3 > s.slow_factor * best_ms
        if not slow and LEAST_SAMPLES <= len(samples) < count and time.perf_counter() + count * each < ends:
            samples += taken(count - len(samples))
        disturbed = self.device.disturbed_percent()
        times = f"timed {len(samples)} times only"
        message = f"more than {s.slow_factor:g} x slower than the best ({best_ms:.4g} ms): {times}" if slow else ""
        conditions = {**self.state(), **({} if disturbed is None else {"disturbed_percent": disturbed})}
        return {"samples_ms": [x * 1e3 for x in samples], "message": message, "conditions": conditions}

    def _energy(self, run: Callable[[], object], prepare: Callable[[], None] | None) -> float:
        """Of a run, from as many in a row as the device's counter needs to tell. [J]"""
        for _ in range(2):  # a counter that has run over is less than before, which happens once in many minutes
            if (before := self.device.energy_j()) is None:
                raise Failed("does_not_fit", f"{self.device.name} has no counter of energy that this user may read")
            count, began = 0, time.perf_counter()
            while count < LEAST_SAMPLES or time.perf_counter() - began < ENERGY_S:
                if prepare is not None:
                    prepare()
                run()
                count += 1
                if count.bit_count() == 1 or count % 64 == 0:  # what is queued takes no longer than what has run
                    self.device.synchronize()
            self.device.synchronize()
            if (used := (self.device.energy_j() or before) - before) >= 0:
                return used / count
        raise Failed("does_not_fit", f"the counter of energy of {self.device.name} runs backwards")

    # its surroundings

    def _runner(self, trial: Mapping[str, Any]) -> Callable[[Set], Any]:
        """What runs the candidate once on a set, compiled and loaded."""
        key: str = trial["key"]
        if trial["program"] is None:
            return self._python(key, trial["config"])
        concrete: Program = typed(Program, trial["program"])
        if not self._sets:  # those that came as files, on the device, and numbers as they are
            values = list(map(read, self._manifest))
            self._sets = [Set([v.content for v in values], [
                self._upload(v.content, v.dtype) if v.form != "plain" else 0 if v.content is None else v.content
                for v in values
            ])]  # fmt: skip
        taken, first = [t.name for t in concrete.tensors], self._sets[0].arrays
        if len(taken) != (count := sum(isinstance(a, Guarded) for a in first)):
            raise ConfigError(f"the kernel takes {len(taken)} arrays, {count} are given")
        tensors = iter(taken)
        names = [next(tensors) if isinstance(a, Guarded) else n for n, a in zip(self._names, first, strict=True)]
        if key not in self._loaded:
            path, sha256, log = trial["binary"] or ("", "", "")
            self._loaded[key] = self.device.load(Binary(Path(path), sha256, log), concrete)
        if concrete.workspace_bytes > (self._workspace.buffer.size_bytes if self._workspace else 0):
            self._workspace = None  # frees the smaller one first
            self._workspace = Guarded(self.device, (concrete.workspace_bytes,), "uint8")
        loaded = self._loaded[key]

        def run(one: Set) -> None:
            given = (a.buffer.pointer if isinstance(a, Guarded) else a for a in one.arrays)
            pointers = dict(zip(names, given, strict=True))
            loaded.launch(pointers | {"workspace": self._workspace.buffer.pointer if self._workspace else 0})

        return run

    def _python(self, key: str, config: Mapping[str, Any]) -> Callable[[Set], Any]:
        if not self._sets:
            arguments = [as_argument(entry, self._where) for entry in self._manifest]
            self._sets = [Set([as_stored(a) for a in arguments], arguments)]
        if key not in self._made:
            with _candidate():
                config = {name: deserialized(value) for name, value in config.items()}
                made = self.code.called_with(config, self._call, self._names)
            made = made.launcher() if isinstance(made, Kernel) else made
            if not callable(made):
                raise Failed("crash", f"the function returned {made!r}, not a kernel nor a callable")
            self._made[key] = made
        kernel = self._made[key]
        return lambda one: kernel(*one.arrays)

    def _poison(self, one: Set) -> None:
        """Nonsense into the outputs and the workspace: what a kernel does not write must not look right."""
        if self._workspace is not None:
            self.device.fill(self._workspace.buffer, 0xFF)
        for place in self._out:
            array = one.arrays[place]
            if isinstance(array, Guarded):
                self.device.fill(array.buffer, POISON.get(array.buffer.dtype, 0xFF))
            else:
                fill(array)

    def _prepare(self, one: Set, trial: Mapping[str, Any]) -> None:
        """Before a run: zeros into what the kernel adds to, given values back into what it changes, hooks."""
        if self._resets_workspace and self._workspace is not None:
            self.device.fill(self._workspace.buffer, 0)
        for place in self._reset:
            array = one.arrays[place]
            if isinstance(array, Guarded):
                self.device.fill(array.buffer, 0)
            elif hasattr(array, "__setitem__"):  # which an array that is left out is not
                array[...] = 0
        self._put_back(one, self._restored)
        self._hooked(one, trial)

    def _hooked(self, one: Set, trial: Mapping[str, Any], after: bool = False) -> None:
        """Call the hook of all candidates and its own, arguments and config by name; CPU buffers as NumPy arrays."""
        own, config = trial["hooks"][after], dict(trial["config"])
        of_all = self.code.post_hook if after else self.code.pre_hook
        for hook in (of_all, self.code.hooks[own] if own >= 0 else None):
            if hook is not None:
                buffers = [a.buffer if isinstance(a, Guarded) else a for a in one.arrays]
                seen = [a.owner if isinstance(a, Buffer) and isinstance(a.owner, np.ndarray) else a for a in buffers]
                hook({**config, **dict(zip(self._names, seen, strict=True)), "config": dict(config)})

    def _put_back(self, one: Set, places: Iterable[int]) -> None:
        for place in places:
            array, stored = one.arrays[place], one.stored[place]
            if not isinstance(stored, np.ndarray):
                continue
            if isinstance(array, Guarded):
                self.device.write(array.buffer, stored)
            elif is_torch(array):
                array.copy_(as_argument(self._manifest[place], self._where))
            else:
                array[...] = stored

    def _unharmed(self, one: Set, inputs: bool = True) -> None:
        """Raises Failed if something was written that no candidate may write to, after mending it."""
        guards = [(n, a) for n, a in zip(self._names, one.arrays, strict=True) if isinstance(a, Guarded)]
        guards += [("workspace", self._workspace)] if self._workspace else []
        if torn := [(name, guard) for name, guard in guards if not guard.is_intact()]:
            for _, guard in torn:
                guard.restore()
            raise Failed("wrong_result", f"it writes beyond {' and '.join(name for name, _ in torn)}")
        allowed = {place % len(self._names) for place in (*self._out, *self._reset, *self._restored)}
        if not inputs or self.code.pre_hook or self.code.post_hook or self.code.hooks:  # which may set inputs
            return
        changed = [i for i, a in enumerate(one.arrays) if i not in allowed and not self._is_unchanged(a, one.stored[i])]
        if changed:
            self._put_back(one, changed)
            name = self._names[changed[0]]
            raise Failed("wrong_result", f"it writes over {name}; name it in restore_value if it may, or in out_idx")

    def _is_unchanged(self, array: Any, stored: Any) -> bool:
        now = self.device.stored(array.buffer) if isinstance(array, Guarded) else as_stored(array)
        if not isinstance(now, np.ndarray):
            return True
        now = np.ascontiguousarray(now)
        return not ctypes.CDLL(None).memcmp(
            ctypes.c_void_p(now.ctypes.data), ctypes.c_void_p(stored.ctypes.data), ctypes.c_size_t(stored.nbytes)
        )

    def _judged(self, one: Set, when: str = "") -> float:
        """The largest error over what is allowed. Raises Failed above 1."""
        assert one.right is not None
        seen = Differences(float64(self.device, one.arrays[-1].buffer, self._xp), *one.right)
        if seen.wrong:
            raise Failed("wrong_result", f"{when}{seen}", min(seen.error, 1e300))
        return seen.error

    def _outputs(self, returned: Any) -> list[Array]:
        """Values of the outputs; 8-bit floats and bfloat16 as float32."""
        arrays = self._sets[0].arrays
        if any(isinstance(a, Guarded) for a in arrays):
            chosen = (arrays[place] for place in self._out)
            return [self.device.download(a.buffer) for a in chosen if isinstance(a, Guarded)]
        found = list(returned) if isinstance(returned, list | tuple) else [returned]
        if self._out or returned is None:
            found = [arrays[place] for place in self._out]
        return [_to_host(a) for a in found]

    def _save(self, found: Sequence[Array], to: str) -> int:
        """How many there are."""
        self._last = [np.array(values) for values in found]
        for i, values in enumerate(found):
            np.save(Path(to) / f"out{i}.npy", values, allow_pickle=False)
        return len(found)


def limited(device: str, code: Mapping[str, Any] | None = None) -> Worker:
    """A worker for a process of its own, where a greedy kernel on the CPU is to fail before the system does."""
    made = Worker(device, code)
    if made.device.kind == "cpu" and sys.platform == "linux" and not made.code.needed:
        limits = [n for n in resource.getrlimit(resource.RLIMIT_AS) if n != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_AS, (min([memory_bytes(), *limits]),) * 2)
    return made


def _to_host(array: Any) -> Array:
    if is_torch(array):
        narrow = str(array.dtype).startswith(("torch.bfloat16", "torch.float8"))
        array = (array.detach().float() if narrow else array.detach()).cpu().numpy()
    values = np.asarray(array.get() if is_gpuarray(array) else array)
    if values.dtype == object:
        raise RunError(f"an output is a {type(array).__name__}; outputs must be arrays or numbers")
    return values
