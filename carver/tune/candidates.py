"""Candidates: lists, callables, generators and spaces of configs or hints, checked against what a function takes; and
the order in which they are tried, and when to stop.

A strategy is a function of the choices, of `measure`, which takes places of candidates and gives their times [s]
(infinite where one failed), and of a seed. It returns why it stopped. `measure` raises `BudgetSpent`
when it may try no more. Strategies see nothing else, so that recorded tables replay as they would have run."""

from __future__ import annotations

import inspect
import json
import math
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from ..arch.descriptor import Arch
from ..base.errors import ConfigError, NoCandidates, RunError, nearest
from ..base.given import asked
from ..base.types import FloatArray, IntArray, Record
from ..compiled.triton import plain_config
from ..ops.operator import TUNED_ON, Template
from ..ranking.hint import Hint, NoRasterizationType
from ..ranking.ranking import Ranking
from ..ranking.search import SearchSpace
from ..ranking.surrogate import chances, to_measure
from ..run.spec import HintKernel, Kernel

Config = dict[str, Any]
Hooks = tuple[Callable[..., Any] | None, Callable[..., Any] | None]
HOOKS = ("pre_hook", "post_hook")
Made: TypeAlias = Kernel | HintKernel | RunError | None
"""What a function returned for a config; None where that is Python code, which a worker makes anew."""


class Entry(Record):
    """One candidate: its place in the list, what the function is called with, and what the model said."""

    index: int
    config: Mapping[str, Any]
    hint: Hint | None = None
    predicted_ms: float | None = None
    hooks: Hooks = (None, None)
    """What is called before and after each run of this candidate alone."""
    made: Made = None

    @property
    def recorded(self) -> Config:
        """The config as it is recorded; a hint by its own."""
        rest = dict(self.config)
        shown = {**hint.config, **rest} if (hint := rest.pop("hint", None)) is not None else rest
        return {k: v if isinstance(v, int | float | str | bool | None) else str(v) for k, v in shown.items()}


GEMM_GRID_288 = SearchSpace(
    block_M=(64, 128, 256), block_N=(64, 128, 256), block_K=(32, 64), num_stages=(0, 1, 2, 3), thread_num=(128, 256),
    enable_rasteration=(True, False),
)  # fmt: skip
"""The grid that TileLang's own GEMM example searches: what a ranking's first ten have to beat."""


@contextmanager
def answering_for(arch: Arch) -> Iterator[None]:
    """Within it a template that names no device answers for this one."""
    token = TUNED_ON.set(arch)
    try:
        yield
    finally:
        TUNED_ON.reset(token)


def _threads(hint: Hint) -> int:
    """Of a block, without those that only copy, which TileLang adds by itself."""
    computing = hint.launch.threads if hint.num_warps is None else hint.num_warps * hint.arch.warp_size
    return min(hint.launch.threads, computing)


_HINT_NAMES: Mapping[str, Callable[[Hint], Any]] = {
    "block_m": lambda h: h.block[0] if len(h.block) == 2 else None,
    "block_n": lambda h: h.block[1] if len(h.block) == 2 else None,
    "block_k": lambda h: h.rstep[0] if h.rstep else None,
    **dict.fromkeys(("num_stages", "stages"), lambda h: h.pipeline_stage),
    **dict.fromkeys(("threads", "thread_num", "num_threads"), _threads),
    "num_warps": lambda h: h.num_warps,
    "split_k": lambda h: h.split_k,
    **dict.fromkeys(("enable_rasteration", "enable_rasterization"),
                    lambda h: not isinstance(h.rasterization_plan, NoRasterizationType)),
    **dict.fromkeys(("group_m", "group_size_m"),
                    lambda h: getattr(h.rasterization_plan, "panel_width", 1) if len(h.block) == 2 else None),
}  # fmt: skip
"""What tunables are called by people, in lower case, and where a hint says the same; None where its kernel has none."""


def from_hint(hint: Hint, wanted: Iterable[str], optional: Collection[str] = ()) -> Config:
    """A hint in a function's own words: the names of its config, and the usual ones for what follows from it. Raises
    ConfigError for a usual name that this hint's kernel has nothing for, unless it is in `optional`."""
    own = {name.lower(): value for name, value in hint.config.items()}
    config: Config = {}
    for name in wanted:
        word = name.lower()
        value = own.get(word)
        if value is None and word in _HINT_NAMES:
            value = _HINT_NAMES[word](hint)
            if value is None and name not in optional:
                what, has = f"{hint.problem.operator} of kernel {hint.kernel}", ", ".join(hint.config)
                raise ConfigError(f"{name!r} cannot be filled: {what} has none; it has {has}. Rename it, or default it")
        if value is not None:
            config[name] = value
    return config


