"""`rank_kernel`, `inspect` and `search` for kernels of any language.

A front end is a module of this folder with `binary(kernel, config, *, args, grid, block, arch)`, and `configs(kernel,
args)` where its language has a tuner with lists. It is found by the module of the object's type, and imports its
language only to compile: an object of a language is there only where that language is."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from importlib import import_module
from inspect import getsource, signature
from math import prod
from types import FunctionType, ModuleType
from typing import Any

from ..arch.descriptor import Arch
from ..arch.devices import load
from ..base.errors import CarverError, CompileError, ConfigError, ProblemError, nearest
from ..base.folders import cores_available
from ..base.given import as_json, number, shown, takes
from ..base.table import is_watched, progress_bars
from ..compiled import pool
from ..compiled.binary import Binary, Struct, Tensor, TensorMap
from ..compiled.execution.facts import codes, facts_of_binary
from ..compiled.facts import Facts
from ..compiled.inspect import Candidate, Values, candidate, check_once, held
from ..compiled.inspect import facts_of as triton_facts
from ..compiled.pool import SECONDS, Reply
from ..compiled.triton import called, function_of, plain_config
from ..compiled.worker import Copies
from ..kernels.backends import BACKENDS
from ..kernels.backends import listed as combined
from ..ops.operator import Template
from ..problem.problem import counted
from ..ranking import kernel as triton
from ..ranking.hint import Hint
from ..ranking.kernel import SCREENED, described, in_turns, ranked, screened
from ..ranking.profile import Given
from ..ranking.ranking import Ranking, Search
from ..ranking.search import MOST, PATIENCE, Choices, Config, Kernels, Space, searched
from ..run.spec import HintKernel, Kernel
from . import compiling
from .source import CodeFacts, functions


@takes(ConfigError, besides="^(kernel|configs|args|grid|block)$")
def rank_kernel(
    kernel: Any, configs: Iterable[Any] | None = None, *, arch: Arch | str | os.PathLike[str], args: Any = None,
    grid: Any = None, block: Any = None, constants: Mapping[str, Any] | None = None,
    values: Values = None, screen: Any = None, compiled: int = SCREENED,
    profile: Given | None = None, processes: int | None = None, seconds: float = SECONDS, progress: bool | None = None,
    launch: bool = True, compile: str | float | None = None,
) -> Ranking:  # fmt: skip
    """Rank configurations of a kernel by its machine code, for a device that need not be in the machine.

    `kernel`: a function of Triton, Gluon, TileLang, CuTe DSL, cuTile, Numba or Warp; a `carver.Kernel` of CUDA or HIP
    source, which gets a configuration's entries as macros; a `carver.Binary`, or a list of them; or a function of a
    configuration that makes any of these.

    - `configs` may be left out where the language's own tuner has a list, and for binaries.
    - `args`: what the kernel is called with, by name or in order. `grid` and `block`: as its language launches it; the
      block only where the caller chooses it. Each may be a function of the configuration.
    - `constants`: entries of every configuration that are not tuned. `values`: contents of integer tensors, or a
      function from a configuration to them.
    - `screen`: a template, whose ranking picks the `compiled` configurations to compile.
    - `seconds`: for each configuration, to compile and evaluate. `launch`: False leaves out the time of the launch.
    - `compile`: the share of the list that is compiled, "all" for every one; by default 2.25√n of n, 20 or more.
      What the others are predicted to take is in `reasons`.
    - `profile`: what was learnt of the kernel before: the `profile` of a ranking, or a file of it.

    Raises ConfigError for what fits no configuration, NoCandidates if none compiles and fits the device.
    """
    device, args = load(arch), {} if args is None else args
    if isinstance(kernel, Binary):
        kernel = [kernel]
    if not isinstance(kernel, list | tuple) and not makes(kernel) and front_end(kernel) is None:
        if block is not None:
            raise ConfigError("the block of a Triton kernel follows from num_warps: leave out block")
        return triton.rank_kernel(
            kernel, configs, args=args, grid=grid, arch=device, constants=constants, values=values, screen=screen,
            compiled=compiled, processes=processes, seconds=seconds, launch=launch, progress=progress, profile=profile,
            compile=compile,
        )  # fmt: skip
    if isinstance(kernel, list | tuple):
        if not kernel:
            raise ConfigError("kernel is an empty list; give a carver.Binary for each candidate")
        every: list[Any] = [plain_config(c) for c in configs] if configs is not None else [{} for _ in kernel]
        if args or grid or block or constants:
            raise ConfigError("args, grid, block and constants are the binaries' own: give them to carver.Binary")
        if len(every) != len(kernel):
            raise ConfigError(f"{len(kernel)} binaries, but {len(every)} configurations")
        _of_arguments(_known(values), {each for binary in kernel for each in binary.names})
        make: Callable[[int], Binary] = kernel.__getitem__
        name = " ".join(dict.fromkeys(binary.entry for binary in kernel))
        backend, source, known = "binary", "", described({}, _known(values))
    else:
        every = [plain_config(c) for c in combined(listed(kernel, args) if configs is None else configs)]
        made = Made(kernel, args, grid, block, device, constants, values)
        make = lambda place: made.binary(every[place])  # noqa: E731
        name, backend, source, known = made.name, made.backend, made.source, made.arguments
    places = range(len(every)) if screen is None else screened(screen, device, every, compiled)
    bounds: dict[str, Any] = {
        "processes": processes, "seconds": seconds, "progress": is_watched() if progress is None else progress,
        "together": TOGETHER if backend == "binary" else 1,
    }  # fmt: skip
    return ranked(
        name, device, every, [[i] for i in places], compile,
        lambda some: facts_of(make, some, device, _at(values, every), **bounds), backend=backend, source=source,
        arguments=known, profile=profile, launch=launch,
    )  # fmt: skip


TOGETHER = 12
"""Binaries whose codes a process disassembles in one go, at most: a disassembler takes as long to start as a binary
to be evaluated. What is compiled first takes longer than both, and may not end."""
FEW = 12
"""Of so many at least the middle one tells which takes far too long to compile: a batch of a search has fewer, of all
sizes."""


def facts_of(
    make: Callable[[int], Binary], places: Iterable[int], arch: Arch, values: Values = None, *,
    processes: int | None = None, seconds: float = SECONDS, progress: bool = False, hurry: bool = False,
    together: int = 1,
) -> list[Facts | CarverError]:  # fmt: skip
    """Facts of the machine code that `make` gives for each place, or why there are none.

    `values`: what tensors hold, or a function from a place to that; then each is evaluated by itself.

    Each is made and evaluated in a copy of this process, several at a time. A copy takes up to `together` in one go;
    where one of them fails, each by itself. Raises ConfigError for what fits no configuration.
    """
    wanted, found = list(places), dict[int, Facts | CarverError]()

    def answer(asked: Mapping[str, Any]) -> Reply:
        try:
            held_there = held(values, asked["places"][0])
            facts = evaluated([make(place) for place in asked["places"]], arch, held_there)
        except ProblemError as lost:
            return {"lost": str(lost)}
        return {"facts": [as_json(each) for each in facts]}

    size = 1 if callable(values) else max(min(together, -(-len(wanted) // (processes or cores_available()))), 1)
    batches = [wanted[start : start + size] for start in range(0, len(wanted), size)]
    with progress_bars(progress and bool(wanted), transient=True) as bars:
        step = bars.bar("compiling", len(wanted))
        while batches:
            requests = {str(number): {"places": batch} for number, batch in enumerate(batches)}
            copies = Copies(answer, processes, hurry * max(len(requests), FEW))
            alone, limit_s, size = list[list[int]](), size * seconds, 1
            for key, reply in copies.replies(requests, limit_s):
                batch = batches[int(key)]
                if len(batch) > 1 and "facts" not in reply:
                    alone += [[place] for place in batch]
                    continue
                for place, facts in zip(batch, _told(reply), strict=True):
                    found[place] = facts
                    step()
            batches = alone
    return [found[place] for place in wanted]


class Made:
    """Machine code and facts of a kernel's configurations for one device (`carver.ranking.search.Kernels`).

    `kernel`: an object of a language, a `carver.Kernel` or `Binary`, or a function of a configuration that makes any
    of them: with one parameter it is given the configuration, else its entries, and arguments, by name. `args`, `grid`
    and `block` may be functions of the configuration; those of the launch get arguments and configuration in one.
    `name` and `backend` are the kernel's own unless given.
    """

    def __init__(
        self, kernel: Any, args: Any, grid: Any, block: Any, arch: Arch, constants: Mapping[str, Any] | None = None,
        values: Values = None, processes: int | None = None, *, name: str = "", backend: str = "",
        hurry: bool = False,
    ) -> None:  # fmt: skip
        self.name, self.backend = name or name_of(kernel), backend or language_of(kernel, arch)
        self.source, self._constants, self._values = source_of(kernel), constants or {}, values
        named = {**args, **self._constants} if isinstance(args, Mapping) else {}
        self.arguments = described(named, _known(values))
        self._kernel, self._args, self._grid, self._block, self._arch = kernel, args, grid, block, arch
        self._how: dict[str, Any] = {"processes": processes, "hurry": hurry}

    def binary(self, config: Mapping[str, Any]) -> Binary:
        """Raises CompileError where the compiler refuses this configuration, ConfigError for what fits none."""
        check_once({}, self._constants, config)
        config = plain_config({**self._constants, **config})
        args = called("args", self._args, config) if callable(self._args) else self._args
        meta = {**args, **config} if isinstance(args, Mapping) else config
        kernel = self._kernel
        if makes(kernel):
            kernel, args, config = made(kernel, args, config)
        if isinstance(kernel, Binary):
            return kernel
        if (module := front_end(kernel)) is None:
            raise ConfigError(f"carver cannot compile {shown(kernel)}: {KNOWN}")
        block = called("the block", self._block, meta) if callable(self._block) else self._block
        grid = called("the grid", self._grid, meta) if callable(self._grid) else self._grid
        binary: Binary = module.binary(kernel, config, args=args, grid=grid, block=block, arch=self._arch)
        _of_arguments(held(self._values, config), {*binary.names, *(args if isinstance(args, Mapping) else ())})
        return binary

    def programs(self, config: Mapping[str, Any]) -> float:
        """Of the grid, known without compiling; 1 where it is not."""
        if not callable(self._grid):
            return 1.0
        known = {**(self._args if isinstance(self._args, Mapping) else {}), **self._constants, **config}
        sizes = called("the grid", self._grid, known)
        return float(prod(sizes if isinstance(sizes, Sequence) else [sizes]))

    def facts(self, configs: Sequence[Mapping[str, Any]], seconds: float) -> list[Facts | CarverError]:
        make = lambda place: self.binary(configs[place])  # noqa: E731
        return facts_of(make, range(len(configs)), self._arch, _at(self._values, configs), seconds=seconds, **self._how)


def rank_made(
    name: str, arch: Arch, configs: Sequence[Mapping[str, Any]], make: Callable[[int], Binary], *, backend: str
) -> Ranking:
    """Rank what `make` gives for each place while somebody waits: what compiles far longer is given up."""
    return ranked(
        name, arch, configs, [[i] for i in range(len(configs))], in_turns(len(configs), cores_available()),
        lambda some: facts_of(make, some, arch, hurry=True), backend=backend,
    )  # fmt: skip


def evaluated(binaries: Sequence[Binary], arch: Arch, values: Mapping[str, Any] | None = None) -> list[Facts]:
    """`facts_of_binary` of each, disassembled in one go. Raises ProblemError where not one access to a kernel's tensors
    could be followed, as through tensor maps that a kernel makes itself: what is known then is no basis for a ranking.
    Facts are kept: a launch is followed once, until its code, its arguments or what tensors hold change."""
    keys = [pool.binary_key(binary, arch) for binary in binaries]
    kept = pool.load_facts(keys, pool.Used(values or {}))
    missing = {key: binary for key, binary in zip(keys, binaries, strict=True) if key not in kept}
    for (key, binary), code in zip(missing.items(), codes([*missing.values()], arch), strict=True):
        used = pool.Used(values or {})
        kept[key] = facts_of_binary(binary, arch, used, code)
        pool.save_facts(key, kept[key], used)
    for key, binary in zip(keys, binaries, strict=True):
        tensors = any(isinstance(each, Tensor | TensorMap | Struct) for each in binary.args)
        if tensors and not kept[key].read_bytes and not kept[key].written_bytes:
            if not any(" global " in kind for span in kept[key].spans for kind in span.accesses):
                raise ProblemError(f"{binary.entry} has no load and no store that a thread reaches: "
                                   "is a size 0, or does an #if leave out what it does?")  # fmt: skip
            raise ProblemError(f"carver cannot follow how {binary.entry} reaches its tensors")
    return [kept[key] for key in keys]


def _known(values: Values) -> Mapping[str, Any]:
    """What tensors hold in every configuration."""
    return {} if callable(values) else values or {}


def _at(values: Values, configs: Sequence[Any]) -> Values:
    """The same of places in a list of configurations."""
    return (lambda place: held(values, configs[place])) if callable(values) else values


def _of_arguments(values: Mapping[str, Any], names: Collection[str]) -> None:
    """Raises ConfigError for values of what is no argument."""
    for name in values:
        if name not in names:
            raise ConfigError(f"values are of tensors among the arguments, got {name!r}: {nearest(name, names)}")


def _told(reply: Reply) -> list[Facts | CarverError]:
    if "error" in reply:
        raise ConfigError(reply["error"])
    if "refused" in reply:
        return [CompileError(reply["refused"])]
    return [ProblemError(reply["lost"])] if "lost" in reply else [pool.facts_from(each) for each in reply["facts"]]


@takes(ConfigError, besides="^(kernel|config|args|grid|block)$")
def inspect(
    kernel: Any, *, arch: Arch | str | os.PathLike[str], args: Any = None, config: Any = None, grid: Any = None,
    block: Any = None, constants: Mapping[str, Any] | None = None, values: Values = None,
) -> Facts | tuple[CodeFacts, ...]:  # fmt: skip
    """Compile one configuration of a kernel for one device, which need not be in the machine, and report on the result:
    loops with their passes, what they touch, pipes, spills.

    `kernel` and the rest as `rank_kernel` takes them, with one `config`. A `carver.Kernel` without `args`, and a hint
    of carver's own CUDA kernels, give a `CodeFacts` for each function, which does not say how often its loops run.
    Raises CompileError if the compiler refuses, DeviceError without a device.
    """
    device = load(arch)
    if isinstance(kernel, Hint | HintKernel) or (isinstance(kernel, Kernel) and args is None):
        if given := next((name for name, value in (("args", args), ("config", config)) if value), None):
            raise ConfigError(f"{given}= belongs to Triton functions, got {shown(kernel)}: a source has its defines")
        return functions(HintKernel(kernel) if isinstance(kernel, Hint) else kernel, device)
    if not isinstance(kernel, Binary) and not makes(kernel) and front_end(kernel) is None:
        one = candidate(kernel, config or {}, args or {}, (1,) if grid is None else grid, device, constants, values)
        [facts] = triton_facts({0: one}, device)
        if isinstance(facts, CarverError):
            raise facts
        return facts
    made = Made(kernel, {} if args is None else args, grid, block, device, constants)
    return evaluated([made.binary(plain_config(config or {}))], device, held(values, config))[0]


def inner_of(kernel: Any) -> Any:
    """The Python function under a language's object, where there is one."""
    while (within := next((n for n in _WITHIN if getattr(kernel, n, None) is not None), None)) is not None:
        kernel = getattr(kernel, within)
    return kernel


