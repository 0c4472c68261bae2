"""Rankings of a problem: of carver's own candidates, for which there are kernels; and of the user's configurations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import ConfigError, KernelError, NoCandidates, nearest
from ..base.given import takes
from ..cost.model import Priced, catalogue, in_order, price
from ..cost.tile import peak
from ..kernels.backends import BACKENDS, adopt, listed, preferred, renamed
from ..kernels.declaration import Kernel, backends, every, kernel_named, kernels
from ..kernels.enumeration import instructions
from ..kernels.expr import matrix_unit, multiply_dtype, plain, static_scope
from ..kernels.space import Broken, given_space, misses
from ..problem.problem import Problem
from .declared import Declared
from .hint import Hint
from .ranking import Ranking

if TYPE_CHECKING:
    from .profile import Given

RECONSIDERED = 200
"""Number of candidates that a profile reorders: the fastest by the model alone."""
TILES = "triton"
"""Backend to advise if carver's own kernels cannot run, or leave the fastest arithmetic unit idle."""
FULL_RATE = 0.95
"""Kernels that can reach this share of the fastest unit's rate count as using it."""


def recommend(
    problem: Problem, arch: Arch, topk: int = 10, backend: str | None = None, *, advised: bool = True,
    kernel: str | None = None, profile: Given | None = None,
) -> Ranking:  # fmt: skip
    """The `topk` fastest candidates of carver's own space for a backend, by the model.

    `kernel` names the one kernel of the operator that is looked at, whatever its backend. With `advised=False` of all
    that can run, those that a kernel's [avoid] leaves out among them. With a `profile`, what was learnt before, they
    are the best of the RECONSIDERED fastest by the model alone. Raises NoCandidates
    when no kernel can run the problem on the device.
    """
    return recommend_problems([problem], arch, topk, backend, advised=advised, kernel=kernel, profile=profile)[0]


@lru_cache(maxsize=256)
def _asked(
    problem: Problem, arch: Arch, backend: str | None, kernel: str | None, advised: bool
) -> tuple[str, tuple[Kernel, ...], tuple[str, ...]]:
    """The backend that `recommend` answers for, its kernels that are looked at, and notes for the user."""
    only = kernel_named(problem.operator, kernel) if kernel else None
    chosen = only.backend if only else backend or default_backend(problem, arch)
    offered, notes = _offered(problem, arch, chosen)
    offered = tuple(each for each in offered if only in (None, each))
    return chosen, offered if advised else tuple(replace(each, avoid={}) for each in offered), notes


def recommend_problems(
    problems: Sequence[Problem], arch: Arch, topk: int = 10, backend: str | None = None, *, advised: bool = True,
    kernel: str | None = None, profile: Given | None = None,
) -> list[Ranking]:  # fmt: skip
    """`recommend` for each problem, in the given order; those that differ in sizes alone are looked at together."""
    wanted = topk if profile is None else max(topk, RECONSIDERED)
    alike: dict[Problem, list[int]] = {}
    for place, problem in enumerate(problems):
        alike.setdefault(problem.sizeless, []).append(place)
    out: dict[int, Ranking] = {}
    for sizeless, places in alike.items():
        some = [problems[place] for place in places]
        chosen, offered, notes = _asked(sizeless, arch, backend, kernel, advised)
        if not offered:
            offered_kernels(some[0], arch, chosen)  # says why there is none
            assert kernel is not None
            only = kernel_named(sizeless.operator, kernel)
            raise _none_offered(f"{some[0]} with kernel {kernel!r}", some[0], arch, [only])
        out |= zip(places, _recommend(some, arch, wanted, chosen, offered, notes), strict=True)
    every = [out[place] for place in range(len(problems))]
    return every if profile is None else [_recalled(ranking, profile)[:topk] for ranking in every]


def _recommend(
    problems: Sequence[Problem], arch: Arch, topk: int, backend: str, offered: tuple[Kernel, ...],
    notes: tuple[str, ...],
) -> Iterator[Ranking]:  # fmt: skip
    """`recommend` with the given kernels, of problems that differ in sizes alone."""
    answers = catalogue(offered, arch, problems[0].sizeless).fastest(problems, topk)
    for problem, answer in zip(problems, answers, strict=True):
        if not answer.candidates:
            avoided = {why for kernel in offered for why in kernel.avoid}  # listed after rules that can never be met
            told = dict(sorted(answer.removed().items(), key=lambda item: item[0] in avoided))
            missed = {why: said for kernel in offered for why, said in misses(problem, arch, kernel).items()}
            what = f"{problem} with backend {backend!r} on {arch.name}"
            raise NoCandidates(what, told, missed, _able(problem, arch, backend))
        table = Declared(problem, arch, backend, answer.parts, (*of_sizes(problem, arch), *notes))
        yield Ranking(table, answer.order(topk), answer.candidates, answer.removed)


