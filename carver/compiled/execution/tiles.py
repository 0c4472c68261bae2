"""What each instruction moves of global memory: the tile of one block, and where the tiles of all blocks lie."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import field, replace
from itertools import product

import numpy as np

from ...base.types import Record
from ..binary import TensorMap
from ..isa.banks import BEHIND, LINE_BYTES, in_part
from ..isa.code import Code
from ..stretches import ALIGN_LIMIT
from ..turns import Turn
from ..walks import Walks
from .lanes import Array, Column, begins, distinct, every, lengths, signed, wide
from .launch import SPACE, Launch, Place
from .leaps import Event
from .program import MOVES, Program
from .run import Drawn, Run

EXACT = 4
"""So many executions of an instruction, evenly over all, are looked at by address; of others only lanes count."""
MOST_POINTS = 512
"""Of a walk inside of another one."""
SECTOR_BYTES, WARP, BULK_BYTES, WORD_BYTES = 32, 32, 16, 4
OTHER_FORM, SAME_FORM = 0.25, 0.5
"""Share of blocks whose tile may have another form than the one that was looked at, and of its extent by which its
parts may be elsewhere in it and it still has the same, outside of loops."""
ALIKE = 2.0
"""Tiles that hold more than so many times as much as others are no progression together with these."""
LED = 0.5
"""Share of lanes at known places below which an access that loaded words lead on lies anywhere, as the nodes of a list
of which the first alone is known."""
FEW_SECTORS = 16
"""Of a warp, of which L1 passes on as one what stores write in turn. Source: 128 MiB stored a word at a time by threads
that have 1 to 32 in a row take 0.04 ms up to four, which are 16 sectors, and 0.32 ms and more from eight on, on an H200
(`words_in_a_row.jsonl` in tests/data/h200)."""


class Tile(Record):
    """What a block moves by one instruction.

    kind: "load", "store" or "atomic"; path: "pointer", "descriptor", or "bulk" for runs of bytes that an engine copies
    place: the tensor; None where nothing is known of the addresses
    tile_bytes: distinct bytes of the largest tile that was seen
    run_bytes, span_bytes: what is contiguous, and stretches with gaps of less than a sector
    density: share of the stretches that is used
    start: the first byte, as an example; offsets: of threads that stand for all, how far each is from the first byte
    mean, whole, part: bytes of a mean tile over `tile_bytes`: of all, of those that hold all threads of `offsets`, and
        of the others, at the edges of a tensor
    units: of `unit_bytes` that the tile covers, from that of its first byte on
    moved: bytes of the sectors that it touches over its own; executions: in the mean of the blocks that were run
    lines: of a store, `in_part`, for as many of its bytes as a line has
    anywhere: the addresses are not known, at most of which tensor they are; led: but for the first of them, from which
        loaded words lead on
    drawn: of an atomic, known addresses of all lanes of a warp, warp after warp and block after block
    seen: addresses of each block's lanes in the executions that were looked at, sorted, and where each begins
    """

    index: int
    kind: str
    path: str
    place: Place | None
    tile_bytes: float = 0.0
    whole: float = 1.0
    part: float = 1.0
    run_bytes: float = SECTOR_BYTES
    span_bytes: float = SECTOR_BYTES
    density: float = 1.0
    align_bytes: float = ALIGN_LIMIT
    start: int = 0
    offsets: Mapping[int, int] = field(default_factory=dict)
    units: Array = None
    unit_bytes: int = WORD_BYTES
    moved: float = 0.0
    lines: float = 0.0
    executions: float = 0.0
    anywhere: bool = False
    led: bool = False
    mean: float = 1.0
    drawn: Array = ()
    seen: tuple[Array, Array] = ((), ())


def by_instruction(run: Run, kinds: Sequence[str]) -> dict[int, list[Event]]:
    """Events of these kinds, by the index of the instruction."""
    out: dict[int, list[Event]] = {}
    for event in run.log:
        if event.kind in kinds:
            out.setdefault(run.program.index[event.where], []).append(event)
    return dict(sorted(out.items()))


def awake(run: Run, code: Code) -> dict[int, float]:
    """Of each access of shared memory under a predicate, the share of the first block's warps that execute it of which
    lanes take part: masks hold the others back, as in the later steps of a sum over a block."""

    def share(event: Event) -> float:
        mine = run.slot[event.lanes] == run.slot[event.lanes[0]]
        taking, every_one = (event.lanes[mine & which] for which in (wide(event.detail, len(mine)), True))
        return len(distinct(run.warp[taking])) / len(distinct(run.warp[every_one]))

    found = by_instruction(run, ("shared",)).items()
    return {index: float(np.average([share(e) for e in events], weights=[times(e) for e in events]))
            for index, events in found if code.instructions[index].predicate}  # fmt: skip


def times(event: Event) -> int:
    """Executions that an event stands for."""
    return math.prod(walk.times for walk in event.walks)


def spread(event: Event) -> tuple[Array, Array]:
    """Lanes that take part in an event at a known address, and that address."""
    column = event.values[0]
    if column is None:
        return event.lanes[:0], event.lanes[:0]
    active = event.detail if column.known is None else event.detail & column.known
    bits = wide(column.bits, len(event.lanes))
    if every(active):
        return event.lanes, bits
    active = wide(active, len(event.lanes))
    return event.lanes[active], bits[active]


def turns(run: Run) -> Iterator[Turn]:
    """Where blocks wait for others, and what they store to the tensors in which these words lie, in their order."""
    waits = set[int]().union(*run.program.awaited.values())
    events = [event for event in run.log if event.kind == "global"] if waits else []
    found = [(event, *spread(event)) for event in events]
    sources = {int(at[0]) // SPACE for event, lanes, at in found if event.where in waits and len(lanes)}
    for event, lanes, at in found:
        kind = "wait" if event.where in waits else "store"
        loads = run.program.ops[run.program.index[event.where]].access == "load"
        if len(lanes) and (source := int(at[0]) // SPACE) in sources and (kind == "wait" or not loads):
            yield Turn(str(source), run.slot[lanes], at, kind)


def tiles(run: Run, launch: Launch) -> list[Tile]:
    """Of each instruction that moves global memory, in the order of the code."""
    found = list[Tile]()
    moves = by_instruction(run, MOVES)
    for index, events in moves.items():
        op = run.program.ops[index]
        kind = "load" if op.access == "copy" else op.access
        made = _box if op.kind == "box" else _pointed
        tile = made(index, kind, events, run, launch)
        if tile is not None:
            if tile.moved and kind == "store" and found and _follows(tile, found[-1], run.program):
                new = _anew(events, moves[found[-1].index], run)
                tile = replace(tile, moved=tile.moved * new, lines=tile.lines * new)
            found.append(tile)
    lost = {tile.index for tile in found if tile.anywhere and tile.place and tile.kind == "load"}
    apart = _apart(run, lost) if lost else {}
    return [replace(tile, tile_bytes=tile.tile_bytes * apart.get(tile.index, 1.0)) for tile in found]


def _apart(run: Run, lost: Set[int]) -> dict[int, float]:
    """Of loads at places that loaded words choose, share of a warp's lanes that look at places of their own: those that
    loaded the same word do not. Source: a product of sparse rows of 3 x 3 blocks, three lanes a row (`warp_blocks` in
    `languages_ninth.jsonl.gz`, tests/data/h200), takes a third of what it does if each lane had its own."""
    found = {}
    drawn = Drawn(run, ("global",), {run.program.ops[index].address: 1 for index in lost})
    for index, (event, *_) in by_instruction(drawn, ("global",)).items():
        if index in lost and (column := event.values[0]) is not None:
            lanes, address = spread(event._replace(values=(Column(column.bits),)))
            found[index] = len(distinct(run.warp[lanes] * SPACE + address % SPACE)) / max(len(lanes), 1)
    return found


def _follows(tile: Tile, last: Tile, program: Program) -> bool:
    """Whether a store comes right behind the last one."""
    at, block = (tile.index, last.index), program.block_of
    return last.kind == "store" and at[0] - at[1] <= BEHIND and block[at[0]] == block[at[1]]


def _anew(events: Sequence[Event], before: Sequence[Event], run: Run) -> float:
    """Share of the sectors of a store that the one right before it did not write: L1 passes on both at once, as long
    as a warp is in FEW_SECTORS."""
    new = all_ = 0
    for event, last in list(zip(events, before, strict=False))[:EXACT]:
        (lanes, address), (others, there) = spread(event), spread(last)
        if event.walks or not len(lanes):
            continue
        mine, theirs = (distinct(run.warp[at] * SPACE + to // SECTOR_BYTES % SPACE)
                        for at, to in ((lanes, address), (others, there)))  # fmt: skip
        few = len(mine) <= FEW_SECTORS * len(distinct(run.warp[lanes]))
        new += len(mine) - (int(np.isin(mine, theirs).sum()) if few else 0)
        all_ += len(mine)
    return new / all_ if all_ else 1.0


def _box(index: int, kind: str, events: Sequence[Event], run: Run, launch: Launch) -> Tile | None:
    lost = Tile(index, kind, "descriptor", None, anywhere=True)
    known = [event for event in events if all(value is not None for value in event.values)]
    if not known:
        return lost
    place = launch.place_of(int(known[0].values[0].bits[0]))  # type: ignore[union-attr]
    if place is None or place.map is None:
        return lost
    box, size = place.map.box, place.tensor.item_bytes
    count, run_bytes = math.prod(box) * size, box[0] * size
    if box[0] == place.map.dims[0] and len(box) > 1 and not place.map.lower:
        run_bytes *= box[1]
    issued = sum(times(event) * len(begins(run.warp[spread_box(event)])) for event in known)  # by each warp once
    here = spread_box(known[0])
    firsts = run.tid[here[begins(run.warp[here])]]
    return Tile(
        index, kind, "descriptor", place, count, 1.0, 1.0, run_bytes, run_bytes,
        align_bytes=math.gcd(ALIGN_LIMIT, run_bytes),
        offsets=dict.fromkeys(firsts.tolist(), 0), executions=issued / len(run.block_ids),
    )  # fmt: skip


def spread_box(event: Event) -> Array:
    return event.lanes[wide(event.detail, len(event.lanes))]


def _pointed(index: int, kind: str, events: Sequence[Event], run: Run, launch: Launch) -> Tile | None:
    path, width = _form(index, events, run)
    seen: list[tuple[Array, Array, Array]] = []  # threads and addresses of an execution, and where each block begins
    touched = lines = lanes_of_exact = 0.0
    place, outside, met = None, False, np.zeros(len(run.block_ids), np.int64)
    ran = [(event, *lies, run.slot[lies[0]]) for event in events if len((lies := spread(event))[0])]
    executions = sum(times(event) * float((np.bincount(slots) > 0).sum()) for event, _, _, slots in ran)
    lanes_of_all = sum(times(event) * float(len(lanes)) for event, lanes, _, _ in ran)
    placed = [each for each in ran if not each[0].walks]
    most = max(np.bincount(np.concatenate([distinct(slots) for *_, slots in placed]))) if placed else 0
    for event, lanes, address, slots in placed:  # rows that begin anywhere often begin at whole sectors at first
        turn, apart = met[slots[0]], max(most // EXACT, 1)
        met[slots] += 1
        if turn % apart or turn >= EXACT * apart:
            continue
        where = launch.place_of(int(address[0]))
        place, outside = place or where, outside or where is None
        lanes_of_exact += len(lanes)
        touched += _sectors(event, lanes, address, slots if kind == "load" else run.warp[lanes], width)
        lines += in_part(address, width, run.warp[lanes]) if kind == "store" else 0.0
        order = np.lexsort((address, slots))
        seen.append((run.tid[lanes[order]], address[order], begins(slots[order]) + int(lanes_of_exact) - len(lanes)))
    if not seen:
        return _lost(index, kind, events, run, launch)
    if lanes_of_all < LED * sum(times(event) * len(spread_box(event)) for event in events) and not run.unknown:
        rest = [each for each in events if not len(spread(each)[0])]
        return replace(_lost(index, kind, rest, run, launch), led=True)
    if place is None:  # of shared memory, by a generic address
        return None
    threads, address, cut = (np.concatenate(each) for each in zip(*seen, strict=True))
    every_address, firsts, last = address, address[cut], np.minimum(np.diff(address, append=0), width)
    last[cut[1:] - 1] = last[-1] = width
    sizes = np.add.reduceat(last, cut).astype(float)
    most = int(np.argmax(sizes))
    mine = slice(cut[most], cut[most] + int(lengths(cut, len(address))[most]))
    picks = _picked(threads[mine], address[mine])
    for others, there in zip(np.split(threads, cut[1:]), np.split(address, cut[1:]), strict=True):
        if picks.keys().isdisjoint(others.tolist()):  # as the cells of the other colour of a chessboard
            picks |= _picked(others, there)
    address, size = address[mine], float(sizes[most])
    tile = address[np.diff(address, prepend=address[0] - 1) > 0]
    unit = min(width, WORD_BYTES)
    units = distinct((tile[:, None] + np.arange(0, width, unit)) // unit) - tile[0] // unit
    gaps = np.diff(tile)
    edges = np.concatenate([[0], np.flatnonzero(gaps >= SECTOR_BYTES + width) + 1, [len(tile)]])
    spans = tile[edges[1:] - 1] - tile[edges[:-1]] + width
    starts = np.concatenate([firsts, tile[edges[:-1]]])
    drawn = _whole_warps([event for event in events if not event.walks], run) if kind == "atomic" else ()
    if kind == "atomic" and lanes_of_exact * width > sizes.sum():  # some meet, as those of counts
        return Tile(
            index, kind, path, place, lanes_of_all * width / executions, run_bytes=width, span_bytes=width,
            align_bytes=width, start=int(address[0]), executions=executions / len(run.block_ids), anywhere=True,
            drawn=drawn,
        )  # fmt: skip
    # later executions may be of other lanes than those that were looked at
    mean = float(sizes.mean()) / size * (lanes_of_all / executions) / (lanes_of_exact / len(sizes))
    whole, part = (mean * share for share in _shares(events, picks, run))
    return Tile(
        index, kind, path, place, size, whole, part,
        run_bytes=size / (int((gaps > width).sum()) + 1), span_bytes=float(spans.mean()),
        density=min(1.0, size / float(spans.sum())),
        align_bytes=float(np.gcd.reduce([ALIGN_LIMIT, *(starts % ALIGN_LIMIT)])), start=int(address[0]), offsets=picks,
        units=units, unit_bytes=unit,
        moved=SECTOR_BYTES * touched / float(sizes.sum()), lines=LINE_BYTES * lines / float(sizes.sum()),
        executions=executions / len(run.block_ids), mean=mean, seen=(every_address, cut), drawn=drawn,
    )  # fmt: skip


def _picked(threads: Array, address: Array) -> dict[int, int]:
    """Threads that stand for all of a tile, and how far each is from its first byte: of its ends, and one in the middle
    of a warp, which takes part where the edges of a block do not."""
    end = len(threads) - 1
    ends = (0, min(len(threads) // 2 + WARP // 2, end), end)
    return {int(threads[at]): int(address[at] - address[0]) for at in ends}


def _whole_warps(events: Sequence[Event], run: Run) -> Array:
    """Addresses of the warps of which all lanes take part, block by block."""
    lanes, address = (np.concatenate(each) for each in zip(*map(spread, events), strict=True))
    warp = np.concatenate([n * len(run.slot) + run.warp[spread(event)[0]] for n, event in enumerate(events)])
    whole = np.bincount(warp)[warp] == run.warp_size
    return address[whole][np.argsort(run.slot[lanes[whole]], kind="stable")]


def _shares(events: Sequence[Event], picks: Mapping[int, int], run: Run) -> tuple[float, float]:
    """Lanes of executions by all threads of `picks` in a block, and those of others, over the mean of all."""
    lanes_of, all_, many = [], [], []
    for event in events:
        lanes, _ = spread(event)
        count = np.bincount(run.slot[lanes], minlength=len(run.block_ids))
        threads = run.tid[lanes]
        shown = np.logical_or.reduce([threads == thread for thread in picks])
        picked = np.bincount(run.slot[lanes[shown]], minlength=len(count))
        lanes_of.append(count[count > 0])
        all_.append(picked[count > 0] == len(picks))
        many.append(np.full(len(lanes_of[-1]), times(event)))
    share, whole, weight = (np.concatenate(each) for each in (lanes_of, all_, many))
    share = share / np.average(share, weights=weight)
    if whole.all() or not whole.any():
        return 1.0, 1.0
    return (float(np.average(share[whole], weights=weight[whole])),
            float(np.average(share[~whole], weights=weight[~whole])))  # fmt: skip


def _sectors(event: Event, lanes: Array, address: Array, group: Array, width: int) -> int:
    """Sectors that the lanes of a block touch together, or of a warp, as L1 holds no stores. A copy asks for a sector
    once for each 32 bytes of shared memory that it goes to. Source: counters of a product on an H200, whose padded rows
    begin in the middle of such (`tests/data/h200/languages_third.jsonl.gz`): 1.50 times the bytes."""
    first, last = address // SECTOR_BYTES, (address + width - 1) // SECTOR_BYTES
    inner = event.places[0] if event.places else None
    if inner is not None and inner.known is None:
        to = wide(inner.bits, len(event.lanes))[np.isin(event.lanes, lanes)] // SECTOR_BYTES
        _, group = np.unique(group << 32 | to, return_inverse=True)
    both = (first,) if np.array_equal(first, last) else (first, last)
    return len(distinct(np.concatenate([group * SPACE + each % SPACE for each in both])))


def _form(index: int, events: Sequence[Event], run: Run) -> tuple[str, int]:
    """The path of an instruction, and the bytes that each lane moves."""
    op = run.program.ops[index]
    if op.kind != "bulk":
        return "pointer", op.width_bytes
    sizes = [int(event.values[1].bits.max()) for event in events if event.values[1] is not None]
    return "bulk", BULK_BYTES * max([1, *sizes])


def _lost(index: int, kind: str, events: Sequence[Event], run: Run, launch: Launch) -> Tile:
    """A tile at addresses that are not known. What its lanes ask for is in as many runs as lanes differ in what is not
    known: with 0 for that, these lie at one place. Where that tells nothing, it is together in each warp."""
    (path, width), lanes, executions, place, row = _form(index, events, run), 0, 0, None, 0.0
    for event in events:
        here = spread_box(event)
        lanes += times(event) * len(here)
        executions += times(event) * len(np.unique(run.slot[here]))
        if place is None and len(here) and (column := event.values[0]) is not None:
            address = wide(column.bits, len(event.lanes))[wide(event.detail, len(event.lanes))]
            first = np.sort(address[run.slot[here] == run.slot[here[0]]])
            # with 0 for what is not known it may lie before its tensor
            place, row = launch.place_of(int(first[0]) + SPACE // 2), _distinct(first, width)
    size = float(lanes * width) / max(executions, 1)
    row = row if place else float(min(width * WARP, size))
    return Tile(
        index, kind, path, place, size, 1.0, 1.0, row, row, executions=executions / len(run.block_ids),
        anywhere=True, align_bytes=math.gcd(ALIGN_LIMIT, int(row)) if place else ALIGN_LIMIT,
        lines=LINE_BYTES / row if kind == "store" and row < SECTOR_BYTES else 0.0,
    )  # fmt: skip


def _distinct(address: Array, width: int) -> float:
    """Bytes that accesses of this width cover; addresses are sorted."""
    return float(width + np.minimum(address[1:] - address[:-1], width).sum())


class Lying(Walks, eq=False):
    """Where the tiles of one instruction lie in each block that was run. [bytes] `program`: the block's slot."""

    alike: bool = True
    """Whether tiles have one form; else the lowest known place of each counts."""

    def elements(self, away: int, width: int) -> Walks:
        """The same in elements of so many bytes, as if tiles lay so many bytes before."""
        start, stride = (self.start - float(away)) / width, self.stride / width
        count, round_, times = (column.astype(float) for column in (self.count, self.round, self.times))
        return Walks(start, stride, count, self.kept, self.program, round_, times)


