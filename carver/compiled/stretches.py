"""What one access asks of memory: stretches of its tiles, sectors of these, which of them others have fetched, and what
tiles touch together where they overlap in part, as in windows, stencils and convolutions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.types import FloatArray, Record
from .rectangles import Part, Rectangles, folded, joined
from .trace import Access, Trace
from .values import SECTOR_BYTES, Floor, Piece
from .walks import Walks

MOST_PARTS = 1 << 19
"""Rectangles, with the strips that they are cut into; more are not united."""
MOST_STEPS = 64
"""Places of a tile, or steps of a walk, that are no rectangle together: each is one of its own."""
SAMPLED_ELEMENTS, MIXER = 1024, 40503
"""Of a page of memory, all of which is in a sample or none; by which the numbers of pages are mixed, since rows of a
matrix are as long as powers of two."""
MOST_GAPS, MOST_KEPT = 6.0, 0.9
"""Times as many elements as a tile has may lie between those of neighbours that a division cuts into pieces; share that
a mask may let through of rows that would overlap without it."""


def rectangles(accesses: Sequence[Access], sector: float, kept: float) -> Rectangles | None:
    """Of accesses of one geometry, but for how long their tiles are, whose walks follow one another; `sector`: elements
    that are fetched at once; `kept`: share of a tile that masks let through. None where tiles lie side by side or one
    on the other, so that counting different ones is enough; and where they are no rectangles."""
    ways, ends = defaultdict[tuple[float, ...], list[int]](list), np.cumsum([len(a.start) for a in accesses])
    for n, a in enumerate(accesses):  # as a loop's taps and a load before it go
        moving = (a.count > 1) & (a.stride != 0)
        ways[(*a.shape, *((float(a.stride[0]), float(a.count[0])) if moving.any() else ()))].append(n)
    alike = len({a.shape for a in accesses}) == 1
    if alike and ((found := _rectangles(accesses, sector, kept)) or len(ways) == 1):
        return found
    tiles = [_tile(_straightened(_covered(accesses[chosen[0]])), sector, kept) for chosen in ways.values()]
    if not alike and len({tile and tile[0] for tile in tiles}) > 1:
        return None
    each = [_rectangles([accesses[n] for n in chosen], sector, kept, among=True) for chosen in ways.values()]
    whose = [np.concatenate([np.arange(ends[n] - len(accesses[n].start), ends[n]) for n in chosen])
             for chosen in ways.values()]  # fmt: skip
    if len({r and r.kept for r in each}) > 1 or (first := each[0]) is None:
        return None
    rows = [(walk[r.walk], r.top, r.left, r.height, r.width) for walk, r in zip(whose, each, strict=True) if r]
    walk, top, left, height, width = (np.concatenate(column) for column in zip(*rows, strict=True))
    return Rectangles(walk, top, left, height, width, first.sector, first.kept)


def _rectangles(
    accesses: Sequence[Access], sector: float, kept: float, among: bool = False
) -> Rectangles | None:  # fmt: skip
    """The same of those that all move alike; `among` others, which they may overlap."""
    kept = min(kept / max(math.prod(accesses[0].covered), 1e-9), 1.0)
    accesses, planes = _one_plane(accesses)
    tile = _tile(_straightened(_covered(accesses[0])), sector, kept)
    walks = Walks.joined(accesses)
    if tile is None or accesses[0].counted or not np.isfinite(walks.start + walks.stride).all():
        return None
    pitch, parts = tile
    whole = parts[0].width if not pitch and len(parts) == 1 else 0.0
    walk = np.arange(len(walks.start))
    if len(shared := _one_shape(accesses)) > 1:  # of one program all, from the access in the middle on
        order = np.argsort(shared)
        middle = int(order[len(order) // 2])
        each = len(accesses[0].start)
        walk = walk[middle * each : (middle + 1) * each]
        parts = list(_shifted(parts, shared - shared[middle], pitch))
    start, step, times = walks.start[walk], walks.stride[walk], walks.count[walk]
    moving = (times > 1) & (step != 0)
    alike = bool((times == times[0]).all() and (step == step[0]).all()) if len(times) else True
    if not len(walk) or (moving.any() and not alike):
        return None
    if moving.any():
        parts = _walked(parts, float(step[0]), int(times[0]), pitch)
    top: FloatArray = start // pitch if pitch else np.zeros(len(walk))
    left: FloatArray = start % pitch if pitch else start
    if not parts or not (among or _overlap(parts, top, left, sector if pitch else 1.0)):
        return None
    parts = list(joined(folded(parts, pitch)))
    n, own = len(parts), walks.kept[walk] / max(math.prod(accesses[0].covered), 1e-9)
    joint = np.where(times > n, times, 1.0)  # steps that make one row
    lost = whole * joint * np.maximum(1.0 - own, 0.0)  # of a row, what masks leave out is its end
    if n * len(walk) > MOST_PARTS:
        return _sampled(parts, top, left, lost, walk, sector, (kept if pitch else 1.0) * planes, not pitch)
    at = {"top": top, "left": left, "height": 0.0 * top, "width": 0.0 * top}
    columns = {name: np.repeat(at[name], n) + np.tile([getattr(p, name) for p in parts], len(walk)) for name in at}
    if whole:
        columns["width"] = np.maximum(columns["width"] - np.repeat(lost, n), 0.0)
        kept = 1.0
    elif kept < MOST_KEPT and n == len(shared):  # masks end rows, and no window beside fills what they leave out
        columns["width"] *= np.repeat(own, n)
        kept = 1.0
    return Rectangles(np.repeat(walk, n), **columns, sector=sector, kept=kept * planes)


def _one_plane(accesses: Sequence[Access]) -> tuple[Sequence[Access], float]:
    """Walks along the planes of a volume as if they stayed in one, and how many planes there are: where all go equally
    far by steps that are longer than their tiles, they meet the same neighbours in each. Of few or of other walks
    nothing is changed."""
    walks = Walks.joined(accesses)
    moving = (walks.count > 1) & (walks.stride != 0)
    step, times = (float(abs(column).max(initial=0.0, where=moving)) for column in (walks.stride, walks.count))
    extent = 1.0 + sum(abs(c) * (n - 1) for c, n in zip(accesses[0].coef, accesses[0].shape, strict=True))
    even = (abs(walks.stride[moving]) == step).all() and (walks.count[moving] > MOST_KEPT * times).all()
    if times * len(accesses) <= MOST_STEPS or not even or not extent <= step or not np.isfinite(walks.start).all():
        return accesses, 1.0
    if np.ptp(walks.start[moving] // step) > (1.0 - MOST_KEPT) * times:
        return accesses, 1.0
    still = (replace(a, start=a.start % step, stride=0.0 * a.stride, count=np.ones(len(a.count))) for a in accesses)
    return list(still), times


def _sampled(
    parts: Sequence[Part], top: FloatArray, left: FloatArray, lost: FloatArray, walk: Any, sector: float, kept: float,
    pages: bool,
) -> Rectangles:  # fmt: skip
    """Of rows of memory one of so many, which stand for all; of a single one those rectangles that begin in one of so
    many `pages`. Each has `lost` so much of its width."""
    every, columns = math.ceil(sum(part.height for part in parts) * len(walk) / MOST_PARTS), []
    for part in parts:
        rows = (top + part.top)[:, None] + np.arange(part.height)
        chosen = (left + part.left)[:, None] // SAMPLED_ELEMENTS if pages else rows
        here, along = np.nonzero((chosen.astype(np.int64) * MIXER >> 16) % every == 0)
        width = np.maximum(part.width - lost[here], 0.0)
        columns.append((walk[here], rows[here, along], left[here] + part.left, width))
    which, low, first, wide = map(np.concatenate, zip(*columns, strict=True))
    return Rectangles(which, low, first, np.ones(len(which)), wide, sector, kept * every)


def _covered(access: Access) -> Access:
    """The part of its tile that masks ever let through."""
    shape = (max(round(n * part), 1) for n, part in zip(access.shape, access.covered, strict=True))
    return replace(access, shape=tuple(shape)) if access.covered else access


def _straightened(access: Access) -> Access:
    """A dimension that a division cuts into pieces as if it went straight on: as far as from a tile that masks leave
    whole to the next one, where tiles follow one another with small gaps."""
    cut = [d for d, c in enumerate(access.coef) if np.isnan(c) and access.shape[d] > 1]
    if len(cut) != 1 or (piece := access.pieces[cut[0]]) is None or not abs(piece.step) >= 1:
        return access
    step, n = abs(piece.step), access.shape[cut[0]]
    places, which = np.unique(access.start // step, return_index=True)
    whole = access.kept[which][:-1] >= MOST_KEPT * access.kept.max(initial=0.0)
    gaps = np.diff(places)[whole & np.isfinite(places[1:])]
    apart = float(np.median(gaps)) if len(gaps) else 0.0
    if not n <= apart + 1 <= MOST_GAPS * n:
        return access
    coef = tuple(step if d == cut[0] else c for d, c in enumerate(access.coef))
    shape = tuple(round(apart) if d == cut[0] else m for d, m in enumerate(access.shape))
    return replace(access, coef=coef, shape=shape)


def _tile(access: Access, sector: float, kept: float) -> tuple[float, list[Part]] | None:
    """Elements from one row of a tile to the next, 0 for a tile of one row, and its rectangles: dimensions that step by
    less than a sector beyond what those before them cover are columns, the next is rows."""
    if access.turned:
        return 0.0, list(runs(access.shape, access.coef, access.floors, sector))
    width, rows, low = 1.0, list[tuple[float, int]](), 0.0
    for c, n in sorted(zip(access.coef, access.shape, strict=True), key=lambda each: abs(each[0])):
        if not np.isfinite(c) or (c != round(c) and abs(c) > 1):  # of steps below 1, which are a mean, some are none
            return None
        if c == 0 or n == 1:
            continue
        low += min(c, 0.0) * (n - 1)
        if 1 < abs(c) < width and not rows and kept < MOST_KEPT:  # rows that masks end before the next begins
            return None
        if not rows and (abs(c) <= width or (width == 1 and abs(c) < sector)):
            width += abs(c) * (n - 1)
        else:
            rows.append((abs(c), n))
    if not rows:
        return 0.0, [Part(0.0, low, 1.0, width)]
    (pitch, height), *more = rows
    if low or width > pitch:
        return None
    parts = [Part(0.0, 0.0, float(height), width)]
    for step, n in more:
        parts = list(_shifted(parts, step * np.arange(n), pitch)) if n * len(parts) <= MOST_STEPS else []
    return (pitch, parts) if parts else None


def runs(
    shape: tuple[int, ...], coef: tuple[float, ...], floors: tuple[Floor, ...], gap: float = 1.0
) -> tuple[Part, ...]:  # fmt: skip
    """Elements of a tile that lie one after another, or apart by less than `gap`, where sums of places are rounded, as
    those of a turned image are. Half a step of each sum is over at the tile's first element."""
    places = np.unique(turned_places(shape, coef, floors))
    ends = np.flatnonzero(np.diff(places, append=np.inf) > max(gap, 1.0))
    begins = np.concatenate([[0], ends[:-1] + 1])
    spans = zip(places[begins], places[ends], strict=True)
    return tuple(Part(0.0, float(low), 1.0, float(high - low) + 1.0) for low, high in spans)


