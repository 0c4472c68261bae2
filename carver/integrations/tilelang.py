"""TileLang: a program as machine code with its launch, on a machine that needs no GPU; and its tuner, which
compiles and times the first few of its list. Tried with TileLang 0.1.15.

Kernels are lowered and compiled by TileLang itself, which keeps the cubin under a hash of the generated source, so that
its own compilation of the same configuration takes it from there: copies of the process fill that cache, out of which
the tuner builds what it times. The key of its own results is made of the whole list, so that they are found with and
without this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import CompileError, ConfigError
from ..compiled.binary import Binary, Tensor, TensorMap, given
from . import capability, compiling
from .enable import Chosen, Enabled, originals, replaced
from .kernels import rank_made

PASS_CONFIGS = "pass_configs"
"""The key of a configuration that holds options of the compiler."""
_OF_A_GENERATION = 9
"""From this major compute capability on, TileLang asks for the instructions of one generation: sm_90a."""


def configs(kernel: Any, args: Mapping[str, Any]) -> Sequence[Any]:
    """Those of its `tilelang.autotune`, for these arguments."""
    listed = getattr(kernel, "configs", None)
    if listed is None:
        raise ConfigError(
            "the TileLang function has no tilelang.autotune whose configurations could be ranked; give a list"
        )
    return list(listed(**args) if callable(listed) else listed)


def binary(kernel: Any, config: Mapping[str, Any], *, args: Any, grid: Any, block: Any, arch: Arch) -> Binary:
    """Lower and compile one configuration of a `tilelang.jit` function, or a program that was made already.

    `args`: the function's other parameters by name, and tensors of the program whose sizes it leaves open. The grid
    and the block are the program's. Raises CompileError.
    """
    from tvm.target import Target

    if grid is not None or block is not None:
        raise ConfigError("a TileLang program has its grid and its threads; give neither grid nor block")
    major, minor = capability(arch, "TileLang's programs")
    jit = getattr(kernel, "jit_impl", kernel)
    options = config.get(PASS_CONFIGS) or {}
    program = jit
    if hasattr(jit, "get_tir"):
        own = {name: value for name, value in config.items() if name != PASS_CONFIGS}
        known = {name: value for name, value in args.items() if name in jit.signature.parameters}
        options = {**(jit.pass_configs or {}), **options}
        with compiling():
            program = jit.get_tir(**known, **own)
    target = Target({"kind": "cuda", "arch": f"sm_{major}{minor}{'a' * (major >= _OF_A_GENERATION)}"})
    return lowered(program, target, options, args)


def lowered(program: Any, target: Any, options: Mapping[str, Any], tensors: Mapping[str, Any]) -> Binary:
    """Machine code of a program that launches one kernel. Raises CompileError."""
    import tilelang
    import tvm
    from tilelang.cuda.backend import tilelang_callback_cuda_compile
    from tilelang.transform.pass_config import normalize_pass_configs

    passes = normalize_pass_configs({**dict((program.attrs or {}).get("tilelang_pass_configs", {})), **options})
    with compiling(), target, tvm.transform.PassContext(opt_level=3, config=passes):
        made = tilelang.lower(program, target=target)
        code = bytes(tilelang_callback_cuda_compile(made.kernel_source, target, passes))
    launches = list(_launches(made, _Given(program, tensors)))
    if len(launches) != 1:
        raise CompileError(f"the program launches {len(launches)} kernels; carver ranks programs of one")
    symbol, parameters, sizes = launches[0]
    grid, block = ([sizes.pop(f"{what}.{axis}", 1) for axis in "xyz"] for what in ("blockIdx", "threadIdx"))
    names, values = zip(*parameters, strict=True) if parameters else ((), ())
    return Binary(code, symbol, values, tuple(grid), tuple(block), shared_bytes=sum(sizes.values()), names=names)


class _Given:
    """The program's tensors by name, and the sizes that it leaves open as the tensors of the caller have them."""

    def __init__(self, program: Any, tensors: Mapping[str, Any]) -> None:
        self._sizes: dict[str, int] = {}
        for buffer in program.buffer_map.values():
            if (tensor := given(tensors.get(buffer.name))) is not None:
                open_sizes = zip(buffer.shape, tensor.shape, strict=True)
                self._sizes |= {size.name: int(n) for size, n in open_sizes if hasattr(size, "name")}
        self.tensors = {buffer.data.name: self._tensor(buffer) for buffer in program.buffer_map.values()}

    def _tensor(self, buffer: Any) -> Tensor:
        strides = tuple(self.number(stride) for stride in buffer.strides)
        return Tensor(str(buffer.dtype), tuple(self.number(n) for n in buffer.shape), strides)

    def number(self, expression: Any) -> Any:
        """Its value. Raises ConfigError where it depends on a size that was not given."""
        import tvm

        if not hasattr(expression, "dtype"):
            return expression
        known: dict[Any, Any] = {}

        def look(node: Any) -> None:
            if type(node).__name__ == "Var" and node.name in self._sizes:
                known[node] = tvm.tirx.const(self._sizes[node.name], node.dtype)

        tvm.tirx.stmt_functor.post_order_visit(expression, look)
        value = tvm.arith.Analyzer().simplify(tvm.tirx.stmt_functor.substitute(expression, known))
        if not hasattr(value, "value"):
            raise ConfigError(f"{value} is not known before the launch; give the program's tensors in args, by name")
        return value.value


