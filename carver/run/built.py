"""A kernel of source that can be called, at the cost of little more than its launch; and `jit`, which makes them."""

from __future__ import annotations

import ctypes
import functools
import inspect
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, cast, overload

import numpy as np

from ..arch import devices as archs
from ..base.errors import CarverError, CompileError, ConfigError, DeviceError, RunError
from ..base.folders import cores_available, shipped
from ..base.given import asked, takes
from ..ranking.hint import Hint
from .buffers import Buffer, address, empty_like, is_gpuarray, is_torch
from .compile import Binary, compile_source
from .device import has_source, open_device
from .render import Launcher, Program, Source
from .session import compiler_of
from .spec import LEFT_OUT, HintKernel, Kernel, Launch, Param, described, gpu_of, integers, param_of, places, sizes_of

Reader = Callable[[Any], Any]
"""The value that a launch takes for an argument; None where it is none of the kind that the reader was made for."""


device_of = lru_cache(maxsize=8)(open_device)
"""A device by its name, which stays open."""


def elsewhere(name: str, kind: str) -> str:
    """The end of an error: where here is what a kernel or a result of another tuner has under that name."""
    known = shipped("settings")[kind]
    return f"; here it is {known[name]}" if name in known else ""


class Built:
    """A kernel of source, compiled when first needed and loaded when first called: `c = kernel(a, b)`.

    Takes all arguments in order, or only those that are no outputs: these it allocates, where `params` says their
    shapes. An array may be None, which the kernel gets as a null pointer. Returns the output, or a tuple of them.
    Torch tensors are worked on in torch's current stream, which may be one that a CUDA graph is captured from.
    """

    def __init__(
        self, kernel: Kernel | HintKernel | None, device: str, params: Sequence[Param] | None, out: Sequence[int], *,
        program: Program | None = None, binary: Binary | None = None, launch: Launch | None = None,
        tuned_for: Sequence[Param] | None = None,
    ) -> None:  # fmt: skip
        """`tuned_for`: arguments in numbers of a kernel of symbolic sizes; `program`, `launch`: of a saved kernel."""
        self.kernel, self.device_name, self.params, self.out = kernel, device, params, tuple(out)
        self._program, self._binary, self._launch, self._tuned_for = program, binary, launch, tuned_for
        self._loaded: dict[Any, tuple[Launcher, Buffer | None, Program]] = {}
        self._last: Callable[[Sequence[Any]], Any] | None = None

    def __repr__(self) -> str:
        name = self.kernel.name if self.kernel is not None else ", ".join(self.source.entries)
        arrays = ", ".join(f"{p.name} {p.dtype}{'' if p.shape is None else list(p.shape)}" for p in self.params or ())
        return f"<kernel {name} on {self.device_name}{': ' if arrays else ''}{arrays}>"

    def __getattr__(self, name: str) -> Any:
        """Says what stands in place of what kernels of other tuners have."""
        raise AttributeError(f"a kernel has no {name!r}{elsewhere(name, 'kernel')}", name=name, obj=self)

    @property
    def kind(self) -> str:
        return self.device_name.partition(":")[0]

    @property
    def source(self) -> Source:
        if self._program is not None:
            return self._program.source
        assert self.kernel is not None
        return self.kernel.compiled_from(archs.load(self.device_name))

    @property
    def launch(self) -> Launch | None:
        """How it is launched at other sizes than it was tuned for; None where it takes these alone."""
        if isinstance(self.kernel, Kernel) and any(p.symbolic for p in self.params or ()):
            return self.kernel.launch
        return self._launch

    def compile(self, timeout_s: float | None = None) -> Binary:
        if self._binary is None:
            self._binary = compile_source(self.source, compiler_of(self.kind), timeout_s)
        return self._binary

    def tuned(self) -> Program:
        """The program for the arguments that it was tuned for."""
        return self.program(self._tuned_for)

    def program(self, params: Sequence[Param] | None = None) -> Program:
        """The program for these arguments, in numbers."""
        known = params or self.params
        if (program := self._program) is not None:
            if self._launch is None or params is None:
                return program
            sizes = sizes_of(self.params or (), params, "params")
            (call,) = program.calls
            threads, smem_bytes = call.threads, call.dynamic_smem_bytes
            return self._launch.program(program.source, call.entry, threads, smem_bytes, params, sizes)
        if known is None or self.kernel is None:
            raise ConfigError("the kernel's arrays are not known: give Kernel(params=...)")
        return self.kernel.program(known, archs.load(self.device_name))

    def __call__(self, *arguments: Any) -> Any:
        if (last := self._last) is not None and (returned := last(arguments)) is not NotImplemented:
            return returned
        return self._first(arguments)

    def _first(self, arguments: Sequence[Any]) -> Any:
        """A call whose arguments are of another kind than those of the last."""
        params, every = self._completed(arguments)
        launch, workspace, program = self._load(params)
        specs = {spec.name: spec for spec in program.tensors}
        for a in every if self.kind == "cuda" else ():
            if is_torch(a) and (there := gpu_of([a])) not in (None, self.device_name):
                raise RunError(f"an array is on {there}, the kernel runs on {self.device_name}; move it there")
        out = places(self.out, len(params))
        values = [
            address(a, specs[p.name], self.kind, writes=i in out) if p.name in specs else _number_of(p, a)
            for i, (p, a) in enumerate(zip(params, every, strict=True))
        ]
        stream = _stream_of(every)
        room = _workspace(program, workspace, every)
        pointer = None if room is None else room.data_ptr() if is_torch(room) else room.pointer
        launch((*values, pointer), stream())
        each = enumerate(zip(params, every, strict=True))
        aligns = [specs[p.name].align_bytes if p.name in specs and self.kind == "cuda" else 1 for p in params]
        readers = [_reader(p, a, self.kind, aligns[i], writes=i in out) for i, (p, a) in each]
        if None not in readers and not program.workspace_bytes:
            makers = [(place, _maker(every[place])) for place in sorted(out)]
            self._last = _repeated(launch, [r for r in readers if r is not None], out, stream, makers)
        return _returned(every, out)

    def _completed(self, arguments: Sequence[Any]) -> tuple[list[Param], list[Any]]:
        """Parameters in numbers, and every argument in order, outputs that are not given made."""
        params = self.params
        if params is None:
            params = [described(i, a) for i, a in enumerate(arguments)]
        count = len(params)
        out = places(self.out, count)
        if len(arguments) not in (count, count - len(out)):
            names = ", ".join(p.name for p in params)
            outputs = ", ".join(params[i].name for i in out) or "none"
            raise RunError(f"takes {names} (outputs, which may be left out: {outputs}); got {len(arguments)} arguments")
        every, made = list(arguments), len(arguments) < count
        if made:
            for place in sorted(out):
                every.insert(place, None)
        given = [None if a is None else param_of(p.name, a) for p, a in zip(params, every, strict=True)]
        if any(p.symbolic for p in params):
            sizes = sizes_of(params, given, "params")
            params = [p.at(sizes) for p in params]
        if made:
            arrays = [a for a in every if param_of("", a) is not None or isinstance(a, Buffer | int)]
            ranks = [(p, g) for p, g in zip(params, given, strict=True) if g and p.shape is not None]
            fewer = max((len(p.extents) - len(g.extents) for p, g in ranks), default=0)  # a batch of one is left out
            for place in out:
                spec = params[place].tensor()
                if fewer > 0 and set(spec.shape[:fewer]) == {1}:
                    spec = replace(spec, shape=spec.shape[fewer:])
                found = empty_like(arrays, spec)
                if found is None:
                    room = device_of(self.device_name).empty(spec.shape, spec.dtype)
                    found = room.owner if self.kind == "cpu" else room
                every[place] = found
        params = [Param(p.name, None, LEFT_OUT) if a is None and not p.by_value else p
                  for p, a in zip(params, every, strict=True)]  # fmt: skip
        return list(params), every

    def _load(self, params: Sequence[Param]) -> tuple[Launcher, Buffer | None, Program]:
        key = tuple((p.name, p.shape, p.dtype) for p in params)
        if key not in self._loaded:
            program, device = self.program(params), device_of(self.device_name)
            room = device.empty((program.workspace_bytes,), "int8") if program.workspace_bytes else None
            names = [*(p.name for p in params), "workspace"]
            self._loaded[key] = device.launcher(self.compile(), program, names), room, program
        return self._loaded[key]


