"""Rank candidates, and present the result: a sequence of hints that knows what it was chosen from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, ClassVar, overload

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import ConfigError, NoCandidates
from ..base.types import FloatArray
from ..cost.estimate import LIMITERS
from ..cost.occupancy import LIMITS, occupancy_limits
from ..cost.pricing import Priced, price, roofline_seconds
from ..cost.tile import peak
from ..kernels.declaration import Kernel, every, kernels
from ..kernels.foreign import adopt
from ..kernels.space import Space, enumerate_space, given_space, instructions, multiply_dtype, plain, static_scope
from ..problem.problem import Problem, counted
from .hint import Hint, Launch, NoRasterization, Rasterization2DColumn, RasterizationPlan
from .uncertainty import trust

RUNS_ON = {
    "cuda": ("nvidia",), "kernel_tuner": ("nvidia",), "kernel_tuner_hip": ("amd",), "tensile": ("amd",),
    "triton": ("nvidia", "amd"), "tilelang": ("nvidia", "amd"),
}  # fmt: skip
"""Vendors of the devices that a backend's kernels run on; any, where it is not said. On others tiles are advice."""
NEEDS_VOLTA = ("triton", "tilelang")
"""Backends that compile for compute capability 7.0 and later only."""
FULL_RATE = 0.95
"""Kernels that reach this share of the fastest unit's rate are taken to use it."""


