"""One tuning before it runs: candidates, what each is made of, inputs, device, and the key that it is known by."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from ..arch import detect
from ..arch import devices as archs
from ..arch.descriptor import Arch
from ..base.errors import CarverError, ConfigError, RunError, nearest
from ..base.folders import memory_bytes, shipped
from ..base.given import fits, in_words, index, shown
from ..compiled.binary import Tensor
from ..compiled.triton import function_of
from ..ops.operator import Template
from ..problem.problem import counted
from ..ranking.ranking import Ranking
from ..ranking.recommend import rank
from ..run.built import JIT, Built, device_name
from ..run.check import Checker, OperatorReference, guarded, namespace
from ..run.cuda import check_timer
from ..run.inputs import (
    Inputs,
    PythonCode,
    TensorSupplyType,
    Value,
    from_user,
    given_inputs,
    serialized,
    supplied,
    supply,
)  # fmt: skip
from ..run.records import Measurement
from ..run.session import Spec, Trial, digest, program_identity
from ..run.spec import HintKernel, Kernel, Param, gpu_of, hint_params, param_of, places, sizes_of
from ..run.worker import Settings
from .candidates import Entry, Made, check_bound, expand, strategy, takes_config
from .keys import Unstable, compiler_key, device_key, plain, software_key

OBJECTIVES = ("time", "energy", "smem")
_SCHEMA = 4  # of the keys of tunings and candidates


def names_of(given: Any) -> tuple[Any, ...]:
    """Names or places, of which one alone may stand without a list."""
    return (given,) if isinstance(given, str) or index(given) is not None else tuple(given)


@dataclass
class Tuning:
    """Everything that `set_profile_args` and `run` take, with its default."""

    warmup: int = 25
    rep: int = 100
    timeout: float = 100.0
    supply_type: TensorSupplyType | str = TensorSupplyType.Auto
    supply_prog: Callable[..., Any] | None = None
    ref_prog: Callable[..., Any] | None = None
    manual_check_prog: Callable[..., Any] | None = None
    skip_check: bool = False
    rtol: float | None = None
    atol: float | None = None
    max_mismatched_ratio: float | None = None
    """Of the checks: 1e-2, 1e-2 of the root mean square and 0.01 for a reference of the user's, all 0 beyond what
    carver's own allows."""
    reset_to_zero: str | int | Sequence[str | int] = ()
    restore_value: str | int | Sequence[str | int] = ()
    pre_hook: Callable[..., Any] | None = None
    post_hook: Callable[..., Any] | None = None
    objective: str | Callable[[Measurement], float] = "time"
    """What is to be least of a measurement: "time", "energy" [J], "smem" [bytes], or a function of it."""
    bench: Callable[..., Any] | None = None
    warm_cache: bool = False
    timer: str = "events"
    """Of a GPU: "events", "graph" or "cupti" (`carver.run.cuda`)."""
    slow_factor: float = 4.0
    retakes: int = 3
    """How often a timing that others on the device disturbed is taken again; 0: timings are kept as they are."""
    isolate: bool = True
    seed: int = 0
    search: str = "learn"
    compiled: int | None = None
    """Of candidates that are one Triton function: the first so many are compiled for the device and ranked anew by what
    came out, before any is measured; what does not compile or fit falls out, and so do the others."""
    trials: int | None = None
    seconds: float | None = None
    baseline: Mapping[str, Any] | bool | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Tuning:
        """The same from names and values. Raises ConfigError for a name that there is none of."""
        known = [each.name for each in fields(cls)]
        if unknown := [name for name in given if name not in known]:
            others = shipped("settings")["setting"]
            name = next((name for name in unknown if name in others), unknown[0])
            said = f": {others[name]}" if name in others else f"; {nearest(name, known)}"
            raise ConfigError(f"a tuning has no setting {name!r}{said}")
        return cls(**given)

    def __post_init__(self) -> None:
        for each in fields(self):
            value, kind = getattr(self, each.name), str(each.type)
            if each.name != "slow_factor" and not fits(value, kind, globals()):  # infinity is no limit there
                raise ConfigError(f"{each.name} must be {in_words(kind)}, got {shown(value)}")
        self.supply_type = TensorSupplyType.of(self.supply_type)
        check_timer(self.timer)
        strategy(self.search)
        if not callable(self.objective) and self.objective not in OBJECTIVES:
            raise ConfigError(f"no objective {self.objective!r}; {nearest(str(self.objective), OBJECTIVES)}, or a "
                              "function of a Measurement")  # fmt: skip
        if self.compiled is not None:
            counted("compiled", self.compiled, 1)
        for name, least in (("trials", "above 0"), ("seconds", "above 0"), ("timeout", "a time above 0 in seconds")):
            if (value := getattr(self, name)) is not None and not 0 < value < math.inf:
                raise ConfigError(f"{name} must be {least}, got {value!r}")
        if self.retakes < 0:
            raise ConfigError(f"retakes must be a whole number from 0 on, got {self.retakes!r}")

    def settings(self) -> Settings:
        return Settings(
            warm=self.warm_cache, reset_to_zero=names_of(self.reset_to_zero),
            restore_value=names_of(self.restore_value), rounds=1, timeout_s=self.timeout, warmup=self.warmup,
            rep=self.rep, slow_factor=self.slow_factor, timer=self.timer,
        )  # fmt: skip

    def checker(self) -> Checker:
        own = isinstance(self.ref_prog, OperatorReference)
        rtol, ratio = ((0.0 if own else 1e-2) if x is None else x for x in (self.rtol, self.max_mismatched_ratio))
        atol = 0.0 if own and self.atol is None else self.atol
        return Checker(self.ref_prog, self.manual_check_prog, self.skip_check, rtol, atol, ratio)


