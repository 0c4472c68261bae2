"""Candidates: lists, callables, generators and spaces of configs or hints, checked against what a function takes."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..arch.descriptor import Arch
from ..base.errors import ConfigError, NoCandidates, RunError, nearest
from ..base.given import asked
from ..compiled.triton import plain_config
from ..ops.operator import TUNED_ON, Template
from ..ranking.hint import Hint, NoRasterizationType
from ..ranking.search import SearchSpace
from ..run.spec import HintKernel, Kernel

Config = dict[str, Any]
Hooks = tuple[Callable[..., Any] | None, Callable[..., Any] | None]
HOOKS = ("pre_hook", "post_hook")
Made: TypeAlias = Kernel | HintKernel | RunError | None
"""What a function returned for a config; None where that is Python code, which a worker makes anew."""


@dataclass(frozen=True)
class Entry:
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