def _able(problem: Problem, arch: Arch, besides: str) -> list[str]:
    """The other backends whose kernels run on the device and have a candidate for the problem."""
    able = []
    for name in sorted(set(backends(problem.operator).values()) - {besides}):
        offered = _offered(problem.sizeless, arch, name)[0] if BACKENDS[name].runs_on(arch) else ()
        if offered and next(iter(catalogue(offered, arch, problem.sizeless).fastest([problem], 1))).candidates:
            able.append(name)
    return able


def _recalled(ranking: Ranking, profile: Given) -> Ranking:
    from .surrogate import with_profile  # few rankings have a profile

    return with_profile(ranking, profile)


def own_backend(arch: Arch, operator: str = "matmul") -> str:
    """carver's own backend for the device, if it has kernels for the operator; otherwise the first backend that has."""
    return preferred(arch, backends(operator).values()).name


def default_backend(problem: Problem, arch: Arch) -> str:
    """carver's own kernels, unless they cannot run the problem as it is written, or leave the fastest unit idle.

    Then tiles for Triton are better advice. But if Triton would copy operands element by element, carver's own kernels
    stay: such copies usually cost more than the faster unit gains.
    """
    operator, own = problem.operator, own_backend(arch, problem.operator)
    if own not in backends(operator).values():
        kinds = " and ".join(sorted({f"{kernel.device_kind.upper()}s" for kernel in every(operator)}))
        raise KernelError(
            f"{arch.title} is a {arch.kind.upper()}; {operator} has kernels for {kinds}, which `carver archs` lists"
        )
    scope = static_scope(problem, arch)
    runs = [k for k in kernels(operator, own) if not k.unmet(scope)] if plain(problem) else []
    share = unit_share(problem, arch, runs) if runs else 0.0
    if share >= FULL_RATE or not BACKENDS[own].source or TILES not in backends(operator).values():
        return own
    tiles = [k for k in kernels(operator, TILES) if k.device_kind == arch.kind and not k.unmet(scope)]
    enough = runs and share >= unit_share(problem, arch, tiles)
    return own if not tiles or enough or (runs and copied_singly(problem, arch, tiles)) else TILES


def offered_kernels(problem: Problem, arch: Arch, backend: str) -> tuple[tuple[Kernel, ...], tuple[str, ...]]:
    """The kernels of a backend whose requirements this problem and device meet, and notes for the user."""
    offered, notes = _offered(problem.sizeless, arch, backend)
    if not offered:
        raise _none_offered(f"{problem} with backend {backend!r}", problem, arch, kernels(problem.operator, backend))
    return offered, notes


def _none_offered(what: str, problem: Problem, arch: Arch, declared: Sequence[Kernel]) -> NoCandidates:
    scope = static_scope(problem, arch)
    whose = declared[0].title if len(declared) == 1 else "its kernel"
    unmet = Counter(f"{whose} requires that {why}" for kernel in declared for why in kernel.unmet(scope))
    return NoCandidates(f"{what} on {arch.name}", unmet, able=_able(problem, arch, declared[0].backend))


def of_sizes(problem: Problem, arch: Arch) -> tuple[str, ...]:
    """Notes for the user if a matrix is a vector, or the problem exceeds the device's memory."""
    if problem.operator == "matmul" and 1 in map(problem.sizes.get, "mn"):
        return ("a matrix times a vector: carver.GEMVTemplate (carver recommend gemv) has kernels made for it",)
    if sum(problem.elements.values()) * 8 <= arch.dram_bytes or problem.compulsory_bytes <= arch.dram_bytes:
        return ()  # the first condition is cheap and usually decides
    needs, has = (f"{n / 2**30:,.1f} GiB" for n in (problem.compulsory_bytes, arch.dram_bytes))
    return (f"the tensors take {needs}, the memory of {arch.title} is {has}: predicted as if they fitted",)


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
    if not BACKENDS[backend].runs_on(arch):
        notes.append(f"{BACKENDS[backend].title} kernels do not run on {arch.title}: take the tiles as advice")
    dtype, unit = multiply_dtype(problem), matrix_unit(problem, arch) if scope["matrix"] else None
    if any("instruction" in kernel.derived for kernel in offered):
        none = f"{arch.title} has no matrix instruction for {dtype}"
        if unit is None:
            notes.append(f"{none}: vector units are used")
        elif scope["widen_instr"]:
            own = arch.own_float8(dtype)
            has = f"; it multiplies {own} itself" if own != dtype else ""
            how = f"by about {scope['widen_instr']:.0f} instructions{has}"
            notes.append(f"{none}: each element is converted to {unit.dtype} {how}")
        elif scope["matrix_widens"]:
            notes.append(f"{none}: elements are converted to {unit.dtype}")
    if odd := copied_singly(problem, arch, offered):
        what = " and ".join(odd)
        notes.append(f"Triton copies {what} element by element: pad rows to multiples of 16, or see static_shapes")
    if (share := unit_share(problem, arch, offered)) < FULL_RATE:
        rate = f"{arch.title}'s rate for {dtype}"
        notes.append(f"at most {share:.0%} of {rate}: none of these kernels issues its fastest instruction")
    return offered, tuple(notes)