_WITHIN = ("jit_impl", "func", "py_func", "fn", "_pyfunc", "orig_func")
"""Attributes by which the objects of languages keep what they decorate."""


def name_of(kernel: Any) -> str:
    """What a ranking calls it."""
    if isinstance(kernel, Kernel):
        return kernel.name
    inner = inner_of(kernel)
    return str(getattr(inner, "__name__", None) or type(inner).__name__)


def source_of(kernel: Any) -> str:
    """A hash of a kernel's source, of which alone measurements say something; of its name where there is no source."""
    if isinstance(kernel, Kernel):
        text = repr((kernel.source, kernel.entry, sorted(kernel.defines.items())))
    else:
        try:
            text = getsource(inner_of(kernel))
        except (OSError, TypeError):
            text = name_of(kernel)
    return sha256(text.encode()).hexdigest()


def language_of(kernel: Any, arch: Arch) -> str:
    """The language of an object; "function" for one that makes kernels."""
    if isinstance(kernel, Kernel):
        return "hip" if arch.vendor == "amd" else "cuda"
    module = front_end(kernel)
    return "function" if module is None else module.__name__.rpartition(".")[2]


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
    if parts[0] == "triton":  # a function, or its tuner and heuristics around one
        with suppress(ConfigError):
            return _module("gluon") if getattr(function_of(kernel), "is_gluon", bool)() else None
    return None


