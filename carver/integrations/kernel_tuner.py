"""Kernel Tuner: spaces of CUDA and HIP kernels ranked from their sources, with no declaration. Tried with 1.5.0.

`RankedStrategy` is a strategy for `tune_kernel(strategy=...)`. `rank_space` ranks without tuning, for a filter:
`restrictions=[carver.export.kernel_tuner.restriction(ranking[:20])]`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..arch.descriptor import Arch
from ..arch.devices import load
from ..base.errors import ConfigError
from ..base.types import Record
from ..compiled.binary import Binary
from ..compiled.pool import SECONDS
from ..export.kernel_tuner import SeededStrategy
from ..problem.problem import counted
from ..ranking.ranking import Ranking
from ..ranking.search import Choices, searched
from ..run.spec import Kernel
from . import source
from .enable import TOPK, Chosen, Enabled, enabled_again
from .kernels import Made, rank_made

WHOLE = 96
"""Configurations of a space that is ranked as a list. A larger one is searched."""
MOST, PATIENCE = 160, 48
"""Of a larger one, the most that are compiled, and how many of them without a gain end the search."""
LANGUAGES = ("CUDA", "CUPY", "NVCUDA", "HIP")
_TARGET_FLAGS = ("-arch", "--arch", "--gpu-architecture", "-gencode", "--generate-code")


class RankedStrategy:
    """A strategy of `tune_kernel` that times the `topk` configurations which are predicted to be the fastest.

    All of a space are compiled and ranked by their machine code; a large one is searched. `arch`: "auto" is the
    device that is tuned for. `then` names a strategy that goes on from there with what is left of the budget.
    """

    def __init__(self, topk: int = TOPK, arch: Arch | str = "auto", then: str | None = None) -> None:
        self.topk = counted("topk", topk, 1)
        self.arch = arch
        self.then = then

    def tune(self, searchspace: Any, runner: Any, tuning_options: Any) -> list[dict[str, Any]]:
        check_objective(searchspace, tuning_options)
        first = configs(explored(searchspace, Instances.of(runner), load(self.arch)), searchspace, self.topk)
        if self.then is not None:
            return SeededStrategy(first, self.then).tune(searchspace, runner, tuning_options)
        return timed(first, runner, tuning_options)


def rank_space(
    kernel_name: str, kernel_source: Any, problem_size: Any, arguments: Sequence[Any],
    tune_params: Mapping[str, Sequence[Any]], *, arch: Arch | str | os.PathLike[str], restrictions: Any = None,
    lang: str | None = None, defines: Mapping[str, Any] | None = None, compiler_options: Sequence[str] | None = None,
    **options: Any,
) -> Ranking:  # fmt: skip
    """Rank the space that `tune_kernel` with the same arguments would search, for a device that need not be here.

    `options`: grid_div_x and the like, block_size_names, smem_args, cmem_args, as of `tune_kernel`.
    """
    from kernel_tuner.core import KernelSource
    from kernel_tuner.interface import Options, _kernel_options
    from kernel_tuner.searchspace import Searchspace

    device = load(arch)
    kernel = KernelSource(kernel_name, kernel_source, lang, defines)
    given = {"kernel_name": kernel_name, "problem_size": problem_size, "arguments": list(arguments), **options}
    if unknown := sorted(given.keys() - _kernel_options.keys()):
        raise ConfigError(f"{unknown[0]} says nothing of a kernel to Kernel Tuner")
    known = Options({name: given.get(name) for name in _kernel_options})
    space = Searchspace(dict(tune_params), restrictions, device.max_threads_per_block)
    return explored(space, Instances(kernel, known, tuple(compiler_options or ())), device)


class Instances(Record):
    """Makes machine code of configurations as Kernel Tuner would make its kernels of them."""

    kernel: Any
    options: Any
    flags: tuple[str, ...] = ()

    @classmethod
    def of(cls, runner: Any) -> Instances:
        backend = getattr(runner.dev, "dev", runner.dev)
        flags = (str(flag) for flag in getattr(backend, "compiler_options", None) or ())
        own = (flag for flag in flags if not flag.startswith(_TARGET_FLAGS))
        return cls(runner.kernel_source, runner.kernel_options, tuple(own))

    def launch(self, params: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Threads of a block, and blocks of the grid."""
        from kernel_tuner import util

        options = self.options
        divisors = options.grid_div_x, options.grid_div_y, options.grid_div_z
        names = options.block_size_names or util.default_block_size_names
        threads, grid = util.setup_block_and_grid(options.problem_size, divisors, dict(params), names)
        return tuple(threads), tuple(int(n) for n in grid)

    def binary(self, params: dict[str, Any], arch: Arch) -> Binary:
        """Raises CompileError where the compiler refuses the configuration."""
        from kernel_tuner import core, util

        kernel, options = self.kernel, self.options
        if kernel.lang.upper() not in LANGUAGES:
            raise ConfigError(f"Kernel Tuner's kernels in {kernel.lang} are not compiled here, but CUDA's and HIP's")
        names = options.block_size_names or util.default_block_size_names
        threads, grid = self.launch(params)
        name, text, files = kernel.prepare_list_of_files(options.kernel_name, params, grid, threads, names)
        try:
            if "<" in name:
                text, name = core.wrap_templated_kernel(text, name)
            values = core._preprocess_gpu_arguments(options.arguments, params)
            asked = util.get_smem_args(options.smem_args, params) if options.smem_args else {}
            made = Kernel(text, name, shared_bytes=int(asked.get("size", 0)), flags=(*self.flags, f"-I{Path.cwd()}"))
            binary = source.binary(made, {}, args=values, grid=(*grid, 1)[:3], block=threads, arch=arch)
        finally:
            for path in files.values():
                util.delete_temp_file(path)
        return replace(binary, constants=options.cmem_args or {})