def turned_places(shape: tuple[int, ...], coef: tuple[float, ...], floors: tuple[Floor, ...]) -> Any:
    """Places of all elements of a tile where sums of places are rounded, from near its first one on."""
    along = np.meshgrid(*map(np.arange, shape), indexing="ij", sparse=True)
    at: Any = sum(c * i for c, i in zip(coef, along, strict=True))
    for factor, slopes in floors:
        place: Any = sum(c * i for c, i in zip(slopes, along, strict=True))
        at = at + factor * (np.floor(place + 0.5) - place)
    return np.rint(at)


def _one_shape(accesses: Sequence[Access]) -> FloatArray:
    """How far each access lies from the first in every program; one number where that differs or programs do."""
    first, *others = accesses
    away = [0.0]
    for other in others:
        alike = len(other.start) == len(first.start) and all(
            np.array_equal(getattr(other, n), getattr(first, n)) for n in ("program", "round", "stride", "count")
        )
        if not alike or not len(first.start) or np.ptp(apart := other.start - first.start):
            return np.zeros(1)
        away.append(float(apart[0]))
    return np.array(away)


def _shifted(parts: Sequence[Part], by: Any, pitch: float) -> Iterator[Part]:
    for elements in by:
        down = round(elements / pitch) if pitch else 0
        for part in parts:
            yield part._replace(top=part.top + down, left=part.left + elements - down * pitch)


