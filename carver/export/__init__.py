"""Hints in the formats of other tools, and other tools' configurations as input of `rank`.

One module per target. Each holds plain functions of hints, imports its target when one of them is called, and has a
`from_config` for the other direction (see `carver.kernels.backends`). `adopt` finds the right one by what it is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from types import ModuleType
from typing import Any, TypeVar

from ..arch.descriptor import Arch
from ..base.errors import ConfigError
from ..kernels.backends import adopt as adopt
from ..kernels.declaration import kernel_named
from ..problem.problem import Problem
from ..ranking.hint import Hint
from ..ranking.profile import Given
from ..ranking.recommend import recommend


def __getattr__(name: str) -> ModuleType:
    """A module of this folder, imported when it is first named."""
    if name.startswith("_") or find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f".{name}", __name__)


def checked(hints: Iterable[Hint], target: str, backends: tuple[str, ...], operator: str = "") -> list[Hint]:
    """The hints as a list, checked to be of kernels that the target runs.

    Raises ConfigError for hints of another backend, whose tiles are not fast here, or of another operator.
    """
    found = list(hints)
    if not found:
        raise ConfigError(f"no hints to export to {target}")
    if odd := {h.backend for h in found} - set(backends):
        taken, got = " or ".join(map(repr, backends)), ", ".join(map(repr, sorted(odd)))
        raise ConfigError(
            f"{target} takes hints of backend {taken}, got {got}; ask with recommend_hints(backend={backends[0]!r})"
        )
    if operator and (odd := {h.problem.operator for h in found} - {operator}):
        raise ConfigError(f"{target} takes hints of a {operator}, got {', '.join(sorted(odd))}")
    return found


Entry = TypeVar("Entry")


class Exported(list[Entry]):
    """What a target takes, each entry once, best first. `notes` say which hints were merged or left out, and why."""

    def __init__(self, entries: Iterable[Entry], notes: Iterable[str] = ()) -> None:
        super().__init__(entries)
        self.notes = tuple(notes)


def distinct(
    hints: Iterable[Hint], target: str, backends: tuple[str, ...], make: Callable[[Hint], Entry], operator: str = "",
    why_not: Callable[[Hint], str] = lambda hint: "", otherwise: Callable[[Hint], Entry | None] = lambda hint: None,
) -> Exported[Entry]:  # fmt: skip
    """The entry that `make` gives of each hint that `checked` takes, as many that differ as there are hints.

    Hints that differ only in what the target leaves open are one entry, and `why_not` says, in words, why the target
    cannot take a hint. Carver's own next ones take the place of both; after them, what `otherwise` gives of a hint.
    """
    given = checked(hints, target, backends, operator)
    entries: dict[str, Entry] = {}
    others: list[Entry] = []
    merged, left_out = 0, Counter[str]()
    for hint in _continued(hints, given):
        if len(entries) == len(given):
            break
        if why := why_not(hint):
            left_out[why] += 1
            continue
        entry = make(hint)
        merged += str(entry) in entries
        entries.setdefault(str(entry), entry)
        others += [other for other in (otherwise(hint),) if other is not None]
    more = {str(other): other for other in others if str(other) not in entries}
    entries |= islice(more.items(), max(len(given) - len(entries), 0))
    notes = [f"{count:,} left out: {why}" for why, count in left_out.items()]
    if merged:
        notes.append(f"{merged:,} differ from a faster one only in what {target} does not set, and are one with it")
    if len(entries) < len(given):
        notes.append(f"{target} has {len(entries):,} of the {len(given):,} entries asked for: no more differ")
    return Exported(entries.values(), notes)


def splits(what: str) -> Callable[[Hint], str]:
    """`why_not` of `distinct`, for a kernel that does not split K."""
    return lambda hint: "" if hint.config["SPLIT_K"] == 1 else f"they split K, which {what} does not"


def _continued(hints: Iterable[Hint], given: Sequence[Hint]) -> Iterator[Hint]:
    """The hints, and after them those that follow in carver's own ranking of the same kernels, if they are of one."""
    yield from given
    total = getattr(hints, "candidates", 0)
    if not given or getattr(hints, "given", True) or total <= len(given) or given[0].layers:
        return
    known, kernels = {(hint.kernel, str(hint.config)) for hint in given}, {hint.kernel for hint in given}
    one = given[0]
    for hint in recommend(one.problem, one.arch, total, one.backend):
        if hint.kernel in kernels and (hint.kernel, str(hint.config)) not in known:
            yield hint


def first_unsplit(problem: Problem, arch: Arch, k: int, profile: Given | None = None) -> list[Hint]:
    """The first `k` of Triton's hints that do not split K; fewer where no more are."""
    ranking = recommend(problem, arch, 8 * k, "triton", profile=profile)
    if sum(hint.split_k == 1 for hint in ranking) < k and len(ranking) < ranking.candidates:
        ranking = recommend(problem, arch, ranking.candidates, "triton", profile=profile)
    return list(islice((hint for hint in ranking if hint.split_k == 1), k))


def renamed(config: Mapping[str, Any], names: Mapping[str, str] | None) -> dict[str, Any]:
    """The configuration under the user's names; `names` maps carver's to theirs.

    Raises ConfigError where `names` mentions a key that the configuration lacks, or gives two keys one name.
    """
    if names and (stray := names.keys() - config.keys()):
        raise ConfigError(f"names maps {min(stray)!r}, which is no key of {', '.join(config)}")
    out = {(names or {}).get(key, key): value for key, value in config.items()}
    if len(out) < len(config):
        raise ConfigError(f"names gives two keys of {', '.join(config)} one name: {names}")
    return out


def filled(hints: Iterable[Hint]) -> list[dict[str, Any]]:
    """Configurations of hints in rank order. An option that some of them name has its default in the others."""
    found = list(hints)
    named = dict.fromkeys(key for hint in found for key in hint.config)
    out = []
    for hint in found:
        defaults: Mapping[str, Any] = {}
        if named.keys() - hint.config.keys():
            kernel = kernel_named(hint.problem.operator, hint.kernel)
            optional = {key for keys in kernel.options.values() for key in keys}
            defaults = {key: kernel.defaults[key] for key in named if key in optional}
        out.append({**hint.config, **{key: value for key, value in defaults.items() if key not in hint.config}})
    return out


def check_one_space(configs: Sequence[Mapping[str, Any]], target: str) -> None:
    """Raises ConfigError for configurations of kernels with other tunables, which no one space holds."""
    if odd := next((c for c in configs if c.keys() != configs[0].keys()), None):
        word = min(odd.keys() ^ configs[0].keys())
        raise ConfigError(
            f"{target} tunes one kernel, and of these hints some have {word!r}, some not; ask for those of one kernel "
            "with recommend_hints(kernel=...)"
        )


def values_of(configs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The values that configurations of one space have by key, sorted."""
    return {key: sorted({config[key] for config in configs}) for key in configs[0]}


def imported(module: str, target: str, pin: str) -> Any:
    """A module of the target's package. Raises ConfigError where that is not installed."""
    try:
        return import_module(module)
    except ImportError:
        raise ConfigError(f"exporting to {target} needs its package; pip install {pin}") from None