def _number_of(p: Param, given: Any) -> Any:
    """What a launch takes for what is no array; None is one that is left out."""
    if p.dtype == LEFT_OUT:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float | np.generic):
        raise RunError(f"{p.name} is passed by value as {p.dtype}; got a {type(given).__name__}")
    number = given.item() if isinstance(given, np.generic) else given
    if (known := integers(p.dtype)) and not (isinstance(number, int) and number in known):
        raise RunError(f"{p.name} is passed by value as {p.dtype}, {known[0]} to {known[-1]}; got {number!r}")
    return number


def _repeated(
    launch: Launcher, readers: Sequence[Reader], out: Sequence[int], stream: Callable[[], int],
    makers: Sequence[tuple[int, Callable[[], Any] | None]],
) -> Callable[[Sequence[Any]], Any]:  # fmt: skip
    """The shortest way to a launch for arguments of the same kinds and shapes; NotImplemented for others."""
    count = len(readers)
    fewer = count - len(makers) if all(make for _, make in makers) else count
    single = out[0] if len(out) == 1 else None

    def call(arguments: Sequence[Any]) -> Any:
        if len(arguments) != count:
            if len(arguments) != fewer:
                return NotImplemented
            arguments = list(arguments)
            for place, make in makers:
                arguments.insert(place, make())  # type: ignore[misc]
        values = []
        for read, argument in zip(readers, arguments):  # noqa: B905 (counted above; this is the hot path)
            value = read(argument)
            if value is NotImplemented:
                return NotImplemented
            values.append(value)
        values.append(None)  # no workspace
        launch(values, stream())
        return arguments[single] if single is not None else _returned(arguments, out)

    return call