def _walked(parts: list[Part], step: float, times: int, pitch: float) -> list[Part]:
    """Of all steps of a walk; nothing where these are too many."""
    down = round(step / pitch) if pitch and step % pitch == 0 else 0
    high, wide = min(p.height for p in parts), min(p.width for p in parts)
    whole = step * (times - 1)
    if down and abs(down) <= high:
        rows = down * (times - 1)
        return [p._replace(top=p.top + min(rows, 0), height=p.height + abs(rows)) for p in parts]
    if not down and abs(step) <= wide and (not pitch or abs(whole) < pitch):
        return [p._replace(left=p.left + min(whole, 0.0), width=p.width + abs(whole)) for p in parts]
    return list(_shifted(parts, step * np.arange(times), pitch)) if times * len(parts) <= MOST_STEPS else []


def _overlap(parts: Sequence[Part], top: FloatArray, left: FloatArray, sector: float) -> bool:
    """Whether two tiles may have some elements in common, or sectors, and not all."""
    if len(parts) > 1:
        return True
    [part] = parts
    for places, extent in ((top, part.height), (left, max(part.width, sector))):
        if (np.diff(np.unique(places)) < extent).any():
            return True
    return False


ALIGN_LIMIT = LINE_BYTES = 128
"""Alignment beyond a line of L1 is no better."""
LANES = 32
"""Of a warp."""


