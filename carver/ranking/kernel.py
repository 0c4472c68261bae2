"""Rank configurations by their machine code, for a GPU that need not be in the machine: of Triton kernels, which are
compiled here, and of any language by the facts of their code (`rank_facts`)."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from ..arch.devices import load
from ..base.errors import CarverError, CompileError, CompilerFailed, ConfigError, NoCandidates, ProblemError
from ..base.given import number, shown, takes, whole
from ..base.table import is_watched
from ..base.types import FloatArray, FrozenDict, IntArray, Record
from ..compiled.binary import Descriptor, Tensor, check_values, extents, handed, leaves
from ..compiled.facts import Facts, drawn, lines_of
from ..compiled.inspect import Candidate, Grid, Values, candidate, compilers, facts_of, held
from ..compiled.pool import SECONDS, Compilers
from ..compiled.triton import autotuned, called, function_of, plain_config
from ..cost.estimate import Estimate, Work
from ..cost.models.compiled import MOVABLE, fits, price_compiled, priors
from ..kernels.backends import listed
from ..problem.problem import counted
from .declared import MARKS, WIDENED, Kind, widened
from .hint import Hint, Launch, Subject
from .profile import WITHIN, Given, Prior
from .ranking import Ranking
from .recommend import rank
from .surrogate import STARTS, Price, axes_of, explored, predicted, with_profile

Args = Mapping[str, Any] | Callable[[Any], Mapping[str, Any]]
LONG, ROOTS = 20, 2.25
"""Lists of so many are compiled in part: so many roots of their length. How many find the first follows from what a
list varies, and its length from all ways to combine that: at one share of all, short lists lose more than long ones.
What it costs: `python benchmarks/few_compiles.py score`."""
SHORT, WAVES = 15, 2
"""While somebody waits, shorter lists are compiled whole, and where each processor has no more than so many to compile:
choosing among them saves no time, since each of four batches waits for its slowest compiler. By measured times of 167
lists of three tables, parts of 15 to 19 hold the best but for 0.3 %, of 20 to 32 but for 0.5 %, of longer ones but for
0.9 %; parts of 12 to 14 of one table lose 2 %."""
SETTLED, LOOSE = (-0.15, 0.2), (-0.35, 0.45)
"""Bands of kernels that nobody timed, on the GPUs on which others were: where all places are known, and where loaded
numbers choose them, sums are atomic, or L2 bounds the time. [ln of measured / predicted] Source: predictions that were
made before the times. Of 239 kernels of 41 packages the middle 80 % lie within -0.17 and 0.17
(`tests/data/h200/packages_third.jsonl.gz`); of the last four zoos within -0.11 to -0.19 and 0.13 to 0.24, and within
-0.13 to -0.62 and 0.14 to 1.45. Other devices have wider ones, as kernels that are declared."""
TIMED = "h100", "h200"
WHOLE = 0.9
"""Less of a tensor is not the same: distinct bytes of a large grid, of which a part is evaluated, are within 10 %."""
TABLE = 0.01
"""Share of what a kernel moves that a table may have with an entry for each of its blocks, of which it has fewer where
these are larger."""
NOT_COMPILED = "not compiled, since others promise more"
SCREENED = 20
"""Default number of configurations to compile when a template's ranking selects them."""
_NONE: Mapping[str, Any] = FrozenDict()
_REASONS: Mapping[int, str] = {}


class Call(Record):
    """A `triton.jit` function and the arguments that it is called with, as `rank_kernel` takes them."""

    kernel: Any
    args: Args
    grid: Grid
    constants: Mapping[str, Any] = _NONE
    values: Mapping[str, Any] = _NONE

    def rank(self, configs: Iterable[Any], arch: Arch, first: Sequence[int]) -> Ranking:
        """Compile the configurations at the positions `first` for the device, and rank them by their compiled code."""
        return rank_kernel(configs=configs, arch=arch, screen=first, **vars(self))


