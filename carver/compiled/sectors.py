"""Tiles of addresses that are not affine: running counts, and sectors of places that tensors are known to hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..base.types import FloatArray
from .ttir import Type
from .values import (
    BOUNDS,
    DRAWN,
    NOWHERE,
    SECTOR_BYTES,
    Column,
    Exact,
    Piece,
    Value,
    binary,
    both,
    elements,
    first_of,
    inside,
    scalar,
    share,
    unknown,
    whole_numbers,
    zero,
)

MOST_RESHAPED = 1 << 20
SAMPLED_LANES, FEW_LANES, MORE, GOLDEN = 32, 8, 8, (math.sqrt(5.0) - 1.0) / 2.0
"""Of which all elements are computed, to tell how neighbours lie, and how many sectors they are in; how many times as
many of an atomic, which say where programs that run together meet; steps that spread evenly."""
MOST_ELEMENTS, MOST_WALKED, FEW_ELEMENTS = 1 << 16, 16, 1 << 15
"""Elements of a tile, and steps of a walk, that are looked at; of more tiles where they have fewer elements together.
"""
FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "sqrt": np.sqrt, "rsqrt": lambda x: 1.0 / np.sqrt(x), "exp": np.exp, "exp2": np.exp2, "log": np.log,
    "log2": np.log2, "sin": np.sin, "cos": np.cos, "absf": np.abs, "absi": np.abs, "negf": np.negative,
}  # fmt: skip
"""Of one number, by which places may be computed."""
_BITS: Mapping[tuple[str, str], Callable[[Any], Any]] = {
    ("f32", "i32"): lambda x: np.asarray(x, np.float32).view(np.int32).astype(np.int64),
    ("i32", "f32"): lambda x: np.asarray(x, np.int64).astype(np.int32).view(np.float32).astype(np.float64),
}
"""Of numbers of one type, taken for one of another."""
BOUNDED: Mapping[str, int] = {"minsi": 1, "minui": 1, "andi": 1, "remsi": 0, "remui": 0, "minnumf": 0}
"""By the operation, how many whole numbers from 0 on there are below its other operand, with it or without."""
FEW_BINS = 1024
"""Of so many numbers at most one is taken as if drawn; of more a place is anywhere."""
FEW_BOUND = 0.125
"""Share of elements that are what bounds them, up to which the others say how all lie."""
TRUTH = "truth"
"""First of the root of numbers that are 1 where a mask is true, else 0."""
QUARTILES, LIKE, FEWEST = np.log([4 / 3, 2, 4]), 1.5, 32
"""Of exponential gaps, as between places drawn at random, over the mean; what a sample may miss them by; its size."""


def _near(op: str, a: Value, b: Value) -> Value | None:
    """Of an own place that is moved by a loaded number which is not told, the own place: neighbours are moved alike,
    and not far. Source: an H200's times of smoke that comes to each cell of a plane from where its wind says (`advect`
    in `fifteenth.jsonl.gz`). If it came from all of the plane, they would be 3 to 7 times as long."""
    own, by = (b, a) if op == "addf" and a.base is None else (a, b)
    steps = own.base is not None and len(np.unique(own.base)) > 1 and any(first_of(c) for c in own.coef)
    affine = own.exact is None and not own.loads and not any(np.isnan(c).any() for c in own.coef)
    return own if steps and affine and by.base is None and by.exact is None and by.loads else None


def _bins(op: str, a: Value, b: Value, extents: Sequence[int], name: str) -> Value | None:
    """One of FEW_BINS whole numbers at most, or of the real ones below another, of those that are loaded but not told,
    as if drawn: the bins that a cell has of its own are near it. `name`: of the result; others are drawn apart. Source:
    an H200's times of histograms of gradients (`orientations` in `fifteenth.jsonl.gz`), which were predicted 1.4 to 2.3
    times as long anywhere; of splines and their gradients (`eighteenth.jsonl.gz`)."""
    by, most = (b, a) if a.base is not None else (a, b)
    untold = by.base is None and by.exact is None and by.loads and not (op.startswith("rem") and most is a)
    if op not in BOUNDED or not extents or not untold or most.base is None or len(most.base) != 1 or not most.uniform:
        return None
    bins, real = float(most.base[0]) + BOUNDED[op], op.endswith("f")
    if not (bins > 0 if real else 1 < bins <= FEW_BINS) or (op == "andi" and int(bins) & (int(bins) - 1)):
        return None

    def exact(lane: int) -> Any:
        drawn = bins * np.random.default_rng([lane, *name.encode()]).random(extents)
        return drawn if real else np.floor(drawn).astype(np.int64)

    loads, rank = by.loads | DRAWN, len(extents)
    return Value(np.zeros(1, int), (np.nan,) * rank, loads=loads, beside=np.zeros(1), exact=exact, root=object())


def arithmetic(op: str, a: Value, b: Value, extents: Sequence[int], name: str = "", short: bool = False) -> Value:
    """An operation on two values; what is 1 or 0 moves neighbours that step by little, as in a count of those before.
    """
    if (drawn := _bins(op, a, b, extents, name)) is not None:
        return drawn
    if op in ("addf", "subf") and (own := _near(op, a, b)) is not None:
        return own
    out, whole = binary(op, a, b, extents, short), [not _counts(v) for v in (a, b)]
    if op in BOUNDS and a.uniform != b.uniform and out.base is not None:  # all of few lie as the others, see `bounded`
        return replace(out, exact=Exact(whole_numbers(op), (a, b), extents))
    one = a if whole[0] else b
    return replace(out, coef=one.coef) if op in ("addi", "subi") and sum(whole) == 1 and one.coef else out


def bounded(v: Value, mask: Value | None, extents: Sequence[int], lanes: int) -> Value:
    """Places of which more than a few that a mask lets through are what bounds them, as all that is far: these do not
    step as the others do."""
    even = replace(v, exact=None)
    if v.exact is None or v.floors or any(v.pieces) or math.prod(extents) > MOST_ELEMENTS:
        return v
    chosen = [lane for lane in map(int, _sample(lanes, SAMPLED_LANES)) if elements(even, lane, extents) is not None]
    told, wanted = (np.diff(laid_out([(lane, elements(each, lane, extents)) for lane in chosen], mask, extents))
                    for each in (even, v))  # fmt: skip
    steps = told[~np.isnan(told)] != wanted[~np.isnan(told)]
    few = not len(steps) or steps.mean() <= FEW_BOUND
    return v if few else replace(v, coef=tuple(0.0 if zero(c) else np.nan for c in v.coef))


def _counts(v: Value) -> bool:
    return isinstance(v.root, tuple) and v.root[0] == TRUTH


def selected(test: Value, a: Value, b: Value, out: Type) -> Value:
    """`a` where the test is true, else `b`. Elements of a tensor that come from either step as those do that are more,
    or as both where these are alike; where neither steps, as what was loaded for the test has it."""
    rank = len(out.shape)
    if not all(isinstance(v, Value) for v in (test, a, b)):
        return unknown(rank)
    loads, source = test.loads | a.loads | b.loads, a.source or b.source
    if test.base is not None and test.uniform and a.base is not None and b.base is not None:
        return _either(test.base != 0, a, b, loads)
    exact = Exact(np.where, (test, a, b), out.shape) if test.exact or a.exact or b.exact else None
    if out.element == "i1" or not len(a.coef) == len(b.coef) == rank:
        return replace(unknown(rank, loads), exact=exact)
    if test.box is not None and not (test.bound and test.loads):
        return _either(share(test, out.shape) > 0.5, a, b, loads)
    if all(np.array_equal(x, y) for x, y in zip(a.coef, b.coef, strict=True)):
        lies = test.coef if test.loads and test.coef else a.coef
        coef = tuple(np.nan if zero(x) and not zero(c) else x for x, c in zip(a.coef, lies, strict=True))
        return Value(None, coef, source, loads=loads, exact=exact)
    return replace(unknown(rank, loads), exact=exact)


def _either(first: Column, a: Value, b: Value, loads: frozenset[str]) -> Value:
    """`a` in lanes where `first` is true, else `b`."""
    coef = tuple(
        x if np.array_equal(x, y) else scalar(np.where(first, x, y)) for x, y in zip(a.coef, b.coef, strict=True)
    )
    known_ = a.base is not None and b.base is not None
    base = np.where(first, a.base, b.base) if known_ else None
    return Value(base, coef, a.source or b.source, loads=NOWHERE if known_ else loads)


def masks(op: str, a: Value, b: Value, extents: Sequence[int]) -> Value:
    """An operation on two masks, of which one may be a constant."""
    if op == "andi":
        return both(a, b, extents)
    exact = Exact(whole_numbers(op), (a, b), extents) if a.exact or b.exact else None
    return replace(unknown(len(extents), a.loads | b.loads), exact=exact)


def where(mask: Value, told: Value, other: Value, extents: Sequence[int]) -> Value:
    """What a tensor is known to hold where a mask is true, else another number; all of it if no mask is known."""
    base = told.base
    if mask.base is not None and mask.uniform and base is not None and other.base is not None:
        base = base if mask.base.all() else np.where(mask.base != 0, base, other.base)

    def held(every: Any, let: Any, rest: Any) -> Any:
        return every if let is None or rest is None else np.where(let, every, rest)

    return replace(told, base=base, exact=told.exact and Exact(held, (told, mask, other), extents, needed=1))


def running(v: Value, axis: int, extents: Sequence[int]) -> Value:
    """Sums of all elements up to each along a dimension. Of numbers that are 1 or 0, as places of what a mask keeps are
    computed, they step by 1 from one that is kept to the next."""
    coef = tuple(1.0 if _counts(v) and d == axis else np.nan for d in range(len(extents)))

    def sums(every: Any) -> Any:
        return np.cumsum(np.broadcast_to(every, extents), axis, dtype=np.int64)

    return Value(None, coef, loads=v.loads, exact=Exact(sums, (v,), extents) if v.exact else None, root=object())


def reshaped(v: Value, before: Sequence[int], after: Sequence[int], lanes: int) -> Value:
    """The value in another shape, as before a reduction along all dimensions: each element, where all are known and in
    all lanes no more than MOST_RESHAPED."""
    lost = not v.exact and (v.base is None or any(np.isnan(c).any() for c in v.coef))
    lost |= lanes * math.prod(before) > MOST_RESHAPED
    exact = None if lost else Exact(lambda every: np.broadcast_to(every, before).reshape(after), (v,), before)
    return Value(None, (np.nan,) * len(after), loads=v.loads, exact=exact, root=object())


_REDUCED: Mapping[str, Callable[..., Any]] = {
    "addi": np.sum, "addf": np.sum, "maxsi": np.max, "maxui": np.max, "maxnumf": np.max, "minsi": np.min,
    "minui": np.min, "minnumf": np.min,
}  # fmt: skip


def reduced(v: Value, axis: int, extents: Sequence[int], combines: Set[str], lanes: int) -> Value:
    """The sum, the largest or the least along a dimension, where all elements are known; those that a mask keeps out
    are taken to be as others."""
    rank = len(extents) - 1
    by = next((function for name, function in _REDUCED.items() if combines == {name}), None)
    if by and v.base is not None and v.uniform and not v.exact:
        return Value(v.base * (extents[axis] if by is np.sum else 1), (0.0,) * rank)
    ranged = v.box is not None and v.base is None and not v.bound
    if by is None or not (v.exact or ranged) or v.loads & DRAWN:
        return Value(None, (np.nan,) * rank, loads=v.loads, root=object())

    exact = Exact(lambda every: by(np.broadcast_to(every, extents), axis), (v,), extents)
    if rank:
        return Value(None, (np.nan,) * rank, loads=v.loads, exact=exact, root=object())
    told = [exact(lane) for lane in range(lanes)]
    if any(each is None for each in told):
        return Value(None, loads=v.loads, root=object())
    return Value(np.array(told))


def function(name: str, types: Sequence[Type]) -> Callable[[Any], Any] | None:
    """What an operation makes of each element of its operand, if it is a function of that alone."""
    return _BITS.get((types[0].element, types[-1].element)) if name == "bitcast" else FUNCTIONS.get(name)


def mapped(by: Callable[[Any], Any], v: Value, extents: Sequence[int]) -> Value:
    """A function of each element."""
    with np.errstate(all="ignore"):
        base = None if v.base is None else by(np.asarray(v.base, np.float64))
    exact = Exact(lambda every: by(np.asarray(every, np.float64)), (v,), extents)
    coef = tuple(0.0 if np.ndim(c) == 0 and c == 0 else np.nan for c in v.coef)
    root = None if v.uniform and v.root is None else object()
    return Value(base, coef, loads=v.loads, exact=None if v.uniform else exact, root=root)


def alike(v: Value, extents: Sequence[int], lanes: int, mask: Value | None = None) -> tuple[Piece | None, ...]:
    """Of addresses of which all elements are known: neighbours along each dimension that mostly step alike, as those of
    sorted places do, in a sample of lanes, where a mask lets both through."""
    chosen = np.unique(np.linspace(0, lanes - 1, SAMPLED_LANES).astype(int)) if v.exact else ()
    found = [(int(lane), every) for lane in chosen if (every := elements(v, lane, extents)) is not None]
    tiles = laid_out(found, mask, extents).reshape(-1, *extents)
    out: list[Piece | None] = []
    for d, (n, c) in enumerate(zip(extents, v.coef, strict=True)):
        gaps = np.diff(tiles, axis=d + 1) if n > 1 and bool(np.isnan(c).any()) else np.empty(0)
        steps, times = np.unique(gaps[~np.isnan(gaps)], return_counts=True)
        lost = len(steps) > 0
        length = n / ((1.0 - np.max(times) / np.sum(times)) * (n - 1) + 1.0) if lost else 1.0
        out.append(Piece(int(length), float(steps[np.argmax(times)])) if length >= 2 else None)
    return tuple(out)


class Sectors(NamedTuple):
    """Those of a tile of addresses that are not affine, in the mean of a sample of lanes."""

    sector_bytes: float = 0.0
    """Of the different ones, as if all of the tile asked for as many as what its mask lets through; 0 where that is not
    known."""
    reach_bytes: float = math.inf
    """From the first to the last."""
    stretch_bytes: float = 0.0
    """Of neighbours."""
    by_chance: bool = False
    """They lie as if drawn at random, so that tiles meet by chance."""
    new: float = 1.0
    """Share of those of a walk's tiles that no earlier tile of it is in."""