def _launches(made: Any, known: _Given) -> Iterator[tuple[str, tuple[Any, ...], dict[str, int]]]:
    """What the host's part of a lowered program launches: symbol, parameters, and sizes of grid and block by axis."""
    from tvm.tirx.stmt_functor import post_order_visit

    found: list[list[Any]] = []

    def look(node: Any) -> None:
        if type(node).__name__ == "Call" and getattr(node.op, "name", "").startswith("tirx.tvm_call_packed"):
            found.append(list(node.args))

    for function in made.host_mod.functions.values():
        post_order_visit(function.body, look)
    axes = {
        str(f.attrs["global_symbol"]): [str(axis) for axis in f.attrs.get("tirx.kernel_launch_params", ())]
        for f in made.device_mod.functions.values()
    }
    maps = {
        call[1].name: _tensor_map(name, call[2:], known)
        for call in found
        if "tensormap" in (name := str(call[0].value))
    }
    for symbol, *rest in found:
        if (symbol := str(symbol.value)) in axes:
            named = axes[symbol]
            parameters, sizes = rest[: len(rest) - len(named)], rest[len(rest) - len(named) :]
            yield (
                symbol,
                tuple(_parameter(each, maps, known) for each in parameters),
                {axis: int(known.number(n)) for axis, n in zip(named, sizes, strict=True)},
            )


def _parameter(value: Any, maps: Mapping[str, tuple[str, TensorMap]], known: _Given) -> tuple[str, Any]:
    name = getattr(value, "name", "")
    if name in maps:
        return maps[name]
    return name, known.tensors.get(name) or np.dtype(str(value.dtype)).type(known.number(value))


def _tensor_map(call: str, numbers: Sequence[Any], known: _Given) -> tuple[str, TensorMap]:
    """From the arguments of cuTensorMapEncodeTiled: type, rank, address, sizes, strides, box, element strides, and four
    codes, of which the second is the swizzle; or from those of cuTensorMapEncodeIm2col, where element strides, both
    corners, pixels and channels follow the strides. The first stride is the element's."""
    _, rank, address, *rest = numbers
    rank, rest = int(rank.value), [int(known.number(n)) for n in rest]
    *of_axes, _, swizzle, _, _ = rest
    dims, strides, *more = (tuple(of_axes[at : at + rank]) for at in range(0, 4 * rank, rank))
    tensor = known.tensors[address.name]
    if not call.endswith("im2col"):
        return address.name, TensorMap(tensor, dims, strides[1:], more[0], more[1], swizzle)
    *corners, pixels, channels = of_axes[3 * rank :]
    lower, upper = tuple(corners[: rank - 2]), tuple(corners[rank - 2 :])
    found = TensorMap(tensor, dims, strides[1:], (channels, pixels), more[0], swizzle, lower, upper)
    return address.name, found


def patch(log: Enabled) -> Callable[[], None]:
    """Replace the step of TileLang's `AutoTuner` that compiles, which comes after its caches."""
    from tilelang.autotuner.tuner import _PASS_CONFIGS_KEY, AutoTuner

    prepare, run = originals(AutoTuner, "_prepare_compile_execution", "run")

    def _prepare_compile_execution(
        self: Any, config_args: list[dict[str, Any]], grouped_compile_active: bool, group_compile_size: int,
        compile_func: Any, elaborate_func: Any,
    ) -> Any:  # fmt: skip
        listed = list(self.configs)

        def make(place: int) -> Binary:
            config = dict(config_args[place])
            passes = config.pop(_PASS_CONFIGS_KEY, None) or {}
            options = {**(self.compile_args.pass_configs or {}), **passes}
            return lowered(elaborate_func(**config), self.compile_args.target, options, {})

        def rank() -> Chosen[int]:
            ranking = rank_made(name, log.device(), listed, make, backend="tilelang")
            return Chosen(ranking.indices[: log.topk], dict(ranking[0].config))

        name = getattr(self.fn, "__name__", "kernel")
        places = log.first(name, range(len(listed)), rank)
        config_args[:] = [config_args[place] for place in places]
        self.configs = [listed[place] for place in places]  # by whose places it reports
        return prepare(self, config_args, grouped_compile_active, group_compile_size, compile_func, elaborate_func)

    def run_all(self: Any, *args: Any, **kwargs: Any) -> Any:
        listed = self.configs
        try:
            return run(self, *args, **kwargs)
        finally:
            self.configs = listed

    return replaced(AutoTuner, _prepare_compile_execution=_prepare_compile_execution, run=run_all)
