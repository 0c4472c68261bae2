"""What a kernel does over the programs of its grid: loops, accesses and products, as `program.evaluate` finds them;
which programs and iterations are evaluated, and the lanes that run a stretch of a kernel's code, as NumPy columns; and
the values that a loop's body carries from one iteration to the next, if addresses, masks or bounds depend on them."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..base.errors import ProblemError
from ..base.types import FloatArray
from . import ttir
from .isa.code import reachable
from .sectors import GOLDEN, MOST_WALKED, Sectors, first_met, mean_of, of_all
from .ttir import Block, Function, Op
from .turns import READS, Turn
from .values import DRAWN, NOWHERE, PRODUCTS, Column, Described, Exact, Floor, Piece, Value, known, unknown
from .walks import Walks

MOST_PROGRAMS, RUNS = 4224, 4
"""Grids of so many programs are evaluated whole, of larger ones RUNS runs of consecutive programs that come to it."""
MORE = 8
"""So many times as many, where the programs have no loops and cost little each."""
MOST_LANES, MOST_TRIPS = 30_000, 64
"""Iterations of a loop that are evaluated, of all programs or of each: even samples may take two axes for one."""


def merged(lanes: int, parts: Sequence[tuple[Any, Value]]) -> Value:
    """One value from those of groups of lanes: (which lanes, value)."""
    if len(parts) == 1 and len(np.atleast_1d(parts[0][0])) == lanes:
        return parts[0][1]
    values = [v for _, v in parts]
    rank = max(len(v.coef) for v in values)
    loads = frozenset().union(*(v.loads for v in values))
    bases = [v.base for v in values if v.base is not None]
    exact = None
    if found := [v.exact for v in values if isinstance(v.exact, Exact)]:
        within, chosen = np.zeros((2, lanes), np.int64)
        for n, (which, _) in enumerate(parts):
            within[which], chosen[which] = np.arange(len(which)), n
        exact = Exact(None, values, found[0].extents, within, chosen)
    if len(bases) < len(values):
        return replace(unknown(rank, loads), exact=exact)
    kind = np.result_type(*(column.dtype for column in bases))
    base = np.zeros(lanes, kind)
    coef: list[Column] = [np.zeros(lanes) for _ in range(rank)]
    for which, v in parts:
        base[which] = v.base
        for column, c in zip(coef, v.coef, strict=True):
            column[which] = c
    flat = tuple(c[0] if lanes and (c == c[0]).all() else c for c in coef)
    pieces, sources = {v.pieces for v in values}, {v.source for v in values}
    source = sources.pop() if len(sources) == 1 else None
    return Value(base, flat, source, pieces=pieces.pop() if len(pieces) == 1 else (), exact=exact)


def sampled(
    count: int, loops: bool = True, least: int = 0, grid: Any = (), uneven: bool = False
) -> tuple[Any, tuple[tuple[int, int], ...]]:
    """The programs of a grid of `count` that are evaluated, and the half-open ranges of their places that hold
    consecutive ones. `loops`: whether programs have any. `least`: so many are enough. Of a `grid` that is given the
    runs lie in the middle of equal parts, and of planes, where the edges of what it covers have no more than their
    share; or, where else all would have the same columns, or where `uneven`, at distances of which none is a multiple
    of another, within the middle half of what each leaves free."""
    most = MOST_PROGRAMS if loops else MOST_PROGRAMS * MORE
    most = min(most, least) if least else most
    if count <= most:
        return np.arange(count), ((0, count),)
    run = most // RUNS
    starts = np.linspace(0, count - run, RUNS).astype(np.int64)
    if grid:
        middle, plane = (2 * np.arange(RUNS) + 1) * count // (2 * RUNS), grid[0] * grid[1]
        starts = (middle // plane * plane + plane // 2 if run < plane <= count // RUNS else middle) - run // 2
    if grid and (uneven or (grid[0] > run and aliased(starts, grid[0]))):
        part, within = count / RUNS, 0.25 + (np.arange(RUNS) + 0.5) * GOLDEN % 1.0 / 2.0
        starts = (np.arange(RUNS) * part + within * (part - run)).astype(np.int64)
    ranges = tuple((i * run, (i + 1) * run) for i in range(RUNS))
    return np.concatenate([np.arange(s, s + run) for s in starts]), ranges


def aliased(places: Any, width: int) -> bool:
    """Whether these places of a grid so wide leave out columns of a few, or have few columns for their number."""
    wanted = width if width <= len(places) else len(places) / 2
    return len({*(places % width).tolist()}) < wanted


def iterations(trips: Any, entered: Any, straight: bool, nests: bool = False) -> tuple[Any, Any, FloatArray, Any]:
    """Lanes of a loop's body: their lane outside, their iteration, how many iterations each stands for; and for each
    lane outside its first and last lane and its trips."""
    t = trips[entered]
    few = not nests and len(entered) <= MOST_PROGRAMS and t.max(initial=0) <= MOST_TRIPS
    n = np.minimum(t, 3 if straight else MOST_TRIPS if few else max(3, MOST_LANES // len(entered)))
    index = np.repeat(entered, n)
    first = np.cumsum(n) - n
    place = np.arange(len(index)) - np.repeat(first, n)
    count, total = np.repeat(n, n), np.repeat(t, n)
    at = np.where(count > 1, place * (total - 1) // np.maximum(count - 1, 1), 0)
    ends = first, first + n - 1, t
    if straight:
        return index, at, np.where((place == 1) & (count == 3), total - 2, 1).astype(float), ends
    return index, at, total / count, ends


@dataclass
class Frame:
    """Lanes that run a stretch of code, and what names mean there."""

    program: Any
    weight: FloatArray
    """Times that each lane stands for, within its program."""
    round: FloatArray
    loop: int = -1
    parent: Frame | None = None
    index: Any = None
    """Lane of the parent, of each lane."""
    ends: tuple[Any, Any, Any, Any] | None = None
    """Of the body of a loop without loops: lanes of the first and the last iteration, trips, iteration of each lane."""
    env: dict[str, Any] = field(default_factory=dict)

    @property
    def lanes(self) -> int:
        return len(self.program)

    def get(self, name: str) -> Any:
        """What a name means here: a `Value` or `Described`, unknown where nothing defined it."""
        if name not in self.env:
            if self.parent is None:
                return unknown()
            self.env[name] = self.parent.get(name).take(self.index)
        return self.env[name]

    def number(self, name: str) -> Value | None:
        """The same of what is known in each lane; None of anything else."""
        value = self.get(name)
        return value if isinstance(value, Value) and value.base is not None else None

    def child(self, index: Any, **changed: Any) -> Frame:
        """A frame within this one: its lanes are those of `index`, each as often as it stands there."""
        values = {"weight": self.weight[index], "round": self.round[index], "loop": self.loop} | changed
        return Frame(self.program[index], parent=self, index=index, **values)


def bind(top: Frame, entry: Function, args: Sequence[tuple[str, Any]]) -> None:
    """Parameters by position: a descriptor's are itself, its extents and its strides. Where the target has no
    descriptors it is a pointer, followed by extents and strides as its accesses use them, by flags, and by extents and
    strides once more."""
    params = list(entry.params)
    for name, value in args:
        if not params:
            break
        param, kind = params.pop(0)
        if isinstance(value, tuple):
            shape, strides = value
            pointer = Value(np.zeros(1, np.int64), source=name)
            if "ptr<" in kind:
                top.env[param] = pointer
                for numbers in ((*shape, *strides), (), (*shape, *strides)):
                    top.env.update(zip((params.pop(0)[0] for _ in numbers), map(known, numbers), strict=False))
                    while not numbers and params and params[0][1] == "i1":
                        top.env[params.pop(0)[0]] = known(0)
                continue
            top.env[param] = Described(pointer, *(tuple(known(n) for n in group) for group in (shape, strides)))
            del params[: 2 * len(shape)]
        elif "ptr<" in kind:
            top.env[param] = Value(np.zeros(1, np.int64), source=name)
        else:
            plain = isinstance(value, int | float) and not math.isnan(value)
            top.env[param] = known(value) if plain else unknown()


def within(frame: Frame, ancestor: Frame) -> Any:
    """Lanes of `ancestor` that a frame below it runs."""
    index = np.arange(frame.lanes)
    while frame is not ancestor and frame.parent is not None:
        index, frame = frame.index[index], frame.parent
    return index


def spread(column: Column, index: Any) -> Column:
    """The lanes of `index`; a column that is the same for all stays as it is."""
    return column[index] if len(column) > 1 else column


def iterated(lanes: int, which: Any, before: list[Any], after: list[Any]) -> list[Any]:
    """Carried values once some lanes have made an iteration."""
    if len(which) == lanes:
        return after
    rest = np.setdiff1d(np.arange(lanes), which, assume_unique=True)
    return [
        old if isinstance(old, Described) else merged(lanes, [(rest, old.take(rest)), (which, new)])
        for old, new in zip(before, after, strict=True)
    ]


def changed(before: Sequence[Any], after: Sequence[Any], lanes: int) -> Any:
    """In which lanes a pass of a loop may have changed any number that it carries; what is not known may have."""
    out = np.zeros(lanes, bool)
    for old, new in zip(before, after, strict=True):
        if isinstance(old, Value) and isinstance(new, Value) and (old.base is None) == (new.base is None):
            out |= True if old.base is None else old.base != new.base
            for a, b in zip(old.coef, new.coef, strict=True):
                out |= ~np.isclose(a, b, rtol=0.0, atol=0.0, equal_nan=True)
        else:
            out[:] = True
    return out


@dataclass
class LoopTrace:
    """One loop of the program, over all lanes."""

    name: str
    parent: int
    """Of the loops; -1 for the kernel's body."""
    trips: FloatArray
    """Times that the body runs in each program."""
    entries: FloatArray
    """Times that the loop is entered in each program."""
    exponentials: float = 0.0
    """Elements of tensors whose exponential the body itself takes, in all programs."""
    float_flops: float = 0.0
    """Elements of tensors of float32 that the body itself adds or multiplies, in all programs."""
    step: int = 0
    """Of its counter; 0 where it has none, or it differs."""
    joins: bool = False
    """It reduces or scans, whose additions are not counted."""
    where: str = ""
    """Its line of the source; empty where that is not known."""
    swaps: bool = False
    """It compares and swaps words, which other programs may have changed, though they are taken as they were."""


