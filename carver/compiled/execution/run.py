"""Run the control flow and the addresses of a kernel's machine code for many threads at once.

Threads are lanes of columns. Those at the same place of the code form a `Fiber`; the one that comes first in the order
of `Program.rank` runs next, and fibers that meet join, so that no stack of reconvergence is needed. Loads give what the
launch was told of their tensor, and else make unknown what they write, lane by lane. A branch on what is not known
falls through, and is recorded. Waits for barriers in memory succeed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from math import inf, prod
from typing import Any

import numpy as np

from ...base.errors import CompileError
from .lanes import (
    FALSE,
    HERE,
    TRUE,
    UNKNOWN,
    WORD,
    ZERO,
    Array,
    Column,
    Op,
    Value,
    begins,
    every,
    gathered,
    lengths,
    merged,
    some,
    told,
    wide,
)
from .launch import Launch
from .leaps import Event, Leaper
from .program import ACCESSES, Program

MOST_WORDS = 1 << 23
"""That are kept at a time."""
IN_BLOCK = (1 << 24) - 1
"""Bits of a place in shared memory; those above name the block of a cluster."""
GUESSED, KNOWN = 16, 15
"""How a word was stored: a bit for each byte that is known. A word that is not known has 0 for what is not known of it,
which tells tensors."""


class Memory:
    """Words by owner and address in bytes."""

    def __init__(self, owners: int) -> None:
        self._low, self._bits = 0, np.zeros((owners, 0), np.int64)
        self._how = np.zeros((owners, 0), np.uint8)
        self.empty = True

    def forget(self) -> None:
        """What was known may have changed."""
        self._how[self._how != GUESSED] = 0

    def store(self, owner: Array, address: Array, bits: Array, known: Array, width_bytes: int = 4) -> None:
        word = (address & IN_BLOCK) >> 2
        if not len(word) or not self._grown(int(word.min()), int(word.max()) + 1):
            self.forget()
            return
        if width_bytes < 4:  # one lane after the other, as several may store parts of a word
            mask, here = (1 << width_bytes) - 1 << (address & 3), ((1 << 8 * width_bytes) - 1) << 8 * (address & 3)
            for lane in range(len(word)):
                place = owner[lane], word[lane] - self._low
                self._bits[place] = self._bits[place] & ~here[lane] | bits[lane] << 8 * (address[lane] & 3) & here[lane]
                self._how[place] = self._how[place] & KNOWN & ~mask[lane] | (mask[lane] if known[lane] else 0)
        else:
            at = owner, word - self._low
            self._bits[at], self._how[at] = bits, np.where(known, KNOWN, GUESSED)
        self.empty = False

    def loaded(self, owner: Array, address: Array, width_bytes: int = 4) -> tuple[Array, Array]:
        """Words, or parts of them, and how each was stored, 0 where it was not."""
        word = ((address & IN_BLOCK) >> 2) - self._low
        inside = (word >= 0) & (word < self._bits.shape[1])
        at = owner, np.where(inside, word, 0)
        bits, how = self._bits[at], np.where(inside, self._how[at], 0)
        if width_bytes == 4:
            return bits, how
        mask = (1 << width_bytes) - 1 << (address & 3)
        return bits >> 8 * (address & 3) & (1 << 8 * width_bytes) - 1, np.where(how & mask == mask, KNOWN, 0)

    def _grown(self, begin: int, end: int) -> bool:
        """Whether words from `begin` to `end` have their place now."""
        owners, count = self._bits.shape
        if not count:
            self._low = begin
        low, high = min(begin, self._low), max(end, self._low + count)
        if (high - low) * owners > MOST_WORDS:
            return False
        if high - low > count:
            room = (0, 0), (self._low - low, high - self._low - count)
            self._bits, self._how = np.pad(self._bits, room), np.pad(self._how, room)
            self._low = low
        return True


MOST_STEPS = 60_000
"""Blocks that are run before a kernel counts as one that cannot be followed."""
LANES = 32
TOUCHES = ("global", "shared", "local", "constant", "box", "bulk", "barrier")
"""Kinds of instructions that are recorded."""
FIRST = ("SR_CgaSize", "SR_SWINHI")
"""Special registers that count as 0."""


class Run:
    """One execution, for some blocks of the grid and some threads of each, with addresses of some kinds of accesses.

    passes: of each basic block, by warp of each block of the grid that runs: (basic blocks, blocks of the grid, warps)
    log: what happened, in order
    enough: events after which it may stop
    assumed: addresses of branches on what is not known
    unknown: opcodes whose results are not known for want of a rule, and how often each was met
    """

    enough = inf

    def __init__(
        self,
        program: Program,
        launch: Launch,
        blocks: Array,
        threads: Array,
        *,
        kinds: Collection[str] = ACCESSES,
        warp: int = LANES,
    ) -> None:
        self.program, self.launch, self.block_ids, self.threads = program, launch, blocks, threads
        count, each = len(blocks), len(threads)
        self.slot = np.repeat(np.arange(count), each)
        """Of each lane: the place of its block among those that run."""
        block, self.tid = np.repeat(blocks, each), np.tile(threads, count)
        (gx, gy, _), (bx, by, _), (cx, cy, cz) = launch.grid, launch.block, launch.cluster
        x, y, z = block % gx, block // gx % gy, block // (gx * gy)
        self.warp_size, self.lane_of = warp, self.tid % warp
        self._special: dict[str, Array] = {
            "SR_CTAID.X": x, "SR_CTAID.Y": y, "SR_CTAID.Z": z,
            "SR_CLUSTERID.X": x // cx, "SR_CLUSTERID.Y": y // cy, "SR_CLUSTERID.Z": z // cz,
            "SR_CgaCtaId": x % cx + cx * (y % cy + cy * (z % cz)),
            "SR_TID.X": self.tid % bx, "SR_TID.Y": self.tid // bx % by, "SR_TID.Z": self.tid // (bx * by),
            "SR_LANEID": self.lane_of, "SR_LTMASK": (1 << self.lane_of) - 1,
        }  # fmt: skip
        self.warps, within = np.unique(threads // warp, return_inverse=True)
        """Which warps of a block run."""
        self.warp = self.slot * len(self.warps) + np.tile(within, count)
        """Of each lane: its warp among those of all blocks that run."""
        self._passes = np.zeros((len(program.ranges), count * len(self.warps)))
        self.log: list[Event] = []
        self.assumed: set[int] = set()
        self.leaves: set[int] = set(program.leaves)
        """Those of them that are taken, since a loop would not end, or another block has done what it waits for."""
        self.repeated: set[int] = set()
        """Blocks that control came back to."""
        self.unknown: Counter[str] = Counter()
        self.went: defaultdict[int, set[int]] = defaultdict(set)
        """Places of indirect branches, and of the blocks that they went to."""
        self.kept = {"shared": Memory(count), "local": Memory(len(self.slot))}
        self.fillers: set[int] = set()
        """Threads that stored what is known in shared memory, on which addresses or branches depend."""
        self.tensor_columns = 0
        """That a block takes at a time."""
        self.kept_at = 0
        """Length of the log when one was last stored."""
        self.blocks = program.sliced(kinds)
        self.done = 0
        """Instructions that were executed, for all lanes of a fiber at once."""
        self._go()

    @property
    def passes(self) -> Array:
        return self._passes.reshape(len(self.program.ranges), len(self.block_ids), len(self.warps))

    def ran(self, block: int, warps: Array, times: int | Array = 1) -> None:
        row = self._passes[block]
        if len(warps) == len(row):  # each once
            row += times
        else:
            row[warps] += times

    def special(self, name: str, lanes: Array) -> Value:
        if name in self._special:
            bits = self._special[name][lanes]
            return Column(bits[:1] if every(bits == bits[0]) else bits)
        return ZERO if name in FIRST else None

    def _go(self) -> None:
        fibers = [Fiber(self, np.arange(len(self.slot)), 0, self.launch.registers(self._special))]
        steps, behind, rank, leaper = 0, self.program.behind, self.program.rank, Leaper(self)
        while fibers and len(self.log) < self.enough:
            lead = min(fibers, key=lambda fiber: (-fiber.depth, fiber.block in behind, rank[fiber.block]))
            first = lead.block
            here = [fiber for fiber in fibers if (fiber.block, fiber.depth) == (first, lead.depth)]
            fibers = [fiber for fiber in fibers if (fiber.block, fiber.depth) != (first, lead.depth)]
            fiber = here[0] if len(here) == 1 else self._joined(here)
            if first in self.program.heads:
                leaper.leap(fiber)
            steps += 1
            if steps > MOST_STEPS:
                at = self.program.ops[self.program.ranges[first][0]].address
                raise CompileError(f"the code is not through after {MOST_STEPS:,} basic blocks; it is at {at:#x}")
            depth, out = fiber.depth, self._step(fiber)
            self.repeated |= {each.block for each in out if each.depth == depth and rank[each.block] <= rank[first]}
            fibers += out

    def _joined(self, parts: Sequence[Fiber]) -> Fiber:
        lanes = np.concatenate([part.lanes for part in parts])
        order, counts = np.argsort(lanes, kind="stable"), [len(part.lanes) for part in parts]
        values = {}
        for name in self.blocks[parts[0].block].live:
            held = gathered([part.values.get(name) for part in parts], counts, order)
            if held is not None:
                values[name] = held
        return Fiber(self, lanes[order], parts[0].block, values, parts[0].depth)

    def _step(self, fiber: Fiber) -> list[Fiber]:
        """Run one basic block; the fibers that come out."""
        n = fiber.block
        block = self.blocks[n]
        self.ran(n, fiber.warps)
        self.log.append(Event("block", n, fiber.lanes, (), fiber.warps))
        self.done += len(block.ops)
        fiber.notes = n in self.program.looping
        fiber.under.clear()
        for each in block.ops:
            self._do(each, fiber)
        following = n + 1 if n + 1 < len(self.blocks) else None
        if (op := block.last) is None:
            return fiber.gone(following)
        if op.kind == "turns":
            more = lengths(begins(self.warp[fiber.lanes]), len(fiber.lanes)) - 1
            self.ran(n, fiber.warps, more)
            self.log.append(Event("turns", n, fiber.lanes, (), (fiber.warps, more)))
            return fiber.gone(following)
        taken = fiber.guard(op.guard) if op.guard else TRUE
        for get in op.conditions:
            also = get(fiber) or Column(FALSE.bits, FALSE.bits)
            sure, possible = taken.sure & also.sure, taken.possible & also.possible
            taken = Column(sure, None if (sure == possible).all() else sure == possible)
        if taken.known is not None and not taken.known.all() and not op.rare:
            self.assumed.add(op.address)
        goes = taken.possible if op.rare or op.address in self.leaves else taken.sure
        if op.kind == "exit":
            return fiber.parted(~goes, following)
        if op.kind in ("return", "indirect"):
            back = deeper(self._elsewhere(op, fiber, goes), -(op.kind == "return"))
            return [*back, *fiber.parted(~goes, following)]
        there = self.program.block_at.get(op.target) if op.target is not None else following
        if op.kind == "call":  # functions are gone through before the code behind them
            return [*deeper(fiber.parted(goes, there), 1), *fiber.parted(~goes, following)]
        return [*fiber.parted(goes, there), *fiber.parted(~goes, following)]

    def _elsewhere(self, op: Op, fiber: Fiber, goes: Array) -> list[Fiber]:
        """Fibers behind a branch to an address in a register."""
        to = op.back(fiber) if op.back else None
        if to is None or to.known is not None:
            self.assumed.add(op.address)
            if to is None or op.kind == "return":
                return []
        wanted = np.unique(to.bits)  # of a table of which the entry is not known, the first
        if op.kind == "indirect":
            at = self.program.index
            self.went[at[op.address]] |= {at[each] for each in wanted.tolist() if each in at}
        return [
            part
            for each in wanted
            for part in fiber.parted(goes & (to.bits == each), self.program.block_at.get(int(each)))
        ]

    def _do(self, op: Op, fiber: Fiber) -> None:
        """Run one instruction. `guard`: lanes that take part; `among`: those whose results it writes; `mine`: what
        registers hold in lanes that took part before under the same guard, if that is not sure; `before`: what they
        held, which the other lanes keep."""
        if op.kind == "alu" and op.run is not None and not (op.guard or op.within):
            if fiber.under:
                fiber.rewritten(op)
            fiber.at, fiber.among = op.address, None
            op.run(fiber)
            return
        guard = fiber.guard(op.guard) if op.guard else None
        if guard is not None and not some(guard.possible):
            return
        whole = guard is None or every(guard.sure)
        among = fiber.guard(op.within) if op.within else guard
        key = op.within or op.guard
        mine = fiber.under.setdefault(key, {}) if among is not None and among.known is not None else {}
        before = {name: fiber.get(name) for name in (*mine, *(() if whole else op.writes))}
        for name, value in mine.items():  # as lanes that take part have it
            fiber.set(name, value)
        loaded = self._touch(op, fiber, guard) if op.kind in TOUCHES else {}
        if fiber.under:
            fiber.rewritten(op)
        for name in op.writes if op.run is None else ():
            fiber.set(name, loaded.get(name) or (None if "P" in name else UNKNOWN))
        if op.run is not None:
            fiber.at, fiber.among = op.address, None if whole or guard is None else guard.possible
            op.run(fiber)
        for name, old in before.items():
            if name not in op.writes:
                fiber.set(name, old)
            elif guard is not None and not whole:
                new = fiber.get(name)
                if guard.known is not None:
                    mine[name] = new
                fiber.set(name, merged(guard, new, old, len(fiber.lanes)))

    def _touch(self, op: Op, fiber: Fiber, guard: Column | None) -> dict[str, Value]:
        """Record an access; what a load of known contents writes."""
        active = TRUE.bits if guard is None else guard.possible
        for get in op.mask:
            if (also := get(fiber)) is not None:
                active = active & also.possible
        if not some(active):
            return {}
        if op.kind == "barrier":
            terms = [get(fiber) for get in op.terms]
            if any(term is None for term in terms):
                return {}
            at = sum((term.bits for term in terms if term), np.array([op.offset], np.int64))
            self.log.append(Event("wait", op.address, fiber.lanes, (Column(at),), active))
            return {}
        if op.kind == "box":
            low, high = (get(fiber) for get in op.map) if op.map else (None, None)
            base = None if low is None or high is None else Column(low.bits | high.bits << 32)
            values: tuple[Value, ...] = (base, *(get(fiber) for get in op.coordinates))
            inner = op.inner(fiber) if op.inner else None
            barrier = op.barrier(fiber) if op.barrier else None
            self.log.append(Event("box", op.address, fiber.lanes, values, active, (inner, barrier)))
            return {}
        at = op.at(fiber)
        inner = op.inner(fiber) if op.inner else None
        if op.kind == "bulk":
            places = inner, op.barrier(fiber) if op.barrier else None
            self.log.append(Event("bulk", op.address, fiber.lanes, (at, op.size(fiber)), active, places))
            return {}
        self.log.append(Event(op.kind, op.address, fiber.lanes, (at,), active, (inner,)))
        if op.kind in self.program.keeps or (op.access == "copy" and "shared" in self.program.keeps):
            return self._kept(op, fiber, at, active, guard)
        if op.kind != "global" or at is None or not op.loads:
            return {}
        if op.deals is not None:
            return {op.loads[0]: self._dealt(op, fiber, at, active, guard)}
        found = self.launch.loaded(at, op.width_bytes)
        if top := op.signed_bits:
            found = [word and Column(word.bits - (word.bits >> top - 1 << top) & WORD, word.known) for word in found]
        return dict(zip(op.loads, found, strict=False))

    def _dealt(self, op: Op, fiber: Fiber, at: Column, active: Array, guard: Column | None) -> Value:
        """What a counter gives that all blocks share, where one thread of each adds to it: it is assumed that they come
        in their order, and that it begins with 0."""
        added, lanes = op.deals(fiber) if op.deals else None, np.flatnonzero(wide(active, len(fiber.lanes)))
        sure = added is not None and surely(added, active) and surely(at, active) and surely(guard, active)
        slot = self.slot[fiber.lanes[lanes]]
        if added is None or not sure or (np.diff(slot) == 0).any():
            return UNKNOWN
        place, count = wide(at.bits, len(fiber.lanes))[lanes], prod(self.launch.grid)
        if (place != place[0]).any():
            return UNKNOWN
        self.assumed.add(op.address)
        before = self._passes[fiber.block, self.warp[fiber.lanes[lanes]]].astype(np.int64) - 1
        bits, known = np.zeros(len(fiber.lanes), np.int64), np.zeros(len(fiber.lanes), bool)
        bits[lanes] = (before * count + self.block_ids[slot]) * wide(added.bits, len(fiber.lanes))[lanes] & WORD
        known[lanes] = True
        return Column(bits, None if known.all() else known)

    def _kept(self, op: Op, fiber: Fiber, at: Value, active: Array, guard: Column | None) -> dict[str, Value]:
        """Words in shared memory, or of the stack, that are known: keep what is stored, or find what a load writes.
        Whatever else writes, or stores anywhere, leaves none."""
        unsure = at is None or not surely(at, active) or not surely(guard, active)
        if op.access != "load" and (unsure or not op.stored):
            self.forget()
        if at is None or unsure or op.kind not in self.kept:
            return {}
        memory, count = self.kept[op.kind], len(fiber.lanes)
        if op.access == "load" and memory.empty:
            return {}
        lanes = np.flatnonzero(wide(active, count))
        owner = fiber.lanes[lanes] if op.kind == "local" else self.slot[fiber.lanes[lanes]]
        place = wide(at.bits, count)[lanes] & WORD
        if op.access == "store":
            for word, get in enumerate(op.stored):
                value = get(fiber)
                if value is None and memory.empty:
                    continue
                full = (value or UNKNOWN).spread(count)
                known = np.ones(count, bool) if full.known is None else full.known
                memory.store(owner, place + 4 * word, full.bits[lanes], known[lanes], min(op.width_bytes, 4))
                if known[lanes].any():
                    self.kept_at = len(self.log)
                    self.fillers.update(self.tid[fiber.lanes[lanes]].tolist() if op.kind == "shared" else ())
            return {}
        out: dict[str, Value] = {}
        for word, name in enumerate(op.loads):
            found, how = memory.loaded(owner, place + 4 * word, min(op.width_bytes, 4))
            if how.any():
                bits, known = np.zeros(count, np.int64), np.zeros(count, bool)
                bits[lanes], known[lanes] = np.where(how > 0, found, 0), how == KNOWN
                same = known.all() and (bits == bits[0]).all()
                out[name] = Column(bits[:1] if same else bits, None if known.all() else known)
        return out

    def forget(self) -> None:
        """What is stored is not known any more."""
        for memory in self.kept.values():
            memory.forget()


class Drawn(Run):
    """The first block of another run, in which words that loads give have bits as if drawn at random where they are not
    known, the same from the same place: addresses differ between lanes as far as the code lets what is loaded choose.
    Such bits keep loops from leaps, so that it gives up when it has done as much as the other one, or has met each of
    some instructions so many times. `wanted`: these, by address."""

    def __init__(self, other: Run, kinds: Collection[str], wanted: Mapping[int, int]) -> None:
        self.enough, self.kinds, self.wanted = len(other.log), kinds, Counter(wanted)
        super().__init__(
            other.program, other.launch, other.block_ids[:1], other.threads, kinds=kinds, warp=other.warp_size
        )

    def _step(self, fiber: Fiber) -> list[Fiber]:
        before, out = len(self.log), super()._step(fiber)
        self.wanted -= Counter(event.where for event in self.log[before:] if event.kind in self.kinds)
        if not self.wanted:
            self.enough = 0
        return out

    def _touch(self, op: Op, fiber: Fiber, guard: Column | None) -> dict[str, Value]:
        out, at = super()._touch(op, fiber, guard), op.at(fiber) if op.access == "load" else None
        for word, name in enumerate(op.loads if at is not None else ()):
            held = out.get(name) or UNKNOWN
            if at is not None and held.known is not None:
                bits = _drawn(at.bits + 4 * word) & (1 << 8 * min(op.width_bytes, 4)) - 1
                out[name] = Column(np.where(held.known, held.bits, bits), held.known)
        return out


def _drawn(places: Array) -> Array:
    """A number for each place: the finalizer of MurmurHash3."""
    bits = places.astype(np.uint64)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        bits = (bits ^ bits >> np.uint64(33)) * np.uint64(factor)
    return (bits >> np.uint64(32)).astype(np.int64)


class Fiber:
    """Lanes at one place of the code, and what their registers hold. `depth`: of calls."""

    def __init__(self, run: Run, lanes: Array, block: int, values: dict[str, Column], depth: int = 0) -> None:
        self.run, self.lanes, self.block, self.values, self.depth = run, lanes, block, values, depth
        self._warps: Array = None
        self.at = 0
        """The address of the instruction that is run."""
        self.among: Array = None
        """The lanes that its guard lets take part; None where all do."""
        self.under: dict[str, dict[str, Value]] = {}
        """By guards that are not sure: what registers hold in lanes that took part in all that has that guard, since
        the block began."""
        self.notes = True
        """Whether what outcomes depend on is recorded, as it is in loops."""

    def get(self, name: str) -> Value:
        return self.values.get(name)

    def set(self, name: str, value: Value) -> None:
        if name[-1] in "ZT":
            return
        if value is None:
            self.values.pop(name, None)
        else:
            self.values[name] = value

    def rewritten(self, op: Op) -> None:
        """Forget what lanes that take part hold, where an instruction writes it, or the guard itself."""
        for guard in [guard for guard in self.under if guard.lstrip("!") in op.writes]:
            del self.under[guard]
        for held in self.under.values():
            for name in op.writes:
                held.pop(name, None)

    def guard(self, name: str) -> Column:
        """A predicate, the opposite where "!" stands before its name."""
        held = self.values.get(name.lstrip("!"))
        if held is None:
            return Column(FALSE.bits, FALSE.bits)
        return Column(~held.bits, held.known) if name[0] == "!" else held

    def constant(self, bank: int, offsets: Column) -> Value:
        return self.run.launch.constant(bank, offsets)

    def special(self, name: str) -> Value:
        return self.run.special(name, self.lanes)

    def note(self, address: int, how: str, *values: Column) -> None:
        if not self.notes or not all(map(told, values)):
            return
        if self.among is not None:
            if not any(each.known is None or (each.known & self.among).any() for each in values):
                return
            values = tuple(
                Column(each.bits, self.among if each.known is None else each.known & self.among) for each in values
            )
        self.run.log.append(Event("note", self.at if address == HERE else address, self.lanes, values, how))

    def takes_columns(self, runs: Value) -> None:
        if runs is not None and runs.known is None:
            self.run.tensor_columns = max(self.run.tensor_columns, 32 * int(runs.bits.max()))

    def lost(self, opcode: str, names: Iterable[str]) -> None:
        self.run.unknown[opcode] += 1
        for name in names:
            self.set(name, None)

    @property
    def warps(self) -> Array:
        if self._warps is None:
            here = self.run.warp[self.lanes]
            self._warps = here[begins(here)]
        return self._warps

    @cached_property
    def _leading(self) -> tuple[Array, Array, Array]:
        """Whether each lane is the first of its warp here, the places of those, and of each lane its warp's turn."""
        warp = self.run.warp[self.lanes]
        first = begins(warp)
        leads = np.zeros(len(warp), bool)
        leads[first] = True
        return leads, first, np.cumsum(leads) - 1

    def leads(self) -> Array:
        """Whether each lane is the first of its warp here."""
        return self._leading[0]

    def leader(self) -> Array:
        """The number of the first lane of each lane's warp."""
        _, first, turn = self._leading
        return self.run.lane_of[self.lanes[first]][turn]

    def ballot(self, holds: Array) -> Array:
        _, first, turn = self._leading
        bits = np.where(wide(holds, len(self.lanes)), 1 << self.run.lane_of[self.lanes], 0)
        return np.add.reduceat(bits, first)[turn]

    def matched(self, values: Array) -> Array:
        """Lanes of each lane's warp that hold the same."""
        keys = self.run.warp[self.lanes] << 32 | wide(values, len(self.lanes))
        _, group = np.unique(keys, return_inverse=True)
        masks = np.bincount(group, weights=1 << self.run.lane_of[self.lanes])
        out: Array = masks[group].astype(np.int64)
        return out

    def shuffled(self, values: Array, lanes: Array) -> Array:
        """What another lane of the warp holds; a lane's own value where that one is not here."""
        warp = self.run.warp[self.lanes] * self.run.warp_size
        wanted = warp + wide(lanes, len(warp)) % self.run.warp_size
        here = warp + self.run.lane_of[self.lanes]
        at = np.minimum(np.searchsorted(here, wanted), len(here) - 1)
        return np.where(here[at] == wanted, values[at], values)

    def gone(self, block: int | None) -> list[Fiber]:
        """This fiber at another block; none where there is no such block."""
        if block is None:
            return []
        self.block = block
        return [self]

    def parted(self, mask: Array, block: int | None) -> list[Fiber]:
        """The lanes of a mask as a fiber of their own."""
        if block is None or not some(mask):
            return []
        if every(mask):
            whole = Fiber(self.run, self.lanes, block, dict(self.values), self.depth)
            whole._warps = self._warps
            return [whole]
        which = np.flatnonzero(wide(mask, len(self.lanes)))
        live: Any = self.run.blocks[block].live
        values = {name: self.values[name].taken(which) for name in live if name in self.values}
        return [Fiber(self.run, self.lanes[which], block, values, self.depth)]


def surely(value: Value, active: Array) -> bool:
    """Whether a value is known in all lanes that take part."""
    return value is None or value.known is None or bool((value.known | ~active).all())


def deeper(fibers: list[Fiber], by: int) -> list[Fiber]:
    """Fibers in a function that is called, or back from it."""
    for fiber in fibers:
        fiber.depth += by
    return fibers