@dataclass(frozen=True, eq=False)
class Ranking(Sequence[Hint]):
    """Hints, best first. Prints as a table; hints are made when they are looked at.

    Indices count from 0, as in any sequence: `hints[0]`, `hints.explain(0)`. What is shown and exported as the rank
    counts from 1: `hints[0].rank` is 1.

    `rejected` counts the candidates that each rule removed; `reasons` maps the place of a rejected
    configuration of the user's to the rule that it breaks.
    """

    problem: Problem
    arch: Arch
    backend: str
    parts: tuple[Priced, ...]
    order: tuple[tuple[int, int], ...]
    """(part, row) of each hint."""
    rejected: Mapping[str, int]
    reasons: Mapping[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    given: int = 0
    """How many configurations the user gave; 0 where carver chose among its own."""

    def __len__(self) -> int:
        return len(self.order)

    @overload
    def __getitem__(self, i: int) -> Hint: ...
    @overload
    def __getitem__(self, i: slice) -> Ranking: ...
    def __getitem__(self, i: int | slice) -> Hint | Ranking:
        if isinstance(i, slice):
            return replace(self, order=self.order[i])
        place = range(len(self.order))[i]
        part, row = self.order[place]
        return make_hint(self.parts[part], row, place + 1, self.backend, self.notes)

    def __iter__(self) -> Iterator[Hint]:
        return (self[i] for i in range(len(self)))

    @property
    def candidates(self) -> int:
        """How many candidates were priced."""
        return sum(len(part.space) for part in self.parts)

    @property
    def indices(self) -> list[int]:
        """Places of the ranked configurations in the list that was given, best first."""
        return [int(self.parts[part].space.index[row]) for part, row in self.order]

    @property
    def seconds(self) -> FloatArray:
        """Predicted times, best first. [s]"""
        return np.array([self.parts[part].estimate.seconds[row] for part, row in self.order])

    # What `carver._methods` adds; the functions stand in the layers that they are named after.
    explain: ClassVar[Callable[..., Any]]
    benchmark: ClassVar[Callable[..., Any]]
    plot: ClassVar[Callable[..., Any]]
    plot_roofline: ClassVar[Callable[..., Any]]
    plot_heatmap: ClassVar[Callable[..., Any]]
    to_frame: ClassVar[Callable[..., Any]]
    to_triton: ClassVar[Callable[..., list[Any]]]
    to_tilelang: ClassVar[Callable[..., list[dict[str, Any]]]]
    to_kernel_tuner: ClassVar[Callable[..., dict[str, Any]]]
    to_helion: ClassVar[Callable[..., list[Any]]]
    to_optuna: ClassVar[Callable[..., int]]
    to_cutlass: ClassVar[Callable[..., list[dict[str, Any]]]]
    to_json: ClassVar[Callable[..., str]]
    to_csv: ClassVar[Callable[..., str]]


def recommend(
    problem: Problem, arch: Arch, topk: int = 10, backend: str | None = None, *, advised: bool = True
) -> Ranking:
    """The `topk` fastest candidates of carver's own space for a backend, by the model.

    With `advised=False` of all that can run, those that a kernel's [avoid] leaves out among them.
    Raises NoCandidates when no kernel can run the problem on the device.
    """
    topk = counted("topk", topk, 1)
    backend = backend or default_backend(problem, arch)
    parts: list[Priced] = []
    removed: Counter[str] = Counter()
    offered, notes = offered_kernels(problem, arch, backend)
    if not advised:
        offered = tuple(replace(kernel, avoid={}) for kernel in offered)
    for kernel in offered:
        try:
            space = enumerate_space(problem, arch, kernel)
        except NoCandidates as none:
            removed.update(none.removed)
            continue
        removed.update(space.removed)
        parts.append(Priced(space, *price(space)))
    if not parts:
        avoided = {why for kernel in offered for why in kernel.avoid}  # what can never run is told first
        told = dict(sorted(removed.items(), key=lambda item: item[0] in avoided))
        raise NoCandidates(f"{problem} with backend {backend!r} on {arch.name}", told)
    return Ranking(problem, arch, backend, tuple(parts), _best(parts, topk), dict(removed), {}, notes)


def rank(problem: Problem, arch: Arch, configs: Iterable[Mapping[str, Any] | Hint], backend: str = "triton") -> Ranking:
    """The user's own configurations in the order of their predicted times.

    Raises ConfigError for a configuration that is not one of the backend's, NoCandidates when none can run.
    """
    if isinstance(configs, Mapping | str) or not isinstance(configs, Iterable):
        raise ConfigError(f"rank takes a list of configurations, got {type(configs).__name__}")
    given = [config if isinstance(config, Hint) else adopt(config, backend) for config in configs]
    offered, notes = offered_kernels(problem, arch, backend)
    parts: list[Priced] = []
    reasons: dict[int, str] = {}
    for kernel, places in by_kernel(given, offered).items():
        space, why = given_space(problem, arch, kernel, [tunables_of(given[i]) for i in places])
        reasons |= {places[i]: reason for i, reason in why.items()}
        if len(space):
            space = replace(space, index=np.asarray(places)[space.index])
            parts.append(Priced(space, *price(space)))
    if not given:
        raise ConfigError(f"no configurations given to rank for {problem}")
    rejected = Counter(reasons.values())
    if not parts:
        raise NoCandidates(f"{problem} with backend {backend!r} on {arch.name}", rejected)
    order = _best(parts, len(given))
    return Ranking(problem, arch, backend, tuple(parts), order, dict(rejected), reasons, notes, len(given))


def own_backend(arch: Arch, operator: str = "matmul") -> str:
    """carver's own kernels where it has some for the operator and the vendor, else those of the first tool that has."""
    if arch.kind == "cpu":
        return "cpu"
    preferred = ("triton", "kernel_tuner_hip", "cuda") if arch.vendor == "amd" else ("cuda", "triton", "kernel_tuner")
    there = {kernel.backend for kernel in every(operator)}
    return next((backend for backend in preferred if backend in there), "triton")


def default_backend(problem: Problem, arch: Arch) -> str:
    """carver's own kernels, unless they cannot run the problem as it is spelt or leave the fastest unit idle.

    Tiles for Triton are then the better advice, but where Triton copies operands element by element: that mostly
    costs more than the unit gains.
    """
    return _default_backend(problem.sizeless, arch)


@lru_cache(maxsize=256)
def _default_backend(problem: Problem, arch: Arch) -> str:
    own = own_backend(arch, problem.operator)
    scope = static_scope(problem, arch)
    meets = [k for k in every(problem.operator) if not k.unmet(scope)]
    runs = [k for k in meets if k.backend == own]
    tiles = [k for k in meets if k.backend == "triton"]
    if own != "cuda" or not tiles:
        return own
    if not (plain(problem) and runs):
        return "triton"
    enough = unit_share(problem, arch, runs) >= min(FULL_RATE, unit_share(problem, arch, tiles))
    return own if enough or copied_singly(problem, arch, tiles) else "triton"


def offered_kernels(problem: Problem, arch: Arch, backend: str) -> tuple[tuple[Kernel, ...], tuple[str, ...]]:
    """The kernels of a backend that this problem and device meet the requirements of, and what to tell the user."""
    offered, notes = _offered(problem.sizeless, arch, backend)
    if not offered:
        scope = static_scope(problem, arch)
        raise NoCandidates(
            f"{problem} with backend {backend!r} on {arch.name}",
            {f"{k.title} requires that {why}": 1 for k in kernels(problem.operator, backend) for why in k.unmet(scope)},
        )
    if problem.compulsory_bytes > arch.dram_bytes:
        needs, has = (f"{n / 1e9:,.4g} GB" for n in (problem.compulsory_bytes, arch.dram_bytes))
        notes = (f"the tensors take {needs}, the memory of {arch.title} is {has}: predicted as if they fitted", *notes)
    return offered, notes


@lru_cache(maxsize=256)
def _offered(problem: Problem, arch: Arch, backend: str) -> tuple[tuple[Kernel, ...], tuple[str, ...]]:
    scope = static_scope(problem, arch)
    declared = kernels(problem.operator, backend)
    if declared[0].device_kind != arch.kind:
        others = sorted({k.backend for k in every(problem.operator) if k.device_kind == arch.kind})
        what = f"backend {backend!r} is for a {declared[0].device_kind.upper()}, {arch.title} is a {arch.kind.upper()}"
        has = ", ".join(map(repr, others)) or "no backend"
        raise ConfigError(f"{what}; for it, {problem.operator} has {has}")
    offered = tuple(kernel for kernel in declared if not kernel.unmet(scope))
    notes = []
    too_old = backend in NEEDS_VOLTA and arch.cc is not None and arch.cc < (7, 0)
    if too_old or arch.vendor not in RUNS_ON.get(backend, (arch.vendor,)):
        whose = "carver's CUDA" if backend == "cuda" else f"{backend}'s"
        notes.append(f"{whose} kernels do not run on {arch.title}: take the tiles as advice")
    contracts = any("instruction" in kernel.schedule for kernel in offered)
    if contracts and not scope["matrix"]:
        notes.append(f"{arch.title} has no matrix instruction for {multiply_dtype(problem)}: vector units are used")
    if odd := copied_singly(problem, arch, offered):
        what = " and ".join(odd)
        notes.append(f"Triton copies {what} element by element: pad rows to multiples of 16, or see static_shapes")
    if (share := unit_share(problem, arch, offered)) < FULL_RATE:
        rate = f"{arch.title}'s rate for {multiply_dtype(problem)}"
        notes.append(f"at most {share:.0%} of {rate}: none of these kernels issues its fastest instruction")
    return offered, tuple(notes)


def copied_singly(problem: Problem, arch: Arch, offered: Sequence[Kernel]) -> list[str]:
    """The inputs that kernels of Triton copy element by element, because 16 does not divide a stride."""
    scope = static_scope(problem, arch)
    reads = any("by_16_a" in column.names for kernel in offered for column in kernel.schedule.values())
    odd = [t.name for t in problem.statement.inputs if not scope[f"by_16_{t.name.lower()}"]]
    return odd if reads and not scope["static_shapes"] else []


def unit_share(problem: Problem, arch: Arch, offered: Sequence[Kernel]) -> float:
    """Rate of the fastest arithmetic instruction that these kernels can issue, over that of the device's fastest.

    1 for problems that no matrix instruction is for.
    """
    used = {kind for kernel in offered for kind in instructions(problem, arch, kernel)}
    if not static_scope(problem, arch)["matrix"] or not used:
        return 1.0
    fastest = max(peak(problem, arch, kind) for kind in range(4))
    return max(peak(problem, arch, kind) for kind in used) / fastest


def by_kernel(given: Sequence[Mapping[str, Any] | Hint], offered: Sequence[Kernel]) -> dict[Kernel, list[int]]:
    """The places of the configurations that belong to each kernel, for the kernels that have any."""
    places: dict[Kernel, list[int]] = {}
    for i, config in enumerate(given):
        places.setdefault(_owner(config, i, offered), []).append(i)
    return places


def _owner(config: object, place: int, offered: Sequence[Kernel]) -> Kernel:
    """The kernel that a configuration names (a hint does; a dict may, by `kernel`), else whose vocabulary it speaks."""
    name = config.kernel if isinstance(config, Hint) else config.get("kernel") if isinstance(config, Mapping) else None
    if name is not None:
        for kernel in offered:
            if kernel.name == name:
                return kernel
        names = ", ".join(k.name for k in offered)
        raise ConfigError(f"configuration {place} is for kernel {name!r}; this problem and device take {names}")
    if isinstance(config, Mapping):
        for kernel in offered:
            if _speaks(config, kernel):
                return kernel
        backend = offered[0].backend
        others = {k.backend: k for k in every(offered[0].operator) if k.backend != backend and _speaks(config, k)}
        if others:
            other = min(others)
            raise ConfigError(
                f"configuration {place} has the keys of backend {other!r} and not of {backend!r}: "
                f"{', '.join(map(str, config))}; ask with --backend {other}, in Python backend={other!r}"
            )
    return offered[0]


def _speaks(config: Mapping[str, Any], kernel: Kernel) -> bool:
    return kernel.tunables.keys() - kernel.defaults.keys() <= config.keys() <= kernel.tunables.keys()


def tunables_of(config: Any) -> Any:
    """A configuration without the name of its kernel."""
    if isinstance(config, Hint):
        return config.config
    return {k: v for k, v in config.items() if k != "kernel"} if isinstance(config, Mapping) else config


def _best(parts: Sequence[Priced], topk: int) -> tuple[tuple[int, int], ...]:
    """(part, row) of the fastest. Equal times: less shared memory first, then fewer warps, then smaller tunables."""
    seconds = np.concatenate([part.estimate.seconds for part in parts])
    owner = np.repeat(np.arange(len(parts)), [len(part.space) for part in parts])
    rows = np.concatenate([np.arange(len(part.space)) for part in parts])
    if topk < len(seconds):
        keep = np.flatnonzero(seconds <= np.partition(seconds, topk - 1)[topk - 1])
        seconds, owner, rows = seconds[keep], owner[keep], rows[keep]

    smem, warps, place = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows), int)
    for number, part in enumerate(parts):
        mine = np.flatnonzero(owner == number)
        columns, at = part.space.columns, rows[mine]
        smem[mine] = columns["smem_bytes"][at] if "smem_bytes" in columns else 0
        warps[mine] = part.work.warps[at]
        if part.space.kernel.tunables:
            tunables = [columns[t][at] for t in reversed(list(part.space.kernel.tunables))]
            place[mine[np.lexsort(tunables)]] = np.arange(len(mine))
    order = np.lexsort((place, owner, warps, smem, seconds))[:topk]
    return tuple((int(owner[i]), int(rows[i])) for i in order)


