"""Triton: lists of `triton.Config`, and pruning of a user's own list inside `triton.autotune`.

Tried with Triton 3.6 and 3.9. `early_config_prune` must return at least one configuration; one survivor is not
benchmarked at all. `perf_model` is called only where more configurations are left than `top_k`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..arch.descriptor import Arch
from ..base.errors import ConfigError, NoCandidates, nearest
from ..base.given import asked, takes
from ..kernels.backends import BACKENDS, from_triton
from ..ops.operator import Template
from ..problem.problem import counted
from ..ranking.hint import Hint
from ..ranking.ranking import Ranking
from . import Exported, distinct, first_unsplit, imported, renamed

if TYPE_CHECKING:
    import triton

from_config = from_triton

Make = Template | Callable[..., Template]
"""An operator with its device, or a function from the kernel's arguments to one: `lambda M, N, K: ...`."""

ALIASES = BACKENDS["triton"].aliases
LAUNCH = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""What `triton.Config` takes as arguments of its own; the other keys are the kernel's."""


class Configs(Exported["triton.Config"]):
    """They print as Python, to be pasted."""

    def __repr__(self) -> str:
        return pasted(self)


@takes(ConfigError, instead={"topk": "slice the ranking, as in ranking[:3].to_triton()"})
def configs(
    hints: Iterable[Hint], names: Mapping[str, str] | None = None, only: Sequence[str] | None = None
) -> Configs:
    """`triton.Config` of each hint, in rank order, for `triton.autotune(configs=...)`.

    `names` maps carver's keys to the kernel's: {"BLOCK_M": "BLOCK_SIZE_M"}. `only` lists the keys that the kernel has,
    in its spelling; others are dropped (a kernel without split-K has no SPLIT_K). Hints that need a dropped key are
    left out, those that equal another without it are one with it, and the next ones take the place of both.
    """
    triton = imported("triton", "Triton", "triton")

    def entry(hint: Hint) -> Any:
        every = renamed(hint.config, names)
        own = {k: v for k, v in every.items() if k not in LAUNCH and (only is None or k in only)}
        return triton.Config(own, **{k: every[k] for k in LAUNCH if k in every})

    def why_not(hint: Hint) -> str:
        """The keys outside `only` must have the value that a kernel without them has."""
        keys = zip(hint.config.items(), renamed(hint.config, names), strict=True)
        lost = {ours: n for (ours, n), theirs in keys if only is not None and theirs not in (*only, *LAUNCH)}
        can = all(ours == "GROUP_M" or (ours == "SPLIT_K" and n == 1) for ours, n in lost.items())
        return "" if can else f"they use a key that is not among {', '.join(only or ())}"

    found = distinct(hints, "Triton", ("triton",), entry, why_not=why_not)
    if not found:
        raise ConfigError(f"every hint uses a key that is not among {', '.join(only or ())}")
    return Configs(found, found.notes)


def pasted(configs: Iterable[triton.Config]) -> str:
    """The configurations as Python, to be pasted into `triton.autotune(...)`."""
    usual = {"num_ctas": 1, "maxnreg": None}
    lines = []
    for each in configs:
        launch = {name: getattr(each, name, None) for name in LAUNCH}
        words = [f"{name}={value}" for name, value in launch.items() if name not in usual or value != usual[name]]
        lines.append(f"    triton.Config({', '.join([repr(each.kwargs), *words])}),\n")
    return f"configs=[\n{''.join(lines)}]"


@dataclass
class Feedback:
    """What Triton's tuner timed after one ranking of a kernel, learnt before the next one is made."""

    _profiles: dict[str, Any] = field(default_factory=dict)
    _last: tuple[Ranking, Sequence[Any], object] | None = None

    def profile(self, tuner: Any, of: str, arch: Arch) -> Any:
        """What was learnt so far of such a ranking; None where nothing was."""
        if self._last is not None:
            ranking, configs, before = self._last
            kept = getattr(tuner, "configs_timings", None)
            if kept and kept is not before:  # else the tuner took its only choice without a measurement
                times = _timings(kept, configs, set(ranking.indices))
                with suppress(NoCandidates):
                    found = ranking.learn(times).profile
                    self._profiles[f"{found['of']} {found['device']}"] = found
            self._last = None
        return self._profiles.get(f"{of} {arch.name}")

    def ranked(self, tuner: Any, ranking: Ranking, configs: Sequence[Any]) -> None:
        """A ranking of these configurations was made, some of which the tuner will time."""
        self._last = ranking, configs, getattr(tuner, "configs_timings", None)


def _timings(kept: Mapping[Any, Any], configs: Sequence[Any], places: Collection[int]) -> dict[int, float | None]:
    """Times in ms by place in the list; None where one did not run."""
    out: dict[int, float | None] = {}
    for place in places:
        if (took := kept.get(configs[place])) is not None:
            ms = float(took[0] if isinstance(took, Sequence) else took)
            if not math.isnan(ms) and ms > 0:
                out[place] = ms if math.isfinite(ms) else None
    return out