def frozen(config: Mapping[str, Any]) -> str:
    """A config as text by which it can be looked up, the same whatever the order of its keys."""
    return json.dumps(dict(config), sort_keys=True, default=str)


def once(configs: Any) -> Any:
    """Candidates that can be gone through more than once: a generator's as a list."""
    return list(configs) if isinstance(configs, Iterator) else configs


def expand(
    configs: Any, signature: inspect.Signature, bound: Mapping[str, Any], arch: Callable[[], Arch], what: str
) -> list[Entry]:
    """The candidates of one call. Raises ConfigError for keys that the function does not take, or that are missing."""
    made = configs
    if callable(configs) and not isinstance(configs, Iterable):
        with answering_for(arch()):
            taken, lost = asked(configs, bound)
            if lost:
                known = nearest(lost[0], bound) if bound else "the call gives no arguments"
                raise ConfigError(f"configs of {what} asks for {lost[0]!r}; {known}")
            made = configs(**taken)
            made = list(made) if isinstance(made, Iterator) else made
    if isinstance(made, Template):
        with answering_for(arch()):
            made = made.recommend_hints()
    if isinstance(made, Mapping | str) or not isinstance(made, Iterable):
        raise ConfigError(f"configs of {what} must be a list of dicts or hints, or what gives one; got {made!r}")
    if isinstance(rejected := getattr(made, "rejected", None), Mapping) and not list(made):
        raise NoCandidates(what, rejected)
    given = list(made)
    if not given:
        why = f"{'the callable returned' if callable(configs) else 'the list is'} empty"
        if isinstance(configs, SearchSpace):
            why = "its constraints refuse every combination"
        raise ConfigError(f"no configurations to tune for {what}: {why}")
    names = [
        p.name for p in signature.parameters.values()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name not in bound
    ]  # fmt: skip
    return _distinct([_entry(i, each, signature, names, bound, what) for i, each in enumerate(given)])


def _distinct(entries: list[Entry]) -> list[Entry]:
    """Of hints that are the same to the function the one predicted fastest, whatever their order; what the user wrote
    is left as it is."""
    kept: dict[Any, Entry] = {}
    for entry in entries:
        key = frozenset(entry.config.items()) if entry.hint else entry.index
        if key not in kept or (entry.predicted_ms or math.inf) < (kept[key].predicted_ms or math.inf):
            kept[key] = entry
    return list(kept.values())


def _entry(
    index: int, given: Any, signature: inspect.Signature, names: list[str], bound: Mapping[str, Any], what: str
) -> Entry:
    if isinstance(given, Hint):
        if "hint" in signature.parameters:
            return Entry(index, {"hint": given}, given, given.predicted_ms)
        defaults = [name for name in names if signature.parameters[name].default is not inspect.Parameter.empty]
        config = from_hint(given, names, defaults)
        if not config:
            offered = ", ".join((*given.config, *_HINT_NAMES))
            taken = ", ".join(names) or "nothing"
            raise ConfigError(f"{what} takes {taken}, of which a hint says nothing; it has {offered}")
        return Entry(index, config, given, given.predicted_ms)
    written = dict(given) if isinstance(given, Mapping) else _triton_config(given, names)
    if written is None:
        raise ConfigError(f"config {index} of {what} must be a dict or a hint, got {given!r}")
    pre, post = (written.pop(n) if n not in names and callable(written.get(n)) else None for n in HOOKS)
    config, hooks = written, (pre, post)
    if takes_config(signature):
        return Entry(index, config, hooks=hooks)
    anything = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    if fixed := config.keys() & bound.keys():
        name = min(fixed)
        raise ConfigError(f"config {index} of {what} sets {name!r}, which the call fixes to {bound[name]!r}")
    if unknown := [] if anything else [name for name in config if name not in names]:
        raise ConfigError(f"config {index} of {what} has unknown key {unknown[0]!r}; {nearest(unknown[0], names)}")
    return Entry(index, config, hooks=hooks)


def takes_config(signature: inspect.Signature) -> bool:
    """Whether the function wants the whole config as one argument of that name."""
    return "config" in signature.parameters