class Compiled(Record, eq=False):
    """Candidates of one kernel that were compiled and fit: a row for each code."""

    subject: Subject
    arch: Arch
    backend: str
    configs: tuple[Mapping[str, Any], ...]
    places: tuple[tuple[int, ...], ...]
    """Of each, the places in the given list whose configurations compile to it."""
    facts: tuple[Facts, ...]
    source: str
    """Identifier of the code that was compiled: measurements of another teach nothing."""
    constants: Mapping[str, float]
    """Of the model: it starts from them."""
    work: Work
    estimate: Estimate
    notes: tuple[str, ...] = ()

    @property
    def of(self) -> str:
        return f"{self.subject}/compiled"

    @property
    def seconds(self) -> FloatArray:
        return self.estimate.seconds

    @property
    def index(self) -> IntArray:
        return np.array([same[0] for same in self.places], np.int64)

    @property
    def also(self) -> Mapping[int, tuple[int, ...]]:
        return {row: same[1:] for row, same in enumerate(self.places) if len(same) > 1}

    @property
    def keys(self) -> list[str]:
        return list(dict.fromkeys(name for config in self.configs for name in config))

    def column(self, key: str) -> tuple[IntArray, list[Any]]:
        rows = [row for row, config in enumerate(self.configs) if key in config]
        return np.array(rows, np.int64), [self.configs[row][key] for row in rows]

    def hints(self, rows: Sequence[int], ranks: Sequence[int]) -> list[Hint]:
        return [self._hint(row, rank) for row, rank in zip(rows, ranks, strict=True)]

    def _hint(self, row: int, rank: int) -> Hint:
        facts, work, estimate, arch = self.facts[row], self.work, self.estimate, self.arch
        waves, seconds = float(estimate.waves[row]), float(estimate.seconds[row])
        details = {
            "waves": waves, "blocks_per_sm": float(facts.resident), "steps": float(work.steps[row]),
            "dram_bytes": float(np.broadcast_to(work.facts["dram_bytes"], len(work))[row]),
            "compulsory_bytes": facts.read_bytes + facts.written_bytes, "spill_bytes": float(facts.spill_bytes),
        }  # fmt: skip
        if facts.dot_flops:
            details["tflops"] = facts.dot_flops * facts.programs / seconds / 1e12
        port = "shared memory" if facts.shared_bytes else "L1"  # which share it
        loop_ms = {port if what == "shared memory" else what: float(alone[row]) * 1e3
                   for what, alone in estimate.alone_s.items()}  # fmt: skip
        waits_s = np.broadcast_to(work.in_turn_s + work.handed_on_s, len(work))  # of programs, for each other
        loop_ms["latency"] += 1e3 * float(waits_s[row])
        bound = max(loop_ms, key=loop_ms.__getitem__)
        loose = bound == "L2" or bool(facts.anywhere) or facts.bytes_of("atomic") > 0
        (low, high), calibrated = band(arch, loose)
        return Hint(
            rank=rank, index=self.places[row][0], also=self.places[row][1:], kernel=str(self.subject), arch=arch,
            backend=self.backend, subject=self.subject, facts=facts, config=FrozenDict(self.configs[row]),
            predicted_ms=seconds * 1e3, bound=bound, calibrated=calibrated,
            band_ms=(seconds * 1e3 * math.exp(low), seconds * 1e3 * math.exp(high)),
            terms_ms=FrozenDict({term: float(column[row]) * 1e3 for term, column in estimate.terms.items()}),
            loop_ms=FrozenDict(loop_ms),
            launch=Launch(facts.grid, facts.threads, facts.shared_bytes, facts.registers),
            num_warps=facts.warps, pipeline_stage=self.configs[row].get("num_stages"), use_tc=facts.dot_flops > 0,
            cluster=(facts.ctas, 1, 1), details=FrozenDict(details), notes=self.notes,
        )  # fmt: skip

    def learnable(self, rows: Sequence[int]) -> list[Prior]:
        facts, constants = [self.facts[row] for row in rows], self.constants
        return [Prior.made(
            rows, f"{self.subject} {self.source[:12]}", [self.configs[row] for row in rows], self.subject.sizes,
            lambda k: price_compiled(facts, self.arch, k)[1].seconds, MOVABLE, constants,
        )]  # fmt: skip


@lru_cache(maxsize=64)
def band(arch: Arch, loose: bool) -> tuple[tuple[float, float], str]:
    """What holds four of five times of compiled kernels on a device [ln of measured / predicted], and its source."""
    timed = [load(name) for name in TIMED]
    kind: Kind = "other device" if arch.vendor == timed[0].vendor else "other vendor"
    if arch.isa == timed[0].isa:
        kind = "same kind" if arch in timed else "family"
    mark = "this kernel not measured" if kind == "same kind" else MARKS[kind]
    others = " and ".join(map(str.upper, TIMED))
    return widened(LOOSE if loose else SETTLED, WIDENED[kind]), f"{mark}: by other kernels on {others}"