def tile_elements(access: Access) -> float:
    """Distinct elements of one tile, before its mask leaves some out."""
    if access.turned:
        return sum(part.width for part in runs(access.shape, access.coef, access.floors))
    every, span = math.prod(map(_distinct_along, access.shape, access.coef, access.pieces)), 1.0
    for step, n in sorted(_steps(_covered(access))):
        if 1 <= step < span and step % 1 == 0:  # as taps that are an axis, beside places that are another
            return every / (span * n) * (span + step * (n - 1))
        if step != span:
            break
        span *= n
    return float(every)


def _distinct_along(n: int, coef: float, piece: Piece | None) -> int:
    """Distinct of the n elements along one dimension."""
    if coef == 0:
        return 1
    if piece and 0 < abs(piece.step) < 1 and math.isnan(coef):
        return math.ceil(n * abs(piece.step))
    return max(round(n / piece.length), 1) if piece and piece.step == 0 else n


def _steps(access: Access) -> Iterator[tuple[float, int]]:
    """Step in memory, and how often it is taken, along each dimension."""
    for n, c, piece in zip(access.shape, access.coef, access.pieces, strict=True):
        if not math.isnan(c) and c != 0:
            same = piece.length if piece and piece.step == 0 else 1
            yield abs(c) * same, -(-n // same)
        elif c != 0 and piece and piece.step:
            yield max(abs(piece.step), 1.0), _distinct_along(min(n, piece.length), c, piece)


class Stretch(Record):
    """Elements of a tile that lie one after another, or apart by less than a sector."""

    run_bytes: float
    """Contiguous."""
    span_bytes: float
    """From its first element to the end of its last gap."""
    asked_bytes: float
    pitch: float
    """Distance of the runs within it. [elements]"""

    @classmethod
    def of(cls, access: Access, sector_bytes: float) -> Stretch:
        """That of an access: dimensions join from the smallest step on, one of them with gaps of less than a sector. Of
        a dimension that is not affine, a piece joins."""
        if access.turned:
            mean = access.item_bytes * tile_elements(access) / len(runs(access.shape, access.coef, access.floors))
            return cls(mean, mean, mean, 1.0)
        run = span = asked = pitch = 1.0
        for step, n in sorted(_steps(access)):
            if step < span == 1.0:  # in the mean: some are the same
                span = asked = step * (n - 1) + 1.0
                continue
            if step < span and pitch == 1:  # they overlap
                span = asked = span + step * (n - 1)
                continue
            if step != span and (pitch > 1 or not span < step < sector_bytes / access.item_bytes):
                break
            if step != span:
                run, pitch = span, step
            span, asked = step * n, asked * n
        run = run if pitch > 1 else span
        size = access.item_bytes
        return cls(run * size, span * size, asked * size, pitch)


def density(access: Access, stretch: Stretch, others: Sequence[Access]) -> float:
    """Share of a stretch's bytes that are used. Of a load, those count that `others` of the loop read in its gaps, as
    where one reads the even elements and another the odd ones: L1 has them by then."""
    one = stretch.asked_bytes / stretch.span_bytes
    if one == 1 or access.kind != "load":
        return one
    return min(1.0, one * max(len(neighbours(access, others, stretch.pitch)), 1))


def neighbours(access: Access, others: Sequence[Access], apart: float = 0.0) -> set[bytes]:
    """Where accesses of a loop begin that lie in the same piece of memory of so many elements, a sector if none is
    said, in all programs alike."""
    apart = apart or SECTOR_BYTES / access.item_bytes
    first = access.start // apart
    return {
        other.start.tobytes()
        for other in others
        if (other.kind, other.argument, other.loop, other.shape, other.coef, other.item_bytes)
        == (access.kind, access.argument, access.loop, access.shape, access.coef, access.item_bytes)
        and np.array_equal(other.program, access.program)
        and np.array_equal(other.start // apart, first)
    }


def filled(access: Access, stretch: Stretch, others: Sequence[Access], once: float) -> float:
    """Share of a stretch's bytes that a program reads in all its iterations, the first one as an example: those that
    start elsewhere in the pitch read what others leave out. At least `once`, the share of one iteration. Of stretches
    within a sector each, as a field of structs is: the times what it asks for that are read of a sector. Of a store,
    how many of its loop write to the same sectors."""
    if access.kind != "load":
        return max(len(neighbours(access, others)), 1)
    if once == 1:
        sector, run = SECTOR_BYTES // access.item_bytes, stretch.span_bytes / access.item_bytes
        several = tile_elements(access) > run and not scattered(access) and not access.turned
        if run >= sector or not several or not len(access.start):
            return 1.0
        alike = [other for other in others if (other.shape, other.coef) == (access.shape, access.coef)]
        starts = _starts(access, alike, sector)
        starts = starts[starts // sector == access.start[0] // sector]
        return max(len(np.unique(starts[:, None] % sector + np.arange(run))) / run, 1.0)
    places = len(np.unique(_starts(access, others, stretch.pitch) % stretch.pitch))
    return max(once, min(1.0, stretch.asked_bytes / stretch.span_bytes * places))


def _starts(access: Access, others: Sequence[Access], steps: float) -> FloatArray:
    """Where the first program's tiles of an access begin, and those of others of its tensor, in so many iterations."""
    found = [np.empty(0)]
    for other in others:
        if (other.kind, other.argument, other.item_bytes) == (access.kind, access.argument, access.item_bytes):
            first = other.program == other.program.min(initial=0.0)
            for start, stride, count in zip(other.start[first], other.stride[first], other.count[first], strict=True):
                found.append(start + stride * np.arange(min(count, steps) if stride else 1))
    out = np.concatenate(found)
    return out[np.isfinite(out)]


def scattered(access: Access, told: bool = False) -> bool:
    """Whether neighbours of a tile may lie anywhere: their places are loaded, or not affine. `told`: whether it is
    loaded numbers alone, known or not, that say where each is."""
    steps = zip(access.shape, access.coef, access.pieces, strict=True)
    lost = (told or not access.placed.sector_bytes) and any(n > 1 and math.isnan(c) and p is None for n, c, p in steps)
    return access.placed.by_chance or lost


def anywhere(access: Access) -> bool:
    """Whether whole tiles, or runs of them, may lie anywhere."""
    return scattered(access) or not (np.isfinite(access.start).all() and np.isfinite(access.stride).all())


def filled_in_part(access: Access, others: Sequence[Access]) -> bool:
    """Whether an access stores less than sectors that may lie anywhere, of a tensor that nothing else touches: L2 gives
    them up before others store the rest, so that they are read to fill them, as what atomics change."""
    alone = access.kind == "store" and all(a.kind == "store" for a in others if a.argument == access.argument)
    return alone and anywhere(access) and Stretch.of(access, SECTOR_BYTES).run_bytes < SECTOR_BYTES


def covers(store: Access, load: Access) -> bool:
    """Whether a load's tiles are known to be those that a store before it writes, or the first of them."""
    alike = ("argument", "coef", "shape", "item_bytes", "program")
    if store.kind != "store" or load.argument is None or scattered(load) or scattered(store):
        return False
    same = all(np.array_equal(getattr(store, name), getattr(load, name)) for name in alike)
    if not same or not np.array_equal(store.start, load.start) or (store.kept < load.kept).any():
        return False
    return bool((((store.stride == load.stride) | (load.count == 1)) & (store.count >= load.count)).all())


def told(accesses: Sequence[Access], trace: Trace, walks: FloatArray, program: FloatArray, beside: FloatArray) -> Any:
    """Of each walk of loads that lie anywhere, by rows of `walks` its start, stride and so on, a number that is the
    same where what tells its places is the same part of a tensor, or the same numbers; None where that is not known."""
    if accesses[0].kind != "load":
        return None
    if not accesses[0].placed.by_chance:
        loads = accesses[0].loads
        keys = [a for a in trace.accesses if {a.argument} == loads and a.kind != "store"]
        once = np.arange(trace.programs)
        known = all(np.array_equal(a.program, once) and not anywhere(a) for a in keys)
        if not keys or not known or any(a.loads != loads for a in accesses):
            return None
        columns = np.stack([each for a in keys for each in (a.start, a.stride, a.count)])
        walks = np.stack((_alike(columns)[program.astype(np.int64)], beside, *walks[2:]))
    return _alike(walks) if np.isfinite(walks).all() else None


def _alike(columns: FloatArray) -> Any:
    """Of each column, a number that is the same for the same ones."""
    return np.unique(columns, axis=1, return_inverse=True)[1].ravel()


def reached(access: Access, others: Sequence[Access]) -> float:
    """Bytes of the sectors in which an access is over bytes asked for. Of a run that lies anywhere, or is a row of a
    turned tile, whole sectors count; of a stretch with gaps what a program leaves out does, too. 1 of a store, but for
    one that is `filled_in_part`."""
    if access.kind == "store" and not filled_in_part(access, others):
        return 1.0
    if access.placed.sector_bytes:
        return access.placed.sector_bytes / (tile_elements(access) * access.item_bytes)
    stretch = Stretch.of(access, SECTOR_BYTES)
    if scattered(access) or access.turned:
        run = stretch.run_bytes
        slack = max(SECTOR_BYTES - min(align_bytes(access), run), 0.0)
        return max((run + slack) / SECTOR_BYTES, math.ceil(run / SECTOR_BYTES)) * SECTOR_BYTES / run
    return 1.0 / min(filled(access, stretch, others, density(access, stretch, others)), 1.0)


def held_bytes(access: Access, others: Sequence[Access]) -> float:
    """Of the lines of L1 that a tile is in, which it keeps whole: a sector takes as much of it as a line."""
    asked, stretch = tile_elements(access) * access.item_bytes, Stretch.of(access, LINE_BYTES)
    span, align, pieces = stretch.span_bytes, align_bytes(access, stretch.pitch), asked / stretch.asked_bytes
    if access.placed.sector_bytes:
        span, align = max(access.placed.stretch_bytes, SECTOR_BYTES), SECTOR_BYTES
        pieces = asked * reached(access, others) / span
    return pieces * max(span + LINE_BYTES - min(align, span, LINE_BYTES), LINE_BYTES)


def fetched(access: Access, others: Sequence[Access]) -> float:
    """The same of sectors that neither an earlier pass of its loop nor an access before it has fetched."""
    lost = scattered(access) or access.turned or access.placed.sector_bytes
    return reached(access, others) * access.placed.new * (fresh(access, others) if lost else 1.0)


def fresh(access: Access, others: Sequence[Access], room_bytes: float = math.inf) -> float:
    """Share of the sectors of runs that lie anywhere which no access before it has fetched, as the corners of a cell or
    the two parts of a complex number do that lie side by side: where the place of one is that of the other and a known
    number, or all places of both are known in a loop that was followed pass by pass. `room_bytes`: of L1 for a program;
    what it fetches from the last of those on may leave less of them there."""
    if access.kind != "load" or (access.root is None and not len(access.drawn)):
        return 1.0
    before = others[: next((n for n, other in enumerate(others) if other is access), len(others))]
    new, since = _new_of_known(access, before) if access.root is None else _new_beside(access, before)
    if not since or not math.isfinite(room_bytes):  # what is held takes longer to tell than all the rest
        return new
    return 1.0 - (1.0 - new) * min(room_bytes / sum(held_bytes(each, others) for each in since), 1.0)


def _same(access: Access, other: Access, *more: str) -> bool:
    names = ("kind", "argument", "loop", "shape", "item_bytes", *more)
    return all(getattr(other, n) == getattr(access, n) for n in names)


def _new_of_known(access: Access, before: Sequence[Access]) -> tuple[float, Sequence[Access]]:
    """`fresh` with room for all, by all places of some tiles, and loads from the last on that have some of its sectors;
    none if none has."""
    met = [n for n, each in enumerate(before) if _same(access, each) and len(each.drawn) == len(access.drawn)]
    if not met or not np.isfinite(access.drawn).any():
        return 1.0, ()
    at = np.stack([each.drawn for each in (access, *(before[n] for n in met))]) * access.item_bytes // SECTOR_BYTES
    at += np.arange(at.shape[1]) // math.prod(access.shape) * (np.nanmax(at) - np.nanmin(at) + 1.0)  # tiles apart
    new = float(np.isin(np.unique(at[0][np.isfinite(at[0])]), at[1:], invert=True).mean())
    since = [each for each in before[met[-1] :] if each.kind == "load" and each.loop == access.loop]
    return new, since if new < 1.0 else ()


def _new_beside(access: Access, every: Sequence[Access]) -> tuple[float, Sequence[Access]]:
    """The same by what lies between the places of both, in the mean over where in a sector such places may begin."""
    run, item = Stretch.of(access, SECTOR_BYTES).run_bytes, access.item_bytes
    before, since, near = [0.0], list[Access](), list[float]()
    for other in every:
        apart = _apart(access, other) if _same(access, other, "root") else None
        beside = apart is not None and any(abs(apart - each) * item < LINE_BYTES for each in near)
        if other.kind == "load" and other.loop == access.loop and not beside:
            since.append(other)
        if apart is not None:
            near.append(apart)
            if abs(apart) * item < SECTOR_BYTES + run:
                before.append(apart * item)
                since, near = [other], [apart]
    if len(before) == 1 or run > ALIGN_LIMIT:
        return 1.0, ()
    step = math.gcd(round(_multiple(access.root) * item), SECTOR_BYTES) or SECTOR_BYTES
    first = float(np.nan_to_num(access.beside[:1]).sum()) * item % step
    found = new = 0
    for phase in first + np.arange(0, SECTOR_BYTES, step):
        own, *past = (set(range(int((phase - d) // SECTOR_BYTES), int((phase - d + run - 1) // SECTOR_BYTES) + 1))
                      for d in before)  # fmt: skip
        found, new = found + len(own), new + len(own.difference(*past))
    return new / found, since


def _apart(one: Access, other: Access) -> float | None:
    """Elements from the other's places to those of one, by what is known of their starts; None where that differs."""
    for name, lost in (("start", math.nan), ("beside", 0.0)):  # where no part of a sum is known, it is 0
        a, b = (np.nan_to_num(getattr(each, name), nan=lost) for each in (one, other))
        if len(a) == len(b) and len(a) and np.isfinite(a - b).all():
            return float(a[0] - b[0]) if not np.ptp(a - b) else None
    return None


def merged(access: Access, at_once: float) -> float:
    """Share of the sectors of a load in so many iterations, which the code does in one pass, that none of these but the
    first has asked for: loads one after another that want the same sector share one look-up beyond L1, whether or not
    L1 keeps it."""
    steps = np.unique(np.abs(access.stride[access.count > 1])) * access.item_bytes
    if access.kind != "load" or at_once <= 1 or len(steps) != 1 or not 0 < steps[0] < SECTOR_BYTES:
        return 1.0
    slack = SECTOR_BYTES - math.gcd(round(align_bytes(access)), SECTOR_BYTES)
    span = Stretch.of(access, SECTOR_BYTES).span_bytes + slack
    return (span + (at_once - 1.0) * float(steps[0])) / (at_once * max(span, SECTOR_BYTES))


def align_bytes(access: Access, pitch: float = 1.0) -> float:
    """What the starts of all stretches are multiples of, up to a line; `pitch` apart, in elements, if with gaps."""
    known = access.start[np.isfinite(access.start)] // pitch * pitch
    columns = [known, access.stride[np.isfinite(access.stride)]]
    columns += [np.array([c]) for c, n in zip(access.coef, access.shape, strict=True) if abs(c) > pitch and n > 1]
    whole = (abs(np.rint(column * access.item_bytes)).astype(np.int64) for column in columns if len(column))
    return float(np.gcd.reduce([ALIGN_LIMIT, *(int(np.gcd.reduce(column)) for column in whole)]))


def _multiple(root: Any) -> float:
    """What the places of a root are multiples of, as far as its sums and products tell."""
    match root:
        case ("times", factor, inner):
            return abs(float(factor)) * _multiple(inner)
        case ("sum" | "gap", one, other):
            return math.gcd(int(_multiple(one)), int(_multiple(other)))
    return 1.0