def _triton_config(given: Any, names: Iterable[str]) -> Config | None:
    """`triton.Config` by its attributes. One block a cluster goes without saying where the function takes no other."""
    if not isinstance(getattr(given, "kwargs", None), Mapping):
        return None
    if getattr(given, "ir_override", None) is not None:
        raise ConfigError(f"{given} has an ir_override, which is lost here; compile that code as a kernel of its own")
    config = plain_config(given)
    if config.get("num_ctas") == 1 and "num_ctas" not in names:
        del config["num_ctas"]
    return config if getattr(given, "pre_hook", None) is None else {**config, "pre_hook": given.pre_hook}


def check_bound(
    entries: list[Entry], signature: inspect.Signature, bound: Mapping[str, Any], what: str
) -> tuple[str, ...]:
    """Required parameters that neither the call nor the configs bind: the arrays of a function that does the work.
    Raises ConfigError where configs differ in what they leave open."""
    if takes_config(signature):
        keys: set[str] = {"config"}
    else:
        keys = set(entries[0].config)
        for entry in entries:
            missing = [
                name for name in sorted(keys ^ entry.config.keys())
                if name in signature.parameters and (
                    (default := signature.parameters[name].default) is inspect.Parameter.empty
                    or (default is None and entry.hint is None)  # a place that is kept for a tunable
                )
            ]  # fmt: skip
            if missing:
                raise ConfigError(
                    f"config {entry.index} of {what} and config 0 do not both give {missing[0]!r}, which has no default"
                    " of use"
                )
    return tuple(
        p.name for p in signature.parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        and p.name not in bound and p.name not in keys
    )  # fmt: skip


Measure: TypeAlias = Callable[[Sequence[int]], list[float]]

WORTH = 0.01
"""A gain below this share of the time is not worth another trial."""
DOUBT = 0.05
"""Learning: the chance left that some candidate is still faster by more than `WORTH`."""
BATCH = 3
"""Learning: candidates that are measured before the others are ranked again."""
_MANY = 64  # of an exhaustive search at once, so that budgets are looked at


class BudgetSpent(Exception):
    """No more trials, or no more seconds."""


class Choices(Record):
    """Candidates as a strategy sees them: configs, and predicted times [s], NaN where the model does not say."""

    configs: Sequence[Mapping[str, Any]]
    predicted: FloatArray
    width: int = 1
    """How many can be measured at once."""
    ranking: Ranking | None = None
    """Of those that the model prices; the `index` of a hint is the candidate's place."""

    def __len__(self) -> int:
        return len(self.configs)

    @cached_property
    def order(self) -> list[int]:
        """Best predicted first; those without a prediction behind them, as they were given."""
        return [int(i) for i in np.argsort(np.where(np.isnan(self.predicted), np.inf, self.predicted), kind="stable")]

    @cached_property
    def places(self) -> IntArray:
        """Coordinates of the candidates on the axes: shape (candidates, axes)."""
        columns = []
        for name in dict.fromkeys(name for config in self.configs for name in config):
            values = [config.get(name) for config in self.configs]
            numbers = all(isinstance(v, int | float) for v in values)
            told: list[Any] = values if numbers else [repr(v) for v in values]
            ranks = np.unique(told, return_inverse=True)[1]
            if ranks.any():
                columns.append(ranks)
        return np.array(columns, np.int64).reshape(len(columns), len(self.configs)).T


def rank_order(choices: Choices, measure: Measure, seed: int = 0) -> str:
    """Best predicted first."""
    order = choices.order
    for start in range(0, len(order), choices.width):
        measure(order[start : start + choices.width])
    return f"all {len(order)} candidates tried"


def learn(choices: Choices, measure: Measure, seed: int = 0) -> str:
    """A few at a time, the rest ranked anew by what was measured (`carver.ranking.surrogate`). Stops when no candidate
    that is left is likely to be faster by `WORTH`. Without predictions, in the order given."""
    ranking = choices.ranking
    if ranking is None:
        return rank_order(choices, measure, seed)
    tried: dict[int, float] = {}
    priced = set(ranking.indices)
    step = max(BATCH, choices.width)
    while batch := to_measure(ranking, tried, min(tried.values(), default=math.inf), step) or (
        [i for i in choices.order if i not in tried][:step]  # then those that the model does not price
    ):  # fmt: skip
        tried |= zip(batch, measure(batch), strict=True)
        known = {i: tried[i] * 1e3 if math.isfinite(tried[i]) else None for i in batch if i in priced}
        try:
            ranking = ranking.learn(known)
        except NoCandidates:  # none that the model prices has run
            ranking, priced = ranking[:0], set()
        best = min(tried.values())
        left = np.array([i not in tried for i in ranking.indices], bool)
        again = len(tried) > len(batch)  # the first batch may all be of one mistake
        if again and math.isfinite(best) and left.any():
            chance = chances(ranking, best * (1 - WORTH))[left].max()
            if chance < DOUBT:
                return f"learnt from {len(tried)} of {len(choices)}: nothing left is likely to win by 1 %"
    return f"all {len(choices)} candidates tried"