def walks(tile: Tile, events: Sequence[tuple[Event, Array | None]], run: Run, head: int) -> Lying | None:
    """`events`: with the pass of the outermost loop, by block, that each is in; `head`: where that loop begins. None
    where nothing is known, or those of stores and atomics are not of one form in many blocks."""
    shown: dict[int, tuple[Array, Array]] = {}
    first, alike = (_starts(tile, events[0][0], run, shown) if events and tile.path != "descriptor" else None), True
    if first is not None and len(first[0]):
        slot, start = run.slot[first[0]], first[1]
        cut = begins(slot)
        low, high = (f.reduceat(start, cut) for f in (np.minimum, np.maximum))
        again = run.program.block_of[tile.index] in run.program.looping
        near = 0.0 if again else SAME_FORM * max(map(abs, tile.offsets.values()))
        alike = (high - low > near).mean() <= OTHER_FORM
        if not alike and tile.kind != "load":
            return None
        if not alike:
            tile, shown = replace(tile, offsets=dict.fromkeys(tile.offsets, 0)), {}
    rows = [row for event, rounds in events for row in _rows(tile, event, rounds, run, head, shown)]
    if not rows:
        return None
    w = Walks.joined(rows)
    w = w.take(np.lexsort((w.round, w.program)))
    cut = begins(w.program * (int(w.round.max()) + 1) + w.round)
    length = lengths(cut, len(w.start))
    low = np.minimum.reduceat(np.minimum(w.start, w.last), cut)
    high = np.maximum.reduceat(np.maximum(w.start, w.last), cut)
    steps = np.where(w.count > 1, np.abs(w.stride), 0)
    step = np.gcd.reduceat(np.gcd(w.start - np.repeat(low, length), steps), cut)
    total = np.add.reduceat(w.tiles, cut)
    # all tiles of a group are one progression where they are as many as it has places; or they are one tile
    even = (step * (total - 1) == high - low) & (np.maximum.reduceat(w.times, cut) == 1)
    even &= np.maximum.reduceat(w.kept, cut) <= ALIKE * np.minimum.reduceat(w.kept, cut)
    still = high == low
    joined = replace(
        w.take(cut), start=low, stride=step, count=np.where(still, 1, total), times=np.where(still, total, 1),
        kept=np.add.reduceat(w.kept * w.count * w.times, cut) / total,
    )  # fmt: skip
    parts = joined.take(even | still), w.take(~np.repeat(even | still, length))
    return Lying(**vars(Walks.joined(parts)), alike=alike)


