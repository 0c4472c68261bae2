"""The time of a single warp: its instructions issued in order, and which wait waits for which load.

The machine code says when each instruction may issue. On NVIDIA: stall counts, scoreboards that loads release and later
instructions wait for, and counted groups of asynchronous copies and of matrix instructions. On AMD: counters that
`s_waitcnt` and its successors wait for, and `s_nop`. The simulation below obeys these. What the code does not state
(the clocks until a load returns, the FLOPs per clock of tensor cores) comes from the rates table, the device, and the
caller.

A loop is simulated until an iteration takes as long as the one before, or until a few repeat in a pattern. Its waits
then tell how many iterations before its use a load was issued: the prefetch distance is read from the code.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from . import rates
from .code import Code, Loop
from .rates import NEVER, Matrix, Table

MEMORY = ("global", "copy", "bulk", "atomic")
"""Latencies of memory outside the SM. They depend on where the data are and on other traffic. "copy" is an asynchronous
copy."""
ARITHMETIC = ("valu", "trans", "multiply", "double")
"""Short latencies that AMD's code states as dependences (`s_delay_alu`), not as waits."""
MOST_ITERATIONS = 48


class Wait(NamedTuple):
    """One wait in one iteration, whether or not the warp stalls there.

    kind: name of the latency of what it waits for
    distance: iterations between the issue of the youngest of that and the wait; 0 within one iteration
    """

    kind: str
    distance: int


@dataclass(frozen=True, slots=True)
class Chain:
    """A single warp in the steady state of a loop, or in one run through straight code.

    clk: clocks per iteration; waits: those of one iteration, in the order of the code
    """

    clk: float
    waits: tuple[Wait, ...]

    @property
    def exposed_loads(self) -> int:
        """Number of waits for global loads to registers that the same iteration issued."""
        return sum(wait.kind == "global" and wait.distance == 0 for wait in self.waits)

    @property
    def prefetch_distance(self) -> int | None:
        """Least number of iterations between the issue of a load and its use. Counts copies to shared memory, and loads
        to registers that an earlier iteration issued; None if there are none."""
        ahead = (w.distance for w in self.waits if w.kind in ("copy", "bulk") or (w.kind == "global" and w.distance))
        return min(ahead, default=None)

    @property
    def serial_matrix_waits(self) -> int:
        """Number of waits for matrix instructions of the same iteration; during them a single warp group leaves the
        tensor cores idle."""
        return sum(wait.kind == "matrix" and wait.distance == 0 for wait in self.waits)


class Op(NamedTuple):
    """One instruction as the simulation sees it.

    issue_clk: clocks until the next instruction may issue
    busy: pipes that it occupies, each with the clocks
    waits: sets of queues, each with the number of operations that may stay outstanding
    signals: queues that it enters, each with the name of the latency after which it leaves
    closes: an open group, and the queue that the group enters as a whole
    beside_clk: clocks of the matrix units that run asynchronously to the warp
    """

    issue_clk: float
    busy: tuple[tuple[str, float], ...] = ()
    waits: tuple[tuple[tuple[str, ...], int], ...] = ()
    signals: tuple[tuple[str, str], ...] = ()
    closes: tuple[str, str] | None = None
    beside_clk: float = 0.0
    barrier: bool = False


class Pending(NamedTuple):
    order: int
    done: float
    iteration: int
    kind: str


def chains(
    ops: Sequence[Op], repeats: bool, latency_clk: Mapping[str, float], memory_clk: Sequence[float],
    beyond: Sequence[str] = MEMORY,
) -> list[Chain]:  # fmt: skip
    """`chain` for each of several latencies of memory outside the SM; `beyond` names those that they replace."""
    if not any(kind in beyond for op in ops for _, kind in op.signals):
        return [chain(ops, repeats, latency_clk)] * len(memory_clk)
    return [chain(ops, repeats, {**latency_clk, **dict.fromkeys(beyond, clk)}) for clk in memory_clk]