@dataclass
class Plan:
    """One tuning, with nothing run yet: candidates, what each is made of, inputs, and the key."""

    name: str
    jit: JIT
    bound: Mapping[str, Any]
    entries: list[Entry]
    device: str
    arch: Arch
    out: tuple[int, ...]
    inputs: Inputs
    settings: Tuning
    code: PythonCode
    key: str
    notes: tuple[str, ...]
    described: bool
    """Whether the kernel says what arrays it takes; else they are those that it is given."""
    kept: bool
    """Whether anything of it may be kept beyond this process."""
    identity: Mapping[str, Any] = field(default_factory=dict)
    """What the key of a candidate has in common with those of all others, by what it says."""
    parts: Mapping[str, Any] = field(default_factory=dict)
    """All that entered `key`."""
    ranking: Ranking | None = None
    """Of the candidates, where the model prices them: what the search learns with."""

    @property
    def kind(self) -> str:
        return self.device.partition(":")[0]

    @property
    def learnt_as(self) -> str:
        """The function's name and a digest of its source: what is learnt of another of that name is kept apart."""
        return f"{self.name}-{digest([self.identity['function']])[:8]}"

    @property
    def python(self) -> bool:
        return self.code.function is not None

    @property
    def names(self) -> list[str]:
        """Of the arguments of every run."""
        return [v.name for v in self.inputs.values]

    @property
    def outputs(self) -> tuple[int, ...]:
        """Their places among them."""
        return places(self.out, len(self.inputs.values))

    def spec(self, device: str) -> Spec:
        names, out = self.names, self.outputs
        count = len(names)
        restored = [n for n in names_of(self.settings.restore_value) if n in (*names, *range(-count, count))]
        kept = {n % count if isinstance(n, int) else names.index(n) for n in restored}
        return Spec(
            device, self.settings.settings(), digest([self.key, self.inputs.checksum]), self.inputs,
            dict(self.bound) if self.python else {}, out, tuple(i for i in out if i not in kept),
            self.settings.checker(), self.code, self.settings.isolate, self.settings.retakes,
            self.settings.objective == "energy",
        )  # fmt: skip

    def trial(self, index: int) -> Trial | RunError:
        """A candidate for a session, its key included."""
        entry, kernel = self.entries[index], self.entries[index].made
        if isinstance(kernel, RunError):
            return kernel
        program = known = None
        try:
            if kernel is None or kernel.is_triton:
                config = {k: serialized(v) for k, v in entry.config.items()}
            else:
                program = kernel.program([v.param for v in self.inputs.values], self.arch)
                known, config = program_identity(program, compiler_key(self.kind)), entry.recorded
        except ConfigError as e:
            return RunError(str(e))
        key = digest([self.identity, known, _known_by(entry) if self.kept else [self.key, entry.index]])
        pre, post = (self.code.hooks.index(hook) if hook is not None else -1 for hook in entry.hooks)
        return Trial(key, config, program, hooks=(pre, post))

    def kernel(self, entry: Entry, built: Built | None = None) -> Any:
        """The kernel of a config, with its own hooks before and after each call, as in Triton."""
        kernel = self.build(entry) if built is None else built
        pre, post = entry.hooks
        if pre is None and post is None:
            return kernel

        def run(*arrays: Any) -> Any:
            given = {**entry.config, **dict(zip(self.names, arrays, strict=False)), "config": dict(entry.config)}
            if pre is not None:
                pre(given)
            returned = kernel(*arrays)
            if post is not None:
                post(given)
            return returned

        return run

    def build(self, entry: Entry) -> Any:
        """What a config makes of the function in this process: a kernel of source with these arrays, or code."""
        code = replace(self.code, function=self.jit.fn)
        made = code.called_with(dict(entry.config), self.bound, self.names)
        if self.python:
            return made if code.direct else self.jit.build(made, self.bound)
        tuned = tuple(replace(v.param, is_output=i in self.outputs) for i, v in enumerate(self.inputs.values))
        params = self.jit.params_of(made, self.bound) if self.described else None
        return Built(made, self.device, params or tuned, self.out, tuned_for=tuned)

    @property
    def taken(self) -> str:
        """What a kernel that does not describe its arrays was called with, in a line."""
        if self.described or self.python:
            return ""
        said = ", ".join(f"{v.name} {v.dtype}{list(getattr(v.given, 'shape', ()))}{' (output)' * (i in self.outputs)}"
                         for i, v in enumerate(self.inputs.values))  # fmt: skip
        return f"it was called with {said}; if it takes others, describe them with Kernel(params=...)\n"