class Access(Walks, eq=False):
    """A load or store, as walks. Units: elements."""

    kind: str
    """load, store, atomic."""
    path: str
    """pointer, descriptor."""
    argument: str | None
    loop: int
    shape: tuple[int, ...]
    item_bytes: float
    coef: tuple[float, ...]
    """Step in memory along each dimension, in elements, in the mean; NaN where it is not affine."""
    pieces: tuple[Piece | None, ...]
    """Of dimensions that a division or a remainder cuts."""
    settled: bool = True
    """It is known what its mask lets through; else that is so much at most."""
    leads: bool = False
    """Masks that let any of a tile through let its first element through."""
    counted: bool = False
    """It is known how many elements a tile has, and not how they lie."""
    floors: tuple[Floor, ...] = ()
    """Of places that were rounded."""
    loads: frozenset[str] = NOWHERE
    """Tensors from which its places were loaded, where they are not known."""
    beside: FloatArray = field(default_factory=lambda: np.empty(0))
    """Of a start that is not known: those parts of the sum that are; NaN where none is, empty where nothing is said."""
    root: Hashable = None
    """Of places that are not affine, which they are (`values.Value`)."""
    covered: tuple[float, ...] = ()
    """Share of each dimension that masks let through at most; empty where nothing is said."""
    placed: Sectors = Sectors()
    """Of a load that is not affine, all of whose places are known."""
    drawn: FloatArray = field(default_factory=lambda: np.empty(0))
    """Of a load or atomic that is not affine: places of some tiles, element by element, NaN where its mask holds them
    back; empty where they are not known."""

    @property
    def turned(self) -> bool:
        """Whether its rows and columns are no rows and columns of memory: sums of both were rounded, or one was twice,
        as for an image that is turned."""
        slopes = np.array([f.slopes for f in self.floors]) != 0
        mixed = slopes.any() and (slopes.sum(0).max() > 1 or slopes.sum(1).max() > 1)
        return bool(mixed) and bool(np.isfinite(self.coef).all())


