"""Bank conflicts of shared memory and sectors of atomics in NVIDIA's machine code, from the addresses of lanes.

The integer instructions of a kernel are executed once, in the order of the code, for the 32 lanes of its first warp.
Both sides of a branch start from the same state. Whole numbers among the arguments of a launch are known where they are
given. Another value that is the same in all lanes is taken to be 0, since it moves all addresses alike; where a stride
may be unknown, to be `STRIDE`. Accesses whose addresses depend on loaded
data are assumed to be free of conflicts, and of atomics whose addresses do nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from .code import Instruction
from .rates import width_bytes
from .sass import STACK_SLOT, registers

LANES, BANKS, WORD_BYTES, SECTOR_BYTES, LINE_BYTES = 32, 32, 4, 32, 128
SECTOR_WORDS, AT_ONCE = SECTOR_BYTES // WORD_BYTES, 4  # words of a sector, and what L1 looks up in a clock
SHARED = frozenset({"LDS", "STS", "LDSM", "STSM", "LDGSTS", "ATOMS"})
ATOMIC = frozenset({"ATOM", "ATOMG", "RED", "REDG"})
"""Of global memory."""
SPILLS = frozenset({"STL", "LDL"})
"""Of local memory, where an address may lie in between."""
STORES = frozenset({"STG", "ST"})
"""To global memory."""
BEHIND, FEW_LINES, FURTHER = 2, 8, 0.39
"""A store that comes so many instructions behind another one, and the lines of a warp, so that L1 passes on as one what
both write to a sector; and of the time in which L2 takes a store to a part of a sector, what each further one of its
line adds. Sources: sectors that L2 was written by counters of 40 launches with stores that fill sectors in turn
(`tests/data/h100/languages*.jsonl.gz`), and with other stores between none is merged; 128 MiB by words, four, two and
one sectors of a line at once, 26, 44 and 58 billion lines a second on an H200 (`words_in_a_row.jsonl`), while threads
of kernels with 6 or 8 words in a row take the time of whole sectors (`languages_twelfth.jsonl.gz`)."""
EACH_BYTES = 1 << 40
"""Of the addresses of a warp, to tell those of several apart."""
COPIES = frozenset({"LDGSTS"})
"""From global to shared memory."""
THROUGH_L1 = frozenset({"LDG", "LD"}) | STORES
GLOBAL = THROUGH_L1 | COPIES
"""Through L1, which is the same banks as shared memory."""
BRANCHES = frozenset({"BRA", "EXIT", "JMP"})
Lanes: TypeAlias = Any
"""One integer per lane, as a NumPy array; None if lanes differ in an unknown way."""

SAME = np.zeros(LANES, np.int64)
UNIFORM, STRIDE = "uniform", SAME + 513 * LINE_BYTES
"""Name in the state for unknown values that are the same in all lanes, and one that keeps rows apart."""
SPLIT = re.compile(r",(?![^\[{]*[\]}])")
REGISTER = re.compile(r"^(U?R\d+|P\d)$")
OFFSET = re.compile(r"\+(-?0x[0-9a-f]+)$")
FIRST = re.compile(r"(U?R|P)(\d+)")
BESIDE = re.compile(r"P\d, (R\d+),")
"""A register that is written beside a predicate."""
PREDICATES = tuple(f"P{n}" for n in range(7))
REGISTERS = re.compile(r"\bU?R\d+\b")
SCALED = re.compile(r"^(R\d+)\.X(4|8|16)$")
"""A register in an address, times a width."""
IMMEDIATE = re.compile(r"^(0x[0-9a-f]+|\d+)$")
BASE = re.compile(r"\[([^\]]*)\]")
COMPARE: Mapping[str, Callable[[Lanes, Lanes], Lanes]] = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip


def arguments(offsets: Sequence[int], numbers: Sequence[int | None]) -> dict[str, Lanes]:
    """What constant memory holds of a launch's arguments, at these offsets: those that are whole numbers."""
    known = {at: number for at, number in zip(offsets, numbers, strict=False) if number is not None}
    return {f"c[0x0][{at:#x}]": SAME + number for at, number in known.items()}