def _module(name: str) -> ModuleType:
    return import_module(f".{name}", __package__)


KNOWN = (
    "a kernel is a function of Triton or Gluon, of TileLang, CuTe DSL, cuTile, Numba or Warp, a carver.Kernel, a "
    "carver.Binary, or a function of a configuration that makes one of these"
)


def makes(kernel: Any) -> bool:
    """Whether it is a function that makes kernels, and no kernel."""
    return isinstance(kernel, FunctionType) and front_end(kernel) is None


def made(function: Callable[..., Any], args: Any, config: Mapping[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """What a function makes of a configuration, and the arguments and entries that it did not take. Raises CompileError
    where it fails: a configuration may be one that it cannot have."""
    named = dict(args) if isinstance(args, Mapping) else {}
    known = {**named, **config}
    parameters = signature(function).parameters
    told = {k for k, v in named.items() if not isinstance(v, Tensor)} | config.keys()
    whole = len(parameters) == 1 and not parameters.keys() & told
    every = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    taken = {k: v for k, v in known.items() if k in parameters or (every and k in config)}
    with compiling():
        kernel = function(dict(config)) if whole else function(**taken)
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


TOPK, HINTS = 10, 8
"""Configurations that are measured by default, and hints of a template that a search starts from."""
Measure = Callable[[Mapping[str, Any]], float | None]


@takes(ConfigError, besides="^(kernel|space|args|grid|block|seeds|measure|told)$")
def search(
    kernel: Any, space: Any, *, args: Any = None, arch: Arch | str | os.PathLike[str], grid: Any = None,
    block: Any = None, constants: Mapping[str, Any] | None = None, values: Values = None,
    seeds: Any = (), budget_s: float | None = None, most: int = MOST, patience: int = PATIENCE, seed: int = 0,
    topk: int = TOPK, measure: Measure | None = None, processes: int | None = None, seconds: float = SECONDS,
    progress: bool | None = None, told: Callable[[Search], None] | None = None,
) -> Ranking:  # fmt: skip
    """Search a space for the configurations with the shortest predicted times, and compile only a few of it.

    - `kernel`, `args`, `grid`, `block`, `constants`, `values`, `processes`, `seconds`: as `rank_kernel` takes them.
    - `space`: a dict of lists, a `carver.SearchSpace` with conditions, or configurations in any iterable: a generator,
      the list of a tool. Or an object with `candidates` and `member` (`carver.ranking.search.Space`).
    - `seeds`: configurations to begin with, or a template of the operator, whose hints are. A value that the space does
      not have becomes the nearest that it has.
    - It ends after `budget_s` seconds, when `most` are compiled, after `patience` without a gain, or when the space has
      no other. Equal seeds give equal searches; a search with more to spend goes on from the store.
    - `measure`: the time of a configuration on the device, in ms, None where it does not run. The first `topk` are
      measured and learnt from, then what that makes the first, until the first of the ranking was measured.
    - `told`: is given the search so far after each few.

    Returns a ranking of what was compiled, with `ranking.search`: each step, the best so far against what was compiled
    and seconds, why it ended, `plot()`. Interrupted, it returns what it has. Raises ConfigError for what fits no
    configuration, NoCandidates if none compiles and fits.
    """
    device = load(arch)
    for name, value in (("most", most), ("patience", patience), ("topk", topk)):
        counted(name, value, 1)
    for name, each in (("seconds", seconds), ("budget_s", budget_s)):
        if each is not None:
            number(name, each, ConfigError)
    args, constants = {} if args is None else args, constants or {}
    members: Space = space if hasattr(space, "candidates") and hasattr(space, "member") else Choices.of(space)
    kernels: Kernels
    if not makes(kernel) and front_end(kernel) is None:
        kernels = _Triton(kernel, args, grid, constants, values, device, processes)
    else:
        kernels = Made(kernel, args, grid, block, device, constants, values, processes)
    with progress_bars(is_watched() if progress is None else progress, transient=True) as bars:
        step, drawn = bars.bar("searching", most), 0

        def each_batch(so_far: Search) -> None:
            nonlocal drawn
            for _ in so_far.steps[drawn:]:
                step()
            drawn = len(so_far.steps)
            if told is not None:
                told(so_far)

        ranking = searched(
            kernels, members, device, seeds=_seeds(seeds, device), most=most, patience=patience, seed=seed,
            budget_s=math.inf if budget_s is None else budget_s, seconds=seconds, told=each_batch,
        )  # fmt: skip
    return ranking if measure is None else measured(ranking, measure, topk)


def measured(ranking: Ranking, measure: Measure, topk: int) -> Ranking:
    """The ranking after its first were measured: `topk` of them, then whatever comes first by what they taught. An
    interrupt ends that, and what was measured counts."""
    times: dict[int, float | None] = {}
    wanted, most = list(ranking[:topk]), 2 * topk
    while wanted:
        new: dict[int, float | None] = {}
        try:
            new.update((hint.index, measure(hint.config)) for hint in wanted)
        except KeyboardInterrupt:
            most = 0
        times |= new
        ranking = ranking.learn(new) if new else ranking
        wanted = [hint for hint in ranking[:1] if hint.index not in times and len(times) < most]
    assert ranking.search is not None
    return replace(ranking, search=replace(ranking.search, measured_ms=times))


def _seeds(seeds: Any, arch: Arch) -> list[Config]:
    """Configurations to begin with; hints of a template under all names that their keys go by."""
    if isinstance(seeds, Template):
        hints = (seeds if seeds.arch else seeds.with_arch(arch)).recommend_hints(HINTS, backend="triton")
        aliases = BACKENDS[hints.backend].aliases
        return [
            {name: value for key, value in hint.config.items() for name in (key, *aliases.get(key, ()))}
            for hint in hints
        ]  # fmt: skip
    if isinstance(seeds, str | Mapping) or not isinstance(seeds, Iterable):
        raise ConfigError(f"seeds are configurations in a list, or a template, got {shown(seeds)}")
    return [dict(each) for each in seeds]


class _Triton:
    """Facts of configurations of a `triton.jit` function."""

    backend = "triton"

    def __init__(
        self, kernel: Any, args: Any, grid: Any, constants: Mapping[str, Any], values: Values, arch: Arch,
        processes: int | None,
    ) -> None:  # fmt: skip
        function = function_of(kernel)
        self.name, self.source = function.__name__, function.cache_key
        self.arguments = described({} if callable(args) else {**args, **constants}, _known(values))
        self._kernel, self._args, self._grid, self._constants = kernel, args, grid, constants
        self._values, self._arch, self._processes = values, arch, processes

    def _bound(self, config: Config) -> Candidate:
        args = called("the function args", self._args, config) if callable(self._args) else self._args
        return candidate(self._kernel, config, args, self._grid, self._arch, self._constants, self._values)

    def programs(self, config: Config) -> float:
        return math.prod(self._bound(config).grid)

    def facts(self, configs: Sequence[Config], seconds: float) -> list[Facts | CarverError]:
        bound = dict(enumerate(map(self._bound, configs)))
        how: dict[str, Any] = {"processes": self._processes, "seconds": seconds}
        try:
            return triton_facts(bound, self._arch, **how)
        except ProblemError as lost:  # of none of these can the program be followed; of others it may be
            return [lost] * len(configs)
