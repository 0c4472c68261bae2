"""Rank the configurations of any Triton kernel by their machine code, for a GPU that need not be in the machine."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import numpy as np

from ..arch.descriptor import Arch
from ..arch.devices import load
from ..base.errors import CarverError, CompileError, ConfigError, NoCandidates
from ..base.given import number, shown, takes, whole
from ..base.table import ROWS_SHOWN, Column, aligned, listing
from ..base.types import FloatArray, FrozenDict
from ..compiled.arguments import Descriptor, Tensor, given
from ..compiled.facts import TAKEN, Facts
from ..compiled.inspect import Candidate, Grid, candidate, facts_of
from ..compiled.pool import SECONDS, Compilers
from ..compiled.triton import autotuned, called, function_of, plain_config
from ..cost.estimate import LIMITERS, Estimate
from ..cost.models.compiled import MOVABLE, fits, price_compiled, priors
from ..cost.work import Work
from ..kernels.foreign import listed
from ..problem.problem import counted
from .hint import Launch
from .learn import FAILED, Part, check_times, started
from .making import Told
from .profile import Given, Profile, profile_of
from .rank import rank

Args = Mapping[str, Any] | Callable[[Any], Mapping[str, Any]]
SCREENED = 20
"""Default number of configurations to compile when a template's ranking selects them."""
_NONE: Mapping[str, Any] = FrozenDict()


@dataclass(frozen=True)
class Call:
    """A `triton.jit` function and the arguments that it is called with, as `rank_kernel` takes them."""

    kernel: Any
    args: Args
    grid: Grid
    constants: Mapping[str, Any] = _NONE
    values: Mapping[str, Any] = _NONE

    def rank(self, configs: Iterable[Any], arch: Arch, first: Sequence[int]) -> KernelRanking:
        """Compile the configurations at the positions `first` for the device, and rank them by their compiled code."""
        return rank_kernel(
            self.kernel, configs, args=self.args, grid=self.grid, arch=arch, constants=self.constants,
            values=self.values, screen=first,
        )  # fmt: skip