@takes(ConfigError, besides="^(kernel|configs|args|grid)$")
def rank_kernel(
    kernel: Any, configs: Iterable[Any] | None = None, *, args: Args, grid: Grid, arch: Arch | str | os.PathLike[str],
    constants: Mapping[str, Any] | None = None, values: Values = None, screen: Any = None,
    compiled: int = SCREENED, pool: Compilers | None = None, processes: int | None = None, seconds: float = SECONDS,
    launch: bool = True, progress: bool | None = None, profile: Given | None = None, compile: str | float | None = None,
) -> Ranking:  # fmt: skip
    """`carver.rank_kernel` of a `triton.jit` function; no GPU is used. What is not said there:

    - `configs`: dicts of constants with num_warps and num_stages (else Triton's defaults), or `triton.Config`s. None:
      those of the kernel's own `triton.autotune`, after its `early_config_prune`.
    - `args`: arguments by name; tensors as `carver.Tensor` (or anything with dtype, shape and stride), numbers by
      value. Or a function from a configuration to such a dict. A `triton.Config`'s hook may set the blocks of tensor
      descriptors.
    - `screen`: a template whose own ranking picks the `compiled` configurations that are compiled; or their places in
      the list.
    - `processes`, `seconds`: the number of compilers that run at a time, and the time limit of each. `pool`: others in
      their place, which take a configuration by its place in the list.
    - `progress`: a bar on standard error; by default on a terminal and in a notebook. A configuration takes 0.3 to 2 s
      of one core the first time, and milliseconds later.
    - `compile`: those far apart come first, then the promising, by a model over the configurations that learns from
      each price and each refusal (`carver.ranking.surrogate`).

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
    places = list(range(len(plain))) if screen is None else screened(screen, device, plain, compiled)
    handed = [called("the function args", args, every[i]) if callable(args) else args for i in places]
    for each in handed:
        if not (isinstance(each, Mapping) and all(isinstance(parameter, str) for parameter in each)):
            raise ConfigError(f"args are a mapping from a parameter's name to what it is given, got {shown(each)}")
    said = [held(values, every[i]) for i in places]
    for own, each in {id(own): (own, each) for own, each in zip(said, handed, strict=True)}.values():
        if isinstance(own, dict):
            check_values(own, each)
    bound: dict[int, Candidate] = {}
    reasons: dict[int, str] = {}
    alike: dict[Any, int] = {}
    for i, each, own in zip(places, handed, said, strict=True):
        same = repr(plain[i]), id(getattr(every[i], "pre_hook", None)), id(own)
        before = i if callable(args) else alike.setdefault(same, i)
        try:
            bound[i] = bound[before] if before in bound else candidate(
                kernel, every[i], each, grid, device, constants, own
            )
        except CompileError as refused:  # options for another vendor, in a list for both
            reasons[i] = str(refused)
    progress = is_watched() and pool is None if progress is None else progress
    rows: dict[Any, list[int]] = {}
    for i, each in bound.items():
        rows.setdefault((each.key, each.grid, repr(each.args), id(each.values)), []).append(i)
    distinct = {same[0]: bound[same[0]] for same in rows.values()}

    def ask(some: list[int]) -> Sequence[Facts | CarverError]:
        return facts_of({i: distinct[i] for i in some}, device, copies=shared, seconds=seconds, progress=progress)

    plainly = values if isinstance(values, dict) else {}
    lone = {name for each in bound.values() for name, tensor in each.args
            if isinstance(tensor, Tensor) and tensor.numel() == 1}  # fmt: skip
    with nullcontext(pool) if pool else compilers(distinct, device, processes) as shared:
        return ranked(
            name, device, plain, [*rows.values()], compile, ask, order=list(bound), reasons=reasons, profile=profile,
            launch=launch, programs=[math.prod(each.grid) for each in distinct.values()],
            source=function_of(kernel).cache_key, arguments=described({**handed[0], **(constants or {})}, plainly),
            notes=lambda found: _suspect(found, plainly, lone),
        )  # fmt: skip


def ranked(
    name: str, arch: Arch, every: Sequence[Mapping[str, Any]], rows: Sequence[Sequence[int]],
    compile: str | float | None, ask: Asked, *, programs: Sequence[float] = (), order: Sequence[int] = (),
    notes: Callable[[Collection[Facts | CarverError]], tuple[str, ...]] = lambda found: (), **of: Any,
) -> Ranking:  # fmt: skip
    """Rank what `compile` allows of a list. Each of `rows` has the places of what is one candidate, for the first of
    which `ask` is asked; `programs`: of their grids, where these are known before. Of equals the one that was asked for
    first comes first, or that stands first in an `order`. `of`: as `rank_facts` takes them."""
    firsts = [same[0] for same in rows]
    by_row, others = facts_within(
        [every[i] for i in firsts], programs or [1.0] * len(rows), arch, compile,
        lambda some: ask([firsts[row] for row in some]),
    )  # fmt: skip
    found = {i: facts for row, facts in by_row.items() for i in rows[row]}
    found = {i: found[i] for i in order if i in found} if order else found
    return rank_facts(
        name, arch, [every[i] for i in found], found.values(), places=list(found), given=len(every),
        others={i: why for row, why in others.items() for i in rows[row]}, notes=notes(found.values()), **of,
    )  # fmt: skip


def _suspect(
    found: Iterable[Facts | CarverError], values: Mapping[str, Any], lone: Collection[str]
) -> tuple[str, ...]:
    """A loop that never runs and places that are all the same, where one number stands for a tensor of offsets or of
    indices; `lone`: tensors that have no more than one."""
    compiled = [facts for facts in found if isinstance(facts, Facts)]
    numbers = [f"values[{name!r}] is {held}" for name, held in values.items() if isinstance(held, int | float)]
    idle = [set(facts.idle) for facts in compiled]
    never = sorted(set.intersection(*idle)) if idle and numbers else ()
    why = f"never runs, since {' and '.join(numbers)} in all places: give offsets as an array"
    one = sorted({name for facts in compiled for name in facts.alike} & set(values) - set(lone))
    places = "in all places, and addresses follow from it: if these are indices or pages, all of them read the same. "
    return (
        *(f"the {loop} {why}" for loop in never),
        *(f"values[{name!r}] is {values[name]} {places}Give an array, or leave it out: then they lie anywhere"
          for name in one),
    )  # fmt: skip


def _beyond(found: Sequence[Facts], arch: Arch) -> Iterator[str]:
    """Tensors of which a configuration touches more than they have, or what lies before them; and more of them than the
    device has room for."""
    if (held := sum({a.argument: a.size_bytes for facts in found for a in facts.accesses}.values())) > arch.dram_bytes:
        yield f"the tensors have {held / 1e9:,.0f} GB, {arch.title} has {arch.dram_bytes / 1e9:,.0f}"
    moving = [facts for facts in found if facts.read_bytes + facts.written_bytes]
    ends = sorted((each for facts in moving for each in facts.beyond), key=lambda end: abs(end[1]))
    for (name, _), (at, size) in sorted({(name, at < 0): (at, size) for name, at, size in ends}.items()):
        why = "give the shape that the kernel and its grid are for"
        if size > 1 << 31:
            why = "places that are computed in 32 bits wrap around at 2^31: take `.to(tl.int64)`, or `size_t`"
        yield f"{name} has {size:,.0f} bytes, but programs touch its byte {at:,.0f}: {why}"


def _uncovered(found: Sequence[Facts]) -> Iterator[str]:
    """Tensors that no configuration stores whole, and programs with nothing to store, where each has them."""
    most: dict[str, float] = {}
    for name, share in (each for facts in found for each in facts.stored):
        most[name] = max(most.get(name, 0.0), share)
    for name, share in most.items():
        if 0.0 < share < WHOLE:
            yield f"{share:.0%} of {name} is stored: if it should be all, look at the grid and the sizes"
    if (share := max(facts.writing for facts in found)) < WHOLE:
        yield f"{1.0 - share:.0%} of the programs store nothing: if all should, look at the grid and the sizes"


def _incomplete(configs: Sequence[Mapping[str, Any]], found: Sequence[Facts]) -> Iterator[str]:
    """That the fastest of some configurations reads less of a tensor than others do, and so leaves work out: what a
    kernel reads does not depend on its tile."""
    held: list[dict[tuple[str, str, float], float]] = []
    for facts in found:
        inputs = dict(facts.inputs)
        held.append({(a.argument, a.kind, a.size_bytes): inputs[a.argument] for a in facts.accesses
                     if a.argument in inputs})  # fmt: skip
    for config, own in zip(configs, held, strict=True):
        for tensor, moved in own.items():
            full = max(range(len(held)), key=lambda row: held[row].get(tensor, 0.0))
            few = TABLE * (found[full].read_bytes + found[full].written_bytes)
            if few < (most := held[full][tensor]) and moved < WHOLE * most:
                this, that = (", ".join(f"{key}={of[key]}" for key in of if config.get(key) != configs[full].get(key))
                              for of in (config, configs[full]))  # fmt: skip
                yield (
                    f"{this} {tensor[1]}s {moved / most:.0%} of what {that} does of {tensor[0]}: its grid or its tile "
                    "leaves the rest out, which takes less time"
                )
                return


def in_turns(count: int, processes: int) -> str | float:
    """What to compile of a list while somebody waits."""
    return "all" if count < SHORT or count <= WAVES * processes else ROOTS / math.sqrt(count)


def most_compiled(compile: str | float | None, count: int) -> int:
    """How many of a list are compiled."""
    if compile is None:
        return count if count < LONG else math.ceil(ROOTS * math.sqrt(count))
    if compile == "all":
        return count
    if isinstance(compile, str) or not 0.0 < compile <= 1.0:
        raise ConfigError(f"compile is a share above 0 and at most 1, or 'all', got {shown(compile)}")
    return min(count, max(STARTS, math.ceil(compile * count)))


Asked = Callable[[list[int]], Sequence[Facts | CarverError]]
"""Facts of the configurations in some rows of a list, or why there are none."""


def facts_within(
    configs: Sequence[Mapping[str, Any]], programs: Sequence[float], arch: Arch, compile: str | float | None,
    ask: Asked,
) -> tuple[dict[int, Facts | CarverError], dict[int, str]]:  # fmt: skip
    """Facts of those rows that `compile` has compiled, the promising ones; and what the others are predicted to take.

    Raises ProblemError where the program of none of them can be followed.
    """
    most, found = most_compiled(compile, len(configs)), dict[int, Facts | CarverError]()
    whole, axes = most == len(configs), axes_of(configs, programs, arch.sm_count)

    def price(rows: list[int]) -> dict[int, Price]:
        rows = axes.longest_first(rows)
        try:
            told = ask(rows)
        except ProblemError as lost:  # of these; others may be followed
            told = [lost] * len(rows)
        found.update(zip(rows, told, strict=True))
        return {} if whole else {row: price_of(facts, arch) for row, facts in zip(rows, told, strict=True)}

    try:
        prices = price(list(range(len(configs)))) if whole else explored(axes, price, most)
    except KeyboardInterrupt as stopped:
        if not found:
            raise
        raise KeyboardInterrupt(f"{stopped} (and {len(found)} of those asked for before these)") from None
    lost = [facts for facts in found.values() if isinstance(facts, ProblemError)]
    if lost and not any(isinstance(facts, Facts) for facts in found.values()):
        raise lost[0]
    rest = [row for row in range(len(configs)) if row not in found]
    known = {row: math.log(p.seconds) for row, p in prices.items() if p.seconds is not None}
    if whole or not known:
        return found, dict.fromkeys(rest, NOT_COMPILED)
    mean, deviation = predicted(axes, known, rest)
    low, middle, high = (1e3 * np.exp(mean + side * WITHIN * deviation) for side in (-1.0, 0.0, 1.0))
    return found, {
        row: f"{NOT_COMPILED}: predicted from those that were to take {middle[i]:.4g} ms "
        f"({low[i]:.4g} to {high[i]:.4g} in four cases of five)"
        for i, row in enumerate(rest)
    }


def price_of(facts: Facts | CarverError, arch: Arch) -> Price:
    """What a search knows of a configuration: no price where there is no code, or it does not fit."""
    if isinstance(facts, CarverError) or fits(facts, arch):
        return Price(None)
    return Price(float(price_compiled([facts], arch)[1].seconds[0]), repr(facts.identity))


def rank_facts(
    name: str, arch: Arch, configs: Sequence[Mapping[str, Any]], found: Iterable[Facts | CarverError], *,
    backend: str = "triton", source: str = "", arguments: Mapping[str, Any] = _NONE,
    places: Sequence[int] | None = None, reasons: Mapping[int, str] = _REASONS, given: int | None = None,
    profile: Given | None = None, launch: bool = True, others: Mapping[int, str] = _REASONS,
    notes: tuple[str, ...] = (),
) -> Ranking:  # fmt: skip
    """Rank configurations of a kernel by what is known of their compiled code, whoever compiled it.

    - `name`: the kernel's. `backend`: the tool whose configurations these are.
    - `found`: for each configuration its facts, or why there are none.
    - `source`: an identifier of the code. What is learnt of one source says nothing of another.
    - `arguments`: sizes and kinds of the arguments, in the form of profiles (`described`).
    - `places`: the place of each configuration in the user's list of `given`; `reasons`: why others of it are missing.
    - `others`: places of those that were not compiled, and what they are predicted to take.
    - `launch`: False leaves out the time of the launch, as for a kernel within a CUDA graph.
    - `notes`: what else the ranking says of its numbers.

    Configurations of equal code are one candidate. Raises NoCandidates if none fits the device.
    """
    places = range(len(configs)) if places is None else places
    missing = dict(reasons)
    kept: dict[tuple[Any, ...], tuple[Facts, int, list[int]]] = {}
    undecided: list[int] = []
    for row, (place, facts) in enumerate(zip(places, found, strict=True)):
        if isinstance(facts, CarverError):
            missing[place] = str(facts)
            undecided += [place] if isinstance(facts, CompilerFailed) else []
        elif why := fits(facts, arch):
            missing[place] = why
        else:
            kept.setdefault(facts.identity, (facts, row, []))[2].append(place)
    rejected = dict(Counter(missing.values()))
    if others:
        compiled = len(configs)
        notes = (f"{compiled} of {compiled + len(others)} were compiled, the most promising", *notes)
        missing |= others
        rejected[NOT_COMPILED] = len(others)
    if not kept:
        raise NoCandidates(f"{name} on {arch.name}", rejected)
    every, first, same = zip(*kept.values(), strict=True)
    if not any(facts.read_bytes + facts.written_bytes for facts in every):
        notes = (*notes, "no program reads or writes anything: look whether a size is 0, or the grid another kernel's")
    constants = priors(arch) if launch else {**priors(arch), "launch_s": 0.0}
    work, estimate = price_compiled(every, arch, constants)
    kinds, order = tuple(configs[row] for row in first), np.argsort(estimate.seconds, kind="stable").tolist()
    for dtype in set(str(arguments.get("kind", "")).split()):
        if (own := arch.own_float8(dtype)) != dtype:
            notes = (*notes, f"{arch.title} converts {dtype} by instructions; its own type is {own}")
    untold = sorted({name for facts in every for name in facts.untold})
    less = _incomplete([kinds[row] for row in order], [every[row] for row in order])
    notes = (*notes, *drawn(untold), *_beyond(every, arch), *_uncovered(every), *less)
    table = Compiled(
        Subject(name, FrozenDict(arguments)), arch, backend, kinds,
        tuple(map(tuple, same)), every, source, constants, work, estimate, notes,
    )  # fmt: skip
    total = len(configs) + len(reasons) if given is None else given
    ranking = Ranking(table, order, len(order), rejected, missing, total, undecided=tuple(undecided))
    return with_profile(ranking, profile)


def described(args: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a launch in the form that profiles use for problems."""
    out: dict[str, Any] = {}
    kinds = []
    for name, value in (leaf for each, given in args.items() for leaf in leaves(each, handed(each, given))):
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


