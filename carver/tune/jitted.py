"""`carver.jit`: a function of sizes and tunables that returns a kernel, and compiling many of them in parallel."""

from __future__ import annotations

import functools
import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, overload

from ..base.errors import CarverError, CompileError, ConfigError
from ..base.given import asked, takes
from ..base.host import cores_available
from ..run.device import Program
from ..run.spec import HintKernel, Kernel, Param, param_of, program_params
from .built import Built


class JIT:
    """The result of `carver.jit`. Calling it builds the kernel for the given arguments, without tuning."""

    @takes(ConfigError, besides="^fn$")
    def __init__(
        self,
        fn: Callable[..., Any],
        out_idx: Sequence[int] | int | None = None,
        target: str = "auto",
        params: Callable[..., Sequence[Param | tuple[Any, ...]]] | None = None,
    ) -> None:
        if not callable(fn):
            raise ConfigError(f"jit decorates a function, got {fn!r}")
        self.fn = fn
        self.out_idx = (out_idx,) if isinstance(out_idx, int) else tuple(out_idx) if out_idx is not None else None
        self.target = target
        self.params = params
        self.signature = inspect.signature(fn)
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
            from ..arch import devices as archs

            return program_params(made.program((), archs.load(device_name(self.target, made.kind))))
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
    fn: Callable[..., Any] | None = None,
    *,
    out_idx: Sequence[int] | int | None = None,
    target: str = "auto",
    params: Callable[..., Sequence[Param | tuple[Any, ...]]] | None = None,
) -> JIT | Callable[[Callable[..., Any]], JIT]:
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
    """How many candidates are compiled at once.

    CARVER_CPU_COUNT if above 0, else CARVER_CPU_FRACTION (0.9) of the cores of this process; at most CARVER_MAX_CPU.
    """
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