def timed(some: Sequence[tuple[Any, ...]], runner: Any, options: Any) -> list[dict[str, Any]]:
    """What Kernel Tuner finds of configurations; those that its budget does not reach are left out."""
    return [found for found in runner.run(some, options) if found is not None]


def check_objective(space: Any, options: Any) -> None:
    """Raises ConfigError unless a shorter time of a configuration is better by each objective: time itself, or a metric
    that is made of it."""
    from kernel_tuner.util import process_metrics

    config = dict(zip(space.tune_params, space.list[0], strict=True))
    for name, higher in zip(options.objective, options.objective_higher_is_better, strict=True):
        metrics = {} if name == "time" else options.metrics
        try:
            short, long = (process_metrics({**config, "time": ms}, metrics)[name] for ms in (1.0, 2.0))
        except (KeyError, NameError):  # made of what else is measured
            short = long = 0.0
        if short == long or (short > long) != higher:
            raise ConfigError(f"the objective is {name}, and what carver predicts is time")


def configs(ranking: Ranking, space: Any, count: int) -> list[tuple[Any, ...]]:
    """The first so many, as Kernel Tuner has them."""
    return [tuple(hint.config[name] for name in space.tune_params) for hint in ranking[:count]]


def explored(space: Any, instances: Instances, arch: Arch) -> Ranking:
    """All of a small space; of a large one what a search by predicted times compiles of it."""
    every = [dict(zip(space.tune_params, config, strict=True)) for config in space.list]
    name = str(instances.options.kernel_name)

    def make(config: Mapping[str, Any]) -> Binary:
        return instances.binary(dict(config), arch)

    if len(every) > WHOLE:
        grid = lambda config: instances.launch(config)[1]  # noqa: E731
        kernels = Made(make, {}, grid, None, arch, name=name, backend="kernel_tuner", hurry=True)
        return searched(kernels, Choices(every), arch, most=MOST, patience=PATIENCE, seconds=SECONDS)
    return rank_made(name, arch, every, lambda place: make(every[place]), backend="kernel_tuner")


def patch(log: Enabled) -> Callable[[], None]:
    """Put a strategy in the place of each of Kernel Tuner's: it times the first few, and no strategy searches on."""
    from kernel_tuner.interface import strategy_map as strategies

    if earlier := {name: each._own for name, each in strategies.items() if isinstance(each, _Logged)}:
        strategies.update(earlier)
        enabled_again("Kernel Tuner")
    strategies.update({name: _Logged(strategy, log) for name, strategy in strategies.items()})

    def restore() -> None:
        mine = {name: each for name, each in strategies.items() if isinstance(each, _Logged) and each._log is log}
        strategies.update({name: each._own for name, each in mine.items()})

    return restore


class _Logged:
    """A strategy of Kernel Tuner's: used as it is for a space that cannot be ranked."""

    def __init__(self, own: Any, log: Enabled) -> None:
        self._own, self._log = own, log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def tune(self, searchspace: Any, runner: Any, tuning_options: Any) -> Any:
        log, every = self._log, searchspace.list

        def rank() -> Chosen[Any]:
            check_objective(searchspace, tuning_options)
            found = explored(searchspace, Instances.of(runner), log.device())
            return Chosen(configs(found, searchspace, log.topk), dict(found[0].config))

        kept = log.first(runner.kernel_options.kernel_name, every, rank)
        if len(kept) == len(every):
            return self._own.tune(searchspace, runner, tuning_options)
        return timed(kept, runner, tuning_options)