def _maker(like: Any) -> Callable[[], Any] | None:
    """What makes another array like an output that was made, or given; None where nothing can."""
    if is_torch(like):
        return partial(sys.modules["torch"].empty, tuple(like.shape), dtype=like.dtype, device=like.device)
    return partial(np.empty, like.shape, like.dtype) if isinstance(like, np.ndarray) else None


def _returned(every: Sequence[Any], out: Sequence[int]) -> Any:
    returned = [every[place] for place in out]
    return returned[0] if len(returned) == 1 else tuple(returned) or None


def _reader(p: Param, given: Any, kind: str, align_bytes: int, *, writes: bool) -> Reader | None:
    """What reads further arguments like this one; None where each has to be looked at anew."""
    if p.dtype == LEFT_OUT:
        return lambda a: None if a is None else NotImplemented
    if p.by_value:
        if known := integers(p.dtype):
            least, most = known[0], known[-1]
            return lambda a: a if a.__class__ is int and least <= a <= most else NotImplemented
        return lambda a: a if a.__class__ in (int, float) else NotImplemented
    shape, of = getattr(given, "shape", None), given.__class__
    if is_torch(given):
        dtype, device = given.dtype, given.get_device()

        def tensor(a: Any) -> Any:
            if a.__class__ is of and a.dtype is dtype and a.shape == shape and a.get_device() == device and (
                a.is_contiguous()
            ):  # fmt: skip
                pointer = a.data_ptr()
                return NotImplemented if pointer % align_bytes else pointer
            return NotImplemented

        return tensor
    if of is np.ndarray and kind == "cpu":
        dtype, from_buffer = given.dtype, cast(Any, ctypes.c_char.from_buffer)

        def array(a: Any) -> Any:
            if a.__class__ is of and a.dtype is dtype and a.shape == shape:
                flags = a.flags
                if flags.c_contiguous and flags.writeable and a.size:
                    return ctypes.addressof(from_buffer(a))  # a third of what `a.ctypes` takes
                if flags.c_contiguous and not writes:
                    return a.ctypes.data
            return NotImplemented

        return array
    if is_gpuarray(given):
        dtype = given.dtype

        def gpuarray(a: Any) -> Any:
            if a.__class__ is of and a.dtype == dtype and a.shape == shape and a.flags.c_contiguous:
                return NotImplemented if int(a.ptr) % align_bytes else int(a.ptr)
            return NotImplemented

        return gpuarray
    return None


