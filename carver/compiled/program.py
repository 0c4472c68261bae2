"""Evaluate the integer arithmetic of Triton's IR for all programs of a grid at once: loop counts, accesses, products.

Programs are lanes of NumPy columns. A loop's body is evaluated for pairs (program, iteration). If everything in it is
affine in the iteration, the first, one between and the last iteration are enough and exact; otherwise all are
evaluated. Of a large grid, some runs of consecutive programs are evaluated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.errors import ProblemError
from . import ttir
from .sectors import (
    TRUTH,
    arithmetic,
    function,
    layout,
    let_through,
    mapped,
    masks,
    reduced,
    reshaped,
    running,
    selected,
    where,
)
from .stretches import Stretch
from .trace import (
    Access,
    Counters,
    Dot,
    Frame,
    LoopTrace,
    Trace,
    bind,
    changed,
    covered,
    iterated,
    iterations,
    joined,
    matters,
    merged,
    read,
    sampled,
    spread,
    staying,
    steps,
    straight,
    undecided,
    waiting,
    waits,
    wanted_by,
    within,
)
from .ttir import Block, Function, Op, Region
from .turns import Turn, waits_of
from .values import (
    BINARY,
    DRAWN,
    NOWHERE,
    PRODUCTS,
    SECTOR_BYTES,
    Column,
    Described,
    Value,
    binary,
    broadcast,
    compared,
    constant,
    expanded,
    first_of,
    known,
    looked_up,
    ranked,
    rounded,
    scaled,
    transposed,
    uniform_box,
    unknown,
)
from .walks import Walks

MOST_BOUND = 2**62
"""Bounds of loops are smaller, so that their differences are integers of 64 bits."""
MOST_STEPS, MOST_PASSES = 20_000, 500_000
"""Iterations of a loop whose counters are not affine, one by one; of all programs, where its elements tell its end."""

TENSOR_SPACING = 2**34
"""Elements between the tensors whose addresses a table holds: each entry is taken to be a tensor of its own."""

_SAME = {"extsi", "extui", "trunci", "index_cast", "index_castui", "sitofp", "uitofp", "extf", "truncf"}
_BARE = {"splat", "broadcast", "bitcast", "assume", "ptr_to_int", "int_to_ptr", "addptr", "unsplat"}


def evaluate(
    text: str, args: Sequence[tuple[str, Any]], grid: tuple[int, int, int], values: Mapping[str, Any] | None = None
) -> Trace:
    """`args`: names and values of the arguments that are no constants, in order: numbers, else anything for pointers;
    descriptors as `values.Described`-to-be tuples (name, shape, strides). `values`: what integer tensors hold, by
    argument: one number for all, or an array as it lies in memory. Raises ProblemError where a loop or a branch depends
    on what the kernel loads and `values` does not say."""
    functions = ttir.parse(text)
    loops = any(ttir.loops(function.body) for function in functions.values())
    programs, ranges = sampled(math.prod(grid), loops, grid=grid if max(grid[1:]) > 1 else (), uneven=True)
    values, trace = {} if values is None else values, Trace(grid, len(programs), ranges)
    evaluator = _Evaluator(functions, grid, programs, values, trace)
    top = Frame(np.arange(len(programs)), np.ones(len(programs)), np.zeros(len(programs)))
    bind(top, entry := ttir.entry(functions), args)
    evaluator.function(top, entry.body)
    trace.accesses.extend(joined(parts) for parts in evaluator.parts.values())
    return replace(trace, untold={n for each in trace.accesses for n in each.loads} - {*values} - PRODUCTS - DRAWN)


class _Evaluator:
    """Runs the operations of a kernel for all programs at once, and records in `trace` what they do."""

    def __init__(
        self, functions: dict[str, Function], grid: tuple[int, int, int], programs: Any, values: Mapping[str, Any],
        trace: Trace,
    ) -> None:  # fmt: skip
        x, y, _ = grid
        self.functions, self.values, self.trace = functions, values, trace
        self.grid = dict(zip("xyz", grid, strict=True))
        self.ids = {"x": programs % x, "y": programs // x % y, "z": programs // (x * y)}
        self.places: dict[tuple[Any, ...], int] = {}
        """The record of each loop, product and access: by its operation and the loop that it is in."""
        self.parts: dict[int, list[Access]] = {}
        """Of each record of an access, what was recorded of it, by its number in `places`."""
        self.wanted: set[str] = set()
        """Names of the function that addresses, masks, bounds and branches depend on, anywhere in it."""
        self.counters = Counters(programs, x * y * grid[2])
        self.waits = any(op.name == "scf.while" and waits(op) for f in functions.values() for op in ttir.walk(f.body))
        self.halved = set[str]()
        """Pointers of atomics of which each is for half of the numbers."""

    # -- control flow

    def function(self, frame: Frame, body: Region) -> list[Any]:
        """Blocks of a function, forwards: the early returns of Triton's programs. What its returns give, merged."""
        outer, self.wanted = self.wanted, wanted_by(op for block in body for op in block.ops)
        self.halved |= ttir.halved(body)
        try:
            return self._function(frame, body)
        finally:
            self.wanted = outer

    def _function(self, frame: Frame, body: Region) -> list[Any]:
        blocks = {block.label or "^bb0": block for block in body}
        waiting: dict[str, list[tuple[Frame, list[Any]]]] = {next(iter(blocks)): [(frame, [])]}
        returned: list[tuple[Frame, list[Any]]] = []
        for label, block in blocks.items():
            arrivals = waiting.pop(label, [])
            if not arrivals:
                continue
            inner = self._arrived(frame, block, arrivals)
            last = self.block(inner, block)
            targets = ttir.targets(last)
            if last.name == "cf.cond_br":
                test = self.way(inner, last.operands[0], [ttir.following(blocks, to) for to, _ in targets])
                if test is None and not waiting:  # it only returns one number or another
                    loads = inner.get(last.operands[0]).loads
                    return [unknown(0, loads) for _ in body[-1].ops[-1].operands]
                test = np.ones(inner.lanes, bool) if test is None else test
                for wanted, (to, names) in zip((True, False), targets, strict=True):
                    if (which := np.flatnonzero(test == wanted)).size:
                        sub = inner.child(which)
                        waiting.setdefault(to, []).append((sub, [sub.get(n) for n in names]))
            elif last.name == "cf.br":
                to, names = targets[0]
                waiting.setdefault(to, []).append((inner, [inner.get(n) for n in names]))
            else:
                returned.append((inner, [inner.get(n) for n in last.operands]))
        if not returned or not returned[0][1]:
            return []
        groups = [(within(f, frame), values) for f, values in returned]
        return [merged(frame.lanes, [(i, v[n]) for i, v in groups]) for n in range(len(returned[0][1]))]

    def _arrived(self, frame: Frame, block: Block, arrivals: list[tuple[Frame, list[Any]]]) -> Frame:
        if len(arrivals) == 1:
            inner, values = arrivals[0]
            inner.env.update(zip(block.args, values, strict=True))
            return inner
        places = [within(f, frame) for f, _ in arrivals]
        every = np.sort(np.concatenate(places))
        inner = frame.child(every)
        for n, name in enumerate(block.args):
            parts = [(np.searchsorted(every, i), v[n]) for i, (_, v) in zip(places, arrivals, strict=True)]
            inner.env[name] = merged(len(every), parts)
        return inner

    def block(self, frame: Frame, block: Block) -> Op:
        for op in block.ops[:-1]:
            self.op(frame, op)
        last = block.ops[-1]
        if last.name in ("scf.yield", "scf.condition", "tt.return", "cf.br", "cf.cond_br"):
            return last
        self.op(frame, last)  # a region that ends without a terminator, as it is printed
        return Op("scf.yield", (), (), "")

    def condition(self, frame: Frame, name: str, what: str) -> Any:
        value = frame.get(name)
        if value.base is None:
            raise undecided(what, value, self.values)
        return np.broadcast_to(value.base, frame.lanes) != 0

    def way(self, frame: Frame, name: str, ways: Sequence[Iterable[Op]]) -> Any:
        """Which lanes take the first of two ways. Where what decides is not known, all take the one on which more is
        done; None if nothing is done on either."""
        if frame.get(name).base is not None:
            return self.condition(frame, name, "a branch")
        done = [sum(map(matters, way)) for way in ways]
        if not any(done):
            return None
        self.trace.assumed = True
        return np.full(frame.lanes, done[0] >= sum(done[1:]))

    def branch(self, frame: Frame, op: Op) -> None:
        test = self.way(frame, op.operands[0], [ttir.walk(region) for region in op.regions])
        if test is None:
            frame.env.update((r, unknown(0, frame.get(op.operands[0]).loads)) for r in op.results)
            return
        parts: list[tuple[Any, list[Any]]] = []
        for wanted, region in zip((True, False), op.regions, strict=False):
            which = np.flatnonzero(test == wanted)
            if which.size:
                inner = frame.child(which)
                last = self.block(inner, region[0])
                parts.append((which, [inner.get(n) for n in last.operands]))
        for n, result in enumerate(op.results):
            frame.env[result] = merged(frame.lanes, [(i, values[n]) for i, values in parts])

    # -- loops

    def loop(self, frame: Frame, name: str, op: Op, entered: Any) -> int:
        """The record of a loop, made when it is first met."""
        place = self.places.setdefault((id(op), frame.loop), len(self.trace.loops))
        if place == len(self.trace.loops):
            empty = np.zeros(self.trace.programs)
            self.trace.loops.append(LoopTrace(name, frame.loop, empty, empty.copy(), where=op.where))
        np.add.at(self.trace.loops[place].entries, frame.program[entered], frame.weight[entered])
        return place

    def for_loop(self, frame: Frame, op: Op) -> None:
        iv, *bounds = op.operands[:4]
        carried = list(zip(op.operands[4::2], op.operands[5::2], strict=True))
        low, high, step = (frame.get(n) for n in bounds)
        what = f"how often the loop over {iv.lstrip('%')}{op.where and f' ({op.where})'} runs"
        for bound in (low, high, step):
            if bound.base is None:
                raise undecided(what, bound, self.values)
            if not (np.abs(bound.base) < MOST_BOUND).all():  # not of NaN either
                odd = bound.base[~(np.abs(bound.base) < MOST_BOUND)][0]
                raise ProblemError(f"{what} cannot be counted: one of its bounds is {odd}")
        span = np.broadcast_to(high.base - low.base, frame.lanes)
        trips = np.maximum(-(-span // np.maximum(step.base, 1)), 0).astype(np.int64)
        place = self.loop(frame, iv.lstrip("%"), op, trips > 0)
        np.add.at(self.trace.loops[place].trips, frame.program, trips * frame.weight)
        self.trace.loops[place].step = int(step.base.flat[0]) if np.ptp(step.base) == 0 else 0
        body = op.regions[0][0]
        initial = [frame.get(init) for _, init in carried]
        changes = steps(body, [name for name, _ in carried], iv, self.wanted)
        kinds = {kind for kind, _ in changes}
        if "odd" in kinds or ("later" in kinds and trips.max(initial=0) <= MOST_STEPS):
            final = self._one_by_one(frame, body, place, [iv, *(n for n, _ in carried)], initial, low, step, trips)
            frame.env.update(zip(op.results, final, strict=True))
            return
        entered, passed = np.flatnonzero(trips > 0), np.flatnonzero(trips == 0)
        if not entered.size:
            frame.env.update(zip(op.results, initial, strict=True))
            return
        affine = straight(body, [iv, *(n for n, _ in carried)], self.wanted)
        nests = ttir.loops((body,))
        index, at, weight, ends = iterations(trips, entered, affine, nests)
        inner = frame.child(
            index, loop=place, weight=frame.weight[index] * weight, ends=None if nests else (*ends, at),
            round=at.astype(float) if nests and frame.loop < 0 else frame.round[index],
        )  # fmt: skip
        inner.env[iv] = Value(spread(low.base, index) + spread(step.base, index) * at)
        for op_inside in staying(body, [n for n, _ in carried], iv):
            self.op(inner, op_inside)
        deltas = [inner.number(delta) if kind == "linear" else None for kind, delta in changes]
        for (name, _), value, (kind, _), by in zip(carried, initial, changes, deltas, strict=True):
            start = value.take(index)
            if by is not None:
                start = binary("addi", start, scaled(ranked(by, start), at), ())
            elif kind != "same":
                start = unknown(len(start.coef), NOWHERE if kind == "linear" else start.loads)
            inner.env[name] = start
        last = self.block(inner, body)
        for n, (result, value, by) in enumerate(zip(op.results, initial, deltas, strict=True)):
            end = value
            if by is not None:
                moved = scaled(ranked(by.take(np.searchsorted(index, entered)), value), trips[entered])
                parts = [(entered, binary("addi", value.take(entered), moved, ()))]
                parts += [(passed, value.take(passed))] if passed.size else []
                end = merged(frame.lanes, parts)
            elif changes[n][0] != "same":
                end = unknown(len(value.coef), inner.get(last.operands[n]).loads)
            frame.env[result] = end

    def _one_by_one(
        self, frame: Frame, body: Block, place: int, names: list[str], values: list[Any], low: Value, step: Value,
        trips: Any,
    ) -> list[Any]:  # fmt: skip
        """The iterations in order, for counters that are carried from one to the next in another way than a sum."""
        most = int(trips.max(initial=0))
        if most > MOST_STEPS:
            raise ProblemError(f"the loop over {names[0]} carries what is not affine for {most:,} iterations; too many")
        nests = ttir.loops((body,))
        for t in range(most):
            which = np.flatnonzero(trips > t)
            rounds = np.full(len(which), float(t)) if frame.loop < 0 and nests else frame.round[which]
            inner = frame.child(which, loop=place, round=rounds)
            inner.env[names[0]] = Value(spread(low.base, which) + spread(step.base, which) * t)
            inner.env.update((n, v.take(which)) for n, v in zip(names[1:], values, strict=True))
            last = self.block(inner, body)
            values = iterated(frame.lanes, which, values, [inner.get(n) for n in last.operands])
        return values

    def while_loop(self, frame: Frame, op: Op) -> None:
        before, after = op.regions[0][0], op.regions[1][0]
        names, inits, nests = op.operands[0::2], op.operands[1::2], ttir.loops((after,))
        values = [frame.get(n) for n in inits]
        if waits(op):  # no values tell for how long: what it waits for is taken to be there
            inner = frame.child(np.arange(frame.lanes))
            inner.env.update(zip(names, values, strict=True))
            last = self.block(inner, before)
            results = [inner.get(n) for n in last.operands[1:]]
            self.trace.turns += waits_of(inner, before.ops)
            test = inner.get(last.operands[0])
            if test.base is None or test.base.any():  # what its tensors held before the launch is not what ends it
                held = frozenset(read((inner, before), (inner, after)))
                results = [unknown(len(v.coef), v.loads | held) for v in results]
            frame.env.update(zip(op.results, results, strict=True))
            return
        finals: list[Any] = []
        active, place, passes = np.arange(frame.lanes), -1, 0
        for t in range(MOST_STEPS):
            test_frame = frame.child(active)
            test_frame.env.update((n, v.take(active)) for n, v in zip(names, values, strict=True))
            last = self.block(test_frame, before)
            told = test_frame.get(last.operands[0]).base is not None and passes < MOST_PASSES
            if not told and any(each.name == "tt.reduce" for each in before.ops):  # until no element is left, whenever
                self.trace.assumed, test = True, np.full(len(active), t == 0)
            else:
                test = self.condition(test_frame, last.operands[0], "how often a while loop runs")
            passed = [test_frame.get(n) for n in last.operands[1:]]
            finals = passed if not finals else iterated(frame.lanes, active, finals, passed)
            going = np.flatnonzero(test)
            if place < 0:
                place = self.loop(frame, "while", op, active[going])
                self.trace.loops[place].swaps = any(each.name == "tt.atomic_cas" for each in after.ops)
            active, passes = active[going], passes + len(going)
            if not active.size:
                break
            np.add.at(self.trace.loops[place].trips, frame.program[active], frame.weight[active])
            rounds = np.full(len(active), float(t)) if frame.loop < 0 and nests else frame.round[active]
            inner = frame.child(active, loop=place, round=rounds)
            inner.env.update((n, v.take(going)) for n, v in zip(after.args, passed, strict=True))
            last = self.block(inner, after)
            carried = [inner.get(n) for n in last.operands]
            if not changed([v.take(active) for v in values], carried, len(active)).all():
                raise waiting(test_frame, inner, before, after)
            values = iterated(frame.lanes, active, values, carried)
        else:
            raise ProblemError(f"a while loop runs more than {MOST_STEPS:,} times; its kernel cannot be followed")
        frame.env.update(zip(op.results, finals, strict=True))

    def op(self, frame: Frame, op: Op) -> None:
        name = op.name.partition(".")[2].removeprefix("experimental_")
        match name:
            case "for":
                return self.for_loop(frame, op)
            case "while":
                return self.while_loop(frame, op)
            case "if":
                return self.branch(frame, op)
            case "call":
                return self.call(frame, op)
            case "dot" | "dot_scaled":
                self.dot(frame, op)
            case "load" | "store" | "atomic_rmw" | "atomic_cas":
                self.access(frame, op, name)
            case "exp" | "exp2" if frame.loop >= 0 and (of := ttir.types_of(op.types)[-1]).element == "f32":
                self.trace.loops[frame.loop].exponentials += math.prod(of.shape) * float(frame.weight.sum())
            case "addf" | "subf" | "mulf" if frame.loop >= 0 and (of := ttir.types_of(op.types)[-1]).element == "f32":
                # a sign is part of what takes it
                if name != "subf" or (first := frame.number(op.operands[0])) is None or np.any(first.base):
                    self.trace.loops[frame.loop].float_flops += math.prod(of.shape) * float(frame.weight.sum())
            case "reduce" | "scan" if frame.loop >= 0:
                self.trace.loops[frame.loop].joins = True
            case _ if name.startswith("descriptor_"):
                self.described(frame, op, name)
        if not op.results:
            return None
        try:
            value = self.value(frame, op, name)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise ProblemError(f"Triton's IR has an operation that cannot be followed, {op.name} {op.text}") from error
        rank = len(value.coef) if isinstance(value, Value) else 0
        frame.env.update({extra: unknown(rank) for extra in op.results[1:]} | {op.results[0]: value})
        return None

    def value(self, frame: Frame, op: Op, name: str) -> Any:
        """What an operation gives; unknown where it is no arithmetic of integers."""
        given = [frame.get(n) for n in op.operands]
        types = ttir.types_of(op.types)
        out = types[-1] if types else ttir.Type((), "i32")
        rank = len(out.shape)
        if name in BINARY and len(given) == 2:
            if out.element == "i1" and rank:
                return masks(name, given[0], given[1], out.shape)
            if len(given[0].coef) != rank or len(given[1].coef) != rank:  # of results that are not told apart
                return unknown(rank, given[0].loads | given[1].loads)
            return arithmetic(name, given[0], given[1], out.shape, op.results[0], out.element == "i32")
        match name:
            case "constant":
                return constant(op.text, rank)
            case "get_program_id":
                return Value(self.ids[op.text[0]][frame.program])
            case "get_num_programs":
                return known(self.grid[op.text[0]])
            case "make_range":
                start = op.text.partition("start = ")[2].split(" ")[0]
                return Value(np.array([int(start)]), (1.0,))
            case "addptr":
                if isinstance(given[1], Value) and given[1].source is not None:
                    self.trace.alike.add(given[1].source)
                return binary("addi", given[0], ranked(given[1], given[0]), out.shape)
            case "splat":
                v = given[0]
                return replace(v, coef=(0.0,) * rank, box=uniform_box(v, out), pieces=(), floors=(), exact=None)
            case "broadcast":
                return broadcast(given[0], types[0].shape, out.shape)
            case "expand_dims":
                return expanded(given[0], op.axis)
            case "trans":
                return transposed(given[0], op.text)
            case "cmpi" | "cmpf":
                extents, predicate = types[0].shape if types else (), op.text.split(",")[0].strip()
                if name == "cmpf":  # ordered or not: numbers that are known are no NaN
                    predicate = predicate[1:] if predicate[1:] in ("eq", "ne") else f"s{predicate[1:]}"
                return compared(predicate, given[0], given[1], extents)
            case "reshape":
                return reshaped(given[0], types[0].shape, out.shape, frame.lanes)
            case "reduce" if len(given) == 1:
                return reduced(given[0], op.axis, types[0].shape, op.combines, frame.lanes)
            case _ if given and (by := function(name, types)):
                return mapped(by, given[0], out.shape)
            case "extui" if types[0].element == "i1" and rank:
                return replace(given[0], root=(TRUTH, object()))
            case "scan" if len(given) == 1:
                sums = op.combines == {"addi"}
                return running(given[0], op.axis, out.shape) if sums else unknown(rank, given[0].loads)
            case "select":
                return selected(given[0], given[1], given[2], out)
            case "atomic_rmw" if not rank and (turn := self.counters.draw(frame, op, given, self.loaded(given[0], ()))):
                self.trace.assumed = True
                return turn
            case "load" | "atomic_rmw" | "atomic_cas":
                frame.env[f"{op.results[0]} from"] = given[0]
                told = self.loaded(given[0], out.shape)
                return told if name != "load" or len(given) < 3 else where(given[1], told, given[2], out.shape)
            case "int_to_ptr" if not rank and (table := frame.number(f"{op.operands[0]} from")) and table.source:
                return Value(np.asarray(table.base) * TENSOR_SPACING, source=f"{table.source}[]")
            case "make_tensor_descriptor":
                n = (len(given) - 1) // 2
                return Described(given[0], tuple(given[1 : 1 + n]), tuple(given[1 + n : 1 + 2 * n]))
            case "ceil" | "floor" | "fptosi" | "fptoui" if given and given[0].base is not None:
                return rounded(given[0], getattr(np, "trunc" if name.startswith("fp") else name))
        if (name in _SAME or name in _BARE) and given:
            return given[0]
        if name.startswith("dot"):
            return unknown(rank, PRODUCTS)
        return unknown(rank, frozenset().union(*(v.loads for v in given if isinstance(v, Value))))

    def loaded(self, pointer: Any, extents: tuple[int, ...]) -> Value:
        """What a tensor holds, as far as `values` says."""
        rank = len(extents)
        if not isinstance(pointer, Value) or pointer.source is None:
            return unknown(rank)
        if pointer.source not in self.values:
            return unknown(rank, frozenset([pointer.source]))
        held = np.asarray(self.values[pointer.source])
        if held.ndim == 0:
            return replace(known(held.item(), rank), source=pointer.source)
        if pointer.base is None and pointer.exact is None:
            return unknown(rank, pointer.loads or frozenset([pointer.source]))
        return looked_up(held.reshape(-1), pointer, extents)

    def call(self, frame: Frame, op: Op) -> None:
        function = self.functions.get(op.text.partition("@")[2].partition("(")[0].strip('"'))
        results: list[Any] = []
        if function is not None and function.body:
            inner = frame.child(np.arange(frame.lanes))
            given = [frame.get(n) for n in op.operands]
            inner.env.update(zip((name for name, _ in function.params), given, strict=False))
            results = self.function(inner, function.body)
        results += [unknown()] * (len(op.results) - len(results))
        frame.env.update(zip(op.results, results, strict=False))

    def dot(self, frame: Frame, op: Op) -> None:
        factors, _, sums = op.types.partition("->")
        left, right = (ttir.types_of(each)[0] for each in factors.split(" * "))  # a type of scales may follow each
        [out] = ttir.types_of(sums)
        *batch, _, k = left.shape
        place = self.places.setdefault((id(op), frame.loop), len(self.trace.dots))
        if place == len(self.trace.dots):
            if re.search(r"\blhs = e2m1\b", op.text) and "lhs_k_pack = false" not in op.text:  # two to a byte
                k *= 2
            shape = (math.prod(batch) * out.shape[-2], out.shape[-1], k)
            types = left.element, right.element, out.element
            self.trace.dots.append(Dot(frame.loop, shape, types, np.zeros(self.trace.programs)))
        np.add.at(self.trace.dots[place].times, frame.program, frame.weight)

    def access(self, frame: Frame, op: Op, name: str) -> None:
        kind = "atomic" if name.startswith("atomic") else name
        given = [frame.get(n) for n in op.operands]
        where = {"load": 1, "store": 2, "atomic_rmw": 2, "atomic_cas": 9}[name]
        mask = given[where] if len(given) > where and isinstance(given[where], Value) else None
        types = ttir.types_of(op.types)
        pointers = next((t for t in types if t.pointer), types[0])
        pointer = given[0] if isinstance(given[0], Value) else unknown(len(pointers.shape))
        if kind != "load" and self.waits and pointer.base is not None and not pointers.shape:
            word = np.broadcast_to(pointer.base, frame.lanes)
            self.trace.turns.append(Turn(pointer.source, frame.program, word, "store"))
        kept, most = let_through(mask, pointers.shape, frame.lanes), covered(mask, pointers.shape)
        self.record(frame, op, kind, "pointer", pointer, pointers.shape, pointers.bits / 8, kept, most, mask)

    def described(self, frame: Frame, op: Op, name: str) -> None:
        kinds = {"descriptor_load": "load", "descriptor_gather": "load", "descriptor_reduce": "atomic"}
        kind = kinds.get(name, "store")
        types = [t for t in ttir.types_of(op.types) if t.shape]
        tile = types[-1]
        descriptor = frame.get(op.operands[0])
        if not isinstance(descriptor, Described) or name in ("descriptor_gather", "descriptor_scatter"):
            lost = unknown(len(tile.shape))
            return self.record(frame, op, kind, "descriptor", lost, tile.shape, tile.bits / 8, np.ones(1))
        block, base = types[0].shape, descriptor.pointer  # a load may leave out the extents that are 1
        kept: Column = np.ones(1)
        coef, places = [], map(frame.get, op.operands[1:])
        for place, extent, stride, n in zip(places, descriptor.shape, descriptor.strides, block, strict=False):
            base = binary("addi", base, binary("muli", place, stride, ()), ())
            if place.base is not None and extent.base is not None:
                kept = kept * np.clip(extent.base - place.base, 0, n) / n
            coef.append(first_of(stride.base) if stride.base is not None else np.nan)
        pointer = Value(base.base, tuple(coef), descriptor.pointer.source)
        return self.record(frame, op, kind, "descriptor", pointer, block, tile.bits / 8, kept)

    def walk(self, frame: Frame, start: Any) -> tuple[Any, Any, Any, Any] | None:
        """First and last lanes, trips and stride of an access that steps evenly through a loop; None of others."""
        if frame.ends is None:
            return None
        first, last, trips, at = frame.ends
        stride = (start[last] - start[first]) / np.maximum(trips - 1, 1)
        even = np.repeat(start[first], last - first + 1) + np.repeat(stride, last - first + 1) * at
        return (first, last, trips, stride) if (np.isnan(start) | (abs(start - even) < 0.5)).all() else None

    def record(
        self, frame: Frame, op: Op, kind: str, path: str, pointer: Value, shape: tuple[int, ...], item: float,
        kept: Column, most: tuple[float, ...] = (), mask: Value | None = None,
    ) -> None:  # fmt: skip
        start, beside = (np.full(frame.lanes, np.nan) if column is None else np.broadcast_to(column, frame.lanes) * 1.0
                         for column in (pointer.base, pointer.beside))  # fmt: skip
        kept = np.broadcast_to(kept, frame.lanes)
        sure = mask is None or (mask.box is not None and not mask.bound) or (mask.base is not None and mask.uniform)
        leads = mask is None or all(ranged is None or np.all(ranged[0] <= 0) for ranged in mask.box or ())
        walked = self.walk(frame, start)
        if walked is None:
            columns = start, np.zeros(frame.lanes), np.ones(frame.lanes), kept, frame.program, frame.round, frame.weight
        else:
            first, last, trips, stride = walked
            beside = beside[first]
            groups = np.repeat(np.arange(len(first)), last - first + 1)
            total = np.bincount(groups, frame.weight, len(first))
            mean = np.bincount(groups, kept * frame.weight, len(first)) / total
            columns = start[first], stride, trips, mean, frame.program[first], frame.round[first], total / trips
        passes = walked or (frame.ends and (*frame.ends[:3], np.full(len(frame.ends[0]), np.nan)))
        pointer, pieces, placed, places = layout(kind, pointer, mask, shape, frame.lanes, passes, item)
        coef = tuple(first_of(c) for c in pointer.coef) or (0.0,) * len(shape)
        access = Access(
            **vars(Walks(*(np.asarray(column, float) for column in columns))), kind=kind, path=path, shape=shape,
            argument=pointer.source, loop=frame.loop, item_bytes=item, coef=coef, pieces=pieces, covered=most,
            floors=pointer.floors, loads=pointer.loads, beside=beside, root=pointer.root, placed=placed, drawn=places,
            settled=sure, leads=leads,
        )  # fmt: skip
        if op.operands[0] in self.halved:  # a sector is worked on where one of its words is of that half
            words = min(Stretch.of(access, SECTOR_BYTES).run_bytes, SECTOR_BYTES) / item
            access = replace(access, kept=access.kept * (1.0 - 0.5 ** max(words, 1.0)))
        which = id(op), frame.loop, pointer.source  # a loop may carry a pointer that becomes another tensor's
        self.parts.setdefault(self.places.setdefault(which, len(self.places)), []).append(access)