@dataclass
class Dot:
    """A product of matrices (`tl.dot`)."""

    loop: int
    shape: tuple[int, int, int]
    """m, n, k."""
    types: tuple[str, str, str]
    times: FloatArray
    """In each program."""

    @property
    def flops(self) -> float:
        """Of the mean program, all times together."""
        return 2.0 * math.prod(self.shape) * float(self.times.mean())


@dataclass
class Trace:
    """What a kernel does, over the programs that were evaluated."""

    grid: tuple[int, int, int]
    programs: int
    """Evaluated; each stands for prod(grid) / programs."""
    ranges: tuple[tuple[int, int], ...]
    """Consecutive programs: half-open ranges."""
    loops: list[LoopTrace] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    assumed: bool = False
    """A branch on what is not known went where more is done, in all programs, or they drew from a counter in turn."""
    alike: set[str] = field(default_factory=set)
    """Tensors for all of which one number stands, from which addresses are computed."""
    turns: list[Turn] = field(default_factory=list)
    untold: Collection[str] = ()
    """Tensors that choose places, of which nothing says what they hold."""

    @property
    def working(self) -> FloatArray:
        """1 of programs that write, 0 of those that return before they do; 1 of all where none writes."""
        out = np.zeros(self.programs)
        for access in self.accesses:
            if access.kind != "load":
                out[access.program.astype(np.int64)] = 1.0
        return out if out.any() else np.ones(self.programs)

    @property
    def writing(self) -> float:
        """Share of the programs that write anything: masks may hold back all that one would; 1 where none writes."""
        wrote = [a.program[(a.kept > 0) & (a.count > 0) & (a.times > 0)] for a in self.accesses if a.kind != "load"]
        return len(np.unique(np.concatenate(wrote))) / self.programs if any(map(len, wrote)) else 1.0