def _in_order(loop: Loop) -> list[int]:
    """Indices of a loop's own instructions, starting at its header."""
    return [i for i in loop.own if i >= loop.header] + [i for i in loop.own if i < loop.header]


def ops(code: Code, where: Loop | Sequence[int], table: Table, flops_per_clk: Mapping[Matrix, float]) -> list[Op]:
    """What `chain` simulates of a loop's own instructions, or of those at some indices. `flops_per_clk`: rate of one SM
    by kind of matrix instruction; a kind that is missing takes no time."""
    if code.isa.startswith("gfx"):
        indices = _in_order(where) if isinstance(where, Loop) else where
        return [_amd(code, i, table, flops_per_clk) for i in indices]
    if not isinstance(where, Loop):
        return [_nvidia(code, i, table, flops_per_clk, None) for i in where]
    barriers, copies = _memory_waits(code, _in_order(where), table, where.header), _copies(code, where, table)
    return [
        Op(0.0, signals=(("copies", "copy"),)) if i in copies
        else _nvidia(code, i, table, flops_per_clk, barriers.get(i))
        for i in _in_order(replace(where, own=tuple(sorted((*where.own, *copies)))))
    ]  # fmt: skip


def _copies(code: Code, loop: Loop, table: Table) -> set[int]:
    """Copies that the loops inside one start, for which it waits itself; none where one of these loops has none."""
    inside = [{i for i in each.body if table.group(code.instructions[i].opcode).access == ("copy", "global")}
              for each in loop.loops]  # fmt: skip
    return {i for copies in inside for i in copies} if all(inside) else set()


def _busy(code: Code, i: int, table: Table) -> tuple[tuple[str, float], ...]:
    """Pipes that a single warp occupies, with the clocks."""
    opcode, passes = code.instructions[i].opcode, code.conflicts.get(i, 1.0)
    busy, group = table.alone(opcode, code.warp_size), table.group(opcode)
    if passes == 1.0:
        return busy
    port = dict(rates.pipe_clk(group, opcode, code.warp_size))  # conflicts are of banks, not of its lanes
    return tuple((pipe, max(clk, port[pipe] * passes) if pipe in group.port else clk) for pipe, clk in busy)


def _nvidia(
    code: Code, i: int, table: Table, flops_per_clk: Mapping[Matrix, float], waits_for: tuple[str, int] | None
) -> Op:
    each = code.instructions[i]
    control = each.control
    assert control is not None  # readers of SASS always set it
    stall = float(max(1, control.stall_clk))
    group = table.group(each.opcode)
    waits: list[tuple[tuple[str, ...], int]] = [((f"sb{n}",), 0) for n in range(6) if control.wait_mask >> n & 1]
    if each.predicate in NEVER:
        return Op(stall, waits=tuple(waits))
    if each.opcode.startswith("MEMBAR") and not each.opcode.endswith(".CTA"):  # its warp goes on after a round trip
        return Op(stall, waits=tuple(waits), signals=(("fence", "atomic"),))
    if each.mnemonic == "ERRBAR":  # follows each such
        waits.append((("fence",), 0))
    busy = _busy(code, i, table)
    signals = []
    closes, beside_clk = None, 0.0
    if control.read_barrier is not None:
        signals.append((f"sb{control.read_barrier}", "register"))
    if control.write_barrier is not None and group.role != "commit":
        signals.append((f"sb{control.write_barrier}", group.latency or "register"))
    match group.role:
        case "group wait" | "matrix wait":
            waits.append(_limit(each.operands))
        case "commit" if control.write_barrier is not None:
            closes = ("copies", f"sb{control.write_barrier}")
        case "matrix" if found := rates.sass_matrix(each.opcode):
            if rate := flops_per_clk.get(found[0]):
                busy = ((table.matrix_pipe, found[1] * table.schedulers / rate),)
        case "warpgroup matrix" if found := rates.sass_matrix(each.opcode):
            if rate := flops_per_clk.get(found[0]):
                beside_clk = found[1] * table.schedulers / rate
            signals.append(("products", "matrix"))
            if commit := re.search(r"\bgsb\d", each.operands):
                closes = ("products", commit[0])
        case "block matrix" if found := rates.block_of(each.opcode, each.descriptor, each.operands):
            if rate := flops_per_clk.get(found[0]):
                beside_clk = found[1] / rate
            signals.append(("products", "matrix"))
        case "matrix commit":
            closes = ("products", "commits")
        case "memory wait" if waits_for:
            waits.append(((waits_for[0],), waits_for[1]))
        case "bulk" if group.access == ("bulk", "load"):
            signals.append(("bulk", "bulk"))
    if group.access == ("copy", "global"):
        signals.append(("copies", "copy"))
    return Op(stall, busy, tuple(waits), tuple(signals), closes, beside_clk, group.role == "barrier")