def _rows(
    tile: Tile, event: Event, rounds: Array | None, run: Run, head: int, shown: dict[int, tuple[Array, Array]]
) -> Iterator[Walks]:
    """Of one event, those of each block."""
    found = _starts(tile, event, run, shown)
    if found is None or not len(found[0]):
        return
    lanes, start, kept, steps = found
    slot = run.slot[lanes]
    one = run.warp[lanes] if tile.path == "descriptor" else slot
    first = begins(one)  # lanes are in the order of slots and warps
    cut = np.flatnonzero(start == np.repeat(np.minimum.reduceat(start, first), lengths(first, len(one))))
    cut = cut[begins(one[cut])]
    slot, start, kept = slot[cut], start[cut], kept[cut]
    at = np.zeros(len(cut), np.int64) if rounds is None else np.maximum(rounds[slot], 0)
    ones = np.ones(len(cut), np.int64)
    if not event.walks:
        still: Array = 0 * ones, ones, kept, slot, at, ones
        yield Walks(start, *still)
        return
    moves = [step[cut] for step in steps]
    longest = max(
        range(len(moves)), key=lambda i: (event.walks[i].head != head or len(moves) == 1, event.walks[i].times)
    )
    others = [i for i in range(len(moves)) if i != longest]
    points, weight = _points([event.walks[i].times for i in others])
    moved = start + moves[longest]
    for i, place in zip(others, points, strict=True):
        moved = moved + moves[i] * place
        if event.walks[i].head == head:
            at = at + place
    columns = moved, moves[longest], event.walks[longest].times * ones, kept, slot, at, weight * ones
    yield Walks(*(np.broadcast_to(column, (points.shape[1], len(cut))).ravel() for column in columns))