def _known_by(entry: Entry) -> Any:
    config = plain(dict(entry.config))
    return config if entry.hooks == (None, None) else [config, *map(plain, entry.hooks)]


def make_plan(
    jit: JIT, configs: Any, args: Sequence[Any], kwargs: Mapping[str, Any], settings: Tuning,
    template: Template | None,
) -> Plan:  # fmt: skip
    """Expand and check all that can be checked without running a candidate."""
    name = jit.name
    try:
        bound = jit.bound(args, kwargs)
    except TypeError as e:
        raise ConfigError(f"{name}{jit.signature}: {e}") from None
    fixed = {k: v for k, v in bound.items() if param_of(k, v) is None}
    guess = likely_arch(jit, [v for k, v in bound.items() if k not in fixed])
    eager = jit.arrays(bound)
    fixed |= eager
    entries = expand(configs, jit.signature, fixed, guess, name)
    ranking = _ranking_of(entries)
    if template is not None:
        entries, ranking = _ranked(entries, template, guess)
    if settings.baseline:
        entries.append(_baseline(entries, settings.baseline, jit))
    open_names = list(check_bound(entries, jit.signature, fixed, name))
    given = tuple(bound[n] for n in eager or open_names if n in bound) or given_inputs()
    direct = bool(open_names)
    if direct and (given is None or len(given) != len(open_names)) and settings.supply_prog is None:
        raise ConfigError(
            f"{', '.join(open_names)} of {name} get a value neither from the call nor from the configs: give sizes "
            "with from_kernel(..., args=(...)), and arrays that it works on itself with carver.set_autotune_inputs(...)"
        )
    entries = entries if direct else _described(jit, fixed, entries)
    made = next((e.made for e in entries if isinstance(e.made, Kernel | HintKernel)), None)
    python = made is None or made.is_triton
    interpreted = python and jit.target == "cpu"  # a Triton function, too, under TRITON_INTERPRET=1
    device = choose_device(jit.target, "python" if made is None or interpreted else made.kind, given or ())
    check_timer(settings.timer, device.partition(":")[0])
    arch = archs.load(device)
    hint = next((e.hint for e in entries if e.hint is not None), None)
    params = jit.params_of(made, fixed)
    described = params is not None
    if params is None and hint is not None and not direct:
        returns = made is None and jit.out_idx is None  # Python code gives back what it makes
        params = tuple(p for p in hint_params(hint) if not (returns and p.is_output))
    out = jit.outputs(None if python else made, params)
    names = open_names if direct else [p.name for p in params or eager.values()]
    inputs = _inputs(given, params, described, names, out, settings, device, arch, name)
    if not described and params and len(inputs.values) != len(params):
        out = jit.outputs(None if python else made, None)
    if out == (-1,) and jit.out_idx is None:  # of what a kernel takes, the last array, whatever numbers follow
        out = (max((i for i, v in enumerate(inputs.values) if v.form != "plain"), default=-1),)
    notes: tuple[str, ...] = ()
    if settings.compiled is not None:
        if made is None or not made.is_triton:
            raise ConfigError("compiled= takes a function that returns carver.Kernel(triton function, ...)")
        listed, last = (entries[:-1], entries[-1:]) if settings.baseline else (entries, [])
        own = [replace(entry, made=_made(jit, fixed, entry)) for entry in listed]
        listed, rejected = ranked_by_code(own, inputs.values, arch, settings.compiled)
        entries, ranking = [*listed, *last], None
        notes = tuple(f"{n} not measured: {why}" for why, n in rejected.items())
    hooks = tuple(dict.fromkeys(hook for e in entries for hook in e.hooks if hook is not None))
    code = PythonCode(
        jit.fn if python else None, settings.pre_hook, settings.bench, settings.post_hook, hooks, direct,
        takes_config(jit.signature),
    )  # fmt: skip
    return _keyed(Plan(
        name, jit, fixed, entries, device, arch, out, inputs, settings, code, "", notes, described, True,
        ranking=ranking,
    ))  # fmt: skip


