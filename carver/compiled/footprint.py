"""Distinct bytes that programs access together, computed from their access patterns."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np

from ..base.types import FloatArray, Record
from .rectangles import Rectangles, changes, mean_kept, nth, of_more
from .stretches import LINE_BYTES, Stretch, covers, fetched, held_bytes, rectangles, scattered, tile_elements, told
from .trace import Access, Trace
from .values import SECTOR_BYTES
from .walks import Walks, by_group

ENOUGH_WAVES = 4
"""Of consecutive programs that are evaluated, to tell that what they do not read again comes back later."""
MOST_PARTS, FEW_PLACES = 16, 64
"""Iterations of an inner loop that each are walks of their own; places of a walk that are held against others' one by
one."""
FOLLOWING, SPREAD, POINTS, STEP = 8, 4, 12, 0.05
"""Programs that an SM runs one after another, or if fewer are looked at some far apart, which say what its programs
have in common; numbers of programs of which that is said, and the part more of them by which the next is told."""
ONCE = 1.1
"""Rows and pages at places that are loaded are read once each where these are no more bytes than the tensor has, but
for the ends of rows that masks cut: a page of a cache belongs to one sequence, and of few rows that are drawn the same
one rarely comes twice. No fewer bytes are then read than the shapes say."""
UNKNOWN = 1024.0
"""Times what is asked of a tensor whose size is not known: no byte of it is asked twice."""


class _Walks(Walks, eq=False):
    """Walks over tiles of one geometry of one argument. `times`: walks elsewhere that each stands for, where places
    were loaded; neighbours of others overlap."""

    tile_bytes: float
    """Fetched for one of them."""
    loop: Any
    """In which of the program's loops it is, from 0 on; 0 is outside of all."""
    anywhere: Any
    """Whether its tiles lie anywhere."""
    size_bytes: float
    """Of the tensor."""
    overlapping: Rectangles | None
    item_bytes: float
    beside: FloatArray
    """Of starts that are not known: what is."""
    reach_bytes: float
    """From the first to the last byte of a tile that is not affine; else inf."""
    in_lines: float
    """Times its bytes that the lines of L1 have in which they are."""
    loaded: bool
    """Loaded numbers tell where each element of a tile is."""
    turn: Any
    """The pass of a loop that each is in, of one that was followed pass by pass."""
    same: Any = None
    """Of tiles that lie anywhere, a number that is the same of the same ones; None where that is not known."""
    _waves: dict[Any, FloatArray] = field(default_factory=dict)
    _loops: dict[int, FloatArray] = field(default_factory=dict)

    def by_wave(self, key: Any, group: Any, among: float) -> FloatArray:
        """`bytes_by` of groups that are waves, which `key` tells."""
        if (found := self._waves.get((key, among))) is None:
            found = self._waves[key, among] = self.bytes_by(group, among=among)
        return found

    def by_loop(self, loops: int) -> FloatArray:
        """Distinct tiles of each loop of each program, of as many loops."""
        if (found := self._loops.get(loops)) is None:
            group = self.program.astype(np.int64) * loops + self.loop.astype(np.int64)
            found = self._loops[loops] = self.distinct_by(group)
        return found

    def bytes_by(self, group: Any, times: float = 1.0, among: float = 1.0) -> FloatArray:
        """Distinct bytes of each group of walks, `times` as many of which lie anywhere; groups count from 0 on. Of n
        bytes at random places of a tensor of N bytes, N (1 - exp(-n / N)) are different. `among`: share of the tensor
        that a group chooses among."""
        lost = self.anywhere
        count = int(group.max(initial=0)) + 1
        out = self._known_bytes(group, count)
        if (known := ~lost & (self.times.max(initial=1.0) > 1.0)).any():
            of_each = (place := nth(self.program)).max() + 1
            apart = self._known_bytes(group * of_each + place, count * of_each).reshape(count, -1).sum(1)
            every = np.bincount(group[known], minlength=count)
            times_each = np.bincount(group[known], self.times[known], count) / np.maximum(every, 1)
            out = of_more(apart, out, of_each, np.maximum(times_each, 1.0))
        if lost.any():
            asked = times * self.tile_bytes * self.lost_by(group, count)
            if math.isfinite(self.size_bytes):
                reach = np.maximum(self._range_bytes(group, count), self.reach_bytes)
                size = np.maximum(np.minimum(among * self.size_bytes, reach), 1.0)
                asked = size * -np.expm1(-asked / size)
            out = out + asked
        return np.minimum(out, self.size_bytes, out=out)

    def lost_by(self, group: Any, count: int) -> FloatArray:
        """Tiles of each group that lie anywhere, but for those that are the same."""
        lost = np.flatnonzero(self.anywhere)
        if self.same is not None:
            lost = lost[np.unique(group[lost] * (int(self.same.max()) + 1) + self.same[lost], return_index=True)[1]]
        return np.bincount(group[lost], self.tiles[lost], count).astype(np.float64)

    def lines_by(self, group: Any, among: float) -> FloatArray:
        """Bytes of the lines of L1 that each group of walks is in."""
        if self.overlapping is not None and not self.anywhere.any():
            out: FloatArray = self.overlapping.touched(group, LINE_BYTES / self.item_bytes) * self.item_bytes
            return out
        if self.anywhere.all():
            return self.bytes_by(group, self.in_lines, among)
        return np.minimum(self.bytes_by(group, among=among) * self.in_lines, among * self.size_bytes)

    def in_step(self, own: Any, group: Any, parts: float, many: float, one: float, some: float) -> float:
        """Bytes of all, where `many` programs share what they read in a pass; groups and shares as `on_sm` has them."""
        if (self.count > 1).any() or len(np.unique(self.turn)) < 2:
            return self.tile_bytes * float(self.tiles.sum())
        n, each = int(self.turn.max()) + 1, replace(self, times=np.ones(len(self.times)))
        apart, together = (each.bytes_by(g * n + self.turn, among=of).sum() for g, of in ((own, one), (group, some)))
        return float(of_more(apart, together, parts, many / parts) * parts / many * self.times.mean())

    def _known_bytes(self, group: Any, count: int) -> FloatArray:
        """Of the walks whose places are known."""
        if self.overlapping is not None and not self.anywhere.any():
            found = self.overlapping.touched(group) * self.item_bytes
            return np.concatenate([found, np.zeros(count - len(found))])
        out = self.tile_bytes * self.distinct_by(group, count)
        return out if self.anywhere.any() else np.minimum(out, self._range_bytes(group, count) + self.reach_bytes)

    def _range_bytes(self, group: Any, count: int) -> Any:
        """From the first place of the first of each group's tiles to that of the last, of tiles all of whose places are
        known though not affine; infinite of others."""
        if not math.isfinite(self.reach_bytes) or not np.isfinite(self.start + self.stride).all():
            return math.inf
        low, high = np.full(count, np.inf), np.full(count, 0.0)
        np.minimum.at(low, group, self.start)
        np.maximum.at(high, group, self.last)
        return np.maximum(high - low, 0.0) * self.item_bytes

    def distinct_by(self, group: Any, least: int = 0) -> FloatArray:
        """Distinct tiles of each group of walks, but for those that lie anywhere, for `least` groups, which are whole
        numbers from 0 on."""
        count = max(int(group.max(initial=0)) + 1, least)
        tiles: FloatArray = np.zeros(count)
        group = group.astype(np.min_scalar_type(count))  # of two bytes it is sorted in a quarter of the time
        own, (place,) = by_group(group, *self._still)
        tiles += np.bincount(own[changes(own, place)], minlength=count)
        own, (line, low, high) = by_group(group, *self._moving)
        if not len(own):
            return tiles
        new = changes(own, line)
        apart = np.cumsum(new) * float(high.max() + 1.0)
        reached = np.maximum.accumulate(high + apart)
        before = np.concatenate([[-np.inf], reached[:-1]])
        tiles += np.bincount(own, np.maximum(high + apart - np.maximum(low + apart, before), 0.0), minlength=count)
        return tiles

    @cached_property
    def _placed(self) -> Any:
        """Walks at one known place and, beside such, those over FEW_PLACES: loops go over what was read before."""
        still = ((self.count <= 1) | (self.stride == 0)) & ~self.anywhere
        alike = still.any() and np.ptp(self.kept) == 0.0  # else the mean tile is not that of each place
        return still | (self.count <= FEW_PLACES) & ~self.anywhere if alike else still

    @cached_property
    def _still(self) -> tuple[Any, FloatArray]:
        """Places of `_placed` in order, and which walks they are of."""
        which = np.flatnonzero(self._placed)
        places = np.where(self.stride[which] == 0, 1, np.maximum(self.count[which], 1)).astype(np.int64)
        which, place = np.repeat(which, places), np.arange(places.sum()) - np.repeat(np.cumsum(places) - places, places)
        at = np.floor(self.start[which] + self.stride[which] * place)
        order = np.argsort(at)
        return which[order], at[order]

    @cached_property
    def _moving(self) -> tuple[Any, Any, FloatArray, FloatArray]:
        """Walks over several known places, line by line: which they are, of each its line, and from where to where on
        it. Walks of one stride whose starts differ by a multiple of it lie on one line."""
        which = np.flatnonzero(~self._placed & ~self.anywhere)
        start, stride, count = (column[which] for column in (self.start, self.stride, self.count))
        start, stride = np.where(stride < 0, start + stride * (count - 1), start), np.abs(stride)
        across = np.mod(start, stride)
        along = (start - across) / stride
        order = np.lexsort((along, across, stride))
        stride, across, along = stride[order], across[order], along[order]
        line = np.cumsum(changes(stride, across))
        low = along - along.min(initial=0.0)
        return which[order], line, low, low + count[order]