def _points(counts: Sequence[int]) -> tuple[Array, int]:
    """Passes of loops around a walk, from 1 on, a column by loop; and how many passes each stands for."""
    axes, weight = [], 1
    for count in counts:
        taken = min(count, MOST_POINTS)
        axes.append([1 + i * (count - 1) // max(taken - 1, 1) for i in range(taken)])
        weight *= max(round(count / taken), 1)
    return np.array(list(product(*axes)), np.int64).T[..., None], weight


def _starts(
    tile: Tile, event: Event, run: Run, shown: dict[int, tuple[Array, Array]]
) -> tuple[Array, Array, Array, list[Array]] | None:
    """Of each lane that shows where a tile is: the tile's first byte, the share of it that is inside the tensor, and by
    how much it moves in each walk. `shown`: by the lanes of events, which of them do, and how far each is from it."""
    if tile.path != "descriptor":
        if id(event.lanes) not in shown:
            threads = run.tid[event.lanes]
            which = np.flatnonzero(np.logical_or.reduce([threads == thread for thread in tile.offsets]))
            far = np.zeros(max(tile.offsets) + 1, np.int64)
            far[list(tile.offsets)] = list(tile.offsets.values())
            shown[id(event.lanes)] = which, far[threads[which]]
        which, offset = shown[id(event.lanes)]
        column, count = event.values[0], len(event.lanes)
        takes = event.detail if column is None or column.known is None else event.detail & column.known
        if column is None or not every(takes):
            part = np.flatnonzero(wide(takes & (column is not None), count)[which])
            which, offset = which[part], offset[part]
        bits = np.zeros(count, np.int64) if column is None else wide(column.bits, count)
        lanes, address = event.lanes[which], bits[which] - offset
        steps = [wide(walk.steps[0], count)[which] for walk in event.walks]
        slot = run.slot[lanes]
        kept = np.where(np.bincount(slot)[slot] >= len(tile.offsets), tile.whole, tile.part)
        return lanes, address, kept, steps
    if tile.place is None or tile.place.map is None or any(value is None for value in event.values):
        return None
    which = np.flatnonzero(wide(event.detail, len(event.lanes)))
    full = [wide(value.bits, len(event.lanes))[which] for value in event.values if value is not None]
    moves = [[wide(step, len(event.lanes))[which] for step in walk.steps] for walk in event.walks]
    start, kept = _corner(tile.place.map, [signed(each) for each in full[1:]])
    pitches = _pitches(tile.place.map)
    steps = [
        sum((s * p for s, p in zip(move[1:], pitches, strict=False)), np.zeros(len(which), np.int64)) for move in moves
    ]
    return event.lanes[which], start, kept, steps


def _pitches(of: TensorMap) -> tuple[int, ...]:
    return (of.tensor.item_bytes, *of.strides_bytes)


def _corner(of: TensorMap, coordinates: Sequence[Array]) -> tuple[Array, Array]:
    """The first byte of a box in its tensor, and the share of the box that is inside."""
    start = np.zeros(len(coordinates[0]), np.int64)
    kept = np.ones(len(coordinates[0]))
    for axis, (at, pitch) in enumerate(zip(coordinates, _pitches(of), strict=False)):
        start = start + at * pitch
        if not of.lower:  # a column of pixels takes its place from all of them
            box, size = of.box[axis], of.dims[axis]
            kept = kept * np.clip(np.minimum(at + box, size) - np.maximum(at, 0), 0, box) / box
    return start, kept