def screened(screen: Any, arch: Arch, configs: Sequence[Mapping[str, Any]], compiled: int) -> list[int]:
    """Places in the list of the configurations to compile."""
    if hasattr(screen, "problem"):
        return rank(screen.problem, arch, configs).indices[: counted("compiled", compiled, 1)]
    places = list(extents("screen", screen)) if isinstance(screen, Iterable) else []
    if not places:
        raise ConfigError(f"screen is a template, or places in the list of configurations; got {shown(screen)}")
    last = len(configs) - 1
    return list(dict.fromkeys(whole("each place of screen", place, ConfigError, 0, last) for place in places))


def explained(h: Hint, facts: Facts) -> Iterator[str]:
    """Why a compiled configuration is predicted to take this time, line by line."""
    yield f"{h.kernel} on {h.arch.title}"
    if h.config:
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
    if h.band_ms is not None:
        yield f"{h.band_ms[0]:.4g} to {h.band_ms[1]:.4g} ms holds four times of five: {h.calibrated}"
    held = f"{h.details['blocks_per_sm']:g} on each {h.arch.sm_name}"
    yield f"{facts.programs:,} programs, {held}, {h.details['waves']:.2f} waves"
    moved, least = h.details["dram_bytes"], h.details["compulsory_bytes"]
    yield f"{moved / 1e6:,.1f} MB of DRAM, {least / 1e6:,.1f} MB of them compulsory"
    yield from lines_of(facts, h.arch.sm_name)