def copied_singly(problem: Problem, arch: Arch, offered: Sequence[Kernel]) -> list[str]:
    """The inputs that Triton's kernels copy element by element because a stride is not a multiple of 16."""
    scope = static_scope(problem, arch)
    reads = any("by_16_a" in column.names for kernel in offered for column in kernel.derived.values())
    odd = [t.name for t in problem.statement.inputs if not scope[f"by_16_{t.name.lower()}"]]
    return odd if reads and not scope["static_shapes"] else []


def unit_share(problem: Problem, arch: Arch, offered: Sequence[Kernel]) -> float:
    """Rate of the fastest arithmetic unit that these kernels can use, over that of the device's fastest unit.

    1 for problems without a matrix instruction.
    """
    used = {kind for kernel in offered for kind in instructions(problem, arch, kernel)}
    if not static_scope(problem, arch)["matrix"] or not used:
        return 1.0
    fastest = max(peak(problem, arch, kind) for kind in range(4))
    return max(peak(problem, arch, kind) for kind in used) / fastest


@takes(ConfigError, besides="configs")
def rank(
    problem: Problem, arch: Arch, configs: Iterable[Mapping[str, Any] | Hint] | Mapping[str, Sequence[int]],
    backend: str = "triton", *, kernel: str | None = None, names: Mapping[str, str] | None = None,
    ignore: Collection[str] = (), profile: Given | None = None,
) -> Ranking:  # fmt: skip
    """Your own configurations in the order of their predicted times.

    `configs` is a list of them, or a dict of lists, of which every combination is ranked. `names` maps carver's keys to
    other spellings. Keys in `ignore` are left out. Keys for which the backend's tool has a default may be missing.
    `kernel` says to which of an operator's kernels the configurations belong, if their keys do not. `profile` is what
    was learnt of this kernel before: the `profile` of a ranking, or a JSON file of it.

    Raises ConfigError for a configuration that is not one of the backend's, NoCandidates when none can run.
    """
    asked = listed(configs)
    backend = kernel_named(problem.operator, kernel).backend if kernel else backend
    offered, notes = offered_kernels(problem, arch, backend)
    notes = (*of_sizes(problem, arch), *notes)
    words = spellings([kernel_named(problem.operator, kernel)] if kernel else offered, names)
    adopted = [config if isinstance(config, Hint) else adopt(config, backend, ignore) for config in asked]
    unpriced = left_out(adopted, BACKENDS[backend].unpriced.get(arch.vendor, ()), offered)
    if unpriced:
        notes = (*notes, f"not in the model, ranked as if not set: {', '.join(unpriced)}")
    skipped = {*ignore, *unpriced}
    given = [c if isinstance(c, Hint) else renamed(c, words, skipped) for c in adopted]
    if kernel:
        given = [{"kernel": kernel, **config} if isinstance(config, Mapping) else config for config in given]
    usual = BACKENDS[backend].options.get(arch.vendor, {})
    parts: list[Priced] = []
    broken: dict[int, Broken] = {}
    for owner, places in by_kernel(given, offered, usual).items():
        assumed = {key: value for key, value in usual.items() if key in owner.tunables.keys() - owner.defaults.keys()}
        rows = [tunables_of(given[i]) for i in places]
        for key, value in assumed.items():
            if lacks := sum(isinstance(row, Mapping) and key not in row for row in rows):
                whose = "no configuration gives" if lacks == len(rows) else f"{lacks:,} of {len(rows):,} give no"
                notes = (*notes, f"{whose} {key}: ranked with {value}, the tool's default")
        space, why = given_space(
            problem, arch, owner, [assumed | dict(row) if isinstance(row, Mapping) else row for row in rows]
        )
        broken |= {places[i]: each for i, each in why.items()}
        if len(space):
            space = replace(space, index=np.asarray(places)[space.index])
            parts.append(price(space))
    if not given:
        raise ConfigError(f"no configurations given to rank for {problem}")
    rejected = Counter(each.rule for each in broken.values())
    if not parts:
        raise NoCandidates(
            f"{problem} with backend {backend!r} on {arch.name}", rejected,
            {each.rule: each.missed for each in reversed(broken.values())},
        )  # fmt: skip
    reasons: dict[int, str] = {place: str(each) for place, each in broken.items()}
    order = in_order(parts, len(given))
    table = Declared(problem, arch, backend, partial(tuple, parts), notes)
    [(part, _, [row])] = table.by_part(order[:1])
    needs, threads = (part.space.at(row, name, 1) for name in ("registers", "threads"))
    if arch.kind == "gpu" and needs > (most := min(arch.max_regs_per_thread, arch.regs_per_block // threads)):
        first = f"configuration {part.space.index[row]}, first by the model, needs {needs} registers a thread"
        note = f"{first} and may have {most}: the others spill, at a cost that the model knows roughly"
        table = replace(table, notes=(*notes, note))
    ranking = Ranking(table, order, len(order), dict(rejected), reasons, len(given))
    return ranking if profile is None else _recalled(ranking, profile)


def left_out(configs: Sequence[Any], unpriced: Collection[str], offered: Sequence[Kernel]) -> list[str]:
    """Options in some configuration that the model ignores and that are no kernel's tunable."""
    tunables = {key for kernel in offered for key in kernel.tunables}
    found = {key for config in configs if isinstance(config, Mapping) for key in config}
    return [key for key in unpriced if key in found - tunables]


def spellings(offered: Sequence[Kernel], names: Mapping[str, str] | None) -> dict[str, str]:
    """The kernels' keys by other spellings: the user's `names`, and common ones that are no kernel's own key."""
    known = {key for kernel in offered for key in kernel.tunables}
    if names and (odd := names.keys() - known):
        word = min(odd)
        if names[word] in known:
            raise ConfigError(f"names maps {names[word]!r} the wrong way round: carver's key comes before yours")
        raise ConfigError(f"names maps {word!r}, which is no key of these kernels; {nearest(word, known)}")
    usual = BACKENDS[offered[0].backend].aliases
    found = {alias: key for key, aliases in usual.items() if key in known for alias in aliases if alias not in known}
    return found | {theirs: key for key, theirs in (names or {}).items()}


def by_kernel(
    given: Sequence[Mapping[str, Any] | Hint], offered: Sequence[Kernel], usual: Collection[str] = ()
) -> dict[Kernel, list[int]]:
    """The positions of the configurations that belong to each kernel, for kernels that have any.

    Keys in `usual` may be missing.
    """
    places: dict[Kernel, list[int]] = {}
    for i, config in enumerate(given):
        places.setdefault(_owner(config, i, offered, usual), []).append(i)
    return places


def _owner(config: object, place: int, offered: Sequence[Kernel], usual: Collection[str]) -> Kernel:
    """The kernel of a configuration: the one that it names (a hint does; a dict may, by `kernel`), otherwise the one
    that has its keys."""
    name = config.kernel if isinstance(config, Hint) else config.get("kernel") if isinstance(config, Mapping) else None
    if name is not None:
        for kernel in offered:
            if kernel.name == name:
                return kernel
        names = ", ".join(k.name for k in offered)
        raise ConfigError(f"configuration {place} is for kernel {name!r}; this problem and device take {names}")
    if isinstance(config, Mapping):
        for kernel in offered:
            if _speaks(config, kernel, usual):
                return kernel
        backend = offered[0].backend
        others = {k.backend: k for k in every(offered[0].operator) if k.backend != backend and _speaks(config, k, ())}
        if others:
            other = min(others)
            raise ConfigError(
                f"configuration {place} has the keys of backend {other!r} and not of {backend!r}: "
                f"{', '.join(map(str, config))}; ask with --backend {other}, in Python backend={other!r}"
            )
    return offered[0]


def _speaks(config: Mapping[str, Any], kernel: Kernel, usual: Collection[str]) -> bool:
    needed = kernel.tunables.keys() - kernel.defaults.keys() - set(usual)
    return needed <= config.keys() <= kernel.tunables.keys()


def tunables_of(config: Any) -> Any:
    """A configuration without the name of its kernel."""
    if isinstance(config, Hint):
        return config.config
    return {k: v for k, v in config.items() if k != "kernel"} if isinstance(config, Mapping) else config
