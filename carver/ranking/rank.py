"""Rank the user's own configurations by their predicted times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import ConfigError, NoCandidates, nearest
from ..base.given import takes
from ..cost.pricing import Priced, in_order, price
from ..kernels.backends import BACKENDS, adopt, listed, renamed
from ..kernels.declaration import Kernel, every, kernel_named
from ..kernels.space import Broken, given_space
from ..problem.problem import Problem
from .declared import Declared, recalled
from .hint import Hint
from .ranking import Ranking
from .recommend import offered_kernels, too_large

if TYPE_CHECKING:
    from .profile import Given


@takes(ConfigError, besides="configs")
def rank(
    problem: Problem,
    arch: Arch,
    configs: Iterable[Mapping[str, Any] | Hint] | Mapping[str, Sequence[int]],
    backend: str = "triton",
    *,
    kernel: str | None = None,
    names: Mapping[str, str] | None = None,
    ignore: Collection[str] = (),
    profile: Given | None = None,
) -> Ranking:
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
    notes = (*too_large(problem, arch), *notes)
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
    return recalled(Ranking(table, order, len(order), dict(rejected), reasons, len(given)), profile)


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