def exhaustive(choices: Choices, measure: Measure, seed: int = 0) -> str:
    """Every candidate, as many at once as can be."""
    return rank_order(replace(choices, width=_MANY), measure)


def random_order(choices: Choices, measure: Measure, seed: int = 0) -> str:
    """In random order, without replacement."""
    order = list(range(len(choices)))
    random.Random(seed).shuffle(order)
    for start in range(0, len(order), choices.width):
        measure(order[start : start + choices.width])
    return f"all {len(order)} candidates tried"


def local(choices: Choices, measure: Measure, seed: int = 0) -> str:
    """From the best predicted, the untried neighbours of the best so far, nearest first. A neighbour differs in one key
    by one step, else in more; beyond two steps it goes on from the best predicted."""
    where = choices.places
    first, *rest = choices.order
    times = {first: measure([first])[0]}
    while rest:
        best = min(times, key=lambda i: (times[i], i))
        steps = np.abs(where[rest] - where[best]).sum(axis=1) if where.size else np.zeros(len(rest), int)
        near = [i for i, far in sorted(zip(rest, steps, strict=True), key=lambda pair: pair[1]) if far <= 2]
        batch = (near or rest)[: choices.width]
        times |= dict(zip(batch, measure(batch), strict=True))
        rest = [i for i in rest if i not in times]
    return f"all {len(choices)} candidates tried"


POPULATION = 12
"""Of a generation of the genetic search."""


def genetic(choices: Choices, measure: Measure, seed: int = 0, *, seeded: bool = True) -> str:
    """Differential evolution over the candidates' coordinates, the first generation half from the ranking if `seeded`.
    A point between candidates is taken for the nearest. Ends when three generations in a row bring nothing new."""
    from scipy.optimize import differential_evolution

    where = choices.places
    if len(choices) <= POPULATION or not where.size:
        return rank_order(choices, measure, seed)
    scale = np.maximum(where.max(axis=0), 1)
    times: dict[int, float] = {}
    idle = 0

    def evaluate(_: object, points: Any) -> list[float]:
        nonlocal idle
        found = [int(np.argmin((((where - p) / scale) ** 2).sum(axis=1))) for p in points]
        new = [i for i in dict.fromkeys(found) if i not in times]
        idle = 0 if new else idle + 1
        for at in range(0, len(new), choices.width):
            batch = new[at : at + choices.width]
            times.update(zip(batch, measure(batch), strict=True))
        return [times[i] if math.isfinite(times[i]) else 1e30 for i in found]

    rng = np.random.default_rng(seed)
    head = choices.order[: POPULATION // 2] if seeded and not np.isnan(choices.predicted).all() else []
    others = [int(i) for i in rng.permutation(len(choices)) if int(i) not in head]
    first = where[[*head, *others[: POPULATION - len(head)]]].astype(float)
    differential_evolution(
        lambda point: 0.0, list(zip(np.zeros(len(scale)), scale + 1e-9, strict=True)), init=first, seed=seed,
        maxiter=10_000, polish=False, updating="deferred", workers=evaluate, tol=0.0, atol=-1.0, mutation=(0.4, 0.9),
        callback=lambda *_, **__: idle >= 3,
    )  # fmt: skip
    return f"{len(times)} of {len(choices)} tried; three generations brought nothing new"


STRATEGIES: Mapping[str, Callable[..., str]] = {
    "learn": learn, "rank": rank_order, "exhaustive": exhaustive, "random": random_order, "local": local,
    "genetic": genetic,
}  # fmt: skip


def strategy(name: str) -> Callable[..., str]:
    if name not in STRATEGIES:
        raise ConfigError(f"no search {name!r}; {nearest(name, STRATEGIES)}")
    return STRATEGIES[name]