class Waves(NamedTuple):
    """Bytes that waves touch, each counted once a wave."""

    by_argument: Mapping[str, float]
    """Of all waves of the grid."""
    live_bytes: float
    """Of one."""
    waves: float
    """How many the grid has."""
    length: float
    """Waves of full length that one is in the mean: the last of a run of programs is cut off."""

    @property
    def total_bytes(self) -> float:
        return sum(self.by_argument.values())


class Footprint(Record):
    """Loads, or stores, of all programs that were evaluated."""

    trace: Trace
    kinds: tuple[str, ...]
    sizes: Mapping[str, float]
    """Bytes of each tensor."""
    _waves: dict[tuple[int, int], Waves] = field(default_factory=dict)
    _walks: dict[Any, tuple[Sequence[Access], _Walks]] = field(default_factory=dict)
    """Of accesses that several have, by their identity."""

    @cached_property
    def walks(self) -> dict[str, list[_Walks]]:
        """By argument: the walks of its accesses, those of one geometry together."""
        return self._grouped(self.trace.accesses)

    def _grouped(self, listed: Sequence[Access]) -> dict[str, list[_Walks]]:
        groups: defaultdict[Any, defaultdict[Any, list[Access]]] = defaultdict(lambda: defaultdict(list))
        for access in listed:
            if access.kind in self.kinds and access.argument is not None:
                geometry = sorted(zip(map(str, access.coef), access.shape, strict=True))
                form = access.argument, access.item_bytes, access.kind == "store", *(step for step, _ in geometry)
                groups[form][tuple(geometry)].append(access)
        out: defaultdict[str, list[_Walks]] = defaultdict(list)
        for (argument, *_), by_geometry in groups.items():
            each, every = list(by_geometry.values()), [*chain(*by_geometry.values())]
            straight = len(each) > 1 and all(access.loop < 0 for access in every)
            joint = straight and self._known(argument, every).overlapping is not None  # as rows of a stencil with ends
            out[argument] += (self._known(argument, accesses) for accesses in ([every] if joint else each))
        for found in out.values():  # rows may come again, whichever loads ask for them, where those of any do
            told = max((g.size_bytes for g in found if g.anywhere.all() and g.size_bytes < math.inf), default=math.inf)
            found[:] = [replace(g, size_bytes=told, _waves={}) if g.size_bytes == math.inf > told else g for g in found]
        return dict(out)

    def _known(self, argument: str, accesses: Sequence[Access]) -> _Walks:
        if (key := tuple(map(id, accesses))) not in self._walks:
            size = min(self.sizes.get(argument, math.inf), max(map(self._reached_bytes, accesses)))
            self._walks[key] = accesses, self._walks_of(accesses, size)
        return self._walks[key][1]

    def _reached_bytes(self, access: Access) -> float:
        """Bytes that an access may fetch, each element at a place that another tensor holds: one of so many entries,
        where that is itself read at places that lie anywhere. What is read in order may add other numbers to each."""
        if len(access.loads) != 1 or Stretch.of(access, SECTOR_BYTES).asked_bytes > access.item_bytes:
            return math.inf
        [through] = access.loads
        items = [a.item_bytes for a in self.trace.accesses if a.argument == through and a.loop == access.loop
                 and a.kind == "load" and scattered(a)]  # fmt: skip
        once = access.item_bytes * fetched(access, self.trace.accesses)
        return self.sizes.get(through, math.inf) / items[0] * once if items else math.inf

    def _walks_of(self, accesses: Sequence[Access], size_bytes: float) -> _Walks:
        first, item = accesses[0], accesses[0].item_bytes
        walks, sector = Walks.joined(accesses), SECTOR_BYTES / item
        beside = np.concatenate([a.beside if len(a.beside) else np.full(len(a.start), np.nan) for a in accesses])
        which = np.repeat(np.arange(len(accesses)), [len(a.start) for a in accesses])
        here = walks.kept > 0
        mean = mean_kept(walks.take(here)) if here.any() else 0.0
        size = tile_elements(first) * item * float(np.mean([fetched(a, self.trace.accesses) for a in accesses]))
        lost = ~np.isfinite(walks.start) | ~np.isfinite(walks.stride) | scattered(first)
        walks = replace(walks, times=np.where(np.isfinite(beside) | ~np.isfinite(walks.start), walks.times, 1.0))
        if first.placed.sector_bytes:  # not affine: tiles that begin in one sector fetch the same
            walks = replace(walks, start=np.floor(walks.start / sector) * sector)
        together = None if lost.any() or first.kind == "store" else rectangles(accesses, sector, mean)
        if together is None:  # else it knows its walks by their places
            walks, which, lost, beside = walks.take(here), which[here], lost[here], beside[here]
        loop = np.array([a.loop + 1 for a in accesses])[which]
        turn = nth(walks.program * len(accesses) + which)
        turn += loop * (turn.max(initial=0) + 1)
        # one program's share in `fetched`
        columns = np.stack((walks.start, np.nan_to_num(walks.stride), walks.count, walks.round, loop, which))
        same = told(accesses, self.trace, columns, walks.program, beside) if lost.all() and len(lost) else None
        found = _Walks(
            **vars(walks), tile_bytes=size * mean, loop=loop, anywhere=lost, size_bytes=size_bytes, beside=beside,
            overlapping=together, item_bytes=item, reach_bytes=first.placed.reach_bytes, same=same,
            in_lines=self._in_lines(accesses, size), loaded=scattered(first, told=True), turn=turn,
        )  # fmt: skip
        rows = lost.all() and first.kind == "load" and Stretch.of(first, SECTOR_BYTES).run_bytes >= SECTOR_BYTES
        asked = found.tile_bytes * found.lost_by(np.zeros(len(lost), np.int64), 1).sum() * self.scale if rows else 0.0
        return replace(found, size_bytes=math.inf) if 0.0 < asked <= ONCE * size_bytes else found

    def _in_lines(self, accesses: Sequence[Access], tile_bytes: float) -> float:
        """Of a walk whose steps are shorter than a line, whole lines are read in the end; accesses that mostly begin in
        the same one share it."""
        first, line = accesses[0], LINE_BYTES / accesses[0].item_bytes
        moving = np.abs(first.stride[first.count > 1])
        if not tile_bytes or (len(moving) and 0 < float(moving.mean()) < line):
            return 1.0
        apart = (np.abs(a.start - first.start) for a in accesses if len(a.start) == len(first.start))
        near = sum(float((each < line).mean()) > 0.5 for each in apart)
        return max(held_bytes(first, self.trace.accesses) / tile_bytes / max(near, 1), 1.0)

    @property
    def scale(self) -> float:
        """Programs of the grid over those evaluated."""
        return float(np.prod(self.trace.grid)) / self.trace.programs

    @cached_property
    def distinct(self) -> dict[str, float]:
        """Bytes of each argument that the whole grid touches."""
        out, every = {}, [_whole(a) if (a.times > 1.0).all() else a for a in self.trace.accesses]
        sampled = any(a is not b for a, b in zip(every, self.trace.accesses, strict=True))
        for argument, groups in (self._grouped(every) if sampled else self.walks).items():
            total = 0.0
            for g in groups:
                whole = g.bytes_by(np.zeros(len(g.start), np.int64), self.scale)
                if self.scale > 1.0 and not g.anywhere.any():
                    run = np.searchsorted([end for _, end in self.trace.ranges], g.program, side="right")
                    whole = of_more(g.bytes_by(run).sum(), whole, len(self.trace.ranges), self.scale)
                total += float(whole.sum())
            out[argument] = min(total, self.sizes.get(argument, math.inf))
        return out

    def settled(self, argument: str) -> bool:
        """Whether it is known where all tiles of a tensor lie."""
        return not any(g.anywhere.any() for g in self.walks[argument])

    def anywhere(self, at_once: int) -> tuple[tuple[float, float, float], ...]:
        """Of each tensor of which tiles lie anywhere: bytes that the grid fetches, bytes of the tensor, and those of
        them among which so many consecutive programs choose."""
        out = []
        for groups in self.walks.values():
            asked = sum(g.tile_bytes * self._asked(g, at_once) for g in groups) * self.scale
            if asked:
                size = min(groups[0].size_bytes, UNKNOWN * asked)
                out.append((asked, size, size * self._share(groups, at_once)))
        return tuple(out)

    def _asked(self, g: _Walks, at_once: int) -> float:
        """Tiles that lie anywhere, of which programs that run together read the same at once."""
        if g.same is None:
            return float(g.count[g.anywhere].sum())
        wave = self.wave_of(at_once)[g.program.astype(np.int64)]
        return float(g.lost_by(wave, int(wave.max(initial=0)) + 1).sum())

    def _share(self, groups: Sequence[_Walks], at_once: int, together: Any = None) -> float:
        """Of a tensor, as far as the known parts of its addresses tell: where programs that run together read the same
        columns of rows that lie anywhere, they choose among those columns. `together`: of each program which others
        those are; None for consecutive ones."""
        program, beside = (np.concatenate([getattr(g, n)[g.anywhere] for g in groups]) for n in ("program", "beside"))
        if not np.isfinite(beside).all():
            return 1.0
        wave = (self.wave_of(at_once) if together is None else together)[program.astype(np.int64)]
        columns, which, times = np.unique(beside, return_inverse=True, return_counts=True)
        pairs = np.unique(wave * len(columns) + which)
        (begin, end), all_ = self.trace.ranges[-1], math.prod(self.trace.grid)
        fresh = len(columns) - len(np.unique(which[program < begin]))  # programs that were not evaluated have others
        most = all_ / times.max() * len(beside) / self.trace.programs
        if len(columns) > 1:  # of equal width, as those of tiles, there are no more from the first to the last
            most = min(most, float(np.ptp(columns) / np.diff(columns).min()) + 1.0)
        every = max(min(len(columns) + fresh * (all_ - self.trace.programs) / (end - begin), most), len(columns))
        part = len(pairs) / len(np.unique(pairs // len(columns))) / every
        return float(max(part, min(at_once / all_, 1.0)))

    def wave_of(self, at_once: int) -> Any:
        """Of each program that was evaluated, in which wave it is."""
        wave = np.zeros(self.trace.programs, np.int64)
        for begin, end in self.trace.ranges:
            wave[begin:end] = wave[:begin].max(initial=-1) + 1 + np.arange(end - begin) // at_once
        return wave

    def again(self) -> float:
        """Bytes that programs touch in one loop after another touched them, as in a second pass over a row. What one
        loop reads twice comes back at once."""
        return sum(max(_alike_again(groups), _whole_again(groups)) for groups in self.walks.values()) * self.scale

    @cached_property
    def rounds(self) -> int:
        """Iterations of a loop around loops, as persistent programs have them. Each is a wave of its own."""
        return 1 + max((int(access.round.max(initial=0)) for access in self.trace.accesses), default=0)

    def waves(self, at_once: int, merged: int = 1) -> Waves:
        """Bytes that waves of so many consecutive programs touch; `merged`: so many waves are taken as one."""
        if (at_once, merged) not in self._waves:
            longest = max(end - begin for begin, end in self.trace.ranges)
            beyond = min(at_once, math.prod(self.trace.grid)) - longest
            short = beyond > 0 and longest > 1 and self.rounds == 1
            found = self._by_wave(min(at_once, longest) if short else at_once, merged)
            self._waves[at_once, merged] = self._prolonged(found, longest, beyond) if short else found
        return self._waves[at_once, merged]

    def _prolonged(self, run: Waves, programs: int, beyond: int) -> Waves:
        """Waves of more programs than a run has: each further one adds the bytes that those of its second half do."""
        half, total = self.waves((programs + 1) // 2), {}
        waves = math.prod(self.trace.grid) / (programs + beyond)
        for name, bytes_ in run.by_argument.items():
            whole, first = bytes_ / run.waves, half.by_argument[name] / half.waves
            more = whole + (whole - first) * beyond / (programs // 2)
            total[name] = waves * min(more, self.sizes.get(name, math.inf))
        return Waves(total, sum(total.values()) / waves, waves, 1.0)

    def touched_by(self, group: Any) -> float:
        """Bytes that groups of the programs that were evaluated touch, each counted once a group."""
        total = 0.0
        for groups in self.walks.values():
            among = self._share(groups, 1, group) if any(g.anywhere.any() for g in groups) else 1.0
            found = [g.bytes_by(group[g.program.astype(np.int64)], among=among) for g in groups]
            each = np.zeros(max(map(len, found)))
            for own in found:
                each[: len(own)] += own
            total += float(np.minimum(each, among * max(g.size_bytes for g in groups)).sum())
        return total

    def on_sm(self, resident: int, slots: int) -> tuple[tuple[tuple[float, float], ...], float, float]:
        """Of ever more programs that an SM runs: bytes of the lines of L1 that they touch, and what all programs of the
        grid read where L1 keeps these. Where n programs touch f(n) bytes, the next one finds all but f(n + 1) - f(n),
        as in `Touched.reuse`, though an SM reads nothing less than once. Bytes of the sectors that resident ones touch;
        and what all read where these share a pass (`_Walks.in_step`). `slots`: programs that run at a time."""
        sms, count, all_ = max(slots // resident, 1), self.trace.programs, math.prod(self.trace.grid)
        program, group = np.arange(count), np.zeros(count, np.int64)
        for begin, end in self.trace.ranges:  # neighbours go to different SMs
            place = np.arange(end - begin)
            group[begin:end] = group[:begin].max(initial=-1) + 1 + place // (sms * FOLLOWING) * sms + place % sms
        if group.max() + 1 > count / 2:  # too few: those far apart say what an SM's have in common
            group = program % (count // min(SPREAD, count))
        parts = count / (group.max() + 1)
        many = np.geomspace(1.0, max(all_ / sms, 1.0 + STEP), POINTS)
        many = np.concatenate([many, many * (1.0 + STEP), [min(resident, max(all_ / sms, 1.0))]])
        found, in_step = np.zeros((2, len(many))), 0.0
        for groups in self.walks.values():
            apart = any(g.anywhere.any() for g in groups)
            one, some = (self._share(groups, 1, each) if apart else 1.0 for each in (program, group))
            each = np.zeros_like(found)
            for known in groups:
                lost = known.anywhere | known.loaded  # however such lie, they meet by chance
                g = replace(known, anywhere=lost, _waves={}, _loops={})
                whose = g.program.astype(np.int64)
                for n in range(2):
                    by = g.lines_by if n else g.bytes_by
                    own, together = by(program[whose], among=one).sum(), by(group[whose], among=some).sum()
                    each[n] += of_more(own, together, parts, many / parts) * parts / count
                in_step += g.in_step(program[whose], group[whose], parts, many[-1], one, some)
            most = np.clip(some / parts * many, one, 1.0) * max(g.size_bytes for g in groups)
            found += np.minimum(each, most)
        touched, lines = found
        alone, each = max(float(touched[0]), 1e-9), touched / many
        more = np.maximum((touched[POINTS:-1] - touched[:POINTS]) / (STEP * many[:POINTS]), each[POINTS - 1])
        left = np.concatenate([[alone], np.minimum(more[1:], alone)]) / alone
        read = self.touched_by(program) * self.scale * left
        reuse = zip(lines[:POINTS].tolist(), read.tolist(), strict=True)
        return tuple(reuse), float(touched[-1]), in_step * self.scale

    def _by_wave(self, at_once: int, merged: int) -> Waves:
        first, wave = np.zeros((2, self.trace.programs), np.int64)
        count = 0
        for begin, end in self.trace.ranges:
            first[begin:end], wave[begin:end] = count, np.arange(end - begin) // at_once * self.rounds
            count += -(-(-(-(end - begin) // at_once) * self.rounds) // merged)
        total = dict.fromkeys(self.walks, 0.0)
        for argument, groups in self.walks.items():
            lost = any(g.anywhere.any() for g in groups)
            among = self._share(groups, min(at_once * merged, self.trace.programs)) if lost else 1.0
            each = np.zeros(count)
            for g in groups:
                program = g.program.astype(np.int64)
                which = first[program] + (wave[program] + g.round.astype(np.int64)) // merged
                here = g.by_wave((at_once, merged), which, among)
                each[: len(here)] += here
            most = math.inf if lost else self.sizes.get(argument, math.inf)
            total[argument] = float(np.minimum(each, most).sum()) * self.scale
        length = self.trace.programs / at_once * self.rounds / count
        return Waves(total, sum(total.values()) / (count * self.scale), count * self.scale, length)


class Touched(Record):
    """What the programs of a trace read and write."""

    loads: Footprint
    reads: Footprint
    """Loads, and what atomics work on."""
    writes: Footprint
    """Stores."""
    all: Footprint
    atomics: Footprint

    def reuse(self, at_once: int, of: Footprint | None = None) -> tuple[tuple[float, float], ...]:
        """Bytes that later waves read again, and the bytes that are touched meanwhile, the nearest first, but for those
        that lie anywhere. `of`: what they read, if not all that programs do. Where n waves touch f(n) bytes, those that
        one more adds, f(n + 1) - f(n), were not touched in the n before it. As n grows, it adds fewer by those that
        come back after n waves, when f(n) bytes were touched. Source: Xiang et al., HOTL: a higher order theory of
        locality, ASPLOS 2013. Bytes that no evaluated run of programs shows to come back are taken to do so evenly over
        the grid (where runs are shorter than ENOUGH_WAVES: right after them), or by its next longer axis."""
        reads = of or self.reads
        every = reads.waves(at_once)
        longest = max(-(-(end - begin) // at_once) for begin, end in reads.trace.ranges) * reads.rounds
        merged = [1]
        while merged[-1] < longest:
            merged.append(min(2 * merged[-1], longest))
        once = reads.distinct
        even = set(filter(reads.settled, reads.walks))
        again = {name: n - once[name] for name, n in every.by_argument.items() if n > once[name] and name in even}
        if not again:
            return ()
        found = [reads.waves(at_once, n) for n in merged]
        live = [self.all.waves(at_once, n).live_bytes for n in merged]
        waves = every.waves * every.length
        (gx, gy, gz), begun = reads.trace.grid, max(end - begin for begin, end in reads.trace.ranges)
        across = [self.all.waves(at_once).total_bytes * step / (gx * gy * gz)
                  for step, more in ((gx, gy), (gx * gy, gz)) if more > 1 and 2 * step > begun]  # fmt: skip
        out: defaultdict[float, float] = defaultdict(float)
        for name, bytes_ in again.items():
            touched = [each.by_argument[name] / each.waves for each in found]
            new = [touched[0] / found[0].length]
            for (near, far), (less, more) in zip(pairwise(found), pairwise(touched), strict=True):
                new.append(min(max((more - less) / (far.length - near.length), 0.0), new[-1]))
            parts = [(n, x - y) for n, (x, y) in zip(live, pairwise(new), strict=False)]
            evenly = self.all.waves(at_once).total_bytes * once[name] / max(new[-1] * waves, 1.0)
            first = min([evenly if longest >= ENOUGH_WAVES else live[-1], *across])
            parts.append((first, max(new[-1] - once[name] / waves, 0.0)))
            share = bytes_ / max(sum(part for _, part in parts), 1e-9)
            for meanwhile, part in parts:
                out[meanwhile] += part * share
        return tuple((n, meanwhile) for meanwhile, n in sorted(out.items()) if n > 0.0)

    @property
    def returned_bytes(self) -> float:
        """Bytes that programs load where they have stored before, and that nothing has loaded before that: as a second
        pass over what the first one made, a state that goes through memory from step to step, or scratch space."""
        every = self.reads.trace.accesses
        stores = [(n, a) for n, a in enumerate(every) if a.kind == "store"]
        loads = [(n, a) for n, a in enumerate(every) if a.kind == "load"]
        back = {id(a) for n, a in loads if any(m < n and covers(b, a) for m, b in stores)}
        names = {a.argument for a in every if id(a) in back and a.argument}
        left = [a for a in every if a.argument in names and id(a) not in back]
        fresh = Footprint(replace(self.reads.trace, accesses=left), self.reads.kinds, self.reads.sizes).distinct
        return sum(self.reads.distinct[name] - fresh.get(name, 0.0) for name in names)

    @classmethod
    def of(cls, trace: Trace, sizes: Mapping[str, float]) -> Touched:
        loads, stores, atomics = ("load",), ("store",), ("atomic",)
        read = loads + atomics if any(access.kind == "atomic" for access in trace.accesses) else loads
        walks = dict[Any, tuple[Sequence[Access], _Walks]]()
        made = {kinds: Footprint(trace, kinds, sizes, {}, walks)
                for kinds in (loads, read, stores, read + stores, atomics)}  # fmt: skip
        return cls(made[loads], made[read], made[stores], made[read + stores], made[atomics])


def _alike_again(groups: Sequence[_Walks]) -> float:
    """Of one tensor, bytes that loops read again by tiles of one geometry."""
    total = 0.0
    for g in groups:
        program, loops = g.program.astype(np.int64), int(g.loop.max(initial=0)) + 1
        if loops > 1:
            total += g.tile_bytes * float(g.by_loop(loops).sum() - g.distinct_by(program).sum())
    return total


def _whole_again(groups: Sequence[_Walks]) -> float:
    """The same where a later loop goes from the first to the last byte of an earlier one, in tiles of other steps, as
    where it is not unrolled as often, and reads as many."""
    if any(g.anywhere.any() for g in groups):
        return 0.0
    loops = max(int(g.loop.max(initial=0)) for g in groups) + 1
    count = (max(int(g.program.max(initial=0)) for g in groups) + 1) * loops
    read, low, high = np.zeros(count), np.full(count, np.inf), np.full(count, -np.inf)
    for g in groups:
        key = g.program.astype(np.int64) * loops + g.loop.astype(np.int64)
        read[: key.max(initial=-1) + 1] += g.tile_bytes * g.by_loop(loops)
        np.minimum.at(low, key, np.minimum(g.start, g.last) * g.item_bytes)
        np.maximum.at(high, key, np.maximum(g.start, g.last) * g.item_bytes + g.tile_bytes)
    here = np.flatnonzero((read > 0) & (np.arange(count) % loops > 0))  # 0 is outside of loops
    ends = np.stack([here // loops, low[here], high[here], read[here]], axis=1)
    return float(read[here].sum() - np.unique(ends, axis=0)[:, 3].sum())


def _whole(access: Access) -> Access:
    """Sampled iterations of a loop around others, each of which stands for several, as walks through all of them: where
    those of each program lie on a line."""
    n = int(np.bincount(access.program.astype(np.int64)).max(initial=1))
    total, inner, step = round(n * float(access.times.max(initial=1.0))), access.count[:1], access.stride[:1]
    alike = (access.count == inner).all() and (access.stride == step).all()
    known = access.root is None and np.isfinite(access.start + access.stride).all()
    if total <= n or not alike or not known or len(access.start) % n:
        return access
    order = np.argsort(access.program, kind="stable").reshape(-1, n)
    start, program = access.start[order], access.program[order]
    along = (start[:, -1:] - start[:, :1]) / (total - 1)
    line = start[:, :1] + along * (np.arange(n) * (total - 1) // max(n - 1, 1))
    parts = int(inner.max(initial=1.0)) if step.any() else 1
    if parts > MOST_PARTS or np.ptp(program, axis=1).any() or abs(line - start).max() > 0.5:
        return access
    named = ((name, getattr(access, name)) for name in ("program", "round", "beside"))
    each: dict[str, Any] = {name: np.repeat(column[order[:, 0]], parts) for name, column in named if len(column)}
    kept = np.repeat(access.kept[order].mean(axis=1), parts)
    first = (start[:, :1] + np.arange(parts) * step).ravel()
    return replace(access, start=first, stride=np.repeat(along, parts), count=np.full(len(first), float(total)),
                   times=np.ones(len(first)), kept=kept, **each)  # fmt: skip