def conflicts(
    instructions: Sequence[Instruction], given: Mapping[str, Lanes] = MappingProxyType({})
) -> dict[int, float]:
    """Shared memory accesses whose passes over the banks are not those that their bytes need without conflicts: index
    of the instruction -> their ratio. It is above 1 where lanes meet in a bank, or copy the same word of global memory,
    and 0.5 where pairs of lanes read the same address."""
    reached = _reached(instructions, SHARED)
    found = {i: _passes(instructions[i], _shared(instructions[i]), held) or 1.0 for i, held in reached}
    if any(each.mnemonic in COPIES and "BYPASS" not in each.opcode for each in instructions):  # through L1
        for i, held in _reached(instructions, COPIES, {UNIFORM: STRIDE, **given}):
            found[i] = max(found[i], _turns(instructions[i], held))
    return {i: passes for i, passes in found.items() if passes != 1.0}


def through_l1(
    instructions: Sequence[Instruction], given: Mapping[str, Lanes] = MappingProxyType({})
) -> tuple[dict[int, float], frozenset[int]]:
    """The same for accesses of global memory, and those of whose addresses nothing is known. `given`: `arguments`.

    L1 is the same banks: on an H100, loads of 4 bytes take 1, 2 and 4 clocks of an SM where neighbouring lanes lie 4, 8
    and 16 bytes apart, and 8 where eight rows of 64 bytes begin at the same bank (`taps` and `stencil_box` in
    `edges.jsonl.gz`, tests/data/h100).
    """
    reached = _reached(instructions, GLOBAL, {UNIFORM: STRIDE, **given})
    passes = {i: _passes(instructions[i], _global(instructions[i]), held) for i, held in reached}
    return {i: n for i, n in passes.items() if n and n > 1.0}, frozenset(i for i, n in passes.items() if n is None)


def atomic_sectors(
    instructions: Sequence[Instruction], given: Mapping[str, Lanes] = MappingProxyType({})
) -> dict[int, int]:
    """Sectors of global memory that the lanes of a warp touch, by the index of the atomic; one counts as often as lanes
    meet on a word of it. None where lanes differ in an unknown way, or seem not to: a single thread's atomic looks like
    that, and so do indices under a mask that is an argument."""
    if not any(each.mnemonic in ATOMIC for each in instructions):
        return {}
    return {i: sectors_of(instructions[i], address) for i, address in _differing(instructions, ATOMIC, given)}


def partial_lines(
    instructions: Sequence[Instruction], given: Mapping[str, Lanes] = MappingProxyType({})
) -> dict[int, float]:
    """What `in_part` says of stores, by index, none joined, as halves of pairs are not (`turn_pairs` in `zoo_23rd`)."""
    stores = _differing(instructions, STORES, {UNIFORM: STRIDE, **given})
    return {i: n for i, at in stores if (n := in_part(at, width_bytes(instructions[i].opcode), joined=0))}


def _differing(
    instructions: Sequence[Instruction], kinds: frozenset[str], known: Mapping[str, Lanes]
) -> Iterator[tuple[int, Lanes]]:
    """Accesses of global memory whose lanes differ in a known way, and the addresses of these."""
    for i, held in _reached(instructions, kinds, known):
        address = _address(instructions[i], _global(instructions[i]), held)
        if address is not None and not _same(address):
            yield i, address