def mean_of(passes: Sequence[Sectors]) -> Sectors:
    """Those of the mean pass: a search begins at one place and ends anywhere."""
    if not passes:
        return Sectors()
    size, reach, stretch, drawn_, new = np.array(passes, float).T
    along, chance = np.array([stretch, drawn_]) @ size / size.sum()
    return Sectors(float(size.mean()), float(reach.max()), float(along), bool(chance > 0.5), float(new.mean()))


def let_through(mask: Value | None, extents: Sequence[int], lanes: int) -> Any:
    """Share of a mask's elements that are true; where loaded numbers decide, in the mean of a sample of lanes."""
    kept = share(mask, extents)
    if mask is None or not mask.exact or math.prod(extents) > MOST_ELEMENTS:
        return kept
    chosen = _sample(lanes, min(max(FEW_ELEMENTS // math.prod(extents), FEW_LANES), SAMPLED_LANES))
    found = [held.mean() for lane in chosen if (held := _held(mask, int(lane), extents)) is not None]
    most = float(np.broadcast_to(kept, lanes)[chosen].mean())
    return kept * min(float(np.mean(found)) / most, 1.0) if found and most else kept


def _held(mask: Value | None, lane: int, extents: Sequence[int]) -> Any:
    """Of each element, whether a mask that loaded numbers decide lets it through; None where that is not known."""
    every = elements(mask, lane, extents) if mask is not None and mask.exact else None
    return None if every is None else np.broadcast_to(every, extents).astype(bool)


def _cut(mask: Value | None, lane: int, tile: Any, extents: Sequence[int]) -> tuple[Any, float]:
    """What a mask lets through of a tile in one lane, and the share of its elements."""
    held = _held(mask, lane, extents)
    return inside(mask, lane, tile) if held is None else (np.broadcast_to(tile, extents)[held], float(held.mean()))


def sectors(
    sampled: Sequence[tuple[int, Any]], mask: Value | None, item_bytes: float, extents: Sequence[int]
) -> Sectors:
    """Of a sample of tiles of addresses."""
    cut = [_cut(mask, lane, tile, extents) for lane, tile in sampled]
    if not sum(kept for _, kept in cut):
        return Sectors()
    tiles = [tile for tile, kept in cut if kept]
    places = [np.unique(np.floor(tile * (item_bytes / SECTOR_BYTES))) for tile in tiles]
    reach = max(each[-1] - each[0] + 1.0 for each in places)
    mean, gaps = float(np.mean([len(each) for each in places])), list(map(np.diff, places))
    stretches, drawn_ = float(np.mean([1.0 + np.count_nonzero(each > 1) for each in gaps])), _by_chance(gaps)
    along = 1.0 if drawn_ else mean / stretches
    share = sum(kept for _, kept in cut) / len(tiles)
    return Sectors(SECTOR_BYTES * mean / share, SECTOR_BYTES * float(reach), SECTOR_BYTES * along, drawn_)


def unmet(
    v: Value, mask: Value | None, extents: Sequence[int], passes: tuple[Any, Any, Any, Any], item_bytes: float
) -> float:
    """`first_met` of a tile that is not affine, in those passes of a loop that are evaluated, or step evenly."""
    walks, (first, last, trips, stride) = list[Any](), passes
    for walk in np.unique((2 * np.arange(FEW_LANES) + 1) * len(first) // (2 * FEW_LANES)):
        steps, even = np.arange(min(int(trips[walk]), MOST_WALKED)) * stride[walk], math.isfinite(stride[walk])
        end = min(last[walk] + 1, first[walk] + (1 if even else MOST_WALKED))
        tiles = [(lane, elements(v, lane, extents)) for lane in range(int(first[walk]), int(end))]
        if any(tile is None for _, tile in tiles):
            return 1.0
        own: Any = [np.unique(_cut(mask, lane, tile, extents)[0]) for lane, tile in tiles]
        walks.append(own[0] + steps[:, None] if even else own)
    return first_met(walks, item_bytes)


def first_met(walks: Iterable[Sequence[Any]], item_bytes: float) -> float:
    """Of the sectors that a program is in, pass by pass, the share that it was in at no earlier pass; `walks`: of some
    programs the places of MOST_WALKED passes at most. Source: neighbours of blocks of atoms, another of each in each
    pass (`tabulated_density` in `zoo_24th.jsonl.gz`, tests/data/h200)."""
    met = [[np.unique(np.floor(at[np.isfinite(at)] * (item_bytes / SECTOR_BYTES))) for at in walk] for walk in walks]
    each = sum(len(at) for walk in met for at in walk)
    return sum(len(np.unique(np.concatenate(walk))) for walk in met) / each if each else 1.0


def of_all(passes: Sequence[Any]) -> FloatArray:
    """Places of some tiles of all passes together, of each tile those of one, drawn evenly: tiles lie in the order of
    programs, a row each."""
    at = [(int(n * GOLDEN % 1.0 * len(passes)), n) for n in range(max(map(len, passes), default=0))]
    return np.array([passes[k][n * len(passes[k]) // len(at)] for k, n in at]).ravel()


def drawn(v: Value, extents: Sequence[int], lanes: int, count: int, uneven: bool = False) -> list[tuple[int, Any]]:
    """A sample of lanes, each with all elements of a tile that is not affine, or has other steps in each (`uneven`);
    none where they are not known."""
    affine = not any(np.isnan(c).any() for c in v.coef)
    if math.prod(extents) > MOST_ELEMENTS or (not uneven if affine else not v.exact):
        return []
    return [(lane, every) for lane in _sample(lanes, count) if (every := elements(v, lane, extents)) is not None]


def _sample(lanes: int, count: int) -> Any:
    """One of equal parts each, in another place of each so that they keep no step with a loop."""
    parts = np.arange(count)
    return np.unique(((parts + (0.5 + parts * GOLDEN) % 1.0) * lanes / count).astype(int))


def laid_out(sampled: Sequence[tuple[int, Any]], mask: Value | None, extents: Sequence[int]) -> FloatArray:
    """All elements of a sample of tiles, one after another; NaN where a mask holds them back."""
    out = np.empty((len(sampled), *extents))
    for own, (lane, tile) in zip(out, sampled, strict=True):
        own[:] = tile
        if (let := _held(mask, lane, extents)) is not None:
            own[~let] = np.nan
        elif mask is not None:
            held = np.full(own.shape, np.nan)
            kept, _ = inside(mask, lane, own)
            inside(mask, lane, held)[0][:] = kept
            own[:] = held
    return out.ravel()


def _by_chance(gaps: Sequence[Any]) -> bool:
    """Whether the gaps between runs of sectors are those of places drawn at random: of several tiles, each over its own
    mean, since they may choose from more or fewer places; over that of all where a tile has a few, as of two rows."""
    apart = [each[each > 1] for each in gaps]
    every = np.concatenate([*apart, np.empty(0)])
    found = np.concatenate([each / (each if len(each) >= FEW_LANES else every).mean() for each in apart if len(each)]
                           or [every])  # fmt: skip
    if len(found) < FEWEST:
        return False
    ratios = np.quantile(found, (0.25, 0.5, 0.75)) / QUARTILES
    return bool(ratios.max() < LIKE * ratios.min())


def layout(
    kind: str, pointer: Value, mask: Value | None, extents: Sequence[int], lanes: int,
    passes: tuple[Any, Any, Any, Any] | None, item_bytes: float,
) -> tuple[Value, tuple[Piece | None, ...], Sectors, FloatArray]:  # fmt: skip
    """Its places, `bounded`, and how tiles of an access lie that are not affine: pieces along each dimension, of a load
    their sectors, and all places of some of an atomic or load. `passes`: of a loop first and last lanes, trips and
    stride, NaN where it does not step evenly."""
    pointer, loaded = bounded(pointer, mask, extents, lanes), kind == "load"
    pieces = pointer.pieces
    if not any(pieces):
        pieces = (None,) * len(extents) if pointer.base is None else alike(pointer, extents, lanes, mask)
    few, more = (n * FEW_ELEMENTS // math.prod(extents) for n in (1, MORE))
    least = FEW_LANES if loaded else min(max(more, SAMPLED_LANES), MORE * SAMPLED_LANES)
    few = min(max(few, least), SAMPLED_LANES) if loaded else max(few, least)
    uneven = kind == "atomic" and any(np.ptp(c) > 0.0 for c in pointer.coef)  # as of rays that go different ways
    tiles = drawn(pointer, extents, lanes, few, uneven) if kind != "store" else []
    if uneven and tiles:
        pointer = replace(pointer, coef=tuple(np.nan if np.ptp(c) > 0.0 else c for c in pointer.coef))
    placed = sectors(tiles, mask, item_bytes, extents) if loaded else Sectors()
    if passes is not None and placed.sector_bytes:
        placed = placed._replace(new=unmet(pointer, mask, extents, passes, item_bytes))
    places = laid_out(tiles, mask, extents)
    return pointer, pieces, placed, places[: None if loaded or np.isfinite(places).any() else 0]
