"""cuTile: a `ct.kernel` as machine code with its launch; and `exhaustive_search`, which times the first few.
Tried with cuda-tile 1.7 and nvidia-cuda-tileiras 13.5.

Its compiler needs no GPU. Of a tensor it is told what a launch tells it: 32-bit sizes and strides, rows without gaps,
and which sizes, strides and addresses 16 divides.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Mapping
from math import gcd, prod
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import ConfigError
from ..compiled.binary import Binary, Tensor, given
from ..compiled.isa.sass import kernels
from ..compiled.triton import ALIGNED, grid_of
from . import capability, compiling, in_order
from .enable import Chosen, Enabled, originals, replaced
from .kernels import rank_made

HINTS = ("num_ctas", "occupancy", "opt_level", "num_worker_warps")
"""Keys of a configuration that are for the compiler."""
_ELEMENTS = {"float8_e4m3": "float8_e4m3fn", "tf32": "tfloat32", "bool": "bool_"}
"""Where cuTile writes an element type in another way."""


def binary(kernel: Any, config: Mapping[str, Any], *, args: Any, grid: Any, block: Any, arch: Arch) -> Binary:
    """Compile one configuration of a kernel. `grid` is that of `ct.launch`, in blocks of tiles; a block's threads are
    the compiler's choice.

    `args` and the configuration are the kernel's arguments by name; `HINTS` go to `replace_hints`. Raises CompileError.
    """
    import cuda.tile as ct
    from cuda.tile import compilation as to

    if grid is None or block is not None:
        raise ConfigError("a cuTile kernel is launched over a grid, which must be given; its block is the compiler's")
    major, minor = capability(arch, "cuTile's kernels")
    hints = {name: value for name, value in config.items() if name in HINTS}
    own = {name: value for name, value in config.items() if name not in HINTS}
    function = kernel._annotated_function.pyfunc
    values = in_order(function, args, own)
    annotated = [str(function.__annotations__.get(name, "")) for name in function.__code__.co_varnames]
    known = ["Constant" in kind for kind in annotated[: len(values)]]
    constraints = [v if k else _constraint(v, ct, to) for v, k in zip(values, known, strict=True)]
    out = io.BytesIO()
    with compiling():
        signature = to.KernelSignature(constraints, to.CallingConvention.cutile_python_v1())
        target = f"sm_{major}{minor}"
        hinted = kernel.replace_hints(**hints) if hints else kernel
        to.export_kernel(
            hinted, [signature.with_mangled_symbol(function.__name__)], out, gpu_code=target, output_format="cubin"
        )
    [made] = kernels(out.getvalue()).values()
    x, y, z = grid_of(grid, config)
    of = zip(function.__code__.co_varnames, values, known, strict=False)
    names, parameters = zip(*(p for name, v, k in of if not k for p in _parameters(name, v)), strict=True)
    return Binary(out.getvalue(), made.name, parameters, (x * prod(made.cluster), y, z), made.threads, names=names)


def _constraint(value: Any, ct: Any, to: Any) -> Any:
    if not isinstance(value, Tensor):
        return to.ScalarConstraint(getattr(ct, _number(value).dtype.name))
    last = tuple(1 if stride == 1 else None for stride in value.strides)
    return to.ArrayConstraint(
        getattr(ct, _ELEMENTS.get(value.dtype, value.dtype)), value.dim(), index_dtype=ct.int32,
        stride_lower_bound_incl=0, alias_groups=(), may_alias_internally=False, stride_constant=last,
        stride_divisible_by=[gcd(stride, ALIGNED) or 1 for stride in value.strides],
        shape_divisible_by=[gcd(n, ALIGNED) or 1 for n in value.shape], base_addr_divisible_by=ALIGNED,
    )  # fmt: skip


def _number(value: Any) -> np.generic:
    """A number as a launch passes it: of 32 bits, unless it is NumPy's."""
    if isinstance(value, np.generic):
        return value
    return np.float32(value) if isinstance(value, float) else np.int32(value)


def _parameters(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A tensor is its address, its shape and its strides in elements."""
    if not isinstance(value, Tensor):
        yield name, _number(value)
        return
    yield name, value
    yield from (("", np.int32(n)) for n in (*value.shape, *value.strides))


def patch(log: Enabled) -> Callable[[], None]:
    """Replace the function where it is made, and in each module that imported it."""
    from cuda.tile import kernel as Kernel
    from cuda.tile.tune import _tune

    [search] = originals(_tune, "exhaustive_search")

    def exhaustive_search(
        search_space: Any, stream: Any, grid_fn: Any, kernel: Any, args_fn: Any, hints_fn: Any = None, **more: Any
    ) -> Any:
        listed = list(search_space)

        def rank() -> Chosen[Any]:
            # copies of this process cannot make tensors on the GPU
            args = [tuple(map(given, args_fn(config))) for config in listed]
            every = [config if isinstance(config, Mapping) else {"config": config} for config in listed]
            ranking = rank_made(name, log.device(), every, make(args), backend="cutile")
            return Chosen([listed[place] for place in ranking.indices[: log.topk]], dict(ranking[0].config))

        def make(args: list[tuple[Any, ...]]) -> Callable[[int], Binary]:
            def one(place: int) -> Binary:
                config = listed[place]
                chosen = kernel if isinstance(kernel, Kernel) else kernel(config)
                hints = {} if hints_fn is None else hints_fn(config)
                return binary(chosen, hints, args=args[place], grid=grid_fn(config), block=None, arch=log.device())

            return one

        name = kernel._pyfunc.__name__ if isinstance(kernel, Kernel) else getattr(kernel, "__name__", "kernel")
        return search(log.first(name, listed, rank), stream, grid_fn, kernel, args_fn, hints_fn, **more)

    held = [
        (module, name) for module in [*sys.modules.values()]
        for name, value in [*getattr(module, "__dict__", {}).items()] if value is search
    ]  # fmt: skip
    taken = [replaced(module, **{name: exhaustive_search}) for module, name in held]

    def restore() -> None:
        for each in taken:
            each()

    _tune.exhaustive_search._carver = restore  # which a second call finds there
    return restore
