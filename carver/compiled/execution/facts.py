"""`Facts` of a kernel of any language from its machine code and its launch: no source and no IR is read."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np

from ...arch.descriptor import Arch, blocks_that_fit, l1_room_bytes
from ...base.errors import CompileError
from ..atomics import SAMPLED
from ..binary import Binary
from ..dealt import Lines, passed_to_next
from ..facts import AccessFacts, Facts, LoopFacts, beyond, footprints, on_sm, unevenness
from ..footprint import Touched
from ..isa import sass
from ..isa.banks import LINE_BYTES, mean_passes, sectors_of, turns_of
from ..isa.code import Code, Instruction, Loop
from ..isa.rates import width_bytes
from ..machine import LATENCIES_CLK, Span
from ..sectors import GOLDEN, Sectors, sectors
from ..stretches import anywhere, fetched, filled_in_part, fresh, reached
from ..trace import Access, LoopTrace, Trace, aliased, sampled
from ..turns import in_turn
from ..walks import Walks
from .fetched import fetched_shares
from .lanes import Array, Column, Op, distinct, told, uncollected, wide
from .launch import SPACE, Launch, dispatched
from .leaps import Event
from .maps import placed, sized
from .overlaps import choosing, overlaps, stretches, uncovered
from .program import ACCESSES, KEPT, MOVES, Program, passing_by
from .roles import Reader, Role, check_shared, waited, waits_met
from .run import Drawn, Run
from .sass import decoded
from .tiles import SECTOR_BYTES, WORD_BYTES, Tile, awake, by_instruction, spread, tiles, turns, walks

DETAILED, MEETING = 6, 32
"""Blocks of the grid of which all threads are run: of atomics whose places are known so many as show how they meet."""
MOST_WORK, MOST_WALKS, LEAST_BLOCKS = 1 << 26, 1 << 17, 264
"""Instructions times lanes, and walks of tiles, of the run of many blocks; and so many blocks in any case."""
EVENLY = 997
"""Blocks that lie evenly over the grid, and the share of it by which each lies behind the one before."""
BLOCK_OF = ("SR_CTAID", "SR_CLUSTERID")
"""How special registers begin that say which block of the grid runs."""
IDLE, MANY = 0.02, 0.1
"""Share of the work of the busiest block that one does at most which ends at once; share of such blocks that counts."""
FILLERS = 128
"""Threads that fill tables in shared memory, with which many blocks are run."""
LANES, LOOKED_AT = 32, 2
"""Lanes of a warp; executions of an access of which the banks are looked at."""
BANKED_BYTES = 4096.0
"""Of tables in L1 those in whose banks lanes meet: of larger ones the look-ups of lines take longer."""
SHARING = 8
"""Lanes whose words on the stack share a sector."""


@uncollected()
def facts_of_binary(
    binary: Binary, arch: Arch, values: Mapping[str, Any] | None = None, code: Code | None = None
) -> Facts:
    """What is known of a launch on a device, without running it.

    `values`: contents of integer tensors by the name of the argument, where loops or branches depend on them. `code`:
    what `codes` read. Raises CompileError for code that cannot be read or followed, ConfigError for arguments that are
    not the kernel's.
    """
    return execution(binary, arch, values, code).facts()


def codes(binaries: Sequence[Binary], arch: Arch) -> Sequence[Code | None]:
    """The code of each, for NVIDIA's GPUs in one go: their disassembler takes longer to start than to read. Raises as
    `facts_of_binary` does."""
    if arch.vendor != "nvidia" or not binaries:
        return [None] * len(binaries)
    return sass.read_many([binary.code for binary in binaries], [binary.entry for binary in binaries])


@uncollected()
def execution(
    binary: Binary, arch: Arch, values: Mapping[str, Any] | None = None, code: Code | None = None
) -> Execution:
    """A launch that was followed. Raises as `facts_of_binary` does."""
    values = {} if values is None else values  # not one that is empty, which hears what is looked for
    if arch.vendor == "amd":
        return Execution(*dispatched(binary, arch.isa, values), arch, binary.shared_bytes)
    if arch.vendor != "nvidia":
        raise CompileError(f"machine code is followed for GPUs of NVIDIA and AMD, not for {arch.title}")
    code = code or sass.read(binary.code, binary.entry)
    kernel = sass.kernels(binary.code)[binary.entry]
    if arch.cc and (why := kernel.refuses(arch.cc, math.prod(binary.block))):
        raise CompileError(why)
    return Execution(code, passing_by(decoded(code)), Launch(binary, kernel, values), arch, binary.shared_bytes)


class Execution:
    """Two runs of a launch: all threads of a few blocks, and of many blocks those threads that show where tiles lie."""

    def __init__(self, code: Code, program: Program, launch: Launch, arch: Arch, shared_bytes: int) -> None:
        self.program, self.launch, self.arch = program, launch, arch
        self._seen: dict[tuple[Any, ...], float] = {}
        self.count, threads = math.prod(launch.grid), math.prod(launch.block)
        self.shared_bytes = shared_bytes + code.resources.shared_bytes
        meet = launch.told and any(op.kind == "global" and op.access == "atomic" for op in program.ops)
        detailed = max(MEETING, -(-SAMPLED // threads)) if meet else DETAILED
        sample, _ = sampled(self.count, True, LEAST_BLOCKS, launch.grid)  # they are among the many below
        at = np.linspace(0, len(sample) - 1, 2 * detailed + 1).astype(np.int64)[1::2]
        if aliased(sample[at], launch.grid[0]):
            sample = sample[np.argsort(sample % launch.grid[0], kind="stable")]  # evenly along x
        places = np.unique(sample[at])
        self.even = self._evenly(code)
        if self.even is not None:
            busy = np.flatnonzero(work_of(self.even) > IDLE * work_of(self.even).max())
            places = self.even.block_ids[np.unique(busy[np.linspace(0, len(busy) - 1, detailed).astype(np.int64)])]
        chosen = np.arange(self.count) if self.count <= detailed else places
        every = (*ACCESSES, *KEPT, "constant")
        self.detail = Run(program, launch, chosen, np.arange(threads), kinds=every, warp=code.warp_size)
        placed(launch, code, self.detail)
        sized(launch, program, self.detail)
        self.tiles = tiles(self.detail, launch)
        picks = {thread for tile in self.tiles for thread in tile.offsets}
        middle = min(code.warp_size // 2, threads - 1)
        picks |= {thread - thread % code.warp_size + at for thread in picks for at in (0, middle)} | {0}
        picks |= self.detail.fillers if len(self.detail.fillers) <= FILLERS else set()
        picks = {thread for thread in picks if thread < threads}
        moves = sum(event.kind in MOVES for event in self.detail.log)
        enough = min(MOST_WORK // max(self.detail.done * len(picks), 1), MOST_WALKS // max(moves, 1))
        least = LEAST_BLOCKS if LEAST_BLOCKS * moves <= 8 * MOST_WALKS else LEAST_BLOCKS // 2
        blocks, self.ranges = sampled(self.count, bool(code.loops), max(enough, least), launch.grid)
        if self.even is not None:  # runs of neighbours around those that work
            side = len(blocks) // len(self.ranges) // 2
            around = places[np.linspace(0, len(places) - 1, len(self.ranges)).astype(np.int64)]
            starts = np.unique(np.clip(around - side, 0, self.count - 2 * side))
            starts = starts[np.diff(starts, prepend=-2 * side) >= 2 * side]
            blocks = np.concatenate([np.arange(start, start + 2 * side) for start in starts])
            self.ranges = tuple((2 * side * i, 2 * side * (i + 1)) for i in range(len(starts)))
        self.wide = Run(program, launch, blocks, np.array(sorted(picks)), warp=code.warp_size)
        code = sass.branching(code, {i: to | self.wide.went[i] for i, to in self.detail.went.items()})
        heads = {program.ranges[n].start for n in self.detail.repeated}
        loops = tuple(repeating(code.loops, heads, {program.index[at] for at in self.detail.assumed}))
        conflicts, unplaced = self._conflicts(code)
        code = replace(code, loops=loops, conflicts=conflicts, unplaced=unplaced, awake=awake(self.detail, code))
        self.code = replace(code, sectors=self._sectors(code))

    @uncollected()
    def facts(self) -> Facts:
        check_shared(self.detail, self.shared_bytes)
        scale, most = self.shares()
        passes, held = self.detail.passes.mean(axis=1) * scale[:, None], self.code.resources
        warps, registers = passes.shape[1], max(held.registers, 1)
        wide, columns = warps * self.code.warp_size / self.arch.warp_size, self.detail.tensor_columns  # wave64 of RDNA
        resident = blocks_that_fit(self.arch, wide, self.shared_bytes, registers, columns) / self.arch.sms_per_block
        reader = Reader(self.code, self.detail, passes, self.arch, min(resident, self.count / self.arch.sm_count))
        roles = reader.roles()
        lead, critical = leading(roles)
        count = len(critical)
        loops, asides, place = list[LoopFacts](), list[tuple[float, Span]](), dict[int, int]()
        for n, (loop, own) in enumerate(zip(reader.loops, reader.owned, strict=True)):
            if not own:
                continue
            if n not in lead.loops:  # of another role: what it asks for counts, its time runs beside
                still = (0.0,) * len(LATENCIES_CLK)
                span = reader.span(tuple(own), own)
                span = replace(span, alone_clk=still, cached_clk=still, spilled_clk=still, tensor_clk=0.0)
                asides.append((1.0, replace(span, **reader.demand(own, 1.0, count))))
                continue
            trips, span = lead.loops[n]
            around = [m for m, outer in enumerate(reader.loops) if loop in outer.loops and m in place]
            name = hex(self.code.instructions[loop.header].address)
            head = max((int(reader.block_of[i]) for i in own), key=lambda b: passes[b].max())
            place[n] = len(loops)
            loops.append(LoopFacts(
                name, place[around[0]] if around else -1, trips, trips * float(most[head]),
                replace(span, **reader.demand(own, trips, count)),
            ))  # fmt: skip
        straight = replace(lead.straight, **reader.demand(reader.straight, 1.0, count))
        spans = [*((loop.trips, loop.span) for loop in loops), *asides, (1.0, straight)]
        flops = sum(t * (count * sum(s.matrix.values()) + sum(s.block_matrix.values())) for t, s in spans)
        rise = LATENCIES_CLK[1] - LATENCIES_CLK[0]
        waits = {n: (t, (span.alone_clk[1] - span.alone_clk[0]) / rise) for n, (t, span) in lead.loops.items()}
        once = {-1: (1.0, (straight.alone_clk[1] - straight.alone_clk[0]) / rise)}
        present = min(resident, max(self.count / self.arch.sm_count, 1.0))
        trace, accesses = self._trace(l1_room_bytes(self.arch, present, self.shared_bytes), waits, once)
        slots, run = max(int(self.arch.sm_count * resident), 1), self.even or self.wide
        sizes = {place.name: float(place.tensor.nbytes) for place in self.launch.places.values()}
        touched = Touched.of(trace, sizes)
        near = footprints(touched, self.arch, resident, [span for _, span in spans])
        near |= on_sm(touched.loads, self.arch, present)
        moved, exact = (sum(a.program_bytes * a.fetched for a in accesses if a.kind == "load" and a.anywhere <= lost)
                        * float(self.count) for lost in (True, False))  # fmt: skip
        # what blocks read for themselves at known places is what L1 was seen to ask for
        known = replace(trace, accesses=[access for access in trace.accesses if not anywhere(access)])
        loads = replace(touched.loads, trace=known, _waves={})
        alone = loads.touched_by(np.arange(len(self.wide.block_ids))) * loads.scale
        every = max(float(near["sm_reuse"][0][1]), 1.0)
        grown = (exact + max(every - alone, 0.0)) / every
        most = max(moved - near["read_bytes"] - near["again_bytes"], 0.0) / max(sum(n for n, _ in near["reuse"]), 1.0)
        near |= {
            "near_bytes": min(near["near_bytes"] * grown, moved),
            "sm_reuse": tuple((live, float(read * grown)) for live, read in near["sm_reuse"]),
            "reuse": tuple((n * min(most, 1.0), meanwhile) for n, meanwhile in near["reuse"]),  # no more than asked for
        }
        uneven, crowded = unevenness(work_of(run), slots * len(run.block_ids) / self.count, resident)
        return Facts(
            grid=self.launch.grid, warps=count, warp_size=self.code.warp_size, ctas=math.prod(self.launch.cluster),
            shared_bytes=self.shared_bytes, tensor_columns=columns, registers=registers, spill_bytes=held.spill_bytes,
            loops=tuple(loops), asides=tuple(asides), straight=straight, working=1.0, accesses=tuple(accesses),
            code=self.code.digest, resident=resident, dot_flops=flops, assumed=bool(self.detail.assumed), **near,
            handed_on=in_turn([*turns(self.wide)], slots, self.ranges, self.count / len(self.wide.block_ids))[1],
            unevenness=uneven, crowding=crowded, notes=(*self._notes(reader, roles),), untold=(*sorted(trace.untold),),
            beyond=beyond(trace, {place.name: (float(n * SPACE), float(place.tensor.extent_bytes))
                                  for n, place in self.launch.places.items()
                                  if min(place.tensor.strides, default=0) >= 0}),
        )  # fmt: skip

    def shares(self) -> tuple[Array, Array]:
        """Of each basic block: passes in the mean block of the grid over those in the mean of the detailed ones, and
        passes in the block that has most over the mean."""
        run = self.even or self.wide
        passes = run.passes.mean(axis=2)
        here = passes[:, np.isin(run.block_ids, self.detail.block_ids)].mean(axis=1)
        all_, most = passes.mean(axis=1), passes.max(axis=1)
        scale = np.divide(all_, here, out=np.ones(len(all_)), where=here > 0)
        return scale, np.divide(most, all_, out=np.ones(len(all_)), where=all_ > 0)

    def _evenly(self, code: Code) -> Run | None:
        """The first threads of blocks that lie evenly over the grid, where many of these end at once: runs of
        neighbours do not say how many do."""
        if self.count <= LEAST_BLOCKS or not code.loops or self._alike(code):
            return None
        blocks = np.unique((np.arange(EVENLY) * GOLDEN % 1.0 * self.count).astype(np.int64))
        run = Run(self.program, self.launch, blocks, np.zeros(1, np.int64), kinds=(), warp=code.warp_size)
        work = work_of(run)
        return run if (work <= IDLE * work.max()).mean() > MANY else None

    def _alike(self, code: Code) -> bool:
        """Whether no branch can depend on which block of the grid runs."""
        if code.isa.startswith("gfx"):
            return False
        own = BLOCK_OF if math.prod(self.launch.cluster) == 1 else (*BLOCK_OF, "SR_CgaCtaId")
        index, ops = self.program.index, [op for block in self.program.sliced(()) for op in block.ops]
        special = [each for op in ops if "SR_C" in (each := code.instructions[index[op.address]].operands)]
        return not (any(op.deals for op in ops) or any(name in each for each in special for name in own))

    def _conflicts(self, code: Code) -> tuple[dict[int, float], frozenset[int]]:
        """Passes of accesses over the banks of shared memory and L1, which are the same, and over words of constants,
        by instruction, in the mean of the warps of a block. On AMD those of shared memory, and of GCN and CDNA what its
        address unit takes. And accesses of global memory at places that are not known, of which L1 looks up lines."""
        found, lost, unplaced = {}, dict[int, Event](), set[int]()
        kinds = ("shared",) if code.isa.startswith("gfx1") else ("shared", "global", "constant")
        for index, events in by_instruction(self.detail, kinds).items():
            each, op = code.instructions[index], self.program.ops[index]
            if op.access != "atomic":
                known = [event for event in events[:LOOKED_AT] if told(event.values[0])]
                ratios = [self._passes(each, op.access, event, self.detail) for event in known]
                if ratios and (mean := float(np.mean(ratios))) != 1.0:
                    found[index] = mean
                if not ratios and self.arch.vendor == "nvidia":
                    if self._table(op, events[0])[1] <= BANKED_BYTES:
                        lost[index] = events[0]
                    elif op.access != "store":  # of stores tiles say it
                        unplaced.add(index)
        return found | (self._drawn_passes(code, lost) if lost else {}), frozenset(unplaced)

    def _drawn_passes(self, code: Code, lost: Mapping[int, Event]) -> dict[int, float]:
        """The same of accesses at places that loaded words choose, with words as if drawn at random. `lost`: an event
        of each, of the detailed execution, by instruction. Source: a cipher by tables of 1 and 4 KiB on an H200
        (`cuda_tables` in `languages_eighth.jsonl.gz`, tests/data/h200) takes as long as that says, and 1.7 times as
        long as if lanes did not meet in banks."""
        kinds, found = tuple({self.program.ops[index].kind for index in lost}), {}
        run = Drawn(self.detail, kinds, {self.program.ops[index].address: LOOKED_AT for index in lost})
        for index, events in by_instruction(run, kinds).items():
            if index not in lost:
                continue
            each, op = code.instructions[index], self.program.ops[index]
            first, held = self._table(op, lost[index])
            lines, aligned = -(-int(held or self.shared_bytes or 1) // LINE_BYTES), -max(op.width_bytes, WORD_BYTES)
            ratios = []
            for event in events[:LOOKED_AT]:
                if (value := event.values[0]) is not None:
                    inside = Column((value.bits - first) % (lines * LINE_BYTES) & aligned)
                    ratios.append(self._passes(each, op.access, event._replace(values=(inside,)), run))
            if ratios and (mean := float(np.mean(ratios))) > 1.0:
                found[index] = mean
        return found

    def _table(self, op: Op, event: Event) -> tuple[int, float]:
        """The first address of what an access at an unknown place looks words up in, and its bytes in L1."""
        if op.kind != "global":
            return 0, 0.0
        start = event.values[0]  # with 0 for what is not known it may lie before its tensor
        first = (int(start.bits[0]) + SPACE // 2) // SPACE * SPACE if start else 0
        place = self.launch.place_of(first)
        return first, float(place.tensor.nbytes) if place else math.inf

    def _passes(self, each: Instruction, access: str, event: Event, run: Run) -> float:
        """Of one execution by the first block."""
        lanes, address = spread(event)
        first = run.slot[event.lanes[0]]
        warps = len(distinct(run.warp[event.lanes[run.slot[event.lanes] == first]]))
        mine = run.slot[lanes] == first
        lanes, address = lanes[mine], address[mine]
        warp, lane = run.warp[lanes], run.lane_of[lanes]
        if each.mnemonic == "LDC":  # each word that lanes read on their own
            return len(distinct(warp * SPACE + address)) / warps
        if run.warp_size > LANES and not each.opcode.startswith("ds_"):
            return quad_turns(warp * run.warp_size + lane, address, width_bytes(each.opcode), warps)
        passes = self._mean_passes(each, warp, lane, address, warps, run.warp_size)
        inner = event.places[0] if event.places else None
        if access == "copy" and inner is not None and inner.known is None and len(lanes):  # both ends are such banks
            target = wide(inner.bits, len(event.lanes))[np.isin(event.lanes, lanes)]
            shared = self._mean_passes(each, warp, lane, target, warps)
            whole = lanes[warp == warp[0]]
            if len(whole) == LANES:
                first = warp == warp[0]
                shared = max(shared, turns_of(each, address[first], target[first]))
            passes += shared - 1.0
        return passes

    def _mean_passes(
        self, each: Instruction, warp: Array, lane: Array, address: Array, warps: int, size: int = LANES
    ) -> float:  # fmt: skip
        """`mean_passes`, which are the same at places that whole rows of banks lie between."""
        places = address - address[:1] // LINE_BYTES * LINE_BYTES
        key = each.opcode, warps, warp.tobytes(), lane.tobytes(), places.tobytes()
        if key not in self._seen:
            self._seen[key] = mean_passes(each, warp, lane, address, warps, size)
        return self._seen[key]

    def _sectors(self, code: Code) -> dict[int, float]:
        """Sectors that a warp's atomics touch, and its stores to arrays on the stack, by instruction, in the first
        warp: of atomics, those of all lanes if the others were like the ones that take part. Lanes that differ in
        nothing but what is not known lie in rows of their own; of known ones that meet, `Facts.atomic_turns` says more.
        On the stack the same words of all lanes are together, so that lanes which differ in the word share no sector.
        """
        found, met = dict[int, float](), {tile.index for tile in self.tiles if tile.anywhere and len(tile.drawn)}
        for index, events in by_instruction(self.detail, ("local",)).items():
            if self.program.ops[index].access == "store":
                lanes, address = spread(events[-1])
                mine = self.detail.warp[lanes] == self.detail.warp[lanes[:1]]
                words, near = address[mine] // WORD_BYTES, self.detail.lane_of[lanes[mine]] // SHARING
                held = max(code.resources.stack_bytes // WORD_BYTES, 1)
                anywhere = 4 * held * (1.0 - (1.0 - 1.0 / held) ** SHARING)  # different ones of random places
                count = len(np.unique(words << 5 | near)) if len(words) else anywhere
                if count > LANES // SHARING:
                    found[index] = count * max(width_bytes(code.instructions[index].opcode) // WORD_BYTES, 1)
        for index, events in by_instruction(self.detail, ("global",)).items():
            column = events[0].values[0]
            if self.program.ops[index].access != "atomic" or column is None or index in met:
                continue
            lanes, address = spread(events[0])
            if lost := not len(lanes):  # with 0 for what is not known
                lanes, address = spread(events[0]._replace(values=(Column(column.bits),)))
            mine = address[self.detail.warp[lanes] == self.detail.warp[lanes[:1]]]
            if not (lost and (mine == mine[:1]).all()):  # where they differ in nothing, each lies anywhere
                found[index] = sectors_of(code.instructions[index], mine) * self.detail.warp_size / len(mine)
        return found

    def _lines(self) -> dict[int, Lines]:
        """What lanes of a wave want of L1, by the load or store, in the first event of each; where their addresses are
        known. Of AMD's code: of NVIDIA's, `Code.conflicts` says it, but for what stores fill in part."""
        if self.arch.vendor != "amd":
            return {tile.index: Lines(tile.lines) for tile in self.tiles}
        found: dict[int, Lines] = {}
        for index, events in by_instruction(self.detail, ("global",)).items():
            lanes, address = spread(events[0])
            if self.program.ops[index].access in ("load", "store") and len(lanes):
                each = self.detail.warp[lanes], address // SECTOR_BYTES
                sectors = np.unique(np.stack(each), axis=1)
                lines = np.unique(sectors // [[1], [LINE_BYTES // SECTOR_BYTES]], axis=1).shape[1]
                asked = LINE_BYTES / (len(lanes) * self.program.ops[index].width_bytes)
                found[index] = Lines(lines * asked, sectors.shape[1] / lines * SECTOR_BYTES)
        return found

    def _trace(
        self, room_bytes: float, waits: Mapping[int, tuple[float, float]], once: Mapping[int, tuple[float, float]]
    ) -> tuple[Trace, list[AccessFacts]]:
        """Where tiles lie in all blocks of the wide run, and what a mean block asks for. `room_bytes`: of L1; `waits`:
        passes of each loop, and how often one waits for memory if L1 holds nothing; `once`: of code outside."""
        loops = self.code.all_loops()
        owner = {i: n for n, loop in enumerate(loops) for i in loop.own}
        heads = {i: self.program.block_of[outer.header] for outer in self.code.loops for inner in outer.loops
                 for i in inner.body}  # fmt: skip
        events, accesses, told = rounds(self.wide, heads), list[Access](), list[AccessFacts]()
        blocks, wide = len(self.wide.block_ids), self.wide.passes.mean(axis=(1, 2))
        even = wide if self.even is None else self.even.passes.mean(axis=(1, 2))
        often = np.divide(even, wide, out=np.ones(len(wide)), where=wide > 0)
        found = {tile.index: walks(tile, events.get(tile.index, []), self.wide, heads.get(tile.index, -1))
                 for tile in self.tiles if tile.place is not None and not tile.anywhere}  # fmt: skip
        apart, inside, outside = self._fetched(room_bytes, waits, once, owner)
        alike = [(tile, lies) for tile in self.tiles if (lies := found.get(tile.index)) is not None and lies.alike]
        shift = overlaps(alike, self.wide.block_ids, self.launch.grid)
        joined = stretches([(tile, lies, owner.get(tile.index, -1)) for tile, lies in alike])
        new = uncovered([(tile, lies) for tile, lies in alike if tile.index not in shift])
        (scale, _), lines = self.shares(), self._lines()
        for tile in self.tiles:
            loop, lies, block = owner.get(tile.index, -1), found.get(tile.index), self.program.block_of[tile.index]
            executions, stride = tile.executions * float(scale[block]), None
            asked, width = executions * tile.tile_bytes * tile.mean, self.program.ops[tile.index].width_bytes
            access, exact = None, lies is not None and tile.path == "pointer" and tile.kind != "atomic"
            store = tile.kind == "store"
            if lies is not None:
                away, size = shift.get(tile.index, (0, tile.tile_bytes))
                width, placed = width if tile.kind == "atomic" else 1, Sectors(new=new.get(tile.index, 1.0))
                if not lies.alike:
                    address, cut = tile.seen
                    placed = sectors([(0, each - address.min()) for each in np.split(address, cut[1:])], None, 1.0, ())
                shape = (max(int(size // width), 1),)
                access = access_of(tile, lies.elements(away, width), loop, width, shape, coef=(1.0,), placed=placed)
                asked, stride = lies.asked / blocks * tile.tile_bytes * often[block], lies.pace
            elif tile.place is not None and tile.place.map is None:  # it is known of which tensor
                beside, gone, one = self._beside(events.get(tile.index, [])), np.full(blocks, math.nan), np.ones(blocks)
                lying = Walks(gone, gone, one * executions, one, np.arange(blocks, dtype=float), 0.0 * one, one)
                rows = max(round(tile.tile_bytes / tile.run_bytes), 1), max(int(tile.run_bytes // width), 1)
                access = access_of(tile, lying, loop, width, rows, coef=(math.nan, 1.0), beside=beside / width,
                                   root=self.program.origin(tile.index))  # fmt: skip
            accesses += [access] if access else []
            touched = ever = tile.moved if exact else 1.0
            first, lost = 1.0, access is None or access.placed.by_chance
            if access and lies is None:
                touched, ever = reached(access, accesses), fetched(access, accesses)
                lost, first = not store or filled_in_part(access, accesses), fresh(access, accesses, room_bytes)
            together, stores = joined.get(tile.index, (tile.span_bytes, 1))
            span_bytes = together if tile.kind == "load" else tile.span_bytes
            share = None if lies is None else apart.get(tile.index)
            if share is not None:  # the rest lies in L1
                span_bytes = span_bytes if share == 1.0 else tile.span_bytes  # else loads beside it fetch the rest
                asked *= share
                stride = (outside if loop < 0 else inside) * max(span_bytes, self.arch.sector_bytes)
            told.append(AccessFacts(
                kind=tile.kind, path=tile.path, argument=tile.place.name if tile.place else "", loop=loop,
                program_bytes=asked, stride_bytes=stride, run_bytes=float(tile.run_bytes), span_bytes=span_bytes,
                density=tile.density, filled=stores if store else tile.density,
                align_bytes=float(tile.align_bytes), placed=exact, together_bytes=together,
                size_bytes=float(tile.place.tensor.nbytes) if tile.place else 0.0,
                goes_on=exact and passed_to_next(accesses[-1], tile.run_bytes), anywhere=lost, touched=touched,
                fetched=ever, fresh=first, **lines.get(tile.index, Lines())._asdict(),
            ))  # fmt: skip
        ran = [LoopTrace(hex(16 * loop.header), -1, np.ones(blocks), np.ones(blocks)) for loop in loops]
        untold = choosing(self.program, self.tiles) - self.launch.told
        return Trace(self.launch.grid, blocks, self.ranges, ran, accesses, untold=untold), told

    def _fetched(
        self, room_bytes: float, waits: Mapping[int, tuple[float, float]], once: Mapping[int, tuple[float, float]],
        owner: Mapping[int, int],
    ) -> tuple[dict[int, float], float, float]:  # fmt: skip
        """Share of a load's sectors that L1 asks L2 for, by instruction, and of the waits in loops, and outside, those
        that are for such. `owner`: the loop of an instruction; the rest as of `_trace`."""
        apart, asking = fetched_shares(self.detail, self.code, room_bytes, {t.index: t.executions for t in self.tiles})
        shares: defaultdict[int, list[float]] = defaultdict(list)
        for index, part in apart.items():
            shares[owner.get(index, -1)].append(part)
        asking[-1] = waits_met(once[-1][1], shares[-1])
        inside, outside = (waited([(*some[n], shares[n], asking.get(n, 1.0)) for n in some]) for some in (waits, once))
        return apart, inside, outside

    def _beside(self, events: Sequence[tuple[Event, Array | None]]) -> Array:
        """By block of the wide run, what is known of the least address of a tile when it is first met: 0 counts for the
        rest."""
        least = np.full(len(self.wide.block_ids), math.inf)
        for event, _ in events[:1]:
            lanes, address = spread(event._replace(values=(event.values[0] and Column(event.values[0].bits),)))
            np.minimum.at(least, self.wide.slot[lanes], address)
        return np.where(np.isfinite(least), least, math.nan)

    def _notes(self, reader: Reader, roles: Sequence[Role]) -> Iterator[str]:
        if len(roles) > 1:
            for role in roles:
                loops = ", ".join(
                    f"{trips:.4g} of the loop at {hex(self.code.instructions[reader.loops[n].header].address)}"
                    for n, (trips, _) in role.loops.items()
                )
                what = "multiply" if role.products else "do not multiply" if reader.products.any() else "run"
                passes = f"passes: {loops or 'no loop'}"
                yield f"warps {ranges(role.warps)} {what}; {passes}; {role.clk:,.0f} clocks of a lone warp"
        worst = max(self.code.conflicts.items(), key=lambda item: item[1], default=(0, 1.0))
        if worst[1] > 1.0:
            at = self.code.instructions[worst[0]]
            accesses = sum(1 for ratio in self.code.conflicts.values() if ratio > 1.0)
            where = f"{worst[1]:.3g} passes for one ({at.opcode} at {at.address:#x})"
            yield f"conflicts of banks: {accesses} accesses, at worst {where}"
        lost = [self.code.instructions[tile.index] for tile in self.tiles if tile.anywhere and not tile.start]
        if lost:
            yield f"addresses not known: {listed(Counter(each.opcode for each in lost))}"
        calls = Counter(
            each.opcode for i, each in enumerate(self.code.instructions)
            if each.opcode in ("s_swappc_b64", "s_call_b64") and self.detail.passes[self.program.block_of[i]].any()
        )  # fmt: skip
        if calls:
            yield f"functions that are called are not followed: {listed(calls)}; inline them"
        if unknown := self.detail.unknown:
            yield f"instructions not known: {listed(unknown)}; what depends on them is not known"


def access_of(tile: Tile, walks: Walks, loop: int, width: int, shape: tuple[int, ...], **more: Any) -> Access:
    """A tile as an access of so many elements of so many bytes; `walks`: in elements."""
    drawn = whole_rows(tile.drawn, math.prod(shape)) // width
    return Access(
        **vars(walks), kind=tile.kind, path=tile.path, argument=getattr(tile.place, "name", None), loop=loop,
        shape=shape, item_bytes=float(width), pieces=(None,) * len(shape), drawn=drawn, **more,
        counted=tile.run_bytes < tile.tile_bytes,
    )  # fmt: skip


def repeating(loops: Sequence[Loop], heads: Set[int], unsure: Set[int]) -> Iterator[Loop]:
    """Loops that were gone through more than once or may be, by branches that are not sure, and of each all code that
    is in none of the others. Waits that succeed at once, and code that lanes of a warp take turns in, are no loops."""
    for loop in loops:
        inner = tuple(repeating(loop.loops, heads, unsure))
        within = {i for each in inner for i in each.body}
        own = tuple(i for i in loop.body if i not in within)
        if not heads.isdisjoint(own) or not unsure.isdisjoint(own):
            yield replace(loop, own=own, loops=inner)
        else:
            yield from inner


def whole_rows(places: Array, length: int) -> Array:
    """Those of whole warps that are whole rows of such a length as well: of blocks that lie far apart by turns, since
    neighbours may meet as others do not."""
    row = math.lcm(length, LANES)
    half = len(places) // (2 * row) * row
    return np.stack([np.reshape(places[at : at + half], (-1, row)) for at in (0, half)], axis=1).ravel()


def work_of(run: Run) -> Array:
    """Instructions of each block of a run."""
    counts = np.array([len(block.places) for block in run.blocks], float)
    return (run.passes.max(axis=2) * counts[:, None]).sum(axis=0)


def quad_turns(lane: Array, address: Array, width_bytes: int, warps: int) -> float:
    """Clocks that the address unit of GCN and CDNA takes for an access of so many waves, over those it needs at least:
    16 lanes a clock and 64 bytes. Four neighbours take a clock for themselves, unless what they access lies within as
    many bytes as they ask for. Source: a dedispersion on an MI250X (400 configurations of the table in Kernel Tuner's
    benchmark hub): loads of bytes that lie two and more apart take 13 clocks more than those of bytes in a row."""
    first = np.flatnonzero(np.diff(lane // 4, prepend=-1))
    reach = np.maximum.reduceat(address, first) - np.minimum.reduceat(address, first) + width_bytes
    apart = reach > np.diff(first, append=len(lane)) * width_bytes
    least = max(warps * max(width_bytes, 4), 1)  # 64 lanes at 64 bytes or 16 lanes a clock
    return max(float(np.where(apart, 1.0, 0.25).sum()), least) / least


def leading(roles: Sequence[Role]) -> tuple[Role, tuple[int, ...]]:
    """The role that decides how long a block takes, and the warps that its work is spread over: those that multiply, or
    where none does, all, since each keeps to its scheduler and warps that finish what others began are few."""
    multiply = [role for role in roles if role.products]
    lead = max(multiply or roles, key=lambda role: role.clk)
    return lead, tuple(sorted(warp for role in multiply or roles for warp in role.warps))


def rounds(run: Run, heads: Mapping[int, int]) -> dict[int, list[tuple[Event, Array | None]]]:
    """Events that move global memory, by instruction; where that is in a loop inside another one, with the pass of the
    outermost in which each block is then. `heads`: the block that this one begins with, by instruction."""
    passed = {head: np.zeros(len(run.block_ids), np.int64) for head in set(heads.values())}
    out: dict[int, list[tuple[Event, Array | None]]] = {}
    for event in run.log:
        if event.kind == "block" and event.where in passed:
            again = math.prod(walk.times for walk in event.walks)
            passed[event.where][np.unique(run.slot[event.lanes])] += again
        elif event.kind in MOVES:
            index = run.program.index[event.where]
            head = heads.get(index)
            now = None
            if head is not None:
                skipped = math.prod(walk.times for walk in event.walks if walk.head == head)
                leapt = any(walk.head == head for walk in event.walks)
                now = passed[head] - 1 - (skipped if leapt else 0)
            out.setdefault(index, []).append((event, now))
    return out


def ranges(numbers: Sequence[int]) -> str:
    """As "0-3, 8"."""
    out: list[list[int]] = []
    for n in sorted(numbers):
        if out and out[-1][-1] == n - 1:
            out[-1].append(n)
        else:
            out.append([n])
    return ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else f"{part[0]}" for part in out)


def listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common(4))