def joined(parts: Sequence[Access]) -> Access:
    """One record of an access that was met several times; iterations with even steps, or none, become walks."""
    if len(parts) == 1:
        return parts[0]
    passes = [p.drawn.reshape(-1, math.prod(p.shape)) for p in parts if len(p.drawn)]
    first = replace(parts[0], leads=all(p.leads for p in parts), drawn=of_all(passes),
                    root=None if passes else parts[0].root,  # which differs from pass to pass
                    placed=mean_of([p.placed for p in parts if p.placed.sector_bytes]))  # fmt: skip
    alike = all(
        len(p.start) == len(first.start) and (p.program == first.program).all() and (p.round == first.round).all()
        for p in parts
    )
    if alike and first.placed.sector_bytes and len(set(map(len, passes))) == 1:  # of the same programs
        new = first_met(zip(*passes[:MOST_WALKED], strict=True), first.item_bytes)
        first = replace(first, placed=first.placed._replace(new=new))
    if alike and all((p.count == 1).all() and (p.times == first.times).all() for p in parts):
        starts, kept, beside = (np.array([getattr(p, name) for p in parts]) for name in ("start", "kept", "beside"))
        steps = np.diff(starts, axis=0)
        if (steps == steps[0]).all():
            count = np.full(len(first.start), float(len(parts)))
            return replace(first, stride=steps[0], count=count, kept=kept.mean(axis=0))
        moved = np.vstack([np.ones(len(first.start), bool), steps != 0]).T.ravel()
        begins = np.flatnonzero(moved)
        lane, times = begins // len(parts), np.diff(begins, append=len(moved)).astype(float)
        return replace(
            first.take(lane), start=starts.T.ravel()[begins], stride=np.zeros(len(lane)), count=times,
            kept=np.add.reduceat(kept.T.ravel(), begins) / times, beside=beside.T.ravel()[begins],
        )  # fmt: skip
    return replace(first, **vars(Walks.joined(parts)), beside=np.concatenate([p.beside for p in parts]))


def covered(mask: Value | None, extents: Sequence[int]) -> tuple[float, ...]:
    """Share of a mask's elements along each dimension that are true at most: below 1 where a tile is wider than what
    there is for it in all programs."""
    if mask is None or mask.box is None:
        return (1.0,) * len(extents)
    return tuple(
        1.0 if ranged is None else float(np.max(np.clip(ranged[1] - ranged[0], 0, n) / n, initial=0.0))
        for ranged, n in zip(mask.box, extents, strict=True)
    )


def undecided(what: str, value: Value, said: Mapping[str, Any]) -> ProblemError:
    """Why `what` cannot be followed, and what the caller can say of it who said what tensors hold."""
    if not value.loads or value.loads & PRODUCTS:  # it does not follow from what tensors hold at the launch
        whose = "multiplies" if value.loads else "computes from its tensors"
        return ProblemError(f"{what} depends on numbers that the kernel {whose}: it cannot be followed")
    names = ", ".join(repr(n) for n in sorted(value.loads - DRAWN))
    missing = sorted(name for name in value.loads - DRAWN if name not in said)
    if not missing:
        return ProblemError(f"{what} depends on what the kernel computes from {names}: it cannot be followed")
    first = missing[0]
    hint = f"values={{{first!r}: 2048}} where one number stands for all, else an array of them (in a file: [values])"
    return ProblemError(f"{what} depends on what the kernel loads from {names}; say what it holds: {hint}")