@dataclass(frozen=True)
class KernelHint:
    """A ranked configuration of a kernel. `rank` counts from 1; `index` is its place in the given list.

    `also` are the places of configurations that compile to the same code.
    """

    rank: int
    index: int
    kernel: str
    arch: Arch
    config: Mapping[str, Any]
    predicted_ms: float
    bound: str
    terms_ms: Mapping[str, float]
    launch: Launch
    facts: Facts
    loop_ms: Mapping[str, float]
    """For each resource, the time of the main loop if it were the only bound."""
    details: Mapping[str, float]
    also: tuple[int, ...] = ()
    band_ms: tuple[float, float] | None = None
    """Range that is meant to contain four of five measured times; None unless measurements were learnt."""
    calibrated: str = "not measured"
    """Measurements that the prediction is based on."""

    @property
    def terms(self) -> Mapping[str, float]:
        """The terms of the predicted time. [ms]"""
        return self.terms_ms

    def explain(self) -> str:
        """Why it is predicted to take this time, as text."""
        return "\n".join(_explained(self))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without the facts of the compiled code."""
        return {
            "rank": self.rank, "index": self.index, "kernel": self.kernel, "arch": self.arch.name,
            "config": dict(self.config), "predicted_ms": self.predicted_ms, "bound": self.bound,
            "terms_ms": dict(self.terms_ms), **dict(self.details), "band_ms": self.band_ms,
            "calibrated": self.calibrated,
        }  # fmt: skip

    def __str__(self) -> str:
        config = ", ".join(f"{name}={value}" for name, value in self.config.items())
        return f"#{self.rank} {self.kernel}({config}): {self.predicted_ms:.4g} ms, bound by {self.bound}"


@dataclass(frozen=True, eq=False)
class KernelRanking(Sequence[KernelHint]):
    """Configurations of one kernel, best first. `rejected` counts the reasons for missing ones; `reasons` has that of
    each."""

    kernel: str
    arch: Arch
    hints: tuple[KernelHint, ...]
    rejected: Mapping[str, int]
    reasons: Mapping[int, str] = field(default_factory=dict)
    given: int = 0
    source: str = ""
    """A hash of the source of the kernel and of all functions that it calls."""
    problem: Mapping[str, Any] = _NONE
    """The arguments in the form of profiles: numbers, shapes and strides by name, and a key "kind"."""
    learnt: Profile | None = None

    def __len__(self) -> int:
        return len(self.hints)

    @overload
    def __getitem__(self, i: int) -> KernelHint: ...
    @overload
    def __getitem__(self, i: slice) -> KernelRanking: ...
    def __getitem__(self, i: int | slice) -> KernelHint | KernelRanking:
        return replace(self, hints=self.hints[i]) if isinstance(i, slice) else self.hints[i]

    @property
    def indices(self) -> list[int]:
        """Positions of the ranked configurations in the given list, best first."""
        return [hint.index for hint in self.hints]

    @property
    def seconds(self) -> FloatArray:
        """Predicted times, best first. [s]"""
        return np.array([hint.predicted_ms for hint in self.hints]) / 1e3

    @property
    def half_bands(self) -> FloatArray:
        """Half of the width of each hint's band in logarithms, best first; nan if no measurement changed it."""
        low, high = np.array([hint.band_ms or (np.nan, np.nan) for hint in self.hints]).T
        out: FloatArray = np.log(high / low) / 2
        return out

    def learn(self, times: Mapping[int, float | None]) -> KernelRanking:
        """Rank the same candidates again, with what these measurements teach.

        Times are in ms by `hint.index`; None means that the candidate did not run. As `Ranking.learn`, but with the
        constants by which compiled code is priced.
        """
        check_times(times)
        at = {index: row for row, hint in enumerate(self.hints) for index in (hint.index, *hint.also)}
        part, known = _part(self), {}
        for index, ms in times.items():
            if index not in at:
                raise ConfigError(f"this ranking has {len(self)} candidates; {shown(index)} is none of their places")
            known[at[index]] = ms
        before = self.learnt or Profile(_subject(self), self.arch.name)
        return _ranked(self, part, before.with_measured([part.measured(row, ms) for row, ms in known.items()]))

    @property
    def profile(self) -> dict[str, Any]:
        """What `learn` has learnt, as JSON. `rank_kernel` takes it as `profile=`, for these arguments or others."""
        return (self.learnt or Profile(_subject(self), self.arch.name)).to_dict()

    def explain(self, i: int = 0) -> str:
        """Why `self[i]` is predicted to take the time it takes."""
        return self[i].explain()

    def to_json(self) -> str:
        """Configurations and predicted times as JSON."""
        return json.dumps([hint.to_dict() for hint in self.hints], indent=1, default=str)

    def __repr__(self) -> str:
        hints = self.hints[:ROWS_SHOWN]
        spills = [hint.facts.spill_bytes for hint in hints]
        first = [
            Column("#", tuple(str(hint.rank) for hint in hints)),
            Column("given", tuple(str(hint.index) for hint in hints)),
            Column("ms", aligned([hint.predicted_ms for hint in hints])),
            Column("bound", tuple(hint.bound for hint in hints), True),
        ]
        last = [
            Column("smem KiB", aligned([hint.launch.smem_bytes / 1024 for hint in hints], 3), spare=99),
            Column("registers", tuple(str(hint.facts.registers) for hint in hints), spare=98),
            *([Column("spilled bytes", aligned(spills), spare=97)] if any(spills) else []),
        ]
        alike = sum(len(hint.also) for hint in self.hints)
        remarks = [f"{alike} more compile to the same code as one of these"] if alike else []
        remarks += [TAKEN] if any(hint.facts.assumed for hint in self.hints) else []
        remarks += [f"{n:,} rejected: {why}" for why, n in self.rejected.items()]
        title = f"{self.kernel} on {self.arch.title}: {len(self)} of {self.given} configurations"
        return listing(title, first, [hint.config for hint in hints], last, len(self) - ROWS_SHOWN, remarks)