def in_part(address: Lanes, width: int, warp: Lanes = SAME[:1], joined: int = FEW_LINES) -> float:
    """Lines with sectors that lanes of a warp fill in part, if more than are `joined`, and FURTHER ones if any are."""
    words = np.unique(warp * EACH_BYTES + address % EACH_BYTES)
    sectors, times = np.unique(words // SECTOR_BYTES, return_counts=True)
    lines, warp_lines = sectors * SECTOR_BYTES // LINE_BYTES, EACH_BYTES // LINE_BYTES
    found, many = np.unique(lines[times * width < SECTOR_BYTES], return_counts=True)
    apart = np.bincount(np.unique(lines) // warp_lines) > joined
    return float((1.0 + (FURTHER if joined else 0.0) * (many - 1.0))[apart[found // warp_lines]].sum())


def behind(instructions: Sequence[Instruction], indices: Sequence[int]) -> int:
    """How many of the stores to global memory at some indices come right behind another one to the same sectors, as far
    as their addresses say: by the same registers, and apart by less than a sector."""
    stores = [(i, _global(instructions[i])) for i in indices if instructions[i].mnemonic in STORES]
    found = [(i, OFFSET.sub("", place), OFFSET.search(place)) for i, place in stores]
    each = [(i, base, int(offset[1], 16) if offset else 0) for i, base, offset in found]
    return sum(
        j - i <= BEHIND and base == last and abs(at - before) < SECTOR_BYTES
        for (i, last, before), (j, base, at) in pairwise(each)
    )


def sectors_of(each: Instruction, address: Lanes) -> int:
    """Sectors that an atomic touches at the addresses of a warp's lanes; one counts as often as lanes meet on a word of
    it."""
    words = address[:, None] // WORD_BYTES + np.arange(max(width_bytes(each.opcode) // WORD_BYTES, 1))
    places, lanes = np.unique(words, return_counts=True)
    first = np.unique(places * WORD_BYTES // SECTOR_BYTES, return_index=True)[1]
    return int(np.maximum.reduceat(lanes, first).sum())


def _reached(
    instructions: Sequence[Instruction], kinds: frozenset[str], known: Mapping[str, Lanes] = MappingProxyType({})
) -> Iterator[tuple[int, dict[str, Lanes]]]:
    """Indices of the accesses of these kinds, and what the registers of their addresses hold there."""
    held = dict(known)
    elsewhere: dict[int, dict[str, Lanes]] = {}
    """Register contents at the targets of forward branches, by address."""
    for i in _addressing(instructions, kinds):
        each = instructions[i]
        if each.mnemonic in BRANCHES:
            if each.target is not None and each.target > each.address:
                elsewhere.setdefault(each.target, dict(held))
            if not _conditional(each) and i + 1 < len(instructions):  # another branch reaches the next instruction
                held = dict(elsewhere.get(instructions[i + 1].address, held))
        elif each.mnemonic in kinds:
            yield i, held
            if each.mnemonic in ("LDG", "LD"):
                _run(each, held)
        else:
            _run(each, held)


def _addressing(instructions: Sequence[Instruction], kinds: frozenset[str]) -> list[int]:
    """Indices of the accesses of these kinds, of the instructions that compute their addresses, and of the branches."""
    needed: set[str] = set()
    """Registers that the code after the current instruction reads."""
    there: dict[int, set[str]] = {}
    """The same at each branch target, by address."""
    found = []
    kind_of = [each.mnemonic for each in instructions]
    targets = {each.target for each, kind in zip(instructions, kind_of, strict=True) if kind in BRANCHES}
    for i in reversed(range(len(instructions))):
        each, kind = instructions[i], kind_of[i]
        if i + 1 < len(instructions) and (after := instructions[i + 1].address) in targets:
            there[after] = set(needed)
        if kind in BRANCHES:
            found.append(i)
            ends = not _conditional(each) and (each.target is None or each.target > each.address)
            needed = (set() if ends else needed) | there.get(each.target or 0, set())
            continue
        if kind in SPILLS and (spilled := _spilled(each)):
            sides = [set(spilled), set(spilled.values())]
            wanted, given = sides if kind == "STL" else sides[::-1]
            if not needed.isdisjoint(wanted):
                found.append(i)
                needed = (needed if each.predicate else needed - wanted) | given
            continue
        if kind in kinds:
            found.append(i)
            places = {SHARED: [_shared], COPIES: [_shared, _global]}.get(kinds, [_global])
            needed.update(name for place in places for name in REGISTERS.findall(place(each)))
        if not _may_write(each, needed):
            continue
        reads, writes = registers(each.opcode, each.operands)
        if kind == "R2P":
            writes = PREDICATES
        if needed.isdisjoint(writes):
            continue
        if not each.predicate:
            needed.difference_update(writes)
        if kind not in kinds:
            found.append(i)
            needed.update(name for name in (*reads, each.predicate.lstrip("!")) if REGISTER.match(name))
    return found[::-1]


def _spilled(each: Instruction) -> dict[str, str]:
    """The register of each place on the stack that an access of local memory stores or loads; none of an array's."""
    place, first = STACK_SLOT.search(each.operands), re.search(r"\bR(\d+)\b(?![^\[]*\])", each.operands)
    if not place or not first:
        return {}
    start, words = int(place[1] or "0", 16), max(width_bytes(each.opcode) // WORD_BYTES, 1)
    return {f"stack {start + n * WORD_BYTES}": f"R{int(first[1]) + n}" for n in range(words)}


def _conditional(branch: Instruction) -> bool:
    """Whether it may fall through. A predicate of the whole warp is an operand, before the target."""
    return bool(branch.predicate) or "," in branch.operands


def _may_write(each: Instruction, needed: set[str]) -> bool:
    """A quick test: an instruction writes at most four registers, counted from the first that it names."""
    named = FIRST.match(each.operands)
    if beside := BESIDE.match(each.operands):
        return beside[1] in needed or not needed.isdisjoint(PREDICATES)
    if named is None or named[1] == "P":
        return (named is not None or each.mnemonic == "R2P") and not needed.isdisjoint(PREDICATES)
    first = int(named[2])
    return any(f"{named[1]}{first + n}" in needed for n in range(4))


def _place(each: Instruction, which: int) -> str:
    """The sum that is an access's address: in shared memory the first, in global memory behind a descriptor."""
    return str((BASE.findall(each.operands) or [""])[which])


_shared, _global = partial(_place, which=0), partial(_place, which=-1)


def _address(each: Instruction, place: str, held: Mapping[str, Lanes]) -> Lanes:
    """That of each lane, as far as lanes differ; None where they do in an unknown way."""
    address = SAME
    for part in re.split(r"\+(?=[^+])", place):
        value = _operand(part.removesuffix(".64"), held)
        if value is None:
            return None
        address = address + value
    return address


def _passes(each: Instruction, place: str, held: Mapping[str, Lanes]) -> float | None:
    """Passes of an access over the banks of shared memory and L1, over those that its bytes need without conflicts;
    None if the sum of registers that it is at is not known."""
    address = _address(each, place, held)
    if address is None or not place:
        return None
    return mean_passes(each, np.zeros(LANES, np.int64), np.arange(LANES), address)


def mean_passes(each: Instruction, warp: Lanes, lane: Lanes, address: Lanes, warps: int = 1) -> float:
    """The same in the mean of so many warps, of which only some lanes may take part. `warp`, `lane`, `address`: of each
    lane that does, in the order of warps. A warp of which none does takes one pass.

    A row of 128 bytes that begins inside a sector has five of them, and L1 gives four a clock: on an H100 filters of
    7 x 7 (`live_tuners.json`) and of 27 taps (`edges.jsonl.gz` in tests/data/h100) take 1.2 to 1.3 clocks for such
    loads. Those of a line go together: words 12 bytes apart, of vectors of three (`warp_blurred` in
    `languages_ninth.jsonl.gz`, tests/data/h200), take 1.4. Lanes that meet in banks cover that, but not the look-up of
    lines, as many a clock: on an H200 every 32nd word takes 32 clocks, every 33rd and every 36th, of which four meet in
    a bank, 8.
    """
    width = width_bytes(each.opcode)
    if each.mnemonic in ("LDSM", "STSM"):  # each lane gives the address of one 16-byte row of an 8x8 matrix
        rows = lane < 8 * max(width // 4, 1)
        warp, lane, address, width = warp[rows], lane[rows], address[rows], 16
        least = max(int(lane.max(initial=0)) // 8 + 1, 1)
    else:
        least = LANES // min(LANES, LINE_BYTES // max(width, WORD_BYTES))
    if not len(lane):
        return 1.0 / least
    together = np.full(len(lane), min(LANES, LINE_BYTES // max(width, WORD_BYTES)))
    if each.mnemonic == "LDS" and width > WORD_BYTES and len(lane) == LANES * warps:
        together *= np.repeat(1 + _paired(address.reshape(-1, LANES)), LANES)
    words, many = address // WORD_BYTES, max(width // WORD_BYTES, 1)
    low = int(words.min()) // BANKS * BANKS  # whole rows of banks, also where places are told from a negative one on
    reach = -(-(int(words.max()) + many - low) // BANKS) * BANKS
    group = warp * LANES + lane // together
    distinct = np.unique((group * reach + words - low)[:, None] + np.arange(many))
    met, count = np.unique(distinct // reach * BANKS + distinct % BANKS, return_counts=True)
    first = np.flatnonzero(np.diff(met // BANKS, prepend=-1))
    passes = np.maximum.reduceat(count, first).astype(float)
    if each.mnemonic in THROUGH_L1:
        sectors, lines = (np.unique(np.unique(distinct // n) // (reach // n), return_counts=True)[1] / AT_ONCE
                          for n in (SECTOR_WORDS, BANKS))  # fmt: skip
        looked_up = np.where(passes > 1.0, lines, np.minimum(sectors, 1.0 + lines - 1.0 / AT_ONCE))
        passes = np.maximum(passes, looked_up)
    return float(passes.sum() + warps - len(np.unique(warp))) / (least * warps)


def _turns(each: Instruction, held: Mapping[str, Lanes]) -> float:
    """Of a copy through L1, passes over those without lanes that want the same word for different places: they take
    turns, in each line for itself. Of 8 bytes half a warp goes together. Source: `tests/data/h100/copies.txt`."""
    source, place = (_address(each, where, held) for where in (_global(each), _shared(each)))
    return 1.0 if source is None or place is None else turns_of(each, source, place)


def turns_of(each: Instruction, source: Lanes, place: Lanes) -> float:
    """The same, of the addresses of lanes in global and in shared memory."""
    if "BYPASS" in each.opcode:
        return 1.0
    width = width_bytes(each.opcode)
    together = min(LANES, LINE_BYTES // max(width, WORD_BYTES))
    turns = 0
    for lanes in np.stack([source // width, place], axis=1).reshape(-1, together, 2):
        words, wanted = np.unique(np.unique(lanes, axis=0)[:, 0], return_counts=True)
        first = np.unique(words * width // LINE_BYTES, return_index=True)[1]
        turns += int((np.maximum.reduceat(wanted, first) - 1).sum())
    return 1.0 + turns * together / LANES


def _paired(address: Lanes) -> Lanes:
    """By row: whether lanes i and i^1 all read the same address, or lanes i and i^2. A wide load then returns the data
    of twice as many lanes in a pass. Source: NVIDIA's answer on its developer forum for compute capability 7
    (forums.developer.nvidia.com/t/77228); float32 products on an H200 (`tests/data/h200/triton_matmul.csv`) agree."""
    lanes = np.arange(LANES)
    return np.logical_or.reduce([(address == address[:, lanes ^ apart]).all(axis=1) for apart in (1, 2)])


def _run(each: Instruction, held: dict[str, Lanes]) -> None:
    """Execute one instruction: update `held` with the registers that it writes."""
    kind = each.mnemonic
    if kind == "R2P":  # bits of a register into predicates
        parts = [part.strip() for part in SPLIT.split(each.operands)]
        source, mask = _operand(parts[1], held), int(parts[2], 0) if len(parts) > 2 else 0x7F
        held.update({f"P{n}": None if source is None else source >> n & 1 for n in range(7) if mask >> n & 1})
        return
    if kind in SPILLS and (spilled := _spilled(each)):
        for slot, register in spilled.items():
            if kind == "STL":
                held[slot] = held.get(register, SAME)
            else:
                held[register] = held.get(slot)
        return
    _, writes = registers(each.opcode, each.operands)
    if writes and writes[0].startswith("UR"):
        return _run_uniform(each, writes, held)
    if not writes or writes[0].startswith("U"):
        return
    parts = [part.strip() for part in SPLIT.split(each.operands)]
    if kind in CARRYING and ".X" not in each.opcode:  # low words: that they carry does not change them
        parts = [parts[0], *(part for part in parts[1:] if not PREDICATE.match(part))]
    given = [_operand(part, held) for part in parts]
    truth = parts[0] if kind == "LOP3" and PREDICATE.match(parts[0]) else ""
    if truth:  # whether the number that it gives, or only that, is not 0
        parts, given = parts[1:], given[1:]
    if kind in ("S2R", "CS2R"):
        value = np.arange(LANES) if parts[-1] in ("SR_TID.X", "SR_LANEID") else SAME
    elif kind == "LDC" and not REGISTERS.search(parts[-1]):
        held.update((name, _operand(_word(parts[-1], n), held)) for n, name in enumerate(writes))
        return
    elif kind.startswith("LD") or kind in ("SHFL", "ATOM", "ATOMG", "ATOMS", "MATCH", "VOTE"):
        value = None
    else:
        if each.opcode.startswith("IMAD.HI"):  # of a pair of registers the high one takes part
            given[3] = _operand(_next(parts[3]), held)
        lost = any(v is None for v in given[1:4]) or (kind in BOUNDS and UNIFORM not in held)  # of atomics
        value = None if lost else _integer(each, parts, given)
        guard = _operand(each.predicate, held) if each.predicate else SAME
        if value is None and all(v is not None and _same(v) for v in (guard, *given[1:])):
            value = held.get(UNIFORM, SAME)
    if each.predicate and UNIFORM in held:  # where what is the same in all lanes has a value, so do conditions
        value = _guarded(_operand(each.predicate, held), value, held.get(parts[0] if truth else writes[0], SAME))
    if truth:
        held.update(dict.fromkeys(writes[-1:] if REGISTER.match(parts[0]) else (), value))
        held[truth] = value if value is None else (value != 0).astype(np.int64)
        return
    rest = SAME if value is not None and _same(value) else None
    held.update(dict.fromkeys(writes[1:], rest))
    if kind == "ISETP" and PREDICATE.match(parts[0]):
        held[parts[0]] = value
        return
    held[writes[0]] = value


def _run_uniform(each: Instruction, writes: Sequence[str], held: dict[str, Lanes]) -> None:
    """The same for the registers that a warp has once: of what is computed from known numbers alone."""
    for name in writes:
        held.pop(name, None)
    parts = [part.strip() for part in SPLIT.split(each.operands)]
    if each.mnemonic == "S2UR":
        held[writes[0]] = SAME
        return
    if each.mnemonic in CARRYING_ONCE and ".X" not in each.opcode:
        parts = [parts[0], *(part for part in parts[1:] if not part.startswith("UP"))]
    lost = (part.lstrip("-~!") not in held for part in parts[1:] if LOOKED_UP.match(part))
    if each.predicate or any(lost):
        return
    given = [_operand(part, held) for part in parts]
    if each.mnemonic in ("ULDC", "LDCU"):
        words = {name: held.get(_word(parts[1], n)) for n, name in enumerate(writes)}
        held.update({name: word for name, word in words.items() if word is not None})
        return
    if each.mnemonic == "R2UR":
        value = given[1]
    else:
        value = _integer(each._replace(opcode=each.opcode.removeprefix("U")), parts, given)
    if value is not None and _same(value):
        held[writes[0]] = value


def _word(place: str, n: int) -> str:
    """The n-th word of constant memory from a place on, of which an instruction may load several."""
    bank, _, offset = place.rpartition("[")
    at = offset.rstrip("]")
    return f"{bank}[{int(at, 0) + n * WORD_BYTES:#x}]" if n and IMMEDIATE.match(at) else place


def _guarded(guard: Lanes, value: Lanes, before: Lanes) -> Lanes:
    """What a register holds after an instruction that only some lanes execute; None if it is not known which."""
    if guard is None:
        return None
    if value is None or before is None:
        return value if guard.all() else None if guard.any() else before
    return np.where(guard != 0, value, before)


BOUNDS = ("IMNMX", "VIMNMX", "VIADDMNMX")
PREDICATE = re.compile(r"^P\d$")
LOOKED_UP = re.compile(r"^[-~!]?(UR\d|R\d|c\[)")
CARRYING, CARRYING_ONCE = ("IADD3", "LEA"), ("UIADD3", "ULEA")
"""Their second operand may be the predicate that takes the carry of an address's low word."""


def _same(value: Lanes) -> bool:
    return bool((value == value[0]).all())


def _operand(text: str, held: Mapping[str, Lanes]) -> Lanes:
    """Value of a register, predicate or immediate; 0 for an unknown value that is the same in all lanes."""
    word = text.strip().removesuffix(".reuse")
    sign, word = word[:1] if word[:1] in "-~!" else "", word.lstrip("-~!")
    if word.startswith(("c[", "UR")) and word != "URZ":
        value = held.get(word, held.get(UNIFORM, SAME))
    elif REGISTER.match(word):
        value = held.get(word, SAME)
    elif IMMEDIATE.match(word):
        value = np.full(LANES, int(word, 0), np.int64)
    elif scaled := SCALED.match(word):
        value = held.get(scaled[1], SAME)
        value = None if value is None else value * int(scaled[2])
    elif word.startswith("R") and word[1:2].isdigit():  # half of a register, or one of another width
        value = held.get(word.partition(".")[0], SAME)
        value = value if value is not None and _same(value) else None
    elif UNIFORM in held and word.startswith("UP") and word != "UPT":  # a condition that is not known
        return None
    else:  # RZ, PT, barriers
        value = SAME if word not in ("PT", "UPT") else SAME + 1
    if value is None or not sign:
        return value
    return -value if sign == "-" else ~value if sign == "~" else 1 - (value != 0)


def _integer(each: Instruction, parts: Sequence[str], given: Sequence[Lanes]) -> Lanes:
    """Result of an integer instruction that addresses are computed with; None for any other instruction."""
    opcode = each.opcode
    a, b, c = (*given[1:4], *[SAME] * 3)[:3]
    value: Lanes = None
    match each.mnemonic:
        case "MOV" | "R2UR":
            value = a
        case "VIADD":
            value = a + b
        case kind if kind in BOUNDS:
            value = _inside(a + b, c) if "ADD" in kind else _inside(a, b)
        case "IABS":
            value = np.abs(a)
        case "HFMA2" if parts[1].lstrip("-") == parts[2].lstrip("-") == "RZ" and len(parts) == 5:
            value = _halves(parts[3], parts[4])
        case "I2F" | "MUFU" | "F2I":
            value = _reciprocal(opcode, a)
        case "IADD3" if ".X" not in opcode and len(parts) >= 4 and not PREDICATE.match(parts[1]):
            value = a + b + c
        case "IMAD":
            if ".MOV" in opcode:
                value = c
            elif opcode == "IMAD.HI.U32":
                high = (a & 0xFFFFFFFF).astype(np.uint64) * (b & 0xFFFFFFFF).astype(np.uint64) >> np.uint64(32)
                value = high.astype(np.int64) + c
            elif ".SHL" in opcode or ".IADD" in opcode or opcode in ("IMAD", "IMAD.U32", "IMAD.WIDE", "IMAD.WIDE.U32"):
                value = a * b + c
        case "LEA" if not PREDICATE.match(parts[1]):
            shift = next((int(part, 0) for part in reversed(parts) if IMMEDIATE.match(part)), 0)
            if opcode == "LEA":
                value = (a << shift) + b
            elif opcode == "LEA.HI":
                value = ((a & 0xFFFFFFFF) >> (32 - shift)) + b
        case "SHF":
            shift = int(b[0]) & 31
            if opcode.startswith("SHF.L"):
                value = a << shift
            elif opcode.endswith(".HI") and parts[1] in ("RZ", "URZ"):
                value = (c & 0xFFFFFFFF if "U32" in opcode else c) >> shift
            elif opcode.startswith("SHF.R") and parts[3] in ("RZ", "URZ"):
                value = (a & 0xFFFFFFFF) >> shift
        case "SGXT":
            bits = int(b[0])
            value = a & ((1 << bits) - 1)
            if ".U32" not in opcode:
                value = value - ((value >> (bits - 1) & 1) << bits)
        case "PRMT" if opcode == "PRMT":
            value = _permuted(a, b, c)
        case "SEL":
            value = np.where(given[3] != 0, a, b) if len(given) > 3 and given[3] is not None else None
        case "LOP3":
            value = _logic(given[1], given[2], given[3], int(parts[4], 0))
        case "ISETP":
            compare = COMPARE.get(opcode.split(".")[1])
            if compare and len(given) >= 4 and given[2] is not None and given[3] is not None:
                value = compare(given[2], given[3]).astype(np.int64)
    return value if value is None else (value + 2**31) % 2**32 - 2**31


def _inside(a: Lanes, b: Lanes) -> Lanes:
    """A bound of what lanes differ in, as an image's edge is, away from which all of them are."""
    return b if a is not None and _same(a) else a if b is not None and _same(b) else None


def _halves(high: str, low: str) -> Lanes:
    """The integer that a compiler writes as two constants of float16, added to 0 times 0."""
    try:
        bits = np.array([float(low), float(high)], np.float16).view(np.uint16).astype(np.int64)
    except ValueError:  # a register or a bank of constants
        return None
    return SAME + (bits[1] << 16 | bits[0])


def _reciprocal(opcode: str, a: Lanes) -> Lanes:
    """The steps by which compilers divide integers, through a float's bits; None for others."""
    if opcode == "I2F.RP":
        value = a.astype(np.float32)
        value = np.where(value.astype(np.int64) < a, np.nextafter(value, np.float32(np.inf)), value)
    elif opcode == "MUFU.RCP":
        with np.errstate(divide="ignore", over="ignore"):
            value = np.float32(1) / a.astype(np.int32).view(np.float32)
    elif opcode.startswith("F2I") and ".TRUNC" in opcode and ".U32" in opcode:
        value = np.nan_to_num(a.astype(np.int32).view(np.float32).astype(np.float64))
        return np.clip(value, 0, 2**32 - 1).astype(np.int64)
    else:
        return None
    return value.astype(np.float32).view(np.int32).astype(np.int64)


def _next(register: str) -> str:
    """The one after a register, of which two are a pair."""
    found = re.match(r"^R(\d+)", register)
    return f"R{int(found[1]) + 1}" if found else register


def _permuted(a: Lanes, selector: Lanes, c: Lanes) -> Lanes:
    """Bytes of two words, as the selector's four digits name them; one above 7 is of a byte's sign. Source: `prmt` in
    NVIDIA's PTX ISA."""
    both, value = a & 0xFFFFFFFF | c << 32, np.zeros(LANES, np.int64)
    for n in range(4):
        digit = selector >> 4 * n & 0xF
        byte = both >> 8 * (digit & 7) & 0xFF
        value |= np.where(digit & 8, (byte >> 7) * 0xFF, byte) << 8 * n
    return value


def _logic(a: Lanes, b: Lanes, c: Lanes, table: int) -> Lanes:
    value = np.zeros(LANES, np.int64)
    for n in range(8):
        if table >> n & 1:
            value |= (a if n & 4 else ~a) & (b if n & 2 else ~b) & (c if n & 1 else ~c)
    return value