def _stream_of(every: Sequence[Any]) -> Callable[[], int]:
    """What gives the stream to launch in: torch's current one for its tensors on a GPU, else the default one."""
    place = next((a.get_device() for a in every if is_torch(a) and a.is_cuda), None)
    if place is None:
        return lambda: 0
    torch = sys.modules["torch"]
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # which makes no object of it
    if raw is not None:
        return lambda: int(raw(place))
    return lambda: int(torch.cuda.current_stream(place).cuda_stream)


def _workspace(program: Program, own: Buffer | None, every: Sequence[Any]) -> Any:
    """Memory between launches: torch's own for its tensors, which its streams and graphs keep apart."""
    where = next((a.device for a in every if is_torch(a) and a.is_cuda), None)
    if own is None or where is None:
        return own
    torch = sys.modules["torch"]
    return torch.empty(program.workspace_bytes, dtype=torch.int8, device=where)


def compile_hint(hint: Hint, device: str = "auto", defines: Mapping[str, str] | None = None) -> Built:
    """The kernel of a hint, for a device that is here. `defines` adds macros, such as an elementwise EXPRESSION."""
    if not has_source(hint.backend) or device.partition(":")[0] not in ("auto", hint.backend):
        raise DeviceError(f"a hint for the backend {hint.backend!r} cannot run on the device {device!r}")
    name = device_name(device, hint.backend)
    kernel = HintKernel(hint, defines)
    params = kernel.params(device_of(name).arch)
    return Built(kernel, name, params, [i for i, p in enumerate(params) if p.is_output])


class JIT:
    """The result of `carver.jit`. Calling it builds the kernel for the given arguments, without tuning."""

    @takes(ConfigError, besides="^fn$")
    def __init__(
        self, fn: Callable[..., Any], out_idx: Sequence[int] | int | None = None, target: str = "auto",
        params: Callable[..., Sequence[Param | tuple[Any, ...]]] | None = None,
    ) -> None:  # fmt: skip
        if not callable(fn):
            raise ConfigError(f"jit decorates a function, got {fn!r}")
        self.fn = fn
        self.out_idx = (out_idx,) if isinstance(out_idx, int) else tuple(out_idx) if out_idx is not None else None
        self.target, self.params, self.signature = target, params, inspect.signature(fn)
        functools.update_wrapper(self, fn)

    def __repr__(self) -> str:
        return f"<jit {self.name}({', '.join(self.signature.parameters)})>"

    @property
    def name(self) -> str:
        return str(getattr(self.fn, "__name__", type(self.fn).__name__))

    def bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """What a call gives, by name, in the order that the function takes its arguments in."""
        return dict(self.signature.bind_partial(*args, **kwargs).arguments)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = self.signature.bind(*args, **kwargs).arguments
        if not (arrays := self.arrays(bound)):
            return self.build(self.fn(*args, **kwargs), bound)
        described = bound | arrays
        return self.build(self.fn(**described), described)(*(bound[name] for name in arrays))

    def arrays(self, bound: Mapping[str, Any]) -> dict[str, Param]:
        """What a function that is annotated to return a `Kernel` sees in place of the arrays that it is called with."""
        gives = self.signature.return_annotation
        if gives is not Kernel and str(gives).rpartition(".")[2] != "Kernel":  # it may be text
            return {}
        return {name: p for name, v in bound.items() if (p := param_of(name, v)) is not None}

    def build(self, made: Any, bound: Mapping[str, Any]) -> Any:
        """The callable kernel of what the function returned."""
        if isinstance(made, Kernel) and made.is_triton:
            return made.launcher()
        if isinstance(made, Program):
            raise ConfigError("return carver.Kernel(...), not a Program")
        if not isinstance(made, Kernel | HintKernel):
            return made
        device = device_name(self.target, made.kind)
        params = self.params_of(made, bound)
        return Built(made, device, params, self.outputs(made, params))

    def params_of(self, made: Any, bound: Mapping[str, Any]) -> tuple[Param, ...] | None:
        """The arrays that a kernel says it takes, or the decorator says for it."""
        if isinstance(made, HintKernel):
            return made.params(archs.load(device_name(self.target, made.kind)))
        if isinstance(made, Kernel) and made.params is not None:
            return tuple(made.params)  # type: ignore[arg-type]
        if self.params is None:
            return None
        return tuple(map(Param.of, self.params(**asked(self.params, bound)[0])))

    def outputs(self, made: Any, params: Sequence[Param] | None) -> tuple[int, ...]:
        """Places of the outputs: `out_idx`, else those that `params` mark, else a kernel's last array."""
        if self.out_idx is not None:
            return self.out_idx
        if marked := tuple(i for i, p in enumerate(params or ()) if p.is_output):
            return marked
        behind = next((i for i, p in enumerate(reversed(params or ())) if not p.by_value), 0)  # numbers
        return (-1 - behind,) if isinstance(made, Kernel | HintKernel) else ()

    def par_compile(
        self, configs: Sequence[Mapping[str, Any] | tuple[Any, ...]], num_workers: int | None = None,
        ignore_error: bool = False, timeout: float | None = None,
    ) -> list[Any]:  # fmt: skip
        """Compile the kernels of many argument sets (dicts or tuples) in parallel; results are in the order given.

        An error names its config. With `ignore_error`, the place of that config holds None.
        """

        def one(place: int) -> Any:
            arguments = configs[place]
            try:
                kernel = self(**arguments) if isinstance(arguments, Mapping) else self(*arguments)
                if isinstance(kernel, Built):
                    kernel.compile(timeout)
            except CarverError as e:
                if ignore_error:
                    return None
                log = e.log if isinstance(e, CompileError) else ""
                raise CompileError(f"config {place} of {self.name}, {arguments!r}: {e}", log) from e
            return kernel

        with ThreadPoolExecutor(num_workers or cpu_workers()) as pool:
            return list(pool.map(one, range(len(configs))))