class Pruner(dict[str, Callable[..., list[Any]]]):
    """An `early_config_prune` that is the dict with it, too: `prune_configs_by` takes either.

    by_code: it ranks the list by machine code for the GPU of this machine, which a ranking for any device leaves out
    """

    def __init__(self, prune: Callable[..., list[Any]], by_code: bool = False) -> None:
        super().__init__(early_config_prune=self)
        self.prune, self.by_code = prune, by_code

    def __call__(self, configs: list[Any], named_args: Mapping[str, Any], **kwargs: Any) -> list[Any]:
        return self.prune(configs, named_args, **kwargs)


@takes(ConfigError)
def pruner(
    template: Template | Callable[..., Template], topk: int = 10, names: Mapping[str, str] | None = None,
    ignore: Sequence[str] = (), propose: bool = False, tuner: Callable[[], Any] | None = None,
) -> Pruner:
    """An `early_config_prune` that keeps the `topk` of the list with the shortest predicted times.

    `tuner` gives Triton's tuner of the kernel: what it timed for one key is learnt before the next one is ranked.
    With `propose` the list gives only the keys that the kernel has, and carver's own `topk` are tried instead, with the
    hook and the further keys that all of the list have. Raises ConfigError where these differ from one to another.
    Raises NoCandidates where the model holds that none of the list can run, with the rules that say so.
    """
    counted("topk", topk, 1)
    feedback = Feedback()

    def early_config_prune(configs_: list[Any], named_args: Mapping[str, Any], **kwargs: Any) -> list[Any]:
        op = make(template, {**named_args, **kwargs})
        if propose:
            return _proposed(op, configs_, topk, names)
        own = tuner() if tuner is not None else None
        profile = feedback.profile(own, f"{op.problem.operator}/triton", device(op)) if own is not None else None
        ranking = op.rank([from_config(c, names, ignore) for c in configs_], backend="triton", profile=profile)
        feedback.ranked(own, ranking, configs_)
        return [configs_[i] for i in ranking.indices[:topk]]

    return Pruner(early_config_prune)


def _proposed(op: Template, listed: list[Any], topk: int, names: Mapping[str, str] | None) -> list[Any]:
    """carver's own configurations of a kernel whose keys, hook and constants a list shows."""
    keys = list(listed[0].kwargs)
    spelled = names or spelling(keys)
    ours = {spelled.get(key, key) for key in ALIASES}
    rest = [{k: v for k, v in each.kwargs.items() if k not in ours} | {"pre_hook": each.pre_hook} for each in listed]
    if other := next((each for each in rest if each != rest[0]), None):
        varies = next(key for key in (*rest[0], *other) if other.get(key) != rest[0].get(key))
        raise ConfigError(f"propose= needs one value of {varies} in all of the list, which carver cannot choose")
    hook = rest[0].pop("pre_hook")
    most = topk if spelled.get("GROUP_M") in keys else 2 * topk  # walked in both orders, one and the same to it
    if spelled.get("SPLIT_K") in keys:
        hints: Iterable[Hint] = op.recommend_hints(most, "triton")
    else:
        hints = first_unsplit(op.problem, device(op), most)
    found = configs(hints, spelled, only=keys)[:topk]
    for each in found:
        each.kwargs.update(rest[0])
        each.pre_hook = hook
    return list(found)


@takes(ConfigError)
def perf_model(
    template: Template | Callable[..., Template], names: Mapping[str, str] | None = None, ignore: Sequence[str] = ()
) -> Callable[..., float]:
    """`prune_configs_by={"perf_model": carver.triton_perf_model(op), "top_k": 5}`: predicted times, infinite where the
    configuration cannot run. [s]"""
    known = {*LAUNCH, "ir_override", "pre_hook", *ALIASES}
    known |= {alias for aliases in ALIASES.values() for alias in aliases} | set((names or {}).values()) | set(ignore)

    def predicted_seconds(**arguments: Any) -> float:
        config = {k: v for k, v in arguments.items() if k in known}
        rest = {k: v for k, v in arguments.items() if k not in known and isinstance(v, int | str | float)}
        try:
            ranking = make(template, rest).rank([from_config(config, names, ignore)], backend="triton")
        except NoCandidates:
            return float("inf")
        return float(ranking.seconds[0])

    return predicted_seconds


def spelling(keys: Iterable[str]) -> dict[str, str]:
    """Carver's keys to the spellings that a kernel's own keys show."""
    present = set(keys)
    return {ours: next(a for a in (ours, *aliases) if a in present)
            for ours, aliases in ALIASES.items() if present & {ours, *aliases}}  # fmt: skip


def device(op: Template) -> Arch:
    if op.arch is None:
        raise ConfigError(f"{op} names no device; call .with_arch(carver.CUDA('h200')) in the template")
    return op.arch


def make(template: Make, arguments: Mapping[str, Any]) -> Template:
    """The operator for one call of the kernel: `template`, or what it makes of the arguments that it names."""
    if isinstance(template, Template):
        return template
    taken, lacking = asked(template, arguments)
    if lacking:
        raise ConfigError(f"the kernel has no argument {lacking[0]!r}, which the template asks for; "
                          f"{nearest(lacking[0], arguments)}")  # fmt: skip
    return template(**taken)