def make_hint(part: Priced, row: int, rank: int, backend: str, notes: tuple[str, ...] = ()) -> Hint:
    """The hint of one candidate."""
    space, work, est = part.space, part.work, part.estimate
    arch, problem, kernel = space.arch, space.problem, space.kernel
    col = partial(space.at, row)
    warps = int(work.warps[row])
    smem_bytes, registers = col("smem_bytes", 0), col("registers", 0)
    threads = col("threads", warps * arch.warp_size)
    limits = occupancy_limits(
        arch, np.array([float(warps)]), np.array([float(smem_bytes)]), np.array([float(registers)])
    )
    if arch.kind == "gpu":  # the compiler spills what is more
        registers = min(registers, arch.max_regs_per_thread, arch.regs_per_block // threads)
    limited_by = LIMITS[int(np.argmin([limit[0] for limit in limits]))]
    split, group = col("split", 1), col("group", 1)
    kind = col("instruction", 0)
    contraction = problem.contracts
    axes = ("tile_m", "tile_n") if contraction else ("tile_r", "tile_c")
    block = tuple(col(axis, 1) for axis in axes)
    grid_of_warps = (col("warps_m", 1), col("warps_n", 1))
    warp = tuple(max(1, size // count) for size, count in zip(block, grid_of_warps, strict=True)) if kind else ()
    thread: tuple[int, ...] = () if kind else (threads,)
    if not kind and "thread_m" in space.columns:
        thread = (col("thread_m", 1), col("thread_n", 1))
    rstep = (col("tile_k", 1),) if problem.statement.reduced else ()
    plan: RasterizationPlan = Rasterization2DColumn(group) if contraction and group > 1 else NoRasterization
    inputs = [t.name for t in problem.statement.inputs]
    trusted = trust(kernel, arch, multiply_dtype(problem))
    terms = {name: float(t[row]) * 1e3 for name, t in est.terms.items()}
    seconds = float(est.seconds[row])
    details = {name: float(np.broadcast_to(v, len(work))[row]) for name, v in work.facts.items()}
    details |= {
        "waves": float(est.waves[row]),
        "blocks_per_sm": float(work.resident[row]),
        "occupancy": min(1.0, float(work.resident[row] * warps / arch.max_warps_per_sm)),
        "steps": float(work.steps[row]),
        "tflops": problem.flops / seconds / 1e12,
        "roofline_share": roofline_seconds(problem, arch) / seconds,
    }
    return Hint(
        rank=rank, index=int(space.index[row]), backend=backend, kernel=kernel.name, arch=arch.name, problem=problem,
        config=space.config(row), predicted_ms=seconds * 1e3, terms_ms=terms,
        bound=_bound(terms, LIMITERS[int(est.limiter[row])]),
        launch=Launch(_grid(part, row, split), threads, smem_bytes, registers),
        block=block, warp=warp, thread=thread, rstep=rstep, reduce_thread=(col("reduce_threads", 1),),
        num_warps=warps, pipeline_stage=col("stages", col("ahead", 1) + 1) if contraction else 1,
        use_async=bool(col("async_copies", 0)), use_tc=kind > 0, vectorize=_vectorize(space, row),
        rasterization_plan=plan, split_k=split, cluster=(1, 1, 1),
        cached_tensors=tuple(inputs[:2]) if contraction and smem_bytes else (), details=details, limited_by=limited_by,
        band_ms=trusted.band_ms(seconds * 1e3), calibrated=trusted.text, notes=notes,
    )  # fmt: skip


def _bound(terms: Mapping[str, float], loop: str) -> str:
    """The largest term; of the main loop, which the tail wave is part of, what bounds that."""
    largest = max(terms, key=terms.__getitem__)
    in_loop = terms["main loop"] + terms["tail wave"] >= 0.5 * sum(terms.values())
    return loop if in_loop or largest in ("main loop", "tail wave") else largest


def _vectorize(space: Space, row: int) -> dict[str, int]:
    """Elements that one instruction moves of each input."""
    problem = space.problem
    inputs = [t.name for t in problem.statement.inputs]
    if "access_elements" in space.columns:
        copies = {name: space.at(row, "access_elements", 1) * problem.itemsize(name) for name in inputs}
    else:
        copies = {name: space.at(row, f"copy_{x}_bytes", 16) for name, x in zip(inputs, "ab", strict=False)}
    return {name: max(1, min(n, problem.align_bytes[name]) // problem.itemsize(name)) for name, n in copies.items()}


def _grid(part: Priced, row: int, split: int) -> tuple[int, int, int]:
    """Blocks of the first launch as its declaration deals them out; of another tool's kernel, tiles by parts."""
    launches = part.space.kernel.launches
    if not launches:
        return int(part.work.grid[row]) // max(split, 1), split, 1
    env = {**part.space.scope, **{name: int(column[row]) for name, column in part.space.columns.items()}}
    x, y, z = (*(int(extent(env)) for extent in launches[0].grid), 1, 1)[:3]
    return x, y, z
