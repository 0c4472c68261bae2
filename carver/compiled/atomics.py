"""How the atomics of programs that run together meet at L2: on words of a sector, in the runs that slices have, behind
those of programs that have ended."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ..arch.descriptor import Arch
from .dealt import dealt_to, instructions
from .footprint import Footprint
from .stretches import LANES, Stretch, scattered
from .trace import Access, Trace
from .values import SECTOR_BYTES

SAMPLED, RUN_BYTES, PIECE_SPACING, WORD_BYTES = 2048, 512, 64, 4
"""Places of atomics that say how they meet; bytes that one slice of L2 has in a row; elements from one piece of places
that were loaded to the next, at least a sector."""
EVEN = 0.999
"""Share of the bytes of all tensors: no less is a difference."""
QUEUED = 256
"""Instructions of warps, of each SM, whose atomics are still on their way to L2 when their programs have ended. Source:
sums of sorted segments on an H100 (`sparse_sorted` in `forms.jsonl.gz`, tests/data/h100): blocks of 128 to 4,096, of
which 64 to 384 instructions of an SM are resident, take what meets on the words of 230 to 290 more."""
RUN_WORDS, FOLLOWS = RUN_BYTES // WORD_BYTES, 2
"""Turns after which a slice begins the next sum of floating-point numbers in the same sector; it works off meanwhile
what else the instruction has in a run. Source: an H200. 32 lanes at random words of a sector take 24.7 clocks (10.2 of
integers), of four sectors side by side 14.4 (14.2; `atomics.jsonl`); pairs of atoms of which 32 in a row have one in
common take 3.4 clocks a lane (`pair_forces` in `fourteenth.jsonl.gz`)."""
SWAPPED = 2
"""Words of a sector that a slice compares and swaps in the time of a sum in it. Source: an H200 (`swapped.jsonl`). Of
numbers of two bytes side by side it adds 99 a clock, of words 88, on 94 slices; of words anywhere 35."""
CROWD, FEW, HALVED = 5, 4, 3
"""Of half as many tiles as are looked at, those that meet in a run at least; fewer do by chance. Tiles of a wave that
say where it crowds. How often a sample is halved."""


def met(
    atomics: Footprint, arch: Arch, slots: int, dealt: Mapping[str, Any], widest: int, adds: bool, swaps: bool,
    waited: bool, elected: int = 0,
) -> tuple[float, float, float]:
    """`atomic_bytes`, `atomic_turns` and `atomic_crowd` of `Facts`, where `slots` programs run at a time; the others as
    `facts.footprints` has them."""
    queued, programs = 0.0 if waited else float(QUEUED * arch.sm_count), math.prod(atomics.trace.grid)
    asked, near = queue(atomics.trace, widest, queued / min(slots, programs))
    under_way = slots + int(queued / max(asked, 1.0))
    together, part = atomics.waves(under_way).live_bytes, 1.0
    if anywhere := atomics.anywhere(under_way):  # programs that run together may add to a part of each tensor alone
        part = max(each / size for _, size, each in anywhere)
        together = max(together, sum(each for *_, each in anywhere))
    added = {name: part * n for name, n in atomics.distinct.items()}
    turns, busy_bytes, crowd = turns_at_l2(
        atomics.trace.accesses, atomics.sizes, dealt, widest, added, adds, swaps,
        () if near < 1.0 else atomics.wave_of(under_way), elected,  # passes crowd each elsewhere
    )
    return min(sum(atomics.distinct.values()), near * min(busy_bytes, together)), turns, crowd


def queue(trace: Trace, widest: int, queued: float) -> tuple[float, float]:
    """Instructions of a warp by which a program's atomics reach L2; and of what they work on, the share that those do
    which are under way together: programs of a wave are in one pass of a loop, and in as many before it as `queued`
    instructions of each hold. Source: votes for lines on an H200 (`vote_lines` in `ninth.jsonl.gz`), which take as long
    as the counters of 2 to 6 of 32 or 90 angles explain, the longer the more points programs that run have together."""
    asked, near = [0.0], [1.0]
    for a in (each for each in trace.accesses if each.kind == "atomic"):
        own = max(math.prod(a.shape) * a.item_bytes / widest / LANES, 1.0)
        asked.append(float(a.tiles.sum()) * own / trace.programs)
        near.append(1.0)
        passes = np.bincount(a.program.astype(np.int64), minlength=1)
        if a.loop >= 0 and passes.min() == passes.max() > 1 and (a.count == 1).all() and np.isfinite(a.start).all():
            at = a.start[np.argsort(a.program, kind="stable")].reshape(-1, passes[0])
            near[-1] = min((1.0 + queued / own) * float(np.ptp(at, axis=0).mean() / max(np.ptp(at), 1.0)), 1.0)
    return sum(asked), float(np.average(near, weights=asked)) if sum(asked) else 1.0


def turns_at_l2(
    accesses: Sequence[Access], sizes: Mapping[str, float], dealt: Mapping[str, Any], widest: int = WORD_BYTES,
    added: Mapping[str, float] = MappingProxyType({}), adds: bool = False, swaps: bool = False,
    waves: Sequence[int] = (0,), elected: int = 0,
) -> tuple[float, float, float]:
    """Mean turns of a lane at L2, of atomics whose places the code alone does not tell, and the bytes over which all
    would have to spread evenly for the busiest run of RUN_BYTES to have as many, infinite where they do: those of each
    tensor spread over the bytes that are `added` to, or if the busiest run of half a sample has more, as often as the
    other half has it; and the share of turns that the busiest sector has, so counted. Where the first place of
    each program's tile is known, these are taken for all; else all places are alike. `adds`: floating-point numbers;
    `swaps`: less than words, compared and swapped; `waves`: of each program, with which others it runs, as each wave
    may crowd elsewhere; `elected`: lanes of a wave, of which one works on a word for all that want it. Source: errors
    of 16 pictures counted one after another (`confusion` in `blind.jsonl.gz`), 2.2 times as long where two are under
    way as where four are."""
    drawn, means, weights, rooms, crowds = np.random.default_rng(0), [], [], [], []
    for access in accesses:
        if access.kind != "atomic":
            continue
        lost = scattered(access) or not np.isfinite(access.start).all()
        places: Any = access.start[np.isfinite(access.start)]
        if len(places) < SAMPLED and lost:
            size = sizes.get(access.argument or "", math.inf) / access.item_bytes
            places = drawn.integers(0, int(min(max(size, 1.0), 2**40)), SAMPLED)
        lanes = min(math.prod(access.shape), LANES)  # of a warp that have an element of their own
        run = max(min(int(Stretch.of(access, SECTOR_BYTES).run_bytes // access.item_bytes), lanes), 1)
        own = dealt_to(access, dealt)
        packed = min(max(WORD_BYTES // int(access.item_bytes), 1), run) if adds else 1  # of a lane in one word
        if len(access.drawn):
            places, run = access.drawn.reshape(-1, math.prod(access.shape)), 1
            if len(own):
                places = places[:, np.argsort(instructions(access, own, widest), kind="stable")]
            places = places[:, ::packed]
            lanes_at = places[:, : places.shape[1] // lanes * lanes].reshape(-1, lanes)
        elif lost:
            each_lane = lanes * packed  # elements of a lane that one instruction adds
            places = places[: len(places) // each_lane * each_lane].astype(np.int64).reshape(-1, each_lane)
            lanes_at = (places[:, :: run, None] + np.arange(0, run, packed)).reshape(len(places), -1)[:, :lanes]
        else:
            within = _lanes_at(access, own, widest)[:, :lanes]
            places = places[: max(SAMPLED // len(within), 1)].astype(np.int64)
            lanes_at = (places[:, None, None] + within).reshape(-1, lanes)
        let = np.isfinite(lanes_at)  # lanes that a mask holds back meet none
        lanes_at = np.where(let, lanes_at, np.resize(lanes_at[let], let.shape)).astype(np.int64)
        words = lanes_at * int(access.item_bytes) // 4
        words -= words.min(initial=0) // RUN_WORDS * RUN_WORDS
        span = (int(words.max(initial=0)) // RUN_WORDS + 1) * RUN_WORDS
        warp_by_warp = words + np.arange(len(words))[:, None] * span
        each, times = np.unique(warp_by_warp[let], return_counts=True)
        if elected:
            times = np.where(np.ptp(words, axis=1)[each // span] > 0, 1.0, LANES / elected)
        sector = np.flatnonzero(np.diff(each // 8, prepend=-1))
        of_sector = np.maximum.reduceat(times, sector)
        most, at = of_sector, each[sector]
        if swaps:
            most = np.maximum(most, np.add.reduceat(times, sector) / SWAPPED)
        elif adds:
            run_of = np.flatnonzero(np.diff(at // RUN_WORDS, prepend=-1))
            most = np.maximum(np.add.reduceat(most, run_of), FOLLOWS * np.maximum.reduceat(most, run_of) - 1)
            at = at[run_of]
        each_words = max(int(access.item_bytes) // WORD_BYTES, 1)
        means.append(float(most.sum()) / max(int(let.sum()) * each_words, 1))
        kept = access.asked / max(float(access.tiles[access.kept > 0].sum()), 1e-9)  # those that have any run together
        weights.append(float(access.tiles.sum()) * kept * math.prod(access.shape) * each_words)
        rooms.append(added.get(access.argument or "", math.inf))
        crowds.append(0.0)
        told = len(access.drawn) or (lost and np.isfinite(access.start).all())
        if told and len(waves) and len(lanes_at) * lanes >= SAMPLED:
            warps = math.prod(access.shape) // lanes if len(access.drawn) else 1  # neighbours in a tile meet anyway
            tiles, shares = (len(lanes_at) - 1) // warps + 1, list[float]()
            for place, own_turns, size, wave in ((at, most, RUN_WORDS, waves), (each[sector], of_sector, 8, (0,))):
                tile, there = place // span // warps, place % span // size
                among = np.asarray(wave)[tile * len(wave) // tiles]  # one sector holds back no other wave
                # where all meet most, waves meet as often at least
                shares.append(max(_busiest(there, own_turns, tile, waved) for waved in (among, 0 * among)))
            rooms[-1], crowds[-1] = min(rooms[-1], RUN_BYTES / shares[0] if shares[0] else math.inf), shares[1]
    turns = np.array(means) * weights
    atomics = [access.argument for access in accesses if access.kind == "atomic"]
    meet = dict.fromkeys(atomics, 0.0)  # no run is of two tensors
    for name, there in zip(atomics, turns / np.maximum(rooms, RUN_BYTES), strict=True):
        meet[name] += float(there)
    busiest = max(meet.values(), default=0.0)
    room = float(turns.sum()) / busiest if busiest else math.inf
    uneven = room < EVEN * (sum(added.values()) or math.inf)
    crowd = float((turns * crowds).max(initial=0.0) / max(turns.sum(), 1e-9))
    return (float(turns.sum() / sum(weights)) if sum(weights) else 1.0), (room if uneven else math.inf), crowd


def tries(lanes: int, others: float) -> float:
    """Passes until the last of so many lanes has swapped its word, in the mean: each word is swapped once in a pass,
    and `others` under way want the same one in the mean, as many by chance; a lane is as often the first of them as the
    last. Source: an H200 (`group_products` in `eighteenth.jsonl.gz`, `log_sums` in `sixteenth.jsonl.gz`)."""
    n = np.arange(int(others + 10.0 * math.sqrt(others)) + 20)
    logs = n * math.log(max(others, 1e-9)) - others - np.concatenate([[0.0], np.cumsum(np.log(n[1:]))])
    left = np.maximum(1.0 - n[:, None] / (n + 1.0), 0.0) @ np.exp(logs)  # still waits after n passes
    return float((1.0 - (1.0 - np.minimum(left, 1.0)) ** lanes).sum())


def _busiest(places: Any, turns: Any, tile: Any, wave: Any) -> float:
    """Share of the turns of one half of a sample that are at the busiest place of the other, for how often others meet
    there is no selection: in the mean of several halves, as two of each four tiles in a row are drawn, for places may
    come back in any step. 0 of a half of which few meet. Wave by wave, several together where they have few tiles."""
    tiles, drawn, found = int(tile.max()) + 1, np.random.default_rng(0), 0.0
    _, wave = np.unique(wave, return_inverse=True)
    wave //= max(FEW * (int(wave.max()) + 1) // tiles, 1)
    size = int(places.max()) + 1
    places = places + size * wave
    each, which = np.unique(places, return_inverse=True)
    for _ in range(HALVED):
        half = drawn.random((-(-tiles // FEW), FEW)).argsort(1).argsort(1).ravel()[tile] < FEW // 2
        for second in (half, ~half):
            there = each[np.argsort(np.bincount(which[~second], turns[~second], len(each)), kind="stable")]
            busiest = np.full(wave.max() + 1, -1)
            busiest[there // size] = there  # of those of a wave the last stays, which is met most
            met = second & (places == busiest[wave])
            found += float(turns[met].sum()) if len(np.unique(tile[met])) >= CROWD else 0.0
    return found / float(turns.sum()) / HALVED


def _lanes_at(access: Access, dealt: Sequence[Sequence[int]] = (), widest: int = WORD_BYTES) -> Any:
    """Where the lanes of each instruction are, from the first element of a tile on: as elements are dealt out to them,
    where these step evenly. Else of one, neighbours along the dimension of the least step, several rows of it where
    they are short. Pieces that places were loaded in are a sector apart."""
    if len(dealt) and np.isfinite(access.coef).all():
        order = np.argsort(instructions(access, dealt, widest), kind="stable")
        every = np.floor(np.tensordot(access.coef, np.indices(access.shape), 1)).ravel()
        return every[order].reshape(-1, min(len(order), LANES)).astype(np.int64)
    steps = list[tuple[float, Any]]()
    for c, n, piece in zip(access.coef, access.shape, access.pieces, strict=True):
        along: Any = np.arange(min(n, LANES))
        cut = piece is not None and math.isnan(c)
        lies = along % piece.length * piece.step + along // piece.length * PIECE_SPACING if piece and cut else c * along
        steps += [(abs(float(lies[1])), lies)] if n > 1 else []
    at: Any = np.zeros(1)
    for _, along in sorted(steps, key=lambda each: each[0], reverse=True):
        at = (at[:, None] + along).ravel()
    return np.floor(np.resize(at, LANES)).astype(np.int64)[None]
