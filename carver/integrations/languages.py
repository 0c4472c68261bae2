"""Kernels of any language as machine code: which front end takes an object, and what it makes of one configuration.

A front end is a module of this folder with `binary(kernel, config, *, args, grid, block, arch)`, and `configs(kernel,
args)` where its language has a tuner with lists. It is found by the module of the object's type, and imports its
language only to compile: an object of a language is there only where that language is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

from ..arch.descriptor import Arch
from ..base.errors import CarverError, ConfigError
from ..base.given import shown
from ..compiled.binary import Binary
from ..compiled.triton import called, function_of, plain_config
from ..run.spec import Kernel
from . import refusal

MODULES = {
    "tilelang": "tilelang", "tvm": "tilelang", "triton.experimental.gluon": "gluon", "numba": "numba",
    "numba_cuda": "numba", "warp": "warp", "cuda.tile": "cutile",
}  # fmt: skip
"""The front end for objects of the types of a package."""


def front_end(kernel: Any) -> ModuleType | None:
    """The module that makes machine code of an object; None for what no language here knows, Triton's functions too."""
    if isinstance(kernel, Kernel):
        return None if kernel.is_triton else _module("source")
    if hasattr(kernel, "_dsl_cls") or hasattr(type(kernel).__call__, "_dsl_cls"):
        return _module("cute")
    parts = type(kernel).__module__.split(".")
    names = (MODULES.get(".".join(parts[:n])) for n in range(len(parts), 0, -1))
    if name := next(filter(None, names), None):
        return _module(name)
    if parts[0] == "triton" and _is_gluon(kernel):
        return _module("gluon")
    return None


def _is_gluon(kernel: Any) -> bool:
    """Of Triton's functions, and its tuner and heuristics around one."""
    try:
        return bool(getattr(function_of(kernel), "is_gluon", bool)())
    except ConfigError:
        return False


def _module(name: str) -> ModuleType:
    return import_module(f".{name}", __package__)


@dataclass(frozen=True)
class Maker:
    """Makes machine code of the configurations of a kernel for one device.

    `kernel`: an object of a language, a `carver.Kernel` or `Binary`, or a function of a configuration that makes any
    of them: with one parameter it is given the configuration, else its entries, and arguments, by name. `args`, `grid`
    and `block` may be functions of the configuration; those of the launch get arguments and configuration in one.
    """

    kernel: Any
    args: Any
    grid: Any
    block: Any
    arch: Arch

    def __call__(self, config: Mapping[str, Any]) -> Binary:
        """Raises CompileError where the compiler refuses this configuration, ConfigError for what fits none."""
        config = plain_config(config)
        args = called("args", self.args, config) if callable(self.args) else self.args
        meta = {**args, **config} if isinstance(args, Mapping) else config
        kernel = self.kernel
        if makes(kernel):
            kernel, args, config = made(kernel, args, config)
        if isinstance(kernel, Binary):
            return kernel
        if (module := front_end(kernel)) is None:
            raise ConfigError(f"carver cannot compile {shown(kernel)}: {KNOWN}")
        block = called("the block", self.block, meta) if callable(self.block) else self.block
        grid = called("the grid", self.grid, meta) if callable(self.grid) else self.grid
        binary: Binary = module.binary(kernel, config, args=args, grid=grid, block=block, arch=self.arch)
        return binary


KNOWN = (
    "a kernel is a function of Triton or Gluon, of TileLang, CuTe DSL, cuTile, Numba or Warp, a carver.Kernel, a "
    "carver.Binary, or a function of a configuration that makes one of these"
)


def makes(kernel: Any) -> bool:
    """Whether it is a function that makes kernels, and no kernel."""
    return isinstance(kernel, FunctionType) and front_end(kernel) is None


def made(function: Callable[..., Any], args: Any, config: Mapping[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """What a function makes of a configuration, and the arguments and entries that it did not take.

    Raises CompileError where it fails: a configuration may be one that it cannot have.
    """
    named = dict(args) if isinstance(args, Mapping) else {}
    known = {**named, **config}
    parameters = inspect.signature(function).parameters
    whole = len(parameters) == 1 and not parameters.keys() & known.keys()
    every = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    taken = {k: v for k, v in known.items() if k in parameters or (every and k in config)}
    try:
        kernel = function(dict(config)) if whole else function(**taken)
    except CarverError:
        raise
    except Exception as error:  # of the kernel's author
        raise refusal(error) from error
    if whole:
        return kernel, args, {}
    left = {k: v for k, v in named.items() if k not in taken} if isinstance(args, Mapping) else args
    return kernel, left, {k: v for k, v in config.items() if k not in taken}


def listed(kernel: Any, args: Any) -> Sequence[Any]:
    """The configurations of a kernel's own tuner. Raises ConfigError where it has none."""
    module = front_end(kernel)
    if not hasattr(module, "configs"):
        name = getattr(kernel, "entry", None) or getattr(kernel, "__name__", None) or shown(kernel)
        raise ConfigError(f"{name} has no list of configurations of its own; give one, in a shell by --configs or -D")
    configs: Sequence[Any] = module.configs(kernel, args)  # type: ignore[union-attr]
    return configs
