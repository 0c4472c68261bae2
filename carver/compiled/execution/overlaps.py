"""What the tiles of several instructions have in common: those that cover each other, and those that lie side by side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..sectors import GOLDEN
from .lanes import Array, distinct
from .launch import SPACE
from .program import Program
from .tiles import SECTOR_BYTES, Lying, Tile

COVERED, BESIDE, FEW = 0.75, 64, 64
"""Share of what so many neighbours load that those of an earlier load must cover; places that are looked up before all
are."""


def choosing(program: Program, tiles: Sequence[Tile]) -> set[str]:
    """Tensors on whose contents the addresses of tiles depend that lie anywhere."""
    loads = {tile.index: tile.place.name for tile in tiles if tile.place is not None and tile.kind == "load"}
    lost = ((tile.index, tile.led) for tile in tiles if tile.anywhere)
    return {loads[j] for i, led in lost for j in program.feeding(i) if j in loads and (j != i or led)}


def neighbours(blocks: Array, width: int) -> Array:
    """Which of some blocks, of which the first go on one after another, count as neighbours: about BESIDE of one row of
    a grid so wide, or of as many rows as follow each other."""
    along = np.flatnonzero(np.diff(blocks, append=-1) != 1)[0] + 1
    columns = max(BESIDE * width // max(int(along), width), 1)
    return (np.arange(len(blocks)) < along) & ((blocks - blocks[0]) % width < columns)


def steps(starts: Array, blocks: Array, grid: Sequence[int]) -> list[tuple[int, int]]:
    """Bytes from the tile of a block to that of the next one along each axis of the grid, and blocks along it, farthest
    first; nothing where tiles do not lie evenly, or where it is not seen along which axis."""
    at = np.stack(np.unravel_index(blocks, tuple(grid[::-1])), axis=1)
    at, far = at - at[0], starts - starts[0]
    solved, _, rank, _ = np.linalg.lstsq(at, far, rcond=None)
    by: Array = np.round(solved).astype(np.int64)
    if rank < sum(n > 1 for n in grid) or (at @ by == far).mean() < COVERED:
        return []
    return sorted(((abs(step), n) for step, n in zip(by.tolist(), grid[::-1], strict=True) if step), reverse=True)


def _own(apart: int, by: Sequence[tuple[int, int]]) -> int:
    """What is left of a distance without whole blocks, where most blocks have another one so far from them."""
    for step, count in by:
        whole = (2 * apart + step) // (2 * step)  # what lies half in each of two counts once for both
        if abs(whole) < (1.0 - COVERED) * count:
            apart -= whole * step
    return apart


def overlaps(
    found: Sequence[tuple[Tile, Lying | None]], blocks: Array, grid: Sequence[int]
) -> dict[int, tuple[int, float]]:
    """Instruction -> bytes by which its tiles lie apart from those of an earlier one, where these, or others that count
    as these, cover them but for a small part, in the same block or in others, as the neighbours of a stencil do; and
    the bytes of these. They count as the earlier ones, those of another plane as what its blocks load. `blocks`: of the
    grid, by slot."""
    out: dict[int, tuple[int, float]] = {}
    kept: defaultdict[Any, list[tuple[Tile, Lying, list[tuple[Any, int | None]]]]] = defaultdict(list)
    first: dict[Any, tuple[Array, Array, Array, list[tuple[int, int]]]] = {}
    met: defaultdict[Any, dict[int | None, bool]] = defaultdict(dict)
    near = neighbours(blocks, grid[0])
    for tile, lies in found:
        if lies is None or tile.path != "pointer":
            continue
        form: Any = id(tile.place), tile.kind, tile.unit_bytes
        form += tuple(column.tobytes() for column in (lies.program, lies.stride, lies.count))
        start = lies.start[near[lies.program]]
        if form not in first:
            by = steps(lies.start, blocks[lies.program], grid)[:1] if grid[2] > 1 else []
            first[form] = start, tile.units, None, by
        there, units, mine, by = first[form]
        if len(start):
            start = start + (_own(whole := int(np.median(start - there)), by) - whole)
        move, left = divmod(start - there, tile.unit_bytes)
        alike = len(move) and not left.any() and (move == move[0]).all() and np.array_equal(units, tile.units)
        at = int(move[0]) if alike else None  # as far from those of the first instruction everywhere
        if mine is None or at is None:
            mine = distinct(distinct(start // tile.unit_bytes)[:, None] + tile.units)
            if first[form][2] is None:
                first[form] = start, tile.units, mine, by
        else:
            mine = mine + at
        few = mine[(np.arange(FEW) * GOLDEN % 1.0 * len(mine)).astype(np.int64)] if mine.size else mine
        for earlier, lain, group in kept[form] if mine.size else ():
            if tile.tile_bytes <= earlier.tile_bytes and any(
                _covers(theirs, mine, few, None if None in (at, other) else at - other, met[form])
                for theirs, other in reversed(group)
            ):
                apart = lies.start - lain.start
                most = int(np.median(apart))
                if (apart == most).mean() > COVERED:  # else tiles meet as they are, as those of rows and columns
                    out[tile.index] = _own(most, by), earlier.tile_bytes
                    group.append((mine, at))
                break
        else:
            next_ = by[0][0] // tile.unit_bytes if by else 0
            every = mine if not by else distinct(np.concatenate([mine - next_, mine, mine + next_]))
            kept[form].append((tile, lies, [(every, at)]))
    return out


def _covers(theirs: Any, mine: Any, few: Any, between: int | None, met: dict[int | None, bool]) -> bool:
    """Whether places cover most of others. `met`: what is known of those that lie `between` apart."""
    if mine[0] > theirs[-1] or theirs[0] > mine[-1]:
        return False
    if between is None or between not in met:
        met[between] = covered(theirs, few) > COVERED / 2 and covered(theirs, mine) > COVERED
    return met[between]


def uncovered(found: Sequence[tuple[Tile, Lying]]) -> dict[int, float]:
    """Share of the tile of a load that no earlier load of its block covers, where both lie equally far from each other
    in all blocks, as the planes of a stencil do."""
    out: dict[int, float] = {}
    first: dict[Any, tuple[Array, Array]] = {}
    for tile, lies in found:
        if (tile.kind, tile.path) != ("load", "pointer"):
            continue
        key = id(tile.place), tile.unit_bytes, *(each.tobytes() for each in (lies.program, lies.stride, lies.count))
        there, before = first.get(key, (lies.start, np.array([-SPACE])))
        move, left = divmod(lies.start - there, tile.unit_bytes)
        if left.any() or (move != move[0]).any():
            continue
        mine = tile.units + int(move[0])
        out[tile.index] = 1.0 - covered(before, mine)
        first[key] = there, distinct(np.concatenate([before, mine]))
    return out


def covered(places: Array, some: Array) -> float:
    """Share of some places that is among others, which are sorted."""
    return np.count_nonzero(places[places[:-1].searchsorted(some)] == some) / len(some)


def stretches(found: Sequence[tuple[Tile, Lying, int]]) -> dict[int, tuple[float, int]]:
    """Bytes of the stretch that a tile is part of, by instruction, where others of its kind go on beside it in the same
    pass, and how many begin in its first sector: what they share is fetched once, or filled."""
    alike: defaultdict[tuple[object, ...], list[tuple[int, int, Tile]]] = defaultdict(list)
    first: dict[tuple[object, ...], Lying] = {}
    for tile, lies, loop in found:
        if tile.kind == "atomic" or tile.path != "pointer":
            continue
        key = tile.kind, id(tile.place), loop, tile.span_bytes, lies.program.tobytes(), lies.stride.tobytes()
        apart = lies.start - first.setdefault(key, lies).start
        if (apart == apart[0]).all():
            alike[key].append((int(apart[0]), tile.index, tile))
    out: dict[int, tuple[float, int]] = {}
    for members in alike.values():
        here, span = sorted(members, key=lambda each: each[:2]), members[0][2].span_bytes
        cuts = [i for i in range(1, len(here)) if here[i][0] > here[i - 1][0] + span]
        for begin, end in pairwise([0, *cuts, len(here)]):
            reach = here[end - 1][0] - here[begin][0] + span
            sectors = [tile.start // SECTOR_BYTES for *_, tile in here[begin:end]]
            out |= {each[1]: (reach, sectors.count(at)) for each, at in zip(here[begin:end], sectors, strict=True)}
    return out
