"""What one access asks of memory: stretches of its tiles, sectors of these, and which of them others have fetched."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.types import FloatArray
from .overlap import runs
from .trace import Access
from .values import SECTOR_BYTES, Piece

ALIGN_LIMIT = 128
"""Alignment beyond a line is no better."""
LANES = 32
"""Of a warp."""
LINE_BYTES, SECTORS, WIDEST, MOST_DEALT = 128, 4, 16, 1 << 14
"""Line of L1; its sectors; bytes that an instruction loads for a thread at most; elements that are looked at, to tell
how many lines lanes want."""


def tile_elements(access: Access) -> float:
    """Distinct elements of one tile."""
    if access.turned:
        return sum(part.width for part in runs(access.shape, access.coef, access.floors))
    return float(math.prod(map(_distinct_along, access.shape, access.coef, access.pieces)))


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


@dataclass(frozen=True)
class Stretch:
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
            if step != span and (pitch > 1 or not span < step < sector_bytes / access.item_bytes):
                break
            if step != span:
                run, pitch = span, step
            span, asked = step * n, asked * n
        run = run if pitch > 1 else span
        size = access.item_bytes
        return cls(run * size, span * size, asked * size, pitch)


def lanes_bytes(access: Access) -> float:
    """Contiguous of what neighbouring lanes of a warp read, of a tile that is turned; 0 of others."""
    if not access.turned:
        return 0.0
    row = runs((*(1,) * (len(access.shape) - 1), min(access.shape[-1], LANES)), access.coef, access.floors)
    return access.item_bytes * sum(part.width for part in row) / len(row)


def lines(access: Access, dealt: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Lines of L1 that a warp's lanes want at a time, for LINE_BYTES that they ask for, of a load whose elements are
    known, and the bytes of the sectors that they want of each. `dealt`: along each dimension elements of a thread,
    threads of a warp, warps. An instruction takes one element of each thread, or as many as lie side by side of
    WIDEST bytes. 0 where that is not known."""
    if access.kind != "load" or not len(access.drawn) or not len(dealt):
        return 0.0, 0.0
    instruction: Any = 0
    dimensions = zip(access.shape, access.coef, *dealt[:2], np.indices(access.shape, sparse=True), strict=True)
    for n, c, size, threads, along in dimensions:
        wide = min(size, max(int(WIDEST // access.item_bytes), 1)) if c == 1 else 1
        instruction = instruction * n + (along % size + along // (size * threads) * size) // wide
    places = access.drawn.reshape(-1, math.prod(access.shape))
    places = places[: max(MOST_DEALT // places.shape[1], 1)]
    count = int(np.max(instruction)) + 1
    own = np.arange(len(places))[:, None] * count + np.broadcast_to(instruction, access.shape).ravel()
    known = np.isfinite(places)
    sector = np.floor(places[known] * (access.item_bytes / SECTOR_BYTES)).astype(np.int64)
    low, high = (int(end) // SECTORS for end in (sector.min(initial=0), sector.max(initial=0)))
    each = np.unique(own[known] * ((high - low + 1) * SECTORS) + sector - low * SECTORS)
    wanted = max(len(np.unique(each // SECTORS)), 1)
    return wanted * LINE_BYTES / max(int(known.sum()) * access.item_bytes, 1.0), len(each) / wanted * SECTOR_BYTES


def density(access: Access, stretch: Stretch, others: Sequence[Access]) -> float:
    """Share of a stretch's bytes that are used. Of a load, those count that `others` of the loop read in its gaps, as
    where one reads the even elements and another the odd ones: L1 has them by then."""
    one = stretch.asked_bytes / stretch.span_bytes
    if one == 1 or access.kind != "load":
        return one
    return min(1.0, one * max(len(_beside(access, others, stretch.pitch)), 1))


def _beside(access: Access, others: Sequence[Access], apart: float = 0.0) -> set[bytes]:
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
        return max(len(_beside(access, others)), 1)
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


def scattered(access: Access) -> bool:
    """Whether neighbours of a tile may lie anywhere: their places are loaded, or not affine."""
    steps = zip(access.shape, access.coef, access.pieces, strict=True)
    lost = not access.placed.sector_bytes and any(n > 1 and math.isnan(c) and piece is None for n, c, piece in steps)
    return access.placed.by_chance or lost


def anywhere(access: Access) -> bool:
    """Whether whole tiles, or runs of them, may lie anywhere."""
    return scattered(access) or not (np.isfinite(access.start).all() and np.isfinite(access.stride).all())


def reached(access: Access, others: Sequence[Access]) -> float:
    """Bytes of the sectors in which an access is over bytes asked for. Of a run that lies anywhere, or is a row of a
    turned tile, whole sectors count; of a stretch with gaps what a program leaves out does, too. 1 of a store."""
    if access.kind == "store":
        return 1.0
    if access.placed.sector_bytes:
        return access.placed.sector_bytes / (tile_elements(access) * access.item_bytes)
    stretch = Stretch.of(access, SECTOR_BYTES)
    if scattered(access) or access.turned:
        run = stretch.run_bytes
        slack = max(SECTOR_BYTES - min(align_bytes(access), run), 0.0)
        return max((run + slack) / SECTOR_BYTES, math.ceil(run / SECTOR_BYTES)) * SECTOR_BYTES / run
    return 1.0 / min(filled(access, stretch, others, density(access, stretch, others)), 1.0)


def fetched(access: Access, others: Sequence[Access]) -> float:
    """The same of sectors that neither an earlier pass of its loop nor an access before it has fetched."""
    lost = scattered(access) or access.turned or access.placed.sector_bytes
    return reached(access, others) * access.placed.new * (fresh(access, others) if lost else 1.0)


def fresh(access: Access, others: Sequence[Access], room_bytes: float = math.inf) -> float:
    """Share of the sectors of runs that lie anywhere which no access before it has fetched, as the corners of a cell or
    the two parts of a complex number do that lie side by side: where the place of one is that of the other and a known
    number. In the mean over where in a sector such places may begin. `room_bytes`: of L1 for a program; what it fetches
    from the last of those on may leave less of them there."""
    if access.root is None or access.kind != "load":
        return 1.0
    run, item = Stretch.of(access, SECTOR_BYTES).run_bytes, access.item_bytes
    before, since = [0.0], 0.0
    for other in others:
        if other is access:
            break
        if other.kind == "load" and other.loop == access.loop:
            since += tile_elements(other) * other.item_bytes * reached(other, others)
        alike = ("kind", "argument", "loop", "shape", "item_bytes", "root")
        if all(getattr(other, name) == getattr(access, name) for name in alike):
            apart = _apart(access, other)
            if apart is not None and abs(apart) * item < SECTOR_BYTES + run:
                before.append(apart * item)
                since = tile_elements(other) * item * reached(other, others)
    if len(before) == 1 or run > ALIGN_LIMIT:
        return 1.0
    step = math.gcd(round(_multiple(access.root) * item), SECTOR_BYTES) or SECTOR_BYTES
    first = float(np.nan_to_num(access.beside[:1]).sum()) * item % step
    found = new = 0
    for phase in first + np.arange(0, SECTOR_BYTES, step):
        own, *past = (set(range(int((phase - d) // SECTOR_BYTES), int((phase - d + run - 1) // SECTOR_BYTES) + 1))
                      for d in before)  # fmt: skip
        found, new = found + len(own), new + len(own.difference(*past))
    return 1.0 - (1.0 - new / found) * min(room_bytes / since, 1.0)


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