def likely_arch(jit: JIT, arrays: Sequence[Any]) -> Callable[[], Arch]:
    """The device that candidates are asked for before there is a kernel: of the target, the arrays, this machine."""

    def load() -> Arch:
        values = [*arrays, *(given_inputs() or ())]
        if jit.target == "auto" and gpu_of(values) is None:
            return archs.CUDA("auto") if detect.nvidia_names() else archs.CPU("auto")
        return archs.load(choose_device(jit.target, "python", values))

    return load


def choose_device(target: str, kind: str, values: Sequence[Any]) -> str:
    """Where to run: on the target's device, else where the arrays are, else by the kind of the kernel."""
    place = gpu_of(values)
    if place is None:
        return "cpu" if (target, kind) == ("auto", "python") else device_name(target, kind)
    if target in ("auto", "cuda"):
        target = place
    if not target.startswith(place):
        raise ConfigError(f"the arrays are on {place}, the target is {target!r}; move them there, or leave target out")
    return device_name(target, kind)


def _ranked(entries: list[Entry], template: Template, arch: Callable[[], Arch]) -> tuple[list[Entry], Ranking]:
    """Predictions for configs in a backend's own words, from ranking them with a template."""
    target = template.arch or arch()
    backend = "cpu" if target.kind == "cpu" else "triton" if "num_warps" in entries[0].config else "cuda"
    ranking = template.with_arch(target).rank([dict(e.config) for e in entries], backend)
    times = {hint.index: hint.predicted_ms for hint in ranking}
    return [replace(e, predicted_ms=times.get(e.index)) for e in entries], ranking


def _ranking_of(entries: Sequence[Entry]) -> Ranking | None:
    """Of hints of one problem on one device, which are the candidates; None where they are anything else."""
    hints = [e.hint for e in entries if e.hint is not None]
    if len(hints) < len(entries) or len({(h.problem, h.arch, h.backend) for h in hints}) != 1:
        return None
    try:
        return rank(hints[0].problem, hints[0].arch, hints, hints[0].backend)
    except CarverError:
        return None


def _baseline(entries: list[Entry], given: Mapping[str, Any] | bool, jit: JIT) -> Entry:
    """The config that the winner is compared with: one that is given, or (True) the function's own defaults."""
    parameters = jit.signature.parameters
    if isinstance(given, Mapping):
        anything = {"config", "hint"} & parameters.keys() or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        if unknown := [] if anything else [name for name in given if name not in parameters]:
            word = unknown[0]
            raise ConfigError(f"baseline of {jit.name} has unknown key {word!r}; {nearest(word, parameters)}")
        return Entry(len(entries), dict(given))
    config = {k: parameters[k].default for k in entries[0].config if k in parameters}
    if missing := [k for k, v in config.items() if v is parameters[k].empty]:
        raise ConfigError(f"baseline=True takes the defaults of {jit.name}; {missing[0]!r} has none")
    return Entry(len(entries), config)