BENT = frozenset({
    "divsi", "divui", "remsi", "remui", "shrsi", "shrui", "select", "minsi", "maxsi", "minui", "maxui", "floordivsi",
})  # fmt: skip
"""Operations that are not affine in their operands."""


def matters(op: Op) -> bool:
    """Whether an operation is one that a trace records, or that may hold such."""
    name = op.name.partition(".")[2].removeprefix("experimental_")
    return name in ("for", "while", "dot", "load", "store", "call") or name.startswith(("atomic", "descriptor", "dot_"))


def waits(op: Op) -> bool:
    """Whether a while loop only reads the same words again, until another program stores what it waits for."""
    inside = [each for region in op.regions for each in ttir.walk(region)]
    reads = [each for each in inside if each.name in READS or "pure = false" in each.text]
    if len(op.regions) != 2 or not reads or any(matters(each) for each in inside if each not in reads):
        return False
    before, after = (region[0] for region in op.regions)
    last, again = before.ops[-1], after.ops[-1]
    feeds = {result: set(each.operands) for each in inside for result in each.results}
    moving = {*op.operands[0::2], *after.args}

    def behind(names: Iterable[str], around: bool) -> set[str]:
        """What these depend on, in earlier iterations too if `around`."""
        carried = [*zip(after.args, last.operands[1:], strict=False)]
        carried += zip(op.operands[0::2], again.operands, strict=False) if again.name == "scf.yield" else []
        links = {**feeds, **({name: {given} for name, given in carried} if around else {})}
        return reachable(defaultdict(set, links), names)

    addressed = behind((name for each in reads for name in each.operands), False)
    tested = behind(last.operands[:1], True)
    return not moving & addressed and any(tested & set(each.results) for each in reads)


STAYING = frozenset({
    "constant", "addi", "subi", "muli", "shli", "extsi", "extui", "trunci", "index_cast", "splat", "broadcast",
    "expand_dims", "divsi", "remsi", "minsi", "maxsi", "select", "cmpi",
})  # fmt: skip
"""Operations whose result stays while their operands do."""


def staying(body: Block, names: list[str], iv: str) -> list[Op]:
    """Operations of a loop's body that give the same in every iteration, in order."""
    moving, found = {iv, *names}, []
    for op in body.ops:
        name = op.name.partition(".")[2]
        if name in STAYING and not op.regions and not moving.intersection(op.operands):
            found.append(op)
        else:
            moving.update(op.results)
    return found


def steps(body: Block, names: list[str], iv: str, wanted: Collection[str] = ()) -> list[tuple[str, str]]:
    """How each carried value changes from one iteration to the next, and by which name. "same", "linear" by something
    that stays, "lost" for what no address or bound needs, "odd" otherwise; "later" for numbers that are among the
    `wanted` of the function, but only behind the loop."""
    made = {op.results[i]: op for op in body.ops for i in range(len(op.results))}
    inside = set(made) - {r for op in staying(body, names, iv) for r in op.results}
    last = body.ops[-1] if body.ops and body.ops[-1].name == "scf.yield" else None
    needed = wanted_by(body.ops)
    types = last.text.rpartition(" : ")[2].split(", ") if last else []
    found = []
    for n, name in enumerate(names):
        given = last.operands[n] if last else name
        op = made.get(given)
        kind = op.name.partition(".")[2] if op else ""
        if given == name:
            found.append(("same", ""))
        elif op and kind in ("addi", "addptr") and name in op.operands:
            other = op.operands[1] if op.operands[0] == name else op.operands[0]
            stays = other not in inside and other not in names and other != iv
            found.append(("linear", other) if stays else ("odd" if name in needed else "lost", ""))
        else:
            whole = len(types) == len(names) and re.fullmatch(r"i\d+|index", types[n])
            found.append(("odd" if name in needed else "later" if whole and name in wanted else "lost", ""))
    return found