def _limit(operands: str) -> tuple[tuple[str, ...], int]:
    """Queues that operands such as "SB0, 0x2" name, and how many of their groups may stay outstanding."""
    found = re.match(r"(?:(g?)sb(\d)|\{([\d,]+)\})(?:, *(0x[0-9a-f]+))?", operands, re.IGNORECASE)
    if not found:
        return (), 0
    names = [found[2]] if found[2] else found[3].split(",")
    return tuple(f"{(found[1] or '').lower()}sb{name}" for name in names), int(found[4] or "0", 16)


def _memory_waits(code: Code, indices: Sequence[int], table: Table, header: int) -> dict[int, tuple[str, int]]:
    """Waits of a loop for barriers in shared memory (mbarrier): index -> queue, and how many of its operations may stay
    outstanding.

    A wait is for bulk copies if some barrier at the same offset expects bytes; else it is for matrix instructions that
    were committed to a barrier. Each wait takes the oldest operation. Operations that the code before the loop issued
    and did not wait for are outstanding when the loop begins. Waits for another partition of warps are left out.
    """
    inside = {i for loop in code.all_loops() if header not in loop.body for i in loop.own}
    before = [i for i in range(header) if i not in inside]
    filled = {_offset(each.operands) for each in code.instructions if each.opcode == "SYNCS.ARRIVE.TRANS64"}
    found: dict[int, tuple[str, int]] = {}

    def events(those: Sequence[int], queue: str) -> list[int]:
        """Indices of the instructions that enter a queue, and, as ~index, of those that wait for it."""
        marks = []
        for i in those:
            each = code.instructions[i]
            group = table.group(each.opcode)
            if group.role == "memory wait" and (_offset(each.operands) in filled) == (queue == "bulk"):
                marks.append(~i)
            elif (queue == "bulk" and group.access == ("bulk", "load")) or (
                queue == "commits" and group.role == "matrix commit"
            ):
                marks.append(i)
        return marks

    for queue in ("bulk", "commits"):
        step, earlier = events(indices, queue), events(before, queue)
        grown = sum(mark >= 0 for mark in step)
        if not grown or grown == len(step):
            continue
        share = grown / (len(step) - grown)
        held = sum(1 if mark >= 0 else -share for mark in earlier)
        for mark in step:
            held += 1 if mark >= 0 else -share
            if mark < 0:
                found[~mark] = (queue, max(0, round(held)))
    return found


def _offset(operands: str) -> str:
    """Constant part of the address of a barrier."""
    found = re.search(r"\[[^\]]*?(\+0x[0-9a-f]+)?\]", operands)
    return (found and found[1]) or ""