@takes(ConfigError, besides="^(kernel|configs|args|grid)$")
def rank_kernel(
    kernel: Any, configs: Iterable[Any] | None = None, *, args: Args, grid: Grid, arch: Arch | str | os.PathLike[str],
    constants: Mapping[str, Any] | None = None, values: Mapping[str, Any] | None = None, screen: Any = None,
    compiled: int = SCREENED, pool: Compilers | None = None, processes: int | None = None, seconds: float = SECONDS,
    progress: bool = False, profile: Given | None = None,
) -> KernelRanking:  # fmt: skip
    """Rank configurations of a `triton.jit` function by their predicted times. No GPU is used.

    - `configs`: dicts of constants with num_warps and num_stages (else Triton's defaults), or `triton.Config`s, or a
      dict of lists whose combinations are ranked. None: those of the kernel's own `triton.autotune`, after its
      `early_config_prune`.
    - `arch`: a descriptor, or whatever `with_arch` takes.
    - `args`: arguments by name; tensors as `carver.Tensor` (or anything with dtype, shape and stride), numbers by
      value. Or a function from a configuration to such a dict. A `triton.Config`'s hook may set the blocks of tensor
      descriptors.
    - `constants`: compile-time constants that are not tuned.
    - `grid`: as Triton takes it.
    - `values`: the contents of integer tensors on which loops or branches depend: a number, or an array.
    - `screen`: a template whose own ranking picks the `compiled` configurations that are compiled; or their places in
      the list.
    - `processes`, `seconds`: the number of compilers that run at a time, and the time limit of each. Compilers of a
      `pool` given by the caller stay for the next call.
    - `profile`: what was learnt of the kernel before: the `profile` of a ranking, or a file of it.

    Configurations that compile to the same code are one hint. Raises ConfigError if something does not fit the kernel's
    parameters, ProblemError if no configuration's program can be followed, NoCandidates if none compiles and fits.
    """
    if processes is not None:
        counted("processes", processes, 1)
    number("seconds", seconds, ConfigError)
    name = function_of(kernel).__name__
    known = None if callable(args) or not isinstance(args, Mapping) else {**args, **(constants or {})}
    every = listed(autotuned(kernel, known) if configs is None else configs)
    plain, device = [plain_config(config) for config in every], load(arch)
    if not plain:
        raise ConfigError(f"no configurations given to rank for {name}")
    places = list(range(len(plain))) if screen is None else _screened(screen, device, plain, compiled)
    handed = [called("the function args", args, every[i]) if callable(args) else args for i in places]
    for each in handed:
        if not (isinstance(each, Mapping) and all(isinstance(parameter, str) for parameter in each)):
            raise ConfigError(f"args are a mapping from a parameter's name to what it is given, got {shown(each)}")
    bound: list[tuple[int, Candidate]] = []
    reasons: dict[int, str] = {}
    for i, each in zip(places, handed, strict=True):
        try:
            bound.append((i, candidate(kernel, every[i], each, grid, device, constants)))
        except CompileError as refused:  # options for another vendor, in a list for both
            reasons[i] = str(refused)
    bounds: dict[str, Any] = {"pool": pool, "processes": processes, "seconds": seconds, "progress": progress}
    found = facts_of(kernel, [each for _, each in bound], device, values, **bounds)
    kept: dict[tuple[Any, ...], tuple[Facts, list[int]]] = {}
    for (i, _), facts in zip(bound, found, strict=True):
        if isinstance(facts, CarverError):
            reasons[i] = str(facts)
        elif why := fits(facts, device):
            reasons[i] = why
        else:
            kept.setdefault(facts.identity, (facts, []))[1].append(i)
    rejected = dict(Counter(reasons.values()))
    if not kept:
        raise NoCandidates(f"{name} on {device.name}", rejected)
    candidates, same = zip(*kept.values(), strict=True)
    work, estimate = price_compiled(candidates, device)
    order = np.argsort(estimate.seconds, kind="stable")
    hints = tuple(
        _hint(place + 1, name, device, plain, same[row], candidates[row], work, estimate, int(row))
        for place, row in enumerate(order)
    )
    ranking = KernelRanking(
        name, device, hints, rejected, reasons, given=len(plain), source=function_of(kernel).cache_key,
        problem=described({**handed[0], **(constants or {})}, values if isinstance(values, dict) else {}),
    )  # fmt: skip
    if profile is None:
        return ranking
    return _ranked(ranking, _part(ranking), profile_of(profile, _subject(ranking), device.name))