def wanted_by(ops: Iterable[Op]) -> set[str]:
    """Names that addresses, masks, bounds and conditions of a body depend on."""
    wanted: set[str] = set()
    feeds = defaultdict[str, set[str]](set)
    stack = list(ops)
    while stack:
        op = stack.pop()
        name = op.name.partition(".")[2].removeprefix("experimental_")
        for region in op.regions:
            for block in region:
                stack.extend(block.ops)
                last = block.ops[-1] if block.ops else None
                if last is not None and last.name in ("scf.yield", "scf.condition"):
                    passed = last.operands[1:] if last.name == "scf.condition" else last.operands
                    for n, result in enumerate(op.results):
                        feeds[result].update(passed[n : n + 1])
                    carried = {"scf.for": op.operands[4::2], "scf.while": op.operands[0::2]}.get(op.name, ())
                    for arg, value in zip(carried, passed, strict=False):
                        feeds[arg].add(value)
        match name:
            case "for":
                wanted.update(op.operands[1:4])
                for arg, init in zip(op.operands[4::2], op.operands[5::2], strict=True):
                    feeds[arg].add(init)
            case "while":
                for args in (op.operands[0::2], op.regions[1][0].args):
                    for arg, init in zip(args, op.operands[1::2], strict=False):
                        feeds[arg].add(init)
            case "if" | "condition":
                wanted.update(op.operands[:1])
            case "br" | "cond_br" | "return":
                wanted.update(op.operands)
            case "load":
                wanted.update(op.operands[:2])
            case "store" | "atomic_rmw" | "atomic_cas":
                wanted.update((op.operands[0], *op.operands[2:]))
            case _ if name.startswith("descriptor"):
                wanted.update(op.operands)
            case "dot" | "dot_scaled" | "reduce" | "scan":
                continue
            case _:
                for result in op.results:
                    feeds[result].update(op.operands)
    return reachable(feeds, wanted)


def straight(body: Block, names: list[str], wanted: Collection[str]) -> bool:
    """Whether everything in a body is affine in its counter: then three iterations say all. Floats are not, where they
    become whole numbers that are `wanted`."""
    depends, floats = set(names), set[str]()
    for op in body.ops:
        if op.regions and op.name.startswith("scf."):
            return False
        name, types = op.name.partition(".")[2], ttir.types_of(op.types)
        if floats.intersection(op.operands):
            if name in ("fptosi", "fptoui") and op.results[0] in wanted:
                return False
            floats.update(op.results)
        if not depends.intersection(op.operands):
            continue
        if name in BENT and types and types[-1].integer:
            return False
        (depends if not types or types[-1].integer else floats).update(op.results)
        if name == "load" and types and types[0].element.removeprefix("ptr<")[:1] == "i":
            depends.update(op.results)
    return True


class Counters:
    """What programs draw from words that all of them add the same number above 0 to. It is assumed that they come in
    their order, and that a word begins with what `values` says, else with 0."""

    def __init__(self, programs: Any, count: int) -> None:
        self.programs, self.count = programs, count
        self.before: dict[tuple[str, int], Any] = {}
        """How often each program has drawn so far, by tensor and place."""

    def draw(self, frame: Frame, op: Op, given: Sequence[Any], start: Value) -> Value | None:
        """None of other atomics, and of lanes that are several iterations of a program."""
        pointer, bases = given[0], [each.base for each in given]
        if re.match(r"\s*add\b", op.text) is None or len(set(frame.program.tolist())) < frame.lanes:
            return None
        if not pointer.source or any(base is None or (base != base[0]).any() for base in bases):
            return None
        place, step, *kept = (base[0] for base in bases)
        if step <= 0 or not all(kept):
            return None
        before = self.before.setdefault((pointer.source, int(place)), np.zeros(len(self.programs), np.int64))
        drawn = (self.programs + before * self.count)[frame.program] * step
        before[frame.program] += 1
        return Value(drawn + (0 if start.base is None else start.base))


def waiting(test: Frame, inner: Frame, before: Block, after: Block) -> ProblemError:
    """Why a loop is left that goes on for ever as long as its tensors hold what `values` says."""
    if not (names := read((test, before), (inner, after))):
        return ProblemError("a while loop never ends: no pass of it changes what it tests")
    return ProblemError(
        f"a while loop waits until another program changes what {', '.join(map(repr, names))} holds; say what it holds "
        f"at the end of the wait: values={{{names[0]!r}: 1}}"
    )


def read(*stretches: tuple[Frame, Block]) -> list[str]:
    """The tensors that these stretches of a loop load from."""
    pointers = [frame.get(op.operands[0]) for frame, block in stretches for op in block.ops if op.name in READS]
    return sorted({p.source for p in pointers if isinstance(p, Value) and p.source})