@overload
def jit(fn: Callable[..., Any]) -> JIT: ...
@overload
def jit(
    *, out_idx: Sequence[int] | int | None = None, target: str = "auto",
    params: Callable[..., Sequence[Param | tuple[Any, ...]]] | None = None,
) -> Callable[[Callable[..., Any]], JIT]: ...  # fmt: skip
def jit(
    fn: Callable[..., Any] | None = None, *, out_idx: Sequence[int] | int | None = None, target: str = "auto",
    params: Callable[..., Sequence[Param | tuple[Any, ...]]] | None = None,
) -> JIT | Callable[[Callable[..., Any]], JIT]:  # fmt: skip
    """Mark a function that returns a `Kernel`, or a callable that takes the arrays.

    `out_idx` are the places of the outputs among the arrays. `target` is "auto", "cpu", "cuda" or "cuda:1". `params`
    describes the arrays from the function's arguments, if the kernel does not.
    """
    if fn is not None:
        return JIT(fn, out_idx, target, params)
    return lambda each: JIT(each, out_idx, target, params)


def device_name(target: str, kind: str) -> str:
    """The device of a kernel by its kind: "cpu", or "cuda:0" where the target names no other."""
    if target in ("auto", kind):
        return "cpu" if kind == "cpu" else "cuda:0"
    if kind == "python" or target.partition(":")[0] == kind:
        return "cuda:0" if target == "cuda" else target
    raise ConfigError(f"target {target!r} cannot run a kernel for {kind!r}")


def cpu_workers() -> int:
    """How many candidates are compiled at once. CARVER_CPU_COUNT if above 0, else CARVER_CPU_FRACTION (0.9) of the
    cores of this process; at most CARVER_MAX_CPU."""
    available = cores_available()
    count = _number("CARVER_CPU_COUNT", -1.0)
    share = _number("CARVER_CPU_FRACTION", 0.9)
    most = _number("CARVER_MAX_CPU", -1.0)
    if not 0 < share <= 1:
        raise ConfigError(f"CARVER_CPU_FRACTION must be above 0 and at most 1, got {share:g}")
    workers = min(int(count), available) if count >= 1 else max(1, int(available * share))
    return min(workers, int(most)) if most >= 1 else workers


def _number(name: str, default: float) -> float:
    text = os.environ.get(name, "")
    try:
        given = float(text) if text else default
    except ValueError:
        given = math.nan
    if not math.isfinite(given):
        raise ConfigError(f"{name} must be a number, got {text!r}")
    return given