def described(args: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a launch in the form that profiles use for problems."""
    out: dict[str, Any] = {}
    kinds = []
    for name, handed in args.items():
        value = given(handed)
        tensor = value.tensor if isinstance(value, Descriptor) else value
        if isinstance(tensor, Tensor):
            kinds.append(tensor.dtype)
            out |= {f"{name}.{i}": n for i, n in enumerate(tensor.shape)}
            if tensor.strides != Tensor(tensor.dtype, tensor.shape).strides:
                out |= {f"{name} stride.{i}": n for i, n in enumerate(tensor.strides)}
        elif isinstance(tensor, int | float) and not isinstance(tensor, bool):
            out[name] = tensor
        else:
            kinds.append(str(tensor))
    out |= {f"{name} holds": held for name, held in values.items() if isinstance(held, int | float)}
    return {**out, "kind": " ".join(kinds)}


def _subject(ranking: KernelRanking) -> str:
    """Name of a profile's subject."""
    return f"{ranking.kernel}/compiled"


def _part(ranking: KernelRanking) -> Part:
    facts, constants = [hint.facts for hint in ranking.hints], priors(ranking.arch)
    return Part.of(
        f"{ranking.kernel} {ranking.source[:12]}", started(constants), [hint.config for hint in ranking.hints],
        ranking.problem, lambda k: price_compiled(facts, ranking.arch, k)[1].seconds, MOVABLE, constants,
    )  # fmt: skip


def _ranked(ranking: KernelRanking, part: Part, profile: Profile) -> KernelRanking:
    profile, told, failed = part.told(profile)
    hints = [
        _retold(hint, told[row]) if row in told else hint
        for row, hint in enumerate(ranking.hints) if row not in failed
    ]  # fmt: skip
    if not hints:
        raise NoCandidates(f"{ranking.kernel} on {ranking.arch.name}", {FAILED: len(failed)})
    ordered = sorted(hints, key=lambda hint: (hint.predicted_ms, hint.rank))
    lost = [index for row in failed for index in (ranking.hints[row].index, *ranking.hints[row].also)]
    return replace(
        ranking, hints=tuple(replace(hint, rank=place) for place, hint in enumerate(ordered, 1)), learnt=profile,
        reasons={**ranking.reasons, **dict.fromkeys(lost, FAILED)},
        rejected=dict(Counter(ranking.rejected) + Counter({FAILED: len(lost)})),
    )  # fmt: skip


def _retold(hint: KernelHint, told: Told) -> KernelHint:
    """The hint with the time and band that measurements gave it, and its main loop scaled in proportion."""
    factor = told.seconds * 1e3 / hint.predicted_ms
    loop_ms = FrozenDict({what: t * factor for what, t in hint.loop_ms.items()})
    return replace(hint, loop_ms=loop_ms, **told.fields(hint.predicted_ms, hint.terms_ms))


def _screened(screen: Any, arch: Arch, configs: Sequence[Mapping[str, Any]], compiled: int) -> list[int]:
    """Places in the list of the configurations to compile."""
    if hasattr(screen, "problem"):
        return rank(screen.problem, arch, configs).indices[: counted("compiled", compiled, 1)]
    if isinstance(screen, str) or not isinstance(screen, Iterable):
        raise ConfigError(f"screen is a template, or places in the list of configurations; got {shown(screen)}")
    last = len(configs) - 1
    return list(dict.fromkeys(whole("each place of screen", place, ConfigError, 0, last) for place in screen))


def _hint(
    place: int, name: str, arch: Arch, configs: Sequence[Mapping[str, Any]], same: Sequence[int], facts: Facts,
    work: Work, estimate: Estimate, row: int,
) -> KernelHint:  # fmt: skip
    milliseconds = 1e3 / arch.clock_hz
    waves = float(estimate.waves[row])
    passes = float(work.steps[row]) * max(waves, 1.0)
    dram = float(np.broadcast_to(work.facts["dram_bytes"], len(work))[row])
    return KernelHint(
        rank=place, index=same[0], also=tuple(same[1:]), kernel=name, arch=arch, facts=facts,
        config=FrozenDict(configs[same[0]]),
        predicted_ms=float(estimate.seconds[row]) * 1e3, bound=LIMITERS[int(estimate.limiter[row])],
        terms_ms=FrozenDict({term: float(column[row]) * 1e3 for term, column in estimate.terms.items()}),
        loop_ms=FrozenDict({what: float(clk[row]) * passes * milliseconds for what, clk in estimate.rows.items()}),
        launch=Launch(facts.grid, facts.warps * arch.warp_size, facts.shared_bytes, facts.registers),
        details=FrozenDict({
            "waves": waves, "blocks_per_sm": float(facts.resident), "steps": float(work.steps[row]), "dram_bytes": dram,
            "compulsory_bytes": facts.read_bytes + facts.written_bytes, "spill_bytes": float(facts.spill_bytes),
        }),
    )  # fmt: skip


def _explained(h: KernelHint) -> Iterator[str]:
    facts = h.facts
    yield f"{h.kernel} on {h.arch.title}"
    yield ", ".join(f"{name}={value}" for name, value in h.config.items())
    rate = f"{facts.dot_flops * facts.programs / h.predicted_ms / 1e9:.4g} TFLOP/s, " if facts.dot_flops else ""
    bandwidth = h.details["compulsory_bytes"] / h.predicted_ms / 1e6
    yield f"{h.predicted_ms:.4g} ms predicted: {rate}{bandwidth:,.0f} GB/s of bytes that must move; bound by {h.bound}"
    yield ""
    yield "Where the time goes"
    for term, ms in h.terms_ms.items():
        if ms > 0.001 * h.predicted_ms:
            yield f"  {ms:9.4f} ms  {ms / h.predicted_ms:4.0%}  {term}"
    yield "The main loop, if each of these alone had to be waited for"
    for what, ms in h.loop_ms.items():
        yield f"  {ms:9.4f} ms  {what}"
    core = "a CU" if h.arch.vendor == "amd" else "an SM"
    if h.band_ms is not None:
        yield f"{h.band_ms[0]:.4g} to {h.band_ms[1]:.4g} ms holds four times of five: {h.calibrated}"
    yield f"{facts.programs:,} programs, {h.details['blocks_per_sm']:g} {core}, {h.details['waves']:.2f} waves"
    moved, least = h.details["dram_bytes"], h.details["compulsory_bytes"]
    yield f"{moved / 1e6:,.1f} MB of DRAM, {least / 1e6:,.1f} MB of them compulsory"
    yield str(facts)