def _described(jit: JIT, fixed: Mapping[str, Any], entries: list[Entry]) -> list[Entry]:
    """The candidates with what the function returns for each, as far as that is a description and no code."""
    found: list[Entry] = []
    for entry in entries:
        made = _made(jit, fixed, entry)
        if not isinstance(made, Kernel | HintKernel | RunError):
            return entries
        if not isinstance(made, RunError) and made.is_triton:
            return [replace(e, made=made) for e in entries]
        found.append(replace(entry, made=made))
    if all(isinstance(e.made, RunError) for e in found):
        raise RunError(f"{jit.name} fails for every config; the first: {found[0].made}")
    return found


def _made(jit: JIT, fixed: Mapping[str, Any], entry: Entry) -> Any:
    """What the function returns for a candidate, or how it fails."""
    options = {"config": dict(entry.config)} if takes_config(jit.signature) else dict(entry.config)
    given = ", ".join(f"{k}={v!r}" for k, v in entry.config.items())
    try:
        with guarded(f"{jit.name}({given})"):
            return jit.fn(**{**fixed, **options})
    except (CarverError, AssertionError) as e:
        return RunError(str(e) or "an assertion of the function failed")


def _inputs(
    given: tuple[Any, ...] | None, params: tuple[Param, ...] | None, described: bool, names: Sequence[str],
    out: tuple[int, ...], settings: Tuning, device: str, arch: Arch, what: str,
) -> Inputs:  # fmt: skip
    """In the order context manager, `supply_prog`, `supply_type`; outputs that are not given are made. `params` that
    the kernel is not `described` by are the hints' problem's: a kernel given all its arrays may differ."""
    kind = device.partition(":")[0]
    form = "torch" if kind == "cuda" and namespace("cuda").__name__ == "torch" else "numpy"
    marked: tuple[Param, ...] = ()
    if params:
        chosen = places(out, len(params))
        marked = tuple(Param(p.name, p.shape, p.dtype, i in chosen) for i, p in enumerate(params))
    if given is None and settings.supply_prog is None:
        if params is None:
            raise ConfigError(
                f"the arrays of {what} are not known: give inputs with carver.set_autotune_inputs(...), supply_prog=, "
                "or describe them with Kernel(params=[('A', (M, K), 'float16'), ...])"
            )
        room_bytes = arch.dram_bytes if kind == "cuda" else memory_bytes()
        if (needed := sum(p.size_bytes for p in params)) > room_bytes:
            largest = max(params, key=lambda p: p.size_bytes)
            raise ConfigError(
                f"the inputs take {needed / 1e9:.3g} GB ({largest.name} alone {largest.size_bytes / 1e9:.3g} GB); "
                f"{device} has {room_bytes / 1e9:.3g} GB"
            )
        return supply(marked, TensorSupplyType.of(settings.supply_type), settings.seed, form)
    if given is not None:
        drawn_for = [p.name for p in marked if not p.is_output]
        labels = next((each for each in (names, drawn_for) if len(each) == len(given)), None)
        found = from_user(given, labels or [f"arg{i}" for i in range(len(given))], "set_autotune_inputs")
    else:
        assert settings.supply_prog is not None
        with guarded("supply_prog"):
            found = supplied(settings.supply_prog, marked)
    left_out = sum(p.is_output for p in marked) if len(found.values) < len(marked) else 0
    if len(found.values) != len(marked) - left_out:
        if not described:
            return found
        raise ConfigError(f"{what} takes {', '.join(p.name for p in marked)}; {found.origin} gives {len(found.values)}")
    if not marked or not (described or left_out):
        return found
    drawn = iter(found.values)
    values = [None if left_out and p.is_output else next(drawn) for p in marked]
    by = "the kernel's params" if described else "the problem of the hints (describe others with Kernel(params=...))"
    sizes = sizes_of(marked, [None if v is None or v.form == "plain" else v.param for v in values], by)

    def value(p: Param, v: Value | None) -> Value:
        if v is None:
            return supply([p.at(sizes)], TensorSupplyType.Zero, 0, form).values[0]
        is_array = v.form != "plain"
        if v.given is not None and is_array == p.by_value:
            raise ConfigError(f"{p.name} is {'a number' if p.by_value else 'an array'} by {by}; given is {v.dtype}")
        return v if v.given is None else replace(v, dtype=p.dtype)

    return Inputs(tuple(map(value, marked, values)), found.origin)


