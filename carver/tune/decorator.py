"""`carver.autotune`: a function that tunes itself at its first call for a key, and what sharing a key costs."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ..base.errors import ConfigError, warn
from ..base.given import asked, shown
from ..base.table import words
from ..base.types import Record, late
from ..ops.operator import Template
from ..ranking.search import SearchSpace
from ..run.buffers import is_torch
from ..run.built import JIT
from ..run.session import digest
from ..run.spec import param_of
from . import cache
from .cache import AutotuneResult
from .candidates import expand, frozen, once, takes_config
from .keys import Bucket, bucket_of, call_key
from .plan import Tuning, likely_arch, names_of
from .tuner import AutoTuner

MANY_KEYS = 64
"""Tunings of one function in one process after which it is probably keyed on too much."""


class Autotuned:
    """What `carver.autotune` makes of a function: calling it tunes if need be and gives the best kernel.

    For a function that works on arrays itself, the call tunes for their types and shapes, and runs.
    """

    def __init__(
        self, fn: JIT | Callable[..., Any], configs: Any, key: str | Sequence[str] | Callable[..., Hashable] | None,
        bucket: str | Bucket | None, do_not_specialize: str | Sequence[str],
        template: Template | Callable[..., Template] | None, settings: Mapping[str, Any], where: Mapping[str, Any],
        pinned: bool = False,
    ) -> None:  # fmt: skip
        self.jit = fn if isinstance(fn, JIT) else JIT(fn)
        self.fn = self.jit.fn
        self.configs, self.bucket = once(configs), bucket
        self.key = key if key is None or callable(key) else names_of(key)
        self.do_not_specialize = names_of(do_not_specialize)
        self.template, self.pinned = template, pinned
        self.settings, self.where = dict(settings), dict(where)
        bucket_of(bucket)
        Tuning.of(self.settings)
        self._results: dict[str, AutotuneResult] = {}
        self._kernels: dict[str, Any] = {}
        self._tunable: dict[frozenset[str], bool] = {}
        self._ready: dict[tuple[Any, ...], tuple[Any, tuple[int, ...]]] = {}
        """By the `_fast_key` of a call: the kernel for it, and the places of the arrays that it is called with."""
        self._lock = threading.RLock()
        functools.update_wrapper(self, self.fn)

    def __repr__(self) -> str:
        return f"<autotune {self.jit.name}({', '.join(self.jit.signature.parameters)}), {len(self._results)} tuned>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values()) if kwargs else args
        if (known_by := _fast_key(given, kwargs)) is not None and (ready := self._ready.get(known_by)) is not None:
            kernel, places = ready
            return kernel(*[given[i] for i in places]) if places else kernel
        if self._sets_tunables(args, kwargs):
            return self.jit(*args, **kwargs)
        found = self.result(*args, **kwargs)
        kernel = self._kernel(found, args, kwargs)
        named = self.jit.bound(range(len(args)), dict(zip(kwargs, range(len(args), len(given)), strict=True)))
        places = tuple(i for i in named.values() if isinstance(i, int) and param_of("", given[i]) is not None)
        if known_by is not None and not cache.all_off():
            self._ready[known_by] = kernel, places
        return kernel(*(given[i] for i in places)) if places else kernel

    def result(self, *args: Any, **kwargs: Any) -> AutotuneResult:
        """The result for the key of this call; the same object for the same key."""
        key = digest([self._keyed_on(args, kwargs)])
        with self._lock:
            if key in self._results and not cache.all_off():
                return self._results[key]
            tuner, settings = self._tuner(args, kwargs), Tuning.of(self.settings)
            plan = tuner.plan(settings)
            asked_of = settings.checker().wanted or settings.baseline
            if self.pinned:
                found = tuner.choose(plan, "pinned", pinned=True)
            elif len(plan.entries) == 1 and not asked_of:  # it is taken without a measurement
                found = tuner.choose(plan, "one candidate")
            else:
                found = tuner.tune(plan, **self.where)
            self._results[key] = found
            self._kernels[self._exact(args, kwargs)] = found.kernel
            if len(self._results) == MANY_KEYS:
                warn(
                    f"{self.jit.name} was tuned for {MANY_KEYS} different keys in this process: bucket the sizes "
                    "(bucket='pow2'), or leave arguments out of the key (key=, do_not_specialize=)"
                )
            return found

    def par_compile(self, *args: Any, **kwargs: Any) -> list[Any]:
        return self.jit.par_compile(*args, **kwargs)

    check_bucket: ClassVar[Callable[..., list[BucketCost]]] = late("tune.decorator:check_bucket")

    def _tuner(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> AutoTuner:
        template = self.template
        if template is not None and not isinstance(template, Template):
            template = template(**asked(template, self.jit.bound(args, kwargs))[0])
        return AutoTuner(self.jit, self.configs, template).set_kernel_args(*args, **kwargs)

    def _sets_tunables(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether the caller chose a value for what is tuned."""
        signature, configs = self.jit.signature, self.configs
        bound = self.jit.bound(args, kwargs)
        if takes_config(signature):
            return "config" in bound
        if isinstance(configs, SearchSpace):
            return not bound.keys().isdisjoint(configs.values)
        if isinstance(configs, list | tuple) and all(isinstance(c, Mapping) for c in configs):
            return any(c.keys() & bound.keys() for c in configs)
        named = inspect.signature(configs).parameters if callable(configs) else {}
        if any(p.kind is p.VAR_KEYWORD for p in named.values()):
            return False
        # what has a default may be a tunable, or an option of the function: the candidates tell
        empty = inspect.Parameter.empty
        open_names = frozenset(n for n in bound if n not in named and signature.parameters[n].default is not empty)
        if not open_names:
            return False
        if open_names not in self._tunable:
            fixed = {n: v for n, v in bound.items() if n not in open_names and param_of(n, v) is None}
            guess = likely_arch(self.jit, [v for n, v in bound.items() if n not in fixed])
            entries = expand(configs, signature, fixed, guess, self.jit.name)
            self._tunable[open_names] = any(open_names & each.config.keys() for each in entries)
        return self._tunable[open_names]

    def _keyed_on(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What of a call is in the key. A default is what the call gives where it is asked for and nothing else."""
        bound = self.jit.bound(args, kwargs)
        named = inspect.signature(self.key).parameters if callable(self.key) else self.key or ()
        parameters = self.jit.signature.parameters
        for name in (*named, *self.do_not_specialize):
            if name in parameters and (default := parameters[name].default) is not inspect.Parameter.empty:
                bound.setdefault(name, default)
        return call_key(bound, self.key, self.bucket, self.do_not_specialize, self.jit.name)

    def _exact(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        return digest([call_key(self.jit.bound(args, kwargs), None, None, (), self.jit.name)])

    def _kernel(self, found: AutotuneResult, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The winner for exactly this call: another size of the same bucket takes its configuration, compiled anew."""
        key = self._exact(args, kwargs)
        if key not in self._kernels:
            plan = self._tuner(args, kwargs).plan(Tuning(**self.settings))
            same = next((e for e in plan.entries if dict(e.config) == dict(found.config)), None)
            entry = replace(plan.entries[0], config=dict(found.config)) if same is None else same
            self._kernels[key] = plan.kernel(entry)
        return self._kernels[key]


_PLAIN = frozenset((int, float, str, bool, type(None)))


def _fast_key(given: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Everything of a call that its key may depend on, as fast as can be; None where that takes a closer look."""
    key: list[Any] = [*kwargs] if kwargs else []
    for each in given:
        kind = each.__class__
        if kind in _PLAIN:
            key += kind, each
        elif is_torch(each) or kind is np.ndarray:
            key += kind, each.dtype, each.shape, getattr(each, "device", None)
        else:
            return None
    return tuple(key)


def autotune(
    fn: JIT | Callable[..., Any] | None = None, *, configs: Any = None,
    template: Template | Callable[..., Template] | None = None, topk: int = 10,
    key: str | Sequence[str] | Callable[..., Hashable] | None = None, bucket: str | Bucket | None = None,
    do_not_specialize: str | Sequence[str] = (), devices: Sequence[str] | None = None, executor: Any = None,
    parallel: int | None = None, pinned: bool = False, **settings: Any,
) -> Any:  # fmt: skip
    """Tune the decorated function at its first call for each key.

    `configs` are dicts or hints, or a callable or generator function of the call's arguments that returns them. Without
    `configs`, the first `topk` hints of `template` are tried. `settings` are those of `AutoTuner.set_profile_args`:
    warmup and rep in runs, timeout in seconds per candidate. `pinned`: nothing is timed, and every process takes the
    same, the predicted fastest; needs hints or a `template`.
    """
    if configs is None and template is None:
        raise ConfigError("autotune needs configs=, or a template= to take hints from")

    def hints(**bound: Any) -> Any:
        made = template if isinstance(template, Template) or template is None else template(**bound)
        assert made is not None
        return made.recommend_hints(topk)

    named = inspect.signature(template).parameters.values() if callable(template) else ()
    hints.__signature__ = inspect.Signature(tuple(named))  # type: ignore[attr-defined]
    chosen = hints if configs is None else configs
    ranked_by = None if configs is None else template
    where = {"devices": devices, "executor": executor, "parallel": parallel}

    def decorate(each: JIT | Callable[..., Any]) -> Autotuned:
        return Autotuned(each, chosen, key, bucket, do_not_specialize, ranked_by, settings, where, pinned)

    return decorate if fn is None else decorate(fn)


class BucketCost(Record):
    """What a call loses by the configuration of its bucket's first call: ratios minus 1, None where unknown."""

    call: Any
    bucket: Any
    config: Mapping[str, Any]
    best_config: Mapping[str, Any]
    predicted: float | None
    measured: float | None

    def __repr__(self) -> str:
        known = {"predicted": self.predicted, "measured": self.measured}
        loss = ", ".join(f"{100 * x:+.3g} % {how}" for how, x in known.items() if x is not None) or "unknown"
        return f"<{self.call} with {words(self.config)}: {loss}; its best is {words(self.best_config)}>"


def check_bucket(
    tuned: Autotuned, sizes: Sequence[tuple[Any, ...] | Mapping[str, Any]], measure: bool = True
) -> list[BucketCost]:
    """What sharing costs: for every call, its time with the shared configuration over its own best, minus 1.

    The shared configuration is the best for the first of `sizes` that falls into the bucket, as it would be in use.
    `predicted` needs hints as configs, or a template. `measured` tunes every size; without `measure` it is left out.
    """
    if not sizes:
        raise ConfigError("check_bucket needs the argument sets to compare: [(1000, 1000), (1024, 1024)]")
    shared: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
    found = []
    for call in sizes:
        if not isinstance(call, Mapping | Sequence):
            raise ConfigError(f"check_bucket takes arguments of calls, each a tuple or a dict, got {shown(call)}")
        args, kwargs = ((), dict(call)) if isinstance(call, Mapping) else (tuple(call), {})
        part = tuned._keyed_on(args, kwargs)
        bucket = digest([part])
        tuner = tuned._tuner(args, kwargs)
        plan = tuner.plan(Tuning(**{**tuned.settings, "baseline": None}))
        ranked = [e for e in plan.entries if e.predicted_ms is not None]
        guess = min(ranked, key=lambda e: e.predicted_ms or 0.0).config if ranked else {}
        own = tuner.tune(plan, **tuned.where) if measure else None
        first = shared.setdefault(bucket, (guess, own.config if own else {}))
        predicted = _excess({frozen(e.config): e.predicted_ms for e in ranked}, first[0], guess)
        measured = None
        if own is not None:
            times = {frozen(m.config): m.median_ms for m in own.table if m.ok}
            if frozen(first[1]) not in times:  # not among this size's own candidates
                again = tuner.run(**tuned.where, **{**tuned.settings, "baseline": dict(first[1])})
                times[frozen(first[1])] = again.baseline_ms
            measured = _excess(times, first[1], own.config)
        found.append(BucketCost(call, part, first[1] or first[0], own.config if own else guess, predicted, measured))
    return found


def _excess(times: Mapping[str, float | None], shared: Mapping[str, Any], best: Mapping[str, Any]) -> float | None:
    a, b = times.get(frozen(shared)), times.get(frozen(best))
    return a / b - 1 if a and b else None