def _amd(code: Code, i: int, table: Table, flops_per_clk: Mapping[Matrix, float]) -> Op:
    each = code.instructions[i]
    group = table.group(each.opcode)
    busy = _busy(code, i, table)
    if each.opcode.startswith("v_") and (found := rates.amd_matrix(each.opcode, each.operands)):
        rate = flops_per_clk.get(found[0])
        busy = ((table.matrix_pipe, found[1] * table.schedulers / rate if rate else 0.0),)
    waits = tuple((tuple(sorted(names)), n) for names, n in each.waits or ())
    issue = group.issue_clk
    if each.opcode == "s_nop":
        issue *= 1 + int(each.operands or "0", 0)
    kind = "copy" if group.access == ("copy", "global") else group.latency or "block"
    signals = tuple((counter, kind) for counter in (group.counter or "").split())
    return Op(issue, busy, waits, signals, barrier=group.role == "barrier")


def _warm_up(ops: Sequence[Op]) -> int:
    """Iterations until the queues are as full as in the steady state: each wait then finds all that it may leave
    outstanding."""
    joined: Counter[str] = Counter(name for op in ops for name, _ in op.signals)
    joined.update(op.closes[1] for op in ops if op.closes)
    ahead = [limit // each for op in ops for names, limit in op.waits if (each := sum(joined[name] for name in names))]
    return min(MOST_ITERATIONS // 2, 2 + max(ahead, default=0))


def chain(ops: Sequence[Op], repeats: bool, latency: Mapping[str, float]) -> Chain:
    """Simulate instructions once; those of a loop, which `repeats`, to its steady state. `latency`: clocks by name."""
    queues: dict[str, deque[Pending]] = {}
    free: dict[str, float] = {}
    now = 0.0
    order = 0
    least = _warm_up(ops) if repeats else 1
    took: list[float] = []
    waits: list[Pending] = []
    for iteration in range(MOST_ITERATIONS if repeats else 1):
        waits = []
        start = now
        for op in ops:
            for names, limit in op.waits:
                if ended := _finished(queues, names, limit):
                    if ended[-1].kind not in ARITHMETIC:
                        waits.append(ended[-1])
                    now = max(now, *[each.done for each in ended])
            for pipe, _ in op.busy:
                if (frees := free.get(pipe, 0.0)) > now:  # the innermost loop: a call of `max` takes longer
                    now = frees
            for pipe, clk in op.busy:
                free[pipe] = now + clk
            order += 1
            for name, kind in op.signals:
                done = now + latency[kind]
                if name == "products":
                    free[name] = max(now, free.get(name, 0.0)) + op.beside_clk
                    done = free[name] + latency[kind]
                queues.setdefault(name, deque()).append(Pending(order, done, iteration, kind))
            if op.closes and (members := queues.pop(op.closes[0], None)):
                done = max(each.done for each in members)
                queues.setdefault(op.closes[1], deque()).append(members[-1]._replace(done=done, order=order))
            now += op.issue_clk + (latency["block"] if op.barrier else 0.0)
        took.append(now - start)
        if iteration >= least and (period := _period(took, least)):
            took = took[-period:]
            break
    return Chain(sum(took) / len(took), tuple(Wait(each.kind, iteration - each.iteration) for each in waits))


def _period(took: Sequence[float], depth: int) -> int:
    """Smallest period with which the last `depth` iteration times repeat; 0 if there is none up to `depth`."""
    for period in range(1, depth + 1):
        last = took[-depth - period :]
        if len(last) == depth + period and last[period:] == last[:-period]:
            return period
    return 0


def _finished(queues: dict[str, deque[Pending]], names: Sequence[str], limit: int) -> list[Pending]:
    """Remove the operations that a wait needs to be complete from its queues: all but the `limit` youngest, oldest
    first."""
    if len(names) == 1:
        queue = queues.get(names[0])
        return [queue.popleft() for _ in range(len(queue) - limit)] if queue else []
    held = sorted((each, name) for name in names for each in queues.get(name, ()))
    ended = held[: len(held) - limit] if limit else held
    for _, name in ended:
        queues[name].popleft()
    return [each for each, _ in ended]