def _keyed(plan: Plan) -> Plan:
    """The plan with its key; where something has no identity beyond this process, with one of its own."""
    s = plan.settings
    hooks = ("supply_prog", "ref_prog", "manual_check_prog", "pre_hook", "bench", "post_hook")
    kept, notes = True, plan.notes
    checker, how = s.checker(), asdict(s.settings())
    timeout_s = how.pop("timeout_s")  # of the run, not of a candidate: what ended in time is no other for it
    given = plan.inputs.origin if plan.inputs.origin.startswith("supply_type") else plan.inputs.origin.split(",")[0]
    arrays = [
        [v.name, v.form, v.dtype, v.given if v.form == "plain" else list(v.given.shape)] for v in plan.inputs.values
    ]
    try:
        identity: dict[str, Any] = {
            "schema": _SCHEMA, "function": plain(plan.jit.fn), "arguments": plain(dict(plan.bound)),
            "outputs": list(plan.out), "timing": {**how, "retakes": s.retakes, "energy": s.objective == "energy"},
            "checks": {
                "skip_check": s.skip_check, "rtol": checker.rtol, "atol": checker.atol,
                "max_mismatched_ratio": checker.max_mismatched_ratio, "isolate": s.isolate,
            },
            "hooks": {name: plain(getattr(s, name)) for name in hooks}, "inputs": given, "arrays": arrays,
            "device": {"kind": plan.kind, **device_key(plan.kind, plan.arch)}, "software": software_key(plan.kind),
        }  # fmt: skip
        every = [_known_by(e) for e in plan.entries]
        objective = plain(s.objective)
    except Unstable as e:
        identity, every, objective, kept = {"once": uuid.uuid4().hex}, [], None, False
        notes = (*notes, f"not kept beyond this process: {e}",)
    programs = [_program_identity(e.made, plan) for e in plan.entries]
    baseline = dict(s.baseline) if isinstance(s.baseline, Mapping) else s.baseline
    search = {
        "search": s.search, "trials": s.trials, "seconds": s.seconds, "seed": s.seed,
        "baseline": baseline, "timeout": timeout_s, "objective": objective,
    }  # fmt: skip
    plan.identity, plan.notes, plan.kept = identity, notes, kept
    plan.parts = {**identity, "candidates": every, "programs": programs, "search": search}
    plan.key = digest([plan.parts])
    return plan


def _program_identity(kernel: Made, plan: Plan) -> Any:
    """Source with its headers and macros, and the launch; nothing for Python code, whose function is in the key."""
    if not isinstance(kernel, Kernel | HintKernel) or kernel.is_triton:
        return str(kernel) if isinstance(kernel, RunError) else None
    launch: list[Any] = []
    if isinstance(kernel, Kernel):
        launch = [str(kernel.grid), str(kernel.block), kernel.shared_bytes, [str(x) for x in kernel.scalars]]
    try:
        return [kernel.compiled_from(plan.arch).key(compiler_key(plan.kind)), *launch]
    except ConfigError as e:
        return str(e)


def ranked_by_code(
    entries: Sequence[Entry], values: Sequence[Value], arch: Arch, count: int
) -> tuple[list[Entry], Mapping[str, int]]:
    """The first `count` candidates compiled for the device, best first, and why others of them fell out.

    First are those that are predicted fastest, else those first in the list. `values`: arguments before the scalars.
    Raises NoCandidates where none compiles and fits.
    """
    from ..ranking.kernel import rank_kernel

    made = [(e, e.made) for e in entries if isinstance(e.made, Kernel)]
    first = sorted(made, key=lambda each: each[0].predicted_ms or math.inf)[:count]
    configs = [dict(kernel.defines) for _, kernel in first]
    launches = [kernel.numbers([value.param for value in values]) for _, kernel in first]
    by_config = {tuple(config.items()): launch for config, launch in zip(configs, launches, strict=True)}
    given = [value.given if value.form == "plain" else Tensor(value.dtype, value.given.shape) for value in values]
    source = first[0][1].source
    names = function_of(source).arg_names

    def args(config: Mapping[str, Any]) -> dict[str, Any]:
        return dict(zip(names, (*given, *by_config[tuple(config.items())][1]), strict=False))

    def grid(known: Mapping[str, Any]) -> Any:
        blocks = by_config[tuple((name, known[name]) for name in configs[0])][0]
        return blocks(known) if callable(blocks) else blocks

    ranking = rank_kernel(source, configs, args=args, grid=grid, arch=arch, progress=False)
    kept = [replace(first[hint.index][0], predicted_ms=hint.predicted_ms) for hint in ranking]
    return kept, ranking.rejected
